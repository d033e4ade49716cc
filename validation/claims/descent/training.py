"""A trained linear attention layer becomes one gradient-descent step.

One layer trained from random weights on uniform inputs in dimension 10 reaches the loss of a
gradient-descent step at the optimal rate within 1 % for contexts of 5 to 50 pairs.  Its
predictions and query gradients become those of the step.

Source: {vonoswald2023}, Figure 2; {rossi2024}, Figures 9, 10 and 12.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import LearningRate, optimal_learning_rate
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import (
    Alignment,
    alignment,
    attention_predictor,
    descent_predictor,
)
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.descent.regression import Regression
from iclimit.simulate.descent.training import train_attention
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.descent.paired import (
    BLOCK,
    DIM,
    HELD_OUT,
    LOSS_ALLOWANCE,
    compare_held_out,
    paired_losses,
    seeds,
)
from iclimit.validation.drawing import COLOURS, Figure, finish, panels

CONTEXTS = (5, 10, 20, 50)
SNAPSHOTS = (1, 20, 40, 60, 80, 100, 150, 200, 300, 400)
ALIGNMENT_ALLOWANCE = 0.1
"""Of the distances relative to the size of the prediction and of the gradient, about the root of
the excess loss over the variance of the prediction: 7 % at N = 5, 3 % at N = 50 (measured)."""
COSINE_ALLOWANCE = 0.01
WINDOW = 10
"""Steps that the drawn training loss is averaged over."""


@dataclass(frozen=True)
class TrainedLayer:
    """A trained layer next to gradient descent.

    Attributes
    ----------
    excess : Estimate
        Held-out loss minus that of gradient descent on the same prompts.
    step : Estimate
        Loss of gradient descent on these prompts.
    steps : int
        Of training.
    losses : ndarray
        Training losses.
    alignments : dict of int to Alignment
        With gradient descent, after some numbers of steps and at the end.
    scales : (float, float)
        Mean absolute prediction and norm of the gradient of gradient descent.
    """

    excess: Estimate
    step: Estimate
    steps: int
    losses: np.ndarray
    alignments: dict[int, Alignment]
    scales: tuple[float, float]


def trained_layer(*, context: int, rate: float, held_out: int, rng: Any) -> TrainedLayer:
    """Train one layer on uniform inputs and compare it with a gradient-descent step."""
    problem = Regression(context, DIM, input_law="uniform")
    seed, generator = seeds(rng)
    run = train_attention(problem, snapshots=SNAPSHOTS, rng=seed)
    constructed = descent_layer(rate, context=context, dim=DIM)
    excess, loss = paired_losses(problem, run.layers[0], constructed, held_out, generator)
    prompts = problem.sample(get_backend("numpy"), generator, BLOCK)
    step = descent_predictor([rate], scale=1.0)
    predicted, slope = step(prompts)
    return TrainedLayer(
        excess,
        loss,
        run.steps,
        run.losses,
        {
            count: alignment(attention_predictor(layers), step, prompts)
            for count, layers in (run.snapshots | {run.steps: run.layers}).items()
        },
        (float(np.mean(np.abs(predicted))), float(np.mean(np.linalg.norm(slope, axis=1)))),
    )


def best_step(context: int) -> LearningRate:
    """Optimal rate and loss of one step."""
    return optimal_learning_rate(context=context, dim=DIM, input_law="uniform")


def cells(preset: Preset) -> dict[Any, Cell]:
    """Trained layers by context, the longest first."""
    return {
        context: Cell.of(
            trained_layer,
            context=context,
            rate=float(best_step(context).rate),
            held_out=HELD_OUT[preset],
        )
        for context in reversed(CONTEXTS)
    }


def relative(distance: Estimate, scale: float) -> Estimate:
    """Distance in units of a scale."""
    return Estimate(distance.mean / scale, distance.standard_error / scale, distance.repeats)


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare losses, predictions and query gradients."""
    comparisons = []
    for context in CONTEXTS:
        run, best, where = results[context], float(best_step(context).loss), f"N={context}"
        final = run.alignments[run.steps]
        predictions = relative(final.prediction_distance, run.scales[0])
        gradients = relative(final.gradient_distance, run.scales[1])
        measures = {
            "distance of predictions, relative": (0.0, predictions, ALIGNMENT_ALLOWANCE),
            "distance of query gradients, relative": (0.0, gradients, ALIGNMENT_ALLOWANCE),
            "cosine of query gradients": (1.0, final.cosine, COSINE_ALLOWANCE),
        }
        comparisons += [
            compare(f"loss of the step, {where}", best, run.step),
            compare_held_out(f"held-out loss, {where}", best, run.excess, LOSS_ALLOWANCE),
            *(
                compare(f"{name}, {where}", theory, found, allowance=allowance)
                for name, (theory, found, allowance) in measures.items()
            ),
        ]

    def draw(figure: Figure) -> None:
        loss, metrics = panels(figure, height=3.6)
        for context, colour in zip(CONTEXTS, COLOURS, strict=False):
            run = results[context]
            smooth = np.convolve(run.losses, np.ones(WINDOW) / WINDOW, "valid")
            loss.plot(np.arange(len(smooth)), smooth, color=colour, label=f"N = {context}")
            loss.axhline(best_step(context).loss, color=colour, linestyle="--", linewidth=1)
            found = run.alignments.values()
            distances = [each.gradient_distance.mean / run.scales[1] for each in found]
            metrics.plot(list(run.alignments), distances, color=colour)
            cosines = [each.cosine.mean for each in found]
            metrics.plot(list(run.alignments), cosines, color=colour, linestyle=":")
        metrics.plot([], [], color="0.3", label="relative distance")
        metrics.plot([], [], color="0.3", linestyle=":", label="cosine")
        finish(loss, "training step", "training loss", legend="dashed: one step at $\\eta^*$")
        finish(metrics, "training step", "query gradients, layer against step")
        metrics.legend(loc="center right")

    steps = ", ".join(str(results[context].steps) for context in CONTEXTS)
    notes = (f"Adam on batches of 2048 fresh prompts: {steps} steps for the contexts in order.",)
    return Verdict(comparisons, draw, notes)


claim = Claim.of("gd-training", __doc__, cells, judge)
