"""What layer normalisation costs.

One and two layers of linear attention are trained with and without normalisation of tokens before
each layer, from the same seeds on the same prompts.  One layer without it reaches the loss of the
best gradient-descent step.  With it, one layer reaches the best multiple of two features of
normalised tokens, which is fitted to other prompts.  Two layers are worse with it too.  From 20
starts all pairs of one layer arrived, and 6 of 8 pairs of two layers; the others are counted.

Source: {vonoswald2023}, code and Figure 14; two features derived in the documentation.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.descent import optimal_learning_rate
from iclimit.comparison import Comparison, compare
from iclimit.drawing import (
    COLOURS,
    Figure,
    draw_estimates,
    draw_training,
    finish,
    panels,
    write_key,
)
from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.networks import AttentionNetwork, train_network
from iclimit.simulate.prompts import Prompts, prompt_blocks
from iclimit.simulate.training.repeats import MISSED
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, drawing, judged, note, run
from iclimit.words import counted

# Size of the contexts, and law of the inputs.
SIZE: dict[str, Any] = {"context": 10, "dim": 10, "input_law": "uniform"}

# Inputs U(-1/2, 1/2), as in the published code; losses are half the squared error.
PROBLEM = Problem(**SIZE, scale=0.5)
# The best step for inputs U(-1, 1).
STEP = optimal_learning_rate(**SIZE)
# Loss of the best step for the inputs of the published code.
LAW = STEP.loss * PROBLEM.input_scale**2 / 2
# Its rate, per pair of the context.
RATE = STEP.rate / PROBLEM.input_scale**2 / PROBLEM.context

# Steps and prompts in each.  One layer is trained to its end; two layers are not.  Their cost is
# 0.01 to 0.12 after 300 steps, by the seed: too early for a quick look.
TRAINING: dict[str, dict[int, dict[str, Any]]] = {
    "tiny": {1: {"steps": 300, "batch": 128}},
    "quick": {1: {"steps": 500, "batch": 256}},
    "medium": {1: {"steps": 600, "batch": 512}, 2: {"steps": 1000, "batch": 256}},
    "full": {1: {"steps": 1000, "batch": 1024}, 2: {"steps": 3000, "batch": 512}},
    "day": {1: {"steps": 3000, "batch": 1024}, 2: {"steps": 6000, "batch": 1024}},
}
# Of all trainings, from weights of the default size: few fail.  With ``init_scale`` 0.05, a
# normalised layer stayed at the null loss for 350 steps, and at half the rate two pairs of four
# were still there after 500.
LEARNING_RATE = 0.01
# Starts by layers.  A pair of two layers takes 10 CPU seconds in medium and a minute in full.
SEEDS: dict[str, dict[int, int]] = {
    "tiny": {1: 2},
    "quick": {1: 3},
    "medium": {1: 20, 2: 8},
    "full": {1: 20, 2: 5},
}
# Fresh prompts that networks are tested on, and as many that the features are fitted to.
HELD_OUT = {"tiny": 8_000, "quick": 20_000, "medium": 100_000, "full": 400_000}
# Most that training may leave of the loss of one layer; 0.4 to 1.2 % of five seeds in 500 steps
# (measured).
EXCESS = {"tiny": 0.1, "quick": 0.03, "medium": 0.01}
# Loss of predicting zero.
NULL = PROBLEM.dim * PROBLEM.input_variance / 2
# Added to the variance of a token.
TINY = 1e-5


@dataclass(frozen=True)
class NormalisedPair:
    """A network without layer normalisation and one with it.

    Attributes
    ----------
    losses : list of ndarray
        Training losses of both networks.
    step : Estimate
        Loss of the best step on fresh prompts.
    plain, normalised, features : Estimate
        Losses of the networks and of the best multiple of two features on these prompts.  That of
        the step, less its exact mean, is subtracted as a control.
    difference, above_features : Estimate
        Normalised minus plain, and normalised minus features, prompt by prompt.
    """

    losses: list[np.ndarray]
    step: Estimate
    plain: Estimate
    normalised: Estimate
    features: Estimate
    difference: Estimate
    above_features: Estimate


def normalised_features(prompts: Prompts) -> np.ndarray:
    """Two features (n, 2) of prompts, whose best multiple one normalised layer reaches."""
    tokens = np.concatenate([prompts.inputs, prompts.labels[:, :, None]], axis=2)
    pairs = standardised(tokens)
    query = standardised(np.pad(prompts.query, ((0, 0), (0, 1))))
    y = pairs[..., -1]
    descent = np.einsum("ni,nij,nj->n", y, pairs[..., :-1], query[..., :-1], optimize=True)
    return np.stack([descent, np.sum(y**2, axis=1) * query[..., -1]], axis=1)


def standardised(tokens: np.ndarray) -> np.ndarray:
    """Tokens whose entries have mean 0 and variance 1."""
    centred = tokens - np.mean(tokens, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=-1, keepdims=True) + TINY)


def best_multiples(count: int, rng: SeedSequence) -> np.ndarray:
    """Factors of the two features with the least squared error on fresh prompts."""
    square = np.zeros((2, 2))
    along = np.zeros(2)
    for prompts in prompt_blocks(PROBLEM, count, rng=rng):
        features = normalised_features(prompts)
        square = square + features.T @ features
        along = along + features.T @ prompts.target
    return np.linalg.solve(square, along)


@named_cell("normalised_pair")
def normalised_pair(
    *, layers: int, steps: int, batch: int, held_out: int, repeat: int, rng: SeedSequence
) -> NormalisedPair:
    """Train with and without layer normalisation, and test both."""
    own = seed_sequences(rng, repeat + 1)[repeat]
    train_seed, fit_seed, fresh_seed = seed_sequences(own, 3)
    runs = [
        train_network(
            AttentionNetwork(
                PROBLEM.dim, layers=layers, attention="linear", layer_norm=layer_norm
            ),
            PROBLEM,
            steps=steps,
            batch=batch,
            learning_rate=LEARNING_RATE,
            patience=steps,
            held_out=2,
            rng=train_seed,
        )
        for layer_norm in (False, True)
    ]
    multiples = best_multiples(held_out, fit_seed)

    def step(prompts: Prompts) -> np.ndarray:
        return RATE * np.einsum("ni,nij,nj->n", prompts.labels, prompts.inputs, prompts.query)

    predictors: list[Callable[[Prompts], np.ndarray]] = [
        *((lambda prompts, run=run: run(*visible(prompts))) for run in runs),
        step,
        lambda prompts: normalised_features(prompts) @ multiples,
    ]
    blocks = [
        [(predict(prompts) - prompts.target) ** 2 / 2 for predict in predictors]
        for prompts in prompt_blocks(PROBLEM, held_out, rng=fresh_seed)
    ]
    plain, normalised, descent, features = np.concatenate(blocks, axis=1)

    def estimate(samples: np.ndarray) -> Estimate:
        return Estimate.of(samples, keep=False)

    return NormalisedPair(
        losses=[run.losses[:-1] / 2 for run in runs],
        step=estimate(descent),
        plain=estimate(plain - descent + LAW),
        normalised=estimate(normalised - descent + LAW),
        features=estimate(features - descent + LAW),
        difference=estimate(normalised - plain),
        above_features=estimate(normalised - features),
    )


def visible(prompts: Prompts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What a model sees."""
    return prompts.inputs, prompts.labels, prompts.query


# Pairs of networks by layers and seed.
Pairs = dict[int, dict[int, NormalisedPair]]


def ratio(change: Estimate, size: float) -> Estimate:
    """One plus a relative change of the loss."""
    return Estimate(1 + change.mean / size, change.standard_error / abs(size), change.repeats)


def bounds(what: str, above: Estimate, size: float, where: str, excess: float) -> list[Comparison]:
    """A trained layer is not below its optimum, and little above it."""
    over = ratio(above, size)
    under = ratio(above, -size - above.mean)
    return [
        compare(f"layer over {what}, {where}", 1 + excess, over, upper_bound=True),
        compare(f"{what} over layer, {where}", 1.0, under, upper_bound=True),
    ]


def trained(pairs: Pairs, layers: int) -> dict[int, NormalisedPair]:
    """Pairs by seed, without those of which a network failed.

    It misses a tenth of what is learned by the best: for one layer the optimum, for two any seed.
    """
    own = pairs[layers]
    best = np.min([(pair.plain.mean, pair.normalised.mean) for pair in own.values()], axis=0)
    if layers == 1:
        best = np.array([LAW, own[0].features.mean])
    return {repeat: pair for repeat, pair in own.items() if learned(pair, best)}


def learned(pair: NormalisedPair, best: np.ndarray) -> bool:
    """Whether both networks come near the best losses."""
    worst = best + MISSED * (NULL - best)
    return bool(np.all([pair.plain.mean, pair.normalised.mean] < worst))


def compare_pairs(pairs: Pairs, excess: float) -> Iterator[Comparison]:
    """Compare one layer with its optima, and networks with each other."""
    for layers in pairs:
        good = trained(pairs, layers)
        if not good:
            yield Comparison(f"no trained networks of {layers}", 1.0, np.inf, 0.0)
        for repeat, pair in good.items():
            where = f"{counted(layers, 'layer')}, seed {repeat}"
            gain = ratio(pair.difference, -pair.normalised.mean)
            label = f"loss without over loss with normalisation, {where}"
            yield compare(label, 1.0, gain, upper_bound=True)
            if layers == 1:
                law = "optimal_learning_rate.loss"
                plain = pair.plain
                above = Estimate(plain.mean - LAW, plain.standard_error, plain.repeats)
                yield compare(f"loss of the best step, {where}", LAW, pair.step, of=law)
                yield from bounds("best step", above, LAW, where, excess)
                features = pair.features.mean
                yield from bounds("best features", pair.above_features, features, where, excess)


def describe(pairs: Pairs, training: dict[int, dict[str, Any]]) -> list[str]:
    """Losses and failures, in words."""
    lines = []
    for layers, own in pairs.items():
        good = trained(pairs, layers)
        losses = "; ".join(
            f"{pair.plain} without, {pair.normalised} with, difference {pair.difference} "
            f"(z = {pair.difference.z(0):.0f})"
            for pair in good.values()
        )
        count = f"{len(own) - len(good)} of {len(own)} seeds failed"
        steps = training[layers]["steps"]
        lines.append(f"{counted(layers, 'layer')} after {steps} steps, {count}: {losses}.")
    return [
        *lines,
        "Two layers are still in training: they are compared after as many steps, without a "
        "theory, and in the medium and full presets only.",
    ]


def rows(effort: Effort) -> Rows:
    """Pairs of networks by layers and seed."""
    training = effort.pick(**TRAINING)
    pairs = {
        layers: {
            repeat: run(
                normalised_pair,
                layers=layers,
                held_out=effort.pick(**HELD_OUT),
                repeat=repeat,
                **sizes,
            )
            for repeat in range(effort.pick(**SEEDS)[layers])
        }
        for layers, sizes in training.items()
    }
    yield judged(call(compare_pairs, pairs, effort.pick(**EXCESS)))
    yield note(call(describe, pairs, training))
    yield drawing(draw, pairs)


def draw(figure: Figure, pairs: Pairs) -> None:
    """Draw training losses, with the losses on fresh prompts behind their ends."""
    [ax] = panels(figure, 1, height=4)
    names = ("without", "with normalisation")
    for layers, own in pairs.items():
        for repeat, pair in own.items():
            ends = (pair.plain, pair.normalised)
            for name, colour, losses, end in zip(names, COLOURS, pair.losses, ends, strict=False):
                label = f"{counted(layers, 'layer')}, {name}" if not repeat else None
                line = "-" if layers == 1 else "--"
                draw_training(ax, losses, colour, points=25, linestyle=line, label=label)
                draw_estimates(ax, [(1.03 + 0.02 * repeat) * len(losses)], [end], colour)
    for level, colour in ((LAW, COLOURS[0]), (pairs[1][0].features.mean, COLOURS[1])):
        ax.axhline(level, color=colour, linestyle=":")
    finish(ax, "step", "loss (half the square)", log="y", legend="")
    write_key(figure, "lines: training; dots: theory of one layer; points: on fresh prompts")


claim = Claim.of("layer-norm", __doc__, rows)
