"""What of each function of the theory was compared: fields, arguments, and how sharply."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markup import folded, table

from iclimit.validation import CLAIMS
from iclimit.validation.claim import Effort
from iclimit.validation.reference import LARGEST
from iclimit.validation.report.coverage import SHELVES, TOGETHER, theory_functions
from iclimit.validation.report.record import RecordedComparison
from iclimit.validation.rows import theory_calls

# Values of an argument by its name, for one function.
Given = dict[str, list[Any]]


def compared(rows: Sequence[RecordedComparison], sharpness: Mapping[str, str]) -> str:
    """Tables by subject: function, its sharpness in words, fields of its result, arguments."""
    fields, claims = _compared_fields(rows)
    given = _stated_arguments()
    parts = []
    for subject in SHELVES:
        names = [name for name in theory_functions(subject) if name in fields]
        lines = [("Function", "Notices", "Fields", "Arguments")]
        for name in names:
            arguments = "; ".join(_words(*each) for each in given[name].items())
            code = "in the code of " + ", ".join(f"``{claim}``" for claim in claims[name])
            cells = f"``{name}``", sharpness[name], ", ".join(fields[name]), arguments or code
            lines.append(cells)
        head = f"{subject.capitalize()}: {len(names)} functions"
        parts.append(folded(head, table("24 12 20 44", lines)))
    return "\n".join(parts)


def _compared_fields(
    rows: Sequence[RecordedComparison],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Fields and claims by function, of comparisons on record that have a resolution.

    A result that is a number has the field "value".
    """
    fields: dict[str, list[str]] = defaultdict(list)
    claims: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        name, _, field = row.comparison.of.partition(".")
        if not name or not math.isfinite(row.would_notice):
            continue
        # Some claims add the case to the field.
        word = field.split()[0] if field else "value"
        if word not in fields[name]:
            fields[name].append(word)
        if row.claim not in (*claims[name], TOGETHER):
            claims[name].append(row.claim)
    return fields, claims


def _stated_arguments() -> dict[str, Given]:
    """Arguments by function that the rows of all claims state, in the preset on record."""
    given: dict[str, Given] = defaultdict(lambda: defaultdict(list))
    effort = Effort(LARGEST)
    for claim in CLAIMS.values():
        for row in claim.rows(effort):
            for function, arguments in theory_calls(row):
                for name, value in arguments.items():
                    if name != "rng":
                        given[function][name].append(value)
    return given


def _words(name: str, values: Sequence[Any]) -> str:
    """An argument with its lowest and highest value, or its words."""
    words = sorted({value for value in values if isinstance(value, str)})
    numbers = [number for value in values for number in _numbers(value)]
    shown = []
    if numbers:
        lowest = f"{min(numbers):.3g}"
        highest = f"{max(numbers):.3g}"
        shown.append(lowest if lowest == highest else f"{lowest} to {highest}")
    if words:
        shown.append(", ".join(words))
    return f"``{name}`` {', '.join(shown)}".rstrip()


def _numbers(value: Any) -> list[float]:
    """Numbers of an argument; none of flags, words, objects and values that are computed."""
    if value is None or isinstance(value, (bool, str)):
        return []
    try:
        return np.asarray(value, dtype=float).ravel().tolist()
    except (TypeError, ValueError):
        return []
