"""Values of a quantity at a point, from the runs at one or several sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import FiniteSizeErrors
from iclimit.diagrams.quantities import Quantity
from iclimit.results import Estimate
from iclimit.simulate.pretraining import SimulatedErrors
from iclimit.validation.statistics import extrapolate, z_score

ALLOWANCE = 0.8
"""Relative systematic deviation of the finite-size prediction, times d (see the documentation)."""

LEAST_SIZES = 3
"""Sizes from which simulations are extrapolated to infinite size."""


@dataclass(frozen=True)
class SizedRun:
    """A quantity, simulated at one size.

    Attributes
    ----------
    parameters : dict
        Integers, and the parameters that come out of them.
    estimate : Estimate
        Mean over the repeats.
    prediction : Estimate
        For the same integers; its standard error comes from drawing task sets.
    """

    parameters: dict[str, Any]
    estimate: Estimate
    prediction: Estimate


@dataclass(frozen=True)
class SimulatedValue:
    """A quantity, simulated at one point.

    Attributes
    ----------
    parameters : dict
        The parameters asked for.
    estimate : Estimate
        With three sizes or more the extrapolation to infinite size.  With fewer, and where the
        limit or a prediction is infinite, the mean at the largest size.
    theory : float
        What it is compared with: the limit, or the finite-size prediction at the integers of the
        largest size.
    z : float or None
        Deviation in standard errors, as a normal deviate (Student's t with the degrees of freedom
        of the fewest repeats).  At a single size only what exceeds the known deviation of the
        prediction counts, 0.8/d of it.  None if the theory or the standard error is infinite.
    runs : tuple of SizedRun
        The sizes it comes from.
    """

    parameters: dict[str, float]
    estimate: Estimate
    theory: float
    z: float | None
    runs: tuple[SizedRun, ...] = field(repr=False)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Dimensions that were simulated."""
        return tuple(run.parameters["dim"] for run in self.runs)


def value_at(
    quantity: Quantity,
    parameters: Mapping[str, float],
    results: Sequence[tuple[SimulatedErrors, FiniteSizeErrors]],
) -> SimulatedValue:
    """Value at a point from the runs and predictions there, in the order of their sizes."""
    runs = tuple(_sized(run, predicted, quantity.part) for run, predicted in results)
    sizes = [run.parameters["dim"] for run in runs]
    deviations = np.array([run.estimate.mean - run.prediction.mean for run in runs])
    errors = np.array(
        [math.hypot(run.estimate.standard_error, run.prediction.standard_error) for run in runs]
    )
    limit = float(quantity.evaluate(parameters)) if len(runs) >= LEAST_SIZES else math.inf
    usable = np.isfinite(deviations) & np.isfinite(errors) & (errors > 0)
    if math.isfinite(limit) and np.all(usable):
        fit = extrapolate(sizes, deviations[:, None], (errors**2)[:, None, None], orders=(1, 2))
        error = float(fit.standard_error[0])
        repeats = min(run.estimate.repeats for run in runs)
        estimate = Estimate(limit + float(fit.value[0]), error, repeats)
        theory, allowance = limit, 0.0
    else:
        estimate, theory, error = runs[-1].estimate, runs[-1].prediction.mean, float(errors[-1])
        allowance = ALLOWANCE / sizes[-1] * abs(theory)
    z = None
    if math.isfinite(theory) and math.isfinite(error):
        degrees = max(min(run.estimate.repeats for run in runs) - 1, 1)
        z = z_score(estimate.mean, theory, error, allowance, degrees)
    return SimulatedValue(dict(parameters), estimate, theory, z, runs)


def _sized(run: SimulatedErrors, predicted: FiniteSizeErrors, part: str) -> SizedRun:
    """One of the errors or their gap, in the run and in the prediction."""
    parameters = dict(run.parameters)
    if "test_context" in parameters:
        parameters["test_alpha"] = parameters["test_context"] / parameters["dim"]
    if part != "gap":
        return SizedRun(parameters, getattr(run, part), getattr(predicted, part))
    icl, idg = predicted.icl, predicted.idg
    difference = icl.mean - idg.mean if math.isfinite(icl.mean) else math.inf
    error = math.hypot(icl.standard_error, idg.standard_error)
    return SizedRun(parameters, run.gap, Estimate(difference, error, icl.repeats))
