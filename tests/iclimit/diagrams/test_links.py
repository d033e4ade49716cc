"""Labels by a link on curves and phase diagrams: against runs of one's own and plain NumPy."""

import functools

import numpy as np
import pytest
from refusals import refuse, refused_command
from scipy import stats

import iclimit
from iclimit.cli import main
from iclimit.diagrams.boundaries import boundary_curves, linked_boundaries
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.runs.cell import Cell
from iclimit.simulate.pretraining import sample

PLACE = {"alpha": 2.0, "kappa": np.inf, "ridge": 0.1}
ERROR = {"quantity": "icl_error", "tau": [1.0, 2.0, 4.0], "rho": 0.0, **PLACE}
RUNS = {"jobs": 1, "rng": 3}


def test_lines_are_those_of_the_theory():
    curves = iclimit.curve(**ERROR, link=("sin", 2.0), flips=[0.0, 0.1])
    assert [line["flips"] for line in curves.family] == [0.0, 0.1]
    for line in curves.family:
        at = {"rho": 0, "link": ("sin", 2.0), "flips": line["flips"]}
        expected = iclimit.icl_error(tau=np.array(ERROR["tau"]), **PLACE, **at)
        np.testing.assert_allclose(curves.values[curves.family.index(line)], expected)
    assert {row["link"] for row in curves.rows()} == {"sin:2"}


def test_a_function_or_two_moments_have_lines():
    by_name = iclimit.curve(**ERROR, link="relu").values
    by_moments = iclimit.curve(**ERROR, link=(0.5, 0.5)).values
    by_function = iclimit.curve(**ERROR, link=lambda z: np.maximum(z, 0.0)).values
    np.testing.assert_allclose(by_moments, by_name)
    np.testing.assert_allclose(by_function, by_name, rtol=1e-6)


def test_points_are_runs_with_the_link(monkeypatch):
    monkeypatch.setattr("iclimit.diagrams.simulation._POINTS", 3)  # of the dashed line
    curves = iclimit.curve(
        **ERROR, link="sign", flips=0.1, simulation={"dim": 8, "points": 2, "repeats": 6}, **RUNS
    )
    point = curves.simulated[0][0]
    run = iclimit.Point(tau=1.0, **PLACE, link="sign", flips=0.1).at(8)
    own = sample(run, rng=Cell.of(sample, run=run, repeats=6).seed(3), repeats=6)
    assert point.estimate.mean == own.icl.mean
    assert point.theory == pytest.approx(iclimit.predict(run, rng=0, approach="moments").icl.mean)
    assert len(curves.finite_size[0]) == 1  # the other two have predictions of their own
    assert {row["flips"] for row in curves.rows()} == {0.1}


def drawn_accuracy(dim, rng, *, flips=0.0, prompts_per_square=4, ridge=1.0):
    """Accuracy of classes after ridge regression on rows x (x) (h, h0), in plain NumPy."""
    length = 2 * dim
    count = prompts_per_square * dim**2
    tests = 4000

    def prompts(number):
        w = rng.standard_normal((number, dim))
        w *= np.sqrt(dim) / np.linalg.norm(w, axis=1, keepdims=True)
        x = rng.standard_normal((number, length + 1, dim)) / np.sqrt(dim)
        z = np.einsum("nid,nd->ni", x, w)
        y = np.where(rng.random(z.shape) < flips, -1.0, 1.0) * np.sign(z)
        h = dim / length * np.einsum("nid,ni->nd", x[:, :-1], y[:, :-1])
        h0 = np.mean(y[:, :-1] ** 2, axis=1)
        return x[:, -1], np.column_stack([h, h0]), y[:, -1], z[:, -1]

    x, h, y, _ = prompts(count)
    rows = np.einsum("ni,nj->nij", x, h).reshape(count, -1)
    penalty = count / dim * ridge * np.eye(rows.shape[1])
    gamma = np.linalg.solve(rows.T @ rows + penalty, rows.T @ y).reshape(dim, dim + 1)
    x, h, _, z = prompts(tests)
    return np.mean(np.sum(x @ gamma * h, axis=1) * z > 0)


def test_simulated_accuracies_are_those_of_a_plain_script():
    place = {"tau": [4.0, 5.0], "alpha": 2.0, "kappa": np.inf, "ridge": 1.0, "flips": 0.1}
    options = {"dim": 8, "points": [4.0], "repeats": 60}
    curves = iclimit.curve("pretrained_accuracy", **place, simulation=options, **RUNS)
    [[point]] = curves.simulated
    rng = np.random.default_rng(1)
    own = [drawn_accuracy(8, rng, flips=0.1) for _ in range(40)]
    deviation = np.mean(own) - point.estimate.mean
    error = np.hypot(stats.sem(own), point.estimate.standard_error)
    assert abs(deviation) < 4 * error < 0.02


def test_accuracies_of_one_size_have_no_z_and_no_dashes():
    options = {"dim": 8, "points": 2, "repeats": 3}
    place = {"tau": [2.0, 4.0], "alpha": 2.0, "kappa": 2.0}
    curves = iclimit.curve("pretrained_idg_accuracy", **place, simulation=options, **RUNS)
    [points] = curves.simulated
    assert [point.z for point in points] == [None, None]
    assert not curves.finite_size
    assert {row["source"] for row in curves.rows()} == {"theory", "simulation"}
    ax = curves.plot()
    assert "prediction" not in "".join(text.get_text() for text in ax.get_legend().get_texts())
    known = iclimit.pretraining.pretrained_accuracy(tau=2.0, alpha=2.0, kappa=2.0)
    assert points[0].theory == pytest.approx(known.idg)


def test_accuracies_of_three_sizes_are_extrapolated():
    options = {"dim": (6, 8, 10), "points": 2, "repeats": 8}
    place = {"tau": [2.0, 4.0], "alpha": 2.0, "kappa": 2.0, "ridge": 1.0, "link": "relu"}
    curves = iclimit.curve("pretrained_accuracy", **place, simulation=options, **RUNS)
    for point in curves.simulated[0]:
        assert abs(point.z) < 4
        assert point.theory == curves.quantity.evaluate(point.parameters)


def test_boundaries_are_those_of_the_effective_labels():
    """On the line where the error is that of predicting 0 it is E y^2 = 1 for classes."""
    x = ("tau", np.geomspace(1.5, 20, 30))
    y = ("alpha", np.geomspace(0.5, 10, 30))
    fixed = {"kappa": 1.0, "rho": 0.0, "flips": 0.05}
    curves = boundary_curves("icl_error", x, y, fixed, None, "sign")
    [label] = [label for label in curves if "predicting 0" in label]
    assert "E\\,y^2" in label
    for tau, alpha in curves[label][0][::10]:
        error = iclimit.icl_error(tau=tau, alpha=alpha, link="sign", **fixed)
        assert error == pytest.approx(1.0, rel=1e-8)
    assert "fixed_dmmse" not in linked_boundaries("sign")


def test_a_phase_diagram_of_classes(tmp_path):
    axes = {"x": "tau", "y": "alpha", "tau": [2.0, 3.0, 4.0], "alpha": [1.0, 2.0]}
    options = {"dim": 8, "points": 2, "repeats": 2}
    diagram = iclimit.phase_diagram(
        "pretrained_accuracy", **axes, kappa=1.0, link="relu", simulation=options, **RUNS
    )
    assert len(diagram.simulated) == 4
    assert diagram.rows()[0]["link"] == "relu"
    diagram.plot(title="classes").figure.savefig(tmp_path / "classes.png")
    assert diagram.to_xarray().attrs["link"] == "relu"


def test_points_of_ones_own_are_compared_at_their_size():
    run = iclimit.Point(tau=2.0, **PLACE, link="sign").at(8)
    sizes = {"dim": 8, "context": 16, "tasks": np.inf, "prompts": 128}
    curves = iclimit.curve(**ERROR, link="sign").with_points([sizes | {"icl": 1.1, "icl_se": 0.1}])
    [row] = curves.own_points.rows()
    assert row["theory"] == pytest.approx(iclimit.predict(run, rng=0).icl.mean)


def test_flips_need_no_link():
    clean = iclimit.curve(**ERROR, flips=[0.0, 0.25])
    assert clean.values[0] == pytest.approx(iclimit.curve(**ERROR).values[0], rel=1e-12)
    # Three of four labels with the right sign are half the signal.
    linear = ERROR | {"rho": 4 - 1, "ridge": 4 * PLACE["ridge"]}
    expected = 0.25 * iclimit.curve(**linear).values[0]
    assert clean.values[1] == pytest.approx(expected, rel=1e-12)


def test_errors_at_a_time_of_training():
    """They begin with the slope -2 g1^4 in time and end as ridge regression does."""
    place = {"tau": 2.0, "alpha": 1.0, "kappa": 1.0, "rho": 0.3, "ridge": 0.1, "link": "relu"}
    times = np.array([1e-4, 2e-4, 1e7])
    error = iclimit.curve("icl_error_at_time", time=times, **place).values[0]
    slope = (error[1] - error[0]) / (times[1] - times[0])
    assert slope == pytest.approx(-2 * 0.5**4, rel=5e-3)
    assert error[2] == pytest.approx(float(iclimit.icl_error(**place)), rel=1e-6)
    free = {name: place[name] for name in ("alpha", "kappa", "rho", "link")}
    stopped = iclimit.curve("stopped_icl_error", tau=[2.0], **free).values[0][0]
    near = np.geomspace(0.03, 10, 400)
    along = iclimit.curve("icl_error_at_time", time=near, tau=2.0, ridge=0.0, **free)
    assert stopped == pytest.approx(np.min(along.values[0]), rel=1e-4)


def test_links_that_are_refused():
    refused = functools.partial(refuse, function=iclimit.curve)
    plain = {"tau": [1, 2], "alpha": 1, "kappa": 1}
    refused("to take a link, got 'optimal_ridge'", quantity="optimal_ridge", **plain, link="sign")
    refused("got 'sgn'; did you mean sign?", **ERROR, link="sgn")
    refused("with a spectrum, got sign", **ERROR, link="sign", task_spectrum="powerlaw:0.5")
    refused("with a band, got sign: the scatter", **ERROR, link="sign", band=20)
    simulated = {"simulation": {"dim": 8, "points": 2}, **RUNS}
    refused("to be simulated, got moments 0.5, 1", **ERROR, link=(0.5, 1.0), **simulated)
    refused("to be simulated, got function", **ERROR, link=np.sign, **simulated)
    accuracy = {"quantity": "pretrained_accuracy", **plain}
    refused("link must not be identity", **accuracy, link="identity", **simulated)


def test_the_command_line(capsys):
    words = "curve icl_error --tau 2 --alpha 2 --kappa 2 --rho 0 --ridge 0.05 --flips 0.1 --link"
    assert main([*words.split(), "sign"]) == 0
    assert "1.435457619858" in capsys.readouterr().out  # the reference value
    assert main([*words.split(), "0.797884560802865,1"]) == 0
    assert "1.4354576198" in capsys.readouterr().out
    assert "did you mean sin?" in refused_command(capsys, [*words.split(), "sing"])
    assert "two moments" in refused_command(capsys, [*words.split(), "1,2,3"])


def test_quantities_that_take_a_link():
    linked = {name for name, quantity in QUANTITIES.items() if quantity.usual_link}
    assert {"icl_error", "idg_error", "task_gap", "pretrained_accuracy"} <= linked
    assert {"icl_error_at_time", "stopped_icl_error"} <= linked
    assert "optimal_ridge" not in linked
