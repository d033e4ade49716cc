r"""Prediction from mean moments by the eigenvalues of the tasks, without their matrices.

For isotropic inputs and tasks on the sphere :math:`|w|^2 = d` all labels have the variance
:math:`v = 1 + \rho`, and in the eigenbasis of the task covariance, with eigenvalues :math:`r_i`
and the components :math:`m_i` of the mean task, the moments of
`iclimit.asymptotics.pretraining.deterministic_equivalent` are

.. math:: G = \begin{pmatrix} D & c\,m \\ c\,m^\top & c\,v \end{pmatrix}, \qquad
   A = \begin{pmatrix} \operatorname{diag} r \\ v\,m^\top \end{pmatrix}, \qquad
   D_i = \tfrac{d v}\ell + \bigl(1 + \tfrac1\ell\bigr) r_i, \qquad
   c = \bigl(1 + \tfrac2\ell\bigr) v .

The inverse of :math:`G + \xi` has one Schur complement,
:math:`s = c v + \xi - c^2 \sum_i m_i^2/(D_i + \xi)`, so all traces are sums over the eigenvalues.

The leverage of a prompt has the same law but for two parts, so that the errors are those of the
matrices up to 3/d^2:

- The variance over the tasks of :math:`w^\top (D + \xi)^{-1} w` is that for random left singular
  vectors of the task set, given the norm of each task.
- The squared norm of the query has three nodes instead of sixteen.

The rule for the other factor of the leverage, a Gamma variable, is a continued fraction: its
convergents are the Gauss rules for the mean of :math:`1/(t + u)`, and no nodes are needed.
"""

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import CheckedValues, flattened
from iclimit.asymptotics.numbers import Namespace, Number, Value, numpy_namespace
from iclimit.asymptotics.pretraining.icl import ridge_bracket
from iclimit.asymptotics.searches import find_root

# Nodes of the rule that a continued fraction stands for, as in the equivalent with matrices.
_ORDER = 16

# Relative widening of brackets: rounding must not hide the change of sign.
_SLACK = 1e-9

# Several numbers or arrays: of a spectrum, of a law.
Values: TypeAlias = Sequence[Value]

# What the law of a prompt is made of.
_LAW = ("tasks", "context", "rho")

# Bound on the mean of 1/u in the rules, down to contexts of some four pairs.
_SHORTEST = 100.0


class _Summaries:
    """Second moments of the summaries for one spectrum and arrays of the other parameters.

    The index of an eigenvalue is the last one; ``xi``, the effective ridge, has none.
    """

    def __init__(self, spectrum: Values, law: Values, xi: Value) -> None:
        self.r, self.mean_square = spectrum
        self.tasks, context, rho = law
        self.dim = _dimension(self.r)
        self.context = context
        self.xi = xi
        self.label = 1 + rho
        self.cross = (1 + 2 / context) * self.label
        self.corner = self.cross * self.label
        self.flat = self.dim * self.label / context
        self.head = _each(self.flat) + _each(1 + 1 / context) * self.r
        self.D = self.head + _each(xi)
        # Squares of the components of c m/(D + xi).
        self.arrow = _each(self.cross**2) * self.mean_square / self.D**2
        self.size = _sum(self.arrow)
        self.schur = self.corner + xi - _sum(self.arrow * self.D)

    def inverse_trace(self) -> Value:
        r"""Trace of :math:`(G + \xi)^{-1}`."""
        return _sum(1 / self.D) + (1 + self.size) / self.schur

    def trace(self) -> Value:
        """Trace of G."""
        return _sum(self.head) + self.corner

    def last(self) -> Value:
        r"""Last diagonal entry of :math:`G (G + \xi)^{-2}`, times the squared complement."""
        return self.corner - _sum(self.arrow * (self.D + _each(self.xi)))

    def freedom(self) -> Value:
        r"""Degrees of freedom, :math:`\operatorname{tr} G (G + \xi)^{-1}`."""
        return _sum(self.head / self.D) + self.last() / self.schur

    def second_freedom(self) -> Value:
        r"""Degrees of freedom of the variance, :math:`\operatorname{tr} [G (G + \xi)^{-1}]^2`."""
        bent = self.xi / self.schur
        mixed = _sum(self.arrow * self.head / self.D)
        outer = (bent * self.size) ** 2 + 2 * bent**2 * self.size
        return _sum((self.head / self.D) ** 2) - 2 * bent * mixed + outer + (1 - bent) ** 2

    def transferred(self, head: Number, corner: Any) -> Value:
        r"""Trace of a diagonal matrix times :math:`(G + \xi)^{-1} G (G + \xi)^{-1}`."""
        squares = 2 * _sum(self.arrow / self.D) + self.size * (self.size + 1) / self.schur
        first = _sum(self.head / self.D**2) + (self.size - self.xi * squares) / self.schur
        return head * first + corner * self.last() / self.schur**2

    def weights(self) -> tuple[Value, Value, Value, Value]:
        r"""Squares of :math:`\Gamma = A^\top (G + \xi)^{-1}`: of its head and of its last column.

        Then the trace of the head, and that of :math:`\Gamma A`.
        """
        ratio = self._ratio()
        column = _sum(ratio**2 * self.arrow)
        head = _sum((self.r / self.D) ** 2) - 2 * _sum(ratio * self.arrow * self.r / self.D)
        trace = _sum(self.r / self.D) - _sum(ratio * self.arrow)
        product = _sum(self.r**2 / self.D) + self.schur * column
        return head + column * self.size, column, trace, product

    def _ratio(self) -> Value:
        r"""Components of the last column of :math:`\Gamma` over those of c m/(D + xi)."""
        return (_each(self.label) * self.D / _each(self.cross) - self.r) / _each(self.schur)

    def misfit(self) -> Value:
        r"""Irreducible misfit at :math:`\xi = 0`, without differences of large numbers."""
        ratio = self._ratio()
        seen = _sum(self.r * (_each(self.flat) + self.r / _each(self.context)) / self.D)
        return (seen - self.schur * _sum(ratio**2 * self.arrow)) / self.dim

    def variance(self) -> Value:
        r"""Variance of :math:`h^\top (G + \xi)^{-1} h` over its squared mean.

        As `deterministic_equivalent.quadratic_form_variance`, with means over the tasks.
        """
        bent = 1 / self.schur
        energy = self.dim * self.label
        side = self.label * bent
        spread = self._spread()
        # Means over the tasks of w'Hw and |Hw|^2, H being the head of the inverse.
        turned = _sum(self.arrow * self.r)
        form = _sum(self.r / self.D) + bent * turned
        pushed = 2 * _sum(self.arrow * self.r / self.D) + bent * turned * self.size
        pushed = _sum(self.r / self.D**2) + bent * pushed
        trace = _sum(1 / self.D) + bent * self.size
        squares = 2 * _sum(self.arrow / self.D) + bent * self.size**2
        squares = _sum(1 / self.D**2) + bent * squares
        # The mean task along c m/(D + xi), and H times that.
        overlap = _sum(self.arrow * self.D) / self.cross
        tilted = self.size / self.cross + bent * overlap * self.size
        signal = form + side * (self.label - 2 * overlap)
        sides = pushed - 2 * side * tilted + side**2 * self.size
        sides = sides - ((form - side * overlap) ** 2 + spread) / energy
        noise = self.flat * (trace - form / energy)
        noises = squares - 2 * pushed / energy + (form / energy) ** 2
        noises = 2 * self.flat**2 * noises + 2 * spread / self.context**2
        second = 1 + 2 / self.context
        third = second * (1 + 4 / self.context)
        fourth = third * (1 + 6 / self.context)
        variance = (
            (fourth - second**2) * (signal**2 + spread)
            + 2 * (third - second) * (signal * noise - spread / self.context)
            + (second - 1) * (noise**2 + spread / self.context**2)
            + second * noises
            + 4 * third * self.flat * sides
            + (second - 1 / self.context) ** 2 * spread
        )
        return variance / (second * signal + noise) ** 2

    def _spread(self) -> Value:
        """Variance over the tasks of their quadratic form, given their norms."""
        form = self.r / self.D

        def covariance(a: Value, b: Value) -> Value:
            return 2 / (1 + 2 / self.tasks) * (_sum(a * b) - _sum(a) * _sum(b) / self.tasks)

        # The norms of a single task do not vary.
        norms = np.maximum(covariance(self.r, self.r), 1e-12 * self.dim**2)
        return covariance(form, form) - covariance(form, self.r) ** 2 / norms


def _each(value: Value) -> Value:
    """Parameter for all eigenvalues."""
    return np.expand_dims(value, -1)


def _sum(values: Value) -> Value:
    return np.sum(values, axis=-1)


def _dimension(eigenvalues: Value) -> Value:
    """Sum of the eigenvalues, which is an integer but for rounding."""
    return np.floor(_sum(eigenvalues) + 0.5)


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


def _query_rule(dim: Value) -> tuple[Value, Value]:
    """Nodes and weights for the squared norm of a query, along the last axis."""
    shape = dim / 2
    # Roots of the cubic Laguerre polynomial.
    angle = np.arctan2(np.sqrt(shape + 1), 1) / 3 + 2 * math.pi / 3 * np.arange(3)
    nodes = (shape + 2 + 2 * np.sqrt(shape + 2) * np.cos(angle)) / shape
    weights = []
    for i in range(3):
        x = nodes[..., (i + 1) % 3]
        y = nodes[..., (i + 2) % 3]
        distance = (nodes[..., i] - x) * (nodes[..., i] - y)
        weights.append((1 + 1 / shape - x - y + x * y) / distance)
    return nodes, np.stack(weights, axis=-1)


def _mean_share(t: Value, variance: Value, dim: Value) -> Value:
    """Mean f of u/(t + u) over leverages u."""
    q, weight = _query_rule(dim)
    return _sum(weight * _fraction(_each(t) / q, _each(variance))[0])


def spectral_errors(
    eigenvalues: ArrayLike,
    mean_square: Number,
    *,
    tasks: Number,
    context: Number,
    prompts: Any,
    rho: Number,
    ridge: Number = 0.0,
) -> tuple[Value, Value]:
    r"""ICL and IDG error of a run whose tasks on the sphere have a given spectrum.

    Parameters
    ----------
    eigenvalues : array (d,)
        Those of the task covariance :math:`\frac1k \sum_a w_a w_a^\top`, with the zeros; their sum
        is d.
    mean_square : array (d,)
        Squared components of the mean task along the eigenvectors.
    tasks, context, prompts, rho, ridge : array_like
        As for `iclimit.asymptotics.pretraining.finite_size_errors`; context and prompts need not
        be integers.  They broadcast.

    Returns
    -------
    icl, idg : float or ndarray
        Errors; ``inf`` at the interpolation threshold, and where no variance solves its equation.

    Raises
    ------
    ArithmeticError
        If float64 does not solve an equation.
    """
    sizes = {"tasks": tasks, "context": context, "prompts": prompts}
    math_ = numpy_namespace(sizes | {"rho": rho, "ridge": ridge})
    spectrum = math_.convert(eigenvalues), math_.convert(mean_square)
    values = CheckedValues(
        tasks=math_.convert(tasks),
        context=math_.convert(context),
        prompts=math_.convert(prompts),
        rho=math_.convert(rho),
        ridge=math_.convert(ridge),
    )
    shape, points = flattened(values)
    law = points.tasks, points.context, points.rho
    ridge = points.ridge
    dim = _dimension(spectrum[0])
    samples = points.prompts / dim

    with math_.quiet():
        few = (ridge == 0) & (samples < dim + 1)
        plain = _plain_ridge(math_, spectrum, law, samples, ridge, few | (ridge > 0))
        leverage = _Summaries(spectrum, law, plain).variance()
        t = np.zeros_like(plain)
        xi = plain * 1.0
        free = (ridge > 0) | (samples > dim + 1)
        t[free] = _leverage_scale(
            math_, spectrum, [v[free] for v in law], leverage[free], samples[free], ridge[free]
        )
        share = _mean_share(t, leverage, dim)
        xi = np.where(ridge > 0, ridge / (t * share), xi)
        icl, idg = _errors(spectrum, law, samples, xi, t, share, leverage)
        singular = (ridge == 0) & (samples == dim + 1)
        icl = np.where(singular, np.inf, icl).reshape(shape)
        idg = np.where(singular, np.inf, idg).reshape(shape)
    return math_.finish(icl), math_.finish(idg)


def _plain_ridge(
    math_: Namespace, spectrum: Values, law: Values, samples: Value, ridge: Value, free: Value
) -> Value:
    """Effective ridge for leverages that do not fluctuate; 0 if ridgeless and determined."""
    zero = np.zeros_like(samples)
    start = _Summaries(spectrum, law, zero)
    features = start.dim + 1
    # By convexity the harmonic and the arithmetic mean eigenvalue bound the effective ridge.
    least = features / start.inverse_trace()
    most = start.trace() / features

    def residual(log_xi: Value, samples: Value, ridge: Value, *law: Value) -> Value:
        xi = np.exp(log_xi)
        return samples * (1 - ridge / xi) - _Summaries(spectrum, law, xi).freedom()

    values = [value[free] for value in (samples, ridge, *law)]
    setting = dict(zip(("samples", "ridge", *_LAW), values, strict=True))
    tau = values[0] / features
    lower = np.log(ridge_bracket(math_, tau, least[free], values[1]))
    upper = np.log(ridge_bracket(math_, tau, most[free], values[1]))
    bracket = lower - _SLACK, upper + _SLACK
    zero[free] = np.exp(find_root(math_, residual, bracket, setting, "effective ridge"))
    return zero


def _leverage_scale(
    math_: Namespace, spectrum: Values, law: Values, leverage: Value, samples: Value, ridge: Value
) -> Value:
    """Root t of f(t) = df1/samples at the effective ridge ridge/(t f(t))."""
    start = _Summaries(spectrum, law, np.zeros_like(samples))
    dim = start.dim
    share = (dim + 1) / samples

    def residual(
        log_t: Value, leverage: Value, samples: Value, ridge: Value, *law: Value
    ) -> Value:
        t = np.exp(log_t)
        f = _mean_share(t, leverage, dim)
        return f - _Summaries(spectrum, law, ridge / (t * f)).freedom() / samples

    # f is 1/(1 + t) at most, and at least 1/(1 + t + variance); df1 is bounded by the means of the
    # eigenvalues and of their reciprocals.
    lower = np.maximum((1 - share) / _SHORTEST, ridge * samples / start.trace() / 2)
    stiff = 1 + 2 * ridge * start.inverse_trace() / (dim + 1)
    upper = 2 * np.maximum((1 + leverage) * (1 + 2 / dim), stiff / share)
    setting = {"leverage": leverage, "samples": samples, "ridge": ridge}
    setting |= dict(zip(_LAW, law, strict=True))
    bracket = np.log(lower), np.log(upper)
    return np.exp(find_root(math_, residual, bracket, setting, "scale of the leverages"))


def _errors(
    spectrum: Values,
    law: Values,
    samples: Value,
    xi: Value,
    t: Value,
    share: Value,
    leverage: Value,
) -> tuple[Value, Value]:
    """ICL and IDG error at the effective ridge, for leverages of mean share f at the scale t."""
    summaries = _Summaries(spectrum, law, xi)
    dim = summaries.dim
    rho = law[2]
    misfit = _Summaries(spectrum, law, np.zeros_like(xi)).misfit()
    head, column, trace, product = summaries.weights()
    risk = summaries.label - (product + xi * (head + column)) / dim
    bias = risk - misfit - rho
    fresh = summaries.flat + 1 + 1 / summaries.context
    fresh_risk = summaries.label + (fresh * head + summaries.corner * column - 2 * trace) / dim

    q, weight = _query_rule(dim)
    first, second = _fraction(_each(t) / q, _each(leverage))
    noise = _sum(weight * (_each(rho) / q + _each(misfit)) * second)
    square = _sum(weight * (first - _each(t) / q * second))

    freedom = summaries.second_freedom()
    factor = freedom / samples / share**2
    inflation = factor * square
    variance = (factor * noise + inflation * bias) / (1 - inflation)
    variance = np.where(inflation < 1, variance, np.inf)
    transfer = summaries.transferred(fresh, summaries.corner) / freedom
    return fresh_risk + variance * transfer, risk + variance
