"""What a probe finds about a model: a verdict, tables, figures, labelled arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.drawing import Axes
from iclimit.results import Estimate, Rows
from iclimit.runs.code_version import versions
from iclimit.simulate.probing.problem import Problem
from iclimit.validation.yours.models.diagnosis import Diagnosis
from iclimit.validation.yours.models.identification import Identification
from iclimit.validation.yours.models.ladder import Ladder, Rung
from iclimit.validation.yours.models.linear_part import LinearPart
from iclimit.validation.yours.models.position_errors import PositionErrors

if TYPE_CHECKING:
    from xarray import Dataset
else:  # xarray is loaded when it is asked for
    Dataset = Any


@dataclass(frozen=True, eq=False, repr=False)
class AlgorithmReport(Rows):
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
    def verdict(self) -> str:
        """Which algorithm it is, in one sentence."""
        return f"{self.identification.sentence}."

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

    def as_json(self) -> dict[str, Any]:
        """All numbers, as a dictionary that JSON can hold; infinite ones are text."""
        found = self.identification
        linear, checks, positions = self.linear, self.diagnosis, self.positions
        entry: dict[str, Any] = {
            "verdict": {"kind": found.kind, "algorithms": found.names, "sentence": self.verdict},
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
        plain: dict[str, Any] = _plain(entry | {"versions": versions()})
        return plain

    def to_xarray(self) -> Dataset:
        """Errors by section and algorithm, likenesses by algorithm, Gamma; see the variables."""
        from iclimit.validation.yours.models.labelled import labelled_report

        return labelled_report(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the ladder: errors of the algorithms, and that of the model across them."""
        from iclimit.validation.yours.models.report_drawing import draw_ladder

        return draw_ladder(self, ax)

    def plot_likeness(self, ax: Axes | None = None) -> Axes:
        """Draw the share of the model's answers that each algorithm leaves unexplained."""
        from iclimit.validation.yours.models.report_drawing import draw_likeness

        return draw_likeness(self, ax)

    def plot_shifts(self, ax: Axes | None = None) -> Axes:
        """Draw errors on prompts of other laws, over that of the best algorithm there."""
        from iclimit.validation.yours.models.report_drawing import draw_shifts

        return draw_shifts(self, ax)

    def plot_spectrum(self, ax: Axes | None = None) -> Axes:
        """Draw the eigenvalues of the linear attention in the model beside those of the best."""
        from iclimit.validation.yours.models.report_drawing import draw_spectrum

        return draw_spectrum(self, ax)

    def plot_positions(self, ax: Axes | None = None) -> Axes:
        """Draw errors against the number of examples in the context."""
        if self.positions is None:
            raise ValueError("positions must be asked for with form='positions', got form='query'")
        return self.positions.plot(ax)

    def save(self, folder: Any, style: str = "screen", **parameters: Any) -> Any:
        """Write report.html, report.json and the figures into a folder; return the page's path.

        Figures have a style ("screen", "paper", "paper-wide" or "talk") and, for
        `iclimit.figure_files.figure_parameters`, the problem and further ``parameters``.
        """
        from iclimit.validation.yours.models.report_files import write_probe_report

        return write_probe_report(self, folder, style, parameters)

    def __str__(self) -> str:
        from iclimit.validation.yours.models.report_text import report_text

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


def _plain(value: Any) -> Any:
    """Value as JSON holds it: estimates with their standard errors, arrays as lists."""
    if isinstance(value, Estimate):
        return _plain({"mean": value.mean, "standard_error": value.standard_error})
    if isinstance(value, Mapping):
        return {str(name): _plain(each) for name, each in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(value)
    return value if isinstance(value, (int, str, bool, type(None))) else str(value)
