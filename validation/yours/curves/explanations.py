"""What would explain curves that contradict the theory: one change of the statement at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from iclimit.validation.yours.curves.features import inner_plateau
from iclimit.validation.yours.curves.mistakes import fitted_changes, likely_mistakes
from iclimit.validation.yours.curves.rows import CurveRow, compare_curves, outliers_of
from iclimit.validation.yours.curves.table import Curve
from iclimit.validation.yours.curves.theory import CurveTheory, predict_curve

# A plateau in the single drop of merged attention is reported if the loss falls there at less than
# this part of its speed on both sides.
UNEXPECTED = 0.2

# Such plateaus are looked for between these parts of the drop.
INSIDE = 0.1, 0.8

# A mistake with larger allowances than this would explain anything.
VAGUE = 0.3

# What an explanation must have rows of if the stated theory was contradicted there.
LASTING = {"initial loss", "duration", "growth"}

# Most rounds in which a parameter is fitted.
ROUNDS = 4


def explanations(
    curves: Sequence[Curve], theory: CurveTheory, rows: Sequence[CurveRow], law: tuple[Any, ...]
) -> list[str]:
    """Every change that alone makes the curves agree with the theory, in words.

    Parameters
    ----------
    curves, theory, rows
        The curves, the theory as stated, and their comparison.
    law : tuple
        Initial weights, draws and seed, as `predict_curve` takes them.
    """
    outliers, unexpected = outliers_of(rows), unexpected_plateaus(curves, theory)
    if not outliers and not unexpected:
        return []
    needed, known = {row.quantity for row in outliers} & LASTING, bool(law[0])
    texts, explained = [], set[str]()

    def agrees(changes: dict[str, Any]) -> tuple[bool, CurveTheory | None]:
        """Whether the curves agree once fields are changed, and the theory then."""
        try:
            changed = replace(theory.setting, **changes)
            other = predict_curve(changed, *law)
        except (ValueError, ArithmeticError):  # out of the range of the theory
            return False, None
        if changed.optimizer == "other" and np.array_equal(other.levels, theory.levels):
            return False, None
        return is_explained(curves, other, needed), other

    for text, changes in likely_mistakes(theory.setting, known, bool(unexpected)):
        if agrees(changes)[0]:
            texts.append(text)
            explained |= set(changes)
    for text, changes in fitted_changes(theory, rows, known):
        # What is found in the curves depends a little on the theory beside it.
        for _ in range(0 if explained & set(changes) else ROUNDS):
            fits, other = agrees(changes)
            if fits:
                texts.append(text)
                explained |= set(changes)
            if fits or other is None:
                break
            again = fitted_changes(other, compare_curves(curves, other)[0], known)
            better = next((each for each in again if set(each[1]) == set(changes)), None)
            if better is None or better[1] == changes:
                break
            text, changes = better
    return texts


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
    agrees = not outliers_of(rows) and not unexpected_plateaus(curves, theory)
    return bool(tested) and sharp and agrees


def unexpected_plateaus(curves: Sequence[Curve], theory: CurveTheory) -> list[str]:
    """Plateaus in the single drop of merged attention."""
    if theory.setting.model == "separate" or not theory.setting.timed:
        return []
    first, last = theory.levels[[0, -1]]
    plateaus = []
    for curve in curves:
        begin, end = (curve.losses[0] * (1 - part * (1 - last / first)) for part in INSIDE)
        height, contrast = inner_plateau(curve.steps, curve.losses, begin, end)
        if contrast < UNEXPECTED:
            plateaus.append(
                f"{curve.label} has a plateau at {height:.4g}, within the single drop of model "
                f"{theory.setting.model!r}"
            )
    return plateaus
