"""Sentences of the pages on networks, computed from the numbers that stand on them."""

import numpy as np
import pytest
from statements import states

pytestmark = pytest.mark.slow

LAYERS = "networks/networks"
LSTM = "networks/lstm"


@states(
    LAYERS,
    "half the squared error is 0.2567(6) against 0.2062 of the best step without normalisation",
    "So normalisation costs a quarter of the loss of one layer",
)
def test_the_cost_of_layer_normalisation():
    """The best step by its exact formula, the best two features by least squares."""
    dim = 10
    context = 10
    generator = np.random.default_rng(0)
    normalised = []
    plain = []
    labels = []
    for _ in range(6):
        x = generator.uniform(-0.5, 0.5, (20_000, context + 1, dim))
        w = generator.standard_normal((20_000, dim))
        y = np.vecdot(x, w[:, None])
        label = y[:, -1].copy()
        plain.append(np.vecdot(np.einsum("nid,ni->nd", x[:, :-1], y[:, :-1]), x[:, -1]))
        y[:, -1] = 0
        tokens = np.concatenate([x, y[..., None]], axis=2)
        tokens -= tokens.mean(axis=2, keepdims=True)
        tokens /= tokens.std(axis=2, keepdims=True)
        values = tokens[:, :-1, -1]
        step = np.einsum("ni,nid,nd->n", values, tokens[:, :-1, :-1], tokens[:, -1, :-1])
        normalised.append(np.stack([step, tokens[:, -1, -1] * np.sum(values**2, axis=1)], axis=1))
        labels.append(label)
    label = np.concatenate(labels)
    losses = []
    for features in (np.concatenate(normalised), np.concatenate(plain)[:, None]):
        weights = np.linalg.lstsq(features, label, rcond=None)[0]
        losses.append(np.mean((label - features @ weights) ** 2) / 2)
    assert losses[1] == pytest.approx(0.2062, rel=0.01)
    assert losses[0] == pytest.approx(0.2567, rel=0.01)
    assert losses[0] / losses[1] == pytest.approx(1.25, abs=0.01)


@states(
    LSTM,
    "have nearly the loss :math:`L_0 + D`, 2 to 3 % less",
    "D is 12 % of their loss: 13 and 11 % below :math:`L_0 + D`",
    "- 1.130 - 1.113 - 1.126 - 1.130 - 1.112",
    "- 1.113 - .859 - .831 - .801 - .817",
    "- .330; .756 - .323; .788 - .339; .759 - .335; .781 - .322; .791",
    "- .321; .765 - .088; .945 - .091; .959 - .100; .964 - .100; .968",
)
def test_losses_and_distances_of_recurrent_networks():
    step = 0.819
    losses = np.array([1.130, 1.113, 1.126, 1.130, 1.112])
    distances = np.array([0.330, 0.323, 0.339, 0.335, 0.322])
    less = 100 * (1 - losses / (step + distances))
    assert np.all((less > 1.5) & (less < 3.5))
    deep = np.array([0.801, 0.817])
    assert np.round(100 * (1 - deep / (step + 0.1))).tolist() == [13, 11]
    assert np.round(100 * 0.1 / deep).tolist() == [12, 12]
    assert np.all(deep < step)
