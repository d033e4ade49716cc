"""Every simulation runs on a stand-in for CuPy, with the numbers that it has with NumPy.

The arrays of the stand-in allow what the array API standard says and nothing else.
"""

import dataclasses
import inspect
import sys

import numpy as np
import pytest
from base_calls import SIMULATIONS, base_call, bound
from cupy_stand_in import StandInArray, StandInBackend, stand_in
from refusals import value_error

from iclimit.simulate.gdpp import adjusted_loss
from iclimit.simulate.pretraining import ridge, simulate_errors
from iclimit.validation.claims.dynamics import training_set
from iclimit.validation.claims.gdpp import error

# Both do the same operations in float64, in sums of another order.
ROUNDING = 1e-8
# Errors from solutions with residuals of 1e-5.
SOLVED = 1e-4
# Distance of 500 steps from their end, relative; the end on other sequences is .3 away.
TRAINED = 0.01
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


def loaded():
    """Modules of the package that have been imported."""
    return [module for name, module in sys.modules.items() if name.startswith("iclimit.")]


@pytest.mark.parametrize(("label", "changes"), VARIANTS)
def test_stand_in_for_cupy(label, changes, monkeypatch):
    function = bound(next(name for name in ON_BACKENDS if name.endswith(f".{label}")))
    call = base_call(function, label, None) | SMALL.get(label, {}) | changes
    expected = leaves(function(**call))
    monkeypatch.setitem(adjusted_loss.BLOCK, "cupy", 64)
    with stand_in(loaded()):
        found = leaves(function(**call, backend="cupy"))
    for value, number in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, number, rtol=ROUNDING, atol=ROUNDING)


def test_a_gpu_solves_small_systems_directly(monkeypatch):
    """Iterating at d = 21 takes more operations than a GPU has time to start."""
    call = base_call(simulate_errors, "simulate_errors", None) | {
        "dim": 21,
        "context": 21,
        "tasks": 4,
        "prompts": 600,
        "repeats": 2,
    }
    iterated = simulate_errors(**call)
    assert iterated.iterations > 0
    products = []
    multiply = StandInArray.__matmul__

    def counted(left, right):
        products.append(1)
        return multiply(left, right)

    monkeypatch.setattr(StandInArray, "__matmul__", counted)
    numbers = {}
    for most in (ridge.DENSE_NORMAL, ridge.DENSE_NORMAL_DEVICE):
        monkeypatch.setattr(ridge, "DENSE_NORMAL_DEVICE", most)
        products.clear()
        with stand_in(loaded()):
            made = simulate_errors(**call, backend="cupy")
        numbers[made.iterations] = len(products)
        np.testing.assert_allclose(made.icl.samples, iterated.icl.samples, rtol=SOLVED)
    assert numbers[0] < 0.2 * max(numbers.values())


def test_what_the_memory_of_a_gpu_has_no_room_for(monkeypatch):
    """Rows of 200 prompts and their summaries take some 24 d bytes each."""
    call = base_call(simulate_errors, "simulate_errors", None) | {"dim": 10, "prompts": 200}
    with stand_in(loaded()):
        simulate_errors(**call, backend="cupy")
        monkeypatch.setattr(StandInBackend, "free", 40_000)
        message = "^prompts must be so small .* got 200: they take 4.8e-05 GB, and 4e-05 GB"
        value_error(message, simulate_errors, **call, backend="cupy")


def test_what_cupy_refuses():
    with stand_in([]) as backend:
        generator = backend.generator(np.random.SeedSequence(0))
        drawn = generator.standard_gamma(2.0, 3)
        with pytest.raises(AttributeError, match="multinomial"):
            generator.multinomial(3, [0.5, 0.5])
        with pytest.raises(TypeError, match="required to be a cupy"):
            generator.standard_gamma(np.float64(2.0), 3)
        with pytest.raises(TypeError, match="Implicit conversion"):
            np.asarray(drawn)
        with pytest.raises(TypeError, match="Implicit conversion"):
            np.from_dlpack(drawn)
        with pytest.raises((TypeError, ValueError)):
            drawn[:2] = np.ones(2)
        with pytest.raises(TypeError):
            drawn * np.ones(3)
        assert float(drawn[0]) > 0
    assert np.asarray(drawn).shape == (3,)


def test_claims_draw_again_from_the_same_place(monkeypatch):
    """Random numbers of CuPy are others than those of NumPy with the same seed."""
    monkeypatch.setitem(training_set.TRAINING, "training_set", 60)
    monkeypatch.setitem(training_set.TRAINING, "steps", 500)
    setting = {"rates": (0.5, 0.3), "gammas": (0.3,), "dim": 4, "contexts": 2000}
    plain = error.simulated_loss(**setting, rng=np.random.SeedSequence(0))
    with stand_in(loaded(), own_numbers=True):
        seed = np.random.SeedSequence(0)
        trained = training_set.trained_minus_least_squares(repeats=1, rng=seed, backend="cupy")
        loss = error.simulated_loss(**setting, rng=seed, backend="cupy")
    assert trained < TRAINED
    # Control variates of other contexts would leave the error 5 times as large.
    assert loss.mean != plain.mean
    assert loss.standard_error < 1.5 * plain.standard_error
