"""The published losses of regression with random noise levels, and their standard errors."""

import math
from functools import cache
from typing import Any

from iclimit.asymptotics.gdpp import RidgeBaselines, ridge_baselines
from iclimit.published import settings
from iclimit.validation.reference import read_reference

SIZE: dict[str, Any] = dict(settings["vladymyrov2024-table-1"])

# Sequences over which the published losses are means.
EVALUATED = 100_000

# Noise laws of the published table, in the order of its columns.
NOISES = (*(f"uniform:{level}" for level in range(8)), "categorical:1,3", "categorical:1,3,5")
UNIFORM = NOISES[:8]


@cache
def published_table() -> dict[tuple[str, int, str], float]:
    """Published adjusted losses by method, number of layers (0 for baselines) and noise law."""
    return {
        (row["method"], int(row["layers"] or 0), noise_law): float(
            row[noise_law.replace(":", "_").replace(",", "_")]
        )
        for row in read_reference("versatile_table1.csv")
        for noise_law in NOISES
    }


@cache
def baselines(noise_law: str) -> RidgeBaselines:
    """Theory of the baselines at the size of the table."""
    return ridge_baselines(noise_law, **SIZE)


def published_error(loss: float, noise_law: str, spread: float = 0.0) -> float:
    r"""Standard error of a published adjusted loss a: sampling, and rounding to three digits.

    A sequence has the adjusted loss :math:`\frac12 \delta^2 + \delta r`.  The difference
    :math:`\delta` of the predictions and the oracle's error r are normal given the context, of
    mean squares :math:`2 a_c` and, on average, 2 R.  If the losses :math:`a_c` of contexts have
    the standard deviation ``spread``, the variance is :math:`3\,\text{spread}^2 + 2 a^2 + 4 a R`.
    Noisy query labels would make it larger.
    """
    variance = 3 * spread**2 + 2 * loss**2 + 4 * loss * baselines(noise_law).oracle
    rounding = 10.0 ** (math.floor(math.log10(loss)) - 2) if loss < 1e-3 else 1e-3
    return math.hypot(math.sqrt(variance / EVALUATED), rounding / math.sqrt(12))
