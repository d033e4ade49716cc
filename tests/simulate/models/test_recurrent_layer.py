"""Recurrent layers: what their weights are and what they refuse."""

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.networks import train_network
from iclimit.simulate.prompts import sample_prompts
from iclimit.simulate.recurrent import RecurrentLayer


def test_weights_that_stand_for_the_same_layer_agree():
    """A step for each token or channel, all alike, is one step; without decay, gates are one."""
    drawn = sample_prompts(Problem(dim=3, context=5, noise_variance=0.2), 4, rng=0)
    answers = RecurrentLayer(3, gated=False).forward(
        {"step": np.array([0.6]), "readout": np.array([0.8])}, drawn
    )[0]
    every = {
        "gate": np.ones(3),
        "step": np.full(5, 0.3),
        "preconditioner": np.full(3, 2.0),
        "readout": np.array([0.8]),
    }
    layer = RecurrentLayer(3, by_channel=True, by_token=True, preconditioned=True, context=5)
    np.testing.assert_allclose(layer.forward(every, drawn)[0], answers, rtol=1e-12)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="by_channel must be False without a gate, got True"):
        RecurrentLayer(3, gated=False, by_channel=True)
    layer = RecurrentLayer(3, by_token=True, context=4)
    weights = layer.initial(np.random.default_rng(0))
    drawn = sample_prompts(Problem(dim=3, context=5), 2, rng=0)
    with pytest.raises(ValueError, match="prompts must have context = 4 pairs, got 5"):
        layer.forward(weights, drawn)


@pytest.mark.parametrize("settings", [{"optimizer": "lbfgs"}, {"learning_rate": 0.2}])
def test_trained_gates_and_steps_stay_in_their_ranges(settings):
    """Sixteen prompts are fitted best by weights outside; the bounds are reached and kept."""
    layer = RecurrentLayer(3, by_channel=True, by_token=True, context=5)
    problem = Problem(dim=3, context=5, noise_variance=0.2)
    size = {"steps": 40, "batch": 16, "held_out": 2, "rng": 0}
    run = train_network(layer, problem, snapshots=(1, 5, 40), **settings, **size)
    gates, steps = (
        np.array([each[name] for each in (*run.snapshots.values(), run.weights)])
        for name in ("gate", "step")
    )
    assert np.all((gates >= 0) & (gates <= 1) & (steps >= 0).all(axis=1, keepdims=True))
    assert np.any(gates == 1) or np.any(steps == 0)
