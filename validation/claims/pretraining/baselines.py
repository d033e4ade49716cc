"""Bayes estimators against their limits: dMMSE, and ridge regression on all tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import bayes_error, dmmse_errors
from iclimit.simulate.pretraining import simulate_estimator
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.drawing import COLOURS, LABELS, draw_points

TASK_SETS: dict[Preset, int] = {"quick": 32, "full": 240}
DMMSE_CASES = ((40, 40, 1.0, 0.3), (64, 64, 1.0, 0.3), (64, 512, 1.0, 0.3), (40, 80, 2.0, 0.5))
"""Dimension, number of tasks, alpha, noise variance."""
DMMSE_ALLOWANCE = 0.03
"""The limit is heuristic, and its leading correction in d leaves something; measured: 1 to 2 % at
d = 40 and 64."""
RIDGE_CASES = ((64, 64, 0.5, 0.3), (64, 64, 1.0, 0.05), (64, 64, 2.0, 0.3))
RIDGE_ALLOWANCE = 0.5
"""Times 1/d: corrections to ridge regression at finite d."""


def _cell(preset: Preset, estimator: str, d: int, tasks: int, alpha: float, rho: float) -> Cell:
    return Cell.of(
        simulate_estimator,
        estimator=estimator,
        dim=d,
        context=round(alpha * d),
        tasks=tasks,
        rho=rho,
        repeats=TASK_SETS[preset],
        test_prompts=30,
    )


def _cells(preset: Preset) -> list[Cell]:
    return [
        *(_cell(preset, "dmmse", *case) for case in DMMSE_CASES),
        *(_cell(preset, "ridge", *case) for case in RIDGE_CASES),
    ]


def _judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    comparisons = []
    for case in DMMSE_CASES:
        d, tasks, alpha, rho = case
        run = results[_cell(preset, "dmmse", *case)]
        theory = dmmse_errors(theta=math.log(tasks) / d, alpha=alpha, rho=rho, dim=d)
        for name in ("icl", "idg"):
            value, found = float(getattr(theory, name)), getattr(run, name)
            comparisons.append(
                Comparison(
                    f"dMMSE {name.upper()} d={d} k={tasks} alpha={alpha:g} rho={rho:g}",
                    value,
                    found.mean,
                    found.standard_error,
                    DMMSE_ALLOWANCE * value,
                    run.repeats - 1,
                )
            )
    for case in RIDGE_CASES:
        d, _, alpha, rho = case
        run, value = (
            results[_cell(preset, "ridge", *case)],
            float(bayes_error(alpha=alpha, rho=rho)),
        )
        both = np.concatenate([run.icl.samples, run.idg.samples])
        comparisons.append(
            Comparison(
                f"ridge regression d={d} alpha={alpha:g} rho={rho:g}",
                value,
                float(np.mean(both)),
                float(np.std(both, ddof=1) / math.sqrt(len(both))),
                RIDGE_ALLOWANCE / d * value,
            )
        )

    def draw(figure: Any) -> None:
        figure.set_size_inches(5.6, 3.6)
        ax = figure.subplots()
        theta = np.linspace(0, 0.9, 400)
        for case, colour in zip(DMMSE_CASES, COLOURS, strict=False):
            d, tasks, alpha, rho = case
            curve = dmmse_errors(theta=theta, alpha=alpha, rho=rho, dim=d)
            ax.plot(theta, curve.icl, color=colour)
            run = results[_cell(preset, "dmmse", *case)]
            label = rf"d={d}, k={tasks}, $\alpha$={alpha:g}, $\rho$={rho:g}"
            at = math.log(tasks) / d
            draw_points(ax, at, run.icl.mean, run.icl.standard_error, colour, label=label)
        ax.set_xlabel(LABELS["theta"])
        ax.set_ylabel("dMMSE " + LABELS["icl_error"])
        ax.legend()

    return Verdict(tuple(comparisons), draw)


dmmse_claim = Claim(
    name="dmmse",
    title="Bayes estimators: dMMSE on the pretraining tasks, ridge regression on all tasks",
    source="Estimators: Raventos et al., arXiv:2306.15063; limits derived in the documentation",
    statement=(
        "Simulated errors of the two Bayes estimators equal their limits, that of dMMSE with its "
        "leading correction in the dimension and within the 3 % that this is known to leave."
    ),
    cells=_cells,
    judge=_judge,
    figure=False,
)
