"""Draw a figure of a paper from theory and simulation.

Regenerate a figure of a paper, or one that belongs beside it. The simulated
points are those of the claim of the same name.

Examples
--------
  iclimit figure --list
  iclimit figure double-descent --preset full -o double-descent.pdf
"""

from __future__ import annotations

import argparse
from typing import Any

from iclimit.cli.arguments import add_execution, add_verb, execution, open_store
from iclimit.cli.output import PICTURES, add_output, output_file, picture


class ListFigures(argparse.Action):
    """Print the names and titles of all figures, and exit."""

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        from iclimit.cli.claims import print_claims

        print_claims(_figures())
        parser.exit()


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "figure", run, __doc__)
    parser.add_argument("name", metavar="NAME", help="name of the figure")
    parser.add_argument("--list", action=ListFigures, nargs=0, help="list all figures")
    parser.add_argument("--preset", choices=("quick", "full"), default="quick")
    add_output(parser, PICTURES, text="default NAME.png; .png, .pdf or .svg")
    add_execution(parser)


def run(options: argparse.Namespace) -> int:
    """Simulate and draw."""
    from iclimit.notation import did_you_mean
    from iclimit.validation import validate

    figures, name = _figures(), options.name
    if name not in figures:
        raise ValueError(
            f"NAME must be one of {', '.join(figures)}, got {name!r}{did_you_mean(name, figures)}"
        )
    path = options.output or output_file(PICTURES)(f"{name}.png")
    with open_store(options) as store:
        outcome = validate(
            [figures[name]],
            preset=options.preset,
            store=store,
            time_limit=options.time,
            **execution(options),
        )
    if outcome.interrupted:
        raise KeyboardInterrupt
    if outcome.missing:
        raise RuntimeError("the time did not suffice; run again to go on from what is on record")
    (result,) = outcome.results
    if result.verdict is None:
        raise RuntimeError(result.error)
    with picture(path) as figure:
        result.verdict.draw(figure)
    print(path)
    return 0


def _figures() -> dict[str, Any]:
    """Claims that have such a figure, by name."""
    from iclimit.validation import CLAIMS

    return {name: claim for name, claim in CLAIMS.items() if claim.figure}
