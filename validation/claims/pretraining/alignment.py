"""Measures of task alignment are traces of matrices, and resolvents are those of random ones.

Kernel alignment and trace ratio equal traces of explicit covariances in a random basis.
The resolvent alignment, and the roots of the derived polynomials of the resolvent and of the
effective ridge, equal those of sample covariances of random tasks, extrapolated to infinite
dimension: the effective ridge of a sample solves the fixed point with the resolvent of that
sample.

Source: {letey2025}: alignment of tasks and tests; polynomials derived in the documentation.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import (
    JointSpectrum,
    cka,
    derive_effective_ridge,
    derive_resolvent,
    resolvent_alignment,
    trace_ratio,
)
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, limit, run

# Eigenvalues of training tasks, equally frequent.
TASK = (0.4, 1.6)
# Variances of tests along their directions.
TEST = (1.4, 0.6)
# Variance of the label noise.
RHO = 0.1
# Ratios and ridge of the comparisons.
POINTS = (
    {"tau": 2.0, "alpha": 2.0, "kappa": 1.5, "ridge": 0.0},
    {"tau": 0.5, "alpha": 1.0, "kappa": 0.5, "ridge": 0.0},
    {"tau": 1.5, "alpha": 4.0, "kappa": 0.5, "ridge": 0.3},
)
# Joint spectrum of tasks and tests.
SPECTRUM = JointSpectrum.of_matrices(TASK, TEST)
# Number of sample covariances by dimension.
SAMPLES = {
    "quick": {24: 120, 48: 80, 96: 40},
    "medium": {24: 500, 48: 300, 96: 150},
    "full": {24: 4000, 48: 3000, 96: 1500, 192: 400},
}
# Words for what functions of the theory give.
WORDS = {
    "derive_resolvent": "resolvent at q",
    "resolvent_alignment": "resolvent alignment",
    "derive_effective_ridge": "effective ridge",
}
# Relative difference of numbers that are equal but for rounding.
ROUNDING = 1e-12


@named_cell("sampled_resolvents")
def sampled_resolvents(
    *,
    dim: int,
    tau: float,
    alpha: float,
    kappa: float,
    ridge: float,
    count: int,
    rng: SeedSequence,
) -> np.ndarray:
    """Resolvent at q, resolvent alignment and effective ridge of samples, shape (3, count)."""
    generator = np.random.default_rng(rng)
    q = (1 + RHO) / alpha
    tasks = round(kappa * dim)
    task = np.repeat(TASK, dim // 2)
    test = np.repeat(TEST, dim // 2)
    draws = []
    for _ in range(count):
        sample = generator.standard_normal((tasks, dim)) * np.sqrt(task)
        eigenvalues, vectors = np.linalg.eigh(sample.T @ sample / tasks)
        shift = q + np.maximum(eigenvalues, 0)

        def excess(xi: float, shift: np.ndarray = shift) -> float:
            return float(xi * np.mean(1 / (shift + xi))) - 1 + tau - tau * ridge / xi

        xi = brentq(excess, 1e-9, 1e3, xtol=1e-13) if effective(tau, ridge) else 0.0
        aligned = np.mean(test @ vectors**2 / (shift + xi))
        draws.append((np.mean(1 / shift), aligned, xi))
    return np.array(draws).T


def effective(tau: float, ridge: float) -> bool:
    """Whether the effective ridge is positive."""
    return ridge > 0 or tau < 1


def real_roots(equation: Any, unknown: str, values: Mapping[str, float]) -> np.ndarray:
    """Real roots of a polynomial equation, given its other symbols by their names."""
    import sympy

    polynomial = equation.lhs - equation.rhs
    symbols = {symbol.name: symbol for symbol in polynomial.free_symbols}
    given = polynomial.subs({symbols[name]: value for name, value in values.items()})
    roots = np.roots(sympy.Poly(given, symbols[unknown]).all_coeffs())
    return np.real(roots[np.abs(np.imag(roots)) < ROUNDING * np.abs(roots)])


def expected(point: dict[str, float], steps: tuple[Any, Any]) -> dict[str, float]:
    """The theory of a point by function: roots of two polynomials, and the alignment."""
    tau = point["tau"]
    kappa = point["kappa"]
    ridge = point["ridge"]
    q = (1 + RHO) / point["alpha"]
    M = real_roots(steps[0], "M", {"x": q, "kappa": kappa})
    inflation = 1 - (1 - q * M) / kappa
    xi = real_roots(steps[1], "xi", {"tau": tau, "q": q, "kappa": kappa, "lambda": ridge})
    aligned = resolvent_alignment(**point, rho=RHO, spectrum=SPECTRUM)
    values = {
        "derive_resolvent": M[(inflation > 0) & (inflation < 1)],
        "resolvent_alignment": aligned,
    }
    if effective(tau, ridge):
        values["derive_effective_ridge"] = xi[(xi > 0) & ((1 - tau) * xi + tau * ridge > 0)]
    return {name: float(np.squeeze(value)) for name, value in values.items()}


def traces() -> tuple[JointSpectrum, dict[str, float]]:
    """Joint spectrum of covariances that share a random basis, and their alignment by traces."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    task = basis * np.repeat(TASK, 20) @ basis.T
    test = basis * np.repeat(TEST, 20) @ basis.T
    norms = np.linalg.norm(task) * np.linalg.norm(test)
    cka = float(np.trace(task @ test) / norms)
    ratio = float(np.trace(np.linalg.solve(task, test)) / 40)
    return JointSpectrum.of_matrices(task, test), {"cka": cka, "trace_ratio": ratio}


def polynomials() -> tuple[Any, Any]:
    """Derived equations of the resolvent and of the effective ridge."""
    levels = dict.fromkeys(TASK, 0.5)
    return derive_resolvent(levels).steps[2][1], derive_effective_ridge(levels).steps[-1][1]


def rows(effort: Effort) -> Rows:
    """Traces, and the limits of samples."""
    matrices = call(traces)
    steps = call(polynomials)
    for function in (cka, trace_ratio):
        name = function.__name__
        theory = call(function, matrices[0])
        value = matrices[1][name]
        yield exact(f"{name} of matrices", theory, value, relative=ROUNDING)
    for number, point in enumerate(POINTS):
        text = " ".join(f"{name}={value:g}" for name, value in point.items())
        names = list(WORDS) if effective(point["tau"], point["ridge"]) else list(WORDS)[:2]
        theory = call(expected, point, steps)
        runs = {
            dim: run(sampled_resolvents, dim=dim, count=count, **point)[: len(names)]
            for dim, count in effort.by_size(**SAMPLES).items()
        }
        yield limit(
            {f"{WORDS[name]}, {text}": theory[name] for name in names},
            runs,
            order=1,
            of=names,
            draws=number,
            fit_label=f"chi-square, {text}",
        )


claim = Claim.of("task-alignment", __doc__, rows, figure=False)
