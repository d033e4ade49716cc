"""What a network is for a training: named weights, predictions, and gradients of these.

A network predicts the label of the query of n prompts.  Its gradients are written by hand, in the
array API of its weights: ``forward`` returns the predictions and a function that takes the
derivative of a loss by these back to the weights and to the query.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias, runtime_checkable

import numpy as np
from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array, Backend, Generator
from iclimit.simulate.prompts import Prompts

# Arrays of weights by name.
Weights: TypeAlias = dict[str, Array]


@runtime_checkable
class Task(Protocol):
    """Law of prompts that a network is trained on and that is no `iclimit.Problem`."""

    @property
    def context(self) -> int: ...
    @property
    def dim(self) -> int: ...
    def draw(self, backend: Backend, generator: Generator, count: int) -> Prompts: ...


@dataclass(frozen=True, eq=False)
class Pulled:
    """Derivatives of a loss.

    Attributes
    ----------
    weights : dict of array
        By the weights, summed over the prompts.
    query : array (n, dim)
        By the queries.
    """

    weights: Weights
    query: Array


# From the derivatives of a loss by the predictions (n,) to those by weights and queries.
Pullback: TypeAlias = Callable[[Array], Pulled]


class Network(ABC):
    """A model whose weights are trained; subclasses are frozen dataclasses of its sizes."""

    # Dimension of the inputs.
    dim: int

    # Whether weights may have a first axis of networks, each of which answers its own prompts, as
    # many as every other; those of the first one stand first.  Predictions and losses then have
    # this axis, too.
    together: ClassVar[bool] = False

    @property
    @abstractmethod
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights by name, in the order of a vector that holds all."""

    @abstractmethod
    def initial(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """Draw the weights that a training starts from."""

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Ranges that a training keeps weights in, by name; weights without one are free."""
        return {}

    @abstractmethod
    def forward(self, weights: Mapping[str, Array], examples: Prompts) -> tuple[Array, Pullback]:
        """Predictions (n,) of the query labels, and how derivatives go back."""

    def loss_and_gradient(
        self, weights: Mapping[str, Array], examples: Prompts, labels: Array | None = None
    ) -> tuple[Any, Weights]:
        """Mean squared error and its gradient, on given labels or those of the prompts."""
        predictions, pullback = self.forward(weights, examples)
        xp = array_namespace(predictions)
        known = examples.target if labels is None else labels
        residual = predictions - xp.reshape(known, predictions.shape)
        by_prediction = 2 * residual / residual.shape[-1]
        return xp.mean(residual**2, axis=-1), pullback(by_prediction).weights

    def fixed_loss(
        self, examples: Iterable[tuple[Prompts, Array]], count: int
    ) -> Callable[[Mapping[str, Array]], tuple[Any, Weights]]:
        """Loss and gradient as a function of the weights, on prompts that stay the same."""
        kept = list(examples)
        return lambda weights: mean_of_blocks(self.loss_and_gradient, weights, kept, count)

    @property
    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Least and largest values of all weights, in one vector each; None if all are free."""
        if not self.ranges:
            return None
        ends = np.concat(
            [
                np.tile(self.ranges.get(name, (-math.inf, math.inf)), (math.prod(shape), 1))
                for name, shape in self.shapes.items()
            ]
        )
        return ends[:, 0], ends[:, 1]

    @property
    def size(self) -> int:
        """Number of weights."""
        return sum(map(math.prod, self.shapes.values()))

    def pack(self, weights: Mapping[str, Array]) -> Array:
        """All weights in one vector, or the vectors (networks, size) of several networks."""
        xp = array_namespace(*weights.values())
        parts = []
        for name, shape in self.shapes.items():
            part = weights[name]
            parts.append(xp.reshape(part, (*part.shape[: part.ndim - len(shape)], -1)))
        return xp.concat(parts, axis=-1)

    def unpack(self, vector: Array) -> Weights:
        """Weights by name from a vector of all; vectors (networks, size) give them that axis."""
        xp = array_namespace(vector)
        start = 0
        weights = {}
        for name, shape in self.shapes.items():
            stop = start + math.prod(shape)
            weights[name] = xp.reshape(vector[..., start:stop], (*vector.shape[:-1], *shape))
            start = stop
        return weights


def mean_of_blocks(
    loss_and_gradient: Callable[..., tuple[Any, Weights]],
    weights: Mapping[str, Array],
    examples: Iterable[tuple[Prompts, Array]],
    count: int,
) -> tuple[Any, Weights]:
    """Mean loss and gradient on so many prompts in blocks, with the labels of their queries."""
    loss = 0.0
    gradient: Weights = {}
    for prompts, target in examples:
        part, parts = loss_and_gradient(weights, prompts, target)
        share = target.shape[0] / count
        loss = loss + share * part
        gradient = {name: gradient.get(name, 0.0) + share * own for name, own in parts.items()}
    return loss, gradient
