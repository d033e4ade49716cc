r"""The best schedules: of any rates, of one constant rate, and in the worst case.

The theory is in `iclimit.asymptotics.descent.schedules`.

.. symbols:
   \eta_l: rate of step l
"""

from __future__ import annotations

import numpy as np

from iclimit.asymptotics.descent.real_rates import best_real_rates, residual_zeros_matrix
from iclimit.asymptotics.descent.schedules import (
    Schedule,
    Spectrum,
    exact_number,
    interval_points,
    lower_bound,
    make_schedule,
    parse_setting,
    quadrature_loss,
)
from iclimit.asymptotics.numbers import ArrayMath, MpMath, Namespace, Number, Value
from iclimit.asymptotics.searches import find_minimum
from iclimit.asymptotics.spectra import MarchenkoPastur

# A relative excess over the lower bound up to this one counts as rounding of the rates.
_REACHED = 1e-9

# Constant rates scanned on an even grid, and as many on a geometric one: with noise the loss can
# have two minima.
_SCAN = 64


def optimal_schedule(
    *,
    steps: int,
    ratio: Number | None = None,
    context: Number | None = None,
    dim: Number | None = None,
    noise_ratio: Number = 0.0,
) -> Schedule:
    r"""Learning rates that minimise the loss after a given number of steps.

    Parameters
    ----------
    steps : int >= 1
        Number L of steps.
    ratio, context, dim, noise_ratio
        As in `schedule_loss`.

    Returns
    -------
    Schedule
        With fields ``rates``, ``loss`` and ``lower_bound``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or symbolic rates have no closed form.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    Without noise the optimum has a closed form, which is exact at finite size too.  With noise the
    rates are the reciprocal zeros of the optimal residual polynomial as long as these are real,
    that is for few steps or little noise.  Otherwise some of the best real rates are equal, and
    the loss lies above the lower bound.  They are searched for numerically, from many starts
    because there are local minima; the lower bound says by how much the result could be improved
    at most.

    mpmath and SymPy numbers are taken without noise, or for one step; symbolic context and dim up
    to two steps.

    The search takes 30 ms for each such point at 8 steps and many seconds at 60.

    References
    ----------
    Limit without noise: the polynomials of Pedregosa and Scieur, ICML 2020 (arXiv:2002.04756).
    Finite size and noise: module `iclimit.asymptotics.descent.schedules`.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import optimal_schedule
    >>> optimal_schedule(steps=2, ratio=0.5).rates.round(4)
    array([0.4531, 1.2612])
    >>> optimal_schedule(steps=2, context=20, dim=10).rates.round(4)
    array([0.4203, 1.18  ])
    >>> round(float(optimal_schedule(steps=3, context=20, dim=10).loss), 5)
    0.09128
    """
    math_, spectrum, noise = parse_setting(steps, ratio, context, dim, noise_ratio)
    if not isinstance(math_, ArrayMath):
        return _exact_optimum(math_, steps, spectrum, noise)
    nodes, weights = spectrum.quadrature(steps)
    theta = nodes[..., 1:]
    bound = np.asarray(lower_bound(math_, steps, spectrum, noise))
    with np.errstate(all="ignore"):
        matrix = residual_zeros_matrix(theta, noise[..., None])
    # Without noise the zeros are the nodes themselves.
    plain = (noise == 0) | ~np.all(np.isfinite(matrix), axis=(-2, -1))
    nodes_only = theta[..., None] * np.eye(steps)
    roots = np.linalg.eigvals(np.where(plain[..., None, None], nodes_only, matrix))
    with np.errstate(all="ignore"):
        rates = np.sort(1 / roots.real, axis=-1)
        loss = quadrature_loss(np.moveaxis(rates, -1, 0), nodes, weights, noise)
    # With much noise the matrix is so ill-conditioned that eigenvalues can be real by accident:
    # rates count only if they reach the bound.
    real = np.all((roots.imag == 0) & (roots.real > 0), axis=-1) & (loss <= bound * (1 + _REACHED))
    loss = np.where(real, bound, 0.0)
    if not np.all(real):
        rule_shape = (*real.shape, steps + 1)
        nodes = np.broadcast_to(nodes, rule_shape)[~real]
        weights = np.broadcast_to(weights, rule_shape)[~real]
        v = np.broadcast_to(noise, real.shape)[~real]
        rates[~real], loss[~real] = best_real_rates(roots[~real], nodes, weights, v)
    return Schedule(rates, math_.finish(loss), math_.finish(bound))


def _exact_optimum(math_: Namespace, steps: int, spectrum: Spectrum, noise: Value) -> Schedule:
    """Optimal schedule in multi-precision or exact arithmetic."""
    if steps == 1:
        theta = exact_number(math_, spectrum.moment(2))
        loss = math_.finish((theta - 1 + noise) / (theta + noise))
        return Schedule((1 / (theta + noise),), loss, loss)
    if noise != 0:
        raise ValueError(
            "noise_ratio must be 0 for more than one step with mpmath or SymPy numbers, got "
            f"{noise}: the zeros of the optimal residual have no closed form"
        )
    if isinstance(spectrum, MarchenkoPastur):
        zeros = interval_points(math_, spectrum.ratio, range(1, steps + 1), steps + 1)
        loss = lower_bound(math_, steps, spectrum, noise)
    else:
        zeros = _exact_zeros(math_, spectrum.polynomial(steps))
        loss = exact_number(math_, spectrum.christoffel(steps))
    return Schedule(tuple(1 / zero for zero in zeros), loss, loss)


def _exact_zeros(math_: Namespace, coefficients: list[Value]) -> list[Value]:
    """Zeros of a polynomial, largest first; its coefficients come with the constant first."""
    if isinstance(math_, MpMath):
        import mpmath

        numbers = [exact_number(math_, c) for c in reversed(coefficients)]
        return sorted(mpmath.polyroots(numbers, maxsteps=200, extraprec=200), reverse=True)
    import sympy

    polynomial = sympy.Poly(list(reversed(coefficients)), sympy.Dummy("lambda", positive=True))
    if not polynomial.free_symbols_in_domain:
        return [*reversed(polynomial.real_roots())]
    if polynomial.degree() > 2:
        raise ValueError(
            "steps must be 1 or 2 for symbolic context and dim, got "
            f"{polynomial.degree()}: the zeros have no closed form (the loss has one: "
            "Wishart.christoffel)"
        )
    return sympy.roots(polynomial, multiple=True)


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
        rate = _best_constant_rate(math_, steps, *spectrum.quadrature(steps), noise, in_limit)
    elif noise == 0 and in_limit:
        rate = 1 / (1 + spectrum.ratio)
    else:
        raise ValueError(
            "constant_schedule takes mpmath and SymPy numbers in the limit without noise only"
        )
    return make_schedule(math_, [rate] * steps, spectrum, noise)


def _best_constant_rate(
    math_: Namespace,
    steps: int,
    nodes: np.ndarray,
    weights: np.ndarray,
    noise: np.ndarray,
    in_limit: bool,
) -> np.ndarray:
    """Constant rate of least loss: the best point of a scan, refined by a line search."""
    shape = np.broadcast_shapes(nodes.shape[:-1], noise.shape)
    nodes = np.broadcast_to(nodes, (*shape, steps + 1))
    weights = np.broadcast_to(weights, (*shape, steps + 1))
    noise = np.broadcast_to(noise, shape)
    rule = [*np.moveaxis(nodes, -1, 0), *np.moveaxis(weights, -1, 0)]

    def loss(rate: np.ndarray, v: np.ndarray, *rule: np.ndarray) -> np.ndarray:
        nodes = np.stack(rule[: steps + 1], axis=-1)
        weights = np.stack(rule[steps + 1 :], axis=-1)
        return quadrature_loss([rate] * steps, nodes, weights, v)

    scale = np.sum(weights * nodes, axis=-1) / np.sum(weights * nodes**2, axis=-1)
    # Below 1/(L (theta + v)) for every node the loss decreases.
    least = 0.97 / (steps * (np.max(nodes, axis=-1) + noise))
    even = [share * scale for share in np.linspace(0, 4, _SCAN + 1)]
    powers = np.linspace(0, 1, _SCAN)
    geometric = [least * (3.99 * scale / least) ** power for power in powers]
    rate, _ = find_minimum(math_, loss, np.stack([*even, *geometric]), (noise, *rule))
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

    .. formula: chebyshev_rates

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


def divergence_rate(ratio: Number) -> Value:
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
