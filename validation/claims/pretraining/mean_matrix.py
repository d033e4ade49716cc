"""The mean matrix that pretraining finds is the population solution at the effective ridge.

The component of simulated matrices along the predicted mean, in units of it, extrapolates to 1 in
infinite dimension: for fresh tasks, for few tasks, and for tasks and inputs of two variances, with
fewer and with more prompts than entries.

Source: Deterministic equivalent of ridge regression; derived in the documentation.
"""

from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.pretraining import expected_gamma
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.prompts.summaries import SummaryLaw
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, limit, run

# Ratios, label noise and ridge; tasks over dimension, 0 for a fresh task in every prompt.
POINTS: dict[str, dict[str, float]] = {
    "fresh tasks": {"tau": 2.0, "alpha": 2.0, "kappa": 0.0, "rho": 0.1, "ridge": 0.1},
    "few tasks": {"tau": 0.5, "alpha": 2.0, "kappa": 0.5, "rho": 0.2, "ridge": 0.3},
    "two variances": {"tau": 3.0, "alpha": 1.0, "kappa": 0.0, "rho": 0.1, "ridge": 0.05},
}
# Name of the point with structured tasks and inputs.
STRUCTURED = "two variances"
# Variances of tasks and of inputs, each for half of the directions.
LEVELS = {"task_covariance": (1.6, 0.4), "input_covariance": (0.6, 1.4)}
# Trained matrices by dimension.  From d = 12 on the components are a straight line in 1/d, as 400
# to 60 matrices at d = 12 to 32 show.
REPEATS = {12: 160, 20: 40, 32: 20}


@named_cell("components")
def components(
    *,
    dim: int,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    ridge: float,
    structured: bool,
    count: int,
    rng: SeedSequence,
) -> np.ndarray:
    """Component of matrices along their predicted mean, in units of it, (count,)."""
    device = get_backend("numpy")
    context = round(alpha * dim)
    prompts = round(tau * dim**2)
    levels: dict[str, Any] = {
        name: np.repeat(pair, dim // 2) for name, pair in LEVELS.items() if structured
    }
    law = SummaryLaw(device, Problem(dim, context, noise_variance=rho, **levels))
    size: dict[str, Any] = {"context": context, "prompts": prompts, "rho": rho, "ridge": ridge}
    ratios = []
    for generator in device.generators(rng, count):
        tasks = law.fresh_tasks(generator, round(kappa * dim)) if kappa else None
        given = levels if tasks is None else {"tasks": tasks}
        mean = expected_gamma(**size, dim=dim, **given)
        gamma = solve_ridge(*law.draw(generator, prompts, tasks), ridge).gamma
        ratios.append(np.sum(gamma * mean) / np.sum(mean**2))
    return np.array(ratios)


def rows(effort: Effort) -> Rows:
    """The components, extrapolated."""
    for name, point in POINTS.items():
        cell = {**point, "structured": name == STRUCTURED}
        runs = {
            dim: run(components, dim=dim, count=effort(count), **cell)
            for dim, count in REPEATS.items()
        }
        yield limit(
            {f"matrix along its mean, {name}": 1.0},
            runs,
            order=1,
            of=["expected_gamma"],
            draws=name,
            fit_label=f"chi-square, {name}",
            name=name.capitalize(),
        )


claim = Claim.of("mean-matrix", __doc__, rows, figure=False)
