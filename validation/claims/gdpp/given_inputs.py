"""Losses of ridge regression given the inputs: tasks and noise are averaged over exactly.

Let e be the eigenvalues of X^T X and v the noise variance.  In the eigenbasis the coordinates of
X^T y have the variance e (e + v) over tasks and noise, and they are independent of the residuals,
whose sum of squares is v times a chi-square of N - d degrees of freedom.  Of the estimator
q X^T y the mean adjusted loss is the sum of e (q (e + v) - 1)^2 / (e + v) / 2.
"""

from dataclasses import dataclass

import numpy as np
from numpy.random import SeedSequence
from scipy.special import chdtri

from iclimit.problem import NoiseLaw
from iclimit.results import Estimate
from iclimit.statement import named_cell
from iclimit.validation.claims.gdpp.controls import controlled, spectral_controls
from iclimit.validation.reference.noise_levels import SIZE

# Strata of the noise level and of the chi-square, one draw from each pair of them for every
# context.  Two or three noise levels share the first number equally.
STRATA = 12, 6

# Contexts held at a time.
BLOCK = 1000

# Stands for no threshold, or for a multiplier that makes the threshold the penalty.
ENDLESS = 1e12

# Number of samples without control variates; they come first.
PLAIN = 3


@dataclass(frozen=True, eq=False)
class LossesGivenInputs:
    """Losses averaged over prompts: the oracle's, and adjusted ones.

    Attributes
    ----------
    oracle, step : Estimate
        The oracle, and one step of gradient descent.
    ridges : list of Estimate
        Ridge regression with the penalties asked for.
    step_total, inverse_rate, variance : Estimate
        Loss of the step, not adjusted; inverse of the best rate of a step; noise variance.  No
        control variates are used, since the moments of the inputs would give these exactly.
    """

    oracle: Estimate
    step: Estimate
    ridges: list[Estimate]
    step_total: Estimate
    inverse_rate: Estimate
    variance: Estimate


@named_cell("losses_given_inputs")
def losses_given_inputs(
    *,
    noise_law: str,
    rate: float,
    penalties: tuple[tuple[float, float], ...],
    contexts: int,
    rng: SeedSequence,
) -> LossesGivenInputs:
    """Losses of a step of some rate and of ridge regression with several penalties.

    A penalty is a multiplier of the estimated noise variance, and a threshold that it is cut at.
    """
    generator = np.random.default_rng(rng)
    blocks = [
        _block(generator, noise_law, rate, penalties, min(BLOCK, contexts - start))
        for start in range(0, contexts, BLOCK)
    ]
    samples = np.concatenate([columns for columns, _ in blocks], axis=-1)
    controls = np.concatenate([columns for _, columns in blocks], axis=-1)
    losses = [controlled(sample, controls.T) for sample in samples[PLAIN:]]
    return LossesGivenInputs(
        oracle=losses[0],
        step=losses[1],
        ridges=losses[2:],
        step_total=Estimate.of(samples[0]),
        inverse_rate=Estimate.of(samples[1]),
        variance=Estimate.of(samples[2]),
    )


def _block(
    generator: np.random.Generator,
    noise_law: str,
    rate: float,
    penalties: tuple[tuple[float, float], ...],
    count: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Samples (m, count), those without control variates first, and controls (3, count)."""
    context = SIZE["context"]
    dim = SIZE["dim"]
    x = generator.standard_normal((count, context, dim))
    e = np.linalg.eigvalsh(x.transpose(0, 2, 1) @ x)
    controls = spectral_controls(e, context)
    square = np.sum(e**2, axis=-1) / (context * dim)
    size = count, *STRATA
    level_strata, chance_strata = STRATA
    level = (np.arange(level_strata)[:, None] + generator.random(size)) / level_strata
    chance = (np.arange(chance_strata) + generator.random(size)) / chance_strata
    level = level.reshape(count, -1)
    chance = chance.reshape(count, -1)
    law = NoiseLaw.parse(noise_law)
    if law.kind == "uniform":
        variance = (law.levels[0] * level) ** 2
    else:
        variance = np.array(law.levels)[(level * len(law.levels)).astype(int)] ** 2
    estimated = variance * chdtri(context - dim, chance) / (context - dim)
    e = e[:, None, :]
    v = variance[:, :, None]

    def mean_loss(terms: np.ndarray) -> np.ndarray:
        return np.mean(np.sum(terms, axis=-1), axis=-1) / 2

    def adjusted(q: np.ndarray | float) -> np.ndarray:
        return mean_loss(e * (q * (e + v) - 1) ** 2 / (e + v))

    ridges = [
        adjusted(1 / (e + np.minimum(multiplier * estimated, threshold)[:, :, None]))
        for multiplier, threshold in penalties
    ]
    mean_variance = np.mean(variance, axis=-1)
    inverse = square + mean_variance * np.sum(e, axis=(1, 2)) / (context * dim)
    oracle = mean_loss(v / (e + v))
    step = adjusted(rate)
    columns = [oracle + step, inverse, mean_variance, oracle, step, *ridges]
    return np.stack(columns), controls.T
