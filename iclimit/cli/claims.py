"""The verbs ``validate``, ``claims`` and ``figure``."""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.execution import (
    DryRun,
    add_execution,
    check_execution,
    execution,
    open_store,
    print_placement,
)
from iclimit.cli.flags import add_flag
from iclimit.cli.output import add_output, output, output_file, stated
from iclimit.cli.verbs import OneLineParser, PrintAndExit, verb
from iclimit.tables import PICTURES, TABLES
from iclimit.validation.reference import RECORDS

if TYPE_CHECKING:
    from iclimit.runs.cell import Cell
    from iclimit.validation.claim import Claim
    from iclimit.validation.reference import Record
    from iclimit.validation.report.run_claims import ClaimResult, ValidationRun


def _validate_flags(parser: OneLineParser) -> None:
    parser.add_argument(
        "claims",
        nargs="*",
        metavar="CLAIM",
        help="claims to check, see iclimit claims (default: all)",
    )
    add_folder(parser, "folder of the report (default iclimit-report)", "iclimit-report")
    parser.add_argument("--pdf", action="store_true", help="save each figure as PDF, too")
    parser.add_argument(
        "--compare", choices=RECORDS, help="hold the run against this one, whose results are kept"
    )
    add_preset(parser, "quick: seven minutes on two cores; medium: 45; full: 210; day: a day")


def add_folder(parser: argparse.ArgumentParser, text: str, default: str | None = None) -> None:
    """Add -o for a folder."""
    parser.add_argument("-o", "--out", type=Path, default=default, metavar="DIR", help=text)


def add_preset(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --preset and what says where to simulate."""
    add_flag(
        parser, "preset", ('{"quick", "medium", "full", "day"}', ""), text=text, default="quick"
    )
    add_execution(parser)


@verb("validate", _validate_flags)
def validate(options: argparse.Namespace) -> int:
    """Check the theory against simulation and write a report.

    Simulate finite-size models, compare them with the theory, print a table and
    write report.html, results.json and the figures. Runs that are in the store
    are not simulated again. The exit status is 0 if every claim holds; 1 if one
    does not hold, was not finished in time or differs from the results that
    --compare names; 130 after Ctrl-C, when the report has the claims that were
    finished.

    Examples
    --------
      iclimit validate
      iclimit validate ridgeless ridge --preset full
      iclimit validate --compare full
    """
    from iclimit.validation import select_claims
    from iclimit.validation.report.report import write_report
    from iclimit.validation.report.summary import HEADING, resolution_table

    claims = select_claims(options.claims)
    try:
        check_execution(options)
    except RuntimeError as error:
        # A list needs no GPU; it says what is missing to run it here.
        if not options.dry_run:
            raise
        print(f"not on this machine: {error}", file=sys.stderr)
    if options.dry_run:
        print_cells(options, claims)
        raise DryRun
    check_folder(options.out)
    print(HEADING, flush=True)
    pictures: dict[str, bytes] = {}
    outcome = run_claims(options, claims, finished=partial(show, options, pictures))
    path = write_report(outcome, options.out, pictures)
    for name in outcome.missing:
        print(f"{name}  not finished")
    print(resolution_table(outcome))
    count = sum(result.holds for result in outcome.results)
    print(
        f"{count} of {len(claims)} claims hold; {outcome.seconds:.0f} s, {outcome.recalled} of "
        f"{outcome.cells} simulations were in the store; report: {path}"
    )
    if outcome.interrupted:
        print("interrupted: the report holds the claims that were finished", file=sys.stderr)
        return 130
    agrees = print_differences(outcome, options.compare) if options.compare else True
    return 0 if outcome.holds and agrees else 1


def print_differences(run: ValidationRun, record: Record) -> bool:
    """Print how a run differs from one on record; return whether they agree."""
    from iclimit.validation.report.record import compare_with_record

    compared = compare_with_record(run, record)
    print(compared)
    for row in compared.verdict.failures:
        print(
            f"    {row.label}: on record {row.theory:.5g}, now {row.estimate:.5g}, z = {row.z:.1f}"
        )
    if compared.same_preset:
        for name in compared.new:
            print(f"    not on record: {name}")
        for name in compared.missing:
            print(f"    on record only: {name}")
    return compared.holds


def run_claims(options: argparse.Namespace, claims: Sequence[Claim], **more: Any) -> ValidationRun:
    """Validate claims as the options say."""
    from iclimit.validation import validate

    where = {"preset": options.preset, "time_limit": options.time_limit, **execution(options)}
    print_placement(options)
    with open_store(options) as store:
        return validate(claims, store=store, **where, **more)


def print_cells(options: argparse.Namespace, claims: Sequence[Claim]) -> None:
    """Print the cells of claims, and where they would run; each once, and with what it needs."""
    from iclimit.runs.execution import needed_cells
    from iclimit.tables import rows_text

    known: set[Cell] = set()
    rows = []
    for claim in claims:
        new = [cell for cell in needed_cells(claim.cells(options.preset)) if cell not in known]
        known.update(new)
        gpu = options.backend == "cupy"
        kinds = Counter((gpu and cell.takes_backend, cell.function.__name__) for cell in new)
        for (on_gpu, function), count in kinds.items():
            place = "GPU" if on_gpu else "cores"
            rows.append(
                {"claim": claim.name, "where": place, "cells": count, "function": function}
            )
    sys.stdout.write(rows_text(rows))


def check_folder(folder: Path) -> None:
    """Create the folder of a report, or say why it cannot be written into."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out must be a folder, got the file {str(folder)!r}")
    folder.mkdir(parents=True, exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"cannot write into {str(folder)!r}")


def show(options: argparse.Namespace, pictures: dict[str, bytes], result: ClaimResult) -> None:
    """Print a judged claim and save its figure, while others are simulated."""
    from tqdm import tqdm

    from iclimit.validation.report.report import save_figure
    from iclimit.validation.report.summary import line

    tqdm.write(line(result))
    sys.stdout.flush()
    if result.verdict is not None:
        name = result.claim.name
        path = options.out / f"{name}.png"
        pictures[name] = save_figure(
            result.verdict, path, preset=options.preset, seed=options.rng, pdf=options.pdf
        )


def _claims_flags(parser: OneLineParser) -> None:
    parser.add_argument(
        "-v", "--verbose", action="store_true", help="print statement and source too"
    )
    add_output(parser, TABLES, formats=())


@verb("claims", _claims_flags)
def list_claims(options: argparse.Namespace) -> None:
    """List the claims that iclimit validate checks.

    Examples
    --------
      iclimit claims
      iclimit claims --verbose
      iclimit claims -o claims.csv
    """
    from iclimit.results import PlainRows
    from iclimit.validation import CLAIMS

    if options.output is None:
        print_claims(verbose=options.verbose)
        return
    names = ("name", "subject", "title", "statement", "source")
    lines = [{name: getattr(claim, name) for name in names} for claim in CLAIMS.values()]
    output(options, PlainRows(lines), answer=False)


def print_claims(*, verbose: bool = False, figures: bool = False) -> None:
    """Print names and titles of the claims, or of those with a figure."""
    from iclimit.validation import CLAIMS

    claims = [(name, claim) for name, claim in CLAIMS.items() if claim.figure or not figures]
    width = max(len(name) for name, _ in claims)
    for name, claim in claims:
        print(f"{name:{width}}  {claim.title}")
        if verbose:
            for text in (claim.statement.replace("``", ""), f"Source: {claim.source}."):
                print(textwrap.fill(text, 90, initial_indent="    ", subsequent_indent="    "))
            print()


def _figure_flags(parser: OneLineParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="name of the figure")
    show = partial(print_claims, figures=True)
    text = "list all figures"
    parser.add_argument("--list", action=PrintAndExit, nargs=0, const=show, help=text)
    text = "print what this picture (.png, .pdf, .svg) was drawn from"
    parser.add_argument("--parameters", type=Path, metavar="FILE", help=text)
    add_output(parser, PICTURES, "file of the picture (default NAME.png)", formats=())
    add_preset(parser, "sizes and repeats of the simulation, as of iclimit validate")


@verb("figure", _figure_flags)
def figure(options: argparse.Namespace) -> None:
    """Draw a figure of a paper from theory and simulation.

    Draw a figure of a paper again, or a related one, with simulated points: those
    of the claim of the same name. Every picture of iclimit keeps its command and
    parameters in its metadata; --parameters prints them as JSON.

    Examples
    --------
      iclimit figure --list
      iclimit figure double-descent --preset full -o double-descent.pdf
      iclimit figure double-descent --style paper-wide -o double-descent.pdf
      iclimit figure --parameters double-descent.pdf
    """
    if (options.name is None) == (options.parameters is None):
        raise ValueError("give either NAME or --parameters FILE")
    if options.parameters is not None:
        from iclimit.figure_files import figure_parameters
        from iclimit.tables import json_text

        sys.stdout.write(json_text(figure_parameters(options.parameters)))
        return
    from iclimit.checks import check_choice
    from iclimit.validation import CLAIMS

    name = options.name
    check_choice("NAME", name, [claim.name for claim in CLAIMS.values() if claim.figure])
    path = options.output or output_file(PICTURES)(f"{name}.png")
    outcome = run_claims(options, [CLAIMS[name]])
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.missing:
        raise RuntimeError("there was too little time; run it again to go on from the store")
    (result,) = outcome.results
    if result.verdict is None:
        raise RuntimeError(result.error)
    result.verdict.write(path, style=options.style, parameters=stated(options))
    print(path)
