r"""Gradient descent of one linear attention layer, many runs at a time.

A full-batch step needs the moments of the training set only, whatever its size
(`iclimit.simulate.dynamics.feature_moments`); minibatches need the sequences.  The step is
:math:`W \leftarrow W - \eta\, \partial L / \partial W` with the mean squared error L, so that s
steps correspond to the time :math:`2 \eta s` of the flow
:math:`\dot W = -\frac12\, \partial L / \partial W`.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from iclimit.simulate.arrays import Array, Backend, get_backend, seed_sequences, to_host
from iclimit.simulate.blocks import looks_every
from iclimit.simulate.checkpoints import check_checkpoint, load_checkpoint, save_checkpoint
from iclimit.simulate.checks import check_choice, check_integers, check_positive
from iclimit.simulate.descent.constructions import NORMALIZATIONS
from iclimit.simulate.dynamics.attention_models import AttentionModel, MomentLoss, SequenceLoss
from iclimit.simulate.dynamics.feature_moments import (
    population_moments,
    sequence_moments,
    stack_moments,
)
from iclimit.simulate.dynamics.task_mixture import TaskMixture
from iclimit.simulate.pretraining.prompts import Prompts

UNSTABLE = 1e6
"""A loss so many times the one at zero weights has left every basin; a single sequence with few
pairs can be a thousand times worse than the mean."""

UNSETTLED = 50.0
"""So many times the loss is what the gradients of a run that does not settle would take off it.

A step of length eta along the gradient g takes eta |g|^2 off the loss, up to the curvature c, with
which it is eta |g|^2 (1 - eta c / 2).  In an eighth of a run steps of up to 1 / c therefore add up
to twice the loss at most, and half a run at their median to 16 times the loss.
Swings that never end were seen at 240 and more in 1000 steps, some that recover at up to 61."""

SHRUNK = 0.9
"""Squared gradients of swings that still shrink fall to less than so much from each eighth of the
run to the next; at the edge of stability, where they shrink slowest, as 1 / t: last to 13/15."""

LEAST_RECORDS = 20
"""With fewer records a run is not asked whether it has settled."""

CHECKPOINT_SECONDS = 10.0
"""Seconds between checkpoints."""


@dataclass(frozen=True, eq=False)
class TrainingCurves:
    """Losses along gradient descent.

    Attributes
    ----------
    steps : ndarray (n,)
        Numbers of steps taken before each record.
    losses : ndarray (repeats, n)
        Training losses; with minibatches those of the batches.
    tests : dict
        Losses (repeats, n) on the laws "icl" (random tasks only) and "iwl" (the shared task, noise
        as labels in the context), by exact moments; empty unless asked for.
    weights : list of ndarray (repeats, ...)
        Weights after the last step, see `iclimit.simulate.dynamics.attention_models`.
    interrupted : bool
        Whether Ctrl-C ended the training.
    parameters : dict
        The settings.
    """

    steps: np.ndarray
    losses: np.ndarray
    tests: dict[str, np.ndarray]
    weights: list[np.ndarray]
    interrupted: bool
    parameters: dict[str, Any] = field(repr=False)

    @property
    def times(self) -> np.ndarray:
        """Times of the records in units of the time constant of the flow.

        That of the flow with the same ``normalization``.
        """
        return 2 * self.parameters["learning_rate"] * self.steps


class UnstableTraining(ArithmeticError):
    """The loss left every bound, or stays above its limit; ``curves`` holds what was recorded."""

    def __init__(self, message: str, curves: TrainingCurves) -> None:
        super().__init__(message)
        self.curves = curves


def simulate_gradient_descent(
    problem: TaskMixture,
    *,
    model: str = "merged",
    heads: int = 8,
    rank: int = 1,
    init_scale: float = 0.01,
    initialization: str = "per-head",
    training_set: float = 5000,
    standardize: bool = True,
    batch: int | None = None,
    learning_rate: float = 0.001,
    steps: int = 6000,
    record: int = 10,
    normalization: str = "mean",
    tests: bool = False,
    repeats: int = 1,
    rng: Any,
    backend: str = "numpy",
    checkpoint: str | os.PathLike | None = None,
    progress: bool = False,
) -> TrainingCurves:
    r"""Train one linear attention layer by gradient descent from small random weights.

    Parameters
    ----------
    problem : TaskMixture
        Law of the sequences.
    model : {"merged", "separate", "cubic"}
        Merged key and query weights, separate ones, or a two-layer linear network on cubic
        features; see `iclimit.simulate.dynamics.attention_models`.
    heads : int >= 1
        Heads, or hidden units of "cubic".
    rank : int from 1 to the dimension
        Rows of the key and query weights of "separate".
    init_scale : float > 0
        Scale of the initial weights.
    initialization : {"per-head", "per-layer"}
        What ``init_scale`` is divided by for "separate", see
        `iclimit.simulate.dynamics.attention_models.AttentionModel.random_weights`.
    training_set : int >= 1 or inf
        Number of training sequences; ``inf`` for their law.  With random tasks only it must
        exceed the dimension if it is standardised, else hold both kinds.
    standardize : bool
        Whether the training set is standardised as by the published script: inputs get mean zero
        over the sequences and, with random tasks only, tasks get mean zero and covariance I.
    batch : int >= 1, optional
        Sequences drawn for every step, with replacement; all by default, through their moments.
    learning_rate : float > 0
        Step length :math:`\eta`.
    steps : int >= 1
        Number of steps.
    record : int from 1 to steps
        Steps between records of the loss, the first before the first step.
    normalization : {"mean", "sum"}
        Whether the attention scores are divided by N.  The published training script does not.
    tests : bool
        Record the losses on sequences with random tasks, and with the shared task if there is one.
    repeats : int >= 1
        Independent runs, each with its own training set and initial weights.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.  Data and
        weights have seeds of their own: other models see the same data.
    backend : {"numpy", "cupy"}
        Where to compute.
    checkpoint : path, optional
        File that the training is saved to every ten seconds and at its end, and continued from
        where it exists: to the same bits.  More ``steps`` than before extend a training.
    progress : bool
        Show a progress bar.

    Returns
    -------
    TrainingCurves
        What Ctrl-C leaves is returned too, marked as interrupted.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the checkpoint is of another training or after
        the last step.
    OSError
        If the checkpoint cannot be written.
    TypeError
        If problem is of another kind.
    RuntimeError
        If the backend is not available.
    UnstableTraining
        An ArithmeticError: the learning rate is too large, or the initial weights are.  It names
        the step, and its attribute ``curves`` holds what was recorded.  See the notes.

    Notes
    -----
    A training is unstable if the loss exceeds a million times the one at zero weights, at any
    step, or if it ends without having settled: weights that jump to and fro across a valley keep
    a bounded loss for ever.  Gradients tell them from weights at rest.  A run of s steps has not
    settled if :math:`\frac{s}{2} \eta |\partial L / \partial W|^2`, with the median over the
    records of the last eighth, exceeds 50 times the largest loss recorded in the second half.  No
    descent at rates of up to half of the largest stable one comes above 16 times.  Swings that
    recover do not count unless they last to the end (and then more ``steps`` of the ``checkpoint``
    can tell), nor do those that still shrink, as they do at rates just below the edge: where these
    medians fall by a tenth or more from each eighth of the run to the next, since half way.  The
    step that is named is the first record after which the loss never left the range that it has in
    the second half.  With minibatches, whose gradients do not vanish, with fewer than 20 records
    and after Ctrl-C a run is not asked; swings of less than some 25 / s of the loss pass.

    Examples
    --------
    >>> from iclimit.simulate.dynamics import TaskMixture, simulate_gradient_descent
    >>> problem = TaskMixture([0.5, 0.5], context=15)
    >>> run = simulate_gradient_descent(
    ...     problem, training_set=1000, learning_rate=0.05, steps=1000, repeats=3, rng=0
    ... )
    >>> run.losses.shape, bool(run.losses[:, -1].max() < 0.3)
    ((3, 101), True)
    """
    if not isinstance(problem, TaskMixture):
        raise TypeError(f"problem must be a TaskMixture, got {problem!r}")
    layer = AttentionModel(model, problem.dim, heads, rank)
    if training_set != math.inf:
        check_integers(training_set=training_set)
    check_integers(steps=steps, record=record, repeats=repeats)
    if record > steps:
        raise ValueError(f"record must be at most steps = {steps!r}, got {record!r}")
    check_positive(init_scale=init_scale, learning_rate=learning_rate)
    check_choice("normalization", normalization, NORMALIZATIONS)
    if batch is not None:
        check_integers(batch=batch)
        if batch > training_set or training_set == math.inf:
            raise ValueError(
                f"batch must be at most a finite training_set, got {batch!r} of {training_set!r}"
            )
    place = get_backend(backend)
    seeds = [seed_sequences(seed, 3) for seed in seed_sequences(rng, repeats)]
    settings = {
        "input_covariance": problem.input_covariance.tolist(),
        "context": problem.context,
        "noise_variance": problem.noise_variance,
        "fresh_fraction": problem.fresh_fraction,
        "shared_task": None if problem.shared_task is None else problem.shared_task.tolist(),
        "model": model,
        "heads": heads,
        "rank": rank,
        "init_scale": init_scale,
        "initialization": initialization,
        "training_set": training_set,
        "standardize": standardize,
        "batch": batch,
        "learning_rate": learning_rate,
        "record": record,
        "normalization": normalization,
        "tests": tests,
        "repeats": repeats,
        "backend": backend,
        "seed": [str(seeds[0][0].entropy), list(seeds[0][0].spawn_key[:-2])],
    }
    weights = [
        layer.random_weights(np.random.default_rng(seed), init_scale, initialization)
        for _, seed, _ in seeds
    ]
    state = _State(0, [place.asarray(np.stack(each)) for each in zip(*weights, strict=True)])
    path = None if checkpoint is None else Path(checkpoint)
    if path is not None:
        check_checkpoint(path)
        if path.exists():
            state = _load(path, settings, place)
    if state.step > steps:
        raise ValueError(f"steps must be at least those of {path}, {state.step}, got {steps!r}")
    sequences = (
        problem.training_set(place, place.generator(seed), int(training_set), standardize)
        for seed, _, _ in (seeds if training_set < math.inf else [])
    )
    training = _training_loss(place, layer, problem, sequences, seeds, batch, normalization)
    laws = _test_losses(place, layer, problem, normalization) if tests else {}
    bound = UNSTABLE * problem.label_square
    double_rate = 2 * float(learning_rate)
    interrupted, stable, saved = False, True, time.monotonic()
    bar = tqdm(total=steps, initial=state.step, disable=not progress, unit="step", desc="training")
    try:
        while True:
            with np.errstate(over="ignore", invalid="ignore"):
                losses, halves = training(state.step, state.weights)
            ends, due = state.step >= steps, state.step % record == 0
            if ends or due or state.step % looks_every(place.xp) == 0:
                stable = bool(place.xp.all(losses <= bound))
            if not stable:
                break
            if due and state.step > state.recorded:
                squares = _squared_norm(place, halves)
                found = [losses, squares, *(law(state.weights)[0] for law in laws.values())]
                state.records.append((state.step, [to_host(each) for each in found]))
            if ends:
                break
            state = _State(
                state.step + 1,
                [
                    old - double_rate * half
                    for old, half in zip(state.weights, halves, strict=True)
                ],
                state.records,
            )
            bar.update()
            if path is not None and time.monotonic() - saved > CHECKPOINT_SECONDS:
                _save(path, settings, state)
                saved = time.monotonic()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        bar.close()
    if path is not None and stable:
        _save(path, settings, state)
    records = np.array([found for _, found in state.records]).reshape(-1, 2 + len(laws), repeats)
    curves = TrainingCurves(
        np.array([step for step, _ in state.records], dtype=int),
        records[:, 0].T,
        {name: records[:, 2 + i].T for i, name in enumerate(laws)},
        [to_host(each) for each in state.weights],
        interrupted,
        {**settings, "problem": problem, "steps": steps},
    )
    if not stable:
        last = to_host(losses)
        worst = int(np.argmax(~(last <= bound)))
        cause = f"{learning_rate = !r}" if state.step else f"{init_scale = !r}"
        raise UnstableTraining(
            f"{cause} is too large: the loss of repeat {worst} is {last[worst]:.3g} after "
            f"{state.step} steps",
            curves,
        )
    if batch is None and not interrupted:
        falls = 2 * double_rate * records[:, 1].T
        for repeat, (along, fall) in enumerate(zip(curves.losses, falls, strict=True)):
            since = _unsettled(curves.steps, along, fall, steps, problem.label_square)
            if since is not None:
                late = along[curves.steps >= since]
                raise UnstableTraining(
                    f"{learning_rate = !r} is too large: the loss of repeat {repeat} stays "
                    f"between {late.min():.3g} and {late.max():.3g} from {since} to {steps} "
                    "steps, though its gradient does not vanish",
                    curves,
                )
    return curves


def _squared_norm(place: Backend, arrays: list[Array]) -> Array:
    """Sums of the squares of all entries, shape (repeats,)."""
    xp = place.xp
    return sum(xp.sum(xp.reshape(each * each, (each.shape[0], -1)), axis=1) for each in arrays)


def _unsettled(
    at: np.ndarray, losses: np.ndarray, falls: np.ndarray, steps: int, label_square: float
) -> int | None:
    """First record after which a run only swings; None if it has settled.

    ``falls`` are what a step takes off the loss to first order.
    """
    half = len(at) // 2
    if len(at) < LEAST_RECORDS:
        return None
    medians = np.array([np.median(part) for part in np.array_split(falls[half:], 4)])
    low, high = losses[half:].min(), losses[half:].max()
    # Losses that go to zero end in rounding, of either sign.
    largest = max(high, 1e-6 * label_square)
    shrinking = np.all(medians[1:] < SHRUNK * medians[:-1])
    if steps / 2 * medians[-1] <= UNSETTLED * largest or shrinking:
        return None
    margin = 0.01 * largest
    outside = np.flatnonzero((losses < low - margin) | (losses > high + margin))
    return int(at[outside[-1] + 1]) if len(outside) else int(at[0])


@dataclass(frozen=True)
class _State:
    """Where a training stands."""

    step: int
    weights: list[Array]
    records: list[tuple[int, list[np.ndarray]]] = field(default_factory=list)

    @property
    def recorded(self) -> int:
        """Last recorded step."""
        return self.records[-1][0] if self.records else -1


def _training_loss(
    place: Backend,
    layer: AttentionModel,
    problem: TaskMixture,
    sets: Iterable[Prompts],
    seeds: list[list[np.random.SeedSequence]],
    batch: int | None,
    normalization: str,
) -> Callable[[int, list[Array]], tuple[Array, list[Array]]]:
    """Losses and halves of the gradients by step and weights; no sets stand for the law."""
    if batch is not None:
        by_sequences = SequenceLoss(layer, list(sets), normalization)
        count = by_sequences.label.shape[1]

        def on_batch(step: int, weights: list[Array]) -> tuple[Array, list[Array]]:
            drawn = [
                np.random.default_rng([*seed.generate_state(4), step]).integers(count, size=batch)
                for _, _, seed in seeds
            ]
            return by_sequences(weights, place.asarray(np.stack(drawn)))

        return on_batch
    found = [sequence_moments(each, normalization=normalization) for each in sets]
    law = [] if found else [population_moments(problem, normalization=normalization)]
    by_moments = MomentLoss(layer, stack_moments(place, found or law))
    return lambda _, weights: by_moments(weights)


def _test_losses(
    place: Backend, layer: AttentionModel, problem: TaskMixture, normalization: str
) -> dict[str, MomentLoss]:
    """Losses on random tasks, and on the shared one with noise for the labels in the context."""
    laws = {"icl": (replace(problem, fresh_fraction=1.0, shared_task=None), False)}
    if problem.shared_task is not None:
        laws["iwl"] = (replace(problem, fresh_fraction=0.0), True)
    return {
        name: MomentLoss(
            layer,
            stack_moments(
                place, [population_moments(law, normalization=normalization, noise_labels=noise)]
            ),
        )
        for name, (law, noise) in laws.items()
    }


def _save(path: Path, settings: dict[str, Any], state: _State) -> None:
    arrays = {f"weights{i}": to_host(each) for i, each in enumerate(state.weights)}
    save_checkpoint(
        path,
        settings,
        {"step": state.step, "steps": [step for step, _ in state.records]},
        losses=np.array([found for _, found in state.records]),
        **arrays,
    )


def _load(path: Path, settings: dict[str, Any], place: Backend) -> _State:
    record, arrays = load_checkpoint(path, settings)
    losses = arrays.pop("losses")
    return _State(
        record["step"],
        [place.asarray(arrays[f"weights{i}"]) for i in range(len(arrays))],
        [(step, list(found)) for step, found in zip(record["steps"], losses, strict=True)],
    )
