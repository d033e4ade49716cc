r"""What a run of finite size should show: a deterministic equivalent with exact moments.

The asymptotic errors are approached as 1/d with a large constant, so a run at d = 100 misses them
by 1 to 15 %.  Nearly all of that is predictable, from two sources.

**Exact moments.**  Given the training tasks, the context summary h has exact moments
:math:`G = E\,hh^\top` and :math:`A = E\,hw^\top` at finite context length
(`iclimit.asymptotics.pretraining.summary_law`).  The features :math:`x_q h^\top` have covariance
:math:`\frac1d I \otimes G`; ridge regression on them behaves as its population version
:math:`\Gamma = A^\top (G + \xi)^{-1}` at an effective ridge :math:`\xi`, plus a variance V.

**Fluctuating feature norms.**  The features are products of vectors in d dimensions, so the
leverage of a prompt, :math:`u \propto |x_q|^2\, h^\top (G + \xi)^{-1} h` of mean 1, has a
variance of O(1/d), where Gaussian features in d^2 dimensions would have O(1/d^2).  Leave-one-out
analysis of ridge regression with features of random norm :math:`\sqrt u` gives, with
:math:`f = E\,u/(t + u)` and :math:`\mathrm{df}_m = \operatorname{tr}[G(G+\xi)^{-1}]^m`,

.. math::

   f(t) = \tfrac dn\, \mathrm{df}_1(\xi), \qquad \lambda = \xi\, t f(t), \qquad
   V = \tfrac dn\, \mathrm{df}_2\, f^{-2}\;
       E\,\frac{u\,(\rho + m |x_q|^2) + u^2 (b + V)}{(t + u)^2},

with the irreducible misfit :math:`\rho + m` of the best :math:`\Gamma` and the bias b due to
:math:`\xi`: their sum is the risk :math:`R(\Gamma)` on training tasks.  The errors are

.. math:: e_{IDG} = R(\Gamma) + V, \qquad e_{ICL} = R_f(\Gamma)
   + V\, \operatorname{tr}[G_f (G+\xi)^{-1} G (G+\xi)^{-1}] / \mathrm{df}_2,

index f for fresh tasks.  Ridgeless, :math:`\xi = 0` for n > d (d + 1) and :math:`t = 0` for fewer
prompts.  :math:`|x_q|^2` is chi-square; the quadratic form is taken as a Gamma variable of its
exact variance.  At u = 1 this is the usual equivalent of ridge regression; as d grows it tends to
the asymptotic errors as 1/d.

The second correction is derived by leave-one-out heuristics, not proved, and is checked against
simulation (`iclimit validate ridgeless ridge published`).

**Input covariance.**  Inputs of covariance :math:`\Sigma/d` give features of covariance
:math:`\frac1d \Sigma \otimes G`, with eigenvalues :math:`\sigma_i g_a/d`, and the population
solution has the entries

.. math:: \Gamma_{ia} = \frac{\sigma_i (A^\top)_{ia}}{\sigma_i g_a + \xi}

in the eigenbases of :math:`\Sigma` and G, which need not be related to each other.  Traces run
over all pairs (i, a).  The leverage is then no product of a query and a summary factor, and is
replaced by the product of Gamma variables with the variances of its two main effects,
:math:`\sum_i x_i^2 \sum_a g_a/(\sigma_i g_a + \xi)` and :math:`h^\top \bigl[\sum_i \sigma_i
(\sigma_i G + \xi)^{-1}\bigr] h`: their interaction has a variance of O(1/d^2).  The misfit is
taken to vary with the first of them, which is exact for isotropic inputs only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from numbers import Integral
from typing import Any

import numpy as np
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import brentq

from iclimit.asymptotics.numbers import ArrayMath, convert, numpy_namespace, require
from iclimit.asymptotics.pretraining.icl import ridge_bracket
from iclimit.asymptotics.pretraining.joint_spectrum import covariance_matrix
from iclimit.asymptotics.pretraining.summary_law import (
    SummaryLaw,
    fresh_task_law,
    gaussian_task_law,
    matrix_root,
    quadratic_form_variance,
    sphere_task_law,
    task_set_law,
)
from iclimit.results import Estimate

TASK_LAWS = ("sphere", "gaussian")


@dataclass(frozen=True)
class FiniteSizeErrors:
    """Predicted errors of a run at given integers.

    Attributes
    ----------
    icl, idg : Estimate
        Means over the drawn task sets, with the errors of the sets as samples.  The standard error
        is 0 where no spread can be estimated: a single task set, or infinite errors.
    """

    icl: Estimate
    idg: Estimate


def finite_size_errors(
    *,
    dim: int,
    context: int,
    tasks: Any,
    prompts: int,
    rho: float,
    ridge: float = 0.0,
    rng: Any = None,
    draws: int = 10,
    task_law: str = "sphere",
    task_covariance: Any = None,
    test_covariance: Any = None,
    test_context: int | None = None,
    test_rho: float | None = None,
    input_covariance: Any = None,
) -> FiniteSizeErrors:
    r"""Predict the ICL and IDG error of a run at exactly these integers.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs.
    context : int >= 1
        Context length, :math:`\ell`.
    tasks : int >= 1, inf, or array of shape (k, d)
        Number of training tasks; ``inf`` for a fresh task in every prompt; or the task vectors
        themselves, as rows of norm about :math:`\sqrt d`.
    prompts : int >= 1
        Number of training prompts, n.
    rho : float >= 0
        Variance of the label noise.
    ridge : float >= 0
        Ridge :math:`\lambda` of the penalty :math:`\frac nd \lambda \lVert\Gamma\rVert_F^2`.
    rng : int, SeedSequence or Generator, optional
        Source of the task sets; None draws them from fresh entropy.
    draws : int >= 1
        Number of task sets to average over (one suffices when the tasks are given or infinite).
    task_law : {"sphere", "gaussian"}
        Law of the training and the fresh tasks: uniform on the sphere :math:`|w|^2 = d`, or
        N(0, I_d).  Not used where a covariance of tasks is given.
    task_covariance : array of shape (d, d) or (d,), optional
        Covariance C of Gaussian tasks, training and fresh; the eigenvalues of a diagonal one.
        Training tasks that are given keep their values.
    test_covariance : array of shape (d, d) or (d,), optional
        Covariance of the Gaussian tasks behind the ICL error; None: the law of training tasks.
    test_context : int >= 1, optional
        Context length of the prompts behind the ICL error; None: ``context``.
    test_rho : float >= 0, optional
        Label noise of the prompts behind the ICL error; None: ``rho``.
    input_covariance : array of shape (d, d) or (d,), optional
        Covariance :math:`\Sigma` of inputs :math:`x \sim N(0, \Sigma/d)`.  It need not commute
        with the covariances of the tasks.

    Returns
    -------
    FiniteSizeErrors
        Estimates ``icl`` and ``idg`` over the task draws; ``inf`` at ridge = 0 and
        prompts = d (d + 1), the interpolation threshold.

    Raises
    ------
    ValueError
        If an argument is outside its range or the task array has the wrong shape.
    ArithmeticError
        If the moments are singular (few tasks without noise) or the ridge is too extreme for
        float64.

    Notes
    -----
    Measured against simulations with kappa and alpha of order one: within about 3.5 % at d = 16,
    2 % at d = 32 and 1 % at d = 64, mostly much less, where the asymptotic formula misses by up to
    50, 20 and 10 %.  What is left decreases as 1/d.  The worst cases are the ICL error ridgeless
    with n < d (d + 1) and the IDG error at a ridge near 1.  The prediction assumes that the
    leverage of a prompt varies little, which fails for d below about 10 and for contexts of a few
    pairs.

    With input covariances it is less accurate.  Covariances of tasks, tests and inputs that do not
    commute, input eigenvalues from 0.3 to 2.5: within 2.5 % at d = 16 and at d = 32 with ridge
    0.05 to 0.2; ridgeless with half as many prompts as features 4 to 9 % too high at d = 16 and 1
    to 2 % at d = 32.  Input eigenvalues from 0.2 to 1.8 in the order of those of the tasks, tau =
    0.5, ridge 0.05: the ICL error is 5.8(5) % too high at d = 16, 3.0(5) % at d = 32, below 1 % at
    d = 64.  With heavy-tailed task spectra (a power law of exponent 0.9) and misaligned tests it
    is about 10 % too high ridgeless at d = 32, tau = 2.

    References
    ----------
    Derivation: module `iclimit.asymptotics.pretraining.finite_size`.  Limit: Lu et al., arXiv:2405.11751.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import finite_size_errors
    >>> run = finite_size_errors(dim=100, context=100, tasks=50, prompts=20_000, rho=0.01, rng=0)
    >>> round(run.icl.mean, 2), round(run.idg.mean, 2)  # published simulation: 1.279(4), 0.625(3)
    (1.28, 0.63)
    """
    _check_integers(dim=dim, context=context, prompts=prompts, draws=draws)
    _check_numbers(rho=rho, ridge=ridge)
    test_context = context if test_context is None else test_context
    test_rho = rho if test_rho is None else test_rho
    _check_integers(test_context=test_context)
    _check_numbers(test_rho=test_rho)
    if task_law not in TASK_LAWS:
        raise ValueError(f"task_law must be one of {', '.join(TASK_LAWS)}, got {task_law!r}")
    C, C_test, Sigma = (
        None if value is None else covariance_matrix(name, value, dim)
        for name, value in {
            "task_covariance": task_covariance,
            "test_covariance": test_covariance,
            "input_covariance": input_covariance,
        }.items()
    )
    inputs = None if Sigma is None else _Inputs.of(Sigma)
    task_sets = _task_sets(tasks, dim, task_law, C, np.random.default_rng(rng), draws)
    rho, ridge = float(rho), float(ridge)
    test = _population_law(
        C if C_test is None else C_test, inputs, dim, test_context, float(test_rho), task_law
    )
    errors = []
    for task_set in task_sets:
        if task_set is None:
            train = _population_law(C, inputs, dim, context, rho, task_law)
        else:
            train = task_set_law(_whitened(task_set, inputs), context, rho)
        errors.append(_errors(train, test, dim, prompts, ridge, inputs))
    return FiniteSizeErrors(*map(_estimate, np.transpose(errors)))


def _estimate(errors: np.ndarray) -> Estimate:
    """Mean over task sets; a single one, or infinite errors, count as exact."""
    if len(errors) > 1 and np.all(np.isfinite(errors)):
        return Estimate.of(errors)
    return Estimate(float(np.mean(errors)), 0.0, len(errors), errors)


def _check_integers(**values: Any) -> None:
    for name, value in values.items():
        if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be an integer >= 1, got {value!r}")


def _check_numbers(**values: Any) -> None:
    for name, value in values.items():
        if np.ndim(value) != 0:
            raise ValueError(f"{name} must be one number, got {value!r}")
    math_ = numpy_namespace(**values)
    for name, value in values.items():
        converted = convert(math_, name, value)
        require(math_, name, converted, lambda v: (v >= 0) & (v < np.inf), ">= 0 and finite")


def _task_sets(
    tasks: Any,
    dim: int,
    task_law: str,
    covariance: np.ndarray | None,
    rng: np.random.Generator,
    draws: int,
) -> list[np.ndarray | None]:
    """Training task sets as (k, d) arrays; None stands for infinitely many tasks."""
    if np.ndim(tasks) == 0:
        if tasks == math.inf:
            return [None]
        _check_integers(tasks=tasks)
        drawn = rng.standard_normal((draws, tasks, dim))
        if covariance is not None:
            drawn = drawn @ matrix_root(covariance)
        elif task_law == "sphere":
            drawn *= math.sqrt(dim) / np.linalg.norm(drawn, axis=-1, keepdims=True)
        return list(drawn)
    tasks = np.asarray(tasks, dtype=float)
    if tasks.ndim != 2 or tasks.shape[1] != dim or len(tasks) == 0:
        raise ValueError(f"tasks must have shape (k, {dim}) with k >= 1, got shape {tasks.shape}")
    if not np.all(np.isfinite(tasks)):
        raise ValueError("tasks must be finite, got NaN or inf among the task vectors")
    return [tasks]


@dataclass(frozen=True)
class _Inputs:
    """Eigenvalues, eigenvectors (columns) and symmetric root of an input covariance."""

    values: np.ndarray
    basis: np.ndarray
    root: np.ndarray

    @classmethod
    def of(cls, covariance: np.ndarray) -> _Inputs:
        values, basis = np.linalg.eigh(covariance)
        return cls(np.maximum(values, 0.0), basis, matrix_root(covariance))

    def colour(self, summaries: np.ndarray) -> np.ndarray:
        """Multiply whitened summaries, along the first axis, by the root."""
        return np.vstack([self.root @ summaries[:-1], summaries[-1:]])


def _whitened(tasks: np.ndarray, inputs: _Inputs | None) -> np.ndarray:
    return tasks if inputs is None else tasks @ inputs.root


def _population_law(
    covariance: np.ndarray | None,
    inputs: _Inputs | None,
    dim: int,
    context: int,
    rho: float,
    task_law: str,
) -> SummaryLaw:
    """Law of summaries for isotropic inputs and whitened tasks, a fresh task in each prompt."""
    if covariance is None and inputs is None:
        return fresh_task_law(dim, context, rho, task_law)
    root = np.eye(dim) if inputs is None else inputs.root
    if covariance is None and task_law == "sphere":
        return sphere_task_law(root, context, rho)
    C = np.eye(dim) if covariance is None else covariance
    return gaussian_task_law(root @ C @ root, context, rho)


def _errors(
    train: SummaryLaw,
    fresh: SummaryLaw,
    dim: int,
    prompts: int,
    ridge: float,
    inputs: _Inputs | None,
) -> tuple[float, float]:
    """ICL and IDG error given the laws of the training and the fresh summaries."""
    if ridge == 0 and prompts == dim * (dim + 1):
        return math.inf, math.inf
    try:
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            if inputs is None:
                errors = _equivalent(train, fresh, dim, prompts, ridge)
            else:
                errors = _equivalent_for_inputs(train, fresh, dim, prompts, ridge, inputs)
    except (FloatingPointError, ZeroDivisionError, ValueError) as error:
        raise ArithmeticError(_UNDEFINED) from error
    if not min(errors) >= 0:
        raise ArithmeticError(_UNDEFINED)
    return errors


_UNDEFINED = (
    "the prediction is not defined in float64 here: few tasks without noise make the moments "
    "singular, or the ridge or the context is too extreme"
)


def _equivalent(
    train: SummaryLaw, fresh: SummaryLaw, dim: int, prompts: int, ridge: float
) -> tuple[float, float]:
    """Deterministic equivalent, away from the ridgeless threshold."""
    g, basis = np.linalg.eigh(train.second)
    samples = prompts / dim
    xi = _effective_ridge(g, samples, ridge)
    leverage = _Leverage.of(train, (basis / (g + xi)) @ basis.T, dim)
    t, xi = _norm_corrected(leverage, g, samples, ridge, xi)

    F = (basis / (g + xi)) @ basis.T
    gamma = (F @ train.cross).T
    best = (basis / g) @ (basis.T @ train.cross)
    misfit = train.label - np.vdot(best, train.cross) / dim - train.rho
    bias = _risk(gamma, train, dim) - misfit - train.rho

    df2 = np.sum((g / (g + xi)) ** 2)
    V = _variance(leverage, t, df2 / samples, train.rho, misfit, bias)
    transfer = np.vdot(F @ fresh.second, train.second @ F) / df2
    return _with_variance(_risk(gamma, fresh, dim), transfer, _risk(gamma, train, dim), V)


def _equivalent_for_inputs(
    train: SummaryLaw, fresh: SummaryLaw, dim: int, prompts: int, ridge: float, inputs: _Inputs
) -> tuple[float, float]:
    """As `_equivalent`; the laws are those of whitened summaries and tasks."""
    g, basis = np.linalg.eigh(inputs.colour(inputs.colour(train.second).T))
    sigma = inputs.values[:, None]
    feature = (sigma * g).ravel()
    xi = _effective_ridge(feature, prompts, ridge)

    # Columns of `pushed` are the eigenvectors of G, seen from whitened summaries.
    pushed = inputs.colour(basis)
    resolved = 1 / (sigma * g + xi)
    response = np.mean(sigma * resolved, axis=0)
    leverage = _Leverage.product(
        2
        * np.sum((inputs.values * (resolved @ g)) ** 2)
        / np.sum(feature * resolved.ravel()) ** 2,
        quadratic_form_variance(train, (pushed * response) @ pushed.T),
    )
    t, xi = _norm_corrected(leverage, feature, prompts, ridge, xi)

    resolved = 1 / (sigma * g + xi)
    target = inputs.basis.T @ train.cross.T @ pushed
    gamma = inputs.basis @ (sigma * resolved * target) @ pushed.T
    best = np.sum(target**2 / g)
    misfit = train.label - best / dim - train.rho
    bias = _risk(gamma, train, dim) - misfit - train.rho

    df2 = np.sum((feature * resolved.ravel()) ** 2)
    V = _variance(leverage, t, df2 / prompts, train.rho, misfit, bias)
    test_feature = sigma * np.einsum("ia,ij,ja->a", pushed, fresh.second, pushed, optimize=True)
    transfer = np.sum(test_feature * sigma * g * resolved**2) / df2
    return _with_variance(_risk(gamma, fresh, dim), transfer, _risk(gamma, train, dim), V)


def _variance(
    leverage: _Leverage, t: float, df2: float, rho: float, misfit: float, bias: float
) -> float:
    """Variance V of the module docstring, df2 per prompt; inf where it has no positive value."""
    u, weight = leverage.value, leverage.probability
    variance_factor = df2 / leverage.average(u / (t + u)) ** 2
    noise = np.sum(weight * u * (rho + misfit * leverage.query) / (t + u) ** 2)
    inflation = variance_factor * np.sum(weight * (u / (t + u)) ** 2)
    if inflation >= 1:
        return math.inf
    return (variance_factor * noise + inflation * bias) / (1 - inflation)


def _with_variance(icl: float, transfer: float, idg: float, V: float) -> tuple[float, float]:
    if not math.isfinite(V):
        return math.inf, math.inf
    return float(icl + V * transfer), float(idg + V)


def _risk(gamma: np.ndarray, law: SummaryLaw, dim: int) -> float:
    linear = np.vdot(gamma.T, law.cross)
    quadratic = np.vdot(gamma @ law.second, gamma)
    return law.label + (quadratic - 2 * linear) / dim


def _effective_ridge(g: np.ndarray, samples: float, ridge: float) -> float:
    r"""Root of samples * (1 - ridge/xi) = sum g/(g + xi); 0 if ridgeless and determined."""
    tau = samples / len(g)
    if ridge == 0 and tau >= 1:
        return 0.0
    ends = np.array([g.min(), g.max()])
    if ridge == 0:
        lower, upper = np.log(ends * (1 - tau) / tau)
    else:
        lower, upper = np.log(ridge_bracket(ArrayMath(np), tau, ends, ridge))

    def residual(log_xi: float) -> float:
        xi = math.exp(log_xi)
        return tau * (1 - ridge / xi) - float((g / (g + xi)).sum()) / len(g)

    # Widened because equal ends (a single eigenvalue) would hide the change of sign.
    return math.exp(brentq(residual, lower - 1e-9, upper + 1e-9))


@dataclass(frozen=True)
class _Leverage:
    """Discrete law of the leverage u of a prompt and of its factor |x_q|^2, both of mean 1."""

    value: np.ndarray
    query: np.ndarray
    probability: np.ndarray

    @classmethod
    def of(cls, law: SummaryLaw, F: np.ndarray, dim: int) -> _Leverage:
        return cls.product(2 / dim, quadratic_form_variance(law, F))

    @classmethod
    def product(cls, query_variance: float, summary_variance: float) -> _Leverage:
        query, query_weight = _gamma_rule(query_variance)
        summary, summary_weight = _gamma_rule(summary_variance)
        return cls(
            np.outer(query, summary).ravel(),
            np.repeat(query, len(summary)),
            np.outer(query_weight, summary_weight).ravel(),
        )

    def average(self, values: np.ndarray) -> float:
        """Expectation of a function given by its values at the nodes."""
        return float(self.probability @ values)


@lru_cache
def _gamma_rule(variance: float, order: int = 16) -> tuple[np.ndarray, np.ndarray]:
    """Gauss rule (Golub-Welsch) of the Gamma law of mean 1 and this variance."""
    i, shape = np.arange(order), 1 / variance
    nodes, vectors = eigh_tridiagonal(2 * i + shape, np.sqrt(i[1:] * (i[1:] + shape - 1)))
    return nodes / shape, vectors[0] ** 2


def _norm_corrected(
    leverage: _Leverage, g: np.ndarray, samples: float, ridge: float, xi: float
) -> tuple[float, float]:
    """Solve f(t) = df1(xi)/samples with ridge = xi t f(t), from the solution xi at u = 1."""
    if ridge == 0 and samples < len(g):
        return 0.0, xi

    def fraction(t: float) -> float:
        return leverage.average(leverage.value / (t + leverage.value))

    def residual(log_t: float) -> float:
        t = math.exp(log_t)
        f = fraction(t)
        return f - float((g / (g + ridge / (t * f))).sum()) / samples

    eta = ridge / xi if ridge > 0 else 1 - len(g) / samples
    lower = upper = math.log(eta / (1 - eta))
    step = 0.1
    while residual(lower) < 0:
        lower, step = lower - step, 2 * step
    while residual(upper) > 0:
        upper, step = upper + step, 2 * step
    t = math.exp(brentq(residual, lower, upper)) if lower < upper else math.exp(lower)
    return t, ridge / (t * fraction(t))
