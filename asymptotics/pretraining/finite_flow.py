r"""What a run of finite size should show after a time of gradient flow, or steps of descent.

As in `iclimit.asymptotics.pretraining.training_time`, with the exact second moments G and A of
the context summaries in the place of their limits.  With the eigenvalues g and eigenvectors U of
G, :math:`m_i = (g + \xi_i)^{-1}` and

.. math:: \frac nd\Bigl(1 - \frac{z_i}{\xi_i}\Bigr) = \sum_j \frac{g_j}{g_j + \xi_i}, \qquad
   E_{12} = \frac{E y^2 - \frac1d\sum_j |(A^\top U)_j|^2 (m_1 + m_2 - g m_1 m_2)_j
   + \frac{\sigma_0^2}d a_1 a_2 \sum_j g_j (m_1 m_2)_j}{1 - \frac dn\sum_j g_j^2 (m_1 m_2)_j}

the IDG error is the double integral of :math:`E_{12}`.  The ICL error is the risk on the tests of
the mean :math:`\Gamma`, whose weights along U are single integrals, plus the double integral of

.. math:: \sum_j (U^\top G' U)_{jj} (m_1 m_2)_j \Bigl(\frac{\sigma_0^2}d a_1 a_2
   + \frac dn E_{12}\, g_j\Bigr).

**Leverages.**  This holds for prompts of one leverage.  With leverages u of mean 1 and squared
query norms r (`iclimit.asymptotics.pretraining.deterministic_equivalent`), :math:`\rho + m` the
error of the best :math:`\Gamma` on the training law and :math:`B_{12}` that of the mean ones,

.. math::

   f(t_i) &= E\frac u{t_i + u} = \frac dn\sum_j \frac{g_j}{g_j + \xi_i}, \qquad
   \lambda + z_i = \xi_i t_i f(t_i), \\
   E_{12} &= B_{12} + V_{12}, \qquad V_{12} = \frac dn \frac{\sum_j g_j^2 (m_1 m_2)_j}{f_1 f_2}
   E\frac{u\,[\rho + m r + u\,(E_{12} - \rho - m)]}{(t_1 + u)(t_2 + u)},

and :math:`V_{12}/\sum_j g_j^2 (m_1 m_2)_j` is in the place of :math:`\frac dn E_{12}` in the ICL
error.  The law of u changes with the ridge; that of :math:`\lambda + .6/t` is taken at all nodes,
since a flow of time t learns about what this ridge does.  That tasks share prompts is not known
between two ridges: errors are multiplied by what it changes at :math:`\lambda + .6/t`.

**Steps.**  Gradient descent is a mixture of the same ridge regressions on another contour
(`iclimit.asymptotics.pretraining.training_contours`), which must enclose the spectrum of S
(`iclimit.asymptotics.pretraining.effective_ridges`); a heavy prompt adds an eigenvalue to it.  The
norm of the heaviest of n prompts is that of a lognormal law with the variance of
:math:`|x_q|^2 |h|^2`.  For shared prompts the time of descent is that of the flow which starts
alike.  Leverages are taken on its own contour: heavy prompts are learnt first, and momentum
carries them too far.  Prompts that are heavier than the heaviest of a run in a hundred are left
out.

**Inputs of a covariance** :math:`\Sigma/d` give features of the eigenvalues
:math:`\sigma_i g_a/d`, as in `iclimit.asymptotics.pretraining.deterministic_equivalent`.  Sums
over j are over all pairs (i, a), d times smaller.  The law of leverages is the one there.

**Gates, drift and correlated tokens** change the law of summaries only.  After a query that is
correlated with its context features are no products, which is refused.

**Labels by a link** with the linear part c are divided by it, and so are summaries: in their units
a flow of the time t with the decay :math:`\lambda` is one of :math:`c^2 t` with
:math:`\lambda/c^2`, as in the limit, and a learning rate is :math:`c^2` times as large.

.. page: pretraining/training-time: When should pretraining stop?
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    Inputs,
    SummaryLaw,
    leverages,
    quadratic_form_variance,
    undefined_in_float64,
)
from iclimit.asymptotics.pretraining.effective_ridges import (
    followed_ridges,
    largest_eigenvalue,
    real_ridge,
)
from iclimit.asymptotics.pretraining.finite_size import (
    KNOWN,
    NAMES,
    Run,
    change_by_rest,
    predicted_errors,
    read_run,
)
from iclimit.asymptotics.pretraining.training_contours import Branch, descent_contour, flow_contour
from iclimit.asymptotics.pretraining.training_time import CLOSE, MOST_NEWTON_STEPS
from iclimit.checks import Seed
from iclimit.experiment import Descent, Experiment, Flow, Ridge, check_loss
from iclimit.prediction import Prediction
from iclimit.problem import check_problem
from iclimit.threads import blas_threads_by_dim

# Fields of a problem that predictions of merged attention and of SGD know; others have their
# defaults.
KNOWN_PLAIN = ("tasks", "noise_variance", "task_law", "task_covariance")

# Ridge whose corrections are taken, times the time.  Of .4, .5, .6, 1 and 1.5 it left least.
RIDGE_OF_TIME = 0.6

# Share of what shared prompts change that counts as uncertain, and of what leverages change.
UNCERTAIN = 0.25
UNCERTAIN_LEVERAGES = 0.05

# Time, in units of the inverse sum of the eigenvalues, in which nothing is learnt in float64.
UNMOVED = 1e-12

# Ridge above which corrections are below rounding for all that matters.
LARGEST_RIDGE = 1e3

# Share of the rate at the edge of stability of the mean spectrum up to which steps are predicted.
STABLE = 0.5

# Share of runs whose heaviest prompt may make steps unstable.  At d = 12 and 16 the largest
# eigenvalues of 40 runs each of seven kinds were 0.9 to 1.3 times those that follow from it.
UNSTABLE_RUNS = 0.01


@blas_threads_by_dim
def predicted_flow_errors(
    run: Experiment, *, rng: Seed | None = None, draws: int = 10, approach: str = "tasks"
) -> Prediction:
    """Mean errors of a run by gradient flow or descent; arguments as of `predict`.

    Raises
    ------
    ValueError
        If its queries are correlated with their contexts, which is not known here, or if its
        steps may be unstable.
    """
    training = run.training
    if not isinstance(training, Flow | Descent):
        raise TypeError(f"training must be a Flow or Descent, got {training!r}")
    _check_known(run)
    time = time_of(run)
    # One seed for the same task sets in all predictions, those that a ridge with it has.
    seed: Seed = int(np.random.default_rng(rng).integers(2**63))
    if isinstance(rng, int | np.random.SeedSequence):
        seed = rng
    near = run.with_(training=Ridge(ridge_of_time(time, training.ridge)))
    corrected = predicted_errors(near, rng=seed, draws=draws, approach=approach)
    determined = training.ridge > 0 or run.prompts >= run.dim * (run.dim + 1)
    if math.isinf(time) and (determined or training.start_variance == 0):
        return corrected
    read = read_run(near, seed, draws)
    flows = flows_of(run, read, training)
    square = read.linked.labels.slope**2 if read.linked else 1.0
    if square * time * max(flow.features.total for flow in flows) < UNMOVED:
        starts = np.array([start_errors(flow) for flow in flows])
        return Prediction(NAMES, square * starts, np.zeros((1, 2)))
    alike = np.array([flow_errors(flow) for flow in flows])
    errors = np.array([flow_errors(flow, PromptLaw.of(flow, read.ridge)) for flow in flows])
    moments = predicted_errors(near, rng=seed, draws=draws, approach="moments")
    by_tasks = np.mean(corrected.over_tasks, axis=0) / np.mean(moments.over_tasks, axis=0)
    by_leverages = np.mean(errors / alike, axis=0)
    doubt = corrected.doubt + UNCERTAIN * np.abs(by_tasks - 1)
    doubt = doubt + UNCERTAIN_LEVERAGES * np.abs(by_leverages - 1)
    if read.linked:
        by_tasks = by_tasks * change_by_rest(read, run.prompts)[0]
    return Prediction(NAMES, square * errors * by_tasks, doubt)


def _check_known(run: Experiment) -> None:
    """Check that the training of a run, and what it is tested on, are predicted here.

    Raises
    ------
    ValueError
        If its queries are correlated.
    """
    kind = type(run.training).__name__
    check_loss(run)
    for problem in (run.problem, run.tests.problem):
        check_problem(problem, *KNOWN)
        if problem.correlated_query:
            raise ValueError(
                f"correlated_query must be False for a {kind}, got True: its features are no "
                "products of a query and a summary, and their errors in time are not known"
            )


def flows_of(run: Experiment, read: Run, training: Flow | Descent) -> list[Flowing]:
    """Trainings of a run, one for each of its task sets, in units of labels by a link."""
    square = read.linked.labels.slope**2 if read.linked else 1.0
    own = _in_units_of(training, square)
    return [Flowing(law, read.test, run.prompts, own, read.inputs, square) for law in read.laws]


def _in_units_of(training: Flow | Descent, square: float) -> Flow | Descent:
    """Training on labels that are divided by the root of a number, and so their summaries."""
    ridge = training.ridge / square
    if isinstance(training, Flow):
        return replace(training, time=square * training.time, ridge=ridge)
    return replace(training, learning_rate=square * training.learning_rate, ridge=ridge)


def time_of(run: Experiment) -> float:
    """Time of a flow, or of the flow that starts like a descent."""
    training = run.training
    if isinstance(training, Descent):
        return training.time(run.dim)
    assert isinstance(training, Flow)
    return training.time


def ridge_of_time(time: float, ridge: float = 0.0) -> float:
    """Ridge that learns about what a flow of this time and weight decay does."""
    return min(ridge + RIDGE_OF_TIME / max(time, 1e-9), LARGEST_RIDGE)


def check_plain(run: Experiment, training: str) -> None:
    """Check that a run has no structured inputs, gates, drift or correlation.

    Raises
    ------
    ValueError
        If it has, with the training for which they are not known.
    """
    check_loss(run)
    check_problem(run.problem, *KNOWN_PLAIN)
    check_problem(run.tests.problem, *KNOWN_PLAIN)
    for name, gates in (("gates", run.model.gates), ("test_gates", run.tests.gates)):
        if gates is not None:
            raise ValueError(
                f"{name} must be None for {training}: errors with gates are not known"
            )


@dataclass(frozen=True)
class Flowing:
    """Laws of training and test summaries, and a way of training.

    Attributes
    ----------
    train, test : SummaryLaw
    prompts : int
    training : Flow or Descent
        In units of the labels.
    inputs : Inputs, optional
        Laws of whitened inputs; without them inputs are isotropic.
    label_square : float
        Square of what labels were divided by; rates are so many times those that were given.
    """

    train: SummaryLaw
    test: SummaryLaw
    prompts: int
    training: Flow | Descent
    inputs: Inputs | None = None
    label_square: float = 1.0

    @property
    def dim(self) -> int:
        """Dimension of the inputs."""
        return self.train.cross.shape[1]

    @cached_property
    def features(self) -> Features:
        """Directions in which features are independent."""
        inputs = self.inputs or Inputs.of(None, self.dim)
        values, basis = np.linalg.eigh(inputs.colour(inputs.colour(self.train.second).T))
        pushed = inputs.colour(basis)
        return Features(
            variances=inputs.values * np.maximum(values, 0.0),
            pushed=pushed,
            learnt=inputs.basis.T @ self.train.cross.T @ pushed,
            tested=inputs.values * np.sum(pushed * (self.test.second @ pushed), axis=0),
            inputs=inputs,
        )

    @property
    def share(self) -> float:
        """Directions that each variance of features stands for, over the prompts."""
        return self.features.inputs.multiplicity / self.prompts

    @property
    def start(self) -> float:
        """Mean square of the start for each variance of features, in the units of errors."""
        variance = self.training.start_variance / self.dim
        return variance * self.features.inputs.multiplicity / self.dim


@dataclass(frozen=True)
class Features:
    """Products of a query and a summary, in directions in which they are independent.

    Attributes
    ----------
    variances, tested : ndarray (r, d + 1)
        d times the variances of training features, and of those behind the ICL error.
    pushed : ndarray (d + 1, d + 1)
        Eigenvectors of the summaries as columns, seen from whitened summaries.
    learnt : ndarray (d, d + 1)
        Moments of summaries with tasks.
    inputs : Inputs
        Of which r eigenvalues stand for all.
    """

    variances: np.ndarray
    tested: np.ndarray
    pushed: np.ndarray
    learnt: np.ndarray
    inputs: Inputs

    @property
    def power(self) -> np.ndarray:
        """Squared products of labels and features, (r, d + 1)."""
        squares = self.inputs.values * self.learnt**2 / len(self.learnt)
        if self.inputs.multiplicity == 1:
            return squares
        return np.sum(squares, axis=0, keepdims=True)

    @property
    def total(self) -> float:
        """Sum of the variances."""
        return float(np.sum(self.variances)) * self.inputs.multiplicity / len(self.learnt)

    def fit(self, weights: np.ndarray) -> np.ndarray:
        """Gamma of whitened prompts if products of labels and features have these weights."""
        scaled = self.inputs.values * weights.reshape(self.variances.shape) * self.learnt
        return self.inputs.basis @ scaled @ self.pushed.T


@dataclass(frozen=True)
class PromptLaw:
    """Gauss rule over the prompts of a run.

    Attributes
    ----------
    query, leverage, weight : ndarray (k,)
        Squared norms of the queries and leverages, both of mean 1, and probabilities.
    """

    query: np.ndarray
    leverage: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(cls, flow: Flowing, ridge: float) -> PromptLaw:
        """Training prompts, with their leverages at a ridge."""
        known = leverages(flow.train, flow.prompts, ridge, flow.features.inputs)
        query = np.broadcast_to(known.query[:, None], known.u.shape)
        seen = np.ones(known.u.shape, bool)
        # In steps prompts that make single runs unstable would count as much as all others.
        if isinstance(flow.training, Descent):
            seen = known.u <= heaviest_prompt(flow)
        weight = known.weight[seen] / np.sum(known.weight[seen])
        return cls(query[seen], known.u[seen], weight)


# Prompts of one leverage.
ALIKE = PromptLaw(np.ones(1), np.ones(1), np.ones(1))


def start_errors(flow: Flowing) -> tuple[float, float]:
    """ICL and IDG error of the start."""
    icl = flow.test.label + flow.start * np.sum(flow.features.tested)
    return float(icl), float(flow.train.label + flow.start * np.sum(flow.features.variances))


def flow_errors(flow: Flowing, prompts: PromptLaw = ALIKE) -> tuple[float, float]:
    """ICL and IDG error from the mean moments, for prompts of this law."""
    if isinstance(flow.training, Flow) and flow.training.time == 0:
        return start_errors(flow)
    mixed = _mixture(flow, prompts)
    with undefined_in_float64():
        return _integrated(flow, mixed, prompts)


def _mixture(flow: Flowing, prompts: PromptLaw) -> Mixture:
    """Ridge regressions that a training mixes.

    Raises
    ------
    ValueError
        If steps may be unstable.
    """
    training = flow.training
    variances = flow.features.variances.ravel()
    if isinstance(training, Flow) and math.isinf(training.time):
        z = np.zeros(1)
        xi = np.array([real_ridge(training.ridge, variances, flow.share)])
        weights = np.ones(1)
    else:
        branches = _contour(flow)
        z = np.concatenate([branch.z for branch in branches])
        xi = np.concatenate(
            [followed_ridges(branch, training.ridge, variances, flow.share) for branch in branches]
        )
        weights = np.concatenate([branch.weights for branch in branches])
    with undefined_in_float64():
        xi, t = _with_leverages(z + training.ridge, xi, variances, flow.share, prompts)
    kept = _kept(xi, z, training.ridge)
    return Mixture(xi, kept, t, weights, mirrored=np.iscomplexobj(z))


def start_covariance(flow: Flowing) -> np.ndarray:
    """Covariance of ICL and IDG error over random starts, at the mean of what prompts do."""
    features = flow.features
    inputs = features.inputs
    mixed = _mixture(flow, ALIKE)
    m = mixed.factor * mixed.weights[:, None] / (features.variances.ravel() + mixed.xi[:, None])
    fit = features.fit(np.sum(m, axis=0).real)
    kept = (mixed.kept @ m).real.reshape(features.variances.shape)
    variance = flow.training.start_variance / flow.dim
    linear = []
    square = []
    for law in (flow.test, flow.train):
        slope = inputs.basis.T @ (fit @ law.second - law.cross.T) @ features.pushed
        linear.append(np.sqrt(inputs.values) * kept * slope)
        between = inputs.values[:, None] * (features.pushed.T @ law.second @ features.pushed)
        square.append(kept[:, :, None] * between * kept[:, None, :])
    covariance = [
        [
            4 * variance / flow.dim**2 * np.vdot(linear[i], linear[j])
            + 2 * variance**2 * inputs.multiplicity / flow.dim**2 * np.vdot(square[i], square[j])
            for j in range(2)
        ]
        for i in range(2)
    ]
    return np.array(covariance)


@dataclass(frozen=True)
class Mixture:
    """Ridge regressions that a training mixes.

    Attributes
    ----------
    xi, t : ndarray (nodes,)
        Their effective ridges, and the residuals t/(t + u) of training prompts of leverage u.
    kept : ndarray (nodes,)
        Factors of the start.
    weights : ndarray (nodes,)
        What they count.
    mirrored : bool
        Whether each stands for its complex conjugate, too.
    """

    xi: np.ndarray
    kept: np.ndarray
    t: np.ndarray
    weights: np.ndarray
    mirrored: bool

    @property
    def factor(self) -> float:
        """Number of ridge regressions for each node, whose real parts count."""
        return 2.0 if self.mirrored else 1.0

    @property
    def others(self) -> Mixture:
        """All of them, with the conjugates."""
        if not self.mirrored:
            return self
        return Mixture(
            xi=_with_conjugates(self.xi),
            kept=_with_conjugates(self.kept),
            t=_with_conjugates(self.t),
            weights=_with_conjugates(self.weights),
            mirrored=False,
        )


def _with_conjugates(numbers: np.ndarray) -> np.ndarray:
    return np.concatenate([numbers, numbers.conj()])


def _kept(xi: np.ndarray, z: np.ndarray, ridge: float) -> np.ndarray:
    """Factors of the start: at z = 0 it stays without a ridge, where prompts do not reach."""
    return xi * z / (z + ridge) if ridge > 0 else xi


def _with_leverages(
    z: np.ndarray, xi: np.ndarray, g: np.ndarray, share: float, prompts: PromptLaw
) -> tuple[np.ndarray, np.ndarray]:
    """Effective ridges and t at the ridges z, from those for prompts of one leverage.

    Raises
    ------
    ArithmeticError
        If Newton's method does not find them.
    """
    fraction = share * np.sum(g / (g + xi[:, None]), axis=-1)
    t = (1 - fraction) / fraction
    # Without a ridge fewer prompts than features are interpolated, with any leverages.
    if prompts is ALIKE or (np.all(z == 0) and share * len(g) > 1):
        return xi, t
    u = prompts.leverage
    for _ in range(MOST_NEWTON_STEPS):
        left = 1 / (t[:, None] + u)
        f = left @ (prompts.weight * u)
        slope = -t * (left**2 @ (prompts.weight * u))
        xi = z / (t * f)
        m = 1 / (g + xi[:, None])
        residual = f - share * np.sum(g * m, axis=-1)
        turn = slope - share * xi * np.sum(g * m**2, axis=-1) * (1 + slope / f)
        move = -residual / turn
        t = t * np.exp(move)
        if np.all(np.abs(move) < CLOSE):
            return z / (t * (1 / (t[:, None] + u) @ (prompts.weight * u))), t
    raise ArithmeticError(f"leverages were not found in {MOST_NEWTON_STEPS} steps")


def _contour(flow: Flowing) -> list[Branch]:
    """Contour of a training that is neither at its start nor endless.

    Raises
    ------
    ValueError
        If steps may be unstable.
    """
    training = flow.training
    if isinstance(training, Flow):
        return flow_contour(training.time)
    g = flow.features.variances.ravel()
    step = 2 * training.learning_rate / flow.dim
    rate = flow.dim * (1 + training.momentum)
    edge = rate / (largest_eigenvalue(g, flow.share) + training.ridge)
    rarely = largest_eigenvalue(g, flow.share, heaviest_prompt(flow))
    safe = rate / (rarely + training.ridge)
    allowed = min(STABLE * edge, safe)
    if training.learning_rate > allowed:
        unit = flow.label_square
        given = float(f"{training.learning_rate / unit:.12g}")
        raise ValueError(
            f"learning_rate must be at most {allowed / unit:.3g}, got {given!r}: at "
            f"{edge / unit:.3g} steps are unstable in the mean, at {safe / unit:.3g} in one run "
            "of a hundred"
        )
    return descent_contour(training.steps, step, training.momentum)


def heaviest_prompt(flow: Flowing) -> float:
    """Squared norm of the features of the heaviest prompt of a run, over its mean.

    A share `UNSTABLE_RUNS` of runs has a heavier one.
    """
    features = flow.features
    sigma = features.inputs.values
    summaries = quadratic_form_variance(flow.train, features.pushed @ features.pushed.T)
    queries = 2 * np.sum(sigma**2) / np.sum(sigma) ** 2 / features.inputs.multiplicity
    spread = math.sqrt(math.log((1 + summaries) * (1 + float(queries))))
    return math.exp(-spread * float(ndtri(UNSTABLE_RUNS / flow.prompts)) - spread**2 / 2)


def _integrated(flow: Flowing, mixed: Mixture, prompts: PromptLaw) -> tuple[float, float]:
    """ICL and IDG error of a mixture of ridge regressions."""
    features = flow.features
    others = mixed.others
    g = features.variances.ravel()
    tested = features.tested.ravel()
    power = features.power.ravel()
    m = 1 / (g + mixed.xi[:, None])
    other = 1 / (g + others.xi[:, None])
    start = flow.start * np.multiply.outer(mixed.kept, others.kept)
    linear = (m @ power)[:, None] + (other @ power)[None, :]
    known = flow.train.label - linear + (m * power * g) @ other.T
    known = known + start * ((m * g) @ other.T)
    own = (m * g**2) @ other.T
    seen = g > 0
    misfit = flow.train.label - flow.train.rho - float(np.sum(power[seen] / g[seen]))
    noise, norms = _over_prompts(mixed, prompts, flow.train.rho, misfit)
    variance = flow.share * (noise + norms * known) / (1 - flow.share * own * norms)
    scatter = start * ((m * tested) @ other.T) + variance * ((m * g * tested) @ other.T)
    idg = known + variance * own
    pairs = mixed.factor * np.multiply.outer(mixed.weights, others.weights)
    gamma = features.fit(mixed.factor * (mixed.weights @ m).real)
    fitted = np.sum(gamma * (gamma @ flow.test.second)) - 2 * np.sum(gamma * flow.test.cross.T)
    icl = flow.test.label + float(fitted) / flow.dim + float(np.sum(pairs * scatter).real)
    return icl, float(np.sum(pairs * idg).real)


def _over_prompts(
    mixed: Mixture, prompts: PromptLaw, rho: float, misfit: float
) -> tuple[np.ndarray, np.ndarray]:
    """What prompts add to the squared error between two ridges, and the factor of that error."""
    others = mixed.others
    u = prompts.leverage
    left = 1 / (mixed.t[:, None] + u)
    others_left = 1 / (others.t[:, None] + u)
    fractions = np.multiply.outer(left @ (prompts.weight * u), others_left @ (prompts.weight * u))
    # Noise and misfit of a prompt do not grow with its leverage; the misfit is that of its query.
    beside = rho * (1 - u) + misfit * (prompts.query - u)
    noise = (left * prompts.weight * u * beside) @ others_left.T
    norms = (left * prompts.weight * u**2) @ others_left.T
    return noise / fractions, norms / fractions
