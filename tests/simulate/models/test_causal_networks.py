"""Networks that answer at every position of a sequence."""

import math
from dataclasses import replace

import array_api_strict
import numpy as np
import pytest
from prompt_arrays import arrays_of
from refusals import type_error, value_error

import iclimit
from iclimit import AllPositions, RandomLength
from iclimit.problem import Problem
from iclimit.simulate.networks import AttentionNetwork, CausalNetwork, train_network
from iclimit.simulate.prompts import Prompts, sample_prompts

PROBLEM = Problem(dim=3, context=5, scale=1, noise_variance=0.1)
PROMPTS = sample_prompts(PROBLEM, 4, rng=0)

NETWORKS = {
    "softmax": CausalNetwork(3, layers=2, heads=2, width=6, mlp=5, layer_norm=True, positions=4),
    "linear": CausalNetwork(3, layers=2, attention="linear", positions=2),
    "shared": CausalNetwork(3, layers=2, shared=True, attention=("softmax", "linear")),
}

# Central differences of this step have an error of its square.
STEP = 1e-5
CLOSE = 1e-7

# Rounding of sums of a few hundred terms.
ROUNDING = 1e-12


def start(network):
    """Weights at which no scale is one, and no bias or offset zero."""
    rng = np.random.default_rng(1)
    weights = network.initial(rng)
    return {name: each + 0.2 * rng.standard_normal(each.shape) for name, each in weights.items()}


@pytest.mark.parametrize("name", NETWORKS)
def test_gradients_are_those_of_finite_differences(name):
    network = NETWORKS[name]
    weights = start(network)
    loss = AllPositions(first=2, weights=(1, 2, 0.5, 3))
    labels = PROMPTS.query_label
    _, gradient = network.loss_at_positions(weights, PROMPTS, labels, loss)
    vector = network.pack(weights)
    rng = np.random.default_rng(2)
    for _ in range(4):
        direction = rng.standard_normal(vector.shape)
        ends = [
            network.loss_at_positions(
                network.unpack(vector + sign * STEP * direction), PROMPTS, labels, loss
            )[0]
            for sign in (1, -1)
        ]
        slope = float(network.pack(gradient) @ direction)
        assert (ends[0] - ends[1]) / (2 * STEP) == pytest.approx(slope, rel=CLOSE, abs=CLOSE)


@pytest.mark.parametrize("name", NETWORKS)
def test_one_position_is_the_loss_of_the_query(name):
    network = NETWORKS[name]
    weights = start(network)
    labels = PROMPTS.query_label
    one = AllPositions(first=PROBLEM.context)
    loss, gradient = network.loss_at_positions(weights, PROMPTS, labels, one)
    last, by_last = network.loss_and_gradient(weights, PROMPTS, labels)
    assert float(loss) == pytest.approx(float(last), rel=ROUNDING)
    packed = network.pack(by_last)
    np.testing.assert_allclose(
        network.pack(gradient), packed, atol=ROUNDING * float(np.max(np.abs(packed)))
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_each_answer_is_that_of_a_shorter_prompt(name):
    """All positions at once, and one prompt of each length."""
    network = NETWORKS[name]
    weights = start(network)
    together, _ = network.answers(weights, PROMPTS, 1)
    x = np.concatenate([PROMPTS.inputs, PROMPTS.query[:, None]], axis=1)
    for place in range(1, PROBLEM.context + 1):
        shorter = replace(
            PROMPTS, inputs=x[:, :place], labels=PROMPTS.labels[:, :place], query=x[:, place]
        )
        alone, _ = network.forward(weights, shorter)
        np.testing.assert_allclose(together[:, place - 1], alone, rtol=1e-10, atol=ROUNDING)


@pytest.mark.parametrize("name", NETWORKS)
def test_arrays_of_the_standard(name):
    network = NETWORKS[name]
    weights = start(network)
    loss = AllPositions(first=2)
    expected, gradients = network.loss_at_positions(weights, PROMPTS, PROMPTS.query_label, loss)
    strict = {key: array_api_strict.asarray(value) for key, value in weights.items()}
    prompts = Prompts(*map(array_api_strict.asarray, arrays_of(PROMPTS).values()))
    found, by_weights = network.loss_at_positions(strict, prompts, prompts.query_label, loss)
    assert float(found) == pytest.approx(float(expected), rel=ROUNDING)
    for key, value in gradients.items():
        np.testing.assert_allclose(np.from_dlpack(by_weights[key]), value, atol=1e-10)


def test_training_at_all_positions_lowers_the_loss():
    network = CausalNetwork(3, attention="linear")
    settings = {"steps": 30, "batch": 64, "learning_rate": 0.02, "held_out": 500, "rng": 0}
    run = train_network(network, PROBLEM, loss=AllPositions(), **settings)
    assert np.mean(run.losses[-5:]) < np.mean(run.losses[:5])
    assert run.parameters["loss"]["first"] == 1
    last = train_network(
        network, PROBLEM, loss=AllPositions(first=5), query_noise=True, **settings
    )
    same = train_network(network, PROBLEM, query_noise=True, **settings)
    np.testing.assert_allclose(last.losses, same.losses, rtol=1e-9)
    assert "loss" not in same.parameters
    fixed = train_network(
        network, PROBLEM, loss=AllPositions(), optimizer="lbfgs", steps=3, batch=64, rng=0
    )
    assert fixed.losses[-1] < fixed.losses[0]


def test_answers_are_asked_for_by_position():
    network = CausalNetwork(3, attention="linear")
    run = train_network(network, PROBLEM, loss=AllPositions(), steps=2, held_out=50, rng=0)
    errors = iclimit.validation.probe_positions(
        run.at_positions, PROBLEM, test_prompts=20, baselines=["null"]
    )
    assert len(errors.ladders) == PROBLEM.context + 1
    drawn = PROMPTS
    x = np.concatenate([drawn.inputs, drawn.query[:, None]], axis=1)
    y = np.concatenate([drawn.labels, np.zeros((len(drawn), 1))], axis=1)
    np.testing.assert_allclose(
        run.at_positions(x, y)[:, -1], run(drawn.inputs, drawn.labels, drawn.query), rtol=1e-10
    )
    plain = train_network(AttentionNetwork(3), PROBLEM, steps=1, held_out=50, rng=0)
    with pytest.raises(AttributeError, match="at_positions is of a CausalNetwork"):
        plain.at_positions(x, y)


def test_what_leaks_or_is_not_known_is_refused():
    value_error("tokens must be 'separate'.*holds the label", CausalNetwork, 3, tokens="pairs")
    value_error("include_query must be False", CausalNetwork, 3, include_query=True)
    type_error("layer_norm", CausalNetwork, 3, layer_norm=1)
    settings = {"steps": 1, "rng": 0}
    for network, loss, words in (
        (AttentionNetwork(3), AllPositions(), "without a causal mask"),
        (CausalNetwork(3), RandomLength((2, 5)), "LastPosition or AllPositions for networks"),
        (CausalNetwork(3), AllPositions(first=6), "at most the context of 5"),
        (CausalNetwork(3), AllPositions(weights=(1, 2)), "one number for each of the 5 positions"),
    ):
        value_error(words, train_network, network, PROBLEM, loss=loss, **settings)


def test_a_network_is_read_back(tmp_path):
    network = CausalNetwork(3, layers=2, attention=("softmax", "linear"))
    run = train_network(network, PROBLEM, loss=AllPositions(), steps=2, held_out=50, rng=0)
    iclimit.networks.save_model(run, tmp_path / "causal.npz")
    again = iclimit.networks.load_model(tmp_path / "causal.npz")
    assert again.network == network
    assert again.parameters["loss"] == run.parameters["loss"]
    assert math.isclose(again.losses[-1], run.losses[-1])
