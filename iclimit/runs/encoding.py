"""Results as text: what cells return, written so that it reads back bit for bit.

The text is strict JSON.  What JSON lacks is written as an object with a ``type``: tuples, dicts
with any keys, numbers that are not finite, complex numbers, NumPy scalars and arrays (base64 of
little-endian bytes), and dataclasses of this package by module and name.  Reading imports modules
of this package only and calls nothing in them, so that a file from elsewhere cannot run code.
"""

import base64
import dataclasses
import json
import math
import pkgutil
from typing import Any

import numpy as np

_PACKAGE = __name__.partition(".")[0]
# Kinds of array entries that are numbers or text.
_KINDS = "biufcU"


def encode(result: object) -> str:
    """Write a result as text.

    Parameters
    ----------
    result : object
        None, a bool, int, float, complex or str, a NumPy scalar or array of these, a list, tuple
        or dict of such, or a dataclass of iclimit with such fields.

    Returns
    -------
    str
        Strict JSON in ASCII.

    Raises
    ------
    TypeError
        If something in the result is of another type.

    Examples
    --------
    >>> from iclimit.runs.encoding import decode, encode
    >>> encode([1, 0.1, float("inf")])
    '[1,0.1,{"type":"float","value":"inf"}]'
    >>> decode(encode((1.5, {("a", 2): None})))
    (1.5, {('a', 2): None})
    """
    return json.dumps(_encoded(result), separators=(",", ":"), allow_nan=False)


def decode(text: str) -> Any:
    """Read a result from the text that `encode` wrote.

    Parameters
    ----------
    text : str

    Returns
    -------
    object
        The result: equal bit for bit, of the same types; arrays are writable.

    Raises
    ------
    ValueError
        If the text is not such a result, or needs a class that iclimit does not have (any more).

    Examples
    --------
    >>> from iclimit.runs.encoding import decode
    >>> decode('{"type":"tuple","items":[1,2]}')
    (1, 2)
    """
    try:
        return _decoded(json.loads(text))
    except Exception as error:  # whatever is wrong with the text
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"text must be a result encoded by iclimit, got {reason}") from error


def _encoded(value: Any) -> Any:
    # Exact types: a subclass, such as a named tuple or an enum, would not read back as itself.
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return value
    if kind is float:
        return value if math.isfinite(value) else {"type": "float", "value": str(value)}
    if kind is complex:
        return {"type": "complex", "parts": [_encoded(value.real), _encoded(value.imag)]}
    if kind is list:
        return [_encoded(entry) for entry in value]
    if kind is tuple:
        return {"type": "tuple", "items": [_encoded(entry) for entry in value]}
    if kind is dict:
        items = [[_encoded(key), _encoded(entry)] for key, entry in value.items()]
        return {"type": "dict", "items": items}
    if isinstance(value, np.generic) and value.dtype.kind in _KINDS:
        return {"type": "scalar", **_data(np.asarray(value))}
    if kind is np.ndarray and value.dtype.kind in _KINDS:
        # The order in memory decides the order of sums, and so their last bits.
        order = "F" if value.flags.f_contiguous and not value.flags.c_contiguous else "C"
        return {"type": "array", "shape": list(value.shape), "order": order, **_data(value, order)}
    if _is_ours(kind):
        return _encoded_dataclass(value)
    inside = f" of dtype {value.dtype}" if isinstance(value, (np.ndarray, np.generic)) else ""
    raise TypeError(
        "result must be made of numbers, strings, None, lists, tuples, dicts, NumPy arrays and "
        f"dataclasses of {_PACKAGE}, got {kind.__module__}.{kind.__qualname__}{inside}"
    )


def _encoded_dataclass(value: Any) -> dict[str, Any]:
    kind = type(value)
    names = (field.name for field in dataclasses.fields(value))
    fields = {name: _encoded(getattr(value, name)) for name in names}
    place = {"module": kind.__module__, "name": kind.__qualname__}
    return {"type": "dataclass", **place, "fields": fields}


def _data(array: np.ndarray, order: Any = "C") -> dict[str, str]:
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    data = base64.b64encode(little.tobytes(order)).decode("ascii")
    return {"dtype": little.dtype.str, "data": data}


def _is_ours(kind: type) -> bool:
    ours = kind.__module__.partition(".")[0] == _PACKAGE
    return ours and dataclasses.is_dataclass(kind) and "<" not in kind.__qualname__


def _decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(entry) for entry in value]
    return _DECODERS[value["type"]](value) if isinstance(value, dict) else value


def _array(value: dict[str, Any]) -> np.ndarray:
    dtype = np.dtype(value["dtype"])
    if dtype.kind not in _KINDS or not dtype.itemsize:  # NumPy would enlarge empty entries
        raise ValueError(f"entries of type {dtype}")
    shape = tuple(value["shape"])
    data = base64.b64decode(value["data"], validate=True)
    if len(data) != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{len(data)} bytes for shape {shape} of {dtype}")
    return np.ndarray(shape, dtype, data, order=value["order"]).copy(order="K")


def _dataclass(value: dict[str, Any]) -> Any:
    module = value["module"]
    name = value["name"]
    if module.partition(".")[0] != _PACKAGE:
        raise ValueError(f"a class outside {_PACKAGE}, {module}.{name}")
    kind: Any = pkgutil.resolve_name(f"{module}:{name}")
    if not (isinstance(kind, type) and _is_ours(kind) and kind.__qualname__ == name):
        raise ValueError(f"{module}.{name}, which is no dataclass")
    fields = {key: _decoded(content) for key, content in value["fields"].items()}
    if fields.keys() != {field.name for field in dataclasses.fields(kind)}:
        raise ValueError(f"other fields than {module}.{name} has, {', '.join(fields)}")
    result: Any = object.__new__(kind)
    for key, content in fields.items():
        object.__setattr__(result, key, content)
    return result


_DECODERS = {
    "float": lambda value: float(value["value"]),
    "complex": lambda value: complex(*map(_decoded, value["parts"])),
    "tuple": lambda value: tuple(map(_decoded, value["items"])),
    "dict": lambda value: {_decoded(key): _decoded(entry) for key, entry in value["items"]},
    "scalar": lambda value: _array({**value, "shape": (), "order": "C"})[()],
    "array": _array,
    "dataclass": _dataclass,
}
