"""The exact Wishart density and its rule against Pfaffians, exact moments and special cases."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import stats

from iclimit.asymptotics.spectra import MarchenkoPastur, Wishart
from iclimit.asymptotics.spectra.largest_eigenvalue import largest_eigenvalue_tail
from iclimit.asymptotics.spectra.wishart_density import eigenvalue_rule, wishart_density

# Recursions of ten to sixteen steps; measured worst 2e-14.
DENSITY = 1e-12
# Measured worst 2e-15 up to 20 x 10; the logarithm of a Gamma function of 1000 costs 2e-13.
RULE = 1e-12
# The same at 300 x 300, where logarithms of Gamma functions cost 1e-12.
LARGE_RULE = 1e-11

SIZES = [(1, 1), (7, 1), (1, 7), (2, 2), (3, 2), (5, 5), (9, 4), (10, 20), (20, 10), (12, 11)]
POINTS = [1e-6, 0.01, 0.3, 1.0, 2.0, 4.0]


@lru_cache
def _pairing(context: int, dim: int) -> tuple[Any, Any]:
    """Exponents, and the inverse of the skew matrix of de Bruijn's formula, bordered if odd.

    A[i, j] is the double integral of sgn(v - u) u^a_i v^a_j exp(-(u + v)/2).
    """
    size, alpha = min(context, dim), abs(context - dim)
    powers = [mpmath.mpf(alpha - 1) / 2 + i for i in range(size)]
    full = size + size % 2
    matrix = mpmath.zeros(full)
    for i in range(size):
        for j in range(size):
            # P(v > u) for gamma variables is a regularised incomplete beta function.
            a, b = powers[i] + 1, powers[j] + 1
            below = mpmath.betainc(a, b, 0, mpmath.mpf(1) / 2, regularized=True)
            matrix[i, j] = (2 * below - 1) * _gamma(a) * _gamma(b)
        if size % 2:
            matrix[i, size] = _gamma(powers[i] + 1)
            matrix[size, i] = -matrix[i, size]
    return powers, matrix**-1


def _gamma(a: Any) -> Any:
    return mpmath.gamma(a) * 2**a


def pfaffian_density(x: Any, context: int, dim: int) -> Any:
    """Density of the eigenvalues of X'X: derivative of log Pf when the weight gains a point mass.

    Half the trace of A^-1 dA; no orthogonal polynomials.
    """
    powers, inverse = _pairing(context, dim)
    size = len(powers)
    weights = [x**p * mpmath.exp(-x / 2) for p in powers]
    # Integrals of sgn(v - x) v^p exp(-v/2).
    signs = [_gamma(p + 1) - 2 * 2 ** (p + 1) * mpmath.gammainc(p + 1, 0, x / 2) for p in powers]
    total = mpmath.mpf(0)
    for i in range(size):
        for j in range(size):
            total += inverse[j, i] * (weights[i] * signs[j] - weights[j] * signs[i])
        if size % 2:
            total += 2 * inverse[size, i] * weights[i]
    return total / 2


@pytest.mark.parametrize(("context", "dim"), SIZES)
def test_density_is_the_derivative_of_a_pfaffian(context: int, dim: int) -> None:
    with mpmath.workdps(60):
        for x in POINTS:
            exact = pfaffian_density(mpmath.mpf(x) * context, context, dim) * context / dim
            assert wishart_density(x, context=context, dim=dim) == pytest.approx(
                float(exact), rel=DENSITY
            )


def test_one_column_is_chi_square() -> None:
    x = np.geomspace(1e-8, 1e2, 41)
    expected = 30 * stats.chi2(30).pdf(30 * x)
    np.testing.assert_allclose(wishart_density(x, context=30, dim=1), expected, rtol=1e-11)


@pytest.mark.parametrize(("context", "dim"), [(20, 10), (9, 4), (7, 7)])
def test_far_tail_is_that_of_the_largest_eigenvalue(context: int, dim: int) -> None:
    # Two eigenvalues beyond the point are less likely than 1e-9 of one.
    start = 8.0 if context > dim else 12.0
    x = np.linspace(start, start + 12, 4001)
    step = x[1] - x[0]
    density = wishart_density(x, context=context, dim=dim) * dim
    tail = (
        step / 3 * (density[0] + density[-1] + 4 * sum(density[1::2]) + 2 * sum(density[2:-1:2]))
    )
    assert tail == pytest.approx(float(largest_eigenvalue_tail(start, context, dim)), rel=1e-6)


@pytest.mark.parametrize(("context", "dim"), [*SIZES, (1000, 1), (60, 30), (200, 100), (100, 100)])
def test_rule_has_the_exact_moments(context: int, dim: int) -> None:
    nodes, weights = eigenvalue_rule(context, dim)
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(min(context, dim), rel=RULE)
    law = Wishart(context=context, dim=dim)
    for k in (1, 2, 3):
        exact = float(law.moment(k) * dim * context**k)
        assert weights @ nodes**k == pytest.approx(exact, rel=RULE)


def test_rule_at_large_sizes() -> None:
    nodes, weights = eigenvalue_rule(300, 300)
    assert weights.sum() == pytest.approx(300, rel=LARGE_RULE)
    assert weights @ nodes == pytest.approx(300**2, rel=LARGE_RULE)


@pytest.mark.parametrize(
    ("context", "dim"), [(20, 10), (10, 20), (12, 10), (3, 1), (13, 10), (14, 10), (200, 100)]
)
def test_rule_has_the_exact_inverse_moments(context: int, dim: int) -> None:
    """E tr S^-1 and E tr S^-2 of an inverse Wishart matrix (von Rosen 1988)."""
    nodes, weights = eigenvalue_rule(context, dim)
    size, excess = min(context, dim), abs(context - dim)
    assert weights @ (1 / nodes) == pytest.approx(size / (excess - 1), rel=RULE)
    if excess > 3:
        large = max(context, dim)
        exact = size * (large - 1) / (excess * (excess - 1) * (excess - 3))
        assert weights @ nodes**-2 == pytest.approx(exact, rel=RULE)


def _exact_mean(f: Callable[[Any], Any], context: int, dim: int, breaks: list[float]) -> Any:
    """Mean of sum f over the eigenvalues, by mpmath's quadrature of the Pfaffian density in log x.

    Without a change of variable the singularity at 0 and the scales of f would need more care.
    """

    def integrand(t: Any) -> Any:
        x = mpmath.exp(t)
        return x * pfaffian_density(x, context, dim) * f(x)

    return mpmath.quad(integrand, breaks)


@pytest.mark.parametrize(
    ("context", "dim", "shift"),
    [
        (3, 3, 1e-30),
        (3, 3, 1e-6),
        (4, 3, 1e-30),
        (4, 3, 0.1),
        (5, 3, 1e-8),
        (8, 3, 1e-8),
        (8, 3, 30.0),
    ],
)
def test_resolvent_against_multiprecision_quadrature(context: int, dim: int, shift: float) -> None:
    nodes, weights = eigenvalue_rule(context, dim)
    with mpmath.workdps(25):
        middle = float(np.log(shift))
        breaks = sorted({-200.0, middle - 25, middle, middle + 12, -12.0, -3.0, 1.0, 3.0, 5.3})
        exact = _exact_mean(lambda x: 1 / (x + shift), context, dim, breaks)
    assert weights @ (1 / (nodes + shift)) == pytest.approx(float(exact), rel=RULE)


def test_approaches_the_marchenko_pastur_law() -> None:
    x = np.linspace(0.3, 2.5, 12)
    limit = MarchenkoPastur(0.5).density(x)
    errors = [
        np.max(np.abs(wishart_density(x, context=2 * d, dim=d) - limit)) for d in (20, 80, 320)
    ]
    # Oscillations of relative order 1/d in the bulk; measured 1.9e-2, 4.7e-3, 1.3e-3.
    assert errors[2] < 2e-3
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


def test_zero_off_the_positive_axis_and_broadcasting() -> None:
    found = wishart_density([[-1.0, 0.0], [0.5, 1.0]], context=6, dim=3)
    assert found.shape == (2, 2)
    assert np.all(found[0] == 0)
    assert found[1, 0] == wishart_density(0.5, context=6, dim=3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"x": np.nan}, "x must be finite, got nan"),
        ({"x": 1.0, "context": 0}, "context must be an integer >= 1, got 0"),
        ({"x": 1.0, "dim": 2.5}, r"dim must be an integer >= 1, got 2.5"),
    ],
)
def test_names_what_is_wrong(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wishart_density(**{"context": 4, "dim": 2, **arguments})


def test_other_number_systems_are_refused() -> None:
    with pytest.raises(TypeError, match="x must be a number or a NumPy array"):
        wishart_density(mpmath.mpf(1), context=4, dim=2)
