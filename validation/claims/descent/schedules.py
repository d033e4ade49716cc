"""Multi-step gradient descent: schedules, divergence and dampening."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtri

from iclimit.asymptotics.descent import (
    chebyshev_schedule,
    constant_schedule,
    divergence_rate,
    optimal_schedule,
    schedule_loss,
)
from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent import simulate_schedule
from iclimit.simulate.descent.regression import Regression
from iclimit.simulate.descent.schedules import largest_eigenvalues
from iclimit.simulate.descent.steps import descend
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.drawing import COLOURS, draw_points, log_scale
from iclimit.validation.statistics import extrapolate

RATIO = 0.5
SIZE = {"context": 20, "dim": 10}
STEPS = (1, 2, 3)
NOISES = (0.0, 0.05)
CONTEXTS: dict[Preset, int] = {"quick": 60_000, "full": 4_000_000}
METHODS = {
    "optimal": optimal_schedule,
    "constant": constant_schedule,
    "chebyshev": chebyshev_schedule,
}
LIMIT_STEPS, LIMIT_NOISE = 3, 0.05
LIMIT_CONTEXTS = {24: 10_000, 48: 2_500, 96: 600, 192: 150}
"""Contexts at each dimension in the quick preset: the spread of the loss falls as 1/d."""
MORE: dict[Preset, int] = {"quick": 1, "full": 40}
TOKEN_TASKS: dict[Preset, int] = {"quick": 20_000, "full": 400_000}


@lru_cache
def _schedules(steps: int, noise: float) -> dict[str, Any]:
    """Rates compared at finite size; those of the limit are not optimal there."""
    rates = {
        name: method(steps=steps, **SIZE, noise_ratio=noise).rates
        for name, method in METHODS.items()
    }
    return rates | {"limit": optimal_schedule(steps=steps, ratio=RATIO, noise_ratio=noise).rates}


def _tuples(rates: dict[str, np.ndarray]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(row.tolist()) for row in rates.values())


def _finite(preset: Preset, steps: int, noise: float) -> Cell:
    return Cell.of(
        simulate_schedule,
        rates=_tuples(_schedules(steps, noise)),
        **SIZE,
        noise_ratio=noise,
        contexts=CONTEXTS[preset],
    )


def _limit_rates() -> dict[str, np.ndarray]:
    return {
        name: method(steps=LIMIT_STEPS, ratio=RATIO, noise_ratio=LIMIT_NOISE).rates
        for name, method in METHODS.items()
    }


def _at_size(preset: Preset, dim: int) -> Cell:
    return Cell.of(
        simulate_schedule,
        rates=_tuples(_limit_rates()),
        context=round(dim / RATIO),
        dim=dim,
        noise_ratio=LIMIT_NOISE,
        contexts=MORE[preset] * LIMIT_CONTEXTS[dim],
    )


def token_loss(
    *,
    rates: tuple[float, ...],
    context: int,
    dim: int,
    noise: float,
    tasks: int,
    rng: Any,
    backend: str = "numpy",
) -> tuple[float, float]:
    """Relative squared error of the weights of gradient descent on tokens, with its s.e."""
    place, problem = get_backend(backend), Regression(context, dim, noise_variance=noise * context)
    generator = place.generator(rng)
    truth = problem.sample_tasks(place, generator, tasks)
    weights = descend(problem.prompts(place, generator, truth), rates)
    errors = place.xp.mean((weights - truth) ** 2, axis=1)
    spread = float(place.xp.std(errors, correction=1)) / math.sqrt(tasks)
    return float(place.xp.mean(errors)), spread


def _tokens(preset: Preset) -> Cell:
    rates = tuple(_schedules(3, NOISES[1])["optimal"].tolist())
    return Cell.of(token_loss, rates=rates, **SIZE, noise=NOISES[1], tasks=TOKEN_TASKS[preset])


def _schedule_cells(preset: Preset) -> list[Cell]:
    return [
        *(_finite(preset, steps, noise) for steps in STEPS for noise in NOISES),
        *(_at_size(preset, dim) for dim in LIMIT_CONTEXTS),
        _tokens(preset),
    ]


def _judge_schedules(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = []
    for steps in STEPS:
        for noise in NOISES:
            run = results[_finite(preset, steps, noise)]
            rates = _schedules(steps, noise)
            exact = schedule_loss(np.array(list(rates.values())), **SIZE, noise_ratio=noise)
            where = f"L={steps} v={noise:g}"
            for k, name in enumerate(rates):
                comparisons.append(
                    Comparison(
                        f"{name} rates, {where}",
                        exact[k],
                        run.losses[k].mean,
                        run.losses[k].standard_error,
                    )
                )
                if steps > 1 and name != "optimal":
                    gain = Estimate.of(run.losses[k].samples - run.loss.samples)
                    comparisons.append(
                        Comparison(
                            f"advantage over {name} rates, {where}",
                            exact[k] - exact[0],
                            gain.mean,
                            gain.standard_error,
                        )
                    )
    mean, error = results[_tokens(preset)]
    best = optimal_schedule(steps=3, **SIZE, noise_ratio=NOISES[1])
    comparisons.append(
        Comparison(f"optimal rates on tokens, L=3 v={NOISES[1]:g}", best.loss, mean, error)
    )
    runs = [results[_at_size(preset, dim)] for dim in LIMIT_CONTEXTS]
    fit = extrapolate(
        list(LIMIT_CONTEXTS),
        np.array([[loss.mean for loss in run.losses] for run in runs]),
        np.array(
            [np.cov([loss.samples for loss in run.losses]) / run.loss.repeats for run in runs]
        ),
    )
    # A fit that is wrong at this order would make its error bar meaningless.
    bad = max(-float(ndtri(fit.p_value)), 0.0)
    comparisons.append(Comparison("chi-square of the fit in 1/d", 0.0, bad, 1.0))
    limit = {
        name: float(schedule_loss(rates, ratio=RATIO, noise_ratio=LIMIT_NOISE))
        for name, rates in _limit_rates().items()
    }
    comparisons += [
        Comparison(
            f"{name} rates, L={LIMIT_STEPS} v={LIMIT_NOISE:g}, d to infinity",
            theory,
            fit.value[k],
            fit.standard_error[k],
        )
        for k, (name, theory) in enumerate(limit.items())
    ]

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.8)
        finite, large = figure.subplots(1, 2)
        labels = {
            "optimal": "optimal",
            "constant": "best constant",
            "chebyshev": "Chebyshev",
            "limit": "optimal in the limit",
        }
        steps = np.arange(1, 9)
        for k, (name, label) in enumerate(labels.items()):
            curve = [schedule_loss(_schedules(int(L), 0.0)[name], **SIZE) for L in steps]
            finite.plot(steps, curve, color=COLOURS[k], label=label)
            points = [results[_finite(preset, L, 0.0)] for L in STEPS]
            draw_points(
                finite,
                STEPS,
                [p.losses[k].mean for p in points],
                [p.losses[k].standard_error for p in points],
                COLOURS[k],
            )
        finite.set(ylim=(3e-3, 3), xlabel="steps $L$", ylabel="loss / null predictor")
        log_scale(finite, "y")
        finite.set_title("$N = 20,\\ d = 10$, no noise")
        finite.legend()
        inverse = 1 / np.array(list(LIMIT_CONTEXTS))
        fine = np.linspace(0.001, 1.05 * inverse.max(), 50)
        for k, (name, theory) in enumerate(limit.items()):
            draw_points(
                large,
                inverse,
                [run.losses[k].mean for run in runs],
                [run.losses[k].standard_error for run in runs],
                COLOURS[k],
                label=labels[name],
            )
            large.plot(fine, fit.curve(1 / fine)[:, k], ":", color=COLOURS[k], linewidth=1)
            large.plot(0, theory, "*", color=COLOURS[k], markersize=11, clip_on=False)
        large.set_xlim(left=0)
        large.set(xlabel="$1/d$", ylabel="loss / null predictor")
        large.set_title(f"$d/N = {RATIO:g},\\ L = {LIMIT_STEPS},\\ v = {LIMIT_NOISE:g}$")
        large.legend()

    notes = (
        f"Limit: polynomial of order {fit.order} in 1/d, p = {fit.p_value:.2f}.",
        "More than 3 steps are not compared at d = 10: contexts too rare to be drawn carry part "
        "of the mean there, and z would be biased and too wide.",
    )
    return Verdict(tuple(comparisons), draw, notes)


schedules_claim = Claim(
    name="gd-schedules",
    title="Multi-step gradient descent: losses and optimal learning-rate schedules",
    source=(
        "Exact Wishart moments and Marchenko-Pastur limit, derived in the documentation; limit "
        "without noise: polynomials of Pedregosa and Scieur, ICML 2020, arXiv:2002.04756"
    ),
    statement=(
        "At N = 20, d = 10 simulated losses of optimal, best constant and Chebyshev rates equal "
        "the exact ones for one to three steps, with and without noise, the optimal ones win by "
        "as much as predicted, and losses extrapolated to infinite size equal the limit."
    ),
    cells=_schedule_cells,
    judge=_judge_schedules,
)

DIVERGENCE_SIZES = (10, 20, 40)
DIVERGENCE_RATES = (0.5, 0.6, 0.65, 0.7, 0.8)
DIVERGENCE_CONTEXTS: dict[Preset, int] = {"quick": 40_000, "full": 1_000_000}
FIXED_RATE, LONG = 0.5, 20
MEANS = (2, 3)


def _top(preset: Preset, dim: int) -> Cell:
    return Cell.of(
        largest_eigenvalues,
        context=round(dim / RATIO),
        dim=dim,
        contexts=DIVERGENCE_CONTEXTS[preset] // (dim // 10) ** 2,
    )


def _fixed(preset: Preset, steps: int) -> Cell:
    contexts = CONTEXTS[preset] if steps in MEANS else CONTEXTS[preset] // 5
    return Cell.of(simulate_schedule, rates=(FIXED_RATE,) * steps, **SIZE, contexts=contexts)


def _divergence_cells(preset: Preset) -> list[Cell]:
    return [
        *(_top(preset, dim) for dim in DIVERGENCE_SIZES),
        *(_fixed(preset, steps) for steps in (*MEANS, 8, 12, 16, LONG)),
    ]


def _judge_divergence(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = []
    exact: dict[int, np.ndarray] = {}
    seen: dict[int, np.ndarray] = {}
    for dim in DIVERGENCE_SIZES:
        points = 2 / np.array(DIVERGENCE_RATES)
        exact[dim] = 1 - largest_eigenvalue_cdf(points, context=round(dim / RATIO), dim=dim)
        top = results[_top(preset, dim)]
        seen[dim] = np.mean(top[:, None] > points, axis=0)
        error = np.sqrt(exact[dim] * (1 - exact[dim]) / len(top))
        comparisons += [
            Comparison(
                f"fraction diverging at rate {rate:g}, d={dim}",
                exact[dim][k],
                seen[dim][k],
                error[k],
            )
            for k, rate in enumerate(DIVERGENCE_RATES)
            if min(exact[dim][k], 1 - exact[dim][k]) * len(top) > EXPECTED_FEWEST
        ]
    for steps in MEANS:
        run = results[_fixed(preset, steps)]
        theory = schedule_loss([FIXED_RATE] * steps, **SIZE)
        comparisons.append(
            Comparison(
                f"mean loss of {steps} steps at rate {FIXED_RATE:g}, d=10",
                theory,
                run.loss.mean,
                run.loss.standard_error,
            )
        )

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.6)
        share, steps_ax = figure.subplots(1, 2)
        grid = np.linspace(0.45, 0.95, 17)
        for dim, colour in zip(DIVERGENCE_SIZES, COLOURS, strict=False):
            curve = 1 - largest_eigenvalue_cdf(2 / grid, context=round(dim / RATIO), dim=dim)
            share.plot(grid, curve, color=colour, label=f"d = {dim}")
            top = results[_top(preset, dim)]
            error = np.sqrt(seen[dim] * (1 - seen[dim]) / len(top))
            draw_points(share, DIVERGENCE_RATES, seen[dim], error, colour)
        share.axvline(divergence_rate(RATIO), color="0.4", linestyle="--", linewidth=1)
        share.set(xlabel="constant rate", ylabel="fraction of contexts that diverge")
        share.legend(title="$d/N = 0.5$; dashed: limit")
        steps = np.arange(1, LONG + 1)
        means = [schedule_loss([FIXED_RATE] * int(L), **SIZE) for L in steps]
        limit = [schedule_loss([FIXED_RATE] * int(L), ratio=RATIO) for L in steps]
        steps_ax.plot(steps, means, color=COLOURS[0], label="exact mean, d = 10")
        steps_ax.plot(steps, limit, color=COLOURS[1], label="limit")
        drawn = (*MEANS, 8, 12, 16, LONG)
        medians = [results[_fixed(preset, L)].medians for L in drawn]
        steps_ax.plot(drawn, medians, "s", color=COLOURS[2], label="simulated median", ms=4)
        averages = [results[_fixed(preset, L)].loss.mean for L in drawn]
        steps_ax.plot(drawn, averages, "o", color=COLOURS[0], label="simulated mean", ms=4)
        steps_ax.set(xlabel="steps $L$", ylabel="loss / null predictor")
        log_scale(steps_ax, "y")
        steps_ax.set_title(f"constant rate {FIXED_RATE:g}")
        steps_ax.legend()

    run = results[_fixed(preset, LONG)]
    notes = (
        f"After {LONG} steps at rate {FIXED_RATE:g}, below the threshold "
        f"{float(divergence_rate(RATIO)):.4f} of the limit, the exact mean loss at d = 10 is "
        f"{float(schedule_loss([FIXED_RATE] * LONG, **SIZE)):.3g}, the mean of "
        f"{run.loss.repeats:,} contexts {run.loss.mean:.3g}, the median {run.medians[0]:.3g}: rare "
        "contexts carry the mean.",
    )
    return Verdict(tuple(comparisons), draw, notes)


EXPECTED_FEWEST = 20
"""Fewest contexts expected on either side for a fraction to be compared as a normal variable."""

divergence_claim = Claim(
    name="gd-divergence",
    title="Where gradient descent with a constant rate diverges",
    source="Largest Wishart eigenvalue: Chiani, J. Multivariate Anal. 129 (2014); documentation",
    statement=(
        "The fraction of contexts on which a constant rate diverges is that of the exact law of "
        "the largest Wishart eigenvalue, a step at the limit's threshold smeared by the finite "
        "dimension; mean losses of few steps equal the exact ones."
    ),
    cells=_divergence_cells,
    judge=_judge_divergence,
)
