"""A layer trained on anisotropic inputs against the optimal preconditioned step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import optimal_preconditioner, preconditioner_loss
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.descent.regression import Regression
from iclimit.simulate.descent.training import train_attention
from iclimit.simulate.transformer import Layer
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.descent.paired import (
    HELD_OUT,
    LOSS_ALLOWANCE,
    layer_predictions,
    mean_and_error,
    paired_losses,
    seeds,
)
from iclimit.validation.drawing import COLOURS

PRECONDITIONED: dict[str, Any] = {"context": 12, "noise_variance": 0.2}
SPECTRUM = (3.0, 1.5, 0.8, 0.4, 0.2)
TASK_SPECTRUM = (0.3, 2.0, 0.6, 1.5, 1.0)
KURTOSIS = {"gaussian": 0.0, "uniform": -1.2}
RESTARTS, TRAINING_SET = 12, 40_000
"""Random initialisations and prompts: about half the runs end where the layer reads out the inputs
instead of the labels, a step of rank one with twice the loss."""


def _covariances() -> tuple[np.ndarray, np.ndarray]:
    """Mixing matrix of the inputs and root of the task covariance; they do not commute."""
    rotation = np.linalg.qr(np.random.default_rng(5).standard_normal((2, 5, 5)))[0]
    mixing = (rotation[0] * np.sqrt(SPECTRUM)) @ rotation[1]
    return mixing, rotation[1] * np.sqrt(TASK_SPECTRUM)


def _statistics(law: str) -> dict[str, Any]:
    """Arguments of the theory."""
    mixing, root = _covariances()
    return {
        "input_covariance": mixing @ mixing.T,
        "task_covariance": root @ root.T,
        "mixing": mixing,
        "excess_kurtosis": KURTOSIS[law],
        **PRECONDITIONED,
    }


@dataclass(frozen=True)
class TrainedPreconditioner:
    """Best of several trained layers.

    Attributes
    ----------
    excess : (float, float)
        Held-out loss minus that of the optimal step on the same prompts, with its s.e.
    step : (float, float)
        Loss of the optimal step on these prompts, with its s.e.
    matrix : ndarray (d, d)
        The layer's own preconditioner.
    losses : ndarray (RESTARTS,)
        Final training losses of all of them.
    """

    excess: tuple[float, float]
    step: tuple[float, float]
    matrix: np.ndarray
    losses: np.ndarray


def trained_preconditioner(
    *, input_law: str, optimum: tuple[tuple[float, ...], ...], held_out: int, rng: Any
) -> TrainedPreconditioner:
    """Train layers on anisotropic inputs; compare the best with the optimal step."""
    mixing, root = _covariances()
    # The laws of the theory have unit variance.
    unit = {"gaussian": 1.0, "uniform": math.sqrt(3)}[input_law]
    problem = Regression(
        dim=len(SPECTRUM),
        input_law=input_law,
        scale=unit,
        mixing=mixing,
        task_root=root,
        **PRECONDITIONED,
    )
    seed, generator = seeds(rng)
    runs = [
        train_attention(problem, optimizer="lbfgs", batch=TRAINING_SET, rng=one)
        for one in seed.spawn(RESTARTS)
    ]
    losses = np.array([run.losses[-1] for run in runs])
    layer = runs[int(np.argmin(losses))].layers[0]
    constructed = descent_layer(
        1.0, context=problem.context, dim=problem.dim, preconditioner=optimum
    )
    predictors = {"layer": layer_predictions(layer), "step": layer_predictions(constructed)}
    errors = paired_losses(problem, predictors, held_out, generator)
    excess = mean_and_error(errors["layer"] - errors["step"])
    matrix = _preconditioner(layer, problem.context)
    return TrainedPreconditioner(excess, mean_and_error(errors["step"]), matrix, losses)


def _preconditioner(layer: Layer, context: int) -> np.ndarray:
    """A of the part x_q^T A beta of a one-head layer's prediction."""
    readout, lookup = layer.output[0, -1], layer.lookup[0]
    return -context * (readout[-1] * lookup[:-1, :-1].T + np.outer(lookup[-1, :-1], readout[:-1]))


def _preconditioned(preset: Preset, law: str) -> Cell:
    optimum = optimal_preconditioner(**_statistics(law)).matrix
    rows = tuple(tuple(row) for row in optimum.tolist())
    return Cell.of(trained_preconditioner, input_law=law, optimum=rows, held_out=HELD_OUT[preset])


def _preconditioner_cells(preset: Preset) -> list[Cell]:
    return [_preconditioned(preset, law) for law in KURTOSIS]


def _judge_preconditioner(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, notes = [], []
    for law in KURTOSIS:
        run: TrainedPreconditioner = results[_preconditioned(preset, law)]
        best = optimal_preconditioner(**_statistics(law))
        excess, error = run.excess
        comparisons += [
            Comparison(f"loss of the optimal step, {law} inputs", best.loss, *run.step),
            Comparison(
                f"held-out loss, {law} inputs",
                best.loss,
                best.loss + excess,
                error,
                LOSS_ALLOWANCE * best.loss,
            ),
            Comparison(
                f"loss of the layer's own preconditioner, {law} inputs",
                best.loss,
                preconditioner_loss(run.matrix, **_statistics(law)),
                0.0,
                LOSS_ALLOWANCE * best.loss,
            ),
        ]
        plain = min(
            preconditioner_loss(rate * np.eye(len(SPECTRUM)), **_statistics(law))
            for rate in np.linspace(0.05, 1.5, 146)
        )
        notes.append(
            f"{law}: optimum {best.loss:.4f}; the best step without preconditioner {plain:.4f}; "
            f"{np.sum(run.losses > 1.2 * best.loss)} of {RESTARTS} random initialisations end at "
            "another stationary point, with twice the loss."
        )

    def draw(figure: Any) -> None:
        figure.set_size_inches(6.4, 3.4)
        for ax, law in zip(figure.subplots(1, 2), KURTOSIS, strict=True):
            best = optimal_preconditioner(**_statistics(law)).matrix
            found = results[_preconditioned(preset, law)].matrix
            ax.plot([best.min(), best.max()], [best.min(), best.max()], color=COLOURS[0])
            ax.plot(best.ravel(), found.ravel(), "o", color=COLOURS[1], markersize=4)
            ax.set(xlabel="entry of $A^*$", ylabel="entry of the trained layer", title=law)

    return Verdict(tuple(comparisons), draw, tuple(notes))


preconditioner_claim = Claim(
    name="gd-preconditioner",
    title="On anisotropic inputs a trained layer finds the optimal preconditioner",
    source=(
        "Ahn et al., NeurIPS 2023, arXiv:2306.00297; Zhang, Frei, Bartlett, JMLR 2024, "
        "arXiv:2306.09927; non-commuting covariances and kurtosis: documentation"
    ),
    statement=(
        "With correlated inputs, Gaussian or not, tasks of another covariance and label noise, a "
        "layer trained from random weights reaches the loss of the optimal preconditioned step "
        "within 1 %, and the step read off its weights has that loss too."
    ),
    cells=_preconditioner_cells,
    judge=_judge_preconditioner,
)
