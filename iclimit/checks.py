"""Argument checks of the simulation functions, of `Problem` and of what is the user's own.

`check_arguments` reads ranges and wording from the notation.  The other checks are for values that
are no rows of it.
"""

import math
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from functools import lru_cache, partial
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from iclimit.notation import PARAMETERS, Interval, did_you_mean

# Source of random numbers.
Seed: TypeAlias = int | np.random.SeedSequence | np.random.Generator

# Asymmetry and negative eigenvalues of a covariance relative to its largest entry, times d, that
# are rounding.
ROUNDING = 1e-12


# Most choices that a message lists, and those that it has of more.
MOST_LISTED = 25
FEW_LISTED = 3

# Largest integer of a run: that of the numbers that arrays count with.
LARGEST_INTEGER = 2**63 - 1


def shown(value: object, width: int | None = None) -> str:
    """A value in a message, cut to a width; of an integer too long to be printed the size."""
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:
        sign = "-" if value < 0 else ""
        return f"{sign}10^{math.log10(2) * value.bit_length():.0f}"
    try:
        text = repr(value)
    except ValueError:  # has such an integer in it
        return f"a {type(value).__name__} with a long integer"
    return text if width is None or len(text) <= width else f"{text[: width - 3]}..."


def _check_size(name: str, value: Any, *, integer: bool) -> None:
    """Raise a ValueError for an integer that floats cannot stand for, or that is none of a run."""
    if not isinstance(value, Integral):
        return
    largest = LARGEST_INTEGER if integer else sys.float_info.max
    if abs(int(value)) > largest:
        raise ValueError(f"{name} must be at most {largest:g}, got {shown(value)}")


def check_each(check: Callable[[str, Any], None], /, **values: Any) -> None:
    """Check all values by name, with a check of one of them."""
    for name, value in values.items():
        check(name, value)


def check_arguments(**values: Any) -> None:
    """Raise a ValueError unless every number is in the range that the notation gives its name."""
    check_each(_check_argument, **values)


def _check_argument(name: str, value: Any) -> None:
    parameter = PARAMETERS[name]
    fits = isinstance(value, (Integral, float, np.floating)) and not isinstance(value, bool)
    if fits and parameter.integer:
        fits = isinstance(value, Integral) or math.isinf(value)
    if not fits or parameter.range is None or value not in parameter.range:
        raise ValueError(f"{name} must be {parameter.allowed}, got {shown(value)}")
    _check_size(name, value, integer=parameter.integer)


def given(values: Mapping[str, object]) -> dict[str, Any]:
    """Return the arguments that are not None, to check those or to replace defaults by them."""
    return {name: value for name, value in values.items() if value is not None}


def by_name(**values: Any) -> dict[str, Any]:
    """Return the arguments by name, in this order, as results and checkpoints record them."""
    return dict(**values)


def check_integers(least: int | None = None, **values: Any) -> None:
    """Raise a ValueError unless all are integers in the range that the notation gives them.

    A lower end ``least`` replaces that of the notation; it is 1 for names without a range.
    """
    check_each(partial(_check_integer, least), **values)


def _check_integer(least: int | None, name: str, value: Any) -> None:
    known = PARAMETERS.get(name)
    interval = known.range if known else None
    if least is not None or interval is None:
        lower = 1 if least is None else least
        interval = replace(interval or Interval.parse("[1, inf)"), lower=lower)
        allowed = f"an integer >= {lower}"
    else:
        allowed = PARAMETERS[name].allowed
    number = isinstance(value, Integral) and not isinstance(value, bool)
    number = number or (isinstance(value, float) and value == math.inf)
    if not number or value not in interval:
        raise ValueError(f"{name} must be {allowed}, got {shown(value)}")
    _check_size(name, value, integer=True)


def check_positive(name: str, value: object) -> None:
    """Raise a ValueError unless a value is a finite number > 0."""
    _check_number(name, value, lambda number: 0 < number < math.inf, "a number > 0 and finite")


def check_finite(name: str, value: object) -> None:
    """Raise a ValueError unless a value is a finite number."""
    _check_number(name, value, math.isfinite, "a finite number")


def _check_number(name: str, value: Any, fits: Callable[[Any], bool], allowed: str) -> None:
    number = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if number:
        _check_size(name, value, integer=False)
    if not number or not fits(value):
        raise ValueError(f"{name} must be {allowed}, got {shown(value)}")


def check_flag(name: str, value: object) -> None:
    """Raise a TypeError unless a value is True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {shown(value)}")


def check_fields(model: Any) -> None:
    """Check numbers and flags of a dataclass by the notation; None may stand where it is usual.

    Fields with a text as their default are left to the class.
    """
    for field in fields(model):
        value = getattr(model, field.name)
        if isinstance(field.default, bool):
            check_flag(field.name, value)
        elif not isinstance(field.default, str) and not (value is None and field.default is None):
            check_arguments(**{field.name: value})


def check_choice(name: str, value: object, choices: Collection[str]) -> None:
    """Raise a ValueError unless value is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        meant = did_you_mean(str(value), choices)
        names = [*choices]
        if len(names) > MOST_LISTED:
            names = [*names[:FEW_LISTED], f"... ({len(names)} names)"]
        raise ValueError(f"{name} must be one of {', '.join(names)}, got {shown(value)}{meant}")


def check_memory(name: str, value: int, size: float, free: int) -> None:
    """Raise a ValueError if what an argument asks for takes more bytes than are free."""
    if size > free:
        raise ValueError(
            f"{name} must be so small that they fit into memory, got {value}: they take "
            f"{size / 1e9:.3g} GB, and {free / 1e9:.3g} GB are free"
        )


def check_shape(name: str, array: ArrayLike, *shapes: tuple[int | None, ...]) -> None:
    """Raise a ValueError unless the array has one of the shapes; None stands for any size >= 1."""
    actual = np.shape(array)

    def fits(shape: tuple[int | None, ...]) -> bool:
        pairs = zip(actual, shape, strict=True)
        return all(size >= 1 if wanted is None else size == wanted for size, wanted in pairs)

    if not any(len(actual) == len(shape) and fits(shape) for shape in shapes):
        wanted = " or ".join(map(str, shapes)).replace("None", "any")
        raise ValueError(f"{name} must have shape {wanted}, got {actual}")


def refuse_masked(name: str, value: object) -> None:
    """Raise a ValueError if entries of an array, or of arrays in a list, are masked.

    Conversion would drop the mask and take what is below it for a value.
    """
    if any(map(np.ma.is_masked, value if isinstance(value, (list, tuple)) else [value])):
        raise ValueError(f"{name} must have no masked entries: drop them or fill them before")


def parse_array(name: str, value: object, *shapes: tuple[int | None, ...]) -> np.ndarray:
    """Return a finite array of one of the shapes; None stands for any size >= 1."""
    refuse_masked(name, value)
    try:
        array = np.asarray(value)
        if array.dtype == bool:
            raise TypeError
        array = array.astype(float, casting="same_kind", copy=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be an array of real numbers, got {shown(value)}") from error
    check_shape(name, array, *shapes)
    if not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got NaN or inf among its entries")
    return array


def parse_kernel(name: str, value: object, tokens: int) -> np.ndarray:
    """Correlations of tokens at distances 0, 1, ..., of which there are so many.

    A number is that of neighbours in a first-order autoregression; a list begins with 1, and where
    it ends correlations are 0.
    """
    if np.ndim(value) == 0:  # type: ignore[arg-type]
        check_arguments(**{name: value})
        return np.asarray(float(value) ** np.arange(tokens))  # type: ignore[arg-type]
    given = parse_array(name, value, (None,))
    if given[0] != 1:
        shown = str(given[:4].tolist())
        if len(given) > 4:
            shown += " and more"
        raise ValueError(
            f"{name} must be a number or begin with 1, that of a token with itself, got {shown}"
        )
    if np.any(np.abs(given) > 1):
        raise ValueError(f"{name} must be from -1 to 1, got {given[np.argmax(np.abs(given))]}")
    kernel = np.zeros(tokens)
    kernel[: len(given)] = given[:tokens]
    if (least := _least_eigenvalue(tuple(kernel.tolist()))) < -ROUNDING * tokens:
        raise ValueError(
            f"{name} must have no negative eigenvalue over {tokens} tokens, got {least:.3g}; "
            "correlations are 0 beyond those given"
        )
    return kernel


def check_kernel(name: str, value: object, tokens: int) -> None:
    """Check what `parse_kernel` parses, of a number without an array of so many tokens."""
    if np.ndim(value) == 0:  # type: ignore[arg-type]
        check_arguments(**{name: value})
    else:
        parse_kernel(name, value, tokens)


@lru_cache(maxsize=16)
def _least_eigenvalue(kernel: tuple[float, ...]) -> float:
    """The least eigenvalue of a stationary kernel, kept since a problem is often copied."""
    distances = np.arange(len(kernel))
    matrix = np.array(kernel)[np.abs(distances[:, None] - distances)]
    return float(np.linalg.eigvalsh(matrix)[0])


def parse_tasks(tasks: Any, dim: int) -> tuple[float, np.ndarray | None]:
    """Number of tasks, and the task vectors as an array if they are given."""
    if np.ndim(tasks) == 0:
        check_arguments(tasks=tasks)
        return tasks, None
    fixed = parse_array("tasks", tasks, (None, dim))
    return len(fixed), fixed


def parse_gates(name: str, gates: ArrayLike | None, context: int) -> np.ndarray | None:
    """Weights of the pairs of a context as an array; None stands for equal ones."""
    if gates is None:
        return None
    weights = parse_array(name, gates, (context,))
    for gate in (weights.min(), weights.max()):
        check_arguments(gates=float(gate))
    return weights


def parse_covariance(name: str, value: object, dim: int) -> np.ndarray:
    """Return a covariance as an array: a matrix (d, d), or eigenvalues (d,) if it is diagonal."""
    covariance = parse_array(name, value, (dim,), (dim, dim))
    if covariance.ndim == 1:
        eigenvalues = covariance
        rounding = 0.0
    else:
        rounding = ROUNDING * dim * float(np.max(np.abs(covariance)))
        asymmetry = float(np.max(np.abs(covariance - covariance.T)))
        if asymmetry > rounding:
            raise ValueError(
                f"{name} must be symmetric, got entries that differ by {asymmetry:.3g} from those "
                "of its transpose"
            )
        eigenvalues = np.linalg.eigvalsh(covariance)
    least = float(np.min(eigenvalues))
    if least < -rounding:
        raise ValueError(f"{name} must have eigenvalues >= 0, got {least:.3g}")
    return covariance
