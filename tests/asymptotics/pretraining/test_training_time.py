"""Errors at a time of training, by another contour, another path to the roots and sums."""

import math

import array_api_strict
import numpy as np
import pytest

from iclimit.asymptotics.pretraining import (
    icl_error,
    idg_error,
    optimal_ridge,
    optimal_stopping,
    training_errors,
)

# Printed reference values: times .1, .3, 1, 3, 10 and .2, 1, 5, 50.
EARLY = [0.1, 0.3, 1, 3, 10]
TIMES = [0.2, 1, 5, 50]

# The reference sums terms of up to 1e7 times the errors, in more than float64 where NumPy has it.
LONG = np.longdouble
REFERENCE = 1e-9 if np.finfo(LONG).eps < 1e-18 else 1e-6


PI = 4 * np.arctan(LONG(1))


def marchenko_pastur(kappa: float, count: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Gauss nodes and weights of the eigenvalues of the tasks, with the atom at 0."""
    if kappa == math.inf:
        return np.ones(1, LONG), np.ones(1, LONG)
    angle = PI * np.arange(1, count + 1, dtype=LONG) / (count + 1)
    y = 1 / LONG(kappa)
    x = 1 + y + 2 * np.sqrt(y) * np.cos(angle)
    weight = 2 / (count + 1) * np.sin(angle) ** 2 / x
    if kappa < 1:
        return np.append(x, 0.0), np.append(weight, 1 - kappa)
    return x, weight


def ridges_at(z, tau, r, weight):
    """Effective ridges at complex ridges, followed along rays from infinity."""
    xi = z * LONG(10) ** 8
    for scale in np.append(LONG(10) ** np.linspace(8, 0, 100, dtype=LONG)[1:], [LONG(1)] * 4):
        for _ in range(3):
            m = 1 / (r + xi[:, None])
            trace = m @ (weight * r)
            slope = m**2 @ (weight * r)
            gap = 1 - z * scale / xi - trace / tau
            xi = xi - gap / (z * scale / xi**2 + slope / tau)
    return xi


def reference_errors(*, time, tau, alpha, kappa, rho, ridge=0.0, start_variance=0.0):
    """The three errors from Talbot's contour and sums over the spectrum."""
    c, weight = marchenko_pastur(kappa)
    time, tau, rho, ridge = (LONG(number) for number in (time, tau, rho, ridge))
    q = (1 + rho) / LONG(alpha)
    r = c + q
    count = 22
    angle = (2 * np.arange(count // 2, dtype=LONG) + 1) * PI / count
    cotangent = 1 / np.tan(0.6407 * angle)
    # Weideman, SIAM J. Numer. Anal. 44, 2342 (2006).
    z = count / time * (-0.4814 + 0.6122 * angle * cotangent + 0.2645j * angle)
    slope = 0.6122 * cotangent - 0.6122 * 0.6407 * angle / np.sin(0.6407 * angle) ** 2 + 0.2645j
    factor = count / time * slope * np.exp(z * time) / (1j * count)
    xi = ridges_at(z + ridge, tau, r, weight)
    z = np.concatenate([z, z.conj()])
    xi = np.concatenate([xi, xi.conj()])
    factor = np.concatenate([factor, factor.conj()])
    m = 1 / (r + xi[:, None])
    overlap = {}
    for name, moment in (
        ("1", 1 + 0 * r),
        ("r", r),
        ("r2", r**2),
        ("c2", c**2),
        ("c2r", c**2 * r),
    ):
        overlap[name] = (m * weight * moment) @ m.T
    linear = m @ (weight * c**2)
    chi = overlap["r2"] / tau
    error = (1 + rho - linear[:, None] - linear[None, :] + overlap["c2r"]) / (1 - chi)
    plain = m @ (weight * c)
    fresh = 1 + rho - plain[:, None] - plain[None, :] + (1 + q) * overlap["c2"]
    forgotten = np.multiply.outer(xi / (z + ridge), xi / (z + ridge)) * start_variance
    seen = forgotten * overlap["r"] / (1 - chi)
    with_tests = overlap["1"] + overlap["r"] ** 2 / (tau * (1 - chi))
    of_start = np.multiply.outer(factor, factor)
    of_error = np.multiply.outer(factor / z, factor / z)
    share = np.multiply.outer((z + ridge) / xi, (z + ridge) / xi)
    icl = of_error * (fresh + (1 + q) * overlap["r"] / tau * error)
    icl = icl + of_start * forgotten * (1 + q) * with_tests
    idg = of_error * error + of_start * seen
    training = of_error * share * error + of_start * share * seen
    return [float(np.sum(part).real) for part in (icl, idg, training)]


def numbers(errors) -> list[float]:
    return [float(errors.icl), float(errors.idg), float(errors.training)]


@pytest.mark.parametrize(
    ("point", "times", "icl", "idg", "training"),
    [
        (
            {"tau": 2, "alpha": 1, "kappa": 0.5, "rho": 0.1},
            TIMES,
            [0.969811, 1.049725, 1.309029, 1.470956],
            [0.613651, 0.552554, 0.717071, 0.822451],
            [0.43478, 0.24856, 0.20891, 0.20563],
        ),
        (
            {"tau": 0.5, "alpha": 2, "kappa": 2, "rho": 0.3},
            TIMES,
            [1.186858, 1.350170, 1.661964, 1.731074],
            [1.101546, 1.230702, 1.521098, 1.585308],
            [0.36762, 0.05824, 0.00133, 0],
        ),
        (
            {"tau": 1.2, "alpha": 2, "kappa": 0.5, "rho": 0.1},
            EARLY,
            [0.9801, 0.9230, 0.9439, 1.0886, 1.465],
            [0.7284, 0.5159, 0.4439, 0.5121, 0.7112],
            None,
        ),
    ],
)
def test_values_found_by_others(point, times, icl, idg, training):
    errors = training_errors(time=times, **point)
    # The last printed digit.
    np.testing.assert_allclose(errors.icl, icl, atol=6e-5 if training is None else 2e-6)
    np.testing.assert_allclose(errors.idg, idg, atol=6e-5 if training is None else 2e-6)
    if training is not None:
        np.testing.assert_allclose(errors.training, training, atol=6e-6)


@pytest.mark.parametrize("seed", range(16))
def test_another_contour_and_sums_give_the_same(seed):
    rng = np.random.default_rng(seed)
    # Away from kappa = 1, where the sums over the spectrum converge slowly.
    kappa = 10 ** (rng.uniform(0.1, 2) * rng.choice([-0.5, 1]))
    point = {
        "time": 10 ** rng.uniform(-4, 6),
        "tau": 10 ** rng.uniform(-1.5, 2),
        "alpha": 10 ** rng.uniform(-1, 2),
        "kappa": kappa,
        "rho": rng.uniform(0, 2),
        "ridge": rng.choice([0.0, 0.01, 1.0]),
        "start_variance": rng.choice([0.0, 0.5]),
    }
    expected = reference_errors(**point)
    found = numbers(training_errors(**point))
    assert found == pytest.approx(expected, rel=REFERENCE, abs=1e-7)


def test_effective_ridges_that_a_guess_does_not_lead_to_are_followed():
    """Few tasks and long contexts: the spectrum is far from one eigenvalue."""
    point = {
        "time": [22.8, 0.2, 931.2, 39.5],
        "tau": [0.2495, 2, 1, 0.55],
        "kappa": [0.154, 0.5, 0.038, 0.0335],
    }
    plain = training_errors(**point, alpha=44.0, rho=0.1)
    arrays = {name: array_api_strict.asarray(values) for name, values in point.items()}
    alike = training_errors(**arrays, alpha=44.0, rho=0.1)
    for name in ("icl", "idg", "training"):
        np.testing.assert_allclose(np.asarray(getattr(alike, name)), getattr(plain, name), 1e-11)
    for number in range(4):
        chosen = {name: values[number] for name, values in point.items()}
        expected = reference_errors(**chosen, alpha=44.0, rho=0.1)
        found = [plain.icl[number], plain.idg[number], plain.training[number]]
        # The reference is off by 6e-9 at the first point, where 16 nodes for 12 change 5e-11.
        assert found == pytest.approx(expected, rel=max(REFERENCE, 1e-8))


def test_start_is_the_null_predictor_and_a_random_one_adds_its_norm():
    point = {"tau": [0.5, 2], "alpha": 2.0, "kappa": 0.5, "rho": 0.1}
    for errors in (training_errors(time=0, **point), training_errors(time=1e-12, **point)):
        for name in ("icl", "idg", "training"):
            np.testing.assert_allclose(getattr(errors, name), 1.1, rtol=1e-9)
    # Features have the mean square 1 + q, with q = .55.
    started = training_errors(time=0, start_variance=0.4, **point)
    np.testing.assert_allclose(started.icl, 1.1 + 0.4 * 1.55)
    np.testing.assert_allclose(started.idg, 1.1 + 0.4 * 1.55)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_end_is_ridge_regression(ridge):
    point = {"tau": np.array([0.3, 0.8, 1.5, 6, math.inf]), "alpha": 1, "kappa": 0.5, "rho": 0.2}
    for time in (math.inf, 1e9):
        errors = training_errors(time=time, ridge=ridge, **point)
        np.testing.assert_allclose(errors.icl, icl_error(ridge=ridge, **point), rtol=1e-8)
        np.testing.assert_allclose(errors.idg, idg_error(ridge=ridge, **point), rtol=1e-8)
    assert ridge or errors.training[0] < 1e-12


def test_the_threshold_is_infinite_only_without_stopping_and_ridge():
    point = {"tau": 1, "alpha": 1, "kappa": 0.5, "rho": 0.2}
    assert training_errors(time=math.inf, **point).icl == math.inf
    assert training_errors(time=math.inf, **point).training == 0
    later = training_errors(time=[1e4, 1e6], **point).icl
    # The error of a threshold grows as the root of the time.
    assert later[1] / later[0] == pytest.approx(10, rel=0.02)


def test_the_training_loss_falls_at_the_rate_of_the_gradient():
    """At first it falls by twice the squared norm of b/sqrt(d), which moments of prompts give."""
    tau, alpha, kappa, rho = 2.0, 1.0, 0.5, 0.1
    fall = training_errors(time=1e-4, tau=tau, alpha=alpha, kappa=kappa, rho=rho).training - 1.1
    # |b|^2/d = sum over tasks <c^2> = 1 + 1/kappa, and noise (1 + rho)(1 + q)/tau.
    gradient = 1 + 1 / kappa + (1 + rho) * (1 + (1 + rho) / alpha) / tau
    assert fall / -1e-4 == pytest.approx(2 * gradient, rel=1e-3)


def test_arrays_of_the_standard_are_taken():
    point = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1, "ridge": 0.1}
    times = [0.0, 0.5, 3.0, math.inf]
    found = training_errors(time=array_api_strict.asarray(times), start_variance=0.2, **point)
    plain = training_errors(time=times, start_variance=0.2, **point)
    assert isinstance(found.icl, type(array_api_strict.asarray(0.0)))
    np.testing.assert_allclose(np.asarray(found.icl), plain.icl, rtol=1e-12)


def test_no_points_have_no_errors():
    assert training_errors(time=[], tau=2.0, alpha=1.0, kappa=0.5, rho=0.1).icl.shape == (0,)


def test_many_points_are_those_of_single_ones():
    taus = np.geomspace(0.1, 10, 300)
    times = np.array([[0.2], [math.inf]])
    point = {"alpha": 1.0, "kappa": 0.5, "rho": 0.1}
    errors = training_errors(time=times, tau=taus, **point)
    assert errors.icl.shape == (2, 300)
    for row, column in ((0, 7), (1, 290)):
        alone = training_errors(time=times[row, 0], tau=taus[column], **point)
        assert errors.icl[row, column] == pytest.approx(alone.icl, rel=1e-12)


def test_bad_input_is_named():
    import mpmath

    point = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}
    with pytest.raises(ValueError, match="time must be >= 0, or inf, got -1"):
        training_errors(time=-1, **point)
    with pytest.raises(ValueError, match="start_variance must be from 0 to "):
        training_errors(time=1, start_variance=-0.1, **point)
    with pytest.raises(ValueError, match="alpha must be finite where time is inf"):
        training_errors(time=math.inf, **point | {"alpha": math.inf})
    with pytest.raises(TypeError, match="time must be a number or an array"):
        training_errors(time=mpmath.mpf(1), **point)
    with pytest.raises(ValueError, match="objective must be"):
        optimal_stopping(objective="train", **point)


# tau, alpha, kappa, rho; time and error of the best stopping for icl and idg.
STOPPED = [
    (2, 1, 0.5, 0.1, 0.235, 0.96881, 0.571, 0.53499),
    (0.5, 1, 0.5, 0.1, 0.103, 1.03194, 0.304, 0.74581),
    (4, 2, 1, 0.05, 1.829, 0.67060, 1.496, 0.37384),
    (1, 2, 2, 0.3, 0.334, 1.11117, 0.420, 0.98552),
    (1, 1, math.inf, 0.1, 0.257, 0.94230, 0.257, 0.94230),
    (1, 10, 0.5, 0.01, 3.109, 0.63816, 5.229, 0.10946),
    (10, 1, 0.5, 0.1, 0.383, 0.92700, 0.896, 0.44114),
    (2, 10, 0.3, 0.01, 1.728, 0.74952, 3.152, 0.04744),
]


def test_best_stopping_is_that_of_others():
    tau, alpha, kappa, rho, *expected = np.array(STOPPED).T
    point = {"tau": tau, "alpha": alpha, "kappa": kappa, "rho": rho}
    icl = optimal_stopping(**point)
    idg = optimal_stopping(objective="idg", **point)
    found = (icl.time, icl.error, idg.time, idg.error)
    for values, printed, digit in zip(found, expected, (1e-3, 1e-5, 1e-3, 1e-5), strict=True):
        np.testing.assert_allclose(values, printed, atol=0.6 * digit)
    # Within 1 % of the best ridge for fresh tasks, and up to 7 % better for those of training.
    ratios = icl.error / optimal_ridge(**point).error
    assert np.all(np.abs(ratios - 1) < 0.01)
    ratios = idg.error / optimal_ridge(objective="idg", **point).error
    assert 0.93 < np.min(ratios) < 0.94
    assert np.max(ratios) < 1.003


def test_nothing_is_stopped_where_training_only_helps_or_only_harms():
    endless = optimal_stopping(tau=1e4, alpha=2, kappa=math.inf, rho=0.0, objective="idg")
    decayed = optimal_stopping(tau=2, alpha=1, kappa=0.5, rho=0.1, ridge=100.0)
    assert decayed.time == math.inf
    expected = icl_error(tau=2, alpha=1, kappa=0.5, rho=0.1, ridge=100.0)
    assert decayed.error == pytest.approx(expected, rel=1e-12)
    assert endless.error <= idg_error(tau=1e4, alpha=2, kappa=math.inf, rho=0.0)
