"""Baselines: stated losses against simulation, parameters against theory of another form."""

import math
from itertools import pairwise

import numpy as np
import pytest
from prompt_arrays import arrays_of
from sampled_means import ALLOWANCE

from iclimit.asymptotics.descent import optimal_learning_rate, optimal_schedule
from iclimit.asymptotics.softmax import optimal_softmax
from iclimit.problem import Problem
from iclimit.simulate.networks import AttentionNetwork, LinearAttention, LstmNetwork
from iclimit.simulate.prompts import Prompts, sample_prompts
from iclimit.simulate.softmax import MergedHeads
from iclimit.validation.instruments.models import best_parameters, problem_units
from iclimit.validation.instruments.models.algorithms import ALGORITHMS
from iclimit.validation.instruments.models.baselines import baselines, best_loss, choose_baselines
from iclimit.validation.instruments.models.fitted_layers import (
    context_moments,
    fit_layers,
    residual_polynomial,
)
from iclimit.validation.instruments.models.positions import position_baselines
from iclimit.validation.instruments.models.problem_units import ProblemUnits

COUNT = 4000
ROTATED = np.array([[1.2, 0.3, 0.0], [0.3, 0.6, 0.1], [0.0, 0.1, 2.0]])
PROBLEMS = {
    "gaussian": {"context": 16, "dim": 6, "noise_variance": 0.25},
    "short context": {"context": 4, "dim": 6, "noise_variance": 0.3, "task_variance": 2.0},
    "no noise": {"context": 8, "dim": 6},
    "lu": {"context": 16, "dim": 6, "noise_variance": 0.05, "scale": 6**-0.5}
    | {"task_law": "sphere"},
    "noise levels": {"context": 16, "dim": 6, "noise_law": "uniform:2", "scale": 0.5}
    | {"task_variance": 3.0},
    "uniform": {"context": 10, "dim": 3, "input_law": "uniform", "noise_variance": 0.1},
    "rademacher": {"context": 10, "dim": 3, "input_law": "rademacher", "task_variance": 0.5},
    "covariances": {"context": 10, "dim": 3, "input_covariance": ROTATED, "noise_variance": 0.2}
    | {"task_covariance": [0.5, 1.0, 1.5], "input_law": "uniform", "task_law": "sphere"},
}
EXACT = {"null", "averaging", "one_step"}
SOLVED = EXACT | {"steps_2", "steps_3", "steps_5", "gdpp_2", "least_squares"}
SOLVED |= {"softmax_1", "softmax_minus", "softmax_2"}


def found(problem):
    return {each.name: each for each in baselines(problem)}


@pytest.fixture
def without_searches(monkeypatch):
    """Leave out the searches for GD++ and softmax heads, which take most of the time."""
    for name in ("gdpp_2", "gdpp_3", "softmax_1", "softmax_minus", "softmax_2"):
        monkeypatch.delitem(ALGORITHMS, name)


@pytest.mark.parametrize("case", ["gaussian", "uniform"])
def test_parameters_of_others_are_not_searched_for(case, monkeypatch):
    problem = Problem(**{"scale": 1} | PROBLEMS[case])
    names = ["one_step", "steps_2", "ridge"]
    every = {each.name: each for each in baselines(problem, names=names)}
    assert list(every) == names

    def refuse(*_, **__):
        raise AssertionError("searched")

    for name in ("searched_gdpp", "searched_heads", "optimal_schedule"):
        monkeypatch.setattr(best_parameters, name, refuse)
    monkeypatch.setattr(problem_units, "context_moments", refuse)
    few = choose_baselines(lambda names: baselines(problem, names=names), ["ridge", "one_step"])
    found = [every[name].description for name in ("ridge", "one_step")]
    assert [each.description for each in few] == found
    known = position_baselines(problem, {"one_step", "fixed_step"})
    assert [each.name for each in known] == ["one_step", "fixed_step"]


@pytest.mark.parametrize("case", PROBLEMS)
def test_stated_losses_are_those_of_a_simulation(case, monkeypatch):
    if case != "gaussian":  # the search for three layers takes most of the time
        monkeypatch.delitem(ALGORITHMS, "gdpp_3")
    problem = Problem(**{"scale": 1} | PROBLEMS[case])
    drawn = sample_prompts(problem, COUNT, rng=1)
    by_name = found(problem)
    stated = {name for name, each in by_name.items() if each.loss is not None}
    solved = problem.input_law == "gaussian" and problem.input_covariance is None
    assert stated >= (SOLVED if solved else EXACT)
    assert ("gdpp_3" in stated) == (case == "gaussian")
    for baseline in by_name.values():
        if baseline.loss is None:
            continue
        errors = (baseline.predict(drawn) - drawn.target) ** 2 + drawn.noise_variance
        allowed = ALLOWANCE * np.std(errors) / math.sqrt(COUNT) + 1e-12
        assert abs(np.mean(errors) - baseline.loss) < allowed, baseline.name


@pytest.mark.usefixtures("without_searches")
@pytest.mark.parametrize("law", ["gaussian", "uniform", "rademacher", "laplace"])
def test_one_step_has_the_optimal_learning_rate(law):
    parameters = {"noise_variance": 0.3, "task_variance": 2.0, "input_law": law}
    problem = Problem(dim=5, context=12, **parameters, scale=1)
    best = optimal_learning_rate(context=12, dim=5, **parameters)
    assert found(problem)["one_step"].loss == pytest.approx(float(best.loss), rel=1e-9)


@pytest.mark.parametrize("case", ["noise levels", "covariances"])
def test_units_change_predictions_as_they_change_labels(case, monkeypatch):
    monkeypatch.delitem(ALGORITHMS, "gdpp_3")
    parameters = PROBLEMS[case]
    problem = Problem(**{"scale": 1} | parameters)
    drawn = sample_prompts(problem, 20, rng=0)
    noise = {"noise_law": "uniform:12"} if problem.noise_law else {"noise_variance": 7.2}
    wider = parameters | {"scale": 2 * problem.scale, **noise}
    scaled = found(Problem(**wider | {"task_variance": 9 * problem.task_variance}))
    factors = {
        "inputs": 2,
        "labels": 6,
        "query": 2,
        "query_label": 6,
        "tasks": 3,
        "noise_variance": 36,
    }
    redrawn = Prompts(**{name: factors[name] * each for name, each in arrays_of(drawn).items()})
    assert case == "covariances" or "gdpp_2" in scaled
    for name, baseline in found(problem).items():
        # Fitted rates are accurate to the tolerance of the search.
        close = 1e-3 if baseline.loss is None else 1e-9
        there = scaled[name].predict(redrawn)
        expected = 6 * baseline.predict(drawn)
        assert np.allclose(there, expected, rtol=close, atol=close), name


@pytest.mark.usefixtures("without_searches")
def test_what_coincides_is_left_out():
    assert "ridge" not in found(Problem(dim=4, context=8, scale=1))
    assert "ridge" not in found(Problem(dim=4, context=8, task_covariance=[0.1, 1, 1, 1], scale=1))
    assert "ridge" in found(Problem(dim=4, context=3, task_covariance=[0.1, 1, 1, 1], scale=1))
    assert "oracle_ridge" not in found(Problem(dim=4, context=8, noise_law="fixed:1", scale=1))
    assert "preconditioner" not in found(Problem(dim=4, context=8, scale=1))
    assert "adaptive_ridge" not in found(Problem(dim=4, context=4, noise_law="uniform:1", scale=1))


@pytest.mark.usefixtures("without_searches")
def test_ridge_knows_the_covariance_of_tasks_without_noise():
    problem = Problem(dim=4, context=3, task_covariance=[1.0, 1.0, 1.0, 0.0], scale=1)
    drawn = sample_prompts(problem, 20, rng=0)
    assert np.allclose(found(problem)["ridge"].predict(drawn), drawn.target)


@pytest.mark.usefixtures("without_searches")
@pytest.mark.parametrize("law", ["uniform:3", "categorical:1,3"])
def test_bayes_is_the_best_without_being_told_the_noise(law):
    problem = Problem(dim=4, context=12, noise_law=law, scale=0.5, task_variance=3.0)
    drawn = sample_prompts(problem, 8000, rng=0)
    by_name = found(problem)
    error = {
        name: (by_name[name].predict(drawn) - drawn.target) ** 2
        for name in ("bayes", "adaptive_ridge", "ridge", "oracle_ridge")
    }
    for better, worse in pairwise(["oracle_ridge", "bayes", "adaptive_ridge", "ridge"]):
        gain = error[worse] - error[better]
        assert np.mean(gain) > 3 * np.std(gain) / math.sqrt(8000), (better, worse)


@pytest.mark.usefixtures("without_searches")
def test_dmmse_finds_the_pretraining_task():
    tasks = np.random.default_rng(0).standard_normal((5, 4))
    problem = Problem(dim=4, context=30, noise_variance=0.01, tasks=tasks, scale=1)
    drawn = sample_prompts(problem, 50, rng=0)
    assert np.allclose(found(problem)["dmmse"].predict(drawn), drawn.target, atol=1e-6)


def test_moments_give_the_loss_of_descent_on_drawn_prompts():
    problem = Problem(**{"scale": 1} | PROBLEMS["covariances"])
    units = ProblemUnits(problem)
    drawn = sample_prompts(problem, 20_000, rng=3)
    rates = np.array([0.3, 0.8]) / units.input_variance
    weights = 0 * drawn.query
    for rate in rates:
        residual = drawn.labels - np.einsum("nld,nd->nl", drawn.inputs, weights)
        weights = weights + rate / 10 * np.einsum("nld,nl->nd", drawn.inputs, residual)
    errors = (np.sum(weights * drawn.query, axis=1) - drawn.target) ** 2
    P = residual_polynomial(np.array([0.3, 0.8]), np.zeros(1))
    loss = P @ context_moments(problem, 2) @ P
    # The moments come from as many contexts and average over all else: a smaller error.
    assert abs(np.mean(errors) - loss) < ALLOWANCE * np.std(errors) / math.sqrt(10_000)


def test_fitted_rates_are_those_of_the_theory_where_it_knows_them():
    problem = Problem(dim=12, context=40, noise_variance=0.1, scale=1)
    best = optimal_schedule(steps=3, context=40, dim=12, noise_ratio=0.1 / 40)
    guess = np.array([1.0, 1.1, 1.2])
    rates, gammas = fit_layers(context_moments(problem, 3), guess, np.zeros(2))
    assert not np.any(gammas)
    # Over other seeds the rates scatter by 1 %.
    assert np.allclose(np.sort(rates), best.rates, rtol=0.05)


def test_labels_must_depend_on_inputs():
    problem = Problem(
        dim=2, context=3, input_covariance=[1.0, 0.0], task_covariance=[0.0, 1.0], scale=1
    )
    with pytest.raises(ValueError, match="labels that depend on the inputs"):
        baselines(problem)


def test_the_best_loss_is_known_where_theory_has_it():
    for network, problem, name in (
        (MergedHeads(2), {"input_law": "uniform"}, None),
        (MergedHeads(2, heads=3), {}, None),
        (MergedHeads(2), {"tasks": np.ones((1, 2))}, None),
        (MergedHeads(2), {"scale": 3.0, "noise_variance": 0.5}, "softmax_1"),
        (AttentionNetwork(2), {}, "softmax_1"),
        (AttentionNetwork(2, attention="linear"), {"input_law": "uniform"}, "one_step"),
        (LinearAttention(2, heads=2), {"input_law": "uniform"}, "one_step"),
        (LinearAttention(2), {"drift": 0.4}, None),
        (LinearAttention(2), {"correlation": 0.4}, None),
        (LinearAttention(2, layers=2), {}, None),
        (AttentionNetwork(2, layers=2), {}, None),
        (AttentionNetwork(2, mlp=3), {}, None),
        (LstmNetwork(2), {}, None),
    ):
        law = Problem(2, 6, **{"scale": 1} | problem)
        least = best_loss(network, law)
        if name is None:
            assert least is None
        elif name == "one_step":
            best = optimal_learning_rate(context=6, dim=2, input_law="uniform").loss
            assert least == pytest.approx(best, rel=1e-9)
        else:
            unit = law.scale**2
            best = optimal_softmax(context=6, dim=2, noise_variance=law.noise_variance / unit)
            assert least == pytest.approx(unit * float(best.loss), rel=1e-9)
