"""The steps of the errors, put into each other, and their limits against 50-digit numbers."""

import itertools
import random
import re

import mpmath
import pytest
import sympy

from iclimit.asymptotics.pretraining import (
    derive_error_limits,
    derive_icl_error,
    derive_idg_error,
    icl_error,
    idg_error,
)

AGREEMENT = mpmath.mpf("1e-30")
DISTANCE = mpmath.mpf("1e-30")
"""From the point of a limit, relative to 1.  The errors approach it in the first power, at tau = 1
in the square root of the ridge, with factors of order one to ten."""
LEFT = mpmath.mpf("1e-13")
SETTING = {"alpha": 2.0, "rho": 0.25}


def resolvent(x, kappa):
    """Positive root of the quadratic equation of the resolvent."""
    a = x / kappa
    b = x + 1 - 1 / kappa
    return (-b + mpmath.sqrt(b**2 + 4 * a)) / (2 * a)


def effective_ridge(M, tau, q, ridge):
    """Root of xi M(q + xi) = 1 - tau + tau ridge/xi by bisection of log xi."""
    if ridge == 0 and tau >= 1:
        return mpmath.mpf(0)
    lower = mpmath.mpf(-100)
    upper = mpmath.mpf(100)
    for _ in range(mpmath.mp.prec + 10):
        xi = mpmath.exp((lower + upper) / 2)
        above = xi * M(q + xi) > 1 - tau + tau * ridge / xi
        lower, upper = (lower, mpmath.log(xi)) if above else (mpmath.log(xi), upper)
    return xi


def number(expression, values):
    symbols = sorted(expression.free_symbols, key=str)
    return sympy.lambdify(symbols, expression, "mpmath")(*(values[str(s)] for s in symbols))


def random_points():
    draw = random.Random(7)
    ranges = {"tau": (0.05, 20), "alpha": (0.05, 50), "kappa": (0.05, 20), "rho": (1e-3, 3)}
    ranges["ridge"] = (1e-4, 10)
    points = [{n: a * (b / a) ** draw.random() for n, (a, b) in ranges.items()} for _ in range(6)]
    return points + [{**point, "ridge": 0} for point in points]


@pytest.mark.parametrize("point", random_points())
def test_steps_put_into_each_other_give_the_numbers(point):
    """The traces as well as the positive terms that replace them."""
    with mpmath.workdps(60):
        exact = {name: mpmath.mpf(value) for name, value in point.items()}
        expected = {"e_{ICL}": icl_error(**exact), "e_{IDG}": idg_error(**exact)}
        tau = exact["tau"]
        kappa = exact["kappa"]
        ridge = exact.pop("ridge")
        q = (1 + exact["rho"]) / exact["alpha"]
        xi = effective_ridge(lambda nu: resolvent(nu, kappa), tau, q, ridge)
        expected |= {"xi": xi, "M'": mpmath.diff(lambda nu: resolvent(nu, kappa), q + xi)}
        values = {**exact, "lambda": ridge, **expected}
        derivation = derive_icl_error(ridge=None if ridge else 0)
        compared = []
        for _, equation in derivation.steps:
            name = str(equation.lhs)
            values[name] = number(equation.rhs, values)
            if name in expected:
                assert abs(values[name] - expected[name]) <= AGREEMENT * abs(expected[name]), name
                compared.append(name)
        assert sorted(compared) == sorted([*expected, "e_{ICL}", "e_{IDG}"])
        last = derive_idg_error(ridge=None if ridge else 0).steps[-1]
        assert last in derivation.steps


def settings(text):
    """Numbers within the conditions of a limit."""
    tau = {"tau > 1": [1.6], "tau < 1": [0.4], "tau = 1": [1.0]}
    kappa = {"kappa > 1": [1.7], "kappa < 1": [0.7], "kappa > tau": [0.7], "kappa < tau": [0.3]}
    ridge = {"o ridge": [0.0], "Positive ridge": [0.3]}
    chosen = []
    for conditions, otherwise in ((tau, [0.4, 1.6]), (kappa, [0.7, 1.7]), (ridge, [0.0, 0.3])):
        stated = [numbers for condition, numbers in conditions.items() if condition in text]
        chosen.append(stated[0] if stated else otherwise)
    for values in itertools.product(*chosen):
        numbers = dict(zip(("tau", "kappa", "lambda"), values, strict=True)) | SETTING
        yield {name: mpmath.mpf(value) for name, value in numbers.items()}


def names_at(text, point):
    """Intermediates at the argument that the text gives."""
    tau, kappa, ridge = (point[name] for name in ("tau", "kappa", "lambda"))
    q = (1 + point["rho"]) / point["alpha"]
    ends = {"M = 1/(1 + nu)": lambda x: 1 / (1 + x), "M = 1/nu": lambda x: 1 / x}
    M = next((f for end, f in ends.items() if end in text), lambda x: resolvent(x, kappa))
    given = re.search(r"nu = ([a-z +]*)", text)
    if given is None:
        return {"q": q}
    xi = {"q": mpmath.mpf(0), "q + lambda": ridge}.get(given[1])
    if xi is None:
        xi = effective_ridge(M, tau, q, ridge)
    nu = q + xi
    w = 1 + M(nu) / kappa
    names = {"q": q, "xi": xi, "nu": nu, "M": M(nu), "w": w, "r": 1 + nu * w**2}
    A = M(nu) * (1 + q * w**2) / (1 + nu * w**2)
    return names | {"A": A, "eta": ridge / xi if xi else 0}


def test_limits_are_those_of_the_numbers():
    steps = derive_error_limits().steps
    for (text, icl), (_, idg) in zip(steps[::2], steps[1::2], strict=True):
        _, variable, end, side = icl.lhs.args
        away = DISTANCE if str(side) == "+" else -DISTANCE
        assert not {variable} & (icl.rhs.free_symbols | idg.rhs.free_symbols)
        with mpmath.workdps(100):
            for point in settings(text):
                point[str(variable)] = 1 / DISTANCE if end == sympy.oo else int(end) + away
                arguments = {n: v for n, v in point.items() if n != "lambda"}
                arguments["ridge"] = point["lambda"]
                found = {"e_{ICL}": icl_error(**arguments), "e_{IDG}": idg_error(**arguments)}
                values = point | names_at(text, point)
                values["e_{IDG}"] = number(idg.rhs, values)  # stands in limits of the ICL error
                for equation in (icl, idg):
                    expected = number(equation.rhs, values)
                    scaled = number(equation.lhs.args[0], point | found)
                    assert abs(scaled - expected) <= LEFT * abs(expected), (equation, point)


def test_compact_latex_fits_in_a_paper():
    for ridge, derive in itertools.product([None, 0], [derive_icl_error, derive_idg_error]):
        derivation = derive(ridge=ridge)
        latex = derivation.latex(compact=True)
        lines = latex.splitlines()
        assert lines[0] == r"\begin{gather*}"
        assert lines[-1] == r"\end{gather*}"
        assert len(lines) <= 10
        assert len(latex) < 1200  # 16,500 with all intermediates put in
        assert latex.count("{") == latex.count("}")
        for name in (r"q", r"\nu", "M", r"\xi", r"\eta", "w", "r", "A", "e_{IDG}"):
            assert len(re.findall(rf"(?:^|quad ){re.escape(name)} = ", latex, re.MULTILINE)) == 1
        assert "M'" not in latex
        assert latex.count("e_{ICL} = ") == (derive is derive_icl_error)


def test_given_ridge_stays_in_the_steps():
    half = sympy.Rational(1, 2)
    steps = {str(equation.lhs): equation.rhs for _, equation in derive_icl_error(ridge=half).steps}
    assert steps["eta"] == half / sympy.Symbol("xi", positive=True)
