r"""Search for the best rates and preconditioning of GD++, over a spectrum and over an interval.

The residual :math:`P` and the loss are those of `iclimit.asymptotics.gdpp.losses`.  Both problems
have many local minima, so both searches start from many points at once.  The starts are drawn from
a fixed seed, layer by layer, in units of the transformed spectrum :math:`\lambda_l`.

*Average case.*  Levenberg-Marquardt, since the loss is a weighted sum of squares in P and Q, then
Newton's method with the exact Hessian (complex step in the gradient) for the best of them.

*Worst case.*  The same descent on the p-norms of P for growing p, then sequential linear
programming on the extrema of P, which converges quadratically where 2 L of them are of equal
height, one more than there are rates and gammas.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import linprog

from iclimit.asymptotics.numbers import Value

# A descent ends when its damping exceeds this number.
_MOST_DAMPING = 1e12

# Least damping of a descent.
_LEAST_DAMPING = 1e-15

# Complex step of a derivative: its square vanishes against any number of the theory.
_IMAGINARY = 1e-100

# Grid points for each degree: between two of them a residual is at most 1/cos(pi/32) larger.
_GRID = 16

# Starts of the average case for 1, 2, ... layers, and how many of them Newton's method follows.
_AVERAGE = ((16, 16), (200, 200), (1000, 300), (2500, 100), (1500, 60), (400, 30))

# Starts of the worst case for 1, 2, ... layers, and how many distinct ones are equalised.
_WORST = ((16, 1), (150, 10), (300, 12), (500, 12), (300, 8))

# Half the p of the p-norms, in two sequences.  From p = 2 all starts reach the same few points,
# which miss the best one at a condition number of 100 and two layers.
_POWERS = (1, 2, 4, 8, 16, 32), (4, 8, 16, 32)

# Points are taken for the same if their p-norms differ by less than this, relative.
_SAME = 1e-4

# Number of the best minima that are perturbed and followed again.
_AGAIN = 8

# Number of perturbations of each of these minima.
_CHANGES = 25

# Elements of the largest array held at a time.
_CHUNK = 2_000_000

# A minimum has converged if Newton's method predicts a smaller decrease, relative to the loss.
_CONVERGED = 1e-7

# Two minima are distinct if their losses differ by more than this, relative.
_DISTINCT = 1e-8

Objective = Callable[[np.ndarray], tuple[Any, Any, Any]]


def residual(rates: Value, gammas: Value, nodes: Value) -> tuple[Value, Value]:
    """P and Q at the nodes, (..., n), of rates (..., L) and gammas (..., L - 1)."""
    P = np.ones_like(nodes)
    Q = np.zeros_like(nodes)
    scale = np.ones_like(nodes)
    for layer in range(rates.shape[-1]):
        step = rates[..., layer, None] * scale
        Q = Q + step * P
        P = P * (1 - step * nodes)
        if layer < gammas.shape[-1]:
            scale = scale * (1 - gammas[..., layer, None] * nodes * scale) ** 2
    return P, Q


def degree(layers: int) -> int:
    """Degree of the residual P in the eigenvalue."""
    return (3**layers - 1) // 2


def _expand(x: np.ndarray, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """P and Q, (B, n), and the derivative of P in rates and gammas, (B, 2 L - 1, n)."""
    layers = (x.shape[-1] + 1) // 2
    shape = (*x.shape, nodes.size)
    P = np.ones(shape[::2], x.dtype)
    Q = np.zeros(shape[::2], x.dtype)
    scale = np.ones(shape[::2], x.dtype)
    scale_slope = np.zeros(shape, x.dtype)
    slope = np.zeros(shape, x.dtype)
    for layer in range(layers):
        rate = x[:, layer, None]
        value = nodes * scale
        factor = 1 - rate * value
        Q = Q + rate * scale * P
        slope = slope * factor[:, None] - (P * nodes * rate)[:, None] * scale_slope
        slope[:, layer] -= P * value
        P = P * factor
        if layer < layers - 1:
            gamma = x[:, layers + layer, None]
            root = 1 - gamma * value
            # d(scale root^2) with root = 1 - gamma nodes scale
            scale_slope = scale_slope * (root * (root - 2 * gamma * value))[:, None]
            scale_slope[:, layers + layer] -= 2 * scale * root * value
            scale = scale * root**2
    return P, Q, slope


def average_objective(nodes: np.ndarray, weights: np.ndarray, noise: float) -> Objective:
    """Loss over positive nodes with its gradient and Gauss-Newton matrix, halves of them."""

    def objective(x: np.ndarray) -> tuple[Value, Value, Value]:
        P, Q, slope = _expand(x, nodes)
        value = np.sum(weights * (P**2 + noise * nodes * Q**2), axis=-1)
        gradient = np.sum((weights * (P - noise * Q))[:, None] * slope, axis=-1)
        matrix = (slope * (weights * (1 + noise / nodes))) @ np.swapaxes(slope, -1, -2)
        return value, gradient, matrix

    return objective


def norm_objective(nodes: np.ndarray, power: int) -> Objective:
    """Logarithm of the p-norm of P, p = 2 power, with gradient and curvature for linear P."""

    def objective(x: np.ndarray) -> tuple[Value, Value, Value]:
        P, _, slope = _expand(x, nodes)
        top = np.max(abs(P), axis=-1, keepdims=True)
        share = (P / top) ** (2 * power - 2)
        total = np.sum(share * (P / top) ** 2, axis=-1)
        value = np.log(top[:, 0]) + np.log(total) / (2 * power)
        share /= total[:, None] * top**2
        gradient = np.sum((share * P)[:, None] * slope, axis=-1)
        matrix = (slope * share[:, None]) @ np.swapaxes(slope, -1, -2)
        return value, gradient, (2 * power - 1) * matrix

    return objective


def exact(objective: Objective) -> Objective:
    """The same objective with its exact Hessian, by complex steps in the gradient."""

    def with_hessian(x: np.ndarray) -> tuple[Value, Value, Value]:
        value, gradient, _ = objective(x)
        count = x.shape[-1]
        shifted = x[:, None] + 1j * _IMAGINARY * np.eye(count)
        columns = objective(shifted.reshape(-1, count))[1].imag / _IMAGINARY
        hessian = columns.reshape(-1, count, count)
        return value, gradient, (hessian + np.swapaxes(hessian, -1, -2)) / 2

    return with_hessian


def _scaled(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scales that give a symmetric matrix a unit diagonal, and its spectrum then."""
    diagonal = abs(np.diagonal(matrix, axis1=-2, axis2=-1))
    root = np.sqrt(diagonal + 1e-12 * np.max(diagonal, axis=-1, keepdims=True) + 1e-300)
    eigenvalues, vectors = np.linalg.eigh(matrix / root[:, :, None] / root[:, None, :])
    return root, eigenvalues, vectors


def descend(objective: Objective, x: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Levenberg-Marquardt from many starts (B, p), each with its own damping."""
    # A step too far may overflow; it is not taken.
    with np.errstate(all="ignore"):
        value, gradient, matrix = objective(x)
        fine = np.isfinite(value) & np.all(np.isfinite(matrix), axis=(-2, -1))
        x = x[fine]
        value = value[fine]
        gradient = gradient[fine]
        matrix = matrix[fine]
        damping = np.full(len(x), 1e-2)
        for _ in range(steps):
            active = np.flatnonzero(damping < _MOST_DAMPING)
            if not active.size:
                break
            root, eigenvalues, vectors = _scaled(matrix[active])
            pull = np.einsum("bij,bi->bj", vectors, gradient[active] / root)
            # Eigenvalues without their signs lead away from saddles.
            pull /= abs(eigenvalues) + damping[active, None]
            trial = x[active] - np.einsum("bij,bj->bi", vectors, pull) / root
            fresh = objective(trial)
            better = (fresh[0] < value[active]) & np.all(np.isfinite(fresh[2]), axis=(-2, -1))
            moved = active[better]
            x[moved] = trial[better]
            for old, new in zip((value, gradient, matrix), fresh, strict=True):
                old[moved] = new[better]
            factor = np.where(better, 0.2, 8.0)
            damping[active] = np.maximum(damping[active] * factor, _LEAST_DAMPING)
    return x, value


def random_starts(layers: int, count: int, lower: float, noise: float) -> np.ndarray:
    """Rates and gammas, (count, 2 L - 1), for a spectrum on [lower, 1]; the same for every call.

    A zero of each factor of P lies within the spectrum of its layer, and gamma lies between a
    fifth and 2.4 times the reciprocal top: preconditioning with and without folding.
    """
    rng = np.random.default_rng([layers, count])
    spectrum = np.tile(lower + (1 - lower) * np.linspace(0, 1, 65) ** 2, (count, 1))
    rates = []
    gammas = []
    for _ in range(layers):
        ordered = np.sort(spectrum, axis=-1)
        zero = ordered[np.arange(count), rng.integers(0, 65, count)]
        zero = zero * np.exp(rng.normal(0, 0.2, count)) + noise
        rates.append(1 / (zero + 1e-3 * ordered[:, -1]))
        gammas.append(np.exp(rng.uniform(np.log(0.2), np.log(2.4), count)) / ordered[:, -1])
        spectrum = spectrum * (1 - gammas[-1][:, None] * spectrum) ** 2
    return np.array(rates + gammas[:-1]).T


def perturbed_starts(minima: np.ndarray, count: int) -> np.ndarray:
    """Each solution changed at random, by a few to many per cent, count times."""
    rng = np.random.default_rng([*minima.shape, count])
    size = np.exp(rng.uniform(np.log(0.01), np.log(0.5), (count, len(minima), 1)))
    change = np.exp(size * rng.standard_normal((count, *minima.shape)))
    return (minima * change).reshape(-1, minima.shape[-1])


def angles_to_points(angle: Value, lower: Value) -> Value:
    """Point of [lower, 1] at an angle; P is an even trigonometric polynomial of it."""
    return lower + (1 - lower) * np.cos(angle / 2) ** 2


def peaks(
    rates: np.ndarray, gammas: np.ndarray, lower: np.ndarray, least: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Local maxima of |P| on [lower, 1] that exceed a share of the largest, for B residuals.

    Returns the row, the angle and the height of each, refined to rounding.
    """
    count = _GRID * degree(rates.shape[-1])
    spacing = np.pi / count

    def height(angle: np.ndarray, row: Value) -> np.ndarray:
        points = angles_to_points(angle, lower[row, None])
        return abs(residual(rates[row], gammas[row], points)[0])

    # One more point on each side: the reflections.
    grid = height(np.arange(-1, count + 2) * spacing, np.arange(len(rates)))
    inner = grid[:, 1:-1]
    top = np.max(inner, axis=-1, keepdims=True)
    high = (inner >= grid[:, :-2]) & (inner >= grid[:, 2:]) & (inner >= least * top)
    row, place = np.nonzero(high)
    angle = place * spacing
    best = inner[row, place]
    for _ in range(4):
        three = height(angle[:, None] + spacing * np.array([-1.0, 0.0, 1.0]), row)
        bend = three[:, 0] - 2 * three[:, 1] + three[:, 2]
        tilt = three[:, 0] - three[:, 2]
        shift = np.divide(tilt, 2 * bend, out=np.zeros_like(bend), where=bend < 0)
        trial = angle + spacing * np.clip(shift, -1, 1)
        value = height(trial[:, None], row)[:, 0]
        angle = np.where(value > best, trial, angle)
        best = np.maximum(value, best)
        spacing /= 16
    return row, angle, best


def equalise(x: np.ndarray, lower: float, steps: int) -> tuple[np.ndarray, float]:
    """Lower the largest |P| from a point x by sequential linear programming."""
    layers = (len(x) + 1) // 2

    def extrema(x: np.ndarray) -> tuple[np.ndarray, float]:
        rates = x[None, :layers]
        gammas = x[None, layers:]
        _, angle, best = peaks(rates, gammas, np.array([lower]), 0.1)
        return angle, float(best.max())

    angle, worst = extrema(x)
    radius = 0.1
    for _ in range(steps):
        if worst == 0:
            break
        change, gain = _linear_step(x, angles_to_points(angle, lower), worst, radius)
        # Below the rounding of P there is nothing to gain.
        if gain < max(1e-13, 1e-15 / worst):
            break
        trial = x * (1 + change)
        trial_angle, trial_worst = extrema(trial)
        reached = 1 - trial_worst / worst
        if reached > 0:
            x = trial
            angle = trial_angle
            worst = trial_worst
        radius = _next_radius(radius, reached, gain)
        if radius < 1e-14:
            break
    return x, worst


def _next_radius(radius: float, reached: float, gain: float) -> float:
    """Radius of the next step: smaller where a step gained less than expected, else larger."""
    if reached < 0.25 * gain:
        return radius * 0.25
    if reached > 0.7 * gain:
        return min(2 * radius, 0.5)
    return radius


def _linear_step(
    x: np.ndarray, points: np.ndarray, worst: float, radius: float
) -> tuple[np.ndarray, float]:
    """Relative change of x up to a radius that lowers P at all points, to first order.

    The relative gain comes with it; it is 0 if the linear program has no solution.
    """
    P, _, slope = _expand(x[None], points)
    # Changes in units of the radius; heights in units of the largest.
    rows = np.sign(P) * slope[0] * (radius * x[:, None]) / worst
    limits = np.vstack([rows, -np.ones(P.size)]).T
    bounds = [(-1, 1)] * len(x) + [(None, None)]
    program = linprog([0] * len(x) + [1], limits, -abs(P[0]) / worst, bounds=bounds)
    if not program.success:
        return 0 * x, 0.0
    return radius * program.x[:-1], 1 - program.x[-1]


def average_minima(
    layers: int, nodes: np.ndarray, weights: np.ndarray, noise: float, lower: float
) -> np.ndarray:
    """Distinct local minima of the loss over positive nodes, (K, 2 L - 1), best first.

    The bulk of the spectrum is [lower, 1].  ``weights`` are those of the positive nodes.
    """
    objective = average_objective(nodes, weights, noise)
    count, kept = _AVERAGE[layers - 1]
    minima = _follow(objective, random_starts(layers, count, lower, noise), kept, nodes.size)
    again = perturbed_starts(minima[:_AGAIN], _CHANGES)
    more = _follow(objective, again, kept, nodes.size)
    return _distinct(objective, np.concatenate([minima, more]))


def _follow(objective: Objective, starts: np.ndarray, kept: int, points: int) -> np.ndarray:
    """Strict local minima reached from the starts, of which the best are followed to the end."""
    count = starts.shape[-1]
    x, value = _descend_in_chunks(objective, starts, 20, _CHUNK // (count * points))
    best = x[np.argsort(value, kind="stable")[:kept]]
    x, _ = _descend_in_chunks(exact(objective), best, 60, _CHUNK // (count**2 * points))
    return _distinct(objective, x)


def _descend_in_chunks(
    objective: Objective, starts: np.ndarray, steps: int, size: int
) -> tuple[np.ndarray, np.ndarray]:
    size = max(1, size)
    parts = np.split(starts, range(size, len(starts), size))
    runs = [descend(objective, part, steps) for part in parts]
    return np.concatenate([x for x, _ in runs]), np.concatenate([value for _, value in runs])


def _distinct(objective: Objective, x: np.ndarray) -> np.ndarray:
    """Strict local minima among the points x, one of each height, best first."""
    value, gradient, hessian = exact(objective)(x)
    root, eigenvalues, vectors = _scaled(hessian)
    pull = np.einsum("bij,bi->bj", vectors, gradient / root)
    with np.errstate(all="ignore"):
        decrease = np.sum(pull**2 / eigenvalues, axis=-1)
        strict = np.all(eigenvalues > 0, axis=-1) & (decrease < _CONVERGED * value)
    if not np.any(strict):
        return x[np.argmin(value)][None]
    return _apart(x[strict], value[strict], _DISTINCT * value[strict])


def _apart(x: np.ndarray, value: np.ndarray, least: np.ndarray) -> np.ndarray:
    """Points by increasing value, without those whose value is close to the one before."""
    order = np.argsort(value, kind="stable")
    return x[order][np.diff(value[order], prepend=-np.inf) > least[order]]


def worst_minimum(layers: int, lower: float) -> np.ndarray:
    """Rates and gammas, (2 L - 1,), of the least largest |P| over [lower, 1] that is found."""
    count, kept = _WORST[layers - 1]
    minima = _equalised(random_starts(layers, count, lower, 0.0), lower, kept)
    best = np.array([x for x, _ in minima[:_AGAIN]])
    minima += _equalised(perturbed_starts(best, count // (4 * len(best))), lower, kept)
    least = min(minima, key=lambda pair: pair[1])[0]
    return equalise(least, lower, 60)[0]


def _equalised(starts: np.ndarray, lower: float, kept: int) -> list[tuple[np.ndarray, float]]:
    """Points of low largest |P|, best first, reached through p-norms from the starts."""
    points = 3 * degree((starts.shape[-1] + 1) // 2) + 1
    nodes = angles_to_points((np.arange(points) + 0.5) * np.pi / points, lower)
    ends = []
    values = []
    for powers in _POWERS:
        x = starts.copy()
        for power in powers:
            x, value = descend(norm_objective(nodes, power), x, 15 if power == powers[0] else 8)
        ends.append(x)
        values.append(value)
    value = np.concatenate(values)
    x = _apart(np.concatenate(ends), value, np.full_like(value, _SAME))[:kept]
    return sorted((equalise(start, lower, 20) for start in x), key=lambda pair: pair[1])
