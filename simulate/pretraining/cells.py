"""One simulated cell: pretrain linear attention at given integers, and test it repeatedly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import by_name, check_arguments, check_choice, check_flag, check_memory, given
from iclimit.experiment import (
    SGD,
    Descent,
    Experiment,
    Flow,
    Ridge,
    check_is_experiment,
    check_training,
)
from iclimit.links import link_text
from iclimit.losses import LastPosition
from iclimit.problem import check_problem
from iclimit.samples import Samples
from iclimit.simulate.arrays import Array, Backend, Generator, Seed, get_backend
from iclimit.simulate.pretraining.flow import follow_descent, follow_flow
from iclimit.simulate.pretraining.one_pass import follow_pass
from iclimit.simulate.pretraining.ridge import (
    RidgeSolution,
    choose_method,
    predictions,
    row_pairs,
    solve_ridge,
)
from iclimit.simulate.pretraining.sequences import (
    check_positions,
    draw_rows,
    length_factor,
    row_count,
)
from iclimit.simulate.prompts.covariances import covariance_rank, fingerprint
from iclimit.simulate.prompts.sampling import draw_task_set
from iclimit.simulate.prompts.summaries import SummaryLaw, is_timed
from iclimit.statement import named_cell
from iclimit.threads import blas_threads_for

# Names of the errors.
NAMES = ("icl", "idg")

# Names of the errors of a flow or descent, which has not minimised its training loss.
FLOW_NAMES = (*NAMES, "training")

# Names of the accuracies of runs whose labels are not linear.
ACCURACIES = ("accuracy", "idg_accuracy")

# Test prompts per accuracy: their tasks and contexts scatter it by some .002.
ACCURACY_PROMPTS = 4000

# Fields of a problem that runs may set; all other ones have their defaults.
_KNOWN = (
    "tasks",
    "noise_variance",
    "input_law",
    "input_covariance",
    "task_law",
    "task_covariance",
    "drift",
    "correlation",
    "correlated_query",
    "link",
    "flips",
    "scale_law",
    "outputs",
)

# The same of runs whose accuracies are measured.
_CLASSIFIED = (
    *("tasks", "noise_variance", "task_law", "task_covariance"),
    *("link", "flips", "scale_law", "outputs"),
)

# Test prompts per error where it is not exact.
TEST_PROMPTS = 10_000

# Bytes of a run for each prompt and dimension: queries and summaries, with copies.
BYTES = 24

SAMPLERS = ("auto", "summaries", "tokens")

# Relative residual of the linear solves.  It moves the errors by less than 1e-6 relative at tau =
# 2, d = 48, and by 1e-4 next to the threshold (tau = 1.125, d = 32), where they scatter by a third
# from run to run.  A tenth of it takes up to a quarter more time.
TOLERANCE = 1e-5


@named_cell("simulate_errors")
def simulate_errors(
    *,
    dim: int,
    context: int,
    tasks: int | float | Array,
    prompts: int,
    rho: float,
    ridge: float = 0.0,
    rng: Seed,
    repeats: int = 1,
    first_repeat: int = 0,
    backend: str = "numpy",
    task_law: str | None = None,
    input_law: str | None = None,
    input_covariance: ArrayLike | None = None,
    sampler: str = "auto",
    test_prompts: int = TEST_PROMPTS,
    task_covariance: ArrayLike | None = None,
    test_covariance: ArrayLike | None = None,
    test_context: int | None = None,
    test_rho: float | None = None,
    drift: float | None = None,
    correlation: float | ArrayLike | None = None,
    correlated_query: bool | None = None,
    gates: ArrayLike | None = None,
    test_drift: float | None = None,
    test_correlation: float | ArrayLike | None = None,
    test_gates: ArrayLike | None = None,
) -> Samples:
    r"""Pretrain reduced linear attention on random prompts and measure its test errors.

    Every repeat draws its own task set and prompts, solves the ridge regression for
    :math:`\Gamma` and evaluates it on fresh and on its pretraining tasks.  Fresh tasks, with their
    context length and label noise, may be of another distribution than in training; pretraining
    tasks are tested as they were trained on.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs.
    context : int >= 1
        Context length, :math:`\ell`.
    tasks : int >= 1, inf, or array of shape (k, d)
        Number of training tasks; ``inf`` for a fresh task in every prompt; or the task vectors.
    prompts : int >= 1
        Number of training prompts, n.
    rho : float >= 0
        Variance of the label noise.
    ridge : float >= 0
        Ridge :math:`\lambda` of the penalty :math:`\frac nd \lambda \lVert\Gamma\rVert_F^2`; 0 is
        the least-norm solution.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent runs.
    first_repeat : int >= 0
        Number of the first of them: ``first_repeat=8, repeats=4`` continues a run of 8 repeats
        with the same int or SeedSequence as root.
    backend : {"numpy", "cupy"}
        Where to compute.
    task_law : {"sphere", "gaussian"}
        Law of tasks without a given covariance: uniform on the sphere of squared norm d, the
        default of this keyword, or N(0, I).
    input_law : {"gaussian", "uniform", "rademacher", "laplace"}
        Law of the input coordinates, which have mean 0 and variance 1/d.
    input_covariance : array (d,) or (d, d), optional
        Covariance of Gaussian inputs times d: a positive semidefinite matrix, or the eigenvalues
        of a diagonal one.
    sampler : {"auto", "summaries", "tokens"}
        Draw context summaries from their exact law in O(d), or in O(d + context) with gates or
        correlation, or token by token.  "auto" takes the former where it is known: for Gaussian
        inputs without drift.
    test_prompts : int >= 1
        Test prompts per error that is found by Monte Carlo: for inputs that are not Gaussian, for
        gates, drift and correlation with tasks not from the sphere, and for a correlated query
        with drift.  Otherwise it is exact.
    task_covariance : array (d,) or (d, d), optional
        Covariance C of training tasks from N(0, C), positive semidefinite, or the eigenvalues of
        a diagonal one.  Without it they follow ``task_law``.
    test_covariance : array (d,) or (d, d), optional
        The same for fresh tasks.  Without it they are as in training; where the task vectors are
        given, as ``task_law`` says.
    test_context : int >= 1, optional
        Context length of prompts with fresh tasks; ``context`` by default.
    test_rho : float >= 0, optional
        Variance of the label noise in prompts with fresh tasks; ``rho`` by default.
    drift : float >= 0, optional
        Rate at which tasks change from pair to pair, as in `iclimit.Problem`.
    correlation : float in (-1, 1), or array, optional
        Correlation of the inputs of neighbouring pairs, or the correlations at distances 0, 1,
        ..., of which the first is 1.
    correlated_query : bool, optional
        Whether that of the last pair and the query is the same; otherwise they are independent.
    gates : array (context,) of numbers in [0, 1], optional
        Weights of the pairs in the context summary, as gated linear attention has them.
    test_drift, test_correlation : as those above, optional
        The same in prompts with fresh tasks; as in training by default.
    test_gates : array (test_context,) of numbers in [0, 1], optional
        Gates there; ``gates`` by default, which then must fit ``test_context``.

    Returns
    -------
    Samples
        Errors per repeat with means, standard errors and correlation.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        If a solve did not converge (ridgeless, very near n = d (d + 1)).

    Examples
    --------
    >>> from iclimit.simulate.pretraining import simulate_errors
    >>> run = simulate_errors(
    ...     dim=20, context=20, tasks=10, prompts=800, rho=0.1, ridge=0.1, rng=0, repeats=8
    ... )
    >>> run.repeats, run.parameters["tau"], run.parameters["alpha"]
    (8, 2.0, 1.0)
    >>> 1.0 < run.icl.mean < 1.4
    True
    """
    check_arguments(test_prompts=test_prompts)
    run = Experiment.of(
        dim=dim,
        context=context,
        tasks=tasks,
        prompts=prompts,
        rho=rho,
        ridge=ridge,
        input_covariance=input_covariance,
        task_covariance=task_covariance,
        gates=gates,
        test_covariance=test_covariance,
        test_context=test_context,
        test_rho=test_rho,
        test_drift=test_drift,
        test_correlation=test_correlation,
        test_gates=test_gates,
        test_prompts=test_prompts,
        **given(
            by_name(
                task_law=task_law,
                input_law=input_law,
                drift=drift,
                correlation=correlation,
                correlated_query=correlated_query,
            )
        ),
    )
    return sample(
        run, rng=rng, repeats=repeats, first_repeat=first_repeat, backend=backend, sampler=sampler
    )


@named_cell("sample")
def sample(
    run: Experiment,
    *,
    rng: Seed,
    repeats: int = 1,
    first_repeat: int = 0,
    backend: str = "numpy",
    sampler: str = "auto",
    accuracies: bool = False,
) -> Samples:
    r"""Simulate a run: draw its tasks and prompts, train on them and test, as often as is asked.

    Parameters
    ----------
    run : Experiment
        In the units of this library.
    rng : int, SeedSequence or Generator
        Root seed.  Repeat r depends on (root, r) only, so more repeats extend fewer.
    repeats : int >= 1
        Number of independent runs.
    first_repeat : int >= 0
        Number of the first of them.
    backend : {"numpy", "cupy"}
        Where to compute.
    sampler : {"auto", "summaries", "tokens"}
        As in `simulate_errors`.
    accuracies : bool
        Whether to measure accuracies, too, of labels that are not linear, on independent Gaussian
        inputs and without gates.  They take a few thousand test prompts a repeat, which leave the
        errors as they are.

    Returns
    -------
    Samples
        Errors per repeat with means, standard errors and correlation; with ``accuracies`` also
        "accuracy" and "idg_accuracy", the shares of queries whose prediction has the sign of
        :math:`\langle w, x\rangle`.  Errors are those of one output.

    Raises
    ------
    TypeError
        If it is no experiment.
    ValueError
        If an argument is outside its range, its prompts do not fit into the memory of the
        backend, or the run has parts that are not simulated.
    RuntimeError
        If the backend is not available.
    ArithmeticError
        If a solve did not converge (ridgeless, very near n = d (d + 1)), or a training overflowed.

    Examples
    --------
    >>> import iclimit
    >>> run = iclimit.Point(tau=2, alpha=1, kappa=0.5, rho=0.1, ridge=0.1).at(dim=20)
    >>> samples = iclimit.sample(run, rng=0, repeats=8)
    >>> 1.0 < samples.icl.mean < 1.4
    True
    """
    check_experiment(run)
    check_arguments(repeats=repeats, first_repeat=first_repeat)
    check_choice("sampler", sampler, SAMPLERS)
    check_flag("accuracies", accuracies)
    if accuracies:
        _check_classes(run)
    arrays = get_backend(backend)
    if not isinstance(run.training, SGD):
        size = BYTES * row_count(run) * run.dim
        check_memory("prompts", run.prompts, size, arrays.free_memory())
    sampler = _chosen_sampler(run, sampler)
    factor = length_factor(run, run.tests.problem.context)
    errors = []
    residuals = []
    iterations = []
    with blas_threads_for(run.dim):
        for model in trained_models(run, arrays, rng, repeats, first_repeat, sampler):
            generator = model.generator
            solution = model.solution
            gamma = factor * solution.gamma if factor != 1 else solution.gamma
            icl = model.test.test_error(generator, gamma, model.counted, None)
            idg = model.train.test_error(generator, solution.gamma, model.counted, model.task_set)
            own = [icl, idg, *_of_training(run, model.drawn, solution.gamma)]
            if accuracies:
                own += model.accuracies(gamma)
            errors.append(own)
            residuals.append(solution.residual)
            iterations.append(solution.iterations)
    parameters = _parameters(run) | {"sampler": sampler, "backend": backend}
    names = FLOW_NAMES if isinstance(run.training, Flow | Descent) else NAMES
    names = (*names, *ACCURACIES) if accuracies else names
    return Samples(names, np.array(errors), parameters, np.array(residuals), np.array(iterations))


@dataclass(frozen=True)
class TrainedModel:
    """A repeat of a run after its training.

    Attributes
    ----------
    generator : Generator
        Source of its test prompts.
    train, test : SummaryLaw
        Of the training prompts, and of those with fresh tasks.
    task_set : array (k, d), optional
        Its pretraining tasks; None where every prompt has one of its own.
    drawn : tuple of arrays
        Rows (query, summary, label) that it learned from.
    solution : RidgeSolution
        What it learned.
    counted : int
        Test prompts per error where it is not exact.
    """

    generator: Generator
    train: SummaryLaw
    test: SummaryLaw
    task_set: Array | None
    drawn: tuple[Array, Array, Array]
    solution: RidgeSolution
    counted: int

    def accuracies(self, gamma: Array) -> list[float]:
        """Accuracies on fresh tasks, with this Gamma, and on the pretraining tasks."""
        generator = self.generator
        fresh = self.test.accuracy(generator, gamma, ACCURACY_PROMPTS, None)
        own = self.train.accuracy(generator, self.solution.gamma, ACCURACY_PROMPTS, self.task_set)
        return [fresh, own]


def trained_models(
    run: Experiment,
    arrays: Backend,
    rng: Seed,
    repeats: int,
    first_repeat: int,
    sampler: str = "auto",
) -> Iterator[TrainedModel]:
    """Train the repeats of a run, one after the other."""
    sampler = _chosen_sampler(run, sampler)
    problem = run.problem
    test = run.tests
    laws = []
    for law, gates in ((problem, run.model.gates), (test.problem, test.gates)):
        weights = None if gates is None else arrays.asarray(gates)
        # All outputs have the same errors.
        laws.append(SummaryLaw(arrays, replace(law, outputs=1), sampler, weights))
    train, fresh = laws
    # Features that differ, r (r + 1) of them, decide whether prompts can be interpolated.
    rank = covariance_rank(problem.input_covariance, run.dim)
    method = choose_method(row_count(run), rank, arrays.xp)
    for generator in arrays.generators(rng, repeats, first_repeat):
        task_set = draw_task_set(problem, arrays, generator)
        drawn = draw_rows(run, train, generator, task_set)
        solution = _trained(run, generator, drawn, method)
        counted = test.prompts or TEST_PROMPTS
        yield TrainedModel(generator, train, fresh, task_set, drawn, solution, counted)


def check_experiment(run: Experiment) -> None:
    """Check that a value is a run that is simulated here.

    Raises
    ------
    TypeError
        If it is no experiment.
    ValueError
        If it has parts that are not known here.
    """
    check_is_experiment(run)
    if not isinstance(run.loss, LastPosition):
        check_positions(run)
    elif run.balanced:
        raise ValueError("run must not be balanced here: every prompt draws its task")
    check_problem(run.problem, *_KNOWN)
    check_problem(run.tests.problem, *_KNOWN)
    if run.problem.outputs > 1:
        check_training(run, Ridge)
    law = run.problem
    if law.task_set is not None and law.task_covariance is not None:
        raise ValueError("task_covariance must be None where the task vectors are given")
    if law.input_covariance is not None and law.input_law != "gaussian":
        raise ValueError(
            f"input_law must be gaussian where input_covariance is given, got {law.input_law!r}"
        )


def _check_classes(run: Experiment) -> None:
    """Refuse runs whose accuracies are not measured."""
    for law, gates in ((run.problem, run.model.gates), (run.tests.problem, run.tests.gates)):
        check_problem(law, *_CLASSIFIED)
        if law.has_linear_labels:
            raise ValueError(
                "accuracies must be False for linear labels, got True: labels need a link, such "
                'as link="sign", or flips'
            )
        if gates is not None:
            raise ValueError("accuracies must be False for a model with gates, got True")


def _trained(
    run: Experiment, generator: Generator, drawn: tuple[Array, Array, Array], method: str
) -> RidgeSolution:
    """Gamma that a run learns from drawn queries, summaries and labels."""
    if isinstance(run.training, SGD):
        return follow_pass(*drawn, run.training.rates(run.prompts), run.training.batch)
    if not isinstance(run.training, Flow | Descent):
        return solve_ridge(*drawn, run.ridge, method=method, tolerance=TOLERANCE)
    deviation = math.sqrt(run.training.start_variance / run.dim)
    start = deviation * generator.standard_normal((run.dim, run.dim + 1))
    if isinstance(run.training, Descent):
        return follow_descent(*drawn, start, run.training)
    return follow_flow(
        *drawn, start, run.training.time, run.ridge, method=method, tolerance=TOLERANCE
    )


def _of_training(
    run: Experiment, drawn: tuple[Array, Array, Array], gamma: Array
) -> tuple[float, ...]:
    """Mean squared error of a flow or descent on its own prompts; nothing for other training."""
    if not isinstance(run.training, Flow | Descent):
        return ()
    x, h, y = drawn
    return (float(array_namespace(y).mean((y - predictions(row_pairs(x, h), gamma)) ** 2)),)


def _chosen_sampler(run: Experiment, sampler: str) -> str:
    """The sampler that is taken: of summaries where their law is known."""
    known = run.problem.input_law == "gaussian" and not _needs_tokens(run)
    if sampler == "summaries" and not known:
        raise ValueError(f"sampler must be 'tokens' for such prompts, got {sampler!r}")
    if sampler == "auto":
        return "summaries" if known else "tokens"
    return sampler


def _needs_tokens(run: Experiment) -> bool:
    """Whether the law of summaries is not known: drift, outputs, ordered pairs of other laws."""
    for law, gates in ((run.problem, run.model.gates), (run.tests.problem, run.tests.gates)):
        plain = law.has_linear_labels and law.scale_law is None
        if law.drift or law.outputs > 1 or (is_timed(law, gates) and not plain):
            return True
    return False


def _parameters(run: Experiment) -> dict[str, Any]:
    """Numbers and texts of a run that stand beside its results; arrays by their fingerprints."""
    stated = run.keywords()
    stated.pop("test_prompts", None)
    stated["ridge"] = run.ridge
    stated["tasks"] = run.problem.task_count
    stated["task_law"] = run.problem.task_law
    for name in stated.keys() & {"link", "test_link"}:
        stated[name] = link_text(stated[name])
    for name in stated.keys() & {"scale_law", "test_scale_law"}:
        stated[name] = str(stated[name])
    for name, value in stated.items():
        if np.ndim(value):
            stated[name] = fingerprint(np.asarray(value))
    return stated | run.ratios
