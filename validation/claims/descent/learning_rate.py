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
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import descent
from iclimit.asymptotics.derivation import Derivation
from iclimit.problem import COORDINATE_VARIANCE, Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent import estimate_learning_rate, simulate_learning_rate
from iclimit.simulate.descent.learning_rate import search_learning_rate
from iclimit.simulate.prompts import draw_prompts
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, mean, run
from iclimit.validation.claims.descent.contexts import jackknife, mean_loss, mean_traces

# Laws of the inputs.
LAWS = ("gaussian", "uniform", "rademacher", "laplace")
# Variances of the label noise.
NOISES = (0.0, 0.4)
# Size of the contexts, and variance of the tasks.
SIZES: dict[str, Any] = {"context": 10, "dim": 6, "task_variance": 1.7}
# Multiple of the optimal rate at which the loss is compared too.
FACTOR = 1.5
# Tasks of the line search.
SEARCHED = 2_000
# Relative tolerance of the line search; a minimum is flat, so it lands much closer.
SEARCH_TOLERANCE = 1e-4


@named_cell("search")
def search(
    *, input_law: str, noise_variance: float, tasks: int, rng: SeedSequence
) -> tuple[float, float]:
    """Rate of a line search and of the data-based formula on the same tasks."""
    problem = Problem(**SIZES, input_law=input_law, noise_variance=noise_variance, scale=1)
    prompts = draw_prompts(problem, get_backend("numpy"), np.random.default_rng(rng), tasks)
    searched, _ = search_learning_rate(prompts, tolerance=SEARCH_TOLERANCE, normalization="sum")
    return searched, estimate_learning_rate(prompts, normalization="sum").rate.mean


def setting(law: str, noise: float) -> dict[str, Any]:
    """Arguments of theory and simulation."""
    return {"input_law": law, "noise_variance": noise, "normalization": "sum", **SIZES}


def rows(effort: Effort) -> Rows:
    """Rates and losses against the closed forms, and the line search against the formula."""
    for law in LAWS:
        size = {name: SIZES[name] for name in ("context", "dim")}
        traces = run(mean_traces, input_law=law, most=2, contexts=effort(50_000), **size)
        derivation = call(descent.derive_learning_rate, law, normalization="sum")
        for noise in NOISES:
            name = f"{law}, noise {noise:g}"
            where = setting(law, noise)
            best = call(descent.optimal_learning_rate, **where)
            off = FACTOR * best.rate
            off_loss = call(descent.learning_rate_loss, off, **where)
            for label, theory, rate in (
                ("rate", best.rate, None),
                ("loss at the optimal rate", best.loss, best.rate),
                (f"loss at {FACTOR:g} times the rate", off_loss, off),
            ):
                estimate = call(from_contexts, traces, law, noise, rate)
                yield mean(f"{label}, {name}", theory, estimate, draws=law)
            if noise:
                for field, rate in (("rate", None), ("loss", best.rate)):
                    theory = call(derived_number, derivation, field, noise)
                    estimate = call(from_contexts, traces, law, noise, rate)
                    label = f"derived {field}, {name}"
                    of = f"derive_learning_rate.{field}"
                    yield mean(label, theory, estimate, of=of, draws=law)
            data = run(simulate_learning_rate, contexts=effort(25_000), **where)
            yield mean(f"rate from data, {name}", best.rate, data.rate)
            yield mean(f"loss on data, {name}", best.loss, data.loss(best.rate))
            pair = run(search, input_law=law, noise_variance=noise, tasks=SEARCHED)
            label = f"line search against data, {name}"
            yield exact(label, pair[1], pair[0], relative=SEARCH_TOLERANCE, of="")


def from_contexts(traces: np.ndarray, law: str, noise: float, rate: float | None) -> Estimate:
    """The loss at a rate, or the rate of least loss, averaged over tasks, noise and queries."""
    N = SIZES["context"]
    d = SIZES["dim"]
    variance = SIZES["task_variance"]
    ratio = noise / (N * variance)
    if rate is None:
        # The loss is 1 - 2 N rate p_1 + (N rate)^2 (p_2 + ratio p_1) with mean traces p_k.
        return jackknife(lambda p: p[1] / (p[2] + ratio * p[1]) / N, traces)[0]
    query = d * variance * COORDINATE_VARIANCE[law]
    return Estimate.of(noise + query * mean_loss(traces, [N * rate], ratio))


def derived_number(derivation: Derivation, field: str, noise: float) -> float:
    """Rate or loss of a derivation."""
    numbers = {
        "N": SIZES["context"],
        "d": SIZES["dim"],
        "a": math.sqrt(SIZES["task_variance"]),
        "sigma": math.sqrt(noise),
    }
    value = derivation.steps[2][1].rhs if field == "rate" else derivation.result
    return float(value.subs({symbol: numbers[symbol.name] for symbol in value.free_symbols}))


claim = Claim.of("gd-learning-rate", __doc__, rows, figure=False)
