r"""Rows that a run learns from: one for each prompt, output, or position of each sequence.

The loss :math:`\frac1n\sum_\mu\sum_l u_l\,(y_{l+1} - x_{l+1}^\top\Gamma h_l)^2` of n sequences
is the mean squared error on all rows (query, context summary, label) if the query and the label of
a row at position l are multiplied by :math:`\sqrt{m u_l}`, m being the number of positions.  So
what learns from prompts learns from sequences.
"""

import math

import numpy as np

from iclimit.experiment import SGD, Experiment
from iclimit.losses import AllPositions, LastPosition, RandomLength
from iclimit.problem import check_problem
from iclimit.simulate.arrays import Array, Backend, Generator
from iclimit.simulate.prompts.sampling import (
    Prompts,
    draw_labels,
    draw_prompts,
    draw_tokens,
    several_summaries,
)
from iclimit.simulate.prompts.summaries import TOKEN_BLOCK, Drawn, SummaryLaw
from iclimit.statement import canonical

# Fields of a problem that runs with several positions may set; all other ones have their defaults.
KNOWN = ("tasks", "noise_variance", "input_law", "input_covariance", "task_law", "task_covariance")


def check_positions(run: Experiment) -> None:
    """Check that a run with a loss of several positions is simulated here.

    Raises
    ------
    ValueError
        If it has parts that are not known here.
    """
    name = type(run.loss).__name__
    check_problem(run.problem, *KNOWN)
    check_problem(run.tests.problem, *KNOWN)
    for gates in (run.model.gates, run.tests.gates):
        if gates is not None:
            raise ValueError(f"gates must be None for {name}, got {canonical(gates)}")
    if isinstance(run.training, SGD):
        raise ValueError(f"training must not be SGD for {name}, got {run.training!r}")
    if run.balanced and not isinstance(run.loss, AllPositions):
        raise ValueError(f"balanced must be False for {name}: every prompt draws its task")
    tasks = run.problem.task_count
    if run.balanced and tasks < math.inf and run.prompts % tasks:
        raise ValueError(
            f"prompts must be a multiple of the {tasks} tasks where they are balanced, got "
            f"{run.prompts}"
        )


def row_count(run: Experiment) -> int:
    """Number of rows that a run learns from."""
    if isinstance(run.loss, AllPositions):
        return run.prompts * len(_counted(run)[0])
    return run.prompts * run.problem.outputs


def draw_rows(
    run: Experiment, law: SummaryLaw, generator: Generator, task_set: Array | None
) -> Drawn:
    """Draw the rows (query, context summary, label) that a run learns from.

    Parameters
    ----------
    run : Experiment
    law : SummaryLaw
        Of its training prompts, of one output.
    generator : Generator
        Of the backend of the law.
    task_set : array (k, d), optional
        Tasks to choose from; None for a fresh task in every prompt and output.
    """
    if run.problem.outputs > 1:
        return _of_outputs(run, law, generator, task_set)
    if isinstance(run.loss, LastPosition):
        return law.draw(generator, run.prompts, task_set)
    if isinstance(run.loss, RandomLength):
        return _of_random_lengths(run, law, generator, task_set)
    return _of_all_positions(run, law, generator, task_set)


def length_factor(run: Experiment, length: int) -> float:
    """Factor of the summary of a context of this length: that of its mean over the pairs is 1."""
    return length / run.problem.context if run.model.normalization == "length" else 1.0


def _counted(run: Experiment) -> tuple[np.ndarray, np.ndarray]:
    """Positions with a share of the loss, and these shares."""
    context = run.problem.context
    shares = run.loss.shares(context)
    return run.loss.positions(context)[shares > 0], shares[shares > 0]


def _of_random_lengths(
    run: Experiment, law: SummaryLaw, generator: Generator, task_set: Array | None
) -> Drawn:
    """Prompts that draw the lengths of their contexts, ordered by length."""
    xp = law.backend.xp
    lengths, shares = _counted(run)
    drawn = generator.random(run.prompts)
    # Rounding must leave no prompt beyond the last length.
    ends = np.append(np.cumsum(shares)[:-1], math.inf)
    parts = []
    below = 0
    for length, end in zip(lengths.tolist(), ends.tolist(), strict=True):
        until = int(xp.sum(xp.astype(drawn < end, xp.int64)))
        if until > below:
            own = law.of_context(length)
            x, h, y = own.draw(generator, until - below, task_set)
            parts.append((x, length_factor(run, length) * h, y))
        below = until
    return (
        xp.concat([x for x, _, _ in parts]),
        xp.concat([h for _, h, _ in parts]),
        xp.concat([y for _, _, y in parts]),
    )


def _of_outputs(
    run: Experiment, law: SummaryLaw, generator: Generator, task_set: Array | None
) -> Drawn:
    """Rows of the outputs of prompts, which share inputs, each with its own task and noise."""
    xp = law.backend.xp
    outputs = run.problem.outputs
    block = max(1, TOKEN_BLOCK // ((run.problem.context + 1) * run.dim * outputs))
    parts = []
    for start in range(0, run.prompts, block):
        size = min(block, run.prompts - start)
        count = size * outputs
        if task_set is None:
            tasks = law.fresh_tasks(generator, count)
        else:
            chosen = generator.integers(0, task_set.shape[0], size=count)
            tasks = xp.take(task_set, chosen, axis=0)
        x = draw_tokens(law.problem, law.backend, generator, size)
        variance = xp.full((count,), float(run.problem.noise_variance))
        y, _ = draw_labels(law.problem, law.backend, generator, x, tasks, variance)
        labels = xp.reshape(y[:, :-1], (size, outputs, y.shape[1] - 1))
        summaries = several_summaries(x[:, :-1, :], labels, law.gates)
        queries = xp.repeat(x[:, -1, :], outputs, axis=0)
        parts.append((queries, xp.reshape(summaries, (count, run.dim + 1)), y[:, -1]))
    return (
        xp.concat([x for x, _, _ in parts]),
        xp.concat([h for _, h, _ in parts]),
        xp.concat([y for _, _, y in parts]),
    )


def _of_all_positions(
    run: Experiment, law: SummaryLaw, generator: Generator, task_set: Array | None
) -> Drawn:
    """Rows of all positions of sequences, which share contexts and tasks."""
    xp = law.backend.xp
    chosen = None
    if task_set is not None:
        count = task_set.shape[0]
        chosen = xp.arange(run.prompts) % count
        if not run.balanced:
            chosen = generator.integers(0, count, size=run.prompts)
    block = max(1, TOKEN_BLOCK // ((run.problem.context + 1) * run.dim))
    parts = []
    for start in range(0, run.prompts, block):
        stop = min(start + block, run.prompts)
        if chosen is None:
            tasks = law.fresh_tasks(generator, stop - start)
        else:
            tasks = xp.take(task_set, chosen[start:stop], axis=0)
        prompts = draw_prompts(run.problem, law.backend, generator, tasks=tasks)
        parts.append(_rows(run, law.backend, prompts))
    return (
        xp.concat([x for x, _, _ in parts]),
        xp.concat([h for _, h, _ in parts]),
        xp.concat([y for _, _, y in parts]),
    )


def _rows(run: Experiment, backend: Backend, prompts: Prompts) -> Drawn:
    """Rows of the positions of some sequences, scaled by the roots of their shares."""
    xp = backend.xp
    dim = run.dim
    positions, shares = _counted(run)
    queried = backend.asarray(positions)
    divisors = positions if run.model.normalization == "mean" else run.problem.context
    scale = backend.asarray(1.0 / np.broadcast_to(divisors, positions.shape))[:, None]
    root = backend.asarray(np.sqrt(len(shares) * shares))[:, None]
    tokens = xp.concat([prompts.inputs, prompts.query[:, None, :]], axis=1)
    labels = xp.concat([prompts.labels, prompts.query_label[:, None]], axis=1)[:, :, None]
    pairs = xp.concat([dim * labels * tokens, labels**2], axis=2)[:, :-1, :]
    sums = xp.take(xp.cumulative_sum(pairs, axis=1), queried - 1, axis=1)
    queries = root * xp.take(tokens, queried, axis=1)
    answers = root * xp.take(labels, queried, axis=1)
    return (
        xp.reshape(queries, (-1, dim)),
        xp.reshape(scale * sums, (-1, dim + 1)),
        xp.reshape(answers, (-1,)),
    )
