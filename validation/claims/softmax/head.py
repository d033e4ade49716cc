"""One softmax head on linear regression: its exact loss, and what training finds.

The loss of a head of any temperature and value is that of simulated prompts, for random context
lengths, dimensions, noise, temperatures and values, with scores drawn or whole tokens.  The best
head has the loss of theory.  Heads trained from random weights come within a percent of its loss,
with its temperature and value, and are isotropic.

Source: derived in the theory pages; head of {vonoswald2023}, Figure 12.
"""

import math
from functools import cache
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import optimal_learning_rate
from iclimit.asymptotics.softmax import SoftmaxHead, optimal_softmax, softmax_loss
from iclimit.drawing import COLOURS, Figure, finish, panels
from iclimit.simulate.arrays import seed_sequences
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.softmax.runs import compare_trained, head_loss, trained_heads

COUNT: dict[Preset, int] = {"quick": 8, "medium": 20, "full": 40}
"""Random settings."""
CONTEXTS: dict[Preset, int] = {"quick": 30_000, "medium": 500_000, "full": 2_000_000}
"""Prompts for each."""
TOKENS = 4
"""Every so many settings are simulated with whole tokens, on a tenth of the prompts."""
CURVE = (3, 6, 12, 24, 48)
"""Context lengths of the best head in dimension 6."""
CURVE_DIM = 6
TRAINED: dict[Preset, tuple[tuple[int, int], ...]] = {
    "quick": ((6, 4),),
    "medium": ((6, 4), (10, 10)),
    "full": ((6, 4), (10, 10), (20, 10), (20, 20)),
}
"""Context lengths and dimensions of trained heads."""
BATCH: dict[Preset, int] = {"quick": 1024, "medium": 2048, "full": 2048}
HELD_OUT: dict[Preset, int] = {"quick": 50_000, "medium": 200_000, "full": 500_000}
EXCESS = 0.01
"""Most that training may leave of the loss; 0.02 to 0.1 % measured."""
AWAY = 0.05
"""Bound on the distance of temperature and value from the best, relative: the loss is flat there.
1 to 3 % measured."""
REST = 0.03
"""Bound on what is not isotropic in a key-query matrix, root mean square over the temperature."""

Setting = tuple[int, int, float, float, float]


def random_settings(count: int) -> list[Setting]:
    """Context length, dimension, noise variance, inverse temperature and value."""
    found = []
    for seed in seed_sequences(0, count):
        generator = np.random.default_rng(seed)
        context = round(2 * 20 ** generator.random())
        dim = round(40 ** generator.random())
        noise = float(generator.choice([0.0, 0.3, 2.0]))
        beta = float(generator.uniform(0.3, 2.0)) / math.sqrt(dim)
        found.append((context, dim, noise, beta, float(generator.uniform(0.3, 1.2)) / beta / 2))
    return found


def size_of(setting: Setting) -> dict[str, Any]:
    """Arguments of theory and simulation."""
    return dict(zip(("context", "dim", "noise_variance"), setting, strict=False))


@cache
def best_head(context: int, dim: int) -> SoftmaxHead:
    """Best head without noise."""
    return optimal_softmax(context=context, dim=dim)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Losses at random settings and at the best ones, and trained heads."""
    found: dict[Any, Cell] = {
        ("trained", context, dim): Cell.of(
            trained_heads,
            best=(
                float(best_head(context, dim).inverse_temperature),
                float(best_head(context, dim).value),
            ),
            heads=1,
            context=context,
            dim=dim,
            batch=BATCH[preset],
            held_out=HELD_OUT[preset],
        )
        for context, dim in reversed(TRAINED[preset])
    }
    for number, setting in enumerate(random_settings(COUNT[preset])):
        tokens = number % TOKENS == 0
        found["loss", number] = Cell.of(
            head_loss,
            inverse_temperatures=(setting[3],),
            values=(setting[4],),
            sampler="tokens" if tokens else "scores",
            contexts=CONTEXTS[preset] // (10 if tokens else 1),
            **size_of(setting),
        )
    for context in CURVE:
        best = best_head(context, CURVE_DIM)
        found["best", context] = Cell.of(
            head_loss,
            inverse_temperatures=(float(best.inverse_temperature),),
            values=(float(best.value),),
            context=context,
            dim=CURVE_DIM,
            contexts=CONTEXTS[preset],
        )
    return found


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare losses, and trained heads with the best ones."""
    settings = random_settings(COUNT[preset])
    losses = [
        compare(
            "loss, N={}, d={}, noise {:g}, beta {:.3g}, value {:.3g}".format(*setting),
            softmax_loss(setting[3], setting[4], **size_of(setting)),
            results["loss", number],
            of="softmax_loss",
        )
        for number, setting in enumerate(settings)
    ]
    comparisons = losses + [
        compare(
            f"least loss, N={context}, d={CURVE_DIM}",
            best_head(context, CURVE_DIM).loss,
            results["best", context],
            of="optimal_softmax.loss",
        )
        for context in CURVE
    ]
    notes = []
    for context, dim in TRAINED[preset]:
        run, best, where = results["trained", context, dim], best_head(context, dim), ""
        where = f"N={context}, d={dim}"
        comparisons += compare_trained(where, run, EXCESS)
        away = {
            "temperature": abs(run.inverse_temperature[0]) / best.inverse_temperature,
            "value": abs(run.value[0]) / best.value,
        }
        comparisons += [
            compare(
                f"{name} of the trained head over the best, {where}", 1.0, ratio, relative=AWAY
            )
            for name, ratio in away.items()
        ]
        rest = run.rest / abs(run.inverse_temperature[0])
        label = f"anisotropy of the trained head over its bound, {where}"
        comparisons.append(compare(label, 1.0, rest / REST, upper_bound=True))
        notes.append(
            f"Trained at {where} in {run.steps} steps: loss {run.loss}, best {best.loss:.5g}, "
            f"ratio {run.ratio}; inverse temperature {abs(run.inverse_temperature[0]):.3f} "
            f"({best.inverse_temperature:.3f}), value {abs(run.value[0]):.3f} ({best.value:.3f})."
        )

    def draw(figure: Figure) -> None:
        left, right = panels(figure)
        fine = np.unique(np.geomspace(CURVE[0], CURVE[-1], 12).round()).astype(int)
        head = [best_head(int(n), CURVE_DIM).loss / CURVE_DIM for n in fine]
        step = [optimal_learning_rate(context=n, dim=CURVE_DIM).loss / CURVE_DIM for n in fine]
        left.plot(fine, head, color=COLOURS[0], label="one softmax head")
        left.plot(fine, step, color=COLOURS[1], linestyle="--", label="linear attention")
        simulated = [results["best", context] for context in CURVE]
        means = [each.mean / CURVE_DIM for each in simulated]
        left.plot(CURVE, means, "o", color=COLOURS[0], markersize=4, label="simulated")
        finish(left, "context length $N$", "loss / d", log="x", legend="", title="d = 6")
        ratios = [(row.estimate / row.theory - 1) * 100 for row in losses]
        errors = [row.standard_error / row.theory * 100 for row in losses]
        sampled = [number % TOKENS == 0 for number in range(len(losses))]
        for tokens, colour, label in ((False, COLOURS[0], "scores"), (True, COLOURS[2], "tokens")):
            at = [k for k, each in enumerate(sampled) if each is tokens]
            right.errorbar(
                at,
                [ratios[k] for k in at],
                [errors[k] for k in at],
                fmt="o",
                color=colour,
                markersize=4,
                capsize=2,
                label=label,
            )
        right.axhline(0, color="0.4")
        finish(right, "random setting", "simulated over exact loss, minus 1 (%)", legend="")

    return Verdict(comparisons, draw, notes)


claim = Claim.of("softmax-head", __doc__, cells, judge)
