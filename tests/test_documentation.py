"""Numbers that the documentation states."""

import csv
import re
from pathlib import Path

import iclimit

TABLES = Path(__file__).resolve().parents[1] / "docs" / "tables"


def test_how_far_runs_are_from_the_limit() -> None:
    """One task at d = 16, tau = 10 and alpha = 5: between the median and the largest stated."""
    with (TABLES / "limit.csv").open(encoding="utf-8") as file:
        stated = next(
            row for row in csv.DictReader(file) if (row["Error"], row["d"]) == ("ICL", "16")
        )
    median, largest = map(int, re.findall(r"\d+", stated["κ = 1/16"]))
    run = iclimit.simulate_errors(
        dim=16, context=80, tasks=1, prompts=2560, rho=0.1, rng=1, repeats=20
    )
    limit = iclimit.icl_error(tau=10, alpha=5, kappa=1 / 16, rho=0.1)
    assert median < 100 * (run.icl.mean / limit - 1) < largest
