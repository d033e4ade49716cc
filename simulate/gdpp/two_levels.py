"""Two layers that perform ridge regression for either of two noise levels."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from iclimit.simulate.checks import check_arguments, parse_array
from iclimit.simulate.gdpp.linear_transformer import LinearTransformer, build


def two_level_ridge_transformer(
    noise_levels: Sequence[float] | np.ndarray,
    *,
    context: int,
    dim: int,
    input_variance: float = 1.0,
) -> LinearTransformer:
    r"""Two layers that become ridge regression at two noise levels in long contexts.

    With N pairs, inputs of covariance v I and noise of level :math:`\sigma`,
    :math:`X^\top X \to N v I`, and ridge regression is
    :math:`w = X^\top y/(N v + \sigma^2)`.  The first layer makes one step of gradient descent and
    leaves labels of squared norm :math:`N \sigma^2`, up to a part of relative order
    :math:`d v/\sigma^2`; the second rescales by it:

    .. math:: -\omega_{yx} (1 + N \sigma^2 \omega_{yy}) = \frac1{N v + \sigma^2}
       \quad\text{for}\quad \sigma \in \{\sigma_1, \sigma_2\},

    which is solved by :math:`\omega_{yy} = -1/[N (N v + \sigma_1^2 + \sigma_2^2)]` and
    :math:`\omega_{yx} = -(N v + \sigma_1^2 + \sigma_2^2)
    /[(N v + \sigma_1^2)(N v + \sigma_2^2)]`.

    Parameters
    ----------
    noise_levels : two numbers >= 0
        Noise levels.
    context, dim : int >= 1
        Number N of pairs and dimension d.
    input_variance : float > 0
        Variance v of an input coordinate: 1 as in `NoisyRegression`, where the limit is one of
        levels that grow as :math:`\sqrt N`, or 1/N with fixed levels as in the paper.

    Returns
    -------
    LinearTransformer
        Of kind "diag" with one head.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    The error of the weights is of order :math:`1/\sqrt N`, the adjusted loss of order 1/N.

    References
    ----------
    Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180, Theorem 5.2.

    Examples
    --------
    >>> from iclimit.simulate.gdpp import two_level_ridge_transformer
    >>> model = two_level_ridge_transformer([1, 2], context=4, dim=3, input_variance=1 / 4)
    >>> model.omegas[:, 1, :].round(4).tolist()
    [[-0.6, 0.0], [0.0, -0.0417]]
    """
    squares = parse_array("noise_levels", noise_levels, (2,)) ** 2
    if np.any(np.asarray(noise_levels) < 0):
        raise ValueError(f"noise_levels must be >= 0, got {noise_levels!r}")
    check_arguments(context=context, dim=dim, input_variance=input_variance)
    first, second = (context * input_variance + squares).tolist()
    total = first + squares[1].item()
    step = math.sqrt(total / first / second)
    rescaling = math.sqrt(1 / context / total)
    # Parameters p_x, p_y, q_x, q_y of a head.
    parameters = np.array([[[0, -step, step, 0]], [[0, -rescaling, 0, rescaling]]])
    return build("diag", parameters, dim)
