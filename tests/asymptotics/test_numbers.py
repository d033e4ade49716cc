"""Number systems and argument checks, for every public function of the room."""

import math

import array_api_strict
import mpmath
import numpy as np
import sympy

from iclimit.asymptotics.numbers import ArrayMath, MpMath, SymPyMath, namespace
from iclimit.asymptotics.pretraining import (
    bayes_error,
    dmmse_errors,
    icl_error,
    idg_error,
    optimal_ridge,
    task_gap,
)
from iclimit.asymptotics.spectra import MarchenkoPastur, wishart_resolvent

LAW = MarchenkoPastur(0.5)
SETTING = {"tau": 1.6, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}
THEORY = {
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
INVALID = {
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
        assert isinstance(namespace(a=value, b=1.0), expected)


def test_sympy_precedes_mpmath():
    assert isinstance(namespace(a=sympy.Integer(1), b=mpmath.mpf(1)), SymPyMath)


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
