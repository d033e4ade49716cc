"""Running cells: what is on record first, the rest computed anywhere and recorded as it finishes.

Results do not depend on where, in which order or in how many batches they are computed.
"""

from __future__ import annotations

import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from numbers import Integral, Real
from typing import Any

import joblib

from iclimit.runs.cell import Cell
from iclimit.runs.reservations import Reservations
from iclimit.runs.store import RunStore, StoredBatch, StoreError, UnwrittenError
from iclimit.runs.workers import (
    Cluster,
    Computed,
    Job,
    Processes,
    ThisProcess,
    WorkerDied,
    Workers,
    dask_client,
)

SUSPECT, GUILTY = 2, 3
"""Workers that died with a batch until it is tried with nothing beside it, and until it fails."""

LOOK = 5.0
"""Seconds after which to look whether the workers are still there."""

LOOK_ELSEWHERE = 0.2
"""Seconds after which to look whether other processes have finished what they had reserved."""

WRITING_SHARE = 0.1
"""Largest share of the time spent on trying again to write to a store that refuses."""


@dataclass(frozen=True)
class Outcome:
    """A finished cell.

    Attributes
    ----------
    cell : Cell
        As it was asked for.
    result : object
        What its function returned, or the Exception that it raised.
    seconds : float
        Time of the computation, also of one that was made earlier.
    stored : bool
        Whether all of the result came from the store.
    """

    cell: Cell
    result: Any
    seconds: float
    stored: bool


def check_run(rng: int, jobs: int) -> None:
    """Raise a ValueError unless a run can start with this seed and number of jobs."""
    if not isinstance(rng, Integral) or isinstance(rng, bool) or rng < 0:
        raise ValueError(f"rng (--seed) must be an integer >= 0, got {rng!r}")
    if not isinstance(jobs, Integral) or isinstance(jobs, bool) or jobs == 0 or jobs < -1:
        raise ValueError(f"jobs must be >= 1, or -1 for all cores, got {jobs!r}")


def run_cells(
    cells: Sequence[Cell],
    *,
    rng: int,
    jobs: int = -1,
    backend: str = "numpy",
    store: RunStore | None = None,
    scheduler: str | None = None,
    time_limit: float | None = None,
    batch_repeats: Callable[[Cell], int] | None = None,
) -> Iterator[Outcome]:
    """Run cells, those they need before them, and yield each as it is finished.

    Parameters
    ----------
    cells : sequence of Cell
        Equal cells are run once.
    rng : int >= 0
        Root of all random numbers.
    jobs : int
        Worker processes; -1 for all cores, 1 to compute in this process.  With "cupy" one
        process is used, with Dask what the cluster has.
    backend : str
        What cells that can choose get as ``backend``.
    store : RunStore, optional
        Where results are looked up and put on record.  Stored ones come first.
    scheduler : str, optional
        Address of a Dask scheduler, such as "tcp://10.0.0.1:8786".  Within
        ``joblib.parallel_config(backend="dask")`` the cluster of that is used.
    time_limit : float > 0, optional
        Seconds after which the iteration ends; cells that are running then are abandoned.
    batch_repeats : callable, optional
        Gives, for an extendable cell, how many repeats to compute at most in one go.

    Yields
    ------
    Outcome
        An exception of a cell is its result; the others go on.

    Raises
    ------
    ValueError, TypeError
        If an argument is not allowed.
    RuntimeError
        If Dask is not available.
    ConnectionError
        If the Dask scheduler does not answer (any more).
    StoreError
        If the store cannot be read; an UnwrittenError at the end, if results could not be written.
        They were yielded, kept and tried again with every later one.

    Examples
    --------
    >>> from iclimit.simulate.pretraining import simulate_errors
    >>> from iclimit.runs.cell import Cell
    >>> from iclimit.runs.execution import run_cells
    >>> cell = Cell.of(
    ...     simulate_errors, dim=10, context=10, tasks=5, prompts=200, rho=0.1, repeats=4
    ... )
    >>> [outcome] = run_cells([cell], rng=0, jobs=1)
    >>> outcome.result.repeats, outcome.stored
    (4, False)
    """
    for cell in cells:
        if not isinstance(cell, Cell):
            raise TypeError(f"cells must be Cell objects, got {cell!r}")
    check_run(rng, jobs)
    if time_limit is not None and (
        not isinstance(time_limit, Real) or isinstance(time_limit, bool) or not time_limit > 0
    ):
        raise ValueError(f"time_limit must be a number of seconds > 0, got {time_limit!r}")
    if scheduler is not None and (not isinstance(scheduler, str) or not scheduler):
        raise ValueError(f"scheduler must be an address, got {scheduler!r}")
    limit = None if time_limit is None or math.isinf(time_limit) else float(time_limit)
    sweep = _Sweep(int(rng), backend, store, batch_repeats)

    def workers() -> Workers:
        if scheduler is not None:
            return Cluster.connect(scheduler)
        client = dask_client()
        if client is not None:
            return Cluster(client, ours=False)
        count = 1 if backend == "cupy" else joblib.cpu_count() if jobs == -1 else int(jobs)
        return ThisProcess() if count == 1 and limit is None else Processes.get(count)

    return _run(dict.fromkeys(cells), sweep, workers, limit)


def _run(
    cells: Iterable[Cell],
    sweep: _Sweep,
    open_workers: Callable[[], Workers],
    time_limit: float | None,
) -> Iterator[Outcome]:
    deadline = None if time_limit is None else time.monotonic() + time_limit
    for cell in cells:
        known = sweep.plan(cell)
        if isinstance(known, Outcome):
            yield known
        else:
            known.asked.append(cell)
        if _passed(deadline):
            return
    if sweep.ready:
        yield from _compute(sweep, open_workers(), deadline)
        sweep.check_written()


def _compute(sweep: _Sweep, workers: Workers, deadline: float | None) -> Iterator[Outcome]:
    """Keep the workers busy until all is computed or the time is up."""
    running: dict[Future, _Batch] = {}
    try:
        while True:
            room = workers.room()
            while len(running) < room and (batch := sweep.next_batch(alone=not running)):
                running[workers.submit(sweep.job(batch))] = batch
            yield from sweep.told()
            if not running and not sweep.elsewhere:
                return
            left = LOOK_ELSEWHERE if sweep.elsewhere else LOOK
            if deadline is not None:
                left = min(left, max(0.0, deadline - time.monotonic()))
            if not running:
                time.sleep(left)
            for future in wait(running, left, FIRST_COMPLETED).done:
                try:
                    sweep.accept(running[future], workers.result(future))
                except WorkerDied as error:
                    sweep.retry(running[future], error)
                del running[future]
            yield from sweep.told()
            sweep.look_elsewhere()
            if _passed(deadline):
                return
    finally:
        workers.close(unfinished=bool(running))
        for future, batch in running.items():
            if future.done() and not future.cancelled() and future.exception() is None:
                sweep.salvage(batch, workers.result(future))
        sweep.close()


def _passed(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline


@dataclass(eq=False)
class _Work:
    """A piece of work, with the most repeats that any cell asks of it."""

    cell: Cell
    identity: str
    asked: list[Cell] = field(default_factory=list)
    needed_by: list[tuple[_Work, Cell]] = field(default_factory=list)
    blocked: int = 0
    results: dict[Cell, Any] = field(default_factory=dict)
    parts: list[StoredBatch | _Part] = field(default_factory=list)
    waiting: deque[tuple[int, int]] | None = None
    running: int = 0
    stored: bool = True
    finished: bool = False


@dataclass
class _Part:
    """Result of some repeats; the names are those of StoredBatch."""

    first: int
    count: int
    seconds: float
    value: Any


@dataclass
class _Batch:
    """Some repeats of a work, to be computed in one go."""

    work: _Work
    first: int
    count: int
    deaths: int = 0


class _Sweep:
    """What one run has to compute, what it found out and what it has yet to tell and to write."""

    def __init__(
        self,
        seed: int,
        backend: str,
        store: RunStore | None,
        batch_repeats: Callable[[Cell], int] | None,
    ) -> None:
        self.ready: deque[_Work] = deque()
        self.elsewhere: deque[_Work] = deque()
        self._seed = seed
        self._backend = backend
        self._store = store
        self._reservations = None if store is None else Reservations(store.path)
        self._batch_repeats = batch_repeats
        self._works: dict[str, _Work] = {}
        self._needed: dict[Cell, Outcome | _Work] = {}
        self._again: deque[_Batch] = deque()
        self._suspects: deque[_Batch] = deque()
        self._on_trial = False
        self._outcomes: deque[Outcome] = deque()
        self._unwritten: deque[StoredBatch] = deque()
        self._trouble: StoreError | None = None
        self._next_write = 0.0
        self._next_look = 0.0

    def plan(self, cell: Cell) -> Outcome | _Work:
        """Find the outcome on record, or what there is to do, after what is needed for it."""
        identity = cell.identity(self._seed, self._backend)
        parts = self._find(identity)
        if not list(_gaps(parts, cell.repeats)):
            return _outcome(cell, parts, stored=True)
        work = self._works.get(identity)
        if work is None:
            work = self._works[identity] = _Work(cell, identity)
            for need in dict.fromkeys(cell.needs):
                if need not in self._needed:
                    self._needed[need] = self.plan(need)
                known = self._needed[need]
                if isinstance(known, Outcome):
                    work.results[need] = known.result
                else:
                    known.needed_by.append((work, need))
                    work.blocked += 1
            if not work.blocked:
                self.ready.append(work)
        elif (cell.repeats or 0) > (work.cell.repeats or 0):
            work.cell = cell
        return work

    def next_batch(self, *, alone: bool) -> _Batch | None:
        """Next batch to compute, if there is one now; a suspect only if nothing else runs."""
        if self._on_trial:
            return None
        if self._suspects:
            self._on_trial = alone
            return self._suspects.popleft() if alone else None
        if self._again:
            return self._again.popleft()
        while self.ready:
            work = self.ready[0]
            if work.waiting is None and not self._start(work):
                self.elsewhere.append(self.ready.popleft())
                continue
            if work.waiting:
                work.running += 1
                return _Batch(work, *work.waiting.popleft())
            self.ready.remove(work)
        return None

    def look_elsewhere(self) -> None:
        """Have another look, now and then, at what other processes had reserved."""
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + LOOK_ELSEWHERE
            self.ready.extendleft(self.elsewhere)
            self.elsewhere.clear()

    def job(self, batch: _Batch) -> Job:
        """What a worker has to know of a batch."""
        cell = batch.work.cell
        extra: dict[str, Any] = {"backend": self._backend} if cell.takes_backend else {}
        if cell.repeats is not None:
            extra |= {"first_repeat": batch.first, "repeats": batch.count}
        return Job(cell, self._seed, batch.work.results, extra)

    def accept(self, batch: _Batch, computed: Computed) -> None:
        """Take the result of a batch: write it down, and tell it with the last of its work."""
        work, value = batch.work, computed.value
        self._on_trial = False
        if not isinstance(value, Exception):
            try:
                self._record(batch, computed)
            except TypeError as error:
                value = error
        work.running -= 1
        work.parts.append(_Part(batch.first, batch.count, computed.seconds, value))
        work.stored = False
        if isinstance(value, Exception):
            value.add_note(f"in {work.cell.name}")
            work.waiting = deque()
            self._finish(work, value)
        elif not work.waiting and not work.running:
            self._finish(work)

    def retry(self, batch: _Batch, error: WorkerDied) -> None:
        """Compute a batch again whose worker died, or give it up."""
        batch.deaths += 1
        if batch.deaths < GUILTY:
            self._on_trial = False
            (self._again if batch.deaths < SUSPECT else self._suspects).append(batch)
        else:
            named = WorkerDied(f"{error}, computing {batch.work.cell.name}")
            self.accept(batch, Computed(named, 0.0, ""))

    def salvage(self, batch: _Batch, computed: Computed) -> None:
        """Write down what was finished when the run was cut short."""
        if not isinstance(computed.value, Exception):
            with suppress(TypeError):
                self._record(batch, computed)

    def told(self) -> Iterator[Outcome]:
        """Outcomes since the last time."""
        while self._outcomes:
            yield self._outcomes.popleft()

    def check_written(self) -> None:
        """Raise an UnwrittenError if results are still not on record."""
        self._next_write = 0.0
        self._write()
        if self._unwritten:
            raise UnwrittenError(
                f"{len(self._unwritten)} results are not stored: {self._trouble}"
            ) from self._trouble

    def close(self) -> None:
        """Leave what was not computed to others."""
        if self._reservations:
            self._reservations.close()

    def _find(self, identity: str) -> list[StoredBatch]:
        return [] if self._store is None else self._store.find(identity)

    def _start(self, work: _Work) -> bool:
        """Cut what is missing by now into batches; False if another process computes it."""
        if self._reservations and not self._reservations.reserve(work.identity):
            return False
        work.waiting = deque()
        failed = next((c for c, r in work.results.items() if isinstance(r, Exception)), None)
        if failed is not None:
            error = work.results[failed]
            self._finish(
                work, RuntimeError(f"needs {failed.name}: {type(error).__name__}: {error}")
            )
            return True
        work.parts = list(self._find(work.identity))
        for first, count in _gaps(work.parts, work.cell.repeats):
            most = self._most(work.cell, count)
            for start in range(first, first + count, most):
                work.waiting.append((start, min(most, first + count - start)))
        if not work.waiting:
            self._finish(work)
        return True

    def _most(self, cell: Cell, count: int) -> int:
        """Repeats in one batch."""
        if self._batch_repeats is None or cell.repeats is None:
            return max(1, count)
        most = self._batch_repeats(cell)
        if not isinstance(most, Integral) or most < 1:
            raise ValueError(f"batch_repeats must give an integer >= 1, got {most!r}")
        return int(most)

    def _finish(self, work: _Work, failure: Exception | None = None) -> None:
        """Tell the outcome to whoever asked, and pass the result to the works that need it."""
        if work.finished:
            return
        work.finished = True
        if self._reservations:
            self._reservations.release(work.identity)
        work.parts.sort(key=lambda part: part.first)

        def outcome(cell: Cell) -> Outcome:
            if failure is None:
                return _outcome(cell, work.parts, stored=work.stored)
            return Outcome(cell, failure, sum(part.seconds for part in work.parts), stored=False)

        self._outcomes.extend(map(outcome, work.asked))
        for other, need in work.needed_by:
            other.results[need] = outcome(need).result
            other.blocked -= 1
            if not other.blocked:
                self.ready.appendleft(other)
        work.parts, work.results = [], {}

    def _record(self, batch: _Batch, computed: Computed) -> None:
        if self._store is None:
            return
        stored = StoredBatch.of(
            batch.work.cell,
            computed.value,
            rng=self._seed,
            backend=self._backend,
            seconds=computed.seconds,
            first=batch.first,
            count=batch.count,
        )
        self._unwritten.append(replace(stored, host=computed.host))
        self._write()

    def _write(self) -> None:
        start = time.monotonic()
        if self._store is None or start < self._next_write:
            return
        try:
            while self._unwritten:
                self._store.add(self._unwritten[0])
                self._unwritten.popleft()
        except StoreError as error:
            if self._trouble is None:
                message = f"{error} (results are kept, and tried again with every later one)"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
            self._trouble = error
            spent = time.monotonic() - start
            self._next_write = start + spent / WRITING_SHARE


def _gaps(parts: Sequence[StoredBatch | _Part], repeats: int | None) -> Iterator[tuple[int, int]]:
    """(first, count) of the repeats that are missing; (0, 1) for a cell without repeats."""
    covered = 0
    wanted = 1 if repeats is None else repeats
    for part in parts:
        if covered < part.first < wanted:
            yield covered, part.first - covered
        covered = part.first + part.count
    if covered < wanted or wanted < 1:
        yield covered, wanted - covered


def _outcome(cell: Cell, parts: Sequence[StoredBatch | _Part], *, stored: bool) -> Outcome:
    """Join the parts in order and cut them to what the cell asks for."""
    wanted = 1 if cell.repeats is None else cell.repeats
    used = [part for part in parts if part.first < wanted]
    try:
        value = reduce(lambda left, right: left.concatenate(right), (part.value for part in used))
        if cell.repeats is not None and used[-1].first + used[-1].count > wanted:
            value = value.head(wanted)
    except Exception as error:
        value = error
    seconds = sum(p.seconds * min(1.0, (wanted - p.first) / p.count) for p in used)
    return Outcome(cell, value, seconds, stored)
