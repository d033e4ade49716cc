r"""A linear recurrent layer with trained gate, steps, preconditioner and readout.

A memory u of d numbers decays, answers the key of the next pair, and is corrected by its error,

.. math:: u \leftarrow \gamma \circ u, \qquad
   u \leftarrow u + \beta_t\, D x_t\, (y_t - \langle x_t, u\rangle) ,

and the prediction is :math:`c\, \langle x_q, u\rangle`.  Weights are the gate :math:`\gamma`, one
number or one for each channel, the step :math:`\beta`, one number or one for each token, the
diagonal of D, and c.  This is one value channel of a gated delta rule (Yang et al.,
arXiv:2412.06464), of DeltaNet without the gate and, without the correction, of gated linear
attention (RetNet, GLA, Mamba-2), whose gates do not depend on the inputs.

A selective layer has gates and steps that do: :math:`\gamma^{\delta_t}` and
:math:`\beta_t \delta_t` with :math:`\delta_t = 2 / (1 + e^{-\langle s, (x_t, y_t)\rangle})`,
one time step for both as in Mamba.  Its weights s are the selectivity, and 0 is the layer above.

The gradient goes back through the tokens in the same way: with the derivative p of the loss by u
after a pair, that by u before its correction is :math:`p - \beta_t x_t \langle D x_t, p\rangle`.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_fields
from iclimit.simulate.arrays import Array
from iclimit.simulate.models.network import Network, Pullback, Pulled
from iclimit.simulate.prompts import Prompts

# Selective gates below this have slopes as if they were this: those at 0 may be infinite.
_LEAST_GATE = 1e-3


@dataclass(frozen=True)
class RecurrentLayer(Network):
    """A linear recurrent layer that is read at the query.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs.
    corrects : bool
        Whether a pair is written as the delta rule does, less what the memory answers; otherwise
        its label is written.
    gated : bool
        Whether the memory decays.
    by_channel : bool
        Whether each channel has a gate of its own.
    by_token : bool
        Whether each token has a step of its own; prompts then have ``context`` pairs.
    preconditioned : bool
        Whether each channel has a step of its own, times that of the token.
    context : int >= 1
        Number of pairs that have steps of their own.
    selective : bool
        Whether gates and steps depend on the pair that is read.

    Raises
    ------
    ValueError
        If a size is outside its range, or an option needs another one.
    TypeError
        If an option is not True or False.

    Examples
    --------
    The delta rule finds its best step, which is 0.56:

    >>> import iclimit
    >>> from iclimit.recurrent import RecurrentLayer
    >>> problem = iclimit.Problem(dim=8, context=16, noise_variance=0.25)
    >>> layer = RecurrentLayer(dim=8, gated=False)
    >>> run = iclimit.networks.train_network(
    ...     layer, problem, optimizer="lbfgs", batch=4000, held_out=2000, rng=0
    ... )
    >>> run.weights["step"].round(2), run.weights["readout"].round(2)
    (array([0.56]), array([1.01]))
    """

    dim: int
    corrects: bool = True
    gated: bool = True
    by_channel: bool = False
    by_token: bool = False
    preconditioned: bool = False
    context: int = 1
    selective: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.by_channel and not self.gated:
            raise ValueError("by_channel must be False without a gate, got True")

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The weights that there are; without correction the readout is the step of all tokens."""
        shapes: dict[str, tuple[int, ...]] = {}
        if self.gated:
            shapes["gate"] = (self.dim if self.by_channel else 1,)
        if self.corrects or self.by_token:
            shapes["step"] = (self.context if self.by_token else 1,)
        if self.preconditioned:
            shapes["preconditioner"] = (self.dim,)
        if self.selective:
            shapes["selectivity"] = (self.dim + 1,)
        return shapes | {"readout": (1,)}

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Gates let through a part of the memory, and steps go towards the label."""
        ranges = {"gate": (0.0, 1.0), "step": (0.0, math.inf), "preconditioner": (0.0, math.inf)}
        return {name: ranges[name] for name in self.shapes if name in ranges}

    def initial(self, generator: np.random.Generator) -> dict[str, np.ndarray]:
        """Gates between 1/2 and 1, other weights between 0 and 1, all of a kind alike."""
        ranges = {"gate": (0.5, 1.0)}
        return {
            name: np.full(shape, generator.uniform(*ranges.get(name, (0.0, 1.0))))
            for name, shape in self.shapes.items()
        }

    def forward(self, weights: Mapping[str, Array], examples: Prompts) -> tuple[Array, Pullback]:
        """Predictions (n,) of the query labels, and how derivatives go back."""
        xp = array_namespace(examples.query)
        # Tokens first, prompts last: what is done to one number of all prompts runs over memory.
        count, context, dim = examples.inputs.shape
        inputs = xp.empty((context, dim, count), dtype=examples.inputs.dtype)
        inputs[...] = xp.permute_dims(examples.inputs, (1, 2, 0))
        query = xp.zeros_like(inputs[0, :, :])
        labels = examples.labels.T
        query[...] = examples.query.T
        if self.by_token and context != self.context:
            raise ValueError(f"prompts must have context = {self.context} pairs, got {context}")
        no_weight = xp.ones((1,), dtype=query.dtype)
        scale = weights.get("preconditioner", no_weight)
        step = weights.get("step", no_weight)
        run = _Run(
            self,
            inputs=inputs,
            labels=labels,
            query=query,
            gate=weights.get("gate", no_weight)[:, None],
            steps=xp.broadcast_to(step, (context,)),
            times=_time_steps(weights.get("selectivity"), inputs, labels),
            scaled=scale[:, None] * inputs if self.preconditioned else inputs,
            readout=weights["readout"],
        )
        run.read()
        return run.readout * run.answers, run.pullback


@dataclass(frozen=True)
class _Run:
    """A layer that reads prompts; arrays have tokens first and prompts last.

    Attributes
    ----------
    layer : RecurrentLayer
        Which one.
    inputs, labels, query : array (context, dim, n), (context, n) and (dim, n)
        Prompts.
    gate, steps, readout : array (dim or 1, 1), (context,) and (1,)
        Weights.
    times : array (context, n or 1)
        Factors of the steps.
    scaled : array (context, dim, n)
        Inputs times the preconditioner.
    memories, residuals : list of array (dim, n) and (n,)
        Memory before each token and after all, and errors that are corrected.
    """

    layer: RecurrentLayer
    inputs: Array
    labels: Array
    query: Array
    gate: Array
    steps: Array
    times: Array
    scaled: Array
    readout: Array
    memories: list[Array] = field(default_factory=list)
    residuals: list[Array] = field(default_factory=list)

    @cached_property
    def answers(self) -> Array:
        """Products (n,) of the queries and the memory after all tokens."""
        return array_namespace(self.query).sum(self.query * self.memories[-1], axis=0)

    def read(self) -> None:
        """Read all tokens."""
        xp = array_namespace(self.query)
        memory = xp.zeros_like(self.query)
        self.memories.append(memory)
        for t in range(self.steps.shape[0]):
            residual = self.labels[t, :]
            if self.layer.gated:
                memory = self.gate ** self.times[t, :] * memory
            if self.layer.corrects:
                residual = residual - xp.sum(self.inputs[t, :, :] * memory, axis=0)
            memory = memory + self.scaled[t, :, :] * (self.steps[t] * self.times[t, :] * residual)
            self.residuals.append(residual)
            self.memories.append(memory)

    def pullback(self, by_prediction: Array) -> Pulled:
        """Derivatives by the weights and the queries, from those by the predictions."""
        xp = array_namespace(self.query)
        layer = self.layer
        by_memory = self.readout * self.query * by_prediction
        by_gate = xp.zeros((layer.dim,), dtype=self.query.dtype)
        by_scale = xp.zeros((layer.dim,), dtype=self.query.dtype)
        by_selectivity = xp.zeros((layer.dim + 1,), dtype=self.query.dtype)
        by_steps = []
        for t in reversed(range(self.steps.shape[0])):
            x = self.inputs[t, :, :]
            time = self.times[t, :]
            step = self.steps[t]
            residual = self.residuals[t]
            if layer.preconditioned:
                by_scale = by_scale + xp.vecdot(by_memory, x * (step * time * residual))
            by_write = xp.sum(by_memory * self.scaled[t, :, :], axis=0)
            by_steps.append(xp.sum(by_write * time * residual))
            if layer.corrects:
                by_memory = by_memory - x * (step * time * by_write)
            if layer.selective:
                kept, of_gate, of_selectivity = self._selective_slopes(t, by_memory, by_write)
                by_gate = by_gate + of_gate
                by_selectivity = by_selectivity + of_selectivity
                by_memory = kept * by_memory
            elif layer.gated:
                by_gate = by_gate + xp.vecdot(by_memory, self.memories[t])
                by_memory = self.gate * by_memory
        gradients = {
            "gate": by_gate,
            "step": xp.stack(by_steps[::-1]),
            "preconditioner": by_scale,
            "selectivity": by_selectivity,
            "readout": xp.sum(self.answers * by_prediction)[None],
        }
        by_weights = {
            name: gradients[name]
            if shape == gradients[name].shape
            else xp.sum(gradients[name])[None]
            for name, shape in layer.shapes.items()
        }
        by_query = self.readout * self.memories[-1] * by_prediction
        return Pulled(by_weights, by_query.T)

    def _selective_slopes(
        self, t: int, by_memory: Array, by_write: Array
    ) -> tuple[Array, Array, Array]:
        """What is kept at a token, and its part of the derivatives by the gate and selectivity."""
        xp = array_namespace(self.query)
        time = self.times[t, :]
        base = xp.where(self.gate > _LEAST_GATE, self.gate, _LEAST_GATE)
        kept = self.gate**time
        by_kept = by_memory * self.memories[t]
        by_gate = xp.sum(by_kept * (time * base ** (time - 1)), axis=1)
        by_time = xp.sum(by_kept * kept * xp.log(base), axis=0)
        by_time = by_time + by_write * self.steps[t] * self.residuals[t]
        by_logit = by_time * time * (1 - time / 2)
        pair = xp.concat([self.inputs[t, :, :], self.labels[t, :][None, :]], axis=0)
        return kept, by_gate, pair @ by_logit


def _time_steps(selectivity: Array | None, inputs: Array, labels: Array) -> Array:
    """Factors of the steps of all tokens, (context, n), or (context, 1) where all are 1."""
    xp = array_namespace(inputs)
    if selectivity is None:
        return xp.ones((labels.shape[0], 1), dtype=inputs.dtype)
    logits = xp.sum(inputs * selectivity[:-1][:, None], axis=1) + labels * selectivity[-1]
    return 2 / (1 + xp.exp(-logits))
