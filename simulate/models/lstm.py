r"""Recurrent networks with long short-term memory (LSTM), in one or both reading directions.

The tokens of a prompt are :math:`(x_i, y_i)` and, last, :math:`(x_q, 0)`.  A layer reads tokens
:math:`u_t` one after the other and keeps a state :math:`h_t` and a memory :math:`c_t`,

.. math:: c_t = f_t c_{t-1} + i_t g_t, \qquad h_t = o_t \tanh c_t .

The gates i, f, o are logistic functions, and g is a hyperbolic tangent, of linear functions of
:math:`u_t` and :math:`h_{t-1}` (Hochreiter and Schmidhuber, Neural Computation 9 (1997), with the
forget gate f of Gers, Schmidhuber and Cummins, Neural Computation 12 (2000)).  A second direction
reads from the query to the first token.  The states of both directions are the tokens of the next
layer.  The prediction is a linear function of the states of the last layer at the query's token.

At that token the second direction has read nothing but the query.  So it adds little to a network
of one layer, while the second of two layers reads states that know the query at every token.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_fields
from iclimit.simulate.arrays import Array
from iclimit.simulate.models.network import Network, Pullback, Pulled
from iclimit.simulate.prompts import Prompts

# Weights of a layer; their rows are those of i, f, o and g.
PARTS = ("input", "recurrent", "bias")

# From the derivatives by states of the last tokens to those by all tokens and by the weights.
Back: TypeAlias = Callable[[Array], tuple[Array, list[Array]]]


@dataclass(frozen=True)
class LstmNetwork(Network):
    """Stacked LSTM layers with a linear readout of the query's token.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs.
    hidden : int >= 1
        Size of the state of a layer, in each direction.
    layers : int >= 1
        Number of layers.
    bidirectional : bool
        Whether a second direction reads from the query to the first token.

    Raises
    ------
    ValueError
        If a size is outside its range.
    TypeError
        If bidirectional is not True or False.
    """

    dim: int
    hidden: int = 64
    layers: int = 1
    bidirectional: bool = False

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Weights of every layer, the direction first, and of the readout."""
        directions = 1 + self.bidirectional
        rows = 4 * self.hidden
        shapes: dict[str, tuple[int, ...]] = {}
        for layer in range(self.layers):
            width = directions * self.hidden if layer else self.dim + 1
            sizes = (rows, width), (rows, self.hidden), (rows,)
            for part, size in zip(PARTS, sizes, strict=True):
                shapes[f"{part}_{layer}"] = (directions, *size)
        return shapes | {"readout": (directions * self.hidden,)}

    def initial(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """Uniform weights up to one over the root of the size of a state, as is customary."""
        bound = 1 / math.sqrt(self.hidden)
        return {name: generator.uniform(-bound, bound, size) for name, size in self.shapes.items()}

    def forward(self, weights: Mapping[str, Array], examples: Prompts) -> tuple[Array, Pullback]:
        """Predictions (n,) of the query labels, and how derivatives go back."""
        tokens = _tokens(examples)
        backs = []
        for layer in range(self.layers):
            parts = [weights[f"{part}_{layer}"] for part in PARTS]
            tokens, back = _layer(tokens, parts, final=layer == self.layers - 1)
            backs.append(back)
        state = tokens[-1, :, :]
        readout = weights["readout"]

        def pullback(by_prediction: Array) -> Pulled:
            gradients = {"readout": state @ by_prediction}
            by_tokens = readout[None, :, None] * by_prediction
            for layer in reversed(range(self.layers)):
                by_tokens, by_parts = backs[layer](by_tokens)
                names = (f"{part}_{layer}" for part in PARTS)
                gradients |= dict(zip(names, by_parts, strict=True))
            return Pulled(gradients, by_tokens[-1, : self.dim, :].T)

        return readout @ state, pullback


def _tokens(examples: Prompts) -> Array:
    """Tokens (T, dim + 1, n): what is done to one number of all prompts runs over memory."""
    xp = array_namespace(examples.query)
    n, context, dim = examples.inputs.shape
    tokens = xp.zeros((context + 1, dim + 1, n), dtype=examples.query.dtype)
    tokens[:-1, :dim, :] = xp.permute_dims(examples.inputs, (1, 2, 0))
    tokens[:-1, dim, :] = examples.labels.T
    tokens[-1, :dim, :] = examples.query.T
    return tokens


def _layer(tokens: Array, parts: Sequence[Array], *, final: bool) -> tuple[Array, Back]:
    """States of all directions side by side, at all tokens or, of the final layer, at the last."""
    xp = array_namespace(tokens)
    hidden = parts[1].shape[2]
    sweeps = []
    for direction in range(parts[0].shape[0]):
        # The final layer is read at the last token, where the second direction begins.
        read = tokens[-1:, :, :] if final and direction else tokens
        own = [part[direction, ...] for part in parts]
        sweeps.append(_sweep(read, *own, backward=direction == 1))
    kept = 1 if final else tokens.shape[0]
    together = xp.concat([states[-kept:, :, :] for states, _ in sweeps], axis=1)

    def back(by_states: Array) -> tuple[Array, list[Array]]:
        by_tokens = xp.zeros_like(tokens)
        by_parts = []
        for direction, (_, pull) in enumerate(sweeps):
            rows = slice(direction * hidden, (direction + 1) * hidden)
            by_read, by_own = pull(by_states[:, rows, :])
            by_tokens[-by_read.shape[0] :, :, :] += by_read
            by_parts.append(by_own)
        return by_tokens, [xp.stack(directions) for directions in zip(*by_parts, strict=True)]

    return together, back


def _sweep(
    tokens: Array, inputs: Array, recurrent: Array, bias: Array, *, backward: bool
) -> tuple[Array, Back]:
    """States (T, hidden, n) of one direction of a layer."""
    xp = array_namespace(tokens)
    hidden = recurrent.shape[1]
    # One product gives the part of the tokens in all gates at all times.
    gates = inputs @ tokens
    gates += bias[:, None]
    length, _, n = gates.shape
    states = xp.empty((length, hidden, n), dtype=gates.dtype)
    memories = xp.empty((length, hidden, n), dtype=gates.dtype)
    sweep = _Sweep(tokens, inputs, recurrent, backward, gates, states, memories)
    sweep.read()
    return states, sweep.back


@dataclass(frozen=True)
class _Sweep:
    """One direction of a layer that reads tokens; arrays have tokens first and prompts last.

    Attributes
    ----------
    tokens : array (T, width, n)
        What is read.
    inputs, recurrent : array (4 hidden, width) and (4 hidden, hidden)
        Weights.
    backward : bool
        Whether the last token is read first.
    gates : array (T, 4 hidden, n)
        Arguments of i, f, o and g at first, then their values.
    states, memories : array (T, hidden, n)
        States h and memories c.
    """

    tokens: Array
    inputs: Array
    recurrent: Array
    backward: bool
    gates: Array
    states: Array
    memories: Array

    @property
    def order(self) -> range:
        """Tokens in the order in which they are read."""
        return range(self.gates.shape[0])[:: -1 if self.backward else 1]

    def read(self) -> None:
        """Read all tokens."""
        xp = array_namespace(self.tokens)
        hidden = self.recurrent.shape[1]
        memory = xp.zeros(self.memories.shape[1:], dtype=self.gates.dtype)
        state = memory
        for t in self.order:
            gate = self.gates[t, :, :] + self.recurrent @ state
            self.gates[t, : 3 * hidden, :] = 0.5 + 0.5 * xp.tanh(0.5 * gate[: 3 * hidden, :])
            self.gates[t, 3 * hidden :, :] = xp.tanh(gate[3 * hidden :, :])
            i, f, o, g = _split(self.gates[t, :, :])
            memory = f * memory + i * g
            state = o * xp.tanh(memory)
            self.memories[t, :, :] = memory
            self.states[t, :, :] = state

    def back(self, by_last: Array) -> tuple[Array, list[Array]]:
        """Derivatives by all tokens and by the weights, from those by the last states."""
        xp = array_namespace(self.tokens)
        by_gates = xp.empty_like(self.gates)
        nothing = xp.zeros(self.memories.shape[1:], dtype=self.gates.dtype)
        order = self.order
        first = len(order) - by_last.shape[0]
        by_state = nothing
        by_memory = nothing
        for step in reversed(range(len(order))):
            t = order[step]
            before = self.memories[order[step - 1], :, :] if step else nothing
            if t >= first:
                by_state = by_state + by_last[t - first, :, :]
            by_memory = self._back_through(t, by_gates, by_state, by_memory, before)
            by_state = self.recurrent.T @ by_gates[t, :, :]
        return self.inputs.T @ by_gates, self._by_weights(by_gates)

    def _back_through(
        self, t: int, by_gates: Array, by_state: Array, by_memory: Array, before: Array
    ) -> Array:
        """Derivatives by the memory before a token; those by the gates there are filled in."""
        i, f, o, g = _split(self.gates[t, :, :])
        squashed = array_namespace(self.tokens).tanh(self.memories[t, :, :])
        by_memory = by_memory + by_state * o * (1 - squashed**2)
        by_i, by_f, by_o, by_g = _split(by_gates[t, :, :])
        by_i[...] = by_memory * g * i * (1 - i)
        by_f[...] = by_memory * before * f * (1 - f)
        by_o[...] = by_state * squashed * o * (1 - o)
        by_g[...] = by_memory * i * (1 - g**2)
        return by_memory * f

    def _by_weights(self, by_gates: Array) -> list[Array]:
        xp = array_namespace(self.tokens)
        earlier = slice(None, -1)
        later = slice(1, None)
        if self.backward:
            earlier, later = later, earlier
        before = xp.matrix_transpose(self.states[earlier, :, :])
        return [
            xp.sum(by_gates @ xp.matrix_transpose(self.tokens), axis=0),
            xp.sum(by_gates[later, :, :] @ before, axis=0),
            xp.sum(by_gates, axis=(0, 2)),
        ]


def _split(gate: Array) -> list[Array]:
    """Views (hidden, n) of i, f, o and g."""
    hidden = gate.shape[0] // 4
    return [gate[start : start + hidden, :] for start in range(0, 4 * hidden, hidden)]
