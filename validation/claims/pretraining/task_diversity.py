"""From memorisation to in-context learning as pretraining tasks get more diverse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.asymptotics.pretraining import dmmse_errors, task_gap
from iclimit.published import settings
from iclimit.simulate.pretraining import simulate_estimator
from iclimit.validation.claim import Cell, Claim, Preset, Verdict
from iclimit.validation.claims.pretraining.points import Point, Results, compare_predictions
from iclimit.validation.comparisons import compare
from iclimit.validation.drawing import COLOURS, draw_estimates, draw_family, finish, panels

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SETTING = settings["lu2025-task-diversity"]
RHO = SETTING["rho"]
DIM = 32
ALPHAS = (1.0, 10.0)
TASKS = (8, 16, 24, 32, 48, 64, 128, 256)
REPEATS: dict[Preset, int] = {"quick": 12, "full": 60}
TASK_SETS: dict[Preset, int] = {"quick": 8, "full": 60}
"""Task sets of the Bayes estimator."""


def point(alpha: float, tasks: int) -> Point:
    """Point of a number of tasks."""
    return Point(alpha=alpha, kappa=tasks / DIM, **SETTING)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Linear attention, its prediction, and the Bayes estimator at every number of tasks."""
    found: dict[Any, Cell] = {}
    for alpha in ALPHAS:
        for tasks in TASKS:
            found |= point(alpha, tasks).cells({DIM: REPEATS[preset]})
            found["dmmse", alpha, tasks] = Cell.of(
                simulate_estimator,
                estimator="dmmse",
                dim=DIM,
                context=round(alpha * DIM),
                tasks=tasks,
                rho=RHO,
                repeats=TASK_SETS[preset],
                test_prompts=40,
                task_law="sphere",
            )
    return found


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare both errors, their difference, and the error that the Bayes estimator keeps."""
    comparisons = compare_predictions(results)
    for alpha in ALPHAS:
        for tasks in TASKS:
            label = f"dMMSE IDG is the noise, d={DIM} k={tasks} alpha={alpha:g}"
            memory = results["dmmse", alpha, tasks].idg
            comparisons.append(compare(label, RHO, memory, relative=0.01))
            here = point(alpha, tasks)
            run, gap = results["simulated", here, DIM], _predicted_gap(results, here)
            allowance = here.allowance(DIM)
            comparisons.append(
                compare(f"ICL-IDG d={DIM} {here}", gap, run.gap, relative=allowance)
            )

    def draw(figure: Figure) -> None:
        axes = panels(figure, width=8.4, height=3.6, sharey=True)
        for ax, alpha in zip(axes, ALPHAS, strict=True):
            _draw_gaps(ax, alpha, results)
        axes[1].legend(fontsize=7.5, loc="lower left")

    return Verdict(tuple(comparisons), draw)


def _predicted_gap(results: Results, point: Point) -> float:
    predicted = results["predicted", point, DIM]
    return float(predicted.icl) - float(predicted.idg)


def _draw_gaps(ax: Axes, alpha: float, results: Results) -> None:
    kappa = np.geomspace(TASKS[0], TASKS[-1], 300) / DIM
    simulated = np.array(TASKS) / DIM
    points = [point(alpha, tasks) for tasks in TASKS]
    limit = task_gap(tau=SETTING["tau"], alpha=alpha, kappa=kappa, rho=RHO)
    ax.plot(kappa, limit, color=COLOURS[0], label="linear attention, asymptotic")
    predicted = [_predicted_gap(results, each) for each in points]
    label = f"finite-size prediction, d = {DIM}"
    ax.plot(simulated, predicted, "_", markersize=9, color=COLOURS[0], label=label)
    gaps = [results["simulated", each, DIM].gap for each in points]
    label = f"simulation, d = {DIM}"
    draw_estimates(ax, simulated, gaps, COLOURS[0], label=label, markersize=3.5)
    bayes = dmmse_errors(theta=np.log(kappa * DIM) / DIM, alpha=alpha, rho=RHO, dim=DIM)
    memories = [results["dmmse", alpha, tasks].gap for tasks in TASKS]
    label = f"dMMSE, theory (line) and simulation at d = {DIM}"
    line, found = (kappa, bayes.icl - bayes.idg), (simulated, memories)
    draw_family(ax, line, found, COLOURS[1], label, markersize=3.5)
    ax.axvline(1, color="0.6", linewidth=0.8, zorder=0)
    ax.set(ylim=(1e-3, 6))
    title = rf"$\alpha = {alpha:g},\ \tau = {SETTING['tau']:g},\ \rho = {RHO:g}$"
    finish(ax, "kappa", "task_gap", title=title, log="xy")


claim = Claim(
    name="task-diversity",
    title="From memorisation to in-context learning as tasks get more diverse",
    source=f"{SETTING.reference}: figure of g_task against kappa, with the dMMSE estimator",
    statement=(
        "With long pretraining the gap between ICL and IDG error closes as the number of tasks "
        "grows past the dimension, by as much as the finite-size prediction says at every kappa. "
        "The Bayes estimator on the pretraining tasks keeps memorising: its IDG error stays at "
        "the noise."
    ),
    cells=cells,
    judge=judge,
)
