"""Table on the page "How to choose": how far simulations are from the limit, by d and kappa.

Run from the root of the repository: OMP_NUM_THREADS=1 python docs/tables/limit.py  (some minutes).
"""

import itertools
from pathlib import Path

import numpy as np

import iclimit

TAU, ALPHA = (0.25, 0.5, 2, 4, 10), (0.5, 1, 2, 5, 10)
KAPPA = {"1/16": 1 / 16, "1/4": 1 / 4, "1": 1, "4": 4, "∞": np.inf}
RHO = 0.1
REPEATS = {16: 64, 32: 16, 64: 2}
"""Repeats of each point by d: standard errors are 1 to 2 % in the middle, 7 % for one task."""


def misses(dim: int, kappa: float) -> np.ndarray:
    """Simulation over limit, minus one, at every tau and alpha: (points, 2) for ICL and IDG."""
    found = []
    for tau, alpha in itertools.product(TAU, ALPHA):
        run = iclimit.simulate_errors(
            dim=dim,
            context=round(alpha * dim),
            tasks=kappa if np.isinf(kappa) else round(kappa * dim),
            prompts=round(tau * dim**2),
            rho=RHO,
            rng=0,
            repeats=REPEATS[dim],
        )
        point = {"tau": tau, "alpha": alpha, "kappa": kappa, "rho": RHO}
        limits = iclimit.icl_error(**point), iclimit.idg_error(**point)
        found.append([run.icl.mean / limits[0] - 1, run.idg.mean / limits[1] - 1])
    return 100 * np.array(found)


def main() -> None:
    header = ",".join(["Error", "d", *(f"κ = {name}" for name in KAPPA)])
    rows: dict[str, list[str]] = {"ICL": [], "IDG": []}
    for dim in REPEATS:
        cells = [np.abs(misses(dim, kappa)) for kappa in KAPPA.values()]
        for index, (name, lines) in enumerate(rows.items()):
            shown = (f"{np.median(c[:, index]):.0f} ({np.max(c[:, index]):.0f})" for c in cells)
            lines.append(",".join([name, str(dim), *shown]))
            print(lines[-1], flush=True)
    text = "\n".join([header, *rows["ICL"], *rows["IDG"]])
    Path(__file__).with_suffix(".csv").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
