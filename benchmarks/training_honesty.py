"""Are stated uncertainties right after a time of training, or after steps of any size?

``python -m benchmarks.training_honesty --seed S`` from the root of the repository draws 60
settings of gradient flow and 60 of gradient descent, simulates 40 runs of each and compares their
mean errors with predictions: 3 CPU minutes.  To be a test of the code, S is taken after the last
change of it.  The comparison is ``benchmarks/training_honesty.csv``, its summary
``benchmarks/training_honesty.txt``.

Means are to be within the stated uncertainty plus two standard errors in 95 % of all settings.
"""

import argparse
import csv
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.honesty import ERRORS, Draw
from iclimit import Descent, Experiment, Flow, Problem, Test, predict, sample
from iclimit.prediction import Prediction
from iclimit.samples import Samples

OUTPUT = Path(__file__).with_name("training_honesty.csv")

# Settings of each way of training, runs of a setting, and task sets of a prediction.
SETTINGS = 60
REPEATS = 40
TASK_SETS = 20

# A run of more than so many times the median error has become unstable.
UNSTABLE = 10

# A rate that is refused as unstable is halved at most so many times.
MOST_HALVINGS = 20


def experiment(draw: Draw, training: str) -> Experiment:
    """Run of a random setting."""
    dim = int(draw.rng.integers(10, 25))
    noise = draw.between(0.01, 1)
    law = Problem(
        dim,
        draw.integer(dim / 4, 6 * dim),
        tasks=math.inf if draw.happens(0.25) else draw.integer(dim / 4, 8 * dim),
        noise_variance=noise,
        task_law="gaussian" if draw.happens(0.4) else "sphere",
    )
    prompts = draw.integer(0.25 * dim**2, 6 * dim**2)
    common = {
        "ridge": draw.between(1e-3, 0.3) if draw.happens(1 / 3) else 0.0,
        "start_variance": draw.between(0.05, 1) if draw.happens(1 / 3) else 0.0,
    }
    test = None
    if draw.happens(0.2):
        test = Test(law.with_fresh_tasks(context=draw.integer(dim / 4, 6 * dim)))
    if training == "flow":
        way: Flow | Descent = Flow(draw.between(0.1, 300), **common)
    else:
        way = Descent(
            draw.integer(1, 300),
            float(dim),
            momentum=float(draw.rng.choice([0.0, 0.5, 0.9])),
            **common,
        )
    return Experiment(law, prompts=prompts, training=way, test=test)


def stable(run: Experiment, share: float) -> Experiment:
    """A run of descent at this share of the first rate that is not refused.

    Less a fifth, as the first rate differs between task sets.
    """
    way = run.training
    assert isinstance(way, Descent)
    for halvings in range(MOST_HALVINGS):
        rate = way.learning_rate / 2**halvings
        slower = run.with_(training=replace(way, learning_rate=rate))
        try:
            predict(slower, rng=3, draws=1, approach="moments")
        except ValueError as error:
            if "learning_rate" not in str(error):
                raise
        else:
            return run.with_(training=replace(way, learning_rate=0.8 * share * rate))
    raise ArithmeticError(f"no stable rate was found for {run!r}")


def compare(number: int, training: str, seed: int) -> dict[str, Any]:
    """Deviations from the prediction, what is stated, and standard errors in percent."""
    generator = np.random.default_rng([seed, number, training == "flow"])
    draw = Draw(generator)
    run = experiment(draw, training)
    if training == "descent":
        run = stable(run, draw.between(0.05, 1))
    theory = predict(run, rng=3, draws=TASK_SETS)
    simulated = sample(run, rng=seed + number, repeats=REPEATS)
    row: dict[str, Any] = {"training": training, "number": number, "setting": repr(run)}
    return row | deviations(theory, simulated)


def deviations(theory: Prediction, simulated: Samples) -> dict[str, Any]:
    """Deviations from a prediction, what is stated, and standard errors in percent."""
    row: dict[str, Any] = {}
    for place, name in enumerate(ERRORS):
        expected = getattr(theory, name)
        found = getattr(simulated, name)
        row[name] = 100 * (found.mean / expected.mean - 1)
        error = math.hypot(found.standard_error, expected.standard_error) / expected.mean
        row[f"{name} s.e."] = 100 * error
        row[f"{name} stated"] = 100 * float(np.linalg.norm(theory.doubt[:, place]))
    row["largest"] = float(np.max(simulated.idg.samples) / np.median(simulated.idg.samples))
    return row


def beyond(row: dict[str, Any], name: str) -> float:
    """Standard errors by which a mean is beyond what is stated."""
    return (abs(row[name]) - row[f"{name} stated"]) / row[f"{name} s.e."]


def judged(kinds: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Shares of settings of each kind that are as stated, and the worst five of all."""
    lines = []
    rows: list[dict[str, Any]] = []
    for kind, own in kinds.items():
        rows += own
        far = sum(any(beyond(row, name) > 2 for name in ERRORS) for row in own)
        lines.append(f"{kind}: {far} of {len(own)} settings beyond the uncertainty and 2 s.e.")
        unstable = sum(row["largest"] > UNSTABLE for row in own)
        lines.append(
            f"  {unstable} settings with a run of more than {UNSTABLE} times the median error"
        )
        for name in ERRORS:
            off = np.median([abs(row[name]) for row in own])
            stated = np.median([row[f"{name} stated"] for row in own])
            lines.append(
                f"  {name}: median deviation {off:.2g} %, median uncertainty {stated:.2g} %"
            )
    worst = sorted(rows, key=lambda row: -max(beyond(row, name) for name in ERRORS))[:5]
    lines += ["", "The worst five:"]
    for row in worst:
        errors = ", ".join(_deviation(row, name) for name in ERRORS)
        lines.append(f"{errors}: {row['setting']}")
    return lines


def _deviation(row: dict[str, Any], name: str) -> str:
    """Deviation of an error in words."""
    own = f"{name} {row[name]:+.1f}({row[f'{name} s.e.']:.1f}) %"
    return f"{own}, stated {row[f'{name} stated']:.1f} %"


def parsed(description: str, settings: int) -> argparse.Namespace:
    """Seed and number of settings from the command line."""
    parser = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--first", type=int, default=settings, help="so many settings of a kind")
    return parser.parse_args()


def main() -> None:
    options = parsed(__doc__, SETTINGS)
    rows = []
    for number in range(options.first):
        for training in ("flow", "descent"):
            rows.append(compare(number, training, options.seed))
            print(rows[-1], flush=True)
    kinds = {
        training: [row for row in rows if row["training"] == training]
        for training in ("flow", "descent")
    }
    write(OUTPUT, rows, judged(kinds), options.seed)


def write(output: Path, rows: list[dict[str, Any]], summary: list[str], seed: int) -> None:
    """Write the comparison, and write and print its summary."""
    with output.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, ["seed", *rows[0]], lineterminator="\n")
        table.writeheader()
        for row in rows:
            numbers = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()}
            table.writerow({"seed": seed} | numbers)
    output.with_suffix(".txt").write_text("\n".join(summary) + "\n", encoding="utf-8")
    print(*summary, sep="\n")


if __name__ == "__main__":
    main()
