"""Print what to cite.

Print the BibTeX entries of the papers that quantities, claims or functions
come from, each once. What is derived in the documentation of iclimit says so,
and has an entry for iclimit.

Examples
--------
  iclimit cite icl_error
  iclimit cite optimal_schedule_loss double-descent gdpp.optimal_gdpp > references.bib
"""

import argparse
from typing import Any

from iclimit.cli.arguments import add_verb


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "cite", run, __doc__)
    text = "quantity (iclimit phase --list), claim (iclimit claims), function, or key of an entry"
    parser.add_argument("names", nargs="+", metavar="NAME", help=text)


def run(options: argparse.Namespace) -> int:
    """Print the entries."""
    from iclimit.citations import cite

    print(cite(*options.names))
    return 0
