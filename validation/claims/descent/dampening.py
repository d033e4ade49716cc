"""Dampening of a recurrent layer: the critical factor is an extreme value.

Quantiles of the critical dampening factor of sets of Gaussian test tasks equal those of the exact
law.  The factor that is best on simulated contexts, and the losses of repeated layers at and
around it, are the exact ones.  In the papers' setting both published factors, one in use and one
found to be the largest that works, lie within the spread of the critical factor.

Source: {vonoswald2023}, Figures 1 and 10 (0.75); {rossi2024}, Figure 13 (0.70); law derived in the
documentation.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import (
    critical_dampening,
    optimal_dampening,
    optimal_learning_rate,
    schedule_loss,
)
from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
from iclimit.drawing import COLOURS, Figure, draw_estimates, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.descent import simulate_critical_dampening, simulate_schedule
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.descent.contexts import (
    best_rates,
    jackknife,
    mean_loss,
    mean_traces,
)

SIZE: dict[str, Any] = {"context": 10, "dim": 10}
GAUSSIAN_RATE = float(optimal_learning_rate(**SIZE).rate)
UNIFORM = {"input_law": "uniform", "scale": 0.5}
"""U(-1/2, 1/2), of second moment 1/12 and fourth moment 1/80."""
UNIFORM_RATE = float(optimal_learning_rate(**SIZE, input_law=(1 / 12, 1 / 80)).rate)
QUANTILES = (0.25, 0.5, 0.75)
TASKS, PUBLISHED_TASKS = (10, 100, 500), 10_000
"""Test tasks: few enough for sharp quantiles, and as many as in the papers."""
CONTEXTS: dict[Preset, int] = {"quick": 200_000, "medium": 1_000_000, "full": 8_000_000}
"""For uniform inputs; half as many for each number of Gaussian test tasks."""
BLUNT: dict[Preset, int] = {"quick": 4, "medium": 1, "full": 1}
"""Divides them for more Gaussian test tasks than the fewest, whose quantiles are sharpest."""
PUBLISHED = (0.75, 0.70)
"""Dampening factors of von Oswald et al. and of Rossi, Yuan and Hannagan."""
NORMAL_RANGE = 1.349
"""Standard deviations of a normal variable between its quartiles."""
REPETITIONS, FACTORS = (2, 3), (1.0, 0.8, 1.2)
"""Repetitions whose loss is compared, at these multiples of the best factor."""
LOSS_CONTEXTS: dict[Preset, int] = {"quick": 100_000, "medium": 1_000_000, "full": 8_000_000}
ROLL_OUT, ROLL_OUT_FACTORS = 50, tuple(np.linspace(0.4, 1.0, 25).round(3).tolist())
ROLL_OUT_CONTEXTS = 10_000


@cache
def best_factor(steps: int) -> float:
    """Dampening factor of least mean loss."""
    return optimal_dampening(steps=steps, **SIZE)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Quantiles for both laws, a long roll-out, and traces of contexts."""
    rolled = tuple((factor * UNIFORM_RATE,) * ROLL_OUT for factor in ROLL_OUT_FACTORS)
    laws: dict[Any, dict[str, Any]] = {
        tasks: {
            "rate": GAUSSIAN_RATE,
            "test_tasks": tasks,
            "contexts": CONTEXTS[preset] // 2 // (1 if tasks == min(TASKS) else BLUNT[preset]),
        }
        for tasks in TASKS
    }
    laws["uniform"] = {
        "rate": UNIFORM_RATE,
        "test_tasks": PUBLISHED_TASKS,
        "contexts": CONTEXTS[preset],
        **UNIFORM,
    }
    found: dict[Any, Cell] = {
        law: Cell.of(simulate_critical_dampening, probability=QUANTILES, **SIZE, **setting)
        for law, setting in laws.items()
    }
    found["roll-out"] = Cell.of(
        simulate_schedule, rates=rolled, **SIZE, **UNIFORM, contexts=ROLL_OUT_CONTEXTS
    )
    most = 2 * max(REPETITIONS)
    found["traces"] = Cell.of(mean_traces, **SIZE, most=most, contexts=LOSS_CONTEXTS[preset])
    return found


def compare_repetitions(traces: np.ndarray) -> list[Comparison]:
    """Compare the best factor, and losses at and around it."""
    comparisons = []
    for steps in REPETITIONS:
        repeated = partial(best_rates, steps=steps, noise_ratio=0.0, constant=True)
        repeated = partial(repeated, near=repeated(np.mean(traces, axis=0)))

        def factor(mean: np.ndarray, best: Callable[..., np.ndarray] = repeated) -> np.ndarray:
            return best(mean) * mean[2] / mean[1]  # one step alone is best at tr H / tr H^2

        (best,), rate = jackknife(factor, traces), best_factor(steps) * GAUSSIAN_RATE
        label, of = f"best factor of {steps} repetitions", "optimal_dampening"
        comparisons.append(compare(label, best_factor(steps), best, of=of, draws="traces"))
        comparisons += [
            compare(
                f"loss of {steps} repetitions at {times:g} of the best factor",
                schedule_loss([times * rate] * steps, **SIZE),
                Estimate.of(mean_loss(traces, [times * rate] * steps, 0.0)),
                of="schedule_loss",
                draws="traces",
            )
            for times in FACTORS
        ]
    return comparisons


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare quantiles, published factors and losses."""
    comparisons = compare_repetitions(results["traces"])
    for tasks in TASKS:
        exact = critical_dampening(QUANTILES, **SIZE, test_tasks=tasks)
        comparisons += [
            compare(
                f"critical factor of {tasks} tasks, Gaussian inputs, p={p:g}",
                theory,
                found,
                of="critical_dampening",
                draws=tasks,
            )
            for p, theory, found in zip(QUANTILES, exact, results[tasks].quantiles, strict=True)
        ]
    uniform = results["uniform"].quantiles
    median = uniform[QUANTILES.index(0.5)].mean
    spread = (uniform[-1].mean - uniform[0].mean) / NORMAL_RANGE
    comparisons += [
        Comparison(f"published factor {value:g}: one draw of the law", median, value, spread)
        for value in PUBLISHED
    ]
    rolled = results["roll-out"]
    best_mean = ROLL_OUT_FACTORS[int(np.argmin([loss.mean for loss in rolled.losses]))]
    best_median = ROLL_OUT_FACTORS[int(np.argmin(rolled.medians))]

    def draw(figure: Figure) -> None:
        law, loss = panels(figure, height=3.6)
        simulated = tuple(zip(TASKS, COLOURS, strict=False))
        grid = np.linspace(0.56, 1.2, 49)
        below = largest_eigenvalue_cdf(2 / (GAUSSIAN_RATE * grid), **SIZE)
        for tasks, colour in zip((*TASKS, PUBLISHED_TASKS), COLOURS, strict=False):
            curve = 1 - below**tasks
            law.plot(grid, curve, color=colour, label=f"Gaussian, {tasks:,} tasks")
        drawn: list[tuple[Any, ...]] = [
            (results[tasks].quantiles, colour, "o", None) for tasks, colour in simulated
        ]
        drawn.append((uniform, COLOURS[4], "s", f"uniform, {PUBLISHED_TASKS:,} tasks"))
        for found, colour, marker, label in drawn:
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
        title = f"{ROLL_OUT} repetitions, {ROLL_OUT_CONTEXTS:,} tasks, U(-1/2, 1/2)"
        x, y = r"dampening $\lambda$", "loss / null predictor"
        finish(loss, x, y, title=title, log="y", legend="")

    notes = (
        f"U(-1/2, 1/2), N = d = 10, {PUBLISHED_TASKS:,} tasks: critical factor {median:.3f} with "
        f"a spread of {spread:.3f} from one set of test tasks to another.",
        f"Over {ROLL_OUT} repetitions on {ROLL_OUT_CONTEXTS:,} tasks the mean loss is least at "
        f"{best_mean:g}, the median at {best_median:g}; for Gaussian inputs the best factors for "
        f"{', '.join(map(str, REPETITIONS))} repetitions are "
        f"{', '.join(f'{best_factor(steps):.3f}' for steps in REPETITIONS)}.",
    )
    return Verdict(comparisons, draw, notes)


claim = Claim.of("gd-dampening", __doc__, cells, judge)
