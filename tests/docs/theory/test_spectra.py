"""Sentences of the pages on spectra, computed."""

import numpy as np
import pytest
from statements import states

import iclimit
from iclimit.spectra import Atoms, FreeSum, SampleCovariance, Uniform, wishart_resolvent

pytestmark = pytest.mark.slow

RESOLVENT = "spectra/resolvent"
MEASURES = "spectra/spectral-measures"


@states(
    RESOLVENT,
    "with one positive root",
    "the wrong form loses up to 12 of 16 digits where q and :math:`\\kappa` are above "
    ":math:`10^{-6}`, and all of them below",
)
def test_the_root_of_the_resolvent():
    generator = np.random.default_rng(0)
    q, kappa = np.exp(generator.uniform(np.log(1e-6), 7, (2, 20_000)))
    b = q + (kappa - 1) / kappa
    s = np.sqrt(b**2 + 4 * q / kappa)
    forms = np.array([2 / (b + s), (s - b) * kappa / (2 * q)])
    right = np.where(b >= 0, forms[0], forms[1])
    wrong = np.where(b >= 0, forms[1], forms[0])
    assert np.all(right > 0)
    assert right == pytest.approx(wishart_resolvent(q, kappa=kappa), rel=1e-12)
    lost = 16 + np.log10(np.abs(wrong / right - 1).max())
    assert lost == pytest.approx(12, abs=0.5)
    b = 1e-14 - 1e6
    assert abs(b + np.sqrt(b**2 + 4e-8)) == 0  # q = 1e-14 at kappa = 1e-6


@states(
    RESOLVENT,
    ":math:`M \\to 1/(1+q)` as :math:`\\kappa \\to \\infty`",
    ":math:`qM \\to 1 - \\kappa` for :math:`\\kappa < 1`; and :math:`\\sqrt q\\, M \\to 1` at "
    ":math:`\\kappa = 1`",
)
def test_limits_of_the_resolvent():
    q = np.geomspace(0.01, 10, 20)
    assert wishart_resolvent(q, kappa=1e12) == pytest.approx(1 / (1 + q))
    tiny = 1e-12
    assert wishart_resolvent(tiny, kappa=3.0) == pytest.approx(1.5)
    assert tiny * wishart_resolvent(tiny, kappa=0.4) == pytest.approx(0.6)
    assert np.sqrt(tiny) * wishart_resolvent(tiny, kappa=1.0) == pytest.approx(1, rel=1e-5)


@states(
    RESOLVENT,
    "As :math:`n` grows it tends to the atom :math:`\\max(0, 1 - 1/c)`",
    "Because of the stationarity, an error of :math:`w` enters squared",
)
def test_rule_and_shannon_transform():
    for c in (0.4, 1.0, 2.5):
        weight = 1 / np.sum(c ** -np.arange(0.0, 400))
        assert weight == pytest.approx(max(0, 1 - 1 / c), abs=3e-3)

        def potential(w, gamma=2.0, c=c):
            return np.log1p(gamma / w) + (np.log(w) - (w - 1) / w) / c

        w = 1 + c * wishart_resolvent(0.5, kappa=1 / c)
        exact = iclimit.MarchenkoPastur(c).shannon_transform(2.0)
        assert potential(w) == pytest.approx(exact)
        errors = [abs(potential(w * (1 + e)) - potential(w)) for e in (1e-2, 1e-3)]
        assert errors[0] / errors[1] == pytest.approx(100, rel=0.1)


@states(
    MEASURES,
    "So each gap of :math:`\\nu` holds at most one gap of the new law",
    "At 0 there is an atom of the larger of :math:`\\nu(\\{0\\})` and :math:`1 - 1/c`",
)
def test_gaps_of_sample_covariances():
    generator = np.random.default_rng(1)
    for _ in range(100):
        count = generator.integers(2, 6)
        population = Atoms(np.sort(np.exp(generator.uniform(-2, 3, count))))
        ratio = float(np.exp(generator.uniform(-4, 1)))
        law = SampleCovariance(population, ratio)
        bands = [band for band in law.support if band[1] > 0]
        assert len(bands) <= count
    for zeros, ratio in ((0.5, 0.3), (0.2, 3.0)):
        law = SampleCovariance(Atoms([0.0, 1.0], [zeros, 1 - zeros]), ratio)
        atom = float(law.cdf(1e-9))
        assert atom == pytest.approx(max(zeros, 1 - 1 / ratio))


@states(MEASURES, "Atoms are sums of atoms whose masses exceed 1 together, less 1")
def test_atoms_of_free_sums():
    law = FreeSum(Atoms([-1.0, 2.0], [0.7, 0.3]), Atoms([0.0, 1.0], [0.8, 0.2]))
    assert float(law.cdf(-1 + 1e-9) - law.cdf(-1 - 1e-9)) == pytest.approx(0.5, abs=1e-6)


@states(MEASURES, "R is additive under free sums, S multiplicative under free products")
def test_transforms_of_sums_and_products():
    one = Uniform(0.5, 1.5)
    other = iclimit.MarchenkoPastur(0.4)
    for x in (-0.2, 0.05, 0.1):
        total = one.r_transform(x) + other.r_transform(x)
        assert FreeSum(one, other).r_transform(x) == pytest.approx(total, rel=1e-7)
        product = one.s_transform(x) * other.s_transform(x)
        assert SampleCovariance(one, 0.4).s_transform(x) == pytest.approx(product, rel=1e-10)


@states(
    MEASURES, "in the upper half plane", "Relative errors of the Stieltjes transform are below"
)
def test_stieltjes_near_the_support():
    law = Uniform(0.0, 1.0)
    for distance in (1e-3, 1e-2, 0.1, 1.0):
        z = 1 + distance
        assert law.stieltjes(z) == pytest.approx(np.log((z - 1) / z), rel=1e-12)
    assert np.imag(law.stieltjes(0.3 + 0.1j)) > 0
