r"""Stacks of linear attention layers with all of key, query, value and projection trained.

The layers are those of `iclimit.simulate.models.transformer`, on the tokens (x, y) of a prompt and
(x_q, 0) last; the prediction is minus the last entry of the query's token.  Gradients know the
tokens through Gram matrices only, at a cost linear in the context.  The loss of a single layer
depends on given prompts through moments of these only, so that a step of L-BFGS costs the same for
any number of prompts (`iclimit.simulate.models.gradients`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_arguments, check_flags
from iclimit.simulate.arrays import Array
from iclimit.simulate.models.gradients import (
    StackPass,
    loss_and_gradients,
    moment_loss_and_gradients,
    readout_moments,
)
from iclimit.simulate.models.network import Network, Pullback, Pulled, Weights
from iclimit.simulate.models.transformer import Layer
from iclimit.simulate.prompts import Prompts, regression_tokens

MATRICES = ("key", "query", "value", "projection")

# Most features whose moments are formed (200 MB); beyond, L-BFGS runs on the tokens.
MOMENT_FEATURES = 5000


@dataclass(frozen=True)
class LinearAttention(Network):
    """Layers of linear attention, trained from small random weights.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs.
    layers : int >= 1
        Number of layers.
    heads : int >= 1
        Heads per layer.
    shared : bool
        One layer, applied ``layers`` times, instead of separate weights.
    include_query : bool
        Whether the query's token is among the keys and values.
    init_scale : float > 0
        Standard deviation of the initial weights, which are normal and independent.  From 0.1
        L-BFGS has been seen to end on a plateau at a context of 50 in dimension 10.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If a flag is not True or False.
    """

    dim: int
    layers: int = 1
    heads: int = 1
    shared: bool = False
    include_query: bool = False
    init_scale: float = 0.03

    def __post_init__(self) -> None:
        names = ("dim", "layers", "heads", "init_scale")
        check_arguments(**{name: getattr(self, name) for name in names})
        check_flags(shared=self.shared, include_query=self.include_query)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Matrices by name, with the layer and the head as the first axes."""
        depth, size = 1 if self.shared else self.layers, self.dim + 1
        return dict.fromkeys(MATRICES, (depth, self.heads, size, size))

    def initial(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """Independent normal weights."""
        depth, *rest = self.shapes["key"]
        drawn = self.init_scale * generator.standard_normal((depth, len(MATRICES), *rest))
        return {name: drawn[:, number] for number, name in enumerate(MATRICES)}

    def stack(self, weights: Mapping[str, Array]) -> list[Layer]:
        """Layers in the order of application; a shared layer is repeated."""
        depth = weights["key"].shape[0]
        layers = [
            Layer(*(weights[name][layer, ...] for name in MATRICES)) for layer in range(depth)
        ]
        return layers * self.layers if self.shared else layers

    def forward(self, weights: Mapping[str, Array], examples: Prompts) -> tuple[Array, Pullback]:
        """Predictions (n,) of the query labels, and how derivatives go back."""
        tokens = regression_tokens(examples)
        run = StackPass(tokens, self.stack(weights), self.include_query)

        def pullback(by_prediction: Array) -> Pulled:
            gradients, by_tokens = run.backward(by_prediction, inputs=True)
            return Pulled(self._collect(gradients), by_tokens[:, -1, : self.dim])

        return run.prediction, pullback

    def loss_and_gradient(
        self, weights: Mapping[str, Array], examples: Prompts, labels: Array | None = None
    ) -> tuple[Any, Weights]:
        """Mean squared error and its gradient, without the derivatives by the tokens."""
        loss, gradients = loss_and_gradients(
            regression_tokens(examples),
            examples.target if labels is None else labels,
            self.stack(weights),
            include_query=self.include_query,
        )
        return loss, self._collect(gradients)

    def fixed_loss(
        self, examples: Iterable[tuple[Prompts, Array]], count: int
    ) -> Callable[[Mapping[str, Array]], tuple[Any, Weights]]:
        """Loss and gradient on prompts that stay the same, by their moments where that pays."""
        size = self.dim + 1
        if self.layers > 1 or size**2 * (size + 1) // 2 > MOMENT_FEATURES:
            return super().fixed_loss(examples, count)
        tokens = ((regression_tokens(prompts), labels) for prompts, labels in examples)
        moments = readout_moments(tokens, include_query=self.include_query)

        def on_moments(weights: Mapping[str, Array]) -> tuple[Any, Weights]:
            loss, gradient = moment_loss_and_gradients(moments, self.stack(weights)[0])
            return loss, self._collect([gradient])

        return on_moments

    def _collect(self, gradients: list[Layer]) -> Weights:
        """Gradients by the weights from those by the layers."""
        xp, collected = array_namespace(gradients[0].key), {}
        for name in MATRICES:
            each = xp.stack([getattr(gradient, name) for gradient in gradients])
            collected[name] = xp.sum(each, axis=0, keepdims=True) if self.shared else each
        return collected
