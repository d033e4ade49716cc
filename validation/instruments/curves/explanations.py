"""What would explain curves that contradict the theory: one change of the statement at a time.

Changes are likely mistakes, and parameters that are fitted to one kind of row each.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from iclimit.validation.instruments.curves.judgement import CurveVerdict, judge_curves
from iclimit.validation.instruments.curves.mistakes import (
    Candidate,
    fitted_mistakes,
    likely_candidate,
    likely_mistakes,
)
from iclimit.validation.instruments.curves.reading import StatedCurves
from iclimit.validation.instruments.curves.records import functions_of_losses, recorded_mistakes
from iclimit.validation.instruments.curves.rows import compare_curves
from iclimit.validation.instruments.curves.table import Curve
from iclimit.validation.instruments.curves.theory import CurveTheory, predict_curve
from iclimit.validation.instruments.explaining import Mistake, try_all

# A mistake with larger allowances than this would explain anything.
VAGUE = 0.3

# What an explanation must have rows of if the stated theory was contradicted there.
LASTING = {"initial loss", "duration", "growth"}

# Most rounds in which a parameter is fitted.
ROUNDS = 4


def explanations(stated: StatedCurves, theory: CurveTheory, verdict: CurveVerdict) -> list[str]:
    """Every change that alone makes the curves agree with the theory, in words.

    Parameters
    ----------
    stated : StatedCurves
        The curves, with what is stated of them.
    theory : CurveTheory
        The theory as stated.
    verdict : CurveVerdict
        Verdict on their comparison.
    """
    if verdict.kind != "contradicts":
        return []
    known = stated.starts.known
    likely = likely_mistakes(theory.setting, known, bool(verdict.unexpected))
    fitted = fitted_mistakes(theory, verdict.measured, known)
    needed = {row.quantity for row in verdict.outliers} & LASTING
    explaining = _Explaining(stated, theory, needed)
    recorded = recorded_mistakes(theory, stated.curves, verdict.measured)
    texts = chain(
        try_all(likely, explaining.likely),
        try_all(recorded, explaining.words),
        try_all(fitted, explaining.words),
    )
    return [text for text in texts if text]


def explanations_of_impossible(stated: StatedCurves, theory: CurveTheory) -> list[str]:
    """Functions of losses that would make curves agree which are no mean squared errors."""
    explaining = _Explaining(stated, theory, set())
    texts = try_all(functions_of_losses(theory), explaining.words)
    return [text for text in texts if text]


@dataclass
class _Explaining:
    """Curves that contradict the theory, and fields that explain it if they are changed."""

    stated: StatedCurves
    theory: CurveTheory
    needed: Collection[str]
    explained: set[str] = field(default_factory=set)

    def likely(self, mistake: Mistake) -> str:
        """A mistake in words; empty if it explains nothing."""
        candidate = likely_candidate(mistake, self.theory.setting)
        return self.words(candidate) if candidate.changes else ""

    def words(self, candidate: Candidate) -> str:
        """A candidate in words, with the value that fits; empty if it explains nothing."""
        if candidate.fitted and not self.explained.isdisjoint(candidate.subjects):
            return ""
        curves = self.stated.curves
        if candidate.records is not None:
            curves = [candidate.records(curve) for curve in curves]
        for _ in range(ROUNDS):
            changed = replace(self.theory.setting, **candidate.changes)
            other = predict_curve(changed, self.stated.starts)
            if self._agrees(curves, other):
                self.explained.update(candidate.subjects)
                return candidate.text
            refined = self._refined(candidate, other)
            if refined.changes == candidate.changes:
                break
            candidate = refined
        return ""

    def _agrees(self, curves: Sequence[Curve], other: CurveTheory) -> bool:
        """Whether other curves or another theory, which say something else, agree."""
        same = curves is self.stated.curves and np.array_equal(other.levels, self.theory.levels)
        if other.setting.optimizer == "other" and same:
            return False
        return is_explained(curves, other, self.needed)

    def _refined(self, candidate: Candidate, theory: CurveTheory) -> Candidate:
        """A candidate with its value by the theory at the present one, if there is one.

        What is found in the curves depends a little on the theory beside it.
        """
        if not candidate.fitted:
            return candidate
        rows, _ = compare_curves(self.stated.curves, theory)
        again = fitted_mistakes(theory, rows, self.stated.starts.known)
        same = (other for other in again if other.changes.keys() == candidate.changes.keys())
        return next(same, candidate)


def is_explained(
    curves: Sequence[Curve], theory: CurveTheory, needed: Collection[str] = ()
) -> bool:
    """Whether curves agree with another theory, in more than initial loss and half-drops.

    Quantities that are needed must be among those that are compared.
    """
    rows, _ = compare_curves(curves, theory)
    compared = {row.quantity for row in rows}
    tested = compared & {"plateau", "duration", "final loss"} and compared.issuperset(needed)
    sharp = all(row.allowance < VAGUE for row in rows)
    return bool(tested) and sharp and judge_curves(curves, theory, rows).kind != "contradicts"
