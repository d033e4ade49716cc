"""Derived formulas, evaluated with numbers, equal the errors for structured data.

The steps of the ICL and IDG errors of isotropic tasks, put into each other, equal the
errors for structured data with one eigenvalue, which come from another fixed point.  For tasks of
two levels the series in 1/kappa and the expansion at tau = 1, with numerical solutions for the
resolvents, equal the errors for structured data up to what the next terms leave.

Source: {lu2025}; {letey2025}; derived in the documentation.
"""

from collections.abc import Callable
from typing import Any

import mpmath

from iclimit.asymptotics.pretraining import (
    JointSpectrum,
    derive_icl_error,
    derive_idg_error,
    derive_many_tasks,
    derive_threshold,
    structured_errors,
)
from iclimit.drawing import COLOURS, Figure, finish, panels
from iclimit.validation import Claim, Comparison, Preset, Results, Verdict, compare

POINTS = (
    {"tau": 0.6, "alpha": 2.0, "kappa": 1.5, "rho": 0.1},
    {"tau": 1.7, "alpha": 0.8, "kappa": 0.5, "rho": 0.3},
)
EFFECTIVE_RIDGE = 3.0
"""Of the evaluations with a ridge, which follows from it."""
ROUNDING = 1e-11

LEVELS = {0.5: 0.5, 1.5: 0.5}
"""Eigenvalues of the tasks and their frequencies."""
ORDER, MANY, NEXT_TASKS = 2, 1000.0, 1e-9
"""Order of the series, task diversity, and what the next term leaves, relative: 1e-11."""
NEAR, NEXT_DATA = 1e-5, 1e-8
"""Distance from tau = 1, and what the next term leaves, relative: 3e-9."""


def number(expression: Any, values: dict[str, Any]) -> float:
    """Value of an expression, given those of its symbols by their names."""
    return float(expression.subs({s: values[s.name] for s in expression.free_symbols}))


def evaluate(derivation: Any, known: dict[str, float]) -> dict[str, float]:
    """Values of the steps of a derivation; the ridge is the one that has the given xi."""
    import sympy

    values = dict(known)
    for _, equation in derivation.steps:
        name, missing = str(equation.lhs), {s.name for s in equation.rhs.free_symbols} - {*values}
        if "lambda" in missing:
            symbols = equation.free_symbols
            given = equation.subs({s: values[s.name] for s in symbols if s.name in values})
            values["lambda"] = float(sympy.solve(given)[0])
        elif not missing:
            values[name] = number(equation.rhs, values)
    return values


def compare_steps(point: dict[str, float], xi: float) -> list[Comparison]:
    """Both errors from the steps of their derivations, without ridge or with an effective one."""
    rows = []
    for name, derive in (("icl", derive_icl_error), ("idg", derive_idg_error)):
        steps = evaluate(derive(ridge=None if xi else 0), point | ({"xi": xi} if xi else {}))
        ridge = steps.get("lambda", 0.0)
        expected = structured_errors(**point, ridge=ridge, spectrum=JointSpectrum.of_matrices([1]))
        label = f"{name.upper()} from its steps, tau={point['tau']:g} ridge={ridge:.3g}"
        found = steps[f"e_{{{name.upper()}}}"]
        of = derive.__name__
        rows.append(compare(label, found, getattr(expected, name), relative=ROUNDING, of=of))
    return rows


def resolvent(power: int, kappa: float) -> Callable[[Any], Any]:
    """M for the power 0 and T for 1, from a root of the equation of the inflation s."""

    def at(x: Any) -> Any:
        s = mpmath.findroot(
            lambda s: s - 1 + sum(p * c * s / (x + c * s) for c, p in LEVELS.items()) / kappa, 0.5
        )
        return sum(p * c**power / (x + c * s) for c, p in LEVELS.items())

    return at


def compare_expansions(point: dict[str, float], series: Any) -> list[Comparison]:
    """Series in 1/kappa, the error above the threshold and its expansion below."""
    spectrum = JointSpectrum.of_matrices([*LEVELS])
    setting = {name: point[name] for name in ("alpha", "kappa", "rho")}
    known = point | {"q": (1 + point["rho"]) / point["alpha"], "delta": NEAR}
    with mpmath.workdps(30):
        for letter, power in (("M", 0), ("T", 1)):
            function = resolvent(power, point["kappa"])
            for k, name in enumerate((letter, f"{letter}'")):
                known[name] = mpmath.diff(function, mpmath.mpf(known["q"]), k)
    steps = derive_threshold().steps
    rows = []
    for label, tau, equation, relative in (
        ("above", 1 + point["tau"], steps[0][1], ROUNDING),
        ("below", 1 - NEAR, steps[2][1], NEXT_DATA),
    ):
        value = number(equation.rhs, known | {"tau": tau})
        expected = structured_errors(tau=tau, **setting, spectrum=spectrum).icl
        text = f"ICL {label} the threshold, tau={tau:g} kappa={point['kappa']:g}"
        rows.append(compare(text, value, expected, relative=relative, of="derive_threshold"))
    known = point | {"q": known["q"], "tau": 1 + point["tau"], "kappa": MANY}
    value = number(series, known)
    setting |= {"tau": known["tau"], "kappa": MANY}
    expected = structured_errors(**setting, spectrum=spectrum).icl
    text = f"ICL from the series in 1/kappa, tau={known['tau']:g} kappa={MANY:g}"
    rows.append(compare(text, value, expected, relative=NEXT_TASKS, of="derive_many_tasks"))
    return rows


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare steps and expansions at all points."""
    rows = [
        row
        for point in POINTS
        for xi in (0.0, EFFECTIVE_RIDGE)
        for row in compare_steps(point, xi)
    ]
    series = derive_many_tasks(LEVELS, order=ORDER).result
    rows += [row for point in POINTS for row in compare_expansions(point, series)]

    def draw(figure: Figure) -> None:
        (ax,) = panels(figure, 1, width=5.6, height=3.2)
        off = [max(abs(row.estimate / row.theory - 1), 1e-17) for row in rows]
        ax.semilogy(range(1, len(rows) + 1), off, "o", color=COLOURS[0], label="deviation")
        allowed = [row.allowance / row.theory for row in rows]
        ax.semilogy(range(1, len(rows) + 1), allowed, "_", color="0.4", label="tolerance")
        finish(ax, "case", "relative deviation", legend="")

    return Verdict(rows, draw)


claim = Claim.of("derivations", __doc__, lambda _: {}, judge, figure=False)
