"""Refined points against a quadtree written down plainly."""

import numpy as np
import pytest

from iclimit.diagrams.phase_points import refined_points


def flat(points):
    return 0 * points[:, 0]


def test_without_rounds_it_is_the_grid():
    found = refined_points((3, 5), 0, flat)
    value = [(x, y) for x in (0.0, 0.5, 1.0) for y in (0.0, 0.25, 0.5, 0.75, 1.0)]
    assert sorted(map(tuple, found)) == value


def test_flat_values_and_no_curve_change_nothing():
    assert len(refined_points((4, 4), 3, flat)) == 16


@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_rectangles_that_a_curve_crosses_are_split(rounds):
    """A falling line, recursively, by the signs at the corners."""
    line = np.array([[0.0, 0.93], [0.71, 0.0]])
    found = {tuple(point) for point in refined_points((2, 2), rounds, flat, [line])}
    expected = set()

    def height(x, y):
        return x / 0.71 + y / 0.93 - 1

    def split(x, y, size, left):
        expected.update({(x, y), (x + size, y), (x, y + size), (x + size, y + size)})
        if left and height(x, y) <= 0 <= height(x + size, y + size):
            for i in (0, 1):
                for j in (0, 1):
                    split(x + i * size / 2, y + j * size / 2, size / 2, left - 1)

    split(0.0, 0.0, 1.0, rounds)
    assert found == expected


def test_long_segments_are_followed():
    """A line given by its two ends crosses every rectangle in between."""
    found = refined_points((9, 2), 1, flat, [np.array([[0.0, 0.3], [1.0, 0.3]])])
    assert len(found) == 18 + 9 + 8 * 1 + 8 * 2


def test_steep_rectangles_are_split():
    """A step at x = 0.55: only the rectangles that contain it."""
    found = refined_points((6, 6), 1, lambda points: (points[:, 0] > 0.55).astype(float))
    new = found[36:]
    # Middles of horizontal sides, of vertical sides, and centres of five squares.
    assert len(new) == 6 + 10 + 5
    assert np.all((new[:, 0] >= 0.4) & (new[:, 0] <= 0.6))


def test_infinite_values_are_no_change():
    def value(points):
        return np.where(points[:, 0] == 0.5, np.inf, 1.0)

    assert len(refined_points((3, 3), 2, value)) == 9


def test_points_differ_and_earlier_ones_come_first():
    curve = np.array([[0.2, 0.0], [0.7, 1.0]])
    short, long = (refined_points((3, 3), rounds, flat, [curve]) for rounds in (1, 3))
    assert len(np.unique(np.round(long, 9), axis=0)) == len(long)
    assert np.array_equal(long[: len(short)], short)


def test_a_curve_along_the_sides_of_rectangles_may_have_other_digits():
    """Its last digits do not decide which rectangles are split."""
    line = np.column_stack([np.full(20, 0.5), np.linspace(0, 1, 20)])
    exact = refined_points((5, 5), 2, flat, [line])
    noise = np.random.default_rng(0)
    for _ in range(5):
        moved = line + 1e-5 * noise.choice([-1, 1], size=line.shape)
        assert np.array_equal(refined_points((5, 5), 2, flat, [moved]), exact)
