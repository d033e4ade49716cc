"""The claims on isotropic data can fail: errors that are off must turn the verdict."""

from typing import Any

import pytest
from judged_claims import Results, drawn, failed
from made_up_errors import larger, made_up

from iclimit.asymptotics.pretraining import FiniteSizeErrors
from iclimit.results import Estimate
from iclimit.simulate.pretraining import SimulatedErrors
from iclimit.validation import CLAIMS

NAMES = ("ridgeless", "ridge", "double-descent", "context-length", "nonmonotonicity")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("preset", ["quick", "full"])
def test_errors_hold_and_draw_and_can_fail(name: str, preset: Any) -> None:
    claim, results = CLAIMS[name], made_up(name, preset)
    verdict = claim.judge(preset, results)
    assert verdict.holds, failed(verdict)
    assert drawn(verdict) > 10_000
    points = sum(kind == "simulated" for kind, *_ in results)
    for error in ("icl", "idg"):
        wrong = failed(claim.judge(preset, larger(results, error, "simulated")))
        found = [each for each in wrong if each.startswith(f"{error.upper()} d=")]
        assert len([each for each in found if "d=inf" not in each]) == points


def test_published_errors_are_compared_with_the_prediction_and_in_full_with_ours() -> None:
    results: Results = {}
    for kind, point, dim in CLAIMS["published"].cells_by_key("full"):
        icl, idg = float(point.limit.icl), float(point.limit.idg)
        if kind == "predicted":
            results[kind, point, dim] = FiniteSizeErrors(Estimate(icl, 0, 1), Estimate(idg, 0, 1))
        else:
            runs = [Estimate.of([0.9 * x, x, 1.1 * x]) for x in (icl, idg)]
            results[kind, point, dim] = SimulatedErrors(runs[0], runs[1], {})
    labels = [c.label for c in CLAIMS["published"].judge("full", results).comparisons]
    assert len(set(labels)) == len(labels)
    assert sum("against ours d=100" in label for label in labels) == 46
    assert sum(label.startswith("published I") and "ours" not in label for label in labels) == 46
    assert sum("ICL-IDG against ours" in label for label in labels) == 18
