"""Test-time steps against plain sums in 40 digits, simulation and a maximum over angles."""

import math

import mpmath
import numpy as np
import pytest
import sympy
from scipy.optimize import brentq, minimize_scalar

from iclimit.asymptotics import depth
from iclimit.asymptotics.spectra import MarchenkoPastur

# float64 against exact sums; measured 2e-14 at 40 steps.
ROUNDING = 1e-12


def plain_sums(steps, alpha, tau, noise, factor):
    """The two-time sums as they stand in the module docstring, without the fast recursion."""
    g = alpha / (alpha + 1 + noise)
    v = factor**2 * g * (1 - g) / (tau - 1)
    g = factor * g
    law = MarchenkoPastur(1 / alpha)
    raw = [law.moment(k) for k in range(2 * steps + 3)]

    def average(r, a):
        return sum(mpmath.binomial(a, i) * (-g) ** i * raw[i + r] for i in range(a + 1))

    m = [[average(r, a) for a in range(2 * steps + 1)] for r in range(3)]
    V = {}
    for k in range(steps):
        for j in range(steps):
            pairs = [(p, q) for p in range(k) for q in range(j)]
            later = sum(m[2][k + j - 2 - p - q] * V[p, q] for p, q in pairs)
            V[k, j] = m[2][k + j] + noise / alpha * m[1][k + j] + v * later
    errors = []
    for k in range(steps + 1):
        pairs = [(p, q) for p in range(k) for q in range(k)]
        fit = sum(m[1][p + q] for p, q in pairs) * g**2 * noise / alpha
        errors.append(
            m[0][2 * k] + fit + v * sum(m[0][2 * k - 2 - p - q] * V[p, q] for p, q in pairs)
        )
    return errors


@pytest.mark.parametrize(
    "point",
    [(4.0, 4.0, 0.0, 1.0), (2.0, 1.5, 0.3, 1.0), (0.5, 3.0, 0.1, 0.7), (1.0, 5.0, 0.0, 1.0)],
)
def test_errors_equal_the_plain_sums(point):
    with mpmath.workdps(40):
        numbers = [mpmath.mpf(value) for value in point]
        with mpmath.workdps(60):  # their powers cancel
            expected = plain_sums(7, *numbers)
        names = ("alpha", "tau", "noise_variance", "dampening")
        exact = depth.test_time_errors(**dict(zip(names, numbers, strict=True)), steps=7)
        assert max(abs(a / b - 1) for a, b in zip(exact, expected, strict=True)) < 1e-36
        many = depth.test_time_errors(**dict(zip(names, numbers, strict=True)), steps=24)
    found = depth.test_time_errors(**dict(zip(names, point, strict=True)), steps=24)
    assert found == pytest.approx(np.array(many, dtype=float), rel=ROUNDING)


def test_published_first_step_in_symbols():
    alpha, tau = sympy.symbols("alpha tau", positive=True)
    first = depth.test_time_errors(alpha=alpha, tau=tau, steps=1)[1]
    assert sympy.simplify(first - tau / ((1 + alpha) * (tau - 1))) == 0


def simulated_errors(rng, d, alpha, tau, noise, steps):
    """Mean logarithms of the errors of one matrix, fitted to tau d contexts, on 20 fresh ones."""
    pairs = alpha * d

    def draw(count):
        x = rng.standard_normal((count, d, pairs))
        w = rng.standard_normal((count, d, 1))
        labels = x.mT @ w + math.sqrt(noise * d) * rng.standard_normal((count, pairs, 1))
        return x, w, labels

    x, w, labels = draw(tau * d)
    h = (x @ labels)[..., 0] / pairs
    gamma = np.linalg.lstsq(h, w[..., 0], rcond=None)[0].T
    x, w, labels = draw(20)
    estimate = np.zeros_like(w)
    errors = []
    for _ in range(steps):
        estimate = estimate + gamma @ (x @ (labels - x.mT @ estimate)) / pairs
        errors.append(np.mean((w - estimate) ** 2, axis=(1, 2)))
    return np.log(errors).mean(axis=1)


@pytest.mark.parametrize(("alpha", "tau", "noise"), [(2, 5, 0.0), (4, 3, 0.4)])
def test_simulation_from_tokens(alpha, tau, noise):
    """Least-squares pretraining and iteration on tokens, extrapolated in 1/d.

    Typical errors, as rare contexts carry the means: geometric means tend to the same limit.
    """
    steps = 4
    means = []
    variances = []
    for d, count in ((16, 70), (32, 30)):
        rng = np.random.default_rng(d + alpha)
        runs = np.array([simulated_errors(rng, d, alpha, tau, noise, steps) for _ in range(count)])
        means.append(runs.mean(axis=0))
        variances.append(runs.var(axis=0) / count)
    theory = depth.test_time_errors(alpha=alpha, tau=tau, noise_variance=noise, steps=steps)[1:]
    standard_error = np.sqrt(4 * variances[1] + variances[0])
    z = (2 * means[1] - means[0] - np.log(theory)) / standard_error
    assert np.all(np.abs(z) < 4)
    # What is resolved (95 %): 6 % of the first error, 11 % of the fourth.
    assert np.all(2 * standard_error < [0.08, 0.09, 0.11, 0.13])


def largest_over_angles(alpha, noise, factor):
    """Largest value of f over all angles, by a scan and a refinement, with 3000 nodes."""
    nodes, weights = (each[1:] for each in MarchenkoPastur(1 / alpha).quadrature(3000))
    gain = factor * alpha / (alpha + 1 + noise)

    def value(angle):
        return float(np.sum(weights * nodes**2 / abs(np.exp(1j * angle) - 1 + gain * nodes) ** 2))

    angles = np.linspace(0, np.pi, 61)
    best = angles[np.argmax([value(angle) for angle in angles])]
    bounds = max(best - 0.06, 0), min(best + 0.06, np.pi)
    refined = minimize_scalar(lambda angle: -value(angle), bounds=bounds, method="bounded").fun
    return (
        max(-refined, value(0.0), value(np.pi)) * factor**2 * gain / factor * (1 - gain / factor)
    )


def test_threshold_is_the_largest_value_over_all_angles():
    rng = np.random.default_rng(3)
    # With noise the largest value is that of the angle pi near alpha = 1 only.
    points = [(1.1, 0.05, 1.0), (0.8, 0.02, 0.99)]
    for _ in range(8):
        noise, factor = (rng.choice([a, rng.uniform(*b)]) for a, b in ((0, (0, 2)), (1, (0.1, 1))))
        points.append((10 ** rng.uniform(-0.8, 0.8), noise, factor))
    for alpha, noise, factor in points:
        found = depth.overthinking_threshold(alpha=alpha, noise_variance=noise, dampening=factor)
        assert found - 1 == pytest.approx(largest_over_angles(alpha, noise, factor), rel=1e-10)


def test_closed_thresholds():
    few = np.array([0.01, 0.3, 0.999])
    many = np.array([1.001, 2.0, 400.0])
    threshold = depth.overthinking_threshold
    assert threshold(alpha=few) == pytest.approx(1 + (1 + 3 * few) / (1 - few), rel=ROUNDING)
    expected = 1 + (many + 3) / (many * (many - 1))
    assert threshold(alpha=many) == pytest.approx(expected, rel=ROUNDING)
    assert threshold(alpha=1.0) == math.inf
    assert threshold(alpha=2.0, dampening=3.0) == math.inf
    assert threshold(alpha=4.0, noise_variance=0.2, dampening=0) == pytest.approx(1.3)
    assert threshold(alpha=sympy.Rational(1, 2)) == 6
    assert threshold(alpha=mpmath.mpf(1)) == mpmath.inf
    with mpmath.workdps(40):
        near = mpmath.mpf("1.000001")
        exact = threshold(alpha=near, noise_variance=mpmath.mpf("1e-9"), dampening=mpmath.mpf(1))
    found = threshold(alpha=1.000001, noise_variance=1e-9)
    # The rounding of alpha itself, 2e-16 of 1e-6, is doubled.
    assert found == pytest.approx(float(exact), rel=1e-9)


@pytest.mark.parametrize(("alpha", "noise", "factor"), [(2.0, 0.0, 1.0), (0.4, 0.3, 0.8)])
def test_errors_grow_below_the_threshold_only(alpha, noise, factor):
    setting = {"alpha": alpha, "noise_variance": noise, "dampening": factor}
    excess = depth.overthinking_threshold(**setting) - 1
    tau = 1 + excess * np.array([0.9, 1.2])
    errors = depth.test_time_errors(tau=tau, steps=200, **setting)
    limits = depth.final_test_time_error(tau=tau, **setting)
    assert errors[0, -1] > 1.5 * errors[0, -40] > 2 * errors[0, -80]
    assert limits[0] == math.inf
    assert errors[1, -1] == pytest.approx(limits[1], rel=2e-3, abs=1e-3)


def test_limits():
    limit = depth.final_test_time_error
    errors = depth.test_time_errors
    for alpha, tau, noise in ((0.5, 8.0, 0.3), (0.3, 6.0, 0.2), (3.0, 4.0, 0.5)):
        late = errors(alpha=alpha, tau=tau, noise_variance=noise, steps=150)[-1]
        found = limit(alpha=alpha, tau=tau, noise_variance=noise)
        assert late == pytest.approx(found, rel=2e-4)
    dampened = {"alpha": 0.2, "tau": 6.0, "noise_variance": 0.2, "dampening": 0.65}
    late = errors(**dampened, steps=250)[-1]
    assert late == pytest.approx(limit(**dampened), rel=1e-3)
    assert limit(alpha=2.0, tau=math.inf) == 0
    assert limit(alpha=1.0, tau=3.0) == math.inf
    assert limit(alpha=1.0, tau=3.0, dampening=0.8) == 0
    slow = errors(alpha=1.0, tau=3.0, dampening=0.8, steps=200)
    assert slow[200] / slow[50] == pytest.approx(0.5, rel=0.1)  # as the root of the steps
    assert limit(alpha=1.0, tau=3.0, dampening=0.8, noise_variance=0.1) == math.inf
    assert limit(alpha=sympy.Rational(1, 2), tau=8) == sympy.Rational(7, 12)
    assert abs(limit(alpha=mpmath.mpf("0.5"), tau=8) - mpmath.mpf(7) / 12) < 1e-14


def test_shapes_and_extremes():
    grid = depth.test_time_errors(alpha=[[2.0], [3.0]], tau=[2.0, 4.0, math.inf], steps=5)
    assert grid.shape == (2, 3, 6)
    one = depth.test_time_errors(alpha=3.0, tau=4.0, steps=5)
    assert grid[1, 1] == pytest.approx(one, rel=ROUNDING)
    assert np.all(grid[..., 0] == 1)
    assert depth.test_time_errors(alpha=1.0, tau=1.001, dampening=50.0, steps=300)[-1] == math.inf
    noisy = depth.test_time_errors(alpha=4.0, tau=3.0, noise_variance=0.4, steps=40)
    assert noisy.argmin() == 6
    assert noisy[6] == pytest.approx(0.12753, abs=1e-5)


def test_long_contexts_cancel_nothing():
    """Up to 1e10 pairs a dimension, with errors down to 1e-115."""
    for alpha, factor in ((1e4, 1.0), (1e10, 1.0), (1e-8, 0.7)):
        setting = {"alpha": alpha, "tau": 1.5, "noise_variance": 0.0, "dampening": factor}
        found = depth.test_time_errors(**setting, steps=12)
        many = depth.test_time_errors(
            **{name: mpmath.mpf(value) for name, value in setting.items()}, steps=12
        )
        assert found == pytest.approx(np.array(many, dtype=float), rel=ROUNDING, abs=0)


def test_best_number_of_steps_by_brute_force():
    rng = np.random.default_rng(5)
    setting = {
        "alpha": 10 ** rng.uniform(-1, 1.3, 50),
        "tau": 1 + 10 ** rng.uniform(-1.5, 1.5, 50),
        "noise_variance": rng.choice([0.0, 0.1, 1.0], 50) * rng.uniform(0, 1, 50),
        "dampening": rng.choice([1.0, 0.8, 0.4], 50),
    }
    errors = depth.test_time_errors(**setting, steps=64)
    limit = depth.final_test_time_error(**setting)
    best = depth.best_test_time_steps(**setting, steps=64)
    least = errors.min(axis=1)
    finite = (least < limit * (1 - ROUNDING)) & (errors.argmin(axis=1) < 64)
    np.testing.assert_array_equal(best.steps, np.where(finite, errors.argmin(axis=1), math.inf))
    assert best.error == pytest.approx(np.minimum(least, limit), rel=ROUNDING)
    assert 5 < np.isinf(best.steps).sum() < 30
    assert len(set(best.steps)) > 12


def test_best_number_of_steps_is_infinite_where_all_help():
    best = depth.best_test_time_steps(alpha=[4.0, 0.3], tau=[3.0, math.inf])
    assert best.steps.tolist() == [math.inf, math.inf]
    assert best.error == pytest.approx([0, 0.7])
    # At alpha = 1 the errors grow in the end, but after more steps than these.
    assert depth.best_test_time_steps(alpha=1.0, tau=30.0, steps=50).steps == math.inf
    assert depth.best_test_time_steps(alpha=4.0, tau=1.2, noise_variance=0.4).steps == 0
    with pytest.raises(ValueError, match="tau must be > 1"):
        depth.best_test_time_steps(alpha=1.0, tau=1.0)


@pytest.mark.parametrize(
    "point", [(4.0, 1.3, 0.0, 1.0), (0.5, 3.0, 0.0, 1.0), (0.4, 1.6, 0.1, 0.5)]
)
def test_growth_of_late_errors_by_the_cubics(point):
    """Rates of the documentation, one of which is of slow directions."""
    alpha, tau, noise, factor = point
    c = 1 / alpha
    gain = alpha / (alpha + 1 + noise)
    v = factor**2 * gain * (1 - gain) / (tau - 1)
    step = factor * gain

    def rate(sign):
        def cubic(y):
            return v * y**2 * (1 + c + sign * 2 * math.sqrt(c) * y) - c * step**2 * (1 - y**2)

        y = brentq(cubic, 1e-12, 1)
        return sign * (step * (1 + c + sign * math.sqrt(c) * (y + 1 / y)) - 1)

    names = ("alpha", "tau", "noise_variance", "dampening")
    errors = depth.test_time_errors(**dict(zip(names, point, strict=True)), steps=200)
    assert errors[-1] / errors[-2] == pytest.approx(max(rate(1), rate(-1)) ** 2, rel=0.01)
