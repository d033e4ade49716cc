r"""Links: labels that are a function of the linear one.

With a link g labels are :math:`y = g(z) + \epsilon`, where :math:`z = \langle w, x\rangle` has
variance 1.  A link is data: a name, a name with a number, or two moments.  A function of the
user's own works wherever nothing is stored.  There is no mathematics here: the theory has the
moments of links (`iclimit.asymptotics.pretraining.labels`), the simulator their values
(`iclimit.simulate.prompts.links`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from iclimit.checks import check_choice, shown

# A link as users give it: a name, a name with a number, (g1, second moment), or a function.
LinkLike: TypeAlias = "str | tuple[str, float] | tuple[float, float] | Link | Callable[[Any], Any]"

# Links by name, and those that take a number which z is multiplied by.
NAMES = ("identity", "sign", "relu", "cube", "tanh", "sin")
SCALED = ("sin", "tanh")

# Links that are odd, so that labels have mean 0 at every input.
ODD = ("identity", "sign", "cube", "tanh", "sin")

_ALLOWED = (
    f"one of {', '.join(NAMES)}; a name with a number, such as ('sin', 3.0); two moments "
    "(E z g(z), E g(z)^2); or a function"
)


@dataclass(frozen=True)
class Link:
    """A link that was read.

    Attributes
    ----------
    name : str
        One of `NAMES`, "moments" or "function".
    slope : float
        Number that z is multiplied by.
    moments : (float, float), optional
        E z g(z) and E g(z)^2, where nothing else is known.
    function : callable, optional
        Of the user.
    """

    name: str
    slope: float = 1.0
    moments: tuple[float, float] | None = None
    function: Callable[[Any], Any] | None = None

    @property
    def is_identity(self) -> bool:
        """Whether labels are linear."""
        return self.name == "identity"


def parse_link(link: Any) -> Link:
    """Read a link.

    Parameters
    ----------
    link : str, (str, float), (float, float) or callable
        As in `LinkLike`; text may also be "sin:3".

    Raises
    ------
    ValueError
        If it is none of these.

    Examples
    --------
    >>> from iclimit.links import parse_link
    >>> parse_link(("sin", 3.0))
    Link(name='sin', slope=3.0, moments=None, function=None)
    """
    if isinstance(link, Link):
        return link
    if callable(link):
        return Link("function", function=link)
    if isinstance(link, str):
        name, colon, number = link.partition(":")
        return _scaled(name, _number(number, link)) if colon else _named(name)
    if isinstance(link, (tuple, list)) and len(link) == 2:
        if isinstance(link[0], str):
            return _scaled(link[0], _number(link[1], link))
        return _of_moments(_number(link[0], link), _number(link[1], link))
    raise _wrong(link)


def link_text(link: Any) -> str:
    """A link in words, as tables and messages have it."""
    own = parse_link(link)
    if own.moments is not None:
        return f"moments {own.moments[0]:g}, {own.moments[1]:g}"
    return own.name if own.slope == 1 else f"{own.name}:{own.slope:g}"


def stored_link(link: Any) -> Any:
    """A link in its one form: text, or a pair of numbers; functions stay as they are."""
    own = parse_link(link)
    if own.function is not None:
        return own.function
    if own.moments is not None:
        return own.moments
    return own.name if own.slope == 1 else (own.name, own.slope)


def _wrong(link: object) -> ValueError:
    return ValueError(f"link must be {_ALLOWED}, got {shown(link)}")


def check_link_values(values: Any, shape: tuple[int, ...]) -> None:
    """Check what a user's function returned for an array of this shape.

    Raises
    ------
    TypeError
        If these are no real numbers.
    ValueError
        If they are not one for each number of the argument.
    """
    array = values if hasattr(values, "dtype") else np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"link must return real numbers, got {array.dtype}: {shown(values)}")
    if array.shape != shape:
        raise ValueError(
            f"link must return an array of the shape of its argument, {shape}, got {array.shape}"
        )


def _number(value: Any, link: object) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        raise _wrong(link) from None
    if not math.isfinite(number):
        raise _wrong(link)
    return number


def _named(name: str) -> Link:
    check_choice("link", name, NAMES)
    return Link(name)


def _scaled(name: str, slope: float) -> Link:
    check_choice("link", name, NAMES)
    if name not in SCALED or slope <= 0:
        raise ValueError(
            f"link must have a number > 0 for {' or '.join(SCALED)} only, got {name!r} with "
            f"{slope}"
        )
    return Link(name, slope)


def _of_moments(first: float, second: float) -> Link:
    if not first**2 <= second:
        raise ValueError(
            "link must have a second moment of at least the square of the first, got "
            f"{(first, second)}"
        )
    return Link("moments", moments=(first, second))
