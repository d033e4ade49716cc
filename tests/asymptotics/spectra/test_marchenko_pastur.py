"""The Marchenko-Pastur law against numerical integration and actual Wishart matrices."""

import math
from fractions import Fraction
from math import comb

import array_api_strict
import mpmath
import numpy as np
import pytest
import sympy
from scipy.integrate import quad

from iclimit.asymptotics.spectra import MarchenkoPastur, wishart_resolvent

RATIOS = [0.1, 0.5, 1.0, 2.0, 10.0]
# Integrands are analytic in the angle; quad is asked for 1e-12. Measured worst 1e-11.
INTEGRATION = 1e-10
# Sums of positive terms in float64. Measured worst 1.6e-15.
ROUNDING = 1e-12


def integrate(f, c):
    """Integral against the law as written in the definition, edges smoothed by an angle."""
    lower = (1 - math.sqrt(c)) ** 2
    upper = (1 + math.sqrt(c)) ** 2
    middle = (lower + upper) / 2
    half = (upper - lower) / 2

    def integrand(angle, part):
        x = middle + half * math.cos(angle)
        density = math.sqrt(max((upper - x) * (x - lower), 0.0)) / (2 * math.pi * c * x)
        return part(f(x)) * density * half * math.sin(angle)

    real, imaginary = (
        quad(integrand, 0, math.pi, args=(part,), epsabs=1e-12, epsrel=1e-12, limit=200)[0]
        for part in (lambda v: complex(v).real, lambda v: complex(v).imag)
    )
    atom = max(0.0, 1 - 1 / c)
    total = complex(real, imaginary) + (atom * f(0.0) if atom else 0.0)
    return total if total.imag else total.real


def outside(c):
    """Real points on every side of the support."""
    lower = (1 - math.sqrt(c)) ** 2
    upper = (1 + math.sqrt(c)) ** 2
    gap = [0.3 * lower, 0.9 * lower] if lower else []
    return [-5.0, -0.01, *gap, upper + 0.1, upper + 30]


COMPLEX_POINTS = [0.5 + 0.2j, 0.5 - 0.2j, -1 + 1j, 20 + 0.5j, 20 - 0.5j, 1e-2j, 3j]


@pytest.mark.parametrize("c", RATIOS)
@pytest.mark.parametrize("derivative", [0, 1])
def test_stieltjes_is_the_integral(c, derivative):
    law = MarchenkoPastur(c)
    for z in [*outside(c), *COMPLEX_POINTS]:
        expected = integrate(lambda x, z=z: (x - z) ** -(1 + derivative), c)
        value = law.stieltjes(z, derivative=derivative)
        assert value == pytest.approx(expected, rel=INTEGRATION, abs=INTEGRATION), z


@pytest.mark.parametrize("c", RATIOS)
@pytest.mark.parametrize("derivative", [0, 1])
def test_companion_is_the_law_of_the_other_gram_matrix(c, derivative):
    """ZZ'/N has the d nonzero eigenvalues of Z'Z/N among N: atom 1 - c if c < 1, none above."""

    def f(x, z):
        return (x - z) ** -(1 + derivative)

    for z in [*outside(c), *COMPLEX_POINTS]:
        # The integral counts the zeros of Z'Z/N too; those are not shared.
        shared = integrate(lambda x, z=z: f(x, z), c) - max(0.0, 1 - 1 / c) * f(0.0, z)
        expected = c * shared + max(0.0, 1 - c) * f(0.0, z)
        value = MarchenkoPastur(c).companion_stieltjes(z, derivative=derivative)
        # For c > 1 the pole at 0 cancels between two terms; worst 3e-9 (c = 10, z = i/100).
        assert value == pytest.approx(expected, rel=1e-8, abs=1e-8), z


def test_density_is_the_jump_of_the_transform():
    for c in RATIOS:
        law = MarchenkoPastur(c)
        height = 1e-9
        x = np.linspace(*law.edges, 12)[1:-1]
        jump = law.stieltjes(x + 1j * height).imag / np.pi
        # Height times the slope of the transform; measured worst 4e-9.
        assert law.density(x) == pytest.approx(jump, rel=1e-7)


def test_density_vanishes_outside():
    for c in RATIOS:
        lower, upper = MarchenkoPastur(c).edges
        points = [-1.0, 0.0, lower - 1e-9, lower, upper, upper + 1e-9, math.inf]
        assert np.all(MarchenkoPastur(c).density(points) == 0)


def test_stieltjes_at_zero_and_infinity():
    law = MarchenkoPastur(0.5)
    assert law.stieltjes(0.0) == pytest.approx(2, rel=ROUNDING)  # mean of 1/x, 1/(1 - c)
    assert law.stieltjes(0.0, derivative=1) == pytest.approx(8, rel=ROUNDING)
    assert np.all(law.stieltjes([-math.inf, math.inf]) == 0)
    # The companion of ratio 10 has no mass at zero; its mean of 1/x is 1/(c - 1).
    assert MarchenkoPastur(10.0).companion_stieltjes(0.0) == pytest.approx(1 / 9, rel=ROUNDING)
    assert MarchenkoPastur(10.0).companion_stieltjes(-1e-12) == pytest.approx(1 / 9, rel=1e-11)


def test_negative_points_take_mpmath_and_sympy():
    with mpmath.workdps(40):
        value = MarchenkoPastur(mpmath.mpf(2)).stieltjes(mpmath.mpf(-1))
        # c z m^2 - (1 - c - z) m + 1 = 0 at c = 2, z = -1: m = 1/sqrt(2).
        assert abs(value - 1 / mpmath.sqrt(2)) < mpmath.mpf(10) ** -38
    assert sympy.simplify(MarchenkoPastur(sympy.Integer(2)).stieltjes(-1) - 1 / sympy.sqrt(2)) == 0


@pytest.mark.parametrize("c", RATIOS)
def test_cdf_is_the_integral_of_the_density(c):
    law = MarchenkoPastur(c)
    for x in np.linspace(*law.edges, 7)[1:-1]:
        mass = integrate(lambda t, x=x: float(t <= x), c)
        # The integrand jumps: quad bisects at it. Measured worst 2e-11.
        assert law.cdf(x) == pytest.approx(mass, abs=1e-8)
        slope = (law.cdf(x + 1e-5) - law.cdf(x - 1e-5)) / 2e-5
        assert law.density(x) == pytest.approx(slope, rel=1e-6)


def test_cdf_at_the_ends():
    for c in RATIOS:
        law = MarchenkoPastur(c)
        lower, upper = law.edges
        assert np.all(law.cdf([-math.inf, -1.0, -1e-300]) == 0)
        assert law.cdf([0.0, lower]) == pytest.approx(law.atom, abs=ROUNDING)
        assert law.cdf([upper, upper + 1, math.inf]) == pytest.approx(1, abs=ROUNDING)
        assert law.atom == pytest.approx(max(0, 1 - 1 / c), abs=ROUNDING)


def test_quantile_inverts_cdf():
    for c in RATIOS:
        law = MarchenkoPastur(c)
        p = law.atom + (1 - law.atom) * np.array([1e-9, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-9])
        assert law.cdf(law.quantile(p)) == pytest.approx(p, abs=ROUNDING)
        assert law.quantile(1.0) == pytest.approx(law.edges[1], rel=ROUNDING)
        lowest = 0.0 if law.atom > 0 else law.edges[0]
        at_lowest = law.quantile(np.array([0.0, 0.5, 0.999]) * law.atom)
        assert at_lowest == pytest.approx(np.full(3, lowest), rel=ROUNDING, abs=1e-30)
        assert np.all(np.diff(law.quantile(np.linspace(0, 1, 100))) >= 0)


def test_moments_three_ways():
    """Library, exact Narayana sums, and the Gauss rule."""
    for c in RATIOS:
        nodes, weights = MarchenkoPastur(c).quadrature(6)
        for m in range(1, 13):
            exact = sum(
                Fraction(comb(m, j) * comb(m, j - 1), m) * Fraction(c) ** (j - 1)
                for j in range(1, m + 1)
            )
            assert MarchenkoPastur(c).moment(m) == pytest.approx(float(exact), rel=ROUNDING)
            assert weights @ nodes**m == pytest.approx(float(exact), rel=ROUNDING)
            assert MarchenkoPastur(sympy.Rational(Fraction(c))).moment(m) == exact
        assert MarchenkoPastur(c).moment(0) == 1


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("c", RATIOS)
def test_quadrature_is_exact_up_to_twice_its_order_only(c, order):
    law = MarchenkoPastur(c)
    nodes, weights = law.quadrature(order)
    assert nodes.shape == weights.shape == (order + 1,)
    assert nodes[0] == 0
    assert np.all(weights > 0)
    for degree in range(2 * order + 1):
        assert weights @ nodes**degree == pytest.approx(law.moment(degree), rel=ROUNDING)
    degree = 2 * order + 1
    # The error is the squared norm of the orthogonal polynomial, c^order for x dmu.
    missing = law.moment(degree) - weights @ nodes**degree
    assert missing == pytest.approx(c**order, rel=1e-6)


def test_quadrature_weight_at_zero_tends_to_the_atom():
    for c in (0.5, 2.0, 1e-3, 1e3):
        law = MarchenkoPastur(c)
        assert law.quadrature(80)[1][0] == pytest.approx(law.atom, abs=1e-12)


@pytest.mark.parametrize("c", RATIOS)
@pytest.mark.parametrize("gamma", [1e-3, 1.0, 50.0])
def test_shannon_transform_is_the_integral(c, gamma):
    expected = integrate(lambda x: math.log1p(gamma * x), c)
    assert MarchenkoPastur(c).shannon_transform(gamma) == pytest.approx(expected, rel=INTEGRATION)
    with mpmath.workdps(30):
        value = MarchenkoPastur(mpmath.mpf(c)).shannon_transform(mpmath.mpf(gamma))
    assert float(value) == pytest.approx(expected, rel=INTEGRATION)


# Eigenvalues are rigid: distribution functions agree to O(1/d). Measured worst 2.3/d and 3.6/d.
RIGIDITY = 6.0


@pytest.mark.parametrize("c", [0.5, 1.0, 2.0])
def test_eigenvalues_of_an_actual_wishart_matrix(c):
    d = 500
    factor = np.random.default_rng(3).standard_normal((int(d / c), d))
    eigenvalues = np.linalg.eigvalsh(factor.T @ factor / len(factor))
    law = MarchenkoPastur(c)
    x = np.linspace(1e-6, 1.1 * law.edges[1], 300)
    empirical = np.searchsorted(eigenvalues, x) / d
    assert np.max(abs(empirical - law.cdf(x))) < RIGIDITY / d
    other = np.linalg.eigvalsh(factor @ factor.T / len(factor))
    z = -0.2
    assert np.mean(1 / (other - z)) == pytest.approx(law.companion_stieltjes(z), rel=RIGIDITY / d)


def test_transform_on_the_left_is_the_wishart_resolvent():
    q = np.array([0.01, 1.0, 30.0])
    for c in RATIOS:
        assert np.array_equal(MarchenkoPastur(c).stieltjes(-q), wishart_resolvent(q, kappa=1 / c))


METHODS = [
    ("edges", lambda law, _: np.stack(law.edges), 0.0),
    ("atom", lambda law, _: law.atom, 0.0),
    ("density", MarchenkoPastur.density, 0.5),
    ("cdf", MarchenkoPastur.cdf, 0.5),
    ("quantile", MarchenkoPastur.quantile, 0.95),
    ("moment", lambda law, _: law.moment(4), 0.0),
    ("stieltjes", MarchenkoPastur.stieltjes, -0.5),
    ("stieltjes above", MarchenkoPastur.stieltjes, 30.0),
    ("stieltjes complex", MarchenkoPastur.stieltjes, 1 + 1j),
    ("companion", MarchenkoPastur.companion_stieltjes, -0.5),
    ("shannon", MarchenkoPastur.shannon_transform, 2.0),
    ("quadrature", lambda law, _: np.stack(law.quadrature(3)), 0.0),
]


@pytest.mark.parametrize(("call", "at"), [m[1:] for m in METHODS], ids=[m[0] for m in METHODS])
def test_an_array_of_ratios_is_a_family_of_laws(call, at):
    family = call(MarchenkoPastur(np.array(RATIOS)), at)
    axis = family.shape.index(len(RATIOS))
    members = np.stack([call(MarchenkoPastur(c), at) for c in RATIOS], axis=axis)
    # Vectorised root finding and powers may differ in the last digits.
    assert family == pytest.approx(members, rel=1e-13)


def test_points_broadcast_against_ratios():
    for name in ("density", "cdf", "quantile", "stieltjes", "shannon_transform"):
        sign = -1 if name == "stieltjes" else 1
        points = sign * np.linspace(0.1, 0.9, 4)[:, None]
        assert getattr(MarchenkoPastur(RATIOS), name)(points).shape == (4, len(RATIOS))


def test_array_api_strict_equals_numpy():
    strict = MarchenkoPastur(array_api_strict.asarray(RATIOS))
    plain = MarchenkoPastur(RATIOS)
    for value, expected in [
        (strict.edges[0], plain.edges[0]),
        (strict.atom, plain.atom),
        (strict.moment(5), plain.moment(5)),
        (strict.stieltjes(-0.5), plain.stieltjes(-0.5)),
        (strict.shannon_transform(2.0), plain.shannon_transform(2.0)),
    ]:
        assert value.__array_namespace__().__name__ == "array_api_strict"
        assert np.array_equal(np.asarray(value), expected)
