"""Do plans keep what they promise?

``python -m benchmarks.plan_power`` plans runs for some questions and simulates what each plan
proposes two hundred times.  In every play the theory that is not true is to be excluded: the
contrast of the mean errors is further from what it predicts than so many standard errors plus the
uncertainty of the prediction.  The share of plays in which it is should be the power that was
promised; its standard error is 2 points.  A precision is promised for a prediction that is off by
its whole uncertainty, so that more plays than promised may be right.  ``--write`` keeps the output
in ``benchmarks/plan_power.txt``.
"""

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from iclimit import plan_runs
from iclimit.simulate.pretraining import simulate_errors
from iclimit.tables import aligned
from iclimit.validation.instruments.plan.plan import Proposal
from iclimit.validation.instruments.plan.points import PlannedRun

OUTPUT = Path(__file__).with_suffix(".txt")
PLAYS = 200
SETTING = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.2, "ridge": 0.1}
OTHER = SETTING | {"kappa": 2.0}
USUAL: dict[str, Any] = {"significance": 3.0, "power": 0.9}

# Questions, with settings that are true and dimensions that are tried.
QUESTIONS: dict[str, dict[str, Any]] = {
    "precision of 6 %": {
        **{"question": "precision", **SETTING, "effect": 0.06, "power": 0.9},
        **{"dim": [12, 16, 20, 24]},
    },
    "kappa is 0.5, not 2": {
        **{"question": "theories", **SETTING, **USUAL, "against": {"kappa": 2.0}},
        **{"dim": [12, 16]},
    },
    "kappa is 2, not 0.5": {
        **{"question": "theories", **OTHER, **USUAL, "against": {"kappa": 0.5}},
        **{"dim": [12, 16]},
    },
    "kappa by the gap of ICL and IDG": {
        **{"question": "theories", **SETTING, **USUAL, "against": {"kappa": 0.75}},
        **{"quantity": "gap", "dim": [12, 16]},
    },
    "linear attention, not dMMSE": {
        **{"question": "theories", **SETTING, **USUAL, "against": "dmmse"},
        **{"dim": [12, 16, 20]},
    },
    "longer contexts are better": {
        **{"question": "difference", **SETTING, **USUAL, "against": {"alpha": 2.0}},
        **{"dim": [16, 20]},
    },
    "tests alone have longer contexts": {
        **{"question": "difference", **SETTING, **USUAL, "against": {"test_alpha": 1.25}},
        **{"significance": 6.5, "dim": [16, 20, 24]},
    },
    "place of the transition to 25 %": {
        **{"question": "transition", **SETTING, **USUAL, "tau": 4, "alpha": 2, "ridge": 0.05},
        **{"kappa": [0.25, 0.5, 1, 2, 4], "effect": 0.25, "dim": [16, 20]},
    },
}


def operations(dim: int, _context: int, _tasks: float, prompts: int) -> float:
    """Cost that does not depend on the machine."""
    return prompts * dim**2


def means(point: PlannedRun, repeats: int, seed: int) -> np.ndarray:
    """Mean errors of all plays."""
    run = simulate_errors(**point.run.arguments, rng=seed, repeats=PLAYS * repeats)
    samples = getattr(run, point.quantity).samples
    return np.asarray(samples.reshape(PLAYS, repeats).mean(axis=1))


def right(question: str, best: Proposal, seed: int) -> np.ndarray:
    """Whether each play gave the right answer."""
    points = best.design.points
    step = 0 if best.design.paired else 1
    measured = [means(p, best.repeats, seed + step * number) for number, p in enumerate(points)]
    predicted = np.array([point.mean for point in points])
    others = np.array(best.design.others(best.effect))
    _, second = best.contrast.errors(best.repeats)
    if question == "precision":
        return np.abs(measured[0] / predicted[0] - 1) < best.effect
    weights = np.ones(1)
    values = np.array(measured) - others[:, None]
    if question == "difference":
        values = np.array([measured[0] - measured[1]])
    elif len(points) > 1:
        weights = (others - predicted) / [point.variance for point in points]
    return np.abs(weights @ values) > best.significance * second + best.contrast.doubt


def promised(question: str, best: Proposal) -> tuple[float, float]:
    """Power as promised for the theory that is true, and for a prediction without error."""
    contrast = best.contrast
    exact = replace(contrast, doubt=0.0) if question == "precision" else contrast
    return best.power, exact.power(best.repeats, best.significance)


def lines(names: Sequence[str]) -> list[str]:
    """Table of the questions: what is promised and what was played."""
    head = ["question", "d", "repeats", "promised", "without error", "played", "standard error"]
    rows = [head]
    for number, name in enumerate(QUESTIONS):
        if name not in names:
            continue
        options = QUESTIONS[name]
        best = plan_runs(**options, cost=operations).best
        share = float(np.mean(right(options["question"], best, 1000 * (number + 1))))
        promise, exact = promised(options["question"], best)
        error = np.sqrt(share * (1 - share) / PLAYS)
        numbers = (f"{each:.3f}" for each in (promise, exact, share, error))
        rows.append([name, str(best.dim), str(best.repeats), *numbers])
        print(rows[-1], flush=True)
    return [f"{PLAYS} plays of each plan.", "", *aligned(rows, "<>")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the output in a file")
    parser.add_argument("--only", default="", help="questions with this in their names")
    options = parser.parse_args()
    text = "\n".join(lines([name for name in QUESTIONS if options.only in name])) + "\n"
    print(text, end="")
    if options.write:
        OUTPUT.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
