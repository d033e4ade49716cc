"""Dampening of a recurrent layer: the critical factor is an extreme value.

Quantiles of the critical dampening factor of a set of Gaussian test tasks equal those of the
exact law.  In the papers' setting both published factors, one in use and one found to be the
largest that works, lie within the spread of the critical factor.  Losses of repeated layers at and
around the best factor equal the exact ones.

Source: {vonoswald2023} (0.75); {rossi2024}, Figure 13 (0.70); law derived in the documentation.
"""

from functools import cache
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import (
    critical_dampening,
    optimal_dampening,
    optimal_learning_rate,
    schedule_loss,
)
from iclimit.simulate.descent import simulate_critical_dampening, simulate_schedule
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.drawing import COLOURS, Figure, draw_estimates, finish, panels

SIZE: dict[str, Any] = {"context": 10, "dim": 10}
GAUSSIAN_RATE = float(optimal_learning_rate(**SIZE).rate)
UNIFORM = {"input_law": "uniform", "scale": 0.5}
"""U(-1/2, 1/2), of second moment 1/12 and fourth moment 1/80."""
UNIFORM_RATE = float(optimal_learning_rate(**SIZE, input_law=(1 / 12, 1 / 80)).rate)
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)
FEW, MANY = 500, 10_000
"""Test tasks: few enough for sharp quantiles, and as many as in the papers."""
CONTEXTS: dict[Preset, int] = {"quick": 500_000, "full": 8_000_000}
PUBLISHED = (0.75, 0.70)
"""Dampening factors of von Oswald et al. and of Rossi, Yuan and Hannagan."""
NORMAL_RANGE = 2.563
"""Standard deviations of a normal variable between its quantiles at 0.1 and 0.9."""
REPETITIONS, FACTORS = (2, 3), (1.0, 0.8, 1.2)
"""Repetitions whose loss is compared, at these multiples of the best factor."""
LOSS_CONTEXTS: dict[Preset, int] = {"quick": 100_000, "full": 2_000_000}
ROLL_OUT, ROLL_OUT_FACTORS = 50, tuple(np.linspace(0.4, 1.0, 25).round(3).tolist())


@cache
def best_factor(steps: int) -> float:
    """Dampening factor of least mean loss."""
    return optimal_dampening(steps=steps, **SIZE)


def rates(steps: int) -> tuple[tuple[float, ...], ...]:
    """Constant rates at and around the best factor."""
    best = best_factor(steps) * GAUSSIAN_RATE
    return tuple((factor * best,) * steps for factor in FACTORS)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Quantiles for both laws, a long roll-out, and losses by the number of repetitions."""
    contexts, more = CONTEXTS[preset], LOSS_CONTEXTS[preset]
    rolled = tuple((factor * UNIFORM_RATE,) * ROLL_OUT for factor in ROLL_OUT_FACTORS)
    laws: dict[str, dict[str, Any]] = {
        "uniform": {"rate": UNIFORM_RATE, "test_tasks": MANY, "contexts": contexts, **UNIFORM},
        "gaussian": {"rate": GAUSSIAN_RATE, "test_tasks": FEW, "contexts": contexts // 5},
    }
    found: dict[Any, Cell] = {
        law: Cell.of(simulate_critical_dampening, probability=QUANTILES, **SIZE, **setting)
        for law, setting in laws.items()
    }
    found["roll-out"] = Cell.of(simulate_schedule, rates=rolled, **SIZE, **UNIFORM, contexts=MANY)
    for steps in REPETITIONS:
        found[steps] = Cell.of(simulate_schedule, rates=rates(steps), **SIZE, contexts=more)
    return found


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare quantiles, published factors and losses."""
    gaussian, uniform = (results[law].quantiles for law in ("gaussian", "uniform"))
    exact = critical_dampening(QUANTILES, **SIZE, test_tasks=FEW)
    comparisons = [
        compare(f"critical factor of {FEW} tasks, Gaussian inputs, p={p:g}", theory, found)
        for p, theory, found in zip(QUANTILES, exact, gaussian, strict=True)
    ]
    median = uniform[QUANTILES.index(0.5)].mean
    spread = (uniform[-1].mean - uniform[0].mean) / NORMAL_RANGE
    comparisons += [
        Comparison(f"published factor {value:g}: one draw of the law", median, value, spread)
        for value in PUBLISHED
    ]
    for steps in REPETITIONS:
        theories = schedule_loss(np.array(rates(steps)), **SIZE)
        comparisons += [
            compare(f"loss of {steps} repetitions at {factor:g} of the best factor", theory, found)
            for factor, theory, found in zip(FACTORS, theories, results[steps].losses, strict=True)
        ]
    rolled = results["roll-out"]
    best_mean = ROLL_OUT_FACTORS[int(np.argmin([loss.mean for loss in rolled.losses]))]
    best_median = ROLL_OUT_FACTORS[int(np.argmin(rolled.medians))]

    def draw(figure: Figure) -> None:
        law, loss = panels(figure, height=3.6)
        probability = np.linspace(0.03, 0.97, 13)
        for tasks, colour in zip((100, FEW, MANY), COLOURS, strict=False):
            curve = critical_dampening(probability, **SIZE, test_tasks=tasks)
            law.plot(curve, probability, color=colour, label=f"Gaussian, {tasks:,} tasks")
        for found, colour, marker, label in (
            (gaussian, COLOURS[1], "o", None),
            (uniform, COLOURS[3], "s", f"uniform, {MANY:,} tasks"),
        ):
            means, errors = np.array([(q.mean, q.standard_error) for q in found]).T
            style: dict[str, Any] = {"fmt": marker, "markersize": 4, "capsize": 2}
            law.errorbar(means, QUANTILES, xerr=errors, color=colour, label=label, **style)
        loss.plot(ROLL_OUT_FACTORS, rolled.medians, color=COLOURS[0], label="median")
        draw_estimates(loss, ROLL_OUT_FACTORS, rolled.losses, COLOURS[1], label="mean")
        for ax in (law, loss):
            for value in PUBLISHED:
                ax.axvline(value, color="0.5", linestyle="--", linewidth=1)
        finish(law, r"critical dampening $\lambda_c$", "probability that it lies below")
        law.legend(fontsize=7.5)
        loss.set(ylim=(0.05, 20))
        title = f"{ROLL_OUT} repetitions, {MANY:,} tasks, U(-1/2, 1/2)"
        x, y = r"dampening $\lambda$", "loss / null predictor"
        finish(loss, x, y, title=title, log="y", legend="")

    notes = (
        f"U(-1/2, 1/2), N = d = 10, {MANY:,} tasks: critical factor {median:.3f} with a spread of "
        f"{spread:.3f} from one set of test tasks to another.",
        f"Over {ROLL_OUT} repetitions on {MANY:,} tasks the mean loss is least at "
        f"{best_mean:g}, the median at {best_median:g}; for Gaussian inputs the best factors for "
        f"{', '.join(map(str, REPETITIONS))} repetitions are "
        f"{', '.join(f'{best_factor(steps):.3f}' for steps in REPETITIONS)}.",
    )
    return Verdict(comparisons, draw, notes)


claim = Claim.of("gd-dampening", __doc__, cells, judge)
