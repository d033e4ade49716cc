"""From memorisation to in-context learning as tasks get more diverse.

With long pretraining the gap between ICL and IDG error closes as the number of tasks grows past
the dimension, by as much as the finite-size prediction says at every kappa. The gap of the
asymptotic errors and the slope of the ICL error in kappa are differences of the errors at 30
digits. The Bayes estimator on the pretraining tasks keeps memorising: its IDG error stays at the
noise.

Source: {lu2025}, Figure 4.
"""

from typing import Any

import mpmath
import numpy as np

from iclimit.asymptotics.pretraining import (
    JointSpectrum,
    diversity_slope,
    dmmse_errors,
    icl_error,
    idg_error,
    task_gap,
)
from iclimit.drawing import COLOURS, Axes, Figure, draw_family, finish, panels
from iclimit.published import settings
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_estimator
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.pretraining.points import Point, compare_predictions, unsure
from iclimit.validation.claims.pretraining.study import LINE_SETS

SETTING = settings["lu2025-task-diversity"]
RHO = SETTING["rho"]
DIM = 32
ALPHAS = (1.0, 10.0)
TASKS = (8, 16, 24, 32, 48, 64, 128, 256)
BETWEEN = (11, 20, 28, 39, 55, 91, 181)
"""Tasks at which the finite-size prediction is drawn, too."""
REPEATS: dict[Preset, int] = {"quick": 6, "medium": 60, "full": 60}
TASK_SETS: dict[Preset, int] = {"quick": 8, "medium": 30, "full": 60}
"""Task sets of the Bayes estimator."""
ACCURACY = 1e-8
"""Relative, of gaps and slopes."""


def point(alpha: float, tasks: int) -> Point:
    """Point of a number of tasks."""
    return Point(alpha=alpha, kappa=tasks / DIM, **SETTING)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Linear attention, its prediction, and the Bayes estimator at every number of tasks."""
    found: dict[Any, Cell] = {}
    for alpha in ALPHAS:
        for tasks in TASKS:
            found |= point(alpha, tasks).cells(DIM, REPEATS[preset])
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
        for tasks in BETWEEN:
            here = point(alpha, tasks)
            found["predicted", here, DIM] = here.line_prediction(DIM, LINE_SETS)
    return found


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare both errors, their difference, and the error that the Bayes estimator keeps."""
    points = [point(alpha, tasks) for alpha in ALPHAS for tasks in TASKS]
    comparisons = compare_predictions(results, points) + compare_differences()
    for alpha in ALPHAS:
        for tasks in TASKS:
            label = f"dMMSE IDG is the noise, d={DIM} k={tasks} alpha={alpha:g}"
            memory = results["dmmse", alpha, tasks].idg
            comparisons.append(compare(label, RHO, memory, relative=0.01))
            here = point(alpha, tasks)
            predicted, run = results["predicted", here, DIM], results["simulated", here, DIM].gap
            gap, icl = _predicted_gap(results, here), unsure(predicted, "icl")
            theory = Estimate(gap, icl.standard_error, icl.repeats)
            comparisons.append(compare(f"ICL-IDG d={DIM} {here}", theory, run))

    def draw(figure: Figure) -> None:
        for ax, alpha in zip(panels(figure, sharey=True), ALPHAS, strict=True):
            _draw_gaps(ax, alpha, results)
        ax.legend(fontsize=7.5, loc="lower left")

    return Verdict(comparisons, draw)


def compare_differences() -> list[Comparison]:
    """Gap and slope in kappa of the errors, against their differences at 30 digits."""
    rows, step = [], mpmath.mpf("1e-10")
    for here in (point(alpha, tasks) for alpha in ALPHAS for tasks in TASKS):
        with mpmath.workdps(30):
            given = {name: mpmath.mpf(value) for name, value in vars(here).items()}
            gap = float(icl_error(**given) - idg_error(**given))
            kappa = given.pop("kappa")
            above, below = (icl_error(kappa=kappa + s * step, **given) for s in (1, -1))
            difference = float((above - below) / (2 * step))
        slope = diversity_slope(**vars(here), spectrum=JointSpectrum.of_matrices(np.ones(1)))
        for label, of, theory, found in (
            ("gap of the errors", "task_gap", task_gap(**vars(here)), gap),
            ("slope of ICL in kappa", "diversity_slope", slope, difference),
        ):
            rows.append(compare(f"{label}, {here}", theory, found, relative=ACCURACY, of=of))
    return rows


def _predicted_gap(results: Results, point: Point) -> float:
    predicted = results["predicted", point, DIM]
    return float(predicted.icl.mean - predicted.idg.mean)


def _draw_gaps(ax: Axes, alpha: float, results: Results) -> None:
    """Draw the gap of linear attention and of dMMSE: theory, prediction, simulation."""
    kappa, simulated = np.geomspace(TASKS[0], TASKS[-1], 300) / DIM, np.array(TASKS) / DIM
    points = [point(alpha, tasks) for tasks in TASKS]
    limit = task_gap(tau=SETTING["tau"], alpha=alpha, kappa=kappa, rho=RHO)
    gaps = [results["simulated", each, DIM].gap for each in points]
    label = f"linear attention: asymptotic; simulated, d = {DIM}"
    draw_family(ax, (kappa, limit), (simulated, gaps), COLOURS[0], label, markersize=3.5)
    line = sorted((*TASKS, *BETWEEN))
    predicted = [_predicted_gap(results, point(alpha, tasks)) for tasks in line]
    label = f"its prediction at d = {DIM}"
    ax.plot(np.array(line) / DIM, predicted, "--", color=COLOURS[0], label=label)
    bayes = dmmse_errors(theta=np.log(kappa * DIM) / DIM, alpha=alpha, rho=RHO, dim=DIM)
    theory = kappa, bayes.icl - bayes.idg
    gaps = [results["dmmse", alpha, tasks].gap for tasks in TASKS]
    label = f"dMMSE: theory and simulation, d = {DIM}"
    draw_family(ax, theory, (simulated, gaps), COLOURS[1], label, markersize=3.5)
    ax.axvline(1, color="0.6", linewidth=0.8, zorder=0)
    ax.set(ylim=(1e-3, 6))
    title = rf"$\alpha = {alpha:g},\ \tau = {SETTING['tau']:g},\ \rho = {RHO:g}$"
    finish(ax, "kappa", "task_gap", title=title, log="xy")


claim = Claim.of("task-diversity", __doc__, cells, judge)
