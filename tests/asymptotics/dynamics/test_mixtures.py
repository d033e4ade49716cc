"""Mixtures of tasks against the normal equations, brute-force moments and simulation."""

import numpy as np
import pytest

from iclimit.asymptotics.dynamics import mixture_growth_rate, mixture_predictor, plateau_losses

# A few solves of well-conditioned matrices of order 3.
ROUNDING = 1e-12
# Largest z-score among some tens.
Z = 4.5

COVARIANCE = np.array([[1.0, 0.3, 0.0], [0.3, 0.6, -0.2], [0.0, -0.2, 0.4]])
TASK = np.array([1.0, -0.5, 2.0])
FRACTIONS = [0.0, 1e-3, 0.3, 0.9, 1.0]


def draw(rng, samples, fresh_fraction, N, noise):
    """Context inputs and labels, query and its label."""
    root = np.linalg.cholesky(COVARIANCE)
    x = rng.standard_normal((samples, N + 1, 3)) @ root.T
    w = np.where(
        rng.random((samples, 1)) < fresh_fraction, rng.standard_normal((samples, 3)), TASK
    )
    y = np.einsum("snd,sd->sn", x, w) + np.sqrt(noise) * rng.standard_normal((samples, N + 1))
    return x[:, :N], y[:, :N], x[:, N], y[:, N]


@pytest.mark.parametrize("fresh_fraction", FRACTIONS)
@pytest.mark.parametrize("noise", [0.0, 0.7])
def test_predictor_solves_the_normal_equations(fresh_fraction, noise):
    """With the moments of beta in the given inputs, and the losses as quadratic forms."""
    L = COVARIANCE
    w = TASK
    N = 12
    best = mixture_predictor(
        fresh_fraction, input_covariance=L, shared_task=w, context=N, noise_variance=noise
    )
    LwwL = np.outer(L @ w, L @ w)
    trace = np.trace(L)
    A_random = L @ L + (L @ L + (trace + noise) * L) / N
    A_shared = LwwL + (LwwL + (w @ L @ w + noise) * L) / N
    A = fresh_fraction * A_random + (1 - fresh_fraction) * A_shared
    C = fresh_fraction * L @ L + (1 - fresh_fraction) * LwwL
    gamma = np.linalg.solve(A, C) @ np.linalg.inv(L)
    assert best.gamma == pytest.approx(gamma, rel=ROUNDING, abs=ROUNDING)

    def loss(scale, C, A):
        return float(scale + noise - 2 * np.trace(gamma.T @ C) + np.trace(gamma.T @ A @ gamma @ L))

    own = w @ L @ w
    assert best.icl_loss == pytest.approx(loss(trace, L @ L, A_random), rel=ROUNDING)
    assert best.iwl_loss == pytest.approx(loss(own, LwwL, A_shared), rel=ROUNDING)
    mixed = loss(fresh_fraction * trace + (1 - fresh_fraction) * own, C, A)
    assert best.train_loss == pytest.approx(mixed, rel=ROUNDING)
    blind = loss(own, 0 * L, L / N)
    assert best.iwl_noise_loss == pytest.approx(blind, rel=ROUNDING)
    # In-context regression of the whitened task's second moment.
    root = np.linalg.cholesky(L)
    kappa = np.linalg.eigvalsh(
        fresh_fraction * root.T @ root + (1 - fresh_fraction) * np.outer(root.T @ w, root.T @ w)
    )
    end = plateau_losses(np.maximum(kappa, 0), context=N, noise_variance=noise)[-1]
    assert best.train_loss == pytest.approx(end, rel=ROUNDING)


def test_losses_in_simulation():
    N = 7
    noise = 0.5
    fresh_fraction = 0.4
    samples = 100_000
    law = {"input_covariance": COVARIANCE, "shared_task": TASK, "context": N}
    best = mixture_predictor(fresh_fraction, **law, noise_variance=noise)
    rng = np.random.default_rng(0)
    losses = {fresh_fraction: best.train_loss, 1: best.icl_loss, 0: best.iwl_loss}
    for fraction, expected in losses.items():
        x, y, query, label = draw(rng, samples, fraction, N, noise)
        beta = np.einsum("sn,snd->sd", y, x) / N
        errors = (label - np.einsum("si,ij,sj->s", beta, best.gamma, query)) ** 2
        assert abs(errors.mean() - expected) < Z * errors.std() / np.sqrt(samples)
    x, y, query, label = draw(rng, samples, 0, N, noise)
    beta = np.einsum("sn,snd->sd", rng.standard_normal(y.shape), x) / N
    errors = (label - np.einsum("si,ij,sj->s", beta, best.gamma, query)) ** 2
    assert abs(errors.mean() - best.iwl_noise_loss) < Z * errors.std() / np.sqrt(samples)


def test_one_kind_of_sequences_only():
    more = {"input_covariance": COVARIANCE, "shared_task": TASK, "context": 1e7}
    random = mixture_predictor(1, **more)
    assert random.gamma == pytest.approx(np.linalg.inv(COVARIANCE), rel=1e-5)
    shared = mixture_predictor(0, **more)
    # The shared task alone is a problem in one dimension, its loss accurate although small.
    own = TASK @ COVARIANCE @ TASK
    assert shared.iwl_loss == pytest.approx(own * (2 / 1e7) / (1 + 2 / 1e7), rel=1e-9)
    assert np.linalg.matrix_rank(shared.gamma, tol=1e-6) == 1


@pytest.mark.parametrize("fresh_fraction", [0.0, 0.5])
@pytest.mark.parametrize("noise", [0.0, 0.8])
def test_first_growth_in_simulation(fresh_fraction, noise):
    """Every entry of the tensor, and the growth along the predicted directions."""
    N = 5
    samples = 100_000
    D = 3
    x, y, query, label = draw(np.random.default_rng(3), samples, fresh_fraction, N, noise)
    tokens = np.zeros((samples, N + 1, D + 1))
    tokens[:, :N, :D] = x
    tokens[:, :N, D] = y
    tokens[:, N, :D] = query
    S = tokens.swapaxes(-1, -2) @ tokens / N
    mean = (np.einsum("s,sij,sk->ijk", label, S, query) / samples).reshape(D + 1, -1)
    law = {"input_covariance": COVARIANCE, "shared_task": TASK, "context": N}
    rate = mixture_growth_rate(fresh_fraction, **law, noise_variance=noise)
    # To first order in its errors, the singular value is the projection on these directions.
    left, _, right = np.linalg.svd(mean)
    along = right[0].reshape(D + 1, D)
    projected = label * np.einsum("i,sij,jk,sk->s", left[:, 0], S, along, query)
    error = np.std(projected) / np.sqrt(samples)
    assert abs(projected.mean() - rate) < Z * error
    assert error < 0.02 * rate


def test_tensor_by_quadrature():
    """One dimension: moments of one Gaussian variable, and the 2 x 2 tensor written out."""
    lam = 0.7
    w = 1.3
    N = 6
    c = 0.35
    noise = 0.4
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)
    weights = weights / weights.sum()
    x = np.sqrt(lam) * nodes

    def E(values):
        return float(weights @ values)

    # Per pair of context token and query, and for the query token; random tasks: w -> mean 0.
    xx = (1 - c) * (E(x**2) * E(w * x * x) + E(w * x**4) / N)
    xy = (c + (1 - c) * w**2) * E(x**2) ** 2
    yy = (1 - c) * (E((w * x) ** 2) + noise) * w * E(x**2)
    truth = np.linalg.svd(np.array([[xx, xy], [xy, yy]]), compute_uv=False)[0]
    rate = mixture_growth_rate(
        c, input_covariance=[[lam]], shared_task=[w], context=N, noise_variance=noise
    )
    assert rate == pytest.approx(truth, rel=ROUNDING)


def test_white_growth_is_that_of_two_directions():
    """The other directions of white inputs are no part of the leading pair."""
    lam = 0.8
    w = 1.7
    N = 9
    D = 5
    c = 0.45
    task = w * np.array([0.6, 0.0, -0.8, 0.0, 0.0])
    p = 1 - c
    b = 1 / N
    a = 1 + b
    along = c + p * w**2
    rows = p**2 * lam**4 * w**2 * (a**2 + b**2 + 4 * a * b + (D + 2) * b**2)
    rows += lam**4 * along**2
    cross = p * lam**4 * w * ((a + b) * along + b * (c * D + p * w**2) + along * w**2)
    label = lam**4 * ((D - 1) * c**2 + along**2) + p**2 * lam**4 * w**6
    rate = mixture_growth_rate(c, input_covariance=lam * np.eye(D), shared_task=task, context=N)
    top = np.linalg.eigvalsh([[rows, cross], [cross, label]])[1]
    assert rate == pytest.approx(np.sqrt(top), rel=ROUNDING)
