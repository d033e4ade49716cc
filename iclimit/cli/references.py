"""The verbs ``cite`` and ``explorer``."""

import argparse
from pathlib import Path

from iclimit.cli.output import add_output, output_file
from iclimit.cli.verbs import OneLineParser, verb
from iclimit.tables import write_text


def _cite_flags(parser: OneLineParser) -> None:
    text = "quantity (iclimit phase --list), claim (iclimit claims), function, or key of an entry"
    parser.add_argument("names", nargs="+", metavar="NAME", help=text)
    add_output(parser, (".bib",), "write the entries (.bib)", formats=())


@verb("cite", _cite_flags)
def print_citations(options: argparse.Namespace) -> None:
    """Print what to cite.

    Print the BibTeX entries of the papers that quantities, claims or functions
    come from, each once. If something is derived in the documentation of iclimit,
    a comment says so and there is an entry for iclimit, too.

    Examples
    --------
      iclimit cite icl_error
      iclimit cite optimal_schedule_loss double-descent gdpp.optimal_gdpp -o references.bib
    """
    from iclimit.citations import cite

    text = cite(*options.names)
    if options.output is None:
        print(text)
    else:
        write_text(options.output, f"{text}\n")


def _explorer_flags(parser: OneLineParser) -> None:
    add_output(parser, (".html",), "file of the page (default explorer.html)", formats=())
    text = "store of runs whose simulated errors are shown, too"
    parser.add_argument("--store", type=Path, metavar="FILE", help=text)


@verb("explorer", _explorer_flags)
def write_explorer(options: argparse.Namespace) -> None:
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
    from iclimit.explorer.page import explorer_page

    path = options.output or output_file([".html"])("explorer.html")
    write_text(path, explorer_page(options.store))
    print(path)
