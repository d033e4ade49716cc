"""``iclimit curve``: a quantity along one parameter, as a table or a figure."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from iclimit.cli.arguments import (
    PICTURES,
    TABLES,
    add_execution,
    add_output,
    add_parameters,
    check_execution,
    check_output,
    given_parameters,
    parse_simulation,
    write_result,
)

EXAMPLES = """\
examples:
  iclimit curve icl_error --tau 0.1:5:400 --alpha 1,10,100 --kappa 0.5 --rho 0.01 -o curve.png
  iclimit curve task_gap --kappa 0.1:10:50:log --tau 10 --alpha 10 --rho 0.01 \\
      --simulate d=40,repeats=10 -o gap.pdf
  iclimit curve dmmse_icl_error --theta 0:0.9:100 --alpha 1 --rho 0.3

quantities: icl_error idg_error task_gap optimal_ridge optimal_icl_error bayes_error
            dmmse_icl_error dmmse_idg_error"""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "curve",
        help="compute a quantity along one parameter",
        description=(
            "Compute a quantity along one parameter, given as a range start:stop:points[:log]; "
            "further lists a,b,c become curves."
        ),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("quantity", metavar="QUANTITY", help="see below")
    add_parameters(parser, "VALUES")
    parser.add_argument(
        "--simulate",
        type=parse_simulation,
        metavar="d=80[,repeats=10][,points=12]",
        help="add simulated points with standard errors",
    )
    add_output(parser)
    add_execution(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compute, simulate and write."""
    from iclimit.curves import curve

    check_output(options.output, TABLES + PICTURES)
    check_execution(options)
    result = curve(
        options.quantity,
        simulation=options.simulate,
        rng=options.seed,
        jobs=options.jobs,
        backend=options.backend,
        progress=sys.stderr.isatty(),
        **given_parameters(options),
    )
    write_result(result, options)
    return 0
