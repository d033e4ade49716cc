r"""What training minimises: the errors on which labels of a prompt.

A prompt of :math:`\ell` examples and a query has :math:`\ell + 1` tokens.  *Position* l is the
place after l examples, where the label of token l + 1 is predicted; the query stands at position
:math:`\ell`.  A loss says at which positions errors count and how much.  Position 0 has an empty
context and teaches nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from iclimit.checks import check_integers, parse_array


@dataclass(frozen=True)
class LastPosition:
    """Loss of the query's label, after the whole context."""

    def positions(self, context: int) -> np.ndarray:
        """Numbers of examples seen where errors count."""
        return np.array([context])

    def shares(self, context: int) -> np.ndarray:  # noqa: ARG002
        """Shares of the loss at these positions."""
        return np.ones(1)


@dataclass(frozen=True)
class AllPositions:
    r"""Loss of all labels of a sequence, each predicted from the examples before it.

    Parameters
    ----------
    first : int >= 1
        First position that counts: the number of examples it sees.
    weights : tuple of floats >= 0, optional
        Weights of the positions from the first one to the whole context, which are divided by
        their sum; equal ones by default.

    Raises
    ------
    ValueError
        If a number is outside its range.

    Examples
    --------
    >>> from iclimit import AllPositions, Experiment, Problem, Ridge
    >>> law = Problem(16, 32, tasks=8, noise_variance=0.1, task_law="sphere")
    >>> run = Experiment(law, prompts=64, loss=AllPositions(first=8), training=Ridge(0.1))
    >>> run.loss.positions(32)[[0, -1]], run.limit["sequence_ratio"]
    (array([ 8, 32]), 4.0)
    """

    first: int = 1
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_integers(least=1, first=self.first)
        if self.weights is not None:
            object.__setattr__(self, "weights", _parse_weights("weights", self.weights))

    def positions(self, context: int) -> np.ndarray:
        """Numbers of examples seen where errors count.

        Raises
        ------
        ValueError
            If the context has no such position, or another number of them than weights.
        """
        if self.first > context:
            raise ValueError(f"first must be at most the context of {context}, got {self.first}")
        places = np.arange(self.first, context + 1)
        if self.weights is not None and len(self.weights) != len(places):
            raise ValueError(
                f"weights must be one number for each of the {len(places)} positions, got "
                f"{len(self.weights)}"
            )
        return places

    def shares(self, context: int) -> np.ndarray:
        """Shares of the loss at these positions."""
        count = len(self.positions(context))
        return np.full(count, 1 / count) if self.weights is None else _shares(self.weights)


@dataclass(frozen=True)
class RandomLength:
    r"""Loss of the query's label, where every prompt draws the length of its context.

    Parameters
    ----------
    lengths : tuple of ints >= 1
        Possible lengths, up to the context of the problem, which is that of the tests.
    probabilities : tuple of floats >= 0, optional
        Their probabilities; equal ones by default.

    Raises
    ------
    ValueError
        If a number is outside its range, or there is another number of probabilities.

    Examples
    --------
    >>> from iclimit import Experiment, Problem, RandomLength, Ridge
    >>> law = Problem(16, 32, tasks=8, noise_variance=0.1, task_law="sphere")
    >>> loss = RandomLength((8, 16, 32))
    >>> run = Experiment(law, prompts=512, loss=loss, training=Ridge(0.1))
    >>> run.statement()["lengths"]
    [8, 16, 32]
    """

    lengths: tuple[int, ...]
    probabilities: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        listed: list[int] = np.ravel(self.lengths).tolist()
        for length in listed:
            check_integers(least=1, lengths=length)
        if len(set(listed)) < len(listed) or not listed:
            raise ValueError(f"lengths must be different integers, got {self.lengths!r}")
        object.__setattr__(self, "lengths", tuple(listed))
        if self.probabilities is None:
            return
        object.__setattr__(
            self, "probabilities", _parse_weights("probabilities", self.probabilities)
        )
        if len(self.shares()) != len(listed):
            raise ValueError(
                f"probabilities must be one number for each of {len(listed)} lengths, got "
                f"{len(self.shares())}"
            )

    def positions(self, context: int) -> np.ndarray:
        """Possible lengths of contexts.

        Raises
        ------
        ValueError
            If one is longer than the context.
        """
        if max(self.lengths) > context:
            raise ValueError(
                f"lengths must be at most the context of {context}, got {max(self.lengths)}"
            )
        return np.array(self.lengths)

    def shares(self, context: int | None = None) -> np.ndarray:  # noqa: ARG002
        """Their probabilities."""
        if self.probabilities is None:
            return np.full(len(self.lengths), 1 / len(self.lengths))
        return _shares(self.probabilities)


# Loss of a run that says nothing of it.
LAST_POSITION = LastPosition()

# What can be minimised.
Loss: TypeAlias = LastPosition | AllPositions | RandomLength


def _parse_weights(name: str, weights: ArrayLike) -> tuple[float, ...]:
    """Weights as a tuple, if they are numbers >= 0 and not all of them 0."""
    parsed = parse_array(name, weights, (None,))
    if np.any(parsed < 0) or not np.any(parsed > 0):
        raise ValueError(f"{name} must be numbers >= 0, not all of them 0, got {weights!r}")
    return tuple(parsed.tolist())


def _shares(weights: tuple[float, ...]) -> np.ndarray:
    """Weights over their sum."""
    return np.array(weights) / sum(weights)
