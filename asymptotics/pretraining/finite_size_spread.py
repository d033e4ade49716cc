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
   E[q q' O^2] + \frac{\chi\, E[q q' O u]^2}{1 - \chi E[u^2 q q']} \Bigr\}
   + \frac1n\, \partial_v \partial_{v'} \operatorname{Cov}_u\bigl(\theta q\,(O + u\omega),\;
   \theta' q' (O' + u\omega')\bigr) .

The first term is what prompts do one by one, the second what several do together.  The last one
is what the leverages of single prompts change: :math:`O + u\omega` is the whole variance of a
residual, with O at v = v' and :math:`\omega = \chi E[q^2 O u]/(1 - \chi E[u^2 q^2])`.  The task
sets add the covariance of the mean errors over them.

**Drawn laws.**  With fewer prompts than features, or up to three times as many of short contexts,
the first term is taken from drawn prompts (`iclimit.asymptotics.pretraining.drawn_errors`), and
the second one comes from here.  With short contexts and a small ridge the first term is that of
rare prompts, and the law of one run is far from normal: then it is drawn.
Without a ridge a prompt whose label norm is chi adds 1/chi to the error, and the error next to
:math:`n = p = d (d + 1)` is that of a nearly singular matrix: moments are finite up to the order
l/2 (fewer prompts than features) and :math:`(|n - p| + 1)/2`, the smaller of the two.

The relative scatter belongs to the mean errors task by task, which are
better known than those from mean moments.

Where the query is correlated with the context, G, B and A are operators on C, those of
`iclimit.asymptotics.pretraining.query_moments`.  K, q and :math:`\theta` hardly change by the
one direction that counts, and stay those of an independent query.  Drawn laws are those of
independent queries, relative to their means.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    Leverages,
    SummaryLaw,
    equivalent_errors,
    leverages,
    undefined_in_float64,
)
from iclimit.asymptotics.pretraining.drawn_errors import (
    DrawnErrors,
    DrawnFit,
    DrawnPrompts,
    drawn_errors,
)
from iclimit.asymptotics.pretraining.finite_size import (
    LEAST_EIGENVALUE,
    LEAST_INTERPOLATED,
    Run,
    predicted_errors,
    read_run,
)
from iclimit.asymptotics.pretraining.query_moments import solve_features
from iclimit.asymptotics.pretraining.ridge_fluctuations import INTERPOLATED
from iclimit.checks import Seed
from iclimit.experiment import Experiment
from iclimit.prediction import Scatter, scatter_of
from iclimit.problem import check_linear
from iclimit.statement import named_cell
from iclimit.threads import blas_threads_by_dim

# Step of the differences in v: their error is a millionth.  The step may be so many times as large
# in units of the test's own summaries.
STEP = 1e-3
MOST_STEPS = 10.0

# Task sets over which the part of the prompts is averaged; it hardly differs between them.
AVERAGED = 4

# Task sets of which the mean errors are predicted task by task.
CENTRED = 8

# Task sets of a drawn law.
DRAWN_SETS = 2

# With more prompts than features the law is drawn where leverages vary by at least so much
# relative to their mean, times the number of prompts over that of features, and with up to MANY
# times as many prompts.
LEAST_VARIANCE = 0.4
MANY = 3.0

# The law is heavy where its central 68 % is narrower than this share of that of a log-normal law
# with the same standard deviation.  That is at least LEAST_BULK of the standard deviation: wider
# log-normal laws are heavy themselves, and beyond WIDE laws are no longer log-normal.
HEAVY = 0.95
WIDE = 0.4
LEAST_BULK = 0.9

# Share of the runs that are drawn to see whether the law may be heavy, and the width below which
# it may be.
FEW = 0.1
MAYBE_HEAVY = 0.98

# Range of the central 68 % of a normal law of variance 1.
CENTRAL = 0.15865525393145707, 0.8413447460685429

# Moments that a variance needs.
VARIANCE = 2.0


@named_cell("finite_size_spread")
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
) -> Scatter:
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
    Scatter
        Standard deviations ``icl``, ``idg``, ``gap`` and the ``correlation``; ``inf`` (and
        correlation 1) without a ridge within 3 prompts of d (d + 1), and with fewer prompts in
        contexts of up to four pairs whose gates are not zero.

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

    With short contexts, fewer prompts than d (d + 1) and a small ridge, rare prompts decide the
    errors: ``heavy`` says so, and ``quantiles`` come from a drawn law.  At d = 12, 3 to 6 pairs
    and ridges of 0 to 0.1 the quantiles 2.5, 16, 50, 84 and 97.5 % of 2500 simulated runs were
    within 7 % of these.  Correlated queries take the relative law of independent ones: at 35
    random settings scatters were 0.83 to 1.24 times the predicted ones, but 0.6 times at one with
    three pairs, r = 0.92 and n = d (d + 1) + 22.

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
    (0.057, 0.04, 0.72)
    """
    stated = Experiment.of(
        dim=dim,
        context=context,
        tasks=tasks,
        prompts=prompts,
        rho=rho,
        ridge=ridge,
        task_law=task_law,
        task_covariance=task_covariance,
        test_covariance=test_covariance,
        test_context=test_context,
        test_rho=test_rho,
        input_covariance=input_covariance,
        drift=drift,
        correlation=correlation,
        gates=gates,
        test_drift=test_drift,
        test_correlation=test_correlation,
        test_gates=test_gates,
        correlated_query=correlated_query,
        test_prompts=test_prompts,
    )
    return predicted_spread(stated, rng=rng, draws=draws)


@blas_threads_by_dim
def predicted_spread(
    experiment: Experiment,
    *,
    rng: Seed | None = None,
    draws: int = 100,
    start_variance: float = 0.0,
) -> Scatter:
    """Scatter of the errors of a run; arguments as of `finite_size_spread`.

    The ridge may pull towards a start of entries of variance ``start_variance`` / d, the same in
    all runs.
    """
    check_linear(experiment.problem)
    run = read_run(experiment, rng, draws)
    # Drawn prompts know no start: they have the relative scatter of a start at 0.
    from_zero = run
    if start_variance:
        start = np.random.default_rng(0).standard_normal(run.test.cross.T.shape)
        start *= math.sqrt(start_variance / len(start))
        laws = [law.seen_from(start) for law in run.laws]
        run = replace(run, laws=laws, test=run.test.seen_from(start))
    dim = experiment.dim
    prompts = experiment.prompts
    test_prompts = experiment.tests.prompts
    index = _tail_index(run, dim, prompts)
    if run.ridge == 0 and abs(prompts - dim * (dim + 1)) <= INTERPOLATED:
        return _infinite(index)
    if index <= LEAST_INTERPOLATED / 2:
        return _infinite(index)
    at = prompts, run.ridge, run.inputs
    means = np.array([equivalent_errors(law, run.test, *at) for law in run.laws])
    with undefined_in_float64():
        parts = [_prompt_covariance(law, run, prompts, [run.test]) for law in run.laws[:AVERAGED]]
    alone, together = np.mean(parts, axis=0)
    from_tasks = np.cov(means.T) if len(means) > 1 else np.zeros((2, 2))
    moments = np.mean(means, axis=0)
    squares = np.outer(moments, moments)
    law = _drawn_law(from_zero, prompts, (together + from_tasks) / squares)
    if law is None:
        law = DrawnErrors(moments, np.empty((0, 2)), alone)
    if test_prompts is not None:
        law = law.tested(
            _test_variances(from_zero, prompts, means[0, 1]) / test_prompts, run.generator
        )
    # Relative scatters are better known than the means that belong to them.
    centre = moments * _by_tasks(experiment, rng, draws)
    scale = centre / law.mean
    deviations = law.deviations * scale
    if index <= VARIANCE:
        return replace(_infinite(index), mean=centre, deviations=deviations)
    own = np.outer(centre, centre) / squares
    from_prompts = law.covariance * np.outer(scale, scale) + together * own
    from_tasks = from_tasks * own
    return scatter_of(
        from_prompts, from_tasks, tail_index=index, mean=centre, deviations=deviations
    )


def _test_variances(run: Run, prompts: int, idg: float) -> np.ndarray:
    """Variances of the squared errors of single test prompts, over their squared means.

    Given its summary and task a prompt's error is Gaussian, of a variance that differs between
    prompts: by what the mean fit misses, and by the fluctuations of the fit.  Where queries are
    correlated it counts as the same for all.  ``idg`` is the mean IDG error.
    """
    if run.test.features or run.fresh.features:
        return np.full(2, 2.0)
    train = run.laws[0]
    xi = leverages(train, prompts, run.ridge, run.inputs).xi
    xi /= math.exp(float(np.mean(np.log(np.maximum(run.inputs.values, LEAST_EIGENVALUE)))))
    resolvent = np.linalg.inv(train.second + xi * np.eye(len(train.second)))
    fit = train.cross.T @ resolvent
    risk = train.label + np.vdot(fit @ train.second - 2 * train.cross.T, fit) / len(fit)
    shape = resolvent @ train.second @ resolvent
    variance = max(idg - risk, 0.0) / np.vdot(train.second, shape) * shape
    fresh = {"icl": run.test_isotropic, "idg": run.isotropic and not run.sets}
    variances = []
    for law, isotropic in zip((run.test, train), fresh.values(), strict=True):
        drawn = DrawnPrompts.of(law, np.random.default_rng(0), fresh=isotropic)
        missed = drawn.tasks - drawn.summaries @ fit.T
        squares = np.sum(missed**2, axis=1) / len(fit) + drawn.forms(variance)
        own = law.rho + drawn.norms * squares
        variances.append(3 * (drawn.weight @ own**2) / (drawn.weight @ own) ** 2 - 1)
    return np.array(variances)


def _by_tasks(experiment: Experiment, rng: Seed | None, draws: int) -> np.ndarray:
    """Mean errors task by task over those from mean moments, for some task sets."""
    problem = replace(experiment.problem, correlated_query=False)
    test = experiment.test
    if test is not None:
        test = replace(test, problem=replace(test.problem, correlated_query=False))
    alone = experiment.with_(problem=problem, test=test)
    seed = rng if isinstance(rng, int) else 0
    draws = min(draws, CENTRED)
    tasks = predicted_errors(alone, rng=seed, draws=draws, approach="tasks")
    moments = predicted_errors(alone, rng=seed, draws=draws, approach="moments")
    return np.array([tasks.icl.mean / moments.icl.mean, tasks.idg.mean / moments.idg.mean])


def _infinite(index: float) -> Scatter:
    """Spread of errors whose variance is infinite."""
    infinite = np.full((2, 2), math.inf)
    return Scatter(
        icl=math.inf,
        idg=math.inf,
        gap=math.inf,
        correlation=1.0,
        prompts=infinite,
        tasks=np.zeros((2, 2)),
        tail_index=index,
    )


def _tail_index(run: Run, dim: int, prompts: int) -> float:
    """Order below which moments of an error are finite (module docstring)."""
    if run.ridge > 0:
        return math.inf
    spare = prompts - dim * (dim + 1)
    index = (abs(spare) + 1) / 2
    return min(index, run.counted / 2) if spare < 0 else index


def _drawn_law(run: Run, prompts: int, shared: np.ndarray) -> DrawnErrors | None:
    """Law of the errors where it may be heavy; None elsewhere, and where it cannot be drawn.

    It has no deviations where it is not heavy.  Inputs with a covariance are whitened, at the
    ridge over the squared geometric mean of their eigenvalues.

    ``shared`` is the covariance of what is not the influence of single prompts, over the products
    of the means.
    """
    dim = run.test.cross.shape[1]
    fresh = run.isotropic and not run.sets
    singular = float(np.min(run.inputs.values)) < LEAST_EIGENVALUE
    threshold = dim * (dim + 1)
    enough = prompts >= threshold and not _varied(run, prompts)
    if singular or enough or prompts >= MANY * threshold:
        return None
    ridge = run.ridge / math.exp(2 * float(np.mean(np.log(run.inputs.values))))
    rng = np.random.default_rng(0)
    laws = [law.with_independent_query() for law in run.laws[:DRAWN_SETS]]
    test = run.test.with_independent_query()
    parts: list[DrawnErrors] = []
    with undefined_in_float64():
        for law in laws:
            drawn = DrawnPrompts.of(law, rng, fresh=fresh)
            fit = DrawnFit.of(drawn, prompts, run.rho, ridge)
            if not parts:
                few = drawn_errors(fit, [test, law], shared, rng, FEW)
                if not _is_heavy(few, shared, MAYBE_HEAVY):
                    return few.without_deviations
            parts.append(drawn_errors(fit, [test, law], shared, rng, 1 / len(laws)))
    mean = np.mean([part.mean for part in parts], axis=0)
    covariance = np.mean([part.covariance for part in parts], axis=0)
    deviations = np.concatenate([part.deviations for part in parts])
    drawn_law = DrawnErrors(mean, deviations, covariance)
    return drawn_law if _is_heavy(drawn_law, shared) else drawn_law.without_deviations


def _is_heavy(law: DrawnErrors, shared: np.ndarray, share: float = HEAVY) -> bool:
    """Whether the bulk of a law is narrower than that of a log-normal one of its variance."""
    low, high = np.quantile(law.deviations, CENTRAL, axis=0)
    relative = np.sqrt(np.diag(law.covariance) / law.mean**2 + np.diag(shared))
    usual = np.exp(-(relative**2) / 2) * np.sinh(relative) / relative
    usual = np.maximum(usual, LEAST_BULK) * relative
    narrow = (high - low) / 2 < share * usual * law.mean
    return bool(np.any(narrow | (relative > WIDE)))


def _varied(run: Run, prompts: int) -> bool:
    """Whether leverages vary so much that rare prompts may decide the errors."""
    at = leverages(run.laws[0], prompts, run.ridge, run.inputs)
    variance = float(np.sum(at.weight * (at.u - 1) ** 2))
    dim = run.test.cross.shape[1]
    return variance * dim * (dim + 1) > LEAST_VARIANCE * prompts


def paired_covariance(
    tests: Sequence[Mapping[str, Any]],
    *,
    rng: Seed | None = None,
    draws: int = 100,
    **setting: Any,
) -> np.ndarray:
    """Covariance of the ICL errors of the same runs in several tests.

    Parameters
    ----------
    tests : sequence of mapping
        Each with any arguments of `finite_size_spread` that are about tests.
    rng, draws, **setting
        Other arguments of `finite_size_spread`, with a finite variance there; ``rng`` is a seed.

    Returns
    -------
    ndarray (tests, tests)
    """
    stated = [Experiment.of(**setting, **test) for test in tests]
    for experiment in stated:
        check_linear(experiment.problem)
    runs = [read_run(experiment, rng, draws) for experiment in stated]
    first = runs[0]
    prompts = stated[0].prompts
    laws = [run.test for run in runs]
    at = prompts, first.ridge, first.inputs
    with undefined_in_float64():
        parts = [_prompt_covariance(law, first, prompts, laws) for law in first.laws[:AVERAGED]]
    means = [[equivalent_errors(law, test, *at)[0] for test in laws] for law in first.laws]
    from_tasks = np.cov(np.transpose(means)) if len(means) > 1 else 0.0
    covariance = np.mean(parts, axis=0).sum(axis=0)[:-1, :-1] + from_tasks
    scale = np.array([_by_tasks(experiment, rng, draws)[0] for experiment in stated])
    return np.asarray(covariance * np.outer(scale, scale))


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
    """Covariances over prompts of the errors of tests on fresh tasks and, last, the IDG error.

    They are (2, tests + 1, tests + 1): first what prompts do one by one, then what several do.
    """
    inputs = run.inputs
    at = leverages(train, prompts, run.ridge, inputs)
    own = _moments(train, run)
    dim = len(own.best)
    misfit = train.label - train.rho - np.vdot(own.applied(own.best), own.best) / dim
    weight = inputs.multiplicity / prompts
    scale = weight * float(np.sum(at.feature / (at.feature + at.xi))) * at.t
    laws = (*(_moments(test, run) for test in tests), own)
    steps = [_step(law, own, at.xi) for law in laws]
    minima = [
        [_minimum(at, inputs.values, own, law, v, scale, weight) for v in (step, -step)]
        for law, step in zip(laws, steps, strict=True)
    ]

    def variances(a: Minimum, b: Minimum) -> np.ndarray:
        """Overlap O of the residuals of two minima."""
        signal = np.vdot(own.applied(a.C), b.C) / dim
        return np.asarray(run.rho + misfit * at.query[:, None] + at.u * signal)

    def ladder(a: Minimum, b: Minimum) -> tuple[float, float]:
        """Mean of q q' O u, and chi over what the ladder leaves of 1."""
        turned = inputs.values[:, :, None] * own.second
        chi = weight * np.einsum("aij,aji->", turned @ a.K, turned @ b.K)
        both = at.weight * a.q * b.q
        once = float(np.sum(both * variances(a, b) * at.u))
        return once, float(chi / (1 - chi * np.sum(both * at.u**2)))

    def overlap(a: Minimum, b: Minimum) -> np.ndarray:
        once, sum_of_ladder = ladder(a, b)
        alone = np.sum(at.weight * a.q * b.q * variances(a, b) ** 2)
        return np.array([alone, once**2 * sum_of_ladder]) * (2 * a.theta * b.theta)

    def expected(a: Minimum) -> np.ndarray:
        """Mean of what a prompt of a given leverage adds to the minimum.

        It is left out for correlated queries, whose leverages have another law: runs scatter less
        than predicted there without it.
        """
        if not own.independent:
            return np.zeros(1)
        once, sum_of_ladder = ladder(a, a)
        return np.asarray(a.theta * a.q * (variances(a, a) + at.u * once * sum_of_ladder))

    levels = [expected(a) - expected(b) for a, b in minima]

    def covariance(first: int, second: int) -> np.ndarray:
        a, b = minima[first]
        c, d = minima[second]
        mixed = overlap(a, c) - overlap(a, d) - overlap(b, c) + overlap(b, d)
        level = np.sum(at.weight * levels[first] * levels[second])
        level -= np.sum(at.weight * levels[first]) * np.sum(at.weight * levels[second])
        return np.array([mixed[0] + level, mixed[1]]) / (
            4 * steps[first] * steps[second] * prompts
        )

    numbers = range(len(minima))
    covariances = np.array([[covariance(i, j) for j in numbers] for i in numbers])
    return np.moveaxis(covariances, -1, 0)


def _step(test: Moments, own: Moments, xi: float) -> float:
    """Step of the differences in v, smaller for tests whose summaries exceed those of training."""
    resolvent = np.linalg.inv(own.second + xi * np.eye(len(own.second)))
    ratio = np.vdot(resolvent, own.second) / np.vdot(resolvent, test.second)
    return STEP * min(1.0, MOST_STEPS * float(ratio))


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
