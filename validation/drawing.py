"""House style of figures: theory as lines, simulation as points with error bars."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from iclimit.files import replacing
from iclimit.notation import LABELS
from iclimit.results import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure

    from iclimit.validation.comparisons import Comparison
    from iclimit.validation.statistics import Extrapolation
else:  # matplotlib is loaded when something is drawn
    Axes = Figure = Any

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, distinguishable with any colour vision."""

STYLE = str(resources.files(__package__) / "house.mplstyle")
"""Style sheet of all figures."""


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save within the house style, leaving the user's settings alone."""
    import matplotlib as mpl

    with mpl.rc_context(fname=STYLE):
        yield


def new_figure(width: float = 6.4, height: float = 4.0) -> Figure:
    """Figure that belongs to no window system."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save_picture(figure: Figure, path: Path) -> bytes:
    """Save a figure, whole or not at all, and return what was written."""
    content = io.BytesIO()  # matplotlib hides what goes wrong while it writes a PDF file
    figure.savefig(content, format=path.suffix[1:])
    with replacing(path) as partial:
        partial.write_bytes(content.getvalue())
    return content.getvalue()


def panels(
    figure: Figure,
    columns: int = 2,
    rows: int = 1,
    *,
    width: float = 8.6,
    height: float = 3.7,
    **sharing: Any,
) -> list[Axes]:
    """Divide a figure of this size into axes, row by row."""
    figure.set_size_inches(width, height)
    return list(figure.subplots(rows, columns, squeeze=False, **sharing).flat)


def draw_points(
    ax: Axes, x: ArrayLike, mean: ArrayLike, standard_error: ArrayLike, colour: str, **options: Any
) -> Any:
    """Draw simulated points with bars of one standard error."""
    style: dict[str, Any] = {"fmt": "o", "markersize": 4, "capsize": 2, "linewidth": 1.2} | options
    return ax.errorbar(x, mean, yerr=np.asarray(standard_error), color=colour, **style)


def draw_estimates(
    ax: Axes, x: ArrayLike, estimates: Sequence[Estimate], colour: str, **options: Any
) -> Any:
    """Draw estimates as points with bars of one standard error."""
    means, errors = [each.mean for each in estimates], [each.standard_error for each in estimates]
    return draw_points(ax, x, means, errors, colour, **options)


def draw_family(
    ax: Axes,
    line: tuple[ArrayLike, ArrayLike],
    points: tuple[ArrayLike, Sequence[Estimate]],
    colour: str,
    label: str | None = None,
    **options: Any,
) -> None:
    """Draw one curve: theory as a line (x, y), simulation as points (x, estimates)."""
    ax.plot(*line, color=colour, label=label)
    draw_estimates(ax, *points, colour, **options)


def draw_sizes(
    ax: Axes,
    sizes: Sequence[int],
    estimates: Sequence[Estimate],
    colour: str,
    *,
    limit: float | None = None,
    fit: Extrapolation | None = None,
    quantity: int = 0,
    label: str | None = None,
) -> None:
    """Draw estimates against the inverse size, with their limit and the fit that extrapolates.

    The limit is a star at 0, the fit a dotted line that ends in the extrapolated value;
    ``quantity`` is the number of the quantity in the fit.
    """
    inverse = 1 / np.asarray(sizes, float)
    draw_estimates(ax, inverse, estimates, colour, label=label)
    if fit is not None:
        fine = np.linspace(1e-4, max(inverse), 200)
        ax.plot(fine, fit.curve(1 / fine)[:, quantity], ":", color=colour, linewidth=0.9)
        value, error = fit.value[quantity], fit.standard_error[quantity]
        draw_points(ax, [0], [value], [error], colour, fmt="none")
    if limit is not None:
        ax.plot(0, limit, "*", color=colour, markersize=11, clip_on=False, zorder=5)
    ax.set_xlim(left=0)
    ax.set_xlabel("$1/d$")


def draw_ratios(ax: Axes, comparisons: Sequence[Comparison], colour: str = COLOURS[0]) -> None:
    """Draw estimates over theory, one comparison after the other."""
    ratios = [each.estimate / each.theory for each in comparisons]
    errors = [each.standard_error / abs(each.theory) for each in comparisons]
    draw_points(ax, range(len(ratios)), ratios, errors, colour)
    ax.axhline(1, color="0.4")
    finish(ax, "comparison", "simulation / theory")


def finish(
    ax: Axes,
    x: str,
    y: str,
    *,
    title: str = "",
    log: str = "",
    legend: str | None = None,
    beside: bool = False,
) -> None:
    """Label axes, once everything is drawn.

    Parameters
    ----------
    ax : Axes
        With all that belongs there.
    x, y : str
        Names of the notation, whose labels are taken, or any other words.
    title : str
        Title of the axes.
    log : {"", "x", "y", "xy"}
        Axes that are logarithmic.
    legend : str, optional
        Title of the legend, possibly empty; without it there is no legend.
    beside : bool
        Whether the legend stands to the right of the axes.
    """
    ax.set(xlabel=LABELS.get(x, x), ylabel=LABELS.get(y, y), title=title)
    log_scale(ax, log)
    if legend is not None:
        place: dict[str, Any] = (
            {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if beside else {}
        )
        ax.legend(title=legend, **place)


def log_scale(ax: Axes, axes: str) -> None:
    """Make axes ("x", "y" or "xy") logarithmic, with labels 1, 2, 5 over short ranges.

    Call it when everything is drawn, since the labels depend on the range.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for name in axes:
        getattr(ax, f"set_{name}scale")("log")
        axis, (low, high) = getattr(ax, f"{name}axis"), getattr(ax, f"get_{name}lim")()
        axis.set_minor_formatter(NullFormatter())
        if high < 300 * low:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
