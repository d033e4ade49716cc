"""Prompts with one thing changed: the order of the pairs, the labels, one coordinate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iclimit.simulate.probing.problem import DrawnPrompts, Problem


def round_to_float32(drawn: DrawnPrompts) -> DrawnPrompts:
    """What a model sees, rounded to float32."""
    seen = {name: getattr(drawn, name) for name in ("inputs", "labels", "query")}
    return replace(drawn, **{name: v.astype("f4").astype(float) for name, v in seen.items()})


def permute_pairs(
    drawn: DrawnPrompts, block: int, *, seed: np.random.SeedSequence
) -> DrawnPrompts:
    """Prompts with their pairs in a random order."""
    # Row by row, so that the first prompts of a longer run are those of a shorter one.
    keys = _generator(seed, block).random(drawn.labels.shape)
    order = np.argsort(keys, axis=1)
    inputs = np.take_along_axis(drawn.inputs, order[:, :, None], axis=1)
    return replace(drawn, inputs=inputs, labels=np.take_along_axis(drawn.labels, order, axis=1))


def add_other_labels(
    drawn: DrawnPrompts,
    block: int,
    *,
    problem: Problem,
    seed: np.random.SeedSequence,
    factors: tuple[int, int],
) -> DrawnPrompts:
    """Prompts with a sum of their labels and those of another task on the same inputs.

    The noise variance stays that of the prompt: an algorithm that is told it uses the same one for
    all labels.
    """
    other = problem.sample(len(drawn), rng=_child(seed, block))
    noise = other.labels - _values(other.inputs, other.tasks)
    labels = _values(drawn.inputs, other.tasks) + noise
    own, new = factors
    return replace(
        drawn,
        labels=own * drawn.labels + new * labels,
        tasks=own * drawn.tasks + new * other.tasks,
    )


def _values(inputs: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    return (inputs @ tasks[:, :, None])[:, :, 0]


def move_one(drawn: DrawnPrompts, moved: np.ndarray, *, what: str, step: float) -> DrawnPrompts:
    """Prompts with a step in one coordinate of the query, or in one label, of each."""
    values = np.array(getattr(drawn, what))
    values[np.arange(len(values)), moved] += step
    return replace(drawn, **{what: values})


def _child(seed: np.random.SeedSequence, block: int) -> np.random.SeedSequence:
    """Seed of a block."""
    return np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, block))


def _generator(seed: np.random.SeedSequence, block: int) -> np.random.Generator:
    return np.random.default_rng(_child(seed, block))
