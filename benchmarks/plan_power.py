"""Do plans keep what they promise?

``python -m benchmarks.plan_power`` plans runs for some questions and simulates what each plan
proposes two hundred times.  In every play the theory that is not true is to be excluded: the
contrast of the mean errors is further from what it predicts than so many standard errors plus the
uncertainty of the prediction.  The share of plays in which it is should be the power that was
promised; its standard error is 2 points.  A precision is promised for a prediction that is off by
its whole uncertainty, so that more plays than promised may be right.  ``--write`` keeps the output
in ``benchmarks/plan_power.txt``.

``--random 40 --seed S`` plans runs for random questions instead and plays each plan 60 times, with
the output in ``benchmarks/random_plans.txt``.  At most 3 of 40 plans may be right less often than
promised by two standard errors, and all of them together may not.
"""

import argparse
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from iclimit import plan_runs
from iclimit.simulate.pretraining import simulate_errors
from iclimit.tables import aligned
from iclimit.validation.instruments.plan.points import PlannedRun
from iclimit.validation.instruments.plan.proposals import Proposal

OUTPUT = Path(__file__).with_suffix(".txt")
RANDOM_OUTPUT = Path(__file__).with_name("random_plans.txt")

# Plays of each plan for the questions below, and for random ones.
PLAYS = 200
RANDOM_PLAYS = 60

# Runs of a random plan: more would take long to play.
MOST_RUNS = 200
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


def random_question(rng: np.random.Generator) -> dict[str, Any]:
    """A question at a random setting; contexts have at least four pairs."""

    def between(low: float, high: float) -> float:
        return float(f"{math.exp(rng.uniform(math.log(low), math.log(high))):.3g}")

    setting: dict[str, Any] = {
        "tau": between(0.3, 4.0),
        "alpha": between(0.35, 4.0),
        "kappa": between(0.3, 3.0),
        "rho": between(0.05, 0.5),
        "ridge": between(0.001, 0.5),
    }
    name = str(rng.choice(["tau", "alpha", "kappa", "rho"]))
    other = {name: float(f"{setting[name] * rng.choice([0.5, 2.0]):.3g}")}
    question = str(rng.choice(["precision", "theories", "difference"]))
    asked: dict[str, Any] = {"effect": between(0.03, 0.2)}
    if question != "precision":
        asked = {"significance": float(rng.choice([2.0, 3.0])), "against": other}
    quantity = str(rng.choice(["icl", "idg"]))
    power = float(rng.choice([0.8, 0.9, 0.95]))
    common = {"question": question, "quantity": quantity, "power": power, "dim": [12, 16]}
    return common | setting | asked


def random_questions(count: int, seed: int) -> dict[str, dict[str, Any]]:
    """Random questions that have a plan of few runs."""
    rng = np.random.default_rng(seed)
    questions: dict[str, dict[str, Any]] = {}
    refused = 0
    while len(questions) < count:
        options = random_question(rng)
        try:
            best = plan_runs(**options, cost=operations).best
        except ValueError:
            refused += 1
            continue
        if best is None or best.repeats * len(best.design.points) > MOST_RUNS:
            refused += 1
            continue
        told = {"against": options.get("against"), "effect": options.get("effect")}
        words = " ".join(f"{key}={value}" for key, value in told.items() if value)
        questions[f"{len(questions) + 1} {options['question']} {words}"] = options
    print(f"{refused} questions without a plan, or with one of more than {MOST_RUNS} runs")
    return questions


def means(point: PlannedRun, repeats: int, seed: int, plays: int) -> np.ndarray:
    """Mean errors of all plays."""
    run = simulate_errors(**point.run.arguments, rng=seed, repeats=plays * repeats)
    samples = getattr(run, point.quantity).samples
    return np.asarray(samples.reshape(plays, repeats).mean(axis=1))


def right(question: str, best: Proposal, seed: int, plays: int) -> np.ndarray:
    """Whether each play gave the right answer."""
    points = best.design.points
    step = 0 if best.design.paired else 1
    measured = [
        means(point, best.repeats, seed + step * number, plays)
        for number, point in enumerate(points)
    ]
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


def lines(questions: Mapping[str, dict[str, Any]], plays: int) -> list[str]:
    """Table of the questions: what is promised and what was played."""
    rows = [["question", "d", "repeats", "promised", "without error", "played", "standard error"]]
    below = 0
    differences = []
    for number, (name, options) in enumerate(questions.items()):
        best = plan_runs(**options, cost=operations).best
        answers = right(options["question"], best, 1000 * (number + 1), plays)
        share = float(np.mean(answers))
        promise, exact = promised(options["question"], best)
        error = math.sqrt(promise * (1 - promise) / plays)
        below += share < promise - 2 * error
        differences.append((share - promise, error))
        numbers = (f"{value:.3f}" for value in (promise, exact, share, error))
        rows.append([name, str(best.dim), str(best.repeats), *numbers])
        print(rows[-1], flush=True)
    mean, error = pooled(differences)
    words = [
        f"{plays} plays of each plan.",
        f"{below} of {len(questions)} below the promise by two standard errors; "
        f"all together {100 * mean:+.1f}({100 * error:.1f}) points",
        "",
    ]
    return [*words, *aligned(rows, "<>")]


def pooled(differences: list[tuple[float, float]]) -> tuple[float, float]:
    """Mean of shares less promises, with its standard error."""
    values, errors = np.array(differences).T
    return float(np.mean(values)), float(np.sqrt(np.sum(errors**2)) / len(errors))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the output in a file")
    parser.add_argument("--only", default="", help="questions with this in their names")
    parser.add_argument("--random", type=int, default=0, help="so many random questions")
    parser.add_argument("--seed", type=int, default=0, help="of the random questions")
    options = parser.parse_args()
    if options.random:
        questions = random_questions(options.random, options.seed)
        output = lines(questions, RANDOM_PLAYS)
        output.insert(0, f"seed {options.seed}")
        place = RANDOM_OUTPUT
    else:
        questions = {name: row for name, row in QUESTIONS.items() if options.only in name}
        output = lines(questions, PLAYS)
        place = OUTPUT
    text = "\n".join(output) + "\n"
    print(text, end="")
    if options.write:
        place.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
