"""LSTM networks against plain code: predictions, gradients by autograd and complex steps."""

from types import SimpleNamespace

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import alignment, descent_predictor, network_predictor
from iclimit.simulate.networks import LstmNetwork, train_network
from iclimit.simulate.prompts import draw_prompts, sample_prompts

PROBLEM = Problem(dim=3, context=4, input_law="uniform", noise_variance=0.2, scale=1)


def drawn(count=6):
    return sample_prompts(PROBLEM, count, rng=1)


def weights_of(network):
    """Weights twice as large as at the start, so that the gates are far from linear."""
    initial = network.initial(np.random.default_rng(0))
    return {name: 2 * each for name, each in initial.items()}


@pytest.mark.machine
def test_one_layer_reads_nothing_but_the_query_backwards():
    network, both = (LstmNetwork(dim=3, hidden=5, bidirectional=each) for each in (False, True))
    weights = weights_of(both)
    prompts = drawn()
    weights["readout"] = np.concatenate([np.zeros(5), weights["readout"][5:]])
    known, _ = both.forward(weights, prompts)
    other = SimpleNamespace(inputs=-prompts.inputs, labels=prompts.labels, query=prompts.query)
    np.testing.assert_array_equal(known, both.forward(weights, other)[0])
    forward = {name: each[:1] for name, each in weights.items() if name != "readout"}
    forward["readout"] = np.ones(5)
    changed, unchanged = (network.forward(forward, each)[0] for each in (other, prompts))
    assert np.all(changed != unchanged)


def test_training_learns_gradient_descent_in_one_dimension():
    network = LstmNetwork(dim=1, hidden=16, bidirectional=True)
    settings = {"steps": 200, "batch": 64, "learning_rate": 0.02}
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
