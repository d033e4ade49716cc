"""GD++ against its layers taken literally, integrals over the spectrum and global searches."""

import itertools
import math
from functools import lru_cache

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scipy.optimize import differential_evolution
from stationary import assert_least

from iclimit.asymptotics.descent import chebyshev_schedule, optimal_schedule, schedule_loss
from iclimit.asymptotics.gdpp import gdpp_loss, gdpp_minima, optimal_gdpp, worst_case_residual
from iclimit.asymptotics.gdpp import losses as gdpp_module
from iclimit.asymptotics.gdpp.search import (
    average_objective,
    degree,
    norm_objective,
    random_starts,
    residual,
)
from iclimit.asymptotics.spectra import Wishart, wishart_moment

# A sum of positive terms; measured worst 1e-14 for losses above 1e-3.
FLOAT64 = 1e-12
# Small losses: relative error times the root of the loss; measured worst 3e-16.
SMALL_LOSS = 3e-15
# Gauss-Radau rules of the limit against those of schedules, of different order; measured 4e-15.
RULES = 1e-12
# Refined maxima of |P| against critical points with 50 digits; measured worst 2e-15.
MAXIMUM = 1e-12
# Differential evolution stops short of the minimum; measured below 1e-9 where it ends in ours.
EVOLUTION = 1e-6
# Its worst case is that of 401 points, lower by (D pi/800)^2/2 at most; the measured 2e-5.  Other
# local minima are 1.5e-3 and more above.
POINTS = 1.3e-4
# Numbers of the notes are rounded to the last digit printed.
PRINTED = 1.01

LAYERS = [
    ([0.4], []),
    ([0.5, 2.0], [0.3]),
    ([0.2, 1.5, 6.0], [0.45, 1.1]),
    ([0.7, -0.4, 2.0, 9.0], [0.2, -0.3, 1.6]),
]
"""Rates and gammas; the spectrum folds for some of them, and some are negative."""


@lru_cache
def minima(layers, **setting):
    return gdpp_minima(layers, **setting)


@lru_cache
def best(layers, **setting):
    """The first minimum on average, which `optimal_gdpp` would search for once more."""
    return (
        optimal_gdpp(layers, **setting)
        if "condition_number" in setting
        else minima(layers, **setting)[0]
    )


def test_the_optimum_is_the_first_minimum():
    for setting in ({"ratio": 4.0, "noise_ratio": 0.3}, {"context": 6, "dim": 4}):
        found = optimal_gdpp(2, **setting)
        first = minima(2, **setting)[0]
        for name in ("rates", "gammas", "loss", "lower_bound"):
            np.testing.assert_array_equal(getattr(found, name), getattr(first, name))


def literal_weights(X, rates, gammas):
    """The map A of shape (..., d, N) from labels to the weights of the prediction.

    Tokens and queries pass through the layers as defined; queries are the unit vectors and labels
    the unit vectors.
    """
    context, dim = X.shape[-2:]
    Z = X
    r = np.broadcast_to(np.eye(context), (*X.shape[:-2], context, context))
    query = np.broadcast_to(np.eye(dim), (*X.shape[:-2], dim, dim))
    label = np.zeros(1)
    for rate, gamma in zip(rates, [*gammas, 0.1], strict=True):
        turned = np.swapaxes(Z, -1, -2)
        summary = turned @ r / context
        gram = turned @ Z / context
        r = r - rate * Z @ summary
        label = label - rate * query @ summary
        Z = Z - gamma * Z @ gram
        query = query - gamma * query @ gram
    return -label


def test_layers_are_functions_of_the_eigenvalues():
    for rates, gammas in LAYERS:
        rng = np.random.default_rng(1)
        X = rng.standard_normal((9, 4))
        A = literal_weights(X, rates, gammas)
        eigenvalues, V = np.linalg.eigh(X.T @ X / 9)
        P, Q = residual(np.array(rates), np.array(gammas), eigenvalues)
        scale = np.abs(A).max()
        np.testing.assert_allclose((V * Q) @ V.T @ X.T / 9, A, atol=1e-12 * scale, rtol=0)
        np.testing.assert_allclose((V * P) @ V.T, np.eye(4) - A @ X, atol=1e-12 * scale, rtol=0)


def scalar_residual(root, rates, gammas):
    """What is left of the label of a single one-dimensional token, root^2 its eigenvalue."""
    r = root / root
    z = root
    for rate, gamma in zip(rates, [*gammas, 0], strict=True):
        r = r - rate * z * (z * r)
        z = z - gamma * z * (z * z)
    return r


@pytest.mark.parametrize(("layers", "c"), [(0, 0.5), (1, 0.1), (1, 1.0), (2, 1.0), (2, 3.0)])
def test_loss_is_the_integral_over_the_density(layers, c):
    rates, gammas = LAYERS[layers]
    exact_c = mpmath.mpf(c)
    v = mpmath.mpf("0.3")

    def continuous(angle):
        x = (1 - mpmath.sqrt(exact_c)) ** 2
        x += 4 * mpmath.sqrt(exact_c) * mpmath.cos(angle / 2) ** 2
        P = scalar_residual(mpmath.sqrt(x), rates, gammas)
        return (P**2 + v * (1 - P) ** 2 / x) * 2 * mpmath.sin(angle) ** 2 / (mpmath.pi * x)

    with mpmath.workdps(50):
        points = [0, mpmath.pi / 2, mpmath.pi * 7 / 8, mpmath.pi]
        exact = mpmath.quad(continuous, points) + max(0, 1 - 1 / exact_c)
        value = gdpp_loss(list(map(mpmath.mpf, rates)), gammas=gammas, ratio=c, noise_ratio=v)
        # At c = 1 the quadrature is limited by the edge; measured 1e-46.
        assert abs(value / exact - 1) < mpmath.mpf("1e-40")
    assert abs(gdpp_loss(rates, gammas=gammas, ratio=c, noise_ratio=0.3) / exact - 1) < FLOAT64


@pytest.mark.parametrize(("rates", "gammas"), LAYERS)
@pytest.mark.parametrize("size", [(20, 10), (5, 9), (1, 1)])
def test_float64_at_finite_size(rates, gammas, size):
    """Moments with 50 digits; the rule for four layers takes seconds at one size only."""
    if len(rates) == 4 and size != (20, 10):
        return
    where = {"context": size[0], "dim": size[1]}
    for v in (0.0, 0.2):
        with mpmath.workdps(50):
            exact = gdpp_loss(list(map(mpmath.mpf, rates)), gammas=gammas, **where, noise_ratio=v)
        assert abs(gdpp_loss(rates, gammas=gammas, **where, noise_ratio=v) / exact - 1) < FLOAT64


def test_exact_moments():
    """Coefficients by SymPy, moments by Stein's lemma, a symbolic size."""
    root, N, v = sympy.symbols("z N v", positive=True)
    rates = [sympy.Rational(1, 3), sympy.Rational(3, 2)]
    gammas = [sympy.Rational(1, 4)]
    P = sympy.expand(scalar_residual(root, rates, gammas))
    integrand = sympy.Poly(sympy.expand(P**2 + v * sympy.expand((1 - P) ** 2 / root**2)), root)
    exact = sum(
        coefficient * wishart_moment([power // 2], context=N, dim=3) / (3 * N ** (power // 2))
        for (power,), coefficient in integrand.terms()
    )
    value = gdpp_loss(rates, gammas=gammas, context=N, dim=3, noise_ratio=v)
    assert sympy.expand(value - exact) == 0
    numbers = gdpp_loss([1 / 3, 1.5], gammas=[0.25], context=7, dim=3, noise_ratio=0.1)
    assert float(value.subs({N: 7, v: 0.1})) == pytest.approx(numbers, rel=FLOAT64)


@pytest.mark.parametrize("where", [{"ratio": 0.4}, {"ratio": 3.0}, {"context": 6, "dim": 4}])
@pytest.mark.parametrize("v", [0.0, 0.3])
def test_without_preconditioning_it_is_gradient_descent(where, v):
    for rates in ([0.7], [0.3, 0.9], [0.2, 0.4, 1.1]):
        value = gdpp_loss(rates, gammas=[0.0] * (len(rates) - 1), **where, noise_ratio=v)
        assert value == pytest.approx(schedule_loss(rates, **where, noise_ratio=v), rel=RULES)
    one = best(1, **where, noise_ratio=v)
    assert one.gammas.shape == (0,)
    schedule = optimal_schedule(steps=1, **where, noise_ratio=v)
    assert one.loss == pytest.approx(schedule.loss, rel=FLOAT64)
    assert one.rates == pytest.approx(schedule.rates, rel=1e-7)  # flat there
    assert one.lower_bound == pytest.approx(schedule.loss, rel=FLOAT64)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layers", "setting"),
    [
        (2, {"ratio": 0.01}),
        (3, {"ratio": 0.5}),
        (4, {"ratio": 1.0}),
        (3, {"context": 20, "dim": 10}),
        (3, {"ratio": 2.0, "noise_ratio": 0.2}),
    ],
)
def test_small_losses_in_float64_and_fifty_digits(layers, setting):
    """At the optimum the factors of P are small, and rounding of the rates alone changes them."""
    found = best(layers, **setting)
    with mpmath.workdps(50):
        rates, gammas = ([mpmath.mpf(float(x)) for x in v] for v in (found.rates, found.gammas))
        exact = gdpp_loss(rates, gammas=gammas, **setting)
    assert abs(found.loss / exact - 1) < SMALL_LOSS / math.sqrt(found.loss)
    assert gdpp_loss(found.rates, gammas=found.gammas, **setting) == found.loss


numbers_ = st.floats(-3, 3)
layers_ = st.integers(1, 4).flatmap(
    lambda n: st.tuples(
        st.lists(numbers_, min_size=n, max_size=n),
        st.lists(numbers_, min_size=n - 1, max_size=n - 1),
    )
)


@hypothesis_settings(max_examples=100)
@given(layers_, st.floats(0.02, 20), st.one_of(st.just(0.0), st.floats(1e-6, 100)))
def test_no_layers_are_below_the_bound(layers, c, v):
    steps = (3 ** len(layers[0]) - 1) // 2
    bound = chebyshev_schedule(steps=steps, ratio=c, noise_ratio=v).lower_bound
    assert gdpp_loss(layers[0], gammas=layers[1], ratio=c, noise_ratio=v) >= bound * (1 - FLOAT64)


@hypothesis_settings(max_examples=50)
@given(layers_, st.floats(1.01, 1e4))
def test_no_worst_case_is_below_chebyshev(layers, condition_number):
    steps = (3 ** len(layers[0]) - 1) // 2
    bound = 1 / mpmath.chebyt(
        steps, (mpmath.mpf(condition_number) + 1) / (mpmath.mpf(condition_number) - 1)
    )
    found = worst_case_residual(layers[0], gammas=layers[1], condition_number=condition_number)
    assert found >= float(bound) * (1 - FLOAT64)


@pytest.mark.slow
@hypothesis_settings(max_examples=8, deadline=None)
@given(
    st.one_of(
        st.fixed_dictionaries({"ratio": st.floats(0.01, 100), "noise_ratio": st.floats(0, 10)}),
        st.fixed_dictionaries({"condition_number": st.floats(1.1, 1e4)}),
        st.fixed_dictionaries({"context": st.integers(1, 30), "dim": st.integers(1, 30)}),
    )
)
def test_optimum_lies_between_its_bound_and_one_layer_less(setting):
    one, two = (optimal_gdpp(layers, **setting) for layers in (1, 2))
    assert 0 < two.lower_bound <= two.loss * (1 + FLOAT64)
    assert two.loss <= one.loss * (1 + FLOAT64) <= 1 + 2 * FLOAT64
    if "condition_number" in setting:
        exact = 1 / mpmath.chebyt(
            4, (mpmath.mpf(setting["condition_number"]) + 1) / (setting["condition_number"] - 1)
        )
        assert two.lower_bound == pytest.approx(float(exact), rel=FLOAT64)
    else:
        bound = chebyshev_schedule(steps=4, **setting).lower_bound
        assert two.lower_bound == pytest.approx(bound, rel=FLOAT64)


def evolve(criterion, roots, layers, rounds):
    """Least criterion of the residuals at eigenvalues roots^2, by differential evolution.

    Rates and gammas are in units of one over the largest eigenvalue.
    """
    top = np.max(roots) ** 2
    limits = [(-60.0, 60.0)] * layers + [(-5.0, 30.0)] * (layers - 1)
    limits[0] = (-5.0, 5.0)

    def objective(x):
        x = x.reshape(len(limits), -1)[..., None] / top
        return criterion(scalar_residual(roots, list(x[:layers]), list(x[layers:])))

    return differential_evolution(
        objective,
        limits,
        popsize=30,
        maxiter=rounds,
        tol=1e-12,
        rng=1,
        polish=False,
        vectorized=True,
        updating="deferred",
    ).fun


@pytest.mark.parametrize("condition_number", [1.5, 10.0, 100.0, 1000.0])
def test_no_search_finds_a_better_worst_case_with_two_layers(condition_number):
    roots = np.sqrt(
        1 / condition_number
        + (1 - 1 / condition_number) * np.sin(np.linspace(0, np.pi / 2, 401)) ** 2
    )
    found = evolve(lambda P: np.abs(P).max(axis=-1), roots, 2, 200)
    assert best(2, condition_number=condition_number).loss <= found * (1 + POINTS)


@pytest.mark.parametrize(("c", "v"), [(0.5, 0.0), (0.5, 0.05), (0.1, 0.1), (1.0, 0.1), (4.0, 0.3)])
def test_no_search_finds_a_better_loss_with_two_layers(c, v):
    found = evolve_in_the_limit(c, v, 2, 300)
    assert best(2, ratio=c, noise_ratio=v).loss <= found * (1 + EVOLUTION)


def test_no_search_finds_a_better_loss_with_three_layers():
    """Differential evolution ends in a minimum 2 per cent worse or in ours."""
    found = evolve_in_the_limit(0.5, 0.05, 3, 600)
    assert best(3, ratio=0.5, noise_ratio=0.05).loss <= found * (1 + EVOLUTION)


def evolve_in_the_limit(c, v, layers, rounds):
    # The midpoint rule in the angle is exact for 400 points.
    angle = (np.arange(400) + 0.5) * np.pi / 400
    x = 1 + c + 2 * math.sqrt(c) * np.cos(angle)
    weight = 2 * np.sin(angle) ** 2 / x / 400
    at_zero = max(0.0, 1 - 1 / c)

    def loss(P):
        terms = weight * (P**2 + v * (1 - P) ** 2 / x)
        return terms.sum(axis=-1)

    return at_zero + evolve(loss, np.sqrt(x), layers, rounds)


@pytest.mark.parametrize(
    ("c", "v", "layers", "loss", "bound"),
    [(0.5, 0.05, 3, 0.084682, 0.084435), (1.0, 0.1, 2, 0.298884, 0.298846)],
)
def test_notes_in_the_limit(c, v, layers, loss, bound):
    found = best(layers, ratio=c, noise_ratio=v)
    assert found.loss == pytest.approx(loss, abs=PRINTED * 5e-7)
    assert found.lower_bound == pytest.approx(bound, abs=PRINTED * 5e-7)


@pytest.mark.slow
def test_notes_without_noise():
    """The notes have 6.8e-4 for three layers, which is the second local minimum."""
    assert best(2, ratio=0.5).loss == pytest.approx(0.03226, abs=PRINTED * 5e-6)
    assert best(2, ratio=0.5).lower_bound == pytest.approx(1 / 31, rel=FLOAT64)
    first, second = minima(3, ratio=0.5)[:2]
    assert first.loss == pytest.approx(6.2745e-4, rel=1e-4)
    assert second.loss == pytest.approx(6.8e-4, abs=PRINTED * 5e-6)
    assert best(4, ratio=0.5).loss == pytest.approx(2.2e-7, abs=PRINTED * 5e-9)


@pytest.mark.parametrize(("condition_number", "layers"), [(10, 2), (100, 2), (10, 3), (100, 3)])
def test_extrema_of_the_best_worst_case_are_of_equal_height(condition_number, layers):
    """One more than there are rates and gammas: then no small change lowers all of them."""
    found = best(layers, condition_number=condition_number)
    roots = np.sqrt(np.linspace(1 / condition_number, 1, 100_001))
    P = np.abs(scalar_residual(roots, list(found.rates), list(found.gammas)))
    peaks = P[1:-1][(P[1:-1] >= P[:-2]) & (P[1:-1] > P[2:])]
    peaks = np.concatenate([peaks, P[:1], P[-1:]])
    # The grid misses the extrema by less than 4e-7 of their height.
    assert np.sum(peaks > found.loss * (1 - 1e-6)) == 2 * layers


def test_random_starts_are_rates_of_noisy_eigenvalues():
    """A layer that removes an eigenvalue theta has the rate 1/(theta + v), below 1/v."""
    quiet, noisy = (random_starts(3, 400, 0.1, v)[:, :3] for v in (0.0, 5.0))
    assert np.all(quiet > 0)
    assert np.median(quiet) > 1 / 5
    assert np.all((noisy > 0) & (noisy < 1 / 5))


def test_published_two_layers_are_a_local_minimum():
    """Vladymyrov et al., Table 1: GD++ .341, diagonal .265, full .264, for N = 20 and d = 10."""
    losses = [0.5 * 10 * found.loss for found in minima(2, context=20, dim=10)]
    assert losses == pytest.approx([0.267942, 0.341594, 0.389302], abs=1e-6)
    assert 0.5 * 10 * minima(2, context=20, dim=10)[0].lower_bound == pytest.approx(0.266249)


@pytest.mark.parametrize(
    ("layers", "setting"),
    [
        (2, {"context": 20, "dim": 10}),
        (2, {"ratio": 0.5, "noise_ratio": 0.05}),
        (3, {"ratio": 0.5}),
    ],
    ids=str,
)
def test_minima_are_strict_and_distinct(layers, setting):
    found = minima(layers, **setting)
    losses = [each.loss for each in found]
    assert losses == sorted(losses)
    assert best(layers, **setting).loss == losses[0]
    for each in found:
        x = np.concatenate([each.rates, each.gammas])

        def loss(change, x=x):
            y = x * (1 + change)
            return gdpp_loss(y[..., :layers], gammas=y[..., layers:], **setting)

        # Central differences in relative changes of rates and gammas.
        step = 1e-4
        unit = np.eye(len(x))
        gradient = (loss(step * unit) - loss(-step * unit)) / (2 * step)
        signs = list(itertools.product((1, -1), repeat=2))
        mixed = [
            [sum(s * t * loss(step * (s * a + t * b)) for s, t in signs) for a in unit]
            for b in unit
        ]
        hessian = np.array(mixed) / (4 * step**2)
        scale = np.sqrt(np.diagonal(hessian))
        assert np.linalg.eigvalsh(hessian / np.outer(scale, scale)).min() > 1e-6
        # What a Newton step would gain; the differences are exact to 1e-8 in the gradient.
        assert gradient @ np.linalg.solve(hessian, gradient) < 1e-6 * each.loss
    for a, b in itertools.combinations(found, 2):
        assert np.max(abs(a.rates / b.rates - 1)) > 1e-3


@pytest.mark.slow
def test_four_layers_at_finite_size():
    found = best(4, context=20, dim=10)
    assert found.loss == pytest.approx(7.95183e-5, rel=1e-5)
    law = Wishart(context=20, dim=10)
    assert found.lower_bound == pytest.approx(float(law.christoffel(40)), rel=FLOAT64)


@lru_cache
def critical_points(rates, gammas):
    """Coefficients of P and the real zeros of its derivative, with 60 digits."""
    root = sympy.Symbol("z")
    numbers = [[sympy.Rational(x) for x in each] for each in (rates, gammas)]
    P = sympy.Poly(sympy.expand(scalar_residual(root, *numbers)), root)
    coefficients = P.all_coeffs()[::2]  # in the eigenvalue
    count = len(coefficients) - 1
    with mpmath.workdps(60):
        exact = [mpmath.mpf(c.p) / c.q for c in coefficients]
        slope = [c * (count - k) for k, c in enumerate(exact[:-1])]
        zeros = mpmath.polyroots(slope, maxsteps=500, extraprec=500) if count > 1 else []
        return exact, [mpmath.re(z) for z in zeros if abs(mpmath.im(z)) < 1e-30]


def critical_maximum(rates, gammas, condition_number):
    """Largest |P| at the ends and the zeros of its derivative between them, with 60 digits."""
    exact, zeros = critical_points(tuple(rates), tuple(gammas))
    with mpmath.workdps(60):
        lower = 1 / mpmath.mpf(condition_number)
        inside = [x for x in zeros if lower < x < 1]
        return max(abs(mpmath.polyval(exact, x)) for x in [lower, mpmath.mpf(1), *inside])


@pytest.mark.parametrize("condition_number", [1.0, 1.3, 10.0, 1e4, 1e8])
def test_worst_case_at_critical_points(condition_number):
    rng = np.random.default_rng(2)
    cases = [*LAYERS[:3], ([1.388, 11.11], [1.3518]), ([1.02137, 5.8225, 21.309], [0.8196, 3.085])]
    for layers in (2, 3):
        for _ in range(4):
            cases.append((list(rng.uniform(-2, 9, layers)), list(rng.uniform(-1, 3, layers - 1))))
    for rates, gammas in cases:
        exact = critical_maximum(rates, gammas, condition_number)
        worst = worst_case_residual(rates, gammas=gammas, condition_number=condition_number)
        assert abs(worst / exact - 1) < MAXIMUM


def test_objectives_have_their_derivatives():
    """Halves of gradients and Gauss-Newton matrices, by complex steps through P and Q."""
    rng = np.random.default_rng(0)
    nodes = np.linspace(0.2, 1.4, 9)
    weights = rng.random(9)
    noise = 0.3
    power = 3
    points = 0.7 * rng.standard_normal((2, 5))
    found = average_objective(nodes, weights, noise)(points)
    logarithm, slope, _ = norm_objective(nodes, power)(points)
    for row, x in enumerate(points):
        moved = x + 1e-30j * np.eye(6, 5)  # the last row is not moved
        P, Q = residual(moved[:, :3], moved[:, 3:], nodes)
        both = np.stack([P, np.sqrt(noise * nodes) * Q], axis=1)
        at = both[-1].real
        by = both[:-1].imag / 1e-30
        expected = (
            np.sum(weights * at**2),
            np.sum(weights * at * by, axis=(1, 2)),
            np.einsum("n,iqn,jqn->ij", weights, by, by),
        )
        for each, exact in zip(found, expected, strict=True):
            np.testing.assert_allclose(each[row], exact, rtol=1e-12)
        logarithms = np.log(np.sum(P ** (2 * power), axis=-1)) / (2 * power)
        assert logarithm[row] == pytest.approx(logarithms[-1].real, rel=1e-12)
        np.testing.assert_allclose(slope[row], logarithms[:-1].imag / 1e-30, rtol=1e-12)


def test_broadcasting_is_the_loop(monkeypatch):
    monkeypatch.setattr(gdpp_module, "_ROWS", 1500)  # seven residuals at a time
    rng = np.random.default_rng(0)
    rates = rng.uniform(0, 3, (4, 1, 3))
    gammas = rng.uniform(0, 1, (5, 2))
    c = rng.uniform(0.2, 2, (2, 1, 1))
    v = rng.uniform(0, 1, (5,))
    loss = gdpp_loss(rates, gammas=gammas, ratio=c, noise_ratio=v)
    finite = gdpp_loss(rates, gammas=gammas, context=6, dim=3, noise_ratio=v)
    condition_number = rng.uniform(2, 50, (2, 1, 1))
    worst = worst_case_residual(rates, gammas=gammas, condition_number=condition_number)
    assert loss.shape == worst.shape == (2, 4, 5)
    assert finite.shape == (4, 5)
    for k, i, j in itertools.product(range(2), range(4), range(5)):
        x = {"rates": rates[i, 0], "gammas": gammas[j]}
        single = (
            gdpp_loss(**x, ratio=c[k, 0, 0], noise_ratio=v[j]),
            gdpp_loss(**x, context=6, dim=3, noise_ratio=v[j]),
            worst_case_residual(**x, condition_number=condition_number[k, 0, 0]),
        )
        assert (loss[k, i, j], finite[i, j], worst[k, i, j]) == pytest.approx(single, rel=1e-14)
    assert isinstance(gdpp_loss([0.1], gammas=[], ratio=0.5), float)
    none = {"rates": np.ones((0, 2)), "gammas": np.ones((0, 1))}
    assert worst_case_residual(**none, condition_number=2.0).shape == (0,)


def test_overflow_is_infinite():
    huge = np.array([[1e200, 1e200], [0.5, 0.5]])
    assert gdpp_loss(huge, gammas=[1e150], ratio=0.5).tolist() == [math.inf] * 2
    assert worst_case_residual(huge, gammas=[1e160], condition_number=3.0)[0] == math.inf
    assert gdpp_loss([0.5, 1e155], gammas=[0.1], context=3, dim=2) == math.inf


def test_the_most_layers():
    many = np.full(8, 0.1)
    assert degree(8) == 3280
    assert gdpp_loss(many, gammas=many[:7], ratio=0.5) < 1
    assert worst_case_residual(many, gammas=many[:7], condition_number=2.0) < 1


@pytest.mark.parametrize(("context", "noise"), [(9, 0.1), (25, 0.25)])
def test_two_best_layers_are_stationary(context, noise):
    setting = {"context": context, "dim": 5, "noise_ratio": noise}
    layers = best(2, **setting)

    def loss(first, second, gamma):
        return gdpp_loss([first, second], gammas=[gamma], **setting)

    assert_least(loss, [*layers.rates, layers.gammas[0]], layers.loss)
