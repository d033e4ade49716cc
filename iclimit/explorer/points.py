"""Simulated points of the explorer, as rows with their parameters and standard errors."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from iclimit.notation import ratios_of

# What a point of errors depends on in the limit.
PARAMETERS = ("tau", "alpha", "kappa", "rho", "ridge")

# A ridge up to this one stands for none: so do the authors of the published runs.
_NO_RIDGE = 1e-6

# Settings of a user's runs that get a button.
_SHOWN = 3

_SIZES = ("prompts", "context", "tasks")
_OTHER_DATA = ("task_covariance", "test_covariance", "input_covariance")
_OTHER_TESTS = ("test_context", "test_rho")


def published_errors() -> list[dict[str, Any]]:
    """Published ICL and IDG errors of linear attention at d = 100."""
    from iclimit.validation.reference.runs import error_runs

    rows = []
    for run in error_runs():
        row: dict[str, Any] = {"source": "published", "dim": run.sizes["dim"], **run.ratios}
        for name in ("icl", "idg"):
            estimate = run.errors[name]
            row |= {name: estimate.mean, f"{name}_se": estimate.standard_error}
        rows.append(_plain(row))
    return rows


def stored_errors(path: Path) -> list[dict[str, Any]]:
    """ICL and IDG errors on record in a store of runs: isotropic data, plain tests."""
    from iclimit.runs.store import RunStore, concatenated_numbers

    rows = []
    with RunStore(path, readonly=True) as store:
        for run in store.runs(function="pretraining.cells.simulate_errors"):
            given = run.arguments
            if any(given.get(name) is not None for name in (*_OTHER_DATA, *_OTHER_TESTS)):
                continue
            try:
                dim = int(given["dim"])
                row: dict[str, Any] = {
                    "source": "your runs",
                    "dim": dim,
                    **ratios_of(dim, **{name: float(given[name]) for name in _SIZES}),
                    **{name: float(given.get(name, 0.0)) for name in ("rho", "ridge")},
                }
                numbers = concatenated_numbers(store.find(run.identity))
                for name in ("icl", "idg"):
                    value, error = numbers[name]
                    row |= {name: value, f"{name}_se": math.inf if error is None else error}
            except (AttributeError, KeyError, TypeError, ValueError, ZeroDivisionError):
                continue  # a record of another program
            if all(math.isfinite(row[name]) for name in ("kappa", "icl", "idg")):
                rows.append(_plain(row))
    if not rows:
        raise ValueError(
            "store must hold runs of simulate_errors with isotropic data, got none in "
            f"{str(path)!r}"
        )
    return rows


def presets(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any]]]:
    """Buttons that lead to stored points: the parameters that many of them share."""
    symbols = {"tau": "τ", "alpha": "α", "kappa": "κ"}
    counts = Counter(
        (row["source"], axis, *((n, float(f"{row[n]:.3g}")) for n in PARAMETERS if n != axis))
        for axis in symbols
        for row in rows
    )
    many = [setting for setting, count in counts.most_common() if count >= 4]
    own = [setting for setting in many if setting[0] == "your runs"]
    buttons = []
    for source, axis, *shared in (each for each in many if each not in own[_SHOWN:]):
        values = {"axis": axis, **dict(shared)}
        others = [n for n in symbols if n != axis and len({r[n] for r in rows}) > 1]
        shown = ", ".join(f"{symbols[name]} = {values[name]:g}" for name in others[:2])
        buttons.append((f"{source}: {symbols[axis]} at {shown}", values))
    return buttons


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Python numbers; a tiny ridge is none, and an unknown standard error no bar."""
    row = {
        name: each if isinstance(each, (str, int)) else float(each) for name, each in row.items()
    }
    row["ridge"] = 0.0 if row["ridge"] <= _NO_RIDGE else row["ridge"]
    for name in ("icl_se", "idg_se"):
        row[name] = row[name] if math.isfinite(row[name]) else 0.0
    return row
