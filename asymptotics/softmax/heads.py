r"""Softmax heads on linear regression: the loss, and the best temperature and value.

At finite context length N and dimension d the loss of one head, and of two heads with opposite
keys and values, is exact (`iclimit.asymptotics.softmax.brackets`).  In the limit of large N and
d at fixed :math:`c = d/N` and :math:`v = \sigma^2/N`, with :math:`t = \beta \sqrt d` and
:math:`u = \text{value}/\sqrt d`, the norm of the query concentrates, a sum over the context
becomes a mean, and

.. formula: loss

.. math:: \frac{\mathcal L}d = (1 - ut)^2 + u^2 e^{t^2} (c + v), \qquad
   \frac{\mathcal L^*}d = \frac{e(c + v)}{1 + e(c + v)} \quad\text{at } t = 1,

for one head.  Linear attention has the same least loss without the factor e = 2.718...: a softmax
head sees e times less context.  Two opposite heads have
:math:`(1 - 2ut)^2 + 2 u^2 (e^{t^2} - e^{-t^2})(c + v)`, whose infimum at :math:`t \to 0` is that
of linear attention.

*Search at finite size.*  The loss needs averages of softmax weights at the temperatures of all
norms of the query.  They are smooth functions of these temperatures, so that a Chebyshev series of
them serves the whole search; the loss of the temperature found is then computed without it.

.. symbols:
   t: inverse temperature times √d
   u: value of the head over √d
   c: dimension over context length
   v: noise variance over context length
   e: 2.718...
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from scipy.optimize import minimize_scalar

from iclimit.asymptotics.checks import broadcast, check_integers, checked, require_whole
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.asymptotics.softmax.brackets import Brackets, brackets, query_norms
from iclimit.asymptotics.softmax.pair_averages import pair_averages
from iclimit.asymptotics.softmax.weight_averages import weight_averages
from iclimit.results import Result

# Largest relative error of a loss that is returned without a statement of its error.
_PROMISED = 1e-8

# The value of a head may have either sign.
_RANGES = {"value": "(-inf, inf)"}


@dataclass(frozen=True, repr=False)
class SoftmaxHead(Result):
    r"""Best softmax head, or pair of opposite heads.

    Attributes
    ----------
    inverse_temperature : number or array
        :math:`\beta`; in the limit :math:`\beta \sqrt d`.
    value : number or array
        Value v of the labels; in the limit :math:`v/\sqrt d`.
    loss : number or array
        Mean squared error on a noiseless query label (no 1/2), which is d for the null predictor;
        in the limit divided by d.
    error : number or array
        Relative error of the loss; 0 in the limit.
    """

    inverse_temperature: Value
    value: Value
    loss: Value
    error: Value


def softmax_loss(
    inverse_temperature: Number,
    *,
    value: Number,
    ratio: Number | None = None,
    context: Number | None = None,
    dim: Number | None = None,
    noise_ratio: Number | None = None,
    noise_variance: Number | None = None,
    heads: int = 1,
) -> Value:
    r"""Loss of one softmax head, or of two opposite ones, at given temperature and value.

    With the best head of one context length and the ``context`` (or ``ratio``) of another this is
    the loss at a test length different from that of training.

    Parameters
    ----------
    inverse_temperature : number or array
        :math:`\beta`, the factor of the scores :math:`x_q \cdot x_i`; in the limit
        :math:`\beta \sqrt d`.
    value : number or array
        Factor v of the labels; in the limit :math:`v/\sqrt d`.
    ratio : number or array > 0
        Limit at fixed c = d/N; give either this or context and dim.
    context, dim : int or array >= 1
        Exact at finite N and d, for Gaussian inputs.
    noise_ratio : number or array >= 0
        With ratio: variance of the label noise over N; 0 by default.
    noise_variance : number or array >= 0
        With context and dim: variance of the label noise; 0 by default.
    heads : int
        1; or 2 with keys and values of opposite signs.

    Returns
    -------
    number or array
        Mean squared error on a noiseless query label (no 1/2), for tasks of variance 1 per
        coordinate; in the limit divided by d.  NumPy arrays; in the limit also other arrays,
        mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.
    ArithmeticError
        If the relative error may exceed 1e-8, which happens for very cold scores in low dimension
        and for pairs of heads that nearly cancel.

    Notes
    -----
    At finite size the relative error is below 1e-8, measured as at most 3e-11 for N to 1e6, d to
    1000 and :math:`|\beta| \sqrt d \le 50` with one head.  A point takes some 30 ms.  Two heads
    take a second, and more for cold scores; colder ones than
    :math:`|\beta| (\sqrt d + 7) \approx 40` are refused.

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.brackets`.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import optimal_softmax, softmax_loss
    >>> best = optimal_softmax(context=20, dim=10)
    >>> longer = softmax_loss(best.inverse_temperature, value=best.value, context=200, dim=10)
    >>> round(float(best.loss), 4), round(float(longer), 4)
    (5.8186, 3.0067)
    >>> from sympy import symbols
    >>> t, u, c = symbols("t u c", positive=True)
    >>> softmax_loss(t, value=u, ratio=c)
    c*u**2*exp(t**2) + (-t*u + 1)**2
    """
    noise_ratio, noise_variance = _check_place(
        ratio=ratio,
        context=context,
        dim=dim,
        noise_ratio=noise_ratio,
        noise_variance=noise_variance,
        heads=heads,
    )
    if ratio is not None:
        return _limit_loss(inverse_temperature, value, ratio, noise_ratio, heads)
    _check_heads(heads)
    _, values = checked(
        systems="numpy",
        ranges=_RANGES,
        inverse_temperature=inverse_temperature,
        value=value,
        context=context,
        dim=dim,
        noise_variance=noise_variance,
    )
    require_whole("context", values.context)
    require_whole("dim", values.dim)
    points = broadcast(values)
    beta = points.inverse_temperature
    v = points.value
    noise = points.noise_variance
    loss = np.empty(beta.shape)
    settings = np.stack([beta, points.context, points.dim], axis=-1).reshape(-1, 3)
    unique, index = np.unique(settings, axis=0, return_inverse=True)
    for k, (one_beta, one_N, one_d) in enumerate(unique):
        head = brackets(one_beta, one_N, one_d, heads, 1.0)
        coarse_head = brackets(one_beta, one_N, one_d, heads, COARSE)
        for place in np.flatnonzero(index.reshape(-1) == k):
            with np.errstate(over="ignore"):
                fine = head.loss(v.flat[place], noise.flat[place])
                coarse = coarse_head.loss(v.flat[place], noise.flat[place])
            if not (fine == coarse or abs(fine - coarse) <= _PROMISED * fine):
                raise ArithmeticError(
                    f"relative error {abs(fine / coarse - 1):.0e} of the loss at "
                    f"inverse_temperature={one_beta:g}, context={one_N:g}, dim={one_d:g}"
                )
            loss.flat[place] = fine
    return loss[()]


def _limit_loss(
    inverse_temperature: Number, value: Number, ratio: Number, noise_ratio: Number, heads: int
) -> Value:
    """Loss in the limit."""
    if heads > 2:
        raise ValueError(f"heads must be 1 or 2, got {heads}")
    math_, values = checked(
        ranges=_RANGES,
        inverse_temperature=inverse_temperature,
        value=value,
        ratio=ratio,
        noise_ratio=noise_ratio,
    )
    t = values.inverse_temperature
    u = values.value
    with math_.quiet():
        missed = (1 - heads * u * t) ** 2
        both = values.ratio + values.noise_ratio
        return math_.finish(missed + u**2 * _limit_noise(math_, t, heads) * both)


def _limit_noise(math_: Namespace, t: Value, heads: int) -> Value:
    """Second moment of the weights, over (c + v) u^2."""
    growth = math_.exp(t**2)
    return growth if heads == 1 else 2 * (growth - 1 / growth)


def optimal_softmax(
    *,
    ratio: Number | None = None,
    context: Number | None = None,
    dim: Number | None = None,
    noise_ratio: Number | None = None,
    noise_variance: Number | None = None,
    heads: int = 1,
) -> SoftmaxHead:
    r"""Temperature and value of a softmax head with the least loss.

    Parameters
    ----------
    ratio, context, dim, noise_ratio, noise_variance
        As in `softmax_loss`.
    heads : int >= 1
        Number of heads; at finite size 1, or 2 with keys and values of opposite signs.

    Returns
    -------
    SoftmaxHead
        With fields ``inverse_temperature``, ``value``, ``loss`` and ``error``.  In the limit two
        or more heads approach linear attention as their temperatures grow: the inverse temperature
        is 0 and the value infinite.  With one pair of context (N = 1) the loss is d, at value 0.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    The relative error of the loss, which ``error`` states, is below 1e-8 for N from 2 to 1e6, d
    from 1 to 1000 and any noise; with one head it was measured as at most 4e-14, and stated as at
    most 2e-12.  The loss is flat at its minimum: the relative error of the inverse temperature
    and of the value is up to 2e-6.  Two heads: below 1e-8 as well.  In long contexts their
    loss hardly depends on the temperature, which is then any small one.

    One head takes 30 ms a point, and 50 in dimension 1 with 1e6 pairs.  Two heads take a second,
    and up to half a minute for fewer than 5 pairs in dimension 1.

    References
    ----------
    Derived in modules `iclimit.asymptotics.softmax.heads` and
    `iclimit.asymptotics.softmax.brackets`.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import optimal_softmax
    >>> best = optimal_softmax(context=10, dim=10)
    >>> round(float(best.inverse_temperature), 4), round(float(best.value), 4)
    (0.5789, 0.7496)
    >>> round(float(best.loss), 6), float(best.error) < 1e-8
    (7.305908, True)
    >>> from sympy import symbols
    >>> optimal_softmax(ratio=symbols("c", positive=True)).loss
    E*c/(E*c + 1)
    """
    noise_ratio, noise_variance = _check_place(
        ratio=ratio,
        context=context,
        dim=dim,
        noise_ratio=noise_ratio,
        noise_variance=noise_variance,
        heads=heads,
    )
    if ratio is not None:
        math_, values = checked(ratio=ratio, noise_ratio=noise_ratio)
        with math_.quiet():
            return _limit_optimum(math_, values.ratio + values.noise_ratio, heads)
    _check_heads(heads)
    _, values = checked(systems="numpy", context=context, dim=dim, noise_variance=noise_variance)
    require_whole("context", values.context)
    require_whole("dim", values.dim)
    points = broadcast(values)
    noise = points.noise_variance
    optima = np.empty((4, *noise.shape))
    settings = np.stack([points.context, points.dim], axis=-1).reshape(-1, 2)
    unique, index = np.unique(settings, axis=0, return_inverse=True)
    for k, (one_N, one_d) in enumerate(unique):
        search = TemperatureSearch(one_N, one_d, heads) if one_N > 1 else None
        for place in np.flatnonzero(index.reshape(-1) == k):
            best = search.optimum(noise.flat[place]) if search else (0.0, 0.0, one_d, 0.0)
            optima.reshape(4, -1)[:, place] = best
    return SoftmaxHead(*(row[()] for row in optima))


def _limit_optimum(math_: Namespace, both: Value, heads: int) -> SoftmaxHead:
    unit = both * 0 + 1
    if heads > 1:
        return SoftmaxHead(unit * 0, unit * math_.inf, math_.finish(both / (1 + both)), unit * 0)
    cost = math_.exp(unit) * both
    return SoftmaxHead(
        unit, math_.finish(1 / (1 + cost)), math_.finish(cost / (1 + cost)), unit * 0
    )


def _check_place(
    *,
    ratio: Number | None,
    context: Number | None,
    dim: Number | None,
    noise_ratio: Number | None,
    noise_variance: Number | None,
    heads: int,
) -> tuple[Number, Number]:
    """Raise a ValueError unless a limit or a size is given; noise, which is 0 by default."""
    check_integers(heads=heads)
    if ratio is None:
        fits = context is not None and dim is not None and noise_ratio is None
    else:
        fits = context is None and dim is None and noise_variance is None
    if not fits:
        raise ValueError(
            "give either ratio and noise_ratio or context, dim and noise_variance, got "
            f"ratio={ratio}, noise_ratio={noise_ratio}, context={context}, dim={dim}, "
            f"noise_variance={noise_variance}"
        )
    return (
        0.0 if noise_ratio is None else noise_ratio,
        0.0 if noise_variance is None else noise_variance,
    )


def _check_heads(heads: int) -> None:
    if heads > 2:
        raise ValueError(f"heads must be 1 or 2 at finite context and dim, got {heads}")


# Steps of a second quadrature, which tells the error, over those of the quadrature itself.
COARSE = 1.2

# Relative error of rounding, which both quadratures share; largest measured 3e-14.
_ROUNDING = 1e-13

# Steps of the averages that the best temperature is searched with, by the number of heads: those
# of two heads nearly cancel.
_SEARCH = {1: 1.5, 2: 1.0}

# Chebyshev nodes of these averages.
_NODES = 48

# Smallest temperature in units of 1/sqrt(d) that is searched, by the number of heads.  The best
# one of one head is at least 0.48, that of d = 1 and many pairs.  Pairs of heads that are warmer
# differ in loss by less than 1e-12.
_SMALLEST = {1: 0.3, 2: 1e-3}


class TemperatureSearch:
    """Search for the best temperature at one size, with averages interpolated in t."""

    def __init__(self, N: float, d: float, heads: int) -> None:
        self._size = N, d, heads
        # For two or three pairs the best head nearly takes the label of the largest score.
        largest = 1.5 + 90 / N**2 if heads == 1 else 1.2 + 10 / N**2
        self._scale = np.array([_SMALLEST[heads], largest]) / np.sqrt(d)
        self._norm, self._weight = query_norms(d, N, _SEARCH[heads])
        # In arsinh(t) the averages are smooth over warm and cold scores.
        ends = np.arcsinh(self._scale * self._norm[[0, -1]])
        self._center = np.mean(ends)
        self._half = np.ptp(ends) / 2
        angles = np.pi * (np.arange(_NODES) + 0.5) / _NODES
        t = np.sinh(self._center + self._half * np.cos(angles))
        averages = (weight_averages if heads == 1 else pair_averages)(N, t, _SEARCH[heads])
        # Those of two heads vanish as t^2: what is interpolated must not.
        power = t ** (2 * heads - 2)
        table = np.log(
            np.stack(
                [averages.concentration / power, averages.spread, averages.variance / power],
                axis=-1,
            )
        )
        self._series = 2 / _NODES * np.cos(np.outer(np.arange(_NODES), angles)) @ table
        self._series[0] /= 2

    def _profile(self, log_beta: float, noise: float) -> float:
        """Least loss over the value, with averages from the table."""
        t = np.exp(log_beta) * self._norm
        place = (np.arcsinh(t) - self._center) / self._half
        q, spread, variance = np.exp(chebyshev.chebval(place, self._series))
        _, d, heads = self._size
        power = t ** (2 * heads - 2)
        losses = Brackets(d, self._norm, self._weight, t * spread, power * variance, power * q)
        return losses.loss(losses.best_value(noise), noise)

    def optimum(self, noise: float) -> tuple[float, float, float, float]:
        """Inverse temperature, value, loss and its relative error."""
        low, high = np.log(self._scale)
        best = minimize_scalar(
            self._profile,
            bounds=(low, high),
            args=(noise,),
            method="bounded",
            options={"xatol": 1e-8},
        ).x
        # Where the loss of a pair hardly depends on the temperature the search may miss its end.
        ends = (best,) if self._size[2] == 1 else (best, low)
        tried = [brackets(float(np.exp(log_beta)), *self._size) for log_beta in ends]
        losses = [head.loss(head.best_value(noise), noise) for head in tried]
        chosen = int(np.argmin(losses))
        beta = float(np.exp(ends[chosen]))
        fine = tried[chosen]
        coarse = brackets(beta, *self._size, COARSE)
        value = fine.best_value(noise)
        loss = fine.loss(value, noise)
        return beta, value, loss, abs(coarse.loss(value, noise) / loss - 1) + _ROUNDING
