r"""Compute a phase diagram over two parameters.

Compute a quantity over two of its parameters; the others are single numbers.
A picture shows the boundaries of the quantity (where it diverges, where a
longer context begins to hurt, ...) and gets its data beside it in NetCDF:
phase.png and phase.nc.

Examples
--------
  iclimit phase icl_error --x alpha=0.1:100:1000:log --y kappa=0.1:10:1000:log \
      --tau 4 --rho 0.1 -o phase.png
  iclimit phase optimal_ridge --x tau=0.1:10:100:log --y rho=0:1:100 --alpha 1 --kappa 0.5
  iclimit phase constant_rate_loss --x ratio=0.1:10:200:log --y rate=0.1:4:200:log \
      --set steps=20 -o steps.pdf
  iclimit phase icl_error --x tau=0.1:4:200:log --y kappa=0.1:10:200:log --alpha 2 --rho 0.1 \
      --task-spectrum powerlaw:0.9 --test-spectrum reversed -o misaligned.png
  iclimit phase tied_loss --x alpha=0.1:32:30:log --y depth=1:256:9:log \
      --input-spectrum powerlaw:1.2,200 -o depth.png
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import PrintAndExit, add_verb, open_store, parse_setting
from iclimit.cli.diagram import add_diagram, diagram_options
from iclimit.cli.output import PICTURES, TABLES, add_output, output_file, write_output

if TYPE_CHECKING:
    pass


def print_quantities() -> None:
    """Print all quantities with their parameters."""
    from iclimit.diagrams.quantities import QUANTITIES, TESTS

    for name, quantity in QUANTITIES.items():
        print(f"{name}: {quantity.meaning}")
        for parameter, described in quantity.all_parameters.items():
            optional = ", optional" if parameter in quantity.optional else ""
            print(f"    {parameter}: {described.meaning} ({described.allowed}{optional})")
        if quantity.spectral:
            print("    takes --task-spectrum, --input-spectrum")
        if quantity.part:
            more = [name for name in TESTS if name not in quantity.optional]
            also = f"; then also {', '.join(more)} (optional)" if more else ""
            print(f"    takes --task-spectrum, --test-spectrum, --input-spectrum{also}")


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "phase", run, __doc__)
    text = "list all quantities with their parameters"
    parser.add_argument("--list", action=PrintAndExit, nargs=0, const=print_quantities, help=text)
    for axis in ("--x", "--y"):
        parser.add_argument(
            axis,
            type=parse_setting,
            required=True,
            metavar="NAME=RANGE",
            help="axis of the diagram: a parameter and start:stop:points[:log]",
        )
    add_diagram(parser, "points=6, or 6x5 along the two axes,")
    text = (
        "split the rectangles between simulated points N times where a boundary passes or "
        "the quantity changes most (default 0)"
    )
    parser.add_argument("--refine", type=int, default=0, metavar="N", help=text)
    text = "write a table (.csv, .json), labelled data (.nc) or a picture (.png, .pdf, .svg)"
    add_output(parser, (*TABLES, ".nc", *PICTURES), formats=("csv", "json"), text=text)


def run(options: argparse.Namespace) -> int:
    """Compute and write."""
    from iclimit.diagrams.phases import phase_diagram

    path, data = options.output, None
    if path is not None and path.suffix not in TABLES:
        data = output_file((".nc",))(str(path.with_suffix(".nc")))
    if options.refine and options.simulate is None:
        raise ValueError("--refine needs --simulate")
    with open_store(options) as store:
        diagram = phase_diagram(
            options.quantity,
            x=options.x[0],
            y=options.y[0],
            refine=options.refine,
            store=store,
            **diagram_options(options, (options.x, options.y)),
        )
    if data is not None:
        diagram.write(data)
    if path is None or path != data:
        write_output(options, diagram.rows, diagram.draw_figure)
    return 0
