"""What a validation would have noticed: the sharpest comparison with each public function."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from iclimit.registry import REGISTRY
from iclimit.verdict import Verdict
from iclimit.words import sharpness

# Subjects in the order of reports, with their titles there.
SHELVES = {
    "pretraining": "Pretraining",
    "descent": "Gradient descent",
    "gdpp": "GD++",
    "dynamics": "Training dynamics",
    "softmax": "Softmax attention",
    "depth": "Depth",
    "recurrent": "Recurrent layers",
    "spectra": "Spectra",
}

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
    exact : bool
        Whether that comparison has no standard error; the resolution is then its tolerance.
    """

    function: str
    subject: str
    resolution: float
    claim: str = ""
    exact: bool = False

    @property
    def words(self) -> str:
        """What would have been noticed, or within which tolerance the function holds."""
        return sharpness(self.resolution, self.exact)


def theory_functions(subject: str) -> list[str]:
    """Public functions of a shelf of the theory."""
    shelf = import_module(f"iclimit.asymptotics.{subject}")
    return [name for name in shelf.__all__ if inspect.isfunction(getattr(shelf, name))]


def uncovered_reason(function: str) -> str:
    """Why no claim covers a function; empty if there is no reason."""
    return REGISTRY[function].reason if function in REGISTRY else ""


def coverage(verdicts: Mapping[str, Verdict]) -> list[Coverage]:
    """Coverage of every public function of the theory by verdicts of claims, by subject."""
    best: dict[str, tuple[float, str, bool]] = {}
    nothing = math.inf, "", False
    for claim, verdict in verdicts.items():
        for of, row in verdict.sharpest.items():
            function = of.partition(".")[0]
            exact = row.standard_error == 0
            sharpest = verdict.resolution(row), claim, exact
            best[function] = min(best.get(function, nothing), sharpest)
    return [
        Coverage(function, subject, *best.get(function, nothing))
        for subject in SHELVES
        for function in theory_functions(subject)
    ]
