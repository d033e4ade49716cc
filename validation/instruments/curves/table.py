"""Training curves as users have them: steps or times, and the losses of one or several runs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.notation import did_you_mean
from iclimit.simulate.dynamics import TrainingCurves
from iclimit.validation.instruments.forms import columns_of_wandb, is_blank
from iclimit.validation.instruments.reading import LABEL, Table, read_columns, read_table
from iclimit.validation.instruments.runs.measured import MEASURED

# Most numbered columns of losses in one table; more runs need a column run.
MOST = 10

# Names of columns: what the loss is recorded against, steps of gradient descent or the time of the
# flow; the loss, or one column for each run; and the run of a row.
ROLES = ("step", "time", "loss", "run", *(f"loss_{number}" for number in range(MOST)))

# Other names of these columns, for hints.
USUAL = {
    "step": ("steps", "iteration", "iterations", "iter", "global_step", "_step"),
    "time": ("times", "t"),
    "loss": ("losses", "train_loss", "training_loss", "train/loss", "mse", "train_mse"),
    "run": ("runs", "seed", "repeat", "rep", "trial"),
}

# Column that the export of a chart of wandb has first.
WANDB_STEP = "Step"

# Fewest records of a curve.
FEWEST = 5

# Range of steps and times, so that their squares are finite.
STEPS = "[0, 1e100)"

# A run counts as diverged if its loss exceeds the first one by this factor.
DIVERGED = 100.0


@dataclass(frozen=True, eq=False)
class Curve:
    """A recorded curve.

    Attributes
    ----------
    label : str
        Name of the run.
    steps, losses : ndarray (n,)
        Steps, or times of the flow, in ascending order, and the losses there.
    axis : {"step", "time"}
        Which of them.
    """

    label: str
    steps: np.ndarray
    losses: np.ndarray
    axis: str

    def since(self, record: int) -> "Curve":
        """The curve from a record on."""
        return replace(self, steps=self.steps[record:], losses=self.losses[record:])


def read_curves(
    table: object,
    *,
    record: float | None,
    columns: Mapping[str, str] | None = None,
    ignore: Sequence[str] | str = (),
    impossible: bool = False,
) -> tuple[list[Curve], list[str]]:
    """Read curves; return them, and which runs are left out, why.

    Parameters
    ----------
    table
        As in `iclimit.check_curve`.
    record : number, optional
        Steps from one row to the next, for tables without a column of steps.
    columns, ignore
        How columns are called and which are ignored, as in `read_table`.
    impossible : bool
        Whether curves that are no mean squared errors are returned if there are no others.

    Raises
    ------
    ValueError
        If the table cannot be read, or no curve can be used.
    """
    if isinstance(table, TrainingCurves):
        repeats, records = table.losses.shape
        table = {
            "step": np.tile(table.recorded_at, repeats),
            "loss": table.losses.ravel(),
            "run": np.repeat(np.arange(repeats), records),
        }
    by_run, remarks = _by_run(table, columns, ignore)
    entries = read_table(by_run, ROLES, columns=columns, ignore=ignore, hint=_hint)
    names = [name for name in ROLES if name.startswith("loss") and name in entries]
    if not names:
        raise ValueError("the table must have a column loss (columns={'loss': ...})")
    axis, steps = _axis(entries, record)
    curves = []
    others = []
    for name in names:
        values = _losses(entries, name)
        for run, rows in _runs(entries).items():
            words = [entries.names[name]] if len(names) > 1 else []
            label = ", ".join([*words, *([f"run {run}"] if run else [])]) or "the curve"
            logged = _logged(entries.entries[name], values, rows)
            curve = _sorted(Curve(label, steps[logged], values[logged], axis))
            problem = _unreadable(curve) or _impossible(curve)
            if problem:
                remarks.append(f"{label} {problem}")
            if not problem:
                curves.append(curve)
            elif not _unreadable(curve):
                others.append(curve)
    if impossible and not curves:
        curves = others
    if not curves:
        raise ValueError(unusable(remarks))
    return curves, remarks


def unusable(remarks: Sequence[str]) -> str:
    """Why no curve can be used."""
    return f"no curve can be used: {'; '.join(remarks)}"


def are_impossible(curves: Sequence[Curve]) -> bool:
    """Whether curves are no mean squared errors; those that were read are all alike."""
    return any(map(_impossible, curves))


def _by_run(
    table: object, columns: object, ignore: Sequence[str] | str
) -> tuple[object, list[str]]:
    """The table, or rows of runs where it is the export of a chart of wandb; remarks on it.

    The columns of such an export stay where a user names one of them.
    """
    mapped = columns.values() if isinstance(columns, Mapping) else ()
    named = [*mapped, *([ignore] if isinstance(ignore, str) else ignore)]
    entries = read_columns(table, {*ROLES, *named}, LABEL)
    rows = columns_of_wandb(entries)
    if rows is None or any(name in entries and name not in rows for name in named):
        return entries, []
    metrics = [name for name in rows if name not in (WANDB_STEP, LABEL)]
    if len(metrics) > 1 or WANDB_STEP not in rows or mapped:
        return rows, []
    renamed = {"step": rows[WANDB_STEP], LABEL: rows[LABEL], "loss": rows[metrics[0]]}
    return renamed, [f"{WANDB_STEP} of wandb is taken as step, and {metrics[0]} as loss"]


def _logged(entries: Sequence[Any], losses: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Rows of a run whose losses were logged.

    An empty entry is NaN where pandas has read the file, and a loss that diverged is NaN, too, but
    stays so: entries before the last number were not logged, and neither were those behind it if
    they are no more than there are between two numbers.
    """
    written = np.array([row for row in rows if not is_blank(entries[row])], dtype=int)
    numbers = np.flatnonzero(~np.isnan(losses[written]))
    if not numbers.size:
        return written
    behind = len(written) - 1 - numbers[-1]
    between = int(np.max(np.diff(numbers), initial=1)) - 1
    if behind > between:
        numbers = np.concatenate([numbers, np.arange(numbers[-1] + 1, len(written))])
    return written[numbers]


def _hint(name: str) -> str:
    if name.lower() in MEASURED:
        return "; errors of training on n prompts are for iclimit check, with steps or time;"
    for role, others in USUAL.items():
        if name.lower() in others:
            return f"; did you mean {role}?"
    return did_you_mean(name, ROLES[:4])


def _axis(table: Table, record: float | None) -> tuple[str, np.ndarray]:
    """What the loss is recorded against, and its numbers."""
    axes = [name for name in ("step", "time") if name in table]
    if len(axes) == 2:
        raise ValueError("the table has both step and time: ignore one of them")
    if axes and record is not None:
        raise ValueError(f"record must not be given, as the table has a column {axes[0]}")
    if not axes and record is None:
        raise ValueError(
            "the table must have a column step or time (columns={'step': ...}), or record must "
            "say how many steps there are from one row to the next"
        )
    if axes:
        return axes[0], np.array(table.numbers(axes[0], STEPS))
    steps = np.zeros(len(table))
    for rows in _runs(table).values():
        steps[rows] = float(record or 1) * np.arange(len(rows))
    return "step", steps


def _losses(table: Table, name: str) -> np.ndarray:
    """Losses of a column, where NaN and inf stand for a run that diverged, or for no record."""
    losses = []
    for row, entry in enumerate(table.entries[name], 1):
        if is_blank(entry):
            losses.append(math.nan)
            continue
        try:
            if np.iscomplexobj(entry):  # NumPy would drop the imaginary part
                raise TypeError
            losses.append(float(entry))
        except (TypeError, ValueError):
            raise table.fault(row, name, f"must be a number, got {entry!r}") from None
    return np.array(losses)


def _runs(table: Table) -> dict[str, np.ndarray]:
    """Rows of each run, in the order of the table."""
    if "run" not in table:
        return {"": np.arange(len(table))}
    labels = np.array([str(entry).strip() for entry in table.entries["run"]])
    return {str(run): np.flatnonzero(labels == run) for run in dict.fromkeys(labels)}


def _sorted(curve: Curve) -> Curve:
    order = np.argsort(curve.steps, kind="stable")
    steps = curve.steps[order]
    twice = np.flatnonzero(np.diff(steps) == 0)
    if twice.size:
        raise ValueError(
            f"{curve.label} has {steps[twice[0]]:g} twice as step or time: a column run must tell "
            "several runs in one table apart"
        )
    return replace(curve, steps=steps, losses=curve.losses[order])


def _unreadable(curve: Curve) -> str:
    """Why a curve is not read; empty if it is."""
    losses = curve.losses
    bad = np.flatnonzero(~np.isfinite(losses))
    if bad.size:
        return f"diverged: its loss is {losses[bad[0]]} at {curve.steps[bad[0]]:g}"
    if len(losses) < FEWEST:
        return f"has {len(losses)} records, fewer than {FEWEST}"
    return ""


def _impossible(curve: Curve) -> str:
    """Why a curve is not one of mean squared errors of a descent; empty if it may be one."""
    steps = curve.steps
    losses = curve.losses
    low = int(np.argmin(losses))
    high = int(np.argmax(losses))
    if losses[low] < 0:
        return (
            f"is no mean squared error: its loss is {losses[low]:g} at {steps[low]:g} (if "
            "these are logarithms or R^2, turn them into errors)"
        )
    if losses[high] > DIVERGED * losses[0]:
        return f"diverged: its loss is {losses[high]:.3g} at {steps[high]:g}"
    return ""
