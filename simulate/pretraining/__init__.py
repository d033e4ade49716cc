"""Pretrained linear attention at finite size, and the Bayes estimators beside it."""

from iclimit.notation import explain_names
from iclimit.simulate.pretraining.cells import SimulatedErrors, simulate_errors
from iclimit.simulate.pretraining.cost import CellCost, estimate_cost, largest_dimension
from iclimit.simulate.pretraining.estimators import simulate_estimator

__all__ = [
    "CellCost",
    "SimulatedErrors",
    "estimate_cost",
    "largest_dimension",
    "simulate_errors",
    "simulate_estimator",
]

explain_names(__name__)
