"""Where gradient descent with a constant rate diverges.

The fraction of contexts on which a constant rate converges is that of the exact law of the
largest Wishart eigenvalue: a step at the limit's threshold, smeared by the finite dimension.  The
rate at which the mean largest eigenvalue diverges, its Tracy-Widom shift taken off, extrapolates
to that threshold.  Mean losses of few steps equal the exact ones.

Source: Largest Wishart eigenvalue: Chiani, J. Multivariate Anal. 129 (2014); shift: Johnstone,
Ann. Stat. 29 (2001) 295; documentation.
"""

import math
from typing import Any

import numpy as np

from iclimit.asymptotics.descent import divergence_rate, schedule_loss
from iclimit.asymptotics.spectra import largest_eigenvalue_cdf
from iclimit.drawing import COLOURS, Figure, draw_points, finish, panels
from iclimit.results import Estimate
from iclimit.simulate.descent import simulate_schedule
from iclimit.simulate.descent.schedules import largest_eigenvalues
from iclimit.statistics import extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Comparison,
    Preset,
    Results,
    Verdict,
    compare,
    compare_p_value,
)
from iclimit.validation.claims.spectra.matrices import TRACY_WIDOM_MEAN

RATIO = 0.5
SIZE = {"context": 20, "dim": 10}
DIMS = (10, 20, 40)
LARGE = (20, 40, 80, 160)
"""Dimensions that the threshold is extrapolated from."""
RATES = (0.5, 0.6, 0.65, 0.7, 0.8)
CONTEXTS: dict[Preset, int] = {"quick": 80_000, "medium": 1_000_000, "full": 10_000_000}
"""Contexts at d = 10; a quarter as many at twice the dimension."""
LOSS_CONTEXTS: dict[Preset, int] = {"quick": 30_000, "medium": 600_000, "full": 4_000_000}
FIXED_RATE, LONG = 0.5, 20
"""A rate below the threshold of the limit, and a number of steps after which it diverges."""
MEANS, DRAWN = (2, 3), (2, 3, 8, 12, 16, LONG)
"""Numbers of steps whose mean loss is compared, and that are drawn."""
EDGE = 0.05
"""Probabilities this close to 0 and 1 are left out: there a relative error means little, and
fractions are no normal variables."""


def convergent(rates: Any, dim: int) -> np.ndarray:
    """Probability that a context converges at a constant rate."""
    return largest_eigenvalue_cdf(2 / np.array(rates), context=round(dim / RATIO), dim=dim)


def cells(preset: Preset) -> dict[Any, Cell]:
    """Largest eigenvalues by dimension, and losses of all numbers of steps."""
    found: dict[Any, Cell] = {
        dim: Cell.of(
            largest_eigenvalues,
            context=round(dim / RATIO),
            dim=dim,
            contexts=round(CONTEXTS[preset] * (10 / dim) ** 2),
        )
        for dim in sorted({*DIMS, *LARGE})
    }
    # Fewer steps are as many with rates of 0.
    rows = tuple((FIXED_RATE,) * steps + (0.0,) * (LONG - steps) for steps in DRAWN)
    found["losses"] = Cell.of(
        simulate_schedule, rates=rows, **SIZE, contexts=LOSS_CONTEXTS[preset]
    )
    return found


def compare_threshold(results: Results) -> list[Comparison]:
    """Compare the rate at which the largest eigenvalue diverges in the limit."""
    N = 1 / RATIO
    scale = (math.sqrt(N) + 1) * (1 / math.sqrt(N) + 1) ** (1 / 3) / N
    shifts = {dim: TRACY_WIDOM_MEAN * scale * dim ** (-2 / 3) for dim in LARGE}
    fit = extrapolate_runs(LARGE, [(results[d] - shifts[d])[None] for d in LARGE], order=1)
    edge, error = float(fit.value[0]), float(fit.standard_error[0])
    return [
        Comparison(
            "rate of divergence, d to infinity",
            float(divergence_rate(RATIO)),
            2 / edge,
            2 * error / edge**2,
            degrees=fit.error_degrees,
            of="divergence_rate",
        ),
        compare_p_value("chi-square of its fit in 1/d", fit.p_value),
    ]


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare fractions of convergent contexts, the threshold, and mean losses."""
    comparisons = compare_threshold(results)
    seen: dict[int, np.ndarray] = {}
    for dim in DIMS:
        exact = convergent(RATES, dim)
        below = results[dim][:, None] < 2 / np.array(RATES)
        seen[dim] = np.mean(below, axis=0)
        comparisons += [
            compare(
                f"fraction converging at rate {rate:g}, d={dim}",
                exact[k],
                Estimate.of(below[:, k]),
                of="largest_eigenvalue_cdf",
                draws=dim,
            )
            for k, rate in enumerate(RATES)
            if EDGE < exact[k] < 1 - EDGE
        ]
    losses = dict(zip(DRAWN, results["losses"].losses, strict=True))
    comparisons += [
        compare(
            f"mean loss of {steps} steps at rate {FIXED_RATE:g}, d=10",
            schedule_loss([FIXED_RATE] * steps, **SIZE),
            losses[steps],
            of="schedule_loss",
            draws="losses",
        )
        for steps in MEANS
    ]

    def draw(figure: Figure) -> None:
        share, loss = panels(figure, height=3.6)
        grid = np.linspace(0.45, 0.95, 11)
        for dim, colour in zip(DIMS, COLOURS, strict=False):
            share.plot(grid, 1 - convergent(grid, dim), color=colour, label=f"d = {dim}")
            error = np.sqrt(seen[dim] * (1 - seen[dim]) / len(results[dim]))
            draw_points(share, RATES, 1 - seen[dim], error, colour)
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
        means = [each.mean for each in losses.values()]
        loss.plot(
            DRAWN, results["losses"].medians, "s", color=COLOURS[2], label="simulated median", ms=4
        )
        loss.plot(DRAWN, means, "o", color=COLOURS[0], label="simulated mean", ms=4)
        title = f"constant rate {FIXED_RATE:g}"
        finish(loss, "steps $L$", "loss / null predictor", title=title, log="y", legend="")

    notes = (
        f"After {LONG} steps at rate {FIXED_RATE:g}, below the threshold "
        f"{float(divergence_rate(RATIO)):.4f} of the limit, the exact mean loss at d = 10 is "
        f"{float(schedule_loss([FIXED_RATE] * LONG, **SIZE)):.3g}, the mean of "
        f"{losses[LONG].repeats:,} contexts {losses[LONG].mean:.3g}, the median "
        f"{results['losses'].medians[-1]:.3g}: rare contexts carry the mean.",
    )
    return Verdict(comparisons, draw, notes)


claim = Claim.of("gd-divergence", __doc__, cells, judge)
