"""What the verbs ``curve`` and ``phase`` share: parameters, spectra, simulated points."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import (
    add_execution,
    add_parameter,
    execution,
    expects,
    parse_setting,
    parse_share,
    parse_values,
)

if TYPE_CHECKING:
    import numpy as np

PARAMETERS = ("tau", "alpha", "kappa", "rho", "ridge", "test_alpha", "test_rho", "theta")
"""Parameters with a flag of their own; the others are given by --set."""

STRUCTURED_DATA = """\
SPEC is powerlaw:0.9, exponential:3 or mp:0.5 (of mean 1), isotropic,
powerlaw:1.2,400 (the eigenvalues k^-1.2, k = 1, ..., 400, as they are),
uniform:0.5,1.5, atoms:0.4,1.6, "atoms:0.4,1.6;0.3,0.7" (with weights), or a
.csv or .txt file of eigenvalues in one column or row, or of a square matrix.
Spectra are paired in the order of their eigenvalues; with reversed:SPEC in the
opposite order.  A simulation of dimension d takes the means of each spectrum
over d equal cells as eigenvalues: those of a file with d eigenvalues are taken
as they are.  A million points take minutes, with an input spectrum hours.
"""
SPECTRA = {
    "task_spectrum": "covariance of the training tasks",
    "test_spectrum": "covariance of the test tasks: SPEC, reversed:SPEC, or reversed for that of "
    "the training tasks in the opposite order (default: as in training)",
    "input_spectrum": "covariance of the inputs: SPEC or reversed:SPEC (default: isotropic)",
}


def add_diagram(parser: argparse.ArgumentParser, points: str) -> None:
    """Add the quantity, its parameters, spectra and what says how to simulate."""
    parser.add_argument("quantity", metavar="QUANTITY", help="a name of iclimit phase --list")
    for name in PARAMETERS:
        add_parameter(parser, name, type=parse_values, metavar="VALUES")
    text = "any other parameter of the quantity; may be repeated"
    parser.add_argument(
        "--set", type=parse_setting, action="append", default=[], metavar="NAME=VALUES", help=text
    )
    add_spectra(parser)
    group = parser.add_argument_group("simulated points")
    text = (
        "simulate points of icl_error, idg_error or task_gap: dim=80, or dim=16:24:32 for "
        "several sizes, three or more being extrapolated to infinite size; and after commas "
        f"{points} and repeats=10"
    )
    group.add_argument("--simulate", type=parse_simulation, metavar="OPTIONS", help=text)
    add_parameter(group, "target_standard_error", text="repeat until standard errors are so small")
    text = "the same, relative to the value, as 0.01 or 1%%"
    add_parameter(group, "target_relative_error", text=text, type=parse_share)
    add_execution(parser)


def add_spectra(parser: argparse.ArgumentParser) -> None:
    """Add --task-spectrum, --test-spectrum and --input-spectrum."""
    group = parser.add_argument_group("structured data", STRUCTURED_DATA)
    for name, text in SPECTRA.items():
        group.add_argument(f"--{name.replace('_', '-')}", metavar="SPEC", help=text)


def diagram_options(
    options: argparse.Namespace, axes: Iterable[tuple[str, np.ndarray]] = ()
) -> dict[str, Any]:
    """Arguments of `curve` and `phase_diagram` that the options give."""
    given: dict[str, Any] = dict(axes)
    flags = [(name, getattr(options, name)) for name in PARAMETERS]
    for name, values in [*((n, v) for n, v in flags if v is not None), *options.set]:
        if name in given:
            raise ValueError(f"{name} must be given once")
        given[name] = values if values.size > 1 else float(values[0])
    return {
        **execution(options),
        **{name: getattr(options, name) for name in SPECTRA},
        "simulation": _simulation(options),
        "announce": partial(print, file=sys.stderr),
        **given,
    }


@expects("look like dim=80,repeats=10,points=12 or dim=16:24:32")
def parse_simulation(text: str) -> dict[str, Any]:
    """Parse dim=80,repeats=10,points=12, several sizes as dim=16:24:32, and points as 6x5 too."""
    separators = {"dim": ":", "points": "x"}
    pairs = [item.split("=") for item in text.split(",")]
    numbers = {n: tuple(map(int, value.split(separators.get(n)))) for n, value in pairs}
    if len(numbers) < len(pairs):
        raise ValueError
    return {name: found if len(found) > 1 else found[0] for name, found in numbers.items()}


def _simulation(options: argparse.Namespace) -> dict[str, Any] | None:
    """Simulation that was asked for, with its precision and time limit."""
    targets = {n: getattr(options, n) for n in ("target_standard_error", "target_relative_error")}
    given = {name: value for name, value in targets.items() if value is not None}
    if options.simulate is None:
        for name in given:
            raise ValueError(f"--{name.replace('_', '-')} needs --simulate")
        return None
    return options.simulate | given | ({"time_limit": options.time} if options.time else {})
