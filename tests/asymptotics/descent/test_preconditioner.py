"""The optimal preconditioner against fourth moments summed by hand, simulation and papers."""

import itertools

import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from iclimit.asymptotics.descent import optimal_preconditioner, preconditioner_loss

# Well-conditioned sums and one solve; measured worst 9e-14 relative, through the
# explicit inverse that it is compared with, and 2e-15 where zero is expected.
ROUNDING = 1e-10
# Loss against 50 digits; measured worst 1e-15.
FLOAT64 = 1e-12
# Loss and best matrix of small fractions against SymPy's.
FRACTIONS = 1e-11
# Standard errors that the worst of six simulated losses may lie off.
SIGMAS = 4.0


def covariance(seed, d, rank=None):
    A = np.random.default_rng(seed).standard_normal((d, rank or d))
    return A @ A.T / d


def fourth_moment(T, kurtosis):
    """E x_i x_j x_k x_l of x = T z, index by index."""
    d = len(T)
    z = np.zeros((d,) * 4)
    for i, j, k, m in itertools.product(range(d), repeat=4):
        z[i, j, k, m] = (i == j) * (k == m) + (i == k) * (j == m) + (i == m) * (j == k)
    for i in range(d):
        z[i, i, i, i] += kurtosis[i]
    return np.einsum("ai,bj,ck,dl,ijkl->abcd", T, T, T, T, z)


def brute(T, W, N, noise, kurtosis):
    """A, its loss, and the loss of any matrix, from S = E beta beta^T as defined."""
    Lambda = T @ T.T
    same = np.einsum("abcd,cd->ab", fourth_moment(T, kurtosis), W) + noise * Lambda
    S = (1 - 1 / N) * Lambda @ W @ Lambda + same / N

    def loss(A):
        cross = np.trace(A @ Lambda @ W @ Lambda)
        return float(noise + np.trace(Lambda @ W) - 2 * cross + np.trace(Lambda @ A @ S @ A.T))

    A = W @ Lambda @ np.linalg.inv(S)
    return A, loss(A), loss


CASES = [
    (d, N, noise, kurtosis)
    for d in (1, 2, 4)
    for N in (1, 7, 2.5)
    for noise in (0.0, 0.3)
    for kurtosis in (0.0, -1.2, 3.0)
]


def test_equals_the_sum_over_fourth_moments():
    """Non-commuting covariances, an asymmetric mixing and unequal kurtosis."""
    for d, N, noise, kurtosis in CASES:
        T = np.random.default_rng(d).standard_normal((d, d))
        W = covariance(10 + d, d)
        each = kurtosis * np.linspace(0.2, 1, d)
        A, best, loss = brute(T, W, N, noise, each)
        setting = {"context": N, "noise_variance": noise, "excess_kurtosis": each, "mixing": T}
        found = optimal_preconditioner(T @ T.T, task_covariance=W, **setting)
        assert found.matrix == pytest.approx(A, rel=ROUNDING, abs=ROUNDING)
        assert found.loss == pytest.approx(best, rel=ROUNDING)
        other = A + np.random.default_rng(1).standard_normal((d, d))
        setting |= {"input_covariance": T @ T.T, "task_covariance": W}
        assert preconditioner_loss(other, **setting) == pytest.approx(loss(other), rel=ROUNDING)
        again = preconditioner_loss(found.matrix, **setting)
        assert again == pytest.approx(found.loss, rel=ROUNDING)


SAMPLERS = {
    "uniform": (-1.2, lambda rng, shape: rng.uniform(-np.sqrt(3), np.sqrt(3), shape)),
    "signs": (-2.0, lambda rng, shape: rng.choice([-1.0, 1.0], shape)),
    "laplace": (3.0, lambda rng, shape: rng.laplace(0, np.sqrt(0.5), shape)),
}


def test_simulated_loss():
    for law, optimal in itertools.product(SAMPLERS, [True, False]):
        d = 3
        N = 4
        noise = 0.2
        tasks = 150_000
        kurtosis, draw = SAMPLERS[law]
        rng = np.random.default_rng(5)
        T = np.array([[1.5, 0.2, 0.0], [0.3, 0.7, 0.1], [0.0, -0.4, 0.9]])
        root = np.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [-0.2, 0.1, 0.6]])
        setting = {"context": N, "noise_variance": noise, "excess_kurtosis": kurtosis, "mixing": T}
        A = np.diag([0.5, -0.2, 0.3]) + 0.1
        if optimal:
            A = optimal_preconditioner(T @ T.T, task_covariance=root @ root.T, **setting).matrix
        x = draw(rng, (tasks, N + 1, d)) @ T.T
        w = rng.standard_normal((tasks, d)) @ root.T
        y = np.einsum("tnd,td->tn", x, w) + np.sqrt(noise) * rng.standard_normal((tasks, N + 1))
        beta = np.einsum("tnd,tn->td", x[:, :N], y[:, :N]) / N
        errors = (y[:, N] - np.einsum("td,de,te->t", x[:, N], A, beta)) ** 2
        theory = preconditioner_loss(
            A, input_covariance=T @ T.T, task_covariance=root @ root.T, **setting
        )
        assert abs(errors.mean() - theory) < SIGMAS * errors.std() / np.sqrt(tasks)


@pytest.mark.parametrize("kurtosis", [0.0, -1.2])
def test_rank_deficient_inputs_are_a_smaller_problem(kurtosis):
    rng = np.random.default_rng(8)
    basis = np.linalg.qr(rng.standard_normal((5, 5)))[0]
    small_T = rng.standard_normal((3, 3))
    W = covariance(9, 5)
    T = np.zeros((5, 5))
    T[:, :3] = basis[:, :3] @ small_T
    inside = basis[:, :3]
    setting = {"context": 6, "noise_variance": 0.1, "excess_kurtosis": kurtosis}
    found, small = (
        optimal_preconditioner(mixing @ mixing.T, task_covariance=tasks, mixing=mixing, **setting)
        for mixing, tasks in ((T, W), (small_T, inside.T @ W @ inside))
    )
    assert found.loss == pytest.approx(small.loss, rel=ROUNDING)
    matrix = inside @ small.matrix @ inside.T
    assert found.matrix == pytest.approx(matrix, rel=ROUNDING, abs=ROUNDING)
    assert found.matrix @ basis[:, 3:] == pytest.approx(np.zeros((5, 2)), abs=ROUNDING)


def test_nothing_to_learn():
    for Lambda, W in ((np.zeros((2, 2)), None), (np.eye(2), np.zeros((2, 2)))):
        found = optimal_preconditioner(Lambda, task_covariance=W, context=3, noise_variance=0.25)
        assert np.array_equal(found.matrix, np.zeros((2, 2)))
        assert found.loss == 0.25


def test_float64_within_the_promise():
    """Diagonal covariances of large condition, against the eigenvalue form in 50 digits."""
    for spread, N, noise in itertools.product(
        [1e-10, 1e-5, 1.0], [1, 100, 1e9], [0.0, 1e-300, 1e-12, 1e6]
    ):
        values = np.geomspace(spread, 1.0, 4)
        tasks = np.array([1.0, 1e-3, 10.0, 0.1])
        found = optimal_preconditioner(
            np.diag(values), task_covariance=np.diag(tasks), context=N, noise_variance=noise
        )
        with mpmath.workdps(50):
            b = [mpmath.mpf(x) * w for x, w in zip(values, tasks, strict=True)]
            rest = sum(b) + mpmath.mpf(noise)
            loss = noise + sum(v * (v + rest) / ((N + 1) * v + rest) for v in b)
            assert abs(found.loss / loss - 1) < FLOAT64
            for i, v in enumerate(b):
                entry = N * v / ((N + 1) * v + rest) / mpmath.mpf(values[i])
                assert abs(found.matrix[i, i] / entry - 1) < FLOAT64


@given(
    st.integers(0, 1000), st.integers(1, 4), st.floats(1, 100), st.floats(0, 10), st.floats(-2, 6)
)
def test_bounds(seed, d, N, noise, kurtosis):
    Lambda = covariance(seed, d)
    W = covariance(seed + 1, d)
    setting = {"noise_variance": noise, "excess_kurtosis": kurtosis}
    found = optimal_preconditioner(Lambda, task_covariance=W, context=N, **setting)
    assert noise * (1 - ROUNDING) <= found.loss <= noise + np.trace(Lambda @ W) * (1 + ROUNDING)
    longer = optimal_preconditioner(Lambda, task_covariance=W, context=2 * N, **setting)
    assert longer.loss <= found.loss * (1 + ROUNDING)
    step = np.random.default_rng(seed).standard_normal((d, d))
    other = preconditioner_loss(
        found.matrix + step, input_covariance=Lambda, task_covariance=W, context=N, **setting
    )
    assert other >= found.loss * (1 - ROUNDING)


def test_loss_of_sympy_matrices_under_noise():
    A, L, W = (np.array(rows) for rows in ([[1, 2], [0, 3]], [[2, 1], [1, 3]], [[1, 0], [0, 4]]))
    floats = {"input_covariance": L, "task_covariance": W, "context": 7, "noise_variance": 0.25}
    exact = {name: sympy.Matrix(value) for name, value in list(floats.items())[:2]}
    exact |= {"context": sympy.Integer(7), "noise_variance": sympy.Rational(1, 4)}
    expected = preconditioner_loss(A.astype(float), **floats)
    loss = preconditioner_loss(sympy.Matrix(A), **exact)
    assert float(loss) == pytest.approx(expected, rel=FRACTIONS)


@pytest.mark.parametrize("seed", range(3))
def test_fractions_that_float64_holds(seed):
    """Covariances that do not commute, under noise: the loss of a matrix, and the best one."""
    rng = np.random.default_rng(seed)
    law = np.diag(rng.integers(1, 9, 2)) / 4 + np.array([[0, 1], [1, 0]]) / 8
    A = rng.integers(1, 5, (2, 2)) / 16
    size = {"context": 7, "noise_variance": 0.375}
    task_law = law + np.array([[1.0, -0.5], [-0.5, 1.0]])
    laws = {"input_covariance": law, "task_covariance": task_law}
    exact_size = {"context": 7, "noise_variance": sympy.Rational(3, 8)}
    exact_laws = {name: fractions(covariance) for name, covariance in laws.items()}
    loss = preconditioner_loss(A, **laws, **size)
    exact_loss = preconditioner_loss(fractions(A), **exact_laws, **exact_size)
    assert loss == pytest.approx(float(exact_loss), rel=FRACTIONS)
    best = optimal_preconditioner(**laws, **size)
    exact = optimal_preconditioner(**exact_laws, **exact_size)
    assert best.loss == pytest.approx(float(exact.loss), rel=FRACTIONS)
    entries = [float(entry) for entry in exact.matrix]
    assert best.matrix.ravel() == pytest.approx(np.array(entries), rel=FRACTIONS)


def fractions(matrix):
    """A matrix of SymPy's fractions."""
    numbers = [sympy.Rational(*x.as_integer_ratio()) for x in matrix.ravel().tolist()]
    return sympy.Matrix(*matrix.shape, numbers)


@pytest.mark.slow
def test_sympy_matrices():
    N, s, p, q, r = sympy.symbols("N sigma p q r", positive=True)
    found = optimal_preconditioner(sympy.diag(p, q), context=N, noise_variance=s**2)
    for i, value in enumerate((p, q)):
        entry = N / ((N + 1) * value + p + q + s**2)
        assert sympy.simplify(found.matrix[i, i] - entry) == 0
    assert r"\sigma^{2}" in sympy.latex(found.loss)
    # Not commuting: the same numbers as floats, and the loss of the optimum.
    Lambda = sympy.Matrix([[2, 1], [1, 3]])
    W = sympy.Matrix([[1, r], [r, 4]])
    found = optimal_preconditioner(Lambda, task_covariance=W, context=N)
    floats = optimal_preconditioner(
        np.array([[2.0, 1.0], [1.0, 3.0]]),
        task_covariance=np.array([[1.0, 0.5], [0.5, 4.0]]),
        context=7,
    )
    numbers = {N: 7, r: sympy.Rational(1, 2)}
    exact = np.array(found.matrix.subs(numbers).evalf().tolist(), dtype=float)
    assert floats.matrix == pytest.approx(exact, rel=ROUNDING)
    assert floats.loss == pytest.approx(float(found.loss.subs(numbers)), rel=ROUNDING)
    at = preconditioner_loss(found.matrix, input_covariance=Lambda, task_covariance=W, context=N)
    assert sympy.simplify(at - found.loss) == 0
