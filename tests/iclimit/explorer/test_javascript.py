"""What is recorded, and the JavaScript that it becomes."""

import numpy as np
import pytest

from iclimit.asymptotics.depth import depth_loss
from iclimit.asymptotics.dynamics import separate_attention_staircase
from iclimit.asymptotics.recording.arrays import Recorded
from iclimit.diagrams.combinations import staircase_loss, tied_depth_loss
from iclimit.explorer.javascript import javascript_function

x = Recorded.variable("x")
y = Recorded.variable("y")


def text(value):
    """Body of the function that returns a recorded number, in one line."""
    lines = javascript_function("x, y", value.node).splitlines()[1:-1]
    return " ".join(line.strip() for line in lines)


def test_operations():
    for value, expected in (
        (x + 0, "return x;"),
        (1 * x / 1, "return x;"),
        (x + np.sqrt(np.float64(4)), "return (x + 2);"),
        (x**3, "return (x * (x * x));"),
        (x**-1, "return (1 / x);"),
        (x**0.5, "return Math.sqrt(x);"),
        (x**y, "return (x ** y);"),
        (-x - np.inf, "return (-(x) - Infinity);"),
        (np.where(x < 1, y, np.nan), "return ((x < 1) ? y : NaN);"),
        (np.where(np.array(False), x, y), "return y;"),
        (np.where(x < 1, y, y), "return y;"),
        (np.maximum(np.hypot(x, y), 1e-300), "return Math.max(runtime.hypot(x, y), 1e-300);"),
        (((x + 1j * y) ** 2).imag, "const v1 = (x + (0 * y)); return ((v1 * y) + (y * v1));"),
        (np.sort(np.stack([y, x]))[0], "return Math.min(y, x);"),
        (np.sum(np.stack([x, 2 * y]) * np.array([3, 1])), "return ((x * 3) + (2 * y));"),
    ):
        assert text(value) == expected


def test_equal_expressions_are_computed_once():
    found = text(np.exp(x * y) / (1 + np.exp(x * y)))
    assert found == ("const v1 = Math.exp((x * y)); return (v1 / (1 + v1));")


def test_what_belongs_to_one_case_is_computed_in_that_case():
    root = np.exp(x)
    found = text(np.where(x < 1, root * root, y))
    assert found == (
        "let v2; if ((x < 1)) { const v1 = Math.exp(x); v2 = (v1 * v1); } "
        "else { v2 = y; } return v2;"
    )


def test_assigning_to_a_mask_is_a_choice():
    value = np.sqrt(np.stack([x, y]))
    value[np.stack([x, y]) > 1] = np.stack([x, y])[np.stack([x, y]) > 1] + 5
    assert text(value[1]) == "return ((y > 1) ? (y + 5) : Math.sqrt(y));"


def test_what_a_function_does_not_change_is_computed_outside_of_it():
    math_ = x.number_system
    found = text(math_.find_root(lambda u, a: u - np.exp(a), (0.0, 1.0), [y]))
    assert found.startswith("const v1 = Math.exp(y); return runtime.root((u")


@pytest.mark.parametrize("decide", [bool, float])
def test_a_recorded_number_decides_nothing(decide):
    with pytest.raises(TypeError, match="record"):
        decide(x > 1)


def test_what_is_not_recorded_is_refused():
    with pytest.raises(TypeError, match=r"numpy\.linalg|numpy\.eigvals"):
        np.linalg.eigvals(np.stack([np.stack([x, y]), np.stack([y, x])]))


def test_staircase_is_that_of_the_integrated_heads():
    eigenvalues = np.array([1.0, 0.8, 0.5, 0.2])
    values = np.array([0.002, 0.004, 0.003, 0.01])
    weights = np.diag(values)
    t = np.array([0.0, 400.0, 520.0, 1500.0, 4000.0])
    exact = separate_attention_staircase(
        values, key=weights, query=weights, eigenvalues=eigenvalues, context=31, noise_variance=0.1
    )
    heads = {f"eigenvalue_{k}": v for k, v in enumerate(eigenvalues, 1)}
    heads |= {f"value_{k}": v for k, v in enumerate(values, 1)}
    one_by_one = [staircase_loss(each, 31, 0.1, **heads) for each in t]
    # The integration of the waits has a relative tolerance of 1e-11, and drops are steep.
    np.testing.assert_allclose(one_by_one, exact.loss(t), rtol=1e-6)


def test_tied_layers_are_steps_at_the_best_rate():
    noise = np.array([0.0, 0.3])
    exact = depth_loss(depth=3, alpha=1.5, noise_variance=noise, setting="iso")
    np.testing.assert_allclose(tied_depth_loss(3, 1.5, noise), exact.loss, rtol=1e-9)


def test_sums_over_the_same_constants_share_a_loop():
    c = np.array([2.0, 3.0, 4.0, 5.0, 6.0])
    found = text(np.sum(c * x) / np.sum(1 / (c + x)))
    assert found.count("for (let i = 0") == 1
    assert found.endswith("return (v2 / v3);")
