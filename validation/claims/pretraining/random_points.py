"""Pretraining errors at settings that the seed draws.

At dimensions from 12 to 24, with ratios, label noise and ridge drawn from their whole range but
for the neighbourhood of the interpolation threshold, simulated ICL and IDG errors equal the
finite-size prediction.  Another seed draws other settings.

Source: {lu2025}: ICL and IDG error; finite size: documentation.
"""

import math
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation.claim import Claim, Effort, Rows
from iclimit.validation.claims.pretraining.points import with_uncertainty
from iclimit.validation.claims.random_settings import RandomSetting, describe, random_rows

# Ranges of a logarithmic law, and prompts over entries of the matrix that a run without a ridge
# stays away from.
ALPHA, KAPPA, TAU = (0.25, 8.0), (0.25, 4.0), (0.3, 6.0)
RHO, RIDGE = (0.01, 1.0), (1e-2, 1.0)
DIMS, BESIDE = (12, 24), (0.6, 1.7)
# Task sets of the prediction.
TASK_SETS = 8


def drawn_setting(generator: np.random.Generator) -> dict[str, Any]:
    """Integers, label noise and ridge, with the ridge 0 half of the time."""

    def number(low: float, high: float) -> float:
        return float(np.exp(generator.uniform(math.log(low), math.log(high))))

    dim = int(generator.integers(DIMS[0], DIMS[1] + 1))
    tau, ridge = number(*TAU), number(*RIDGE) * int(generator.integers(2))
    while not ridge and BESIDE[0] < tau < BESIDE[1]:
        tau = number(*TAU)
    return {
        "dim": dim,
        "context": max(2, round(number(*ALPHA) * dim)),
        "tasks": max(2, round(number(*KAPPA) * dim)),
        "prompts": round(tau * dim**2),
        "rho": number(*RHO),
        "ridge": ridge,
    }


def random_point(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:  # noqa: ARG001
    """Simulated and predicted errors at a setting that is drawn."""
    where, runs, sets = rng.spawn(3)
    setting = drawn_setting(np.random.default_rng(where))
    simulated = simulate_errors(**setting, repeats=repeats, rng=runs)
    theory = with_uncertainty(finite_size_errors(**setting, draws=TASK_SETS, rng=sets))
    values = {"ICL": (theory.icl, simulated.icl), "IDG": (theory.idg, simulated.idg)}
    return RandomSetting(describe(**setting), values)


def rows(effort: Effort) -> Rows:
    """Both errors at every drawn setting."""
    of = {name: f"finite_size_errors.{name.lower()}" for name in ("ICL", "IDG")}
    yield from random_rows(effort, "pretraining", random_point, 40, of)


claim = Claim.of("random-points", __doc__, rows, figure=False)
