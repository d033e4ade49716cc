"""Pretraining by plain dense code, for experiments that have no theory here.

Inputs on a sphere, a Gamma without the column of squared labels, labels that every prompt
normalises: whoever makes such an experiment compares it with a theory of another one.  These
functions run it, with dense features and no structure, so they are for small dimensions.

Several experiments are made with the same draws: their ratios scatter less than their errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtr

from iclimit.checks import check_choice, check_integers
from iclimit.experiment import Experiment, check_loss
from iclimit.problem import Problem
from iclimit.simulate.arrays import Seed
from iclimit.simulate.prompts.links import linked_labels

# Laws of inputs whose coordinates have the variance 1/d and no correlation.
INPUT_LAWS = ("gaussian", "sphere", "rademacher", "uniform")

# How labels of a prompt may be divided by their standard deviation in the context: not at all; or
# with errors in these units, or in those of the labels.
NORMALISATIONS = ("none", "units", "labels")

# Largest dimension: the normal equations of a run then have 1056 unknowns.
MOST_DIM = 32

# Test contexts of a run, for fresh tasks and for those of training.
TEST_CONTEXTS = 128

# Test queries of a context where labels are not linear; otherwise queries are averaged over.
TEST_QUERIES = 32


@dataclass(frozen=True)
class Variant:
    r"""Difference of an experiment from that of the theory.

    Attributes
    ----------
    input_law : {"gaussian", "sphere", "rademacher", "uniform"}
        Law of the inputs; "sphere": :math:`\|x\| = 1`.
    query_noise : bool
        Whether the label of the query has noise in training.
    squared_labels : bool
        Whether Gamma has the column of squared labels.
    bias : bool
        Whether Gamma has a column for a constant 1.
    normalised : {"none", "units", "labels"}
        Whether labels of a prompt are divided by their standard deviation in the context, and
        errors measured so ("units") or multiplied back ("labels").
    by_root_mean_square : bool
        Whether they are divided by their root mean square instead.
    ridge_factors : tuple of two floats
        Factors of the ridge for the first d columns of Gamma and for the others.
    test_length, test_noise : float
        Factors of the length and of the noise variance of test contexts; the noise also of the
        test labels.
    """

    input_law: str = "gaussian"
    query_noise: bool = True
    squared_labels: bool = True
    bias: bool = False
    normalised: str = "none"
    by_root_mean_square: bool = False
    ridge_factors: tuple[float, float] = (1.0, 1.0)
    test_length: float = 1.0
    test_noise: float = 1.0

    def __post_init__(self) -> None:
        check_choice("input_law", self.input_law, INPUT_LAWS)
        check_choice("normalised", self.normalised, NORMALISATIONS)


def variant_errors(
    cases: Sequence[tuple[Experiment, Variant]], *, rng: Seed, repeats: int
) -> np.ndarray:
    """ICL and IDG errors of experiments that are made with the same draws.

    Parameters
    ----------
    cases : sequence of (Experiment, Variant)
        Runs with isotropic data, and how each differs from what it says.
    rng : int, SeedSequence or Generator
        Root of the random numbers.
    repeats : int >= 1
        Number of runs of each.

    Returns
    -------
    ndarray (cases, repeats, 2)
        In units of the labels without noise.

    Raises
    ------
    ValueError
        If a dimension is above 32.
    """
    check_integers(repeats=repeats)
    for run, _ in cases:
        check_loss(run)
        if run.dim > MOST_DIM:
            raise ValueError(f"dim must be <= {MOST_DIM} for dense code, got {run.dim}")
    seeds = np.random.default_rng(rng).integers(2**62, size=repeats).tolist()
    errors = np.empty((len(cases), repeats, 2))
    for repeat, seed in enumerate(seeds):
        draws = _Draws(seed)
        for number, (run, variant) in enumerate(cases):
            errors[number, repeat] = _one_run(run, variant, draws)
    return errors


class _Draws:
    """Normal numbers of one run by their purpose and shape, the same for each of its variants."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._drawn: dict[tuple[str, tuple[int, ...]], np.ndarray] = {}

    def normal(self, purpose: str, *shape: int) -> np.ndarray:
        """Normal numbers; they must not be changed."""
        key = purpose, shape
        if key not in self._drawn:
            self._drawn[key] = self.generator(purpose).normal(size=shape)
        return self._drawn[key]

    def generator(self, purpose: str) -> np.random.Generator:
        """Fresh generator of a purpose."""
        number = PURPOSES.index(purpose)
        return np.random.default_rng(np.random.SeedSequence([self._seed, number]))


# Purposes of draws; each has a seed of its own.
PURPOSES = (
    *("tasks", "choice", "queries", "query noise", "training inputs", "training noise"),
    *("fresh tasks", "icl inputs", "icl noise", "idg inputs", "idg noise"),
    *("query flips", "training flips", "icl flips", "idg flips"),
    *("icl queries", "icl query flips", "idg queries", "idg query flips"),
)


@dataclass(frozen=True)
class _Prompts:
    """Contexts of tasks: summaries (m, D), and what their labels were divided by (m,)."""

    summaries: np.ndarray
    units: np.ndarray


def _one_run(run: Experiment, variant: Variant, draws: _Draws) -> tuple[float, float]:
    """ICL and IDG error of one run."""
    problem = run.problem
    dim = run.dim
    fresh = problem.tasks == math.inf
    known = _tasks(draws, "tasks", run, run.prompts if fresh else int(problem.tasks))
    drawn = known
    if not fresh:
        places = np.arange(run.prompts) % len(known)
        if not run.balanced:
            places = draws.generator("choice").integers(len(known), size=run.prompts)
        drawn = known[places]
    prompts = _prompts(draws, "training", drawn, problem, variant)
    queries = _inputs(draws.normal("queries", run.prompts, dim), variant.input_law)
    labels = _labels(draws, "query", np.sum(drawn * queries, axis=1), problem)
    if variant.query_noise:
        labels += math.sqrt(problem.noise_variance) * draws.normal("query noise", run.prompts)
    gamma = _trained(queries, prompts.summaries, labels / prompts.units, run.ridge, variant)
    unseen = _tasks(draws, "fresh tasks", run, TEST_CONTEXTS)
    icl = _tested(draws, "icl", unseen, run, gamma, variant)
    if fresh:
        return icl, icl
    # All tasks equally often: their choice is no source of scatter.
    tested = known[np.arange(max(TEST_CONTEXTS, len(known))) % len(known)]
    return icl, _tested(draws, "idg", tested, run, gamma, variant)


def _tasks(draws: _Draws, purpose: str, run: Experiment, count: int) -> np.ndarray:
    """Tasks (count, d) of the law of the run."""
    tasks = draws.normal(purpose, count, run.dim)
    if run.problem.task_law == "sphere":
        return tasks * math.sqrt(run.dim) / np.linalg.norm(tasks, axis=1, keepdims=True)
    return tasks


def _inputs(normal: np.ndarray, law: str) -> np.ndarray:
    """Inputs (..., d) of a law from normal numbers."""
    dim = normal.shape[-1]
    if law == "sphere":
        return normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    if law == "rademacher":
        return np.sign(normal) / math.sqrt(dim)
    if law == "uniform":
        return (2 * ndtr(normal) - 1) * math.sqrt(3 / dim)
    return normal / math.sqrt(dim)


def _labels(draws: _Draws, purpose: str, linear: np.ndarray, problem: Problem) -> np.ndarray:
    """Labels without noise, from linear ones."""
    labels = linked_labels(problem, linear)
    if not problem.flips:
        return labels
    chances = ndtr(draws.normal(f"{purpose} flips", *labels.shape))
    return np.where(chances < problem.flips, -labels, labels)


def _prompts(
    draws: _Draws, purpose: str, tasks: np.ndarray, problem: Problem, variant: Variant
) -> _Prompts:
    """One context of each task."""
    context = problem.context
    count, dim = tasks.shape
    normal = draws.normal(f"{purpose} inputs", count, context, dim)
    inputs = _inputs(normal, variant.input_law)
    labels = _labels(draws, purpose, (inputs @ tasks[:, :, None])[:, :, 0], problem)
    labels += math.sqrt(problem.noise_variance) * draws.normal(f"{purpose} noise", count, context)
    units = np.ones(count)
    if variant.normalised != "none":
        units = np.sqrt(np.mean(labels**2, axis=1))
        # A single label has no standard deviation.
        if context > 1 and not variant.by_root_mean_square:
            units = np.std(labels, axis=1)
        # Equal labels, such as those of one class, stay as they are.
        units[units == 0] = 1.0
        labels /= units[:, None]
    columns = [dim / context * (labels[:, None, :] @ inputs)[:, 0]]
    if variant.squared_labels:
        columns.append(np.mean(labels**2, axis=1)[:, None])
    if variant.bias:
        columns.append(np.ones((count, 1)))
    return _Prompts(np.concatenate(columns, axis=1), units)


def _trained(
    queries: np.ndarray, summaries: np.ndarray, labels: np.ndarray, ridge: float, variant: Variant
) -> np.ndarray:
    """Gamma (d, D) of the least mean squared error plus ridge/d times its squared norm."""
    count, dim = queries.shape
    first, others = variant.ridge_factors
    width = summaries.shape[1]
    factors = np.where(np.arange(width) < dim, first, others)
    # The columns are scaled so that the ridge is the same for all of them.
    scaled = summaries / np.sqrt(factors)
    features = (queries[:, :, None] * scaled[:, None, :]).reshape(count, -1)
    penalty = ridge * count / dim
    if not ridge:
        weights = np.linalg.lstsq(features, labels)[0]
    elif count < features.shape[1]:
        kernel = features @ features.T + penalty * np.eye(count)
        weights = features.T @ np.linalg.solve(kernel, labels)
    else:
        normal = features.T @ features + penalty * np.eye(features.shape[1])
        weights = np.linalg.solve(normal, features.T @ labels)
    return np.asarray(weights.reshape(dim, width) / np.sqrt(factors))


def _tested(
    draws: _Draws,
    purpose: str,
    tasks: np.ndarray,
    run: Experiment,
    gamma: np.ndarray,
    variant: Variant,
) -> float:
    """Mean squared error on one context of each task, averaged over the query and its noise."""
    rho = variant.test_noise * run.problem.noise_variance
    context = max(1, round(variant.test_length * run.problem.context))
    problem = replace(run.problem, context=context, noise_variance=rho)
    prompts = _prompts(draws, purpose, tasks, problem, variant)
    answers = prompts.units[:, None] * (prompts.summaries @ gamma.T)
    if problem.has_linear_labels:
        errors = np.sum((tasks - answers) ** 2, axis=1) / run.dim + rho
    else:
        normal = draws.normal(f"{purpose} queries", len(tasks), TEST_QUERIES, run.dim)
        queries = _inputs(normal, variant.input_law)
        linear = (queries @ tasks[:, :, None])[:, :, 0]
        labels = _labels(draws, f"{purpose} query", linear, problem)
        errors = np.mean((labels - (queries @ answers[:, :, None])[:, :, 0]) ** 2, axis=1) + rho
    if variant.normalised == "units":
        errors /= prompts.units**2
    return float(np.mean(errors))
