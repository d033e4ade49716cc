"""Exponents against sums over many modes, fixed points and a numerical optimum of compute."""

import math

import mpmath
import numpy as np
import pytest
import sympy
from scipy.optimize import brentq, minimize

from iclimit.asymptotics.depth import balanced_saddle, scaling_exponents

MODES = np.geomspace(1, 1e12, 4001)
"""Mode numbers of a continuous power law, from the first to what no resource here reaches."""

SPACING = np.gradient(MODES)


def slope(loss, resource):
    """Exponent between the last two points."""
    return float(-np.diff(np.log(loss))[-1] / np.diff(np.log(resource))[-1])


def test_time_of_a_fixed_covariance():
    for nu, beta in ((1.0, 1.0), (2.0, 0.5), (1.5, 1.0), (1.2, 2.5)):
        share = MODES ** (-nu * beta - 1) * SPACING
        rate = MODES ** (-nu * beta - 1 - 2 * nu)
        times = np.array([1e9, 1e10])
        loss = np.array([np.sum(share / (1 + 4 * rate * t)) for t in times])
        exponent = scaling_exponents(nu=nu, beta=beta, setting="fs").time
        assert slope(loss, times) == pytest.approx(exponent, rel=5e-3)


@pytest.mark.parametrize("beta", [0.5, 1.0, 2.5])
def test_time_and_depth_of_tied_layers(beta):
    """Flow of the gain at infinite depth, merged or a product of five weights; best gains."""
    exponents = scaling_exponents(nu=1.3, beta=beta)
    x = MODES**-1.3
    share = MODES ** (-1.3 * beta - 1) * SPACING
    gains = np.geomspace(1, 1e5, 801)
    loss = np.array([np.sum(share * np.exp(-2 * g * x)) for g in gains])
    force = np.array([np.sum(share * x * np.exp(-2 * g * x)) for g in gains])
    for weights, exponent in ((1, exponents.time), (5, exponents.time_of_weights)):
        speed = force * gains ** (2 - 2 / weights)  # each of the weights is gains^(1/weights)
        steps = np.diff(gains) * (1 / speed[1:] + 1 / speed[:-1]) / 2
        times = np.cumsum(steps)
        assert slope(loss[1:][[-25, -1]], times[[-25, -1]]) == pytest.approx(exponent, rel=0.01)
    depths = np.array([512, 1024])
    best = np.array([balanced_saddle(x, weights=share, depth=L).loss for L in depths.tolist()])
    assert slope(best, depths) == pytest.approx(exponents.depth, rel=0.02)


@pytest.mark.parametrize("beta", [0.4, 0.8, 1.6, 3.0])
def test_width_and_context(beta):
    """Projection on random directions and interpolation, by their fixed point."""
    nu = 1.2
    sizes = np.array([3e4, 3e5])
    lam = MODES**-nu
    share = MODES ** (-nu * beta - 1) * SPACING
    width = []
    context = []
    for size in sizes:
        chi = brentq(lambda c, n=size: np.sum(SPACING * lam / (lam + c)) - n, 1e-14, 1)
        width.append(np.sum(share * chi / (lam + chi)))
        used = np.sum(SPACING * (lam / (lam + chi)) ** 2) / size
        context.append(np.sum(share * (chi / (lam + chi)) ** 2) / (1 - used))
    exponents = scaling_exponents(nu=nu, beta=beta)
    assert slope(np.array(width), sizes) == pytest.approx(exponents.width, rel=0.02)
    assert slope(np.array(context), sizes) == pytest.approx(exponents.context, rel=0.02)


@pytest.mark.parametrize(("nu", "beta"), [(1.0, 0.5), (1.5, 1.8)])
def test_compute_by_numerical_optimum_of_the_sum(nu, beta):
    tied = scaling_exponents(nu=nu, beta=beta)
    untied = scaling_exponents(nu=nu, beta=beta, setting="untied")
    for exponents, powers, target in (
        (tied, (tied.time, tied.depth, tied.width, tied.context), tied.compute),
        (untied, (untied.depth, untied.width, untied.context), untied.inference),
    ):
        (low, small), (high, large) = (best_shape(powers, compute) for compute in (1e40, 1e44))
        assert (low - high) / np.log(1e4) == pytest.approx(target, rel=1e-3)
        *times, depth, width, context = large - small
        assert depth / width == pytest.approx(exponents.depth_of_width, rel=1e-2)
        assert context / width == pytest.approx(exponents.context_of_width, rel=1e-2)
        for time in times:
            assert time / width == pytest.approx(exponents.time_of_width, rel=1e-2)


def best_shape(powers, compute):
    """Logarithms of the least sum of terms at given compute, and of the sizes."""
    a = np.array(powers)
    cost = np.array([1.0, 1, 2, 2][-len(powers) :])

    def sizes(z):
        return np.append(z, (np.log(compute) - z @ cost[:-1]) / cost[-1])

    found = minimize(
        lambda z: np.logaddexp.reduce(-a * sizes(z)), np.full(len(a) - 1, 10.0), tol=1e-12
    )
    return float(found.fun), sizes(found.x)


def test_published_forms_and_number_systems():
    nu, beta = sympy.symbols("nu beta", positive=True)
    tied = scaling_exponents(nu=nu, beta=beta)
    published = nu * beta / ((3 + beta) * nu + 4)
    small = {nu: sympy.Rational(7, 5), beta: sympy.Rational(2, 3)}
    assert tied.compute.subs(small) == published.subs(small)
    assert tied.depth_of_width.subs(small) == sympy.Rational(7, 5)
    assert scaling_exponents(nu=nu, beta=beta, setting="untied_blurred").depth == 2 * beta
    untied = scaling_exponents(nu=nu, beta=beta, setting="untied")
    assert sympy.simplify(untied.depth_of_width.subs(beta, 1) - nu / (nu + 2)) == 0
    exact = scaling_exponents(nu=mpmath.mpf(7) / 5, beta=mpmath.mpf(2) / 3)
    assert abs(exact.compute - mpmath.mpf(7 * 2) / 15 / (mpmath.mpf(11 * 7) / 15 + 4)) < 1e-15
    grid = scaling_exponents(nu=np.array([[1.0], [2.0]]), beta=[0.5, 1.0, 3.0])
    assert grid.depth.shape == grid.width.shape == grid.compute.shape == (2, 3)
    assert grid.width[1].tolist() == [1.0, 2.0, 2.0]
    fixed = scaling_exponents(nu=1.0, beta=1.0, setting="fs")
    assert (fixed.depth, fixed.width, fixed.compute) == (math.inf, None, None)
    assert isinstance(scaling_exponents(nu=1.0, beta=1.0).compute, float)


def test_printed_time_exponent_agrees_on_one_curve_only():
    """Errata: beta/(nu + nu beta + 1) of version 1 equals the sum's exponent on this curve."""
    beta = 1.25
    nu = (1 + math.sqrt(1 + 4 / (1 + beta))) / 2
    exponent = scaling_exponents(nu=nu, beta=beta, setting="fs").time
    assert exponent == pytest.approx(beta / (nu + nu * beta + 1), rel=1e-12)
    assert nu == pytest.approx(4 / 3, abs=1e-3)
