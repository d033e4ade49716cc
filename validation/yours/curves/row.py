"""One number that was found in training curves, beside the theory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from scipy.optimize import brentq
from scipy.special import gammainc, gammaincc, ndtri, polygamma

from iclimit.statistics import z_score

NORMAL, LARGEST = 0.02, 1.99
"""Smallest skewness that is taken into account, and the largest that such a variable can have."""

SMALLEST = 1e-300
"""Smallest probability, and smallest loss, that is told from zero."""


@dataclass(frozen=True)
class CurveRow:
    """One number that was found in the curves, beside the theory.

    Attributes
    ----------
    quantity : str
        "initial loss", "plateau", "final loss", "half-drop" or "duration".
    learned : int
        Directions that are learned there; for a drop, after it.
    found, theory : float
        Mean over the curves (of steps and times the geometric one), and prediction.
    spread : float
        Relative standard deviation over the curves; NaN for one.
    standard_error : float
        Relative, of the mean over the curves: what is random about curves, as theory has it, and
        the noise of the records.
    allowance : float
        Relative error of theory and of recording that is not random.
    skewness : float
        Of the mean over the curves.
    at_least : bool
        Whether the number is a lower bound, as some curves end before the drop.
    curves : int
        Number of curves.
    """

    quantity: str
    learned: int
    found: float
    theory: float
    spread: float
    standard_error: float
    allowance: float
    skewness: float = 0.0
    at_least: bool = False
    curves: int = 1

    @property
    def deviation(self) -> float:
        """Relative deviation from the theory."""
        return self.found / self.theory - 1

    @property
    def z(self) -> float:
        """Deviation of the logarithm beyond the allowance in standard errors, as a normal deviate.

        Infinite for a deviation without a random part.
        """
        if self.found <= 0:
            return -math.inf
        log = math.log(self.found / self.theory)
        z = z_score(log, 0.0, self.standard_error, self.allowance)
        return skewed_deviate(max(z, 0.0) if self.at_least else z, self.skewness)

    def to_dict(self) -> dict[str, Any]:
        """Numbers by name, as they are written to files."""
        names = ("quantity", "learned", "found", "theory")
        more = ("spread", "standard_error", "allowance", "at_least", "curves")
        row = {name: getattr(self, name) for name in names}
        row |= {"deviation": self.deviation, "z": self.z}
        row |= {name: getattr(self, name) for name in more}
        return row | {"spread": self.spread if self.curves > 1 else None}


def skewed_deviate(x: float, skewness: float) -> float:
    """Normal deviate of the same probability as a standardised variable of this skewness.

    The variable is taken to be minus the logarithm of a gamma variable, as are times of merged
    attention; its shape is found from the skewness, which is then exact.
    """
    if skewness < 0:
        return -skewed_deviate(-x, -skewness)
    if skewness < NORMAL or x == 0 or math.isinf(x):
        return x
    shape = _gamma_shape(min(skewness, LARGEST))
    log = float(polygamma(0, shape)) - x * math.sqrt(float(polygamma(1, shape)))
    value = math.exp(min(log, 700.0))
    if x > 0:
        return -float(ndtri(max(gammainc(shape, value), SMALLEST)))
    return float(ndtri(max(gammaincc(shape, value), SMALLEST)))


@lru_cache(maxsize=64)
def _gamma_shape(skewness: float) -> float:
    """Shape of the gamma variable, minus the logarithm of which has this skewness."""

    def excess(log_shape: float) -> float:
        shape = math.exp(log_shape)
        return float(-polygamma(2, shape) / polygamma(1, shape) ** 1.5) - skewness

    return math.exp(brentq(excess, -7.0, 10.0))
