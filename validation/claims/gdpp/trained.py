"""One trained linear transformer, measured as the published ones are."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.gdpp import (
    HeldOutLosses,
    LinearTransformer,
    held_out_losses,
    train_linear_transformer,
)
from iclimit.statement import named_cell
from iclimit.validation.reference.noise_levels import (
    EVALUATED,
    SIZE,
    published_error,
    published_table,
)
from iclimit.validation.rows import Later, Row, bound, call
from iclimit.words import counted

# Names of the kinds in the published table.
NAMES = {"gd++": "GD++", "diag": "Diag", "axial": "Full"}

# Standard error of the median of many normal variables, over that of their mean.
MEDIAN_ERROR = math.sqrt(math.pi / 2)

# Largest loss of a start that ended near the best one, over its loss.  Other minima have 1.5 times
# the loss and more; descents of the first round end within a few per cent of a minimum.
NEAR = 1.1

# Intervals of the noise level in a profile.
BINS = 12


@dataclass(frozen=True, eq=False)
class Trained:
    """One trained model, measured on fresh contexts.

    Attributes
    ----------
    noise_law : str
        Law of the noise level.
    model : LinearTransformer
        What was trained.
    held_out : Estimate
        Adjusted loss on all fresh contexts.
    evaluation : Estimate
        The same as the published losses are measured: the evaluation, on 100,000 contexts or
        fewer, that has the median mean of several.
    spread : float
        Standard deviation between the contexts of that evaluation.
    ruined : float
        Share of contexts with a larger loss than that of predicting zero without noise, d/2.
    start_losses : list of float
        Where the random starts of the training ended in its first round, and then the others.
    random : int
        Number of random starts.
    levels, profile : list
        Noise levels, and the adjusted loss at each as an Estimate.
    """

    noise_law: str
    model: LinearTransformer
    held_out: Estimate
    evaluation: Estimate
    spread: float
    ruined: float
    start_losses: list[float]
    random: int
    levels: list[float]
    profile: list[Estimate]

    @property
    def kind(self) -> str:
        """Name in the published table."""
        return NAMES[self.model.kind]

    @property
    def label(self) -> str:
        """Number of layers and noise law in words."""
        return f"{counted(self.model.depth, 'layer')}, {self.noise_law}"

    @property
    def arrived(self) -> int:
        """Number of random starts that end near the best of all starts in the first round."""
        losses = np.array(self.start_losses)
        return int(np.sum(losses[: self.random] <= NEAR * np.min(losses)))

    @property
    def published(self) -> float:
        """Published adjusted loss."""
        return published_table()[self.kind, self.model.depth, self.noise_law]


@named_cell("train_model")
def train_model(
    *,
    noise_law: str,
    kind: str,
    layers: int,
    starts: int,
    contexts: int,
    evaluations: int,
    sequences: int = EVALUATED,
    warm: Sequence[Trained] = (),
    rare: bool = True,
    rng: SeedSequence,
    backend: str = "numpy",
) -> Trained:
    """Train one model, from random weights and those of other models, and measure it.

    Each of the evaluations takes so many sequences.
    """
    train_seed, fresh_seed, rare_seed = seed_sequences(rng, 3)
    problem = Problem(**SIZE, noise_law=noise_law, scale=1)
    run = train_linear_transformer(
        problem,
        kind=kind,
        layers=layers,
        starts=starts,
        contexts=contexts,
        initial=[known.model for known in warm],
        rare=rare,
        rng=train_seed,
        backend=backend,
    )
    fresh = held_out_losses(
        run.model,
        problem,
        contexts=evaluations * sequences,
        rare=False,
        rng=fresh_seed,
        backend=backend,
    )
    weighted = held_out_losses(
        run.model, problem, contexts=sequences, rare=True, rng=rare_seed, backend=backend
    )
    evaluation = median_evaluation(fresh.losses, sequences)
    return Trained(
        noise_law=noise_law,
        model=run.model,
        held_out=fresh.loss,
        evaluation=Estimate.of(evaluation, keep=False),
        spread=float(np.std(evaluation)),
        ruined=float(np.mean(weighted.weights * (weighted.losses > SIZE["dim"] / 2))),
        start_losses=run.start_losses.tolist(),
        random=starts,
        **profile_of(fresh),
    )


def median_evaluation(losses: np.ndarray, sequences: int = EVALUATED) -> np.ndarray:
    """Losses of the evaluation with the (lower) median mean."""
    evaluations = losses.reshape(-1, sequences)
    order = np.argsort(np.mean(evaluations, axis=1))
    return evaluations[order[(len(order) - 1) // 2]]


def profile_of(fresh: HeldOutLosses) -> dict[str, Any]:
    """Mean loss in intervals of the noise level, or at each of a few levels."""
    levels = np.unique(fresh.levels)
    if levels.size <= BINS:
        index = np.searchsorted(levels, fresh.levels)
    else:
        edges = np.linspace(0, levels[-1], BINS + 1)
        index = np.clip(np.searchsorted(edges, fresh.levels) - 1, 0, BINS - 1)
        levels = (edges[1:] + edges[:-1]) / 2
    groups = [fresh.losses[index == k] for k in range(levels.size)]
    profile = [Estimate.of(group, keep=False) for group in groups]
    return {"levels": levels.tolist(), "profile": profile}


def published_row(kind: str, noise_law: str, layers: int, model: Later) -> Row:
    """A trained model must not exceed the published loss."""
    label = f"{NAMES[kind]}, {counted(layers, 'layer')}, {noise_law}: at most the published"
    loss = published_table()[NAMES[kind], layers, noise_law]
    return bound(label, loss, call(as_published, model), degrees=math.inf)


def as_published(model: Trained) -> Estimate:
    """Loss of a trained model, with the errors of ours and of the published.

    Ours is the median of several evaluations.  Its error is that of such a median, or of one
    evaluation where few contexts determine the mean.  The losses of
    contexts of the published model are taken to have the spread of ours, relative to their mean.
    """
    ours = model.evaluation
    loss = model.published
    error = min(ours.standard_error, MEDIAN_ERROR * model.held_out.standard_error)
    spread = model.spread * loss / max(ours.mean, loss)
    total = math.hypot(error, published_error(loss, model.noise_law, spread))
    return Estimate(ours.mean, total, ours.repeats)
