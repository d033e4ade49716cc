"""Minima of the loss of GD++ over a spectrum, found again by least squares from random starts."""

import math
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy.optimize import least_squares

# Range of the rates of the starts, drawn log-uniformly, in inverse mean eigenvalues.
RATES = (0.1, 10.0)
# Range of the gammas of the starts, drawn and measured in the same way.
GAMMAS = (0.02, 2.0)

# Two minima are the same if their losses differ by less, relative.
SAME = 1e-5

# A descent has converged if no derivative of the loss exceeds this, relative to the loss.
CONVERGED = 1e-6


def errors(
    parameters: Any, eigenvalues: np.ndarray, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """Bias and root of the variance by eigenvalue, of L rates and then L - 1 gammas."""
    count = (len(parameters) + 1) // 2
    bias = np.ones_like(eigenvalues)
    current = eigenvalues
    for rate, gamma in zip(parameters[:count], [*parameters[count:], 0.0], strict=True):
        bias = bias * (1 - rate * current)
        current = current * (1 - gamma * current) ** 2
    return bias, math.sqrt(noise) * (1 - bias) / np.sqrt(eigenvalues)


def local_minima(
    nodes: np.ndarray,
    weights: np.ndarray,
    noise: float,
    *,
    layers: int,
    starts: int,
    rng: SeedSequence,
) -> list[np.ndarray]:
    """Parameters of distinct minima of the mean loss over weighted eigenvalues, best first."""
    generator = np.random.default_rng(rng)
    roots = np.sqrt(weights)

    def residuals(parameters: np.ndarray) -> np.ndarray:
        return np.concatenate([roots * part for part in errors(parameters, nodes, noise)])

    lower, upper = np.log(np.repeat([RATES, GAMMAS], [layers, layers - 1], axis=0)).T
    ends = []
    for _ in range(starts):
        start = np.exp(generator.uniform(lower, upper))
        end = least_squares(residuals, start, method="lm", xtol=1e-14, ftol=1e-14, gtol=1e-14)
        if np.max(np.abs(end.grad)) < CONVERGED * end.cost < CONVERGED / 2:
            ends.append(end)
    ends.sort(key=lambda end: end.cost)
    distinct = [
        end
        for number, end in enumerate(ends)
        if number == 0 or end.cost > ends[number - 1].cost * (1 + SAME)
    ]
    return [end.x for end in distinct]
