"""What a validation would have noticed: the sharpest comparison with each public function."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from importlib import import_module

from iclimit.registry import REGISTRY
from iclimit.validation.judge.run_claims import ValidationRun

# Subjects, in the order of reports.
SHELVES = ("pretraining", "descent", "gdpp", "dynamics", "softmax", "depth", "spectra")

# Stands for the claim where the sharpest comparison is that of all of them.
TOGETHER = "all claims together"


@dataclass(frozen=True)
class Coverage:
    """How sharply a function of the theory was tested.

    Attributes
    ----------
    function, subject : str
        Public name and shelf.
    resolution : float
        Smallest relative change of the function that would have been noticed with probability
        95 %, in the sharpest of all comparisons with one of its results; infinite without any.
    claim : str
        The claim of that comparison, or `TOGETHER`; empty without any.
    """

    function: str
    subject: str
    resolution: float
    claim: str = ""


def theory_functions(subject: str) -> list[str]:
    """Public functions of a shelf of the theory."""
    shelf = import_module(f"iclimit.asymptotics.{subject}")
    return [name for name in shelf.__all__ if inspect.isfunction(getattr(shelf, name))]


def uncovered_reason(function: str) -> str:
    """Why no claim covers a function; empty if there is no reason."""
    return REGISTRY[function].reason if function in REGISTRY else ""


def coverage(run: ValidationRun) -> list[Coverage]:
    """Coverage of every public function of the theory by judged claims, by subject."""
    verdicts = {each.claim.name: each.verdict for each in run.results} | {TOGETHER: run.together}
    best: dict[str, tuple[float, str]] = {}
    for claim, verdict in verdicts.items():
        for of, resolution in ({} if verdict is None else verdict.resolutions).items():
            function = of.partition(".")[0]
            best[function] = min(best.get(function, (math.inf, "")), (resolution, claim))
    return [
        Coverage(function, subject, *best.get(function, (math.inf, "")))
        for subject in SHELVES
        for function in theory_functions(subject)
    ]


def percent(resolution: float) -> str:
    """A relative change in words: two digits, and a dash for none."""
    if not math.isfinite(resolution):
        return "-"
    return f"{100 * resolution:.2g} %"
