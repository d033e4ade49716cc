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
    add_precision,
    add_settings,
    add_spectra,
    add_store,
    check_execution,
    check_output,
    given_parameters,
    given_simulation,
    given_spectra,
    open_store,
    parse_simulation,
    tell_plan,
    write_result,
)

EXAMPLES = """\
examples:
  iclimit curve icl_error --tau 0.1:5:400 --alpha 1,10,100 --kappa 0.5 --rho 0.01 -o curve.png
  iclimit curve task_gap --kappa 0.1:10:50:log --tau 10 --alpha 10 --rho 0.01 \\
      --simulate dim=40,repeats=10 -o gap.pdf
  iclimit curve dmmse_icl_error --theta 0:0.9:100 --alpha 1 --rho 0.3
  iclimit curve constant_rate_loss --set ratio=0.1:10:100:log --set rate=0.5 --set steps=1,5,20
  iclimit curve icl_error --kappa 0.1:10:60:log --tau 2 --alpha 2 --rho 0.1 --ridge 0.1 \\
      --task-spectrum powerlaw:0.5 --test-spectrum reversed --simulate dim=40 -o reversed.png
  iclimit curve misalignment_error --tau 0.2:4:100 --alpha 1 --kappa 1 --rho 0.1 \\
      --task-spectrum eigenvalues.csv --test-spectrum isotropic --test-alpha 1,10

Quantities and their parameters: iclimit phase --list."""


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
    parser.add_argument("quantity", metavar="QUANTITY", help="name from iclimit phase --list")
    add_parameters(parser, "VALUES")
    add_settings(parser)
    add_spectra(parser)
    parser.add_argument(
        "--simulate",
        type=parse_simulation,
        metavar="dim=80[,repeats=10][,points=12]",
        help="add simulated points with standard errors; of several sizes dim=16:24:32 they are "
        "extrapolated",
    )
    add_precision(parser)
    add_output(parser)
    add_execution(parser)
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compute, simulate and write."""
    from iclimit.diagrams.curves import curve

    check_output(options.output, TABLES + PICTURES)
    check_execution(options)
    simulation = given_simulation(options)
    parameters: dict[str, Any] = given_parameters(options)
    for name, values in options.set:
        if name in parameters:
            raise ValueError(f"{name} must be given once")
        parameters[name] = values
    with open_store(options) as store:
        result = curve(
            options.quantity,
            simulation=simulation,
            rng=options.seed,
            jobs=options.jobs,
            backend=options.backend,
            scheduler=options.scheduler,
            store=store,
            progress=sys.stderr.isatty(),
            announce=tell_plan,
            **given_spectra(options),
            **parameters,
        )
    write_result(result, options)
    return 0
