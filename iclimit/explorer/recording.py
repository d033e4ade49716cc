"""Arrays that record what the theory does with them.

A function of the theory that is called with `Recorded` arrays computes no numbers.  It leaves a
graph of the operations that NumPy would have done, which `iclimit.explorer.javascript` prints.  So
a formula is in the explorer as it is in Python, including its choices for accuracy.

* Operations on equal operands are one node: common subexpressions are shared.
* Operations on constants are done at once.
* Choices are recorded with both cases, as `numpy.where` evaluates them.  A mask as an index picks
  everything, and assigning to it is a choice: ``y[mask] = f(x[mask])`` is recorded as
  ``y = where(mask, f(x), y)``.
* Lists and loops of fixed length are unrolled.
* What is found by iteration is recorded as one node with the function that is iterated
  (`iclimit.asymptotics.searches`).

What a recorded number cannot do is decide an ``if`` or the length of a loop: this is a TypeError.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np

from iclimit.asymptotics.numbers import ArrayMath


class Node:
    """An operation on nodes; a constant; or a variable.

    Attributes
    ----------
    op : str
        Name of a NumPy ufunc, or ``constant``, ``variable``, ``where``, ``function``, or a search.
    args : tuple
        Operands; of a constant its value, of a variable its name.
    free : frozenset of Node
        Variables of surrounding functions that it depends on.
    """

    __slots__ = ("__weakref__", "args", "free", "op")
    _known: ClassVar[WeakValueDictionary[tuple, Node]] = WeakValueDictionary()

    op: str
    args: tuple[Any, ...]
    free: frozenset[Node]

    @classmethod
    def of(cls, op: str, *args: Any) -> Node:
        """Return the one node of this operation on these operands."""
        key = (op, *map(repr, args)) if op == "constant" else (op, *args)
        node = cls._known.get(key)
        if node is None:
            node = object.__new__(cls)
            node.op, node.args = op, args
            operands = [arg for arg in args if isinstance(arg, Node)]
            node.free = frozenset().union(*(arg.free for arg in operands))
            if op == "variable":
                node.free = frozenset({node})
            if op == "function":
                node.free -= {args[0]}
            cls._known[key] = node
        return node

    @property
    def constant(self) -> bool:
        return self.op == "constant"


def _operator(name: str, swapped: bool = False) -> Callable[..., Any]:
    def operator(self: Node, *other: Any) -> Any:
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
    if isinstance(value, (Node, _Complex)):
        return value
    if isinstance(value, complex):
        return _Complex(as_node(value.real), as_node(value.imag))
    if isinstance(value, (bool, np.bool_)):
        return Node.of("constant", bool(value))
    return Node.of("constant", float(value))


def apply(name: str, *operands: Any) -> Any:
    """Record a ufunc on numbers or nodes, or do it if all of them are constant."""
    nodes = [as_node(operand) for operand in operands]
    if any(isinstance(node, _Complex) for node in nodes):
        return _complex(name, *nodes)
    if all(node.constant for node in nodes):
        with np.errstate(all="ignore"):
            return as_node(getattr(np, name)(*(node.args[0] for node in nodes)))
    if name == "power" and nodes[1].constant:
        return _power(nodes[0], nodes[1].args[0])
    neutral = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}
    if name in neutral:
        first, second = nodes
        if second.constant and second.args[0] == neutral[name]:
            return first
        if name in ("add", "multiply") and first.constant and first.args[0] == neutral[name]:
            return second
    return Node.of(name, *nodes)


def _power(base: Node, exponent: float) -> Node:
    """Small integer powers as products, as NumPy has squares."""
    if exponent == 0.5:
        return apply("sqrt", base)
    if exponent != int(exponent) or abs(exponent) > 64:
        return Node.of("power", base, as_node(exponent))
    result, square, left = as_node(1), base, int(abs(exponent))
    while left:
        if left % 2:
            result = apply("multiply", result, square)
        left //= 2
        if left:
            square = apply("multiply", square, square)
    return apply("divide", 1, result) if exponent < 0 else result


def choose(condition: Any, yes: Any, no: Any) -> Any:
    """Record a choice, or make it."""
    condition, yes, no = as_node(condition), as_node(yes), as_node(no)
    if condition.constant:
        return yes if condition.args[0] else no
    return yes if yes is no else Node.of("where", condition, yes, no)


class _Complex:
    """Complex number of two nodes, for derivatives by an imaginary step."""

    def __init__(self, real: Node, imag: Node) -> None:
        self.real, self.imag = real, imag


def _square(node: Node) -> Node:
    return apply("multiply", node, node)


def _complex(name: str, *operands: Any) -> _Complex:
    """Arithmetic of complex numbers; powers with small integer exponents."""
    pairs = [n if isinstance(n, _Complex) else _Complex(n, as_node(0)) for n in operands]
    a, b = pairs[0], pairs[-1]
    if name in ("add", "subtract"):
        return _Complex(apply(name, a.real, b.real), apply(name, a.imag, b.imag))
    if name == "negative":
        return _Complex(apply(name, a.real), apply(name, a.imag))
    if name == "multiply":
        return _Complex(
            apply("subtract", apply(name, a.real, b.real), apply(name, a.imag, b.imag)),
            apply("add", apply(name, a.real, b.imag), apply(name, a.imag, b.real)),
        )
    if name == "divide":
        size = apply("add", _square(b.real), _square(b.imag))
        top = _complex("multiply", a, _Complex(b.real, apply("negative", b.imag)))
        return _Complex(apply(name, top.real, size), apply(name, top.imag, size))
    if name == "power":
        result = _Complex(as_node(1), as_node(0))
        for _ in range(int(b.real.args[0])):
            result = _complex("multiply", result, a)
        return result
    raise TypeError(f"{name} of complex numbers is not recorded")


class RecordingMath(ArrayMath):
    """Mathematics on recorded arrays: that of NumPy, which hands them the work.

    Arguments are not checked, and results may be NaN: this is left to who calls the JavaScript.
    """

    def __init__(self) -> None:
        super().__init__(np)

    def convert(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return np.stack([self.convert(item) for item in value])
        return value if isinstance(value, Recorded) else super().convert(value)

    def host(self, value: Any) -> Any:
        return value

    def violates(self, value: Any, allowed: Callable[[Any], Any]) -> Any:  # noqa: ARG002
        return None

    def finish(self, value: Any) -> Any:
        return value

    def find_root(self, function: Any, bracket: Any, args: Any) -> Recorded:
        return _search("root", function, bracket, args)

    def find_root_above(self, function: Any, start: Any, args: Any) -> Recorded:
        return _search("root_above", function, [start], args)

    def find_minimum(self, function: Any, points: Any, args: Any) -> tuple[Any, Any]:
        x = _search("least", function, points, args)
        return x, function(x, *args)

    def repeat_until_settled(self, step: Any, start: Any, args: Any, most: int) -> Recorded:
        return _search("repeat", step, [start, most], args)

    def count_until(self, step: Any, start: Any, goal: Any) -> Recorded:
        return _search("count", step, [start, goal], ())


class Recorded(np.lib.mixins.NDArrayOperatorsMixin):
    """Array of nodes."""

    number_system = RecordingMath()
    dtype = np.dtype(float)

    def __init__(self, nodes: Any) -> None:
        self.nodes = np.empty((), object) if np.ndim(nodes) == 0 else np.asarray(nodes, object)
        if self.nodes.ndim == 0:
            self.nodes[()] = nodes[()] if isinstance(nodes, np.ndarray) else nodes

    @classmethod
    def variable(cls, name: str) -> Recorded:
        return cls(Node.of("variable", name))

    @property
    def node(self) -> Node:
        """The node of a single number."""
        return as_node(self.nodes.item())

    @property
    def shape(self) -> tuple[int, ...]:
        return self.nodes.shape

    @property
    def ndim(self) -> int:
        return self.nodes.ndim

    @property
    def size(self) -> int:
        return self.nodes.size

    @property
    def real(self) -> Recorded:
        return self._map(lambda value: value.real)

    @property
    def imag(self) -> Recorded:
        return self._map(lambda value: value.imag)

    def _map(self, part: Callable[[Any], Any]) -> Recorded:
        return Recorded(np.frompyfunc(part, 1, 1)(self.nodes))

    def reshape(self, *shape: Any) -> Recorded:
        return Recorded(self.nodes.reshape(*shape))

    def ravel(self) -> Recorded:
        return Recorded(self.nodes.ravel())

    def tolist(self) -> list[Any]:
        return list(self)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[Recorded]:
        return map(Recorded, self.nodes)

    def __getitem__(self, index: Any) -> Recorded:
        return self if isinstance(index, Recorded) else Recorded(self.nodes[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, Recorded):
            self.nodes = _where(index, value, self).nodes
        else:
            self.nodes[index] = _unwrap(value)

    def __bool__(self) -> bool:
        if not self.node.constant:
            raise TypeError("what is recorded depends on the numbers here")
        return bool(self.node.args[0])

    def __float__(self) -> float:
        if not self.node.constant:
            raise TypeError("a recorded number has no value")
        return float(self.node.args[0])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__":
            return NotImplemented
        operands = [_unwrap(value) for value in inputs]
        if ufunc is np.matmul:
            return Recorded(np.matmul(*(np.asarray(each, object) for each in operands)))
        record = np.frompyfunc(partial(apply, ufunc.__name__), len(inputs), 1)
        found = Recorded(record(*operands))
        for out in options.get("out", ()):  # an operation in place
            out[...] = found
            return out
        return found

    def __array_function__(self, function: Any, _: Any, args: Any, options: Any) -> Any:
        if function in _FUNCTIONS:
            return _FUNCTIONS[function](*args, **options)
        if function not in _SHAPES:
            raise TypeError(f"numpy.{function.__name__} is not recorded")
        options = {name: _unwrap(value) for name, value in options.items()}
        found = function(*(_unwrap(value) for value in args), **options)
        several = isinstance(found, (tuple, list))
        return [*map(Recorded, found)] if several else Recorded(found)


def _unwrap(value: Any) -> Any:
    """Object arrays of what is recorded, also within lists."""
    if isinstance(value, Recorded):
        return value.nodes
    if isinstance(value, (list, tuple)) and any(isinstance(v, Recorded) for v in value):
        return [_unwrap(v) for v in value]
    return value


_SHAPES = {
    np.broadcast_arrays,
    np.broadcast_to,
    np.concatenate,
    np.expand_dims,
    np.moveaxis,
    np.prod,
    np.ravel,
    np.reshape,
    np.squeeze,
    np.stack,
    np.sum,
    np.transpose,
}
"""Functions that NumPy has for arrays of any objects."""


def _where(condition: Any, yes: Any, no: Any) -> Recorded:
    return Recorded(np.frompyfunc(choose, 3, 1)(*map(_unwrap, (condition, yes, no))))


def _extreme(name: str) -> Callable[..., Recorded]:
    def reduce(values: Recorded, axis: int = -1) -> Recorded:
        # The mapping of NumPy from an axis to none.
        columns = np.moveaxis(values.nodes, axis, 0)
        found = columns[0]
        for column in columns[1:]:
            found = np.frompyfunc(partial(apply, name), 2, 1)(found, column)
        return Recorded(found)

    return reduce


def _sort(values: Recorded, axis: int = -1) -> Recorded:
    """Sort a few numbers by exchanges of neighbours."""
    rows = list(np.moveaxis(values.nodes, axis, 0).copy())
    for end in range(len(rows) - 1, 0, -1):
        for k in range(end):
            rows[k], rows[k + 1] = (
                np.frompyfunc(partial(apply, name), 2, 1)(rows[k], rows[k + 1])
                for name in ("minimum", "maximum")
            )
    return Recorded(np.moveaxis(np.stack(rows), 0, axis))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    # Where only some numbers need a treatment, all get it, and a choice follows.
    np.any: lambda *_, **__: True,
    np.all: lambda *_, **__: False,
    np.sort: _sort,
    np.max: _extreme("maximum"),
    np.min: _extreme("minimum"),
    np.ones_like: lambda values: np.ones(values.shape),
    np.zeros_like: lambda values, shape=None: Recorded(
        np.full(values.shape if shape is None else shape, as_node(0))
    ),
    np.clip: lambda values, low, high: np.minimum(np.maximum(values, low), high),
    np.ndim: lambda values: values.ndim,
    np.shape: lambda values: values.shape,
    np.isposinf: lambda values: values == np.inf,
}

_NUMBERS = itertools.count()


def _search(op: str, function: Callable[..., Any], points: Sequence[Any], args: Any) -> Recorded:
    """Record searches from points on for the first argument of a function, elementwise."""
    arrays = np.broadcast_arrays(*(np.asarray(_unwrap(v), object) for v in (*args, *points)))
    found = np.empty(arrays[0].shape, object)
    for place in np.ndindex(found.shape):
        each = [as_node(array[place]) for array in arrays]
        variable = Recorded.variable(f"u{next(_NUMBERS)}")
        body = function(variable, *map(Recorded, each[: len(args)]))
        inner = Node.of("function", variable.node, body.node)
        found[place] = Node.of(op, inner, *each[len(args) :])
    return Recorded(found)
