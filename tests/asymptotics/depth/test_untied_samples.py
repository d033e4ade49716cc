"""Untied layers at finite context and width: closed cases, one layer by moments, simulation."""

import math

import numpy as np
import pytest

from iclimit.asymptotics.depth import untied_depth
from iclimit.asymptotics.descent import optimal_schedule

# Contours against closed forms; measured 7e-12 at 12 layers.
CONTOUR = 1e-9


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_isotropic_inputs_have_the_closed_optimum(alpha: float) -> None:
    best = untied_depth(np.ones(40), np.ones(40), depth=12, alpha=alpha)
    for depth in (1, 5, 12):
        closed = optimal_schedule(steps=depth, ratio=1 / alpha)
        assert best.losses[depth - 1] == pytest.approx(float(closed.loss), rel=CONTOUR)
    assert best.steps == pytest.approx(closed.rates, rel=CONTOUR)
    assert best.error < CONTOUR * best.loss


def one_layer(x: np.ndarray, share: np.ndarray, alpha: float, width: float) -> float:
    """Least loss of one step from the mean of M and of M' Lambda M, M = Pi S.

    E S A S = x A x + x tr(x A)/P for Gaussian samples, and for a random projection of rank a d
    E Pi A Pi = a^2 A + a (1 - a) tr(A)/d.
    """
    omega, a = share / x, min(width, 1.0)
    inner = a**2 * x + a * (1 - a) * np.mean(x)
    square = x**2 * inner + x * np.mean(x * inner) / alpha
    return float(1 - np.sum(omega * a * x**2) ** 2 / np.sum(omega * square))


@pytest.mark.parametrize(("alpha", "width"), [(0.4, math.inf), (math.inf, 0.3), (2.0, 0.6)])
def test_one_layer_by_moments(alpha: float, width: float) -> None:
    x = np.linspace(0.2, 2, 30) ** 2
    share = np.linspace(3, 1, 30)
    share = share / share.sum()
    best = untied_depth(x, 5 * share, depth=1, alpha=alpha, width_ratio=width)
    assert best.loss == pytest.approx(one_layer(x, share, alpha, width), rel=CONTOUR)


def test_long_contexts_tend_to_the_spectrum_itself() -> None:
    k = np.arange(1.0, 31)
    exact = untied_depth(1 / k, 1 / k**2, depth=3)
    near = untied_depth(1 / k, 1 / k**2, depth=3, alpha=1e5, width_ratio=1.0)
    assert near.losses == pytest.approx(exact.losses, rel=3e-3)  # of order depth^4/alpha
    assert near.steps == pytest.approx(exact.steps, rel=3e-3)


def test_zero_and_repeated_eigenvalues() -> None:
    x, share = np.array([0.0, 1.0, 1.0, 2.0]), np.array([1.0, 2.0, 4.0, 0.0])
    best = untied_depth(x, share, depth=2, alpha=1.5)
    spread = untied_depth(x, [1.0, 3.0, 3.0, 0.0], depth=2, alpha=1.5)
    assert best.losses == pytest.approx(spread.losses, rel=CONTOUR)
    assert np.all(best.losses > 1 / 7)
    assert untied_depth([0.0, 0.0], [1.0, 2.0], depth=2, alpha=1.5).losses.tolist() == [1.0, 1.0]
    # Directions without label variance blur the others, but hold no loss.
    fewer = untied_depth([0.0, 0.0, 1.0, 1.0], [1.0, 0.0, 2.0, 4.0], depth=2, alpha=1.5)
    assert best.loss > fewer.loss


@pytest.mark.parametrize(("alpha", "width"), [(1.5, math.inf), (2.0, 0.75)])
def test_sampled_contexts(alpha: float, width: float) -> None:
    """Loss of the best polynomial on sampled matrices, extrapolated in 1/d."""
    means, errors, shown = [], [], []
    for d, count in ((24, 900), (48, 300)):
        x = np.tile(np.linspace(0.4, 2, 6), d // 6)
        best = untied_depth(x, x, depth=3, alpha=alpha, width_ratio=width)
        shown.append(best.loss)
        rng, losses = np.random.default_rng(d), []
        for _ in range(count):
            Z = rng.standard_normal((round(alpha * d), d)) * np.sqrt(x)
            S = Z.T @ Z / len(Z)
            if width < 1:
                Q = np.linalg.qr(rng.standard_normal((d, round(width * d))))[0]
                S = Q @ (Q.T @ S)
            p = np.eye(d)
            for step in best.steps:
                p = p - step * S @ p
            losses.append(np.sum(x[:, None] * p**2) / np.sum(x))
        means.append(np.mean(losses))
        errors.append(np.std(losses) / math.sqrt(count))
    assert shown[0] == pytest.approx(shown[1], rel=CONTOUR)
    limit, error = 2 * means[1] - means[0], math.hypot(2 * errors[1], errors[0])
    assert abs(limit - shown[0]) < 4 * error
    assert error < 0.03 * limit


def test_complex_steps_are_those_of_the_best_polynomial() -> None:
    """They come in pairs, and deeper is better all the same."""
    k = np.arange(1.0, 25)
    best = untied_depth(k**-0.4, k**-1.4, depth=6, alpha=1.4, width_ratio=0.7)
    assert np.iscomplexobj(best.steps)
    assert np.sum(best.steps).imag == pytest.approx(0, abs=1e-9)
    assert np.all(np.diff(best.losses) < 0)


def test_weights_whose_sum_is_above_one_by_rounding() -> None:
    for count in range(230, 236):
        best = untied_depth(np.linspace(1, 2, count), np.ones(count), depth=2, alpha=15.0)
        assert 0 < best.loss < 0.01


def test_refuses() -> None:
    with pytest.raises(ValueError, match="alpha must be > 0"):
        untied_depth([1.0], [1.0], depth=1, alpha=0.0)
    with pytest.raises(ValueError, match="width_ratio must be > 0"):
        untied_depth([1.0], [1.0], depth=1, width_ratio=-1.0)
    with pytest.raises(ValueError, match="eigenvalues must be > 0 for width_ratio < 1"):
        untied_depth([1.0, 0.0], [1.0, 0.0], depth=1, width_ratio=0.5)
    k = np.arange(1.0, 101)
    with pytest.raises(ArithmeticError, match="its degree is too high"):
        untied_depth(1 / k, 1 / k**2, depth=64, alpha=1.0)
