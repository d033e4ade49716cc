"""GD++ schedules against numerical equioscillation, Remez, global searches and dense sampling."""

import itertools
import math
from dataclasses import fields

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuse
from scipy.optimize import differential_evolution

from iclimit.asymptotics.gdpp import (
    ConditionSchedule,
    condition_number_schedule,
    eigenvalues_after,
    interval_after,
    steps_needed,
)
from iclimit.asymptotics.gdpp.condition_number import METHODS

# Float64 against 50 digits; measured worst 3.3e-13 without and 7.5e-13 with a cap.
ROUNDING = 1e-12
# The same below SMALL, since layers double relative errors; measured worst 2.7e-12.
DOUBLED = 4e-12
# Numbers of the notes are rounded to the last digit printed.
PRINTED = 1.01
# The search minimises over a grid, which lacks a little of the interval; measured 1e-6.
GRID = 5e-6
# Of an image, times the root of the condition number; measured 4.1e-16.
FOLDED = 1e-15
# Neighbouring samples miss an extremum by the square of their distance; measured 2e-11.
SAMPLED = 1e-9

SMALL = 1e-30
SMALLEST = 1e-300
"""Nothing is promised below; subnormal numbers have fewer digits."""

EXCESSES = [0.0, 1e-300, 1e-150, 1e-16, 1e-3, 0.5, 9.0, 1e4, 1e12, 1e20, 1e100]
FIELDS = [field.name for field in fields(ConditionSchedule)]


def close(value, target):
    """Whether a quantity has the accuracy of its size."""
    allowed = ROUNDING if target >= SMALL else DOUBLED
    return abs(value - target) <= allowed * target or max(value, target) < SMALLEST


def equioscillating(mu, nu):
    """Gamma with f(mu) = f(nu), by the secant method, from where f is still increasing."""

    def slope(gamma):
        low, high = (x * (1 - gamma * x) ** 2 for x in (mu, nu))
        return (high - low) / (nu - mu)

    a = 1 / (4 * nu)
    b = 1 / (3 * nu)
    while abs(a - b) > b * mpmath.mpf(10) ** (-mpmath.mp.dps // 2 - 20):
        a, b = b, b - slope(b) * (b - a) / (slope(b) - slope(a))
    return b


def direct(excess, steps, method):
    """Gamma, largest eigenvalue and condition number minus one, following both ends."""
    nu = mpmath.mpf(1)
    mu = nu / (1 + mpmath.mpf(excess))
    gammas = []
    tops = [nu]
    found = [nu / mu - 1]
    for _ in range(steps):
        gamma = equioscillating(mu, nu) if method == "optimal" else 1 / (3 * nu)
        inner = 1 / (3 * gamma)
        nu = max(x * (1 - gamma * x) ** 2 for x in (mu, inner, nu) if mu <= x <= nu)
        mu = mu * (1 - gamma * mu) ** 2
        gammas.append(gamma)
        tops.append(nu)
        found.append(nu / mu - 1)
    return gammas, tops, found


def test_schedule_against_numerical_equioscillation():
    for method, (excess, steps, digits) in itertools.product(
        METHODS,
        [(1e-300, 1, 1400), (1e-30, 3, 700), (0.7, 6, 300), (99.0, 9, 400), (1e100, 5, 700)],
    ):
        schedule = condition_number_schedule(excess=excess, steps=steps, method=method)
        with mpmath.workdps(digits):
            gammas, tops, found = direct(excess, steps, method)
            for value, target in itertools.chain(
                zip(schedule.gammas, gammas, strict=True),
                zip(schedule.top, tops, strict=True),
                zip(schedule.excess, found, strict=True),
                zip(schedule.condition_number, (1 + x for x in found), strict=True),
            ):
                assert close(value, target)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("cap", "margin"), [(math.inf, 0.0), (math.inf, 0.02), (2.0, 0.0), (100.0, 0.02)]
)
def test_float64_and_fifty_digits(method, cap, margin):
    # Under a cap errors are of one sign; the monotone schedule knows none.
    largest = 1e20 if cap < math.inf and method == "optimal" else 1e99
    starts = np.array([x for x in EXCESSES[::2] if x <= largest])
    starts = np.append(starts, np.random.default_rng(5).uniform(1, 10, 2) * largest / 10)
    more = {"cap": cap, "margin": margin, "method": method}
    schedule = condition_number_schedule(excess=starts, tol=SMALLEST, **more)
    steps = schedule.gammas.shape[-1]
    with mpmath.workdps(50):
        for k, excess in enumerate(starts):
            exact = condition_number_schedule(excess=mpmath.mpf(excess), steps=steps, **more)
            for name in FIELDS:
                targets = getattr(exact, name)
                assert len(targets) == getattr(schedule, name).shape[-1]
                for a, b in zip(getattr(schedule, name)[k].tolist(), targets, strict=True):
                    assert close(a, b)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cap", [1.5, 2.0, 4.0, 10.0, 100.0])
def test_errors_under_a_cap_are_up_to_tenfold(method, cap):
    schedule = condition_number_schedule(1e100, tol=SMALLEST, cap=cap, method=method)
    with mpmath.workdps(50):
        exact = condition_number_schedule(mpmath.mpf(1e100), tol=SMALLEST, cap=cap, method=method)
        for a, b in zip(schedule.excess, exact.excess, strict=True):
            assert abs(a - b) <= 10 * (ROUNDING if b >= SMALL else DOUBLED) * b or b < SMALLEST


def test_mpmath_loses_few_digits():
    """A relative error doubles in a layer, so it grows as the number of zeros; measured 6e3."""
    for digits in (15, 50, 400):
        with mpmath.workdps(digits):
            value = condition_number_schedule(mpmath.mpf(2) ** 133, tol=mpmath.mpf(10) ** -5000)
        with mpmath.workdps(digits + 40):
            exact = condition_number_schedule(mpmath.mpf(2) ** 133, tol=mpmath.mpf(10) ** -5000)
            assert value.excess[-1] < mpmath.mpf(10) ** -5000
            for name in FIELDS:
                for a, b in zip(getattr(value, name), getattr(exact, name), strict=True):
                    assert abs(a / b - 1) < mpmath.mpf(10) ** (5 - digits)
                    assert isinstance(a, mpmath.mpf)


TOLERANCES = ("1e-2", "1e-10", "1e-15", "1e-30")
COUNTS = {
    ("monotone", "10"): (5, 8, 8, 9),
    ("monotone", "1e2"): (8, 10, 11, 12),
    ("monotone", "1e4"): (14, 16, 17, 18),
    ("monotone", "1e6"): (20, 22, 22, 23),
    ("monotone", "1e8"): (25, 28, 28, 29),
    ("monotone", "1e12"): (37, 39, 39, 40),
    ("optimal", "10"): (3, 5, 6, 7),
    ("optimal", "1e2"): (5, 7, 7, 8),
    ("optimal", "1e4"): (7, 9, 10, 11),
    ("optimal", "1e6"): (9, 11, 12, 13),
    ("optimal", "1e8"): (12, 14, 14, 15),
    ("optimal", "1e12"): (17, 19, 19, 20),
}
"""Layers until the condition number is 1 to a tolerance, table of section 3.2 of the notes."""


def test_table_of_counts():
    for method, condition_number in COUNTS:
        counts = COUNTS[method, condition_number]
        with mpmath.workdps(200):
            _, _, found = direct(mpmath.mpf(condition_number) - 1, counts[-1], method)
            for tol, count in zip(TOLERANCES, counts, strict=True):
                assert found[count] <= mpmath.mpf(tol) < found[count - 1]
                numbers = mpmath.mpf(condition_number), mpmath.mpf(tol)
                assert steps_needed(numbers[0], tol=numbers[1], method=method) == count
        start = float(condition_number)
        tolerances = np.array(TOLERANCES, dtype=float)
        assert steps_needed(start, tol=tolerances, method=method).tolist() == list(counts)
        schedule = condition_number_schedule(start, tol=tolerances[-1], method=method)
        assert len(schedule.gammas) == counts[-1]


# Optimality


def condition_on(grid, gammas):
    """Condition number of a grid of eigenvalues, each gamma in units of its largest."""
    for gamma in gammas:
        grid = grid * (1 - gamma * grid / grid.max()) ** 2
    return float(grid.max() / grid.min()) if grid.min() > 0 else math.inf


@pytest.mark.parametrize(
    ("condition_number", "steps", "printed"),
    [(10, 3, 1.003945), (100, 1, 16.7448), (100, 2, 3.55305)],
)
def test_no_composition_found_by_global_search_is_better(condition_number, steps, printed):
    """Greedy layers are globally optimal; negative gamma is allowed."""
    # The extremum of the first layer lies inside, those of later layers at its images.
    grid = np.geomspace(1 / condition_number, 1, 1500)
    found = differential_evolution(
        lambda gammas: math.log(condition_on(grid, gammas)) if np.all(gammas) else math.inf,
        [(-2, 3)] * steps,
        rng=7,
        popsize=15,
        maxiter=400,
        tol=1e-9,
        polish=False,
    )
    best = condition_number_schedule(condition_number, steps=steps).condition_number[-1]
    assert best == pytest.approx(
        printed, abs=PRINTED * 5 * 10.0 ** -len(str(printed).split(".")[1])
    )
    assert math.exp(found.fun) - 1 == pytest.approx(best - 1, rel=1e-3)
    assert math.exp(found.fun) >= best * (1 - GRID)


def remez(low, high):
    """Odd cubic a s + b s^3 closest to 1 on an interval, and its error."""
    inner = (low + high) / 2
    for _ in range(100):
        matrix = mpmath.matrix([[s, s**3, e] for s, e in ((low, 1), (inner, -1), (high, 1))])
        a, b, error = mpmath.lu_solve(matrix, mpmath.matrix([1, 1, 1]))
        before = inner
        inner = mpmath.sqrt(-a / (3 * b))
        if abs(inner - before) < mpmath.mpf(10) ** (-mpmath.mp.dps + 15):
            return a, b, error
    raise AssertionError("no convergence")


def test_layers_are_the_optimal_odd_cubics():
    """Polar Express: minimax polynomials of sign on the singular values, one after the other."""
    for condition_number in (1.5, 10, 100, 1e6):
        with mpmath.workdps(60):
            schedule = condition_number_schedule(mpmath.mpf(condition_number), steps=5)
            low = 1 / mpmath.sqrt(condition_number)
            high = mpmath.mpf(1)
            scale = mpmath.mpf(1)
            for k in range(5):
                a, b, error = remez(low, high)
                assert abs(schedule.gammas[k] / (-b / a * scale**2) - 1) < mpmath.mpf("1e-35")
                low = 1 - error
                high = 1 + error
                scale = scale * a
                kappa_next = (high / low) ** 2
                assert abs(schedule.condition_number[k + 1] - kappa_next) < mpmath.mpf("1e-35")


kappas = st.floats(1 + 1e-9, 1e12)


@given(kappas, st.floats(-3, 3))
def test_no_other_gamma_is_better(condition_number, factor):
    best = condition_number_schedule(condition_number, steps=1)
    other = interval_after(best.gammas * factor, lower=1 / condition_number, upper=1.0)
    assert other.condition_number[-1] >= best.condition_number[-1] * (1 - ROUNDING)


# Bounds and scaling


@given(st.floats(1e-140, 1e99))
def test_contraction(excess):
    optimal, monotone = (
        condition_number_schedule(excess=excess, steps=1, method=method).excess
        for method in METHODS
    )
    assert optimal[1] <= monotone[1] < excess
    # Divided by its square, which would overflow.
    assert optimal[1] / excess <= 3 / 16 * excess * (1 + ROUNDING)
    assert monotone[1] / excess <= 3 / 4 * excess * (1 + ROUNDING)
    # Lemma A.3 of the paper
    if excess >= 0.1:
        assert (1 + monotone[1]) <= 0.915 * (1 + excess)
    else:
        assert monotone[1] <= 2 * excess**2


def test_constants_of_the_contraction_are_sharp():
    small = [condition_number_schedule(excess=1e-9, steps=1, method=m).excess for m in METHODS]
    assert small[0][1] / 1e-18 == pytest.approx(3 / 16, rel=1e-8)
    assert small[1][1] / 1e-18 == pytest.approx(3 / 4, rel=1e-8)
    large = [condition_number_schedule(1e100, steps=1, method=m) for m in METHODS]
    assert large[0].condition_number[1] / 1e100 == pytest.approx(4 / 27, rel=ROUNDING)
    assert large[1].condition_number[1] / 1e100 == pytest.approx(4 / 9, rel=ROUNDING)
    counts = [steps_needed(mpmath.mpf("1e300"), tol=1e-3, method=method) for method in METHODS]
    # The last layers are not in the linear regime; measured 2.3516.
    assert counts[1] / counts[0] == pytest.approx(math.log(27 / 4) / math.log(9 / 4), rel=5e-3)


@given(st.floats(1e-12, 1e12), st.floats(1, 10), st.sampled_from(METHODS))
def test_monotone_in_the_condition_number(excess, factor, method):
    x = condition_number_schedule(excess=[excess, factor * excess], steps=4, method=method).excess
    assert np.all(x[0] <= x[1] * (1 + ROUNDING))
    assert np.all(np.diff(x, axis=-1) < 0)


@given(kappas, st.floats(1, 1e6))
def test_a_cap_lies_between_the_methods(condition_number, cap):
    optimal, monotone = (
        condition_number_schedule(condition_number, steps=6, method=method) for method in METHODS
    )
    capped = condition_number_schedule(condition_number, steps=6, cap=cap)
    assert np.all(optimal.excess <= capped.excess * (1 + ROUNDING))
    assert np.all(capped.excess <= monotone.excess * (1 + ROUNDING))
    ignored = condition_number_schedule(condition_number, steps=6, cap=cap, method="monotone")
    one = condition_number_schedule(condition_number, steps=6, cap=1)
    large = condition_number_schedule(condition_number, steps=6, cap=condition_number)
    for name in FIELDS:
        assert np.array_equal(getattr(ignored, name), getattr(monotone, name))
        assert np.array_equal(getattr(one, name), getattr(monotone, name))
        assert np.array_equal(getattr(large, name), getattr(optimal, name))


@given(st.floats(1, 1e9), st.floats(1, 1e4), st.floats(0, 2), st.sampled_from(METHODS))
def test_safeguards_follow_the_interval_exactly(condition_number, cap, margin, method):
    with mpmath.workdps(60):
        condition_number = mpmath.mpf(condition_number)
        margin = mpmath.mpf(margin)
        more = {"cap": cap, "margin": margin, "method": method}
        schedule = condition_number_schedule(condition_number, steps=4, **more)
        image = interval_after(schedule.gammas, lower=1 / condition_number, upper=1 + margin)
        for a, b, c in zip(
            image.condition_number, schedule.condition_number, schedule.excess, strict=True
        ):
            assert abs(a / b - 1) < mpmath.mpf("1e-40")
            assert abs(b - 1 - c) < mpmath.mpf("1e-58") * b
        for a, b in zip(image.upper, schedule.top, strict=True):
            assert abs(a / b - 1) < mpmath.mpf("1e-40")
        # Whatever the largest eigenvalue is within the margin, the promise holds.
        least = interval_after(schedule.gammas, lower=1 / condition_number, upper=1 + margin / 3)
        for a, b in zip(least.condition_number, schedule.condition_number, strict=True):
            assert a <= b * (1 + mpmath.mpf("1e-40"))


def test_a_later_schedule_continues_the_former():
    whole = condition_number_schedule(1e5, steps=7)
    first = condition_number_schedule(1e5, steps=3)
    rest = condition_number_schedule(excess=first.excess[-1], steps=4)
    assert np.array_equal(whole.gammas[:3], first.gammas)
    assert whole.gammas[3:] * first.top[-1] == pytest.approx(rest.gammas, rel=ROUNDING)
    assert whole.excess[3:] == pytest.approx(rest.excess, rel=ROUNDING)


@given(kappas, st.floats(0.5, 2))
def test_residual_of_the_final_step(condition_number, factor):
    schedule = condition_number_schedule(condition_number, steps=3)
    top = schedule.top
    bottom = schedule.top / schedule.condition_number
    rate = schedule.final_rate
    residual = schedule.residual
    assert abs(1 - rate * top) == pytest.approx(residual, abs=ROUNDING)
    assert abs(1 - rate * bottom) == pytest.approx(residual, abs=ROUNDING)
    other = np.maximum(abs(1 - factor * rate * top), abs(1 - factor * rate * bottom))
    assert np.all(other >= residual - ROUNDING)


# Misjudged spectra


@given(st.lists(st.floats(-2, 6), max_size=3), st.floats(0, 1), st.floats(0.05, 1.5))
def test_interval_after_dense_sampling(gammas, share, upper):
    lower = share * upper
    image = interval_after(gammas, lower=lower, upper=upper)
    samples = eigenvalues_after(np.linspace(lower, upper, 40001), gammas=gammas)
    largest = samples.max(axis=-1)
    width = SAMPLED * np.maximum.accumulate(largest * (1 + 36 * largest**2))
    for sampled, exact, inside in (
        (samples.min(axis=-1), image.lower, 1),
        (largest, image.upper, -1),
    ):
        assert np.all(inside * (sampled - exact) >= -ROUNDING * (1 + largest))
        assert np.all(inside * (sampled - exact) <= width)


@pytest.mark.parametrize("upper", [0.99, 1.0, 1.001])
@pytest.mark.parametrize("condition_number", [3.0, 1e4, 1e12, 1e20])
def test_images_in_float64_and_fifty_digits(upper, condition_number):
    """Of gamma as rounded; eigenvalues by factors that are all above 2/3."""
    gamma = condition_number_schedule(condition_number, steps=12).gammas
    image = interval_after(gamma, lower=1 / condition_number, upper=upper)
    monotone = condition_number_schedule(condition_number, steps=12, method="monotone").gammas
    spectrum = eigenvalues_after(upper, gammas=monotone)
    with mpmath.workdps(200):
        exact = interval_after([*map(mpmath.mpf, gamma)], lower=1 / condition_number, upper=upper)
        for name in ("lower", "upper", "condition_number"):
            for a, b in zip(getattr(image, name), getattr(exact, name), strict=True):
                assert a == b or abs(a / b - 1) < FOLDED * math.sqrt(condition_number)
        targets = eigenvalues_after(mpmath.mpf(upper), gammas=[*map(mpmath.mpf, monotone)])
        for a, b in zip(spectrum, targets, strict=True):
            assert abs(a / b - 1) < ROUNDING


def test_an_eigenvalue_at_the_double_zero_is_annihilated():
    condition_number = sympy.Integer(100)
    gamma = condition_number_schedule(condition_number, steps=1).gammas
    zero = 1 + sympy.Rational(1, 10) + sympy.Rational(1, 100)
    assert eigenvalues_after(zero, gammas=gamma)[1] == 0
    image = interval_after(gamma, lower=1 / condition_number, upper=zero)
    assert image.lower[1] == 0
    assert image.condition_number[1] == sympy.oo
    for number in (float, mpmath.mpf):
        wide = interval_after([number(0.5)], lower=number(0.0), upper=number(3.0))
        assert list(wide.condition_number) == [math.inf, math.inf]


def test_capped_schedules_survive_what_ruins_others():
    image = [
        interval_after(
            condition_number_schedule(1e12, tol=1e-10, cap=cap).gammas, lower=1e-12, upper=1 + 1e-3
        )
        for cap in (math.inf, 100.0)
    ]
    assert image[0].condition_number[-1] > 1e6
    assert image[1].condition_number[-1] < 1 + 1e-3


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cap", [sympy.oo, 3])
def test_symbols_numbers_and_digits_agree(method, cap):
    condition_number = sympy.Symbol("condition_number", positive=True)
    number = sympy.Rational(29, 3)
    symbolic = condition_number_schedule(condition_number, steps=2, method=method, cap=cap)
    exact = condition_number_schedule(number, steps=2, method=method, cap=cap)
    with mpmath.workdps(40):
        digits = condition_number_schedule(
            mpmath.mpf(29) / 3, steps=2, method=method, cap=mpmath.inf if cap == sympy.oo else cap
        )
        for name in FIELDS:
            for a, b, c in zip(
                *(getattr(v, name) for v in (symbolic, exact, digits)), strict=True
            ):
                for value in (sympy.sympify(a).subs(condition_number, number), b):
                    error = mpmath.mpf(sympy.N(value, 50)._mpf_) / c - 1
                    assert abs(error) < mpmath.mpf("1e-37")


@pytest.mark.parametrize("method", ["optimal", "monotone"])
def test_symbols_through_many_layers(method):
    plain = sympy.Symbol("z")
    positive = sympy.Symbol("condition_number", positive=True)
    for symbol in (plain, positive):
        exact = condition_number_schedule(symbol, steps=3, method=method)
        assert not any(each.has(sympy.Piecewise) for each in exact.gammas)
        floats = condition_number_schedule(100.0, steps=3, method=method)
        found = [float(each.subs(symbol, 100)) for each in exact.condition_number]
        np.testing.assert_allclose(found, floats.condition_number, rtol=1e-12)


def test_shapes():
    condition_number = np.array([[1.0, 3.0], [1e4, 1e8]])
    tol = np.array([1e-3, 1e-12])
    for method in METHODS:
        schedule = condition_number_schedule(condition_number, tol=tol, method=method)
        counts = steps_needed(condition_number, tol=tol, method=method)
        assert schedule.gammas.shape == (2, 2, counts.max())
        assert schedule.excess.shape == (2, 2, counts.max() + 1)
        assert counts.tolist()[0][0] == 0
        for i, j in np.ndindex(2, 2):
            one = condition_number_schedule(
                condition_number[i, j], steps=counts.max(), method=method
            )
            for name in FIELDS:
                assert np.array_equal(getattr(one, name), getattr(schedule, name)[i, j])
            assert steps_needed(condition_number[i, j], tol=tol[j], method=method) == counts[i, j]
        image = interval_after(schedule.gammas, lower=1 / condition_number, upper=1.0)
        assert image.condition_number.shape == schedule.excess.shape
        assert image.upper == pytest.approx(schedule.top, rel=1e-9)
        spectrum = eigenvalues_after(np.ones((5, 1, 1)), gammas=schedule.gammas)
        assert spectrum.shape == (counts.max() + 1, 5, 2, 2)


def test_no_layers_and_nothing_to_do():
    for schedule in (
        condition_number_schedule(50, steps=0),
        condition_number_schedule(50, tol=1e3),
        condition_number_schedule(1, tol=1e-300),
    ):
        assert schedule.gammas.shape == (0,)
        assert schedule.top.tolist() == [1]
    assert condition_number_schedule(mpmath.mpf(50), steps=0).gammas == ()
    assert condition_number_schedule(np.ones((3, 0)), tol=1).gammas.shape == (3, 0, 0)
    assert steps_needed(np.ones((3, 0)), tol=1).shape == (3, 0)
    assert eigenvalues_after([1.0, 2.0], gammas=[]).tolist() == [[1.0, 2.0]]
    one = condition_number_schedule(1, steps=3)
    assert one.excess.tolist() == [0] * 4
    # Equal eigenvalues shrink by 4/9 in every layer.
    assert one.top == pytest.approx((4 / 9) ** np.arange(4), rel=ROUNDING)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("condition_number", [3.0, 1e5, 1e30, 1e100])
def test_counts_beside_tolerances_that_are_met_exactly(method, condition_number):
    with mpmath.workdps(50):
        exact = condition_number_schedule(
            mpmath.mpf(condition_number), tol=1e-200, method=method
        ).excess
    x = np.array(exact, dtype=float)
    x, k = x[x > SMALLEST], np.arange(np.sum(x > SMALLEST))
    assert np.array_equal(steps_needed(condition_number, tol=x * (1 + DOUBLED), method=method), k)
    assert np.array_equal(
        steps_needed(condition_number, tol=x * (1 - DOUBLED), method=method), k + 1
    )


def test_large_tables_agree_with_single_counts():
    condition_number = np.geomspace(1, 1e99, 20000).reshape(2, -1)
    counts = steps_needed(condition_number, tol=1e-10)
    assert np.all(np.diff(counts.ravel()) >= 0)
    for i in (0, 77, 5000, 9999):
        found = len(condition_number_schedule(condition_number[1, i], tol=1e-10).gammas)
        assert counts[1, i] == found


@pytest.mark.parametrize("excess", [4.0, 99.0, 495.0])
def test_counts_by_the_excess(excess):
    layers = condition_number_schedule(1 + excess, tol=1e-6).gammas
    assert steps_needed(excess=excess, tol=1e-6) == len(layers)


def test_floats_start_below_a_googol():
    message = "condition_number at the start must be <= 1e+100 in float64 (pass mpmath numbers)"
    for start in (
        {"condition_number": 1.1e100},
        {"excess": [1.0, 1.1e100]},
        {"condition_number": 1e99, "margin": 10.0},
        {"condition_number": 1e100, "margin": 1e300},
    ):
        refuse(message, condition_number_schedule, **start, steps=2)
    refuse(message, steps_needed, 1.1e100, tol=0.1)
    assert steps_needed(mpmath.mpf(10) ** 101, tol=0.1) == 123
    assert steps_needed(1e100, tol=0.1) == 122


def test_eigenvalues_of_a_symbol():
    x, g = sympy.symbols("x g")
    assert eigenvalues_after(x, gammas=[g]) == (x, x * (1 - g * x) ** 2)
