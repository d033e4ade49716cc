"""Transforms of spectral measures against 30-digit closed forms and defining equations."""

import itertools

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_measures import Arcsine, Bare, Singular
from refusals import value_error

from iclimit.asymptotics.spectra import (
    Atoms,
    Exponential,
    MarchenkoPastur,
    Mixture,
    PowerLaw,
    SpectralMeasure,
    Uniform,
)

# Relative error promised for float64 results. Measured worst 3e-13.
EXACT = 1e-12
# Second derivatives at points a distance of 0.1 above the support. Measured worst 1.3e-12.
SECOND = 1e-11
# Differentiating numerically with steps of 1e-4. Measured worst 3e-8.
DIFFERENCES = 1e-6


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(50):
        yield


def power_law(exponent):
    def transform(z):
        a = mpmath.mpf(exponent)
        return mpmath.hyp2f1(1, 1 + 1 / a, 2 + 1 / a, z / (1 - a)) / (1 - a**2)

    return transform


def exponential(decay):
    def transform(z):
        k = mpmath.mpf(decay)
        low = k / mpmath.expm1(k)
        high = k / -mpmath.expm1(-k)
        return (mpmath.log((high - z) / (low - z)) - k) / (k * z)

    return transform


def uniform(lower, upper):
    return lambda z: mpmath.log((upper - z) / (lower - z)) / (upper - lower)


def marchenko_pastur(ratio):
    def transform(z):
        c = mpmath.mpf(ratio)
        low = (1 - mpmath.sqrt(c)) ** 2
        high = (1 + mpmath.sqrt(c)) ** 2
        root = mpmath.sqrt(z - low) * mpmath.sqrt(z - high)
        return (1 - c - z + root) / (2 * c * z)

    return transform


MP_HALF, MP_TWO = MarchenkoPastur(0.5), MarchenkoPastur(2.0)
LAWS = {
    "powerlaw .05": (PowerLaw(0.05), power_law(0.05)),
    "powerlaw .99": (PowerLaw(0.99), power_law(0.99)),
    "exponential .1": (Exponential(0.1), exponential(0.1)),
    "exponential 20": (Exponential(20.0), exponential(20.0)),
    "uniform": (Uniform(0.5, 1.5), uniform(0.5, 1.5)),
    "mp .5": (MP_HALF, marchenko_pastur(0.5)),
    "mp 2": (MP_TWO, marchenko_pastur(2.0)),
    "bare powerlaw": (Bare(PowerLaw(0.9)), power_law(0.9)),
    "bare exponential": (Bare(Exponential(3.0)), exponential(3.0)),
    "bare uniform": (Bare(Uniform(0.5, 1.5)), uniform(0.5, 1.5)),
    "bare mp .5": (Bare(MP_HALF), marchenko_pastur(0.5)),
    "bare mp 2": (Bare(MP_TWO), marchenko_pastur(2.0)),
    "atoms": (
        Atoms([0.4, 1.6], [0.25, 0.75]),
        lambda z: (
            mpmath.mpf(1) / 4 / (mpmath.mpf(0.4) - z) + mpmath.mpf(3) / 4 / (mpmath.mpf(1.6) - z)
        ),
    ),
    "mixture": (
        Mixture([Uniform(0.5, 1.5), Atoms([5.0]), PowerLaw(0.4)], [0.5, 0.25, 0.25]),
        lambda z: (2 * uniform(0.5, 1.5)(z) + 1 / (5 - z) + power_law(0.4)(z)) / 4,
    ),
    "scaled": (
        Exponential(3.0).scaled(2.0).shifted(0.5),
        lambda z: exponential(3.0)((z - 0.5) / 2) / 2,
    ),
}
CASES = pytest.mark.parametrize(("law", "exact"), LAWS.values(), ids=LAWS.keys())
POINTS = [-1e5, -50.0, -1.0, -1e-3, 0.4 + 0.2j, 1 - 1j, 5 + 0.1j, 1e4 + 1e3j, 2j]


def derivatives(f, z):
    """Value and two derivatives to 20 digits or more."""
    with mpmath.workdps(80):
        point = mpmath.mpmathify(z)
        step = mpmath.mpf(10) ** -14 * abs(z)
        below = f(point - step)
        value = f(point)
        above = f(point + step)
        return [value, (above - below) / (2 * step), (above - 2 * value + below) / step**2]


def close(value, expected, tolerance):
    return abs(mpmath.mpmathify(complex(value)) - expected) <= tolerance * abs(expected)


@CASES
def test_stieltjes_transform(law, exact):
    for z in POINTS:
        for derivative, expected in enumerate(derivatives(exact, z)):
            value = law.stieltjes(z, derivative=derivative)
            assert np.iscomplexobj(value) == isinstance(z, complex)
            assert close(value, expected, SECOND if derivative == 2 else EXACT), (z, derivative)


@CASES
def test_eta_transform(law, exact):
    for gamma in (1e-4, 0.3, 2.0, 1e3):
        expected = derivatives(lambda g: exact(-1 / g) / g, gamma)
        for derivative in (0, 1, 2):
            value = law.eta_transform(gamma, derivative=derivative)
            assert close(value, expected[derivative], EXACT), (gamma, derivative)


@CASES
def test_derivatives_of_the_shannon_transform(law, exact):
    """V' = (1 - eta) / gamma."""
    for gamma in (1e-4, 0.3, 2.0, 1e3):
        expected = derivatives(lambda g: (1 - exact(-1 / g) / g) / g, gamma)
        for order in (1, 2):
            value = law.shannon_transform(gamma, derivative=order)
            assert close(value, expected[order - 1], EXACT), (gamma, order)


@pytest.mark.parametrize("name", ["exponential 20", "uniform", "mp .5", "mp 2"])
def test_shannon_transform_is_the_integral_of_its_derivative(name):
    law, exact = LAWS[name]
    total = mpmath.mpf(0)
    for lower, upper in itertools.pairwise([0, 0.01, 1, 30]):
        slope = lambda g: (1 - exact(-1 / g) / g) / g  # noqa: E731
        total += mpmath.quad(slope, [lower, upper], method="gauss-legendre", maxdegree=5)
        for each in (law, Bare(law)):
            assert close(each.shannon_transform(float(upper)), total, EXACT)


@pytest.mark.parametrize("law", [PowerLaw(0.9), Bare(PowerLaw(0.9))], ids=str)
@pytest.mark.parametrize("gamma", [1e-4, 1e3])
def test_shannon_transform_of_a_heavy_tail(law, gamma):
    """Against the mean over quantiles, the largest eigenvalues being exp(0.9 y)/10."""
    with mpmath.workdps(20):
        tail = lambda y: mpmath.log1p(gamma * mpmath.exp(0.9 * y) / 10) * mpmath.exp(-y)  # noqa: E731
        assert close(law.shannon_transform(gamma), mpmath.quad(tail, [0, 2, 10, 40, 60]), EXACT)


NEAR = 10.0 ** -np.arange(1, 10)


@pytest.mark.parametrize("name", ["uniform", "mp .5", "bare uniform", "bare mp .5", "bare mp 2"])
def test_stieltjes_close_to_the_support(name):
    law, exact = LAWS[name]
    lower, upper = law.support[-1]
    inside = 0.7 * lower + 0.3 * upper
    for start, direction in [(lower, -1), (upper, 1), (upper, 1j), (inside, 1j)]:
        for distance in NEAR:
            z = start + direction * distance
            expected = exact(mpmath.mpmathify(z))
            # float64 rounds the nodes: the promise of the docstring.
            assert close(law.stieltjes(z), expected, 1e-12 + 1e-15 / distance), (start, distance)


def test_nothing_is_lost_at_an_edge_at_zero():
    """x^(-0.9)/10 on [0, 1]: a singular edge, whose transform is hypergeometric."""

    law = Singular()
    for z in -(10.0 ** -np.arange(0, 13, 2)):
        expected = -mpmath.hyp2f1(1, 0.1, 1.1, 1 / z) / z
        assert close(law.stieltjes(z), expected, EXACT), z


def test_inverse_square_root_edges_away_from_zero():
    law = Arcsine()
    for distance in NEAR[:6]:
        # The density near the edge feels rounding of x; measured worst 4e-14.
        expected = -1 / np.sqrt((2 + distance) * distance)
        assert law.stieltjes(3 + distance) == pytest.approx(expected, rel=1e-12 + 1e-16 / distance)
    # R of the arcsine law of half-width 1: G = 1/sqrt(z^2 - 1).
    x = np.array([-5.0, -0.3, 1e-6, 2.0])
    expected = 2 + x / (1 + np.sqrt(1 + x**2))
    assert law.r_transform(x) == pytest.approx(expected, rel=EXACT)


def test_semicircle_has_a_linear_r_transform():
    class Semicircle(SpectralMeasure):
        support = ((1.0, 3.0),)

        def density(self, x):
            return 2 / np.pi * np.sqrt(np.maximum(1 - (np.asarray(x) - 2) ** 2, 0))

    x = np.array([[-1.99, -0.5, 0.0], [1e-9, 0.5, 1.99]])
    assert Semicircle().r_transform(x) == pytest.approx(2 + x / 4, rel=EXACT)
    # Near the ends of its domain the slope is a quotient of near-singular integrals.
    assert Semicircle().r_transform(x, derivative=1) == pytest.approx(np.full(x.shape, 0.25))
    for wrong in (-2.01, 2.01):
        value_error("x must lie within", Semicircle().r_transform, wrong)


def test_signs_have_the_r_transform_of_voiculescu():
    """Atoms -1 and 1: R(x) = (sqrt(1 + 4 x^2) - 1) / (2 x)."""
    x = np.array([-30.0, -1.0, -1e-3, 0.0, 1e-8, 0.2, 5.0])
    expected = 2 * x / (1 + np.sqrt(1 + 4 * x**2))
    law = Atoms([-1.0, 1.0])
    assert law.r_transform(x) == pytest.approx(expected, rel=EXACT, abs=1e-15)
    slope = 2 / (np.sqrt(1 + 4 * x**2) * (1 + np.sqrt(1 + 4 * x**2)))
    assert law.r_transform(x, derivative=1) == pytest.approx(slope, rel=1e-10)


def test_projections_have_the_s_transform_of_voiculescu():
    """Mass p at 1, else 0: S(x) = (1 + x) / (p + x)."""
    p = 0.3
    x = np.array([-0.29, -0.1, 0.0, 1e-9, 0.5, 20.0])
    law = Atoms([0.0, 1.0], [1 - p, p])
    assert law.s_transform(x) == pytest.approx((1 + x) / (p + x), rel=EXACT)
    slope = (p - 1) / (p + x) ** 2
    assert law.s_transform(x, derivative=1) == pytest.approx(slope, rel=1e-10)
    value_error(r"x must be > -0\.3", law.s_transform, -0.31)


@pytest.mark.parametrize("law", [MP_HALF, MP_TWO, MarchenkoPastur(1.0)], ids=repr)
def test_closed_forms_of_marchenko_pastur_are_the_generic_ones(law):
    c = law.ratio
    x = np.array([-0.4, -0.01, 0.0, 1e-7, 0.2]) / c
    generic = Bare(law)
    assert law.r_transform(x) == pytest.approx(generic.r_transform(x), rel=EXACT)
    assert law.s_transform(x) == pytest.approx(generic.s_transform(x), rel=EXACT)
    for name in ("r_transform", "s_transform"):
        value = getattr(law, name)(x, derivative=1)
        assert value == pytest.approx(getattr(generic, name)(x, derivative=1), rel=1e-11)
    gamma = np.array([-0.9 / law.edges[1], 0.0, 0.1, 30.0])
    for derivative in (0, 1, 2):
        value = law.eta_transform(gamma, derivative=derivative)
        expected = generic.eta_transform(gamma, derivative=derivative)
        assert value == pytest.approx(expected, rel=EXACT)


def test_marchenko_pastur_transforms_in_other_number_systems():
    import sympy

    c, x = sympy.symbols("c x", positive=True)
    law = MarchenkoPastur(c)
    assert law.r_transform(x) == 1 / (1 - c * x)
    assert law.s_transform(x, derivative=1) == sympy.diff(law.s_transform(x), x)
    g = sympy.Symbol("g", positive=True)
    slope = sympy.diff(law.eta_transform(g), g).subs({c: 2, g: 3})
    assert abs(float(slope - law.eta_transform(g, derivative=1).subs({c: 2, g: 3}))) < 1e-14


@pytest.mark.parametrize("c", [0.5, 2.0])
def test_marchenko_pastur_is_refused_outside_its_domains(c):
    law = MarchenkoPastur(c)
    generic = Bare(MarchenkoPastur(c))
    root = np.sqrt(c)
    cases = [("r_transform", 1 / (c + root)), ("s_transform", 1 / root)]
    cases += [("r_transform", 1 / (c - root))] if c < 1 else []
    for name, end in cases:
        for measure in (law, generic):
            assert np.isfinite(getattr(measure, name)(0.999 * end))
            value_error("x must", getattr(measure, name), 1.001 * end)
    value_error("x must be > ", law.s_transform, -min(1.0, 1 / c))


@CASES
def test_r_and_s_solve_their_equations(law, exact):
    x = np.array([-0.3, -0.05, -1e-3])
    for value, point in zip(law.r_transform(x), x, strict=True):
        z = mpmath.mpf(float(value)) + 1 / mpmath.mpf(float(point))
        assert close(-float(exact(z).real), mpmath.mpf(float(point)), EXACT)
    for value, point in zip(law.s_transform(x), x, strict=True):
        gamma = -mpmath.mpf(float(point)) / (1 + mpmath.mpf(float(point))) * float(value)
        assert abs(exact(-1 / gamma) / gamma - 1 - float(point)) < EXACT * abs(point)
    for name in ("r_transform", "s_transform"):
        transform = getattr(law, name)
        at = np.array([-0.2, -0.1])
        h = 1e-4
        slope = (transform(at + h) - transform(at - h)) / (2 * h)
        assert transform(at, derivative=1) == pytest.approx(slope, rel=DIFFERENCES)
    mean = law.mean
    assert law.r_transform(0.0) == pytest.approx(mean, rel=EXACT)
    assert law.s_transform(0.0) == pytest.approx(1 / mean, rel=EXACT)


@given(x=st.floats(-40, 40), centre=st.floats(-5, 5), half=st.floats(0.01, 5))
@settings(max_examples=100, deadline=None)
def test_uniform_r_transform_is_that_of_coth(x, centre, half):
    law = Uniform(centre - half, centre + half)
    with mpmath.workdps(60):
        middle = (mpmath.mpf(law.lower) + law.upper) / 2
        y = (mpmath.mpf(law.upper) - law.lower) / 2 * mpmath.mpf(x)
        size = (mpmath.mpf(law.upper) - law.lower) / 2
        langevin = mpmath.coth(y) - 1 / y if abs(y) > 1e-20 else y / 3
        slope = 1 / y**2 - mpmath.csch(y) ** 2 if abs(y) > 1e-12 else mpmath.mpf(1) / 3
    scale = abs(centre) + half
    assert abs(law.r_transform(x) - float(middle + size * langevin)) <= EXACT * scale
    assert law.r_transform(x, derivative=1) == pytest.approx(float(size**2 * slope), rel=1e-11)


def test_scaling_laws_of_the_transforms():
    law = Exponential(2.0)
    factor = 3.0
    scaled = law.scaled(factor)
    shifted = law.shifted(1.5)
    x = np.array([-0.1, 0.02])
    assert scaled.r_transform(x) == pytest.approx(factor * law.r_transform(factor * x))
    assert scaled.s_transform(x) == pytest.approx(law.s_transform(x) / factor)
    assert shifted.r_transform(x) == pytest.approx(law.r_transform(x) + 1.5)
    assert scaled.eta_transform(0.4) == pytest.approx(law.eta_transform(1.2))
    assert scaled.shannon_transform(0.4) == pytest.approx(law.shannon_transform(1.2))
    assert Atoms([1.0, 2.0]).scaled(2.0).atoms == ((2.0, 0.5), (4.0, 0.5))
    assert Atoms([1.0, 2.0]).shifted(1.0).atoms == ((2.0, 0.5), (3.0, 0.5))


def test_transforms_are_vectorised():
    law = Bare(Uniform(0.5, 1.5))
    z = np.array([[-1.0, 2.0, 40.0], [-0.3, -1e3, 1.6]])
    for derivative in (0, 1, 2):
        whole = law.stieltjes(z, derivative=derivative)
        assert whole.shape == z.shape
        single = [law.stieltjes(float(v), derivative=derivative) for v in z.ravel()]
        assert whole.ravel() == pytest.approx(single, rel=EXACT)
    assert law.stieltjes(np.zeros((0, 3)) * 1j).shape == (0, 3)
    assert np.all(law.stieltjes([-np.inf, np.inf]) == 0)


def test_atoms_are_support_too():
    law = Mixture([Uniform(0.5, 1.5), Atoms([5.0])], [0.9, 0.1])
    assert np.isfinite(law.stieltjes(3.0))
    value_error("z must lie outside", law.stieltjes, 5.0)
