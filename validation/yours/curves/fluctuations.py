r"""How a finite training set changes losses and growth rates of linear attention.

With P sequences the loss at a plateau and the growth rate before a drop are means over P
sequences, so that they have relative standard deviations of the order :math:`P^{-1/2}`.  These are
found from small training sets drawn at random.  The final training loss is lower by about a/P,
where a is the sandwich of least squares, :math:`E r^2 f^\top E[f f^\top]^{-1} f` with features f
and residual r.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from iclimit.simulate.arrays import get_backend
from iclimit.simulate.dynamics.feature_moments import feature_count
from iclimit.validation.yours.curves.setting import CurveSetting

SETS, SET_SIZE = 80, 300
"""Number and size of the training sets that are drawn: standard deviations are right to 8 %."""


@dataclass(frozen=True, eq=False)
class Fluctuations:
    """Relative standard deviations over training sets, and the bias of the final loss.

    Attributes
    ----------
    losses : ndarray (drops + 1,)
        Of the loss at the start, at the plateaus and at the end.
    rates : ndarray (drops,)
        Of the growth rate before each drop.
    bias : float
        How far the final training loss can be below its limit, relative.
    """

    losses: np.ndarray
    rates: np.ndarray
    bias: float


def find_fluctuations(setting: CurveSetting, seed: int = 0) -> Fluctuations:
    """Find what a training set of the size of the setting changes."""
    count = len(setting.learned)
    if math.isinf(setting.training_set):
        return Fluctuations(np.zeros(count), np.zeros(count - 1), 0.0)
    # What the fluctuations do not depend on is left out of the key.
    key = replace(
        setting,
        time_unit=1.0,
        loss_unit=1.0,
        loss_factor=1.0,
        query_noise=True,
        init_scale=1.0,
        initialization="per-head",
        learning_rate=None,
        normalization="mean",
    )
    return _found(key, seed)


@lru_cache(maxsize=32)
def _found(setting: CurveSetting, seed: int) -> Fluctuations:
    count = len(setting.learned)
    numpy, generator = get_backend("numpy"), np.random.default_rng(seed)
    lam, problem = setting.law["eigenvalues"], setting.problem
    size = max(SET_SIZE, 4 * len(lam))
    second = lam**2 + lam * (lam + lam.sum() + setting.noise_variance) / setting.context
    best = lam / second
    losses, rates, biases = [], [], []
    for _ in range(SETS):
        drawn = problem.training_set(numpy, generator, size, setting.standardize)
        beta = np.mean(drawn.y[..., None] * drawn.x, axis=1)
        label = drawn.y_query
        features = beta * drawn.x_query
        # Residuals with the first directions learned, one column for each plateau.
        learned = np.cumsum(np.pad(features * best, ((0, 0), (1, 0))), axis=1)
        residuals = (label[:, None] - learned)[:, list(setting.learned)]
        losses.append(np.mean(residuals**2, axis=0))
        growth = np.mean(label[:, None] * features, axis=0)
        rates.append([growth @ lam**2] if setting.model != "separate" else growth[: count - 1])
        leverage = np.sum(beta**2 / second, axis=1) * np.sum(drawn.x_query**2 / lam, axis=1)
        biases.append(np.mean(residuals[:, -1] ** 2 * leverage) / np.mean(residuals[:, -1] ** 2))
    shrink = math.sqrt(size / setting.training_set)
    # All layers but the narrow one also fit the moments of inputs and of labels.
    more = 1 if setting.model == "cubic" else feature_count(len(lam)) / len(lam) ** 2
    return Fluctuations(
        shrink * _relative_deviation(losses),
        shrink * _relative_deviation(rates),
        more * float(np.mean(biases)) / setting.training_set,
    )


def _relative_deviation(samples: list) -> np.ndarray:
    """Standard deviation over the mean, column by column."""
    found = np.asarray(samples)
    return np.asarray(np.std(found, axis=0, ddof=1) / np.abs(np.mean(found, axis=0)))
