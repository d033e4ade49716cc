"""The optimal ridge against a dense grid of ridges."""

import math

import numpy as np
import pytest
from stationary import assert_least

from iclimit.asymptotics.pretraining import icl_error, idg_error, optimal_ridge, ridge_slope

ERRORS = {"icl": icl_error, "idg": idg_error}
GRID = np.concatenate([[0.0], np.geomspace(1e-10, 1e12, 22_001)])  # 1000 per decade
# Neighbours differ by 0.23 %, so the grid misses a quadratic minimum by its square; measured 7e-8.
GRID_RESOLUTION = 1e-6
ROUNDING = 1e-12

POINTS = [
    {"tau": 1.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1},
    {"tau": 0.3, "alpha": 10.0, "kappa": 2.0, "rho": 0.5},
    {"tau": 20.0, "alpha": 0.5, "kappa": 0.1, "rho": 0.0},
    {"tau": 1.6, "alpha": 100.0, "kappa": 0.9, "rho": 0.01},
    {"tau": math.inf, "alpha": 1.0, "kappa": 0.5, "rho": 0.1},
    {"tau": 1.6, "alpha": math.inf, "kappa": 0.5, "rho": 0.1},
    {"tau": 1.6, "alpha": 1.0, "kappa": math.inf, "rho": 0.1},
    # Little context and data: the best ridge is of order (1 + rho)(1 + q)^2/tau = 1e9.
    {"tau": 0.0137, "alpha": 0.0017, "kappa": 20.0, "rho": 4.5},
]


@pytest.mark.parametrize("objective", ["icl", "idg"])
@pytest.mark.parametrize("point", POINTS)
def test_no_ridge_of_a_dense_grid_is_better(point, objective):
    best = optimal_ridge(**point, objective=objective)
    brute = np.min(ERRORS[objective](**point, ridge=GRID))
    assert brute * (1 - GRID_RESOLUTION) <= best.error <= brute * (1 + ROUNDING)


@pytest.mark.parametrize("objective", ["icl", "idg"])
@pytest.mark.parametrize("point", POINTS)
def test_error_belongs_to_the_ridge_and_rises_on_both_sides(point, objective):
    best = optimal_ridge(**point, objective=objective)
    error = ERRORS[objective](**point, ridge=best.ridge)
    assert error == pytest.approx(best.error, rel=ROUNDING)
    for factor in (0.9, 1.1):
        if best.ridge > 0:
            nearby = ERRORS[objective](**point, ridge=factor * best.ridge)
            assert nearby >= best.error * (1 - ROUNDING)


def test_no_ridge_where_every_ridge_hurts():
    for objective, point in (
        ("icl", {"tau": 3000.0, "alpha": 2.0, "kappa": 3.0, "rho": 1.4}),
        ("icl", {"tau": 14.0, "alpha": 32.0, "kappa": 9.0, "rho": 0.0}),
        ("idg", {"tau": 0.11, "alpha": 0.05, "kappa": 0.0024, "rho": 0.0}),
        ("idg", {"tau": math.inf, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}),
    ):
        best = optimal_ridge(**point, objective=objective)
        assert best.ridge == 0
        assert best.error == ERRORS[objective](**point)
        assert np.all(np.diff(ERRORS[objective](**point, ridge=np.geomspace(1e-3, 1e3, 50))) > 0)


@pytest.mark.parametrize("objective", ["icl", "idg"])
def test_zero_exactly_where_a_small_ridge_hurts(objective):
    rng = np.random.default_rng(3)
    scales = {"tau": (-1.5, 1.5), "alpha": (-1.5, 2.5), "kappa": (-1.5, 1.5), "rho": (-3, 1)}
    points = {name: 10 ** rng.uniform(*ends, 3000) for name, ends in scales.items()}
    points["rho"][::5] = 0
    hurts = ridge_slope(**points, objective=objective) > 0
    assert np.array_equal(optimal_ridge(**points, objective=objective).ridge == 0, hurts)


@pytest.mark.parametrize("objective", ["icl", "idg"])
@pytest.mark.parametrize(
    "point",
    [
        {"tau": 0.8, "alpha": 4.0, "kappa": 0.7, "rho": 0.2},
        {"tau": 2.2, "alpha": 1.5, "kappa": 2.5, "rho": 0.6},
    ],
)
def test_best_ridge_is_stationary(point, objective):
    best = optimal_ridge(**point, objective=objective)
    assert_least(lambda ridge: ERRORS[objective](**point, ridge=ridge), [best.ridge], best.error)
