"""Graph of the operations that a function of the theory does with recorded arrays.

Operations on equal operands are one node, and operations on constants are done at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import partial, reduce
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np


class Node:
    """An operation on nodes; a constant; or a variable.

    Attributes
    ----------
    op : str
        Name of a NumPy ufunc, or ``constant``, ``variable``, ``vector``, ``table`` (of
        constants), ``index``, ``element``, ``where``, ``function``, ``total``, or a search.
    args : tuple
        Operands; of a constant its value, of a variable or a vector its name, of an index a
        number.
    free : frozenset of Node
        Variables that it depends on, apart from those of functions within it.
    constant : bool
        Whether it is a constant.
    form : int
        Set where sums need it: equal for nodes that differ by constants only.
    """

    __slots__ = ("__weakref__", "args", "constant", "form", "free", "op")
    _known: ClassVar[WeakValueDictionary[tuple, Node]] = WeakValueDictionary()

    op: str
    args: tuple[Any, ...]
    free: frozenset[Node]
    constant: bool
    form: int

    @classmethod
    def of(cls, op: str, *args: Any) -> Node:
        """Return the one node of this operation on these operands."""
        key = (op, *map(repr, args)) if op == "constant" else (op, *args)
        node = cls._known.get(key)
        if node is None:
            node = object.__new__(cls)
            node.op = op
            node.args = args
            node.constant = op == "constant"
            if op in ("variable", "index"):
                node.free = frozenset({node})
            elif op == "constant":
                node.free = frozenset()
            else:
                node.free = frozenset().union(*(arg.free for arg in args))
            if op == "function":
                node.free -= {args[0]}
            cls._known[key] = node
        return node


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    def operator(self: Node, *other: object) -> Any:
        return apply(name, *(reversed((self, *other)) if swapped else (self, *other)))

    return operator


# What NumPy does with arrays of any objects, such as sums, uses these operators.
for _name, _ufunc in {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "truediv": "divide",
    "pow": "power",
}.items():
    setattr(Node, f"__{_name}__", _operator(_ufunc))
    setattr(Node, f"__r{_name}__", _operator(_ufunc, swapped=True))
setattr(Node, "__neg__", _operator("negative"))  # noqa: B010


def as_node(value: Any) -> Any:
    """Node of a number; nodes and pairs of nodes stay what they are."""
    if isinstance(value, (Node, Complex)):
        return value
    if isinstance(value, complex):
        return Complex(as_node(value.real), as_node(value.imag))
    if isinstance(value, (bool, np.bool_)):
        return Node.of("constant", bool(value))
    return Node.of("constant", float(value))


# Second operands that change nothing; the first ones of sums and products as well.
_NEUTRAL = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "divide": 1.0}


def apply(name: str, *operands: object) -> Any:
    """Record a ufunc on numbers or nodes, or do it if all of them are constant."""
    nodes = [operand if type(operand) is Node else as_node(operand) for operand in operands]
    if Complex in map(type, nodes):
        return _complex(name, *nodes)
    if all(node.constant for node in nodes):
        with np.errstate(all="ignore"):
            return as_node(getattr(np, name)(*(node.args[0] for node in nodes)))
    if name == "power" and nodes[1].constant:
        return _power(nodes[0], nodes[1].args[0])
    neutral = _NEUTRAL.get(name)
    if neutral is not None:
        first, second = nodes
        if second.constant and second.args[0] == neutral:
            return first
        if name in ("add", "multiply") and first.constant and first.args[0] == neutral:
            return second
    return Node.of(name, *nodes)


def _power(base: Node, exponent: float) -> Node:
    """Small integer powers as products, as NumPy has squares."""
    if exponent == 0.5:
        return apply("sqrt", base)
    if exponent != int(exponent) or abs(exponent) > 64:
        return Node.of("power", base, as_node(exponent))
    result = as_node(1)
    square = base
    remaining = int(abs(exponent))
    while remaining:
        if remaining % 2:
            result = apply("multiply", result, square)
        remaining //= 2
        if remaining:
            square = apply("multiply", square, square)
    return apply("divide", 1, result) if exponent < 0 else result


def choose(condition: Any, yes: object, no: object) -> Any:
    """Record a choice, or make it."""
    condition = as_node(condition)
    yes = as_node(yes)
    no = as_node(no)
    if condition.constant:
        return yes if condition.args[0] else no
    return yes if yes is no else Node.of("where", condition, yes, no)


# Terms from which on a sum is a loop.
_LOOPED = 5

_INDICES = itertools.count(1)

# Numbers of operations on operands of given forms.
_FORMS: dict[tuple, int] = {}


def add_all(terms: Iterable[Any]) -> Any:
    """Record a sum.  Many terms that differ by constants only become one loop over a table."""
    terms = [as_node(term) for term in terms]
    if Complex in map(type, terms):
        return reduce(partial(apply, "add"), terms)
    alike: dict[int, list[Node]] = {}
    for term in terms:
        alike.setdefault(_form(term), []).append(term)
    parts = [[_loop(group)] if len(group) >= _LOOPED else group for group in alike.values()]
    return reduce(partial(apply, "add"), [part for group in parts for part in group])


def _form(node: object) -> Any:
    """Number of what a node computes, the same for those that differ by constants only."""
    if not isinstance(node, Node):
        return node
    if not hasattr(node, "form"):
        key = (node.op, *(() if node.constant else map(_form, node.args)))
        node.form = _FORMS.setdefault(key, len(_FORMS))
    return node.form


def _loop(terms: list[Node]) -> Node:
    index = Node.of("index", -next(_INDICES))
    known: dict[tuple[Node, ...], Node] = {}
    tables: list[Node] = []

    def merge(nodes: tuple[Node, ...]) -> Node:
        """Return the one node that is each of these, in turn as the index increases."""
        first = nodes[0]
        if all(node is first for node in nodes):
            return first
        if nodes not in known:
            if first.constant:
                tables.append(Node.of("table", *nodes))
                known[nodes] = Node.of("element", tables[-1], index)
            else:
                columns = zip(*(node.args for node in nodes), strict=True)
                known[nodes] = Node.of(first.op, *map(merge, columns))
        return known[nodes]

    body = merge(tuple(terms))
    if not tables:
        return Node.of("multiply", as_node(len(terms)), body)
    return Node.of("total", Node.of("function", index, body), tables[0])


class Complex:
    """Complex number of two nodes, for derivatives by an imaginary step."""

    def __init__(self, real: Node, imag: Node) -> None:
        self.real = real
        self.imag = imag
        self.parts = real, imag


def _as_complex(number: Any) -> Complex:
    """Return a number as a complex one."""
    if isinstance(number, Complex):
        return number
    return Complex(number, as_node(0))


def _complex(name: str, a: Any, b: Any = None) -> Complex:
    """Arithmetic of complex and real numbers; powers with small integer exponents."""
    if name == "negative":
        return Complex(apply(name, a.real), apply(name, a.imag))
    if name == "power":
        return reduce(partial(_complex, "multiply"), [a] * int(b.args[0]))
    if name in ("add", "subtract"):
        first = _as_complex(a)
        second = _as_complex(b)
        return Complex(apply(name, first.real, second.real), apply(name, first.imag, second.imag))
    if name == "multiply" and isinstance(a, Node):
        a, b = b, a
    if name in ("multiply", "divide") and isinstance(b, Node):
        return Complex(*(apply(name, part, b) for part in a.parts))
    if name == "multiply":
        crossed = apply("add", apply(name, a.real, b.imag), apply(name, a.imag, b.real))
        squares = apply(name, a.real, b.real), apply(name, a.imag, b.imag)
        return Complex(apply("subtract", *squares), crossed)
    if name == "divide":
        size = apply("add", *(apply("multiply", part, part) for part in b.parts))
        conjugate = Complex(b.real, apply("negative", b.imag))
        return _complex(name, _complex("multiply", a, conjugate), size)
    raise TypeError(f"{name} of complex numbers is not recorded")
