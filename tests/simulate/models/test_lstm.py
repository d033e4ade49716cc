"""LSTM networks against plain code: predictions, gradients by autograd and complex steps."""

from types import SimpleNamespace
from typing import Any

import array_api_strict
import autograd.numpy as anp
import numpy as np
import pytest
from autograd import grad

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import alignment, descent_predictor
from iclimit.simulate.networks import LstmNetwork, train_network
from iclimit.simulate.networks.alignment import network_predictor
from iclimit.simulate.prompts import draw_prompts, sample_prompts

PROBLEM = Problem(dim=3, context=4, input_law="uniform", noise_variance=0.2, scale=1)
NETWORKS = [
    LstmNetwork(dim=3, hidden=5, layers=layers, bidirectional=both)
    for layers in (1, 2, 3)
    for both in (False, True)
]
ROUNDING = 1e-14
"""Largest difference of numbers of order one; 1e-16 is typical."""


def drawn(count: int = 6) -> Any:
    return sample_prompts(PROBLEM, count, rng=1)


def weights_of(network: LstmNetwork) -> dict[str, np.ndarray]:
    """Weights twice as large as at the start, so that the gates are far from linear."""
    initial = network.initial(np.random.default_rng(0))
    return {name: 2 * each for name, each in initial.items()}


def plain(network: LstmNetwork, weights: Any, inputs: Any, labels: Any, query: Any) -> Any:
    """Predictions, token by token as the equations stand."""
    n, hidden = query.shape[0], network.hidden
    tokens = [anp.hstack([inputs[:, t], labels[:, t, None]]) for t in range(inputs.shape[1])]
    tokens.append(anp.hstack([query, anp.zeros((n, 1))]))
    for layer in range(network.layers):
        found = []
        for direction in range(1 + network.bidirectional):
            own = [
                weights[f"{part}_{layer}"][direction] for part in ("input", "recurrent", "bias")
            ]
            h, c, states = anp.zeros((n, hidden)), anp.zeros((n, hidden)), []
            for token in tokens[::-1] if direction else tokens:
                a = token @ own[0].T + h @ own[1].T + own[2]
                i, f, o, g = (a[:, k * hidden : (k + 1) * hidden] for k in range(4))
                c = c / (1 + anp.exp(-f)) + anp.tanh(g) / (1 + anp.exp(-i))
                h = anp.tanh(c) / (1 + anp.exp(-o))
                states.append(h)
            found.append(states[::-1] if direction else states)
        tokens = [anp.hstack(states) for states in zip(*found, strict=True)]
    return tokens[-1] @ weights["readout"]


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_predictions_and_gradients_are_those_of_plain_code(network: LstmNetwork) -> None:
    weights, prompts = weights_of(network), drawn()
    seen = prompts.inputs, prompts.labels, prompts.query

    def loss(weights: Any) -> Any:
        return anp.mean((plain(network, weights, *seen) - prompts.target) ** 2)

    predictions, _ = network.forward(weights, prompts)
    expected = plain(network, weights, *seen)
    np.testing.assert_allclose(predictions, expected, rtol=0, atol=ROUNDING)
    found, gradient = network.loss_and_gradient(weights, prompts)
    assert abs(found - loss(weights)) < ROUNDING
    assert {name: each.shape for name, each in gradient.items()} == network.shapes
    for name, by_weight in grad(loss)(weights).items():
        np.testing.assert_allclose(gradient[name], by_weight, rtol=0, atol=ROUNDING)


@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_derivatives_by_the_query_are_those_of_complex_steps(network: LstmNetwork) -> None:
    weights, prompts, step = weights_of(network), drawn(), 1e-30
    found = network.query_gradients(weights, prompts)
    for number in range(network.dim):
        moved = prompts.query + 1j * step * np.eye(network.dim)[number]
        predictions = plain(network, weights, prompts.inputs, prompts.labels, moved)
        np.testing.assert_allclose(found[:, number], predictions.imag / step, atol=ROUNDING)


def test_strict_arrays_give_the_same() -> None:
    network = NETWORKS[3]
    weights, prompts = weights_of(network), drawn()
    names = ("inputs", "labels", "query", "target", "noise_variance")
    strict = SimpleNamespace(
        **{name: array_api_strict.asarray(getattr(prompts, name)) for name in names}
    )
    strict_weights = {name: array_api_strict.asarray(each) for name, each in weights.items()}
    expected, gradient = network.loss_and_gradient(weights, prompts)
    loss, found = network.loss_and_gradient(strict_weights, strict)
    assert abs(float(loss) - expected) < ROUNDING
    for name, each in gradient.items():
        np.testing.assert_allclose(np.asarray(found[name]), each, rtol=0, atol=ROUNDING)


def test_one_layer_reads_nothing_but_the_query_backwards() -> None:
    network, both = (LstmNetwork(dim=3, hidden=5, bidirectional=each) for each in (False, True))
    weights, prompts = weights_of(both), drawn()
    weights["readout"] = np.concatenate([np.zeros(5), weights["readout"][5:]])
    known, _ = both.forward(weights, prompts)
    other = SimpleNamespace(inputs=-prompts.inputs, labels=prompts.labels, query=prompts.query)
    np.testing.assert_array_equal(known, both.forward(weights, other)[0])
    forward = {name: each[:1] for name, each in weights.items() if name != "readout"}
    forward["readout"] = np.ones(5)
    changed, unchanged = (network.forward(forward, each)[0] for each in (other, prompts))
    assert np.all(changed != unchanged)


def test_training_learns_gradient_descent_in_one_dimension() -> None:
    network = LstmNetwork(dim=1, hidden=16, bidirectional=True)
    settings: dict[str, Any] = {"steps": 200, "batch": 64, "learning_rate": 0.02}
    run = train_network(
        network,
        Problem(dim=1, context=5, input_law="uniform", scale=1),
        held_out=1000,
        rng=0,
        **settings,
    )
    assert run.held_out.mean + 4 * run.held_out.standard_error < 0.5 * run.null_loss
    law = Problem(dim=1, context=5, input_law="uniform", scale=1)
    prompts = draw_prompts(law, get_backend("numpy"), np.random.default_rng(3), 500)
    trained = network_predictor(run.network, run.weights)
    found = alignment(trained, descent_predictor([2.0], scale=1), prompts)
    assert found.cosine.mean - 4 * found.cosine.standard_error > 0.5


def test_bad_sizes_are_named() -> None:
    with pytest.raises(ValueError, match="hidden must be an integer >= 1, got 0"):
        LstmNetwork(dim=3, hidden=0)
