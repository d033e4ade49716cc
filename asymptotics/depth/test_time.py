r"""Steps at test time: what more steps of an in-context algorithm do after finite pretraining.

A context holds :math:`\ell = \alpha d` pairs with :math:`x \sim N(0, I_d/d)`, task
:math:`w \sim N(0, I_d)` and labels :math:`y = \langle w, x\rangle + \epsilon`, noise variance
:math:`\sigma^2`.  With :math:`S = \frac d\ell X X^\top` and the summary :math:`h = S w + n` of the
labels, one layer of linear attention estimates the task by :math:`\Gamma h`.  Repeated on what is
left of the labels it makes the steps

.. math:: w_{k+1} = w_k + s\,\Gamma\,(h - S w_k), \qquad w_0 = 0,

with a dampening s.  The error is :math:`|w - w_k|^2/d`, 1 at the start.

*Pretraining* here is least squares of the task on the summary over :math:`\tau d > d` contexts,
each of which tells d numbers: weight prediction.  In the limit

.. math:: \Gamma = g I + E, \qquad g = \Bigl(1 + \frac{1 + \sigma^2}\alpha\Bigr)^{-1}, \qquad
   v = \frac{g(1 - g)}{\tau - 1},

where E is invariant under rotations from both sides and has entries of variance v/d.  The
residuals :math:`r_k = h - S w_k` obey :math:`r_k = S (w - w_k) + n`; their two-time average
:math:`V(k, k') = \frac1d E\, r_k \cdot r_{k'}` is closed, because each E turns a residual into
white noise: with :math:`m_j(a) = \int \lambda^j (1 - sg\lambda)^a d\mu`, :math:`\mu` being the
Marchenko-Pastur law of ratio :math:`1/\alpha`,

.. formula: errors

.. math::

   V(k, k') &= m_2(k + k') + \frac{\sigma^2}\alpha m_1(k + k')
     + s^2 v \sum_{j < k} \sum_{j' < k'} m_2(k + k' - 2 - j - j')\, V(j, j'), \\
   e(k) &= m_0(2k) + \frac{\sigma^2}\alpha \int \lambda q_k^2 d\mu
     + s^2 v \sum_{j, j' < k} m_0(2k - 2 - j - j')\, V(j, j'),
   \qquad q_k = \frac{1 - (1 - sg\lambda)^k}\lambda .

*Fast recursion.*  In the generating function the sums become products, and
:math:`\sum_{k, k'} m(k + k') x^k y^{k'} = (x\,m(x) - y\,m(y))/(x - y)`.  Multiplying by x - y
gives row k from the rows before it,

.. math:: V(k, j) = V(k - 1, j + 1)
   + s^2 v \sum_{i < j} m_2(j - 1 - i)\, V(k - 1, i)
   - s^2 v \sum_{i < k - 1} m_2(k - 2 - i)\, V(i, j) .

*The best number of steps.*  Below the threshold of overthinking the errors grow in the end, and
with noise they often fall below their limit before: then a finite number of steps is best.  Errors
are computed as far ahead as twice the best number; the limit of infinitely many steps is known in
closed form.

.. page: depth/test-time: Steps at test time

.. symbols:
   V: correlation of the residuals after k and k' steps
   e: error after k steps
   k: steps
   j: steps before them
   m_j: moments ∫ λʲ (1 − sgλ)ᵃ dμ, with a in brackets
   \mu: law of the context's eigenvalues λ, of Marchenko and Pastur
   \lambda: eigenvalue of the context's covariance
   q_k: what k steps make of a label along an eigenvector
   s: dampening of the steps
   g: mean weight that pretraining learns, 1/(1 + (1 + σ²)/α)
   v: variance of the learned weights, g(1 − g)/(τ − 1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from iclimit.asymptotics.checks import check_integers, checked, flattened
from iclimit.asymptotics.depth.overthinking import RANGES, final_test_time_error
from iclimit.asymptotics.descent.schedules import exact_number, more_digits
from iclimit.asymptotics.numbers import ArrayMath, MpMath, Namespace, Number, Value
from iclimit.asymptotics.spectra import MarchenkoPastur

# Numbers that the recursion holds at once, 32 MB: the points of a large grid go in blocks.
_BLOCK = 2**22


def test_time_errors(
    *,
    alpha: Number,
    tau: Number,
    steps: int,
    noise_variance: Number = 0.0,  # noqa: PT028
    dampening: Number = 1.0,  # noqa: PT028
) -> Value:
    r"""Errors after 0, 1, ..., steps steps with a matrix learned from weight prediction.

    Parameters
    ----------
    alpha : number or array in (0, inf)
        Context length over dimension, of pretraining and test.
    tau : number or array in (1, inf]
        Pretraining contexts over dimension.  Each context tells the d coordinates of its task, so
        that this is the number of training labels over :math:`d^2` here, too.
    steps : int >= 1
        Largest number of steps.
    noise_variance : number or array >= 0
        Variance :math:`\sigma^2` of the label noise; noiseless labels have variance 1.
    dampening : number or array in (0, inf)
        Factor s of the steps; 1 is the step that pretraining has learned.

    Returns
    -------
    array (..., steps + 1), or tuple of mpmath or SymPy numbers
        Mean squared error :math:`|w - w_k|^2/d`, from 1 without a step.  ``inf`` where it exceeds
        float64.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    The limit of large d at a fixed number of steps.  At finite d the means are carried by rare
    contexts and rare matrices near the threshold of `overthinking_threshold`, the more so the
    more steps: compare medians.

    float64 is accurate to 1e-12; exact arithmetic takes seconds beyond ten steps.

    The best number of steps is ``test_time_errors(...).argmin(-1)``; it is finite below the
    threshold and, with noise, above it.

    References
    ----------
    Question: Takanami and Pehlevan, arXiv:2606.03217.  Setting of weight prediction: Huang, Wang,
    Lee, arXiv:2502.21212.  Formulas: module `iclimit.asymptotics.depth.test_time`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import test_time_errors
    >>> test_time_errors(alpha=4, tau=4, steps=4).round(4)
    array([1.    , 0.2667, 0.0962, 0.045 , 0.0221])
    >>> import sympy
    >>> tau = sympy.Symbol("tau", positive=True)
    >>> sympy.factor(test_time_errors(alpha=sympy.Integer(4), tau=tau, steps=1)[1])
    tau/(5*(tau - 1))
    """
    check_integers(steps=steps)
    math_, values = checked(
        systems="host",
        ranges=RANGES,
        alpha=alpha,
        tau=tau,
        steps=steps,
        noise_variance=noise_variance,
        dampening=dampening,
    )
    alpha = values.alpha
    noise = values.noise_variance
    factor = values.dampening
    with math_.quiet():
        total = alpha + 1 + noise
        gain = alpha / total
        rest = (1 + noise) / total
        scatter = rest * gain / (values.tau - 1)
        # One minus the step s g, without cancellation in long contexts.
        rest = 1 - factor + factor * rest
        scatter = factor**2 * scatter
    return ladder(math_, alpha, factor * gain, rest, scatter, noise, steps)


# Its name does not make it a test where pytest finds it imported.
test_time_errors.__test__ = False  # type: ignore[attr-defined]


def ladder(
    math_: Namespace,
    alpha: Value,
    gain: Value,
    rest: Value,
    scatter: Value,
    noise: Value,
    steps: int,
) -> Value:
    """Errors after 0..steps steps with the matrix gain + E, E with entries of variance scatter.

    ``rest`` is one minus the gain.
    """
    if isinstance(math_, ArrayMath):
        points = np.broadcast_arrays(alpha, gain, rest, scatter, noise)
        shape = points[0].shape
        flat = np.stack([point.ravel() for point in points])
        rows = max(1, _BLOCK // (6 * steps**2))
        parts = []
        for start in range(0, flat.shape[1], rows):
            alpha, gain, rest, scatter, noise = flat[:, start : start + rows]
            averages = _averages(alpha, gain, rest, steps)
            with math_.quiet():
                noise = (noise / alpha)[:, None]
                parts.append(_errors(averages, scatter[:, None], noise, steps))
        errors = np.concatenate(parts)
        # What exceeds float64 becomes inf - inf.
        errors[np.isnan(errors)] = math.inf
        return errors.reshape(*shape, steps + 1)
    # The raw moments cancel down to the error, (gain lambda - 1)^2 < 1/alpha per step.
    digits = isinstance(math_, MpMath) and steps * (4 + math.ceil(abs(math.log10(alpha))))
    with more_digits(math_, digits):
        averages = _exact_averages(math_, alpha, gain, steps)
        scatter = np.array([[scatter]], dtype=object)
        noise = np.array([[noise / alpha]], dtype=object)
        errors = _errors(averages, scatter, noise, steps)[0]
    return tuple(+error for error in errors)


def _averages(
    alpha: np.ndarray, gain: np.ndarray, rest: np.ndarray, steps: int
) -> tuple[np.ndarray, ...]:
    """m_0, m_1, m_2 at powers up to 2 steps, and the integrals of lambda q_k^2; (points, ...)."""
    nodes, weights = MarchenkoPastur(1 / alpha).quadrature(steps)
    # The nodes minus 1, and one minus a step along them, each to its own accuracy.
    c = (1 / alpha)[:, None]
    angle = np.pi * np.arange(steps + 1) / (steps + 1)
    excess = np.where(angle > 0, c + 2 * np.sqrt(c) * np.cos(angle), -1.0)
    factor = rest[:, None] - gain[:, None] * excess
    powers = [weights]
    sums = [0 * nodes]
    with np.errstate(all="ignore"):
        for _ in range(2 * steps):
            powers.append(powers[-1] * factor)
        power = np.ones_like(nodes)
        for _ in range(steps):
            sums.append(sums[-1] + power)
            power = power * factor
        moments = [np.stack([np.sum(nodes**r * p, -1) for p in powers], -1) for r in range(3)]
        spread = [np.sum(weights * nodes * (gain[:, None] * total) ** 2, -1) for total in sums]
    return *moments, np.stack(spread, -1)


def _exact_averages(
    math_: Namespace, alpha: Value, gain: Value, steps: int
) -> tuple[np.ndarray, ...]:
    """The same for one point of exact or multi-precision numbers."""
    law = MarchenkoPastur(1 / alpha)
    count = 2 * steps + 1
    raw = [exact_number(math_, law.moment(k)) for k in range(count + 2)]

    def average(r: int, a: int) -> Value:
        return sum(math.comb(a, i) * (-gain) ** i * raw[i + r] for i in range(a + 1))

    moments = [np.array([[average(r, a) for a in range(count)]], dtype=object) for r in range(3)]
    # gain lambda q_k^2 is a double sum of powers, of which m_1 is the average.
    spread = [
        gain**2 * sum(moments[1][0, i + j] for i in range(k) for j in range(k))
        for k in range(steps + 1)
    ]
    return *moments, np.array([spread], dtype=object)


def _errors(
    averages: tuple[np.ndarray, ...], scatter: np.ndarray, noise: np.ndarray, steps: int
) -> np.ndarray:
    """Errors (points, steps + 1) by the fast recursion; scatter and noise are (points, 1)."""
    m0, m1, m2, spread = averages
    width = 2 * steps
    lag = np.subtract.outer(np.arange(width), np.arange(width)) - 1
    # Row j holds m_2(j - 1 - i) in column i < j.
    kernel = np.where(lag >= 0, m2[:, np.maximum(lag, 0)], 0 * m2[:, :1, None])
    # Row k of V is needed, and right, up to column width - 1 - k.
    V = np.zeros_like(m0, shape=(len(m0), steps, width))
    V[:, 0] = (m2 + noise * m1)[:, :width]
    for k in range(1, steps):
        kept = width - k
        grown = (kernel[:, :kept, :kept] @ V[:, k - 1, :kept, None])[..., 0]
        if k > 1:
            grown = grown - (m2[:, None, k - 2 :: -1] @ V[:, : k - 1, :kept])[:, 0]
        V[:, k, :kept] = V[:, k - 1, 1 : kept + 1] + scatter * grown
    errors = m0[:, ::2] + noise * spread
    errors[:, 0] = 1
    # Sums of V(j, j') over j + j' = t with j, j' < k: each k adds one row and one column.
    sums = np.zeros_like(m0)
    for k in range(1, steps + 1):
        sums[:, k - 1 : 2 * k - 2] += 2 * V[:, k - 1, : k - 1]
        sums[:, 2 * k - 2] += V[:, k - 1, k - 1]
        pushed = np.sum(m0[:, 2 * k - 2 :: -1] * sums[:, : 2 * k - 1], axis=-1)
        errors[:, k] += scatter[:, 0] * pushed
    return errors


# Steps that are computed first; their number is doubled where the best is not among the first
# half.
_FIRST = 8

# Relative difference to the limit that rounding may make.
_CLOSE = 1e-12


@dataclass(frozen=True)
class BestSteps:
    """The best number of steps.

    Attributes
    ----------
    steps : float or ndarray
        Their number; ``inf`` where none is as good as infinitely many.
    error : float or ndarray
        The error after them.
    """

    steps: np.ndarray
    error: np.ndarray


def best_test_time_steps(
    *,
    alpha: Number,
    tau: Number,
    noise_variance: Number = 0.0,
    dampening: Number = 1.0,
    steps: int = 200,
) -> BestSteps:
    r"""Number of steps with the least error, with a matrix learned from weight prediction.

    Parameters
    ----------
    alpha : number or array in (0, inf)
        Context length over dimension, of pretraining and test.
    tau : number or array in (1, inf]
        Pretraining contexts over dimension.
    noise_variance : number or array >= 0
        Variance :math:`\sigma^2` of the label noise; noiseless labels have variance 1.
    dampening : number or array in (0, inf)
        Factor s of the steps.
    steps : int >= 1
        Largest number that is looked at.

    Returns
    -------
    BestSteps
        With ``steps`` and ``error``.  ``steps`` is ``inf`` where infinitely many are the best, and
        where the error after the largest number is the least yet.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    Without noise, in contexts of more than d pairs and above the threshold of overthinking every
    step helps.  Takes milliseconds a point, some 50 where 200 steps have to be computed.

    References
    ----------
    Module `iclimit.asymptotics.depth.test_time`.

    Examples
    --------
    >>> from iclimit.asymptotics.depth import best_test_time_steps
    >>> best = best_test_time_steps(alpha=4, tau=[1.2, 3, 30], noise_variance=0.4)
    >>> best.steps, best.error.round(4)
    (array([0., 6., 4.]), array([1.    , 0.1275, 0.12  ]))
    """
    check_integers(steps=steps)
    _, values = checked(
        systems="numpy",
        ranges=RANGES,
        alpha=alpha,
        tau=tau,
        noise_variance=noise_variance,
        dampening=dampening,
    )
    shape, points = flattened(values)
    limit = final_test_time_error(
        alpha=points.alpha,
        tau=points.tau,
        noise_variance=points.noise_variance,
        dampening=points.dampening,
    )
    best = np.full(limit.shape, np.inf)
    error = limit.copy()
    unsettled = np.flatnonzero(limit > 0)
    count = 0
    while unsettled.size and count < steps:
        count = min(max(_FIRST, 2 * count), steps)
        errors = test_time_errors(
            alpha=points.alpha[unsettled],
            tau=points.tau[unsettled],
            noise_variance=points.noise_variance[unsettled],
            dampening=points.dampening[unsettled],
            steps=count,
        )
        at = errors.argmin(axis=1)
        least = errors.min(axis=1)
        end = limit[unsettled]
        with np.errstate(invalid="ignore"):  # infinite errors
            close = np.isfinite(end) & (np.abs(errors[:, -1] - end) <= _CLOSE * end)
        done = (2 * at <= count) | close | (count == steps)
        # At the last number the errors may still fall.
        finite = done & (least < (1 - _CLOSE) * end) & (at < count)
        best[unsettled[finite]] = at[finite]
        fell = done & (least < end)
        error[unsettled[fell]] = least[fell]
        unsettled = unsettled[~done]
    return BestSteps(best.reshape(shape)[()], error.reshape(shape)[()])
