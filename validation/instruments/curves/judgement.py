"""Verdict on training curves: their rows, judged one by one and together, and their shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from iclimit.comparison import Comparison
from iclimit.statistics import FALSE_ALARM
from iclimit.validation.instruments.curves.features import inner_plateau
from iclimit.validation.instruments.curves.rows import CurveRow, null_plateaus
from iclimit.validation.instruments.curves.table import Curve
from iclimit.validation.instruments.curves.theory import CurveTheory
from iclimit.verdict import Verdict
from iclimit.words import counted

# How often half-drops of true curves count as early or late together.
TOGETHER = 3e-3

# A plateau in the single drop of merged attention is reported if the loss falls there at less than
# this part of its speed on both sides.
UNEXPECTED = 0.2

# Such plateaus are looked for between these parts of the drop.
INSIDE = 0.1, 0.8

# First words of the verdict, by kind.
SENTENCES = {
    "agrees": "Agrees with the theory",
    "contradicts": "Contradicts the theory",
    "unusable": "Too little to compare",
}


@dataclass(frozen=True, repr=False)
class CurveVerdict(Verdict):
    """Verdict on curves, of the kind "agrees", "contradicts" or "unusable".

    Curves are unusable if nothing but their initial loss could be compared.

    Attributes
    ----------
    curves : int
        Number of curves.
    factors : sequence of CurveRow
        What all half-drops have in common.  It is judged by itself, as it is no further number.
    unexpected : sequence of str
        Plateaus that the theory does not have.
    """

    comparisons: Sequence[CurveRow]
    curves: int = 1
    factors: Sequence[CurveRow] = ()
    unexpected: Sequence[str] = ()

    @property
    def measured(self) -> list[CurveRow]:
        """All that was measured in the curves, in the order of the training."""
        return [*self.comparisons, *self.factors]

    @property
    def outliers(self) -> list[CurveRow]:
        """What contradicts the theory of it."""
        return [row for row in self.measured if self.fails(row)]

    @cached_property
    def pooled(self) -> list[Comparison]:
        """What all half-drops have in common."""
        return list(self.factors)

    @property
    def false_alarms(self) -> tuple[float, float]:
        """Probabilities that true single comparisons fail, and true pooled ones."""
        return FALSE_ALARM, TOGETHER

    @property
    def kind(self) -> str:
        """One of "agrees", "contradicts" and "unusable"."""
        if self.failures or self.unexpected:
            return "contradicts"
        return "agrees" if len(self.evidence) > 1 else "unusable"

    @property
    def holds(self) -> bool:
        """Whether the curves agree with the theory."""
        return self.kind == "agrees"

    @property
    def sentence(self) -> str:
        """The verdict in words, and the number of curves."""
        return f"{SENTENCES[self.kind]} ({counted(self.curves, 'curve')})"


def judge_curves(
    curves: Sequence[Curve], theory: CurveTheory, rows: Sequence[CurveRow]
) -> CurveVerdict:
    """Verdict on curves by their rows, and by plateaus that the theory does not have."""
    return CurveVerdict(
        [row for row in rows if not row.pooled],
        curves=len(curves),
        factors=[row for row in rows if row.pooled],
        unexpected=unexpected_plateaus(curves, theory),
    )


def unexpected_plateaus(curves: Sequence[Curve], theory: CurveTheory) -> list[str]:
    """Plateaus in the single drop of merged attention."""
    if theory.setting.model == "separate" or not theory.setting.timed:
        return []
    first, last = theory.levels[[0, -1]]
    plateaus = []
    for whole, begin in zip(curves, null_plateaus(curves, theory), strict=True):
        curve = whole.since(begin)
        bounds = curve.losses[0] * (1 - np.array(INSIDE) * (1 - last / first))
        height, contrast = inner_plateau(curve.steps, curve.losses, *bounds)
        if contrast < UNEXPECTED:
            plateaus.append(
                f"{curve.label} has a plateau at {height:.4g}, within the single drop of model "
                f"{theory.setting.model!r}"
            )
    return plateaus
