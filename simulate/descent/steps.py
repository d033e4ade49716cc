r"""Gradient descent on the context of each prompt.

On the loss :math:`\frac1{2N}\sum_i (y_i - \langle w, x_i\rangle)^2` it takes the steps

.. math:: w_{l+1} = w_l + \frac{\eta_l}N\, A X^\top (y - X w_l)

from :math:`w_0`, with a preconditioner A.  Tokens of `regression_tokens` are rows
:math:`(x_i, y_i)`, the query's :math:`(x_q, -\langle w_0, x_q\rangle)`: a layer that performs
gradient descent from :math:`w_0` leaves minus its prediction in the last entry (von Oswald et al.,
arXiv:2212.07677).
"""

from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import check_shape, parse_array
from iclimit.simulate.arrays import Array
from iclimit.simulate.prompts import Prompts


def descend(
    prompts: Prompts,
    rates: ArrayLike,
    *,
    initial: Array | None = None,
    preconditioner: Array | None = None,
) -> Array:
    r"""Weights after gradient descent on the context of each prompt.

    Parameters
    ----------
    prompts : Prompts
    rates : sequence of float, length L >= 1
        Learning rates :math:`\eta_l` of the mean over the pairs, one per step, for the inputs as
        they are.
    initial : array (dim,), optional
        Initial weights :math:`w_0`; zero by default.
    preconditioner : array (dim, dim), optional
        Matrix A; the identity by default.

    Returns
    -------
    array (n, dim)

    Raises
    ------
    ValueError
        If an argument has another shape or a rate is not finite.
    """
    xp = array_namespace(prompts.inputs)
    length, dim = prompts.inputs.shape[1:]
    weights = xp.zeros_like(prompts.query)
    if initial is not None:
        check_shape("initial", initial, (dim,))
        weights = weights + initial
    if preconditioner is not None:
        check_shape("preconditioner", preconditioner, (dim, dim))
    for rate in parse_array("rates", rates, (None,)):
        residual = prompts.labels[:, :, None] - prompts.inputs @ weights[:, :, None]
        step = (xp.matrix_transpose(prompts.inputs) @ residual)[:, :, 0]
        if preconditioner is not None:
            step = step @ preconditioner.T
        weights = weights + float(rate) / length * step
    return weights


def query_predictions(prompts: Prompts, weights: Array) -> Array:
    """Predictions of linear models, weights (n, dim), for the queries: (n,)."""
    return array_namespace(weights).vecdot(prompts.query, weights)
