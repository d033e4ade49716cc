"""Published runs of linear attention, as tables of runs are read."""

from iclimit.units import CONVENTIONS
from iclimit.validation.instruments.runs.measured import MeasuredRun
from iclimit.validation.instruments.runs.table import read_runs
from iclimit.validation.reference import read_reference

ERROR_COLUMNS = {"dim": "d", "tau": "tau_eff", "kappa": "kappa_eff", "ridge": "lam"}
ERROR_COLUMNS |= {"icl": "icl_mean", "icl_sd": "icl_std", "idg": "idg_mean", "idg_sd": "idg_std"}
# Columns of the published tables.
GAP_COLUMNS = {"dim": "d", "ridge": "lam", "gap": "gtask_mean", "runs": "numavg"}


def error_runs() -> list[MeasuredRun]:
    """Published ICL and IDG errors at d = 100, at the parameters actually simulated."""
    return read_runs(
        read_reference("lu_letey_linear_simulations.csv"),
        columns=ERROR_COLUMNS,
        ignore=["tau", "kappa"],
        convention=CONVENTIONS["lu2025"],
        ddof=0,
    )


def gap_runs() -> list[MeasuredRun]:
    """Published ICL minus IDG errors at d = 10 and 32.

    Only rows whose number of tasks is an integer, so that no rounding has to be guessed.  The
    published spread ignores the correlation of the two errors and is not used.
    """
    gaps = [
        run
        for dim in (10, 32)
        for run in read_runs(
            read_reference(f"lu_letey_gtask_d{dim}.csv"),
            columns=GAP_COLUMNS,
            ignore=["gtask_std"],
            convention=CONVENTIONS["lu2025"],
            rounding="nearest",
        )
    ]
    return [run for run in gaps if abs(run.unrounded["tasks"] - run.sizes["tasks"]) < 1e-9]
