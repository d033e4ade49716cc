"""Search for the rates and the preconditioning with which GD++ has the least loss.

The losses are those of `iclimit.asymptotics.gdpp.losses`.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_integers, checked
from iclimit.asymptotics.descent.schedules import lower_bound, parse_spectrum
from iclimit.asymptotics.gdpp.losses import (
    check_layers,
    most_layers,
    rule_loss,
    worst_case_residual,
)
from iclimit.asymptotics.gdpp.search import average_minima, degree, worst_minimum
from iclimit.asymptotics.numbers import ArrayMath
from iclimit.asymptotics.spectra import Wishart
from iclimit.results import Result

# Most layers of a search in each setting: more would take minutes.
_MOST_LAYERS = {"ratio": 6, "condition_number": 5}

# Where the searches have been tried.
_RANGES = {"ratio": "[1e-3, 1e3]", "noise_ratio": "[0, 1e6]", "condition_number": "[1.01, 1e6]"}


@dataclass(frozen=True, eq=False, repr=False)
class GDPlusPlus(Result):
    r"""Rates and preconditioning of GD++ with their loss.

    Attributes
    ----------
    rates : ndarray (L,)
        Learning rates :math:`\eta_l`, first layer first.
    gammas : ndarray (L - 1,)
        Preconditioning :math:`\gamma_l`, first layer first.
    loss : float
        Loss relative to the null predictor, or the largest residual over an interval.
    lower_bound : float
        Least value for any polynomial of the same degree: no GD++ of L layers is below it.
    """

    rates: np.ndarray
    gammas: np.ndarray
    loss: float
    lower_bound: float


def optimal_gdpp(
    layers: int,
    *,
    condition_number: float | None = None,
    ratio: float | None = None,
    context: int | None = None,
    dim: int | None = None,
    input_law: str = "gaussian",
    noise_ratio: float = 0.0,
) -> GDPlusPlus:
    r"""Best rates and preconditioning of GD++ that a search finds; every layer takes a step.

    Parameters
    ----------
    layers : int >= 1
        Number L of layers: at most 6 for a ratio, 5 for condition_number, 4 for context and dim,
        of these 2 for inputs that are not Gaussian.
    condition_number : number in [1.01, 1e6]
        Worst case: least `worst_case_residual`.
    ratio : number in [1e-3, 1e3]
        Average case, least `gdpp_loss`: limit at fixed c = d/N.
    context, dim : int >= 1
        Average case at finite N and d, d/N in [1e-3, 1e3].  Give either these, ratio or
        condition_number.
    input_law : {"gaussian", "uniform", "laplace"}
        With context and dim: law of the inputs, as in `gdpp_loss`.
    noise_ratio : number in [0, 1e6]
        As in `gdpp_loss`, for the average case.

    Returns
    -------
    GDPlusPlus
        With ``rates``, ``gammas``, their ``loss`` and the ``lower_bound`` of all polynomials.

    Raises
    ------
    ValueError
        If an argument is outside its range, or not exactly one setting is given.
    TypeError
        If an argument is not a number.

    Notes
    -----
    There are many local minima.  The search follows hundreds of starts, and then perturbations of
    the best minima.  The result is not proven to be the global minimum; ``lower_bound`` shows how
    much it could miss.  It is the same in every call.  For five layers and a condition number of
    10, a search from six times as many starts found a worst case that is lower by 1 per cent.

    Losses below 1e-26 and largest residuals below 1e-13 come from the rounding of the rates: their
    digits mean little, and so do minima there.

    In the average case the two-layer optimum folds the spectrum (:math:`\gamma\lambda > 1`),
    unlike the preconditioning of Newton and Schulz.  On one core two layers take 0.1 to 1 s, three
    1 to 2 s, four 3 to 6 s (and 6 s more at finite size), five 10 s, six 30 s.

    References
    ----------
    Module `iclimit.asymptotics.gdpp.losses`; two layers at finite size: Vladymyrov et al., NeurIPS
    2024 (arXiv:2402.14180), Table 1, whose value is a local minimum: see `gdpp_minima`.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import optimal_gdpp
    >>> best = optimal_gdpp(2, ratio=0.5, noise_ratio=0.05)
    >>> best.rates.round(3), best.gammas.round(3)
    (array([0.504, 3.589]), array([0.496]))
    >>> round(best.loss, 6), round(best.lower_bound, 6)
    (0.101439, 0.101057)
    """
    if condition_number is None:
        size: dict[str, Any] = {"ratio": ratio, "context": context, "dim": dim}
        return gdpp_minima(layers, **size, input_law=input_law, noise_ratio=noise_ratio)[0]
    if any(value is not None for value in (ratio, context, dim)):
        raise ValueError(
            "give exactly one of condition_number, ratio, and context and dim, got "
            f"condition_number={condition_number}, ratio={ratio}, context={context}, dim={dim}"
        )
    check_integers(layers=layers)
    check_layers("layers", layers, _MOST_LAYERS["condition_number"])
    _, values = checked(
        systems="numpy", single=True, ranges=_RANGES, condition_number=condition_number
    )
    condition = values.condition_number
    if noise_ratio != 0:
        raise ValueError(f"noise_ratio must be 0 in the worst case, got {noise_ratio}")
    if input_law != "gaussian":
        raise ValueError(f"input_law must be gaussian in the worst case, got {input_law!r}")
    x = worst_minimum(layers, 1 / float(condition))
    rates = x[:layers]
    gammas = x[layers:]
    # 1/T_D at (kappa + 1)/(kappa - 1) for the condition number kappa, without overflow.
    decay = float((condition - 1) / (condition**0.5 + 1) ** 2) ** degree(layers)
    loss = worst_case_residual(rates, gammas=gammas, condition_number=condition)
    return GDPlusPlus(rates, gammas, float(loss), 2 * decay / (1 + decay**2))


def gdpp_minima(
    layers: int,
    *,
    ratio: float | None = None,
    context: int | None = None,
    dim: int | None = None,
    input_law: str = "gaussian",
    noise_ratio: float = 0.0,
) -> list[GDPlusPlus]:
    r"""Local minima of the average loss of GD++ that are found, best first.

    Parameters
    ----------
    layers, ratio, context, dim, input_law, noise_ratio
        As in `optimal_gdpp`.

    Returns
    -------
    list of GDPlusPlus
        Distinct strict minima: the gradient vanishes and the Hessian is positive definite.  For
        two layers these are all that any start reaches, for more layers only the best ones.  Where
        the loss is at the level of rounding, the list holds the best point only.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number.

    Examples
    --------
    The two-layer GD++ of Vladymyrov et al., Table 1, half a squared error of .341 for N = 20 and
    d = 10, is the second of these:

    >>> from iclimit.asymptotics.gdpp import gdpp_minima
    >>> [round(0.5 * 10 * best.loss, 4) for best in gdpp_minima(2, context=20, dim=10)][:2]
    [0.2679, 0.3416]
    """
    check_integers(layers=layers)
    math_, values = checked(
        systems="numpy",
        single=True,
        optional=("ratio",),
        ranges=_RANGES,
        ratio=ratio,
        noise_ratio=noise_ratio,
    )
    noise = values.noise_ratio
    spectrum = parse_spectrum(math_, values.ratio, context, dim, input_law)
    if isinstance(spectrum, Wishart):
        check_integers(context=context, dim=dim)
        if not 1e-3 <= spectrum.ratio <= 1e3:
            raise ValueError(f"dim/context must be from 0.001 to 1000, got {dim}/{context}")
    check_layers("layers", layers, _MOST_LAYERS["ratio"] if ratio else most_layers(input_law))
    given = None if values.ratio is None else float(values.ratio)
    minima = _minima(layers, given, context, dim, input_law, float(noise))
    rates = minima[:, :layers].copy()
    gammas = minima[:, layers:].copy()
    losses = rule_loss(rates, gammas, *spectrum.quadrature(degree(layers)), noise)
    bound = float(lower_bound(ArrayMath(np), degree(layers), spectrum, noise))
    return [
        GDPlusPlus(rates[k], gammas[k], float(losses[k]), bound)
        for k in np.argsort(losses, kind="stable")
    ]


@lru_cache(maxsize=64)
def _minima(
    layers: int,
    ratio: float | None,
    context: int | None,
    dim: int | None,
    input_law: str,
    noise: float,
) -> np.ndarray:
    """Rates and gammas of the local minima of the average loss, shape (K, 2 L - 1)."""
    spectrum = parse_spectrum(ArrayMath(np), ratio, context, dim, input_law)
    nodes, weights = spectrum.quadrature(degree(layers))
    root = float(spectrum.ratio) ** 0.5
    # Upper edge in the limit; the mean of the spectrum is the variance of an input coordinate.
    top = float(spectrum.moment(1)) * (1 + root) ** 2
    lower = ((1 - root) / (1 + root)) ** 2
    return average_minima(layers, nodes[1:] / top, weights[1:], noise / top, lower) / top
