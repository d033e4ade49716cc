"""Gradient descent on simulated contexts: mean losses and best rates from mean traces."""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy.optimize import minimize, root

from iclimit.results import Estimate
from iclimit.simulate.arrays import to_host
from iclimit.simulate.descent.schedules import context_blocks
from iclimit.statement import named_cell

# Independent parts of a simulation, from which the errors of rates are found.
BLOCKS = 50
# Of the loss, at which the search for best rates ends.
GRADIENT = 1e-7


@named_cell("mean_traces")
def mean_traces(
    *,
    context: int,
    dim: int,
    input_law: str = "gaussian",
    most: int,
    contexts: int,
    rng: SeedSequence,
    backend: str = "numpy",
) -> np.ndarray:
    """Means of tr H^k/d, k = 0 to ``most``, over each block of contexts: (BLOCKS, most + 1)."""
    sums = []
    for z in context_blocks(context, dim, input_law, contexts, rng, backend):
        x = to_host(z)
        H = np.swapaxes(x, 1, 2) @ x / context
        powers = [np.broadcast_to(np.eye(dim), H.shape), H]
        while 2 * len(powers) - 2 < most:
            powers.append(powers[-1] @ H)
        halves = [(k // 2, k - k // 2) for k in range(most + 1)]
        sums.append([np.sum(powers[i] * powers[j], axis=(1, 2)) / dim for i, j in halves])
    traces = np.concatenate(sums, axis=1)
    return np.stack([np.mean(part, axis=1) for part in np.array_split(traces, BLOCKS, axis=1)])


def mean_loss(traces: np.ndarray, rates: Sequence[float], noise_ratio: float) -> Any:
    """Mean squared error of the weights over that of zero weights, by mean traces (..., k)."""
    P = residual(rates)
    Q = -P[1:]
    # tr P(H)^2 + v tr H Q(H)^2, powers of H ascending
    weights = np.convolve(P, P)
    weights[1:-1] += noise_ratio * np.convolve(Q, Q)
    return traces[..., : len(weights)] @ weights


def residual(rates: Sequence[float]) -> np.ndarray:
    """Coefficients, ascending, of the product of 1 - rate x."""
    return reduce(np.convolve, [[1.0, -rate] for rate in rates], np.ones(1))


def best_rates(
    traces: np.ndarray,
    steps: int,
    noise_ratio: float,
    *,
    constant: bool = False,
    near: np.ndarray | None = None,
) -> np.ndarray:
    """Rates of least mean loss, ascending; with ``constant`` the one rate that is repeated.

    From rates ``near`` them, if these are known, the zero of the gradient is found.
    """

    def loss(given: np.ndarray) -> tuple[float, np.ndarray]:
        """Loss and its gradient."""
        rates = given.tolist() * (steps if constant else 1)
        P = residual(rates)
        P[:-1] += noise_ratio * P[1:]  # P - v Q
        others = [residual(rates[:k] + rates[k + 1 :]) for k in range(steps)]
        slopes = np.array([-2 * traces[1 : 2 * steps + 1] @ np.convolve(P, Q) for Q in others])
        value = mean_loss(traces, rates, noise_ratio)
        return float(value), np.sum(slopes, keepdims=True) if constant else slopes

    if near is not None:
        return np.sort(root(lambda rates: loss(rates)[1], near, tol=GRADIENT).x)
    start = [0.6] if constant else np.geomspace(0.35, 1.3, steps)
    return np.sort(minimize(loss, start, jac=True, method="BFGS", tol=GRADIENT).x)


def jackknife(function: Callable[[np.ndarray], Any], blocks: np.ndarray) -> list[Estimate]:
    """Estimates of the components of a function of the mean over blocks."""
    count = len(blocks)
    total = np.sum(blocks, axis=0)
    whole = np.atleast_1d(function(total / count))
    parts = [np.atleast_1d(function((total - block) / (count - 1))) for block in blocks]
    return [Estimate.of(row) for row in (count * whole - (count - 1) * np.array(parts)).T]
