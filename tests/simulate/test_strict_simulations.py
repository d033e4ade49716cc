"""Every simulation runs on arrays of the standard, with the numbers that it has with NumPy."""

import dataclasses
import inspect
import sys

import numpy as np
import pytest
from base_calls import SIMULATIONS, base_call, bound

from iclimit.simulate.gdpp import adjusted_loss

# Both do the same operations in float64, in sums of another order.
ROUNDING = 1e-8
SMALL = {
    "train_linear_transformer": {"starts": 2, "contexts": 64, "steps": 3},
    "held_out_losses": {"contexts": 512},
    "train_network": {"steps": 3, "batch": 4, "held_out": 16},
    "simulate_gradient_descent": {"training_set": 20, "steps": 3, "record": 1},
    "simulate_critical_dampening": {"contexts": 1000},
    "train_depth": {"record": 1, "held_out": 4},
}
"""Sizes that are large by default."""


def leaves(result):
    """All numbers and arrays of a result, however it is nested."""
    if dataclasses.is_dataclass(result):
        result = [getattr(result, field.name) for field in dataclasses.fields(result)]
    if isinstance(result, dict):
        result = list(result.values())
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in leaves(item)]
    numbers = isinstance(result, (int, float, np.ndarray, np.number))
    return [result] if numbers else []


ON_BACKENDS = [
    name for name in SIMULATIONS if "backend" in inspect.signature(bound(name)).parameters
]


DEPTH = {"noise_variance": 0.3, "query_count": 3, "query_noise_variance": 0.2, "width": 2}
VARIANTS = [
    *((name.rpartition(".")[2], {}) for name in ON_BACKENDS),
    *(("simulate_estimator", {"estimator": each, "context": 2}) for each in ("dmmse", "ridge")),
    ("simulate_errors", {"correlation": [1.0, 0.4], "correlated_query": True}),
    ("simulate_errors", {"correlation": [1.0, 0.4], "drift": 0.2}),
    ("simulate_softmax", {"input_law": "uniform"}),
    ("simulate_depth_loss", {"context": 7, "width": 3, "noise_variance": 0.3}),
    ("simulate_learning_rate", {"input_law": "laplace"}),
    ("simulate_ridge_baselines", {"multiplier": 1.2, "threshold": 4.0, "queries": True}),
    ("train_depth", DEPTH | {"optimizer": "adam"}),
    ("train_depth", DEPTH | {"setting": "fs", "context": 7}),
]


@pytest.mark.parametrize(("label", "changes"), VARIANTS)
def test_arrays_of_the_standard(label, changes, strict_backend, monkeypatch):
    function = bound(next(name for name in ON_BACKENDS if name.endswith(f".{label}")))
    call = base_call(function, label, None) | SMALL.get(label, {}) | changes
    expected = leaves(function(**call))
    monkeypatch.setitem(adjusted_loss.BLOCK, strict_backend.name, 64)
    for module in [each for key, each in sys.modules.items() if key.startswith("iclimit.")]:
        if hasattr(module, "get_backend"):
            monkeypatch.setattr(module, "get_backend", lambda _: strict_backend)
        if hasattr(module, "to_host"):
            monkeypatch.setattr(module, "to_host", np.from_dlpack)
    for value, number in zip(leaves(function(**call)), expected, strict=True):
        np.testing.assert_allclose(value, number, rtol=ROUNDING, atol=ROUNDING)
