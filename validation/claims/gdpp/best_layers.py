"""Best gradient descent and GD++ of some layers: uniform inputs, as many pairs as inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import ArrayLike
from scipy.linalg import eigh_tridiagonal
from scipy.optimize import minimize

from iclimit.asymptotics.gdpp.losses import rule_loss
from iclimit.asymptotics.gdpp.search import average_minima, degree
from iclimit.asymptotics.spectra import IndependentEntries
from iclimit.simulate.descent.schedules import context_blocks
from iclimit.statement import named_cell

# Size of the contexts, and law of the inputs.
SIZE: dict[str, Any] = {"context": 10, "dim": 10, "input_law": "uniform"}
# Contexts, by layers, whose spectra stand for the mean spectrum: only eight of its moments are
# known exactly.  The best three layers on 100,000 contexts can have ten times their loss on
# others, nearly all of it from one context (measured: .0401 there, .28 on others).
SAMPLED = {3: 1_000_000, 4: 400_000, 5: 100_000}
# Most layers whose mean loss is known exactly.
EXACT = 2
# Rates at the starts of the search for weights that all layers share.
RATES = (1.0, 3.0, 9.0)
# Gammas at these starts, each with every rate.
GAMMAS = (0.3, 1.0, 3.0)


@dataclass(frozen=True)
class BestLayers:
    """Rates and gammas of GD++, rates of gradient descent, and losses over the null predictor."""

    rates: tuple[float, ...]
    gammas: tuple[float, ...]
    steps: tuple[float, ...]
    loss: float
    step_loss: float


@named_cell("best_layers")
def best_layers(*, layers: int, shared: bool, rng: SeedSequence) -> BestLayers:
    """Layers and steps of least mean loss; shared ones have one rate and one gamma."""
    nodes, weights = spectrum(layers, rng)

    def loss(rates: ArrayLike, gammas: ArrayLike) -> float:
        return float(rule_loss(np.array(rates), np.array(gammas), nodes, weights, 0.0))

    def plain(x: np.ndarray) -> float:
        return loss([*x] * (layers if shared else 1), np.zeros(layers - 1))

    steps = descend(plain, [np.geomspace(1, 3, 1 if shared else layers)])
    if shared:
        starts = [np.array(start) for start in product(RATES, GAMMAS)]
        rate, gamma = descend(lambda x: loss([x[0]] * layers, [x[1]] * (layers - 1)), starts)
        rates = np.repeat(rate, layers)
        gammas = np.repeat(gamma, layers - 1)
        steps = np.repeat(steps, layers)
    else:
        positive = nodes > 0
        top = nodes.max()
        # The search starts from spectra on [lower, 1]; lower only spreads its starts.
        minimum = average_minima(layers, nodes[positive] / top, weights[positive], 0.0, 0.01)[0]
        rates, gammas = np.split(minimum / top, [layers])
    return BestLayers(
        tuple(rates.tolist()),
        tuple(gammas.tolist()),
        tuple(steps.tolist()),
        loss(rates, gammas),
        loss(steps, np.zeros(layers - 1)),
    )


def descend(loss: Callable[[np.ndarray], float], starts: list[np.ndarray]) -> np.ndarray:
    """Minimum reached from the best of several starts."""
    options = {"xatol": 1e-9, "fatol": 1e-14, "maxiter": 5000}
    ends = [minimize(loss, start, method="Nelder-Mead", options=options) for start in starts]
    return np.asarray(min(ends, key=lambda end: float(end.fun)).x)


def spectrum(layers: int, rng: SeedSequence) -> tuple[np.ndarray, np.ndarray]:
    """Quadrature rule of the mean spectrum, exact for the loss, or of a sample of contexts."""
    if layers <= EXACT:
        return IndependentEntries(**SIZE).quadrature(degree(layers))
    # A Gauss rule of each block, and of all of these: exact, and no more than a block is held.
    nodes = []
    weights = []
    for x in context_blocks(**SIZE, contexts=SAMPLED[layers], rng=rng, backend="numpy"):
        values = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / SIZE["context"]).ravel()
        node, weight = gauss_rule(values, np.ones(values.size) / values.size, layers)
        nodes.append(node)
        weights.append(weight * len(x) / SAMPLED[layers])
    return gauss_rule(np.concatenate(nodes), np.concatenate(weights), layers)


def gauss_rule(
    values: np.ndarray, weights: np.ndarray, layers: int
) -> tuple[np.ndarray, np.ndarray]:
    """Gauss rule of weighted points, exact for the loss of these layers (Lanczos)."""
    count = degree(layers) + 1
    basis = np.empty((count, values.size))
    basis[0] = np.sqrt(weights)
    centres = np.empty(count)
    off = np.empty(count - 1)
    for k in range(count):
        following = values * basis[k]
        centres[k] = following @ basis[k]
        if k < count - 1:
            for _ in range(2):  # once more against rounding
                following -= (basis[: k + 1] @ following) @ basis[: k + 1]
            off[k] = np.linalg.norm(following)
            basis[k + 1] = following / off[k]
    nodes, vectors = eigh_tridiagonal(centres, off)
    return nodes, vectors[0] ** 2
