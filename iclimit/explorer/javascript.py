"""JavaScript from recorded functions (`iclimit.asymptotics.recording`).

Numbers are those of NumPy: both have IEEE double precision, infinities and NaN, and no exceptions.
"""

import math
from collections.abc import Iterator

from iclimit.asymptotics.recording.nodes import Node
from iclimit.asymptotics.recording.statements import FUNCTIONS, OPERATORS, Language, Writer

# A node, or a list of results.
Results = Node | list["Results"] | tuple["Results", ...]


def _constant(value: float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    text = repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
    return f"({text})" if text.startswith("-") else text


JAVASCRIPT = Language(
    name="JavaScript",
    operators=OPERATORS | {"equal": "===", "not_equal": "!==", "power": "**"},
    calls={name: f"Math.{name}" for name in FUNCTIONS}
    | {
        "arctan": "Math.atan",
        "arctan2": "Math.atan2",
        "absolute": "Math.abs",
        "maximum": "Math.max",
        "minimum": "Math.min",
        "hypot": "runtime.hypot",
        "isinf": "runtime.isInfinite",
        "isnan": "Number.isNaN",
        "isfinite": "Number.isFinite",
        "negative": "-",
        "logical_not": "!",
        "invert": "!",
    },
    searches={
        # The points are needed where there is no guess only.
        "least": "runtime.minimum({function}, () => [{points}])",
        "root": "runtime.root({function}, [{points}])",
        "root_above": "runtime.rootAbove({function}, [{points}])",
        "repeat": "runtime.repeat({function}, [{points}])",
        "count": "runtime.count({function}, [{points}])",
    },
    constant=_constant,
    declared="const",
    changing="let",
    counter="let",
    table="const {name} = [{entries}];",
    function="({variable}) => {{ {body} }}",
)


def javascript_function(parameters: str, results: Results) -> str:
    """Text of a function of these variables that returns a node, or a list of them."""
    writer = Writer(JAVASCRIPT, list(_nodes(results)))
    lines = [*writer.statements(), f"return {_returned(writer, results)};"]
    body = "\n".join(f"  {line}" for line in lines)
    return f"({parameters}) => {{\n{body}\n}}"


def _nodes(results: Results) -> Iterator[Node]:
    if isinstance(results, (list, tuple)):
        for value in results:
            yield from _nodes(value)
    else:
        yield results


def _returned(writer: Writer, results: Results) -> str:
    if isinstance(results, (list, tuple)):
        return f"[{', '.join(_returned(writer, value) for value in results)}]"
    return writer.text[results]
