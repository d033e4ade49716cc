"""Estimated cost of a simulation, before it starts."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import joblib

from iclimit.diagrams.simulated_points import solved_arguments
from iclimit.runs.cell import Cell
from iclimit.runs.store import RunStore
from iclimit.runs.workers import dask_client
from iclimit.simulate.pretraining import sample, simulate_errors
from iclimit.simulate.pretraining.cell_cost import (
    cell_memory,
    estimate_cost,
    free_memory,
    largest_dimension,
)
from iclimit.words import SIZES, TIMES, counted, in_units

# Functions that simulate runs; the other cells are predictions.
SIMULATED = (simulate_errors, sample)

# Seconds in which worker processes start.
_START = 3.0

# Time of a prediction from drawn sequences over that from mean kernels: 6 to 15 at d = 8 to 32.
_DRAWN_SEQUENCES = 10


@dataclass(frozen=True)
class Plan:
    """Estimated cost of cells.

    Attributes
    ----------
    cells, recorded : int
        Cells needed, and how many of them are on record.
    seconds : float
        Time of the other cells on the workers of this machine; for a cluster, on a single core
        that is as fast as those of this machine.
    memory_bytes : int
        Memory of the largest cell; each worker runs one cell at a time.
    workers : int or None
        Processes; None for a cluster.
    largest_dimension : int or None
        Largest d at which as many cells fit into the free memory; None for a cluster.
    on_gpu : int
        Cells for the process with the GPU, whose memory is meant then.
    """

    cells: int
    recorded: int
    seconds: float
    memory_bytes: int
    workers: int | None
    largest_dimension: int | None
    on_gpu: int = 0

    def __str__(self) -> str:
        seconds = in_units(self.seconds, TIMES)
        memory = in_units(self.memory_bytes, SIZES)
        head = f"{self.cells} simulations, {self.recorded} of them in the store; about {seconds}"
        if self.workers is None:
            shared = "on one core like this machine's, to be shared by those of the cluster"
            return f"{head} {shared}, and {memory} in each"
        fits = f"there is memory for d up to {self.largest_dimension}"
        if self.on_gpu:
            rest = f"{self.cells - self.on_gpu} on the cores at the same time"
            return (
                f"{head} at most, {self.on_gpu} on the GPU with {memory} in each, {rest}; {fits}"
            )
        workers = counted(self.workers, "process", "processes")
        return f"{head} and {memory} in each of {workers}; {fits}"


def plan_cells(
    cells: Sequence[Cell],
    *,
    rng: int,
    jobs: int,
    backend: str,
    store: RunStore | None,
    scheduler: str | None = None,
) -> Plan:
    """Estimate what simulations and their predictions will cost, by the speed of this machine.

    Parameters
    ----------
    cells : sequence of Cell
        Of `simulate_errors` or `sample` and of predictions, at least one of the former.
    rng, jobs, backend, store, scheduler
        As in `iclimit.runs.run_cells`.

    Returns
    -------
    Plan

    Raises
    ------
    ValueError
        If a cell does not fit into the free memory of this machine, or of its GPU with "cupy".
    """
    workers: int | None = joblib.cpu_count() if jobs == -1 else jobs
    if scheduler is not None or dask_client() is not None:
        workers = None
    gpu = backend == "cupy" and workers is not None
    runs = [solved_arguments(cell) for cell in cells if cell.function in SIMULATED]
    needs = [(cell_memory(dim=run["dim"], prompts=run["prompts"]), run["dim"]) for run in runs]
    memory, largest = max(needs)
    fits = None
    if workers is not None:
        free = free_memory("cupy") if gpu else free_memory() / workers
        at = [(run["prompts"] / run["dim"] ** 2, run["tasks"] / run["dim"]) for run in runs]
        fits = min(largest_dimension(tau=tau, kappa=kappa, memory=free) for tau, kappa in at)
        if memory > free:
            where = "on the GPU" if gpu else f"for {workers} processes in the free memory"
            raise ValueError(f"dim must be at most {fits} {where}, got {largest}")
    # On the cores, and in the process with the GPU.
    seconds = {False: 0.0, True: 0.0}
    recorded = 0
    for cell in cells:
        batches = [] if store is None else store.find(cell.identity(rng, backend))
        missing = max(0, (cell.repeats or 1) - sum(batch.count for batch in batches))
        seconds[gpu and cell.takes_backend] += _seconds(cell, missing) if missing else 0.0
        recorded += missing == 0
    start = _START if workers is not None and workers > 1 and recorded < len(cells) else 0.0
    longest = max(seconds[False] / (workers or 1), seconds[True]) + start
    on_gpu = sum(cell.takes_backend for cell in cells) if gpu else 0
    return Plan(len(cells), recorded, longest, memory, workers, fits, on_gpu)


def _seconds(cell: Cell, count: int) -> float:
    """Time of so many repeats of a cell on one core, which a GPU does not need longer for."""
    if cell.function in SIMULATED:
        return estimate_cost(**solved_arguments(cell) | {"repeats": count}).seconds
    stated = dict(cell.parameters)
    if "draws" in stated:
        two = Cell.of(cell.function, **stated | {"draws": 2})
        return count * stated["draws"] * _prediction_seconds(two) / 2
    quick = Cell.of(cell.function, **stated | {"approach": "moments"})
    return count * _DRAWN_SEQUENCES * _prediction_seconds(quick)


@cache
def _prediction_seconds(prediction: Cell) -> float:
    """Time of a prediction."""
    start = time.process_time()
    prediction.function(**prediction.keywords, rng=0)
    return time.process_time() - start
