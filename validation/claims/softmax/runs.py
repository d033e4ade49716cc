"""Simulated and trained heads, as cells of several claims."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.problem import parse_problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.prompts import prompt_blocks
from iclimit.simulate.softmax import MergedHeads, simulate_softmax, train_softmax
from iclimit.validation.rows import Later, Row, bound, call

# Kernels of attention by name.
KERNELS: Mapping[str, Any] = {
    "softmax": None,
    "linear": lambda s: s,
    "ReLU": lambda s: np.maximum(s, 0.0),
    "tanh": np.tanh,
}


def head_loss(
    *,
    inverse_temperatures: tuple[float, ...],
    values: tuple[float, ...],
    contexts: int,
    rng: Any,
    kernel: str = "softmax",
    **setting: Any,
) -> Estimate:
    """Simulated loss of heads at given temperatures and values."""
    heads = simulate_softmax(
        inverse_temperatures, score_function=KERNELS[kernel], contexts=contexts, rng=rng, **setting
    )
    return heads.loss(values)


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


def trained_heads(
    *,
    best: tuple[float, float],
    held_out: int,
    heads: int,
    rng: Any,
    batch: int = 2048,
    **problem: Any,
) -> TrainedHeads:
    """Train heads and test them beside the best head, or the best opposite pair.

    ``best`` is its inverse temperature and value.  The signs of keys and values are those of the
    trained heads; the best pair is taken for more than two.
    """
    train_seed, fresh_seed = seed_sequences(rng, 2)
    law, few = parse_problem(None, problem), min(heads, 2)
    run = train_softmax(law, heads=heads, batch=batch, held_out=2, rng=train_seed)
    trained = run.network.nearest_isotropic(run.weights)
    signs = np.sign(trained.value) if heads == 1 else np.array([1.0, -1.0])
    reference = MergedHeads(law.dim, few)
    weights = reference.isotropic(signs * best[0], signs * best[1])
    ours, theirs = [], []
    for drawn in prompt_blocks(law, held_out, rng=fresh_seed):
        answers = run(drawn.inputs, drawn.labels, drawn.query)
        ours.append((answers - drawn.target) ** 2)
        theirs.append((reference.forward(weights, drawn)[0] - drawn.target) ** 2)
    own, other = np.concatenate(ours), np.concatenate(theirs)
    ratio = own.mean() / other.mean()
    spread = (own - ratio * other) / other.mean()
    return TrainedHeads(
        trained.inverse_temperature,
        trained.value,
        float(np.max(trained.lookup_rest)),
        Estimate.of(own, keep=False),
        Estimate(ratio, float(spread.std() / len(spread) ** 0.5), len(spread)),
        run.steps,
    )


def trained_rows(where: str, trained: Later, heads: int, excess: float) -> Iterator[Row]:
    """Loss of trained heads, over the least one, against what training may leave.

    One head, or two, cannot be better than the best; more heads can.
    """
    label = f"loss of the trained heads over the least one, {where}"
    yield bound(label, 1 + excess, trained.ratio)
    if heads <= 2:
        yield bound(f"minus the {label}", -1.0, call(scaled, trained.ratio, -1.0))


def scaled(estimate: Estimate, factor: float) -> Estimate:
    """A multiple of an estimate."""
    error = abs(factor) * estimate.standard_error
    return Estimate(factor * estimate.mean, error, estimate.repeats, factor * estimate.samples)


def relative_size(number: float, reference: float) -> float:
    """Size of a number over that of another."""
    return abs(number) / abs(reference)
