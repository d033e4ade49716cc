"""A probe of whole models: the report, its forms, and what is refused."""

import json
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from refusals import value_error

import iclimit
from iclimit.drawing import house_style, new_figure, panels
from iclimit.results import Estimate
from iclimit.tables import json_text
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.interview import diagnose
from iclimit.validation.instruments.models.report import TITLES
from iclimit.validation.instruments.models.report_figures import draw_ladder

TASKS = np.random.default_rng(7).standard_normal((5, 3))
PROBLEM = iclimit.Problem(dim=3, context=8, noise_variance=0.3, tasks=TASKS, scale=1)
PROMPTS = 600

pytestmark = pytest.mark.usefixtures("few_families")


def ridge(inputs, labels, query):
    gram = inputs.mT @ inputs + 0.3 * np.eye(inputs.shape[2])
    weights = np.linalg.solve(gram, inputs.mT @ labels[:, :, None])
    return np.vecdot(query, weights[:, :, 0])


def ridge_at_positions(inputs, labels):
    answers = [
        ridge(inputs[:, :end], labels[:, :end], inputs[:, end]) for end in range(labels.shape[1])
    ]
    return np.stack(answers, axis=1)


def in_order(inputs, labels, query):
    """A sum that depends on the order of the pairs and on the squares of labels."""
    weights = np.arange(labels.shape[1])
    return np.vecdot(query, np.sum((weights * labels**2)[:, :, None] * inputs, axis=1)) + 1.0


@pytest.fixture(scope="module")
def report():
    return iclimit.probe(ridge, PROBLEM, test_prompts=PROMPTS, context_lengths=True, rng=1)


def test_ridge_is_found_with_its_sensitivities(report):
    assert report.verdict.names == ("ridge",)
    headline = "On fresh tasks it is ridge regression with the best penalty: "
    assert report.verdict.sentence.startswith(headline)
    assert "On its own tasks it is ridge regression" in report.verdict.sentence
    assert report.verdict.holds
    assert set(report.sensitivities) == {"query", "labels"}
    for cosines in report.sensitivities.values():
        assert cosines["ridge"].mean == pytest.approx(1)
        assert cosines["one_step"].mean < 0.99
    assert report.pretraining is not None
    assert report.pretraining["dmmse"].error.mean < report.pretraining.error.mean
    shifts = {ladder.section: ladder for ladder in report.shifts}
    assert {"inputs:half", "tasks:double", "noise:none", "context:double"} <= set(shifts)
    assert all(ladder["ridge"].z == 0 for ladder in shifts.values())


def test_ridge_is_linear_in_the_labels_and_ignores_their_order(report):
    assert set(report.diagnosis) == {"order", "nonlinearity", "constant"}
    for found in report.diagnosis.values():
        assert found.mean == pytest.approx(0, abs=1e-12)


def test_linear_attention_is_trained_where_prompts_are_given():
    options = {"test_prompts": 100, "baselines": ["null", "linear_attention"]}
    found = iclimit.probe(ridge, PROBLEM, prompts=500, ridge=0.1, **options)
    assert "500 prompts with ridge 0.1" in found.fresh["linear_attention"].description
    value_error("baselines must be of null, ", iclimit.probe, ridge, PROBLEM, **options)


def test_order_and_squares_of_labels_are_noticed():
    found = iclimit.probe(in_order, PROBLEM, test_prompts=PROMPTS, baselines=["null", "ridge"])
    assert found.verdict.kind == "none"
    for each in found.diagnosis.values():
        assert 0 < 2 * each.standard_error < each.mean


def test_diagnosis_has_its_values_by_hand():
    """Unrelated answers to two orders give 1; f(y) = y^2 has the defect 2 y y', f = 1 none."""
    rng = np.random.default_rng(0)
    first, second = rng.standard_normal((2, 4000))
    ones = np.ones(4000)
    found = diagnose(first, second, ones, ones, ones)
    assert abs(found["order"].z(1)) < 4
    squares = diagnose(first**2, first**2, second**2, (first + second) ** 2, 0 * first)
    expected = np.mean((2 * first * second) ** 2) / np.mean((first + second) ** 4)
    assert squares["nonlinearity"].mean == pytest.approx(expected)
    assert diagnose(ones, ones, ones, ones, ones)["nonlinearity"].mean == 0


def test_positions_are_asked_with_the_same_prompts(report):
    options = {"test_prompts": PROMPTS, "rng": 1, "form": "positions"}
    found = iclimit.probe(ridge_at_positions, PROBLEM, context_lengths=True, **options)
    assert found.fresh.error == report.fresh.error
    assert str(found.verdict) == str(report.verdict)
    positions = found.positions
    assert positions is not None
    assert len(positions.ladders) == 9
    assert positions.ladders[-1].error.mean == pytest.approx(report.fresh.error.mean)
    for ladder in positions.ladders:
        assert ladder["ridge"].error.mean == pytest.approx(ladder.error.mean)
    assert positions.ladders[0].error.mean == positions.ladders[0]["null"].error.mean
    arrays = found.to_xarray()
    assert arrays["position_error"].dims == ("position_algorithm", "examples")
    assert float(arrays["position_model_error"][0, 8]) == positions.ladders[8].error.mean
    assert len(found.to_dict()["positions"]["ladders"]) == 9
    value_error("positions are there with form='positions'", report.plot, figure="positions")


def test_gradients_take_the_place_of_differences():
    def gradients(inputs, labels, query):
        gram = inputs.mT @ inputs + 0.3 * np.eye(3)
        by_labels = np.linalg.solve(gram, query[:, :, None]).mT @ inputs.mT
        weights = np.linalg.solve(gram, inputs.mT @ labels[:, :, None])
        return weights[:, :, 0], by_labels[:, 0, :]

    names = ["one_step", "ridge"]
    found = iclimit.probe(
        ridge, PROBLEM, test_prompts=60, baselines=names, gradients=gradients, rng=1
    )
    for cosines in found.sensitivities.values():
        assert cosines["ridge"].mean == pytest.approx(1)
    wrong = {"test_prompts": 60, "baselines": names}
    with pytest.raises(ValueError, match=r"shapes \(50, 3\) and \(50, 8\), got \(50,\), \(50,\)"):
        iclimit.probe(ridge, PROBLEM, gradients=lambda *_: np.zeros((2, 50)), **wrong)
    with pytest.raises(TypeError, match="gradients must return a pair of arrays, got NoneType"):
        iclimit.probe(ridge, PROBLEM, gradients=lambda *_: None, **wrong)
    with pytest.raises(TypeError, match="gradients must be a function, got 3"):
        iclimit.probe(ridge, PROBLEM, gradients=3, **wrong)


def test_report_is_text_json_arrays_figures_and_a_page(report):
    text = str(report)
    assert text.startswith(str(report.verdict))
    assert all(rung.name in text for rung in report.fresh.rungs)
    entry = json.loads(json_text(report.to_dict()))
    assert entry["verdict"]["names"] == ["ridge"]
    assert [each["section"] for each in entry["shifts"]] == [s.section for s in report.shifts]
    page = report.page()
    assert all(part in page for part in report.verdict.sentence.split(". "))
    assert page.count("<img") == 6
    assert list(TITLES) == [*report.figures[:2], "positions", *report.figures[2:]]
    data = report.to_xarray()
    assert float(data.unexplained.sel(algorithm="ridge")) == 0
    assert data.error.sel(section="fresh", algorithm="ridge") == report.fresh.error.mean
    assert float(data.model_error.sel(section="inputs:half")) == report.shifts[0].error.mean
    # Where the model has no error but rounding, its line is at the end of what is drawn.
    exact = replace(report.fresh, error=Estimate(1e-29, 1e-30, 100))
    figure, axes = plt.subplots(6)
    draw_ladder(axes[0], exact, 0.0)
    assert axes[0].get_xlim()[0] > 1e-8
    axes[0].clear()
    for name, ax in zip(report.figures, axes, strict=True):
        assert report.plot(ax, figure=name) is ax
    plt.close(figure)


def halved(inputs, labels, query):
    return 0.5 * ridge(inputs, labels, query)


def test_own_algorithms_stand_beside_ours(tmp_path, monkeypatch):
    mine = Baseline("mine", "the first label", lambda p: p.labels[:, 0])
    found = iclimit.probe(halved, PROBLEM, test_prompts=100, baselines=["ridge", mine])
    assert {"mine", "ridge"} <= {rung.name for rung in found.fresh.rungs}
    found = iclimit.probe(halved, PROBLEM, test_prompts=100, baselines={"mine": halved})
    assert found.verdict.names == ("mine",)
    assert found.fresh["one_step"].error.mean > 0
    (tmp_path / "own_algorithm.py").write_text("def null(x, y, q):\n    return 0 * q[:, 0]\n")
    monkeypatch.chdir(tmp_path)
    found = iclimit.probe(ridge, PROBLEM, test_prompts=100, baselines=["own_algorithm:null"])
    assert found.fresh["own_algorithm:null"].error.mean > found.fresh.error.mean
    for name in ("own_algorithm:none", "no_such_module:null", ":null"):
        with pytest.raises(ValueError, match=f"module:function of your own, got '{name}'"):
            iclimit.probe(ridge, PROBLEM, test_prompts=100, baselines=[name])


def test_own_algorithms_that_cannot_be_compared():
    """A function called ridge was "ridge regression with the best penalty" in the verdict."""
    for wrong, error, message in (
        ({"ridge": halved}, ValueError, "must not be called as ours are, got 'ridge'"),
        ({"mine": 3}, TypeError, "must be functions by name, got 3 for 'mine'"),
        ({"mine": divmod}, TypeError, "baselines: mine: divmod expected 2 arguments, got 3"),
        (
            {"mine": lambda *given: given[2]},
            ValueError,
            r"baselines: mine: .* shape \(100,\), got",
        ),
    ):
        with pytest.raises(error, match=message):
            iclimit.probe(ridge, PROBLEM, test_prompts=100, baselines=wrong)


def test_wrong_arguments_are_named():
    for wrong, message in (
        ({"form": "tokens"}, "form must be one of query, positions, got 'tokens'"),
        ({"tolerance": 1.0}, "tolerance must be > 0 and < 1, got 1.0"),
        ({"baselines": ["rigde"]}, "got 'rigde'; did you mean ridge?"),
        ({"baselines": []}, "baselines must be at least one, got none"),
        ({"baselines": "ridge"}, "baselines must be a list of names, got 'ridge'"),
        ({"problem": 3}, "problem must be an iclimit.Problem, got 3"),
        ({"test_prompts": 0}, "test_prompts must be an integer >= 1, got 0"),
        ({"test_prompts": 19}, "test_prompts must be >= 20, got 19"),
        ({"predict": lambda *_: np.full(60, np.nan)}, "finite numbers, got nan"),
    ):
        arguments = {"predict": ridge, "problem": PROBLEM, "test_prompts": 60} | wrong
        with pytest.raises((ValueError, TypeError)) as caught:
            iclimit.probe(**arguments)
        assert message in str(caught.value)


def test_an_error_without_a_mean_is_called_infinite():
    """Least squares of as many noisy labels as dimensions: its measured mean says nothing."""
    law = iclimit.Problem(dim=3, context=3, noise_variance=0.3, tasks=TASKS, scale=1)
    names = ["least_squares", "ridge"]
    text = str(iclimit.probe(ridge, law, test_prompts=100, baselines=names, rng=1))
    line = next(line for line in text.splitlines() if line.startswith("least_squares"))
    assert line.split() == ["least_squares", "infinite", "infinite"]


def test_linear_attention_with_any_matrix_is_named():
    """One step with a preconditioner that is no multiple of the identity, x' W h."""
    rng = np.random.default_rng(5)
    basis, _ = np.linalg.qr(rng.standard_normal((3, 3)))
    matrix = basis @ np.diag([0.56, 0.7, 0.88]) @ basis.T

    def generic(inputs, labels, query):
        mean = np.mean(labels[:, :, None] * inputs, axis=1)
        return np.vecdot(query @ matrix, mean)

    law = iclimit.Problem(dim=3, context=12, noise_variance=0.3, scale=1)
    verdict = iclimit.probe(generic, law, test_prompts=1000, rng=1).verdict
    assert verdict.kind == "algorithm"
    assert verdict.names == ("linear_attention",)
    assert verdict.sentence.startswith(
        "It is linear attention: one step with a preconditioner, for inputs of variance 1 with "
        "eigenvalues 0.56 to 0.88; it leaves 0 % of the mean square"
    )


@pytest.mark.parametrize("name", ["ladder", "likeness", "shifts"])
def test_legends_and_labels_lie_within_the_page_beside_long_names(report, name):
    long = "gated_unit_delta_rule(1.23e+03, 0.000337, 0.98, 1)"

    def renamed(rows):
        return tuple(replace(row, name=long) if row.name == "ridge" else row for row in rows)

    verdict = replace(report.verdict, likenesses=renamed(report.verdict.likenesses))
    fresh = replace(report.fresh, rungs=renamed(report.fresh.rungs))
    shifts = tuple(replace(each, rungs=renamed(each.rungs)) for each in report.shifts)
    named = replace(report, verdict=verdict, fresh=fresh, shifts=shifts)
    with house_style():
        figure = new_figure()
        [ax] = panels(figure, 1, width=5.2, height=3.8)
        named.draw(ax, figure=name)
        figure.canvas.draw()
        drawn = [ax.get_legend(), ax.xaxis.label, *ax.get_yticklabels()]
        for text in drawn:
            box = text.get_window_extent()
            assert box.x0 >= 0
            assert box.x1 <= figure.bbox.width


def test_equal_weights_are_drawn_below_the_upper_edge():
    def step(inputs, labels, query):
        return np.vecdot(np.mean(inputs * labels[:, :, None], axis=1), query)

    problem = iclimit.Problem(dim=4, context=8, scale=1)
    report = iclimit.probe(step, problem, test_prompts=600, rng=0)
    for name in ("recency", "spectrum"):
        ax = plt.figure().subplots()
        report.draw(ax, figure=name)
        low, high = ax.get_ylim()
        assert low == 0
        assert high > 1.02 * ax.dataLim.y1
