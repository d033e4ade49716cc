"""Closed-form test error of a given Gamma equals Monte Carlo over tokens.

The test error of random attention matrices from exact moments equals the mean squared error
over token-level prompts, for fresh and for training tasks.

Source: Moments of the context summary at finite context length; derived in the documentation.
"""

from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.attention import context_summary
from iclimit.simulate.pretraining.prompts import sample_prompts, sample_tasks
from iclimit.simulate.pretraining.summaries import (
    exact_error,
    fresh_task_moments,
    squared_errors,
    task_set_moments,
)
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare
from iclimit.validation.drawing import Figure, draw_ratios, finish, panels

DIM, CONTEXT, TASKS, RHO = 10, 8, 5, 0.2
PROMPTS: dict[Preset, int] = {"quick": 25_000, "medium": 200_000, "full": 2_000_000}
MATRICES = 6
"""Random attention matrices."""


def risk_pair(*, prompts: int, rng: Any) -> dict[str, tuple[float, Estimate]]:
    """Closed-form error and Monte Carlo error of a random Gamma, on fresh and training tasks."""
    backend, generator = get_backend("numpy"), np.random.default_rng(rng)
    task_set = sample_tasks(backend, generator, TASKS, DIM, "sphere")
    gamma = generator.standard_normal((DIM, DIM + 1)) / DIM
    cases = {
        "fresh": (
            fresh_task_moments(backend, DIM, CONTEXT, RHO, "sphere"),
            sample_tasks(backend, generator, prompts, DIM, "sphere"),
        ),
        "training": (
            task_set_moments(backend, task_set, CONTEXT, RHO),
            task_set[generator.integers(0, TASKS, prompts)],
        ),
    }
    found = {}
    for name, (moments, truth) in cases.items():
        drawn = sample_prompts(backend, generator, truth, CONTEXT, RHO)
        squared = squared_errors(gamma, drawn.x_query, context_summary(drawn), drawn.y_query)
        found[name] = float(exact_error(gamma, moments)), Estimate.of(squared, keep=False)
    return found


def cells(preset: Preset) -> dict[Any, Cell]:
    """One cell per matrix; they differ by a prompt, and so in their seeds."""
    return {k + 1: Cell.of(risk_pair, prompts=PROMPTS[preset] + k) for k in range(MATRICES)}


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare both errors of every matrix."""
    comparisons = [
        compare(f"random Gamma {number}, {name} tasks", *pair, of="exact_error")
        for number, pairs in results.items()
        for name, pair in pairs.items()
    ]

    def draw(figure: Figure) -> None:
        (ax,) = panels(figure, 1, width=5.6, height=3.2)
        draw_ratios(ax, comparisons)
        finish(ax, "case", "Monte Carlo / closed form")

    return Verdict(comparisons, draw)


claim = Claim.of("test-error", __doc__, cells, judge, figure=False)
