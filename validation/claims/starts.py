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
    training: str, losses: Sequence[float] | np.ndarray, *, best: float, null: float
) -> str:
    """How many starts arrive, and how far above the best loss the others end, in words.

    Parameters
    ----------
    training : str
        Name of the training.
    losses, best, null
        As in `arrived`.

    Examples
    --------
    >>> from iclimit.validation.claims.starts import describe_starts
    >>> describe_starts("Two heads", [2.0, 2.01, 2.6, 2.8], best=2.0, null=4.0)
    'Two heads: 2 of 4 starts arrive; the others end 30 to 40 % above the best loss.'
    """
    good = arrived(losses, best=best, null=null)
    share = f"{training}: {np.sum(good)} of {good.size} starts arrive"
    if np.all(good):
        return f"{share}."
    above = 100 * (np.asarray(losses)[~good] / best - 1)
    if above.size == 1:
        return f"{share}; the other one ends {above[0]:.0f} % above the best loss."
    least, most = np.min(above), np.max(above)
    return f"{share}; the others end {least:.0f} to {most:.0f} % above the best loss."
