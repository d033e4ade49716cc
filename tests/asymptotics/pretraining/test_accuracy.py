"""Accuracy after pretraining: against integrals over eigenvalues, reference values and scans."""

import math

import numpy as np
import pytest
from scipy.stats import rankdata

from iclimit import Point, icl_error, idg_error, optimal_ridge, sample
from iclimit.asymptotics.numbers import numpy_namespace
from iclimit.asymptotics.pretraining.icl import context_noise, solve_fixed_point
from iclimit.pretraining import accurate_ridge, effective_labels, pretrained_accuracy
from iclimit.spectra import MarchenkoPastur

# Accuracies of the limit in the notes of the theory, to four digits.
VALUES = (
    ((1.5, 1, math.inf), 0.5753),
    ((2, 2, 0.5), 0.5792),
    ((2, 10, 1), 0.6484),
    ((10, 10, 10), 0.8461),
)

# Standard errors by which a simulation may be off, and what the next order in 1/d may add.
Z = 4.0
SIZE = 0.006


@pytest.mark.parametrize(("at", "accuracy"), VALUES)
def test_reference_values(at, accuracy):
    tau, alpha, kappa = at
    value = pretrained_accuracy(tau=tau, alpha=alpha, kappa=kappa).icl
    assert value == pytest.approx(accuracy, abs=5.1e-5)


def test_flips_of_the_context():
    accuracies = pretrained_accuracy(tau=10, alpha=10, kappa=10, flips=[0.1, 0.25])
    np.testing.assert_allclose(accuracies.icl, [0.7948, 0.6803], atol=5.1e-5)
    expected = [0.9 * 0.79484 + 0.1 * 0.20516, 0.75 * 0.6803 + 0.25 * 0.3197]
    np.testing.assert_allclose(accuracies.flipped_icl, expected, atol=5e-5)


@pytest.mark.parametrize("at", [(1.7, 2.1, 0.6, 0.3), (0.4, 1.0, 3.0, 0.0), (3, 5, 1, 20.0)])
def test_moments_from_the_errors_and_the_spectrum(at):
    """E z f as a mean over eigenvalues, and E f^2 from the error."""
    tau, alpha, kappa, ridge = at
    labels = effective_labels("sign", 0.2, flips=0.1)
    penalty = ridge * labels.ridge_factor
    point = {"tau": tau, "alpha": alpha, "kappa": kappa, "rho": labels.rho, "ridge": penalty}
    host = numpy_namespace({})
    numbers = [np.array(float(x)) for x in (tau, alpha, kappa, penalty)]
    q = context_noise(host, numbers[1], labels.rho)
    xi, _ = solve_fixed_point(host, numbers[0] < 1, numbers[0], q, numbers[2], numbers[3])
    nu = float(q + xi)
    law = MarchenkoPastur(1 / kappa)
    means = [law.integrate(lambda c, p=p: c**p / (c + nu))[0] for p in (1, 2)]
    found = pretrained_accuracy(tau=tau, alpha=alpha, kappa=kappa, rho=0.2, ridge=ridge, flips=0.1)
    for mean, error, accuracy in zip(
        means, (icl_error(**point), idg_error(**point)), (found.icl, found.idg), strict=True
    ):
        square = error - 1 - labels.rho + 2 * mean
        assert accuracy == pytest.approx(
            1 - math.acos(mean / math.sqrt(square)) / math.pi, rel=1e-9
        )


def test_ends():
    # Chance at the threshold, and at any ridge finite numbers in the limit of a large one.
    threshold = pretrained_accuracy(tau=1, alpha=2, kappa=2)
    assert threshold.icl == threshold.idg == 0.5
    large = pretrained_accuracy(tau=1, alpha=2, kappa=2, ridge=[1e6, 1e9, 1e12])
    assert np.ptp(large.icl) < 1e-5
    huge = pretrained_accuracy(tau=1, alpha=2, kappa=2, ridge=[1e12, 1e155, 1e300])
    assert np.ptp(huge.icl) < 1e-9
    assert np.ptp(huge.idg) < 1e-9
    # Fresh contexts that say everything leave no error.
    assert pretrained_accuracy(tau=math.inf, alpha=1e8, kappa=1e8).icl == pytest.approx(
        1, abs=1e-3
    )


@pytest.mark.parametrize("objective", ["icl", "idg"])
@pytest.mark.parametrize(
    ("at", "labels"),
    [
        ((2, 2, 0.5), {}),
        ((1.2, 2, 2), {}),
        ((10, 10, 1), {}),
        ((2, 1, 1), {"rho": 0.3}),
        ((2, 4, 2), {"link": "relu", "rho": 0.1, "flips": 0.05}),
    ],
)
def test_best_ridge(at, labels, objective):
    tau, alpha, kappa = at
    point = {"tau": tau, "alpha": alpha, "kappa": kappa} | labels
    best = accurate_ridge(**point, objective=objective)
    ridges = np.geomspace(1e-3, 1e3, 2001)
    scan = getattr(pretrained_accuracy(**point, ridge=ridges), objective)
    assert best.accuracy == pytest.approx(np.max(scan), abs=1e-6)
    assert best.ridge == pytest.approx(ridges[np.argmax(scan)], rel=0.01)
    if objective == "icl" and not labels:
        linear = effective_labels("sign")
        of_error = optimal_ridge(**point, rho=linear.rho).ridge * linear.factor
        assert best.ridge == pytest.approx(of_error, rel=0.2)


def test_best_ridge_may_be_infinite():
    point = {"tau": 1.5, "alpha": 2, "kappa": 2, "link": "relu", "rho": 0.1, "flips": 0.1}
    best = accurate_ridge(**point, objective="idg")
    accuracies = pretrained_accuracy(**point, ridge=np.geomspace(1e-3, 1e9, 200)).idg
    assert np.all(np.diff(accuracies) > -1e-13)
    assert best.ridge == np.inf
    assert best.accuracy == pytest.approx(accuracies[-1], abs=1e-8)


def test_metrics_of_pairs():
    point = {"tau": 2, "alpha": 2, "kappa": 2, "ridge": 0.05, "flips": 0.1}
    plain = pretrained_accuracy(**point)

    def agreement(target, prediction):
        return np.mean(np.sign(target) == np.sign(prediction))

    def area(target, prediction):
        positive = target > 0
        count = np.sum(positive)
        ranks = np.sum(rankdata(prediction)[positive])
        return (ranks - count * (count + 1) / 2) / (count * np.sum(~positive))

    by_metric = pretrained_accuracy(**point, metric=agreement)
    for name in ("icl", "idg", "flipped_icl", "flipped_idg"):
        assert getattr(by_metric, name) == pytest.approx(getattr(plain, name), abs=1e-3)
    areas = pretrained_accuracy(**point, metric=area)
    rng = np.random.default_rng(0)
    cosine = math.cos(math.pi * (1 - plain.icl))
    z = rng.standard_normal((2, 500_000))
    f = cosine * z[0] + math.sqrt(1 - cosine**2) * z[1]
    assert areas.icl == pytest.approx(area(z[0], f), abs=4e-3)
    several = pretrained_accuracy(**(point | {"ridge": [0.05, 1.0]}), metric=agreement)
    assert several.icl.shape == (2,)


@pytest.mark.parametrize(
    "point",
    [
        Point(tau=2, alpha=2, kappa=2, ridge=0.05, link="sign", flips=0.1),
        Point(tau=2, alpha=1, kappa=0.5, link="sign"),
    ],
    ids=["flips", "few tasks"],
)
def test_simulated_accuracy(point):
    """Two sizes, extrapolated by the 1/d law."""
    small, large = (sample(point.at(dim), rng=0, repeats=20, accuracies=True) for dim in (10, 20))
    theory = pretrained_accuracy(**point.limit)
    for name, value in (("accuracy", theory.icl), ("idg_accuracy", theory.idg)):
        estimate = 2 * large[name].mean - small[name].mean
        error = math.hypot(2 * large[name].standard_error, small[name].standard_error)
        assert abs(estimate - value) < Z * error + SIZE


def test_flips_of_more_than_half_turn_the_answer():
    right = pretrained_accuracy(tau=2, alpha=2, kappa=2, ridge=1.0, flips=0.2)
    wrong = pretrained_accuracy(tau=2, alpha=2, kappa=2, ridge=1.0, flips=0.8)
    assert wrong.icl == pytest.approx(1 - right.icl, rel=1e-12)
    assert wrong.flipped_icl == pytest.approx(right.flipped_icl, rel=1e-12)


def test_bad_arguments():
    with pytest.raises(ValueError, match="objective must be one of icl, idg"):
        accurate_ridge(tau=2, alpha=2, kappa=2, objective="accuracy")
    with pytest.raises(ValueError, match="learns nothing of such labels"):
        pretrained_accuracy(tau=2, alpha=2, kappa=2, flips=0.5)
    with pytest.raises(ValueError, match=r"flips must be >= 0 and < 0.5, got 1"):
        accurate_ridge(tau=2, alpha=2, kappa=2, flips=1)
    with pytest.raises(ArithmeticError, match="too extreme"):
        pretrained_accuracy(tau=1e-300, alpha=2, kappa=2)


@pytest.mark.parametrize("kappa", [0.5, 1, math.inf])
def test_nothing_is_missed_with_endless_prompts_and_contexts(kappa):
    best = accurate_ridge(
        tau=math.inf, alpha=math.inf, kappa=kappa, link="identity", objective="idg"
    )
    assert best.ridge == 0
    assert best.accuracy == pytest.approx(1, abs=1e-7)
