"""Recurrent layers at every position: gates, delta rule, preconditioner, drift.

Mean errors of linear recurrent layers on simulated contexts, averaged over tasks and noise
exactly, equal the recursion of two moments at the same integers: linear attention, a gate, a gate
for each channel, the delta rule, unit keys, and everything at once for unlike inputs and tasks
that drift, with the gate first or last.  Steps are given, or the best ones.  The delta rule at a
constant step has its closed form.  Layers with everything drawn by the seed are compared, too.

Source: Derived in the documentation.
"""

from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.recurrent import delta_rule_error, recurrent_errors
from iclimit.simulate.recurrent import simulate_recurrent
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, mean, run
from iclimit.validation.claims.random_settings import RandomSetting, describe, random_rows

# Dimension of the inputs.
DIM = 8
# Pairs of a context.
CONTEXT = 24
# Variance of the label noise.
RHO = 0.25
# Positions whose errors are compared.
POSITIONS = (4, 12, 24)
# Contexts that are simulated.
CONTEXTS = 4000

# Spectra, gates and steps without any symmetry.
UNLIKE: dict[str, Any] = {
    "eigenvalues": tuple(np.linspace(0.4, 1.6, DIM)),
    "task_variances": tuple(np.geomspace(0.5, 2, DIM)),
    "drift": tuple(np.linspace(0, 1.2, DIM)),
    "preconditioner": tuple(np.linspace(1.4, 0.6, DIM)),
    "gates": tuple(np.linspace(0.92, 0.99, CONTEXT)),
    "channel_gates": tuple(np.linspace(1, 0.94, DIM)),
    "step_sizes": tuple(np.linspace(0.9, 0.5, CONTEXT)),
    "writes": tuple(np.linspace(0.7, 0.6, CONTEXT)),
    "readout": 0.9,
}
# Constant step of the delta rule.
STEP = 0.7
# Rate at which tasks drift, in units of 1/d.
DRIFT = 0.6

# Rule and arguments by name.
LAYERS: dict[str, tuple[str, dict[str, Any]]] = {
    "linear attention": ("linear", {"readout": 0.03}),
    "gate on drift": ("decay", {"gates": 0.93, "drift": DRIFT, "readout": 0.06}),
    "channel gates": (
        "channel-gated",
        {"channel_gates": UNLIKE["channel_gates"], "writes": 0.9, "readout": 0.05},
    ),
    "delta rule": ("delta", {"step_sizes": STEP}),
    "unit keys": ("delta", {"step_sizes": 1.3, "unit_keys": True}),
    "unlike channels, gate first": ("gated-delta", UNLIKE),
    "unlike channels, gate last": ("gated-delta", UNLIKE | {"gate_first": False}),
}

# A delta rule whose memory decays after each token as the tasks do.
TRACKING = {"drift": DRIFT, "step_sizes": STEP, "gates": float(np.exp(-DRIFT / DIM))}


def best_steps() -> tuple[float, ...]:
    """Steps of the delta rule that minimise the next loss, from the loss of one pair."""
    loss = 1.0
    steps = []
    for _ in range(CONTEXT):
        steps.append(loss / ((1 + 2 / DIM) * loss + RHO))
        loss *= 1 - steps[-1] / DIM
    return tuple(steps)


@named_cell("random_layer")
def random_layer(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:  # noqa: ARG001
    """Last error of a layer whose size, gates, steps, spectra and drift are drawn."""
    where, contexts = rng.spawn(2)
    generator = np.random.default_rng(where)
    dim = int(generator.integers(2, 11))
    context = int(generator.integers(1, 4 * dim))

    def channels(low: float, high: float) -> tuple[float, ...]:
        return tuple(generator.uniform(low, high, dim))

    size: dict[str, Any] = {"dim": dim, "context": context, "rho": float(generator.uniform(0, 1))}
    layer: dict[str, Any] = {
        "eigenvalues": channels(0.3, 1.7),
        "task_variances": channels(0.5, 1.5),
        "drift": channels(0, 1),
        "preconditioner": channels(0.5, 1.5),
        "gates": tuple(generator.uniform(0.9, 1, context)),
        "channel_gates": channels(0.9, 1),
        "step_sizes": tuple(generator.uniform(0.2, 0.8, context)),
        "writes": tuple(generator.uniform(0.3, 1, context)),
        "readout": float(generator.uniform(0.5, 1.2)),
        "gate_first": bool(generator.integers(2)),
    }
    simulated = simulate_recurrent(**size, **layer, contexts=repeats, rng=contexts)
    theory = float(recurrent_errors("gated-delta", **size, **layer).error[-1])
    words = describe(size | {"rate_of_last": layer["step_sizes"][-1], "readout": layer["readout"]})
    return RandomSetting(words, {"error": (theory, simulated.means[context])})


def rows(effort: Effort) -> Rows:
    """Errors of all layers, of the best steps, in closed form, and of drawn layers."""
    size: dict[str, Any] = {"dim": DIM, "context": CONTEXT, "rho": RHO}
    more = {"contexts": effort(CONTEXTS)}
    for name, (rule, layer) in LAYERS.items():
        simulated = run(simulate_recurrent, **size, **layer, **more).means
        errors = call(recurrent_errors, rule, **size, **layer).error
        for position in POSITIONS:
            where = f"{name}, position {position}"
            yield mean(
                where,
                errors[position],
                simulated[position],
                draws=name,
                x=("context", position),
                family=name,
            )
    simulated = run(simulate_recurrent, **size, **more, step_sizes=best_steps()).means
    best = call(recurrent_errors, "delta", **size)
    for position in POSITIONS:
        label = f"best steps, position {position}"
        yield mean(label, best.error[position], simulated[position], draws="best")
    constant = {"rho": RHO, "step_size": STEP, "dim": DIM}
    plain = run(simulate_recurrent, **size, **more, step_sizes=STEP).means
    tracked = run(simulate_recurrent, **size, **more, **TRACKING, gate_first=False).means
    for position in POSITIONS:
        alpha = position / DIM
        theory = call(delta_rule_error, alpha=alpha, **constant)
        yield mean(f"closed form, position {position}", theory, plain[position], draws="closed")
        theory = call(delta_rule_error, alpha=alpha, **constant, drift=DRIFT)
        label = f"closed form with drift, position {position}"
        yield mean(label, theory, tracked[position], draws="drift")
    yield from random_rows(
        effort, "layer", random_layer, CONTEXTS, {"error": "recurrent_errors.error"}
    )


claim = Claim.of("recurrent-layers", __doc__, rows, figure=False)
