"""Training on all positions: another solver's numbers, plain runs, icl_error as a limit."""

import math
from itertools import pairwise

import numpy as np
import pytest
from refusals import type_error, value_error
from scipy.integrate import dblquad, quad
from sequence_runs import mean_of_runs

import iclimit
from iclimit.asymptotics.pretraining import (
    all_position_errors,
    balanced_position_errors,
    icl_error,
    idg_error,
)

# Standard errors that the worst of some ten simulated numbers may lie off.
SIGMAS = 4.0
# Half a unit of the last digit of the numbers below.
ROUNDED = 6e-7

# Numbers of another program, which iterates the responses of whole blocks to a fixed point and
# takes its derivatives by differences: setting; c, z, g, ICL, IDG and training error.
TABLE = [
    (
        (1, 0.25, 1.5, 0.2, 0.05, 1, "mean"),
        (0.178500, 0.857228, 2.542438, 2.443362, 1.825190, 0.120084),
    ),
    ((2, 0.5, 2, 0.1, 0.1, 2, "mean"), (0.401097, 0.225729, 0.987744, 0.897048, 0.689052)),
    (
        (4, 0.5, 2, 0.1, 0.1, 2, "mean"),
        (0.412396, 0.112784, 0.711530, 0.713632, 0.544301, 0.427110),
    ),
    ((2, 0.25, 1.5, 0.2, 0.3, 0.5, "mean"), (0.173500, 0.204895, 0.692472, 1.275994, 0.703402)),
    ((2, 0, 1.5, 0.2, 0.3, 0.5, "length"), (0.240790, 0.305640, 1.485971, 1.372935, 0.722606)),
    ((1, 0, 2, 0.05, 0.2, 1, "length"), (0.343299, 0.424364, 2.358646, 1.190286, 0.721693)),
]
FIELDS = ("rate", "variance", "response", "icl", "idg", "training")


def setting_of(sequence_ratio, alpha_min, alpha, rho, ridge, kappa, normalization):
    return {
        "sequence_ratio": sequence_ratio,
        "alpha_min": alpha_min,
        "alpha": alpha,
        "rho": rho,
        "ridge": ridge,
        "kappa": kappa,
        "normalization": normalization,
    }


@pytest.mark.parametrize(("point", "numbers"), TABLE)
def test_numbers_of_another_program(point, numbers):
    errors = balanced_position_errors(**setting_of(*point))
    found = [float(getattr(errors, name)) for name in FIELDS]
    np.testing.assert_allclose(found[: len(numbers)], numbers, atol=ROUNDED)


def test_drawn_tasks_of_another_program():
    """It sums over 1 to 15 sequences of a task."""
    errors = all_position_errors(**setting_of(2, 0.5, 2, 0.1, 0.1, 1, "mean"))
    found = [float(getattr(errors, name)) for name in FIELDS[:5]]
    numbers = (0.300888, 0.264688, 1.134498, 1.048817, 0.674293)
    np.testing.assert_allclose(found, numbers, atol=ROUNDED)


@pytest.mark.parametrize("balanced", [True, False])
def test_few_tasks_drawn_or_balanced_are_fresh_where_they_are_many(balanced):
    function = balanced_position_errors if balanced else all_position_errors
    setting = setting_of(2, 0.5, 2, 0.1, 0.1, math.inf, "mean")
    fresh = all_position_errors(**setting)
    many = function(**setting | {"kappa": 1e7})
    np.testing.assert_allclose(many.icl, fresh.icl, rtol=1e-6)
    np.testing.assert_allclose(many.idg, fresh.idg, rtol=1e-6)


@pytest.mark.parametrize(("tau", "kappa"), [(2.0, 0.5), (0.6, 2.0), (3.0, math.inf)])
def test_a_narrow_window_of_positions_is_one_position(tau, kappa):
    """With ever more sequences of ever fewer positions; the rest falls as the width."""

    def at(width):
        return balanced_position_errors(
            sequence_ratio=tau / width,
            alpha=1.0 + width / 2,
            alpha_min=1.0 - width / 2,
            kappa=kappa,
            rho=0.2,
            ridge=0.1,
            test_alpha=1.0,
        )

    widths = (0.02, 0.01, 0.005, 0.0025)
    for field, function in (("icl", icl_error), ("idg", idg_error)):
        rows = [float(getattr(at(width), field)) for width in widths]
        for order in (1, 2, 3):
            factor = 2**order
            pairs = pairwise(rows)
            rows = [(factor * finer - coarser) / (factor - 1) for coarser, finer in pairs]
        expected = function(tau=tau, alpha=1.0, kappa=kappa, rho=0.2, ridge=0.1)
        assert rows[0] == pytest.approx(expected, rel=2e-8)


@pytest.mark.parametrize("kappa", [0.4, math.inf])
@pytest.mark.parametrize("ratio", [0.3, 0.5, 0.9])
def test_no_ridge_is_the_limit_of_small_ones(ratio, kappa):
    setting = setting_of(ratio, 0.5, 2, 0.1, 0, kappa, "mean")
    none = balanced_position_errors(**setting)
    small = balanced_position_errors(**setting | {"ridge": 1e-8})
    for name in ("icl", "idg", "mean_icl", "mean_idg", "rate", "variance"):
        np.testing.assert_allclose(getattr(none, name), getattr(small, name), rtol=1e-5)
    assert small.training == pytest.approx(float(none.training), abs=1e-6)


def test_the_ridgeless_peak():
    """As many queries as parameters."""
    peak = all_position_errors(sequence_ratio=[0.5, 1.0], alpha=2, rho=0.1, normalization="length")
    assert np.isinf(peak.icl[0])
    assert np.isinf(peak.mean_idg[0])
    assert np.isfinite(peak.icl[1])
    assert peak.training[0] == 0
    near = all_position_errors(
        sequence_ratio=0.8, alpha=1.5, alpha_min=0.25, rho=0.1, ridge=[1e-5, 1e-7]
    )
    # Near it the variance is as one over the root of the ridge.
    assert near.variance[1] / near.variance[0] == pytest.approx(10, rel=0.05)


@pytest.mark.parametrize(
    ("alpha_min", "alpha", "normalization"),
    [(0.25, 1.0, "mean"), (0.5, 8.0, "mean"), (0.0, 2.0, "length")],
)
def test_many_sequences_by_integrals(alpha_min, alpha, normalization):
    """The first correction is the covariance of the gradients of two positions."""
    rho = 0.1
    v = 1 + rho
    width = alpha - alpha_min

    def p(a):
        return 1.0 if normalization == "mean" else a / alpha

    def kernel(a, b):
        return p(a) * p(b) * (1 + v / max(a, b))

    square = quad(lambda a: kernel(a, a), alpha_min, alpha)[0] / width
    c = quad(p, alpha_min, alpha)[0] / width / square

    def own(a):
        return (rho + (1 - c * p(a)) ** 2 + c**2 * p(a) ** 2 * v / a) * kernel(a, a)

    def shared(a, b):
        nested = c * (1 / b if normalization == "mean" else 1 / alpha) * (1 - c * p(a) + rho)
        missed = (1 - c * p(a)) * (1 - c * p(b)) + c**2 * p(a) * p(b) * v / b
        return kernel(a, b) * (missed - nested)

    alone = quad(own, alpha_min, alpha)[0] / width**2
    pairs = dblquad(shared, alpha_min, alpha, alpha_min, lambda b: b)[0] / width**2
    ratios = np.array([1e4, 2e4])
    errors = all_position_errors(
        sequence_ratio=ratios,
        alpha=alpha,
        alpha_min=alpha_min,
        rho=rho,
        normalization=normalization,
    )
    scaled = errors.variance * ratios
    assert 2 * scaled[1] - scaled[0] == pytest.approx((alone + 2 * pairs) / square**2, rel=1e-6)
    assert 2 * errors.rate[1] - errors.rate[0] == pytest.approx(c, rel=1e-7)


@pytest.mark.parametrize("normalization", ["mean", "length"])
def test_means_over_positions(normalization):
    """Means of the errors at many places, which are tested one by one."""
    setting = setting_of(1.5, 0.3, 2, 0.1, 0.2, 0.75, normalization)
    nodes, weights = np.polynomial.legendre.leggauss(40)
    places = 0.3 + 1.7 * (1 + nodes) / 2
    errors = all_position_errors(**setting, test_alpha=places)
    assert errors.icl @ weights / 2 == pytest.approx(errors.mean_icl[0], rel=1e-9)
    assert errors.idg @ weights / 2 == pytest.approx(errors.mean_idg[0], rel=1e-9)


# Sizes of plain runs, and how many of each.
SIZES = {6: 500, 12: 250, 24: 60}
# Resolution of the extrapolated runs: the standard error at most.
RESOLUTION = 0.02


@pytest.mark.slow
@pytest.mark.parametrize(
    ("point", "normalization"),
    [((2.0, 0.5, 2.0, 0.1, 0.4, 2.0), "mean"), ((2.0, 0.25, 1.5, 0.2, 0.3, 0.5), "length")],
)
def test_plain_runs_tend_to_the_limit(point, normalization):
    """Runs at three dimensions, extrapolated by a line and a parabola in 1/d."""
    ratio, first, last, rho, ridge, kappa = point
    means = []
    errors = []
    for dim, repeats in SIZES.items():
        seen = range(round(first * dim), round(last * dim) + 1)
        mean, standard_error, *_ = mean_of_runs(
            dim,
            repeats,
            dim=dim,
            positions=seen,
            prompts=round(ratio * dim),
            tasks=kappa * dim,
            rho=rho,
            ridge=ridge,
            normalization=normalization,
        )
        means.append(mean[-1])
        errors.append(standard_error[-1])
    inverse = 1 / np.array(list(SIZES))
    # Weights that extrapolate a parabola to 0.
    weights = np.linalg.solve(np.vander(inverse, increasing=True).T, [1.0, 0.0, 0.0])
    limit = balanced_position_errors(
        **setting_of(ratio, first, last, rho, ridge, kappa, normalization)
    )
    extrapolated = weights @ np.array(means)
    resolution = np.sqrt(weights**2 @ np.array(errors) ** 2)
    expected = np.array([limit.icl, limit.idg])
    assert np.all(resolution < RESOLUTION * expected)
    assert np.all(abs(extrapolated - expected) < SIGMAS * resolution)


def test_wrong_positions():
    for change, message in (
        ({"alpha_min": 2}, "alpha_min must be below alpha, got 2 at alpha = 2"),
        ({"alpha_min": 0}, "did you mean normalization='length'"),
        ({"normalization": "sum"}, "normalization must be one of mean, length"),
    ):
        setting = setting_of(2, 0.5, 2, 0.1, 0.1, 1, "mean") | change
        with pytest.raises(ValueError, match=message):
            all_position_errors(**setting)


# Weights of positions in tests: the later ones count more, or less.
GROWING = {"weights": lambda a: a}
FALLING = {"weights": lambda a: 1 / (0.2 + a) ** 2}


@pytest.mark.parametrize("weighted", [GROWING, FALLING], ids=["growing", "falling"])
@pytest.mark.parametrize(("normalization", "first"), [("mean", 0.5), ("length", 0.0)])
def test_weighted_rate_with_infinite_data(weighted, normalization, first):
    """The best rate for known laws of prompts, as integrals over the positions."""
    last = 2.0
    rho = 0.1
    ridge = 0.2
    weights = weighted["weights"]
    whole = quad(weights, first, last)[0]

    def mean(function):
        return quad(lambda a: weights(a) * function(a), first, last)[0] / whole

    def factor(a):
        return 1.0 if normalization == "mean" else a / last

    squares = mean(lambda a: factor(a) ** 2 * (1 + (1 + rho) / a))
    best = mean(factor) / (ridge + squares)
    errors = all_position_errors(
        sequence_ratio=[2000, 4000],
        alpha=last,
        alpha_min=first,
        rho=rho,
        ridge=ridge,
        normalization=normalization,
        **weighted,
    )
    exact = {"rate": best, "icl": rho + (1 - best) ** 2 + best**2 * (1 + rho) / last}
    for name, value in exact.items():
        few, many = getattr(errors, name)
        assert 2 * many - few == pytest.approx(value, rel=1e-5)  # the rest is of order 1/nu^2


def test_weights_are_those_of_runs_of_many_dimensions():
    """Equations at integers, with the same weights, approach the limit as 1/d."""
    point = {"alpha": 1.5, "alpha_min": 0.5, "kappa": 1.0, "rho": 0.1, "ridge": 0.2}
    theory = all_position_errors(sequence_ratio=1.0, **point, weights=lambda a: a**2)
    found = []
    for dim in (32, 64):
        run = iclimit.Point(sequence_ratio=1.0, **point).at(dim)
        seen = run.loss.positions(run.problem.context)
        loss = iclimit.AllPositions(run.loss.first, tuple((seen / dim) ** 2))
        found.append(iclimit.predict(run.with_(loss=loss), approach="moments").icl.mean)
    near, far = (value / float(theory.icl) - 1 for value in found)
    assert abs(2 * far - near) < 0.003  # what is left is of order 1/d^2
    assert abs(far) > abs(2 * far - near)
    equal = all_position_errors(sequence_ratio=1.0, **point)
    assert abs(float(equal.icl / theory.icl) - 1) > 0.02


def test_equal_weights_are_the_default():
    point = {"sequence_ratio": 2, "alpha": 2, "alpha_min": 0.5, "kappa": 1, "rho": 0.1}
    for function in (all_position_errors, balanced_position_errors):
        default = function(**point, ridge=0.1)
        equal = function(**point, ridge=0.1, weights=lambda a: np.full(a.shape, 3.0))
        assert float(equal.icl) == pytest.approx(float(default.icl), rel=1e-7)
        assert float(equal.training) == pytest.approx(float(default.training), rel=1e-7)


def test_wrong_weights_are_refused():
    point = {"sequence_ratio": 2, "alpha": 2, "alpha_min": 0.5, "rho": 0.1, "ridge": 0.1}
    type_error("weights must be a function", all_position_errors, **point, weights=(1, 2))
    for wrong, message in (
        (lambda a: a - 1, "weights must be > 0"),
        (lambda a: 0 * a + math.nan, "weights must be finite"),
        (lambda _: 1.0, "weights must"),
    ):
        value_error(message, all_position_errors, **point, weights=wrong)
