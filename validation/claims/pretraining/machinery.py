"""The simulator against its own references: sampling law, solver, closed-form test error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from iclimit.simulate.arrays import get_backend
from iclimit.simulate.pretraining import risk
from iclimit.simulate.pretraining.attention import context_summary, features
from iclimit.simulate.pretraining.prompts import sample_prompts, sample_tasks
from iclimit.simulate.pretraining.ridge import solve_ridge
from iclimit.simulate.pretraining.summaries import (
    fresh_task_moments,
    sample_summaries,
    task_set_moments,
)
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.drawing import COLOURS

SUMMARY_SIZES = {"d": 6, "context": 5, "rho": 0.3}
PROMPTS: dict[Preset, int] = {"quick": 100_000, "full": 2_000_000}
PAIRED = Point(tau=1.5, alpha=1, kappa=1, rho=0.2, ridge=0.01)
PAIRED_SIZE = 16
PAIRED_REPEATS: dict[Preset, int] = {"quick": 60, "full": 1000}
SOLVER_CASES = tuple(
    (prompts, ridge) for prompts in (80, 140, 180, 400) for ridge in (0.0, 1e-6, 0.1)
)
"""Below, near and above d (d + 1) = 156 prompts."""
SOLVER_TOLERANCE = 1e-6
"""Relative difference of Gamma; the solver stops at a residual of 1e-8, and the worst condition
number among the cases is of order 100."""

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


def summary_sample(*, sampler: str, prompts: int, rng: Any) -> dict[str, tuple[float, float]]:
    """Mean and standard error of functionals of the summaries, token by token or from the law."""
    place, (d, context, rho) = get_backend("numpy"), SUMMARY_SIZES.values()
    generator = np.random.default_rng(rng)
    tasks = sample_tasks(place, generator, prompts, int(d), "gaussian")
    if sampler == "tokens":
        drawn = sample_prompts(place, generator, tasks, int(context), rho)
        summaries = context_summary(drawn)
    else:
        summaries = sample_summaries(place, generator, tasks, int(context), rho)
    values = {name: function(summaries, tasks) for name, function in FUNCTIONALS.items()}
    return {
        name: (float(np.mean(v)), float(np.std(v) / math.sqrt(prompts)))
        for name, v in values.items()
    }


def _sampler_cells(preset: Preset) -> list[Cell]:
    return [
        *(
            Cell.of(summary_sample, sampler=sampler, prompts=PROMPTS[preset])
            for sampler in ("summaries", "tokens")
        ),
        *(
            PAIRED.cell(PAIRED_SIZE, PAIRED_REPEATS[preset], sampler=sampler)
            for sampler in ("summaries", "tokens")
        ),
    ]


def _judge_sampler(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    fast, token, fast_run, token_run = (results[cell] for cell in _sampler_cells(preset))
    comparisons = [
        Comparison(
            f"mean of {name}",
            token[name][0],
            fast[name][0],
            math.hypot(token[name][1], fast[name][1]),
        )
        for name in FUNCTIONALS
    ]
    for name in ("icl", "idg"):
        tokens, fast_error = getattr(token_run, name), getattr(fast_run, name)
        comparisons.append(
            Comparison(
                f"{name.upper()} d={PAIRED_SIZE} {PAIRED}",
                tokens.mean,
                fast_error.mean,
                math.hypot(tokens.standard_error, fast_error.standard_error),
            )
        )

    def draw(figure: Any) -> None:
        figure.set_size_inches(6.4, 3.2)
        ax = figure.subplots()
        for row, comparison in enumerate(comparisons):
            ax.plot(comparison.z, row, "o", color=COLOURS[0])
        ax.axvspan(-1, 1, color="0.9", zorder=0)
        ax.set_yticks(range(len(comparisons)), [c.label for c in comparisons], fontsize=7)
        ax.set_xlabel("z of exact-law sampler against tokens")
        ax.set_xlim(-4.5, 4.5)

    return Verdict(tuple(comparisons), draw)


sampler_claim = Claim(
    name="sampler",
    title="Context summaries drawn from their exact law have the law of token-level ones",
    source="Bartlett decomposition of the 2 x 2 Gram matrix; derived in the documentation",
    statement=(
        "Moments up to the fourth of summaries drawn in O(d) equal those of summaries computed "
        "from tokens, and so do the errors of models trained on either."
    ),
    cells=_sampler_cells,
    judge=_judge_sampler,
    figure=False,
)


def solver_difference(*, prompts: int, ridge: float, rng: Any) -> float:
    """Relative difference of Gamma from the structured solver and from dense least squares."""
    d = 12
    place, generator = get_backend("numpy"), np.random.default_rng(rng)
    tasks = sample_tasks(place, generator, prompts, d, "sphere")
    drawn = sample_prompts(place, generator, tasks, 2 * d, 0.1)
    summary = context_summary(drawn)
    matrix = features(drawn.x_query, summary).reshape(prompts, -1)
    penalty = math.sqrt(prompts / d * ridge) * np.eye(d * (d + 1))
    stacked = np.vstack([matrix, penalty]) if ridge else matrix
    target = np.concatenate([drawn.y_query, np.zeros(len(stacked) - prompts)])
    dense = np.linalg.lstsq(stacked, target, rcond=1e-13)[0]
    methods = ["dual-cg"] if prompts < d * (d + 1) else ["primal-cg"]
    differences = [
        np.max(
            abs(
                solve_ridge(
                    drawn.x_query, summary, drawn.y_query, ridge, method=m, tolerance=1e-10
                ).gamma.ravel()
                - dense
            )
        )
        for m in ["auto", *methods]
    ]
    return float(max(differences) / np.max(abs(dense)))


def _solver_cells(preset: Preset) -> list[Cell]:  # noqa: ARG001
    return [Cell.of(solver_difference, prompts=n, ridge=ridge) for n, ridge in SOLVER_CASES]


def _judge_solver(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    differences = [results[cell] for cell in _solver_cells(preset)]
    comparisons = tuple(
        Comparison(f"Gamma at n={n} ridge={ridge:g}", 0.0, difference, 0.0, SOLVER_TOLERANCE)
        for (n, ridge), difference in zip(SOLVER_CASES, differences, strict=True)
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(5.6, 3.2)
        ax = figure.subplots()
        for ridge, colour in zip((0.0, 1e-6, 0.1), COLOURS, strict=False):
            pairs = [
                (n, difference)
                for (n, r), difference in zip(SOLVER_CASES, differences, strict=True)
                if r == ridge
            ]
            ax.semilogy(
                *zip(*pairs, strict=True), "o-", color=colour, label=rf"$\lambda$ = {ridge:g}"
            )
        ax.axhline(SOLVER_TOLERANCE, color="0.4", linestyle="--", label="tolerance")
        ax.axvline(156, color="0.8", zorder=0)
        ax.set_xlabel("prompts n (threshold d(d+1) = 156)")
        ax.set_ylabel(r"relative difference of $\Gamma$")
        ax.legend()

    return Verdict(comparisons, draw)


solver_claim = Claim(
    name="solver",
    title="Gamma from the structured solver equals dense least squares",
    source="Khatri-Rao structure of the features; see iclimit.simulate.pretraining.ridge",
    statement=(
        "The attention matrix found without forming the features, directly and by conjugate "
        "gradients, equals the solution of the explicit d (d + 1)-dimensional least-squares "
        f"problem to {SOLVER_TOLERANCE:g}, ridgeless and with ridge, below and above threshold."
    ),
    cells=_solver_cells,
    judge=_judge_solver,
    figure=False,
)

RISK_SIZES = {"d": 10, "context": 8, "tasks": 5, "rho": 0.2}


def risk_pair(*, prompts: int, rng: Any) -> dict[str, tuple[float, float, float]]:
    """Closed-form error, Monte Carlo error and its standard error, fresh and training tasks."""
    place, generator = get_backend("numpy"), np.random.default_rng(rng)
    d, context, count, rho = (int(v) if v >= 1 else v for v in RISK_SIZES.values())
    task_set = sample_tasks(place, generator, int(count), int(d), "sphere")
    gamma = generator.standard_normal((int(d), int(d) + 1)) / d
    moments = {
        "fresh": fresh_task_moments(place, int(d), int(context), rho, "sphere"),
        "training": task_set_moments(place, task_set, int(context), rho),
    }
    truths = {
        "fresh": sample_tasks(place, generator, prompts, int(d), "sphere"),
        "training": task_set[generator.integers(0, int(count), prompts)],
    }
    outcome = {}
    for name, truth in truths.items():
        drawn = sample_prompts(place, generator, truth, int(context), rho)
        squared = risk.squared_errors(gamma, drawn.x_query, context_summary(drawn), drawn.y_query)
        outcome[name] = (
            float(risk.exact_error(gamma, moments[name])),
            float(np.mean(squared)),
            float(np.std(squared) / math.sqrt(prompts)),
        )
    return outcome


RISK_REPEATS = 6


def _risk_cells(preset: Preset) -> list[Cell]:
    return [Cell.of(risk_pair, prompts=PROMPTS[preset] // 4 + i) for i in range(RISK_REPEATS)]


def _judge_risk(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = [
        Comparison(f"random Gamma {number + 1}, {name} tasks", *results[cell][name])
        for number, cell in enumerate(_risk_cells(preset))
        for name in ("fresh", "training")
    ]

    def draw(figure: Any) -> None:
        figure.set_size_inches(5.6, 3.2)
        ax = figure.subplots()
        ratio = [c.estimate / c.theory for c in comparisons]
        errors = [c.standard_error / c.theory for c in comparisons]
        ax.errorbar(range(len(ratio)), ratio, yerr=errors, fmt="o", color=COLOURS[0], capsize=2)
        ax.axhline(1, color="0.4")
        ax.set_xlabel("case")
        ax.set_ylabel("Monte Carlo / closed form")

    return Verdict(tuple(comparisons), draw)


risk_claim = Claim(
    name="test-error",
    title="Closed-form test error of a given Gamma equals Monte Carlo over tokens",
    source="Moments of the context summary at finite context length; derived in the documentation",
    statement=(
        "The test error of random attention matrices from exact moments equals the mean squared "
        "error over token-level prompts, for fresh and for training tasks."
    ),
    cells=_risk_cells,
    judge=_judge_risk,
    figure=False,
)
