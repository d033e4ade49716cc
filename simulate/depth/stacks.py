r"""Residual linear attention of L layers on given contexts: forward pass, loss and gradient.

Tokens carry x and y in orthogonal subspaces of the residual stream.  Layer l adds
:math:`\mp \frac1{LP} \sum_j (x_i^\top \Gamma_l x_j)\, r_j` to the label part r of token i, where j
runs over the P tokens of the context: with a minus for these, whose r starts as y, and with a plus
for queries, whose r starts as 0 and ends as the prediction.  In terms of
:math:`h_l = \sqrt d\, X^\top r_l/P` and the covariance :math:`S = X^\top X/P` of the context that
is

.. math:: a_l = \Gamma_l h_l, \qquad h_{l+1} = h_l - \frac1L S\,a_l, \qquad
   w = \frac1L \sum_l a_l, \qquad f(x) = x \cdot w/\sqrt d .

With residuals :math:`e_q = (x_q \cdot w - \sqrt d\,y_q)/\sqrt K` of K queries the loss is
:math:`|e|^2/d`, and backwards

.. math:: v = \frac1{\sqrt K} \sum_q e_q x_q, \qquad
   b_l = \frac1L (v - S\,\delta_{l+1}), \qquad
   \delta_l = \delta_{l+1} + \Gamma_l^\top b_l, \qquad \delta_L = 0, \qquad
   \frac d2 \frac{\partial}{\partial \Gamma_l} \frac{|e|^2}d = b_l h_l^\top .

A *root* of a covariance S is a matrix R with :math:`R^\top R = S`: tokens over
:math:`\sqrt P`, or :math:`\Lambda^{1/2} O^\top` for a context of infinite length.  Arrays have
the shape (repeats, contexts, ...) and vectors are rows.
"""

from collections.abc import Callable, Sequence

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array

# From rows v (repeats, contexts, m, d) to v S, S being the covariance of the context.
Product = Callable[[Array], Array]


def forward(
    gammas: Sequence[Array | float], h: Array, covariance: Product
) -> tuple[Array, list[Array]]:
    """Weights w of a stack, and the vectors h of all layers.

    Parameters
    ----------
    gammas : list of L arrays (repeats, d, d), or of numbers
        Matrices of the layers; a number stands for a multiple of I.
    h : array (repeats, contexts, m, d)
        Vectors h of m tasks for each context.
    covariance : callable
        Product with the covariances of the contexts.
    """
    depth = len(gammas)
    states = [h]
    w = 0.0
    for layer, gamma in enumerate(gammas):
        a = _times(states[-1], gamma, transpose=True) / depth
        w = w + a
        if layer + 1 < depth:
            states.append(states[-1] - covariance(a))
    return w, states


def loss_and_gradient(
    gammas: list[Array], h: Array, covariance: Product, queries: Array, targets: Array
) -> tuple[Array, list[Array]]:
    r"""Losses of contexts, summed over tasks, and d/2 times the gradient of their mean.

    ``queries`` (repeats, contexts, K, d) and ``targets`` (repeats, contexts, m, K) are over
    :math:`\sqrt K`, targets times :math:`\sqrt d`.
    """
    xp = array_namespace(h)
    depth = len(gammas)
    w, states = forward(gammas, h, covariance)
    e = w @ xp.matrix_transpose(queries) - targets
    losses = xp.sum(e**2, axis=(-2, -1)) / h.shape[-1]
    v = e @ queries
    gradients: list[Array] = [None] * depth
    delta = None
    for layer in range(depth - 1, -1, -1):
        b = (v if delta is None else v - covariance(delta)) / depth
        shape = (b.shape[0], -1, b.shape[-1])
        rows = xp.reshape(states[layer], shape)
        columns = xp.reshape(b, shape)
        gradients[layer] = xp.matrix_transpose(columns) @ rows / e.shape[1]
        step = _times(b, gammas[layer])
        delta = step if delta is None else delta + step
    return losses, gradients


def mean_losses(
    gammas: Sequence[Array | float],
    covariance: Array,
    query_root: Array,
    task_root: Array,
    noise: float,
    projector: Array | None = None,
) -> Array:
    r"""Losses averaged over queries, tasks and label noise, exact given S of each context.

    With w = W h this is :math:`\frac1d \operatorname{tr} \Omega (W S - I)^\top \Sigma (W S - I)`
    and ``noise``, the variance of label noise over P, times
    :math:`\operatorname{tr} \Sigma W S W^\top`.  Arrays are (repeats, contexts, d, d), the
    projector of the inputs (repeats, d, d).
    """
    xp = array_namespace(covariance)
    dim = covariance.shape[-1]
    eye = xp.eye(dim)
    start = xp.eye(dim)
    inner = covariance
    if projector is not None:
        start = projector[:, None, :, :]
        inner = start @ covariance @ start
    start = xp.broadcast_to(start, covariance.shape)
    transposed, _ = forward(gammas, start, lambda rows: rows @ inner)
    seen = covariance @ transposed
    spread = task_root @ (seen - eye) @ xp.matrix_transpose(query_root)
    losses = xp.sum(spread**2, axis=(-2, -1)) / dim
    if noise:
        outer = transposed @ xp.matrix_transpose(query_root)
        losses = losses + noise * xp.sum(outer * (covariance @ outer), axis=(-2, -1))
    return losses


def _times(rows: Array, matrix: Array | float, *, transpose: bool = False) -> Array:
    """Product with a matrix for each repeat, or with a number that stands for a multiple of I."""
    if isinstance(matrix, float):
        return matrix * rows
    xp = array_namespace(rows)
    flat = xp.reshape(rows, (rows.shape[0], -1, rows.shape[-1]))
    factor = xp.matrix_transpose(matrix) if transpose else matrix
    return xp.reshape(flat @ factor, rows.shape)
