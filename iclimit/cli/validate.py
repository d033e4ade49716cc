"""Check the theory against simulation and write a report.

Simulate finite-size models, compare them with the theory, print a table and
write report.html, results.json and the figures. What was simulated before is
taken from the store of runs. The exit status is 0 only if every claim holds;
1 if one does not or was not finished in time; 130 if interrupted, when the
report has what was finished.

Examples
--------
  iclimit validate
  iclimit validate ridgeless ridge --preset full
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import (
    add_choice,
    add_execution,
    add_verb,
    check_execution,
    execution,
    open_store,
)

if TYPE_CHECKING:
    from iclimit.validation.claim import Claim
    from iclimit.validation.judge.run_claims import ClaimResult, ValidationRun


def add_parser(verbs: Any) -> None:
    """Add the verb, and ``iclimit claims``, which lists what it can validate."""
    parser = add_verb(verbs, "validate", run, __doc__)
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help="default: all (iclimit claims)")
    text = "folder of the report (default iclimit-report)"
    parser.add_argument("--out", type=Path, default="iclimit-report", metavar="DIR", help=text)
    parser.add_argument("--pdf", action="store_true", help="save each figure as PDF, too")
    text = "quick: two to three minutes on two cores; medium: ten; full: some hours"
    add_validation(parser, text)
    parser = add_verb(verbs, "claims", run_claims, "list the claims that iclimit validate checks")
    parser.add_argument("-v", "--verbose", action="store_true", help="with statement and source")


def add_validation(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --preset and what says where to simulate."""
    add_choice(parser, "--preset", ("quick", "medium", "full"), text)
    add_execution(parser)


def run_validation(
    options: argparse.Namespace, claims: Sequence[Claim], **more: Any
) -> ValidationRun:
    """Validate claims as the options say."""
    from iclimit.validation import validate

    where, preset = execution(options), options.preset
    with open_store(options) as store:
        limit = options.time
        return validate(claims, preset=preset, store=store, time_limit=limit, **where, **more)


def run_claims(options: argparse.Namespace) -> int:
    """Print the claims."""
    print_claims(verbose=options.verbose)
    return 0


def print_claims(*, verbose: bool = False, figures: bool = False) -> None:
    """Print names and titles of the claims, or of those with a figure."""
    from iclimit.validation import CLAIMS

    claims = [(name, claim) for name, claim in CLAIMS.items() if claim.figure or not figures]
    width = max(len(name) for name, _ in claims)
    for name, claim in claims:
        print(f"{name:{width}}  {claim.title}")
        if verbose:
            print(f"{'':{width}}  {claim.statement}\n{'':{width}}  Source: {claim.source}.\n")


def run(options: argparse.Namespace) -> int:
    """Validate and report."""
    from iclimit.validation import select_claims
    from iclimit.validation.judge.report import write_report
    from iclimit.validation.judge.summary import HEADING, resolution_table

    claims = select_claims(options.claims)
    check_execution(options)
    check_folder(options.out)
    print(HEADING, flush=True)
    pictures: dict[str, bytes] = {}
    outcome = run_validation(options, claims, finished=partial(show, options, pictures))
    path = write_report(outcome, options.out, pictures)
    for name in outcome.missing:
        print(f"{name}  not finished")
    print(resolution_table(outcome))
    count = sum(result.holds for result in outcome.results)
    print(
        f"{count} of {len(claims)} claims hold; {outcome.seconds:.0f} s, {outcome.recalled} of "
        f"{outcome.cells} cells on record before; report: {path}"
    )
    if outcome.interrupted:
        print("interrupted: the report holds the claims that were finished", file=sys.stderr)
        return 130
    return 0 if outcome.holds else 1


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

    from iclimit.validation.judge.report import save_figure
    from iclimit.validation.judge.summary import line

    tqdm.write(line(result))
    sys.stdout.flush()
    if result.verdict is not None:
        name = result.claim.name
        path = options.out / f"{name}.png"
        setting = {"preset": options.preset, "seed": options.seed}
        pictures[name] = save_figure(result.verdict, path, pdf=options.pdf, **setting)
