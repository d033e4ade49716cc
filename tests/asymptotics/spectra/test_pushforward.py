"""Images of measures under polynomials against mapped nodes, closed forms and matrices."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy.integrate import quad

from iclimit.asymptotics.spectra import Atoms, MarchenkoPastur, Mixture, Pushforward, Uniform

POLYNOMIALS = [[1.0, -0.5], [0.0, 0.0, 1.0], [0.0, 2.0, -1.0], [1.0, -3.0, 2.0, 0.3]]


@pytest.mark.parametrize("polynomial", POLYNOMIALS)
def test_transforms_against_mapped_nodes(polynomial):
    law = Pushforward(MarchenkoPastur(0.25), polynomial)
    base = MarchenkoPastur(0.25)
    x, w = base.quadrature(400)
    y = Polynomial(polynomial)(x)
    for z in (-9.0, 50.0, 0.3 + 0.4j, 0.3 - 0.4j):
        for derivative in (0, 1):
            expected = w @ (1 / (y - z) ** (derivative + 1))
            # Measured worst 2e-15.
            assert law.stieltjes(z, derivative=derivative) == pytest.approx(expected, rel=1e-12)
    for order in range(5):
        assert law.moment(order) == pytest.approx(w @ y**order, rel=1e-12)
    assert law.edges[0] <= y[w > 1e-8].min()
    assert law.edges[1] >= y[w > 1e-8].max()


def test_density_integrates_to_the_distribution_function():
    for polynomial in POLYNOMIALS:
        law = Pushforward(MarchenkoPastur(0.25), polynomial)
        lower, upper = law.edges
        points = np.linspace(lower, upper, 6)[1:-1]
        # Between critical values, at which the density has inverse square roots.
        critical = Polynomial(polynomial)(Polynomial(polynomial).deriv().roots().real)
        for a, b in pairwise(points):
            inside = [v for v in critical if a < v < b]
            mass = quad(law.density, a, b, points=inside or None, limit=200)[0]
            assert law.cdf(b) - law.cdf(a) == pytest.approx(mass, abs=1e-6)
        assert law.cdf(lower) == pytest.approx(0, abs=1e-12)
        assert law.cdf(upper) == pytest.approx(1, abs=1e-12)


def test_square_of_a_uniform_law():
    law = Pushforward(Uniform(-1.0, 2.0), [0.0, 0.0, 1.0])
    assert law.support == ((0.0, 4.0),)
    x = np.array([0.25, 0.81, 1.44, 3.0])
    assert law.density(x) == pytest.approx(np.where(x < 1, 2, 1) / (6 * np.sqrt(x)), rel=1e-12)
    assert law.density([-0.1, 4.1]) == pytest.approx([0, 0])
    assert law.cdf(1.44) == pytest.approx((1.2 + 1.0) / 3, rel=1e-12)


def test_atoms_merge():
    law = Pushforward(Atoms([-1.0, 0.0, 1.0, 2.0]), [0.0, 0.0, 1.0])
    assert law.atoms == ((0.0, 0.25), (1.0, 0.5), (4.0, 0.25))
    assert law.stieltjes(3.0) == pytest.approx(-1 / 12 - 1 / 4 + 1 / 4, rel=1e-12)


def test_eigenvalues_of_a_matrix_polynomial():
    rng = np.random.default_rng(3)
    z = rng.standard_normal((80, 40))
    matrix = z.T @ z / 80
    image = matrix @ matrix - 2 * matrix + np.eye(40)
    law = Pushforward(Atoms.of_matrix(matrix), [1.0, -2.0, 1.0])
    assert [x for x, _ in law.atoms] == pytest.approx(np.linalg.eigvalsh(image), abs=1e-12)
    expected = np.trace(np.linalg.inv(image + 0.1 * np.eye(40))) / 40
    assert law.stieltjes(-0.1) == pytest.approx(expected, rel=1e-10)


def test_generic_transforms_of_the_base_class():
    mixed = Mixture([Atoms([0.5]), Uniform(0.0, 2.0)], [0.4, 0.6])
    law = Pushforward(mixed, [0.0, 0.0, 1.0])
    shannon = 0.4 * np.log1p(0.25) + 0.6 * quad(lambda x: np.log1p(x**2) / 2, 0, 2)[0]
    assert law.shannon_transform(1.0) == pytest.approx(shannon, rel=1e-10)
    eta = 0.4 / 1.25 + 0.6 * quad(lambda x: 0.5 / (1 + x**2), 0, 2)[0]
    assert law.eta_transform(1.0) == pytest.approx(eta, rel=1e-10)
    assert law.cdf(1.0) == pytest.approx(0.4 + 0.3, rel=1e-10)
