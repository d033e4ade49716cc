r"""Gradient flow and descent on rank-one features, without ever forming their covariance.

The flow :math:`\dot\Gamma = b - (S + \lambda)\Gamma` with
:math:`S = \frac dn\sum\phi\phi^\top` has at time t moved from its start :math:`\Gamma_0` by
:math:`f(S)\,[b - (S + \lambda)\Gamma_0]`, with
:math:`f(s) = (1 - e^{-(s + \lambda)t})/(s + \lambda)`.  This is found in a Krylov space by
Lanczos' method: one pass over the prompts a step, and some :math:`\sqrt{t \lVert S\rVert}` steps.
The basis is kept orthogonal to rounding, which takes memory for as many matrices as steps.

Gradient descent applies a polynomial to the same direction, of a degree below its number of
steps, so that as many directions are enough.  Its values are powers of the matrix of a step.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg import eigh_tridiagonal

from iclimit.experiment import Descent
from iclimit.simulate.arrays import Array
from iclimit.simulate.pretraining.ridge import (
    Blocks,
    RidgeSolution,
    adjoint,
    normal,
    predictions,
    row_pairs,
    solve_ridge,
)

# Share of the change of Gamma that the last direction may have when the search ends.
TOLERANCE = 1e-8

# Most directions: 200 MB of them at d = 100.
MOST_STEPS = 2500

# Directions between looks at the result, which cost little but not nothing.
LOOK = 8

# Function of the eigenvalues of S plus the ridge, or several, (functions, eigenvalues).
Moves = Callable[[np.ndarray], np.ndarray]

# Length of a new direction, relative to the largest eigenvalue, from which on it is rounding.
NOTHING = 1e-13


def follow_flow(
    x: Array,
    h: Array,
    y: Array,
    start: Array,
    time: float,
    ridge: float,
    *,
    method: str = "auto",
    tolerance: float = 1e-8,
) -> RidgeSolution:
    """Gamma after a time of gradient flow on prompts.

    Parameters
    ----------
    x : array (n, d)
        Query inputs.
    h : array (n, d + 1)
        Context summaries.
    y : array (n,)
        Query labels.
    start : array (d, d + 1)
        Gamma at time 0.
    time : float >= 0
        Training time; inf is the end of the flow, which is found by `solve_ridge`.
    ridge : float >= 0
        Weight decay.
    method, tolerance
        As in `solve_ridge`, for the end of the flow.

    Returns
    -------
    RidgeSolution
        Of the method "flow" for finite times.

    Raises
    ------
    ArithmeticError
        If the time is too long for the largest number of directions.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.simulate.pretraining.flow import follow_flow
    >>> rng = np.random.default_rng(0)
    >>> x, h, y = rng.standard_normal((50, 4)), rng.standard_normal((50, 5)), np.ones(50)
    >>> bool(np.all(follow_flow(x, h, y, np.zeros((4, 5)), 0.0, 0.0).gamma == 0))
    True
    """
    blocks = row_pairs(x, h)
    if math.isinf(time):
        if ridge > 0:
            return solve_ridge(x, h, y, ridge, method=method, tolerance=tolerance)
        rest = y - predictions(blocks, start)
        end = solve_ridge(x, h, rest, 0.0, method=method, tolerance=tolerance)
        return RidgeSolution(start + end.gamma, end.method, end.iterations, end.residual)
    if time == 0:
        return RidgeSolution(start, "flow", 0, 0.0)
    return _followed(blocks, y, start, ridge, partial(_flowed, time), f"time {time:g}")


def flow_at_times(
    x: Array, h: Array, y: Array, start: Array, times: Sequence[float], ridge: float
) -> Array:
    """Gamma at several times of one gradient flow, (times, d, d + 1).

    Arrays as of `follow_flow`; times are positive and finite, and the longest one sets the costs.

    Raises
    ------
    ArithmeticError
        If a time is too long for the largest number of directions.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.simulate.pretraining.flow import flow_at_times, follow_flow
    >>> rng = np.random.default_rng(0)
    >>> x, h, y = rng.standard_normal((50, 4)), rng.standard_normal((50, 5)), np.ones(50)
    >>> gammas = flow_at_times(x, h, y, np.zeros((4, 5)), [0.1, 2.0], 0.0)
    >>> bool(np.allclose(gammas[1], follow_flow(x, h, y, np.zeros((4, 5)), 2.0, 0.0).gamma))
    True
    """

    def moves(decay: np.ndarray) -> np.ndarray:
        return np.stack([_flowed(time, decay) for time in times])

    return _followed(row_pairs(x, h), y, start, ridge, moves, f"time {max(times):g}").gamma


def follow_descent(x: Array, h: Array, y: Array, start: Array, training: Descent) -> RidgeSolution:
    """Gamma after steps of gradient descent on prompts; arrays as of `follow_flow`.

    Raises
    ------
    ArithmeticError
        If it overflowed, or takes too many directions.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit import Descent
    >>> from iclimit.simulate.pretraining.flow import follow_descent
    >>> rng = np.random.default_rng(0)
    >>> x, h, y = rng.standard_normal((50, 4)), rng.standard_normal((50, 5)), np.ones(50)
    >>> gamma = follow_descent(x, h, y, np.zeros((4, 5)), Descent(1, 0.25)).gamma
    >>> bool(np.allclose(gamma, 0.25 * 2 / 50 * x.T @ h))
    True
    """
    blocks = row_pairs(x, h)
    step = 2 * training.learning_rate / x.shape[1]
    moves = partial(_descended, training.steps, step, training.momentum)
    with np.errstate(over="ignore", invalid="ignore"):
        solution = _followed(
            blocks, y, start, training.ridge, moves, f"step {training.steps}", training.steps
        )
    if not bool(array_namespace(x).all(array_namespace(x).isfinite(solution.gamma))):
        raise ArithmeticError("a run overflowed: learning_rate is too large")
    return replace(solution, method="descent")


def _followed(
    blocks: Blocks,
    y: Array,
    start: Array,
    ridge: float,
    moves: Moves,
    end: str,
    most: int | float = math.inf,
) -> RidgeSolution:
    """Gamma after a training whose moves are a function of S plus the ridge.

    ``end`` says until when, and ``most`` how many directions are always enough.
    """
    xp = array_namespace(y)
    scale = start.shape[0] / y.shape[0]
    right = scale * adjoint(blocks, y) - scale * normal(blocks, start) - ridge * start
    length = float(xp.linalg.vector_norm(right))
    if length == 0:
        return RidgeSolution(start, "flow", 0, 0.0)
    moved = _moved(blocks, scale, right / length, lambda s: moves(s + ridge), most)
    if moved is None:
        raise ArithmeticError(
            f"training to {end} needs more than {MOST_STEPS} passes over the prompts: take a "
            "shorter time, a ridge, or inf"
        )
    return replace(moved, gamma=start + length * moved.gamma)


def _moved(
    blocks: Blocks, scale: float, first: Array, moves: Moves, most: int | float
) -> RidgeSolution | None:
    """Function of S, applied to a direction of length 1; None if it takes too many directions."""
    xp = array_namespace(first)
    basis = [first]
    diagonal: list[float] = []
    beside: list[float] = []
    while len(basis) <= MOST_STEPS:
        image = scale * normal(blocks, basis[-1])
        diagonal.append(float(xp.sum(image * basis[-1])))
        stacked = xp.reshape(xp.stack(basis), (len(basis), -1))
        new = xp.reshape(image, (-1,))
        # Twice is enough for orthogonality to rounding.
        for _ in range(2):
            new = new - stacked.T @ (stacked @ new)
        norm = float(xp.linalg.vector_norm(new))
        last = norm <= NOTHING * max(diagonal) or len(basis) >= min(most, new.shape[0])
        if last or len(basis) % LOOK == 0:
            weights = _weights(diagonal, beside, moves)
            ends = np.max(np.abs(weights[-2:]), axis=0)
            residual = float(np.max(ends / np.linalg.norm(weights, axis=0)))
            if last or residual < TOLERANCE:
                gamma = xp.asarray(weights.T) @ stacked
                gamma = xp.reshape(gamma, (*weights.shape[1:], *first.shape))
                return RidgeSolution(gamma, "flow", len(basis), 0.0 if last else residual)
        beside.append(norm)
        basis.append(xp.reshape(new / norm, first.shape))
    return None


def _weights(diagonal: list[float], beside: list[float], moves: Moves) -> np.ndarray:
    """What each direction of the basis (first axis) has moved by, per length of the first."""
    values, vectors = eigh_tridiagonal(diagonal, beside[: len(diagonal) - 1])
    return np.asarray(vectors @ (vectors[0] * moves(np.maximum(values, 0.0))).T)


def _flowed(time: float, decay: np.ndarray) -> np.ndarray:
    """Moves after a time, per force: (1 - exp(-s t))/s."""
    moved = np.full(decay.shape, float(time))
    seen = decay * time > 0
    moved[seen] = -np.expm1(-decay[seen] * time) / decay[seen]
    return moved


def _descended(steps: int, step: float, momentum: float, decay: np.ndarray) -> np.ndarray:
    """Moves after steps of gradient descent, per force."""
    # From a place, the one before and a constant 1 to those a step later.
    matrix = np.zeros((len(decay), 3, 3))
    matrix[:, 0, 0] = 1 + momentum - step * decay
    matrix[:, 0, 1] = -momentum
    matrix[:, 0, 2] = step
    matrix[:, 1, 0] = 1
    matrix[:, 2, 2] = 1
    return np.linalg.matrix_power(matrix, steps)[:, 0, 2]
