"""Arguments of the verbs on training dynamics: the law of the sequences."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from iclimit.cli.arguments import parse_values

if TYPE_CHECKING:
    import numpy as np

RANGE = 1e-50, 1e50
"""Eigenvalues and initial weights whose powers are numbers."""


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
        "--white", type=int, metavar="D", help="dimension; all eigenvalues 1/D instead"
    )
    spectrum.add_argument(
        "--eigenvalues", type=parse_values, metavar="LIST", help="eigenvalues a,b,c instead"
    )
    parser.add_argument(
        "--context", type=int, default=31, metavar="N", help="context pairs N (default 31)"
    )
    parser.add_argument(
        "--noise-variance",
        type=float,
        default=0.0,
        metavar="X",
        help="variance of the label noise (default 0)",
    )


def check_problem(options: argparse.Namespace) -> None:
    """Check what `add_problem` added, and --heads, --rank, --init-scale and --seed."""
    from iclimit.simulate.checks import check_integers, check_nonnegative, check_positive

    for name in ("dim", "white", "context", "heads", "rank"):
        if (value := getattr(options, name)) is not None:
            check_integers(**{f"--{name}": value})
    if options.seed is not None and options.seed < 0:
        raise ValueError(f"--seed must be an integer >= 0, got {options.seed!r}")
    check_nonnegative(**{"--noise-variance": options.noise_variance})
    check_positive(**{"--init-scale": options.init_scale})
    least, most = RANGE
    if not least <= options.init_scale <= most:
        raise ValueError(
            f"--init-scale must be from {least} to {most}, got {options.init_scale!r}"
        )
    for value in [] if options.eigenvalues is None else options.eigenvalues.tolist():
        if value and not least <= value <= most:
            raise ValueError(f"--eigenvalues must be 0 or from {least} to {most}, got {value!r}")
    lam = given_eigenvalues(options)
    if not lam.any():
        raise ValueError("--eigenvalues must not all be 0")
    if options.rank > 1 and options.model != "separate":
        raise ValueError(f"--rank must be 1 for {options.model}, got {options.rank!r}")
    if options.rank > len(lam):
        raise ValueError(f"--rank must be at most the dimension {len(lam)}, got {options.rank!r}")


def given_eigenvalues(options: argparse.Namespace) -> np.ndarray:
    """Eigenvalues of the covariance of the inputs."""
    import numpy as np

    if options.eigenvalues is not None:
        return np.asarray(options.eigenvalues)
    if options.white is not None:
        return np.full(options.white, 1 / options.white)
    dim = 4 if options.dim is None else options.dim
    return np.arange(dim, 0, -1) / (dim * (dim + 1) / 2)
