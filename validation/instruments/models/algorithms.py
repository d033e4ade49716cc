"""Algorithms that a model is compared with: a row for each, in the order of reports.

A row has all that is known of an algorithm.  Where it has no parameters that are best for a
problem, or none that are fitted, or no form for all positions, those fields are left out.
"""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from iclimit.problem import Problem
from iclimit.simulate.probing.predictors import (
    gaussian_smoother,
    lasso_weights,
    nearest_neighbours,
)
from iclimit.validation.instruments.models import best_parameters, members
from iclimit.validation.instruments.models.algorithm import Algorithm, Parameter, Whole, filtered
from iclimit.validation.instruments.models.best_parameters import NEIGHBOURS, at_each_length
from iclimit.validation.instruments.models.problem_units import ProblemUnits

# Most steps of gradient descent that are told from gradient flow.
MOST_STEPS = 200

# Steps of a delta rule that are tried, for inputs of length 1.
UNIT_STEPS = np.geomspace(0.05, 1.5, 6)

# Gammas of GD++ that are tried, for inputs of variance 1.
GAMMAS = np.linspace(-0.5, 1, 7)[[0, 1, 3, 4, 6]] / 2


def _penalties(units: ProblemUnits) -> Parameter:
    return Parameter(units.problem.context * units.input_variance * np.geomspace(1e-4, 10, 11))


def _few_penalties(units: ProblemUnits) -> Parameter:
    return Parameter(_penalties(units).start[::2])


def _rates(units: ProblemUnits) -> Parameter:
    # Answers vary fast with a rate at which steps diverge.
    rates = np.concatenate([np.geomspace(0.02, 0.3, 5), np.geomspace(0.4, 2, 17)])
    return Parameter(rates / units.input_variance)


def _decays(units: ProblemUnits) -> Parameter:
    return Parameter(np.exp(-1 / (units.problem.context * np.geomspace(1 / 16, 4, 7))), "logit")


def _pairs(units: ProblemUnits) -> Sequence[int]:
    return sorted({round(number) for number in np.geomspace(1, units.problem.context, 8)})


def _temperatures(units: ProblemUnits) -> Parameter:
    return Parameter(np.geomspace(0.02, 2, 7) / units.input_variance)


def _signed_temperatures(units: ProblemUnits) -> Parameter:
    positive = _temperatures(units).start
    return Parameter(np.concatenate([-positive[::-1], positive]), "linear")


def _best_penalty(units: ProblemUnits) -> dict[str, float]:
    """The best penalty, where there is label noise."""
    return {"penalty": units.best_penalty} if units.best_penalty else {}


def _uninformed_penalty(units: ProblemUnits) -> dict[str, float]:
    """The same where the tasks have no covariance."""
    return {} if units.problem.task_covariance is not None else _best_penalty(units)


def _noises(units: ProblemUnits) -> Parameter:
    return Parameter((units.noise_variance or units.signal) * np.geomspace(0.01, 100, 9))


def _true_noise(units: ProblemUnits) -> dict[str, float]:
    return {"noise_variance": units.noise_variance} if units.noise_variance else {}


def _slopes(units: ProblemUnits) -> Parameter:
    return Parameter(np.geomspace(0.1, 10, 7) / math.sqrt(units.signal))


def _feature_scales(units: ProblemUnits) -> Parameter:
    return Parameter(np.geomspace(0.1, 5, 6) / math.sqrt(units.input_variance))


def _is_nonlinear(problem: Problem) -> bool:
    return not problem.has_linear_labels


# Whether the weights of attention are over their sum.
NORMALISED = Whole("normalised", "normalised", "unnormalised", lambda _: (0, 1))

# Whether queries have unit length, beside keys that have.
UNIT_QUERIES = Whole("unit_queries", "unit length", "their own length", lambda _: (0, 1))

# All algorithms.
ROWS = (
    Algorithm("null", "zero", best=best_parameters.best_null, positions=at_each_length),
    Algorithm(
        "averaging", "averaging", best=best_parameters.best_averaging, positions=at_each_length
    ),
    Algorithm(
        "nearest_neighbours",
        f"the mean label of the {NEIGHBOURS} nearest inputs",
        best=best_parameters.nearest_inputs,
        positions=at_each_length,
    ),
    Algorithm(
        "one_step",
        "one gradient step at the best rate",
        best=best_parameters.best_step,
        positions=at_each_length,
    ),
    Algorithm("fixed_step", positions=best_parameters.fixed_step),
    Algorithm(
        "preconditioner",
        "one gradient step with the best preconditioner",
        best=best_parameters.best_preconditioner,
        positions=at_each_length,
    ),
    Algorithm(
        "steps_2",
        "2 gradient steps at the best rates",
        best=partial(best_parameters.best_steps, 2),
        positions=at_each_length,
    ),
    Algorithm(
        "steps_3",
        "3 gradient steps at the best rates",
        best=partial(best_parameters.best_steps, 3),
    ),
    Algorithm(
        "steps_5",
        "5 gradient steps at the best rates",
        best=partial(best_parameters.best_steps, 5),
        positions=at_each_length,
    ),
    Algorithm(
        "gdpp_2",
        "2 layers of GD++ at the best parameters",
        best=partial(best_parameters.best_gdpp, 2),
    ),
    Algorithm(
        "gdpp_3",
        "3 layers of GD++ at the best parameters",
        best=partial(best_parameters.best_gdpp, 3),
    ),
    Algorithm(
        "softmax_1", "the best softmax head", best=partial(best_parameters.best_softmax, 1, 1)
    ),
    Algorithm(
        "softmax_minus",
        "the best softmax head of negative temperature",
        best=partial(best_parameters.best_softmax, 1, -1),
    ),
    Algorithm(
        "softmax_2",
        "the two best opposite softmax heads",
        best=partial(best_parameters.best_softmax, 2, 1),
    ),
    Algorithm(
        "least_squares",
        "least squares",
        best=best_parameters.best_least_squares,
        positions=partial(at_each_length, one_pass=best_parameters.least_squares_pass),
    ),
    Algorithm(
        "ridge",
        "ridge regression with the best penalty",
        best=best_parameters.best_ridge,
        positions=partial(at_each_length, one_pass=best_parameters.ridge_pass),
        words="ridge regression with penalty {penalty}",
        answer=partial(filtered, spectral=members.ridge_filter),
        parameters={"penalty": _penalties},
        contains=("ridge", "least_squares"),
        optimum=_uninformed_penalty,
    ),
    Algorithm(
        "flow",
        words="gradient flow for the time {time}",
        answer=partial(filtered, spectral=members.flow_filter),
        parameters={
            "time": lambda units: Parameter(np.geomspace(0.1, 100, 11) / units.input_variance)
        },
        contains=("least_squares",),
    ),
    Algorithm(
        "descent",
        words="{steps} of rate {rate}",
        answer=partial(filtered, spectral=members.descent_filter),
        parameters={"rate": _rates},
        whole=Whole(
            "steps",
            "one gradient step",
            "{} gradient steps",
            lambda _: (1, 2, 3, 5, 8, 13, 20, 30, 50, 80, 120, MOST_STEPS),
        ),
        contains=("averaging", "one_step", "least_squares"),
        limit="flow",
    ),
    Algorithm(
        "gdpp",
        words="{layers} of rate {rate} and gamma {gamma}",
        answer=partial(filtered, spectral=members.gdpp_filter),
        parameters={
            "rate": _rates,
            "gamma": lambda units: Parameter(GAMMAS / units.input_variance, "linear"),
        },
        whole=Whole("layers", "one layer of GD++", "{} layers of GD++", lambda _: (2, 3, 4, 6)),
        contains=("averaging", "one_step", "least_squares"),
    ),
    Algorithm(
        "recency_ridge",
        words="ridge regression with penalty {penalty} and weights that decay by {decay} a pair",
        answer=members.recency_ridge,
        parameters={"penalty": _few_penalties, "decay": _decays},
        contains=("ridge", "least_squares"),
    ),
    Algorithm(
        "recency_step",
        words="one gradient step of rate {rate} on pairs whose weights decay by {decay} a pair",
        answer=members.recency_step,
        parameters={"decay": _decays},
        factor="rate",
        contains=("averaging", "one_step", "descent"),
        weights=members.recency_weights,
    ),
    Algorithm(
        "last_ridge",
        words="ridge regression with penalty {penalty} on {pairs}",
        answer=members.last_ridge,
        parameters={"penalty": _penalties},
        whole=Whole("pairs", "the last pair", "the last {} pairs", _pairs),
        contains=("ridge", "least_squares"),
    ),
    Algorithm(
        "delta_rule",
        words="the delta rule with step {step}",
        answer=members.delta_rule,
        parameters={
            "step": lambda units: Parameter(np.geomspace(0.02, 1.5, 9) / units.input_square)
        },
        weights=members.delta_weights,
    ),
    Algorithm(
        "gated_delta_rule",
        words=(
            "a gated delta rule with step {step}, a memory that decays by {decay} before each "
            "pair, and answers times {readout}"
        ),
        answer=members.delta_rule,
        parameters={
            "step": lambda units: Parameter(UNIT_STEPS / units.input_square),
            "decay": _decays,
        },
        factor="readout",
        contains=("delta_rule", "recency_step", "averaging", "one_step", "descent"),
        weights=members.delta_weights,
    ),
    Algorithm(
        "unit_delta_rule",
        words=(
            "the delta rule with keys of unit length, queries of {unit_queries}, step {step}, and "
            "answers times {readout}"
        ),
        answer=members.unit_delta_rule,
        parameters={"step": lambda _: Parameter(UNIT_STEPS)},
        whole=UNIT_QUERIES,
        factor="readout",
        weights=members.unit_delta_weights,
    ),
    Algorithm(
        "gated_unit_delta_rule",
        words=(
            "a gated delta rule with keys of unit length, queries of {unit_queries}, step {step}, "
            "a memory that decays by {decay} before each pair, and answers times {readout}"
        ),
        answer=members.unit_delta_rule,
        parameters={"step": lambda _: Parameter(UNIT_STEPS), "decay": _decays},
        whole=UNIT_QUERIES,
        factor="readout",
        contains=("unit_delta_rule",),
        weights=members.unit_delta_weights,
    ),
    Algorithm(
        "lasso",
        words="the lasso with penalty {penalty}",
        answer=lambda examples, penalty: members.linear_answers(
            examples, lasso_weights(examples.prompts, penalty)
        ),
        parameters={
            "penalty": lambda units: Parameter(
                math.sqrt(units.input_variance * units.signal / units.problem.dim)
                * np.geomspace(1e-3, 3, 7)
            )
        },
        contains=("least_squares",),
    ),
    Algorithm(
        "intercept_ridge",
        words="ridge regression with an intercept and penalty {penalty}",
        answer=members.intercept_ridge,
        parameters={"penalty": _penalties},
    ),
    Algorithm(
        "mean_ridge",
        words="ridge regression with penalty {penalty} towards the mean of the given tasks",
        answer=members.mean_ridge,
        parameters={"penalty": _penalties},
        contains=("least_squares",),
        fits=lambda problem: problem.task_set is not None,
    ),
    Algorithm(
        "logistic_readout",
        words=(
            "{value} times the hyperbolic tangent of {slope} times ridge regression with penalty "
            "{penalty}"
        ),
        answer=members.logistic_readout,
        parameters={"penalty": _few_penalties, "slope": _slopes},
        factor="value",
        contains=("ridge", "least_squares"),
        fits=_is_nonlinear,
    ),
    Algorithm(
        "sign_readout",
        "the sign of ridge regression with the best penalty",
        best=best_parameters.sign_of_ridge,
        words="{value} times the sign of {regression}",
        answer=members.sign_readout,
        whole=Whole(
            "regression",
            "ridge regression with the best penalty",
            "one gradient step",
            lambda _: (0, 1),
        ),
        factor="value",
        contains=("sign_readout",),
        fits=_is_nonlinear,
    ),
    Algorithm(
        "elu_attention",
        words=(
            "{normalised} linear attention with features elu + 1 of {feature_scale} times the "
            "inputs, and value {value}"
        ),
        answer=members.elu_attention,
        parameters={"feature_scale": _feature_scales},
        whole=NORMALISED,
        factor="value",
    ),
    Algorithm(
        "relu_attention",
        words="{normalised} linear attention with features relu, and value {value}",
        answer=members.relu_attention,
        whole=NORMALISED,
        factor="value",
    ),
    Algorithm(
        "softmax",
        words="a softmax head of inverse temperature {inverse_temperature} and value {value}",
        answer=members.softmax_head,
        parameters={"inverse_temperature": _signed_temperatures},
        factor="value",
        contains=("softmax_1", "softmax_minus"),
    ),
    Algorithm(
        "opposite_softmax",
        words=(
            "two opposite softmax heads of inverse temperature {inverse_temperature} and value "
            "{value}"
        ),
        answer=partial(members.softmax_head, opposite=True),
        parameters={"inverse_temperature": _temperatures},
        factor="value",
        contains=("softmax_2", "averaging", "one_step", "descent"),
    ),
    Algorithm(
        "gaussian_smoother",
        words="a kernel smoother of bandwidth {bandwidth}",
        answer=lambda examples, bandwidth: gaussian_smoother(examples.prompts, bandwidth),
        parameters={
            "bandwidth": lambda units: Parameter(
                math.sqrt(units.input_square) * np.geomspace(0.1, 3, 7)
            )
        },
        contains=("neighbours",),
    ),
    Algorithm(
        "neighbours",
        words="the mean label of {neighbours}",
        answer=lambda examples, neighbours: nearest_neighbours(examples.prompts, neighbours),
        whole=Whole("neighbours", "the nearest input", "the {} nearest inputs", _pairs),
        contains=("nearest_neighbours",),
    ),
    Algorithm(
        "prior_ridge",
        words="ridge regression with penalty {penalty} under the covariance of the tasks",
        answer=members.prior_ridge,
        parameters={"penalty": _penalties},
        contains=("ridge",),
        optimum=_best_penalty,
        fits=lambda problem: problem.task_covariance is not None,
    ),
    Algorithm(
        "adaptive_ridge",
        "ridge regression with an estimated noise level",
        best=best_parameters.best_adaptive_ridge,
    ),
    Algorithm(
        "bayes", "the posterior mean for an unknown noise level", best=best_parameters.best_bayes
    ),
    Algorithm(
        "oracle_ridge",
        "ridge regression that is told the noise level",
        best=best_parameters.best_oracle_ridge,
        positions=partial(at_each_length, one_pass=best_parameters.oracle_pass),
    ),
    Algorithm(
        "dmmse",
        "the posterior mean over the given tasks",
        best=best_parameters.best_dmmse,
        # Without pairs it predicts with the mean of its tasks.
        positions=partial(at_each_length, one_pass=best_parameters.dmmse_pass, knows_null=False),
        words="the posterior mean over the given tasks for label noise of variance "
        "{noise_variance}",
        answer=members.dmmse,
        parameters={"noise_variance": _noises},
        contains=("dmmse",),
        optimum=_true_noise,
        fits=lambda problem: problem.task_set is not None and problem.has_linear_labels,
    ),
    Algorithm("linear_attention", "linear attention trained on such prompts"),
    Algorithm(
        "best_delta_rule",
        positions=best_parameters.best_delta_positions,
        words="the delta rule with the best steps for label noise of variance {noise_variance}",
        answer=members.best_delta_rule,
        parameters={
            "noise_variance": lambda units: Parameter(units.signal * np.geomspace(1e-3, 10, 7))
        },
        weights=members.best_delta_weights,
    ),
)

# The algorithms by their names.
ALGORITHMS = {row.name: row for row in ROWS}
