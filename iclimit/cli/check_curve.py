r"""Check your own training curves against the theory of training dynamics.

FILE is a table (.csv, .json, .parquet) with a column step, of gradient descent,
or time, of its flow, and a column loss; several runs have columns loss_0,
loss_1, ... or a column run. Other columns must be named (--columns) or ignored
(--ignore).

Plateaus, the steps at which half of each drop has happened, the durations of
drops from a quarter to three quarters, and the final loss are found in the
curves. Each is compared with the theory of one linear attention layer from small
random weights (arXiv:2501.16265), with z. Half-drop steps have a law over
initial weights; durations do not depend on them, only on the unit of time. If
the curves contradict the theory, mistakes of learning rate, normalisation,
loss, covariance and initial weights are tried, and those that would explain
everything are named; nothing is applied.

The theory is that of plain gradient descent with small steps. It knows no
momentum, no Adam, no weight decay, and no noise of minibatches.

The exit status is 0 if the curves agree with the theory, 1 if they contradict
it, 2 if they cannot be used.

Examples
--------
  iclimit check-curve curve.csv --white 5 --context 20 --heads 8 --init-scale 1e-3 \
      --learning-rate 0.01
  iclimit check-curve runs.csv --model separate --eigenvalues 0.5,0.3,0.2 --context 20 \
      --heads 5 --init-scale 1e-2 --learning-rate 0.02 --columns run=seed -o check.png
  iclimit check-curve curve.json --dim 4 --context 31 --heads 8 --init-scale 1e-6 \
      --learning-rate 0.001 --normalization sum --training-set 5000 --standardize
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import add_choice, add_parameter, add_verb
from iclimit.cli.check import add_table, table_options
from iclimit.cli.dynamics import INIT_SCALE, add_problem, parse_problem
from iclimit.cli.output import FORMATS, add_output, print_json, write_file, write_rows
from iclimit.tables import json_text, write_text

if TYPE_CHECKING:
    import numpy as np

    from iclimit.validation import CurveCheck

CHOICES = {
    "model": (
        ("merged", "separate", "cubic"),
        "one matrix for key and query, one for each, or two layers on cubic features",
    ),
    "initialization": (
        ("per-head", "per-layer"),
        "for separate: --init-scale as below, or over the root of the number of weights in the "
        "layer",
    ),
    "normalization": (("mean", "sum"), "whether attention scores are divided by N"),
}
"""Choices and what they mean."""

NUMBERS: dict[str, tuple[float | None, str]] = {
    "heads": (None, "heads, or hidden units of cubic"),
    "rank": (1, "rows of key and query of separate"),
    "init_scale": (None, INIT_SCALE),
    "learning_rate": (None, "step length, for a table with steps"),
    "loss_factor": (1.0, ""),
    "training_set": (math.inf, "training sequences; inf: new ones in every step"),
    "record": (None, "steps from one row to the next, for a table without steps"),
    "draws": (16, "random starts of separate, for the law of its drop times"),
}
"""Parameters of the notation, with their defaults and meanings."""

NAMES = (*CHOICES, *NUMBERS, "context", "noise_variance", "standardize")
"""Options that are arguments of `iclimit.check_curve` of the same name."""


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "check-curve", run, __doc__)
    parser.add_argument("file", metavar="FILE", help="table of losses")
    add_table(parser)
    add_problem(parser, required=True)
    for name, (choices, text) in CHOICES.items():
        add_choice(parser, f"--{name}", choices, text)
    for name, (default, text) in NUMBERS.items():
        needed = name in ("heads", "init_scale")
        add_parameter(parser, name, default, text=text, required=needed)
    text = "recorded losses are of query labels without noise"
    parser.add_argument("--no-query-noise", action="store_true", help=text)
    text = "the training set is standardised, as in iclimit train attention"
    parser.add_argument("--standardize", action="store_true", help=text)
    text = (
        "initial weights (.npz: value, and key_query or key and query), one along the first axis "
        "for each curve; without them their law is used"
    )
    parser.add_argument("--initial", type=Path, metavar="FILE", help=text)
    text = "seed of the random starts (default 0)"
    parser.add_argument("--seed", type=int, default=0, metavar="N", help=text)
    add_output(parser, formats=FORMATS)


def run(options: argparse.Namespace) -> int:
    """Check, print and write."""
    from iclimit.validation import check_curve

    given: dict[str, Any] = {name: getattr(options, name) for name in NAMES}
    try:
        check = check_curve(
            options.file,
            eigenvalues=parse_problem(options),
            query_noise=not options.no_query_noise,
            initial=None if options.initial is None else read_weights(options.initial),
            rng=options.seed,
            **table_options(options),
            **given,
        )
    except (OSError, ArithmeticError) as error:  # the exit status 1 means a contradiction
        raise ValueError(str(error)) from None
    write(options, check)
    if check.verdict.kind == "unusable":
        raise ValueError("nothing but the initial loss can be compared")
    return 0 if check.holds else 1


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Arrays of a file; nothing in it is executed."""
    from iclimit.validation.yours.models.files import open_npz

    if not path.is_file():
        raise ValueError(f"there is no file {str(path)!r}")
    with open_npz(path) as file:
        return {name: file[name].whole() for name in file.names}


def write(options: argparse.Namespace, check: CurveCheck) -> None:
    """Print the check, or write it to the file of -o and print its first line."""
    path, rows = options.output, check.rows()
    if path is not None and path.suffix == ".json":
        write_text(path, json_text(check.to_dict()))
    elif path is not None:
        write_file(options, path, lambda: rows, check.draw_figure)
    if path is not None:
        print("\n".join(check.conclusions))
    elif options.format == "text":
        print(check)
    elif options.format == "json":
        print_json(check.to_dict())
    else:
        write_rows(rows, options.format)
