r"""Law of the errors of one run, from the influence of single prompts.

Rare prompts decide the errors of a run with short contexts, a small ridge and fewer prompts than
features.  A prompt whose labels happen to be small has a small summary h, and a fit that
interpolates it moves :math:`\Gamma` by :math:`1/|h|`.

**Influence.**  The errors are derivatives by v of the minimum F of the training cost plus v times
an error (`iclimit.asymptotics.pretraining.finite_size_spread`).  A prompt with the task w, the
summary h and :math:`r = |x_q|^2` raises F by :math:`\theta \varrho^2/n`, where :math:`\varrho` is
its residual in the fit without it.  With N the mean resolvent and :math:`\Gamma` the mean fit,

.. math::

   N^{-1} &= E[\theta r\, hh^\top] + \lambda + vB, \qquad
   \theta = \frac1{1 + \frac dn r\, h^\top N h}, \qquad
   \Gamma = \bigl(E[\theta r\, w h^\top] + v A_t^\top\bigr) N, \\
   R &= \rho + r \bigl(\tfrac1d |w - \Gamma h|^2 + h^\top V h\bigr), \qquad
   V = \tfrac dn N\, E[\theta^2 r R\, hh^\top]\, N ,

for a test law with the moments B = E h h' and :math:`A_t = E\, h w^\top`: R is the variance of the
residual, and V the covariance of the rows of the fit.  So the prompt moves the error by

.. math:: g = \tfrac1n \bigl[ \theta' (\varrho^2 + r\, h^\top V h)
   + \theta\, (2 \varrho \varrho' + r\, h^\top V' h) \bigr],

with the derivatives by v, and :math:`(\varrho, \varrho')` Gaussian with the covariance of
:math:`x_q^\top (w - \Gamma h)`, of its derivative and of the noise.  The first term is
:math:`\frac{d}{n^2} \theta^2 r \varrho^2\, h^\top N T N h` with
:math:`T = B + \frac dn E[\theta^2 r^2\, (h^\top N T N h)\, hh^\top]`: what the prompt
injects.  The others are what it tells.

**A run** is the sum of these influences of n independent prompts.  What two or more prompts do
together is small and hardly skewed.  It is a factor, whose variance is the ladder's.
Expectations are sums over drawn prompts, which are denser where the summaries are small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammaincinv

from iclimit.asymptotics.pretraining.deterministic_equivalent import SummaryLaw, matrix_root
from iclimit.asymptotics.pretraining.timed_contexts import Numbers, TimedContexts

# Drawn prompts.
PROMPTS = 6000

# Most runs that are drawn from them, and most prompts of all these runs.
RUNS = 12_000
PROMPTS_OF_RUNS = 3_000_000

# Prompts are drawn at the quantiles z^POWER of a uniform z.
POWER = 3

# Ridge in place of none: a millionth of the summaries' second moments, which are of order 1.
LEAST_RIDGE = 1e-6

# Relative accuracy of iterations, and the most of them.
ACCURACY = 1e-4
MOST_STEPS = 2000

# The interactions are a factor of what is at least this share of the mean error.
LEAST_SHARE = 0.2

# Equal cells of [0, 1] in which drawn numbers are looked up; a power of 2, so that ends are exact.
CELLS = 2**16

# Most products of two summaries of which all second moments are taken at once.
MOST_PRODUCTS = 500


@dataclass(frozen=True)
class DrawnPrompts:
    """Prompts of a law, with weights.

    Attributes
    ----------
    summaries : ndarray (m, d + 1)
        Context summaries h.
    tasks : ndarray (m, d)
        Their tasks w.
    norms : ndarray (m,)
        Squared norms r of the queries, of mean 1.
    weight : ndarray (m,)
        Probabilities.
    """

    summaries: np.ndarray
    tasks: np.ndarray
    norms: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, law: SummaryLaw, rng: np.random.Generator, *, fresh: bool) -> DrawnPrompts:
        """Draw prompts of a law; ``fresh``: its tasks stand for all directions."""
        # Of its own, so that timed contexts leave the other random numbers as they are.
        timed_rng = np.random.default_rng(0)
        z = (np.arange(PROMPTS) + 0.5) / PROMPTS
        weight = z ** (POWER - 1)
        tasks = _drawn_tasks(law, PROMPTS, rng, fresh)
        dim = tasks.shape[1]
        squares = np.sum(tasks**2, axis=1)
        noise = rng.standard_normal(tasks.shape)
        norms = rng.chisquare(dim, PROMPTS) / dim
        pairs = law.context if law.timed is None else np.count_nonzero(law.timed.gates)
        chi = gammaincinv(pairs / 2, z**POWER) * 2 / pairs
        if law.timed is None:
            labels = squares / dim + law.rho
            spread = chi * dim * labels / law.context
            along = chi / law.context
            numbers = Numbers(chi, spread, along, np.zeros_like(chi), chi * labels)
        else:
            assert isinstance(law.timed, TimedContexts)
            isotropic = law.innovations is None
            chances = timed_rng.random(PROMPTS)
            numbers, of_draws = law.timed.drawn(squares / dim, chi, chances, isotropic=isotropic)
            weight = weight * of_draws
        summaries = _summaries(numbers, tasks, noise)
        if law.innovations is not None:
            drifted = np.sqrt(np.maximum(numbers.drifted, 0.0))[:, None]
            added = timed_rng.standard_normal(tasks.shape) @ matrix_root(law.innovations)
            summaries[:, :dim] += drifted * added
        return cls(summaries, tasks, norms, weight / np.sum(weight))

    def second(self, values: np.ndarray) -> np.ndarray:
        """Mean of values times h h^T."""
        return (self.summaries * (self.weight * values)[:, None]).T @ self.summaries

    def cross(self, values: np.ndarray) -> np.ndarray:
        """Mean of values times w h^T."""
        return (self.tasks * (self.weight * values)[:, None]).T @ self.summaries

    def forms(self, matrix: np.ndarray) -> np.ndarray:
        """Quadratic forms h^T M h."""
        return np.einsum("mi,mi->m", self.summaries @ matrix, self.summaries)


def _drawn_tasks(law: SummaryLaw, count: int, rng: np.random.Generator, fresh: bool) -> np.ndarray:
    tasks = law.tasks[rng.permutation(np.arange(count) % len(law.tasks))]
    if not fresh:
        return tasks
    directions = rng.standard_normal(tasks.shape)
    norms = np.linalg.norm(tasks, axis=1, keepdims=True)
    return directions * norms / np.linalg.norm(directions, axis=1, keepdims=True)


def _summaries(numbers: Numbers, tasks: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Summaries of prompts, given their numbers; noise (m, d) is N(0, 1)."""
    squares = np.sum(tasks**2, axis=1)
    squares = np.where(squares > 0, squares, 1.0)
    # Between norms numbers are interpolated, so that noise may be below 0.
    noises = np.maximum(numbers.noise, np.finfo(float).tiny)
    # The root of Q - e w w' shrinks the component along w.
    left = np.sqrt(np.maximum(1 - numbers.along * squares / noises, 0.0))
    along = np.sum(noise * tasks, axis=1) / squares
    turned = noise - ((1 - left) * along)[:, None] * tasks
    head = numbers.signal[:, None] * tasks + np.sqrt(noises)[:, None] * turned
    return np.column_stack([head, numbers.tail])


@dataclass(frozen=True)
class DrawnFit:
    """Mean fit on drawn prompts (module docstring).

    Attributes
    ----------
    prompts : DrawnPrompts
    count : int
        Number n of training prompts.
    rho : float
        Noise variance.
    resolvent : ndarray (d + 1, d + 1)
        N.
    theta : ndarray (m,)
        Factors by which taking part reduces the residuals.
    """

    prompts: DrawnPrompts
    count: int
    rho: float
    resolvent: np.ndarray
    theta: np.ndarray

    @classmethod
    def of(cls, prompts: DrawnPrompts, count: int, rho: float, ridge: float) -> DrawnFit:
        """Solve for the mean resolvent.

        Raises
        ------
        ArithmeticError
            If the iteration does not converge.
        """
        penalty = max(ridge, LEAST_RIDGE) * np.eye(prompts.summaries.shape[1])
        scale = prompts.tasks.shape[1] / count
        resolvent: np.ndarray = np.eye(len(penalty))
        for _ in range(MOST_STEPS):
            theta = 1 / (1 + scale * prompts.norms * prompts.forms(resolvent))
            before = resolvent
            resolvent = np.linalg.inv(prompts.second(theta * prompts.norms) + penalty)
            moved = np.max(abs(resolvent - before)) / np.max(abs(resolvent))
            if moved < ACCURACY / 10:
                return cls(prompts, count, rho, resolvent, theta)
        raise ArithmeticError("the mean resolvent does not converge")

    @property
    def scale(self) -> float:
        """Features over prompts, d/n."""
        return self.prompts.tasks.shape[1] / self.count

    @cached_property
    def fit(self) -> np.ndarray:
        """Mean fit (d, d + 1)."""
        return self.prompts.cross(self.theta * self.prompts.norms) @ self.resolvent

    @cached_property
    def missed(self) -> np.ndarray:
        """What the fit misses of the tasks, w - Gamma h, over sqrt(d), (m, d)."""
        dim = self.prompts.tasks.shape[1]
        missed = self.prompts.tasks - self.prompts.summaries @ self.fit.T
        return np.asarray(missed / math.sqrt(dim))

    @cached_property
    def products(self) -> np.ndarray | None:
        """Second moments of the products h_i h_j, i <= j, times theta^2 r^2; None if too many."""
        rows, columns = np.triu_indices(len(self.resolvent))
        if len(rows) > MOST_PRODUCTS:
            return None
        drawn = self.prompts
        summaries = np.ascontiguousarray(drawn.summaries.T)
        root = np.sqrt(drawn.weight) * self.theta * drawn.norms
        products = summaries[rows] * summaries[columns] * root
        return np.asarray(products @ products.T)

    def injected(self, matrix: np.ndarray) -> np.ndarray:
        """Mean of theta^2 r^2 (h'Xh) hh' for a symmetric X."""
        if self.products is None:
            weights = (self.theta * self.prompts.norms) ** 2
            return self.prompts.second(weights * self.prompts.forms(matrix))
        rows, columns = np.triu_indices(len(matrix))
        # Those off the diagonal occur twice in h'Xh.
        twice = np.where(rows == columns, 1.0, 2.0)
        mean = np.empty_like(matrix)
        mean[rows, columns] = self.products @ (twice * matrix[rows, columns])
        mean[columns, rows] = mean[rows, columns]
        return mean

    def ladder(self, start: np.ndarray, factor: float) -> np.ndarray:
        """Sum of the series whose next term is factor N E[theta^2 r^2 (h'Xh) hh'] N."""
        N = self.resolvent
        total = start
        term = total
        for _ in range(MOST_STEPS):
            term = factor * N @ self.injected(term) @ N
            total = total + term
            if np.max(abs(term)) < ACCURACY * np.max(abs(total)):
                return total
        raise ArithmeticError("the variance of the fit does not converge")

    @cached_property
    def variance(self) -> np.ndarray:
        """Covariance V of the rows of the fit."""
        own = self.rho + self.prompts.norms * np.sum(self.missed**2, axis=1)
        pushed = self.prompts.second(self.theta**2 * self.prompts.norms * own)
        return self.ladder(self.scale * self.resolvent @ pushed @ self.resolvent, self.scale)

    @cached_property
    def fluctuation(self) -> np.ndarray:
        """Variance r h'Vh of residuals because of the fluctuations of the fit, (m,)."""
        return self.prompts.norms * self.prompts.forms(self.variance)

    def error(self, test: SummaryLaw) -> float:
        """Mean error of a test law."""
        quadratic = np.vdot(self.fit @ test.second, self.fit)
        linear = np.vdot(self.fit.T, test.cross)
        bias = (quadratic - 2 * linear) / len(self.fit)
        return float(test.label + bias + np.sum(test.second * self.variance))

    def influence(self, test: SummaryLaw) -> Influence:
        """Derivatives of what a prompt adds to the minimum."""
        N = self.resolvent
        drawn = self.prompts
        dim = len(self.fit)
        norms = drawn.norms
        slope = self.ladder(-N @ test.second @ N, self.scale)
        theta_slope = -self.scale * self.theta**2 * norms * drawn.forms(slope)
        pushed = drawn.cross(theta_slope * norms) + test.cross.T
        fit_slope = pushed @ N + drawn.cross(self.theta * norms) @ slope
        moved = -drawn.summaries @ fit_slope.T / math.sqrt(dim)
        residual = self.rho + norms * np.sum(self.missed**2, axis=1) + self.fluctuation
        once = drawn.second(self.theta**2 * norms * residual)
        change = 2 * self.theta * theta_slope * norms * residual
        change += 2 * self.theta**2 * norms**2 * np.sum(self.missed * moved, axis=1)
        start = N @ drawn.second(change) @ N + slope @ once @ N + N @ once @ slope
        variance_slope = self.ladder(self.scale * start, self.scale)
        return Influence(theta_slope, moved, norms * drawn.forms(variance_slope))


@dataclass(frozen=True)
class Influence:
    """Slopes by v of a prompt's theta, (m,), of its residual, (m, d), and of r h'Vh, (m,)."""

    theta: np.ndarray
    missed: np.ndarray
    fluctuation: np.ndarray


@dataclass(frozen=True)
class DrawnErrors:
    """Law of the errors of one run.

    Attributes
    ----------
    mean : ndarray (m,)
        Mean error of each test law.
    deviations : ndarray (runs, m)
        Errors of drawn runs, less their means.
    covariance : ndarray (m, m)
        Covariance of the sums of the influences of single prompts.
    """

    mean: np.ndarray
    deviations: np.ndarray
    covariance: np.ndarray

    @property
    def without_deviations(self) -> DrawnErrors:
        """Moments only."""
        return replace(self, deviations=self.deviations[:0])

    def tested(self, variances: np.ndarray, rng: np.random.Generator) -> DrawnErrors:
        """The law of errors that are measured, with relative variances (m,) of measuring."""
        relative = np.sqrt(variances)
        noise = relative * rng.standard_normal(self.deviations.shape)
        return replace(
            self,
            deviations=self.deviations + noise * (self.mean + self.deviations),
            covariance=self.covariance + np.diag((relative * self.mean) ** 2),
        )


@dataclass(frozen=True)
class RandomNumbers:
    """Integers with given probabilities, found from uniform numbers.

    A search among the sums of the probabilities is needed only in cells that have one inside.

    Attributes
    ----------
    sums : ndarray (m,)
        Sums of the probabilities.
    first : ndarray (CELLS,)
        Integer at the lower end of each cell.
    single : ndarray (CELLS,)
        Whether it is that of the whole cell.
    """

    sums: np.ndarray
    first: np.ndarray
    single: np.ndarray

    @classmethod
    def of(cls, probabilities: np.ndarray) -> RandomNumbers:
        """Integers with these probabilities."""
        sums = np.cumsum(probabilities)
        ends = np.searchsorted(sums, np.arange(CELLS + 1) / CELLS)
        return cls(sums, ends[:-1], ends[:-1] == ends[1:])

    def at(self, uniform: np.ndarray) -> np.ndarray:
        """Integers at uniform numbers in [0, 1)."""
        cells = (uniform * CELLS).astype(np.intp)
        found = self.first[cells]
        divided = np.flatnonzero(~self.single[cells])
        found[divided] = np.searchsorted(self.sums, uniform[divided])
        # Rounding may leave the last sum below 1.
        return np.minimum(found, len(self.sums) - 1)


def drawn_errors(
    fit: DrawnFit,
    tests: list[SummaryLaw],
    interactions: np.ndarray,
    rng: np.random.Generator,
    share: float = 1.0,
) -> DrawnErrors:
    """Draw the errors of runs on several tests.

    ``interactions`` is the relative covariance of what several prompts do together, ``share`` the
    share of all runs.
    """
    runs = math.ceil(share * min(RUNS, PROMPTS_OF_RUNS / fit.count))
    drawn = fit.prompts
    influences = [fit.influence(test) for test in tests]
    means = np.array([fit.error(test) for test in tests])
    roots = _roots([fit.missed, *(influence.missed for influence in influences)], drawn.norms)
    covariance = _covariance(fit, influences)
    # Runs come last, so that all operations are on long rows.
    roots = np.ascontiguousarray(np.moveaxis(roots, 0, -1))
    numbers = RandomNumbers.of(drawn.weight)
    sums = np.zeros((len(tests), runs))
    for _ in range(fit.count):
        place = numbers.at(rng.random(runs))
        sources = rng.standard_normal((runs, len(roots))).T
        residual, *slopes = np.einsum("ijr,jr->ir", np.take(roots, place, axis=-1), sources)
        residual = residual + math.sqrt(fit.rho) * rng.standard_normal(runs)
        square = residual**2 + fit.fluctuation[place]
        theta = fit.theta[place]
        for test, influence in enumerate(influences):
            product = 2 * residual * slopes[test] + influence.fluctuation[place]
            sums[test] += influence.theta[place] * square + theta * product
    expected = [drawn.weight @ _expected(fit, influence) for influence in influences]
    sums = sums.T / fit.count - expected
    sources = rng.multivariate_normal(
        -np.diag(interactions) / 2, interactions, runs, method="eigh"
    )
    errors = np.maximum(means + sums, LEAST_SHARE * means) * np.exp(sources)
    return DrawnErrors(means, errors - means, covariance)


def _expected(fit: DrawnFit, influence: Influence) -> np.ndarray:
    """Influence n g of each drawn prompt, averaged over its query and noise."""
    norms = fit.prompts.norms
    square = fit.rho + norms * np.sum(fit.missed**2, axis=1) + fit.fluctuation
    product = 2 * norms * np.sum(fit.missed * influence.missed, axis=1) + influence.fluctuation
    return influence.theta * square + fit.theta * product


def _covariance(fit: DrawnFit, influences: list[Influence]) -> np.ndarray:
    """Covariance of the sums of the influences of the prompts of a run."""
    weight = fit.prompts.weight
    norms = fit.prompts.norms
    own = fit.rho + norms * np.sum(fit.missed**2, axis=1)
    expected = np.array([_expected(fit, influence) for influence in influences])
    covariance = np.cov(expected, aweights=weight, ddof=0).reshape(len(expected), -1)
    mixed = [norms * np.sum(fit.missed * influence.missed, axis=1) for influence in influences]
    for i, first in enumerate(influences):
        for j, second in enumerate(influences):
            both = norms * np.sum(first.missed * second.missed, axis=1)
            terms = first.theta * second.theta * own**2
            terms = terms + 2 * fit.theta * own * (first.theta * mixed[j])
            terms = terms + 2 * fit.theta * own * (second.theta * mixed[i])
            terms = terms + 2 * fit.theta**2 * (mixed[i] * mixed[j] + own * both)
            covariance[i, j] += 2 * weight @ terms
    return np.asarray(covariance / fit.count)


def _roots(vectors: list[np.ndarray], norms: np.ndarray) -> np.ndarray:
    """Roots (m, v, v) of the covariances of the products of a query with these vectors (m, d)."""
    stacked = np.stack(vectors, axis=1) * np.sqrt(norms)[:, None, None]
    gram = stacked @ np.swapaxes(stacked, 1, 2)
    scales = np.sqrt(np.einsum("mii->mi", gram))
    scales = np.where(scales > 0, scales, 1.0)
    gram = gram / (scales[:, :, None] * scales[:, None, :])
    values, basis = np.linalg.eigh(gram)
    return np.asarray(scales[:, :, None] * basis * np.sqrt(np.maximum(values, 0.0))[:, None, :])
