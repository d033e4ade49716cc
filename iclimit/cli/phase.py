"""``iclimit phase``: a phase diagram over two parameters, as a table or a figure."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
    parse_values,
    tell_plan,
    write_result,
)

if TYPE_CHECKING:
    from iclimit.diagrams.phases import PhaseDiagram

_LEGEND_ROW = 0.18
"""Height in inches that a boundary adds to the legend above a picture."""

EXAMPLES = """\
examples:
  iclimit phase icl_error --x alpha=0.1:100:1000:log --y kappa=0.1:10:1000:log \\
      --tau 4 --rho 0.1 -o phase.png
  iclimit phase optimal_ridge --x tau=0.1:10:100:log --y rho=0:1:100 --alpha 1 --kappa 0.5
  iclimit phase constant_rate_loss --x ratio=0.1:10:200:log --y rate=0.1:4:200:log \\
      --set steps=20 -o steps.pdf
  iclimit phase icl_error --x tau=0.1:4:200:log --y kappa=0.1:10:200:log --alpha 2 --rho 0.1 \\
      --task-spectrum powerlaw:0.9 --test-spectrum reversed -o misaligned.png

A picture has the boundaries of the quantity (where it diverges, where a longer context begins to
hurt, ...), and its data beside it in NetCDF: phase.png and phase.nc."""


def parse_axis(text: str) -> tuple[str, np.ndarray]:
    """Parse NAME=start:stop:points[:log]."""
    name, separator, values = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"must be NAME=start:stop:points[:log], got {text!r}")
    return name, parse_values(values)


class ListQuantities(argparse.Action):
    """Print all quantities with their parameters, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from iclimit.diagrams.quantities import QUANTITIES, TESTS

        for name, quantity in QUANTITIES.items():
            print(f"{name}: {quantity.meaning}")
            for parameter, described in quantity.all_parameters.items():
                remarks = ["integer"] if described.whole else []
                remarks += ["optional"] if parameter in quantity.optional else []
                remark = f" ({', '.join(remarks)})" if remarks else ""
                print(f"    {parameter}: {described.meaning}{remark}")
            if quantity.structured:
                more = [name for name in TESTS if name not in quantity.optional]
                also = f"; then also {', '.join(more)} (optional)" if more else ""
                print(f"    takes --task-spectrum, --test-spectrum, --input-spectrum{also}")
        parser.exit()


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "phase",
        help="compute a phase diagram over two parameters",
        description="Compute a quantity over two of its parameters; the others are numbers.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("quantity", metavar="QUANTITY", help="name from --list")
    parser.add_argument(
        "--list", action=ListQuantities, nargs=0, help="list all quantities with their parameters"
    )
    for axis in ("--x", "--y"):
        parser.add_argument(
            axis,
            type=parse_axis,
            required=True,
            metavar="NAME=RANGE",
            help="axis of the diagram: a parameter and start:stop:points[:log]",
        )
    add_parameters(parser, "VALUE")
    add_settings(parser)
    add_spectra(parser)
    parser.add_argument(
        "--simulate",
        type=parse_simulation,
        metavar="dim=16:24:32[,repeats=10][,points=6x5]",
        help="add simulated points with their z; of three or more sizes they are extrapolated",
    )
    parser.add_argument(
        "--refine",
        type=int,
        default=0,
        metavar="N",
        help="split the rectangles between simulated points N times where a boundary passes or "
        "the quantity changes most",
    )
    add_precision(parser)
    add_output(parser)
    add_execution(parser)
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compute and write."""
    from iclimit.diagrams.phases import phase_diagram

    path = options.output
    check_output(path, (*TABLES, ".nc", *PICTURES))
    picture = path is not None and path.suffix in PICTURES
    if picture:
        check_output(path.with_suffix(".nc"), (".nc",))
    check_execution(options)
    axes = dict([options.x, options.y])
    parameters: dict[str, Any] = axes | _fixed(options, axes)
    if options.refine and options.simulate is None:
        raise ValueError("--refine needs --simulate")
    with open_store(options) as store:
        diagram = phase_diagram(
            options.quantity,
            x=options.x[0],
            y=options.y[0],
            simulation=given_simulation(options),
            refine=options.refine,
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
    if picture or (path is not None and path.suffix == ".nc"):
        diagram.to_xarray().to_netcdf(path.with_suffix(".nc"), engine="h5netcdf")
    if picture:
        _draw(diagram, path)
    elif path is None or path.suffix != ".nc":
        write_result(diagram, options)
    return 0


def _draw(diagram: PhaseDiagram, path: Path) -> None:
    from iclimit.validation.drawing import house_style, new_figure

    with house_style():
        rows = len(diagram.boundaries) + bool(diagram.simulated) + bool(diagram.structure)
        figure = new_figure(height=4.0 + _LEGEND_ROW * rows)
        if any(value.z is not None for value in diagram.simulated):
            figure.set_figwidth(2 * figure.get_figwidth())
            left, right = figure.subplots(1, 2)
            diagram.plot_errors(right)
        else:
            left = figure.subplots()
        diagram.plot(left)
        figure.savefig(path)


def _fixed(options: argparse.Namespace, axes: dict[str, np.ndarray]) -> dict[str, float]:
    """Parameters that are not along an axis."""
    fixed = {}
    for name, values in [*given_parameters(options).items(), *options.set]:
        if name in axes:
            raise ValueError(f"{name} must not be given beside the axis {name}")
        if name in fixed:
            raise ValueError(f"{name} must be given once")
        if values.size != 1:
            raise ValueError(f"{name} must be one number, got {values.size}")
        fixed[name] = float(values[0])
    return fixed
