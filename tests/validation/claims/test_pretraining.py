"""Points and curves of the claims on isotropic data."""

import numpy as np
import pytest

from iclimit.drawing import new_figure
from iclimit.samples import Samples
from iclimit.validation import CLAIMS
from iclimit.validation.claim import PRESETS, Effort
from iclimit.validation.claims.pretraining import context_length, double_descent, ridge, ridgeless
from iclimit.validation.claims.pretraining.curves import LINE_STEP, CurveResults
from iclimit.validation.rows import Judged, Note


@pytest.mark.parametrize("claim", [ridge, ridgeless])
@pytest.mark.parametrize("preset", PRESETS)
def test_points_reach_the_integers_exactly(claim, preset):
    """Rounding would add its own deviation to those that are extrapolated."""
    for point in claim.POINTS:
        for dim in Effort(preset).by_size(**claim.REPEATS):
            run = point.integers(dim)
            assert run["prompts"] / dim**2 == point.tau
            assert run["context"] / dim == point.alpha
            assert run["tasks"] / dim == point.kappa


def test_published_errors_are_compared_with_ours_in_full():
    for preset, count in (("quick", 23), ("full", 46)):
        rows = list(CLAIMS["published"].rows(Effort(preset)))
        assert sum(isinstance(row, Judged) for row in rows) == count
        assert sum(not isinstance(row, Judged | Note) for row in rows) == 18


@pytest.mark.parametrize("curve", [context_length.CURVES[0], double_descent.CURVES[0]])
def test_the_prediction_is_a_dashed_line_along_the_whole_curve(curve):
    errors = Samples(("icl", "idg"), np.array([[1.0, 1.0], [1.1, 1.1]]), {})
    predicted = dict.fromkeys((*curve.points, *curve.between(32)), errors)
    ax = new_figure().subplots()
    CurveResults(curve, 32, [errors] * len(curve.values), predicted).draw(ax, "icl", "k")
    (dashed,) = [line for line in ax.lines if line.get_linestyle() == "--"]
    x = np.asarray(dashed.get_xdata())
    assert len(x) >= 1.8 * len(curve.values)
    # Dimension 32 rounds the points in between.
    assert np.all((x[1:] / x[:-1] > 1) & (x[1:] / x[:-1] < 1.05 * LINE_STEP))
    breaks = [1 + 1 / 32] if curve.axis == "tau" else []
    np.testing.assert_allclose(x[np.isnan(dashed.get_ydata())], breaks, rtol=1e-9)
