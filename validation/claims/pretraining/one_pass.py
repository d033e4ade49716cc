"""One pass of SGD over fresh prompts: the exact recursion, the best rates, the limit.

The mean error of linear attention during SGD on fresh prompts equals the recursion at any
dimension: for one prompt or several in a batch, tasks of fixed or random norm, a constant rate, a
schedule of rates and the best ones; and for prompts of a few fixed tasks, on these tasks and on
fresh ones.  Runs at the best rates and at a constant step, extrapolated
to infinite dimension, equal the limit.

Source: Derived in the documentation.
"""

from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.pretraining import one_pass_error, one_pass_errors, one_pass_task_errors
from iclimit.experiment import SGD, Experiment
from iclimit.problem import Problem
from iclimit.simulate.pretraining import OnePassRuns, simulate_one_pass
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, mean, run

# Variance of the label noise.
RHO = 0.2
# Steps at which errors are compared with the recursion.
STEPS = (20, 40, 80)
# Settings of the recursion: sizes and law of tasks.
SETTINGS: tuple[dict[str, Any], ...] = (
    {"dim": 8, "context": 12, "batch": 1, "task_law": "sphere"},
    {"dim": 12, "context": 12, "batch": 6, "task_law": "gaussian"},
    {"dim": 16, "context": 64, "batch": 16, "task_law": "sphere"},
)
# Constant rate of each, about a third of its stable one.
RATES = (0.02, 0.04, 0.2)
# Runs at quick; pooled they would notice 0.5 %.
RUNS = 100

# Task vectors, of squared norm d, and the setting of their recursion.
TASKS = 2.0 * np.random.default_rng(0).integers(0, 2, (4, 10)) - 1
OF_TASKS: dict[str, Any] = {"context": 20, "batch": 5}
TASK_RATE = 0.06

# Prompts and context length of the limit.
TAU = 2
ALPHA = 2
# A constant step.
STEP = 0.25
# Runs by dimension, and the order in 1/d of the polynomial that is fitted: at these sizes it
# takes the recursion to its limit within 1e-4 at the best rates, 1e-3 at the constant step.
SIZES = {8: 150, 12: 150, 16: 300, 32: 300}
ORDER = 2


def recorded(
    law: Problem, batch: int, rates: np.ndarray, repeats: int, rng: SeedSequence
) -> OnePassRuns:
    """Errors after each quarter of the steps."""
    training = SGD(tuple(rates), batch=batch)
    run = Experiment(law, prompts=batch * len(rates), training=training)
    return simulate_one_pass(run, record=len(rates) // 4, rng=rng, repeats=repeats)


@named_cell("one_pass_curve")
def curve(
    *,
    dim: int,
    context: int,
    batch: int,
    task_law: str = "sphere",
    rates: np.ndarray,
    repeats: int,
    rng: SeedSequence,
) -> np.ndarray:
    """Errors after each quarter of the steps, (records, repeats)."""
    law = Problem(dim, context, noise_variance=RHO, task_law=task_law)
    return recorded(law, batch, rates, repeats, rng).icl.T


@named_cell("one_pass_task_curve")
def task_curve(*, rates: np.ndarray, repeats: int, rng: SeedSequence) -> np.ndarray:
    """Both errors after each quarter of the steps, (2, records, repeats)."""
    law = Problem(
        dim=TASKS.shape[1],
        context=OF_TASKS["context"],
        tasks=TASKS,
        noise_variance=RHO,
        task_law="sphere",
    )
    runs = recorded(law, OF_TASKS["batch"], rates, repeats, rng)
    return np.array([runs.icl.T, runs.idg.T])


def best_rates(steps: int, **setting: Any) -> Derived:
    """Rates of the recursion, one for each step."""
    theory = one_pass_errors(steps=np.arange(1, steps + 1), rho=RHO, **setting)
    return Derived(theory.learning_rate, "best rates")


def at_any_size(effort: Effort) -> Rows:
    """Errors after some steps against the recursion."""
    last = STEPS[-1]
    records = [step * 4 // last - 1 for step in STEPS]
    for setting, rate in zip(SETTINGS, RATES, strict=True):
        warm_up = np.minimum(1.0, np.arange(1, last + 1) / 16) * rate
        for name, rates, keywords in (
            ("constant rate", np.full(last, rate), {"learning_rate": rate}),
            ("warm-up", warm_up, {"rates": warm_up.tolist()}),
            ("best rates", best_rates(last, **setting), {}),
        ):
            runs = run(curve, rates=rates, repeats=effort(RUNS), **setting)
            for step, record in zip(STEPS, records, strict=True):
                theory = call(one_pass_errors, steps=step, rho=RHO, **setting, **keywords)
                where = f"d={setting['dim']} B={setting['batch']}"
                yield mean(
                    f"{name}, {where}, step {step}",
                    theory.icl,
                    runs[record],
                    of="one_pass_errors.icl",
                    draws=(name, where),
                    x=("steps", step),
                    family=f"{name}, {where}",
                )


def of_fixed_tasks(effort: Effort) -> Rows:
    """Both errors of prompts of fixed tasks against the recursion."""
    last = STEPS[-1]
    falling = TASK_RATE / (1 + np.arange(last) / last)
    for name, rates, keywords in (
        ("constant rate", np.full(last, TASK_RATE), {"learning_rate": TASK_RATE}),
        ("falling rates", falling, {"rates": falling.tolist()}),
    ):
        runs = run(task_curve, rates=rates, repeats=effort(RUNS))
        for step in STEPS:
            theory = call(
                one_pass_task_errors, steps=step, task_set=TASKS, rho=RHO, **OF_TASKS, **keywords
            )
            for number, error in enumerate(("icl", "idg")):
                yield mean(
                    f"{error.upper()} of fixed tasks, {name}, step {step}",
                    getattr(theory, error),
                    runs[number, step * 4 // last - 1],
                    draws=("tasks", name),
                    x=("steps", step),
                    family=f"{error.upper()} of fixed tasks, {name}",
                )


def in_the_limit(effort: Effort) -> Rows:
    """Errors after the same number of prompts over d^2, extrapolated."""
    constant = STEP / (2 * (1 + (1 + RHO) / ALPHA))
    for name, step_size in (("best rates", None), ("constant step", STEP)):
        runs = {}
        for dim, repeats in effort.by_size(SIZES).items():
            sizes = {"dim": dim, "context": ALPHA * dim, "batch": dim}
            steps = TAU * dim
            rates = best_rates(steps, **sizes) if step_size is None else np.full(steps, constant)
            runs[dim] = run(curve, rates=rates, repeats=repeats, **sizes)[-1]
        theory = call(one_pass_error, tau=TAU, alpha=ALPHA, rho=RHO, step_size=step_size)
        yield limit({f"{name}, limit": theory}, runs, about=name, order=ORDER)


def rows(effort: Effort) -> Rows:
    """At any size, of fixed tasks, and in the limit."""
    yield from at_any_size(effort)
    yield from of_fixed_tasks(effort)
    yield from in_the_limit(effort)


claim = Claim.of("one-pass", __doc__, rows, figure=False)
