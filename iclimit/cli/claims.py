"""``iclimit claims``: list what can be validated."""

from __future__ import annotations

import argparse
from typing import Any


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = verbs.add_parser(
        "claims",
        help="list the claims that can be validated",
        description="List the claims that `iclimit validate` checks.",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="with statement and source")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the claims."""
    from iclimit.validation import CLAIMS

    width = max(map(len, CLAIMS))
    for name, claim in CLAIMS.items():
        print(f"{name:{width}}  {claim.title}")
        if options.verbose:
            print(f"{'':{width}}  {claim.statement}\n{'':{width}}  Source: {claim.source}.\n")
    return 0
