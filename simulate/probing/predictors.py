r"""Algorithms that predict the label of a query from a context, on arrays.

Those that are linear in the query return weights (n, dim): the prediction is their inner product
with the query.  None looks at the task of a prompt; those that are told the noise variance of a
prompt say so.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeAlias

from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, softmax
from iclimit.simulate.gdpp.preconditioned_descent import context_covariance, gdpp_matrices
from iclimit.simulate.pretraining.estimators import LEAST_NOISE, dmmse_estimate, ridge_weights
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.covariances import times_root

# Function of prompts that returns predictions (n,).
Predictor: TypeAlias = Callable[[Prompts], Array]

# Most numbers of an intermediate result (8 MiB).
BLOCK_NUMBERS = 2**20

# Inputs are taken to depend on each other if less than this share of one is new.
DEPENDENT = 1e-12

# Squared distances that differ by less than this share are the same, apart from rounding.
TIE = 1e-9


def linear_predictor(weights: Callable[[Prompts], Array]) -> Predictor:
    """Predictor with the weights (n, dim) that a function finds in the contexts."""

    def predict(prompts: Prompts) -> Array:
        return array_namespace(prompts.query).vecdot(prompts.query, weights(prompts))

    return predict


def in_blocks(predict: Predictor, numbers: int) -> Predictor:
    """The same predictor on few prompts at a time, so that its memory is bounded.

    Parameters
    ----------
    predict : callable
        The predictor.
    numbers : int
        Numbers in the largest intermediate result for one prompt.
    """
    rows = max(1, BLOCK_NUMBERS // numbers)

    def blockwise(prompts: Prompts) -> Array:
        ends = [*range(rows, len(prompts), rows), len(prompts)]
        parts = [predict(prompts[slice(*pair)]) for pair in pairwise([0, *ends])]
        return array_namespace(prompts.query).concat(parts)

    return blockwise


def gdpp_weights(prompts: Prompts, rates: Sequence[float], gammas: Sequence[float]) -> Array:
    """Weights after layers of GD++, see `iclimit.simulate.gdpp.preconditioned_descent`."""
    xp = array_namespace(prompts.inputs)
    moments = xp.matrix_transpose(prompts.inputs) @ prompts.labels[:, :, None]
    matrices = gdpp_matrices(context_covariance(prompts.inputs), rates, gammas)
    return (matrices @ moments)[:, :, 0] / prompts.inputs.shape[1]


def regression_weights(
    prompts: Prompts, penalty: Array | float, *, task_root: Array | None = None
) -> Array:
    r"""Weights of ridge regression.

    Parameters
    ----------
    prompts : Prompts
        Contexts.
    penalty : float or array (n,), >= 0
        Penalty :math:`\lambda` of :math:`(X^\top X + \lambda)^{-1} X^\top y`.  With the noise
        variance over the task variance it is the posterior mean for Gaussian tasks.  At 0 least
        squares: of least norm where several weights fit equally well.
    task_root : array (dim,) or (dim, dim), optional
        Symmetric root R of the covariance of the tasks over their variance: penalty and norm are
        those of :math:`R^{-1} w`.
    """
    xp = array_namespace(prompts.inputs)
    inputs = times_root(prompts.inputs, task_root)
    ridge = xp.asarray(penalty)
    if bool(xp.all(ridge > 0)):
        weights = ridge_weights(inputs, prompts.labels, penalty)
    elif bool(xp.all(ridge == 0)):
        weights = _least_squares(inputs, prompts.labels)
    else:
        weights = _SingularValues(inputs, prompts.labels).weights(penalty)
    return times_root(weights, task_root)


def adaptive_ridge_weights(
    prompts: Prompts, task_variance: float, *, task_root: Array | None = None
) -> Array:
    """Weights of ridge regression with an estimated noise variance.

    The estimate is RSS/(N - rank), from the residuals of least squares, and 0 for contexts that
    these fit whatever the labels are (AdaRR of Vladymyrov et al., arXiv:2402.14180).
    """
    xp = array_namespace(prompts.inputs)
    length = prompts.inputs.shape[1]
    svd = _SingularValues(times_root(prompts.inputs, task_root), prompts.labels)
    freedom = length - xp.sum(xp.astype(svd.kept, svd.values.dtype), axis=1)
    # Without freedom the residuals are rounding.
    variance = xp.where(freedom > 0, svd.residual_squares() / xp.clip(freedom, 1, None), 0.0)
    return times_root(svd.weights(variance / task_variance), task_root)


def noise_mixture_weights(
    prompts: Prompts,
    noise_variances: Array,
    chances: Array,
    task_variance: float,
    *,
    task_root: Array | None = None,
) -> Array:
    r"""Posterior mean of Gaussian tasks where the noise level of a prompt is not known.

    Of the labels, :math:`y \sim N(0, a^2 X X^\top + \sigma^2)`, the likelihood of each level is
    known; the weights are the mean of those of ridge regression with :math:`\sigma^2/a^2`.

    Parameters
    ----------
    prompts : Prompts
        Contexts.
    noise_variances, chances : array (k,)
        Noise variances and their probabilities.  A variance of 0 is taken to be 1e-12 of the mean
        square of the labels.
    task_variance : float
        Variance of a task coordinate.
    task_root : array (dim,) or (dim, dim), optional
        As in `regression_weights`.
    """
    xp = array_namespace(prompts.inputs)
    length = prompts.inputs.shape[1]
    svd = _SingularValues(times_root(prompts.inputs, task_root), prompts.labels)
    least = 1e-12 * xp.mean(prompts.labels**2, axis=1)[:, None]
    variance = xp.maximum(noise_variances[None, :], xp.clip(least, LEAST_NOISE, None))
    values = xp.where(svd.kept, svd.values, 0.0)
    coordinates = xp.where(svd.kept, svd.coordinates, 0.0)
    totals = [
        task_variance * column[:, None] ** 2 + variance for column in xp.unstack(values, axis=1)
    ]
    # Twice the negative logarithm of the likelihood: along the inputs, then across them.
    misfit = svd.residual_squares()[:, None] / variance
    misfit = misfit + (length - len(totals)) * xp.log(variance)
    for total, coordinate in zip(totals, xp.unstack(coordinates, axis=1), strict=True):
        misfit = misfit + coordinate[:, None] ** 2 / total + xp.log(total)
    posterior = chances * xp.exp(-(misfit - xp.min(misfit, axis=1, keepdims=True)) / 2)
    posterior = posterior / xp.sum(posterior, axis=1, keepdims=True)
    shrinkage = xp.stack([xp.sum(posterior / total, axis=1) for total in totals], axis=1)
    filtered = task_variance * shrinkage * values * coordinates
    return times_root((filtered[:, None, :] @ svd.right)[:, 0, :], task_root)


def _least_squares(inputs: Array, labels: Array) -> Array:
    """Weights of least norm, by QR decompositions, which take a quarter of the time of others."""
    xp = array_namespace(inputs)
    wide = inputs.shape[1] < inputs.shape[2]
    Q, R = xp.linalg.qr(xp.matrix_transpose(inputs) if wide else inputs)
    diagonal = xp.abs(xp.linalg.diagonal(R))
    # Inputs that depend on each other leave a diagonal entry of the size of rounding.
    if bool(xp.any(xp.min(diagonal, axis=1) <= DEPENDENT * xp.max(diagonal, axis=1))):
        return _SingularValues(inputs, labels).weights(0.0)
    if wide:
        return (Q @ xp.linalg.solve(xp.matrix_transpose(R), labels[:, :, None]))[:, :, 0]
    return xp.linalg.solve(R, xp.matrix_transpose(Q) @ labels[:, :, None])[:, :, 0]


class _SingularValues:
    """Singular value decompositions of contexts, without values that are rounding."""

    def __init__(self, inputs: Array, labels: Array) -> None:
        xp = array_namespace(inputs)
        basis, values, self.right = xp.linalg.svd(inputs, full_matrices=False)
        floor = max(inputs.shape[1:]) * xp.finfo(values.dtype).eps * values[:, :1]
        self.kept = values > floor
        self.values = values
        self.left = basis
        self.labels = labels
        self.coordinates = (labels[:, None, :] @ basis)[:, 0, :]

    def weights(self, penalty: Array | float) -> Array:
        """Weights of ridge regression with a penalty, one or (n,)."""
        xp = array_namespace(self.values)
        values = self.values
        ridge = xp.reshape(xp.asarray(penalty, dtype=values.dtype), (-1, 1))
        squares = xp.where(self.kept, values**2 + ridge, 1.0)
        filtered = xp.where(self.kept, values * self.coordinates / squares, 0.0)
        return (filtered[:, None, :] @ self.right)[:, 0, :]

    def residual_squares(self) -> Array:
        """Residual sums of squares of least squares."""
        xp = array_namespace(self.values)
        coordinates = xp.where(self.kept, self.coordinates, 0.0)
        residual = self.labels - (self.left @ coordinates[:, :, None])[:, :, 0]
        return xp.sum(residual**2, axis=1)


def dmmse_weights(prompts: Prompts, tasks: Array) -> Array:
    """Posterior mean of the task over the rows of tasks; told the noise variance of the prompt."""
    return dmmse_estimate(prompts.inputs, prompts.labels, tasks, prompts.noise_variance)


def nearest_neighbours(prompts: Prompts, neighbours: int) -> Array:
    """Mean label (n,) of the context inputs nearest to the query.

    Of inputs at the same distance, each counts as often as in random choices among them.
    """
    xp = array_namespace(prompts.inputs)
    distance = xp.sum((prompts.inputs - prompts.query[:, None, :]) ** 2, axis=2)
    count = min(neighbours, distance.shape[1])
    last = xp.sort(distance, axis=1)[:, count - 1 : count]
    nearer = xp.astype(distance < (1 - TIE) * last, distance.dtype)
    tied = xp.astype(xp.abs(distance - last) <= TIE * last, distance.dtype)
    missing = count - xp.sum(nearer, axis=1, keepdims=True)
    weight = nearer + tied * missing / xp.sum(tied, axis=1, keepdims=True)
    return xp.sum(weight * prompts.labels, axis=1) / count


def delta_rule_weights(prompts: Prompts, steps: Array | float, gate: float = 1.0) -> Array:
    r"""Weights after the delta rule, a step of gradient descent on each pair in turn.

    Parameters
    ----------
    prompts : Prompts
        Contexts.
    steps : float or array (context,)
        Steps :math:`\beta_t` of :math:`w \leftarrow w + \beta_t\, x_t (y_t - x_t \cdot w)` from 0,
        for inputs as they are (least mean squares of Widrow and Hoff).
    gate : float
        Factor of the weights before each pair, as in Gated DeltaNet.
    """
    xp = array_namespace(prompts.inputs)
    length = prompts.inputs.shape[1]
    each_step = xp.zeros(length, dtype=prompts.inputs.dtype) + xp.asarray(steps)
    weights = xp.zeros_like(prompts.inputs[:, 0, :])
    for t in range(length):
        x = prompts.inputs[:, t, :]
        weights = gate * weights
        residual = prompts.labels[:, t] - xp.vecdot(x, weights)
        weights = weights + each_step[t] * residual[:, None] * x
    return weights


# Most sweeps of the lasso over all coordinates.
SWEEPS = 100

# Change of the weights in a sweep, over the largest of them, at which the lasso ends.
SETTLED = 1e-6


def _prompts_last(matrices: Array) -> Array:
    """Matrices (n, dim, dim) as an array (dim, dim, n), of which each coordinate lies together."""
    xp = array_namespace(matrices)
    count, dim, _ = matrices.shape
    rows = xp.reshape(matrices, (count, dim * dim))
    # Flattening copies.
    flat = xp.reshape(xp.matrix_transpose(rows), (dim * dim * count,))
    return xp.reshape(flat, (dim, dim, count))


def _moves(before: Array, weights: Array) -> Array:
    """Whether a sweep has changed the weights (dim, n) of each prompt too much to have settled."""
    xp = array_namespace(weights)
    change = xp.max(xp.abs(weights - before), axis=0)
    return change > SETTLED * xp.max(xp.abs(weights), axis=0)


def _lasso_sweep(
    gram: Array, weights: Array, residual: Array, penalty: float
) -> tuple[Array, Array]:
    """Weights (dim, n) and residuals after the best change of each coordinate in turn."""
    xp = array_namespace(gram)
    rows = [weights[j, :] for j in range(weights.shape[0])]
    for j, old in enumerate(rows):
        curvature = xp.where(gram[j, j, :] > 0, gram[j, j, :], 1.0)
        target = residual[j, :] + curvature * old
        size = xp.abs(target) - penalty
        signed = xp.where(target > 0, size, -size)
        rows[j] = xp.where(size > 0, signed, 0.0) / curvature
        residual = residual - (rows[j] - old) * gram[j, :, :]
    return xp.stack(rows), residual


def lasso_weights(prompts: Prompts, penalty: float) -> Array:
    r"""Weights of the lasso, by coordinate descent.

    They minimise :math:`|y - X w|^2/2N + \lambda |w|_1`, as in scikit-learn and Garg et al.
    (arXiv:2208.01066).
    """
    xp = array_namespace(prompts.inputs)
    count, length, _ = prompts.inputs.shape
    gram = _prompts_last(context_covariance(prompts.inputs))
    products = (xp.matrix_transpose(prompts.inputs) @ prompts.labels[:, :, None])[:, :, 0]
    residual = xp.matrix_transpose(products) / length
    weights = xp.zeros_like(residual)
    numbers = xp.arange(count)
    settled_numbers: list[Array] = []
    settled_weights: list[Array] = []
    for sweep in range(SWEEPS):
        before = weights
        weights, residual = _lasso_sweep(gram, weights, residual, penalty)
        moving = _moves(before, weights) & (sweep < SWEEPS - 1)
        settled_numbers.append(numbers[~moving])
        settled_weights.append(weights[:, ~moving])
        (kept,) = xp.nonzero(moving)
        if not kept.shape[0]:
            break
        gram = xp.take(gram, kept, axis=-1)
        residual = xp.take(residual, kept, axis=-1)
        weights = xp.take(weights, kept, axis=-1)
        numbers = xp.take(numbers, kept, axis=-1)
    order = xp.argsort(xp.concat(settled_numbers, axis=-1))
    columns = xp.concat(settled_weights, axis=-1)
    return xp.matrix_transpose(xp.take(columns, order, axis=1))


def gaussian_smoother(prompts: Prompts, bandwidth: float) -> Array:
    r"""Predictions (n,) of a kernel smoother (Nadaraya and Watson).

    They are means of the labels with weights :math:`\propto \exp(-|x_q - x_i|^2/2b^2)`.
    """
    xp = array_namespace(prompts.inputs)
    distance = xp.sum((prompts.inputs - prompts.query[:, None, :]) ** 2, axis=2)
    return xp.vecdot(softmax(-distance / (2 * bandwidth**2)), prompts.labels)


def softmax_heads(
    prompts: Prompts, inverse_temperature: float, value: float, *, opposite: bool = False
) -> Array:
    r"""Predictions (n,) of a softmax head.

    The head is :math:`v \sum_i y_i\,\mathrm{softmax}_i(\beta\, x_q \cdot x_i)`.  With ``opposite``
    a second head has the opposite sign of temperature and value.
    """
    xp = array_namespace(prompts.inputs)
    scores = (prompts.inputs @ prompts.query[:, :, None])[:, :, 0]
    total = xp.zeros_like(prompts.labels)
    for sign in (1, -1) if opposite else (1,):
        total = total + sign * softmax(sign * inverse_temperature * scores)
    return value * xp.vecdot(total, prompts.labels)


def elu_features(x: Array) -> Array:
    """Features elu(x) + 1 of Katharopoulos et al. (arXiv:2006.16236), which are positive."""
    xp = array_namespace(x)
    return xp.where(x > 0, x + 1, xp.exp(xp.where(x > 0, xp.zeros_like(x), x)))


def feature_attention(
    prompts: Prompts, features: Callable[[Array], Array], *, normalised: bool
) -> Array:
    r"""Predictions (n,) of linear attention with features :math:`\phi` of inputs and query.

    The weights of the labels are :math:`\phi(x_q) \cdot \phi(x_i)`, over their sum if they are
    normalised (Katharopoulos et al., arXiv:2006.16236), otherwise over their number.  A sum of 0
    predicts 0.
    """
    xp = array_namespace(prompts.inputs)
    keys = features(prompts.inputs)
    weights = (keys @ features(prompts.query)[:, :, None])[:, :, 0]
    total = xp.vecdot(weights, prompts.labels)
    if not normalised:
        return total / weights.shape[1]
    size = xp.sum(weights, axis=1)
    return total / xp.where(size > 0, size, xp.ones_like(size))
