"""Worth of a sequence by SciPy's integrals; searches by going back and by neighbours."""

import math

import numpy as np
import pytest
from scipy.integrate import dblquad, quad

from iclimit.asymptotics.pretraining import (
    all_position_errors,
    optimal_sequence_ridge,
    sequence_worth,
    sequences_needed,
)


def integrated_efficiency(alpha, alpha_min, rho, normalization):
    """Sum of the variances of the gradients of single positions over that of their sum."""
    v = 1 + rho
    mean = normalization == "mean"

    def p(a):
        return 1.0 if mean else a / alpha

    def square(a):
        return p(a) ** 2 * (1 + v / a)

    ends = (alpha_min, alpha)
    c = quad(p, *ends)[0] / quad(square, *ends)[0]

    def own(a):
        return (rho + 1 - 2 * c * p(a) + c**2 * square(a)) * square(a)

    def both(a, b):
        product = p(a) * p(b)
        missed = (1 - c * p(a)) * (1 - c * p(b)) + c**2 * product * v / b
        nested = c * (1 / b if mean else 1 / alpha) * (1 - c * p(a) + rho)
        return product * (1 + v / b) * (missed - nested)

    alone = quad(own, *ends)[0]
    pairs = dblquad(both, *ends, alpha_min, lambda b: b)[0]
    return alone / (alone + 2 * pairs)


@pytest.mark.parametrize(
    ("alpha", "alpha_min", "rho", "normalization"),
    [(1, 0.25, 0.1, "mean"), (8, 0.5, 0.3, "mean"), (2, 0, 0.1, "length"), (5, 1, 0, "length")],
)
def test_worth_by_integrals(alpha, alpha_min, rho, normalization):
    setting = {"alpha": alpha, "alpha_min": alpha_min, "rho": rho, "normalization": normalization}
    worth = sequence_worth(**setting)
    assert worth.efficiency == pytest.approx(integrated_efficiency(**setting), rel=1e-8)
    assert worth.prompts == pytest.approx(float(worth.efficiency) * (alpha - alpha_min))


def test_short_windows_are_worth_a_prompt_a_query():
    worth = sequence_worth(alpha=1.0, alpha_min=1 - 1e-6, rho=0.1)
    assert worth.efficiency == pytest.approx(1, abs=1e-5)


def test_the_best_ridge_has_no_better_neighbour():
    setting = {"sequence_ratio": 2.0, "alpha": 2.0, "rho": 0.1, "normalization": "length"}
    best = optimal_sequence_ridge(**setting)
    ridges = np.exp(np.linspace(-1, 1, 21)) * best.ridge
    errors = all_position_errors(ridge=ridges, **setting).mean_icl
    assert best.error <= errors.min() * (1 + 1e-7)
    assert np.argmin(errors) in {9, 10, 11}
    # Numbers of another program, to two digits.
    expected = {0.5: 2.2, 1: 0.97, 2: 0.38, 4: 0.14}
    found = optimal_sequence_ridge(**setting | {"sequence_ratio": list(expected)}).ridge
    np.testing.assert_allclose(found, list(expected.values()), rtol=0.03)


@pytest.mark.slow
def test_the_best_ridge_for_the_pretraining_tasks():
    setting = {"sequence_ratio": 2.0, "alpha": 2.0, "kappa": 0.5, "rho": 0.1}
    setting |= {"alpha_min": 0.5}
    best = optimal_sequence_ridge(objective="idg", **setting)
    near = all_position_errors(ridge=best.ridge * np.array([0.8, 1.25]), **setting).mean_idg
    assert np.all(best.error < near)


def test_sequences_reach_the_error():
    setting = {"alpha": 2.0, "rho": 0.1, "normalization": "length"}
    needed = sequences_needed(target_error=0.8, **setting)
    reached = optimal_sequence_ridge(sequence_ratio=needed, **setting).error
    assert reached == pytest.approx(0.8, rel=1e-4)


@pytest.mark.slow
def test_errors_out_of_reach():
    """No number of sequences has .2 here, and predicting 0 has 1.1."""
    setting = {"alpha": 1.0, "rho": 0.1, "normalization": "length"}
    assert sequences_needed(target_error=0.2, **setting) == math.inf
    assert sequences_needed(target_error=5.0, **setting) == 0
