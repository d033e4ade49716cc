"""Limits and closed forms of in-context learning theory: no simulation."""

if __name__ != "iclimit.asymptotics":
    raise ImportError("import this package as iclimit.asymptotics")

from iclimit.asymptotics.bayes import DMMSEErrors, bayes_error, dmmse_errors
from iclimit.asymptotics.finite_size import FiniteSizeErrors, finite_size_errors
from iclimit.asymptotics.icl import icl_error, idg_error, task_gap
from iclimit.asymptotics.optimal_ridge import OptimalRidge, optimal_ridge
from iclimit.asymptotics.spectra import MarchenkoPastur, wishart_resolvent

__all__ = [
    "DMMSEErrors",
    "FiniteSizeErrors",
    "MarchenkoPastur",
    "OptimalRidge",
    "bayes_error",
    "dmmse_errors",
    "finite_size_errors",
    "icl_error",
    "idg_error",
    "optimal_ridge",
    "task_gap",
    "wishart_resolvent",
]
