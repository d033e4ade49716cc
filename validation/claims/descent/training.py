"""A trained layer against one gradient-descent step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import optimal_learning_rate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import (
    Alignment,
    Predictor,
    alignment,
    attention_predictor,
    descent_predictor,
)
from iclimit.simulate.descent.regression import Regression
from iclimit.simulate.descent.training import train_attention
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.descent.learning_rates import BLOG, VON_OSWALD
from iclimit.validation.claims.descent.paired import (
    BLOCK,
    DIM,
    HELD_OUT,
    LOSS_ALLOWANCE,
    descent_predictions,
    layer_predictions,
    mean_and_error,
    paired_losses,
    seeds,
)
from iclimit.validation.drawing import COLOURS

CONTEXTS = (5, 10, 20, 50)
SNAPSHOTS = (1, 20, 40, 60, 80, 100, 150, 200, 300, 400)
ALIGNMENT_ALLOWANCE = 0.1
"""Of the distances relative to the size of the prediction and of the gradient, about the root of
the excess loss over the variance of the prediction: 7 % at N = 5, 3 % at N = 50 (measured)."""
COSINE_ALLOWANCE = 0.01


@dataclass(frozen=True)
class TrainedLayer:
    """A trained layer next to gradient descent.

    Attributes
    ----------
    excess : (float, float)
        Held-out loss minus that of gradient descent on the same prompts, with its s.e.
    step : (float, float)
        Loss of gradient descent on these prompts, with its s.e.
    steps : int
        Of training.
    losses : ndarray
        Training losses.
    alignments : dict of int to Alignment
        With gradient descent, after some numbers of steps and at the end.
    scales : (float, float)
        Mean absolute prediction and norm of the gradient of gradient descent.
    """

    excess: tuple[float, float]
    step: tuple[float, float]
    steps: int
    losses: np.ndarray
    alignments: dict[int, Alignment]
    scales: tuple[float, float]


def trained_layer(*, context: int, rate: float, held_out: int, rng: Any) -> TrainedLayer:
    """Train one layer on uniform inputs and compare it with a gradient-descent step."""
    problem = Regression(context, DIM, input_law="uniform")
    seed, generator = seeds(rng)
    run = train_attention(problem, snapshots=SNAPSHOTS, rng=seed)
    errors = paired_losses(
        problem,
        {"layer": layer_predictions(run.layers[0]), "step": descent_predictions(rate, problem)},
        held_out,
        generator,
    )
    prompts = problem.sample(get_backend("numpy"), generator, BLOCK)
    step: Predictor = descent_predictor([rate])
    stages = run.snapshots | {run.steps: run.layers}
    predicted, slope = step(prompts)
    return TrainedLayer(
        excess=mean_and_error(errors["layer"] - errors["step"]),
        step=mean_and_error(errors["step"]),
        steps=run.steps,
        losses=run.losses,
        alignments={
            count: alignment(attention_predictor(layers), step, prompts)
            for count, layers in stages.items()
        },
        scales=(float(np.mean(np.abs(predicted))), float(np.mean(np.linalg.norm(slope, axis=1)))),
    )


def _trained(preset: Preset, context: int) -> Cell:
    rate = float(optimal_learning_rate(context=context, dim=DIM, input_law="uniform").rate)
    return Cell.of(trained_layer, context=context, rate=rate, held_out=HELD_OUT[preset])


def _training_cells(preset: Preset) -> list[Cell]:
    return [_trained(preset, context) for context in reversed(CONTEXTS)]


def _judge_training(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = []
    for context in CONTEXTS:
        run: TrainedLayer = results[_trained(preset, context)]
        best = float(optimal_learning_rate(context=context, dim=DIM, input_law="uniform").loss)
        final, where = run.alignments[run.steps], f"N={context}"
        excess, error = run.excess
        comparisons += [
            Comparison(f"loss of the step, {where}", best, *run.step),
            Comparison(
                f"held-out loss, {where}", best, best + excess, error, LOSS_ALLOWANCE * best
            ),
            Comparison(
                f"distance of predictions, relative, {where}",
                0.0,
                final.prediction_distance.mean / run.scales[0],
                final.prediction_distance.standard_error / run.scales[0],
                ALIGNMENT_ALLOWANCE,
            ),
            Comparison(
                f"distance of query gradients, relative, {where}",
                0.0,
                final.gradient_distance.mean / run.scales[1],
                final.gradient_distance.standard_error / run.scales[1],
                ALIGNMENT_ALLOWANCE,
            ),
            Comparison(
                f"cosine of query gradients, {where}",
                1.0,
                final.cosine.mean,
                final.cosine.standard_error,
                COSINE_ALLOWANCE,
            ),
        ]

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.6)
        loss, metrics = figure.subplots(1, 2)
        for context, colour in zip(CONTEXTS, COLOURS, strict=False):
            run = results[_trained(preset, context)]
            best = optimal_learning_rate(context=context, dim=DIM, input_law="uniform").loss
            window = 10
            smooth = np.convolve(run.losses, np.ones(window) / window, "valid")
            loss.plot(np.arange(len(smooth)), smooth, color=colour, label=f"N = {context}")
            loss.axhline(best, color=colour, linestyle="--", linewidth=1)
            steps = list(run.alignments)
            distances = [a.gradient_distance.mean / run.scales[1] for a in run.alignments.values()]
            cosines = [a.cosine.mean for a in run.alignments.values()]
            metrics.plot(steps, distances, color=colour)
            metrics.plot(steps, cosines, color=colour, linestyle=":")
        loss.set(xlabel="training step", ylabel="training loss")
        loss.legend(title="dashed: one step at $\\eta^*$")
        metrics.set(xlabel="training step", ylabel="query gradients, layer against step")
        metrics.plot([], [], color="0.3", label="relative distance")
        metrics.plot([], [], color="0.3", linestyle=":", label="cosine")
        metrics.legend(loc="center right")

    steps = ", ".join(str(results[_trained(preset, context)].steps) for context in CONTEXTS)
    notes = (f"Adam on batches of 2048 fresh prompts: {steps} steps for the contexts in order.",)
    return Verdict(tuple(comparisons), draw, notes)


training_claim = Claim(
    name="gd-training",
    title="A trained linear attention layer becomes one gradient-descent step",
    source=f"{VON_OSWALD}, Figure 2; {BLOG}, Figures 9, 10 and 12",
    statement=(
        "One layer trained from random weights on uniform inputs in dimension 10 reaches the loss "
        "of a gradient-descent step at the optimal rate within 1 % for contexts of 5 to 50 pairs; "
        "its predictions and query gradients become those of the step."
    ),
    cells=_training_cells,
    judge=_judge_training,
)
