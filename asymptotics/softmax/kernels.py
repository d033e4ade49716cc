r"""What a kernel of attention is worth: softmax, ReLU, several heads, any function of the score.

A head with weights :math:`f(s_i)` of the scores, not normalised, predicts
:math:`\hat y = v \sum_i f(\beta x_q \cdot x_i)\,y_i`.  With inputs, tasks and noise as in
`iclimit.asymptotics.softmax.brackets`, r the norm of the query, s a score N(0, 1) and
:math:`f = f(\beta r s)`, its loss is exactly

.. math:: \mathcal L = E_r \Bigl[(r - v N\,E s f)^2
   + v^2 N \bigl(E s^2 f^2 - (E s f)^2 + (d - 1 + \sigma^2)\,E f^2\bigr)\Bigr],

since given the query the pairs are independent.  In the limit of large N and d at fixed
:math:`c = d/N` and :math:`\sigma^2/N` the norm concentrates and only the last term of the second
bracket remains.  At the best value

.. formula: optimum

.. math:: \frac{\mathcal L^*}d = \frac{c + \sigma^2/N}{\mathrm{eff} + c + \sigma^2/N}, \qquad
   \mathrm{eff} = \frac{(E s f)^2}{E f^2} \le 1 .

The **efficiency** is the factor by which the context length counts less than in linear attention.
By Cauchy and Schwarz it is 1 for f = s only: linear attention is the best kernel in the limit.
Softmax has in the limit :math:`f = e^{ts - t^2/2}`, as the normalisation Z concentrates, thus
:math:`\mathrm{eff} = t^2 e^{-t^2} \le 1/e`; ReLU has 1/2.  H softmax heads with the best values
have

.. math:: \mathrm{eff} = t^\top E^{-1} t, \qquad E_{hk} = e^{t_h t_k},

the share of s in the span of their kernels: any two different small temperatures nearly reach 1.

.. symbols:
   c: dimension over context length
   \mathrm{eff}: efficiency: the factor by which the context counts
   f: kernel of the attention, a function of the score
   s: score, normal of variance 1
   E: mean over scores
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.integrate import quad

from iclimit.asymptotics.checks import checked, real_number
from iclimit.asymptotics.numbers import ArrayMath, Number, Value
from iclimit.asymptotics.softmax.brackets import query_norms
from iclimit.results import Result

Kernel = Callable[[Any], Any]

# Standard deviations of a score that are integrated over: beyond, the density is below 1e-297.
_FAR = 37.0

# Largest relative error of an integral that is returned.
_PROMISED = 1e-8

# Terms of the expansion of an exponential in Hermite polynomials; enough for |t| <= 4.
_HERMITE = 60


@dataclass(frozen=True, repr=False)
class KernelHead(Result):
    r"""Best value of a head with a given kernel, and its loss.

    Attributes
    ----------
    value : float
        Value v with the least loss.
    loss : float
        Mean squared error on a noiseless query label (no 1/2).
    signal, power : float
        Coefficients of the loss at other values, :math:`d - 2 v\,\mathrm{signal}
        + v^2\,\mathrm{power}`.
    """

    value: float
    loss: float
    signal: float
    power: float


def kernel_efficiency(score_function: Kernel) -> float:
    r"""Efficiency of a kernel of attention in the limit, (E s f)^2 / E f^2.

    Parameters
    ----------
    score_function : callable
        f, from a score N(0, 1) to the weight of its pair; it may have jumps and kinks.

    Returns
    -------
    float
        Between 0 and 1: the factor by which the context length counts less than in linear
        attention.

    Raises
    ------
    TypeError
        If score_function is not a function.
    ArithmeticError
        If an integral does not converge.

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.kernels`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.softmax import kernel_efficiency
    >>> round(kernel_efficiency(np.exp), 6), round(kernel_efficiency(lambda s: max(s, 0)), 6)
    (0.367879, 0.5)
    """
    _check_function(score_function)
    signal = _gaussian_mean(lambda s: s * _weight(score_function, s))
    power = _gaussian_mean(lambda s: _weight(score_function, s) ** 2)
    if power == 0:
        raise ValueError("score_function must not vanish everywhere")
    return min(signal**2 / power, 1.0)


def heads_efficiency(inverse_temperatures: Sequence[Number] | np.ndarray) -> Value:
    r"""Efficiency of several softmax heads with the best values, in the limit.

    Parameters
    ----------
    inverse_temperatures : sequence of H numbers in [-4, 4]
        Temperatures :math:`t_h = \beta_h \sqrt d`, all different.

    Returns
    -------
    number
        :math:`t^\top E^{-1} t` with :math:`E_{hk} = e^{t_h t_k}`; a float, an mpmath number or a
        SymPy expression.

    Raises
    ------
    ValueError
        If there is no head, one is outside the range, or two are equal.
    TypeError
        If an argument is not a number, or number systems mix.
    ArithmeticError
        If rounding may change the result by more than 1e-8, as temperatures nearly coincide.

    Notes
    -----
    In float64 it is found by a least-squares fit of the score by the heads in Hermite polynomials.
    Temperatures that nearly coincide cancel in E, and much less there.

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.kernels`.

    Examples
    --------
    >>> from iclimit.asymptotics.softmax import heads_efficiency
    >>> [round(heads_efficiency(t), 4) for t in ([1], [-0.5, 0.5], [-1, 1], [0.3, 0.6, 0.9])]
    [0.3679, 0.9897, 0.8509, 0.891]
    >>> from sympy import symbols
    >>> heads_efficiency([symbols("t", positive=True)])
    t**2*exp(-t**2)
    """
    math_, values = checked(
        inverse_temperatures=inverse_temperatures,
        sequences=("inverse_temperatures",),
        ranges={"inverse_temperatures": "[-4, 4]"},
    )
    t = values.inverse_temperatures
    if len(set(t)) < len(t):
        raise ValueError(f"inverse_temperatures must be all different, got {inverse_temperatures}")
    if isinstance(math_, ArrayMath):
        efficiency, doubt = _float_efficiency(t)
        if not doubt <= _PROMISED:
            raise ArithmeticError(
                f"inverse_temperatures {inverse_temperatures} are too near to each other for "
                "float64: pass mpmath numbers"
            )
        return efficiency
    import mpmath
    import sympy

    if all(hasattr(number, "free_symbols") for number in t):
        vector = sympy.Matrix(t)
        matrix = sympy.Matrix(len(t), len(t), lambda h, k: sympy.exp(t[h] * t[k]))
        return sympy.simplify((vector.T * matrix.inv() * vector)[0])
    with mpmath.workdps(mpmath.mp.dps * (len(t) + 1)):
        matrix = mpmath.matrix([[mpmath.exp(a * b) for b in t] for a in t])
        solved = mpmath.lu_solve(matrix, mpmath.matrix(t))
        total = mpmath.fsum(a * b for a, b in zip(t, solved, strict=True))
    return +total


def _float_efficiency(t: Sequence[np.ndarray]) -> tuple[float, float]:
    """Efficiency of several heads in float64, and a bound of its rounding."""
    # Column h: coefficients of exp(t_h s) in normalised Hermite polynomials.
    degree = np.arange(1, _HERMITE)
    steps = np.stack([np.asarray(number, dtype=float) / np.sqrt(degree) for number in t])
    columns = np.cumprod(np.column_stack([np.ones(len(t)), steps]), axis=1).T
    orthonormal, triangle = np.linalg.qr(columns)
    with np.errstate(divide="ignore", over="ignore"):
        # What is left of a column after those before it, and rounding relative to that.
        independent = np.abs(np.diag(triangle)) / np.linalg.norm(columns, axis=0)
        lost = np.finfo(float).eps / independent
        doubt = 2 * np.abs(orthonormal[1]) * lost + lost**2
    shares = orthonormal[1] ** 2
    # No head adds more than what those before it leave to 1.
    room = np.maximum(1 - np.cumsum(shares) + shares, 0.0)
    return float(np.sum(shares)), float(np.sum(np.minimum(doubt, room)))


def attention_loss(efficiency: Number, *, ratio: Number, noise_ratio: Number = 0.0) -> Value:
    r"""Least loss of attention of a given efficiency, in the limit.

    Parameters
    ----------
    efficiency : number or array in [0, 1]
        Of `kernel_efficiency` or `heads_efficiency`: 1 for linear attention, 1/e for one softmax
        head.
    ratio : number or array > 0
        c = d/N.
    noise_ratio : number or array >= 0
        Variance of the label noise over N.

    Returns
    -------
    number or array
        Loss of a noiseless query relative to the null predictor; NumPy and other arrays, mpmath
        numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.kernels`.

    Examples
    --------
    >>> import math
    >>> from iclimit.asymptotics.softmax import attention_loss
    >>> round(float(attention_loss(1 / math.e, ratio=0.5)), 5), attention_loss(1, ratio=0.5)
    (0.57612, np.float64(0.3333333333333333))
    """
    math_, values = checked(efficiency=efficiency, ratio=ratio, noise_ratio=noise_ratio)
    eff = values.efficiency
    c = values.ratio
    v = values.noise_ratio
    with math_.quiet():
        return math_.finish((c + v) / (eff + c + v))


def optimal_kernel(
    score_function: Kernel,
    *,
    inverse_temperature: float,
    context: Number,
    dim: Number,
    noise_variance: float = 0.0,
) -> KernelHead:
    r"""Best value of a head with weights f(score) that are not normalised, at finite size.

    Parameters
    ----------
    score_function : callable
        f, from an array of scores to the weights of their pairs; smooth but at 0.
    inverse_temperature : float
        :math:`\beta` of the score :math:`\beta x_q \cdot x_i`.
    context : number >= 1
        Number N of context pairs.
    dim : number >= 1
        Dimension d.
    noise_variance : float >= 0
        Variance of the label noise.

    Returns
    -------
    KernelHead
        With fields ``value``, ``loss``, ``signal`` and ``power``.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If score_function is not a function, or a number not one.
    ArithmeticError
        If the mean squared weight does not exist, as for the exponential and :math:`\beta \ge
        1/2`, or the quadrature does not reach 1e-8.

    References
    ----------
    Derived in module `iclimit.asymptotics.softmax.kernels`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.softmax import optimal_kernel
    >>> linear = optimal_kernel(lambda s: s, inverse_temperature=1.0, context=10, dim=10)
    >>> round(linear.loss, 6), round(110 / 21, 6)
    (5.238095, 5.238095)
    >>> relu = lambda s: np.maximum(s, 0)
    >>> best = optimal_kernel(relu, inverse_temperature=1.0, context=120, dim=60)
    >>> round(best.loss / 60, 5)
    0.50617
    """
    _check_function(score_function)
    beta = real_number("inverse_temperature", inverse_temperature)
    N = real_number("context", context)
    d = real_number("dim", dim)
    noise = real_number("noise_variance", noise_variance)
    rules = [_kernel_head(score_function, beta, N, d, noise, k) for k in (12, 17)]
    if not abs(rules[0].loss - rules[1].loss) <= _PROMISED * rules[1].loss:
        raise ArithmeticError(
            "the mean squared weight of score_function does not exist, or is not found to 1e-8, "
            f"at inverse_temperature={beta:g}, dim={d:g}"
        )
    return rules[1]


def _kernel_head(f: Kernel, beta: float, N: float, d: float, noise: float, panels: int) -> Value:
    """The same with so many panels of 16 Gauss-Legendre nodes on both sides of 0."""
    r, weight = query_norms(d, 10.0, 12 / panels)
    node, mass = np.polynomial.legendre.leggauss(16)
    ends = np.linspace(0.0, 12.0, panels + 1)
    half = ends[1] / 2
    positive = np.add.outer(ends[:-1] + half, half * node).reshape(-1)
    s = np.concatenate([-positive, positive])
    density = np.tile(half * mass, 2 * panels) * np.exp(-s * s / 2) / np.sqrt(2 * np.pi)
    with np.errstate(all="ignore"):
        scores = beta * np.multiply.outer(r, s)
        values = np.asarray(f(scores), dtype=float)
        if values.shape != scores.shape:
            raise ValueError(
                "score_function must return a weight for each entry of an array of scores, "
                f"got shape {values.shape} for {scores.shape}"
            )
        m = (values * s) @ density
        square = values**2 @ density
        along = (values * s) ** 2 @ density
        spread = N * (along - m**2 + (d - 1 + noise) * square)
        signal = weight @ (r * N * m)
        power = weight @ ((N * m) ** 2 + spread)
        v = signal / power if power > 0 else 0.0
        loss = weight @ ((r - v * N * m) ** 2 + v**2 * spread)
        # A mean that does not exist shows at the largest norms.
        if not weight[-1] * spread[-1] <= _PROMISED * power:
            loss = np.nan
    return KernelHead(float(v), float(loss), float(signal), float(power))


def _check_function(score_function: Value) -> None:
    if not callable(score_function):
        raise TypeError(f"score_function must be a function of a score, got {score_function!r}")


def _weight(score_function: Kernel, score: float) -> float:
    weight = score_function(score)
    if np.ndim(weight) or np.asarray(weight).dtype.kind not in "bif":
        raise ValueError(f"score_function must return a number for a score, got {weight!r}")
    return float(weight)


def _gaussian_mean(function: Callable[[float], float]) -> float:
    def weighted(s: float) -> float:
        return function(s) * float(np.exp(-s * s / 2)) / np.sqrt(2 * np.pi)

    accuracy = {"epsabs": 1e-14, "epsrel": 1e-12, "limit": 200, "full_output": 1}
    total = 0.0
    bound = 0.0
    size = 0.0
    for lower, upper in itertools.pairwise((-_FAR, -6.0, 0.0, 6.0, _FAR)):
        integral = quad(weighted, lower, upper, **accuracy)
        total = total + integral[0]
        bound = bound + integral[1]
        size = size + abs(integral[0])
    if not (math.isfinite(total) and bound <= _PROMISED * size + 1e-12):
        raise ArithmeticError(f"the mean of score_function over scores is not found: {total:g}")
    return total
