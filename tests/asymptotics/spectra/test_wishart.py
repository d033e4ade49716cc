"""Exact Wishart moments against pairings, simulation, symmetry and Laguerre polynomials."""

from fractions import Fraction

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import roots_genlaguerre

from iclimit.asymptotics.spectra import Wishart, wishart_moment

N, d = sympy.symbols("N d", positive=True)

# Nodes and weights are rounded from multi-precision; a sum of some thirty positive terms follows.
# Measured worst 2e-15 (order 16, where a node enters to the power 32).
QUADRATURE = 1e-13
# scipy's Laguerre nodes and weights; measured worst 5e-14.
LAGUERRE = 1e-10
SIZES = [(20, 10), (10, 20), (5, 5), (1, 1), (1, 7), (7, 1), (2, 3)]


def pairings(items):
    if not items:
        yield []
        return
    first, *rest = items
    for i, other in enumerate(rest):
        for more in pairings(rest[:i] + rest[i + 1 :]):
            yield [(first, other), *more]


def cycles(size, links):
    """Number of connected components, that is of free indices."""
    label = list(range(size))
    for a, b in links:
        old = label[a]
        new = label[b]
        label = [new if k == old else k for k in label]
    return len(set(label))


def isserlis(powers):
    """Sum over all pairings of the Gaussian factors X[n, i] X[n, j] X[m, j] ...

    Factors 2k and 2k + 1 share the row n_k; factor 2k + 1 and the next in its trace the column.
    """
    count = 2 * sum(powers)
    rows = [(2 * k, 2 * k + 1) for k in range(count // 2)]
    columns = []
    start = 0
    for power in powers:
        ring = [start + k for k in range(2 * power)]
        columns += [(ring[2 * k + 1], ring[(2 * k + 2) % len(ring)]) for k in range(power)]
        start += 2 * power
    total = 0
    for pairing in pairings(list(range(count))):
        total += N ** cycles(count, rows + pairing) * d ** cycles(count, columns + pairing)
    return sympy.expand(total)


def test_moments_are_sums_over_pairings():
    for powers in ((1,), (2,), (3,), (4,), (1, 1), (2, 1), (1, 1, 1), (2, 2), (3, 1)):
        assert wishart_moment(powers, context=N, dim=d) == isserlis(powers)


@pytest.mark.parametrize("order", range(1, 8))
def test_zonal_sum_equals_the_recursion_for_symbols(order):
    stein = wishart_moment([order], context=N, dim=d)
    assert sympy.expand(Wishart(context=N, dim=d).moment(order) * d * N**order - stein) == 0
    swapped = stein.subs({N: d, d: N}, simultaneous=True)
    assert sympy.expand(stein - swapped) == 0


def test_zonal_sum_equals_the_recursion_for_integers():
    for context, dim in SIZES:
        for order in range(18):
            moment = Wishart(context=context, dim=dim).moment(order)
            stein = wishart_moment([order], context=context, dim=dim)
            assert moment == Fraction(stein, dim * context**order)
            assert isinstance(stein, int)


def test_published_polynomials():
    assert wishart_moment([2], context=N, dim=d) == sympy.expand(N * d * (N + d + 1))
    third = N * d * (N**2 + 3 * N * d + 3 * N + d**2 + 3 * d + 4)
    assert wishart_moment([3], context=N, dim=d) == sympy.expand(third)
    assert wishart_moment([1, 1], context=N, dim=d) == sympy.expand(N * d * (N * d + 2))


def test_powers_of_zero_are_the_dimension():
    assert wishart_moment([], context=3, dim=5) == 1
    assert wishart_moment([0], context=3, dim=5) == 5
    size = {"context": 3, "dim": 5}
    array = np.array([1, 2])
    assert wishart_moment([0, 2, 0], **size) == 25 * wishart_moment((2,), **size)
    assert wishart_moment(array, **size) == wishart_moment([2, 1], **size)


@pytest.mark.parametrize("context", [1, 2, 9, 50])
@pytest.mark.parametrize("order", [1, 5, 20])
def test_one_dimension_is_laguerre(context, order):
    """x dmu is a gamma law of shape N/2 + 1."""
    nodes, weights = Wishart(context=context, dim=1).quadrature(order)
    x, w = roots_genlaguerre(order, context / 2)
    positive = np.argsort(nodes[1:])
    assert nodes[0] == 0
    assert nodes[1:][positive] == pytest.approx(2 * x / context, rel=LAGUERRE)
    expected = w / w.sum() / (2 * x / context)
    assert weights[1:][positive] == pytest.approx(expected, rel=LAGUERRE)
    assert weights.sum() == pytest.approx(1, rel=QUADRATURE)


@pytest.mark.parametrize(("context", "dim"), [*SIZES, (10**6, 3), (3, 10**6)])
@pytest.mark.parametrize("order", [1, 4, 16])
def test_quadrature_is_exact_to_its_degree(context, dim, order):
    law = Wishart(context=context, dim=dim)
    nodes, weights = law.quadrature(order)
    assert nodes.shape == weights.shape == (order + 1,)
    assert np.all(weights > 0)
    assert np.all(np.diff(nodes[1:]) < 0)
    for k in range(2 * order + 1):
        value = sum(Fraction(w) * Fraction(x) ** k for w, x in zip(weights, nodes, strict=True))
        assert abs(value / law.moment(k) - 1) < QUADRATURE


def gauss_solve(matrix, right):
    """Exact Gaussian elimination of a positive definite system."""
    rows = [[*row, b] for row, b in zip(matrix, right, strict=True)]
    size = len(rows)
    for i in range(size):
        rows[i] = [v / rows[i][i] for v in rows[i]]
        for j in range(size):
            if j != i:
                rows[j] = [a - rows[j][i] * b for a, b in zip(rows[j], rows[i], strict=True)]
    return [row[-1] for row in rows]


@pytest.mark.parametrize(("context", "dim"), SIZES)
@pytest.mark.parametrize("order", [1, 2, 3, 6])
def test_christoffel_number_and_polynomial_by_exact_elimination(context, dim, order):
    law = Wishart(context=context, dim=dim)
    m = [law.moment(k) for k in range(2 * order + 1)]
    hankel = [[m[j + k] for k in range(order + 1)] for j in range(order + 1)]
    first = gauss_solve(hankel, [Fraction(int(k == 0)) for k in range(order + 1)])[0]
    assert law.christoffel(order) == 1 / first
    # pi = x^L + ...: orthogonal to the lower powers under x dmu.
    lower = [[m[j + k + 1] for k in range(order)] for j in range(order)]
    solved = gauss_solve(lower, [-m[j + order + 1] for j in range(order)])
    assert law.polynomial(order) == [*solved, 1]
    nodes, weights = law.quadrature(order)
    assert weights[0] == pytest.approx(float(1 / first), rel=QUADRATURE)
    with mpmath.workdps(60):
        monic = [mpmath.mpf(c.numerator) / c.denominator for c in [Fraction(1), *reversed(solved)]]
        zeros = mpmath.polyroots(monic, maxsteps=300, extraprec=300)
        expected = sorted((float(mpmath.re(z)) for z in zeros), reverse=True)
    assert nodes[1:] == pytest.approx(expected, rel=QUADRATURE)


def test_published_finite_size_optima():
    law = Wishart(context=20, dim=10)
    assert law.christoffel(1) == Fraction(11, 31)
    assert law.christoffel(2) == Fraction(15827, 93957)
    symbolic = Wishart(context=N, dim=d).christoffel(2)
    assert symbolic.subs({N: 20, d: 10}) == sympy.Rational(15827, 93957)


def test_orders_zero():
    law = Wishart(context=4, dim=3)
    assert (law.moment(0), law.christoffel(0), law.polynomial(0)) == (1, 1, [1])


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 6))
def test_bounds(context, dim, order):
    law = Wishart(context=context, dim=dim)
    weight = law.christoffel(order)
    following = law.christoffel(order + 1)
    assert max(Fraction(0), 1 - Fraction(context, dim)) < following < weight < 1
    # Log-convexity of moments, with equality for no spread at all only.
    assert law.moment(order) ** 2 < law.moment(order - 1) * law.moment(order + 1)


def test_sympy_integers_are_integers():
    assert wishart_moment([2], context=sympy.Integer(20), dim=np.int64(10)) == 6200
    assert Wishart(context=sympy.Integer(20), dim=10).moment(2) == Fraction(31, 20)
