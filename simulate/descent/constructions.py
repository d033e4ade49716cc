r"""Attention layers whose weights are written down: gradient descent, and copying before it.

A linear layer with, on token rows (x, y) and in blocks of x and y,

.. math:: K^\top Q = \begin{pmatrix} A^\top & 0 \\ 0 & 0 \end{pmatrix}, \qquad
   V = \begin{pmatrix} 0 & 0 \\ w_0^\top & -1 \end{pmatrix}, \qquad P = \frac\eta N I

turns every label into :math:`y - \langle w_1 - w_0, x\rangle` with the weights :math:`w_1` of one
step of gradient descent from :math:`w_0`; further layers of the same :math:`w_0` make further
steps (Proposition 1 of von Oswald et al., arXiv:2212.07677; the preconditioner A as in Ahn et al.,
arXiv:2306.00297).  The query's token must not be among the keys and values: from the second layer
on, or with :math:`w_0 \ne 0`, it would count as one more pair.

With x and y in separate tokens a layer that looks up the next position comes first and copies
every label to its input (Proposition 3 there).  Tokens are then rows (x, y, position).
"""

import math
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import (
    check_arguments,
    check_choice,
    check_integers,
    check_positive,
    check_shape,
    parse_array,
)
from iclimit.simulate.arrays import Array, get_backend
from iclimit.simulate.models.transformer import Layer
from iclimit.simulate.prompts import Prompts, regression_tokens

NORMALIZATIONS = ("mean", "sum")
# Largest difference allowed between an encoding and the image of the one before it.  Measured:
# 3e-15 for a thousand positions on a cycle, .17 and more for encodings that no linear map moves.
SHIFT_TOLERANCE = 1e-10


def descent_layer(
    rate: float,
    *,
    context: int,
    dim: int,
    initial: ArrayLike | None = None,
    preconditioner: ArrayLike | None = None,
    normalization: str = "mean",
    backend: str = "numpy",
) -> Layer:
    r"""Linear layer that performs one step of gradient descent on every token.

    Parameters
    ----------
    rate : float
        Learning rate :math:`\eta`.
    context, dim : int >= 1
        Number N of pairs and dimension of the inputs.
    initial : array (dim,), optional
        Weights :math:`w_0` before the first layer, the same in all layers of a stack and in
        `regression_tokens`; zero by default.
    preconditioner : array (dim, dim), optional
        Matrix A of the step :math:`\eta A X^\top (y - X w)`; the identity by default.
    normalization : {"mean", "sum"}
        Whether the gradient is the mean or the sum over the pairs.
    backend : {"numpy", "cupy"}
        Where the layer's weights lie; initial and preconditioner are host arrays.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.simulate.descent.constructions import descent_layer
    >>> from iclimit.simulate.prompts import Prompts
    >>> from iclimit.simulate.prompts import regression_tokens
    >>> from iclimit.simulate.models.transformer import prediction
    >>> pair = Prompts(
    ...     inputs=np.array([[[1.0, 0.0]]]), labels=np.array([[2.0]]),
    ...     query=np.array([[1.0, 1.0]]), query_label=np.array([2.0]),
    ... )
    >>> layers = [descent_layer(0.5, context=1, dim=2)] * 3
    >>> [float(prediction(regression_tokens(pair), layers[:k])[0]) for k in range(4)]
    [-0.0, 1.0, 1.5, 1.75]
    """
    check_arguments(rate=rate, context=context, dim=dim)
    check_choice("normalization", normalization, NORMALIZATIONS)
    inputs = np.diag(np.append(np.ones(dim), 0.0))
    key = inputs.copy()
    value = np.zeros((dim + 1, dim + 1))
    if preconditioner is not None:
        key[:dim, :dim] = parse_array("preconditioner", preconditioner, (dim, dim))
    if initial is not None:
        value[dim, :dim] = parse_array("initial", initial, (dim,))
    value[dim, dim] = -1.0
    projection = (rate / context if normalization == "mean" else rate) * np.eye(dim + 1)
    return _layer(key, inputs, value, projection, backend)


def widen_layer(layer: Layer, size: int) -> Layer:
    """Same layer on the first entries of tokens of `size` numbers; the others stay as they are."""
    xp = array_namespace(layer.key)
    heads, dim = layer.key.shape[:2]
    if size < dim:
        raise ValueError(f"size must be >= {dim}, the layer's own, got {size!r}")
    right = xp.zeros((heads, dim, size - dim), dtype=layer.key.dtype)
    below = xp.zeros((heads, size - dim, size), dtype=layer.key.dtype)
    return Layer(
        *(
            xp.concat([xp.concat([weight, right], axis=2), below], axis=1)
            for weight in (layer.key, layer.query, layer.value, layer.projection)
        )
    )


def one_hot_positions(context: int) -> np.ndarray:
    """Unit vectors for the 2 N + 1 separate tokens of N = context pairs and a query."""
    check_integers(context=context)
    return np.eye(2 * context + 1)


def sinusoidal_positions(context: int, pairs: int) -> np.ndarray:
    r"""Encodings of unit norm by the lowest harmonics of the cycle of T = 2 N + 1 positions.

    Position t has :math:`\cos(2\pi k t/T)/\sqrt m` and :math:`\sin(2\pi k t/T)/\sqrt m` for k up
    to m = pairs <= N, shape (T, 2 m).
    """
    check_integers(context=context, pairs=pairs)
    if pairs > context:
        raise ValueError(f"pairs must be <= context, got {pairs} > {context}")
    positions = 2 * context + 1
    angle = 2 * math.pi / positions * np.outer(np.arange(positions), np.arange(1, pairs + 1))
    return np.concat([np.cos(angle), np.sin(angle)], axis=1) / math.sqrt(pairs)


def separate_tokens(prompts: Prompts, positions: Array, initial: Array | None = None) -> Array:
    r"""Rows :math:`(x_1, 0, p_0), (0, y_1, p_1), \dots, (x_q, -\langle w_0, x_q\rangle, p_{2N})`.

    Parameters
    ----------
    prompts : Prompts
        n prompts of N pairs.
    positions : array (2 N + 1, size)
        Encodings p.
    initial : array (dim,), optional
        Weights :math:`w_0`.

    Returns
    -------
    array (n, 2 N + 1, dim + 1 + size)

    Raises
    ------
    ValueError
        If there is not one encoding for every token.
    """
    xp = array_namespace(prompts.inputs)
    n, length, dim = prompts.inputs.shape
    check_shape("positions", positions, (2 * length + 1, None))
    merged = regression_tokens(prompts, initial)
    pairs = merged[:, :-1, None, :]
    label = xp.concat([xp.zeros(dim, dtype=merged.dtype), xp.ones(1, dtype=merged.dtype)])
    split = xp.concat([pairs * (1 - label), pairs * label], axis=2)
    rows = xp.concat([xp.reshape(split, (n, 2 * length, dim + 1)), merged[:, -1:, :]], axis=1)
    encodings = xp.asarray(positions, dtype=merged.dtype)
    return xp.concat([rows, xp.broadcast_to(encodings, (n, *encodings.shape))], axis=2)


def copying_layer(
    positions: Any, *, dim: int, sharpness: float = 1.0, backend: str = "numpy"
) -> Layer:
    r"""Layer that adds to every token's label the label of the next position.

    The score of a token at position s for one at t is :math:`\beta\, p_s^\top S p_t` with S the
    linear map that moves every encoding to the next one.  The last position moves to the first,
    whose token is an input without label: nothing is copied to the query.  What is copied to the
    tokens of the labels does not matter, they have no input for descent to act on.

    Exact as a linear layer with orthonormal positions and sharpness 1.  With softmax the error
    falls as :math:`e^{-\beta g}`, g the gap :math:`1 - \max_{s \ne t} p_s^\top p_t`.

    Parameters
    ----------
    positions : array (T, size)
        Encodings, as on the host.
    dim : int >= 1
        Dimension of the inputs.
    sharpness : float > 0
        Factor :math:`\beta` of the scores.
    backend : {"numpy", "cupy"}
        Where the layer's weights lie.

    Raises
    ------
    ValueError
        If an argument is outside its range, or no linear map moves every encoding to the next.
    """
    check_arguments(dim=dim)
    check_positive("sharpness", sharpness)
    encodings = parse_array("positions", positions, (None, None))
    following = np.roll(encodings, -1, axis=0)
    shift = np.linalg.lstsq(encodings, following)[0]
    if np.max(np.abs(encodings @ shift - following)) > SHIFT_TOLERANCE:
        raise ValueError("positions must be moved to the next, cyclically, by a linear map")
    size = dim + 1 + encodings.shape[1]
    key, query, value = np.zeros((3, size, size))
    key[dim + 1 :, dim + 1 :] = np.eye(encodings.shape[1])
    query[dim + 1 :, dim + 1 :] = sharpness * shift.T
    value[dim, dim] = 1.0
    return _layer(key, query, value, np.eye(size), backend)


def _layer(
    key: np.ndarray, query: np.ndarray, value: np.ndarray, projection: np.ndarray, backend: str
) -> Layer:
    """Layer of one head."""
    device = get_backend(backend)
    return Layer(*(device.asarray(weight[None]) for weight in (key, query, value, projection)))
