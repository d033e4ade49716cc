"""Pretraining errors at settings that the seed draws.

At dimensions from 12 to 24, with ratios, label noise and ridge drawn from their whole range but
for the neighbourhood of the interpolation threshold, simulated ICL and IDG errors equal the
finite-size prediction.  So do those of inputs and tasks with drawn covariances, tested on other
tasks, contexts and noise, and those of gated contexts of tasks that drift and inputs that are
correlated, tested without gates on others.  Another seed draws other settings.

Source: {lu2025}: ICL and IDG error; finite size: documentation.
"""

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.simulate.pretraining import simulate_errors
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows
from iclimit.validation.claims.pretraining.points import with_uncertainty
from iclimit.validation.claims.random_settings import RandomSetting, describe, random_rows

# Range of the context length over the dimension, on a logarithmic scale as the next four.
ALPHA = (0.25, 8.0)
# Range of the number of tasks over the dimension.
KAPPA = (0.25, 4.0)
# Range of the number of prompts over the squared dimension.
TAU = (0.3, 6.0)
# Range of the variance of the label noise.
RHO = (0.01, 1.0)
# Range of the ridge.
RIDGE = (1e-2, 1.0)
# Least and largest dimension.
DIMS = (12, 24)
# Neighbourhood of the interpolation threshold, in tau, that a run without a ridge stays away from.
BESIDE = (0.6, 1.7)
# Task sets of the prediction.
TASK_SETS = 8
# Eigenvalues of covariances, before they have the mean 1.
EIGENVALUES = (0.4, 1.6)
# Range of pairs over dimension of contexts in time.
LONG = (1.0, 3.0)
# Range of the rate of forgetting there.
FORGETTING = (0.1, 1.0)
# Range of the drift of tasks there.
DRIFT = (0.0, 0.5)
# Range of the correlation of neighbouring inputs there.
CORRELATION = (-0.5, 0.7)


def logarithmic(generator: np.random.Generator, low: float, high: float) -> float:
    """A number of a logarithmic law."""
    return float(np.exp(generator.uniform(math.log(low), math.log(high))))


def drawn_setting(generator: np.random.Generator) -> dict[str, Any]:
    """Integers, label noise and ridge, with the ridge 0 half of the time."""
    number = partial(logarithmic, generator)
    dim = int(generator.integers(DIMS[0], DIMS[1] + 1))
    tau = number(*TAU)
    ridge = number(*RIDGE) * int(generator.integers(2))
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


def structured_setting(generator: np.random.Generator) -> dict[str, Any]:
    """Integers, covariances of inputs, tasks and tests, and other test prompts."""
    setting = drawn_setting(generator)
    covariances = generator.uniform(*EIGENVALUES, (3, setting["dim"]))
    covariances /= np.mean(covariances, axis=1, keepdims=True)
    names = ("input_covariance", "task_covariance", "test_covariance")
    return {
        **setting,
        **dict(zip(names, covariances, strict=True)),
        "ridge": logarithmic(generator, *RIDGE),
        "test_context": round(logarithmic(generator, 0.5, 2) * setting["context"]) + 1,
        "test_rho": logarithmic(generator, *RHO),
    }


def timed_setting(generator: np.random.Generator) -> dict[str, Any]:
    """Integers, gates, drift and correlations, and tests without gates."""
    setting = drawn_setting(generator)
    length = round(generator.uniform(*LONG) * setting["dim"])
    ages = np.arange(length - 1, -1, -1) / setting["dim"]
    drift, test_drift = generator.uniform(*DRIFT, 2).tolist()
    correlation, test_correlation = generator.uniform(*CORRELATION, 2).tolist()
    return {
        **setting,
        "context": length,
        "ridge": logarithmic(generator, *RIDGE),
        "gates": np.exp(-generator.uniform(*FORGETTING) * ages),
        "test_gates": np.ones(length),
        "drift": drift,
        "test_drift": test_drift,
        "correlation": correlation,
        "test_correlation": test_correlation,
    }


# Functions that draw a setting, by the kind of the data.
SETTINGS = {
    "pretraining": drawn_setting,
    "structured data": structured_setting,
    "contexts in time": timed_setting,
}


@named_cell("random_point")
def random_point(
    *,
    data: str = "pretraining",
    number: int,  # noqa: ARG001
    repeats: int,
    rng: SeedSequence,
) -> RandomSetting:
    """Simulated and predicted errors at a setting that is drawn."""
    where, runs, sets = rng.spawn(3)
    setting = SETTINGS[data](np.random.default_rng(where))
    simulated = simulate_errors(**setting, repeats=repeats, rng=runs)
    theory = with_uncertainty(finite_size_errors(**setting, draws=TASK_SETS, rng=sets))
    values = {"ICL": (theory.icl, simulated.icl), "IDG": (theory.idg, simulated.idg)}
    numbers = {name: value for name, value in setting.items() if np.ndim(value) == 0}
    return RandomSetting(describe(numbers), values)


def rows(effort: Effort) -> Rows:
    """Both errors at every drawn setting."""
    of = {name: f"finite_size_errors.{name.lower()}" for name in ("ICL", "IDG")}
    for kind in SETTINGS:
        yield from random_rows(effort, kind, random_point, 40, of, data=kind)


claim = Claim.of("random-points", __doc__, rows, figure=False)
