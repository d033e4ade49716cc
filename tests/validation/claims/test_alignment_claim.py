"""The claims on alignment and derivations can fail: wrong formulas must turn the verdict."""

import math

import pytest
from judged_claims import draw, failed, judge, off, run_cells

from iclimit.validation.claims.pretraining import alignment, derivations


@pytest.mark.slow
def test_derivations_hold_and_wrong_ones_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judge("derivations", {})
    assert verdict.holds, failed(verdict)
    draw(verdict)
    monkeypatch.setattr(derivations, "number", off(derivations.number, 1 + 1e-7))
    assert len(failed(judge("derivations", {}))) == len(verdict.comparisons)


def test_samples_hold_and_wrong_ones_fail() -> None:
    results = run_cells("task-alignment")
    verdict = judge("task-alignment", results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    assert max(verdict.resolutions.values()) < 0.005
    wrong = {key: 1.005 * run for key, run in results.items()}
    assert sum("common factor" in label for label in failed(judge("task-alignment", wrong))) == 3


def test_roots_of_the_resolvent() -> None:
    """One eigenvalue: the resolvent of the Marchenko-Pastur law."""
    x, kappa = 0.7, 1.5
    equation = alignment.derive_resolvent().steps[2][1]
    roots = alignment.real_roots(equation, "M", x=x, kappa=kappa)
    a, b = x / kappa, x + 1 - 1 / kappa
    assert max(roots) == pytest.approx((-b + math.sqrt(b**2 + 4 * a)) / (2 * a), rel=1e-12)
