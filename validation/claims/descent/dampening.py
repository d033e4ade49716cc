"""Dampening of a recurrent layer: the critical factor is an extreme value.

Quantiles of the critical dampening factor of sets of Gaussian test tasks equal those of the exact
law.  The factor that is best on simulated contexts, and the losses of repeated layers at and
around it, are the exact ones.  In the papers' setting both published factors, one in use and one
found to be the largest that works, lie within the spread of the critical factor.

Source: {vonoswald2023}, Figures 1 and 10 (0.75); {rossi2024}, Figure 13 (0.70); law derived in the
documentation.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from iclimit.asymptotics import descent
from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
from iclimit.drawing import COLOURS, Figure, draw_estimates, finish, panels, write_key
from iclimit.results import Estimate
from iclimit.simulate.descent import ContextLosses, simulate_critical_dampening, simulate_schedule
from iclimit.statement import Derived
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.descent.contexts import (
    best_rates,
    jackknife,
    mean_loss,
    mean_traces,
)
from iclimit.validation.rows import Later, Rows, call, drawing, mean, published, run

# Pairs and inputs, as in the papers.
SIZE: dict[str, Any] = {"context": 10, "dim": 10}
# Best rate of one step for Gaussian inputs.
GAUSSIAN_RATE = float(descent.optimal_learning_rate(**SIZE).rate)
# U(-1/2, 1/2), of second moment 1/12 and fourth moment 1/80.
UNIFORM = {"input_law": "uniform", "scale": 0.5}
# Best rate of one step for these inputs.
UNIFORM_RATE = float(descent.optimal_learning_rate(**SIZE, input_law=(1 / 12, 1 / 80)).rate)
# Quantiles of the critical factor that are compared.
QUANTILES = (0.25, 0.5, 0.75)
# Numbers of Gaussian test tasks, few enough for sharp quantiles.
TASKS = (10, 100, 500)
# Number of test tasks in the papers.
PUBLISHED_TASKS = 10_000
# Dampening factors of von Oswald et al. and of Rossi, Yuan and Hannagan.
PUBLISHED = (0.75, 0.70)
# Standard deviations of a normal variable between its quartiles.
NORMAL_RANGE = 1.349
# Numbers of repetitions whose loss is compared.
REPETITIONS = (2, 3)
# Multiples of the best factor at which losses are compared.
FACTORS = (1.0, 0.8, 1.2)
# Contexts longer than the dimension, whose labels are noisy.
WIDE = {"context": 16, "dim": 8}
# Noise of the labels in these contexts.
NOISE_RATIO = 0.3
# Repetitions of the roll-out that is drawn.
ROLL_OUT = 50
# Dampening factors of the roll-out.
ROLL_OUT_FACTORS = tuple(np.linspace(0.4, 1.0, 25).round(3).tolist())
# Contexts of the roll-out.
ROLL_OUT_CONTEXTS = 10_000


def rows(effort: Effort) -> Rows:
    """Quantiles, published factors and losses."""
    most = 2 * max(REPETITIONS)
    contexts = effort(100_000)
    yield from repetition_rows(run(mean_traces, **SIZE, most=most, contexts=contexts), SIZE, 0.0)
    traces = run(mean_traces, **WIDE, most=most, contexts=contexts // 4)
    yield from repetition_rows(traces, WIDE, NOISE_RATIO)
    contexts = effort.pick(quick=200_000, medium=1_000_000, full=6_000_000)
    blunt = effort.pick(quick=4, medium=1)
    quantiles: dict[Any, Later] = {}

    def simulated(rate: float, tasks: int, contexts: int, inputs: Mapping[str, Any]) -> Later:
        best = Derived(rate, "best rate of one step")
        setting = {"rate": best, "test_tasks": tasks, "contexts": contexts, **SIZE, **inputs}
        return run(simulate_critical_dampening, probability=QUANTILES, **setting).quantiles

    for tasks in TASKS:
        count = contexts // 2 // (1 if tasks == min(TASKS) else blunt)
        quantiles[tasks] = simulated(GAUSSIAN_RATE, tasks, count, {})
        exact = call(descent.critical_dampening, QUANTILES, **SIZE, test_tasks=tasks)
        for k, p in enumerate(QUANTILES):
            label = f"critical factor of {tasks} tasks, Gaussian inputs, p={p:g}"
            yield mean(label, exact[k], quantiles[tasks][k], draws=tasks)
    uniform = simulated(UNIFORM_RATE, PUBLISHED_TASKS, contexts, UNIFORM)
    quantiles["uniform"] = uniform
    for value in PUBLISHED:
        label = f"published factor {value:g}: one draw of the law"
        yield published(label, uniform[1].mean, call(one_draw, value, uniform), degrees=math.inf)
    schedules = tuple((factor * UNIFORM_RATE,) * ROLL_OUT for factor in ROLL_OUT_FACTORS)
    options = SIZE | UNIFORM | {"contexts": ROLL_OUT_CONTEXTS}
    stated = "best rate of one step times", ROLL_OUT_FACTORS, ROLL_OUT
    rolled = run(simulate_schedule, rates=Derived(schedules, stated), **options)
    yield drawing(draw, quantiles, rolled)


def one_draw(value: float, quantiles: Sequence[Estimate]) -> Estimate:
    """A published factor, with the spread from one set of test tasks to another."""
    return Estimate(value, (quantiles[-1].mean - quantiles[0].mean) / NORMAL_RANGE, 1)


def repetition_rows(traces: Later, size: Mapping[str, int], noise_ratio: float) -> Rows:
    """The best factor, and losses at and around it."""
    where = f", N = {size['context']}, noisy" if noise_ratio > 0 else ""
    law: dict[str, Any] = {**size, "noise_ratio": noise_ratio}
    noise_variance = noise_ratio * size["context"]
    one_step = call(descent.optimal_learning_rate, **size, noise_variance=noise_variance).rate
    for steps in REPETITIONS:
        label = f"best factor of {steps} repetitions{where}"
        estimate = call(factor_of_contexts, traces, steps, noise_ratio)
        factor = call(descent.optimal_dampening, steps=steps, **law)
        yield mean(label, factor, estimate, draws=("traces", where))
        for times in FACTORS:
            rates = call(repeated_rate, factor, times, steps, one_step)
            label = f"loss of {steps} repetitions at {times:g} of the best factor{where}"
            estimate = call(mean_loss, traces, rates, noise_ratio)
            theory = call(descent.schedule_loss, rates, **law)
            yield mean(label, theory, estimate, draws=("traces", where))


def repeated_rate(factor: float, times: float, steps: int, rate: float) -> list[float]:
    """The same rate for all steps, a multiple of that with the best factor."""
    return [times * factor * rate] * steps


def factor_of_contexts(traces: np.ndarray, steps: int, noise_ratio: float) -> Estimate:
    """Dampening factor that is best on contexts."""
    best = partial(best_rates, steps=steps, noise_ratio=noise_ratio, constant=True)
    near = best(np.mean(traces, axis=0))

    def factor(mean: np.ndarray) -> np.ndarray:
        one_step = mean[1] / (mean[2] + noise_ratio * mean[1])
        return best(mean, near=near) / one_step

    return jackknife(factor, traces)[0]


def draw(
    figure: Figure, quantiles: Mapping[Any, Sequence[Estimate]], rolled: ContextLosses
) -> None:
    """Draw the law of the critical factor, and losses of a roll-out."""
    law, loss = panels(figure, height=3.6)
    simulated = tuple(zip(TASKS, COLOURS, strict=False))
    grid = np.linspace(0.56, 1.2, 49)
    below = largest_eigenvalue_cdf(2 / (GAUSSIAN_RATE * grid), **SIZE)
    for tasks, colour in zip((*TASKS, PUBLISHED_TASKS), COLOURS, strict=False):
        curve = 1 - below**tasks
        law.plot(grid, curve, color=colour, label=f"Gaussian, {tasks:,} tasks")
    drawn: list[tuple[Any, ...]] = [
        (quantiles[tasks], colour, "o", None) for tasks, colour in simulated
    ]
    drawn.append((quantiles["uniform"], COLOURS[4], "s", f"uniform, {PUBLISHED_TASKS:,} tasks"))
    for estimates, colour, marker, label in drawn:
        means, errors = np.array([(q.mean, q.standard_error) for q in estimates]).T
        style: dict[str, Any] = {"fmt": marker, "markersize": 4, "capsize": 2}
        law.errorbar(means, QUANTILES, xerr=errors, color=colour, label=label, **style)
    loss.plot(ROLL_OUT_FACTORS, rolled.medians, color=COLOURS[0], label="median")
    draw_estimates(loss, ROLL_OUT_FACTORS, rolled.losses, COLOURS[1], label="mean")
    for ax in (law, loss):
        for value in PUBLISHED:
            ax.axvline(value, color="0.5", linestyle="--", linewidth=1)
    finish(law, r"critical dampening $\lambda_c$", "probability that it lies below", legend="")
    loss.set(ylim=(0.05, 20))
    title = f"{ROLL_OUT} repetitions, {ROLL_OUT_CONTEXTS:,} tasks, U(-1/2, 1/2)"
    x = r"dampening $\lambda$"
    y = "loss / null predictor"
    finish(loss, x, y, title=title, log="y", legend="")
    write_key(figure, "left: theory as lines, simulation as points; dashes: published")


claim = Claim.of("gd-dampening", __doc__, rows)
