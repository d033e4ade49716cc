"""On anisotropic inputs a trained layer finds the optimal preconditioner.

With correlated inputs, Gaussian or not, tasks of another covariance and label noise, a layer
trained from random weights reaches the loss of the optimal preconditioned step within 1 %.  The
step read off its weights has that loss too.

Source: Ahn et al., NeurIPS 2023, arXiv:2306.00297; Zhang, Frei, Bartlett, JMLR 2024,
arXiv:2306.09927; non-commuting covariances and kurtosis: documentation.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import optimal_preconditioner, preconditioner_loss
from iclimit.results import Estimate
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.descent.regression import Regression
from iclimit.simulate.descent.training import train_attention
from iclimit.simulate.transformer import Layer
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.descent.paired import (
    HELD_OUT,
    LOSS_ALLOWANCE,
    compare_held_out,
    paired_losses,
    seeds,
)
from iclimit.validation.drawing import COLOURS, Figure, finish, panels

SETTING: dict[str, Any] = {"context": 12, "noise_variance": 0.2}
SPECTRUM = (3.0, 1.5, 0.8, 0.4, 0.2)
TASK_SPECTRUM = (0.3, 2.0, 0.6, 1.5, 1.0)
ROTATIONS = np.linalg.qr(np.random.default_rng(5).standard_normal((2, 5, 5)))[0]
MIXING = (ROTATIONS[0] * np.sqrt(SPECTRUM)) @ ROTATIONS[1]
TASK_ROOT = ROTATIONS[1] * np.sqrt(TASK_SPECTRUM)
"""Roots of the covariances of inputs and tasks, which do not commute."""
KURTOSIS = {"gaussian": 0.0, "uniform": -1.2}
UNIT_SCALE = {"gaussian": 1.0, "uniform": math.sqrt(3)}
"""Scales at which coordinates have variance 1, as in the theory."""
RESTARTS, TRAINING_SET = 12, 40_000
"""Random initialisations and prompts: about half the runs end where the layer reads out the inputs
instead of the labels, a step of rank one with twice the loss."""


def statistics(law: str) -> dict[str, Any]:
    """Arguments of the theory."""
    return {
        "input_covariance": MIXING @ MIXING.T,
        "task_covariance": TASK_ROOT @ TASK_ROOT.T,
        "mixing": MIXING,
        "excess_kurtosis": KURTOSIS[law],
        **SETTING,
    }


@dataclass(frozen=True)
class TrainedPreconditioner:
    """Best of several trained layers.

    Attributes
    ----------
    excess : Estimate
        Held-out loss minus that of the optimal step on the same prompts.
    step : Estimate
        Loss of the optimal step on these prompts.
    matrix : ndarray (d, d)
        The layer's own preconditioner.
    losses : ndarray (RESTARTS,)
        Final training losses of all of them.
    """

    excess: Estimate
    step: Estimate
    matrix: np.ndarray
    losses: np.ndarray


def trained_preconditioner(
    *, input_law: str, optimum: tuple[tuple[float, ...], ...], held_out: int, rng: Any
) -> TrainedPreconditioner:
    """Train layers on anisotropic inputs; compare the best with the optimal step."""
    problem = Regression(
        dim=len(SPECTRUM),
        input_law=input_law,
        scale=UNIT_SCALE[input_law],
        mixing=MIXING,
        task_root=TASK_ROOT,
        **SETTING,
    )
    seed, generator = seeds(rng)
    runs = [
        train_attention(problem, optimizer="lbfgs", batch=TRAINING_SET, rng=one)
        for one in seed.spawn(RESTARTS)
    ]
    losses = np.array([run.losses[-1] for run in runs])
    layer = runs[int(np.argmin(losses))].layers[0]
    N, d = problem.context, problem.dim
    constructed = descent_layer(1.0, context=N, dim=d, preconditioner=optimum)
    excess, step = paired_losses(problem, layer, constructed, held_out, generator)
    return TrainedPreconditioner(excess, step, own_preconditioner(layer, N), losses)


def own_preconditioner(layer: Layer, context: int) -> np.ndarray:
    """A of the part x_q^T A beta of a one-head layer's prediction."""
    readout, lookup = layer.output[0, -1], layer.lookup[0]
    return -context * (readout[-1] * lookup[:-1, :-1].T + np.outer(lookup[-1, :-1], readout[:-1]))


def cells(preset: Preset) -> dict[Any, Cell]:
    """Trained layers by law of the inputs."""
    found: dict[Any, Cell] = {}
    for law in KURTOSIS:
        rows = optimal_preconditioner(**statistics(law)).matrix.tolist()
        found[law] = Cell.of(
            trained_preconditioner,
            input_law=law,
            optimum=tuple(map(tuple, rows)),
            held_out=HELD_OUT[preset],
        )
    return found


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare losses, held out and of the layer's own preconditioner."""
    comparisons, notes = [], []
    for law, run in results.items():
        best = optimal_preconditioner(**statistics(law)).loss
        own = preconditioner_loss(run.matrix, **statistics(law))
        label = f"loss of the layer's own preconditioner, {law} inputs"
        comparisons += [
            compare(f"loss of the optimal step, {law} inputs", best, run.step),
            compare_held_out(f"held-out loss, {law} inputs", best, run.excess, LOSS_ALLOWANCE),
            compare(label, best, own, relative=LOSS_ALLOWANCE),
        ]
        plain = min(
            preconditioner_loss(rate * np.eye(len(SPECTRUM)), **statistics(law))
            for rate in np.linspace(0.05, 1.5, 146)
        )
        notes.append(
            f"{law}: optimum {best:.4f}; the best step without preconditioner {plain:.4f}; "
            f"{np.sum(run.losses > 1.2 * best)} of {RESTARTS} random initialisations end at "
            "another stationary point, with twice the loss."
        )

    def draw(figure: Figure) -> None:
        axes = panels(figure, width=6.4, height=3.4)
        for ax, (law, run) in zip(axes, results.items(), strict=True):
            best = optimal_preconditioner(**statistics(law)).matrix
            ax.plot([best.min(), best.max()], [best.min(), best.max()], color=COLOURS[0])
            ax.plot(best.ravel(), run.matrix.ravel(), "o", color=COLOURS[1], markersize=4)
            finish(ax, "entry of $A^*$", "entry of the trained layer", title=law)

    return Verdict(comparisons, draw, tuple(notes))


claim = Claim.of("gd-preconditioner", __doc__, cells, judge)
