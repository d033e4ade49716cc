r"""Stacks of attention layers: separate keys, queries, values and outputs on a residual stream.

Tokens are embedded, if asked for, and get positions.  A layer adds to them what attention makes
of them, and then what a perceptron does, if there is one.  The prediction is read from the last
token, that of the query.

Without a ``width`` these are the networks of von Oswald et al., ICML 2023 (arXiv:2212.07677), in
the form of their code: no biases, keys and values from the context only, and the prediction is
minus the last entry of the query's token.  Initial weights are normal, with their variance,
``init_scale`` over the inputs of the map; theirs are normal within two standard deviations.
Layer normalisation comes before every map, also before the first, where they have it in recurrent
networks only.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_choice, check_fields
from iclimit.losses import AllPositions
from iclimit.simulate.arrays import Array
from iclimit.simulate.models.blocks import (
    ATTENTION,
    Back,
    add_attention,
    add_perceptron,
    dense,
    perceptron_shapes,
)
from iclimit.simulate.models.network import Network, Pullback, Pulled, Weights
from iclimit.simulate.models.tokens import TOKENS, make_tokens, sinusoidal_positions
from iclimit.simulate.prompts import Prompts

MAPS = ("query", "key", "value", "output")


@dataclass(frozen=True)
class AttentionNetwork(Network):
    """Layers of attention, with what published networks for regression in context have besides.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs.
    layers : int >= 1
        Number of layers.
    heads : int >= 1
        Heads of a layer; keys, queries and values of each are as long as a token.
    width : int >= 1, optional
        Entries of the embedded tokens.  The prediction is then a linear map of the last token, and
        all maps have biases.  Without it tokens are as they are.
    attention : {"softmax", "linear"} or a tuple of these
        Kind of attention, of all layers or of each.
    mlp : int >= 1, optional
        Hidden units (GELU) of a perceptron after the attention of every layer.
    layer_norm : bool
        Whether tokens are normalised before every attention and perceptron.
    shared : bool
        Whether all layers have the same weights.
    include_query : bool
        Whether keys and values come from the token of the query too.
    tokens : {"pairs", "separate"}
        Tokens (x, y), or x and (0, ..., 0, y) by turns.
    positions : int >= 0
        Entries of the sinusoidal position that every token gets, an even number.
    embedding_mlp : int >= 1, optional
        Hidden units (GELU) of a perceptron before the layers.
    init_scale : float > 0
        Variance of an initial weight, times the inputs of its map.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If a flag is not True or False.

    Examples
    --------
    >>> from iclimit.simulate.networks import AttentionNetwork, train_network
    >>> from iclimit.problem import Problem
    >>> network = AttentionNetwork(dim=2, layers=2, width=8)
    >>> network.shapes["query"], network.size
    ((2, 8, 8), 617)
    >>> run = train_network(network, Problem(dim=2, context=4, scale=1), steps=2, rng=0)
    >>> run.held_out.mean < 1.1 * run.null_loss
    True
    """

    dim: int
    layers: int = 1
    heads: int = 1
    width: int | None = None
    attention: str | tuple[str, ...] = "softmax"
    mlp: int | None = None
    layer_norm: bool = False
    shared: bool = False
    include_query: bool = False
    tokens: str = "pairs"
    positions: int = 0
    embedding_mlp: int | None = None
    init_scale: float = 1 / 3

    together: ClassVar[bool] = True

    # Whether a token sees itself and those before it only.
    causal: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_fields(self)
        check_choice("tokens", self.tokens, TOKENS)
        if isinstance(self.attention, list):
            object.__setattr__(self, "attention", tuple(self.attention))
        if self.positions % 2:
            raise ValueError(f"positions must be even, got {self.positions!r}")
        for kind in self.kinds:
            check_choice("attention", kind, ATTENTION)
        if len(self.kinds) != self.layers:
            raise ValueError(
                "attention must be one kind or one for each layer, "
                f"got {self.attention!r} with layers={self.layers}"
            )

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kind of attention of every layer."""
        if isinstance(self.attention, tuple):
            return self.attention
        return (self.attention,) * self.layers

    @property
    def entries(self) -> int:
        """Entries of a token in the layers."""
        return self._embedded + self.positions

    @property
    def _token(self) -> int:
        return self.dim + (self.tokens == "pairs")

    @property
    def _embedded(self) -> int:
        return self._token if self.width is None else self.width

    @property
    def _layer_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights of one layer."""
        size = self.entries
        inner = self.heads * self.entries
        shapes: dict[str, tuple[int, ...]] = {}
        norms = ("attention", "mlp") if self.mlp else ("attention",)
        for name in norms if self.layer_norm else ():
            shapes |= {f"{name}_scale": (size,), f"{name}_offset": (size,)}
        shapes |= dict.fromkeys(MAPS[:3], (size, inner)) | {"output": (inner, size)}
        if self.width is not None:
            shapes |= {f"{name}_bias": shapes[name][1:] for name in MAPS}
        return shapes | (perceptron_shapes("mlp", size, self.mlp) if self.mlp else {})

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of the weights by name; those of the layers have the layer as the first axis."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.width is not None:
            shapes |= {"embedding": (self._token, self.width), "embedding_bias": (self.width,)}
        if self.embedding_mlp:
            shapes |= perceptron_shapes("embedding_mlp", self._embedded, self.embedding_mlp)
        depth = 1 if self.shared else self.layers
        shapes |= {name: (depth, *shape) for name, shape in self._layer_shapes.items()}
        if self.width is not None:
            shapes |= {"readout": (self.entries, 1), "readout_bias": (1,)}
        return shapes

    def initial(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """Independent normal matrices, scales 1, and biases and offsets 0."""
        weights = {}
        for name, shape in self.shapes.items():
            if name.endswith(("_bias", "_offset")):
                weights[name] = np.zeros(shape)
            elif name.endswith("_scale"):
                weights[name] = np.ones(shape)
            else:
                spread = np.sqrt(self.init_scale / shape[-2])
                weights[name] = spread * generator.standard_normal(shape)
        return weights

    def forward(self, weights: Mapping[str, Array], examples: Prompts) -> tuple[Array, Pullback]:
        """Predictions (n,) of the query labels, and how derivatives go back."""
        predictions, back = self._answers(weights, examples, 1)
        return predictions[..., 0], lambda by_prediction: back(by_prediction[..., None])

    def _answers(
        self, weights: Mapping[str, Array], examples: Prompts, asked: int
    ) -> tuple[Array, Pullback]:
        """Predictions (n, asked) at the last tokens, and how derivatives go back."""
        tokens = make_tokens(self.tokens, examples)
        xp = array_namespace(tokens)
        networks = weights["query"].shape[:-3]
        tokens = xp.reshape(tokens, (*networks, -1, *tokens.shape[1:]))
        state, back_embedding = self._embed(weights, tokens)
        backs = []
        for layer in range(self.layers):
            # After the last layer only these tokens are read.
            asking = asked if layer == self.layers - 1 else state.shape[-2]
            state, back = self._layer(weights, layer, state, asking)
            backs.append(back)
        predictions, back_readout = self._read(weights, state)

        def pullback(by_prediction: Array) -> Pulled:
            by_state, collected = back_readout(by_prediction)
            by_layers = []
            for back in reversed(backs):
                by_state, gradients = back(by_state)
                by_layers.append(gradients)
            by_tokens, gradients = back_embedding(by_state)
            collected |= gradients
            for name, shape in self._layer_shapes.items():
                axis = -1 - len(shape)
                stacked = xp.stack([layer[name] for layer in reversed(by_layers)], axis=axis)
                collected[name] = (
                    xp.sum(stacked, axis=axis, keepdims=True) if self.shared else stacked
                )
            return Pulled(collected, by_tokens[..., -1, : self.dim])

        return predictions, pullback

    def _read(self, weights: Mapping[str, Array], last: Array) -> tuple[Array, Back]:
        """Predictions (..., m) at tokens (..., m, entries), and how derivatives go back."""
        xp = array_namespace(last)
        if self.width is not None:
            read, back = dense(last, weights, "readout")
            return read[..., 0], lambda by_prediction: back(by_prediction[..., None])

        def pull(by_prediction: Array) -> tuple[Array, Weights]:
            by_last = xp.zeros_like(last)
            by_last[..., -1] = -by_prediction
            return by_last, {}

        return -last[..., -1], pull

    def first_layer(
        self, weights: Mapping[str, Array], examples: Prompts
    ) -> tuple[Array, Callable[[Array], Array]]:
        """Tokens (n, tokens, entries) after a layer, and the way from them to those of prompts."""
        tokens = make_tokens(self.tokens, examples)
        embedded, back_embedding = self._embed(weights, tokens)
        state, back_layer = self._layer(weights, 0, embedded, tokens.shape[1])
        return state, lambda by_state: back_embedding(back_layer(by_state)[0])[0]

    def _embed(self, weights: Mapping[str, Array], tokens: Array) -> tuple[Array, Back]:
        """Tokens as the first layer sees them, and how derivatives go back."""
        xp = array_namespace(tokens)
        backs = []
        state = tokens
        if self.width is not None:
            state, back = dense(state, weights, "embedding")
            backs.append(back)
        if self.embedding_mlp:
            state, back = add_perceptron(state, weights, "embedding_mlp")
            backs.append(back)
        if self.positions:
            *first, count, _ = state.shape
            where = xp.asarray(sinusoidal_positions(count, self.positions), dtype=state.dtype)
            state = xp.concat([state, xp.broadcast_to(where, (*first, *where.shape))], axis=-1)

        def pull(by_state: Array) -> tuple[Array, Weights]:
            collected: Weights = {}
            by_state = by_state[..., : self._embedded]
            for back in reversed(backs):
                by_state, gradients = back(by_state)
                collected |= gradients
            return by_state, collected

        return state, pull

    def _layer(
        self, weights: Mapping[str, Array], layer: int, state: Array, asking: int
    ) -> tuple[Array, Back]:
        """The last ``asking`` tokens after a layer, and how derivatives go back."""
        index = 0 if self.shared else layer
        own = {
            name: weights[name][(..., index, *(slice(None) for _ in shape))]
            for name, shape in self._layer_shapes.items()
        }
        whole = self.include_query or self.causal
        source = state.shape[-2] if whole else state.shape[-2] - 1
        made, back_attention = add_attention(
            state, own, asking, source, self.heads, self.kinds[layer], causal=self.causal
        )
        if not self.mlp:
            return made, back_attention
        made, back_mlp = add_perceptron(made, own, "mlp")

        def back(by_made: Array) -> tuple[Array, Weights]:
            by_state, collected = back_mlp(by_made)
            by_state, gradients = back_attention(by_state)
            return by_state, collected | gradients

        return made, back


@dataclass(frozen=True)
class CausalNetwork(AttentionNetwork):
    """Attention with a causal mask, which answers at every position of a sequence.

    A token sees itself and those before it.  The answer after l examples is read from the token of
    the next input, which has not seen the label: so tokens are x and (0, ..., 0, y) by turns, as
    in the code of Garg et al. (arXiv:2208.01066).

    Parameters
    ----------
    dim, layers, heads, width, attention, mlp, layer_norm, shared
        As in `AttentionNetwork`.
    include_query : bool
        False: every token sees itself.
    tokens : str
        "separate": a token of a pair would hold the label that is asked for.
    positions, embedding_mlp, init_scale
        As in `AttentionNetwork`.

    Raises
    ------
    ValueError
        If an argument is outside its range, or tokens are pairs.
    TypeError
        If a flag is not True or False.

    Examples
    --------
    >>> import iclimit
    >>> from iclimit.networks import CausalNetwork, train_network
    >>> network = CausalNetwork(dim=2, layers=2, width=8, positions=4)
    >>> problem = iclimit.Problem(dim=2, context=4, scale=1)
    >>> run = train_network(network, problem, loss=iclimit.AllPositions(), steps=2, rng=0)
    >>> drawn = iclimit.sample_prompts(problem, 3, rng=1)
    >>> network.answers(run.weights, drawn, first=1)[0].shape
    (3, 4)
    """

    tokens: str = "separate"

    causal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokens != "separate":
            raise ValueError(
                "tokens must be 'separate' for answers at every position, as a token of a pair "
                f"holds the label that is asked for, got {self.tokens!r}"
            )
        if self.include_query:
            raise ValueError("include_query must be False: with the mask every token sees itself")

    def answers(
        self, weights: Mapping[str, Array], examples: Prompts, first: int
    ) -> tuple[Array, Pullback]:
        """Predictions (n, context + 1 - first) after ``first`` examples to all of them.

        Parameters
        ----------
        weights : dict of array
            By name.
        examples : Prompts
            Of which the query is the last input.
        first : int
            Number of examples before the first answer, at most the context.

        Returns
        -------
        array and callable
            The predictions, and how derivatives by them go back.
        """
        # Labels stand between the inputs.
        asked = 2 * (examples.inputs.shape[1] - first) + 1
        predictions, back = self._answers(weights, examples, asked)

        def pullback(by_prediction: Array) -> Pulled:
            by_token = array_namespace(predictions).zeros_like(predictions)
            by_token[..., ::2] = by_prediction
            return back(by_token)

        return predictions[..., ::2], pullback

    def loss_at_positions(
        self, weights: Mapping[str, Array], examples: Prompts, labels: Array, loss: AllPositions
    ) -> tuple[Array, Weights]:
        """Mean squared error over the positions of a loss, and its gradient.

        ``labels`` (n,) are those of the queries; the other ones are those of the examples.
        """
        xp = array_namespace(labels)
        context = examples.inputs.shape[1]
        predictions, pullback = self.answers(weights, examples, loss.first)
        known = examples.labels[:, loss.first :]
        wanted = xp.reshape(xp.concat([known, labels[:, None]], axis=1), predictions.shape)
        residual = predictions - wanted
        shares = xp.asarray(loss.shares(context), dtype=residual.dtype)
        total = xp.sum(xp.mean(residual**2, axis=-2) * shares, axis=-1)
        return total, pullback(2 * residual * shares / residual.shape[-2]).weights
