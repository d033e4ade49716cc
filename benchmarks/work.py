"""What is measured; each function runs in a child process of its own and returns numbers."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

ENOUGH = 0.5
"""CPU seconds after which a measurement is not repeated within its process."""
LOOP_POINTS = 300


def cell(d: int) -> dict[str, Any]:
    """The cell of all simulation benchmarks: tau = 2, alpha = 1, kappa = 0.5, ridgeless."""
    return {"d": d, "context": d, "tasks": d // 2, "prompts": 2 * d**2, "rho": 0.01}


def idle(modules: list[str]) -> dict[str, float]:
    """Import only: the baseline of memory."""
    for name in ("numpy.random", "numpy.linalg", *modules):
        importlib.import_module(name)
    return {"seconds": 0.0}


def structured(d: int, seed: int) -> dict[str, float]:
    """One cell with this package."""
    from iclimit.simulate import simulate_errors

    return repeat(lambda call: _means(simulate_errors(**cell(d), rng=call + 1000 * seed)))


def dense(d: int, seed: int) -> dict[str, float]:
    """One cell the dense way."""
    from benchmarks.dense import dense_errors

    def run(call: int) -> dict[str, float]:
        icl, idg = dense_errors(**cell(d), seed=call + 1000 * seed)
        return {"icl": icl, "idg": idg}

    return repeat(run)


def _means(run: Any) -> dict[str, float]:
    return {"icl": run.icl_mean, "idg": run.idg_mean}


def repeat(run: Callable[[int], dict[str, float]]) -> dict[str, float]:
    """Median CPU seconds of calls, and the means of what they return."""
    seconds: list[float] = []
    values: list[dict[str, float]] = []
    while sum(seconds) < ENOUGH:
        start = time.process_time()
        values.append(run(len(seconds)))
        seconds.append(time.process_time() - start)
    means = {name: float(np.mean([value[name] for value in values])) for name in values[0]}
    return {"seconds": median(seconds)} | means


def points(count: int, with_ridge: bool, seed: int) -> dict[str, np.ndarray]:
    """Random parameters over two decades each."""
    generator = np.random.default_rng(seed)
    drawn = {name: 10 ** generator.uniform(-1, 1, count) for name in ("tau", "alpha", "kappa")}
    drawn["rho"] = generator.uniform(0, 1, count)
    drawn["ridge"] = 10 ** generator.uniform(-6, 0, count) if with_ridge else np.zeros(count)
    return drawn


def theory(count: int, with_ridge: bool, seed: int) -> dict[str, float]:
    """All points in one call of this package."""
    from iclimit.asymptotics import icl_error

    drawn = points(count, with_ridge, seed)
    if not with_ridge:
        drawn["ridge"] = np.zeros(())

    def run(call: int) -> dict[str, float]:  # noqa: ARG001
        return {"mean": float(np.mean(icl_error(**drawn)))}

    return repeat(run)


def theory_loop(with_ridge: bool, seed: int) -> dict[str, float]:
    """Some of the points in a scalar loop, and how many of them come out right."""
    from benchmarks.scalar_loop import icl_error_at
    from iclimit.asymptotics import icl_error

    drawn = points(LOOP_POINTS, with_ridge, seed)
    expected = icl_error(**drawn)

    def run(call: int) -> dict[str, float]:  # noqa: ARG001
        values = [icl_error_at(*point) for point in zip(*drawn.values(), strict=True)]
        return {"right": float(np.mean(np.isclose(np.array(values), expected, rtol=1e-6)))}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fsolve warns where it fails; that is counted instead
        return repeat(run)
