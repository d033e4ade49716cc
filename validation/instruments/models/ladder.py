"""The ladder: the error of a model between those of algorithms on the same prompts."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.results import Estimate, Result
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.model import Answers
from iclimit.validation.instruments.ratios import z_of


@dataclass(frozen=True)
class Rung:
    """One algorithm beside the model.

    Attributes
    ----------
    name, description : str
        The algorithm.
    error : Estimate
        Its mean squared error.
    difference : Estimate
        Error of the model minus that of the algorithm, prompt by prompt.
    z : float
        Of the difference.
    theory : float
        Exact error of the algorithm; NaN where it is not known.  It is infinite where the measured
        one is the mean of a law without a mean.
    theory_z : float
        Deviation of the measured error from it: a check of the comparison itself.
    """

    name: str
    description: str
    error: Estimate
    difference: Estimate
    z: float
    theory: float = math.nan
    theory_z: float = math.nan

    @property
    def finite(self) -> bool:
        """Whether its error has a mean, so far as is known."""
        return not math.isinf(self.theory)

    def columns(self) -> dict[str, Any]:
        """What a table has of it."""
        return {
            "algorithm": self.name,
            "description": self.description,
            "error": self.error,
            "difference": self.difference,
            "difference_z": self.z,
            "theory": self.theory,
            "theory_z": self.theory_z,
        }


@dataclass(frozen=True, repr=False)
class Ladder(Result):
    """Errors of a model and of algorithms on one section of prompts.

    Attributes
    ----------
    section, description : str
        Which prompts.
    error : Estimate
        Mean squared error of the model.
    rungs : tuple of Rung
        The algorithms, those with the largest error first.
    """

    section: str
    description: str
    error: Estimate
    rungs: tuple[Rung, ...]
    dims = ("algorithm",)

    def __getitem__(self, name: str) -> Rung:
        return next(rung for rung in self.rungs if rung.name == name)

    @property
    def nearest(self) -> Rung:
        """The algorithm whose error is nearest to that of the model."""
        return min(self.rungs, key=lambda rung: abs(rung.difference.mean))

    def columns(self) -> dict[str, Any]:
        """The rungs, a row for each."""
        rows = [rung.columns() for rung in self.rungs]
        return {name: tuple(row[name] for row in rows) for name in rows[0]}


def ladder(answers: Answers, baselines: Iterable[Baseline], description: str = "") -> Ladder:
    """Compare the errors of a model and of the baselines, prompt by prompt.

    Parameters
    ----------
    answers : Answers
        To one section of prompts.
    baselines : iterable of Baseline
        Those whose answers are compared; their exact losses count for fresh tasks only.
    description : str
        Which prompts, in words.
    """
    of_model = answers.errors(answers.model)
    rungs = [
        _rung(baseline, of_model, answers, answers.section == "fresh")
        for baseline in baselines
        if baseline.name in answers.baselines
    ]
    rungs.sort(key=lambda rung: -rung.error.mean)
    error = Estimate.of(of_model, keep=False)
    return Ladder(answers.section, description or answers.section, error, tuple(rungs))


def _rung(baseline: Baseline, of_model: np.ndarray, answers: Answers, exact: bool) -> Rung:
    errors = answers.errors(answers.baselines[baseline.name])
    error = Estimate.of(errors, keep=False)
    difference = Estimate.of(of_model - errors, keep=False)
    theory = math.nan if baseline.loss is None else float(baseline.loss)
    # Contexts of the pretraining tasks are those of fresh ones: a mean that is infinite stays so.
    if not exact and not (answers.section == "pretraining" and math.isinf(theory)):
        theory = math.nan
    # Errors that are rounding, for labels of this size, are 0.
    size = float(np.mean(answers.target**2))
    theory_z = z_of(error, theory, size) if math.isfinite(theory) else math.nan
    z = z_of(difference, 0.0, size)
    return Rung(baseline.name, baseline.description, error, difference, z, theory, theory_z)
