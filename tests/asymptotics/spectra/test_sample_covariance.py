"""Sample covariance spectra against closed forms, mpmath, combinatorics and actual matrices."""

from itertools import pairwise

import mpmath
import numpy as np
import pytest

from iclimit.asymptotics.spectra import (
    Atoms,
    Exponential,
    MarchenkoPastur,
    Mixture,
    PowerLaw,
    SampleCovariance,
    Uniform,
)
from iclimit.asymptotics.spectra.fixed_points import MOST_REAL_STEPS, MOST_STEPS
from iclimit.asymptotics.spectra.free_transforms import cumulants_of_moments, moments_of_cumulants

# Sums over atoms in float64. Measured worst 3e-15.
ROUNDING = 1e-12
# Of averages over eigenvalues of simulated matrices: allowed standard errors and bias in 1/d.
SIGMAS, BIAS = 5.0, 2.0
POPULATIONS = [
    Atoms([1.0, 10.0]),
    Atoms([0.0, 0.2, 3.0], [0.3, 0.5, 0.2]),
    Uniform(0.5, 2.0),
    Exponential(3.0),
    Mixture([Atoms([0.0]), Uniform(1.0, 3.0)], [0.3, 0.7]),
]
COMPLEX_POINTS = np.array([0.5 + 0.2j, 3.0 - 0.1j, 2.0 + 1.0j, -1.0 + 1e-3j, 30.0 + 1e-6j, 1e-2j])


@pytest.mark.parametrize("c", [0.1, 0.5, 1.0, 2.5])
def test_identity_population_is_marchenko_pastur(c):
    law = SampleCovariance(Atoms([1.0]), c)
    closed = MarchenkoPastur(c)
    assert law.support[-1] == pytest.approx(closed.edges, rel=ROUNDING, abs=ROUNDING)
    assert sum(mass for _, mass in law.atoms) == pytest.approx(closed.atom)
    upper = closed.edges[1]
    real = np.array([-1e-8, -1e-3, -1.0, -100.0, 1.01 * upper, 40 * upper])
    for z in (real, COMPLEX_POINTS):
        for derivative in (0, 1):
            for name in ("stieltjes", "companion_stieltjes"):
                value = getattr(law, name)(z, derivative=derivative)
                expected = getattr(closed, name)(z, derivative=derivative)
                assert abs(value / expected - 1).max() < ROUNDING, (name, derivative)
    x = np.linspace(*closed.edges, 9)[1:-1]
    assert law.density(x) == pytest.approx(closed.density(x), rel=ROUNDING)
    for order in range(6):
        assert law.moment(order) == pytest.approx(closed.moment(order), rel=ROUNDING)
    assert law.shannon_transform(0.7) == pytest.approx(closed.shannon_transform(0.7), rel=ROUNDING)
    assert law.s_transform(-0.2) == pytest.approx(1 / (1 - 0.2 * c), rel=ROUNDING)


def test_array_of_ratios_broadcasts():
    population = Atoms([0.3, 2.0])
    ratios = np.array([0.2, 1.0, 3.0])
    z = np.array([[-0.5], [-2.0]])
    table = SampleCovariance(population, ratios).stieltjes(z)
    single = [[SampleCovariance(population, c).stieltjes(x) for c in ratios] for x in z[:, 0]]
    assert table == pytest.approx(np.array(single), rel=1e-14)
    with pytest.raises(ValueError, match="ratio must be one number"):
        _ = SampleCovariance(population, ratios).support
    with pytest.raises(ValueError, match="z must be < 0 or not real"):
        SampleCovariance(population, ratios).stieltjes(1.0)


@pytest.mark.parametrize("z", [-1e-6, -0.3, 0.4 + 0.01j, 3.0 + 1e-5j, 3.0])
@pytest.mark.parametrize("c", [0.05, 0.99])
def test_against_mpmath(z, c):
    """Silverstein's equation for v, solved in 30 digits from a start 1e-4 away."""
    values = [1.0, 10.0]
    weights = [0.5, 0.5]
    law = SampleCovariance(Atoms(values, weights), c)
    if z == 3.0 and c > 0.5:
        z = 60.0
    with mpmath.workdps(30):
        start = 1.0001 * complex(law.companion_stieltjes(z))
        v = mpmath.findroot(
            lambda v: (
                mpmath.mpmathify(z) * v
                + 1
                - c * sum(w * t * v / (1 + t * v) for t, w in zip(values, weights, strict=True))
            ),
            mpmath.mpmathify(start),
        )
        expected = complex((v + (1 - mpmath.mpf(c)) / z) / c)
        spread = sum(w * t**2 / (1 + t * v) ** 2 for t, w in zip(values, weights, strict=True))
        slope = complex(
            (1 / (1 / v**2 - c * spread) - (1 - mpmath.mpf(c)) / mpmath.mpc(z) ** 2) / c
        )
    assert complex(law.stieltjes(z)) == pytest.approx(expected, rel=1e-12)
    assert complex(law.stieltjes(z, derivative=1)) == pytest.approx(slope, rel=1e-12)


@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("c", [0.4, 1.7])
def test_density_carries_what_the_transforms_say(population, c):
    """Mass 1, moments from cumulants and transforms from the fixed point, by quadrature."""
    law = SampleCovariance(population, c)
    nodes, weights = law.quadrature(120)
    # Measured worst 3e-10.
    assert weights.sum() == pytest.approx(1, abs=1e-8)
    for order in (1, 2, 3):
        assert weights @ nodes**order == pytest.approx(law.moment(order), rel=1e-8)
    for z in (-0.5, 0.5 + 0.5j):
        assert weights @ (1 / (nodes - z)) == pytest.approx(law.stieltjes(z), rel=1e-8)
    assert weights @ np.log1p(nodes) == pytest.approx(law.shannon_transform(1.0), rel=1e-8)
    assert weights @ (1 / (1 + nodes)) == pytest.approx(law.eta_transform(1.0), rel=1e-8)


def test_heavy_tails_have_no_upper_edge():
    law = SampleCovariance(PowerLaw(0.3), 0.5)
    assert law.edges[1] == np.inf
    matrix = SampleCovariance(Atoms(PowerLaw(0.3).quantiles(2000)), 0.5)
    x = [0.3, 1.0, 3.0]
    # The tail beyond the largest of 2000 eigenvalues is cut; measured worst 2e-4.
    assert law.stieltjes(-0.1) == pytest.approx(matrix.stieltjes(-0.1), rel=2e-3)
    assert law.density(x) == pytest.approx(matrix.density(x), rel=2e-3)


def test_bands_separate_where_silverstein_and_choi_say():
    """Two atoms: the edges are the zeros of z'(v), roots of a polynomial of degree four."""
    c = 0.05
    t = (1.0, 10.0)
    law = SampleCovariance(Atoms(t), c)
    one, other = (np.polynomial.Polynomial([1.0, x]) ** 2 for x in t)
    v2 = np.polynomial.Polynomial([0.0, 0.0, 1.0])
    slope = one * other - v2 * (t[0] ** 2 * other + t[1] ** 2 * one) * (c / 2)
    v = slope.roots()
    v = v[abs(v.imag) < 1e-10].real
    edges = np.sort(-1 / v + c / 2 * sum(x / (1 + x * v) for x in t))
    assert np.ravel(law.support) == pytest.approx(edges, rel=1e-10)
    for (lower, upper), mass in zip(law.support, (0.5, 0.5), strict=True):
        x, w = law.quadrature(60)
        assert w[(x > lower) & (x < upper)].sum() == pytest.approx(mass, abs=1e-10)
    gap = law.support[0][1], law.support[1][0]
    inside = np.linspace(*gap, 7)[1:-1]
    x, w = law.quadrature(100)
    expected = (w / (x - inside[:, None])).sum(axis=-1)
    assert law.stieltjes(inside) == pytest.approx(expected, rel=1e-9)


def test_a_spike_beside_a_density_that_jumps():
    """To first order in c a spike t moves to t (1 + c E x/(t - x))."""
    bulk = Uniform(0.5, 1.5)
    spike = 6.0
    c = 0.01
    law = SampleCovariance(Mixture([bulk, Atoms([spike])], [0.9, 0.1]), c)
    (_, gap), (lower, upper) = law.support
    assert gap < 2 < lower < spike < upper
    x, w = law.quadrature(200)
    band = x > 2
    assert w[band].sum() == pytest.approx(0.1, abs=1e-9)
    moved = float(bulk.expect(lambda t, _: t / (spike - t), spike, spike))
    assert w[band] @ x[band] / 0.1 == pytest.approx(spike * (1 + 0.9 * c * moved), rel=1e-4)


def test_cumulants_count_non_crossing_partitions():
    assert moments_of_cumulants([1] * 8) == [1, 2, 5, 14, 42, 132, 429, 1430]  # Catalan
    assert moments_of_cumulants([0, 1, 0, 0, 0, 0]) == [0, 1, 0, 2, 0, 5]  # semicircle
    assert cumulants_of_moments([1, 2, 5, 14, 42]) == [1] * 5


@pytest.mark.parametrize(("c", "zeros"), [(0.5, 0), (2.0, 0), (0.5, 40)])
def test_against_simulated_matrices(c, zeros):
    rng = np.random.default_rng(7)
    d = 150
    repeats = 16
    values = np.concatenate([np.zeros(zeros), np.linspace(0.2, 4.0, d - zeros)])
    law = SampleCovariance(Atoms(values), c)
    functions = [lambda x: 1 / (x + 0.1), lambda x: x**3, lambda x: np.log1p(x)]
    expected = [-0.0 + law.stieltjes(-0.1), law.moment(3), law.shannon_transform(1.0)]
    samples = []
    for _ in range(repeats):
        z = rng.standard_normal((round(d / c), d)) * np.sqrt(values)
        eigenvalues = np.linalg.eigvalsh(z.T @ z / len(z))
        samples.append([f(eigenvalues).mean() for f in functions])
    mean = np.mean(samples, axis=0)
    error = np.std(samples, axis=0, ddof=1) / np.sqrt(repeats)
    # Real matrices: the mean differs from the limit by O(1/d).
    allowance = SIGMAS * error + BIAS / d * np.array(expected)
    assert np.all(abs(mean - expected) < allowance)
    x = np.quantile(eigenvalues[eigenvalues > 1e-9], [0.25, 0.5, 0.75])
    share = [(eigenvalues <= p).mean() for p in x]
    # Eigenvalues are rigid: their distribution function is off by O(1/d).
    assert law.cdf(x) == pytest.approx(share, abs=4 / d)


def test_random_measures_stay_within_the_bounds_on_steps():
    from benchmarks.stress_fixed_points import stress

    report = stress(measures=2000, seed=11)
    assert report["most steps above the axis"] < MOST_STEPS / 1.5
    assert report["most steps below zero"] < MOST_REAL_STEPS / 1.5
    assert report["least imaginary part"] > 0
    assert report["worst residual"] < 1e-12


def test_order_of_edges():
    law = SampleCovariance(Atoms(np.geomspace(1e-4, 1.0, 9)), 0.003)
    ends = np.ravel(law.support)
    assert len(law.support) == 9
    assert all(a < b for a, b in pairwise(ends))
