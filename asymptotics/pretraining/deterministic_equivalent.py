r"""Errors of a run of finite size: a deterministic equivalent with exact moments.

The asymptotic errors are approached as 1/d with a large constant, so a run at d = 100 misses them
by 1 to 15 %.  Nearly all of that is predictable, from two sources.

**Exact moments.**  Given the training tasks, the context summary h has exact moments
:math:`G = E\,hh^\top` and :math:`A = E\,hw^\top` at finite context length (see
below).  The features :math:`x_q h^\top` have covariance
:math:`\frac1d I \otimes G`.  Ridge regression on them behaves as its population version
:math:`\Gamma = A^\top (G + \xi)^{-1}` at an effective ridge :math:`\xi`, plus a variance V.

**Fluctuating feature norms.**  The features are products of vectors in d dimensions, so the
leverage of a prompt, :math:`u \propto |x_q|^2\, h^\top (G + \xi)^{-1} h` of mean 1, has a
variance of O(1/d), where Gaussian features in d^2 dimensions would have O(1/d^2).  Leave-one-out
analysis of ridge regression with features of random norm :math:`\sqrt u` gives, with
:math:`f = E\,u/(t + u)` and :math:`\mathrm{df}_m = \operatorname{tr}[G(G+\xi)^{-1}]^m`,

.. formula: errors

.. math::

   f(t) = \tfrac dn\, \mathrm{df}_1(\xi), \qquad \lambda = \xi\, t f(t), \qquad
   V = \tfrac dn\, \mathrm{df}_2\, f^{-2}\;
       E\,\frac{u\,(\rho + m |x_q|^2) + u^2 (b + V)}{(t + u)^2},

where :math:`\rho + m` is the irreducible misfit of the best :math:`\Gamma` and b the bias due to
:math:`\xi`.  Their sum is the risk :math:`R(\Gamma)` on training tasks.  The errors are

.. math:: e_{IDG} = R(\Gamma) + V, \qquad e_{ICL} = R_f(\Gamma)
   + V\, \operatorname{tr}[G_f (G+\xi)^{-1} G (G+\xi)^{-1}] / \mathrm{df}_2,

where the index f denotes fresh tasks.  Without a ridge, :math:`\xi = 0` for n > d (d + 1), and
:math:`t = 0` for fewer prompts.  :math:`|x_q|^2` is chi-square, and the quadratic form is replaced
by a Gamma variable of its exact variance.  At u = 1 this is the usual equivalent of ridge
regression.  It tends to the asymptotic errors as 1/d.

The second correction is derived by leave-one-out heuristics and not proved.  It is checked against
simulation (`iclimit validate ridgeless ridge published`).

**Input covariance.**  Inputs of covariance :math:`\Sigma/d` give features of covariance
:math:`\frac1d \Sigma \otimes G`, with eigenvalues :math:`\sigma_i g_a/d`, and the population
solution has the entries

.. math:: \Gamma_{ia} = \frac{\sigma_i (A^\top)_{ia}}{\sigma_i g_a + \xi}

in the eigenbases of :math:`\Sigma` and G, which need not be related to each other.  Traces run
over all pairs (i, a).  The leverage is then not a product of a query and a summary factor.  It is
replaced by the product of Gamma variables with the variances of its two main effects,
:math:`\sum_i x_i^2 \sum_a g_a/(\sigma_i g_a + \xi)` and :math:`h^\top \bigl[\sum_i \sigma_i
(\sigma_i G + \xi)^{-1}\bigr] h`; their interaction has a variance of O(1/d^2).  The misfit is
assumed to vary with the first of them, which is exact for isotropic inputs only.  Isotropic inputs
are the case of one eigenvalue :math:`\sigma = 1` that stands for all d directions.

**Law of the context summary.**  For Gaussian inputs, a task w and labels of variance :math:`v =
|w|^2/d + \rho`, the summary :math:`h = (\frac d\ell \sum_i y_i x_i, \frac1\ell \sum_i y_i^2)` of
:math:`\ell` pairs has the law

.. math:: h = \Bigl(\chi w + \sqrt{\chi\, d v/\ell}\; P^{1/2} g,\; \chi v\Bigr), \qquad
   P = I - \frac{w w^\top}{d v},

with :math:`\ell\chi` chi-square of :math:`\ell` degrees of freedom and :math:`g \sim N(0, I_d)`
independent: labels and inputs are jointly Gaussian, so given the labels the inputs are linear in
them plus an independent part.

**Query correlated with the context.**  The features then have the second moments of
`iclimit.asymptotics.pretraining.query_moments`.  Their best :math:`\Gamma` at the effective ridge
and its errors change at order 1.  The effective ridge, the variance V and the law of leverages
change by O(1/d^2) and stay those of an independent query.

Inputs of covariance :math:`\Sigma/d` are :math:`\Sigma^{1/2}` times isotropic ones: their
summaries are :math:`\Sigma^{1/2}` times those of isotropic inputs for the tasks
:math:`\Sigma^{1/2} w`, so the laws here are for isotropic inputs only.

.. page: pretraining/finite-size: What a run of finite size shows

.. symbols:
   f: mean of u/(t + u) over prompts
   t: root of the first equation
   u: leverage of a prompt, of mean 1
   \xi: effective ridge
   \mathrm{df}: degrees of freedom: sums of powers 1 and 2 of G/(G + ξ), G being the second
      moments of the context summary
   V: variance of the learned matrix
   E: mean over leverages
   m: what the best matrix misses, beside the noise
   b: bias by the effective ridge
   x_q: input of the query
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import brentq
from scipy.special import gammaincinv

from iclimit.asymptotics.numbers import ArrayMath
from iclimit.asymptotics.pretraining.elliptical import ScaleNodes
from iclimit.asymptotics.pretraining.icl import ridge_bracket
from iclimit.asymptotics.pretraining.linked_contexts import LinkedContexts
from iclimit.asymptotics.pretraining.query_moments import QueryMoments
from iclimit.asymptotics.pretraining.summary_moments import (
    TaskMoments,
    centred_moments,
    summary_moments,
    task_set_moments,
)
from iclimit.asymptotics.pretraining.summary_nodes import Nodes, label_nodes, quadratic_form
from iclimit.asymptotics.pretraining.timed_contexts import TimedContexts


@dataclass(frozen=True)
class Inputs:
    """Covariance of the inputs; for isotropic inputs one eigenvalue stands for all directions.

    Attributes
    ----------
    values : ndarray (r, 1)
        Eigenvalues.
    multiplicity : int
        Number of eigenvectors that each of them stands for.
    basis, root : ndarray (d, d)
        Eigenvectors as columns, and the symmetric root.
    """

    values: np.ndarray
    multiplicity: int
    basis: np.ndarray
    root: np.ndarray

    @classmethod
    def of(cls, covariance: np.ndarray | None, dim: int) -> Inputs:
        """Inputs of a covariance; None for isotropic ones."""
        if covariance is None:
            return cls(np.ones((1, 1)), dim, np.eye(dim), np.eye(dim))
        values, basis = np.linalg.eigh(covariance)
        return cls(np.maximum(values, 0.0)[:, None], 1, basis, matrix_root(covariance))

    def colour(self, summaries: np.ndarray) -> np.ndarray:
        """Multiply whitened summaries, along the first axis, by the root."""
        return np.vstack([self.root @ summaries[:-1], summaries[-1:]])


# Tasks that stand for a law of structured ones, at least.
_REPRESENTATIVES = 4000

# Points of the laws of leverages, and of queries beside scales, where their own law is narrow.
# Of a summary whose factor varies by more than its mean, more points would find more small
# factors: a Gamma law has too many of them there, and simulations agree with sixteen points.
_ORDER = 16
_SCALED_ORDER = 4

_UNDEFINED = (
    "the prediction is not defined in float64 here: few tasks without noise make the moments "
    "singular, or the ridge or the context is too extreme"
)


def equivalent_errors(
    train: SummaryLaw, fresh: SummaryLaw, prompts: int, ridge: float, inputs: Inputs
) -> tuple[float, float]:
    """ICL and IDG error given the laws of the training and the fresh summaries.

    The laws are those of whitened summaries and tasks.
    """
    dim = train.cross.shape[1]
    if ridge == 0 and prompts == dim * (dim + 1):
        return math.inf, math.inf
    with undefined_in_float64():
        errors = _equivalent(train, fresh, prompts, ridge, inputs)
        if not min(errors) >= 0:
            raise ValueError("negative error")
    return errors


@contextmanager
def undefined_in_float64() -> Iterator[None]:
    """Report what goes wrong in float64 as one ArithmeticError."""
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            yield
    except (ArithmeticError, ValueError) as error:  # LinAlgError is a ValueError
        raise ArithmeticError(_UNDEFINED) from error


def _equivalent(
    train: SummaryLaw, fresh: SummaryLaw, prompts: int, ridge: float, inputs: Inputs
) -> tuple[float, float]:
    """Deterministic equivalent, away from the ridgeless threshold."""
    sigma = inputs.values
    samples = prompts / inputs.multiplicity
    g, pushed, feature, query, u, weight, t, xi = leverages(train, prompts, ridge, inputs)
    resolved = 1 / (feature + xi)
    if train.features:
        gamma = train.features.best(xi)
        ridgeless = train.features.best(0.0)
        explained = np.vdot(ridgeless, train.features.target)
    else:
        target = inputs.basis.T @ train.cross.T @ pushed
        gamma = inputs.basis @ (sigma * resolved * target) @ pushed.T
        explained = np.sum(target**2 / g)
    misfit = train.label - explained / len(gamma) - train.rho
    bias = _risk(gamma, train) - misfit - train.rho

    df2 = np.sum((feature * resolved) ** 2)
    factor = df2 / samples / np.sum(weight * u / (t + u)) ** 2
    mixed = train.bend * (1 - np.vdot(gamma.T, train.cross) / len(gamma))
    steady = train.rho * (1 - train.rest_slope) - mixed
    varying = misfit + train.rho * train.rest_slope + mixed
    noise = np.sum(weight * u * (steady + varying * query[:, None]) / (t + u) ** 2)
    inflation = factor * np.sum(weight * (u / (t + u)) ** 2)
    if inflation >= 1:  # no positive variance solves the equation
        return math.inf, math.inf
    V = (factor * noise + inflation * bias) / (1 - inflation)
    test_feature = sigma * np.sum(pushed * (fresh.second @ pushed), axis=0)
    transfer = np.sum(test_feature * feature * resolved**2) / df2
    return float(_risk(gamma, fresh) + V * transfer), float(_risk(gamma, train) + V)


class Leverages(NamedTuple):
    """Features of a run and the law of their leverages.

    Attributes
    ----------
    g : ndarray (d + 1,)
        Eigenvalues of the second moments of the summaries.
    pushed : ndarray (d + 1, d + 1)
        Their eigenvectors as columns, seen from whitened summaries.
    feature : ndarray (r, d + 1)
        Variances of the features.
    query, u, weight : ndarray
        Gauss rule over the leverages u, which are those of queries times those of summaries.
    t, xi : float
        Solution of the fixed point: t is the norm in units of the trace of all features, xi the
        effective ridge.
    """

    g: np.ndarray
    pushed: np.ndarray
    feature: np.ndarray
    query: np.ndarray
    u: np.ndarray
    weight: np.ndarray
    t: float
    xi: float


def leverages(train: SummaryLaw, prompts: int, ridge: float, inputs: Inputs) -> Leverages:
    """Leverages of the prompts of a run, and the effective ridge."""
    sigma = inputs.values
    samples = prompts / inputs.multiplicity
    g, basis = np.linalg.eigh(inputs.colour(inputs.colour(train.second).T))
    feature = sigma * g
    xi = effective_ridge(feature, samples, ridge)
    pushed = inputs.colour(basis)
    resolved = 1 / (feature + xi)
    share = feature * resolved
    query_variance = 2 * np.sum(np.sum(share, axis=1) ** 2) / np.sum(share) ** 2
    F = (pushed * np.mean(sigma * resolved, axis=0)) @ pushed.T
    # The leverage is u, its query factor |x_q|^2; both have mean 1.
    scales = train.scales
    order = _ORDER if scales is None else _SCALED_ORDER
    query, query_weight = gamma_rule(query_variance / inputs.multiplicity, order)
    if scales is not None:
        query = np.ravel(np.outer(query, scales.u))
        query_weight = np.ravel(np.outer(query_weight, scales.weight))
    summary, summary_weight = _summary_rule(train, F)
    u = np.outer(query, summary)
    weight = np.outer(query_weight, summary_weight)
    t, xi = _norm_corrected(u.ravel(), weight.ravel(), feature, samples, ridge, xi)
    return Leverages(g, pushed, feature, query, u, weight, t, xi)


def _summary_rule(train: SummaryLaw, F: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rule for the factor of a summary, of mean 1, in the leverages: a Gamma law of its variance.

    Of elliptical inputs it is so among contexts of the same scales.  Contexts with large scales
    are rare and far from others: a Gamma law of all would make up for them by very small factors.
    """
    variance = quadratic_form_variance(train, F)
    if train.scales is None or not isinstance(train.timed, LinkedContexts):
        return gamma_rule(variance)
    scales = train.timed.scale_rule()
    squares = scales.weight * scales.size**2
    among = (1 + variance - np.sum(squares)) / (squares @ scales.crowding)
    rules = [gamma_rule(float(among * crowding)) for crowding in scales.crowding]
    factors = scales.size[:, None] * np.array([factor for factor, _ in rules])
    weights = scales.weight[:, None] * np.array([weight for _, weight in rules])
    return np.ravel(factors), np.ravel(weights)


def _risk(gamma: np.ndarray, law: SummaryLaw) -> float:
    """Test error of a given Gamma on isotropic inputs."""
    if law.features:
        return law.features.error(gamma, law.label)
    linear = np.vdot(gamma.T, law.cross)
    quadratic = np.vdot(gamma @ law.second, gamma)
    return law.label + (quadratic - 2 * linear) / len(gamma)


def effective_ridge(g: np.ndarray, samples: float, ridge: float) -> float:
    r"""Root of samples * (1 - ridge/xi) = sum g/(g + xi); 0 if ridgeless and determined."""
    tau = samples / g.size
    if ridge == 0 and tau >= 1:
        return 0.0
    ends = np.array([g.min(), g.max()])
    if ridge == 0:
        lower, upper = np.log(ends * (1 - tau) / tau)
    else:
        lower, upper = np.log(ridge_bracket(ArrayMath(np), tau, ends, ridge))

    def residual(log_xi: float) -> float:
        xi = math.exp(log_xi)
        return tau * (1 - ridge / xi) - float((g / (g + xi)).sum()) / g.size

    # Widened because equal ends (a single eigenvalue) would hide the change of sign.
    return math.exp(brentq(residual, lower - 1e-9, upper + 1e-9))


@lru_cache
def gamma_rule(
    variance: float, order: int = _ORDER, tilt: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Gauss rule (Golub-Welsch) of the Gamma law of mean 1 and this variance.

    With a tilt it is exact for polynomials of degree < 2 order divided by x**tilt.
    """
    i = np.arange(order)
    shape = 1 / variance - tilt
    nodes, vectors = eigh_tridiagonal(2 * i + shape, np.sqrt(i[1:] * (i[1:] + shape - 1)))
    weights = vectors[0] ** 2 * nodes ** float(tilt)
    return nodes * variance, weights / weights.sum()


def _norm_corrected(
    u: np.ndarray, weight: np.ndarray, g: np.ndarray, samples: float, ridge: float, xi: float
) -> tuple[float, float]:
    """Solve f(t) = df1(xi)/samples with ridge = xi t f(t), from the solution xi at u = 1."""
    if ridge == 0 and samples < g.size:
        return 0.0, xi

    def fraction(t: float) -> float:
        return float(weight @ (u / (t + u)))

    def residual(log_t: float) -> float:
        t = math.exp(log_t)
        f = fraction(t)
        return f - float((g / (g + ridge / (t * f))).sum()) / samples

    eta = ridge / xi if ridge > 0 else 1 - g.size / samples
    lower = math.log(eta / (1 - eta))
    upper = lower
    step = 0.1
    while residual(lower) < 0:
        lower = lower - step
        step = 2 * step
    while residual(upper) > 0:
        upper = upper + step
        step = 2 * step
    t = math.exp(brentq(residual, lower, upper)) if lower < upper else math.exp(lower)
    return t, ridge / (t * fraction(t))


@dataclass(frozen=True)
class SummaryLaw:
    """Moments of summaries over contexts and over a law of tasks.

    Attributes
    ----------
    second : ndarray (d + 1, d + 1)
        G = E h h^T.
    cross : ndarray (d + 1, d)
        A = E h w^T.
    label : float
        E y^2 of a noisy query label.
    tasks : ndarray (k, d)
        The tasks, equally likely.  For fresh tasks of an isotropic law, representatives whose
        squared norms have the right mean and variance; of another law, a sample.
    context : int
        Context length.
    rho : float
        Noise variance.
    timed : TimedContexts, optional
        Contexts in which the order of the pairs matters.
    innovations : ndarray (d, d), optional
        Covariance of what drift adds to the tasks; None for a multiple of the identity.
    rest_slope : float
        Slope of the variance of the noise in :math:`|x_q|^2`, relative to its mean: 0 for noise
        of its own, other numbers for what is not linear in labels.
    bend : float
        Slope in :math:`|x_q|^2` of twice the covariance of what is not linear in labels with the
        linear labels: E y z^3 - 3 for labels y over their linear part z.
    """

    second: np.ndarray
    cross: np.ndarray
    label: float
    tasks: np.ndarray
    context: int
    rho: float
    timed: TimedContexts | LinkedContexts | None = None
    innovations: np.ndarray | None = None
    rest_slope: float = 0.0
    bend: float = 0.0

    @cached_property
    def features(self) -> QueryMoments | None:
        """Moments of the features where the query is correlated with the context."""
        if not isinstance(self.timed, TimedContexts) or not self.timed.correlated_query:
            return None
        return QueryMoments(self.timed, self.second, self.cross)

    @property
    def scales(self) -> ScaleNodes | None:
        """Nodes of the law of the scale of an input, where there is one."""
        return self.timed.scales if isinstance(self.timed, LinkedContexts) else None

    def with_independent_query(self) -> SummaryLaw:
        """The law of the same summaries, of prompts with independent queries."""
        timed = self.timed and replace(self.timed, correlated_query=False)
        return replace(self, timed=timed)

    def seen_from(self, gamma: np.ndarray) -> SummaryLaw:
        """The law of what a matrix (d, d + 1) leaves of labels and tasks."""
        quadratic = np.vdot(gamma @ self.second, gamma)
        change = (quadratic - 2 * np.vdot(gamma.T, self.cross)) / len(gamma)
        cross = self.cross - self.second @ gamma.T
        return replace(self, cross=cross, label=self.label + float(change))

    def nodes(self) -> Nodes:
        """Nodes that are exact for the variance of quadratic forms."""
        d = self.tasks.shape[1]
        norms = np.sum(self.tasks**2, axis=1) / d
        if self.timed:
            isotropic = self.innovations is None
            return self.timed.nodes(norms, form_rule, isotropic=isotropic)
        chi, weight = form_rule(self.context)
        return label_nodes(chi, weight, norms + self.rho, dim=d, context=self.context)


def form_rule(pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Rule for the label norm of so many pairs that is exact for variances."""
    return gamma_rule(2 / pairs, 4)


def task_set_law(
    tasks: np.ndarray,
    context: int,
    rho: float,
    timed: TimedContexts | LinkedContexts | None = None,
    innovations: np.ndarray | None = None,
) -> SummaryLaw:
    """Law of the summary when the task is drawn from the rows of tasks, shape (k, d)."""
    moments = task_set_moments(tasks, None, rho)
    return _law(moments, tasks, context, rho, timed, innovations)


def fresh_task_law(
    d: int,
    context: int,
    rho: float,
    task_law: str,
    timed: TimedContexts | LinkedContexts | None = None,
) -> SummaryLaw:
    """Law of the summary for tasks uniform on the sphere |w|^2 = d, or from N(0, I_d)."""
    # Two norms with the mean d and the variance 2 d of |w|^2.
    spread = np.sqrt(2 / d) * np.array([-1, 1]) if task_law == "gaussian" else np.zeros(1)
    norms = np.sqrt(np.maximum(d * (1 + spread), 0.0))
    moments = centred_moments(np.eye(d), None, rho, sphere=task_law == "sphere")
    return _law(moments, norms[:, None] * np.eye(1, d), context, rho, timed)


def structured_task_law(
    root: np.ndarray,
    context: int,
    rho: float,
    task_law: str,
    timed: TimedContexts | LinkedContexts | None = None,
    innovations: np.ndarray | None = None,
) -> SummaryLaw:
    """Law of the summary for tasks root w, with w of an isotropic law."""
    sphere = task_law == "sphere"
    moments = centred_moments(root @ root.T, None, rho, sphere=sphere)
    tasks = representatives(len(root), sphere=sphere) @ root.T
    return _law(moments, tasks, context, rho, timed, innovations)


def _law(
    moments: TaskMoments,
    tasks: np.ndarray,
    context: int,
    rho: float,
    timed: TimedContexts | LinkedContexts | None = None,
    innovations: np.ndarray | None = None,
) -> SummaryLaw:
    G, A = law_moments(moments, context, rho, timed, innovations)
    return SummaryLaw(G, A, float(moments.label), tasks, context, rho, timed, innovations)


def law_moments(
    moments: TaskMoments,
    context: int,
    rho: float,
    timed: TimedContexts | LinkedContexts | None = None,
    innovations: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Moments G and A of the summaries for moments of the tasks."""
    if timed is None:
        return summary_moments(moments, context)
    if innovations is None:
        innovations = timed.innovation * np.eye(len(moments.second))
    return timed.moments.second(moments, rho, innovations), timed.moments.cross(moments, rho)


@lru_cache(maxsize=8)
def representatives(d: int, *, sphere: bool) -> np.ndarray:
    """Tasks (k, d) that stand for those on the sphere of squared norm d, or from N(0, I).

    Their second moment is the identity, and their norms are quantiles of the norm.  Only
    corrections of O(1/d) depend on them.
    """
    count = max(_REPRESENTATIVES, 4 * d)
    drawn = np.random.default_rng(0).standard_normal((count, d))
    drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
    norms = np.full(count, float(d))
    if not sphere:
        norms = 2 * gammaincinv(d / 2, (np.arange(count) + 0.5) / count)
    drawn *= np.sqrt(norms)[:, None]
    values, basis = np.linalg.eigh(drawn.T @ drawn / count)
    return np.asarray(drawn @ (basis / np.sqrt(values)) @ basis.T)


def matrix_root(covariance: np.ndarray) -> np.ndarray:
    """Symmetric root of a covariance matrix."""
    values, basis = np.linalg.eigh(covariance)
    return (basis * np.sqrt(np.maximum(values, 0.0))) @ basis.T


def quadratic_form_variance(law: SummaryLaw, F: np.ndarray) -> float:
    r"""Variance of :math:`h^\top F h` over its squared mean, for symmetric F."""
    nodes = law.nodes()
    form = quadratic_form(law.tasks, nodes, F, law.innovations)
    mean = nodes.weight @ form.mean
    square = nodes.weight @ (form.variance + form.mean**2)
    return float(np.mean(square) / np.mean(mean) ** 2 - 1)
