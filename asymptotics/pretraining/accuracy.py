r"""Accuracy of in-context classification after pretraining, and other metrics.

In the setting of `iclimit.asymptotics.pretraining.labels` the class of a prompt is the sign of
:math:`z = \langle w, x_q\rangle`, and linear attention answers with the sign of its prediction f.
Given context and weights the pair (z, f) is Gaussian, with moments that do not fluctuate in the
limit.  In units of the linear part of the labels, with :math:`\nu = q + \xi` and the eigenvalues c
of the covariance of the pretraining tasks (module `iclimit.asymptotics.pretraining.icl`),

.. math:: m = E\,z f = \Bigl\langle \frac c{c + \nu} \Bigr\rangle = 1 - \nu M(\nu), \qquad
   m_t = \Bigl\langle \frac{c^2}{c + \nu} \Bigr\rangle = 1 - \nu m,

for fresh and for pretraining tasks.  The variances of the prediction are

.. math::

   V &= (1 + q) \Bigl[\Bigl\langle \frac{c^2}{(c + \nu)^2} \Bigr\rangle
   + \frac A\tau\, e_{IDG}\Bigr] = e_{ICL} - 1 - \rho_{\mathrm{eff}} + 2 m, \\
   V_t &= \Bigl\langle \frac{c^2 (c + q)}{(c + \nu)^2} \Bigr\rangle
   + \frac1\tau \Bigl\langle \frac{(c + q)^2}{(c + \nu)^2} \Bigr\rangle\, e_{IDG}
   = e_{IDG} - 1 - \rho_{\mathrm{eff}} + 2 m_t .

A pair of Gaussian variables agrees in sign with the probability

.. formula: accuracy

.. math:: P(f z > 0) = 1 - \frac1\pi \arccos \frac m{\sqrt V} .

Labels that are flipped with probability p agree with f at the rate :math:`(1 - p) a + p (1 - a)`,
where a is the accuracy against the clean class.  So the accuracy depends on the ratio of m and the
root of V only, not on the scale of f.

Source: derived here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri

from iclimit.asymptotics.checks import CheckedValues, broadcast_shape, checked, flattened
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.asymptotics.pretraining.icl import (
    context_noise,
    errors_at,
    ridgeless_point,
    solve_fixed_point,
)
from iclimit.asymptotics.pretraining.labels import EffectiveLabels, effective_labels
from iclimit.asymptotics.searches import find_minimum
from iclimit.asymptotics.spectra.resolvent import excess, resolvent
from iclimit.checks import check_choice
from iclimit.links import LinkLike
from iclimit.results import Result

# A metric of targets z and predictions f, arrays of equal weight, such as one of scikit-learn.
Metric = Callable[[np.ndarray, np.ndarray], float]

# Quantiles of either of two normal variables, of whose pairs metrics are taken.
_QUANTILES = 256

# The share of the golden section: multiples of it, modulo 1, are spread evenly.
_GOLDEN = 0.6180339887498949

# A ridge from which on accuracies are those of an infinite one.  Squares of larger ones overflow.
_INFINITE_RIDGE = 1e100

# Scanned values of log(xi - xi_ridgeless), in units of 1 + q.
_SCAN = np.linspace(np.log(1e-14), np.log(1e16), 181)

# A ridge must gain more than rounding over none and over an infinite one.
_BETTER = 1e-13


@dataclass(frozen=True, repr=False)
class PretrainedAccuracy(Result):
    """Accuracies, or values of a metric.

    Attributes
    ----------
    icl, idg : float or ndarray
        On fresh and on pretraining tasks, against the class.
    flipped_icl, flipped_idg : float or ndarray
        The same against labels that are flipped as those of the context.
    """

    icl: Value
    idg: Value
    flipped_icl: Value
    flipped_idg: Value


@dataclass(frozen=True, repr=False)
class AccurateRidge(Result):
    """Ridge with the largest accuracy.

    Attributes
    ----------
    ridge : float or ndarray
        The ridge: 0 where no positive one is better, infinite where the accuracy only rises.
    accuracy : float or ndarray
        Accuracy against the class.
    """

    ridge: Value
    accuracy: Value


def pretrained_accuracy(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number = 0.0,
    ridge: Number = 0.0,
    link: LinkLike = "sign",
    flips: Number = 0.0,
    metric: Metric | None = None,
) -> PretrainedAccuracy:
    r"""Accuracy of classification in context by linear attention that was pretrained on n prompts.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge : number or array
        As in `icl_error`; NumPy's numbers only.
    link : str, (str, number), (number, number) or callable
        Labels that it was trained on, as in `effective_labels`; classes by default.
    flips : number or array in [0, 1], other than 1/2
        Probability that a label, in the context or of the query, has the other sign.
    metric : callable, optional
        What is measured in the place of the accuracy: a function of arrays of targets
        :math:`z = \langle w, x_q\rangle` and predictions f, of equal weight, that returns a
        number.

    Returns
    -------
    PretrainedAccuracy
        Accuracies in [0, 1], 1/2 by chance, broadcast over the arguments; or values of the metric.

    Raises
    ------
    ValueError
        If an argument is outside its range, or labels have no linear part.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    Where the error diverges the accuracy is 1/2.  A metric is taken of 65,536 pairs of quantiles:
    smooth ones are within 1e-3.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.accuracy`.  For contexts without pretraining see
    `iclimit.recurrent.classification_accuracy`, and Frei and Vardi, arXiv:2410.01774.

    Examples
    --------
    A mean squared error of 2.3 times that of predicting zero is right more often than not:

    >>> import numpy as np
    >>> from iclimit.pretraining import pretrained_accuracy
    >>> point = {"tau": 2, "alpha": 2, "kappa": 0.5}
    >>> pretrained_accuracy(**point, ridge=[0.0, 2.3]).icl.round(4)
    array([0.5792, 0.6232])

    The area under the ROC curve:

    >>> from scipy.stats import rankdata
    >>> def area(target, prediction):
    ...     positive = target > 0
    ...     count = np.sum(positive)
    ...     ranks = np.sum(rankdata(prediction)[positive]) - count * (count + 1) / 2
    ...     return ranks / (count * np.sum(~positive))
    >>> print(f"{pretrained_accuracy(**point, ridge=2.3, metric=area).icl:.3f}")
    0.672
    """
    math_, values = checked(
        systems="numpy", tau=tau, alpha=alpha, kappa=kappa, rho=rho, ridge=ridge, flips=flips
    )
    pairs = label_pairs(math_, values, effective_labels(link, values.rho, flips=values.flips))
    with math_.quiet():
        cosines = [math_.finish(_cosine(pair)) for pair in pairs]
    # Predictions in the sign of the labels: flips of more than half of them turn it.
    signs = np.sign(1 - 2 * values.flips)
    if metric is not None:
        if not callable(metric):
            raise TypeError(
                f"metric must be a function of targets and predictions, got {metric!r}"
            )
        return _measured(metric, [signs * cosine for cosine in cosines], values.flips)
    clean = [1 - np.arccos(signs * cosine) / np.pi for cosine in cosines]
    flipped = [(1 - values.flips) * own + values.flips * (1 - own) for own in clean]
    return PretrainedAccuracy(*(np.asarray(own)[()] for own in (*clean, *flipped)))


class Pair(NamedTuple):
    """Moments E z f and E f^2 of target and prediction, over the linear part of the labels."""

    mean: Value
    square: Value


def label_pairs(
    math_: Namespace, values: CheckedValues, labels: EffectiveLabels
) -> tuple[Pair, Pair]:
    """Pairs of fresh and of pretraining tasks, from checked arguments."""
    with math_.quiet():
        tau = values.tau
        q = context_noise(math_, values.alpha, labels.rho)
        penalty = np.minimum(values.ridge * labels.ridge_factor, _INFINITE_RIDGE)
        xi, eta = solve_fixed_point(math_, tau < 1, tau, q, values.kappa, penalty)
        return _pairs(math_, tau, values.kappa, labels.rho, q, xi, eta)


def _pairs(
    math_: Namespace, tau: Value, kappa: Value, rho: Value, q: Value, xi: Value, eta: Value
) -> tuple[Pair, Pair]:
    """Pairs of fresh and pretraining tasks, for linear labels with noise.

    Averages over c, the eigenvalues of the tasks, are in the form whose terms are all positive.
    """
    nu = q + xi
    M = resolvent(math_, nu, kappa, excess(math_, kappa, 1))
    more = M / kappa
    w = 1 + more
    r = 1 + nu * w**2
    _, idg = errors_at(math_, tau, kappa, rho, q, xi, eta)
    mean = M / w
    own = mean * (1 + nu * more)
    # <c^2/(c + nu)^2>, <c^3/(c + nu)^2> and <(c + q)^2/(c + nu)^2>
    square = mean * (1 + nu * w * more) / r
    cube = mean * (1 + nu * (w + 2) * more + nu**2 * w * more**2) / r
    features = square + (2 * q * mean * w + q**2 * M * w**2) / r
    A = M * (1 + q * w**2) / r
    fresh = Pair(mean, (1 + q) * (square + A * idg / tau))
    return fresh, Pair(own, cube + q * square + features * idg / tau)


def _cosine(pair: Pair) -> Value:
    """Correlation of z and f, which rounding may leave above 1."""
    return np.minimum(pair.mean / np.sqrt(pair.square), 1.0)


def _measured(metric: Metric, cosines: list[Value], flips: Value) -> PretrainedAccuracy:
    """Values of a metric at every point."""
    levels = ndtri((np.arange(_QUANTILES) + 0.5) / _QUANTILES)
    z = np.repeat(levels, _QUANTILES)
    other = np.tile(levels, _QUANTILES)
    order = np.arange(len(z)) * _GOLDEN % 1.0

    def of_pair(cosine: float, flipped: float) -> float:
        target = np.where(order < flipped, -z, z)
        return float(metric(target, cosine * z + np.sqrt(1 - cosine**2) * other))

    shape = broadcast_shape({"errors": cosines[0], "flips": flips})
    results = []
    for share in (np.zeros(shape), np.broadcast_to(flips, shape)):
        for cosine in cosines:
            pairs = zip(np.broadcast_to(cosine, shape).ravel(), share.ravel(), strict=True)
            numbers = [of_pair(float(own), float(flipped)) for own, flipped in pairs]
            results.append(np.reshape(numbers, shape)[()])
    return PretrainedAccuracy(*results)


def accurate_ridge(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number = 0.0,
    link: LinkLike = "sign",
    flips: Number = 0.0,
    objective: str = "icl",
) -> AccurateRidge:
    """Find the ridge with the largest accuracy of classification in context.

    Parameters
    ----------
    tau, alpha, kappa, rho, link
        As in `pretrained_accuracy`.
    flips : number or array in [0, 1/2)
        Probability that a label has the other sign.
    objective : {"icl", "idg"}
        Whether on fresh tasks or on the pretraining tasks.

    Returns
    -------
    AccurateRidge
        With fields ``ridge`` and ``accuracy``, NumPy floats or arrays.

    Raises
    ------
    ValueError
        If an argument is outside its range, or labels have no linear part.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    The ridge is accurate to about 1e-6.  For classes without noise, tau, alpha and kappa between
    0.2 and 10 and fresh tasks it is mostly .7 to 1.4 times the ridge with the least error.  With
    noise or flips it is larger, and often infinite: a prediction may shrink to nothing without a
    change of its sign.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.accuracy`.

    Examples
    --------
    >>> from iclimit.pretraining import accurate_ridge
    >>> best = accurate_ridge(tau=1.2, alpha=2, kappa=2)
    >>> round(float(best.accuracy), 4)
    0.6314
    """
    check_choice("objective", objective, ("icl", "idg"))
    math_, values = checked(
        systems="numpy",
        ranges={"flips": "[0, 0.5)"},
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        flips=flips,
    )
    shape, points = flattened(values)
    labels = effective_labels(link, points.rho, flips=points.flips)
    place = 0 if objective == "icl" else 1
    with math_.quiet():
        q = context_noise(math_, points.alpha, labels.rho)
        first = ridgeless_point(math_, points.tau < 1, points.tau, q, points.kappa)
        arguments = (points.tau, q, points.kappa, first[0], labels.rho)
        missed = partial(_missed, math_, place)
        step, value = find_minimum(math_, missed, _SCAN, arguments)
        xi, eta = _beyond(math_, step, *arguments)
        plain = _cosine(_pairs(math_, points.tau, points.kappa, labels.rho, q, *first)[place])
        better = (step > _SCAN[0]) & (-value > plain + _BETTER)
        endless = value > missed(_SCAN[-1], *arguments) - _BETTER
        largest = np.where(endless, np.inf, xi * eta * labels.factor)
        ridge = np.where(better, largest, 0.0)
        accuracy = math_.finish(1 - np.arccos(np.maximum(-value, plain)) / np.pi)
    return AccurateRidge(np.reshape(ridge, shape)[()], np.reshape(accuracy, shape)[()])


def _beyond(
    math_: Namespace, step: Value, tau: Value, q: Value, kappa: Value, start: Value, *_: Value
) -> tuple[Value, Value]:
    """Numbers xi and eta so many logarithms of 1 + q beyond the ridgeless xi."""
    xi = start + (1 + q) * np.exp(step)
    M = resolvent(math_, q + xi, kappa, excess(math_, kappa, 1))
    return xi, np.maximum(excess(math_, tau, 1) + xi * M / tau, 0.0)


def _missed(math_: Namespace, place: int, step: Value, *setting: Value) -> Value:
    """Cosine of targets and predictions there, with a minus; of fresh or pretraining tasks."""
    tau, q, kappa, _, rho = setting
    xi, eta = _beyond(math_, step, *setting)
    return -_cosine(_pairs(math_, tau, kappa, rho, q, xi, eta)[place])
