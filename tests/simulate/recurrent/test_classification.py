"""Classification in context: against sampled queries, and what gates weigh."""

import numpy as np
import pytest

from iclimit.simulate.recurrent import simulate_classification

SETTING = {"dim": 3, "context": 8, "separation": 1.2, "flips": 0.2}


def test_sampled_queries_are_answered_as_often():
    count = 200_000
    rng = np.random.default_rng(0)
    mean = np.array([0.0, 1.2, 0.0])
    classes = rng.choice([-1.0, 1.0], (count, 9))
    inputs = classes[..., None] * mean + rng.standard_normal((count, 9, 3))
    labels = classes * np.where(rng.random((count, 9)) < 0.2, -1, 1)
    gates = np.array([0.3, 1, 0.5, 0.9, 1, 0.8, 0.7, 0.9])
    memory = np.zeros((count, 3))
    for token, gate in enumerate(gates):
        memory = gate * memory + labels[:, token, None] * inputs[:, token]
    right = np.sum(memory * inputs[:, 8], axis=1) * classes[:, 8] > 0
    run = simulate_classification(**SETTING, gates=gates, rng=1, contexts=20_000)
    error = np.hypot(run.standard_error, right.std() / count**0.5)
    assert abs(run.mean - right.mean()) < 4 * error


@pytest.mark.machine
def test_more_contexts_keep_the_first():
    few, many = (simulate_classification(**SETTING, rng=3, contexts=n) for n in (5, 20_000))
    assert np.array_equal(few.samples, many.samples[:5])


def test_gates_are_those_of_every_token():
    with pytest.raises(ValueError, match="gates must"):
        simulate_classification(**SETTING, gates=[0.5, 0.9], rng=0)
