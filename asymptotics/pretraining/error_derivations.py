r"""The ICL and IDG errors as SymPy equations, step by step, with LaTeX for papers.

The first steps are means over the eigenvalues c of the sample covariance of the training tasks,
with :math:`F = 1/(c + \nu)` and :math:`G = c + q` (steps 1 to 4 of the theory page).  The last
ones, free of cancellation, come from the code that computes numbers: run on symbols, it hands over
each intermediate with its name.
"""

from __future__ import annotations

from typing import Any

from iclimit.asymptotics.checks import check_range
from iclimit.asymptotics.derivation import Derivation
from iclimit.asymptotics.numbers import Number, SymPyMath, Value, convert
from iclimit.asymptotics.pretraining.icl import context_noise, errors_at, ridgeless_point

# Intermediates of `errors_at`, in order, and their symbols.
SYMBOLS = {name: name for name in ("nu", "M", "w", "r", "A")} | {
    "IDG": "e_{IDG}",
    "ICL": "e_{ICL}",
}

# Steps in their order, and what is done in each.
TEXTS = {
    "q": "Variance that a finite context adds to each coordinate of a task:",
    "nu": "Argument of the resolvent, with the effective ridge:",
    "M": "Resolvent of the sample covariance of the training tasks:",
    "xi": "Effective ridge on n prompts, positive with a ridge or below tau = 1:",
    "eta": "Share of the ridge in the effective ridge:",
    "IDG traces": "IDG error as means over the spectrum, M' being the derivative of M:",
    "ICL traces": "ICL error in the same way:",
    "w": "Inflation of the resolvent by finitely many tasks:",
    "r": "Denominator of the derivative of the resolvent:",
    "slope": "Derivative of the resolvent, from its quadratic equation:",
    "A": "Variance of the predictor per unit of error, the mean of F G F:",
    "IDG": "IDG error in positive terms:",
    "ICL": "ICL error in positive terms:",
}


def derive_icl_error(*, ridge: Number | None = None) -> Derivation:
    r"""Derive the ICL error: effective ridge, means over the spectrum, compact form.

    Parameters
    ----------
    ridge : number or SymPy expression, optional
        Ridge :math:`\lambda`; a symbol by default.  At 0 the effective ridge is explicit, on both
        sides of :math:`\tau = 1`.

    Returns
    -------
    Derivation
        Equations for :math:`q, \nu, M, \xi, \eta, w, r, A` and both errors.
        ``latex(compact=True)`` leaves out how they were found.

    Raises
    ------
    TypeError, ValueError
        If the ridge is not a number, or negative.

    References
    ----------
    Lu, Letey, Zavatone-Veth, Maiti, Pehlevan, PNAS 122 (2025), arXiv:2405.11751, for ridge 0.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import derive_icl_error
    >>> derivation = derive_icl_error()
    >>> derivation.result
    A*e_{IDG}*(q + 1)/tau + M*nu**2*w**2/r + M*q*(M*nu*w/kappa + 1)/(r*w) + rho
    >>> len(derivation.latex(compact=True).splitlines())
    8
    """
    return Derivation(tuple(_steps(ridge).values()))


def derive_idg_error(*, ridge: Number | None = None) -> Derivation:
    """Derive the IDG error, in the way of `derive_icl_error`.

    Parameters
    ----------
    ridge : number or SymPy expression, optional
        As in `derive_icl_error`.

    Returns
    -------
    Derivation
        The same steps without those of the ICL error.

    Raises
    ------
    TypeError, ValueError
        As `derive_icl_error`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import derive_idg_error
    >>> derive_idg_error().result
    (M*nu*xi/r + M*q/w + rho)/(A*xi/tau + eta)
    """
    steps = _steps(ridge)
    return Derivation(tuple(step for name, step in steps.items() if "ICL" not in name))


def _steps(ridge: Number | None) -> dict[str, tuple[str, Any]]:
    import sympy

    math_ = SymPyMath()
    tau, alpha, kappa, rho, q, xi, eta = sympy.symbols(
        "tau alpha kappa rho q xi eta", positive=True
    )
    penalty = sympy.Symbol("lambda", positive=True)
    if ridge is not None:
        penalty = convert(math_, "ridge", ridge)
        check_range(math_, "ridge", penalty)
    symbols = {name: sympy.Symbol(symbol, positive=True) for name, symbol in SYMBOLS.items()}
    M = symbols["M"]
    nu = symbols["nu"]
    slope = sympy.Symbol("M'")
    equations = {"q": (q, context_noise(math_, alpha, rho))}

    def let(name: str, value: Value) -> Value:
        equations[name] = symbols[name], value
        return symbols[name]

    errors_at(math_, tau, kappa, rho, q, xi, eta, let)
    if penalty.is_zero:
        order = ["q", "xi", "eta", *TEXTS]
        solution = ridgeless_point(math_, tau < 1, tau, q, kappa)
    else:
        order = [*TEXTS]
        solution = (1 - tau + tau * penalty / xi) / M, penalty / xi
    quadratic = nu * M**2 / kappa + (nu + 1 - 1 / kappa) * M - 1
    by_traces = _errors_by_traces(tau, rho, q, nu, M, slope, symbols["IDG"])
    equations |= {
        "xi": (xi, solution[0]),
        "eta": (eta, solution[1]),
        "slope": (slope, sympy.factor(-sympy.diff(quadratic, nu) / sympy.diff(quadratic, M))),
        "IDG traces": (symbols["IDG"], by_traces[0]),
        "ICL traces": (symbols["ICL"], by_traces[1]),
    }
    return {
        name: (TEXTS[name], sympy.Eq(*equations[name], evaluate=False))
        for name in dict.fromkeys(order)
    }


def _errors_by_traces(
    tau: Value, rho: Value, q: Value, nu: Value, M: Value, slope: Value, error: Value
) -> tuple[Value, Value]:
    """IDG and ICL error as means over the eigenvalues c of the covariance of the tasks."""
    import sympy

    c, y = sympy.symbols("c y")
    F = 1 / (c + nu)
    G = c + q

    def mean(function: Value) -> Value:
        """Mean of a Laurent polynomial in y = c + nu, where c has mean 1."""
        moments = {1: 1 + nu, 0: 1, -1: M, -2: -slope}
        expanded = sympy.expand(sympy.expand(function).subs(c, y - nu))
        terms = ((expanded.coeff(y, power), value) for power, value in moments.items())
        return sum(sympy.factor(coefficient) * value for coefficient, value in terms)

    risk = rho + mean(c - 2 * c**2 * F + c**2 * F**2 * G)
    fresh_risk = 1 + rho + mean(-2 * c * F + (1 + q) * c**2 * F**2)
    idg = risk / (1 - mean(G**2 * F**2) / tau)
    return idg, fresh_risk + error / tau * (1 + q) * mean(F**2 * G)
