"""What the check of training curves says: as text, rows, JSON and a figure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from iclimit.drawing import COLOURS, Axes, finish
from iclimit.results import Result
from iclimit.statistics import POWER, z_threshold
from iclimit.validation.yours.curves.row import CurveRow
from iclimit.validation.yours.curves.table import Curve
from iclimit.validation.yours.curves.theory import CurveTheory

VERDICTS = {
    "agrees": "Agrees with the theory",
    "contradicts": "Contradicts the theory",
    "unusable": "Too little to compare",
}
"""First words of the text, by verdict."""


@dataclass(frozen=True, eq=False, repr=False)
class CurveCheck(Result):
    """Training curves compared with theory.

    Attributes
    ----------
    rows : tuple of CurveRow
        Losses, drops and durations that were found, each beside the theory.
    remarks : tuple of str
        What could not be compared, and why; what does not belong to the theory.
    errors : tuple of str
        What the theory itself does not know, and how much of the deviations that allows.
    fits : tuple of str
        What would explain a contradiction; tried, never applied.
    outliers : tuple of CurveRow
        Rows that contradict the theory.
    unexpected : tuple of str
        Plateaus that the theory does not have.
    curves : tuple of Curve
        The curves that were used.
    theory : CurveTheory
        The prediction, for the setting as stated.
    axis : str
        "step" or "time".
    """

    rows: tuple[CurveRow, ...]
    remarks: tuple[str, ...]
    errors: tuple[str, ...]
    fits: tuple[str, ...]
    outliers: tuple[CurveRow, ...]
    unexpected: tuple[str, ...]
    curves: tuple[Curve, ...] = field(repr=False)
    theory: CurveTheory = field(repr=False)
    axis: str = "step"

    @property
    def verdict(self) -> str:
        """One of "agrees", "contradicts" and "unusable".

        Curves are unusable if nothing but their initial loss could be compared.
        """
        if self.outliers or self.unexpected:
            return "contradicts"
        return "agrees" if len(self.rows) > 1 else "unusable"

    @property
    def holds(self) -> bool:
        """Whether the curves agree with the theory."""
        return self.verdict == "agrees"

    @property
    def threshold(self) -> float:
        """Largest z that counts as agreement."""
        return z_threshold(len(self.rows))

    def to_dict(self) -> dict[str, Any]:
        """All results by name, of numbers, text and lists, as JSON has them."""
        return {
            "verdict": self.verdict,
            "threshold": self.threshold,
            "axis": self.axis,
            "curves": [each.label for each in self.curves],
            "rows": self.to_rows(),
            "outliers": [self.label(row) for row in self.outliers],
            "unexpected": list(self.unexpected),
            "fits": list(self.fits),
            "resolutions": self.resolutions,
            "remarks": list(self.remarks),
            "errors": list(self.errors),
        }

    @property
    def resolutions(self) -> dict[str, float]:
        """Smallest relative errors of "time" and "loss" that are noticed with a chance of 95 %."""
        found: dict[str, float] = {}
        for row in self.rows:
            name = "time" if row.quantity in ("half-drop", "duration") else "loss"
            reach = row.allowance + row.standard_error * (self.threshold + POWER)
            if not row.at_least:
                found[name] = min(found.get(name, math.inf), math.expm1(min(reach, 700.0)))
        return found

    def _noticed(self) -> list[str]:
        units = {"time": f"a wrong unit of {self.axis}s", "loss": "a wrong factor of losses"}
        shown = [f"{units[name]}, by {_percent(each)}" for name, each in self.resolutions.items()]
        return ["; ".join(shown)] if shown else []

    def to_rows(self) -> list[dict[str, Any]]:
        """Numbers of the rows by name, as tables have them."""
        return [{"label": self.label(row)} | row.to_dict() for row in self.rows]

    @property
    def conclusions(self) -> list[str]:
        """Verdict, contradictions, what would explain them, remarks and errors of the theory."""
        count = len(self.curves)
        lines = [f"{VERDICTS[self.verdict]} ({count} curve{'s' * (count > 1)})"]
        for title, texts in (
            ("contradicts", [self._outlier(row) for row in self.outliers]),
            ("contradicts", self.unexpected),
            ("fits if", self.fits),
            ("would have been noticed", self._noticed()),
            ("remark", self.remarks),
            ("error of the theory", self.errors),
        ):
            lines += [f"{title}: {text}" for text in texts]
        return lines

    def __str__(self) -> str:
        """Verdict, a table of what was found beside the theory, and the other conclusions."""
        verdict, *others = self.conclusions
        header = ("", "found", "theory", "deviation", "standard error", "allowance", "z")
        table = [header, *(self._cells(row) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(
                [f"{first:<{widths[0]}}"]
                + [f"{text:>{w}}" for text, w in zip(cells, widths[1:], strict=True)]
            )
            for first, *cells in table
        ]
        return "\n".join([verdict, *lines, *others])

    def _outlier(self, row: CurveRow) -> str:
        """Row that contradicts the theory; without a random part it has no z."""
        if math.isfinite(row.z):
            return f"{self.label(row)}, z = {_shown(row.z)}"
        return f"{self.label(row)}, {row.deviation:+.2%} with an allowance of {row.allowance:.2%}"

    def _cells(self, row: CurveRow) -> tuple[str, ...]:
        label = self.label(row)
        bound = ">= " if row.at_least else ""
        error = f"{row.standard_error:.2%}" if row.standard_error else "none"
        return (
            *(label, f"{bound}{row.found:.5g}", f"{row.theory:.5g}", f"{row.deviation:+.2%}"),
            *(error, f"{row.allowance:.2%}", _shown(row.z)),
        )

    def label(self, row: CurveRow) -> str:
        """Name of a row in words."""
        if row.quantity in ("initial loss", "final loss"):
            return row.quantity
        if row.quantity == "plateau":
            return f"loss with {row.learned} learned"
        half = row.quantity == "half-drop"
        kind = f"{self.axis} of half the drop" if half else f"{self.axis}s of the drop"
        several = self.theory.setting.model == "separate"
        return f"{kind} to {row.learned}" if several else kind

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curves over the theory.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; by default new ones in the house style.

        Returns
        -------
        Axes
            With the curves as lines, plateaus and the mean predicted curve as dashes.
        """
        from iclimit.drawing import house_style, new_figure

        with house_style():
            ax = new_figure().subplots() if ax is None else ax
            self._draw(ax)
        return ax

    def _draw(self, ax: Axes) -> None:
        last = max(float(each.steps[-1]) for each in self.curves)
        for number, curve in enumerate(self.curves):
            label = "found" if number == 0 else None
            ax.plot(curve.steps, curve.losses, color=COLOURS[0], alpha=0.6, label=label)
        steps = np.linspace(0, last, 600)
        halves = self.theory.half_drops
        for level in self.theory.levels:
            ax.axhline(level, color="0.8", linewidth=0.7, zorder=0)
        ax.plot(steps, self.theory.loss(steps), "k--", linewidth=1, label="theory")
        errors = np.sqrt(self.theory.start.variance + self.theory.staircase_variance)
        for drop, (at, error) in enumerate(zip(halves, errors, strict=True)):
            if at * math.exp(error) < 2 * last and error > 0:
                middle = float(np.mean(self.theory.levels[drop : drop + 2]))
                ends = [[at - at * math.exp(-error)], [at * math.exp(error) - at]]
                label = None if drop else "standard deviation over runs"
                style: dict[str, Any] = {"color": "k", "capsize": 2, "linewidth": 0.8}
                ax.errorbar(at, middle, xerr=ends, label=label, **style)
        ax.set_xlim(0, last)
        ax.grid(visible=False)
        finish(ax, self.axis, "loss", legend="")


def _percent(share: float) -> str:
    return f"{share:.2g}" if share >= 10 else f"{share:.2%}"


def _shown(z: float) -> str:
    if math.isinf(z):
        return "beyond"
    return f"{z:+.2f}" if abs(z) < 100 else f"{z:+.2g}"
