"""Steps of gradient descent at settings that the seed draws.

For contexts, dimensions, inputs, noise, rates and preconditioning drawn from wide ranges, the
simulated losses of one step, of two steps and of two layers of GD++ equal the exact ones.  So do
those of a step with a matrix, on inputs and tasks with any covariances.  Errors of pretrained
attention after steps at test time extrapolate to the limit.  Another seed draws other settings.

Source: {vonoswald2023}, Proposition 1 and GD++; exact losses: documentation.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.depth import test_time_errors
from iclimit.asymptotics.descent import (
    learning_rate_loss,
    optimal_learning_rate,
    optimal_schedule,
    preconditioner_loss,
    schedule_loss,
)
from iclimit.asymptotics.gdpp import gdpp_loss
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.depth import simulate_test_time
from iclimit.simulate.descent import (
    estimate_learning_rate,
    simulate_learning_rate,
    simulate_schedule,
)
from iclimit.simulate.gdpp import simulate_gdpp
from iclimit.simulate.prompts import draw_prompts
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows
from iclimit.validation.claims.random_settings import (
    Pair,
    RandomLimit,
    RandomSetting,
    describe,
    pair_rows,
    random_limit,
    random_rows,
)

# Laws of the inputs.
LAWS = ("gaussian", "uniform", "rademacher", "laplace")
# Least and largest dimension.
DIMS = (3, 10)
# Pairs over dimension, for one step.
FEW = (0.8, 4.0)
# Pairs over dimension, for more steps: in short contexts rare losses would carry their mean.
MANY = (3.0, 6.0)
# Rates over the optimal ones.
RATES = (0.5, 1.1)
# Strength of preconditioning.
GAMMAS = (0.0, 0.15)
# Ratio of the noise.
NOISE = (0.0, 0.3)

# Relative difference of what is computed prompt by prompt.
ROUNDING = 1e-9
# Numbers of steps of pretrained attention at test time.
TEST_STEPS = (1, 3)
# Test contexts of each pretraining.
CONTEXTS = 5
# Pretrainings by dimension.
PRETRAININGS = {16: 150, 24: 100, 40: 40, 64: 40}


def sizes(generator: np.random.Generator, ratio: tuple[float, float]) -> dict[str, int]:
    """Context and dimension."""
    dim = int(generator.integers(DIMS[0], DIMS[1] + 1))
    return {"context": max(2, round(generator.uniform(*ratio) * dim)), "dim": dim}


@named_cell("random_step")
def random_step(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:  # noqa: ARG001
    """Loss of one step from simulated tasks with labels."""
    where, runs = rng.spawn(2)
    generator = np.random.default_rng(where)
    setting: dict[str, Any] = sizes(generator, FEW)
    setting |= {
        "input_law": str(generator.choice(LAWS)),
        "task_variance": float(generator.uniform(0.5, 2.0)),
        "noise_variance": float(generator.uniform(0.0, 2.0)),
    }
    rate = float(optimal_learning_rate(**setting).rate * generator.uniform(*RATES))
    simulated = simulate_learning_rate(**setting, contexts=repeats, rng=runs)
    values = {"loss": (float(learning_rate_loss(rate, **setting)), simulated.loss(rate))}
    return RandomSetting(describe(setting | {"rate": rate}), values)


@named_cell("random_layers")
def random_layers(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:  # noqa: ARG001
    """Losses of two steps, and of two layers of GD++, on simulated contexts."""
    where, *seeds = rng.spawn(3)
    generator = np.random.default_rng(where)
    setting: dict[str, Any] = sizes(generator, MANY)
    setting["noise_ratio"] = float(generator.uniform(*NOISE))
    rates = optimal_schedule(steps=2, **setting).rates * generator.uniform(*RATES, size=2)
    gammas = (float(generator.uniform(*GAMMAS)),)
    steps = simulate_schedule([rates], **setting, contexts=repeats, rng=seeds[0])
    layers = simulate_gdpp(rates, gammas, **setting, contexts=repeats, rng=seeds[1])
    values = {
        "two steps": (float(schedule_loss(rates, **setting)), steps.losses[0]),
        "two layers": (float(gdpp_loss(rates, gammas=gammas, **setting)), layers.loss),
    }
    words = describe(setting | {"rates": rates.round(4).tolist(), "gamma": gammas[0]})
    return RandomSetting(words, values)


@named_cell("rate_by_hand")
def rate_by_hand(*, rng: SeedSequence) -> list[Pair]:
    """Rate estimated from a few prompts, its standard error and a loss, prompt by prompt."""
    where, prompts = rng.spawn(2)
    generator = np.random.default_rng(where)
    device = get_backend("numpy")
    size: dict[str, Any] = sizes(generator, FEW)
    law = Problem(**size, noise_variance=0.5, scale=1)
    drawn = draw_prompts(law, device, np.random.default_rng(prompts), 40)
    pairs = zip(drawn.inputs, drawn.labels, drawn.query, strict=True)
    g = np.array([query @ inputs.T @ labels / len(labels) for inputs, labels, query in pairs])
    y = drawn.query_label
    estimated = estimate_learning_rate(drawn)
    rate = np.sum(g * y) / np.sum(g**2)
    error = math.sqrt(np.sum(g**2 * (y - rate * g) ** 2)) / np.sum(g**2)
    losses = (y - 0.7 * rate * g) ** 2
    estimated_loss = estimated.loss(0.7 * rate)
    scatter = float(np.std(losses, ddof=1)) / math.sqrt(losses.size)
    return [
        ("rate of a few prompts", float(rate), estimated.rate.mean, ROUNDING),
        ("standard error of the rate", error, estimated.rate.standard_error, ROUNDING),
        ("loss of a few prompts", float(np.mean(losses)), estimated_loss.mean, ROUNDING),
        ("standard error of the loss", scatter, estimated_loss.standard_error, ROUNDING),
    ]


@named_cell("random_matrix")
def random_matrix(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:  # noqa: ARG001
    """Loss of a step with a drawn matrix, on inputs and tasks with drawn covariances."""
    where, prompts = rng.spawn(2)
    generator = np.random.default_rng(where)
    device = get_backend("numpy")
    size: dict[str, Any] = sizes(generator, FEW)
    roots = generator.standard_normal((3, size["dim"], size["dim"])) / math.sqrt(size["dim"])
    S, W, A = roots @ np.swapaxes(roots, 1, 2)
    noise = float(generator.uniform(0.0, 2.0))
    law = {"input_covariance": S, "task_covariance": W, "noise_variance": noise}
    theory = preconditioner_loss(0.3 * A, context=size["context"], **law)
    problem = Problem(**size, **law, scale=1)
    drawn = draw_prompts(problem, device, np.random.default_rng(prompts), repeats)
    summary = np.einsum("ni,nid->nd", drawn.labels, drawn.inputs) / size["context"]
    errors = np.einsum("nd,de,ne->n", drawn.query, 0.3 * A, summary) - drawn.query_label
    loss = Estimate.of(errors**2, keep=False)
    return RandomSetting(describe(size | {"noise_variance": noise}), {"loss": (theory, loss)})


@named_cell("drawn_steps")
def drawn_steps(*, counts: Sequence[tuple[int, int]], rng: SeedSequence) -> RandomLimit:
    """Errors after some steps for ratios, noise and dampening that are drawn.

    Ratios are eighths: sizes that 8 divides have them exactly.
    """
    where, *seeds = rng.spawn(1 + len(counts))
    generator = np.random.default_rng(where)
    learner: dict[str, Any] = {
        "noise_variance": float(generator.uniform(0.05, 0.5)),
        "dampening": float(generator.uniform(0.4, 0.8)),
    }
    alpha, tau = (generator.integers((12, 24), (49, 65)) / 8).tolist()
    setting = {"alpha": alpha, "tau": tau, **learner}
    errors = test_time_errors(**setting, steps=max(TEST_STEPS))
    options: dict[str, Any] = {"steps": max(TEST_STEPS), "contexts": CONTEXTS, "target": "weights"}
    runs = {}
    for (dim, count), seed in zip(counts, seeds, strict=True):
        size: dict[str, Any] = {"dim": dim, "context": round(alpha * dim)}
        size |= {"prompts": round(tau * dim), "repeats": count}
        steps = simulate_test_time(**size, **learner, **options, rng=seed)
        runs[dim] = np.median(steps.errors, axis=1).T[list(TEST_STEPS)]
    return RandomLimit(
        describe(setting), {f"{k} steps": float(errors[k]) for k in TEST_STEPS}, runs
    )


def rows(effort: Effort) -> Rows:
    """One step, two steps and two layers at every drawn setting."""
    yield from random_rows(effort, "one step", random_step, 20_000, {"loss": "learning_rate_loss"})
    yield from pair_rows(rate_by_hand)
    of = {"loss": "preconditioner_loss"}
    yield from random_rows(effort, "preconditioned step", random_matrix, 20_000, of)
    of = {"two steps": "schedule_loss", "two layers": "gdpp_loss"}
    yield from random_rows(effort, "more steps", random_layers, 10_000, of)
    of = dict.fromkeys((f"{k} steps" for k in TEST_STEPS), "test_time_errors")
    yield from random_limit(effort, "test time", drawn_steps, PRETRAININGS, of, order=2)


claim = Claim.of("random-steps", __doc__, rows, figure=False)
