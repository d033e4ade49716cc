"""Number systems and argument checks, for every public function of the room."""

import math
from collections.abc import Callable
from typing import Any

import array_api_strict
import mpmath
import numpy as np
import pytest
import sympy

from iclimit.asymptotics.numbers import ArrayMath, MpMath, SymPyMath, namespace
from iclimit.asymptotics.pretraining import (
    bayes_error,
    dmmse_errors,
    finite_size_errors,
    icl_error,
    idg_error,
    optimal_ridge,
    task_gap,
)
from iclimit.asymptotics.spectra import MarchenkoPastur, wishart_resolvent

LAW = MarchenkoPastur(0.5)
SETTING: dict[str, Any] = {"tau": 1.6, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}
THEORY: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "icl_error": (icl_error, {**SETTING, "ridge": 0.1}),
    "idg_error": (idg_error, {**SETTING, "ridge": 0.1}),
    "task_gap": (task_gap, {**SETTING, "ridge": 0.1}),
    "optimal_ridge": (optimal_ridge, SETTING),
    "bayes_error": (bayes_error, {"alpha": 1.0, "rho": 0.1}),
    "dmmse_errors": (dmmse_errors, {"theta": 0.05, "alpha": 1.0, "rho": 0.1}),
    "wishart_resolvent": (wishart_resolvent, {"q": 1.0, "kappa": 0.5}),
    "MarchenkoPastur": (MarchenkoPastur, {"ratio": 0.5}),
    "shannon_transform": (LAW.shannon_transform, {"snr": 1.0}),
    "quantile": (LAW.quantile, {"probability": 0.5}),
    "density": (LAW.density, {"x": 0.5}),
    "cdf": (LAW.cdf, {"x": 0.5}),
    "stieltjes": (LAW.stieltjes, {"z": -1.0}),
}
FINITE_SIZE = {
    "dim": 6,
    "context": 6,
    "tasks": 3,
    "prompts": 60,
    "rho": 0.1,
    "ridge": 0.1,
    "rng": 0,
}
INVALID: dict[str, list[float]] = {
    "tau": [0.0, -1.0, -math.inf],
    "alpha": [0.0, -1.0, -math.inf],
    "kappa": [0.0, -1.0, -math.inf],
    "rho": [-0.1, math.inf],
    "ridge": [-1e-300, math.inf],
    "theta": [-0.1, math.inf],
    "q": [-1e-300, -math.inf],
    "ratio": [0.0, -1.0, math.inf],
    "snr": [0.0, -1.0],
    "probability": [-0.1, 1.1, math.inf],
    "z": [0.5],
    "x": [],
}
ARGUMENTS = [(name, argument) for name, (_, kwargs) in THEORY.items() for argument in kwargs]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, ArrayMath),
        (1.0, ArrayMath),
        ([1.0, 2.0], ArrayMath),
        (np.float64(1.0), ArrayMath),
        (np.array([1, 2]), ArrayMath),
        (array_api_strict.asarray([1.0]), ArrayMath),
        (mpmath.mpf(1), MpMath),
        (sympy.Symbol("x"), SymPyMath),
        (sympy.Rational(1, 2), SymPyMath),
    ],
)
def test_namespace_follows_the_argument(value: Any, expected: type) -> None:
    assert isinstance(namespace(a=value, b=1.0), expected)


def test_sympy_precedes_mpmath() -> None:
    assert isinstance(namespace(a=sympy.Integer(1), b=mpmath.mpf(1)), SymPyMath)


@pytest.mark.parametrize("scalar", [mpmath.mpf(1), sympy.Integer(1)], ids=["mpmath", "sympy"])
@pytest.mark.parametrize("array", [np.array([1.0, 2.0]), array_api_strict.asarray([1.0, 2.0])])
def test_arrays_do_not_mix(array: Any, scalar: Any) -> None:
    with pytest.raises(TypeError, match=r"tau, alpha.*do not mix with arrays"):
        icl_error(tau=array, alpha=scalar, kappa=1.0, rho=0.1)


@pytest.mark.parametrize("scalar", [mpmath.mpf(1), sympy.Integer(1)], ids=["mpmath", "sympy"])
@pytest.mark.parametrize("wrong", [[1.0, 2.0], "1.5", None, True])
def test_non_numbers_beside_mpmath_and_sympy_are_named(wrong: Any, scalar: Any) -> None:
    with pytest.raises(TypeError, match="tau must be a real number"):
        icl_error(tau=wrong, alpha=scalar, kappa=1.0, rho=0.1)


def test_zero_dimensional_array_is_a_scalar() -> None:
    value = icl_error(tau=np.float64(1.6), alpha=mpmath.mpf(1), kappa=0.5, rho=0.1)
    assert isinstance(value, mpmath.mpf)


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_type_error_names_the_argument(name: str, argument: str) -> None:
    function, kwargs = THEORY[name]
    no_numbers = ["1.0", b"1", None, True, np.True_, np.array([True]), np.array(["1"]), object()]
    # Complex numbers are refused, not truncated.
    no_reals = [] if argument == "z" else [1j, np.complex64(1), np.array([1.0 + 0j])]
    for wrong in [*no_numbers, *no_reals]:
        with pytest.raises(TypeError, match=f"{argument} must be a real number"):
            function(**{**kwargs, argument: wrong})


@pytest.mark.parametrize(("name", "argument"), ARGUMENTS)
def test_value_error_names_argument_and_value(name: str, argument: str) -> None:
    function, kwargs = THEORY[name]
    for value in [*INVALID[argument], math.nan]:
        for wrong in (value, [kwargs[argument], value]):
            with pytest.raises(ValueError, match=rf"^{argument} must .*got.*{value}"):
                function(**{**kwargs, argument: wrong})


@pytest.mark.parametrize("number", [mpmath.mpf, sympy.sympify], ids=["mpmath", "sympy"])
@pytest.mark.parametrize("value", [-1, math.nan])
@pytest.mark.parametrize("argument", ["tau", "alpha", "kappa", "rho", "ridge"])
def test_value_error_in_every_number_system(
    argument: str, value: float, number: Callable[[Any], Any]
) -> None:
    with pytest.raises(ValueError, match=f"{argument} must be .*got {value}"):
        icl_error(**{**SETTING, argument: number(value)})


def test_imaginary_symbol_is_refused() -> None:
    with pytest.raises(ValueError, match=r"alpha must be > 0.*, got I"):
        icl_error(tau=2, alpha=sympy.I, kappa=1, rho=0)


@pytest.mark.parametrize("argument", ["dim", "context", "tasks", "prompts", "draws"])
@pytest.mark.parametrize("value", [0, -1, 2.0, math.nan, True, None, "3"])
def test_finite_size_wants_positive_integers(argument: str, value: Any) -> None:
    with pytest.raises(ValueError, match=f"{argument} must be an integer >= 1.*, got"):
        finite_size_errors(**{**FINITE_SIZE, argument: value})


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("rho", -0.1, "rho must be >= 0 and finite, got -0.1"),
        ("rho", math.nan, "rho must be >= 0 and finite, got nan"),
        ("ridge", math.inf, "ridge must be >= 0 and finite, got inf"),
        ("task_law", "cube", "task_law must be one of sphere, gaussian, got 'cube'"),
        ("tasks", np.ones((3, 5)), r"tasks must have shape \(k, 6\) .* got shape \(3, 5\)"),
        ("tasks", np.ones(6), r"tasks must have shape \(k, 6\) .* got shape \(6,\)"),
        ("tasks", np.ones((0, 6)), r"tasks must have shape \(k, 6\) .* got shape \(0, 6\)"),
    ],
)
def test_finite_size_names_what_is_wrong(argument: str, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        finite_size_errors(**{**FINITE_SIZE, argument: value})


@pytest.mark.parametrize("method", [LAW.moment, LAW.quadrature])
@pytest.mark.parametrize("order", [-1, 1.5, math.nan, math.inf, None, "2", True])
def test_orders_are_integers(method: Callable[[Any], Any], order: Any) -> None:
    with pytest.raises(ValueError, match="order must be an integer >= "):
        method(order)


@pytest.mark.parametrize("derivative", [-1, 3, 0.5, None])
def test_derivative_orders(derivative: Any) -> None:
    with pytest.raises(ValueError, match="derivative must be 0, 1 or 2, got"):
        wishart_resolvent(1.0, 1.0, derivative=derivative)
    with pytest.raises(ValueError, match="derivative must be 0, 1 or 2, got"):
        LAW.stieltjes(-1.0, derivative=derivative)


@pytest.mark.parametrize(
    "call",
    [
        lambda: icl_error(**SETTING),
        lambda: idg_error(**SETTING, ridge=0.1),
        lambda: task_gap(**SETTING),
        lambda: bayes_error(alpha=1, rho=0),
        lambda: optimal_ridge(**SETTING).ridge,
        lambda: optimal_ridge(**SETTING).error,
        lambda: dmmse_errors(theta=0.1, alpha=1, rho=1).icl,
        lambda: dmmse_errors(theta=0.1, alpha=1, rho=1).idg,
        lambda: wishart_resolvent(1, 1),
        lambda: LAW.edges[0],
        lambda: LAW.atom,
        lambda: LAW.density(1),
        lambda: LAW.cdf(1),
        lambda: LAW.quantile(0.5),
        lambda: LAW.moment(3),
        lambda: LAW.stieltjes(-1),
        lambda: LAW.stieltjes(9.0),
        lambda: LAW.companion_stieltjes(-1),
        lambda: LAW.shannon_transform(1),
    ],
)
def test_scalars_in_scalar_out(call: Callable[[], Any]) -> None:
    assert isinstance(call(), float)


def test_arrays_keep_their_library() -> None:
    value = icl_error(**{**SETTING, "tau": array_api_strict.asarray([0.5, 2.0])})
    assert value.__array_namespace__().__name__ == "array_api_strict"
    assert value.dtype == array_api_strict.float64


def test_single_precision_and_integer_arrays_become_float64() -> None:
    for tau in (np.float32(2), np.array(2), 2):
        value = icl_error(**{**SETTING, "tau": tau})
        assert value.dtype == np.float64
        assert value == icl_error(**{**SETTING, "tau": 2.0})


def test_extreme_arguments_are_an_error_and_never_nan() -> None:
    with pytest.raises(ArithmeticError, match="too extreme for float64"):
        icl_error(tau=1e-300, alpha=1, kappa=1, rho=0.1)


def test_shapes_that_do_not_broadcast_are_named() -> None:
    with pytest.raises(ValueError, match="tau, alpha, kappa, rho, ridge must have shapes"):
        icl_error(tau=[1, 2], alpha=[1, 2, 3], kappa=1, rho=0.1)


def test_infinite_context_without_noise_is_exactly_zero() -> None:
    assert list(icl_error(tau=2, alpha=np.inf, kappa=[1, 2], rho=0)) == [0, 0]
