"""Write wishart.csv: Wishart densities and resolvents from Pfaffians, correct to 15 digits.

The route shares nothing with the library: the density is the derivative of the logarithm of de
Bruijn's Pfaffian, and the mean resolvent is its integral by mpmath's quadrature.

Run as ``python tests/asymptotics/spectra/tables/make_wishart.py``; it takes half a minute.
"""

import csv
import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import mpmath

SIZES = [(1, 1), (7, 1), (1, 7), (2, 2), (3, 2), (5, 5), (9, 4), (10, 20), (20, 10), (12, 11)]
POINTS = [1e-6, 0.01, 0.3, 1.0, 2.0, 4.0]
SHIFTS = [
    (3, 3, 1e-30),
    (3, 3, 1e-6),
    (4, 3, 1e-30),
    (4, 3, 0.1),
    (5, 3, 1e-8),
    (8, 3, 1e-8),
    (8, 3, 30.0),
]


@lru_cache
def _pairing(context: int, dim: int) -> tuple[Any, Any]:
    """Exponents, and the inverse of the skew matrix of de Bruijn's formula, bordered if odd.

    A[i, j] is the double integral of sgn(v - u) u^a_i v^a_j exp(-(u + v)/2).
    """
    size = min(context, dim)
    alpha = abs(context - dim)
    powers = [mpmath.mpf(alpha - 1) / 2 + i for i in range(size)]
    full = size + size % 2
    matrix = mpmath.zeros(full)
    for i in range(size):
        for j in range(size):
            # P(v > u) for gamma variables is a regularised incomplete beta function.
            a = powers[i] + 1
            b = powers[j] + 1
            below = mpmath.betainc(a, b, 0, mpmath.mpf(1) / 2, regularized=True)
            matrix[i, j] = (2 * below - 1) * _gamma(a) * _gamma(b)
        if size % 2:
            matrix[i, size] = _gamma(powers[i] + 1)
            matrix[size, i] = -matrix[i, size]
    return powers, matrix**-1


def _gamma(a: Any) -> Any:
    return mpmath.gamma(a) * 2**a


def pfaffian_density(x: Any, context: int, dim: int) -> Any:
    """Density of the eigenvalues of X'X: derivative of log Pf when the weight gains a point mass.

    Half the trace of A^-1 dA; no orthogonal polynomials.
    """
    powers, inverse = _pairing(context, dim)
    size = len(powers)
    weights = [x**p * mpmath.exp(-x / 2) for p in powers]
    # Integrals of sgn(v - x) v^p exp(-v/2).
    signs = [_gamma(p + 1) - 2 * 2 ** (p + 1) * mpmath.gammainc(p + 1, 0, x / 2) for p in powers]
    total = mpmath.mpf(0)
    for i in range(size):
        for j in range(size):
            total += inverse[j, i] * (weights[i] * signs[j] - weights[j] * signs[i])
        if size % 2:
            total += 2 * inverse[size, i] * weights[i]
    return total / 2


def density(x: float, context: int, dim: int) -> Any:
    """Mean density of the eigenvalues of X'X/N at x."""
    return pfaffian_density(mpmath.mpf(x) * context, context, dim) * context / dim


def resolvent(shift: float, context: int, dim: int) -> Any:
    """Mean of the sum of 1/(x + shift) over the eigenvalues of X'X, by quadrature in log x.

    Without a change of variable the singularity at 0 and the scale of the shift need more care.
    """

    def integrand(t: Any) -> Any:
        x = mpmath.exp(t)
        return x * pfaffian_density(x, context, dim) / (x + shift)

    middle = math.log(shift)
    inner = {middle - 25, middle, middle + 12, -12.0, -3.0, 1.0, 3.0, 5.3}
    return mpmath.quad(integrand, sorted({-200.0, *inner}))


def main() -> None:
    rows = []
    with mpmath.workdps(60):
        for size in SIZES:
            rows += [("density", *size, x, mpmath.nstr(density(x, *size), 20)) for x in POINTS]
    _pairing.cache_clear()
    with mpmath.workdps(25):
        for context, dim, shift in SHIFTS:
            value = mpmath.nstr(resolvent(shift, context, dim), 15)
            rows.append(("resolvent", context, dim, shift, value))
    with open(Path(__file__).with_name("wishart.csv"), "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerows([("kind", "context", "dim", "point", "value"), *rows])


if __name__ == "__main__":
    main()
