"""Loss by noise level of the prompt: which predictors adapt.

At every single noise level the losses of one step and of the ridge baselines tuned for a uniform
level equal their integrals; beside them the profiles of trained linear transformers.

Source: {vladymyrov2024}, Figures 2, 3 and 7.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import baseline_profiles, one_layer, ridge_risk
from iclimit.drawing import COLOURS, Figure, draw_estimates, draw_family, finish, panels
from iclimit.results import Estimate
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.gdpp.baselines import METHODS, tuned_penalty
from iclimit.validation.claims.gdpp.given_inputs import ENDLESS, losses_given_inputs
from iclimit.validation.claims.gdpp.published_table import SIZE, baselines
from iclimit.validation.claims.gdpp.tables import DIAG, GDPP
from iclimit.validation.claims.gdpp.trained import layer_count

# Noise law for which the baselines are tuned, and noise levels at which they are measured.
HIGHEST_NOISE = 5
PROFILED = f"uniform:{HIGHEST_NOISE}"
LEVELS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
CONTEXTS: dict[Preset, int] = {"quick": 2000, "medium": 20_000, "full": 200_000}


def cells(preset: Preset) -> dict[Any, Cell]:
    """Trained models by kind and layers, and baselines by noise level."""
    best = baselines(PROFILED)
    models = {
        (table.kind, layers): cell
        for table in (GDPP, DIAG)
        for layers, cell in enumerate(table.column(preset, PROFILED), start=1)
    }
    return models | {
        level: Cell.of(
            losses_given_inputs,
            noise_law=f"fixed:{level}",
            rate=float(one_layer(best.penalty, **SIZE).rate),
            penalties=((ENDLESS, best.penalty), (1.0, ENDLESS), tuned_penalty(PROFILED)),
            contexts=CONTEXTS[preset],
        )
        for level in LEVELS
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the baselines at every noise level."""
    theory = baseline_profiles(LEVELS, PROFILED, **SIZE)
    fields = {"oracle": "oracle", "one step": "one_layer", **METHODS}
    comparisons: list[Comparison] = []
    for place, level in enumerate(LEVELS):
        run = results[level]
        estimates = [run.oracle, run.step, *run.ridges]
        comparisons += [
            compare(
                f"{name} tuned for {PROFILED}, at noise level {level:g}",
                getattr(theory, field)[place],
                estimate,
                of=f"baseline_profiles.{field}",
                draws=level,
            )
            for (name, field), estimate in zip(fields.items(), estimates, strict=True)
        ]
        # Not adjusted: the risk itself.
        risk = float(ridge_risk(baselines(PROFILED).penalty, level**2, **SIZE))
        total = Estimate.of(run.ridges[0].samples + run.oracle.samples)
        label = f"risk of ConstRR, at noise level {level:g}"
        comparisons.append(compare(label, risk, total, of="ridge_risk", draws=level))
    notes = (
        "Right: trained linear transformers on fresh contexts, mean loss by intervals of the "
        "noise level.  GD++ and ConstRR cannot adapt to the noise; diagonal weights do.",
    )
    return Verdict(comparisons, lambda figure: draw(figure, results), notes)


def draw(figure: Figure, results: Results) -> None:
    """Draw the profiles of the baselines, and those of trained models."""
    left, right = panels(figure, height=3.8, sharey=True)
    levels = np.linspace(0, HIGHEST_NOISE, 101)
    curves = baseline_profiles(levels, PROFILED, **SIZE)
    for number, ((name, field), colour) in enumerate(zip(METHODS.items(), COLOURS, strict=False)):
        losses = [results[level].ridges[number] for level in LEVELS]
        draw_family(left, (levels, getattr(curves, field)), (LEVELS, losses), colour, name)
    right.plot(levels, curves.constant, color="0.6", linewidth=1, label="ConstRR")
    right.plot(levels, curves.tuned, color="0.6", linewidth=1, linestyle="--", label="TunedRR")
    for table, style, colours in ((GDPP, "s:", COLOURS[4:]), (DIAG, "o-", COLOURS)):
        for layers, colour in zip(range(2, 5), colours, strict=False):
            if (table.kind, layers) in results:
                model = results[table.kind, layers]
                label = f"{model.kind}, {layer_count(layers)}"
                draw_estimates(right, model.levels, model.profile, colour, fmt=style, label=label)
    for ax in (left, right):
        ax.set_ylim(-0.02, 1.15)
        finish(ax, r"noise level $\sigma$ of the prompt", "adjusted loss", legend="")
    figure.suptitle(rf"tuned and trained for $\sigma$ uniform on $[0, {HIGHEST_NOISE}]$")


claim = Claim.of("noisy-profiles", __doc__, cells, judge)
