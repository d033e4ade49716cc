"""Results that several shelves of the theory have: two errors, and a loss with its own error."""

from __future__ import annotations

from dataclasses import dataclass

from iclimit.asymptotics.numbers import Value
from iclimit.results import Result


@dataclass(frozen=True, repr=False)
class TaskErrors(Result):
    """Mean squared errors on noisy query labels.

    Attributes
    ----------
    icl : float or array (...)
        On fresh tasks.
    idg : float or array (...)
        On the pretraining tasks.
    """

    icl: Value
    idg: Value


@dataclass(frozen=True, repr=False)
class BoundedLoss(Result):
    """Mean squared error on a noiseless query label, computed numerically.

    Attributes
    ----------
    loss : float or ndarray
        The loss (no 1/2).
    error : float or ndarray
        Numerical error of the loss.
    """

    loss: Value
    error: Value
