"""Prompts of sines against the moments of their law."""

import numpy as np
import pytest

from iclimit.simulate.arrays import get_backend
from iclimit.simulate.networks import SineTask


@pytest.mark.parametrize("tied", [False, True])
def test_labels_have_the_second_moment_of_their_law(tied):
    prompts = SineTask(context=3, tied=tied).draw(
        get_backend("numpy"), np.random.default_rng(0), 100_000
    )
    squares = prompts.target**2
    # Mean of a^2 sin^2(x + phi) over a fine grid of the law.
    phase, x = np.meshgrid(np.pi * (np.arange(400) + 0.5) / 400, 5 * np.linspace(-1, 1, 2001))
    amplitude = 0.1 + 0.4 * phase / np.pi
    square = amplitude**2 if tied else (0.5**3 - 0.1**3) / (3 * 0.4)
    expected = np.mean(np.mean(square * np.sin(x + phase) ** 2, axis=1)[:-1])
    assert abs(squares.mean() - expected) < 4 * squares.std() / len(squares) ** 0.5 + 1e-5
    fitted = np.linalg.lstsq(
        np.stack([np.sin(prompts.inputs[0, :2, 0]), np.cos(prompts.inputs[0, :2, 0])], axis=1),
        prompts.labels[0, :2],
    )[0]
    third = fitted @ np.array([np.sin(prompts.query[0, 0]), np.cos(prompts.query[0, 0])])
    assert abs(third - prompts.target[0]) < 1e-9


def test_context_is_checked():
    with pytest.raises(ValueError, match="context must be an integer"):
        SineTask(context=0)
