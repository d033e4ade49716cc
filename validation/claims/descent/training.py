"""A trained linear attention layer becomes one gradient-descent step.

One layer is trained from random weights on uniform inputs in dimension 10, for contexts of 5 to 50
pairs.  The part of its prediction that changes sign with the labels has the loss of a
gradient-descent step with the preconditioner read off its weights.  With the rest of its
prediction it is within 1 % of a step at the optimal rate, whose loss is that of the closed form.
Its predictions and query gradients become those of the step.

Source: {vonoswald2023}, Figure 2; {rossi2024}, Figures 9, 10 and 12.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import LearningRate, optimal_learning_rate, preconditioner_loss
from iclimit.drawing import COLOURS, Figure, draw_training, finish, panels
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import descent_predictor
from iclimit.simulate.prompts import draw_prompts
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.descent.paired import (
    DIM,
    UNIFORM,
    Aligned,
    Paired,
    Training,
    excess_row,
    held_out,
    paired_losses,
    train_layer,
)
from iclimit.validation.rows import Rows, bound, call, drawing, mean, note, run

# Prompts on which predictions are compared.
ALIGNED = 4_000
# Bounds on what is left of training: distances relative to the size of the prediction and of the
# gradient, and one minus the cosine of gradients.  The distances are about the root of the excess
# loss over the variance of the prediction: 7 % at N = 5, 3 % at N = 50 (measured).
DISTANCE, ANGLE = 0.1, 0.01
BOUNDED = (
    "distance of predictions",
    "distance of query gradients",
    "one minus cosine of query gradients",
)


@dataclass(frozen=True)
class TrainedLayer:
    """A trained layer next to gradient descent.

    Attributes
    ----------
    held_out : Paired
        Losses of the layer and of gradient descent.
    losses : ndarray
        Training losses.
    aligned : Aligned
        With gradient descent, after some numbers of steps and at the end.
    """

    held_out: Paired
    losses: np.ndarray
    aligned: Aligned


def trained_layer(
    *, trained: Training, context: int, rate: float, held_out: int, rng: Any
) -> TrainedLayer:
    """Compare a trained layer with a gradient-descent step."""
    problem, generator = (
        Problem(dim=DIM, context=context, input_law="uniform", scale=1),
        np.random.default_rng(rng),
    )
    [layer] = trained.layers
    paired = paired_losses(problem, layer, rate * np.eye(DIM), held_out, generator)
    prompts = draw_prompts(problem, get_backend("numpy"), generator, ALIGNED)
    step = descent_predictor([rate], scale=1.0)
    return TrainedLayer(paired, trained.losses, Aligned.of(trained.stages, step, prompts))


def best_step(context: int) -> LearningRate:
    """Optimal rate and loss of one step."""
    return optimal_learning_rate(context=context, dim=DIM, input_law="uniform")


def rows(effort: Effort) -> Rows:
    """Losses, predictions and query gradients by context, the longest first."""
    contexts = effort.pick(tiny=(5,), quick=(5, 10), medium=(5, 10, 20, 50))
    layers = {}
    for context in reversed(contexts):
        layers[context] = layer = run(
            trained_layer,
            trained=run(train_layer, context=context),
            context=context,
            rate=float(best_step(context).rate),
            held_out=held_out(effort),
        )
        best, where = call(best_step, context), f"N={context}"
        label, of = f"loss of the step, {where}", "optimal_learning_rate.loss"
        yield mean(label, best.loss, layer.held_out.step, of=of)
        own = call(preconditioner_loss, layer.held_out.matrix, **UNIFORM, context=context)
        yield mean(f"loss of descent in the layer, {where}", own, layer.held_out.descent)
        yield excess_row(where, layer.held_out)
        distances = call(final_distances, layer.aligned)
        for name in BOUNDED:
            yield bound(f"{name} over its bound, {where}", 1.0, distances[name])
    yield note(call(describe, [layers[context].losses for context in contexts]))
    yield drawing(draw, {context: layers[context] for context in contexts})


def final_distances(aligned: Aligned) -> dict[str, float]:
    """What is left of training over its bounds."""
    final, (prediction, gradient) = aligned.last, aligned.scales
    distances = (
        final.prediction_distance.mean / prediction / DISTANCE,
        final.gradient_distance.mean / gradient / DISTANCE,
        (1 - final.cosine.mean) / ANGLE,
    )
    return dict(zip(BOUNDED, distances, strict=True))


def describe(losses: Sequence[np.ndarray]) -> str:
    """How long the trainings took."""
    words = ", ".join(str(len(each)) for each in losses)
    return f"Adam on batches of 2048 fresh prompts: {words} steps for the contexts in order."


def draw(figure: Figure, layers: Mapping[int, TrainedLayer]) -> None:
    """Draw training losses, and query gradients beside those of the step."""
    loss, metrics = panels(figure, height=3.6)
    for (context, layer), colour in zip(layers.items(), COLOURS, strict=False):
        draw_training(loss, layer.losses, colour, label=f"N = {context}")
        loss.axhline(best_step(context).loss, color=colour, linestyle="--", linewidth=1)
        layer.aligned.draw(metrics, colour)
    metrics.plot([], [], color="0.3", label="relative distance")
    metrics.plot([], [], color="0.3", linestyle=":", label="cosine")
    finish(loss, "training step", "training loss", legend="dashed: one step at $\\eta^*$")
    finish(metrics, "training step", "query gradients, layer against step")
    metrics.legend(loc="center right")


claim = Claim.of("gd-training", __doc__, rows)
