"""The verdict on a claim: what holds, and what error of the theory would have been noticed."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from iclimit.comparison import Comparison
from iclimit.drawing import COLOURS, Axes, Figure, draw_points, finish
from iclimit.pooling import pool
from iclimit.results import Result
from iclimit.statistics import FALSE_ALARM, student_deviate, z_threshold

# Fields of a comparison that a row shows.
COLUMNS = (
    *("label", "of", "pooled", "theory", "estimate", "standard_error", "allowance"),
    *("degrees", "z", "upper_bound"),
)


@dataclass(frozen=True, repr=False)
class Verdict(Result):
    """Outcome of a claim: a `Judgement` with the comparisons that it rests on.

    Attributes
    ----------
    comparisons : sequence of Comparison
        All of them must hold, and so must a common factor of all comparisons with one function.
    figure : callable, optional
        Draws the figure of the claim into a matplotlib Figure.
    notes : sequence of str
        What a reader should know: fit orders, goodness of fit, limits of the comparison.
    """

    comparisons: Sequence[Comparison]
    figure: Callable[[Figure], object] | None = None
    notes: Sequence[str] = ()

    @cached_property
    def pooled(self) -> list[Comparison]:
        """For each function of the theory with several comparisons, their common factor."""
        return pool(self.comparisons)

    @property
    def evidence(self) -> list[Comparison]:
        """All that is compared: the pooled comparisons first."""
        return [*self.pooled, *self.comparisons]

    def rows(self) -> list[dict[str, Any]]:
        """The evidence, with what is accepted and what would have been noticed."""
        return [self._row(comparison) for comparison in self.evidence]

    def _row(self, comparison: Comparison) -> dict[str, Any]:
        row = {name: getattr(comparison, name) for name in COLUMNS}
        return row | {
            "threshold": self.threshold(comparison),
            "would_notice": self.resolution(comparison),
        }

    @property
    def false_alarms(self) -> tuple[float, float]:
        """Probabilities that true single comparisons fail, and true pooled ones."""
        share = FALSE_ALARM / 2 if self.pooled else FALSE_ALARM
        return share, share

    @cached_property
    def _thresholds(self) -> list[float]:
        random = [bool(row.pooled) for row in self.evidence if row.standard_error > 0]
        pairs = zip((False, True), self.false_alarms, strict=True)
        return [z_threshold(random.count(pooled), share) for pooled, share in pairs]

    def threshold(self, row: Comparison) -> float:
        """Largest absolute z accepted.

        Pooled comparisons and single ones have a probability of a false alarm each, by default
        half of it, which is shared out among those that have a standard error.
        """
        return self._thresholds[bool(row.pooled)]

    def fails(self, row: Comparison) -> bool:
        """Whether a comparison is not within its threshold (NaN never is)."""
        return not abs(row.z) <= self.threshold(row)

    def resolution(self, row: Comparison) -> float:
        """Smallest relative change of the theory that this comparison notices."""
        return row.resolution(self.threshold(row))

    def share(self, row: Comparison) -> float:
        """Deviation from the theory as a share of the largest that is accepted, with its sign.

        It is at most 1 in size where the comparison holds.  An estimate below a bound has share 0.
        """
        deviation = row.deviation
        if deviation == 0 or (row.upper_bound and deviation < 0):
            return 0.0
        accepted = self.accepted(row)
        return deviation / accepted if accepted else math.copysign(math.inf, deviation)

    def accepted(self, row: Comparison) -> float:
        """Largest deviation from the theory that is accepted."""
        if row.standard_error > 0:
            threshold = student_deviate(self.threshold(row), row.degrees)
            return row.allowed + row.standard_error * threshold
        return row.allowed

    @cached_property
    def sharpest(self) -> dict[str, Comparison]:
        """For each function of the theory, the sharpest comparison with it."""
        rows = sorted((row for row in self.evidence if row.of), key=self.resolution)
        return {row.of: row for row in reversed(rows)}

    @cached_property
    def resolutions(self) -> dict[str, float]:
        """For each function of the theory, the resolution of the sharpest comparison with it."""
        return {of: self.resolution(row) for of, row in self.sharpest.items()}

    @property
    def worst(self) -> Comparison:
        """The comparison with the largest absolute z, relative to what is accepted."""
        return max(self.evidence, key=lambda row: abs(row.z) / self.threshold(row))

    @cached_property
    def failures(self) -> list[Comparison]:
        """The comparisons that are not within their thresholds."""
        return [row for row in self.evidence if self.fails(row)]

    @property
    def holds(self) -> bool:
        """Whether nothing that is compared contradicts the theory."""
        return not self.failures

    @property
    def kind(self) -> str:
        """One of "agrees" and "contradicts"."""
        return "agrees" if self.holds else "contradicts"

    @property
    def sentence(self) -> str:
        """How many comparisons there are, and how many of them fail."""
        count = len(self.evidence)
        if self.holds:
            return f"Agrees with the theory in {count} comparisons."
        return (
            f"Contradicts the theory in {len(self.failures)} of {count} comparisons; worst "
            f"{self.worst.label}, z = {self.worst.z:.1f}."
        )

    def __str__(self) -> str:
        return self.sentence

    def to_dict(self) -> dict[str, Any]:
        """The verdict, all that is compared, and what would have been noticed."""
        return {
            "holds": self.holds,
            "functions": self.resolutions,
            "comparisons": self.rows(),
            "notes": list(self.notes),
        }

    def draw(self, ax: Axes, *, colour: str = COLOURS[0], **line: Any) -> None:
        """Draw the comparisons with numbers that are not 0 over the theory."""
        shown = [comparison for comparison in self.comparisons if comparison.theory]
        ratios = [comparison.estimate / comparison.theory for comparison in shown]
        units = [1.0 if row.logarithmic else abs(row.theory) for row in shown]
        errors = [row.standard_error / unit for row, unit in zip(shown, units, strict=True)]
        draw_points(ax, range(len(ratios)), ratios, errors, colour, **line)
        ax.axhline(1, color="0.4")
        finish(ax, "comparison", "simulation / theory")

    def draw_figure(self, figure: Figure, /, **line: Any) -> list[Axes]:
        """Draw the figure of the claim."""
        if self.figure is None:
            super().draw_figure(figure, **line)
        else:
            self.figure(figure)
        return figure.axes

    def scaled(self, of: str, factor: float) -> Verdict:
        """The verdict if this function of the theory were larger by a factor.

        Only comparisons that the function enters as their theory change.
        """
        rows = [
            replace(row, theory=factor * row.theory) if row.of == of else row
            for row in self.comparisons
        ]
        return Verdict(rows, self.figure, self.notes)
