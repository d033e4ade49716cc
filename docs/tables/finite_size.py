"""Table of the finite-size page: simulation, prediction and limit at four points.

Run from the root of the repository: python docs/tables/finite_size.py  (some minutes).
"""

import math
from pathlib import Path

from iclimit import finite_size_errors, icl_error, idg_error, simulate_errors

POINTS = (
    {"tau": 1.5, "alpha": 2.0, "kappa": 1.5, "rho": 0.1, "ridge": 0.05},
    {"tau": 1.5, "alpha": 1.0, "kappa": 0.5, "rho": 0.1, "ridge": 0.0},
    {"tau": 0.5, "alpha": 1.0, "kappa": 0.5, "rho": 0.1, "ridge": 0.0},
    {"tau": 0.5, "alpha": 0.25, "kappa": 1.0, "rho": 0.1, "ridge": 0.0},
)
REPEATS = {16: 600, 32: 200, 64: 50}
DRAWS = {16: 60, 32: 40, 64: 20}


def main() -> None:
    rows = ["point,d,error,simulation,s.e.,prediction,off by (%),limit,off by (%)"]
    for point in POINTS:
        sizes = {name: point[name] for name in ("rho", "ridge")}
        names = {"tau": "τ", "alpha": "α", "kappa": "κ", "rho": "ρ", "ridge": "λ"}
        label = " ".join(f"{names[name]}={value:g}" for name, value in point.items())
        limits = {"ICL": float(icl_error(**point)), "IDG": float(idg_error(**point))}
        for d, repeats in REPEATS.items():
            integers = {
                "dim": d,
                "context": round(point["alpha"] * d),
                "tasks": round(point["kappa"] * d),
                "prompts": round(point["tau"] * d**2),
            }
            run = simulate_errors(**integers, **sizes, rng=1, repeats=repeats)
            predicted = finite_size_errors(**integers, **sizes, rng=2, draws=DRAWS[d])
            for name, limit in limits.items():
                found = getattr(run, name.lower())
                expected = getattr(predicted, name.lower())
                value = found.mean
                prediction = expected.mean
                error = math.hypot(found.standard_error, expected.standard_error)
                rows.append(
                    f"{label},{d},{name},{value:.4f},{error:.4f},{prediction:.4f},"
                    f"{100 * (prediction / value - 1):+.1f},{limit:.4f},"
                    f"{100 * (limit / value - 1):+.1f}"
                )
                label = ""
                print(rows[-1], flush=True)
    Path(__file__).with_suffix(".csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
