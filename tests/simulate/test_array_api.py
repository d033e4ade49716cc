"""Everything on array-api-strict arrays: what passes here uses no NumPy-only behaviour."""

import math

import array_api_strict
import numpy as np
import pytest
from strict_arrays import StrictBackend

from iclimit.simulate import arrays
from iclimit.simulate.pretraining import cells, simulate_errors
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.prompts import summaries

ROUNDING = 1e-12  # relative; both namespaces do the same float64 operations


STRICT = StrictBackend("strict", array_api_strict)


def strict(value):
    """Strict copy."""
    return array_api_strict.asarray(value)


def host(value):
    """Back to NumPy; fails for anything but a strict array."""
    assert isinstance(value, type(array_api_strict.asarray(0.0)))
    return np.from_dlpack(value)


def assert_equal(found, expected):
    """A strict array equal to a NumPy array to rounding."""
    scale = float(np.max(np.abs(expected)))
    np.testing.assert_allclose(host(found), expected, rtol=0, atol=ROUNDING * scale)


@pytest.mark.parametrize(
    ("method", "n", "ridge_value"),
    [
        ("primal-cg", 60, 0.0),
        ("primal-cg", 60, 0.1),
        ("primal-dense", 60, 0.0),
        ("primal-dense", 60, 0.1),
        ("dual-cg", 12, 0.0),
        ("dual-dense", 12, 0.0),
        ("auto", 30, 0.1),
    ],
)
def test_ridge(method, n, ridge_value, monkeypatch):
    monkeypatch.setattr(arrays, "HOST_BLOCK", 16 * 8 * 5)  # the last block is smaller
    generator = np.random.default_rng(5)
    data = (
        generator.standard_normal((n, 4)),
        generator.standard_normal((n, 5)),
        generator.standard_normal(n),
    )
    x, h, y = map(strict, data)
    found = solve_ridge(x, h, y, ridge_value, method=method, tolerance=1e-13)
    expected = solve_ridge(*data, ridge_value, method=method, tolerance=1e-13)
    assert_equal(found.gamma, expected.gamma)
    assert (found.method, found.iterations) == (expected.method, expected.iterations)
    assert found.residual == pytest.approx(expected.residual, rel=1e-6, abs=1e-13)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tasks": math.inf},
        {"tasks": np.ones((2, 4)), "ridge": 0.1},
        {"prompts": 10},
        {"sampler": "tokens", "task_law": "gaussian"},
        {"input_law": "uniform"},
        {"input_law": "rademacher", "ridge": 0.1},
        {"input_covariance": np.diag([2.0, 1.0, 0.5, 0.5])},
        {
            "input_covariance": [2.0, 1.0, 0.5, 0.5],
            "test_covariance": np.ones((4, 4)),
            "test_context": 3,
            "test_rho": 0.0,
        },
        {"tasks": math.inf, "task_covariance": [2.0, 1.0, 1.0, 0.0]},
        {"input_law": "uniform", "test_covariance": np.ones((4, 4)), "test_context": 3},
    ],
)
@pytest.mark.parametrize("as_on_gpu", [False, True])
def test_whole_cells(changes, as_on_gpu, monkeypatch):
    cell = {"dim": 4, "context": 5, "tasks": 3, "prompts": 60, "rho": 0.2, "rng": 7}
    arguments = cell | {"repeats": 2, "test_prompts": 20} | changes
    monkeypatch.setattr(summaries, "TOKEN_BLOCK", 7 * 4 * 6)
    if not as_on_gpu:
        monkeypatch.setattr(arrays, "HOST_BLOCK", 7 * 8 * 4)
    expected = simulate_errors(**arguments)
    monkeypatch.setattr(cells, "get_backend", lambda _: STRICT)
    if as_on_gpu:  # large blocks, rare looks at convergence
        monkeypatch.setattr(arrays, "is_cupy_namespace", lambda _: True)
    found = simulate_errors(**arguments)
    # The iteration stops at 1e-8, where rounding of float32 steps has been amplified.
    np.testing.assert_allclose(found.icl.samples, expected.icl.samples, rtol=1e-7)
    np.testing.assert_allclose(found.idg.samples, expected.idg.samples, rtol=1e-7)
