"""A trained layer on other inputs and tasks, interpolated, and repeated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import learning_rate_loss, optimal_learning_rate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import interpolate, labels_only, roll_out
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.descent.regression import Regression, regression_tokens
from iclimit.simulate.descent.training import train_attention
from iclimit.simulate.transformer import Layer
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.descent.learning_rates import VON_OSWALD
from iclimit.validation.claims.descent.paired import (
    BLOCK,
    DIM,
    HELD_OUT,
    descent_predictions,
    layer_predictions,
    mean_and_error,
    paired_losses,
    seeds,
)
from iclimit.validation.drawing import COLOURS, draw_points, log_scale

TRANSFER: dict[str, Any] = {"context": 10, "dim": DIM}
SCALES = (0.5, 0.75, 1.0, 1.5, 2.0)
TASK_SCALES = (0.5, 1.0, 2.0, 5.0)
WEIGHTS = (0.25, 0.5, 0.75)
REPETITIONS, DAMPENING = 10, 0.7
TRANSFER_ALLOWANCE = 0.03
"""Relative; what is left of the layer's part that does not do gradient descent grows with the
fourth power of the input range."""


@dataclass(frozen=True)
class Transfer:
    """A trained layer where it was not trained.

    Attributes
    ----------
    inputs, tasks, interpolated : dict of float to (float, float)
        Loss minus that of the gradient-descent step on the same prompts, with its s.e., by scale
        or weight.
    steps : dict of str to (float, float)
        Losses of the step itself at the scales of inputs and tasks.
    rolled, descended : ndarray
        Median squared errors after 0, 1, ... repetitions of the layer and of the step.
    """

    inputs: dict[float, tuple[float, float]]
    tasks: dict[float, tuple[float, float]]
    interpolated: dict[float, tuple[float, float]]
    steps: dict[str, tuple[float, float]]
    rolled: np.ndarray
    descended: np.ndarray


def transferred_layer(*, rate: float, held_out: int, rng: Any) -> Transfer:
    """Train one layer; test it on other inputs and tasks, interpolated, and repeated."""
    problem = Regression(input_law="uniform", **TRANSFER)
    seed, generator = seeds(rng)
    layer = train_attention(problem, rng=seed).layers[0]
    step = descent_predictions(rate, problem)

    steps: dict[str, tuple[float, float]] = {}

    def excess(tested: Layer, case: str = "", **changes: Any) -> tuple[float, float]:
        law = Regression(input_law="uniform", **TRANSFER, **changes)
        predictors = {"layer": layer_predictions(tested), "step": step}
        errors = paired_losses(law, predictors, held_out, generator)
        if case:
            steps[case] = mean_and_error(errors["step"])
        return mean_and_error(errors["layer"] - errors["step"])

    constructed = descent_layer(rate, **TRANSFER)
    prompts = problem.sample(get_backend("numpy"), generator, BLOCK)
    rolled = roll_out(regression_tokens(prompts), labels_only(layer), REPETITIONS, DAMPENING)
    descended = roll_out(regression_tokens(prompts), constructed, REPETITIONS, DAMPENING)
    return Transfer(
        inputs={s: excess(layer, f"inputs times {s:g}", scale=s) for s in SCALES},
        tasks={s: excess(layer, f"tasks times {s:g}", task_variance=s**2) for s in TASK_SCALES},
        interpolated={w: excess(interpolate(layer, constructed, w)) for w in WEIGHTS},
        steps=steps,
        rolled=np.median((rolled - prompts.y_query) ** 2, axis=1),
        descended=np.median((descended - prompts.y_query) ** 2, axis=1),
    )


def _transfer(preset: Preset) -> Cell:
    rate = float(optimal_learning_rate(input_law="uniform", **TRANSFER).rate)
    return Cell.of(transferred_layer, rate=rate, held_out=HELD_OUT[preset])


def _exact_loss(scale: float = 1.0, task_scale: float = 1.0) -> float:
    """Loss of the step, trained at scale 1, at other scales."""
    rate = optimal_learning_rate(input_law="uniform", **TRANSFER).rate
    moments = (scale**2 / 3, scale**4 / 5)
    return float(
        learning_rate_loss(rate, input_law=moments, task_variance=task_scale**2, **TRANSFER)
    )


def _judge_transfer(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    run: Transfer = results[_transfer(preset)]
    cases = [
        *((f"inputs times {s:g}", _exact_loss(s), run.inputs[s]) for s in SCALES),
        *((f"tasks times {s:g}", _exact_loss(1.0, s), run.tasks[s]) for s in TASK_SCALES),
        *((f"interpolated, weight {w:g}", _exact_loss(), run.interpolated[w]) for w in WEIGHTS),
    ]
    comparisons = [
        Comparison(name, loss, loss + excess, error, TRANSFER_ALLOWANCE * loss)
        for name, loss, (excess, error) in cases
    ]
    comparisons += [
        Comparison(f"the step itself, {name}", loss, *run.steps[name])
        for name, loss, _ in cases
        if name in run.steps
    ]
    comparisons.append(
        Comparison(
            f"median error after {REPETITIONS} repetitions, relative",
            1.0,
            float(run.rolled[-1] / run.descended[-1]),
            0.0,
            ROLL_OUT_ALLOWANCE,
        )
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.2)
        inputs, tasks, rolled = figure.subplots(1, 3)
        for ax, kind, found in ((inputs, "input", run.inputs), (tasks, "task", run.tasks)):
            grid = np.geomspace(min(found), max(found), 50)
            exact = [_exact_loss(s) if kind == "input" else _exact_loss(1.0, s) for s in grid]
            ax.plot(grid, exact, color=COLOURS[0], label="gradient descent")
            here = [_exact_loss(s) if kind == "input" else _exact_loss(1.0, s) for s in found]
            points = np.array(list(found.values()))
            draw_points(
                ax,
                list(found),
                np.array(here) + points[:, 0],
                points[:, 1],
                COLOURS[1],
                label="trained layer",
            )
            ax.set(xlabel=f"{kind} scale", ylabel="loss")
            log_scale(ax, "xy")
        inputs.legend()
        steps = np.arange(REPETITIONS + 1)
        rolled.plot(steps, run.descended, color=COLOURS[0])
        rolled.plot(steps, run.rolled, "o", color=COLOURS[1], markersize=4)
        rolled.set(xlabel="repetitions", ylabel="median squared error", xticks=steps[::2])
        rolled.set_title(rf"dampening {DAMPENING:g}")
        log_scale(rolled, "y")

    return Verdict(tuple(comparisons), draw)


ROLL_OUT_ALLOWANCE = 0.1
"""Of the median error after 10 repetitions: deviations of the layer from the step add up."""

transfer_claim = Claim(
    name="gd-transfer",
    title="A trained layer is a gradient-descent step away from its training data too",
    source=f"{VON_OSWALD}, Figures 2 and 3",
    statement=(
        "Trained on U(-1, 1) inputs, a layer has the loss of the gradient-descent step for inputs "
        "of half to twice the range and tasks of half to five times the size; layers between it "
        "and the construction have it too; its update of the labels, repeated with dampening, "
        "follows gradient descent."
    ),
    cells=lambda preset: [_transfer(preset)],
    judge=_judge_transfer,
)
