"""Finite-size prediction against simulation at random points of its domain.

``python -m benchmarks.stress_finite_size`` from the root of the repository predicts the errors of
the runs in ``benchmarks/finite_size_runs.csv`` and writes ``benchmarks/finite_size.csv``, in some
three minutes on one core.  Runs that are missing there are simulated first, which takes an hour.

Columns of the runs: group, integers, noise and ridge, then the two simulated errors with their
standard errors.  Columns of the comparison: the same parameters; for each error simulation over
prediction minus one in percent, with its standard error; the uncertainty that the prediction
states, in percent; CPU milliseconds per drawn task set.
"""

import csv
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.simulate.pretraining import simulate_errors

RUNS, OUTPUT = (Path(__file__).with_name(f"finite_size{name}.csv") for name in ("_runs", ""))
# Aim of the relative standard errors; most CPU seconds and repeats of a simulation.
PRECISION, SECONDS, REPEATS = 0.004, 6.0, 3000

# Random points: within 40 % of n = d (d + 1), within 40 % of n = d k, and others.
GROUPS = {"features": 150, "tasks": 75, "anywhere": 75}

# Largest factor between prompts and a threshold near it.
NEAR = 1.4

NAMES = ("dim", "context", "tasks", "prompts", "rho", "ridge")


def points(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, Any]]]:
    """Random points, each parameter log-uniform in its range; a third have no ridge."""

    def between(low: float, high: float) -> float:
        return math.exp(rng.uniform(math.log(low), math.log(high)))

    for group, count in GROUPS.items():
        for _ in range(count):
            d = int(rng.integers(12, 41))
            context = between(1, 40 * d)
            tasks = between(0.1 * d, 8 * d)
            ridge = 0.0 if rng.random() < 1 / 3 else between(1e-4, 0.1)
            if group == "features":
                prompts = d * (d + 1) * between(1 / NEAR, NEAR)
            elif group == "tasks":
                context = between(4 * d, 40 * d)
                tasks = between(0.2 * d, d)
                ridge = ridge / 100
                prompts = d * round(tasks) * between(1 / NEAR, NEAR)
            else:
                prompts = d**2 * between(0.2, 4)
            endless = group != "tasks" and rng.random() < 0.1
            yield (
                group,
                {
                    "dim": d,
                    "context": round(context),
                    "tasks": math.inf if endless else max(round(tasks), 1),
                    "prompts": round(prompts),
                    "rho": float(f"{between(0.005, 2):.3g}"),
                    "ridge": float(f"{ridge:.3g}"),
                },
            )


def infinite(point: dict[str, Any]) -> bool:
    """Whether the mean errors are infinite: interpolation with contexts of one or two pairs."""
    few = point["prompts"] < point["dim"] * (point["dim"] + 1)
    return few and point["ridge"] == 0 and point["context"] <= 2


def simulate(point: dict[str, Any]) -> list[float]:
    """The two errors with their standard errors, as precise as the time allows."""
    start = time.process_time()
    trial = simulate_errors(**point, rng=1, repeats=40)
    seconds = (time.process_time() - start) / 40
    spread = max(x.standard_error / x.mean for x in (trial.icl, trial.idg)) * math.sqrt(40)
    repeats = int(min(max((spread / PRECISION) ** 2, 100), REPEATS, max(SECONDS / seconds, 40)))
    run = simulate_errors(**point, rng=2, repeats=repeats)
    return [
        float(f"{x:.6g}") for each in (run.icl, run.idg) for x in (each.mean, each.standard_error)
    ]


def compare(point: dict[str, Any], simulated: list[float]) -> list[float]:
    """Deviations with their standard errors, the stated uncertainty and the cost."""
    draws = 1000 // point["dim"] if math.isfinite(point["tasks"]) else 1
    start = time.process_time()
    predicted = finite_size_errors(**point, rng=3, draws=draws)
    cost = (time.process_time() - start) / draws
    row = []
    parts = (predicted.icl, predicted.idg)
    for expected, mean, error in zip(parts, simulated[::2], simulated[1::2], strict=True):
        relative = math.hypot(error / mean, expected.standard_error / expected.mean)
        row += [100 * (mean / expected.mean - 1), 100 * relative]
    return [
        *(round(x, 2) for x in row),
        round(100 * predicted.uncertainty, 2),
        round(1e3 * cost, 1),
    ]


def read_runs() -> dict[tuple[str, ...], list[float]]:
    """Simulated errors by group and parameters."""
    if not RUNS.exists():
        return {}
    with RUNS.open(encoding="utf-8", newline="") as file:
        _, *rows = csv.reader(file)
    size = 1 + len(NAMES)
    return {tuple(row[:size]): [float(x) for x in row[size:]] for row in rows}


def main() -> None:
    known = read_runs()
    with RUNS.open("a", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        if not known:
            table.writerow(["group", *NAMES, "ICL", "s.e.", "IDG", "s.e."])
        for group, point in points(np.random.default_rng(1)):
            key = (group, *map(str, point.values()))
            if key not in known:
                known[key] = simulate(point)
                table.writerow([*key, *known[key]])
                file.flush()
                print(*key, *known[key], flush=True)
    with OUTPUT.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(
            ["group", *NAMES, "ICL %", "s.e.", "IDG %", "s.e.", "uncertainty %", "ms per draw"]
        )
        beyond = 0
        count = 0
        for group, point in points(np.random.default_rng(1)):
            if infinite(point):
                continue
            count += 1
            row = compare(point, known[group, *map(str, point.values())])
            table.writerow([group, *point.values(), *row])
            icl, icl_error, idg, idg_error, stated, _ = row
            outside = (abs(icl) > stated + 2 * icl_error) or (abs(idg) > stated + 2 * idg_error)
            beyond += outside
            print(group, *point.values(), *row, "beyond" * outside, flush=True)
        print(f"{beyond} of {count} points beyond the uncertainty + 2 s.e.")


if __name__ == "__main__":
    main()
