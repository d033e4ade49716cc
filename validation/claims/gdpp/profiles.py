"""Loss by noise level of the prompt: which predictors adapt.

At every single noise level the losses of the ridge baselines tuned for a uniform level equal
their integrals; beside them the profiles of trained linear transformers.

Source: {vladymyrov2024}, Figures 2 and 3.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import baseline_profiles
from iclimit.simulate.gdpp import NoisyRegression, SimulatedBaselines, simulate_ridge_baselines
from iclimit.validation import Cell, Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.gdpp.baselines import METHODS
from iclimit.validation.claims.gdpp.published_table import SIZE, baselines
from iclimit.validation.claims.gdpp.tables import DIAG, GDPP
from iclimit.validation.claims.gdpp.trained import layer_count
from iclimit.validation.drawing import COLOURS, Figure, draw_estimates, draw_family, finish, panels

# Noise law for which the baselines are tuned, and noise levels at which they are measured.
HIGHEST_NOISE = 5
PROFILED = f"uniform:{HIGHEST_NOISE}"
LEVELS = (0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
CONTEXTS: dict[Preset, int] = {"quick": 10_000, "full": 200_000}


def simulate_profile(
    *, noise_level: float, rng: Any, backend: str = "numpy", **settings: Any
) -> SimulatedBaselines:
    """Baselines with given parameters on prompts of one noise level."""
    problem = NoisyRegression(f"fixed:{noise_level}", **SIZE)
    return simulate_ridge_baselines(problem, rng=rng, backend=backend, **settings)


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
            simulate_profile,
            noise_level=level,
            penalty=best.penalty,
            multiplier=best.multiplier,
            threshold=best.threshold,
            contexts=CONTEXTS[preset],
        )
        for level in LEVELS
    }


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the baselines at every noise level."""
    theory = baseline_profiles(LEVELS, PROFILED, **SIZE)
    comparisons = tuple(
        compare(
            f"{name} tuned for {PROFILED}, at noise level {level:g}",
            loss,
            results[level].losses[name],
        )
        for name, field in METHODS.items()
        for level, loss in zip(LEVELS, getattr(theory, field), strict=True)
    )
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
    for (name, field), colour in zip(METHODS.items(), COLOURS, strict=False):
        losses = [results[level].losses[name] for level in LEVELS]
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
