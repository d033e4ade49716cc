"""All theory: arrays are the loop over their numbers, and number systems agree with each other."""

import dataclasses
import inspect
import re

import array_api_strict
import mpmath
import numpy as np
import pytest
import sympy
from array_libraries import LIBRARIES
from base_calls import CALLABLES, base_call, bound

# The same operations, in another order for arrays.
LOOP = 1e-12
# The integrals of many points are summed in other orders, and a minimum is known to the root of
# that rounding.
LOOSE = {"optimal_stopping": 1e-6}
# Float64 against many digits; nothing cancels at the base calls.
FLOAT64 = 1e-9
SINGLE = {
    *("IndependentEntries", "MarchenkoPastur", "SampleCovariance", "Wishart", "derive_schedule"),
    *("effective_init_scale", "errors_of_gamma", "expected_gamma", "finite_rank_loss"),
    *("finite_size_errors", "finite_size_spread", "fixed_point_losses", "functional_optimum"),
    *("optimal_gamma", "optimal_kernel", "optimal_preconditioner", "optimal_softmax_matrix"),
    *("preconditioner_loss", "sine_optimum", "uniform_softmax", "uniform_softmax_loss"),
    *("untied_power_law_steps", "whole_token_optimum", "wishart_moment"),
    *("gated_context", "optimal_gates", "recurrent_errors"),
}
"""Functions whose numbers must be single ones, although other annotations are like theirs."""
EXACT = {
    *("attention_loss", "bayes_error", "chebyshev_schedule", "compute_optimal"),
    "compute_optimal_pretraining",
    *("condition_number_schedule", "constant_schedule", "divergence_rate", "errors_of_gamma"),
    *("escape_time", "final_test_time_error", "fixed_point_losses", "gdpp_loss"),
    *("given_schedule", "growth_time", "heads_efficiency", "icl_error", "idg_error"),
    *("interval_after", "learning_rate_loss", "merged_attention_loss", "merged_drop_time"),
    *("one_layer", "online_sgd_errors", "optimal_schedule", "optimal_softmax"),
    *("overthinking_ratio", "overthinking_threshold", "plateau_head_values", "plateau_losses"),
    *("scaling_exponents", "scaling_terms", "schedule_loss", "softmax_loss", "task_gap"),
    *("test_time_errors", "time_from_pole", "untied_power_law_loss", "untied_power_law_steps"),
    "wishart_resolvent",
    *("delta_rule_error", "effective_context", "gated_error", "gated_pretraining_errors"),
    *("optimal_delta_step", "optimal_forgetting", "optimal_tracking", "tracking_error"),
}
"""Functions that take mpmath and SymPy numbers, among others."""
SOME = {"mixture_growth_rate", "test_time_errors"}
"""Functions that take no empty arrays."""


def label(name):
    return name.split(".", 2)[2]


def leaves(result):
    """All numbers and arrays of a result, however it is nested."""
    if dataclasses.is_dataclass(result):
        result = [getattr(result, field.name) for field in dataclasses.fields(result)]
    if isinstance(result, (list, tuple)):
        return [leaf for item in result for leaf in leaves(item)]
    return [] if result is None or isinstance(result, str) else [result]


def numbers(result):
    """All numbers of a result."""
    flat = [number for leaf in leaves(result) for number in np.ravel(leaf)]
    return [number for number in flat if not isinstance(number, np.bool_)]


def variations(name):
    """Base call, and the arguments that may be arrays, each with its value and a larger one."""
    function = bound(name)
    call = base_call(function, label(name), None)
    annotations = {k: str(p.annotation) for k, p in inspect.signature(function).parameters.items()}
    wide = {
        argument: (value, value + 1 if isinstance(value, int) else 1.01 * value)
        for argument, value in call.items()
        if type(value) in (int, float)
        # Written as it is, or spelt out; points of a law have no narrower type.
        and (
            any(kind in annotations[argument] for kind in ("Number", "ndarray"))
            or argument in {"x", "z", "snr", "probability"}
        )
    }
    return function, call, {} if label(name) in SINGLE else wide


VARIED = [name for name in CALLABLES if variations(name)[2]]


@pytest.mark.parametrize("name", VARIED, ids=label)
def test_arrays_are_the_loop(name):
    function, call, wide = variations(name)
    axes = {argument: k % 2 for k, argument in enumerate(wide)}
    arrays = {
        argument: np.array(pair)[:, None] if axes[argument] else np.array(pair)
        for argument, pair in wide.items()
    }
    if label(name) not in SOME:
        empty = leaves(function(**call | {argument: np.empty(0) for argument in wide}))
        assert all(np.size(leaf) == 0 for leaf in empty)
    together = leaves(function(**call | arrays))
    shape = np.broadcast_shapes(*(array.shape for array in arrays.values()))
    for index in np.ndindex(shape):
        picked = {each: pair[index[-1 - axes[each]]] for each, pair in wide.items()}
        for array, number in zip(together, leaves(function(**call | picked)), strict=True):
            assert np.shape(number) or isinstance(number, (float, int, np.integer))
            part = np.broadcast_to(array, shape + np.shape(number))[index]
            np.testing.assert_allclose(part, number, rtol=LOOSE.get(label(name), LOOP))


def converted(call, number):
    """The call with numbers, and lists of them, of another system."""
    return {
        argument: number(value)
        if type(value) is float
        else [number(item) for item in value]
        if isinstance(value, list)
        else value
        for argument, value in call.items()
    }


@pytest.mark.parametrize("name", [each for each in CALLABLES if label(each) in EXACT], ids=label)
def test_number_systems_agree(name):
    function, call, _ = variations(name)
    expected = numbers(function(**call))
    exact = converted(call, lambda value: sympy.nsimplify(value, rational=True))
    digits = {}
    for places in (25, 50):
        with mpmath.workdps(places):
            given = converted(call, lambda value: mpmath.mpf(str(value)))
            digits[places] = numbers(function(**given))
    assert any(isinstance(value, mpmath.mpf) for value in digits[50])
    for value, few, many in zip(expected, digits[25], digits[50], strict=True):
        assert value == pytest.approx(float(many), rel=FLOAT64)
        assert abs(few - many) <= mpmath.mpf("1e-20") * abs(many)
    if label(name) != "untied_power_law_steps":  # roots of a polynomial
        for value, symbol in zip(expected, numbers(function(**exact)), strict=True):
            assert value == pytest.approx(float(symbol), rel=FLOAT64)


@pytest.mark.parametrize("name", VARIED, ids=label)
def test_libraries_of_arrays(name):
    function, call, wide = variations(name)
    arrays = {argument: np.array(pair, dtype=float) for argument, pair in wide.items()}
    strict = {argument: array_api_strict.asarray(array) for argument, array in arrays.items()}
    known = name.split(".", 1)[1] in LIBRARIES
    if not known:
        refusal = f"^({'|'.join(map(re.escape, wide))}) must be "
        # What does not raise here belongs into tests/shared/array_libraries.py.
        with pytest.raises((TypeError, ValueError), match=refusal):
            function(**call | strict)
        return
    found = leaves(function(**call | strict))
    for value, expected in zip(found, leaves(function(**call | arrays)), strict=True):
        assert isinstance(value, type(array_api_strict.asarray(0.0)))
        np.testing.assert_allclose(np.from_dlpack(value), expected, rtol=LOOP)
