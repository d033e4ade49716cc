"""Predictions at single points as a smooth curve."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.interpolate import UnivariateSpline

from iclimit.diagrams.axes import Scale
from iclimit.diagrams.quantities import Quantity, find_quantity
from iclimit.diagrams.simulated_points import SizedPrediction

# A prediction is taken to be uncertain by this fraction at least: the width of a thin line.
_ROUGH = 0.005

# Least uncertainty relative to the limit of the ICL error, for a gap that is exactly zero.
_LEAST = 1e-9

# Squared deviations of a prediction from the curve in standard errors, on average: these come from
# few task sets.  With 1 the curve bends where they are too small.
_DEVIATION = 1.5


def smooth_prediction(
    quantity: Quantity,
    x: str,
    parameters: Mapping[str, float],
    predictions: Sequence[SizedPrediction],
) -> Callable[[np.ndarray], np.ndarray] | None:
    """Smooth curve through predictions at one size, which scatter with the tasks that are drawn.

    A spline smooths their ratio to the limit of the ICL error within their standard errors.  At
    size d that is taken at tau d/(d + 1), where it diverges as the prediction does, at
    n = d (d + 1).  The curve is NaN next to where a prediction is infinite for another reason.

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
    error = find_quantity("icl_error", quantity.structure)
    last = {sized.parameters[x]: sized for sized in predictions}
    at = np.array(sorted(last))

    def limit(places: np.ndarray) -> np.ndarray:
        setting = {name: np.asarray(value) for name, value in {**parameters, x: places}.items()}
        dim = predictions[0].parameters["dim"]
        return error.evaluate(setting | {"tau": setting["tau"] * dim / (dim + 1)})

    scale = limit(at)
    at = at[np.isfinite(scale)]
    scale = scale[np.isfinite(scale)]
    estimates = [last[place].prediction for place in at.tolist()]
    mean = np.array([estimate.mean for estimate in estimates]) / scale
    spread = np.array([estimate.standard_error for estimate in estimates]) / scale
    finite = np.isfinite(mean) & np.isfinite(spread)
    if np.sum(finite) < 2:
        return None
    axis = Scale(at)
    known = at[finite]
    weight = 1 / (np.hypot(spread, _ROUGH * mean)[finite] + _LEAST)
    options = {"k": min(3, known.size - 1), "s": _DEVIATION * known.size}
    ratio = UnivariateSpline(axis.share(known), mean[finite], weight, **options)

    def curve(places: np.ndarray) -> np.ndarray:
        inside = np.interp(places, at, finite.astype(float), left=0, right=0) == 1
        return np.where(inside, ratio(axis.share(places)) * limit(places), np.nan)

    return curve
