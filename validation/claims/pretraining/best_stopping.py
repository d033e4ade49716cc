"""The best time to stop, from simulated curves of training.

Mean errors of simulated runs of gradient flow, on fresh tasks and on those of the pretraining, are
least at some time.  This time and its error, extrapolated to infinite dimension, are those of the
theory: without weight decay from zero, where the errors on fresh tasks turn up earlier or later
than the others, and with both.

Source: here; setting of {lu2025}.
"""

import math
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit import experiment
from iclimit.asymptotics.pretraining import optimal_stopping
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.flow import flow_at_times
from iclimit.simulate.prompts.sampling import draw_task_set
from iclimit.simulate.prompts.summaries import SummaryLaw
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, run

# Errors on fresh tasks are least before the others, after them, and with decay from a start.
SETTINGS: tuple[dict[str, Any], ...] = (
    {"tau": 2, "alpha": 1, "kappa": 0.5, "rho": 0.1},
    {"tau": 4, "alpha": 2, "kappa": 2, "rho": 0.05},
    {"tau": 1, "alpha": 2, "kappa": 2, "rho": 0.3, "ridge": 0.2, "start_variance": 0.3},
)
# Times of a curve; and of the polynomial around its least point, of the degree 4: on curves of the
# theory it finds times to 0.2 %.
TIMES = np.geomspace(0.06, 6, 19).tolist()
AROUND = 3
# Runs by dimension.  Terms of order 1/d^2, which the extrapolation leaves out, move its limit at
# quick by up to 2.7 % of a time and 0.5 % of an error, less than its standard errors; more runs
# need larger sizes.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {6: 12, 8: 12, 12: 12},
    "quick": {16: 40, 24: 36, 32: 30},
    "medium": {24: 200, 32: 150, 48: 80},
    "full": {32: 700, 48: 400, 64: 150},
}


@named_cell("flow_curves")
def curves(*, run: experiment.Experiment, repeats: int, rng: SeedSequence) -> np.ndarray:
    """ICL and IDG error at all times, (2, times, repeats)."""
    arrays = get_backend("numpy")
    training = run.training
    assert isinstance(training, experiment.Flow)
    train = SummaryLaw(arrays, run.problem)
    fresh = SummaryLaw(arrays, run.tests.problem)
    errors = []
    for generator in arrays.generators(rng, repeats, 0):
        task_set = draw_task_set(run.problem, arrays, generator)
        x, h, y = train.draw(generator, run.prompts, task_set)
        start = generator.standard_normal((run.dim, run.dim + 1))
        start *= math.sqrt(training.start_variance / run.dim)
        gammas = flow_at_times(x, h, y, start, TIMES, training.ridge)
        icl = [fresh.test_error(generator, gamma, 1, None) for gamma in gammas]
        idg = [train.test_error(generator, gamma, 1, task_set) for gamma in gammas]
        errors.append([icl, idg])
    return np.moveaxis(np.array(errors, dtype=float), 0, -1)


def least(curves: np.ndarray) -> np.ndarray:
    """Time and error of the minimum of the mean curve, (2, repeats), from curves (times, repeats).

    Jackknife: their mean and its standard error are those of the minimum, without the bias that
    goes with the number of runs.
    """
    repeats = curves.shape[1]
    mean = np.mean(curves, axis=1, keepdims=True)
    centre = int(np.clip(np.argmin(mean), AROUND, len(TIMES) - 1 - AROUND))
    near = slice(centre - AROUND, centre + AROUND + 1)
    without = (repeats * mean - curves) / (repeats - 1)
    together = np.concatenate([mean, without], axis=1)[near]
    offsets = np.log(np.array(TIMES[near]) / TIMES[centre])
    polynomials = np.polynomial.polynomial.polyfit(offsets, together, 4)
    place = np.zeros(repeats + 1)
    # Newton's method; the start is within a step of the grid.
    for _ in range(8):
        place -= _value(polynomials, place, 1) / _value(polynomials, place, 2)
    minima = np.array([TIMES[centre] * np.exp(place), _value(polynomials, place, 0)])
    return repeats * minima[:, :1] - (repeats - 1) * minima[:, 1:]


def _value(polynomials: np.ndarray, place: np.ndarray, order: int) -> np.ndarray:
    """Derivative of this order of each polynomial, (coefficients, polynomials), at its place."""
    derived = np.polynomial.polynomial.polyder(polynomials, order)
    return np.sum(derived * place ** np.arange(len(derived))[:, None], axis=0)


def minima(curves: np.ndarray) -> np.ndarray:
    """Times and errors of the minima of both errors, (4, repeats)."""
    return np.concatenate([least(curves[0]), least(curves[1])])


def rows(effort: Effort) -> Rows:
    """Best times and errors in infinite dimension; the third setting takes more than quick has."""
    settings = effort.pick(tiny=SETTINGS[1:], quick=SETTINGS[:2], medium=SETTINGS)
    for setting in settings:
        name = " ".join(f"{key}={value:g}" for key, value in setting.items())
        point = experiment.Point(**setting, time=1.0)
        theories: dict[str, Any] = {}
        for objective in ("icl", "idg"):
            best = call(optimal_stopping, **setting, objective=objective)
            theories[f"best time {objective} {name}"] = best.time
            theories[f"least error {objective} {name}"] = best.error
        runs = {
            dim: call(minima, run(curves, run=point.at(dim), repeats=count))
            for dim, count in effort.by_size(**REPEATS).items()
        }
        yield limit(theories, runs, order=1, about=f"best stopping {name}")


claim = Claim.of("best-stopping", __doc__, rows, figure=False)
