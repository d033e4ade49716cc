"""House style of figures: theory as lines, simulation as points with error bars."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

LABELS = {
    "tau": r"$\tau = n/d^2$",
    "alpha": r"$\alpha = \ell/d$",
    "kappa": r"$\kappa = k/d$",
    "rho": r"$\rho$",
    "ridge": r"$\lambda$",
    "theta": r"$\theta = \log k/d$",
    "icl_error": r"$e_{\mathrm{ICL}}$",
    "idg_error": r"$e_{\mathrm{IDG}}$",
    "task_gap": r"$e_{\mathrm{ICL}} - e_{\mathrm{IDG}}$",
}
"""Axis labels, in the symbols of the notation page."""


def symbol(name: str) -> str:
    """Symbol of a parameter, without dollar signs."""
    return LABELS[name].strip("$").split(" ")[0]


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's colours, distinguishable with any colour vision."""

STYLE: dict[Any, Any] = {
    "font.size": 10,
    "axes.labelsize": 11,
    "axes.titlesize": 10,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "grid.linewidth": 0.6,
    "savefig.dpi": 200,
    "savefig.bbox": "tight",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
}


@contextmanager
def house_style() -> Iterator[None]:
    """Draw and save within the house style, leaving the user's settings alone."""
    import matplotlib as mpl

    with mpl.rc_context(STYLE):
        yield


def new_figure(width: float = 6.4, height: float = 4.0) -> Any:
    """Figure that belongs to no window system."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def draw_points(
    ax: Any, x: Any, mean: Any, standard_error: Any, colour: str, **options: Any
) -> Any:
    """Simulated points with bars of one standard error."""
    return ax.errorbar(
        x,
        mean,
        yerr=np.asarray(standard_error),
        fmt=options.pop("fmt", "o"),
        color=colour,
        markersize=options.pop("markersize", 4),
        capsize=2,
        linewidth=1.2,
        **options,
    )


def log_scale(ax: Any, axes: str) -> None:
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
