"""What pictures of curves say: labels, legends, titles, predictions."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import iclimit
from iclimit.diagrams.quantities import QUANTITIES
from iclimit.diagrams.scans import _places
from iclimit.diagrams.smooth_predictions import smooth_limit

TAU = np.linspace(0.2, 5, 9)
SETTING = {"kappa": 0.5, "rho": 0.01}


def new_axes(width=6.4, height=4.0):
    return Figure(figsize=(width, height), layout="constrained").subplots()


@pytest.fixture(scope="module")
def curves():
    return iclimit.curve("icl_error", tau=TAU, alpha=[1, 10], **SETTING)


def legend_of(ax):
    legend = ax.get_legend()
    return [] if legend is None else [text.get_text() for text in legend.get_texts()]


def test_the_title_has_what_all_curves_share(curves):
    ax = curves.plot(new_axes())
    assert ax.get_title() == r"$\kappa = 0.5$, $\rho = 0.01$"
    assert legend_of(ax) == [r"$\alpha = 1$", r"$\alpha = 10$"]


def test_a_title_of_the_user_stays(curves):
    ax = new_axes()
    ax.set_title("Mine")
    assert curves.plot(ax).get_title() == "Mine"
    assert curves.plot(new_axes(), title="Given").get_title() == "Given"
    assert curves.plot(new_axes(), title="").get_title() == ""


def test_a_wide_title_is_broken():
    spectra = {"task_spectrum": "powerlaw:0.9", "test_spectrum": "reversed"}
    tests = {"test_alpha": 3, "test_rho": 1e-5}
    found = iclimit.curve("icl_error", tau=TAU, alpha=1, **SETTING, ridge=1e-3, **tests, **spectra)
    ax = found.plot(new_axes(2.6, 2.2))
    ax.figure.canvas.figure.draw_without_rendering()
    assert ax.title.get_window_extent().width < ax.figure.bbox.width
    assert r"$\rho' = 10^{-5}$" in ax.get_title()


def test_label_color_and_legend(curves):
    ax = curves.plot(new_axes(), label="mine", color=["red", "blue"], legend="lower left")
    assert legend_of(ax) == [r"mine, $\alpha = 1$", r"mine, $\alpha = 10$"]
    assert [line.get_color() for line in ax.lines] == ["red", "blue"]
    assert {line.get_color() for line in curves.plot(new_axes(), color="k").lines} == {"k"}
    assert curves.plot(new_axes(), legend=False).get_legend() is None
    with pytest.raises(ValueError, match=r"color must be one for all curves or 2 .*, got \['k'\]"):
        curves.plot(new_axes(), color=["k"])


def test_names_of_each_curve_and_of_the_values(curves):
    ax = curves.plot(new_axes(), label=["short", "long"], ylabel="error", marker=["s", "^"])
    assert (legend_of(ax), ax.get_ylabel()) == (["short", "long"], "error")
    for line, marker in zip(ax.lines, "s^", strict=True):
        assert line.get_marker() == marker
        marked = np.asarray(line.get_xdata())[line.get_markevery()]
        assert marked == pytest.approx(TAU)
    assert legend_of(curves.plot(ax, label="later", legend=["long", "short"])) == ["long", "short"]
    with pytest.raises(ValueError, match=r"legend must have names of \['short', .*, got 'low'"):
        curves.plot(ax, legend=["low"])


@pytest.mark.parametrize(("highest", "scale"), [(9.0, "linear"), (11.0, "log")])
def test_more_than_a_factor_of_ten_is_logarithmic(highest, scale):
    ax = iclimit.curve(lambda x: x, x=[1.0, highest]).plot(new_axes())
    assert ax.get_yscale() == scale


def test_several_quantities_share_axes():
    """Attention and dMMSE over the same number of tasks."""
    ax = new_axes()
    kappa = np.geomspace(0.1, 100, 20)
    iclimit.curve("icl_error", kappa=kappa, tau=4, alpha=1, rho=0.3).plot(ax)
    assert legend_of(ax) == []
    dmmse = iclimit.curve("sized_dmmse_icl_error", kappa=kappa, alpha=1, rho=0.3, dim=40)
    dmmse.plot(ax)
    assert legend_of(ax) == [r"$e_{\mathrm{ICL}}$", r"$e_{\mathrm{ICL}}$ of dMMSE"]
    assert ax.get_ylabel() == r"$e_{\mathrm{ICL}}$, $e_{\mathrm{ICL}}$ of dMMSE"
    assert ax.lines[0].get_color() != ax.lines[1].get_color()
    assert ax.get_title() == ""  # the title of one would be wrong for the other
    same = iclimit.pretraining.dmmse_errors(
        theta=math.log(40 * 0.1) / 40, alpha=1, rho=0.3, dim=40
    )
    assert dmmse.values[0, 0] == pytest.approx(float(same.icl), rel=1e-12)
    with pytest.raises(ValueError, match=r"kappa must be >= 1/dim and finite, got"):
        iclimit.curve("sized_dmmse_icl_error", kappa=[0.01, 1], alpha=1, rho=0.3, dim=40)


@pytest.mark.parametrize("size", [(6.4, 4.0), (3.4, 2.4), (2.4, 2.0)])
def test_the_legend_hides_no_curve(size):
    many = iclimit.curve("icl_error", tau=np.linspace(0.1, 2, 9), alpha=[1, 2, 4, 8], **SETTING)
    ax = many.plot(new_axes(*size))
    ax.figure.canvas.figure.draw_without_rendering()
    legend = ax.get_legend()
    assert legend is not None
    box = legend.get_window_extent()
    for line in ax.lines:
        path = line.get_path().transformed(line.get_transform())
        frame = ax.get_window_extent()
        assert box.y0 >= frame.y1 or not path.intersects_bbox(box, filled=False)


def test_the_picture_ends_below_the_divergence(curves):
    ax = curves.plot(new_axes())
    top = ax.get_ylim()[1]
    for line in ax.lines:
        y = np.asarray(line.get_ydata())
        assert np.nanmax(y) > 100 * top
        assert np.isnan(y).sum() == 1


def test_curves_are_labelled_arrays(tmp_path):
    """Over the parameters that vary, given in any order; a value that is given twice is one."""
    found = iclimit.curve("icl_error", alpha=[1, 10, 1], rho=[0.1], kappa=[1, 2], tau=TAU)
    found.write(tmp_path / "curve.nc")
    with xr.open_dataset(tmp_path / "curve.nc", engine="h5netcdf") as data:
        assert data["icl_error"].dims == ("alpha", "kappa", "tau")
        at = data["icl_error"].sel(alpha=10, kappa=1, tau=5)
        assert float(at) == iclimit.icl_error(alpha=10, kappa=1, tau=5, rho=0.1)
        assert (data.attrs["rho"], data["tau"].attrs["symbol"]) == (0.1, r"$\tau = n/d^2$")


def test_integers_are_points():
    found = iclimit.curve("constant_rate_loss", steps=[1, 2, 5], ratio=0.5, rate=0.5)
    [line] = found.plot(new_axes()).lines
    assert np.asarray(line.get_xdata()).tolist() == [1, 2, 5]
    assert line.get_marker() == "o"


@pytest.fixture(scope="module")
def simulated():
    """A curve with a pole, and simulations where they are asked for."""
    setting = {"tau": np.linspace(0.3, 3, 30), "alpha": 2, "kappa": 6, "rho": 0.1}
    simulation = {"dim": 8, "repeats": 2, "points": [0.5, 1.5]}
    return iclimit.curve("icl_error", **setting, simulation=simulation, jobs=1)


def test_predictions_run_along_the_whole_curve(simulated):
    [predicted], [values] = simulated.finite_size, simulated.simulated
    prompts = [round(64 * each.parameters["tau"]) for each in predicted]
    assert (prompts[0], prompts[-1]) == (19, 192)
    assert {each.parameters["dim"] for each in predicted} == {8}
    rows = [row for row in simulated.rows() if row["source"] == "finite_size"]
    assert len(rows) == len(prompts) + 2
    assert all(row["repeats"] is None and row["dim"] == 8 for row in rows)
    # No place is there twice, with two predictions.
    assert len({row["tau"] for row in rows}) == len(rows)
    known = [row["standard_error"] for row in rows if np.isfinite(row["value"])]
    assert min(known) > 0
    data = simulated.to_xarray()
    assert data["simulated_value"].values == pytest.approx([v.estimate.mean for v in values])
    assert data["predicted_tau"].values == pytest.approx(np.array(prompts) / 64)


def test_places_of_the_simulation_may_be_given(simulated):
    assert [v.parameters["tau"] for v in simulated.simulated[0]] == [0.5, 1.5]
    setting = {"tau": [1, 2], "alpha": 2, "kappa": 1, "rho": 0.1}
    for points, message in (([-1], "tau must be > 0"), ("2", "or values of tau, got '2'")):
        simulation = {"dim": 8, "points": points}
        with pytest.raises(ValueError, match=message):
            iclimit.curve("icl_error", **setting, simulation=simulation)


def test_points_are_where_the_curve_turns():
    """At its minimum (tau = 0.38), but not at its pole."""
    setting = {"tau": np.linspace(0.1, 2, 39), "alpha": 10, "kappa": 0.5, "rho": 0.01}
    simulation = {"dim": 40, "repeats": 1, "points": 5, "time_limit": 1e-9}
    with pytest.warns(RuntimeWarning, match="0 of 5 points are simulated"):
        curves = iclimit.curve("icl_error", **setting, simulation=simulation, jobs=1)
    places = _places(curves.quantity, "tau", curves.grid, curves.values[0], {}, 5)
    assert places == pytest.approx([0.1, curves.grid[np.argmin(curves.values)], 1.05, 1.5, 2])


def test_the_drawn_prediction_is_smooth_and_right(simulated):
    """Without kinks, at its pole broken, and within the errors of predictions in between."""
    ax = simulated.plot(new_axes())
    assert legend_of(ax)[-2:] == ["prediction, $d = 8$", "simulation, $d = 8$"]
    [dashed, _] = [line for line in ax.lines if line.get_linestyle() == "--"]
    x, y = (np.asarray(each) for each in dashed.get_data())
    assert x[np.isnan(y)] == pytest.approx([72 / 64])
    right = x > 1.3
    slope = np.diff(np.log(y[right])) / np.diff(x[right])
    # A line with kinks has slopes that change at these alone.
    assert np.max(abs(np.diff(slope, n=2))) < 0.4 * np.max(abs(np.diff(slope)))
    for prompts in (35, 110, 170):
        sizes = {"dim": 8, "context": 16, "tasks": 48, "prompts": prompts, "rho": 0.1}
        exact = iclimit.finite_size_errors(**sizes, draws=200, rng=1, approach="moments").icl
        assert np.interp(prompts / 64, x, y) == pytest.approx(exact.mean, rel=0.02)


def test_explanations_come_after_all_curves(simulated, curves):
    ax = simulated.plot(new_axes(), label="first")
    curves.plot(ax, label=["second", "third"])
    assert legend_of(ax)[:3] == ["first", "second", "third"]


def test_new_axes_are_made():
    ax = iclimit.curve("bayes_error", alpha=[1, 2, 3], rho=0.1).plot()
    assert ax.figure is plt.gcf()


def test_a_band_is_the_scatter_of_one_run():
    at = {"alpha": [1.0, 2.0], "kappa": 1.0, "rho": 0.1}
    tau = np.array([0.5, 0.9, 1.0, 1.5])
    curves = iclimit.curve("icl_error", tau=tau, **at, band=24)
    point = {"tau": 1.5, "alpha": 2.0, "kappa": 1.0, "rho": 0.1}
    sd = float(iclimit.pretraining.error_spread(**point).icl) / 24
    assert curves.run_sd[1, 3] == pytest.approx(sd)
    assert curves.rows()[-1]["run_sd"] == pytest.approx(sd)
    assert "run_sd" not in iclimit.curve("icl_error", tau=tau, **at).rows()[0]
    ax = curves.plot()
    bands = ax.collections
    assert len(bands) == 2
    texts = [text.get_text() for text in ax.get_legend().get_texts()]
    assert texts[-1] == "one run at $d = 24$: ± one standard deviation"
    ends = np.concatenate([path.vertices for path in bands[1].get_paths()])
    error = float(iclimit.icl_error(**point))
    at_end = ends[ends[:, 0] == 1.5, 1]
    assert at_end.min() == pytest.approx(error * np.exp(-sd / error))
    assert at_end.max() == pytest.approx(error * np.exp(sd / error))
    assert not np.any(ends[:, 0] == 1.0)  # the error is infinite
    data = curves.to_xarray()
    assert data.run_sd.sel(tau=1.5, alpha=2.0).item() == pytest.approx(sd)
    gap = iclimit.curve("task_gap", tau=tau, **at, band=24)
    expected = float(iclimit.pretraining.error_spread(**point).gap) / 24
    assert gap.run_sd[1, 3] == pytest.approx(expected)
    with pytest.raises(ValueError, match="for a band, got 'bayes_error'"):
        iclimit.curve("bayes_error", alpha=[1, 2], rho=0.1, band=24)
    with pytest.raises(ValueError, match="band must be an integer >= 1, got 0"):
        iclimit.curve("icl_error", tau=tau, **at, band=0)


def test_a_line_of_sequences_is_interpolated_and_right():
    """Also at a peak that is as wide as the distance between the first points."""
    quantity = QUANTITIES["all_position_icl"]
    point = {"alpha": 2.0, "alpha_min": 0.1, "kappa": math.inf, "rho": 0.1, "ridge": 1e-3}
    grid = np.geomspace(0.3, 5, 17)
    line = smooth_limit(quantity, "sequence_ratio", point, grid[[0, -1]])
    exact = quantity.evaluate(point | {"sequence_ratio": grid})
    np.testing.assert_allclose(line(grid), exact, rtol=0.004)
