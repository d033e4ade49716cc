"""Flows of separate attention from small random weights, beside their predicted staircase."""

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics.dynamics import separate_attention_staircase
from iclimit.simulate.dynamics import AttentionModel, simulate_gradient_flow
from iclimit.statement import named_cell
from iclimit.validation.claims.dynamics.setting import CONTEXT, eigenvalues, problem
from iclimit.validation.instruments.curves.features import slowest_loss

# Duration of the flows in units of 1/(scale lambda^2) for the smallest eigenvalue, the time in
# which one head with weights of this scale escapes.
PATIENCE = 40.0
# Drops are compared if the flow is longer than their predicted time by this factor.
MARGIN = 1.5
# Relative error of a predicted time for initial weights of 1e-6, where it is of first order in
# them (measured over 30 flows: at most 8e-6).
TIME_TOLERANCE = 1e-4
# Relative tolerance of the integration, which moves times by a relative 1e-7.
RTOL = 1e-8


@dataclass(frozen=True)
class FlowCell:
    """A flow from small random weights, and what is predicted from these weights.

    Attributes
    ----------
    predicted, crossings : list of float
        Times of half of each drop; infinite if it does not happen.
    heights : list of float
        Loss where it falls slowest between two of these times, for 1, ..., D - 1 directions; NaN
        without the first of them.
    duration : float
        End of the flow.
    times, losses : list of float
        The curve, thinned.
    """

    predicted: list[float]
    crossings: list[float]
    heights: list[float]
    duration: float
    times: list[float]
    losses: list[float]

    @property
    def expected(self) -> np.ndarray:
        """Which drops are predicted to happen well before the flow ends."""
        return np.array(self.predicted) < self.duration / MARGIN


@named_cell("separate_flows")
def separate_flows(
    *,
    dim: int,
    heads: int,
    rank: int,
    scales: tuple[float, ...],
    noise_variance: float = 0.0,
    seed: int,
    rng: SeedSequence,
) -> tuple[FlowCell, ...]:
    """Flows from random weights of several scales, proportional to each other."""
    del seed  # cells of different seeds differ
    model = AttentionModel("separate", dim, heads, rank)
    unit = model.random_weights(np.random.default_rng(rng), 1.0)
    return tuple(
        _flow(model, [scale * part for part in unit], scale, noise_variance) for scale in scales
    )


def _flow(
    model: AttentionModel, weights: list[np.ndarray], scale: float, noise_variance: float
) -> FlowCell:
    value, key, query = weights
    lam = eigenvalues(model.dim)
    steps = separate_attention_staircase(
        value[:, -1],
        key=key[..., :-1],
        query=query,
        eigenvalues=lam,
        context=CONTEXT,
        noise_variance=noise_variance,
    )
    duration = PATIENCE / (scale * float(lam[-1]) ** 2)
    flow = simulate_gradient_flow(
        problem(model.dim, noise_variance),
        model="separate",
        heads=model.heads,
        rank=model.rank,
        initial=weights,
        duration=duration,
        rtol=RTOL,
    )
    crossings = flow.crossing_times((steps.losses[1:] + steps.losses[:-1]) / 2)
    heights = []
    for before, after in itertools.pairwise(crossings):
        between = (flow.times >= before) & (flow.times <= after)
        heights.append(slowest_loss(flow.losses, flow.speeds, between))
    last = max(crossings[np.isfinite(crossings)], default=duration)
    kept = np.flatnonzero(flow.times <= 1.3 * last)
    kept = kept[np.linspace(0, len(kept) - 1, min(600, len(kept))).astype(int)]
    return FlowCell(
        steps.drop_times.tolist(),
        crossings.tolist(),
        heights,
        duration,
        flow.times[kept].tolist(),
        flow.losses[kept].tolist(),
    )
