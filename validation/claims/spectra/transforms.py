"""Transforms of all spectral measures are integrals over their laws.

At drawn points the Stieltjes transform with its derivatives, the companion, eta, Shannon, R- and
S-transforms, moments, densities and distribution functions equal sums over nodes at which the law
is known without them: uniform, power and exponential laws, a density, atoms, a mixture, the
Marchenko-Pastur law on both sides of ratio 1, images under polynomials, and the law of sample
covariances, of one level and as a free sum.

Source: definitions of the transforms; Marchenko and Pastur (1967) for the density.
"""

import math
from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.random import Generator, SeedSequence

from iclimit.asymptotics import spectra
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows
from iclimit.validation.claims.random_settings import Pair, pair_rows

# Relative difference of integrals.
INTEGRALS = 1e-9
# Relative difference of shares of counted nodes.
COUNTED = 2e-2
# Relative difference of numerical slopes.
SLOPES = 1e-5
# Nodes of a law.
NODES = 400
# Laws whose transforms have no second derivative.
COMPOSED = ("Pushforward", "SampleCovariance", "FreeSum")
# What would take more than a tenth of a second.
SLOW = {
    "SampleCovariance": ("r_transform", "integral", "quantile"),
    "FreeSum": ("s_transform", "integral", "quantile"),
}
# Step of numerical slopes.
H = 1e-3
# Nodes and their masses.
Nodes: TypeAlias = tuple[np.ndarray, np.ndarray]


def rule(
    image: Callable[[np.ndarray], np.ndarray], mass: Callable[[np.ndarray], np.ndarray]
) -> Nodes:
    """Nodes at the images of a Gauss rule on [0, 1], with masses over its weights."""
    u, weight = np.polynomial.legendre.leggauss(NODES)
    u = (u + 1) / 2
    weight = weight / 2
    return image(u), weight * mass(u)


def marchenko_pastur(c: float) -> Nodes:
    """The density, and the atom at 0."""

    def image(u: np.ndarray) -> np.ndarray:
        return np.asarray(1 + c + 2 * math.sqrt(c) * np.cos(np.pi * u))

    x, mass = rule(image, lambda u: 2 * np.sin(np.pi * u) ** 2 / image(u))
    return np.append(x, 0.0), np.append(mass, max(0.0, 1 - 1 / c))


def laws(generator: Generator) -> Iterator[tuple[str, spectra.SpectralMeasure, Nodes]]:
    """Names, laws and nodes."""
    a, b, c = generator.uniform(0.3, 0.7, 3).tolist()
    uniform = rule(lambda u: a + u, np.ones_like)
    yield "Uniform", spectra.Uniform(a, 1 + a), uniform
    # The power law in a variable in which a function of its inverse is smooth.
    tail = rule(lambda u: 0.5 / u**2, lambda u: 4 * u**3)
    yield "PowerLaw", spectra.PowerLaw(0.5), tail
    top = 2 / -math.expm1(-2)
    falling = rule(lambda u: top * np.exp(-2 * u), np.ones_like)
    yield "Exponential", spectra.Exponential(2.0), falling
    line = rule(lambda u: a + u, lambda u: (1 - b) + 2 * b * u)
    yield (
        "DensityMeasure",
        spectra.DensityMeasure(lambda x: (1 - b) + 2 * b * (x - a), (a, 1 + a)),
        line,
    )
    atoms = np.array([0.2, 3.0]), np.array([0.6, 0.4])
    yield "Atoms", spectra.Atoms(*atoms), atoms
    both = np.append(atoms[0], uniform[0]), np.append(b * atoms[1], (1 - b) * uniform[1])
    parts = [spectra.Atoms(*atoms), spectra.Uniform(a, 1 + a)]
    yield "Mixture", spectra.Mixture(parts, [b, 1 - b]), both
    for ratio in (c, 1 / c):
        known = marchenko_pastur(ratio)
        where = "many samples" if ratio < 1 else "few samples"
        yield f"MarchenkoPastur, {where}", spectra.MarchenkoPastur(ratio), known
        level = spectra.SampleCovariance(spectra.Atoms([1.0]), ratio)
        yield f"SampleCovariance, {where}", level, known
    for name, polynomial in (("line", [0.1, 1.5]), ("cubic", [0.1, 0.5, 0.0, 1.0])):
        image = np.polynomial.polynomial.polyval(uniform[0], polynomial)
        law = spectra.Pushforward(spectra.Uniform(a, 1 + a), polynomial)
        yield f"Pushforward, {name}", law, (image, uniform[1])
    # The R-transform of the law of ratio c is 1/(1 - c x).
    half = spectra.MarchenkoPastur(c).scaled(0.5)
    yield "FreeSum", spectra.FreeSum(half, half), marchenko_pastur(c / 2)


def pairs_of(
    name: str, law: spectra.SpectralMeasure, nodes: Nodes, generator: Generator
) -> Iterator[Pair]:
    """All transforms of a law, and integrals."""
    x, mass = nodes
    snr = float(generator.uniform(0.3, 1.5))
    real = float(-generator.uniform(0.2, 0.6))
    off = complex(generator.uniform(0.5, 1.5), 0.7)
    slow = SLOW.get(name.partition(",")[0], ())
    for k in range(2 if name.startswith(COMPOSED) else 3):
        for part, z in (("at a real point", real), ("off the axis", off)):
            theory = complex(law.stieltjes(z, derivative=k))
            known = math.factorial(k) * complex(mass @ (x - z) ** -(k + 1.0))
            label = f"stieltjes, {name}, derivative {k} {part}"
            yield label, theory.real, known.real, INTEGRALS
            if z != real:
                yield f"{label}, imaginary part", theory.imag, known.imag, INTEGRALS
    if "r_transform" not in slow:
        G = -float(mass @ (1 / (x - real)))
        fall = -float(mass @ (1 / (x - real) ** 2))
        yield f"r_transform, {name}", float(law.r_transform(G)), real - 1 / G, INTEGRALS
        theory = float(law.r_transform(G, derivative=1))
        known = 1 / fall + 1 / G**2
        yield f"r_transform, {name}, slope", theory, known, INTEGRALS
    eta = float(mass @ (1 / (1 + snr * x)))
    fall = -float(mass @ (x / (1 + snr * x) ** 2))
    yield f"eta_transform, {name}", float(law.eta_transform(snr)), eta, INTEGRALS
    theory = float(law.eta_transform(snr, derivative=1))
    yield f"eta_transform, {name}, slope", theory, fall, INTEGRALS
    if name.startswith("MarchenkoPastur"):
        theory = float(law.eta_transform(snr, derivative=2))
        bend = 2 * float(mass @ (x**2 / (1 + snr * x) ** 3))
        yield f"eta_transform, {name}, curvature", theory, bend, INTEGRALS
    shannon = float(mass @ np.log1p(snr * x))
    yield f"shannon_transform, {name}", float(law.shannon_transform(snr)), shannon, SLOPES
    if "s_transform" not in slow:
        known = snr * eta / (1 - eta)
        yield f"s_transform, {name}", float(law.s_transform(eta - 1)), known, INTEGRALS
        theory = float(law.s_transform(eta - 1, derivative=1))
        known = (eta / (1 - eta) + snr * fall / (1 - eta) ** 2) / fall
        yield f"s_transform, {name}, slope", theory, known, SLOPES
    if law.support[-1][1] < np.inf:
        for order in (1, 3):
            yield f"moment {order}, {name}", float(law.moment(order)), mass @ x**order, INTEGRALS
        if "integral" not in slow:
            theory = float(law.integrate(np.exp)[0])
            yield f"integral, {name}", theory, mass @ np.exp(x), INTEGRALS
    if len(law.atoms) < len(x):
        yield from distribution(name, law, nodes, generator, "quantile" in slow)


def distribution(
    name: str, law: spectra.SpectralMeasure, nodes: Nodes, generator: Generator, slow: bool
) -> Iterator[Pair]:
    """Density and distribution function at an inner point, which is a quantile or any."""
    x, mass = nodes
    least = sum(weight for atom, weight in law.atoms if atom <= 0.2)
    inner = 1 - sum(weight for _, weight in law.atoms)
    place = float(generator.uniform(0.8, 1.2))
    if slow:  # laws of Marchenko and Pastur
        known = spectra.MarchenkoPastur(law.moment(2) - 1).density(place)
        yield f"density, {name}", float(law.density(place)), known, INTEGRALS
    else:
        probability = float(least + inner * generator.uniform(0.3, 0.7))
        place = float(law.quantile(probability))
        yield f"quantile, {name}", float(law.cdf(place)), probability, INTEGRALS
        near = float(law.cdf(place + H) - law.cdf(place - H))
        far = float(law.cdf(place + 2 * H) - law.cdf(place - 2 * H))
        yield f"density, {name}", float(law.density(place)), (8 * near - far) / (12 * H), SLOPES
    yield f"cdf, {name}", float(law.cdf(place)), float(mass @ (x < place)), COUNTED


@named_cell("pairs")
def pairs(*, rng: SeedSequence) -> list[Pair]:
    """All laws."""
    generator = np.random.default_rng(rng)
    return [
        (label, float(theory), float(value), relative)
        for name, law, nodes in laws(generator)
        for label, theory, value, relative in pairs_of(name, law, nodes, generator)
    ]


def rows(_: Effort) -> Rows:
    """All pairs."""
    yield from pair_rows(pairs)


claim = Claim.of("spectra-transforms", __doc__, rows, figure=False)
