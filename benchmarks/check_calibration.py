"""Are checks of tables honest, and do they find mistakes?

``python -m benchmarks.check_calibration`` simulates tables of six settings.  Their z should be
standard normal, or narrower, since predictions state more uncertainty than they mostly have, and
tables should be contradicted as rarely as stated.  Then mistakes are planted: how often is the
table contradicted, the mistake named as the likeliest, and named at all?  ``--write`` keeps the
output in ``benchmarks/check_calibration.txt``.
"""

import argparse
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.calibration import describe
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_errors
from iclimit.statistics import FALSE_ALARM
from iclimit.validation import check_runs
from iclimit.validation.yours.runs.judgement import chi_square, compare_run, verdict
from iclimit.validation.yours.runs.measured import MeasuredRun
from iclimit.validation.yours.runs.predictions import Theory, predict

OUTPUT = Path(__file__).with_suffix(".txt")
NAMES = ("dim", "context", "tasks", "prompts", "rho", "ridge")
SETTINGS = (
    (16, 32, 12, 400, 0.2, 0.02),
    (16, 16, 8, 200, 0.3, 0.1),
    (16, 64, 32, 300, 0.1, 0.05),
    (20, 40, 10, 600, 0.2, 0.05),
    (20, 20, 30, 250, 0.4, 0.1),
    (24, 48, 24, 900, 0.2, 0.02),
)
# Runs of a row.
RUNS = (10, 40)

Row = dict[str, Any]


def scaled(row: Row, factor: float, shift: float = 0.0) -> Row:
    return row | {name: factor * (row[name] + shift) for name in ("icl", "idg")}


def by_features(row: Row) -> Row:
    changed = row | {"tau": row["prompts"] / (row["dim"] * (row["dim"] + 1))}
    del changed["prompts"]
    return changed


MISTAKES: dict[str, tuple[Callable[[Row], Row], Row]] = {
    "errors are half the squared errors": (lambda row: scaled(row, 0.5), {}),
    "errors leave out the label noise of the query": (lambda row: scaled(row, 1, -row["rho"]), {}),
    "errors are half the squared errors without label noise": (
        lambda row: scaled(row, 0.5, -row["rho"]),
        {},
    ),
    "the ridge is d times as large": (lambda row: row | {"ridge": row["ridge"] / row["dim"]}, {}),
    "the ridge is twice as large": (lambda row: row | {"ridge": row["ridge"] / 2}, {}),
    "tau counts prompts over d (d + 1)": (by_features, {"rounding": "nearest"}),
    "rho is a standard deviation": (lambda row: row | {"rho": math.sqrt(row["rho"])}, {}),
    "the context has one pair less": (lambda row: row | {"context": row["context"] + 1}, {}),
    "tasks are of squared norm d": (lambda row: row, {"task_law": "gaussian"}),
}


def honesty(samples: list[Any], tables: int) -> list[str]:
    """Distribution of z and false alarms, for few and many runs a row."""
    lines = [f"{'z of':22}  {'number':>6}  {'mean':>6}  width  |z|>2   |z|>3       KS"]
    predictions = []
    for values in SETTINGS:
        setting = dict(zip(NAMES, values, strict=True))
        sizes = {name: setting[name] for name in NAMES[:4]}
        run = MeasuredRun((1,), sizes, setting["rho"], setting["ridge"], {})
        predictions.append((run, predict(run, Theory(draws=400))))
    for runs in RUNS:
        z: dict[str, list[float]] = {"icl": [], "idg": [], "gap": []}
        alarms, small = 0, 0
        for table in range(tables):
            rows = []
            for (run, prediction), found in zip(predictions, samples, strict=True):
                part = slice(table * RUNS[-1], table * RUNS[-1] + runs)
                pair = [found.icl.samples[part], found.idg.samples[part]]
                errors = {
                    name: Estimate.of(each)
                    for name, each in zip(z, (*pair, pair[0] - pair[1]), strict=True)
                }
                measured = MeasuredRun(
                    (1,),
                    run.sizes,
                    run.rho,
                    run.ridge,
                    errors,
                    correlation=float(np.corrcoef(*pair)[0, 1]),
                    runs=runs,
                )
                rows.append(compare_run(measured, prediction, one_set=False))
                for name, each in rows[-1].comparisons.items():
                    z[name].append(each.z)
            alarms += not verdict(rows).holds
            small += chi_square(rows).p_value < 0.05
        lines += [describe(f"{name}, {runs} runs a row", each) for name, each in z.items()]
        lines.append(
            f"{runs} runs a row: {alarms} of {tables} tables contradicted "
            f"({FALSE_ALARM * tables:.1f} expected); p of chi-square below 0.05 in {small}"
        )
    return lines


def detection(samples: list[Any], tables: int) -> list[str]:
    """How often planted mistakes are noticed and named."""
    lines = [f"{'planted, 40 runs a row':56}  contradicted  likeliest  named"]
    for text, (plant, options) in MISTAKES.items():
        counts = np.zeros(3, int)
        for table in range(tables):
            part = slice(table * RUNS[-1], (table + 1) * RUNS[-1])
            rows = [
                plant(dict(zip(NAMES, values, strict=True)) | {"icl": icl, "idg": idg})
                for values, found in zip(SETTINGS, samples, strict=True)
                for icl, idg in zip(found.icl.samples[part], found.idg.samples[part], strict=True)
            ]
            check = check_runs(rows, **options)
            named = [fit.text for fit in check.fits if fit.fits]
            counts += [not check.holds, named[:1] == [text], text in named]
        lines.append(f"{text:56}  {counts[0]:12}  {counts[1]:9}  {counts[2]:5}  of {tables}")
    return lines


def main() -> None:
    """Simulate, check and print."""
    name = "benchmarks.check_calibration"
    parser = argparse.ArgumentParser(prog=f"python -m {name}", description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--planted", type=int, default=8)
    parser.add_argument("--write", action="store_true", help=f"keep it in {OUTPUT.name}")
    arguments = parser.parse_args()
    samples = []
    for number, values in enumerate(SETTINGS):
        setting: Row = dict(zip(NAMES, values, strict=True))
        repeats = RUNS[-1] * arguments.tables
        samples.append(simulate_errors(**setting, rng=number, repeats=repeats))
    lines = honesty(samples, arguments.tables) + detection(samples, arguments.planted)
    print("\n".join(lines))
    if arguments.write:
        OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
