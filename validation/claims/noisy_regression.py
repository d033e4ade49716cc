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

from iclimit.asymptotics import RidgeBaselines, ridge_baselines
from iclimit.simulate import (
    HeldOutLosses,
    LinearTransformer,
    NoisyRegression,
    TrainedTransformer,
    held_out_losses,
    train_linear_transformer,
)
from iclimit.validation.claim import Comparison
from iclimit.validation.claims.paired import mean_and_error

PAPER = "Vladymyrov, von Oswald, Sandler, Ge, NeurIPS 2024, arXiv:2402.14180"
SIZE = {"context": 20, "dim": 10}
"""Size of the published table."""
EVALUATED = 100_000
"""Sequences that the published losses are means over."""
NOISES = (*(f"uniform:{level}" for level in range(8)), "categorical:1,3", "categorical:1,3,5")
"""Noise laws of the published table, in the order of its columns."""
UNIFORM = NOISES[:8]
NAMES = {"gd++": "GD++", "diag": "Diag", "full": "Full"}
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


@dataclass(frozen=True)
class TrainedCell:
    """One trained model, measured on fresh contexts.

    Attributes
    ----------
    noise, kind, layers
        What was trained.
    training_loss, held_out, standard_error : float
        Adjusted losses.
    spread : float
        Standard deviation of the loss between contexts.
    ruined : float
        Share of contexts with a larger loss than that of predicting zero without noise, d/2.
    seconds : float
        CPU time of the training.
    at_best, starts : int
        Starts of the first round within a percent of the best, of how many.
    steps : int
        Levenberg-Marquardt steps.
    omegas : nested list or None
        Effective scalars of the layers, but for full weights.
    levels, profile, profile_errors : list of float
        Adjusted loss by noise level.
    """

    noise: str
    kind: str
    layers: int
    training_loss: float
    held_out: float
    standard_error: float
    spread: float
    ruined: float
    seconds: float
    at_best: int
    starts: int
    steps: int
    omegas: list | None
    levels: list[float]
    profile: list[float]
    profile_errors: list[float]


def train_columns(
    *,
    noises: Sequence[str],
    kind: str,
    layers: int,
    starts: int,
    contexts: int,
    held_out: int,
    rng: Any,
    backend: str = "numpy",
) -> tuple[TrainedCell, ...]:
    """Models of 1, 2, ... layers for each noise law.

    A model starts from random weights, from the one with a layer less and from the one of the same
    depth for the noise law before; full ones from diagonal ones too.  Where there is a noise law
    before, there is one random start only.
    """
    seeds = iter(rng.spawn(4 * layers * len(noises)))
    trained: list[TrainedCell] = []
    neighbours: dict[int, LinearTransformer] = {}
    for noise in noises:
        problem = NoisyRegression(noise, **SIZE)
        before: list[LinearTransformer] = []
        diag: list[LinearTransformer] = []
        for depth in range(1, layers + 1):
            start = time.process_time()
            settings: dict[str, Any] = {
                "layers": depth, "contexts": contexts, "backend": backend
            }  # fmt: skip
            if kind == "full":
                run = train_linear_transformer(
                    problem, kind="diag", starts=starts, initial=diag, rng=next(seeds), **settings
                )
                diag = [run.model]
            near = [neighbours[depth]] if depth in neighbours else []
            run = train_linear_transformer(
                problem, kind=kind, starts=1 if near else starts,
                initial=[*before, *diag, *near], rng=next(seeds), **settings,
            )  # fmt: skip
            seconds = time.process_time() - start
            before, neighbours[depth] = [run.model], run.model
            fresh, rare = (
                held_out_losses(
                    run.model, problem, contexts=count, rare=rare, rng=next(seeds), backend=backend
                )
                for count, rare in ((held_out, False), (held_out // 4, True))
            )
            trained.append(_measured(noise, depth, run, fresh, rare, seconds))
    return tuple(trained)


def _measured(
    noise: str,
    layers: int,
    run: TrainedTransformer,
    fresh: HeldOutLosses,
    rare: HeldOutLosses,
    seconds: float,
) -> TrainedCell:
    model: LinearTransformer = run.model
    levels, profile, errors = _profile(fresh)
    return TrainedCell(
        noise=noise,
        kind=model.kind,
        layers=layers,
        training_loss=run.loss,
        held_out=fresh.mean,
        standard_error=fresh.standard_error,
        spread=float(np.std(fresh.losses)),
        ruined=float(np.mean(rare.weights * (rare.losses > SIZE["dim"] / 2))),
        seconds=seconds,
        at_best=int(np.sum(run.start_losses < 1.01 * run.start_losses.min())),
        starts=run.start_losses.size,
        steps=run.steps,
        omegas=None if model.kind == "full" else model.omegas.tolist(),
        levels=levels,
        profile=profile,
        profile_errors=errors,
    )


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


def compare_published(cell: TrainedCell) -> Comparison:
    """Whether a trained model is at or below the published loss, within the errors of both."""
    bound = published_table()[NAMES[cell.kind], cell.layers, cell.noise]
    return Comparison(
        f"{NAMES[cell.kind]}, {layer_count(cell.layers)}, {cell.noise}: at most the published",
        bound,
        cell.held_out,
        math.hypot(cell.standard_error, published_error(bound, cell.noise, cell.spread)),
        upper_bound=True,
    )


def layer_count(layers: int) -> str:
    """Number of layers in words."""
    return "1 layer" if layers == 1 else f"{layers} layers"
