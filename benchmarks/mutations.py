"""One-place slips of a source file: where they can be made, and how the file reads with one.

A slip replaces one expression inside a function: a sign, a factor, an exponent, a number or an
index that is off by one, a term that is dropped, or two arguments or indices that change places.
Places that hold no mathematics are left out: messages, checks of arguments, annotations, figures,
and what is printed.
"""

import ast
import copy
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

KINDS = ("sign", "factor", "exponent", "off by one", "dropped term", "swapped argument")

# Functions that draw, print or check and compute nothing.
NO_MATHEMATICS = ("draw", "plot", "rows", "to_dict", "describe", "check", "parse", "refuse")
NO_MATHEMATICS += ("identify", "fingerprint", "save", "load", "write", "read")

# Calls whose arguments are left alone: they check, convert or describe.
QUIET_CALLS = ("isinstance", "getattr", "hasattr", "zip", "map", "check", "parse", "set", "array")


@dataclass(frozen=True)
class Slip:
    """One slip: its line, that of the function around it, its kind, the line before and after.

    The bytes from start to stop are replaced by the text.  It is private in a helper: a function,
    or a class, whose name begins with an underscore.
    """

    line: int
    function: int
    kind: str
    before: str
    after: str
    start: int
    stop: int
    text: str
    private: bool = False

    def key(self, path: str) -> str:
        """Short name that does not change with what stands elsewhere in the file."""
        parts = (path, self.kind, self.before, self.after)
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    def apply(self, source: str) -> str:
        """Source of the file with the slip."""
        raw = source.encode()
        return (raw[: self.start] + self.text.encode() + raw[self.stop :]).decode()


def slips(source: str) -> Iterator[Slip]:
    """All slips of a file, in the order of its expressions."""
    lines = source.encode().splitlines(keepends=True)
    starts = [0, *accumulate(map(len, lines))]
    tree = ast.parse(source)
    helpers = _lines_of_helpers(tree)
    for node, function in _places(tree):
        line = lines[node.lineno - 1]
        last = lines[node.end_lineno - 1]
        stop = starts[node.end_lineno - 1] + node.end_col_offset
        for kind, new in _changed(node):
            text = ast.unparse(new) if isinstance(node, ast.Constant) else f"({ast.unparse(new)})"
            after = line[: node.col_offset] + text.encode() + last[node.end_col_offset :]
            texts = line.decode().strip(), after.decode().strip()
            start = starts[node.lineno - 1] + node.col_offset
            private = node.lineno in helpers
            yield Slip(node.lineno, function, kind, *texts, start, stop, text, private)


def function_around(source: str, line: int) -> int:
    """First line of the innermost function around a line, or of its decorators."""
    return max(
        min([node.lineno, *(each.lineno for each in node.decorator_list)])
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    )


def _lines_of_helpers(tree: ast.Module) -> set[int]:
    """Lines of functions and classes whose names begin with one underscore."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and re.match("_(?!_)", node.name):
            lines.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _places(tree: ast.Module) -> Iterator[tuple[ast.expr, int]]:
    """Expressions inside functions that may be mathematics, with the line of their function."""

    def visit(node: ast.AST, function: int | None) -> Iterator[tuple[ast.expr, int]]:
        if isinstance(node, (ast.FunctionDef, ast.Lambda)):
            if isinstance(node, ast.FunctionDef):
                if node.name.strip("_").split("_")[0] in NO_MATHEMATICS or "__" in node.name[:2]:
                    function = None if node.name != "__call__" else function
                    if node.name not in ("__call__", "__init__"):
                        return
                function = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            body = node.body if isinstance(node.body, list) else [node.body]
            for each in body:
                yield from visit(each, function)
            return
        if isinstance(node, (ast.Raise, ast.Assert, ast.JoinedStr, ast.Import, ast.ImportFrom)):
            return
        if isinstance(node, ast.If) and all(isinstance(each, ast.Raise) for each in node.body):
            for each in node.orelse:
                yield from visit(each, function)
            return
        if isinstance(node, ast.Call) and _name(node.func).split("_")[0] in QUIET_CALLS:
            return
        if isinstance(node, ast.AnnAssign):
            yield from visit(node.value, function) if node.value else ()
            return
        if isinstance(node, ast.expr) and function is not None:
            yield node, function
        for child in ast.iter_child_nodes(node):
            yield from visit(child, function)

    yield from visit(tree, None)


def _name(function: ast.expr) -> str:
    """Last name of what is called."""
    return getattr(function, "attr", getattr(function, "id", "")).strip("_")


def _changed(node: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Kinds of slips at an expression, and what stands there with each."""

    def binary(left: ast.expr, operator: ast.operator, right: ast.expr) -> ast.BinOp:
        return ast.BinOp(left, operator, right)

    if isinstance(node, ast.BinOp) and not any(map(_sequence, (node.left, node.right))):
        left = node.left
        right = node.right
        if isinstance(node.op, (ast.Add, ast.Sub)):
            other = ast.Sub() if isinstance(node.op, ast.Add) else ast.Add()
            yield "sign", binary(left, other, right)
            yield "dropped term", left
            yield "dropped term", right
        if isinstance(node.op, (ast.Mult, ast.Div, ast.MatMult)):
            yield "factor", binary(ast.Constant(2), ast.Mult(), node)
            yield "dropped term", left
        if isinstance(node.op, ast.Mult):
            yield "dropped term", right
        if isinstance(node.op, ast.Pow):
            yield "exponent", binary(left, ast.Pow(), binary(right, ast.Add(), ast.Constant(1)))
            yield "exponent", left
        if isinstance(node.op, (ast.Sub, ast.Div, ast.MatMult)):
            yield "swapped argument", binary(right, node.op, left)
    negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    # Minus one as an index or an axis is no sign.
    if negative and not (isinstance(node.operand, ast.Constant) and node.operand.value == 1):
        yield "sign", node.operand
    if isinstance(node, ast.Call):
        name = _name(node.func)
        if name == "sqrt" and len(node.args) == 1:
            yield "exponent", node.args[0]
        if name == "range" and len(node.args) == 1:
            less = binary(node.args[0], ast.Sub(), ast.Constant(1))
            yield "off by one", ast.Call(node.func, [less], node.keywords)
        for place in range(len(node.args) - 1):
            pair = node.args[place : place + 2]
            if ast.dump(pair[0]) != ast.dump(pair[1]) and not any(map(_plain, pair)):
                new = copy.copy(node)
                new.args = [*node.args[:place], *pair[::-1], *node.args[place + 2 :]]
                yield "swapped argument", new
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        indices = node.slice.elts
        if len(indices) > 1 and ast.dump(indices[0]) != ast.dump(indices[1]):
            swapped = ast.Tuple([indices[1], indices[0], *indices[2:]])
            yield "swapped argument", ast.Subscript(node.value, swapped)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        swap = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
        if type(node.ops[0]) in swap:
            yield (
                "off by one",
                ast.Compare(node.left, [swap[type(node.ops[0])]()], node.comparators),
            )
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield "off by one", ast.Constant(node.value + 1)
    if isinstance(node, ast.Constant) and type(node.value) is float and node.value:
        yield "factor", ast.Constant(2 * node.value)


def _sequence(node: ast.expr) -> bool:
    """Whether an operand is text or a collection, of which + and * make no mathematics."""
    literal = isinstance(node, ast.Constant) and isinstance(node.value, (str, tuple))
    return literal or isinstance(
        node, (ast.List, ast.Tuple, ast.Dict, ast.ListComp, ast.JoinedStr)
    )


def _plain(node: ast.expr) -> bool:
    """Whether an argument is no number: text, a shape, unpacked values, or a function."""
    text = isinstance(node, ast.Constant) and not isinstance(node.value, (int, float))
    return text or isinstance(node, (ast.Starred, ast.Lambda, ast.Tuple, ast.List, ast.Compare))
