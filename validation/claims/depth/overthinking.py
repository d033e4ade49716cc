"""Steps at test time: errors, the best number of steps, saturation, thresholds, and few tasks.

Linear attention is pretrained on simulated prompts and applied again and again to fresh contexts.
Median errors, extrapolated to infinite dimension, equal the two-time theory: for weight prediction
with noise, where the best number of steps is finite; with short contexts, where the errors
saturate; with dampened steps, where undampened ones do harm; and for pretraining from labels of
few tasks with a ridge.  The feedback of the noise in the learned matrix, which exceeds 1 beyond
the threshold of overthinking, equals the theory for dampened steps and in the window of few
prompts.

Source: Question of Takanami and Pehlevan, arXiv:2606.03217 (abstract); formulas derived in the
documentation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics import depth
from iclimit.drawing import COLOURS, Figure, draw_estimates, draw_points, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.depth import simulate_overthinking_ratio, simulate_test_time
from iclimit.statistics import Extrapolation, extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Comparison,
    Preset,
    Results,
    Verdict,
    compare_limits,
    compare_p_value,
)


@dataclass(frozen=True)
class Setting:
    """Pretraining and steps in the limit, with the runs at finite sizes.

    Attributes
    ----------
    label : str
        For the figure.
    repeats : dict
        Pretrainings at each dimension in the quick preset.
    target : {"weights", "labels"}
        What pretraining predicts.
    alpha, tau, noise_variance, kappa, ridge, dampening : float
        The setting.
    contexts : int
        Test contexts of each pretraining.
    """

    label: str
    repeats: dict[int, int]
    target: str
    alpha: float
    tau: float
    noise_variance: float = 0.0
    kappa: float = np.inf
    ridge: float = 0.0
    dampening: float = 1.0
    contexts: int = 8

    @property
    def shared(self) -> dict[str, Any]:
        """What theory and simulation, weights and labels have in common."""
        return {"noise_variance": self.noise_variance, "dampening": self.dampening}

    def sizes(self, dim: int) -> dict[str, Any]:
        """Integers at one dimension, which have exactly the ratios of the limit."""
        prompts = self.tau * (dim if self.target == "weights" else dim**2)
        ratios = {"context": self.alpha * dim, "prompts": prompts}
        return {"dim": dim} | {name: round(ratio) for name, ratio in ratios.items()}


@dataclass(frozen=True)
class Steps(Setting):
    """Errors after ``steps``.

    With ``earlier`` the last error is compared less that after this number of them.
    """

    steps: tuple[int, ...] = ()
    earlier: int = 0

    def errors(self) -> np.ndarray:
        """Errors of the task in the limit after 0, 1, ... steps."""
        setting: dict[str, Any] = {"alpha": self.alpha, "tau": self.tau} | self.shared
        setting["steps"] = max(self.steps)
        if self.target == "weights":
            return np.asarray(depth.test_time_errors(**setting))
        few: dict[str, Any] = {"kappa": self.kappa, "ridge": self.ridge}
        return depth.iterated_icl_errors(**setting, **few) - self.noise_variance

    def cell(self, dim: int, repeats: int) -> Cell:
        """Runs at one dimension."""
        few = {"tasks": self.kappa * dim if np.isinf(self.kappa) else round(self.kappa * dim)}
        return Cell.of(
            medians,
            **self.sizes(dim) | self.shared | few,
            ridge=self.ridge,
            target=self.target,
            steps=max(self.steps),
            repeats=repeats,
            contexts=self.contexts,
        )


@dataclass(frozen=True)
class Feedback(Setting):
    """Feedback of the noise in the matrix, from ``constant`` or ``alternating`` pushes.

    With ``resummed`` that from all rounds is compared, too.
    """

    pushes: str = "constant"
    resummed: bool = False
    contexts: int = 3

    def theory(self) -> tuple[str, float]:
        """Function and its value."""
        if self.target == "weights":
            threshold = depth.overthinking_threshold(alpha=self.alpha, **self.shared)
            return "overthinking_threshold", float(threshold)
        setting = {"tau": self.tau, "alpha": self.alpha, "ridge": self.ridge} | self.shared
        return "overthinking_ratio", float(depth.overthinking_ratio(**setting))

    def seen(self, ratios: np.ndarray) -> np.ndarray:
        """What the function gives, from ratios, which are in proportion to 1/(tau - 1)."""
        return 1 + (self.tau - 1) * ratios if self.target == "weights" else ratios

    def cell(self, dim: int, repeats: int) -> Cell:
        """Runs at one dimension."""
        return Cell.of(
            ratios,
            pushes=self.pushes,
            **self.sizes(dim) | self.shared,
            ridge=self.ridge,
            target=self.target,
            repeats=repeats,
            contexts=self.contexts,
        )


STEPS = {
    "noise": Steps(
        label="noise: early stopping",
        repeats={16: 500, 24: 350, 40: 110, 96: 65},
        target="weights",
        alpha=4,
        tau=3,
        noise_variance=0.4,
        contexts=5,
        steps=(1, 2, 6, 16),
        earlier=6,
    ),
    "short": Steps(
        label="short contexts: saturation",
        repeats={10: 300, 20: 450, 40: 80, 100: 40},
        target="weights",
        alpha=0.3,
        tau=6,
        dampening=0.8,
        contexts=5,
        steps=(1, 4, 24),
    ),
    "dampened": Steps(
        label="dampened steps",
        repeats={8: 300, 16: 500, 32: 100, 96: 60},
        target="weights",
        alpha=2,
        tau=3,
        dampening=0.7,
        contexts=5,
        steps=(1, 2, 4),
    ),
    "tasks": Steps(
        label="labels of few tasks",
        repeats={6: 500, 12: 800, 20: 70, 32: 140},
        target="labels",
        alpha=8,
        tau=1,
        noise_variance=0.1,
        kappa=0.5,
        ridge=1.0,
        contexts=5,
        steps=(1, 2, 4),
        earlier=2,
    ),
}
FEEDBACK = {
    "threshold": Feedback(
        label="threshold of undampened steps",
        repeats={24: 150, 32: 150, 48: 80, 96: 30},
        target="weights",
        alpha=8,
        tau=2,
        pushes="alternating",
    ),
    "dampened threshold": Feedback(
        label="threshold of dampened steps",
        repeats={8: 300, 16: 350, 32: 80, 96: 32},
        target="weights",
        alpha=3,
        tau=3,
        noise_variance=0.3,
        dampening=0.6,
        resummed=True,
    ),
    "window": Feedback(
        label="ratio for few prompts",
        repeats={8: 300, 16: 260, 24: 40, 32: 40},
        target="labels",
        alpha=40,
        tau=0.75,
    ),
}
MORE: dict[Preset, int] = {"quick": 1, "medium": 6, "full": 40}
"""Factor of the pretrainings."""


def medians(**setting: Any) -> np.ndarray:
    """Median error over the contexts of each pretraining, (repeats, steps + 1)."""
    return np.median(simulate_test_time(**setting).errors, axis=1)


def ratios(pushes: str, **setting: Any) -> np.ndarray:
    """Feedback to pushes of one kind in one round and from all rounds, (2, repeats)."""
    found = simulate_overthinking_ratio(**setting)
    column = ("constant", "alternating").index(pushes)
    return np.array([found.returned[:, column], found.resummed[:, column]])


def cells(preset: Preset) -> dict[Any, Cell]:
    """Runs by point and dimension."""
    return {
        (name, dim): point.cell(dim, MORE[preset] * repeats)
        for name, point in (STEPS | FEEDBACK).items()
        for dim, repeats in point.repeats.items()
    }


def judge_steps(name: str, point: Steps, results: Results) -> tuple[list[Comparison], Any]:
    """Compare extrapolated medians, and what stopping early gains."""
    theory, sizes = point.errors(), list(point.repeats)
    runs = [results[name, dim][:, list(point.steps)].T for dim in sizes]
    function = "test_time_errors" if point.target == "weights" else "iterated_icl_errors"
    limits = {f"{point.label}, {k} steps": theory[k] for k in point.steps}
    of = [function] * len(limits)
    last = point.steps[-1]
    if point.earlier:
        # Instead of the last error what it exceeds an earlier one by, run by run.
        before = point.steps.index(point.earlier)
        runs = [np.vstack([run[:-1], run[-1] - run[before]]) for run in runs]
        limits.popitem()
        rise = theory[last] - theory[point.earlier]
        limits[f"{point.label}, {last} steps less {point.earlier}"] = rise
    if name == "noise":
        best = depth.best_test_time_steps(alpha=point.alpha, tau=point.tau, **point.shared)
        limits[f"{point.label}, {best.steps:.0f} steps"] = best.error
        of[point.steps.index(best.steps)] = "best_test_time_steps.error"
    if name == "short":
        # The limit is within 3e-4 of the errors after 24 steps.
        limits.popitem()
        final = depth.final_test_time_error(alpha=point.alpha, tau=point.tau, **point.shared)
        limits[f"{point.label}, {last} steps for infinitely many"] = final
        of[-1] = "final_test_time_error"
    fit = extrapolate_runs(sizes, runs)
    return compare_limits(limits, fit, of=of, draws=name), fit


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare all extrapolations."""
    comparisons, fits = [], {}
    for name, point in STEPS.items():
        rows, fits[name] = judge_steps(name, point, results)
        comparisons += rows
    for name, other in FEEDBACK.items():
        sizes = list(other.repeats)
        function, theory = other.theory()
        limits = {other.label: theory}
        if other.resummed:
            limits[f"{other.label}, from all rounds"] = theory
        runs = [other.seen(results[name, dim][: len(limits)]) for dim in sizes]
        fits[name] = extrapolate_runs(sizes, runs)
        of = [function] * len(limits)
        comparisons += compare_limits(limits, fits[name], of=of, draws=name)
    labels = {name: point.label for name, point in (STEPS | FEEDBACK).items()}
    for name, fit in fits.items():
        comparisons.append(compare_p_value(f"chi-square of the fit, {labels[name]}", fit.p_value))

    def draw(figure: Figure) -> None:
        axes = panels(figure, 2, 2, width=8.4, height=6.2)
        for ax, (name, point) in zip(axes, STEPS.items(), strict=True):
            draw_steps(ax, point, fits[name], results[name, max(point.repeats)])

    notes = (
        "Means are not compared: rare contexts carry them at finite d.",
        *(f"Limit of {labels[name]}: {fit.summary}." for name, fit in fits.items()),
    )
    return Verdict(comparisons, draw, notes)


def draw_steps(ax: Any, point: Steps, fit: Extrapolation, largest: np.ndarray) -> None:
    """Errors against the number of steps."""
    every = range(max(point.steps) + 1)
    ax.plot(every, point.errors(), color=COLOURS[0], label="theory")
    found = [Estimate.of(column) for column in largest.T]
    style: dict[str, Any] = {"markersize": 3, "label": f"$d = {max(point.repeats)}$"}
    draw_estimates(ax, every, found, COLOURS[5], **style)
    shown = point.steps[:-1] if point.earlier else point.steps
    pair = fit.value[: len(shown)], fit.standard_error[: len(shown)]
    draw_points(ax, shown, *pair, COLOURS[1], label=r"$d \to \infty$")
    finish(ax, "steps $k$", "$|w - w_k|^2/d$", title=point.label, log="y", legend="")
    ax.xaxis.get_major_locator().set_params(integer=True)


claim = Claim.of("overthinking", __doc__, cells, judge)
