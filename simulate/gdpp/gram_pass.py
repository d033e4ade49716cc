r"""Linear transformers on Gram matrices instead of tokens.

Linear attention depends on its tokens through :math:`G = \sum_j e_j e_j^\top` only, and maps them
all by the same matrix,

.. math:: e \to T e, \qquad T = I + \sum_h P_h G Q_h, \qquad G \to T G T^\top,

so D x D numbers describe a context of any length (D = d + 1), and the prediction for a query x is
:math:`\langle w, x\rangle` with the implicit weights
:math:`w = -(e_D^\top T_{L} \cdots T_1)_{1..d}` (arXiv:2402.14180, Theorem 4.1).  No query is
needed either.  The derivatives are those of :math:`\langle w, v\rangle` for a given vector v per
context.
"""

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.gdpp.linear_transformer import LinearTransformer, ties


class GramPass:
    """Forward pass on Gram matrices (n, D, D), which keeps what the derivatives need.

    Attributes
    ----------
    weights : array (n, d)
        Implicit weights.
    """

    def __init__(self, gram: Array, model: LinearTransformer) -> None:
        xp = array_namespace(gram)
        make = _DiagonalLayer if model.kind in ("diag", "gd++") else _DenseLayer
        self.layers, self.maps, self.mapped = [], [], []
        for depth in range(model.depth):
            self.layers.append(make(model, depth, gram))
            change = self.layers[-1].change
            xp.reshape(change, (change.shape[0], -1), copy=False)[:, :: change.shape[-1] + 1] += (
                1.0
            )
            self.maps.append(change)
            if depth < model.depth - 1:
                self.mapped.append(change @ gram)
                gram = self.mapped[-1] @ xp.matrix_transpose(change)
        row = xp.zeros((gram.shape[0], 1, gram.shape[-1]), dtype=gram.dtype)
        row[:, :, -1] = 1.0
        self.rows = [row]
        for change in reversed(self.maps):
            self.rows.insert(0, self.rows[0] @ change)
        self.weights = -self.rows[0][:, 0, :-1]

    def derivatives(self, directions: Array) -> Array:
        """Derivatives of <w, v> by the free parameters, one row for every context.

        Parameters
        ----------
        directions : array (n, d)
            The vectors v.

        Returns
        -------
        array (n, layers * heads * parameters of a head)
        """
        xp = array_namespace(directions)
        column = xp.concat([-directions, xp.zeros_like(directions[:, :1])], axis=1)[:, :, None]
        columns = [column]
        for change in self.maps[:-1]:
            columns.append(change @ columns[-1])
        gradients: list[Array] = []
        by_gram = None  # twice the derivatives, which are symmetric
        for depth in reversed(range(len(self.layers))):
            by_map = self.rows[depth + 1][:, 0, :, None] * columns[depth][:, None, :, 0]
            if by_gram is not None:
                by_map += by_gram @ self.mapped[depth]
            gradients.insert(0, self.layers[depth].by_parameters(by_map))
            if depth > 0:
                direct = self.layers[depth].by_gram(by_map)
                direct = direct + xp.matrix_transpose(direct)
                if by_gram is not None:
                    change = self.maps[depth]
                    direct += xp.matrix_transpose(change) @ (by_gram @ change)
                by_gram = direct
        return xp.concat(gradients, axis=1)


class _DenseLayer:
    """Sum of P G Q over heads, and its derivatives by the entries of P and Q or their ties."""

    def __init__(self, model: LinearTransformer, depth: int, gram: Array) -> None:
        self.gram, self.heads = gram, []
        for head in range(model.lookup.shape[1]):
            P, Q = model.projection[depth, head, :, :], model.lookup[depth, head, :, :]
            self.heads.append((P, Q, gram @ Q))
        self.change = sum(P @ looked_up for P, _, looked_up in self.heads)
        tied = model.kind != "full"
        self.tie = array_namespace(gram).asarray(ties(model.kind, model.dim)) if tied else None

    def by_gram(self, by_map: Array) -> Array:
        return sum(P.T @ by_map @ Q.T for P, Q, _ in self.heads)

    def by_parameters(self, by_map: Array) -> Array:
        xp, gradients = array_namespace(by_map), []
        for P, _, looked_up in self.heads:
            by_projection = by_map @ xp.matrix_transpose(looked_up)
            by_lookup = self.gram @ (P.T @ by_map)
            both = [xp.reshape(each, (each.shape[0], -1)) for each in (by_projection, by_lookup)]
            gradients += both if self.tie is None else [xp.concat(both, axis=1) @ self.tie.T]
        return xp.concat(gradients, axis=1)


class _DiagonalLayer:
    """The same for diagonal P and Q that are constant on the inputs."""

    def __init__(self, model: LinearTransformer, depth: int, gram: Array) -> None:
        xp = array_namespace(gram)
        self.gram, self.kind = gram, model.kind
        self.p = xp.linalg.diagonal(model.projection[depth, ...])
        self.q = xp.linalg.diagonal(model.lookup[depth, ...])
        self.scale = self.p.T @ self.q
        self.change = self.scale * gram

    def by_gram(self, by_map: Array) -> Array:
        return self.scale * by_map

    def by_parameters(self, by_map: Array) -> Array:
        xp, size = array_namespace(by_map), self.gram.shape[-1]
        label = xp.astype(xp.arange(size) == size - 1, by_map.dtype)
        by_scale = []
        for head in range(self.p.shape[0]):
            p, q = self.p[head, :], self.q[head, :]
            both = [(1 - label, q), (label, q), (p, 1 - label), (p, label)]
            by_scale += [xp.reshape(a[:, None] * b, (-1,)) for a, b in both]
            if self.kind == "gd++":
                by_scale.pop()
        flat = xp.reshape(by_map * self.gram, (by_map.shape[0], -1))
        return flat @ xp.stack(by_scale, axis=1)
