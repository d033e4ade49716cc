"""What the explorer shows beside its formulas: simulated points and published numbers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.asymptotics import descent, dynamics
from iclimit.checks import check_arguments
from iclimit.notation import ratios_of
from iclimit.validation.reference import read_reference
from iclimit.validation.reference.curves import CONTEXT, CURVES, eigenvalues
from iclimit.validation.reference.runs import error_runs

if TYPE_CHECKING:
    from iclimit.runs.store import StoredBatch

# Parameters of a point of errors in the limit.
PARAMETERS = ("tau", "alpha", "kappa", "rho", "ridge")

# A ridge up to this one stands for none: so do the authors of the published runs.
_NO_RIDGE = 1e-6

# Settings of a user's runs that get a button.
_SHOWN = 3

_SIZES = ("prompts", "context", "tasks")

# What a run of the view states, and what it may state besides: how it was computed, not of what.
_STATED = ("dim", *_SIZES, "rho", "ridge")
_WAYS = ("sampler", "test_prompts")

# What says the same as leaving it out.  Tests are those of the training unless they say otherwise.
_NEUTRAL: dict[str, Any] = {
    "task_law": "sphere",
    "input_law": "gaussian",
    "drift": 0,
    "correlation": 0,
    "correlated_query": False,
    "test_drift": 0,
    "test_correlation": 0,
}


def published_errors() -> list[dict[str, Any]]:
    """Published ICL and IDG errors of linear attention at d = 100."""
    rows = []
    for run in error_runs():
        row: dict[str, Any] = {"source": "published", "dim": run.sizes["dim"]}
        row |= {name: run.ratios[name] for name in PARAMETERS}
        for name in ("icl", "idg"):
            estimate = run.errors[name]
            row |= {name: estimate.mean, f"{name}_se": estimate.standard_error}
        rows.append(_plain(row))
    return rows


def stored_errors(path: Path) -> list[dict[str, Any]]:
    """ICL and IDG errors on record in a store of runs, of those that the view predicts.

    These state sizes, label noise and a ridge only, so that tasks are on the sphere, inputs
    Gaussian and isotropic, the context is not gated, and tests are as the training.
    """
    from iclimit.runs.store import RunStore
    from iclimit.simulate.pretraining import simulate_errors

    function = f"{simulate_errors.__module__}.{simulate_errors.__qualname__}"
    with RunStore(path, readonly=True) as store:
        runs = [run for run in store.runs(function=function) if run.function == function]
        stored = (_stored_row(run.arguments, store.find(run.identity)) for run in runs)
        rows = [row for row in stored if row is not None]
    if not rows:
        raise ValueError(
            "store must hold runs of simulate_errors with isotropic data, plain contexts and "
            f"tests as in training, got none in {str(path)!r}"
        )
    return rows


def _stored_row(given: Mapping[str, Any], batches: list[StoredBatch]) -> dict[str, Any] | None:
    """Point of a run with these arguments; None if the view predicts another quantity."""
    from iclimit.runs.store import concatenated_numbers

    if not _is_plain(given):
        return None
    try:
        stated = {name: given.get(name, 0.0) for name in _STATED}
        check_arguments(**stated)
        dim = int(stated["dim"])
        row: dict[str, Any] = {"source": "your runs", "dim": dim}
        row |= ratios_of(dim, {name: float(stated[name]) for name in _SIZES})
        row |= {name: float(stated[name]) for name in ("rho", "ridge")}
        numbers = concatenated_numbers(batches)
        for name in ("icl", "idg"):
            value, error = numbers[name]
            row |= {name: value, f"{name}_se": math.inf if error is None else error}
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError):
        return None  # a record of another program, or of another version
    # The view has no point for a fresh task in every prompt.
    if not all(0 <= row[name] < math.inf for name in ("kappa", "icl", "idg")):
        return None
    return _plain(row)


def _is_plain(given: Mapping[str, Any]) -> bool:
    """Whether arguments are those of the view: each further one says what holds without it."""
    tests = {"test_context": given.get("context"), "test_rho": given.get("rho")}
    neutral = _NEUTRAL | tests
    others = given.keys() - {*_STATED, *_WAYS}
    return all(given[name] in (None, neutral.get(name)) for name in others)


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
    for source, axis, *shared in (setting for setting in many if setting not in own[_SHOWN:]):
        values = {"axis": axis, **dict(shared)}
        others = [n for n in symbols if n != axis and len({r[n] for r in rows}) > 1]
        shown = ", ".join(f"{symbols[name]} = {values[name]:g}" for name in others[:2])
        buttons.append((f"{source}: {symbols[axis]} at {shown}", values))
    return buttons


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """The row in Python numbers, without a negligible ridge and unknown standard errors."""
    row = {
        name: value if isinstance(value, (str, int)) else float(value)
        for name, value in row.items()
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
    return {"x": [round(value, 4) for value in x.tolist()], "losses": losses}


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
