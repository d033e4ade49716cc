r"""Classification in context with flipped labels: how often linear attention is right.

Inputs of two classes :math:`c = \pm 1` are :math:`x = c\,\mu + z`, with :math:`z \sim N(0, I_d)`
and :math:`|\mu| = R`.  Each label of the context is flipped with probability p.  The memory is
:math:`u = \sum_i y_i x_i`, and the answer the sign of :math:`\langle u, x\rangle`.

With s = 1 for a correct label and -1 for a flipped one, :math:`u/\sqrt\ell = M\mu + g`, where
:math:`M = \sum_i s_i/\sqrt\ell` and :math:`g \sim N(0, I)` is independent of the flips.  The
query, times its class, is :math:`v = \mu + z`.  The probability that
:math:`\langle u, v\rangle` is positive is an integral of its characteristic function (Gil-Pelaez);
with :math:`t = \tan\phi`,

.. math:: P = \frac12 + \frac1\pi \int_0^{\pi/2} E_M\Bigl[
   \sin\Bigl(\frac{R^2 M}2 \sin 2\phi\Bigr)\, e^{-R^2 (1 + M^2) \sin^2\phi/2}\Bigr]\,
   \frac{\cos^{d - 1}\phi}{\sin\phi}\, d\phi ,

exact for any number of dimensions and pairs.  In the limit of many, with :math:`\alpha = \ell/d`
fixed, neither :math:`M/\sqrt\ell` nor the length of u fluctuates, and

.. math:: P \to \Phi\Bigl(\frac{(1 - 2p) R^2}{\sqrt{(1 - 2p)^2 R^2 + 1/\alpha}}\Bigr) .

Flipped labels cost as much as a context that is shorter by the factor :math:`(1 - 2p)^2` does.
The formulas are derived here; the setting is that of Frei and Vardi (arXiv:2410.01774).
"""

from __future__ import annotations

import numpy as np

from iclimit.asymptotics.checks import checked, flattened, require_whole
from iclimit.asymptotics.numbers import Number, Value
from iclimit.threads import one_blas_thread

# Gauss-Legendre nodes on (0, 1), as many as the oscillation at the largest separation needs.
_NODES = 256

# Standard deviations of the integrand and of the number of flips beyond which nothing is left.
_WIDTH = 9.0

# Numbers of flips that are added where few are expected.
_RARE = 40

# Points times numbers of flips that are computed together, 50 MB.
_BLOCK = 4096

_RANGES = {"separation": "[0, 30]"}


@one_blas_thread
def classification_accuracy(
    *, context: Number, dim: Number, separation: Number, flips: Number = 0.0
) -> Value:
    r"""Accuracy of linear attention that classifies in context, with flipped labels.

    Parameters
    ----------
    context : integer or array >= 1
        Number of pairs.
    dim : integer or array >= 1
        Dimension d of the inputs.
    separation : number or array in [0, 30]
        Half the distance R of the means of the classes, in standard deviations of an input
        coordinate.
    flips : number or array in [0, 1]
        Probability p that a label of the context is flipped.

    Returns
    -------
    float or ndarray
        Probability that the class of the query is found, exact to 1e-12.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    A point takes some milliseconds at 100 pairs, and 0.2 s at a million.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.classification`; setting of Frei and Vardi,
    arXiv:2410.01774.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import classification_accuracy
    >>> setting = {"context": 20, "dim": 10, "separation": 1.5}
    >>> classification_accuracy(**setting, flips=[0, 0.1, 0.3]).round(4)
    array([0.9136, 0.8995, 0.7929])
    """
    math_, values = checked(
        systems="numpy",
        ranges=_RANGES,
        context=context,
        dim=dim,
        separation=separation,
        flips=flips,
    )
    require_whole("context", values.context)
    require_whole("dim", values.dim)
    shape, points = flattened(values)
    context = points.context
    dim = points.dim
    R = points.separation
    p = points.flips
    spread = np.sqrt(context * p * (1 - p))
    flipped = np.arange(2 * np.ceil(_WIDTH * spread.max(initial=0)) + _RARE)
    first = np.floor(np.maximum(0, context * p - flipped.size / 2))
    blocks = np.array_split(np.arange(context.size), 1 + context.size * flipped.size // _BLOCK)
    parts = [
        _mean_over_flips(context[i], dim[i], R[i], p[i], first[i, None] + flipped) for i in blocks
    ]
    return math_.finish(np.concat(parts).reshape(shape))


def _mean_over_flips(
    context: np.ndarray, dim: np.ndarray, R: np.ndarray, flips: np.ndarray, flipped: np.ndarray
) -> np.ndarray:
    """Mean accuracy over so many flipped labels (points, numbers), all others (points,)."""
    from scipy.stats import binom  # takes a third of a second, and other shelves import this one

    nodes, masses = np.polynomial.legendre.leggauss(_NODES)
    weights = binom.pmf(flipped, context[:, None], flips[:, None])
    context = context[:, None]
    dim = dim[:, None]
    R = R[:, None]
    M = (context - 2 * flipped) / np.sqrt(context)
    narrow = R**2 * (1 + M**2) + dim - 1
    end = np.pi / 2 * np.minimum(1, _WIDTH / np.sqrt(np.maximum(narrow, 1)))
    R = R[..., None]
    M = M[..., None]
    dim = dim[..., None]
    phi = end[..., None] * (nodes + 1) / 2
    sine = np.sin(phi)
    falling = -(R**2) * (1 + M**2) * sine**2 / 2 + (dim - 1) * np.log1p(-(sine**2)) / 2
    values = np.sin(R**2 * M / 2 * np.sin(2 * phi)) * np.exp(falling) / sine
    return 0.5 + np.sum(weights * end * (values @ masses / 2), axis=1) / np.pi
