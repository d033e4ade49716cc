"""The registry of theory: one row for each thing that a name stands for, in ``registry.csv``.

Curves, phase diagrams, the command line, the explorer, citations and the coverage of a validation
read these rows.  The columns are:

* ``name``: of the quantity, in Python, in the command line and in the JavaScript of the explorer.
* ``function``: a public function of a shelf of the theory, as ``shelf.function``, or a field of
  its result, as ``shelf.function.field``.  A name without a dot is a function of
  `iclimit.diagrams.combinations`.
* ``parameters``, ``optional``: names of the notation.  In the explorer an optional one has its
  default after ``=``.
* ``single``: the parameters that the function takes as single numbers only.
* ``structured``: the same quantity for structured data, as a part of the structured errors; or
  ``spectrum`` for a function that takes a ``structure`` itself.
* ``papers``: keys of ``references.bib``, and ``here`` if more than these papers have is derived in
  the documentation.
* ``label``, ``meaning``: its axis label, and in words.  Curves and phase diagrams have what has a
  label.
* ``formula``: where its formula is in the docstrings, as ``shelf.module.label``; the comment
  ``.. formula: label`` stands before the ``math`` block.  The explorer has what has a formula.
* ``ranges``: numbers for which its JavaScript is held against Python.
* ``reason``: why no claim covers the function.
* ``unscripted``: why the explorer does not have a quantity, in the markup of the documentation.

Vectors, matrices and what needs random task sets (`iclimit.finite_size_errors`) have no label.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iclimit.notation import read_table

# Stands among the papers of a row if some of it is derived in the documentation.
DERIVED = "here"


@dataclass(frozen=True)
class Row:
    """A row of the registry; the columns are described in `iclimit.registry`."""

    name: str
    function: str
    parameters: tuple[str, ...]
    optional: dict[str, float | None]
    single: tuple[str, ...]
    structured: str
    papers: tuple[str, ...]
    label: str
    meaning: str
    formula: str
    ranges: dict[str, tuple[float, ...]]
    reason: str
    unscripted: str


def _pairs(text: str) -> dict[str, str]:
    """Entries ``name=value`` by name."""
    return {name: value for name, _, value in (entry.partition("=") for entry in text.split())}


def parse_ranges(text: str) -> dict[str, tuple[float, ...]]:
    """Entries ``name=low..high`` by name."""
    return {name: tuple(map(float, ends.split(".."))) for name, ends in _pairs(text).items()}


# How columns are read that are more than text.
_PARSERS: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys(("parameters", "single", "papers"), lambda text: tuple(text.split())),
    "optional": lambda text: {n: float(v) if v else None for n, v in _pairs(text).items()},
    "ranges": parse_ranges,
}

# Rows by name.
REGISTRY = {
    cells["name"]: Row(**{name: _PARSERS.get(name, str)(text) for name, text in cells.items()})
    for cells in read_table("registry.csv")
}
