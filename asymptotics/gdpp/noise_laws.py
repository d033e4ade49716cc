"""Rules that average over the noise level of a prompt."""

import numpy as np
from scipy.special import expit

from iclimit.problem import NoiseLaw

# Smallest and largest noise level other than 0: their squares stay within the eigenvalue rule, and
# their fourth powers within float64.
LEVELS = (1e-15, 1e15)

# Step of the double-exponential rule over a uniform noise level.
STEP = 1 / 20


def parse_noise_law(noise_law: str | NoiseLaw) -> NoiseLaw:
    """Read a noise law whose levels the rules can take.

    Raises
    ------
    ValueError
        If it is none, or a level is out of range.
    """
    law, (least, most) = NoiseLaw.parse(noise_law), LEVELS
    if not all(level == 0 or least <= level <= most for level in law.levels):
        raise ValueError(
            f"noise_law must have levels 0 or in [{least:g}, {most:g}], got {noise_law!r}"
        )
    return law


def level_rule(law: NoiseLaw, step: float = STEP) -> tuple[np.ndarray, np.ndarray]:
    """Levels and weights of a quadrature rule, exact except for a uniform law.

    For a uniform law it is the double-exponential rule, which is accurate to rounding for
    functions of the level that are analytic except at 0, on whatever scale they change.

    Parameters
    ----------
    law : NoiseLaw
        Law of the noise level.
    step : float
        Step of the rule for a uniform law; a smaller one resolves sharper changes.

    Returns
    -------
    levels, weights : ndarray
        Noise levels and weights of sum 1.
    """
    levels = law.levels
    if law.kind != "uniform" or levels == (0,):
        return np.array(levels), np.full(len(levels), 1 / len(levels))
    t = np.arange(-3.25, 3.25 + step, step)
    x, y = expit(np.pi * np.sinh(t)), expit(-np.pi * np.sinh(t))
    return x * levels[0], step * np.pi * np.cosh(t) * x * y
