"""Kernels of a GPU, compiled for the processor: the numbers of NumPy, without a GPU."""

import sys
from types import SimpleNamespace

import array_api_compat
import numpy as np
import pytest
from compiled_kernels import ElementwiseKernel
from generated_javascript import random_points

from iclimit.asymptotics.recording.arrays import Recorded
from iclimit.asymptotics.recording.kernels import kernel, kernel_body
from iclimit.explorer.functions import functions
from iclimit.pretraining import error_spread, icl_error, idg_error, task_gap

BY_NAME = {function.name: function for function in functions()}

# Relative difference from NumPy: roots are found to a few digits of the last place.
ACCURACY = 1e-12


@pytest.fixture
def as_cupy(monkeypatch, tmp_path):
    """Arrays of NumPy are taken for CuPy's."""
    monkeypatch.setattr(ElementwiseKernel, "folder", tmp_path)
    stand_in = SimpleNamespace(ElementwiseKernel=ElementwiseKernel, ndarray=ElementwiseKernel)
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    kernel.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(array_api_compat, "is_cupy_array", lambda _: True)
        yield
    kernel.cache_clear()


def settings(name, count):
    """Arguments of a function at random points over its ranges, their ends among them."""
    function = BY_NAME[name]
    points = random_points(function, count, np.random.default_rng(5))
    return dict(zip(function.arguments, points.T, strict=True))


POINT = settings("icl_error", 2000)
SPREAD = settings("icl_spread", 2000)
EXPECTED = {
    "icl_error": icl_error(**POINT),
    "idg_error": idg_error(**POINT),
    "error_spread": error_spread(**SPREAD),
    "classes": icl_error(**POINT, link="sign", flips=0.1),
}


@pytest.mark.usefixtures("as_cupy")
def test_errors():
    np.testing.assert_allclose(icl_error(**POINT), EXPECTED["icl_error"], rtol=ACCURACY)
    np.testing.assert_allclose(idg_error(**POINT), EXPECTED["idg_error"], rtol=ACCURACY)
    labels = icl_error(**POINT, link="sign", flips=0.1)
    np.testing.assert_allclose(labels, EXPECTED["classes"], rtol=ACCURACY)


@pytest.mark.usefixtures("as_cupy")
def test_spreads():
    found = error_spread(**SPREAD)
    for name in ("icl", "idg", "icl_prompts", "icl_tasks"):
        expected = getattr(EXPECTED["error_spread"], name)
        np.testing.assert_allclose(getattr(found, name), expected, rtol=ACCURACY)


@pytest.mark.usefixtures("as_cupy")
def test_shapes_and_numbers():
    grid = icl_error(tau=np.array([[0.5], [2.0]]), alpha=np.ones(3), kappa=0.5, rho=0.1)
    assert grid.shape == (2, 3)
    assert float(task_gap(tau=1.6, alpha=1.0, kappa=0.5, rho=0.1)) == pytest.approx(
        0.7497, abs=1e-4
    )
    with pytest.raises(ValueError, match="tau"):
        icl_error(tau=np.array([1.0, -1.0]), alpha=1, kappa=0.5, rho=0.1)


@pytest.mark.usefixtures("as_cupy")
def test_one_kernel_serves_all_calls():
    for rho in (0.1, 0.2):
        icl_error(tau=np.linspace(1.1, 2, 5), alpha=1, kappa=0.5, rho=rho)
    assert kernel.cache_info().currsize == 1


def operations(math_, x, y):
    """Everything that a kernel is written with."""
    table = np.array([1.0, 2.0, 3.0, 5.0, 7.0, 11.0])
    loop = np.sum(np.exp(-x * table) / (y + table))
    chosen = np.where((x < y) & ~(x == 1), np.log1p(x) * np.hypot(x, y), np.arctan2(x, -y))
    extremes = np.maximum(x, np.minimum(y, np.where(x > 2, np.nan, np.inf)))
    powers = x**1.5 + y**3 - abs(x - y) + np.tanh(x) * np.floor(y)
    settled = math_.find_root(lambda u, a: u**3 - a, (0.0, 1 + x), [x])
    return np.where(loop > 1, loop, chosen), extremes, powers, settled


@pytest.mark.usefixtures("as_cupy")
def test_operations():
    x, y = np.random.default_rng(0).uniform(0.01, 4, (2, 1000))
    x[0] = 1.0
    loop, extremes, powers, root = kernel(operations, 2, 4)(x, y)
    one = SimpleNamespace(find_root=lambda *search: np.cbrt(search[2][0]))
    expected = np.transpose([operations(one, *pair) for pair in zip(x, y, strict=True)])
    for found, wanted in zip((loop, extremes, powers, root), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_what_has_no_kernel_is_refused():
    x = Recorded.variable("x")
    least, _ = x.number_system.find_minimum(lambda u, a: (u - a) ** 2, [0.0, 1.0, 2.0], [x])
    with pytest.raises(TypeError, match="there is no CUDA for numpy"):
        kernel_body([least.node])
