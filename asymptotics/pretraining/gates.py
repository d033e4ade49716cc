r"""Gates of any shape at finite size: the context that they leave, and the best ones.

In the setting of `iclimit.asymptotics.recurrent.context`, with fixed :math:`|w|^2 = d` and
Gaussian inputs, Wick's theorem gives the second moments of the summary at any dimension and any
context length,

.. math:: E\, h = a w, \qquad E\, h h^\top = A\, w w^\top + b\, I, \qquad
   b = \frac1{\ell^2} \sum_{ij} g_i g_j \bigl[ z_{ij} (1 + K_{ij}^2)
   + d K_{ij}^2 m_i m_j + d K_{ij}^2 z_{ij} + d \rho\, \delta_{ij} \bigr],

where :math:`z_{ij} = c_{ij} - m_i m_j` is what drift adds.  Plain attention on
:math:`\alpha d` independent pairs has a = 1 and :math:`b = (1 + \rho)/\alpha`, so that

.. math:: \alpha_{\mathrm{eff}} = (1 + \rho)\, \frac{a^2}b

is exact at any size.  For gates :math:`e^{-\omega k/d}` without drift and correlation it is
:math:`\tanh(\omega \alpha/2)\,/\,[d \tanh(\omega/(2d))]`.

*Best gates.*  :math:`a = g^\top m/\ell` and :math:`b = g^\top B g/\ell^2`, so that the largest
:math:`\alpha_{\mathrm{eff}} = (1 + \rho)\, m^\top B^{-1} m` belongs to :math:`g \propto B^{-1} m`,
or, where some of these are negative, to the least :math:`g^\top B g/2 - m^\top g` without such.
The formulas are derived here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import toeplitz
from scipy.optimize import nnls

from iclimit.asymptotics.checks import check_integers, real_array, real_number
from iclimit.asymptotics.numbers import Number
from iclimit.checks import parse_kernel
from iclimit.results import Result

# Negative eigenvalues of a kernel up to this, times its size, are rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True, repr=False)
class GatedContext(Result):
    r"""What gates leave of a context.

    Attributes
    ----------
    alpha : float
        Effective context length over dimension.
    signal : float
        Weight a of the task in the summary.
    noise : float
        Variance b of the other part of each coordinate of the summary.
    gates : ndarray (context,)
        The gates, from the first token to the last.
    """

    alpha: float
    signal: float
    noise: float
    gates: np.ndarray


def gated_context(
    gates: Sequence[float] | np.ndarray,
    *,
    dim: int,
    rho: float,
    drift: float = 0.0,
    correlation: float | Sequence[float] | np.ndarray = 0.0,
) -> GatedContext:
    r"""Effective context of any gates, exact at any size.

    Parameters
    ----------
    gates : array (context,) of numbers in [0, 1]
        Weight of each pair in the summary, from the first to the last.  A constant gate
        :math:`\gamma` of a recurrent layer has the weights :math:`\gamma^{\ell - i}`.
    dim : int >= 1
        Dimension d of the inputs.
    rho : float >= 0
        Variance of the label noise.
    drift : float >= 0
        Rate :math:`\vartheta` at which tasks change; :math:`e^{-\vartheta/d}` is the correlation
        of the tasks of neighbouring tokens, and of the last token and the query.
    correlation : float in (-1, 1), or array
        Correlation r of the inputs of neighbouring tokens; the correlations at distances 0, 1,
        ..., of which the first is 1 and those beyond are 0; or the kernel K of all tokens, of
        shape (context, context).

    Returns
    -------
    GatedContext
        With fields ``alpha``, ``signal``, ``noise`` and ``gates``.

    Raises
    ------
    ValueError
        If an argument is outside its range, all gates are zero, or a kernel is not positive.
    TypeError
        If an argument is not a number or an array of them.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.gates`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import gated_context
    >>> gates = [0.6**age for age in range(39, -1, -1)]
    >>> round(20 * gated_context(gates, dim=20, rho=0.25).alpha, 6)  # examples, of 40
    4.0
    """
    values = real_array("gates", gates)
    if values.ndim != 1 or not np.any(values):
        raise ValueError(
            f"gates must have shape (context,) and one that is not zero, got {gates!r}"
        )
    signal, noise = _moments(len(values), dim, rho, drift, correlation)
    a = float(values @ signal) / len(values)
    b = float(values @ noise @ values) / len(values) ** 2
    return GatedContext((1 + rho) * a**2 / b, a, b, values)


def optimal_gates(
    *,
    context: int,
    dim: int,
    rho: float,
    drift: float = 0.0,
    correlation: float | Sequence[float] | np.ndarray = 0.0,
) -> GatedContext:
    r"""Gates with the largest effective context, exact at any size.

    Parameters
    ----------
    context : int >= 1
        Number of pairs.
    dim, rho, drift, correlation
        As in `gated_context`.

    Returns
    -------
    GatedContext
        With fields ``alpha``, ``signal``, ``noise`` and ``gates``, of which the largest is 1.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.gates`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import optimal_gates
    >>> optimal_gates(context=5, dim=2, rho=0.1, drift=0.5).gates.round(3)
    array([0.147, 0.216, 0.342, 0.569, 1.   ])
    """
    check_integers(context=context)
    law: dict[str, Any] = {"dim": dim, "rho": rho, "drift": drift, "correlation": correlation}
    signal, noise = _moments(context, **law)
    # A kernel may be singular.
    gates = np.linalg.lstsq(noise, signal)[0]
    if np.any(gates < 0):  # the best ones that are not, minimising gBg/2 - mg
        root = np.linalg.cholesky(noise)
        gates = nnls(root.T, np.linalg.solve(root, signal))[0]
    return gated_context(np.clip(gates / np.max(gates), 0.0, 1.0), **law)


def _moments(
    context: int,
    dim: int,
    rho: float,
    drift: float,
    correlation: float | Sequence[float] | np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Vector m and matrix B of the moments."""
    check_integers(dim=dim)
    rho = real_number("rho", rho)
    theta = real_number("drift", drift)
    lags = np.arange(context)
    if np.ndim(correlation) == 1:
        squared = toeplitz(parse_kernel("correlation", correlation, context) ** 2)
    elif np.ndim(correlation):
        squared = _kernel(correlation, context) ** 2
    else:
        squared = toeplitz(real_number("correlation", correlation) ** (2 * lags))
    signal = np.exp(-theta / dim * (context - lags))
    kept = toeplitz(np.exp(-theta / dim * lags))
    # (kept - signal signal^T) (1 + squared) + dim squared kept, in place: they may be large.
    noise = kept - np.outer(signal, signal)
    noise += noise * squared
    squared *= dim
    squared *= kept
    noise += squared
    noise.reshape(-1)[:: context + 1] += dim * rho
    return signal, noise


def _kernel(correlation: Number, context: int) -> np.ndarray:
    """Correlations of all tokens: symmetric, 1 on the diagonal, and of no negative variance."""
    kernel = real_array("correlation", correlation, "[-1, 1]")
    if kernel.shape != (context, context):
        raise ValueError(
            f"correlation must be a number, a list or have shape {(context, context)}, "
            f"got {kernel.shape}"
        )
    if np.any(np.diagonal(kernel) != 1) or np.any(kernel != kernel.T):
        raise ValueError("correlation must be symmetric with 1 on its diagonal")
    if (least := float(np.linalg.eigvalsh(kernel)[0])) < -_ROUNDING * context:
        raise ValueError(f"correlation must have no negative eigenvalue, got {least:.3g}")
    return kernel
