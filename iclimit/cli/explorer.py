"""Write the explorer: the theory as an interactive page.

Write one HTML file with the theory under sliders: errors, phase diagrams, spectra, steps of
gradient descent, training, softmax heads and depth. It opens in any browser, from disk and
without a network. With --store, simulated errors on record are shown beside published ones.

Examples
--------
  iclimit explorer
  iclimit explorer -o theory.html
  iclimit explorer --store runs.sqlite
"""

import argparse
from pathlib import Path
from typing import Any

from iclimit.cli.arguments import add_verb
from iclimit.cli.output import add_output, output_file


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "explorer", run, __doc__)
    add_output(parser, (".html",), text="default explorer.html")
    text = "store of runs whose simulated errors are shown"
    parser.add_argument("--store", type=Path, metavar="FILE", help=text)


def run(options: argparse.Namespace) -> int:
    """Write the page and print its path."""
    from iclimit.explorer.page import explorer_page
    from iclimit.files import replacing

    path = options.output or output_file([".html"])("explorer.html")
    page = explorer_page(options.store)
    with replacing(path) as partial:
        partial.write_text(page, encoding="utf-8")
    print(path)
    return 0
