r"""Linear transformers of four kinds: full, axial, diagonal and GD++.

The notation of Vladymyrov et al. (arXiv:2402.14180): a layer adds to every token, the query's
included,

.. math:: \Delta e_i = \sum_h P_h\, G\, Q_h e_i, \qquad G = \sum_{j\le n} e_j e_j^\top,

with tokens :math:`e = (x, y)` of D = d + 1 numbers; the query is never a key.  The kinds differ in
what is free:

* full: all entries of :math:`P_h` and :math:`Q_h`;
* axial: the full ones that commute with all orthogonal maps of the inputs that keep the first
  axis.  They are diagonal except for the entries that connect :math:`x_1` and y.  From three
  layers on, descents with full weights end near them: one direction of the inputs then holds what
  the layer learnt of the labels.  Not in the paper;
* diag: :math:`P_h = \mathrm{diag}(p_x I, p_y)` and :math:`Q_h = \mathrm{diag}(q_x I, q_y)`, which
  act by the four numbers :math:`\omega_{ab} = \sum_h p_{ha} q_{hb}` (with one head
  :math:`\omega_{xx}\omega_{yy} = \omega_{xy}\omega_{yx}`);
* gd++: diag with :math:`q_y = 0`, gradient descent by :math:`\omega_{yx}` on inputs that
  :math:`\omega_{xx}` preconditions.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import check_arguments, check_choice, check_shape, parse_array
from iclimit.results import Result
from iclimit.simulate.arrays import Array, Backend, Generator, to_host
from iclimit.simulate.models.tokens import parse_question
from iclimit.simulate.models.transformer import Layer, prediction
from iclimit.simulate.prompts import regression_tokens

KINDS = ("full", "axial", "diag", "gd++")

# Off-diagonal entries of random full weights, relative: enough to break the symmetry; larger ones
# make the loss of deep stacks overflow, a polynomial of degree 3^L in the tokens.
_SPREAD = 0.002


# The same for the entries of axial weights that connect the first input and the label.
_AXIAL_SPREAD = 0.1

# Scale of random full weights: descents from it end lower, and sooner, than from 0.3 or 1.
_FULL_SCALE = 0.5


@dataclass(frozen=True, eq=False, repr=False)
class LinearTransformer(Result):
    """Weights of a linear transformer.

    Attributes
    ----------
    kind : {"full", "axial", "diag", "gd++"}
    projection, lookup : array (layers, heads, D, D)
        The matrices P and Q.

    Raises
    ------
    ValueError
        If the kind is unknown or an array has another shape.
    """

    kind: str
    projection: Array
    lookup: Array

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        size = np.shape(self.projection)[-1] if np.ndim(self.projection) else None
        check_shape("projection", self.projection, (None, None, size, size))
        check_shape("lookup", self.lookup, np.shape(self.projection))

    @property
    def depth(self) -> int:
        """Number of layers."""
        return self.projection.shape[0]

    @property
    def dim(self) -> int:
        """Dimension of the inputs."""
        return self.projection.shape[-1] - 1

    @property
    def layers(self) -> list[Layer]:
        """The same transformer as a stack of general attention layers."""
        eye = array_namespace(self.lookup).zeros_like(self.lookup[0, ...])
        eye[:, ...] = array_namespace(self.lookup).eye(self.dim + 1)
        return [
            Layer(eye, self.lookup[depth, ...], eye, self.projection[depth, ...])
            for depth in range(self.depth)
        ]

    def __call__(self, inputs: ArrayLike, labels: ArrayLike, query: ArrayLike) -> np.ndarray:
        """Predictions (n,), in the form that ``iclimit.probe`` asks models in."""
        prompts = parse_question(inputs, labels, query, self.dim)
        return np.asarray(prediction(regression_tokens(prompts), self.layers))

    @property
    def omegas(self) -> np.ndarray:
        r"""Effective scalars :math:`\omega_{ab}` of diag and gd++, shape (layers, 2, 2).

        Indices a, b are 0 for x and 1 for y.

        Raises
        ------
        ValueError
            For the kinds "full" and "axial", which have none.
        """
        if self.kind not in ("diag", "gd++"):
            raise ValueError(f"kind must be 'diag' or 'gd++' for omegas, got {self.kind!r}")
        both = np.stack([to_host(self.projection), to_host(self.lookup)])
        p, q = np.diagonal(both, axis1=-2, axis2=-1)[..., [0, self.dim]]
        return np.sum(p[..., :, None] * q[..., None, :], axis=1)


def ties(kind: str, dim: int) -> np.ndarray:
    """How the free parameters of a head fill P and Q, a 0/1 matrix (parameters, 2 D D)."""
    check_choice("kind", kind, KINDS)
    size = dim + 1
    if kind == "full":
        return np.eye(2 * size**2)
    x = np.diag(np.append(np.ones(dim), 0.0))
    y = np.diag(np.append(np.zeros(dim), 1.0))
    zero = np.zeros_like(x)
    if kind == "axial":
        unit = np.eye(size)
        corners = [np.outer(unit[i], unit[j]) for i in (0, -1) for j in (0, -1)]
        shapes = [shape for shape in (x - corners[0], *corners) if np.any(shape)]
        rows = [(shape, zero) for shape in shapes] + [(zero, shape) for shape in shapes]
        return np.array([np.ravel(pair) for pair in rows])
    rows = [(x, zero), (y, zero), (zero, x), (zero, y)]
    return np.array([np.ravel(pair) for pair in rows[: 3 if kind == "gd++" else 4]])


def parameter_count(kind: str, dim: int) -> int:
    """Free parameters of one head of one layer."""
    return len(ties(kind, dim))


def build(kind: str, parameters: Array, dim: int) -> LinearTransformer:
    """Transformer with free parameters (layers, heads, parameters of a head)."""
    xp = array_namespace(parameters)
    size = dim + 1
    filled = parameters @ xp.asarray(ties(kind, dim))
    filled = xp.reshape(filled, (*parameters.shape[:2], 2, size, size))
    return LinearTransformer(kind, filled[:, :, 0, :, :], filled[:, :, 1, :, :])


def free_parameters(model: LinearTransformer, kind: str) -> np.ndarray:
    """Parameters of the same transformer as one of a kind that contains it.

    Raises
    ------
    ValueError
        If the kind does not contain its weights, or they are not finite.
    """
    stacked = np.stack([to_host(model.projection), to_host(model.lookup)], axis=2)
    tie = ties(kind, model.dim)
    flat = stacked.reshape(*stacked.shape[:2], -1)
    if not np.all(np.isfinite(flat)):
        raise ValueError("weights must be finite, got NaN or inf among them")
    parameters = flat @ tie.T / np.sum(tie, axis=1)
    if not np.allclose(parameters @ tie, flat, rtol=0, atol=1e-14 * np.abs(flat).max()):
        entries = f"other entries in a model of kind {model.kind!r}"
        raise ValueError(f"weights must be of kind {kind!r}, got {entries}")
    return parameters


def random_parameters(
    generator: Generator,
    *,
    kind: str,
    layers: int,
    heads: int,
    dim: int,
    context: int,
    variance: float,
) -> np.ndarray:
    r"""Random parameters (layers, heads, n) at which a layer changes its tokens by O(1).

    Scalars are normal, in units of :math:`1/\sqrt{N + d + 1 + \sigma^2}`, about the root of the
    best rate of one step; :math:`q_y` also of the mean square of a label.  Full weights are
    diagonal with independent entries, except for a small part.  In the other kinds
    :math:`\omega_{yx}` is negative, a step of descent: otherwise half of the starts would end at
    zero.
    """
    check_arguments(layers=layers, heads=heads)
    size = dim + 1
    unit = 1 / math.sqrt((context + dim + 1 + variance) * math.sqrt(heads))
    column = np.append(np.ones(dim), 1 / (dim + variance))
    if kind in ("full", "axial"):
        unit *= _FULL_SCALE
        spread = _SPREAD if kind == "full" else _AXIAL_SPREAD
        apart = spread * (1 - np.eye(size)) * column
        tie = ties(kind, dim)
        filled = np.stack([np.eye(size) + apart, np.diag(column) + apart]).ravel()
        scale = tie @ filled / np.sum(tie, axis=1)
    else:
        scale = np.array([1.0, 1.0, 1.0, column[-1]])[: parameter_count(kind, dim)]
    parameters = unit * scale * generator.standard_normal((layers, heads, scale.size))
    if kind in ("diag", "gd++"):
        parameters[..., 1] = -np.copysign(parameters[..., 1], parameters[..., 2])
    return parameters


def to_backend(model: LinearTransformer, backend: Backend) -> LinearTransformer:
    """Copy of host weights on a backend."""
    return LinearTransformer(
        model.kind, backend.asarray(model.projection), backend.asarray(model.lookup)
    )


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
        Variance v of an input coordinate: 1 as with ``scale=1``, where the limit is one of
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
