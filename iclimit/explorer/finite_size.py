"""What runs of finite size should show along the published sweeps, as a table.

The prediction averages over drawn tasks and solves for their covariance, which is no formula that
a page could evaluate.  So ``finite_size.csv`` has it in some dimensions for the parameters of the
published runs, and the page interpolates in 1/d, the limit being the value at 0.

``python -m iclimit.explorer.finite_size`` makes the table anew (in about a minute).
"""

import csv
from collections.abc import Iterator
from importlib import resources
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import finite_size_errors
from iclimit.notation import read_table

DIMS = (12, 24, 48)
DRAWS = 4
"""Task sets per prediction."""

TAU = tuple(round(144 * each) / 144 for each in np.geomspace(0.1, 10, 24) if abs(each - 1) > 0.2)
"""Prompts are integers in all dimensions; the threshold, whose place moves with d, is left out."""
KAPPA = tuple(count / 12 for count in (1, 2, 3, 4, 5, 6, 8, 10, 12, 14, 18, 24, 36, 60, 120))

SWEEPS: tuple[dict[str, Any], ...] = (
    {"tau": TAU, "alpha": 1, "kappa": 0.5, "rho": 0.01},
    {"tau": TAU, "alpha": 10, "kappa": 0.5, "rho": 0.01},
    {"tau": TAU, "alpha": 100, "kappa": 0.5, "rho": 0.01},
    {"tau": 10, "alpha": 10, "kappa": KAPPA, "rho": 0.25},
)
"""The sweeps of the published runs at d = 100, without a ridge."""

COLUMNS = ("tau", "alpha", "kappa", "rho", "dim", "icl", "idg")


def predict(tau: float, alpha: float, kappa: float, rho: float, dim: int) -> dict[str, float]:
    """Row of the table: prediction from mean moments."""
    size = {"context": alpha * dim, "tasks": kappa * dim, "prompts": tau * dim**2}
    integers: dict[str, Any] = {name: round(value) for name, value in size.items()}
    found = finite_size_errors(
        dim=dim, **integers, rho=rho, rng=0, draws=DRAWS, approach="moments"
    )
    place = {"tau": tau, "alpha": alpha, "kappa": kappa, "rho": rho, "dim": dim}
    return place | {"icl": found.icl.mean, "idg": found.idg.mean}


def rows() -> Iterator[dict[str, float]]:
    """All rows, sweep by sweep."""
    for sweep in SWEEPS:
        grid = np.broadcast_arrays(*(np.asarray(sweep[name], float) for name in COLUMNS[:4]))
        for dim in DIMS:
            for tau, alpha, kappa, rho in zip(*(each.ravel() for each in grid), strict=True):
                yield predict(float(tau), float(alpha), float(kappa), float(rho), dim)


def stored_predictions() -> list[dict[str, float]]:
    """Rows of the table."""
    return [
        {name: float(value) for name, value in row.items()}
        for row in read_table("explorer/finite_size.csv")
    ]


def main() -> None:
    """Write the table."""
    path = resources.files(__package__) / "finite_size.csv"
    with open(str(path), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        for row in rows():
            writer.writerow({name: f"{value:.6g}" for name, value in row.items()})


if __name__ == "__main__":
    main()
