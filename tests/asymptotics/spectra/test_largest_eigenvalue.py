"""The law of the largest Wishart eigenvalue against integrals over the joint density."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import dblquad
from scipy.stats import chi2, kstest

from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
from iclimit.asymptotics.spectra.wishart_eigenvalues import largest_eigenvalue_tail

# Both are accurate to rounding of 1 - tail; measured worst 3e-15.
FLOAT64 = 1e-14
# scipy's chi-square tails; measured worst 2e-14 relative down to 1e-200.
CHI_SQUARE = 1e-12
# dblquad is asked for 1e-11; measured worst 2e-15.
INTEGRATION = 1e-9
# A right law fails one of the seven Kolmogorov-Smirnov tests with this probability at most.
KS_LEVEL = 1e-4


def test_one_eigenvalue_is_chi_square():
    for sizes in ((1, 1), (7, 1), (1, 7), (40, 1)):
        context, dim = sizes
        x = np.array([0.01, 0.3, 1.0, 2.5, 9.0])
        cdf = largest_eigenvalue_cdf(x, context=context, dim=dim)
        assert cdf == pytest.approx(chi2.cdf(context * x, max(sizes)), abs=FLOAT64)
        for point in (1.0, 30.0, 400.0 / context):
            tail = float(largest_eigenvalue_tail(point, context, dim))
            assert tail == pytest.approx(chi2.sf(context * point, max(sizes)), rel=CHI_SQUARE)


@pytest.mark.parametrize(("context", "dim"), [(2, 2), (2, 3), (3, 2), (9, 2), (2, 10)])
def test_two_eigenvalues_by_integration(context, dim):
    a = (max(context, dim) - 3) / 2

    def density(u, v):
        """Smaller and larger root eigenvalue, u < v: no edge singularity."""
        return (u * v) ** (2 * a + 1) * math.exp(-(u * u + v * v) / 2) * (v * v - u * u)

    def mass(top):
        return dblquad(density, 0, top, 0, lambda v: v, epsabs=1e-11, epsrel=1e-11)[0]

    total = mass(14.0)
    for x in (0.2, 1.0, 2.5):
        expected = mass(math.sqrt(context * x)) / total
        value = largest_eigenvalue_cdf(x, context=context, dim=dim)
        assert value == pytest.approx(expected, rel=INTEGRATION)


@pytest.mark.parametrize(("count", "a"), [(3, 0), (3, 1), (4, 0)])
def test_more_eigenvalues_by_exact_integration(count, a):
    """Integer a = (m - s - 1)/2: the density is a polynomial times exponentials."""
    roots = sympy.symbols(f"l1:{count + 1}", positive=True)
    x = sympy.Symbol("x", positive=True)
    vandermonde = sympy.prod([v - u for u, v in itertools.combinations(roots, 2)])
    terms = sympy.Poly(sympy.expand(vandermonde * sympy.prod(roots) ** a), *roots).terms()

    def ladder(powers):
        """Integral over 0 < l1 < ... < ls < x of l^powers e^(-l/2), as x^i e^(-j x/2)."""
        state = {(0, 0): sympy.Integer(1)}
        for power in powers:
            following = {}
            for (i, j), value in state.items():
                k = i + power
                rate = sympy.Rational(j + 1, 2)
                whole = value * sympy.factorial(k) / rate ** (k + 1)
                following[0, 0] = following.get((0, 0), 0) + whole
                for r in range(k + 1):
                    term = -whole * rate**r / sympy.factorial(r)
                    following[r, j + 1] = following.get((r, j + 1), 0) + term
            state = following
        return state

    integral = {}
    for powers, coefficient in terms:
        for key, value in ladder(powers).items():
            integral[key] = integral.get(key, 0) + coefficient * value
    mass = sum(v * x**i * sympy.exp(-sympy.Rational(j, 2) * x) for (i, j), v in integral.items())
    m = 2 * a + count + 1
    for context, dim in ((m, count), (count, m)):
        for point in (sympy.Rational(1, 2), sympy.Integer(2), sympy.Integer(5)):
            exact = (mass.subs(x, point * context) / integral[0, 0]).evalf(40)
            tail = largest_eigenvalue_tail(float(point), context, dim)
            with mpmath.workdps(40):
                assert abs(mpmath.mpf(str(1 - exact)) / tail - 1) < mpmath.mpf("1e-25")
            value = largest_eigenvalue_cdf(float(point), context=context, dim=dim)
            assert value == pytest.approx(float(exact), abs=FLOAT64)


@pytest.mark.parametrize(
    ("context", "dim"), [(3, 3), (5, 3), (3, 5), (4, 4), (6, 5), (8, 8), (2, 1)]
)
def test_simulated_largest_eigenvalues(context, dim):
    X = np.random.default_rng(3).standard_normal((200, context, dim))
    largest = np.linalg.svd(X, compute_uv=False)[:, 0] ** 2 / context
    law = lambda x: largest_eigenvalue_cdf(x, context=context, dim=dim)  # noqa: E731
    assert kstest(largest, law).pvalue > KS_LEVEL


def test_rows_and_columns_exchange():
    for context, dim in ((3, 8), (8, 3), (12, 5)):
        x = np.array([0.7, 1.5, 4.0])
        swapped = largest_eigenvalue_cdf(x * context / dim, context=dim, dim=context)
        cdf = largest_eigenvalue_cdf(x, context=context, dim=dim)
        assert cdf == pytest.approx(swapped, abs=FLOAT64)


def test_is_a_distribution_function():
    for context, dim in ((1, 1), (5, 3), (10, 10), (4, 20)):
        x = np.array([-np.inf, -1.0, 0.0, 1e-300, *np.geomspace(1e-3, 100, 25), 1e4, np.inf])
        cdf = largest_eigenvalue_cdf(x, context=context, dim=dim)
        assert cdf[0] == cdf[2] == 0
        assert cdf[-1] == 1
        assert np.all(np.diff(cdf) >= 0)
        tails = [largest_eigenvalue_tail(p, context, dim) for p in (5.0, 20.0, 60.0)]
        assert tails[0] > tails[1] > tails[2] > 0


def test_tail_is_the_mean_number_of_eigenvalues_far_out():
    """Bounded by the trace: P(s_max > x) <= E tr W^k / (N x)^k, and above P(chi2_N > N x)."""
    from iclimit.asymptotics.spectra import wishart_moment

    for x in (6.0, 10.0):
        tail = float(largest_eigenvalue_tail(x, 10, 10))
        markov = min(wishart_moment([k], context=10, dim=10) / (10 * x) ** k for k in range(1, 25))
        assert chi2.sf(10 * x, 10) < tail < markov
