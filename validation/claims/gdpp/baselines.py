"""Ridge regression without knowing the noise level.

The losses of ConstRR, AdaRR, TunedRR and one step are integrals over the exact law of the
eigenvalues and of the residual sum of squares; means over simulated inputs, simulated prompts and
the published table agree with them.  No other multiplier or threshold nearby improves TunedRR.

Source: {vladymyrov2024}, Table 1, Figure 1 and section 6; integrals over the exact spectrum:
documentation.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.gdpp import (
    adaptive_ridge_loss,
    constant_ridge_loss,
    one_layer,
    oracle_risk,
)
from iclimit.drawing import COLOURS, Figure, draw_family, finish, panels
from iclimit.problem import NoiseLaw, Problem
from iclimit.simulate.gdpp import SimulatedBaselines, simulate_ridge_baselines
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.claims.gdpp.given_inputs import (
    ENDLESS,
    LossesGivenInputs,
    losses_given_inputs,
)
from iclimit.validation.claims.gdpp.published_table import (
    NOISES,
    SIZE,
    UNIFORM,
    baselines,
    published_error,
    published_table,
)
from iclimit.validation.judge.comparisons import difference

# Baselines, and their fields of the theory.
METHODS = {"ConstRR": "constant", "AdaRR": "adaptive", "TunedRR": "tuned"}

# Without noise all baselines are the oracle.
NOISY = NOISES[1:]

# Contexts whose inputs are drawn, and prompts that are drawn whole at two noise laws.
CONTEXTS: dict[Preset, int] = {"quick": 2000, "medium": 20_000, "full": 200_000}
PROMPTS: dict[Preset, int] = {"quick": 10_000, "medium": 100_000, "full": 1_000_000}
WHOLE = ("uniform:5", "categorical:1,3")

# Factors of multiplier and threshold of the neighbours of TunedRR.
NEIGHBOURS = ((0.8, 1.0), (1.25, 1.0), (1.0, 0.9), (1.0, 1.1))

# AdaRR with the residual sum of squares divided by N instead of N - d.
BIASED = (SIZE["context"] - SIZE["dim"]) / SIZE["context"], ENDLESS


def tuned_penalty(noise_law: str) -> tuple[float, float]:
    """Multiplier and threshold of TunedRR, rounded: the loss is flat about them."""
    best = baselines(noise_law)
    return round(best.multiplier, 4), round(best.threshold, 4)


def penalties(noise_law: str) -> tuple[tuple[float, float], ...]:
    """Penalties of the baselines, of AdaRR with a biased estimate, and of the neighbours."""
    multiplier, threshold = tuned_penalty(noise_law)
    others = ((a * multiplier, b * threshold) for a, b in NEIGHBOURS)
    constant = ENDLESS, baselines(noise_law).penalty
    return constant, (1.0, ENDLESS), (multiplier, threshold), BIASED, *others


def simulate_prompts(
    *, noise_law: str, tuned: tuple[float, float], contexts: int, rng: Any, backend: str = "numpy"
) -> SimulatedBaselines:
    """Baselines on whole prompts."""
    multiplier, threshold = tuned
    return simulate_ridge_baselines(
        Problem(**SIZE, noise_law=noise_law, scale=1),
        contexts=contexts,
        rng=rng,
        multiplier=multiplier,
        threshold=threshold,
        backend=backend,
    )


def cells(preset: Preset) -> dict[Any, Cell]:
    """Losses given the inputs by noise law, and baselines on whole prompts."""
    found = {
        law: Cell.of(
            losses_given_inputs,
            noise_law=law,
            rate=float(one_layer(baselines(law).penalty, **SIZE).rate),
            penalties=penalties(law),
            contexts=CONTEXTS[preset],
        )
        for law in NOISY
    }
    whole = {
        ("prompts", law): Cell.of(
            simulate_prompts, noise_law=law, tuned=tuned_penalty(law), contexts=PROMPTS[preset]
        )
        for law in WHOLE
    }
    return found | whole


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare simulated and published losses with the theory."""
    comparisons = [row for law in NOISY for row in compare_law(law, results[law])]
    for law in WHOLE:
        losses = results["prompts", law].losses
        for name, field in {"oracle": "oracle", **METHODS}.items():
            theory, of = getattr(baselines(law), field), f"ridge_baselines.{field}"
            draws = "prompts", law
            label = f"{name}, whole prompts, {law}"
            comparisons.append(compare(label, theory, losses[name], of=of, draws=draws))
    published = [
        Comparison(
            f"published {name}, {law}",
            loss := getattr(baselines(law), field),
            published_table()[name, 0, law],
            published_error(loss, law),
            of=f"ridge_baselines.{field}",
        )
        for law in NOISY
        for name, field in METHODS.items()
    ]
    worst = max(published, key=lambda comparison: abs(comparison.z))
    biased = results["uniform:5"].ridges[len(METHODS)]
    notes = (
        f"{CONTEXTS[preset]:,} contexts for each of {len(NOISY)} noise laws.  Given the inputs, "
        "losses are averaged over tasks and noise exactly, and regressed on moments of the inputs "
        "whose means are known.",
        f"Published losses: the largest |z| is {abs(worst.z):.1f} ({worst.label}); their standard "
        "errors are estimated for 100,000 sequences.",
        "AdaRR divides the residual sum of squares by N - d.  Divided by N it has the loss "
        f"{biased.mean:.3f} at uniform:5, where the table has "
        f"{published_table()['AdaRR', 0, 'uniform:5']:.3f}.",
    )
    return Verdict(comparisons + published, lambda figure: draw(figure, results), notes)


def compare_law(law: str, run: LossesGivenInputs) -> list[Comparison]:
    """Compare what one noise law gives."""
    theory = baselines(law)
    step = one_layer(theory.penalty, **SIZE)
    constant, adaptive, tuned, biased, *others = run.ridges
    biased_loss = adaptive_ridge_loss(law, multiplier=BIASED[0], **SIZE)
    rows = [
        ("oracle", theory.oracle, run.oracle, "ridge_baselines.oracle"),
        ("ConstRR", theory.constant, constant, "ridge_baselines.constant"),
        ("AdaRR", theory.adaptive, adaptive, "ridge_baselines.adaptive"),
        ("TunedRR", theory.tuned, tuned, "ridge_baselines.tuned"),
        ("one step", theory.one_layer, run.step, "ridge_baselines.one_layer"),
        ("risk of the oracle", oracle_risk(law, **SIZE), run.oracle, "oracle_risk"),
        ("loss of ConstRR", constant_ridge_loss(law, **SIZE), constant, "constant_ridge_loss"),
        ("loss of biased AdaRR", biased_loss, biased, "adaptive_ridge_loss"),
        ("loss of one step", float(step.loss), run.step_total, "one_layer.loss"),
        ("inverse rate of one step", 1 / float(step.rate), run.inverse_rate, "one_layer.rate"),
    ]
    if law in UNIFORM:  # the others are met exactly
        mean = NoiseLaw.parse(law).mean_variance
        rows.append(("noise variance", mean, run.variance, None))
    comparisons = [
        compare(f"{name}, {law}", value, estimate, of=of, draws=law)
        for name, value, estimate, of in rows
    ]
    for (a, b), other in zip(NEIGHBOURS, others, strict=True):
        label = f"TunedRR against {a:g} of its multiplier and {b:g} of its threshold, {law}"
        comparisons.append(compare(label, 0.0, difference(tuned, other), upper_bound=True))
    return comparisons


def draw(figure: Figure, results: Results) -> None:
    """Draw losses against the largest noise level: theory, simulated, published."""
    (ax,) = panels(figure, 1, width=6.4, height=4.0)
    maxima = np.array([0.5, 1, 2, 3, 4, 5, 6, 7])
    for number, ((name, field), colour) in enumerate(zip(METHODS.items(), COLOURS, strict=False)):
        curve = [getattr(baselines(f"uniform:{x:g}"), field) for x in maxima]
        losses = [results[law].ridges[number] for law in UNIFORM[1:]]
        draw_family(ax, (maxima, curve), (range(1, 8), losses), colour, name)
        table = [published_table()[name, 0, law] for law in UNIFORM[1:]]
        ax.plot(range(1, 8), table, "x", color="0.3", markersize=8, zorder=5)
    ax.plot([], [], "x", color="0.3", markersize=8, label="published")
    finish(ax, r"largest noise level $\sigma_{\max}$", "adjusted loss", legend="")


claim = Claim.of("noisy-baselines", __doc__, cells, judge)
