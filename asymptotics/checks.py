r"""Checks of the arguments of theory functions, with ranges and wording from `iclimit.notation`.

`checked` picks the number system, converts all named arguments, checks that each lies in the
range that the notation gives its name, and checks that their shapes broadcast.  Arguments go in
by name, and come back under the same names::

    math_, values = checked(tau=tau, alpha=alpha, ridge=ridge)
    return math_.sqrt(values.tau / values.alpha)

* ``systems="host"``: any numbers, but of arrays only NumPy's; ``systems="numpy"``: neither
  mpmath nor SymPy.
* ``ranges={"rho": "(0, inf)"}``: a range that is narrower than that of the notation, or that of
  a name outside it.
* ``optional=("test_rho",)``: arguments that may be None, and then stay None.
* ``sequences=("rates",)``: arguments that are a list of numbers; for arrays, along their last
  axis.  They come back as a list with one number or array for each step or layer.  Those named
  in ``may_be_empty`` may have none.
* ``single=True``: each argument must be one number.

A range is written as in the notation, ``"(0, 1]"``.  `check_range` checks one converted value,
`real_array` and `real_number` convert and check one argument that only takes NumPy's numbers,
`check_integers` is for sizes and orders that must be integers, `require_whole` for converted
ones, and `broadcast_shape` for arrays that did not come from `checked`.  `broadcast` and
`flattened` bring checked arrays to one shape.
"""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, Literal

import numpy as np

from iclimit.asymptotics.numbers import (
    ArrayMath,
    Namespace,
    Number,
    Value,
    convert,
    namespace,
    numpy_namespace,
    require,
)
from iclimit.checks import check_integers as check_integers
from iclimit.notation import PARAMETERS, Interval

Systems = Literal["every", "host", "numpy"]


class CheckedValues(SimpleNamespace):
    """Checked and converted arguments, as attributes under the names of the arguments.

    It is a plain namespace, and there is no class of fields for each function: so the names of the
    arguments stand in one place, the call of `checked`.  Fields would tell a type checker no more.
    Which number system a converted argument has depends on all arguments, which types cannot say,
    so that each attribute is a `Value`.  A name that was not checked raises an AttributeError.

    Examples
    --------
    >>> from iclimit.asymptotics.checks import checked
    >>> math_, values = checked(tau=2.0, alpha=[1, 4])
    >>> values.alpha / values.tau
    array([0.5, 2. ])
    """


def checked(
    *,
    systems: Systems = "every",
    ranges: Mapping[str, str] | None = None,
    optional: Sequence[str] = (),
    sequences: Sequence[str] = (),
    may_be_empty: Sequence[str] = (),
    single: bool = False,
    **arguments: Any,
) -> tuple[Namespace, CheckedValues]:
    """Number system of named arguments, and the arguments converted, under their names.

    Raises
    ------
    TypeError
        If an argument is not a number, an array of numbers or, in ``sequences``, a list of them,
        or is of a number system that the function does not take.
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    """
    given = {k: v for k, v in arguments.items() if v is not None or k not in optional}
    lists = {name: _items(name, given[name]) for name in sequences if name in given}
    math_ = _namespace("host" if lists and systems == "every" else systems, given, lists)
    values = dict[str, Any]()
    shapes = dict[str, Any]()
    for name, value in given.items():
        if name in lists and not isinstance(math_, ArrayMath):
            values[name] = [convert(math_, name, number) for number in lists[name]]
        elif name in lists:
            values[name] = [*np.moveaxis(convert(math_, name, value), -1, 0)]
        else:
            values[name] = convert(math_, name, value)
        if name in lists and not values[name]:
            if name not in may_be_empty:
                raise ValueError(f"{name} must not be empty")
            continue
        for number in values[name] if name in lists else [values[name]]:
            check_range(math_, name, number, (ranges or {}).get(name))
            if single and np.ndim(number):
                wanted = "a list of numbers" if name in lists else "one number"
                raise ValueError(f"{name} must be {wanted}, got {value!r}")
        last_axis = " without its last axis" if name in lists else ""
        shapes[name + last_axis] = values[name][0] if name in lists else values[name]
    broadcast_shape(shapes)
    left_out = dict.fromkeys(name for name in arguments if name not in given)
    return math_, CheckedValues(**values, **left_out)


def broadcast(values: CheckedValues) -> CheckedValues:
    """Numbers and arrays of `checked`, each as an array of their common shape.

    Those that are None stay None.
    """
    _, arrays = _broadcast_arrays(values)
    return CheckedValues(**vars(values) | arrays)


def flattened(values: CheckedValues) -> tuple[tuple[int, ...], CheckedValues]:
    """Common shape of the numbers and arrays of `checked`, and each of them as a flat array.

    Those that are None stay None.
    """
    shape, arrays = _broadcast_arrays(values)
    flat = {name: array.ravel() for name, array in arrays.items()}
    return shape, CheckedValues(**vars(values) | flat)


def _broadcast_arrays(values: CheckedValues) -> tuple[tuple[int, ...], dict[str, np.ndarray]]:
    """Common shape, and arrays of this shape by name, of those that are not None."""
    given = {name: value for name, value in vars(values).items() if value is not None}
    arrays = dict(zip(given, np.broadcast_arrays(*given.values()), strict=True))
    return np.broadcast_shapes(*(np.shape(value) for value in given.values())), arrays


def _items(name: str, value: Value) -> list[Any]:
    """Numbers of a list; they decide about the number system, those of an array do not."""
    if isinstance(value, (str, bytes)) or not (isinstance(value, Sequence) or np.ndim(value)):
        raise TypeError(f"{name} must be a sequence of numbers, got {value!r}")
    return list(value) if isinstance(value, Sequence) else np.ravel(value).tolist()


def _namespace(systems: Systems, given: dict[str, Any], lists: dict[str, list]) -> Namespace:
    if systems == "numpy":
        return numpy_namespace(given)
    scalars = {name: value for name, value in given.items() if name not in lists}
    numbers = {f"{name}_{k}": number for name in lists for k, number in enumerate(lists[name])}
    math_ = namespace(scalars | numbers)
    on_host = systems == "host" and isinstance(math_, ArrayMath)
    return numpy_namespace(given) if on_host else math_


def real_array(name: str, value: Number, allowed: str | None = None) -> np.ndarray:
    """Convert one argument to a NumPy array of real numbers in a range."""
    math_ = numpy_namespace({name: value})
    array: np.ndarray = convert(math_, name, value)
    check_range(math_, name, array, allowed)
    return array


def real_number(name: str, value: Number, allowed: str | None = None) -> float:
    """Convert one argument to one real number in a range."""
    number = real_array(name, value, allowed)
    if number.ndim:
        raise ValueError(f"{name} must be one number, got {value!r}")
    return float(number)


def check_range(math_: Namespace, name: str, value: Number, allowed: str | None = None) -> None:
    """Raise a ValueError unless a converted value lies in a range.

    The range is that of the notation unless ``allowed`` gives one, such as ``"(0, 1)"``.
    """
    interval = PARAMETERS[name].range if allowed is None else Interval.parse(allowed)
    if interval is not None:
        require(math_, name, value, lambda v: _inside(v, interval), str(interval))


def _inside(value: Value, interval: Interval) -> Value:
    above = value > interval.lower if interval.open_lower else value >= interval.lower
    if interval.upper == math.inf and not interval.open_upper:
        return above
    return above & (value < interval.upper if interval.open_upper else value <= interval.upper)


def check_derivative(derivative: object, most: int) -> None:
    """Raise a ValueError unless the order of a derivative is 0, 1 or, for most = 2, 2."""
    if type(derivative) is not int or derivative not in range(most + 1):
        orders = {1: "0 or 1", 2: "0, 1 or 2"}[most]
        raise ValueError(f"derivative must be {orders}, got {derivative!r}")


def require_whole(name: str, value: Any) -> None:
    """Raise a ValueError for a converted number, or one in an array, that is no integer."""
    fraction = np.ravel(value)[np.ravel(value) % 1 != 0]
    if fraction.size:
        raise ValueError(f"{name} must be an integer, got {fraction[0]:g}")


def broadcast_shape(arrays: Mapping[str, Any]) -> tuple[int, ...]:
    """Shape of named arrays broadcast; a ValueError names them if there is none."""
    shapes = [tuple(getattr(array, "shape", ())) for array in arrays.values()]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        names = ", ".join(arrays)
        given = ", ".join(map(str, shapes))
        raise ValueError(f"{names} must have shapes that broadcast, got {given}") from None
