"""Statements of a language with the syntax of C, from recorded functions.

Each node of the graph is computed once, in the innermost case or function that has all its uses;
what does not depend on the variable of a function is computed outside of it.  A `Language` says
how its operations, declarations and functions are written.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from iclimit.asymptotics.recording.nodes import Node

# Operators that languages have in common.
OPERATORS = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "logical_and": "&&",
    "logical_or": "||",
    "bitwise_and": "&&",
    "bitwise_or": "||",
}

# Functions that have one name in NumPy and in other languages.
FUNCTIONS = ("sqrt", "exp", "log", "log1p", "expm1", "sin", "cos", "tanh", "floor")

# Characters of an expression that is written in place; longer ones get a name.
_LONGEST = 160

# Place of a node: within which cases of which choices, and within which functions.
#
# An entry is a choice or a function and the number of its operand that the node is part of.
Path = tuple[tuple[Node, int], ...]


@dataclass(frozen=True)
class Language:
    """How a language writes what is recorded.

    Attributes
    ----------
    name : str
        Its name, for messages.
    operators, calls : mapping of str to str
        Operators and functions by the names of NumPy's.
    searches : mapping of str to str
        Texts of searches, with ``{function}`` and ``{points}``.
    constant : callable
        Text of a number or a truth value.
    declared, changing, counter : str
        What stands before the name of a number, of one that changes, and of a counter.
    table : str
        Declaration of a table, with ``{name}`` and ``{entries}``.
    function : str
        A function, with ``{variable}`` and ``{body}``.
    """

    name: str
    operators: Mapping[str, str]
    calls: Mapping[str, str]
    searches: Mapping[str, str]
    constant: Callable[[float | bool], str]
    declared: str
    changing: str
    counter: str
    table: str
    function: str


class Writer:
    """Writer of what results need, in the order of the statements."""

    def __init__(self, language: Language, results: list[Node]) -> None:
        self.language = language
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

    def statements(self, path: Path = ()) -> list[str]:
        """Declarations of what belongs to a place; then `text` has what its nodes are called."""
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
            if node.op == "table":
                lines.append(self._table(node))
                continue
            if node.op == "function":
                self.bodies[node] = cases[0]
                text = self._function(node, cases[0])
            else:
                text = self._expression(node, [self.text.get(arg, "") for arg in node.args])
            plain = node.op in ("constant", "variable", "index", "function")
            if not plain and (node in self.named or len(text) > _LONGEST):
                name = self._name()
                lines.append(f"{self.language.declared} {name} = {text};")
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
        return [f"{self.language.changing} {name};", f"if ({texts[0]}) {' else '.join(blocks)}"]

    def _table(self, node: Node) -> str:
        name = self._name()
        entries = ", ".join(self.text[entry] for entry in node.args)
        self.text[node] = name
        return self.language.table.format(name=name, entries=entries)

    def _function(self, node: Node, lines: list[str]) -> str:
        variable, result = node.args
        body = " ".join([*lines, f"return {self.text[result]};"])
        return self.language.function.format(variable=variable.args[0], body=body)

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
        length = len(sums[0].args[1].args)
        head = f"for ({self.language.counter} i = 0; i < {length}; i++)"
        return [f"{self.language.changing} {start};", f"{head} {{ {' '.join(steps)} }}"]

    def _name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def _expression(self, node: Node, texts: list[str]) -> str:
        language = self.language
        if node.op == "constant":
            return language.constant(node.args[0])
        if node.op == "variable":
            return node.args[0]
        if node.op == "index":
            return "i"
        if node.op == "element":
            return f"{texts[0]}[{texts[1]}]"
        if node.op == "where":
            return f"({texts[0]} ? {texts[1]} : {texts[2]})"
        if node.op in language.operators:
            return f"({texts[0]} {language.operators[node.op]} {texts[1]})"
        if node.op in language.searches:
            points = ", ".join(texts[1:])
            return language.searches[node.op].format(function=texts[0], points=points)
        if node.op in language.calls:
            return f"{language.calls[node.op]}({', '.join(texts)})"
        raise TypeError(f"there is no {language.name} for numpy.{node.op}")


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
