"""Untied layers at finite context and width: closed cases, exact moments, simulation."""

import math

import mpmath
import numpy as np
import pytest
from pair_moments import pair_moments

from iclimit.asymptotics.depth import untied_depth
from iclimit.asymptotics.descent import optimal_schedule
from iclimit.asymptotics.spectra import Atoms, TwoPoint
from iclimit.asymptotics.spectra.interval_polynomials import IntervalPolynomials
from iclimit.asymptotics.spectra.polynomial_form import spectral_parts
from iclimit.simulate.depth import simulate_depth_loss

# Contours against closed forms; measured 7e-12 at 12 layers.
CONTOUR = 1e-9
# Rounding of an orthogonalisation, measured 3e-14.
ROUNDING = 1e-12


@pytest.mark.parametrize("alpha", [0.5, 1.0, 3.0])
def test_isotropic_inputs_have_the_closed_optimum(alpha):
    best = untied_depth(np.ones(40), weights=np.ones(40), depth=12, alpha=alpha)
    for depth in (1, 5, 12):
        closed = optimal_schedule(steps=depth, ratio=1 / alpha)
        assert best.losses[depth - 1] == pytest.approx(float(closed.loss), rel=CONTOUR)
    assert best.steps == pytest.approx(closed.rates, rel=CONTOUR)
    assert best.error < CONTOUR * best.loss
    # The sum of alpha^k: losses of 1e-48 at great depth.
    deep = untied_depth(np.ones(40), weights=np.ones(40), depth=100, alpha=alpha).losses
    closed_form = 1 / np.cumsum(alpha ** np.arange(101.0))[1:]
    assert deep == pytest.approx(closed_form, rel=CONTOUR, abs=0)


@pytest.mark.machine
@pytest.mark.parametrize(("decay", "alpha"), [(1.2, 2.0), (2.0, 200.0)])
def test_power_laws_by_exact_moments(decay, alpha):
    """The normal equations of the monomials in 60 digits: no contour, no basis, no gaps."""
    k = np.arange(1.0, 6)
    x = k**-decay
    share = k ** (-decay - 1)
    depth = 8
    best = untied_depth(x, weights=share, depth=depth, alpha=alpha)
    with mpmath.workdps(60):
        lam = [mpmath.mpf(v) for v in x.tolist()]
        labels = [mpmath.mpf(v) for v in share.tolist()]
        outer = [b / v for b, v in zip(labels, lam, strict=True)]
        moments = pair_moments(lam, order=depth, alpha=mpmath.mpf(alpha), outer=outer, inner=lam)
        for n in (1, 4, 8):
            K = mpmath.matrix(moments[: n + 1, : n + 1].tolist())
            least = 1 / mpmath.lu_solve(K, mpmath.matrix([1] + [0] * n))[0]
            exact = float(least * len(k) / mpmath.fsum(labels))
            assert best.losses[n - 1] == pytest.approx(exact, rel=CONTOUR, abs=0)
            assert abs(best.losses[n - 1] - exact) <= 10 * best.error + ROUNDING * exact


def test_many_layers():
    """Deeper is better to full accuracy, with isolated eigenvalues and without.

    The infinitely deep tied layers leave the null space of a sample, the best untied ones less:
    their polynomial uses that inputs correlate what is in the null space with what is not.
    """
    k = np.arange(1.0, 101)
    best = untied_depth(k**-1.2, weights=k**-2.2, depth=64, alpha=0.5)
    limit = TwoPoint(Atoms(k**-1.2), alpha=0.5).null_mean(
        outer=lambda x: x ** (1 / 1.2), inner=lambda x: x
    )
    assert np.all(np.diff(best.losses) < 0)
    assert best.loss < 0.95 * limit / np.mean(k**-2.2)
    assert best.error < CONTOUR * best.loss
    found = untied_depth(k**-1.2, weights=k**-2.2, depth=32, alpha=0.5).losses
    assert found == pytest.approx(best.losses[:32], rel=CONTOUR)
    long = untied_depth(k**-1.2, weights=k**-2.2, depth=40, alpha=1e3)
    assert long.loss < 1e-7
    assert long.error < 1e-7 * long.loss


def test_polynomials_on_intervals():
    """Chebyshev polynomials on one interval; orthonormal on two; zeros of a combination."""
    one = IntervalPolynomials([(1.0, 3.0)], 5)
    points = np.array([0.5, 1.7, 2.0 + 1j])
    chebyshev = np.polynomial.chebyshev.chebvander(points - 2, 5).T * np.sqrt(2)
    assert one(points)[1:] == pytest.approx(chebyshev[1:], rel=ROUNDING)
    two = IntervalPolynomials([(0.0, 1.0), (50.0, 51.0)], 7)
    angle = (np.arange(20) + 0.5) * np.pi / 20
    nodes = np.concatenate([0.5 + np.cos(angle) / 2, 50.5 + np.cos(angle) / 2])
    values = two(nodes)
    assert values @ values.T / 20 == pytest.approx(np.eye(8), abs=ROUNDING)
    roots = np.array([0.1, 0.4, 0.9, 2.0, 30.0, 50.2, 50.7])
    wanted = np.prod(1 - two.nodes / roots[:, None], axis=0)
    assert np.sort(two.zeros(two.projection @ wanted)) == pytest.approx(roots, rel=1e-9)


def test_parts_of_the_spectrum():
    """Between the parts there is no eigenvalue of a sample, in them there are all."""
    k = np.arange(1.0, 9)
    lam = np.repeat(k**-2.0, 50)
    law = TwoPoint(Atoms(lam), alpha=10.0)
    parts = spectral_parts(law)
    assert len(parts) == 4
    Z = np.random.default_rng(0).standard_normal((4000, 400)) * np.sqrt(lam)
    sample = np.linalg.eigvalsh(Z.T @ Z / 4000)
    # Extreme eigenvalues of 50 leave their edges by some per cent of the width.
    inside = [
        np.sum((sample > 0.97 * part.lower) & (sample < 1.03 * part.upper)) for part in parts
    ]
    assert inside == [250, 50, 50, 50]


def one_layer(x, share, alpha, width):
    """Least loss of one step from the mean of M and of M' Lambda M, M = Pi S.

    E S A S = x A x + x tr(x A)/P for Gaussian samples, and for a random projection of rank a d
    E Pi A Pi = a^2 A + a (1 - a) tr(A)/d.
    """
    omega = share / x
    a = min(width, 1.0)
    inner = a**2 * x + a * (1 - a) * np.mean(x)
    square = x**2 * inner + x * np.mean(x * inner) / alpha
    return float(1 - np.sum(omega * a * x**2) ** 2 / np.sum(omega * square))


def test_one_layer_by_moments():
    for alpha, width in ((0.4, math.inf), (math.inf, 0.3), (2.0, 0.6)):
        x = np.linspace(0.2, 2, 30) ** 2
        share = np.linspace(3, 1, 30)
        share = share / share.sum()
        best = untied_depth(x, weights=5 * share, depth=1, alpha=alpha, width_ratio=width)
        assert best.loss == pytest.approx(one_layer(x, share, alpha, width), rel=CONTOUR)


def test_long_contexts_tend_to_the_spectrum_itself():
    k = np.arange(1.0, 31)
    exact = untied_depth(1 / k, weights=1 / k**2, depth=3)
    near = untied_depth(1 / k, weights=1 / k**2, depth=3, alpha=1e5, width_ratio=1.0)
    assert near.losses == pytest.approx(exact.losses, rel=3e-3)  # of order depth^4/alpha
    assert near.steps == pytest.approx(exact.steps, rel=3e-3)


def test_zero_and_repeated_eigenvalues():
    x = np.array([0.0, 1.0, 1.0, 2.0])
    share = np.array([1.0, 2.0, 4.0, 0.0])
    best = untied_depth(x, weights=share, depth=2, alpha=1.5)
    spread = untied_depth(x, weights=[1.0, 3.0, 3.0, 0.0], depth=2, alpha=1.5)
    assert best.losses == pytest.approx(spread.losses, rel=CONTOUR)
    assert np.all(best.losses > 1 / 7)
    found = untied_depth([0.0, 0.0], weights=[1.0, 2.0], depth=2, alpha=1.5).losses.tolist()
    assert found == [1.0, 1.0]
    # Directions without label variance blur the others, but hold no loss.
    fewer = untied_depth([0.0, 0.0, 1.0, 1.0], weights=[1.0, 0.0, 2.0, 4.0], depth=2, alpha=1.5)
    assert best.loss > fewer.loss


@pytest.mark.parametrize(("alpha", "width"), [(1.5, math.inf), (2.0, 0.75)])
def test_sampled_contexts(alpha, width):
    """Loss of the best polynomial on drawn contexts, extrapolated in 1/d."""
    runs = []
    for d, count in ((24, 900), (48, 300)):
        x = np.tile(np.linspace(0.4, 2, 6), d // 6)
        best = untied_depth(x, weights=x, depth=3, alpha=alpha, width_ratio=width)
        sizes = {"context": round(alpha * d), "width": round(min(width, 1) * d)}
        losses = simulate_depth_loss(
            eigenvalues=x, rates=best.steps, **sizes, rng=d, repeats=count
        ).loss
        runs.append((best.loss, losses.mean / np.mean(x), losses.standard_error / np.mean(x)))
    shown, means, errors = zip(*runs, strict=True)
    assert shown[0] == pytest.approx(shown[1], rel=CONTOUR)
    limit = 2 * means[1] - means[0]
    error = math.hypot(2 * errors[1], errors[0])
    assert abs(limit - shown[0]) < 4 * error
    assert error < 0.03 * limit


def test_complex_steps_are_those_of_the_best_polynomial():
    """They come in pairs; the best real ones have their loss, and no change makes it smaller."""
    k = np.arange(1.0, 25)
    x = k**-0.4
    share = k**-1.4
    best = untied_depth(x, weights=share, depth=6, alpha=1.4, width_ratio=0.7)
    assert np.iscomplexobj(best.steps)
    assert np.sum(best.steps).imag == pytest.approx(0, abs=1e-9)
    assert np.all(np.diff(best.losses) < 0)
    assert np.all(np.isreal(best.real_steps))
    law = TwoPoint(Atoms(x), alpha=1.4, width_ratio=0.7)

    def loss(steps):
        value, _ = law.mean(
            lambda z: np.prod(1 - steps[:, None] * z, axis=0),
            outer=np.sort(share / x),
            inner=lambda v: v,
        )
        return value / share.mean()

    assert loss(best.steps) == pytest.approx(best.loss, rel=CONTOUR)
    assert loss(best.real_steps) == pytest.approx(best.real_loss, rel=CONTOUR)
    assert best.loss < best.real_loss < 1.05 * best.loss
    rng = np.random.default_rng(1)
    for change in 1e-2 * rng.standard_normal((20, 6)):
        assert loss(best.real_steps * (1 + change)) > best.real_loss


def test_width_with_zero_eigenvalues():
    """They are as good as eigenvalues of next to zero, and scales do not matter."""
    x = np.array([0.0, 0.5, 1.0, 1.5])
    share = np.array([0.0, 1.0, 2.0, 1.0])
    best = untied_depth(x, weights=share, depth=3, alpha=2.0, width_ratio=0.6)
    near = untied_depth(x + 1e-9, weights=share, depth=3, alpha=2.0, width_ratio=0.6)
    assert best.losses == pytest.approx(near.losses, rel=1e-6)
    tiny = untied_depth(1e-200 * x, weights=share, depth=3, alpha=2.0, width_ratio=0.6)
    assert tiny.losses == pytest.approx(best.losses, rel=CONTOUR)
    assert 1e-200 * tiny.steps == pytest.approx(best.steps, rel=CONTOUR)


def test_weights_whose_sum_is_above_one_by_rounding():
    for count in range(230, 236):
        best = untied_depth(np.linspace(1, 2, count), weights=np.ones(count), depth=2, alpha=15.0)
        assert 0 < best.loss < 0.01


def test_contexts_that_are_too_short_for_float64_are_refused():
    for alpha in (1e-7, 1e-300, 5e-324):
        with pytest.raises(ArithmeticError, match="too extreme for"):
            untied_depth([1.0], weights=[1.0], depth=4, alpha=alpha)
