"""Number systems and argument checks, for every public function of the room."""

import array_api_strict
import mpmath
import numpy as np
import sympy

from iclimit.asymptotics.numbers import ArrayMath, MpMath, SymPyMath, namespace
from iclimit.asymptotics.pretraining import icl_error

SETTING = {"tau": 1.6, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}


def test_namespace_follows_the_argument():
    for value, expected in (
        (1, ArrayMath),
        (1.0, ArrayMath),
        ([1.0, 2.0], ArrayMath),
        (np.float64(1.0), ArrayMath),
        (np.array([1, 2]), ArrayMath),
        (array_api_strict.asarray([1.0]), ArrayMath),
        (mpmath.mpf(1), MpMath),
        (sympy.Symbol("x"), SymPyMath),
        (sympy.Rational(1, 2), SymPyMath),
    ):
        assert isinstance(namespace({"a": value, "b": 1.0}), expected)


def test_sympy_precedes_mpmath():
    assert isinstance(namespace({"a": sympy.Integer(1), "b": mpmath.mpf(1)}), SymPyMath)


def test_zero_dimensional_array_is_a_scalar():
    value = icl_error(tau=np.float64(1.6), alpha=mpmath.mpf(1), kappa=0.5, rho=0.1)
    assert isinstance(value, mpmath.mpf)


def test_single_precision_and_integer_arrays_become_float64():
    for tau in (np.float32(2), np.array(2), 2):
        value = icl_error(**{**SETTING, "tau": tau})
        assert value.dtype == np.float64
        assert value == icl_error(**{**SETTING, "tau": 2.0})


def test_infinite_context_without_noise_is_exactly_zero():
    assert list(icl_error(tau=2, alpha=np.inf, kappa=[1, 2], rho=0)) == [0, 0]
