"""Rows of a check as numbers and as lines of text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.validation.judge.comparisons import Comparison
from iclimit.validation.judge.verdict import Verdict
from iclimit.validation.yours.runs.deviations import Fit
from iclimit.validation.yours.runs.judgement import ChiSquare, RowDeviation, ZDistribution
from iclimit.validation.yours.runs.measured import MEASURED

FEWEST_Z = 5
"""Least number of z whose distribution is shown: that of fewer says less than the z themselves."""

PRINTED = 24
"""Most lines of the printed table; of more, those with the largest z are shown."""

HEAD = (
    "row",
    "d",
    "l",
    "k",
    "n",
    "rho",
    "ridge",
    "error",
    "measured",
    "limit",
    "predicted",
    "%",
    "z",
)


def numbers(row: RowDeviation, limit: Mapping[str, float]) -> dict[str, Any]:
    """Settings and measured errors of a row, with limits, predictions, deviations and z.

    What cannot be said, as z without a standard error, is None.
    """
    run, prediction = row.run, row.prediction
    found: dict[str, Any] = {"row": run.rows[0], "rows": len(run.rows)}
    found |= {**run.sizes, "rho": run.rho, "ridge": run.ridge}
    for name, each in row.comparisons.items():
        weights = np.array(MEASURED[name])
        variances = {
            "prediction_se": prediction.covariance,
            "task_set_sd": prediction.spread,
            "uncertainty": 4 * prediction.doubt,
        }
        found |= {name: each.estimate, f"{name}_se": run.errors[name].standard_error}
        found |= {
            f"{name}_limit": _number(limit[name]),
            f"{name}_prediction": _number(each.theory),
        }
        for ending, variance in variances.items():
            finite = math.isfinite(each.theory)
            value = math.sqrt(weights @ variance @ weights) if finite else None
            found[f"{name}_{ending}"] = value
        found |= {f"{name}_deviation": relative_deviation(each), f"{name}_z": _number(each.z)}
    return found


def relative_deviation(row: Comparison) -> float | None:
    """Measured over predicted minus 1; None where that means nothing."""
    usable = math.isfinite(row.theory) and row.theory != 0
    return row.estimate / row.theory - 1 if usable else None


def table(rows: Sequence[RowDeviation], limits: Sequence[Mapping[str, float]]) -> list[str]:
    """Lines of the printed table, one for each measured error."""
    lines = [
        (abs(_number(each.z) or 0.0), _cells(row, limit[name], name, each))
        for row, limit in zip(rows, limits, strict=True)
        for name, each in row.comparisons.items()
    ]
    left = max(len(lines) - PRINTED, 0)
    if left:
        least = sorted(size for size, _ in lines)[-PRINTED]
        lines = [line for line in lines if line[0] >= least][:PRINTED]
    cells = [HEAD, *(line for _, line in lines)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    shown = [
        "  ".join(f"{text:>{width}}" for text, width in zip(line, widths, strict=True))
        for line in cells
    ]
    return [*shown, *([f"({left} more with smaller z)"] if left else [])]


def together(
    total: ChiSquare, z: Mapping[str, ZDistribution], resolutions: Mapping[str, float]
) -> list[str]:
    """Lines on chi-square, the distribution of z and what would have been noticed."""
    errors = "1 error" if total.count == 1 else f"{total.count} errors"
    lines = [
        f"chi-square {total.value:.1f} for {errors} "
        f"({total.degrees:.1f} degrees of freedom), p = {total.p_value:.2g}"
    ]
    for name, law in z.items():
        if law.count >= FEWEST_Z:
            lines.append(
                f"z of {name.upper()}: mean {law.mean:.2f}, width {law.width:.2f} over "
                f"{law.count} rows, p = {law.p_value:.2g} for a standard normal law"
            )
    noticed = ", ".join(
        f"{100 * value:.2g} % of {name.upper()}"
        for name, value in resolutions.items()
        if math.isfinite(value)
    )
    return [
        *lines,
        *([f"would have been noticed: a common deviation of {noticed}"] * bool(noticed)),
    ]


def outcome(verdict: Verdict, fits: Sequence[Fit], tried: int) -> list[str]:
    """Lines on whether the table agrees, and on what would explain it if not."""
    if verdict.holds:
        return ["The table agrees with the theory."]
    worst, count = verdict.worst, len(verdict.failures)
    label = worst.label
    if worst.pooled:
        label = f"common factor of {worst.pooled} {worst.of.rpartition('.')[2].upper()} errors"
    lines = [
        f"The table contradicts the theory: {count} of {len(verdict.rows)} comparisons; worst "
        f"{label}, z = {worst.z:.1f}."
    ]
    if not fits:
        return [*lines, f"None of {tried} mistakes that were tried would explain it."]
    lines[0] += f" {tried} mistakes were tried."
    for fit in fits:
        words = "It fits if" if fit.fits else "It comes nearer, but does not fit, if"
        lines.append(f"{words} {fit.text} (chi-square {fit.chi_square.value:.1f}).")
    return [*lines, *(["This table does not tell these apart."] * (len(fits) > 1))]


def _cells(row: RowDeviation, limit: float, name: str, each: Comparison) -> tuple[str, ...]:
    run, deviation = row.run, relative_deviation(each)
    variance = each.standard_error**2 - run.errors[name].standard_error ** 2
    known = math.isfinite(each.standard_error) and variance > 0
    predicted = Estimate(each.theory, math.sqrt(variance) if known else math.inf, 0)
    return (
        str(run.rows[0]),
        *(f"{run.sizes[size]:g}" for size in ("dim", "context", "tasks", "prompts")),
        f"{run.rho:g}",
        f"{run.ridge:g}",
        name.upper(),
        str(run.errors[name]),
        f"{limit:.4g}",
        str(predicted),
        "" if deviation is None else f"{100 * deviation:+.2f}",
        "" if _number(each.z) is None else f"{each.z:+.1f}",
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
