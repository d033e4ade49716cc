r"""Linear transformers on Gram matrices instead of tokens.

The prediction for a query x is :math:`\langle w, x\rangle` with the implicit weights
:math:`w = -(e_D^\top T_{L} \cdots T_1)_{1..d}` (arXiv:2402.14180, Theorem 4.1), where
:math:`T_\ell` are the maps of `iclimit.simulate.models.gram_stack`.  No query is needed.  The
derivatives are those of :math:`\langle w, v\rangle` for a given vector v per context.
"""

from functools import partial

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.models.gram_stack import GramStack, Heads
from iclimit.simulate.models.linear_transformer import LinearTransformer, ties


class GramPass:
    """Forward pass on Gram matrices (n, D, D), which keeps what the derivatives need.

    Attributes
    ----------
    weights : array (n, d)
        Implicit weights.
    """

    def __init__(self, gram: Array, model: LinearTransformer) -> None:
        make = _DiagonalLayer if model.kind in ("diag", "gd++") else _DenseLayer
        layers = [partial(make, model, depth) for depth in range(model.depth)]
        self.stack = GramStack(gram, layers)
        self.weights = -self.stack.row[:, :-1]

    def derivatives(self, directions: Array) -> Array:
        """Derivatives of the products of weights and directions by the free parameters.

        Parameters
        ----------
        directions : array (n, d)

        Returns
        -------
        array (n, p)
            The parameters by layer, head and entry, as in `free_parameters`.
        """
        xp = array_namespace(directions)
        tokens = xp.concat([-directions, xp.zeros_like(directions[:, :1])], axis=1)
        by_maps, _ = self.stack.derivatives(tokens)
        pairs = zip(self.stack.layers, by_maps, strict=True)
        return xp.concat([layer.by_parameters(by_map) for layer, by_map in pairs], axis=1)


class _DenseLayer(Heads):
    """Sum of P G Q over heads, and its derivatives by the entries of P and Q or their ties."""

    def __init__(self, model: LinearTransformer, depth: int, gram: Array, rows: slice) -> None:
        super().__init__(model.projection[depth, ...], model.lookup[depth, ...], gram, rows)
        tied = model.kind != "full"
        self.tie = array_namespace(gram).asarray(ties(model.kind, model.dim)) if tied else None

    def by_parameters(self, by_map: Array) -> Array:
        xp = array_namespace(by_map)
        by_rows = by_map @ xp.matrix_transpose(self.lookup) @ self.gram
        by_lookup = xp.matrix_transpose(self.mixed) @ by_map
        by_projection = xp.zeros_like(by_lookup)
        by_projection[:, :, -by_map.shape[1] :, :] = by_rows
        by_both = xp.reshape(
            xp.stack([by_projection, by_lookup], axis=2), (*by_rows.shape[:2], -1)
        )
        if self.tie is not None:
            by_both = by_both @ self.tie.T
        return xp.reshape(xp.permute_dims(by_both, (1, 0, 2)), (by_map.shape[0], -1))


class _DiagonalLayer:
    """The same for diagonal P and Q that are constant on the inputs."""

    def __init__(self, model: LinearTransformer, depth: int, gram: Array, rows: slice) -> None:
        xp = array_namespace(gram)
        self.gram = gram[:, rows, :]
        self.rows = rows
        self.kind = model.kind
        self.p = xp.linalg.diagonal(model.projection[depth, ...])
        self.q = xp.linalg.diagonal(model.lookup[depth, ...])
        self.scale = self.p[:, rows].T @ self.q
        self.change = self.scale * self.gram

    def by_gram(self, by_map: Array) -> Array:
        xp = array_namespace(by_map)
        by_gram = xp.zeros((by_map.shape[0], *2 * by_map.shape[2:]), dtype=by_map.dtype)
        by_gram[:, self.rows, :] = self.scale * by_map
        return by_gram

    def by_parameters(self, by_map: Array) -> Array:
        xp = array_namespace(by_map)
        size = by_map.shape[-1]
        label = xp.astype(xp.arange(size) == size - 1, by_map.dtype)
        by_scale = []
        for head in range(self.p.shape[0]):
            p = self.p[head, :]
            q = self.q[head, :]
            both = [(1 - label, q), (label, q), (p, 1 - label), (p, label)]
            by_scale += [xp.reshape(a[self.rows, None] * b, (-1,)) for a, b in both]
            if self.kind == "gd++":
                by_scale.pop()
        flat = xp.reshape(by_map * self.gram, (by_map.shape[0], -1))
        return flat @ xp.stack(by_scale, axis=1)
