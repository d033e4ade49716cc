"""Loss by noise level of the prompt: which predictors adapt.

At every single noise level the losses of one step and of the ridge baselines tuned for a uniform
level equal their integrals.  Beside them stand trained linear transformers, their mean loss by
intervals of the noise level: GD++ and ConstRR cannot adapt to the noise, diagonal weights do.

Source: {vladymyrov2024}, Figures 2, 3 and 7.
"""

from collections.abc import Mapping

import numpy as np

from iclimit.asymptotics.gdpp import baseline_profiles, ridge_risk
from iclimit.drawing import COLOURS, Figure, draw_estimates, draw_family, finish, panels, write_key
from iclimit.results import Estimate
from iclimit.validation.claim import Claim, Effort, Rows, call, drawing, mean, run
from iclimit.validation.claims.gdpp.baselines import (
    METHODS,
    constant_penalty,
    step_rate,
    tuned_penalty,
)
from iclimit.validation.claims.gdpp.given_inputs import (
    ENDLESS,
    LossesGivenInputs,
    losses_given_inputs,
)
from iclimit.validation.claims.gdpp.tables import DIAG, GDPP
from iclimit.validation.claims.gdpp.trained import Trained
from iclimit.validation.reference.noise_levels import SIZE, baselines
from iclimit.words import counted

# Highest noise level for which the baselines are tuned.
HIGHEST_NOISE = 5
# Noise law for which the baselines are tuned.
PROFILED = f"uniform:{HIGHEST_NOISE}"
# Noise levels at which the baselines are measured.
LEVELS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)


def rows(effort: Effort) -> Rows:
    """The baselines at every noise level, and profiles of trained models."""
    best = baselines(PROFILED)
    theory = call(baseline_profiles, LEVELS, noise_law=PROFILED, **SIZE)
    losses = {}
    for place, level in enumerate(LEVELS):
        given = run(
            losses_given_inputs,
            noise_law=f"fixed:{level}",
            rate=step_rate(PROFILED),
            penalties=(constant_penalty(PROFILED), (1.0, ENDLESS), tuned_penalty(PROFILED)),
            contexts=effort(2000),
        )
        losses[level] = given
        estimates = {"oracle": ("oracle", given.oracle), "one step": ("one_layer", given.step)}
        for number, (name, field) in enumerate(METHODS.items()):
            estimates[name] = field, given.ridges[number]
        for name, (field, estimate) in estimates.items():
            label = f"{name} tuned for {PROFILED}, at noise level {level:g}"
            yield mean(label, getattr(theory, field)[place], estimate, draws=level)
        # Not adjusted: the risk itself.
        risk = call(ridge_risk, best.penalty, noise_variance=level**2, **SIZE)
        label = f"risk of ConstRR, at noise level {level:g}"
        yield mean(label, risk, call(total, given.ridges[0], given.oracle), draws=level)
    models = {
        (table.kind, layers): model
        for table in (GDPP, DIAG)
        for layers, model in enumerate(table.column(effort, PROFILED), start=1)
    }
    yield drawing(draw, losses, models)


def total(adjusted: Estimate, oracle: Estimate) -> Estimate:
    """A loss that is not adjusted."""
    return Estimate.of(adjusted.samples + oracle.samples)


def draw(
    figure: Figure,
    given: Mapping[float, LossesGivenInputs],
    models: Mapping[tuple[str, int], Trained],
) -> None:
    """Draw the profiles of the baselines, and those of trained models."""
    left, right = panels(figure, height=3.8, sharey=True)
    levels = np.linspace(0, HIGHEST_NOISE, 101)
    curves = baseline_profiles(levels, noise_law=PROFILED, **SIZE)
    for number, ((name, field), colour) in enumerate(zip(METHODS.items(), COLOURS, strict=False)):
        losses = [given[level].ridges[number] for level in LEVELS]
        draw_family(left, (levels, getattr(curves, field)), (LEVELS, losses), colour, name)
    right.plot(levels, curves.constant, color="0.6", linewidth=1, label="ConstRR")
    right.plot(levels, curves.tuned, color="0.6", linewidth=1, linestyle="--", label="TunedRR")
    for table, style, colours in ((GDPP, "s:", COLOURS[4:]), (DIAG, "o-", COLOURS)):
        for layers, colour in zip(range(2, 5), colours, strict=False):
            if (table.kind, layers) in models:
                model = models[table.kind, layers]
                label = f"{model.kind}, {counted(layers, 'layer')}"
                draw_estimates(right, model.levels, model.profile, colour, fmt=style, label=label)
    for ax in (left, right):
        ax.set_ylim(-0.02, 1.15)
        finish(ax, r"noise level $\sigma$ of the prompt", "adjusted loss", legend="")
    write_key(figure, rf"tuned and trained for $\sigma$ uniform on $[0, {HIGHEST_NOISE}]$")


claim = Claim.of("noisy-profiles", __doc__, rows)
