"""Do the intervals of fitted parameters contain the truth as often as they say?

``python -m benchmarks.fit_calibration`` simulates tables of single runs, without error bars, and
fits parameters to them.  The standard error of a share of 200 tables is 3 % at 68 % and 1.5 % at
95 %.  z is the root of the rise of chi-square at the truth, with the sign of the deviation.
``--write`` keeps the output in ``benchmarks/fit_calibration.txt``.
"""

import argparse
import math
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.simulate.pretraining import simulate_errors
from iclimit.validation import fit_runs

OUTPUT = Path(__file__).with_suffix(".txt")
# Task sets of a prediction: few, as the error of their mean is part of the covariance.
DRAWS = 8
NAMES = ("dim", "context", "tasks", "prompts")
# Free parameters with their true values, noise and ridge, what the table says of the free ones,
# and the sizes.
SETTINGS: tuple[tuple[dict[str, float], dict[str, float], dict[str, float], Any], ...] = (
    (
        {"rho": 0.2, "tau": 1.0},
        {"rho": 0.2, "ridge": 0.05},
        {"rho": 0.1},
        [(16, 32, 16, n) for n in (130, 400, 800)] * 2,
    ),
    (
        {"alpha": 1.0, "ridge": 0.1},
        {"rho": 0.2, "ridge": 0.1},
        {"ridge": 0.3},
        [(12, context, np.inf, n) for context in (12, 24, 48) for n in (100, 250)],
    ),
    (
        {"rho": 0.3, "kappa": 1.0, "factor": 1.0},
        {"rho": 0.3, "ridge": 0.2},
        {"rho": 0.5},
        [(16, 32, k, n) for k in (6, 12) for n in (200, 500)] * 3,
    ),
)


def coverage(number: int, tables: int) -> list[str]:
    """Simulate and fit tables of a setting; one line for each parameter."""
    true, law, stated, sizes = SETTINGS[number]
    samples = []
    for row, size in enumerate(sizes):
        setting: Any = dict(zip(NAMES, size, strict=True)) | law
        samples.append(simulate_errors(**setting, rng=100 * number + row, repeats=tables))
    inside = {name: np.zeros(2) for name in true}
    z: dict[str, list[float]] = {name: [] for name in true}
    small = 0
    for table in range(tables):
        rows = [
            dict(zip(NAMES, size, strict=True))
            | law
            | stated
            | {"icl": each.icl.samples[table], "idg": each.idg.samples[table]}
            for size, each in zip(sizes, samples, strict=True)
        ]
        fit = fit_runs(rows, list(true), draws=DRAWS)
        small += fit.p_value < 0.05
        for found in fit.parameters:
            value = true[found.name]
            inside[found.name] += [
                found.low_68 < value < found.high_68,
                found.low_95 < value < found.high_95,
            ]
            curve = fit.profiles[found.name]
            place = curve.values[curve.best] + math.log(value / found.value)
            z[found.name].append(-float(curve.root(np.clip(place, *curve.values[[0, -1]]))))
    lines = []
    for name, counts in inside.items():
        shares = 100 * counts / tables
        law_of_z = f"z {np.mean(z[name]):+.2f} +- {np.std(z[name]):.2f}"
        words = f"{shares[0]:5.1f} %  {shares[1]:5.1f} %  {law_of_z}"
        lines.append(f"{number + 1}: {name:8} {words}  p of chi-square < 0.05: {small}")
    return lines


def main() -> None:
    """Simulate, fit and print."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fit_calibration", description=__doc__
    )
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--write", action="store_true", help=f"keep it in {OUTPUT.name}")
    arguments = parser.parse_args()
    lines = [f"in the interval of   68 %     95 %   ({arguments.tables} tables of each setting)"]
    for number in range(len(SETTINGS)):
        lines += coverage(number, arguments.tables)
        print("\n".join(lines[-len(SETTINGS[number][0]) :]), flush=True)
    if arguments.write:
        OUTPUT.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
