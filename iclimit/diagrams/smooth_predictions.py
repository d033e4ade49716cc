"""Predictions at single points as a smooth curve."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from iclimit.axes import Scale
from iclimit.diagrams.quantities import SEQUENCES, TIMED, Quantity, find_quantity, with_link
from iclimit.diagrams.simulated_points import SizedPrediction
from iclimit.smooth_lines import smooth_line


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
