"""Polynomials and series of the fixed points against numbers found in other ways."""

import mpmath
import numpy as np
import pytest
import sympy

from iclimit.asymptotics.pretraining import JointSpectrum, icl_error, structured_errors
from iclimit.asymptotics.pretraining.fixed_point_derivations import (
    derive_effective_ridge,
    derive_many_tasks,
    derive_resolvent,
    derive_threshold,
)
from iclimit.asymptotics.pretraining.icl import effective_ridge_mp
from iclimit.asymptotics.spectra import wishart_resolvent

HALF = sympy.Rational(1, 2)
TWO = {1: HALF, 4: HALF}
a, b, p = sympy.symbols("a b p", positive=True)


def positive(names):
    return sympy.symbols(names, positive=True)


def resolvent(x, kappa, spectrum):
    """M(x) by a root search in s."""

    def trace(s):
        return sum(mpmath.mpf(str(w)) / (x + c * s) for c, w in atoms)

    atoms = [(mpmath.mpf(float(c)), mpmath.mpf(float(w))) for c, w in spectrum.items()]
    s = mpmath.findroot(
        lambda s: s - 1 + (1 - x * trace(s)) / kappa, (mpmath.mpf("1e-9"), 1), solver="anderson"
    )
    return trace(s)


@pytest.mark.parametrize("spectrum", [None, TWO])
def test_resolvent_solves_its_polynomial(spectrum):
    derivation = derive_resolvent(spectrum)
    with mpmath.workdps(30):
        x = mpmath.mpf("0.3")
        kappa = mpmath.mpf("1.7")
        M = resolvent(x, kappa, spectrum or {1: 1})
        s = 1 - (1 - x * M) / kappa
        values = {"x": x, "kappa": kappa, "M": M, "s": s}
        for _, equation in derivation.steps[1:3]:
            found = sympy.lambdify(list(values), equation.lhs, "mpmath")(*values.values())
            assert abs(found) < 1e-25


def test_edges_of_isotropic_tasks():
    z, kappa = sympy.symbols("z kappa")
    lower, upper = ((1 - sign / sympy.sqrt(kappa)) ** 2 for sign in (1, -1))
    assert sympy.expand(derive_resolvent().result - (z - lower) * (z - upper)) == 0


@pytest.mark.parametrize("kappa", [0.5, 4.0, 60.0])
def test_edges_of_two_levels(kappa):
    """Silverstein and Choi: edges are the stationary values of z(v) on the real axis."""
    levels = np.array([1.0, 4.0])
    weights = np.array([0.5, 0.5])
    v = np.poly1d([1.0, 0.0])
    factors = [np.poly1d([c, 1.0]) for c in levels]
    both = factors[0] ** 2 * factors[1] ** 2
    slope = both - v**2 / kappa * sum(
        w * c**2 * factors[1 - i] ** 2
        for i, (c, w) in enumerate(zip(levels, weights, strict=True))
    )
    stationary = slope.roots[np.abs(slope.roots.imag) < 1e-9].real
    edges = (
        -1 / stationary + (weights * levels / (1 + np.outer(stationary, levels))).sum(1) / kappa
    )
    z, k = sympy.symbols("z kappa")
    polynomial = sympy.Poly(derive_resolvent(TWO).result.subs(k, sympy.nsimplify(kappa)), z)
    zeros = np.roots([float(c) for c in polynomial.all_coeffs()])
    assert len(edges) in (2, 4)
    for edge in edges:
        assert np.min(np.abs(zeros - edge)) < 1e-7 * edge


def test_effective_ridge_is_the_one_zero_of_its_kind():
    for tau in ("0.4", "1", "1.6"):
        derivation = derive_effective_ridge()
        with mpmath.workdps(30):
            tau_, q, kappa, ridge = (mpmath.mpf(v) for v in (tau, "0.7", "0.5", "0.05"))
            symbols = positive("tau q kappa lambda")
            xi = sympy.Symbol("xi", positive=True)
            values = dict(zip(symbols, map(sympy.Float, (tau_, q, kappa, ridge)), strict=True))
            coefficients = sympy.Poly(derivation.result.subs(values), xi).all_coeffs()
            zeros = mpmath.polyroots(
                [mpmath.mpf(c) for c in coefficients], maxsteps=500, extraprec=200
            )
            real = [z.real for z in map(mpmath.mpc, zeros) if abs(z.imag) < 1e-15 and z.real > 0]
            allowed = [z for z in real if (1 - tau_) * z + tau_ * ridge > 0]
            expected = effective_ridge_mp(tau_, q, kappa, ridge)
            assert len(allowed) == 1
            assert abs(allowed[0] / expected - 1) < 1e-20


def error_of(kappa, spectrum, tau, q, rho):
    """Ridgeless ICL error for tau > 1 by traces, derivatives by mpmath."""

    def M(x):
        return resolvent(x, kappa, spectrum)

    def T(x):
        return (1 - x * M(x)) / (1 - (1 - x * M(x)) / kappa)

    noise = rho + q - q**2 * M(q)
    context = rho + q * (1 - 2 * q * M(q) - q**2 * mpmath.diff(M, q)) - q**2 * mpmath.diff(T, q)
    return context + noise * (q * M(q) + T(q)) / (tau - 1)


@pytest.mark.parametrize("spectrum", [None, TWO])
def test_many_tasks(spectrum):
    derivation = derive_many_tasks(spectrum, order=2)
    with mpmath.workdps(60):
        tau, q, rho = (mpmath.mpf(v) for v in ("1.6", "0.7", "0.1"))
        series = sympy.lambdify(positive("kappa tau q rho"), derivation.result, "mpmath")
        left = []
        for kappa in (mpmath.mpf(10) ** 5, mpmath.mpf(10) ** 6):
            exact = (
                icl_error(tau=tau, alpha=(1 + rho) / q, kappa=kappa, rho=rho)
                if spectrum is None
                else error_of(kappa, spectrum, tau, q, rho)
            )
            left.append((exact - series(kappa, tau, q, rho)) * kappa**3)
        assert left[0] != 0
        assert abs(left[1] / left[0] - 1) < 1e-3


@pytest.mark.slow
def test_two_symbolic_levels_contain_the_numbers():
    general = derive_many_tasks({a: p, b: 1 - p}, order=1).result
    special = general.subs({a: 1, b: 4, p: HALF})
    assert sympy.simplify(special - derive_many_tasks(TWO, order=1).result) == 0
    xi = sympy.Symbol("xi", positive=True)
    polynomial = derive_effective_ridge({a: p, b: 1 - p}).result
    assert sympy.degree(polynomial, xi) == 7
    ratio = polynomial.subs({a: 1, b: 4, p: HALF}) / derive_effective_ridge(TWO).result
    assert sympy.cancel(ratio).is_number


def test_threshold():
    derivation = derive_threshold()
    with mpmath.workdps(60):
        q, rho, kappa = (mpmath.mpf(v) for v in ("0.7", "0.1", "0.5"))

        def M(x):
            return wishart_resolvent(x, kappa=kappa)

        def T(x):
            return (1 - x * M(x)) / (1 - (1 - x * M(x)) / kappa)

        known = {
            sympy.Symbol(f"M{dash}"): mpmath.diff(M, q, k) for k, dash in enumerate(("", "'"))
        }
        known |= {
            sympy.Symbol(f"T{dash}"): mpmath.diff(T, q, k) for k, dash in enumerate(("", "'"))
        }
        symbols = [*positive("q rho"), *known]
        for side, (variable, equation) in {
            1: ("tau", derivation.steps[0][1]),
            -1: ("delta", derivation.steps[2][1]),
        }.items():
            series = sympy.lambdify([*symbols, positive(variable)], equation.rhs, "mpmath")
            left = []
            for delta in (mpmath.mpf("1e-8"), mpmath.mpf("1e-9")):
                tau = 1 + side * delta
                exact = icl_error(tau=tau, alpha=(1 + rho) / q, kappa=kappa, rho=rho)
                found = series(q, rho, *known.values(), tau if side > 0 else delta)
                left.append(abs(exact - found) / delta)
            assert left[1] < 1e-20 if side > 0 else 0.9 < left[1] / left[0] < 1.1


def test_threshold_of_two_levels():
    """With the resolvents of two levels, the errors for structured data on both sides."""
    rho = 0.1
    alpha = 2.0
    kappa = 1.5
    near = 1e-5
    q = (1 + rho) / alpha
    levels = {HALF: HALF, 3 * HALF: HALF}
    known = {"q": q, "rho": rho, "delta": near}
    with mpmath.workdps(30):

        def T(x):
            return (1 - x * M(x)) / (1 - (1 - x * M(x)) / kappa)

        def M(x):
            return resolvent(x, mpmath.mpf(kappa), levels)

        for name, function in (("M", M), ("T", T)):
            known |= {name: function(q), f"{name}'": mpmath.diff(function, mpmath.mpf(q))}
    steps = derive_threshold().steps
    spectrum = JointSpectrum.of_matrices([0.5, 1.5])
    for tau, equation, rel in ((1.6, steps[0][1], 1e-11), (1 - near, steps[2][1], 1e-8)):
        values = known | {"tau": tau}
        found = equation.rhs.subs({s: values[s.name] for s in equation.rhs.free_symbols})
        errors = structured_errors(tau=tau, alpha=alpha, kappa=kappa, rho=rho, spectrum=spectrum)
        assert float(found) == pytest.approx(float(errors.icl), rel=rel)


def value_at(expression, values):
    """Value of an expression at numbers of its symbols."""
    symbols = sorted(expression.free_symbols, key=str)
    return sympy.lambdify(symbols, expression, "mpmath")(*(values[str(s)] for s in symbols))


@pytest.mark.parametrize("spectrum", [None, TWO])
def test_inflation_of_the_resolvent(spectrum):
    """The first step, at the inflation that the resolvent of a root search has."""
    inflation = derive_resolvent(spectrum).steps[0][1]
    with mpmath.workdps(30):
        x = mpmath.mpf("0.3")
        kappa = mpmath.mpf("2.7")
        atoms = spectrum or {1: 1}
        s = 1 - (1 - x * resolvent(x, kappa, atoms)) / kappa
        right_side = value_at(inflation.rhs, {"x": x, "kappa": kappa, "s": s})
        assert abs(right_side - s) < 1e-25


def test_steps_of_the_effective_ridge():
    """Resolvent, inflation and ridge regression, from any effective ridge and the tau of it."""
    equations = [equation for _, equation in derive_effective_ridge().steps]
    regression, by_ridge, inflation, polynomial = equations
    with mpmath.workdps(30):
        xi = mpmath.mpf("0.6")
        ridge = mpmath.mpf("0.25")
        q = mpmath.mpf("0.7")
        kappa = mpmath.mpf("2.5")
        M = resolvent(q + xi, kappa, {1: 1})
        tau = (1 - xi * M) / (1 - ridge / xi)
        at = {"xi": xi, "tau": tau, "q": q, "kappa": kappa, "lambda": ridge, "M": M}
        assert abs(value_at(by_ridge.rhs, at) - M) < 1e-25
        s = 1 - (1 - (q + xi) * M) / kappa
        assert abs(value_at(inflation.rhs, at) - s) < 1e-25
        assert abs(value_at(polynomial.rhs, at)) < 1e-25
        plain = regression.lhs.replace(sympy.Function("M"), lambda _: sympy.Symbol("M"))
        assert abs(value_at(plain, at) - (1 - tau)) < 1e-25


def test_inflation_and_resolvent_of_many_tasks():
    """What is left of their series of first order is proportional to the inverse square."""
    equations = [equation for _, equation in derive_many_tasks(TWO, order=1).steps]
    inflation, by_tasks, _ = equations
    with mpmath.workdps(60):
        q = mpmath.mpf("0.7")
        means = {
            f"r_{{{j},{k}}}": sum(mpmath.mpf(c) ** j / (q + c) ** k for c in (1, 4)) / 2
            for k in range(1, 4)
            for j in (k - 1, k)
        }
        left = []
        for kappa in (mpmath.mpf(10) ** 5, mpmath.mpf(10) ** 6):
            at = means | {"q": q, "kappa": kappa}
            M = resolvent(q, kappa, TWO)
            s = 1 - (1 - q * M) / kappa
            of_inflation = s - value_at(inflation.rhs, at)
            of_resolvent = M - value_at(by_tasks.rhs, at)
            left.append([of_inflation * kappa**2, of_resolvent * kappa**2])
        for first, second in zip(*left, strict=True):
            assert first != 0
            assert abs(second / first - 1) < 1e-3


def test_effective_ridge_at_the_threshold():
    """It solves xi M(q + xi) = delta up to the second order in the distance delta."""
    ridge = derive_threshold().steps[1][1]
    with mpmath.workdps(60):
        q = mpmath.mpf("0.7")
        kappa = mpmath.mpf("2.5")

        def M(x):
            return resolvent(x, kappa, TWO)

        values = {"q": q, "M": M(q), "M'": mpmath.diff(M, q)}
        left = []
        for delta in (mpmath.mpf("1e-8"), mpmath.mpf("1e-9")):
            xi = value_at(ridge.rhs, values | {"delta": delta})
            left.append((xi * M(q + xi) / delta - 1) / delta)
        assert abs(left[0]) < 1e-6
        assert abs(left[1] / left[0]) < 0.2
