"""Every public function refuses what an argument may not be, by name, and says what is allowed.

In a base call one argument after the other is replaced by what it may not be: numbers outside the
range that the notation gives its name, alone and in an array, NaN, text, complex numbers, masked
entries, None.  The error must name the argument, say what it must be and what was given.  Only
what couples several arguments is tested with the function that couples them.
"""

import inspect
import math
import re

import mpmath
import numpy as np
import pytest
import sympy
from base_calls import BASE, CALLABLES, SIMULATIONS, base_call, bound

from iclimit.notation import PARAMETERS, Interval

MASKED = np.ma.masked_array([1.0, 2.0], [False, True])
RANGES = {
    ("Uniform", "lower"): "(-inf, inf)",
    ("Uniform", "upper"): "(-inf, inf)",
    ("dmmse_errors", "dim"): "[1, inf]",
    ("condition_number_schedule", "steps"): "[0, inf)",
    ("eigenvalues_after", "eigenvalues"): "(-inf, inf)",
    ("head_growth", "t"): "[-inf, inf]",
    **{
        (function, argument): "[1, inf]"
        for function in ("train_depth", "simulate_depth_loss")
        for argument in ("context", "width", "query_count")
    },
    ("depth_loss", "depth"): "[1, inf]",
    ("tied_flow", "depth"): "[1, inf]",
    ("online_sgd_errors", "steps"): "[0, inf]",
    ("one_pass_errors", "steps"): "[0, inf)",
    ("one_pass_task_errors", "steps"): "[0, inf)",
    ("optimal_gdpp", "condition_number"): "[1.01, 1e6]",
    ("optimal_gdpp", "ratio"): "[1e-3, 1e3]",
    ("optimal_gdpp", "noise_ratio"): "[0, 1e6]",
    ("gdpp_minima", "ratio"): "[1e-3, 1e3]",
    ("gdpp_minima", "noise_ratio"): "[0, 1e6]",
    **{
        (function, "alpha"): "(0, inf)"
        for function in (
            *("constant_delta_step", "delta_rule_error", "forgetting_error", "optimal_memory"),
        )
    },
    ("classification_accuracy", "separation"): "[0, 30]",
    **{
        (function, argument): "(0, inf)"
        for function in (
            *("all_position_errors", "balanced_position_errors", "shared_context_errors"),
            *("sequence_worth", "optimal_sequence_ridge", "sequences_needed"),
        )
        for argument in ("alpha", "test_alpha")
    },
    ("shared_context_errors", "query_ratio"): "(0, inf)",
    ("shared_context_errors", "ridge"): "(0, inf)",
    ("position_errors_at_size", "ridge"): "(0, inf)",
    ("delta_rule_error", "dim"): "[1, inf]",
    ("forgetting_error", "forgetting"): "[0, 300]",
    ("optimal_forgetting", "drift"): "(0, inf)",
    ("optimal_memory", "rho"): "(0, inf)",
    ("optimal_tracking", "drift"): "(0, inf)",
    ("tracking_error", "drift"): "(0, inf)",
    ("tracking_error", "step_size"): "(0, inf)",
}
"""Ranges that are not those of the notation."""
SYMBOLIC = {
    "merged_attention_curve",
    "merged_attention_drop",
    "merged_curve_drop_time",
    "separate_attention_staircase",
}
"""Functions whose integers may be any numbers, although their annotations say otherwise."""
ENDLESS = {("train_softmax", "patience"), ("train_network", "patience")}
"""What has a default, but may be None."""
UNCHECKED = {"pole", "path", "rng", "function", "functions"}
"""What is used as it is: functions, a file, the seed that NumPy parses."""


def numbers_outside(interval, integer):
    """Numbers outside an interval, infinities and NaN."""
    margin = 1 if integer else 0.25
    yield math.nan
    if interval.open_lower:
        yield interval.lower
    elif interval.lower > -math.inf:
        yield from (interval.lower - (margin * abs(interval.lower) or margin), -math.inf)
    if interval.open_upper:
        yield interval.upper
    elif interval.upper < math.inf:
        yield from (interval.upper + margin, math.inf)


def wrong_values(parameter, label, valid):
    """Yield what an argument may not be."""
    row = PARAMETERS[parameter.name]
    annotation = str(parameter.annotation)
    yield object()
    yield "nonsense"
    if parameter.default is not None and (label, parameter.name) not in ENDLESS:
        yield None
    if isinstance(parameter.default, bool):
        yield from (1, "yes")
    text = RANGES.get((label, parameter.name))
    interval = Interval.parse(text) if text else row.range
    if interval is None:
        return
    outside = list(numbers_outside(interval, row.integer))
    whole = "Number" not in annotation and "ndarray" not in annotation and label not in SYMBOLIC
    if row.integer and whole:
        outside.append(2.5)
    if parameter.name == "derivative":
        outside.append(3)
    yield from outside
    if np.ndim(valid) == 0 and not isinstance(valid, str):
        yield from ([1 if valid is None else valid, value] for value in outside)
        yield from (number(value) for number in (mpmath.mpf, sympy.sympify) for value in outside)
        yield sympy.I
    yield True
    if not (row.integer and whole):
        yield from (1j, MASKED)


def complaint(function, call, argument):
    """What is wrong with the answer to a call with a wrong argument; empty if nothing is."""
    value = call[argument]
    try:
        outcome = f"accepted: {function(**call)!r}"
    except (TypeError, ValueError) as error:
        outcome = str(error)
        allowed, _, given = outcome.partition("got ")
        last = str(value[-1] if isinstance(value, list) else value).lstrip("+-").rstrip("j")
        shown = last.replace("oo", "inf") in given.replace("oo", "inf") or "shape" in outcome
        shown |= repr(value) in given
        named = re.match(rf"{argument}\b.* must ", allowed)
        if named and (shown or value is MASKED or "NaN" in given):
            return ""
        # Arguments without a range may be described by what they are parsed as.
        if PARAMETERS[argument].range is None and (argument in outcome or "nonsense" in outcome):
            return ""
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    return f"{argument}={'masked' if value is MASKED else value!r}: {outcome}"


@pytest.mark.parametrize(
    "name", [*CALLABLES, *SIMULATIONS], ids=lambda name: name.split(".", 1)[-1]
)
def test_wrong_arguments_are_refused_by_name(name):
    function = bound(name)
    label = name.split(".", 2)[-1]
    complaints = []
    for parameter in inspect.signature(function).parameters.values():
        argument = parameter.name
        unchecked = argument in UNCHECKED or "Callable" in str(parameter.annotation)
        if argument not in PARAMETERS or unchecked:
            continue
        # Simulations take objects and flags as Python does.
        strict = PARAMETERS[argument].range or isinstance(parameter.default, str)
        if name in SIMULATIONS and not strict:
            continue
        call = base_call(function, label, argument)
        for value in wrong_values(parameter, label, call.get(argument, BASE.get(argument))):
            complaints.append(complaint(function, {**call, argument: value}, argument))
    if any(complaints):
        pytest.fail("\n".join(filter(None, complaints)), pytrace=False)
