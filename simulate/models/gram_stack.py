r"""Stacks of linear attention on Gram matrices instead of tokens.

Linear attention depends on its tokens through :math:`G = \sum_j e_j e_j^\top` only, and maps them
all by the same matrix,

.. math:: e \to T e, \qquad T = I + \sum_h P_h G Q_h, \qquad G \to T G T^\top,

so D x D numbers describe a context of any length.  Of the last layer only the last row of T is
needed, for the last entry of the query's token.  The derivatives are derived by hand.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.models.transformer import Layer


class Heads:
    """Sum of P G Q over heads.

    Parameters
    ----------
    output, lookup : array (H, D, D)
        P and Q.
    gram : array (n, D, D)
    rows : slice
        Rows of the sum that are computed.
    """

    def __init__(self, output: Array, lookup: Array, gram: Array, rows: slice) -> None:
        self.output = output[:, None, rows, :]
        self.lookup = lookup[:, None, :, :]
        self.gram = gram
        self.mixed = self.output @ gram
        self.change = array_namespace(gram).sum(self.mixed @ self.lookup, axis=0)

    def by_gram(self, by_map: Array) -> Array:
        """Derivatives by G, from those by the map."""
        xp = array_namespace(by_map)
        moved = by_map @ xp.matrix_transpose(self.lookup)
        return xp.sum(xp.matrix_transpose(self.output) @ moved, axis=0)


class GramStack:
    """Forward pass on Gram matrices, which keeps what the derivatives need.

    Parameters
    ----------
    gram : array (n, D, D)
    layers : sequence of functions
        Each makes a layer, such as Heads, from Gram matrices and the rows that are needed.

    Attributes
    ----------
    row : array (n, D)
        Last row of the product of all maps.
    """

    def __init__(self, gram: Array, layers: Sequence[Callable[[Array, slice], Any]]) -> None:
        xp = array_namespace(gram)
        final = len(layers) - 1
        eye = xp.eye(gram.shape[-1], dtype=gram.dtype)
        self.layers = []
        self.maps = []
        self.mapped = []
        for depth, make in enumerate(layers):
            rows = slice(-1, None) if depth == final else slice(None)
            self.layers.append(make(gram, rows))
            change = self.layers[-1].change
            change += eye[rows, :]
            self.maps.append(change)
            if depth < final:
                self.mapped.append(change @ gram)
                gram = self.mapped[-1] @ xp.matrix_transpose(change)
        self.rows = [xp.ones((gram.shape[0], 1, 1), dtype=gram.dtype)]
        for change in reversed(self.maps):
            self.rows.insert(0, self.rows[0] @ change)
        self.row = self.rows[0][:, 0, :]

    def derivatives(
        self, tokens: Array, *, of_gram: bool = False
    ) -> tuple[list[Array], Array | None]:
        """Derivatives of the products of `row` with given tokens (n, D).

        Returns
        -------
        by_maps : list of array (n, R, D)
            By the map of each layer.
        by_gram : array (n, D, D) or None
            Twice those by the first Gram matrix, which are symmetric, if asked for.
        """
        xp = array_namespace(tokens)
        by_gram = None
        by_maps: list[Array] = []
        columns = [tokens[:, :, None]]
        for change in self.maps[:-1]:
            columns.append(change @ columns[-1])
        for depth in reversed(range(len(self.layers))):
            before = xp.matrix_transpose(self.rows[depth + 1])
            by_map = before * xp.matrix_transpose(columns[depth])
            if by_gram is not None:
                by_map += by_gram @ self.mapped[depth]
            by_maps.insert(0, by_map)
            if depth > 0 or of_gram:
                direct = self.layers[depth].by_gram(by_map)
                direct = direct + xp.matrix_transpose(direct)
                if by_gram is not None:
                    change = self.maps[depth]
                    direct += xp.matrix_transpose(change) @ (by_gram @ change)
                by_gram = direct
        return by_maps, by_gram


def run_stack(
    tokens: Array, layers: Sequence[Layer], include_query: bool
) -> tuple[Array, Callable[[Array], tuple[list[Layer], Array]]]:
    """Predictions of a stack, and how derivatives by them are pulled back.

    Parameters
    ----------
    tokens : array (n, T, D)
        Prompts as rows of tokens, the query last.
    layers : sequence of Layer
        The stack; a recurrent layer is repeated in it.
    include_query : bool
        Whether the query's token is among the keys and values.

    Returns
    -------
    predictions : array (n,)
        Minus the last entry of the query's final token.
    pullback : function
        From derivatives (n,) by the predictions to those by the weights at each place of the
        stack, summed over prompts, and to those (n, D) by the query's token.
    """
    if len(layers) == 0:
        raise ValueError("layers must hold at least one Layer, got none")
    xp = array_namespace(tokens)
    query = tokens[:, -1, :]
    source = tokens if include_query else tokens[:, :-1, :]
    gram = xp.matrix_transpose(source) @ source
    stack = GramStack(gram, [partial(Heads, layer.output, layer.lookup) for layer in layers])

    def pullback(by_prediction: Array) -> tuple[list[Layer], Array]:
        scale = -by_prediction[:, None]
        by_maps, by_gram = stack.derivatives(scale * query, of_gram=include_query)
        by_query = scale * stack.row
        gradients = []
        if include_query:
            by_query = by_query + (by_gram @ query[:, :, None])[:, :, 0]
        for layer, heads, by_map in zip(layers, stack.layers, by_maps, strict=True):
            moved = by_map @ xp.matrix_transpose(heads.lookup)
            by_output = xp.tensordot(moved, heads.gram, axes=([1, 3], [0, 1]))
            by_lookup = xp.tensordot(heads.mixed, by_map, axes=([1, 2], [0, 1]))
            gradients.append(weight_gradients(layer, by_output, by_lookup))
        return gradients, by_query

    return -xp.sum(stack.row * query, axis=1), pullback


def weight_gradients(layer: Layer, by_output: Array, by_lookup: Array) -> Layer:
    """Derivatives by the weights from those by the last rows of P V, and by K^T Q."""
    xp = array_namespace(by_lookup)
    transpose = xp.matrix_transpose
    rows = slice(-by_output.shape[1], None)
    by_projection = xp.zeros_like(layer.projection)
    by_projection[:, rows, :] = by_output @ transpose(layer.value)
    return Layer(
        key=layer.query @ transpose(by_lookup),
        query=layer.key @ by_lookup,
        value=transpose(layer.projection[:, rows, :]) @ by_output,
        projection=by_projection,
    )
