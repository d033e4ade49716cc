"""Untied layers against normal equations, Jacobi polynomials, exponents and gradient flow."""

import math

import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import solve_ivp
from scipy.special import eval_jacobi, roots_jacobi

from iclimit.asymptotics.depth import (
    balanced_saddle,
    untied_depth,
    untied_power_law_loss,
    untied_power_law_steps,
)

# Rounding of some hundred positive operations; measured 2e-15.
ROUNDING = 1e-13
# What the issue asks of the closed forms; the discretised law is exact for these polynomials.
CLOSED = 1e-11


def normal_equations(x, mass, depth):
    """Least loss as 1/(H^-1)_00 with the Hankel matrix H of the moments, in 200 digits."""
    with mpmath.workdps(200):
        points = [mpmath.mpf(v) for v in x.tolist()]
        shares = [mpmath.mpf(v) for v in mass.tolist()]
        moments = [
            mpmath.fsum(w * p**k for p, w in zip(points, shares, strict=True))
            for k in range(2 * depth + 1)
        ]
        hankel = mpmath.matrix(depth + 1, depth + 1)
        for i in range(depth + 1):
            for j in range(depth + 1):
                hankel[i, j] = moments[i + j]
        first = mpmath.matrix([1] + [0] * depth)
        return 1 / mpmath.lu_solve(hankel, first)[0] / moments[0]


def jacobi_measure(beta, count):
    """Gauss rule of beta x^(beta - 1) on [0, 1], exact up to degree 2 count - 1."""
    nodes, weights = roots_jacobi(count, 0.0, beta - 1)
    return (1 + nodes) / 2, weights / weights.sum()


def test_losses_solve_the_normal_equations():
    for count, decay in ((25, 1.0), (25, 3.0), (14, 0.3)):
        rng = np.random.default_rng(count)
        x = np.arange(1.0, count + 1) ** -decay
        mass = rng.uniform(0.1, 2, count)
        losses = untied_depth(x, weights=mass, depth=12).losses
        for depth in (1, 2, 5, 12):
            exact = normal_equations(x, mass, depth)
            assert abs(losses[depth - 1] / exact - 1) < ROUNDING


def test_steps_reach_the_loss_and_no_others_do():
    x = np.arange(1.0, 200) ** -1.2
    mass = np.arange(1.0, 200) ** -2.0
    best = untied_depth(x, weights=mass, depth=4)

    def loss(steps):
        return float(mass @ np.prod(1 - steps[:, None] * x, axis=0) ** 2 / mass.sum())

    assert loss(best.steps) == pytest.approx(best.loss, rel=1e-12)
    for k in range(4):
        for change in (-1e-3, 1e-3):
            other = best.steps.copy()
            other[k] *= 1 + change
            assert loss(other) > best.loss


def test_continuous_power_law():
    for beta in (0.3, 1.0, 1.7):
        # With x = u^10 the density is a polynomial in u: Gauss-Legendre nodes are accurate near 0.
        u, weights = np.polynomial.legendre.leggauss(660)
        u = (1 + u) / 2
        best = untied_depth(u**10, weights=weights * u ** (10 * beta - 1), depth=64)
        closed = [untied_power_law_loss(beta, depth=depth) for depth in (1, 8, 64)]
        assert best.losses[[0, 7, 63]] == pytest.approx(closed, rel=CLOSED)
        steps = untied_power_law_steps(beta, depth=64)
        assert best.steps == pytest.approx(steps, rel=CLOSED)
        # Zeros of the Jacobi polynomial, by its change of sign.
        zeros = 2 / steps - 1
        near = 1e-9 / steps
        below, above = (eval_jacobi(64, 0, beta, zeros + side) for side in (-near, near))
        assert np.all(below * above < 0)


def test_number_systems_of_the_power_law():
    with mpmath.workdps(50):
        beta = mpmath.mpf("0.7")
        exact = 1 / mpmath.binomial(200 + beta, 200) ** 2
        assert abs(untied_power_law_loss(beta, depth=200) / exact - 1) < 1e-47
        steps = untied_power_law_steps(beta, depth=6)
        polynomial = [mpmath.jacobi(6, 0, beta, 2 / step - 1) for step in steps]
        assert max(map(abs, polynomial)) < 1e-44
    assert untied_power_law_loss(0.7, depth=200) == pytest.approx(float(exact), rel=ROUNDING)
    expected = np.array(steps, dtype=float)
    assert untied_power_law_steps(0.7, depth=6) == pytest.approx(expected, rel=ROUNDING)
    symbol = sympy.Symbol("beta", positive=True)
    formula = untied_power_law_loss(symbol, depth=3)
    binomial = sympy.binomial(symbol + 3, 3).expand(func=True)
    assert sympy.simplify(formula * binomial**2) == 1
    with pytest.raises(TypeError, match="beta must be a number of NumPy or mpmath"):
        untied_power_law_steps(symbol, depth=2)


def power_law(nu, beta, modes=1500):
    """Eigenvalues k^-nu with weights k^(-nu beta - 1), and their tail up to k = 1e14 in bins."""
    k = np.arange(1.0, modes + 1)
    nodes, weights = np.polynomial.legendre.leggauss(3)
    edges = np.linspace(math.log(modes + 0.5), math.log(1e14), 201)
    half = np.diff(edges)[:, None] / 2
    tail = np.exp(edges[:-1, None] + half * (1 + nodes)).ravel()
    mass = np.concatenate([np.ones(modes), (half * weights).ravel() * tail])
    k = np.concatenate([k, tail])
    return k**-nu, mass * k ** (-nu * beta - 1)


def test_exponent_of_discrete_power_laws():
    for nu, beta in ((1.0, 1.0), (1.5, 0.7), (2.0, 0.5), (0.6, 1.0)):
        eigenvalues, mass = power_law(nu, beta)
        losses = untied_depth(eigenvalues, weights=mass, depth=256).losses
        assert math.log2(losses[127] / losses[255]) == pytest.approx((2 + nu) * beta, rel=0.02)


def test_as_many_layers_as_eigenvalues():
    x = np.array([2.0, 0.0, 1.0, 2.0, 3.0])
    mass = np.array([1.0, 2.0, 1.0, 3.0, 0.0])
    best = untied_depth(x, weights=mass, depth=4)
    assert best.losses[1:] == pytest.approx([2 / 7] * 3)
    # One layer on 2 (mass 4) and 1 (mass 1): p = 1 - s x with s = 9/17.
    assert best.losses[0] == pytest.approx((2 + 4 / 17**2 + 64 / 17**2) / 7)
    assert best.steps == pytest.approx([0, 0, 0.5, 1])
    assert untied_depth([0.0], weights=[1.0], depth=2).losses.tolist() == [1.0, 1.0]


def test_order_and_scale_do_not_matter():
    rng = np.random.default_rng(5)
    x = rng.uniform(0, 1, 50)
    mass = rng.uniform(0, 1, 50)
    best = untied_depth(x, weights=mass, depth=6)
    order = rng.permutation(50)
    other = untied_depth(7 * x[order], weights=3 * mass[order], depth=6)
    assert other.losses == pytest.approx(best.losses, rel=ROUNDING)
    assert other.steps == pytest.approx(best.steps / 7, rel=ROUNDING)


def test_small_differences_of_gains_grow_at_the_rate():
    """Gradient flow of two layers, and of four, from nearly the balanced optimum."""
    x, mass = jacobi_measure(1.0, 30)
    for depth, published in ((2, 0.04616), (4, 0.00396)):
        saddle = balanced_saddle(x, weights=mass, depth=depth)
        assert saddle.growth_rate == pytest.approx(published, rel=2e-3)

        def flow(_, gamma):
            factors = 1 - gamma[:, None] * x / len(gamma)
            product = np.prod(factors, axis=0)
            rest = np.array([np.prod(np.delete(factors, k, 0), 0) for k in range(len(gamma))])
            return 2 * (rest * product * x) @ mass

        start = np.full(depth, saddle.gamma)
        start[:2] += [1e-7, -1e-7]
        time = 2 / saddle.growth_rate
        end = solve_ivp(flow, (0, time), start, rtol=1e-11, atol=1e-13).y[:, -1]
        assert end[0] - end[1] == pytest.approx(2e-7 * math.exp(2), rel=1e-4)
        assert saddle.escape_time(1e-7) == pytest.approx(math.log(1e7) / saddle.growth_rate)


def test_balanced_point_is_the_tied_optimum_with_the_curvature():
    x, mass = jacobi_measure(0.5, 60)
    saddle = balanced_saddle(3 * x, weights=mass, depth=16)

    def loss(first, second):
        rest = (1 - saddle.gamma * 3 * x / 16) ** 28
        return float(mass @ (rest * ((1 - first * 3 * x / 16) * (1 - second * 3 * x / 16)) ** 2))

    g = saddle.gamma
    h = 1e-3 * saddle.gamma
    assert loss(g, g) == pytest.approx(saddle.loss, rel=1e-12)
    assert abs(loss(g + h, g) - loss(g - h, g)) < 1e-6 * saddle.loss
    second = (loss(g + h, g - h) - 2 * loss(g, g) + loss(g - h, g + h)) / h**2
    assert second == pytest.approx(saddle.curvature, rel=1e-4)
    # g*/L of the notes at beta = 1/2, L = 16.
    assert 3 * g / 16 == pytest.approx(1.934, abs=1e-3)
    assert balanced_saddle(x, weights=mass, depth=1).escape_time(0.1) == math.inf


def test_rate_of_the_power_law_at_great_depth():
    """2 beta Gamma(beta + 1)/(4^(beta + 1) L^(beta + 2)): corrections are of order ln(L)/L."""
    for beta in (0.5, 1.0, 2.0):
        eigenvalues, mass = jacobi_measure(beta, 1100)
        rate = balanced_saddle(eigenvalues, weights=mass, depth=1000).growth_rate
        limit = 2 * beta * math.gamma(beta + 1) / (4 ** (beta + 1) * 1000 ** (beta + 2))
        assert rate == pytest.approx(limit, rel=0.03)
