"""Trained stacks of linear layers beside gradient descent and GD++ on the same prompts."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import (
    Predictor,
    attention_predictor,
    descent_predictor,
    interpolate,
)
from iclimit.simulate.descent.training import train_attention
from iclimit.simulate.gdpp import gdpp_transformer
from iclimit.simulate.prompts import draw_prompts
from iclimit.statement import named_cell
from iclimit.validation.claims.descent.paired import Aligned, Training, rolled_errors, shifted
from iclimit.validation.claims.gdpp.best_layers import SIZE, BestLayers

# Pairs of a context.
CONTEXT = SIZE["context"]
# Dimension of the inputs.
DIM = SIZE["dim"]
# Law of the prompts.
PROBLEM = Problem(**SIZE, scale=1)
# From the mean squared error for inputs U(-1, 1) to half of it for U(-1/2, 1/2), the published
# units: the layers' weights take the scale.
UNIT = 1 / 8
# Prompts that are drawn at a time.
BLOCK = 1_000
# Prompts whose mean is one sample.
GROUP = 50
# Prompts on which predictions are compared.
ALIGNED = 1_000
# Factors of inputs and tasks, out of distribution on both sides.  At inputs times 1.25 GD++ has a
# larger mean loss than gradient descent: it diverges on more contexts.
SCALES = {"inputs": (0.5, 0.75, 1.1), "tasks": (0.5, 2.0)}
# Weights of the construction in an interpolated layer.
WEIGHTS = (0.25, 0.5, 0.75)
# Repetitions of a recurrent layer that is rolled out.
REPETITIONS = 12
# Part of its update that a repetition applies; 0.75 is the published factor.
DAMPENING = 0.75
# Parts of the training after which the layers are compared.
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.4, 0.7)


@named_cell("train_layers")
def train_layers(*, steps: int, run: int, rng: SeedSequence, **setting: Any) -> Training:
    """Train a stack; ``run`` numbers trainings that differ in their seed only."""
    del run
    snapshots = [max(1, round(share * steps)) for share in SHARES]
    # The rate decays over the last third only: long falls follow plateaus here.
    return Training.of(
        train_attention(
            PROBLEM, steps=steps, patience=steps, snapshots=snapshots, rng=rng, **setting
        )
    )


@dataclass(frozen=True)
class Layers:
    """What trained layers do, beside gradient descent and GD++.

    Attributes
    ----------
    best : BestLayers
        The layers of GD++ and the steps of gradient descent.
    losses : dict of str to Estimate
        Of "trained", "GD" and "GD++" layers and of interpolated ones ("interpolated 0.5") on the
        same prompts, in published units.
    shifted : dict of (str, float) to dict of str to Estimate
        The first three of them on inputs or tasks times a factor.
    aligned : dict of str to Aligned
        With "GD" and with "GD++".
    rolled : ndarray (3, repetitions + 1)
        Median squared errors of repeated trained layers, GD++ layers and steps of GD; empty if the
        layers are not shared.
    training : ndarray
        Training losses, in published units.
    """

    best: BestLayers
    losses: dict[str, Estimate]
    shifted: dict[tuple[str, float], dict[str, Estimate]]
    aligned: dict[str, Aligned]
    rolled: np.ndarray
    training: np.ndarray


@named_cell("tested_layers")
def tested_layers(
    *, trained: Training, best: BestLayers, shared: bool, held_out: int, rng: SeedSequence
) -> Layers:
    """Compare trained layers with steps of gradient descent and with layers of GD++."""
    generator = np.random.default_rng(rng)
    built = gdpp_transformer(best.rates, best.gammas, context=CONTEXT, dim=DIM).layers
    if shared:
        built = built[:1] * len(built)
    predictors = {
        "trained": attention_predictor(trained.layers),
        "GD": descent_predictor(best.steps, scale=1.0),
        "GD++": attention_predictor(built),
    }
    mixed: dict[str, Predictor] = {}
    if shared:
        for weight in WEIGHTS:
            layer = interpolate(trained.layers[0], built[0], weight)
            stack = [layer] * len(built)
            mixed[f"interpolated {weight:g}"] = attention_predictor(stack)
    elsewhere = {
        (kind, factor): losses_of(
            shifted(PROBLEM, kind, factor), predictors, held_out // 4, generator
        )
        for kind, factors in SCALES.items()
        for factor in factors
    }
    prompts = draw_prompts(PROBLEM, get_backend("numpy"), generator, ALIGNED)
    rolled = np.empty((3, 0))
    if shared:
        step = gdpp_transformer(best.steps[:1], [], context=CONTEXT, dim=DIM).layers[0]
        repeated = trained.layers[0], built[0], step
        # A layer that was left on a plateau diverges when it is repeated.
        with np.errstate(over="ignore", invalid="ignore"):
            rolled = rolled_errors(prompts, repeated, REPETITIONS, DAMPENING)
    return Layers(
        best,
        losses_of(PROBLEM, predictors | mixed, held_out, generator),
        elsewhere,
        {name: Aligned.of(trained.stages, predictors[name], prompts) for name in ("GD", "GD++")},
        rolled,
        UNIT * trained.losses,
    )


def losses_of(
    problem: Problem, predictors: dict[str, Predictor], count: int, generator: np.random.Generator
) -> dict[str, Estimate]:
    """Losses of predictors on the same prompts, a sample for each group of prompts.

    The loss is averaged over the query: of an error e of the weights it is |e|^2 times the
    variance of an input coordinate.
    """
    parts: list[list[np.ndarray]] = []
    variance = problem.input_scale**2 / 3
    for _ in range(count // BLOCK):
        prompts = draw_prompts(problem, get_backend("numpy"), generator, BLOCK)
        tasks = prompts.tasks
        errors = [predictor(prompts)[1] - tasks for predictor in predictors.values()]
        parts.append([variance * np.sum(error**2, axis=1) for error in errors])
    groups = np.concatenate(parts, axis=1).reshape(len(predictors), -1, GROUP).mean(axis=2)
    return dict(zip(predictors, map(Estimate.of, UNIT * groups), strict=True))
