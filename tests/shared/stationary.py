"""Whether a loss is least where the theory says that it is."""

import pytest

MOVE = 1e-3
"""Relative move of a parameter to both sides."""

LOSS = 1e-10
"""Relative difference of the stated least loss from the loss at the stated place."""

PLACE = 1e-5
"""Relative distance of the stated place from the vertex of a parabola through three losses.

Higher orders shift the vertex; 1e-6 was seen.
"""


def assert_least(loss, place, least=None):
    """Assert that a function of several parameters is least at a place, in each of them.

    ``least`` is the stated least loss, if there is one.
    """
    middle = float(loss(*place))
    if least is not None:
        assert middle == pytest.approx(float(least), rel=LOSS)
    for number, best in enumerate(place):
        lower = [*place[:number], best * (1 - MOVE), *place[number + 1 :]]
        upper = [*place[:number], best * (1 + MOVE), *place[number + 1 :]]
        below = float(loss(*lower))
        above = float(loss(*upper))
        curvature = below - 2 * middle + above
        assert curvature > 0, number
        assert abs(MOVE * (below - above) / curvature / 2) < PLACE, number
