"""Sentences of the pages on GD++ and random noise levels, computed."""

import math

import numpy as np
import pytest
from statements import states

import iclimit
from iclimit.gdpp import (
    adaptive_ridge_loss,
    baseline_profiles,
    condition_number_schedule,
    constant_ridge_loss,
    gdpp_loss,
    gdpp_minima,
    interval_after,
    oracle_risk,
    ridge_baselines,
    ridge_risk,
    steps_needed,
)

pytestmark = pytest.mark.slow

GDPP = "gdpp/gdpp"
NOISY = "gdpp/noisy-regression"
CONDITIONS = 1 + np.geomspace(1e-4, 1e8, 400)


def ratios_after(gamma, condition):
    """Largest over smallest image of [1/condition, 1] under one layer, on a fine grid."""
    x = np.geomspace(1 / condition, 1, 2000)
    image = x * (1 - np.multiply.outer(gamma, x)) ** 2
    with np.errstate(divide="ignore"):
        return image.max(axis=-1) / image.min(axis=-1)


def after(condition, method):
    return condition_number_schedule(condition, steps=1, method=method).condition_number[..., 1]


@states(
    GDPP,
    "The bound :math:`\\tfrac34(\\kappa - 1)^2` holds for all :math:`\\kappa`",
    "is sharp as :math:`\\kappa \\to 1`",
    "Its constant is sharp as :math:`\\kappa \\to 1`, and a quarter of the monotone one",
    "It does not decrease with :math:`\\kappa`",
)
def test_contractions():
    for method, constant, factor in (("monotone", 3 / 4, 4 / 9), ("optimal", 3 / 16, 4 / 27)):
        schedule = condition_number_schedule(excess=CONDITIONS - 1, steps=1, method=method)
        excess = schedule.excess[..., 1]
        bound = constant * (CONDITIONS - 1) ** 2
        assert np.all(excess <= bound * (1 + 1e-9))
        assert excess[0] / bound[0] == pytest.approx(1, rel=1e-3)
        assert np.all(np.diff(excess) > 0)
        share = (1 + excess) / CONDITIONS
        assert np.all(np.diff(share) < 1e-12)
        assert share[-1] == pytest.approx(factor, rel=1e-3)


@states(
    GDPP,
    ":math:`\\kappa'/\\kappa` decreases with :math:`\\kappa`, from 1 to 4/9 or 4/27.  At "
    ":math:`\\kappa = 2` it is q = 0.64 (monotone) or 0.547 (optimal)",
    "layers for :math:`\\kappa > 2` and :math:`t < 1`",
)
def test_the_count_of_layers():
    for method, stated, C in (("monotone", 0.64, 3 / 4), ("optimal", 0.547, 3 / 16)):
        q = after(2.0, method) / 2
        assert q == pytest.approx(stated, abs=5e-4)
        for tolerance in (0.5, 1e-3, 1e-10):
            condition = np.geomspace(2.001, 1e12, 200)
            bound = np.ceil(np.log(condition / 2) / math.log(1 / q)) + math.ceil(
                math.log2(math.log(1 / (C * tolerance)) / math.log(1 / C))
            )
            assert np.all(steps_needed(condition, tol=tolerance, method=method) <= bound)


@states(
    GDPP,
    "Negative :math:`\\gamma`, and those with :math:`\\gamma\\mu > 1`, have "
    ":math:`\\kappa' > \\kappa`",
    "A zero in the interval makes :math:`\\kappa'` infinite",
    "So both ends go to the same value (equioscillation)",
)
def test_one_layer_is_optimal():
    for condition in (1.5, 10.0, 1000.0):
        gamma = np.concatenate([np.linspace(-3, 1, 801), condition * np.linspace(1.01, 5, 200)])
        found = ratios_after(gamma, condition)
        assert np.min(found) >= after(condition, "optimal") * (1 - 1e-5)
        assert np.all(found[(gamma < 0) | (gamma > condition)] > condition)
        root = math.sqrt(condition)
        best = 1 / (1 + 1 / root + 1 / condition)
        low = (1 - best / condition) ** 2 / condition
        assert low == pytest.approx((1 - best) ** 2)


@states(
    GDPP, "no L layers end below F applied L times", "One layer equalises a spectrum of two points"
)
def test_greedy_layers_are_optimal():
    generator = np.random.default_rng(0)
    condition = 50.0
    least = condition_number_schedule(condition, steps=3).condition_number[3]
    x = np.geomspace(1 / condition, 1, 3000)
    for _ in range(300):
        image = x
        for _ in range(3):
            image = image * (1 - generator.uniform(0.2, 0.99) / image.max() * image) ** 2
        assert image.max() / image.min() > least * (1 - 1e-3)
    gamma = 1 / (1 + math.sqrt(1 / condition) + 1 / condition)
    ends = np.array([1 / condition, 1])
    image = ends * (1 - gamma * ends) ** 2
    assert image[0] == pytest.approx(image[1])


@states(GDPP, "2.35` times as many layers; near 1 both converge quadratically")
def test_rates_of_both_schedules():
    condition = 1e30
    counts = [steps_needed(condition, tol=1.0, method=each) for each in ("monotone", "optimal")]
    assert counts[0] / counts[1] == pytest.approx(2.35, abs=0.12)
    for method in ("monotone", "optimal"):
        excess = condition_number_schedule(excess=1e-3, steps=2, method=method).excess
        assert math.log(excess[2]) / math.log(excess[1]) == pytest.approx(2, abs=0.15)


@states(
    GDPP,
    "a relative error of :math:`\\nu` is multiplied by -17.2 at :math:`\\kappa = 100`",
    "The monotone layer has the derivative 0 at :math:`\\nu`",
    "If the true largest eigenvalue is 2 % larger, the double zero at 1.0101 lies inside the "
    "spectrum",
    "Both cost little",
)
def test_sensitivity():
    def slope(gamma):
        return (1 - 3 * gamma) / (1 - gamma)

    gamma = 1 / (1 + 0.1 + 0.01)
    assert slope(gamma) == pytest.approx(-17.2, abs=0.05)
    assert slope(1 / 3) == pytest.approx(0)
    condition = 1e4
    first = condition_number_schedule(condition, steps=4)
    assert 1 / first.gammas[0] == pytest.approx(1.0101, abs=1e-4)
    ends = {
        name: [
            float(interval_after(plan.gammas, lower=1e-4, upper=top).condition_number[-1])
            for top in (1.0, 1.001, 1.02)
        ]
        for name, plan in (
            ("none", first),
            ("cap", condition_number_schedule(condition, steps=4, cap=100)),
            ("margin", condition_number_schedule(condition, steps=4, margin=0.02)),
        )
    }
    assert ends["none"][2] == math.inf
    assert np.round(ends["none"][:2], 1).tolist() == [6.7, 8.2]
    assert np.round(ends["cap"], 1).tolist() == [8.1] * 3
    assert np.round(ends["margin"], 1).tolist() == [6.9] * 3


@states(
    GDPP,
    "So the exact condition is :math:`\\kappa' - 1 \\le 2\\epsilon/(1 - \\epsilon)`",
    "Fewer layers are enough",
)
def test_layers_for_a_relative_error():
    for condition, row in (
        (10, (6, 7, 8)),
        (100, (9, 10, 11)),
        (1000, (12, 13, 14)),
        (1e4, (15, 16, 17)),
    ):
        for epsilon, count in zip((1e-2, 1e-4, 1e-8), row, strict=True):
            exact = steps_needed(condition, tol=2 * epsilon / (1 - epsilon), method="monotone")
            paper = steps_needed(condition, tol=epsilon / (2 * condition), method="monotone")
            assert exact + 1 == count
            assert exact <= paper


@states(
    GDPP,
    "No GD++ does better than the best polynomial of degree D",
    "One layer reaches the bound",
    "With two layers GD++ all but reaches the bound of four plain steps",
    "The published schedule can be worse than no preconditioning at all",
    "they have the mean loss 0.149, where the optimum at that size is 0.0536 and that of one "
    "layer "
    "0.355",
)
def test_the_loss_of_layers():
    for setting in ({"ratio": 0.5}, {"ratio": 1.0, "noise_ratio": 0.1}):
        one, two = (iclimit.optimal_gdpp(layers, **setting) for layers in (1, 2))
        assert one.loss == pytest.approx(one.lower_bound)
        plain = iclimit.optimal_schedule(steps=4, **setting)
        assert plain.lower_bound == pytest.approx(two.lower_bound)
        assert two.lower_bound < two.loss < 1.002 * two.lower_bound
        assert two.loss < iclimit.optimal_schedule(steps=2, **setting).loss
    for condition, layers, published in ((10, 2, 0.6526), (10, 3, 0.4194), (100, 2, 0.9563)):
        monotone = condition_number_schedule(condition, steps=layers - 1, method="monotone")
        x = (math.sqrt(condition) + 1) / (math.sqrt(condition) - 1)
        plain = 1 / math.cosh(layers * math.log(x))
        assert float(monotone.residual[-1]) == pytest.approx(published, abs=1e-4)
        assert float(monotone.residual[-1]) > plain
    limit = iclimit.optimal_gdpp(2, ratio=0.5)
    size = {"context": 20, "dim": 10}
    mean = float(gdpp_loss(limit.rates, gammas=limit.gammas, **size))
    assert mean == pytest.approx(0.149, abs=1e-3)
    assert iclimit.optimal_gdpp(2, **size).loss == pytest.approx(0.0536, abs=1e-4)
    assert iclimit.optimal_gdpp(1, **size).loss == pytest.approx(0.355, abs=1e-3)


@states(NOISY, "one ridge for all levels loses at the small and the large ones")
def test_one_ridge_for_all_levels():
    levels = np.linspace(0.05, 5, 40)
    profile = baseline_profiles(levels, noise_law="uniform:5", context=20, dim=10)
    constant = np.asarray(profile.constant)
    least = np.argmin(constant)
    assert 0 < least < len(levels) - 1
    assert constant[0] > 10 * constant[least]
    assert constant[-1] > 10 * constant[least]


@states(
    NOISY,
    "No estimator :math:`\\hat w = A(X)\\,y` that is linear in the labels",
    "otherwise it is positive, R being strictly concave",
)
def test_the_floor_of_linear_estimators():
    size = {"context": 20, "dim": 10}
    for law, mean in (("uniform:5", 25 / 3), ("categorical:1,3", 5.0)):
        floor = constant_ridge_loss(law, **size, penalty=mean)
        for penalty in np.geomspace(0.1, 10, 21) * mean:
            assert constant_ridge_loss(law, **size, penalty=float(penalty)) >= floor - 1e-12
        assert floor > 0
    v = np.linspace(0.1, 30, 60)
    risk = [float(ridge_risk(x, noise_variance=x, **size)) for x in v]
    assert np.all(np.diff(risk, 2) < 0)


@states(
    NOISY,
    "GD++ of any depth** is such an estimator",
    "GD++ also depends on the noise law through :math:`\\E\\sigma^2` alone",
    "At one noise level the floor is the oracle",
)
def test_gdpp_is_above_the_floor():
    size = {"context": 20, "dim": 10}
    best = ridge_baselines("uniform:5", **size)
    for layers in (1, 2):
        loss = 5 * gdpp_minima(layers, noise_ratio=best.penalty / 20, **size)[0].loss - best.oracle
        assert loss > best.constant
    assert constant_ridge_loss("fixed:2", **size, penalty=4.0) == pytest.approx(0, abs=1e-9)
    assert oracle_risk("fixed:2", **size) == pytest.approx(
        float(ridge_risk(4.0, noise_variance=4.0, **size))
    )


@states(NOISY, "The table has 0.068: it is **N - d**")
def test_adaptive_baselines():
    for law in ("uniform:1", "uniform:3", "uniform:5", "uniform:7", "categorical:1,3"):
        best = ridge_baselines(law, context=20, dim=10)
        assert 0 < best.tuned < best.adaptive < best.constant < best.one_layer
    for divisor, stated in ((10, 0.0693), (20, 0.2516), (12, 0.0908)):
        found = adaptive_ridge_loss("uniform:5", context=20, dim=10, multiplier=10 / divisor)
        assert found == pytest.approx(stated, rel=0.01)


@states(NOISY, "*Two layers* have a second minimum up to a noise level between [0, 4] and [0, 5]")
def test_second_minima():
    for top, count in ((4, 2), (5, 1)):
        minima = gdpp_minima(2, noise_ratio=top**2 / 3 / 20, context=20, dim=10)
        assert len(minima) == count


@states(NOISY, "the mean square of the right side is to leading order")
def test_the_cosine_with_quadratic_labels():
    generator = np.random.default_rng(1)
    for context, dim, stated in ((500, 3, 0.014), (2000, 10, 0.007)):
        squares = []
        for _ in range(300):
            x = generator.standard_normal((context, dim))
            target = x[:, 0] ** 2
            basis = np.linalg.qr(x)[0]
            squares.append(np.sum((basis.T @ target) ** 2) / (target @ target))
        assert np.mean(squares) == pytest.approx(stated, rel=0.08)


@states(NOISY, "Between the levels the limit is not the oracle")
def test_two_levels_with_two_layers():
    low = 0.36
    high = 2.25
    dim = 3
    total = 1 + low + high
    for noise, matched in ((low, True), (high, True), (1.0, False)):
        weight = total / ((1 + low) * (1 + high)) * (1 - noise / total)
        loss = dim / 2 * (1 + noise) * (weight - 1 / (1 + noise)) ** 2
        assert (loss < 1e-12) is matched
        if not matched:
            assert loss == pytest.approx(0.0246, abs=5e-5)


@states(GDPP, "rates made for the mean can be simulated, rates made for a sample cannot")
def test_rates_made_for_a_sample():
    rates = [0.34267221, 2.32815509, 13.40880879]
    gammas = [0.3236043, 1.76155491]
    size = {"context": 20, "dim": 10}
    assert float(gdpp_loss(rates, gammas=gammas, **size)) == pytest.approx(1.94, abs=0.01)
    generator = np.random.default_rng(2)
    x = generator.standard_normal((20_000, 20, 10))
    values = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 20)
    scale = np.ones_like(values)
    residual = np.ones_like(values)
    for rate, gamma in zip(rates, [*gammas, 0.0], strict=True):
        current = values * scale**2
        residual *= 1 - rate * current
        scale *= 1 - gamma * current
    assert np.mean(residual**2) < 0.02
