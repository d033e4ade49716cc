"""Free sums against closed forms, sums of R-transforms and actual matrices."""

import math

import numpy as np
import pytest
from scipy.stats import ortho_group

from iclimit.asymptotics.spectra import Atoms, DensityMeasure, FreeSum, MarchenkoPastur, Uniform

# Of averages over eigenvalues of simulated matrices: allowed standard errors and bias in 1/d.
SIGMAS, BIAS = 5.0, 2.0
COMPLEX_POINTS = np.array([0.5 + 0.2j, 3.0 - 0.1j, -1.0 + 1e-3j, 30.0 + 1e-6j])


def semicircle(variance):
    r = 2 * np.sqrt(variance)
    return DensityMeasure(
        lambda x: 2 / (np.pi * r**2) * np.sqrt(np.maximum(r**2 - x**2, 0)), [(-r, r)]
    )


def test_two_signs_give_the_arcsine_law():
    law = FreeSum(Atoms([-1.0, 1.0]), Atoms([-1.0, 1.0]))
    assert np.ravel(law.support) == pytest.approx([-2.0, 2.0], abs=1e-12)
    x = np.array([-1.9, -0.3, 1.0, 1.99])
    assert law.density(x) == pytest.approx(1 / (np.pi * np.sqrt(4 - x**2)), rel=1e-9)
    z = np.array([-5.0, -2.01, 2.001, 4.0])
    assert law.stieltjes(z) == pytest.approx(-np.sign(z) / np.sqrt(z**2 - 4), rel=1e-10)
    assert [law.moment(k) for k in range(7)] == pytest.approx([1, 0, 2, 0, 6, 0, 20])


def test_semicircles_add_their_variances():
    law = FreeSum(semicircle(0.5), semicircle(1.5))
    closed = semicircle(2.0)
    assert np.ravel(law.support) == pytest.approx(np.ravel(closed.support), rel=1e-9)
    x = np.linspace(-2.7, 2.7, 7)
    assert law.density(x) == pytest.approx(closed.density(x), rel=1e-9)
    assert law.stieltjes(4.0) == pytest.approx((-4.0 + np.sqrt(8.0)) / 4, rel=1e-9)


def test_marchenko_pastur_laws_add_as_samples_do():
    """Two sums over N samples are one over 2 N."""
    one = MarchenkoPastur(0.5)
    law = FreeSum(one, one)
    closed = MarchenkoPastur(0.25).scaled(2.0)
    assert law.support[0] == pytest.approx(closed.support[0], rel=1e-10)
    x = np.linspace(0.6, 4.4, 7)
    assert law.density(x) == pytest.approx(closed.density(x), rel=1e-9)
    for derivative in (0, 1):
        for z in (COMPLEX_POINTS, np.array([-1.0, 0.2, 5.0])):
            value = law.stieltjes(z, derivative=derivative)
            expected = closed.stieltjes(z, derivative=derivative)
            assert abs(value / expected - 1).max() < 1e-9
    assert law.moment(5) == pytest.approx(closed.moment(5), rel=1e-12)
    assert law.r_transform(-0.5) == pytest.approx(closed.r_transform(-0.5), rel=1e-9)


def test_density_carries_what_the_transforms_say():
    for pair, bands in (
        ((Atoms([0.0, 10.0]), MarchenkoPastur(0.1)), 2),
        ((Atoms([0.0, 1.0], [0.7, 0.3]), Atoms([0.0, 1.0], [0.8, 0.2])), 2),
        ((Atoms([0.0, 4.0, 9.0]), Atoms([0.0, 1.0])), 3),
        ((Uniform(0.0, 1.0), Uniform(0.0, 1.0)), 1),
    ):
        law = FreeSum(*pair)
        assert sum(lower < upper for lower, upper in law.support) == bands
        nodes, weights = law.quadrature(80)
        # Measured worst 2e-9.
        assert weights.sum() == pytest.approx(1, abs=1e-7)
        for order in (1, 2, 3):
            assert weights @ nodes**order == pytest.approx(law.moment(order), rel=1e-7)
        for z in (-0.5, 0.5 + 0.5j):
            assert weights @ (1 / (nodes - z)) == pytest.approx(law.stieltjes(z), rel=1e-7)


def test_atoms_meet_when_their_masses_exceed_one():
    law = FreeSum(Atoms([0.0, 1.0], [0.7, 0.3]), Atoms([0.0, 1.0], [0.8, 0.2]))
    positions, masses = zip(*law.atoms, strict=True)
    assert positions == (0.0, 1.0)
    assert masses == pytest.approx((0.5, 0.1))


def test_against_simulated_sums():
    rng = np.random.default_rng(5)
    d = 120
    repeats = 30
    a = np.repeat([0.0, 3.0], d // 2)
    b = np.repeat(np.linspace(0.0, 1.0, 4), d // 4)
    law = FreeSum(Atoms(a), Atoms(b))
    functions = [lambda x: 1 / (x + 0.5), lambda x: x**3, lambda x: x**4]
    expected = np.array([law.stieltjes(-0.5), law.moment(3), law.moment(4)])
    samples = []
    for _ in range(repeats):
        u = ortho_group.rvs(d, random_state=rng)
        eigenvalues = np.linalg.eigvalsh(np.diag(a) + (u * b) @ u.T)
        samples.append([f(eigenvalues).mean() for f in functions])
    mean = np.mean(samples, axis=0)
    error = np.std(samples, axis=0, ddof=1) / np.sqrt(repeats)
    assert np.all(abs(mean - expected) < SIGMAS * error + BIAS / d * expected)
    # The gap of the limit holds no eigenvalue, but for a margin of the edges' fluctuations.
    (_, start), (stop, _) = law.support
    assert not np.any((eigenvalues > start + 0.1) & (eigenvalues < stop - 0.1))


@pytest.mark.parametrize("scale", [1e-139, 1e139])
def test_any_units(scale):
    law = FreeSum(Atoms([-scale, scale]), Atoms([-scale, scale]))
    np.testing.assert_allclose(law.support, [(-2 * scale, 2 * scale)], rtol=1e-12)
    assert law.stieltjes(4 * scale) * scale == pytest.approx(-1 / math.sqrt(12), rel=1e-12)
