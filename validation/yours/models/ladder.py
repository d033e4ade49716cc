"""The ladder: the error of a model between those of algorithms, on the same prompts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from iclimit.results import Estimate
from iclimit.validation.yours.models.answers import Answers
from iclimit.validation.yours.models.baselines import Baseline
from iclimit.validation.yours.models.ratios import z_of


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
    theory : float or None
        Exact error of the algorithm, where it is known.
    theory_z : float or None
        Deviation of the measured error from it: a check of the comparison itself.
    """

    name: str
    description: str
    error: Estimate
    difference: Estimate
    z: float
    theory: float | None = None
    theory_z: float | None = None


@dataclass(frozen=True)
class Ladder:
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

    def __getitem__(self, name: str) -> Rung:
        return next(rung for rung in self.rungs if rung.name == name)

    @property
    def nearest(self) -> Rung:
        """The algorithm whose error is nearest to that of the model."""
        return min(self.rungs, key=lambda rung: abs(rung.difference.mean))


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
        _rung(each, of_model, answers, answers.section == "fresh")
        for each in baselines
        if each.name in answers.baselines
    ]
    rungs.sort(key=lambda rung: -rung.error.mean)
    error = Estimate.of(of_model, keep=False)
    return Ladder(answers.section, description or answers.section, error, tuple(rungs))


def _rung(baseline: Baseline, of_model: np.ndarray, answers: Answers, exact: bool) -> Rung:
    errors = answers.errors(answers.baselines[baseline.name])
    error = Estimate.of(errors, keep=False)
    difference = Estimate.of(of_model - errors, keep=False)
    theory = baseline.loss if exact and baseline.loss is not None else None
    return Rung(
        baseline.name,
        baseline.description,
        error,
        difference,
        z_of(difference, 0.0, error.mean),
        theory,
        None if theory is None or not math.isfinite(theory) else z_of(error, theory, theory),
    )
