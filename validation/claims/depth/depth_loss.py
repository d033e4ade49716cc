"""Depth at finite context and width: tied layers, label noise, and the best untied layers.

Residual linear attention is applied to drawn contexts, each of which has an exact loss.  Means
over contexts, extrapolated to infinite dimension, equal the two-point theory: at finite context,
with a narrow residual stream, with both and label noise, and for the best layers that are not
tied.

Source: Model of Bordelon, Letey and Pehlevan, arXiv:2510.01098; theory at finite context and width
derived in the documentation.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.depth import depth_loss, depth_schedule_loss, untied_depth
from iclimit.drawing import COLOURS, Figure, draw_sizes, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.depth import simulate_depth_loss
from iclimit.statistics import extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Preset,
    Results,
    Verdict,
    compare_limits,
    compare_p_value,
)

EIGENVALUES = np.array([0.2, 0.4, 0.8, 1.2, 1.6])
TASKS = np.array([2.0, 1.0, 0.5, 1.5, 1.0])
"""Eigenvalues of inputs and tasks, each d/5 times.  Neither decides on the other, so that the loss
is no integral over one spectrum."""


@dataclass(frozen=True)
class Point:
    """A setting in the limit.

    Attributes
    ----------
    label : str
        For the figure.
    depth : int
        Number of layers.
    gamma : float or None
        Size of the reduced matrix of tied layers; None for the best untied layers.
    alpha, width_ratio, noise_variance : float
        The setting.
    contexts : int
        Contexts of the quick preset at d = 10; larger dimensions have fewer, in proportion to 1/d.
    """

    label: str
    depth: int
    gamma: float | None
    alpha: float = np.inf
    width_ratio: float = np.inf
    noise_variance: float = 0.0
    contexts: int = 1700

    def theory(self) -> tuple[str, float, np.ndarray]:
        """Function of the theory, its loss, and the steps of the layers."""
        sizes: dict[str, Any] = {"alpha": self.alpha, "width_ratio": self.width_ratio}
        if self.gamma is None:
            labels = EIGENVALUES * TASKS
            best = untied_depth(EIGENVALUES, labels, depth=self.depth, **sizes)
            return "untied_depth.losses", best.loss * labels.mean(), best.steps
        tied = depth_loss(
            depth=self.depth,
            spectrum=EIGENVALUES,
            task_spectrum=TASKS,
            noise_variance=self.noise_variance,
            gamma=self.gamma,
            **sizes,
        )
        return "depth_loss.loss", float(tied.loss), np.full(self.depth, self.gamma / self.depth)

    def given_steps(self) -> float:
        """Loss of the same steps as of any polynomial."""
        found = depth_schedule_loss(
            self.theory()[2],
            spectrum=EIGENVALUES,
            task_spectrum=TASKS,
            alpha=self.alpha,
            width_ratio=self.width_ratio,
            noise_variance=self.noise_variance,
        )
        return float(found.loss)

    def cell(self, dim: int, factor: int) -> Cell:
        """Contexts at one dimension, whose integers have exactly the ratios of the limit."""
        copies = dim // EIGENVALUES.size
        _, _, rates = self.theory()
        return Cell.of(
            context_losses,
            eigenvalues=np.repeat(EIGENVALUES, copies),
            task_spectrum=np.repeat(TASKS, copies),
            rates=rates,
            context=_integer(self.alpha * dim),
            width=_integer(self.width_ratio * dim),
            noise_variance=self.noise_variance,
            repeats=factor * self.contexts * DIMS[0] // dim,
        )


DIMS = (10, 20, 40, 80)
POINTS = {
    "context": Point("context $P = 4d$", depth=4, gamma=1.6, alpha=4.0),
    "width": Point("width $N = d/2$", depth=6, gamma=4.0, width_ratio=0.5),
    "both": Point(
        "$P = 1.5 d$, $N = 0.6 d$, noise",
        depth=3,
        gamma=1.0,
        alpha=1.5,
        width_ratio=0.6,
        noise_variance=0.3,
    ),
    "untied": Point("best untied layers, $P = 8d$", depth=2, gamma=None, alpha=8.0),
}
"""No rare contexts carry these means.  Tied layers would diverge on contexts whose largest
eigenvalue is out by 4.5 or more of its standard deviations; the residual of the two untied layers
is 0.43 at the end of the spectrum and grows slowly, as a square."""

GIVEN = "both"
"""Point at which the theory of given steps, by other contours, is compared too."""

MORE: dict[Preset, int] = {"quick": 1, "medium": 10, "full": 100}
"""Factor of the contexts."""


def context_losses(**setting: Any) -> np.ndarray:
    """Losses of drawn contexts."""
    return simulate_depth_loss(**setting).losses


def _integer(size: float) -> float:
    return size if np.isinf(size) else round(size)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Contexts by point and dimension."""
    return {
        (name, dim): point.cell(dim, MORE[preset])
        for name, point in POINTS.items()
        for dim in DIMS
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare extrapolated means of losses."""
    comparisons, fits, limits = [], {}, {}
    for name, point in POINTS.items():
        function, limits[name], _ = point.theory()
        runs = [results[name, dim][None] for dim in DIMS]
        fit = fits[name] = extrapolate_runs(DIMS, runs)
        label = f"loss, {point.label}, {point.depth} layers"
        comparisons += compare_limits({label: limits[name]}, fit, of=[function], draws=name)
        if name == GIVEN:
            given = {f"{label}, steps given": point.given_steps()}
            comparisons += compare_limits(given, fit, of=["depth_schedule_loss.loss"], draws=name)
        comparisons.append(compare_p_value(f"chi-square of the fit, {point.label}", fit.p_value))

    def draw(figure: Figure) -> None:
        axes = panels(figure, 2, len(POINTS) // 2, width=8.0, height=5.6)
        for ax, (name, point), colour in zip(axes, POINTS.items(), COLOURS, strict=False):
            found = [Estimate.of(results[name, dim]) for dim in DIMS]
            draw_sizes(ax, DIMS, found, colour, limit=limits[name], fit=fits[name])
            finish(ax, "$1/d$", "loss", title=f"{point.label}, $L = {point.depth}$")

    notes = [f"Limit of {POINTS[name].label}: {fit.summary}." for name, fit in fits.items()]
    return Verdict(comparisons, draw, tuple(notes))


claim = Claim.of("depth-loss", __doc__, cells, judge)
