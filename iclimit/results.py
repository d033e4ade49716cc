"""Results that every room shares: a simulated mean or median with its standard error."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

NEVER = 1e-12
"""Probability below which a sample counts as never being the median of samples that are drawn with
replacement."""


@dataclass(frozen=True)
class Estimate:
    """Mean of independent samples, or their median, with its standard error.

    Attributes
    ----------
    mean : float
        Mean over the samples, or their median.
    standard_error : float
        Its standard error; ``inf`` if it is unknown, as for a single or an infinite sample.
    repeats : int
        Number of independent samples.
    samples : ndarray (repeats,)
        The samples; empty where they are not kept.

    Examples
    --------
    >>> from iclimit.results import Estimate
    >>> estimate = Estimate.of([1.26, 1.29, 1.30])
    >>> print(estimate)
    1.283(12)
    >>> round(estimate.z(1.30), 2)
    -1.39
    """

    mean: float
    standard_error: float
    repeats: int
    samples: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    @classmethod
    def of(cls, samples: object, *, keep: bool = True) -> Estimate:
        """Estimate from independent samples, which it keeps unless told otherwise."""
        array = np.asarray(samples, dtype=float)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"samples must have shape (repeats,), got {array.shape}")
        count = len(array)
        with np.errstate(over="ignore"):
            mean = float(np.mean(array))
            known = count > 1 and math.isfinite(mean)
            error = float(np.std(array, ddof=1) / math.sqrt(count)) if known else math.inf
        return cls(mean, error, count, array if keep else np.empty(0))

    @classmethod
    def of_median(cls, samples: object) -> Estimate:
        """Median of independent samples, with the standard error of Maritz and Jarrett.

        That is the standard deviation of medians of samples drawn with replacement, in closed
        form.  Rare samples without bound do not affect it.
        """
        from scipy.special import betainc  # loads for a tenth of a second

        mean = cls.of(samples)
        count, ordered = mean.repeats, np.sort(mean.samples)
        if count < 3:
            return mean  # the same
        ends = np.arange(count + 1) / count
        shares = np.diff(betainc((count + 1) / 2, (count + 1) / 2, ends))
        seen = shares > NEVER
        center = float(np.median(ordered))
        with np.errstate(invalid="ignore"):
            variance = float(shares[seen] @ (ordered[seen] - shares[seen] @ ordered[seen]) ** 2)
        error = math.sqrt(variance) if math.isfinite(variance) else math.inf
        return cls(center, error, count, mean.samples)

    @property
    def deviations(self) -> np.ndarray:
        """What each sample contributes to the error of the mean; empty without samples.

        The squares add up to the square of the standard error.
        """
        count = len(self.samples)
        if count < 2:
            return np.empty(0)
        return (self.samples - self.mean) / math.sqrt(count * (count - 1))

    def __float__(self) -> float:
        return float(self.mean)

    def z(self, theory: float) -> float:
        """Deviation from a theoretical value in standard errors."""
        difference = self.mean - theory
        return difference / self.standard_error if self.standard_error else math.inf * difference

    def __str__(self) -> str:
        """Mean with the standard error of its last digits in parentheses: 1.284(12)."""
        if not (math.isfinite(self.standard_error) and self.standard_error > 0):
            return f"{self.mean:.6g}"
        digits = 1 - math.floor(math.log10(self.standard_error))
        last = round(self.standard_error * 10**digits)
        if last == 100:  # 0.0996 rounds to 0.10
            digits, last = digits - 1, 10
        if digits <= 0:
            return f"{round(self.mean, digits):.0f}({last * 10**-digits})"
        return f"{self.mean:.{digits}f}({last})" if digits > 1 or last >= 1 else f"{self.mean:g}"
