"""Errors by position: stated losses against simulation, models that are algorithms, figures."""

import math

import numpy as np
import pytest
from refusals import type_error, value_error
from sampled_means import ALLOWANCE

from iclimit.drawing import new_figure
from iclimit.pretraining import exact_position_errors
from iclimit.problem import Problem
from iclimit.simulate.probing.prefixes import all_inputs
from iclimit.simulate.prompts import sample_prompts
from iclimit.validation.instruments.models.algorithms import ALGORITHMS
from iclimit.validation.instruments.models.baselines import baselines
from iclimit.validation.instruments.models.positions import (
    ask_positions,
    position_baselines,
    probe_positions,
)
from iclimit.validation.instruments.models.predictions import Recorded
from iclimit.validation.instruments.models.sections import Section

COUNT = 3000
PROBLEMS = {
    "gaussian": {"context": 9, "dim": 4, "noise_variance": 0.25, "scale": 0.5},
    "noise levels": {"context": 9, "dim": 3, "noise_law": "categorical:0,1"},
    "covariances": {"context": 6, "dim": 3, "input_covariance": [0.5, 1.0, 2.0]}
    | {"task_covariance": [1.0, 0.3, 1.0], "input_law": "uniform"},
}


def heavy(name, problem):
    """Positions where the error of least squares has no variance."""
    near = range(problem.dim - 3, problem.dim + 4)
    return list(near) if name == "least_squares" else []


@pytest.mark.parametrize("case", PROBLEMS)
def test_stated_losses_are_those_of_a_simulation(case):
    problem = Problem(**{"scale": 1} | PROBLEMS[case])
    drawn = sample_prompts(problem, COUNT, rng=2)
    target = np.einsum("nld,nd->nl", all_inputs(drawn), drawn.tasks)
    for baseline in position_baselines(problem):
        errors = (baseline.predict(drawn) - target) ** 2 + drawn.noise_variance[:, None]
        checked = np.isfinite(baseline.loss)
        checked[heavy(baseline.name, problem)] = False
        solved = problem.input_law == "gaussian"
        assert np.any(checked[1:]) or baseline.name == "nearest_neighbours" or not solved
        allowed = ALLOWANCE * np.std(errors, axis=0) / math.sqrt(COUNT) + 1e-12
        deviation = np.abs(np.mean(errors, axis=0) - baseline.loss)
        assert np.all(deviation[checked] < allowed[checked]), baseline.name


def test_last_position_is_the_query_after_a_full_context(monkeypatch):
    for name in ("gdpp_2", "gdpp_3"):
        monkeypatch.delitem(ALGORITHMS, name)
    tasks = np.random.default_rng(0).standard_normal((5, 3))
    problem = Problem(dim=3, context=8, noise_variance=0.3, tasks=tasks, scale=1)
    drawn = sample_prompts(problem, 10, rng=0)
    single = {each.name: each for each in baselines(problem)}
    alone = ("fixed_step", "best_delta_rule")
    compared = [each for each in position_baselines(problem) if each.name not in alone]
    assert {each.name for each in compared} >= {"ridge", "least_squares", "dmmse", "steps_5"}
    for baseline in compared:
        expected = single[baseline.name]
        assert np.allclose(baseline.predict(drawn)[:, -1], expected.predict(drawn))
        if expected.loss is not None:
            assert baseline.loss[-1] == pytest.approx(expected.loss)


def test_fixed_step_is_the_best_for_the_mean_over_positions():
    problem = Problem(dim=3, context=7, noise_variance=0.2, scale=1)
    step = {each.name: each for each in position_baselines(problem)}["fixed_step"]
    rate = float(step.description.split("pairs, ")[1].split(",")[0])
    drawn = sample_prompts(problem, 20_000, rng=0)
    x = all_inputs(drawn)
    moments = np.cumsum(drawn.labels[:, :, None] * drawn.inputs, axis=1)
    fits = np.sum(moments * x[:, 1:], axis=2)
    labels = np.einsum("nld,nd->nl", x[:, 1:], drawn.tasks)
    # The best rate on a sample is a ratio of means.
    products = np.sum(fits * labels, axis=1)
    squares = np.sum(fits**2, axis=1)
    residual = products - rate * squares
    assert abs(np.mean(residual)) < ALLOWANCE * np.std(residual) / math.sqrt(20_000)


def test_fixed_step_is_the_model_that_all_positions_want():
    """Reduced attention with a fixed divisor, after infinitely many sequences."""
    problem = Problem(dim=5, context=12, noise_variance=2.0, scale=1)
    step = {each.name: each for each in position_baselines(problem)}["fixed_step"]
    trained = exact_position_errors(
        dim=5, context=12, rho=2.0 / problem.label_unit, normalization="length"
    )
    rate = float(step.description.split("pairs, ")[1].split(",")[0])
    assert rate == pytest.approx(trained.rate / 12, rel=1e-3)  # it is printed to four digits
    np.testing.assert_allclose(step.loss[1:], problem.label_unit * trained.icl, rtol=1e-7)


def ridge(penalty, shrink=1.0):
    """A model that is ridge regression at every position."""

    def predict(inputs, labels):
        dim = inputs.shape[2]
        answers = np.zeros(labels.shape)
        for count in range(1, labels.shape[1]):
            x = inputs[:, :count]
            y = labels[:, :count, None]
            gram = np.swapaxes(x, 1, 2) @ x + penalty * np.eye(dim)
            weights = np.linalg.solve(gram, np.swapaxes(x, 1, 2) @ y)[:, :, 0]
            answers[:, count] = shrink * np.sum(weights * inputs[:, count], axis=1)
        return answers

    return predict


@pytest.fixture(scope="module")
def found():
    problem = Problem(dim=3, context=8, noise_variance=0.3, scale=1)
    return probe_positions(ridge(0.3, 1.05), problem, test_prompts=2000)


def test_an_algorithm_differs_from_itself_by_nothing():
    problem = Problem(dim=3, context=8, noise_variance=0.3, scale=1)
    same = probe_positions(ridge(0.3), problem, test_prompts=50, baselines=["ridge", "null"])
    assert same.algorithms == ("ridge", "null")
    assert max(abs(ladder["ridge"].difference.mean) for ladder in same.ladders) < 1e-12
    assert same.ladders[0].error.mean == pytest.approx(same.ladders[0]["null"].error.mean)


def test_pairs_show_what_the_errors_alone_do_not(found):
    ladder = found.ladders[8]
    own = ladder.error
    other = ladder["ridge"].error
    difference = ladder["ridge"].difference
    assert difference.z(0.0) > 3
    alone = math.hypot(own.standard_error, other.standard_error)
    assert difference.mean == pytest.approx(own.mean - other.mean)
    assert difference.standard_error < alone / 2


def test_rows_and_labelled_arrays_hold_the_same_numbers(found):
    rows = found.rows()
    arrays = found.to_xarray()
    assert len(rows) == arrays.sizes["algorithm"] * 9
    for row in rows:
        here = arrays.sel(algorithm=row["algorithm"], examples=row["examples"])
        for name in set(row) & set(arrays):
            assert np.isclose(float(here[name]), row[name], equal_nan=True), name
    assert found.label_square == pytest.approx(3.3)


def test_table_shows_the_first_and_the_last_position(found):
    lines = str(found).splitlines()
    assert lines[0].split()[:2] == ["examples", "0"]
    assert lines[1].split()[0] == "model"
    assert lines[1].split()[-1] == str(found.ladders[8].error)


def test_figure_has_the_model_and_every_algorithm(found):
    ax = found.plot(new_figure().subplots())
    labels = ax.get_legend_handles_labels()[1]
    assert {"model", "ridge", "least squares", "nearest neighbours"} <= set(labels)
    assert ax.get_ylabel() == "squared error / mean square of a label"


def test_models_and_names_are_checked():
    problem = Problem(dim=2, context=4, scale=1)
    value_error("did you mean null", probe_positions, ridge(1.0), problem, baselines=["nul"])
    with pytest.raises(TypeError, match="baselines must be a list of names"):
        probe_positions(ridge(1.0), problem, baselines="null")
    type_error("problem must be an iclimit", probe_positions, ridge(1.0), {"dim": 3})
    with pytest.raises(ValueError, match=r"problem must have drift = 0.0 here, got 0.5"):
        probe_positions(ridge(1.0), Problem(dim=2, context=4, drift=0.5))
    with pytest.raises(ValueError, match="pairs before it"):
        probe_positions(lambda _, labels: np.flip(labels, axis=1), problem, test_prompts=10)


def own_label(inputs, labels):
    """A causal model with a mask that is off by one: it sees the label that it is asked for."""
    answers = np.zeros(labels.shape)
    for count in range(labels.shape[1]):
        x = inputs[:, : count + 1]
        y = labels[:, : count + 1, None]
        gram = np.swapaxes(x, 1, 2) @ x + 0.3 * np.eye(inputs.shape[2])
        weights = np.linalg.solve(gram, np.swapaxes(x, 1, 2) @ y)[:, :, 0]
        answers[:, count] = np.sum(weights * inputs[:, count], axis=1)
    return answers


def test_a_model_that_sees_its_label_is_named_in_a_file(found):
    """In process the model is refused; recorded answers are judged by the least possible error."""
    problem = found.problem
    section = Section("fresh", "error", "fresh tasks", problem, 1000, 0)
    blocks = list(section.blocks())
    answers = [own_label(all_inputs(b), np.pad(b.labels, ((0, 0), (0, 1)))) for b in blocks]
    recorded = Recorded(np.concatenate(answers), [section])
    leaking = ask_positions(recorded, position_baselines(problem), section)
    rows = leaking.impossible
    assert [row.examples for row in rows][:4] == [0, 1, 2, 3]
    assert rows[0].least == pytest.approx(3.3)
    assert str(leaking).startswith("Impossible: with 0 examples its error is ")
    assert leaking.to_dict()["impossible"][0]["examples"] == 0
    value_error(
        "predict must answer a position from the pairs before", probe_positions, own_label, problem
    )
    # Least squares of d - 1 to d + 1 noisy labels has no mean error; not all columns are shown.
    line = next(line for line in str(found).splitlines() if line.startswith("least_squares"))
    assert line.split()[3:5] == ["infinite"] * 2
    # Honest models are never below: ridge regression, here 5 % too large, and Bayes' estimate.
    assert found.impossible == []
    for task_law in ("gaussian", "sphere"):
        honest = Problem(dim=3, context=8, noise_variance=0.3, scale=1, task_law=task_law)
        best = probe_positions(ridge(0.3), honest, test_prompts=500)
        assert best.impossible == []
        assert not str(best).startswith("Impossible")
