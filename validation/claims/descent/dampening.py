"""Dampening of a recurrent gradient-descent layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import (
    critical_dampening,
    optimal_dampening,
    optimal_learning_rate,
    schedule_loss,
)
from iclimit.simulate.descent import simulate_critical_dampening, simulate_schedule
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.descent.learning_rates import BLOG, VON_OSWALD
from iclimit.validation.drawing import COLOURS, draw_points, log_scale

SIZE = {"context": 10, "dim": 10}
GAUSSIAN_RATE = float(optimal_learning_rate(context=10, dim=10).rate)
UNIFORM = {"input_law": "uniform", "scale": 0.5}
UNIFORM_RATE = float(
    optimal_learning_rate(context=10, dim=10, input_law=(1 / 12, 1 / 80)).rate  # U(-1/2, 1/2)
)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
FEW, MANY = 500, 10_000
"""Test tasks: few enough for sharp quantiles, and as many as in the papers."""
CONTEXTS: dict[Preset, int] = {"quick": 500_000, "full": 8_000_000}
PUBLISHED = {VON_OSWALD: 0.75, BLOG: 0.70}
REPETITIONS = (2, 3)
LOSS_CONTEXTS: dict[Preset, int] = {"quick": 100_000, "full": 2_000_000}
ROLL_OUT, FACTORS = 50, tuple(np.linspace(0.4, 1.0, 25).round(3).tolist())


def _gaussian(preset: Preset) -> Cell:
    return Cell.of(
        simulate_critical_dampening,
        probability=QUANTILES,
        rate=GAUSSIAN_RATE,
        **SIZE,
        test_tasks=FEW,
        contexts=CONTEXTS[preset] // 5,
    )


def _uniform(preset: Preset) -> Cell:
    return Cell.of(
        simulate_critical_dampening,
        probability=QUANTILES,
        rate=UNIFORM_RATE,
        **SIZE,
        **UNIFORM,
        test_tasks=MANY,
        contexts=CONTEXTS[preset],
    )


def _factor(steps: int) -> float:
    return optimal_dampening(steps=steps, **SIZE)


def _repeated(preset: Preset, steps: int) -> Cell:
    best = _factor(steps) * GAUSSIAN_RATE
    rates = tuple((factor * best,) * steps for factor in (1.0, 0.8, 1.2))
    return Cell.of(simulate_schedule, rates=rates, **SIZE, contexts=LOSS_CONTEXTS[preset])


def _roll_out() -> Cell:
    rates = tuple((factor * UNIFORM_RATE,) * ROLL_OUT for factor in FACTORS)
    return Cell.of(simulate_schedule, rates=rates, **SIZE, **UNIFORM, contexts=MANY)


def _cells(preset: Preset) -> list[Cell]:
    repeated = [_repeated(preset, steps) for steps in REPETITIONS]
    return [_uniform(preset), _gaussian(preset), _roll_out(), *repeated]


def _judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    gaussian, uniform = results[_gaussian(preset)], results[_uniform(preset)]
    exact = critical_dampening(QUANTILES, **SIZE, test_tasks=FEW)
    comparisons = [
        Comparison(
            f"critical factor of {FEW} tasks, Gaussian inputs, p={p:g}",
            exact[k],
            gaussian.quantiles[k].mean,
            gaussian.quantiles[k].standard_error,
        )
        for k, p in enumerate(QUANTILES)
    ]
    median = uniform.quantiles[QUANTILES.index(0.5)].mean
    # Between the quantiles at 0.1 and 0.9 a normal variable has 2.563 standard deviations.
    spread = (uniform.quantiles[-1].mean - uniform.quantiles[0].mean) / 2.563
    comparisons += [
        Comparison(f"published factor {value:g}: one draw of the law", median, value, spread)
        for value in PUBLISHED.values()
    ]
    for steps in REPETITIONS:
        run, best = results[_repeated(preset, steps)], _factor(steps) * GAUSSIAN_RATE
        for k, factor in enumerate((1.0, 0.8, 1.2)):
            theory = schedule_loss([factor * best] * steps, **SIZE)
            comparisons.append(
                Comparison(
                    f"loss of {steps} repetitions at {factor:g} of the best factor",
                    theory,
                    run.losses[k].mean,
                    run.losses[k].standard_error,
                )
            )
    rolled = results[_roll_out()]
    means = [loss.mean for loss in rolled.losses]
    best_mean = FACTORS[int(np.argmin(means))]
    best_median = FACTORS[int(np.argmin(rolled.medians))]

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.6)
        law, loss = figure.subplots(1, 2)
        probability = np.linspace(0.03, 0.97, 13)
        for tasks, colour in zip((100, FEW, MANY), COLOURS, strict=False):
            curve = critical_dampening(probability, **SIZE, test_tasks=tasks)
            law.plot(curve, probability, color=colour, label=f"Gaussian, {tasks:,} tasks")
        law.errorbar(
            [quantile.mean for quantile in gaussian.quantiles],
            QUANTILES,
            xerr=[quantile.standard_error for quantile in gaussian.quantiles],
            fmt="o",
            color=COLOURS[1],
            markersize=4,
            capsize=2,
        )
        law.errorbar(
            [quantile.mean for quantile in uniform.quantiles],
            QUANTILES,
            xerr=[quantile.standard_error for quantile in uniform.quantiles],
            fmt="s",
            color=COLOURS[3],
            markersize=4,
            capsize=2,
            label=f"uniform, {MANY:,} tasks",
        )
        for value in PUBLISHED.values():
            law.axvline(value, color="0.5", linestyle="--", linewidth=1)
        law.set(xlabel=r"critical dampening $\lambda_c$")
        law.set_ylabel("probability that it lies below")
        law.legend(fontsize=7.5)
        loss.plot(FACTORS, rolled.medians, color=COLOURS[0], label="median")
        errors = [loss.standard_error for loss in rolled.losses]
        draw_points(loss, FACTORS, means, errors, COLOURS[1], label="mean")
        for value in PUBLISHED.values():
            loss.axvline(value, color="0.5", linestyle="--", linewidth=1)
        loss.set(xlabel=r"dampening $\lambda$", ylabel="loss / null predictor", ylim=(0.05, 20))
        log_scale(loss, "y")
        loss.set_title(f"{ROLL_OUT} repetitions, {MANY:,} tasks, U(-1/2, 1/2)")
        loss.legend()

    notes = (
        f"U(-1/2, 1/2), N = d = 10, {MANY:,} tasks: critical factor {median:.3f} with a spread of "
        f"{spread:.3f} from one set of test tasks to another.",
        f"Over {ROLL_OUT} repetitions on {MANY:,} tasks the mean loss is least at "
        f"{best_mean:g}, the median at {best_median:g}; for Gaussian inputs the best factors for "
        f"{', '.join(map(str, REPETITIONS))} repetitions are "
        f"{', '.join(f'{_factor(steps):.3f}' for steps in REPETITIONS)}.",
    )
    return Verdict(tuple(comparisons), draw, notes)


dampening_claim = Claim(
    name="gd-dampening",
    title="Dampening of a recurrent layer: the critical factor is an extreme value",
    source=f"{VON_OSWALD} (0.75); {BLOG}, Figure 13 (0.70); law derived in the documentation",
    statement=(
        "Quantiles of the critical dampening factor of a set of Gaussian test tasks equal those "
        "of the exact law; in the papers' setting both published factors, one in use and one "
        "found to be the largest that works, lie within the spread of the critical factor; losses "
        "of repeated layers at and around the best factor equal the exact ones."
    ),
    cells=_cells,
    judge=_judge,
)
