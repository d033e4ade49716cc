"""The optimal learning rate of one step: expectation, data and line search."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import learning_rate_loss, optimal_learning_rate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent import (
    LearningRateEstimate,
    estimate_learning_rate,
    simulate_learning_rate,
)
from iclimit.simulate.descent.learning_rate import search_learning_rate
from iclimit.simulate.descent.regression import Regression
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.drawing import COLOURS, draw_points

BLOG = "Rossi, Yuan, Hannagan, ICLR 2024 blog post track"
VON_OSWALD = "von Oswald et al., ICML 2023, arXiv:2212.07677"

LAWS = ("gaussian", "uniform", "rademacher", "laplace")
NOISES = (0.0, 0.4)
SIZES: dict[str, Any] = {"context": 10, "dim": 6, "task_variance": 1.7}
TASKS: dict[Preset, int] = {"quick": 200_000, "full": 10_000_000}
SEARCHED = 2_000
"""Tasks of the line search."""
SEARCH_TOLERANCE = 1e-4
"""Relative tolerance of the line search; a minimum is flat, so it lands much closer."""


@dataclass(frozen=True)
class SearchedRate:
    """Rate of a line search and of the data-based formula on the same tasks."""

    searched: float
    estimated: float


def searched_rate(
    *, input_law: str, noise_variance: float, tasks: int, rng: Any, backend: str = "numpy"
) -> SearchedRate:
    """Line search and closed form on one set of tasks."""
    del backend  # the line search is a reference: always on the host
    problem = Regression(input_law=input_law, noise_variance=noise_variance, **SIZES)
    prompts = problem.sample(get_backend("numpy"), np.random.default_rng(rng), tasks)
    found, _ = search_learning_rate(prompts, tolerance=SEARCH_TOLERANCE, normalization="sum")
    return SearchedRate(found, estimate_learning_rate(prompts, normalization="sum").rate.mean)


def _setting(law: str, noise: float) -> dict[str, Any]:
    return {"input_law": law, "noise_variance": noise, "normalization": "sum", **SIZES}


def _data(preset: Preset, law: str, noise: float) -> Cell:
    return Cell.of(simulate_learning_rate, contexts=TASKS[preset], **_setting(law, noise))


def _search(law: str, noise: float) -> Cell:
    return Cell.of(searched_rate, input_law=law, noise_variance=noise, tasks=SEARCHED)


def _cells(preset: Preset) -> list[Cell]:
    return [
        cell
        for law in LAWS
        for noise in NOISES
        for cell in (_data(preset, law, noise), _search(law, noise))
    ]


def _judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = []
    for law in LAWS:
        for noise in NOISES:
            best = optimal_learning_rate(**_setting(law, noise))
            data: LearningRateEstimate = results[_data(preset, law, noise)]
            searched: SearchedRate = results[_search(law, noise)]
            name = f"{law}, noise {noise:g}"
            loss = data.loss(float(best.rate))
            comparisons += [
                Comparison(
                    f"rate from data, {name}",
                    float(best.rate),
                    data.rate.mean,
                    data.rate.standard_error,
                ),
                Comparison(
                    f"loss at the optimal rate, {name}",
                    float(best.loss),
                    loss.mean,
                    loss.standard_error,
                ),
                Comparison(
                    f"line search against data, {name}",
                    searched.estimated,
                    searched.searched,
                    0.0,
                    SEARCH_TOLERANCE * searched.estimated,
                ),
            ]

    def draw(figure: Any) -> None:
        figure.set_size_inches(6.0, 3.8)
        ax = figure.subplots()
        noise = NOISES[1]
        for law, colour in zip(LAWS, COLOURS, strict=False):
            best = optimal_learning_rate(**_setting(law, noise))
            null = float(learning_rate_loss(0.0, **_setting(law, noise)))
            relative = np.linspace(0, 2.2, 200)
            curve = learning_rate_loss(relative * best.rate, **_setting(law, noise)) / null
            ax.plot(relative, curve, color=colour, label=law)
            data = results[_data(preset, law, noise)]
            grid = np.linspace(0.1, 2.1, 11)
            points = [data.loss(float(x * best.rate)) for x in grid]
            means = np.array([point.mean for point in points])
            errors = np.array([point.standard_error for point in points])
            draw_points(ax, grid, means / null, errors / null, colour)
            ax.plot(1, best.loss / null, "*", color=colour, markersize=11, zorder=4)
        ax.set_xlabel(r"learning rate $\eta/\eta^*$")
        ax.set_ylabel("loss / null predictor")
        ax.set_title(
            rf"$N = {SIZES['context']},\ d = {SIZES['dim']},\ \sigma^2 = {noise:g},\ a^2 = 1.7$"
        )
        ax.legend(title="inputs")

    notes = (
        f"{TASKS[preset]:,} tasks per law; sandwich standard errors.",
        f"Line searches on {SEARCHED:,} tasks find the data-based rate within "
        f"{_worst_search(results):.0e} relative.",
    )
    return Verdict(tuple(comparisons), draw, notes)


def _worst_search(results: Mapping[Cell, Any]) -> float:
    pairs = [results[_search(law, noise)] for law in LAWS for noise in NOISES]
    return max(math.fabs(pair.searched / pair.estimated - 1) for pair in pairs)


learning_rate_claim = Claim(
    name="gd-learning-rate",
    title="The optimal learning rate of one step: closed form, data and line search",
    source=f"{BLOG}; {VON_OSWALD}, Proposition 1; closed form for any moments: documentation",
    statement=(
        "For Gaussian, uniform, sign and Laplace inputs, with and without label noise, the "
        "learning rate and the loss that simulated tasks give equal the closed forms, and a line "
        "search over the constructed attention layer finds the rate of the data-based formula."
    ),
    cells=_cells,
    judge=_judge,
)
