"""Published numbers of the blog post on transformers that learn in context, for its live figures.

Losses there are halves of mean squared errors; here they are mean squared errors.
"""

from collections import defaultdict
from typing import Any

import numpy as np

from iclimit.asymptotics import descent
from iclimit.validation.reference import read_reference


def figures() -> dict[str, Any]:
    """Rows behind figures 7 to 9 and 13 to 16, by what they show."""
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
