"""Mean losses of algorithms on drawn prompts against the losses that theory gives them."""

import math

import numpy as np
import pytest

from iclimit.asymptotics.descent import schedule_loss
from iclimit.asymptotics.gdpp import adaptive_ridge_loss, gdpp_loss, ridge_risk
from iclimit.asymptotics.recurrent import recurrent_errors
from iclimit.asymptotics.softmax import softmax_loss
from iclimit.problem import Problem
from iclimit.simulate.probing import predictors, prefixes
from iclimit.simulate.prompts import sample_prompts

PROMPTS = 40_000
"""Drawn prompts; their means are known to some 0.3 to 2 %."""

SIGMAS = 4.0
"""Standard errors that the worst of 16 means may lie off."""

DIM = 4
CONTEXT = 10
NOISE = 0.5
SIZE = {"context": CONTEXT, "dim": DIM}
RATES = (0.9, 0.6)
GAMMAS = (0.12,)
PENALTY = 0.8
STEPS = np.linspace(0.25, 0.1, CONTEXT)
GATE = 0.97
TEMPERATURE = 0.4
VALUE = 1.2
# A bandwidth at which all pairs have the same weight.
WIDE = 1e9


@pytest.fixture(scope="module")
def drawn():
    law = Problem(DIM, CONTEXT, noise_variance=NOISE, scale=1)
    return sample_prompts(law, PROMPTS, rng=0)


def assert_mean_loss(answers, targets, expected):
    losses = (answers - targets) ** 2
    error = losses.std() / math.sqrt(len(losses))
    assert error < 0.03 * expected
    assert abs(losses.mean() - expected) < SIGMAS * error


def risk(penalty, context=CONTEXT):
    """Loss of ridge regression; that of theory is half as large."""
    return 2 * ridge_risk(penalty, context=context, dim=DIM, noise_variance=NOISE)


def schedules(gammas):
    """Loss of two steps or layers."""
    law = SIZE | {"noise_ratio": NOISE / CONTEXT}
    if any(gammas):
        return DIM * gdpp_loss(RATES, gammas=gammas, **law)
    return DIM * schedule_loss(RATES, **law)


def gated_delta_rule():
    """Loss of the gated delta rule, whose steps are in units of the squared inputs."""
    layer = {"gates": GATE, "step_sizes": DIM * STEPS, "readout": 1.0}
    errors = recurrent_errors("gated-delta", **SIZE, rho=NOISE / DIM, **layer).error
    return DIM * errors[-1] - NOISE


# Weights by the name of the algorithm, with the loss by theory.
WEIGHTS = {
    "two steps": (lambda p: predictors.gdpp_weights(p, RATES, (0.0,)), schedules((0.0,))),
    "two layers of GD++": (lambda p: predictors.gdpp_weights(p, RATES, GAMMAS), schedules(GAMMAS)),
    "ridge regression": (lambda p: predictors.regression_weights(p, PENALTY), risk(PENALTY)),
    "least squares": (lambda p: predictors.regression_weights(p, 0.0), risk(0.0)),
    "estimated noise level": (
        lambda p: predictors.adaptive_ridge_weights(p, 1.0),
        # Theory states halves above the least loss.
        2 * adaptive_ridge_loss(f"fixed:{math.sqrt(NOISE)!r}", **SIZE) + risk(NOISE),
    ),
    "noise level known": (
        lambda p: predictors.noise_mixture_weights(
            p, np.array([NOISE, 1e9]), np.array([1.0, 1e-12]), 1.0
        ),
        risk(NOISE),
    ),
    "gated delta rule": (
        lambda p: predictors.delta_rule_weights(p, STEPS, GATE),
        gated_delta_rule(),
    ),
    "lasso without a penalty": (lambda p: predictors.lasso_weights(p, 0.0), risk(0.0)),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights(drawn, name):
    weights, expected = WEIGHTS[name]
    predict = predictors.in_blocks(predictors.linear_predictor(weights), 2000)
    assert_mean_loss(predict(drawn), drawn.target, expected)


@pytest.mark.parametrize("heads", [1, 2])
def test_softmax_heads(drawn, heads):
    answers = predictors.softmax_heads(drawn, TEMPERATURE, VALUE, opposite=heads == 2)
    expected = softmax_loss(TEMPERATURE, value=VALUE, heads=heads, **SIZE, noise_variance=NOISE)
    assert_mean_loss(answers, drawn.target, expected)


@pytest.mark.parametrize(
    "answer",
    [
        lambda p: predictors.nearest_neighbours(p, CONTEXT),
        lambda p: predictors.gaussian_smoother(p, WIDE),
    ],
    ids=["neighbours", "smoother"],
)
def test_all_pairs_alike_are_the_mean_label(drawn, answer):
    assert_mean_loss(answer(drawn), drawn.target, DIM + (DIM + NOISE) / CONTEXT)


@pytest.mark.parametrize("penalty", [0.0, NOISE])
@pytest.mark.parametrize("position", [2, 8])
def test_regression_at_a_position(drawn, penalty, position):
    """After fewer pairs than dimensions, and after more; few leave rare large errors."""
    answers = prefixes.prefix_regression(drawn, penalty)[:, position]
    targets = np.sum(drawn.tasks * drawn.inputs[:, position], axis=1)
    assert_mean_loss(answers, targets, risk(penalty, context=position))
