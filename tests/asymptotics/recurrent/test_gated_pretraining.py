"""Tests with other gates: a dense sum over the spectrum, finite sizes, edges, many digits."""

import mpmath
import numpy as np
import pytest
import sympy
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import (
    finite_size_errors,
    icl_error,
    idg_error,
    structured_errors,
)
from iclimit.asymptotics.recurrent import (
    effective_context,
    gated_context,
    gated_pretraining_errors,
)

TAU = {"tau": 1.6, "alpha": 2.0, "kappa": 1.5, "rho": 0.1}
GATED = TAU | {"forgetting": 0.8, "drift": 0.2, "correlation": 0.4, "ridge": 0.05}
TESTS = [
    {"test_forgetting": 0.0, "test_drift": 0.0},
    {"test_alpha": 5.0, "test_forgetting": 0.3, "test_correlation": -0.6, "test_rho": 0.5},
    {"test_alpha": 0.6, "test_drift": 1.5, "running_sum": True},
]
SETTINGS = [
    GATED,
    GATED | {"tau": 0.5, "ridge": 0.0, "kappa": 0.7},
    GATED | {"tau": 3.0, "ridge": 0.0, "drift": 0.0},
    GATED | {"kappa": np.inf, "correlation": 0.0},
]
DIM, SIZE = 120, 600


def law_of(dim, *, alpha, rho, forgetting=0.0, drift=0.0, correlation=0.0):
    """Signal and noise of summaries from their sums over tokens, which have errors of 1/d."""
    gates = np.exp(-forgetting / dim * np.arange(round(alpha * dim))[::-1])
    law = gated_context(gates, dim=dim, rho=rho, drift=drift, correlation=correlation)
    return law.signal, law.noise


def dense_error(setting, tests):
    """ICL error on the nodes of a spectrum, for a matrix that acts on h and not on h/a."""
    names = ("alpha", "rho", "forgetting", "drift", "correlation")
    own = {name: setting.get(name, 0.0) for name in names}
    theirs = {name: tests.get(f"test_{name}", own[name]) for name in names}
    laws = {d: np.array([*law_of(d, **own), *law_of(d, **theirs)]) for d in (DIM // 2, DIM)}
    a, q, a_test, q_test = 2 * laws[DIM] - laws[DIM // 2]
    if tests.get("running_sum"):
        ratio = theirs["alpha"] / own["alpha"]
        a_test = a_test * ratio
        q_test = q_test * ratio**2
    tau = setting["tau"]
    kappa = setting["kappa"]
    ridge = setting["ridge"]
    rho = own["rho"]
    c = np.ones(1)
    p = np.ones(1)
    if kappa < np.inf:
        edges = (1 + np.array([-1, 1]) / np.sqrt(kappa)) ** 2
        angle = (np.arange(SIZE) + 0.5) * np.pi / SIZE
        c = edges.mean() + np.cos(angle) * np.ptp(edges) / 2
        p = kappa * (np.sin(angle) * np.ptp(edges) / 2) ** 2 / (2 * c) / SIZE
        c = np.append(c, 0.0)
        p = np.append(p, max(1 - kappa, 0.0))
    G = a**2 * c + q

    def excess(log_xi):
        xi = np.exp(log_xi)
        return tau * (1 - ridge / xi) - p @ (G / (G + xi))

    xi = 0.0 if ridge == 0 and tau > 1 else np.exp(brentq(excess, -30, 5, xtol=1e-14))
    F = a * c / (G + xi)
    idg = (p @ (c * (1 - a * F) ** 2 + q * F**2) + rho) / (1 - p @ (G / (G + xi)) ** 2 / tau)
    missed = p @ ((1 - a_test * F) ** 2 + q_test * F**2) + theirs["rho"]
    return missed + (a_test**2 + q_test) * idg / tau * (p @ (G / (G + xi) ** 2))


@pytest.mark.parametrize("tests", TESTS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_against_a_dense_spectrum(setting, tests):
    found = gated_pretraining_errors(**setting, **tests).icl
    assert found == pytest.approx(dense_error(setting, tests), rel=5e-4)


def test_as_in_training_it_is_the_effective_context():
    setting = {"rho": 0.1, "alpha": 2.0}
    gates = {"forgetting": 0.8, "drift": 0.2, "correlation": 0.4}
    signal = -np.expm1(-2.0) / 2.0
    alpha = effective_context(**setting, **gates)
    point = {"tau": np.array([0.5, 3.0]), "kappa": 1.5, "rho": 0.1}
    for ridge in (0.0, 0.3):
        found = gated_pretraining_errors(**point, alpha=2, **gates, ridge=ridge * signal**2)
        assert found.icl == pytest.approx(icl_error(**point, alpha=alpha, ridge=ridge), rel=1e-13)
        assert found.idg == pytest.approx(idg_error(**point, alpha=alpha, ridge=ridge), rel=1e-13)


def test_without_gates_it_is_the_test_context():
    """Structured errors have lengths and noise of tests; here with an endless test, too."""
    point = {"tau": 0.5, "alpha": 2, "kappa": 0.7, "rho": 0.1, "ridge": 0.2}
    tests = {"test_alpha": np.array([0.5, 5.0, np.inf]), "test_rho": 0.4}
    found = gated_pretraining_errors(**point, **tests).icl
    assert found == pytest.approx(structured_errors(**point, **tests).icl, rel=1e-12)


@pytest.mark.parametrize(("kappa", "ratio"), [(np.inf, 1.5), (1.5, 1.0)])
def test_finite_sizes_tend_to_it(kappa, ratio):
    """Differences to the finite-size prediction fall as 1/d, and extrapolate to nothing.

    A sum over a test context that is longer by a ratio is a mean after gates that are as much
    smaller in training.
    """
    rates = (0.8, 0.2)
    ridge = 0.05
    tests = {"test_correlation": -0.3, "test_rho": 0.4, "test_drift": 0.0}
    own = {"rho": 0.1, "drift": 0.1, "correlation": 0.4}
    changed = {"forgetting": rates[0], "test_forgetting": rates[1], "test_alpha": ratio * 2}
    limit = gated_pretraining_errors(
        tau=1.6, alpha=2, kappa=kappa, ridge=ridge, **own, **tests, **changed, running_sum=True
    ).icl
    found = {}
    for dim in (48, 96):
        ages, test_ages = (np.arange(round(2 * r * dim))[::-1] / dim for r in (1, ratio))
        found[dim] = finite_size_errors(
            dim=dim,
            context=len(ages),
            tasks=np.inf if kappa == np.inf else round(kappa * dim),
            prompts=round(1.6 * dim**2),
            ridge=ridge / ratio**2,
            gates=np.exp(-rates[0] * ages) / ratio,
            test_context=len(test_ages),
            test_gates=np.exp(-rates[1] * test_ages),
            **own,
            **tests,
            approach="moments",
            draws=4,
            rng=0,
        ).icl.mean
    assert abs(found[96] / limit - 1) < 0.04
    assert 2 * found[96] - found[48] == pytest.approx(limit, rel=4e-3)


def test_of_endless_tests_a_mean_keeps_nothing():
    endless = GATED | {"test_alpha": np.inf}
    assert gated_pretraining_errors(**endless, test_rho=0.3).icl == 1.3
    # Also of a matrix without bounds.
    assert gated_pretraining_errors(**endless | {"tau": 1, "ridge": 0}).icl == pytest.approx(1.1)
    for sums in (False, True):
        ends = [
            gated_pretraining_errors(**GATED | {"test_alpha": alpha}, running_sum=sums).icl
            for alpha in (1e6, np.inf)
        ]
        assert ends[0] == pytest.approx(ends[1], rel=1e-5)
    # A sum without gates has no end; without drift either, its mean is the task.
    free = GATED | {"test_alpha": np.inf, "test_forgetting": 0.0}
    assert gated_pretraining_errors(**free, running_sum=True).icl == np.inf
    kept = gated_pretraining_errors(**free, test_drift=0.0).icl
    long = gated_pretraining_errors(**free | {"test_alpha": 1e8}, test_drift=0.0).icl
    assert kept == pytest.approx(long, rel=1e-6)


def test_endless_tests_of_a_gated_layer_without_noise():
    """After perfect pretraining the matrix is a number, which s = 1/a is too much for."""
    setting = {"tau": np.inf, "alpha": 2.0, "kappa": np.inf, "rho": 0.0, "forgetting": 1.0}
    found = gated_pretraining_errors(**setting, test_forgetting=0.0, test_alpha=np.inf).icl
    a = (1 - np.exp(-2)) / 2
    q = (1 - np.exp(-4)) / 8
    assert found == pytest.approx((1 - a / (a**2 + q)) ** 2, rel=1e-12)


RANGES = {
    **{"tau": (1e-2, 1e4), "kappa": (1e-2, 1e4), "ridge": (1e-6, 10)},
    **dict.fromkeys(("alpha", "test_alpha"), (1e-3, 1e6)),
    **dict.fromkeys(("rho", "test_rho"), (1e-6, 10)),
    **dict.fromkeys(("forgetting", "drift", "test_forgetting", "test_drift"), (1e-6, 10)),
}
"""Ranges that the docstring gives, beside those of correlations; some numbers may be 0."""


def test_to_many_digits():
    """At random settings in the whole range; 3,000 were measured to be within 1e-14."""
    rng = np.random.default_rng(0)
    for _ in range(40):
        point = {name: float(np.exp(rng.uniform(*np.log(ends)))) for name, ends in RANGES.items()}
        gone = [n for n in point if n not in {"tau", "kappa", "alpha"} and rng.random() < 0.3]
        point |= {name: np.inf if name == "test_alpha" else 0.0 for name in gone}
        point |= {n: float(rng.uniform(-0.9, 0.9)) for n in ("correlation", "test_correlation")}
        running_sum = bool(rng.random() < 0.5)
        found = gated_pretraining_errors(**point, running_sum=running_sum)
        with mpmath.workdps(50):
            numbers = {name: mpmath.mpf(value) for name, value in point.items()}
            exact = gated_pretraining_errors(**numbers, running_sum=running_sum)
        for name in ("icl", "idg"):
            assert getattr(found, name) == pytest.approx(float(getattr(exact, name)), rel=1e-12)


def test_symbols():
    tau = sympy.Symbol("tau", positive=True)
    point = {"alpha": sympy.Integer(2), "kappa": sympy.Integer(1), "rho": sympy.Rational(1, 10)}
    gates = {"forgetting": sympy.Rational(1, 2), "test_alpha": sympy.oo, "running_sum": True}
    symbolic = gated_pretraining_errors(tau=tau, **point, **gates).icl
    for number in (sympy.Rational(1, 2), 3):
        found = gated_pretraining_errors(
            tau=float(number), alpha=2, kappa=1, rho=0.1, forgetting=0.5, test_alpha=np.inf,
            running_sum=True,
        ).icl  # fmt: skip
        assert float(symbolic.evalf(subs={tau: number})) == pytest.approx(found, rel=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"alpha": np.inf}, "alpha must be > 0 and finite"),
        ({"test_forgetting": -1}, "test_forgetting must be"),
        ({"test_correlation": 1}, "test_correlation must be"),
        ({"test_rho": np.nan}, "test_rho must be"),
        ({"test_alpha": [1.0, 2.0], "tau": [1.0, 2.0, 3.0]}, "shapes that broadcast"),
    ],
)
def test_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        gated_pretraining_errors(**GATED | wrong)


def test_flags_and_symbols_are_refused():
    with pytest.raises(TypeError, match="running_sum"):
        gated_pretraining_errors(**GATED, running_sum=1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="ridge must be 0 for SymPy"):
        gated_pretraining_errors(**TAU | {"rho": sympy.Symbol("rho", positive=True), "ridge": 1})
