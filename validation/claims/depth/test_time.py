"""Steps at test time: errors, the best number of steps, saturation, and Gamma from few tasks.

Linear attention is pretrained on simulated prompts and applied again and again to fresh contexts.
Median errors, extrapolated to infinite dimension, equal the two-time theory: for weight prediction
with noise, where the best number of steps is finite; with short contexts, where the errors
saturate; and for pretraining from labels of few tasks with a ridge, where more steps do harm.

Source: Question of Takanami and Pehlevan, arXiv:2606.03217 (abstract); formulas derived in the
documentation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics import depth
from iclimit.results import Estimate
from iclimit.simulate.depth import simulate_test_time
from iclimit.validation import (
    Cell,
    Claim,
    Preset,
    Results,
    Verdict,
    compare_limits,
    compare_p_value,
    extrapolate_runs,
)
from iclimit.validation.drawing import COLOURS, Figure, draw_estimates, draw_points, finish, panels


@dataclass(frozen=True)
class Point:
    """A setting in the limit, with the runs at finite sizes.

    Attributes
    ----------
    label : str
        For the figure.
    target : {"weights", "labels"}
        What pretraining predicts.
    alpha, tau, rho, kappa, ridge : float
        The setting.
    steps : tuple of int
        Numbers of steps that are compared.
    repeats : dict
        Pretrainings at each dimension in the quick preset.
    contexts : int
        Test contexts of each, of whose errors the median is taken.
    """

    label: str
    target: str
    alpha: float
    tau: float
    rho: float
    steps: tuple[int, ...]
    repeats: dict[int, int]
    contexts: int = 32
    kappa: float = np.inf
    ridge: float = 0.0

    def errors(self) -> np.ndarray:
        """Errors of the task in the limit after 0, 1, ... steps."""
        most = max(self.steps)
        if self.target == "weights":
            setting = {"alpha": self.alpha, "tau": self.tau, "noise_variance": self.rho}
            return np.asarray(depth.test_time_errors(**setting, steps=most))
        setting = {"tau": self.tau, "alpha": self.alpha, "kappa": self.kappa, "rho": self.rho}
        return depth.iterated_icl_errors(**setting, ridge=self.ridge, steps=most) - self.rho

    def cell(self, dim: int, repeats: int) -> Cell:
        """Runs at one dimension, whose integers have exactly the ratios of the limit."""
        prompts = self.tau * (dim if self.target == "weights" else dim**2)
        return Cell.of(
            medians,
            dim=dim,
            context=round(self.alpha * dim),
            prompts=round(prompts),
            tasks=self.kappa * dim if np.isinf(self.kappa) else round(self.kappa * dim),
            rho=self.rho,
            ridge=self.ridge,
            target=self.target,
            steps=max(self.steps),
            repeats=repeats,
            contexts=self.contexts,
        )


POINTS = {
    "noise": Point(
        label="noise: early stopping",
        target="weights",
        alpha=4,
        tau=3,
        rho=0.4,
        steps=(1, 2, 6, 16),
        repeats={16: 100, 24: 70, 32: 50, 64: 22},
    ),
    "short": Point(
        label="short contexts: saturation",
        target="weights",
        alpha=0.3,
        tau=6,
        rho=0.0,
        steps=(1, 4, 24),
        repeats={20: 200, 30: 130, 50: 90, 100: 45},
    ),
    "tasks": Point(
        label="labels of few tasks: overthinking",
        target="labels",
        alpha=4,
        tau=2,
        rho=0.1,
        steps=(1, 2, 4),
        repeats={12: 160, 16: 100, 24: 50, 32: 26},
        contexts=128,
        kappa=0.5,
        ridge=0.5,
    ),
}
MORE: dict[Preset, int] = {"quick": 1, "medium": 6, "full": 40}
"""Factor of the pretrainings."""


def medians(**setting: Any) -> np.ndarray:
    """Median error over the contexts of each pretraining, (repeats, steps + 1)."""
    return np.median(simulate_test_time(**setting).errors, axis=1)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Runs by point and dimension."""
    return {
        (name, dim): point.cell(dim, MORE[preset] * repeats)
        for name, point in POINTS.items()
        for dim, repeats in point.repeats.items()
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare extrapolated medians, and what stopping early gains."""
    comparisons, fits = [], {}
    for name, point in POINTS.items():
        theory, sizes = point.errors(), list(point.repeats)
        runs = [results[name, dim][:, list(point.steps)].T for dim in sizes]
        function = "test_time_errors" if point.target == "weights" else "iterated_icl_errors"
        limits = {f"{point.label}, {k} steps": theory[k] for k in point.steps}
        of = [function] * len(limits)
        if name == "noise":
            # Instead of the error after 16 steps what it exceeds that after 6, run by run.
            runs = [np.vstack([run[:-1], run[-1] - run[-2]]) for run in runs]
            limits.popitem()
            limits[f"{point.label}, 16 steps less 6"] = theory[16] - theory[6]
        if name == "short":
            # The limit is within 2e-4 of the errors after 24 steps.
            limits.popitem()
            final = depth.final_test_time_error(alpha=point.alpha, tau=point.tau)
            limits[f"{point.label}, 24 steps for infinitely many"] = final
            of[-1] = "final_test_time_error"
        fit = extrapolate_runs(sizes, runs)
        comparisons += compare_limits(limits, fit, of=of, draws=name)
        comparisons.append(compare_p_value(f"chi-square of the fit, {point.label}", fit.p_value))
        fits[name] = fit

    def draw(figure: Figure) -> None:
        axes = panels(figure, len(POINTS), width=9.6, height=3.4)
        for ax, (name, point) in zip(axes, POINTS.items(), strict=True):
            fit, largest = fits[name], max(point.repeats)
            every = range(max(point.steps) + 1)
            ax.plot(every, point.errors(), color=COLOURS[0], label="theory")
            found = [Estimate.of(column) for column in results[name, largest].T]
            style: dict[str, Any] = {"markersize": 3, "label": f"$d = {largest}$"}
            draw_estimates(ax, every, found, COLOURS[5], **style)
            shown = point.steps[:-1] if name == "noise" else point.steps
            pair = fit.value[: len(shown)], fit.standard_error[: len(shown)]
            draw_points(ax, shown, *pair, COLOURS[1], label=r"$d \to \infty$")
            log = "y" if name == "noise" else ""
            y = "$|w - w_k|^2/d$"
            finish(ax, "steps $k$", y, title=point.label, log=log, legend="")

    notes = (
        "Means are not compared: rare contexts carry them at finite d.",
        *(f"Limit of {POINTS[name].label}: {fit.summary}." for name, fit in fits.items()),
    )
    return Verdict(comparisons, draw, notes)


claim = Claim.of("test-time", __doc__, cells, judge)
