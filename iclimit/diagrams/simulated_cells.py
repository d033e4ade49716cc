"""Integers at which a point is simulated: the run, and the prediction for the same integers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.diagrams.structure import Structure
from iclimit.runs.cell import Cell
from iclimit.simulate.pretraining import simulate_errors

_PREDICTION_DRAWS = 1000
"""Least number of task sets for a prediction, times d: its spread shrinks as 1/d."""

_ROUNDING = 0.1
"""Largest relative deviation of a parameter from integers over powers of d at which a point is
extrapolated.  Beyond it the finite-size effects are no power series in 1/d."""

_POWERS = {
    "tau": ("prompts", 2),
    "alpha": ("context", 1),
    "kappa": ("tasks", 1),
    "test_alpha": ("test_context", 1),
}
"""Parameters of the limit, with the integer that each is over a power of d."""


def integers_at(parameters: Mapping[str, float], dim: int) -> dict[str, Any]:
    """Integers next to the parameters; infinitely many where a parameter is infinite."""
    integers: dict[str, Any] = {"dim": dim}
    for name, (integer, power) in _POWERS.items():
        if name in parameters:
            value = parameters[name] * dim**power
            integers[integer] = value if math.isinf(value) else max(1, round(value))
    return integers


def can_be_extrapolated(parameters: Mapping[str, float], sizes: Sequence[int]) -> bool:
    """Whether integers at these sizes are near the parameters, on their side of the threshold.

    Without a ridge the threshold is n = d (d + 1), tau = 1 in the limit.
    """
    near = True
    sides = {np.sign(parameters["tau"] - 1)}
    for dim in sizes:
        integers = integers_at(parameters, dim)
        sides.add(np.sign(integers["prompts"] - dim * (dim + 1)))
        for name, (integer, power) in _POWERS.items():
            if math.isfinite(parameters.get(name, math.inf)):
                exact = parameters[name] * dim**power
                near &= abs(integers[integer] / exact - 1) <= _ROUNDING
    return near and (parameters.get("ridge", 0.0) > 0 or len(sides) == 1)


def cells_at(
    parameters: Mapping[str, float], dim: int, repeats: int, structure: Structure | None = None
) -> tuple[Cell, Cell]:
    """Run and prediction at the integers nearest to the parameters."""
    for name in ("tau", "alpha", "test_alpha"):
        if math.isinf(parameters.get(name, 0.0)):
            raise ValueError(f"{name} must be finite to simulate, got inf")
    arguments = integers_at(parameters, dim)
    arguments |= {"rho": parameters["rho"], "ridge": parameters.get("ridge", 0.0)}
    if "test_rho" in parameters:
        arguments["test_rho"] = parameters["test_rho"]
    if structure is not None:
        arguments |= structure.covariances(dim)
    # Powers of two, so that more repeats seldom need another prediction.
    least = max(repeats, _PREDICTION_DRAWS / dim)
    draws = 1 if math.isinf(parameters["kappa"]) else 2 ** math.ceil(math.log2(least))
    return (
        Cell.of(simulate_errors, **arguments, repeats=repeats),
        Cell.of(finite_size_errors, **arguments, draws=draws),
    )
