"""What pictures of curves say: labels, legends, titles, predictions."""

import math

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure

import iclimit

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
    with pytest.raises(ValueError, match=r"color must be one colour or 2 of them, got \['k'\]"):
        curves.plot(new_axes(), color=["k"])


def test_several_quantities_share_axes():
    """Attention and dMMSE over the same number of tasks."""
    ax, kappa = new_axes(), np.geomspace(0.1, 100, 20)
    iclimit.curve("icl_error", kappa=kappa, tau=4, alpha=1, rho=0.3).plot(ax)
    assert legend_of(ax) == []
    dmmse = iclimit.curve("sized_dmmse_icl_error", kappa=kappa, alpha=1, rho=0.3, dim=40)
    dmmse.plot(ax)
    assert legend_of(ax) == [r"$e_{\mathrm{ICL}}$", r"$e_{\mathrm{ICL}}$ of dMMSE"]
    assert ax.get_ylabel() == r"$e_{\mathrm{ICL}}$, $e_{\mathrm{ICL}}$ of dMMSE"
    assert ax.lines[0].get_color() != ax.lines[1].get_color()
    assert ax.get_title() == ""  # the title of one would be wrong for the other
    same = iclimit.dmmse_errors(theta=math.log(40 * 0.1) / 40, alpha=1, rho=0.3, dim=40)
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


def test_predictions_run_along_the_whole_curve():
    setting = {"kappa": np.geomspace(0.25, 4, 9), "tau": 2, "alpha": 1, "rho": 0.1}
    simulation = {"dim": 8, "repeats": 2, "points": 2}
    found = iclimit.curve("task_gap", **setting, simulation=simulation, jobs=1)
    [predicted], [simulated] = found.finite_size, found.simulated
    tasks = [round(8 * each.parameters["kappa"]) for each in predicted]
    assert (tasks[0], tasks[-1]) == (2, 32)
    assert len(tasks) > 12
    assert {each.parameters["dim"] for each in predicted} == {8}
    ends = {round(8 * v.parameters["kappa"]): v for v in simulated}
    for each, count in zip(predicted, tasks, strict=True):
        if count in ends:
            run = ends[count].runs[0].prediction
            error = math.hypot(each.prediction.standard_error, run.standard_error)
            assert abs(each.prediction.mean - run.mean) < 4.5 * error
    rows = [row for row in found.rows() if row["source"] == "finite_size"]
    assert len(rows) == len(tasks) + 2
    assert all(row["repeats"] is None and row["dim"] == 8 for row in rows)
    data = found.to_xarray()
    assert data["simulated_value"].values == pytest.approx([v.estimate.mean for v in simulated])
    assert data["predicted_kappa"].values == pytest.approx(np.array(tasks) / 8)
    ax = found.plot(new_axes())
    assert "prediction, $d = 8$" in legend_of(ax)
    [dashed] = [
        line for line in ax.lines if line.get_linestyle() == "--" and np.size(line.get_xdata())
    ]
    assert len(np.asarray(dashed.get_xdata())) >= len(tasks)


def test_new_axes_are_made():
    ax = iclimit.curve("bayes_error", alpha=[1, 2, 3], rho=0.1).plot()
    assert ax.figure is plt.gcf()
    plt.close("all")
