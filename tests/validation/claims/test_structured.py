"""The claims on structured data can fail: results or theory that are off must turn the verdict."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from judged_claims import drawn, failed, judge

from iclimit.asymptotics.pretraining import FiniteSizeErrors
from iclimit.asymptotics.spectra import Atoms, MarchenkoPastur, SampleCovariance
from iclimit.results import Estimate
from iclimit.runs import Cell
from iclimit.simulate.pretraining import SimulatedErrors
from iclimit.validation import CLAIMS
from iclimit.validation.claims.pretraining import structured_errors, structured_limits
from iclimit.validation.claims.pretraining.structured_points import (
    SIZES,
    StructuredPoint,
    covariances,
    structured_prediction,
)
from iclimit.validation.claims.spectra import eigenvalues as spectra

Results = dict[Cell, Any]

ERROR_CLAIMS = ("structured-tests", "structured-context", "structured-rank", "structured-inputs")
NOISE, REPEATS = 0.01, 40


# Errors.


def point_of(cell: Cell) -> tuple[StructuredPoint, int]:
    """The point of a cell, and its size."""
    given = dict(cell.parameters)
    d = given["dim"]
    words = {name: given[name] for name in ("task", "test", "inputs", "alignment", "test_rho")}
    context = given["test_context"]
    point = StructuredPoint(
        tau=given["prompts"] / d**2,
        alpha=given["context"] / d,
        kappa=given["tasks"] / d,
        rho=given["rho"],
        ridge=given["ridge"],
        test_alpha=None if context is None else context / d,
        **words,
    )
    return point, d


def made_up(name: str) -> Results:
    """Runs and predictions as the theory has them, with 1/d corrections and noise of 1 %.

    In rotated position, where no limit exists, as if inputs were isotropic.
    """
    rng = np.random.default_rng(1)
    results: Results = {}
    for cell in CLAIMS[name].cells("quick"):
        point, d = point_of(cell)
        if point.alignment == "rotated":
            point = replace(point, inputs="isotropic", alignment="same")
        icl, idg = point.theory * (1 + 3 / d)
        if cell.function is structured_prediction:
            results[cell] = FiniteSizeErrors(Estimate(icl, 0.0, 1), Estimate(idg, 0.0, 1))
        else:
            noise = rng.standard_normal((2, REPEATS))
            noise = (noise - noise.mean(axis=1, keepdims=True)) * NOISE + 1
            results[cell] = SimulatedErrors(
                *map(Estimate.of, (icl * noise[0], idg * noise[1])), {}
            )
    return results


@pytest.fixture(scope="module")
def errors() -> dict[str, Results]:
    return {name: made_up(name) for name in ERROR_CLAIMS}


@pytest.mark.parametrize("name", ERROR_CLAIMS)
def test_errors_hold_and_draw(name: str, errors: dict[str, Results]) -> None:
    verdict = judge(name, errors[name])
    assert verdict.holds, failed(verdict)
    labels = [c.label for c in verdict.comparisons]
    assert len(set(labels)) == len(labels)
    assert drawn(verdict) > 10_000


def larger(estimate: Estimate) -> Estimate:
    """The same larger by 15 %."""
    if estimate.samples is None:
        return replace(estimate, mean=1.15 * estimate.mean)
    return Estimate.of(1.15 * estimate.samples)


@pytest.mark.parametrize("name", ERROR_CLAIMS)
@pytest.mark.parametrize("error", ["icl", "idg"])
def test_every_simulated_error_can_fail(name: str, error: str, errors: dict[str, Results]) -> None:
    wrong = {
        cell: replace(run, **{error: larger(getattr(run, error))})
        if isinstance(run, SimulatedErrors)
        else run
        for cell, run in errors[name].items()
    }
    verdict = judge(name, wrong)
    finite = {c.label for c in verdict.comparisons if c.label.startswith(f"{error.upper()} d=")}
    finite = {label for label in finite if "d=inf" not in label}
    assert len(finite) == sum(isinstance(run, SimulatedErrors) for run in wrong.values())
    assert finite <= set(failed(verdict))


@pytest.mark.parametrize("name", ERROR_CLAIMS)
def test_every_limit_can_fail(name: str, errors: dict[str, Results]) -> None:
    """Simulations and predictions that agree with each other, but not with the limit."""
    for error in ("icl", "idg"):
        wrong = {
            cell: replace(result, **{error: larger(getattr(result, error))})
            for cell, result in errors[name].items()
        }
        limits = {c.label for c in judge(name, wrong).comparisons if " d=inf " in c.label}
        missed = {label for label in limits if label.startswith(f"{error.upper()} d=inf")}
        assert missed
        assert set(failed(judge(name, wrong))) >= missed


def test_exchanged_tests_fail(errors: dict[str, Results]) -> None:
    """Runs of aligned tests in place of reversed ones, and inside of outside the span."""
    for name in ("structured-tests", "structured-rank"):
        results = errors[name]
        other = {
            cell: results[Cell.of(cell.function, **dict(cell.parameters) | {"test": "aligned"})]
            if dict(cell.parameters)["test"] == "reversed"
            and cell.function is not structured_prediction
            else result
            for cell, result in results.items()
        }
        found = failed(judge(name, other))
        assert any("above" in label for label in found)
        assert any("ICL d=inf" in label and "reversed" in label for label in found)


def test_a_small_run_agrees_with_its_prediction() -> None:
    """The cells themselves, all covariances at once."""
    point = StructuredPoint(
        tau=2,
        alpha=2,
        kappa=1,
        rho=0.2,
        ridge=0.1,
        task="atoms:0.5,1.5",
        test="reversed",
        inputs="uniform:0.6,1.4",
        alignment="rotated",
        test_alpha=4,
        test_rho=0.4,
    )
    run, prediction = point.cell(16, 24).run(0), point.prediction(16).run(0)
    assert run.repeats == 24
    for found, expected in ((run.icl, prediction.icl), (run.idg, prediction.idg)):
        allowed = 4 * found.standard_error + 0.075 * expected.mean
        assert abs(found.mean - expected.mean) < allowed


def test_covariances_by_hand() -> None:
    found = covariances(16, "atoms:0,2", "reversed", "uniform:0,2", "reversed")
    np.testing.assert_allclose(found["task_covariance"], [0] * 8 + [2] * 8)
    np.testing.assert_allclose(found["test_covariance"], [2] * 8 + [0] * 8)
    levels = np.repeat((np.arange(8) + 0.5) / 4, 2)
    np.testing.assert_allclose(found["input_covariance"], levels[::-1])
    strongest = covariances(8, "powerlaw:0.9", "strongest", "isotropic", "same")
    np.testing.assert_allclose(strongest["test_covariance"], [0] * 7 + [8])
    assert strongest["input_covariance"] is None
    rotated = covariances(16, "isotropic", "aligned", "uniform:0,2", "rotated")
    np.testing.assert_allclose(np.linalg.eigvalsh(rotated["input_covariance"]), levels)
    assert np.max(np.abs(np.triu(rotated["input_covariance"], 1))) > 0.1


def test_spikes_have_the_limit_of_their_level() -> None:
    """All variance in one direction, or spread over the eigenvectors of that eigenvalue."""
    point = replace(structured_errors.POWER_LAW, test="strongest")
    law = point.spectrum
    assert law.weight @ law.test == pytest.approx(1)
    assert law.test[np.argmax(law.task)] == pytest.approx(8)


def test_best_training_context_is_a_minimum() -> None:
    best = structured_errors.best_training_context(structured_errors.FEW)
    assert best < 8
    errors = [replace(structured_errors.FEW, alpha=best * f).theory[0] for f in (0.9, 1.0, 1.1)]
    assert min(errors) == errors[1]


# Limits.


def test_limits_hold_and_draw() -> None:
    verdict = judge("structured-limits", {})
    assert verdict.holds, failed(verdict)
    assert drawn(verdict) > 10_000


def test_wrong_limits_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    exact, errors = structured_limits.lost_variance, structured_limits.structured_errors
    with monkeypatch.context() as patch:
        patch.setattr(structured_limits, "lost_variance", lambda *a: 1.01 * exact(*a))
        found = failed(judge("structured-limits", {}))
        assert len(found) == 8
        assert all("kappa=0.5" in label for label in found)

    def off(**setting: Any) -> Any:
        found = errors(**setting)
        return replace(found, icl=found.icl * (1 + 1e-5), idg=found.idg * (1 + 1e-11))

    monkeypatch.setattr(structured_limits, "structured_errors", off)
    found = failed(judge("structured-limits", {}))
    assert sum("isotropic" in label for label in found) == 4
    assert any("alpha = 1 tau" in label for label in found)


def test_lost_variance_of_simulated_projections() -> None:
    """Against the mean over sets of tasks at d = 200."""
    rng, d = np.random.default_rng(3), 200
    given = covariances(d, structured_limits.TASKS, "reversed", "isotropic", "same")
    C, test = given["task_covariance"], given["test_covariance"]
    lost = []
    for _ in range(20):
        tasks = rng.standard_normal((d // 2, d)) * np.sqrt(C)
        basis = np.linalg.qr(tasks.T)[0]
        lost.append(np.mean(test * (1 - np.sum(basis**2, axis=1))))
    expected = structured_limits.lost_variance(0.5, "reversed")
    # Deviations of O(1/d) from the deterministic equivalent.
    error = np.std(lost, ddof=1) / math.sqrt(20)
    assert abs(np.mean(lost) - expected) < 4 * error + expected / d


# Spectra.


def once(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same with a memory; the text of a law tells it apart from the others of the claims."""
    known: dict[str, Any] = {}

    def remembered(*args: Any) -> Any:
        if repr(args) not in known:
            known[repr(args)] = function(*args)
        return known[repr(args)]

    return remembered


@pytest.fixture(scope="module")
def matrices() -> Iterator[Results]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spectra, "EIGENVALUES", {"quick": 3000})
        patch.setattr(spectra, "SIZES", (24, 32, 48, 64))
        # The limits are the same whatever is judged.
        for name in ("all_statistics", "linear_statistics", "product_eta"):
            patch.setattr(spectra, name, once(getattr(spectra, name)))
        names = ("spectra-samples", "spectra-free")
        yield {cell: cell.run(0) for name in names for cell in CLAIMS[name].cells("quick")}


@pytest.mark.parametrize("name", ["spectra-samples", "spectra-free"])
def test_spectra_hold_and_draw(name: str, matrices: Results) -> None:
    verdict = judge(name, matrices)
    assert verdict.holds, failed(verdict)
    assert sum("edge" in c.label for c in verdict.comparisons) == 4
    assert drawn(verdict) > 10_000


@pytest.mark.parametrize(
    ("name", "function", "field"),
    [
        ("spectra-samples", spectra.sample_eigenvalues, {"covariance": "atoms:1,8"}),
        ("spectra-samples", spectra.sample_eigenvalues, {"covariance": "powerlaw:0.9"}),
        ("spectra-free", spectra.rotated_eigenvalues, {"operation": "sum"}),
        ("spectra-free", spectra.rotated_eigenvalues, {"operation": "product"}),
    ],
)
def test_scaled_eigenvalues_fail(
    name: str, function: Any, field: dict[str, str], matrices: Results
) -> None:
    wrong = {
        cell: result * 1.1
        if cell.function is function and field.items() <= dict(cell.parameters).items()
        else result
        for cell, result in matrices.items()
    }
    assert failed(judge(name, wrong))  # and nothing without: test_spectra_hold_and_draw


@pytest.mark.parametrize("name", ["spectra-samples", "spectra-free"])
def test_every_edge_can_fail(name: str, matrices: Results) -> None:
    edges = [c for c in judge(name, matrices).comparisons if "edge" in c.label]
    wrong = {}
    for cell, result in matrices.items():
        d = result.shape[1]
        moved = result.copy()
        for edge, place in zip(edges, (0, d // 2 - 1, d // 2, d - 1), strict=True):
            moved[:, place] += 8 * edge.standard_error
        wrong[cell] = moved
    assert {edge.label for edge in edges} <= set(failed(judge(name, wrong)))


def test_edge_shifts_of_marchenko_pastur() -> None:
    """Johnstone's centring and scaling (Ann. Stat. 29, 295) to leading order."""
    ratio, d = 0.25, 400
    n = d / ratio
    for law in (MarchenkoPastur(ratio), SampleCovariance(Atoms([1.0]), ratio)):
        found = spectra.edge_shifts(law) * d ** (-2 / 3)
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
    slope = (1 - spectra.product_eta(first, second, gamma)) / gamma
    assert slope == pytest.approx(1.25 * 2.5, rel=1e-3)
    # A point mass scales.
    scaled = spectra.product_eta(first, Atoms([3.0]), 0.7)
    assert scaled == pytest.approx(float(first.eta_transform(2.1)), rel=1e-9)


def test_sizes_are_multiples_of_the_levels() -> None:
    for preset in ("quick", "full"):
        assert all(d % 8 == 0 for d in SIZES[preset])
