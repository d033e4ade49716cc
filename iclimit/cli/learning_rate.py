"""Compute the best learning rate of one step in context.

Compute the learning rate of one gradient-descent step in context with the
least expected loss, and that loss: the mean squared error on a noisy query
label. VALUES are a number, a list a,b,c or a range start:stop:points[:log].

Examples
--------
  iclimit learning-rate --context 10 --dim 10 --input-law uniform
  iclimit learning-rate --context 5,10,20,50 --dim 10 --noise-variance 0.1 --format csv
  iclimit learning-rate --context 20 --dim 10 --moments 0.0833333,0.0125 --normalization sum
  iclimit learning-rate --input-law uniform --latex
"""

import argparse
from typing import Any

from iclimit.cli.arguments import add_choice, add_parameter, add_verb, expects, parse_values
from iclimit.cli.output import add_format, write_columns

AXES = ("context", "dim", "noise_variance", "task_variance")


@expects("be two numbers m2,m4")
def parse_moments(text: str) -> tuple[float, float]:
    """Parse two numbers a,b."""
    second, fourth = map(float, text.split(","))
    return second, fourth


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "learning-rate", run, __doc__)
    for name, default in zip(AXES, (None, None, "0", "1"), strict=True):
        add_parameter(parser, name, default, type=parse_values, metavar="VALUES")
    law = parser.add_mutually_exclusive_group()
    text = "law of the input coordinates: N(0, 1), U(-1, 1), random signs, exp(-|x|)/2"
    add_choice(law, "--input-law", ("gaussian", "uniform", "rademacher", "laplace"), text)
    text = "moments of any other law"
    law.add_argument("--moments", type=parse_moments, metavar="M2,M4", help=text)
    text = "whether the gradient is the mean or the sum over the context"
    add_choice(parser, "--normalization", ("mean", "sum"), text)
    text = (
        "print the derivation in LaTeX instead of numbers, for --input-law or for the "
        "moments of any law"
    )
    parser.add_argument("--latex", action="store_true", help=text)
    add_format(parser)


def run(options: argparse.Namespace) -> int:
    """Compute and print."""
    import numpy as np

    from iclimit.asymptotics.descent import derive_learning_rate, optimal_learning_rate

    sizes = {name: getattr(options, name) for name in ("context", "dim")}
    if options.latex:
        for name, values in sizes.items():
            if values is not None:
                raise ValueError(f"--{name} must not be given with --latex: sizes stay symbols")
        law = None if options.moments else options.input_law
        print(derive_learning_rate(law, normalization=options.normalization).latex())
        return 0
    for name, values in sizes.items():
        if values is None:
            raise ValueError(f"--{name} is needed (or --latex)")
        if np.any(values != np.floor(values)):
            raise ValueError(f"--{name} must be integers, got {values.tolist()}")
    axes = np.meshgrid(*(getattr(options, name) for name in AXES), indexing="ij")
    grid = {name: axis.ravel() for name, axis in zip(AXES, axes, strict=True)}
    best = optimal_learning_rate(
        **grid, input_law=options.moments or options.input_law, normalization=options.normalization
    )
    grid |= {name: grid[name].astype(int) for name in sizes}
    columns = grid | {"rate": best.rate, "loss": best.loss}
    write_columns({name: values.tolist() for name, values in columns.items()}, options.format)
    return 0
