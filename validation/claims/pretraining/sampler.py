"""Context summaries drawn from their exact law have the law of token-level ones.

Moments up to the fourth of summaries drawn in O(d) equal those of summaries computed from
tokens, and so do the errors of models trained on either.  So do moments of gated summaries of
correlated tokens and of the queries that continue them, and exact test errors of drawn matrices,
also where tasks drift, are the mean errors on tokens.  Contexts drawn more often where they are
rare have their law under the importance weights.

Source: Bartlett decomposition of the 2 x 2 Gram matrix; derived in the documentation.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.gdpp.contexts import draw_contexts
from iclimit.simulate.prompts import context_summary, draw_prompts
from iclimit.simulate.prompts.correlated_summaries import sample_correlated_summaries
from iclimit.simulate.prompts.sampling import draw_fresh_tasks
from iclimit.simulate.prompts.summaries import SummaryLaw, sample_summaries
from iclimit.simulate.prompts.summary_moments import squared_errors
from iclimit.simulate.prompts.timed_moments import timed_moments
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, both_errors, call, mean, run
from iclimit.validation.claims.pretraining.points import Point
from iclimit.validation.claims.random_settings import RandomSetting, describe, random_rows

# Dimension of the inputs.
DIM = 6
# Pairs of a context.
CONTEXT = 5
# Variance of the label noise.
RHO = 0.3
# Point at which models are trained on summaries of both kinds.
POINT = Point(tau=1.5, alpha=1, kappa=1, rho=0.2, ridge=0.01)
# Dimension of these models.
POINT_DIM = 16

# Functions of summaries and tasks whose means are compared.
FUNCTIONALS = {
    "along the task": lambda h, w: np.sum(h[:, :-1] * w, axis=1),
    "along the task, squared": lambda h, w: np.sum(h[:, :-1] * w, axis=1) ** 2,
    "squared norm": lambda h, _: np.sum(h[:, :-1] ** 2, axis=1),
    "squared norm, squared": lambda h, _: np.sum(h[:, :-1] ** 2, axis=1) ** 2,
    "label power": lambda h, _: h[:, -1],
    "label power, squared": lambda h, _: h[:, -1] ** 2,
    "label power times squared norm": lambda h, _: h[:, -1] * np.sum(h[:, :-1] ** 2, axis=1),
    "first coordinate, fourth power": lambda h, _: h[:, 0] ** 4,
}

# Functions whose means are compared for correlated tokens.
TIMED_FUNCTIONALS = (*FUNCTIONALS, "query along the summary", "query label along the query")

# Gates of contexts of correlated tokens and of tasks that drift.
GATES = np.linspace(0.4, 1, CONTEXT)
# Prompts with such contexts.
TIMED = 20_000
# Law of the contexts of tasks that drift.
DRIFTING = Problem(DIM, CONTEXT, noise_variance=RHO, task_law="sphere", correlation=0.9, drift=2.0)
# Correlations of tokens: of neighbours, or by their distance.
CORRELATIONS = {"neighbours": 0.6, "distances": (1.0, 0.4, -0.1)}

# Means over contexts with one noise level, by what is averaged.
RARE = {"weights": 1.0, "squared input": 1.0, "squared label": DIM + 1.0}
# Contexts that are drawn at a time.
BLOCK = 2000


@named_cell("summary_sample")
def summary_sample(*, sampler: str, prompts: int, rng: SeedSequence) -> dict[str, Estimate]:
    """Means of functionals of the summaries, token by token or from the exact law."""
    backend = get_backend("numpy")
    generator = np.random.default_rng(rng)
    law = Problem(DIM, CONTEXT, noise_variance=RHO)
    tasks = draw_fresh_tasks(law, backend, generator, prompts)
    if sampler == "tokens":
        drawn = draw_prompts(law, backend, generator, prompts, tasks=tasks)
        summaries = context_summary(drawn)
    else:
        summaries = sample_summaries(backend, generator, tasks, CONTEXT, RHO)
    return {
        name: Estimate.of(function(summaries, tasks), keep=False)
        for name, function in FUNCTIONALS.items()
    }


@named_cell("timed_sample")
def timed_sample(
    *, correlation: float | Sequence[float], sampler: str, prompts: int, rng: SeedSequence
) -> dict[str, Estimate]:
    """Means of functionals of gated summaries of correlated tokens, and of the next one."""
    backend = get_backend("numpy")
    generator = np.random.default_rng(rng)
    law = Problem(DIM, CONTEXT, noise_variance=RHO, correlation=correlation, correlated_query=True)
    tasks = draw_fresh_tasks(law, backend, generator, prompts)
    if sampler == "tokens":
        drawn = draw_prompts(law, backend, generator, prompts, tasks=tasks)
        query = drawn.query
        label = drawn.query_label
        summaries = context_summary(drawn, GATES)
    else:
        query, summaries, label = sample_correlated_summaries(
            law, backend, generator, tasks, GATES
        )
    values = {name: function(summaries, tasks) for name, function in FUNCTIONALS.items()}
    values["query along the summary"] = np.sum(query * summaries[:, :-1], axis=1)
    values["query label along the query"] = label * np.sum(query * tasks, axis=1)
    return {name: Estimate.of(value, keep=False) for name, value in values.items()}


@named_cell("drifting_powers")
def drifting_powers(*, blocks: int, rng: SeedSequence) -> np.ndarray:
    """Means of the label power and of its square where tasks drift, (2, blocks)."""
    device = get_backend("numpy")
    means = []
    for generator in device.generators(rng, blocks):
        tasks = draw_fresh_tasks(DRIFTING, device, generator, TIMED // 2)
        drawn = draw_prompts(DRIFTING, device, generator, TIMED // 2, tasks=tasks)
        power = context_summary(drawn, GATES)[:, -1]
        means.append((np.mean(power), np.mean(power**2)))
    return np.transpose(means)


@named_cell("drawn_error")
def drawn_error(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:
    """Exact test error of a drawn matrix, on correlated queries or on tasks that drift."""
    where, prompts = rng.spawn(2)
    generator = np.random.default_rng(where)
    d = DIM
    context = int(generator.integers(3, 9))
    correlation = float(generator.uniform(-0.6, 0.8))
    times: dict[str, Any] = {"correlation": correlation}
    times |= {"drift": float(generator.uniform(0.5, 3))} if number else {"correlated_query": True}
    problem = Problem(d, context, noise_variance=RHO, task_law="sphere", **times)
    gates = generator.uniform(0.3, 1, context)
    few = not number
    gamma = 0.3 * np.eye(d, d + 1) + 0.3 * generator.standard_normal((d, d + 1))
    gamma[:, d] *= 3
    law = SummaryLaw(get_backend("numpy"), problem, "tokens", gates)
    tasks = law.fresh_tasks(generator, 3) if few else None
    errors = squared_errors(gamma, *law.draw(np.random.default_rng(prompts), repeats, tasks))
    theory = law.test_error(generator, gamma, repeats, tasks)
    words = describe({"context": context, **times, "tasks": "three" if few else "fresh"})
    return RandomSetting(words, {"test error": (theory, Estimate.of(errors, keep=False))})


@named_cell("rare_contexts")
def rare_contexts(*, blocks: int, rng: SeedSequence) -> dict[str, np.ndarray]:
    """Means of the weights, and of the weighted squares of labels and inputs, by block."""
    device = get_backend("numpy")
    law = Problem(DIM, CONTEXT, scale=1, noise_law="fixed:1")
    means = []
    for generator in device.generators(rng, blocks):
        drawn = draw_contexts(law, device, generator, BLOCK, rare=True)
        squares = drawn.weights[:, None] * np.diagonal(drawn.gram, axis1=1, axis2=2) / CONTEXT
        means.append((np.mean(drawn.weights), *np.mean(squares, axis=0)[[0, -1]]))
    return dict(zip(RARE, np.transpose(means), strict=True))


def rows(effort: Effort) -> Rows:
    """Moments of the summaries, and errors of models trained on them: exact law and tokens."""
    prompts = effort.pick(quick=100_000, medium=1_000_000, full=2_000_000)
    fast = run(summary_sample, sampler="summaries", prompts=prompts)
    tokens = run(summary_sample, sampler="tokens", prompts=prompts)
    for name in FUNCTIONALS:
        of = f"sample_summaries.{name}"
        yield mean(f"mean of {name}", tokens[name], fast[name], of=of)
    for words, correlation in CORRELATIONS.items():
        given = {"correlation": correlation, "prompts": effort(TIMED)}
        fast = run(timed_sample, sampler="summaries", **given)
        tokens = run(timed_sample, sampler="tokens", **given)
        for name in TIMED_FUNCTIONALS:
            label = f"mean of {name}, correlated {words}"
            yield mean(label, tokens[name], fast[name], of="")
    powers = run(drifting_powers, blocks=effort.pick(tiny=8, quick=20, medium=60))
    moments = call(timed_moments, DRIFTING, GATES)
    expected = {"label power": moments.tail, "label power, squared": moments.tail_square}
    for number, (name, moment) in enumerate(expected.items()):
        yield mean(f"mean of {name}, tasks that drift", moment, powers[number], of="")
    yield from random_rows(effort, "any matrix", drawn_error, TIMED, {"test error": ""})
    fast = POINT.simulated(POINT_DIM, effort(60), sampler="summaries")
    tokens = POINT.simulated(POINT_DIM, effort(60), sampler="tokens")
    yield from both_errors(f"d={POINT_DIM} {POINT}", tokens, fast, of="simulate_errors")
    weighted = run(rare_contexts, blocks=effort.pick(tiny=8, quick=30, medium=100))
    for name, theory in RARE.items():
        yield mean(f"mean of {name}, rare contexts", theory, weighted[name], draws="rare")


claim = Claim.of("sampler", __doc__, rows, figure=False)
