"""Comparisons of theory and simulation, made from numbers and estimates."""

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsFloat, TypeAlias

import numpy as np
from scipy.special import ndtri

from iclimit.results import Estimate
from iclimit.statistics import POWER, Extrapolation, skewed_deviate, student_deviate, z_score

# A number, exact or simulated.
Value: TypeAlias = SupportsFloat | Estimate

# Largest logarithm of a relative change that float64 holds.
LARGEST_LOG = 700.0

# The two errors of pretraining, as attributes of results.
ERRORS = ("icl", "idg")


@dataclass(frozen=True)
class Comparison:
    """A number of the theory against an estimate.

    Attributes
    ----------
    label : str
        What is compared, with its parameters.
    theory, estimate : float
        The two numbers.
    standard_error : float
        Of the estimate (and of the theory where it is averaged over random draws); 0 for a
        deterministic comparison.
    allowance : float
        Documented systematic deviation, absolute; z counts what lies beyond.
    degrees : float
        Degrees of freedom of the standard error, if it was estimated from few samples.
    upper_bound : bool
        Whether the theory is a bound that estimates below do not contradict.
    of : str
        The public function that gave the theory, with a field of its result after a dot:
        "icl_error", "optimal_schedule.loss".  Empty for what tests no function, such as the fit
        of an extrapolation.
    draws : hashable
        Name of the random draws behind the estimate.  Comparisons of one claim that have the same
        name are correlated; without a name a comparison is independent of all others.
    deviations : ndarray (repeats,)
        What each draw contributes to the error of the estimate; the squares add up to its
        variance.  Correlations are found from these; without them, comparisons with the same draws
        count as fully correlated.
    shared : ndarray (sources,)
        What each source of error of the theory contributes to the standard error; comparisons with
        arrays of the same length have the same sources.
    pooled : int
        Number of comparisons that this one pools; 0 for a single one.
    logarithmic : bool
        Whether the logarithms of the two numbers are compared.  Standard error and allowances are
        then relative.
    below, above : float
        Further allowances for estimates below the theory, and for estimates above it.
    skewness : float
        Of the law of the estimate, on the scale that is compared.
    """

    label: str
    theory: float
    estimate: float
    standard_error: float
    allowance: float = 0.0
    degrees: float = math.inf
    upper_bound: bool = False
    of: str = ""
    draws: Hashable = None
    deviations: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)
    shared: np.ndarray = field(default_factory=lambda: np.zeros(1), repr=False, compare=False)
    pooled: int = 0
    logarithmic: bool = False
    below: float = 0.0
    above: float = 0.0
    skewness: float = 0.0

    @property
    def deviation(self) -> float:
        """Estimate minus theory, or the logarithm of estimate over theory."""
        if not self.logarithmic:
            return self.estimate - self.theory
        return math.log(self.estimate / self.theory) if self.estimate > 0 else -math.inf

    @property
    def allowed(self) -> float:
        """Allowance on this side of the theory."""
        return self.allowance + (self.above if self.estimate > self.theory else self.below)

    @property
    def z(self) -> float:
        """Deviation beyond the allowance in standard errors, as a normal deviate."""
        if self.upper_bound and self.estimate <= self.theory:
            return 0.0
        z = z_score(self.deviation, 0.0, self.standard_error, self.allowed, self.degrees)
        return skewed_deviate(z, self.skewness)

    def resolution(self, threshold: float) -> float:
        """Smallest relative change of the theory that is noticed with probability 95 %.

        A change is noticed if the size of z exceeds the threshold.  Infinite where a relative
        change means nothing: for a theory of 0, and for what tests no function.  Changes of either
        sign are noticed; skewness is left out.
        """
        if not self.of or self.theory == 0 or not math.isfinite(self.theory):
            return math.inf
        reach = self.allowance + max(self.below, self.above)
        if self.standard_error > 0:
            deviates = (student_deviate(z, self.degrees) for z in (threshold, POWER))
            reach += self.standard_error * sum(deviates)
        if self.upper_bound:
            reach += max(-self.deviation, 0.0)
        if self.logarithmic:
            return math.expm1(min(reach, LARGEST_LOG))
        return reach / abs(self.theory)


def compare(
    label: str,
    theory: Value,
    estimate: Value,
    *,
    allowance: float = 0.0,
    relative: float = 0.0,
    degrees: float | None = None,
    upper_bound: bool = False,
    of: str = "",
    draws: Hashable = None,
) -> Comparison:
    """Compare a theoretical value with an estimate.

    Each may be a number or an `Estimate`; the standard errors of estimates add in quadrature.  Two
    numbers make a deterministic comparison.

    Parameters
    ----------
    label : str
        What is compared, with its parameters.
    theory, estimate : float or Estimate
        The two values.
    allowance, relative : float
        Systematic deviation, absolute and relative to the theory; the two add up.
    degrees : float, optional
        Degrees of freedom of the standard error; by default the repeats of the estimate minus 1.
    upper_bound : bool
        Whether the theory only bounds the estimate from above.
    of : str
        The function that gave the theory, with the field of its result after a dot:
        ``"optimal_schedule.loss"``.  Comparisons with the same function are pooled.
    draws : hashable
        The same for comparisons whose estimates come from the same random draws, one by one.

    Examples
    --------
    >>> from iclimit.results import Estimate
    >>> from iclimit.comparison import compare
    >>> row = compare("loss, N = 10", 1.25, Estimate.of([1.26, 1.29, 1.30]), relative=0.02)
    >>> round(row.allowance, 3), row.degrees
    (0.025, 2)
    """
    if degrees is None:
        degrees = estimate.repeats - 1 if isinstance(estimate, Estimate) else math.inf
    return Comparison(
        label,
        float(theory),
        float(estimate),
        math.hypot(_error(theory), _error(estimate)),
        allowance + relative * abs(float(theory)),
        degrees,
        upper_bound,
        of,
        draws,
        estimate.deviations if isinstance(estimate, Estimate) else np.empty(0),
    )


def compare_errors(
    label: str, theory: Any, estimates: Any, *, of: str = "", **options: Any
) -> list[Comparison]:
    """Compare the ICL and the IDG errors of two results, which have them as ``icl`` and ``idg``.

    The results may be a limit, a finite-size prediction or a simulation; the options are those of
    `compare`.  ``of`` names the function that gave the theory, whose fields are compared.
    """
    return [
        compare(
            f"{name.upper()} {label}",
            getattr(theory, name),
            getattr(estimates, name),
            of=of and f"{of}.{name}",
            **options,
        )
        for name in ERRORS
    ]


def compare_limits(
    theories: Mapping[str, Value],
    fit: Extrapolation,
    *,
    of: Sequence[str] = (),
    draws: Hashable = None,
) -> list[Comparison]:
    """Compare limits with extrapolated estimates: labels to theory, in the order of the fit.

    ``of`` names the function that gave each of the theories, ``draws`` the runs of the fit.
    """
    return [
        Comparison(
            label,
            float(theory),
            float(fit.value[number]),
            math.hypot(_error(theory), fit.standard_error[number]),
            degrees=fit.error_degrees,
            of=function,
            draws=draws,
            deviations=fit.deviations[number],
        )
        for number, ((label, theory), function) in enumerate(
            zip(theories.items(), of or [""] * len(fit.value), strict=True)
        )
    ]


def compare_p_value(label: str, p_value: float) -> Comparison:
    """Turn the p-value of a test into a comparison: its normal deviate, positive for small ones.

    A claim judges the fits that it extrapolates with: a fit that is wrong at its order would make
    its error bar meaningless, and so would error bars that are far too large.

    Raises
    ------
    ValueError
        If the p-value is not in [0, 1].
    """
    if not 0 <= p_value <= 1:
        raise ValueError(f"p_value must be in [0, 1], got {p_value}")
    return Comparison(label, 0.0, -float(ndtri(p_value)), 1.0)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Mean of the first minus the second over the same draws, run by run.

    Raises
    ------
    ValueError
        If they do not have equally many samples.
    """
    _check_paired(first, second)
    return Estimate.of(first.samples - second.samples)


def ratio(first: Estimate, second: Estimate) -> Estimate:
    """Ratio of two means over the same draws; its standard error is that of the linear part.

    Raises
    ------
    ValueError
        If they do not have equally many samples.

    Examples
    --------
    >>> from iclimit.results import Estimate
    >>> from iclimit.comparison import ratio
    >>> print(ratio(Estimate.of([1.0, 2.0, 3.0]), Estimate.of([2.0, 4.0, 6.0])))
    0.5
    """
    _check_paired(first, second)
    value = first.mean / second.mean
    linear = Estimate.of((first.samples - value * second.samples) / second.mean)
    return Estimate(value, linear.standard_error, linear.repeats)


def _check_paired(first: Estimate, second: Estimate) -> None:
    if first.samples.shape != second.samples.shape or not first.samples.size:
        counts = [len(estimate.samples) for estimate in (first, second)]
        raise ValueError(f"first and second must have equally many samples, got {counts}")


def _error(value: Value) -> float:
    return value.standard_error if isinstance(value, Estimate) else 0.0
