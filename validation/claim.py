"""What a claim is: a statement of the theory, the runs that test it, and the judgement.

Claims are data, one in a file of ``validation/claims/``, and the file reads from top to bottom:

1. Its docstring has three parts, separated by blank lines: the title of the claim; the statement,
   which says what is compared with what in a few sentences; and ``Source:``, where it comes from.
   ``{lu2025}`` there stands for a paper of ``PAPERS`` of `iclimit.published`.
2. Tables: sizes, repeats and points, by preset where they differ.  Published settings come from
   `iclimit.settings`.  A constant is explained below it in a sentence.
3. Functions that cells run, only where the simulator has none that fits.
4. ``cells(preset)``: a dict from keys of your choice, such as ``(law, noise)``, to cells.  (A list
   of cells will do: then each cell is its own key.)
5. ``judge(preset, results)``: ``results`` has the same keys.  The functions of
   `iclimit.validation.judge.comparisons` compare: `compare` numbers and Estimates,
   `compare_errors` the ICL and IDG errors of two results, `compare_limits` an extrapolation,
   `compare_p_value` a test; `difference` pairs two estimates on the same draws.
   `extrapolate_runs` fits Estimates or samples, and `Extrapolation.summary` describes the fit for
   the notes.
6. A function that draws, with the helpers of `iclimit.drawing`: ``panels``,
   ``draw_family`` (theory as a line, Estimates as points), ``draw_estimates``, ``draw_sizes``
   (against 1/d, with the limit), ``draw_ratios`` and ``finish`` (labels by the names of the
   notation, logarithmic scales, legend).
7. ``claim = Claim.of(name, __doc__, cells, judge)``, and the name of the file in
   ``validation/claims/__init__.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from iclimit.published import PAPERS
from iclimit.runs.cell import Cell
from iclimit.validation.judge.verdict import Verdict

Preset = Literal["quick", "medium", "full"]
PRESETS: tuple[Preset, ...] = ("quick", "medium", "full")
Results: TypeAlias = Mapping[Any, Any]
"""Results of the cells of a claim, by its keys."""


MakeCells: TypeAlias = Callable[[Preset], Mapping[Any, Cell] | Sequence[Cell]]
Judge: TypeAlias = Callable[[Preset, Results], Verdict]


@dataclass(frozen=True)
class Claim:
    """A statement of the theory that simulation can contradict.

    Attributes
    ----------
    name : str
        Short name for the command line and for files: lower-case letters, digits and hyphens.
    title, statement : str
        One line, and a few sentences saying exactly what is compared.
    source : str
        Paper and place of the statement.
    cells : callable
        The simulation needed at a preset: a dict of cells by keys, or a list of cells.
    judge : callable
        Compares, given the preset and the results of the cells by the same keys; the keys of a
        list are its cells.
    subject : str
        Shelf of the theory that it tests; reports group claims by it.
    figure : bool
        Whether the figure belongs beside those of papers: ``iclimit figure`` offers it.
    """

    name: str
    title: str
    source: str
    statement: str
    cells: MakeCells
    judge: Judge
    figure: bool = True
    subject: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise ValueError(
                "name of a claim must be lower-case letters and digits, joined by hyphens, "
                f"got {self.name!r}"
            )

    @classmethod
    def of(
        cls, name: str, words: str, cells: MakeCells, judge: Judge, *, figure: bool = True
    ) -> Claim:
        """Build a claim from a docstring of three parts: title, statement and source."""
        parts = [" ".join(part.split()).removesuffix(".") for part in words.split("\n\n")]
        title, statement, source = parts
        source = source.removeprefix("Source: ").format(**PAPERS)
        return cls(name, title, source, f"{statement}.", cells, judge, figure)

    def cells_by_key(self, preset: Preset) -> dict[Any, Cell]:
        """Cells of a preset by the keys that ``judge`` knows their results by."""
        cells = self.cells(preset)
        return dict(cells) if isinstance(cells, Mapping) else {cell: cell for cell in cells}
