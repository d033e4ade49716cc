"""Ridge regression without knowing the noise level.

The losses of ConstRR, AdaRR and TunedRR are integrals over the exact law of the eigenvalues
and of the residual sum of squares; simulated prompts and the published table agree with them.

Source: {vladymyrov2024}, Table 1 and section 6; integrals over the exact spectrum: documentation.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import adaptive_ridge_loss
from iclimit.simulate.arrays import seed_sequences
from iclimit.simulate.gdpp import (
    NoisyRegression,
    SimulatedBaselines,
    simulate_ridge_baselines,
    tune_ridge,
)
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.gdpp.published_table import (
    NOISES,
    SIZE,
    UNIFORM,
    baselines,
    published_error,
    published_table,
)
from iclimit.validation.drawing import COLOURS, Figure, draw_family, finish, panels

# Baselines, and their fields of the theory.
METHODS = {"ConstRR": "constant", "AdaRR": "adaptive", "TunedRR": "tuned"}

# Without noise all baselines are the oracle.
NOISY = NOISES[1:]

CONTEXTS: dict[Preset, int] = {"quick": 100_000, "full": 1_000_000}

# Contexts on which TunedRR is tuned: its loss is flat about the optimum.
TUNING = 20_000

# Relative excess of a TunedRR tuned on so many contexts (measured: at most 0.6 %).
TUNING_ALLOWANCE = 0.02

# Noise law at which the noise variance is estimated with a bias too.
BIASED = "uniform:5"


def simulate_baselines(
    *,
    noise_law: str,
    contexts: int,
    rng: Any,
    backend: str = "numpy",
    noise_estimate: str = "unbiased",
) -> SimulatedBaselines:
    """Baselines with a TunedRR tuned on other contexts."""
    tune_seed, run_seed = seed_sequences(rng, 2)
    problem = NoisyRegression(noise_law, **SIZE)
    tuned = tune_ridge(problem, contexts=TUNING, rng=tune_seed, noise_estimate=noise_estimate)
    return simulate_ridge_baselines(
        problem,
        contexts=contexts,
        rng=run_seed,
        multiplier=tuned.multiplier,
        threshold=tuned.threshold,
        noise_estimate=noise_estimate,
        backend=backend,
    )


def cells(preset: Preset) -> dict[str, Cell]:
    """Simulated baselines by noise law, and one with a biased estimate of the noise."""
    contexts = CONTEXTS[preset]
    found = {law: Cell.of(simulate_baselines, noise_law=law, contexts=contexts) for law in NOISY}
    biased = {"noise_law": BIASED, "contexts": contexts // 10, "noise_estimate": "biased"}
    return found | {"biased": Cell.of(simulate_baselines, **biased)}


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare simulated and published losses with the theory."""
    comparisons: list[Comparison] = []
    published: list[Comparison] = []
    for law in NOISY:
        theory, run = baselines(law), results[law]
        tuning = {name: run.parameters[name] for name in ("multiplier", "threshold")}
        tuned = adaptive_ridge_loss(law, **tuning, **SIZE)
        losses = {name: getattr(theory, field) for name, field in METHODS.items()}
        simulated = {"oracle": theory.oracle, **losses, "TunedRR": tuned}
        comparisons += [
            compare(f"{name}, {law}", loss, run.losses[name]) for name, loss in simulated.items()
        ]
        label = f"TunedRR, {law}: tuned on contexts against the best"
        comparisons.append(compare(label, theory.tuned, tuned, relative=TUNING_ALLOWANCE))
        published += [
            Comparison(
                f"published {name}, {law}",
                loss,
                published_table()[name, 0, law],
                published_error(loss, law),
            )
            for name, loss in losses.items()
        ]
    worst = max(published, key=lambda comparison: abs(comparison.z))
    biased = results["biased"].losses
    notes = (
        f"{CONTEXTS[preset]:,} prompts for each of {len(NOISY)} noise laws.",
        f"Published losses: the largest |z| is {abs(worst.z):.1f} ({worst.label}); their standard "
        "errors are estimated for 100,000 sequences.",
        "AdaRR divides the residual sum of squares by N - d.  Divided by N it has the loss "
        f"{biased['AdaRR'].mean:.3f} at {BIASED}, where the table has "
        f"{published_table()['AdaRR', 0, BIASED]:.3f}; TunedRR rescales and has "
        f"{biased['TunedRR'].mean:.4f} either way.",
    )
    return Verdict(comparisons + published, lambda figure: draw(figure, results), notes)


def draw(figure: Figure, results: Results) -> None:
    """Draw losses against the largest noise level: theory, simulated, published."""
    (ax,) = panels(figure, 1, width=6.4, height=4.0)
    maxima = np.linspace(0.05, 7, 15)
    for (name, field), colour in zip(METHODS.items(), COLOURS, strict=False):
        curve = [getattr(baselines(f"uniform:{x:.4g}"), field) for x in maxima]
        losses = [results[law].losses[name] for law in UNIFORM[1:]]
        draw_family(ax, (maxima, curve), (range(1, 8), losses), colour, name)
        table = [published_table()[name, 0, law] for law in UNIFORM[1:]]
        ax.plot(range(1, 8), table, "x", color="0.3", markersize=8, zorder=5)
    ax.plot([], [], "x", color="0.3", markersize=8, label="published")
    finish(ax, r"largest noise level $\sigma_{\max}$", "adjusted loss", legend="")


claim = Claim.of("noisy-baselines", __doc__, cells, judge)
