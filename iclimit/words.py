"""Numbers as words: how messages, tables and reports write values, shares, units and counts.

A number without an error is an entry of a table, see `iclimit.tables.entry`.
"""

import math
from collections.abc import Mapping

from iclimit.results import Estimate

# Estimates from here on are those of an algorithm that diverges.
_HUGE = 1e6

# Estimates below this are rounding of float64.
_FLOAT64 = 1e-12

# Units of a time in seconds and of a size in bytes, the largest first.
TIMES = {"d": 86400, "h": 3600, "min": 60, "s": 1}
SIZES = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10}

# Larger z are printed as larger than this: what they are depends on the tails of all laws.
_LARGEST_Z = 99.9

# Relative standard errors below this are rounding: models answer in float32 mostly.
_ROUNDING = 1e-6


def measured(estimate: Estimate) -> str:
    """Return an estimate with its standard error; 0 where it is rounding, short where it is huge.

    Examples
    --------
    >>> from iclimit.results import Estimate
    >>> from iclimit.words import measured
    >>> measured(Estimate(1.2345, 0.012, 100)), measured(Estimate(1.5e8, 1e7, 100))
    ('1.234(12)', '1.5e+08')
    """
    size = abs(estimate.mean)
    if size >= _HUGE:
        return f"{estimate.mean:.2g}"
    if size < _FLOAT64:
        return "0"
    known = estimate.standard_error < _ROUNDING * size
    return f"{estimate.mean:.6g}" if known else str(estimate)


def percent(
    share: float | Estimate, digits: int = 2, *, least: float = 0.0, most: float = math.inf
) -> str:
    """Return a share in per cent: of an estimate with its standard error, and a dash for none.

    Parameters
    ----------
    share : float or Estimate
        Infinite or NaN if there is none.
    digits : int
        Digits of a number.
    least, most : float
        Smaller numbers are "less than" this, larger ones "more than" that.

    Examples
    --------
    >>> from iclimit.words import percent
    >>> percent(0.0123), percent(1.14), percent(float("inf")), percent(7.5, most=2)
    ('1.2 %', '110 %', '-', 'more than 200 %')
    """
    if isinstance(share, Estimate):
        if share.standard_error < _ROUNDING * abs(share.mean):
            return f"{100 * share.mean:.3g} %"
        return f"{measured(share.scaled(100))} %"
    if not share < most:
        return "-" if math.isinf(most) else f"more than {100 * most:g} %"
    if share < least:
        return f"less than {100 * least:g} %"
    rounded = float(f"{100 * share:.{digits}g}")
    return f"{rounded:g} %"


def z_text(z: float) -> str:
    """Return a deviation in standard errors; above 99.9 only that it is larger; nothing for none.

    Examples
    --------
    >>> from iclimit.words import z_text
    >>> z_text(-1.23), z_text(1e4), z_text(float("nan"))
    ('-1.2', '>100', '')
    """
    if math.isnan(z):
        return ""
    if abs(z) <= _LARGEST_Z:
        return f"{z:+.1f}"
    return ">100" if z > 0 else "<-100"


def in_units(value: float, units: Mapping[str, int]) -> str:
    """Return a time or a size in the largest unit that it reaches.

    Of the smallest unit, the last one, it is a whole number.

    Examples
    --------
    >>> from iclimit.words import SIZES, TIMES, in_units
    >>> in_units(5400, TIMES), in_units(0.2, TIMES), in_units(3 * 2**20, SIZES)
    ('1.5 h', '0 s', '3.0 MiB')
    """
    *larger, smallest = units
    for name in larger:
        if value >= units[name]:
            return f"{value / units[name]:.1f} {name}"
    return f"{value / units[smallest]:.0f} {smallest}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things in words.

    Examples
    --------
    >>> from iclimit.words import counted
    >>> counted(1, "run"), counted(2, "run"), counted(0, "process", "processes")
    ('1 run', '2 runs', '0 processes')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {plural or f'{noun}s'}"


def sharpness(resolution: float, exact: bool) -> str:
    """Return the smallest change that is noticed, or the tolerance of an exact comparison."""
    if not exact or not math.isfinite(resolution):
        return percent(resolution)
    return f"within {f'{resolution:.0e}' if resolution < 1e-4 else percent(resolution)}"
