"""Printed derivations hold, equation by equation.

Symbols of the SymPy derivations are replaced by drawn numbers, and both sides of every equation
compared: rates, Wishart moments and schedules; softmax heads, long contexts and sines; the ICL and
the IDG error, whose steps are put into each other; polynomials of resolvent and effective ridge,
whose roots are found numerically; and series in the number of tasks and at the interpolation
threshold.  The numbers come from the functions that compute numbers, or from equations that are
solved here.

Source: the sources of each derivation.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import mpmath
import numpy as np
import sympy
from numpy.random import SeedSequence

from iclimit.asymptotics import descent, pretraining, softmax, spectra
from iclimit.asymptotics.derivation import Derivation
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows
from iclimit.validation.claims.random_settings import Pair, pair_rows

# Relative difference of both sides, or absolute of a side that vanishes; digits of numbers.
TOLERANCE, DIGITS = 1e-7, 40
# Eigenvalues of a task covariance, equally frequent.
LEVELS = (1, 4)
# The kappa, and the distance from tau = 1, at which series are compared.
FAR, CLOSE = mpmath.mpf(10) ** 10, mpmath.mpf(10) ** -10

# Label and both sides.
Sides: TypeAlias = tuple[str, Any, Any]


def number(expression: Any, values: Mapping[str, Any]) -> Any:
    """Value of an expression at values of its symbols."""
    names = sorted(expression.free_symbols, key=str)
    return sympy.lambdify(names, expression, "mpmath")(*(values[str(each)] for each in names))


def sides(derivation: Derivation) -> list[Any]:
    """The equations."""
    return [equation for _, equation in derivation.steps]


def of_descent(draw: Callable[[float, float], Any]) -> Iterator[Sides]:
    """One step, Wishart moments, and schedules of two steps."""
    law = (draw(0.5, 2), draw(5, 8))
    sizes: dict[str, Any] = {"N": 11, "d": 3, "a": draw(0.5, 2), "sigma": draw(0.1, 1)}
    values = sizes | {"m_2": law[0], "m_4": law[1], "eta": draw(0.01, 0.05)}
    loss, slope, rate, least = sides(descent.derive_learning_rate(normalization="sum"))
    setting: dict[str, Any] = {"context": 11, "dim": 3, "input_law": law, "normalization": "sum"}
    setting |= {"noise_variance": values["sigma"] ** 2, "task_variance": values["a"] ** 2}

    def curve(eta: Any) -> Any:
        return descent.learning_rate_loss(eta, **setting)

    best = descent.optimal_learning_rate(**setting)
    yield "loss of one step", curve(values["eta"]), number(loss.rhs, values)
    yield "slope of one step", mpmath.diff(curve, values["eta"]), number(slope.lhs, values)
    yield "best rate", best.rate, number(rate.rhs, values)
    yield "least loss of one step", best.loss, number(least.rhs, values)

    known: dict[str, Any] = {"N": 7, "d": 4}
    moments = sides(descent.derive_wishart_moment(3))
    for equation in moments:
        for symbol in equation.free_symbols - equation.rhs.free_symbols:
            powers = [int(k) for k in re.findall(r"p_\{(\d+)\}", symbol.name)]
            known[str(symbol)] = spectra.wishart_moment(powers, context=7, dim=4)
    for number_, equation in enumerate(moments):
        yield (
            f"Wishart moment {number_ + 1}",
            known[str(equation.lhs)],
            number(equation.rhs, known),
        )
    entries = spectra.IndependentEntries(context=7, dim=4, input_law="gaussian").moment(3)
    yield "third Wishart moment", 4 * 7**3 * entries, number(moments[-1].rhs, known)

    c = draw(0.3, 2)
    x = draw(0.5, 2)
    loss, residual, product, least = sides(descent.derive_schedule(2))
    two = descent.optimal_schedule(steps=2, ratio=float(c))
    values = {"c": c, "lambda": x}
    first, second = (
        mpmath.diff(lambda y: number(residual.rhs, {"c": c, "lambda": y}), 0, n) / n
        for n in (1, 2)
    )
    at = values | {"r_1": first, "r_2": second}
    polynomial = mpmath.mpf(1)
    for each in two.rates:
        polynomial *= 1 - float(each) * x
    yield "residual of two steps", polynomial, number(residual.rhs, values)
    yield "zeros of two steps", polynomial, number(product.rhs, values)
    yield "loss of two steps", float(two.loss), number(loss.rhs, at)
    yield "least loss of two steps", float(two.loss), number(least.rhs, values)
    size = {"context": 9, "dim": 5}
    exact = descent.derive_schedule(2, **size).result
    yield "two steps at finite size", descent.optimal_schedule(steps=2, **size).loss, exact


def of_softmax(draw: Callable[[float, float], Any]) -> Iterator[Sides]:
    """Heads, long contexts and sines."""
    c = draw(0.3, 2)
    v = draw(0.1, 1)
    t = draw(0.3, 0.9)
    # That of two opposite heads takes twice as long.
    loss, value, shortened, since, rising, temperature, result = sides(
        softmax.derive_softmax_head()
    )
    at = {"c": c, "v": v, "t": t}
    given = {"ratio": c, "noise_ratio": v, "heads": 1}
    best = softmax.optimal_softmax(**given)
    efficiency = softmax.heads_efficiency([t])
    u = number(value.rhs, at)
    least = (c + v) / (efficiency + c + v)
    slope = mpmath.diff(lambda u: softmax.softmax_loss(t, value=u, **given), u)
    yield "slope at the best value", 0, slope
    yield "loss at the best value", least, number(loss.rhs, at | {"u": u})
    yield "efficiency", efficiency, number(shortened.rhs, at)
    by_efficiency = since.rhs.subs(shortened.lhs, sympy.Symbol("e"))
    yield "loss by efficiency", least, number(by_efficiency, at | {"e": efficiency})
    slope = mpmath.diff(lambda t: softmax.heads_efficiency([t]), t)
    yield "slope of the efficiency", slope, number(rising.lhs, at)
    yield "best temperature", best.inverse_temperature, number(temperature.rhs, at)
    yield "least loss of heads", best.loss, number(result.rhs, at)

    d = 5
    s = draw(0.3, 2)
    mean, second, loss, slope, end = sides(softmax.derive_long_context())
    best = softmax.long_context_softmax(dim=d, noise_variance=float(s))
    b = draw(0.05, 0.2)
    for label, equation in (("growing weights", mean), ("growing weights, slope", second)):
        function = sympy.lambdify(
            sympy.symbols("b r", positive=True), equation.lhs.args[0], "mpmath"
        )
        chi = lambda r, f=function: f(b, r) * r ** (d - 1) * mpmath.exp(-(r**2) / 2)  # noqa: E731
        total = mpmath.quad(chi, [0, 4, 12, 40]) / (mpmath.gamma(2.5) * mpmath.mpf(2) ** 1.5)
        yield label, total, number(equation.rhs, {"b": b, "d": d})
    found = number(end.rhs, {"d": d, "s": s})
    yield "best square temperature", float(best.inverse_temperature) ** 2, found
    at = {"d": d, "s": s, "b": found}
    yield "loss of long contexts", float(best.loss), number(loss.rhs, at)
    yield "condition of long contexts", 0, number(slope.lhs, at)

    variance, *shares, result = sides(softmax.derive_sine_optimum())
    phase = draw(0.1, 1)
    z = draw(1, 2)
    moment = mpmath.quad(
        lambda f: 2 * mpmath.sin(phase + f) * mpmath.sin(z + f) / mpmath.pi, [0, mpmath.pi]
    )
    yield (
        "covariance of sines",
        c * moment,
        number(variance.rhs, {"kappa": c, "x": phase, "x'": z}),
    )
    kappa = (mpmath.mpf(1) / 8 - mpmath.mpf(1) / 1000) / (mpmath.mpf(12) / 5)
    at = {"N": 5, "X": 5, "kappa": kappa}
    at |= {str(each.lhs): number(each.rhs, at) for each in shares}
    yield "least loss on sines", softmax.sine_optimum(context=5).loss, number(result.rhs, at)


def root(function: Callable[[Any], Any], low: Any, high: Any) -> Any:
    """Root of a function, to almost all digits."""
    tol = mpmath.mpf(10) ** (4 - 2 * mpmath.mp.dps)
    return mpmath.findroot(function, (low, high), solver="anderson", tol=tol, maxsteps=200)


def trace(x: Any, kappa: Any, levels: tuple[int, ...]) -> tuple[Any, Any]:
    """Traces M and T of the covariance of drawn tasks, from a root search in the inflation."""

    def mean(s: Any, power: int) -> Any:
        return sum(mpmath.mpf(c) ** power / (x + c * s) for c in levels) / len(levels)

    s = root(lambda s: s - 1 + (1 - x * mean(s, 0)) / kappa, mpmath.mpf(10) ** -9, 1)
    return mean(s, 0), mean(s, 1)


def left_over(tau: Any, ridge: Any, q: Any, kappa: Any, xi: Any) -> Any:
    """What the fixed point of the effective ridge leaves."""
    return xi * trace(q + xi, kappa, (1,))[0] - (1 - tau + tau * ridge / xi)


def of_errors(draw: Callable[[float, float], Any]) -> Iterator[Sides]:
    """Errors, whose steps are put into each other, with a ridge, and without on both sides."""
    kappa = draw(0.5, 2)
    alpha = draw(0.5, 4)
    rho = draw(0.05, 1)
    q = (1 + rho) / alpha
    for tau, ridge in ((draw(0.4, 0.8), draw(0.1, 1)), (draw(0.4, 0.8), 0), (draw(1.3, 3), 0)):
        point: dict[str, Any] = {"tau": tau, "alpha": alpha, "kappa": kappa, "rho": rho}
        point["ridge"] = ridge * mpmath.mpf(1)
        xi = mpmath.mpf(0)
        if ridge or tau < 1:
            xi = root(partial(left_over, tau, ridge, q, kappa), mpmath.mpf(10) ** -2, 4)
        slope = mpmath.diff(lambda x: trace(x, kappa, (1,))[0], q + xi)
        expected = {
            **{"e_{ICL}": pretraining.icl_error(**point), "xi": xi, "M'": slope},
            **{"e_{IDG}": pretraining.idg_error(**point), "M": trace(q + xi, kappa, (1,))[0]},
        }
        values = point | {"lambda": ridge} | expected
        derivation = pretraining.derive_icl_error(ridge=None if ridge else 0)
        for place, equation in enumerate(sides(derivation)):
            name = str(equation.lhs)
            values[name] = number(equation.rhs, values)
            if name in expected:
                label = f"{name}, step {place + 1}, tau {'<' if tau < 1 else '>'} 1"
                yield f"{label}{', ridge' if ridge else ''}", expected[name], values[name]
    last = sides(pretraining.derive_idg_error(ridge=0))[-1]
    yield "e_{IDG} alone", expected["e_{IDG}"], number(last.rhs, values)


def of_fixed_points(draw: Callable[[float, float], Any]) -> Iterator[Sides]:
    """Polynomials, and series in 1/kappa and at tau = 1."""
    x, kappa, tau, q, rho = (
        draw(*ends) for ends in ((0.2, 1), (2, 4), (1.3, 3), (0.3, 1), (0, 1))
    )
    half = sympy.Rational(1, 2)
    spectrum = dict.fromkeys(LEVELS, half)
    M, _ = trace(x, kappa, LEVELS)
    s = 1 - (1 - x * M) / kappa
    inflation, in_s, in_M, edges = sides(pretraining.derive_resolvent(spectrum))
    at = {"x": x, "kappa": kappa, "M": M, "s": s}
    yield "inflation", s, number(inflation.rhs, at)
    yield "polynomial of the inflation", 0, number(in_s.lhs, at)
    yield "polynomial of the resolvent", 0, number(in_M.lhs, at)
    law = spectra.SampleCovariance(spectra.Atoms(list(map(float, LEVELS))), 1 / float(kappa))
    coefficients = sympy.Poly(edges.rhs, sympy.Symbol("z")).all_coeffs()
    zeros = np.roots([float(number(each, at)) for each in coefficients])
    for name, edge in zip(("lower", "upper"), (law.edges[0], law.edges[-1]), strict=True):
        yield f"{name} edge", edge, zeros[np.argmin(abs(zeros - edge))].real

    xi = draw(0.1, 1)
    penalty = draw(0.1, 1)
    regression, resolvent, inflation, polynomial = sides(pretraining.derive_effective_ridge())
    tau = (1 - xi * trace(q + xi, kappa, (1,))[0]) / (1 - penalty / xi)
    at = {"xi": xi, "tau": tau, "q": q, "kappa": kappa, "lambda": penalty}
    M = trace(q + xi, kappa, (1,))[0]
    yield "resolvent by the effective ridge", M, number(resolvent.rhs, at)
    yield (
        "inflation by the effective ridge",
        1 - (1 - (q + xi) * M) / kappa,
        number(inflation.rhs, at),
    )
    yield "polynomial of the effective ridge", 0, number(polynomial.rhs, at)
    left = regression.lhs.replace(sympy.Function("M"), lambda _: sympy.Symbol("M"))
    yield "ridge regression", 1 - tau, number(left, at | {"M": M})

    tau = draw(1.3, 3)
    many = FAR
    *inverse, error = sides(pretraining.derive_many_tasks(spectrum, order=1))
    at = {"tau": tau, "q": q, "rho": rho, "kappa": many}
    at |= {
        f"r_{{{j},{k}}}": sum(mpmath.mpf(c) ** j / (q + c) ** k for c in LEVELS) / len(LEVELS)
        for k in range(1, 4)
        for j in (k - 1, k)
    }
    M, _ = trace(q, many, LEVELS)
    yield (
        "inflation, many tasks",
        many * (1 - (1 - (1 - q * M) / many)),
        many * (1 - number(inverse[0].rhs, at)),
    )
    at_end = at | {"kappa": mpmath.mpf(10) ** 30}
    first, end = (number(inverse[1].rhs, each) for each in (at, at_end))
    yield "resolvent, many tasks", many * (M - end), many * (first - end)
    first, end = (number(error.rhs, each) for each in (at, at_end))
    ridgeless = above_threshold(tau, q, rho, many, LEVELS)
    yield "error, many tasks", many * (ridgeless - end), many * (first - end)

    above, ridge, below = sides(pretraining.derive_threshold())
    known = {"q": q, "rho": rho, "tau": tau, "delta": CLOSE}
    for name, place in (("M", 0), ("T", 1)):
        for order in range(4):
            known[name + "'" * order] = mpmath.diff(
                lambda x, place=place: trace(x, kappa, LEVELS)[place], q, order
            )
    yield (
        "above the threshold",
        above_threshold(tau, q, rho, kappa, LEVELS),
        number(above.rhs, known),
    )
    xi = number(ridge.rhs, known)
    shrunk = (xi * trace(q + xi, kappa, LEVELS)[0] / CLOSE - 1) / CLOSE
    yield "effective ridge at the threshold", 0, shrunk
    exact_error = below_threshold(1 - CLOSE, q, rho, kappa, LEVELS)
    M = known["M"]
    pole = (rho + q - q**2 * M) * (q * M + known["T"]) / CLOSE
    yield "below the threshold", exact_error - pole, number(below.rhs, known) - pole


def above_threshold(tau: Any, q: Any, rho: Any, kappa: Any, levels: tuple[int, ...]) -> Any:
    """Ridgeless ICL error for tau > 1."""
    M, T = trace(q, kappa, levels)
    slopes = [mpmath.diff(lambda x, k=k: trace(x, kappa, levels)[k], q) for k in range(2)]
    context = rho + q * (1 - 2 * q * M - q**2 * slopes[0]) - q**2 * slopes[1]
    return context + (rho + q - q**2 * M) * (q * M + T) / (tau - 1)


def below_threshold(tau: Any, q: Any, rho: Any, kappa: Any, levels: tuple[int, ...]) -> Any:
    """Ridgeless ICL error for tau < 1."""
    ends = (1 - tau) / 100, (1 - tau) * 100
    xi = root(lambda xi: xi * trace(q + xi, kappa, levels)[0] - (1 - tau), *ends)
    nu = q + xi
    M, T = trace(nu, kappa, levels)
    slope, fall = (mpmath.diff(lambda x, k=k: trace(x, kappa, levels)[k], nu) for k in range(2))
    bias = 1 - 2 * nu * M - nu**2 * slope
    noise = (rho + nu - nu**2 * M - xi * bias) / (tau - (1 - 2 * xi * M - xi**2 * slope))
    return rho + q * bias - nu**2 * fall + noise * (q * (M + xi * slope) + T + xi * fall)


SECTIONS = (of_descent, of_softmax, of_errors, of_fixed_points)


@named_cell("both_sides")
def both_sides(*, rng: SeedSequence) -> list[Pair]:
    """Both sides of all equations, by label."""
    generator = np.random.default_rng(rng)

    def draw(low: float, high: float) -> Any:
        return mpmath.mpf(float(generator.uniform(low, high)))

    with mpmath.workdps(DIGITS):
        return [
            (label, float(first), float(second), TOLERANCE)
            for section in SECTIONS
            for label, first, second in section(draw)
        ]


def rows(_: Effort) -> Rows:
    """All equations."""
    yield from pair_rows(both_sides)


claim = Claim.of("derivations", __doc__, rows, figure=False)
