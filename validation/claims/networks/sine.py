"""Networks that embed sines reach the best loss that their embedding allows.

The prediction of the best kernel between inputs, which theory gives, has the loss of theory on
simulated prompts.  Gradient descent on trained embeddings of the inputs comes near that loss,
where amplitudes do not depend on phases, and never below it.  In the full preset a network of
attention that embeds whole tokens, inputs with their labels, falls below the best of inputs alone,
and not below the best of whole tokens.

Source: {vonoswald2023}, section 3 and Figure 4; optima derived in the theory pages.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.softmax import FunctionalOptimum, functional_optimum, sine_optimum
from iclimit.comparison import ratio
from iclimit.drawing import COLOURS, Figure, draw_training, finish, panels, write_key
from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.networks import AttentionNetwork, EmbeddedDescent, SineTask, train_network
from iclimit.simulate.prompts import Prompts
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import (
    Claim,
    Effort,
    Later,
    Rows,
    bound,
    call,
    drawing,
    mean,
    note,
    run,
)
from iclimit.validation.claims.starts import arrived, describe_starts

# Pairs of a context.
CONTEXT = 10

# Whether amplitudes are tied to phases, as by the published code.
TIED = {"quick": (False,), "medium": (False, True)}

# Networks and their trainings.  Two functions of an input make the best kernel, so small networks
# come near the optima of the published one, whose sizes ``day`` has.  Whole tokens take long:
# after 2,000 steps of 64 prompts four seeds of twelve had not begun to learn.
SIZES: dict[str, dict[str, dict[str, Any]]] = {
    "tiny": {"inputs": {"width": 4, "mlp": 24, "steps": 800, "batch": 96, "learning_rate": 0.03}},
    "quick": {
        "inputs": {"width": 4, "mlp": 24, "steps": 1_500, "batch": 96, "learning_rate": 0.03}
    },
    "medium": {
        "inputs": {"width": 8, "mlp": 32, "steps": 10_000, "batch": 256, "learning_rate": 0.01}
    },
    "full": {
        "inputs": {"width": 8, "mlp": 32, "steps": 10_000, "batch": 256, "learning_rate": 0.01},
        "tokens": {"width": 16, "mlp": 64, "steps": 20_000, "batch": 256, "learning_rate": 0.005},
    },
    "day": {
        "inputs": {"width": 40, "mlp": 160, "steps": 20_000, "batch": 512, "learning_rate": 3e-3},
        "tokens": {"width": 40, "mlp": 160, "steps": 20_000, "batch": 2048, "learning_rate": 1e-3},
    },
}

# Prompts that trained networks are tested on.
HELD_OUT = {"tiny": 50_000, "quick": 100_000, "medium": 400_000, "full": 1_000_000}

# Prompts for the best kernel, which is cheap, over those for a trained network.
MORE = 10

# Prompts that are drawn at a time.
BLOCK = 20_000

# Starts of each.  They stay few in longer presets, where one takes 30 CPU seconds (medium), a
# minute (full) or hours (day): all of 13 starts of the quick training arrived.
STARTS = {"tiny": 1, "quick": 3, "day": 1}

# What trained embeddings may be above the best kernel in the mean of the starts, relative.  Eight
# of the quick training were 1.1 to 3.8 % above, 2.0 % in the mean; three with three times as many
# prompts in all were 0.5 to 1.6 % above.
SHORT = {"tiny": 0.1, "quick": 0.04, "medium": 0.02}

# Loss of a trained network, this over that of the best kernel, and the losses of the training.
Trained: TypeAlias = tuple[Estimate, Estimate, np.ndarray]

# Matrix A of a kernel f(x_q)' A f(x) with f = (cos, sin).
Kernel: TypeAlias = np.ndarray


def features(x: np.ndarray) -> np.ndarray:
    """Cosine and sine along a new last axis."""
    return np.stack([np.cos(x), np.sin(x)], axis=-1)


@cache
def moments(tied: bool) -> np.ndarray:
    """Second moments of the coefficients of the features in a label."""
    phase = np.pi * (np.arange(200) + 0.5) / 200
    size = np.sqrt(0.31 / 3) if not tied else 0.1 + 0.4 * phase / np.pi
    coefficients = size * np.stack([np.sin(phase), np.cos(phase)])
    return coefficients @ coefficients.T / len(phase)


def scaled_features(x: np.ndarray, tied: bool) -> np.ndarray:
    """Features in terms of which the best kernel is bilinear.

    Those of the context are divided by the variance of the label, which depends on the input where
    the amplitude is tied to the phase.
    """
    plain = features(x)
    variance = np.einsum("...j,jk,...k->...", plain, moments(tied), plain) if tied else np.ones(1)
    return plain / variance[..., None]


def kernel_predictions(kernel: Kernel, prompts: Prompts, tied: bool) -> np.ndarray:
    """Sum over the context of K(x_q, x_i) y_i."""
    context = scaled_features(prompts.inputs[:, :, 0], tied)
    summary = (prompts.labels[:, None, :] @ context)[:, 0, :]
    return np.vecdot(features(prompts.query[:, 0]) @ kernel, summary)


def blocks(task: SineTask, count: int, rng: SeedSequence) -> Iterator[Prompts]:
    """Draw prompts in blocks."""
    generator = np.random.default_rng(rng)
    for start in range(0, count, BLOCK):
        yield task.draw(get_backend("numpy"), generator, min(BLOCK, count - start))


@named_cell("kernel_loss")
def kernel_loss(*, tied: bool, kernel: Kernel, held_out: int, rng: SeedSequence) -> Estimate:
    """Loss of a kernel on simulated prompts."""
    errors = [
        kernel_predictions(kernel, prompts, tied) - prompts.target
        for prompts in blocks(SineTask(context=CONTEXT, tied=tied), held_out, rng)
    ]
    return Estimate.of(np.concatenate(errors) ** 2, keep=False)


@named_cell("trained_sine")
def trained_sine(
    *,
    embedded: str,
    tied: bool,
    kernel: Kernel,
    held_out: int,
    start: int = 0,  # noqa: ARG001 - another start is another cell, with another seed
    rng: SeedSequence,
    **sizes: Any,
) -> Trained:
    """Train a network and measure it beside a kernel on fresh prompts.

    Its loss, this over that of the kernel, and the losses of the training.
    """
    task = SineTask(context=CONTEXT, tied=tied)
    shape = {name: sizes.pop(name) for name in ("width", "mlp")}
    network: Any = EmbeddedDescent(dim=1, **shape)
    if embedded == "tokens":
        hidden = shape.pop("mlp")
        network = AttentionNetwork(dim=1, attention="linear", embedding_mlp=hidden, **shape)
    train_seed, fresh_seed = seed_sequences(rng, 2)
    run = train_network(network, task, patience=sizes["steps"], rng=train_seed, **sizes)
    errors = []
    for prompts in blocks(task, held_out, fresh_seed):
        answers = run(prompts.inputs, prompts.labels, prompts.query)
        errors.append([answers, kernel_predictions(kernel, prompts, tied)] - prompts.target)
    squares = np.concatenate(errors, axis=1) ** 2
    ours = Estimate.of(squares[0])
    best = Estimate.of(squares[1])
    return replace(ours, samples=np.empty(0)), ratio(ours, best), run.losses


@cache
def optimum(tied: bool, whole_tokens: bool) -> float:
    """Least loss of an embedding of inputs, or of whole tokens."""
    return float(sine_optimum(context=CONTEXT, tied=tied, whole_tokens=whole_tokens).loss)


@cache
def best_functional(tied: bool) -> FunctionalOptimum:
    """The best kernel between inputs, from the covariance of the sines, on nodes."""

    def covariance(x: np.ndarray, z: np.ndarray) -> np.ndarray:
        return np.einsum("...j,jk,...k->...", features(x), moments(tied), features(z))

    return functional_optimum(covariance=covariance, inputs=(-5.0, 5.0), context=CONTEXT)


def best_kernel(tied: bool) -> Kernel:
    """The same as a matrix between features of the query and scaled features of the context."""
    best = best_functional(tied)
    query = np.linalg.pinv(features(best.inputs))
    context = np.linalg.pinv(scaled_features(best.inputs, tied))
    return query @ best.kernel @ context.T


@cache
def null_loss(tied: bool) -> float:
    """Loss of predicting zero: the mean square of a label."""
    basis = features(10 * (np.arange(1000) + 0.5) / 1000 - 5)
    return float(np.mean(np.einsum("nj,jk,nk->n", basis, moments(tied), basis)))


def learned(runs: Sequence[Trained], tied: bool, whole_tokens: bool) -> list[Trained]:
    """Runs of the starts that arrive, the best first; the best alone if none does."""
    ordered = sorted(runs, key=lambda run: run[0].mean)
    losses = [loss.mean for loss, *_ in ordered]
    good = arrived(losses, best=optimum(tied, whole_tokens), null=null_loss(tied))
    return ordered[: max(int(np.sum(good)), 1)]


def describe_runs(runs: Sequence[Trained], tied: bool, embedded: str) -> str:
    """How many starts arrive, in words."""
    best = optimum(tied, embedded == "tokens")
    losses = [loss.mean for loss, *_ in runs]
    good = arrived(losses, best=best, null=null_loss(tied))
    words = f"{NAMES[embedded].capitalize()}, {LAWS[tied]}"
    return describe_starts(words, losses, good, best=best)


def mean_ratio(runs: Sequence[Trained]) -> Estimate:
    """Mean of the losses over those of the best kernel."""
    ratios = [over_kernel for _, over_kernel, _ in runs]
    error = math.hypot(*(ratio.standard_error for ratio in ratios)) / len(ratios)
    return Estimate(float(np.mean([ratio.mean for ratio in ratios])), error, ratios[0].repeats)


def least_ratio(runs: Sequence[Trained]) -> Estimate:
    """Least loss over that of the best kernel."""
    return min((over_kernel for _, over_kernel, _ in runs), key=lambda ratio: ratio.mean)


def trained_rows(effort: Effort, tied: bool, runs: dict[str, list[Later]]) -> Rows:
    """Trained networks against the optima."""
    law = LAWS[tied]
    of = "sine_optimum.loss"
    label = f"trained embedding over the best kernel, {law}"
    good = call(learned, runs["inputs"], tied, False)
    if tied:  # small embeddings end 7 % above: they have to learn the variance of labels, too
        least = call(least_ratio, good)
        yield bound(f"minus {label}, at most -1", -1.0, least.scaled(-1.0))
    else:
        yield mean(label, 1.0, call(mean_ratio, good), relative=effort.pick(**SHORT))
    if "tokens" in runs:
        loss = call(learned, runs["tokens"], tied, True)[0][0]
        best = call(optimum, tied, False)
        yield bound(f"whole tokens: below the best of inputs, {law}", best, loss, of=of)
        label = f"whole tokens: minus the loss, at most minus the optimum, {law}"
        yield bound(label, -optimum(tied, True), loss.scaled(-1.0), of=of)
    for embedded, trained in runs.items():
        yield note(call(describe_runs, trained, tied, embedded))


def rows(effort: Effort) -> Rows:
    """The best kernel against theory, and trained networks against the optima."""
    sizes = effort.pick(**SIZES)
    of = "sine_optimum.loss"
    runs: dict[bool, dict[str, list[Later]]] = {}
    for tied in effort.pick(**TIED):
        law = LAWS[tied]
        kernel = Derived(best_kernel(tied), "best")
        shared = {"tied": tied, "kernel": kernel, "held_out": effort.pick(**HELD_OUT)}
        runs[tied] = {
            embedded: [
                run(trained_sine, embedded=embedded, start=start, **shared, **size)
                for start in range(effort.pick(**STARTS))
            ]
            for embedded, size in reversed(sizes.items())
        }
        loss = run(kernel_loss, **shared | {"held_out": MORE * effort.pick(**HELD_OUT)})
        best = call(optimum, tied, False)
        yield mean(f"best kernel, {law}", best, loss, of=of, draws=law)
        functional = call(best_functional, tied).loss
        name = "functional_optimum.loss"
        yield mean(f"best kernel, {law}", functional, loss, of=name, draws=law)
        yield from trained_rows(effort, tied, runs[tied])
    yield drawing(draw, runs, sizes)


def draw(
    figure: Figure, runs: dict[bool, dict[str, list[Trained]]], sizes: dict[str, dict[str, Any]]
) -> None:
    """Draw the trainings and the optima."""
    for ax, (tied, trained) in zip(
        panels(figure, len(runs), height=3.7), runs.items(), strict=True
    ):
        for colour, (embedded, label) in zip(COLOURS, NAMES.items(), strict=False):
            value = optimum(tied, embedded == "tokens")
            ax.axhline(value, color=colour, ls="--", label=f"best {label}")
            for loss, _, losses in trained.get(embedded, []):
                draw_training(ax, losses, colour, lw=0.8, alpha=0.6)
                end = sizes[embedded]["steps"]
                ax.plot(end, loss.mean, "o", color=colour)
        finish(ax, "training steps", "loss", title=LAWS[tied], log="xy", legend="")
    write_key(figure, "dashes: theory; lines and points: trained")


# Words for what a network embeds.
NAMES = {"inputs": "embedding of inputs", "tokens": "embedding of whole tokens"}
# Words for the two laws of amplitudes.
LAWS = {False: "free amplitude", True: "amplitude tied to the phase"}

claim = Claim.of("sine", __doc__, rows)
