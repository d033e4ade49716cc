"""``iclimit phase``: a phase diagram over two parameters, as a table or a figure."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from iclimit.cli.arguments import (
    PARAMETERS,
    PICTURES,
    TABLES,
    add_output,
    add_parameters,
    check_output,
    given_parameters,
    parse_values,
    write_result,
)

EXAMPLES = """\
examples:
  iclimit phase icl_error --x alpha=0.1:100:200:log --y kappa=0.1:10:200:log \\
      --tau 4 --rho 0.1 -o phase.png
  iclimit phase optimal_ridge --x tau=0.1:10:100:log --y rho=0:1:100 --alpha 1 --kappa 0.5

quantities: icl_error idg_error task_gap optimal_ridge optimal_icl_error bayes_error
            dmmse_icl_error dmmse_idg_error"""


def parse_axis(text: str) -> tuple[str, np.ndarray]:
    """Parse NAME=start:stop:points[:log]."""
    name, separator, values = text.partition("=")
    if not separator or name not in PARAMETERS:
        raise argparse.ArgumentTypeError(
            f"must be NAME=start:stop:points[:log] with NAME one of {', '.join(PARAMETERS)}, "
            f"got {text!r}"
        )
    return name, parse_values(values)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "phase",
        help="compute a phase diagram over two parameters",
        description="Compute a quantity over two parameters; the others are numbers.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("quantity", metavar="QUANTITY", help="see below")
    for axis in ("--x", "--y"):
        parser.add_argument(
            axis, type=parse_axis, required=True, metavar="NAME=RANGE", help="axis of the diagram"
        )
    add_parameters(parser, "VALUE")
    add_output(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compute and write."""
    from iclimit.phases import phase_diagram

    check_output(options.output, TABLES + PICTURES)
    axes = dict([options.x, options.y])
    fixed = given_parameters(options)
    for name, values in fixed.items():
        if name in axes:
            raise ValueError(f"--{name} must not be given beside the axis {name}")
        if values.size != 1:
            raise ValueError(f"--{name} must be one number, got {values.size}")
    numbers = {name: float(values[0]) for name, values in fixed.items()}
    diagram = phase_diagram(options.quantity, x=options.x[0], y=options.y[0], **(axes | numbers))
    write_result(diagram, options)
    return 0
