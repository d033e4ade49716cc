"""Heads of separate attention: how they grow, what they learn, and how many are needed.

One balanced head in an eigendirection grows as the closed solution.  Heads in any set of
directions end at its fixed point.  H heads of rank R with small random weights end where the
min(H R, D) largest directions are learned; more heads change nothing but the times.  All labels
are noisy.

Source: {zhang2025}, sections 4 and 5.
"""

from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import dynamics
from iclimit.simulate.dynamics import AttentionModel, simulate_gradient_flow
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Later, Rows, call, exact, run
from iclimit.validation.claims.dynamics.setting import CONTEXT, eigenvalues, problem

# Dimension of the inputs.
DIM = 4
# Scale of the random initial weights.
SCALE = 0.02
# Variance of the label noise.
NOISE = 0.1
# Eigenvalues of the inputs.
LAM = eigenvalues(DIM)
# Context length and noise, as arguments of the theory.
SIZES: dict[str, Any] = {"context": CONTEXT, "noise_variance": NOISE}
# Heads and ranks.
HEADS = ((1, 1), (2, 1), (3, 1), (6, 1), (1, 2), (2, 2), (1, 4))
# Random weights from which the flows of each of these start.  All end where theory says.
STARTS = {"tiny": 1, "quick": 3, "medium": 20}
# Relative, of losses and weights at the end of a flow (measured: at most 2e-12).
END_TOLERANCE = 1e-10

# Weights of aligned heads at the start.
START = 0.1
# Duration of a flow to their fixed point, over the time that a head takes to grow that learns its
# smallest direction.
LATE = 4.0
# Directions in which single heads grow.
GROWING = (0, 2)
# Durations of their flows in units of 1/(start lambda^2).
PARTS = (0.7, 0.9, 1.0, 1.1)
# Starts whose times to half of the drop differ by the difference of their escape times.
SMALL = (1e-3, 2e-3)
# Relative, of times and weights of a growing head (measured: at most 1e-8).
TIME_TOLERANCE = 1e-7
# Relative tolerance of the integration.
RTOL = 1e-10


@named_cell("aligned_heads")
def aligned_heads(
    *, directions: tuple[int, ...], start: float, duration: float, rng: SeedSequence
) -> tuple[float, list[float], float]:
    """Flow of heads of rank one whose weights start balanced, each in a direction of its own.

    Last loss, last value weight of each head, and time of half of the drop.
    """
    del rng
    heads = len(directions)
    value = np.zeros((heads, DIM + 1))
    key = np.zeros((heads, 1, DIM + 1))
    value[:, -1] = start
    key[range(heads), 0, directions] = start
    flow = simulate_gradient_flow(
        problem(DIM, NOISE),
        model="separate",
        heads=heads,
        initial=[value, key, key[..., :-1].copy()],
        duration=duration,
        rtol=RTOL,
    )
    half = flow.crossing_times((flow.losses[0] + flow.losses[-1]) / 2)
    return float(flow.losses[-1]), flow.weights[0][:, -1].tolist(), float(half)


@named_cell("few_heads")
def few_heads(*, heads: int, rank: int, seed: int, rng: SeedSequence) -> float:
    """Last loss of a flow of separate attention with few heads."""
    del seed  # cells of different seeds differ
    model = AttentionModel("separate", DIM, heads, rank)
    weights = model.random_weights(np.random.default_rng(rng), SCALE)
    duration = 2000 / (SCALE * float(LAM[0]))
    flow = simulate_gradient_flow(
        problem(DIM, NOISE),
        model="separate",
        heads=heads,
        rank=rank,
        initial=weights,
        duration=duration,
    )
    return float(flow.losses[-1])


def aligned(directions: tuple[int, ...], start: float, part: float) -> Later:
    """Flow that lasts for a part of the escape time of the smallest direction."""
    duration = part / (start * float(LAM[directions[-1]]) ** 2)
    return run(aligned_heads, directions=directions, start=start, duration=duration)


def rows(effort: Effort) -> Rows:
    """Last losses of few heads, fixed points, and growing heads."""
    heights = call(dynamics.plateau_losses, LAM, **SIZES)
    for heads, rank in effort.pick(tiny=HEADS[1::4], quick=HEADS):
        for seed in range(effort.pick(**STARTS)):
            label = f"last loss, {heads} heads of rank {rank}, seed {seed}"
            last = run(few_heads, heads=heads, rank=rank, seed=seed)
            x = {"x": ("heads times rank", heads * rank), "family": f"rank {rank}"}
            yield exact(label, heights[min(heads * rank, DIM)], last, relative=END_TOLERANCE, **x)
    yield from end_rows(effort.pick(tiny=4, quick=1))
    for k in effort.pick(tiny=GROWING[:1], quick=GROWING):
        yield from growth_rows(k)


def growth_rows(k: int) -> Rows:
    """The growth of one head in direction k, by the closed solution and its inverse."""
    lam = float(LAM[k])
    more: dict[str, float] = {"eigenvalue": lam, "trace": 1.0, **SIZES}
    begin = float(dynamics.time_from_pole(START, **more))
    for part in PARTS:
        value = aligned((k,), START, part)[1][0]
        time = part / (START * lam**2)
        grown = call(dynamics.growth_time, value, initial_value=START, **more)
        from_pole = call(dynamics.time_from_pole, value, **more) - begin
        for function, theory, estimate in (
            ("growth_time", grown, time),
            ("time_from_pole", from_pole, time),
            ("head_growth", call(dynamics.head_growth, begin + time, **more), value),
        ):
            label = f"{function}, direction {k + 1}, {part} escape times"
            yield exact(label, theory, estimate, relative=TIME_TOLERANCE, of=function)
    escapes = [float(dynamics.escape_time(start, eigenvalue=lam)) for start in SMALL]
    halves = [aligned((k,), start, 1.3)[2] for start in SMALL]
    label = f"difference of escape times, direction {k + 1}"
    yield exact(
        label,
        escapes[0] - escapes[1],
        halves[0] - halves[1],
        relative=TIME_TOLERANCE,
        of="escape_time",
    )


def end_rows(stride: int) -> Rows:
    """The ends of flows of aligned heads at every so many fixed points."""
    points = call(dynamics.fixed_point_losses, LAM, **SIZES)
    values = call(dynamics.plateau_head_values, LAM, **SIZES)
    learned = dynamics.fixed_point_losses(LAM, **SIZES).learned
    for number, row in [*enumerate(learned)][::-stride]:
        if chosen := np.flatnonzero(row).tolist():
            flow = aligned(tuple(chosen), START, LATE)
            where = "".join(map(str, row.astype(int)))
            label = f"loss of the fixed point {where}"
            yield exact(label, points.losses[number], flow[0], relative=END_TOLERANCE)
            for place, head in enumerate(chosen):
                label = f"value of head {head}, fixed point {where}"
                yield exact(label, values[head], flow[1][place], relative=END_TOLERANCE)


claim = Claim.of("dynamics-heads", __doc__, rows, figure=False)
