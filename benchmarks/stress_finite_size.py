"""Finite-size prediction against simulation at random points of its domain.

``python -m benchmarks.stress_finite_size`` from the root of the repository takes some 20 minutes
on one core and writes ``benchmarks/finite_size.csv``.  Columns: group, integers, noise and ridge;
then for each error simulation over prediction minus one in percent, with its standard error; the
uncertainty that the prediction states, in percent; CPU milliseconds per drawn task set.
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

OUTPUT = Path(__file__).with_name("finite_size.csv")
PRECISION, SECONDS, REPEATS = 0.004, 8.0, 3000
"""Aim of the relative standard errors; most CPU seconds and repeats of a simulation."""

GROUPS = {"drawn tasks": 80, "infinitely many tasks": 12, "short contexts": 12}
"""Random points of each kind."""

NAMES = ("dim", "context", "tasks", "prompts", "rho", "ridge")
HARD = (
    (16, 837, 22, 201, 0.1, 0.0),
    (20, 800, 14, 320, 0.01, 0.0),
    (32, 1280, 22, 819, 0.01, 0.0),
    (48, 1920, 34, 1843, 0.01, 0.0),
    (16, 32, 8, 205, 0.01, 0.0),
    (16, 128, 64, 333, 0.1, 0.0),
    (24, 826, 33, 492, 0.1, 0.001),
    (16, 16, 16, 136, 0.1, 0.0),
)
"""Near the thresholds n = d k and n = d (d + 1), where mean moments are wrong by up to 30 %."""


def points(rng: np.random.Generator) -> Iterator[tuple[str, dict[str, Any]]]:
    """Hard points, then random ones: log-uniform tau, alpha, kappa and rho, half without ridge."""
    for row in HARD:
        yield "hard", dict(zip(NAMES, row, strict=True))
    for group, count in GROUPS.items():
        for _ in range(count):
            d = int(rng.choice([16, 16, 24, 32]))
            tau, alpha, kappa, rho, ridge = (
                math.exp(rng.uniform(math.log(low), math.log(high)))
                for low, high in ((0.2, 4), (12 / d, 30), (0.25, 8), (0.005, 0.5), (1e-3, 1))
            )
            short = int(rng.integers(4, 12))
            yield (
                group,
                {
                    "dim": d,
                    "context": short if group == "short contexts" else round(alpha * d),
                    "tasks": math.inf if group == "infinitely many tasks" else round(kappa * d),
                    "prompts": round(tau * d**2),
                    "rho": round(rho, 3),
                    "ridge": round(ridge, 4) if rng.random() < 0.5 else 0.0,
                },
            )


def compare(point: dict[str, Any]) -> list[float]:
    """The numbers of a row."""
    start = time.process_time()
    trial = simulate_errors(**point, rng=1, repeats=40)
    seconds = (time.process_time() - start) / 40
    spread = max(x.standard_error / x.mean for x in (trial.icl, trial.idg)) * math.sqrt(40)
    repeats = int(min(max((spread / PRECISION) ** 2, 100), REPEATS, max(SECONDS / seconds, 40)))
    run = simulate_errors(**point, rng=2, repeats=repeats)
    draws = 1000 // point["dim"] if math.isfinite(point["tasks"]) else 1
    start = time.process_time()
    predicted = finite_size_errors(**point, rng=3, draws=draws)
    cost = (time.process_time() - start) / draws
    row = []
    for name in ("icl", "idg"):
        found, expected = getattr(run, name), getattr(predicted, name)
        relative = [x.standard_error / x.mean for x in (found, expected)]
        row += [100 * (found.mean / expected.mean - 1), 100 * math.hypot(*relative)]
    return [
        *(round(x, 2) for x in row),
        round(100 * predicted.uncertainty, 2),
        round(1e3 * cost, 1),
    ]


def main() -> None:
    with OUTPUT.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(
            ["group", *NAMES, "ICL %", "s.e.", "IDG %", "s.e.", "uncertainty %", "ms per draw"]
        )
        for group, point in points(np.random.default_rng(1)):
            row = compare(point)
            table.writerow([group, *point.values(), *row])
            file.flush()
            print(group, *point.values(), *row, flush=True)


if __name__ == "__main__":
    main()
