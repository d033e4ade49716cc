r"""Ridge regression on drawn features, for queries that follow their context closely.

The mean moments of `iclimit.asymptotics.pretraining.query_moments` take the law of leverages from
independent queries.  That fails where the correlation of the query with its context is close to
one.  Here the features :math:`\phi = \sqrt d\, x_q \otimes h` of p = d (d + 1) entries are drawn.
With :math:`y` for :math:`\sqrt d` times the query label without noise, the leave-one-out analysis
of ridge regression gives

.. math::

   N &= (E\,\theta \phi \phi^\top + \lambda)^{-1}, \qquad \theta = \frac1{1 + q/n}, \qquad
   q = \phi^\top N \phi, \qquad \Gamma = N\, E\, \theta \phi y , \\
   B &= \frac dn N\, E\Bigl[\theta^2 \Bigl(\rho + \tfrac1d (y - \phi^\top \Gamma)^2
   + \tfrac1d \phi^\top B \phi\Bigr) \phi \phi^\top\Bigr] N , \qquad
   e = E\,\rho + \tfrac1d (y - \phi^\top \Gamma)^2 + \tfrac1d \phi^\top B \phi ,

where B is the covariance of the learned matrix.  Without a ridge and for n < p, N is of the order
:math:`1/\lambda`; then :math:`\lambda N` solves the same equations with 1 in the place of
:math:`\lambda`, and :math:`\theta = 1/(\lambda + q/n)`.

**A sample in the place of the mean.**  Averages over S features instead of infinitely many are off
by O(p/S), because N knows the features that it is multiplied with.  But a weighted sum over S
features is ridge regression, too: its mean resolvent has
:math:`\theta = w/(1 + w q/S)`, so that the weights :math:`w = 1/(1 + q/n - q/S)` give the N of n
prompts.  Leverages and residuals without the feature itself are

.. math::

   q = \frac{\hat q}{1 - w \hat q/S}, \qquad
   y - \phi^\top \Gamma = (y - \phi^\top \hat\Gamma) (1 + w q/S) ,

and :math:`\hat\Gamma` has the covariance that S prompts without noise give.  What this lacks of B
is

.. math::

   B_n = d\, \hat N \hat E\Bigl[w^2 \Bigl(\frac \rho n + \Bigl(\frac 1n - \frac 1S\Bigr) (m + b)
   \Bigr) \phi \phi^\top\Bigr] \hat N ,

with the squared residual m and :math:`b = \phi^\top B_n \phi/d`, both without the feature itself.
For S = n this is a simulated run without its noise.  At one setting, d = 18 with gates and r =
-0.979, predictions from S = 2 p and S = 9 p agree within their statistical errors of 1.8 and .7 %.

**Common random numbers.**  Continued and independent queries share all random numbers, so the
ratio of their errors is smooth in the correlation, and 1 where it vanishes.

**Two estimates.**  The ratio of mean moments has a systematic error, the drawn one a statistical
error.  They are combined with the inverse squares of both as weights, so nothing jumps where the
correlation becomes small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    Inputs,
    SummaryLaw,
    effective_ridge,
    equivalent_errors,
)
from iclimit.asymptotics.pretraining.timed_contexts import TimedContexts
from iclimit.asymptotics.searches import fixed_points

# Relative error of the ratio of mean moments: a number times the square of `strength`, and times
# _MOMENTS_RANGE p/n with more prompts than that.
#
# Measured at n <= 1.9 p, from which the number was chosen: errors of 4, 2.5 and 6 % at strengths
# of .26, .18 and .85, where it says 5, 2 and 50 %; with gates 6 and 35 % at .47 and .93, where it
# says 15 and 61 %.  At 3 to 4 p: 5.3, 7, 6, 8 and 9 % at .43, .8, .75, .58 and .5, where it says
# 8, 29, 20, 15 and 10 %.
_MOMENTS_LOSS = 0.7
_MOMENTS_RANGE = 1.9

# Added next to a threshold: a number times the logarithm of this ratio and times that by which
# mean moments miss the errors of independent queries.  There they miss the ratio as they miss the
# errors: at n = d (d + 1) + 22, d = 18 and three pairs by 40 %, where this says 38 %.
_THRESHOLD_LOSS = 2.0

# Below this error nothing is drawn: the drawn ratio is hardly better known.
_NEGLIGIBLE = 0.005

# Largest dimension in which features are drawn: a call takes time in proportion to d^6.
_MOST_DIM = 32

# Least number of features over p.
_LEAST_SAMPLE = 2

# Most features over p where there are many more prompts.
_MOST_SAMPLE = 6

# Repeats share this many operations, some seconds.
_OPERATIONS = 2e11

# Fewest repeats.
_FEWEST = 2

# Most repeats.
_MOST = 40

# Operations of a repeat, over S p^2: two solutions of 12 products of matrices each.
_PRODUCTS = 50

# Relative scatter of a repeat, times the root of S, as it is known beforehand.
_SCATTER = 1.3

# Number of repeats that this knowledge is worth.
_KNOWN = 3

# Standard errors of the drawn ratio that its uncertainty comprises.
_ERRORS = 2.0

# Relative tolerance of the fixed points.
_TOLERANCE = 1e-4

# Most steps of a fixed point; they take 6 to 10.
_LIMIT = 60

# With fewer features than prompts, 1/w is at least so many times the inverse of theta.
_LEAST_WEIGHT = 0.02


def query_correction(
    sets: list[np.ndarray],
    laws: list[SummaryLaw],
    test: SummaryLaw,
    beyond: np.ndarray,
    *,
    prompts: int,
    ridge: float,
    balanced: bool,
) -> tuple[np.ndarray, float]:
    """Factors of the ICL and IDG error that mean moments miss, and what is left uncertain.

    Parameters
    ----------
    sets : list of ndarray (k, d)
        Task sets; empty where every prompt has a fresh task.
    laws : list of SummaryLaw
        Laws of the training prompts: of each task set, or of fresh tasks.
    test : SummaryLaw
        Law of the test prompts.
    beyond : ndarray (2,)
        Errors of independent queries over those from mean moments.
    prompts, ridge, balanced
        As in `iclimit.asymptotics.pretraining.finite_size_errors`.

    Returns
    -------
    ndarray (2,), float
        Factors, and their relative uncertainty.
    """
    dim = test.cross.shape[1]
    strongest = max(
        strength(law.timed) for law in (test, laws[0]) if isinstance(law.timed, TimedContexts)
    )
    by_moments = _moments_ratio(laws, test, prompts, ridge)
    if not np.all(np.isfinite(by_moments)):
        return np.ones(2), 1.0
    missed = float(np.max(abs(np.log(by_moments) * np.log(beyond))))
    loss = _MOMENTS_LOSS * min(1.0, _MOMENTS_RANGE * dim * (dim + 1) / prompts)
    doubt = min(loss * strongest**2 + _THRESHOLD_LOSS * missed, 1.0)
    if doubt < _NEGLIGIBLE or dim > _MOST_DIM:
        return np.ones(2), doubt
    pairs = _repeats(sets, laws, test, prompts, ridge, balanced)
    if len(pairs) < _FEWEST:
        return np.ones(2), doubt
    continued, independent = np.mean(pairs, axis=0)
    ratio = continued / independent
    scatter = np.sum((pairs[:, 0] - ratio * pairs[:, 1]) ** 2, axis=0) / continued**2
    known = _KNOWN * _SCATTER**2 / _sample_size(dim * (dim + 1), prompts)
    variance = (scatter + known) / (len(pairs) - 1 + _KNOWN) / len(pairs)
    noise = _ERRORS * math.sqrt(np.max(variance))
    weight = doubt**2 / (doubt**2 + noise**2)
    return (ratio / by_moments) ** weight, noise * math.sqrt(weight)


def strength(contexts: TimedContexts) -> float:
    """How much of a summary follows the query: squared correlations over d, weighted by gates."""
    if not contexts.correlated_query:
        return 0.0
    squares = np.array(contexts.gates) ** 2
    return float(squares @ contexts.kernel[:0:-1] ** 2 / np.mean(squares) / contexts.dim)


def _moments_ratio(
    laws: list[SummaryLaw], test: SummaryLaw, prompts: int, ridge: float
) -> np.ndarray:
    """Errors of continued over those of independent queries, from mean moments."""
    plain = Inputs.of(None, test.cross.shape[1])
    alone = test.with_independent_query()
    errors = np.array(
        [
            [
                equivalent_errors(law, test, prompts, ridge, plain),
                equivalent_errors(law.with_independent_query(), alone, prompts, ridge, plain),
            ]
            for law in laws
        ]
    )
    if not np.all(np.isfinite(errors)):
        return np.full(2, math.inf)
    continued, independent = np.mean(errors, axis=0)
    return continued / independent


def _sample_size(p: int, prompts: int) -> int:
    """Number of features: a multiple of the prompts, unless these are many."""
    if prompts > _MOST_SAMPLE * p:
        return _MOST_SAMPLE * p
    return prompts * math.ceil(_LEAST_SAMPLE * p / prompts)


def _repeats(
    sets: list[np.ndarray],
    laws: list[SummaryLaw],
    test: SummaryLaw,
    prompts: int,
    ridge: float,
    balanced: bool,
) -> np.ndarray:
    """Errors of continued and of independent queries, (repeats, 2, 2), without failed repeats."""
    dim = test.cross.shape[1]
    p = dim * (dim + 1)
    size = _sample_size(p, prompts)
    repeats = int(np.clip(_OPERATIONS / (_PRODUCTS * size * p**2), _FEWEST, _MOST))
    rng = np.random.default_rng(0)
    tested = [Moments.of(test), Moments.of(test.with_independent_query())]
    trained: dict[int, list[Moments]] = {}
    pairs = []
    for repeat in range(repeats):
        at = repeat % len(laws)
        law = laws[at]
        if at not in trained:
            trained[at] = [Moments.of(law), Moments.of(law.with_independent_query())]
        tasks = _tasks(sets[at] if sets else None, dim, size, prompts, balanced, rng)
        assert isinstance(law.timed, TimedContexts)
        drawn = draw_features(law.timed, tasks, rng)
        try:
            pair = [
                _errors(drawn, law, queries, [tested[i], trained[at][i]], prompts, ridge)
                for i, queries in enumerate((drawn.continued, drawn.independent))
            ]
        except np.linalg.LinAlgError:
            continue
        if np.all(np.isfinite(pair)):
            pairs.append(pair)
    return np.array(pairs)


def _tasks(
    tasks: np.ndarray | None,
    dim: int,
    size: int,
    prompts: int,
    balanced: bool,
    rng: np.random.Generator,
) -> np.ndarray:
    """Tasks of the features: fresh ones, or those of a run in proportion to their prompts."""
    if tasks is None:
        drawn = rng.standard_normal((size, dim))
        return drawn * math.sqrt(dim) / np.linalg.norm(drawn, axis=1, keepdims=True)
    shares = np.full(len(tasks), 1 / len(tasks))
    if not balanced:
        shares = rng.multinomial(prompts, shares) / prompts
    places = (np.arange(size) + 0.5) / size
    index = np.searchsorted(np.cumsum(shares), places)
    return tasks[np.minimum(index, len(tasks) - 1)]


@dataclass(frozen=True)
class Features:
    """Drawn prompts.

    Attributes
    ----------
    summaries : ndarray (S, d + 1)
        Context summaries h.
    independent, continued : ndarray (S, d)
        Queries that are independent of the context, and that continue it.
    tasks : ndarray (S, d)
        Tasks of the queries.
    """

    summaries: np.ndarray
    independent: np.ndarray
    continued: np.ndarray
    tasks: np.ndarray


def draw_features(
    contexts: TimedContexts, tasks: np.ndarray, rng: np.random.Generator
) -> Features:
    """Draw a prompt for each of the tasks (S, d)."""
    count, d = tasks.shape
    size = max(2**21 // (d * len(contexts.gates)), 1)
    summaries = []
    independent = []
    continued = []
    for start in range(0, count, size):
        h, fresh, last = _prompts(contexts, tasks[start : start + size], rng)
        summaries.append(h)
        independent.append(fresh)
        continued.append(last)
    return Features(
        np.concatenate(summaries), np.concatenate(independent), np.concatenate(continued), tasks
    )


def _prompts(
    contexts: TimedContexts, tasks: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Summaries, independent and continued queries."""
    d = contexts.dim
    gates = np.array(contexts.gates)[:, None]
    numbers = rng.standard_normal((len(gates) + 1, *tasks.shape))
    x = _correlated(contexts, numbers) / math.sqrt(d)
    y = math.sqrt(contexts.rho) * rng.standard_normal((len(gates), len(tasks)))
    own = tasks[None]
    if contexts.drift:
        kept = math.exp(-contexts.drift / d)
        steps = np.concatenate(
            [tasks[None], math.sqrt(1 - kept**2) * rng.standard_normal((len(gates), *tasks.shape))]
        )
        own = _autoregression(steps, kept)[:0:-1]
    y += np.sum(x[:-1] * own, axis=2)
    head = d * np.einsum("is,isd->sd", gates * y, x[:-1]) / len(gates)
    tail = np.mean(gates * y**2, axis=0)
    return np.column_stack([head, tail]), numbers[-1] / math.sqrt(d), x[-1]


def _autoregression(steps: np.ndarray, kept: float) -> np.ndarray:
    """Sum of steps along the first axis, of which so much is kept from one to the next."""
    path = steps.copy()
    for token in range(1, len(path)):
        path[token] += kept * path[token - 1]
    return path


def _correlated(contexts: TimedContexts, numbers: np.ndarray) -> np.ndarray:
    """Inputs from the first to the query, times sqrt(d), of independent numbers."""
    r = contexts.correlation
    if isinstance(r, tuple):
        times = np.arange(len(numbers))
        values, basis = np.linalg.eigh(contexts.kernel[np.abs(times[:, None] - times)])
        _, upper = np.linalg.qr((basis * np.sqrt(np.maximum(values, 0.0))).T)
        root = np.asarray((upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T)
        return np.asarray(np.tensordot(root, numbers, 1))
    steps = math.sqrt(1 - r**2) * numbers
    steps[0] = numbers[0]
    return _autoregression(steps, r)


@dataclass(frozen=True)
class Moments:
    """Exact moments of a law of features: of products, with the label, and of the label."""

    dim: int
    second: np.ndarray
    target: np.ndarray
    label: float

    @classmethod
    def of(cls, law: SummaryLaw) -> Moments:
        """Moments of a law whose query is independent, or continues the context."""
        d = law.cross.shape[1]
        if law.features is None:
            return cls(d, np.kron(np.eye(d), law.second), law.cross.T.ravel(), law.label)
        basis = np.eye(d * (d + 1)).reshape(-1, d, d + 1)
        second = np.array([law.features.applied(matrix).ravel() for matrix in basis])
        return cls(d, second, law.features.target.ravel(), law.label)

    def error(self, gamma: np.ndarray) -> float:
        """Mean squared error of a matrix, flattened, on noisy labels."""
        change = self.second @ gamma - 2 * self.target
        return float(self.label + gamma @ change / self.dim)


def _errors(
    drawn: Features,
    law: SummaryLaw,
    queries: np.ndarray,
    tests: list[Moments],
    prompts: int,
    ridge: float,
) -> list[float]:
    """Errors of several test laws after training on prompts with these queries."""
    d = queries.shape[1]
    phi = (queries[:, :, None] * drawn.summaries[:, None, :]).reshape(len(queries), -1)
    training = _Training(
        phi * math.sqrt(d), math.sqrt(d) * np.sum(queries * drawn.tasks, axis=1), prompts, ridge
    )
    start = np.log(_independent_leverages(drawn, law, queries, prompts, ridge))
    log_q, settled = fixed_points(
        training.leverages, start[None], tolerance=_TOLERANCE, limit=_LIMIT
    )
    scatter = _Scatter.of(training, np.exp(log_q[0]), law.rho, d)
    start = np.full((1, len(queries)), law.rho + np.mean(scatter.misfit))
    b, variances_settled = fixed_points(
        scatter.variances, start, tolerance=_TOLERANCE, limit=_LIMIT
    )
    if not (settled and variances_settled):
        raise np.linalg.LinAlgError("the drawn features were not solved")
    gamma = scatter.gamma
    covariance = scatter.covariance(b[0])
    return [test.error(gamma) + float(np.vdot(test.second, covariance)) / d for test in tests]


@dataclass(frozen=True)
class _Training:
    """Prompts that are drawn to train on so many.

    Attributes
    ----------
    phi : ndarray (S, p)
        Features.
    y : ndarray (S,)
        Labels without noise.
    prompts : int
        Number of prompts of the training.
    ridge : float
        Its ridge.
    """

    phi: np.ndarray
    y: np.ndarray
    prompts: int
    ridge: float

    @property
    def missing(self) -> float:
        """Share of a prompt of the training, less that of a drawn one."""
        return 1 / self.prompts - 1 / len(self.phi)

    def solved(self, q: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Weights, the root L of the inverse of N, and L^-1 phi."""
        size, p = self.phi.shape
        # The scale of N without a ridge (module docstring).
        penalty = self.ridge if self.prompts > p else 1.0
        unit = 1.0 if self.prompts > p else self.ridge
        inverse = unit + self.missing * q
        if self.missing < 0:
            inverse = np.maximum(inverse, _LEAST_WEIGHT * (unit + q / self.prompts))
        weight = 1 / inverse
        scaled = self.phi * np.sqrt(weight / size)[:, None]
        root = np.linalg.cholesky(scaled.T @ scaled + penalty * np.eye(p))
        return weight, root, solve_triangular(root, self.phi.T, lower=True, check_finite=False)

    def leverages(self, log_q: np.ndarray) -> np.ndarray:
        """Logarithms of the leverages that follow from those before, as an iteration."""
        weight, _, half = self.solved(np.exp(log_q[0]))
        own = np.sum(half**2, axis=0)
        return np.log(own / (1 - weight / len(own) * own))[None]


@dataclass(frozen=True)
class _Scatter:
    """Mean of the matrix that is learned, and how it scatters.

    Attributes
    ----------
    training : _Training
        What it is learned from.
    rho : float
        Variance of the noise.
    dim : int
        Dimension d.
    q, weight : ndarray (S,)
        Leverages and weights.
    root, half : ndarray (p, p) and (p, S)
        Root L of the inverse of N, and L^-1 phi.
    gamma : ndarray (p,)
        Mean of the matrix.
    without, misfit : ndarray (S,)
        Factor of the misfit of a prompt if it is left out, and its square, over d.
    """

    training: _Training
    rho: float
    dim: int
    q: np.ndarray
    weight: np.ndarray
    root: np.ndarray
    half: np.ndarray
    gamma: np.ndarray
    without: np.ndarray
    misfit: np.ndarray

    @classmethod
    def of(cls, training: _Training, q: np.ndarray, rho: float, dim: int) -> _Scatter:
        """Scatter at the solution for the leverages."""
        size = len(q)
        weight, root, half = training.solved(q)
        without = 1 + weight * q / size
        gamma = solve_triangular(root, half @ (weight * training.y) / size, lower=True, trans=1)
        misfit = ((training.y - training.phi @ gamma) * without) ** 2 / dim
        return cls(training, rho, dim, q, weight, root, half, gamma, without, misfit)

    def core(self, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Coefficients of the features in L^T B L, and this matrix."""
        noise = self.rho / self.training.prompts + self.training.missing * (self.misfit + b)
        factor = self.dim / len(b) * self.weight**2 * noise
        if np.all(factor >= 0):
            # The product of a matrix with its own transpose takes half the time.
            scaled = self.half * np.sqrt(factor)
            return factor, scaled @ scaled.T
        return factor, (self.half * factor) @ self.half.T

    def variances(self, b: np.ndarray) -> np.ndarray:
        """Variances of the predictions that follow from those before, as an iteration."""
        factor, inner = self.core(b[0])
        own = np.sum(self.half * (inner @ self.half), axis=0)
        return ((own * self.without**2 - factor * self.q**2) / self.dim)[None]

    def covariance(self, b: np.ndarray) -> np.ndarray:
        """Covariance of the matrix, from the variances of the predictions."""
        _, inner = self.core(b)
        left = solve_triangular(self.root, inner, lower=True, trans=1)
        return solve_triangular(self.root, left.T, lower=True, trans=1)


def _independent_leverages(
    drawn: Features, law: SummaryLaw, queries: np.ndarray, prompts: int, ridge: float
) -> np.ndarray:
    """First guess of q, from the moments of independent queries."""
    d = queries.shape[1]
    p = d * (d + 1)
    values, basis = np.linalg.eigh(law.second)
    xi = effective_ridge(values, prompts / d, ridge)
    if prompts <= p:
        scale = xi
    elif ridge > 0:
        scale = xi / ridge
    else:
        scale = 1 / (1 - p / prompts)
    norms = np.sum((drawn.summaries @ basis) ** 2 / (values + xi), axis=1)
    return scale * d * np.sum(queries**2, axis=1) * norms
