"""Running claims: cells on all cores, judged as they finish, interruptible."""

from __future__ import annotations

import inspect
import multiprocessing
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import joblib
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from iclimit.simulate.arrays import get_backend
from iclimit.validation.claim import PRESETS, Cell, Claim, Preset, Verdict


@dataclass(frozen=True)
class ClaimResult:
    """A claim with its verdict, or with the error that kept it from being judged."""

    claim: Claim
    verdict: Verdict | None
    error: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the claim was judged and holds."""
        return self.verdict is not None and self.verdict.holds


@dataclass(frozen=True)
class ValidationRun:
    """Results of a validation, in the order of the claims asked for.

    Attributes
    ----------
    results : list of ClaimResult
        Judged claims; those not reached before an interruption are missing.
    preset, seed, backend : str, int, str
        What was asked for.
    seconds : float
        Wall time.
    interrupted : bool
        Whether Ctrl-C cut it short.
    """

    results: list[ClaimResult]
    preset: Preset
    seed: int
    backend: str
    seconds: float
    interrupted: bool = False
    missing: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether every claim asked for was judged and holds."""
        return not self.missing and all(result.holds for result in self.results)


def validate(
    claims: Sequence[Claim],
    *,
    preset: Preset = "quick",
    seed: int = 0,
    jobs: int = -1,
    backend: str = "numpy",
    progress: bool = False,
) -> ValidationRun:
    """Run the cells of the claims and judge each claim when its cells are done.

    Parameters
    ----------
    claims : sequence of Claim
        What to validate, see `iclimit.validation.CLAIMS`.
    preset : {"quick", "full"}
        How much to simulate.
    seed : int
        Root seed; results depend on it and not on the number of jobs.
    jobs : int
        Worker processes; -1 for all cores.  With "cupy" one process is used.
    backend : {"numpy", "cupy"}
        Where to simulate.
    progress : bool
        Show a progress bar on standard error.

    Returns
    -------
    ValidationRun
        On KeyboardInterrupt, what was finished until then, marked as interrupted.

    Raises
    ------
    ValueError
        If an argument is not allowed.
    RuntimeError
        If the backend is not available.

    Examples
    --------
    >>> from iclimit.validation import CLAIMS, validate
    >>> run = validate([CLAIMS["solver"]], jobs=1)
    >>> run.holds, len(run.results[0].verdict.comparisons)
    (True, 12)
    """
    if not claims or not all(isinstance(claim, Claim) for claim in claims):
        raise ValueError(f"claims must be Claim objects, at least one, got {claims!r}")
    if preset not in PRESETS:
        raise ValueError(f"preset must be one of {', '.join(PRESETS)}, got {preset!r}")
    check_run(seed, jobs, backend)
    start = time.perf_counter()
    waiting = {claim.name: list(claim.cells(preset)) for claim in claims}
    cells = list(dict.fromkeys(cell for needed in waiting.values() for cell in needed))
    done: dict[Cell, Any] = {}
    spent: dict[Cell, float] = {}
    results: dict[str, ClaimResult] = {}
    interrupted = False

    def judge_finished() -> None:
        for claim in claims:
            if claim.name not in results and all(cell in done for cell in waiting[claim.name]):
                seconds = sum(spent[cell] for cell in waiting[claim.name])
                results[claim.name] = _judge(claim, preset, done, waiting[claim.name], seconds)

    bar = tqdm(total=len(cells), disable=not progress, unit="cell", desc="simulating")
    try:
        judge_finished()
        for cell, outcome, seconds in run_cells(cells, seed=seed, jobs=jobs, backend=backend):
            done[cell], spent[cell] = outcome, seconds
            bar.update()
            judge_finished()
    except KeyboardInterrupt:
        interrupted = True
    finally:
        bar.close()
    return ValidationRun(
        results=[results[claim.name] for claim in claims if claim.name in results],
        preset=preset,
        seed=seed,
        backend=backend,
        seconds=time.perf_counter() - start,
        interrupted=interrupted,
        missing=[claim.name for claim in claims if claim.name not in results],
    )


def check_run(seed: int, jobs: int, backend: str) -> None:
    """Raise a ValueError or RuntimeError unless a run can start with these."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed must be an integer >= 0, got {seed!r}")
    if not isinstance(jobs, Integral) or jobs == 0 or jobs < -1:
        raise ValueError(f"jobs must be >= 1, or -1 for all cores, got {jobs!r}")
    get_backend(backend)


def run_cells(
    cells: Sequence[Cell], *, seed: int, jobs: int = -1, backend: str = "numpy"
) -> Iterator[tuple[Cell, Any, float]]:
    """Run cells in worker processes; yield (cell, result, seconds) as they finish.

    An exception of a cell is its result, so that the other cells go on.  Each worker computes
    with one thread.  With "cupy" one process, this one, drives the GPU.
    """
    parallel = joblib.Parallel(
        n_jobs=jobs if backend == "numpy" else 1, return_as="generator_unordered"
    )
    yield from parallel(joblib.delayed(_run_cell)(cell, seed, backend) for cell in cells)


def _run_cell(cell: Cell, seed: int, backend: str) -> tuple[Cell, Any, float]:
    start = time.perf_counter()
    if multiprocessing.parent_process() is not None:
        # Ctrl-C reaches the whole process group; only the parent is to answer it.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    takes_backend = "backend" in inspect.signature(cell.function).parameters
    extra = {"backend": backend} if takes_backend else {}
    try:
        # One thread, also in a single process, so that rounding does not depend on the workers.
        with threadpool_limits(1):
            outcome = cell.run(seed, **extra)
    except Exception as error:
        outcome = error
    return cell, outcome, time.perf_counter() - start


def _judge(
    claim: Claim, preset: Preset, done: dict[Cell, Any], cells: Sequence[Cell], seconds: float
) -> ClaimResult:
    failed = [(cell, done[cell]) for cell in cells if isinstance(done[cell], Exception)]
    if failed:
        cell, error = failed[0]
        message = (
            f"{type(error).__name__} in {cell.function.__name__}{dict(cell.parameters)}: {error}"
        )
        return ClaimResult(claim, None, message, seconds)
    start = time.perf_counter()
    try:
        verdict = claim.judge(preset, done)
    except Exception as error:
        return ClaimResult(
            claim, None, f"{type(error).__name__} in its judgement: {error}", seconds
        )
    return ClaimResult(claim, verdict, seconds=seconds + time.perf_counter() - start)
