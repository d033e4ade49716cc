"""Search for the best real learning rates where the optimal residual polynomial has complex zeros.

With much noise the zeros of the best residual polynomial are complex, and no real rates have this
polynomial.  The best real rates are then found by Newton's method from many starts, for all points
of a grid at once.  The theory is in `iclimit.asymptotics.descent.schedules`.
"""

from __future__ import annotations

import numpy as np

from iclimit.asymptotics.numbers import Value

# Starts of the search.  With complex zeros the loss has many local minima: from the real parts of
# the zeros alone the result was up to 3.3 times the optimum.
_STARTS = 96

# Newton steps from every start.
_FIRST_STEPS = 12

# Number of the best points that go on after them.
_KEPT = 8

# Most Newton steps of those that go on.
_NEWTON_STEPS = 200

# Least damping of Newton's method, relative to the Hessian, and the damping at which it stops.
_DAMPING = (1e-9, 1e6)

# Most elements of the Hessians that are held at a time.
_BATCH = 2_000_000


def residual_zeros_matrix(theta: Value, noise: Value) -> np.ndarray:
    """Matrices whose eigenvalues are the zeros of the optimal residual P."""
    difference = theta[..., :, None] - theta[..., None, :]
    diagonal = np.eye(theta.shape[-1], dtype=bool)
    factor = np.where(
        diagonal, -1.0, (theta + noise)[..., None, :] / np.where(diagonal, 1.0, difference)
    )
    # (-1)^L prod_{j != l} (theta_j + v) / (theta_l - theta_j), times v
    row = noise * np.prod(-factor, axis=-1)
    return theta[..., None] * diagonal + row[..., None, :]


def best_real_rates(
    roots: np.ndarray, nodes: np.ndarray, weights: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Best real rates where the optimal residual has complex zeros, for many points at once.

    At the optimum some rates have merged into multiple ones.  There the loss is an ordinary
    minimum in the rates, so Newton's method with Levenberg's damping converges quickly.
    """
    steps = roots.shape[-1]
    rates = np.empty(roots.shape)
    value = np.empty(len(roots))
    size = max(1, _BATCH // (_STARTS * steps**2))
    for first in range(0, len(roots), size):
        part = slice(first, first + size)
        candidates = _starts(roots[part], nodes[part], noise[part])
        for newton_steps, kept in ((_FIRST_STEPS, _KEPT), (_NEWTON_STEPS, 1)):
            count = candidates.shape[1]
            x = np.repeat(nodes[part], count, axis=0)
            w = np.repeat(weights[part], count, axis=0)
            v = np.repeat(noise[part], count, axis=0)
            flat, losses = _descend(candidates.reshape(-1, steps), x, w, v, newton_steps)
            order = np.argsort(losses.reshape(-1, count), axis=1)[:, :kept, None]
            candidates = np.take_along_axis(flat.reshape(-1, count, steps), order, axis=1)
            losses = np.take_along_axis(losses.reshape(-1, count), order[..., 0], axis=1)
        rates[part] = candidates[:, 0]
        value[part] = losses[:, 0]
    return np.sort(rates, axis=-1), value


def _starts(roots: np.ndarray, nodes: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """Rates to start from, (B, starts, L): the real parts of the roots and random clusters.

    The clusters are the same for every point, in units of its spectrum and noise.  So the result
    at a point does not depend on the other points of the grid.
    """
    steps = roots.shape[-1]
    rng = np.random.default_rng(0)
    top = nodes.max(axis=-1)[:, None, None]
    v = noise[:, None, None]
    spread = 1 + 0.05 * np.sign(roots.imag[:, None, :])
    parts = np.clip(roots.real[:, None, :], 1e-3 * top, steps * (top + v))
    zeros = [parts / spread]
    uneven = 1 + 0.01 * np.linspace(-1, 1, steps)
    # One rate for all: from gradient flow, at 1/(L (theta + v)), to steps beyond the spectrum.
    for share in np.geomspace(0.1, 2 * steps, 16):
        zeros.append((share * top + min(share, steps) * v) * uneven)
    for k in range(_STARTS - len(zeros)):
        position = np.exp(rng.uniform(np.log(0.03), np.log(3), 3))
        shift = rng.uniform(0, steps, 3) * rng.integers(0, 2, 3)
        if k % 2:
            label = rng.integers(0, rng.integers(2, 4), steps)
        else:
            label = np.repeat([0, 1, 2], [steps, *rng.integers(0, 4, 2)])[-steps:]
        jitter = 1 + 0.05 * rng.standard_normal(steps)
        zeros.append((position[label] * top + shift[label] * v) * jitter)
    return np.concatenate([1 / zero for zero in zeros], axis=1)


def _descend(
    rates: np.ndarray, nodes: np.ndarray, weights: np.ndarray, noise: np.ndarray, newton_steps: int
) -> tuple[np.ndarray, np.ndarray]:
    """Newton's method on the rates of many points, each with its own damping."""
    # A step too far may overflow; it is not taken.
    with np.errstate(over="ignore", invalid="ignore"):
        value, gradient, hessian = _expand_loss(rates, nodes, weights, noise)
        damping = np.full(len(rates), 1e-3)
        uneven = np.diag(np.linspace(1, 1.01, rates.shape[-1]))
        for _ in range(newton_steps):
            active = np.flatnonzero(damping < _DAMPING[1])
            if not active.size:
                break
            scale = np.abs(hessian[active]).max(axis=(-2, -1)) * damping[active]
            # Where all nodes are one to rounding the loss is that of the product of 1 - rate: its
            # Hessian is 0, or singular with some multiple of the identity.
            scale = np.maximum(scale, np.finfo(float).tiny)
            damped = hessian[active] + scale[:, None, None] * uneven
            trial = rates[active] - np.linalg.solve(damped, gradient[active][..., None])[..., 0]
            fresh = _expand_loss(trial, nodes[active], weights[active], noise[active])
            better = fresh[0] < value[active]
            moved = active[better]
            rates[moved] = trial[better]
            for old, new in zip((value, gradient, hessian), fresh, strict=True):
                old[moved] = new[better]
            factor = np.where(better, 0.1, 10.0)
            damping[active] = np.maximum(damping[active] * factor, _DAMPING[0])
        return rates, value


def _expand_loss(
    rates: np.ndarray, nodes: np.ndarray, weights: np.ndarray, noise: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss with its gradient and Hessian in the rates, (B,), (B, L) and (B, L, L)."""
    steps = rates.shape[-1]
    factors = 1 - rates[..., None] * nodes[:, None, :]

    def product_without(*left_out: int) -> np.ndarray:
        kept = [k for k in range(steps) if k not in left_out]
        return np.prod(factors[:, kept, :], axis=1)

    P = product_without()
    # 1 - P is a multiple of the node, and both vanish at node 0.
    Q = np.divide(1 - P, nodes, out=np.zeros_like(nodes), where=nodes > 0)
    v = noise[:, None]
    value = np.sum(weights * (P**2 + v * nodes * Q**2), axis=-1)
    others = np.stack([product_without(k) for k in range(steps)], axis=1)
    pull = 2 * weights * nodes * (v * Q - P)
    gradient = np.sum(pull[:, None, :] * others, axis=-1)
    curvature = 2 * weights * nodes * (nodes + v)
    hessian = np.einsum("bn,bkn,bln->bkl", curvature, others, others)
    for k in range(steps):
        for other in range(k):
            mixed = -np.sum(pull * nodes * product_without(k, other), axis=-1)
            hessian[:, k, other] += mixed
            hessian[:, other, k] += mixed
    return value, gradient, hessian
