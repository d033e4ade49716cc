"""The drop of merged attention against the flow of all its weights and high precision."""

import itertools

import array_api_strict
import mpmath
import numpy as np
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from refusals import refuse
from scipy.integrate import solve_ivp

from iclimit.asymptotics.dynamics import (
    effective_init_scale,
    effective_init_scale_moments,
    merged_attention_curve,
    merged_attention_drop,
    merged_attention_loss,
    merged_curve_drop_time,
    merged_drop_time,
)

# Float64 against 50 digits: the exponent of tiny starts carries most of it; measured 7e-14.
FLOAT64 = 1e-12
# The promise of the integrated curve; measured worst 3e-10, for a context of 10,000.
CURVE = 1e-9
# An integration of all weights with tolerance 1e-11.
FULL_FLOW = 1e-8
# Weights of a random start that do not grow stay: an error of the order of the start; measured
# up to 0.3 times it.
RANDOM_START = 1.0
# Largest z-score among a dozen of a random sample.
Z = 4.0

SPECTRUM = np.array([1.0, 0.7, 0.45, 0.25])


def second_moment(lam, N, noise):
    """Second moment of beta over pairs of context tokens: equal ones (Wick) and others."""
    D = len(lam)
    L = np.diag(lam)
    equal = np.zeros((D, D))
    for i, j, k, m in itertools.product(range(D), repeat=4):
        if k == m:  # E w_k w_m
            wick = L[i, j] * L[k, m] + L[i, k] * L[j, m] + L[i, m] * L[j, k]
            equal[i, j] += wick
    return (equal + noise * L + (N - 1) * L @ L) / N


def full_flow(v, U, lam, N, noise, times):
    """Loss along the flow of all weights of merged attention."""
    H = len(v)
    D = len(lam)
    L = np.diag(lam)
    B = second_moment(lam, N, noise)

    def loss(y):
        M = np.einsum("h,hij->ij", y[:H], y[H:].reshape(H, D, D))
        return float(np.trace(L) + noise - 2 * np.trace(L @ L @ M) + np.trace(M.T @ B @ M @ L))

    def derivative(_, y):
        v = y[:H]
        U = y[H:].reshape(H, D, D)
        R = L @ L - B @ np.einsum("h,hij->ij", v, U) @ L
        return np.concatenate([np.einsum("ij,hij->h", R, U), np.outer(v, R).ravel()])

    start = np.concatenate([v, U.ravel()])
    run = solve_ivp(
        derivative, (0, times[-1]), start, method="DOP853", t_eval=times, rtol=1e-11, atol=1e-14
    )
    return np.array([loss(y) for y in run.y.T])


@pytest.mark.parametrize(
    ("variance", "noise", "scale"), [(1, 0, 0.1), (0.6, 0.5, 1e-3), (2, 1, 0.7)]
)
def test_white_loss_is_that_of_all_weights(variance, noise, scale):
    D = 4
    N = 31
    head = np.array([1.0, -2.0, 2.0]) / 3
    v = scale * head
    U = scale * np.einsum("h,ij->hij", head, np.eye(D)) / np.sqrt(D)
    times = np.linspace(0, 20, 21) / (np.sqrt(D) * variance**2)
    flow = full_flow(v, U, variance * np.ones(D), N, noise, times)
    loss = merged_attention_loss(
        times, dim=D, context=N, init_scale=scale, input_variance=variance, noise_variance=noise
    )
    assert np.max(np.abs(loss / flow - 1)) < FULL_FLOW


def test_equation_10_of_the_paper():
    t, D, N, w = sympy.symbols("t D N w", positive=True)
    A = 1 + (1 + D) / N
    E = 2 * sympy.sqrt(D) * t
    sigma = sympy.exp(E) / (A * (sympy.exp(E) - 1) + sympy.sqrt(D) / w**2)
    paper = D * (1 - 2 * sigma + A * sigma**2)
    loss = merged_attention_loss(t, dim=D, context=N, init_scale=w, input_variance=1)
    assert sympy.simplify(loss - paper) == 0
    end = merged_attention_loss(sympy.oo, dim=D, context=N, init_scale=w, input_variance=1)
    assert sympy.simplify(end - D * (1 - 1 / A)) == 0
    half = merged_drop_time(sympy.Rational(1, 2), dim=4, context=31, init_scale=w)
    reached = merged_attention_loss(half, dim=4, context=31, init_scale=w).subs(w, 0.1)
    end = merged_attention_loss(sympy.oo, dim=4, context=31, init_scale=w)
    assert abs(reached - (4 + end) / 2) < FLOAT64


GRID = [
    {"dim": D, "context": N, "init_scale": w, "input_variance": lam, "noise_variance": noise}
    for D, N, w, lam, noise in itertools.product(
        [1, 7, 1e6], [1, 30, 1e9], [1e-100, 1e-12, 0.01, 1.0], [1e-3, 1, 30], [0, 1e-9, 2.5]
    )
]


def test_float64_within_the_promise():
    worst_drop = 0.0
    worst_loss = 0.0
    for setting in GRID:
        exact = {name: mpmath.mpf(value) for name, value in setting.items()}
        unit = 2 * np.sqrt(setting["dim"]) * setting["input_variance"] ** 2
        # Starts near the end of a long noiseless context, as the docstring says.
        promise = max(1.0, 1e-3 * np.sqrt(setting["context"]))
        with mpmath.workdps(50):
            drops = []
            for part in (1e-6, 0.5, 0.999):
                try:
                    drop = merged_drop_time(part, **setting)
                except ValueError:
                    continue
                truth = merged_drop_time(mpmath.mpf(part), **exact)
                worst_drop = max(worst_drop, float(abs(drop - truth) / (truth + 1 / unit)))
                drops.append(float(drop))
            times = [0.0, 1e-300, *drops, *(1 / unit * k for k in (1e-9, 1, 20, 800)), np.inf]
            loss = merged_attention_loss(times, **setting)
            for time, value in zip(times, loss, strict=True):
                truth = merged_attention_loss(mpmath.mpf(time), **exact)
                worst_loss = max(worst_loss, float(abs(value / truth - 1)) / promise)
    assert worst_drop < FLOAT64
    assert worst_loss < FLOAT64


@given(
    st.floats(1, 50),
    st.floats(1, 1000),
    st.floats(1e-9, 0.01),
    st.floats(0.1, 3),
    st.floats(0, 5),
    st.floats(0.05, 0.95),
)
def test_drop_time_inverts_the_loss(D, N, w, lam, noise, part):
    setting = {"dim": D, "context": N, "init_scale": w}
    setting |= {"input_variance": lam, "noise_variance": noise}
    end = merged_attention_loss(np.inf, **setting)
    drop = merged_drop_time(part, **setting)
    zero = D * lam + noise
    assert merged_attention_loss(drop, **setting) == pytest.approx(zero - part * (zero - end))
    assert merged_attention_loss(1.01 * drop, **setting) < merged_attention_loss(drop, **setting)
    assert merged_drop_time(part, **(setting | {"init_scale": w / 2})) > drop


def test_extreme_variances():
    start = {"context": 10, "init_scale": 0.1}
    with mpmath.workdps(50):
        exact = merged_attention_loss(mpmath.mpf(0), noise_variance=1e300, dim=2, **start)
    loss = merged_attention_loss(0, noise_variance=1e300, dim=2, **start)
    assert abs(loss / exact - 1) < FLOAT64
    refuse("drop time must be finite", merged_drop_time, input_variance=1e-200, dim=2, **start)
    for size in (1e-200, 1e200):
        refuse("largest of eigenvalues", merged_curve_drop_time, eigenvalues=[size], **start)
    noisy = {"eigenvalues": [1, 1], "noise_variance": 1e300}
    refuse("too far beyond", merged_attention_curve, 1, **noisy, **start)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e-2, 1.0, 3.0])
@pytest.mark.parametrize(("N", "noise"), [(31, 0.3), (1e4, 0)])
def test_curve_is_the_white_formula_for_equal_eigenvalues(scale, N, noise):
    D = 5
    lam = 0.8
    setting = {"context": N, "init_scale": scale, "noise_variance": noise}
    times = np.array([[np.inf, 1.0, 0.0], [30.0, 1e9, 12.0], [8.0, 23.7, 1.0]])
    curve = merged_attention_curve(times, eigenvalues=lam * np.ones(D), **setting)
    white = merged_attention_loss(times, dim=D, input_variance=lam, **setting)
    assert curve.shape == times.shape
    assert np.max(np.abs(curve / white - 1)) < CURVE
    if scale < 1:
        for part in (1e-20, 0.2, 0.9, 1 - 1e-9):
            if part < 0.1 and scale > 1e-11:
                continue
            drop = merged_curve_drop_time(part, eigenvalues=lam * np.ones(D), **setting)
            truth = merged_drop_time(part, dim=D, input_variance=lam, **setting)
            assert drop == pytest.approx(truth, rel=CURVE)


def logarithmic_flow(lam, N, noise, scale, times):
    """Loss by another integrator in other variables: logarithms of w and of every b."""
    c = 1 + (1 + (lam.sum() + noise) / lam) / N

    def derivative(_, y):
        w = np.exp(y[0])
        b = np.exp(y[1:])
        force = lam**2 - w * lam**3 * c * b
        return np.concatenate([[np.sum(b * force) / w], w * force / b])

    start = np.log(scale * np.append(1.0, lam**2 / np.linalg.norm(lam**2)))
    run = solve_ivp(
        derivative, (0, times[-1]), start, method="DOP853", t_eval=times, rtol=1e-13, atol=1e-13
    )
    w = np.exp(run.y[0])
    b = np.exp(run.y[1:]).T
    loss = noise + lam.sum() - 2 * w * (b @ lam**2) + w**2 * (b**2 @ (lam**3 * c))
    return np.asarray(loss)


def test_curve_against_another_integration():
    for scale in (1e-12, 1e-3, 1.0):
        lam = np.array([1.3, 0.9, 0.9, 0.1])
        setting = {"eigenvalues": lam, "context": 50, "init_scale": scale, "noise_variance": 0.2}
        drop = 1.0 if scale == 1 else merged_curve_drop_time(**setting)
        times = drop * np.array([0.5, 0.9, 0.98, 1, 1.02, 1.1, 1.5, 3, 10])
        curve = merged_attention_curve(times, **setting)
        other = logarithmic_flow(lam, 50, 0.2, scale, times)
        assert np.max(np.abs(curve / other - 1)) < CURVE


def test_ill_conditioned_covariance_and_late_times():
    """Directions are learned for ever longer; a zero eigenvalue changes nothing."""
    lam = np.array([1.0, 1e-2, 1e-4])
    setting = {"context": 100, "init_scale": 1e-8}
    times = np.append(np.logspace(1, 14, 27), [1e30, 1e200, 1e308])
    curve = merged_attention_curve(times, eigenvalues=lam, **setting)
    assert np.all(np.diff(curve) <= 1e-15)
    end = merged_attention_curve(np.inf, eigenvalues=lam, **setting)
    assert curve[-1] == pytest.approx(end, rel=CURVE)
    assert merged_attention_curve(40.0, eigenvalues=lam, **setting) > 1.1 * end
    more = merged_attention_curve(times, eigenvalues=[*lam, 0.0], **setting)
    assert np.max(np.abs(more / curve - 1)) < CURVE
    # Scaling of all eigenvalues is a change of units.
    other = merged_attention_curve(
        times / 9, eigenvalues=3 * lam, context=100, init_scale=1e-8 / np.sqrt(3)
    )
    assert np.max(np.abs(other / (3 * curve) - 1)) < CURVE


@pytest.mark.parametrize("size", [1e-3, 1e-5])
def test_random_starts_follow_their_effective_scale(size):
    H = 5
    D = 4
    N = 31
    noise = 0.2
    rng = np.random.default_rng(7)
    v = size * rng.standard_normal(H)
    U = size * rng.standard_normal((H, D, D))
    scale = float(effective_init_scale(v, key_query=U, eigenvalues=SPECTRUM))
    setting = {"context": N, "init_scale": scale, "noise_variance": noise}
    drop = merged_curve_drop_time(eigenvalues=SPECTRUM, **setting)
    times = drop * np.array([0.9, 1.0, 1.1, 1.6])
    flow = full_flow(v, U, SPECTRUM, N, noise, times)
    curve = merged_attention_curve(times, eigenvalues=SPECTRUM, **setting)
    assert np.max(np.abs(curve / flow - 1)) < RANDOM_START * size


def test_law_of_the_effective_scale():
    for heads in (1, 2, 8):
        samples = 40_000
        rng = np.random.default_rng(heads)
        v = rng.standard_normal((samples, heads))
        U = rng.standard_normal((samples, heads, 3, 3))
        lam = np.array([0.3, 2.0, 1.1])
        log = np.log(effective_init_scale(v, key_query=U, eigenvalues=lam))
        law = effective_init_scale_moments(heads)
        deviations = log - law.mean
        assert abs(np.mean(deviations)) < Z * np.std(log) / np.sqrt(samples)
        squares = deviations**2
        assert abs(np.mean(squares) - law.std**2) < Z * np.std(squares) / np.sqrt(samples)


def test_drop_times_of_small_starts_shift_by_the_logarithm():
    scales = np.array([1e-10, 1e-9, 3e-8])
    drops = [
        merged_curve_drop_time(0.7, eigenvalues=SPECTRUM, context=31, init_scale=w) for w in scales
    ]
    law = np.array(drops) + np.log(scales) / np.linalg.norm(SPECTRUM**2)
    assert np.ptp(law) < CURVE * max(drops)


def test_the_drop_has_the_loss_and_the_spread_of_random_starts():
    """Its curve is half-way down at its time; drop times of seeds scatter as it says."""
    law = {"eigenvalues": np.array([0.6, 0.4]), "context": 9}
    drop = merged_attention_drop(heads=5, init_scale=1e-5, **law)
    assert drop.losses == pytest.approx(drop.loss([0, np.inf]), rel=1e-6)
    assert drop.loss(drop.drop_times) == pytest.approx(drop.losses.mean(), rel=1e-9)
    generator = np.random.default_rng(0)
    times = []
    for _ in range(100):
        v = 1e-5 * generator.standard_normal(5)
        U = 1e-5 * generator.standard_normal((5, 2, 2))
        scale = effective_init_scale(v, key_query=U, eigenvalues=law["eigenvalues"])
        own = merged_attention_drop(init_scale=float(scale), **law)
        assert own.std_over_seeds == 0
        times.append(own.drop_times[0])
    assert np.mean(times) == pytest.approx(drop.drop_times[0], abs=4 * drop.std_over_seeds / 10)
    assert np.std(times) == pytest.approx(drop.std_over_seeds, rel=4 / np.sqrt(200))
    message = "the loss at the start is near 1, got 2.0"
    refuse(message, merged_attention_drop, heads=5, init_scale=2.0, **law)


def test_moments_in_all_number_systems():
    heads = np.array([1.0, 2.0, 3.0, 64.0, 1e6])
    law = effective_init_scale_moments(heads)
    strict = effective_init_scale_moments(array_api_strict.asarray(heads))
    assert np.array_equal(np.asarray(strict.mean), law.mean)
    with mpmath.workdps(50):
        for k, H in enumerate(heads):
            h = mpmath.mpf(H) / 2
            s = mpmath.mpf("1e-15")
            # Cumulants from the generating function ln E z^x = ln Gamma(h + x) - ln Gamma(h).
            up, down, mid = (mpmath.loggamma(h + x) for x in (s, -s, 0))
            exact = effective_init_scale_moments(mpmath.mpf(H))
            assert abs((up - down) / (4 * s) - exact.mean) < 1e-28
            assert abs((up + down - 2 * mid) / (4 * s**2) - exact.std**2) < 1e-15
            assert abs(law.mean[k] / exact.mean - 1) < FLOAT64
            assert abs(law.std[k] / exact.std - 1) < FLOAT64
    h = sympy.Symbol("h", positive=True)
    assert effective_init_scale_moments(h).mean == sympy.polygamma(0, h / 2) / 2


def test_effective_scale_of_the_smallest_weights():
    for value, scale in (([3e-200, 4e-200], 2.5e-200), ([0.0, 0.0], 0.0)):
        start = effective_init_scale(value, key_query=np.zeros((2, 1, 1)), eigenvalues=[1e-200])
        assert start == pytest.approx(scale, abs=0)
