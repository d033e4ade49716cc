"""From memorisation to in-context learning as pretraining tasks get more diverse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import dmmse_errors, task_gap
from iclimit.simulate.pretraining import simulate_estimator
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.pretraining.points import PAPER, Point, prediction_comparisons
from iclimit.validation.drawing import COLOURS, LABELS, draw_points, log_scale

RHO, TAU = 0.01, 10.0
ALPHAS = (1.0, 10.0)
TASKS = (8, 16, 24, 32, 48, 64, 128, 256)
SIZE = 32
REPEATS: dict[Preset, int] = {"quick": 12, "full": 60}
TASK_SETS: dict[Preset, int] = {"quick": 8, "full": 60}


def _point(alpha: float, tasks: int) -> Point:
    return Point(tau=TAU, alpha=alpha, kappa=tasks / SIZE, rho=RHO, ridge=1e-6)


def _cells(preset: Preset) -> list[Cell]:
    return [
        *(_point(alpha, k).cell(SIZE, REPEATS[preset]) for alpha in ALPHAS for k in TASKS),
        *(_point(alpha, k).prediction(SIZE) for alpha in ALPHAS for k in TASKS),
        *(_dmmse_cell(preset, alpha, k) for alpha in ALPHAS for k in TASKS),
    ]


def _dmmse_cell(preset: Preset, alpha: float, tasks: int) -> Cell:
    return Cell.of(
        simulate_estimator,
        estimator="dmmse",
        dim=SIZE,
        context=round(alpha * SIZE),
        tasks=tasks,
        rho=RHO,
        repeats=TASK_SETS[preset],
        test_prompts=40,
        task_law="sphere",
    )


def _judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons: list[Comparison] = []
    for alpha in ALPHAS:
        for tasks in TASKS:
            point = _point(alpha, tasks)
            cell = point.cell(SIZE, REPEATS[preset])
            comparisons += prediction_comparisons(point, SIZE, results, cell)
            memory = results[_dmmse_cell(preset, alpha, tasks)]
            label = f"dMMSE IDG is the noise, d={SIZE} k={tasks} alpha={alpha:g}"
            comparisons.append(
                Comparison(
                    label,
                    RHO,
                    memory.idg.mean,
                    memory.idg.standard_error,
                    0.01 * RHO,
                    memory.repeats - 1,
                )
            )
            run, predicted = results[cell], results[point.prediction(SIZE)]
            gap = predicted.icl.mean - predicted.idg.mean
            comparisons.append(
                Comparison(
                    f"ICL-IDG d={SIZE} {point}",
                    gap,
                    run.gap.mean,
                    run.gap.standard_error,
                    point.allowance(SIZE) * gap,
                    run.repeats - 1,
                )
            )

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.4, 3.6)
        for ax, alpha in zip(figure.subplots(1, 2, sharey=True), ALPHAS, strict=True):
            _draw_gap(ax, alpha, preset, results)
        ax.legend(fontsize=7.5, loc="lower left")

    return Verdict(tuple(comparisons), draw)


def _draw_gap(ax: Any, alpha: float, preset: Preset, results: Mapping[Cell, Any]) -> None:
    kappa = np.geomspace(TASKS[0] / SIZE, TASKS[-1] / SIZE, 300)
    points = np.array(TASKS) / SIZE
    ax.plot(
        kappa,
        task_gap(tau=TAU, alpha=alpha, kappa=kappa, rho=RHO),
        color=COLOURS[0],
        label="linear attention, asymptotic",
    )
    predicted = [results[_point(alpha, k).prediction(SIZE)] for k in TASKS]
    ax.plot(
        points,
        [p.icl.mean - p.idg.mean for p in predicted],
        linestyle="none",
        marker="_",
        markersize=9,
        color=COLOURS[0],
        label=f"finite-size prediction, d = {SIZE}",
    )
    runs = [results[_point(alpha, k).cell(SIZE, REPEATS[preset])] for k in TASKS]
    _draw_runs(ax, points, runs, COLOURS[0], f"simulation, d = {SIZE}")
    bayes = dmmse_errors(theta=np.log(kappa * SIZE) / SIZE, alpha=alpha, rho=RHO, dim=SIZE)
    ax.plot(kappa, bayes.icl - bayes.idg, color=COLOURS[1], label=f"dMMSE, theory at d = {SIZE}")
    runs = [results[_dmmse_cell(preset, alpha, k)] for k in TASKS]
    _draw_runs(ax, points, runs, COLOURS[1], f"dMMSE simulation, d = {SIZE}")
    ax.set(ylim=(1e-3, 6))
    log_scale(ax, "xy")
    ax.set_xlabel(LABELS["kappa"])
    ax.set_ylabel(LABELS["task_gap"])
    ax.axvline(1, color="0.6", linewidth=0.8, zorder=0)
    ax.set_title(rf"$\alpha = {alpha:g},\ \tau = {TAU:g},\ \rho = {RHO:g}$")


def _draw_runs(ax: Any, x: np.ndarray, runs: list[Any], colour: str, label: str) -> None:
    gaps = [run.gap for run in runs]
    errors = [gap.standard_error for gap in gaps]
    draw_points(ax, x, [gap.mean for gap in gaps], errors, colour, label=label, markersize=3.5)


task_diversity_claim = Claim(
    name="task-diversity",
    title="From memorisation to in-context learning as tasks get more diverse",
    source=f"{PAPER}: figure of g_task against kappa, with the dMMSE estimator",
    statement=(
        "With long pretraining the gap between ICL and IDG error closes as the number of tasks "
        "grows past the dimension, by as much as the finite-size prediction says at every kappa, "
        "while the Bayes estimator on the pretraining tasks keeps memorising: its IDG error stays "
        "at the noise."
    ),
    cells=_cells,
    judge=_judge,
)
