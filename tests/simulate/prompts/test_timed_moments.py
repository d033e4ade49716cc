"""Moments of the summaries of timed contexts: those of a plain one in closed form."""

import pytest

from iclimit.problem import Problem
from iclimit.simulate.prompts.timed_moments import timed_moments


@pytest.mark.parametrize("rho", [0.0, 0.3])
def test_a_plain_context(rho):
    """Without gates, drift and correlation, by Wick's theorem by hand."""
    d = 4
    N = 7
    label = 1 + rho
    moments = timed_moments(Problem(d, N, noise_variance=rho, task_law="sphere"), None)
    expected = {
        "signal": 1.0,
        "square": 1 + 1 / N,
        "noise": d * label / N,
        "mixed": label * (1 + 2 / N),
        "tail": label,
        "tail_square": label**2 * (1 + 2 / N),
    }
    assert vars(moments) == pytest.approx(expected, rel=1e-10)
