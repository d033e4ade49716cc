"""Theory in floating point, with 30 digits and in exact fractions.

Where the arguments are fractions that floating point holds exactly, functions of all subjects give
the same numbers in float64, in mpmath and in SymPy, whose formulas are partly others: float64
avoids differences of numbers that are nearly equal.  The seed draws the fractions.

Source: formulas in the documentation of each function.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import sympy
from numpy.random import SeedSequence

from iclimit.asymptotics import (
    depth,
    descent,
    dynamics,
    gdpp,
    pretraining,
    recurrent,
    softmax,
    spectra,
)
from iclimit.comparison import Comparison, compare
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, judged, run

SHELVES = (pretraining, descent, gdpp, dynamics, softmax, depth, recurrent, spectra)
# Fractions are multiples of this part of a range.
PARTS = 64
# Relative difference of float64 from the others (measured: at most 4e-15), and digits of mpmath.
TOLERANCE, DIGITS = 1e-11, 30

# Ranges: of fractions, or of integers; of every number of a list.
RATIO, NOISE = (0.25, 4.25), (0.0, 1.0)
POINT: dict[str, Any] = {"tau": RATIO, "alpha": RATIO, "kappa": RATIO, "rho": NOISE}
SIZE: dict[str, Any] = {"context": range(8, 65), "dim": range(1, 9), "noise_variance": NOISE}
DROP: dict[str, Any] = SIZE | {"init_scale": (0.0625, 0.25), "input_variance": (0.25, 1.25)}
STEPS: dict[str, Any] = {"alpha": RATIO, "noise_variance": NOISE, "dampening": (0.25, 1.0)}
# Where pushes that alternate are fed back most.
ALTERNATING: dict[str, Any] = {
    "alpha": (1.25, 3.25),
    "noise_variance": (0.0, 0.125),
    "dampening": (0.9375, 1.0),
}
SGD: dict[str, Any] = {
    **{"alpha": RATIO, "steps": range(1, 20), "learning_rate": (0.0, 0.125)},
    **{"batch_ratio": RATIO, "query_ratio": RATIO},
    **{"noise_variance": NOISE, "query_noise_variance": NOISE},
}
HEAD: dict[str, Any] = {
    **{"eigenvalue": (0.5, 1.0), "trace": (1.0, 3.0), "context": range(8, 65)},
    "noise_variance": NOISE,
}
STEP: tuple[float, float] = (0.25, 1.0)
LAYERS: dict[str, Any] = {"context": range(8, 33), "dim": range(1, 9), "rates": [STEP, STEP]}
PAIR: dict[str, Any] = {"steps": range(2, 3), "context": range(8, 33), "dim": range(2, 9)}
PAIR["noise_ratio"] = (0.0, 0.0)
TASKS: dict[str, Any] = {"alpha": RATIO, "rho": (0.25, 1.25), "drift": NOISE}

# Ranges of the arguments by function and field of its result.
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("icl_error", POINT | {"ridge": (0.0625, 2.0625)}),
    ("idg_error", POINT | {"ridge": (0.0625, 2.0625)}),
    ("icl_error", POINT | {"tau": (1.25, 5.25)}),
    ("task_gap", POINT | {"tau": (1.25, 5.25)}),
    ("bayes_error", {"alpha": RATIO, "rho": (0.25, 1.25)}),
    ("learning_rate_loss", SIZE | {"rate": NOISE, "task_variance": RATIO}),
    ("optimal_learning_rate.rate", SIZE | {"task_variance": RATIO}),
    ("merged_drop_time", DROP | {"drop_fraction": (0.5, 0.9375)}),
    ("merged_attention_loss", DROP | {"t": (0.0, 8.0)}),
    ("attention_loss", {"efficiency": (0.25, 1.0), "ratio": RATIO, "noise_ratio": NOISE}),
    ("overthinking_threshold", STEPS),
    ("overthinking_threshold", ALTERNATING),
    ("overthinking_ratio", STEPS | {"tau": RATIO, "ridge": (0.0625, 2.0625)}),
    ("overthinking_ratio", STEPS | {"tau": (1.25, 5.25)}),
    ("final_test_time_error", STEPS | {"alpha": (0.125, 0.625), "tau": (12.0, 20.0)}),
    ("online_sgd_errors.loss", SGD),
    ("time_from_pole", HEAD | {"value": (0.0, 0.5)}),
    ("growth_time", HEAD | {"initial_value": (0.0, 0.25), "value": (0.25, 0.5)}),
    ("delta_rule_error", TASKS | {"step_size": (0.25, 1.0), "dim": range(4, 20)}),
    ("gated_error", TASKS | {"forgetting": NOISE, "correlation": (0.0, 0.5)}),
    ("wishart_resolvent", {"q": NOISE, "kappa": RATIO}),
    ("schedule_loss", LAYERS | {"noise_ratio": NOISE}),
    ("gdpp_loss", LAYERS | {"gammas": [(0.0, 0.25)], "noise_ratio": NOISE}),
    ("optimal_schedule.loss", {"steps": range(1, 2), "ratio": RATIO, "noise_ratio": NOISE}),
    ("optimal_schedule.rates", {"steps": range(2, 3), "ratio": RATIO}),
    ("optimal_schedule.rates", PAIR),
    ("test_time_errors", STEPS | {"tau": (1.25, 5.25), "steps": range(2, 4)}),
)


def drawn(limits: range | tuple[float, float], generator: np.random.Generator) -> int | Fraction:
    """Integer or fraction in a range."""
    part = int(generator.integers(1, PARTS))
    if isinstance(limits, range):
        return limits[part * len(limits) // PARTS]
    low, high = map(Fraction, limits)
    return low + (high - low) * Fraction(part, PARTS)


def converted(arguments: Mapping[str, Any], number: Callable[[Fraction], Any]) -> dict[str, Any]:
    """Arguments, and those in lists, in a number system; integers are Python's."""

    def each(value: Any) -> Any:
        if isinstance(value, list):
            return [number(part) for part in value]
        return value if isinstance(value, int) else number(value)

    return {name: each(value) for name, value in arguments.items()}


def value(of: str, arguments: Mapping[str, Any]) -> float:
    """Value of a function, or of a field of its result, as a float; the last of several."""
    function, _, field = of.partition(".")
    shelf = next(each for each in SHELVES if function in each.__all__)
    found = getattr(shelf, function)(**arguments)
    found = getattr(found, field) if field else found
    if isinstance(found, (tuple, np.ndarray)) and np.ndim(found):
        found = found[-1]
    return float(sympy.N(found, DIGITS) if isinstance(found, sympy.Basic) else found)


@named_cell("exact_values")
def exact_values(*, rng: SeedSequence) -> list[dict[str, Any]]:
    """Arguments of each call, drawn, and its value by system."""
    generator = np.random.default_rng(rng)
    found = []
    for of, ranges in CALLS:
        given = {
            name: [drawn(part, generator) for part in limits]
            if isinstance(limits, list)
            else drawn(limits, generator)
            for name, limits in ranges.items()
        }
        row: dict[str, Any] = {"arguments": converted(given, float)}
        with mpmath.workdps(DIGITS):
            row["mpmath"] = value(
                of, converted(given, lambda x: mpmath.mpf(x.numerator) / x.denominator)
            )
            if "ridge" not in ranges:  # else the fixed point is the root of a quartic
                row["SymPy"] = value(
                    of, converted(given, lambda x: sympy.Rational(x.numerator, x.denominator))
                )
        found.append(row)
    return found


def compare_systems(rows: Sequence[Mapping[str, Any]]) -> Iterator[Comparison]:
    """Compare float64 with the other systems, which tests programs and not the theory."""
    for number, ((of, _), row) in enumerate(zip(CALLS, rows, strict=True), start=1):
        theory = value(of, row["arguments"])
        for system in list(row)[1:]:
            label = f"{of} {number}, drawn setting, {system}"
            yield compare(label, theory, row[system], relative=TOLERANCE)


def rows(_: Effort) -> Rows:
    """All functions at drawn settings."""
    yield judged(call(compare_systems, run(exact_values)))


claim = Claim.of("number-systems", __doc__, rows, figure=False)
