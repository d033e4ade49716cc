"""Iterations of the fixed points of `structured_errors` over random spectra and parameters.

``python -m benchmarks.stress_structured [spectra]`` from the root of the repository.
"""

import sys
from collections.abc import Callable

import numpy as np
from tqdm import tqdm

from iclimit.asymptotics import searches
from iclimit.asymptotics.pretraining import (
    JointSpectrum,
    structured_errors,
    structured_fixed_point,
)

# Settings of each spectrum.
POINTS = 100

# Settings with tau and with kappa at 1, to within 1e-15 to 0.1.
TAU_NEAR_ONE, KAPPA_NEAR_ONE = slice(0, 30), slice(15, 45)


def stress(spectra: int, seed: int) -> dict[str, float]:
    """Solve many settings for each random spectrum, among them those at the edges.

    Up to 20 atoms: task eigenvalues over eleven decades, some zero, test eigenvalues over six, in
    every second spectrum input variances over six.  Ratios from 1e-3 or less to 1e4 or more and
    infinite, tau and kappa down to 1e-15 from 1, ridges zero or from 1e-12 to 100.

    Parameters
    ----------
    spectra : int
        Number of spectra.
    seed : int
        Seed of all of them.

    Returns
    -------
    dict
        Settings, most iterations of a fixed point, and the least error found.

    Raises
    ------
    ArithmeticError
        If a fixed point is not reached.
    """
    rng = np.random.default_rng(seed)
    plain = structured_fixed_point.find_roots
    counts: list[int] = []
    least = np.inf

    def newton(
        step: Callable[[np.ndarray, np.ndarray], np.ndarray],
        lower: np.ndarray,
        upper: np.ndarray,
        start: np.ndarray,
    ) -> np.ndarray:
        def counted(x: np.ndarray, index: np.ndarray) -> np.ndarray:
            counts[-1] += 1
            return step(x, index)

        counts.append(0)
        return plain(counted, lower, upper, start)

    structured_fixed_point.find_roots = newton
    try:
        for index in tqdm(range(spectra), disable=None):
            spectrum = _spectrum(rng, task_zeros=index % 3 == 0, inputs=index % 2 == 0)
            errors = structured_errors(**_parameters(rng), spectrum=spectrum)
            least = min(least, float(errors.icl.min()), float(errors.idg.min()))
    finally:
        structured_fixed_point.find_roots = plain
    return {
        "settings": spectra * POINTS,
        "most iterations": max(counts),
        "bound": searches.MOST_STEPS,
        "least error": least,
    }


def _spectrum(rng: np.random.Generator, *, task_zeros: bool, inputs: bool) -> JointSpectrum:
    atoms = int(rng.integers(1, 20))
    task = 10 ** rng.uniform(-8, 3, atoms)
    if task_zeros and atoms > 1:
        task[: rng.integers(1, atoms)] = 0
    weights = rng.dirichlet(np.full(atoms, rng.choice([0.1, 1.0]))) + 1e-12
    variances = 10 ** rng.uniform(-3, 3, atoms) if inputs else np.ones(atoms)
    return JointSpectrum(task, 10 ** rng.uniform(-4, 2, atoms), variances, weights / weights.sum())


def _parameters(rng: np.random.Generator) -> dict[str, np.ndarray]:
    def near_one() -> np.ndarray:
        return 1 + 10 ** rng.uniform(-15, -1, 30) * rng.choice([-1, 1], 30)

    tau = 10 ** rng.uniform(-3, 6, POINTS)
    kappa = 10 ** rng.uniform(-3, 4, POINTS)
    tau[TAU_NEAR_ONE] = near_one()
    kappa[KAPPA_NEAR_ONE] = near_one()
    tau[30:35] = kappa[10:20] = np.inf
    alpha = 10 ** rng.uniform(-6, 10, POINTS)
    alpha[-15:] = np.inf
    return {
        "tau": tau,
        "alpha": alpha,
        "kappa": kappa,
        "rho": rng.uniform(0, 2, POINTS) * (rng.random(POINTS) < 0.8),
        "ridge": np.where(rng.random(POINTS) < 0.3, 0, 10 ** rng.uniform(-12, 2, POINTS)),
        "test_alpha": np.where(rng.random(POINTS) < 0.5, alpha, np.inf),
    }


if __name__ == "__main__":
    spectra = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    for name, value in stress(spectra=spectra, seed=0).items():
        print(f"{name}: {value:.3g}")
