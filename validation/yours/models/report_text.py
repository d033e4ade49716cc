"""A report on a model as text: the verdict, the ladder, and a few lines on the rest."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from iclimit.results import Estimate
from iclimit.validation.yours.models.algorithm_report import AlgorithmReport
from iclimit.validation.yours.models.ladder import Ladder
from iclimit.validation.yours.models.ratios import percent, shown

HEADINGS = {
    "algorithm": "algorithm",
    "error": "error",
    "theory_z": "z of theory",
    "difference": "model - it",
    "difference_z": "z",
    "unexplained": "unexplained",
    "factor": "factor",
    "factor_z": "z of 1",
    "cosine_query": "cos query",
    "cosine_labels": "cos labels",
}
"""Columns of the ladder, and what stands above them."""


def report_text(report: AlgorithmReport) -> str:
    """Verdict first, then tables."""
    cells = table_cells(report)
    parts = [
        report.verdict,
        setting_line(report),
        text_table([*cells[:1], ["model", str(report.fresh.error)], *cells[1:]]),
        *sentences(report),
    ]
    if report.shifts:
        parts.append(text_table(shift_cells(report)))
    return "\n\n".join(parts)


def setting_line(report: AlgorithmReport) -> str:
    """The problem and the number of prompts."""
    problem = report.problem
    laws = f"{problem.input_law} inputs, noise variance {problem.mean_noise_variance:g}"
    prompts = f"{report.test_prompts:,} fresh prompts"
    return f"{prompts}, d = {problem.dim}, N = {problem.context}, {laws}."


def table_cells(report: AlgorithmReport) -> list[list[str]]:
    """The ladder as lines of cells, with headings."""
    rows = report.rows()
    names = [name for name in HEADINGS if any(name in row for row in rows)]
    lines = [[HEADINGS[name] for name in names]]
    for row in rows:
        lines.append([_cell(name, row) for name in names])
    return lines


def _cell(name: str, row: dict[str, float | str]) -> str:
    value, error = row.get(name, ""), row.get(f"{name}_standard_error")
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return ""
    if isinstance(error, float):
        estimate = Estimate(value, error, 0)
        return percent(estimate) if name == "unexplained" else shown(estimate)
    return shown_z(value)


def sentences(report: AlgorithmReport) -> list[str]:
    """What else is known, a line for each subject."""
    found = []
    mixture = report.identification.mixture
    if len(mixture.terms) > 1:
        left = percent(mixture.unexplained)
        others = f"; as near: {', '.join(mixture.alternatives)}" * bool(mixture.alternatives)
        found.append(f"Best mixture: {mixture}, which leaves {left} unexplained{others}.")
    if (pretraining := report.pretraining) is not None:
        near = pretraining.nearest
        found.append(
            f"Pretraining tasks: error {pretraining.error}, on fresh tasks {report.fresh.error}; "
            f"the nearest algorithm there is {near.name} with {near.error} "
            f"(z = {shown_z(near.z)})."
        )
    if (linear := report.linear) is not None:
        optimum = ""
        if linear.theory is not None and linear.z is not None:
            z = f" (z = {linear.z:.1f})" if math.isfinite(linear.z) else ""
            optimum = f"; the optimum has {np.mean(linear.theory):.4g}{z}"
        if linear.error is not None:
            optimum += f"; its exact error is {linear.error:.4g}"
        noise = ""
        if linear.sampling_radius:
            noise = f" (the fit alone spreads them by {linear.sampling_radius:.2g} to either side)"
        low, high = linear.eigenvalues[0].mean, linear.eigenvalues[-1].mean
        found.append(
            f"Linear attention explains {percent(linear.explained)}: eigenvalues of Gamma from "
            f"{low:.4g} to {high:.4g}{noise}, mean {shown(linear.mean_eigenvalue)}{optimum}."
        )
    if (checks := report.diagnosis) is not None:
        found.append(
            f"Order of the context: {percent(checks.order)}; nonlinear in the labels: "
            f"{percent(checks.nonlinearity)}; answers to labels 0: {percent(checks.constant)}."
        )
    return found


def shift_cells(report: AlgorithmReport) -> list[list[str]]:
    """Errors on prompts of other laws, beside the best and the nearest algorithm."""
    lines = [["other prompts", "model", "best algorithm", "error", "nearest", "model - it", "z"]]
    return lines + [_shift_line(ladder) for ladder in report.shifts]


def _shift_line(ladder: Ladder) -> list[str]:
    best, near = ladder.rungs[-1], ladder.nearest
    found = [best.name, shown(best.error), near.name, shown(near.difference)]
    return [ladder.description, shown(ladder.error), *found, shown_z(near.z)]


def ladder_cells(ladder: Ladder) -> list[list[str]]:
    """All algorithms on one section of prompts."""
    lines = [["algorithm", "error", "model - it", "z"], ["model", shown(ladder.error), "", ""]]
    return lines + [
        [rung.name, shown(rung.error), shown(rung.difference), shown_z(rung.z)]
        for rung in ladder.rungs
    ]


def shown_z(z: float) -> str:
    """A z as text; a difference without any scatter has none."""
    return f"{z:.1f}" if math.isfinite(z) else "exact"


def text_table(lines: Sequence[Sequence[str]]) -> str:
    """Columns of text, the first left-aligned."""
    width = max(map(len, lines))
    filled = [[*line, *[""] * (width - len(line))] for line in lines]
    widths = [max(map(len, column)) for column in zip(*filled, strict=True)]
    return "\n".join(
        "  ".join(
            f"{text:<{size}}" if number == 0 else f"{text:>{size}}"
            for number, (text, size) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in filled
    )
