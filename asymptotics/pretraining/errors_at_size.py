r"""Errors at a finite size in closed form: the limit with its largest corrections of order 1/d.

Isotropic inputs, tasks on the sphere.  All labels have the variance :math:`v = 1 + \rho`.  In the
eigenbasis of the task covariance, with eigenvalues c and the mean task m, the moments of
`iclimit.asymptotics.pretraining.deterministic_equivalent` are

.. math:: G = \begin{pmatrix} D & b\,m \\ b\,m^\top & b\,v \end{pmatrix}, \qquad
   D = q + s\,c, \qquad q = \frac{d v}\ell, \qquad s = 1 + \frac1\ell, \qquad
   b = \bigl(1 + \tfrac2\ell\bigr) v .

Three things are taken from there: these moments instead of their limits, d (d + 1) features
instead of d^2, and leverages that fluctuate.  Sums over eigenvalues become averages over the
Marchenko-Pastur law, with :math:`m_i^2 = c_i/k` on average, so that no task set is drawn.  Of the
variance of the leverages only the order 1/d is kept: with :math:`K = 1/(D + \xi)`,
:math:`a = \langle c K\rangle` and :math:`g = a + q \langle K \rangle`,

.. math:: \frac{1}{d\,g^2} \Bigl\{\frac2\alpha (a + g)^2 + 2 q^2 \langle K^2\rangle
   + 4 q \Bigl(\langle c K^2\rangle - \frac{a^2}v\Bigr) + 2 \Bigl[\langle c^2 K^2 \rangle
   - \frac{a^2}\kappa - \Bigl(\langle c^2 K\rangle - \frac a\kappa\Bigr)^2\Bigr]\Bigr\}

for the summary, and 2/d for the query.  Their product is taken as one Gamma variable u, whose
means of :math:`u/(t + u)` are a continued fraction: its convergents are the Gauss rules.

Of 300 drawn settings, 97 % are within `LOSS`/d of the prediction task by task, one half within
0.3/d.  Without a ridge, in contexts of more than about 10 d pairs, the ICL error is up to 8/d too
low: at tau = 0.7, alpha = 100, kappa = 1, rho = 0.3 by 6.0/d at d = 12 and 8.3/d at d = 40.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from iclimit.asymptotics.checks import CheckedValues, flattened
from iclimit.asymptotics.numbers import Namespace, Number, Value, numpy_namespace
from iclimit.asymptotics.pretraining.fluctuations import averages
from iclimit.asymptotics.pretraining.icl import ridge_bracket
from iclimit.asymptotics.searches import find_root

# Relative difference from the prediction task by task, times d, that 97 % of settings keep.
LOSS = 3.0

# Levels of the continued fraction: nodes of the Gauss rule that it stands for.
_ORDER = 16

# Relative widening of brackets: rounding must not hide the change of sign.
_SLACK = 1e-9

# Bound on the mean of 1/u, down to contexts of some four pairs.
_SHORTEST = 100.0

# Dimension, tasks, context and rho: the law of a prompt.
Law: TypeAlias = tuple[Value, ...]
_LAW = ("dim", "tasks", "context", "rho")


class _Summaries:
    """Averages over the eigenvalues of the tasks, at an effective ridge xi."""

    def __init__(self, math_: Namespace, law: Law, xi: Value) -> None:
        self.dim, tasks, self.context, rho = law
        self.kappa = tasks / self.dim
        self.xi = xi
        self.label = 1 + rho
        self.cross = (1 + 2 / self.context) * self.label
        self.flat = self.dim * self.label / self.context
        self.slope = 1 + 1 / self.context
        self._averages = averages(math_, (self.flat + xi) / self.slope, self.kappa)

    def average(self, power: int, order: int) -> Value:
        """Average of c^power K^order."""
        return self._averages[power][order] / self.slope**order

    def freedom(self) -> Value:
        """Degrees of freedom over the number of features."""
        return 1 - self.xi * self.average(0, 1)

    def second_freedom(self) -> Value:
        """Degrees of freedom of the variance, over the number of features."""
        return 1 - self.xi * (2 * self.average(0, 1) - self.xi * self.average(0, 2))

    def variance(self) -> Value:
        """Variance of the leverages (module docstring)."""
        a = self.average(1, 1)
        g = a + self.flat * self.average(0, 1)
        labels = 2 * self.dim / self.context * (a + g) ** 2
        noise = 2 * self.flat**2 * self.average(0, 2)
        cross = 4 * self.flat * (self.average(1, 2) - a**2 / self.label)
        shared = self.average(2, 1) - a / self.kappa
        tasks = 2 * (self.average(2, 2) - a**2 / self.kappa - shared**2)
        summary = (labels + noise + cross + tasks) / (g**2 * self.dim)
        return summary + 2 / self.dim * (1 + summary)

    def complement(self) -> Value:
        """Schur complement of the last entry of the summary."""
        corner = self.cross * self.label + self.xi
        return corner - self.cross**2 * self.average(1, 1) / self.kappa

    def column(self) -> Value:
        """Square of the last column of Gamma over d: what it predicts of the mean task."""
        linear = 2 * self.label * self.cross * self.average(2, 1)
        square = self.label**2 - linear + self.cross**2 * self.average(3, 2)
        return square / (self.complement() ** 2 * self.kappa * self.dim)

    def risk(self) -> Value:
        """Error of Gamma on training tasks."""
        product = self.average(2, 1) + self.complement() * self.column()
        return self.label - product - self.xi * (self.head() + self.column())

    def fresh_risk(self) -> Value:
        """Error of Gamma on fresh tasks."""
        mixed = self.label * self.average(1, 1) - self.cross * self.average(2, 2)
        trace = self.average(1, 1) - self._bent() * mixed
        squares = (self.flat + self.slope) * self.head()
        squares = squares + self.cross * self.label * self.column()
        return self.label + squares - 2 * trace

    def head(self) -> Value:
        """Square of the other columns of Gamma over d."""
        mixed = self.label * self.average(2, 2) - self.cross * self.average(3, 3)
        size = self.cross**2 * self.average(1, 2) / self.kappa
        return self.average(2, 2) - 2 * self._bent() * mixed + self.column() * size

    def _bent(self) -> Value:
        return self.cross / (self.complement() * self.kappa * self.dim)


def _fraction(t: Value, variance: Value) -> tuple[Value, Value]:
    """Mean of u/(t + u) and of u/(t + u)**2, u from a Gamma law of mean 1.

    The continued fraction of the Stieltjes transform, from the recurrence of Laguerre polynomials.
    """
    shape = 1 / variance + 1
    # The last level of the Gauss rule for the law of u, seen from the law weighted with u.
    value = t + 1 + (_ORDER - 1) * variance
    slope = 1.0
    for n in reversed(range(_ORDER - 1)):
        square = (n + 1) * (n + shape) * variance**2
        slope = 1 + square * slope / value**2
        value = t + (2 * n + shape) * variance - square / value
    return 1 / value, slope / value**2


def errors_at_size(
    *,
    dim: Number,
    tasks: Number,
    context: Number,
    prompts: Number,
    rho: Number,
    ridge: Number = 0.0,
) -> tuple[Value, Value]:
    r"""ICL and IDG error at a finite size, without drawing tasks.

    Parameters
    ----------
    dim, tasks, context, prompts, rho, ridge : array_like
        As for `iclimit.asymptotics.pretraining.finite_size_errors`, which is more accurate; they
        need not be integers.  They broadcast.

    Returns
    -------
    icl, idg : float or ndarray
        Errors; ``inf`` at the interpolation threshold, and where no variance solves its equation.
        They mean nothing for a single task with hardly any noise or ridge, whose moments are
        singular.

    Raises
    ------
    ArithmeticError
        If float64 does not solve an equation.
    """
    given = {"dim": dim, "tasks": tasks, "context": context}
    given |= {"prompts": prompts, "rho": rho, "ridge": ridge}
    math_ = numpy_namespace(given)
    values = CheckedValues(**{name: math_.convert(value) for name, value in given.items()})
    shape, points = flattened(values)
    law = points.dim, points.tasks, points.context, points.rho
    ridge = points.ridge
    tau = points.prompts / (points.dim * (points.dim + 1))

    with math_.quiet():
        few = (ridge == 0) & (tau < 1)
        xi = np.zeros_like(tau)
        free = few | (ridge > 0)
        xi[free] = _plain_ridge(math_, [value[free] for value in law], tau[free], ridge[free])
        variance = _Summaries(math_, law, xi).variance()
        t = np.zeros_like(tau)
        free = (ridge > 0) | (tau > 1)
        t[free] = _leverage_scale(
            math_, [value[free] for value in law], variance[free], tau[free], ridge[free]
        )
        share, slope = _fraction(t, variance)
        xi = np.where(ridge > 0, ridge / (t * share), xi)
        icl, idg = _errors(math_, law, tau, xi, t, share, slope)
        singular = (ridge == 0) & (tau == 1)
        icl = np.where(singular, np.inf, icl).reshape(shape)
        idg = np.where(singular, np.inf, idg).reshape(shape)
    return math_.finish(icl), math_.finish(idg)


def _plain_ridge(math_: Namespace, law: Any, tau: Value, ridge: Value) -> Value:
    """Effective ridge for leverages that do not fluctuate."""
    start = _Summaries(math_, law, np.zeros_like(tau))
    # The least and the mean variance of a feature bound the effective ridge.
    lower = np.log(ridge_bracket(math_, tau, start.flat, ridge))
    upper = np.log(ridge_bracket(math_, tau, start.flat + start.slope, ridge))

    def residual(log_xi: Value, tau: Value, ridge: Value, *law: Value) -> Value:
        xi = np.exp(log_xi)
        return tau * (1 - ridge / xi) - _Summaries(math_, law, xi).freedom()

    setting = {"tau": tau, "ridge": ridge} | dict(zip(_LAW, law, strict=True))
    bracket = lower - _SLACK, upper + _SLACK
    return np.exp(find_root(math_, residual, bracket, setting, "effective ridge"))


def _leverage_scale(
    math_: Namespace, law: Any, variance: Value, tau: Value, ridge: Value
) -> Value:
    """Root t of f(t) = freedom/tau at the effective ridge ridge/(t f(t))."""
    start = _Summaries(math_, law, np.zeros_like(tau))

    def residual(log_t: Value, variance: Value, tau: Value, ridge: Value, *law: Value) -> Value:
        t = np.exp(log_t)
        f, _ = _fraction(t, variance)
        return f - _Summaries(math_, law, ridge / (t * f)).freedom() / tau

    # f is 1/(1 + t) at most, and at least 1/(1 + t + variance); the freedom is bounded by the
    # means of the variances of features and of their reciprocals.
    mean = start.flat + start.slope
    lower = np.maximum((1 - 1 / tau) / _SHORTEST, ridge * tau / mean / 2)
    upper = 2 * np.maximum(1 + variance, (1 + 2 * ridge * start.average(0, 1)) * tau)
    setting = {"variance": variance, "tau": tau, "ridge": ridge}
    setting |= dict(zip(_LAW, law, strict=True))
    bracket = np.log(lower), np.log(upper)
    return np.exp(find_root(math_, residual, bracket, setting, "scale of the leverages"))


def _errors(
    math_: Namespace, law: Law, tau: Value, xi: Value, t: Value, share: Value, slope: Value
) -> tuple[Value, Value]:
    """ICL and IDG error at the effective ridge, for leverages of these means at the scale t."""
    summaries = _Summaries(math_, law, xi)
    best = _Summaries(math_, law, np.zeros_like(xi))
    rho = law[-1]
    # What the best Gamma misses, without differences of large numbers.
    misfit = best.flat * best.average(1, 1) + best.average(2, 1) / best.context
    misfit = misfit - best.complement() * best.column()
    freedom = summaries.second_freedom()
    factor = freedom / tau / share**2
    inflation = factor * (share - t * slope)
    bias = summaries.risk() - misfit - rho
    variance = (factor * slope * (rho + misfit) + inflation * bias) / (1 - inflation)
    variance = np.where(inflation < 1, variance, np.inf)
    fresh = summaries.flat + summaries.slope
    transfer = fresh * (summaries.average(0, 1) - xi * summaries.average(0, 2)) / freedom
    return summaries.fresh_risk() + variance * transfer, summaries.risk() + variance
