"""Argument checks: the ranges and the wording are those of the notation table."""

import math
import re

import numpy as np
import pytest
from refusals import value_error

import iclimit
from iclimit.checks import (
    check_arguments,
    check_choice,
    check_integers,
    check_memory,
    check_positive,
    given,
    parse_array,
    parse_tasks,
)
from iclimit.simulate.arrays import seed_sequence


def test_numbers_of_any_kind_pass():
    check_arguments(
        tau=1, alpha=math.inf, rho=np.float32(0.1), tasks=math.inf, dim=np.int64(3), rate=-2.0
    )


def test_messages_give_the_range_of_the_notation():
    for name, value, message in (
        ("tau", -1.0, "tau must be > 0, or inf, got -1.0"),
        ("rho", math.inf, "rho must be >= 0 and finite, got inf"),
        ("rho", "a", "rho must be >= 0 and finite, got 'a'"),
        ("rate", math.inf, "rate must be finite, got inf"),
        ("dim", 2.0, "dim must be an integer >= 1, got 2.0"),
        ("tasks", 2.5, "tasks must be an integer >= 1, or inf, got 2.5"),
    ):
        value_error(f"^{re.escape(message)}$", check_arguments, **{name: value})


@pytest.mark.parametrize("digits", [300, 5000])
@pytest.mark.parametrize("sign", [1, -1])
def test_integers_of_thousands_of_digits_are_named_by_their_size(digits, sign):
    """Python refuses to print them, and floats to stand for them."""
    value = sign * 10**digits
    size = rf"{'-' if sign < 0 else ''}10\^{digits}$"
    value_error(f"^dim must be .*, got {size}", check_arguments, dim=value)
    value_error(f"^dim must be .*, got {size}", check_integers, dim=value)
    value_error(f"^repeats must be .*, got {size}", check_integers, least=0, repeats=value)
    value_error("^x must ", parse_array, "x", [value], (2,))
    if digits > 308 or sign < 0:
        value_error(f"^rho must be .*, got {size}", check_arguments, rho=value)
        value_error(f"^step must be .*, got {size}", check_positive, "step", value)
    if digits > 308:
        with pytest.raises((TypeError, ValueError), match=f"^tau must be .*, got {size}"):
            iclimit.icl_error(tau=value, alpha=1, kappa=1, rho=0.1, ridge=0.1)
    if sign < 0:
        value_error(f"^rng must be .*, got {size}", seed_sequence, value)


def test_the_largest_integer_passes():
    check_arguments(dim=2**63 - 1, tau=2**70, rho=10**300)
    message = re.escape("dim must be at most 9.22337e+18, got 10^19")
    value_error(f"^{message}$", check_arguments, dim=2**63)


def test_arguments_that_are_not_given_are_left_out():
    assert given({"rho": None, "ridge": 0.0}) == {"ridge": 0.0}


def test_arrays_have_a_shape_and_are_finite():
    assert parse_array("mixing", [[1, 2]], (None, 2)).dtype == float
    with pytest.raises(ValueError, match=r"mixing must have shape \(any, 3\), got \(1, 2\)"):
        parse_array("mixing", [[1, 2]], (None, 3))
    value_error("mixing must be finite", parse_array, "mixing", [[1, math.nan]], (None, 2))


def test_masked_entries_are_refused():
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])
    for value in (masked, [masked, masked]):
        with pytest.raises(ValueError, match="mixing must have no masked entries"):
            parse_array("mixing", value, (2,), (2, 2))
    assert parse_array("mixing", np.ma.masked_array([1.0]), (1,)).tolist() == [1.0]


def test_tasks_are_a_number_or_vectors():
    assert parse_tasks(math.inf, 2) == (math.inf, None)
    assert parse_tasks(3, 2) == (3, None)
    count, tasks = parse_tasks([[1, 2]], 2)
    assert tasks is not None
    assert (count, tasks.tolist()) == (1, [[1.0, 2.0]])
    for wrong in (0, 1.5, [[1, 2, 3]], [[1, math.nan]]):
        value_error("tasks must", parse_tasks, wrong, 2)


def test_long_lists_of_choices_are_cut():
    names = [f"name_{number}" for number in range(200)]
    message = r"^kind must be one of name_0, name_1, name_2, \.\.\. \(200 names\), got 'x'$"
    value_error(message, check_choice, "kind", "x", names)
    value_error("did you mean icl_error", check_choice, "kind", "icl", [*names, "icl_error"])


def test_what_memory_has_no_room_for_is_refused():
    check_memory("prompts", 3, 1e3, 2000)
    message = r"^prompts must be so small .* got 7: they take 1e\+06 GB, and 2 GB are free"
    value_error(message, check_memory, "prompts", 7, 1e15, 2e9)
