"""Drawn curves against functions whose poles and peaks are known."""

import numpy as np
import pytest

from iclimit.dense_lines import POINTS, dense_line


def line_of(function, grid):
    def quiet(x):
        with np.errstate(divide="ignore"):
            return function(x)

    return dense_line(quiet, grid, quiet(grid))


def breaks(line):
    return line.x[np.isnan(line.y)]


def test_a_smooth_curve_is_dense_and_goes_through_its_points():
    grid = np.array([0.0, 0.3, 2.0, 5.0])
    line = line_of(np.sin, grid)
    assert line.x.size >= POINTS
    assert np.isin(grid, line.x).all()
    np.testing.assert_array_equal(line.y, np.sin(line.x))
    np.testing.assert_array_equal(line.y, line.framed)
    assert np.all(np.diff(line.x) > 0)


def test_points_between_are_spaced_as_the_grid():
    line = line_of(np.log, np.geomspace(0.01, 100, 9))
    steps = np.diff(np.log(line.x))
    assert np.ptp(steps) < 1e-9


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("pole", [1.0, 1.2345])
@pytest.mark.parametrize("grid", [np.linspace(0.1, 5, 8), np.geomspace(0.1, 10, 21)])
def test_a_divergence_breaks_the_curve_and_leaves_the_picture(power, pole, grid):
    """The second grid has 1.0 but for rounding."""
    line = line_of(lambda x: abs(x - pole) ** -power, grid)
    assert breaks(line) == pytest.approx([pole], abs=1e-6)
    inside = line.framed[np.isfinite(line.framed)]
    assert inside.max() < 0.05 * np.nanmax(line.y)
    assert inside.max() > inside.min()


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("beside", [0.0, 1e-15, 1e-12, 1.4e-4, 1e-3])
def test_a_pole_looks_the_same_whatever_the_grid(power, beside):
    """Also if a point of the grid happens to lie next to it, and if the grid is uneven."""

    def function(x):
        return abs(x - 1) ** -power

    tops = []
    for grid in (np.geomspace(0.1, 5, 40), np.linspace(0.1, 5, 7)):
        line = line_of(function, np.sort(np.append(grid[abs(grid - 1) > 0.01], 1 + beside)))
        assert breaks(line) == pytest.approx([1], abs=1e-8)
        tops.append(np.nanmax(line.framed))
    assert tops == pytest.approx(np.full(2, (0.01 * 4.9) ** -power), rel=1e-6)


def test_a_step_is_no_pole():
    line = line_of(lambda x: np.where(x < 1.7, 1.0, 10 - x), np.linspace(0.1, 5, 8))
    assert not breaks(line).size


def test_a_change_of_sign_through_infinity_is_one_break():
    line = line_of(lambda x: 1 / (x - 1.7), np.linspace(0.1, 5, 8))
    assert breaks(line) == pytest.approx([1.7], abs=1e-6)


def test_a_sharp_peak_has_its_height():
    """No divergence: the curve is drawn up to the top, which lies between points of the grid."""
    width = 1e-4
    line = line_of(lambda x: 1 / ((x - 1.7) ** 2 + width**2), np.linspace(0.1, 5, 8))
    assert not breaks(line).size
    assert line.y.max() == pytest.approx(width**-2, rel=0.01)


def test_infinite_ends_and_regions_are_left_out():
    line = line_of(lambda x: np.where(x > 2, np.inf, x), np.array([1.0, 3.0, np.inf]))
    assert np.all(np.isfinite(line.x))
    assert np.nanmax(line.y) <= 2
    single = line_of(np.sin, np.array([1.0]))
    assert single.x.tolist() == [1.0]


def test_order_does_not_matter():
    grid = np.array([3.0, 1.0, 2.0])
    np.testing.assert_array_equal(line_of(np.sin, grid).x, line_of(np.sin, np.sort(grid)).x)
