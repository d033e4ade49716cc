"""In-context against in-weight learning.

On mixtures of random and shared tasks the loss of merged attention begins to fall at the
predicted rate.  The network on cubic features ends as the best predictor linear in the labels;
merged attention ends between it and the least loss of all features.  The losses of the trained
network on drawn sequences are those of the predictor.  Finite training sets approach the law of
the data.

Source: {zhang2025}, section 6; growth rate and best predictor: documentation.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.dynamics import mixture_growth_rate, mixture_predictor
from iclimit.drawing import COLOURS, Figure, finish, panels, write_key
from iclimit.problem import Problem
from iclimit.published import settings
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.dynamics import (
    AttentionModel,
    simulate_gradient_descent,
    simulate_gradient_flow,
)
from iclimit.simulate.dynamics.attention_models import MomentLoss, SequenceLoss
from iclimit.simulate.dynamics.feature_moments import population_moments
from iclimit.simulate.prompts.training_sets import draw_training_set
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.rows import Later, Rows, bound, call, drawing, exact, limit, mean, run

# Fractions of sequences with random tasks, as published.
FRACTIONS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
# The shared task has the published norm, the root of D; for white inputs its direction does not
# matter.
LAW: dict[str, Any] = {"input_covariance": np.eye(4) / 4, "shared_task": np.ones(4), "context": 31}
# Sizes of the training set; the published one is 5000.
SETS = (1250, 2500, 5000)
# The published training, with records of the losses and with tests.
TRAINING = {**settings["zhang2025-mixtures"], "record": 20, "tests": True}

# Fraction of random tasks of one more flow, whose labels are noisy.
NOISY = 0.6
# Variance of the label noise of this flow.
NOISE = 0.2

# Enough for all features.  One start: with as many heads as entries of a token, merged attention
# and the network on cubic features are linear networks without other minima (Laurent, von Brecht,
# arXiv:1712.01473).
HEADS = 5
# Scale of the initial weights of the early flow.
EARLY_SCALE = 1e-16
# Relative falls of its loss between which the fall is exponential.
EARLY_WINDOW = (1e-8, 1e-6)
# Relative (measured: at most 1e-6).
RATE_TOLERANCE = 1e-5
# Duration of the late flows.
END = 30_000.0
# Relative, of the end of merged attention (measured: at most 7e-6).
END_TOLERANCE = 1e-4
# Relative, of the end of the network on cubic features (measured: at most 1e-14).
LINEAR_TOLERANCE = 1e-10
# Losses of the predictor on random tasks, on the shared task, and there with noise labels.
TESTS = ("icl_loss", "iwl_loss", "iwl_noise_loss")
# Fractions of random tasks whose networks are tested on drawn sequences.
DRAWN = (0.4, NOISY)
# Sequences that are drawn at a time.
BLOCK = 1000


def problem(fresh_fraction: float, noise_variance: float = 0.0) -> Problem:
    """Law of the sequences."""
    law = LAW | {"noise_variance": noise_variance}
    law |= {"shared_task": None} if fresh_fraction == 1 else {}
    return Problem(dim=4, **law, fresh_fraction=fresh_fraction, scale=1)


@dataclass(frozen=True)
class MixtureFlow:
    """Flows on the law of a mixture.

    Attributes
    ----------
    rate : float
        Half of the exponential rate at which the loss begins to fall.
    end, least : float
        Last loss, and the smallest one of any predictor that is linear in the features.
    linear : dict of float
        Losses of the network on cubic features at the end: ``train_loss`` and ``TESTS``.
    gamma : list
        Its matrix between labels times inputs and the query.
    """

    rate: float
    end: float
    least: float
    linear: dict[str, float]
    gamma: list[list[float]]


@named_cell("mixture_flow")
def mixture_flow(
    *, fresh_fraction: float, noise_variance: float = 0.0, rng: SeedSequence
) -> MixtureFlow:
    """Flows of merged attention, early and to the end, and of the network on cubic features."""
    early_seed, late_seed, cubic_seed = rng.spawn(3)
    law = problem(fresh_fraction, noise_variance)
    growth = mixture_growth_rate(fresh_fraction, **LAW, noise_variance=noise_variance)
    early = simulate_gradient_flow(
        law,
        init_scale=EARLY_SCALE,
        duration=-math.log(EARLY_SCALE) / float(growth),
        rtol=1e-10,
        rng=early_seed,
    )
    first, last = early.crossing_times(early.losses[0] * (1 - np.array(EARLY_WINDOW)))
    rate = math.log(EARLY_WINDOW[1] / EARLY_WINDOW[0]) / 2 / float(last - first)
    late = simulate_gradient_flow(
        law, heads=HEADS, init_scale=0.01, duration=END, rtol=1e-7, rng=late_seed
    )
    moments = population_moments(law)
    best = np.linalg.lstsq(moments.second, moments.cross, rcond=None)[0]
    least = float(moments.label - best @ moments.cross)
    network: dict[str, Any] = {"model": "cubic", "heads": HEADS, "init_scale": 1e-3}
    cubic = simulate_gradient_flow(law, duration=END, rtol=1e-10, rng=cubic_seed, **network)
    value, lookup = cubic.weights
    linear = {"train_loss": float(cubic.losses[-1])}
    for name, (task, noise) in tests(noise_variance).items():
        loss = MomentLoss(
            AttentionModel("cubic", task.dim, HEADS), population_moments(task, noise_labels=noise)
        )
        linear[name] = float(loss([value[None], lookup[None]])[0][0])
    gamma = np.einsum("h,hij->ij", value[:, 0], lookup)
    return MixtureFlow(rate, float(late.losses[-1]), least, linear, gamma.tolist())


def tests(noise_variance: float) -> dict[str, tuple[Problem, bool]]:
    """Laws of the tests, and whether labels in the context are noise."""
    random = problem(1.0, noise_variance)
    shared = problem(0.0, noise_variance)
    return dict(zip(TESTS, ((random, False), (shared, False), (shared, True)), strict=True))


@named_cell("drawn_losses")
def drawn_losses(
    *, flow: MixtureFlow, noise_variance: float, blocks: int, rng: SeedSequence
) -> dict[str, Estimate]:
    """Losses of the network at the end of a flow on drawn sequences."""
    device = get_backend("numpy")
    laws = tests(noise_variance)
    losses_by_test = {}
    weights = [np.ones((1, 1, 1)), np.array(flow.gamma)[None, None]]
    for (name, (law, noise)), seed in zip(laws.items(), rng.spawn(3), strict=True):
        losses = []
        for generator in device.generators(seed, blocks):
            drawn = draw_training_set(law, device, generator, BLOCK, standardize=False)
            if noise:
                drawn = replace(drawn, labels=generator.standard_normal(drawn.labels.shape))
            model = AttentionModel("cubic", law.dim, 1)
            losses.append(float(SequenceLoss(model, [drawn])(weights)[0][0]))
        losses_by_test[name] = Estimate.of(losses)
    return losses_by_test


@named_cell("mixture_descent")
def mixture_descent(
    *, fresh_fraction: float, size: float, repeats: int, rng: SeedSequence, backend: str = "numpy"
) -> dict[str, Any]:
    """Gradient descent with the published settings on sets of one size, and on the law.

    Mean losses over repeats, on the shared task with noise for context labels ("iwl"), and the
    last training loss minus that on the law from the same weights.
    """
    same: dict[str, Any] = {
        **TRAINING,
        "repeats": repeats,
        "rng": rng,
        "standardize": False,
        "backend": backend,
    }
    law = simulate_gradient_descent(problem(fresh_fraction), **same | {"training_set": math.inf})
    trained = law
    if size < math.inf:
        trained = simulate_gradient_descent(
            problem(fresh_fraction), **same | {"training_set": size}
        )
    return {
        "steps": trained.recorded_at,
        "training": np.mean(trained.losses, axis=0),
        **{name: np.mean(losses, axis=0) for name, losses in trained.measures.items()},
        "gap": Estimate.of(trained.losses[:, -1] - law.losses[:, -1]),
    }


def rows(effort: Effort) -> Rows:
    """The flows, and large training sets beside the law."""
    fractions = effort.pick(tiny=(0.4, 1.0), quick=FRACTIONS)
    flows = {c: run(mixture_flow, fresh_fraction=c) for c in fractions}
    for c, flow in flows.items():
        yield from flow_rows(c, flow)
    noisy = run(mixture_flow, fresh_fraction=NOISY, noise_variance=NOISE)
    yield from flow_rows(NOISY, noisy, NOISE)
    for c, flow, noise in zip(DRAWN, (flows[DRAWN[0]], noisy), (0.0, NOISE), strict=True):
        drawn = run(
            drawn_losses,
            flow=flow,
            noise_variance=noise,
            blocks=effort.pick(tiny=10, quick=100, medium=400),
        )
        best = call(mixture_predictor, c, **LAW, noise_variance=noise)
        for name in TESTS:
            label = f"{name} of the network on drawn sequences, {where(c, noise)}"
            yield mean(label, getattr(best, name), drawn[name])
    for c in effort.pick(quick=(0.4,), medium=FRACTIONS):
        repeats = effort.pick(tiny=6, quick=20, full=40)
        label = f"training loss minus that on the law, {c:g} of the tasks random, extrapolated"
        gaps = {
            size: run(mixture_descent, fresh_fraction=c, size=size, repeats=repeats)["gap"]
            for size in SETS
        }
        yield limit({label: 0.0}, gaps, order=1, name=f"{c:g} of the tasks random", size="$P$")
    trainings = {
        c: run(mixture_descent, fresh_fraction=c, size=math.inf, repeats=1) for c in fractions
    }
    yield drawing(draw, flows, trainings)


def where(c: float, noise: float) -> str:
    """Fraction of random tasks, and whether labels are noisy, in words."""
    return f"{c:g} of the tasks random{', noise' if noise > 0 else ''}"


def flow_rows(c: float, flow: Later, noise: float = 0.0) -> Rows:
    """The first growth, and the ends of merged attention and of the network."""
    here = where(c, noise)
    best = call(mixture_predictor, c, **LAW, noise_variance=noise)
    rate = call(mixture_growth_rate, c, **LAW, noise_variance=noise)
    yield exact(f"rate of the first growth, {here}", rate, flow.rate, relative=RATE_TOLERANCE)
    label = f"end of the flow, {here}: at most the best linear predictor"
    yield bound(label, best.train_loss, flow.end, relative=END_TOLERANCE)
    label = f"end of the flow, {here}: the least loss of the features"
    yield exact(label, flow.least, flow.end, relative=END_TOLERANCE)
    for name in ("train_loss", *TESTS):
        label = f"{name} of the network, {here}"
        loss = flow.linear[name]
        yield exact(label, getattr(best, name), loss, relative=LINEAR_TOLERANCE)
    label = f"largest of gamma, {here}"
    of = "mixture_predictor.gamma"
    theory = call(at_largest, best.gamma, best.gamma)
    largest = call(at_largest, best.gamma, flow.gamma)
    yield exact(label, theory, largest, relative=LINEAR_TOLERANCE, of=of)


def at_largest(gamma: np.ndarray, matrix: np.ndarray) -> float:
    """Entry of a matrix where gamma is largest."""
    return float(np.ravel(matrix)[int(np.argmax(np.abs(gamma)))])


def draw(
    figure: Figure, flows: Mapping[float, MixtureFlow], trainings: Mapping[float, dict[str, Any]]
) -> None:
    """Draw losses at the end by the fraction of random tasks, and test losses on the way."""
    import matplotlib as mpl

    left, *curves = panels(figure, 3)
    fine = np.linspace(0, 1, 101)
    best = mixture_predictor(fine, **LAW).train_loss
    left.plot(fine, best, color=COLOURS[0], label="linear in the labels")
    least = [flow.least for flow in flows.values()]
    left.plot(list(flows), least, "_", color="0.3", markersize=12, label="all features")
    ends = [training["training"][-1] for training in trainings.values()]
    left.plot(
        list(trainings), ends, "o", color=COLOURS[1], label=f"after {TRAINING['steps']} steps"
    )
    finish(left, "fraction of random tasks", "training loss", legend="")
    shades = mpl.colormaps["viridis"](np.linspace(0, 0.92, len(trainings)))
    for (c, training), shade in zip(trainings.items(), shades, strict=True):
        curves[0].plot(training["steps"], training["icl"], color=shade, label=f"{c:g}")
        if "iwl" in training:
            curves[1].plot(training["steps"], training["iwl"], color=shade)
    finish(curves[0], "step", "test loss", title="random tasks", legend="share of random tasks")
    finish(curves[1], "step", "test loss", title="shared task, labels of noise")
    write_key(figure, "left: theory as lines and bars, training as points")


claim = Claim.of("dynamics-mixtures", __doc__, rows)
