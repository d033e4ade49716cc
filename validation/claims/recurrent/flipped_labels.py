"""Classification in context with flipped labels, by the memory of linear attention.

The accuracy on simulated contexts equals the exact one at any number of dimensions and pairs, also
at settings drawn at random; with a gate, in growing dimensions, it equals that of a context which
is shorter.

Source: Derived in the documentation; setting of Frei and Vardi, arXiv:2410.01774.
"""

import math
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy.special import ndtr

from iclimit.asymptotics import recurrent
from iclimit.results import Estimate
from iclimit.simulate.recurrent import simulate_classification
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, mean, run
from iclimit.validation.claims.random_settings import RandomSetting, describe, random_rows

# Shares of labels that are flipped.
FLIPS = (0.0, 0.1, 0.2, 0.3, 0.4)
# Sizes at which accuracies are exact.
SIZES: tuple[dict[str, Any], ...] = (
    {"dim": 10, "context": 5, "separation": 2.0},
    {"dim": 10, "context": 40, "separation": 2.0},
    {"dim": 2, "context": 7, "separation": 0.8},
)
# Setting with the gate.
GATED = {"separation": 2.0, "flips": 0.2}
# Pairs over dimension with the gate.
ALPHA = 2
# Rate of forgetting of the gate.
FORGETTING = 1.0
# Contexts of each accuracy at finite size.
CONTEXTS = 2500
# Contexts by dimension with the gate.
CONTEXTS_BY_DIM = {12: 4000, 20: 3000, 32: 1500, 64: 600}
# Order of the fit in 1/d.
ORDER = 2


@named_cell("gated")
def gated(*, dim: int, contexts: int, rng: SeedSequence) -> Estimate:
    """Accuracy of a memory with a gate."""
    sizes: dict[str, Any] = {"dim": dim, "context": ALPHA * dim, "contexts": contexts}
    gate = {"gates": math.exp(-FORGETTING / dim)}
    return simulate_classification(**(sizes | GATED | gate), rng=rng)


def limit_with_gate() -> float:
    """Limit of the accuracy at the context that the gate leaves."""
    context = recurrent.effective_context(alpha=ALPHA, rho=0.0, forgetting=FORGETTING)
    signal = (1 - 2 * GATED["flips"]) * GATED["separation"]
    return float(ndtr(GATED["separation"] * signal / np.sqrt(signal**2 + 1 / context)))


@named_cell("random_setting")
def random_setting(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:  # noqa: ARG001
    """Accuracy at a size, a separation and a number of flips that are drawn."""
    where, contexts = rng.spawn(2)
    generator = np.random.default_rng(where)
    setting: dict[str, Any] = {
        "dim": int(generator.integers(1, 50)),
        "context": int(generator.integers(1, 50)),
        "separation": float(generator.uniform(0.3, 4)),
        "flips": float(generator.uniform(0, 0.5)),
    }
    accuracy = simulate_classification(**setting, contexts=repeats, rng=contexts)
    theory = float(recurrent.classification_accuracy(**setting))
    return RandomSetting(describe(setting), {"accuracy": (theory, accuracy)})


def rows(effort: Effort) -> Rows:
    """Exact accuracies, and the limit with a gate."""
    for size in SIZES:
        family = ", ".join(f"{name} {value:g}" for name, value in size.items())
        for flips in FLIPS:
            simulated = run(
                simulate_classification, **size, flips=flips, contexts=effort(CONTEXTS)
            )
            theory = call(recurrent.classification_accuracy, **size, flips=flips)
            label = f"{family}, flips {flips:g}"
            yield mean(label, theory, simulated, x=("flips", flips), family=family)
    tested = {"accuracy": "classification_accuracy"}
    yield from random_rows(effort, "flipped labels", random_setting, CONTEXTS, tested)
    theory = call(limit_with_gate)
    runs = {
        dim: run(gated, dim=dim, contexts=count)
        for dim, count in effort.by_size(CONTEXTS_BY_DIM).items()
    }
    # A change of the context moves the accuracy far less: this does not say how well it is known.
    yield limit({"with a gate": theory}, runs, order=ORDER, of=[""])


claim = Claim.of("flipped-labels", __doc__, rows, figure=False)
