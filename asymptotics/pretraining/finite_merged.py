r"""What a run of finite size should show when merged attention is trained on its prompts.

As in `iclimit.asymptotics.pretraining.merged_training`, with the exact second moments G and A of
the context summaries in the place of their limits, and the errors between two ridges of
`iclimit.asymptotics.pretraining.finite_flow`.  Corrections of the order 1/d are left out: that
leverages fluctuate, that tasks share prompts, and that the start overlaps with what is learnt.

.. page: pretraining/merged-training: How long is the plateau on few prompts?
"""

from __future__ import annotations

from functools import partial

import numpy as np

from iclimit.asymptotics.pretraining.deterministic_equivalent import SummaryLaw
from iclimit.asymptotics.pretraining.effective_ridges import followed_ridges, largest_eigenvalue
from iclimit.asymptotics.pretraining.finite_flow import check_plain
from iclimit.asymptotics.pretraining.finite_size import read_run
from iclimit.asymptotics.pretraining.merged_training import (
    Learners,
    MergedTraining,
    trained_errors,
)
from iclimit.asymptotics.pretraining.training_contours import Branch
from iclimit.checks import Seed, check_arguments
from iclimit.experiment import Experiment
from iclimit.threads import blas_threads_by_dim

# The contour encloses the mean spectrum with this factor.
ROOM = 1.1


@blas_threads_by_dim
def finite_merged_errors(
    run: Experiment, *, time: np.ndarray, init_scale: float, rng: Seed, draws: int = 10
) -> MergedTraining:
    """Mean errors of merged attention on the prompts of a run, whatever its training is.

    Parameters
    ----------
    run : Experiment
        With isotropic inputs and neither gates, drift nor correlation.
    time : array (times,) of numbers >= 0
        As of `merged_training_errors`, and so is init_scale.
    init_scale : float > 0
    rng : int, SeedSequence or Generator
        Source of the task sets.
    draws : int >= 1
        Number of task sets to average over.

    Returns
    -------
    MergedTraining
        With arrays (times,).

    Raises
    ------
    ValueError
        If the run has parts that are not known here.
    """
    check_arguments(init_scale=init_scale)
    check_plain(run, "merged attention")
    read = read_run(run, rng, draws)
    times = np.asarray(time, float)
    errors = []
    for law in read.laws:
        values = np.maximum(np.linalg.eigvalsh(law.second), 0.0)
        largest = ROOM * largest_eigenvalue(values, run.dim / run.prompts)
        learners = partial(_learners, law, read.test, run.prompts)
        errors.append(trained_errors(learners, largest, times, init_scale))
    return MergedTraining(*np.mean(errors, axis=0))


def _learners(law: SummaryLaw, test: SummaryLaw, prompts: int, contour: Branch) -> Learners:
    """Ridge regressions on a contour, by their mean moments."""
    dim = law.cross.shape[1]
    share = dim / prompts
    g, basis = np.linalg.eigh(law.second)
    g = np.maximum(g, 0.0)
    xi = followed_ridges(contour, 0.0, g, share)
    learnt = law.cross.T @ basis
    rotated = basis.T @ test.second @ basis
    power = np.sum(learnt**2, axis=0) / dim
    tested = np.sum(learnt * (test.cross.T @ basis), axis=0) / dim
    m = 1 / (g + xi[:, None])
    both = np.concatenate([m, m.conj()])
    known = m @ power
    linear = known[:, None] + (both @ power)[None, :]
    overlap = 1 - share * (m * g**2) @ both.T
    error = (law.label - linear + (m * power * g) @ both.T) / overlap
    mean = m @ ((learnt.T @ learnt) * rotated / dim) @ both.T
    scatter = share * error * ((m * g * np.diag(rotated)) @ both.T)
    ratio = contour.z / xi
    # A start of strength 1 has d entries of square 1/(d + 1) for each direction of the summaries.
    kept = xi / contour.z
    start = np.multiply.outer(kept, np.concatenate([kept, kept.conj()])) / (dim + 1)
    known_start = start * ((m * g) @ both.T) / overlap
    fresh_start = start * ((m * np.diag(rotated)) @ both.T) + share * known_start * (
        (m * g * np.diag(rotated)) @ both.T
    )
    residual = np.multiply.outer(ratio, np.concatenate([ratio, ratio.conj()]))
    return Learners(
        contour=contour,
        labels=(test.label, law.label, law.label),
        linear=(m @ tested, known, law.label - ratio * (law.label - known)),
        between=(mean + scatter, error, residual * error),
        kernel=kept * np.mean(m, axis=1),
        starts=(fresh_start, known_start, residual * known_start),
    )
