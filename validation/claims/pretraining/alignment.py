"""Measures of task alignment are traces of matrices, and resolvents are those of random ones.

Kernel alignment and trace ratio equal traces of explicit covariances in a random basis.
The resolvent alignment, and the roots of the derived polynomials of the resolvent and of the
effective ridge, equal those of sample covariances of random tasks, extrapolated to infinite
dimension: the effective ridge of a sample solves the fixed point with the resolvent of that
sample.

Source: {letey2025}: alignment of tasks and tests; polynomials derived in the documentation.
"""

from typing import Any

import numpy as np
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import (
    JointSpectrum,
    cka,
    derive_effective_ridge,
    derive_resolvent,
    resolvent_alignment,
    trace_ratio,
)
from iclimit.drawing import COLOURS, Figure, draw_sizes, finish, panels
from iclimit.results import Estimate
from iclimit.statistics import extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Comparison,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    compare_p_value,
)

TASK, TEST = (0.4, 1.6), (1.4, 0.6)
"""Eigenvalues of training tasks, equally frequent, and variances of tests along them."""
RHO = 0.1
POINTS = (
    {"tau": 2.0, "alpha": 2.0, "kappa": 1.5, "ridge": 0.0},
    {"tau": 0.5, "alpha": 1.0, "kappa": 0.5, "ridge": 0.0},
    {"tau": 1.5, "alpha": 4.0, "kappa": 0.5, "ridge": 0.3},
)
SPECTRUM = JointSpectrum.of_matrices(TASK, TEST)
SAMPLES: dict[Preset, dict[int, int]] = {
    "quick": {24: 120, 48: 80, 96: 40},
    "medium": {24: 500, 48: 300, 96: 150},
    "full": {24: 4000, 48: 3000, 96: 1500, 192: 400},
}
"""Number of sample covariances by dimension."""
ORDER = 1
"""Of the fit in 1/d."""
WORDS = {
    "derive_resolvent": "resolvent at q",
    "resolvent_alignment": "resolvent alignment",
    "derive_effective_ridge": "effective ridge",
}
ROUNDING = 1e-12


def sampled_resolvents(
    *, dim: int, tau: float, alpha: float, kappa: float, ridge: float, count: int, rng: Any
) -> np.ndarray:
    """Resolvent at q, resolvent alignment and effective ridge of samples, shape (3, count)."""
    generator, q, tasks = np.random.default_rng(rng), (1 + RHO) / alpha, round(kappa * dim)
    task, test = (np.repeat(values, dim // 2) for values in (TASK, TEST))
    found = []
    for _ in range(count):
        sample = generator.standard_normal((tasks, dim)) * np.sqrt(task)
        eigenvalues, vectors = np.linalg.eigh(sample.T @ sample / tasks)
        shift = q + np.maximum(eigenvalues, 0)

        def excess(xi: float, shift: np.ndarray = shift) -> float:
            return float(xi * np.mean(1 / (shift + xi))) - 1 + tau - tau * ridge / xi

        xi = brentq(excess, 1e-9, 1e3, xtol=1e-13) if effective(tau, ridge) else 0.0
        aligned = np.mean(test @ vectors**2 / (shift + xi))
        found.append((np.mean(1 / shift), aligned, xi))
    return np.array(found).T


def effective(tau: float, ridge: float) -> bool:
    """Whether the effective ridge is positive."""
    return ridge > 0 or tau < 1


def cells(preset: Preset) -> dict[Any, Cell]:
    """Samples by point and dimension."""
    return {
        (number, dim): Cell.of(sampled_resolvents, dim=dim, count=count, **point)
        for number, point in enumerate(POINTS)
        for dim, count in SAMPLES[preset].items()
    }


def real_roots(equation: Any, unknown: str, **values: float) -> np.ndarray:
    """Real roots of a polynomial equation, given its other symbols by their names."""
    import sympy

    polynomial = equation.lhs - equation.rhs
    symbols = {symbol.name: symbol for symbol in polynomial.free_symbols}
    given = polynomial.subs({symbols[name]: value for name, value in values.items()})
    roots = np.roots(sympy.Poly(given, symbols[unknown]).all_coeffs())
    return np.real(roots[np.abs(np.imag(roots)) < ROUNDING * np.abs(roots)])


def expected(point: dict[str, float], steps: tuple[Any, Any]) -> dict[str, float]:
    """The theory of a point by function: roots of two polynomials, and the alignment."""
    tau, alpha, kappa, ridge = (point[name] for name in ("tau", "alpha", "kappa", "ridge"))
    q = (1 + RHO) / alpha
    M = real_roots(steps[0], "M", x=q, kappa=kappa)
    inflation = 1 - (1 - q * M) / kappa
    xi = real_roots(steps[1], "xi", **{"tau": tau, "q": q, "kappa": kappa, "lambda": ridge})
    aligned = resolvent_alignment(**point, rho=RHO, spectrum=SPECTRUM)
    found = {
        "derive_resolvent": M[(inflation > 0) & (inflation < 1)],
        "resolvent_alignment": aligned,
    }
    if effective(tau, ridge):
        found["derive_effective_ridge"] = xi[(xi > 0) & ((1 - tau) * xi + tau * ridge > 0)]
    return {name: float(np.squeeze(value)) for name, value in found.items()}


def compare_traces() -> list[Comparison]:
    """Kernel alignment and trace ratio of covariances that share a random basis."""
    rng = np.random.default_rng(0)
    C, D = (np.repeat(values, 20) for values in (TASK, TEST))
    basis = np.linalg.qr(rng.standard_normal((40, 40)))[0]
    task, test = (basis * C @ basis.T, basis * D @ basis.T)
    law = JointSpectrum.of_matrices(task, test)
    norms = np.linalg.norm(task) * np.linalg.norm(test)
    traces = {
        "cka": (cka(law), np.trace(task @ test) / norms),
        "trace_ratio": (trace_ratio(law), np.trace(np.linalg.solve(task, test)) / 40),
    }
    return [
        compare(f"{name} of matrices", *pair, relative=ROUNDING, of=name)
        for name, pair in traces.items()
    ]


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare traces, and the limits of samples."""
    rows, fits = compare_traces(), []
    levels = dict.fromkeys(TASK, 0.5)
    steps = derive_resolvent(levels).steps[2][1], derive_effective_ridge(levels).steps[-1][1]
    sizes = [*SAMPLES[preset]]
    for number, point in enumerate(POINTS):
        theory = expected(point, steps)
        runs = [results[number, dim][: len(theory)] for dim in sizes]
        fit = extrapolate_runs(sizes, runs, order=ORDER)
        text = " ".join(f"{name}={value:g}" for name, value in point.items())
        labels = {f"{WORDS[of]}, {text}": value for of, value in theory.items()}
        rows += compare_limits(labels, fit, of=[*theory], draws=number)
        rows.append(compare_p_value(f"chi-square, {text}", fit.p_value))
        fits.append((theory, fit, runs))

    def draw(figure: Figure) -> None:
        axes = panels(figure, len(POINTS), width=9.6, height=3.4)
        for ax, point, (theory, fit, runs) in zip(axes, POINTS, fits, strict=True):
            for quantity, ((of, limit), colour) in enumerate(
                zip(theory.items(), COLOURS, strict=False)
            ):
                estimates = [Estimate.of(run[quantity]) for run in runs]
                draw_sizes(
                    ax,
                    sizes,
                    estimates,
                    colour,
                    limit=limit,
                    fit=fit,
                    quantity=quantity,
                    label=WORDS[of],
                )
            tau, kappa, ridge = (point[name] for name in ("tau", "kappa", "ridge"))
            title = rf"$\tau = {tau:g},\ \kappa = {kappa:g},\ \lambda = {ridge:g}$"
            finish(ax, "$1/d$", "mean over samples", title=title)
        axes[-1].legend()

    return Verdict(rows, draw)


claim = Claim.of("task-alignment", __doc__, cells, judge, figure=False)
