"""Law of the squared errors of single test prompts.

Median, mean absolute error, mean logarithm and 90 % quantile of the squared errors of the test
prompts of simulated runs, over their mean and extrapolated to infinite dimension, equal those of
a chi-square law for linear labels, and of a mixture of Gaussian errors for classes.

Source: Derived in the documentation.
"""

import numpy as np
from numpy.random import SeedSequence

from iclimit import experiment
from iclimit.asymptotics.pretraining import ErrorLaw, error_law
from iclimit.simulate.pretraining.single_errors import squared_test_errors
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, run
from iclimit.validation.claims.pretraining.links import named

# Linear labels, and classes of which some are wrong.
POINTS = (
    experiment.Point(tau=2, alpha=2, kappa=2, rho=0.3, ridge=0.05),
    experiment.Point(tau=2, alpha=2, kappa=2, ridge=0.05, link="sign", flips=0.1),
)

# Runs by dimension, and test prompts of each.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {8: 8, 12: 8, 16: 8},
    "quick": {12: 80, 16: 60, 24: 60},
    "medium": {12: 900, 16: 700, 24: 500, 32: 400},
    "full": {12: 3000, 16: 2500, 24: 2000, 32: 1500},
}
# Order in 1/d of the extrapolation, where runs are precise enough for it.
ORDER = {"quick": 1, "medium": 2}
TEST_PROMPTS = 4000

# What is compared, by the names of the theory; the quantile is that of 90 %.
STATISTICS = ("median", "absolute", "log", "quantile")


@named_cell("error_statistics")
def statistics(*, run: experiment.Experiment, repeats: int, rng: SeedSequence) -> np.ndarray:
    """Statistics over the mean, (2, statistics, repeats), on fresh and pretraining tasks."""
    errors = squared_test_errors(run, rng=rng, repeats=repeats, test_prompts=TEST_PROMPTS)
    mean = np.mean(errors, axis=2)
    parts = (
        np.median(errors, axis=2) / mean,
        np.mean(np.sqrt(errors), axis=2) / np.sqrt(mean),
        np.mean(np.log(errors), axis=2) - np.log(mean),
        np.quantile(errors, 0.9, axis=2) / mean,
    )
    return np.stack(parts, axis=1)


def of_law(law: ErrorLaw) -> tuple[float, ...]:
    """The same statistics of a law."""
    return (
        law.median / law.mean,
        law.absolute / law.mean**0.5,
        law.log - float(np.log(law.mean)),
        law.quantile(0.9) / law.mean,
    )


def rows(effort: Effort) -> Rows:
    """Statistics in the limit."""
    repeats = effort.by_size(**REPEATS)
    order = effort.pick(**ORDER)
    for point in effort.pick(tiny=POINTS[1:], quick=POINTS):
        name = named(point)
        runs = {
            dim: run(statistics, run=point.at(dim), repeats=count)
            for dim, count in repeats.items()
        }
        for place, objective in enumerate(("icl", "idg")):
            theory = call(of_law, call(error_law, **point.limit, objective=objective))
            for number, words in enumerate(STATISTICS):
                label = f"{words}, {objective.upper()}, {name}"
                yield limit(
                    {label: theory[number]},
                    {dim: errors[place, number] for dim, errors in runs.items()},
                    order=order,
                    of=[f"error_law.{words}"],
                    about=label,
                )


claim = Claim.of("law-of-error", __doc__, rows, figure=False)
