"""Kernels of attention: how much context a softmax, a ReLU or several heads are worth.

At finite size the loss of a head with weights f(score), not normalised, is the exact one, for
ReLU, tanh and linear kernels.  As context length and dimension grow, the efficiency that follows
from the loss is extrapolated over sizes.  It is c/loss - c, with the loss relative to predicting
zero and c = d/N.  It is that of theory for the kernels, for one softmax head (1/e), for two
opposite heads and for three with positive keys.

Source: derived in the theory pages.
"""

from functools import cache
from typing import Any

import numpy as np

from iclimit.asymptotics import softmax
from iclimit.results import Estimate
from iclimit.statement import Derived
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, mean, run
from iclimit.validation.claims.softmax.runs import KERNELS, SIZES, head_loss, simulated_loss

# c = d/N.
RATIO = 0.5
# Prompts at the largest size; as many scores at the others.
CONTEXTS = {"tiny": 1_000, "quick": 5_000, "medium": 20_000, "full": 150_000}
# Kernels that are not normalised, at inverse temperature 1/sqrt(d).
KINDS = ("linear", "ReLU", "tanh")
# A short context with label noise, at which the kernels are compared too.
SHORT: dict[str, Any] = {"context": 5, "dim": 4, "noise_variance": 0.7}
# Prompts for this context.
SHORT_PROMPTS = 30_000
# Softmax heads: inverse temperatures times sqrt(d).
HEADS: dict[str, tuple[float, ...]] = {
    "one head": (1.0,),
    "two heads": (-1.0, 1.0),
    "three heads": (0.3, 0.6, 0.9),
}
# Factor of the sizes: the values of three heads nearly cancel, and the terms in 1/d are large.
LARGER = {"three heads": 4}
# Factor of the prompts: an efficiency of heads should be known to 2 % with every seed.
MORE = {"one head": 2, "two heads": 2}


def one_kernel(kind: str) -> Any:
    """The kernel as a function of one score."""
    return lambda s: float(KERNELS[kind](np.float64(s)))


def size_at(dim: int) -> dict[str, int]:
    """Context length and dimension."""
    return {"context": round(dim / RATIO), "dim": dim}


@cache
def finite(kind: str, dim: int) -> softmax.KernelHead:
    """Best value of a kernel at a size, and its loss."""
    return softmax.optimal_kernel(KERNELS[kind], inverse_temperature=dim**-0.5, **size_at(dim))


@cache
def finite_noisy(kind: str) -> softmax.KernelHead:
    """The same in a short context with label noise, at inverse temperature 1/2."""
    return softmax.optimal_kernel(KERNELS[kind], inverse_temperature=0.5, **SHORT)


def best_values(t: tuple[float, ...], dim: int) -> tuple[float, ...]:
    """Values of softmax heads with the least loss in the limit, from normal equations."""
    scores = np.array(t)
    power = np.outer(scores, scores) + RATIO * np.exp(np.outer(scores, scores))
    return tuple(float(v) for v in dim**0.5 * np.linalg.solve(power, scores))


def efficiency(loss: Estimate, dim: int) -> Estimate:
    """Efficiency that has such a loss in the limit, linearised in the samples about the mean."""
    mean = loss.mean / dim
    slope = -RATIO / mean**2
    return Estimate.of(RATIO / mean - RATIO + slope * (loss.samples / dim - mean))


def rows(effort: Effort) -> Rows:
    """Losses at finite size, and extrapolated efficiencies and losses."""
    sizes = effort.pick(**SIZES)
    prompts = {dim: effort.pick(**CONTEXTS) * sizes[-1] // dim for dim in sizes}
    losses: dict[str, dict[int, Any]] = {}
    for kind in KINDS:
        losses[kind] = {
            dim: simulated_loss(
                dim**-0.5,
                finite(kind, dim).value,
                head="1/sqrt(d), best value",
                kernel=kind,
                **size_at(dim),
                contexts=count,
            )
            for dim, count in prompts.items()
        }
        for dim, loss in losses[kind].items():
            theory = call(finite, kind, dim).loss
            of = "optimal_kernel.loss"
            yield mean(f"{kind} kernel, d={dim}", theory, loss, of=of, draws=(kind, dim))
        best = call(finite_noisy, kind)
        loss = simulated_loss(
            0.5,
            finite_noisy(kind).value,
            head="1/2, best value",
            kernel=kind,
            **SHORT,
            contexts=effort(SHORT_PROMPTS),
        )
        label = f"{kind} kernel, N={SHORT['context']}, d={SHORT['dim']}, noise"
        yield mean(label, best.loss, loss, of="optimal_kernel.loss")
    for name, t in HEADS.items():
        factor = LARGER.get(name, 1)
        losses[name] = {}
        for dim, count in prompts.items():
            larger = factor * dim
            betas = tuple(score * larger**-0.5 for score in t)
            losses[name][larger] = run(
                head_loss,
                inverse_temperatures=Derived(betas, ("over sqrt(d)", t)),
                values=Derived(best_values(t, larger), "best in the limit"),
                contexts=count * MORE.get(name, 1) // factor,
                **size_at(larger),
            )
    for name, runs in losses.items():
        theory = (
            call(softmax.heads_efficiency, HEADS[name])
            if name in HEADS
            else call(softmax.kernel_efficiency, one_kernel(name))
        )
        yield limit(
            {f"efficiency, {name}, d=inf": theory},
            {dim: call(efficiency, loss, dim) for dim, loss in runs.items()},
            draws=("eff", name),
            fit_label=f"fit of {name}",
            name=f"Efficiency, {name}",
        )
        if name in HEADS:
            yield limit(
                {f"loss / d, {name}, d=inf": call(softmax.attention_loss, theory, ratio=RATIO)},
                {dim: loss.scaled(1 / dim) for dim, loss in runs.items()},
                draws=("eff", name),
            )


claim = Claim.of("softmax-kernels", __doc__, rows, figure=False)
