r"""Prompts of a `iclimit.Problem`, token by token: tasks, inputs, noisy labels.

This is the one place where :math:`y = \langle w, x\rangle + \epsilon` is drawn, the reference that
every faster path is tested against.  Of a prompt come, in this order, its noise level (if it has a
law), its task, its inputs, what changes its task (if it drifts), flips of its labels and its noise
(if there are any): part of what a seed means.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_memory, check_shape
from iclimit.problem import NoiseLaw, Problem, check_one_output
from iclimit.scale_laws import ScaleLawLike, parse_scale_law
from iclimit.simulate.arrays import (
    Array,
    Backend,
    Generator,
    Seed,
    concatenate_fields,
    get_backend,
    seed_sequence,
)
from iclimit.simulate.prompts.covariances import covariance_root, kernel_root, times_root
from iclimit.simulate.prompts.links import flipped_labels, linked_labels

# Input numbers drawn from one seed (4 MiB): part of what a seed means.
BLOCK_NUMBERS = 2**19


@dataclass(frozen=True, eq=False)
class Prompts:
    """Prompts as a model sees them, with the labels of their queries and what it does not see.

    Attributes
    ----------
    inputs : array (n, context, dim)
        Inputs of the labelled pairs.
    labels : array (n, context)
        Their noisy labels.
    query : array (n, dim)
        Inputs whose labels are asked for.
    query_label : array (n,), optional
        Their labels, with noise as those of the pairs.
    tasks : array (n, dim), optional
        Task vectors, those of the queries where tasks drift.
    noise_variance : array (n,), optional
        Variances of the label noise.
    clean_label : array (n,), optional
        Labels of the queries without noise and flips, where labels are not linear.
    """

    inputs: Array
    labels: Array
    query: Array
    query_label: Array = None
    tasks: Array = None
    noise_variance: Array = None
    clean_label: Array = None

    @property
    def target(self) -> Array:
        """Labels of the queries without noise, (n,); as they are where no tasks are known."""
        if self.clean_label is not None:
            return self.clean_label
        if self.tasks is None:
            return self.query_label
        return array_namespace(self.query).vecdot(self.query, self.tasks)

    def __len__(self) -> int:
        return self.query.shape[0]

    def __getitem__(self, chosen: slice | Array) -> Prompts:
        """Some of the prompts, which a slice or their numbers choose."""
        columns = vars(self).values()
        return Prompts(*(None if column is None else column[chosen, ...] for column in columns))


def sample_prompts(problem: Problem, count: int, *, rng: Seed) -> Prompts:
    """Draw prompts, each with its own task and noise level.

    Parameters
    ----------
    problem : Problem
        Law of the prompts.
    count : int >= 1
        Number of prompts.
    rng : int, SeedSequence or Generator
        Root seed.  The first prompts of a longer run are those of a shorter one.

    Returns
    -------
    Prompts
        Arrays of NumPy.

    Raises
    ------
    TypeError, ValueError
        If rng is no seed.

    Examples
    --------
    >>> import iclimit
    >>> problem = iclimit.Problem(dim=20, context=40, noise_variance=0.25)
    >>> prompts = iclimit.sample_prompts(problem, 3, rng=0)
    >>> prompts.inputs.shape, prompts.labels.shape, prompts.query.shape
    ((3, 40, 20), (3, 40), (3, 20))
    """
    size = 8 * count * (problem.context + 1) * (problem.dim + 1)
    check_memory("count", count, size, get_backend("numpy").free_memory())
    return concatenate_fields(prompt_blocks(problem, count, rng=rng))


def prompt_blocks(
    problem: Problem,
    count: int,
    *,
    rng: Seed,
    backend: str = "numpy",
    block_numbers: int | None = None,
) -> Iterator[Prompts]:
    """Draw the same prompts in blocks of bounded memory.

    Parameters
    ----------
    problem, count, rng
        As in `sample_prompts`.
    backend : {"numpy", "cupy"}
        Where to compute.
    block_numbers : int, optional
        Input numbers drawn from one seed; `BLOCK_NUMBERS` by default.

    Yields
    ------
    Prompts
        Arrays of the backend.
    """
    device = get_backend(backend)
    root = seed_sequence(rng)
    problem = fix_tasks(problem, root)
    block = block_size(problem, block_numbers)
    for generator, size in device.blocks(root, count, block):
        yield draw_prompts(problem, device, generator, block)[slice(size)]


def block_size(problem: Problem, numbers: int | None = None) -> int:
    """Prompts that are drawn from one seed."""
    numbers = BLOCK_NUMBERS if numbers is None else numbers
    return max(1, numbers // ((problem.context + 1) * problem.dim))


def fix_tasks(problem: Problem, rng: Seed) -> Problem:
    """The problem with its k tasks drawn, where it says no more than their number."""
    if problem.task_set is not None or problem.tasks == math.inf:
        return problem
    root = seed_sequence(rng)
    # A child of the first seed of a run, from which nothing else is drawn.
    seed = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 0, 0))
    host = get_backend("numpy")
    tasks = draw_fresh_tasks(problem, host, host.generator(seed), int(problem.tasks))
    return replace(problem, tasks=tasks)


def draw_prompts(
    problem: Problem,
    backend: Backend,
    generator: Generator,
    count: int = 1,
    *,
    tasks: Array = None,
) -> Prompts:
    """Draw so many prompts with a generator of a backend, or one for each task (n, dim)."""
    xp = backend.xp
    count = count if tasks is None else tasks.shape[0]
    if isinstance(problem.noise_law, NoiseLaw):
        variance = draw_noise_levels(problem.noise_law, backend, generator, count) ** 2
    else:
        variance = xp.full((count,), float(problem.noise_variance))
    if tasks is None:
        tasks = draw_tasks(problem, backend, generator, count)
    x = draw_tokens(problem, backend, generator, count)
    return label_prompts(problem, backend, generator, x, tasks, variance)


def draw_tokens(problem: Problem, backend: Backend, generator: Generator, count: int) -> Array:
    """Draw the inputs of pairs and queries, (count, context + 1, dim)."""
    x = draw_inputs(problem, backend, generator, (count, problem.context + 1))
    if np.ndim(problem.correlation):
        root = kernel_root(problem.kernel)
        tokens = slice(len(root))
        x[:, tokens, :] = backend.asarray(root) @ x[:, tokens, :]
    elif problem.is_correlated:
        fresh = math.sqrt(1 - problem.correlation**2)
        for token in range(1, problem.context + problem.correlated_query):
            x[:, token, :] = problem.correlation * x[:, token - 1, :] + fresh * x[:, token, :]
    return x


def label_prompts(
    problem: Problem,
    backend: Backend,
    generator: Generator,
    x: Array,
    tasks: Array,
    variance: Array,
) -> Prompts:
    """Prompts of inputs (n, context + 1, dim), tasks (n, dim) and noise of variances (n,).

    Raises
    ------
    ValueError
        If tokens have several labels.
    """
    check_one_output(problem)
    y, clean = draw_labels(problem, backend, generator, x, tasks, variance)
    return Prompts(x[:, :-1, :], y[:, :-1], x[:, -1, :], y[:, -1], tasks, variance, clean)


def draw_labels(
    problem: Problem,
    backend: Backend,
    generator: Generator,
    x: Array,
    tasks: Array,
    variance: Array,
) -> tuple[Array, Array | None]:
    """Labels (m, context + 1) of tasks (m, dim) and noise of variances (m,).

    The same number of tasks, one after the other, has each of the inputs (n, context + 1, dim).
    Labels of queries without noise and flips, (m,), follow; None where labels are linear.
    """
    xp = backend.xp
    shape = x.shape[0], tasks.shape[0] // x.shape[0]
    if problem.drift:
        paths = _drifting_tasks(problem, backend, generator, tasks)
        y = xp.sum(x[:, None, :, :] * xp.reshape(paths, (*shape, *x.shape[1:])), axis=3)
        y = xp.reshape(y, (tasks.shape[0], x.shape[1]))
    elif shape[1] == 1:
        y = linear_labels(x, tasks)
    else:
        own = xp.reshape(tasks, (*shape, x.shape[2]))
        y = xp.reshape(own @ x.mT, (tasks.shape[0], x.shape[1]))
    clean = None
    if not problem.has_linear_labels:
        y = linked_labels(problem, y)
        clean = y[:, -1]
        y = flipped_labels(problem, generator, y)
    if problem.noise_law is not None or problem.noise_variance:
        deviation = xp.sqrt(variance)
        y = y + deviation[:, None] * generator.standard_normal(y.shape)
    return y, clean


def _drifting_tasks(
    problem: Problem, backend: Backend, generator: Generator, tasks: Array
) -> Array:
    """Tasks (n, context + 1, dim) of all pairs and of the query, from those of the query."""
    kept = math.exp(-problem.drift / problem.dim)
    fresh = math.sqrt(-math.expm1(-2 * problem.drift / problem.dim))
    law = replace(problem, task_law="gaussian")
    path = [tasks]
    for _ in range(problem.context):
        change = draw_fresh_tasks(law, backend, generator, tasks.shape[0])
        path.append(kept * path[-1] + fresh * change)
    return backend.xp.stack(path[::-1], axis=1)


def linear_labels(x: Array, tasks: Array) -> Array:
    """Labels without noise, (n, l), of inputs (n, l, dim) for tasks (n, dim)."""
    return (x @ tasks[:, :, None])[:, :, 0]


def draw_noise_levels(law: NoiseLaw, backend: Backend, generator: Generator, count: int) -> Array:
    """Draw noise levels, shape (count,)."""
    if law.kind == "uniform":
        return law.levels[0] * generator.random(count)
    index = backend.xp.astype(generator.random(count) * len(law.levels), backend.xp.int64)
    return backend.asarray(law.levels)[index]


def draw_tasks(problem: Problem, backend: Backend, generator: Generator, count: int) -> Array:
    """Draw the tasks of prompts, shape (count, dim); the last of a mixture are the shared task."""
    if problem.task_set is not None:
        chosen = generator.integers(0, len(problem.task_set), size=count)
        return backend.xp.take(backend.asarray(problem.task_set), chosen, axis=0)
    if problem.tasks != math.inf:
        raise ValueError(f"tasks must be drawn before prompts are, got {problem.tasks} of them")
    tasks = draw_fresh_tasks(problem, backend, generator, count)
    if problem.shared_task is not None:
        tasks[round(count * problem.fresh_fraction) :, :] = backend.asarray(problem.shared_task)
    return tasks


def draw_fresh_tasks(
    problem: Problem, backend: Backend, generator: Generator, count: int
) -> Array:
    """Draw task vectors of their law, shape (count, dim)."""
    xp = backend.xp
    dim = problem.dim
    tasks = generator.standard_normal((count, dim))
    if problem.task_law == "sphere":
        tasks = tasks * math.sqrt(dim) / xp.sqrt(xp.sum(tasks**2, axis=-1, keepdims=True))
    return math.sqrt(problem.task_variance) * times_root(tasks, task_root(problem, backend))


def draw_task_set(problem: Problem, backend: Backend, generator: Generator) -> Array:
    """Tasks of a pretraining: those given, as many as there are, or None where all are fresh."""
    if problem.task_set is not None:
        return backend.asarray(problem.task_set)
    if problem.tasks == math.inf:
        return None
    return draw_fresh_tasks(problem, backend, generator, int(problem.tasks))


def draw_inputs(
    problem: Problem, backend: Backend, generator: Generator, shape: tuple[int, ...]
) -> Array:
    """Draw inputs, shape (*shape, dim)."""
    x = draw_coordinates(backend, generator, (*shape, problem.dim), problem.input_law)
    if problem.input_scale != 1:
        x *= problem.input_scale
    if problem.scale_law is not None:
        scales = draw_scales(problem.scale_law, backend, generator, shape)
        x *= backend.xp.sqrt(scales)[..., None]
    return times_root(x, input_root(problem, backend))


def draw_scales(
    scale_law: ScaleLawLike, backend: Backend, generator: Generator, shape: tuple[int, ...]
) -> Array:
    """Draw scales u of tokens, of mean 1."""
    law = parse_scale_law(scale_law)
    if not law.points:
        return (law.degrees / 2 - 1) / generator.standard_gamma(law.degrees / 2, shape)
    chances = backend.asarray(np.cumsum(law.probabilities)[:-1])
    chosen = backend.xp.searchsorted(chances, generator.random(math.prod(shape)))
    return backend.xp.reshape(backend.asarray(law.points)[chosen], shape)


def draw_coordinates(
    backend: Backend, generator: Generator, shape: tuple[int, ...], law: str
) -> Array:
    """Draw independent coordinates of one of the laws of inputs."""
    xp = backend.xp
    if law == "gaussian":
        return generator.standard_normal(shape)
    if law == "uniform":
        numbers = generator.random(shape)
        numbers *= 2
        numbers -= 1
        return numbers
    if law == "rademacher":
        return 2.0 * xp.astype(generator.integers(0, 2, size=shape), xp.float64) - 1.0
    signs = draw_coordinates(backend, generator, shape, "rademacher")
    return signs * generator.standard_exponential(shape)


def input_root(problem: Problem, backend: Backend) -> Array | None:
    """Matrix that rows of independent coordinates are multiplied by; None for the identity."""
    if problem.mixing is not None:
        return backend.asarray(problem.mixing).T
    given = problem.input_covariance
    return None if given is None else backend.asarray(covariance_root(given))


def task_root(problem: Problem, backend: Backend) -> Array | None:
    """Symmetric root of the covariance of the tasks over their variance."""
    given = problem.task_covariance
    return None if given is None else backend.asarray(covariance_root(given))


def regression_tokens(prompts: Prompts, initial: Array | None = None) -> Array:
    """Token rows (n, context + 1, dim + 1): the query's label is minus that of initial weights.

    Without initial weights (dim,) it is 0.
    """
    xp = array_namespace(prompts.inputs)
    n, context, dim = prompts.inputs.shape
    if initial is not None:
        check_shape("initial", initial, (dim,))
    tokens = xp.empty((n, context + 1, dim + 1), dtype=prompts.inputs.dtype)
    tokens[:, :-1, :-1] = prompts.inputs
    tokens[:, :-1, -1] = prompts.labels
    tokens[:, -1, :-1] = prompts.query
    tokens[:, -1, -1] = 0.0 if initial is None else -(prompts.query @ initial)
    return tokens


def context_summary(prompts: Prompts, gates: Array | None = None) -> Array:
    """Context summaries h of prompts in the units of this library, shape (n, d + 1).

    With gates (context,) each pair counts so much.
    """
    return several_summaries(prompts.inputs, prompts.labels[:, None, :], gates)[:, 0, :]


def several_summaries(inputs: Array, labels: Array, gates: Array | None = None) -> Array:
    """Summaries (n, outputs, d + 1) of inputs (n, l, d) with labels (n, outputs, l)."""
    xp = array_namespace(inputs)
    length, d = inputs.shape[1:]
    weighed = labels if gates is None else gates * labels
    first = d / length * (weighed @ inputs)
    return xp.concat([first, xp.mean(weighed * labels, axis=2)[:, :, None]], axis=2)
