"""The pictures of a validation at a glance."""

import numpy as np
import pytest
from scipy.stats import norm

from iclimit.comparison import Comparison
from iclimit.drawing import house_style, new_figure
from iclimit.validation.report.coverage import Coverage
from iclimit.validation.report.overview import deviations, draw_deviations, draw_resolutions
from iclimit.verdict import Verdict


@pytest.fixture
def ax():
    with house_style():
        yield new_figure().subplots()


def test_only_deviations_with_a_standard_error_count():
    rows = (
        Comparison("random", 1.0, 1.2, 0.1),
        Comparison("exact", 1.0, 1.0, 0.0, 1e-9),
        Comparison("bound", 1.0, 0.5, 0.1, upper_bound=True),
    )
    assert deviations([Verdict(rows, lambda _: None)] * 2) == pytest.approx([2.0, 2.0])


def test_normal_deviations_lie_in_their_band_and_wide_ones_do_not(ax):
    """At each rank the band holds 95 % of samples: those of 40 samples of 200, here."""
    rng = np.random.default_rng(0)
    inside = {1.0: [], 1.5: []}
    for scale, shares in inside.items():
        for _ in range(40):
            ax.clear()
            z = scale * rng.standard_normal(200)
            draw_deviations(ax, z)
            low, high = _band(ax)
            shares.append(np.mean((np.sort(z) > low) & (np.sort(z) < high)))
    assert np.mean(inside[1.0]) == pytest.approx(0.95, abs=0.03)
    assert np.mean(inside[1.5]) < 0.6
    assert ax.lines[1].get_xdata() == pytest.approx(norm.ppf((np.arange(200) + 0.5) / 200))


def _band(ax):
    """Ends of the band at each rank: along its upper side, and back along the other one."""
    vertices = ax.collections[0].get_paths()[0].vertices[:, 1]
    half = (len(vertices) - 1) // 2
    first = vertices[1:half]
    second = vertices[half + 1 : -1][::-1]
    first, second = (np.asarray(each)[-200:] for each in (first, second))
    return np.minimum(first, second), np.maximum(first, second)


def test_each_function_has_a_point_at_its_resolution(ax):
    covered = [
        Coverage("a", "descent", 0.01, "claim"),
        Coverage("b", "descent", 1e-9, "claim", exact=True),
        Coverage("c", "spectra", 0.5, "claim"),
        Coverage("untested", "spectra", np.inf),
    ]
    draw_resolutions(ax, covered)
    points = sorted(x for line in ax.lines for x in line.get_xdata())
    assert points == pytest.approx([1e-7, 1.0, 50.0])
    assert ax.get_xscale() == "log"
