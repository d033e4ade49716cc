"""``iclimit learning-rate``: the optimal learning rate of one step, and its loss."""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

from iclimit.cli.arguments import parse_values, print_rows

EXAMPLES = """\
examples:
  iclimit learning-rate --context 10 --dim 10 --input-law uniform
  iclimit learning-rate --context 5,10,20,50 --dim 10 --noise-variance 0.1 --format csv
  iclimit learning-rate --context 20 --dim 10 --moments 0.0833333,0.0125 --normalization sum
  iclimit learning-rate --input-law uniform --latex"""


def parse_moments(text: str) -> tuple[float, float]:
    """Parse two numbers a,b."""
    try:
        second, fourth = (float(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be two numbers m2,m4, got {text!r}") from None
    return second, fourth


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "learning-rate",
        help="compute the optimal learning rate of one gradient-descent step",
        description=(
            "Compute the learning rate of one gradient-descent step in context with the least\n"
            "expected loss, and that loss: the mean squared error on a noisy query label."
        ),
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, text in (("context", "number N of context pairs"), ("dim", "dimension d")):
        parser.add_argument(f"--{name}", type=parse_values, metavar="VALUES", help=text)
    law = parser.add_mutually_exclusive_group()
    law.add_argument(
        "--input-law",
        choices=("gaussian", "uniform", "rademacher", "laplace"),
        default="gaussian",
        help="law of the input coordinates: N(0, 1), U(-1, 1), random signs, exp(-|x|)/2",
    )
    law.add_argument(
        "--moments", type=parse_moments, metavar="M2,M4", help="moments of any other law"
    )
    zero, one = np.array([0.0]), np.array([1.0])
    parser.add_argument(
        "--noise-variance", type=parse_values, default=zero, metavar="VALUES", help="default 0"
    )
    parser.add_argument(
        "--task-variance", type=parse_values, default=one, metavar="VALUES", help="default 1"
    )
    parser.add_argument(
        "--normalization",
        choices=("mean", "sum"),
        default="mean",
        help="whether the step is the mean or the sum over the context (default mean)",
    )
    parser.add_argument("--format", choices=("text", "csv", "json"), default="text")
    parser.add_argument(
        "--latex",
        action="store_true",
        help="print the derivation in LaTeX, of --input-law or of any moments, not numbers",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compute and print."""
    from iclimit.asymptotics.descent import derive_learning_rate, optimal_learning_rate

    if options.latex:
        for name in ("context", "dim"):
            if getattr(options, name) is not None:
                raise ValueError(f"--{name} must not be given with --latex: sizes stay symbols")
        law = None if options.moments else options.input_law
        print(derive_learning_rate(law, normalization=options.normalization).latex())
        return 0
    for name in ("context", "dim"):
        if getattr(options, name) is None:
            raise ValueError(f"--{name} is needed (or --latex)")
        values = getattr(options, name)
        if np.any(values != np.floor(values)):
            raise ValueError(f"--{name} must be integers, got {values.tolist()}")
    names = ("context", "dim", "noise_variance", "task_variance")
    axes = np.meshgrid(*(getattr(options, name) for name in names), indexing="ij")
    grid = {name: axis.ravel() for name, axis in zip(names, axes, strict=True)}
    best = optimal_learning_rate(
        **grid, input_law=options.moments or options.input_law, normalization=options.normalization
    )
    sizes = {name: grid.pop(name).astype(int) for name in ("context", "dim")}
    columns = {**sizes, **grid, "rate": best.rate, "loss": best.loss}
    lines = zip(*(column.tolist() for column in columns.values()), strict=True)
    print_rows([dict(zip(columns, line, strict=True)) for line in lines], options.format)
    return 0
