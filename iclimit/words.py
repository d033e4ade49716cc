"""Numbers as words: how every message, table and report writes a value, a number and a share."""

import math

from iclimit.results import Estimate

# Estimates from here on are those of an algorithm that diverges.
_HUGE = 1e6

# Estimates below this are rounding of float64.
_FLOAT64 = 1e-12

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


def percent(share: float | Estimate, digits: int = 2, *, most: float = math.inf) -> str:
    """Return a share in per cent: of an estimate with its standard error, and a dash for none.

    Parameters
    ----------
    share : float or Estimate
        Infinite or NaN if there is none.
    digits : int
        Digits of a number.
    most : float
        Larger numbers are "more than" this.

    Examples
    --------
    >>> from iclimit.words import percent
    >>> percent(0.0123), percent(float("inf")), percent(7.5, most=2)
    ('1.2 %', '-', 'more than 200 %')
    """
    if isinstance(share, Estimate):
        if share.standard_error < _ROUNDING * abs(share.mean):
            return f"{100 * share.mean:.3g} %"
        return f"{measured(share.scaled(100))} %"
    if not share < most:
        return "-" if math.isinf(most) else f"more than {100 * most:g} %"
    return f"{100 * share:.{digits}g} %"


def sharpness(resolution: float, exact: bool) -> str:
    """Return the smallest change that is noticed, or the tolerance of an exact comparison."""
    if not exact or not math.isfinite(resolution):
        return percent(resolution)
    return f"within {f'{resolution:.0e}' if resolution < 1e-4 else percent(resolution)}"
