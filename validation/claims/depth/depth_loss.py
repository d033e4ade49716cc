"""Depth at finite context and width: tied layers, label noise, and the best untied layers.

Residual linear attention is applied to drawn contexts, each of which has an exact loss.  Means
over contexts, extrapolated to infinite dimension, equal the two-point theory: at finite context,
with a narrow residual stream, with both and label noise, and for the best layers that are not
tied.  So they do for eigenvalues, tasks, layers, steps, context and noise that the seed draws.

Source: Model of Bordelon, Letey and Pehlevan, arXiv:2510.01098; theory at finite context and width
derived in the documentation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.depth import depth_loss, depth_schedule_loss, untied_depth
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Claim, Effort, Later, Rows, call, limit, run
from iclimit.validation.claims.depth.power_law import context_losses
from iclimit.validation.claims.random_settings import RandomLimit, describe, random_limit

# Eigenvalues of the inputs, each d/5 times.
EIGENVALUES = np.array([0.2, 0.4, 0.8, 1.2, 1.6])
# Eigenvalues of the tasks, each d/5 times.  Those of the inputs do not decide on them, so that the
# loss is no integral over one spectrum.
TASKS = np.array([2.0, 1.0, 0.5, 1.5, 1.0])

# Both as arguments of the theory.
SPECTRA = {"spectrum": EIGENVALUES, "task_spectrum": TASKS}
# Dimensions from which losses are extrapolated.
DIMS = (10, 20, 40, 80)
# Contexts at d = 10; larger dimensions have fewer, in proportion to 1/d.
CONTEXTS = 1700

# No rare contexts carry these means.  Tied layers would diverge on contexts whose largest
# eigenvalue is out by 4.5 or more of its standard deviations; the residual of the two untied
# layers is 0.43 at the end of the spectrum and grows slowly, as a square.
TIED = {
    "context $P = 4d$": {"depth": 4, "gamma": 1.6, "alpha": 4.0},
    "width $N = d/2$": {"depth": 6, "gamma": 4.0, "width_ratio": 0.5},
    "$P = 1.5 d$, $N = 0.6 d$, noise": {
        "depth": 3,
        "gamma": 1.0,
        "alpha": 1.5,
        "width_ratio": 0.6,
        "noise_variance": 0.3,
    },
}
# Name of the point of untied layers.
UNTIED = "best untied layers, $P = 8d$"
# Number of untied layers.
UNTIED_DEPTH = 2
# Context length over dimension of the untied layers.
UNTIED_ALPHA = 8.0


def spread(eigenvalues: np.ndarray, tasks: np.ndarray, dim: int) -> dict[str, Any]:
    """Spectra of inputs and tasks that have every level equally often."""
    levels = {"eigenvalues": eigenvalues, "task_spectrum": tasks}
    return {name: np.repeat(values, dim // values.size) for name, values in levels.items()}


def contexts(
    effort: Effort,
    rates: np.ndarray | Derived,
    alpha: float = np.inf,
    width_ratio: float = np.inf,
    noise_variance: float = 0.0,
) -> dict[int, Later]:
    """Losses by dimension; the integers have exactly the ratios of the limit."""
    runs = {}
    for dim in DIMS:
        runs[dim] = run(
            context_losses,
            **spread(EIGENVALUES, TASKS, dim),
            rates=rates,
            noise_variance=noise_variance,
            context=scaled(alpha, dim),
            width=scaled(width_ratio, dim),
            repeats=effort(CONTEXTS * DIMS[0] // dim),
        )
    return runs


def scaled(ratio: float, dim: int) -> float:
    """Size with a ratio to the dimension: an integer, or infinite."""
    return np.inf if np.isinf(ratio) else round(ratio * dim)


@named_cell("drawn_layers")
def drawn_layers(*, counts: Sequence[tuple[int, int]], rng: SeedSequence) -> RandomLimit:
    """Loss of untied layers on drawn eigenvalues, which every size has equally often.

    Steps are so small that rare contexts do not carry the mean.
    """
    where, *seeds = rng.spawn(1 + len(counts))
    generator = np.random.default_rng(where)
    eigenvalues = generator.uniform(0.2, 1.6, EIGENVALUES.size)
    tasks = generator.uniform(0.5, 2, EIGENVALUES.size)
    alpha, width_ratio = generator.integers((4, 1), (9, 4)).tolist()
    noise = float(generator.uniform(0, 0.5))
    largest = np.max(eigenvalues) * (1 + alpha**-0.5) ** 2 * (1 + width_ratio**-0.5) ** 2
    rates = generator.uniform(0.3, 1, int(generator.integers(2, 5))) / largest
    options = {"rates": rates, "noise_variance": noise}
    runs = {}
    for (dim, count), seed in zip(counts, seeds, strict=True):
        size = {"context": alpha * dim, "width": width_ratio * dim, "repeats": count, "rng": seed}
        runs[dim] = context_losses(**spread(eigenvalues, tasks, dim), **size, **options)[None]
    sizes: dict[str, Any] = {"alpha": alpha, "width_ratio": width_ratio, "noise_variance": noise}
    theory = depth_schedule_loss(rates, spectrum=eigenvalues, task_spectrum=tasks, **sizes).loss
    words = describe(sizes | {"rates": rates.round(4).tolist()})
    return RandomLimit(words, {"loss": float(theory)}, runs)


def rows(effort: Effort) -> Rows:
    """Extrapolated means of losses, those of given steps by other contours."""
    for name, point in TIED.items():
        sizes = dict(point)
        depth = int(sizes.pop("depth"))
        gamma = sizes.pop("gamma")
        rates = np.full(depth, gamma / depth)
        runs = contexts(effort, rates, **sizes)
        label = f"loss, {name}, {depth} layers"
        limits = {label: call(depth_loss, **SPECTRA, **point).loss}
        yield limit(limits, runs, about=name)
        if "noise_variance" in point:
            given = call(depth_schedule_loss, rates, **SPECTRA, **sizes).loss
            yield limit({f"{label}, steps given": given}, runs, draws=name)
    labels = EIGENVALUES * TASKS
    best = untied_depth(EIGENVALUES, weights=labels, depth=UNTIED_DEPTH, alpha=UNTIED_ALPHA)
    steps = Derived(best.steps, ("best untied steps", UNTIED_DEPTH, UNTIED_ALPHA))
    runs = contexts(effort, steps, alpha=UNTIED_ALPHA)
    limits = {f"loss, {UNTIED}, {UNTIED_DEPTH} layers": best.loss * labels.mean()}
    yield limit(limits, runs, of=["untied_depth.losses"], about=UNTIED)
    repeats = {dim: CONTEXTS * DIMS[0] // dim // 2 for dim in DIMS}
    yield from random_limit(
        effort, "layers", drawn_layers, repeats, {"loss": "depth_schedule_loss.loss"}
    )


claim = Claim.of("depth-loss", __doc__, rows, figure=False)
