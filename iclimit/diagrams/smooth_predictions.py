"""Limits and predictions at single points as smooth curves."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.interpolate import CubicSpline

from iclimit.axes import Scale
from iclimit.diagrams.quantities import SEQUENCES, TIMED, Quantity, find_quantity, with_link
from iclimit.diagrams.simulated_points import SizedPrediction
from iclimit.smooth_lines import smooth_line

# Points of a curve of sequences that is interpolated, at first.
_FIRST = 16

# Its largest relative error in the middle between points, and how often these are halved for it.
_ERROR = 0.003
_HALVINGS = 8


def smooth_limit(
    quantity: Quantity, x: str, parameters: Mapping[str, float], grid: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    """Quantity along a parameter, for drawing: interpolated where it takes long.

    Errors of sequences with a ridge take 0.2 s a point.  They are finite and positive.  More
    points are taken where the interpolation is not yet right.

    Parameters
    ----------
    quantity : Quantity
        What is drawn.
    x : str
        Parameter along the curve.
    parameters : mapping
        The other parameters.
    grid : ndarray (points,)
        Values along the curve, of which the first and the last are its ends.
    """

    def exact(places: np.ndarray) -> np.ndarray:
        return quantity.evaluate(dict(parameters) | {x: places})

    ends = np.unique(grid[np.isfinite(grid)])
    ridge = np.min((dict(parameters) | {x: ends}).get("ridge", 0.0), initial=np.inf)
    if quantity.name not in SEQUENCES or ends.size < 2 or ridge <= 0:
        return exact
    axis = Scale(ends)
    shares = np.linspace(0, 1, _FIRST)
    heights = np.log(exact(axis.value(shares)))
    middles = (shares[1:] + shares[:-1]) / 2
    for _ in range(_HALVINGS):
        line = CubicSpline(shares, heights)
        found = np.log(exact(axis.value(middles)))
        wrong = middles[abs(found - line(middles)) > _ERROR]
        shares, first = np.unique(np.append(shares, middles), return_index=True)
        heights = np.append(heights, found)[first]
        if not wrong.size:
            break
        # The halves of an interval that is wrong, and what is beside it.
        beside = np.searchsorted(shares, wrong)[:, None] + np.arange(-2, 2)
        left = np.unique(np.clip(beside, 0, shares.size - 2))
        middles = (shares[left] + shares[left + 1]) / 2
    line = CubicSpline(shares, heights)
    return lambda places: np.exp(line(axis.share(places)))


def smooth_prediction(
    quantity: Quantity,
    x: str,
    parameters: Mapping[str, float],
    predictions: Sequence[SizedPrediction],
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Smooth curve through predictions at one size, which scatter with the tasks that are drawn.

    A spline smooths their ratio to the limit of the ICL error, or of the error at a time, within
    their standard errors.  At size d that is taken at tau d/(d + 1), where it diverges as the
    prediction does, at n = d (d + 1).  The curve is NaN next to where a prediction is infinite for
    another reason.  Predictions of sequences are smoothed as they are: they have a ridge, and
    their limit takes long.

    Parameters
    ----------
    quantity : Quantity
        What is predicted: an error or the gap.
    x : str
        Parameter along the curve.
    parameters : mapping
        The other parameters.
    predictions : sequence of SizedPrediction
        All at the same size.

    Returns
    -------
    callable or None
        Function of the parameter; None if there are no two finite predictions.
    """
    error = quantity
    if quantity.name not in TIMED:
        error = find_quantity("icl_error", quantity.structure)
    if quantity.link is not None:
        error = with_link(error, quantity.link)
    last = {sized.parameters[x]: sized for sized in predictions}
    at = np.array(sorted(last))

    def limit(places: np.ndarray) -> np.ndarray:
        if quantity.name in SEQUENCES:
            return np.ones(len(places))
        setting = {name: np.asarray(value) for name, value in {**parameters, x: places}.items()}
        dim = predictions[0].parameters["dim"]
        return error.evaluate(setting | {"tau": setting["tau"] * dim / (dim + 1)})

    estimates = [last[place].prediction for place in at.tolist()]
    mean = np.array([estimate.mean for estimate in estimates])
    spread = np.array([estimate.standard_error for estimate in estimates])
    # Where the limit diverges nothing is drawn: the axis is that of the other points.
    axis = Scale(at[np.isfinite(limit(at))])
    return smooth_line(at, mean, spread, limit, axis.share)
