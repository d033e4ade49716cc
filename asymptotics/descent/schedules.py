r"""Learning-rate schedules of multi-step gradient descent in context.

L steps :math:`w_{l} = w_{l-1} + \eta_l \frac1N X^\top (y - X w_{l-1})` from :math:`w_0 = 0` on a
context of N pairs in dimension d.  With :math:`H = X^\top X/N` the error is
:math:`w - w_L = P(H) w - Q(H) X^\top \epsilon/N`, where

.. formula: residual

.. math:: P(\lambda) = \prod_l (1 - \eta_l \lambda), \qquad
   Q(\lambda) = \frac{1 - P(\lambda)}\lambda.

For isotropic inputs of unit variance, task variance :math:`a^2` and noise variance
:math:`\sigma^2`, the loss of a noiseless query relative to the null predictor is

.. formula: loss

.. math:: \mathcal L = \int \bigl(P^2 + v \lambda Q^2\bigr) d\mu, \qquad
   v = \frac{\sigma^2}{N a^2},

with the mean spectral measure :math:`\mu` of H: `Wishart` at finite N and d (Gaussian inputs),
`MarchenkoPastur` of ratio c = d/N in the limit.  By whitening the same holds for inputs
:math:`N(0, \Sigma)`, tasks :math:`N(0, a^2 \Sigma^{-1})` and steps :math:`\eta_l \Sigma^{-1}`.

*Optimum.*  Write :math:`R = 1 - (\lambda + v) Q`.  Then :math:`\mathcal L = \int \frac v{\lambda +
v} d\mu + \int \frac{\lambda}{\lambda + v} R^2 d\mu`: the error of optimal ridge regression plus a
term whose minimum over polynomials of degree L with :math:`R(-v) = 1` is the kernel polynomial,
:math:`R \propto` the orthogonal polynomial of :math:`\lambda\,d\mu`, whatever v.  So

.. formula: lower_bound

.. math:: P(\lambda) = \frac{v + \lambda R(\lambda)}{\lambda + v}, \qquad
   R(\lambda) = \prod_l \frac{\lambda - \theta_l}{-v - \theta_l},

with the positive nodes :math:`\theta_l` of the Gauss-Radau rule of :math:`\mu`.  Without noise the
rates are :math:`1/\theta_l`, in the limit

.. formula: optimal_rates

.. math:: \eta_l = \frac1{1 + c + 2\sqrt c \cos(\pi l/(L+1))}, \qquad
   \mathcal L = \frac1{\sum_{k=0}^L c^{-k}},

the polynomials of the Marchenko-Pastur method (Pedregosa and Scieur, ICML 2020), here with
plain steps.  With noise :math:`\mathcal L` has the closed form of `Schedule.lower_bound`; real
steps reach it while all zeros of P are real.

In float64 the loss is computed by the Gauss-Radau rule of the measure, a sum of positive terms; in
exact and multi-precision arithmetic from its moments.

.. symbols:
   \mathcal L: error on a noiseless query label over that of predicting 0
   N: context length
   \lambda: eigenvalue of the context's covariance
   \mu: law of the eigenvalues; in the limit of Marchenko and Pastur, of ratio c
   P: share of an error along an eigenvector that the steps leave
   Q: weight of the label noise, (1 − P)/λ
   R: kernel polynomial of the spectrum, with R(−v) = 1
   \theta_l: nodes of the Gauss-Radau rule of the spectrum
   \eta_l: rate of step l
   k: power
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import CheckedValues, check_integers, check_range, checked
from iclimit.asymptotics.numbers import ArrayMath, MpMath, Namespace, Number, Value, convert
from iclimit.asymptotics.spectra import IndependentEntries, MarchenkoPastur, Wishart
from iclimit.asymptotics.spectra.resolvent import resolvent
from iclimit.results import Result

Spectrum = MarchenkoPastur | Wishart

# Within this range of the ratio squares and products of the nodes stay within float64.
_RANGES = {"ratio": "[1e-100, 1e100]", "rates": "(-inf, inf)"}

# Arguments of a limit and of a finite size, of which one or the other is None.
_PLACE = ("ratio", "context", "dim")


@dataclass(frozen=True, repr=False)
class Schedule(Result):
    r"""Learning rates with their loss.

    Attributes
    ----------
    rates : ndarray (..., steps), or tuple of mpmath or SymPy numbers
        Rates in ascending order; the loss does not depend on the order.
    loss : number or array
        Loss of a noiseless query relative to the null predictor.
    lower_bound : number or array
        Least loss of any method whose residual is a polynomial of this degree.  The best schedule
        reaches it if its rates are real.  Gradient descent on the ridge objective with weight
        decay v always reaches it, by the rates :math:`1/(\theta_l + v)`.
    """

    rates: Value
    loss: Value
    lower_bound: Value


def schedule_loss(
    rates: Sequence[Number] | np.ndarray,
    *,
    ratio: Number | None = None,
    context: Number | None = None,
    dim: Number | None = None,
    noise_ratio: Number = 0.0,
) -> Value:
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
        Variance of the label noise over N times that of the tasks, :math:`v = \sigma^2/(N a^2)`.

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
    In float64 the loss is computed by the exact Gauss-Radau rule, a sum of positive terms.
    Multi-precision and symbolic rates use the moments of the measure; their alternating sum would
    lose a digit per step in float64.

    At finite size the mean loss of every constant rate diverges as L grows, because of rare
    contexts.  The limit diverges beyond `divergence_rate` only.

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
    math_, spectrum, values = _parse_rates(rates, ratio, context, dim, noise_ratio)
    return _loss(math_, values.rates, spectrum, values.noise_ratio)


def given_schedule(
    rates: Sequence[Number] | np.ndarray,
    *,
    ratio: Number | None = None,
    context: Number | None = None,
    dim: Number | None = None,
    noise_ratio: Number = 0.0,
) -> Schedule:
    """Given rates with their loss and the least loss of so many steps.

    Parameters
    ----------
    rates, ratio, context, dim, noise_ratio
        As in `schedule_loss`.

    Returns
    -------
    Schedule
        With fields ``rates``, ``loss`` and ``lower_bound``.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Module `iclimit.asymptotics.descent.schedules`.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import given_schedule
    >>> given_schedule([0.5, 1.0], ratio=0.5)
    Schedule(rates=[0.5, 1], loss=0.15625, lower_bound=0.142857)
    """
    math_, spectrum, values = _parse_rates(rates, ratio, context, dim, noise_ratio)
    return make_schedule(math_, values.rates, spectrum, values.noise_ratio)


def make_schedule(
    math_: Namespace, rates: list[Value], spectrum: Spectrum, noise: Value
) -> Schedule:
    """Schedule of given rates, one number or array for each step."""
    loss = _loss(math_, rates, spectrum, noise)
    bound = lower_bound(math_, len(rates), spectrum, noise)
    if not isinstance(math_, ArrayMath):
        return Schedule(tuple(rates), loss, math_.finish(bound))
    steps = np.stack([np.broadcast_to(rate, np.shape(loss)) for rate in rates], axis=-1)
    return Schedule(steps, loss, math_.finish(math_.convert(bound)))


def parse_setting(
    steps: int, ratio: Number, context: Number, dim: Number, noise_ratio: Number
) -> tuple[Namespace, Spectrum, Value]:
    """Number system, spectrum and noise ratio of a schedule, checked and converted."""
    check_integers(steps=steps)
    spectrum = _finite_spectrum(ratio, context, dim)
    math_, values = checked(
        systems="host",
        optional=_PLACE,
        ranges=_RANGES,
        ratio=ratio,
        context=context,
        dim=dim,
        noise_ratio=noise_ratio,
    )
    return math_, spectrum or MarchenkoPastur(values.ratio), values.noise_ratio


def _parse_rates(
    rates: Sequence[Number] | np.ndarray,
    ratio: Number | None,
    context: Number | None,
    dim: Number | None,
    noise_ratio: Number,
) -> tuple[Namespace, Spectrum, CheckedValues]:
    """Number system, spectrum, and rates and noise ratio, checked and converted."""
    spectrum = _finite_spectrum(ratio, context, dim)
    math_, values = checked(
        systems="host",
        optional=_PLACE,
        sequences=("rates",),
        ranges=_RANGES,
        ratio=ratio,
        context=context,
        dim=dim,
        rates=rates,
        noise_ratio=noise_ratio,
    )
    return math_, spectrum or MarchenkoPastur(values.ratio), values


def _finite_spectrum(ratio: Value, context: Value, dim: Value) -> Wishart | None:
    """Spectrum of a finite size; None in a limit."""
    return Wishart(context=context, dim=dim) if _is_finite(ratio, context, dim) else None


def parse_spectrum(
    math_: Namespace, ratio: Value, context: Value, dim: Value, input_law: str = "gaussian"
) -> Spectrum:
    """Spectrum of a limit or of a finite size, whichever is given."""
    if _is_finite(ratio, context, dim):
        if input_law == "gaussian":
            return Wishart(context=context, dim=dim)
        return IndependentEntries(context=context, dim=dim, input_law=input_law)
    if input_law != "gaussian":
        raise ValueError(f"input_law must be gaussian in a limit, got {input_law!r}")
    ratio = convert(math_, "ratio", ratio)
    check_range(math_, "ratio", ratio, _RANGES["ratio"])
    return MarchenkoPastur(ratio)


def _is_finite(ratio: Value, context: Value, dim: Value) -> bool:
    missing = [value is None for value in (context, dim)]
    if any(missing) if ratio is None else not all(missing):
        raise ValueError(
            "give either ratio or context and dim, got "
            f"ratio={ratio}, context={context}, dim={dim}"
        )
    return ratio is None


def _loss(math_: Namespace, rates: list[Value], spectrum: Spectrum, noise: Value) -> Value:
    if isinstance(math_, ArrayMath):
        return math_.finish(quadrature_loss(rates, *spectrum.quadrature(len(rates)), noise))
    return math_.finish(moment_loss(math_, rates, spectrum, noise))


def quadrature_loss(rates: Iterable[Any], nodes: Number, weights: Number, noise: Number) -> Value:
    """Loss by a quadrature rule, all terms positive; infinite where a factor overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        P = np.ones_like(nodes)
        Q = np.zeros_like(nodes)
        for rate in rates:
            step = np.expand_dims(rate, -1)
            Q = Q + step * P
            P = P * (1 - step * nodes)
        loss = np.sum(weights * (P**2 + np.expand_dims(noise, -1) * nodes * Q**2), axis=-1)
        return np.where(np.isnan(loss), np.inf, loss)


def moment_loss(math_: Namespace, rates: list[Value], spectrum: Spectrum, noise: Value) -> Value:
    """Loss as a combination of moments, in exact or multi-precision arithmetic."""
    extra = 8 * len(rates) * isinstance(math_, MpMath)
    with more_digits(math_, extra):
        P: list[Any] = [1]
        for rate in rates:
            P = [a - rate * b for a, b in zip([*P, 0], [0, *P], strict=True)]
        total = polynomial_loss(math_, P, spectrum, noise)
    return +total


def polynomial_loss(math_: Namespace, P: list[Any], spectrum: Spectrum, noise: Value) -> Value:
    """Loss of a residual P with these coefficients, that of the constant first."""
    Q = [-a for a in P[1:]]
    moments = [exact_number(math_, spectrum.moment(k)) for k in range(2 * len(P) - 1)]
    return sum(
        a * b * moments[i + j] for i, a in enumerate(P) for j, b in enumerate(P)
    ) + noise * sum(a * b * moments[i + j + 1] for i, a in enumerate(Q) for j, b in enumerate(Q))


def more_digits(math_: Namespace, digits: int) -> Value:
    """Compute mpmath numbers with so many digits more."""
    if isinstance(math_, MpMath):
        import mpmath

        return mpmath.workdps(mpmath.mp.dps + digits)
    return math_.quiet()


def exact_number(math_: Namespace, value: Value) -> Value:
    """Convert a moment, a Fraction at finite integer size."""
    if hasattr(value, "numerator") and not hasattr(value, "free_symbols"):
        return math_.convert(value.numerator) / value.denominator
    return value


def interval_points(math_: Namespace, c: Value, turns: Iterable[int], q: int) -> list[Value]:
    """Points 1 + c + 2 sqrt(c) cos(pi p/q) of the Marchenko-Pastur interval, p from turns."""
    root = math_.sqrt(c)
    squeeze = ((1 - c) / (1 + root)) ** 2

    def node(p: int) -> Value:
        # Floating point takes the second form, which does not cancel at the lower edge.
        return math_.stable(
            c < 0,
            lambda: 1 + c + 2 * root * math_.cos(math_.pi * p / q),
            lambda: squeeze + 4 * root * math_.cos(math_.pi * p / (2 * q)) ** 2,
        )

    return [node(p) for p in turns]


def lower_bound(math_: Namespace, steps: int, spectrum: Spectrum, noise: Value) -> Value:
    """Least loss over residual polynomials."""
    if isinstance(spectrum, MarchenkoPastur):
        c = spectrum.ratio
        with math_.quiet():
            return math_.where(
                noise > math_.tiny,
                lambda: _noisy_limit(math_, steps, c, noise),
                lambda: _noiseless_limit(math_, steps, c),
            )
    nodes, weights = spectrum.quadrature(steps)
    v = np.asarray(noise)[..., None]
    theta = nodes[1:]
    residual = np.prod((nodes[:, None] - theta) / (-v[..., None] - theta), axis=-1)
    with np.errstate(all="ignore"):
        P = np.where(nodes > 0, (v + nodes * residual) / (nodes + v), 1.0)
        Q = np.where(nodes > 0, (1 - residual) / (nodes + v), 0.0)
    return np.sum(weights * (P**2 + v * nodes * Q**2), axis=-1)


def _noiseless_limit(math_: Namespace, steps: int, c: Value) -> Value:
    """1/sum c^-k, k = 0..L."""
    return math_.stable(
        c > 1,
        lambda: 1 / _geometric_sum(1 / c, steps),
        lambda: c**steps / _geometric_sum(c, steps),
    )


def _noisy_limit(math_: Namespace, steps: int, c: Value, noise: Value) -> Value:
    """Ridge v M plus g s^L / sum s^k, with the resolvent M, g = 1 - v M and s = c g^2 <= 1."""
    M = resolvent(math_, noise, 1 / c, 1 - c)
    g = 1 / (1 / M + c)
    s = c * g**2
    return noise * M + g * s**steps / _geometric_sum(s, steps)


def _geometric_sum(x: Value, steps: int) -> Value:
    """Sum of x^k, k = 0..L."""
    total = 1
    for _ in range(steps):
        total = 1 + x * total
    return total
