"""Limits of the ICL and IDG errors: expressions of the theory page, edges, and slow approaches."""

import math

import mpmath
import numpy as np
import pytest

from iclimit.asymptotics.pretraining import icl_error, idg_error, task_gap
from iclimit.asymptotics.spectra import wishart_resolvent

SETTING = {"tau": 1.6, "alpha": 2.0, "kappa": 0.7, "rho": 0.25}
Q = (1 + SETTING["rho"]) / SETTING["alpha"]
M = float(wishart_resolvent(Q, kappa=SETTING["kappa"]))
SLOPE = float(wishart_resolvent(Q, kappa=SETTING["kappa"], derivative=1))

# Extreme parameters stand for limits approached in the first power: 1e10 leaves about 1e-10.
EXTREME, FIRST_ORDER = 1e10, 1e-8
# Approached as a square root (kappa = 1, or the threshold tau = 1).
SQUARE_ROOT = 1e-4
EXACT = 1e-13


def both(**changes):
    point = {**SETTING, **changes}
    return icl_error(**point), idg_error(**point)


@pytest.mark.parametrize("changes", [{"tau": 1e-10}, {"ridge": 1e10}])
def test_nothing_is_learned(changes):
    """Without prompts or at infinite ridge: the null predictor."""
    null = 1 + SETTING["rho"]
    assert both(**changes) == pytest.approx((null, null), rel=FIRST_ORDER)


def test_infinitely_many_prompts():
    expected_icl = (1 + Q) * (1 - 2 * Q * M - Q**2 * SLOPE) - 2 * (1 - Q * M) + 1 + SETTING["rho"]
    expected = (expected_icl, SETTING["rho"] + Q - Q**2 * M)
    assert both(tau=math.inf) == pytest.approx(expected, rel=EXACT)
    assert both(tau=EXTREME) == pytest.approx(expected, rel=FIRST_ORDER)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("name", ["tau", "kappa", "alpha"])
def test_infinity_is_the_limit_of_large_values(name, ridge):
    setting = {"kappa": 1.7} if name == "alpha" else {}
    limit = both(**{**setting, name: math.inf}, ridge=ridge)
    assert both(**{**setting, name: EXTREME}, ridge=ridge) == pytest.approx(limit, rel=FIRST_ORDER)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("tau", [0.4, 1.6])
def test_infinitely_many_tasks_have_no_gap(tau, ridge):
    icl, idg = both(kappa=math.inf, tau=tau, ridge=ridge)
    assert icl == pytest.approx(idg, rel=EXACT)
    if tau > 1 and ridge == 0:
        expected = tau / (tau - 1) * (SETTING["rho"] + Q / (1 + Q))
        assert icl == pytest.approx(expected, rel=EXACT)


def test_vanishing_number_of_tasks():
    tau = SETTING["tau"]
    rho = SETTING["rho"]
    expected = (1 + rho + rho * (1 + 1 / Q) / (tau - 1), rho * tau / (tau - 1))
    assert both(kappa=1 / EXTREME) == pytest.approx(expected, rel=FIRST_ORDER)


def test_infinite_context_more_tasks_than_dimensions():
    tau = 1.6
    rho = 0.25
    kappa = 1.7
    expected = (rho * (1 + kappa / ((kappa - 1) * (tau - 1))), rho * tau / (tau - 1))
    assert both(kappa=kappa, alpha=math.inf) == pytest.approx(expected, rel=EXACT)


def test_infinite_context_few_tasks_diverges_linearly():
    tau = 1.6
    rho = 0.25
    kappa = 0.7
    icl, idg = both(alpha=EXTREME)
    expected = (1 - kappa) * rho / ((1 + rho) * (tau - 1))
    assert icl / EXTREME == pytest.approx(expected, rel=FIRST_ORDER)
    assert idg == pytest.approx(rho * tau / (tau - 1), rel=FIRST_ORDER)


@pytest.mark.parametrize("kappa", [0.3, 0.999, 1.001, 2.0])
@pytest.mark.parametrize("ratio", [0.1, 4.0])
def test_infinite_context_and_prompts_together(kappa, ratio):
    """At fixed alpha/tau = c: rho + (1 - kappa)_+ [1 + c rho/(1 + rho)], and rho."""
    rho = SETTING["rho"]
    tau = 1e12
    icl, idg = both(kappa=kappa, alpha=ratio * tau, tau=tau)
    expected = rho + max(0.0, 1 - kappa) * (1 + ratio * rho / (1 + rho))
    # The smoothing at kappa = 1 has width sqrt(q); |kappa - 1| = 1e-3 leaves 1e-8.
    assert (icl, idg) == pytest.approx((expected, rho), rel=1e-7)


# Rows of the edge alpha = inf, ridge 0: tau, kappa, rho, expected ICL and IDG (None: any finite).
INFINITE_CONTEXT = [
    (1.6, 0.5, 0.1, math.inf, 0.1 * 1.6 / 0.6),
    (1.6, 1.0, 0.1, math.inf, 0.1 * 1.6 / 0.6),
    (1.6, 1.5, 0.1, 0.1 * (1 + 3 / 0.6), 0.1 * 1.6 / 0.6),
    (1.6, 0.5, 0.0, None, 0.0),
    (0.5, 0.3, 0.1, math.inf, None),
    (0.5, 0.5, 0.1, math.inf, math.inf),
    (0.5, 0.7, 0.1, None, None),
    (0.5, 0.5, 0.0, None, None),
    (1.0, 2.0, 0.1, math.inf, math.inf),
    (math.inf, 0.5, 0.1, 0.6, 0.1),
    (math.inf, 1.0, 0.1, 0.1, 0.1),
    (math.inf, 2.0, 0.1, 0.1, 0.1),
    (math.inf, 0.5, 0.0, 0.5, 0.0),
]


@pytest.mark.parametrize(("tau", "kappa", "rho", "icl", "idg"), INFINITE_CONTEXT)
@pytest.mark.parametrize("number", [float, mpmath.mpf])
def test_edge_of_infinite_context(tau, kappa, rho, icl, idg, number):
    point = {"tau": tau, "kappa": kappa, "rho": rho}
    values = [f(alpha=number(math.inf), **point) for f in (icl_error, idg_error)]
    near = [float(f(alpha=mpmath.mpf(10) ** 30, **point)) for f in (icl_error, idg_error)]
    for value, expected, close in zip(values, (icl, idg), near, strict=True):
        if expected is not None:
            assert float(value) == pytest.approx(expected, rel=EXACT, abs=1e-30)
        if math.isinf(value):  # a true divergence, not an overflow: at least sqrt(alpha)
            assert close > 1e12
        else:
            assert float(value) == pytest.approx(close, rel=1e-10, abs=1e-13)
    found = values[0] - (0 if math.isinf(values[0]) else values[1])
    assert float(task_gap(alpha=number(math.inf), **point)) == found


@pytest.mark.parametrize("kappa", [0.3, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("tau", [0.5, 1.0, 1.6, math.inf])
def test_positive_ridge_is_finite_at_infinite_context(tau, kappa):
    limit = both(tau=tau, kappa=kappa, alpha=math.inf, ridge=0.2)
    assert np.all(np.isfinite(limit))
    large = both(tau=tau, kappa=kappa, alpha=1e14, ridge=0.2)
    assert large == pytest.approx(limit, rel=1e-6)  # as sqrt(q) at kappa = 1


def test_threshold_without_ridge_is_infinite():
    for function in (icl_error, idg_error, task_gap):
        assert function(**{**SETTING, "tau": 1.0}) == math.inf


@pytest.mark.parametrize("side", [1, -1])
def test_divergence_at_the_threshold(side):
    distance = 1e-8
    expected = (1 + Q) * M * (SETTING["rho"] + Q - Q**2 * M)
    icl, _ = both(tau=1 + side * distance)
    assert distance * icl == pytest.approx(expected, rel=1e-6)


def test_small_ridge_at_the_threshold():
    """Effective ridge sqrt(lambda/M), both errors diverge as its inverse."""
    ridge = 1e-12
    xi = math.sqrt(ridge / M)
    noise = SETTING["rho"] + Q * (1 - Q * M)
    expected = ((1 + Q) * noise / (2 * xi), noise / (2 * xi * M))
    assert both(tau=1.0, ridge=ridge) == pytest.approx(expected, rel=SQUARE_ROOT)


def test_vanishing_ridge_is_the_ridgeless_value():
    for tau in (0.4, 0.99, 1.01, 3.0, math.inf):
        assert both(tau=tau, ridge=1e-14) == pytest.approx(both(tau=tau), rel=1e-9)


def test_published_gap_values_of_the_finite_ridge_table():
    """Values of the theory page, computed there by the trace form with a bracketed root."""
    rows = [
        (1.6, 1.0, 0.5, 0.1, 1e-6, 1.8463, 1.0967),
        (0.5, 1.0, 0.5, 0.1, 1e-6, 1.4829, 1.0283),
        (1.6, 2.0, 1.5, 0.1, 0.05, 1.1066, 0.8326),
    ]
    for tau, alpha, kappa, rho, ridge, icl, idg in rows:
        point = {"tau": tau, "alpha": alpha, "kappa": kappa, "rho": rho, "ridge": ridge}
        assert both(**point) == pytest.approx((icl, idg), abs=6e-5)  # four printed decimals


def test_more_points_than_a_block():
    """Large arrays are computed in blocks of 2^16 numbers."""
    tau = np.linspace(0.5, 3, 70_000)
    point = {"alpha": 1.5, "kappa": 1.7, "rho": 0.1, "ridge": 0.0}
    errors = icl_error(tau=tau, **point)
    for place in (0, -1):
        alone = icl_error(tau=tau[place], **point)
        assert errors[place] == pytest.approx(alone, rel=1e-11)
