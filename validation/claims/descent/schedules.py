"""Multi-step gradient descent: losses and optimal learning-rate schedules.

At N = 20, d = 10 simulated losses of optimal, best constant and Chebyshev rates equal the exact
ones for one to three steps, with and without noise.  The optimal rates win by as much as
predicted.  Losses extrapolated to infinite size equal the limit.

Source: Exact Wishart moments and Marchenko-Pastur limit, derived in the documentation; limit
without noise: polynomials of Pedregosa and Scieur, ICML 2020, arXiv:2002.04756.
"""

from functools import cache
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import (
    chebyshev_schedule,
    constant_schedule,
    optimal_schedule,
    schedule_loss,
)
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend, to_host
from iclimit.simulate.descent import Regression, simulate_schedule
from iclimit.simulate.descent.regression import descend
from iclimit.validation import (
    Cell,
    Claim,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    compare_p_value,
    difference,
    extrapolate_runs,
)
from iclimit.validation.drawing import COLOURS, Figure, draw_family, draw_sizes, finish, panels

RATIO = 0.5
SIZE = {"context": 20, "dim": 10}
STEPS, NOISES = (1, 2, 3), (0.0, 0.05)
CONTEXTS: dict[Preset, int] = {"quick": 60_000, "full": 4_000_000}
METHODS = {
    "optimal": optimal_schedule,
    "constant": constant_schedule,
    "chebyshev": chebyshev_schedule,
}
LABELS = {
    "optimal": "optimal",
    "constant": "best constant",
    "chebyshev": "Chebyshev",
    "limit": "optimal in the limit",
}
LIMIT_STEPS, LIMIT_NOISE = 3, 0.05
LIMIT_CONTEXTS = {24: 10_000, 48: 2_500, 96: 600, 192: 150}
"""Contexts at each dimension in the quick preset: the spread of the loss falls as 1/d."""
MORE: dict[Preset, int] = {"quick": 1, "full": 40}
"""Factor of these contexts."""
TOKEN_TASKS: dict[Preset, int] = {"quick": 20_000, "full": 400_000}

Rates = dict[str, tuple[float, ...]]


def rates_of(steps: int, noise: float, **where: Any) -> Rates:
    """Rates of all methods, at a finite size or in the limit."""
    setting = {"steps": steps, "noise_ratio": noise, **where}
    return {name: tuple(method(**setting).rates.tolist()) for name, method in METHODS.items()}


@cache
def finite_rates(steps: int, noise: float) -> Rates:
    """Rates compared at finite size; those of the limit are not optimal there."""
    limit = optimal_schedule(steps=steps, ratio=RATIO, noise_ratio=noise).rates
    return rates_of(steps, noise, **SIZE) | {"limit": tuple(limit.tolist())}


@cache
def limit_rates() -> Rates:
    """Rates whose losses are extrapolated."""
    return rates_of(LIMIT_STEPS, LIMIT_NOISE, ratio=RATIO)


def token_loss(
    *,
    rates: tuple[float, ...],
    context: int,
    dim: int,
    noise_ratio: float,
    tasks: int,
    rng: Any,
    backend: str = "numpy",
) -> Estimate:
    """Relative squared error of the weights of gradient descent on tokens."""
    device = get_backend(backend)
    problem = Regression(context, dim, noise_variance=noise_ratio * context)
    generator = device.generator(rng)
    truth = problem.sample_tasks(device, generator, tasks)
    weights = descend(problem.prompts(device, generator, truth), rates)
    errors = device.xp.mean((weights - truth) ** 2, axis=1)
    return Estimate.of(to_host(errors), keep=False)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Losses by steps and noise, losses by dimension, and the loss on tokens."""
    found: dict[Any, Cell] = {
        (steps, noise): Cell.of(
            simulate_schedule,
            rates=tuple(finite_rates(steps, noise).values()),
            **SIZE,
            noise_ratio=noise,
            contexts=CONTEXTS[preset],
        )
        for steps in STEPS
        for noise in NOISES
    }
    for dim, contexts in LIMIT_CONTEXTS.items():
        found[dim] = Cell.of(
            simulate_schedule,
            rates=tuple(limit_rates().values()),
            context=round(dim / RATIO),
            dim=dim,
            noise_ratio=LIMIT_NOISE,
            contexts=MORE[preset] * contexts,
        )
    found["tokens"] = Cell.of(
        token_loss,
        rates=finite_rates(3, NOISES[1])["optimal"],
        **SIZE,
        noise_ratio=NOISES[1],
        tasks=TOKEN_TASKS[preset],
    )
    return found


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare losses, advantages of the optimal rates, and the extrapolated losses."""
    comparisons = []
    for steps in STEPS:
        for noise in NOISES:
            rates, found = finite_rates(steps, noise), results[steps, noise].losses
            exact = schedule_loss(np.array(list(rates.values())), **SIZE, noise_ratio=noise)
            where = f"L={steps} v={noise:g}"
            for k, name in enumerate(rates):
                comparisons.append(compare(f"{name} rates, {where}", exact[k], found[k]))
                if steps > 1 and name != "optimal":
                    label = f"advantage over {name} rates, {where}"
                    gain = difference(found[k], found[0])
                    comparisons.append(compare(label, exact[k] - exact[0], gain))
    best = optimal_schedule(steps=3, **SIZE, noise_ratio=NOISES[1])
    label = f"optimal rates on tokens, L=3 v={NOISES[1]:g}"
    comparisons.append(compare(label, best.loss, results["tokens"]))
    sizes = list(LIMIT_CONTEXTS)
    fit = extrapolate_runs(sizes, [results[dim].losses for dim in sizes])
    comparisons.append(compare_p_value("chi-square of the fit in 1/d", fit.p_value))
    limits = {
        name: schedule_loss(rates, ratio=RATIO, noise_ratio=LIMIT_NOISE)
        for name, rates in limit_rates().items()
    }
    where = f"L={LIMIT_STEPS} v={LIMIT_NOISE:g}, d to infinity"
    theories = {f"{name} rates, {where}": value for name, value in limits.items()}
    comparisons += compare_limits(theories, fit)

    def draw(figure: Figure) -> None:
        finite, large = panels(figure, height=3.8)
        steps = range(1, 9)
        for k, (name, label) in enumerate(LABELS.items()):
            curve = [schedule_loss(finite_rates(L, 0.0)[name], **SIZE) for L in steps]
            points = [results[L, 0.0].losses[k] for L in STEPS]
            draw_family(finite, (steps, curve), (STEPS, points), COLOURS[k], label)
        finite.set(ylim=(3e-3, 3))
        title = "$N = 20,\\ d = 10$, no noise"
        finish(finite, "steps $L$", "loss / null predictor", title=title, log="y", legend="")
        for k, (name, limit) in enumerate(limits.items()):
            points = [results[dim].losses[k] for dim in sizes]
            lines: dict[str, Any] = {"limit": float(limit), "fit": fit, "quantity": k}
            draw_sizes(large, sizes, points, COLOURS[k], **lines, label=LABELS[name])
        title = f"$d/N = {RATIO:g},\\ L = {LIMIT_STEPS},\\ v = {LIMIT_NOISE:g}$"
        finish(large, "$1/d$", "loss / null predictor", title=title, legend="")

    notes = (
        f"Limit: {fit.summary}.",
        "More than 3 steps are not compared at d = 10: contexts too rare to be drawn carry part "
        "of the mean there, and z would be biased and too wide.",
    )
    return Verdict(comparisons, draw, notes)


claim = Claim.of("gd-schedules", __doc__, cells, judge)
