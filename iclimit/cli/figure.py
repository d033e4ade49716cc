"""Draw a figure of a paper from theory and simulation.

Regenerate a figure of a paper, or one that belongs beside it. The simulated
points are those of the claim of the same name. --parameters prints what a
picture of iclimit was drawn from, as JSON.

Examples
--------
  iclimit figure --list
  iclimit figure double-descent --preset full -o double-descent.pdf
  iclimit figure double-descent --style paper-wide -o double-descent.pdf
  iclimit figure --parameters double-descent.pdf
"""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from iclimit.cli.arguments import PrintAndExit, add_verb
from iclimit.cli.output import PICTURES, add_output, output_file, picture, print_json
from iclimit.cli.validate import add_validation, print_claims, run_validation


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "figure", run, __doc__)
    parser.add_argument("name", metavar="NAME", nargs="?", help="name of the figure")
    show = partial(print_claims, figures=True)
    text = "list all figures"
    parser.add_argument("--list", action=PrintAndExit, nargs=0, const=show, help=text)
    text = "print the parameters in the metadata of this picture (.png, .pdf, .svg)"
    parser.add_argument("--parameters", type=Path, metavar="FILE", help=text)
    add_output(parser, PICTURES, text="default NAME.png; .png, .pdf or .svg")
    add_validation(parser, "sizes and repeats")


def run(options: argparse.Namespace) -> int:
    """Simulate and draw, or print parameters."""
    if (options.name is None) == (options.parameters is None):
        raise ValueError("give either NAME or --parameters FILE")
    if options.parameters is not None:
        from iclimit.figure_files import figure_parameters

        print_json(figure_parameters(options.parameters))
        return 0
    from iclimit.notation import did_you_mean
    from iclimit.validation import CLAIMS

    figures = [name for name, claim in CLAIMS.items() if claim.figure]
    name = options.name
    if name not in figures:
        raise ValueError(
            f"NAME must be one of {', '.join(figures)}, got {name!r}{did_you_mean(name, figures)}"
        )
    path = options.output or output_file(PICTURES)(f"{name}.png")
    outcome = run_validation(options, [CLAIMS[name]])
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.missing:
        raise RuntimeError("the time did not suffice; run again to go on from what is on record")
    (result,) = outcome.results
    if result.verdict is None:
        raise RuntimeError(result.error)
    with picture(options, path) as figure:
        result.verdict.draw_figure(figure)
    print(path)
    return 0
