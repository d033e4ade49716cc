"""Merged attention is a two-layer network on cubic features.

From the same weights, on the law of the data, merged attention and the two-layer network on
cubic features have the same loss at every step.  With ever smaller steps its drop comes when that
of the flow is predicted.  On finite training sets the difference of the two vanishes as their
size grows.

Source: {zhang2025}, section 3 and Figure 1.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.dynamics import (
    effective_init_scale,
    merged_curve_drop_time,
    plateau_losses,
)
from iclimit.drawing import COLOURS, Figure, draw_sizes, finish, panels, write_key
from iclimit.results import Estimate
from iclimit.simulate.dynamics import AttentionModel, initial_weights, simulate_gradient_descent
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, drawing, exact, limit, run
from iclimit.validation.claims.dynamics.setting import (
    CONTEXT,
    draw_prediction,
    eigenvalues,
    problem,
)

# Eigenvalues of the inputs.
LAM = eigenvalues(4)
# Sizes of the training set.
SETS = (500, 1000, 2000, 4000)
# Gradient descent of both models.
TRAINING: dict[str, Any] = {
    "heads": 8,
    "init_scale": 1e-3,
    "learning_rate": 0.002,
    "steps": 1500,
    "record": 10,
    "normalization": "sum",
}
# Relative difference of two programs for the same curve.
ROUNDING = 1e-11

# Scale of the initial weights from which descent is compared with the flow.  One start: the theory
# is that of the same weights.
SCALE = 1e-6
# Parts of the drop whose times are compared.
FRACTIONS = (0.25, 0.5, 0.75)
# Learning rates, each half of the one before; the largest grows the weights by 3 % in a step.
RATES = (0.16, 0.08, 0.04)
# Relative, of a time without the terms of first and second order in the learning rate (measured:
# at most 1e-5).
TIME_TOLERANCE = 1e-4


@named_cell("paired_descent")
def paired_descent(
    *, training_set: float, repeats: int, rng: SeedSequence, backend: str = "numpy"
) -> dict[str, Any]:
    """Gradient descent of both models from the same weights.

    Training losses of the first repeat, the largest difference of any, relative to the first loss,
    and the last loss of the network minus that of merged attention.
    """
    same: dict[str, Any] = {
        **TRAINING,
        "training_set": training_set,
        "repeats": repeats,
        "rng": rng,
        "backend": backend,
    }
    merged = simulate_gradient_descent(problem(4), model="merged", **same)
    cubic = simulate_gradient_descent(problem(4), model="cubic", **same)
    difference = cubic.losses - merged.losses
    return {
        "losses": np.stack([merged.recorded_at, merged.losses[0], cubic.losses[0]]),
        "difference": float(np.max(np.abs(difference)) / merged.losses[0, 0]),
        "gap": Estimate.of(difference[:, -1]),
    }


@named_cell("descent_times")
def descent_times(*, rng: SeedSequence) -> tuple[list[float], list, list]:
    """Times of descent of the network at which it has fallen by ``FRACTIONS``, extrapolated.

    The initial weights, which come with them, are the same at every learning rate.
    """
    losses = plateau_losses(LAM, context=CONTEXT)
    levels = losses[0] - np.array(FRACTIONS) * (losses[0] - losses[-1])
    setting: dict[str, Any] = {"model": "cubic", "init_scale": SCALE, "training_set": math.inf}
    growth = float(np.linalg.norm(LAM**2))
    halved = []
    for rate in RATES:
        steps = int(-1.5 * math.log(SCALE) / (2 * rate * growth))
        run = simulate_gradient_descent(
            problem(4), learning_rate=rate, steps=steps, record=1, rng=rng, **setting
        )
        halved.append(np.interp(-levels, -run.losses[0], run.times))
    first, second, third = halved  # h, h / 2, h / 4: without terms in h and in h^2
    times = (8 * third - 6 * second + first) / 3
    value, lookup = initial_weights(AttentionModel("cubic", 4, 8), SCALE, rng=rng)
    return times.tolist(), value[:, 0].tolist(), lookup.tolist()


def rows(effort: Effort) -> Rows:
    """The curves and times on the law, and the gap for infinite training sets."""
    counts = dict.fromkeys(SETS, effort(10)) | {math.inf: 2}
    runs = {
        size: run(paired_descent, training_set=size, repeats=count)
        for size, count in counts.items()
    }
    label = "difference of the curves on the law of the data"
    yield exact(label, 0.0, runs[math.inf]["difference"], allowance=ROUNDING)
    times = run(descent_times)
    scale = call(effective_init_scale, times[1], key_query=times[2], eigenvalues=LAM)
    for number, part in enumerate(FRACTIONS):
        label = f"time to {part} of the drop, extrapolated to small steps"
        theory = call(
            merged_curve_drop_time, part, eigenvalues=LAM, context=CONTEXT, init_scale=scale
        )
        yield exact(label, theory, times[0][number], relative=TIME_TOLERANCE)
    gaps = {size: runs[size]["gap"] for size in SETS}
    label = "gap of the training losses, extrapolated to infinite training sets"
    yield limit({label: 0.0}, gaps, order=2, name="Gap", size="$P$")
    yield drawing(draw, runs, gaps)


def draw(
    figure: Figure, runs: Mapping[float, dict[str, Any]], gaps: Mapping[int, Estimate]
) -> None:
    """Draw both models on the law and on one training set, and their gap."""
    steps, first, second = runs[math.inf]["losses"]
    _, merged, cubic = runs[SETS[0]]["losses"]
    left, right = panels(figure)
    names = ("merged attention", "network on cubic features")
    draw_prediction(left, steps, first, second, COLOURS[0], names)
    left.plot(steps, merged, color=COLOURS[1], label=f"merged, {SETS[0]} sequences")
    left.plot(steps, cubic, color=COLOURS[1], linestyle=":", label="network, the same")
    finish(left, "step", "training loss", legend="")
    draw_sizes(right, SETS, [*gaps.values()], COLOURS[1])
    right.set_ylim(bottom=0)
    finish(right, "1 / training set", "network minus merged attention")
    write_key(figure, "lines: training losses; points: simulation, towards 0 in theory")


claim = Claim.of("dynamics-cubic", __doc__, rows)
