"""Argument checks that all theory functions share."""

import itertools
import math

import mpmath
import numpy as np
import pytest
import sympy
from refusals import value_error

import iclimit
from iclimit.asymptotics.checks import (
    broadcast,
    broadcast_shape,
    check_integers,
    check_range,
    checked,
    flattened,
)
from iclimit.asymptotics.descent import schedule_loss
from iclimit.asymptotics.numbers import ArrayMath, MpMath, SymPyMath
from iclimit.asymptotics.pretraining import finite_size_errors, icl_error
from iclimit.asymptotics.spectra import Atoms, MarchenkoPastur, SampleCovariance
from iclimit.notation import PARAMETERS

x = sympy.Symbol("x")


@pytest.mark.parametrize("name", [name for name, row in PARAMETERS.items() if row.range])
def test_values_pass_exactly_inside_the_range_of_the_notation(name):
    allowed = PARAMETERS[name].range
    assert allowed is not None
    numbers = (-math.inf, -3.0, -2.0, -0.5, 0.0, 0.5, 1.0, 1.5, 7.0, math.inf)
    for number, value in itertools.product((float, mpmath.mpf, sympy.Float), numbers):
        if value in allowed:
            _, values = checked(**{name: number(value)})
            assert getattr(values, name) == value
        else:
            value_error(f"^{name} must be .*, got ", checked, **{name: number(value)})


def test_messages():
    for arguments, error, message in (
        ({"tau": -1.0}, ValueError, "tau must be > 0, or inf, got -1.0"),
        ({"tau": [1.0, -2.0]}, ValueError, "tau must be > 0, or inf, got -2.0"),
        ({"tau": math.nan}, ValueError, "tau must be > 0, or inf, got nan"),
        ({"rho": math.inf}, ValueError, "rho must be >= 0 and finite, got inf"),
        ({"rate": -math.inf}, ValueError, "rate must be finite, got -inf"),
        ({"probability": 2}, ValueError, "probability must be from 0 to 1, got 2.0"),
        ({"rho": 0, "ranges": {"rho": "(0, inf)"}}, ValueError, "rho must be > 0 and finite, got"),
        ({"rho": 1, "ranges": {"rho": "(0, 1)"}}, ValueError, "rho must be > 0 and < 1, got 1.0"),
        ({"tau": None}, TypeError, "tau must be a real number or an array, got None"),
        ({"tau": x, "systems": "numpy"}, TypeError, "tau must be a number or a NumPy array"),
        ({"tau": [1.0], "single": True}, ValueError, r"tau must be one number, got \[1.0\]"),
        ({"rates": 0.5, "sequences": ["rates"]}, TypeError, "rates must be a sequence of numbers"),
        ({"rates": "12", "sequences": ["rates"]}, TypeError, "rates must be a sequence of"),
        ({"rates": [], "sequences": ["rates"]}, ValueError, "rates must not be empty"),
        ({"rates": [1, math.inf], "sequences": ["rates"]}, ValueError, "rates must be finite"),
        (
            {"rates": [[1, 2], [3, 4], [5, 6]], "noise_ratio": [0, 1], "sequences": ["rates"]},
            ValueError,
            r"rates without its last axis, noise_ratio must have shapes that broadcast, got \(3,",
        ),
    ):
        with pytest.raises(error, match=f"^{message}"):
            checked(**arguments)


def test_sequences_come_back_step_by_step():
    for value, system in ((2, ArrayMath), (mpmath.mpf(2), MpMath), (x, SymPyMath)):
        math_, values = checked(rates=[1, value], rho=1, sequences=["rates"])
        assert isinstance(math_, system)
        assert values.rates == [1, value]
        assert values.rho == 1
        _, values = checked(rates=[[1, 2], [3, 4], [5, 6]], sequences=["rates"])
        np.testing.assert_array_equal(values.rates, [[1, 3, 5], [2, 4, 6]])


def test_optional_arguments_stay_none():
    _, values = checked(rho=1, test_rho=None, optional=["test_rho"])
    assert values.rho == 1
    assert values.test_rho is None


def test_values_come_back_under_their_names_in_any_order():
    _, values = checked(rho=0.5, tau=[1.0, 2.0])
    _, swapped = checked(tau=[1.0, 2.0], rho=0.5)
    assert values.rho == swapped.rho == 0.5
    np.testing.assert_array_equal(values.tau, swapped.tau)
    with pytest.raises(AttributeError, match="kappa"):
        _ = values.kappa


def test_values_broadcast_to_one_shape():
    _, values = checked(tau=[[1.0], [2.0]], rho=[0.1, 0.2, 0.3], ridge=None, optional=["ridge"])
    whole = broadcast(values)
    np.testing.assert_array_equal(whole.tau, [[1.0] * 3, [2.0] * 3])
    np.testing.assert_array_equal(whole.rho, [[0.1, 0.2, 0.3]] * 2)
    assert whole.ridge is None
    shape, flat = flattened(values)
    assert shape == (2, 3)
    np.testing.assert_array_equal(flat.tau, np.ravel(whole.tau))
    np.testing.assert_array_equal(flat.rho, np.ravel(whole.rho))
    assert flat.ridge is None


def test_a_range_in_every_number_system():
    for math_ in (ArrayMath(np), MpMath(), SymPyMath()):
        check_range(math_, "lower", math_.convert(2), "[2, inf]")
        with pytest.raises(ValueError, match="lower must be > 2, or inf, got 2"):
            check_range(math_, "lower", math_.convert(2), "(2, inf]")


def test_integers():
    for value in (0, -1, 2.0, math.nan, True, None, "3"):
        check_integers(context=1, tasks=math.inf, derivative=0)
        value_error("context must be an integer >= 1, got", check_integers, context=value)
        value_error("order must be an integer >= 1, got", check_integers, least=1, order=value)
        value_error("tasks must be an integer >= 1, or inf, got", check_integers, tasks=value)


def test_shapes():
    assert broadcast_shape({"a": np.ones((3, 1)), "b": np.ones(2), "c": 1.0}) == (3, 2)
    with pytest.raises(ValueError, match=r"a, b must have shapes that broadcast, got \(3,\), \(2"):
        broadcast_shape({"a": np.ones(3), "b": np.ones(2)})


MASKED = np.ma.masked_array([0.5, 2.0], mask=[False, True])


def test_masked_entries_are_refused():
    """A conversion would take what is below the mask for values."""
    for call in (
        lambda: icl_error(tau=MASKED, alpha=1, kappa=1, rho=0),
        lambda: icl_error(tau=[MASKED, MASKED], alpha=1, kappa=1, rho=0),
        lambda: schedule_loss(MASKED, ratio=1),
        lambda: Atoms(MASKED),
        lambda: finite_size_errors(
            dim=2, context=8, tasks=np.ma.stack([MASKED, MASKED]), prompts=20, rho=0.1, rng=0
        ),
        lambda: MarchenkoPastur(0.5).stieltjes(MASKED + 1j),
        lambda: SampleCovariance(Atoms([1.0]), 0.5).stieltjes(MASKED + 1j),
        lambda: Atoms([1.0]).stieltjes(MASKED + 1j),
        lambda: iclimit.curve("icl_error", tau=MASKED, alpha=1, kappa=1, rho=0),
        lambda: iclimit.phase_diagram(
            "icl_error", x="tau", y="alpha", tau=MASKED, alpha=[1, 2], kappa=1, rho=0
        ),
    ):
        value_error("must have no masked entries", call)


def test_an_empty_mask_is_no_mask():
    tau = np.ma.masked_array([0.5, 2.0])
    assert icl_error(tau=tau, alpha=1, kappa=1, rho=0).shape == (2,)
