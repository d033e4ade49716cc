"""Multi-step gradient descent: losses and optimal learning-rate schedules.

At N = 20, d = 10 simulated losses of optimal, best constant and Chebyshev rates equal the exact
ones for one to three steps, with and without noise, and so does the lead of the optimal rates.
The rates that are best on simulated contexts are the predicted ones.  Losses extrapolated to
infinite size equal the limit.  Derived moments and losses have the values of simulations.

Source: Exact Wishart moments and Marchenko-Pastur limit, derived in the documentation; limit
without noise: polynomials of Pedregosa and Scieur, ICML 2020, arXiv:2002.04756.
"""

from collections.abc import Mapping
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import descent
from iclimit.comparison import difference
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend, to_host
from iclimit.simulate.descent import simulate_schedule
from iclimit.simulate.descent.steps import descend
from iclimit.simulate.prompts import draw_prompts
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Claim, Effort, Later, Rows, call, limit, mean, note, run
from iclimit.validation.claims.descent.contexts import (
    best_rates,
    jackknife,
    mean_loss,
    mean_traces,
)

# Dimension over context length.
RATIO = 0.5
# Size at which losses are compared.
SIZE = {"context": 20, "dim": 10}
# Numbers of steps that are compared at finite size.
STEPS = (1, 2, 3)
# Noise ratios at which they are compared.
NOISES = (0.0, 0.05)
# Noise at which the best residual polynomial of three steps has complex zeros: two of the best
# real rates are equal.
MUCH_NOISE = 0.2
# Functions that give rates, by name.
METHODS = {
    "optimal": descent.optimal_schedule,
    "constant": descent.constant_schedule,
    "chebyshev": descent.chebyshev_schedule,
}
# Words for the rates in legends.
LABELS = {
    "optimal": "optimal",
    "constant": "best constant",
    "chebyshev": "Chebyshev",
    "limit": "optimal in the limit",
}
# Steps of the schedules whose losses are extrapolated to the limit.
LIMIT_STEPS = 3
# Noise ratio of these schedules.
LIMIT_NOISE = 0.05
# Contexts at each dimension in the quick preset: the spread of the loss falls as 1/d.
LIMIT_CONTEXTS = {24: 10_000, 48: 2_500, 96: 600, 192: 150}
Rates = dict[str, tuple[float, ...]]


def rates_of(steps: int, noise: float, where: Mapping[str, Any]) -> Rates:
    """Rates of all methods, at a finite size or in the limit."""
    setting = {"steps": steps, "noise_ratio": noise, **where}
    return {name: tuple(method(**setting).rates.tolist()) for name, method in METHODS.items()}


def setting(steps: int, noise: float) -> dict[str, Any]:
    """Arguments of the theory at finite size."""
    return {"steps": steps, "noise_ratio": noise, **SIZE}


@cache
def finite_rates(steps: int, noise: float) -> Rates:
    """Rates compared at finite size; those of the limit are not optimal there."""
    limit = descent.optimal_schedule(steps=steps, ratio=RATIO, noise_ratio=noise).rates
    return rates_of(steps, noise, SIZE) | {"limit": tuple(limit.tolist())}


@cache
def limit_rates() -> Rates:
    """Rates whose losses are extrapolated."""
    return rates_of(LIMIT_STEPS, LIMIT_NOISE, {"ratio": RATIO})


@named_cell("token_loss")
def token_loss(
    *,
    rates: tuple[float, ...],
    context: int,
    dim: int,
    noise_ratio: float,
    tasks: int,
    rng: SeedSequence,
    backend: str = "numpy",
) -> Estimate:
    """Relative squared error of the weights of gradient descent on tokens."""
    device = get_backend(backend)
    problem = Problem(dim=dim, context=context, noise_variance=noise_ratio * context, scale=1)
    generator = device.generator(rng)
    prompts = draw_prompts(problem, device, generator, tasks)
    truth = prompts.tasks
    weights = descend(prompts, rates)
    errors = device.xp.mean((weights - truth) ** 2, axis=1)
    return Estimate.of(to_host(errors), keep=False)


def rows(effort: Effort) -> Rows:
    """Losses, rates, derivations, and the extrapolated losses."""
    contexts = effort.pick(tiny=8_000, quick=60_000, medium=400_000, full=2_000_000)
    traces = run(mean_traces, **SIZE, most=2 * max(STEPS), contexts=2 * contexts)
    for noise in NOISES:
        # A run of fewer steps is padded with steps at rate 0.
        schedules = tuple(
            (*rates, *(0.0,) * (max(STEPS) - steps))
            for steps in STEPS
            for rates in finite_rates(steps, noise).values()
        )
        simulated = run(
            simulate_schedule,
            rates=Derived(schedules, ("rates of all methods", STEPS)),
            **SIZE,
            noise_ratio=noise,
            contexts=contexts,
        )
        for number, steps in enumerate(STEPS):
            numbers = enumerate(LABELS, start=number * len(LABELS))
            losses = {name: simulated.losses[k] for k, name in numbers}
            yield from loss_rows(losses, steps, noise)
            if steps > 1:
                yield from rate_rows(traces, steps, noise)
            if noise == 0 and steps < 3:
                theory = call(descent.derive_schedule, steps, **SIZE).result
                label = f"derived loss, L={steps}"
                of = "derive_schedule"
                yield mean(label, theory, losses["optimal"], of=of, draws=noise)
    yield from rate_rows(traces, max(STEPS), MUCH_NOISE)
    best = call(descent.optimal_schedule, **setting(max(STEPS), MUCH_NOISE))
    measured = call(mean_loss, traces, best.rates, MUCH_NOISE)
    label = f"optimal rates, L={max(STEPS)} v={MUCH_NOISE:g}"
    yield mean(label, best.loss, measured, draws="traces")
    for order in (2, 3):
        theory = call(derived_moment, order)
        measured = traces[:, order]
        label = f"derived moment of order {order}"
        of = "derive_wishart_moment"
        yield mean(label, theory, measured, of=of, draws="traces")
    noise = NOISES[1]
    tokens = run(
        token_loss,
        rates=Derived(finite_rates(3, noise)["optimal"], "optimal rates of 3 steps"),
        **SIZE,
        noise_ratio=noise,
        tasks=effort(20_000),
    )
    best = call(descent.optimal_schedule, steps=3, **SIZE, noise_ratio=noise)
    yield mean(f"optimal rates on tokens, L=3 v={noise:g}", best.loss, tokens)
    where = {"steps": LIMIT_STEPS, "noise_ratio": LIMIT_NOISE}
    label = f"L={LIMIT_STEPS} v={LIMIT_NOISE:g}, d to infinity"
    yield limit(
        {
            f"{name} rates, {label}": call(method, ratio=RATIO, **where).loss
            for name, method in METHODS.items()
        },
        {
            dim: run(
                simulate_schedule,
                rates=Derived(tuple(limit_rates().values()), ("limit", LIMIT_STEPS)),
                context=round(dim / RATIO),
                dim=dim,
                noise_ratio=LIMIT_NOISE,
                contexts=effort(count),
            ).losses
            for dim, count in LIMIT_CONTEXTS.items()
        },
        draws="limit",
        fit_label="chi-square of the fit in 1/d",
        name="Limit",
    )
    yield note(
        "More than 3 steps are not compared at d = 10: contexts too rare to be drawn carry part "
        "of the mean there, and z would be biased and too wide."
    )


def loss_rows(losses: dict[str, Later], steps: int, noise: float) -> Rows:
    """Losses, and how much less the optimal rates leave than others."""
    where = f"L={steps} v={noise:g}"
    exact = {
        name: call(descent.schedule_loss, rates, **SIZE, noise_ratio=noise)
        for name, rates in finite_rates(steps, noise).items()
    }
    for name in LABELS:
        theory = (
            call(METHODS[name], **setting(steps, noise)).loss if name in METHODS else exact[name]
        )
        yield mean(
            f"{name} rates, {where}",
            theory,
            losses[name],
            draws=noise,
            x=("steps", steps),
            family=f"{LABELS[name]}, v = {noise:g}",
        )
        if steps > 1 and name != "optimal":
            theory = exact[name] - exact["optimal"]
            lead = call(difference, losses[name], losses["optimal"])
            label = f"advantage over {name} rates, {where}"
            yield mean(label, theory, lead, of="schedule_loss", draws=noise)


def rate_rows(traces: Later, steps: int, noise: float) -> Rows:
    """The rates that are best on contexts."""
    for name, constant in (("optimal", False), ("constant", True)):
        rates = call(METHODS[name], **setting(steps, noise)).rates
        measured = call(rates_of_contexts, traces, steps, noise, constant)
        for k in range(1 if constant else steps):
            label = f"{name} rate {k + 1}, L={steps} v={noise:g}"
            yield mean(label, rates[k], measured[k], draws="traces")


def rates_of_contexts(
    traces: np.ndarray, steps: int, noise: float, constant: bool
) -> list[Estimate]:
    """Rates that are best on contexts."""
    best = partial(best_rates, steps=steps, noise_ratio=noise, constant=constant)
    return jackknife(partial(best, near=best(np.mean(traces, axis=0))), traces)


def derived_moment(order: int) -> float:
    """Mean of tr H^k/d by its derivation."""
    derived = descent.derive_wishart_moment(order).result
    numbers = {"N": SIZE["context"], "d": SIZE["dim"]}
    trace = derived.subs({symbol: numbers[symbol.name] for symbol in derived.free_symbols})
    return float(trace) / (SIZE["dim"] * SIZE["context"] ** order)


claim = Claim.of("gd-schedules", __doc__, rows, figure=False)
