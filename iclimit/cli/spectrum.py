"""Arguments of the verbs on training dynamics: the law of the sequences."""

from __future__ import annotations

import argparse

import numpy as np

from iclimit.cli.arguments import parse_values


def add_problem(parser: argparse.ArgumentParser) -> None:
    """Add --dim, --white, --eigenvalues, --context and --noise-variance."""
    spectrum = parser.add_mutually_exclusive_group()
    spectrum.add_argument(
        "--dim",
        type=int,
        metavar="D",
        help="dimension; eigenvalues in the proportions D, ..., 2, 1 with the sum 1 (default 4)",
    )
    spectrum.add_argument(
        "--white", type=int, metavar="D", help="dimension; all eigenvalues 1/D, instead"
    )
    spectrum.add_argument(
        "--eigenvalues", type=parse_values, metavar="LIST", help="eigenvalues a,b,c, instead"
    )
    parser.add_argument(
        "--context", type=int, default=31, metavar="N", help="context pairs (default 31)"
    )
    parser.add_argument(
        "--noise-variance", type=float, default=0.0, metavar="X", help="label noise (default 0)"
    )


def given_eigenvalues(options: argparse.Namespace) -> np.ndarray:
    """Eigenvalues of the covariance of the inputs."""
    if options.eigenvalues is not None:
        return np.asarray(options.eigenvalues)
    name, dim = ("--white", options.white) if options.white is not None else ("--dim", options.dim)
    dim = 4 if dim is None else dim
    if dim < 1:
        raise ValueError(f"{name} must be an integer >= 1, got {dim!r}")
    if options.white is not None:
        return np.full(dim, 1 / dim)
    return np.arange(dim, 0, -1) / (dim * (dim + 1) / 2)
