"""``iclimit gdpp``: how fast layers of GD++ improve the condition number."""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import Any

from iclimit.cli.arguments import PICTURES, check_output, print_rows

METHODS = {"optimal": "optimal", "monotone": "monotone (published)"}
EXAMPLES = """\
examples:
  iclimit gdpp --condition-number 1e4 --tol 1e-10
  iclimit gdpp --condition-number 100 --steps 4 --method monotone --format csv
  iclimit gdpp --excess 1e-3 --steps 5
  iclimit gdpp --condition-number 1e6 --tol 1e-10 --cap 100 --margin 0.02"""


def parse_picture(text: str) -> Path:
    """Parse the name of a picture that can be written."""
    try:
        check_output(Path(text), PICTURES)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).removeprefix("--output ")) from None
    return Path(text)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "gdpp",
        help="compute schedules of GD++ and the condition numbers they reach",
        description=(
            "Compute the gamma of every layer of GD++, which takes an eigenvalue x of the\n"
            "context to x (1 - gamma x)^2, for a spectrum with the largest eigenvalue 1.\n"
            "The table has the condition number after each layer, the same minus one\n"
            "(excess), the worst residual of one final gradient-descent step, and its rate."
        ),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--condition-number", type=float, help="condition number at the start")
    parser.add_argument("--excess", type=float, metavar="X", help="the same minus one, instead")
    parser.add_argument("--steps", type=int, metavar="K", help="number of layers")
    parser.add_argument("--tol", type=float, metavar="X", help="excess to reach, instead")
    parser.add_argument(
        "--method",
        choices=tuple(METHODS),
        default="optimal",
        help="least condition number, or the published schedule (default optimal)",
    )
    parser.add_argument(
        "--cap",
        type=float,
        default=math.inf,
        metavar="KAPPA",
        help="make no layer for a larger condition number than this (default: none)",
    )
    parser.add_argument(
        "--margin",
        type=float,
        default=0.0,
        metavar="X",
        help="allow for a largest eigenvalue of 1 + X (default 0)",
    )
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text")
    parser.add_argument(
        "--plot",
        type=parse_picture,
        metavar="FILE",
        help="draw the excess of both methods (.png, .pdf, .svg) besides",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compute, draw and print."""
    from iclimit.asymptotics.gdpp import condition_number_schedule

    names = ("condition_number", "excess", "steps", "tol", "cap", "margin")
    setting = {name: getattr(options, name) for name in names}
    schedule = condition_number_schedule(**setting, method=options.method)
    if options.plot:
        excess = {
            name: condition_number_schedule(**setting, method=name).excess for name in METHODS
        }
        draw(excess, options.tol, options.plot)
    columns = {
        "step": range(len(schedule.excess)),
        # No layer has made the start.
        "gamma": ["" if options.format == "text" else None, *schedule.gammas.tolist()],
        "condition_number": schedule.condition_number.tolist(),
        "excess": schedule.excess.tolist(),
        "residual": schedule.residual.tolist(),
        "final_rate": schedule.final_rate.tolist(),
    }
    lines = zip(*columns.values(), strict=True)
    print_rows([dict(zip(columns, line, strict=True)) for line in lines], options.format)
    return 0


def draw(excess: dict[str, Any], tol: float | None, path: Path) -> None:
    """Draw the excess by layer, one curve for each method."""
    from matplotlib.ticker import MaxNLocator

    from iclimit.validation.drawing import COLOURS, house_style, log_scale, new_figure

    with house_style():
        figure = new_figure()
        ax = figure.subplots()
        for (name, values), colour in zip(excess.items(), COLOURS, strict=False):
            drawn = values > 0  # a logarithmic axis has no place for 0
            layers = drawn.nonzero()[0]
            ax.plot(layers, values[drawn], "o-", color=colour, markersize=4, label=METHODS[name])
        if tol is not None:
            ax.axhline(tol, color="0.4", linestyle="--", linewidth=1, label="tolerance")
        ax.set_xlabel("layers of GD++")
        ax.set_ylabel(r"condition number minus one, $\kappa - 1$")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        log_scale(ax, "y")
        ax.legend()
        figure.savefig(path)
