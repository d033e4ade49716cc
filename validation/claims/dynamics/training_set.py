"""Finite training sets: the gap to the law of the data falls as 1/P.

The network on cubic features trained to its end on P sequences has a training loss below and
a loss on fresh sequences above the least one, by the same a/P for large P.

Source: {zhang2025}, setup; asymptotics of least squares (sandwich).
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.dynamics import simulate_gradient_descent
from iclimit.simulate.pretraining.prompts import Prompts
from iclimit.validation import (
    Cell,
    Claim,
    Preset,
    Results,
    Verdict,
    compare_limits,
    extrapolate_runs,
)
from iclimit.validation.claims.dynamics.setting import CONTEXT, eigenvalues, problem
from iclimit.validation.drawing import COLOURS, Figure, draw_estimates, finish

SETS = (250, 500, 1000, 2000, 4000)
REPEATS: dict[Preset, int] = {"quick": 200, "full": 4000}
TRAINING: dict[str, Any] = {
    "model": "cubic",
    "heads": 8,
    "init_scale": 0.3,
    "learning_rate": 0.5,
    "steps": 1000,
    "record": 1000,
    "standardize": False,
    "tests": True,
}
BLOCKS: dict[Preset, int] = {"quick": 40, "full": 400}
"""Blocks of sequences from which the prediction is computed."""
BLOCK = 20_000
"""Sequences in a block."""

LAM = eigenvalues(4)
LEAST = float(plateau_losses(LAM, context=CONTEXT)[-1])
"""Loss of the best predictor on the law of the data."""
SECOND_MOMENT = LAM**2 + LAM * (LAM + LAM.sum()) / CONTEXT
r"""Eigenvalues of :math:`E \beta \beta^\top`."""


def training_set_gaps(*, size: int, repeats: int, rng: Any, backend: str = "numpy") -> np.ndarray:
    """Train the network on cubic features to its end, on plain sequences.

    Returns
    -------
    ndarray (2, repeats)
        Times the size: training loss minus that of the best predictor on the same set, whose mean
        is the least loss; and loss on fresh sequences minus the least loss.
    """
    law, numpy = problem(4), get_backend("numpy")
    run = simulate_gradient_descent(
        law, training_set=size, repeats=repeats, rng=rng, backend=backend, **TRAINING
    )
    best = []
    for seed in seed_sequences(rng, repeats):
        generator = numpy.generator(seed_sequences(seed, 3)[0])
        drawn = law.training_set(numpy, generator, size, standardize=False)
        best.append(np.mean(best_residual(drawn, drawn_beta(drawn)) ** 2))
    return size * np.stack([run.losses[:, -1] - best, run.tests["icl"][:, -1] - LEAST])


def drawn_beta(prompts: Prompts) -> np.ndarray:
    """Mean of label times input over the context."""
    return np.mean(prompts.y[..., None] * prompts.x, axis=1)


def best_residual(prompts: Prompts, beta: np.ndarray) -> np.ndarray:
    """Query labels minus the best prediction that is linear in the cubic features."""
    return prompts.y_query - np.sum(beta * prompts.x_query * LAM / SECOND_MOMENT, axis=1)


def sandwich(*, blocks: int, rng: Any) -> Estimate:
    r"""Estimate of :math:`\operatorname{tr} M^{-1} E[r^2 f f^\top]`.

    With the cubic features :math:`f = \beta \otimes x_q`, their second moment
    :math:`M = E[\beta \beta^\top] \otimes \Lambda` and the residual r of the best predictor.
    """
    numpy, values = get_backend("numpy"), []
    for seed in rng.spawn(blocks):
        prompts = problem(4).sample(numpy, np.random.default_rng(seed), BLOCK)
        beta = drawn_beta(prompts)
        leverage = np.sum(beta**2 / SECOND_MOMENT, axis=1)
        leverage = leverage * np.sum(prompts.x_query**2 / LAM, axis=1)
        values.append(np.mean(best_residual(prompts, beta) ** 2 * leverage))
    return Estimate.of(values, keep=False)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Gaps by size, and the prediction."""
    gaps: dict[Any, Cell] = {
        size: Cell.of(training_set_gaps, size=size, repeats=REPEATS[preset]) for size in SETS
    }
    return gaps | {"predicted": Cell.of(sandwich, blocks=BLOCKS[preset])}


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare both excesses, times the size and extrapolated, with the prediction."""
    predicted = results["predicted"]
    below = Estimate(-predicted.mean, predicted.standard_error, predicted.repeats)
    theories = {"training loss": below, "loss on fresh sequences": predicted}
    runs = [results[size] for size in SETS]
    fit = extrapolate_runs(SETS, runs, order=2)
    label = "size times the excess of the {}, extrapolated"
    comparisons = compare_limits(
        {label.format(name): value for name, value in theories.items()}, fit
    )
    notes = (
        f"Predicted: -+ {predicted.mean:.3f} +- {predicted.standard_error:.3f}, the sandwich of "
        "least squares for the 16 cubic features; with residuals independent of the features it "
        f"would be {16 * LEAST:.3f}.",
        f"Extrapolation of order {fit.order}, p = {fit.p_value:.2f}.",
    )

    def draw(figure: Figure) -> None:
        ax = figure.subplots()
        inverse, fine = 1 / np.array(SETS), np.linspace(0, 1.05 / SETS[0], 50)[1:]
        for k, (name, limit) in enumerate(theories.items()):
            found = [Estimate.of(run[k]) for run in runs]
            draw_estimates(ax, inverse, found, COLOURS[k], label=name)
            ax.plot(fine, fit.curve(1 / fine)[:, k], color=COLOURS[k], linewidth=1)
            ax.plot(0, limit.mean, "*", color=COLOURS[k], markersize=12, clip_on=False)
        ax.plot([], [], "*", color="0.4", markersize=12, label="predicted")
        ax.set_xlim(left=0)
        finish(ax, "1 / training set", "size times (loss - least loss)", legend="")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("dynamics-training-set", __doc__, cells, judge)
