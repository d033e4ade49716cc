"""Arguments of the verbs on training dynamics: the law of the sequences."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from iclimit.cli.arguments import add_parameter, parse_values

if TYPE_CHECKING:
    import numpy as np

RANGE = 1e-50, 1e50
"""Eigenvalues and initial weights whose powers are numbers."""


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Add --dim, --white, --eigenvalues, --context and --noise-variance."""
    spectrum = parser.add_mutually_exclusive_group()
    text = "dimension; eigenvalues in the proportions D, ..., 2, 1 with the sum 1; default 4"
    add_parameter(spectrum, "dim", text=text)
    spectrum.add_argument(
        "--white", type=int, metavar="N", help="dimension; all eigenvalues 1/N instead"
    )
    spectrum.add_argument(
        "--eigenvalues", type=parse_values, metavar="LIST", help="eigenvalues a,b,c instead"
    )
    add_parameter(parser, "context", 31)
    add_parameter(parser, "noise_variance", 0.0)


def parse_problem(options: argparse.Namespace) -> np.ndarray:
    """Return the eigenvalues of the inputs, once all that `add_problem` added is checked.

    The model, its size and its initial weights are checked too.
    """
    import numpy as np

    from iclimit.simulate.checks import check_arguments, check_integers, given
    from iclimit.simulate.dynamics import AttentionModel

    names = ("context", "noise_variance", "init_scale")
    check_arguments(**{name: getattr(options, name) for name in names}, **given(dim=options.dim))
    check_integers(**given(**{"--white": options.white}))
    if options.seed is not None and options.seed < 0:
        raise ValueError(f"--seed must be an integer >= 0, got {options.seed!r}")
    least, most = RANGE
    if not least <= options.init_scale <= most:
        raise ValueError(f"init_scale must be from {least} to {most}, got {options.init_scale!r}")
    if options.eigenvalues is not None:
        lam = np.asarray(options.eigenvalues)
    elif options.white is not None:
        lam = np.full(options.white, 1 / options.white)
    else:
        lam = np.arange(options.dim or 4, 0, -1.0)
        lam /= lam.sum()
    for value in lam.tolist():
        if value and not least <= value <= most:
            raise ValueError(f"eigenvalues must be 0 or from {least} to {most}, got {value!r}")
    if not np.any(lam):
        raise ValueError("eigenvalues must not all be 0")
    AttentionModel(options.model, len(lam), options.heads, options.rank)
    return lam
