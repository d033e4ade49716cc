"""From memorisation to in-context learning as tasks get more diverse.

With long pretraining the gap between ICL and IDG error closes as the number of tasks grows past
the dimension, by as much as the finite-size prediction says at every kappa. The gap of the
asymptotic errors and the slope of the ICL error in kappa are differences of the errors at 30
digits. The Bayes estimator on the pretraining tasks keeps memorising: its IDG error stays at the
noise.

Source: {lu2025}, Figure 4.
"""

from collections.abc import Mapping
from itertools import product
from typing import Any

import mpmath
import numpy as np

from iclimit.asymptotics import pretraining
from iclimit.drawing import COLOURS, Axes, Figure, draw_family, finish, panels, write_key
from iclimit.prediction import Prediction
from iclimit.published import settings
from iclimit.results import Estimate
from iclimit.simulate.pretraining import simulate_estimator
from iclimit.validation.claim import Claim, Effort, Later, Rows, call, drawing, exact, mean, run
from iclimit.validation.claims.pretraining.curves import LEGEND, LINE_SETS
from iclimit.validation.claims.pretraining.points import Point, with_uncertainty

# Parameters of the published figure.
SETTING = settings["lu2025-task-diversity"]
# Variance of the label noise.
RHO = SETTING["rho"]
# Dimension of the runs.
DIM = 32
# Context lengths over dimension.
ALPHAS = (1.0, 10.0)
# Numbers of tasks.
TASKS = (8, 16, 24, 32, 48, 64, 128, 256)
# Tasks at which the finite-size prediction is drawn, too.
BETWEEN = (11, 20, 28, 39, 55, 91, 181)
# Relative, of gaps and slopes.
ACCURACY = 1e-8


def point(alpha: float, tasks: int) -> Point:
    """Point of a number of tasks."""
    return Point(alpha=alpha, kappa=tasks / DIM, **SETTING)


def rows(effort: Effort) -> Rows:
    """Both errors, their difference, and the error that the Bayes estimator keeps."""
    drawn: dict[str, dict[tuple[float, int], Later]] = {"predicted": {}, "ours": {}, "dmmse": {}}
    for alpha, tasks in product(ALPHAS, effort.pick(tiny=TASKS[::3], quick=TASKS)):
        here = point(alpha, tasks)
        key = (alpha, tasks)
        repeats = effort.pick(tiny=4, quick=6, medium=40, full=200)
        yield from here.rows(DIM, repeats)
        predicted = here.predicted(DIM)
        ours = here.simulated(DIM, repeats)
        yield mean(f"ICL-IDG d={DIM} {here}", call(predicted_gap, predicted), ours.gap)
        dmmse = run(
            simulate_estimator,
            estimator="dmmse",
            dim=DIM,
            context=round(alpha * DIM),
            tasks=tasks,
            rho=RHO,
            repeats=effort.pick(tiny=4, quick=8, medium=30, full=60),
            test_prompts=40,
            task_law="sphere",
        )
        label = f"dMMSE IDG is the noise, d={DIM} k={tasks} alpha={alpha:g}"
        yield mean(label, RHO, dmmse.idg, relative=0.01)
        changes = call(differences, here)
        spectrum = call(pretraining.JointSpectrum.of_matrices, np.ones(1))
        gap = call(pretraining.task_gap, **vars(here))
        slope = call(pretraining.diversity_slope, **vars(here), spectrum=spectrum)
        yield exact(f"gap of the errors, {here}", gap, changes[0], relative=ACCURACY)
        yield exact(f"slope of ICL in kappa, {here}", slope, changes[1], relative=ACCURACY)
        drawn["predicted"][key] = predicted
        drawn["ours"][key] = ours
        drawn["dmmse"][key] = dmmse
    for alpha, tasks in product(ALPHAS, effort.pick(tiny=(), quick=BETWEEN)):
        drawn["predicted"][alpha, tasks] = point(alpha, tasks).predicted(DIM, LINE_SETS)
    yield drawing(draw, drawn)


def predicted_gap(predicted: Prediction) -> Estimate:
    """Predicted ICL minus IDG error, as uncertain as the ICL error."""
    icl = with_uncertainty(predicted).icl
    return Estimate(icl.mean - predicted.idg.mean, icl.standard_error, icl.repeats)


def differences(here: Point) -> tuple[float, float]:
    """Gap of the errors and slope of the ICL error in kappa, by differences at 30 digits."""
    step = mpmath.mpf("1e-10")
    with mpmath.workdps(30):
        given = {name: mpmath.mpf(value) for name, value in vars(here).items()}
        gap = pretraining.icl_error(**given) - pretraining.idg_error(**given)
        kappa = given.pop("kappa")
        above = pretraining.icl_error(kappa=kappa + step, **given)
        below = pretraining.icl_error(kappa=kappa - step, **given)
        return float(gap), float((above - below) / (2 * step))


def draw(figure: Figure, drawn: Mapping[str, Mapping[tuple[float, int], Any]]) -> None:
    """Draw the gap of linear attention and of dMMSE: theory, prediction, simulation."""
    for ax, alpha in zip(panels(figure, sharey=True), ALPHAS, strict=True):
        draw_gaps(ax, alpha, drawn)
    write_key(figure, LEGEND.format(DIM))


def draw_gaps(
    ax: Axes, alpha: float, drawn: Mapping[str, Mapping[tuple[float, int], Any]]
) -> None:
    """Draw the gaps of a context length."""
    line = sorted(tasks for own_alpha, tasks in drawn["predicted"] if own_alpha == alpha)
    counts = sorted(tasks for own_alpha, tasks in drawn["ours"] if own_alpha == alpha)
    kappa = np.geomspace(TASKS[0], TASKS[-1], 300) / DIM
    simulated = np.array(counts) / DIM
    limit = pretraining.task_gap(tau=SETTING["tau"], alpha=alpha, kappa=kappa, rho=RHO)
    gaps = [drawn["ours"][alpha, tasks].gap for tasks in counts]
    draw_family(
        ax, (kappa, limit), (simulated, gaps), COLOURS[0], "linear attention", markersize=3.5
    )
    predicted = [predicted_gap(drawn["predicted"][alpha, tasks]).mean for tasks in line]
    ax.plot(np.array(line) / DIM, predicted, "--", color=COLOURS[0])
    bayes = pretraining.dmmse_errors(
        theta=np.log(kappa * DIM) / DIM, alpha=alpha, rho=RHO, dim=DIM
    )
    theory = kappa, bayes.icl - bayes.idg
    gaps = [drawn["dmmse"][alpha, tasks].gap for tasks in counts]
    draw_family(ax, theory, (simulated, gaps), COLOURS[1], "dMMSE", markersize=3.5)
    ax.axvline(1, color="0.6", linewidth=0.8, zorder=0)
    ax.set(ylim=(1e-3, 6))
    title = rf"$\alpha = {alpha:g},\ \tau = {SETTING['tau']:g},\ \rho = {RHO:g}$"
    finish(ax, "kappa", "task_gap", title=title, log="xy", legend="")


claim = Claim.of("task-diversity", __doc__, rows)
