r"""The optimal learning rate of one gradient-descent step in context.

Linear self-attention can perform the step :math:`w_1 = \eta \sum_n y_n x_n` on its context (von
Oswald et al., ICML 2023, arXiv:2212.07677), and one layer trained on linear regression does.  For
inputs with independent coordinates of mean 0 and moments :math:`m_2 = E x^2`, :math:`m_4 = E x^4`,
tasks :math:`w \sim N(0, a^2 I_d)`, N context pairs and label noise :math:`\sigma^2`, the mean
squared error on a noisy query label is a quadratic in the rate,

.. formula: loss

.. math:: \mathcal L(\eta) = \sigma^2 + m_2 \Bigl\{ a^2 d - 2 \eta a^2 N d m_2
   + \eta^2 N d \bigl[a^2 (m_4 + (N + d - 2) m_2^2) + \sigma^2 m_2\bigr] \Bigr\},

with the minimum

.. formula: optimum

.. math:: \eta^* = \frac{a^2 m_2}{a^2 [m_4 + (N + d - 2) m_2^2] + \sigma^2 m_2}, \qquad
   \mathcal L^* = \sigma^2 + a^2 m_2 d\, \bigl(1 - \eta^* N m_2\bigr).

The third moment does not enter.  This is the rate of a step that *sums* over the context; for the
*mean* over the context it is N times as large.  It is the limit for many tasks of the rate that
fits given data best (Rossi, Yuan and Hannagan, ICLR 2024 blog post track), which
`iclimit.simulate.descent.estimate_learning_rate` computes.

.. page: descent/gradient-descent: One step of gradient descent

.. symbols:
   \mathcal L: mean squared error on a query label
   \eta: learning rate of a step that sums over the context; the sliders have N times this rate,
      that of the mean
   N: context length
   m: moments of an input coordinate: mean of its square (2), of its fourth power (4)
   \eta^*,\ \mathcal L^*: best rate and loss at that rate
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from iclimit.asymptotics.checks import CheckedValues, check_range, checked
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.checks import check_choice
from iclimit.results import Result

# Second and fourth moments, as fractions, of N(0, 1), U(-1, 1), random signs and exp(-|x|)/2.
MOMENTS = {
    "gaussian": ((1, 1), (3, 1)),
    "uniform": ((1, 3), (1, 5)),
    "rademacher": ((1, 1), (1, 1)),
    "laplace": ((2, 1), (24, 1)),
}

NORMALIZATIONS = ("mean", "sum")

# Name of the second moment of a law in messages.
_SECOND = "second moment of input_law"

# Name of the fourth moment of a law in messages.
_FOURTH = "fourth moment of input_law"

# Ranges of the moments.
_MOMENT_RANGES = {_SECOND: "(0, inf)", _FOURTH: "(0, inf)"}


@dataclass(frozen=True, repr=False)
class LearningRate(Result):
    """Optimal learning rate and its loss.

    Attributes
    ----------
    rate : number or array
        Rate in the normalisation asked for.
    loss : number or array
        Mean squared error on a noisy query label (no 1/2).
    """

    rate: Value
    loss: Value


def optimal_learning_rate(
    *,
    context: Number,
    dim: Number,
    input_law: str | tuple[Number, Number] = "gaussian",
    noise_variance: Number = 0.0,
    task_variance: Number = 1.0,
    normalization: str = "mean",
) -> LearningRate:
    r"""Learning rate of one gradient-descent step with the least expected loss.

    Parameters
    ----------
    context : number or array >= 1
        Number N of context pairs.
    dim : number or array >= 1
        Dimension d.
    input_law : {"gaussian", "uniform", "rademacher", "laplace"} or pair (second, fourth)
        Law of the independent input coordinates: N(0, 1), U(-1, 1), random signs, the Laplace law
        with density exp(-\|x\|)/2; or the second and fourth moment of any law of mean 0.
    noise_variance : number or array >= 0
        Variance of the label noise.
    task_variance : number or array > 0
        Variance of the task coordinates.
    normalization : {"mean", "sum"}
        Whether the step is :math:`\frac\eta N \sum_n y_n x_n` or :math:`\eta \sum_n y_n x_n`.

    Returns
    -------
    LearningRate
        With fields ``rate`` and ``loss``; NumPy and other arrays, mpmath numbers, SymPy
        expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range; a fourth moment must be at least the square of the
        second.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Gaussian inputs: Mahankali, Hashimoto and Ma, ICLR 2024 (arXiv:2307.03576).  Any moments:
    module `iclimit.asymptotics.descent.learning_rate`.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import optimal_learning_rate
    >>> best = optimal_learning_rate(context=10, dim=10, input_law="uniform")
    >>> round(float(best.rate), 5), round(float(best.loss), 5)
    (1.51515, 1.64983)
    >>> from sympy import Rational, symbols
    >>> N, d = symbols("N d", positive=True)
    >>> optimal_learning_rate(context=N, dim=d, normalization="sum").rate
    1/(N + d + 1)
    """
    math_, values, m2, m4 = _parse(
        input_law,
        normalization,
        context=context,
        dim=dim,
        noise_variance=noise_variance,
        task_variance=task_variance,
    )
    N = values.context
    d = values.dim
    sigma2 = values.noise_variance
    a2 = values.task_variance
    with math_.quiet():
        # m4 - m2^2 first: the remaining terms are positive.
        rest = a2 * ((m4 - m2**2) + (d - 1) * m2**2) + sigma2 * m2
        total = rest + a2 * N * m2**2
        rate = a2 * m2 / total * (N if normalization == "mean" else 1)
        loss = sigma2 + a2 * m2 * d * rest / total
        return LearningRate(math_.finish(rate), math_.finish(loss))


def learning_rate_loss(
    rate: Number,
    *,
    context: Number,
    dim: Number,
    input_law: str | tuple[Number, Number] = "gaussian",
    noise_variance: Number = 0.0,
    task_variance: Number = 1.0,
    normalization: str = "mean",
) -> Value:
    r"""Expected loss of one gradient-descent step with a given learning rate.

    Parameters
    ----------
    rate : number or array
        Learning rate :math:`\eta`.
    context, dim, input_law, noise_variance, task_variance, normalization
        As in `optimal_learning_rate`.

    Returns
    -------
    number or array
        Mean squared error on a noisy query label (no 1/2).

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    Examples
    --------
    >>> from iclimit.asymptotics.descent import learning_rate_loss
    >>> float(learning_rate_loss(0.0, context=10, dim=10))
    10.0
    """
    math_, values, m2, m4 = _parse(
        input_law,
        normalization,
        rate=rate,
        context=context,
        dim=dim,
        noise_variance=noise_variance,
        task_variance=task_variance,
    )
    N = values.context
    sigma2 = values.noise_variance
    a2 = values.task_variance
    with math_.quiet():
        step = values.rate / N if normalization == "mean" else values.rate
        # The square of 1 - step N m2 is the error of the mean, the rest that of the fluctuation.
        spread = a2 * ((m4 - m2**2) + (values.dim - 1) * m2**2) + sigma2 * m2
        missed = a2 * (1 - step * N * m2) ** 2 + step**2 * N * spread
        return math_.finish(sigma2 + m2 * values.dim * missed)


def _given_moments(input_law: str | tuple[Number, Number]) -> dict[str, Any]:
    """Moments of the inputs by name, none if the law has a name."""
    if isinstance(input_law, str):
        if input_law not in MOMENTS:
            names = ", ".join(MOMENTS)
            raise ValueError(
                f"input_law must be one of {names} or a pair of moments, got {input_law!r}"
            )
        return {}
    if not (isinstance(input_law, tuple) and len(input_law) == 2):
        raise TypeError(f"input_law must be a name or a pair (second, fourth), got {input_law!r}")
    return {_SECOND: input_law[0], _FOURTH: input_law[1]}


def _parse(
    input_law: str | tuple[Number, Number], normalization: str, **numbers: Any
) -> tuple[Namespace, CheckedValues, Value, Value]:
    """Number system, checked numbers, and the second and fourth moment of the inputs."""
    check_choice("normalization", normalization, NORMALIZATIONS)
    moments = _given_moments(input_law)
    math_, values = checked(**numbers, **moments, ranges=_MOMENT_RANGES)
    if isinstance(input_law, str):
        top, bottom = MOMENTS[input_law][0]
        second = math_.convert(top) / bottom
        top, bottom = MOMENTS[input_law][1]
        fourth = math_.convert(top) / bottom
        return math_, values, second, fourth
    second = getattr(values, _SECOND)
    fourth = getattr(values, _FOURTH)
    with math_.quiet():
        ratio = fourth / second**2
    name = "fourth moment of input_law, over the square of the second,"
    check_range(math_, name, ratio, "[1, inf)")
    return math_, values, second, fourth
