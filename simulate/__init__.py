"""Finite-size simulation of linear attention on NumPy or CuPy: no theory."""

if __name__ != "iclimit.simulate":
    raise ImportError("import this package as iclimit.simulate")

from iclimit.simulate.cells import SimulatedErrors, simulate_errors
from iclimit.simulate.estimators import simulate_estimator

__all__ = ["SimulatedErrors", "simulate_errors", "simulate_estimator"]
