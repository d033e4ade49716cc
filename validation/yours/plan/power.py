r"""What repeated runs can tell: power, significance, repeats and the least effect.

A contrast c is a combination of measured errors, such as the difference of two.  With R repeats
its standard error is :math:`s = \sqrt{V/R + F}`: V is the variance of one repeat, F that of the
predicted mean.  Predictions at finite size may be off by u, in any direction.

* *Two theories* predict values of c that differ by :math:`\delta`.  The wrong one is excluded if
  :math:`|c - c_0| > z s_0 + u`, at a significance of z standard errors, so the power is

  .. math:: \Phi\Bigl(\frac{|\delta| - u - z s_0}{s_1}\Bigr),

  the smaller of the two values that either theory gives as the true one.
* *Precision* :math:`\delta`: the probability that the mean is that close to what is measured is
  :math:`2\Phi((\delta - u)/s) - 1`.
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass

from scipy.special import ndtr, ndtri

# More repeats than this are never proposed.
MOST_REPEATS = 10**9


# From the repeats to the standard errors if the first or the second theory is true.
Errors = Callable[[float], tuple[float, float]]


def scatter(variances: tuple[float, float], floor: float = 0.0) -> Errors:
    """Standard errors for these variances of a repeat, and that of the predicted mean."""

    def errors(repeats: float) -> tuple[float, float]:
        first, second = variances
        return math.sqrt(first / repeats + floor), math.sqrt(second / repeats + floor)

    return errors


@dataclass(frozen=True)
class Contrast:
    r"""A combination of measured errors, and what it should tell (module docstring).

    Attributes
    ----------
    change : float
        What is to be noticed, :math:`|\delta|`, or the precision.
    doubt : float
        Largest systematic error of the prediction, u.
    errors : callable
        From the repeats to the standard errors if the first or the second theory is true.
    interval : bool
        Whether it is a precision.
    """

    change: float
    doubt: float
    errors: Errors
    interval: bool = False

    def power(self, repeats: float, significance: float) -> float:
        """Probability of the right answer with so many repeats."""
        first, second = self.errors(repeats)
        room = self.change - self.doubt
        if self.interval:
            return max(2 * float(ndtr(room / first)) - 1, 0.0)
        pairs = ((first, second), (second, first))
        return min(float(ndtr((room - significance * s0) / s1)) for s1, s0 in pairs)

    def significance(self, repeats: float, power: float) -> float:
        """Standard errors at which the wrong theory is excluded with this probability."""
        first, second = self.errors(repeats)
        room, z = self.change - self.doubt, float(ndtri(power))
        return min((room - z * s1) / s0 for s1, s0 in ((first, second), (second, first)))

    def least_repeats(self, significance: float, power: float) -> int | None:
        """Fewest repeats with this power; None if no number of repeats has it."""
        repeats = 1 + bisect_left(
            range(1, MOST_REPEATS), True, key=lambda n: self.power(n, significance) >= power
        )
        return repeats if repeats < MOST_REPEATS else None
