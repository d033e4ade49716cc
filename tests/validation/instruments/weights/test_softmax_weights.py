"""Softmax heads from their weights: round trips, and what does not fit."""

import numpy as np
import pytest

import iclimit
from iclimit.validation import get_layout, reduced_gamma, reduced_softmax

D = 3
SETTING = {
    "layout": get_layout("lu2025", include_query=False),
    "context": 8,
    "noise_variance": 0.1,
    "test_prompts": 500,
}
INPUTS, LABELS = np.diag([1.0, 1, 1, 0]), np.diag([0, 0, 0, 1.0])


def layer(temperatures, values):
    """Heads (H, rows, D + 1) with these temperatures and values."""
    return {
        "W_V": np.stack([value * LABELS for value in values]),
        "W_K": np.stack([INPUTS] * len(values)),
        "W_Q": np.stack([beta * INPUTS for beta in temperatures]),
    }


def test_heads_of_one_call_are_read_back():
    found = reduced_softmax(layer([0.7, -0.4], [2.0, -1.0]), **SETTING)
    assert found.inverse_temperature == pytest.approx([0.7, -0.4])
    assert found.value == pytest.approx([2.0, -1.0])
    assert found.off_identity == pytest.approx(0)
    assert found.ignored.mean < 1e-20
    assert "-0.4000" in str(found)
    # Stacked as PyTorch has them, and with the factor of the scores.
    stacked = {name: np.concatenate(each) for name, each in layer([0.7, -0.4], [2, -1]).items()}
    halved = reduced_softmax(stacked, heads=2, score_factor=0.5, **SETTING)
    assert halved.inverse_temperature == pytest.approx([0.35, -0.2])


def test_what_does_not_fit_is_the_share_of_the_prediction():
    """Inputs that are mixed, by a forward pass prompt by prompt."""
    mixed = layer([1.0], [1.5])
    mixed["W_Q"] = mixed["W_Q"] @ np.diag([1.0, 0.2, 0.3, 0.0])
    layout = get_layout("zhang2024", include_query=False)
    found = reduced_softmax(mixed, rng=3, **SETTING | {"layout": layout})
    law = iclimit.Problem(dim=D, context=8, noise_variance=0.1, scale=1)
    drawn = iclimit.sample_prompts(law, 500, rng=3)
    squares = []
    for x, y, q in zip(drawn.inputs, drawn.labels, drawn.query, strict=True):
        answers = []
        for matrix in (np.diag([1.0, 0.2, 0.3]), 0.5 * np.eye(D)):
            scores = np.exp(x @ matrix @ q)
            answers.append(1.5 * scores @ y / scores.sum())
        squares.append([(answers[0] - answers[1]) ** 2, answers[0] ** 2])
    part, whole = np.mean(squares, axis=0)
    assert found.inverse_temperature == pytest.approx([0.5])
    assert found.ignored.mean == pytest.approx(part / whole)
    assert found.off_identity == pytest.approx([1 - 0.75 / 1.13])


def test_complex_weights_are_refused_by_name():
    weights = {"V": LABELS + 0j, "K": INPUTS, "Q": INPUTS}
    for function in (reduced_softmax, reduced_gamma):
        with pytest.raises(TypeError, match="V must be an array of real numbers, got complex"):
            function(weights, context=8, noise_variance=0.1)


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="test_prompts must be an integer >= 2"):
        reduced_softmax(layer([1.0], [1.0]), **SETTING | {"test_prompts": 1})
