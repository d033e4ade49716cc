"""What the explorer shows beside its formulas: simulated points and published numbers."""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.asymptotics import descent, dynamics
from iclimit.notation import ratios_of
from iclimit.validation.reference import read_reference
from iclimit.validation.reference.curves import CONTEXT, CURVES, eigenvalues
from iclimit.validation.reference.runs import error_runs

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


def blog_figures() -> dict[str, Any]:
    """Rows behind figures 7 to 9 and 13 to 16 of the blog post of `rossi2024`, by what they show.

    Losses there are halves of mean squared errors; here they are mean squared errors.
    """
    return {"context": _context(), "layers": _layers(), "lstm": _lstm(), "dampening": _dampening()}


def _context() -> list[dict[str, float]]:
    """Figure 9: trained linear attention and one step, against the context length."""
    names = {"trained": "loss_final", "step": "gd_loss"}
    return [
        {"context": float(row["context"]), **{name: _mse(row[key]) for name, key in names.items()}}
        for row in read_reference("blog_fig9_gd_loss.csv")
    ]


def _layers() -> list[dict[str, Any]]:
    """Figures 7 and 8: softmax and linear attention of one to five layers."""
    series = defaultdict(list)
    for row in read_reference("blog_fig7_fig8_layers.csv"):
        bands = [_mse(row[name]) for name in ("median_loss", "band_a", "band_b")]
        series[row["model"], int(row["layers"])].append([float(row["context"]), *bands])
    return [
        {"model": model, "layers": layers, "rows": rows}
        for (model, layers), rows in series.items()
    ]


def _lstm() -> list[dict[str, Any]]:
    """Figures 14 to 16: LSTM networks in training, their losses and distances to one step.

    Distances of predictions and of gradients are mean squares as well; similarities are cosines.
    """
    series = defaultdict(list)
    for row in read_reference("blog_fig14_16_lstm.csv"):
        value = row["median"]
        shown = float(value) if row["series"] == "Model similarity" else _mse(value)
        series[int(row["figure"]), row["series"], int(row["layers"])].append(
            [float(row["step"]), shown]
        )
    return [
        {"figure": figure, "series": name, "layers": layers, "rows": rows}
        for (figure, name, layers), rows in series.items()
    ]


def _dampening() -> dict[str, Any]:
    """Figure 13: exact mean losses of a repeated layer with N = d = 10, relative to those at 0."""
    size: dict[str, Any] = {"context": 10, "dim": 10}
    x = np.linspace(0.05, 1.5, 59)
    rate = descent.optimal_learning_rate(**size).rate
    losses = {}
    for steps in (1, 2, 4, 8):
        rates = np.repeat((x * rate)[:, None], steps, axis=1)
        losses[steps] = [float(f"{loss:.6g}") for loss in descent.schedule_loss(rates, **size)]
    return {"x": [round(each, 4) for each in x.tolist()], "losses": losses}


def _mse(half: str) -> float:
    """Mean squared error of a published half."""
    return float(f"{2 * float(half):.6g}")


# Most points of a curve; the published ones have up to 1001.
POINTS = 250


def training_runs() -> list[dict[str, Any]]:
    """Published loss curves of linear attention, and the plateaus with 0, 1, ... learned."""
    runs = []
    for curve in CURVES:
        steps, losses = curve.read().T
        kept = np.unique(np.linspace(0, len(steps) - 1, POINTS).astype(int))
        spectrum = eigenvalues(curve.settings["dim"])
        runs.append(
            {
                "label": curve.label,
                "heads": curve.settings["heads"],
                "eigenvalues": spectrum.tolist(),
                "context": CONTEXT,
                "plateaus": dynamics.plateau_losses(spectrum, context=CONTEXT).tolist(),
                "learned": [0, *curve.learned, len(spectrum)],
                "steps": steps[kept].astype(int).tolist(),
                "losses": [float(f"{loss:.6g}") for loss in losses[kept]],
            }
        )
    return runs
