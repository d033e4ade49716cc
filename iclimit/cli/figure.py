"""``iclimit figure``: regenerate a figure of a paper with our simulation."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from iclimit.cli.arguments import (
    PICTURES,
    add_execution,
    add_store,
    check_execution,
    check_output,
    open_store,
)


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "figure",
        help="regenerate a figure of a paper with theory, simulation and error bars",
        description=(
            "Regenerate a figure: of Lu et al. (arXiv:2405.11751), double-descent, "
            "context-length, nonmonotonicity or task-diversity; on gradient descent in context, "
            "gd-learning-rate, gd-training, gd-preconditioner, gd-transfer, gd-schedules, "
            "gd-divergence, gd-dampening or gd-constructions; on GD++, gdpp-spectrum, gdpp-layers "
            "or gdpp-error; on random noise levels, noisy-baselines, noisy-gdpp, noisy-diag, "
            "noisy-full, noisy-profiles, noisy-weights or noisy-two-levels; on training dynamics, "
            "dynamics-merged, dynamics-cubic, dynamics-plateaus, dynamics-drop-times, "
            "dynamics-heads, dynamics-mixtures, dynamics-training-set or dynamics-published; on "
            "structured data, structured-tests, structured-context, structured-rank, "
            "structured-inputs, structured-limits, spectra-samples or spectra-free. The simulated "
            "points are those of the claim of the same name."
        ),
        epilog="example: iclimit figure double-descent --preset full -o double-descent.pdf",
    )
    parser.add_argument("name", metavar="NAME", help="name of the figure")
    parser.add_argument("--preset", choices=("quick", "full"), default="quick")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="default NAME.png; .png, .pdf or .svg"
    )
    add_execution(parser)
    add_store(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Simulate and draw."""
    from iclimit.validation import CLAIMS, validate
    from iclimit.validation.drawing import house_style, new_figure

    names = [claim.name for claim in CLAIMS.values() if claim.figure]
    if options.name not in names:
        raise ValueError(f"NAME must be one of {', '.join(names)}, got {options.name!r}")
    path = options.output or Path(f"{options.name}.png")
    check_output(path, PICTURES)
    check_execution(options)
    with open_store(options) as store:
        outcome = validate(
            [CLAIMS[options.name]],
            preset=options.preset,
            seed=options.seed,
            jobs=options.jobs,
            backend=options.backend,
            store=store,
            scheduler=options.scheduler,
            time_limit=options.time,
            progress=sys.stderr.isatty(),
        )
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.missing:
        raise RuntimeError("the time did not suffice; run again to go on from what is on record")
    (result,) = outcome.results
    if result.verdict is None:
        raise RuntimeError(result.error)
    with house_style():
        figure = new_figure()
        result.verdict.draw(figure)
        figure.savefig(path)
    print(path)
    return 0
