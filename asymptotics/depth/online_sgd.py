r"""One layer of linear attention trained by online SGD.

Inputs :math:`x \sim N(0, I_d)`, tasks :math:`\beta \sim N(0, I_d)`, labels
:math:`y = x \cdot \beta/\sqrt d + \sigma \epsilon`, contexts of :math:`P = \alpha d` tokens.  Each
step takes B fresh contexts with K queries each.  One layer predicts
:math:`x^\top \Gamma X^\top y/P`.  Write :math:`h = \sqrt d\,X^\top y/P` and
:math:`A_0 = E|h|^2/d = 1 + (1 + \sigma^2)/\alpha`.  A step of size :math:`\eta` from
:math:`\Gamma = 0`, in units in which the mean gradient of isotropic data is
:math:`A_0 \Gamma - I`, is

.. math:: \Gamma \to \Gamma - \eta\, \frac1B \sum_b \frac1K \sum_q x_q x_q^\top
   (\Gamma h_b - \beta_b)\, h_b^\top .

Its mean moves :math:`\operatorname{tr}\Gamma/d` to :math:`g^* = 1/A_0`.  For large d at fixed
ratios :math:`\alpha, B/d, K/d` the fluctuations of :math:`\Gamma` fill all its entries, and
:math:`C = |\Gamma - g^* I|^2/d` follows a closed recursion: a single context contributes
:math:`(1 + d/K)\,|\Gamma h - \beta|^2 |h|^2`, where :math:`|h|^2/d = A_0` and

.. math:: \frac{|\Gamma h - \beta|^2}d = A_0 C + 1 - \frac1{A_0},

whatever the trace.  Hence :math:`C \to a\,C + b` with

.. math:: a = (1 - \eta A_0)^2 + \frac{\eta^2 d}B \Bigl(1 + \frac dK\Bigr) A_0^2, \qquad
   b = \frac{\eta^2 d}B \Bigl[ \Bigl(1 + \frac dK\Bigr)(A_0 - 1)
   + \frac dK A_0 \sigma_q^2 \Bigr],

with the variance :math:`\sigma_q^2` of the noise of the query labels in training.  The start
:math:`\Gamma = 0` has :math:`C = 1/A_0^2`.  On a fresh context of the same length the error of a
noiseless query label is :math:`A_0 C + 1 - 1/A_0`, by the same identity.

The recursion is Result 10 of Bordelon, Letey and Pehlevan (arXiv:2510.01098v1), who start it at 1
and report :math:`|\Gamma - I|^2/d`, the error on a context of infinite length.
"""

from __future__ import annotations

from dataclasses import dataclass

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import Namespace, Number, Value, require
from iclimit.results import Result


@dataclass(frozen=True, repr=False)
class OnlineErrors(Result):
    r"""Errors of one layer during online SGD.

    Attributes
    ----------
    loss : number or array
        Squared error on a noiseless query label after a fresh context of the same length.
    long_context_loss : number or array
        The same after a context of infinite length without noise, :math:`|\Gamma - I|^2/d`.
    distance : number or array
        :math:`|\Gamma - g^* I|^2/d`, the distance from the best matrix.
    contraction : number or array
        Factor a of the distance in each step; training diverges where it is at least 1.
    """

    loss: Value
    long_context_loss: Value
    distance: Value
    contraction: Value


def online_sgd_errors(
    *,
    steps: Number,
    alpha: Number,
    learning_rate: Number,
    batch_ratio: Number,
    query_ratio: Number,
    noise_variance: Number = 0.0,
    query_noise_variance: Number = 0.0,
) -> OnlineErrors:
    r"""Errors of one layer of linear attention after steps of online SGD from zero.

    Parameters
    ----------
    steps : integer or array of them >= 0, or inf
        Steps of SGD; inf gives the noise floor.
    alpha : number or array > 0
        Context length over dimension, in training and test.
    learning_rate : number or array > 0
        Learning rate :math:`\eta` of the matrix; the mean gradient of the loss is
        :math:`A_0 \Gamma - I`.
    batch_ratio : number or array > 0, or inf
        Contexts in a step over dimension, B/d.
    query_ratio : number or array > 0, or inf
        Queries of each context over dimension, K/d.
    noise_variance : number or array >= 0
        Variance of the noise of the context labels, whose signal has variance 1.
    query_noise_variance : number or array >= 0
        The same for the labels of queries in training.

    Returns
    -------
    OnlineErrors
        In the limit of large dimension.  ``inf`` after infinitely many steps that diverge.  NumPy
        and other arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    At finite dimension the errors are larger by O(1/d), the more the closer the contraction is
    to 1.

    References
    ----------
    Bordelon, Letey, Pehlevan, arXiv:2510.01098v1, Result 10; the start of the recursion, the loss
    and the noise of queries are derived in module `iclimit.asymptotics.depth.online_sgd`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import online_sgd_errors
    >>> setting = dict(alpha=1.0, learning_rate=0.06, batch_ratio=1.0, query_ratio=1.0)
    >>> [round(float(online_sgd_errors(steps=t, **setting).loss), 4) for t in (0, 10, 100)]
    [1.0, 0.6209, 0.5732]
    """
    math_, values = checked(
        ranges={"steps": "[0, inf]"},
        steps=steps,
        alpha=alpha,
        learning_rate=learning_rate,
        batch_ratio=batch_ratio,
        query_ratio=query_ratio,
        noise_variance=noise_variance,
        query_noise_variance=query_noise_variance,
    )
    t = values.steps
    eta = values.learning_rate
    batch = values.batch_ratio
    queries = values.query_ratio
    with math_.quiet():
        part = math_.where(t < math_.inf, lambda: t % 1, lambda: 0)
        require(math_, "steps", t, lambda _: part <= 0, "an integer >= 0, or inf")
        excess = (1 + values.noise_variance) / values.alpha
        A = 1 + excess
        strength = eta**2 / batch
        spread = 1 + 1 / queries
        b = strength * (spread * excess + A * values.query_noise_variance / queries)
        # 1 - a, which small rates would round away.
        gap = eta * A * (2 - eta * A * (1 + spread / batch))
        a = 1 - gap
        powers = math_.where(
            t < math_.inf, lambda: _geometric_sum(math_, a, gap, t), lambda: _series(math_, gap)
        )
        C = a**t / A**2 + b * powers
        remaining = (1 - eta * A) ** t
        # Gamma - I, with the trace (1 - remaining)/A of Gamma.
        long_context = C + (1 - 1 / A) * (1 - 1 / A + 2 * remaining / A)
        errors = A * C + excess / A, long_context, C, a
    return OnlineErrors(*(math_.finish(error) for error in errors))


def _geometric_sum(math_: Namespace, a: Value, gap: Value, t: Value) -> Value:
    """Sum of the first t powers of a = 1 - gap."""

    def powers() -> Value:
        return math_.stable(
            gap > 0.5, lambda: (1 - a**t) / gap, lambda: -math_.expm1(t * math_.log1p(-gap)) / gap
        )

    return math_.where(gap == 0, lambda: t, powers)


def _series(math_: Namespace, gap: Value) -> Value:
    """Sum of all powers of 1 - gap."""
    return math_.where(gap > 0, lambda: 1 / gap, lambda: math_.inf)
