r"""Ridge regression on rank-one features, without ever forming them.

The features of linear attention are :math:`x_i h_i^\top` with :math:`p = d(d+1)` entries; the
estimator minimises
:math:`\sum_i (y_i - x_i^\top\Gamma h_i)^2 + \frac nd\lambda\lVert\Gamma\rVert_F^2`.
Two structures make it cheap (Khatri-Rao product):

* the :math:`n \times n` Gram matrix is the Hadamard product of the Gram matrices of x and h;
* applying the features or their transpose takes one :math:`n \times d \times d` product.

For n >= p the normal equations are solved, directly when p is small, by conjugate gradients
otherwise.  Right multiplication by the inverse root of
:math:`\frac1n\sum_i h_i h_i^\top + \lambda` makes their spectrum about that of a
Marchenko-Pastur law of ratio p/n, so the number of iterations does not grow with d; memory is
O(n d).  For n < p the dual system is solved, directly when the Gram matrix is small, by conjugate
gradients otherwise; as the ridge tends to 0 it gives the solution of least norm.

Direct solves factorise the matrix in float32, in half the time of float64, and correct the
solution with residuals in float64; where float32 does not suffice they factorise again in float64.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace, is_numpy_namespace
from scipy import linalg

from iclimit.checks import check_choice
from iclimit.simulate.arrays import Array, by_device, looks_every, row_blocks

# Most features whose normal equations are solved directly, d = 20.  At tau = 1.5 the direct solve
# is 2 to 4 times faster than iterating at d = 16, and as fast at d = 24.
DENSE_NORMAL = 450

# The same on a GPU, d = 40, where small operations take the time of starting them: by iterating,
# an H200 took 34 ms for a run at d = 40 and 36 ms at d = 100.  At d = 40 the direct solve starts
# 109 operations in place of 1198.  The limit itself was not tuned on hardware.
DENSE_NORMAL_DEVICE = 1640

# Largest dual system solved directly (32 MiB); above, iterating is faster at moderate alpha.
DENSE_GRAM = 2048

# Largest relative residual aimed at by direct solves: a correction more costs a tenth of them.
DIRECT_TOLERANCE = 1e-10


# Solution, number of iterations and relative residual.
Solved: TypeAlias = tuple[Array, int, float]


@dataclass(frozen=True)
class RidgeSolution:
    """Solution of the ridge regression.

    Attributes
    ----------
    gamma : array (d, d + 1)
        Reduced attention matrix.
    method : {"primal-dense", "primal-cg", "dual-dense", "dual-cg"}
        How it was found.
    iterations : int
        Conjugate gradient iterations; 0 for direct solves.
    residual : float
        Norm of the residual of the linear system that was solved, relative to its right side.
    """

    gamma: Array
    method: str
    iterations: int
    residual: float


def solve_ridge(
    x: Array,
    h: Array,
    y: Array,
    ridge: float,
    *,
    method: str = "auto",
    tolerance: float = 1e-8,
    max_iterations: int | None = None,
) -> RidgeSolution:
    """Solve the ridge regression for Gamma.

    Parameters
    ----------
    x : array (n, d)
        Query inputs.
    h : array (n, d + 1)
        Context summaries.
    y : array (n,)
        Query labels.
    ridge : float >= 0
        Ridge per prompt and dimension, see the module.
    method : {"auto", "primal-dense", "primal-cg", "dual-dense", "dual-cg"}
        "auto" chooses by size.  The primal methods need n >= d (d + 1) or a positive ridge.
    tolerance : float
        Relative residual at which the iteration stops.
    max_iterations : int, optional
        Bound on the iterations; default 20 p.

    Returns
    -------
    RidgeSolution

    Raises
    ------
    ArithmeticError
        If the iteration does not reach the tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.simulate.pretraining.ridge import solve_ridge
    >>> rng = np.random.default_rng(0)
    >>> x, h = rng.standard_normal((50, 4)), rng.standard_normal((50, 5))
    >>> gamma = rng.standard_normal((4, 5))
    >>> y = np.sum(x @ gamma * h, axis=1)
    >>> solution = solve_ridge(x, h, y, 0.0)
    >>> bool(np.allclose(solution.gamma, gamma))
    True
    """
    n, d = x.shape
    size = d * (d + 1)
    solvers: Any = {
        "primal-dense": _primal_dense,
        "primal-cg": _primal_cg,
        "dual-dense": _dual_dense,
        "dual-cg": _dual_cg,
    }
    check_choice("method", method, ("auto", *solvers))
    if method == "auto":
        method = choose_method(n, d, array_namespace(x))
    limit = 20 * size if max_iterations is None else max_iterations
    gamma, iterations, residual = solvers[method](x, h, y, n / d * ridge, tolerance, limit)
    if not residual <= 10 * tolerance:
        raise ArithmeticError(
            f"{method} stopped at relative residual {residual:.1e} after "
            f"{iterations} iterations (tolerance {tolerance:.0e}): n = {n} prompts are "
            f"close to the interpolation threshold d (d + 1) = {size}, or the features are "
            "dependent (few tasks without noise); take a positive ridge, another n, or more "
            "iterations"
        )
    return RidgeSolution(gamma, method, iterations, residual)


def choose_method(prompts: int, d: int, xp: ModuleType = np) -> str:
    """Method of the solve for that many prompts, by size and device."""
    if prompts >= d * (d + 1):
        most = by_device(xp, DENSE_NORMAL_DEVICE, DENSE_NORMAL)
        return "primal-dense" if d * (d + 1) <= most else "primal-cg"
    return "dual-dense" if prompts <= DENSE_GRAM else "dual-cg"


# Queries and summaries of some prompts each.
Blocks: TypeAlias = Sequence[tuple[Array, Array]]


def row_pairs(x: Array, h: Array) -> Blocks:
    """Blocks of prompts, by the size of their summaries."""
    xp = array_namespace(x)
    size = h.shape[1] * xp.finfo(h.dtype).bits // 8
    return [(x[rows, :], h[rows, :]) for rows in row_blocks(xp, x.shape[0], size)]


def predictions(blocks: Blocks, gamma: Array) -> Array:
    """Predictions x_i^T gamma h_i."""
    xp = array_namespace(gamma)
    return xp.concat([xp.vecdot(query @ gamma, summary) for query, summary in blocks])


def adjoint(blocks: Blocks, weights: Array) -> Array:
    """Sum of weights_i x_i h_i^T."""
    start = 0
    total = 0.0
    for query, summary in blocks:
        stop = start + query.shape[0]
        total = total + (query * weights[start:stop, None]).T @ summary
        start = stop
    return total


def normal(blocks: Blocks, gamma: Array) -> Array:
    """Adjoint of the predictions of gamma, in one pass over the prompts."""
    xp = array_namespace(gamma)
    total = 0.0
    for query, summary in blocks:
        # Scaling the d columns of queries, not the d + 1 of summaries, is up to 1.4 times faster.
        weights = xp.vecdot(summary @ gamma.T, query)
        total = total + (query * weights[:, None]).T @ summary
    return total


def _in_both_precisions(*arrays: Array) -> dict[Any, list[Array]]:
    """Map the dtypes float32 and float64 to copies of the arrays, which are in float64."""
    xp = array_namespace(*arrays)
    single = [xp.astype(v, xp.float32) for v in arrays]
    return {single[0].dtype: single, arrays[0].dtype: list(arrays)}


class _NormalEquations:
    """Normal equations in the principal axes of queries and summaries, scaled.

    Their matrix is the identity in the mean over independent queries and summaries.  Directions
    that no feature has (one task without noise) stay out: least norm.
    """

    def __init__(self, x: Array, h: Array, penalty: float) -> None:
        xp = array_namespace(x)
        variances, self.left = _principal_axes(x)
        variances_h, self.right = _principal_axes(h)
        self.x = x
        self.h = h
        self.root = 1 / xp.sqrt(variances[:, None] * variances_h / x.shape[0] + penalty)
        self.shrink = penalty * self.root**2
        axes = _in_both_precisions(self.left, self.right, self.root, self.shrink)
        pairs = _in_both_precisions(x, h)
        self.copies = {dtype: (row_pairs(*pairs[dtype]), *axes[dtype]) for dtype in axes}

    def operator(self, v: Array) -> Array:
        """Their matrix times a solution, in its precision."""
        # Whitening Gamma instead of the features costs 1/d of an application and no memory.
        blocks, left, right, root, shrink = self.copies[v.dtype]
        image = normal(blocks, left @ (root * v) @ right.T)
        return root * (left.T @ image @ right) + shrink * v

    def target(self, y: Array) -> Array:
        """Their right side."""
        return self.root * (self.left.T @ adjoint(row_pairs(self.x, self.h), y) @ self.right)

    def gamma(self, solution: Array) -> Array:
        """Reduced matrix of their solution."""
        return self.left @ (self.root * solution) @ self.right.T

    def matrix(self, dtype: Any) -> Array:
        """Their matrix in that precision."""
        xp = array_namespace(self.x)
        size = math.prod(self.root.shape)
        root = xp.astype(self.root, dtype)
        total = xp.zeros((size, size), dtype=dtype)
        # On the host a block of so many numbers, in float32, was fastest.
        for rows in row_blocks(xp, self.x.shape[0], size * by_device(xp, 8, 1)):
            query = xp.astype(self.x[rows, :] @ self.left, dtype)
            summary = xp.astype(self.h[rows, :] @ self.right, dtype)
            features = query[:, :, None] * summary[:, None, :]
            features *= root
            features = xp.reshape(features, (-1, size))
            total += features.T @ features
        return _plus_diagonal(total, xp.astype(xp.reshape(self.shrink, (-1,)), dtype))


def _plus_diagonal(matrix: Array, diagonal: Any) -> Array:
    """The matrix, to which a diagonal was added in place."""
    xp = array_namespace(matrix)
    xp.reshape(matrix, (-1,), copy=False)[:: matrix.shape[0] + 1] += diagonal
    return matrix


def _primal_cg(
    x: Array, h: Array, y: Array, penalty: float, tolerance: float, limit: int
) -> Solved:
    system = _NormalEquations(x, h, penalty)
    solved = refined_solve(system.operator, system.target(y), tolerance, limit)
    return system.gamma(solved[0]), *solved[1:]


def _primal_dense(
    x: Array, h: Array, y: Array, penalty: float, tolerance: float, limit: int
) -> Solved:
    system = _NormalEquations(x, h, penalty)
    goal = min(tolerance, DIRECT_TOLERANCE)
    correct = _direct_corrections(system.matrix)
    solved = refined_solve(system.operator, system.target(y), goal, limit, correct)
    return system.gamma(solved[0]), *solved[1:]


def _principal_axes(rows: Array) -> tuple[Array, Array]:
    """Positive eigenvalues of the sum of their outer products, and eigenvectors.

    Rounding leaves at most 3e-16 of the largest eigenvalue where it should be 0.
    """
    xp = array_namespace(rows)
    values, basis = xp.linalg.eigh(rows.T @ rows)
    floor = rows.shape[1] * xp.finfo(values.dtype).eps * values[-1]
    null = int(xp.sum(xp.astype(values <= floor, xp.int64)))
    return values[null:], basis[:, null:]


class _Dual:
    """Dual system: the Gram matrix of the features and the penalty."""

    def __init__(self, x: Array, h: Array, penalty: float) -> None:
        self.copies = _in_both_precisions(x, h)
        self.blocks = {dtype: row_pairs(*pair) for dtype, pair in self.copies.items()}
        self.penalty = penalty

    def operator(self, v: Array) -> Array:
        """Their matrix times weights of the prompts, in its precision."""
        blocks = self.blocks[v.dtype]
        return predictions(blocks, adjoint(blocks, v)) + self.penalty * v

    def matrix(self, dtype: Any) -> Array:
        """Its upper triangle; what is below has no meaning."""
        x, h = self.copies[dtype]
        xp = array_namespace(x)
        n = x.shape[0]
        gram = xp.empty((n, n), dtype=dtype)
        for rows in row_blocks(xp, n, n * xp.finfo(dtype).bits // 8):
            start = rows.start
            gram[rows, start:] = (x[rows, :] @ x[start:, :].T) * (h[rows, :] @ h[start:, :].T)
        return _plus_diagonal(gram, self.penalty)


def _dual_cg(x: Array, h: Array, y: Array, penalty: float, tolerance: float, limit: int) -> Solved:
    system = _Dual(x, h, penalty)
    weights, iterations, residual = refined_solve(system.operator, y, tolerance, limit)
    return adjoint(row_pairs(x, h), weights), iterations, residual


def _dual_dense(
    x: Array, h: Array, y: Array, penalty: float, tolerance: float, limit: int
) -> Solved:
    system = _Dual(x, h, penalty)
    goal = min(tolerance, DIRECT_TOLERANCE)
    correct = _direct_corrections(system.matrix)
    weights, iterations, residual = refined_solve(system.operator, y, goal, limit, correct)
    return adjoint(row_pairs(x, h), weights), iterations, residual


# Solver for a right side in its precision, to a tolerance and with so many iterations at most,
# which returns the solution and the iterations.
Corrections: TypeAlias = Callable[[Array, float, int], tuple[Array, int]]


def _direct_corrections(matrix: Callable[[Any], Array]) -> Corrections:
    """Solver by the Cholesky factor of a matrix, found once in each precision.

    Where rounding made the matrix indefinite the solution is 0.
    """
    factors: dict[Any, Callable[[Array], Array]] = {}

    def correct(right: Array, *_: float) -> tuple[Array, int]:
        xp = array_namespace(right)
        try:
            if right.dtype not in factors:
                factors[right.dtype] = _factorised(matrix(right.dtype))
            solution = factors[right.dtype](xp.reshape(right, (-1,)))
        except np.linalg.LinAlgError:  # that of every backend
            return 0 * right, 0
        return xp.reshape(solution, right.shape), 0

    return correct


def _factorised(upper: Array) -> Callable[[Array], Array]:
    """Solver for a positive definite matrix, of which the upper triangle is given; it is lost."""
    xp = array_namespace(upper)
    if not is_numpy_namespace(xp):
        matrix = xp.triu(upper) + xp.triu(upper, k=1).T
        return lambda right: xp.linalg.solve(matrix, right[:, None])[:, 0]
    # LAPACK reads columns where NumPy has rows.
    factor = linalg.cho_factor(upper.T, lower=True, overwrite_a=True, check_finite=False)
    return lambda right: linalg.cho_solve(factor, right, check_finite=False)


def refined_solve(
    operator: Callable[[Array], Array],
    right: Array,
    tolerance: float,
    limit: int,
    correct: Corrections | None = None,
) -> Solved:
    """Solve operator(v) = right in float64, iterating in float32 while that makes progress.

    Iterative refinement: corrections are found in float32, at half the cost, by conjugate
    gradients or in the way given, and residuals are computed in float64.  Where a correction gains
    less than a factor of ten, the conditioning is beyond float32 and the rest is done in float64.

    Parameters
    ----------
    operator : callable
        Positive definite; computes in the precision of its argument.
    right : array
        Right side, of any shape.
    tolerance : float
        Relative residual to reach.
    limit : int
        Bound on the iterations in all.
    correct : callable, optional
        Finds the corrections instead of conjugate gradients, see `Corrections`.

    Returns
    -------
    solution, iterations, relative residual
    """
    xp = array_namespace(right)
    correct = partial(conjugate_gradients, operator) if correct is None else correct
    norm = float(xp.sqrt(xp.sum(right**2)))
    start = norm
    solution = 0 * right
    residual = right
    iterations = 0
    precision = xp.float32
    while norm > tolerance * start and iterations < limit:
        goal = 0.7 * tolerance * start / norm
        allowed = limit - iterations
        if precision == xp.float32:
            goal = max(FLOAT32_GAIN, goal)
            # An operator that float32 rounding has made indefinite would iterate for ever.
            allowed = min(allowed, 4 * math.prod(right.shape))
        correction, used = correct(xp.astype(residual / norm, precision), goal, allowed)
        iterations += used
        trial = solution + norm * xp.astype(correction, xp.float64)
        left = right - operator(trial)
        previous = norm
        trial_norm = float(xp.sqrt(xp.sum(left**2)))
        if trial_norm < norm:  # a failed correction is dropped
            solution = trial
            residual = left
            norm = trial_norm
        if not trial_norm <= 0.1 * previous:
            if precision == xp.float64:
                break
            precision = xp.float64
    return solution, iterations, 0.0 if start == 0 else norm / start


# Factor by which one float32 correction is to reduce the residual.
FLOAT32_GAIN = 5e-7


def conjugate_gradients(
    operator: Callable[[Array], Array], right: Array, tolerance: float, limit: int
) -> tuple[Array, int]:
    """Solve operator(v) = right, positive definite, from zero; return it and the iterations.

    Own code because it must run on the arrays of any backend and on matrices as unknowns.  On a
    GPU some iterations too many are run; those leave the solution as it is.
    """
    xp = array_namespace(right)
    every = looks_every(xp)

    def dot(a: Array, b: Array) -> Array:
        return xp.vecdot(xp.reshape(a, (-1,)), xp.reshape(b, (-1,)))

    solution = xp.zeros_like(right)
    residual = right
    direction = right
    norm = dot(right, right)
    target = tolerance**2 * norm
    used = 0
    zero = 0 * norm
    for iteration in range(limit):
        active = norm > target
        if iteration % every == 0 and not bool(active):
            break
        image = operator(direction)
        step = norm / dot(direction, image)
        if every > 1:
            step = xp.where(active, step, zero)
        solution = solution + step * direction
        residual = residual - step * image
        previous = norm
        norm = dot(residual, residual)
        ratio = norm / previous
        if every > 1:
            ratio = xp.where(active, ratio, zero)
        direction = residual + ratio * direction
        used = used + (xp.astype(active, norm.dtype) if every > 1 else 1)
    return solution, int(used)
