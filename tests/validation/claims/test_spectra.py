"""The claims on spectra can fail: eigenvalues that are off must turn the verdict."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from judged_claims import Results, draw, failed, judge, off, run_cells

from iclimit.asymptotics.spectra import Atoms, MarchenkoPastur, SampleCovariance
from iclimit.validation.claims.spectra import free_convolution, matrices, sample_covariance
from iclimit.validation.claims.spectra.sample_covariance import POPULATIONS

CLAIMS = ("spectra-samples", "spectra-free")


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same with a memory; the text of a law tells it apart from the others of the claims."""
    known: dict[str, Any] = {}

    def remembered(*args: Any) -> Any:
        if repr(args) not in known:
            known[repr(args)] = function(*args)
        return known[repr(args)]

    return remembered


@pytest.fixture(scope="module")
def drawings() -> Iterator[dict[str, Results]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(matrices, "EIGENVALUES", {"quick": 3000})
        patch.setattr(matrices, "SIZES", (24, 32, 48, 64))
        patch.setattr(sample_covariance, "FEW_MATRICES", {"quick": 4000})
        # The limits are the same whatever is judged.
        for module, name in (
            (matrices, "all_statistics"),
            (matrices, "linear_statistics"),
            (free_convolution, "product_eta"),
        ):
            patch.setattr(module, name, once(getattr(module, name)))
        yield {name: run_cells(name) for name in CLAIMS}


@pytest.mark.parametrize("name", CLAIMS)
def test_spectra_hold_and_draw(name: str, drawings: dict[str, Results]) -> None:
    verdict = judge(name, drawings[name])
    assert verdict.holds, failed(verdict)
    assert sum("edge" in c.label for c in verdict.comparisons) == 4
    draw(verdict)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        *(("spectra-samples", population.name) for population in POPULATIONS),
        *(("spectra-free", operation) for operation in free_convolution.MATRICES),
    ],
)
def test_scaled_eigenvalues_fail(name: str, first: Any, drawings: dict[str, Results]) -> None:
    wrong = {
        key: result * 1.1 if key[0] == first else result for key, result in drawings[name].items()
    }
    assert failed(judge(name, wrong))  # and nothing without: test_spectra_hold_and_draw


@pytest.mark.parametrize("name", CLAIMS)
def test_every_edge_can_fail(name: str, drawings: dict[str, Results]) -> None:
    edges = [c for c in judge(name, drawings[name]).comparisons if "edge" in c.label]
    wrong = {}
    for (law, dim), result in drawings[name].items():
        moved = result.copy()
        for edge, rank in zip(edges, (0, dim // 2 - 1, dim // 2, dim - 1), strict=True):
            moved[:, rank] += 8 * edge.standard_error
        wrong[law, dim] = moved
    assert {edge.label for edge in edges} <= set(failed(judge(name, wrong)))


@pytest.mark.parametrize("name", ["wishart_density", "wishart_moment", "wishart_resolvent"])
def test_a_wrong_theory_of_isotropic_populations_fails(
    name: str, drawings: dict[str, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    results = drawings["spectra-samples"]
    monkeypatch.setattr(sample_covariance, name, off(getattr(sample_covariance, name), 1.05))
    found = failed(judge("spectra-samples", results))
    assert f"with {name}" in " ".join(found)


def test_theory_and_estimate_are_combined_alike(drawings: dict[str, Results]) -> None:
    """The estimate does not know the theory, though the limits depend on the size."""
    (right, *_), (wrong, *_) = (
        matrices.compare_statistics(
            {
                "power law": {
                    d: {"x": (matrices.mean_eta(1), d * limit, "f")} for d in matrices.SIZES
                }
            },
            drawings["spectra-samples"],
        )[0]
        for limit in (0.01, 0.02)
    )
    assert wrong.estimate == pytest.approx(right.estimate, rel=1e-12)
    assert wrong.theory == pytest.approx(2 * right.theory, rel=1e-12)


def test_edge_shifts_of_marchenko_pastur() -> None:
    """Johnstone's centring and scaling (Ann. Stat. 29, 295) to leading order."""
    ratio, d = 0.25, 400
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


def test_products_of_free_laws_have_their_moments() -> None:
    """The mean of a product is the product of means, as eta' at 0 says."""
    first, second = Atoms([0.5, 2.0]), Atoms([1.0, 4.0])
    gamma = 1e-5
    slope = (1 - free_convolution.product_eta(first, second, gamma)) / gamma
    assert slope == pytest.approx(1.25 * 2.5, rel=1e-3)
    # A point mass scales.
    scaled = free_convolution.product_eta(first, Atoms([3.0]), 0.7)
    assert scaled == pytest.approx(float(first.eta_transform(2.1)), rel=1e-9)
