"""Phase diagrams: values, tables, labelled arrays and drawings."""

import csv
import json

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import LogNorm, to_rgba
from matplotlib.figure import Figure

import iclimit
from iclimit.cli import main


@pytest.fixture
def diagram():
    setting = {"tau": np.geomspace(0.1, 10, 21), "kappa": [0.5, 1, 2], "alpha": 10, "rho": 0.1}
    return iclimit.phase_diagram("icl_error", x="tau", y="kappa", **setting)


def test_values_and_rows():
    diagram = iclimit.phase_diagram(
        "icl_error", x="alpha", y="rho", alpha=[1, 2, 4], rho=[0, 0.5], tau=2, kappa=1, ridge=0.1
    )
    expected = iclimit.icl_error(tau=2, alpha=4, kappa=1, rho=0.5, ridge=0.1)
    assert diagram.values[1, 2] == expected
    place = {"tau": 2, "kappa": 1, "ridge": 0.1, "alpha": 4, "rho": 0.5}
    assert diagram.rows()[5] == {"quantity": "icl_error", **place, "value": expected}


def test_labelled_array_goes_through_a_file(diagram, tmp_path):
    path = tmp_path / "diagram.nc"
    diagram.to_xarray().to_netcdf(path, engine="h5netcdf")
    with xr.open_dataset(path, engine="h5netcdf") as read:
        data = read.load()
    assert data["icl_error"].dims == ("kappa", "tau")
    np.testing.assert_array_equal(data["icl_error"], diagram.values)
    assert np.isinf(data["icl_error"].sel(tau=1, method="nearest")).all()
    assert data["tau"].attrs["units"] == "dimensionless"
    assert data["tau"].attrs["symbol"] == r"$\tau = n/d^2$"
    assert data.attrs["alpha"] == 10
    assert data.attrs["quantity"] == "icl_error"
    assert data.attrs["iclimit_version"] == iclimit.__version__
    for label, lines in diagram.boundaries.items():
        here = data.where(data["boundary"] == label, drop=True)
        np.testing.assert_array_equal(here["boundary_tau"], np.concatenate(lines)[:, 0])
        assert len(np.unique(here["line"])) == len(lines)


def test_without_boundaries_the_list_is_empty(tmp_path):
    diagram = iclimit.phase_diagram("bayes_error", x="alpha", y="rho", alpha=[1, 2], rho=[0, 0.5])
    assert diagram.boundaries == {}
    data = diagram.to_xarray()
    assert data.sizes["vertex"] == 0
    data.to_netcdf(tmp_path / "empty.nc", engine="h5netcdf")


def test_plot_draws_into_given_axes(diagram):
    ax = Figure().subplots()
    assert diagram.plot(ax) is ax
    assert len(ax.lines) == sum(map(len, diagram.boundaries.values()))
    assert ax.get_xscale() == "log"
    assert ax.get_xlabel() == r"prompts, $\tau = n/d^2$"
    legend = ax.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [*diagram.boundaries, "infinite"]
    assert legend.get_title().get_text() == r"$\alpha = 10$, $\rho = 0.1$"
    assert len({line.get_color() for line in ax.lines}) == len(diagram.boundaries) == 5


def test_a_divergence_does_not_wreck_the_colours(diagram):
    ax = Figure().subplots()
    (mesh,) = [c for c in diagram.plot(ax).collections if hasattr(c, "get_coordinates")]
    finite = diagram.values[np.isfinite(diagram.values)]
    assert mesh.norm.vmax <= finite.max()
    assert mesh.norm.vmin == finite.min()
    assert mesh.get_rasterized()
    infinite = np.ma.getmaskarray(np.ma.asarray(mesh.get_array()))
    np.testing.assert_array_equal(infinite, np.isinf(diagram.values))
    assert to_rgba("#b0b0b0") == tuple(mesh.cmap.get_bad())


def drawn_cells(diagram):
    """Colours of a picture as an array, and the mesh."""
    collections = diagram.plot(Figure().subplots()).collections
    (mesh,) = [c for c in collections if hasattr(c, "get_coordinates")]
    return np.ma.asarray(mesh.get_array()), mesh


def test_colours_between_the_points_are_near_the_values_there():
    """A map of 40 x 30 points is drawn as the values at more; at the points they are the same."""
    grid = {"tau": np.geomspace(1.5, 10, 40), "kappa": np.linspace(0.5, 2, 30)}
    diagram = iclimit.phase_diagram("icl_error", x="tau", y="kappa", alpha=2, rho=0.1, **grid)
    cells, mesh = drawn_cells(diagram)
    parts = [(now - 1) // (old - 1) for now, old in zip(cells.shape, (30, 40), strict=True)]
    assert min(cells.shape) > 250
    np.testing.assert_allclose(cells[:: parts[0], :: parts[1]], diagram.values, rtol=1e-12)
    middle = mesh.get_coordinates()[:-1, :-1] / 2 + mesh.get_coordinates()[1:, 1:] / 2
    there = iclimit.icl_error(tau=middle[..., 0], kappa=middle[..., 1], alpha=2, rho=0.1)
    assert np.max(np.abs(cells / there - 1)) < 0.02


def test_infinite_values_are_cells_of_their_own():
    """Half a step around a divergence on the grid is grey, and nothing else."""
    grid = {"tau": np.linspace(0.5, 1.5, 21), "kappa": np.linspace(0.5, 2, 20)}
    diagram = iclimit.phase_diagram("icl_error", x="tau", y="kappa", alpha=2, rho=0.1, **grid)
    cells, mesh = drawn_cells(diagram)
    grey = np.ma.getmaskarray(cells)
    x = mesh.get_coordinates()[0, :, 0]
    assert grey.any()
    assert np.array_equal(grey.all(axis=0), grey.any(axis=0))
    edges = x[:-1][grey[0]].min(), x[1:][grey[0]].max()
    assert edges == pytest.approx((0.975, 1.025), abs=0.004)


def test_whole_numbers_are_cells():
    """Nothing is between a number of steps and the next."""
    grid = {"condition_number": np.geomspace(2, 1e3, 25), "tol": np.geomspace(1e-3, 0.5, 24)}
    diagram = iclimit.phase_diagram("steps_needed", x="condition_number", y="tol", **grid)
    np.testing.assert_array_equal(drawn_cells(diagram)[0], diagram.values)


@pytest.mark.parametrize(
    ("quantity", "setting"),
    [
        (
            "steps_needed",
            {"condition_number": np.geomspace(1, 1e3, 9), "tol": np.geomspace(1e-3, 1, 8)},
        ),
        ("bayes_error", {"alpha": [1, 2], "rho": [0.1, 0.2]}),
        (
            "escape_time",
            {"initial_value": np.geomspace(1e-3, 1, 9), "eigenvalue": np.geomspace(0.1, 9, 5)},
        ),
        (
            "ridge_risk",
            {"context": [4, 5, 6], "noise_variance": [0, 1.0], "penalty": 0.0, "dim": 5},
        ),
    ],
)
def test_other_quantities_are_drawn(quantity, setting):
    """Integers, short grids, several decades, infinite values on a grid that is not even."""
    x, y = list(setting)[:2]
    figure = Figure(layout="constrained")
    drawn = iclimit.phase_diagram(quantity, x=x, y=y, **setting)
    found = isinstance(drawn.plot(figure.subplots()).collections[0].norm, LogNorm)
    assert found == (quantity == "escape_time")
    figure.draw_without_rendering()


def test_bad_input_is_named():
    for changed, message in (
        ({"y": "alpha"}, "x and y must be different parameters"),
        ({"alpha": [2, 1]}, "alpha must be an ascending sequence"),
        ({"x": "tau"}, "x must be one of alpha, rho, got 'tau'"),
        ({"tau": 1}, "bayes_error takes alpha, rho, got 'tau'"),
        ({"alpha": [1, 2j]}, "alpha must be a number or a sequence of numbers, got"),
        ({"rho": "ab"}, "rho must be a number or a sequence of numbers, got 'ab'"),
    ):
        arguments = {"x": "alpha", "y": "rho", "alpha": [1, 2], "rho": [0, 1]} | changed
        with pytest.raises(ValueError, match=message):
            iclimit.phase_diagram("bayes_error", **arguments)


# The verb.

AXES = ["--x", "ratio=0.1:10:8:log", "--y", "rate=0.1:4:9:log"]


def test_a_picture_has_its_data_beside_it(tmp_path):
    path = tmp_path / "phase.pdf"
    arguments = ["phase", "constant_rate_loss", *AXES, "--steps", "3", "-o", str(path)]
    assert main(arguments) == 0
    assert sorted(p.name for p in tmp_path.glob("phase*")) == sorted(["phase.nc", path.name])
    with xr.open_dataset(tmp_path / "phase.nc", engine="h5netcdf") as data:
        assert data["constant_rate_loss"].shape == (9, 8)
        assert data.attrs["steps"] == 3
    assert mpl.rcParams["savefig.dpi"] == "figure"  # the user's settings are left alone


def test_a_picture_has_its_data_beside_it_without_what_writes_netcdf(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    path = tmp_path / "phase.pdf"
    assert main(["phase", "constant_rate_loss", *AXES, "--steps", "3", "-o", str(path)]) == 0
    assert sorted(p.name for p in tmp_path.glob("phase*")) == ["phase.csv", "phase.pdf"]


def test_data_beside_a_picture_that_cannot_be_written_are_named(tmp_path, capsys):
    (tmp_path / "phase.nc").mkdir()
    path = tmp_path / "phase.pdf"
    assert main(["phase", "constant_rate_loss", *AXES, "--steps", "3", "-o", str(path)]) == 2
    assert "the data beside the picture must be a file" in capsys.readouterr().err


def test_data_alone(tmp_path):
    for ending in ("nc", "csv", "json"):
        path = tmp_path / f"phase.{ending}"
        arguments = ["phase", "constant_rate_loss", *AXES, "--steps", "3", "-o", str(path)]
        assert main(arguments) == 0
    assert len(list(tmp_path.glob("phase*"))) == 3
    rows = json.loads((tmp_path / "phase.json").read_text())["rows"]
    table = list(csv.DictReader((tmp_path / "phase.csv").read_text().splitlines()))
    assert [{k: str(v) for k, v in row.items()} for row in rows] == table
    with xr.open_dataset(tmp_path / "phase.nc", engine="h5netcdf") as data:
        values = data["constant_rate_loss"].values.ravel()
    assert [row["value"] for row in rows] == values.tolist()


def test_the_list_has_every_quantity(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["phase", "--list"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    for name, quantity in iclimit.diagrams.quantities.QUANTITIES.items():
        assert f"{name}: {quantity.meaning}" in shown
    assert "\nsteps: number of steps (an integer >= 1)" in shown
    assert "fresh tasks\n    tau alpha kappa rho [ridge]\n" in shown


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--steps", "1,2"], "steps must be a number (x is ratio, y is rate)"),
        (["--rate", "2"], "rate must be given once"),
        (["--steps", "2", "--beta", "2"], "unrecognized arguments: --beta 2"),
        (["--steps", "2", "-o", "x.doc"], "output: must end in .csv, .json, .nc, .png"),
    ],
)
def test_bad_options_are_named(more, message, capsys):
    try:
        status = main(["phase", "constant_rate_loss", *AXES, *more])
    except SystemExit as stopped:
        status = stopped.code
    assert status == 2
    assert message in capsys.readouterr().err
