import numpy as np
import pytest

from iclimit.comparison import compare
from iclimit.drawing import COLOURS, new_figure
from iclimit.statistics import extrapolate_ratios
from iclimit.validation import CLAIMS
from iclimit.validation.claim import Effort
from iclimit.validation.rows import Limit, Values, cells_of, limit
from iclimit.validation.standard_figure import (
    draw_limit,
    draw_quantity,
    family_styles,
    headed,
    wrapped,
)
from iclimit.verdict import Verdict


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


def test_axis_of_a_limit_names_what_grows_and_marks_the_limit():
    runs = {size: 2 + np.linspace(-0.1, 0.1, 20) / size for size in (2, 3, 6)}
    row = Values({})(limit({"loss": 2.0}, runs, draws="runs", order=1, size="copies"))
    figure = new_figure()
    ax = figure.subplots()
    draw_limit(ax, row, 30, Verdict([compare("loss", 2.0, 2.0)]))
    figure.canvas.draw()
    assert ax.get_xlabel() == "1 / copies"
    assert ax.get_xticks()[0] == 0
    marks = [label.get_text() for label in ax.get_xticklabels()]
    assert marks[0] == "0\ncopies = $\\infty$"
    assert all(float(mark) > 0 for mark in marks[1:])


def arguments_of(size, run):
    """Names of the arguments of a run that are its size."""
    cell = next(cells_of(run))
    return {name for name, value in cell.parameters if isinstance(value, int) and value == size}


@pytest.mark.slow  # makes the rows of all claims
def test_claims_name_the_size_where_it_is_not_the_dimension():
    """A run at size s has an argument s: it is the dimension where the axis says d."""
    named = 0
    for claim in CLAIMS.values():
        for row in claim.rows(Effort("tiny")):
            if not isinstance(row, Limit):
                continue
            names = set.intersection(*(arguments_of(*run) for run in row.runs.items()))
            if names:
                named += 1
                assert ("dim" in names) == (row.size == "$d$"), (claim.name, row.theories)
    assert named > 50


def test_titles_have_symbols_and_short_lines():
    assert headed(["isotropic, alpha = 0.5, 2 layers"]) == (
        r"isotropic, $\alpha=0.5$, 2 layers",
        [""],
    )
    assert headed(["test-alpha=8 first=2"])[0] == "test-alpha=8 first=2"
    split = "$\\tau=2$ $\\alpha=2$ or\n$P = 8 d$"
    assert wrapped(split.replace("\n", " "), 10) == split
