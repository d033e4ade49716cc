"""Theory in float64, with 30 digits and in exact fractions, at drawn fractions.

The fractions are held exactly by floating point.  The formulas of the number systems are partly
others: float64 avoids differences of numbers that are nearly equal.
"""

from fractions import Fraction
from importlib import import_module

import mpmath
import numpy as np
import pytest
import sympy

from iclimit.asymptotics import SHELVES

PARTS = 64
"""Fractions are multiples of this part of a range."""

TOLERANCE = 1e-11
"""Relative difference of float64 from the others; at most 4e-15 was measured."""

DIGITS = 30
"""Digits of the numbers of mpmath."""

DRAWS = 3
"""Settings of each function."""

# Ranges: of fractions, or of integers; of every number of a list.
RATIO = (0.25, 4.25)
NOISE = (0.0, 1.0)
STEP = (0.25, 1.0)
POINT = {"tau": RATIO, "alpha": RATIO, "kappa": RATIO, "rho": NOISE}
SIZE = {"context": range(8, 65), "dim": range(1, 9), "noise_variance": NOISE}
DROP = SIZE | {"init_scale": (0.0625, 0.25), "input_variance": (0.25, 1.25)}
STEPS = {"alpha": RATIO, "noise_variance": NOISE, "dampening": STEP}
# Where pushes that alternate are fed back most.
ALTERNATING = {"alpha": (1.25, 3.25), "noise_variance": (0.0, 0.125), "dampening": (0.9375, 1.0)}
SGD = {
    "alpha": RATIO,
    "steps": range(1, 20),
    "learning_rate": (0.0, 0.125),
    "batch_ratio": RATIO,
    "query_ratio": RATIO,
    "noise_variance": NOISE,
    "query_noise_variance": NOISE,
}
HEAD = {
    "eigenvalue": (0.5, 1.0),
    "trace": (1.0, 3.0),
    "context": range(8, 65),
    "noise_variance": NOISE,
}
LAYERS = {"context": range(8, 33), "dim": range(1, 9), "rates": [STEP, STEP]}
PAIR = {
    "steps": range(2, 3),
    "context": range(8, 33),
    "dim": range(2, 9),
    "noise_ratio": (0.0, 0.0),
}
TASKS = {"alpha": RATIO, "rho": (0.25, 1.25), "drift": NOISE}

# Functions, with the field of the result that is compared, and ranges of their arguments.
CALLS = [
    ("pretraining.icl_error", POINT | {"ridge": (0.0625, 2.0625)}),
    ("pretraining.idg_error", POINT | {"ridge": (0.0625, 2.0625)}),
    ("pretraining.icl_error", POINT | {"tau": (1.25, 5.25)}),
    ("pretraining.task_gap", POINT | {"tau": (1.25, 5.25)}),
    ("pretraining.bayes_error", {"alpha": RATIO, "rho": (0.25, 1.25)}),
    ("descent.learning_rate_loss", SIZE | {"rate": NOISE, "task_variance": RATIO}),
    ("descent.optimal_learning_rate.rate", SIZE | {"task_variance": RATIO}),
    ("dynamics.merged_drop_time", DROP | {"drop_fraction": (0.5, 0.9375)}),
    ("dynamics.merged_attention_loss", DROP | {"t": (0.0, 8.0)}),
    ("softmax.attention_loss", {"efficiency": (0.25, 1.0), "ratio": RATIO, "noise_ratio": NOISE}),
    ("depth.overthinking_threshold", STEPS),
    ("depth.overthinking_threshold", ALTERNATING),
    ("depth.overthinking_ratio", STEPS | {"tau": RATIO, "ridge": (0.0625, 2.0625)}),
    ("depth.overthinking_ratio", STEPS | {"tau": (1.25, 5.25)}),
    ("depth.final_test_time_error", STEPS | {"alpha": (0.125, 0.625), "tau": (12.0, 20.0)}),
    ("depth.online_sgd_errors.loss", SGD),
    ("dynamics.time_from_pole", HEAD | {"value": (0.0, 0.5)}),
    ("dynamics.growth_time", HEAD | {"initial_value": (0.0, 0.25), "value": (0.25, 0.5)}),
    ("recurrent.delta_rule_error", TASKS | {"step_size": STEP, "dim": range(4, 20)}),
    ("recurrent.gated_error", TASKS | {"forgetting": NOISE, "correlation": (0.0, 0.5)}),
    ("spectra.wishart_resolvent", {"q": NOISE, "kappa": RATIO}),
    ("descent.schedule_loss", LAYERS | {"noise_ratio": NOISE}),
    ("gdpp.gdpp_loss", LAYERS | {"gammas": [(0.0, 0.25)], "noise_ratio": NOISE}),
    (
        "descent.optimal_schedule.loss",
        {"steps": range(1, 2), "ratio": RATIO, "noise_ratio": NOISE},
    ),
    ("descent.optimal_schedule.rates", {"steps": range(2, 3), "ratio": RATIO}),
    ("descent.optimal_schedule.rates", PAIR),
    ("depth.test_time_errors", STEPS | {"tau": (1.25, 5.25), "steps": range(2, 4)}),
]


def test_the_shelves_are_those_of_the_theory():
    assert {name.partition(".")[0] for name, _ in CALLS} == set(SHELVES)


def drawn(limits, generator):
    """Integer or fraction in a range, or a list of them."""
    if isinstance(limits, list):
        return [drawn(ends, generator) for ends in limits]
    part = int(generator.integers(1, PARTS))
    if isinstance(limits, range):
        return limits[part * len(limits) // PARTS]
    low = Fraction(limits[0])
    high = Fraction(limits[1])
    return low + (high - low) * Fraction(part, PARTS)


def converted(value, number):
    """A fraction, or those of a list, in a number system; integers are Python's."""
    if isinstance(value, list):
        return [converted(part, number) for part in value]
    return value if isinstance(value, int) else number(value)


def value_of(name, arguments, number):
    """Value of a function, or of a field of its result; the last of several."""
    shelf, function, *fields = name.split(".")
    numbers = {key: converted(value, number) for key, value in arguments.items()}
    result = getattr(import_module(f"iclimit.asymptotics.{shelf}"), function)(**numbers)
    for field in fields:
        result = getattr(result, field)
    return result[-1] if isinstance(result, tuple | np.ndarray) and np.ndim(result) else result


@pytest.mark.parametrize("seed", range(DRAWS))
@pytest.mark.parametrize(("name", "ranges"), CALLS, ids=[name for name, _ in CALLS])
def test_number_systems_agree(name, ranges, seed):
    generator = np.random.default_rng(seed)
    arguments = {key: drawn(limits, generator) for key, limits in ranges.items()}
    floats = value_of(name, arguments, float)
    with mpmath.workdps(DIGITS):
        digits = value_of(name, arguments, lambda x: mpmath.mpf(x.numerator) / x.denominator)
    assert floats == pytest.approx(float(digits), rel=TOLERANCE)
    if "ridge" in ranges:  # the fixed point is the root of a quartic
        return
    exact = value_of(name, arguments, lambda x: sympy.Rational(x.numerator, x.denominator))
    assert floats == pytest.approx(float(sympy.N(exact, DIGITS)), rel=TOLERANCE)
