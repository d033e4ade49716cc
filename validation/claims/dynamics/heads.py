"""Heads of separate attention: how they grow, what they learn, and how many are needed.

One balanced head in an eigendirection grows as the closed solution.  Heads in any set of
directions end at its fixed point.  H heads of rank R with small random weights end where the
min(H R, D) largest directions are learned; more heads change nothing but the times.

Source: {zhang2025}, sections 4 and 5.
"""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import (
    escape_time,
    fixed_point_losses,
    growth_time,
    head_growth,
    plateau_head_values,
    plateau_losses,
    time_from_pole,
)
from iclimit.drawing import COLOURS, Figure, finish, panels
from iclimit.simulate.dynamics import AttentionModel, simulate_gradient_flow
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.dynamics.setting import CONTEXT, eigenvalues, problem

DIM, SCALE = 4, 0.02
LAM = eigenvalues(DIM)
HEADS = ((1, 1), (2, 1), (3, 1), (6, 1), (1, 2), (2, 2), (1, 4))
"""Heads and ranks."""
SEEDS: dict[Preset, int] = {"quick": 1, "medium": 4, "full": 20}
END_TOLERANCE = 1e-10
"""Relative, of losses and weights at the end of a flow (measured: at most 2e-12)."""

START, LATE = 0.1, 4.0
"""Weights of aligned heads at the start.  A flow to their fixed point lasts so many times as long
as a head takes to grow that learns its smallest direction."""
GROWING, PARTS = (0, 2), (0.7, 0.9, 1.0, 1.1)
"""Directions of single heads, and durations in units of 1/(start lambda^2)."""
SMALL = (1e-3, 2e-3)
"""Starts whose times to half of the drop differ by the difference of their escape times."""
TIME_TOLERANCE = 1e-7
"""Relative, of times and weights of a growing head (measured: at most 1e-8)."""
RTOL = 1e-10


@dataclass(frozen=True)
class AlignedCell:
    """End of a flow of heads of rank one that start balanced in one direction each.

    Attributes
    ----------
    loss : float
        Last loss.
    values : list of float
        Last value weight of each head.
    half_time : float
        Time of half of the drop to the last loss.
    """

    loss: float
    values: list[float]
    half_time: float


def aligned_heads(
    *, directions: tuple[int, ...], start: float, duration: float, rng: Any
) -> AlignedCell:
    """Flow of heads whose value, key and query weights start at the same size."""
    del rng
    heads = len(directions)
    value, key = np.zeros((heads, DIM + 1)), np.zeros((heads, 1, DIM + 1))
    value[:, -1] = key[range(heads), 0, directions] = start
    flow = simulate_gradient_flow(
        problem(DIM),
        model="separate",
        heads=heads,
        initial=[value, key, key[..., :-1].copy()],
        duration=duration,
        rtol=RTOL,
    )
    half = flow.crossing_times((flow.losses[0] + flow.losses[-1]) / 2)
    return AlignedCell(float(flow.losses[-1]), flow.weights[0][:, -1].tolist(), float(half))


def few_heads(*, heads: int, rank: int, seed: int, rng: Any) -> float:
    """Last loss of a flow of separate attention with few heads."""
    del seed  # cells of different seeds differ
    model = AttentionModel("separate", DIM, heads, rank)
    weights = model.random_weights(np.random.default_rng(rng), SCALE)
    duration = 2000 / (SCALE * float(LAM[0]))
    flow = simulate_gradient_flow(
        problem(DIM), model="separate", heads=heads, rank=rank, initial=weights, duration=duration
    )
    return float(flow.losses[-1])


def aligned(directions: tuple[int, ...], start: float, part: float) -> Cell:
    """Flow that lasts for a part of the escape time of the smallest direction."""
    duration = part / (start * float(LAM[directions[-1]]) ** 2)
    return Cell.of(aligned_heads, directions=directions, start=start, duration=duration)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Last losses by heads, rank and seed; flows of aligned heads."""
    sets = [
        chosen for size in range(1, DIM + 1) for chosen in itertools.combinations(range(DIM), size)
    ]
    single = itertools.product(GROWING, [*((START, x) for x in PARTS), *((s, 1.3) for s in SMALL)])
    few: dict[Any, Cell] = {
        (heads, rank, seed): Cell.of(few_heads, heads=heads, rank=rank, seed=seed)
        for heads, rank in HEADS
        for seed in range(SEEDS[preset])
    }
    return (
        few
        | {frozenset(chosen): aligned(chosen, START, LATE) for chosen in sets}
        | {("one", k, start, part): aligned((k,), start, part) for k, (start, part) in single}
    )


def growth(results: Results, k: int) -> list[Comparison]:
    """Compare the growth of one head in direction k with the closed solution and its inverse."""
    lam = float(LAM[k])
    more: dict[str, float] = {"eigenvalue": lam, "trace": 1.0, "context": CONTEXT}
    begin, comparisons = time_from_pole(START, **more), []
    for part in PARTS:
        (value,), time = results["one", k, START, part].values, part / (START * lam**2)
        theories = {
            "growth_time": (growth_time(value, initial_value=START, **more), time),
            "time_from_pole": (time_from_pole(value, **more) - begin, time),
            "head_growth": (head_growth(begin + time, **more), value),
        }
        comparisons += [
            compare(
                f"{name}, direction {k + 1}, {part} escape times",
                theory,
                found,
                relative=TIME_TOLERANCE,
                of=name,
            )
            for name, (theory, found) in theories.items()
        ]
    less, most = (escape_time(start, eigenvalue=lam) for start in SMALL)
    early, late = (results["one", k, start, 1.3].half_time for start in SMALL)
    label = f"difference of escape times, direction {k + 1}"
    row = compare(label, less - most, early - late, relative=TIME_TOLERANCE, of="escape_time")
    return [*comparisons, row]


def ends(results: Results) -> list[Comparison]:
    """Compare the ends of flows of aligned heads with the fixed points."""
    points = fixed_point_losses(LAM, context=CONTEXT)
    values, comparisons = plateau_head_values(LAM, context=CONTEXT), []
    for learned, loss in zip(points.learned[1:], points.losses[1:], strict=True):
        chosen = np.flatnonzero(learned)
        run = results[frozenset(chosen.tolist())]
        where = "".join("01"[x] for x in learned.astype(int))
        comparisons += [
            compare(
                f"loss of the fixed point {where}",
                loss,
                run.loss,
                relative=END_TOLERANCE,
                of="fixed_point_losses.losses",
            ),
            *(
                compare(
                    f"value of head {number}, fixed point {where}",
                    values[number],
                    value,
                    relative=END_TOLERANCE,
                    of="plateau_head_values",
                )
                for number, value in zip(chosen, run.values, strict=True)
            ),
        ]
    return comparisons


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare growing heads, fixed points, and last losses of few heads with plateaus."""
    heights = plateau_losses(LAM, context=CONTEXT)
    few = {key: loss for key, loss in results.items() if isinstance(loss, float)}
    comparisons = [
        compare(
            f"last loss, {heads} heads of rank {rank}, seed {seed}",
            heights[min(heads * rank, DIM)],
            loss,
            relative=END_TOLERANCE,
            of="plateau_losses",
        )
        for (heads, rank, seed), loss in few.items()
    ]
    comparisons += [*ends(results), *(row for k in GROWING for row in growth(results, k))]
    notes = (
        "For merged attention the number of heads enters through the effective initial scale "
        "only: see dynamics-merged.",
    )

    def draw(figure: Figure) -> None:
        left, right = panels(figure, width=8.0, height=3.6)
        left.plot(range(DIM + 1), heights, "_", color="0.3", markersize=22, label="plateaus")
        for k, rank in enumerate(sorted({rank for _, rank in HEADS})):
            last = [(h * r, loss) for (h, r, _), loss in few.items() if r == rank]
            label, size = f"rank {rank}", 9 - 2 * k
            left.plot(
                *zip(*last, strict=True), "o", color=COLOURS[k], markersize=size, label=label
            )
        left.locator_params("x", integer=True)
        finish(left, "heads times rank", "loss at the end, D = 4", legend="")
        for k, colour in zip(GROWING, COLOURS, strict=False):
            lam = float(LAM[k])
            time = np.linspace(0, 1.2, 100)
            more: dict[str, float] = {"eigenvalue": lam, "trace": 1.0, "context": CONTEXT}
            begin = time_from_pole(START, **more)
            theory = head_growth(begin + time / (START * lam**2), **more)
            right.plot(time, theory, color=colour, label=f"eigenvalue {lam}")
            found = [results["one", k, START, part].values[0] for part in PARTS]
            right.plot(PARTS, found, "o", color=colour)
        finish(right, r"$\lambda^2 v_0 t/\tau$", "value weight of a head", legend="")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("dynamics-heads", __doc__, cells, judge)
