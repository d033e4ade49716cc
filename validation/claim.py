"""What a claim is: a statement of the theory, the runs that test it, and the judgement.

A claim holds the theory to a simulation or to what is in print.  What holds theory to other
theory, or code to its definition, is a test.

Claims are data, one in a file of ``validation/claims/``, and the file reads from top to bottom:

1. Its docstring has three parts, separated by blank lines: the title of the claim; the statement,
   which says what is compared with what in a few sentences; and ``Source:``, where it comes from.
   ``{lu2025}`` there stands for a paper of ``PAPERS`` of `iclimit.published`.
2. Constants: points, sizes and tolerances.  Published settings come from `iclimit.settings`.  A
   constant is explained above it in a sentence.
3. ``rows(effort)``, a generator of rows (`iclimit.validation.rows`): theory, simulation and
   how they are compared.  ``effort(400)`` is a number of repeats: 400 in the quick preset, six
   times as many in the medium one.
4. If the figure belongs beside those of papers, a function that draws, with the helpers of
   `iclimit.drawing`; a row names it as the `drawing`.  Other claims have the standard figure.
5. ``claim = Claim.of(name, __doc__, rows)``, and the name of the file in
   ``validation/claims/__init__.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypeVar

from iclimit.checks import by_name, given
from iclimit.drawing import Figure
from iclimit.published import PAPERS
from iclimit.runs.cell import Cell, distinct_cells
from iclimit.validation.rows import (
    Drawing,
    Later,
    Limit,
    Number,
    Row,
    Rows,
    Values,
    both_errors,
    bound,
    call,
    cells_of,
    drawing,
    exact,
    judged,
    limit,
    mean,
    note,
    run,
)
from iclimit.validation.standard_figure import draw_rows
from iclimit.verdict import Verdict

# Names that a file of a claim imports from here; the words of rows stand in ``rows``.
__all__ = ["Claim", "Effort", "Later", "Limit", "Number", "Row", "Rows", "both_errors", "bound"]
__all__ += ["call", "drawing", "exact", "judged", "limit", "mean", "note", "run"]

T = TypeVar("T")

Preset = Literal["tiny", "quick", "medium", "full", "day"]
PRESETS: tuple[Preset, ...] = ("tiny", "quick", "medium", "full", "day")
# Repeats over those of the quick preset.  On two cores the presets but the last take some seconds,
# 2, 12 and about 70 minutes.  The last one differs from ``full`` by trained networks of published
# sizes only: the deepest take hours each.
FACTORS: dict[Preset, float] = {"tiny": 0.02, "quick": 1, "medium": 6, "full": 36, "day": 36}
# Numbers of repeats are not made smaller than this: error bars would be too uncertain.
LEAST = 8


@dataclass(frozen=True)
class Effort:
    """How much to simulate.

    Attributes
    ----------
    preset : {"tiny", "quick", "medium", "full", "day"}
        On two cores all claims take some seconds, 2, 12 or about 70 minutes, or a day.

    Examples
    --------
    >>> from iclimit.validation.claim import Effort
    >>> Effort("quick")(400), Effort("medium")(400), Effort("tiny")(400)
    (400, 2400, 8)
    >>> Effort("full").pick(quick=(10, 90), medium=(10, 50, 90))
    (10, 50, 90)
    >>> Effort("quick").pick(tiny=16, quick=32)
    32
    """

    preset: Preset

    def __call__(self, quick: int) -> int:
        """Number of repeats, given that of the quick preset."""
        return max(round(quick * FACTORS[self.preset]), min(quick, LEAST))

    def pick(
        self,
        quick: T,
        *,
        tiny: T | None = None,
        medium: T | None = None,
        full: T | None = None,
        day: T | None = None,
    ) -> T:
        """Value of a preset, for what no factor describes; by default that of the one before."""
        values = given(by_name(quick=quick, tiny=tiny, medium=medium, full=full, day=day))
        return values[self._base(values)]

    def by_size(
        self,
        quick: Mapping[int, int],
        *,
        tiny: Mapping[int, int] | None = None,
        medium: Mapping[int, int] | None = None,
        full: Mapping[int, int] | None = None,
        day: Mapping[int, int] | None = None,
    ) -> dict[int, int]:
        """Repeats by size, where presets have sizes of their own."""
        tables = given(by_name(quick=quick, tiny=tiny, medium=medium, full=full, day=day))
        base = self._base(tables)
        factor = FACTORS[self.preset] / FACTORS[base]
        return {
            size: max(round(count * factor), min(count, LEAST))
            for size, count in tables[base].items()
        }

    def _base(self, given: Mapping[str, Any]) -> Preset:
        """The largest of these presets up to this one."""
        smaller = PRESETS[PRESETS.index(self.preset) :: -1]
        return next(preset for preset in (*smaller, "quick") if preset in given)


# Results of cells.
Results: TypeAlias = Mapping[Cell, Any]


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
    rows : callable
        Yields the rows, given the `Effort`: what is compared, and the cells behind it.
    figure : bool
        Whether it draws a figure of its own, which ``iclimit figure`` offers; otherwise it has the
        standard figure.
    subject : str
        Shelf of the theory that it tests; reports group claims by it.
    """

    name: str
    title: str
    source: str
    statement: str
    rows: Callable[[Effort], Iterable[Row]]
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
        cls, name: str, words: str, rows: Callable[[Effort], Iterable[Row]], *, figure: bool = True
    ) -> Claim:
        """Build a claim from a docstring of three parts: title, statement and source."""
        parts = [" ".join(part.split()).removesuffix(".") for part in words.split("\n\n")]
        title, statement, source = parts
        source = source.removeprefix("Source: ").format(**PAPERS)
        return cls(name, title, source, f"{statement}.", rows, figure)

    def cells(self, preset: Preset) -> list[Cell]:
        """Cells that the rows need at a preset, each once."""
        return distinct_cells(cells_of(list(self.rows(Effort(preset)))))

    def judge(self, preset: Preset, results: Results) -> Verdict:
        """Verdict at a preset, given the results of the cells."""
        return verdict_on(self.rows(Effort(preset)), Values(results))


def verdict_on(rows: Iterable[Row], value: Values) -> Verdict:
    """Verdict on rows, given the function that gives the values of what comes later."""
    every = list(rows)
    drawings = [row for row in every if isinstance(row, Drawing)]
    judged = [value(row) for row in every if not isinstance(row, Drawing)]

    def draw(figure: Figure) -> None:
        if drawings:
            value(drawings[0]).draw(figure)
        else:
            draw_rows(figure, judged, verdict)

    verdict = Verdict(
        [comparison for row in judged for comparison in row.comparisons()],
        draw,
        [text for row in judged for text in row.notes()],
    )
    return verdict
