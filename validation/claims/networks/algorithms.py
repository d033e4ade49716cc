"""The algorithms that models are compared with have the losses that theory gives them.

On drawn prompts the predictors behind ``iclimit.probe`` have the exact mean losses: steps of
gradient descent, GD++, ridge regression with a penalty, with none and with an estimated noise
level, the Bayes mixture of noise levels, the gated delta rule, softmax heads, the lasso without a
penalty, and the mean label, which nearest neighbours and a smoother are for all pairs.  So has
regression at every position, and dMMSE is there what it is after the whole context.  On a few
prompts with drawn settings the answers are those of their definitions, prompt by prompt.

Source: losses in the documentation of each function.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy.stats import multivariate_normal

from iclimit.asymptotics.descent import schedule_loss
from iclimit.asymptotics.gdpp import adaptive_ridge_loss, gdpp_loss, ridge_risk
from iclimit.asymptotics.recurrent import recurrent_errors
from iclimit.asymptotics.softmax import softmax_loss
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.probing import predictors, prefixes
from iclimit.simulate.prompts import Prompts, draw_prompts
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, mean, run
from iclimit.validation.claims.random_settings import Pair, pair_rows

DIM, CONTEXT, NOISE = 4, 10, 0.5
SIZE: dict[str, Any] = {"context": CONTEXT, "dim": DIM}
BLOCK = 2000
RATES, GAMMAS = (0.9, 0.6), (0.12,)
PENALTY = 0.8
STEPS, GATE = tuple(np.linspace(0.25, 0.1, CONTEXT).tolist()), 0.97
TEMPERATURE, VALUE = 0.4, 1.2
# Positions of regression without and with a penalty: fewer pairs than dimensions, and more.
POSITIONS = (2, 8)
# Tasks of dMMSE, and the relative difference of its last position from the whole context.
TASKS, ROUNDING = 5, 1e-10
# Prompts that are answered by hand, too, and the relative difference.
FEW, BY_HAND = 3, 1e-8
# Pairs after which a position is answered.
EARLY = 6

ANSWERS: dict[str, Callable[[Prompts], np.ndarray]] = {
    "two steps": predictors.linear_predictor(
        lambda prompts: predictors.gdpp_weights(prompts, RATES, (0.0,))
    ),
    "two layers of GD++": predictors.linear_predictor(
        lambda prompts: predictors.gdpp_weights(prompts, RATES, GAMMAS)
    ),
    "ridge regression": predictors.linear_predictor(
        lambda prompts: predictors.regression_weights(prompts, PENALTY)
    ),
    "least squares": predictors.linear_predictor(
        lambda prompts: predictors.regression_weights(prompts, 0.0)
    ),
    "estimated noise level": predictors.linear_predictor(
        lambda prompts: predictors.adaptive_ridge_weights(prompts, 1.0)
    ),
    "noise level known": predictors.linear_predictor(
        lambda prompts: predictors.noise_mixture_weights(
            prompts, np.array([NOISE, 1e9]), np.array([1.0, 1e-12]), 1.0
        )
    ),
    "gated delta rule": predictors.linear_predictor(
        lambda prompts: predictors.delta_rule_weights(prompts, STEPS, GATE)
    ),
    "lasso without a penalty": predictors.linear_predictor(
        lambda prompts: predictors.lasso_weights(prompts, 0.0)
    ),
    "softmax head": lambda prompts: predictors.softmax_heads(prompts, TEMPERATURE, VALUE),
    "two softmax heads": lambda prompts: predictors.softmax_heads(
        prompts, TEMPERATURE, VALUE, opposite=True
    ),
    "all neighbours": lambda prompts: predictors.nearest_neighbours(prompts, CONTEXT),
    "smoother": lambda prompts: predictors.gaussian_smoother(prompts, 1e9),
}
# Functions of the theory behind algorithms other than ridge regression.
FUNCTIONS = {
    **{"two steps": "schedule_loss", "two layers of GD++": "gdpp_loss"},
    **{"softmax head": "softmax_loss", "two softmax heads": "softmax_loss"},
    **{"gated delta rule": "recurrent_errors.error", "all neighbours": "", "smoother": ""},
    "estimated noise level": "adaptive_ridge_loss",
}


@named_cell("losses")
def losses(*, blocks: int, rng: SeedSequence) -> dict[str, np.ndarray]:
    """Mean losses of all algorithms on blocks of prompts, and the difference of dMMSE."""
    law = Problem(DIM, CONTEXT, noise_variance=NOISE, scale=1)
    device = get_backend("numpy")
    found: dict[str, list[float]] = {}
    for generator in device.generators(rng, blocks):
        drawn = draw_prompts(law, device, generator, BLOCK)
        inputs = prefixes.all_inputs(drawn)
        targets = np.einsum("nd,npd->np", drawn.tasks, inputs)
        for name, predict in ANSWERS.items():
            answers = predictors.in_blocks(predict, BLOCK)(drawn)
            found.setdefault(name, []).append(np.mean((answers - targets[:, -1]) ** 2))
        for name, penalty in (("least squares", 0.0), ("ridge regression", NOISE)):
            errors = np.mean((prefixes.prefix_regression(drawn, penalty) - targets) ** 2, axis=0)
            for position in POSITIONS:
                found.setdefault(f"{name}, position {position}", []).append(errors[position])
        tasks = generator.standard_normal((TASKS, DIM))
        known = np.sum(predictors.dmmse_weights(drawn, tasks) * drawn.query, axis=1)
        difference = np.max(np.abs(prefixes.prefix_dmmse(drawn, tasks)[:, -1] - known))
        found.setdefault("dMMSE", []).append(difference)
    return {name: np.array(each) for name, each in found.items()}


def theories() -> dict[str, float]:
    """Losses by theory, where those of ridge regression are halves, or halves above the least."""
    noise: dict[str, Any] = {"noise_variance": NOISE, "dim": DIM}
    schedule: dict[str, Any] = {**SIZE, "noise_ratio": NOISE / CONTEXT}
    delta: dict[str, Any] = {**SIZE, "rho": NOISE / DIM, "readout": 1.0, "gates": GATE}
    steps = tuple(DIM * step for step in STEPS)
    least, ridge = (
        [2 * float(ridge_risk(penalty, context=count, **noise)) for count in (*POSITIONS, CONTEXT)]
        for penalty in (0.0, NOISE)
    )
    heads = [
        float(softmax_loss(TEMPERATURE, value=VALUE, heads=count, **SIZE, noise_variance=NOISE))
        for count in (1, 2)
    ]
    label = DIM + (DIM + NOISE) / CONTEXT  # of the mean label
    adaptive = adaptive_ridge_loss(f"fixed:{math.sqrt(NOISE)!r}", **SIZE)
    gated = recurrent_errors("gated-delta", step_sizes=steps, **delta).error[-1]
    positions = {
        f"{name}, position {position}": value
        for name, values in (("least squares", least), ("ridge regression", ridge))
        for position, value in zip(POSITIONS, values, strict=False)
    }
    return positions | {
        "two steps": DIM * float(schedule_loss(RATES, **schedule)),
        "two layers of GD++": DIM * float(gdpp_loss(RATES, gammas=GAMMAS, **schedule)),
        "ridge regression": 2 * float(ridge_risk(PENALTY, context=CONTEXT, **noise)),
        "least squares": least[-1],
        "lasso without a penalty": least[-1],
        "noise level known": ridge[-1],
        "estimated noise level": 2 * adaptive + ridge[-1],
        "gated delta rule": DIM * float(gated) - NOISE,
        "softmax head": heads[0],
        "two softmax heads": heads[1],
        "all neighbours": label,
        "smoother": label,
    }


@named_cell("by_hand")
def by_hand(*, rng: SeedSequence) -> list[Pair]:
    """Answers to a few prompts, and what the definitions of the algorithms say of each."""
    generator = np.random.default_rng(rng)
    device = get_backend("numpy")
    law = Problem(DIM, CONTEXT, noise_variance=NOISE, scale=1)
    drawn = draw_prompts(law, device, generator, FEW)
    width, penalty, gate, task_variance = generator.uniform(
        (0.5, 0.2, 0.8, 0.5), (2, 2, 1, 2)
    ).tolist()
    neighbours = int(generator.integers(2, 5))
    steps = generator.uniform(0.05, 0.2, CONTEXT)
    factor = generator.standard_normal((DIM, DIM))
    root = factor @ factor.T / DIM
    levels = generator.uniform(0.05, 3, 3)
    chances = generator.dirichlet(np.ones(3))
    tasks = generator.standard_normal((TASKS, DIM))
    rates = generator.uniform(0.2, 1, 2)

    def ridge(x: np.ndarray, y: np.ndarray, noise: float) -> np.ndarray:
        features = x @ root
        gram = features.T @ features + noise / task_variance * np.eye(DIM)
        return np.asarray(root @ np.linalg.solve(gram, features.T @ y))

    def mixture(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        prior = task_variance * x @ root @ root.T @ x.T
        laws = [multivariate_normal(cov=prior + level * np.eye(CONTEXT)) for level in levels]
        likelihoods = chances * np.exp([each.logpdf(y) for each in laws])
        weights = [ridge(x, y, level) for level in levels]
        return np.asarray(likelihoods @ weights / np.sum(likelihoods))

    def descent(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        w = np.zeros(DIM)
        for rate in rates:
            w = w + rate / CONTEXT * x.T @ (y - x @ w)
        return w

    def delta(x: np.ndarray, y: np.ndarray, kept: float = gate) -> np.ndarray:
        w = np.zeros(DIM)
        for step, token, label in zip(steps, x, y, strict=False):
            w = kept * w
            w = w + step * (label - token @ w) * token
        return w

    def known(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        weights = np.exp(-np.sum((y - tasks @ x.T) ** 2, axis=1) / (2 * NOISE))
        return np.asarray(weights @ tasks / np.sum(weights))

    def smoothed(x: np.ndarray, y: np.ndarray, query: np.ndarray) -> float:
        weights = np.exp(-np.sum((x - query) ** 2, axis=1) / (2 * width**2))
        return float(weights @ y / np.sum(weights))

    def nearest(x: np.ndarray, y: np.ndarray, query: np.ndarray) -> float:
        order = np.argsort(np.sum((x - query) ** 2, axis=1))
        return float(np.mean(y[order[:neighbours]]))

    options: dict[str, Any] = {"task_root": root}
    linear: dict[str, tuple[np.ndarray, Callable[..., np.ndarray]]] = {
        "ridge regression": (
            predictors.regression_weights(drawn, penalty / task_variance, **options),
            lambda x, y: ridge(x, y, penalty),
        ),
        "noise mixture": (
            predictors.noise_mixture_weights(drawn, levels, chances, task_variance, **options),
            mixture,
        ),
        "two steps": (predictors.gdpp_weights(drawn, rates.tolist(), (0.0,)), descent),
        "gated delta rule": (predictors.delta_rule_weights(drawn, steps, gate), delta),
        "dMMSE": (predictors.dmmse_weights(drawn, tasks), known),
    }
    answers: dict[str, tuple[np.ndarray, Callable[..., Any]]] = {
        "smoother": (predictors.gaussian_smoother(drawn, width), smoothed),
        "neighbours": (predictors.nearest_neighbours(drawn, neighbours), nearest),
    }
    tied = draw_prompts(law, device, generator, 1)
    tied.inputs[:, 1] = tied.inputs[:, 0]
    tied.query[:] = tied.inputs[:, 0]
    closest = float(predictors.nearest_neighbours(tied, 1)[0])
    for name, (weights, define) in linear.items():
        found = np.sum(weights * drawn.query, axis=1)
        answers[name] = found, lambda x, y, query, define=define: define(x, y) @ query
    early = prefixes.prefix_delta_rule(drawn, steps)[:, EARLY]
    answers["delta rule of the first pairs"] = (
        early,
        lambda x, y, _: delta(x[:EARLY], y[:EARLY], 1.0) @ x[EARLY],
    )
    tie = "two nearest at one distance", float(np.mean(tied.labels[0, :2])), closest, BY_HAND
    prompts = list(zip(drawn.inputs, drawn.labels, drawn.query, strict=True))
    return [tie] + [
        (f"{name}, prompt {number + 1}", float(define(*prompt)), float(found[number]), BY_HAND)
        for name, (found, define) in answers.items()
        for number, prompt in enumerate(prompts)
    ]


def rows(effort: Effort) -> Rows:
    """Losses of all algorithms, and dMMSE."""
    found = run(losses, blocks=effort(20))
    values = call(theories)
    functions = dict.fromkeys(ANSWERS, "ridge_risk") | FUNCTIONS
    functions |= {
        f"{name}, position {position}": "ridge_risk"
        for name in ("least squares", "ridge regression")
        for position in POSITIONS
    }
    for name, of in functions.items():
        yield mean(f"loss, {name}", values[name], found[name], of=of, draws="prompts")
    difference = call(np.max, found["dMMSE"])
    label = "dMMSE at the last position less dMMSE"
    yield exact(label, 0.0, difference, allowance=ROUNDING)
    yield from pair_rows(by_hand)


claim = Claim.of("probe-algorithms", __doc__, rows, figure=False)
