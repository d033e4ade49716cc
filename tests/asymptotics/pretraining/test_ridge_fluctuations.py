"""Fluctuations of ridge regression: an exact law, and regressions on drawn data."""

import numpy as np
import pytest

from iclimit.asymptotics.pretraining import ridge_fluctuations


def test_least_squares_tends_to_the_inverse_wishart_law():
    # Gaussian features, t = b: Var = 2 s^4 p (n - 1) / ((n - p - 1)^2 (n - p - 3)), exactly.
    noise = 0.7
    excess = []
    for p in (60, 240, 960):
        n = 2 * p
        exact = 2 * noise**2 * p * (n - 1) / ((n - p - 1) ** 2 * (n - p - 3))
        weights = {"label_weights": np.ones(p), "observations": n, "noise_variance": noise}
        excess.append(exact / ridge_fluctuations(np.eye(p), **weights).covariance[0, 0] - 1)
    assert 0 < excess[-1] < 0.005
    np.testing.assert_allclose(np.divide(excess[:-1], excess[1:]), 4, rtol=0.1)


@pytest.mark.parametrize(("p", "n", "ridge"), [(40, 70, 0.1), (40, 25, 0.3), (40, 44, 0.2)])
def test_covariances_that_do_not_commute_against_drawn_data(p, n, ridge):
    rng = np.random.default_rng(3)
    runs = 1500
    noise = 0.3

    def drawn_covariance():
        root = rng.standard_normal((p, 2 * p)) / np.sqrt(2 * p)
        return root @ root.T

    S = drawn_covariance()
    B = drawn_covariance()
    target, other = rng.standard_normal((2, p)) / np.sqrt(p)
    features = rng.standard_normal((runs, n, p)) @ np.linalg.cholesky(S).T
    labels = features @ target + np.sqrt(noise) * rng.standard_normal((runs, n))
    gram = np.einsum("rni,rnj->rij", features, features) / n + ridge * np.eye(p)
    moments = np.einsum("rni,rn->ri", features, labels) / n
    b = np.linalg.solve(gram, moments[..., None])[..., 0]
    errors = [
        noise + np.einsum("ri,ij,rj->r", b - each, matrix, b - each)
        for matrix, each in ((S, target), (B, other))
    ]
    predicted = ridge_fluctuations(
        S,
        label_weights=target,
        observations=n,
        noise_variance=noise,
        ridge=ridge,
        test_covariances=np.stack([S, B]),
        test_label_weights=np.stack([target, other]),
    )
    mean = np.mean(errors, axis=1)
    covariance = np.cov(errors)
    spread = np.sqrt(np.diag(covariance))
    # The means are off by O(1/p); of a standard deviation, 1.8 % is its statistical error.
    np.testing.assert_allclose(predicted.mean, mean, rtol=0.02)
    np.testing.assert_allclose(np.sqrt(np.diag(predicted.covariance)), spread, rtol=0.08)
    correlation = predicted.covariance[0, 1] / np.prod(np.sqrt(np.diag(predicted.covariance)))
    assert correlation == pytest.approx(np.corrcoef(errors)[0, 1], abs=0.08)


def test_interpolation_has_no_finite_variance():
    at = {"label_weights": np.ones(5), "noise_variance": 0.1}
    spreads = [
        ridge_fluctuations(np.eye(5), observations=n, **at).covariance[0, 0] for n in (1, 2, 8, 9)
    ]
    assert np.isfinite(spreads).tolist() == [True, False, False, True]


def test_shapes_and_singular_covariances_are_refused():
    at = {"label_weights": np.ones(5), "noise_variance": 0.1, "observations": 9}
    with pytest.raises(ValueError, match=r"test_covariances must have shape \(1, 5, 5\)"):
        ridge_fluctuations(np.eye(5), test_covariances=np.eye(4)[None], **at)
    with pytest.raises(ValueError, match="positive definite"):
        ridge_fluctuations(np.zeros((5, 5)), **at)
