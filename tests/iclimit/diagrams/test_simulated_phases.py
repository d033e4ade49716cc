"""Simulated points of phase diagrams: where they are, their tables, files and pictures."""

import csv
import math

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import iclimit
from iclimit.cli import main
from iclimit.diagrams.phase_points import points_to_simulate
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.diagrams.simulated_points import can_be_extrapolated
from iclimit.statistics import z_threshold

pytestmark = pytest.mark.usefixtures("few_predictions")

ICL = QUANTITIES["icl_error"]
FIXED = {"alpha": 1.0, "rho": 0.1, "ridge": 0.1}
GRIDS = {"tau": np.geomspace(0.5, 8, 40), "kappa": np.linspace(0.5, 2, 30)}


@pytest.fixture(scope="module")
def diagram():
    grids = {"tau": np.geomspace(1, 4, 20), "kappa": np.linspace(0.5, 2, 16)}
    simulation = {"dim": (8, 10, 12), "points": 2, "repeats": 40}
    return iclimit.phase_diagram(
        "icl_error", x="tau", y="kappa", **grids, **FIXED, simulation=simulation, jobs=1
    )


def test_points_lie_on_the_axes_as_they_are_drawn():
    """Geometric along tau, even along kappa."""
    found = points_to_simulate(ICL, GRIDS, FIXED, [], (3, 4), 0)
    assert len(found) == 12
    assert points_to_simulate(ICL, GRIDS, FIXED, [], [3, 4], 0) == found
    assert sorted({round(p["tau"], 12) for p in found}) == [0.5, 2.0, 8.0]
    assert sorted({round(p["kappa"], 12) for p in found}) == [0.5, 1.0, 1.5, 2.0]
    assert all({name: p[name] for name in FIXED} == FIXED for p in found)


def test_a_boundary_refines():
    line = np.array([[0.5, 1.8], [8.0, 1.8]])
    flat = QUANTITIES["bayes_error"]
    grids = {"alpha": GRIDS["tau"], "rho": GRIDS["kappa"]}
    found = points_to_simulate(flat, grids, {}, [line], 3, 2)
    new = found[9:]
    assert len(new) > 10
    # Only rectangles that meet the line: those above the middle, and half of these again.
    assert min(p["rho"] for p in new if p not in found[:21]) > 1.5


def test_divergent_points_are_left_out():
    grids = {"tau": np.array([0.25, 1, 4.0]), "kappa": np.array([0.5, 1, 2.0])}
    fixed = {"alpha": 1.0, "rho": 0.1}
    found = points_to_simulate(ICL, grids, fixed, [], (3, 2), 0)
    assert sorted({p["tau"] for p in found}) == [0.25, 4.0]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [((10, 20), True), ((8, 16), False), ((12,), False), ((16, 20, 24), True)],
)
def test_integers_must_be_near(sizes, expected):
    """kappa d = 2, 4; 1.6, 3.2; 2.4; 3.2, 4, 4.8."""
    point = {"tau": 1.0, "alpha": 1.0, "kappa": 0.2, "rho": 0.0, "ridge": 0.1}
    assert can_be_extrapolated(point, sizes) == expected
    assert can_be_extrapolated(point | {"kappa": math.inf}, sizes)


def test_simulated_points_are_in_tables_and_arrays(diagram, tmp_path):
    places = [(v.parameters["tau"], v.parameters["kappa"]) for v in diagram.simulated]
    assert places == [(1.0, 0.5), (1.0, 2.0), (4.0, 0.5), (4.0, 2.0)]
    rows = diagram.rows()
    assert [row["source"] for row in rows[-5:]] == ["theory"] + ["simulation"] * 4
    assert len({tuple(row) for row in rows}) == 1
    last = rows[-1]
    value = diagram.simulated[-1]
    assert (last["value"], last["z"], last["dim"]) == (value.estimate.mean, value.z, "8 10 12")
    assert last["compared_with"] == iclimit.icl_error(tau=4.0, kappa=2.0, **FIXED)
    path = tmp_path / "phase.nc"
    diagram.to_xarray().to_netcdf(path, engine="h5netcdf")
    with xr.open_dataset(path, engine="h5netcdf") as read:
        data = read.load()
    np.testing.assert_array_equal(data["z"], [v.z for v in diagram.simulated])
    np.testing.assert_array_equal(data["simulated_tau"], [1, 1, 4, 4])


def test_simulation_agrees_with_the_limit(diagram):
    """And would not with a limit that is a fifth larger."""
    allowed = z_threshold(len(diagram.simulated))
    assert all(v.z is not None and abs(v.z) < allowed for v in diagram.simulated)
    assert max(abs(v.estimate.z(1.2 * v.theory)) for v in diagram.simulated) > 1.5 * allowed


def test_pictures(diagram):
    left, right = Figure().subplots(1, 2)
    assert diagram.plot(left) is left
    assert np.shape(left.collections[-1].get_offsets()) == (4, 2)
    legend = left.get_legend()
    assert legend is not None
    assert any("8, 10, 12" in text.get_text() for text in legend.get_texts())
    assert diagram.plot(right, errors=True) is right
    largest = max(abs(v.z) for v in diagram.simulated if v.z is not None)
    assert f"largest $|z|$ of 4: {largest:.1f}" in right.get_title()
    bare = iclimit.phase_diagram("bayes_error", x="alpha", y="rho", alpha=[1, 2], rho=[0, 0.5])
    with pytest.raises(ValueError, match="simulation must be given to draw its errors"):
        bare.plot(errors=True)


def test_the_command_line(tmp_path, own_store, capsys):
    axes = ["--x", "tau=1:4:12:log", "--y", "kappa=0.5:2:9", "--alpha", "1", "--rho", "0.1"]
    options = ["--simulate", "dim=8,points=2x3,repeats=2", "--jobs", "1", "--ridge", "0.1"]
    path = tmp_path / "phase.csv"
    assert main(["phase", "task_gap", *axes, *options, "-o", str(path)]) == 0
    told = capsys.readouterr().err
    assert told.startswith("12 simulations, 0 of them in the store; about ")
    rows = list(csv.DictReader(path.read_text().splitlines()))
    simulated = [row for row in rows if row["source"] == "simulation"]
    assert [row["dim"] for row in simulated] == ["8"] * 6
    assert own_store.exists()
    assert main(["phase", "task_gap", *axes, *options, "-o", str(tmp_path / "phase.svg")]) == 0
    assert capsys.readouterr().err.startswith("12 simulations, 12 of them in the store; ")
    assert "largest" in (tmp_path / "phase.svg").read_text()
    assert (tmp_path / "phase.nc").exists()


def test_bad_input():
    for changed, message in (
        ({"simulation": {"dim": 8, "points": 1}}, "points of the simulation must be one or two"),
        ({"simulation": {"dim": 8, "points": (2, 2, 2)}}, "points of the simulation must be one"),
        ({"refine": -1}, "refine must be an integer >= 0, got -1"),
        ({"tau": [1, 2, np.inf]}, "tau must be finite to simulate, got inf"),
    ):
        options = {"tau": [1, 2], "kappa": [1, 2], "simulation": {"dim": 8}, "jobs": 1}
        with pytest.raises(ValueError, match=message):
            iclimit.phase_diagram("icl_error", x="tau", y="kappa", **FIXED, **options | changed)
