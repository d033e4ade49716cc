"""Results that every room shares: a simulated mean or median with its standard error."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any

import numpy as np

NEVER = 1e-12
"""Probability below which a sample counts as never being the median of samples that are drawn with
replacement."""

_FEW, _LONGEST, _ROWS = 6, 60, 10
"""Numbers or entries that are printed one by one, characters of other values, and rows of a table
in a notebook."""


class Result:
    """Base of data classes that hold results: they print in short, in notebooks as a table.

    Examples
    --------
    >>> import iclimit
    >>> iclimit.optimal_schedule(steps=3, ratio=0.5)
    Schedule(rates=[0.4, 0.666667, 2], loss=0.0666667, lower_bound=0.0666667)
    """

    def __repr__(self) -> str:
        shown = (f"{name}={_short(value)}" for name, value in _parts(self))
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        if type(self).__str__ is not object.__str__:
            return f"<pre>{html.escape(str(self))}</pre>"
        cells = [[name, _short(value)] for name, value in _parts(self)]
        return _table((type(self).__name__, ""), cells)


class Rows(Result):
    """Base of results that are a table in long form."""

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, each by column; None where a column has no value."""
        raise NotImplementedError

    def to_pandas(self) -> Any:
        """Rows as a `pandas.DataFrame`; gaps in columns of numbers are NaN."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("to_pandas needs pandas: pip install pandas") from error
        return pd.DataFrame(self.rows())

    def _repr_html_(self) -> str:
        rows = self.rows()
        known = [[_short(value) for value in row.values()] for row in rows[:_ROWS]]
        left = [[f"... {len(rows)} rows"]] if len(rows) > _ROWS else []
        return _table(list(rows[0]), known + left)


def _parts(result: Any) -> list[tuple[str, Any]]:
    """Fields of a data class that are to be printed."""
    return [(each.name, getattr(result, each.name)) for each in fields(result) if each.repr]


def _short(value: Any) -> str:
    """One value on less than a line: few numbers one by one, the shape of more."""
    if isinstance(value, (bool, np.bool_, int, str)) or value is None:
        text = str(value) if isinstance(value, str) else repr(value)
    elif isinstance(value, (float, np.floating)):
        text = f"{value:.6g}"
    elif isinstance(value, Estimate):
        text = str(value)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        if value.shape == ():
            return _short(value.item())
        if math.prod(value.shape) > _FEW or len(value.shape) > 1:
            return f"array of shape {tuple(value.shape)}"
        text = f"[{', '.join(map(_short, value.tolist()))}]"
    elif isinstance(value, Mapping):
        text = "{" + ", ".join(f"{name}: {_short(each)}" for name, each in value.items()) + "}"
        text = text if len(value) <= _FEW and len(text) <= _LONGEST else f"dict of {len(value)}"
    elif isinstance(value, (list, tuple)):
        text = "[" + ", ".join(map(_short, value[:_FEW])) + "]"
        if len(value) > _FEW or len(text) > _LONGEST:
            text = f"{type(value).__name__} of {len(value)}"
    elif is_dataclass(value) and isinstance(value, Result):
        text = f"{type(value).__name__}(...)"
    else:
        text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Table in HTML."""
    lines = [_row("th", head), *(_row("td", row) for row in rows)]
    return f"<table>{''.join(lines)}</table>"


def _row(kind: str, cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<{kind}>{html.escape(cell)}</{kind}>' for cell in cells)}</tr>"


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
