"""The peak of sequences: as many positions in all as parameters.

Without a ridge, the error of linear attention that is trained on all positions of sequences is
largest where these have as many positions in all as the matrix has parameters,
n times the number of positions = d (d + 1): among numbers n of sequences the median error of runs
is largest at that number, rounded.  With six times as many sequences the model is better than
predicting zero.

Source: Derived in the documentation.
"""

import numpy as np

from iclimit.experiment import Experiment, Ridge
from iclimit.losses import AllPositions
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.samples import Samples
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, bound, call, exact, run

# Dimension, context and first position of sequences.
SEQUENCES = ((8, 12, 4), (6, 12, 6), (12, 24, 6))

# A ridge that does not move the peak and keeps the solver away from a singular matrix.
RIDGE = 1e-6

# Runs of each number of sequences, and how far the numbers go from the peak.
RUNS = 41
RANGE = 4

# Sequences with which errors are small again, over those at the peak, and their runs.
MANY = 6
MORE_RUNS = 8

# Variance of the label noise.
RHO = 0.1


def peak(counts: list[int], *runs: Samples) -> float:
    """Number of sequences with the largest median error."""
    return float(counts[int(np.argmax([np.median(errors.icl.samples) for errors in runs]))])


def icl(errors: Samples) -> Estimate:
    """Mean error on fresh tasks."""
    return errors.icl


def rows(effort: Effort) -> Rows:
    """The peak of each kind of sequences, and the error beyond it."""
    for dim, context, first in SEQUENCES:
        law = Problem(dim, context, noise_variance=RHO, task_law="sphere")
        expected = dim * (dim + 1) / (context - first + 1)
        nearest = round(expected)
        counts = list(range(nearest - RANGE, nearest + RANGE + 1))
        runs = []
        for count in counts:
            stated = Experiment(
                law, prompts=count, loss=AllPositions(first), training=Ridge(RIDGE)
            )
            runs.append(run(sample, run=stated, repeats=effort(RUNS)))
        yield exact(
            f"sequences at the peak, d={dim}, positions {first} to {context}",
            float(nearest),
            call(peak, counts, *runs),
            relative=1e-9,
        )
        many = Experiment(
            law, prompts=MANY * nearest, loss=AllPositions(first), training=Ridge(RIDGE)
        )
        yield bound(
            f"error beyond the peak, d={dim}, positions {first} to {context}",
            1 + RHO,
            call(icl, run(sample, run=many, repeats=effort(MORE_RUNS))),
        )


claim = Claim.of("sequence-peak", __doc__, rows, figure=False)
