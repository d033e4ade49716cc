"""In-context against in-weight learning: training on mixtures of random and shared tasks."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import mixture_growth_rate, mixture_predictor
from iclimit.simulate.dynamics import (
    TaskMixture,
    simulate_gradient_descent,
    simulate_gradient_flow,
)
from iclimit.simulate.dynamics.feature_moments import population_moments
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.dynamics.separate import CONTEXT, PAPER
from iclimit.validation.drawing import COLOURS, draw_points
from iclimit.validation.statistics import extrapolate

FRACTIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Fractions of sequences with random tasks, as published."""
DIM, HEADS = 4, 8
COVARIANCE = np.eye(DIM) / DIM
TASK = np.ones(DIM)
"""Shared task; of the published norm, the root of D, and for white inputs of any direction."""

SETS = (2500, 5000, 10_000)
"""Sizes of the training set; the published one is 5000."""
REPEATS: dict[Preset, int] = {"quick": 12, "full": 200}
TRAINING: dict[str, Any] = {
    "model": "merged",
    "heads": HEADS,
    "init_scale": 1e-6,
    "learning_rate": 0.0005,
    "steps": 4000,
    "record": 20,
    "normalization": "sum",
    "tests": True,
}
"""Settings of the published script."""

EARLY_SCALE, EARLY_WINDOW = 1e-8, (1e-7, 1e-5)
"""Fall of the loss, relative, in which its growth is exponential."""
RATE_ALLOWANCE = 1e-3
"""Relative (measured: at most 2e-4)."""
END, END_ALLOWANCE = 30_000.0, 1e-3
"""Duration of the flow, and how far from its end it may be, relative."""


def problem(fresh_fraction: float) -> TaskMixture:
    """Law of the sequences."""
    return TaskMixture(
        COVARIANCE,
        CONTEXT,
        fresh_fraction=fresh_fraction,
        shared_task=None if fresh_fraction == 1 else TASK,
    )


@dataclass(frozen=True)
class MixtureFlow:
    """Flow on the law of a mixture.

    Attributes
    ----------
    rate : float
        Half of the exponential rate at which the loss begins to fall.
    end, least : float
        Last loss, and the least one of any predictor that is linear in the features.
    """

    rate: float
    end: float
    least: float


def mixture_flow(*, fresh_fraction: float, rng: Any) -> MixtureFlow:
    """Flow of merged attention to its end."""
    early_seed, late_seed = rng.spawn(2)
    rate = float(
        mixture_growth_rate(
            fresh_fraction, input_covariance=COVARIANCE, shared_task=TASK, context=CONTEXT
        )
    )
    setting: dict[str, Any] = {"model": "merged", "heads": HEADS}
    early = simulate_gradient_flow(
        problem(fresh_fraction),
        init_scale=EARLY_SCALE,
        duration=-math.log(EARLY_SCALE) / rate,
        rng=early_seed,
        **setting,
    )
    fallen = 1 - early.losses / early.losses[0]
    inside = (fallen > EARLY_WINDOW[0]) & (fallen < EARLY_WINDOW[1])
    slope = np.polyfit(early.times[inside], np.log(fallen[inside]), 1)[0]
    late = simulate_gradient_flow(
        problem(fresh_fraction), init_scale=0.01, duration=END, rng=late_seed, **setting
    )
    moments = population_moments(problem(fresh_fraction))
    best = np.linalg.lstsq(moments.second, moments.cross, rcond=None)[0]
    return MixtureFlow(
        float(slope / 2), float(late.losses[-1]), float(moments.label - best @ moments.cross)
    )


@dataclass(frozen=True)
class MixtureCell:
    """Gradient descent on training sets of one size, and on the law from the same weights.

    Attributes
    ----------
    steps : list of int
    training, icl, iwl : list of float
        Mean losses over repeats; ``iwl`` on the shared task with noise for context labels.
    gap, standard_error : float
        Mean over repeats of the last training loss minus that on the law.
    """

    steps: list[int]
    training: list[float]
    icl: list[float]
    iwl: list[float]
    gap: float
    standard_error: float


def mixture_descent(
    *, fresh_fraction: float, size: int, repeats: int, rng: Any, backend: str = "numpy"
) -> MixtureCell:
    """Gradient descent with the published settings."""
    run, law = (
        simulate_gradient_descent(
            problem(fresh_fraction),
            training_set=count,
            standardize=False,
            repeats=repeats,
            rng=rng,
            backend=backend,
            **TRAINING,
        )
        for count in (size, math.inf)
    )
    gaps = run.losses[:, -1] - law.losses[:, -1]
    means = {name: np.mean(found, axis=0).tolist() for name, found in run.tests.items()}
    return MixtureCell(
        run.steps.tolist(),
        np.mean(run.losses, axis=0).tolist(),
        means["icl"],
        means.get("iwl", []),
        float(np.mean(gaps)),
        float(np.std(gaps, ddof=1) / math.sqrt(repeats)),
    )


def _flow_cell(fresh_fraction: float) -> Cell:
    return Cell.of(mixture_flow, fresh_fraction=fresh_fraction)


def _descent_cell(preset: Preset, fresh_fraction: float, size: int) -> Cell:
    return Cell.of(
        mixture_descent, fresh_fraction=fresh_fraction, size=size, repeats=REPEATS[preset]
    )


def _cells(preset: Preset) -> list[Cell]:
    return [_flow_cell(fresh) for fresh in FRACTIONS] + [
        _descent_cell(preset, fresh, size) for fresh in FRACTIONS for size in SETS
    ]


def _judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:
    law = {"input_covariance": COVARIANCE, "shared_task": TASK, "context": CONTEXT}
    comparisons, gains, fits = [], [], []
    for fresh in FRACTIONS:
        flow = results[_flow_cell(fresh)]
        rate = float(mixture_growth_rate(fresh, **law))
        bound = float(mixture_predictor(fresh, **law).train_loss)
        gains.append(max(1 - flow.least / bound, 0.0))
        runs = [results[_descent_cell(preset, fresh, size)] for size in SETS]
        fit = extrapolate(
            SETS,
            np.array([[run.gap] for run in runs]),
            np.array([[[run.standard_error**2]] for run in runs]),
            orders=(1,),
        )
        fits.append(fit)
        where = f"{fresh:g} of the tasks random"
        comparisons += [
            Comparison(
                f"rate of the first growth, {where}", rate, flow.rate, 0.0, RATE_ALLOWANCE * rate
            ),
            Comparison(
                f"end of the flow, {where}: at most the best linear predictor",
                bound,
                flow.end,
                0.0,
                END_ALLOWANCE * bound,
                upper_bound=True,
            ),
            Comparison(
                f"end of the flow, {where}: the least loss of the features",
                flow.least,
                flow.end,
                0.0,
                END_ALLOWANCE * flow.least,
            ),
            Comparison(
                f"training loss minus that on the law, {where}, extrapolated",
                0.0,
                float(fit.value[0]),
                float(fit.standard_error[0]),
                degrees=REPEATS[preset] - 1,
            ),
        ]
    notes = (
        "The best predictor linear in the labels of the context is an upper bound; the x-x and "
        "y-y moments that attention sees too lower it by "
        + ", ".join(
            f"{100 * gain:.1f} % ({fresh:g})" for fresh, gain in zip(FRACTIONS, gains, strict=True)
        )
        + ".",
        "Linear extrapolations in 1/P, p = "
        + ", ".join(f"{fit.p_value:.2f}" for fit in fits)
        + ".",
    )
    shown = [results[_descent_cell(preset, fresh, SETS[1])] for fresh in FRACTIONS]

    def draw(figure: Any) -> None:
        figure.set_size_inches(9.4, 3.4)
        axes = figure.subplots(1, 3)
        fine = np.linspace(0, 1, 101)
        best = mixture_predictor(fine, **law)
        axes[0].plot(fine, best.train_loss, color=COLOURS[0], label="linear in the labels")
        axes[0].plot(
            FRACTIONS,
            [results[_flow_cell(fresh)].least for fresh in FRACTIONS],
            "_",
            color="0.3",
            markersize=12,
            label="all features",
        )
        draw_points(
            axes[0],
            FRACTIONS,
            [run.training[-1] for run in shown],
            [run.standard_error for run in shown],
            COLOURS[1],
            label=f"trained, {SETS[1]} sequences",
        )
        axes[0].set_xlabel("fraction of random tasks")
        axes[0].set_ylabel("training loss")
        axes[0].legend()
        import matplotlib as mpl

        shades = mpl.colormaps["viridis"](np.linspace(0, 0.92, len(FRACTIONS)))
        for fresh, run, shade in zip(FRACTIONS, shown, shades, strict=True):
            axes[1].plot(run.steps, run.icl, color=shade, label=f"{fresh:g}")
            if run.iwl:
                axes[2].plot(run.steps, run.iwl, color=shade)
        axes[1].set_ylabel("test loss, random tasks")
        axes[2].set_ylabel("test loss, shared task, noise labels")
        for ax in axes[1:]:
            ax.set_xlabel("step")
        axes[1].legend(title="random tasks")

    return Verdict(tuple(comparisons), draw, notes)


mixtures_claim = Claim(
    name="dynamics-mixtures",
    title="In-context against in-weight learning",
    source=f"{PAPER}, section 6; growth rate and bounds: documentation",
    statement=(
        "On mixtures of random and shared tasks the loss of merged attention begins to fall at "
        "the predicted rate and ends between the least loss of all features and that of the best "
        "predictor linear in the labels; finite training sets approach the law of the data."
    ),
    cells=_cells,
    judge=_judge,
)
