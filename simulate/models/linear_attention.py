r"""Stacks of linear attention layers with all of key, query, value and projection trained.

The layers are those of `iclimit.simulate.models.transformer`, on the tokens (x, y) of a prompt and
(x_q, 0) last; the prediction is minus the last entry of the query's token.  Gradients know the
tokens through Gram matrices only, at a cost linear in the context.  The loss of a single layer
depends on given prompts through moments of these only, so that a step of L-BFGS costs the same for
any number of prompts (`iclimit.simulate.models.moments`).
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_fields
from iclimit.simulate.arrays import Array
from iclimit.simulate.models.gram_stack import run_stack, weight_gradients
from iclimit.simulate.models.moments import FeatureLoss, pair_numbers, readout_moments
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
        Whether all layers have the same weights.
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
        check_fields(self)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Matrices by name, with the layer and the head as the first axes."""
        depth = 1 if self.shared else self.layers
        size = self.dim + 1
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
        predictions, pull = run_stack(tokens, self.stack(weights), self.include_query)

        def pullback(by_prediction: Array) -> Pulled:
            gradients, by_query = pull(by_prediction)
            return Pulled(self._collect(gradients), by_query[:, : self.dim])

        return predictions, pullback

    def fixed_loss(
        self, examples: Iterable[tuple[Prompts, Array]], count: int
    ) -> Callable[[Mapping[str, Array]], tuple[Any, Weights]]:
        """Loss and gradient on prompts that stay the same, by their moments where that pays."""
        size = self.dim + 1
        if self.layers > 1 or size**2 * (size + 1) // 2 > MOMENT_FEATURES:
            return super().fixed_loss(examples, count)
        tokens = ((regression_tokens(prompts), labels) for prompts, labels in examples)
        moments = readout_moments(tokens, include_query=self.include_query)

        place = pair_numbers(size)[:, :, None] * size + np.arange(size)
        loss = FeatureLoss(moments, place.reshape(-1))

        def on_moments(weights: Mapping[str, Array]) -> tuple[Any, Weights]:
            value, gradient = readout_loss(loss, self.stack(weights)[0])
            return value, self._collect([gradient])

        return on_moments

    def _collect(self, gradients: list[Layer]) -> Weights:
        """Gradients by the weights from those by the layers."""
        xp = array_namespace(gradients[0].key)
        collected = {}
        for name in MATRICES:
            stacked = xp.stack([getattr(gradient, name) for gradient in gradients])
            collected[name] = xp.sum(stacked, axis=0, keepdims=True) if self.shared else stacked
        return collected


def readout_loss(loss: FeatureLoss, layer: Layer) -> tuple[Any, Layer]:
    """Loss of a single layer and its gradients; the prediction is minus the last entry."""
    xp = array_namespace(layer.key)
    size = layer.key.shape[-1]
    row = layer.output[:, -1, :]
    lookup = layer.lookup
    entries = -xp.tensordot(row, lookup, axes=([0], [0]))
    [value], halves = loss(xp.reshape(entries, (1, -1)))
    change = xp.reshape(-2 * halves, (size, size, size))
    by_row = xp.tensordot(lookup, change, axes=([1, 2], [1, 2]))[:, None, :]
    by_lookup = xp.tensordot(row, change, axes=([1], [0]))
    return value, weight_gradients(layer, by_row, by_lookup)
