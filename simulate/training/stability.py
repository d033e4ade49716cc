r"""Whether gradient descent was stable: losses without bound, and runs that never settle.

Weights that jump to and fro across a valley keep a bounded loss for ever.  Gradients tell them
from weights at rest.  A step of length :math:`\eta` along the gradient g lowers the loss by
:math:`\eta |g|^2 (1 - \eta c/2)`, c being the curvature along g.  So the first-order terms
:math:`\eta |g|^2` of steps of up to 1/c add up to at most twice the loss in an eighth of a run,
and half a run at their median to at most 16 times the loss.
"""

import numpy as np

# A loss so many times the one at zero weights counts as unbounded.  A single sequence with few
# pairs can be a thousand times worse than the mean.
UNSTABLE = 1e6

# A run counts as unsettled if its last gradients could still lower the loss, in half a run, by
# more than so many times its value.  Oscillations that never end were seen at 240 and more in 1000
# steps, some that recover at up to 61.
UNSETTLED = 50.0

# Oscillations shrink if their squared gradients fall to less than this part from each eighth of
# the run to the next.  They shrink slowest at the edge of stability, as 1/t, where the last part
# is 13/15.
SHRUNK = 0.9

# With fewer records one cannot tell whether a run has settled.
LEAST_RECORDS = 20


def unsettled_since(
    at: np.ndarray, losses: np.ndarray, falls: np.ndarray, steps: int, label_square: float
) -> int | None:
    """First recorded step after which a run only oscillates; None if it has settled.

    Parameters
    ----------
    at, losses, falls : ndarray (n,)
        Recorded steps, losses there, and by how much a step lowers them to first order.
    steps : int
        Steps of the run.
    label_square : float
        Loss at zero weights.
    """
    half = len(at) // 2
    if len(at) < LEAST_RECORDS:
        return None
    medians = np.array([np.median(part) for part in np.array_split(falls[half:], 4)])
    low = losses[half:].min()
    high = losses[half:].max()
    # Losses that go to zero end in rounding errors, of either sign.
    largest = max(high, 1e-6 * label_square)
    shrinking = np.all(medians[1:] < SHRUNK * medians[:-1])
    if steps / 2 * medians[-1] <= UNSETTLED * largest or shrinking:
        return None
    margin = 0.01 * largest
    outside = np.flatnonzero((losses < low - margin) | (losses > high + margin))
    return int(at[outside[-1] + 1]) if len(outside) else int(at[0])
