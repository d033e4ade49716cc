"""Structured ridge regression against dense algebra on explicit features."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_attention import features

from iclimit.problem import Problem
from iclimit.simulate import arrays
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining import ridge as ridge_module
from iclimit.simulate.pretraining.ridge import conjugate_gradients, refined_solve, solve_ridge
from iclimit.simulate.prompts.sampling import draw_fresh_tasks, draw_inputs
from iclimit.simulate.prompts.summaries import sample_summaries

TIGHT = 1e-13  # relative residual asked of the iterative solves when compared with dense algebra
# A solve with relative residual r has a relative error of at most about condition * r.  The
# largest condition number of the systems that are not scaled badly on purpose is 2e7.
CLOSE = 1e-5
# With condition numbers below 1e4 and TIGHT the same bound gives the following.
VERY_CLOSE = 1e-9
METHODS = ("primal-dense", "primal-cg", "dual-dense", "dual-cg")
D = 5
SIZE = D * (D + 1)
COUNTS = {
    "far below": SIZE // 3,
    "below": SIZE - 8,
    "at": SIZE,
    "above": SIZE + 8,
    "far": 4 * SIZE,
}


def draw(n, d=D, seed=0):
    """Query inputs, context summaries and labels of n prompts of the model."""
    backend = get_backend("numpy")
    generator = np.random.default_rng([n, d, seed])
    tasks = draw_fresh_tasks(Problem(d, 1, task_law="sphere"), backend, generator, n)
    x = draw_inputs(Problem(d, 1), backend, generator, (n,))
    h = sample_summaries(backend, generator, tasks, 2 * d, 0.1)
    return x, h, np.sum(x * tasks, axis=1) + 0.3 * generator.standard_normal(n)


def dense_ridge(x, h, y, ridge):
    """Least squares on explicit features, the ridge as extra rows; least norm at ridge 0."""
    n, d = x.shape
    matrix = features(x, h).reshape(n, -1)
    size = matrix.shape[1]
    matrix = np.concatenate([matrix, math.sqrt(n / d * ridge) * np.eye(size)])
    right = np.concatenate([y, np.zeros(size)])
    solution = np.linalg.lstsq(matrix, right, rcond=1e-13)[0]
    return np.asarray(solution.reshape(d, d + 1))


def regular(places, ridges):
    """Combinations for which the system of the method is regular."""
    return [
        (method, ridge, place)
        for method in METHODS
        for ridge in ridges
        for place in places
        if ridge > 0 or (COUNTS[place] >= SIZE) == method.startswith("primal")
    ]


def relative(found, expected):
    """Relative distance in the Frobenius norm."""
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def test_every_method_equals_dense_least_squares():
    for method, ridge, place in regular(COUNTS, [0.0, 1e-6, 0.1]):
        n = COUNTS[place]
        x, h, y = draw(n)
        found = solve_ridge(x, h, y, ridge, method=method, tolerance=1e-9, max_iterations=20_000)
        assert found.method == method
        assert found.gamma.shape == (D, D + 1)
        singular = np.linalg.svd(features(x, h).reshape(n, -1), compute_uv=False) ** 2
        floor = 0.0 if (n < SIZE) == method.startswith("primal") else singular[-1]
        condition = (singular[0] + n / D * ridge) / (floor + n / D * ridge)
        assert relative(found.gamma, dense_ridge(x, h, y, ridge)) < 1e-9 * condition


def test_well_conditioned_systems_are_solved_to_rounding():
    for method, ridge, place in regular(["far below", "far"], [0.0, 0.1]):
        n = COUNTS[place]
        x, h, y = draw(n)
        found = solve_ridge(x, h, y, ridge, method=method, tolerance=TIGHT)
        assert relative(found.gamma, dense_ridge(x, h, y, ridge)) < VERY_CLOSE


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    d=st.integers(1, 6),
    n=st.integers(1, 120),
    ridge=st.floats(0.05, 10.0),
    scale=st.floats(1e-3, 1e3),
    method=st.sampled_from(METHODS),
)
def test_any_shape_and_scale(d, n, ridge, scale, method):
    """Scaling the labels scales Gamma; scaling h by s and the ridge by s^2 divides Gamma by s."""
    x, h, y = draw(n, d)
    expected = dense_ridge(x, h, y, ridge)
    found = solve_ridge(x, h * scale, y, ridge * scale**2, method=method, tolerance=TIGHT).gamma
    assert relative(found * scale, expected) < VERY_CLOSE
    found = solve_ridge(x, h, y * scale, ridge, method=method, tolerance=TIGHT).gamma
    assert relative(found, expected * scale) < VERY_CLOSE


@pytest.mark.parametrize("ridge", [0.0, 1e-6])
def test_badly_scaled_summaries_above(ridge):
    """The whitening of the primal method removes scales of h that differ by 1e6."""
    n = COUNTS["far"]
    x, h, y = draw(n)
    scale = np.geomspace(1e-3, 1e3, D + 1)
    found = solve_ridge(x, h * scale, y, ridge, tolerance=1e-12).gamma
    expected = dense_ridge(x, h * scale, y, ridge)
    # Predictions are compared: entries of Gamma have scales from 1e-3 to 1e3.
    assert relative(found * scale, expected * scale) < CLOSE
    if ridge == 0:
        assert relative(found * scale, solve_ridge(x, h, y, 0.0, tolerance=1e-12).gamma) < CLOSE


@pytest.mark.parametrize("method", ["dual-dense", "dual-cg"])
def test_badly_scaled_summaries_below(method):
    n = COUNTS["far below"]
    x, h, y = draw(n)
    scale = np.geomspace(1e-2, 1e2, D + 1)
    found = solve_ridge(x, h * scale, y, 0.0, method=method, tolerance=1e-11).gamma
    assert relative(found, dense_ridge(x, h * scale, y, 0.0)) < CLOSE


def test_large_mean_of_summaries():
    """A mean of h a thousand times its spread (few tasks, long contexts)."""
    n = COUNTS["far"]
    x, h, y = draw(n)
    h = h + 1e3 * np.linspace(1, 2, D + 1)
    found = solve_ridge(x, h, y, 0.0, tolerance=1e-11).gamma
    assert relative(found, dense_ridge(x, h, y, 0.0)) < CLOSE


@pytest.mark.parametrize("method", ["dual-dense", "dual-cg"])
def test_least_norm_below(method):
    n = COUNTS["below"]
    x, h, y = draw(n)
    gamma = solve_ridge(x, h, y, 0.0, method=method, tolerance=1e-12).gamma.ravel()
    matrix = features(x, h).reshape(n, -1)
    np.testing.assert_allclose(matrix @ gamma, y, rtol=0, atol=1e-9)
    # Orthogonal to every direction that leaves all predictions unchanged, so of least norm.
    null = np.linalg.svd(matrix)[2][n:]
    assert np.linalg.norm(null @ gamma) < 1e-12 * np.linalg.norm(gamma)
    np.testing.assert_allclose(gamma, np.linalg.pinv(matrix) @ y, rtol=0, atol=CLOSE)


def test_auto_method(monkeypatch):
    assert solve_ridge(*draw(SIZE), 0.1).method == "primal-dense"
    assert solve_ridge(*draw(SIZE - 10), 0.0).method == "dual-dense"
    monkeypatch.setattr(ridge_module, "DENSE_NORMAL", SIZE - 1)
    assert solve_ridge(*draw(SIZE + 40), 0.0).method == "primal-cg"
    assert solve_ridge(*draw(SIZE), 0.1).method == "primal-cg"
    monkeypatch.setattr(ridge_module, "DENSE_GRAM", SIZE - 11)
    assert solve_ridge(*draw(SIZE - 10), 0.0).method == "dual-cg"


def test_blocks_of_rows_do_not_matter(monkeypatch):
    x, h, y = draw(101)
    whole = solve_ridge(x, h, y, 0.01, method="primal-cg", tolerance=TIGHT).gamma
    monkeypatch.setattr(arrays, "HOST_BLOCK", 10 * 8 * (D + 1))
    parts = solve_ridge(x, h, y, 0.01, method="primal-cg", tolerance=TIGHT).gamma
    assert relative(parts, whole) < 1e-10


def test_zero_labels_give_zero():
    for method in METHODS:
        x, h, y = draw(20)
        found = solve_ridge(x, h, 0 * y, 0.1, method=method)
        assert found.residual == 0
        np.testing.assert_array_equal(found.gamma, np.zeros((D, D + 1)))


# The reported residual, recomputed from explicit matrices.  The tolerance is loose so that there
# is a residual to compare, far above rounding.
LOOSE = 1e-3


@pytest.mark.parametrize("ridge", [0.0, 0.01])
@pytest.mark.parametrize("method", ["primal-dense", "primal-cg"])
def test_primal_residual_is_true(method, ridge, monkeypatch):
    monkeypatch.setattr(ridge_module, "DIRECT_TOLERANCE", LOOSE)
    n = COUNTS["far"]
    x, h, y = draw(n)
    found = solve_ridge(x, h, y, ridge, method=method, tolerance=LOOSE)
    penalty = n / D * ridge
    expected = np.kron(x.T @ x, h.T @ h) / n + penalty * np.eye(D * (D + 1))
    whitener = np.linalg.inv(np.linalg.cholesky(expected))
    matrix = features(x, h).reshape(n, -1)
    left = matrix.T @ matrix @ found.gamma.ravel() + penalty * found.gamma.ravel()
    gradient = whitener @ (left - matrix.T @ y)
    right = whitener @ matrix.T @ y
    true = np.linalg.norm(gradient) / np.linalg.norm(right)
    assert true < LOOSE
    assert method == "primal-dense" or true > LOOSE / 100
    assert found.residual == pytest.approx(true, rel=1e-6)  # rounding is 1e-15 of the right side


@pytest.mark.parametrize("method", ["dual-dense", "dual-cg"])
def test_dual_residual_is_true(method):
    """At ridge 0 the residual of the dual system is that of the predictions."""
    x, h, y = draw(COUNTS["far below"])
    found = solve_ridge(x, h, y, 0.0, method=method, tolerance=LOOSE)
    predicted = np.sum(x @ found.gamma * h, axis=1)
    true = float(np.linalg.norm(predicted - y) / np.linalg.norm(y))
    assert found.residual == pytest.approx(true, rel=1e-6, abs=1e-13)
    if method == "dual-cg":
        assert LOOSE / 100 < true < LOOSE


def test_too_few_iterations():
    x, h, y = draw(SIZE + 1)
    with pytest.raises(
        ArithmeticError,
        match=r"primal-cg stopped at relative residual \S+ after 3 iterations "
        r"\(tolerance 1e-08\): n = 31 prompts .* d \(d \+ 1\) = 30.*positive ridge",
    ):
        solve_ridge(x, h, y, 0.0, method="primal-cg", max_iterations=3)


def test_inconsistent_dual_system():
    """Ridgeless and overdetermined: no weights reproduce the labels."""
    x, h, y = draw(2 * SIZE)
    with pytest.raises(ArithmeticError, match="dual-cg stopped at relative residual"):
        solve_ridge(x, h, y, 0.0, method="dual-cg", max_iterations=200)


def test_repeated_prompts_in_the_direct_solve():
    """An exactly singular Gram matrix: labels that contradict each other."""
    x, h, y = draw(6)
    x = np.concatenate([x, x])
    h = np.concatenate([h, h])
    with pytest.raises(ArithmeticError, match="dual-dense stopped at relative residual"):
        solve_ridge(x, h, np.concatenate([y, -y]), 0.0, method="dual-dense")


@pytest.mark.machine
@pytest.mark.parametrize("method", ["primal-dense", "primal-cg"])
def test_summaries_in_a_plane_give_least_norm(method):
    """One task without noise: <w, h_1..d> = d h_{d+1}, so h spans d of its d + 1 dimensions."""
    backend = get_backend("numpy")
    generator = np.random.default_rng(5)
    n = COUNTS["far"]
    tasks = np.repeat(
        draw_fresh_tasks(Problem(D, 1, task_law="sphere"), backend, generator, 1), n, axis=0
    )
    x = draw_inputs(Problem(D, 1), backend, generator, (n,))
    h = sample_summaries(backend, generator, tasks, 2 * D, 0.0)
    y = np.sum(x * tasks, axis=1)
    found = solve_ridge(x, h, y, 0.0, method=method, tolerance=1e-12)
    assert relative(found.gamma, dense_ridge(x, h, y, 0.0)) < VERY_CLOSE


def test_summaries_that_are_all_zero_give_zero():
    x, h, y = draw(60)
    np.testing.assert_array_equal(solve_ridge(x, 0 * h, y, 0.0).gamma, np.zeros((D, D + 1)))


def test_nan_is_not_silent():
    x, h, y = draw(60)
    y[7] = np.nan
    for method in METHODS:
        with pytest.raises(ArithmeticError, match=f"{method} stopped at relative residual nan"):
            solve_ridge(x, h, y, 0.1, method=method)


def test_unknown_method():
    message = r"method must be one of auto, primal-dense, primal-cg, .* got 'svd'"
    with pytest.raises(ValueError, match=message):
        solve_ridge(*draw(10), 0.1, method="svd")


# Iterative refinement.


class Diagonal:
    """A diagonal operator that computes in the precision of its argument and counts the calls."""

    def __init__(self, values):
        self.values = values
        self.calls = []

    def __call__(self, v):
        self.calls.append(v.dtype)
        return np.asarray(self.values.astype(v.dtype) * v)


def test_refinement_reaches_float64_accuracy_with_float32_iterations():
    operator = Diagonal(np.linspace(1, 10, 200))
    right = np.random.default_rng(1).standard_normal(200)
    solution, iterations, residual = refined_solve(operator, right, 1e-13, 1000)
    assert residual <= 1e-13
    true = np.linalg.norm(operator.values * solution - right) / np.linalg.norm(right)
    assert residual == pytest.approx(float(true), rel=1e-9)
    np.testing.assert_allclose(solution, right / operator.values, rtol=0, atol=1e-12)
    doubles = operator.calls.count(np.dtype(np.float64))
    assert operator.calls.count(np.dtype(np.float32)) == iterations
    assert doubles <= 5  # one residual for each correction, no iteration


def test_refinement_falls_back_to_float64():
    """Condition 1e9: float32 rounding (6e-8 of the largest eigenvalue) drowns the smallest."""
    generator = np.random.default_rng(2)
    basis = np.linalg.qr(generator.standard_normal((12, 12)))[0]
    matrix = (basis * np.geomspace(1e-9, 1, 12)) @ basis.T
    matrix = (matrix + matrix.T) / 2
    calls = []

    def operator(v):
        calls.append(v.dtype)
        return np.asarray(matrix.astype(v.dtype) @ v)

    right = generator.standard_normal(12)
    solution, iterations, residual = refined_solve(operator, right, 1e-8, 2000)
    assert residual <= 1e-8
    true = np.linalg.norm(matrix @ solution - right) / np.linalg.norm(right)
    assert residual == pytest.approx(float(true), rel=1e-3)  # rounding is 1e-7 of a residual here
    assert relative(solution, np.linalg.solve(matrix, right)) < 1e-6  # rounding 1e-16 * 1e9 each
    singles = calls.count(np.dtype(np.float32))
    assert 0 < singles < iterations  # tried first, then left
    assert solution.dtype == np.float64


def test_refinement_stops_at_the_limit():
    operator = Diagonal(np.geomspace(1e-6, 1, 50))
    right = np.ones(50)
    solution, iterations, residual = refined_solve(operator, right, 1e-12, 7)
    assert iterations == 7
    true = np.linalg.norm(operator.values * solution - right) / np.linalg.norm(right)
    assert residual == pytest.approx(float(true), rel=1e-9)


def test_refinement_keeps_any_shape_and_zero():
    double = lambda v: 2 * v  # noqa: E731
    right = np.random.default_rng(3).standard_normal((3, 4))
    solution, _, _ = refined_solve(double, right, 1e-12, 10)
    np.testing.assert_allclose(solution, right / 2, rtol=1e-12)
    solution, iterations, residual = refined_solve(double, 0 * right, 1e-12, 10)
    np.testing.assert_array_equal(solution, 0 * right)
    assert (iterations, residual) == (0, 0.0)


def test_conjugate_gradients_are_exact_after_as_many_steps_as_eigenvalues():
    values = np.repeat([1.0, 2.0, 5.0], 20)
    right = np.random.default_rng(4).standard_normal(60)
    solution, iterations = conjugate_gradients(lambda v: values * v, right, 1e-12, 100)
    assert iterations == 3
    np.testing.assert_allclose(solution, right / values, rtol=1e-11)


@pytest.mark.machine
@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize(("place", "method"), [("far", "primal-cg"), ("far below", "dual-cg")])
def test_looking_at_convergence_rarely_changes_nothing(place, method, ridge, monkeypatch):
    """As on a GPU: iterations beyond convergence leave the solution as it is."""
    x, h, y = draw(COUNTS[place])
    expected = solve_ridge(x, h, y, ridge, method=method, tolerance=1e-9)
    monkeypatch.setattr(arrays, "is_cupy_namespace", lambda _: True)
    looks = []

    def look(value):
        looks.append(value)
        return bool(value)

    monkeypatch.setattr(ridge_module, "bool", look, raising=False)
    found = solve_ridge(x, h, y, ridge, method=method, tolerance=1e-9)
    np.testing.assert_array_equal(found.gamma, expected.gamma)
    assert (found.iterations, found.residual) == (expected.iterations, expected.residual)
    assert len(looks) <= found.iterations / arrays.SYNC_EVERY + 6  # two for each correction


def test_exact_solution_between_looks_is_kept(monkeypatch):
    """The residual vanishes exactly after one iteration; seven idle ones divide zero by zero."""
    monkeypatch.setattr(arrays, "is_cupy_namespace", lambda _: True)
    right = np.array([1.0, -2.0, 4.0])
    with np.errstate(invalid="ignore"):  # arrays on a GPU do not warn
        solution, iterations = conjugate_gradients(lambda v: 2 * v, right, 0.0, 16)
    np.testing.assert_array_equal(solution, right / 2)
    assert iterations == 1
