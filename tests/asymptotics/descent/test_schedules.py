"""Schedules against integrals over the spectrum, exact elimination and many-start searches."""

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from stationary import assert_least

from iclimit.asymptotics.descent import (
    chebyshev_schedule,
    constant_schedule,
    divergence_rate,
    given_schedule,
    optimal_schedule,
    schedule_loss,
)
from iclimit.asymptotics.spectra import MarchenkoPastur, Wishart

# A sum of positive terms; measured worst 2e-14 (60 steps), but 6e-13 for the constant rate with
# losses of 1e-240 (c = 1e-6, 40 steps).
FLOAT64 = 1e-12
# Zeros of a companion matrix, and their loss, which is flat there; measured worst 2e-13.
RATES = 1e-9
# Search for real rates: the search of the test beats it by less; measured worst 2e-15 here.  With
# more steps it can: by 2e-4 at c = 0.01, v = 0.01, 8 steps.
SEARCH = 1e-9
# Numbers of the notes are rounded to the last digit printed.
PRINTED = 1.01
# Standard errors that the worst of four simulated losses may lie off.
SIGMAS = 4.0

RATIOS = [1e-3, 0.1, 0.5, 1 - 1e-9, 1.0, 1 + 1e-9, 2.0, 1e3]
NOISES = [0.0, 1e-300, 1e-12, 0.1, 1e6]
SIZES = [(20, 10), (5, 10), (7, 7), (1, 1), (1, 6), (6, 1)]


def integrals(rates, c):
    """Means of P^2 and of (1 - P)^2/x over density and atom, as real and imaginary part."""
    c = mpmath.mpf(c)

    def continuous(angle):
        # 2 sqrt(c) sin^2 dangle 2 sqrt(c) / (2 pi c x); x by half angles, exact at both edges.
        x = (1 - mpmath.sqrt(c)) ** 2 + 4 * mpmath.sqrt(c) * mpmath.cos(angle / 2) ** 2
        P = mpmath.mpf(1)
        for rate in rates:
            P *= 1 - rate * x
        return mpmath.mpc(P**2, (1 - P) ** 2 / x) * 2 * mpmath.sin(angle) ** 2 / (mpmath.pi * x)

    points = [0, mpmath.pi / 2, mpmath.pi * 7 / 8, mpmath.pi]
    return mpmath.quad(continuous, points) + max(0, 1 - 1 / c)


@pytest.mark.parametrize("c", [0.1, 0.5, 1.0, 1 + 1e-9, 3.0])
@pytest.mark.parametrize("rates", [[0.3], [-0.2, 0.4, 0.4, 2.5, 0.0]])
def test_loss_is_the_integral_over_the_density(rates, c):
    with mpmath.workdps(35):
        both = integrals(rates, c)
        for v in (0.3, 1e6):
            exact = both.real + v * both.imag
            value = schedule_loss([mpmath.mpf(r) for r in rates], ratio=c, noise_ratio=v)
            # At c = 1 the quadrature is limited by the edge; measured 1e-32.
            assert abs(value / exact - 1) < mpmath.mpf("1e-28")
            assert abs(schedule_loss(rates, ratio=c, noise_ratio=v) / exact - 1) < FLOAT64


@pytest.mark.parametrize(
    ("steps", "setting"),
    [*itertools.product((1, 8), (*RATIOS, *SIZES)), *((60, c) for c in (1e-3, 1.0, 1e3))],
    ids=str,
)
def test_loss_in_float64_and_fifty_digits(steps, setting):
    noises = NOISES if steps < 60 else [0.1]
    where = _where(setting)
    c = setting if isinstance(setting, float) else setting[1] / setting[0]
    for v in noises:
        rates = np.linspace(0.31, 1.7, steps) / (1 + c + v)
        with mpmath.workdps(50):
            exact = schedule_loss([mpmath.mpf(r) for r in rates], **where, noise_ratio=v)
        value = schedule_loss(rates, **where, noise_ratio=v)
        assert abs(float(value / exact) - 1) < FLOAT64


def _where(setting):
    if isinstance(setting, tuple):
        return {"context": setting[0], "dim": setting[1]}
    return {"ratio": setting}


def test_simulated_descent():
    """Steps taken on drawn contexts, with labels of noise."""
    for (context, dim), rates in itertools.product([(8, 3), (3, 5)], [[0.4], [0.2, 0.5, 0.3]]):
        tasks = 60_000
        task_variance = 1.7
        noise_variance = 0.9
        rng = np.random.default_rng(2)
        X = rng.standard_normal((tasks, context, dim))
        w = math.sqrt(task_variance) * rng.standard_normal((tasks, dim))
        noise = math.sqrt(noise_variance) * rng.standard_normal((tasks, context))
        y = np.einsum("tnd,td->tn", X, w) + noise
        guess = np.zeros_like(w)
        for rate in rates:
            residual = y - np.einsum("tnd,td->tn", X, guess)
            guess += rate * np.einsum("tnd,tn->td", X, residual) / context
        errors = np.sum((w - guess) ** 2, axis=1) / (task_variance * dim)
        v = noise_variance / (context * task_variance)
        theory = schedule_loss(rates, context=context, dim=dim, noise_ratio=v)
        assert abs(errors.mean() - theory) < SIGMAS * errors.std() / math.sqrt(tasks)


def moments(setting, count):
    if isinstance(setting, tuple):
        law = Wishart(context=setting[0], dim=setting[1])
        return [law.moment(k) for k in range(count)]
    c = Fraction(setting)
    narayana = [
        [Fraction(math.comb(k, j) * math.comb(k, j - 1), k) for j in range(1, k + 1)]
        for k in range(count)
    ]
    return [Fraction(1)] + [sum(a * c**j for j, a in enumerate(row)) for row in narayana[1:]]


def eliminated_optimum(setting, steps, v):
    """Least loss over all polynomials Q: 1 - m q with (m_{j+k+2} + v m_{j+k+1}) q = m."""
    m = moments(setting, 2 * steps + 1)
    rows = [
        [m[j + k + 2] + v * m[j + k + 1] for k in range(steps)] + [m[j + 1]] for j in range(steps)
    ]
    for i in range(steps):
        rows[i] = [a / rows[i][i] for a in rows[i]]
        for j in range(steps):
            if j != i:
                factor = rows[j][i]
                rows[j] = [a - factor * b for a, b in zip(rows[j], rows[i], strict=True)]
    return 1 - sum((row[-1] * m[j + 1] for j, row in enumerate(rows)), Fraction(0))


@pytest.mark.parametrize("steps", [1, 2, 6])
@pytest.mark.parametrize("setting", [*RATIOS, *SIZES], ids=str)
def test_lower_bound_by_exact_elimination(steps, setting):
    bounds = chebyshev_schedule(
        steps=steps, **_where(setting), noise_ratio=np.array(NOISES)
    ).lower_bound
    for v, bound in zip(NOISES, bounds, strict=True):
        exact = eliminated_optimum(setting, steps, Fraction(v))
        assert abs(Fraction(float(bound)) / exact - 1) < FLOAT64


@pytest.mark.parametrize("steps", [1, 2, 12])
@pytest.mark.parametrize("setting", [*RATIOS, *SIZES], ids=str)
def test_little_noise_reaches_the_lower_bound(steps, setting):
    noises = np.array([0.0, 1e-300, 1e-12])
    best = optimal_schedule(steps=steps, **_where(setting), noise_ratio=noises)
    assert best.loss == pytest.approx(best.lower_bound, rel=FLOAT64)
    assert np.all(np.diff(best.rates) > 0)
    loss = schedule_loss(best.rates, **_where(setting), noise_ratio=noises)
    assert loss == pytest.approx(best.loss, rel=RATES)


def test_limit_without_noise():
    for c, steps in itertools.product([1e-9, 0.3, 1.0, 2.0, 1e9], [1, 4, 25, 60]):
        best = optimal_schedule(steps=steps, ratio=c)
        with mpmath.workdps(50):
            exact = mpmath.mpf(c)
            nodes = [
                1 + exact + 2 * mpmath.sqrt(exact) * mpmath.cos(mpmath.pi * k / (steps + 1))
                for k in range(1, steps + 1)
            ]
            assert all(abs(r * x - 1) < FLOAT64 for r, x in zip(best.rates, nodes, strict=True))
            loss = 1 / sum(exact**-k for k in range(steps + 1))
            # c^L can be below the least float.
            assert abs(best.loss - loss) <= FLOAT64 * loss + mpmath.mpf("1e-300")
            multi = optimal_schedule(steps=steps, ratio=exact)
            assert abs(multi.loss / loss - 1) < mpmath.mpf("1e-47")
            assert abs(multi.rates[0] * nodes[0] - 1) < mpmath.mpf("1e-47")


def expand(setting, steps, v):
    """Loss and gradient in the rates, written here."""
    law = Wishart(context=setting[0], dim=setting[1]) if isinstance(setting, tuple) else None
    nodes, weights = (law or MarchenkoPastur(setting)).quadrature(steps)
    x = nodes[1:]
    w = weights[1:]

    def loss(rates):
        factors = 1 - rates[:, None] * x
        P = np.prod(factors, axis=0)
        Q = (1 - P) / x
        others = np.array([np.prod(np.delete(factors, k, axis=0), axis=0) for k in range(steps)])
        slope = others @ (2 * w * x * (v * Q - P))
        return float(weights[0] + np.sum(w * (P**2 + v * x * Q**2))), slope

    return loss


SEARCHED = [
    *((0.01, 2, 1.0), (0.01, 4, 1.0), (0.1, 5, 0.01), (0.1, 5, 0.3), (0.5, 2, 0.5), (0.5, 4, 0.1)),
    *((1.0, 3, 0.05), (2.0, 5, 2.0), (10.0, 3, 1.0), ((20, 10), 4, 0.1), ((5, 10), 3, 0.5)),
    *(((1, 1), 3, 0.1), ((1, 6), 2, 2.0), ((6, 1), 4, 0.05)),
]
"""Ratio or size, steps and noise; the first ones were wrong by up to 25 % for a single start."""


@pytest.mark.parametrize(("setting", "steps", "v"), SEARCHED)
def test_no_search_finds_better_rates(setting, steps, v):
    best = optimal_schedule(steps=steps, **_where(setting), noise_ratio=v)
    value = schedule_loss(best.rates, **_where(setting), noise_ratio=v)
    assert value == pytest.approx(best.loss, rel=FLOAT64)
    loss = expand(setting, steps, v)
    c = setting[1] / setting[0] if isinstance(setting, tuple) else setting
    rng = np.random.default_rng(4)
    top = (1 + math.sqrt(c)) ** 2
    for trial in range(6):
        zeros = top * np.exp(rng.uniform(math.log(0.05), math.log(3), steps))
        if trial % 3:
            zeros = np.full(steps, zeros[0]) * (1 + 0.1 * rng.standard_normal(steps))
        if trial % 3 == 2:
            zeros[: steps // 2] *= rng.uniform(0.1, 1)
        with np.errstate(all="ignore"):
            found = minimize(
                loss, 1 / (zeros + v), jac=True, method="BFGS", options={"gtol": 1e-9}
            )
        assert best.loss <= found.fun * (1 + SEARCH), np.sort(found.x)


@pytest.mark.parametrize("steps", [2, 3, 6, 8])
@pytest.mark.parametrize("c", [1e-100, 1e-50, 1e-33, 1e-20])
def test_spectrum_of_a_point_to_rounding(c, steps):
    """Any rates with prod (1 - rate) = v/(1 + v) are best; the search met a singular matrix."""
    for v in (1e-3, 0.1, 10.0):
        best = optimal_schedule(steps=steps, ratio=c, noise_ratio=v)
        assert best.loss == pytest.approx(v / (1 + v), rel=FLOAT64)
        with mpmath.workdps(50):
            exact = schedule_loss([mpmath.mpf(r) for r in best.rates], ratio=c, noise_ratio=v)
            assert abs(best.loss / exact - 1) < FLOAT64


def test_largest_noise_with_real_zeros():
    """Beyond it rates merge; table of the notes, c = 0.5, and threshold(1/c) = threshold(c)/c."""
    table = [(2, 0.291, 5e-4), (3, 0.137, 5e-4), (5, 0.0481, 5e-5), (8, 0.0146, 5e-5)]
    for steps, v, digits in table:
        for c, scale in ((0.5, 1), (2.0, 2)):
            around = np.array([v - 2 * digits, v + 2 * digits]) * scale
            best = optimal_schedule(steps=steps, ratio=c, noise_ratio=around)
            excess = best.loss / best.lower_bound - 1
            assert excess[0] < FLOAT64 < excess[1]
            gaps = np.diff(best.rates, axis=-1).min(axis=-1)
            assert gaps[0] > 1e-3 > gaps[1]
    noisy = optimal_schedule(steps=4, ratio=0.5, noise_ratio=0.1)
    assert abs(noisy.lower_bound - 0.157781) < PRINTED * 5e-7
    assert abs(noisy.loss - 0.158455) < PRINTED * 5e-7


def test_divergence_rate_is_twice_over_the_upper_edge():
    for c in (1e-9, 0.2, 1.0, 30.0):
        rate = divergence_rate(c)
        assert rate == pytest.approx(2 / (1 + math.sqrt(c)) ** 2, rel=FLOAT64)
        losses = [schedule_loss([f * rate] * 2000, ratio=c) for f in (0.99, 1.05)]
        assert losses[0] < 1 < losses[1]


def test_constant_rate_without_noise():
    """The rate 1/(1 + c) for every L, with a loss in Catalan numbers."""
    for c, steps in itertools.product([1e-6, 0.2, 0.999, 1.0, 5.0], [1, 2, 7, 40]):
        best = constant_schedule(steps=steps, ratio=c)
        assert best.rates == pytest.approx(np.full(steps, 1 / (1 + c)), rel=FLOAT64)
        with mpmath.workdps(400):
            exact = mpmath.mpf(c)
            z = exact / (1 + exact) ** 2
            head = sum(mpmath.mpf(math.comb(2 * j, j)) / (j + 1) * z**j for j in range(steps))
            assert abs(best.loss / (1 - head / (1 + exact)) - 1) < FLOAT64


@pytest.mark.parametrize("setting", [0.01, 0.5, 1.0, 7.0, (20, 10), (3, 8), (1, 1)], ids=str)
@pytest.mark.parametrize("steps", [1, 6, 60])
def test_constant_rate_by_a_dense_scan(setting, steps):
    c = setting[1] / setting[0] if isinstance(setting, tuple) else setting
    if isinstance(setting, tuple):
        steps = min(steps, 10)  # the exact rule of 60 nodes takes seconds
    noises = np.array([0.0, 0.03, 1.0, 1e6])
    best = constant_schedule(steps=steps, **_where(setting), noise_ratio=noises)
    assert np.all(best.rates == best.rates[:, :1])
    found = schedule_loss(best.rates, **_where(setting), noise_ratio=noises)
    assert found == pytest.approx(best.loss, rel=FLOAT64)
    for v, loss in zip(noises, best.loss, strict=True):
        lowest = 1e-3 / (steps * ((1 + math.sqrt(c)) ** 2 + v))
        scan = np.geomspace(lowest, 6 / (1 + c), 60)
        rates = np.repeat(scan[:, None], steps, axis=1)
        losses = schedule_loss(rates, **_where(setting), noise_ratio=v)
        assert loss <= losses.min() * (1 + FLOAT64)


@pytest.mark.parametrize("c", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_chebyshev_is_best_in_the_worst_case(c, steps):
    rates = chebyshev_schedule(steps=steps, ratio=c).rates
    lower = (1 - math.sqrt(c)) ** 2
    upper = (1 + math.sqrt(c)) ** 2
    x = (lower + upper) / 2 - (upper - lower) / 2 * np.cos(np.linspace(0, math.pi, 2001))

    def worst(rates):
        return float(np.max(np.prod(1 - rates[:, None] * x, axis=0) ** 2))

    expected = (2 * c ** (steps / 2) / (1 + c**steps)) ** 2
    assert worst(rates) == pytest.approx(expected, rel=FLOAT64)
    rng = np.random.default_rng(0)
    for scale in np.geomspace(1e-3, 0.3, 40):
        other = rates * (1 + scale * rng.standard_normal(steps))
        assert worst(other) > expected


unit = st.floats(0.01, 100)
schedules_ = st.sampled_from([optimal_schedule, constant_schedule, chebyshev_schedule])


@hypothesis_settings(max_examples=12)
@given(unit, st.one_of(st.just(0.0), st.floats(1e-6, 100)), st.integers(1, 6), schedules_)
def test_bounds_and_order(c, v, steps, function):
    schedule = function(steps=steps, ratio=c, noise_ratio=v)
    best = optimal_schedule(steps=steps, ratio=c, noise_ratio=v)
    assert 0 < best.lower_bound <= best.loss * (1 + FLOAT64) <= schedule.loss * (1 + 2 * FLOAT64)
    assert schedule.lower_bound == pytest.approx(best.lower_bound, rel=FLOAT64)
    assert np.all(schedule.rates > 0)
    if function is not chebyshev_schedule:
        following = function(steps=steps + 1, ratio=c, noise_ratio=v)
        assert following.loss <= schedule.loss * (1 + FLOAT64)
    noisier = function(steps=steps, ratio=c, noise_ratio=1.5 * v + 1e-3)
    assert noisier.loss >= schedule.loss * (1 - FLOAT64)


@hypothesis_settings(max_examples=25)
@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 5))
def test_bounds_at_finite_size(context, dim, steps):
    where = {"context": context, "dim": dim}
    best = optimal_schedule(steps=steps, **where)
    assert best.loss > max(0.0, 1 - context / dim)
    for function in (constant_schedule, chebyshev_schedule):
        assert function(steps=steps, **where).loss >= best.loss * (1 - FLOAT64)
    assert optimal_schedule(steps=steps + 1, **where).loss < best.loss


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6), unit, st.floats(0, 10))
def test_no_rates_are_below_the_bound_and_their_order_is_irrelevant(rates, c, v):
    loss = schedule_loss(rates, ratio=c, noise_ratio=v)
    bound = chebyshev_schedule(steps=len(rates), ratio=c, noise_ratio=v).lower_bound
    assert loss >= bound * (1 - FLOAT64)
    assert schedule_loss(rates[::-1], ratio=c, noise_ratio=v) == pytest.approx(loss, rel=1e-9)
    assert schedule_loss([*rates, 0.0], ratio=c, noise_ratio=v) == pytest.approx(loss, rel=1e-9)


def test_shapes_of_the_loss():
    rates = np.full((5, 1, 2), 0.3)
    assert schedule_loss(rates, ratio=np.full(4, 0.5), noise_ratio=0.1).shape == (5, 4)
    assert schedule_loss(rates, context=5, dim=2, noise_ratio=np.zeros(3)).shape == (5, 3)
    assert isinstance(schedule_loss([0.3], ratio=0.5), float)
    assert schedule_loss((1, 2), ratio=1) == schedule_loss(np.array([1, 2]), ratio=1.0)
    assert isinstance(divergence_rate(0.5), float)
    assert divergence_rate(np.ones((2, 3))).shape == (2, 3)


def test_overflow_is_infinite():
    assert schedule_loss([1e200] * 3, ratio=0.5) == math.inf
    assert schedule_loss([1e200] * 3, ratio=0.5, noise_ratio=1.0) == math.inf


def test_sympy():
    c, v, s, t = sympy.symbols("c v s t", positive=True)
    N, d = sympy.symbols("N d", positive=True)
    loss = schedule_loss([s, t], ratio=c, noise_ratio=v)
    expected = schedule_loss([0.5, 1.0], ratio=0.5, noise_ratio=0.2)
    assert loss.subs({s: 0.5, t: 1.0, c: 0.5, v: 0.2}) == pytest.approx(expected, rel=FLOAT64)
    one = optimal_schedule(steps=1, ratio=c, noise_ratio=v)
    assert sympy.simplify(one.rates[0] - 1 / (1 + c + v)) == 0
    assert sympy.simplify(one.loss - (c + v) / (1 + c + v)) == 0
    for L in (2, 3):
        best = optimal_schedule(steps=L, ratio=c)
        assert sympy.cancel(best.loss - 1 / sum(c**-k for k in range(L + 1))) == 0
        back = schedule_loss(best.rates, ratio=c)
        assert abs((back - best.loss).subs(c, sympy.Rational(2, 7)).evalf(40)) < 1e-30
    finite = optimal_schedule(steps=1, context=N, dim=d)
    assert sympy.simplify(finite.loss - (d + 1) / (N + d + 1)) == 0
    two = optimal_schedule(steps=2, context=N, dim=d)
    assert two.loss.subs({N: 20, d: 10}) == sympy.Rational(15827, 93957)
    rates = sorted(float(r.subs({N: 20, d: 10})) for r in two.rates)
    assert rates == pytest.approx(optimal_schedule(steps=2, context=20, dim=10).rates, rel=RATES)
    assert sympy.simplify(divergence_rate(c) - 2 / (1 + sympy.sqrt(c)) ** 2) == 0
    exact = schedule_loss([sympy.Rational(1, 2), 1], context=20, dim=10)
    assert exact == sympy.Rational("0.1865625")
    integers = optimal_schedule(steps=3, context=sympy.Integer(20), dim=10)
    number = optimal_schedule(steps=3, context=20, dim=10).loss
    assert float(integers.loss) == pytest.approx(number, rel=FLOAT64)


def test_mpmath_at_finite_size():
    with mpmath.workdps(50):
        best = optimal_schedule(steps=4, context=20, dim=10, noise_ratio=mpmath.mpf(0))
        exact = Wishart(context=20, dim=10).christoffel(4)
        assert abs(best.loss - mpmath.mpf(exact.numerator) / exact.denominator) < 1e-48
        back = schedule_loss(best.rates, context=20, dim=10)
        assert abs(back / best.loss - 1) < mpmath.mpf("1e-45")
        assert isinstance(divergence_rate(mpmath.mpf(1)), mpmath.mpf)


@pytest.mark.parametrize("function", [constant_schedule, chebyshev_schedule])
def test_exact_rates_in_the_limit(function):
    c = sympy.Symbol("c", positive=True)
    symbolic = function(steps=3, ratio=c)
    expected = function(steps=3, ratio=0.3)
    rates = [float(rate.subs(c, 0.3)) for rate in symbolic.rates]
    np.testing.assert_allclose(rates, expected.rates, rtol=1e-12)
    assert float(symbolic.loss.subs(c, 0.3)) == pytest.approx(expected.loss, rel=1e-12)
    found = float(symbolic.lower_bound.subs(c, 0.3))
    assert found == pytest.approx(expected.lower_bound, rel=1e-12)
    precise = function(steps=3, ratio=mpmath.mpf("0.3"))
    assert float(precise.loss) == pytest.approx(expected.loss, rel=1e-12)
    with pytest.raises(ValueError, match="in the limit"):
        function(steps=2, context=c, dim=3)


def test_grids_do_not_influence_each_other():
    """A search from many starts gives the same alone and in a grid."""
    c = np.array([0.05, 0.5, 3.0])
    v = np.array([0.3, 0.3, 0.3])
    together = optimal_schedule(steps=4, ratio=c, noise_ratio=v)
    for k, (ratio, noise) in enumerate(zip(c, v, strict=True)):
        alone = optimal_schedule(steps=4, ratio=ratio, noise_ratio=noise)
        assert alone.loss == pytest.approx(together.loss[k], rel=FLOAT64)


@pytest.mark.parametrize("steps", [2, 4, 8])
def test_rates_belong_to_their_loss_over_the_whole_domain(steps):
    """For much noise the companion matrix had real eigenvalues by accident: a loss of 1e81."""
    c = np.array([1e-9, 0.5, 1 - 1e-9, 1.0, 2.0, 1e9])[:, None]
    v = np.array([1e-12, 1e-3, 1.0, 1e3, 1e12])
    settings = [{"ratio": c}]
    settings += [{"context": n, "dim": d} for n, d in ((1, 50), (50, 1), (10**6, 3))]
    for setting in settings:
        best = optimal_schedule(steps=steps, **setting, noise_ratio=v)
        again = schedule_loss(best.rates, **setting, noise_ratio=v)
        assert again == pytest.approx(best.loss, rel=RATES)
        constant = constant_schedule(steps=steps, **setting, noise_ratio=v)
        assert np.all(best.loss <= constant.loss * (1 + FLOAT64))
        assert np.all(best.lower_bound <= best.loss * (1 + FLOAT64))


def test_float_arguments_beside_mpmath_rates():
    """The moments of a float ratio were taken in float64: all digits lost for 60 rates."""
    rates = np.linspace(0.2, 1.1, 40)
    with mpmath.workdps(30):
        exact = schedule_loss([mpmath.mpf(r) for r in rates], ratio=0.5)
        assert abs(schedule_loss(rates, ratio=0.5) / exact - 1) < FLOAT64


def test_noiseless_schedules_at_the_ends_of_the_domain():
    for ratio, steps in itertools.product([1e-100, 1e-33, 1e-3, 1.0, 1e40, 1e100], [2, 300, 800]):
        best = optimal_schedule(steps=steps, ratio=ratio)
        assert np.all(np.isfinite(best.rates))
        assert best.loss == best.lower_bound


def test_given_rates_have_their_loss_and_the_bound_of_the_best():
    for where in ({"ratio": 0.5}, {"context": 20, "dim": 10}):
        best = optimal_schedule(steps=3, **where)
        again = given_schedule(best.rates, **where)
        assert again.loss == pytest.approx(best.loss, rel=1e-12)
        worse = given_schedule(best.rates / 2, **where)
        assert worse.loss > worse.lower_bound == pytest.approx(best.loss, rel=1e-12)


@pytest.mark.parametrize(("context", "noise"), [(9, 0.1), (25, 0.25)])
def test_best_rates_are_stationary(context, noise):
    setting = {"context": context, "dim": 5, "noise_ratio": noise}
    constant = constant_schedule(steps=3, **setting)
    assert_least(
        lambda rate: schedule_loss([rate, rate, rate], **setting),
        [constant.rates[0]],
        constant.loss,
    )
    two = optimal_schedule(steps=2, **setting)
    assert_least(lambda *rates: schedule_loss(rates, **setting), [*two.rates], two.loss)
