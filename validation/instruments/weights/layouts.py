r"""How papers arrange tokens and name the weights of linear attention.

In every layout a layer adds to the token z, here a column of D = d + 1 numbers (x, y),

.. math:: c \sum_h O_h \sum_s e_s\, (e_s^\top B_h z), \qquad
   O_h = W_{O,h} W_{V,h}, \quad B_h = W_{K,h}^\top W_{Q,h},

where s runs over the context, with or without the query.  The layouts differ in which products
the weights are, in the factor c, in whether the query is among the keys, in the sign of the
prediction, and in whether matrices act on columns (W z, as PyTorch stores ``Linear.weight``) or on
rows (z W, as JAX stores a kernel).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from iclimit.asymptotics.checks import real_number
from iclimit.checks import check_choice, given, refuse_masked, shown
from iclimit.notation import did_you_mean, explaining
from iclimit.problem import TASK_LAWS
from iclimit.simulate.arrays import to_host
from iclimit.simulate.models.transformer import Layer
from iclimit.units import CONVENTIONS, Convention

# What a matrix can be: W_Q, W_K, W_V, W_O, W_K^T W_Q, or the one row of W_V that counts.
ROLES = ("query", "key", "value", "projection", "key_query", "value_row")

ORIENTATIONS = ("columns", "rows")

# Factor c of a layer: 1, one over the pairs, or one over the pairs and the query.
NORMALIZATIONS = ("sum", "mean", "tokens")

# Names of weights that every layout knows, beside the roles themselves.
ALIASES = {
    "W_Q": "query",
    "W_K": "key",
    "W_V": "value",
    "W_O": "projection",
    "W_KQ": "key_query",
    "W_PV": "value",
    "q_proj": "query",
    "k_proj": "key",
    "v_proj": "value",
    "o_proj": "projection",
    "out_proj": "projection",
    "c_proj": "projection",
}

# Matrices that libraries stack: queries, keys and values of PyTorch's MultiheadAttention and of
# GPT-2, in this order.
STACKED = ("in_proj_weight", "c_attn", "qkv_proj")

# Where other weights lead: no layer of linear attention has them.
WHOLE_NETWORK = (
    "; weights of a whole network, with embeddings, norms or MLPs, are not reduced: ask the "
    "network instead, iclimit.probe(predict, problem)"
)


@dataclass(frozen=True)
class Layout:
    """Arrangement of a paper; `dataclasses.replace` changes single choices.

    Attributes
    ----------
    name : str
        Name of the layout.
    convention : Convention
        Variances of inputs and tasks.
    names : dict
        What the paper calls the weights, and their roles.
    orientation : {"columns", "rows"}
        Whether a matrix W maps a token z to W z or to z W.
    normalization : {"sum", "mean", "tokens"}
        Factor of a layer: 1, one over the pairs, or one over the pairs and the query.
    include_query : bool
        Whether the query's token is among the keys.
    sign : float
        The prediction is this times the last entry of the query's token.
    residual : bool
        Whether the token itself is added to what the layer returns.
    """

    name: str
    convention: Convention
    names: Mapping[str, str] = field(default_factory=dict)
    orientation: str = "columns"
    normalization: str = "mean"
    include_query: bool = False
    sign: float = 1.0
    residual: bool = True

    def __post_init__(self) -> None:
        check_choice("orientation", self.orientation, ORIENTATIONS)
        check_choice("normalization", self.normalization, NORMALIZATIONS)

    def factor(self, context: int) -> float:
        """Factor c of a layer at a context length."""
        return {"sum": 1.0, "mean": 1 / context, "tokens": 1 / (context + 1)}[self.normalization]

    def describe(self) -> str:
        """The choices in words."""
        normalization = {"sum": "sum", "mean": "mean over pairs", "tokens": "mean over tokens"}
        keys = "query among keys" if self.include_query else "query not among keys"
        return f"{self.name} ({self.orientation}, {normalization[self.normalization]}, {keys})"


_PRODUCTS = {"P": "value", "Q": "key_query"}

# Coordinates of variance 1, and the squared error itself.
_VARIANCE_ONE = Convention(
    "",
    "",
    input_law="gaussian",
    input_variance="1",
    task_law="gaussian",
    product_factor="1/l",
    square_factor="1/l",
)

# Fields of each layout that differ from the default.
_CHOICES: dict[str, dict[str, Any]] = {
    "lu2025": {"names": {"V": "value", "K": "key", "Q": "query"}, "include_query": True},
    "vonoswald2023": {"names": {"P": "projection"}, "normalization": "sum", "sign": -1.0},
    "blog2024": {"names": {"P": "projection"}, "sign": -1.0},
    "ahn2023": {"names": _PRODUCTS, "sign": -1.0},
    "zhang2024": {"names": {"W_PV": "value", "W_KQ": "key_query"}, "include_query": True},
    "versatile2024": {"names": _PRODUCTS, "normalization": "sum", "sign": -1.0},
    "linattn2025": {
        "names": {"v": "value_row", "U": "key_query"},
        "include_query": True,
        "residual": False,
    },
}

# The layouts by name.
LAYOUTS = {
    name: Layout(
        name, CONVENTIONS.get(name) or replace(_VARIANCE_ONE, name=name, paper=name), **choices
    )
    for name, choices in _CHOICES.items()
}


@explaining
def get_layout(
    layout: str | Layout,
    *,
    orientation: str | None = None,
    normalization: str | None = None,
    include_query: bool | None = None,
    input_variance: float | None = None,
    task_variance: float | None = None,
    task_law: str | None = None,
) -> Layout:
    """Return a layout by its name, or as it is given, with other choices in place of its own.

    Parameters
    ----------
    layout : str or Layout
        Arrangement of a paper: ``lu2025``, ``vonoswald2023``, ``blog2024``, ``ahn2023``,
        ``zhang2024``, ``versatile2024`` or ``linattn2025``; or a layout that is changed further.
    orientation : {"columns", "rows"}, optional
        Whether a token z becomes W z (``weight`` of PyTorch's Linear) or z W (``kernel`` of JAX).
    normalization : {"sum", "mean", "tokens"}, optional
        Factor of the layer: 1, one over the pairs, or one over the pairs and the query.
    include_query : bool, optional
        Whether the query's token is among the keys.
    input_variance, task_variance : float > 0, optional
        Variances of the coordinates of inputs and tasks.
    task_law : {"sphere", "gaussian"}, optional
        Law of fresh tasks.

    Returns
    -------
    Layout

    Raises
    ------
    ValueError
        If a name is not known, or a variance is outside its range.
    TypeError
        If a variance is no number.

    Examples
    --------
    >>> from iclimit.validation import get_layout
    >>> get_layout("lu2025", orientation="rows", include_query=False).describe()
    'lu2025 (rows, mean over pairs, query not among keys)'
    """
    if not isinstance(layout, Layout):
        check_choice("layout", layout, LAYOUTS)
        layout = LAYOUTS[layout]
    numbers = given({"input_variance": input_variance, "task_variance": task_variance})
    law: dict[str, Any] = {name: repr(real_number(name, value)) for name, value in numbers.items()}
    if task_law is not None:
        check_choice("task_law", task_law, TASK_LAWS)
        law["task_law"] = task_law
    choices = given(
        {
            "orientation": orientation,
            "normalization": normalization,
            "include_query": include_query,
        }
    )
    return replace(layout, convention=replace(layout.convention, **law), **choices)


# Weights of a layer by name, or a layer of the simulator.
Weights = Mapping[str, Any] | Layer


@dataclass(frozen=True)
class Products:
    """What a layer computes with: products of its weights on columns.

    Attributes
    ----------
    lookup : ndarray (H, D, D)
        :math:`B_h`.
    output : ndarray (H, m, D)
        :math:`O_h`; m is D, or 1 where only the prediction is read.
    """

    lookup: np.ndarray
    output: np.ndarray

    @property
    def dim(self) -> int:
        """Dimension d of the inputs."""
        return self.lookup.shape[-1] - 1


def parse_layer(layer: Weights, layout: Layout, heads: int = 1) -> Products:
    """Products of the weights of one layer.

    Parameters
    ----------
    layer : mapping of arrays, or Layer
        Matrices by the names of the layout; an opened ``.npz`` file is one.  Their shapes are
        (rows, D), or (H, rows, D) for several heads.
    layout : Layout
        Says what the names mean and on which side the matrices act.
    heads : int >= 1
        Number of heads that are stacked in matrices (H rows, D), as PyTorch has them.

    Raises
    ------
    ValueError
        If a name is not known, a matrix is missing, given twice or not finite, or shapes do not
        fit.
    TypeError
        If it is neither a mapping nor a Layer.
    """
    if isinstance(layer, Layer):
        return Products(np.asarray(to_host(layer.lookup)), np.asarray(to_host(layer.output)))
    if not isinstance(layer, Mapping):
        raise TypeError(f"layer must be a mapping of arrays by name, got {type(layer).__name__}")
    matrices = _by_role(layer, layout)
    names = {role: name for role, (name, _) in matrices.items()}
    weights = {
        role: parse_matrices(name, role, value, layout, heads)
        for role, (name, value) in matrices.items()
    }
    _check_complete(weights, layout)
    lookup = _lookup(matrices, weights)
    return Products(lookup, _output(names, weights, lookup))


def _lookup(
    matrices: Mapping[str, tuple[str, Any]], weights: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Products :math:`B_h` of keys and queries."""
    role = "key_query" if "key_query" in weights else "query"
    if role == "query":
        key = weights["key"]
        query = weights["query"]
        named = matrices["key"][0]
        _check_heads(named, key, matrices["query"][0], query)
        if key.shape[1] != query.shape[1]:
            raise ValueError(
                f"{named} and {matrices['query'][0]} must have as many rows, got "
                f"{key.shape[1]} and {query.shape[1]}"
            )
        lookup = key.transpose(0, 2, 1) @ query
    else:
        lookup = weights["key_query"]
    size = lookup.shape[1]
    if lookup.shape[2] == size - 1:  # the query's label is zero: its column may be left out
        lookup = np.concatenate([lookup, np.zeros((len(lookup), size, 1))], axis=2)
    if size < 2 or lookup.shape[2] != size:
        name, value = matrices[role]
        raise ValueError(
            f"{name} must act on tokens of d + 1 numbers, as the other weights, got shape "
            f"{np.shape(value)}"
        )
    return lookup


def _output(
    names: Mapping[str, str], weights: Mapping[str, np.ndarray], lookup: np.ndarray
) -> np.ndarray:
    """Products :math:`O_h` of values and projections, which fit those of keys and queries."""
    size = lookup.shape[1]
    role = "value" if "value" in weights else "value_row"
    output = weights[role]
    first = "key_query" if "key_query" in weights else "query"
    _check_heads(names[role], output, names[first], lookup)
    if output.shape[2] != size:
        raise ValueError(
            f"{names[role]} must act on tokens of {size} numbers, got {output.shape[2]}"
        )
    if "projection" in weights:
        projection = weights["projection"]
        _check_heads(names["projection"], projection, names[role], output)
        if projection.shape[2] != output.shape[1]:
            raise ValueError(
                f"{names['projection']} must act on the {output.shape[1]} numbers of "
                f"{names[role]}, got {projection.shape[2]}"
            )
        output = projection @ output
    if output.shape[1] not in (1, size):
        raise ValueError(
            f"{names[role]} must lead to {size} numbers, or to the prediction alone, "
            f"got {output.shape[1]}"
        )
    return output


def _by_role(layer: Mapping[str, Any], layout: Layout) -> dict[str, tuple[str, Any]]:
    """Name and value of the matrix of each role."""
    known = {role: role for role in ROLES} | ALIASES | dict(layout.names)
    layer = _without_libraries(layer, layout, known)
    matrices: dict[str, tuple[str, Any]] = {}
    for name in layer:
        if name not in known:
            own = [*layout.names, *(name for name in (*ALIASES, *ROLES) if name != "value_row")]
            hint = did_you_mean(str(name), known)
            raise ValueError(
                f"layer has a matrix {name!r}, which layout {layout.name!r} does not know: "
                f"it knows {', '.join(dict.fromkeys(own))}{hint or WHOLE_NETWORK}"
            )
        role = known[name]
        if role in matrices:
            raise ValueError(f"layer has {matrices[role][0]!r} and {name!r}, which are the same")
        matrices[role] = name, layer[name]
    return matrices


def _without_libraries(
    layer: Mapping[str, Any], layout: Layout, known: Mapping[str, str]
) -> dict[str, Any]:
    """Weights of a state dictionary without prefix and ending, stacked ones taken apart.

    GPT-2 of Hugging Face keeps matrices (D, 3 D) that act on rows, and with them ``c_proj``;
    PyTorch and nanoGPT keep (3 D, D), on columns.
    """
    plain: dict[str, Any] = {}
    whole: dict[str, str] = {}
    for name in layer:
        stem = str(name).removesuffix(".weight").rpartition(".")[2]
        if name in known or stem not in (*known, *STACKED, "bias", "in_proj_bias"):
            stem = name
        elif stem.endswith("bias"):
            if np.any(to_host(layer[name]) if is_array_api_obj(layer[name]) else layer[name]):
                raise ValueError(f"layer has a bias {name!r}, and linear attention has none")
            continue
        if stem in plain:
            raise ValueError(
                f"layer has {whole[stem]!r} and {name!r}, of several layers: give one, "
                "{name: w for name, w in state.items() if name.startswith(PREFIX)}, or all in a "
                "list to reduced_stack"
            )
        plain[stem] = layer[name]
        whole[stem] = str(name)
    for name in STACKED:
        if name in plain:
            plain |= _taken_apart(whole[name], plain.pop(name), plain, layout)
    return plain


def _taken_apart(
    name: str, stacked: Any, others: Mapping[str, Any], layout: Layout
) -> dict[str, np.ndarray]:
    """Queries, keys and values that are stacked, and what goes with them, as the layout acts."""
    array = np.asarray(to_host(stacked) if is_array_api_obj(stacked) else stacked)
    if array.ndim != 2 or 3 * min(array.shape) != max(array.shape):
        raise ValueError(
            f"{name} must stack queries, keys and values, (3 D, D) or (D, 3 D), got shape "
            f"{array.shape}"
        )
    on_rows = array.shape[1] > array.shape[0]
    queries, keys, values = np.split(array, 3, axis=int(on_rows))
    parts = {"q_proj": queries, "k_proj": keys, "v_proj": values}
    if "c_proj" in others:
        projection = others["c_proj"]
        parts["c_proj"] = to_host(projection) if is_array_api_obj(projection) else projection
    if on_rows == (layout.orientation == "rows"):
        return parts
    return {role: np.swapaxes(part, -1, -2) for role, part in parts.items()}


# Kinds of arrays that NumPy would turn into numbers: flags, text, objects and times.
_NO_NUMBERS = "bSUOmM"


def parse_matrices(name: str, role: str, value: Any, layout: Layout, heads: int) -> np.ndarray:
    """Matrices of the heads, on columns: (H, rows, columns)."""
    if np.iscomplexobj(value):
        raise TypeError(f"{name} must be an array of real numbers, got complex ones")
    refuse_masked(name, value)
    try:
        matrices = np.asarray(to_host(value) if is_array_api_obj(value) else value)
        if matrices.dtype.kind in _NO_NUMBERS:
            raise TypeError
        array = matrices.astype(float)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be an array of real numbers, got {shown(value)}") from error
    if role == "value_row" and array.ndim in (1, 2):
        array = np.atleast_2d(array)[:, None, :]
    elif layout.orientation == "rows" and array.ndim in (2, 3):
        array = array.swapaxes(-1, -2)
    if array.ndim == 2 and heads > 1 and role != "key_query":
        axis = 1 if role == "projection" else 0
        if array.shape[axis] % heads:
            raise ValueError(
                f"{name} must be divisible into {heads} heads, got shape {np.shape(value)}"
            )
        array = np.stack(np.split(array, heads, axis))
    if array.ndim == 2:
        array = array[None]
    if array.ndim != 3 or not array.size:
        raise ValueError(f"{name} must be a matrix, or one for each head, got {np.shape(value)}")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got NaN or inf among its entries")
    return array


def _check_complete(weights: Mapping[str, Any], layout: Layout) -> None:
    """Raise a ValueError unless the matrices make up a layer."""
    merged = "key_query" in weights
    separate = {"key", "query"} & weights.keys()
    if merged and separate:
        raise ValueError("layer must have key and query, or their product, not both")
    if not merged and len(separate) < 2:
        lacks = " and ".join(sorted({"key", "query"} - separate))
        raise ValueError(f"layer lacks {lacks} (or key_query) in layout {layout.name!r}")
    if len({"value", "value_row"} & weights.keys()) != 1:
        raise ValueError(f"layer must have one value matrix in layout {layout.name!r}")


def _check_heads(name: str, first: np.ndarray, other: str, second: np.ndarray) -> None:
    if len(first) != len(second):
        raise ValueError(
            f"{name} and {other} must have as many heads, got {len(first)} and {len(second)}"
        )


def off_identity(matrices: np.ndarray) -> np.ndarray:
    """Share of the squared norm of matrices (n, d, d) that is no multiple of the identity."""
    size = np.sum(matrices**2, axis=(1, 2))
    traces = np.trace(matrices, axis1=1, axis2=2)
    rest = np.maximum(size - traces**2 / matrices.shape[-1], 0.0)
    return np.divide(rest, size, out=np.zeros_like(size), where=size > 0)
