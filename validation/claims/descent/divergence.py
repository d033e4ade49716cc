"""Where gradient descent with a constant rate diverges.

The fraction of contexts on which a constant rate diverges is that of the exact law of the
largest Wishart eigenvalue: a step at the limit's threshold, smeared by the finite dimension.  Mean
losses of few steps equal the exact ones.

Source: Largest Wishart eigenvalue: Chiani, J. Multivariate Anal. 129 (2014); documentation.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.descent import divergence_rate, schedule_loss
from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
from iclimit.simulate.descent import simulate_schedule
from iclimit.simulate.descent.schedules import largest_eigenvalues
from iclimit.validation import Cell, Claim, Comparison, Preset, Results, Verdict, compare
from iclimit.validation.drawing import COLOURS, Figure, draw_points, finish, panels

RATIO = 0.5
SIZE = {"context": 20, "dim": 10}
DIMS = (10, 20, 40)
RATES = (0.5, 0.6, 0.65, 0.7, 0.8)
CONTEXTS: dict[Preset, int] = {"quick": 40_000, "full": 1_000_000}
"""Contexts at d = 10; a quarter as many at twice the dimension."""
LOSS_CONTEXTS: dict[Preset, int] = {"quick": 60_000, "full": 4_000_000}
FIXED_RATE, LONG = 0.5, 20
"""A rate below the threshold of the limit, and a number of steps after which it diverges."""
MEANS, DRAWN = (2, 3), (2, 3, 8, 12, 16, LONG)
"""Numbers of steps whose mean loss is compared, and that are drawn."""
EXPECTED_FEWEST = 20
"""Fewest contexts expected on either side for a fraction to be compared as a normal variable."""


def divergent(rates: Any, dim: int) -> np.ndarray:
    """Probability that a context diverges at a constant rate."""
    return 1 - largest_eigenvalue_cdf(2 / np.array(rates), context=round(dim / RATIO), dim=dim)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Largest eigenvalues by dimension, losses by the number of steps."""
    found: dict[Any, Cell] = {}
    for dim in DIMS:
        contexts = CONTEXTS[preset] // (dim // 10) ** 2
        found["eigenvalues", dim] = Cell.of(
            largest_eigenvalues, context=round(dim / RATIO), dim=dim, contexts=contexts
        )
    for steps in DRAWN:
        contexts = LOSS_CONTEXTS[preset] // (1 if steps in MEANS else 5)
        found["losses", steps] = Cell.of(
            simulate_schedule, rates=(FIXED_RATE,) * steps, **SIZE, contexts=contexts
        )
    return found


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare fractions of divergent contexts, and mean losses."""
    comparisons = []
    seen: dict[int, np.ndarray] = {}
    for dim in DIMS:
        top, exact = results["eigenvalues", dim], divergent(RATES, dim)
        seen[dim] = np.mean(top[:, None] > 2 / np.array(RATES), axis=0)
        error = np.sqrt(exact * (1 - exact) / len(top))
        comparisons += [
            Comparison(
                f"fraction diverging at rate {rate:g}, d={dim}", exact[k], seen[dim][k], error[k]
            )
            for k, rate in enumerate(RATES)
            if min(exact[k], 1 - exact[k]) * len(top) > EXPECTED_FEWEST
        ]
    comparisons += [
        compare(
            f"mean loss of {steps} steps at rate {FIXED_RATE:g}, d=10",
            schedule_loss([FIXED_RATE] * steps, **SIZE),
            results["losses", steps].loss,
        )
        for steps in MEANS
    ]
    long = results["losses", LONG]

    def draw(figure: Figure) -> None:
        share, loss = panels(figure, height=3.6)
        grid = np.linspace(0.45, 0.95, 17)
        for dim, colour in zip(DIMS, COLOURS, strict=False):
            share.plot(grid, divergent(grid, dim), color=colour, label=f"d = {dim}")
            error = np.sqrt(seen[dim] * (1 - seen[dim]) / len(results["eigenvalues", dim]))
            draw_points(share, RATES, seen[dim], error, colour)
        share.axvline(divergence_rate(RATIO), color="0.4", linestyle="--", linewidth=1)
        y, title = "fraction of contexts that diverge", "$d/N = 0.5$; dashed: limit"
        finish(share, "constant rate", y, legend=title)
        steps = np.arange(1, LONG + 1)
        for where, colour, label in (
            (SIZE, COLOURS[0], "exact mean, d = 10"),
            ({"ratio": RATIO}, COLOURS[1], "limit"),
        ):
            curve = [schedule_loss([FIXED_RATE] * int(L), **where) for L in steps]
            loss.plot(steps, curve, color=colour, label=label)
        runs = [results["losses", L] for L in DRAWN]
        medians, means = [run.medians for run in runs], [run.loss.mean for run in runs]
        loss.plot(DRAWN, medians, "s", color=COLOURS[2], label="simulated median", ms=4)
        loss.plot(DRAWN, means, "o", color=COLOURS[0], label="simulated mean", ms=4)
        title = f"constant rate {FIXED_RATE:g}"
        finish(loss, "steps $L$", "loss / null predictor", title=title, log="y", legend="")

    notes = (
        f"After {LONG} steps at rate {FIXED_RATE:g}, below the threshold "
        f"{float(divergence_rate(RATIO)):.4f} of the limit, the exact mean loss at d = 10 is "
        f"{float(schedule_loss([FIXED_RATE] * LONG, **SIZE)):.3g}, the mean of "
        f"{long.loss.repeats:,} contexts {long.loss.mean:.3g}, the median {long.medians[0]:.3g}: "
        "rare contexts carry the mean.",
    )
    return Verdict(comparisons, draw, notes)


claim = Claim.of("gd-divergence", __doc__, cells, judge)
