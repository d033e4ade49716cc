"""A trained layer is a gradient-descent step away from its training data too.

Trained on U(-1, 1) inputs, a layer has the loss of the gradient-descent step for inputs of half
to twice the range and tasks of half to five times the size.  Layers between it and the
construction have it too.  Its update of the labels, repeated with dampening, follows gradient
descent.

Source: {vonoswald2023}, Figures 2 and 3.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import learning_rate_loss, optimal_learning_rate
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import interpolate, labels_only, roll_out
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.descent.regression import Regression, regression_tokens
from iclimit.simulate.descent.training import train_attention
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.descent.paired import (
    BLOCK,
    DIM,
    HELD_OUT,
    compare_held_out,
    held_out_loss,
    paired_losses,
    seeds,
)
from iclimit.validation.drawing import COLOURS, Figure, draw_estimates, finish, panels

SIZE: dict[str, Any] = {"context": 10, "dim": DIM}
SCALES = {"inputs": (0.5, 0.75, 1.0, 1.5, 2.0), "tasks": (0.5, 1.0, 2.0, 5.0)}
"""Factors of the inputs and of the tasks."""
WEIGHTS = (0.25, 0.5, 0.75)
"""Weights of the construction in an interpolated layer."""
REPETITIONS, DAMPENING = 10, 0.7
TRANSFER_ALLOWANCE = 0.03
"""Relative; what is left of the layer's part that does not do gradient descent grows with the
fourth power of the input range."""
ROLL_OUT_ALLOWANCE = 0.1
"""Of the median error after 10 repetitions: deviations of the layer from the step add up."""

Case = tuple[str, float]
"""What is scaled and by how much, or "interpolated" and the weight."""


@dataclass(frozen=True)
class Transfer:
    """A trained layer where it was not trained.

    Attributes
    ----------
    excess : dict of Case to Estimate
        Loss minus that of the gradient-descent step on the same prompts.
    steps : dict of Case to Estimate
        Losses of the step itself on these prompts.
    rolled, descended : ndarray
        Median squared errors after 0, 1, ... repetitions of the layer and of the step.
    """

    excess: dict[Case, Estimate]
    steps: dict[Case, Estimate]
    rolled: np.ndarray
    descended: np.ndarray


def transferred_layer(*, rate: float, held_out: int, rng: Any) -> Transfer:
    """Train one layer; test it on other inputs and tasks, interpolated, and repeated."""
    problem = Regression(input_law="uniform", **SIZE)
    seed, generator = seeds(rng)
    layer = train_attention(problem, rng=seed).layers[0]
    constructed = descent_layer(rate, **SIZE)
    prompts = problem.sample(get_backend("numpy"), generator, BLOCK)
    rolled, descended = (
        roll_out(regression_tokens(prompts), each, REPETITIONS, DAMPENING)
        for each in (labels_only(layer), constructed)
    )
    cases: dict[Case, tuple[Regression, Any]] = {}
    for scale in SCALES["inputs"]:
        cases["inputs", scale] = replace(problem, scale=scale), layer
    for scale in SCALES["tasks"]:
        cases["tasks", scale] = replace(problem, task_variance=scale**2), layer
    for weight in WEIGHTS:
        cases["interpolated", weight] = problem, interpolate(layer, constructed, weight)
    pairs = {
        case: paired_losses(law, tested, constructed, held_out, generator)
        for case, (law, tested) in cases.items()
    }
    return Transfer(
        {case: excess for case, (excess, _) in pairs.items()},
        {case: step for case, (_, step) in pairs.items() if case[0] in SCALES},
        np.median((rolled - prompts.y_query) ** 2, axis=1),
        np.median((descended - prompts.y_query) ** 2, axis=1),
    )


def exact_loss(kind: str, scale: float) -> float:
    """Loss of the step, trained at scale 1, at another scale."""
    rate = optimal_learning_rate(input_law="uniform", **SIZE).rate
    inputs, tasks = (scale if kind == each else 1.0 for each in SCALES)
    moments = (inputs**2 / 3, inputs**4 / 5)
    return float(learning_rate_loss(rate, input_law=moments, task_variance=tasks**2, **SIZE))


def label(case: Case) -> str:
    """Words for a case."""
    kind, value = case
    return f"{kind} times {value:g}" if kind in SCALES else f"{kind}, weight {value:g}"


def cells(preset: Preset) -> dict[Any, Cell]:
    """The one trained layer."""
    rate = float(optimal_learning_rate(input_law="uniform", **SIZE).rate)
    return {"layer": Cell.of(transferred_layer, rate=rate, held_out=HELD_OUT[preset])}


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare losses of layer and step in all cases, and the repeated layer with descent."""
    run = results["layer"]
    comparisons = [
        compare_held_out(label(case), exact_loss(*case), excess, TRANSFER_ALLOWANCE)
        for case, excess in run.excess.items()
    ]
    comparisons += [
        compare(f"the step itself, {label(case)}", exact_loss(*case), step)
        for case, step in run.steps.items()
    ]
    name = f"median error after {REPETITIONS} repetitions, relative"
    ratio = float(run.rolled[-1] / run.descended[-1])
    comparisons.append(compare(name, 1.0, ratio, allowance=ROLL_OUT_ALLOWANCE))

    def draw(figure: Figure) -> None:
        *axes, rolled = panels(figure, 3, height=3.2)
        for ax, (kind, scales) in zip(axes, SCALES.items(), strict=True):
            grid = np.geomspace(min(scales), max(scales), 50)
            exact = [exact_loss(kind, scale) for scale in grid]
            ax.plot(grid, exact, color=COLOURS[0], label="gradient descent")
            losses = [held_out_loss(exact_loss(kind, s), run.excess[kind, s]) for s in scales]
            draw_estimates(ax, scales, losses, COLOURS[1], label="trained layer")
            finish(ax, f"{kind[:-1]} scale", "loss", log="xy")
        axes[0].legend()
        steps = np.arange(REPETITIONS + 1)
        rolled.plot(steps, run.descended, color=COLOURS[0])
        rolled.plot(steps, run.rolled, "o", color=COLOURS[1], markersize=4)
        rolled.set_xticks(steps[::2])
        title = rf"dampening {DAMPENING:g}"
        finish(rolled, "repetitions", "median squared error", title=title, log="y")

    return Verdict(comparisons, draw)


claim = Claim.of("gd-transfer", __doc__, cells, judge)
