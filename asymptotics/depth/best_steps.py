r"""The best number of steps at test time.

Setting and notation are those of `iclimit.asymptotics.depth.test_time`.  Below the threshold of
overthinking the errors grow in the end, and with noise they often fall below their limit before:
then a finite number of steps is best.  Errors are computed as far ahead as twice the best number;
the limit of infinitely many steps is known in closed form.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_integers, checked
from iclimit.asymptotics.depth.overthinking import RANGES, final_test_time_error
from iclimit.asymptotics.depth.test_time import test_time_errors
from iclimit.asymptotics.numbers import Number

# Steps that are computed first; their number is doubled where the best is not among the first
# half.
_FIRST = 8

# Relative difference to the limit that rounding may make.
_CLOSE = 1e-12


@dataclass(frozen=True)
class BestSteps:
    """The best number of steps.

    Attributes
    ----------
    steps : float or ndarray
        Their number; ``inf`` where none is as good as infinitely many.
    error : float or ndarray
        The error after them.
    """

    steps: np.ndarray
    error: np.ndarray


def best_test_time_steps(
    *,
    alpha: Number,
    tau: Number,
    noise_variance: Number = 0.0,
    dampening: Number = 1.0,
    steps: int = 200,
) -> BestSteps:
    r"""Number of steps with the least error, with a matrix learned from weight prediction.

    Parameters
    ----------
    alpha : number or array in (0, inf)
        Context length over dimension, of pretraining and test.
    tau : number or array in (1, inf]
        Pretraining contexts over dimension.
    noise_variance : number or array >= 0
        Variance :math:`\sigma^2` of the label noise; noiseless labels have variance 1.
    dampening : number or array in (0, inf)
        Factor s of the steps.
    steps : int >= 1
        Largest number that is looked at.

    Returns
    -------
    BestSteps
        With ``steps`` and ``error``.  ``steps`` is ``inf`` where infinitely many are the best, and
        where the error after the largest number is the least yet.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    Without noise, in contexts of more than d pairs and above the threshold of overthinking every
    step helps.  Takes milliseconds a point, some 50 where 200 steps have to be computed.

    References
    ----------
    Module `iclimit.asymptotics.depth.best_steps`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import best_test_time_steps
    >>> best = best_test_time_steps(alpha=4, tau=[1.2, 3, 30], noise_variance=0.4)
    >>> best.steps, best.error.round(4)
    (array([0., 6., 4.]), array([1.    , 0.1275, 0.12  ]))
    """
    check_integers(steps=steps)
    given: dict[str, Any] = {"alpha": alpha, "tau": tau, "noise_variance": noise_variance}
    given["dampening"] = dampening
    _, numbers = checked(systems="numpy", ranges=RANGES, **given)
    points = np.broadcast_arrays(*numbers)
    shape = points[0].shape
    setting = {name: point.ravel() for name, point in zip(given, points, strict=True)}
    limit = final_test_time_error(**setting)
    best, error = np.full(limit.shape, np.inf), limit.copy()
    unsettled, count = np.flatnonzero(limit > 0), 0
    while unsettled.size and count < steps:
        count = min(max(_FIRST, 2 * count), steps)
        rest = {name: values[unsettled] for name, values in setting.items()}
        errors = test_time_errors(**rest, steps=count)
        at, least, end = errors.argmin(axis=1), errors.min(axis=1), limit[unsettled]
        with np.errstate(invalid="ignore"):  # infinite errors
            close = np.isfinite(end) & (np.abs(errors[:, -1] - end) <= _CLOSE * end)
        done = (2 * at <= count) | close | (count == steps)
        # At the last number the errors may still fall.
        finite = done & (least < (1 - _CLOSE) * end) & (at < count)
        best[unsettled[finite]] = at[finite]
        fell = done & (least < end)
        error[unsettled[fell]] = least[fell]
        unsettled = unsettled[~done]
    return BestSteps(best.reshape(shape)[()], error.reshape(shape)[()])
