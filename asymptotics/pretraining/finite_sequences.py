"""What a run should show that is trained on all positions of its sequences.

The errors after the whole context of `iclimit.asymptotics.pretraining.finite_all_positions`; tests
of another length or noise have the rate and the variance of the same trained matrix.

.. page: pretraining/all-positions: Training on every position of a sequence
"""

from __future__ import annotations

import numpy as np

from iclimit.asymptotics.pretraining.finite_all_positions import position_errors_at_size
from iclimit.asymptotics.pretraining.finite_random_lengths import check_lengths, length_factors
from iclimit.asymptotics.pretraining.finite_size import NAMES
from iclimit.experiment import Experiment
from iclimit.losses import AllPositions
from iclimit.prediction import Prediction

# Factor of the uncertainty for tests of another length or noise: twice as long ones at d = 12 and
# 16 were up to a fifth more than that of training away.
UNCERTAIN = 1.5


def predicted_sequence_errors(run: Experiment) -> Prediction:
    """Mean errors of a run that is trained on all positions of its sequences.

    Raises
    ------
    ValueError
        If it has parts that are not known here, such as weights of positions.
    """
    check_lengths(run, AllPositions)
    loss = run.loss
    assert isinstance(loss, AllPositions)
    if loss.weights is not None:
        raise ValueError(f"weights of AllPositions must be None here, got {loss.weights!r}")
    law = run.problem
    rho = float(law.noise_variance)
    errors = position_errors_at_size(
        dim=run.dim,
        positions=loss.positions(law.context).tolist(),
        prompts=run.prompts,
        tasks=law.task_count,
        rho=rho,
        ridge=float(run.ridge),
        normalization=run.model.normalization,
        balanced=run.balanced,
    )
    icl = float(errors.icl[-1])
    doubt = np.array([errors.uncertainty])
    tested = run.tests.problem
    if (tested.context, tested.noise_variance) != (law.context, law.noise_variance):
        own = _error(run, errors.rate, errors.variance, law.context, rho)
        other_rho = float(tested.noise_variance)
        other = _error(run, errors.rate, errors.variance, tested.context, other_rho)
        icl *= other / own
        doubt[0, 0] *= UNCERTAIN
    means = np.array([[icl, float(errors.idg[-1])]])
    return Prediction(NAMES, means, doubt)


def _error(run: Experiment, c: float, z: float, length: int, rho: float) -> float:
    """ICL error of a matrix of this rate and variance after a context of this length."""
    p = float(length_factors(run, length))
    q = ((1 + rho) * run.dim + 1) / length
    return rho + (1 - c * p) ** 2 + p**2 * (c**2 * q + z * (1 + q))
