r"""Means of products of two powers of a sample covariance, without contours.

The sample covariance S is that of `iclimit.asymptotics.spectra.two_point`.
Powers of S, or of :math:`1 - \eta S`, are the coefficients of a resolvent: with :math:`\kappa = 0`
and :math:`\eta = -1`, or with :math:`\kappa = 1`,

.. math:: \sum_l u^l (\kappa - \eta S)^l = (1 - \kappa u + \eta u S)^{-1} \simeq
   F(u) = (1 - \kappa u + \eta u s(u) \Lambda)^{-1}, \qquad
   \frac1s = 1 + \frac{\eta u}P \operatorname{tr} \Lambda F .

Both sides are power series in u, so that the coefficients of s and F follow one after the other.
With :math:`H = s F` the equivalent of a product of two resolvents is, as a series in u and v,

.. math:: \langle A B F_u F_v \rangle + \langle B \lambda F_u F_v \rangle
   \frac{uv\, \eta^2 \langle \lambda A H_u H_v \rangle}
   {\alpha - uv\, \eta^2 \langle \lambda^2 H_u H_v \rangle} .

Its coefficients are :math:`E \operatorname{tr} B (\kappa - \eta S)^j A (\kappa - \eta S)^k/d` for
all j and k at once: sums of products, exact in exact arithmetic.
"""

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from iclimit.asymptotics.checks import check_integers, checked
from iclimit.asymptotics.numbers import Value
from iclimit.checks import refuse_masked

# Up to this order floats are convolved directly too, which keeps relative accuracy.
_SHORT = 16

Product = Callable[[np.ndarray, np.ndarray], np.ndarray]


def pair_moments(
    values: Value,
    *,
    order: int,
    alpha: Value,
    weights: Value = None,
    outer: Value = None,
    inner: Value = None,
    rate: Value = None,
) -> np.ndarray:
    r"""Moments :math:`E \operatorname{tr} B S^j A S^k/d` of a sample covariance, for large d.

    Parameters
    ----------
    values : array (m,)
        Eigenvalues of the population covariance: floats, fractions, mpmath or SymPy numbers.
    order : int >= 0
        Largest j and k.
    alpha : number > 0
        Samples over dimension, P/d.
    weights : array (m,), optional
        Masses of the eigenvalues, of sum 1; equal by default.
    outer, inner : array (m,), optional
        Eigenvalues of B and A; 1 by default.
    rate : number, optional
        With it the powers are those of :math:`1 - \eta S`: steps of gradient descent.

    Returns
    -------
    ndarray (order + 1, order + 1)
        Floats, or objects of the number system of the values.

    Raises
    ------
    ValueError
        If order is negative, or an argument is outside its range.
    TypeError
        If an argument is not a number or an array of numbers.

    Notes
    -----
    Beyond order 16 floats are convolved by FFT: errors are then some 1e-16 of the largest moment.
    Exact numbers are convolved directly, in a time that grows as order^4.

    References
    ----------
    Derived in module `iclimit.asymptotics.spectra.pair_moments`.

    Examples
    --------
    >>> from fractions import Fraction
    >>> from iclimit.asymptotics.spectra import pair_moments
    >>> lam = [Fraction(1, 2), Fraction(3, 2)]
    >>> print(pair_moments(lam, order=1, alpha=Fraction(2), inner=lam)[1, 1])
    19/8
    """
    check_integers(order=order)
    lam = _array("values", values)
    exact = lam.dtype == object
    ones = np.array([lam.flat[0] * 0 + 1] * lam.size, dtype=lam.dtype)
    mass = ones / lam.size if weights is None else _array("weights", weights)
    B = ones if outer is None else _array("outer", outer)
    A = ones if inner is None else _array("inner", inner)
    checked(single=True, alpha=_as_number(alpha))
    checked(single=True, optional=("rate",), rate=_as_number(rate))
    kappa = 0 if rate is None else 1
    eta = -1 if rate is None else rate

    n = order + 1
    f = [ones]
    s = [ones[0]]
    traces = [mass @ lam]
    for _ in range(order):
        change = _convolved(s, traces)
        f.append(kappa * f[-1] - eta * lam * _convolved(s, f))
        s.append(-eta * change / alpha)
        traces.append((mass * lam) @ f[-1])
    F = np.array(f)
    H = np.array([_convolved(s[:k], F[:k]) for k in range(1, n + 1)])

    def mean(x: np.ndarray, G: np.ndarray) -> np.ndarray:
        return (G * (mass * x)) @ G.T

    def shifted(x: np.ndarray) -> np.ndarray:
        """Series times u v eta^2/alpha."""
        moved = 0 * x
        moved[1:, 1:] = x[:-1, :-1] * eta**2 / alpha
        return moved

    product: Product = _direct_product if exact or order <= _SHORT else _fast_product
    total = shifted(mean(lam * A, H))
    loops = _resummed(shifted(mean(lam**2, H)), product)
    return mean(A * B, F) + product(mean(B * lam, F), product(total, loops))


def _convolved(s: Value, f: Value) -> Value:
    """Last coefficient of a product of two series of equal length."""
    return sum(a * b for a, b in zip(reversed(s), f, strict=True))


def _array(name: str, values: Value) -> np.ndarray:
    """Array of floats, or of the objects that were given."""
    refuse_masked(name, values)
    array = np.asarray(values)
    if array.dtype.kind in "iuf":
        return array.astype(float)
    if array.dtype.kind != "O" or not all(hasattr(number, "__mul__") for number in array.flat):
        raise TypeError(f"{name} must be an array of real numbers, got {values!r}")
    return array


def _as_number(value: Value) -> Value:
    """A fraction as a float, which every check takes."""
    return float(value) if type(value) is Fraction else value


def _fast_product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Product of two series in u and v, up to their order."""
    from scipy.signal import fftconvolve  # almost a second, which only this needs

    n = len(x)
    return fftconvolve(x, y)[:n, :n]


def _direct_product(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    n = len(x)
    product = 0 * x
    for j in range(n):
        for k in range(n):
            product[j:, k:] = product[j:, k:] + x[j, k] * y[: n - j, : n - k]
    return product


def _resummed(x: np.ndarray, product: Product) -> np.ndarray:
    """Series of 1/(1 - x), x without constant term, by Newton's iteration."""
    n = len(x)
    unit = 0 * x
    unit[0, 0] = unit[0, 0] + 1
    inverse = unit
    right = 1
    while right < n:
        right *= 2
        inverse = product(inverse, 2 * unit - product(unit - x, inverse))
    return inverse
