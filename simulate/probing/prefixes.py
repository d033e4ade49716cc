r"""Algorithms at every position of a prompt: the prediction of each label from the pairs before.

Prompts of N pairs and a query have N + 1 positions, of which the last is the query; position i has
i pairs before it.

Regression on all prefixes takes one pass.  For the first i pairs and a penalty :math:`\lambda` it
is the least-squares problem of the rows :math:`(\sqrt\lambda I, X)`, whose triangular factor R is
updated by a Givens rotation for every coordinate of a new row (Golub and Van Loan, Matrix
Computations, section 6.5).  Rotations are orthogonal, so errors of rounding grow with the
condition number of X and not with its square, as they do in updates of :math:`(X^\top X)^{-1}`.

Without a penalty the weights of least norm lie in the span of the inputs seen so far.  The factor
is then one in coordinates of an orthonormal basis of this span, to which the part of a new input
outside of it is added by Gram-Schmidt, twice for its rounding.
"""

from collections.abc import Callable
from types import ModuleType

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array
from iclimit.simulate.pretraining.estimators import LEAST_NOISE
from iclimit.simulate.probing.predictors import Predictor
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.covariances import times_root

# An input counts as inside the span of others if less of its norm than this is outside.
INSIDE = 1e-10


def by_prefix(predictor: Callable[[int], Predictor]) -> Predictor:
    """Predictions (n, N + 1) of a predictor that is chosen for each number of pairs.

    Parameters
    ----------
    predictor : callable
        Given a number of pairs, at least 1, returns a predictor for prompts of so many.  Without
        pairs the prediction is zero.
    """

    def predict(prompts: Prompts) -> Array:
        xp = array_namespace(prompts.query)
        length = prompts.labels.shape[1]
        answers = [0 * prompts.query[:, 0]]
        answers += [
            predictor(count)(first_pairs(prompts, count)) for count in range(1, length + 1)
        ]
        return xp.stack(answers, axis=1)

    return predict


def first_pairs(prompts: Prompts, count: int) -> Prompts:
    """The first pairs of each prompt, with the input after them for the query."""
    inputs = prompts.inputs
    labels = prompts.labels
    query = inputs[:, count, :] if count < inputs.shape[1] else prompts.query
    label = labels[:, count] if count < inputs.shape[1] else prompts.query_label
    hidden = prompts.tasks, prompts.noise_variance
    return Prompts(inputs[:, :count, :], labels[:, :count], query, label, *hidden)


def all_inputs(prompts: Prompts) -> Array:
    """Inputs (n, N + 1, dim) of all positions, the query last."""
    xp = array_namespace(prompts.query)
    return xp.concat([prompts.inputs, prompts.query[:, None, :]], axis=1)


def prefix_delta_rule(prompts: Prompts, steps: Array) -> Array:
    """Predictions (n, N + 1) of the delta rule with steps (N,)."""
    inputs = all_inputs(prompts)
    labels = prompts.labels
    xp = array_namespace(inputs)
    weights = xp.zeros_like(prompts.query)
    answers = []
    for t in range(inputs.shape[1]):
        answers.append(xp.vecdot(inputs[:, t, :], weights))
        if t < labels.shape[1]:
            residual = labels[:, t] - answers[-1]
            weights = weights + float(steps[t]) * residual[:, None] * inputs[:, t, :]
    return xp.stack(answers, axis=1)


def prefix_regression(
    prompts: Prompts, penalty: Array | float = 0.0, *, task_root: Array | None = None
) -> Array:
    """Predictions (n, N + 1) of ridge regression, or of least squares of minimum norm.

    Parameters
    ----------
    prompts : Prompts
        Prompts.
    penalty : float or array (n,), >= 0
        As in `regression_weights`.
    task_root : array (dim,) or (dim, dim), optional
        As in `regression_weights`.
    """
    xp = array_namespace(prompts.query)
    inputs = times_root(all_inputs(prompts), task_root)
    count, dim = prompts.query.shape
    root = xp.sqrt(xp.zeros(count, dtype=inputs.dtype) + penalty)
    factor = _Factor(xp, root, dim)
    # With a penalty everywhere the coordinates may be those of the inputs, in half the time.
    span = _Span(inputs) if bool(xp.any(root == 0)) else None
    answers = []
    for position in range(inputs.shape[1]):
        row = inputs[:, position, :]
        seen = row if span is None else span.coordinates(row)
        answers.append(xp.vecdot(factor.solution(), seen))
        if position < prompts.labels.shape[1]:
            factor.append(row if span is None else span.extended(row), prompts.labels[:, position])
    return xp.stack(answers, axis=1)


class _Factor:
    """Triangular factors of growing least-squares problems, one for each prompt."""

    def __init__(self, xp: ModuleType, diagonal: Array, dim: int) -> None:
        self.xp = xp
        # Row j from its diagonal on, and its right side in the last column.
        count = diagonal.shape[0]
        first = diagonal[:, None]
        self.rows = [
            xp.concat([first, xp.zeros((count, dim - j), dtype=first.dtype)], axis=1)
            for j in range(dim)
        ]

    def append(self, row: Array, label: Array) -> None:
        """Add an equation: rotate it with row after row until nothing of it is left."""
        xp = self.xp
        rest = xp.concat([row, label[:, None]], axis=1)
        for j, old in enumerate(self.rows):
            radius = xp.sqrt(old[:, 0] ** 2 + rest[:, 0] ** 2)
            safe = xp.where(radius > 0, radius, 1.0)
            cosine = xp.where(radius > 0, old[:, 0] / safe, 1.0)[:, None]
            sine = (rest[:, 0] / safe)[:, None]
            self.rows[j] = cosine * old + sine * rest
            rest = (cosine * rest - sine * old)[:, 1:]

    def solution(self) -> Array:
        """Solutions (n, dim); zero in directions without equations."""
        xp = self.xp
        answer = None
        for row in reversed(self.rows):
            right = row[:, -1] if answer is None else row[:, -1] - xp.vecdot(row[:, 1:-1], answer)
            diagonal = row[:, 0]
            value = xp.where(diagonal == 0, 0.0, right / xp.where(diagonal == 0, 1.0, diagonal))
            value = value[:, None]
            answer = value if answer is None else xp.concat([value, answer], axis=1)
        return answer


class _Span:
    """Orthonormal bases of the spans of growing sets of inputs, one for each prompt.

    Vectors of the basis that are not there yet are zero, and so are coordinates along them.
    """

    def __init__(self, inputs: Array) -> None:
        xp = array_namespace(inputs)
        count, _, dim = inputs.shape
        self.xp = xp
        self.slots = xp.arange(dim)
        self.basis = xp.zeros((count, dim, dim), dtype=inputs.dtype)
        self.rank = xp.zeros(count, dtype=xp.int64)

    def coordinates(self, row: Array) -> Array:
        """Coordinates (n, dim) of the parts of vectors (n, dim) inside of the spans."""
        return (self.basis @ row[:, :, None])[:, :, 0]

    def extended(self, row: Array) -> Array:
        """Coordinates of vectors that are added to the spans."""
        xp = self.xp
        outside = row
        for _ in range(2):
            inside = self.coordinates(outside)
            outside = outside - (inside[:, None, :] @ self.basis)[:, 0, :]
        norm = xp.sqrt(xp.vecdot(outside, outside))
        new = norm > INSIDE * xp.sqrt(xp.vecdot(row, row))
        new = new & (self.rank < row.shape[1])
        slot = xp.astype((self.slots == self.rank[:, None]) & new[:, None], row.dtype)
        unit = outside / xp.where(new, norm, 1.0)[:, None]
        self.basis = self.basis + slot[:, :, None] * unit[:, None, :]
        self.rank = self.rank + xp.astype(new, xp.int64)
        return self.coordinates(row)


def prefix_dmmse(prompts: Prompts, tasks: Array) -> Array:
    """Predictions (n, N + 1) of the posterior mean over tasks; told the noise of the prompt."""
    xp = array_namespace(prompts.query)
    inputs = all_inputs(prompts)
    count, length, dim = inputs.shape
    predicted = xp.reshape(xp.reshape(inputs, (-1, dim)) @ tasks.T, (count, length, -1))
    squares = (prompts.labels[:, :, None] - predicted[:, :-1, :]) ** 2
    misfit = xp.concat([0 * predicted[:, :1, :], xp.cumulative_sum(squares, axis=1)], axis=1)
    excess = misfit - xp.min(misfit, axis=2, keepdims=True)
    variance = xp.clip(prompts.noise_variance, LEAST_NOISE, None)[:, None, None]
    weight = xp.exp(-excess / (2 * variance))
    return xp.vecdot(weight, predicted) / xp.sum(weight, axis=2)
