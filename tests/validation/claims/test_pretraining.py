"""The claims on isotropic data can fail: errors that are off must turn the verdict."""

from typing import Any

import numpy as np
import pytest
from judged_claims import Results, draw, failed, off
from made_up_errors import larger, made_up

from iclimit.asymptotics.pretraining import FiniteSizeErrors
from iclimit.drawing import new_figure
from iclimit.results import Estimate
from iclimit.simulate.pretraining import SimulatedErrors
from iclimit.validation import CLAIMS
from iclimit.validation.claim import PRESETS
from iclimit.validation.claims.pretraining import points
from iclimit.validation.claims.pretraining.study import LINE_STEP

NAMES = ("ridgeless", "ridge", "double-descent", "context-length", "nonmonotonicity")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", PRESETS[1:])
def test_errors_hold_and_draw_and_can_fail(name: str, preset: Any) -> None:
    claim, results = CLAIMS[name], made_up(name, preset)
    verdict = claim.judge(preset, results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    for error in ("icl", "idg"):
        wrong = failed(claim.judge(preset, larger(results, error, "simulated")))
        assert any(each.startswith("common factor") and error in each for each in wrong)


@pytest.mark.parametrize("name", ["ridgeless", "ridge"])
@pytest.mark.parametrize("function", ["icl_error", "idg_error"])
def test_a_wrong_limit_is_noticed_at_the_stated_resolution(
    name: str, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The formula is wrong where the claim calls it; the estimate must not follow it."""
    results = made_up(name)
    right = CLAIMS[name].judge("quick", results)
    reach = right.resolutions[function]
    for factor in (1 + 1.5 * reach, 1 - 1.5 * reach):
        wrong = off(getattr(points, function), factor)
        monkeypatch.setattr(points, function, wrong)
        assert any(function in each for each in failed(CLAIMS[name].judge("quick", results)))
        monkeypatch.undo()


def test_published_errors_are_compared_with_the_prediction_and_in_full_with_ours() -> None:
    results: Results = {}
    for kind, point, dim in CLAIMS["published"].cells_by_key("full"):
        icl, idg = float(point.limit.icl), float(point.limit.idg)
        if kind == "predicted":
            results[kind, point, dim] = FiniteSizeErrors(Estimate(icl, 0, 1), Estimate(idg, 0, 1))
        else:
            runs = [Estimate.of([0.9 * x, x, 1.1 * x]) for x in (icl, idg)]
            results[kind, point, dim] = SimulatedErrors(runs[0], runs[1], {})
    labels = [c.label for c in CLAIMS["published"].judge("full", results).comparisons]
    assert len(set(labels)) == len(labels)
    assert sum("against ours d=100" in label for label in labels) == 46
    assert sum(label.startswith("published I") and "ours" not in label for label in labels) == 46
    assert sum("ICL-IDG against ours" in label for label in labels) == 18


def test_the_prediction_is_a_dashed_line_along_the_whole_curve() -> None:
    for name in ("context-length", "double-descent"):
        figure = new_figure()
        CLAIMS[name].judge("quick", made_up(name)).draw_figure(figure)
        dashed = [line for line in figure.axes[0].lines if line.get_linestyle() == "--"]
        points = len(figure.axes[0].containers[0][0].get_xdata())
        assert dashed
        for line in dashed:
            x = np.asarray(line.get_xdata())
            assert len(x) >= 1.8 * points
            # Dimension 32 rounds the points in between.
            assert np.all((x[1:] / x[:-1] > 1) & (x[1:] / x[:-1] < 1.05 * LINE_STEP))
            breaks = x[np.isnan(line.get_ydata())]
            assert breaks.tolist() == ([1 + 1 / 32] if name == "double-descent" else [])
