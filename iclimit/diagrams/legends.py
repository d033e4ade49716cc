"""Legends and titles that fit beside what is drawn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.drawing import Axes
from iclimit.links import link_text

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.legend import Legend

    from iclimit.diagrams.quantities import Quantity
    from iclimit.notation import Parameter

# Group id of what was written here, which another legend or title may replace.
OURS = "iclimit"

# Points between a legend above the axes and a title over it.
_PAD = 8

# Share of the height of a figure that a legend above its axes may take.
_HIGHEST = 0.4


def place_legend(ax: Axes, legend: bool | str | Sequence[str], *, least: int = 1) -> None:
    """Draw a legend of all that has a label: in a free place, or above the axes if none is free.

    Where the user has written a title, it stands where it hides least.

    Parameters
    ----------
    ax : Axes
        With all that belongs there.
    legend : bool, str or list of str
        Whether there is one; or where: a location of matplotlib such as ``"upper left"``; or its
        entries in their order.
    least : int
        Fewest entries for which there is one.
    """
    pairs = zip(*ax.get_legend_handles_labels(), strict=True)
    entries = {label: handle for handle, label in pairs}
    # What explains lines and points comes after the curves, also after those drawn later.
    names = sorted(entries, key=lambda label: entries[label].get_gid() == OURS)
    if not isinstance(legend, (bool, str)):
        names = list(legend)
        if unknown := [name for name in names if name not in entries]:
            raise ValueError(f"legend must have names of {list(entries)}, got {unknown[0]!r}")
    if not legend or len(names) < least:
        return
    handles = [entries[name] for name in names]
    place: Any = legend if isinstance(legend, str) else "best"
    drawn = ax.legend(handles, names, loc=place)
    if isinstance(legend, str):
        return
    lay_out(ax)
    title = ax.title
    if not _is_free(ax, drawn) and (title.get_gid() == OURS or not title.get_text()):
        height = legend_above(ax, handles, names).get_window_extent().height
        above = 72 * height / ax.figure.dpi + _PAD
        ax.set_title(title.get_text(), fontsize="small", gid=OURS, pad=above)


def _is_free(ax: Axes, legend: Legend) -> bool:
    """Whether a legend is inside the axes and hides no curve."""
    box = legend.get_window_extent().padded(2)
    frame = ax.get_window_extent()
    inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0
    curves = [line for line in ax.lines if np.size(line.get_xdata())]
    paths = [line.get_path().transformed(line.get_transform()) for line in curves]
    return inside and not any(path.intersects_bbox(box, filled=False) for path in paths)


def legend_above(
    ax: Axes,
    handles: Sequence[Artist],
    labels: Sequence[str],
    *,
    title: str | None = None,
    most_columns: int = 4,
    handlelength: float | None = None,
) -> Legend:
    """Draw a legend above the axes, in as many columns as their width has room for."""
    most = room(ax)
    for columns in range(min(len(handles), most_columns), 0, -1):
        drawn = ax.legend(
            handles,
            labels,
            ncols=columns,
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            alignment="left",
            frameon=False,
            borderaxespad=0.3,
            title=title,
            handlelength=handlelength,
        )
        drawn.set_in_layout(False)
        if columns == 1 or drawn.get_window_extent().width <= most:
            break
    _reserve(ax, drawn.get_window_extent().height)
    return drawn


def _reserve(ax: Axes, height: float) -> None:
    """Let the layout leave so many pixels above the axes, at any width.

    A legend in the layout would also keep what is beside the axes, such as a colour bar, away.
    """
    from matplotlib.offsetbox import AnchoredOffsetbox, DrawingArea

    for artist in [artist for artist in ax.artists if artist.get_gid() == OURS]:
        artist.remove()
    strut = AnchoredOffsetbox(
        "lower left",
        child=DrawingArea(1, 72 * height / ax.figure.dpi),
        bbox_to_anchor=(0.0, 1.0),
        bbox_transform=ax.transAxes,
        frameon=False,
        pad=0,
        borderpad=0.3,
    )
    strut.set_gid(OURS)
    ax.add_artist(strut)


def boundary_legend(ax: Axes, handles: Sequence[Artist], title: str | None) -> None:
    """Draw a legend of formulas above the axes, with the words after them where there is room."""
    labels = [str(handle.get_label()) for handle in handles]
    most = room(ax), _HIGHEST * ax.figure.bbox.height
    drawn = legend_above(ax, handles, labels, title=title, most_columns=1, handlelength=3)
    box = drawn.get_window_extent()
    if box.width > most[0] or box.height > most[1]:
        short = [label.split(": ")[0] for label in labels]
        legend_above(ax, handles, short, title=title, handlelength=2)


def lay_out(ax: Axes) -> None:
    """Move the axes of a figure to where they will be drawn, in half the time of drawing."""
    figure = ax.figure.canvas.figure
    if (engine := figure.get_layout_engine()) is None:
        figure.draw_without_rendering()
    else:
        engine.execute(figure)


def room(ax: Axes) -> float:
    """Width from the left of the axes to the end of their part of the figure, in pixels."""
    lay_out(ax)
    spec = ax.get_subplotspec()
    columns = 1
    last = 1
    if spec is not None:
        spec = spec.get_topmost_subplotspec()
        columns = spec.get_gridspec().ncols
        last = spec.colspan.stop
    return last / columns * ax.figure.bbox.x1 - ax.get_window_extent().x0


def write_title(ax: Axes, title: str | None, lines: Iterable[str]) -> None:
    """Write a title, or without one these lines, broken where they are wider than the axes.

    The lines replace no title of the user's.  Where they differ from those of another family of
    curves in the same axes, none are left.
    """
    present = ax.title
    if title is not None:
        ax.set_title(title)
    elif present.get_gid() == OURS or not present.get_text():
        text = broken(ax, lines)
        differs = present.get_gid() == OURS and text != present.get_text()
        ax.set_title("" if differs else text, fontsize="small", gid=OURS)


def broken(ax: Axes, lines: Iterable[str]) -> str:
    """Lines of entries with commas between them, broken where they are wider than the axes."""
    most = room(ax)
    probe = ax.text(0, 0, "", fontsize="small")
    broken_lines = []
    for line in lines:
        first, *entries = line.split(", ")
        broken_lines.append(first)
        for entry in entries:
            probe.set_text(f"{broken_lines[-1]}, {entry}")
            if probe.get_window_extent().width > most:
                broken_lines[-1] += ","
                broken_lines.append(entry)
            else:
                broken_lines[-1] = probe.get_text()
    probe.remove()
    return "\n".join(broken_lines)


def setting_lines(quantity: Quantity, fixed: Mapping[str, float]) -> list[str]:
    """Parameters of a picture that do not vary, and spectra of structured data or a link."""
    spectra = quantity.structure.title if quantity.structure else ""
    link = "" if quantity.link is None else f"link {link_text(quantity.link)}"
    return [line for line in (stated(quantity.all_parameters, fixed), spectra, link) if line]


def stated(parameters: Mapping[str, Parameter], values: Mapping[str, float]) -> str:
    """Parameters with their values, as a line of a title or legend."""
    entries = []
    for name, value in values.items():
        number, _, power = f"{value:g}".replace("inf", r"\infty").partition("e")
        if power:
            number = rf"{number} \times 10^{{{int(power)}}}".removeprefix(r"1 \times ")
        symbol = parameters[name].symbol
        entries.append(
            f"${symbol} = {number}$" if symbol else f"{parameters[name].label} = ${number}$"
        )
    return ", ".join(entries)
