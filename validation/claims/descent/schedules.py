"""Multi-step gradient descent: losses and optimal learning-rate schedules.

At N = 20, d = 10 simulated losses of optimal, best constant and Chebyshev rates equal the exact
ones for one to three steps, with and without noise, and so does the lead of the optimal rates.
The rates that are best on simulated contexts are the predicted ones.  Losses extrapolated to
infinite size equal the limit.  Derived moments and losses have the values of simulations.

Source: Exact Wishart moments and Marchenko-Pastur limit, derived in the documentation; limit
without noise: polynomials of Pedregosa and Scieur, ICML 2020, arXiv:2002.04756.
"""

from functools import cache, partial
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import (
    chebyshev_schedule,
    constant_schedule,
    derive_schedule,
    derive_wishart_moment,
    optimal_schedule,
    schedule_loss,
)
from iclimit.drawing import COLOURS, Figure, draw_family, draw_sizes, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend, to_host
from iclimit.simulate.descent import Regression, simulate_schedule
from iclimit.simulate.descent.regression import descend
from iclimit.statistics import extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Comparison,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    compare_p_value,
    difference,
)
from iclimit.validation.claims.descent.contexts import best_rates, jackknife, mean_traces

RATIO = 0.5
SIZE = {"context": 20, "dim": 10}
STEPS, NOISES = (1, 2, 3), (0.0, 0.05)
CONTEXTS: dict[Preset, int] = {"quick": 60_000, "medium": 600_000, "full": 4_000_000}
"""For losses, and twice as many for rates."""
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
MORE: dict[Preset, int] = {"quick": 1, "medium": 10, "full": 40}
"""Factor of these contexts."""
TOKEN_TASKS: dict[Preset, int] = {"quick": 20_000, "medium": 200_000, "full": 400_000}

Rates = dict[str, tuple[float, ...]]


def rates_of(steps: int, noise: float, **where: Any) -> Rates:
    """Rates of all methods, at a finite size or in the limit."""
    setting = {"steps": steps, "noise_ratio": noise, **where}
    return {name: tuple(method(**setting).rates.tolist()) for name, method in METHODS.items()}


def setting(steps: int, noise: float) -> dict[str, Any]:
    """Arguments of the theory at finite size."""
    return {"steps": steps, "noise_ratio": noise, **SIZE}


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
    """Losses by noise, traces of contexts, losses by dimension, and the loss on tokens."""
    most = max(STEPS)
    found: dict[Any, Cell] = {}
    for noise in NOISES:
        # Fewer steps are as many with rates of 0.
        rows = [
            (*rates, *(0.0,) * (most - steps))
            for steps in STEPS
            for rates in finite_rates(steps, noise).values()
        ]
        found["losses", noise] = Cell.of(
            simulate_schedule,
            rates=tuple(rows),
            **SIZE,
            noise_ratio=noise,
            contexts=CONTEXTS[preset],
        )
    found["traces"] = Cell.of(mean_traces, **SIZE, most=2 * most, contexts=2 * CONTEXTS[preset])
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


def losses(results: Results, steps: int, noise: float) -> dict[str, Estimate]:
    """Simulated losses of all rates by name."""
    found = results["losses", noise].losses
    first = STEPS.index(steps) * len(LABELS)
    return dict(zip(LABELS, found[first : first + len(LABELS)], strict=True))


def compare_losses(results: Results) -> list[Comparison]:
    """Compare losses, and how much less the optimal rates leave than others."""
    comparisons = []
    for noise in NOISES:
        for steps in STEPS:
            found, where = losses(results, steps, noise), f"L={steps} v={noise:g}"
            exact = {
                name: schedule_loss(rates, **SIZE, noise_ratio=noise)
                for name, rates in finite_rates(steps, noise).items()
            }
            for name, method in METHODS.items():
                theory, of = method(**setting(steps, noise)).loss, f"{method.__name__}.loss"
                label = f"{name} rates, {where}"
                comparisons.append(compare(label, theory, found[name], of=of, draws=noise))
            label = f"limit rates, {where}"
            options: dict[str, Any] = {"of": "schedule_loss", "draws": noise}
            comparisons.append(compare(label, exact["limit"], found["limit"], **options))
            if steps > 1:
                comparisons += [
                    compare(
                        f"advantage over {name} rates, {where}",
                        exact[name] - exact["optimal"],
                        difference(found[name], found["optimal"]),
                        **options,
                    )
                    for name in LABELS
                    if name != "optimal"
                ]
    return comparisons


def compare_rates(traces: np.ndarray) -> list[Comparison]:
    """Compare the rates that are best on contexts, and the mean traces that derivations give."""
    comparisons = []
    for noise in NOISES:
        for steps in STEPS[1:]:
            where = f"L={steps} v={noise:g}"
            for name, constant in (("optimal", False), ("constant", True)):
                method = METHODS[name]
                theory = method(**setting(steps, noise)).rates
                best = partial(best_rates, steps=steps, noise_ratio=noise, constant=constant)
                best = partial(best, near=best(np.mean(traces, axis=0)))
                comparisons += [
                    compare(
                        f"{name} rate {k + 1}, {where}",
                        theory[k],
                        each,
                        of=f"{method.__name__}.rates",
                        draws="traces",
                    )
                    for k, each in enumerate(jackknife(best, traces))
                ]
    for order in (2, 3):
        derived = derive_wishart_moment(order).result
        numbers = {"N": SIZE["context"], "d": SIZE["dim"]}
        trace = derived.subs({each: numbers[each.name] for each in derived.free_symbols})
        comparisons.append(
            compare(
                f"derived moment of order {order}",
                float(trace) / (SIZE["dim"] * SIZE["context"] ** order),
                Estimate.of(traces[:, order]),
                of="derive_wishart_moment",
                draws="traces",
            )
        )
    return comparisons


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare losses, rates, derivations, and the extrapolated losses."""
    comparisons = compare_losses(results) + compare_rates(results["traces"])
    for steps in (1, 2):
        theory = float(derive_schedule(steps, **SIZE).result)
        found = losses(results, steps, 0.0)["optimal"]
        label = f"derived loss, L={steps}"
        comparisons.append(compare(label, theory, found, of="derive_schedule", draws=0.0))
    best = optimal_schedule(steps=3, **SIZE, noise_ratio=NOISES[1])
    label, of = f"optimal rates on tokens, L=3 v={NOISES[1]:g}", "optimal_schedule.loss"
    comparisons.append(compare(label, best.loss, results["tokens"], of=of))
    sizes = list(LIMIT_CONTEXTS)
    fit = extrapolate_runs(sizes, [results[dim].losses for dim in sizes])
    comparisons.append(compare_p_value("chi-square of the fit in 1/d", fit.p_value))
    where = f"L={LIMIT_STEPS} v={LIMIT_NOISE:g}, d to infinity"
    limits = {
        name: method(steps=LIMIT_STEPS, ratio=RATIO, noise_ratio=LIMIT_NOISE).loss
        for name, method in METHODS.items()
    }
    comparisons += compare_limits(
        {f"{name} rates, {where}": value for name, value in limits.items()},
        fit,
        of=[f"{method.__name__}.loss" for method in METHODS.values()],
        draws="limit",
    )

    def draw(figure: Figure) -> None:
        finite, large = panels(figure, height=3.8)
        steps = range(1, 9)
        for k, (name, label) in enumerate(LABELS.items()):
            curve = [schedule_loss(finite_rates(L, 0.0)[name], **SIZE) for L in steps]
            points = [losses(results, L, 0.0)[name] for L in STEPS]
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
