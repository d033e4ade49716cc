"""Optima over embeddings against closed forms, sampling, and restricted embeddings."""

import math

import numpy as np
import pytest
import sympy
from scipy.stats import norm

from iclimit.asymptotics.softmax import (
    finite_rank_loss,
    functional_optimum,
    sine_optimum,
    whole_token_optimum,
)

# Standard errors that a simulated loss may lie off.
SIGMAS = 4.0


def gaussian(x, z):
    return np.exp(-((x - z) ** 2) / 2)


def test_sine_in_closed_form():
    """kappa (1 - N sum l^2/(1 + (N-1) l)) with the eigenvalues l of the features."""
    kappa = (0.5**3 - 0.1**3) / (3 * 0.4) / 2
    for N in (1, 2, 10, 1000):
        shares = (0.5 + math.sin(10) / 20, 0.5 - math.sin(10) / 20)
        exact = kappa * (1 - N * sum(s**2 / (1 + (N - 1) * s) for s in shares))
        best = sine_optimum(context=N)
        assert best.loss == pytest.approx(exact, rel=1e-10)
        assert best.error < 1e-10 * best.loss
    assert sine_optimum(context=10).loss == pytest.approx(0.0046924, abs=5e-8)
    assert sine_optimum(context=10, tied=True).loss == pytest.approx(0.0043097, abs=5e-8)


def test_finite_rank_is_the_kernel_equation():
    rng = np.random.default_rng(4)
    x = rng.standard_normal((50, 3))
    root = rng.standard_normal((3, 3))
    M = root @ root.T
    noise = 0.3
    N = 7
    variance = np.einsum("ni,ij,nj->n", x, M, x) + noise
    setting = {"covariance": lambda a, b: np.einsum("...i,ij,...j->...", a, M, b), "inputs": x}
    best = functional_optimum(**setting, context=N, noise_variance=noise)
    found = finite_rank_loss(
        task_covariance=M,
        feature_moments=x.T @ x / 50,
        scaled_moments=(x / variance[:, None]).T @ x / 50,
        context=N,
    )
    assert best.loss == pytest.approx(found, rel=1e-11)


def test_loss_is_that_of_prompts():
    """Functions with a Gaussian prior on a few points, drawn with noise."""
    N = 6
    noise = 0.2
    prompts = 200_000
    points = np.array([-1.0, 0.0, 0.4, 2.0])
    weights = np.array([0.2, 0.3, 0.1, 0.4])
    best = functional_optimum(
        covariance=gaussian, inputs=points, weights=weights, context=N, noise_variance=noise
    )
    rng = np.random.default_rng(7)
    root = np.linalg.cholesky(gaussian(points[:, None], points))
    values = rng.standard_normal((prompts, 4)) @ root.T
    where = rng.choice(4, size=(prompts, N + 1), p=weights)
    y = np.take_along_axis(values, where, axis=1)
    noisy = y[:, 1:] + math.sqrt(noise) * rng.standard_normal((prompts, N))
    predicted = np.sum(best.kernel[where[:, :1], where[:, 1:]] * noisy, axis=1)
    losses = (predicted - y[:, 0]) ** 2
    assert abs(losses.mean() - best.loss) < SIGMAS * losses.std() / math.sqrt(prompts)


def test_kernel_is_a_minimum():
    """Gradient of the quadratic loss in the kernel, and other kernels."""
    N = 9
    noise = 0.1
    best = functional_optimum(covariance=gaussian, inputs=(0, 3), context=N, noise_variance=noise)
    w = best.weights
    C = gaussian(best.inputs[:, None], best.inputs)

    def loss(K):
        Kw = K * w
        terms = np.diag(C) - 2 * N * np.sum(Kw * C, axis=1)
        terms += N * np.sum(K * Kw * (np.diag(C) + noise), axis=1)
        terms += N * (N - 1) * np.sum((Kw @ C) * Kw, axis=1)
        return float(w @ terms)

    assert loss(best.kernel) == pytest.approx(best.loss, rel=1e-9)
    rng = np.random.default_rng(1)
    change = rng.standard_normal(best.kernel.shape)
    up = loss(best.kernel + 1e-3 * change)
    down = loss(best.kernel - 1e-3 * change)
    assert up > best.loss
    assert down > best.loss
    assert up == pytest.approx(down, rel=1e-7)


def test_stated_error_is_honest():
    """A kink on the diagonal: the error falls as 1/n^2, the last change is larger."""
    best = functional_optimum(covariance=np.minimum, inputs=(0, 1), context=5)
    node, weight = np.polynomial.legendre.leggauss(1000)
    finer = functional_optimum(
        covariance=np.minimum, inputs=(node + 1) / 2, weights=weight / 2, context=5
    )
    assert 0 < best.error < 1e-4
    assert abs(best.loss - finer.loss) < best.error


def test_symbols():
    """The sine task for any number of pairs: S diagonal, M = kappa, G = S/kappa."""
    N, kappa, s = sympy.symbols("N kappa s", positive=True)
    S = sympy.diag(sympy.Rational(1, 2) + s, sympy.Rational(1, 2) - s)
    setting = {"task_covariance": kappa * sympy.eye(2), "feature_moments": S}
    loss = finite_rank_loss(**setting, scaled_moments=S / kappa, context=N)
    numbers = {N: 10, kappa: (0.5**3 - 0.1**3) / 2.4, s: math.sin(10) / 20}
    assert float(loss.subs(numbers)) == pytest.approx(sine_optimum(context=10).loss, rel=1e-10)


def restricted_loss(amplitude, phase, N):
    """Best additive predictor of the sine task with polynomials in the label, by a linear fit."""
    x = -5 + 10 * (np.arange(200) + 0.5) / 200
    waves = np.stack([np.ones(200)] + [g(k * x) for k in range(1, 5) for g in (np.cos, np.sin)])
    c = amplitude * np.stack([np.cos(phase), np.sin(phase)])
    f = np.stack([np.sin(x), np.cos(x)])
    y = 2 * c.T @ f
    basis = np.stack([y**power for power in range(6)])
    # Mean over x of each product of a wave and a power, for each function.
    m = np.einsum("wx,ptx->wpt", waves, basis).reshape(-1, len(phase)) / 200
    tokens = np.einsum("wx,ptx->wptx", waves, basis).reshape(len(m), -1)
    second = tokens @ tokens.T / tokens.shape[1]
    Q = second + (N - 1) * m @ m.T / len(phase)
    cross = c @ m.T / len(phase)
    left = c @ c.T / len(phase) - N * cross @ np.linalg.pinv(Q, rcond=1e-12) @ cross.T
    return float(np.sum((f @ f.T / 200) * left))


def test_whole_tokens_of_the_tied_sine_task():
    """0.00098; polynomials of the label come close from above."""
    tied = sine_optimum(context=10, tied=True, whole_tokens=True)
    assert tied.loss == pytest.approx(0.00098, abs=5e-6)
    assert tied.error < 0.01 * tied.loss
    phase = np.pi * (np.arange(300) + 0.5) / 300
    bound = restricted_loss(0.1 + 0.4 * phase / np.pi, phase, 10)
    assert tied.loss < bound < 1.35 * tied.loss


@pytest.mark.slow
def test_whole_tokens_of_the_sine_task():
    """0.00229, likewise."""
    free = sine_optimum(context=10, whole_tokens=True)
    assert free.loss == pytest.approx(0.00229, abs=6e-6)
    assert free.error < 0.01 * free.loss
    phase = np.pi * (np.arange(300) + 0.5) / 300
    levels, phases = np.meshgrid(0.1 + 0.4 * (np.arange(8) + 0.5) / 8, phase[::6])
    bound = restricted_loss(levels.ravel(), phases.ravel(), 10)
    assert free.loss < bound < 1.1 * free.loss
    # Inputs only are less than whole tokens.
    assert free.loss < sine_optimum(context=10).loss / 2


def test_whole_tokens_of_one_pair():
    """y = c x with c in {-1, -1/2, 1/2, 1} and x from (1, 2): a label tells the slope."""
    c = np.repeat([-1.0, -0.5, 0.5, 1.0], 500)[None]
    best = whole_token_optimum(
        features=lambda x: x[None], coefficients=c, inputs=(1, 2), context=1
    )
    assert best.loss < 1e-12
    inputs_only = functional_optimum(
        covariance=lambda x, z: 0.625 * x * z, inputs=(1, 2), context=1
    )
    assert inputs_only.loss == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("context", [1, 4])
@pytest.mark.parametrize("slope", [1.2, 2.7])
def test_whole_tokens_of_gaussian_coefficients(slope, context):
    """Labels say nothing beside the inputs then; bins of whole tokens reveal 3 % at most."""
    z = norm.ppf((np.arange(81) + 0.5) / 81)
    coefficients = np.stack(np.meshgrid(z, z)).reshape(2, -1) / np.std(z)

    def features(x):
        return np.stack([np.ones_like(x), slope * x])

    f = features((np.arange(1000) + 0.5) / 500 - 1)
    best = whole_token_optimum(
        features=features, coefficients=coefficients, inputs=(-1.0, 1.0), context=context, bins=32
    )
    inputs_only = finite_rank_loss(
        task_covariance=np.eye(2),
        feature_moments=f @ f.T / 1000,
        scaled_moments=f / np.sum(f**2, axis=0) @ f.T / 1000,
        context=context,
    )
    assert best.loss == pytest.approx(inputs_only, rel=0.03)
