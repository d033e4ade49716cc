"""Table of the Bayes page: simulated dMMSE ICL errors, the limit and its correction at size d.

Run from the root of the repository: python docs/tables/dmmse.py  (some minutes).

Two simulations.  "enumerated": `simulate_estimator`, all tasks are drawn.  "tail": with
k = exp(theta d) too many to draw, only tasks of nearly the least energy matter; given a context
they are a Poisson process, drawn here by thinning tasks from the tilted law.
"""

from math import exp, log, pi, sqrt
from pathlib import Path

import numpy as np
from scipy.optimize import brentq

from iclimit import MarchenkoPastur
from iclimit.pretraining import simulate_estimator

ALPHA, RHO = 1.0, 0.3
ENUMERATED = ((40, 40), (200, 200), (12, 1000), (16, 5000), (20, 20000))
TAIL = ((0.2, 50, 300), (0.2, 200, 150), (0.3, 50, 300), (0.3, 200, 150))
CANDIDATES = 20_000

nodes, weights = MarchenkoPastur(1 / ALPHA).quadrature(400)
s = ALPHA * nodes


def entropy_cost(b: float) -> float:
    """Relative entropy per dimension of the tilted law."""
    own = s * (s + RHO) / (s + b) ** 2 + b / (s + b) - 1 + np.log1p(s / b)
    return float(weights @ own) / 2


def frozen_noise(theta: float, d: float) -> float:
    """Effective noise b of the frozen phase; d = inf is the limit."""

    def residual(log_b: float) -> float:
        b = exp(log_b)
        variance = weights @ ((s / (s + b)) ** 2 / 2 + s * b * (s + RHO) / (s + b) ** 3)
        correction = log(max(1.0, 2 * pi * d * variance)) / (2 * d) if np.isfinite(d) else 0.0
        return entropy_cost(b) + correction - theta

    return exp(brentq(residual, log(RHO), log(RHO) + 30))


def icl_error(theta: float, d: float) -> float:
    b = frozen_noise(theta, d)
    error = (b**2 + RHO * s) / (s + b) ** 2 + (1 - RHO / b) * b / (s + b)
    return RHO + float(weights @ error)


def tail_errors(theta: float, d: int, contexts: int, rng: np.random.Generator) -> np.ndarray:
    b = frozen_noise(theta, np.inf)
    tilt = RHO / b
    errors = []
    for _ in range(contexts):
        x = rng.standard_normal((round(ALPHA * d), d)) / sqrt(d)
        gram = np.linalg.eigvalsh(x.T @ x).clip(0)
        root = np.sqrt(gram)
        truth = rng.standard_normal(d)
        y = root * truth + sqrt(RHO) * rng.standard_normal(d)
        log_norm = np.sum(-np.log1p(gram / b) / 2 - y**2 / (2 * (gram + b)))
        highest = (log(CANDIDATES) - theta * d - log_norm) / tilt
        count = rng.poisson(CANDIDATES)
        noise = rng.standard_normal((count, d), dtype=np.float32)
        w = root * y / (gram + b) + np.sqrt(b / (gram + b)) * noise
        energy = np.sum((y - root * w) ** 2, axis=1) / (2 * RHO)
        kept = np.log(rng.random(count)) < np.minimum((energy - highest) * tilt, 0)
        kept &= energy <= highest
        weight = np.exp(energy[kept].min() - energy[kept])
        estimate = weight @ w[kept] / weight.sum()
        errors.append(RHO + np.sum((estimate - truth) ** 2) / d)
    return np.array(errors)


def main() -> None:
    rows = ["d,θ,simulation,ICL error,s.e.,limit,with correction"]

    def add(d: int, theta: float, kind: str, mean: float, error: float) -> None:
        at = f"{icl_error(theta, np.inf):.3f},{icl_error(theta, d):.3f}"
        rows.append(f"{d},{theta:.3f},{kind},{mean:.3f},{error:.3f},{at}")
        print(rows[-1], flush=True)

    for d, k in ENUMERATED:
        run = simulate_estimator(
            "dmmse",
            dim=d,
            context=round(ALPHA * d),
            tasks=k,
            rho=RHO,
            rng=1,
            repeats=40 if k > 2000 else 100,
            test_prompts=40,
        )
        add(d, log(k) / d, "enumerated", run.icl.mean, run.icl.standard_error)
    rng = np.random.default_rng(1)
    for theta, d, contexts in TAIL:
        errors = tail_errors(theta, d, contexts, rng)
        add(d, theta, "tail", errors.mean(), errors.std(ddof=1) / sqrt(contexts))
    Path(__file__).with_suffix(".csv").write_text("\n".join(rows) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
