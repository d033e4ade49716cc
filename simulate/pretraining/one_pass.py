"""Pretraining by one pass of SGD: fresh prompts in every step."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_arguments, check_integers
from iclimit.experiment import SGD, Experiment, check_loss, check_training
from iclimit.problem import check_problem
from iclimit.results import Result
from iclimit.simulate.arrays import Array, Generator, Seed, get_backend
from iclimit.simulate.pretraining.ridge import RidgeSolution
from iclimit.simulate.prompts.sampling import draw_task_set
from iclimit.simulate.prompts.summaries import SummaryLaw
from iclimit.statement import named_cell
from iclimit.threads import blas_threads_for

# Fields of a problem that count here; all other ones have their defaults.
_KNOWN = ("tasks", "noise_variance", "task_law")

# Prompts that are drawn at a time.
_BLOCK = 4096


@dataclass(frozen=True, repr=False)
class OnePassRuns(Result):
    """Errors during one pass of SGD.

    Attributes
    ----------
    steps : ndarray (records,)
        Steps taken.
    icl, idg : ndarray (repeats, records)
        Squared errors on noisy query labels: fresh tasks, and those of the pretraining.
    """

    steps: np.ndarray
    icl: np.ndarray
    idg: np.ndarray


@named_cell("simulate_one_pass")
def simulate_one_pass(
    run: Experiment,
    *,
    record: int | None = None,
    rng: Seed,
    repeats: int = 1,
    first_repeat: int = 0,
    backend: str = "numpy",
) -> OnePassRuns:
    """Errors of a run during its training by SGD, which `iclimit.sample` measures at the end.

    Parameters
    ----------
    run : Experiment
        Trained by `iclimit.SGD`, in the units of this library, with Gaussian inputs.
    record : int >= 1, optional
        Steps from one record of the errors to the next; by default only the last step has one.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent runs.
    first_repeat : int >= 0
        Number of the first of them.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    OnePassRuns
        Errors of each run at each record, exact for the trained matrix.

    Raises
    ------
    TypeError
        If it is no experiment.
    ValueError
        If an argument is outside its range, or the run has what is not simulated here.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        If a run overflowed.

    Examples
    --------
    >>> import iclimit
    >>> law = iclimit.Problem(dim=10, context=20, noise_variance=0.1, task_law="sphere")
    >>> run = iclimit.Experiment(law, prompts=400, training=iclimit.SGD(0.05, batch=10))
    >>> errors = iclimit.pretraining.simulate_one_pass(run, record=20, rng=0, repeats=4)
    >>> errors.steps, errors.icl.shape, bool(0.6 < errors.icl[:, -1].mean() < 0.9)
    (array([20, 40]), (4, 2), True)
    """
    training = _checked_training(run)
    steps = training.steps(run.prompts)
    check_arguments(repeats=repeats, first_repeat=first_repeat)
    every = steps if record is None else record
    check_integers(least=1, record=every)
    if every > steps:
        raise ValueError(f"record must be at most the {steps} steps, got {every}")
    arrays = get_backend(backend)
    train = SummaryLaw(arrays, run.problem)
    fresh = SummaryLaw(arrays, run.tests.problem)
    errors = []
    with blas_threads_for(run.dim), np.errstate(over="ignore", invalid="ignore"):
        for generator in arrays.generators(rng, repeats, first_repeat):
            task_set = draw_task_set(run.problem, arrays, generator)
            curve = []
            for step, gamma in enumerate(_trained(train, generator, run, task_set), 1):
                if step % every == 0:
                    # Both are exact: no test prompt is drawn.
                    icl = fresh.test_error(generator, gamma, 1, None)
                    curve.append((icl, train.test_error(generator, gamma, 1, task_set)))
            errors.append(curve)
    both = np.array(errors)
    if not np.all(np.isfinite(both)):
        raise ArithmeticError("a run overflowed: learning_rate is too large")
    return OnePassRuns(np.arange(every, steps + 1, every), both[..., 0], both[..., 1])


def _checked_training(run: Experiment) -> SGD:
    """Training of a run, if it is one that is simulated here."""
    if not isinstance(run, Experiment):
        raise TypeError(f"run must be an Experiment, got {run!r}")
    check_training(run, SGD)
    check_loss(run)
    check_problem(run.problem, *_KNOWN)
    check_problem(run.tests.problem, *_KNOWN)
    if run.model.gates is not None or run.tests.gates is not None:
        raise ValueError("gates must be None for SGD: errors with gates are not exact")
    if run.balanced:
        raise ValueError("balanced must be False for SGD: every prompt draws its task")
    training = run.training
    assert isinstance(training, SGD)
    return training


def _trained(
    law: SummaryLaw, generator: Generator, run: Experiment, task_set: Array | None
) -> Iterator[Array]:
    """Gamma after each step; prompts of several steps are drawn at a time."""
    training = _checked_training(run)
    rates = training.rates(run.prompts)
    gamma = law.backend.xp.zeros((run.dim, run.dim + 1))
    at_once = max(1, _BLOCK // training.batch)
    for start in range(0, len(rates), at_once):
        several = rates[start : start + at_once]
        query, summary, label = law.draw(generator, len(several) * training.batch, task_set)
        for step, rate in enumerate(several):
            rows = slice(step * training.batch, (step + 1) * training.batch)
            gamma = after_step(gamma, query[rows, :], summary[rows, :], label[rows], float(rate))
            yield gamma


def after_step(gamma: Array, query: Array, summary: Array, label: Array, rate: float) -> Array:
    """Gamma after a step of gradient descent on the mean squared error of a batch."""
    missed = array_namespace(gamma).sum((query @ gamma) * summary, axis=1) - label
    scaled = 2 * rate / query.shape[0] * missed
    return gamma - (query * scaled[:, None]).T @ summary


def follow_pass(x: Array, h: Array, y: Array, rates: np.ndarray, batch: int) -> RidgeSolution:
    """Gamma after one pass over prompts from zero, a batch in each step.

    Raises
    ------
    ArithmeticError
        If it overflowed.
    """
    xp = array_namespace(x)
    gamma = xp.zeros((x.shape[1], h.shape[1]))
    with np.errstate(over="ignore", invalid="ignore"):
        for step, rate in enumerate(rates):
            rows = slice(step * batch, (step + 1) * batch)
            gamma = after_step(gamma, x[rows, :], h[rows, :], y[rows], float(rate))
    if not bool(xp.all(xp.isfinite(gamma))):
        raise ArithmeticError("a run overflowed: learning_rate is too large")
    return RidgeSolution(gamma, "sgd", len(rates), 0.0)
