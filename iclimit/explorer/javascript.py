"""JavaScript from recorded functions (`iclimit.explorer.recording`).

Numbers are those of NumPy: both have IEEE double precision, infinities and NaN, and no exceptions.
"""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from iclimit.explorer.recording import Node

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
_CALLS = {
    "sqrt": "Math.sqrt",
    "exp": "Math.exp",
    "log": "Math.log",
    "log1p": "Math.log1p",
    "expm1": "Math.expm1",
    "sin": "Math.sin",
    "cos": "Math.cos",
    "tanh": "Math.tanh",
    "arctan": "Math.atan",
    "arctan2": "Math.atan2",
    "absolute": "Math.abs",
    "maximum": "Math.max",
    "minimum": "Math.min",
    "floor": "Math.floor",
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
    "minimum": "runtime.minimum",
}

_LONGEST = 160
"""Characters of an expression that is written in place; longer ones get a name."""


def javascript_function(parameters: str, results: Any) -> str:
    """Text of a function of these variables that returns a node, or a list or a dict of them."""
    nodes = list(_nodes(results))
    writer = _Writer(nodes)
    body = writer.statements(nodes)
    returned = writer.results(results)
    lines = "\n".join(f"  {line}" for line in [*body, f"return {returned};"])
    return f"({parameters}) => {{\n{lines}\n}}"


def _nodes(results: Any) -> list[Node]:
    if isinstance(results, Mapping):
        return [node for value in results.values() for node in _nodes(value)]
    if isinstance(results, (list, tuple)):
        return [node for value in results for node in _nodes(value)]
    return [results]


class _Writer:
    """Names and uses of the nodes of a function."""

    def __init__(self, results: list[Node]) -> None:
        self.uses = Counter[Node](results)
        self.text: dict[Node, str] = {}
        self.count = 0
        seen, todo = set[Node](), list(results)
        while todo:
            node = todo.pop()
            if node not in seen:
                seen.add(node)
                operands = _operands(node)
                self.uses.update(operands)
                if node.op == "function":  # a use within a function counts as many
                    self.uses.update(_outside(node))
                todo += operands

    def results(self, results: Any) -> str:
        if isinstance(results, Mapping):
            parts = (f"{name}: {self.results(value)}" for name, value in results.items())
            return f"{{{', '.join(parts)}}}"
        if isinstance(results, (list, tuple)):
            return f"[{', '.join(map(self.results, results))}]"
        return self.text[results]

    def statements(self, results: list[Node]) -> list[str]:
        """Declarations that the results need, those of outer scopes being written."""
        lines: list[str] = []
        for node in self._in_order(results):
            text = self._expression(node)
            if node.op in ("constant", "variable", "function"):
                named = False
            elif node.op in _SEARCHES:
                named = True
            else:
                named = self.uses[node] > 1 or len(text) > _LONGEST
            if named:
                self.count += 1
                lines.append(f"const v{self.count} = {text};")
                text = f"v{self.count}"
            self.text[node] = text
        return lines

    def _in_order(self, results: list[Node]) -> list[Node]:
        """Nodes that are not yet written, operands first; those in functions come with these."""
        ordered: dict[Node, None] = {}
        stack = [(node, False) for node in reversed(results)]
        while stack:
            node, ready = stack.pop()
            if node in self.text or node in ordered:
                continue
            if ready:
                ordered[node] = None
                continue
            stack.append((node, True))
            operands = _outside(node) if node.op == "function" else _operands(node)
            stack += [(operand, False) for operand in reversed(operands)]
        return list(ordered)

    def _expression(self, node: Node) -> str:
        if node.op == "constant":
            return _constant(node.args[0])
        if node.op == "variable":
            return node.args[0]
        if node.op == "function":
            return self._function(node)
        texts = [self.text[operand] for operand in node.args]
        if node.op in _OPERATORS:
            return f"({texts[0]} {_OPERATORS[node.op]} {texts[1]})"
        if node.op == "where":
            return f"({texts[0]} ? {texts[1]} : {texts[2]})"
        if node.op in _SEARCHES:
            points = f"[{', '.join(texts[1:])}]"
            return f"{_SEARCHES[node.op]}({texts[0]}, {points})"
        if node.op not in _CALLS:
            raise TypeError(f"there is no JavaScript for numpy.{node.op}")
        return f"{_CALLS[node.op]}({', '.join(texts)})"

    def _function(self, node: Node) -> str:
        variable, body = node.args
        self.text[variable] = variable.args[0]
        lines = self.statements([body])
        return f"({variable.args[0]}) => {{ {' '.join(lines)} return {self.text[body]}; }}"


def _operands(node: Node) -> list[Node]:
    return [arg for arg in node.args if isinstance(arg, Node)]


def _outside(function: Node) -> list[Node]:
    """Nodes that a function uses and that do not depend on its variable."""
    variable, body = function.args
    found: dict[Node, None] = {}
    seen, todo = set[Node](), [body]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if variable in node.free:
            todo += _operands(node)
        elif node is not variable:
            found[node] = None
    return list(found)


def _constant(value: float | bool) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if math.isnan(value):
        return "NaN"
    text = repr(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)
    return f"({text})" if text.startswith("-") else text
