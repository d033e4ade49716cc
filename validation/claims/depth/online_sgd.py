r"""Online SGD of one layer: the training curve and its noise floor.

One layer of linear attention is trained on simulated prompts, with the full matrix and fresh
contexts in each step.  Its losses after few steps and after many, extrapolated to infinite
dimension, equal the recursion: on contexts as long as those of training, and on contexts without
end, which one paper calls the loss.  Both start at 1, and end above the loss of the best matrix
because the steps are noisy.

Source: Bordelon, Letey and Pehlevan, arXiv:2510.01098 (version 1), Result 10 and Figure 7, with
another start and another loss; derived in the documentation.
"""

from typing import Any

import numpy as np

from iclimit.asymptotics.depth import OnlineErrors, online_sgd_errors
from iclimit.drawing import (
    COLOURS,
    Figure,
    draw_estimates,
    draw_points,
    draw_sizes,
    finish,
    panels,
)
from iclimit.results import Estimate
from iclimit.simulate.depth import train_depth
from iclimit.statistics import extrapolate_runs
from iclimit.validation import (
    Cell,
    Claim,
    Preset,
    Results,
    Verdict,
    compare_limits,
    compare_p_value,
)

NOISE = 0.25
SETTING: dict[str, Any] = {
    "alpha": 1.0,
    "learning_rate": 0.08,
    "batch_ratio": 1.0,
    "query_ratio": 1.0,
    "noise_variance": NOISE,
    "query_noise_variance": NOISE,
}
STEPS, RECORD = 28, 4
EARLY = (4, 8)
LATE = 16
"""Steps that are compared one by one, and step from which on the mean is.  There the loss is
within 0.3 % of its floor."""

DIMS: dict[Preset, tuple[int, ...]] = {
    "quick": (12, 16, 24),
    "medium": (12, 16, 24, 32),
    "full": (12, 16, 24, 32, 48),
}
"""At smaller dimensions single runs nearly diverge, and the errors are no short series in 1/d."""

TRAININGS = 1600
"""Trainings of the quick preset times dimension."""

MORE: dict[Preset, int] = {"quick": 1, "medium": 5, "full": 40}
HELD_OUT = 64
LOSSES = {"loss": "context of training", "long_context_loss": "infinite context"}


def train(*, dim: int, repeats: int, rng: Any) -> np.ndarray:
    r"""Losses at the records, (2, repeats, records): fresh contexts, and infinite ones.

    The loss on an infinite context is :math:`|\Gamma - I|^2/d`.  Context and queries have one
    token more than the dimension, and the noise grows with it, so that second moments such as that
    of :math:`h` have no term in 1/d: the limit is the same and the finite sizes are closer to it.
    """
    run = train_depth(
        depth=1,
        eigenvalues=np.ones(dim),
        setting="fs",
        context=round(SETTING["alpha"] * (dim + 1)),
        query_count=round(SETTING["query_ratio"] * (dim + 1)),
        batch=round(SETTING["batch_ratio"] * dim),
        noise_variance=NOISE * (dim + 1) / dim,
        query_noise_variance=NOISE,
        learning_rate=SETTING["learning_rate"],
        steps=STEPS,
        record=RECORD,
        held_out=HELD_OUT,
        repeats=repeats,
        rng=rng,
    )
    long = run.measures["squares"][..., 0] - 2 * run.measures["traces"][..., 0] + 1
    return np.array([run.measures["held_out"], long])


def cells(preset: Preset) -> dict[Any, Cell]:
    """Trainings by dimension."""
    return {
        dim: Cell.of(train, dim=dim, repeats=MORE[preset] * TRAININGS // dim)
        for dim in DIMS[preset]
    }


def theory(steps: Any) -> OnlineErrors:
    """Errors of the recursion."""
    return online_sgd_errors(steps=steps, **SETTING)


def judge(preset: Preset, results: Results) -> Verdict:
    """Compare extrapolated losses at early steps, and their mean over late ones."""
    records, dims = np.arange(0, STEPS + 1, RECORD), DIMS[preset]
    late, early = records >= LATE, np.isin(records, EARLY)
    runs = [
        np.vstack(
            [row for each in results[dim] for row in (*each[:, early].T, each[:, late].mean(1))]
        )
        for dim in dims
    ]
    limits: dict[str, float] = {}
    of: list[str] = []
    for field, label in LOSSES.items():
        curve = getattr(theory(records), field)
        values = [*curve[early], curve[late].mean()]
        names = [*(f"{step} steps" for step in EARLY), f"{LATE} to {STEPS} steps"]
        limits |= {f"{label}, {name}": value for name, value in zip(names, values, strict=True)}
        of += [f"online_sgd_errors.{field}"] * len(values)
    fit = extrapolate_runs(dims, runs)
    comparisons = compare_limits(limits, fit, of=of, draws="training")
    comparisons.append(compare_p_value("chi-square of the fit", fit.p_value))

    def draw(figure: Figure) -> None:
        first, second = panels(figure, width=9.0, height=3.6)
        fine, largest = np.arange(STEPS + 1), dims[-1]
        at = [*EARLY, records[late].mean()]
        for which, ((field, label), colour) in enumerate(
            zip(LOSSES.items(), COLOURS, strict=False)
        ):
            first.plot(fine, getattr(theory(fine), field), color=colour, label=label)
            found = [Estimate.of(column) for column in results[largest][which].T]
            draw_estimates(first, records, found, colour, markersize=3)
            part = slice(3 * which, 3 * which + 3)
            limit_points = fit.value[part], fit.standard_error[part]
            draw_points(first, at, *limit_points, colour, fmt="D", markerfacecolor="none")
            first.axhline(float(getattr(theory(np.inf), field)), color=colour, linestyle=":")
            number = 3 * which + 2
            late_runs = [Estimate.of(run[number]) for run in runs]
            limit = list(limits.values())[number]
            draw_sizes(second, dims, late_runs, colour, limit=limit, fit=fit, quantity=number)
        finish(
            first,
            "steps of SGD",
            "loss",
            title=f"points: $d = {largest}$; dotted: floor",
            legend="",
        )
        finish(second, "$1/d$", "loss", title=f"{LATE} to {STEPS} steps")

    return Verdict(comparisons, draw, (f"Limit: {fit.summary}.",))


claim = Claim.of("online-sgd", __doc__, cells, judge)
