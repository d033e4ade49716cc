"""What a validation would have noticed: the sharpest comparison with each public function."""

from __future__ import annotations

import inspect
import math
from dataclasses import dataclass
from importlib import import_module

from iclimit.validation.judge.run_claims import ValidationRun

SHELVES = ("pretraining", "descent", "gdpp", "dynamics", "softmax", "depth", "spectra")
"""Subjects, in the order of reports."""

TOGETHER = "all claims together"
"""Stands for the claim where the sharpest comparison is that of all of them."""

REASONS: dict[str, str] = {
    "derive_error_limits": "tests compare each limit with the errors near it, to 13 digits",
    "long_context_softmax": "the medium preset covers it to 3 %; rare queries make it costly",
    "optimal_softmax_matrix": "the medium preset covers it to 1.5 %, the quick one to 4 %",
    "pair_moments": "no claim yet; tests hold it to two-point equivalents by contours",
    "expected_gamma": "right up to O(1/d); tests hold it to regressions at d = 8 and d = 16",
}
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


REASONS |= dict.fromkeys(
    ("finite_rank_loss", "whole_token_optimum"),
    "no sharp claim yet; tests hold it to finer quadrature, brute force or sampled prompts",
) | dict.fromkeys(
    ("derive_long_context", "derive_sine_optimum", "derive_softmax_head"),
    "tests hold its equations to the functions of numbers",
)
REASONS["overthinking_ratio"] = (
    "the quick claim notices 30 %, the medium one 10 %: pretraining from labels is costly; "
    "tests hold it to the threshold of weights and to growing errors"
)


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
