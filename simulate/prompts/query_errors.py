r"""Test error of a reduced matrix on prompts whose query continues correlated tokens, exactly.

Inputs have :math:`E\, x_i x_j^\top = K_{ij} I/d`, the query :math:`E\, x_i x_q^\top = k_i I/d`,
and the task does not drift, :math:`|w|^2 = d`.  As in
`iclimit.simulate.prompts.correlated_summaries` query and summary are, with :math:`\hat w =
w/\sqrt d`,

.. math:: x_q = \frac{a \hat w + u}{\sqrt d}, \qquad
   h = (\chi \hat w + \sigma u + \tau v,\ \eta),

with white noise u and v across w, of covariance :math:`P = 1 - \hat w \hat w^\top`, that is
independent of the five numbers :math:`a, \chi, \sigma, \tau, \eta`.  Given these, and with
:math:`\Gamma = (H, \gamma)`, :math:`m = \chi H \hat w + \eta \gamma`, averages over u and v give

.. math::

   d\, E (x_q^\top \Gamma h)^2 &= E\, a^2 (\hat w^\top m)^2 + m^\top P m
   + (\sigma^2 + \tau^2) (a^2\, \hat w^\top H P H^\top \hat w + \operatorname{tr} P H P H^\top) \\
   &\quad + \sigma^2 \bigl[(\operatorname{tr} P H)^2 + \operatorname{tr} P H P H\bigr]
   + 2 a \sigma \bigl[\hat w^\top m \operatorname{tr} P H + \hat w^\top H P m\bigr], \\
   \sqrt d\, E\, a\, x_q^\top \Gamma h
   &= E\, a^2\, \hat w^\top m + a \sigma \operatorname{tr} P H .

The label of the query is a and noise.  Labels y, the components s of the inputs along w and a are
jointly Gaussian, and :math:`a^2`, :math:`a \sigma`, :math:`\sigma^2`, :math:`\sigma^2 + \tau^2`,
:math:`\chi` and :math:`\eta` are quadratic forms in them, products of up to three of which have
means that are traces of products of matrices.  Averages over tasks of the sphere replace terms in
w by invariants of H, such as :math:`(\hat w^\top H \hat w)^2` by
:math:`[(\operatorname{tr} H)^2 + \operatorname{tr} H^2 + \operatorname{tr} H H^\top]/(d (d + 2))`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from iclimit.problem import Problem
from iclimit.simulate.arrays import to_host


@dataclass(frozen=True)
class ContextMeans:
    """Means of products of the numbers of a context; names say which, ``a2`` is a squared.

    ``power`` is the sum of the squares of sigma and tau.
    """

    a2_chi: float
    a2_eta: float
    a_sigma: float
    chi2: float
    chi_eta: float
    eta2: float
    a2_chi2: float
    a2_chi_eta: float
    a2_eta2: float
    sigma2: float
    power: float
    a2_power: float
    a_sigma_chi: float
    a_sigma_eta: float

    @classmethod
    def of(cls, problem: Problem, gates: ArrayLike | None) -> ContextMeans:
        """Moments for the context of a problem, whose pairs are weighed by gates or not."""
        d = problem.dim
        context = problem.context
        g = np.ones(context) if gates is None else to_host(gates)
        times = np.arange(context + 1)
        # Inputs along the task, that of the query last, and noise of the labels of pairs.
        covariance = np.zeros((2 * context + 1,) * 2)
        covariance[: context + 1, : context + 1] = problem.kernel[np.abs(times[:, None] - times)]
        covariance[context + 1 :, context + 1 :] = problem.noise_variance * np.eye(context)
        inputs = np.eye(context, 2 * context + 1)
        labels = inputs + np.eye(context, 2 * context + 1, context + 1)
        query = np.eye(1, 2 * context + 1, context)
        weighted = g[:, None] * labels / context
        K = covariance[:context, :context]
        sigma = math.sqrt(d) * covariance[context : context + 1, :context] @ weighted

        mean = partial(_mean_product, covariance)
        a2 = query.T @ query
        a_sigma = query.T @ sigma
        sigma2 = sigma.T @ sigma
        chi = math.sqrt(d) * weighted.T @ inputs
        eta = weighted.T @ labels
        power = d * weighted.T @ K @ weighted
        return cls(
            mean(a2, chi),
            mean(a2, eta),
            mean(a_sigma),
            mean(chi, chi),
            mean(chi, eta),
            mean(eta, eta),
            mean(a2, chi, chi),
            mean(a2, chi, eta),
            mean(a2, eta, eta),
            mean(sigma2),
            mean(power),
            mean(a2, power),
            mean(a_sigma, chi),
            mean(a_sigma, eta),
        )


@dataclass(frozen=True)
class _Averages:
    """Averages over tasks of terms in H, the last column and the directions of the tasks."""

    once: Any  # w H w
    last: Any  # w gamma
    square: Any  # (w H w)^2
    mixed: Any  # w H w, w gamma
    last_square: Any  # (w gamma)^2
    pushed: Any  # w H' P H w
    pulled: Any  # w H P H' w
    pushed_last: Any  # w H' P gamma
    last_across: Any  # gamma P gamma
    trace: Any  # tr PH
    trace_square: Any
    product: Any  # tr PHPH
    norm: Any  # tr PHPH'
    once_trace: Any  # w H w tr PH
    last_trace: Any  # w gamma tr PH
    twice: Any  # w H P H w
    twice_last: Any  # w H P gamma


def correlated_query_error(
    gamma: Any, moments: ContextMeans, noise_variance: float, task_set: Any
) -> float:
    """Mean squared error on noisy query labels, for tasks (k, d) or fresh ones of the sphere."""
    host = np.asarray(to_host(gamma))
    d = len(host)
    over = _of_sphere(host) if task_set is None else _of_set(host, to_host(task_set))
    e = moments
    square = e.a2_chi2 * over.square + 2 * e.a2_chi_eta * over.mixed + e.a2_eta2 * over.last_square
    square += e.chi2 * over.pushed + 2 * e.chi_eta * over.pushed_last + e.eta2 * over.last_across
    square += e.a2_power * over.pulled + e.power * over.norm
    square += e.sigma2 * (over.trace_square + over.product)
    square += 2 * e.a_sigma_chi * (over.once_trace + over.twice)
    square += 2 * e.a_sigma_eta * (over.last_trace + over.twice_last)
    linear = e.a2_chi * over.once + e.a2_eta * over.last + e.a_sigma * over.trace
    return float(1 + noise_variance - 2 * linear / math.sqrt(d) + square / d)


def _of_set(gamma: np.ndarray, tasks: np.ndarray) -> _Averages:
    d = len(gamma)
    H = gamma[:, :d]
    last = gamma[:, d]
    w = tasks / math.sqrt(d)
    # H w and H' w
    pushed = w @ H.T
    pulled = w @ H
    once = np.sum(w * pushed, axis=1)
    w_last = w @ last
    trace = np.trace(H) - once
    twice = np.sum(pulled * pushed, axis=1)
    lengths = np.sum(pushed**2, axis=1)
    widths = np.sum(pulled**2, axis=1)
    terms = (
        *(once, w_last, once**2, once * w_last, w_last**2),
        *(lengths - once**2, widths - once**2, pushed @ last - once * w_last),
        *(last @ last - w_last**2, trace, trace**2),
        np.sum(H * H.T) - 2 * twice + once**2,
        np.sum(H**2) - lengths - widths + once**2,
        *(once * trace, w_last * trace, twice - once**2, pulled @ last - once * w_last),
    )
    return _Averages(*(np.mean(term) for term in terms))


def _of_sphere(gamma: np.ndarray) -> _Averages:
    d = len(gamma)
    H = gamma[:, :d]
    last = gamma[:, d]
    trace = np.trace(H)
    product = np.sum(H * H.T)
    norm = np.sum(H**2)
    length = last @ last
    square = (trace**2 + product + norm) / (d * (d + 2))
    return _Averages(
        *(trace / d, 0.0, square, 0.0, length / d, norm / d - square, norm / d - square, 0.0),
        *(length * (1 - 1 / d), trace * (1 - 1 / d), trace**2 * (1 - 2 / d) + square),
        *(product * (1 - 2 / d) + square, norm * (1 - 2 / d) + square),
        *(trace**2 / d - square, 0.0, product / d - square, 0.0),
    )


def _mean_product(covariance: np.ndarray, *forms: np.ndarray) -> float:
    """Mean of the product of up to three quadratic forms of Gaussian variables."""
    factors = [covariance @ (form + form.T) / 2 for form in forms]
    first = factors[0]
    value = np.trace(first)
    if len(factors) > 1:
        second = factors[1]
        value = value * np.trace(second) + 2 * np.trace(first @ second)
    if len(factors) == 3:
        third = factors[2]
        value = value * np.trace(third) + 8 * np.trace(first @ second @ third)
        value += 2 * np.trace(first) * np.trace(second @ third)
        value += 2 * np.trace(second) * np.trace(first @ third)
    return float(value)
