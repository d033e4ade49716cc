r"""The best additive predictor of whole tokens, and the optima of the sine task.

A network that embeds tokens (x, y), and not inputs only, before one layer of linear attention
predicts :math:`\hat y = \sum_i F(x_q; x_i, y_i)`: additive over the pairs, but of any form in the
label.  For noiseless functions :math:`y_\theta(x) = f(x) \cdot c(\theta)` of a random parameter
:math:`\theta`, F may be taken as :math:`f(x_q) \cdot g(x, y)`.  Setting the derivative by g to
zero gives

.. math:: E[c \mid x, y] = g(x, y) + (N - 1)\,E[m(\theta) \mid x, y], \qquad
   m(\theta) = E_x\,g(x, y_\theta(x)),

and the mean over x along a function

.. math:: \bigl(1 + (N - 1) P\bigr)\,m = P c, \qquad
   (P h)(\theta) = E_x\,E\bigl[h(\theta') \bigm| y_{\theta'}(x) = y_\theta(x)\bigr], \qquad
   \mathcal L^* = \operatorname{tr} S\,E\bigl[c\,(c - N m)^\top\bigr], \quad S = E f f^\top .

P is a mean of projections, so that the equation is solved by conjugate gradients: it takes some 25
steps whatever the resolution.  A conditional expectation is a mean over bins of y of equal width.

*The sine task* (von Oswald et al., ICML 2023): :math:`y = a \sin(x + \phi)`, a from U(0.1, 0.5),
:math:`\phi` from :math:`U(0, \pi)`, x from U(-5, 5).  In the published code both are drawn with
one random key: the amplitude is tied to the phase, :math:`a = 0.1 + 0.4\,\phi/\pi`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from iclimit.asymptotics.checks import checked, real_array
from iclimit.asymptotics.losses import BoundedLoss
from iclimit.asymptotics.numbers import Number
from iclimit.asymptotics.softmax.functional import functional_optimum
from iclimit.checks import check_flag

Features = Callable[[np.ndarray], Any]

# Range of the amplitude of the sine task.
_AMPLITUDES = 0.1, 0.5

# Range of its inputs.
_INPUTS = -5.0, 5.0

# Most steps of conjugate gradients.
_STEPS = 200

# Relative residual at which they end.
_RESOLUTION = 1e-11

# Bins of the label, and inputs.
_BINS = 100

# Phases that stand for the law of the sine task if the phase sets the amplitude.
_TIED_PHASES = 8000

# Phases of the sine task if the amplitude is free.
_PHASES = 400

# Amplitudes that stand for their law if they are free.
_AMPLITUDE_LEVELS = 40


def whole_token_optimum(
    *,
    features: Features,
    coefficients: np.ndarray,
    inputs: tuple[float, float],
    context: Number,
    bins: int = _BINS,
) -> BoundedLoss:
    r"""Least loss of attention that embeds whole tokens, for functions of finite rank.

    Parameters
    ----------
    features : callable
        f, from an array (n,) of inputs to an array (k, n).
    coefficients : array (k, m)
        Coefficients c of m functions, of equal probability, that stand for the law of tasks; some
        hundred times as many as bins.
    inputs : tuple (lower, upper)
        Interval of uniform inputs.
    context : number >= 1
        Number N of context pairs.
    bins : int >= 4
        Bins of the label at an input.

    Returns
    -------
    BoundedLoss
        With fields ``loss`` and ``error``, the change from half as many bins and inputs.

    Raises
    ------
    ValueError
        If an argument is outside its range or shapes do not fit.
    TypeError
        If features is not a function, or another argument of another kind.

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.whole_tokens`.

    Examples
    --------
    A linear function of one input: a single pair tells its slope.

    >>> import numpy as np
    >>> from iclimit.asymptotics.softmax import whole_token_optimum
    >>> slopes = np.linspace(-1, 1, 2001)[None]
    >>> best = whole_token_optimum(features=lambda x: x[None], coefficients=slopes,
    ...     inputs=(0.5, 1), context=1)
    >>> best.loss < 1e-4
    True
    """
    if not callable(features):
        raise TypeError(f"features must be a function of an array of inputs, got {features!r}")
    _, values = checked(
        systems="numpy", single=True, ranges={"bins": "[4, inf)"}, context=context, bins=bins
    )
    N = float(values.context)
    count = int(values.bins)
    c = real_array("coefficients", coefficients, "(-inf, inf)")
    if c.ndim != 2 or not c.size:
        raise ValueError(f"coefficients must be an array (k, m), got shape {c.shape}")
    if np.shape(inputs) != (2,) or not -np.inf < inputs[0] < inputs[1] < np.inf:
        raise ValueError(f"inputs must be (lower, upper) with lower < upper, got {inputs}")
    half = _additive_loss(features, c, inputs, N, count // 2)
    loss = _additive_loss(features, c, inputs, N, count)
    return BoundedLoss(loss, abs(half - loss))


def _additive_loss(
    features: Features, c: np.ndarray, inputs: tuple[float, float], N: float, bins: int
) -> float:
    # Midpoints: level sets of the functions change abruptly with the input.
    x = inputs[0] + (inputs[1] - inputs[0]) * (np.arange(bins) + 0.5) / bins
    f = np.asarray(features(x), dtype=float)
    if f.shape != (len(c), len(x)):
        raise ValueError(f"features must give an array {(len(c), len(x))}, got shape {f.shape}")
    places = []
    for at_input in f.T:
        y = at_input @ c
        lower = y.min()
        width = max(np.ptp(y), np.finfo(float).tiny)
        place = np.minimum(((y - lower) / width * bins).astype(np.int64), bins - 1)
        places.append((place, np.maximum(np.bincount(place, minlength=bins), 1)))

    def project(h: np.ndarray) -> np.ndarray:
        total = np.zeros_like(h)
        for place, members in places:
            total += (np.bincount(place, h, bins) / members)[place]
        return total / len(places)

    size = c.shape[1]
    operator = LinearOperator((size, size), lambda h: h + (N - 1) * project(h), dtype=float)
    m = [cg(operator, project(row), rtol=_RESOLUTION, maxiter=_STEPS)[0] for row in c]
    return float(np.sum((f @ f.T / len(x)) * (c @ (c - N * np.stack(m)).T / size)))


def sine_optimum(
    *, context: Number, tied: bool = False, whole_tokens: bool = False
) -> BoundedLoss:
    r"""Least loss of an embedding and one attention layer on the published sine task.

    Parameters
    ----------
    context : number >= 1
        Number N of context pairs.
    tied : bool
        Whether the amplitude is tied to the phase, as the published code draws them.
    whole_tokens : bool
        Whether tokens (x, y) are embedded, as the published transformer does; otherwise inputs
        only, as in gradient descent on a deep embedding.

    Returns
    -------
    BoundedLoss
        With fields ``loss`` and ``error``.  The published losses are halves of it.

    Raises
    ------
    ValueError
        If context is outside its range.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    Embedded inputs: exact, in closed form for independent amplitudes,

    .. math:: \mathcal L^* = \kappa \Bigl(1 - N \sum_\pm \frac{l_\pm^2}{1 + (N - 1) l_\pm}\Bigr),
       \qquad l_\pm = \tfrac12 \pm \tfrac{\sin 10}{20}, \quad \kappa = \tfrac12 E a^2 .

    Whole tokens: to half a percent, in a second.

    References
    ----------
    Task: von Oswald et al., ICML 2023 (arXiv:2212.07677).  Optima: derived in modules
    `iclimit.asymptotics.softmax.functional` and `iclimit.asymptotics.softmax.whole_tokens`.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import sine_optimum
    >>> round(sine_optimum(context=10).loss, 6), round(sine_optimum(context=10, tied=True).loss, 6)
    (0.004692, 0.00431)
    """
    check_flag("tied", tied)
    check_flag("whole_tokens", whole_tokens)
    if not whole_tokens:
        M = _sine_moments(tied)

        def covariance(x: np.ndarray, z: np.ndarray) -> np.ndarray:
            return np.einsum("j...,jk,k...->...", _sine_features(x), M, _sine_features(z))

        best = functional_optimum(covariance=covariance, inputs=_INPUTS, context=context)
        return BoundedLoss(best.loss, best.error)
    count = _TIED_PHASES if tied else _PHASES
    phase = np.pi * (np.arange(count) + 0.5) / count
    amplitude = _tied(phase)
    if not tied:
        low, high = _AMPLITUDES
        levels = low + (high - low) * (np.arange(_AMPLITUDE_LEVELS) + 0.5) / _AMPLITUDE_LEVELS
        amplitudes, phases = np.meshgrid(levels, phase)
        amplitude = amplitudes.ravel()
        phase = phases.ravel()
    return whole_token_optimum(
        features=_sine_features,
        coefficients=amplitude * np.stack([np.cos(phase), np.sin(phase)]),
        inputs=_INPUTS,
        context=context,
        bins=2 * _BINS if tied else _BINS,
    )


def _sine_features(x: np.ndarray) -> np.ndarray:
    """Sine and cosine; the coefficients are a cos(phi) and a sin(phi)."""
    return np.stack([np.sin(x), np.cos(x)])


def _tied(phase: np.ndarray) -> np.ndarray:
    low, high = _AMPLITUDES
    return np.asarray(low + (high - low) * phase / np.pi)


def _sine_moments(tied: bool) -> np.ndarray:
    """Second moments of the coefficients; the Gauss rule is exact to rounding."""
    node, weight = np.polynomial.legendre.leggauss(40)
    phase = np.pi * (node + 1) / 2
    weight = weight / 2
    low, high = _AMPLITUDES
    square = _tied(phase) ** 2 if tied else (high**3 - low**3) / (3 * (high - low))
    c = np.stack([np.cos(phase), np.sin(phase)])
    return (c * weight * square) @ c.T
