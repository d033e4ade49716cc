"""The result of a check of a table of runs: what it found, and how it prints."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from iclimit.drawing import Axes, Figure
from iclimit.results import Estimate, Result
from iclimit.tables import aligned, plain
from iclimit.validation.judge.comparisons import Comparison
from iclimit.validation.judge.verdict import Verdict
from iclimit.validation.yours.runs.explanations import Fit
from iclimit.validation.yours.runs.figure import draw_check, draw_errors
from iclimit.validation.yours.runs.judgement import (
    ChiSquare,
    RowDeviation,
    ZDistribution,
    chi_square,
    verdict,
)
from iclimit.validation.yours.runs.measured import MEASURED
from iclimit.validation.yours.runs.predictions import Theory
from iclimit.validation.yours.runs.scatter import ScatterRatio

# Least number of z whose distribution is shown: that of fewer says less than the z themselves.
FEWEST_Z = 5

# Most lines of the printed table, of more those with the largest z; and most explanations.
PRINTED, MOST_FITS = 24, 8

# Headings of the printed table, and what its sizes are called in the notation.
SIZES = {"d": "dim", "l": "context", "k": "tasks", "n": "prompts"}
HEAD = ["row", *SIZES, "rho", "ridge", "error", "measured", "limit", "predicted", "%", "z"]


@dataclass(frozen=True, repr=False)
class RunCheck(Result):
    """A table of results, compared with the theory (`check_runs`).

    Attributes
    ----------
    deviations : list of RowDeviation
        What was measured and predicted, row by row.
    limits : list of dict
        Asymptotic errors of the rows by name.
    fits : list of Fit
        All explanations with which the table agrees, the likeliest first, with likelihoods.  Empty
        where nothing contradicts the theory, or nothing that was tried explains it.
    tried : int
        How many explanations were tried.
    hints : list of str
        What else is remarkable, such as a scatter far below the error bars.
    notes : list of str
        What was assumed.
    theory : Theory
        What the table was compared with.
    scatter : dict of ScatterRatio
        By error: whether runs scatter as predicted, where the table says how they do.
    """

    deviations: list[RowDeviation]
    limits: list[dict[str, float]]
    fits: list[Fit]
    tried: int
    hints: list[str]
    notes: list[str]
    theory: Theory
    scatter: dict[str, ScatterRatio]

    @cached_property
    def verdict(self) -> Verdict:
        """Verdict on all z, their sum of squares, and a common factor of each error."""
        return verdict(self.deviations, self.draw_figure, self.notes)

    @property
    def judged(self) -> int:
        """Number of measured errors that have a z."""
        return self.chi_square.count

    @property
    def holds(self) -> bool | None:
        """Whether nothing contradicts the theory; None if nothing was judged."""
        return self.verdict.holds if self.judged else None

    @cached_property
    def chi_square(self) -> ChiSquare:
        """Sum of squares of all z."""
        return chi_square(self.deviations)

    @cached_property
    def z(self) -> dict[str, ZDistribution]:
        """Distribution of z over the rows, for each error."""
        scores = {
            name: [row.comparisons[name].z for row in self.deviations if name in row.comparisons]
            for name in MEASURED
        }
        return {name: ZDistribution.of(values) for name, values in scores.items() if values}

    @property
    def resolutions(self) -> dict[str, float]:
        """For each error, the least common relative deviation that would have been noticed."""
        return {of.rpartition(".")[2]: value for of, value in self.verdict.resolutions.items()}

    def rows(self) -> list[dict[str, Any]]:
        """What was measured, with limits, predictions, deviations and z, row by row."""
        return list(map(_numbers, self.deviations, self.limits))

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain lists and numbers, for JSON."""
        total, judged = self.chi_square, self.verdict
        entries: dict[str, Any] = plain(
            {
                "holds": self.holds,
                "judged": self.judged,
                "chi_square": vars(total) | {"p_value": total.p_value},
                "z": self.z,
                "resolutions": self.resolutions,
                "failures": [
                    {"label": row.label, "z": row.z, "accepted": judged.threshold(row)}
                    for row in judged.failures
                ],
                "fits": [vars(fit) | {"chi_square": fit.chi_square.value} for fit in self.fits],
                "explanations_tried": self.tried,
                "scatter": {
                    name: {"ratio": each.ratio, "p_value": each.p_value, "holds": each.holds}
                    for name, each in self.scatter.items()
                },
                "hints": self.hints,
                "notes": self.notes,
                "rows": self.rows(),
            }
        )
        return entries

    def draw(self, ax: Axes) -> None:
        """Draw the errors on predicted curves, by the most varied parameter."""
        draw_errors(ax, self.deviations, self.theory)

    def draw_figure(self, figure: Figure, /, **_: Any) -> list[Axes]:
        """Draw the errors on predicted curves, z by row, and the conclusions."""
        sentences = self._outcome if self.judged else []
        draw_check(figure, self.deviations, self.verdict, self.theory, sentences)
        return figure.axes

    def __str__(self) -> str:
        """Table of the rows, and what they say together."""
        lines = [
            (0.0 if math.isnan(each.z) else abs(each.z), _cells(row, limit[name], name, each))
            for row, limit in zip(self.deviations, self.limits, strict=True)
            for name, each in row.comparisons.items()
        ]
        hidden = max(len(lines) - PRINTED, 0)
        if hidden:
            least = sorted(size for size, _ in lines)[-PRINTED]
            lines = [line for line in lines if line[0] >= least][:PRINTED]
        more = [f"({hidden} more with smaller z)"] * bool(hidden)
        shown = aligned([HEAD, *(line for _, line in lines)])
        return "\n".join([*shown, *more, *self.conclusions])

    @property
    def conclusions(self) -> list[str]:
        """What all rows say together, in sentences."""
        if not self.judged:
            reason = "No row has a standard error and a finite prediction"
            return [f"{reason}: nothing is judged.", *self.notes]
        return [*self._summary, *self._outcome, *self.hints, *self.notes]

    @property
    def _summary(self) -> list[str]:
        """Lines on chi-square, the distribution of z and what would have been noticed."""
        total = self.chi_square
        errors = "1 error" if total.count == 1 else f"{total.count} errors"
        lines = [
            f"chi-square {total.value:.1f} for {errors} "
            f"({total.degrees:.1f} degrees of freedom), p = {total.p_value:.2g}"
        ]
        for name, law in self.z.items():
            if law.count >= FEWEST_Z:
                lines.append(
                    f"z of {name.upper()}: mean {law.mean:.2f}, width {law.width:.2f} over "
                    f"{law.count} rows, p = {law.p_value:.2g} for a standard normal law"
                )
        noticed = ", ".join(
            f"{100 * value:.2g} % of {name.upper()}"
            for name, value in self.resolutions.items()
            if math.isfinite(value)
        )
        more = [f"would have been noticed: a common deviation of {noticed}"] * bool(noticed)
        return lines + more

    @property
    def _outcome(self) -> list[str]:
        """Lines on whether the table agrees, and on all that explains it if not."""
        verdict, fits = self.verdict, self.fits
        if verdict.holds:
            return ["The table agrees with the theory."]
        worst, count = verdict.worst, len(verdict.failures)
        label = worst.label
        if worst.pooled:
            label = f"common factor of {worst.pooled} {worst.of.rpartition('.')[2].upper()} errors"
        lines = [
            f"The table contradicts the theory: {count} of {len(verdict.evidence)} comparisons; "
            f"worst {label}, z = {worst.z:.1f}."
        ]
        if not fits:
            return [*lines, f"None of {self.tried} explanations that were tried agrees with it."]
        lines.append(f"{self.tried} explanations were tried. It would agree")
        for fit in fits[:MOST_FITS]:
            likelihood = "1" if fit is fits[0] else f"{fit.likelihood:.2g}"
            total = f"chi-square {fit.chi_square.value:.1f}, likelihood {likelihood}"
            lines.append(f"- if {fit.text}: {total}")
        if len(fits) > MOST_FITS:
            hidden = len(fits) - MOST_FITS
            lines.append(f"- in {hidden} other cases, which are less likely")
        return lines


def _numbers(row: RowDeviation, limit: Mapping[str, float]) -> dict[str, Any]:
    """Settings and measured errors of a row, with limits, predictions, deviations and z.

    What cannot be said, as z without a standard error, is None.
    """
    run, prediction = row.run, row.prediction
    numbers: dict[str, Any] = {"row": run.rows[0], "rows": len(run.rows), **run.sizes}
    numbers |= {"rho": run.rho, "ridge": run.ridge, "estimator": run.estimator}
    doubt = prediction.doubts @ prediction.doubts.T
    variances = {
        "prediction_se": prediction.covariance,
        "task_set_sd": prediction.spread,
        "uncertainty": 4 * doubt,
    }
    for name, each in row.comparisons.items():
        weights = np.array(MEASURED[name])
        numbers |= {
            name: run.errors[name].mean,
            f"{name}_se": row.errors[name].standard_error,
            f"{name}_limit": _number(limit[name]),
            f"{name}_prediction": _number(each.theory),
        }
        for ending, variance in variances.items():
            value = math.sqrt(weights @ variance @ weights) if prediction.finite else None
            numbers[f"{name}_{ending}"] = value
        numbers |= {f"{name}_deviation": row.relative(name), f"{name}_z": _number(each.z)}
    return numbers


def _cells(row: RowDeviation, limit: float, name: str, each: Comparison) -> tuple[str, ...]:
    run, deviation = row.run, row.relative(name)
    variance = each.standard_error**2 - row.errors[name].standard_error ** 2
    known = math.isfinite(each.standard_error) and variance > 0
    predicted = Estimate(each.theory, math.sqrt(variance) if known else math.inf, 0)
    return (
        str(run.rows[0]),
        *(f"{run.sizes[size]:g}" for size in SIZES.values()),
        f"{run.rho:g}",
        f"{run.ridge:g}",
        name.upper(),
        str(row.errors[name]),
        f"{limit:.4g}",
        str(predicted),
        "" if deviation is None else f"{100 * deviation:+.2f}",
        "" if _number(each.z) is None else f"{each.z:+.1f}",
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
