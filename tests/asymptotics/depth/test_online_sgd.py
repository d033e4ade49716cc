"""Online SGD of one layer: many digits, the recursion by hand, sampled training."""

import mpmath
import numpy as np
import pytest
import sympy

from iclimit.asymptotics.depth import OnlineErrors, online_sgd_errors

SETTING = {"alpha": 1.0, "learning_rate": 0.06, "batch_ratio": 1.0, "query_ratio": 1.0}
# Rounding, over rates of 1e-9 to 1.
ROUNDING = 1e-12
# Standard errors that the worst of the simulated numbers may lie off.
SIGMAS = 4.0


def simulated(dim, steps, repeats, noise, query_noise):
    """Loss and distance after SGD with alpha = tau = kappa = 1; mean and standard error."""
    rng = np.random.default_rng(dim)
    found = []
    best = 1 / (1 + 1 + noise)
    for _ in range(repeats):
        gamma = np.zeros((dim, dim))
        for _ in range(steps):
            X, Q = rng.standard_normal((2, dim, dim, dim))
            task = rng.standard_normal((dim, dim, 1))
            labels = X @ task + np.sqrt(noise * dim) * rng.standard_normal(task.shape)
            h = np.swapaxes(X, 1, 2) @ labels / dim
            miss = Q @ (gamma @ h - task)
            miss += np.sqrt(query_noise * dim) * rng.standard_normal(miss.shape)
            pull = np.swapaxes(Q, 1, 2) @ miss / dim
            gamma -= 0.06 * (pull @ np.swapaxes(h, 1, 2)).mean(axis=0)
        trace = np.trace(gamma) / dim
        square = np.sum(gamma**2) / dim
        # Exact second moment of h at this dimension.
        moment = 1 + (dim + 1) / dim + noise
        found.append((1 - 2 * trace + moment * square, square - 2 * best * trace + best**2))
    values = np.array(found)
    return np.stack([values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(repeats)])


def test_training_by_sgd():
    """Extrapolated in 1/d from two sizes, with noisy labels of context and queries."""
    theory = online_sgd_errors(steps=12, noise_variance=0.5, query_noise_variance=0.4, **SETTING)
    small, large = (simulated(d, 12, n, 0.5, 0.4) for d, n in ((8, 400), (16, 120)))
    value = 2 * large[0] - small[0]
    error = np.hypot(2 * large[1], small[1])
    assert np.all(error < 0.05 * value)
    assert np.all(abs(value - [theory.loss, theory.distance]) < SIGMAS * error)


@pytest.mark.parametrize("queries", [0.5, 2.0])
def test_a_step_that_follows_noise_of_the_query_labels(queries):
    """One step on dim contexts, by sampling; what is not this noise is 1e-4 of the distance."""
    dim = 24
    noise = 0.5
    level = 1e4
    distances = []
    rng = np.random.default_rng(3)
    for _ in range(20):
        X = rng.standard_normal((dim, dim, dim))
        task = rng.standard_normal((dim, dim, 1))
        labels = X @ task + np.sqrt(noise * dim) * rng.standard_normal(task.shape)
        h = np.swapaxes(X, 1, 2) @ labels / dim
        Q = rng.standard_normal((dim, int(queries * dim), dim))
        pull = np.swapaxes(Q, 1, 2) @ rng.standard_normal((*Q.shape[:2], 1)) / Q.shape[1]
        step = 0.06 * np.sqrt(level * dim) * np.mean(pull @ np.swapaxes(h, 1, 2), axis=0)
        distances.append(np.sum(step**2) / dim)
    setting = SETTING | {"query_ratio": queries, "query_noise_variance": level}
    theory = online_sgd_errors(steps=1, noise_variance=noise, **setting)
    error = np.std(distances) / np.sqrt(len(distances))
    assert error < 0.05 * theory.distance
    # At this dimension the variance of h is larger by 1/(2.5 dim).
    assert abs(np.mean(distances) - theory.distance) < SIGMAS * error


def test_published_numbers_of_the_recursion():
    """The recursion by hand, and the loss by its definition from trace and square."""
    A = 2.5
    eta = 0.06
    floor = []
    C = 1 / A**2
    m = 0.0
    for _ in range(25):
        a = (1 - eta * A) ** 2 + 2 * eta**2 * A**2
        b = 2 * eta**2 * (A - 1)
        C = a * C + b
        m = m + eta * (1 - A * m)
        floor.append(b / (1 - a))
    square = C + 2 * m / A - 1 / A**2
    found = online_sgd_errors(steps=25, noise_variance=0.5, **SETTING)
    assert found.distance == pytest.approx(C, rel=ROUNDING)
    assert found.loss == pytest.approx(1 - 2 * m + A * square, rel=ROUNDING)
    assert found.long_context_loss == pytest.approx(1 - 2 * m + square, rel=ROUNDING)
    last = online_sgd_errors(steps=np.inf, noise_variance=0.5, **SETTING)
    assert last.distance == pytest.approx(floor[-1], rel=ROUNDING)


@pytest.mark.parametrize("rate", [1e-9, 1e-3, 0.2])
@pytest.mark.parametrize("steps", [0, 1, 1000])
def test_many_digits(rate, steps):
    setting = {"alpha": 0.3, "batch_ratio": 4.0, "query_ratio": 0.5, "noise_variance": 0.1}
    found = online_sgd_errors(steps=steps, learning_rate=rate, **setting)
    with mpmath.workdps(50):
        named = {name: mpmath.mpf(value) for name, value in setting.items()}
        exact = online_sgd_errors(steps=steps, learning_rate=mpmath.mpf(rate), **named)
        for name in OnlineErrors.__annotations__:
            value = getattr(found, name)
            truth = getattr(exact, name)
            assert abs(float(value / truth) - 1) < ROUNDING, name


def test_start_edges_and_symbols():
    start = online_sgd_errors(steps=0, noise_variance=0.3, **SETTING)
    assert (start.loss, start.long_context_loss) == pytest.approx((1.0, 1.0), rel=ROUNDING)
    wild = online_sgd_errors(steps=np.array([1, np.inf]), **(SETTING | {"learning_rate": 2.0}))
    assert np.isinf(wild.loss[1])
    assert np.isfinite(wild.loss[0])
    assert wild.contraction > 1
    t, alpha = sympy.symbols("t alpha", positive=True)
    exact = online_sgd_errors(
        steps=t, alpha=alpha, learning_rate=sympy.Rational(3, 50), batch_ratio=1, query_ratio=1
    )
    value = exact.loss.subs({t: 30, alpha: 1}).evalf()
    expected = float(online_sgd_errors(steps=30, **SETTING).loss)
    assert float(value) == pytest.approx(expected, rel=ROUNDING)
    for wrong in (2.5, np.array([1, 2.5]), mpmath.mpf("2.5"), sympy.Rational(5, 2)):
        with pytest.raises(ValueError, match=r"steps must be an integer >= 0, or inf, got [25]"):
            online_sgd_errors(steps=wrong, **SETTING)
