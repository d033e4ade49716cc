"""Number systems: the small mathematical namespace in which every closed form is written.

A closed form is written once, with ordinary operators and the functions of the namespace that
`namespace` picks from its arguments:

* array API arrays (NumPy, CuPy, ...) and plain Python numbers: elementwise and broadcasting,
* mpmath numbers: any precision,
* SymPy expressions: exact.

A number of any other kind brings its own namespace, as an attribute ``number_system``: so the
interactive pages of `iclimit` record what is done with its numbers.

Two kinds of case distinction occur and must not be confused.  ``where`` distinguishes cases of
the mathematics (a SymPy `Piecewise` for symbols).  ``stable`` chooses between two algebraically
equal forms by their rounding errors; exact arithmetic takes the first.
"""

import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import array_api_compat
import numpy as np

from iclimit.checks import refuse_masked, shown

if TYPE_CHECKING:
    import mpmath
    import sympy

# Argument: a Python number, an array or a list of them, an mpmath number, a SymPy expression.
Number: TypeAlias = Union[float, np.ndarray, Sequence[float], "mpmath.mpf", "sympy.Expr"]

# Converted argument, or result: of the number system of the arguments, which types cannot say.
Value: TypeAlias = Any

Thunk = Callable[[], Any]


class ArrayMath:
    """Elementwise mathematics on float64 arrays of one array API namespace."""

    inf = math.inf
    pi = math.pi
    # Stands for zero where a limit is taken from above: its square root is far below rounding
    # error and its square, divided by the smallest quantities of the theory, does not underflow.
    tiny = 1e-80

    def __init__(self, xp: Any) -> None:
        self._xp = xp
        self.sqrt = xp.sqrt
        self.hypot = xp.hypot
        self.isinf = xp.isinf
        self.log = xp.log
        self.log1p = xp.log1p
        self.exp = xp.exp
        self.expm1 = xp.expm1
        self.atan = xp.atan

    def convert(self, value: Number) -> Value:
        return self._xp.asarray(value, dtype=self._xp.float64)

    def cos(self, value: Value) -> Value:
        return self._xp.cos(self.convert(value))

    def where(self, condition: Value, yes: Thunk, no: Thunk) -> Value:
        return self._xp.where(condition, self.convert(yes()), self.convert(no()))

    stable = where

    def all_of(self, *conditions: Value) -> Value:
        return reduce(self._xp.logical_and, conditions)

    def branch(self, condition: Value, cases: Callable[[Any], tuple]) -> tuple:
        """Evaluate cases(condition); for undecided symbols, a Piecewise of both cases."""
        return cases(condition)

    def divide(self, a: Value, b: Value) -> Value:
        return a / b

    def host(self, value: Value) -> np.ndarray:
        """Copy to NumPy, for what only SciPy can do."""
        if array_api_compat.is_cupy_array(value):
            value = array_api_compat.to_device(value, "cpu")
        return np.asarray(value)

    def violates(self, value: Value, allowed: Callable[[Any], Any]) -> Value:
        """Return the first element for which ``allowed`` is not true, or None."""
        wrong = self._xp.logical_not(allowed(value))
        if not bool(self._xp.any(wrong)):
            return None
        return float(self._xp.reshape(value[wrong] if wrong.ndim else value, (-1,))[0])

    def quiet(self) -> AbstractContextManager:
        """Discarded branches may divide by zero or overflow: no warning leaks."""
        return np.errstate(all="ignore")

    def finish(self, value: Value) -> Value:
        """Scalars in, scalar out, as for NumPy's ufuncs; never a silent NaN."""
        if bool(self._xp.any(self._xp.isnan(value))):
            raise ArithmeticError("arguments too extreme for float64: pass mpmath numbers")
        return value[()] if isinstance(value, np.ndarray) else value


class MpMath:
    """Scalar mathematics at mpmath's current precision."""

    def __init__(self) -> None:
        import mpmath

        self._mp = mpmath.mp

    def __getattr__(self, name: str) -> Value:
        """Functions and constants that mpmath has under the same name."""
        return getattr(self._mp, name)

    @property
    def tiny(self) -> Value:
        return self._mp.eps**4

    def convert(self, value: Number) -> Value:
        return self._mp.mpf(value)

    def where(self, condition: bool, yes: Thunk, no: Thunk) -> Value:
        return yes() if condition else no()

    stable = where

    def branch(self, condition: bool, cases: Callable[[bool], tuple]) -> tuple:
        return cases(condition)

    def all_of(self, *conditions: bool) -> bool:
        return all(conditions)

    def divide(self, a: Value, b: Value) -> Value:
        return a / b if b else self.inf

    def violates(self, value: Value, allowed: Callable[[Any], Any]) -> Value:
        return None if allowed(value) else value

    def quiet(self) -> AbstractContextManager:
        return nullcontext()

    def finish(self, value: Value) -> Value:
        return value


class SymPyMath:
    """Exact mathematics on SymPy expressions."""

    tiny = 0

    def __init__(self) -> None:
        import sympy

        self._sympy = sympy
        self.inf = sympy.oo
        self.pi = sympy.pi
        self.sqrt = sympy.sqrt
        self.log = sympy.log
        self.exp = sympy.exp
        self.cos = sympy.cos
        self.atan = sympy.atan

    def convert(self, value: Number) -> Value:
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        expression = self._sympy.sympify(value)
        if not isinstance(expression, self._sympy.Expr):
            raise TypeError
        return expression

    def hypot(self, a: Value, b: Value) -> Value:
        return self._sympy.sqrt(a**2 + b**2)

    def log1p(self, value: Value) -> Value:
        return self._sympy.log(1 + value)

    def expm1(self, value: Value) -> Value:
        return self._sympy.exp(value) - 1

    def isinf(self, value: Value) -> bool:
        return value.is_infinite is True

    def where(self, condition: Value, yes: Thunk, no: Thunk) -> Value:
        if condition in (True, False):
            return yes() if condition else no()
        return self._sympy.Piecewise((yes(), condition), (no(), True))

    def stable(self, condition: Value, yes: Thunk, no: Thunk) -> Value:  # noqa: ARG002
        return yes()

    def branch(self, condition: Value, cases: Callable[[bool], tuple]) -> tuple:
        if condition in (True, False):
            return cases(bool(condition))
        pairs = zip(cases(True), cases(False), strict=True)
        return tuple(self._sympy.Piecewise((yes, condition), (no, True)) for yes, no in pairs)

    def all_of(self, *conditions: Value) -> Value:
        return self._sympy.And(*conditions)

    def divide(self, a: Value, b: Value) -> Value:
        return self.inf if b == 0 else a / b

    def violates(self, value: Value, allowed: Callable[[Any], Any]) -> Value:
        try:
            return value if allowed(value) in (False, self._sympy.false) else None
        except TypeError:  # NaN and expressions known not to be real cannot be compared
            return value

    def quiet(self) -> AbstractContextManager:
        return nullcontext()

    def finish(self, value: Value) -> Value:
        if value is self._sympy.nan:
            raise ArithmeticError(
                "undetermined at these infinite SymPy arguments: take sympy.limit, or pass numbers"
            )
        return value


Namespace = ArrayMath | MpMath | SymPyMath


def _is_from(library: str, value: Number) -> bool:
    return library in sys.modules and type(value).__module__.split(".")[0] == library


def _number_system(values: Iterable[Any]) -> Value:
    """Number system that one of the numbers brings, or None."""
    return next((v.number_system for v in values if hasattr(v, "number_system")), None)


def namespace(arguments: Mapping[str, Number]) -> Namespace:
    """Pick the number system of the arguments.

    SymPy takes precedence over mpmath, and mpmath over plain numbers.  Arrays do not mix with
    either, since neither mpmath nor SymPy broadcasts.

    Raises
    ------
    TypeError
        If arrays meet mpmath numbers or SymPy expressions.
    """
    values = arguments.values()
    if brought := _number_system(values):
        return brought
    arrays: list[Any] = [v for v in values if array_api_compat.is_array_api_obj(v)]
    symbolic = any(_is_from("sympy", v) for v in values)
    multiprecision = any(_is_from("mpmath", v) for v in values)
    if symbolic or multiprecision:
        if any(array.ndim for array in arrays):
            raise TypeError(
                f"{', '.join(arguments)} must all be arrays or all scalars of one number system: "
                "mpmath numbers and SymPy expressions do not mix with arrays"
            )
        return SymPyMath() if symbolic else MpMath()
    foreign = [a for a in arrays if not isinstance(a, (np.ndarray, np.generic))]
    return ArrayMath(array_api_compat.array_namespace(*foreign) if foreign else np)


def _may_be_real(value: Value) -> bool:
    """Tell apart what conversion would accept in silence: strings, truth values, complex."""
    if array_api_compat.is_array_api_obj(value):
        xp = array_api_compat.array_namespace(value)
        return bool(xp.isdtype(value.dtype, ("integral", "real floating")))
    if isinstance(value, (list, tuple)):
        return np.asarray(value).dtype.kind in "iuf"
    return value is not None and not isinstance(value, (str, bytes, bool, complex))


def convert(math_: Namespace, name: str, value: Number) -> Value:
    """Convert one argument, naming it when it is not a real number or an array of them."""
    refuse_masked(name, value)
    try:
        if not _may_be_real(value):
            raise TypeError
        return math_.convert(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeError(f"{name} must be a real number or an array, got {shown(value)}") from error


def numpy_namespace(arguments: Mapping[str, Number]) -> ArrayMath:
    """Namespace of a function that only takes numbers and NumPy arrays.

    Raises
    ------
    TypeError
        If an argument belongs to another number system: its precision would be lost in silence.
    """
    if brought := _number_system(arguments.values()):
        return brought
    for name, value in arguments.items():
        refuse_masked(name, value)
        foreign = array_api_compat.is_array_api_obj(value) and not isinstance(
            value, (np.ndarray, np.generic)
        )
        if foreign or _is_from("sympy", value) or _is_from("mpmath", value):
            raise TypeError(f"{name} must be a number or a NumPy array, got {value!r}")
    return ArrayMath(np)


def require(
    math_: Namespace, name: str, value: Value, allowed: Callable[[Any], Any], description: str
) -> None:
    """Raise a ValueError naming the argument unless every element is allowed.

    Comparisons with NaN are false, so ``allowed`` rejects NaN without asking for it.
    """
    wrong = math_.violates(value, allowed)
    if wrong is not None:
        raise ValueError(f"{name} must be {description}, got {wrong}")
