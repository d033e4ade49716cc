"""The best split of a budget of label pairs between prompts and their length.

Error, prompts and ridge of the best split are those that a search among the errors finds, with and
without a ridge, for little and much noise and for few tasks. Simulated runs at the best split have
a lower error than those of the same cost with a third or three times as many prompts, by as much
as predicted.

Source: Derived in the documentation; the errors are those of {lu2025}.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from iclimit.asymptotics.pretraining import compute_optimal_pretraining, critical_budget, icl_error
from iclimit.validation.claim import Claim, Effort, Rows, call, exact
from iclimit.validation.claims.pretraining.points import Point, rise

# Budget, label noise, ridge and tasks over dimension.
SETTINGS = (
    (2.0, 0.0, 0.0, math.inf),
    (3.4, 0.1, 0.0, math.inf),
    (50.0, 1.5, 0.0, math.inf),
    (0.5, 0.1, "optimal", math.inf),
    (1000.0, 0.3, "optimal", math.inf),
    (20.0, 0.1, "optimal", 2.0),
    (20.0, 0.1, 0.05, 0.7),
)
# Relative accuracy of the least error: a search finds it to rounding.
VALUE = 1e-9
# Relative accuracy of its place, which a search finds to half the digits.
PLACE = 1e-4
# Center of the first grid, in log tau and log ridge.
CENTER = (1.0, -2.0)
# Half the width of the first grid.
WIDTH = 6.0
# Width of a grid over that of the grid before.
FINER = 0.1
# Number of grids.
GRIDS = 7
# Points of a grid, from its center in units of the width.
OFFSETS = np.linspace(-1, 1, 31)
# Noise levels of the critical budget.
NOISES = (0.0, 0.2, 0.8)
# Budgets between which the critical one lies.
BRACKET = (2.0, 4.5)
# Ranges of log tau below and above the jump.
SIDES = ((-12.0, -1e-3), (1e-3, 12.0))
# The best of whole sizes with this ridge.
BEST = Point(tau=2, alpha=4, kappa=math.inf, rho=0.1, ridge=0.2)
# Prompts of its neighbours of the same cost, over its own.
FACTORS = (1 / 3, 3)
# Dimension of the runs.
DIM = 12
# Repeats of the runs.
REPEATS = 100


def searched(budget: float, rho: float, ridge: float | None, kappa: float) -> dict[str, float]:
    """Least error over splits and ridges: the best of a grid, then of finer grids around it."""
    free = ridge == "optimal"
    center = CENTER
    width = WIDTH
    for _ in range(GRIDS):
        tau = np.exp(center[0] + width * OFFSETS)
        ridges = np.exp(center[1] + width * OFFSETS)
        given: dict[str, Any] = {
            "tau": tau[:, None],
            "alpha": budget / tau[:, None],
            "kappa": kappa,
            "rho": rho,
        }
        errors = icl_error(**given, ridge=ridges if free else np.array([ridge]))
        row, column = np.unravel_index(np.argmin(errors), errors.shape)
        center = math.log(tau[row]), math.log(ridges[column])
        width = FINER * width
    fields = {"error": errors[row, column], "tau": tau[row]}
    return fields | ({"ridge": ridges[column]} if free else {})


def crossing(rho: float) -> float:
    """Budget at which the least errors on both sides of tau = 1 are equal, without a ridge."""

    def difference(budget: float) -> float:
        def error(log_tau: float) -> float:
            tau = math.exp(log_tau)
            return icl_error(tau=tau, alpha=budget / tau, kappa=math.inf, rho=rho)

        low = minimize_scalar(error, bounds=SIDES[0], method="bounded").fun
        high = minimize_scalar(error, bounds=SIDES[1], method="bounded").fun
        return low - high

    return brentq(difference, *BRACKET)


def rows(effort: Effort) -> Rows:
    """Searches, the jump, and simulated splits of one budget."""
    for budget, rho, ridge, kappa in SETTINGS:
        given: dict[str, Any] = {"budget": budget, "rho": rho, "ridge": ridge, "kappa": kappa}
        best = call(compute_optimal_pretraining, **given)
        search = call(searched, **given)
        where = " ".join(f"{name}={value}" for name, value in given.items())
        names = ["error", "tau"]
        if ridge == "optimal":
            names.append("ridge")
        for name in names:
            accuracy = VALUE if name == "error" else PLACE
            yield exact(f"{name} {where}", getattr(best, name), search[name], relative=accuracy)
    for rho in NOISES:
        theory = call(critical_budget, rho)
        value = call(crossing, rho)
        yield exact(f"critical budget rho={rho}", theory, value, relative=PLACE)
    for factor in FACTORS:
        other = replace(BEST, tau=BEST.tau * factor, alpha=BEST.alpha / factor)
        label = f"error of tau={other.tau:.3g} over that of the best split {BEST}, d={DIM}"
        yield rise(label, BEST, other, DIM, effort(REPEATS))


claim = Claim.of("budget", __doc__, rows, figure=False)
