r"""The fixed points of the ICL theory as polynomials and series, with LaTeX for papers.

For a task covariance with finitely many eigenvalues :math:`c_i` of weights :math:`p_i` (one for
isotropic tasks, two for the simplest structure) the resolvent of the covariance of k drawn tasks,
:math:`M(x) = \frac1d E \operatorname{tr}(\hat C + x)^{-1}`, is an algebraic function:

.. math:: M = \sum_i \frac{p_i}{x + c_i s}, \qquad s = 1 - \frac{1 - xM}{\kappa}.

Whatever solves these equations is here derived from them by SymPy.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from iclimit.asymptotics.checks import check_integers
from iclimit.asymptotics.derivation import Derivation
from iclimit.asymptotics.numbers import Value


def derive_resolvent(spectrum: Mapping[Any, Any] | None = None) -> Derivation:
    r"""Derive the polynomial of the resolvent of a sample covariance, and its discriminant.

    Parameters
    ----------
    spectrum : mapping, optional
        Weights of the eigenvalues of the covariance, numbers or SymPy expressions; by default the
        identity, ``{1: 1}``.

    Returns
    -------
    Derivation
        Equation and polynomial of s, polynomial of M, and its discriminant in :math:`z = -x`:
        the edges of the spectrum are among its real zeros.

    Raises
    ------
    ValueError
        If the spectrum is empty, has a negative number, or numerical weights do not sum to 1.

    References
    ----------
    Silverstein and Choi, J. Multivariate Anal. 54 (1995) 295, on edges.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import derive_resolvent
    >>> import sympy
    >>> sympy.factor(derive_resolvent().result.subs("kappa", 4))
    (4*z - 9)*(4*z - 1)/16
    """
    import sympy

    atoms = _atoms(spectrum)
    x, kappa, s, M, z = sympy.symbols("x kappa s M z")
    image = sum(p * x / (x + c * s) for c, p in atoms)
    in_s = _polynomial(s - 1 + (1 - image) / kappa, s)
    in_M = _polynomial(M - image.subs(s, 1 - (1 - x * M) / kappa) / x, M)
    discriminant = sympy.discriminant(in_M / sympy.LC(in_M, M), M).subs(x, -z)
    numerator = sympy.factor(sympy.numer(sympy.together(discriminant)))
    edges = sympy.prod(
        factor**power
        for factor, power in sympy.factor_list(numerator)[1]
        if z in factor.free_symbols and factor != z
    )
    edges = sympy.expand(edges / sympy.LC(sympy.expand(edges), z))
    delta = sympy.Function("Delta")(z)
    steps = {
        "The inflation s of the covariance:": (s, 1 - (1 - image) / kappa),
        "Without denominators:": (in_s, 0),
        "The resolvent M:": (in_M, 0),
        "Edges of the spectrum are zeros of the discriminant:": (delta, sympy.collect(edges, z)),
    }
    return _derivation(steps)


def derive_effective_ridge(spectrum: Mapping[Any, Any] | None = None) -> Derivation:
    r"""Derive the polynomial of the effective ridge :math:`\xi` at a finite ridge.

    Parameters
    ----------
    spectrum : mapping, optional
        As in `derive_resolvent`, of the task covariance.

    Returns
    -------
    Derivation
        The fixed point, what it makes of s, and the polynomial in :math:`\xi`, of degree one
        more than three times the number of eigenvalues.  Of its zeros the effective ridge is the
        positive one with :math:`(1 - \tau)\xi + \tau\lambda > 0`.

    Raises
    ------
    ValueError
        As `derive_resolvent`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import derive_effective_ridge
    >>> import sympy
    >>> xi = sympy.Symbol("xi", positive=True)
    >>> sympy.degree(derive_effective_ridge().result, xi)
    4
    """
    import sympy

    atoms = _atoms(spectrum)
    xi, tau, q, kappa, ridge = sympy.symbols("xi tau q kappa lambda", positive=True)
    M = sympy.Function("M")
    s = sympy.Symbol("s")
    resolvent = ((1 - tau) * xi + tau * ridge) / xi**2
    nu = q + xi
    inflation = 1 - (1 - nu * resolvent) / kappa
    difference = resolvent - sum(p / (nu + c * inflation) for c, p in atoms)
    ridge_regression = xi * M(nu) - tau * ridge / xi, 1 - tau
    steps = {
        "The effective ridge of ridge regression on n prompts:": ridge_regression,
        "So the resolvent is": (M(nu), resolvent),
        "and the inflation": (s, inflation),
        "In the equation of the resolvent:": (sympy.Integer(0), _polynomial(difference, xi)),
    }
    return _derivation(steps)


def derive_many_tasks(spectrum: Mapping[Any, Any] | None = None, *, order: int = 2) -> Derivation:
    r"""Expand the ridgeless ICL error at many tasks, for tau > 1, in powers of 1/kappa.

    Parameters
    ----------
    spectrum : mapping, optional
        As in `derive_resolvent`, of training and test tasks.
    order : int >= 0
        Highest power.

    Returns
    -------
    Derivation
        Series of s and M for any spectrum, in terms of :math:`r_{j,k} = \sum_i p_i c_i^j/(q +
        c_i)^k`, and of the ICL error for the given one, where :math:`q = (\sum_i p_i c_i +
        \rho)/\alpha`.

    Raises
    ------
    ValueError
        As `derive_resolvent`, or if order is not an integer >= 0.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import derive_many_tasks
    >>> derive_many_tasks(order=0).result
    tau*(q*rho + q + rho)/((q + 1)*(tau - 1))
    """
    import sympy

    check_integers(order=order)
    atoms = _atoms(spectrum)
    q, kappa, tau, rho, e = sympy.symbols("q kappa tau rho epsilon", positive=True)
    moments = {
        (j, k): sympy.Symbol(f"r_{{{j},{k}}}") for k in range(1, order + 3) for j in (k - 1, k)
    }

    def cut(value: Value) -> Value:
        expanded = sympy.collect(sympy.expand(value), e, evaluate=False)
        return sum(expanded.get(e**k, 0) * e**k for k in range(order + 1))

    def trace(power: int) -> Value:
        """Sum of p c^power/(q + c s) as a geometric series."""
        return cut(sum((1 - s) ** k * moments[k + power, k + 1] for k in range(order + 1)))

    s = sympy.Integer(1)
    for _ in range(order):
        s = cut(1 - e * s * trace(1))
    M = trace(0)
    T = trace(1)
    sums = {r: sum(p * c**j / (q + c) ** k for c, p in atoms) for (j, k), r in moments.items()}
    tidy = sympy.together if any(v.free_symbols for atom in atoms for v in atom) else sympy.factor

    m = [M.coeff(e, k).subs(sums) for k in range(order + 1)]
    t = [T.coeff(e, k).subs(sums) for k in range(order + 1)]
    noise = [-(q**2) * value for value in m]
    noise[0] += rho + q
    gain = [q * m[k] + t[k] for k in range(order + 1)]
    series = sum(
        tidy(
            noise[k]
            - q**2 * sympy.diff(gain[k], q)
            + sum(noise[i] * gain[k - i] for i in range(k + 1)) / (tau - 1)
        )
        / kappa**k
        for k in range(order + 1)
    )
    steps = {
        "The inflation s:": (sympy.Symbol("s"), s.subs(e, 1 / kappa)),
        "The resolvent M:": (sympy.Symbol("M"), M.subs(e, 1 / kappa)),
        "The ICL error:": (sympy.Symbol("e_{ICL}"), series),
    }
    return _derivation(steps)


def derive_threshold() -> Derivation:
    r"""Expand the ridgeless ICL error at the interpolation threshold tau = 1.

    Holds for any task covariance, in terms of :math:`M(x)` and :math:`T(x) = \frac1d E
    \operatorname{tr} C (\hat C + x)^{-1}` at :math:`x = q` and their derivatives there.

    Returns
    -------
    Derivation
        The exact error above the threshold; below it, at :math:`\tau = 1 - \delta`, the effective
        ridge to second order and the error to order :math:`\delta^0`: it diverges with the same
        coefficient.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import derive_threshold
    >>> derive_threshold().steps[0][1].lhs
    e_{ICL}
    """
    import sympy

    q, tau, rho, delta = sympy.symbols("q tau rho delta", positive=True)
    M = [sympy.Symbol("M" + "'" * k) for k in range(4)]
    T = [sympy.Symbol("T" + "'" * k) for k in range(4)]
    name = sympy.Symbol("e_{ICL}")
    noise = rho + q - q**2 * M[0]
    gain = q * M[0] + T[0]
    gain_slope = M[0] + q * M[1] + T[1]
    above = noise - q**2 * gain_slope + noise * gain / (tau - 1)

    def at(values: list[Value], xi: Value, start: int = 0) -> Value:
        terms = enumerate(values[start:])
        return sum(value * xi**k / sympy.factorial(k) for k, value in terms)

    # xi M(q + xi) = delta to second order.
    xi = delta / M[0] - M[1] * delta**2 / M[0] ** 3
    nu = q + xi
    m = at(M, xi)
    slope = at(M, xi, 1)
    t = at(T, xi)
    t_slope = at(T, xi, 1)
    bias = 1 - 2 * nu * m - nu**2 * slope
    # The denominator tau - df2 is delta to leading order.
    remaining = sympy.expand((2 * xi * m + xi**2 * slope - delta) / delta)
    Q = (rho + nu - nu**2 * m - xi * bias) / remaining
    error = (rho + q * bias - nu**2 * t_slope) * delta + Q * (
        q * (m + xi * slope) + t + xi * t_slope
    )
    terms = [sympy.factor(sympy.diff(error, delta, k).subs(delta, 0)) for k in range(2)]
    steps = {
        "More prompts than parameters:": (name, above),
        "Fewer, at tau = 1 - delta: the effective ridge:": (sympy.Symbol("xi"), xi),
        "The ICL error:": (name, terms[0] / delta + terms[1]),
    }
    return _derivation(steps)


def _derivation(steps: Mapping[str, tuple[Any, Any]]) -> Derivation:
    """Derivation of the two sides of each equation."""
    import sympy

    return Derivation(tuple((text, sympy.Eq(*sides)) for text, sides in steps.items()))


def _polynomial(difference: Value, variable: Value) -> Value:
    """Numerator as a polynomial, collected."""
    import sympy

    return sympy.collect(sympy.expand(sympy.numer(sympy.together(difference))), variable)


def _atoms(spectrum: Mapping[Any, Any] | None) -> list[tuple[Value, Value]]:
    import sympy

    given = {1: 1} if spectrum is None else spectrum
    if not isinstance(given, Mapping):
        raise TypeError(f"spectrum must map eigenvalues to weights, got {given!r}")
    if not given:
        raise ValueError("spectrum must have an eigenvalue, got an empty one")
    atoms = [(sympy.nsimplify(c), sympy.nsimplify(p)) for c, p in given.items()]
    for value in (v for atom in atoms for v in atom):
        if value.is_negative:
            raise ValueError(f"spectrum must hold eigenvalues and weights >= 0, got {value}")
    total = sympy.simplify(sum(p for _, p in atoms))
    if total.is_number and total != 1:
        raise ValueError(f"spectrum must have weights that sum to 1, got {total}")
    return atoms
