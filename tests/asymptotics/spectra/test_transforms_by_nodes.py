"""Transforms of all spectral measures against sums over nodes at which the law is known."""

import math

import numpy as np
import pytest

from iclimit.asymptotics.spectra import (
    Atoms,
    DensityMeasure,
    Exponential,
    FreeSum,
    MarchenkoPastur,
    Mixture,
    PowerLaw,
    Pushforward,
    SampleCovariance,
    Uniform,
)

INTEGRALS = 1e-9
"""Relative difference of integrals."""

SLOPES = 1e-5
"""Relative difference of numerical slopes, and of slopes of inverse functions."""

COUNTED = 2e-2
"""Relative difference of shares of counted nodes."""

NODES = 400
"""Nodes of a law."""

STEP = 1e-3
"""Step of numerical slopes."""

START = 0.37
"""Least eigenvalue of the uniform laws, which have the width 1."""

SHARE = 0.58
"""Share of a part of the density, and of the atoms in the mixture."""

RATIO = 0.44
"""Ratio of the laws of Marchenko and Pastur for many samples; its inverse is for few."""


def rule(image, mass):
    """Nodes at the images of a Gauss rule on [0, 1], with masses over its weights."""
    u, weight = np.polynomial.legendre.leggauss(NODES)
    u = (u + 1) / 2
    return image(u), weight / 2 * mass(u)


def marchenko_pastur(ratio):
    """The density, and the atom at 0."""

    def image(u):
        return 1 + ratio + 2 * math.sqrt(ratio) * np.cos(np.pi * u)

    x, mass = rule(image, lambda u: 2 * np.sin(np.pi * u) ** 2 / image(u))
    return np.append(x, 0.0), np.append(mass, max(0.0, 1 - 1 / ratio))


def cubic(x):
    return 0.1 + 0.5 * x + x**3


UNIFORM = rule(lambda u: START + u, np.ones_like)
ATOMS = np.array([0.2, 3.0]), np.array([0.6, 0.4])
BOTH = (np.append(ATOMS[0], UNIFORM[0]), np.append(SHARE * ATOMS[1], (1 - SHARE) * UNIFORM[1]))
HALF = MarchenkoPastur(RATIO).scaled(0.5)
# Laws with their nodes and masses.
LAWS = {
    "uniform": (Uniform(START, 1 + START), UNIFORM),
    # In a variable in which a function of the inverse eigenvalue is smooth.
    "power law": (PowerLaw(0.5), rule(lambda u: 0.5 / u**2, lambda u: 4 * u**3)),
    "exponential": (
        Exponential(2.0),
        rule(lambda u: 2 / -math.expm1(-2) * np.exp(-2 * u), np.ones_like),
    ),
    "density": (
        DensityMeasure(lambda x: 1 - SHARE + 2 * SHARE * (x - START), (START, 1 + START)),
        rule(lambda u: START + u, lambda u: 1 - SHARE + 2 * SHARE * u),
    ),
    "atoms": (Atoms(*ATOMS), ATOMS),
    "mixture": (Mixture([Atoms(*ATOMS), Uniform(START, 1 + START)], [SHARE, 1 - SHARE]), BOTH),
    "many samples": (MarchenkoPastur(RATIO), marchenko_pastur(RATIO)),
    "few samples": (MarchenkoPastur(1 / RATIO), marchenko_pastur(1 / RATIO)),
    "many samples, one level": (SampleCovariance(Atoms([1.0]), RATIO), marchenko_pastur(RATIO)),
    "few samples, one level": (
        SampleCovariance(Atoms([1.0]), 1 / RATIO),
        marchenko_pastur(1 / RATIO),
    ),
    "line": (
        Pushforward(Uniform(START, 1 + START), [0.1, 1.5]),
        (0.1 + 1.5 * UNIFORM[0], UNIFORM[1]),
    ),
    "cubic": (
        Pushforward(Uniform(START, 1 + START), [0.1, 0.5, 0.0, 1.0]),
        (cubic(UNIFORM[0]), UNIFORM[1]),
    ),
    # The R-transform of the law of ratio c is 1/(1 - c x).
    "free sum": (FreeSum(HALF, HALF), marchenko_pastur(RATIO / 2)),
}
COMPOSED = (Pushforward, SampleCovariance, FreeSum)
"""Laws whose transforms have no second derivative."""

EVERY = pytest.mark.parametrize("name", LAWS)


@EVERY
@pytest.mark.parametrize("z", [-0.23, -0.55, 0.6 + 0.7j, 1.4 + 0.7j])
def test_stieltjes_transform(name, z):
    law, (x, mass) = LAWS[name]
    orders = (0, 1) if isinstance(law, COMPOSED) else (0, 1, 2)
    for order in orders:
        expected = math.factorial(order) * complex(mass @ (x - z) ** -(order + 1.0))
        value = complex(law.stieltjes(z, derivative=order))
        assert value.real == pytest.approx(expected.real, rel=INTEGRALS)
        assert value.imag == pytest.approx(expected.imag, rel=INTEGRALS, abs=INTEGRALS)


@EVERY
def test_r_transform(name):
    law, (x, mass) = LAWS[name]
    if isinstance(law, SampleCovariance):  # it is slow
        return
    for z in (-0.23, -0.55):
        G = -float(mass @ (1 / (x - z)))
        slope = -float(mass @ (1 / (x - z) ** 2))
        assert law.r_transform(G) == pytest.approx(z - 1 / G, rel=INTEGRALS)
        bend = law.r_transform(G, derivative=1)
        assert bend == pytest.approx(1 / slope + 1 / G**2, rel=INTEGRALS)


@EVERY
@pytest.mark.parametrize("snr", [0.4, 1.3])
def test_eta_and_shannon_transform(name, snr):
    law, (x, mass) = LAWS[name]
    eta = mass @ (1 / (1 + snr * x))
    assert law.eta_transform(snr) == pytest.approx(eta, rel=INTEGRALS)
    slope = -(mass @ (x / (1 + snr * x) ** 2))
    assert law.eta_transform(snr, derivative=1) == pytest.approx(slope, rel=INTEGRALS)
    if isinstance(law, MarchenkoPastur):
        bend = 2 * (mass @ (x**2 / (1 + snr * x) ** 3))
        assert law.eta_transform(snr, derivative=2) == pytest.approx(bend, rel=INTEGRALS)
    capacity = mass @ np.log1p(snr * x)
    assert law.shannon_transform(snr) == pytest.approx(capacity, rel=SLOPES)


@EVERY
@pytest.mark.parametrize("snr", [0.4, 1.3])
def test_s_transform(name, snr):
    law, (x, mass) = LAWS[name]
    if isinstance(law, FreeSum):  # it is slow
        return
    eta = float(mass @ (1 / (1 + snr * x)))
    fall = -float(mass @ (x / (1 + snr * x) ** 2))
    assert law.s_transform(eta - 1) == pytest.approx(snr * eta / (1 - eta), rel=INTEGRALS)
    slope = (eta / (1 - eta) + snr * fall / (1 - eta) ** 2) / fall
    assert law.s_transform(eta - 1, derivative=1) == pytest.approx(slope, rel=SLOPES)


@pytest.mark.parametrize("name", [name for name in LAWS if name != "power law"])
def test_moments_and_integrals(name):
    law, (x, mass) = LAWS[name]
    for order in (1, 3):
        assert law.moment(order) == pytest.approx(mass @ x**order, rel=INTEGRALS)
    if not isinstance(law, SampleCovariance | FreeSum):  # which are slow
        assert law.integrate(np.exp)[0] == pytest.approx(mass @ np.exp(x), rel=INTEGRALS)


@pytest.mark.parametrize("name", [name for name in LAWS if name != "atoms"])
@pytest.mark.parametrize("place", [0.35, 0.65])
def test_distribution(name, place):
    """Density and distribution function at an inner quantile, or where quantiles are slow."""
    law, (x, mass) = LAWS[name]
    if isinstance(law, SampleCovariance | FreeSum):  # laws of Marchenko and Pastur
        inner = 0.6 + place
        known = MarchenkoPastur(law.moment(2) - 1).density(inner)
        assert law.density(inner) == pytest.approx(known, rel=INTEGRALS)
    else:
        lowest = sum(weight for atom, weight in law.atoms if atom <= 0.2)
        spread = 1 - sum(weight for _, weight in law.atoms)
        probability = float(lowest + spread * place)
        inner = float(law.quantile(probability))
        assert law.cdf(inner) == pytest.approx(probability, rel=INTEGRALS)
        near = float(law.cdf(inner + STEP) - law.cdf(inner - STEP))
        far = float(law.cdf(inner + 2 * STEP) - law.cdf(inner - 2 * STEP))
        slope = (8 * near - far) / (12 * STEP)
        assert law.density(inner) == pytest.approx(slope, rel=SLOPES)
    assert law.cdf(inner) == pytest.approx(mass @ (x < inner), rel=COUNTED)
