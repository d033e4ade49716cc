r"""How much the errors of one run at given integers scatter.

The setting is that of `iclimit.asymptotics.pretraining.deterministic_equivalent`: ridge regression
on the features :math:`x_q h^\top`, given the second moments G of the summaries.  The minimum of
the training cost plus u times an error is, at u = 0, differentiated by u the error itself; its
covariance over prompts is one ladder (`iclimit.asymptotics.pretraining.ridge_fluctuations`), here
with leverages that fluctuate.  Sample i has the leverage :math:`u_i` and the residual variance
:math:`O_i = \rho + \text{misfit}\,|x_q|^2 + u_i \operatorname{tr}(C G C^\top)/d`.  For a test law
with moments B and the best :math:`\Gamma_t`, at :math:`A = (\xi + v B)/\theta`,

.. math::

   K &= (A + G)^{-1}, \quad k = \tfrac dn \operatorname{tr} G K, \quad
   C = \bigl(\xi \Gamma_* + v (\Gamma_* - \Gamma_t) B\bigr) K/\theta, \\
   q_i &= \frac{1}{\theta T + u_i k}, \quad 1 = E[u q] \text{ fixes } \theta(v), \quad
   \theta(0) = 1, \quad \xi = \lambda/T,

and with :math:`\chi = \frac dn \operatorname{tr} G K G K'`, the mixed derivative at v = v' = 0,

.. math:: \operatorname{Cov}(e, e') = \frac2n\, \partial_v \partial_{v'}\, \theta\theta' \Bigl\{
   E[q q' O^2] + \frac{\chi\, E[q q' O u]^2}{1 - \chi E[u^2 q q']} \Bigr\}.

The task sets add the covariance of the mean errors over them.

Where the query is correlated with the context, G, B and A are operators on C, those of
`iclimit.asymptotics.pretraining.query_moments`.  K, q and :math:`\theta` hardly change by the
one direction that counts, and stay those of an independent query.
"""

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    Leverages,
    SummaryLaw,
    equivalent_errors,
    leverages,
    undefined_in_float64,
)
from iclimit.asymptotics.pretraining.finite_size import LEAST_INTERPOLATED, Run, read_run
from iclimit.asymptotics.pretraining.query_moments import solve_features
from iclimit.asymptotics.pretraining.ridge_fluctuations import INTERPOLATED
from iclimit.checks import Seed, check_flags
from iclimit.results import Result
from iclimit.statement import named_cell
from iclimit.threads import blas_threads_by_dim

# Step of the differences in v: their error is a millionth.
STEP = 1e-3

# Task sets over which the part of the prompts is averaged; it hardly differs between them.
AVERAGED = 4


@dataclass(frozen=True, eq=False, repr=False)
class FiniteSizeSpread(Result):
    """Standard deviations of the errors of one run at given integers.

    Attributes
    ----------
    icl, idg, gap : float
        Of the ICL error, the IDG error and their difference.
    correlation : float
        Correlation of the two errors.
    prompts, tasks : ndarray (2, 2)
        Covariance of ICL and IDG error from the prompts at given tasks, with the test prompts, and
        from the task sets.
    """

    icl: float
    idg: float
    gap: float
    correlation: float
    prompts: np.ndarray
    tasks: np.ndarray

    @property
    def covariance(self) -> np.ndarray:
        """Covariance (2, 2) of the ICL and the IDG error."""
        return self.prompts + self.tasks


@named_cell("finite_size_spread")
@blas_threads_by_dim
def finite_size_spread(
    *,
    dim: int,
    context: int,
    tasks: int | float | np.ndarray,
    prompts: int,
    rho: float,
    ridge: float = 0.0,
    rng: Seed | None = None,
    draws: int = 100,
    task_law: str = "sphere",
    task_covariance: ArrayLike | None = None,
    test_covariance: ArrayLike | None = None,
    test_context: int | None = None,
    test_rho: float | None = None,
    input_covariance: ArrayLike | None = None,
    drift: float = 0.0,
    correlation: float | ArrayLike = 0.0,
    gates: ArrayLike | None = None,
    test_drift: float | None = None,
    test_correlation: float | ArrayLike | None = None,
    test_gates: ArrayLike | None = None,
    correlated_query: bool = False,
    test_prompts: int | None = None,
) -> FiniteSizeSpread:
    r"""Predict how much the errors of one run at exactly these integers scatter.

    Parameters
    ----------
    dim, context, tasks, prompts, rho, ridge
        As in `finite_size_errors`.  Tasks that are given stay the same in all runs.
    rng : int, SeedSequence or Generator, optional
        Source of the task sets; None draws them from fresh entropy.
    draws : int >= 1
        Number of task sets over which the mean errors scatter.
    task_law, task_covariance, test_covariance, test_context, test_rho, input_covariance
        As in `finite_size_errors`.
    drift, correlation, gates, test_drift, test_correlation, test_gates, correlated_query
        As in `finite_size_errors`.
    test_prompts : int >= 1, optional
        Test prompts per error; None for errors that are computed exactly.

    Returns
    -------
    FiniteSizeSpread
        Standard deviations ``icl``, ``idg``, ``gap`` and the ``correlation``; ``inf`` (and
        correlation 1) without a ridge within 3 prompts of d (d + 1), and with fewer prompts in
        contexts of one or two pairs.

    Raises
    ------
    ValueError
        If an argument is outside its range or the task array has the wrong shape.
    ArithmeticError
        If float64 cannot decide (see `finite_size_errors`).

    Notes
    -----
    Where the spread is more than a tenth of the error, the law of single runs is skewed: judge the
    logarithm of the error, whose standard deviation is spread / error.

    With gates that leave 7 pairs at d = 16 the spreads of 300 runs were 11(4) % below the
    predicted ones; with correlated inputs that leave 16 pairs at d = 20, 1 to 2(4) %.  With
    correlated queries, at five settings of d = 16 and 20, those of 2000 runs were between 6(2) %
    below and 2(2) % above, as with independent ones.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.finite_size_spread`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import finite_size_spread
    >>> sizes = {"dim": 24, "context": 24, "tasks": 24, "prompts": 1152}
    >>> run = finite_size_spread(**sizes, rho=0.1, ridge=0.05, rng=0)
    >>> round(run.icl, 3), round(run.idg, 3), round(run.correlation, 2)
    (0.057, 0.04, 0.71)
    """
    stated = {name: each for name, each in locals().items() if name != "test_prompts"}
    check_flags(correlated_query=correlated_query)
    if test_prompts is not None:
        check_integers(test_prompts=test_prompts)
    run = read_run(stated)
    spare = prompts - dim * (dim + 1)
    short = spare < 0 and run.counted <= LEAST_INTERPOLATED
    if run.ridge == 0 and (short or abs(spare) <= INTERPOLATED):
        infinite = np.full((2, 2), math.inf)
        return FiniteSizeSpread(math.inf, math.inf, math.inf, 1.0, infinite, np.zeros((2, 2)))
    at = prompts, run.ridge, run.inputs
    means = np.array([equivalent_errors(each, run.test, *at) for each in run.laws])
    with undefined_in_float64():
        parts = [
            _prompt_covariance(each, run, prompts, [run.test]) for each in run.laws[:AVERAGED]
        ]
    from_prompts = np.mean(parts, axis=0) + np.diag(
        2 * means.mean(axis=0) ** 2 / (test_prompts or math.inf)
    )
    from_tasks = np.cov(means.T) if len(means) > 1 else np.zeros((2, 2))
    covariance = from_prompts + from_tasks
    icl, idg = np.sqrt(np.diag(covariance)).tolist()
    gap = math.sqrt(max(covariance[0, 0] - 2 * covariance[0, 1] + covariance[1, 1], 0.0))
    correlation = float(covariance[0, 1] / (icl * idg))
    return FiniteSizeSpread(icl, idg, gap, correlation, from_prompts, from_tasks)


def paired_covariance(
    tests: Sequence[Mapping[str, Any]], *, prompts: int, **setting: Any
) -> np.ndarray:
    """Covariance of the ICL errors of the same runs in several tests.

    Parameters
    ----------
    tests : sequence of mapping
        Each with any arguments of `finite_size_spread` that are about tests.
    prompts, **setting
        Other arguments of `finite_size_spread`, with a finite variance there; ``rng`` is a seed.

    Returns
    -------
    ndarray (tests, tests)
    """
    known = inspect.signature(finite_size_spread).parameters.values()
    usual = {each.name: each.default for each in known if each.name != "test_prompts"}
    usual |= setting | {"prompts": prompts}
    runs = [read_run({**usual, **test}) for test in tests]
    first, laws = runs[0], [run.test for run in runs]
    at = prompts, first.ridge, first.inputs
    with undefined_in_float64():
        parts = [_prompt_covariance(e, first, prompts, laws) for e in first.laws[:AVERAGED]]
    means = [[equivalent_errors(each, test, *at)[0] for test in laws] for each in first.laws]
    from_tasks = np.cov(np.transpose(means)) if len(means) > 1 else 0.0
    return np.asarray(np.mean(parts, axis=0)[:-1, :-1] + from_tasks)


class Minimum(NamedTuple):
    """Minimum of the training cost plus v errors (module docstring)."""

    theta: float
    K: np.ndarray
    C: np.ndarray
    q: np.ndarray


class Moments(NamedTuple):
    """Moments of the features of a law, over directions of the query.

    Attributes
    ----------
    second : ndarray (d + 1, d + 1)
        Of the summaries.
    applied : callable
        The operator on matrices, which is a product with ``second`` for independent queries.
    best : ndarray (d, d + 1)
        The matrix with the least error.
    independent : bool
        Whether queries are independent of their contexts.
    """

    second: np.ndarray
    applied: Callable[[np.ndarray], np.ndarray]
    best: np.ndarray
    independent: bool = True


def _prompt_covariance(
    train: SummaryLaw, run: Run, prompts: int, tests: Sequence[SummaryLaw]
) -> np.ndarray:
    """Covariance over prompts of the errors of tests on fresh tasks and, last, the IDG error."""
    inputs = run.inputs
    at = leverages(train, prompts, run.ridge, inputs)
    own = _moments(train, run)
    dim = len(own.best)
    misfit = train.label - train.rho - np.vdot(own.applied(own.best), own.best) / dim
    weight = inputs.multiplicity / prompts
    scale = weight * float(np.sum(at.feature / (at.feature + at.xi))) * at.t
    laws = (*(_moments(each, run) for each in tests), own)
    minima = [
        [_minimum(at, inputs.values, own, law, v, scale, weight) for v in (STEP, -STEP)]
        for law in laws
    ]

    def overlap(a: Minimum, b: Minimum) -> float:
        signal = np.vdot(own.applied(a.C), b.C) / dim
        variance = run.rho + misfit * at.query[:, None] + at.u * signal
        turned = inputs.values[:, :, None] * own.second
        chi = weight * np.einsum("aij,aji->", turned @ a.K, turned @ b.K)
        both = at.weight * a.q * b.q
        ladder = np.sum(both * variance * at.u) ** 2 * chi / (1 - chi * np.sum(both * at.u**2))
        return a.theta * b.theta * (np.sum(both * variance**2) + ladder)

    def covariance(first: list[Minimum], second: list[Minimum]) -> float:
        (a, b), (c, d) = first, second
        mixed = overlap(a, c) - overlap(a, d) - overlap(b, c) + overlap(b, d)
        return 2 / prompts * mixed / (4 * STEP**2)

    return np.array([[covariance(a, b) for b in minima] for a in minima])


def _moments(law: SummaryLaw, run: Run) -> Moments:
    """Moments of the features of a law."""
    if features := law.features:
        return Moments(law.second, features.applied, features.best(0.0), False)
    second = run.inputs.colour(run.inputs.colour(law.second).T)
    cross = run.inputs.basis.T @ run.inputs.colour(law.cross).T
    return Moments(second, lambda x: x @ second, np.linalg.solve(second, cross.T).T)


def _minimum(
    at: Leverages,
    sigma: np.ndarray,
    train: Moments,
    test: Moments,
    v: float,
    scale: float,
    weight: float,
) -> Minimum:
    """Solve for theta at v; sigma (r, 1) are variances of the inputs, ``scale`` is T."""
    values = sigma[:, :, None]
    start = at.xi * np.eye(len(train.second)) + values * (v * test.second)

    def resolvent(theta: float) -> np.ndarray:
        return theta * np.linalg.inv(start + theta * values * train.second)

    def factor(theta: float, K: np.ndarray) -> np.ndarray:
        trace = weight * np.einsum("aij,aji->", values * train.second, K)
        return 1 / (theta * scale + at.u * trace)

    def residual(log_theta: float) -> float:
        theta = math.exp(log_theta)
        return float(np.sum(at.weight * at.u * factor(theta, resolvent(theta)))) - 1

    theta = math.exp(brentq(residual, -1.0, 1.0, xtol=1e-15))
    K = resolvent(theta)
    pushed = at.xi * train.best + v * sigma * test.applied(train.best - test.best)
    if train.independent:
        C = (pushed[:, None] @ K)[:, 0] / theta
    else:

        def applied(x: np.ndarray) -> np.ndarray:
            return at.xi * x + v * test.applied(x) + theta * train.applied(x)

        C = solve_features(applied, pushed, K[0] / theta)
    return Minimum(theta, K, C, factor(theta, K))
