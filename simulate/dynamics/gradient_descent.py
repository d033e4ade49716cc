r"""Gradient descent of one linear attention layer, many runs at a time.

A full-batch step needs the moments of the training set only, whatever its size
(`iclimit.simulate.dynamics.feature_moments`); minibatches need the sequences.  The step is
:math:`W \leftarrow W - \eta\, \partial L / \partial W` with the mean squared error L, so that s
steps correspond to the time :math:`2 \eta s` of the flow
:math:`\dot W = -\frac12\, \partial L / \partial W`.
"""

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import by_name, check_arguments, check_choice, given
from iclimit.problem import Problem
from iclimit.results import Ending
from iclimit.simulate.arrays import Array, Backend, Seed, get_backend, seed_sequences
from iclimit.simulate.descent.constructions import NORMALIZATIONS
from iclimit.simulate.dynamics.attention_models import AttentionModel, MomentLoss, SequenceLoss
from iclimit.simulate.dynamics.feature_moments import (
    check_sequences,
    population_moments,
    sequence_moments,
    stack_moments,
)
from iclimit.simulate.models.moments import FeatureMoments
from iclimit.simulate.prompts.sampling import Prompts
from iclimit.simulate.prompts.training_sets import draw_training_set
from iclimit.simulate.training.checkpoints import identify
from iclimit.simulate.training.loop import Objective, State, TrainingLoop, UnstableTraining
from iclimit.simulate.training.results import TrainingCurves, curves_of
from iclimit.simulate.training.rules import GradientDescent
from iclimit.simulate.training.stability import UNSTABLE, unsettled_since
from iclimit.statement import named_cell


@named_cell("simulate_gradient_descent")
def simulate_gradient_descent(
    problem: Problem,
    *,
    model: str = "merged",
    heads: int = 8,
    rank: int = 1,
    init_scale: float = 0.01,
    initialization: str = "per-head",
    training_set: int | float = 5000,
    standardize: bool = True,
    batch: int | None = None,
    learning_rate: float = 0.001,
    steps: int = 6000,
    record: int = 10,
    normalization: str = "mean",
    tests: bool = False,
    repeats: int = 1,
    rng: Seed,
    backend: str = "numpy",
    checkpoint: str | os.PathLike | None = None,
    progress: bool = False,
) -> TrainingCurves:
    r"""Train one linear attention layer by gradient descent from small random weights.

    Parameters
    ----------
    problem : Problem
        Law of the sequences.
    model : {"merged", "separate", "cubic"}
        Merged key and query weights, separate ones, or a two-layer linear network on cubic
        features; see `iclimit.simulate.dynamics.attention_models`.
    heads : int >= 1
        Heads, or hidden units of "cubic".
    rank : int from 1 to the dimension
        Rows of the key and query weights of "separate".
    init_scale : float > 0
        Standard deviation of the initial weights; of keys and queries of "separate" times
        ``1 / sqrt(R (D + 1))``.
    initialization : {"per-head", "per-layer"}
        For "separate": ``init_scale`` as it is, or over the root of the number of weights in the
        layer; see `iclimit.simulate.dynamics.attention_models.AttentionModel.random_weights`.
    training_set : int >= 1 or inf
        Number of training sequences; ``inf`` for their law.  A standardised set of random tasks
        must be larger than the dimension.  A set of random and shared tasks must hold both kinds.
    standardize : bool
        Whether the training set is standardised as by the published script.  Inputs get mean zero
        over the sequences.  If all tasks are random, these get mean zero and covariance I.
    batch : int >= 1, optional
        Sequences drawn for every step, with replacement; all by default, through their moments.
    learning_rate : float > 0
        Step length :math:`\eta`.
    steps : int >= 1
        Number of steps.
    record : int >= 1
        Steps between records of the loss, the first before the first step; the last step has one
        too.
    normalization : {"mean", "sum"}
        Whether the attention scores are divided by N.  The published training script does not.
    tests : bool
        Record the losses on fresh sequences of random tasks, and of the shared task if any.
    repeats : int >= 1
        Independent runs, each with its own training set and initial weights.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.  Data and
        weights have seeds of their own, so that other models see the same data.
    backend : {"numpy", "cupy"}
        Where to compute.
    checkpoint : path, optional
        File to which the training is saved every ten seconds and at its end.  If it exists, the
        training goes on from it, to the same bits.  More ``steps`` than before extend a training.
    progress : bool
        Show a progress bar.

    Returns
    -------
    TrainingCurves
        After Ctrl-C what there is by then, marked as interrupted.

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
        An ArithmeticError: the learning rate or the initial weights are too large.  It names the
        step, and its attribute ``curves`` holds what was recorded.  See the notes.

    Notes
    -----
    A training is unstable if the loss exceeds a million times the one at zero weights at any step,
    or if it ends without having settled, as weights can jump to and fro across a valley for ever.
    A run of s steps has not settled if :math:`\frac{s}{2} \eta |\partial L / \partial W|^2`, with
    the median over the records of the last eighth, exceeds 50 times the largest loss recorded in
    the second half.  Descent at rates of up to half of the largest stable one stays below 16 times
    (`iclimit.simulate.training.stability`).

    Oscillations that recover before the end do not count; more ``steps`` of the ``checkpoint`` can
    tell them from others.  Neither do oscillations that still shrink, as at rates just below the
    edge of stability: for them the median falls by a tenth or more from each eighth of the run to
    the next, since half way.  The error names the first record after which the loss never left the
    range that it has in the second half.

    Runs with minibatches, whose gradients do not vanish, with fewer than 20 records, or ended by
    Ctrl-C are not tested for this.  Oscillations smaller than about 25/s of the loss are not
    detected.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.simulate.dynamics import simulate_gradient_descent
    >>> problem = iclimit.Problem(dim=2, context=15)
    >>> run = simulate_gradient_descent(
    ...     problem, training_set=1000, learning_rate=0.05, steps=1000, repeats=3, rng=0
    ... )
    >>> run.losses.shape, bool(run.losses[:, -1].max() < 0.3)
    ((3, 101), True)
    """
    check_sequences(problem)
    layer = AttentionModel(model, problem.dim, heads, rank)
    check_arguments(
        steps=steps,
        training_set=training_set,
        record=record,
        repeats=repeats,
        init_scale=init_scale,
        learning_rate=learning_rate,
        **given({"batch": batch}),
    )
    check_choice("normalization", normalization, NORMALIZATIONS)
    _check_batch(batch, training_set)
    device = get_backend(backend)
    seeds = _seeds(rng, repeats)
    settings = by_name(
        model=model,
        heads=heads,
        rank=rank,
        init_scale=init_scale,
        initialization=initialization,
        training_set=training_set,
        standardize=standardize,
        batch=batch,
        learning_rate=learning_rate,
        record=record,
        normalization=normalization,
        tests=tests,
        repeats=repeats,
        backend=backend,
        problem=identify(problem),
        seed=[str(seeds[0][0].entropy), list(seeds[0][0].spawn_key[:-2])],
    )
    loop = TrainingLoop(
        State(_random_weights(layer, device, seeds, init_scale, initialization)),
        steps=steps,
        record=record,
        bound=UNSTABLE * problem.label_square,
        checkpoint=checkpoint,
        settings=settings,
        backend=device,
        progress=progress,
    )

    tested = _test_moments(problem, normalization) if tests else {}
    laws = {
        name: MomentLoss(layer, stack_moments(device, [moments]))
        for name, moments in tested.items()
    }

    def measure(weights: list[Array], halves: list[Array]) -> dict[str, Array]:
        measured = {"square": _squared_norm(halves)}
        return measured | {name: loss(weights)[0] for name, loss in laws.items()}

    curves = partial(
        curves_of,
        loop,
        time_step=2 * learning_rate,
        measures=tuple(laws),
        parameters={**settings, "problem": problem, "steps": steps},
    )

    try:
        with loop:
            training_loss = _training_loss(
                problem, layer, device, seeds, training_set, standardize, batch, normalization
            )
            loop.descend(training_loss, GradientDescent(2 * learning_rate), measure)
    except UnstableTraining as error:
        error.curves = curves()
        raise
    run = curves()
    if batch is None and not run.interrupted:
        _refuse_unsettled(run, learning_rate, loop.column("square"), problem.label_square)
    return run


def training_sets(
    problem: Problem,
    *,
    training_set: int,
    standardize: bool = True,
    repeats: int = 1,
    rng: Seed,
    backend: str = "numpy",
) -> Iterator[Prompts]:
    """Training sets of `simulate_gradient_descent` with these arguments, one for each repeat.

    Arrays are those of the backend, whose random numbers the training draws from.
    """
    device = get_backend(backend)
    return _draw_sets(problem, device, _seeds(rng, repeats), training_set, standardize)


def _seeds(rng: Seed, repeats: int) -> list[list[np.random.SeedSequence]]:
    """Seeds of the training set, the weights and the batches of every repeat."""
    return [seed_sequences(seed, 3) for seed in seed_sequences(rng, repeats)]


def _draw_sets(
    problem: Problem,
    device: Backend,
    seeds: list[list[np.random.SeedSequence]],
    count: int,
    standardize: bool,
) -> Iterator[Prompts]:
    """Training sets of so many sequences, one for each repeat."""
    for seed, _, _ in seeds:
        generator = device.generator(seed)
        yield draw_training_set(problem, device, generator, count, standardize=standardize)


def _random_weights(
    layer: AttentionModel,
    device: Backend,
    seeds: list[list[np.random.SeedSequence]],
    init_scale: float,
    initialization: str,
) -> list[Array]:
    """Weights (repeats, ...) at the start, on a device."""
    drawn = [
        layer.random_weights(np.random.default_rng(seed), init_scale, initialization)
        for _, seed, _ in seeds
    ]
    return [device.asarray(np.stack(matrices)) for matrices in zip(*drawn, strict=True)]


def _check_batch(batch: int | None, training_set: int | float) -> None:
    """Raise a ValueError unless a batch is part of a finite training set."""
    if batch is not None and (batch > training_set or training_set == math.inf):
        raise ValueError(
            f"batch must be at most a finite training_set, got {batch!r} of {training_set!r}"
        )


def _training_loss(
    problem: Problem,
    layer: AttentionModel,
    device: Backend,
    seeds: list[list[np.random.SeedSequence]],
    training_set: int | float,
    standardize: bool,
    batch: int | None,
    normalization: str,
) -> Objective:
    """Losses (repeats,) and halves of the gradients at a step."""
    if training_set == math.inf:
        moments = [population_moments(problem, normalization=normalization)]
        by_law = MomentLoss(layer, stack_moments(device, moments))
        return lambda _, weights: by_law(weights)
    sets = _draw_sets(problem, device, seeds, int(training_set), standardize)
    if batch is not None:
        loss = SequenceLoss(layer, list(sets), normalization)
        words = [seed.generate_state(4) for _, _, seed in seeds]
        return _BatchLoss(loss, device, words, int(training_set), batch)
    moments = [sequence_moments(sequences, normalization=normalization) for sequences in sets]
    by_moments = MomentLoss(layer, stack_moments(device, moments))
    return lambda _, weights: by_moments(weights)


@dataclass(frozen=True)
class _BatchLoss:
    """Mean squared error on rows of the training sets that are drawn afresh at every step.

    Attributes
    ----------
    loss : SequenceLoss
        Loss on given rows of the sets.
    device : Backend
        Where they are.
    words : list of ndarray
        Seeds of the rows, of every repeat.
    training_set, batch : int
        Sequences of a set, and rows of a step.
    """

    loss: SequenceLoss
    device: Backend
    words: list[np.ndarray]
    training_set: int
    batch: int

    def __call__(self, step: int, weights: list[Array]) -> tuple[Array, list[Array]]:
        """Losses (repeats,) and halves of the gradients at a step."""
        drawing = (np.random.default_rng([*key, step]) for key in self.words)
        rows = [generator.integers(self.training_set, size=self.batch) for generator in drawing]
        return self.loss(weights, self.device.asarray(np.stack(rows)))


def _test_moments(problem: Problem, normalization: str) -> dict[str, FeatureMoments]:
    """Moments of new sequences of random tasks, and of the shared task if there is one."""
    law = partial(population_moments, normalization=normalization)
    moments = {"icl": law(problem.with_fresh_tasks())}
    if problem.shared_task is not None:
        moments["iwl"] = law(replace(problem, fresh_fraction=0.0), noise_labels=True)
    return moments


def _refuse_unsettled(
    run: TrainingCurves, learning_rate: float, squares: np.ndarray, null: float
) -> None:
    """Raise an UnstableTraining if a repeat has not settled; ``squares`` are of the gradients."""
    falls = 4 * learning_rate * squares
    for repeat, (losses, fall) in enumerate(zip(run.losses, falls, strict=True)):
        since = unsettled_since(run.recorded_at, losses, fall, run.steps, null)
        if since is not None:
            late = losses[run.recorded_at >= since]
            raise UnstableTraining(
                f"learning_rate = {learning_rate!r} is too large: the loss of repeat {repeat} "
                f"stays between {late.min():.3g} and {late.max():.3g} from {since} to {run.steps} "
                "steps, though its gradient does not vanish",
                replace(run, ending=Ending("diverged")),
            )


def _squared_norm(arrays: list[Array]) -> Array:
    """Sums of the squares of all entries, shape (repeats,)."""
    xp = array_namespace(arrays[0])
    return sum(xp.sum(xp.reshape(array * array, (array.shape[0], -1)), axis=1) for array in arrays)
