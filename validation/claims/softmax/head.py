"""One softmax head on linear regression: its exact loss, and what training finds.

The loss of a head of any temperature and value is that of simulated prompts, for random context
lengths, dimensions, noise, temperatures and values, with scores drawn or whole tokens; so is that
of a head and of a pair at settings that the seed draws.  The best head has the loss of theory.
Heads trained from random weights come within a percent of its loss, with its temperature and
value, and are isotropic.

Source: derived in the theory pages; head of {vonoswald2023}, Figure 12.
"""

import math
from functools import cache
from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.softmax import SoftmaxHead, optimal_softmax, softmax_loss
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.softmax import simulate_softmax
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, bound, call, exact, mean
from iclimit.validation.claims.random_settings import RandomSetting, describe, random_rows
from iclimit.validation.claims.softmax.runs import TrainedHeads, simulated_loss, trained_rows

# Random settings.
COUNT = {"quick": 8, "medium": 20, "full": 40}
# Prompts for each.
CONTEXTS = 30_000
# Every so many settings are simulated with whole tokens, on a tenth of the prompts.
TOKENS = 4
# Context lengths of the best head.
CURVE = (3, 6, 12, 24, 48)
# Dimension of the best head.
CURVE_DIM = 6
# Context lengths and dimensions of trained heads.  One start each, as one head has one minimum up
# to the sign of keys and values: of 20 starts with a quarter of the batch all ended within .4 %.
TRAINED = {"quick": ((6, 4),), "medium": ((6, 4), (10, 10)), "full": ((6, 4), (10, 10), (20, 10))}
# Prompts of a training step.
BATCH = {"tiny": 512, "quick": 1024, "medium": 2048}
# Bound on the distance of temperature and value from the best, relative: the loss is flat there. 1
# to 3 % measured.
AWAY = 0.05
# Bound on what is not isotropic in a key-query matrix, root mean square over the temperature.
REST = 0.03

Setting = tuple[int, int, float, float, float]


def random_settings(count: int) -> list[Setting]:
    """Context length, dimension, noise variance, inverse temperature and value."""
    settings = []
    for seed in seed_sequences(0, count):
        generator = np.random.default_rng(seed)
        context = round(2 * 20 ** generator.random())
        dim = round(40 ** generator.random())
        noise = float(generator.choice([0.0, 0.3, 2.0]))
        beta = float(generator.uniform(0.3, 2.0)) / math.sqrt(dim)
        settings.append((context, dim, noise, beta, float(generator.uniform(0.3, 1.2)) / beta / 2))
    return settings


def size_of(setting: Setting) -> dict[str, Any]:
    """Arguments of theory and simulation."""
    return dict(zip(("context", "dim", "noise_variance"), setting, strict=False))


@named_cell("random_heads")
def random_heads(*, number: int, repeats: int, rng: SeedSequence) -> RandomSetting:
    """Loss of a head, or of two opposite ones, at a setting that is drawn."""
    where, prompts = rng.spawn(2)
    generator = np.random.default_rng(where)
    setting: dict[str, Any] = {
        "context": int(generator.integers(2, 30)),
        "dim": int(generator.integers(1, 12)),
        "noise_variance": float(generator.uniform(0, 2)),
    }
    beta = float(generator.uniform(0.3, 1.2)) / math.sqrt(setting["dim"])
    value = float(generator.uniform(0.3, 1.2)) / beta / 2
    heads = 1 + number % 2
    signs = (1, -1)[:heads]
    run = simulate_softmax([s * beta for s in signs], **setting, contexts=repeats, rng=prompts)
    theory = float(softmax_loss(beta, value=value, heads=heads, **setting))
    words = describe(setting | {"heads": heads, "inverse_temperature": beta, "value": value})
    return RandomSetting(words, {"loss": (theory, run.loss([s * value for s in signs]))})


@cache
def best_head(context: int, dim: int) -> SoftmaxHead:
    """Best head without noise."""
    return optimal_softmax(context=context, dim=dim)


def rest_of(trained: TrainedHeads) -> float:
    """What is not isotropic in a trained head, over its bound."""
    return trained.rest / abs(trained.inverse_temperature[0]) / REST


def relative_size(number: float, reference: float) -> float:
    """Size of a number over that of another."""
    return abs(number) / abs(reference)


def head_rows(effort: Effort) -> Rows:
    """Trained heads, the largest first."""
    for context, dim in reversed(effort.pick(**TRAINED)):
        best = best_head(context, dim)
        where = f"N={context}, d={dim}"
        setting = {"context": context, "dim": dim, "batch": effort.pick(**BATCH)}
        arrived, rows = trained_rows(effort, where, best, heads=1, starts=1, **setting)
        trained = arrived[0]
        yield from rows
        for name, number, least in (
            ("temperature", trained.inverse_temperature[0], best.inverse_temperature),
            ("value", trained.value[0], best.value),
        ):
            label = f"{name} of the trained head over the best, {where}"
            yield exact(label, 1.0, call(relative_size, number, least), relative=AWAY)
        label = f"anisotropy of the trained head over its bound, {where}"
        yield bound(label, 1.0, call(rest_of, trained))


def rows(effort: Effort) -> Rows:
    """Losses at random settings and at the best ones, and trained heads."""
    yield from head_rows(effort)
    for number, setting in enumerate(random_settings(effort.pick(**COUNT))):
        tokens = number % TOKENS == 0
        options = {"sampler": "tokens" if tokens else "scores", **size_of(setting)}
        contexts = effort(CONTEXTS // (10 if tokens else 1))
        loss = simulated_loss(*setting[3:], contexts=contexts, **options)
        label = "loss, N={}, d={}, noise {:g}, beta {:.3g}, value {:.3g}".format(*setting)
        theory = call(softmax_loss, setting[3], value=setting[4], **size_of(setting))
        yield mean(label, theory, loss)
    yield from random_rows(effort, "heads", random_heads, CONTEXTS, {"loss": "softmax_loss"})
    for context in CURVE:
        best = best_head(context, CURVE_DIM)
        size = {"context": context, "dim": CURVE_DIM, "contexts": effort(CONTEXTS)}
        loss = simulated_loss(best.inverse_temperature, best.value, head="best", **size)
        theory = call(best_head, context, CURVE_DIM).loss
        label = f"least loss, N={context}, d={CURVE_DIM}"
        of = "optimal_softmax.loss"
        yield mean(label, theory, loss, of=of)


claim = Claim.of("softmax-head", __doc__, rows, figure=False)
