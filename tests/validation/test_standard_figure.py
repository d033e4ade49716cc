import numpy as np
import pytest

from iclimit.drawing import COLOURS, new_figure
from iclimit.statistics import extrapolate_ratios
from iclimit.validation.rows import Values, limit
from iclimit.validation.standard_figure import draw_quantity, family_styles


def test_families_look_different():
    many = [f"{rule}, v = {noise}" for noise in (0, 0.05) for rule in ("a", "b", "c", "d")]
    for families in (many, many[:3], [""]):
        assert len(set(family_styles(families))) == len(families)
    styles = dict(zip(many, family_styles(many), strict=True))
    assert styles["a, v = 0"][0] == styles["a, v = 0.05"][0] != styles["b, v = 0"][0]
    assert styles["a, v = 0"][1] == styles["b, v = 0"][1] != styles["b, v = 0.05"][1]


def test_ratios_to_predictions_are_drawn_where_they_extrapolate_to_one():
    """Runs of 2 + 3/d against predictions of 2 + 4/d, whose limit is that of the theory, 2."""
    sizes = (20, 40, 80)
    anchors = (100, 200, 400, 800)
    normal = np.random.default_rng(0).standard_normal((1, 50))
    runs = {dim: (2 + 3 / dim) * (1 + 0.01 * (normal - normal.mean())) for dim in sizes}
    predictions = {dim: np.array([2 + 4 / dim]) for dim in (*sizes, *anchors)}
    options = {"fit": extrapolate_ratios, "predictions": predictions, "anchors": anchors}
    row = Values({})(limit({"error": 2.0}, runs, draws="runs", of=[""], **options))
    ax = new_figure().subplots()
    draw_quantity(ax, row, 0, COLOURS[0])
    drawn = {line.get_marker(): list(line.get_ydata()) for line in ax.lines}
    expected = [(2 + 3 / dim) / (2 + 4 / dim) for dim in sizes]
    assert drawn["o"] == pytest.approx(expected, rel=1e-6)
    assert drawn["*"] == [1.0]
