"""Simulated and trained heads, as cells of several claims."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.softmax import SoftmaxHead
from iclimit.comparison import ratio
from iclimit.problem import parse_problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.prompts import prompt_blocks
from iclimit.simulate.softmax import MergedHeads, simulate_softmax, train_softmax
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Effort, Later, Row, bound, call, note, run
from iclimit.validation.claims.starts import describe_starts

# Kernels of attention by name.
KERNELS: Mapping[str, Any] = {
    "softmax": None,
    "linear": lambda s: s,
    "ReLU": lambda s: np.maximum(s, 0.0),
    "tanh": np.tanh,
}
# Dimensions from which limits are extrapolated.
SIZES = {
    "tiny": (8, 16, 32, 64),
    "quick": (16, 32, 64, 128),
    "medium": (16, 32, 64, 128, 256),
    "full": (16, 32, 64, 128, 256, 512),
}
# Prompts that trained heads are tested on.
HELD_OUT = {"quick": 50_000, "medium": 200_000, "full": 500_000}
# Most that training may leave of the loss of the best heads.  Measured: 0.02 to 0.1 % for one
# head; for two .03 % at N = 6, d = 4, and 0.5 % at N = d = 10, where the loss hardly depends on
# the temperature.
EXCESS = 0.01


@named_cell("head_loss")
def head_loss(
    *,
    inverse_temperatures: tuple[float, ...],
    values: tuple[float, ...],
    contexts: int,
    rng: SeedSequence,
    kernel: str = "softmax",
    **setting: Any,
) -> Estimate:
    """Simulated loss of heads at given temperatures and values."""
    heads = simulate_softmax(
        inverse_temperatures, score_function=KERNELS[kernel], contexts=contexts, rng=rng, **setting
    )
    return heads.loss(values)


def simulated_loss(
    beta: float, value: float, *, heads: int = 1, head: str = "", **setting: Any
) -> Later:
    """Run of `head_loss` of one head, or of a pair with opposite keys and values.

    Where theory computes the inverse temperature or the value, ``head`` says what both are.
    """
    signs = (1, -1)[:heads]
    inverse_temperatures: Any = tuple(sign * float(beta) for sign in signs)
    values: Any = tuple(sign * float(value) for sign in signs)
    if head:
        words = (head, f"minus {head}")[:heads]
        inverse_temperatures = Derived(inverse_temperatures, words)
        values = Derived(values, words)
    return run(head_loss, inverse_temperatures=inverse_temperatures, values=values, **setting)


@dataclass(frozen=True)
class TrainedHeads:
    """Trained heads beside heads that theory says are best.

    Attributes
    ----------
    inverse_temperature, value : ndarray (heads,)
        Of the trained heads.
    rest : float
        Root mean square of what else is in their key-query matrices.
    loss : Estimate
        Their loss.
    ratio : Estimate
        Their loss over that of the best heads, on the same prompts.
    steps : int
        Of the training.
    """

    inverse_temperature: np.ndarray
    value: np.ndarray
    rest: float
    loss: Estimate
    ratio: Estimate
    steps: int


@named_cell("trained_heads")
def trained_heads(
    *,
    best: tuple[float, float],
    held_out: int,
    heads: int,
    rng: SeedSequence,
    batch: int = 2048,
    start: int = 0,  # noqa: ARG001 - another start is another cell, with another seed
    **problem: Any,
) -> TrainedHeads:
    """Train heads and test them beside the best head, or the best opposite pair.

    ``best`` is its inverse temperature and value.  The signs of keys and values are those of the
    trained heads; the best pair is taken for more than two.
    """
    train_seed, fresh_seed = seed_sequences(rng, 2)
    law = parse_problem(None, **problem)
    few = min(heads, 2)
    training = train_softmax(law, heads=heads, batch=batch, held_out=2, rng=train_seed)
    trained = training.network.nearest_isotropic(training.weights)
    signs = np.sign(trained.value) if heads == 1 else np.array([1.0, -1.0])
    reference = MergedHeads(law.dim, few)
    weights = reference.isotropic(signs * best[0], signs * best[1])
    ours = []
    theirs = []
    for drawn in prompt_blocks(law, held_out, rng=fresh_seed):
        answers = training(drawn.inputs, drawn.labels, drawn.query)
        ours.append((answers - drawn.target) ** 2)
        theirs.append((reference.forward(weights, drawn)[0] - drawn.target) ** 2)
    own = Estimate.of(np.concatenate(ours))
    other = Estimate.of(np.concatenate(theirs))
    return TrainedHeads(
        trained.inverse_temperature,
        trained.value,
        float(np.max(trained.lookup_rest)),
        replace(own, samples=np.empty(0)),
        ratio(own, other),
        training.steps,
    )


def trained_rows(
    effort: Effort, where: str, best: SoftmaxHead, *, heads: int, starts: int, **setting: Any
) -> tuple[Later, list[Row]]:
    """Train heads; return those that arrive, and rows of their loss over that of the best.

    A start arrives if its loss is within `EXCESS`.  The least loss of the starts is judged: one
    head, or two, cannot be better than the best; more heads can.
    """
    trained = [
        run(
            trained_heads,
            best=Derived((float(best.inverse_temperature), float(best.value)), "best"),
            heads=heads,
            held_out=effort.pick(**HELD_OUT),
            start=start,
            **setting,
        )
        for start in range(starts)
    ]
    good = call(arrived_heads, trained)
    label = f"loss of the trained heads over the least one, {where}"
    rows = [bound(label, 1 + EXCESS, good[0].ratio)]
    if heads <= 2:
        rows.append(bound(f"minus the {label}", -1.0, good[0].ratio.scaled(-1.0)))
    if starts > 1:
        rows.append(note(call(describe_heads, where, trained)))
    return good, rows


def arrived_heads(trained: Sequence[TrainedHeads]) -> list[TrainedHeads]:
    """Heads of the starts that arrive, the best first; the best alone if none does."""
    ordered = sorted(trained, key=lambda heads: heads.ratio.mean)
    count = sum(heads.ratio.mean <= 1 + EXCESS for heads in trained)
    return ordered[: max(count, 1)]


def describe_heads(where: str, trained: Sequence[TrainedHeads]) -> str:
    """How many starts arrive, in words."""
    ratios = np.array([heads.ratio.mean for heads in trained])
    return describe_starts(where, ratios, ratios <= 1 + EXCESS, best=1.0)
