r"""Test error of GD++ with any number of layers, and its joint optimum.

GD++ (von Oswald et al., ICML 2023) is gradient descent that also preconditions the inputs.  With
inputs :math:`Z_0 = X` and residuals :math:`r_0 = y` of a context of N pairs in dimension d, layer
l takes a step of rate :math:`\eta_l` and, at the same time, preconditions with :math:`\gamma_l`:

.. math:: r_{l+1} = r_l - \eta_l Z_l \frac{Z_l^\top r_l}N, \qquad
   Z_{l+1} = Z_l \Bigl(1 - \gamma_l \frac{Z_l^\top Z_l}N\Bigr),

and the query is treated alike.  In an eigendirection of :math:`H = X^\top X/N` with eigenvalue
:math:`\lambda`, :math:`\lambda_{l+1} = \lambda_l (1 - \gamma_l \lambda_l)^2` with
:math:`\lambda_0 = \lambda`.  After L layers the prediction has the weights
:math:`Q(H) X^\top y/N` with

.. math:: P(\lambda) = \prod_{l=0}^{L-1} (1 - \eta_l \lambda_l), \qquad
   Q(\lambda) = \frac{1 - P(\lambda)}\lambda,

polynomials of degree :math:`D = (3^L - 1)/2` and D - 1.  The last :math:`\gamma` does not change
the prediction: L layers have L rates and L - 1 gammas.

*Average case.*  For inputs, tasks and noise as in `iclimit.asymptotics.descent.schedules` the loss of a
noiseless query relative to the null predictor is

.. math:: \mathcal L = \int \bigl(P^2 + v \lambda Q^2\bigr) d\mu, \qquad
   v = \frac{\sigma^2}{N a^2},

with the mean spectral measure :math:`\mu` of H.  At finite size, beyond two layers, rare contexts
rule this mean: P is a polynomial of degree 13 and more, and :math:`\mu` has no upper edge.  Rates
chosen on a sample do not know them and have a far larger mean loss than the sample shows.  With
N = 20, d = 10, three layers without noise, rates chosen on two million eigenvalues have a loss of
.0024 there and of the order of 1 in the mean; the rates of least mean have .0034 in both.

*Worst case.*  The largest :math:`|P|` for eigenvalues within a factor :math:`\kappa`.

Both have lower bounds: no polynomial of degree D with P(0) = 1 does better than the optimal one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from iclimit.asymptotics.descent.schedule_losses import exact_number, lower_bound, more_digits
from iclimit.asymptotics.descent.schedules import parse_spectrum, pick_namespace
from iclimit.asymptotics.gdpp.search import average_minima, degree, peaks, residual, worst_minimum
from iclimit.asymptotics.numbers import (
    ArrayMath,
    Namespace,
    Number,
    convert,
    numpy_namespace,
    require,
)
from iclimit.asymptotics.spectra import MarchenkoPastur, Wishart
from iclimit.asymptotics.spectra.wishart import check_integer

_MOST_LAYERS, _MOST_FINITE = 8, 4
"""Layers in the limit and over an interval (degree 3280), and at finite size (degree 40): there
the exact rule takes 0.1 s for three layers, 6 s for four and many minutes for five."""

_MOST_SEARCHED = {"ratio": 6, "condition_number": 5, "context and dim": _MOST_FINITE}

_SEARCHED_RATIOS, _SEARCHED_NOISE, _SEARCHED_KAPPAS = (1e-3, 1e3), 1e6, (1.01, 1e6)
"""Where the searches have been tried."""

_ROWS = 2_000_000
"""Grid points held at a time."""


@dataclass(frozen=True, eq=False)
class GDPlusPlus:
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


def gdpp_loss(
    rates: Any,
    gammas: Any,
    *,
    ratio: Number = None,
    context: Any = None,
    dim: Any = None,
    noise_ratio: Number = 0.0,
) -> Any:
    r"""Loss of GD++ with given rates and preconditioning.

    Parameters
    ----------
    rates : array (..., L), or sequence of L mpmath or SymPy numbers
        Learning rate of each layer, any real numbers.  At most 8 layers, 4 at finite size.
    gammas : array (..., L - 1), or sequence of L - 1 mpmath or SymPy numbers
        Preconditioning of each layer but the last, whose own does not change the prediction.
        Zeros are plain gradient descent.
    ratio : number or array in [1e-100, 1e100]
        Limit at fixed c = d/N; give either this or context and dim.
    context, dim : int >= 1 or SymPy expression
        Exact at finite N and d, for Gaussian inputs.
    noise_ratio : number or array >= 0
        Noise variance over (task variance times N), :math:`v = \sigma^2/(N a^2)`.

    Returns
    -------
    number or array
        Broadcast over the leading axes of rates and gammas, ratio and noise_ratio.  Infinite where a
        number on the way overflows.

    Raises
    ------
    ValueError
        If an argument is outside its range, there is not one gamma less than rates, or there are
        too many layers.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    float64 uses the Gauss-Radau rule that is exact for the degree :math:`3^L - 1` of the
    integrand.  P is a product of factors :math:`1 - \eta_l \lambda_l` that are small when the
    spectrum is well preconditioned, and rounding of the rates alone changes them: the relative
    error is about :math:`10^{-16}/\sqrt{\mathcal L}` for a small loss :math:`\mathcal L`.
    At finite size the rule takes 0.1 s for three layers and several seconds for four, once for
    each size.  Multi-precision and symbolic numbers use the moments of the measure.

    References
    ----------
    GD++: von Oswald et al., ICML 2023 (arXiv:2212.07677); layers with rates of their own:
    Vladymyrov et al., NeurIPS 2024 (arXiv:2402.14180).

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp.losses import gdpp_loss
    >>> round(float(gdpp_loss([0.5, 3.0], [0.5], ratio=0.5)), 6)
    0.059692
    >>> round(float(gdpp_loss([0.5, 3.0], [0.5], context=20, dim=10)), 6)
    0.121258
    """
    math_, rates, gammas = _given_layers(
        rates, gammas, ratio=ratio, context=context, dim=dim, noise_ratio=noise_ratio
    )
    noise = convert(math_, "noise_ratio", noise_ratio)
    require(math_, "noise_ratio", noise, lambda v: (v >= 0) & (v < math_.inf), ">= 0 and finite")
    spectrum = _cached_spectrum(math_, ratio, context, dim)
    layers = len(rates) if isinstance(rates, list) else rates.shape[-1]
    _check_layers("rates", layers, _MOST_LAYERS if ratio is not None else _MOST_FINITE)
    if not isinstance(math_, ArrayMath):
        return math_.finish(_moment_loss(math_, rates, gammas, spectrum, noise))
    shapes = (
        rates.shape[:-1],
        gammas.shape[:-1],
        np.shape(0 if ratio is None else ratio),
        noise.shape,
    )
    _check_shapes("rates and gammas (but for their last axes), ratio and noise_ratio", *shapes)
    return math_.finish(_rule_loss(rates, gammas, *spectrum.quadrature(degree(layers)), noise))


def _rule_loss(rates: Any, gammas: Any, nodes: Any, weights: Any, noise: Any) -> Any:
    """Loss by a quadrature rule, all terms positive; infinite where a factor overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        P, Q = residual(rates, gammas, nodes)
        loss = np.sum(weights * (P**2 + np.asarray(noise)[..., None] * nodes * Q**2), axis=-1)
        return np.where(np.isnan(loss), np.inf, loss)


def _moment_loss(
    math_: Namespace, rates: list[Any], gammas: list[Any], spectrum: Any, noise: Any
) -> Any:
    """Loss as a combination of moments, in exact or multi-precision arithmetic."""
    with more_digits(math_, 8 * degree(len(rates))):
        one: list[Any] = [math_.convert(1)]
        P, scale = one, one
        for rate, gamma in zip(rates, [*gammas, None], strict=True):
            P = _times(P, [*one, *(-rate * a for a in scale)])
            if gamma is not None:
                root = [*one, *(-gamma * a for a in scale)]
                scale = _times(scale, _times(root, root))
        Q = [-a for a in P[1:]]
        moments = [exact_number(math_, spectrum.moment(k)) for k in range(2 * len(P) - 1)]
        bias, variance = (
            sum((a * m for a, m in zip(_times(p, p), moments[shift:], strict=False)), start=0)
            for p, shift in ((P, 0), (Q, 1))
        )
        total = bias + noise * variance
    return +total


def _times(a: list[Any], b: list[Any]) -> list[Any]:
    """Product of two polynomials, coefficients of the constant first."""
    product = [0 * a[0]] * (len(a) + len(b) - 1)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            product[i + j] = product[i + j] + x * y
    return [c.expand() if hasattr(c, "expand") else c for c in product]


def worst_case_residual(rates: Any, gammas: Any, *, condition_number: Any) -> Any:
    r"""Largest residual :math:`|P|` of GD++ over eigenvalues in :math:`[1/\kappa, 1]`.

    For a top eigenvalue :math:`\nu` instead of 1, pass :math:`\nu\eta_l` and :math:`\nu\gamma_l`.

    Parameters
    ----------
    rates : array (..., L)
        Learning rate of each layer, any real numbers.  At most 8 layers.
    gammas : array (..., L - 1)
        Preconditioning of each layer but the last.
    condition_number : number or array >= 1
        Condition number, the ratio of the largest to the smallest eigenvalue; finite.

    Returns
    -------
    number or array
        Broadcast over the leading axes of rates and gammas and condition_number.  Infinite where a number on
        the way overflows.

    Raises
    ------
    ValueError
        If an argument is outside its range, there is not one gamma less than rates, or there are
        too many layers.
    TypeError
        If an argument is not a number or a NumPy array.

    Notes
    -----
    P is evaluated on 16 D + 1 Chebyshev points, between which no polynomial of degree D exceeds
    the largest value found by more than 0.5 per cent (Ehlich and Zeller, Math. Z. 86 (1964) 41).
    All local maxima that could be the largest are then refined to rounding.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp.losses import worst_case_residual
    >>> round(float(worst_case_residual([1.388, 11.11], [1.352], condition_number=10)), 3)
    0.146
    """
    numpy_namespace(condition_number=condition_number)
    math_, rates, gammas = _given_layers(rates, gammas, condition_number=condition_number)
    condition_number = convert(math_, "condition_number", condition_number)
    require(
        math_,
        "condition_number",
        condition_number,
        lambda v: (v >= 1) & (v < np.inf),
        ">= 1 and finite",
    )
    if not isinstance(math_, ArrayMath):
        raise TypeError(
            f"rates and gammas must be numbers or NumPy arrays, got {rates!r}, {gammas!r}"
        )
    layers = rates.shape[-1]
    _check_layers("rates", layers, _MOST_LAYERS)
    shape = _check_shapes(
        "rates and gammas (but for their last axes) and condition_number",
        *(rates.shape[:-1], gammas.shape[:-1], condition_number.shape),
    )
    count = math.prod(shape)
    rates = np.broadcast_to(rates, (*shape, layers)).reshape(count, layers)
    gammas = np.broadcast_to(gammas, (*shape, layers - 1)).reshape(count, layers - 1)
    lower = np.broadcast_to(1 / condition_number, shape).ravel()
    size = max(1, _ROWS // (16 * degree(layers)))
    parts = [
        _largest(rates[k : k + size], gammas[k : k + size], lower[k : k + size])
        for k in range(0, len(rates), size)
    ]
    return math_.finish(np.concatenate([*parts, np.empty(0)]).reshape(shape))


def _largest(rates: np.ndarray, gammas: np.ndarray, lower: np.ndarray) -> np.ndarray:
    """Largest |P| of each row."""
    with np.errstate(over="ignore", invalid="ignore"):
        row, _, height = peaks(rates, gammas, lower, 0.99)
    largest = np.full(len(rates), -np.inf)
    np.maximum.at(largest, row, np.where(np.isnan(height), np.inf, height))
    # Rows without a number on the grid have no peak.
    return np.where(largest < 0, np.inf, largest)


def optimal_gdpp(
    layers: int,
    *,
    condition_number: Any = None,
    ratio: Any = None,
    context: Any = None,
    dim: Any = None,
    noise_ratio: Any = 0.0,
) -> GDPlusPlus:
    r"""Best rates and preconditioning of GD++ found, where every layer also takes a step.

    Parameters
    ----------
    layers : int >= 1
        Number L of layers: at most 6 for a ratio, 5 for condition_number, 4 for context and dim.
    condition_number : number in [1.01, 1e6]
        Worst case: least `worst_case_residual`.
    ratio : number in [1e-3, 1e3]
        Average case, least `gdpp_loss`: limit at fixed c = d/N.
    context, dim : int >= 1
        Average case at finite N and d, d/N in [1e-3, 1e3].  Give either these, ratio or condition_number.
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
    There are many local minima.  The search follows hundreds of starts and perturbations of what
    it found; the result is not proven to be the global minimum, and ``lower_bound`` tells how much
    could be missed.  It depends on the arguments only.  Searches from six times as many starts
    found worst cases lower by 1 per cent (five layers, condition_number = 10).

    Losses below 1e-26, and largest residuals below 1e-13, are at the level of rounding of the
    rates themselves: neither digits nor minima there mean much.

    In the average case the two-layer optimum folds the spectrum (:math:`\gamma\lambda > 1`),
    unlike the preconditioning of Newton and Schulz.  On one core two layers take 0.1 to 1 s, three
    1 to 2 s, four 3 to 6 s (and 6 s more at finite size), five 10 s, six 30 s.

    References
    ----------
    Module `iclimit.asymptotics.gdpp.losses`; two layers at finite size: Vladymyrov et al., NeurIPS 2024
    (arXiv:2402.14180), Table 1, whose value is a local minimum: see `gdpp_minima`.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp.losses import optimal_gdpp
    >>> best = optimal_gdpp(2, ratio=0.5, noise_ratio=0.05)
    >>> best.rates.round(3), best.gammas.round(3)
    (array([0.504, 3.589]), array([0.496]))
    >>> round(best.loss, 6), round(best.lower_bound, 6)
    (0.101439, 0.101057)
    """
    if condition_number is None:
        return gdpp_minima(layers, ratio=ratio, context=context, dim=dim, noise_ratio=noise_ratio)[
            0
        ]
    if any(value is not None for value in (ratio, context, dim)):
        raise ValueError(
            "give exactly one of condition_number, ratio, and context and dim, got "
            f"condition_number={condition_number}, ratio={ratio}, context={context}, dim={dim}"
        )
    check_integer("layers", layers, least=1)
    _check_layers("layers", layers, _MOST_SEARCHED["condition_number"])
    least, most = _SEARCHED_KAPPAS
    condition_number = _scalar(
        "condition_number",
        condition_number,
        lambda v: (v >= least) & (v <= most),
        f"in [{least:g}, {most:g}]",
    )
    _scalar("noise_ratio", noise_ratio, lambda v: v == 0, "0 in the worst case")
    x = worst_minimum(layers, 1 / condition_number)
    rates, gammas = x[:layers], x[layers:]
    # 1/T_D at (condition_number + 1)/(condition_number - 1), without overflow.
    decay = ((condition_number - 1) / (condition_number**0.5 + 1) ** 2) ** degree(layers)
    loss = worst_case_residual(rates, gammas, condition_number=condition_number)
    return GDPlusPlus(rates, gammas, float(loss), 2 * decay / (1 + decay**2))


def gdpp_minima(
    layers: int, *, ratio: Any = None, context: Any = None, dim: Any = None, noise_ratio: Any = 0.0
) -> list[GDPlusPlus]:
    r"""Local minima of the average loss of GD++ that are found, best first.

    Parameters
    ----------
    layers, ratio, context, dim, noise_ratio
        As in `optimal_gdpp`.

    Returns
    -------
    list of GDPlusPlus
        Distinct strict minima: the gradient vanishes and the Hessian is positive definite.  All
        that any start reaches for two layers, only the best ones for more.  Where the loss is at
        the level of rounding a single point, the best one found.

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

    >>> from iclimit.asymptotics.gdpp.losses import gdpp_minima
    >>> [round(0.5 * 10 * best.loss, 4) for best in gdpp_minima(2, context=20, dim=10)][:2]
    [0.2679, 0.3416]
    """
    check_integer("layers", layers, least=1)
    noise = _scalar(
        "noise_ratio", noise_ratio, lambda v: (v >= 0) & (v <= _SEARCHED_NOISE), "in [0, 1e6]"
    )
    math_ = pick_namespace({"ratio": ratio, "context": context, "dim": dim})
    least, most = _SEARCHED_RATIOS
    if ratio is not None:
        ratio = _scalar(
            "ratio", ratio, lambda c: (c >= least) & (c <= most), f"in [{least:g}, {most:g}]"
        )
    spectrum = _cached_spectrum(math_, ratio, context, dim)
    if not isinstance(spectrum, MarchenkoPastur):
        for name, size in (("context", context), ("dim", dim)):
            check_integer(name, size, least=1)
        if not least <= spectrum.ratio <= most:
            raise ValueError(f"dim/context must be in [{least:g}, {most:g}], got {dim}/{context}")
    setting = "context and dim" if ratio is None else "ratio"
    _check_layers("layers", layers, _MOST_SEARCHED[setting])
    nodes, weights = spectrum.quadrature(degree(layers))
    root = float(spectrum.ratio) ** 0.5
    top = (1 + root) ** 2
    found = average_minima(
        layers, nodes[1:] / top, weights[1:], noise / top, ((1 - root) / (1 + root)) ** 2
    )
    rates, gammas = found[:, :layers] / top, found[:, layers:] / top
    losses = _rule_loss(rates, gammas, nodes, weights, noise)
    bound = float(lower_bound(ArrayMath(np), degree(layers), spectrum, np.asarray(noise)))
    return [
        GDPlusPlus(rates[k], gammas[k], float(losses[k]), bound)
        for k in np.argsort(losses, kind="stable")
    ]


class _CachedWishart(Wishart):
    """Wishart law that computes each rule once: four layers take seconds."""

    def quadrature(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        return _wishart_rule(self.context, self.dim, order)


@lru_cache(maxsize=64)
def _wishart_rule(context: int, dim: int, order: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = Wishart(context=context, dim=dim).quadrature(order)
    nodes.flags.writeable = weights.flags.writeable = False
    return nodes, weights


def _cached_spectrum(
    math_: Namespace, ratio: Any, context: Any, dim: Any
) -> MarchenkoPastur | Wishart:
    spectrum = parse_spectrum(math_, ratio, context, dim)
    if isinstance(spectrum, Wishart):
        return _CachedWishart(context=context, dim=dim)
    return spectrum


def _given_layers(rates: Any, gammas: Any, **others: Any) -> tuple[Namespace, Any, Any]:
    """Convert rates and gammas to arrays, or to lists of multi-precision or symbolic numbers."""
    given, items = {"rates": rates, "gammas": gammas}, dict[str, Any]()
    for name, value in given.items():
        if isinstance(value, (str, bytes)) or not (isinstance(value, Sequence) or np.ndim(value)):
            raise TypeError(f"{name} must be a sequence of numbers, got {value!r}")
        if isinstance(value, Sequence):
            items |= {f"{name}_{k}": item for k, item in enumerate(value)}
    math_ = pick_namespace(others, **items)
    if isinstance(math_, ArrayMath):
        numpy_namespace(**given)
        arrays = {name: convert(math_, name, value) for name, value in given.items()}
        for name, value in arrays.items():
            require(math_, name, value, lambda v: abs(v) < math_.inf, "finite")
        counts = [value.shape[-1] for value in arrays.values()]
        rates, gammas = arrays.values()
    else:
        rates, gammas = (
            [
                convert(math_, name, item)
                for item in (value if isinstance(value, Sequence) else np.ravel(value).tolist())
            ]
            for name, value in given.items()
        )
        for name, values in (("rates", rates), ("gammas", gammas)):
            for value in values:
                require(
                    math_,
                    name,
                    value,
                    lambda v: (v < math_.inf) & (v > -math_.inf),
                    "real, finite",
                )
        counts = [len(rates), len(gammas)]
    if counts[0] == 0:
        raise ValueError(f"rates must be at least one learning rate, got {given['rates']}")
    if counts[1] != counts[0] - 1:
        raise ValueError(
            f"gammas must be one less than the {counts[0]} rates, got {counts[1]} gammas"
        )
    return math_, rates, gammas


def _check_layers(name: str, layers: int, most: int) -> None:
    if layers > most:
        raise ValueError(f"{name} must be of at most {most} layers here, got {layers}")


def _check_shapes(names: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        given = ", ".join(map(str, shapes))
        raise ValueError(f"{names} must have shapes that broadcast, got {given}") from None


def _scalar(name: str, value: Any, allowed: Any, description: str) -> float:
    """Check one number."""
    math_ = numpy_namespace(**{name: value})
    value = convert(math_, name, value)
    if np.ndim(value):
        raise TypeError(f"{name} must be a single number, got {value!r}")
    require(math_, name, value, allowed, description)
    return float(value)
