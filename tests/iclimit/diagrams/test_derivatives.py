"""Slopes next to thresholds and at tiny parameters against formulas, and where there is none."""

import math
from functools import cache

import mpmath
import numpy as np
import pytest
import sympy

import iclimit

POINT = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}


SYMBOLS = {name: sympy.Symbol(name, positive=True) for name in POINT}


@cache
def symbolic_slopes(below):
    """Slopes of the ICL error without a ridge, on one side of the threshold."""
    # Both sides of the threshold are cases of one formula.
    error = iclimit.icl_error(**SYMBOLS).subs(SYMBOLS["tau"] < 1, below)
    return {name: sympy.diff(error, symbol) for name, symbol in SYMBOLS.items()}


def formula_slopes(at):
    """Slopes of the ICL error without a ridge, by symbols, in 60 digits."""
    numbers = {SYMBOLS[name]: sympy.Rational(value) for name, value in at.items()}
    slopes = symbolic_slopes(at["tau"] < 1)
    return {name: float(slope.subs(numbers).evalf(60)) for name, slope in slopes.items()}


@pytest.mark.parametrize(
    "change",
    [{}, {"rho": 1e-16}, {"rho": 1e-300}, {"tau": 1 + 1e-8}, {"tau": 1 - 2**-40}, {"kappa": 1e-9}],
)
def test_slopes_are_those_of_the_formula(change):
    at = POINT | change
    slopes = iclimit.sensitivity("icl_error", at=at).slopes
    assert slopes == pytest.approx(formula_slopes(at), rel=1e-10)


def test_the_known_numbers():
    assert formula_slopes(POINT | {"tau": 1 + 1e-8})["tau"] == pytest.approx(-5.6e15, rel=0.01)
    assert formula_slopes(POINT | {"rho": 1e-16})["rho"] == pytest.approx(2.69, rel=0.01)


@pytest.mark.parametrize("ridge", [0.0, 1e-300, 1e-20, 1e-16, 1e-14])
def test_slope_by_a_tiny_ridge(ridge):
    """The chord to a ridge of 1e-40, in 200 digits."""
    with mpmath.workdps(200):
        numbers = {name: mpmath.mpf(value) for name, value in POINT.items()}
        first, last = (iclimit.icl_error(**numbers, ridge=mpmath.mpf(x)) for x in (0, "1e-40"))
        chord = float((last - first) * mpmath.mpf("1e40"))
    assert chord == pytest.approx(-3.28, abs=0.005)
    found = iclimit.sensitivity("icl_error", at=POINT | {"ridge": ridge})
    assert found.slopes["ridge"] == pytest.approx(chord, rel=1e-10)


def test_tiny_drift_and_forgetting():
    """To first order by hand: drift takes from the signal and adds noise, gates cost nothing."""
    at = {"alpha": 3.0, "rho": 0.1, "drift": 1e-16, "forgetting": 1e-16}
    slopes = iclimit.sensitivity("effective_context", at=at).slopes
    assert slopes["drift"] == pytest.approx(-(3**2) * (1 + 2 * 3 / (3 * 1.1)), rel=1e-10)
    assert abs(slopes["forgetting"]) < 1e-12


def test_optima():
    """The best constant step, from the stationary point at neighbouring parameters."""
    at = {"alpha": 2.0, "rho": 0.25, "drift": 1e-16}
    with mpmath.workdps(40):
        numbers = {name: mpmath.mpf(value) for name, value in at.items()}

        def best(**change):
            setting = numbers | change

            def rise(step):
                return mpmath.diff(
                    lambda b: iclimit.recurrent.delta_rule_error(**setting, step_size=b), step
                )

            step = mpmath.findroot(rise, 0.64)
            return step, iclimit.recurrent.delta_rule_error(**setting, step_size=step)

        ends = {
            name: (best(), best(**{name: x + mpmath.mpf("1e-9")})) for name, x in numbers.items()
        }
    for k, name in enumerate(("constant_delta_step", "constant_delta_error")):
        slopes = iclimit.sensitivity(name, at=at).slopes
        chords = {n: float((last[k] - first[k]) * 10**9) for n, (first, last) in ends.items()}
        assert slopes == pytest.approx(chords, rel=1e-6)


def test_the_best_ridge():
    """Slopes are chords of other optima; noise of 1e-16 has the slope of no noise."""
    at = {name: value for name, value in POINT.items() if name != "rho"}
    slope = iclimit.sensitivity("optimal_icl_error", at=at | {"rho": 1e-16}).slopes["rho"]
    first, last = iclimit.curve("optimal_icl_error", **at, rho=[0.0, 1e-6]).values[0]
    assert slope == pytest.approx((last - first) / 1e-6, rel=1e-5)
    slopes = iclimit.sensitivity("optimal_ridge", at=POINT).slopes
    ends = iclimit.curve("optimal_ridge", **at, rho=[0.099, 0.101]).values[0]
    assert slopes["rho"] == pytest.approx(np.diff(ends)[0] / 0.002, rel=1e-4)


def test_floats_keep_off_thresholds():
    """Structured data takes no mpmath; a flat spectrum has the slopes of isotropic data."""
    for tau in (1 + 1e-5, 1 - 1e-5):
        at = POINT | {"tau": tau}
        found = iclimit.sensitivity("icl_error", at=at, task_spectrum="atoms:1,1")
        assert found.slopes == pytest.approx(formula_slopes(at), rel=1e-3)


def test_what_rounding_hides_has_no_slope():
    at = POINT | {"rho": 1e-16}
    spectrum = {"task_spectrum": "atoms:0.4,1.6"}
    found = iclimit.sensitivity("icl_error", at=at, **spectrum)
    assert set(found.slopes) == {"tau", "alpha", "kappa"}
    assert list(found.without_slope) == ["rho"]
    assert "no slope: icl_error changes by less than rounding at rho = 1e-16" in str(found)
    with pytest.raises(ValueError, match="less than rounding at rho"):
        iclimit.sensitivity("icl_error", at=at, errors={"rho": 0.1}, **spectrum)
    # An uncertain parameter that has a slope does not mind.
    known = iclimit.sensitivity("icl_error", at=at, errors={"tau": 0.1}, **spectrum)
    assert known.standard_error == pytest.approx(0.1 * abs(found.slopes["tau"]))


def kinked(*, tau, alpha):
    return alpha + abs(tau - 2)


def stepped(*, tau, alpha):
    return alpha + np.floor(tau)


@pytest.mark.parametrize(("function", "reason"), [(kinked, "has a kink"), (stepped, "abruptly")])
def test_kinks_and_jumps_have_no_slope(function, reason):
    found = iclimit.sensitivity(function, at={"tau": 2.0, "alpha": 1.0})
    assert found.slopes == pytest.approx({"alpha": 1.0})
    assert reason in found.without_slope["tau"]
    beside = iclimit.sensitivity(kinked, at={"tau": 2.001, "alpha": 1.0})
    assert beside.slopes == pytest.approx({"alpha": 1.0, "tau": 1.0})


def test_extrema_and_functions_that_round_mpmath_numbers():
    found = iclimit.sensitivity(lambda tau: 1 + (tau - 2) ** 2, at={"tau": 2.0})
    assert found.slopes["tau"] == pytest.approx(0.0, abs=1e-9)
    mixed = iclimit.sensitivity(
        lambda tau, rho: np.vectorize(math.exp)(tau) * (1 + rho), at={"tau": 1.0, "rho": 0.5}
    )
    assert mixed.slopes == pytest.approx({"tau": 1.5 * math.e, "rho": math.e}, rel=1e-9)


def test_integers_at_the_end_of_a_narrower_range():
    at = {"inverse_temperature": 0.4, "value": 0.3, "ratio": 0.5, "heads": 2}
    change = iclimit.sensitivity("softmax_head_loss", at=at).slopes["heads"]
    values = iclimit.curve("softmax_head_loss", **at | {"heads": [1, 2]}).values[0]
    assert change == pytest.approx(values[1] - values[0])
