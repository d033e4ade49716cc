"""What a run should show that is trained by one pass of SGD: exact for its tasks.

The recursions are those of `iclimit.asymptotics.pretraining.one_pass` for fresh tasks, and of
`iclimit.asymptotics.pretraining.one_pass_tasks` for drawn task sets.

.. page: pretraining/one-pass: One pass over fresh prompts
"""

import numpy as np

from iclimit.asymptotics.pretraining.deterministic_equivalent import SummaryLaw
from iclimit.asymptotics.pretraining.finite_flow import check_plain
from iclimit.asymptotics.pretraining.finite_size import NAMES, read_run
from iclimit.asymptotics.pretraining.one_pass import require_stable
from iclimit.asymptotics.pretraining.one_pass_moments import ContextLaw, StepMap
from iclimit.asymptotics.pretraining.one_pass_tasks import TaskSetContexts
from iclimit.checks import Seed
from iclimit.experiment import SGD, Experiment, Ridge
from iclimit.prediction import Prediction
from iclimit.threads import blas_threads_by_dim


@blas_threads_by_dim
def predicted_one_pass_errors(
    run: Experiment, *, rng: Seed | None = None, draws: int = 10
) -> Prediction:
    """Mean errors of a run that is trained by one pass of SGD; arguments as of `predict`.

    Raises
    ------
    TypeError
        If it is not trained so.
    ValueError
        If it has structured inputs, gates, drift or correlation, or fresh tasks with a covariance,
        which are not known here, or labels that are not linear; or if a rate is unstable.
    """
    training = run.training
    if not isinstance(training, SGD):
        raise TypeError(f"training must be an SGD, got {training!r}")
    _check_labels(run)
    check_plain(run, "SGD")
    if run.balanced:
        raise ValueError("balanced must be False for SGD: every prompt draws its task")
    laws = read_run(run.with_(training=Ridge()), rng, draws)
    rates = training.rates(run.prompts)
    if laws.sets:
        errors = [_of_tasks(run, tasks, laws.test, rates, training.batch) for tasks in laws.sets]
    else:
        errors = [_of_fresh_tasks(run, laws.test, rates, training.batch)]
    return Prediction(NAMES, np.array(errors), np.zeros((1, len(NAMES))))


def _check_labels(run: Experiment) -> None:
    """Refuse labels that are not linear, which effective ones do not stand for."""
    if not run.problem.has_linear_labels:
        raise ValueError(
            f"link must be identity and flips 0 for SGD, got {run.problem.labels}: a step sees "
            "few prompts, so that fourth moments of the labels count, and decide which rates are "
            "stable; iclimit.sample draws such runs"
        )


def _of_tasks(
    run: Experiment, tasks: np.ndarray, test: SummaryLaw, rates: np.ndarray, batch: int
) -> tuple[float, float]:
    """Both errors after the last step, for a task set."""
    moments = TaskSetContexts.of(tasks, run.problem.context, float(run.problem.noise_variance))
    stable = np.asarray(moments.stable_time(batch) * moments.dim / 2)
    require_stable("learning_rate", np.max(rates), stable)
    icl, idg = moments.descend(rates, batch, test)[-1]
    return icl, idg


def _of_fresh_tasks(
    run: Experiment, test: SummaryLaw, rates: np.ndarray, batch: int
) -> tuple[float, float]:
    """Both errors after the last step, for a fresh task in every prompt."""
    problem = run.problem
    if problem.task_covariance is not None:
        raise ValueError("task_covariance must be None for SGD with a fresh task in every prompt")
    law = ContextLaw(
        np.asarray(float(problem.dim)),
        np.asarray(float(problem.context)),
        np.asarray(float(problem.noise_variance)),
        problem.task_law == "gaussian",
    )
    step_map = StepMap.of(law, np.asarray(float(batch)))
    stable = step_map.stable_time() * problem.dim / 2
    require_stable("learning_rate", np.max(rates), stable)
    state = step_map.start
    for rate in rates:
        state = step_map.step(state, np.asarray(2 * rate / problem.dim))
    idg = float(step_map.least_error + step_map.excess(state))
    dim = problem.dim
    square, last, trace = state
    inner = square / dim + 2 * trace / (law.s * dim) + 1 / law.s**2
    tested = inner * np.trace(test.second[:dim, :dim]) + last * test.second[dim, dim]
    fitted = (trace / dim + 1 / law.s) * np.trace(test.cross[:dim])
    return float(test.label + (tested - 2 * fitted) / dim), idg
