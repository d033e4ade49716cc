"""The door of the theory for runs of finite size: an experiment in, a prediction out."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from iclimit.asymptotics.pretraining.finite_all_positions import predicted_position_errors
from iclimit.asymptotics.pretraining.finite_elliptical import predicted_elliptical_errors
from iclimit.asymptotics.pretraining.finite_flow import predicted_flow_errors
from iclimit.asymptotics.pretraining.finite_flow_spread import predicted_flow_spread
from iclimit.asymptotics.pretraining.finite_one_pass import predicted_one_pass_errors
from iclimit.asymptotics.pretraining.finite_random_lengths import predicted_random_length_errors
from iclimit.asymptotics.pretraining.finite_size import predicted_errors
from iclimit.asymptotics.pretraining.finite_size_spread import predicted_spread
from iclimit.asymptotics.pretraining.several_outputs import predicted_output_errors
from iclimit.checks import Seed, check_flag
from iclimit.experiment import SGD, Descent, Experiment, Flow, Ridge, check_is_experiment
from iclimit.losses import AllPositions, LastPosition, RandomLength
from iclimit.prediction import Prediction
from iclimit.statement import named_cell


@named_cell("predict")
def predict(
    run: Experiment,
    *,
    rng: Seed | None = None,
    draws: int = 10,
    approach: str = "tasks",
    spread: bool = False,
) -> Prediction:
    """Predict the errors of a run of finite size on new tasks (ICL) and on its own (IDG).

    Parameters
    ----------
    run : Experiment
        In the units of this library.
    rng : int, SeedSequence or Generator, optional
        Source of the task sets, and of the sequences of `AllPositions`; None draws them from
        fresh entropy.
    draws : int >= 1
        Number of task sets to average over.
    approach : {"tasks", "moments"}
        As in `finite_size_errors`; for `AllPositions` with sequences that are drawn, or by their
        mean kernels, which is quick and less precise.
    spread : bool
        Whether to predict the scatter of single runs, too.

    Returns
    -------
    Prediction
        Means of "icl" and "idg", and what they scatter by.  Errors are those of one output, where
        there are several (their stated uncertainty: module
        `iclimit.asymptotics.pretraining.several_outputs`).  Of a run that is trained by `SGD`, or
        on a `RandomLength` or `AllPositions`, or has a ``scale_law``, neither the scatter of
        single runs nor structured inputs and gates are known; of a `Flow` or `Descent` correlated
        queries and a ``scale_law`` are not.

    Raises
    ------
    TypeError
        If it is no experiment.
    ValueError
        If an argument is outside its range, or the run has parts that are not predicted.
    ArithmeticError
        As `finite_size_errors`.

    References
    ----------
    As `finite_size_errors` and `finite_size_spread`, which take the same runs as keywords.

    Examples
    --------
    >>> import iclimit
    >>> run = iclimit.Point(tau=4, alpha=2, kappa=1, rho=0.1, ridge=0.1).at(dim=40)
    >>> prediction = iclimit.predict(run, rng=0, spread=True)
    >>> round(prediction.gap.mean, 2)
    0.32
    """
    check_flag("spread", spread)
    check_is_experiment(run)
    if spread:
        _check_scatter(run)
    if any(law.scale_law is not None for law in (run.problem, run.tests.problem)):
        return predicted_elliptical_errors(run, rng=rng, draws=draws, approach=approach)
    if run.problem.outputs > 1:
        return predicted_output_errors(run, rng=rng, draws=draws, approach=approach)
    if isinstance(run.loss, AllPositions):
        return predicted_position_errors(run, rng=rng, approach=approach)
    if isinstance(run.loss, RandomLength):
        return predicted_random_length_errors(run, rng=rng, draws=draws)
    if isinstance(run.training, Flow | Descent):
        prediction = predicted_flow_errors(run, rng=rng, draws=draws, approach=approach)
        if not spread:
            return prediction
        means = np.mean(prediction.over_tasks, axis=0)
        return replace(prediction, scatter=predicted_flow_spread(run, means, rng=rng))
    if isinstance(run.training, SGD):
        return predicted_one_pass_errors(run, rng=rng, draws=draws)
    prediction = predicted_errors(run, rng=rng, draws=draws, approach=approach)
    if not spread:
        return prediction
    return replace(prediction, scatter=predicted_spread(run, rng=rng))


def _check_scatter(run: Experiment) -> None:
    """Refuse runs of which only the means are predicted."""
    for part in (run.loss, run.training):
        if not isinstance(part, LastPosition | Ridge | Flow | Descent):
            kind = type(part).__name__
            raise ValueError(f"spread must be False for {kind}: its scatter is not predicted")
    if not run.problem.has_linear_labels:
        raise ValueError("spread must be False for labels that are not linear")
    if run.problem.scale_law is not None:
        raise ValueError("spread must be False for a scale_law: the scatter is not predicted")
    if run.problem.outputs > 1:
        raise ValueError(
            "spread must be False for several outputs: their scatter is not predicted"
        )
