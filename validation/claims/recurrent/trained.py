"""Trained recurrent layers reach the best ones of their kind.

Layers with a gate, a step of the delta rule or both, with a step for each token, and with a gate
and a step for each channel where inputs differ, are trained on tasks that drift.  Their loss on
fresh prompts is that of the recursion of moments at the trained weights, and the recursion has no
smaller loss at other weights of the kind.  Where each token has a step, the least loss is that of
the best delta rule, the best of all linear recurrences.  All 20 seeds of each layer arrive there.

Source: Derived in the documentation.
"""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence
from scipy.optimize import minimize
from scipy.stats import chi2

from iclimit.asymptotics.recurrent import recurrent_errors
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.networks import train_repeats
from iclimit.simulate.recurrent import RecurrentLayer
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, mean, run
from iclimit.validation.claims.starts import arrived

# Dimension of the inputs.
DIM = 6
# Pairs of a context.
CONTEXT = 12
# Variance of the label noise.
RHO = 0.25
# Rate at which tasks drift, in units of 1/d.
DRIFT = 0.6
# Variances of the inputs where channels are unlike.
EIGENVALUES = (0.2, 0.3, 0.5, 1.0, 1.5, 2.5)
# Trainings of a layer from random weights.
REPEATS = {"tiny": 2, "quick": 3, "medium": 20}
# Prompts that a training learns from.
PROMPTS = 4096
# The loss at weights that minimise a mean over n prompts is above the least one by v chi^2/n with
# as many degrees of freedom as weights.  A training whose excess has a smaller probability than
# this has not found the minimum.
CHANCE = 1e-5
# Factor of the excess: it is larger by half because squared errors and slopes grow together.
GROWTH = 1.5

# Loss of predicting zero: the mean square of a label.
NULL = 1.0

# Options of layers by name.
LAYERS: dict[str, dict[str, Any]] = {
    "gate": {"corrects": False},
    "delta rule": {"gated": False},
    "gated delta rule": {},
    "step for each token": {"by_token": True, "context": CONTEXT},
    "unlike channels": {"by_channel": True, "preconditioned": True},
}


@named_cell("trained_layers")
def trained_layers(
    *, name: str, repeats: int, prompts: int, rng: SeedSequence
) -> list[tuple[dict[str, np.ndarray], Estimate] | None]:
    """Weights and held-out losses; None for a training whose loss became infinite."""
    problem = Problem(DIM, CONTEXT, noise_variance=RHO, drift=DRIFT)
    if name == "unlike channels":
        problem = replace(problem, input_covariance=EIGENVALUES)
    layer = RecurrentLayer(DIM, **LAYERS[name])
    settings: dict[str, Any] = {"optimizer": "lbfgs", "batch": prompts, "repeats": repeats}
    trained = train_repeats(layer, problem, rng=rng, **settings)
    return [(run.weights, run.held_out) if run else None for run in trained.runs]


def loss(name: str, weights: dict[str, Any]) -> float:
    """Loss of a layer, without the noise of the label."""
    rule = {"gate": "decay", "delta rule": "delta"}.get(name, "gated-delta")
    names = {"gate": "gates", "step": "step_sizes"}
    given = {names.get(key, key): np.squeeze(value) for key, value in weights.items()}
    if name == "unlike channels":
        given |= {"eigenvalues": EIGENVALUES, "channel_gates": given.pop("gates")}
    given["readout"] = float(given["readout"])
    size: dict[str, Any] = {"dim": DIM, "context": CONTEXT, "rho": RHO, "drift": DRIFT}
    return float(recurrent_errors(rule, **size, **given).error[-1]) - RHO


def least_loss(name: str) -> float:
    """Least loss of a kind of layers, by search or from the theory."""
    if name == "step for each token":
        setting: dict[str, Any] = {"dim": DIM, "context": CONTEXT, "rho": RHO, "drift": DRIFT}
        best = recurrent_errors("gated-delta", **setting, gate_first=False)
        return float(best.error[-1]) - RHO
    shapes = RecurrentLayer(DIM, **LAYERS[name]).shapes
    ends = np.cumsum([math.prod(shape) for shape in shapes.values()])[:-1]

    def of(vector: np.ndarray) -> float:
        return loss(name, dict(zip(shapes, np.split(vector, ends), strict=True)))

    start = np.full(sum(map(math.prod, shapes.values())), 0.7)
    bounds = [
        (0.0, 1.0 if key == "gate" else 2.0)
        for key, shape in shapes.items()
        for _ in range(*shape)
    ]
    return float(minimize(of, start, bounds=bounds).fun)


def pooled(name: str, runs: list[Any], least: float) -> tuple[float, float, Estimate, float]:
    """Largest excess of the losses at the trained weights, and their mean; the held-out mean.

    Last the number of failed seeds, by the losses at the weights: those on fresh prompts differ by
    more than a tenth of what is learned by chance.
    """
    losses = [run for run in runs if run]
    known = [loss(name, weights) for weights, _ in losses]
    held = [estimate for _, estimate in losses]
    good = int(np.sum(arrived(known, best=least, null=NULL)))
    error = math.sqrt(sum(estimate.standard_error**2 for estimate in held)) / len(held)
    count = sum(estimate.repeats for estimate in held)
    mean_loss = float(np.mean([estimate.mean for estimate in held]))
    estimate = Estimate(mean_loss, error, count)
    return max(known) / least, float(np.mean(known)), estimate, float(len(runs) - good)


def allowed_excess(name: str, prompts: int) -> float:
    """Largest excess by chance, relative to the least loss."""
    weights = RecurrentLayer(DIM, **LAYERS[name]).size
    return GROWTH * float(chi2.isf(CHANCE, weights)) / prompts


def rows(effort: Effort) -> Rows:
    """The excess over the least loss, and held-out losses, of all layers."""
    prompts = effort.pick(tiny=PROMPTS // 4, quick=PROMPTS)
    for name in LAYERS:
        repeats = effort.pick(**REPEATS)
        trained = run(trained_layers, name=name, repeats=repeats, prompts=prompts)
        result = call(pooled, name, trained, call(least_loss, name))
        yield exact(f"failed seeds, {name}", 0.0, result[3])
        label = f"largest loss over the least, {name}"
        of = "recurrent_errors"
        excess = allowed_excess(name, prompts)
        yield exact(label, 1.0, result[0], relative=excess, of=of)
        label = f"loss on fresh prompts, {name}"
        yield mean(label, result[1], result[2], of=of, draws=name)


claim = Claim.of("recurrent-trained", __doc__, rows, figure=False)
