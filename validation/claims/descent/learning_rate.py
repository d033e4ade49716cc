"""The optimal learning rate of one step: closed form, contexts, data and line search.

For Gaussian, uniform, sign and Laplace inputs, with and without label noise, the learning rate
and the loss that simulated contexts give, averaged over tasks, noise and queries, equal the closed
forms and their derivation.  So do the rate and the loss of simulated tasks with labels, less
sharply.  A line search over the constructed attention layer finds the rate of the data-based
formula.

Source: {rossi2024}, Table 1; {vonoswald2023}, Proposition 1; closed form for any moments:
documentation.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from iclimit.asymptotics.derivation import Derivation
from iclimit.asymptotics.descent import (
    derive_learning_rate,
    learning_rate_loss,
    optimal_learning_rate,
)
from iclimit.drawing import COLOURS, Figure, draw_points, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent import Regression, estimate_learning_rate, simulate_learning_rate
from iclimit.simulate.descent.learning_rate import search_learning_rate
from iclimit.simulate.pretraining.prompts import STANDARD_DEVIATION
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.descent.contexts import jackknife, mean_loss, mean_traces

LAWS = ("gaussian", "uniform", "rademacher", "laplace")
NOISES = (0.0, 0.4)
SIZES: dict[str, Any] = {"context": 10, "dim": 6, "task_variance": 1.7}
CONTEXTS: dict[Preset, int] = {"quick": 80_000, "medium": 1_000_000, "full": 10_000_000}
TASKS: dict[Preset, int] = {"quick": 40_000, "medium": 1_000_000, "full": 10_000_000}
FACTOR = 1.5
"""Multiple of the optimal rate at which the loss is compared too."""
SEARCHED = 2_000
"""Tasks of the line search."""
SEARCH_TOLERANCE = 1e-4
"""Relative tolerance of the line search; a minimum is flat, so it lands much closer."""


def search(*, input_law: str, noise_variance: float, tasks: int, rng: Any) -> tuple[float, float]:
    """Rate of a line search and of the data-based formula on the same tasks."""
    problem = Regression(input_law=input_law, noise_variance=noise_variance, **SIZES)
    prompts = problem.sample(get_backend("numpy"), np.random.default_rng(rng), tasks)
    found, _ = search_learning_rate(prompts, tolerance=SEARCH_TOLERANCE, normalization="sum")
    return found, estimate_learning_rate(prompts, normalization="sum").rate.mean


def setting(law: str, noise: float) -> dict[str, Any]:
    """Arguments of theory and simulation."""
    return {"input_law": law, "noise_variance": noise, "normalization": "sum", **SIZES}


def cells(preset: Preset) -> dict[Any, Cell]:
    """Traces of contexts by law; rates from data and from line searches by law and noise."""
    size = {name: SIZES[name] for name in ("context", "dim")}
    found: dict[Any, Cell] = {}
    for law in LAWS:
        found["contexts", law] = Cell.of(
            mean_traces, input_law=law, most=2, contexts=CONTEXTS[preset], **size
        )
        for noise in NOISES:
            found["data", law, noise] = Cell.of(
                simulate_learning_rate, contexts=TASKS[preset], **setting(law, noise)
            )
            found["search", law, noise] = Cell.of(
                search, input_law=law, noise_variance=noise, tasks=SEARCHED
            )
    return found


def from_contexts(traces: np.ndarray, law: str, noise: float, rate: float | None) -> Estimate:
    """The loss at a rate, or the rate of least loss, averaged over tasks, noise and queries."""
    N, d, variance = SIZES["context"], SIZES["dim"], SIZES["task_variance"]
    ratio = noise / (N * variance)
    if rate is None:
        # The loss is 1 - 2 N rate p_1 + (N rate)^2 (p_2 + ratio p_1) with mean traces p_k.
        return jackknife(lambda p: p[1] / (p[2] + ratio * p[1]) / N, traces)[0]
    query = d * variance * STANDARD_DEVIATION.get(law, 1.0) ** 2
    return Estimate.of(noise + query * mean_loss(traces, [N * rate], ratio))


@cache
def derivation(law: str) -> Derivation:
    """Derivation of the rate, which takes half a second."""
    return derive_learning_rate(law, normalization="sum")


def compare_contexts(traces: np.ndarray, law: str, noise: float) -> list[Comparison]:
    """Compare the closed forms, and what their derivation gives, with contexts."""
    best, name = optimal_learning_rate(**setting(law, noise)), f"{law}, noise {noise:g}"
    off = FACTOR * float(best.rate)
    rate = from_contexts(traces, law, noise, None)
    loss, loss_off = (from_contexts(traces, law, noise, at) for at in (float(best.rate), off))
    theories = {
        "rate": (best.rate, rate, "optimal_learning_rate.rate"),
        "loss at the optimal rate": (best.loss, loss, "optimal_learning_rate.loss"),
        f"loss at {FACTOR:g} times the rate": (
            learning_rate_loss(off, **setting(law, noise)),
            loss_off,
            "learning_rate_loss",
        ),
    }
    if noise:
        derived = derivation(law)
        numbers = {
            "N": SIZES["context"],
            "d": SIZES["dim"],
            "a": math.sqrt(SIZES["task_variance"]),
            "sigma": math.sqrt(noise),
        }
        for label, value, found in (
            ("rate", derived.steps[2][1].rhs, rate),
            ("loss", derived.result, loss),
        ):
            theory = float(value.subs({each: numbers[each.name] for each in value.free_symbols}))
            theories[f"derived {label}"] = (theory, found, f"derive_learning_rate.{label}")
    return [
        compare(f"{label}, {name}", theory, found, of=of, draws=law)
        for label, (theory, found, of) in theories.items()
    ]


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare rates and losses with the closed forms, and the line search with the formula."""
    comparisons, misses = [], []
    for law in LAWS:
        for noise in NOISES:
            best = optimal_learning_rate(**setting(law, noise))
            data, name = results["data", law, noise], f"{law}, noise {noise:g}"
            searched, estimated = results["search", law, noise]
            misses.append(math.fabs(searched / estimated - 1))
            loss, line_search = data.loss(float(best.rate)), f"line search against data, {name}"
            of = "optimal_learning_rate"
            comparisons += [
                *compare_contexts(results["contexts", law], law, noise),
                compare(f"rate from data, {name}", best.rate, data.rate, of=f"{of}.rate"),
                compare(f"loss on data, {name}", best.loss, loss, of=f"{of}.loss"),
                compare(line_search, estimated, searched, relative=SEARCH_TOLERANCE),
            ]

    def draw(figure: Figure) -> None:
        (ax,) = panels(figure, 1, width=6.0, height=3.8)
        noise = NOISES[1]
        for law, colour in zip(LAWS, COLOURS, strict=False):
            where = setting(law, noise)
            best, null = optimal_learning_rate(**where), learning_rate_loss(0.0, **where)
            x, grid = np.linspace(0, 2.2, 200), np.linspace(0.1, 2.1, 11)
            ax.plot(x, learning_rate_loss(x * best.rate, **where) / null, color=colour, label=law)
            points = [results["data", law, noise].loss(float(k * best.rate)) for k in grid]
            means, errors = np.array([(p.mean, p.standard_error) for p in points]).T / null
            draw_points(ax, grid, means, errors, colour)
            ax.plot(1, best.loss / null, "*", color=colour, markersize=11, zorder=4)
        title = (
            rf"$N = {SIZES['context']},\ d = {SIZES['dim']},\ \sigma^2 = {noise:g},\ a^2 = 1.7$"
        )
        x_label, y_label = r"learning rate $\eta/\eta^*$", "loss / null predictor"
        finish(ax, x_label, y_label, title=title, legend="inputs")

    notes = (
        f"{CONTEXTS[preset]:,} contexts and {TASKS[preset]:,} tasks per law.",
        f"Line searches on {SEARCHED:,} tasks find the data-based rate within "
        f"{max(misses):.0e} relative.",
    )
    return Verdict(comparisons, draw, notes)


claim = Claim.of("gd-learning-rate", __doc__, cells, judge)
