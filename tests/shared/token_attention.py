r"""Linear attention on token matrices, and its reduced form.

.. math:: A(Z) = Z + \frac1\ell\, V Z (K Z)^\top (Q Z)

for a token matrix Z of :math:`\ell` pairs and a query.  The prediction is the last entry of the
last column.  When only the last row of V acts on labels (:math:`v_{21} = 0`) it is

.. math:: \hat y = \langle \Gamma, H_Z\rangle = x_q^\top \Gamma h, \qquad
   h = \Bigl(\frac d\ell \sum_i y_i x_i,\; \frac1\ell \sum_i y_i^2\Bigr),

eq. and notation of Lu et al., arXiv:2405.11751 (reduced parametrisation).
"""

from array_api_compat import array_namespace

from iclimit.simulate.models.transformer import Layer, apply_layer
from iclimit.simulate.prompts import regression_tokens


def linear_attention(Z, value, key, query):
    """Output of one linear attention layer with residual connection.

    Parameters
    ----------
    Z : array (n, d + 1, context + 1)
        Token matrices.
    value, key, query : array (d + 1, d + 1)
        Weight matrices.

    Returns
    -------
    array (n, d + 1, context + 1)
    """
    xp = array_namespace(Z)
    identity = xp.eye(value.shape[0], dtype=value.dtype)
    layer = Layer(*(weight[None, :, :] for weight in (key, query, value, identity)))
    tokens = xp.matrix_transpose(Z)
    updated = apply_layer(tokens, layer, include_query=True, dampening=1 / (Z.shape[-1] - 1))
    return xp.matrix_transpose(updated)


def predict(Z, value, key, query):
    """Predicted query labels, shape (n,)."""
    return linear_attention(Z, value, key, query)[:, -1, -1]


def weights_from_gamma(gamma):
    """Value, key and query matrices of a layer with the reduced matrix gamma (d, d + 1)."""
    xp = array_namespace(gamma)
    d = gamma.shape[0]
    value = xp.zeros((d + 1, d + 1), dtype=gamma.dtype)
    value[d, d] = 1.0
    product = xp.zeros((d + 1, d + 1), dtype=gamma.dtype)
    product[:d, :d] = d * gamma[:, :d].T
    product[d, :d] = gamma[:, d]
    return value, xp.eye(d + 1, dtype=gamma.dtype), product


def token_matrix(prompts):
    r"""Embedding matrices of shape (n, d + 1, context + 1).

    Column i holds :math:`(x_i, y_i)`, the last one the query and a zero for its label.
    """
    return array_namespace(prompts.inputs).matrix_transpose(regression_tokens(prompts))


def features(query, summary):
    """Rank-one features H_Z = query h^T, shape (n, d, d + 1)."""
    return query[:, :, None] * summary[:, None, :]
