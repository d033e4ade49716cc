"""Laws of the noise level of a prompt, and rules that average over them."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from iclimit.asymptotics.checks import real_number

# Smallest and largest noise level other than 0: their squares stay within the eigenvalue rule, and
# their fourth powers within float64.
LEVELS = (1e-15, 1e15)

_ALLOWED = (
    "'fixed:1', 'uniform:5' (from 0 to 5) or 'categorical:1,3,5' (equal weights), "
    f"with levels 0 or in [{LEVELS[0]:g}, {LEVELS[1]:g}]"
)

# Step of the double-exponential rule over a uniform noise level.
STEP = 1 / 20


@dataclass(frozen=True)
class NoiseLaw:
    """Law of the noise level of a prompt.

    Attributes
    ----------
    kind : {"fixed", "uniform", "categorical"}
        One level, uniform from 0 to the one value, or equal weights on the values.
    values : tuple of float
        Noise levels (standard deviations), 0 or in [1e-15, 1e15].

    Raises
    ------
    ValueError
        If the kind is unknown, or the values are not allowed.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import NoiseLaw
    >>> NoiseLaw("categorical", (1.0, 3.0)).mean_variance
    5.0
    """

    kind: str
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        lower, upper = LEVELS
        known = self.kind in ("fixed", "uniform", "categorical")
        counted = len(self.values) == 1 or (self.kind == "categorical" and self.values)
        inside = all(v == 0 or lower <= v <= upper for v in self.values)
        if not (known and counted and inside):
            raise ValueError(f"noise_law must be {_ALLOWED}, got {str(self)!r}")

    def __str__(self) -> str:
        return f"{self.kind}:{','.join(map(repr, self.values))}"

    @property
    def mean_variance(self) -> float:
        r"""Mean noise variance :math:`E \sigma^2`."""
        mean = math.fsum(v**2 for v in self.values) / len(self.values)
        return mean / 3 if self.kind == "uniform" else mean

    def quadrature(self, step: float = STEP) -> tuple[np.ndarray, np.ndarray]:
        """Levels and weights of a quadrature rule, exact except for a uniform law.

        For a uniform law it is the double-exponential rule, which is accurate to rounding for
        functions of the level that are analytic except at 0, on whatever scale they change.

        Parameters
        ----------
        step : float
            Step of the rule for a uniform law; a smaller one resolves sharper changes.

        Returns
        -------
        levels, weights : ndarray
            Noise levels and weights of sum 1.
        """
        step = real_number("step", step)
        if self.kind != "uniform" or self.values == (0,):
            return np.array(self.values), np.full(len(self.values), 1 / len(self.values))
        t = np.arange(-3.25, 3.25 + step, step)
        x, y = expit(np.pi * np.sinh(t)), expit(-np.pi * np.sinh(t))
        return x * self.values[0], step * np.pi * np.cosh(t) * x * y


def parse_noise_law(noise_law: str | NoiseLaw) -> NoiseLaw:
    """Read a noise law: ``fixed:1``, ``uniform:5`` (from 0 to 5) or ``categorical:1,3,5``.

    Parameters
    ----------
    noise_law : str or NoiseLaw
        Kind and values; a `NoiseLaw` is returned as it is.

    Returns
    -------
    NoiseLaw
        The law.

    Raises
    ------
    ValueError
        If it is neither a `NoiseLaw` nor text of one of the three forms, or a value is not
        allowed.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import parse_noise_law
    >>> parse_noise_law("uniform:5")
    NoiseLaw(kind='uniform', values=(5.0,))
    """
    if isinstance(noise_law, NoiseLaw):
        return noise_law
    kind, _, values = str(noise_law).partition(":")
    try:
        return NoiseLaw(kind, tuple(float(v) for v in values.split(",")))
    except ValueError:
        raise ValueError(f"noise_law must be {_ALLOWED}, got {noise_law!r}") from None
