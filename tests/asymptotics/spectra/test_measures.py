"""Spectral measures: distribution, moments, integration, construction and wrong input."""

import math

import numpy as np
import pytest
from plain_measures import Arcsine, Bare, Singular
from refusals import arithmetic_error, refuse, value_error

from iclimit.asymptotics.spectra import (
    Atoms,
    DensityMeasure,
    Exponential,
    MarchenkoPastur,
    Mixture,
    PowerLaw,
    Uniform,
    spectrum,
)

ROUNDING = 1e-12


LAWS = [
    Atoms([0.4, 1.6, 1.0], [0.5, 0.2, 0.3]),
    Uniform(0.5, 1.5),
    Uniform(-1.0, 2.0),
    PowerLaw(0.0),
    PowerLaw(0.3),
    PowerLaw(0.9),
    Exponential(0.01),
    Exponential(3.0),
    MarchenkoPastur(0.5),
    MarchenkoPastur(2.0),
    DensityMeasure(lambda x: x / 2, (0, 2)),
    DensityMeasure(lambda x: np.exp(-x), (0, np.inf)),
    DensityMeasure(lambda x: np.where(x < 2, 0.25, 0.5), [(0, 2), (3, 4)]),
    Mixture([Uniform(0.5, 1.5), Atoms([1.0, 5.0])], [0.8, 0.2]),
    Exponential(1.0).scaled(3.0).shifted(-1.0),
    Arcsine(),
    Singular(),
]
EVERY = pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
CLOSED = pytest.mark.parametrize(
    "law", [*LAWS[1:3], *LAWS[4:10]], ids=lambda law: type(law).__name__
)


@EVERY
def test_quadrature_has_mass_one_and_lies_in_the_support(law):
    nodes, weights = law.quadrature(300)
    assert nodes.shape == weights.shape
    assert np.all(weights >= 0)
    assert weights.sum() == pytest.approx(1, rel=1e-10)
    if not isinstance(law, MarchenkoPastur):  # its Radau rule has the node 0
        within = [(nodes >= lower) & (nodes <= upper) for lower, upper in law.support]
        assert np.all(np.any(within, axis=0))


@EVERY
def test_quantile_inverts_the_distribution_function(law):
    p = np.array([1e-6, 0.01, 0.25, 0.5, 0.77, 0.99])
    x = law.quantile(p)
    assert np.all(np.diff(x) >= 0)
    # At atoms the distribution function jumps over p. The arcsine law has infinite slope.
    assert np.all(law.cdf(x * (1 + 1e-9) + 1e-12) >= p - 1e-9)
    assert np.all(law.cdf(x * (1 - 1e-9) - 1e-9) <= p + 1e-4)
    lower = law.support[0][0]
    upper = law.support[-1][1]
    assert law.quantile(1.0) == pytest.approx(upper)
    assert law.cdf([lower - 1e-3, upper]) == pytest.approx([0, 1])


@CLOSED
def test_closed_distributions_are_those_of_the_density(law):
    generic = Bare(law)
    x = law.quantile(np.linspace(0.01, 0.98, 9))
    assert law.cdf(x) == pytest.approx(generic.cdf(x), abs=ROUNDING)
    p = np.linspace(0.55, 0.98, 5)
    assert law.quantile(p) == pytest.approx(generic.quantile(p), rel=1e-10)
    for order in (0, 1, 2, 5):
        if np.isfinite(law.moment(order)) and (order < 2 or np.isfinite(law.support[-1][1])):
            assert law.moment(order) == pytest.approx(generic.moment(order), rel=ROUNDING)


def test_quantiles_are_eigenvalues_of_a_matrix_with_this_spectrum():
    """The shapes are limits of eigenvalues j -> shape(j/d): so are the quantiles."""
    d = 400
    ranks = (np.arange(d) + 0.5) / d
    for law, shape in [(PowerLaw(0.4), ranks**-0.4), (Exponential(2.0), np.exp(-2 * ranks))]:
        # Means of midpoint rules; the power law has a singular end, d^(-0.6) of the mean.
        expected = np.sort(shape) / shape.max()
        assert law.quantiles(d) / law.quantiles(d)[-1] == pytest.approx(expected, rel=ROUNDING)
        assert law.quantiles(d).mean() == pytest.approx(1, abs=0.02)
    values = [0.3, 0.5, 2.0, 9.0]
    assert np.array_equal(Atoms(values).quantiles(4), values)
    assert np.array_equal(Atoms(values).quantiles(8), np.repeat(values, 2))


def test_moments_of_shapes():
    assert PowerLaw(0.9).mean == 1
    assert PowerLaw(0.9).moment(2) == math.inf
    assert PowerLaw(0.25).moment(2) == pytest.approx(0.75**2 / 0.5)
    assert Exponential(3.0).mean == pytest.approx(1)
    assert Exponential(1e-6).moment(2) == pytest.approx(1, abs=1e-12)
    assert Uniform(-1.0, 2.0).moment(2) == pytest.approx(1)
    mixed = Mixture([Atoms([2.0]), Uniform(0.0, 2.0)], [0.25, 0.75])
    assert mixed.mean == pytest.approx(1.25)
    expected = 4 * Exponential(3.0).moment(2) + 4 + 1
    assert Exponential(3.0).scaled(2.0).shifted(1.0).moment(2) == pytest.approx(expected)


UNIT = Uniform(0.0, 1.0)
INTEGRALS = {
    "smooth": (UNIT, np.exp, math.e - 1, 1e-13),
    "oscillating": (UNIT, lambda x: np.cos(300 * x), math.sin(300) / 300, 1e-12),
    "pole near by": (UNIT, lambda x: 1 / (x + 1e-4), math.log1p(1e4), 1e-10),
    "kink": (UNIT, lambda x: abs(x - 1 / 3), 5 / 18, 1e-5),
    "jump": (UNIT, lambda x: 1.0 * (x < 0.3), 0.3, 5e-3),
    "logarithm at the edge": (UNIT, np.log, -1.0, 1e-6),
    "root at the edge": (UNIT, np.sqrt, 2 / 3, 1e-12),
    "inner root": (UNIT, lambda x: np.sqrt(abs(x - 0.4)), 2 / 3 * (0.4**1.5 + 0.6**1.5), 1e-4),
    "square root edge": (Bare(MarchenkoPastur(0.5)), lambda x: 1 / x, 2.0, 1e-12),
    "touching zero": (Bare(MarchenkoPastur(1.0)), np.square, 2.0, 1e-12),
    "atom": (Bare(MarchenkoPastur(4.0)), lambda x: 1.0 * (x == 0), 0.75, 1e-12),
    "arcsine": (Arcsine(), np.square, 4.5, 1e-11),
    "singular": (Singular(), np.sqrt, 1 / 6, 1e-12),
    "half line": (DensityMeasure(lambda x: np.exp(-x), (0, np.inf)), lambda x: x**3, 6.0, 1e-11),
    "heavy tail": (PowerLaw(0.9), lambda x: 1 / x, 1 / 0.19, 1e-11),
    "cusp between intervals": (
        DensityMeasure(lambda x: 3 / math.sqrt(2) * np.sqrt(abs(x - 0.5)), [(0, 0.5), (0.5, 1)]),
        np.square,
        0.25 + 3 / 28,
        1e-12,
    ),
}


"""A law, a function, its integral in closed form, and how well it must be found."""


def test_error_estimates_are_honest_and_integrals_converge():
    for law, f, exact, most in INTEGRALS.values():
        value, error = law.integrate(f)
        assert abs(value - exact) <= error <= most * max(1, abs(exact))


@pytest.mark.parametrize("place", np.random.default_rng(5).uniform(0.05, 0.95, 40))
def test_error_estimates_are_honest_wherever_a_kink_is(place):
    for law, scale in [(UNIT, 1.0), (Bare(UNIT).scaled(3.0), 3.0)]:
        value, error = law.integrate(lambda x: abs(x - place))
        exact = (place**2 + (scale - place) ** 2) / (2 * scale)
        assert abs(value - exact) <= error


def test_integrate_takes_several_functions():
    value, error = UNIT.integrate(lambda x: np.stack([x, x**2]))
    assert value == pytest.approx([1 / 2, 1 / 3], rel=ROUNDING)
    assert error.shape == (2,)
    infinite = Atoms([0.0, 1.0])
    refuse("function must be finite", infinite.integrate, lambda x: np.where(x > 0, x, np.inf))


def test_jumps_belong_at_ends_of_intervals():
    def steps(x):
        return np.where(x < 1 / 3, 2.0, 0.5)

    value_error("must end where the density is not smooth", DensityMeasure, steps, (0, 1))
    law = DensityMeasure(steps, [(0, 1 / 3), (1 / 3, 1)])
    expected = 2 * math.log(4 / 3) + 0.5 * math.log(2 / (4 / 3))
    assert law.stieltjes(-1.0) == pytest.approx(expected, rel=ROUNDING)


def test_expect_says_what_float64_does_not_resolve():
    message = "float64 does not resolve the integral"
    refuse(message, Bare(UNIT).shifted(1.0).stieltjes, 1.5 + 1e-13j, derivative=2)
    refuse(message, UNIT.expect, lambda x, kink: abs(x - kink) ** 0.1, -1.0, 0.3)


def test_a_mixture_hides_no_structure():
    """Edges inside the support of another component would spoil a common rule."""
    law = Mixture([Uniform(0.0, 1.0), Uniform(0.5, 3.0)], [0.5, 0.5])
    assert law.support == ((0.0, 3.0),)
    expected = (math.log(1.5 / 0.5) + math.log(3.5 / 1.0) / 2.5) / 2
    assert law.stieltjes(-0.5) == pytest.approx(expected, rel=ROUNDING)
    assert law.integrate(np.exp)[1] < 1e-12
    twice = Mixture([Atoms([1.0]), Atoms([1.0, 2.0])], [0.5, 0.5])
    assert twice.atoms == ((1.0, 0.75), (2.0, 0.25))


def test_atoms_of_a_matrix():
    factor = np.random.default_rng(0).standard_normal((6, 3))
    law = Atoms.of_matrix(factor @ factor.T)
    assert law.atoms[0] == pytest.approx((0.0, 0.5))
    assert law.values[0] == 0
    assert law.mean == pytest.approx(np.sum(factor**2) / 6)
    z = 0.3 + 1j
    resolvent = np.linalg.inv(factor @ factor.T - z * np.eye(6))
    assert law.stieltjes(z) == pytest.approx(np.trace(resolvent) / 6)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("0.4\n1.6\n1.0\n", [0.4, 1.0, 1.6]),
        ("# eigenvalues\n0.4  # smallest\n\n1.6", [0.4, 1.6]),
        ("2,1\n1,2\n", [1.0, 3.0]),
        ("2 1\n1 2\n", [1.0, 3.0]),
        ("0.4,1.6,1.0\n", [0.4, 1.0, 1.6]),
        ("0.4 1.6\n", [0.4, 1.6]),
        ("eigenvalue\n0.4\n1.6\n", [0.4, 1.6]),
        ('"",eigenvalue\n0,0.4\n1,1.6\n', [0.4, 1.6]),
        ("component,variance,ratio\n3,1.6,0.8\n7,0.4,0.2\n", [0.4, 1.6]),
        ("1 1.6\n2 0.4\n3 0.2\n", [0.2, 0.4, 1.6]),
        (",a,b\n0,2,1\n1,1,2\n", [1.0, 3.0]),
        ("1,2\n2,5\n", [0.1715728753, 5.8284271247]),
    ],
)
def test_atoms_from_a_file(tmp_path, text, values):
    path = tmp_path / "eigenvalues.csv"
    path.write_text(text)
    for law in (Atoms.from_file(path), spectrum(str(path))):
        assert isinstance(law, Atoms)
        assert law.values == pytest.approx(values)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "got no numbers in"),
        ("# all\nof 2 runs\n1\n", "got 'of 2 runs' in line 2 of .*; put # before text"),
        ("O.4\n1\n", "got 'O.4' in line 1"),
        ("1\n\nx 2\n", r"got 'x 2' in line 3 of .*wrong\.txt$"),
        ("1,2\n3\n", "got 1 numbers after rows of 2 in line 2 of"),
        ("1,2\n3,4\n5,6\n", r"got a table of shape \(3, 2\) in .*; keep the column of eigenv"),
        ("1,2\n3,4\n", r"got .*wrong\.txt: matrix must be finite and symmetric"),
        ("1,2,3\n4,5,6\n", r"got a table of shape \(2, 3\) in .*wrong\.txt$"),
    ],
)
def test_other_files_are_refused(tmp_path, text, message):
    path = tmp_path / "wrong.txt"
    path.write_text(text)
    value_error(f"path must be a file of eigenvalues in .*, {message}", Atoms.from_file, path)


def test_specifications():
    for spec, name, mean in (
        ("isotropic", "Atoms", 1.0),
        ("powerlaw:0.9", "PowerLaw", 1.0),
        ("exponential:3", "Exponential", 1.0),
        ("uniform:0.5,2", "Uniform", 1.25),
        ("mp:0.5", "MarchenkoPastur", 1.0),
        ("atoms:0.4,1.8", "Atoms", 1.1),
        ("atoms:0.4,1.6;0.3,0.7", "Atoms", 1.24),
    ):
        law = spectrum(spec)
        assert type(law).__name__ == name
        assert law.mean == pytest.approx(mean)


def test_a_law_of_wrong_mass_is_refused_when_it_is_used():
    class Half(Arcsine):
        def density(self, x):
            return super().density(x) / 2

    value_error(r"must have total mass 1, got 0\.5", Half().stieltjes, 0.0)


def test_quantiles_at_an_atom_below_a_density():
    law = Mixture([Atoms([0.0]), Uniform(1.0, 2.0)], [0.5, 0.5])
    assert law.quantiles(8) == pytest.approx([0, 0, 0, 0, 1.125, 1.375, 1.625, 1.875], abs=1e-9)


def test_moments_that_diverge_say_so():
    law = DensityMeasure(lambda x: 2 / x**3, (1.0, np.inf))
    assert law.mean == pytest.approx(2.0, rel=1e-9)
    arithmetic_error("diverges", law.moment, 2)


def test_files_of_spreadsheets_and_pictures(tmp_path):
    path = tmp_path / "eigenvalues.csv"
    path.write_text("\ufeff1\n2\n", encoding="utf-8")
    assert Atoms.from_file(path).values.tolist() == [1.0, 2.0]
    for content, message in (
        (b"1,,0\n0,1\n", "got '1,,0' in line 1"),
        (b"\xff\xfe1", "no text in"),
    ):
        path.write_bytes(content)
        refuse(message, Atoms.from_file, path)
