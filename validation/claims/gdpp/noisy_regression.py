"""Shared by the claims on regression with random noise levels: published table, trained models."""

from __future__ import annotations

import csv
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import RidgeBaselines, ridge_baselines
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.gdpp import (
    HeldOutLosses,
    LinearTransformer,
    NoisyRegression,
    held_out_losses,
    train_linear_transformer,
)
from iclimit.validation.claim import Comparison
from iclimit.validation.claims.descent.paired import mean_and_error

PAPER = "Vladymyrov, von Oswald, Sandler, Ge, NeurIPS 2024, arXiv:2402.14180"
SIZE = {"context": 20, "dim": 10}
"""Size of the published table."""
EVALUATED = 100_000
"""Sequences that the published losses are means over."""
NOISES = (*(f"uniform:{level}" for level in range(8)), "categorical:1,3", "categorical:1,3,5")
"""Noise laws of the published table, in the order of its columns."""
UNIFORM = NOISES[:8]
NAMES = {"gd++": "GD++", "diag": "Diag", "axial": "Full"}
MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of a median of many normal variables, over that of their mean."""
BINS = 12
"""Intervals of the noise level in a profile."""


@cache
def published_table() -> dict[tuple[str, int, str], float]:
    """Published adjusted losses by method, number of layers (0 for baselines) and noise law."""
    path = resources.files("iclimit.validation") / "reference" / "versatile_table1.csv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    return {
        (row["method"], int(row["layers"] or 0), noise): float(
            row[noise.replace(":", "_").replace(",", "_")]
        )
        for row in rows
        for noise in NOISES
    }


@cache
def baselines(noise: str) -> RidgeBaselines:
    """Theory of the baselines at the size of the table."""
    return ridge_baselines(noise, **SIZE)


def published_error(loss: float, noise: str, spread: float = 0.0) -> float:
    r"""Standard error of a published adjusted loss a: sampling, and rounding to three digits.

    A sequence has :math:`\frac12 \delta^2 + \delta r`, with the difference :math:`\delta` of the
    predictions and the oracle's error r, normal given the context and of mean squares
    :math:`2 a_c` and, on average, 2 R.  If the losses :math:`a_c` of contexts have the standard
    deviation ``spread``, the variance is :math:`3\,\text{spread}^2 + 2 a^2 + 4 a R`; noisy query
    labels would make it larger.
    """
    variance = 3 * spread**2 + 2 * loss**2 + 4 * loss * baselines(noise).oracle
    rounding = 10.0 ** (math.floor(math.log10(loss)) - 2) if loss < 1e-3 else 1e-3
    return math.hypot(math.sqrt(variance / EVALUATED), rounding / math.sqrt(12))


@dataclass(frozen=True, eq=False)
class Trained:
    """One trained model, measured on fresh contexts.

    Attributes
    ----------
    noise : str
        Noise law.
    model : LinearTransformer
        What was trained.
    training_loss, held_out, standard_error : float
        Adjusted losses.
    evaluation, evaluation_error, spread : float
        Median of evaluations on 100,000 contexts, as the published losses are, the standard error
        of that one and its standard deviation between contexts.
    ruined : float
        Share of contexts with a larger loss than that of predicting zero without noise, d/2.
    seconds : float
        CPU time of the training.
    at_best, starts : int
        Starts of the first round within a percent of the best, of how many.
    steps : int
        Levenberg-Marquardt steps.
    levels, profile, profile_errors : list of float
        Adjusted loss by noise level.
    """

    noise: str
    model: LinearTransformer
    training_loss: float
    held_out: float
    standard_error: float
    evaluation: float
    evaluation_error: float
    spread: float
    ruined: float
    seconds: float
    at_best: int
    starts: int
    steps: int
    levels: list[float]
    profile: list[float]
    profile_errors: list[float]

    @property
    def kind(self) -> str:
        """What is free in the weights."""
        return self.model.kind

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self.model.depth


def train_model(
    *,
    noise: str,
    kind: str,
    layers: int,
    starts: int,
    contexts: int,
    evaluations: int,
    warm: Sequence[Trained] = (),
    rare: bool = True,
    rng: Any,
    backend: str = "numpy",
) -> Trained:
    """Train one model, from random weights and those of other models; measure it."""
    train_seed, fresh_seed, rare_seed = seed_sequences(rng, 3)
    problem = NoisyRegression(noise, **SIZE)
    start = time.process_time()
    run = train_linear_transformer(
        problem,
        kind=kind,
        layers=layers,
        starts=starts,
        contexts=contexts,
        initial=[each.model for each in warm],
        rare=rare,
        rng=train_seed,
        backend=backend,
    )
    seconds = time.process_time() - start
    fresh, weighted = (
        held_out_losses(run.model, problem, contexts=count, rare=law, rng=seed, backend=backend)
        for count, law, seed in (
            (evaluations * EVALUATED, False, fresh_seed),
            (EVALUATED, True, rare_seed),
        )
    )
    evaluation = _median_evaluation(fresh.losses)
    levels, profile, errors = _profile(fresh)
    return Trained(
        noise=noise,
        model=run.model,
        training_loss=run.loss,
        held_out=fresh.loss.mean,
        standard_error=fresh.loss.standard_error,
        evaluation=float(np.mean(evaluation)),
        evaluation_error=mean_and_error(evaluation)[1],
        spread=float(np.std(evaluation)),
        ruined=float(np.mean(weighted.weights * (weighted.losses > SIZE["dim"] / 2))),
        seconds=seconds,
        at_best=int(np.sum(run.start_losses < 1.01 * run.start_losses.min())),
        starts=run.start_losses.size,
        steps=run.steps,
        levels=levels,
        profile=profile,
        profile_errors=errors,
    )


def _median_evaluation(losses: np.ndarray) -> np.ndarray:
    """Losses of the evaluation with the (lower) median mean."""
    evaluations = losses.reshape(-1, EVALUATED)
    order = np.argsort(np.mean(evaluations, axis=1))
    return evaluations[order[(len(order) - 1) // 2]]


def _profile(fresh: HeldOutLosses) -> tuple[list[float], list[float], list[float]]:
    """Mean loss in intervals of the noise level, or at each of a few levels."""
    distinct = np.unique(fresh.levels)
    if distinct.size <= BINS:
        index, centres = np.searchsorted(distinct, fresh.levels), distinct
    else:
        edges = np.linspace(0, distinct[-1], BINS + 1)
        index = np.clip(np.searchsorted(edges, fresh.levels) - 1, 0, BINS - 1)
        centres = (edges[1:] + edges[:-1]) / 2
    means, errors = [], []
    for k in range(len(centres)):
        chosen = index == k
        mean, error = mean_and_error(fresh.losses[chosen])
        means.append(mean)
        errors.append(error)
    return centres.tolist(), means, errors


def compare_published(cell: Trained) -> Comparison:
    """Whether a trained model is at or below the published loss, within the errors of both.

    Both are evaluations on 100,000 sequences, ours the median of several.  Its error is that of
    such a median, or of one evaluation where few contexts carry the mean.  The losses of contexts
    of the published model have the spread of ours, relative to their mean.
    """
    bound = published_table()[NAMES[cell.kind], cell.layers, cell.noise]
    error = min(cell.evaluation_error, MEDIAN_ERROR * cell.standard_error)
    spread = cell.spread * bound / max(cell.evaluation, bound)
    return Comparison(
        f"{NAMES[cell.kind]}, {layer_count(cell.layers)}, {cell.noise}: at most the published",
        bound,
        cell.evaluation,
        math.hypot(error, published_error(bound, cell.noise, spread)),
        upper_bound=True,
    )


def layer_count(layers: int) -> str:
    """Number of layers in words."""
    return "1 layer" if layers == 1 else f"{layers} layers"
