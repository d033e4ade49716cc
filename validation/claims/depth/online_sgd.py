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
from numpy.random import SeedSequence
from numpy.typing import ArrayLike

from iclimit.asymptotics.depth import OnlineErrors, online_sgd_errors
from iclimit.drawing import COLOURS, Figure, draw_estimates, draw_points, finish, panels, write_key
from iclimit.results import Estimate
from iclimit.simulate.depth import train_depth
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Later, Limit, Rows, call, drawing, limit, run
from iclimit.validation.standard_figure import draw_quantity

# Variance of the label noise, of contexts and of queries.
NOISE = 0.25
# Setting of the training, as arguments of the theory.
SETTING: dict[str, Any] = {
    "alpha": 1.0,
    "learning_rate": 0.08,
    "batch_ratio": 1.0,
    "query_ratio": 1.0,
    "noise_variance": NOISE,
    "query_noise_variance": NOISE,
}
# Steps of a training.
STEPS = 28
# Steps from one record of the losses to the next.
RECORD = 4
# Steps whose losses are compared one by one.
EARLY = (4, 8)
# Step from which on the mean of the losses is compared.  There the loss is within 0.3 % of its
# floor.
LATE = 16
# Steps of all records.
RECORDS = np.arange(0, STEPS + 1, RECORD)

# At smaller dimensions single runs nearly diverge, and the errors are no short series in 1/d.
DIMS = {"quick": (12, 16, 24), "medium": (12, 16, 24, 32), "full": (12, 16, 24, 32, 48)}

# Trainings times dimension.  All start at zero, and the mean square is quadratic in the matrix.
TRAININGS = {"tiny": 200, "quick": 1600, "medium": 8000, "full": 48000}

# Fresh contexts on which the loss of a record is measured.
HELD_OUT = 64
# Fields of the theory that are compared, and what they are the loss on.
LOSSES = {"loss": "context of training", "long_context_loss": "infinite context"}


@named_cell("train")
def train(*, dim: int, repeats: int, rng: SeedSequence) -> np.ndarray:
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


def theory(steps: ArrayLike) -> OnlineErrors:
    """Errors of the recursion."""
    return online_sgd_errors(steps=steps, **SETTING)


def compared(losses: np.ndarray) -> np.ndarray:
    """Losses at early records and their mean over late ones, (quantities, repeats)."""
    late = RECORDS >= LATE
    early = np.isin(RECORDS, EARLY)
    return np.vstack(
        [row for loss in losses for row in (*loss[:, early].T, loss[:, late].mean(1))]
    )


def rows(effort: Effort) -> Rows:
    """Extrapolated losses at early steps, and their mean over late ones."""
    trainings = effort.pick(**TRAININGS)
    runs = {dim: run(train, dim=dim, repeats=trainings // dim) for dim in effort.pick(**DIMS)}
    curve = call(online_sgd_errors, steps=RECORDS, **SETTING)
    limits: dict[str, Later] = {}
    of: list[str] = []
    for field, label in LOSSES.items():
        losses = getattr(curve, field)
        limits |= {f"{label}, {step} steps": losses[step // RECORD] for step in EARLY}
        limits[f"{label}, {LATE} to {STEPS} steps"] = call(np.mean, losses[LATE // RECORD :])
        of += [f"online_sgd_errors.{field}"] * (len(EARLY) + 1)
    row = limit(
        limits,
        {dim: call(compared, training) for dim, training in runs.items()},
        of=of,
        draws="training",
        fit_label="chi-square of the fit",
        name="Limit",
    )
    yield row
    yield drawing(draw, runs, row)


def draw(figure: Figure, runs: dict[int, np.ndarray], row: Limit) -> None:
    """Draw the curves of training, and the extrapolation of late losses."""
    first, second = panels(figure)
    fine = np.arange(STEPS + 1)
    dims = list(runs)
    at = [*EARLY, RECORDS[RECORDS >= LATE].mean()]
    for which, ((field, label), colour) in enumerate(zip(LOSSES.items(), COLOURS, strict=False)):
        first.plot(fine, getattr(theory(fine), field), color=colour, label=label)
        points = [Estimate.of(column) for column in runs[dims[-1]][which].T]
        draw_estimates(first, RECORDS, points, colour, markersize=3)
        part = slice(3 * which, 3 * which + 3)
        limits = row.fit.value[part], row.fit.standard_error[part]
        draw_points(first, at, *limits, colour, fmt="D", markerfacecolor="none")
        first.axhline(float(getattr(theory(np.inf), field)), color=colour, linestyle=":")
        draw_quantity(second, row, 3 * which + 2, colour)
    title = f"points: $d = {dims[-1]}$; dotted: floor"
    finish(first, "steps of SGD", "loss", title=title, legend="")
    finish(second, "$1/d$", "loss", title=f"{LATE} to {STEPS} steps")
    write_key(figure, "lines and stars: theory; points: simulation")


claim = Claim.of("online-sgd", __doc__, rows)
