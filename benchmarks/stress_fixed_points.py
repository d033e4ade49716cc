"""Steps and residuals of the fixed points of sample covariances over random measures.

``python -m benchmarks.stress_fixed_points [measures]`` from the root of the repository.
"""

import sys
from typing import Any

import numpy as np

from iclimit.asymptotics.spectra import fixed_points

# Per measure; most have small weights, and half of them are nearly equal or zero now and then.
ATOMS = 8


def stress(measures: int, seed: int) -> dict[str, float]:
    """Solve one point above the axis and one below zero for each random measure.

    Eigenvalues over up to eight decades, ratios 1e-3 to 1e3, real parts around the support,
    imaginary parts from 1e-14 to 10 times those, depths over seventeen decades.

    Parameters
    ----------
    measures : int
        Number of measures.
    seed : int
        Seed of all of them.

    Returns
    -------
    dict
        Most and mean steps, the worst relative residual and the least imaginary part.

    Raises
    ------
    ArithmeticError
        If a fixed point is not reached; the message names the first.
    """
    rng = np.random.default_rng(seed)
    shape = measures, ATOMS
    t = 10 ** (rng.uniform(-1, 0, shape) * rng.uniform(0, 8, (measures, 1)))
    t[rng.random(shape) < 0.05] = 0.0
    t[:, 0] = np.where(t.max(axis=1) > 0, t[:, 0], 1.0)
    weights = rng.dirichlet(np.full(ATOMS, 0.5), measures)
    c = 10 ** rng.uniform(-3, 3, measures)
    mean = (weights * t).sum(axis=1)
    second = (weights * t**2).sum(axis=1)
    excess = 1 - c * (weights * (t > 0)).sum(axis=1)

    def average(kernel: Any, omega: Any, c: Any, excess: Any, which: np.ndarray) -> np.ndarray:
        values = kernel(t[which], omega[:, None], c[:, None], excess[:, None])
        return (weights[which] * values).sum(axis=-1)

    def residual(omega: np.ndarray, z: np.ndarray) -> float:
        """In the equation as it is written down, relative to the size of its terms."""
        terms = c[:, None] * weights * t / (t - omega[:, None])
        size = abs(omega) * (1 + abs(terms).sum(axis=1))
        return float(np.max(abs(omega * (1 - terms.sum(axis=1)) - z) / size))

    near = t.max(axis=1) * 10 ** (rng.uniform(-8, 0, measures))
    x = near * (1 + np.sqrt(c) * rng.uniform(-1, 1, measures)) ** 2
    x = np.where(rng.random(measures) < 0.1, -x, x)
    z = x + 1j * abs(x) * 10 ** rng.uniform(-14, 1, measures)
    omega, steps = fixed_points.above(average, z, c, excess, mean)
    depth = near * 10 ** rng.uniform(-14, 3, measures)
    y, real_steps = fixed_points.below(average, depth, c, excess, mean, second)
    return {
        "most steps above the axis": float(steps.max()),
        "mean steps above the axis": float(steps.mean()),
        "most steps below zero": float(real_steps.max()),
        "mean steps below zero": float(real_steps.mean()),
        "worst residual": max(residual(omega, z), residual(-y + 0j, -depth)),
        "least imaginary part": float(omega.imag.min()),
    }


if __name__ == "__main__":
    measures = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    for name, value in stress(measures=measures, seed=0).items():
        print(f"{name}: {value:.3g}")
