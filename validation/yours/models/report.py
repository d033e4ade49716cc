"""What a probe finds about a model: a verdict, tables, labelled arrays, text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from iclimit.checks import check_choice
from iclimit.drawing import Axes
from iclimit.results import Estimate, Judgement, Result
from iclimit.runs.code_version import versions
from iclimit.simulate.probing.problem import Problem
from iclimit.tables import aligned, plain
from iclimit.validation.yours.models.identification import Identification
from iclimit.validation.yours.models.ladder import Diagnosis, Ladder, Rung
from iclimit.validation.yours.models.linear_attention import LinearPart
from iclimit.validation.yours.models.positions import PositionErrors
from iclimit.validation.yours.ratios import percent, shown

if TYPE_CHECKING:
    from xarray import Dataset
else:  # xarray is loaded when it is asked for
    Dataset = Any


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
        report.verdict.sentence,
        setting_line(report),
        "\n".join(aligned([*cells[:1], ["model", str(report.fresh.error)], *cells[1:]], "<>")),
        *sentences(report),
    ]
    if report.shifts:
        parts.append("\n".join(aligned(shift_cells(report), "<>")))
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


ROW_TEXT = ("algorithm", "description")
"""Columns of the table of algorithms that are no numbers."""


def labelled_report(report: AlgorithmReport) -> xarray.Dataset:
    """Data set over sections of prompts and algorithms.

    ``error`` and ``difference`` (of the model to the algorithm) have dimensions (section,
    algorithm), ``model_error`` (section); standard errors stand beside them as
    ``X_standard_error``.  Likenesses have the dimension algorithm, Gamma (row, column), variables
    whose name begins with position (position_algorithm, examples).
    """
    names = [rung.name for rung in report.fresh.rungs]
    sections = [ladder.section for ladder in report.ladders]
    shape = (len(sections), len(names))
    variables: dict[str, Any] = {}
    for what in ("error", "difference"):
        means, errors = np.full(shape, np.nan), np.full(shape, np.nan)
        for i, ladder in enumerate(report.ladders):
            for rung in ladder.rungs:
                found: Estimate = getattr(rung, what)
                place = i, names.index(rung.name)
                means[place], errors[place] = found.mean, found.standard_error
        variables[what] = (("section", "algorithm"), means)
        variables[f"{what}_standard_error"] = (("section", "algorithm"), errors)
    variables |= _with_errors("model_error", ("section",), [each.error for each in report.ladders])
    rows = report.rows()
    for name in dict.fromkeys(name for row in rows for name in row):
        if name not in variables and name not in ROW_TEXT:
            values = [row.get(name, np.nan) for row in rows]
            variables[name] = (("algorithm",), np.array(values, dtype=float))
    if report.linear is not None:
        variables["gamma"] = (("row", "column"), report.linear.gamma)
        eigenvalues = list(report.linear.eigenvalues)
        variables |= _with_errors("eigenvalue", ("row",), eigenvalues)
    coordinates: dict[str, Any] = {"section": sections, "algorithm": names}
    attributes = {
        "verdict": report.verdict.sentence,
        "kind": report.identification.kind,
        "test_prompts": report.test_prompts,
        "seed": report.seed,
    }
    whole = xarray.Dataset(variables, coords=coordinates, attrs=attributes)
    if report.positions is None:
        return whole
    by_position = report.positions.to_xarray()
    prefixed = {name: f"position_{name}" for name in (*by_position.data_vars, "algorithm")}
    return whole.merge(by_position.rename(prefixed))


def _with_errors(name: str, dims: tuple[str, ...], estimates: list[Any]) -> dict[str, Any]:
    """Variables of the means and of the standard errors of nested lists of estimates."""

    def numbers(attribute: str, each: Any) -> Any:
        if isinstance(each, list):
            return [numbers(attribute, one) for one in each]
        return getattr(each, attribute)

    return {
        name: (dims, np.array(numbers("mean", estimates))),
        f"{name}_standard_error": (dims, np.array(numbers("standard_error", estimates))),
    }


@dataclass(frozen=True, eq=False, repr=False)
class AlgorithmReport(Result):
    """What a model does in context; ``print`` shows the verdict and a table.

    Attributes
    ----------
    problem : Problem
        Law of the prompts.
    test_prompts : int
        Number of fresh prompts.
    identification : Identification
        Which algorithm it is.
    fresh : Ladder
        Its error on fresh tasks beside those of algorithms.
    pretraining : Ladder or None
        The same on the pretraining tasks, where the problem has them.
    sensitivities : mapping of str to mapping of str to Estimate
        For "query" and "labels", cosine of the derivatives of the model and of each algorithm.
    linear : LinearPart or None
        The linear attention that is nearest; None for too few prompts.
    diagnosis : Diagnosis or None
        Dependence on the order of the context, and nonlinearity in the labels.
    shifts : tuple of Ladder
        Errors on prompts of other laws.
    positions : PositionErrors or None
        Errors by the number of examples, for models that answer at every position.
    seed : str
        Of the prompts.
    """

    problem: Problem
    test_prompts: int
    identification: Identification
    fresh: Ladder
    pretraining: Ladder | None = None
    sensitivities: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    linear: LinearPart | None = None
    diagnosis: Diagnosis | None = None
    shifts: tuple[Ladder, ...] = ()
    positions: PositionErrors | None = None
    seed: str = ""

    @property
    def verdict(self) -> Judgement:
        """Which algorithm it is; it holds if the probe names an algorithm or a mixture."""
        kind = self.identification.kind
        sentence = f"{self.identification.sentence}."
        return Judgement(kind, kind in ("algorithm", "mixture"), sentence)

    @property
    def ladders(self) -> tuple[Ladder, ...]:
        """All of them: fresh tasks, pretraining tasks, shifts."""
        return (self.fresh, *filter(None, (self.pretraining,)), *self.shifts)

    def rows(self) -> list[dict[str, Any]]:
        """The ladder on fresh tasks and the likeness to each algorithm, as rows of a table."""
        return [self._row(rung) for rung in self.fresh.rungs]

    def _row(self, rung: Rung) -> dict[str, Any]:
        like = self.identification[rung.name]
        cosines = {
            f"cosine_{moved}": found[rung.name]
            for moved, found in self.sensitivities.items()
            if rung.name in found
        }
        estimates = {
            "error": rung.error,
            "difference": rung.difference,
            "unexplained": like.unexplained,
            "factor": like.factor,
            **cosines,
        }
        row: dict[str, Any] = {"algorithm": rung.name, "description": rung.description}
        for name, each in estimates.items():
            row |= {name: each.mean, f"{name}_standard_error": each.standard_error}
        return row | {
            "difference_z": rung.z,
            "factor_z": like.factor_z,
            "theory": math.nan if rung.theory is None else rung.theory,
            "theory_z": math.nan if rung.theory_z is None else rung.theory_z,
        }

    def to_dict(self) -> dict[str, Any]:
        """All numbers, as plain dicts and lists."""
        found = self.identification
        linear, checks, positions = self.linear, self.diagnosis, self.positions
        entry: dict[str, Any] = {
            "verdict": self.verdict.to_dict() | {"algorithms": found.names},
            "tolerance": found.tolerance,
            "test_prompts": self.test_prompts,
            "seed": self.seed,
            "problem": vars(self.problem),
            "error": self.fresh.error,
            "algorithms": self.rows(),
            "mixture": {
                "weights": {term.name: term.weight for term in found.mixture.terms},
                "unexplained": found.mixture.unexplained,
                "alternatives": found.mixture.alternatives,
            },
            "same_answers": {each.name: each.same for each in found.likenesses if each.same},
            "ladders": {each.section: _ladder_entry(each) for each in self.ladders},
        }
        if linear is not None:
            entry["linear_attention"] = vars(linear)
        if checks is not None:
            entry["diagnosis"] = vars(checks)
        if positions is not None:
            entry["positions"] = positions.rows()
        entries: dict[str, Any] = plain(entry | {"versions": versions()})
        return entries

    def to_xarray(self) -> Dataset:
        """Errors by section and algorithm, likenesses by algorithm, Gamma; see the variables."""
        from iclimit.validation.yours.models.report import labelled_report

        return labelled_report(self)

    def draw(self, ax: Axes, *, figure: str = "ladder") -> None:
        """Draw one of the figures.

        Parameters
        ----------
        ax : Axes
            Where to draw.
        figure : {"ladder", "likeness", "shifts", "spectrum", "positions"}
            Errors of the algorithms and of the model; shares of its answers that the algorithms
            leave unexplained; errors on prompts of other laws; eigenvalues of the linear attention
            in the model; errors against the number of examples.

        Raises
        ------
        ValueError
            If there is no such figure, or the probe did not measure what it shows.
        """
        from iclimit.validation.yours.models.report_page import FIGURES

        check_choice("figure", figure, list(FIGURES))
        FIGURES[figure](self, ax)

    def write(self, path: Any, **options: Any) -> None:
        """Write a file, as its ending says, or a folder with a page and all figures.

        Parameters
        ----------
        path : path
            A folder, which is created if needed and gets report.html, report.json and the figures;
            or a file as of other results.
        **options
            ``style`` of the figures, and ``parameters`` for
            `iclimit.figure_files.figure_parameters` besides the problem.
        """
        from iclimit.validation.yours.models.report_page import write_probe_report

        if Path(path).suffix:
            super().write(path, **options)
        else:
            write_probe_report(self, path, **options)

    def __str__(self) -> str:
        from iclimit.validation.yours.models.report import report_text

        return report_text(self)


def _ladder_entry(ladder: Ladder) -> dict[str, Any]:
    return {
        "description": ladder.description,
        "error": ladder.error,
        "algorithms": {
            rung.name: {"error": rung.error, "difference": rung.difference, "z": rung.z}
            for rung in ladder.rungs
        },
    }
