"""Loss curves of the published training script.

First and last loss, plateau heights and the steps of the drops of curves made with the
public script lie within the spread over seeds of runs on moments.

Source: {zhang2025}, public script, which also makes Figure 1 (validation/reference/README.md).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.comparison import Comparison
from iclimit.drawing import COLOURS, Figure, finish, panels
from iclimit.simulate.dynamics import simulate_gradient_descent
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, drawing, judged, note, run
from iclimit.validation.claims.dynamics.setting import problem
from iclimit.validation.reference.curves import CONTEXT, CURVES, Curve, eigenvalues

# Fewest seeds whose spread is used.
FEWEST = 3


@dataclass(frozen=True)
class CurvesCell:
    """What the curves of several seeds have in common, and in which they differ.

    Attributes
    ----------
    summaries : dict of list
        By name, one number for each seed; NaN where a curve does not get there.
    steps : list of int
    losses : list of list
        Thinned curves of all seeds.
    """

    summaries: dict[str, list[float]]
    steps: list[int]
    losses: list[list[float]]


@named_cell("trained_curves")
def trained_curves(
    *, curve: int, repeats: int, rng: SeedSequence, backend: str = "numpy"
) -> CurvesCell:
    """Curves with the settings of a published one."""
    published = CURVES[curve]
    training = published.settings
    dim = training.pop("dim")
    result = simulate_gradient_descent(
        problem(dim), repeats=repeats, rng=rng, backend=backend, **training
    )
    summaries = [published.summarise(result.recorded_at, losses) for losses in result.losses]
    kept = np.linspace(0, len(result.recorded_at) - 1, 300).astype(int)
    return CurvesCell(
        {name: [summary[name] for summary in summaries] for name in summaries[0]},
        result.recorded_at[kept].tolist(),
        result.losses[:, kept].tolist(),
    )


def rows(effort: Effort) -> Rows:
    """What summarises the published curves, beside the spread over seeds.

    Separate attention takes too long for a quick look.
    """
    seeds = effort.pick(
        tiny=(5, 5), quick=(16, 16), medium=(32, 32, 12, 10), full=(100, 100, 40, 40)
    )
    curves = CURVES[: len(seeds)]
    trained = [run(trained_curves, curve=k, repeats=count) for k, count in enumerate(seeds)]
    for curve, cell in zip(curves, trained, strict=True):
        yield judged(call(compare_curve, curve, cell))
    rest = "  Curves of separate attention are left to other presets."
    rest = "" if len(seeds) == len(CURVES) else rest
    yield note(
        "Weights and data of the published curves came from another generator: they are compared "
        f"with the spread between seeds.{rest}"
    )
    yield note(
        "Separate attention starts as the script did when the paper appeared: values of scale "
        "init, keys and queries of init / sqrt(R (D + 1)), per head."
    )
    yield note(call(describe_missing, curves, trained))
    yield drawing(draw, trained)


def compare_curve(curve: Curve, trained: CurvesCell) -> Iterator[Comparison]:
    """Compare a published curve, as one more draw from the law of our seeds."""
    for name, value in curve.summarise(*curve.read().T).items():
        ours = reached(trained.summaries[name])
        label = f"{curve.label}: {name}"
        if math.isfinite(value) and len(ours) < FEWEST:
            yield Comparison(f"{label}, not reached", value, math.inf, 0.0)
        elif math.isfinite(value):
            error = float(np.std(ours, ddof=1)) * math.sqrt(1 + 1 / len(ours))
            yield Comparison(label, value, float(np.mean(ours)), error, degrees=len(ours) - 1)


def reached(values: Sequence[float]) -> np.ndarray:
    """Numbers of the seeds that get there."""
    return np.array(values)[np.isfinite(values)]


def describe_missing(curves: Sequence[Curve], trained: Sequence[CurvesCell]) -> str:
    """What not all seeds reach."""
    missing = []
    for curve, cell in zip(curves, trained, strict=True):
        for name, value in curve.summarise(*curve.read().T).items():
            count = len(cell.summaries[name])
            ours = len(reached(cell.summaries[name]))
            if ours < count or not math.isfinite(value):
                neither = "" if math.isfinite(value) else "; not by the published curve"
                missing.append(f"{curve.label}: {name} ({ours} of {count}{neither})")
    return f"Not reached by all seeds: {', '.join(missing) or 'nothing'}."


def draw(figure: Figure, trained: Sequence[CurvesCell]) -> None:
    """Draw the published curves over those of our seeds."""
    axes = panels(figure, 2, len(trained) // 2, height=1.5 * len(trained))
    for ax, (index, cell) in zip(axes, enumerate(trained), strict=True):
        published = CURVES[index]
        for seed, losses in enumerate(cell.losses):
            style: dict[str, Any] = {"color": COLOURS[index], "linewidth": 0.8, "alpha": 0.5}
            ax.plot(cell.steps, losses, label="" if seed else "our seeds", **style)
        ax.plot(*published.read().T, color="0", linestyle="--", linewidth=1.4, label="published")
        for height in plateau_losses(eigenvalues(published.settings["dim"]), context=CONTEXT):
            ax.axhline(height, color="0.8", linewidth=0.7, zorder=0)
        ax.grid(visible=False)
        legend = None if index else ""
        finish(ax, "step", "training loss", title=published.label, legend=legend)


claim = Claim.of("dynamics-published", __doc__, rows)
