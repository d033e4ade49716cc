"""Curves of a simulated training beside the theory: when half of each drop has happened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics import dynamics
from iclimit.drawing import Axes
from iclimit.results import Result
from iclimit.simulate.dynamics import AttentionModel, initial_weights
from iclimit.simulate.training.results import TrainingCurves
from iclimit.validation.instruments.curves.features import first_below
from iclimit.validation.instruments.curves.setting import time_factor


@dataclass(frozen=True, eq=False, repr=False)
class TrainingDrops(Result):
    """When half of each drop has happened in a training, and when theory predicts it.

    Attributes
    ----------
    curves : TrainingCurves
        Of `simulate_gradient_descent` with a diagonal covariance of the inputs.
    predictions : list of (MergedDrop or Staircase)
        One for each repeat, from its initial weights; none where the theory has no prediction.
    """

    curves: TrainingCurves
    predictions: Sequence[dynamics.MergedDrop | dynamics.Staircase]

    @classmethod
    def of(cls, curves: TrainingCurves, rng: int) -> TrainingDrops:
        """Predict a training from the initial weights of its seed."""
        setting = curves.parameters
        if setting["model"] == "cubic" or setting["problem"].fresh_fraction < 1:
            return cls(curves, [])
        model = AttentionModel(
            setting["model"], setting["problem"].dim, setting["heads"], setting["rank"]
        )
        scale = setting["init_scale"]
        predictions = []
        # Weights count as larger by a root of the factor of time, the same in all layers.
        factor = math.sqrt(_time_factor(setting))
        try:
            for repeat in range(len(curves.losses)):
                weights = initial_weights(
                    model, scale, setting["initialization"], rng=rng, first_repeat=repeat
                )
                scaled = [factor * matrix for matrix in weights]
                predictions.append(predict_drops(scaled, scale, **_law(setting)))
        except (ValueError, ArithmeticError):
            return cls(curves, [])
        return cls(curves, predictions)

    def rows(self) -> list[dict[str, Any]]:
        """Return losses of every repeat and, for random tasks only, the time of each drop."""
        curves = self.curves
        setting = self.curves.parameters
        separate = setting["model"] == "separate"
        levels = dynamics.plateau_losses(**_law(setting))
        middles = (levels[1:] + levels[:-1]) / 2 if separate else [(levels[0] + levels[-1]) / 2]
        rows = []
        for repeat, losses in enumerate(curves.losses):
            first = {"repeat": repeat, "first_loss": float(losses[0])}
            last = {"last_step": int(curves.recorded_at[-1]), "last_loss": float(losses[-1])}
            last |= {f"last_{k}_loss": float(v[repeat, -1]) for k, v in curves.measures.items()}
            if setting["problem"].fresh_fraction < 1:
                rows.append(first | last)
                continue
            for drop, middle in enumerate(middles):
                below = first_below(losses, middle)
                step = int(curves.recorded_at[below]) if below < len(losses) else math.inf
                time = 2 * setting["learning_rate"] * _time_factor(setting) * step
                row = first | ({"learned": drop + 1} if separate else {})
                row |= {"half_drop_step": step, "half_drop_time": time}
                if self.predictions:
                    row["predicted_time"] = float(self.predictions[repeat].drop_times[drop])
                rows.append(row | last | {"limit_loss": float(levels[-1])})
        return rows

    def draw(self, ax: Axes, **line: Any) -> None:
        """Draw the losses as lines, and what is predicted of them as dashes."""
        self.curves.draw(ax, **line)
        times = _time_factor(self.curves.parameters) * self.curves.times
        for index, prediction in enumerate(self.predictions):
            label = None if index else "predicted"
            ax.plot(
                self.curves.recorded_at, prediction.loss(times), "k--", linewidth=0.8, label=label
            )
        if len(ax.get_legend_handles_labels()[0]) > 1:
            ax.legend()


def predict_drops(
    weights: Sequence[np.ndarray], init_scale: float, **law: Any
) -> dynamics.MergedDrop | dynamics.Staircase:
    """Drops of the loss from initial weights of this size, for scores divided by N.

    Raises
    ------
    ValueError
        If the weights of separate attention are too large for the theory.
    """
    value, first, *query = weights
    if not query:
        start = {"key_query": first[:, :-1], "eigenvalues": law["eigenvalues"]}
        scale = float(dynamics.effective_init_scale(value[:, -1], **start))
        return dynamics.merged_attention_drop(init_scale=scale, **law)
    steps = dynamics.separate_attention_staircase(
        value[:, -1], key=first[..., :-1], query=query[0], **law
    )
    if not steps.waits:
        raise ValueError(
            "init_scale must be so small that heads wait for longer than they learn, "
            f"got {init_scale!r}"
        )
    return steps


def _law(setting: dict[str, Any]) -> dict[str, Any]:
    """Arguments of the theory."""
    problem = setting["problem"]
    eigenvalues = np.diag(problem.covariance_of_inputs)
    noise = {"noise_variance": problem.noise_variance}
    return {"eigenvalues": eigenvalues, "context": problem.context, **noise}


def _time_factor(setting: dict[str, Any]) -> float:
    """Time in the units of the theory, over that of the training."""
    return time_factor(setting["model"], setting["problem"].context, setting["normalization"])
