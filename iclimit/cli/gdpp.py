"""Compute schedules of GD++ and their condition numbers.

Compute the gamma of every layer of GD++, which takes an eigenvalue x of the
context to x (1 - gamma x)^2, for a spectrum with the largest eigenvalue 1.
The table has the condition number after each layer, the same minus one
(excess), the worst residual of one final gradient-descent step, and its rate.

Examples
--------
  iclimit gdpp --condition-number 1e4 --tol 1e-10
  iclimit gdpp --condition-number 100 --steps 4 --method monotone --format csv
  iclimit gdpp --excess 1e-3 --steps 5
  iclimit gdpp --condition-number 1e6 --tol 1e-10 --cap 100 --margin 0.02
"""

from __future__ import annotations

import argparse
import math
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import add_choice, add_parameter, add_verb
from iclimit.cli.output import PICTURES, add_format, add_style, output_file, picture, write_columns

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

METHODS = {"optimal": "optimal", "monotone": "monotone (published)"}


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "gdpp", run, __doc__)
    add_parameter(parser, "condition_number", text="condition number at the start")
    add_parameter(parser, "excess", text="the same minus one, instead")
    add_parameter(parser, "steps", text="number of layers")
    add_parameter(parser, "tol", text="excess to reach, instead of --steps")
    text = "least condition number, or the published schedule"
    add_choice(parser, "--method", tuple(METHODS), text)
    text = "make no layer for a larger condition number than this"
    add_parameter(parser, "cap", math.inf, text=text)
    add_parameter(parser, "margin", 0.0, text="allow for a largest eigenvalue of 1 + X")
    text = "draw the excess of both methods besides (.png, .pdf, .svg)"
    parser.add_argument("--plot", type=output_file(PICTURES), metavar="FILE", help=text)
    add_style(parser)
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Compute, draw and print."""
    from iclimit.asymptotics.gdpp import condition_number_schedule

    names = ("condition_number", "excess", "steps", "tol", "cap", "margin")
    setting = {name: getattr(options, name) for name in names}
    schedules = {
        method: condition_number_schedule(**setting, method=method)
        for method in (METHODS if options.plot else (options.method,))
    }
    if options.plot:
        with picture(options, options.plot) as figure:
            excess = {METHODS[method]: found.excess for method, found in schedules.items()}
            draw(figure, excess, options.tol)
    schedule = schedules[options.method]
    shown = ("condition_number", "excess", "residual", "final_rate")
    columns = {
        "step": range(len(schedule.excess)),
        "gamma": [None, *schedule.gammas.tolist()],  # no layer has made the start
        **{name: getattr(schedule, name).tolist() for name in shown},
    }
    write_columns(columns, options.format)
    return 0


def draw(figure: Figure, excess: dict[str, np.ndarray], tol: float | None) -> None:
    """Draw the excess by layer, one curve for each method."""
    from matplotlib.ticker import MaxNLocator

    from iclimit.diagrams.legends import place_legend
    from iclimit.drawing import COLOURS, log_scale

    ax = figure.subplots()
    for (label, values), colour in zip(excess.items(), COLOURS, strict=False):
        drawn = values > 0  # a logarithmic axis has no place for 0
        ax.plot(drawn.nonzero()[0], values[drawn], "o-", color=colour, markersize=4, label=label)
    if tol is not None:
        ax.axhline(tol, color="0.4", linestyle="--", linewidth=1, label="tolerance")
    ax.set(xlabel="layers of GD++", ylabel=r"excess $\nu/\mu - 1$")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    log_scale(ax, "y")
    place_legend(ax, legend=True)
