"""What a check of a table of runs prints: a table of the rows, and sentences."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.tables import aligned
from iclimit.validation.judge.comparisons import Comparison
from iclimit.validation.judge.verdict import Verdict
from iclimit.validation.yours.runs.explanations import Fit
from iclimit.validation.yours.runs.judgement import (
    ChiSquare,
    RowDeviation,
    ZDistribution,
    chi_square,
    compare_run,
)
from iclimit.validation.yours.runs.measured import MEASURED
from iclimit.validation.yours.runs.predictions import Prediction

# Least number of z whose distribution is shown: that of fewer says less than the z themselves.
FEWEST_Z = 5

# Most lines of the printed table, of more those with the largest z; and most explanations.
PRINTED, MOST_FITS = 24, 8

# Below this probability the scatter counts as far below the error bars.
FAR_BELOW = 1e-3

# Headings of the printed table, and what its sizes are called in the notation.
SIZES = {"d": "dim", "l": "context", "k": "tasks", "n": "prompts"}
HEAD = ["row", *SIZES, "rho", "ridge", "error", "measured", "limit", "predicted", "%", "z"]


def row_numbers(row: RowDeviation, limit: Mapping[str, float]) -> dict[str, Any]:
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
        numbers |= {
            f"{name}_deviation": relative_deviation(row, name),
            f"{name}_z": _number(each.z),
        }
    return numbers


def relative_deviation(row: RowDeviation, name: str) -> float | None:
    """Measured over predicted minus 1; None where that means nothing."""
    theory = row.comparisons[name].theory
    usable = math.isfinite(theory) and theory != 0
    return row.run.errors[name].mean / theory - 1 if usable else None


def table_lines(rows: Sequence[RowDeviation], limits: Sequence[Mapping[str, float]]) -> list[str]:
    """Lines of the printed table, one for each measured error."""
    lines = [
        (abs(_number(each.z) or 0.0), _cells(row, limit[name], name, each))
        for row, limit in zip(rows, limits, strict=True)
        for name, each in row.comparisons.items()
    ]
    hidden = max(len(lines) - PRINTED, 0)
    if hidden:
        least = sorted(size for size, _ in lines)[-PRINTED]
        lines = [line for line in lines if line[0] >= least][:PRINTED]
    shown = aligned([HEAD, *(line for _, line in lines)])
    return [*shown, *([f"({hidden} more with smaller z)"] if hidden else [])]


def _cells(row: RowDeviation, limit: float, name: str, each: Comparison) -> tuple[str, ...]:
    run, deviation = row.run, relative_deviation(row, name)
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


def summary_lines(
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


def outcome_lines(verdict: Verdict, fits: Sequence[Fit], tried: int) -> list[str]:
    """Lines on whether the table agrees, and on all that explains it if not."""
    if verdict.holds:
        return ["The table agrees with the theory."]
    worst, count = verdict.worst, len(verdict.failures)
    label = worst.label
    if worst.pooled:
        label = f"common factor of {worst.pooled} {worst.of.rpartition('.')[2].upper()} errors"
    lines = [
        f"The table contradicts the theory: {count} of {len(verdict.evidence)} comparisons; worst "
        f"{label}, z = {worst.z:.1f}."
    ]
    if not fits:
        return [*lines, f"None of {tried} explanations that were tried agrees with it."]
    lines.append(f"{tried} explanations were tried. It would agree")
    for fit in fits[:MOST_FITS]:
        likelihood = "likelihood 1" if fit is fits[0] else f"likelihood {fit.likelihood:.2g}"
        lines.append(f"- if {fit.text}: chi-square {fit.chi_square.value:.1f}, {likelihood}")
    if hidden := len(fits) - MOST_FITS:
        lines += [f"- in {hidden} other cases, which are less likely"] * (hidden > 0)
    return lines


def scatter_hint(rows: Sequence[RowDeviation]) -> list[str]:
    """Whether the deviations are far below the error bars of the runs alone."""
    alone = [compare_run(row.run, Prediction(row.prediction.mean), one_set=False) for row in rows]
    total = chi_square(alone)
    if total.lower_p_value > FAR_BELOW:
        return []
    return [
        f"The scatter is far below the error bars: chi-square {total.value:.2g} for {total.count} "
        f"errors, p = {total.lower_p_value:.1g}. Are these standard deviations of single runs, "
        "not standard errors of their mean?"
    ]
