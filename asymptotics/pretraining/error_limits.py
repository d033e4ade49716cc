r"""Limits of the ICL and IDG errors as SymPy equations.

In :math:`t = 1 - \xi M` and the inflation w, which take the place of the effective ridge and of
the resolvent, the errors are rational functions:

.. math:: \xi = \frac{1 - t}{M}, \quad \eta = 1 - \frac t\tau, \quad
   q = \frac tM - \frac1w, \quad \kappa = \frac M{w - 1},

and without ridge :math:`t = \min(\tau, 1)`.  Many tasks are :math:`w \to 1` at fixed q, and long
contexts :math:`w \to \kappa/(\kappa - t)`, or infinity, at fixed :math:`\kappa`.  So each limit is
the value of a rational function whose common factors have been cancelled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from iclimit.asymptotics.derivation import Derivation
from iclimit.asymptotics.numbers import SymPyMath, Value
from iclimit.asymptotics.pretraining.icl import error_parts, errors_of

# Text; parameter, its limit and the side it comes from; factors of both errors; their limits.
Row = tuple[str, str, Any, str, tuple[Any, Any], tuple[Any, Any]]


def derive_error_limits() -> Derivation:
    r"""Derive limits of the ICL and the IDG error, without and with ridge.

    The parameters tau, alpha, kappa and the ridge tend to 0 or infinity, and tau to 1.

    Returns
    -------
    Derivation
        Two equations for each limit, of the ICL and of the IDG error, with a SymPy ``Limit`` on
        the left side; an error that diverges has a factor there.  Symbols are those of
        `derive_icl_error`, with :math:`M, w, r, A` at the :math:`\nu` that the text gives.

    See Also
    --------
    derive_threshold : the next term at tau = 1, for any task covariance.
    derive_many_tasks : further terms in 1/kappa.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import derive_error_limits
    >>> for text, equation in derive_error_limits().steps[8:10]:
    ...     print(text, equation.rhs)
    tau = 1 from above, no ridge, nu = q: M*(q + 1)*(M*q + rho*w)/w
    tau = 1 from above, no ridge, nu = q: (M*q + rho*w)/w
    """
    import sympy

    errors = sympy.symbols("e_{ICL} e_{IDG}", positive=True)
    algebra = _Algebra()
    steps = []
    for rows in (algebra.named(), algebra.threshold(), algebra.ridgeless(), algebra.ridge()):
        for text, parameter, point, side, factors, limits in rows:
            variable = algebra.symbols[parameter]
            for factor, error, limit in zip(factors, errors, limits, strict=True):
                limit_of = sympy.Limit(factor * error, variable, point, side)
                steps.append((f"{text}:", sympy.Eq(limit_of, limit, evaluate=False)))
    return Derivation(tuple(steps))


def _errors(
    rho: Value,
    tau: Value,
    kappa: Value,
    q: Value,
    xi: Value,
    eta: Value,
    M: Value,
    known: Mapping[str, Value] | None = None,
) -> tuple[Value, Value]:
    """Both errors, with known intermediates in place of their values."""

    def let(name: str, value: Value) -> Value:
        return (known or {}).get(name, value)

    parts = error_parts(tau, kappa, rho, q, xi, M, let)
    return errors_of(SymPyMath(), tau, xi, eta, parts, let)


class _Algebra:
    """The errors as rational functions, in elements of a field, and their limits in symbols."""

    def __init__(self) -> None:
        import sympy

        names = "tau rho kappa q nu xi eta M w u r A e_{IDG} alpha lambda"
        self.symbols = {name: sympy.Symbol(name, positive=True) for name in names.split()}
        elements = sympy.field([*self.symbols.values()], sympy.QQ)[1:]
        self.tau, self.rho, self.kappa, self.q, self.nu, self.xi, self.eta = elements[:7]
        self.M, self.w, self.u = elements[7:10]
        self.oo = sympy.oo
        self.sqrt = sympy.sqrt

    def limits(self, values: Value, point: dict[str, Any], *below: Any) -> Value:
        """Rational functions at a point; factors below 0 change sign, to print as positive."""
        import sympy

        tau = self.symbols["tau"]
        rho = self.symbols["rho"]
        signs = {factor: -sympy.Symbol(f"d_{k}") for k, factor in enumerate(below)}
        substitution = {self.symbols[name]: value for name, value in point.items()}

        def collected(part: Value, symbol: Value) -> Value:
            factors = (
                sympy.collect(factor.expand(), symbol, sympy.factor) if factor.is_Add else factor
                for factor in sympy.Mul.make_args(part)
            )
            return sympy.Mul(*factors).xreplace(signs)

        def tidy(value: Value) -> Value:
            value = sympy.factor(value.as_expr().subs(substitution)).xreplace(signs)
            top, bottom = sympy.fraction(value)
            if sympy.LC(bottom.expand(), tau).is_negative:
                top = -top
                bottom = -bottom
            value = collected(top, rho) / collected(bottom, tau)
            return value.subs({-sign: -factor for factor, sign in signs.items()})

        return tuple(tidy(value) for value in values)

    def at_context(self, t: Value, w: Value) -> tuple[Value, Value]:
        """Both errors at fixed q; the number of tasks follows from w."""
        M = t / (self.q + 1 / w)
        return _errors(self.rho, self.tau, M / (w - 1), self.q, (1 - t) / M, 1 - t / self.tau, M)

    def at_tasks(self, t: Value, w: Value) -> tuple[tuple[Value, Value], Value]:
        """Both errors at fixed kappa, and the q that follows from w."""
        M = self.kappa * (w - 1)
        q = t / M - 1 / w
        xi = (1 - t) / M
        eta = 1 - t / self.tau
        return _errors(self.rho, self.tau, self.kappa, q, xi, eta, M), q

    def named(self) -> Iterator[Row]:
        """Limits in the names of the resolvent, in the form that the code has."""
        import sympy

        known = {name: self.symbols[name] for name in ("nu", "w", "r", "A")}
        rho = self.symbols["rho"]
        tau = self.symbols["tau"]
        kappa = self.symbols["kappa"]
        q = self.symbols["q"]
        xi = self.symbols["xi"]
        eta = self.symbols["eta"]
        M = self.symbols["M"]
        ridge = self.symbols["lambda"]
        error = self.symbols["e_{IDG}"]

        def both(q: Value, xi: Value, eta: Value, tau: Value = tau) -> tuple[Value, Value]:
            """The ICL error in the name of the IDG error, and the IDG error."""
            point = rho, tau, kappa, q, xi, eta, M
            return _errors(*point, known | {"IDG": error})[0], _errors(*point, known)[1]

        yield "tau > 1, nu = q", "lambda", 0, "+", (1, 1), both(q, 0, 1 - 1 / tau)
        # Below the threshold the fixed point makes the ICL error linear in u = M/w = 1 - nu M.
        value = (1 - self.u) / (self.q + self.xi)
        w = value / self.u
        point = 1 - self.xi * value, value / (w - 1), self.q, self.xi, 0 * self.q, value
        icl = _errors(self.rho, *point)[0].as_expr().expand()
        icl = sympy.collect(icl, [rho, self.symbols["u"]], sympy.factor)
        limits = icl.subs(self.symbols["u"], M / known["w"]), both(q, xi, 0)[1]
        yield "tau < 1, nu = q + xi", "lambda", 0, "+", (1, 1), limits
        limits = both(q, ridge, 1, self.oo)
        yield "Any ridge, nu = q + lambda", "tau", self.oo, "+", (1, 1), limits
        yield "Positive ridge, nu = xi", "alpha", self.oo, "+", (1, 1), both(0, xi, eta)

    def threshold(self) -> Iterator[Row]:
        """Limits at tau = 1, where nu = q."""
        tau = self.tau
        kappa = self.kappa
        q = self.q
        M = self.M
        w = self.w
        xi = self.xi
        excess = self.symbols["tau"] - 1
        penalty = self.symbols["lambda"]
        at_one = {"tau": 1}
        above = _errors(self.rho, tau, kappa, q, 0 * q, 1 - 1 / tau, M, {"w": w})
        limits = self.limits([value * (tau - 1) for value in above], at_one)
        yield "tau = 1 from above, no ridge, nu = q", "tau", 1, "+", (excess, excess), limits
        below = _errors(self.rho, tau, kappa, q, (1 - tau) / M, 0 * q, M, {"w": w})
        limits = self.limits([value * (1 - tau) for value in below], at_one)
        yield "tau = 1 from below, no ridge, nu = q", "tau", 1, "-", (-excess, -excess), limits
        # The fixed point at tau = 1 is eta = xi M, so the ridge is M xi^2.
        values = _errors(self.rho, tau**0, kappa, q, xi, xi * M, M, {"w": w})
        root = self.sqrt(self.symbols["M"])
        icl, idg = self.limits([value * xi for value in values], {"xi": 0})
        factor = self.sqrt(penalty)
        yield "tau = 1, nu = q", "lambda", 0, "+", (factor, factor), (icl * root, idg * root)

    def ridgeless(self) -> Iterator[Row]:
        """Limits in kappa and alpha without ridge, on either side of tau = 1."""
        tau = self.symbols["tau"]
        kappa = self.symbols["kappa"]
        alpha = self.symbols["alpha"]
        w = self.w
        u = self.u
        oo = self.oo
        # u is 1/w
        w_one = {"w": 1}
        u_zero = {"u": 0}
        for t, least, negative in ((self.tau**0, 1, ()), (self.tau, tau, (tau - 1,))):
            text = f"No ridge, tau {'<' if negative else '>'} 1"
            limits = self.limits(self.at_context(t, w), w_one, *negative)
            yield text, "kappa", oo, "+", (1, 1), limits
            limits = self.limits(self.at_context(t, 1 / u), u_zero, *negative)
            yield text, "kappa", 0, "+", (1, 1), limits
            errors, _ = self.at_tasks(t, w)
            yield text, "alpha", 0, "+", (1, 1), self.limits(errors, w_one, *negative)
            limits = self.limits(errors, {"w": kappa / (kappa - least)}, *negative)
            yield f"{text}, kappa > {least}", "alpha", oo, "+", (1, 1), limits
            (icl, idg), q = self.at_tasks(t, 1 / u)
            scaled = icl * q / (1 + self.rho), idg
            limits = self.limits(scaled, u_zero, kappa - least, kappa - 1, *negative)
            yield f"{text}, kappa < {least}", "alpha", oo, "+", (1 / alpha, 1), limits

    def ridge(self) -> Iterator[Row]:
        """Limits in which nothing is learned, and those in kappa, which leave xi to be found."""
        tau = self.tau
        kappa = self.kappa
        q = self.q
        nu = self.nu
        eta = self.eta
        M = kappa * (self.w - 1)
        t = M * (q + 1 / self.w)
        values = _errors(self.rho, tau, kappa, q, (1 - t) / M, 1 - t / tau, M)
        yield "Any tau", "lambda", self.oo, "+", (1, 1), self.limits(values, {"w": 1})
        values = _errors(self.rho, t / (1 - eta), kappa, q, (1 - t) / M, eta, M)
        yield "Any ridge", "tau", 0, "+", (1, 1), self.limits(values, {"w": 1})
        for point, end, w, resolvent in (
            (self.oo, {"w": 1}, self.w, "1/(1 + nu)"),
            (0, {"u": 0}, 1 / self.u, "1/nu"),
        ):
            M = 1 / (nu + 1 / w)
            xi = nu - q
            values = _errors(self.rho, tau, M / (w - 1), q, xi, 1 - (1 - xi * M) / tau, M)
            text = f"Positive ridge, nu = q + xi, M = {resolvent}"
            yield text, "kappa", point, "+", (1, 1), self.limits(values, end)
