"""Table of costs on the page "How to choose": CPU seconds of single calls, one thread.

Run from the root of the repository: OMP_NUM_THREADS=1 python docs/tables/cost.py
"""

from pathlib import Path
from time import process_time

import mpmath
import numpy as np

import iclimit

rng = np.random.default_rng(0)
size = 10**6
grid = {
    "tau": rng.uniform(0.1, 10, size),
    "alpha": rng.uniform(0.1, 10, size),
    "kappa": rng.uniform(0.1, 10, size),
    "rho": 0.1,
}
small = {name: v[:10_000] if np.ndim(v) else v for name, v in grid.items()}
some = {name: v[:1000] if np.ndim(v) else v for name, v in grid.items()}


def sizes(d):
    return {"dim": d, "context": d, "tasks": d // 2, "prompts": 2 * d * d, "rho": 0.1}


def fifty_digits():
    with mpmath.workdps(50):
        iclimit.icl_error(tau=mpmath.mpf(2), alpha=1, kappa=0.5, rho=0.1, ridge=0.1)


CALLS = {
    "``icl_error``, ridgeless, 10⁶ points": lambda: iclimit.icl_error(**grid),
    "``icl_error``, with ridge, 10⁴ points": lambda: iclimit.icl_error(**small, ridge=0.1),
    "``icl_error``, 50 digits, with ridge, 1 point": fifty_digits,
    "``optimal_ridge``, 10³ points": lambda: iclimit.optimal_ridge(**some),
    **{
        f"``finite_size_errors``, d = {d}, 10 task sets": lambda d=d: iclimit.finite_size_errors(
            **sizes(d), rng=0
        )
        for d in (32, 100, 300)
    },
    **{
        f"``simulate_errors``, d = {d}, τ = 2, 1 run": lambda d=d: iclimit.simulate_errors(
            **sizes(d), rng=0
        )
        for d in (32, 64, 100)
    },
}


def main() -> None:
    rows = ["Call,CPU seconds"]
    for label, call in CALLS.items():
        call()  # imports and caches
        seconds = []
        for _ in range(3):
            start = process_time()
            call()
            seconds.append(process_time() - start)
        rows.append(f'"{label}",{sorted(seconds)[1]:.2g}')
        print(rows[-1], flush=True)
    Path(__file__).with_suffix(".csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
