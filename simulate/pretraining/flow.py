r"""Gradient flow on rank-one features, without ever forming their covariance.

The flow :math:`\dot\Gamma = b - (S + \lambda)\Gamma` with
:math:`S = \frac dn\sum\phi\phi^\top` has at time t moved from its start :math:`\Gamma_0` by
:math:`f(S)\,[b - (S + \lambda)\Gamma_0]`, with
:math:`f(s) = (1 - e^{-(s + \lambda)t})/(s + \lambda)`.  This is found in a Krylov space by
Lanczos' method: one pass over the prompts a step, and some :math:`\sqrt{t \lVert S\rVert}` steps.
The basis is kept orthogonal to rounding, which takes memory for as many matrices as steps.
"""

import math
from dataclasses import replace

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg import eigh_tridiagonal

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
    scale = x.shape[1] / x.shape[0]
    right = scale * adjoint(blocks, y) - scale * normal(blocks, start) - ridge * start
    length = float(array_namespace(right).linalg.vector_norm(right))
    if length == 0 or time == 0:
        return RidgeSolution(start, "flow", 0, 0.0)
    moved = _moved(blocks, scale, right / length, time, ridge)
    return replace(moved, gamma=start + length * moved.gamma)


def _moved(blocks: Blocks, scale: float, first: Array, time: float, ridge: float) -> RidgeSolution:
    """Function f of S, applied to a direction of length 1 (module docstring)."""
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
        last = norm <= NOTHING * max(diagonal) or len(basis) == new.shape[0]
        if last or len(basis) % LOOK == 0:
            weights = _weights(diagonal, beside, time, ridge)
            residual = float(np.max(np.abs(weights[-2:])) / np.linalg.norm(weights))
            if last or residual < TOLERANCE:
                gamma = xp.reshape(xp.asarray(weights) @ stacked, first.shape)
                return RidgeSolution(gamma, "flow", len(basis), 0.0 if last else residual)
        beside.append(norm)
        basis.append(xp.reshape(new / norm, first.shape))
    raise ArithmeticError(
        f"the flow to time {time:g} needs more than {MOST_STEPS} passes over the prompts: take a "
        "shorter time, a ridge, or inf"
    )


def _weights(diagonal: list[float], beside: list[float], time: float, ridge: float) -> np.ndarray:
    """What each direction of the basis has moved by, per length of the first."""
    values, vectors = eigh_tridiagonal(diagonal, beside[: len(diagonal) - 1])
    decay = np.maximum(values, 0.0) + ridge
    moved = np.full(decay.shape, float(time))
    seen = decay * time > 0
    moved[seen] = -np.expm1(-decay[seen] * time) / decay[seen]
    return np.asarray(vectors @ (vectors[0] * moved))
