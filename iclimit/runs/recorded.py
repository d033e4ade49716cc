"""A single computation in this process, unless its result is on record."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from iclimit.runs.cell import Cell
from iclimit.runs.store import RunStore, StoredBatch

Result = TypeVar("Result")


def run_recorded(
    cell: Cell,
    compute: Callable[[], Result],
    *,
    rng: int,
    backend: str,
    store: RunStore | None,
    complete: Callable[[Result], bool] = lambda _: True,
) -> Result:
    """Result of a cell: from the store, or computed here and put on record.

    Parameters
    ----------
    cell : Cell
        Identifies the result.
    compute : callable
        Computes it, with what does not change it, such as checkpoints and progress bars.
    rng, backend, store
        As of `iclimit.runs.run_cells`.
    complete : callable
        Whether a result is to be kept; what an interruption has left is not.

    Returns
    -------
    object
    """
    found = [] if store is None else store.find(cell.identity(rng, backend))
    if found:
        return found[0].value
    start = time.perf_counter()
    result = compute()
    if store is not None and complete(result):
        seconds = time.perf_counter() - start
        store.add(StoredBatch.of(cell, result, rng=rng, backend=backend, seconds=seconds))
    return result
