"""Losses of a linear transformer on fresh contexts."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend, to_host
from iclimit.simulate.checks import check_arguments
from iclimit.simulate.gdpp.gram_pass import GramPass
from iclimit.simulate.gdpp.least_squares import BLOCK
from iclimit.simulate.gdpp.linear_transformer import LinearTransformer, free_parameters, to_backend
from iclimit.simulate.gdpp.noisy_regression import NoisyRegression, draw_summaries


@dataclass(frozen=True, eq=False)
class HeldOutLosses:
    """Adjusted losses of a predictor on fresh contexts.

    Attributes
    ----------
    losses, levels : ndarray (n,)
        Adjusted loss of every context, averaged over query and task, and its noise level.
    weights : ndarray (n,)
        Importance weights of the contexts, of mean one: all are one unless rare contexts are
        drawn more often.
    """

    losses: np.ndarray
    levels: np.ndarray
    weights: np.ndarray

    @property
    def loss(self) -> Estimate:
        """Mean adjusted loss; infinite, with an infinite error, where one overflows."""
        with np.errstate(over="ignore"):
            return Estimate.of(self.weights * self.losses, keep=False)


def held_out_losses(
    model: LinearTransformer,
    problem: NoisyRegression,
    *,
    contexts: int = 100_000,
    rare: bool = False,
    rng: Any,
    backend: str = "numpy",
) -> HeldOutLosses:
    """Adjusted losses of a linear transformer on fresh contexts.

    Parameters
    ----------
    model : LinearTransformer
        On the host.
    problem : NoisyRegression
        Law of the prompts.
    contexts : int >= 1
        Number of contexts; only their losses, levels and weights are kept in memory.
    rare : bool
        Draw weighted contexts from a mixture with more rare ones, which shows the effect of one
        context in a million on the mean; see `iclimit.simulate.gdpp.noisy_regression`.
    rng : int, SeedSequence or Generator
        Seed of the contexts.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    HeldOutLosses
        Infinite losses where the prediction overflows.

    Raises
    ------
    ValueError
        If an argument is outside its range, the dimensions differ, or the weights are not of the
        model's kind.
    TypeError
        If model or problem is of another kind.
    """
    if not isinstance(model, LinearTransformer):
        raise TypeError(f"model must be a LinearTransformer, got {model!r}")
    if not isinstance(problem, NoisyRegression):
        raise TypeError(f"problem must be a NoisyRegression, got {problem!r}")
    check_arguments(contexts=contexts)
    free_parameters(model, model.kind)  # refuses weights that a pass of this kind would ignore
    if model.dim != problem.dim:
        raise ValueError(f"model must be of dimension {problem.dim}, got {model.dim}")
    there = get_backend(backend)
    moved = to_backend(model, there)
    losses, levels, weights = [], [], []
    size = BLOCK[backend]
    for summaries in draw_summaries(problem, there, contexts, rng, rare=rare):
        for start in range(0, summaries.oracle.shape[0], size):
            part = slice(start, start + size)
            with np.errstate(over="ignore", invalid="ignore"):
                found = GramPass(summaries.gram[part, :, :], moved).weights
                error = there.xp.sum((found - summaries.oracle[part, :]) ** 2, axis=1) / 2
            # Only overflow gives NaN, as inf - inf.
            losses.append(to_host(there.xp.where(there.xp.isnan(error), math.inf, error)))
        levels.append(to_host(summaries.levels))
        weights.append(to_host(summaries.weights))
    return HeldOutLosses(*(np.concatenate(each) for each in (losses, levels, weights)))
