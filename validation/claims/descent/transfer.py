"""A trained layer is a gradient-descent step away from its training data too.

A layer is trained on U(-1, 1) inputs.  For inputs of half to twice the range and tasks of half to
five times the size, and for layers between it and the construction, the part of its prediction
that changes sign with the labels has the loss of the step read off its weights.  The step at the
optimal rate has the loss of the closed form there.  The layer's update of the labels, repeated
with dampening, follows gradient descent.

Source: {vonoswald2023}, Figures 1, 2 and 6.
"""

from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.descent import (
    learning_rate_loss,
    optimal_learning_rate,
    preconditioner_loss,
)
from iclimit.drawing import COLOURS, Figure, draw_estimates, finish, panels, write_key
from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import interpolate, labels_only
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.models.transformer import Layer
from iclimit.simulate.prompts import draw_prompts
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, drawing, exact, mean, run
from iclimit.validation.claims.descent.paired import (
    DIM,
    UNIFORM,
    Paired,
    Training,
    held_out,
    paired_losses,
    rolled_errors,
    shifted,
    train_layer,
)

# Size of the contexts of training.
SIZE: dict[str, Any] = {"context": 10, "dim": DIM}
# Factors of the inputs and of the tasks.
SCALES = {"inputs": (0.5, 0.75, 1.0, 1.5, 2.0), "tasks": (0.5, 1.0, 2.0, 5.0)}
# Weights of the construction in an interpolated layer.
WEIGHTS = (0.25, 0.5, 0.75)
# Prompts on which the layer is repeated.
PROMPTS = 4_000
# Repetitions of the layer.
REPETITIONS = 10
# Part of an update that a repetition applies.
DAMPENING = 0.7
# Of the median error after 10 repetitions: deviations of the layer from the step add up.
ROLL_OUT_ALLOWANCE = 0.1

# Parameter that is scaled and the factor, or "interpolated" and the weight.
Case = tuple[str, float]


@named_cell("transferred_layer")
def transferred_layer(
    *, trained: Training, rate: float, held_out: int, rng: SeedSequence
) -> tuple[dict[Case, Paired], np.ndarray]:
    """Test a layer on other inputs and tasks, interpolated, and repeated.

    Losses by case, and median squared errors after 0, 1, ... repetitions of the layer and of the
    step, (2, repetitions + 1).
    """
    problem = Problem(**SIZE, input_law="uniform", scale=1)
    generator = np.random.default_rng(rng)
    [layer] = trained.layers
    constructed = descent_layer(rate, **SIZE)
    prompts = draw_prompts(problem, get_backend("numpy"), generator, PROMPTS)
    repeated = labels_only(layer), constructed
    cases: dict[Case, tuple[Problem, Layer]] = {
        (kind, factor): (shifted(problem, kind, factor), layer)
        for kind, factors in SCALES.items()
        for factor in factors
    }
    for weight in WEIGHTS:
        cases["interpolated", weight] = problem, interpolate(layer, constructed, weight)
    losses = {
        case: paired_losses(law, tested, rate * np.eye(DIM), held_out, generator)
        for case, (law, tested) in cases.items()
    }
    return losses, rolled_errors(prompts, repeated, REPETITIONS, DAMPENING)


def scales(case: Case) -> tuple[float, float]:
    """Factors of inputs and tasks."""
    kind, value = case
    return value if kind == "inputs" else 1.0, value if kind == "tasks" else 1.0


def step_loss(case: Case) -> float:
    """Loss of the step, trained at scale 1."""
    rate = optimal_learning_rate(input_law="uniform", **SIZE).rate
    inputs, tasks = scales(case)
    moments = (inputs**2 / 3, inputs**4 / 5)
    return float(learning_rate_loss(rate, input_law=moments, task_variance=tasks**2, **SIZE))


def own_loss(case: Case, matrix: np.ndarray) -> float:
    """Loss of the step with the layer's own preconditioner."""
    inputs, tasks = scales(case)
    covariance = inputs**2 * UNIFORM["input_covariance"]
    law = UNIFORM | {"input_covariance": covariance, "task_covariance": np.full(DIM, tasks**2)}
    return float(preconditioner_loss(matrix, context=SIZE["context"], **law))


def describe(case: Case) -> str:
    """Words for a case."""
    kind, value = case
    return f"{kind} times {value:g}" if kind in SCALES else f"{kind}, weight {value:g}"


def rows(effort: Effort) -> Rows:
    """Losses of layer and step in all cases, and the repeated layer beside descent."""
    best = optimal_learning_rate(input_law="uniform", **SIZE)
    rate = Derived(float(best.rate), "optimal")
    trained = run(train_layer, context=SIZE["context"])
    tested = run(transferred_layer, trained=trained, rate=rate, held_out=held_out(effort))
    cases: list[Case] = [(kind, scale) for kind, scales in SCALES.items() for scale in scales]
    for case in (*cases, *(("interpolated", weight) for weight in WEIGHTS)):
        losses = tested[0][case]
        own = call(own_loss, case, losses.matrix)
        of = "preconditioner_loss"
        yield mean(f"descent in the layer, {describe(case)}", own, losses.descent, of=of)
        if case in cases:
            theory = call(step_loss, case)
            of = "learning_rate_loss"
            yield mean(f"the step, {describe(case)}", theory, losses.step, of=of)
    label = f"median error after {REPETITIONS} repetitions, relative"
    ratio = tested[1][0, -1] / tested[1][1, -1]
    yield exact(label, 1.0, ratio, allowance=ROLL_OUT_ALLOWANCE)
    yield drawing(draw, tested[0], tested[1])


def draw(figure: Figure, cases: dict[Case, Paired], errors: np.ndarray) -> None:
    """Draw losses on other inputs and tasks, and errors of the repeated layer."""
    *axes, rolled = panels(figure, 3, height=3.4)
    for ax, (kind, factors) in zip(axes, SCALES.items(), strict=True):
        grid = np.geomspace(min(factors), max(factors), 50)
        exact = [step_loss((kind, factor)) for factor in grid]
        ax.plot(grid, exact, color=COLOURS[0])
        losses = [cases[kind, factor].loss for factor in factors]
        draw_estimates(ax, factors, losses, COLOURS[1])
        finish(ax, f"{kind[:-1]} scale", "loss", log="xy")
    steps = np.arange(REPETITIONS + 1)
    rolled.plot(steps, errors[1], color=COLOURS[0])
    rolled.plot(steps, errors[0], "o", color=COLOURS[1], markersize=4)
    rolled.set_xticks(steps[::2])
    title = rf"dampening {DAMPENING:g}"
    finish(rolled, "repetitions", "median squared error", title=title, log="y")
    write_key(figure, "lines: gradient descent; points: trained layer")


claim = Claim.of("gd-transfer", __doc__, rows)
