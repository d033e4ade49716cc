"""``iclimit claims``: list what can be validated."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from iclimit.cli.arguments import add_verb

if TYPE_CHECKING:
    from iclimit.validation import Claim


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "claims", run, "list the claims that iclimit validate checks")
    parser.add_argument("-v", "--verbose", action="store_true", help="with statement and source")


def run(options: argparse.Namespace) -> int:
    """Print the claims."""
    from iclimit.validation import CLAIMS

    print_claims(CLAIMS, verbose=options.verbose)
    return 0


def print_claims(claims: Mapping[str, Claim], *, verbose: bool = False) -> None:
    """Print names and titles; with ``verbose`` statements and sources too."""
    width = max(map(len, claims))
    for name, claim in claims.items():
        print(f"{name:{width}}  {claim.title}")
        if verbose:
            print(f"{'':{width}}  {claim.statement}\n{'':{width}}  Source: {claim.source}.\n")
