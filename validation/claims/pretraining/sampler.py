"""Context summaries drawn from their exact law have the law of token-level ones.

Moments up to the fourth of summaries drawn in O(d) equal those of summaries computed from
tokens, and so do the errors of models trained on either.

Source: Bartlett decomposition of the 2 x 2 Gram matrix; derived in the documentation.
"""

from typing import Any

import numpy as np

from iclimit.drawing import Figure, draw_ratios, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining.attention import context_summary
from iclimit.simulate.pretraining.prompts import sample_prompts, sample_tasks
from iclimit.simulate.pretraining.summaries import sample_summaries
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare, compare_errors
from iclimit.validation.claims.pretraining.points import Point

DIM, CONTEXT, RHO = 6, 5, 0.3
PROMPTS: dict[Preset, int] = {"quick": 100_000, "medium": 1_000_000, "full": 2_000_000}
POINT, POINT_DIM = Point(tau=1.5, alpha=1, kappa=1, rho=0.2, ridge=0.01), 16
REPEATS: dict[Preset, int] = {"quick": 60, "medium": 400, "full": 4000}
SAMPLERS = ("summaries", "tokens")

FUNCTIONALS = {
    "along the task": lambda h, w: np.sum(h[:, :-1] * w, axis=1),
    "along the task, squared": lambda h, w: np.sum(h[:, :-1] * w, axis=1) ** 2,
    "squared norm": lambda h, _: np.sum(h[:, :-1] ** 2, axis=1),
    "squared norm, squared": lambda h, _: np.sum(h[:, :-1] ** 2, axis=1) ** 2,
    "label power": lambda h, _: h[:, -1],
    "label power, squared": lambda h, _: h[:, -1] ** 2,
    "label power times squared norm": lambda h, _: h[:, -1] * np.sum(h[:, :-1] ** 2, axis=1),
    "first coordinate, fourth power": lambda h, _: h[:, 0] ** 4,
}
"""Functions of summaries and tasks whose means are compared."""


def summary_sample(*, sampler: str, prompts: int, rng: Any) -> dict[str, Estimate]:
    """Means of functionals of the summaries, token by token or from the exact law."""
    backend, generator = get_backend("numpy"), np.random.default_rng(rng)
    tasks = sample_tasks(backend, generator, prompts, DIM, "gaussian")
    if sampler == "tokens":
        summaries = context_summary(sample_prompts(backend, generator, tasks, CONTEXT, RHO))
    else:
        summaries = sample_summaries(backend, generator, tasks, CONTEXT, RHO)
    return {
        name: Estimate.of(function(summaries, tasks), keep=False)
        for name, function in FUNCTIONALS.items()
    }


def cells(preset: Preset) -> dict[Any, Cell]:
    """Moments of the summaries, and errors of models trained on them, by sampler."""
    found = {}
    for sampler in SAMPLERS:
        moments = Cell.of(summary_sample, sampler=sampler, prompts=PROMPTS[preset])
        found["moments", sampler] = moments
        found["errors", sampler] = POINT.simulation(POINT_DIM, REPEATS[preset], sampler=sampler)
    return found


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the exact law with tokens."""
    fast, tokens = (results["moments", sampler] for sampler in SAMPLERS)
    comparisons = [
        compare(f"mean of {name}", tokens[name], fast[name], of=f"sample_summaries.{name}")
        for name in FUNCTIONALS
    ]
    fast, tokens = (results["errors", sampler] for sampler in SAMPLERS)
    comparisons += compare_errors(f"d={POINT_DIM} {POINT}", tokens, fast, of="simulate_errors")

    def draw(figure: Figure) -> None:
        (ax,) = panels(figure, 1, width=6.4, height=3.2)
        draw_ratios(ax, comparisons)
        finish(ax, "moment, then error", "exact law / tokens")

    return Verdict(comparisons, draw)


claim = Claim.of("sampler", __doc__, cells, judge, figure=False)
