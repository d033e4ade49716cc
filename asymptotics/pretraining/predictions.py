"""The door of the theory for runs of finite size: an experiment in, a prediction out."""

from __future__ import annotations

from dataclasses import replace

from iclimit.asymptotics.pretraining.finite_all_positions import predicted_position_errors
from iclimit.asymptotics.pretraining.finite_flow import predicted_flow_errors
from iclimit.asymptotics.pretraining.finite_one_pass import predicted_one_pass_errors
from iclimit.asymptotics.pretraining.finite_random_lengths import predicted_random_length_errors
from iclimit.asymptotics.pretraining.finite_size import predicted_errors
from iclimit.asymptotics.pretraining.finite_size_spread import predicted_spread
from iclimit.checks import Seed, check_flag
from iclimit.experiment import SGD, Descent, Experiment, Flow
from iclimit.losses import AllPositions, RandomLength
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
        Source of the task sets; None draws them from fresh entropy.
    draws : int >= 1
        Number of task sets to average over.
    approach : {"tasks", "moments"}
        As in `finite_size_errors`.
    spread : bool
        Whether to predict the scatter of single runs, too.

    Returns
    -------
    Prediction
        Means of "icl" and "idg", and what they scatter by.  Of a run that is trained by a `Flow`,
        `Descent` or `SGD`, or on a `RandomLength` or `AllPositions`, the scatter of single runs is
        not known, and neither are structured inputs and gates.

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
    if isinstance(run, Experiment) and spread and not run.problem.has_linear_labels:
        raise ValueError("spread must be False for labels that are not linear")
    if isinstance(run, Experiment) and isinstance(run.loss, AllPositions):
        if spread:
            raise ValueError("spread must be False for AllPositions: its scatter is not predicted")
        return predicted_position_errors(run)
    if isinstance(run, Experiment) and isinstance(run.loss, RandomLength):
        if spread:
            raise ValueError("spread must be False for RandomLength: its scatter is not predicted")
        return predicted_random_length_errors(run, rng=rng, draws=draws)
    if isinstance(run, Experiment) and isinstance(run.training, Flow | Descent):
        if spread:
            kind = type(run.training).__name__
            raise ValueError(f"spread must be False for a {kind}: its scatter is not predicted")
        return predicted_flow_errors(run, rng=rng, draws=draws, approach=approach)
    if isinstance(run, Experiment) and isinstance(run.training, SGD):
        if spread:
            raise ValueError("spread must be False for SGD: its scatter is not predicted")
        return predicted_one_pass_errors(run, rng=rng, draws=draws)
    prediction = predicted_errors(run, rng=rng, draws=draws, approach=approach)
    if not spread:
        return prediction
    return replace(prediction, scatter=predicted_spread(run, rng=rng))
