r"""Learning-rate schedules of multi-step gradient descent in context.

L steps :math:`w_{l} = w_{l-1} + \eta_l \frac1N X^\top (y - X w_{l-1})` from :math:`w_0 = 0` on a
context of N pairs in dimension d.  With :math:`H = X^\top X/N` the error is
:math:`w - w_L = P(H) w - Q(H) X^\top \epsilon/N`, where

.. math:: P(\lambda) = \prod_l (1 - \eta_l \lambda), \qquad
   Q(\lambda) = \frac{1 - P(\lambda)}\lambda.

For isotropic inputs of unit variance, task variance :math:`a^2` and noise variance
:math:`\sigma^2`, the loss of a noiseless query relative to the null predictor is

.. math:: \mathcal L = \int \bigl(P^2 + v \lambda Q^2\bigr) d\mu, \qquad
   v = \frac{\sigma^2}{N a^2},

with the mean spectral measure :math:`\mu` of H: `Wishart` at finite N and d (Gaussian inputs),
`MarchenkoPastur` of ratio c = d/N in the limit.  By whitening the same holds for inputs
:math:`N(0, \Sigma)`, tasks :math:`N(0, a^2 \Sigma^{-1})` and steps :math:`\eta_l \Sigma^{-1}`.

*Optimum.*  Write :math:`R = 1 - (\lambda + v) Q`.  Then :math:`\mathcal L = \int \frac v{\lambda +
v} d\mu + \int \frac{\lambda}{\lambda + v} R^2 d\mu`: the error of optimal ridge regression plus a
term whose minimum over polynomials of degree L with :math:`R(-v) = 1` is the kernel polynomial,
:math:`R \propto` the orthogonal polynomial of :math:`\lambda\,d\mu`, whatever v.  So

.. math:: P(\lambda) = \frac{v + \lambda R(\lambda)}{\lambda + v}, \qquad
   R(\lambda) = \prod_l \frac{\lambda - \theta_l}{-v - \theta_l},

with the positive nodes :math:`\theta_l` of the Gauss-Radau rule of :math:`\mu`.  Without noise the
rates are :math:`1/\theta_l`, in the limit

.. math:: \eta_l = \frac1{1 + c + 2\sqrt c \cos(\pi l/(L+1))}, \qquad
   \mathcal L = \frac1{\sum_{k=0}^L c^{-k}},

the polynomials of the Marchenko-Pastur method (Pedregosa and Scieur, ICML 2020), here with
plain steps.  With noise :math:`\mathcal L` has the closed form of `Schedule.lower_bound`; real
steps reach it while all zeros of P are real.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import elementwise

from iclimit.asymptotics.descent.real_rates import best_real_rates, residual_zeros_matrix
from iclimit.asymptotics.descent.schedule_losses import (
    exact_number,
    interval_points,
    lower_bound,
    moment_loss,
    quadrature_loss,
)
from iclimit.asymptotics.numbers import (
    ArrayMath,
    MpMath,
    Namespace,
    Number,
    convert,
    namespace,
    numpy_namespace,
    require,
)
from iclimit.asymptotics.spectra import MarchenkoPastur, Wishart
from iclimit.asymptotics.spectra.wishart import check_integer

_REACHED = 1e-9
"""Relative excess over the lower bound that is taken for rounding of the rates."""

_RATIOS = (1e-100, 1e100)
"""Range of the ratio; squares and products of nodes stay within float64."""

_SCAN = 64
"""Constant rates scanned evenly, and again in proportion: with noise there can be two minima."""


@dataclass(frozen=True)
class Schedule:
    r"""Learning rates with their loss.

    Attributes
    ----------
    rates : ndarray (..., steps), or tuple of mpmath or SymPy numbers
        Rates in ascending order; the loss does not depend on the order.
    loss : number or array
        Loss of a noiseless query relative to the null predictor.
    lower_bound : number or array
        Least loss of any method whose residual is a polynomial of this degree: what the best
        schedule reaches if its rates are real.  Gradient descent on the ridge objective with
        weight decay v reaches it always, by the rates :math:`1/(\theta_l + v)`.
    """

    rates: Any
    loss: Any
    lower_bound: Any


def schedule_loss(
    rates: Any,
    *,
    ratio: Number = None,
    context: Any = None,
    dim: Any = None,
    noise_ratio: Number = 0.0,
) -> Any:
    r"""Loss of multi-step gradient descent with given rates.

    Parameters
    ----------
    rates : array (..., L), or sequence of L mpmath or SymPy numbers
        Learning rates of mean-normalised steps, any real numbers.
    ratio : number or array in [1e-100, 1e100]
        Limit at fixed c = d/N; give either this or context and dim.
    context, dim : int >= 1 or SymPy expression
        Exact at finite N and d, for Gaussian inputs.  Exact arithmetic takes a fraction of a
        second for 20 steps, half a minute for 60.
    noise_ratio : number or array >= 0
        Noise variance over (task variance times N), :math:`v = \sigma^2/(N a^2)`.

    Returns
    -------
    number or array
        Loss of a noiseless query relative to the null predictor; broadcast of the leading axes of
        rates with ratio and noise.  ``inf`` where it exceeds float64.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    float64 uses the exact Gauss-Radau rule: a sum of positive terms.  Multi-precision and
    symbolic rates use the moments of the measure, whose alternating sum would lose a digit per
    step in float64.  At finite size the mean loss of every constant rate diverges as L grows,
    because of rare contexts; the limit diverges beyond `divergence_rate` only.

    References
    ----------
    Module `iclimit.asymptotics.descent.schedules`.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import schedule_loss
    >>> round(float(schedule_loss([0.5, 1.0], ratio=0.5)), 12)
    0.15625
    >>> round(float(schedule_loss([0.5, 1.0], context=20, dim=10)), 12)
    0.1865625
    """
    math_, rates, count = _parse_rates(
        rates, ratio=ratio, context=context, dim=dim, noise_ratio=noise_ratio
    )
    noise = check_noise_ratio(math_, noise_ratio)
    spectrum = parse_spectrum(math_, ratio, context, dim)
    if not isinstance(math_, ArrayMath):
        return math_.finish(moment_loss(math_, rates, spectrum, noise))
    try:
        np.broadcast_shapes(
            rates.shape[:-1], np.shape(ratio if ratio is not None else 0), noise.shape
        )
    except ValueError:
        raise ValueError(
            "rates (but for its last axis), ratio and noise_ratio must have shapes that broadcast, got "
            f"{rates.shape}, {np.shape(ratio)}, {noise.shape}"
        ) from None
    return math_.finish(quadrature_loss(rates, *spectrum.quadrature(count), noise))


def optimal_schedule(
    *,
    steps: int,
    ratio: Number = None,
    context: Any = None,
    dim: Any = None,
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
    Without noise the optimum is in closed form, exact also at finite size.  With noise the rates
    are the reciprocal zeros of the optimal residual polynomial while these are real (few steps
    or little noise).  Where they are not, the best real rates are searched numerically, from many
    starts since there are local minima: rates merge into multiple ones, and the loss lies above
    the lower bound, which tells how much could be missed.  mpmath and SymPy
    numbers: without noise, or for one step; symbolic context and dim: up to two steps.

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
    math_, spectrum, noise = _setting(steps, ratio, context, dim, noise_ratio)
    if not isinstance(math_, ArrayMath):
        return _exact_optimum(math_, steps, spectrum, noise)
    nodes, weights = spectrum.quadrature(steps)
    theta = nodes[..., 1:]
    bound = np.asarray(lower_bound(math_, steps, spectrum, noise))
    with np.errstate(all="ignore"):
        matrix = residual_zeros_matrix(theta, noise[..., None])
    usable = np.all(np.isfinite(matrix), axis=(-2, -1))
    # Without noise the zeros are the nodes themselves.
    plain = (noise == 0) | ~usable
    nodes_only = theta[..., None] * np.eye(steps)
    roots = np.linalg.eigvals(np.where(plain[..., None, None], nodes_only, matrix))
    with np.errstate(all="ignore"):
        rates = np.sort(1 / roots.real, axis=-1)
        # For much noise the matrix is so ill-conditioned that eigenvalues can be real by accident.
        reached = quadrature_loss(rates, nodes, weights, noise) <= bound * (1 + _REACHED)
    real = np.all((roots.imag == 0) & (roots.real > 0), axis=-1) & reached
    loss = np.where(real, bound, 0.0)
    if not np.all(real):
        nodes, weights = (
            np.broadcast_to(v, (*real.shape, steps + 1))[~real] for v in (nodes, weights)
        )
        v = np.broadcast_to(noise, real.shape)[~real]
        rates[~real], loss[~real] = best_real_rates(roots[~real], nodes, weights, v)
    return Schedule(rates, math_.finish(loss), math_.finish(bound))


def constant_schedule(
    *,
    steps: int,
    ratio: Number = None,
    context: Any = None,
    dim: Any = None,
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
    math_, spectrum, noise = _setting(steps, ratio, context, dim, noise_ratio)
    if not isinstance(math_, ArrayMath):
        if noise != 0 or not isinstance(spectrum, MarchenkoPastur):
            raise ValueError(
                "constant_schedule takes mpmath and SymPy numbers in the limit without noise only"
            )
        return _exact_schedule(math_, [1 / (1 + spectrum.ratio)] * steps, spectrum, noise)
    nodes, weights = spectrum.quadrature(steps)
    shape = np.broadcast_shapes(nodes.shape[:-1], noise.shape)
    nodes, weights = (np.broadcast_to(v, (*shape, steps + 1)) for v in (nodes, weights))
    centre = np.sum(weights * nodes**2, axis=-1) / np.sum(weights * nodes, axis=-1)
    flat = [v.reshape(-1) for v in (np.broadcast_to(noise, shape), centre)]
    rule = [v.reshape(-1, steps + 1) for v in (nodes, weights)]

    def loss(rate: Any, index: Any, v: Any) -> Any:
        rates = np.broadcast_to(rate[..., None], (*rate.shape, steps))
        return quadrature_loss(rates, rule[0][index], rule[1][index], v)

    scale, index = 1 / flat[1], np.arange(flat[1].size)
    # Below 1/(L (theta + v)) for every node the loss decreases.
    least = 0.97 / (steps * (rule[0].max(axis=-1) + flat[0]))
    even = np.linspace(0, 4, _SCAN + 1)[:, None] * scale
    scan = np.sort(np.concatenate([even, np.geomspace(least, 3.99 * scale, _SCAN)]), axis=0)
    best = np.argmin(np.stack([loss(rate, index, flat[0]) for rate in scan]), axis=0)
    best = np.clip(best, 1, len(scan) - 2)
    bracket = tuple(scan[best + shift, index] for shift in (-1, 0, 1))
    with math_.quiet():
        found = elementwise.find_minimum(loss, bracket, args=(index, flat[0]))
    # Where the loss is flat to rounding the search has no bracket.
    rate = np.where(found.success, found.x, bracket[1])
    if isinstance(spectrum, MarchenkoPastur):
        rate = np.where(flat[0] == 0, scale, rate)
    value = loss(rate, index, flat[0]).reshape(shape)
    rates = np.broadcast_to(rate.reshape(shape)[..., None], (*shape, steps)).copy()
    bound = math_.finish(np.asarray(lower_bound(math_, steps, spectrum, noise)))
    return Schedule(rates, math_.finish(value), bound)


def chebyshev_schedule(
    *,
    steps: int,
    ratio: Number = None,
    context: Any = None,
    dim: Any = None,
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
    math_, spectrum, noise = _setting(steps, ratio, context, dim, noise_ratio)
    c = spectrum.ratio
    nodes = interval_points(math_, c, [(2 * k - 1, 2 * steps) for k in range(1, steps + 1)])
    if not isinstance(math_, ArrayMath):
        if not isinstance(spectrum, MarchenkoPastur):
            raise ValueError("chebyshev_schedule takes mpmath and SymPy numbers in the limit only")
        return _exact_schedule(math_, [1 / node for node in nodes], spectrum, noise)
    rates = 1 / np.stack(nodes, axis=-1)
    loss = math_.finish(quadrature_loss(rates, *spectrum.quadrature(steps), noise))
    bound = math_.finish(np.asarray(lower_bound(math_, steps, spectrum, noise)))
    shape = (*np.broadcast_shapes(np.shape(c), noise.shape), steps)
    return Schedule(np.broadcast_to(rates, shape).copy(), loss, bound)


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


def parse_spectrum(
    math_: Namespace, ratio: Any, context: Any, dim: Any
) -> MarchenkoPastur | Wishart:
    """Spectrum of a limit or of a finite size, whichever is given."""
    if ratio is not None:
        if context is not None or dim is not None:
            raise ValueError(
                "give either ratio or context and dim, got "
                f"ratio={ratio}, context={context}, dim={dim}"
            )
        ratio = convert(math_, "ratio", ratio)
        least, most = _RATIOS
        require(
            math_, "ratio", ratio, lambda c: (c >= least) & (c <= most), f"in [{least}, {most}]"
        )
        return MarchenkoPastur(ratio)
    if context is None or dim is None:
        raise ValueError(f"give either ratio or context and dim, got context={context}, dim={dim}")
    return Wishart(context=context, dim=dim)


def _setting(
    steps: Any, ratio: Any, context: Any, dim: Any, noise_ratio: Any
) -> tuple[Namespace, MarchenkoPastur | Wishart, Any]:
    """Check the arguments that all schedules take."""
    check_integer("steps", steps, least=1)
    given = {"ratio": ratio, "context": context, "dim": dim, "noise_ratio": noise_ratio}
    math_ = pick_namespace(given)
    spectrum, noise = (
        parse_spectrum(math_, ratio, context, dim),
        check_noise_ratio(math_, noise_ratio),
    )
    if isinstance(math_, ArrayMath) and ratio is not None:
        try:
            np.broadcast_shapes(np.shape(ratio), noise.shape)
        except ValueError:
            raise ValueError(
                "ratio and noise_ratio must have shapes that broadcast, got "
                f"{np.shape(ratio)}, {noise.shape}"
            ) from None
    return math_, spectrum, noise


def pick_namespace(given: dict[str, Any], **more: Any) -> Namespace:
    """Number system of the arguments that are given; of arrays only NumPy's."""
    given = {name: value for name, value in given.items() if value is not None}
    math_ = namespace(**given, **more)
    return numpy_namespace(**given, **more) if isinstance(math_, ArrayMath) else math_


def check_noise_ratio(math_: Namespace, noise_ratio: Any) -> Any:
    """Convert and check a noise level."""
    noise = convert(math_, "noise_ratio", noise_ratio)
    require(math_, "noise_ratio", noise, lambda v: (v >= 0) & (v < math_.inf), ">= 0 and finite")
    return noise


def _parse_rates(rates: Any, **others: Any) -> tuple[Namespace, Any, int]:
    """Convert rates to an array, or to a list of multi-precision or symbolic numbers."""
    if isinstance(rates, (str, bytes)) or not (isinstance(rates, Sequence) or np.ndim(rates)):
        raise TypeError(f"rates must be a sequence of learning rates, got {rates!r}")
    items = list(rates) if isinstance(rates, Sequence) else []
    math_ = pick_namespace(others, **{f"rates_{k}": item for k, item in enumerate(items)})
    if isinstance(math_, ArrayMath):
        numpy_namespace(rates=rates)
        rates = convert(math_, "rates", rates)
        if rates.shape[-1] == 0:
            raise ValueError(f"rates must be at least one learning rate, got {rates}")
        require(math_, "rates", rates, lambda v: abs(v) < math_.inf, "finite")
        return math_, rates, rates.shape[-1]
    values = [convert(math_, "rates", item) for item in (items or np.ravel(rates).tolist())]
    if not values:
        raise ValueError(f"rates must be at least one learning rate, got {rates!r}")
    for value in values:
        require(
            math_, "rates", value, lambda v: (v < math_.inf) & (v > -math_.inf), "real, finite"
        )
    return math_, values, len(values)


def _exact_schedule(math_: Any, rates: list[Any], spectrum: Any, noise: Any) -> Schedule:
    """Schedule of given rates in the limit, in multi-precision or exact arithmetic."""
    loss = math_.finish(moment_loss(math_, rates, spectrum, noise))
    bound = math_.finish(lower_bound(math_, len(rates), spectrum, noise))
    return Schedule(tuple(rates), loss, bound)


def _exact_optimum(math_: Any, steps: int, spectrum: Any, noise: Any) -> Schedule:
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
        turns = [(k, steps + 1) for k in range(1, steps + 1)]
        theta = interval_points(math_, spectrum.ratio, turns)
        loss = lower_bound(math_, steps, spectrum, noise)
    else:
        theta = _exact_zeros(math_, spectrum.polynomial(steps))
        loss = exact_number(math_, spectrum.christoffel(steps))
    return Schedule(tuple(1 / t for t in theta), loss, loss)


def _exact_zeros(math_: Any, coefficients: list[Any]) -> list[Any]:
    """Zeros of a polynomial, constant first, largest zero first."""
    if isinstance(math_, MpMath):
        import mpmath

        numbers = [exact_number(math_, c) for c in reversed(coefficients)]
        return sorted(mpmath.polyroots(numbers, maxsteps=200, extraprec=200), reverse=True)
    import sympy

    variable = sympy.Dummy("lambda", positive=True)
    polynomial = sympy.Poly(list(reversed(coefficients)), variable)
    if not polynomial.free_symbols_in_domain:
        return [*reversed(polynomial.real_roots())]
    if polynomial.degree() > 2:
        raise ValueError(
            "steps must be 1 or 2 for symbolic context and dim, got "
            f"{polynomial.degree()}: the zeros have no closed form (the loss has one: "
            "Wishart.christoffel)"
        )
    return sympy.roots(polynomial, multiple=True)
