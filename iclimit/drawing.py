"""House style of figures: theory as lines, simulation as points with error bars."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from iclimit.figure_files import metadata
from iclimit.files import replacing
from iclimit.notation import LABELS

if TYPE_CHECKING:
    from matplotlib.axes import Axes as Axes
    from matplotlib.figure import Figure as Figure
    from matplotlib.text import Text
else:  # matplotlib is loaded when something is drawn
    Axes = Any
    Figure = Axes
    Text = Axes


class Measured(Protocol):
    """A mean with a standard error, such as an Estimate."""

    @property
    def mean(self) -> float: ...
    @property
    def standard_error(self) -> float: ...


# Okabe and Ito's colours, distinguishable with any colour vision.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")

# Part of the map of `shades` that is used: its brightest colours can hardly be seen on white.
_BRIGHTEST = 0.8

# Style sheet of all figures.
STYLE = str(resources.files(__package__) / "house.mplstyle")

# Widths in inches of one and two columns of text; figures of these styles have them exactly.
COLUMNS = {"paper": 3.4, "paper-wide": 7.0}

# Styles of figures: that of the house, and sheets of other sizes over it.
STYLES = ("screen", *COLUMNS, "talk")

# Width in inches below which panels are stacked instead of set side by side.
_STACKED = 2.2

# Least height in inches of a panel in a style for papers.
_PANEL = 2.3

# Width in inches of a figure with several panels.  It is the same for all figures of a report, so
# that their type has one size.
WIDTH = 8.6

# Width in inches of such a figure in the style for talks.
_TALK = 12.0

# Width of lines in the style of the house.
_LINE = 1.6

# Least inches beside a panel that a legend above it leaves free.
_BESIDE = 0.75

# Inches that it leaves free besides long labels of the y axis.
_GAP = 0.25

# Number of entries from which on a legend has small letters.
_MANY = 7

_style: ContextVar[str] = ContextVar("style", default="screen")


@contextmanager
def house_style(style: str = "screen") -> Iterator[None]:
    """Draw and save within one of the styles, leaving the user's settings alone."""
    import matplotlib as mpl

    token = _style.set(style)
    try:
        with mpl.rc_context(fname=STYLE):
            if style != "screen":
                sheet = str(resources.files(__package__) / f"{style}.mplstyle")
                mpl.rcParams.update(mpl.rc_params_from_file(sheet, use_default_template=False))
            yield
    finally:
        _style.reset(token)


def new_figure(width: float | None = None, height: float | None = None) -> Figure:
    """Figure that belongs to no window system, of the size of the style unless one is given."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    usual = mpl.rcParams["figure.figsize"]
    figure = Figure(figsize=(width or usual[0], height or usual[1]), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


@contextmanager
def saved_figure(
    path: Path, style: str = "screen", parameters: Mapping[str, Any] | None = None
) -> Iterator[Figure]:
    """Yield a figure in a style, which is saved with `save_picture` if nothing fails."""
    with house_style(style):
        figure = new_figure()
        yield figure
        save_picture(figure, path, parameters)


def save_picture(figure: Figure, path: Path, parameters: Mapping[str, Any] | None = None) -> bytes:
    """Save a figure, whole or not at all, and return what was written.

    The parameters are written into the file, where `figure_parameters` finds them.
    """
    content = picture(figure, path.suffix, parameters)
    with replacing(path) as partial:
        partial.write_bytes(content)
    return content


def picture(figure: Figure, ending: str, parameters: Mapping[str, Any] | None = None) -> bytes:
    """Content of a file of a figure, such as ".png"."""
    content = io.BytesIO()  # matplotlib hides what goes wrong while it writes a PDF file
    written = metadata(ending, parameters) if parameters else None
    figure.savefig(content, format=ending[1:], metadata=written)
    return content.getvalue()


def shades(count: int) -> list[tuple[float, float, float, float]]:
    """Colours of lines in an order, from dark to light, which grey shades keep apart, too."""
    from matplotlib import colormaps

    return [tuple(colour) for colour in colormaps["viridis"](np.linspace(0, _BRIGHTEST, count))]


def panels(
    figure: Figure,
    columns: int = 2,
    rows: int = 1,
    *,
    width: float = WIDTH,
    height: float = 3.7,
    foot: float = 0.0,
    narrowest: float = _STACKED,
    **sharing: Any,
) -> list[Axes]:
    """Divide a figure of this size into axes, row by row.

    The last axes, below the others and as wide as all of them, are ``foot`` inches high, if it is
    not 0.  The styles for papers have a width of their own, to which the panels are fitted; they
    are stacked where they would be narrower than ``narrowest`` inches.
    """
    style = _style.get()
    if limit := COLUMNS.get(style):
        if limit < narrowest * columns:
            rows = rows * columns
            columns = 1
            height = max(_PANEL * rows, height * limit / width)
        else:
            height *= max(limit / width, _PANEL * rows / height)
        width = limit
    elif style == "talk":
        magnification = _TALK / WIDTH
        width *= magnification
        height *= magnification
        foot *= magnification
    figure.set_size_inches(width, height + foot)
    if not foot:
        return list(figure.subplots(rows, columns, squeeze=False, **sharing).flat)
    if not rows:
        return [figure.subplots()]
    heights = [height / rows] * rows + [foot]
    grid = figure.add_gridspec(rows + 1, columns, height_ratios=heights)
    above = [figure.add_subplot(grid[k, i]) for k in range(rows) for i in range(columns)]
    return [*above, figure.add_subplot(grid[rows, :])]


def write_headline(figure: Figure, text: str) -> Text:
    """Say above a figure what it shows."""
    return figure.suptitle(text, x=0.01, ha="left", fontsize="medium", weight="bold", wrap=True)


def write_texts(figure: Figure, head: str, foot: str) -> None:
    """Say above a figure what it shows and below it what else is known; it grows by the texts."""
    texts = [
        write_headline(figure, head),
        figure.supxlabel(foot, x=0.01, ha="left", fontsize="small", wrap=True),
    ]
    height = sum(text.get_window_extent().height for text in texts)
    figure.set_figheight(figure.get_figheight() + height / figure.dpi)


def write_key(figure: Figure, key: str) -> None:
    """Say above a figure what lines and points are."""
    figure.suptitle(key, fontsize="small", color="0.3", wrap=True)


def draw_points(
    ax: Axes,
    x: ArrayLike,
    mean: ArrayLike,
    standard_error: ArrayLike,
    colour: str,
    *,
    fmt: str = "o",
    markersize: float = 4,
    capsize: float = 2,
    **options: Any,
) -> Any:
    """Draw simulated points with bars of one standard error."""
    from matplotlib import rcParams

    # Points of a talk are as much larger as its lines are wider.
    wider = max(1.0, rcParams["lines.linewidth"] / _LINE)
    return ax.errorbar(
        x,
        mean,
        yerr=np.asarray(standard_error),
        color=colour,
        fmt=fmt,
        markersize=wider * markersize,
        capsize=wider * capsize,
        linewidth=wider * 1.2,
        **options,
    )


def draw_estimates(
    ax: Axes, x: ArrayLike, estimates: Sequence[Measured], colour: str, **options: Any
) -> Any:
    """Draw estimates as points with bars of one standard error."""
    means = [estimate.mean for estimate in estimates]
    errors = [estimate.standard_error for estimate in estimates]
    return draw_points(ax, x, means, errors, colour, **options)


def draw_family(
    ax: Axes,
    line: tuple[ArrayLike, ArrayLike],
    points: tuple[ArrayLike, Sequence[Measured]],
    colour: str,
    label: str | None = None,
    **options: Any,
) -> None:
    """Draw one curve: theory as a line (x, y), simulation as points (x, estimates)."""
    ax.plot(*line, color=colour, label=label)
    draw_estimates(ax, *points, colour, **options)


def draw_training(
    ax: Axes, losses: ArrayLike, colour: str, *, points: int = 60, **options: Any
) -> None:
    """Draw the losses of single steps of a training, averaged over equal parts of it."""
    parts = np.array_split(np.asarray(losses), min(points, np.size(losses)))
    ends = np.cumsum([part.size for part in parts])
    steps = [end - part.size / 2 for end, part in zip(ends, parts, strict=True)]
    ax.plot(steps, [np.mean(part) for part in parts], color=colour, **options)


def draw_sizes(
    ax: Axes,
    sizes: Sequence[int],
    estimates: Sequence[Measured],
    colour: str,
    *,
    limit: float | None = None,
    label: str | None = None,
) -> None:
    """Draw estimates against the inverse size, with their limit as a star at 0."""
    draw_estimates(ax, 1 / np.asarray(sizes, float), estimates, colour, label=label)
    if limit is not None:
        ax.plot(0, limit, "*", color=colour, markersize=11, clip_on=False, zorder=5)
    ax.set_xlim(left=0)
    ax.set_xlabel("$1/d$")


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
        Title of the legend, possibly empty; without it there is no legend.  It stands above the
        axes, where it hides nothing.
    beside : bool
        Whether the legend stands to the right of the axes.
    """
    ax.set(xlabel=LABELS.get(x, x), ylabel=LABELS.get(y, y), title=title)
    log_scale(ax, log)
    if legend is not None and beside:
        ax.legend(title=legend, loc="center left", bbox_to_anchor=(1, 0.5))
    elif legend is not None:
        _legend_above(ax, legend)


def _legend_above(ax: Axes, heading: str) -> None:
    """Draw a legend between axes and their title, in as many columns as there is room for."""
    entries = ax.get_legend_handles_labels()
    spec = ax.get_subplotspec()
    share = len(spec.colspan) / spec.get_gridspec().ncols if spec else 1
    labels = ax.yaxis.get_tightbbox()
    left = labels.width / ax.figure.dpi + _GAP if labels else 0
    most = share * ax.figure.bbox.width - max(left, _BESIDE) * ax.figure.dpi
    look: Any = {"loc": "lower left", "bbox_to_anchor": (0, 1), "alignment": "left"}
    look |= {"borderaxespad": 0.2, "title": heading, "handlelength": 1.5, "columnspacing": 1.2}
    if len(entries[1]) >= _MANY:
        look |= {"fontsize": "x-small"}
    for columns in range(min(len(entries[1]), 4), 0, -1):
        drawn = ax.legend(*entries, ncols=columns, **look)
        box = drawn.get_window_extent()
        if box.width <= most:
            break
    if entries[1]:
        ax.set_title(ax.get_title(), pad=72 * box.height / ax.figure.dpi + 6)


def show_zero(ax: Axes) -> None:
    """Let the y axis reach 0, with a margin beyond what is drawn: equal values have none."""
    lowest = min(ax.dataLim.y0, 0.0)
    highest = max(ax.dataLim.y1, 0.0)
    room = ax.get_ymargin() * (highest - lowest)
    ax.set_ylim(lowest - room if lowest else 0.0, highest + room if highest else 0.0)


def log_scale(ax: Axes, axes: str) -> None:
    """Make axes ("x", "y" or "xy") logarithmic, with labels that can be read at any range.

    Call it when everything is drawn, since the labels depend on the range.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    spec = ax.get_subplotspec()
    for name in axes:
        # A third of a figure has room for few labels below it.
        wide = name == "y" or spec is None or spec.get_gridspec().ncols < 3
        getattr(ax, f"set_{name}scale")("log")
        axis = getattr(ax, f"{name}axis")
        low, high = getattr(ax, f"get_{name}lim")()
        axis.set_minor_formatter(NullFormatter())
        if high < 4 * low:  # no two powers of ten, and few of 1, 2, 5
            axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
        elif high < (300 if wide else 10) * low:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        if high < 300 * low or (low > 1e-4 and high < 5e3):
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
