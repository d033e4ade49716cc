"""Sentences of the page on structured data, computed."""

import itertools

import numpy as np
import pytest
from scipy.stats import spearmanr
from statements import states

import iclimit
from iclimit.pretraining import (
    best_test_covariance,
    best_training_covariance,
    cka,
    derive_effective_ridge,
    direction_slopes,
    diversity_slope,
    resolvent_alignment,
    trace_ratio,
)

pytestmark = pytest.mark.slow

PAGE = "pretraining/structured-data"
SPECTRUM = iclimit.pretraining.JointSpectrum
SETTINGS = [
    {"tau": 0.5, "alpha": 1.0, "kappa": 0.5, "rho": 0.1, "ridge": 0.02},
    {"tau": 2.0, "alpha": 2.0, "kappa": 1.0, "rho": 0.1, "ridge": 0.05},
    {"tau": 4.0, "alpha": 5.0, "kappa": 4.0, "rho": 0.3},
    {"tau": 0.7, "alpha": 2.0, "kappa": 0.3, "rho": 0.01},
]


def spectra(seed, size):
    """Random eigenvalues of mean 1."""
    values = np.random.default_rng(seed).exponential(size=size)
    return values / values.mean()


@states(PAGE, "For :math:`C = C' = I` they are those of page :doc:`/theory/pretraining/icl`")
def test_isotropic_tasks():
    isotropic = SPECTRUM.of_matrices([1.0])
    for setting in SETTINGS:
        errors = iclimit.pretraining.structured_errors(**setting, spectrum=isotropic)
        assert errors.icl == pytest.approx(iclimit.icl_error(**setting), rel=1e-10)
        assert errors.idg == pytest.approx(iclimit.idg_error(**setting), rel=1e-10)


@states(
    PAGE,
    "In general, too, :math:`\\eICL` is affine in :math:`C'`",
    "It depends on the tests through the variance of their labels only",
)
def test_errors_are_affine_in_the_test_covariance():
    task, inputs, one, other = (spectra(seed, 6) for seed in range(4))
    for setting in SETTINGS:

        def error(test, setting=setting):
            spectrum = SPECTRUM.of_matrices(task, test_covariance=test, input_covariance=inputs)
            return iclimit.pretraining.structured_errors(**setting, spectrum=spectrum)

        for share in (0.2, 0.5, 3.0):
            mixed = error(share * one + other).icl - error(other).icl
            assert mixed == pytest.approx(share * (error(one + other).icl - error(other).icl))
        equal = other * (one @ inputs) / (other @ inputs)
        assert error(equal).scalar == pytest.approx(error(one).scalar)


@states(
    PAGE,
    "At fixed trace the best test covariance has rank one, on the direction of least slope.  At a "
    "fixed spectrum the largest variance goes to the least slope",
)
def test_best_tests():
    task = spectra(4, 4)
    test = spectra(5, 4)
    for setting in SETTINGS:
        spectrum = SPECTRUM.of_matrices(task, test_covariance=test)

        def error(values, setting=setting):
            tests = SPECTRUM.of_matrices(task, test_covariance=values)
            return iclimit.pretraining.structured_errors(**setting, spectrum=tests).icl

        slopes = direction_slopes(**setting, spectrum=spectrum)
        assert np.ptp(slopes) > 0
        orders = [error(np.array(order)) for order in itertools.permutations(test)]
        best = best_test_covariance(**setting, spectrum=spectrum, fixed="spectrum")
        assert best.icl == pytest.approx(min(orders))
        random = np.random.default_rng(6).dirichlet(np.ones(4), 100) * test.sum()
        rank_one = best_test_covariance(**setting, spectrum=spectrum, fixed="trace")
        assert np.count_nonzero(rank_one.spectrum.test) == 1
        assert rank_one.icl < min(error(values) for values in random)


@states(
    PAGE,
    "The best training covariance need not be that of the tests; here it is more concentrated",
)
def test_the_best_training_is_not_the_tests():
    tests = np.array([2.5, 0.9, 0.6])
    spectrum = SPECTRUM.of_matrices(tests, test_covariance=tests)
    best = best_training_covariance(**SETTINGS[1], spectrum=spectrum)
    assert best.icl < iclimit.pretraining.structured_errors(**SETTINGS[1], spectrum=spectrum).icl
    assert np.var(best.spectrum.task) > np.var(tests)


def long_limit(setting, spectrum, **change):
    return iclimit.pretraining.structured_errors(**(setting | change), spectrum=spectrum).icl


@states(
    PAGE,
    "The limits of long contexts and many tasks can be exchanged",
    "These two limits can be exchanged for :math:`L = 0` only",
    "the error diverges, unless nothing is lost or :math:`\\rho = 0`",
)
def test_limits_that_can_be_exchanged():
    task = spectra(7, 5)
    test = spectra(8, 5)
    spectrum = SPECTRUM.of_matrices(task, test_covariance=test)
    point = {"tau": 3.0, "alpha": 1.0, "kappa": 2.0, "rho": 0.2}
    ratio = np.mean(test / task)
    one, other = ({"alpha": big, "kappa": big**2} for big in (1e5, 1e5))
    assert long_limit(point, spectrum, **one) == pytest.approx(0.2 + 0.1 * ratio, rel=1e-3)
    assert long_limit(point, spectrum, alpha=1e9, kappa=1e5) == pytest.approx(
        long_limit(point, spectrum, **other), rel=1e-3
    )
    low_rank = SPECTRUM.of_matrices([2.0, 2.0, 0, 0], test_covariance=[1.0, 3.0, 0, 0])
    for law, kappa, lost in ((spectrum, 0.5, True), (low_rank, 0.75, False)):
        context_first = long_limit(point, law, kappa=kappa, alpha=1e10, tau=1e5)
        data_first = long_limit(point, law, kappa=kappa, alpha=1e5, tau=1e10)
        assert bool(context_first > 2 * data_first) is lost
        noiseless = long_limit(point, law, kappa=kappa, alpha=1e10, tau=1e5, rho=0.0)
        assert noiseless < 2


@states(
    PAGE,
    "the errors grow as :math:`1/|\\tau - 1|` without a ridge, and as :math:`\\lambda^{-1/2}` at",
)
def test_threshold():
    spectrum = SPECTRUM.of_matrices(spectra(9, 4), input_covariance=spectra(10, 4))
    point = {"alpha": 2.0, "kappa": 1.5, "rho": 0.2}
    for side in (1, -1):
        near, far = (
            long_limit(point, spectrum, tau=1 + side * distance) for distance in (1e-6, 1e-5)
        )
        assert near / far == pytest.approx(10, rel=1e-3)
    small, large = (long_limit(point, spectrum, tau=1.0, ridge=each) for each in (1e-12, 1e-10))
    assert small / large == pytest.approx(10, rel=1e-2)


@states(
    PAGE,
    "the misalignment ranks tests exactly as their errors do",
    "the resolvent alignment, which nearly always gives the same order",
    "- 1.0000 - 0.9998 to 1.0000 - 0.997 to 0.999 - 0.91 to 0.92",
    "With an eigenvalue of 101 the last two are 0.993 to 0.999 and 0.87 to 0.88, with one of 4 "
    "0.999 "
    "to 1.000 and 0.97",
)
@pytest.mark.parametrize(
    ("spike", "lowest", "highest"),
    [
        (31, (1.0, 0.9998, 0.997, 0.91), (1.0, 1.0, 0.999, 0.92)),
        (101, (1.0, 0.9995, 0.993, 0.87), (1.0, 1.0, 0.999, 0.88)),
        (4, (1.0, 0.9998, 0.999, 0.97), (1.0, 1.0, 1.0, 0.97)),
    ],
)
def test_measures_of_alignment(spike, lowest, highest):
    j = np.arange(1.0, 121)
    training = normalised(j**-0.9)
    tests = [normalised(j**-e) for e in np.linspace(0, 2, 21)]
    tests += [each[::-1] for each in tests]
    for place in np.linspace(0, 119, 20).astype(int):
        flat = np.ones(120)
        flat[place] = spike
        tests.append(normalised(flat))
    found = [
        correlations(training, tests, {"tau": tau, "alpha": 2.0, "kappa": kappa, "rho": 0.1})
        for tau, kappa in itertools.product((0.5, 1.5, 4.0), (0.3, 4.0))
    ]
    # As many digits as are stated.
    for ends, stated in ((np.min(found, axis=0), lowest), (np.max(found, axis=0), highest)):
        assert np.all(np.abs(ends - stated) < [6e-5, 6e-5, 6e-4, 6e-3])


def normalised(values):
    return values / values.mean()


def correlations(training, tests, setting):
    """Rank correlation of misalignment, resolvent alignment, trace ratio and cka with errors."""
    laws = [SPECTRUM.of_matrices(training, test_covariance=test) for test in tests]
    errors = [iclimit.pretraining.structured_errors(**setting, spectrum=law) for law in laws]
    measures = [
        [each.misalignment for each in errors],
        [resolvent_alignment(**setting, spectrum=law) for law in laws],
        [trace_ratio(law) for law in laws],
        [-cka(law) for law in laws],
    ]
    icl = [each.icl for each in errors]
    return [spearmanr(np.round(measure, 12), np.round(icl, 12))[0] for measure in measures]


@states(
    PAGE,
    "more tasks hurt below :math:`\\kappa = 0.591`.  At :math:`\\alpha = 2` they hurt below "
    "0.745, "
    "and for two levels of 1.9 and 0.1 with isotropic tests and :math:`\\alpha = 3` below 0.90",
)
def test_where_more_tasks_hurt():
    kappa = np.linspace(0.02, 3, 600)
    levels = SPECTRUM.of_matrices([1.9, 0.1], test_covariance=[1.0, 1.0])
    isotropic = SPECTRUM.of_matrices([1.0])
    for spectrum, alpha, stated in (
        (isotropic, 3.0, 0.591),
        (isotropic, 2.0, 0.745),
        (levels, 3.0, 0.90),
    ):
        setting = {"tau": 1.1, "alpha": alpha, "rho": 0.01, "spectrum": spectrum}
        slope = diversity_slope(**setting, kappa=kappa)
        hurts = slope > 0
        assert np.all(hurts == (kappa < kappa[hurts].max() + 1e-9))
        assert kappa[hurts].max() == pytest.approx(stated, abs=0.006)


@states(PAGE, "of degree one more than three times the number of eigenvalues")
def test_degree_of_the_effective_ridge():
    for eigenvalues in ([1], [1, 3]):
        weight = 1 / len(eigenvalues)
        polynomial = derive_effective_ridge(dict.fromkeys(eigenvalues, weight))
        xi = next(s for s in polynomial.result.free_symbols if str(s) == "xi")
        assert polynomial.result.as_poly(xi).degree() == 3 * len(eigenvalues) + 1
