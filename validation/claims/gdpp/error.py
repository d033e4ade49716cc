"""Test error of GD++: exact at finite size, Marchenko-Pastur in the limit.

The loss of simulated GD++ with label noise equals its integral over the exact mean spectrum at
every size and extrapolates to the Marchenko-Pastur integral.  Descents from random starts over
the limiting spectrum reach the minima that the search finds, and the best polynomial its bound.

Source: {vonoswald2023}, Figure 13 (GD++); integrals: documentation.
"""

import math
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.gdpp import gdpp_loss, gdpp_minima, optimal_gdpp
from iclimit.results import Estimate
from iclimit.simulate.arrays import to_host
from iclimit.simulate.descent.schedules import context_blocks
from iclimit.simulate.gdpp import simulate_gdpp
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Later, Rows, call, exact, limit, mean, run
from iclimit.validation.claims.gdpp.controls import controlled, trace_controls
from iclimit.validation.claims.gdpp.minima import errors, local_minima

# Rates and gammas by number of layers, tame up to the largest eigenvalues that occur.  At the best
# rates of the limit the mean of three layers, of degree 26 in the eigenvalues, comes from contexts
# too rare to be simulated.
SCHEDULES = {2: ((0.3, 0.45), (0.06,)), 3: ((0.3, 0.45, 0.6), (0.06, 0.07))}

# Dimensions that are simulated.
SIZES = (16, 24, 32, 48, 64)
# Dimension over context length.
RATIO = 0.5
# Noise ratio of the simulated losses.
NOISE_RATIO = 0.05

# Noise ratios of the minima.  Of two layers every third random start ends at the best minimum.
MINIMA_NOISES = (NOISE_RATIO, 0.2)

# Relative; minima are found to rounding (measured: 1e-14).
MINIMUM_ACCURACY = 1e-10

# Nodes of the rule over the limiting spectrum.  It is exact to rounding for every polynomial here.
NODES = 400


@named_cell("simulated_loss")
def simulated_loss(
    *,
    rates: tuple[float, ...],
    gammas: tuple[float, ...],
    dim: int,
    contexts: int,
    rng: SeedSequence,
    backend: str = "numpy",
) -> Estimate:
    """Loss of simulated GD++, with the traces of the same contexts as control variates."""
    size = (round(dim / RATIO), dim)
    law = "gaussian"
    settings: dict[str, Any] = {"context": size[0], "dim": dim, "noise_ratio": NOISE_RATIO}
    run = simulate_gdpp(rates, gammas, contexts=contexts, rng=rng, backend=backend, **settings)
    blocks = map(to_host, context_blocks(*size, law, contexts, rng, backend))
    controls = [trace_controls(x.transpose(0, 2, 1) @ x, size[0]) for x in blocks]
    return controlled(run.loss.samples, np.concatenate(controls))


def limiting_spectrum() -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues and weights of the Marchenko-Pastur law, by the trapezoidal rule in an angle."""
    angle = np.arange(1, NODES) * math.pi / NODES
    eigenvalues = 1 + RATIO - 2 * math.sqrt(RATIO) * np.cos(angle)
    weights = np.sin(angle) ** 2 / eigenvalues
    return eigenvalues, weights / np.sum(weights)


@named_cell("limiting_minima")
def limiting_minima(
    *, layers: int, noise_ratio: float, starts: int, rng: SeedSequence
) -> list[float]:
    """Losses at the local minima over the limiting spectrum, best first."""
    nodes, weights = limiting_spectrum()
    minima = local_minima(nodes, weights, noise_ratio, layers=layers, starts=starts, rng=rng)
    return [float(sum(weights @ e**2 for e in errors(x, nodes, noise_ratio))) for x in minima]


def least_loss(degree: int, noise_ratio: float) -> float:
    """Least loss over the limiting spectrum for any polynomial P with P(0) = 1, of this degree.

    It is linear least squares for the polynomial Q = (1 - P)/eigenvalue.
    """
    nodes, weights = limiting_spectrum()
    powers = np.polynomial.chebyshev.chebvander(nodes - np.mean(nodes), degree - 1)
    bias = np.sqrt(weights)
    roots = np.sqrt(noise_ratio * weights * nodes)
    design = np.concatenate([(bias * nodes)[:, None] * powers, roots[:, None] * powers])
    target = np.concatenate([bias, np.zeros_like(bias)])
    return float(np.linalg.lstsq(design, target, rcond=None)[1][0])


def rows(effort: Effort) -> Rows:
    """Losses against the exact ones, extrapolated losses against the limit, and minima."""
    contexts = effort.pick(tiny=400, quick=2000, medium=20_000, full=200_000)
    for layers, (rates, gammas) in SCHEDULES.items():
        runs = {
            dim: run(
                simulated_loss,
                rates=rates,
                gammas=gammas,
                dim=dim,
                contexts=contexts * SIZES[0] // dim,
            )
            for dim in SIZES
        }
        for dim, loss in runs.items():
            label = f"{layers} layers, d = {dim}, exact"
            theory = call(exact_loss, layers, dim)
            yield mean(label, theory, loss, of="gdpp_loss")
        limits = {f"{layers} layers, d to infinity": call(limit_loss, layers)}
        yield limit(limits, runs, of=["gdpp_loss.limit"], name=f"{layers} layers")
    starts = effort.pick(tiny={2: 25}, quick={2: 60}, medium={2: 80, 3: 80}, full={2: 100, 3: 100})
    for layers, count in starts.items():
        for noise in MINIMA_NOISES:
            losses = run(limiting_minima, layers=layers, noise_ratio=noise, starts=count)
            yield from minimum_rows(layers, noise, losses)


def minimum_rows(layers: int, noise: float, losses: Later) -> Rows:
    """Minima in the limit; of more than two layers the best only."""
    where = f"{layers} layers, v = {noise:g}"
    limits: dict[str, Any] = {"ratio": RATIO, "noise_ratio": noise}
    best = call(optimal_gdpp, layers, **limits)
    options = {"relative": MINIMUM_ACCURACY}
    yield exact(f"least loss, {where}", best.loss, losses[0], **options)
    bound = call(least_loss, (3**layers - 1) // 2, noise)
    yield exact(f"any polynomial, {where}", best.lower_bound, bound, **options)
    minima = gdpp_minima(layers, **limits)[: 2 if layers == 2 else 1]
    for number, minimum in enumerate(minima):
        label = f"minimum {number}, {where}"
        of = "gdpp_minima.loss"
        yield exact(label, minimum.loss, losses[number], of=of, **options)


def exact_loss(layers: int, dim: int) -> float:
    """Loss at finite size."""
    rates, gammas = SCHEDULES[layers]
    size: dict[str, Any] = {"context": round(dim / RATIO), "dim": dim}
    return float(gdpp_loss(rates, gammas=gammas, noise_ratio=NOISE_RATIO, **size))


def limit_loss(layers: int) -> float:
    """Loss in the limit."""
    rates, gammas = SCHEDULES[layers]
    return float(gdpp_loss(rates, gammas=gammas, ratio=RATIO, noise_ratio=NOISE_RATIO))


claim = Claim.of("gdpp-error", __doc__, rows, figure=False)
