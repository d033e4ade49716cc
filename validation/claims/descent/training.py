"""A trained linear attention layer becomes one gradient-descent step.

One layer is trained from random weights on uniform inputs in dimension 10, for contexts of 5 to 50
pairs.  The part of its prediction that changes sign with the labels has the loss of a
gradient-descent step with the preconditioner read off its weights.  With the rest of its
prediction it is within 1 % of a step at the optimal rate, whose loss is that of the closed form.
Its predictions and query gradients become those of the step.

Source: {vonoswald2023}, Figure 2; {rossi2024}, Figures 9, 10 and 12.
"""

from collections.abc import Mapping

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.descent import LearningRate, optimal_learning_rate, preconditioner_loss
from iclimit.drawing import COLOURS, Figure, draw_training, finish, panels, write_key
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import descent_predictor
from iclimit.simulate.prompts import draw_prompts
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Claim, Effort, Rows, bound, call, drawing, mean, run
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

# Prompts on which predictions are compared.
ALIGNED = 4_000
# Bound on distances after training, relative to the size of the prediction and of the gradient.
# They are about the root of the excess loss over the variance of the prediction: 7 % at N = 5, 3 %
# at N = 50 (measured).
DISTANCE = 0.1
# Bound on one minus the cosine of gradients after training.
ANGLE = 0.01
# Quantities that are bounded after training.
BOUNDED = (
    "distance of predictions",
    "distance of query gradients",
    "one minus cosine of query gradients",
)


@named_cell("trained_layer")
def trained_layer(
    *, trained: Training, context: int, rate: float, held_out: int, rng: SeedSequence
) -> tuple[Paired, np.ndarray, Aligned]:
    """Losses of a trained layer and of a step, losses of the training, and their alignment."""
    problem = Problem(dim=DIM, context=context, input_law="uniform", scale=1)
    generator = np.random.default_rng(rng)
    [layer] = trained.layers
    paired = paired_losses(problem, layer, rate * np.eye(DIM), held_out, generator)
    prompts = draw_prompts(problem, get_backend("numpy"), generator, ALIGNED)
    step = descent_predictor([rate], scale=1.0)
    return paired, trained.losses, Aligned.of(trained.stages, step, prompts)


def best_step(context: int) -> LearningRate:
    """Optimal rate and loss of one step."""
    return optimal_learning_rate(context=context, dim=DIM, input_law="uniform")


def rows(effort: Effort) -> Rows:
    """Losses, predictions and query gradients by context, the longest first."""
    contexts = effort.pick(tiny=(10,), quick=(5, 10), medium=(5, 10, 20, 50))
    layers = {}
    for context in reversed(contexts):
        layers[context] = run(
            trained_layer,
            trained=run(train_layer, context=context),
            context=context,
            rate=Derived(float(best_step(context).rate), "optimal"),
            held_out=held_out(effort),
        )
        losses = layers[context][0]
        best = call(best_step, context)
        where = f"N={context}"
        label = f"loss of the step, {where}"
        of = "optimal_learning_rate.loss"
        yield mean(label, best.loss, losses.step, of=of)
        own = call(preconditioner_loss, losses.matrix, **UNIFORM, context=context)
        yield mean(f"loss of descent in the layer, {where}", own, losses.descent)
        yield excess_row(where, losses)
        distances = call(final_distances, layers[context][2])
        for name in BOUNDED:
            yield bound(f"{name} over its bound, {where}", 1.0, distances[name])
    yield drawing(draw, {context: layers[context] for context in contexts})


def final_distances(aligned: Aligned) -> dict[str, float]:
    """What is left of training over its bounds."""
    final = aligned.last
    prediction, gradient = aligned.scales
    distances = (
        final.prediction_distance.mean / prediction / DISTANCE,
        final.gradient_distance.mean / gradient / DISTANCE,
        (1 - final.cosine.mean) / ANGLE,
    )
    return dict(zip(BOUNDED, distances, strict=True))


def draw(figure: Figure, layers: Mapping[int, tuple[Paired, np.ndarray, Aligned]]) -> None:
    """Draw training losses, and query gradients beside those of the step."""
    loss, metrics = panels(figure, height=3.6)
    for (context, layer), colour in zip(layers.items(), COLOURS, strict=False):
        _, losses, aligned = layer
        draw_training(loss, losses, colour, label=f"N = {context}")
        loss.axhline(best_step(context).loss, color=colour, linestyle="--", linewidth=1)
        aligned.draw(metrics, colour)
    metrics.plot([], [], color="0.3", label="relative distance")
    metrics.plot([], [], color="0.3", linestyle=":", label="cosine")
    finish(loss, "training step", "training loss", legend="")
    finish(metrics, "training step", "layer against gradient step", legend="")
    write_key(figure, "dashes: theory, one step at the best rate; lines: trained layer")


claim = Claim.of("gd-training", __doc__, rows)
