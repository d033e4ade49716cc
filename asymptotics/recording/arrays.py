"""Arrays that record what the theory does with them.

A function of the theory that is called with `Recorded` arrays computes no numbers.  It leaves a
graph of the operations that NumPy would have done (`iclimit.asymptotics.recording.nodes`).  So a
formula is in the explorer and in kernels of a GPU as it is in Python, including its choices for
accuracy.

* Common subexpressions are shared, and constants are computed.
* Choices are recorded with both cases, as `numpy.where` evaluates them.  A mask as an index picks
  everything, and assigning to it is a choice: ``y[mask] = f(x[mask])`` is recorded as
  ``y = where(mask, f(x), y)``.
* Lists and loops of fixed length are unrolled.  Sums of many terms that differ by constants only,
  such as those of a quadrature rule, are recorded as one node with the function that is added up.
* What is found by iteration is recorded as one node with the function that is iterated
  (`iclimit.asymptotics.searches`).

What a recorded number cannot do is decide an ``if`` or the length of a loop: this is a TypeError.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from iclimit.asymptotics.numbers import ArrayMath
from iclimit.asymptotics.recording.nodes import Node, add_all, apply, as_node, choose

Function = Callable[..., Any]
Items = Sequence[Any]


class RecordingMath(ArrayMath):
    """Mathematics on recorded arrays: that of NumPy, which hands them the work.

    Arguments are not checked, and results may be NaN: this is left to who calls the JavaScript.
    """

    def __init__(self) -> None:
        super().__init__(np)

    def convert(self, value: object) -> Any:
        if isinstance(value, (list, tuple)):
            return np.stack([self.convert(entry) for entry in value])
        return value if isinstance(value, Recorded) else super().convert(value)

    def host(self, value: object) -> Any:
        return value

    def violates(self, value: object, allowed: Callable[[Any], Any]) -> Any:  # noqa: ARG002
        return None

    def finish(self, value: object) -> Any:
        return value

    def find_root(self, function: Function, bracket: Items, args: Items) -> Recorded:
        return _search("root", function, bracket, args)

    def find_root_above(self, function: Function, start: object, args: Items) -> Recorded:
        return _search("root_above", function, [start], args)

    def find_minimum(self, function: Function, points: Items, args: Items) -> tuple[Any, Any]:
        x = _search("least", function, points, args)
        return x, function(x, *args)

    def repeat_until_settled(
        self, step: Function, start: object, args: Items, most: int
    ) -> Recorded:
        return _search("repeat", step, [start, most], args)

    def count_until(self, step: Function, start: object, goal: object) -> Recorded:
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

    def reshape(self, *shape: int) -> Recorded:
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

    def __setitem__(self, index: Any, value: object) -> None:
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

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, out: Items = ()
    ) -> Any:
        if method != "__call__":
            return NotImplemented
        operands = [_unwrap(value) for value in inputs]
        if ufunc is np.matmul:
            return _matmul(*(np.asarray(operand, object) for operand in operands))
        record = np.frompyfunc(partial(apply, ufunc.__name__), len(inputs), 1)
        result = Recorded(record(*operands))
        for place in out:  # an operation in place
            place[...] = result
            return place
        return result

    def __array_function__(
        self, function: Function, _: object, args: Items, options: dict[str, Any]
    ) -> Any:
        if function in _FUNCTIONS:
            return _FUNCTIONS[function](*args, **options)
        if function not in _SHAPES:
            raise TypeError(f"numpy.{function.__name__} is not recorded")
        options = {name: _unwrap(value) for name, value in options.items()}
        result = function(*(_unwrap(value) for value in args), **options)
        several = isinstance(result, (tuple, list))
        return [*map(Recorded, result)] if several else Recorded(result)


def _unwrap(value: object) -> Any:
    """Object arrays of what is recorded, also within lists."""
    if isinstance(value, Recorded):
        return value.nodes
    if isinstance(value, (list, tuple)) and any(isinstance(v, Recorded) for v in value):
        return [_unwrap(v) for v in value]
    return value


# Functions that NumPy has for arrays of any objects.
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
    np.transpose,
}


def _where(condition: object, yes: object, no: object) -> Recorded:
    return Recorded(np.frompyfunc(choose, 3, 1)(*map(_unwrap, (condition, yes, no))))


def _sum(values: object, axis: int | None = None, keepdims: bool = False) -> Recorded:
    nodes = np.asarray(_unwrap(values), object)
    if axis is None:
        nodes = nodes.ravel()
        axis = 0
    sums = _added(nodes, axis)
    return Recorded(np.expand_dims(sums, axis) if keepdims else sums)


def _added(nodes: np.ndarray, axis: int) -> np.ndarray:
    columns = np.moveaxis(nodes, axis, -1)
    sums = np.empty(columns.shape[:-1], object)
    for place in np.ndindex(sums.shape):
        sums[place] = add_all(columns[place])
    return sums


def _matmul(first: np.ndarray, second: np.ndarray) -> Recorded:
    rows = first[None] if first.ndim == 1 else first
    columns = second[:, None] if second.ndim == 1 else second
    multiply = np.frompyfunc(partial(apply, "multiply"), 2, 1)
    products = _added(multiply(rows[..., None], columns[..., None, :, :]), axis=-2)
    products = products[..., 0] if second.ndim == 1 else products
    return Recorded(products[..., 0] if first.ndim == second.ndim == 1 else products)


def _extreme(name: str) -> Callable[..., Recorded]:
    def reduce(values: Recorded, axis: int = -1) -> Recorded:
        # The mapping of NumPy from an axis to none.
        columns = np.moveaxis(values.nodes, axis, 0)
        extreme = columns[0]
        for column in columns[1:]:
            extreme = np.frompyfunc(partial(apply, name), 2, 1)(extreme, column)
        return Recorded(extreme)

    return reduce


def _sort(values: Recorded, axis: int = -1) -> Recorded:
    """Sort a few numbers by exchanges of neighbours."""
    minimum = np.frompyfunc(partial(apply, "minimum"), 2, 1)
    maximum = np.frompyfunc(partial(apply, "maximum"), 2, 1)
    rows = list(np.moveaxis(values.nodes, axis, 0).copy())
    for end in range(len(rows) - 1, 0, -1):
        for k in range(end):
            smaller = minimum(rows[k], rows[k + 1])
            larger = maximum(rows[k], rows[k + 1])
            rows[k] = smaller
            rows[k + 1] = larger
    return Recorded(np.moveaxis(np.stack(rows), 0, axis))


_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    np.where: _where,
    # Where only some numbers need a treatment, all get it, and a choice follows.
    np.any: lambda *_, **__: True,
    np.all: lambda *_, **__: False,
    np.sort: _sort,
    np.sum: _sum,
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


def _search(op: str, function: Function, points: Items, args: Items) -> Recorded:
    """Record searches from points on for the first argument of a function, elementwise."""
    arrays = np.broadcast_arrays(*(np.asarray(_unwrap(v), object) for v in (*args, *points)))
    searches = np.empty(arrays[0].shape, object)
    for place in np.ndindex(searches.shape):
        operands = [as_node(array[place]) for array in arrays]
        variable = Recorded.variable(f"u{next(_NUMBERS)}")
        body = function(variable, *map(Recorded, operands[: len(args)]))
        inner = Node.of("function", variable.node, body.node)
        searches[place] = Node.of(op, inner, *operands[len(args) :])
    return Recorded(searches)
