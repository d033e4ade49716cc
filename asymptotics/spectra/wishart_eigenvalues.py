r"""Exact laws of the eigenvalues of a real Wishart matrix: mean density and largest eigenvalue.

**Mean density.**  The positive eigenvalues of a Gaussian :math:`S = X^\top X`, s the smaller and m
the larger size of X, form the Laguerre orthogonal ensemble of weight :math:`x^{(\alpha-1)/2}
e^{-x/2}`, :math:`\alpha = m - s`.  With the orthonormal Laguerre functions :math:`\varphi_k` of
:math:`x^\alpha e^{-x}`, :math:`J_k(x) = \int_x^\infty \varphi_k(t)\, dt/\sqrt t` and :math:`T_k =
J_k(0)`, their density is a unitary density plus a term of rank one,

.. math:: \rho(x) = \sum_{k=0}^{s-2} \varphi_k(x)^2 + \frac{\varphi_{s-1}(x)}{\sqrt x}
   \Bigl\{\tfrac12 \sqrt{(s-1)(m-1)}\, \bigl(J_{s-2}(x) - \tfrac12 T_{s-2}\bigr)
   + \frac{[s\ \mathrm{odd}]}{T_{s-1}} \Bigr\}

(:math:`T_k = 0` for odd k).  Integrating the derivative of :math:`\sqrt x\, \varphi_k`,

.. math:: \sqrt{(k+1)(k+1+\alpha)}\, J_{k+1} = \sqrt{k(k+\alpha)}\, J_{k-1}
   - 2 \sqrt x\, \varphi_k(x),

from the incomplete gamma function :math:`J_0` and :math:`J_{-1} = 0`.

The trapezoidal rule in :math:`t = \log x` integrates with it: it converges exponentially, and
resolvents :math:`1/(x + v)` have their pole at :math:`\operatorname{Im} t = \pi` whatever v, so
that the rule stays accurate down to v = 0, where rules that are exact for polynomials do not.

**Largest eigenvalue.**  The eigenvalues :math:`0 < l_1 < ... < l_s` of a Gaussian :math:`X^\top
X`, s the smaller and m the larger of its sizes, have a density proportional to :math:`\prod_i
l_i^a e^{-l_i/2} \prod_{i<j} |l_i - l_j|`, a = (m - s - 1)/2.  Integrated up to x (de Bruijn) it is
the Pfaffian of

.. math:: A_{ij}(x) = \int_0^x\!\!\int_0^x \operatorname{sgn}(v - u)\, g_i(u) g_j(v)\, du\, dv
   = 2 I_{ij} - G_i(x) G_j(x), \qquad I_{ij} = \int_0^x G_i g_j,

bordered by :math:`G_i(x)` if s is odd, with the gamma densities :math:`g_i(u) =
\frac12 (u/2)^{a+i-1} e^{-u/2}/\Gamma(a+i)` and their distribution functions :math:`G_i`.
From :math:`G_i = G_{i+1} + (u/2)^{a+i} e^{-u/2}/\Gamma(a+i+1)`,

.. math:: I_{ij} = I_{i+1,j} + \frac{\Gamma(2a+i+j)}{2^{2a+i+j}\,\Gamma(a+j)\Gamma(a+i+1)}
   P(2a+i+j, x), \qquad I_{jj} = \tfrac12 G_j^2,

with the regularised incomplete gamma function P.  The same recursion is behind Chiani, J.
Multivariate Anal. 129 (2014) 69.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import expit, gammaincc, gammaln

from iclimit.asymptotics.checks import check_integers, real_array
from iclimit.asymptotics.numbers import Number, Value

# Spacing of log x in the bulk times sqrt(N d), the number of oscillations per unit of log x.
_FINE = 0.5

# Largest spacing of log x: resolvents are then integrated to exp(-2 pi^2/0.25) = 5e-35.
_COARSE = 0.25

# Nodes of the blend between the two spacings: its error is exp(-2 pi^2 2) = 7e-18.
_BLEND = 2.0

# Least log x that is kept if the density is singular, or vanishes slowly, at 0.
_LOWEST = -140.0

# Most terms of the series of an incomplete gamma function, enough for N and d up to 1e9.
_TERMS = 10**6

# Most eigenvalues whose largest has a law here: a point then takes 10 to 30 seconds.  That grows
# faster than their number cubed.
_MOST_EIGENVALUES = 200

# Most steps of the recursion of the density, times its points and what a step costs without them:
# half a minute.
_MOST_WORK = 1e9
_STEP_WORK = 1000

# Nodes are dropped whose weight is below this fraction of the largest one.
_NEGLIGIBLE = 1e-18


def wishart_density(x: Number, *, context: int, dim: int) -> Value:
    r"""Mean density of the eigenvalues of :math:`H = X^\top X/N`, X Gaussian, at finite size.

    Parameters
    ----------
    x : number or array
        Points.
    context, dim : int >= 1
        Number N of rows of X and number d of columns.

    Returns
    -------
    float or ndarray
        Density of the measure `Wishart` without its atom 1 - N/d at 0 for N < d, so it
        integrates to min(1, N/d).  0 for x <= 0.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If x is not a number or a NumPy array.
    ArithmeticError
        If the recursion would take minutes or more.

    Notes
    -----
    The cost is a recursion of min(N, d) steps, at most 1e6 of them.  The relative error is below
    1e-12 up to N = 100, d = 50, in both tails as well.

    References
    ----------
    Adler, Forrester, Nagao and van Moerbeke, J. Stat. Phys. 99 (2000) 141; the constants and the
    recursion are those of the module docstring.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import wishart_density
    >>> round(float(wishart_density(1.0, context=20, dim=10)), 6)
    0.409427
    """
    check_integers(context=context, dim=dim)
    points = real_array("x", x, "(-inf, inf)")
    positive = points > 0
    scaled = np.where(positive, points, 1.0) * context
    density = np.where(positive, eigenvalue_density(scaled, context, dim), 0.0)
    return (density * context / dim)[()]


def _check_work(points: float, context: int, dim: int) -> None:
    """Raise an ArithmeticError where the density at so many points would take minutes or more."""
    if min(context, dim) * (_STEP_WORK + points) > _MOST_WORK:
        raise ArithmeticError(
            f"context and dim must be smaller, got {context} and {dim}: the density of their "
            f"eigenvalues at {points:.3g} points would take a recursion of minutes or more; use "
            "the limit"
        )


def eigenvalue_density(x: np.ndarray, context: int, dim: int) -> np.ndarray:
    """Density of the positive eigenvalues of S at x > 0, of integral min(N, d)."""
    _check_work(x.size, context, dim)
    size = min(context, dim)
    alpha = abs(context - dim)
    # The first function underflows at large sizes: its logarithm is carried apart.
    log_scale = (alpha * np.log(x) - x - gammaln(alpha + 1)) / 2
    current = np.ones_like(x)
    before = np.zeros_like(x)
    half = (alpha + 1) / 2
    total = np.exp(gammaln(half) + half * np.log(2) - gammaln(alpha + 1) / 2)
    tail = total * gammaincc(half, x / 2)
    tail_before = np.zeros_like(x)
    total_before = 0.0
    density = np.zeros_like(x)
    for k in range(size - 1):
        phi = current * np.exp(log_scale)
        density += phi**2
        down = np.sqrt(k * (k + alpha))
        up = np.sqrt((k + 1) * (k + 1 + alpha))
        if k < size - 2:
            next_tail = (down * tail_before - 2 * np.sqrt(x) * phi) / up
            tail_before = tail
            tail = next_tail
        next_total = down / up * total_before
        total_before = total
        total = next_total
        following = ((2 * k + 1 + alpha - x) * current - down * before) / up
        before = current
        current = following
        _, power = np.frexp(np.maximum(np.abs(current), np.abs(before)))
        current = np.ldexp(current, -power)
        before = np.ldexp(before, -power)
        log_scale += power * np.log(2)
    # After the loop total is T_{s-1}, total_before T_{s-2} and tail J_{s-2}.
    factor = np.sqrt((size - 1) * (size - 1 + alpha)) / 2
    bracket = factor * (tail - total_before / 2) if size > 1 else np.zeros_like(x)
    if size % 2:
        bracket = bracket + 1 / total
    return density + current * np.exp(log_scale) / np.sqrt(x) * bracket


@lru_cache(maxsize=32)
def eigenvalue_rule(context: int, dim: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Nodes and positive weights with sum w f(e) = E sum f over the positive eigenvalues of S.

    For f analytic in a sector around the positive axis, such as :math:`e^j/(e + v)^k`, v >= 0.
    With one column this is the rule of the chi-square law of N degrees of freedom.
    """
    fine = min(_FINE / math.sqrt(context * dim), _COARSE)
    top = np.log(2 * (np.sqrt(context) + np.sqrt(dim)) ** 2 + 250)
    # Below this point the density is a power of x, or negligible.
    edge = np.log(1 / (context + dim)) - 2
    _check_work((top - edge) / fine, context, dim)
    steps = np.arange(-np.ceil((edge - _LOWEST) / _COARSE), np.ceil((top - edge) / fine) + 1)
    shift = (_COARSE - fine) * _BLEND * np.logaddexp(0, -steps / _BLEND)
    nodes = np.exp(edge + fine * steps - shift)
    slope = fine + (_COARSE - fine) * expit(-steps / _BLEND)
    weights = slope * nodes * np.maximum(eigenvalue_density(nodes, context, dim), 0.0)
    # From the first node that matters for 1/x^2 to the last that matters for x^2.
    low = weights / nodes**2
    high = weights * nodes**2
    first = np.argmax(low >= _NEGLIGIBLE * low.max())
    last = np.flatnonzero(high >= _NEGLIGIBLE * high.max())[-1]
    nodes = nodes[first : last + 1]
    weights = weights[first : last + 1]
    nodes.flags.writeable = False
    weights.flags.writeable = False
    return nodes, weights


def largest_eigenvalue_cdf(x: Number, *, context: int, dim: int) -> Value:
    r"""Distribution function of the largest eigenvalue of :math:`H = X^\top X/N`, X Gaussian.

    Parameters
    ----------
    x : number or array
        Points.
    context, dim : int >= 1
        Number N of samples and dimension d.

    Returns
    -------
    float or ndarray
        Probabilities, exact to rounding.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    ArithmeticError
        If the smaller of context and dim is above 200.

    Notes
    -----
    Computed point by point in multi-precision arithmetic, since the matrix is close to singular:
    2 milliseconds for N = d = 10, 1 second for N = d = 100, 10 seconds for 200, the most.

    References
    ----------
    Chiani, J. Multivariate Anal. 129 (2014) 69, and the module docstring.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
    >>> round(float(largest_eigenvalue_cdf(3.0, context=1, dim=1)), 6)  # chi-square
    0.916735
    """
    check_integers(context=context, dim=dim)
    points = real_array("x", x)
    digits = _digits(context, dim)
    below = [1 - _tail(float(p), context, dim, digits) for p in points.ravel()]
    return np.array([float(value) for value in below]).reshape(points.shape)[()]


def largest_eigenvalue_tail(x: float, context: int, dim: int) -> Value:
    """Probability beyond x, an mpmath number accurate far into the tail.

    The probability is a difference from 1.  The digits are doubled until enough of it are left,
    up to 10,000: below 1e-5000 there are too few.
    """
    import mpmath

    digits = _digits(context, dim)
    while True:
        tail = _tail(x, context, dim, digits)
        if x == math.inf or digits > 10_000 or tail > mpmath.mpf(10) ** (-(digits // 2)):
            return tail
        digits *= 2


def _tail(x: float, context: int, dim: int, digits: int) -> Value:
    import mpmath

    if x <= 0:
        return mpmath.mpf(1)
    with mpmath.workdps(digits):
        inside = _pfaffian(mpmath.mpf(x) * context, context, dim)
        return 1 - max(inside / _total(context, dim, digits), 0)


def _digits(context: int, dim: int) -> int:
    """Working digits.

    The Pfaffian loses up to 1 + log10(m/s) per eigenvalue (measured for s to 100, m/s to 1e5).
    """
    fewer, more = sorted((context, dim))
    if fewer > _MOST_EIGENVALUES:
        raise ArithmeticError(
            f"the smaller of context and dim must be <= {_MOST_EIGENVALUES}, got {fewer}"
        )
    return 40 + math.ceil(fewer * (2 + math.log10(more / fewer)))


@lru_cache(maxsize=64)
def _total(context: int, dim: int, digits: int) -> Value:
    import mpmath

    with mpmath.workdps(digits):
        return _pfaffian(mpmath.inf, context, dim)


def _pfaffian(x: Value, context: int, dim: int) -> Value:
    """Pfaffian of the antisymmetric matrix at an eigenvalue x of X^T X."""
    import mpmath

    count = min(context, dim)
    most = max(context, dim)
    a = mpmath.mpf(most - count - 1) / 2

    inverse = [mpmath.rgamma(a + i) for i in range(1, count + 2)]
    cdf = _regularised(a + 1, count, x / 2)
    pair = [
        mpmath.gamma(2 * a + 3 + k) / mpmath.mpf(2) ** (2 * a + 3 + k) * value
        for k, value in enumerate(_regularised(2 * a + 3, 2 * count - 3, x))
    ]
    size = count + count % 2
    # Right of the diagonal; odd sizes are bordered by the distribution functions.
    matrix = [[value] * size for value in [*cdf, mpmath.mpf(0)][:size]]
    for j in range(count):
        integral = cdf[j] ** 2 / 2
        for i in range(j - 1, -1, -1):
            integral += pair[i + j - 1] * inverse[j] * inverse[i + 1]
            matrix[i][j] = 2 * integral - cdf[i] * cdf[j]
    return _eliminate(matrix)


def _eliminate(matrix: list[list[Value]]) -> Value:
    """Pfaffian from the entries right of the diagonal, which are overwritten two rows at a time.

    Pivots are quotients of the Pfaffians of the leading blocks.  These are positive, as they
    belong to the same densities, so rows need not be exchanged.
    """
    size = len(matrix)
    product = 1
    for k in range(0, size, 2):
        first, second = matrix[k : k + 2]
        pivot = first[k + 1]
        if pivot == 0:  # a probability too small for the digits
            return pivot
        product *= pivot
        for i in range(k + 2, size):
            u = first[i] / pivot
            v = second[i] / pivot
            row = matrix[i]
            for j in range(i + 1, size):
                row[j] += v * first[j] - u * second[j]
    return product


def _regularised(first: Value, count: int, z: Value) -> list[Value]:
    """Incomplete gamma functions P(first, z), P(first + 1, z), ..., by downward recurrence."""
    import mpmath

    if count < 1:
        return []
    if z == mpmath.inf:
        return [mpmath.mpf(1)] * count
    last = first + count - 1
    term = z**last * mpmath.exp(-z) / mpmath.gamma(last + 1)
    try:
        values = [term * mpmath.hyp1f1(1, last + 1, z, maxterms=_TERMS)]
    except mpmath.libmp.NoConvergence as error:
        raise ArithmeticError(
            f"context and dim must be smaller, got one of {2 * float(last):.3g} or more"
        ) from error
    for order in range(count - 1, 0, -1):
        term *= (first + order) / z
        values.append(values[-1] + term)
    return values[::-1]
