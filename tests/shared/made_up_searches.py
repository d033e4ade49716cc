"""Made-up results of the slowest searches of the theory, for tests of what claims ask for.

Claims give some results of searches to their cells, as derived values.  Tests of the names and
seeds of cells need such values, not the right ones.
"""

from contextlib import ExitStack, contextmanager
from importlib import import_module
from unittest import mock

import numpy as np

from iclimit.asymptotics.gdpp import GDPlusPlus, RidgeBaselines
from iclimit.asymptotics.softmax import SoftmaxHead

HEAD = SoftmaxHead(1.3, 0.9, 0.6, 0.1)
LAYERS = [GDPlusPlus(np.array([0.7, 1.1]), np.array([0.2]), 0.3, 0.2)]
BASELINES = RidgeBaselines(
    oracle=0.1,
    one_layer=0.6,
    constant=0.5,
    adaptive=0.4,
    tuned=0.3,
    penalty=2.1,
    multiplier=1.2,
    threshold=5.3,
)

# Modules of claims, functions in them that search, and results in their place.
SEARCHES = (
    ("softmax.pair", "best_pair", HEAD),
    ("softmax.pair", "best_uniform", HEAD),
    ("softmax.published_layer", "best_head", HEAD),
    ("gdpp.published_layers", "minima", LAYERS),
    ("gdpp.baselines", "baselines", BASELINES),
    ("gdpp.gdpp_table", "baselines", BASELINES),
    ("gdpp.profiles", "baselines", BASELINES),
)


@contextmanager
def made_up_searches(change=lambda result: result):
    """Claims get these results within, each time with a change."""
    with ExitStack() as stack:
        for place, name, result in SEARCHES:
            module = import_module(f"iclimit.validation.claims.{place}")
            found = _answers(result, change)
            stack.enter_context(mock.patch.object(module, name, found))
        yield


def _answers(result, change):
    """Function of anything that has this result."""

    def found(*_):
        return change(result)

    return found
