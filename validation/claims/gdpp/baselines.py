"""Ridge regression without knowing the noise level.

The losses of ConstRR, AdaRR, TunedRR and one step are integrals over the exact law of the
eigenvalues and of the residual sum of squares; means over simulated inputs, simulated prompts and
the published table agree with them.  No other multiplier or threshold nearby improves TunedRR.
At drawn sizes, noise levels, penalties and thresholds, means over prompts agree with the
integrals, too.

Source: {vladymyrov2024}, Table 1, Figure 1 and section 6; integrals over the exact spectrum:
documentation.
"""

import math
from collections.abc import Mapping
from itertools import product
from typing import Any, TypeAlias

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import gdpp
from iclimit.comparison import difference
from iclimit.drawing import COLOURS, Figure, draw_family, finish, panels, write_key
from iclimit.problem import NoiseLaw, Problem
from iclimit.results import Estimate
from iclimit.simulate.gdpp import SimulatedBaselines, simulate_ridge_baselines
from iclimit.statement import Derived, named_cell
from iclimit.validation.claim import Claim, Effort
from iclimit.validation.claims.gdpp.given_inputs import (
    ENDLESS,
    LossesGivenInputs,
    losses_given_inputs,
)
from iclimit.validation.claims.random_settings import RandomSetting, describe, random_rows
from iclimit.validation.reference.noise_levels import (
    NOISES,
    SIZE,
    UNIFORM,
    baselines,
    published_error,
    published_table,
)
from iclimit.validation.rows import Later, Row, Rows, bound, call, drawing, mean, published, run

# Baselines, and their fields of the theory.
METHODS = {"ConstRR": "constant", "AdaRR": "adaptive", "TunedRR": "tuned"}

# Functions of the losses of the oracle and of the baselines.
RISKS = ("oracle_risk", "constant_ridge_loss", "adaptive_ridge_loss", "adaptive_ridge_loss")

# Without noise all baselines are the oracle.
NOISY = NOISES[1:]

# Noise laws at which prompts are drawn whole.
WHOLE = ("uniform:5", "categorical:1,3")

# Factors of multiplier and threshold of the neighbours of TunedRR.
NEIGHBOURS = ((0.8, 1.0), (1.25, 1.0), (1.0, 0.9), (1.0, 1.1))

# AdaRR with the residual sum of squares divided by N instead of N - d.
BIASED = (SIZE["context"] - SIZE["dim"]) / SIZE["context"], ENDLESS


# Multiplier and threshold of a penalty.
Penalty: TypeAlias = tuple[float | Derived, float | Derived]


def tuned_penalty(noise_law: str, factors: tuple[float, float] = (1.0, 1.0)) -> Penalty:
    """Multiplier and threshold of TunedRR for a noise law, times factors."""
    best = baselines(noise_law)
    words = f"TunedRR for {noise_law}"
    return (
        Derived(factors[0] * best.multiplier, (words, factors[0])),
        Derived(factors[1] * best.threshold, (words, factors[1])),
    )


def constant_penalty(noise_law: str) -> Penalty:
    """Multiplier and threshold that make ConstRR for a noise law."""
    return ENDLESS, Derived(baselines(noise_law).penalty, f"ConstRR for {noise_law}")


def step_rate(noise_law: str) -> Derived:
    """Rate of one step that is best for a noise law."""
    rate = gdpp.one_layer(baselines(noise_law).penalty, **SIZE).rate
    return Derived(float(rate), f"best step for {noise_law}")


def penalties(noise_law: str) -> tuple[Penalty, ...]:
    """Penalties of the baselines, of AdaRR with a biased estimate, and of the neighbours."""
    others = (tuned_penalty(noise_law, factors) for factors in NEIGHBOURS)
    known = constant_penalty(noise_law), (1.0, ENDLESS), tuned_penalty(noise_law)
    return *known, BIASED, *others


@named_cell("simulate_prompts")
def simulate_prompts(
    *,
    noise_law: str,
    tuned: tuple[float, float],
    contexts: int,
    rng: SeedSequence,
    queries: bool = False,
    backend: str = "numpy",
) -> SimulatedBaselines:
    """Baselines on whole prompts."""
    multiplier, threshold = tuned
    return simulate_ridge_baselines(
        Problem(**SIZE, noise_law=noise_law, scale=1),
        contexts=contexts,
        rng=rng,
        multiplier=multiplier,
        threshold=threshold,
        queries=queries,
        backend=backend,
    )


@named_cell("random_baselines")
def random_baselines(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:
    """Losses of baselines with other penalties on prompts of a size and noise that are drawn."""
    where, prompts = rng.spawn(2)
    generator = np.random.default_rng(where)
    dim = int(generator.integers(2, 9))
    size: dict[str, Any] = {"dim": dim, "context": 2 * dim + 3}
    kind = generator.choice(("uniform", "categorical"))
    levels = generator.uniform(0.3, 4, 2)
    law = NoiseLaw(str(kind), tuple(levels[: 1 + (kind == "categorical")].tolist()))
    penalty, multiplier, threshold = generator.uniform((0.5, 0.6, 1), (4, 1.8, 8)).tolist()
    tuned = {"multiplier": multiplier, "threshold": threshold}
    losses = simulate_ridge_baselines(
        Problem(**size, noise_law=law, scale=1),
        **{"penalty": penalty, **tuned, "queries": bool(number % 2)},
        contexts=repeats,
        rng=prompts,
    ).losses
    theory = {
        "oracle": gdpp.oracle_risk(law, **size),
        "ConstRR": gdpp.constant_ridge_loss(law, penalty=penalty, **size),
        "AdaRR": gdpp.adaptive_ridge_loss(law, **size),
        "TunedRR": gdpp.adaptive_ridge_loss(law, **tuned, **size),
    }
    words = describe(size | {"noise_law": str(law), "penalty": penalty} | tuned)
    return RandomSetting(words, {name: (value, losses[name]) for name, value in theory.items()})


def rows(effort: Effort) -> Rows:
    """Simulated and published losses against the theory."""
    given = {}
    for law in NOISY:
        given[law] = run(
            losses_given_inputs,
            noise_law=law,
            rate=step_rate(law),
            penalties=penalties(law),
            contexts=effort(2000),
        )
        yield from law_rows(law, given[law])
    for law in WHOLE:
        prompts = effort(10_000)
        for words, queries in (("whole prompts", False), ("whole prompts and queries", True)):
            law_of_cell = {"noise_law": law, "tuned": tuned_penalty(law), "queries": queries}
            whole = run(simulate_prompts, **law_of_cell, contexts=prompts)
            for name, field in {"oracle": "oracle", **METHODS}.items():
                theory = getattr(baselines(law), field)
                of = f"ridge_baselines.{field}"
                label = f"{name}, {words}, {law}"
                loss = whole.losses[name]
                yield mean(label, theory, loss, of=of, draws=(words, law))
    risks = dict(zip(("oracle", *METHODS), RISKS, strict=True))
    yield from random_rows(effort, "other sizes", random_baselines, 10_000, risks)
    for law, name in product(NOISY, METHODS):
        yield published_row(name, law)
    yield drawing(draw, given)


def published_row(name: str, law: str) -> Row:
    """A published loss of a baseline."""
    loss = getattr(baselines(law), METHODS[name])
    in_print = Estimate(published_table()[name, 0, law], published_error(loss, law), 2)
    options = {"of": f"ridge_baselines.{METHODS[name]}", "degrees": math.inf}
    return published(f"published {name}, {law}", loss, in_print, **options)


def law_rows(law: str, given: Later) -> Rows:
    """What one noise law gives."""
    theory = baselines(law)
    step = call(gdpp.one_layer, baselines(law).penalty, **SIZE)
    ridges = [given.ridges[number] for number in range(4 + len(NEIGHBOURS))]
    constant, adaptive, tuned, biased, *others = ridges
    biased_loss = call(gdpp.adaptive_ridge_loss, law, multiplier=BIASED[0], **SIZE)
    for name, value, estimate, of in (
        ("oracle", theory.oracle, given.oracle, "ridge_baselines.oracle"),
        ("ConstRR", theory.constant, constant, "ridge_baselines.constant"),
        ("AdaRR", theory.adaptive, adaptive, "ridge_baselines.adaptive"),
        ("TunedRR", theory.tuned, tuned, "ridge_baselines.tuned"),
        ("one step", theory.one_layer, given.step, "ridge_baselines.one_layer"),
        ("risk of the oracle", call(gdpp.oracle_risk, law, **SIZE), given.oracle, None),
        ("loss of ConstRR", call(gdpp.constant_ridge_loss, law, **SIZE), constant, None),
        ("loss of biased AdaRR", biased_loss, biased, None),
        ("loss of one step", step.loss, given.step_total, None),
        ("inverse rate of one step", 1 / step.rate, given.inverse_rate, "one_layer.rate"),
    ):
        yield mean(f"{name}, {law}", value, estimate, of=of, draws=law)
    if law in UNIFORM:  # the others are met exactly
        variance = NoiseLaw.parse(law).mean_variance
        yield mean(f"noise variance, {law}", variance, given.variance, draws=law)
    for (a, b), other in zip(NEIGHBOURS, others, strict=True):
        label = f"TunedRR against {a:g} of its multiplier and {b:g} of its threshold, {law}"
        yield bound(label, 0.0, call(difference, tuned, other))


def draw(figure: Figure, given: Mapping[str, LossesGivenInputs]) -> None:
    """Draw losses against the largest noise level: theory, simulated, published."""
    (ax,) = panels(figure, 1)
    maxima = np.array([0.5, 1, 2, 3, 4, 5, 6, 7])
    for number, ((name, field), colour) in enumerate(zip(METHODS.items(), COLOURS, strict=False)):
        curve = [getattr(baselines(f"uniform:{x:g}"), field) for x in maxima]
        losses = [given[law].ridges[number] for law in UNIFORM[1:]]
        draw_family(ax, (maxima, curve), (range(1, 8), losses), colour, name)
        table = [published_table()[name, 0, law] for law in UNIFORM[1:]]
        ax.plot(range(1, 8), table, "x", color="0.3", markersize=8, zorder=5)
    finish(ax, r"largest noise level $\sigma_{\max}$", "adjusted loss", legend="")
    write_key(figure, "lines: theory; points: simulation; crosses: published")


claim = Claim.of("noisy-baselines", __doc__, rows)
