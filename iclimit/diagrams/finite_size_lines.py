"""Finite-size predictions along curves, at as many integers as a line needs."""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm.auto import tqdm

from iclimit.diagrams.axes import Scale
from iclimit.diagrams.quantities import Quantity
from iclimit.diagrams.simulated_points import moved_to_integers, prediction_cell
from iclimit.diagrams.simulation import Simulation
from iclimit.results import Estimate, Result
from iclimit.runs.execution import run_cells

_POINTS = 25
"""Points of a line, fewer where they have the same integers."""

_DRAWS = 160
"""Task sets for a prediction, times d: it scatters by about the width of its line."""

_STEPS = 0.5 ** np.arange(1, 7)
"""Points beside the interpolation threshold, as shares of it: the prediction diverges there."""


@dataclass(frozen=True, repr=False)
class SizedPrediction(Result):
    """A quantity, predicted at one size.

    Attributes
    ----------
    parameters : dict
        The dimension, and the parameters that its integers stand for.
    estimate : Estimate
        Its standard error comes from drawing task sets.
    """

    parameters: dict[str, Any]
    estimate: Estimate


def predict_lines(
    quantity: Quantity,
    x: str,
    grid: np.ndarray,
    family: Sequence[Mapping[str, float]],
    simulation: Simulation,
) -> list[list[SizedPrediction]]:
    """Predictions along each curve of a family for the largest size of a simulation.

    Predictions that fail, or that are not finished in time, are left out.
    """
    dim = simulation.sizes[-1]
    draws = 2 ** math.ceil(math.log2(max(1, _DRAWS / dim)))
    lines = []
    for parameters in family:
        ridgeless = x == "tau" and parameters.get("ridge", 0.0) == 0
        points = [{**parameters, x: at} for at in _places(grid, dim, ridgeless).tolist()]
        cells = [prediction_cell(each, dim, draws, quantity.structure) for each in points]
        lines.append(dict(zip(cells, points, strict=True)))
    names = ("rng", "jobs", "backend", "scheduler", "store", "time_limit")
    where: dict[str, Any] = {name: getattr(simulation, name) for name in names}
    wanted = list(dict.fromkeys(itertools.chain(*lines)))
    predictions = {}
    progress = {"disable": not simulation.progress, "unit": "cell", "desc": "predicting"}
    for outcome in tqdm(run_cells(wanted, **where), total=len(wanted), **progress):
        if not isinstance(outcome.result, Exception):
            predictions[outcome.cell] = getattr(outcome.result, quantity.part)
    return [
        [
            SizedPrediction({"dim": dim, **moved_to_integers(at, dim)}, predictions[cell])
            for cell, at in line.items()
            if cell in predictions
        ]
        for line in lines
    ]


def _places(grid: np.ndarray, dim: int, ridgeless: bool) -> np.ndarray:
    """Points along a curve, and if it passes the interpolation threshold those around that."""
    grid = np.unique(grid[np.isfinite(grid)])
    if grid.size < 2:
        return grid
    places = Scale(grid).value(np.linspace(0, 1, _POINTS))
    if ridgeless:
        threshold = (dim + 1) / dim  # n = d (d + 1)
        beside = threshold * np.concatenate([[1.0], 1 - _STEPS, 1 + _STEPS])
        places = np.concatenate([places, beside[(beside > grid[0]) & (beside < grid[-1])]])
    return np.sort(places)
