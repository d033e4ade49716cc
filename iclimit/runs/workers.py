"""Where jobs run: in this process, in worker processes, or on a Dask cluster.

One more process may hold a GPU: it computes what chooses a backend, while the others compute the
rest.

All of these are executors of `concurrent.futures` (the processes are those of joblib), so that one
loop serves them.  `joblib.Parallel` would serve them too, but with Dask it waits forever for a
task whose worker has died (joblib 1.6), and it takes tasks in threads that must not use the store.

A job computes with one BLAS thread wherever it runs, because rounding depends on their number.
"""

import atexit
import logging
import math
import os
import pickle
import platform
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import joblib
import scipy.linalg  # noqa: F401  its BLAS must be loaded before its threads can be limited
from joblib.externals.loky import get_reusable_executor, process_executor
from threadpoolctl import threadpool_limits

from iclimit.extras import import_extra
from iclimit.interrupts import deferred_interrupts
from iclimit.runs.cell import Cell
from iclimit.threads import one_blas_thread

# Jobs in flight per worker process, so that none waits while this process judges and draws.
AHEAD = 8

# Seconds after which worker processes without a job end.
IDLE = 60

# Seconds within which a Dask scheduler must answer.
PATIENCE = 10.0

# Where semaphores are.
_SHARED = Path("/dev/shm")

_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class Computed(NamedTuple):
    """What a job gave: the value or the exception, its seconds and its host."""

    value: object
    seconds: float
    host: str


# A cell with the arguments of `iclimit.runs.cell.Cell.call`.
Job: TypeAlias = tuple[Cell, int, Mapping[Cell, Any], Mapping[str, Any]]


def compute(*jobs: Job) -> list[Computed]:
    """Run a cell, or several of a function that computes them together.

    An exception is the value of its cell.  Of several each has an equal part of the time.
    """
    start = time.perf_counter()
    try:
        values = _values(jobs)
    except (Exception, SystemExit) as error:
        values = [_movable(error)] * len(jobs)
    free_gpu()
    seconds = (time.perf_counter() - start) / len(jobs)
    return [Computed(value, seconds, platform.node()) for value in values]


def _values(jobs: Sequence[Job]) -> list[Any]:
    """What cells return, or raise if there are several."""
    if len(jobs) == 1:
        [(cell, root, results, extra)] = jobs
        return [cell.run(root, results, extra)]
    together = jobs[0][0].together
    assert together is not None
    values = together([cell.call(root, results, extra) for cell, root, results, extra in jobs])
    return [_movable(value) if isinstance(value, Exception) else value for value in values]


def _movable(error: BaseException) -> Exception:
    """The exception, or its text if that is all that another process could read."""
    text = RuntimeError(f"{type(error).__name__}: {error}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return text
    return error if isinstance(error, Exception) else text


def free_gpu() -> None:
    """Give the memory of the GPU back, for a cell of other shapes."""
    if cupy := sys.modules.get("cupy"):
        cupy.get_default_memory_pool().free_all_blocks()


class Workers:
    """Somewhere to run jobs: a cluster if there is one, processes, or this process.

    Parameters
    ----------
    jobs : int
        Worker processes; 0 to run jobs here, while they are submitted.
    scheduler : str, optional
        Address of a Dask scheduler.
    gpu : bool
        Whether one more process computes what chooses a backend.  It lives until `close`.

    Raises
    ------
    RuntimeError
        If Dask is not installed.
    ConnectionError
        If the scheduler does not answer.
    """

    def __init__(self, jobs: int, scheduler: str | None, *, gpu: bool = False) -> None:
        self._own_client = None if scheduler is None else _connect(scheduler)
        self._client = self._own_client or dask_client()
        # Jobs to have in flight, on the cores (False) and in the process with the GPU (True).
        self.room = {False: math.inf if self._client else max(1, AHEAD * jobs)}
        self._executors: dict[bool, Executor] = {}
        self._submitting: Callable[[], AbstractContextManager[None]] = nullcontext
        if self._client:
            self._executors[False] = self._client.get_executor(pure=False)
        elif jobs:
            from multiprocessing import resource_tracker

            resource_tracker.ensure_running()  # whose start would let interrupts through
            self._submitting = deferred_interrupts
            remove_abandoned(_SHARED)
            claim_semaphores(_SHARED)
            # A worker process that idled or has grown is replaced, and no result is lost.
            warnings.filterwarnings("ignore", "A worker stopped while some jobs", UserWarning)
            self._executors[False] = get_reusable_executor(
                jobs, timeout=IDLE, env=_ONE_THREAD, initializer=_follow, initargs=(os.getpid(),)
            )
            if gpu:
                self.room[True] = AHEAD
                self._executors[True] = process_executor.ProcessPoolExecutor(
                    1, env=_ONE_THREAD, initializer=_hold_gpu, initargs=(os.getpid(),)
                )
        else:
            self._executors[False] = _ThisProcess()

    def submit(self, *jobs: Job, gpu: bool = False) -> Future:
        """Begin what `compute` takes, on the cores or on the GPU."""
        version = jobs[0][0].version if self._client else ""
        run: tuple[Any, ...] = (_compute_there, version) if self._client else (compute,)
        try:
            with self._submitting():
                return self._executors[gpu].submit(*run, *jobs)
        except BrokenExecutor as error:  # a worker has died in the meantime; `result` says so
            broken: Future = Future()
            broken.set_exception(error)
            return broken

    def result(self, future: Future, count: int) -> list[Computed]:
        """What finished jobs, so many in one go, gave.

        Raises
        ------
        BrokenExecutor
            If a worker process died.
        ConnectionError
            If the cluster is gone.
        """
        try:
            computed: list[Computed] = future.result()
        except BrokenExecutor:
            raise
        except Exception as error:
            if isinstance(error, CancelledError) or self._lost():
                raise ConnectionError("the Dask scheduler does not answer any more") from error
            # It could not be moved from or to a worker.
            return [Computed(_movable(error), 0.0, "")] * count
        return computed

    def _lost(self) -> bool:
        """Whether there is a cluster without a connection to it."""
        return self._client is not None and self._client.status != "running"

    def close(self, *, unfinished: bool) -> None:
        """Leave, and end what is unfinished."""
        for gpu, executor in self._executors.items():
            if unfinished:
                for process in list(getattr(executor, "_processes", {}).values()):
                    process.terminate()
            if unfinished or gpu:
                executor.shutdown(wait=not self._client)
        if self._own_client:
            self._own_client.close()


class _ThisProcess(Executor):
    """Runs a job while it is submitted."""

    def submit(self, function: Any, /, *arguments: Any) -> Future:  # type: ignore[override]
        future: Future = Future()
        with one_blas_thread:
            future.set_result(function(*arguments))
        return future


def claim_semaphores(folder: Path) -> None:
    """Leave a mark that this process has semaphores, until it ends or is killed.

    Containers may share the folder, but not the numbers of processes, by which semaphores are
    named: the mark has the space of these numbers as well.
    """
    with suppress(OSError):  # a system without such spaces
        mark = folder / f"iclimit-{_space()}-{os.getpid()}"
        mark.touch()
        atexit.register(mark.unlink, missing_ok=True)


def remove_abandoned(folder: Path) -> None:
    """Remove the semaphores of earlier runs that were killed with the process that clears up."""
    with suppress(OSError):  # another process removes them too
        for mark in folder.glob(f"iclimit-{_space()}-*"):
            owner = mark.name.rpartition("-")[2]
            if Path("/proc", owner).exists() or not _is_own(mark):
                continue
            elsewhere = len(list(folder.glob(f"iclimit-*-{owner}"))) > 1
            for file in folder.glob(f"sem.loky-{owner}-*"):
                if _is_own(file) and not elsewhere:
                    file.unlink()
            mark.unlink()


def _space() -> int:
    """Number of the space in which this process has its number."""
    return Path("/proc/self/ns/pid").stat().st_ino


def _is_own(file: Path) -> bool:
    """Whether a file is of this user."""
    return file.stat().st_uid == os.getuid()


def dask_client() -> Any:
    """Client of the surrounding ``joblib.parallel_config(backend="dask")``, or None."""
    backend, _ = joblib.parallel.get_active_backend()
    return getattr(backend, "client", None)


def _connect(address: str) -> Any:
    client: Any = import_extra("distributed", "cluster", "scheduler").Client
    # Errors that it logs are raised here.
    logging.getLogger("distributed.client").setLevel(logging.CRITICAL)

    class UnclosedClient(client):
        def __del__(self) -> None:
            """Leave alone: closing a client that never connected hangs, with a traceback."""

    try:
        return UnclosedClient(address, timeout=PATIENCE, set_as_default=False)
    except Exception as error:  # Dask raises whatever its parts do
        raise ConnectionError(
            "scheduler must be the address of a running Dask scheduler, such as "
            f"'tcp://10.0.0.1:8786', got {address!r}: {error}"
        ) from error


def _compute_there(version: str, job: Job) -> list[Computed]:
    """Run a job on a cluster, if the code there is that of the process that asks for it."""
    cell = job[0]
    here = Cell(cell.function, cell.parameters)  # the one that came knows the version it had
    if cell.function.__module__ != "__main__" and here.version != version:
        raise RuntimeError(
            f"worker {platform.node()} has other code for {cell.function.__name__} than the "
            "process that runs the cells; install the same version of iclimit there"
        )
    threadpool_limits(1)  # for good, as other jobs may be running in this process
    return compute(job)


def _follow(parent: int) -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the parent, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _hold_gpu(parent: int) -> None:
    """Stay alive whatever memory a job leaves: a new process would load CUDA and compile again."""
    process_executor._MAX_MEMORY_LEAK_SIZE = math.inf
    _follow(parent)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
