"""Trained layers and constructed steps on the same prompts: losses, alignment, repetition."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.pretraining.deterministic_equivalent import matrix_root
from iclimit.comparison import ratio
from iclimit.drawing import Axes
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent.alignment import (
    Alignment,
    Predictor,
    alignment,
    attention_predictor,
    roll_out,
)
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.descent.training import train_attention
from iclimit.simulate.models.linear_attention import LinearAttention
from iclimit.simulate.models.transformer import Layer, prediction
from iclimit.simulate.prompts import Prompts, draw_prompts, regression_tokens
from iclimit.simulate.training.networks import TrainedNetwork
from iclimit.statement import named_cell
from iclimit.validation.claim import Effort, Later, Row, bound, call

# Dimension of the inputs.
DIM = 10
# U(-1, 1) in the theory of preconditioners.
UNIFORM: dict[str, Any] = {"input_covariance": np.full(DIM, 1 / 3), "excess_kurtosis": -1.2}
# Steps of the training at which layers are kept.
SNAPSHOTS = (1, 20, 40, 60, 80, 100, 150, 200, 300, 400)
# Prompts that are drawn at a time.
BLOCK = 2_000
# Prompts whose mean is one sample.
GROUP = 50
# Most that training may leave of the loss; 0.1 to 0.5 % of ours (measured).
EXCESS = 0.01


def held_out(effort: Effort) -> int:
    """Prompts that layers are tested on."""
    return effort.pick(tiny=2 * BLOCK, quick=5 * BLOCK, medium=30 * BLOCK, full=200 * BLOCK)


@dataclass(frozen=True)
class Training:
    """Layers trained on uniform inputs, the loss of each step, and the layers on the way."""

    layers: list[Layer]
    losses: np.ndarray
    snapshots: dict[int, list[Layer]]

    @classmethod
    def of(cls, run: TrainedNetwork[LinearAttention]) -> Training:
        """What is needed of a training."""
        snapshots = {step: run.network.stack(kept) for step, kept in run.snapshots.items()}
        return cls(run.layers, run.losses[:-1], snapshots)

    @property
    def stages(self) -> dict[int, list[Layer]]:
        """Layers by the number of steps, up to the last ones."""
        return self.snapshots | {len(self.losses): self.layers}


@named_cell("train_layer")
def train_layer(*, context: int, rng: SeedSequence) -> Training:
    """Train one layer on uniform inputs in ten dimensions.

    One start is enough: on isotropic inputs all of 60 starts reached the same minimum.
    """
    problem = Problem(dim=DIM, context=context, input_law="uniform", scale=1)
    return Training.of(train_attention(problem, snapshots=SNAPSHOTS, rng=rng))


def shifted(problem: Problem, kind: str, factor: float) -> Problem:
    """Problem whose "inputs" or "tasks" are larger by a factor."""
    if kind == "inputs":
        return replace(problem, scale=factor * problem.input_scale)
    return replace(problem, task_variance=factor**2 * problem.task_variance)


@dataclass(frozen=True)
class Aligned:
    """How layers become alike a predictor in their training.

    Attributes
    ----------
    stages : dict of int to Alignment
        By the number of steps.
    scales : (float, float)
        Mean absolute prediction of the predictor, and mean norm of its gradient in the query.
    """

    stages: dict[int, Alignment]
    scales: tuple[float, float]

    @classmethod
    def of(
        cls, stages: Mapping[int, Sequence[Layer]], other: Predictor, prompts: Prompts
    ) -> Aligned:
        """Compare the layers of each stage with a predictor."""
        predicted, slope = other(prompts)
        scales = np.mean(np.abs(predicted)), np.mean(np.linalg.norm(slope, axis=1))
        return cls(
            {
                step: alignment(attention_predictor(layers), other, prompts)
                for step, layers in stages.items()
            },
            (float(scales[0]), float(scales[1])),
        )

    @property
    def last(self) -> Alignment:
        """At the end."""
        return self.stages[max(self.stages)]

    def draw(self, ax: Axes, colour: str, label: str = "") -> None:
        """Draw relative distances of gradients as a line, their cosines dotted."""
        steps = [*self.stages]
        stages = [*self.stages.values()]
        distances = [stage.gradient_distance.mean / self.scales[1] for stage in stages]
        ax.plot(steps, distances, color=colour, label=label)
        ax.plot(steps, [stage.cosine.mean for stage in stages], ":", color=colour)


def rolled_errors(
    prompts: Prompts, layers: Iterable[Layer], repetitions: int, dampening: float
) -> np.ndarray:
    """Median squared errors of layers after 0, 1, ... dampened repetitions, a row for each."""
    tokens = regression_tokens(prompts)
    rows = [roll_out(tokens, layer, repetitions, dampening) for layer in layers]
    return np.array([np.median((row - prompts.query_label) ** 2, axis=1) for row in rows])


@dataclass(frozen=True)
class Paired:
    """Losses of a layer and of a gradient-descent step on the same prompts.

    Attributes
    ----------
    step : Estimate
        Mean loss of the step, exact given the inputs of the contexts.
    descent : Estimate
        Loss of the part of the layer's prediction that changes sign with the labels.  That of the
        step on the same prompts, less its mean given the inputs, is subtracted as a control.
    rest : Estimate
        Mean square of the other part of the prediction.  The parts are uncorrelated, so the
        layer's loss is the sum.
    matrix : ndarray (d, d)
        The layer's own preconditioner.
    """

    step: Estimate
    descent: Estimate
    rest: Estimate
    matrix: np.ndarray

    @property
    def loss(self) -> Estimate:
        """Loss of the layer."""
        return Estimate.of(self.descent.samples + self.rest.samples)


def paired_losses(
    problem: Problem, layer: Layer, matrix: np.ndarray, count: int, generator: np.random.Generator
) -> Paired:
    """Test a layer and the step with a preconditioner on fresh prompts."""
    step = descent_layer(
        1.0, context=problem.context, dim=problem.dim, preconditioner=np.array(matrix)
    )
    parts = []
    for _ in range(count // BLOCK):
        prompts = draw_prompts(problem, get_backend("numpy"), generator, BLOCK)
        tokens = regression_tokens(prompts)
        flipped = regression_tokens(replace(prompts, labels=-prompts.labels))
        straight = prediction(tokens, [layer])
        mirrored = prediction(flipped, [layer])
        odd = (straight - mirrored) / 2
        even = (straight + mirrored) / 2
        known = mean_given_inputs(problem, matrix, prompts)
        error = prediction(tokens, [step]) - prompts.query_label
        parts.append([known, (odd - prompts.query_label) ** 2 - error**2 + known, even**2])
    groups = np.concatenate(parts, axis=1).reshape(3, -1, GROUP).mean(axis=2)
    return Paired(
        step=Estimate.of(groups[0]),
        descent=Estimate.of(groups[1]),
        rest=Estimate.of(groups[2]),
        matrix=own_preconditioner(layer, problem.context),
    )


def mean_given_inputs(problem: Problem, matrix: np.ndarray, prompts: Prompts) -> np.ndarray:
    """Mean loss of a step over tasks, label noise and queries, given the inputs of contexts."""
    identity = np.eye(problem.dim)
    # Roots of the covariances of query and task.
    query = matrix_root(problem.covariance_of_inputs)
    task = matrix_root(problem.covariance_of_tasks)
    H = np.swapaxes(prompts.inputs, 1, 2) @ prompts.inputs / problem.context
    missed = query @ (identity - matrix @ H) @ task
    step = query @ matrix
    noise = problem.noise_variance / problem.context * np.sum((step @ H) * step, axis=(1, 2))
    return problem.noise_variance + np.sum(missed**2, axis=(1, 2)) + noise


def excess_row(where: str, losses: Later) -> Row:
    """The loss of a layer in units of the step's loss, and what training may leave."""
    label = f"loss of the trained layer over that of the step, {where}"
    return bound(label, 1 + EXCESS, call(ratio, losses.loss, losses.step))


def own_preconditioner(layer: Layer, context: int) -> np.ndarray:
    """A of the part x_q^T A beta of a one-head layer's prediction."""
    readout = layer.output[0, -1]
    lookup = layer.lookup[0]
    return -context * (readout[-1] * lookup[:-1, :-1].T + np.outer(lookup[-1, :-1], readout[:-1]))
