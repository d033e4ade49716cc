"""The claims on structured data can fail: results or theory that are off must turn the verdict."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from judged_claims import Results, draw, failed, judge, off, run_cells
from made_up_errors import larger, made_up

from iclimit.validation.claims.pretraining import (
    structured_context,
    structured_directions,
    structured_limits,
    structured_tests,
)
from iclimit.validation.claims.pretraining.structured_points import (
    SIZES,
    StructuredPoint,
    covariances,
)

ERROR_CLAIMS = ("structured-tests", "structured-context", "structured-rank", "structured-inputs")


# Errors.


@pytest.fixture(scope="module")
def errors() -> dict[str, Results]:
    return {name: made_up(name) for name in ERROR_CLAIMS}


@pytest.mark.parametrize("name", ERROR_CLAIMS)
def test_errors_hold_and_draw(name: str, errors: dict[str, Results]) -> None:
    verdict = judge(name, errors[name])
    assert verdict.holds, failed(verdict)
    labels = [c.label for c in verdict.comparisons]
    assert len(set(labels)) == len(labels)
    draw(verdict)


@pytest.mark.parametrize("name", ERROR_CLAIMS)
@pytest.mark.parametrize("error", ["icl", "idg"])
def test_every_simulated_error_can_fail(name: str, error: str, errors: dict[str, Results]) -> None:
    verdict = judge(name, larger(errors[name], error, "simulated"))
    finite = {
        c.label
        for c in verdict.comparisons
        if c.label.startswith(f"{error.upper()} d=") and "d=inf" not in c.label
    }
    assert finite
    assert finite <= set(failed(verdict))


@pytest.mark.parametrize("name", ERROR_CLAIMS)
@pytest.mark.parametrize("error", ["icl", "idg"])
def test_every_limit_can_fail(name: str, error: str, errors: dict[str, Results]) -> None:
    """Simulations and predictions that agree with each other, but not with the limit."""
    verdict = judge(name, larger(errors[name], error, "simulated", "predicted"))
    start = f"{error.upper()} d=inf"
    limits = {c.label for c in verdict.comparisons if c.label.startswith(start)}
    assert limits
    assert limits <= set(failed(verdict))


def test_exchanged_tests_fail(errors: dict[str, Results]) -> None:
    """Runs of aligned tests in place of reversed ones, and inside of outside the span."""
    for name in ("structured-tests", "structured-rank"):
        results = errors[name]
        other = {
            (kind, point, dim): results.get((kind, replace(point, test="aligned"), dim), result)
            if kind == "simulated"
            else result
            for (kind, point, dim), result in results.items()
        }
        assert any("above" in label for label in failed(judge(name, other)))


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
    run, prediction = point.simulation(16, 24).run(0), point.prediction(16, 60).run(0)
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
    point = replace(structured_tests.POWER_LAW, test="strongest")
    law = point.spectrum
    assert law.weight @ law.test == pytest.approx(1)
    assert law.test[np.argmax(law.task)] == pytest.approx(8)


def test_best_training_context_is_a_minimum() -> None:
    best = structured_context.best_training_context(structured_context.FEW)
    assert best < 8
    errors = [replace(structured_context.FEW, alpha=best * f).limit.icl for f in (0.9, 1.0, 1.1)]
    assert min(errors) == errors[1]


# Directions.


@pytest.mark.slow
def test_wrong_directions_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    results = run_cells("structured-directions")
    verdict = judge("structured-directions", results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    slopes = off(structured_directions.direction_slopes, 1.03)
    monkeypatch.setattr(structured_directions, "direction_slopes", slopes)
    assert "direction_slopes" in "".join(failed(judge("structured-directions", results)))


# Limits.


def test_limits_hold_and_draw() -> None:
    verdict = judge("structured-limits", {})
    assert verdict.holds, failed(verdict)
    draw(verdict)


def test_wrong_limits_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = structured_limits.structured_errors
    with monkeypatch.context() as patch:
        wrong = off(structured_limits.lost_variance, 1.01)
        patch.setattr(structured_limits, "lost_variance", wrong)
        found = failed(judge("structured-limits", {}))
        assert len(found) == 8
        assert all("kappa=0.5" in label for label in found)

    def wrong_errors(**setting: Any) -> Any:
        found = errors(**setting)
        return replace(found, icl=found.icl * (1 + 1e-5), idg=found.idg * (1 + 1e-11))

    monkeypatch.setattr(structured_limits, "structured_errors", wrong_errors)
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


def test_sizes_are_multiples_of_the_levels() -> None:
    assert all(d % 8 == 0 for sizes in SIZES.values() for d in sizes)
