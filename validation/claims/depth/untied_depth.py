"""Untied depth: stochastic training leaves the loss of tied layers for that of the best ones.

Two layers of linear attention are trained by SGD from exactly zero on fresh contexts, each with a
covariance in a random basis, on all entries of their matrices.  The loss of layers that share a
matrix, extrapolated to learning rate 0, is that of the best tied layers.  Untied layers first
reach it too; then the noise breaks the balance and the loss falls to that of the best untied
layers.  Antithetic pairs of trainings that start on both sides of the balanced point measure the
rate at which asymmetry grows.  At finite context both losses are compared on the same drawn
contexts.

Source: Model of Bordelon, Letey and Pehlevan, arXiv:2510.01098, Figure 8; saddle and optimum
derived in the documentation.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.depth import (
    BalancedSaddle,
    UntiedDepth,
    balanced_saddle,
    depth_loss,
    untied_depth,
)
from iclimit.results import Estimate
from iclimit.simulate.depth import simulate_depth_loss, train_depth
from iclimit.simulate.training.results import TrainingCurves
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Limit, Rows, call, exact, limit, mean, run


@dataclass(frozen=True)
class Sizes:
    """Sizes of the trainings.

    Attributes
    ----------
    eigenvalues : tuple of float
        Of the covariances of inputs and of tasks.
    batch : int
        Contexts of a step.
    largest : float
        Largest learning rate; the others are this over 2 and 4.
    start, settle, average : float
        Times, in steps times learning rate, of the training from zero at the largest rate, and of
        settling and averaging at each rate.
    repeats, pairs : int
        Trainings from zero, and antithetic pairs.
    contexts : int
        Contexts at the smallest dimension of those of finite length.
    """

    eigenvalues: tuple[float, ...]
    batch: int
    largest: float
    start: float
    settle: float
    average: float
    repeats: int
    pairs: int
    contexts: int


# Eigenvalues of all presets but the largest.
_DOUBLING = (1.6, 0.8, 0.4, 0.2, 0.1)
# Eigenvalues of the largest preset.
_HARMONIC = tuple(1 / k for k in range(1, 17))
# All trainings start at zero, and none is left out of the means: there is no start to choose.
# At the best untied layers the slowest modes of the matrices relax in times of 140 and 2300; what
# settling leaves of them changes the loss in second order.  Both laws keep a shared matrix stable
# against antisymmetric parts, in which it may leave the identity too (see the documentation).
SIZES = {
    "tiny": Sizes(
        eigenvalues=_DOUBLING,
        batch=16,
        largest=0.7,
        start=250.0,
        settle=60.0,
        average=20.0,
        repeats=3,
        pairs=4,
        contexts=40,
    ),
    "quick": Sizes(
        eigenvalues=_DOUBLING,
        batch=16,
        largest=0.7,
        start=250.0,
        settle=100.0,
        average=50.0,
        repeats=8,
        pairs=16,
        contexts=500,
    ),
    "medium": Sizes(
        eigenvalues=_DOUBLING,
        batch=16,
        largest=0.7,
        start=250.0,
        settle=100.0,
        average=150.0,
        repeats=16,
        pairs=48,
        contexts=3000,
    ),
    "full": Sizes(
        eigenvalues=_HARMONIC,
        batch=64,
        largest=10.0,
        start=12000.0,
        settle=4000.0,
        average=1500.0,
        repeats=16,
        pairs=48,
        contexts=20000,
    ),
}

# Learning rates are the largest one over these numbers.  The losses of a training at the three
# rates are extrapolated to zero by a parabola: 0.1 % too high for untied layers (measured).
PARTS = (1, 2, 4)

# Difference of gains at the start of antithetic pairs.
ASYMMETRY = 0.01

# Layers that are trained.
DEPTH = 2

# Eigenvalues of inputs at finite context, each d/5 times; tasks have the covariance I.
EIGENVALUES = np.array([0.1, 0.2, 0.4, 0.8, 1.6])

# Dimensions at finite context, from which losses are extrapolated.
DIMS = (10, 20, 40, 80)
# Context length over dimension at finite context.
ALPHA = 8.0
# Layers at finite context.
DEPTHS = (2, 3)

# Layers at infinite context.
EXACT_DEPTHS = (2, 4, 8)
# Eigenvalues at infinite context that are taken one by one.
SINGLE = 200

# Relative error of losses at infinite context, of rounding (measured: 3e-15).  At 16 layers
# rounding of the steps alone is seen.
EXACT = 1e-12


def harmonic_law() -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues 1/k with shares 1/k^2: single ones, and 200 groups that stand for the others."""
    k = np.arange(1.0, SINGLE + 1)
    edges = np.geomspace(SINGLE + 0.5, 1e14, 201)
    groups = (1 / edges[1:] + 1 / edges[:-1]) / 2
    return np.append(1 / k, groups), np.append(k**-2, -np.diff(1 / edges))


def theory(eigenvalues: Sequence[float]) -> tuple[BalancedSaddle, UntiedDepth, float]:
    """Best tied layers, best untied layers, and the loss of predicting zero."""
    lam = np.array(eigenvalues)
    shares = lam**2
    return (
        balanced_saddle(lam, weights=shares, depth=DEPTH),
        untied_depth(lam, weights=shares, depth=DEPTH),
        float(shares.mean()),
    )


def train(*, eigenvalues: Sequence[float], **setting: Any) -> TrainingCurves:
    """Train on rotated covariances."""
    return train_depth(depth=DEPTH, eigenvalues=eigenvalues, task_spectrum=eigenvalues, **setting)


@named_cell("from_zero")
def from_zero(*, time: float, rate: float, **setting: Any) -> TrainingCurves:
    """Train from matrices of zeros for a time."""
    steps = round(time / rate)
    return train(**setting, learning_rate=rate, steps=steps, record=max(1, steps // 60))


@named_cell("settled")
def settled(
    *,
    start: TrainingCurves,
    settle: float,
    average: float,
    rate: float,
    eigenvalues: Sequence[float],
    rng: SeedSequence,
    **setting: Any,
) -> np.ndarray:
    """Relative losses (parts, repeats) at one learning rate after the other, the largest first."""
    null = theory(eigenvalues)[-1]
    gammas = start.weights[0]
    losses = []
    for part, seed in zip(PARTS, np.random.default_rng(rng).spawn(len(PARTS)), strict=True):
        before = round(settle * part / rate)
        steps = round((settle + average) * part / rate)
        run = train(
            eigenvalues=eigenvalues,
            initial=gammas,
            learning_rate=rate / part,
            steps=steps,
            record=max(1, (steps - before) // 30),
            rng=seed,
            **setting,
        )
        late = run.measures["held_out"][:, run.recorded_at >= before]
        losses.append(np.mean(late, axis=1) / null)
        gammas = run.weights[0]
    return np.array(losses)


def at_zero_rate(losses: np.ndarray) -> Estimate:
    """Losses (parts, repeats), extrapolated to learning rate 0 in each training."""
    powers = np.vander(1 / np.array(PARTS), increasing=True)
    return Estimate.of(np.linalg.solve(powers, losses)[0])


@named_cell("growth")
def growth(
    *, eigenvalues: Sequence[float], rate: float, rng: SeedSequence, **setting: Any
) -> np.ndarray:
    """Growth rates (repeats,) of asymmetry from both sides of the balanced point."""
    saddle, _, null = theory(eigenvalues)
    # The time in which it grows by e; that of the saddle is for relative losses.
    steps = round(2 / (saddle.growth_rate * null) / rate)
    seed = int(np.random.default_rng(rng).integers(2**31))
    ends = [
        train(
            eigenvalues=eigenvalues,
            initial=saddle.gamma + side * ASYMMETRY / 2 * np.array([1.0, -1.0]),
            learning_rate=rate,
            steps=steps,
            record=steps,
            held_out=2,
            rng=seed,
            **setting,
        ).measures["traces"][:, -1]
        for side in (1, -1)
    ]
    difference = (ends[0] - ends[1]) @ [0.5, -0.5]
    return np.log(difference / ASYMMETRY) / (steps * rate) * 2 / null


@named_cell("on_contexts")
def on_contexts(*, depth: int, dim: int, repeats: int, rng: SeedSequence) -> np.ndarray:
    """Losses (2, repeats) of the best tied and untied layers on the same contexts."""
    tied, best = finite_theory(depth)
    seed = int(np.random.default_rng(rng).integers(2**31))
    return np.array(
        [
            simulate_depth_loss(
                eigenvalues=np.repeat(EIGENVALUES, dim // EIGENVALUES.size),
                rates=rates,
                context=round(ALPHA * dim),
                repeats=repeats,
                rng=seed,
            ).loss.samples
            for rates in (np.full(depth, tied.gamma / depth), best.steps)
        ]
    )


def finite_theory(depth: int) -> tuple[Any, UntiedDepth]:
    """Best tied and best untied layers at finite context."""
    tied = depth_loss(depth=depth, spectrum=EIGENVALUES, alpha=ALPHA, setting="rrs")
    return tied, untied_depth(EIGENVALUES, weights=EIGENVALUES, depth=depth, alpha=ALPHA)


@named_cell("exact_loss")
def exact_loss(*, depth: int, rng: SeedSequence) -> float:
    """Relative loss of the best untied layers at infinite context."""
    lam, shares = harmonic_law()
    best = untied_depth(lam, weights=shares, depth=depth)
    run = simulate_depth_loss(
        eigenvalues=lam, task_spectrum=shares / lam, rates=best.steps, repeats=1, rng=rng
    )
    return float(run.loss.mean / np.mean(shares))


def finite_losses(depth: int) -> tuple[float, float]:
    """Gain of untied over tied layers, and loss of untied ones, at finite context."""
    tied, untied = finite_theory(depth)
    loss = float(untied.loss * EIGENVALUES.mean())
    return float(tied.loss) - loss, loss


def rows(effort: Effort) -> Rows:
    """Extrapolated losses, the growth rate, and losses at finite and infinite context."""
    size = effort.pick(**SIZES)
    common: dict[str, Any] = {"eigenvalues": size.eigenvalues, "batch": size.batch}
    optima = call(theory, size.eigenvalues)
    saddle = optima[0]
    best = optima[1]
    for shared, label, loss, of in (
        (True, "shared", saddle.loss, "balanced_saddle.loss"),
        (False, "untied", best.loss, "untied_depth.losses"),
    ):
        training = common | {"shared": shared, "rate": size.largest, "repeats": size.repeats}
        start = run(from_zero, **training, time=size.start)
        losses = run(settled, **training, start=start, settle=size.settle, average=size.average)
        yield mean(f"loss, trained {label} layers", loss, call(at_zero_rate, losses), of=of)

    def extrapolated(label: str, value: Any, of: str, runs: dict[int, Any], **more: Any) -> Limit:
        test = f"chi-square of the fit, {label}"
        return limit({label: value}, runs, of=[of], fit_label=test, **more)

    rates = {
        part: run(growth, **common, rate=size.largest / part, repeats=size.pairs) for part in PARTS
    }
    of = "balanced_saddle.growth_rate"
    finer: dict[str, Any] = {"draws": "growth", "size": "refinement"}
    yield extrapolated("growth of asymmetry", saddle.growth_rate, of, rates, **finer)
    for depth in DEPTHS:
        paired = {
            dim: run(on_contexts, depth=depth, dim=dim, repeats=size.contexts * DIMS[0] // dim)
            for dim in DIMS
        }
        predicted = call(finite_losses, depth)
        end = f"{depth} layers, $P = {ALPHA:g} d$"
        of = "untied_depth.losses"
        runs = {dim: losses[0] - losses[1] for dim, losses in paired.items()}
        label = f"gain of untied over tied, {end}"
        yield extrapolated(label, predicted[0], of, runs, draws=(depth, "gain"))
        runs = {dim: losses[1] for dim, losses in paired.items()}
        yield extrapolated(f"untied loss, {end}", predicted[1], of, runs, draws=(depth, "loss"))
    eigenvalues, shares = harmonic_law()
    exact_losses = call(untied_depth, eigenvalues, weights=shares, depth=max(EXACT_DEPTHS)).losses
    for depth in EXACT_DEPTHS:
        label = f"loss of {depth} layers at infinite context"
        stack = run(exact_loss, depth=depth)
        yield exact(label, exact_losses[depth - 1], stack, relative=EXACT)


claim = Claim.of("untied-depth", __doc__, rows, figure=False)
