"""Gradients of all networks that are trained are the slopes of their losses.

At drawn weights and on drawn prompts, hand-written gradients by the weights and by the queries
equal finite differences along random directions: of stacks of attention layers with all their
options, of stacked LSTM layers in both directions, of recurrent layers whose gates and steps
depend on the inputs, of merged softmax heads, of layers of linear attention and of gradient
descent on an embedding.  Stacked LSTM layers are what their equations say, gate by gate.  A
training that goes on from a checkpoint has the losses of one without a break, and a model that is
read back gives the same answers.  The seed draws weights, prompts and directions.

Source: networks as in the documentation of each class.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.random import Generator, SeedSequence

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.dynamics import simulate_gradient_descent
from iclimit.simulate.models.network import Network
from iclimit.simulate.networks import (
    AttentionNetwork,
    EmbeddedDescent,
    LinearAttention,
    LstmNetwork,
    token_sensitivities,
)
from iclimit.simulate.prompts import Prompts, draw_prompts
from iclimit.simulate.recurrent import RecurrentLayer
from iclimit.simulate.softmax import MergedHeads
from iclimit.simulate.training.files import load_model, save_model
from iclimit.simulate.training.networks import train_network
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, exact, run
from iclimit.validation.claims.random_settings import Pair, pair_rows

DIM, CONTEXT, PROMPTS = 2, 4, 5
NETWORKS: dict[str, Network] = {
    "attention of embedded tokens": AttentionNetwork(
        dim=DIM,
        layers=2,
        heads=2,
        width=6,
        mlp=5,
        layer_norm=True,
        include_query=True,
        tokens="separate",
        positions=2,
        embedding_mlp=4,
    ),
    "attention of two kinds": AttentionNetwork(dim=DIM, layers=2, attention=("linear", "softmax")),
    "LSTM": LstmNetwork(dim=DIM, hidden=3, layers=2, bidirectional=True),
    "selective layer": RecurrentLayer(
        dim=DIM,
        by_channel=True,
        by_token=True,
        preconditioned=True,
        context=CONTEXT,
        selective=True,
    ),
    "gated attention": RecurrentLayer(dim=DIM, corrects=False),
    "merged heads": MergedHeads(dim=DIM, heads=2, init_scale=0.5),
    "linear attention": LinearAttention(
        dim=DIM, layers=2, heads=2, shared=True, include_query=True, init_scale=0.4
    ),
    "embedded descent": EmbeddedDescent(dim=DIM, width=4, mlp=5),
}
# Tokens that the first layer reads, and the relative tolerance of differences of second order.
TOKENS, ROUGH = ("own", "following", "others"), 1e-5
# Step of the differences, and tolerance of a slope over the product of the norms of gradient and
# direction: 1e-11 was seen in 200 draws.
STEP, TOLERANCE = 5e-4, 1e-8
# Relative difference of trainings that are the same.
KEPT = 1e-12


def difference(function: Callable[[float], float]) -> float:
    """Slope at 0 from four values; its error is of the fourth order in the step."""
    near, far = (function(k * STEP) - function(-k * STEP) for k in (1, 2))
    return (8 * near - far) / (12 * STEP)


def compared(
    gradient: np.ndarray, function: Callable[[np.ndarray], float], generator: Generator
) -> tuple[float, float]:
    """Slope along a random direction by the gradient and by differences, over its norm."""
    direction = generator.standard_normal(gradient.shape)
    direction /= np.linalg.norm(direction)
    scale = float(np.linalg.norm(gradient))
    slope = difference(lambda step: function(step * direction))
    return float(np.vdot(gradient, direction)) / scale, slope / scale


@named_cell("slopes")
def slopes(*, rng: SeedSequence) -> dict[str, tuple[float, float]]:
    """Slopes of all networks, and the answer of the LSTM."""
    found: dict[str, tuple[float, float]] = {}
    generator = np.random.default_rng(rng)
    law = Problem(DIM, CONTEXT, noise_variance=0.2, scale=1)
    prompts = draw_prompts(law, get_backend("numpy"), generator, PROMPTS)
    for name, network in NETWORKS.items():
        drawn = network.initial(generator).items()
        weights = {key: each * generator.uniform(0.9, 1, each.shape) for key, each in drawn}
        found |= {
            f"{name}, by {what}": pair
            for what, pair in slopes_of(network, weights, prompts, generator).items()
        }
        if name == "attention of two kinds" and isinstance(network, AttentionNetwork):
            known = token_sensitivities(network, weights, prompts)
            values = plain_sensitivities(network, weights, prompts)
            found |= {
                f"sensitivity to {token}": (getattr(known, token), value)
                for token, value in zip(TOKENS, values, strict=True)
            }
        if isinstance(network, LstmNetwork):
            answer = float(network.forward(weights, prompts)[0][0])
            found[f"{name}, answer"] = answer, plain_lstm(network, weights, prompts)
    return found


def slopes_of(
    network: Network, weights: dict[str, np.ndarray], prompts: Prompts, generator: Generator
) -> dict[str, tuple[float, float]]:
    """Slopes by weights and by queries."""
    vector = network.pack(weights)
    seed = generator.standard_normal(PROMPTS)

    def loss(move: np.ndarray) -> float:
        return float(network.loss_and_gradient(network.unpack(vector + move), prompts)[0])

    def answer(move: np.ndarray) -> float:
        moved = replace(prompts, query=prompts.query + move)
        return float(seed @ network.forward(weights, moved)[0])

    by_weights = network.pack(network.loss_and_gradient(weights, prompts)[1])
    by_queries = network.forward(weights, prompts)[1](seed).query
    return {
        "weights": compared(by_weights, loss, generator),
        "queries": compared(by_queries, answer, generator),
    }


def plain_sensitivities(
    network: AttentionNetwork, weights: dict[str, np.ndarray], prompts: Prompts
) -> tuple[float, float, float]:
    """Mean slopes of tokens of the first layer by themselves, the following, and any other one."""

    def moved(step: float, pair: int, entry: int) -> np.ndarray:
        inputs = prompts.inputs.copy()
        labels = prompts.labels.copy()
        if entry < DIM:
            inputs[:, pair, entry] += step
        else:
            labels[:, pair] += step
        state, _ = network.first_layer(weights, replace(prompts, inputs=inputs, labels=labels))
        return np.asarray(np.mean(np.sum(state, axis=2), axis=0))

    slopes = np.array(
        [
            [
                (moved(STEP, pair, entry) - moved(-STEP, pair, entry)) / (2 * STEP)
                for entry in range(DIM + 1)
            ]
            for pair in range(CONTEXT)
        ]
    )
    norms = np.linalg.norm(slopes, axis=1)[:, : CONTEXT - 1]  # by pair, of all but two tokens
    own, following = (np.mean(np.diagonal(norms, -k)) for k in (0, 1))
    total = np.mean(np.sum(norms, axis=0))
    return float(own), float(following), float(total - own - following) / (CONTEXT - 1)


def plain_lstm(network: LstmNetwork, weights: Mapping[str, np.ndarray], prompts: Prompts) -> float:
    """Answer to the first prompt, gate by gate."""
    tokens = [*np.column_stack([prompts.inputs[0], prompts.labels[0]]), [*prompts.query[0], 0.0]]
    for layer in range(network.layers):
        both = []
        for direction, order in enumerate((1, -1)):
            U, V, b = (
                weights[f"{part}_{layer}"][direction] for part in ("input", "recurrent", "bias")
            )
            h = np.zeros(network.hidden)
            c = h
            states = []
            for token in tokens[::order]:
                i, f, o, g = np.split(U @ token + V @ h + b, 4)
                c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
                h = np.tanh(c) / (1 + np.exp(-o))
                states.append(h)
            both.append(states[::order])
        tokens = [np.concat(pair) for pair in zip(*both, strict=True)]
    return float(weights["readout"] @ tokens[-1])


@named_cell("kept_trainings")
def kept_trainings(*, rng: SeedSequence) -> list[Pair]:
    """A training that goes on from its checkpoint, and a model that is read back."""
    generator = np.random.default_rng(rng)
    seed = int(generator.integers(2**31))
    law = Problem(DIM, CONTEXT, noise_variance=0.2, scale=1)
    prompts = draw_prompts(law, get_backend("numpy"), generator, PROMPTS)
    descent: dict[str, Any] = {"heads": 2, "training_set": 60, "record": 5, "rng": seed}
    with TemporaryDirectory() as folder:
        path = Path(folder, "run.npz")
        model = Path(folder, "model.npz")
        whole = simulate_gradient_descent(law, **descent, steps=20)
        simulate_gradient_descent(law, **descent, steps=10, checkpoint=path)
        again = simulate_gradient_descent(law, **descent, steps=20, checkpoint=path)
        trained = train_network(
            NETWORKS["gated attention"], law, steps=3, batch=64, held_out=200, rng=seed
        )
        save_model(trained, model)
        read = load_model(model)
    losses = (each.losses.ravel() for each in (whole, again))
    answers = (each(prompts.inputs, prompts.labels, prompts.query) for each in (trained, read))
    return [
        (f"{name} {number + 1}", float(first), float(second), KEPT)
        for name, pairs in (("loss with a break", losses), ("answer read back", answers))
        for number, (first, second) in enumerate(zip(*pairs, strict=True))
    ]


def rows(_: Effort) -> Rows:
    """Slopes of all networks, what the first layer reads, and the answer of the LSTM."""
    found = run(slopes)
    for label in [f"sensitivity to {token}" for token in TOKENS]:
        yield exact(label, found[label][0], found[label][1], relative=ROUGH)
    for label in [f"{name}, by {what}" for name in NETWORKS for what in ("weights", "queries")]:
        yield exact(label, found[label][0], found[label][1], allowance=TOLERANCE)
    answer = found["LSTM, answer"]
    yield exact("LSTM, answer", answer[0], answer[1], allowance=TOLERANCE)
    yield from pair_rows(kept_trainings)


claim = Claim.of("gradients", __doc__, rows, figure=False)
