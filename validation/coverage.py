"""What a validation would have noticed: the sharpest comparison with each public function."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module

from iclimit.validation.run_claims import ClaimResult

SHELVES = ("pretraining", "descent", "gdpp", "dynamics", "spectra")
"""Subjects, in the order of reports."""

REASONS: dict[str, str] = {}
"""Why no claim covers some functions."""


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
        The claim of that comparison; empty without any.
    """

    function: str
    subject: str
    resolution: float
    claim: str = ""


def theory_functions(subject: str) -> list[str]:
    """Public functions of a shelf of the theory."""
    shelf = import_module(f"iclimit.asymptotics.{subject}")
    return [name for name in shelf.__all__ if inspect.isfunction(getattr(shelf, name))]


def coverage(results: Iterable[ClaimResult]) -> list[Coverage]:
    """Coverage of every public function of the theory by judged claims, by subject."""
    best: dict[str, tuple[float, str]] = {}
    for result in results:
        found = {} if result.verdict is None else result.verdict.resolutions
        for of, resolution in found.items():
            function = of.partition(".")[0]
            best[function] = min(
                best.get(function, (math.inf, "")), (resolution, result.claim.name)
            )
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
