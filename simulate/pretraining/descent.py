"""Pretraining by steps: errors along the way, of the reduced matrix and of merged attention."""

import math
import os
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import by_name, check_arguments, check_choice, check_integers
from iclimit.experiment import Descent, Experiment, check_is_experiment, check_loss, check_training
from iclimit.problem import check_problem
from iclimit.simulate.arrays import Array, Backend, Seed, get_backend, seed_sequences
from iclimit.simulate.pretraining.ridge import DENSE_NORMAL, adjoint, predictions, row_pairs
from iclimit.simulate.prompts.sampling import draw_task_set
from iclimit.simulate.prompts.summaries import SummaryLaw
from iclimit.simulate.training.checkpoints import identify
from iclimit.simulate.training.loop import State, StepRule, TrainingLoop, UnstableTraining
from iclimit.simulate.training.results import TrainingCurves, curves_of
from iclimit.simulate.training.rules import Adam, GradientDescent
from iclimit.simulate.training.stability import UNSTABLE
from iclimit.statement import named_cell

# Fields of a problem that count here; all other ones have their defaults.
_KNOWN = ("tasks", "noise_variance", "task_law", "task_covariance", "input_covariance")

MODELS = ("reduced", "merged")

OPTIMIZERS = ("descent", "adam")

# From a step and Gamma (repeats, d, d + 1) to losses (repeats,) and their slopes.
Slopes: TypeAlias = Callable[[int, Array], tuple[Array, Array]]

# Errors that are recorded beside the training loss.
MEASURES = ("icl", "idg", "strength")


@named_cell("simulate_descent")
def simulate_descent(
    run: Experiment,
    *,
    model: str = "reduced",
    init_scale: float | None = None,
    optimizer: str = "descent",
    batch: int | None = None,
    record: int | None = None,
    rng: Seed,
    repeats: int = 1,
    backend: str = "numpy",
    checkpoint: str | os.PathLike | None = None,
    progress: bool = False,
) -> TrainingCurves:
    r"""Errors of a run along its training by steps, in one pass or many over its prompts.

    Parameters
    ----------
    run : Experiment
        Trained by `iclimit.Descent`, in the units of this library, with Gaussian inputs and
        neither gates, drift nor correlation.
    model : {"reduced", "merged"}
        The matrix :math:`\Gamma`, or a value times a key-query matrix, :math:`\Gamma = vU`.
    init_scale : float > 0, optional
        Scale :math:`w_0` of the start of "merged", which needs it: :math:`v = d^{1/4} w_0`, and
        normal entries of U with the same root mean square norm.
    optimizer : {"descent", "adam"}
        Gradient descent with the momentum of the training, or Adam, at its learning rate.
    batch : int >= 1, optional
        Prompts of a step, of which the prompts are a multiple: several passes, each in a random
        order.  All prompts by default.
    record : int >= 1, optional
        Steps between records of the errors, the first before the first step; the last step has
        one too.  By default there are about a hundred.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent runs.
    backend : {"numpy", "cupy"}
        Where to compute.
    checkpoint : path, optional
        File to which the training is saved every few seconds and at its end.  If it exists, the
        training goes on from it, to the same bits.
    progress : bool
        Show a progress bar.

    Returns
    -------
    TrainingCurves
        With the measures "icl" and "idg", exact errors on noisy query labels of fresh tasks and of
        those of the pretraining, and "strength", which is :math:`\lVert\Gamma\rVert_F/\sqrt d`.
        Losses are on the prompts of the step that follows, without the penalty.  Times are
        :math:`2\eta/d` a step, and :math:`2\eta/\sqrt d` of "merged", whatever the optimizer.
        After Ctrl-C there is what was recorded by then, marked as interrupted.

    Raises
    ------
    TypeError
        If run is no experiment.
    ValueError
        If an argument is outside its range, or the run has what is not simulated here; or if the
        checkpoint is of another training.
    RuntimeError
        If the backend is not available.
    UnstableTraining
        An ArithmeticError: the loss exceeds a million times that at zero weights.  Its attribute
        ``curves`` holds what was recorded.

    Notes
    -----
    A step costs two passes over its prompts, each of :math:`2d(d + 1)` operations a prompt; up to
    d = 20, steps on all prompts need their moments only.
    `iclimit.sample` finds the end of gradient descent of the matrix in fewer.

    Examples
    --------
    >>> import iclimit
    >>> law = iclimit.Problem(10, 20, tasks=10, noise_variance=0.1, task_law="sphere")
    >>> training = iclimit.Descent(steps=200, learning_rate=0.3)
    >>> run = iclimit.Experiment(law, prompts=200, training=training)
    >>> curves = iclimit.pretraining.simulate_descent(
    ...     run, model="merged", init_scale=0.1, record=50, rng=0, repeats=3
    ... )
    >>> curves.recorded_at, curves.measures["icl"].shape
    (array([  0,  50, 100, 150, 200]), (3, 5))
    """
    training = _checked(run, model, init_scale, optimizer)
    check_arguments(repeats=repeats)
    steps = training.steps
    every = max(1, steps // 100) if record is None else record
    check_integers(least=1, record=every)
    size = run.prompts if batch is None else batch
    check_integers(least=1, batch=size)
    if run.prompts % size:
        raise ValueError(f"prompts must be a multiple of the batch of {size}, got {run.prompts}")
    arrays = get_backend(backend)
    trainees = [_Trainee(run, arrays, seed) for seed in seed_sequences(rng, repeats)]
    settings = by_name(
        model=model,
        init_scale=init_scale,
        optimizer=optimizer,
        batch=size,
        record=every,
        repeats=repeats,
        backend=backend,
        run={name: identify(value) for name, value in run.statement().items() if name != "steps"},
        seed=[str(trainees[0].seed.entropy), list(trainees[0].seed.spawn_key[:-1])],
    )
    loop = TrainingLoop(
        State(_start(run, init_scale, trainees, arrays)),
        steps=steps,
        record=every,
        bound=UNSTABLE * (1 + run.problem.noise_variance),
        checkpoint=checkpoint,
        settings=settings,
        backend=arrays,
        progress=progress,
    )
    curves = partial(
        curves_of,
        loop,
        time_step=2 * training.learning_rate / run.dim ** (0.5 if model == "merged" else 1),
        measures=MEASURES,
        parameters={**settings, "run": run, "steps": steps},
    )
    try:
        with loop:
            objective = partial(_objective, _slopes_on(trainees, size, run), training.ridge)
            loop.descend(objective, _rule(training, optimizer), partial(_measured, trainees))
    except UnstableTraining as error:
        error.curves = curves()
        raise
    return curves()


def _checked(run: Experiment, model: str, init_scale: float | None, optimizer: str) -> Descent:
    """Training of a run, if it is one that is simulated here."""
    check_is_experiment(run)
    check_training(run, Descent)
    check_loss(run)
    check_choice("model", model, MODELS)
    check_choice("optimizer", optimizer, OPTIMIZERS)
    check_problem(run.problem, *_KNOWN)
    check_problem(run.tests.problem, *_KNOWN)
    if run.model.gates is not None or run.tests.gates is not None:
        raise ValueError("gates must be None here: errors with gates are not exact")
    if run.balanced:
        raise ValueError("balanced must be False here: every prompt draws its task")
    training = run.training
    assert isinstance(training, Descent)
    if optimizer == "adam" and training.momentum:
        raise ValueError(f"momentum must be 0 for adam, got {training.momentum!r}")
    if model == "reduced":
        if init_scale is not None:
            raise ValueError(
                f"init_scale must be None for the reduced model, got {init_scale!r}: it is of "
                "merged attention; the matrix starts with the start_variance of its training"
            )
        return training
    if init_scale is None:
        raise ValueError("init_scale must be given for merged attention, got None")
    check_arguments(init_scale=init_scale)
    if training.ridge or training.start_variance:
        raise ValueError(
            f"ridge and start_variance must be 0 for merged attention, got {training!r}"
        )
    return training


class _Trainee:
    """Prompts of one run, and the laws that test it."""

    def __init__(self, run: Experiment, arrays: Backend, seed: np.random.SeedSequence) -> None:
        self.seed = seed
        data, start, self._order = seed_sequences(seed, 3)
        self.start = np.random.default_rng(start)
        self.generator = arrays.generator(data)
        self.train = SummaryLaw(arrays, run.problem)
        self.fresh = SummaryLaw(arrays, run.tests.problem)
        self.task_set = draw_task_set(run.problem, arrays, self.generator)
        self.x, self.h, self.y = self.train.draw(self.generator, run.prompts, self.task_set)

    @cached_property
    def words(self) -> list[int]:
        """Seed of the orders of all passes."""
        return [int(word) for word in self._order.generate_state(4)]

    def rows(self, step: int, batch: int) -> Any:
        """Rows of the prompts of a step; None where all are taken."""
        count = self.y.shape[0]
        if batch == count:
            return None
        first = step * batch
        order = np.random.default_rng([*self.words, first // count]).permutation(count)
        return array_namespace(self.y).asarray(order[first % count : first % count + batch])

    def moments(self) -> tuple[Array, Array, Array]:
        """Mean square of the labels, and means of label times feature and of features squared."""
        xp = array_namespace(self.y)
        count = self.y.shape[0]
        features = xp.reshape(self.x[:, :, None] * self.h[:, None, :], (count, -1))
        return (
            xp.mean(self.y**2),
            features.T @ self.y[:, None] / count,
            features.T @ features / count,
        )

    def loss(self, gamma: Array, rows: Any) -> tuple[Array, Array]:
        """Mean squared error on rows, and its gradient."""
        rows = slice(None) if rows is None else rows
        y = self.y[rows]
        xp = array_namespace(y)
        blocks = row_pairs(self.x[rows, :], self.h[rows, :])
        missed = y - predictions(blocks, gamma)
        return xp.mean(missed**2), -2 / y.shape[0] * adjoint(blocks, missed)


def _start(
    run: Experiment, init_scale: float | None, trainees: list[_Trainee], arrays: Backend
) -> list[Array]:
    """Weights (repeats, ...) at the start; those of merged attention have a scale."""
    dim = run.dim
    normal = np.stack([trainee.start.standard_normal((dim, dim + 1)) for trainee in trainees])
    if init_scale is None:
        assert isinstance(run.training, Descent)
        return [arrays.asarray(math.sqrt(run.training.start_variance / dim) * normal)]
    value = dim**0.25 * init_scale
    lookup = value / math.sqrt(dim * (dim + 1)) * normal
    return [arrays.asarray(np.full((len(trainees), 1, 1), value)), arrays.asarray(lookup)]


def _matrices(weights: list[Array]) -> Array:
    """Gamma (repeats, d, d + 1) of the weights of either model."""
    return weights[0] if len(weights) == 1 else weights[0] * weights[1]


def _rule(training: Descent, optimizer: str) -> StepRule:
    """Rule of the steps."""
    if optimizer == "adam":
        return Adam(training.learning_rate)
    return GradientDescent(training.learning_rate, training.momentum)


def _objective(
    slopes: Slopes, ridge: float, step: int, weights: list[Array]
) -> tuple[Array, list[Array]]:
    """Losses (repeats,) and gradients at a step."""
    gammas = _matrices(weights)
    losses, by_gamma = slopes(step, gammas)
    if len(weights) == 1:
        return losses, [by_gamma + 2 * ridge / gammas.shape[1] * gammas]
    value, lookup = weights
    xp = array_namespace(value)
    return losses, [xp.sum(by_gamma * lookup, axis=(1, 2), keepdims=True), value * by_gamma]


def _slopes_on(trainees: list[_Trainee], batch: int, run: Experiment) -> Slopes:
    """How losses and their slopes are found: from moments, if steps take all of few features."""
    xp = array_namespace(trainees[0].y)
    if batch < run.prompts or run.dim * (run.dim + 1) > DENSE_NORMAL:

        def by_prompts(step: int, gammas: Array) -> tuple[Array, Array]:
            results = [
                trainee.loss(gammas[number, ...], trainee.rows(step, batch))
                for number, trainee in enumerate(trainees)
            ]
            losses = xp.stack([loss for loss, _ in results])
            return losses, xp.stack([slope for _, slope in results])

        return by_prompts
    moments = [trainee.moments() for trainee in trainees]
    square = xp.stack([square for square, _, _ in moments])
    cross = xp.stack([cross for _, cross, _ in moments])
    second = xp.stack([second for _, _, second in moments])

    def by_moments(step: int, gammas: Array) -> tuple[Array, Array]:  # noqa: ARG001
        flat = xp.reshape(gammas, cross.shape)
        fitted = second @ flat
        losses = square + xp.sum(flat * (fitted - 2 * cross), axis=(1, 2))
        return losses, xp.reshape(2 * (fitted - cross), gammas.shape)

    return by_moments


def _measured(
    trainees: list[_Trainee], weights: list[Array], gradients: list[Array]
) -> dict[str, Array]:
    """Both test errors and the norm, (repeats,)."""
    del gradients
    gammas = _matrices(weights)
    xp = array_namespace(gammas)
    tested = [
        (
            trainee.fresh.test_error(trainee.generator, gammas[number, ...], 1, None),
            trainee.train.test_error(trainee.generator, gammas[number, ...], 1, trainee.task_set),
        )
        for number, trainee in enumerate(trainees)
    ]
    errors = np.array(tested)
    norms = xp.sqrt(xp.sum(gammas**2, axis=(1, 2)) / gammas.shape[1])
    return {"icl": errors[:, 0], "idg": errors[:, 1], "strength": norms}
