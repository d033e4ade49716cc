"""Rows of algorithms: what one of them must have, and where it is explained."""

from pathlib import Path
from string import Formatter

import pytest

from iclimit.problem import Problem
from iclimit.validation.instruments.models.algorithms import ALGORITHMS, ROWS
from iclimit.validation.instruments.models.baselines import families
from iclimit.validation.instruments.models.problem_units import ProblemUnits

PAGE = Path(__file__).parents[4] / "docs" / "algorithms.rst"
UNITS = ProblemUnits(Problem(dim=3, context=5, noise_variance=0.1, tasks=[[1.0, 2.0, 0.5]]))


def test_names_are_different():
    assert len(ALGORITHMS) == len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_complete(row):
    """It is of some use, and what it names is known; the page has it."""
    assert row.title or row.words or row.positions
    assert set(row.contains) <= ALGORITHMS.keys()
    assert not row.limit or row.limit in ALGORITHMS
    assert f"``{row.name}``" in PAGE.read_text(encoding="utf-8")
    stated = {name for _, name, _, _ in Formatter().parse(row.words) if name}
    fitted = {*row.parameters, row.factor, row.whole.name if row.whole else ""} - {""}
    assert stated == fitted
    assert row.size == len(fitted)


@pytest.mark.parametrize("row", families(UNITS.problem), ids=lambda row: row.name)
def test_searches_start_inside_their_ranges(row):
    for start in row.parameters.values():
        parameter = start(UNITS)
        for value in parameter.start:
            assert parameter.from_free(parameter.to_free(value)) == pytest.approx(value)
    if row.whole is not None:
        values = row.whole.values(UNITS)
        assert list(values) == sorted(set(values))


def test_an_algorithm_without_parameters_is_not_fitted():
    with pytest.raises(TypeError, match="no parameters that are fitted"):
        ALGORITHMS["null"].answer(None)
