"""Losses of deep linear attention as quantities: spectra, integers along an axis."""

import numpy as np
import pytest

import iclimit
from iclimit.asymptotics.depth import depth_loss, tied_flow, untied_depth
from iclimit.axes import cell_edges, is_logarithmic
from iclimit.cli.values import parse_setting

LAM = np.arange(1.0, 31) ** -1.2
DEPTHS = [1, 2, 4, 8]


def test_curves_are_the_functions_relative_to_predicting_zero():
    setting = {"alpha": 2.0, "width_ratio": 0.7}
    given = {"input_spectrum": "powerlaw:1.2,30", "task_spectrum": "powerlaw:1,30"}
    tasks = np.arange(1.0, 31) ** -1.0
    data = {"spectrum": LAM, "task_spectrum": tasks}
    labels = LAM * tasks
    tied = iclimit.curve("tied_loss", depth=DEPTHS, noise_variance=0.1, **setting, **given)
    exact = depth_loss(depth=DEPTHS, noise_variance=0.1, **setting, **data)
    assert tied.values[0] == pytest.approx(exact.loss / labels.mean(), rel=1e-12)
    untied = iclimit.curve("untied_loss", depth=DEPTHS, **setting, **given)
    best = untied_depth(LAM, weights=labels, depth=8, **setting)
    assert untied.values[0] == pytest.approx(best.losses[np.array(DEPTHS) - 1], rel=1e-12)
    flow = iclimit.curve("tied_flow_loss", t=[0, 1, 9], depth=3, **setting, **given)
    path = tied_flow(times=[0, 1, 9], depth=3, **setting, **data)
    assert flow.values[0] == pytest.approx(path.loss / labels.mean(), rel=1e-12)


def test_inputs_alone_and_isotropic_data():
    """A density is taken as it is, not as cells of it; without a spectrum data are isotropic."""
    smooth = iclimit.curve("tied_loss", depth=DEPTHS, alpha=2, input_spectrum="uniform:0.5,1.5")
    exact = depth_loss(depth=DEPTHS, alpha=2.0, spectrum="uniform:0.5,1.5")
    assert smooth.values[0] == pytest.approx(exact.loss, rel=1e-12)
    flat = iclimit.curve("untied_loss", depth=DEPTHS, alpha=2)
    assert flat.values[0] == pytest.approx(1 / (2.0 ** (np.array(DEPTHS) + 1) - 1), rel=1e-9)


def test_refused_spectra():
    point = {"depth": DEPTHS, "alpha": 2}
    with pytest.raises(ValueError, match="input_spectrum must be bounded, got PowerLaw"):
        iclimit.curve("tied_loss", input_spectrum="powerlaw:0.5", **point)
    with pytest.raises(ValueError, match="must be lists of eigenvalues for untied_loss"):
        iclimit.curve("untied_loss", task_spectrum="atoms:1,2;0.3,0.7", **point)
    with pytest.raises(ValueError, match="test_spectrum must not be given for tied_loss"):
        iclimit.curve("tied_loss", task_spectrum="atoms:1,2", test_spectrum="reversed", **point)
    for quantity in ("tied_loss", "untied_loss"):
        with pytest.raises(ValueError, match="depth must be an integer"):
            iclimit.curve(quantity, depth=[1, 2.5], alpha=2)


def test_integers_on_an_axis():
    name, depths = parse_setting("depth=1:64:20:log")
    assert (name, depths.tolist()[:6], depths[-1]) == ("depth", [1, 2, 3, 4, 5, 6], 64)
    assert is_logarithmic(depths)
    assert not is_logarithmic(np.arange(1.0, 20))
    assert not is_logarithmic(np.array([1.0, 2.5, 7.0]))
    assert parse_setting("alpha=1:2:3")[1].tolist() == [1, 1.5, 2]
    powers = 2.0 ** np.arange(5)
    assert cell_edges(powers) == pytest.approx(2.0 ** np.arange(-0.5, 5))
    assert cell_edges(np.array([0.0, 1.0, 3.0])).tolist() == [-0.5, 0.5, 2, 4]
    diagram = iclimit.phase_diagram(
        "untied_loss", x="alpha", y="depth", alpha=np.geomspace(0.25, 4, 5), depth=powers
    )
    ax = diagram.plot()
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1", "2", "4", "8", "16"]
    assert ax.get_ylim() == pytest.approx((2**-0.5, 2**4.5))
    assert "alpha = 1" in next(iter(diagram.boundaries))
