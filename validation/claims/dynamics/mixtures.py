"""In-context against in-weight learning.

On mixtures of random and shared tasks the loss of merged attention begins to fall at the
predicted rate.  It ends between the least loss of all features and that of the best predictor
linear in the labels; finite training sets approach the law of the data.

Source: {zhang2025}, section 6; growth rate and bounds: documentation.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.asymptotics.dynamics import mixture_growth_rate, mixture_predictor
from iclimit.published import settings
from iclimit.results import Estimate
from iclimit.simulate.dynamics import (
    TaskMixture,
    simulate_gradient_descent,
    simulate_gradient_flow,
)
from iclimit.simulate.dynamics.feature_moments import population_moments
from iclimit.validation import (
    Cell,
    Claim,
    Preset,
    Results,
    Verdict,
    compare,
    compare_limits,
    extrapolate_runs,
)
from iclimit.validation.drawing import COLOURS, Figure, draw_estimates, finish, panels

FRACTIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
"""Fractions of sequences with random tasks, as published."""
LAW: dict[str, Any] = {"input_covariance": np.eye(4) / 4, "shared_task": np.ones(4), "context": 31}
"""The shared task has the published norm, the root of D; for white inputs its direction does not
matter."""
SETS = (2500, 5000, 10_000)
"""Sizes of the training set; the published one is 5000."""
REPEATS: dict[Preset, int] = {"quick": 12, "full": 200}
TRAINING = {**settings["zhang2025-mixtures"], "record": 20, "tests": True}

EARLY_SCALE, EARLY_WINDOW = 1e-8, (1e-7, 1e-5)
"""Initial weights of the early flow, and the relative falls of its loss that are exponential."""
RATE_ALLOWANCE = 1e-3
"""Relative (measured: at most 2e-4)."""
END, END_ALLOWANCE = 30_000.0, 1e-3
"""Duration of the late flow, and how far from its end it may be, relative."""


def problem(fresh_fraction: float) -> TaskMixture:
    """Law of the sequences."""
    law = LAW | ({"shared_task": None} if fresh_fraction == 1 else {})
    return TaskMixture(fresh_fraction=fresh_fraction, **law)


@dataclass(frozen=True)
class MixtureFlow:
    """Flow on the law of a mixture.

    Attributes
    ----------
    rate : float
        Half of the exponential rate at which the loss begins to fall.
    end, least : float
        Last loss, and the smallest one of any predictor that is linear in the features.
    """

    rate: float
    end: float
    least: float


def mixture_flow(*, fresh_fraction: float, rng: Any) -> MixtureFlow:
    """Flow of merged attention to its end."""
    early_seed, late_seed = rng.spawn(2)
    law = problem(fresh_fraction)
    early = simulate_gradient_flow(
        law,
        init_scale=EARLY_SCALE,
        duration=-math.log(EARLY_SCALE) / float(mixture_growth_rate(fresh_fraction, **LAW)),
        rng=early_seed,
    )
    fallen = 1 - early.losses / early.losses[0]
    inside = (fallen > EARLY_WINDOW[0]) & (fallen < EARLY_WINDOW[1])
    slope = np.polyfit(early.times[inside], np.log(fallen[inside]), 1)[0]
    late = simulate_gradient_flow(law, init_scale=0.01, duration=END, rng=late_seed)
    moments = population_moments(law)
    best = np.linalg.lstsq(moments.second, moments.cross, rcond=None)[0]
    least = float(moments.label - best @ moments.cross)
    return MixtureFlow(float(slope / 2), float(late.losses[-1]), least)


@dataclass(frozen=True)
class MixtureCell:
    """Gradient descent on training sets of one size, and on the law from the same weights.

    Attributes
    ----------
    steps : list of int
    training, icl, iwl : list of float
        Mean losses over repeats; ``iwl`` on the shared task with noise for context labels.
    gap : Estimate
        Last training loss minus that on the law.
    """

    steps: list[int]
    training: list[float]
    icl: list[float]
    iwl: list[float]
    gap: Estimate


def mixture_descent(
    *, fresh_fraction: float, size: int, repeats: int, rng: Any, backend: str = "numpy"
) -> MixtureCell:
    """Gradient descent with the published settings."""
    same: dict[str, Any] = {**TRAINING, "repeats": repeats, "rng": rng, "standardize": False}
    run, law = (
        simulate_gradient_descent(
            problem(fresh_fraction), backend=backend, **same | {"training_set": count}
        )
        for count in (size, math.inf)
    )
    means = {name: np.mean(found, axis=0).tolist() for name, found in run.tests.items()}
    return MixtureCell(
        run.steps.tolist(),
        np.mean(run.losses, axis=0).tolist(),
        means["icl"],
        means.get("iwl", []),
        Estimate.of(run.losses[:, -1] - law.losses[:, -1], keep=False),
    )


def cells(preset: Preset) -> dict[Any, Cell]:
    """Flows by fraction, trainings by fraction and size."""
    flows: dict[Any, Cell] = {c: Cell.of(mixture_flow, fresh_fraction=c) for c in FRACTIONS}
    return flows | {
        (c, size): Cell.of(mixture_descent, fresh_fraction=c, size=size, repeats=REPEATS[preset])
        for c in FRACTIONS
        for size in SETS
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the first growth, the end of the flow, and large training sets with the law."""
    comparisons, gains, p_values = [], [], []
    for c in FRACTIONS:
        flow = results[c]
        rate, bound = mixture_growth_rate(c, **LAW), mixture_predictor(c, **LAW).train_loss
        fit = extrapolate_runs(SETS, [results[c, size].gap for size in SETS], order=1)
        where = f"{c:g} of the tasks random"
        linear = f"end of the flow, {where}: at most the best linear predictor"
        features = f"end of the flow, {where}: the least loss of the features"
        gap = f"training loss minus that on the law, {where}, extrapolated"
        comparisons += [
            compare(
                f"rate of the first growth, {where}", rate, flow.rate, relative=RATE_ALLOWANCE
            ),
            compare(linear, bound, flow.end, relative=END_ALLOWANCE, upper_bound=True),
            compare(features, flow.least, flow.end, relative=END_ALLOWANCE),
            *compare_limits({gap: 0.0}, fit),
        ]
        gains.append(f"{100 * max(1 - flow.least / bound, 0.0):.1f} % ({c:g})")
        p_values.append(f"{fit.p_value:.2f}")
    notes = (
        "The best predictor linear in the labels of the context is an upper bound. Attention also "
        f"sees the x-x and y-y moments, which lower it by {', '.join(gains)}.",
        f"Linear extrapolations in 1/P, p = {', '.join(p_values)}.",
    )

    def draw(figure: Figure) -> None:
        import matplotlib as mpl

        left, *curves = panels(figure, 3, width=9.4, height=3.4)
        fine = np.linspace(0, 1, 101)
        best = mixture_predictor(fine, **LAW).train_loss
        left.plot(fine, best, color=COLOURS[0], label="linear in the labels")
        least = [results[c].least for c in FRACTIONS]
        left.plot(FRACTIONS, least, "_", color="0.3", markersize=12, label="all features")
        shown = [results[c, SETS[1]] for c in FRACTIONS]
        ends = [replace(run.gap, mean=run.training[-1]) for run in shown]
        draw_estimates(left, FRACTIONS, ends, COLOURS[1], label=f"trained, {SETS[1]} sequences")
        finish(left, "fraction of random tasks", "training loss", legend="")
        shades = mpl.colormaps["viridis"](np.linspace(0, 0.92, len(FRACTIONS)))
        for c, run, shade in zip(FRACTIONS, shown, shades, strict=True):
            curves[0].plot(run.steps, run.icl, color=shade, label=f"{c:g}")
            if run.iwl:
                curves[1].plot(run.steps, run.iwl, color=shade)
        finish(curves[0], "step", "test loss, random tasks", legend="random tasks")
        finish(curves[1], "step", "test loss, shared task, noise labels")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("dynamics-mixtures", __doc__, cells, judge)
