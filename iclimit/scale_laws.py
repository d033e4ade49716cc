r"""Laws of the scale of elliptical inputs: :math:`x = \sqrt u\, z` with Gaussian z.

The scale u has mean 1 and is drawn for every token, the query included.  A law is data: a name
with a number, or points with their probabilities.  There is no mathematics here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from iclimit.checks import shown

# A law as users give it: ("student", degrees of freedom), or (points, probabilities).
ScaleLawLike: TypeAlias = (
    "str | tuple[str, float] | tuple[tuple[float, ...], tuple[float, ...]] | ScaleLaw"
)

# Degrees of freedom up to which the mean of u^2 is infinite.
HEAVIEST = 4.0

# Deviation of the sum of probabilities from 1 that is rounding.
_ROUNDING = 1e-9

_ALLOWED = (
    "('student', df) or 'student:df' with df > 4, or (points, probabilities) of positive numbers"
)


@dataclass(frozen=True)
class ScaleLaw:
    """A law of the scale that was read.

    Attributes
    ----------
    degrees : float
        Degrees of freedom of Student's law; inf for points.
    points, probabilities : tuple of float
        Values of u, of mean 1, and their probabilities; empty for Student's law.
    """

    degrees: float = math.inf
    points: tuple[float, ...] = ()
    probabilities: tuple[float, ...] = ()

    @property
    def stored(self) -> Any:
        """The law in its one form."""
        return (self.points, self.probabilities) if self.points else ("student", self.degrees)


def parse_scale_law(scale_law: Any) -> ScaleLaw:
    """Read a law of the scale; points are divided by their mean.

    Raises
    ------
    ValueError
        If it is none, or its contexts say nothing: Student's law of 4 or fewer degrees.

    Examples
    --------
    >>> from iclimit.scale_laws import parse_scale_law
    >>> parse_scale_law(((1.0, 7.0), (0.5, 0.5))).points
    (0.25, 1.75)
    """
    if isinstance(scale_law, ScaleLaw):
        return scale_law
    if isinstance(scale_law, str):  # of the command line
        scale_law = scale_law.split(":")
    if not isinstance(scale_law, (tuple, list)) or len(scale_law) != 2:
        raise _wrong(scale_law)
    if scale_law[0] == "student":
        return ScaleLaw(degrees=_degrees(scale_law[1]))
    try:
        points = [float(point) for point in scale_law[0]]
        probabilities = [float(probability) for probability in scale_law[1]]
    except (TypeError, ValueError):
        raise _wrong(scale_law) from None
    positive = all(0 < number < math.inf for number in (*points, *probabilities))
    paired = len(points) == len(probabilities) > 0
    if not (positive and paired) or abs(math.fsum(probabilities) - 1) > _ROUNDING:
        raise _wrong(scale_law)
    mean = math.fsum(map(float.__mul__, points, probabilities))
    if abs(mean - 1) <= _ROUNDING:  # a law that was read before stays as it is
        mean = 1.0
    return ScaleLaw(points=tuple(u / mean for u in points), probabilities=tuple(probabilities))


def _wrong(scale_law: object) -> ValueError:
    return ValueError(f"scale_law must be {_ALLOWED}, got {shown(scale_law)}")


def _degrees(value: Any) -> float:
    try:
        degrees = float(value)
    except (TypeError, ValueError):
        raise _wrong(("student", value)) from None
    if math.isinf(degrees) or math.isnan(degrees) or degrees <= 0:
        raise _wrong(("student", value))
    if not degrees > HEAVIEST:
        raise ValueError(
            f"scale_law must be Student's with more than {HEAVIEST:g} degrees of freedom, got "
            f"{value!r}: E u^2 is infinite, so that contexts say nothing without normalisation"
        )
    return degrees
