"""Figures of what a probe finds about a model."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from iclimit.drawing import COLOURS, Axes, draw_estimates, finish, log_scale, show_zero
from iclimit.results import Estimate
from iclimit.validation.instruments.models.identification import Identification
from iclimit.validation.instruments.models.ladder import Ladder
from iclimit.validation.instruments.models.linear_attention import LinearPart

# Colour of the model.
MODEL = COLOURS[1]

# Colour of the algorithms.
BASELINE = COLOURS[0]

# Colour of their exact errors and of other limits of theory.
THEORY = "0.45"

# Errors on other prompts are drawn up to so many times those of the model: some diverge.
RANGE = 5.0

# Number of letters from which on the names of algorithms are written small.
LONG = 36

# Shares, and errors over the largest one, below this are drawn there: a logarithm cannot show 0.
LEAST_SHARE = 1e-6


def draw_ladder(ax: Axes, ladder: Ladder, noise: float) -> None:
    """Draw errors of the algorithms, largest on top, and that of the model across them."""
    rungs = ladder.rungs
    heights = np.arange(len(rungs))[::-1]
    largest = rungs[0].error.mean
    least = LEAST_SHARE * largest
    inside = np.array([rung.error.mean > least for rung in rungs])
    for height in heights[~inside]:
        ax.plot(least, height, "<", color=BASELINE)
    kept = [rung.error for rung, shown in zip(rungs, inside, strict=True) if shown]
    _draw_points(ax, kept, heights[inside], BASELINE, "algorithm")
    theory = np.array([rung.theory for rung in rungs])
    known = theory > least
    if known.any():
        style: dict[str, Any] = {"color": THEORY, "markersize": 9, "label": "exactly"}
        ax.plot(theory[known], heights[known], "|", **style)
    _draw_model(ax, ladder.error, least)
    if noise:
        ax.axvline(noise, color="0.7", linestyle=":", label="noise")
    _name_rows(ax, heights, [rung.name for rung in rungs])
    finish(ax, "error on fresh tasks", "", legend="")
    if largest > 5 * min(rungs[-1].error.mean, ladder.error.mean):
        log_scale(ax, "x")


def _draw_model(ax: Axes, error: Estimate, least: float) -> None:
    """Draw the error of the model as a line with its standard error, or where the axis ends."""
    if error.mean <= least:
        ax.axvline(least, color=MODEL, label="model, below", zorder=1)
        return
    band = error.mean - error.standard_error, error.mean + error.standard_error
    ax.axvspan(*band, color=MODEL, alpha=0.2, linewidth=0)
    ax.axvline(error.mean, color=MODEL, label="model", zorder=1)


def draw_likeness(ax: Axes, identification: Identification) -> None:
    """Draw the share that each algorithm leaves unexplained, the nearest at the bottom."""
    algorithms = identification.likenesses[::-1]
    heights = np.arange(len(algorithms))[::-1]
    for height, algorithm in zip(heights, algorithms, strict=True):
        colour = MODEL if algorithm.name in identification.names else BASELINE
        if algorithm.unexplained.mean < LEAST_SHARE:
            ax.plot(LEAST_SHARE, height, "<", color=colour)
        else:
            _draw_points(ax, [algorithm.unexplained], [height], colour)
    ax.axvline(identification.tolerance, color=THEORY, linestyle="--", label="tolerance")
    _name_rows(ax, heights, [algorithm.label for algorithm in algorithms])
    finish(ax, "share left unexplained", "", legend="")
    ax.set_xscale("log")


def draw_shifts(ax: Axes, ladders: Sequence[Ladder], nearest: Sequence[str]) -> None:
    """Draw errors of the model and of the nearest algorithms on prompts of other laws.

    Errors beyond `RANGE` times those of the model are drawn as triangles at the edge.
    """
    heights = np.arange(len(ladders))[::-1]
    of_model = [ladder.error.mean for ladder in ladders]
    limits = min(of_model) / RANGE, max(of_model) * RANGE
    for number, name in enumerate(nearest):
        errors = [ladder[name].error for ladder in ladders]
        inside = [limits[0] < error.mean < limits[1] for error in errors]
        lower = heights - 0.18 * (number + 1)
        colour = COLOURS[(0, 2, 3)[number]]
        kept = [error for error, shown in zip(errors, inside, strict=True) if shown]
        _draw_points(ax, kept, lower[inside], colour, name.replace("_", " "))
        for height, error, shown in zip(lower, errors, inside, strict=True):
            if not shown:
                low = error.mean < limits[1]
                ax.plot(limits[not low], height, "<" if low else ">", color=colour, markersize=4)
    _draw_points(ax, [ladder.error for ladder in ladders], heights, MODEL, "model")
    ax.set_yticks(heights, [fill(ladder.description, 20) for ladder in ladders])
    finish(ax, "mean squared error", "", legend="", log="x")


def draw_spectrum(ax: Axes, linear: LinearPart) -> None:
    """Draw eigenvalues of the nearest linear attention beside those of the best one."""
    numbers = np.arange(1, len(linear.eigenvalues) + 1)
    if linear.theory is not None:
        ax.plot(numbers, linear.theory, color=THEORY, label="best linear attention")
        if radius := linear.sampling_radius:
            style: dict[str, Any] = {"color": THEORY, "alpha": 0.2, "linewidth": 0}
            style["label"] = "its spread in a fit to so many prompts"
            ax.fill_between(numbers, linear.theory - radius, linear.theory + radius, **style)
    draw_estimates(ax, numbers, linear.eigenvalues, MODEL, label="in the model")
    ax.locator_params(axis="x", integer=True)
    show_zero(ax)
    finish(ax, "number", r"eigenvalue of $\Gamma$", legend="")


def _name_rows(ax: Axes, heights: np.ndarray, names: Sequence[str]) -> None:
    """Write names of algorithms beside their rows, small if one is long: axes need room, too."""
    ax.set_yticks(heights, [name.replace("_", " ") for name in names])
    if max(map(len, names)) >= LONG:
        ax.tick_params(axis="y", labelsize="x-small")


def _draw_points(
    ax: Axes,
    estimates: Sequence[Estimate],
    heights: Sequence[float] | np.ndarray,
    colour: str,
    label: str | None = None,
) -> None:
    """Draw estimates along x, with bars of one standard error."""
    means = [estimate.mean for estimate in estimates]
    bars = [estimate.standard_error for estimate in estimates]
    style: dict[str, Any] = {"fmt": "o", "markersize": 4, "capsize": 2, "linewidth": 1.2}
    ax.errorbar(means, heights, xerr=bars, color=colour, label=label, **style)
