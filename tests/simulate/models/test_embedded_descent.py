"""Gradient descent on an embedding against a second implementation, differentiated by autograd."""

import math
from typing import Any

import autograd
import autograd.numpy as anp
import numpy as np

from iclimit.problem import Problem
from iclimit.simulate.networks import EmbeddedDescent
from iclimit.simulate.prompts import sample_prompts

PROMPTS = sample_prompts(Problem(dim=2, context=4, scale=1), 5, rng=0)
NETWORK = EmbeddedDescent(dim=2, width=3, mlp=5)
WEIGHTS = NETWORK.initial(np.random.default_rng(1))
ROUNDING = 1e-12  # of the largest entry


def embed(w: dict[str, Any], x: Any) -> Any:
    first = x @ w["embedding"] + w["embedding_bias"]
    inner = first @ w["mlp_in"] + w["mlp_in_bias"]
    inner = inner / (1 + anp.exp(-2 * math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
    return first + inner @ w["mlp_out"] + w["mlp_out_bias"]


def predict(w: dict[str, Any], query: Any) -> Any:
    scores = anp.einsum("nw,niw->ni", embed(w, query), embed(w, PROMPTS.inputs))
    return anp.mean(scores * PROMPTS.labels, axis=1)


def test_predictions_and_gradients() -> None:
    found, _ = NETWORK.forward(WEIGHTS, PROMPTS)
    np.testing.assert_allclose(found, predict(WEIGHTS, PROMPTS.query), rtol=ROUNDING)
    _, gradients = NETWORK.loss_and_gradient(WEIGHTS, PROMPTS)
    expected = autograd.grad(
        lambda w: anp.mean((predict(w, PROMPTS.query) - PROMPTS.target) ** 2)
    )(WEIGHTS)
    for name, gradient in gradients.items():
        largest = np.abs(expected[name]).max()
        np.testing.assert_allclose(gradient, expected[name], atol=ROUNDING * largest, rtol=0)
    slopes = autograd.elementwise_grad(lambda q: predict(WEIGHTS, q))(PROMPTS.query)
    np.testing.assert_allclose(NETWORK.query_gradients(WEIGHTS, PROMPTS), slopes, rtol=ROUNDING)
