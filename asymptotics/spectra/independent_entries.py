r"""Mean spectrum of a sample covariance of independent entries, from its first exact moments.

For an :math:`N \times d` matrix X of independent symmetric entries with moments :math:`m_{2k}`,

.. math:: E \operatorname{tr} (X^\top X)^k = \sum_w (N)_{a(w)}\, (d)_{b(w)} \prod_e m_{n_e(w)},

a sum over the closed walks w of 2 k steps on the complete bipartite graph of rows and columns that
pass every edge an even number of times.  Walks that differ in the names of rows and columns only
are one term: a and b count the rows and columns, which can be named in
:math:`(N)_a = N (N-1) \cdots (N-a+1)` ways and likewise, and :math:`n_e` the passages of edge e.
The walks are enumerated, 28,000 of them for k = 7 and 280,000 for k = 8.

Derived in this module; Gaussian entries give the moments of `Wishart`, which a test compares.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import factorial, prod
from typing import Any

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.wishart import Wishart
from iclimit.checks import check_choice

# Highest moment of the spectrum.  The walks take two seconds for it, ten times as long for the
# next.
MOST_MOMENTS = 8

# Moments of order 2 k of N(0, 1), U(-1, 1) and the density exp(-|x|)/2.  Random signs are left
# out: at small sizes their spectrum is a few points, and has no rule of more.
_ENTRY_MOMENTS: dict[str, Callable[[int], Fraction]] = {
    "gaussian": lambda k: Fraction(factorial(2 * k), 2**k * factorial(k)),
    "uniform": lambda k: Fraction(1, 2 * k + 1),
    "laplace": lambda k: Fraction(factorial(2 * k)),
}


class IndependentEntries(Wishart):
    r"""Mean spectral measure of :math:`H = X^\top X/N` for X of independent entries.

    Parameters
    ----------
    context, dim : int >= 1 or SymPy expression
        Number N of rows and dimension d.
    input_law : {"gaussian", "uniform", "laplace"}
        Law of the entries: N(0, 1), U(-1, 1), or the density exp(-\|x\|)/2.

    Raises
    ------
    ValueError
        If an argument is outside its range.

    Notes
    -----
    Moments are known to order 8, so quadrature rules have at most four positive nodes.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import IndependentEntries
    >>> IndependentEntries(context=10, dim=5, input_law="uniform").moment(2)
    Fraction(37, 225)
    """

    def __init__(self, *, context: Number, dim: Number, input_law: str) -> None:
        check_choice("input_law", input_law, tuple(_ENTRY_MOMENTS))
        super().__init__(context=context, dim=dim)
        self.input_law = input_law

    def __repr__(self) -> str:
        size = super().__repr__().removeprefix("Wishart(").removesuffix(")")
        return f"IndependentEntries({size}, input_law={self.input_law!r})"

    def moment(self, order: int) -> Value:
        r"""Moment :math:`\frac1d E \operatorname{tr} H^m`, m <= 8, exact as in `Wishart`."""
        check_integers(order=order)
        if order > MOST_MOMENTS:
            raise ValueError(f"order must be <= {MOST_MOMENTS} for entries of a law, got {order}")
        of_entry = _ENTRY_MOMENTS[self.input_law]
        total: Any = 0
        for (rows, columns, passages), count in _walks(order).items():
            weight = count * prod((of_entry(n // 2) for n in passages), start=Fraction(1))
            # The first column is named in d ways, which the trace over d divides by again.
            names = _falling(self.context, 0, rows) * _falling(self.dim, 1, columns)
            if isinstance(names, int):
                total += weight * names
            else:
                total += names * weight.numerator / weight.denominator
        scale = self.context**order
        value = total / scale
        return value.expand() if hasattr(value, "expand") else Fraction(value)


def _falling(size: Value, start: int, stop: int) -> Value:
    """Product of size - i for i from start to stop - 1."""
    return prod((size - i for i in range(start, stop)), start=1)


@lru_cache(maxsize=MOST_MOMENTS + 1)
def _walks(order: int) -> Counter[tuple[int, int, tuple[int, ...]]]:
    """Numbers of walks of 2 * order steps by rows, columns and passages of their edges."""
    counts: Counter[tuple[int, int, tuple[int, ...]]] = Counter()
    passages: dict[tuple[int, int], int] = {}

    def extend(remaining: int, place: int, rows: int, columns: int, odd: int) -> None:
        """Go on from a column, or from a row if an odd number of steps is left.

        ``odd`` edges have been passed an odd number of times; each needs one more step.
        """
        if remaining == 0:
            counts[rows, columns, tuple(sorted(passages.values()))] += 1
            return
        from_row = remaining % 2
        # Places are named in the order of their first visit; the walk returns to column 0.
        most = 1 if remaining == 1 else (columns if from_row else rows) + 1
        for target in range(most):
            edge = (place, target) if from_row else (target, place)
            before = passages.get(edge, 0)
            now_odd = odd + 1 - 2 * (before % 2)
            if now_odd > remaining - 1:
                continue
            passages[edge] = before + 1
            if from_row:
                extend(remaining - 1, target, rows, max(columns, target + 1), now_odd)
            else:
                extend(remaining - 1, target, max(rows, target + 1), columns, now_odd)
            if before:
                passages[edge] = before
            else:
                del passages[edge]

    extend(2 * order, 0, 0, 1, 0)
    return counts
