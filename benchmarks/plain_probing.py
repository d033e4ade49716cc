"""Algorithms that a model is compared with as one writes them down: prompt after prompt.

Every algorithm is a few lines of NumPy on one prompt, least squares by `numpy.linalg.lstsq`.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

NEIGHBOURS = 3

Algorithm = Callable[[np.ndarray, np.ndarray, np.ndarray], Any]


def plain_algorithms(
    rates: list[list[float]], layers: list[tuple[list[float], list[float]]], tasks: np.ndarray
) -> dict[str, Algorithm]:
    """Functions of inputs (N, d), labels (N,) and query (d,), for noise of variance 1/4.

    Rates are those of gradient descent, one list for each number of steps; layers the rates and
    gammas of GD++.
    """
    algorithms: dict[str, Algorithm] = {
        "averaging": lambda x, y, q: np.mean(y[:, None] * x, axis=0) @ q,
        "nearest_neighbours": _neighbours,
        "least_squares": lambda x, y, q: np.linalg.lstsq(x, y)[0] @ q,
        "ridge": _ridge,
        "dmmse": lambda x, y, q: _posterior_mean(x, y, tasks) @ q,
    }
    for each in rates:
        algorithms[f"steps_{len(each)}"] = lambda x, y, q, each=each: _descent(x, y, each) @ q
    for each, gammas in layers:
        algorithms[f"gdpp_{len(each)}"] = lambda x, y, q, each=each, gammas=gammas: _gdpp(
            x, y, q, each, gammas
        )
    return algorithms


def _neighbours(x: np.ndarray, y: np.ndarray, q: np.ndarray) -> float:
    order = np.argsort(np.linalg.norm(x - q, axis=1))
    return float(np.mean(y[order[:NEIGHBOURS]]))


def _ridge(x: np.ndarray, y: np.ndarray, q: np.ndarray) -> float:
    return float(np.linalg.solve(x.T @ x + np.eye(len(q)) / 4, x.T @ y) @ q)


def _posterior_mean(x: np.ndarray, y: np.ndarray, tasks: np.ndarray) -> np.ndarray:
    misfit = np.sum((y - tasks @ x.T) ** 2, axis=1)
    weight = np.exp(-2 * (misfit - np.min(misfit)))
    return weight @ tasks / np.sum(weight)


def _descent(x: np.ndarray, y: np.ndarray, rates: list[float]) -> np.ndarray:
    weights = np.zeros(x.shape[1])
    for rate in rates:
        weights = weights + rate / len(y) * x.T @ (y - x @ weights)
    return weights


def _gdpp(
    x: np.ndarray, y: np.ndarray, q: np.ndarray, rates: list[float], gammas: list[float]
) -> float:
    answer = 0.0
    for rate, gamma in zip(rates, [*gammas, 0.0], strict=True):
        fit = x.T @ y / len(y)
        answer += rate * q @ fit
        gram = x.T @ x / len(y)
        y = y - rate * x @ fit
        x = x - gamma * x @ gram
        q = q - gamma * gram @ q
    return answer
