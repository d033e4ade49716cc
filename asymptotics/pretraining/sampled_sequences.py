r"""Errors of a run that is trained on every position, from the sequences of drawn tasks.

The equations of `iclimit.asymptotics.pretraining.finite_all_positions` know the kernel
:math:`W = XX^\top \circ HH^\top/d` of the m sequences of a task by its mean.  Here it is drawn:
tokens, labels and summaries of so many tasks, with all that fluctuates in them.  The task is left
out of the training set, so that :math:`\Gamma = cI + Z` does not know it, and the other sequences
are the response g of the features and :math:`g_t = \gamma g` of the last column.  With
:math:`R = (1/u + \theta W_\gamma)^{-1}`, :math:`W_\gamma = W + \gamma W_t`,
:math:`W_t = XX^\top \circ \eta\eta^\top/d` and :math:`\theta = d^2 g/n`, sums over all tasks give

.. math:: d^2 (1 - \lambda g) = \sum \operatorname{tr} \theta W R, \qquad
   d(1 - \lambda g_t) = \sum \operatorname{tr} \theta \gamma W_t R, \qquad
   c = \frac{\sum f^\top R y}{n\lambda + \sum f^\top R f},

.. math:: z = \frac{\theta^2}{d^2} \sum \bigl\langle \rho^\top W \rho \bigr\rangle, \qquad
   z_t = \frac{\theta^2 \gamma^2}{d} \sum \bigl\langle \rho^\top W_t \rho \bigr\rangle, \qquad
   \bigl\langle \rho\rho^\top \bigr\rangle = R \bigl[ ss^\top + z W + z_t W_t \bigr] R,

with :math:`f_l = x_l^\top h_l` and :math:`s = y - c f`; z and :math:`z_t` are d times the
variances of entries of :math:`\Gamma`, without and in its last column.  In a new sequence of the
task the residuals :math:`\rho` add
:math:`\theta \sum \rho_j x^\top x_j (h^\top h_j + \gamma \eta\eta_j)/d` to the answer.

The numbers of a drawn task scatter.  Means over positions of :math:`y^2`, :math:`fy`, :math:`f^2`
and :math:`|x|^2|h|^2/d` are known, so tasks are weighted to have these means, where enough of them
are drawn: errors then scatter by a few tenths of a per cent, and by 1 to 2 % otherwise.

Loops between the sequences of different tasks are left out.  They matter where there is hardly a
ridge and about as many queries as parameters: errors are then a few per cent too high.

.. page: pretraining/all-positions: Training on every position of a sequence
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.special import gammaln

from iclimit.experiment import Experiment

# Rows of the sequences of a task beyond which drawing them takes too long.
MOST_ROWS = 320

# Tasks are drawn until the sum of the cubes of their rows is this: about a second.
COST = 2e8

# Least number of drawn tasks.
LEAST_TASKS = 12

# Most of them: Python's own time for a task.
MOST_TASKS = 300

# Number of drawn tasks from which known means weigh them: with 50 to 60 tasks of many sequences
# single weighted predictions were up to 5 % off.
WEIGHTED_TASKS = 100

# Bounds on the relative error of the theory times d, for the ICL and the IDG error, from a ridge
# of .15 on.  They were set on 92 random settings of d = 8 to 24.
LOSS = (0.2, 0.25)

# The same below that ridge.
SMALL_RIDGE_LOSS = (0.4, 0.5)

# Ridge that separates them: at .1 and d = 12 an ICL error was 5 % too high.
SMALL_RIDGE = 0.15

# Two standard deviations of errors from few drawn tasks, times the root of their number: 1 to 2 %
# was one for 16 of them, and 1 % for 56.
SCATTER = 0.14

# Newton steps to the response; from that of the equations there are some four.
MOST_STEPS = 30

# Relative change of responses that ends them, small against the scatter of drawn tasks.
SETTLED = 1e-5

# Largest step of a logarithm.
LARGEST_STEP = 1.0


@dataclass(frozen=True, eq=False)
class Block:
    """Drawn tasks with the same number of sequences; arrays have an axis of tasks, then of rows.

    Attributes
    ----------
    weights : ndarray (tasks,)
        Numbers of tasks that each stands for.
    known : ndarray (tasks, 5)
        Number of sequences, and sums over them of numbers whose mean is 0.
    precision : ndarray (rows,)
        1/u.
    summaries, lasts, own, mixed : ndarray (tasks, rows, rows)
        x'x_j times the products of summaries over d, of last entries over d, of w'h over d^2, and
        of w'h with last entries over d^2.
    labels, features, linear, linear_last : ndarray (tasks, rows)
        y, x'h, x'w times w'h, and x'w times the last entry.
    """

    weights: np.ndarray
    known: np.ndarray
    precision: np.ndarray
    summaries: np.ndarray
    lasts: np.ndarray
    own: np.ndarray
    mixed: np.ndarray
    labels: np.ndarray
    features: np.ndarray
    linear: np.ndarray
    linear_last: np.ndarray

    def dot(self, first: np.ndarray, second: np.ndarray) -> float:
        """Sum of the products of numbers of rows, over all tasks."""
        return float(self.weights @ np.sum(first * second, axis=1))

    def trace(self, first: np.ndarray, second: np.ndarray) -> float:
        """Sum of the traces of products of matrices, over all tasks."""
        return float(self.weights @ np.einsum("bij,bji->b", first, second))

    def square(self, rows: np.ndarray, matrix: np.ndarray) -> float:
        """Sum of the squares of numbers of rows in the metric of a matrix, over all tasks."""
        return self.dot(rows, _applied(matrix, rows))

    def inverse(self, theta: float, gamma: float) -> np.ndarray:
        """R at a response."""
        matrices = theta * (self.summaries + gamma * self.lasts)
        rows = np.arange(self.precision.size)
        matrices[:, rows, rows] += self.precision
        return np.linalg.inv(matrices)


def _applied(matrices: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Products of the matrix and the numbers of rows of each task."""
    return (matrices @ rows[:, :, None])[:, :, 0]


def drawn_task_count(run: Experiment) -> int:
    """Number of tasks that are drawn for a run; 0 where that takes too long."""
    positions = int(np.sum(run.loss.shares(run.problem.context) > 0))
    rows = positions * max(1.0, run.prompts / run.problem.task_count)
    if rows > MOST_ROWS:
        return 0
    return int(min(max(COST / rows**3, LEAST_TASKS), MOST_TASKS))


def sequence_counts(run: Experiment, drawn: int) -> dict[int, int]:
    """Numbers of sequences of a task, each with the number of drawn tasks that have it."""
    tasks = run.problem.task_count
    quantiles = (np.arange(drawn) + 0.5) / drawn
    if math.isinf(tasks):
        numbers: np.ndarray = np.ones(drawn)
    elif run.balanced or tasks == 1:
        numbers = np.floor(run.prompts / tasks + quantiles)
    else:
        own = np.arange(run.prompts + 1)
        others = run.prompts - own
        orders = gammaln(run.prompts + 1) - gammaln(own + 1) - gammaln(others + 1)
        chances = np.exp(orders - own * math.log(tasks) + others * math.log1p(-1 / tasks))
        numbers = np.searchsorted(np.cumsum(chances), quantiles)
    counts, frequencies = np.unique(numbers, return_counts=True)
    pairs = zip(counts.tolist(), frequencies.tolist(), strict=True)
    return {int(count): frequency for count, frequency in pairs if count}


def draw_blocks(run: Experiment, rng: np.random.Generator, drawn: int) -> list[Block]:
    """Sequences of so many drawn tasks, weighted to be all sequences with the known means."""
    counts = sequence_counts(run, drawn)
    blocks = [_drawn_block(run, rng, count, size) for count, size in counts.items()]
    known = np.concatenate([block.known for block in blocks])
    totals = np.sum(known, axis=0)
    shift = np.zeros(len(totals))
    if len(known) >= WEIGHTED_TASKS:
        wanted = np.zeros(len(totals))
        wanted[0] = totals[0]
        shift = np.linalg.solve(known.T @ known, wanted - totals)
    scale = run.prompts / totals[0]
    return [replace(block, weights=scale * (1 + block.known @ shift)) for block in blocks]


def _drawn_block(run: Experiment, rng: np.random.Generator, count: int, size: int) -> Block:
    """So many tasks with so many sequences each."""
    dim = run.dim
    context = run.problem.context
    shares = run.loss.shares(context)
    seen = run.loss.positions(context)[shares > 0]
    divisors = seen if run.model.normalization == "mean" else np.full(seen.size, context)
    tasks = rng.standard_normal((size, dim))
    tasks *= math.sqrt(dim) / np.linalg.norm(tasks, axis=1, keepdims=True)
    tokens = rng.standard_normal((size, count, context + 1, dim)) / math.sqrt(dim)
    linear = np.einsum("bmld,bd->bml", tokens, tasks)
    noise = math.sqrt(float(run.problem.noise_variance)) * rng.standard_normal(linear.shape)
    labels = linear + noise
    sums = np.cumsum(labels[..., None] * tokens, axis=2)[:, :, seen - 1]
    squares = np.cumsum(labels**2, axis=2)[:, :, seen - 1]
    x = tokens[:, :, seen].reshape(size, -1, dim)
    h = (dim * sums / divisors[:, None]).reshape(size, -1, dim)
    last = (squares / divisors).reshape(size, -1)
    y = labels[:, :, seen].reshape(size, -1)
    signal = linear[:, :, seen].reshape(size, -1)
    features = np.sum(x * h, axis=2)
    along = np.einsum("bjd,bd->bj", h, tasks)
    alike = x @ np.swapaxes(x, 1, 2)
    return Block(
        weights=np.ones(size),
        known=_known(run, x, h, y, count),
        precision=np.tile(1 / shares[shares > 0], count),
        summaries=alike * (h @ np.swapaxes(h, 1, 2)) / dim,
        lasts=alike * last[:, :, None] * last[:, None, :] / dim,
        own=alike * along[:, :, None] * along[:, None, :] / dim**2,
        mixed=alike * along[:, :, None] * last[:, None, :] / dim**2,
        labels=y,
        features=features,
        linear=signal * along,
        linear_last=signal * last,
    )


def _known(run: Experiment, x: np.ndarray, h: np.ndarray, y: np.ndarray, count: int) -> np.ndarray:
    """Number of sequences of each task, and sums over them of what has the mean 0, (tasks, 5)."""
    context = run.problem.context
    shares = run.loss.shares(context)
    seen = np.tile(run.loss.positions(context)[shares > 0], count)
    share = np.tile(shares[shares > 0], count)
    factor = 1.0 if run.model.normalization == "mean" else seen / context
    variance = 1 + float(run.problem.noise_variance)
    features = np.sum(x * h, axis=2)
    norms = np.sum(x**2, axis=2) * np.sum(h**2, axis=2) / run.dim
    mean_norm = factor**2 * (1 + (variance * run.dim + 1) / seen)
    columns = (
        np.full(len(y), float(count)),
        (y**2 - variance) @ share,
        (features * y - factor) @ share,
        (features**2 - mean_norm) @ share,
        (norms - mean_norm) @ share,
    )
    return np.stack(columns, axis=1)


@dataclass(frozen=True, eq=False)
class DrawnSequences:
    """Solved equations of drawn tasks.

    Attributes
    ----------
    run : Experiment
    blocks : list of Block
    inverses : list of ndarray
        R of the tasks of each block.
    theta, gamma : float
        Responses.
    """

    run: Experiment
    blocks: list[Block]
    inverses: list[np.ndarray]
    theta: float
    gamma: float

    @classmethod
    def of(
        cls, run: Experiment, blocks: list[Block], theta: float, gamma: float
    ) -> DrawnSequences:
        """Solve for the responses, from those of the equations.

        Raises
        ------
        ArithmeticError
            If they are not found.
        """
        size = run.dim**2
        for _ in range(MOST_STEPS):
            solved = cls(run, blocks, [own.inverse(theta, gamma) for own in blocks], theta, gamma)
            penalised = run.ridge * theta * run.prompts / size
            determined = 0.0
            damped = 0.0
            last = 0.0
            for block, inverse in zip(blocks, solved.inverses, strict=True):
                squared = inverse @ (block.precision[:, None] * inverse)
                determined += theta * block.trace(block.summaries, inverse)
                damped += theta * block.trace(block.summaries, squared)
                last += theta * gamma * block.trace(block.lasts, inverse)
            step = (size * (1 - penalised) - determined) / (size * penalised + damped)
            change = 1 / (gamma * penalised + last / run.dim)
            if abs(step) + abs(change - 1) < SETTLED:
                return solved
            theta *= math.exp(min(max(step, -LARGEST_STEP), LARGEST_STEP))
            gamma *= change
        raise ArithmeticError(f"the response of drawn tasks was not found in {MOST_STEPS} steps")

    def errors(self, factor: np.ndarray, seen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """ICL and IDG error after numbers of examples, whose summaries have a factor."""
        dim = self.run.dim
        v = 1 + float(self.run.problem.noise_variance)
        c = self.rate
        variance, last_variance = self.variances
        square = factor**2
        norm = 1 + (v * dim + 1) / seen
        icl = v - 2 * c * factor + square * (c**2 + variance) * norm
        icl = icl + square * last_variance * v**2 * (1 + 2 / seen) / dim
        if math.isinf(self.run.problem.task_count):
            return icl, icl
        own = self._own
        return icl, icl + factor * own[0] + square * (own[1] + own[2] / seen)

    @property
    def uncertainty(self) -> tuple[float, float]:
        """Bounds on the relative errors of the ICL and the IDG error."""
        loss = LOSS if self.run.ridge >= SMALL_RIDGE else SMALL_RIDGE_LOSS
        drawn = sum(len(block.weights) for block in self.blocks)
        scatter = 0.0 if drawn >= WEIGHTED_TASKS else SCATTER / math.sqrt(drawn)
        bounds = [math.hypot(own / self.run.dim, scatter) for own in loss]
        return bounds[0], bounds[1]

    @cached_property
    def rate(self) -> float:
        """Rate c."""
        labelled = 0.0
        squares = self.run.prompts * self.run.ridge
        for block, inverse in zip(self.blocks, self.inverses, strict=True):
            weighted = _applied(inverse, block.features)
            labelled += block.dot(weighted, block.labels)
            squares += block.dot(weighted, block.features)
        return labelled / squares

    @cached_property
    def variances(self) -> tuple[float, float]:
        """Variances z and z_t; infinite ones where noise would feed itself."""
        c = self.rate
        noise = np.zeros(2)
        fed = np.zeros((2, 2))
        for block, inverse in zip(self.blocks, self.inverses, strict=True):
            residuals = _applied(inverse, block.labels - c * block.features)
            kernels = (block.summaries, block.lasts)
            products = [inverse @ kernel for kernel in kernels]
            noise += [block.square(residuals, kernel) for kernel in kernels]
            fed += [[block.trace(left, right) for right in products] for left in products]
        dim = self.run.dim
        scales = self.theta**2 * np.array([1 / dim**2, self.gamma**2 / dim])
        loop = scales[:, None] * fed
        if np.max(np.abs(np.linalg.eigvals(loop))) >= 1:
            return math.inf, math.inf
        variance, last_variance = np.linalg.solve(np.eye(2) - loop, scales * noise).tolist()
        return variance, last_variance

    @cached_property
    def _own(self) -> np.ndarray:
        """Change of the error of a new sequence of a task by its others: of p, p^2 and p^2/l."""
        dim = self.run.dim
        v = 1 + float(self.run.problem.noise_variance)
        c = self.rate
        variance, last_variance = self.variances
        tail = self.gamma * v
        crossed = np.array(
            [variance, tail * variance + v * last_variance, tail * v * last_variance / dim]
        )
        squared = np.array([1.0, 2 * tail, tail**2 / dim])
        scale = self.theta / dim
        total = np.zeros(3)
        for block, inverse in zip(self.blocks, self.inverses, strict=True):
            residuals = _applied(inverse, block.labels - c * block.features)
            spread = inverse @ (variance * block.summaries + last_variance * block.lasts) @ inverse
            linear = block.dot(residuals, block.linear) / dim
            last = tail * block.dot(residuals, block.linear_last) / dim
            features = v * block.dot(residuals, block.features)
            answers = np.array([linear + last, 0.0, 0.0])
            answers[1] = -c * (linear + last)
            answers[2] = -c * (linear + features + 2 * last)
            kernels = (block.own, block.summaries, block.mixed, block.lasts)
            traces = [block.trace(inverse, kernel) for kernel in kernels]
            squares = [
                block.square(residuals, kernel) + block.trace(spread, kernel) for kernel in kernels
            ]
            total -= 2 * scale * (answers + _tested(crossed, traces, v))
            total += scale * self.theta * _tested(squared, squares, v)
        return total / self.run.problem.task_count


def _tested(weights: np.ndarray, sums: list[float], v: float) -> np.ndarray:
    """Means over new summaries, of p, p^2 and p^2/l, from sums with the kernels of a block.

    Weights are those of products of summaries, of summaries and last entries, and of the latter.
    """
    own, summaries, mixed, lasts = sums
    last = weights[1] * mixed + weights[2] * lasts
    return np.array([0.0, weights[0] * own + last, weights[0] * (own + v * summaries) + 2 * last])
