"""Where cells are computed: in this process, in worker processes or on a Dask cluster.

All three give `concurrent.futures` futures, so that one loop serves them.  Every job computes with
one BLAS thread, so that rounding does not depend on where it runs.
"""

from __future__ import annotations

import math
import os
import pickle
import platform
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import resource_tracker
from typing import Any, ClassVar, NamedTuple, Protocol

import cloudpickle
import joblib
import scipy.linalg  # noqa: F401  its BLAS is to be loaded before threads are limited
from joblib.externals.loky import ProcessPoolExecutor
from threadpoolctl import ThreadpoolController

from iclimit.runs.cell import Cell

PATIENCE = 10.0
"""Seconds that a Dask scheduler has to answer."""

GROWTH = 1.0
"""Seconds after which a Dask cluster is asked again for the number of its workers."""

MISSED = 30.0
"""Seconds without any workers after which there is a warning."""

IDLE = 60.0
"""Seconds after which worker processes without work end."""

PASSING = 1.0
"""Most seconds that a job takes from this process to the queue of the workers (measured: 1e-3)."""

AHEAD = 2
"""Jobs in flight per worker, so that none waits for the next."""

_ONE_THREAD = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "BLIS", "VECLIB")
}


class WorkerDied(RuntimeError):
    """The process that computed a job is gone, killed or out of memory."""


class Computed(NamedTuple):
    """What came out of a job: the value or the exception, seconds and host."""

    value: Any
    seconds: float
    host: str


@dataclass(frozen=True)
class Job:
    """A batch of a cell with all that it takes to compute it anywhere."""

    cell: Cell
    seed: int
    results: dict[Cell, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    def run(self) -> Computed:
        """Compute; an exception is the result."""
        start = time.perf_counter()
        try:
            with _one_thread():
                value = self.cell.run(self.seed, results=self.results, **self.extra)
        except Exception as error:
            value = error
        except SystemExit as error:
            value = RuntimeError(f"the cell ended its process: SystemExit({error})")
        return Computed(value, time.perf_counter() - start, platform.node())


class Workers(Protocol):
    """Somewhere to compute jobs."""

    def room(self) -> int:
        """Jobs to have in flight."""

    def submit(self, job: Job) -> Future:
        """Begin a job."""

    def result(self, future: Future) -> Computed:
        """What a finished future holds.

        Raises
        ------
        WorkerDied
            If the job can be tried again.
        ConnectionError
            If there are no workers any more.
        """

    def close(self, *, unfinished: bool) -> None:
        """Leave; kill what is unfinished."""


class ThisProcess:
    """Computes jobs at once, here."""

    def room(self) -> int:
        return 1

    def submit(self, job: Job) -> Future:
        future: Future = Future()
        future.set_result(job.run())
        return future

    def result(self, future: Future) -> Computed:
        return future.result()

    def close(self, *, unfinished: bool) -> None:
        pass


class Processes:
    """Worker processes of this machine; kept for the next run unless they were killed."""

    _idle: ClassVar[list[Processes]] = []

    def __init__(self, count: int) -> None:
        self.count = count
        self._pool = self._new_pool()
        self._latest: Future | None = None

    @classmethod
    def get(cls, count: int) -> Processes:
        """Idle workers of an earlier run, or new ones."""
        with suppress(IndexError):
            idle = cls._idle.pop()
            if idle.count == count:
                return idle
            idle._pool.shutdown(kill_workers=True)
        return cls(count)

    def room(self) -> int:
        return AHEAD * self.count

    def submit(self, job: Job) -> Future:
        data = cloudpickle.dumps(job)
        with _interrupts_held():
            try:
                self._latest = self._pool.submit(_run_pickled, data)
            except BrokenExecutor:
                self._pool = self._new_pool()
                self._latest = self._pool.submit(_run_pickled, data)
        return self._latest

    def result(self, future: Future) -> Computed:
        try:
            return pickle.loads(future.result())
        except BrokenExecutor as error:
            raise WorkerDied("the worker died, killed or out of memory") from error
        except Exception as error:
            return Computed(error, 0.0, "")

    def close(self, *, unfinished: bool) -> None:
        if unfinished:
            self._wait_until_passed_on()
        if unfinished or self._idle:
            self._pool.shutdown(kill_workers=True)
        else:
            self._idle.append(self)

    def _wait_until_passed_on(self) -> None:
        """Told to kill workers before it gave them their jobs, the thread of loky fails."""
        patience = time.monotonic() + PASSING
        while (
            self._latest is not None
            and not (self._latest.running() or self._latest.done())
            and time.monotonic() < patience
        ):
            time.sleep(0.001)

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.count,
            timeout=IDLE,
            initializer=_prepare_process,
            initargs=(os.getpid(),),
            env=_ONE_THREAD,
        )


def _check_address(address: str) -> None:
    """Raise a ValueError unless an address can be one of a scheduler."""
    from distributed.comm import parse_address, parse_host_port

    _, place = parse_address(address)
    parse_host_port(place)


class Cluster:
    """Workers of a Dask cluster."""

    def __init__(self, client: Any, *, ours: bool) -> None:
        self._client = client
        self._ours = ours
        self._address = client.scheduler.address
        self._executor = client.get_executor(pure=False)
        self._threads = 0
        self._counted = -math.inf
        self._missed = time.monotonic()

    @classmethod
    def connect(cls, address: str) -> Cluster:
        """Find the workers of a scheduler.

        Raises
        ------
        RuntimeError
            If distributed is not installed.
        ConnectionError
            If the scheduler does not answer.
        """
        try:
            from distributed import Client
        except ImportError as error:
            raise RuntimeError(
                "scheduler needs Dask; install it with: pip install 'iclimit[cluster]'"
            ) from error
        try:
            _check_address(address)
            client = Client(address, timeout=PATIENCE, set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConnectionError(
                f"scheduler must be the address of a running Dask scheduler, such as "
                f"'tcp://10.0.0.1:8786', got {address!r}: {error}"
            ) from error
        return cls(client, ours=True)

    def room(self) -> int:
        if time.monotonic() > self._counted + GROWTH:
            try:
                self._threads = sum(self._client.nthreads().values())
            except (OSError, RuntimeError) as error:
                raise self._gone() from error
            self._counted = time.monotonic()
            if self._threads:
                self._missed = self._counted
            elif self._counted > self._missed + MISSED:
                self._missed = math.inf
                message = f"the Dask scheduler at {self._address} has no workers; waiting for some"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
        return AHEAD * max(1, self._threads)

    def submit(self, job: Job) -> Future:
        return self._executor.submit(_run_checked, cloudpickle.dumps(job), job.cell.version)

    def result(self, future: Future) -> Computed:
        from distributed import KilledWorker

        try:
            return pickle.loads(future.result())
        except KilledWorker as error:
            # The scheduler has tried it again already.
            return Computed(WorkerDied(f"workers died, killed or out of memory: {error}"), 0.0, "")
        except CancelledError as error:
            raise self._gone() from error
        except Exception as error:
            return Computed(error, 0.0, "")

    def close(self, *, unfinished: bool) -> None:
        if unfinished:
            with suppress(OSError, RuntimeError, CancelledError):  # the scheduler may be gone
                self._executor.shutdown(wait=False)
        if self._ours:
            self._client.close()

    def _gone(self) -> ConnectionError:
        return ConnectionError(f"the Dask scheduler at {self._address} does not answer any more")


def dask_client() -> Any:
    """Client of the surrounding ``joblib.parallel_config(backend="dask")``, or None."""
    backend, _ = joblib.parallel.get_active_backend()
    return getattr(backend, "client", None)


def _run_pickled(job: bytes) -> bytes:
    """Run a job from and to bytes, which no executor can fail to move."""
    computed = pickle.loads(job).run()
    try:
        answer = cloudpickle.dumps(computed)
        pickle.loads(answer)
    except Exception as error:
        cause = computed.value if isinstance(computed.value, Exception) else error
        told = RuntimeError(f"{type(cause).__name__}: {cause}")
        answer = pickle.dumps(computed._replace(value=told))
    return answer


def _run_checked(job: bytes, version: str) -> bytes:
    """Run a job if the code here is that of the process which asks for it."""
    cell = pickle.loads(job).cell
    known = cell.function.__module__ != "__main__"
    if known and Cell(cell.function, cell.parameters).version != version:
        raise RuntimeError(
            f"worker {platform.node()} has other code for {cell.function.__name__} than the "
            "process that runs the cells; install the same version of iclimit there"
        )
    return _run_pickled(job)


class _Threads:
    """How many jobs of this process have limited the threads of BLAS."""

    lock = threading.Lock()
    users = 0
    limit: Any = None


@contextmanager
def _one_thread() -> Iterator[None]:
    """One BLAS thread while any job of this process runs: Dask workers run several at a time."""
    with _Threads.lock:
        if _Threads.users == 0:
            _Threads.limit = _controller().limit(limits=1)
        _Threads.users += 1
    try:
        yield
    finally:
        with _Threads.lock:
            _Threads.users -= 1
            if _Threads.users == 0:
                _Threads.limit.restore_original_limits()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Processes started in here never see Ctrl-C, which reaches all processes of a terminal."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # starting it later would let interrupts through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare_process(parent: int) -> None:
    """Leave Ctrl-C to the parent process, and end when it is gone, however it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)
