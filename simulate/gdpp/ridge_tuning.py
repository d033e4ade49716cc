"""Ridge regression with an estimated noise variance, tuned on a sample of contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize, minimize_scalar

from iclimit.simulate.arrays import get_backend
from iclimit.simulate.checks import check_arguments, check_choice
from iclimit.simulate.gdpp.noisy_regression import NoisyRegression, concatenate_fields
from iclimit.simulate.gdpp.ridge_contexts import (
    SpectralContexts,
    check_problem,
    draw_prompts,
    noise_denominators,
)

# Relative accuracy of the tuned parameters; what a sample determines is far coarser.
_TOLERANCE = 1e-4

# Multipliers and thresholds of the grid from which tuning starts; the thresholds are relative to
# the largest noise variance.
_MULTIPLIERS, _THRESHOLDS = (0.7, 1.2, 2.0, 5.0), (0.3, 0.6, 1.0, 2.0)


@dataclass(frozen=True)
class RidgeTuning:
    """Parameters of least adjusted loss on a sample of contexts.

    Attributes
    ----------
    penalty : float
        Of ConstRR.
    multiplier, threshold : float
        Of TunedRR.
    constant_loss, tuned_loss : float
        Adjusted losses on the sample.
    converged : bool
        Whether both searches ended by their tolerance.
    """

    penalty: float
    multiplier: float
    threshold: float
    constant_loss: float
    tuned_loss: float
    converged: bool


def tune_ridge(
    problem: NoisyRegression, *, contexts: int = 2**16, rng: Any, noise_estimate: str = "unbiased"
) -> RidgeTuning:
    r"""Tune ConstRR and TunedRR on a sample of contexts.

    Parameters
    ----------
    problem : NoisyRegression
        Law of the prompts, with context > dim.
    contexts : int >= 1
        Number of contexts, kept in memory.
    rng : int, SeedSequence or Generator
        Root seed.
    noise_estimate : {"unbiased", "biased", "least-error"}
        As in `simulate_ridge_baselines`.

    Returns
    -------
    RidgeTuning
        The losses are those of the tuned parameters on their own sample.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If problem is not a NoisyRegression.

    Notes
    -----
    With a single noise level the best :math:`\lambda` is a constant, so the multiplier is large
    and its value means nothing.  Without noise all losses vanish: penalty and threshold are 0, and
    the multiplier is 1.

    Examples
    --------
    >>> from iclimit.simulate.gdpp import NoisyRegression, tune_ridge
    >>> best = tune_ridge(NoisyRegression("uniform:3"), contexts=8192, rng=0)
    >>> best.converged, abs(best.penalty - 3) < 0.3, abs(best.multiplier - 1.3) < 0.1
    (True, True, True)
    """
    check_problem(problem)
    check_arguments(contexts=contexts)
    denominators = noise_denominators(problem)
    check_choice("noise_estimate", noise_estimate, tuple(denominators))
    largest = max(problem.noise_law.levels) ** 2
    if largest == 0:
        return RidgeTuning(0.0, 1.0, 0.0, 0.0, 0.0, True)
    drawn = draw_prompts(problem, contexts, rng, get_backend("numpy"))
    sample = concatenate_fields(map(SpectralContexts.of, drawn))
    estimated = sample.rss / denominators[noise_estimate]

    def constant_loss(penalty: float) -> float:
        return float(np.mean(sample.adjusted_loss(np.full_like(sample.rss, penalty))))

    def tuned_loss(logarithms: np.ndarray) -> float:
        multiplier, threshold = np.exp(logarithms)
        return float(np.mean(sample.adjusted_loss(np.minimum(multiplier * estimated, threshold))))

    fixed = minimize_scalar(
        constant_loss,
        bounds=(0, largest),
        method="bounded",
        options={"xatol": _TOLERANCE * largest},
    )
    starts = [np.log([m, largest * t]) for m in _MULTIPLIERS for t in _THRESHOLDS]
    tuned = minimize(
        tuned_loss,
        min(starts, key=tuned_loss),
        method="Nelder-Mead",
        options={"xatol": _TOLERANCE, "fatol": 1e-9},
    )
    multiplier, threshold = np.exp(tuned.x).tolist()
    losses, converged = (float(fixed.fun), float(tuned.fun)), bool(fixed.success and tuned.success)
    return RidgeTuning(float(fixed.x), multiplier, threshold, *losses, converged)
