r"""Compute a quantity along one parameter.

Compute a quantity along the parameter with the most values. VALUES are a
number, a list a,b,c or a range start:stop:points[:log]; every value of the
other parameters makes a curve.

Examples
--------
  iclimit curve icl_error --tau 0.1:5:400 --alpha 1,10,100 --kappa 0.5 --rho 0.01 -o curve.png
  iclimit curve task_gap --kappa 0.1:10:50:log --tau 10 --alpha 10 --rho 0.01 \
      --simulate dim=40,repeats=10 -o gap.pdf
  iclimit curve dmmse_icl_error --theta 0:0.9:100 --alpha 1 --rho 0.3
  iclimit curve constant_rate_loss --set ratio=0.1:10:100:log --set rate=0.5 --set steps=1,5,20
  iclimit curve icl_error --kappa 0.1:10:60:log --tau 2 --alpha 2 --rho 0.1 --ridge 0.1 \
      --task-spectrum powerlaw:0.5 --test-spectrum reversed --simulate dim=40 -o reversed.png
  iclimit curve untied_loss --set depth=1:64:7:log --alpha 0.5,2,inf \
      --input-spectrum powerlaw:1.2,400 -o untied.png
  iclimit curve misalignment_error --tau 0.2:4:100 --alpha 1 --kappa 1 --rho 0.1 \
      --task-spectrum eigenvalues.csv --test-spectrum isotropic --test-alpha 1,10
"""

import argparse
from typing import Any

from iclimit.cli.arguments import add_verb, open_store
from iclimit.cli.diagram import add_diagram, diagram_options
from iclimit.cli.output import add_output, write_output


def add_parser(verbs: Any) -> None:
    """Add the verb."""
    parser = add_verb(verbs, "curve", run, __doc__)
    add_diagram(parser, "points=12 (along each curve)")
    add_output(parser, formats=("csv", "json"))


def run(options: argparse.Namespace) -> int:
    """Compute, simulate and write."""
    from iclimit.diagrams.curves import curve

    with open_store(options) as store:
        result = curve(options.quantity, store=store, **diagram_options(options))
    write_output(options, result.rows, lambda figure: result.plot(figure.subplots()))
    return 0
