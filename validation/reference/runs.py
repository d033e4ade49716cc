"""Published runs of linear attention, as tables of runs are read."""

from typing import Any

from iclimit.units import CONVENTIONS
from iclimit.validation.reference import read_reference
from iclimit.validation.yours.runs.measured import MeasuredRun, read_runs

ERROR_COLUMNS = {"dim": "d", "tau": "tau_eff", "kappa": "kappa_eff", "ridge": "lam"}
ERROR_COLUMNS |= {"icl": "icl_mean", "icl_sd": "icl_std", "idg": "idg_mean", "idg_sd": "idg_std"}
# What the columns of the published tables are called.
GAP_COLUMNS = {"dim": "d", "ridge": "lam", "gap": "gtask_mean", "runs": "numavg"}


def _published(file: str, columns: dict[str, str], **reading: Any) -> list[MeasuredRun]:
    units = CONVENTIONS["lu2025"]
    return read_runs(read_reference(file), columns=columns, convention=units, **reading)


def error_runs() -> list[MeasuredRun]:
    """Published ICL and IDG errors at d = 100, at the parameters actually simulated."""
    reading: dict[str, Any] = {"ignore": ["tau", "kappa"], "ddof": 0}
    return _published("lu_letey_linear_simulations.csv", ERROR_COLUMNS, **reading)


def gap_runs() -> list[MeasuredRun]:
    """Published ICL minus IDG errors at d = 10 and 32.

    Only rows whose number of tasks is an integer, so that no rounding has to be guessed.  The
    published spread ignores the correlation of the two errors and is not used.
    """
    reading: dict[str, Any] = {"ignore": ["gtask_std"], "rounding": "nearest"}
    files = (f"lu_letey_gtask_d{dim}.csv" for dim in (10, 32))
    gaps = [run for file in files for run in _published(file, GAP_COLUMNS, **reading)]
    return [run for run in gaps if abs(run.unrounded["tasks"] - run.sizes["tasks"]) < 1e-9]
