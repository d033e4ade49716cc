"""Gates of any shape: moments of sampled contexts, pairings, the hyperbolic tangent, a search."""

import itertools

import numpy as np
import pytest
from refusals import value_error
from scipy.linalg import toeplitz
from scipy.optimize import minimize

from iclimit.asymptotics.recurrent import gated_context, optimal_gates

SIGMAS = 4.0


def test_moments_of_sampled_contexts():
    """Gates, drift and correlated tokens at once, for tasks of the same norm."""
    dim = 5
    context = 7
    contexts = 40000
    rho = 0.3
    drift = 0.8
    r = 0.6
    rng = np.random.default_rng(6)
    gates = rng.uniform(0.2, 1, context)
    w = rng.standard_normal((contexts, dim))
    w *= np.sqrt(dim) / np.linalg.norm(w, axis=1)[:, None]
    query = w
    phi = np.exp(-drift / dim)
    h = np.zeros((contexts, dim))
    x = rng.standard_normal((contexts, dim))
    for gate in gates[::-1]:
        # Backwards from the query: the chain is the same in both directions.
        w = phi * w + np.sqrt(1 - phi**2) * rng.standard_normal((contexts, dim))
        y = np.sum(x * w, axis=1) / np.sqrt(dim)
        y += np.sqrt(rho) * rng.standard_normal(contexts)
        h += np.sqrt(dim) / context * gate * y[:, None] * x
        x = r * x + np.sqrt(1 - r**2) * rng.standard_normal((contexts, dim))
    theory = gated_context(gates, dim=dim, rho=rho, drift=drift, correlation=r)
    along = np.sum(h * query, axis=1) / dim
    across = (np.sum(h**2, axis=1) - dim * along**2) / (dim - 1)
    for sample, value in ((along, theory.signal), (across, theory.noise)):
        error = sample.std() / np.sqrt(contexts)
        assert error < 0.02 * value
        assert abs(sample.mean() - value) < SIGMAS * error
    assert theory.alpha == pytest.approx(1.3 * theory.signal**2 / theory.noise, rel=1e-12)


def test_moments_by_all_pairings():
    """E h h^T entry by entry: four inputs pair up in three ways, labels are summed by hand."""
    dim = 3
    context = 4
    rho = 0.3
    drift = 1.7
    rng = np.random.default_rng(8)
    gates = rng.uniform(0.2, 1, context)
    query = rng.standard_normal(dim)
    query *= np.sqrt(dim) / np.linalg.norm(query)
    root = rng.standard_normal((context, context))
    kernel = root @ root.T
    kernel /= np.sqrt(np.outer(np.diag(kernel), np.diag(kernel)))
    kernel = (kernel + kernel.T) / 2
    np.fill_diagonal(kernel, 1.0)
    ages = np.arange(context, 0, -1)
    kept = np.exp(-drift / dim * ages)
    alike = np.exp(-drift / dim * np.abs(ages[:, None] - ages))
    one = np.eye(dim)

    def pairs(i, a, j, b):
        """Mean of coordinate a of input i times coordinate b of input j, times the dimension."""
        return kernel[i, j] * one[a, b]

    def product(i, a, j, b):
        """Mean of y_i x_ia y_j x_jb, times the squared dimension."""
        total = rho * dim * (i == j) * pairs(i, a, j, b)
        for e, f in itertools.product(range(dim), repeat=2):
            tasks = kept[i] * kept[j] * query[e] * query[f]
            tasks += (alike[i, j] - kept[i] * kept[j]) * one[e, f]
            inputs = pairs(i, e, i, a) * pairs(j, f, j, b)
            inputs += pairs(i, e, j, f) * pairs(i, a, j, b)
            inputs += pairs(i, e, j, b) * pairs(i, a, j, f)
            total += tasks * inputs
        return total

    second = np.zeros((dim, dim))
    for i, j in itertools.product(range(context), repeat=2):
        weight = gates[i] * gates[j] / context**2
        for a, b in itertools.product(range(dim), repeat=2):
            second[a, b] += weight * product(i, a, j, b)
    theory = gated_context(gates, dim=dim, rho=rho, drift=drift, correlation=kernel)
    across = np.linalg.eigvalsh(second)
    # One direction along the task, all others alike.
    np.testing.assert_allclose(across[:2], theory.noise, rtol=1e-12)
    assert theory.signal == pytest.approx(np.mean(gates * kept), rel=1e-12)


@pytest.mark.parametrize("gate", [0.6, 0.99, 1.0])
def test_constant_gates_without_drift(gate):
    gates = gate ** np.arange(30.0)
    dim = 8
    decay = -np.log(gate) / 2
    expected = np.tanh(30 * decay) / np.tanh(decay) if decay else 30.0
    assert dim * gated_context(gates, dim=dim, rho=0.4).alpha == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("drift", "correlation"), [(0.0, 0.0), (0.9, 0.0), (0.9, 0.5)])
def test_best_gates_are_unbeaten(drift, correlation):
    setting = {"dim": 4, "rho": 0.1, "drift": drift, "correlation": correlation}
    best = optimal_gates(context=6, **setting)

    def loss(gates):
        return -gated_context(np.clip(gates, 0, 1), **setting).alpha

    found = minimize(loss, np.full(6, 0.7), bounds=[(0.01, 1)] * 6)
    assert -found.fun <= best.alpha * (1 + 1e-12)
    assert -found.fun == pytest.approx(best.alpha, rel=1e-5)
    assert best.gates.max() == 1


def test_kernels():
    """That of neighbours; two groups of tokens, by the covariance of sampled summaries."""
    ages = np.arange(6)
    setting = {"dim": 3, "rho": 0.2, "drift": 0.5}
    near, whole = (
        gated_context([0.3, 1, 0.8, 0.5, 1, 0.9], **setting, correlation=each)
        for each in (0.6, 0.6 ** np.abs(ages[:, None] - ages))
    )
    assert whole.alpha == pytest.approx(near.alpha, rel=1e-14)
    by_distance, matrix = (
        optimal_gates(context=6, **setting, correlation=each)
        for each in ([1, 0.6, 0.2], toeplitz([1, 0.6, 0.2, 0, 0, 0]))
    )
    np.testing.assert_array_equal(by_distance.gates, matrix.gates)
    kernel = np.kron(np.eye(2), np.full((2, 2), 0.5)) + np.eye(4) / 2
    rng = np.random.default_rng(3)
    contexts = 40000
    dim = 3
    x = np.linalg.cholesky(kernel) @ rng.standard_normal((contexts, 4, dim))
    y = x[:, :, 0] + 0.5 * rng.standard_normal((contexts, 4))  # |w|^2 = dim, along the first axis
    across = np.sum(y * x[:, :, 1], axis=1) * np.sqrt(dim) / 4
    theory = gated_context(np.ones(4), dim=dim, rho=0.25, correlation=kernel)
    assert np.mean(across**2) == pytest.approx(theory.noise, rel=0.05)
    best = optimal_gates(context=4, dim=dim, rho=0.25, correlation=kernel)
    assert best.alpha == pytest.approx(theory.alpha, rel=1e-12)  # by symmetry
    same = optimal_gates(context=3, dim=dim, rho=0.0, correlation=np.ones((3, 3)))
    assert dim * same.alpha == pytest.approx(1, rel=1e-12)  # one pair, thrice


def test_best_gates_under_a_kernel_that_would_make_some_negative():
    """The token between two others says nothing of its own."""
    kernel = np.array([[1, 0.9, 0.3], [0.9, 1, 0.6], [0.3, 0.6, 1]])
    setting = {"dim": 4, "rho": 0.05, "correlation": kernel}
    best = optimal_gates(context=3, **setting)
    found = minimize(
        lambda gates: -gated_context(gates, **setting).alpha, np.full(3, 0.5), bounds=[(0, 1)] * 3
    )
    assert best.gates[1] == 0
    assert -found.fun == pytest.approx(best.alpha, rel=1e-6)


def test_bad_kernels_are_named():
    for kernel, message in (
        (np.eye(3), r"correlation must be a number, a list or have shape \(2, 2\), got \(3, 3\)"),
        ([[1, 0.5], [0.4, 1]], "correlation must be symmetric with 1 on its diagonal"),
        ([[0.9, 0.5], [0.5, 0.9]], "correlation must be symmetric with 1 on its diagonal"),
        ([[1, 2], [2, 1]], "correlation must be from -1 to 1, got 2.0"),
        ([0.5, 0.2], "correlation must be a number or begin with 1"),
        ([1, -1.1], "correlation must be from -1 to 1, got -1.1"),
    ):
        value_error(message, gated_context, [1, 1], dim=3, rho=0.1, correlation=kernel)


def test_kernels_that_are_not_positive_are_named():
    kernel = np.array([[1, 0.9, 0.9], [0.9, 1, -0.9], [0.9, -0.9, 1]])
    with pytest.raises(ValueError, match=r"have no negative eigenvalue, got -0\.8"):
        gated_context([1, 1, 1], dim=3, rho=0.1, correlation=kernel)


def test_bad_gates_are_named():
    for gates in ([], [0.0, 0.0], [[1.0]]):
        value_error(r"gates must have shape \(context,\)", gated_context, gates, dim=3, rho=0.1)
