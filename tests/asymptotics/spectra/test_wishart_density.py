"""The exact Wishart density and its rule against Pfaffians, exact moments and special cases."""

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from iclimit.asymptotics.gdpp import oracle_risk, ridge_risk
from iclimit.asymptotics.spectra import MarchenkoPastur, Wishart, largest_eigenvalue_cdf
from iclimit.asymptotics.spectra.wishart_eigenvalues import (
    eigenvalue_rule,
    largest_eigenvalue_tail,
    wishart_density,
)

# Recursions of ten to sixteen steps; measured worst 2e-14.
DENSITY = 1e-12
# Measured worst 2e-15 up to 20 x 10; the logarithm of a Gamma function of 1000 costs 2e-13.
RULE = 1e-12
# The same at 300 x 300, where logarithms of Gamma functions cost 1e-12.
LARGE_RULE = 1e-11

SIZES = [(1, 1), (7, 1), (1, 7), (2, 2), (3, 2), (5, 5), (9, 4), (10, 20), (20, 10), (12, 11)]


with open(Path(__file__).parent / "tables" / "wishart.csv", newline="") as _file:
    ROWS = [
        (row["kind"], int(row["context"]), int(row["dim"]), float(row["point"]), row["value"])
        for row in csv.DictReader(_file)
    ]


@pytest.mark.parametrize(
    ("context", "dim", "x", "exact"), [row[1:] for row in ROWS if row[0] == "density"]
)
def test_density_is_the_derivative_of_a_pfaffian(context, dim, x, exact):
    found = wishart_density(x, context=context, dim=dim)
    assert found == pytest.approx(float(exact), rel=DENSITY)


def test_one_column_is_chi_square():
    x = np.geomspace(1e-8, 1e2, 41)
    expected = 30 * stats.chi2(30).pdf(30 * x)
    np.testing.assert_allclose(wishart_density(x, context=30, dim=1), expected, rtol=1e-11)


@pytest.mark.parametrize(("context", "dim"), [(20, 10), (9, 4), (7, 7)])
def test_far_tail_is_that_of_the_largest_eigenvalue(context, dim):
    # Two eigenvalues beyond the point are less likely than 1e-9 of one.
    start = 8.0 if context > dim else 12.0
    x = np.linspace(start, start + 12, 4001)
    step = x[1] - x[0]
    density = wishart_density(x, context=context, dim=dim) * dim
    tail = (
        step / 3 * (density[0] + density[-1] + 4 * sum(density[1::2]) + 2 * sum(density[2:-1:2]))
    )
    assert tail == pytest.approx(float(largest_eigenvalue_tail(start, context, dim)), rel=1e-6)


def test_rule_has_the_exact_moments():
    for context, dim in (*SIZES, (1000, 1), (60, 30), (200, 100), (100, 100)):
        nodes, weights = eigenvalue_rule(context, dim)
        assert np.all(weights >= 0)
        assert weights.sum() == pytest.approx(min(context, dim), rel=RULE)
        law = Wishart(context=context, dim=dim)
        for k in (1, 2, 3):
            exact = float(law.moment(k) * dim * context**k)
            assert weights @ nodes**k == pytest.approx(exact, rel=RULE)


def test_rule_at_large_sizes():
    nodes, weights = eigenvalue_rule(300, 300)
    assert weights.sum() == pytest.approx(300, rel=LARGE_RULE)
    assert weights @ nodes == pytest.approx(300**2, rel=LARGE_RULE)


def test_rule_has_the_exact_inverse_moments():
    """E tr S^-1 and E tr S^-2 of an inverse Wishart matrix (von Rosen 1988)."""
    for context, dim in ((20, 10), (10, 20), (12, 10), (3, 1), (13, 10), (14, 10), (200, 100)):
        nodes, weights = eigenvalue_rule(context, dim)
        size = min(context, dim)
        excess = abs(context - dim)
        assert weights @ (1 / nodes) == pytest.approx(size / (excess - 1), rel=RULE)
        if excess > 3:
            large = max(context, dim)
            exact = size * (large - 1) / (excess * (excess - 1) * (excess - 3))
            assert weights @ nodes**-2 == pytest.approx(exact, rel=RULE)


@pytest.mark.parametrize(
    ("context", "dim", "shift", "exact"), [row[1:] for row in ROWS if row[0] == "resolvent"]
)
def test_resolvent_against_multiprecision_quadrature(context, dim, shift, exact):
    nodes, weights = eigenvalue_rule(context, dim)
    assert weights @ (1 / (nodes + shift)) == pytest.approx(float(exact), rel=RULE)


def test_approaches_the_marchenko_pastur_law():
    x = np.linspace(0.3, 2.5, 12)
    limit = MarchenkoPastur(0.5).density(x)
    errors = [
        np.max(np.abs(wishart_density(x, context=2 * d, dim=d) - limit)) for d in (20, 80, 320)
    ]
    # Oscillations of relative order 1/d in the bulk; measured 1.9e-2, 4.7e-3, 1.3e-3.
    assert errors[2] < 2e-3
    assert errors[0] > 3 * errors[1] > 9 * errors[2]


def test_zero_off_the_positive_axis_and_broadcasting():
    found = wishart_density([[-1.0, 0.0], [0.5, 1.0]], context=6, dim=3)
    assert found.shape == (2, 2)
    assert np.all(found[0] == 0)
    assert found[1, 0] == wishart_density(0.5, context=6, dim=3)


@pytest.mark.parametrize(
    "compute",
    [
        lambda: wishart_density(1.0, context=10**7, dim=10**7),
        lambda: ridge_risk(1.0, noise_variance=1.0, context=10**6, dim=10**4),
        lambda: ridge_risk(1.0, noise_variance=1.0, context=10**12, dim=10**12),
        lambda: oracle_risk("uniform:1", context=10**6, dim=10**6),
        lambda: largest_eigenvalue_cdf(1.0, context=359, dim=263),
    ],
)
def test_what_would_take_minutes_is_refused(compute):
    with pytest.raises(ArithmeticError, match="context and dim must be"):
        compute()


def test_long_contexts_of_small_dimensions_are_not_refused():
    """Least squares, whose losses are d/(N - d - 1)/2."""
    found = ridge_risk(0.0, noise_variance=1.0, context=10**6, dim=10)
    assert found == pytest.approx(10 / (10**6 - 11) / 2, rel=1e-9)
