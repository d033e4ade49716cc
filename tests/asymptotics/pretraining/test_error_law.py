"""Law of squared errors: chi-square for linear labels, draws of the Gaussian pair for others."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from iclimit import Point, icl_error, idg_error
from iclimit.pretraining import error_law, pretrained_accuracy
from iclimit.simulate.pretraining.single_errors import squared_test_errors

POINT = {"tau": 2, "alpha": 2, "kappa": 2, "ridge": 0.05}

# Standard errors of a simulated statistic.
Z = 4.0


def test_linear_labels_have_a_chi_square_law():
    law = error_law(**POINT, rho=0.3)
    assert law.mean == pytest.approx(icl_error(**POINT, rho=0.3), rel=1e-12)
    assert law.median / law.mean == pytest.approx(chi2(1).median(), rel=1e-10)
    assert law.absolute == pytest.approx(math.sqrt(2 * law.mean / math.pi), rel=1e-12)
    euler = 0.5772156649015329
    assert law.log == pytest.approx(math.log(law.mean) - math.log(2) - euler, rel=1e-10)
    for probability in (0.01, 0.5, 0.9, 0.999):
        quantile = chi2(1).ppf(probability) * law.mean
        assert law.quantile(probability) == pytest.approx(quantile, rel=1e-9)
    assert law.relative_error(800) == pytest.approx(0.05, rel=1e-12)


@pytest.mark.parametrize("objective", ["icl", "idg"])
@pytest.mark.parametrize(
    ("link", "flips", "rho"),
    [("sign", 0.0, 0.0), ("sign", 0.1, 0.2), ("cube", 0.0, 0.1), ("relu", 0.0, 0.1)],
)
def test_other_labels(link, flips, rho, objective):
    """Draws of z, f and the label, made from the error and the accuracy."""
    point = POINT | {"rho": rho, "link": link, "flips": flips}
    law = error_law(**point, objective=objective)
    error = (icl_error if objective == "icl" else idg_error)(**point)
    assert law.mean == pytest.approx(error, rel=2e-6)
    rng = np.random.default_rng(0)
    count = 400_000
    z = rng.standard_normal(count)
    label = {"sign": np.sign(z), "cube": z**3, "relu": np.maximum(z, 0)}[link]
    label = np.where(rng.random(count) < flips, -label, label)
    label = label + math.sqrt(rho) * rng.standard_normal(count)
    # The size r of f that gives the error: E y^2 - 2 r cos E y z + r^2.
    accuracy = getattr(pretrained_accuracy(**point), objective)
    cosine = math.cos(math.pi * (1 - accuracy))
    moments = {"sign": (math.sqrt(2 / math.pi), 1), "cube": (3, 15), "relu": (0.5, 0.5)}[link]
    slope = (1 - 2 * flips) * moments[0]
    roots = np.roots([1, -2 * cosine * slope, moments[1] + rho - error])
    close = []
    for root in np.real(roots[np.isreal(roots) & (np.real(roots) > 0)]):
        f = root * (cosine * z + math.sqrt(1 - cosine**2) * rng.standard_normal(count))
        squares = (label - f) ** 2
        spread = np.std(squares) / math.sqrt(count)
        quantile = np.quantile(squares, [0.5, 0.9])
        close.append(
            abs(np.mean(squares) - law.mean) < Z * spread
            and quantile == pytest.approx([law.median, law.quantile(0.9)], rel=0.01)
            and np.mean(np.sqrt(squares)) == pytest.approx(law.absolute, rel=0.005)
            and np.mean(np.log(squares)) == pytest.approx(law.log, abs=0.015)
        )
    assert any(close)


def test_simulated_prompts():
    """Median over mean, extrapolated from two sizes."""
    point = Point(**POINT, rho=0.3)
    ratios = {}
    for dim, repeats in ((10, 60), (20, 60)):
        errors = squared_test_errors(point.at(dim), rng=0, repeats=repeats, test_prompts=2000)
        values = np.median(errors, axis=2) / np.mean(errors, axis=2)
        ratios[dim] = np.mean(values, axis=1), np.std(values, axis=1) / math.sqrt(repeats)
    limit = 2 * ratios[20][0] - ratios[10][0]
    error = np.hypot(2 * ratios[20][1], ratios[10][1])
    # The next order in 1/d may leave some .005.
    assert np.all(np.abs(limit - chi2(1).median()) < Z * error + 0.005)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"ridge": 0.0, "tau": 1},
            "ridge must leave an error that is finite and not 0, got .* inf",
        ),
        ({"rho": 0.0, "alpha": math.inf, "kappa": math.inf, "ridge": 0.0}, "got the error 0"),
        ({"rho": 1e300}, "finite and not 0"),
        ({"link": (0.5, 1.0)}, "more than two moments count"),
        ({"objective": "mean"}, "objective must be one of"),
    ],
)
def test_bad_arguments(changes, message):
    with pytest.raises(ValueError, match=message):
        error_law(**(POINT | {"rho": 0.1} | changes))
    law = error_law(**POINT, rho=0.1)
    with pytest.raises(ValueError, match="probability must be > 0 and < 1, got 1"):
        law.quantile(1)
    with pytest.raises(ValueError, match="prompts must be"):
        law.relative_error(0)


def test_classes_without_noise():
    """Endless prompts, contexts and tasks: the prediction is the best linear one."""
    endless = {"tau": math.inf, "alpha": math.inf, "kappa": math.inf, "rho": 0.0}
    law = error_law(**endless, link="sign")
    z = np.abs(np.random.default_rng(0).standard_normal(1_000_000))
    errors = (1 - math.sqrt(2 / math.pi) * z) ** 2
    assert law.mean == pytest.approx(1 - 2 / math.pi, rel=1e-5)
    assert law.median == pytest.approx(np.median(errors), rel=5e-3)
    assert law.log == pytest.approx(np.mean(np.log(errors)), abs=0.02)
