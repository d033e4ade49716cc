"""The verbs ``curve`` and ``phase``: a quantity along one parameter or over two of them."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import util
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from iclimit.cli.execution import DryRun, add_execution, execution, open_store
from iclimit.cli.flags import add_flag
from iclimit.cli.output import add_output, output
from iclimit.cli.values import (
    expects,
    output_file,
    parse_label,
    parse_positive,
    parse_range_of,
    parse_setting,
    parse_share,
)
from iclimit.cli.verbs import OneLineParser, PrintAndExit, verb
from iclimit.tables import PICTURES, TABLES, rows_text

if TYPE_CHECKING:
    import numpy as np

    from iclimit.diagrams.curves import Curves
    from iclimit.diagrams.phases import PhaseDiagram
    from iclimit.diagrams.planning import Plan
    from iclimit.notation import Parameter
    from iclimit.runs.store import RunStore

Diagram = TypeVar("Diagram", "Curves", "PhaseDiagram")

# Quantities that are named for a parameter that another one does not have.
_FEW_QUANTITIES = 3

# Parameters that the help shows before a quantity is chosen.
COMMON = ("tau", "alpha", "kappa", "rho", "ridge", "test_alpha", "test_rho", "theta")

SPECTRA = ("task_spectrum", "test_spectrum", "input_spectrum")

# Arguments of all verbs of quantities, and of those that draw them.
COMPUTED = ("quantity", *SPECTRA, "normalize")
DRAWN = (*COMPUTED, "link")

STRUCTURED_DATA = """\
SPEC is isotropic; powerlaw:0.9, exponential:3 or mp:0.5, each of mean 1;
powerlaw:1.2,400, the eigenvalues k^-1.2 for k = 1, ..., 400; uniform:0.5,1.5;
atoms:0.4,1.6 or, with weights, "atoms:0.4,1.6;0.3,0.7"; or a .csv or .txt file
of eigenvalues in one column or row, or of a square matrix; it may have a header
and a column that counts the rows.  All covariances share their eigenvectors: the
largest eigenvalues belong together, but with reversed:SPEC the largest of this
spectrum and the smallest of the others.  In simulations of dimension d a
spectrum is cut into d parts of equal weight, whose means are the eigenvalues, so
a file of d eigenvalues is used as it is.  A million points take minutes, with an
input spectrum hours.
"""


def add_quantity(parser: OneLineParser, *, ends: bool = False, links: bool = False) -> None:
    """Add the quantity, its parameters and spectra.

    The parameters are those of the quantity that is among the words of the command line.  With
    ``ends`` a range may be its two ends; with ``links`` there is a flag for the link of labels.
    """
    from iclimit.diagrams.quantities import LABELS, QUANTITIES, TESTS

    text = (
        "what to compute: iclimit phase --list has all names, and --help behind a name shows the "
        "flags of its parameters"
    )
    parser.add_argument("quantity", metavar="QUANTITY", help=text)
    quantity = next((QUANTITIES[word] for word in parser.words if word in QUANTITIES), None)
    names = [*quantity.all_parameters, *(TESTS if quantity.part else ())] if quantity else COMMON
    if links and quantity and quantity.usual_link:
        names = [*names, *LABELS]
    for name in dict.fromkeys(names):
        add_flag(parser, name, type=parse_range_of(name, ends=ends), metavar="VALUES")
    parser.set_defaults(parameters=tuple(dict.fromkeys(names)))
    if quantity:
        parser.owners_of = partial(_other_quantities, quantity.name)
    if links:
        add_flag(parser, "link")
    spectra = add_spectra(parser)
    text = "divide each spectrum by its mean"
    spectra.add_argument("--normalize", action="store_true", help=text)


def _other_quantities(name: str, parameter: str) -> str:
    """Quantities that have a parameter which this one has not, those of like names first."""
    from iclimit.diagrams.quantities import QUANTITIES

    others = [other for other, row in QUANTITIES.items() if parameter in row.all_parameters]
    likest = difflib.get_close_matches(name, others, n=_FEW_QUANTITIES, cutoff=0)
    if not likest:
        return ""
    return f"{name} has no {parameter}, which is a parameter of {', '.join(likest)}"


def add_simulation(parser: OneLineParser, points: str) -> None:
    """Add what says how to simulate points of a quantity."""
    group = parser.add_argument_group("simulated points")
    text = (
        "simulate points of icl_error, idg_error, task_gap, icl_error_at_time, "
        "idg_error_at_time, pretrained_accuracy or pretrained_idg_accuracy. OPTIONS are dim=80, "
        "or several dimensions dim=16:24:32 (three or more are extrapolated to infinite "
        f"dimension), and after commas {points} and repeats=10"
    )
    group.add_argument("--simulate", type=parse_simulation, metavar="OPTIONS", help=text)
    add_flag(group, "target_standard_error", text="repeat until standard errors are this small")
    text = "repeat until standard errors are this fraction of the value, as 0.01 or 1%"
    add_flag(group, "target_relative_error", text=text, type=parse_share)
    add_execution(parser)


def add_spectra(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add --task-spectrum, --test-spectrum and --input-spectrum."""
    group = parser.add_argument_group("structured data", STRUCTURED_DATA)
    for name in SPECTRA:
        add_flag(group, name)
    return group


@expects("look like dim=80,repeats=10,points=12 or dim=16:24:32 or dim=80,points=0.5:1.5")
def parse_simulation(text: str) -> dict[str, Any]:
    """Parse dim=80,repeats=10,points=12, sizes as 16:24:32, points as 6x5 or at 0.5:1.5."""
    pairs = dict(pair.split("=") for pair in text.split(","))
    if len(pairs) <= text.count(","):
        raise ValueError
    options: dict[str, Any] = {}
    for name, value in pairs.items():
        number = float if name == "points" and (":" in value or "." in value) else int
        parts = tuple(map(number, value.replace("x", ":").split(":")))
        options[name] = parts[0] if len(parts) == 1 and number is int else parts
    return options


def parameters_of(options: argparse.Namespace) -> dict[str, Any]:
    """Parameters of the quantity that the options give."""
    given = {name: getattr(options, name) for name in options.parameters}
    known = {name: values for name, values in given.items() if values is not None}
    return {n: values if values.size > 1 else float(values[0]) for n, values in known.items()}


def diagram_options(
    options: argparse.Namespace, axes: Mapping[str, np.ndarray] | None = None
) -> dict[str, Any]:
    """Arguments of `curve` and `phase_diagram` that the options give."""
    given = dict(axes or {}) | parameters_of(options)
    if twice := [name for name in axes or {} if getattr(options, name, None) is not None]:
        raise ValueError(f"{twice[0]} must be given once")
    targets = {n: getattr(options, n) for n in ("target_standard_error", "target_relative_error")}
    simulation = {name: value for name, value in targets.items() if value is not None}
    if options.simulate is not None:
        simulation |= options.simulate
        simulation |= {"time_limit": options.time_limit} if options.time_limit else {}
    elif options.dry_run:
        raise ValueError("--dry-run needs --simulate: without it nothing is simulated")
    elif simulation:
        raise ValueError(f"--{min(simulation).replace('_', '-')} needs --simulate")
    return {
        **execution(options),
        **{name: getattr(options, name) for name in DRAWN},
        "simulation": simulation or None,
        "announce": partial(_announce, dry_run=options.dry_run),
        **given,
    }


def _announce(plan: Plan, *, dry_run: bool) -> None:
    """Print what simulations will cost, and end there if that is all that is wanted."""
    print(plan, file=sys.stderr)
    if dry_run:
        raise DryRun


def _curve_flags(parser: OneLineParser) -> None:
    add_quantity(parser, links=True)
    add_simulation(parser, "points=12 (along each curve; or where, as points=0.5:1.5)")
    text = "show how much one run of this dimension scatters, as a band around each curve"
    parser.add_argument("--band", type=parse_positive, metavar="D", help=text)
    group = parser.add_argument_group("picture")
    names = {"label": "curves", "color": "curves", "marker": "simulated points, as s or o,^"}
    for name, what in names.items():
        text = f"{name} of the {what}: one for all, or one for each with commas between them"
        group.add_argument(f"--{name}", type=parse_label, metavar=f"{name.upper()}S", help=text)
    written = {"ylabel": "label of the axis of values", "title": "title of the picture"}
    for name, text in written.items():
        group.add_argument(f"--{name}", type=parse_label, metavar="TEXT", help=text)
    text = "place of the legend, such as 'upper left'; or none"
    group.add_argument("--legend", metavar="PLACE", help=text)
    _add_points(group)
    add_output(parser, (*TABLES, ".nc", *PICTURES), formats=("csv", "json", "text"))


@expects("be none or NAME,NAME=LABEL,...")
def parse_boundaries(text: str) -> bool | dict[str, str]:
    """Parse names of boundaries, perhaps with labels, or none."""
    if text == "none":
        return False
    return {name: label for name, _, label in (part.partition("=") for part in text.split(","))}


def _add_points(group: argparse._ActionsContainer) -> None:
    """Add --points, --columns and --ignore, for points of one's own in a picture."""
    text = (
        "draw your own points (.csv, .json, .parquet): columns of the parameters, or dim, "
        "context, tasks and prompts; value or icl, ...; perhaps standard_error or icl_se"
    )
    group.add_argument("--points", type=Path, metavar="FILE", help=text)
    add_flag(group, "columns")
    add_flag(group, "ignore", default=())


def _with_points(options: argparse.Namespace, result: Diagram) -> Diagram:
    """The result with points of one's own, whose z are printed."""
    if options.points is None:
        return result
    if options.output is None or options.output.suffix not in PICTURES:
        raise ValueError(f"--points needs a picture: -o FILE that ends in {', '.join(PICTURES)}")
    drawn = result.with_points(options.points, columns=options.columns, ignore=options.ignore)
    sys.stdout.write(rows_text(drawn.own_points.rows(), options.format))
    return drawn


def _look(options: argparse.Namespace) -> dict[str, Any]:
    """Keywords of the picture that the options give."""
    names = ("label", "color", "marker", "ylabel", "title", "legend")
    look = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    for name in ("label", "color", "marker"):
        if "," in look.get(name, ""):
            look[name] = look[name].split(",")
    if look.get("legend") == "none":
        look["legend"] = False
    return look


@verb("curve", _curve_flags)
def curve(options: argparse.Namespace) -> int:
    r"""Compute a quantity along one parameter.

    Compute a quantity as a function of one of its parameters: the one with the
    most values. Each combination of values of the others makes a curve. VALUES
    are a number, a list a,b,c or a range start:stop:points, evenly spaced in the
    logarithm with start:stop:points:log.

    Examples
    --------
      iclimit curve icl_error --tau 0.1:5:400 --alpha 1,10,100 --kappa 0.5 --rho 0.01 -o curve.png
      iclimit curve task_gap --kappa 0.1:10:50:log --tau 10 --alpha 10 --rho 0.01 \
          --simulate dim=40,repeats=10 -o gap.pdf
      iclimit curve icl_error --alpha 0.5:8:60:log --tau 2 --kappa 1 --rho 0.1 --ridge 0.1 \
          --band 24 -o band.png
      iclimit curve icl_error --tau 0.2:20:60:log --alpha 2 --kappa inf --rho 0 --ridge 0.1 \
          --link sign --flips 0,0.1 --simulate dim=16 -o classes.png
      iclimit curve pretrained_accuracy --alpha 0.3:30:60:log --tau 4 --kappa 2 --ridge 1 \
          --flips 0,0.1,0.25 --simulate dim=16 -o accuracy.png
      iclimit curve dmmse_icl_error --theta 0:0.9:100 --alpha 1 --rho 0.3
      iclimit curve constant_rate_loss --ratio 0.1:10:100:log --rate 0.5 --steps 1,5,20
      iclimit curve icl_error --kappa 0.1:10:60:log --tau 2 --alpha 2 --rho 0.1 --ridge 0.1 \
          --task-spectrum powerlaw:0.5 --test-spectrum reversed --simulate dim=40 -o reversed.png
      iclimit curve untied_loss --depth 1:64:7:log --alpha 0.5,2,inf \
          --input-spectrum powerlaw:1.2,400 -o untied.png
      iclimit curve misalignment_error --tau 0.2:4:100 --alpha 1 --kappa 1 --rho 0.1 \
          --task-spectrum eigenvalues.csv --test-spectrum isotropic --test-alpha 1,10
    """
    from iclimit.diagrams.scans import curve as compute

    with _open_store(options) as store:
        result = compute(store=store, band=options.band, **diagram_options(options))
    output(options, _with_points(options, result), answer=False, **_look(options))
    return _status(options, any(result.simulated))


def _phase_flags(parser: OneLineParser) -> None:
    text = "list all quantities with their parameters"
    parser.add_argument("--list", action=PrintAndExit, nargs=0, const=print_quantities, help=text)
    text = "axis of the diagram: a parameter and start:stop:points[:log]"
    for axis in ("x", "y"):
        parser.add_argument(
            f"--{axis}", type=parse_setting, required=True, metavar="NAME=RANGE", help=text
        )
    add_quantity(parser, links=True)
    add_simulation(parser, "points=6, or 6x5 along the two axes,")
    text = (
        "add simulated points N times, within the rectangles that a boundary crosses or over "
        "which the quantity changes most (default 0)"
    )
    parser.add_argument("--refine", type=int, default=0, metavar="N", help=text)
    group = parser.add_argument_group("picture")
    text = (
        "boundaries that are drawn: none, or names with commas between them, as "
        "interpolation,memorisation; NAME=LABEL writes another label (default: all)"
    )
    group.add_argument("--boundaries", type=parse_boundaries, metavar="NAMES", help=text)
    text = "draw no z: neither beside simulated points nor around your own"
    group.add_argument("--no-z", action="store_false", dest="show_z", help=text)
    _add_points(group)
    add_output(parser, (*TABLES, ".nc", *PICTURES), formats=("csv", "json", "text"))


@verb("phase", _phase_flags)
def phase(options: argparse.Namespace) -> int:
    r"""Compute a phase diagram over two parameters.

    Compute a quantity over two of its parameters; the others are single numbers.
    A picture also shows where the quantity changes its character: where it
    diverges, or where a longer context begins to hurt. Its data are written
    beside it as NetCDF, phase.nc beside phase.png, or as CSV if what writes
    NetCDF (pip install 'iclimit[labelled]') is not installed.

    Examples
    --------
      iclimit phase icl_error --x alpha=0.1:100:1000:log --y kappa=0.1:10:1000:log \
          --tau 4 --rho 0.1 -o phase.png
      iclimit phase optimal_ridge --x tau=0.1:10:100:log --y rho=0:1:100 --alpha 1 --kappa 0.5
      iclimit phase constant_rate_loss --x ratio=0.1:10:200:log --y rate=0.1:4:200:log \
          --steps 20 -o steps.pdf
      iclimit phase icl_error --x tau=0.1:4:200:log --y kappa=0.1:10:200:log --alpha 2 --rho 0.1 \
          --task-spectrum powerlaw:0.9 --test-spectrum reversed -o misaligned.png
      iclimit phase tied_loss --x alpha=0.1:32:30:log --y depth=1:256:9:log \
          --input-spectrum powerlaw:1.2,200 -o depth.png
    """
    from iclimit.diagrams.scans import phase_diagram

    path = options.output
    data = None
    if path is not None and path.suffix in PICTURES:
        data = _data_beside(path)
    if options.refine and options.simulate is None:
        raise ValueError("--refine needs --simulate")
    axes = {"x": options.x[0], "y": options.y[0], "refine": options.refine}
    parameters = diagram_options(options, dict((options.x, options.y)))
    with _open_store(options) as store:
        diagram = phase_diagram(store=store, **axes, **parameters)
    if data is not None:
        diagram.write(data)
    look = {"show_z": options.show_z} if path is not None and path.suffix in PICTURES else {}
    if options.boundaries is not None:
        look["boundaries"] = options.boundaries
    output(options, _with_points(options, diagram), answer=False, **look)
    return _status(options, bool(diagram.simulated))


def _data_beside(picture: Path) -> Path:
    """File for the data of a picture."""
    ending = ".nc" if util.find_spec("h5netcdf") and util.find_spec("xarray") else ".csv"
    try:
        return output_file((ending,))(str(picture.with_suffix(ending)))
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"--output: the data beside the picture {error}") from error


def _sensitivity_flags(parser: OneLineParser) -> None:
    add_quantity(parser)
    text = "standard errors of parameters, as tau=0.1,rho=0.02"
    parser.add_argument("--errors", type=parse_errors, metavar="NAME=NUMBER,...", help=text)
    add_output(parser)


@expects("be NAME=NUMBER,...")
def parse_errors(text: str) -> dict[str, float]:
    """Parse NAME=NUMBER,NAME=NUMBER."""
    pairs = [pair.split("=") for pair in text.split(",")]
    if len({name for name, _ in pairs}) < len(pairs):
        raise ValueError
    return {name: float(value) for name, value in pairs}


@verb("sensitivity", _sensitivity_flags)
def sensitivity(options: argparse.Namespace) -> None:
    """Compute how a quantity answers to each of its parameters.

    Compute the slope of a quantity by each parameter and its elasticity: by how
    many per cent it changes if the parameter changes by one per cent. With
    standard errors of parameters, as a fit gives them, that of the quantity
    follows, with what each parameter contributes.

    Examples
    --------
      iclimit sensitivity icl_error --tau 2 --alpha 1 --kappa 0.5 --rho 0.1
      iclimit sensitivity icl_error --tau 2 --alpha 1 --kappa 0.5 --rho 0.1 --errors rho=0.01
      iclimit sensitivity budget_icl_error --budget 100 --rho 0.1 -o elasticities.png
    """
    from iclimit.diagrams.sensitivities import sensitivity as compute

    names = (*COMPUTED, "errors")
    given = {name: getattr(options, name) for name in names}
    output(options, compute(**given, at=parameters_of(options)))


@expects("be a number, or NAME=NUMBER as in error=1.2")
def parse_wanted(text: str) -> float:
    """Parse a value, perhaps with what it is a value of."""
    return float(text.rpartition("=")[2])


def _solve_flags(parser: OneLineParser) -> None:
    add_quantity(parser, ends=True)
    text = "the value of the quantity, as 1.2 or error=1.2"
    parser.add_argument("--for", dest="equals", type=parse_wanted, required=True, help=text)
    add_output(parser)


@verb("solve", _solve_flags)
def solve(options: argparse.Namespace) -> int:
    """Find where a quantity has a value, along one parameter.

    Which tau gives this error? One parameter has a range, start:stop; the others
    are single numbers. All places in the range are found at which the quantity has
    the value; or it is said that there is none, and how far the quantity goes.

    The exit status is 0 if there is such a place, otherwise 1.

    Examples
    --------
      iclimit solve icl_error --for error=1.2 --tau 1.1:100 --alpha 1 --kappa 0.5 --rho 0.1
      iclimit solve icl_error --for 1 --alpha 0.1:100 --tau 4 --kappa 1 --rho 0.1 -o places.png
      iclimit solve dmmse_icl_error --for 1.5 --theta 0:0.9 --alpha 1 --rho 0.3 --format json
    """
    from iclimit.diagrams.solutions import solve as compute

    names = (*COMPUTED, "equals")
    given = {name: getattr(options, name) for name in names}
    result = compute(**given, at=parameters_of(options))
    output(options, result)
    return 0 if result.roots.size else 1


def _open_store(options: argparse.Namespace) -> AbstractContextManager[RunStore | None]:
    """Store of the simulated points; theory needs none."""
    return nullcontext() if options.simulate is None else open_store(options)


def _status(options: argparse.Namespace, simulated: bool) -> int:
    """Exit status: 1 where points were to be simulated and there is none."""
    if simulated or options.simulate is None:
        return 0
    reason = "" if options.time_limit is None else f" in {options.time_limit:g} s"
    print(f"iclimit {options.verb}: no point was simulated{reason}", file=sys.stderr)
    return 1


def print_quantities() -> None:
    """Print all quantities with the names of their parameters, and then what these mean."""
    from iclimit.diagrams.quantities import LABELS, QUANTITIES, TESTS

    known: dict[str, Parameter] = {}
    for name, quantity in QUANTITIES.items():
        known |= quantity.all_parameters
        optional = [f"[{name}]" for name in quantity.optional]
        print(f"{name}: {quantity.meaning}\n    {' '.join([*quantity.parameters, *optional])}")
        if quantity.spectral:
            print("    --task-spectrum, --input-spectrum")
        if quantity.usual_link:
            more = "".join(f" [{name}]" for name in LABELS if name not in quantity.optional)
            print(f"    --link, with this{more}" if more else "    --link")
        if quantity.part:
            more = "".join(f" [{name}]" for name in TESTS if name not in quantity.optional)
            with_more = f", with these{more}" if more else ""
            print(f"    --task-spectrum, --test-spectrum, --input-spectrum{with_more}")
    print("\nParameters; those in brackets are optional:")
    for name, parameter in known.items():
        print(f"{name}: {parameter.meaning} ({parameter.allowed})")
