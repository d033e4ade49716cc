"""JavaScript from recorded functions (`iclimit.explorer.recording`).

Numbers are those of NumPy: both have IEEE double precision, infinities and NaN, and no exceptions.
"""

import math
from collections.abc import Iterator

from iclimit.explorer.nodes import Node

_OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "===",
    "not_equal": "!==",
    "logical_and": "&&",
    "logical_or": "||",
    "bitwise_and": "&&",
    "bitwise_or": "||",
    "power": "**",
}
# Functions that have one name in NumPy and in the object Math.
_SAME = ("sqrt", "exp", "log", "log1p", "expm1", "sin", "cos", "tanh", "floor")

_CALLS = {name: f"Math.{name}" for name in _SAME} | {
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
}
_SEARCHES = {
    "root": "runtime.root",
    "root_above": "runtime.rootAbove",
    "repeat": "runtime.repeat",
    "count": "runtime.count",
}

# A node, or a list of results.
Results = Node | list["Results"] | tuple["Results", ...]

# Characters of an expression that is written in place; longer ones get a name.
_LONGEST = 160


def javascript_function(parameters: str, results: Results) -> str:
    """Text of a function of these variables that returns a node, or a list or a dict of them."""
    writer = _Writer(list(_nodes(results)))
    lines = [*writer.statements(()), f"return {writer.results(results)};"]
    body = "\n".join(f"  {line}" for line in lines)
    return f"({parameters}) => {{\n{body}\n}}"


def _nodes(results: Results) -> Iterator[Node]:
    if isinstance(results, (list, tuple)):
        for value in results:
            yield from _nodes(value)
    else:
        yield results


# Place of a node: within which cases of which choices, and within which functions.
#
# An entry is a choice or a function and the number of its operand that the node is part of.
Path = tuple[tuple[Node, int], ...]


class _Writer:
    """Writer of a function.

    Each node is computed once, in the innermost case or function that has all its uses; what does
    not depend on the variable of a function is computed outside of it.
    """

    def __init__(self, results: list[Node]) -> None:
        self.order = _operands_first(results)
        self.text: dict[Node, str] = {}
        self.bodies: dict[Node, list[str]] = {}
        self.named = set[Node]()
        self.count = 0
        sites: dict[Node, list[Path]] = {node: [] for node in self.order}
        for node in results:
            sites[node].append(())
        self.contents: dict[Path, list[Node]] = {}
        self.levels: dict[Node, int] = {}
        for node in self.order:
            below = (self.levels[arg] for arg in node.args if isinstance(arg, Node))
            self.levels[node] = max(below, default=0) + (node.op == "total")
        for node in reversed(self.order):
            path = _within(node, _common(sites[node]))
            if len(sites[node]) > 1 or path != sites[node][0]:
                self.named.add(node)
            self.contents.setdefault(path, []).insert(0, node)
            for place, operand in enumerate(node.args):
                if isinstance(operand, Node):
                    inner = node.op == "function" or (node.op == "where" and place > 0)
                    sites[operand].append((*path, (node, place)) if inner else path)

    def results(self, results: Results) -> str:
        if isinstance(results, (list, tuple)):
            return f"[{', '.join(map(self.results, results))}]"
        return self.text[results]

    def statements(self, path: Path) -> list[str]:
        """Declarations of what belongs to a place."""
        lines: list[str] = []
        # Sums that do not need each other are added up in one loop.
        ordered = sorted(
            self.contents.get(path, ()), key=lambda node: (self.levels[node], node.op != "total")
        )
        sums = [node for node in ordered if node.op == "total"]
        for node in ordered:
            cases = [self.statements((*path, (node, place))) for place in (1, 2)]
            if node.op == "where" and any(cases):
                lines += self._branch(node, cases)
                continue
            if node.op == "total":
                if node not in self.text:
                    same = [total for total in sums if self._together(total, node)]
                    lines += self._loop(same)
                continue
            if node.op == "function":
                self.bodies[node] = cases[0]
                text = self._function(node, cases[0])
            else:
                text = _expression(node, [self.text.get(arg, "") for arg in node.args])
            plain = node.op in ("constant", "variable", "index", "function")
            if not plain and (node in self.named or len(text) > _LONGEST):
                lines.append(f"const {(name := self._name())} = {text};")
                text = name
            self.text[node] = text
        return lines

    def _branch(self, node: Node, cases: list[list[str]]) -> list[str]:
        """Statements that compute one of two cases."""
        name = self._name()
        texts = [self.text[operand] for operand in node.args]
        blocks = [
            f"{{ {' '.join([*case, f'{name} = {value};'])} }}"
            for case, value in zip(cases, texts[1:], strict=True)
        ]
        self.text[node] = name
        return [f"let {name};", f"if ({texts[0]}) {' else '.join(blocks)}"]

    def _function(self, node: Node, lines: list[str]) -> str:
        variable, body = node.args
        return f"({variable.args[0]}) => {{ {' '.join(lines)} return {self.text[body]}; }}"

    def _together(self, node: Node, other: Node) -> bool:
        return self.levels[node] == self.levels[other] and node.args[1] is other.args[1]

    def _loop(self, sums: list[Node]) -> list[str]:
        """Statements that add up functions over the indices of a table."""
        steps = []
        for node in sums:
            self.text[node] = self._name()
            function = node.args[0]
            steps += [
                *self.bodies[function],
                f"{self.text[node]} += {self.text[function.args[1]]};",
            ]
        start = ", ".join(f"{self.text[node]} = 0" for node in sums)
        length = f"{self.text[sums[0].args[1]]}.length"
        return [f"let {start};", f"for (let i = 0; i < {length}; i++) {{ {' '.join(steps)} }}"]

    def _name(self) -> str:
        self.count += 1
        return f"v{self.count}"


def _operands_first(results: list[Node]) -> list[Node]:
    """All nodes that results depend on, each after its operands."""
    ordered: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(results)]
    while stack:
        node, ready = stack.pop()
        if ready:
            ordered[node] = None
        elif node not in ordered:
            stack.append((node, True))
            stack += [(arg, False) for arg in reversed(node.args) if isinstance(arg, Node)]
    return list(ordered)


def _common(paths: list[Path]) -> Path:
    """Longest common beginning."""
    shortest = min(paths, key=len)
    for place, entry in enumerate(shortest):
        if any(path[place] != entry for path in paths):
            return shortest[:place]
    return shortest


def _within(node: Node, path: Path) -> Path:
    """The path up to the first function that can be left: all those within are not needed."""
    needs = [outer.op == "function" and outer.args[0] in node.free for outer, _ in path]
    for place in range(len(path) - 1, -1, -1):
        if needs[place]:
            break
        if path[place][0].op == "function":
            path = path[:place]
    return path


def _expression(node: Node, texts: list[str]) -> str:
    if node.op == "constant":
        return _constant(node.args[0])
    if node.op == "variable":
        return node.args[0]
    if node.op == "index":
        return "i"
    if node.op == "table":
        return f"[{', '.join(texts)}]"
    if node.op == "element":
        return f"{texts[0]}[{texts[1]}]"
    if node.op in _OPERATORS:
        return f"({texts[0]} {_OPERATORS[node.op]} {texts[1]})"
    if node.op == "where":
        return f"({texts[0]} ? {texts[1]} : {texts[2]})"
    if node.op == "least":  # the points are needed where there is no guess only
        return f"runtime.minimum({texts[0]}, () => [{', '.join(texts[1:])}])"
    if node.op in _SEARCHES:
        return f"{_SEARCHES[node.op]}({texts[0]}, [{', '.join(texts[1:])}])"
    if node.op not in _CALLS:
        raise TypeError(f"there is no JavaScript for numpy.{node.op}")
    return f"{_CALLS[node.op]}({', '.join(texts)})"


def _constant(value: float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    text = repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
    return f"({text})" if text.startswith("-") else text
