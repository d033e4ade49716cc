"""Points of one's own on curves and phase diagrams."""

import matplotlib.pyplot as plt
import numpy as np
import pytest
from refusals import value_error

import iclimit
from iclimit.cli import main
from iclimit.diagrams.phases import PhaseDiagram

FIXED = {"kappa": 0.5, "rho": 0.1, "ridge": 0.01}


@pytest.fixture(scope="module")
def curves():
    return iclimit.curve("icl_error", tau=np.linspace(1.2, 5, 9), alpha=[1.0, 10.0], **FIXED)


@pytest.fixture(scope="module")
def diagram():
    axes = {"tau": np.linspace(1.5, 5, 6), "alpha": np.geomspace(0.5, 20, 5)}
    return iclimit.phase_diagram("icl_error", x="tau", y="alpha", **axes, **FIXED)


def test_points_are_compared_with_the_limit(curves):
    """Values that are the theory of another function plus two standard errors have z = 2."""
    tau = [1.5, 3.0, 4.0]
    theory = iclimit.icl_error(tau=np.array(tau), alpha=10.0, **FIXED)
    table = {"tau": tau, "alpha": [10.0] * 3, "icl": theory + 0.1, "icl_se": [0.05] * 3}
    rows = curves.with_points(table).own_points.rows()
    assert [row["z"] for row in rows] == pytest.approx([2.0] * 3)
    assert [row["alpha"] for row in rows] == [10.0] * 3


def test_points_with_integers_are_compared_at_their_size(curves):
    """The prediction at d = 20 agrees with forty simulated runs, the limit does not."""
    sizes = {"dim": 20, "context": 20, "tasks": 10, "prompts": 1000}
    runs = iclimit.simulate_errors(**sizes, rho=0.1, ridge=0.01, rng=1, repeats=40)
    table = {**sizes, "mse": runs.icl.mean, "error": runs.icl.standard_error}
    columns = {"icl": "mse", "icl_se": "error"}
    (row,) = curves.with_points([table], columns=columns).own_points.rows()
    assert abs(row["z"]) < 4
    limit = iclimit.icl_error(tau=2.5, alpha=1.0, **FIXED)
    assert abs(runs.icl.mean - limit) > 8 * runs.icl.standard_error
    assert (row["tau"], row["alpha"]) == (2.5, 1.0)


def test_rows_that_do_not_belong_to_the_picture_are_counted(curves, diagram):
    table = {"tau": [2.0, 3.0, 9.0], "alpha": [1.0, 4.0, 1.0], "value": [1.5, 1.1, 0.9]}
    assert len(curves.with_points(table).own_points.rows()) == 1
    assert len(diagram.with_points(table).own_points.rows()) == 2
    ax = curves.plot(plt.figure().subplots(), points=table)
    assert "yours (1 of 3)" in [text.get_text() for text in ax.get_legend().get_texts()]


def test_points_are_drawn_in_the_colours_of_their_curves(curves):
    table = {"tau": [2.0, 3.0], "alpha": [10.0, 1.0], "value": [1.2, 1.1]}
    table["standard_error"] = [0.1, 0.2]
    ax = curves.plot(plt.figure().subplots(), points=table)
    lines = [line for line in ax.lines if len(line.get_xdata()) > 3]
    bars = {float(c.lines[0].get_xdata()[0]): c.lines[0].get_color() for c in ax.containers}
    assert bars == {3.0: lines[0].get_color(), 2.0: lines[1].get_color()}


def test_rings_have_the_colour_of_their_z(diagram):
    at = {"tau": [2.0, 4.0], "alpha": [1.0, 10.0]}
    theory = iclimit.icl_error(**{n: np.array(v) for n, v in at.items()}, **FIXED)
    table = {**at, "value": theory + np.array([0.3, -0.3]), "standard_error": [0.1, 0.1]}
    ax = diagram.plot(plt.figure().subplots(), points=table)
    _, ring, *_ = ax.collections[-4:]
    above, below = ring.get_facecolors()
    assert above[0] > above[2]  # red above the theory
    assert below[2] > below[0]  # blue below
    plain = diagram.plot(plt.figure().subplots(), points=table, show_z=False)
    colours = plain.collections[-3].get_facecolors()
    assert np.ptp(colours[:, :3]) < 1e-12


def test_boundaries_are_chosen_by_name(diagram):
    every = diagram.boundaries
    assert diagram.shown_boundaries(False) == {}
    chosen = diagram.shown_boundaries(["null"])
    assert len(chosen) == 1
    assert set(chosen) < set(every)
    assert list(diagram.shown_boundaries({"null": "predicting 0"})) == ["predicting 0"]
    value_error("did you mean null", PhaseDiagram.shown_boundaries, diagram, ["nul"])
    ax = diagram.plot(plt.figure().subplots(), boundaries=False)
    assert ax.get_legend() is None


def test_refusals_name_the_column(curves):
    for table, message in (
        ({"tau": [2.0], "alpha": [1.0]}, "must have a column icl"),
        ({"alpha": [1.0], "value": [1.0]}, "must have a column tau .* or dim with"),
        ({"tau": [2.0], "value": [1.0]}, "a column alpha, which has several values"),
        ({"tau": [2.0], "alpha": [4.0], "value": [1.0]}, "no row of the table belongs"),
        ({"tau": [2.0], "alpha": [1.0], "value": [1.0], "icl": [1.0]}, "both value and icl"),
        ({"tua": [2.0], "value": [1.0]}, "did you mean tau"),
        ({"tau": [2.0], "alpha": [1.0], "value": [1.0], "standard_error": [-1.0]}, "row 1"),
    ):
        value_error(message, curves.with_points, table)


def test_verbs_draw_points_and_print_their_z(tmp_path, capsys):
    table = tmp_path / "mine.csv"
    table.write_text("tau,alpha,loss\n2,1,1.4\n3,1,1.2\n")
    words = "curve icl_error --tau 1.5:4:5 --alpha 1 --kappa 0.5 --rho 0.1"
    curve = words.split()
    own = ["--points", str(table), "--columns", "icl=loss"]
    assert main([*curve, *own, "-o", str(tmp_path / "curve.png"), "--format", "text"]) == 0
    assert "theory" in capsys.readouterr().out
    assert main([*curve, *own]) == 2
    assert "--points needs a picture" in capsys.readouterr().err
    words = "phase icl_error --x tau=1.5:4:5 --y alpha=0.5:4:5 --kappa 0.5 --rho 0.1"
    phase = words.split()
    look = ["--boundaries", "null=predicting 0", "--no-z", "-o", str(tmp_path / "phase.png")]
    assert main([*phase, *own, *look]) == 0
    assert main([*phase, "--boundaries", "nul", "-o", str(tmp_path / "phase.png")]) == 2
    assert "did you mean null" in capsys.readouterr().err
