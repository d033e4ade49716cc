r"""Overthinking at test time: from which pretraining on more steps do harm, and what they end at.

Setting and notation are those of `iclimit.asymptotics.depth.test_time`.  In the end the errors
behave as :math:`r^{2k}`, where :math:`s^2 v \max_\theta f_\theta(r) = 1`,

.. math:: f_\theta(r) = \int \frac{\lambda^2\, d\mu}{|r e^{i\theta} - 1 + sg\lambda|^2} .

The denominator is linear in :math:`\cos\theta`.  So f is a convex function of it, and its
largest value is at :math:`\theta = 0` or :math:`\pi`.  Since :math:`\lambda\,d\mu` is a
semicircle law, both are closed, with :math:`c = 1/\alpha`; at r = 1

.. math:: f_0(1) = \frac{\min(1, \alpha)}{(sg)^2}, \qquad
   f_\pi(1) = \frac J{sg} \Bigl(\frac2R - 1\Bigr), \qquad J = \frac2{b + R},

with :math:`b = 2 - sg(1 + c)` and :math:`R^2 = b^2 - 4 c (sg)^2`.  There is no :math:`f_\pi` if
:math:`b^2 < 4 c (sg)^2`: the step then diverges even for :math:`\Gamma = gI`.  Errors grow for

.. formula: threshold

.. math:: \tau < \tau^* = 1 + s^2 g (1 - g) \max\bigl(f_0(1), f_\pi(1)\bigr) .

The part of :math:`f_0` does not depend on the dampening,
:math:`1 + \min(1, \alpha)(1 + \sigma^2)/\alpha`; that of :math:`f_\pi` vanishes with s.

*Stability.*  Without cancellation, with :math:`a = \sqrt\alpha` and
:math:`G = \alpha + 1 + \sigma^2`, so that :math:`g = \alpha/G`,

.. math:: b \pm 2 sg\sqrt c = \frac1G \bigl[ (a \pm 1)^2 + (1 - s)(a \mp 1)^2
   + 2\sigma^2 \bigr] .

*Limit.*  Above the threshold the errors converge, for :math:`\alpha > 1` to the error of least
squares, whatever :math:`\Gamma` is, and for :math:`\alpha < 1` with :math:`r_0 = v\alpha/g^2` to

.. formula: final_error

.. math:: \frac{1 - \alpha}{1 - r_0} + \frac{\sigma^2\alpha}{1 - \alpha}
   \Bigl[ 1 + \frac{(1 - \alpha)\, r_0}{\alpha (1 - r_0)} \Bigr] .

It follows from the generating function of V at x = y = 1.

.. page: depth/test-time: Steps at test time

.. symbols:
   r_0: vα/g², v being the variance of the learned weights and g their mean
   s: dampening of the steps
   g: mean weight that pretraining learns, 1/(1 + (1 + σ²)/α)
   f: how strongly errors of constant (0) and of alternating sign (π) feed on themselves
   \tau^*: threshold of pretraining
"""

from __future__ import annotations

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import Namespace, Number, Value

# Ranges of weight prediction: finite contexts, and more contexts than dimensions.
RANGES = {"alpha": "(0, inf)", "tau": "(1, inf]", "dampening": "(0, inf)"}

# The threshold is also that of small steps, at dampening 0.
_THRESHOLD_RANGES = RANGES | {"dampening": "[0, inf)"}


def overthinking_threshold(
    *, alpha: Number, noise_variance: Number = 0.0, dampening: Number = 1.0
) -> Value:
    r"""Pretraining below which more steps at test time end in growing errors.

    Parameters
    ----------
    alpha : number or array in (0, inf)
        Context length over dimension, of pretraining and test.
    noise_variance : number or array >= 0
        Variance :math:`\sigma^2` of the label noise; noiseless labels have variance 1.
    dampening : number or array in [0, inf)
        Factor s of the steps.  At 0 the limit of small steps: below it no dampening helps.

    Returns
    -------
    number or array
        Threshold :math:`\tau^*` of pretraining contexts over dimension, for weight prediction.
        NumPy and other arrays, mpmath numbers, SymPy expressions.  ``inf`` where even the mean of
        :math:`\Gamma` diverges, and at alpha = 1 without noise and dampening.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    The limit of large d.  At finite d the threshold is lower: at alpha = 4, tau = 1.45 errors
    should grow by 1.058 a step, and fell by 0.999 at d = 240.

    float64 is accurate to 1e-12 for a dampening up to 1, also near alpha = 1.

    References
    ----------
    Question: Takanami and Pehlevan, arXiv:2606.03217.  Threshold: module
    `iclimit.asymptotics.depth.overthinking`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import overthinking_threshold
    >>> overthinking_threshold(alpha=[0.5, 1.0, 4.0]).round(4)
    array([6.    ,    inf, 1.5833])
    >>> float(overthinking_threshold(alpha=4.0, dampening=0))
    1.25
    """
    math_, values = checked(
        ranges=_THRESHOLD_RANGES, alpha=alpha, noise_variance=noise_variance, dampening=dampening
    )
    with math_.quiet():
        at_zero, at_pi = edge_values(math_, values.alpha, values.noise_variance, values.dampening)
        # g (1 - g) over g^2 is (1 + noise)/alpha.
        ratio = (1 + values.noise_variance) / values.alpha
        return math_.finish(
            1 + ratio * math_.where(at_zero > at_pi, lambda: at_zero, lambda: at_pi)
        )


def edge_values(
    math_: Namespace, alpha: Value, noise: Value, factor: Value
) -> tuple[Value, Value]:
    """Values (s g)^2 f_0(1) and (s g)^2 f_pi(1) of the module docstring."""
    a = math_.sqrt(alpha)
    G = alpha + 1 + noise
    # a - 1, without cancellation.
    near = ((alpha - 1) / (a + 1)) ** 2
    far = (a + 1) ** 2
    lower = near + (1 - factor) * far + 2 * noise
    upper = far + (1 - factor) * near + 2 * noise
    at_zero = math_.where(alpha < 1, lambda: alpha, lambda: 1 + 0 * alpha)

    def closed() -> Value:
        b = 2 - factor * (alpha + 1) / G
        # Exact numbers take the first form, which has no roots to be simplified.
        R = math_.stable(
            alpha < 0,
            lambda: math_.sqrt(b**2 - alpha * (2 * factor / G) ** 2),
            lambda: math_.sqrt(lower * upper) / G,
        )
        return math_.divide(2 * factor * alpha * (2 - R), G * R * (b + R))

    return at_zero, math_.where(lower > 0, closed, lambda: math_.inf)


def feedback_at_pi(math_: Namespace, alpha: Value, step: Value) -> Value:
    """Value f_pi(1) of the module docstring at any mean step s g; infinite where that diverges."""
    b = 2 - step * (1 + 1 / alpha)
    radius = 2 * step / math_.sqrt(alpha)

    def closed() -> Value:
        R = math_.sqrt((b - radius) * (b + radius))
        return math_.divide(2 * (2 - R), step * R * (b + R))

    return math_.where(b > radius, closed, lambda: math_.inf)


def final_test_time_error(
    *, alpha: Number, tau: Number, noise_variance: Number = 0.0, dampening: Number = 1.0
) -> Value:
    r"""Error after infinitely many steps with a matrix learned from weight prediction.

    Parameters
    ----------
    alpha : number or array in (0, inf)
        Context length over dimension, of pretraining and test.
    tau : number or array in (1, inf]
        Pretraining contexts over dimension.
    noise_variance : number or array >= 0
        Variance :math:`\sigma^2` of the label noise; noiseless labels have variance 1.
    dampening : number or array in (0, inf)
        Factor s of the steps.  It decides about convergence, not about the limit.

    Returns
    -------
    number or array
        Mean squared error :math:`|w - w_\infty|^2/d`; ``inf`` where the errors grow and at the
        threshold.  NumPy and other arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    References
    ----------
    Module `iclimit.asymptotics.depth.overthinking`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import final_test_time_error
    >>> final_test_time_error(alpha=[0.5, 4.0], tau=[[8.0], [1.1]], noise_variance=0.4).round(4)
    array([[1.125 , 0.1333],
           [   inf,    inf]])
    """
    math_, values = checked(
        ranges=RANGES, alpha=alpha, tau=tau, noise_variance=noise_variance, dampening=dampening
    )
    alpha = values.alpha
    noise = values.noise_variance
    with math_.quiet():
        at_zero, at_pi = edge_values(math_, alpha, noise, values.dampening)
        ratio = (1 + noise) / (alpha * (values.tau - 1))
        r0 = ratio * alpha
        stable = math_.all_of(ratio * at_zero < 1, ratio * at_pi < 1)

        def few_pairs() -> Value:
            bias = (1 - alpha) / (1 - r0)
            return bias + noise * (alpha + bias * r0) / (1 - alpha)

        def limit() -> Value:
            # Without noise, 0 also at alpha = 1, where dampened steps converge slowly.
            some = math_.where(noise > 0, lambda: noise / (alpha - 1), lambda: 0 * alpha)
            return math_.where(alpha < 1, few_pairs, lambda: some)

        return math_.finish(math_.where(stable, limit, lambda: math_.inf))
