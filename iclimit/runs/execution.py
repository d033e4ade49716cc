"""Running cells: what is on record first, the rest computed anywhere and recorded as it finishes.

Results do not depend on where, in which order or in how many batches they are computed.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import islice
from numbers import Integral, Real
from typing import Any, TypeVar

import joblib

from iclimit.runs.cell import Cell, check_derived
from iclimit.runs.store import RunStore, StoredBatch
from iclimit.runs.workers import Computed, Workers, dask_client

Result = TypeVar("Result")

# Most cells that the GPU computes together.  40 small networks took one step in half the time that
# one of them takes alone, and what is computed in one go is lost in one go.
TOGETHER = 64

# Seconds between looks at what workers have finished.
LOOK = 0.2


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
    cells: Iterable[Cell],
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
    cells : iterable of Cell
        Equal cells are run once.  Workers begin with the first while the others are asked for.
        What is on record with other derived values (`iclimit.statement.AGREEMENT`) is computed
        again.
    rng : int >= 0
        Root of all random numbers.
    jobs : int
        Worker processes; -1 for all cores, 1 to compute in this process.  With "cupy" one process
        more holds the GPU and computes the cells that choose a backend.  With Dask there are as
        many as the cluster has.
    backend : str
        What cells that can choose get as ``backend``.
    store : RunStore, optional
        Where results are looked up and put on record.  Stored ones come as soon as they are found:
        before any other if no workers are used.
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
        If an argument is not allowed, or if equal cells have different derived values.
    RuntimeError
        If a worker process dies, or Dask is not available.  What was finished is on record.
    ConnectionError
        If the Dask scheduler does not answer (any more).
    StoreError
        If the store cannot be read or written.

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
    check_run(rng, jobs)
    limit = math.inf if time_limit is None else time_limit
    if not isinstance(limit, Real) or isinstance(limit, bool) or not limit > 0:
        raise ValueError(f"time_limit must be a number of seconds > 0, got {limit!r}")
    count = joblib.cpu_count() if jobs == -1 else int(jobs)
    if count == 1 and limit == math.inf:
        count = 0  # no process but this one, which could not abandon a cell
    gpu = backend == "cupy" and count > 0 and scheduler is None and dask_client() is None
    sweep = _Sweep(int(rng), backend, store, batch_repeats, gpu)

    def open_workers() -> Workers:
        return Workers(count, scheduler, gpu=gpu)

    return _run(cells, sweep, open_workers, float(limit), ahead=count > 0)


def placement(*, jobs: int, backend: str, scheduler: str | None = None) -> str:
    """Where cells run, in words; empty where all run on the cores of this machine.

    Examples
    --------
    >>> from iclimit.runs.execution import placement
    >>> print(placement(jobs=4, backend="cupy"))
    GPU: one process, for what chooses a backend (kernels compile at its first calls, for seconds)
    cores: 4 processes, for all else at the same time
    """
    if scheduler is not None or dask_client() is not None:
        return "cluster: all, with the GPU of each worker" if backend == "cupy" else "cluster: all"
    if backend != "cupy":
        return ""
    count = joblib.cpu_count() if jobs == -1 else jobs
    compiled = "kernels compile at its first calls, for seconds"
    if count == 1:
        return f"this process: all, on the GPU what chooses a backend ({compiled})"
    return (
        f"GPU: one process, for what chooses a backend ({compiled})\n"
        f"cores: {count} processes, for all else at the same time"
    )


def needed_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Cells and those they need, of equal ones the first."""
    found: dict[Cell, None] = {}
    unseen = deque(cells)
    while unseen:
        cell = unseen.popleft()
        if cell not in found:
            found[cell] = None
            unseen.extend(cell.needs)
    return list(found)


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
    recalled = _recall(store, cell, cell.identity(rng, backend))
    if recalled.batches:
        return recalled.batches[0].value
    start = time.perf_counter()
    result = compute()
    if store is not None and complete(result):
        seconds = time.perf_counter() - start
        batch = StoredBatch.of(cell, result, rng=rng, backend=backend, seconds=seconds)
        store.add(replace(batch, note=recalled.note), replacing=recalled.outdated)
    return result


@dataclass(frozen=True)
class _Recalled:
    """What is on record of a cell.

    Attributes
    ----------
    batches : list of StoredBatch
        Those with the derived values of the cell.
    outdated : list of StoredBatch
        Those with other ones.
    note : str
        Why these are computed again.
    """

    batches: list[StoredBatch | _Part] = field(default_factory=list)
    outdated: list[StoredBatch] = field(default_factory=list)
    note: str = ""


def _recall(store: RunStore | None, cell: Cell, identity: str) -> _Recalled:
    """Find what is on record of a cell, and whether its derived values are still the same."""
    recalled = _Recalled()
    if store is None:
        return recalled
    deviation = ""
    for batch in store.find(identity):
        differs = batch.deviation(cell)
        if differs:
            recalled.outdated.append(batch)
        else:
            recalled.batches.append(batch)
        deviation = deviation or differs
    if deviation:
        return replace(recalled, note=f"computed again: {deviation}")
    return recalled


def _submit(running: dict[Future, list[_Batch]], workers: Workers, sweep: _Sweep) -> None:
    """Give the workers as many batches as they have room for, on the cores and on the GPU."""
    for gpu, room in workers.room.items():
        count = sum(sweep.on_gpu(batches[0].work.cell) == gpu for batches in running.values())
        while count < room and (batches := sweep.next_batches(gpu)):
            running[workers.submit(*map(sweep.job, batches), gpu=gpu)] = batches
            count += 1


def _run(
    cells: Iterable[Cell],
    sweep: _Sweep,
    open_workers: Callable[[], Workers],
    limit: float,
    *,
    ahead: bool,
) -> Iterator[Outcome]:
    """Ask for all cells and keep the workers busy, until all is computed or the time is up.

    Without ``ahead`` nothing is computed before all cells are asked for.
    """
    deadline = time.monotonic() + limit
    unasked: Iterator[Cell] = iter(cells)
    asking = True
    workers = None
    running: dict[Future, list[_Batch]] = {}
    try:
        while asking or running or sweep.waiting or sweep.reported:
            asking = asking and sweep.ask_next(unasked)
            if sweep.waiting and (ahead or not asking):
                workers = workers or open_workers()
                _submit(running, workers, sweep)
            yield from sweep.outcomes()  # with the workers busy, as the caller may take its time
            remaining = min(LOOK, deadline - time.monotonic())
            if remaining <= 0:
                return
            if workers and running:
                try:
                    _collect(running, workers, sweep, 0.0 if asking else remaining)
                except RuntimeError:  # a worker has died; what was finished before is told first
                    yield from sweep.outcomes()
                    raise
    finally:
        if workers:
            workers.close(unfinished=bool(running))


def _collect(
    running: dict[Future, list[_Batch]], workers: Workers, sweep: _Sweep, patience: float
) -> None:
    """Accept what is finished, after so many seconds of patience at most."""
    broken = None
    for future in wait(running, patience, FIRST_COMPLETED).done:
        try:
            batches = running[future]
            results = workers.result(future, len(batches))
            for batch, computed in zip(batches, results, strict=True):
                sweep.accept(batch, computed)
            del running[future]
        except BrokenExecutor as error:
            broken = error
    if broken is not None:
        names = "; ".join(
            batch.work.cell.name for batches in running.values() for batch in batches
        )
        raise RuntimeError(
            "a worker process died, killed or out of memory, with one of these: "
            f"{names} (what was finished before is on record if there is a store)"
        ) from broken


@dataclass(frozen=True)
class _Part:
    """Result of some repeats; the names are those of StoredBatch."""

    first: int
    count: int
    seconds: float
    value: Any


@dataclass(eq=False)
class _Work:
    """What there is to do for all cells of one identity."""

    cell: Cell
    identity: str
    repeats: int | None
    # Each cell with the work that needs it, or None if the caller wants its outcome.
    wanted_by: list[tuple[Cell, _Work | None]] = field(default_factory=list)
    # Of the cells that this one needs.
    results: dict[Cell, Any] = field(default_factory=dict)
    parts: list[StoredBatch | _Part] = field(default_factory=list)
    # On record with other derived values, and what is said of it.
    outdated: list[StoredBatch] = field(default_factory=list)
    note: str = ""
    # Cells that are yet to be computed, once they are known.
    batches: deque[_Batch] | None = None
    running: int = 0
    finished: bool = False


@dataclass(frozen=True)
class _Batch:
    """Some repeats of a work, which are computed in one go."""

    work: _Work
    first: int
    count: int


@dataclass(eq=False)
class _Sweep:
    """What one run has to compute, and what it has found out."""

    root: int
    backend: str
    store: RunStore | None
    batch_repeats: Callable[[Cell], int] | None
    # Whether cells that choose a backend have a process of their own.
    gpu: bool = False
    # The first cell that was asked for, of each statement and number of repeats.
    known: dict[Cell, Cell] = field(default_factory=dict)
    # The first of each identity, with which the derived values of the others must agree.
    stated: dict[str, Cell] = field(default_factory=dict)
    # What can be computed now, on the cores (False) and on the GPU (True).
    ready: dict[bool, deque[_Work]] = field(
        default_factory=lambda: {False: deque(), True: deque()}
    )
    # What can be computed together on the GPU, by function: it waits until all is asked for.
    joint: dict[Callable[..., Any], deque[_Work]] = field(
        default_factory=lambda: defaultdict(deque)
    )
    all_asked: bool = False
    # Cells that are not finished yet, by identity.
    works: dict[str, _Work] = field(default_factory=dict)
    # Cells that are finished and not on record, by identity.
    finished: dict[str, list[StoredBatch | _Part]] = field(default_factory=dict)
    reported: deque[Outcome] = field(default_factory=deque)

    def ask_next(self, cells: Iterator[Cell]) -> bool:
        """Ask for the next cell, unless it was asked for; False if there is none."""
        for cell in cells:
            if not isinstance(cell, Cell):
                raise TypeError(f"cells must be Cell objects, got {cell!r}")
            if cell in self.known:
                check_derived(self.known[cell], cell)
            else:
                self.known[cell] = cell
                self.ask(cell)
            return True
        self.all_asked = True
        return False

    def ask(self, cell: Cell, by: _Work | None = None) -> None:
        """Find the outcome on record, or plan what there is to do, what is needed first."""
        identity = cell.identity(self.root, self.backend)
        check_derived(self.stated.setdefault(identity, cell), cell)
        parts = self._find(cell, identity).batches
        if not list(_gaps(parts, cell.repeats)):
            self._report(cell, by, parts)
            return
        work = self.works.get(identity)
        if work is None:
            work = _Work(cell, identity, cell.repeats)
            self.works[identity] = work
            for need in dict.fromkeys(cell.needs):
                self.ask(need, work)
            if not cell.needs:
                self._queue(cell).append(work)
        elif work.repeats is not None and cell.repeats is not None and work.batches is None:
            work.repeats = max(work.repeats, cell.repeats)
        work.wanted_by.append((cell, by))

    def on_gpu(self, cell: Cell) -> bool:
        """Whether a cell is for the process with the GPU."""
        return self.gpu and cell.takes_backend

    def _queue(self, cell: Cell) -> deque[_Work]:
        """Where a cell waits until there is room."""
        gpu = self.on_gpu(cell)
        return self.joint[cell.function] if gpu and cell.together else self.ready[gpu]

    @property
    def waiting(self) -> bool:
        """Whether something can be computed."""
        return any(self.ready.values()) or any(self.joint.values())

    def next_batches(self, gpu: bool) -> list[_Batch]:
        """Batches to compute next in one go, on the cores or the GPU; empty if none is ready."""
        if batch := self._next_batch(self.ready[gpu]):
            return [batch]
        for queue in list(self.joint.values()) if gpu and self.all_asked else ():
            if batches := list(islice(iter(partial(self._next_batch, queue), None), TOGETHER)):
                return batches
        return []

    def _next_batch(self, ready: deque[_Work]) -> _Batch | None:
        """Next batch of a queue; None if there is none yet."""
        while ready:
            work = ready.popleft()
            if work.batches is None:
                self._start(work)
            if work.batches:
                batch = work.batches.popleft()
                work.running += 1
                if work.batches:
                    ready.appendleft(work)
                return batch
        return None

    def job(self, batch: _Batch) -> tuple[Cell, int, dict[Cell, Any], dict[str, Any]]:
        """One job of `iclimit.runs.workers.compute`."""
        cell = batch.work.cell
        extra: dict[str, Any] = {"backend": self.backend} if cell.takes_backend else {}
        if cell.repeats is not None:
            extra |= {"first_repeat": batch.first, "repeats": batch.count}
        return cell, self.root, batch.work.results, extra

    def accept(self, batch: _Batch, computed: Computed) -> None:
        """Put the result of a batch on record, and finish its work with the last one."""
        work = batch.work
        value = computed.value
        work.running -= 1
        if self.store is not None and not isinstance(value, Exception):
            try:
                record = StoredBatch.of(
                    work.cell,
                    value,
                    rng=self.root,
                    backend=self.backend,
                    seconds=computed.seconds,
                    first=batch.first,
                    count=batch.count,
                )
                record = replace(record, host=computed.host, note=work.note)
                self.store.add(record, replacing=work.outdated)
                work.outdated = []
            except TypeError as error:  # not a result that can be written
                value = error
        work.parts.append(_Part(batch.first, batch.count, computed.seconds, value))
        if isinstance(value, Exception):
            value.add_note(f"in {work.cell.name}")
            self._finish(work, value)
        elif not work.batches and not work.running:
            self._finish(work)

    def outcomes(self) -> Iterator[Outcome]:
        """Outcomes since the last call."""
        while self.reported:
            yield self.reported.popleft()

    def _find(self, cell: Cell, identity: str) -> _Recalled:
        if identity in self.finished:
            return _Recalled(self.finished[identity])
        return _recall(self.store, cell, identity)

    def _start(self, work: _Work) -> None:
        """Cut what is missing by now into batches."""
        for need, result in work.results.items():
            if isinstance(result, Exception):
                text = f"needs {need.name}: {type(result).__name__}: {result}"
                self._finish(work, RuntimeError(text))
                return
        recalled = self._find(work.cell, work.identity)
        work.parts = list(recalled.batches)
        work.outdated = recalled.outdated
        work.note = recalled.note
        work.batches = deque()
        for first, count in _gaps(work.parts, work.repeats):
            most = max(1, count)
            if self.batch_repeats is not None and work.repeats is not None:
                most = max(1, self.batch_repeats(work.cell))
            for start in range(first, first + max(1, count), most):
                work.batches.append(_Batch(work, start, min(most, first + count - start)))
        if not work.batches:
            self._finish(work)

    def _finish(self, work: _Work, failure: Exception | None = None) -> None:
        """Give the outcome to whoever asked for it."""
        if work.finished:
            return
        work.finished = True
        work.batches = deque()
        del self.works[work.identity]
        parts = sorted(work.parts, key=lambda part: part.first)
        if failure is not None:
            seconds = sum(part.seconds for part in parts)
            parts = [_Part(0, max(1, work.repeats or 1), seconds, failure)]
        if failure is not None or self.store is None:
            self.finished[work.identity] = parts
        for cell, by in work.wanted_by:
            if failure is None and (cell.repeats or 0) > (work.repeats or 0):
                self.ask(cell, by)  # for more repeats than were known of when it began
            else:
                self._report(cell, by, parts)

    def _report(self, cell: Cell, by: _Work | None, parts: Sequence[StoredBatch | _Part]) -> None:
        outcome = _outcome(cell, parts)
        if by is None:
            self.reported.append(outcome)
        else:
            by.results[cell] = outcome.result
            if all(need in by.results for need in by.cell.needs):
                self._queue(by.cell).appendleft(by)


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


def _outcome(cell: Cell, parts: Sequence[StoredBatch | _Part]) -> Outcome:
    """Concatenate the parts and cut them to what the cell asks for."""
    stored = all(isinstance(part, StoredBatch) for part in parts)
    if isinstance(parts[0].value, Exception):
        return Outcome(cell, parts[0].value, parts[0].seconds, stored)
    wanted = 1 if cell.repeats is None else cell.repeats
    used = [part for part in parts if part.first < wanted]
    try:
        value = reduce(lambda first, more: first.concatenate(more), (part.value for part in used))
        if cell.repeats is not None and used[-1].first + used[-1].count > wanted:
            value = value.head(wanted)
    except Exception as error:
        value = error
    seconds = sum(p.seconds * min(1.0, (wanted - p.first) / p.count) for p in used)
    return Outcome(cell, value, seconds, stored)
