"""Smooth curves through estimates that scatter."""

from collections.abc import Callable

import numpy as np
from scipy.interpolate import UnivariateSpline

# An estimate is taken to be uncertain by this fraction at least: the width of a thin line.
_ROUGH = 0.005

# Least uncertainty relative to the reference, for an estimate that is exactly zero.
_LEAST = 1e-9

# Squared deviations of an estimate from the curve in standard errors, on average: these come from
# few draws.  With 1 the curve bends where they are too small.
_DEVIATION = 1.5


def smooth_line(
    at: np.ndarray,
    mean: np.ndarray,
    standard_error: np.ndarray,
    reference: Callable[[np.ndarray], np.ndarray],
    place: Callable[[np.ndarray], np.ndarray],
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Smooth curve through estimates, whose ratio to a reference a spline smooths.

    Parameters
    ----------
    at : ndarray (points,)
        Parameters of the estimates, ascending.
    mean, standard_error : ndarray (points,)
        The estimates.
    reference : callable
        Positive function of the parameter that diverges where the estimates do.
    place : callable
        Position of a parameter along the axis.

    Returns
    -------
    callable or None
        Function of the parameter, NaN next to where an estimate is infinite and the reference is
        not; None if there are no two finite estimates.
    """
    scale = reference(at)
    known = np.isfinite(scale)
    at = at[known]
    scale = scale[known]
    mean = mean[known] / scale
    spread = standard_error[known] / scale
    finite = np.isfinite(mean) & np.isfinite(spread)
    count = int(np.sum(finite))
    if count < 2:
        return None
    weight = 1 / (np.hypot(spread, _ROUGH * mean)[finite] + _LEAST)
    options = {"k": min(3, count - 1), "s": _DEVIATION * count}
    ratio = UnivariateSpline(place(at[finite]), mean[finite], weight, **options)

    def curve(values: np.ndarray) -> np.ndarray:
        inside = np.interp(values, at, finite.astype(float), left=0, right=0) == 1
        return np.where(inside, ratio(place(values)) * reference(values), np.nan)

    return curve
