"""Check your own results of pretrained linear attention against the theory.

FILE is a table (.csv, .json, .parquet). Its columns are dim; context or alpha;
tasks or kappa; prompts or tau; rho or noise_variance; ridge (0 without it); and
what was measured: icl, idg, or gap, their difference. A row is a mean, with its
standard error (icl_se) or with the standard deviation and the number of runs
(icl_sd, runs); or rows are single runs, and those of one setting are taken
together. Other columns must be named (--columns) or ignored (--ignore).

Every row is compared with the prediction at exactly its integers, with z; all
rows together by a chi-square and the distribution of z. If the table
contradicts the theory, some thirty mistakes of normalisation, counting and
reading are tried, and those that would explain it are named.

The exit status is 0 if the table agrees with the theory, 1 if it contradicts
it, 2 if it cannot be used.

Examples
--------
  iclimit check runs.csv
  iclimit check runs.csv --columns icl=test_loss,dim=d --set rho=0.01 --ignore seed
  iclimit check runs.json --convention vonoswald2023 --task-sets one -o check.png
  iclimit check runs.csv --rounding nearest --format json
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import add_choice, add_parameter, add_verb, expects
from iclimit.cli.diagram import SPECTRA, add_spectra
from iclimit.cli.output import FORMATS, add_output, print_json, write_file, write_rows
from iclimit.tables import json_text, write_text

if TYPE_CHECKING:
    from iclimit.validation.yours.runs.check import RunCheck

CONVENTIONS = ("lu2025", "vonoswald2023", "blog2024", "versatile2024", "linattn2025")


@expects("be NAME=COLUMN,...")
def parse_columns(text: str) -> dict[str, str]:
    """Parse NAME=COLUMN,NAME=COLUMN."""
    pairs = [part.split("=") for part in text.split(",")]
    if any(len(pair) != 2 or not all(pair) for pair in pairs):
        raise ValueError
    return {name.strip(): column.strip() for name, column in pairs}


@expects("be NAME=NUMBER")
def parse_parameter(text: str) -> tuple[str, float]:
    """Parse NAME=NUMBER."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise ValueError
    return name, float(value)


def add_parser(verbs: argparse._SubParsersAction) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "check", run, __doc__)
    parser.add_argument("file", metavar="FILE", help="table of results")
    add_table(parser)
    text = "parameter that all rows share; may be repeated"
    parser.add_argument(
        "--set",
        type=parse_parameter,
        action="append",
        default=[],
        metavar="NAME=NUMBER",
        help=text,
    )
    add_choice(parser, "--convention", CONVENTIONS, "units of the table")
    text = "how sizes came out of ratios; exact: they must be integers"
    add_choice(parser, "--rounding", ("exact", "nearest", "floor", "ceil"), text)
    text = "standard deviations are divided by the number of runs less this (default 1)"
    parser.add_argument("--ddof", type=int, choices=(0, 1), default=1, help=text)
    text = "many: every run drew its own pretraining tasks; one: the runs of a row share them"
    add_choice(parser, "--task-sets", ("many", "one"), text)
    text = "all tasks have the same number of prompts"
    parser.add_argument("--balanced", action="store_true", help=text)
    text = "law of the tasks (default: that of the convention)"
    parser.add_argument("--task-law", choices=("sphere", "gaussian"), help=text)
    text = "task sets of a prediction; by default 10 to 100, the more the smaller d"
    add_parameter(parser, "draws", text=text)
    text = "seed of the task sets of predictions (default 0)"
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=text)
    add_spectra(parser)
    add_output(parser, formats=FORMATS)


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add --columns and --ignore."""
    text = "what columns are called, as icl=test_loss,dim=d; may be repeated"
    parser.add_argument(
        "--columns", type=parse_columns, action="append", default=[], metavar="LIST", help=text
    )
    text = "columns that are not used, as seed,host; others: all that are not known"
    parser.add_argument("--ignore", metavar="LIST", help=text)


def table_options(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments that the options of `add_table` give."""
    columns: dict[str, str] = {}
    for pairs in options.columns:
        if twice := columns.keys() & pairs.keys():
            raise ValueError(f"--columns must name {min(twice)} once")
        columns |= pairs
    ignore = options.ignore or ""
    return {"columns": columns, "ignore": ignore if ignore == "others" else _names(ignore)}


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def run(options: argparse.Namespace) -> int:
    """Check, print and write."""
    from iclimit.validation.yours.runs.check import check_runs

    if options.seed < 0:
        raise ValueError(f"--seed must be an integer >= 0, got {options.seed!r}")
    given = {
        name: getattr(options, name)
        for name in (
            "convention",
            "rounding",
            "ddof",
            "task_sets",
            "balanced",
            "task_law",
            "draws",
        )
    }
    given |= {name: getattr(options, name) for name in SPECTRA}
    parameters = dict(options.set)
    if len(parameters) < len(options.set):
        raise ValueError("--set must name a parameter once")
    try:
        check = check_runs(
            options.file,
            **table_options(options),
            **given,
            parameters=parameters,
            rng=options.seed,
            progress=sys.stderr.isatty(),
        )
    except (OSError, ArithmeticError) as error:  # the exit status 1 means a contradiction
        raise ValueError(str(error)) from None
    write(options, check)
    if not check.judged:
        raise ValueError("no row has a standard error and a finite prediction: nothing is judged")
    return 0 if check.holds else 1


def write(options: argparse.Namespace, check: RunCheck) -> None:
    """Write to the file of -o and print what the rows say together, or print the rows."""
    path = options.output
    if path is None and options.format == "text":
        print(check)
    elif path is None and options.format == "json":
        print_json(check.to_dict())
    elif path is None:
        write_rows(check.rows(), options.format)
    else:
        if path.suffix == ".json":
            write_text(path, json_text(check.to_dict()))
        else:
            write_file(options, path, check.rows, check.draw_figure)
        print("\n".join(check.conclusions))
