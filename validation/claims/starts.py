"""Starts of trainings that have several ends: which of them arrive, and their share in words."""

from collections.abc import Sequence

import numpy as np

from iclimit.simulate.training.repeats import MISSED


def arrived(losses: Sequence[float] | np.ndarray, *, best: float, null: float) -> np.ndarray:
    """Whether starts learn all but a tenth of what can be learned, (starts,).

    The rule is that of `iclimit.networks.TrainedRepeats`.

    Parameters
    ----------
    losses : sequence of float
        At the ends of the trainings.
    best, null : float
        Least loss, and that of predicting zero.
    """
    return np.asarray(losses) <= best + MISSED * (null - best)


def describe_starts(
    training: str, losses: Sequence[float] | np.ndarray, good: np.ndarray, *, best: float
) -> str:
    """How many starts arrive, and how far above the best loss the others end, in words.

    Parameters
    ----------
    training : str
        Name of the training.
    losses : sequence of float
        At the ends of the trainings.
    good : ndarray of bool
        Which of them arrive.
    best : float
        Least loss.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.validation.claims.starts import describe_starts
    >>> losses = np.array([2.0, 2.01, 2.6, 2.8])
    >>> describe_starts("Two heads", losses, losses < 2.1, best=2.0)
    'Two heads: 2 of 4 starts arrive; the others end 30 to 40 % above the best loss.'
    """
    share = f"{training}: {np.sum(good)} of {good.size} starts arrive"
    if np.all(good):
        return f"{share}."
    above = 100 * (np.asarray(losses)[~good] / best - 1)
    ends = dict.fromkeys((f"{np.min(above):.0f}", f"{np.max(above):.0f}"))
    who = "the other one ends" if above.size == 1 else "the others end"
    return f"{share}; {who} {' to '.join(ends)} % above the best loss."
