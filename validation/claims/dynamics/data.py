"""Training dynamics on finite data: the published curves, and the size of the training set."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.dynamics import TaskMixture, simulate_gradient_descent
from iclimit.simulate.pretraining.prompts import Prompts
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.descent.paired import mean_and_error
from iclimit.validation.claims.dynamics.separate import CONTEXT, PAPER, eigenvalues
from iclimit.validation.drawing import COLOURS, draw_points
from iclimit.validation.statistics import extrapolate


@dataclass(frozen=True)
class Published:
    """A curve of the published script and the settings it was made with."""

    file: str
    label: str
    settings: dict[str, Any]
    learned: tuple[int, ...]
    """Plateaus to be compared, by the number of learned directions."""


_SCRIPT: dict[str, Any] = {"normalization": "sum", "initialization": "per-head"}
_MERGED: dict[str, Any] = {
    **_SCRIPT,
    "dim": 4,
    "heads": 8,
    "init_scale": 1e-6,
    "training_set": 5000,
    "learning_rate": 0.001,
    "steps": 6000,
    "record": 10,
}
CURVES = (
    Published("attnM_H8_init1e-6", "merged", {**_MERGED, "model": "merged"}, ()),
    Published("mlp_H8_init1e-6", "cubic features", {**_MERGED, "model": "cubic"}, ()),
    Published(
        "attnS_D4_H5_R1_P80000",
        "separate, D = 4, rank 1",
        {
            **_SCRIPT,
            "model": "separate",
            "dim": 4,
            "heads": 5,
            "init_scale": 1e-2,
            "training_set": 80_000,
            "learning_rate": 0.02,
            "steps": 10_000,
            "record": 10,
        },
        (1, 2, 3),
    ),
    Published(
        "attnS_D8_H9_R2_P80000",
        "separate, D = 8, rank 2",
        {
            **_SCRIPT,
            "model": "separate",
            "dim": 8,
            "heads": 9,
            "rank": 2,
            "init_scale": 5e-3,
            "training_set": 80_000,
            "learning_rate": 0.02,
            "steps": 20_000,
            "record": 20,
        },
        (2, 4, 6),
    ),
)
RUNS: dict[Preset, tuple[int, ...]] = {"quick": (16, 16, 12, 10), "full": (100, 100, 40, 40)}
"""Seeds of each curve."""

FEWEST = 3
"""Fewest seeds whose spread is used."""

SETS = (250, 500, 1000, 2000, 4000)
SET_REPEATS: dict[Preset, int] = {"quick": 200, "full": 4000}
SET_TRAINING: dict[str, Any] = {
    "model": "cubic",
    "heads": 8,
    "init_scale": 0.3,
    "learning_rate": 0.5,
    "steps": 1000,
    "record": 1000,
}
SANDWICH_BLOCKS: dict[Preset, int] = {"quick": 40, "full": 400}
SANDWICH_BLOCK = 20_000


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


def published_curve(name: str) -> np.ndarray:
    """Steps and losses of a published curve, shape (n, 2)."""
    path = resources.files("iclimit.validation") / "reference" / f"linattn_{name}.txt"
    with path.open(encoding="utf-8") as file:
        return np.loadtxt(file)


def summarise(
    steps: np.ndarray, losses: np.ndarray, dim: int, learned: tuple[int, ...]
) -> dict[str, float]:
    """First and last loss, heights of plateaus and logarithms of the steps of the drops."""
    plateaus = plateau_losses(eigenvalues(dim), context=CONTEXT)
    found = {"first loss": float(losses[0])}
    for k, (above, below) in enumerate(itertools.pairwise((0, *learned, dim)), start=1):
        at = _first_below(losses, (plateaus[above] + plateaus[below]) / 2)
        found[f"ln(step) of drop {k}"] = (
            math.log(float(steps[at])) if at < len(losses) else math.nan
        )
    for m in learned:
        start, stop = (
            _first_below(losses, (plateaus[k] + plateaus[k + 1]) / 2) for k in (m - 1, m)
        )
        falls = -np.diff(losses[start : stop + 1])
        found[f"height with {m} learned"] = (
            float(losses[start + np.argmin(falls)]) if len(falls) else math.nan
        )
    if not learned:
        found["last loss"] = float(losses[-1])
    return found


def _first_below(losses: np.ndarray, level: float) -> int:
    """Index of the first loss below a level; their number if there is none."""
    below = np.flatnonzero(losses < level)
    return int(below[0]) if len(below) else len(losses)


def trained_curves(*, curve: int, repeats: int, rng: Any, backend: str = "numpy") -> CurvesCell:
    """Curves with the settings of a published one."""
    published = CURVES[curve]
    settings = dict(published.settings)
    dim = settings.pop("dim")
    run = simulate_gradient_descent(
        TaskMixture(eigenvalues(dim), CONTEXT),
        repeats=repeats,
        rng=rng,
        backend=backend,
        **settings,
    )
    found = [summarise(run.steps, losses, dim, published.learned) for losses in run.losses]
    kept = np.linspace(0, len(run.steps) - 1, 300).astype(int)
    return CurvesCell(
        {name: [each[name] for each in found] for name in found[0]},
        run.steps[kept].tolist(),
        run.losses[:, kept].tolist(),
    )


def _curve_cell(preset: Preset, curve: int) -> Cell:
    return Cell.of(trained_curves, curve=curve, repeats=RUNS[preset][curve])


def _curves_cells(preset: Preset) -> list[Cell]:
    return [_curve_cell(preset, curve) for curve in range(len(CURVES))]


def _curves_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons, missing = [], []
    for index, published in enumerate(CURVES):
        run = results[_curve_cell(preset, index)]
        curve = published_curve(published.file)
        theirs = summarise(curve[:, 0], curve[:, 1], published.settings["dim"], published.learned)
        for name, value in theirs.items():
            found = np.array(run.summaries[name])
            ours = found[np.isfinite(found)]
            label = f"{published.label}: {name}"
            if len(ours) < len(found) or not math.isfinite(value):
                theirs_too = "" if math.isfinite(value) else "; not by the published curve"
                missing.append(f"{label} ({len(ours)} of {len(found)}{theirs_too})")
            if not math.isfinite(value):
                continue
            if len(ours) < FEWEST:
                comparisons.append(Comparison(f"{label}, not reached", value, math.inf, 0.0))
                continue
            # The published number is one more draw from the same law.
            error = float(np.std(ours, ddof=1)) * math.sqrt(1 + 1 / len(ours))
            comparisons.append(
                Comparison(label, value, float(np.mean(ours)), error, degrees=len(ours) - 1)
            )
    notes = (
        "Weights and data of the published curves came from another generator: theirs are "
        "compared with the spread between seeds.",
        "Separate attention starts as the script did when the paper appeared: values of scale "
        "init, keys and queries of init / sqrt(R (D + 1)), per head.",
        f"Not reached by all seeds: {', '.join(missing) or 'nothing'}.",
    )

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.0, 5.6)
        axes = figure.subplots(2, 2).ravel()
        for index, (ax, published) in enumerate(zip(axes, CURVES, strict=True)):
            run = results[_curve_cell(preset, index)]
            for losses in run.losses:
                ax.plot(run.steps, losses, color=COLOURS[index], linewidth=0.8, alpha=0.5)
            curve = published_curve(published.file)
            ax.plot(curve[:, 0], curve[:, 1], color="0", linestyle="--", linewidth=1.4)
            for height in plateau_losses(eigenvalues(published.settings["dim"]), context=CONTEXT):
                ax.axhline(height, color="0.8", linewidth=0.7, zorder=0)
            ax.grid(visible=False)
            ax.set_title(published.label)
            ax.set_xlabel("step")
            ax.set_ylabel("training loss")
        axes[0].plot([], [], color="0", linestyle="--", label="published")
        axes[0].plot([], [], color=COLOURS[0], linewidth=0.8, label="our seeds")
        axes[0].legend()

    return Verdict(tuple(comparisons), draw, notes)


published_curves_claim = Claim(
    name="dynamics-published",
    title="Loss curves of the published training script",
    source=f"{PAPER}; public script, see shared reference data",
    statement=(
        "First and last loss, plateau heights and the steps of the drops of curves made with the "
        "public script lie within the spread over seeds of runs on moments."
    ),
    cells=_curves_cells,
    judge=_curves_judge,
)


@dataclass(frozen=True)
class SetCell:
    """What models trained on sets of one size lose and gain, times the size.

    Attributes
    ----------
    means, covariance : list
        Training loss minus that of the best predictor on the same set, whose mean is the least
        loss; and loss on fresh sequences minus the least loss.
    """

    means: list[float]
    covariance: list[list[float]]


def training_set_gaps(*, size: int, repeats: int, rng: Any, backend: str = "numpy") -> SetCell:
    """Train the network on cubic features to its end, on plain sequences."""
    run = simulate_gradient_descent(
        TaskMixture(eigenvalues(4), CONTEXT),
        training_set=size,
        standardize=False,
        tests=True,
        repeats=repeats,
        rng=rng,
        backend=backend,
        **SET_TRAINING,
    )
    least = float(plateau_losses(eigenvalues(4), context=CONTEXT)[-1])
    place = get_backend("numpy")
    best = [
        _best_residual(
            TaskMixture(eigenvalues(4), CONTEXT).training_set(
                place, place.generator(seed_sequences(seed, 3)[0]), size, standardize=False
            )
        )
        for seed in seed_sequences(rng, repeats)
    ]
    losses = np.array([np.mean(residual**2) for residual in best])
    gaps = size * np.stack([run.losses[:, -1] - losses, run.tests["icl"][:, -1] - least])
    return SetCell(np.mean(gaps, axis=1).tolist(), (np.cov(gaps) / repeats).tolist())


def _best_residual(prompts: Prompts) -> np.ndarray:
    """Query labels minus the best prediction that is linear in the cubic features."""
    lam = eigenvalues(4)
    beta = np.mean(prompts.y[..., None] * prompts.x, axis=1)
    return prompts.y_query - np.sum(beta * prompts.x_query * lam / _second_moment(), axis=1)


def _second_moment() -> np.ndarray:
    r"""Eigenvalues of :math:`E \beta \beta^\top`."""
    lam = eigenvalues(4)
    return lam**2 + lam * (lam + lam.sum()) / CONTEXT


def sandwich(*, blocks: int, rng: Any) -> tuple[float, float]:
    r"""Mean and standard error of :math:`\operatorname{tr} M^{-1} E[r^2 f f^\top]`.

    With the cubic features :math:`f = \beta \otimes x_q`, their second moment
    :math:`M = E[\beta \beta^\top] \otimes \Lambda` and the residual r of the best predictor.
    """
    place = get_backend("numpy")
    problem = TaskMixture(eigenvalues(4), CONTEXT)
    lam, second = eigenvalues(4), _second_moment()
    values = []
    for seed in rng.spawn(blocks):
        prompts = problem.sample(place, np.random.default_rng(seed), SANDWICH_BLOCK)
        beta = np.mean(prompts.y[..., None] * prompts.x, axis=1)
        leverage = np.sum(beta**2 / second, axis=1) * np.sum(prompts.x_query**2 / lam, axis=1)
        values.append(np.mean(_best_residual(prompts) ** 2 * leverage))
    return mean_and_error(np.array(values))


def _set_cell(preset: Preset, size: int) -> Cell:
    return Cell.of(training_set_gaps, size=size, repeats=SET_REPEATS[preset])


def _sandwich_cell(preset: Preset) -> Cell:
    return Cell.of(sandwich, blocks=SANDWICH_BLOCKS[preset])


def _sets_cells(preset: Preset) -> list[Cell]:
    return [*(_set_cell(preset, size) for size in SETS), _sandwich_cell(preset)]


def _sets_judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    runs = [results[_set_cell(preset, size)] for size in SETS]
    predicted, error = results[_sandwich_cell(preset)]
    fit = extrapolate(
        SETS,
        np.array([run.means for run in runs]),
        np.array([run.covariance for run in runs]),
        orders=(2, 3),
    )
    names = ("training loss", "loss on fresh sequences")
    comparisons = tuple(
        Comparison(
            f"size times the excess of the {name}, extrapolated",
            sign * predicted,
            float(value),
            math.hypot(float(fit_error), error),
            degrees=SET_REPEATS[preset] - 1,
        )
        for name, sign, value, fit_error in zip(
            names, (-1, 1), fit.value, fit.standard_error, strict=True
        )
    )
    notes = (
        f"Predicted: -+ {predicted:.3f} +- {error:.3f}, the sandwich of least squares for the "
        "16 cubic features; with residuals independent of the features it would be "
        f"{16 * float(plateau_losses(eigenvalues(4), context=CONTEXT)[-1]):.3f}.",
        f"Extrapolation of order {fit.order}, p = {fit.p_value:.2f}.",
    )

    def draw(figure: Any) -> None:
        ax = figure.subplots()
        inverse = np.linspace(0, 1.05 / SETS[0], 50)[1:]
        for k, (name, sign) in enumerate(zip(names, (-1, 1), strict=True)):
            means = [run.means[k] for run in runs]
            errors = [math.sqrt(run.covariance[k][k]) for run in runs]
            draw_points(ax, [1 / size for size in SETS], means, errors, COLOURS[k], label=name)
            ax.plot(inverse, fit.curve(1 / inverse)[:, k], color=COLOURS[k], linewidth=1)
            ax.plot(0, sign * predicted, "*", color=COLOURS[k], markersize=12, clip_on=False)
        ax.plot([], [], "*", color="0.4", markersize=12, label="predicted")
        ax.set_xlim(left=0)
        ax.set_xlabel("1 / training set")
        ax.set_ylabel("size times (loss - least loss)")
        ax.legend()

    return Verdict(comparisons, draw, notes)


training_set_claim = Claim(
    name="dynamics-training-set",
    title="Finite training sets: the gap to the law of the data falls as 1/P",
    source=f"{PAPER}, setup; asymptotics of least squares (sandwich)",
    statement=(
        "The network on cubic features trained to its end on P sequences has a training loss "
        "below and a loss on fresh sequences above the least one, by the same a/P for large P."
    ),
    cells=_sets_cells,
    judge=_sets_judge,
)
