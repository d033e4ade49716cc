r"""What a run of finite size should show.

The asymptotic errors are approached as 1/d with a large constant, so a run at d = 100 misses them
by 1 to 15 %.  Nearly all of that is predictable, by one of two laws:

- *task by task* (`iclimit.asymptotics.pretraining.task_self_energy`), given the drawn tasks and
  the numbers of prompts that fall on each of them;
- from the *mean moments* of the context summaries and fluctuations of the feature norms
  (`iclimit.asymptotics.pretraining.deterministic_equivalent`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.numbers import Value
from iclimit.asymptotics.pretraining.deterministic_equivalent import (
    Inputs,
    SummaryLaw,
    equivalent_errors,
    fresh_task_law,
    matrix_root,
    structured_task_law,
    task_set_law,
    undefined_in_float64,
)
from iclimit.asymptotics.pretraining.drawn_features import query_correction
from iclimit.asymptotics.pretraining.joint_spectrum import optional_covariance
from iclimit.asymptotics.pretraining.linked_contexts import LinkedContexts
from iclimit.asymptotics.pretraining.row_self_energy import row_errors
from iclimit.asymptotics.pretraining.task_corrections import task_errors
from iclimit.asymptotics.pretraining.task_draws import TaskDraws
from iclimit.asymptotics.pretraining.timed_contexts import TimedContexts
from iclimit.checks import Seed, check_choice, parse_array, parse_gates
from iclimit.experiment import Experiment, Ridge, check_is_experiment, check_loss, check_training
from iclimit.links import link_text, parse_link
from iclimit.prediction import Prediction
from iclimit.problem import Problem, check_problem
from iclimit.statement import named_cell
from iclimit.threads import blas_threads_by_dim

APPROACHES = ("tasks", "moments")

# Relative errors of the prediction from mean moments, times d.
#
# The second one where tasks share prompts and contexts are long: the numbers of prompts matter.
MOMENTS_LOSS = 0.8
SHARED_LOSS = 5.0

# Added relative error for tasks that hardly share prompts, without a ridge below the threshold.
RIDGELESS_LOSS = 0.002

# Added for a query that is correlated with the context: a constant, and a number over d^2.
QUERY_LOSS = 0.001, 0.7

# Where the prediction is made task by task.  The expansion in 1/d is poor in small dimensions, the
# correction takes O(k^3) operations, and tasks with a single prompt hardly share anything.
LEAST_DIM = 8
MOST_TASKS = 1000
LEAST_SHARED = 1.25

# Inputs with a smaller eigenvalue count as singular: they cannot be whitened.
LEAST_EIGENVALUE = 1e-9

# Contexts up to which interpolation has infinite mean errors: a prompt whose labels happen to be
# small, of label norm chi, contributes in proportion to 1/chi.
LEAST_INTERPOLATED = 2


# Relative error of the change by what is not linear in labels.
LINKED_LOSS = 0.3

# Names of the errors.
NAMES = ("icl", "idg")

# Fields of a problem that predictions know; all other ones have their defaults.
KNOWN = (
    "tasks",
    "noise_variance",
    "input_covariance",
    "task_law",
    "task_covariance",
    "drift",
    "correlation",
    "correlated_query",
    "link",
    "flips",
)


@named_cell("finite_size_errors")
def finite_size_errors(
    *,
    dim: int,
    context: int,
    tasks: int | float | np.ndarray,
    prompts: int,
    rho: float,
    ridge: float = 0.0,
    rng: Seed | None = None,
    draws: int = 10,
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
    approach: str = "tasks",
    balanced: bool = False,
) -> Prediction:
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
        Number of task sets, with their numbers of prompts, to average over (one suffices for
        infinitely many tasks).  The errors differ between them by less than between runs.
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
    drift : float >= 0
        Rate :math:`\vartheta` at which tasks change from pair to pair: :math:`e^{-\vartheta/d}` is
        the correlation of neighbouring ones, and of the last one with that of the query.
    correlation : float in (-1, 1), or array
        Correlation of the inputs of neighbouring pairs, or the correlations at distances 0, 1,
        ..., of which the first is 1 and those beyond are 0.
    gates : array (context,) of numbers in [0, 1], optional
        Weights of the pairs in the context summary.
    test_drift, test_correlation : as those above, optional
        The same in the prompts behind the ICL error; None: as in training.
    test_gates : array (test_context,) of numbers in [0, 1], optional
        Gates there; None: ``gates``, which then must fit ``test_context``.
    correlated_query : bool
        Whether the correlation of the last pair and the query is the same; otherwise the query is
        independent of the context.
    approach : {"tasks", "moments"}
        ``"tasks"`` predicts task by task where it can: for d >= 8, away from the ridgeless
        threshold, with several tasks or infinitely many.  Otherwise, or for ``"moments"``, the
        prediction comes from the mean moments; it costs 1 to 10 % of the time.
    balanced : bool
        Whether all tasks have the same number of prompts, as in the published runs of Lu et al.;
        otherwise every prompt draws its task.  The mean moments do not see the difference.

    Returns
    -------
    Prediction
        Estimates ``icl`` and ``idg`` over the task draws, which are no error bars of runs
        (`finite_size_spread`); ``inf`` at ridge = 0 and
        prompts = d (d + 1), the interpolation threshold, and at ridge = 0 with fewer prompts and
        contexts of one or two pairs.

    Raises
    ------
    ValueError
        If an argument is outside its range or the task array has the wrong shape.
    ArithmeticError
        If the moments are singular (few tasks without noise) or the ridge is too extreme for
        float64.

    Notes
    -----
    *Task by task*: simulations are within the stated uncertainty, apart from their statistical
    errors.  It is 0.4 % + 1.3/d^2 + 1 %/context^2 far from the thresholds n = d (d + 1) and, for
    long contexts without a ridge, n = d k.  Near them it rises, to 1 to 3 % where the prompts are
    within a fifth of a threshold.  Of 290 random settings, three quarters of them within 40 % of a
    threshold, it was below 1 % at 182, and 4 simulations were further from the prediction than it
    plus two standard errors (``benchmarks/finite_size.csv``).

    *Mean moments*: these neglect that the numbers of prompts of the tasks are random.  Without a
    ridge just below a threshold the errors are up to 30 % higher at d = 16 for this reason.  Where
    these numbers do not matter, simulations are within 0.8/d.  That fails for d below about 10 and
    for contexts below six pairs.

    *Both*: two predictions are mean moments, times the ratio of the approaches in a case nearby.

    - Tasks that get fewer than 1.25 prompts on average, or more than 1000 tasks: the ratio is that
      of fresh tasks.  Four runs at kappa = 20 to 100, d = 16 to 32: 0 to 0.8(6) % off, of up to
      2.4 % with mean moments alone.
    - Correlated queries: the ratio is that of independent queries after the same contexts.  This
      adds 0.1 % + 0.7/d^2 to the uncertainty.  Where the query follows much of its context, mean
      moments miss the law of leverages, and the features are drawn, which takes some seconds up
      to d = 32 and adds 0.5 to 3 % (module `iclimit.asymptotics.pretraining.drawn_features`).
      Five settings at d = 16 to 24, two with gates, r = 0.9 to -0.99: 0.1 to 1.5(5) % off in the
      ICL error and 0.2 to 2.1(9) % in the IDG error, of up to 35 % with mean moments.  Of 23
      random settings within a third of n = d (d + 1) all were within the stated uncertainty and
      two standard errors.  Above d = 32 the uncertainty grows to up to 100 % instead.

    *Any law.*  Tasks and inputs of any covariance, gates, drift, correlation and other tests go
    together: sixteen mixed settings at d = 16 were 0 to 1.2(5) % off.  Where the tasks that drift
    adds have a covariance the errors are too low, by up to 4 % with independent inputs; the
    uncertainty is larger there.  Rows of Gamma have
    self-energies of their own for inputs with a covariance (module
    `iclimit.asymptotics.pretraining.row_self_energy`).  The time then grows as d^4: a second at
    d = 64, some 20 seconds at d = 200.  Without a ridge and with more prompts than features,
    whitening is exact.

    References
    ----------
    Derivations: modules `iclimit.asymptotics.pretraining.task_self_energy` and
    `iclimit.asymptotics.pretraining.deterministic_equivalent`.  Limit: Lu et al.,
    arXiv:2405.11751.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import finite_size_errors
    >>> run = finite_size_errors(dim=100, context=100, tasks=50, prompts=20_000, rho=0.01, rng=0)
    >>> round(run.icl.mean, 2), round(run.idg.mean, 2)  # published simulation: 1.279(4), 0.625(3)
    (1.28, 0.63)
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
        balanced=balanced,
    )
    return predicted_errors(stated, rng=rng, draws=draws, approach=approach)


@blas_threads_by_dim
def predicted_errors(
    experiment: Experiment, *, rng: Seed | None = None, draws: int = 10, approach: str = "tasks"
) -> Prediction:
    """Mean errors of a run; arguments as of `finite_size_errors`."""
    check_choice("approach", approach, APPROACHES)
    run = read_run(experiment, rng, draws)
    dim = experiment.dim
    context = experiment.problem.context
    prompts = experiment.prompts
    balanced = experiment.balanced
    rho = run.rho
    ridge = run.ridge
    inputs = run.inputs
    plain = Inputs.of(None, dim)
    sets = run.sets
    laws = run.laws
    test = run.test
    count = len(sets[0]) if sets else math.inf
    few = ridge == 0 and prompts < dim * (dim + 1)
    features = dim * (dim + 1)
    if few and run.counted <= LEAST_INTERPOLATED:
        return Prediction(NAMES, np.full((1, 2), math.inf), np.zeros((1, 2)))

    def by_moments(
        laws: list[SummaryLaw], ridge: float, inputs: Inputs, *, independent: bool = False
    ) -> np.ndarray:
        """Errors from mean moments, with a query that is independent or as the run has it."""
        tested = test
        if independent:
            tested = test.with_independent_query()
            laws = [law.with_independent_query() for law in laws]
        errors = [equivalent_errors(law, tested, prompts, ridge, inputs) for law in laws]
        return np.array(errors)

    # Without a ridge, and with more prompts than features, whitening is exact.
    whitened = run.input_covariance is None or (ridge == 0 and prompts > features)

    def by_tasks(sets: list[np.ndarray]) -> tuple[np.ndarray, float]:
        """Errors task by task, of a fresh task in each prompt without sets."""
        law = run.fresh
        stacked = np.stack(sets * draws if len(sets) == 1 else sets or [law.tasks])
        shares = np.full(stacked.shape[:2], 1 / stacked.shape[1])
        if sets and not balanced:
            shares = run.generator.multinomial(prompts, shares) / prompts
        trained = TaskDraws(
            tasks=stacked,
            shares=shares,
            context=context,
            prompts=prompts,
            rho=rho,
            ridge=ridge,
            fresh=not sets,
            isotropic=run.isotropic,
            timed=run.contexts,
            innovations=law.innovations,
        )
        with undefined_in_float64():
            if not whitened:
                return row_errors(trained, test, inputs, None if sets else law)
            return task_errors(trained, test, None if sets else law)

    query_loss = QUERY_LOSS[0] + QUERY_LOSS[1] / dim**2 if test.features else 0.0
    shared = 2 <= count <= min(prompts / LEAST_SHARED, MOST_TASKS)
    singular = (ridge == 0 and prompts == features) or np.min(inputs.values) < LEAST_EIGENVALUE
    possible = approach == "tasks" and dim >= LEAST_DIM and not singular
    if possible and (shared or not sets):
        errors, uncertainty = by_tasks(sets)
        if test.features:
            alone = by_moments(laws, ridge, plain, independent=True)
            beyond = np.mean(errors, axis=0) / np.mean(alone, axis=0)
            errors = by_moments(laws, ridge, plain) * beyond
            uncertainty += query_loss
    elif possible and count > 1:
        errors = by_moments(laws, ridge, inputs)
        if balanced and count >= prompts:  # a task of its own for each prompt is a fresh one
            errors[:, 0] = by_moments([run.fresh], ridge, inputs)[:, 0]
        fresh, uncertainty = by_tasks([])
        beyond = fresh[0] / by_moments([run.fresh], ridge, inputs, independent=True)[0]
        errors = errors * beyond
        uncertainty += RIDGELESS_LOSS * few + query_loss
    else:
        errors = by_moments(laws, ridge, inputs)
        uncertainty = (SHARED_LOSS if shared else MOMENTS_LOSS) / dim
    if test.features and possible and count > 1:
        factors, doubt = query_correction(
            sets, laws, test, beyond, prompts=prompts, ridge=ridge, balanced=balanced
        )
        errors = errors * factors
        uncertainty += doubt
    if run.linked:
        by_rest, doubt = change_by_rest(run, prompts)
        errors = errors * by_rest * run.linked.labels.slope**2
        uncertainty += doubt
    return Prediction(NAMES, errors, np.full((1, 2), uncertainty))


def change_by_rest(run: Run, prompts: int) -> tuple[np.ndarray, float]:
    """Factors of the errors as what is not linear in labels varies with the query, and doubt."""
    assert run.linked is not None
    labels = run.linked.labels
    own = [replace(law, rest_slope=labels.rest_slope, bend=labels.bent - 3) for law in run.laws]
    pairs = [
        [equivalent_errors(law, run.test, prompts, run.ridge, run.inputs) for law in laws]
        for laws in (own, run.laws)
    ]
    with np.errstate(invalid="ignore"):
        factors = np.mean(pairs[0], axis=0) / np.mean(pairs[1], axis=0)
    factors = np.where(np.isfinite(factors), factors, 1.0)
    return factors, LINKED_LOSS * float(np.max(np.abs(factors - 1)))


@dataclass(frozen=True)
class Run:
    """Checked setting of a run, its task sets and the laws of whitened summaries.

    Attributes
    ----------
    sets : list of ndarray (k, d)
        Whitened task sets, drawn or given; empty for infinitely many tasks.
    laws : list of SummaryLaw
        Laws of the training summaries: of each task set, or of fresh tasks.
    fresh : SummaryLaw
        Law of the training summaries with a fresh task in each prompt.
    test : SummaryLaw
        Law of the summaries behind the ICL error.
    timed : TimedContexts, optional
        Training contexts in which the order of the pairs matters.
    isotropic, test_isotropic : bool
        Whether fresh tasks of training and of tests, whitened, are of an isotropic law.
    counted : int
        Number of pairs of a training context whose gates are not zero.
    linked : LinkedContexts, optional
        Training contexts of labels that are not linear; rho, ridge and errors are then those of
        labels over their linear part.
    """

    sets: list[np.ndarray]
    laws: list[SummaryLaw]
    fresh: SummaryLaw
    test: SummaryLaw
    timed: TimedContexts | None
    isotropic: bool
    test_isotropic: bool
    counted: int
    inputs: Inputs
    input_covariance: np.ndarray | None
    rho: float
    ridge: float
    generator: np.random.Generator
    linked: LinkedContexts | None = None

    @property
    def contexts(self) -> TimedContexts | LinkedContexts | None:
        """Training contexts that are not of independent pairs with linear labels."""
        return self.linked or self.timed


def read_run(experiment: Experiment, rng: Seed | None, draws: int) -> Run:
    """Check a run, and draw its task sets.

    Raises
    ------
    TypeError
        If it is no experiment.
    ValueError
        If it has parts that are not predicted here.
    """
    check_known(experiment)
    check_integers(draws=draws)
    problem = experiment.problem
    if not (problem.has_linear_labels and experiment.tests.problem.has_linear_labels):
        return _read_linked(experiment, rng, draws)
    tests = experiment.tests
    dim = problem.dim
    rho = float(problem.noise_variance)
    ridge = float(experiment.ridge)
    C = optional_covariance("task_covariance", problem.task_covariance, dim)
    C_test = optional_covariance("test_covariance", tests.problem.task_covariance, dim)
    Sigma = optional_covariance("input_covariance", problem.input_covariance, dim)
    inputs = Inputs.of(Sigma, dim)
    correlated = _kernel(problem) or _kernel(tests.problem)
    continued = bool(problem.correlated_query and correlated)
    if continued:
        covariances = {"task_covariance": C, "test_covariance": C_test, "input_covariance": Sigma}
        _check_isotropic(problem, covariances)
    timed = _timed("gates", experiment.model.gates, problem, continued)
    name = "test_gates" if experiment.test and experiment.test.gates is not None else "gates"
    test_timed = _timed(name, tests.gates, tests.problem, continued)
    test_rho = float(tests.problem.noise_variance)
    train = FreshTasks.of(C, inputs, problem.task_law)
    test = FreshTasks.of(C_test, inputs, tests.problem.task_law)
    generator = np.random.default_rng(rng)
    task_sets = _task_sets(problem.tasks, dim, problem.task_law, C, generator, draws)
    sets = [task_set @ inputs.root for task_set in task_sets if task_set is not None]
    fresh = train.law(problem.context, rho, timed)
    laws = [
        task_set_law(task_set, problem.context, rho, fresh.timed, fresh.innovations)
        for task_set in sets
    ]
    return Run(
        sets=sets,
        laws=laws or [fresh],
        fresh=fresh,
        test=test.law(tests.problem.context, test_rho, test_timed),
        timed=fresh.timed if isinstance(fresh.timed, TimedContexts) else None,
        isotropic=train.isotropic,
        test_isotropic=test.isotropic,
        counted=int(np.count_nonzero(timed.gates)) if timed else problem.context,
        inputs=inputs,
        input_covariance=Sigma,
        rho=rho,
        ridge=ridge,
        generator=generator,
    )


def _read_linked(experiment: Experiment, rng: Seed | None, draws: int) -> Run:
    """A run whose labels are not linear, over their linear part."""
    problem = experiment.problem
    tests = experiment.tests
    _check_linked(experiment)
    dim = problem.dim
    linked = _linked(problem)
    tested = _linked(tests.problem)
    slope = linked.labels.slope
    generator = np.random.default_rng(rng)
    task_sets = _task_sets(problem.tasks, dim, "sphere", None, generator, draws)
    sets = [
        math.sqrt(dim) * tasks / np.linalg.norm(tasks, axis=1, keepdims=True)
        for tasks in task_sets
        if tasks is not None
    ]
    rho = linked.labels.square - 1
    fresh = fresh_task_law(dim, problem.context, rho, "sphere", linked)
    laws = [task_set_law(tasks, problem.context, rho, linked) for tasks in sets]
    return Run(
        sets=sets,
        laws=laws or [fresh],
        fresh=fresh,
        test=fresh_task_law(
            dim, tests.problem.context, tested.labels.square - 1, "sphere", tested
        ),
        timed=None,
        isotropic=True,
        test_isotropic=True,
        counted=problem.context,
        inputs=Inputs.of(None, dim),
        input_covariance=None,
        rho=rho,
        ridge=float(experiment.ridge) / slope**2,
        generator=generator,
        linked=linked,
    )


def _linked(problem: Problem) -> LinkedContexts:
    """Contexts of labels that are not linear."""
    return LinkedContexts(
        dim=problem.dim,
        context=problem.context,
        rho=float(problem.noise_variance),
        link=parse_link(problem.link),
        flips=float(problem.flips),
    )


def _check_linked(run: Experiment) -> None:
    """Refuse what is not known for labels that are not linear."""
    known = ("tasks", "noise_variance", "task_law", "link", "flips")
    problem = run.problem
    for law in (problem, run.tests.problem):
        check_problem(law, *known)
        # Labels of a sign do not depend on the norm of the task.
        if law.task_law != "sphere" and law.link != "sign":
            raise ValueError(
                f"task_law must be sphere where link = {link_text(law.link)}, got {law.task_law!r}"
            )
        if law.task_set is not None and law.link != "sign":
            squares = np.sum(law.task_set**2, axis=1)
            if not np.allclose(squares, law.dim):
                raise ValueError(
                    f"tasks must have squared norm {law.dim} where link = {link_text(law.link)}, "
                    f"got {squares}"
                )
        if law.labels != problem.labels:
            raise ValueError(
                f"test must have the link and flips of training, {problem.labels}, got "
                f"{law.labels}"
            )
    for name, gates in (("gates", run.model.gates), ("test_gates", run.tests.gates)):
        if gates is not None:
            raise ValueError(
                f"{name} must be None for labels that are not linear: the law of weighed sums of "
                "their squares is not known; iclimit.sample draws such runs"
            )


def check_known(run: Experiment) -> None:
    """Check that a value is a run that is predicted here.

    Raises
    ------
    TypeError
        If it is no experiment.
    ValueError
        If it has parts that are not known here.
    """
    check_is_experiment(run)
    check_training(run, Ridge)
    check_loss(run)
    check_problem(run.problem, *KNOWN)
    check_problem(run.tests.problem, *KNOWN)
    tested = run.tests.problem
    for name in ("input_covariance", "correlated_query"):
        own = getattr(run.problem, name)
        if not np.array_equal(getattr(tested, name), own):
            raise ValueError(
                f"test must have the {name} of training, {own!r}, got {getattr(tested, name)!r}"
            )


def _kernel(problem: Problem) -> float | tuple[float, ...]:
    """Correlation of neighbours, or correlations by distance; 0.0 of independent inputs."""
    if np.ndim(problem.correlation) == 0:
        return float(problem.correlation)
    return tuple(problem.kernel.tolist())


@dataclass(frozen=True)
class FreshTasks:
    """A law of whitened tasks: an isotropic one times a root, and what drift adds to them.

    Attributes
    ----------
    root : ndarray (d, d)
        A root of the covariance of whitened tasks.
    task_law : str
        Law of what the root is multiplied with.
    added : ndarray (d, d)
        Covariance of what drift adds, whose own law is Gaussian.
    isotropic : bool
        Whether the covariance is the identity.
    """

    root: np.ndarray
    task_law: str
    added: np.ndarray
    isotropic: bool

    @classmethod
    def of(cls, covariance: np.ndarray | None, inputs: Inputs, task_law: str) -> FreshTasks:
        """The law of tasks from N(0, covariance), or without one from ``task_law``."""
        root = inputs.root
        if covariance is not None:
            root = root @ matrix_root(covariance)
            task_law = "gaussian"
        added = root @ root.T
        isotropic = _is_identity(added)
        return cls(root, task_law, added, isotropic)

    def law(self, context: int, rho: float, timed: TimedContexts | None) -> SummaryLaw:
        """Law of the summaries with a fresh task in each prompt."""
        if self.isotropic:
            return fresh_task_law(len(self.root), context, rho, self.task_law, timed)
        if timed is None:
            return structured_task_law(self.root, context, rho, self.task_law)
        timed = replace(timed, innovation=float(np.trace(self.added)) / len(self.root))
        return structured_task_law(
            self.root, context, rho, self.task_law, timed, self.added if timed.drift else None
        )


def _is_identity(matrix: np.ndarray) -> bool:
    return bool(np.allclose(matrix, np.eye(len(matrix)), rtol=0, atol=LEAST_EIGENVALUE))


def _timed(
    name: str, gates: ArrayLike | None, problem: Problem, continued: bool
) -> TimedContexts | None:
    """Contexts in which the order of the pairs matters; None where it does not.

    ``continued`` says whether the query follows the last pair.
    """
    kernel = _kernel(problem)
    if gates is None and not (problem.drift or kernel or continued):
        return None
    weights = parse_gates(name, gates, problem.context)
    if weights is None:
        weights = np.ones(problem.context)
    elif not np.any(weights):
        raise ValueError(f"{name} must not all be zero, got {gates!r}")
    return TimedContexts(
        gates=tuple(weights.tolist()),
        dim=problem.dim,
        rho=float(problem.noise_variance),
        drift=float(problem.drift),
        correlation=kernel,
        correlated_query=continued,
    )


def _check_isotropic(problem: Problem, covariances: dict[str, Any]) -> None:
    """Refuse what the law of timed contexts is not known for."""
    reason = "with a correlated query"
    for name, covariance in covariances.items():
        if covariance is not None:
            raise ValueError(f"{name} must be None {reason}")
    if problem.task_law != "sphere":
        raise ValueError(f"task_law must be sphere {reason}, got {problem.task_law!r}")
    if problem.task_set is not None:
        squares = np.sum(problem.task_set**2, axis=1)
        if not np.allclose(squares, problem.dim):
            raise ValueError(f"tasks must have squared norm {problem.dim} {reason}, got {squares}")


def _task_sets(
    tasks: Value,
    dim: int,
    task_law: str,
    covariance: np.ndarray | None,
    rng: np.random.Generator,
    draws: int,
) -> list[np.ndarray | None]:
    """Training task sets as (k, d) arrays; None stands for infinitely many tasks."""
    if np.ndim(tasks) == 0:
        check_integers(tasks=tasks)
        if tasks == math.inf:
            return [None]
        drawn = rng.standard_normal((draws, tasks, dim))
        if covariance is not None:
            drawn = drawn @ matrix_root(covariance)
        elif task_law == "sphere":
            drawn *= math.sqrt(dim) / np.linalg.norm(drawn, axis=-1, keepdims=True)
        return list(drawn)
    return [parse_array("tasks", tasks, (None, dim))]
