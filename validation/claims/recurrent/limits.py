"""Recurrent layers in the limit: best steps, gates, drift, regression with forgetting.

Mean errors on simulated contexts, extrapolated to infinite dimension, equal the limits: of the
delta rule with the best step at every token and at its best constant step, with and without drift;
of delta rules with any and with the best gate in long contexts of tasks that change; of gated
linear attention with its best readout, whose effective context is compared, too; and of ridge
regression that gives recent pairs more weight.  Best gates and best regression are run at the
parameters of the theory, around which the error is flat.  Gated attention and regression are also
run in a context whose length, noise, drift and memory the seed draws.

Source: Derived in the documentation.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import recurrent
from iclimit.simulate.recurrent import simulate_forgetting, simulate_recurrent
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Row, Rows, call, limit, run
from iclimit.validation.claims.random_settings import RandomLimit, describe, random_limit

# Variance of the label noise.
RHO = 0.25
# Pairs over dimension of a context.
ALPHA = 3
# Drift of such a context.
DRIFT = 0.5
# Drift of endless contexts.
FAST = 1.0
# Pairs over dimension of contexts that stand for endless ones.
LONG = 5
# Best constant steps without drift and with it, for ALPHA.
STEPS = (0.555, 0.704)
# Best constant step in endless contexts.
TRACKING_STEP = 0.745
# A step that is not the best in endless contexts.
STEP = 0.8
# A rate of forgetting that is not the best in endless contexts.
FORGETTING = 0.4
# Best rate of forgetting in endless contexts under the fast drift.
BEST_FORGETTING = 1.612
# Penalty and rate of forgetting of regressions: any, and the best ones for ALPHA and DRIFT.
REGRESSIONS = {"any": (0.4, 0.5), "best": (0.229, 1.68)}

# Contexts by dimension at a setting that is drawn.
DRAWN = {6: 1200, 12: 800, 20: 100, 40: 60}
# Contexts by dimension.  Their scatter falls as 1/d, their cost rises as d^3.  These numbers give
# the limit at least cost, and the third size tests the fit.  Polynomials of second order in 1/d
# miss the limits of the exact errors at these sizes by 1.3e-4, straight lines by 3e-3.
CONTEXTS = {6: 1300, 12: 1100, 20: 110, 40: 105}
# Order of these polynomials.
ORDER = 2


@named_cell("scheduled")
def scheduled(*, dim: int, contexts: int, rng: SeedSequence) -> np.ndarray:
    """Errors at the end of contexts, with the best step at every token."""
    loss = 1.0
    steps = []
    for _ in range(ALPHA * dim):
        steps.append(loss / ((1 + 2 / dim) * loss + RHO))
        loss *= 1 - steps[-1] / dim
    return last(dim=dim, contexts=contexts, rng=rng, step_sizes=steps)


@named_cell("last")
def last(*, dim: int, alpha: int = ALPHA, forgetting: float = 0.0, **setting: Any) -> np.ndarray:
    """Errors at the end of contexts of a layer with a constant gate."""
    gate = float(np.exp(-forgetting / dim))
    sizes: dict[str, Any] = {"dim": dim, "context": alpha * dim, "rho": RHO}
    return simulate_recurrent(**sizes, gates=gate, gate_first=False, **setting).errors[:, -1]


@named_cell("gated")
def gated(
    *,
    dim: int,
    alpha: int,
    forgetting: float,
    drift: float,
    rho: float = RHO,
    contexts: int,
    rng: SeedSequence,
) -> np.ndarray:
    """Samples of the error with the best readout and of the effective context, (2, contexts).

    They are linear in the samples of signal R and power P, around the means.
    """
    sizes: dict[str, Any] = {"dim": dim, "context": alpha * dim, "rho": rho, "drift": drift}
    gate = float(np.exp(-forgetting / dim))
    layer = simulate_recurrent(**sizes, gates=gate, contexts=contexts, rng=rng)
    R = layer.signal[:, -1]
    P = layer.power[:, -1]
    r = R.mean()
    p = P.mean()
    error = rho + 1 - 2 * r / p * R + (r / p) ** 2 * P
    noise = p - r**2
    context = (1 + rho) * (r**2 / noise + (2 * r * p * (R - r) - r**2 * (P - p)) / noise**2)
    return np.array([error, context])


@named_cell("regressed")
def regressed(*, dim: int, **setting: Any) -> np.ndarray:
    """Errors of regressions at the end of contexts."""
    return simulate_forgetting(dim=dim, context=ALPHA * dim, rho=RHO, **setting).samples


@named_cell("drawn_memories")
def drawn_memories(*, counts: Sequence[tuple[int, int]], rng: SeedSequence) -> RandomLimit:
    """Gated attention and regression for drawn lengths of contexts, noise, drift and gates."""
    where, *seeds = rng.spawn(1 + len(counts))
    generator = np.random.default_rng(where)
    alpha = int(generator.integers(2, 6))
    rho, drift, forgetting, penalty = generator.uniform(
        (0.1, 0.1, 0.1, 0.2), (1.0, 1.0, 1.5, 1.5)
    ).tolist()
    memory = {"forgetting": forgetting, "drift": drift}
    runs = {}
    for (dim, count), seed in zip(counts, seeds, strict=True):
        size: dict[str, Any] = {"dim": dim, "contexts": count, "rho": rho, **memory}
        attention, regression = seed.spawn(2)
        plain = gated(**size, alpha=alpha, rng=attention)[0]
        context = {"context": alpha * dim, "penalty": penalty}
        runs[dim] = np.stack(
            [plain, simulate_forgetting(**size, **context, rng=regression).samples]
        )
    at: dict[str, Any] = {"alpha": alpha, "rho": rho, **memory}
    limits = {
        "gated attention": float(recurrent.gated_error(**at)),
        "regression": float(recurrent.forgetting_error(**at, penalty=penalty)),
    }
    return RandomLimit(describe(at | {"penalty": penalty}), limits, runs)


def extrapolated(theories: dict[str, Any], runs: dict[int, Any], draws: str) -> Row:
    """Limits against extrapolated runs."""
    return limit(theories, runs, draws=draws, order=ORDER)


def rows(effort: Effort) -> Rows:
    """Limits against extrapolated errors, one run at each size for each."""

    def runs(function: Callable[..., Any], times: int = 1, **setting: Any) -> dict[int, Any]:
        return {
            dim: run(function, dim=dim, contexts=times * count, **setting)
            for dim, count in effort.by_size(CONTEXTS).items()
        }

    at = {"alpha": ALPHA, "rho": RHO}
    best = call(recurrent.optimal_delta_step, **at).error
    yield extrapolated({"best steps": best}, runs(scheduled), draws="steps")
    for drift, step in zip((0.0, DRIFT), STEPS, strict=True):
        theory = call(recurrent.constant_delta_step, **at, drift=drift).error
        simulated = runs(last, step_sizes=step, drift=drift, forgetting=drift)
        yield extrapolated(
            {f"best constant step, drift {drift:g}": theory}, simulated, draws=f"step {drift}"
        )

    endless = {"drift": FAST, "rho": RHO}
    tracking = call(recurrent.optimal_tracking, **endless).error
    simulated = runs(last, alpha=LONG, drift=FAST, forgetting=FAST, step_sizes=TRACKING_STEP)
    yield extrapolated({"best gated delta rule": tracking}, simulated, draws="tracking")
    layer = {"forgetting": FORGETTING, "step_size": STEP}
    tracking = call(recurrent.tracking_error, **endless, **layer)
    simulated = runs(last, alpha=LONG, drift=FAST, forgetting=FORGETTING, step_sizes=STEP)
    yield extrapolated({"gated delta rule": tracking}, simulated, draws="gate")

    gate: dict[str, Any] = {"forgetting": FORGETTING, "drift": DRIFT}
    simulated = runs(gated, times=3, alpha=ALPHA, **gate)
    # Both numbers are functions of the same ratio, so that they are extrapolated one by one.
    for number, (name, function) in enumerate(
        (
            ("gated attention", recurrent.gated_error),
            ("effective context", recurrent.effective_context),
        )
    ):
        theory = call(function, **at, **gate)
        samples = {dim: errors[number] for dim, errors in simulated.items()}
        yield extrapolated({name: theory}, samples, draws="gated")
    simulated = runs(gated, alpha=LONG, forgetting=BEST_FORGETTING, drift=FAST)
    theory = call(recurrent.optimal_forgetting, rho=RHO, drift=FAST).error
    errors = {dim: samples[0] for dim, samples in simulated.items()}
    yield extrapolated({"best gate": theory}, errors, draws="best gate")
    for name, (penalty, rate) in REGRESSIONS.items():
        memory: dict[str, Any] = {"penalty": penalty, "forgetting": rate}
        theory = (
            call(recurrent.optimal_memory, **at, drift=DRIFT).error
            if name == "best"
            else call(recurrent.forgetting_error, **at, **memory, drift=DRIFT)
        )
        simulated = runs(regressed, drift=DRIFT, **memory)
        yield extrapolated(
            {f"regression, {name} memory": theory}, simulated, draws=f"regression {name}"
        )
    of = {"gated attention": "gated_error", "regression": "forgetting_error"}
    yield from random_limit(effort, "memories", drawn_memories, DRAWN, of, order=ORDER)


claim = Claim.of("recurrent-limits", __doc__, rows, figure=False)
