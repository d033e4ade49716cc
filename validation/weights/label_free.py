r"""What a layer predicts without labels: the part that :math:`\Gamma` cannot express.

The prediction of one layer is

.. math:: \hat y = m^\top x_q + \sum_{abi} T_{abi} G_{ab}\, x_{q,i}, \qquad
   T_{abi} = \sum_h (r^\top O_h)_a (B_h)_{bi},

with the second moments G of the tokens, the readout r and, with a residual connection, its part m
that reads the query itself.  Entries of G with a label make :math:`\Gamma`.  The others,
:math:`S = \frac12 (T_{abi} + T_{bai})` for :math:`a, b \le d`, weigh :math:`\sum_s x_s x_s^\top`
over the context, and :math:`x_q x_q^\top` where the query is among the keys.  For Gaussian inputs,
whitened so that their covariance is absorbed in S and m, this part has the mean square

.. math:: |\mu|^2 + 2 \ell \sum_i \lVert S_i\rVert_F^2
   + [\,6 \lVert \bar S\rVert^2 + 9 |t|^2 + 6 \mu^\top t\,], \qquad
   \mu_i = m_i + \ell \operatorname{tr} S_i,

the bracket only with the query among the keys; :math:`\bar S` is S made symmetric in all three
indices and :math:`t_i = \sum_a \bar S_{aai}`.  The first two terms are the mean and the variance
over the context (a Wishart matrix of :math:`\ell` degrees of freedom), the bracket is the mean
square of a cubic form of a Gaussian vector and its product with the linear part.  All tasks that
are as likely as their negatives leave it uncorrelated with labels and with the part of
:math:`\Gamma`, so that mean squares add up.
"""

import numpy as np

from iclimit.validation.weights.layouts import Products


def label_free_form(products: Products, readout: np.ndarray) -> np.ndarray:
    """Tensor S of the module docstring, (d, d, d), the index of the query first."""
    d = products.dim
    read = np.einsum("m,hma->ha", readout, products.output)[:, :d]
    form = np.einsum("ha,hbi->iab", read, products.lookup[:, :d, :d], optimize=True)
    return (form + form.swapaxes(1, 2)) / 2


def label_free_square(
    form: np.ndarray, linear: np.ndarray, context: int, root: np.ndarray, include_query: bool
) -> float:
    """Mean square of the part without labels, for inputs of covariance root @ root.T.

    ``form`` is S and ``linear`` is m.
    """
    white = np.einsum("iab,ij,ac,bd->jcd", form, root, root, root, optimize=True)
    traces = np.einsum("iaa->i", white)
    mean = root.T @ linear + context * traces
    square = np.sum(mean**2) + 2 * context * np.sum(white**2)
    if include_query:
        # S is symmetric in two indices already: three orders make it symmetric in all.
        cubic = (white + white.transpose(1, 0, 2) + white.transpose(2, 1, 0)) / 3
        trace = np.einsum("iaa->i", cubic)
        square += 6 * np.sum(cubic**2) + 9 * np.sum(trace**2) + 6 * mean @ trace
    return float(square)
