"""Finite training sets: the gap to the law of the data falls as 1/P.

The network on cubic features trained to its end on P sequences has a training loss below and
a loss on fresh sequences above the least one, by the same a/P for large P: the sandwich of least
squares, estimated from the same sequences.  Both losses tend to the last plateau.

Source: {zhang2025}, setup; asymptotics of least squares (sandwich).
"""

from typing import Any

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.simulate.arrays import to_host
from iclimit.simulate.dynamics import simulate_gradient_descent
from iclimit.simulate.dynamics.feature_moments import population_moments
from iclimit.simulate.dynamics.gradient_descent import training_sets
from iclimit.statement import named_cell
from iclimit.validation.claim import Claim, Effort, Rows, call, exact, limit, run
from iclimit.validation.claims.dynamics.setting import CONTEXT, eigenvalues, problem

# Sizes of the training set.
SETS = (500, 1000, 2000, 4000)
# Training sets in a block.
BLOCK = 20
# Trainings to the end, each of which is compared with least squares: a wide linear network has no
# other minima.
TRAINED = 8
# Gradient descent of the network on cubic features.
TRAINING: dict[str, Any] = {
    "model": "cubic",
    "heads": 8,
    "init_scale": 0.3,
    "learning_rate": 0.5,
    "steps": 1000,
    "record": 1000,
    "standardize": False,
    "training_set": 500,
}
# How far a training may be from its end, relative.
END_TOLERANCE = 1e-6

# Eigenvalues of the inputs.
LAM = eigenvalues(4)
# Eigenvalues of :math:`E \beta \beta^\top`.
SECOND_MOMENT = LAM**2 + LAM * (LAM + LAM.sum()) / CONTEXT


def draw_features(generator: np.random.Generator, *shape: int) -> tuple[np.ndarray, np.ndarray]:
    r"""Cubic features :math:`\beta \otimes x_q`, whitened, and query labels of random sequences.

    The context enters through :math:`\beta = \Lambda^{1/2} W \Lambda^{1/2} w / N` only.  The
    column of the Wishart matrix W along a unit vector u is :math:`s u + \sqrt s\, g` with s from a
    chi-square law and g normal and orthogonal to u.
    """
    task, query, side = generator.standard_normal((3, *shape, len(LAM)))
    along = task * np.sqrt(LAM)
    norm = np.linalg.norm(along, axis=-1, keepdims=True)
    unit = along / norm
    side -= unit * np.sum(unit * side, axis=-1, keepdims=True)
    square = generator.chisquare(CONTEXT, (*shape, 1))
    beta = np.sqrt(LAM) * norm * (square * unit + np.sqrt(square) * side) / CONTEXT
    beta /= np.sqrt(SECOND_MOMENT)
    features = (beta[..., None] * query[..., None, :]).reshape(*shape, -1)
    return features, np.sum(task * query * np.sqrt(LAM), axis=-1)


# Weights of the best predictor on the whitened features.
BEST = np.diag(LAM**1.5 / np.sqrt(SECOND_MOMENT)).ravel()


@named_cell("least_squares_gaps")
def least_squares_gaps(*, size: int, repeats: int, rng: SeedSequence) -> np.ndarray:
    """Excess losses of least squares on plain sequences, times the size, in blocks of sets.

    Returns
    -------
    ndarray (3, repeats / BLOCK)
        Training loss minus that of the best predictor on the same set, whose mean is the least
        loss; loss on fresh sequences minus the least loss; and the squared mean of residual times
        whitened features, whose mean is the sandwich for any size.
    """
    columns = []
    for seed in rng.spawn(repeats // BLOCK):
        features, label = draw_features(np.random.default_rng(seed), BLOCK, size)
        residual = label - features @ BEST
        second = features.swapaxes(1, 2) @ features
        cross = np.einsum("rpf,rp->rf", features, residual)
        change = np.linalg.solve(second, cross[..., None])[..., 0]
        columns.append(
            (
                -np.mean(np.sum(change * cross, axis=1)),
                np.mean(np.sum(change**2, axis=1)) * size,
                np.mean(np.sum(cross**2, axis=1)) / size,
            )
        )
    return np.transpose(columns)


@named_cell("trained_minus_least_squares")
def trained_minus_least_squares(
    *, repeats: int, rng: SeedSequence, backend: str = "numpy"
) -> float:
    """Largest relative difference of trainings to their end from least squares."""
    law = problem(4)
    size = TRAINING["training_set"]
    where: dict[str, Any] = {"repeats": repeats, "rng": rng, "backend": backend}
    run = simulate_gradient_descent(law, **where, **TRAINING)
    least = []
    for drawn in training_sets(law, training_set=size, standardize=False, **where):
        labels = to_host(drawn.labels)
        beta = np.mean(labels[..., None] * to_host(drawn.inputs), axis=1)
        features = (beta[:, :, None] * to_host(drawn.query)[:, None, :]).reshape(size, -1)
        least.append(np.linalg.lstsq(features, to_host(drawn.query_label))[1][0] / size)
    return float(np.max(np.abs(run.losses[:, -1] / least - 1)))


def rows(effort: Effort) -> Rows:
    """Limits of both losses against the plateau, and the excesses against the sandwich."""
    trained = run(trained_minus_least_squares, repeats=TRAINED)
    label = "difference of trained networks from least squares"
    yield exact(label, 0.0, trained, allowance=END_TOLERANCE)
    repeats = effort.pick(tiny=160, quick=240, medium=3000, full=20_000)
    runs = {size: run(least_squares_gaps, size=size, repeats=repeats) for size in SETS}
    names = ("training loss", "loss on fresh sequences")
    plateau = call(plateau_losses, LAM, context=CONTEXT)[-1]
    yield limit(
        {f"{name}, extrapolated": plateau for name in names},
        {size: call(add_least, size, gaps) for size, gaps in runs.items()},
        order=2,
        draws="losses",
        name="Losses",
        size="$P$",
    )
    yield limit(
        {f"size times the excess of the {name}, over the sandwich": 0.0 for name in names},
        {size: call(over_sandwich, gaps) for size, gaps in runs.items()},
        order=2,
        draws="excesses",
        name="Excesses",
        size="$P$",
    )


def add_least(size: int, gaps: np.ndarray) -> np.ndarray:
    """Both losses: the least one, and the excesses over it."""
    moments = population_moments(problem(4))
    best = np.linalg.lstsq(moments.second, moments.cross, rcond=None)[0]
    return float(moments.label - best @ moments.cross) + gaps[:2] / size


def over_sandwich(gaps: np.ndarray) -> np.ndarray:
    """Both excesses times the size, less the sandwich of the same sets."""
    return gaps[:2] - np.array([[-1], [1]]) * gaps[2]


claim = Claim.of("dynamics-training-set", __doc__, rows, figure=False)
