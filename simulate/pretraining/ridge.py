r"""Ridge regression on rank-one features, without ever forming them.

The features of linear attention are :math:`x_i h_i^\top` with :math:`p = d(d+1)` entries; the
estimator minimises
:math:`\sum_i (y_i - x_i^\top\Gamma h_i)^2 + \frac nd\lambda\lVert\Gamma\rVert_F^2`.
Two structures make it cheap (Khatri-Rao product):

* the :math:`n \times n` Gram matrix is the Hadamard product of the Gram matrices of x and h;
* applying the features or their transpose takes one :math:`n \times d \times d` product.

For n >= p the normal equations are solved by conjugate gradients.  Right multiplication by the
inverse root of :math:`\frac1n\sum_i h_i h_i^\top + \lambda` makes their spectrum about that of a
Marchenko-Pastur law of ratio p/n, so the number of iterations does not grow with d; memory is
O(n d).  For n < p the dual system is solved, directly when the Gram matrix is small, by conjugate
gradients otherwise; as the ridge tends to 0 it gives the solution of least norm.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, looks_every, row_blocks
from iclimit.simulate.checks import check_choice

DENSE_GRAM = 2048
"""Largest dual system solved directly (32 MiB); above, iterating is faster at moderate alpha."""


Solved: TypeAlias = tuple[Array, int, float]
"""Solution, number of iterations and relative residual."""


@dataclass(frozen=True)
class RidgeSolution:
    """Solution of the ridge regression.

    Attributes
    ----------
    gamma : array (d, d + 1)
        Reduced attention matrix.
    method : {"primal-cg", "dual-dense", "dual-cg"}
        How it was found.
    iterations : int
        Conjugate gradient iterations; 0 for the direct solve.
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
    method : {"auto", "primal-cg", "dual-dense", "dual-cg"}
        "auto" chooses by size.  The primal method needs n >= d (d + 1) or a positive ridge.
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
    solvers: Any = {"primal-cg": _primal_cg, "dual-dense": _dual_dense, "dual-cg": _dual_cg}
    check_choice("method", method, ("auto", *solvers))
    if method == "auto":
        method = choose_method(n, d)
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


def choose_method(prompts: int, d: int) -> str:
    """Method of the solve for that many prompts, by size."""
    if prompts >= d * (d + 1):
        return "primal-cg"
    return "dual-dense" if prompts <= DENSE_GRAM else "dual-cg"


def _row_blocks(x: Array, h: Array) -> Iterator[slice]:
    """Blocks of prompts, by the size of their summaries."""
    xp = array_namespace(x)
    return row_blocks(xp, x.shape[0], h.shape[1] * xp.finfo(h.dtype).bits // 8)


def _apply(x: Array, h: Array, gamma: Array) -> Array:
    """Predictions x_i^T gamma h_i."""
    xp = array_namespace(x)
    return xp.concat([xp.vecdot(x[rows, :] @ gamma, h[rows, :]) for rows in _row_blocks(x, h)])


def _adjoint(x: Array, h: Array, weights: Array) -> Array:
    """Sum of weights_i x_i h_i^T."""
    xp = array_namespace(x)
    total = xp.zeros((x.shape[1], h.shape[1]), dtype=x.dtype)
    for rows in _row_blocks(x, h):
        total += x[rows, :].T @ (h[rows, :] * weights[rows, None])
    return total


def normal(x: Array, h: Array, gamma: Array) -> Array:
    """Adjoint of the predictions of gamma, in one pass over the prompts."""
    xp = array_namespace(x)
    total = xp.zeros_like(gamma)
    for rows in _row_blocks(x, h):
        query, summary = x[rows, :], h[rows, :]
        weights = xp.vecdot(query @ gamma, summary)
        total += query.T @ (summary * weights[:, None])
    return total


def _in_both_precisions(*arrays: Array) -> dict[Any, list[Array]]:
    """Map the dtypes float32 and float64 to copies of the arrays, which are in float64."""
    xp = array_namespace(*arrays)
    single = [xp.astype(v, xp.float32) for v in arrays]
    return {single[0].dtype: single, arrays[0].dtype: list(arrays)}


def _primal_cg(
    x: Array, h: Array, y: Array, penalty: float, tolerance: float, limit: int
) -> Solved:
    xp = array_namespace(x)
    variances, basis = _principal_axes(x)
    variances_h, basis_h = _principal_axes(h)
    expected = variances[:, None] * variances_h / x.shape[0] + penalty
    # Directions that no feature has (one task without noise) stay out: least norm.
    present = expected > 0
    scale = xp.where(present, 1 / xp.sqrt(xp.where(present, expected, 1.0)), 0.0)
    copies = _in_both_precisions(x, h, basis, basis_h, scale, penalty * scale**2)

    def operator(v: Array) -> Array:
        # Whitening Gamma instead of the features costs 1/d of an application and no memory.
        query, summary, left, right, root, shrink = copies[v.dtype]
        image = normal(query, summary, left @ (root * v) @ right.T)
        return root * (left.T @ image @ right) + shrink * v

    target = scale * (basis.T @ _adjoint(x, h, y) @ basis_h)
    whitened, iterations, residual = refined_solve(operator, target, tolerance, limit)
    return basis @ (scale * whitened) @ basis_h.T, iterations, residual


def _principal_axes(rows: Array) -> tuple[Array, Array]:
    """Eigenvalues of the sum of their outer products, and eigenvectors.

    Rounding leaves at most 3e-16 of the largest eigenvalue where it should be 0.
    """
    xp = array_namespace(rows)
    values, basis = xp.linalg.eigh(rows.T @ rows)
    null = values <= rows.shape[1] * xp.finfo(values.dtype).eps * values[-1]
    return xp.where(null, xp.zeros_like(values), values), basis


def _dual_cg(x: Array, h: Array, y: Array, penalty: float, tolerance: float, limit: int) -> Solved:
    copies = _in_both_precisions(x, h)

    def operator(v: Array) -> Array:
        query, summary = copies[v.dtype]
        return _apply(query, summary, _adjoint(query, summary, v)) + penalty * v

    weights, iterations, residual = refined_solve(operator, y, tolerance, limit)
    return _adjoint(x, h, weights), iterations, residual


def _dual_dense(x: Array, h: Array, y: Array, penalty: float, *_: float) -> Solved:
    xp = array_namespace(x)
    gram = (x @ x.T) * (h @ h.T) + penalty * xp.eye(x.shape[0], dtype=x.dtype)
    try:
        weights = xp.linalg.solve(gram, y[:, None])[:, 0]
    except np.linalg.LinAlgError:  # that of every backend
        return 0 * x.T @ h, 0, math.inf
    residual, scale = (float(xp.linalg.vector_norm(v)) for v in (gram @ weights - y, y))
    return _adjoint(x, h, weights), 0, residual / (scale or 1.0)


def refined_solve(
    operator: Callable[[Array], Array], right: Array, tolerance: float, limit: int
) -> Solved:
    """Solve operator(v) = right in float64, iterating in float32 while that makes progress.

    Iterative refinement: corrections are found by conjugate gradients in float32, at half the
    cost, and residuals are computed in float64.  Where a correction gains less than a factor of
    ten, the conditioning is beyond float32 and the rest is done in float64.

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

    Returns
    -------
    solution, iterations, relative residual
    """
    xp = array_namespace(right)
    norm = start = float(xp.sqrt(xp.sum(right**2)))
    solution, residual, iterations, precision = 0 * right, right, 0, xp.float32
    while norm > tolerance * start and iterations < limit:
        goal, allowed = max(FLOAT32_GAIN, tolerance * start / norm), limit - iterations
        if precision == xp.float64:
            goal = 0.5 * tolerance * start / norm
        else:
            # An operator that float32 rounding has made indefinite would iterate for ever.
            allowed = min(allowed, 4 * math.prod(right.shape))
        correction, used = conjugate_gradients(
            operator, xp.astype(residual / norm, precision), goal, allowed
        )
        iterations += used
        trial = solution + norm * xp.astype(correction, xp.float64)
        left = right - operator(trial)
        previous, found = norm, float(xp.sqrt(xp.sum(left**2)))
        if found < norm:  # a failed correction is dropped
            solution, residual, norm = trial, left, found
        if not found <= 0.1 * previous:
            if precision == xp.float64:
                break
            precision = xp.float64
    return solution, iterations, 0.0 if start == 0 else norm / start


FLOAT32_GAIN = 1e-4
"""Factor by which one float32 correction is to reduce the residual."""


def conjugate_gradients(
    operator: Callable[[Array], Array], right: Array, tolerance: float, limit: int
) -> tuple[Array, int]:
    """Solve operator(v) = right, positive definite, from zero; return it and the iterations.

    Own code because it must run on the arrays of any backend and on matrices as unknowns.  On a
    GPU some iterations too many are run; those leave the solution as it is.
    """
    xp = array_namespace(right)
    solution, residual, direction = xp.zeros_like(right), right, right
    norm = xp.sum(right * right)
    target, used, zero = tolerance**2 * norm, 0 * norm, 0 * norm
    for iteration in range(limit):
        active = norm > target
        if iteration % looks_every(xp) == 0 and not bool(active):
            break
        image = operator(direction)
        step = xp.where(active, norm / xp.sum(direction * image), zero)
        solution = solution + step * direction
        residual = residual - step * image
        previous, norm = norm, xp.sum(residual * residual)
        direction = residual + xp.where(active, norm / previous, zero) * direction
        used = used + xp.astype(active, norm.dtype)
    return solution, int(used)
