"""Comparisons of theory and simulation, made from numbers and estimates."""

import csv
import math
from collections.abc import Mapping
from importlib import resources
from typing import Any, SupportsFloat, TypeAlias

from scipy.special import ndtri

from iclimit.results import Estimate
from iclimit.validation.claim import Comparison
from iclimit.validation.statistics import Extrapolation

Value: TypeAlias = SupportsFloat | Estimate
"""A number, exact or simulated."""

ERRORS = ("icl", "idg")
"""The two errors of pretraining, as attributes of results."""


def compare(
    label: str,
    theory: Value,
    estimate: Value,
    *,
    allowance: float = 0.0,
    relative: float = 0.0,
    degrees: float | None = None,
    upper_bound: bool = False,
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

    Examples
    --------
    >>> from iclimit.results import Estimate
    >>> from iclimit.validation.comparisons import compare
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
    )


def compare_errors(label: str, theory: Any, found: Any, **options: Any) -> list[Comparison]:
    """Compare the ICL and the IDG errors of two results, which have them as ``icl`` and ``idg``.

    The results may be a limit, a finite-size prediction or a simulation; the options are those of
    `compare`.
    """
    return [
        compare(f"{name.upper()} {label}", getattr(theory, name), getattr(found, name), **options)
        for name in ERRORS
    ]


def compare_limits(
    theories: Mapping[str, Value], fit: Extrapolation, degrees: float = math.inf
) -> list[Comparison]:
    """Compare limits with extrapolated estimates: labels to theory, in the order of the fit."""
    return [
        Comparison(
            label, float(theory), float(value), math.hypot(_error(theory), error), 0, degrees
        )
        for (label, theory), value, error in zip(
            theories.items(), fit.value, fit.standard_error, strict=True
        )
    ]


def compare_p_value(label: str, p_value: float) -> Comparison:
    """Turn the p-value of a test into a comparison; only small ones contradict.

    A claim judges the fits that it extrapolates with: a fit that is wrong at its order would make
    its error bar meaningless.
    """
    return Comparison(label, 0.0, max(-float(ndtri(p_value)), 0.0), 1.0)


def difference(first: Estimate, second: Estimate) -> Estimate:
    """Mean of the first minus the second over the same draws, run by run."""
    return Estimate.of(first.samples - second.samples)


def read_reference(name: str) -> list[dict[str, str]]:
    """Rows of a published table in ``validation/reference``, without its comments."""
    text = (resources.files(__package__) / "reference" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(line for line in text.splitlines() if not line.startswith("#")))


def _error(value: Value) -> float:
    return value.standard_error if isinstance(value, Estimate) else 0.0
