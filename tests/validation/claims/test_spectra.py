"""Statistics of eigenvalues: edges that move, limits by size, and laws with known values."""

import math

import pytest

from iclimit.asymptotics.spectra import Atoms, MarchenkoPastur, SampleCovariance
from iclimit.validation.claims.spectra import free_convolution, matrices
from iclimit.validation.claims.spectra.sample_covariance import Population, sample_eigenvalues


@pytest.fixture(scope="module")
def eigenvalues():
    law = {"covariance": "atoms:1,8", "ratio": 0.2}
    return {d: sample_eigenvalues(**law, dim=d, count=2000 // d, rng=d) for d in matrices.SIZES}


def test_every_edge_can_fail(eigenvalues):
    statistics = Population("two levels", "atoms:1,8", 0.2, (1.0, 7.0)).statistics

    def edges(drawn):
        fit = matrices.fit_deviations(statistics, drawn)
        rows = matrices.compare_statistics("two levels", statistics, fit)
        return [row for row in rows if "edge" in row.label]

    right = edges(eigenvalues)
    assert len(right) == 4
    assert all(abs(row.z) < 4 for row in right)
    moved = {dim: drawn.copy() for dim, drawn in eigenvalues.items()}
    for dim, drawn in moved.items():
        for row, rank in zip(right, (0, dim // 2 - 1, dim // 2, dim - 1), strict=True):
            drawn[:, rank] += 8 * row.standard_error
    assert all(row.z > 4 for row in edges(moved))


def test_theory_and_estimate_are_combined_alike(eigenvalues):
    """The estimate does not know the theory, though the limits depend on the size."""
    rows = []
    for limit in (0.01, 0.02):
        statistics = {d: {"x": (matrices.mean_eta(1), d * limit, "f")} for d in matrices.SIZES}
        fit = matrices.fit_deviations(statistics, eigenvalues)
        rows.append(matrices.compare_statistics("power law", statistics, fit)[0])
    right, wrong = rows
    assert wrong.estimate == pytest.approx(right.estimate, rel=1e-12)
    assert wrong.theory == pytest.approx(2 * right.theory, rel=1e-12)


def test_edge_shifts_of_marchenko_pastur():
    """Johnstone's centring and scaling (Ann. Stat. 29, 295) to leading order."""
    ratio = 0.25
    d = 400
    n = d / ratio
    for law in (MarchenkoPastur(ratio), SampleCovariance(Atoms([1.0]), ratio)):
        found = matrices.edge_shifts(law) * d ** (-2 / 3)
        lower, upper = (
            (math.sqrt(n) + sign * math.sqrt(d))
            * (1 / math.sqrt(d) + sign / math.sqrt(n)) ** (1 / 3)
            / n
            for sign in (-1, 1)
        )
        assert found == pytest.approx([1.2065336 * lower, -1.2065336 * upper], rel=1e-4)


def test_products_of_free_laws_have_their_moments():
    """The mean of a product is the product of means, as eta' at 0 says."""
    first = Atoms([0.5, 2.0])
    second = Atoms([1.0, 4.0])
    gamma = 1e-5
    slope = (1 - free_convolution.product_eta(first, second, gamma)) / gamma
    assert slope == pytest.approx(1.25 * 2.5, rel=1e-3)
    # A point mass scales.
    scaled = free_convolution.product_eta(first, Atoms([3.0]), 0.7)
    assert scaled == pytest.approx(float(first.eta_transform(2.1)), rel=1e-9)
