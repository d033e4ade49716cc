"""Alignment measures against matrices; optima and slopes against search and differences."""

import dataclasses
import itertools

import numpy as np
import pytest
from stationary import assert_least

from iclimit.asymptotics.pretraining import (
    best_test_covariance,
    best_training_covariance,
    cka,
    direction_slopes,
    diversity_slope,
    resolvent_alignment,
    structured_errors,
    trace_ratio,
    worst_test_covariance,
)
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum
from iclimit.asymptotics.spectra import wishart_resolvent


def spectrum_of(task, test, inputs, weight):
    return JointSpectrum(*(np.array(values) for values in (task, test, inputs, weight)))


SPECTRUM = spectrum_of(
    task=[1.8, 1.1, 0.7, 0.2],
    test=[0.4, 1.5, 0.3, 1.2],
    inputs=[0.5, 1.4, 0.5, 1.0],
    weight=[0.25, 0.25, 0.25, 0.25],
)
ISOTROPIC_INPUTS = dataclasses.replace(SPECTRUM, inputs=np.ones(4))
SETTINGS = [
    {"tau": 0.5, "alpha": 1.5, "kappa": 0.7, "rho": 0.1, "ridge": 0.0},
    {"tau": 2.0, "alpha": 1.5, "kappa": 0.7, "rho": 0.1, "ridge": 0.0},
    {"tau": 0.8, "alpha": 3.0, "kappa": 1.5, "rho": 0.3, "ridge": 0.1},
    {"tau": np.inf, "alpha": 3.0, "kappa": 1.5, "rho": 0.3, "ridge": 0.1},
]
TESTS = {"test_alpha": 2.5, "test_rho": 0.4}
EXACT = 1e-12
# Of a four-point difference of step 1e-3 relative; measured 1e-9.
DIFFERENCE = 1e-7


def icl(spectrum, **setting):
    return float(structured_errors(spectrum=spectrum, **setting).icl)


def derivative(function, x):
    h = 1e-3 * x
    near, far = (function(x + s) - function(x - s) for s in (h, 2 * h))
    return (8 * near - far) / (12 * h)


def test_measures_of_matrices():
    rng = np.random.default_rng(0)
    C = np.diag(rng.uniform(0.5, 2, 30))
    C_test = np.diag(rng.uniform(0.5, 2, 30))
    spectrum = JointSpectrum.of_matrices(C, C_test)
    expected = np.trace(C_test @ np.linalg.inv(C)) / 30
    assert trace_ratio(spectrum) == pytest.approx(expected, rel=EXACT)
    sizes = np.linalg.norm(C) * np.linalg.norm(C_test)
    assert cka(spectrum) == pytest.approx(np.trace(C @ C_test) / sizes, rel=EXACT)


def test_measures_of_tests_as_in_training():
    spectrum = JointSpectrum.of_matrices([2.0, 1.0, 0.3])
    assert (trace_ratio(spectrum), cka(spectrum)) == pytest.approx((1, 1), rel=EXACT)


def test_measures_where_nothing_was_trained():
    assert trace_ratio(JointSpectrum.of_matrices([2.0, 0.0], [1.0, 1.0])) == np.inf
    assert trace_ratio(JointSpectrum.of_matrices([2.0, 0.0], [1.0, 0.0])) == 0.25
    with pytest.raises(ValueError, match="test must have a positive eigenvalue"):
        cka(JointSpectrum.of_matrices([2.0, 0.0], [0.0, 0.0]))


def test_resolvent_alignment_of_isotropic_tasks_is_the_resolvent():
    options = {"tau": 2.0, "alpha": [1.0, 4.0], "kappa": [[0.5], [2.0]]}
    found = resolvent_alignment(**options, rho=0.1, spectrum=JointSpectrum.of_matrices([1]))
    expected = wishart_resolvent(1.1 / np.array([1.0, 4.0]), kappa=np.array([[0.5], [2.0]]))
    np.testing.assert_allclose(found, expected, rtol=EXACT)


def test_resolvent_alignment_is_a_mean_resolvent_of_drawn_tasks():
    d = 400
    k = 300
    C = np.linspace(0.1, 1.9, d)
    C_test = np.linspace(2, 0, d)
    tasks = np.random.default_rng(0).standard_normal((k, d)) * np.sqrt(C)
    nu = (np.mean(C) + 0.1) / 2
    drawn = np.trace(np.diag(C_test) @ np.linalg.inv(tasks.T @ tasks / k + nu * np.eye(d))) / d
    found = resolvent_alignment(
        tau=2.0, alpha=2.0, kappa=k / d, rho=0.1, spectrum=JointSpectrum.of_matrices(C, C_test)
    )
    # One draw: fluctuations of order 1/d.
    assert float(found) == pytest.approx(drawn, rel=0.01)


def test_error_is_affine_in_the_test_covariance():
    for spectrum, setting in itertools.product([SPECTRUM, ISOTROPIC_INPUTS], SETTINGS):
        slopes = direction_slopes(spectrum=spectrum, **setting, test_alpha=2.5)
        assert np.all(slopes > 0)
        other = np.array([2.0, 0.0, 0.1, 1.0])
        base, changed = (
            icl(dataclasses.replace(spectrum, test=test), **setting, **TESTS)
            for test in (spectrum.test, other)
        )
        expected = (spectrum.weight * (other - spectrum.test)) @ slopes
        assert changed - base == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("setting", SETTINGS)
def test_best_test_covariances(setting):
    setting = setting | TESTS
    trace = SPECTRUM.weight @ SPECTRUM.test
    at_trace = best_test_covariance(spectrum=SPECTRUM, **setting)
    assert at_trace.spectrum.weight @ at_trace.spectrum.test == pytest.approx(trace, rel=EXACT)
    permuted = best_test_covariance(spectrum=SPECTRUM, **setting, fixed="spectrum")
    assert sorted(permuted.spectrum.test) == pytest.approx(sorted(SPECTRUM.test), rel=EXACT)
    every = [
        icl(dataclasses.replace(SPECTRUM, test=np.array(test)), **setting)
        for test in itertools.permutations(SPECTRUM.test)
    ]
    assert permuted.icl == pytest.approx(min(every), rel=EXACT)
    assert at_trace.icl < permuted.icl
    alone = [
        icl(dataclasses.replace(SPECTRUM, test=trace / weight * row), **setting)
        for weight, row in zip(SPECTRUM.weight, np.eye(4), strict=True)
    ]
    assert at_trace.icl == pytest.approx(min(alone), rel=EXACT)
    worst = worst_test_covariance(spectrum=SPECTRUM, **setting)
    ordered = worst_test_covariance(spectrum=SPECTRUM, **setting, fixed="spectrum")
    assert ordered.icl == pytest.approx(max(every), rel=EXACT)
    assert worst.icl > ordered.icl
    for share in np.random.default_rng(0).dirichlet(np.full(4, 0.3), size=50):
        test = trace * share / SPECTRUM.weight
        assert at_trace.icl < icl(dataclasses.replace(SPECTRUM, test=test), **setting) < worst.icl


def test_best_pairing_splits_atoms_of_unequal_weight():
    spectrum = spectrum_of([2.0, 0.5], [0.2, 1.0], [1.0, 1.0], [0.3, 0.7])
    best = best_test_covariance(spectrum=spectrum, **SETTINGS[0], fixed="spectrum").spectrum
    for power in (1, 2, 3):
        moment = spectrum.weight @ spectrum.test**power
        assert best.weight @ best.test**power == pytest.approx(moment, rel=EXACT)
        moment = spectrum.weight @ spectrum.task**power
        assert best.weight @ best.task**power == pytest.approx(moment, rel=EXACT)
    assert np.max(best.test[best.task == 2.0]) >= np.max(best.test[best.task == 0.5])


@pytest.mark.parametrize("spectrum", [SPECTRUM, ISOTROPIC_INPUTS])
@pytest.mark.parametrize("setting", SETTINGS[1:3])
def test_best_training_covariance_beats_a_search(spectrum, setting):
    setting = setting | TESTS
    best = best_training_covariance(spectrum=spectrum, **setting)
    trace = spectrum.weight @ spectrum.task
    assert best.spectrum.weight @ best.spectrum.task == pytest.approx(trace, rel=EXACT)
    assert best.icl == icl(best.spectrum, **setting)
    rng = np.random.default_rng(0)
    for concentration in (0.3, 1.0, 10.0):
        for share in rng.dirichlet(np.full(4, concentration), size=40):
            other = dataclasses.replace(spectrum, task=trace * share / spectrum.weight)
            assert icl(other, **setting) >= best.icl
    # Nothing is gained by moving a little of the trace from one atom to another.
    for give, take in itertools.permutations(range(4), 2):
        task = best.spectrum.task.copy()
        step = min(1e-3, task[give])
        task[give] -= step
        task[take] += step
        moved = dataclasses.replace(best.spectrum, task=task)
        assert icl(moved, **setting) >= best.icl * (1 - 1e-9)


@pytest.mark.parametrize("spectrum", [SPECTRUM, ISOTROPIC_INPUTS])
@pytest.mark.parametrize("setting", SETTINGS)
def test_diversity_slope_is_the_derivative(spectrum, setting):
    setting = setting | TESTS

    def error(kappa):
        return icl(spectrum, **(setting | {"kappa": kappa}))

    found = diversity_slope(spectrum=spectrum, **setting)
    assert float(found) == pytest.approx(derivative(error, setting["kappa"]), rel=DIFFERENCE)


def test_where_more_tasks_hurt():
    """Fresh tasks: near tau = 1 variance grows with diversity, until enough tasks are seen."""
    kappa = np.array([0.1, 0.5, 2.0, 5.0, np.inf])
    setting = {"tau": 1.1, "alpha": 3.0, "rho": 0.01}
    slopes = diversity_slope(spectrum=ISOTROPIC_INPUTS, kappa=kappa, **setting)
    error = structured_errors(spectrum=ISOTROPIC_INPUTS, kappa=kappa, **setting).icl
    assert slopes[0] > 0 > slopes[3]
    assert error[0] < error[1]
    assert error[2] > error[3] > error[4]
    assert slopes[4] == 0


def test_kernel_alignment_of_any_scale():
    assert cka(JointSpectrum.of_matrices([1e-200, 0.0])) == pytest.approx(1.0)


def test_best_training_covariance_is_stationary():
    """Trace that moves between the two atoms of the largest variances."""
    spectrum = spectrum_of([1.5, 0.5, 0.9], [0.4, 1.2, 0.8], [1.0, 1.0, 1.0], [0.3, 0.5, 0.2])
    setting = {"tau": 2.0, "alpha": 2.5, "kappa": 1.5, "rho": 0.3, "ridge": 0.2} | TESTS
    best = best_training_covariance(spectrum=spectrum, **setting)
    *_, second, first = np.argsort(best.spectrum.task)
    direction = (np.eye(3)[first] - np.eye(3)[second]) / best.spectrum.weight

    def error(size):
        task = best.spectrum.task + (size - 1) * direction
        return icl(dataclasses.replace(best.spectrum, task=task), **setting)

    assert_least(error, [1.0], best.icl)
