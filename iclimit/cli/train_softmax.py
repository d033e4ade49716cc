"""One layer of softmax heads, beside the best of the theory.

Train one layer of softmax heads in merged form, one matrix for key and query
and one vector for the value of a head, on regression in context, and measure
it on fresh prompts of the same law.

null_loss is that of predicting zero. best_loss is the least one of one head,
or of two with opposite weights, for isotropic Gaussian inputs; it is left out
where no theory knows it. Several seeds end at several losses. A run has failed
if it misses more than a tenth of what can be learned, by best_loss or, without
it, by the best run, which itself must have learned a tenth of the null loss.
The mean loss is that of the others.

With -o the network of least loss is written. iclimit probe says which
algorithm it performs.

Examples
--------
  iclimit train softmax --dim 10 --context 10
  iclimit train softmax --dim 5 --context 10 --heads 2 --repeats 4
  iclimit train softmax --dim 5 --context 20 --noise-variance 0.25 -o head.npz
"""

import argparse
from typing import Any

from iclimit.cli.arguments import add_verb
from iclimit.cli.train_network import add_flags, train_and_print


def add_parser(models: Any) -> None:
    """Add the model to ``iclimit train``."""
    add_flags(add_verb(models, "softmax", run, __doc__), "softmax")


def run(options: argparse.Namespace) -> int:
    """Train softmax heads."""
    return train_and_print(options, "softmax")
