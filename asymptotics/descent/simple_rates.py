r"""Schedules of simple form: one constant rate, Chebyshev's rates, and where a rate diverges.

The theory is in `iclimit.asymptotics.descent.schedules`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.descent.schedule_losses import interval_points, quadrature_loss
from iclimit.asymptotics.descent.schedules import Schedule, make_schedule, parse_setting
from iclimit.asymptotics.numbers import ArrayMath, Number
from iclimit.asymptotics.spectra import MarchenkoPastur

_SCAN = 64
"""Constant rates scanned on an even grid, and as many on a geometric one: with noise the loss can
have two minima."""


def constant_schedule(
    *,
    steps: int,
    ratio: Number | None = None,
    context: Number | None = None,
    dim: Number | None = None,
    noise_ratio: Number = 0.0,
) -> Schedule:
    r"""Best schedule of one constant rate, as of a recurrent layer.

    In the limit without noise the rate is :math:`1/(1 + c)` for every number of steps, since
    :math:`\lambda\,d\mu` is symmetric about 1 + c; otherwise it is found numerically.

    Parameters
    ----------
    steps : int >= 1
        Number L of steps.
    ratio, context, dim, noise_ratio
        As in `schedule_loss`; mpmath and SymPy numbers in the limit without noise.

    Returns
    -------
    Schedule
        With L equal ``rates``, their ``loss`` and the ``lower_bound`` of any rates.

    Raises
    ------
    ValueError
        If an argument is outside its range, or there is no closed form for its number system.
    TypeError
        If an argument is not a number, or number systems mix.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import constant_schedule
    >>> best = constant_schedule(steps=5, ratio=0.5)
    >>> round(float(best.rates[0]), 6), round(float(best.loss), 6)
    (0.666667, 0.060001)
    """
    math_, spectrum, noise = parse_setting(steps, ratio, context, dim, noise_ratio)
    in_limit = isinstance(spectrum, MarchenkoPastur)
    if isinstance(math_, ArrayMath):
        rate = _best_constant_rate(steps, *spectrum.quadrature(steps), noise, in_limit)
    elif noise == 0 and in_limit:
        rate = 1 / (1 + spectrum.ratio)
    else:
        raise ValueError(
            "constant_schedule takes mpmath and SymPy numbers in the limit without noise only"
        )
    return make_schedule(math_, [rate] * steps, spectrum, noise)


def _best_constant_rate(
    steps: int, nodes: np.ndarray, weights: np.ndarray, noise: np.ndarray, in_limit: bool
) -> np.ndarray:
    """Constant rate of least loss: the best point of a scan, refined by a line search."""
    shape = np.broadcast_shapes(nodes.shape[:-1], noise.shape)
    nodes, weights = (np.broadcast_to(v, (*shape, steps + 1)) for v in (nodes, weights))
    noise = np.broadcast_to(noise, shape)
    rule = [*np.moveaxis(nodes, -1, 0), *np.moveaxis(weights, -1, 0)]

    def loss(rate: np.ndarray, v: np.ndarray, *rule: np.ndarray) -> np.ndarray:
        nodes, weights = np.split(np.stack(rule, axis=-1), 2, axis=-1)
        return quadrature_loss([rate] * steps, nodes, weights, v)

    scale = np.sum(weights * nodes, axis=-1) / np.sum(weights * nodes**2, axis=-1)
    # Below 1/(L (theta + v)) for every node the loss decreases.
    least = 0.97 / (steps * (nodes.max(axis=-1) + noise))
    even = np.multiply.outer(np.linspace(0, 4, _SCAN + 1), scale)
    scan = np.sort(np.concatenate([even, np.geomspace(least, 3.99 * scale, _SCAN)]), axis=0)
    best = np.argmin(np.stack([loss(rate, noise, *rule) for rate in scan]), axis=0)
    best = np.clip(best, 1, len(scan) - 2)[None]
    bracket = tuple(np.take_along_axis(scan, best + shift, axis=0)[0] for shift in (-1, 0, 1))
    with np.errstate(all="ignore"):
        found = elementwise.find_minimum(loss, bracket, args=(noise, *rule))
    # Where the loss is flat to rounding the search has no bracket.
    rate = np.where(found.success, found.x, bracket[1])
    return np.where(noise == 0, scale, rate) if in_limit else rate


def chebyshev_schedule(
    *,
    steps: int,
    ratio: Number | None = None,
    context: Number | None = None,
    dim: Number | None = None,
    noise_ratio: Number = 0.0,
) -> Schedule:
    r"""Schedule that is best in the worst case over the Marchenko-Pastur interval.

    .. math:: \eta_l = \frac1{1 + c + 2\sqrt c \cos\bigl((2l - 1)\pi/(2L)\bigr)}

    Without noise its loss tends to :math:`2 c^L` for c < 1, which is :math:`2/(1-c)` times the
    optimum.

    Parameters
    ----------
    steps : int >= 1
        Number L of steps.
    ratio, context, dim, noise_ratio
        As in `schedule_loss`; at finite size the interval is that of c = d/N.  mpmath and
        SymPy numbers in the limit.

    Returns
    -------
    Schedule
        With ``rates``, their ``loss`` and the ``lower_bound`` of any rates.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import chebyshev_schedule
    >>> round(float(chebyshev_schedule(steps=2, ratio=0.5).loss), 6)
    0.28
    """
    math_, spectrum, noise = parse_setting(steps, ratio, context, dim, noise_ratio)
    if not isinstance(math_, ArrayMath) and not isinstance(spectrum, MarchenkoPastur):
        raise ValueError("chebyshev_schedule takes mpmath and SymPy numbers in the limit only")
    points = interval_points(math_, spectrum.ratio, range(1, 2 * steps, 2), 2 * steps)
    return make_schedule(math_, [1 / point for point in points], spectrum, noise)


def divergence_rate(ratio: Number) -> Any:
    r"""Constant rate beyond which gradient descent diverges in the limit, :math:`2/(1+\sqrt c)^2`.

    Parameters
    ----------
    ratio : number or array > 0
        c = d/N.

    Returns
    -------
    number or array
        NumPy and other arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If ratio is not positive.

    Notes
    -----
    At finite N and d the largest eigenvalue of H fluctuates and has no upper bound for Gaussian
    inputs: the *mean* loss of any constant rate diverges as the number of steps grows, while
    the median does not.  See `largest_eigenvalue_cdf`.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import divergence_rate
    >>> round(float(divergence_rate(0.5)), 5)
    0.68629
    """
    return 2 / MarchenkoPastur(ratio).edges[1]
