"""Errors against the number of examples, for models that answer at every position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from iclimit.results import Estimate


@dataclass(frozen=True)
class Positions:
    """Errors of a model and of algorithms by the number of examples before a position.

    Attributes
    ----------
    examples : array (m,)
        Numbers of examples.
    model : tuple of Estimate
        Mean squared errors of the model.
    baselines : mapping of str to tuple of Estimate
        Those of the algorithms.
    """

    examples: np.ndarray
    model: tuple[Estimate, ...]
    baselines: Mapping[str, tuple[Estimate, ...]]


def errors_by_position(
    examples: np.ndarray,
    model: np.ndarray,
    baselines: Mapping[str, np.ndarray],
    target: np.ndarray,
    noise_variance: np.ndarray,
) -> Positions:
    """Average squared errors over prompts, position by position.

    Parameters
    ----------
    examples : array (m,)
        Numbers of examples before the positions.
    model : array (n, m)
        Answers of the model.
    baselines : mapping of str to array (n, m)
        Those of the algorithms.
    target : array (n, m)
        Labels without noise.
    noise_variance : array (n,)
        Variance of the label noise.
    """

    def errors(answers: np.ndarray) -> tuple[Estimate, ...]:
        squares = (answers - target) ** 2 + noise_variance[:, None]
        return tuple(Estimate.of(column, keep=False) for column in squares.T)

    of_baselines = {name: errors(answers) for name, answers in baselines.items()}
    return Positions(np.asarray(examples), errors(model), of_baselines)
