"""What every device of this machine computes in a few minutes: ``python -m benchmarks gpu``.

Cells of pretraining at growing d as long as time and memory allow, a training and the theory, each
timed at its second call: the first compiles kernels.
"""

import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from iclimit import icl_error, simulate_errors
from iclimit.networks import AttentionNetwork, train_network
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.cell_cost import cell_memory, free_memory

# Dimensions of the cells, those of the recorded table among them.
SIZES = (40, 100, 200, 400, 600, 800, 1000)
# The cells: n = 2 d^2 prompts, d pairs, d/2 tasks.
POINT = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.01}
# Seconds on one device for its cells; with all else the whole takes at most five minutes.
SECONDS = 100.0
# Operations grow as the fourth power of d; a cell that would take longer is left out.
GROWTH = 4
# Steps of the training.
STEPS = 20
# Points of the theory, and its ridges: with one, a root is found at each point.
POINTS = 20_000_000
RIDGES = (0.0, 0.01)

HEAD = f"{'device':8}{'job':34}{'seconds':>10}  result"


def report() -> str:
    """Table of all devices, with the limit of the cells below."""
    lines = [HEAD]
    for backend in ("numpy", "cupy"):
        try:
            get_backend(backend)
        except RuntimeError as error:
            lines.append(f"{backend:8}{error}")
            continue
        for job, seconds, result in _rows(backend):
            lines.append(f"{backend:8}{job:34}{seconds:10.3f}  {result}")
    lines.append(f"ICL error in the limit: {float(icl_error(**POINT)):.4f}")
    return "\n".join(lines)


def _rows(backend: str) -> Iterator[tuple[str, float, str]]:
    """Job, seconds and result of everything on a device."""
    yield from _cells(backend)
    law = Problem(10, 20, scale=1)
    setting: dict[str, Any] = {"steps": STEPS, "batch": 2048, "held_out": 100, "rng": 0}
    network = AttentionNetwork(10, layers=2, width=20)
    run, seconds = _timed(lambda: train_network(network, law, **setting, backend=backend))
    yield f"train 2 layers, {STEPS} steps of 2048", seconds, f"loss {run.losses[-1]:.4f}"
    xp = get_backend(backend).xp
    tau = xp.asarray(np.linspace(1.1, 5, POINTS))
    for ridge in RIDGES:
        point = POINT | {"tau": tau, "ridge": ridge}
        _, seconds = _timed(partial(_summed_errors, xp, point))
        yield f"icl_error, ridge {ridge:g}", seconds, f"{POINTS / seconds:.2g} points/s"


def _summed_errors(xp: Any, point: dict[str, Any]) -> float:
    """Sum of errors: the host has it when all of them are computed."""
    return float(xp.sum(icl_error(**point)))


def _cells(backend: str) -> Iterator[tuple[str, float, str]]:
    """One run of pretraining at every size that there is time and memory for."""
    end = time.monotonic() + SECONDS
    last = 0.0
    for number, dim in enumerate(SIZES):
        prompts = round(POINT["tau"] * dim**2)
        wanted = last * (dim / SIZES[number - 1]) ** GROWTH
        memory = cell_memory(dim=dim, prompts=prompts)
        if 2 * wanted > end - time.monotonic() or memory > free_memory(backend):
            return
        cell = partial(simulate_errors, dim=dim, context=dim, tasks=dim // 2, prompts=prompts)
        run, last = _timed(partial(cell, rho=POINT["rho"], rng=1, backend=backend))
        yield f"simulate_errors, d = {dim}", last, f"ICL error {run.icl.mean:.4f}"


def _timed(compute: Callable[[], Any]) -> tuple[Any, float]:
    """Result of a second call and its seconds."""
    compute()
    start = time.perf_counter()
    result = compute()
    return result, max(time.perf_counter() - start, math.ulp(1.0))
