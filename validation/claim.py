"""What a claim is: a statement of the theory, the runs that test it, and the judgement.

Claims are data, one in a file of ``validation/claims/``, and the file reads from top to bottom:

1. Its docstring has three parts, separated by blank lines: the title of the claim; the statement,
   which says what is compared with what in a few sentences; and ``Source:``, where it comes from.
   ``{lu2025}`` there stands for a paper of ``PAPERS`` of `iclimit.published`.
2. Constants: points, sizes and tolerances.  Published settings come from `iclimit.settings`.  A
   constant is explained below it in a sentence.
3. ``rows(effort)``, a generator of the rows of `iclimit.validation.rows`: theory, simulation and
   how they are compared.  ``effort(400)`` is a number of repeats: 400 in the quick preset, ten
   times as many in the medium one.
4. If the figure belongs beside those of papers, a function that draws, with the helpers of
   `iclimit.drawing`; a row names it as the `drawing`.  Other claims have the standard figure.
5. ``claim = Claim.of(name, __doc__, rows)``, and the name of the file in
   ``validation/claims/__init__.py``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, TypeVar

from iclimit.drawing import Figure
from iclimit.published import PAPERS
from iclimit.runs.cell import Cell
from iclimit.validation.judge.verdict import Verdict
from iclimit.validation.rows import Drawing, Row, Values, cells_of
from iclimit.validation.standard_figure import draw_rows

T = TypeVar("T")

Preset = Literal["tiny", "quick", "medium", "full"]
PRESETS: tuple[Preset, ...] = ("tiny", "quick", "medium", "full")
FACTORS: dict[Preset, float] = {"tiny": 0.02, "quick": 1, "medium": 10, "full": 100}
"""How many more repeats than in the quick preset."""
LEAST = 8
"""Numbers of repeats are not made smaller than this: error bars would be too uncertain."""


@dataclass(frozen=True)
class Effort:
    """How much to simulate.

    Attributes
    ----------
    preset : {"tiny", "quick", "medium", "full"}
        In seconds for all claims, in minutes, in an hour, or in a day.

    Examples
    --------
    >>> from iclimit.validation.claim import Effort
    >>> Effort("quick")(400), Effort("medium")(400), Effort("tiny")(400)
    (400, 4000, 8)
    >>> Effort("full").pick(quick=(10, 90), medium=(10, 50, 90))
    (10, 50, 90)
    >>> Effort("quick").pick(tiny=16, quick=32)
    32
    """

    preset: Preset

    def __call__(self, quick: int) -> int:
        """Number of repeats, given that of the quick preset."""
        return max(round(quick * FACTORS[self.preset]), min(quick, LEAST))

    def pick(self, quick: T, **others: T) -> T:
        """Value of a preset, for what no factor describes; by default that of the one before."""
        values = {"quick": quick} | others
        return values[self._base(values)]

    def by_size(self, quick: Mapping[int, int], **others: Mapping[int, int]) -> dict[int, int]:
        """Repeats by size, where presets have sizes of their own."""
        tables = {"quick": quick} | others
        base = self._base(tables)
        factor = FACTORS[self.preset] / FACTORS[base]
        return {
            size: max(round(count * factor), min(count, LEAST))
            for size, count in tables[base].items()
        }

    def _base(self, given: Mapping[str, Any]) -> Preset:
        """The largest of these presets up to this one."""
        smaller = PRESETS[PRESETS.index(self.preset) :: -1]
        return next(each for each in (*smaller, "quick") if each in given)


Results: TypeAlias = Mapping[Any, Any]
"""Results of the cells of a claim, by its keys."""


MakeCells: TypeAlias = Callable[[Preset], Mapping[Any, Cell] | Sequence[Cell]]
MakeRows: TypeAlias = Callable[[Effort], Iterable[Row]]
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
    rows: MakeRows | None = None

    def __post_init__(self) -> None:
        if not re.fullmatch("[a-z0-9]+(-[a-z0-9]+)*", self.name):
            raise ValueError(
                "name of a claim must be lower-case letters and digits, joined by hyphens, "
                f"got {self.name!r}"
            )

    @classmethod
    def of(
        cls, name: str, words: str, rows: Any, judge: Judge | None = None, *, figure: bool = True
    ) -> Claim:
        """Build a claim from a docstring of three parts: title, statement and source."""
        cells = rows
        if judge is None:
            cells, judge = partial(needed_cells, rows), partial(judge_rows, rows)
        parts = [" ".join(part.split()).removesuffix(".") for part in words.split("\n\n")]
        title, statement, source = parts
        source = source.removeprefix("Source: ").format(**PAPERS)
        made = rows if cells is not rows else None
        return cls(name, title, source, f"{statement}.", cells, judge, figure, "", made)

    def cells_by_key(self, preset: Preset) -> dict[Any, Cell]:
        """Cells of a preset by the keys that ``judge`` knows their results by."""
        cells = self.cells(preset)
        return dict(cells) if isinstance(cells, Mapping) else {cell: cell for cell in cells}


def needed_cells(rows: MakeRows, preset: Preset) -> list[Cell]:
    """Cells that the rows of a claim need, each once."""
    return list(dict.fromkeys(cells_of(list(rows(Effort(preset))))))


def judge_rows(rows: MakeRows, preset: Preset, results: Results) -> Verdict:
    """Verdict on the rows of a claim, given the results of its cells."""
    return verdict_on(rows(Effort(preset)), Values(results))


def verdict_on(rows: Iterable[Row], value: Values) -> Verdict:
    """Verdict on rows, given the function that gives the values of what comes later."""
    every = list(rows)
    drawings = [row for row in every if isinstance(row, Drawing)]
    judged = [value(row) for row in every if not isinstance(row, Drawing)]

    def draw(figure: Figure) -> None:
        if drawings:
            value(drawings[0]).draw(figure)
        else:
            draw_rows(figure, judged)

    return Verdict(
        [each for row in judged for each in row.comparisons()],
        draw,
        [text for row in judged for text in row.notes()],
    )
