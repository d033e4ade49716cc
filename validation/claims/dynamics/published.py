"""Loss curves of the published training script.

First and last loss, plateau heights and the steps of the drops of curves made with the
public script lie within the spread over seeds of runs on moments.

Source: {zhang2025}, public script, which also makes Figure 1 (validation/reference/README.md).
"""

import itertools
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.drawing import COLOURS, Figure, finish, panels
from iclimit.published import settings
from iclimit.simulate.dynamics import simulate_gradient_descent
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict
from iclimit.validation.claims.dynamics.setting import CONTEXT, eigenvalues, problem
from iclimit.validation.yours.curves.features import first_below, slowest_loss


@dataclass(frozen=True)
class Curve:
    """A curve of the published script.

    Attributes
    ----------
    file, label : str
        End of the name of its file, and name in the report.
    setting : str
        Published setting that it was made with.
    record : int
        Steps from one row of the file to the next.
    learned : tuple of int
        Plateaus to be compared, by the number of learned directions.
    """

    file: str
    label: str
    setting: str
    record: int
    learned: tuple[int, ...]

    @property
    def settings(self) -> dict[str, Any]:
        """Arguments of the training, and the dimension."""
        return {**settings[self.setting], "record": self.record}

    def read(self) -> np.ndarray:
        """Steps and losses, shape (n, 2)."""
        path = resources.files("iclimit.validation") / "reference" / f"linattn_{self.file}.txt"
        with path.open(encoding="utf-8") as file:
            return np.loadtxt(file)

    def summarise(self, steps: np.ndarray, losses: np.ndarray) -> dict[str, float]:
        """First and last loss, heights of plateaus and logarithms of the steps of the drops."""
        dim = settings[self.setting]["dim"]
        plateaus = plateau_losses(eigenvalues(dim), context=CONTEXT)

        def middle(above: int, below: int) -> int:
            """Index of the first loss below the middle of two plateaus; their number if none."""
            return first_below(losses, (plateaus[above] + plateaus[below]) / 2)

        found = {"first loss": float(losses[0])}
        for k, pair in enumerate(itertools.pairwise((0, *self.learned, dim)), start=1):
            at = middle(*pair)
            reached = at < len(losses)
            found[f"ln(step) of drop {k}"] = math.log(float(steps[at])) if reached else math.nan
        for m in self.learned:
            start, stop = middle(m - 1, m), middle(m, m + 1)
            number = np.arange(len(losses) - 1)
            height = slowest_loss(losses, -np.diff(losses), (number >= start) & (number < stop))
            found[f"height with {m} learned"] = height
        if not self.learned:
            found["last loss"] = float(losses[-1])
        return found


CURVES = (
    Curve("attnM_H8_init1e-6", "merged", "zhang2025-merged", 10, ()),
    Curve("mlp_H8_init1e-6", "cubic features", "zhang2025-cubic", 10, ()),
    Curve("attnS_D4_H5_R1_P80000", "separate, D = 4, rank 1", "zhang2025-rank-1", 10, (1, 2, 3)),
    Curve("attnS_D8_H9_R2_P80000", "separate, D = 8, rank 2", "zhang2025-rank-2", 20, (2, 4, 6)),
)
SEEDS: dict[Preset, tuple[int, ...]] = {
    "quick": (16, 16),
    "medium": (32, 32, 12, 10),
    "full": (100, 100, 40, 40),
}
"""Seeds of the first curves; separate attention takes too long for a quick look."""
FEWEST = 3
"""Fewest seeds whose spread is used."""


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


def trained_curves(*, curve: int, repeats: int, rng: Any, backend: str = "numpy") -> CurvesCell:
    """Curves with the settings of a published one."""
    published = CURVES[curve]
    training = published.settings
    dim = training.pop("dim")
    run = simulate_gradient_descent(
        problem(dim), repeats=repeats, rng=rng, backend=backend, **training
    )
    found = [published.summarise(run.recorded_at, losses) for losses in run.losses]
    kept = np.linspace(0, len(run.recorded_at) - 1, 300).astype(int)
    return CurvesCell(
        {name: [each[name] for each in found] for name in found[0]},
        run.recorded_at[kept].tolist(),
        run.losses[:, kept].tolist(),
    )


def cells(preset: Preset) -> dict[Any, Cell]:
    """Trainings by the number of the curve."""
    return {
        curve: Cell.of(trained_curves, curve=curve, repeats=repeats)
        for curve, repeats in enumerate(SEEDS[preset])
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare what summarises the published curves with the spread over seeds."""
    comparisons, missing = [], []
    for index, run in results.items():
        published = CURVES[index]
        for name, value in published.summarise(*published.read().T).items():
            found = np.array(run.summaries[name])
            ours = found[np.isfinite(found)]
            label = f"{published.label}: {name}"
            known = math.isfinite(value)
            if len(ours) < len(found) or not known:
                neither = "" if known else "; not by the published curve"
                missing.append(f"{label} ({len(ours)} of {len(found)}{neither})")
            if known and len(ours) < FEWEST:
                comparisons.append(Comparison(f"{label}, not reached", value, math.inf, 0.0))
            elif known:
                # The published number is one more draw from the same law.
                error = float(np.std(ours, ddof=1)) * math.sqrt(1 + 1 / len(ours))
                mean, degrees = float(np.mean(ours)), len(ours) - 1
                comparisons.append(Comparison(label, value, mean, error, degrees=degrees))
    separate = len(results) == len(CURVES)
    rest = "" if separate else "  Curves of separate attention are left to other presets."
    notes = (
        "Weights and data of the published curves came from another generator: they are compared "
        f"with the spread between seeds.{rest}",
        "Separate attention starts as the script did when the paper appeared: values of scale "
        "init, keys and queries of init / sqrt(R (D + 1)), per head.",
        f"Not reached by all seeds: {', '.join(missing) or 'nothing'}.",
    )

    def draw(figure: Figure) -> None:
        axes = panels(figure, 2, len(results) // 2, width=8.0, height=1.4 * len(results))
        for ax, (index, run) in zip(axes, results.items(), strict=True):
            published = CURVES[index]
            for seed, losses in enumerate(run.losses):
                style: dict[str, Any] = {"color": COLOURS[index], "linewidth": 0.8, "alpha": 0.5}
                ax.plot(run.steps, losses, label="" if seed else "our seeds", **style)
            ax.plot(
                *published.read().T, color="0", linestyle="--", linewidth=1.4, label="published"
            )
            for height in plateau_losses(eigenvalues(published.settings["dim"]), context=CONTEXT):
                ax.axhline(height, color="0.8", linewidth=0.7, zorder=0)
            ax.grid(visible=False)
            legend = None if index else ""
            finish(ax, "step", "training loss", title=published.label, legend=legend)

    return Verdict(comparisons, draw, notes)


claim = Claim.of("dynamics-published", __doc__, cells, judge)
