"""Validation: the cells of claims are run, and each claim judged when its cells are done."""

import math
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import median
from typing import Any

from tqdm.auto import tqdm

from iclimit.checks import check_choice
from iclimit.pooling import pool
from iclimit.results import Result
from iclimit.runs.cell import Cell
from iclimit.runs.execution import Outcome, check_run, run_cells
from iclimit.runs.store import RunStore
from iclimit.simulate.arrays import get_backend
from iclimit.validation.claim import PRESETS, Claim, Preset
from iclimit.validation.report.coverage import TOGETHER, Coverage, coverage
from iclimit.verdict import Verdict
from iclimit.versions import versions


@dataclass(frozen=True, repr=False)
class ClaimResult(Result):
    """A claim with its verdict, or with the error that kept it from being judged."""

    claim: Claim
    verdict: Verdict | None
    error: str = ""
    seconds: float = 0.0

    @property
    def holds(self) -> bool:
        """Whether the claim was judged and holds."""
        return self.verdict is not None and self.verdict.holds

    @property
    def sharpness(self) -> tuple[float, float]:
        """Best and median resolution, over the functions that are compared with an error bar."""
        smallest = []
        if verdict := self.verdict:
            rows = verdict.sharpest.values()
            smallest = [verdict.resolution(row) for row in rows if row.standard_error > 0]
        return (min(smallest), median(smallest)) if smallest else (math.inf, math.inf)

    def to_dict(self) -> dict[str, Any]:
        """What is claimed, whether it holds, and all comparisons."""
        names = ("name", "subject", "title", "source", "statement")
        entry = {name: getattr(self.claim, name) for name in names}
        entry |= {"holds": self.holds, "cpu_seconds": round(self.seconds, 2)}
        if self.verdict is None:
            return entry | {"error": self.error}
        sharp = dict(zip(("best", "median"), self.sharpness, strict=True))
        return entry | {"would_notice": sharp} | self.verdict.to_dict()


@dataclass(frozen=True, repr=False)
class ValidationRun(Result):
    """Results of a validation, in the order of the claims asked for.

    Attributes
    ----------
    results : list of ClaimResult
        Judged claims; those not reached before an interruption are missing.
    preset, rng, backend : str, int, str
        What was asked for.
    seconds : float
        Wall time.
    interrupted : bool
        Whether Ctrl-C cut it short.
    cells, recalled : int
        Cells needed, and how many of them were on record.
    missing : list of str
        Claims that were not finished.
    """

    results: list[ClaimResult]
    preset: Preset
    rng: int
    backend: str
    seconds: float
    interrupted: bool = False
    cells: int = 0
    recalled: int = 0
    missing: list[str] = field(default_factory=list)

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """Verdicts by the names of their claims."""
        return {result.claim.name: result.verdict for result in self.results if result.verdict}

    @cached_property
    def together(self) -> Verdict:
        """All claims together: for functions in several of them, the common factor."""
        judged = self.verdicts.values()
        claims = Counter(of for verdict in judged for of in verdict.resolutions)
        rows = [row for verdict in judged for row in verdict.comparisons if claims[row.of] > 1]
        return Verdict(pool(rows), lambda _: None)

    @cached_property
    def coverage(self) -> list[Coverage]:
        """How sharply each public function of the theory was tested."""
        return coverage(self.verdicts | {TOGETHER: self.together})

    def to_dict(self) -> dict[str, Any]:
        """All results by name, with versions of what computed them."""
        names = ("holds", "interrupted", "missing", "preset", "backend", "cells")
        return {
            **{name: getattr(self, name) for name in names},
            "seed": self.rng,
            "seconds": round(self.seconds, 2),
            "cells_on_record": self.recalled,
            "versions": versions(),
            "would_notice": list(map(vars, self.coverage)),
            "together": self.together.rows(),
            "claims": [result.to_dict() for result in self.results],
        }

    @property
    def holds(self) -> bool:
        """Whether every claim asked for was judged and holds, alone and all together."""
        judged = not self.missing and all(result.holds for result in self.results)
        return judged and self.together.holds


def validate(
    claims: Sequence[Claim | str],
    *,
    preset: Preset = "quick",
    rng: int = 0,
    jobs: int = -1,
    backend: str = "numpy",
    store: RunStore | None = None,
    scheduler: str | None = None,
    time_limit: float | None = None,
    progress: bool = False,
    finished: Callable[[ClaimResult], None] = lambda _: None,
) -> ValidationRun:
    """Run the cells of the claims and judge each claim when its cells are done.

    Parameters
    ----------
    claims : sequence of str or Claim
        What to validate: names in `iclimit.validation.CLAIMS`, or claims.
    preset : {"quick", "medium", "full", "day"}
        How much to simulate.
    rng : int
        Root of the random numbers; results depend on it and not on the number of jobs.
    jobs : int
        Worker processes; -1 for all cores, 1 for this process.  With "cupy" one more has the GPU.
    backend : {"numpy", "cupy"}
        Where to simulate.
    store : RunStore, optional
        Where finished cells are put on record; those on record are not simulated again.
    scheduler : str, optional
        Address of a Dask scheduler, as in `iclimit.runs.execution.run_cells`.
    time_limit : float, optional
        Seconds after which the validation ends with what is finished.
    progress : bool
        Show a progress bar on standard error.
    finished : callable
        Is given each claim as soon as it is judged, while others are simulated.

    Returns
    -------
    ValidationRun
        On KeyboardInterrupt, what was finished until then, marked as interrupted.  Claims that
        the time did not suffice for are missing.

    Raises
    ------
    ValueError
        If an argument is not allowed.
    RuntimeError
        If the backend is not available.

    Examples
    --------
    >>> from iclimit.validation import validate
    >>> run = validate(["solver"], jobs=1)
    >>> run.holds, len(run.results[0].verdict.comparisons)
    (True, 12)
    """
    claims = _claims(claims)
    check_choice("preset", preset, PRESETS)
    check_run(rng, jobs)
    get_backend(backend)
    start = time.perf_counter()
    interrupted = False
    needed: dict[str, list[Cell]] = {}
    cells: set[Cell] = set()
    done: dict[Cell, Outcome] = {}
    results: dict[str, ClaimResult] = {}

    def list_cells() -> Iterator[Cell]:
        """The cells claim by claim, as listing those of some takes theory that takes seconds."""
        for claim in claims:
            needed[claim.name] = claim.cells(preset)
            cells.update(needed[claim.name])
            bar.total = len(cells)
            yield from needed[claim.name]

    def judge_finished() -> None:
        for claim in claims:
            if claim.name in results or claim.name not in needed:
                continue
            own = needed[claim.name]
            if all(cell in done for cell in own):
                results[claim.name] = _judge(claim, preset, [done[cell] for cell in own])
                finished(results[claim.name])

    bar = tqdm(disable=not progress, unit="cell", desc="simulating")
    try:
        for outcome in run_cells(
            list_cells(),
            rng=rng,
            jobs=jobs,
            backend=backend,
            store=store,
            scheduler=scheduler,
            time_limit=time_limit,
        ):
            done[outcome.cell] = outcome
            bar.update()
            judge_finished()
        judge_finished()  # claims without cells, if there were no others
    except KeyboardInterrupt:
        interrupted = True
    finally:
        bar.close()
    return ValidationRun(
        results=[results[claim.name] for claim in claims if claim.name in results],
        preset=preset,
        rng=rng,
        backend=backend,
        seconds=time.perf_counter() - start,
        interrupted=interrupted,
        cells=len(cells),
        recalled=sum(outcome.stored for outcome in done.values()),
        missing=[claim.name for claim in claims if claim.name not in results],
    )


def _claims(given: Sequence[Claim | str]) -> list[Claim]:
    """Claims, of which names may be given."""
    from iclimit.validation.claims import select_claims  # the claims are built on this module

    if not given or isinstance(given, str) or not all(isinstance(c, Claim | str) for c in given):
        example = f", such as [{given!r}]" if given and isinstance(given, str) else ""
        raise ValueError(
            f"claims must be a list of names or claims, at least one{example}, got {given!r}"
        )
    return [select_claims([c])[0] if isinstance(c, str) else c for c in given]


def _judge(claim: Claim, preset: Preset, outcomes: Sequence[Outcome]) -> ClaimResult:
    start = time.perf_counter()
    verdict = None
    message = ""
    for outcome in outcomes:
        if isinstance(outcome.result, Exception):
            error = outcome.result
            message = f"{type(error).__name__} in {outcome.cell.name}: {error}"
            break
    else:
        try:
            verdict = claim.judge(preset, {outcome.cell: outcome.result for outcome in outcomes})
        except Exception as error:
            message = f"{type(error).__name__} in its judgement: {error}"
    spent = sum(outcome.seconds for outcome in outcomes)
    return ClaimResult(claim, verdict, message, spent + time.perf_counter() - start)
