"""Simulated losses of heads: their mean over tasks, their samplers, what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from sampled_means import assert_mean, assert_same_mean

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.prompts import draw_prompts
from iclimit.simulate.softmax import MergedHeads, SimulatedHeads, simulate_softmax, simulated_heads

BETAS, VALUES = (0.7, -0.4), np.array([1.3, -0.8])
SIZE = {"context": 6, "dim": 3, "noise_variance": 0.4}
MATRIX = np.array([[1.2, 0.4, 0.0], [-0.3, 0.9, 0.2], [0.1, 0.2, 0.5]])
ROUNDING = 1e-12


def relu(scores):
    return np.maximum(scores, 0)


@pytest.fixture
def one_group(monkeypatch):
    """A hundred prompts from each seed."""
    monkeypatch.setattr(simulated_heads, "BLOCK_NUMBERS", 1)


LAWS = {
    "gaussian": {},
    "uniform": {"input_law": "uniform", "scale": 2.0, "task_variance": 3.0},
    "covariances": {
        "input_covariance": [2.0, 1.0, 0.5],
        "task_covariance": MATRIX @ MATRIX.T,
        "key_query": MATRIX,
    },
    "diagonal tasks": {"task_covariance": [1.0, 0.2, 3.0]},
}


@pytest.mark.usefixtures("one_group")
@pytest.mark.parametrize("name", LAWS)
def test_mean_over_tasks_and_noise_is_that_of_a_network(name):
    # The loss is a quadratic form in task and noise: its mean is the sum over a basis of both.
    law = LAWS[name]
    found = simulate_softmax(BETAS, **SIZE, **law, contexts=200, sampler="tokens", rng=5)
    A = np.array(law.get("key_query", np.eye(3)))
    settings = {"scale": 1} | {k: v for k, v in law.items() if k != "key_query"}
    problem = Problem(**SIZE, **settings)
    W = np.array(law.get("task_covariance", np.ones(3)))
    root = np.linalg.cholesky(W if W.ndim == 2 else np.diag(W)) * np.sqrt(problem.task_variance)
    network = MergedHeads(dim=3, heads=2)
    weights = {"lookup": np.zeros((2, 4, 3)), "value": np.zeros((2, 4))}
    weights["lookup"][:, :3, :] = np.multiply.outer(BETAS, A.T)
    weights["value"][:, 3] = VALUES
    device = get_backend("numpy")
    for group, generator in enumerate(device.generators(5, 2)):
        drawn = draw_prompts(problem, device, generator, 100)
        losses = 0.0
        for column in root.T:
            asked = replace(drawn, labels=drawn.inputs @ column)
            losses += (network.forward(weights, asked)[0] - drawn.query @ column) ** 2
        for noise in np.sqrt(0.4) * np.eye(6):
            asked = replace(drawn, labels=np.tile(noise, (100, 1)))
            losses += network.forward(weights, asked)[0] ** 2
        assert found.loss(VALUES).samples[group] == pytest.approx(np.mean(losses), rel=ROUNDING)


@pytest.mark.parametrize("kernel", [None, relu])
def test_scores_have_the_losses_of_tokens(kernel):
    setting = SIZE | {"scale": 0.8, "task_variance": 2.0, "score_function": kernel}
    scores, tokens = (
        simulate_softmax(BETAS, **setting, contexts=40_000, sampler=sampler, rng=seed)
        for sampler, seed in (("scores", 1), ("tokens", 2))
    )
    assert_same_mean(scores.null, tokens.null)
    assert_same_mean(scores.signal, tokens.signal)
    assert_same_mean(scores.power, tokens.power)


def test_a_single_pair_and_a_linear_kernel():
    one = simulate_softmax(0.9, context=1, dim=4, noise_variance=0.5, contexts=20_000, rng=0)
    assert_mean(one.power[:, 0, 0], 4.5)  # the weight of a single pair is 1
    assert_mean(one.signal[:, 0], 0)
    # A gradient-descent step: moments of a Wishart matrix of N degrees of freedom.
    N = 7
    d = 4
    step = simulate_softmax(
        1.0, score_function=lambda s: s / N, context=N, dim=d, contexts=20_000, rng=1
    )
    assert_mean(step.signal[:, 0], d)
    assert_mean(step.power[:, 0, 0], d * (N + d + 1) / N)


def test_losses_of_one_simulation():
    found = simulate_softmax(BETAS, **SIZE, contexts=1001, rng=3)
    assert isinstance(found, SimulatedHeads)
    assert found.prompts == 1100
    assert found.loss([0.0, 0.0]).mean == pytest.approx(np.mean(found.null))
    best = found.loss(found.best_value)
    nudged = [found.loss(found.best_value + step) for step in ([0.01, 0], [-0.01, 0], [0, 0.01])]
    assert all(best.mean < other.mean for other in nudged)
    # A head that is left out changes nothing, nor do prompts that are drawn later.
    alone = simulate_softmax(BETAS[0], **SIZE, contexts=300, rng=3)
    np.testing.assert_allclose(alone.loss(2.0).samples, found.loss([2.0, 0.0]).samples[:3])


def test_bad_arguments_are_named():
    for wrong, message in (
        ({"sampler": "scores", "input_law": "uniform"}, "sampler must be 'tokens' with this"),
        ({"inverse_temperatures": [[1.0]]}, r"inverse_temperatures must have shape \(\) or"),
        ({"key_query": np.eye(2)}, r"key_query must have shape \(3, 3\)"),
        ({"tasks": np.eye(3)}, "problem must have tasks = inf here"),
        ({"score_function": lambda s: np.nan * s}, "score_function must return finite weights"),
        ({"score_function": lambda s: s[:1]}, "score_function must return a weight for each"),
        ({"score_function": lambda s: s.sum()}, "score_function must return a weight for each"),
    ):
        with pytest.raises(ValueError, match=message):
            simulate_softmax(**{"inverse_temperatures": 0.5, "rng": 0, **SIZE, **wrong})
        with pytest.raises(ValueError, match=r"value must have shape \(1,\)"):
            simulate_softmax(0.5, **SIZE, contexts=200, rng=0).loss([1.0, 2.0])


def test_what_is_no_function_is_refused():
    with pytest.raises(TypeError, match="score_function must be a function of a score, got 3"):
        simulate_softmax(0.5, **SIZE, score_function=3, rng=0)
