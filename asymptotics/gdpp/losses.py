r"""Test error of GD++ with any number of layers, in the mean and in the worst case.

GD++ (von Oswald et al., ICML 2023) is gradient descent that also preconditions the inputs.  With
inputs :math:`Z_0 = X` and residuals :math:`r_0 = y` of a context of N pairs in dimension d, layer
l takes a step of rate :math:`\eta_l` and at the same time preconditions with :math:`\gamma_l`:

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

*Average case.*  For inputs, tasks and noise as in `iclimit.asymptotics.descent.schedules` the
loss of a noiseless query relative to the null predictor is

.. math:: \mathcal L = \int \bigl(P^2 + v \lambda Q^2\bigr) d\mu, \qquad
   v = \frac{\sigma^2}{N a^2},

with the mean spectral measure :math:`\mu` of H.  From three layers on, rare contexts dominate this
mean at finite size: P is a polynomial of degree 13 or more, and :math:`\mu` has no upper edge.  A
sample lacks these contexts, so rates that are chosen on a sample have a far larger mean loss than
the sample shows.  For three layers without noise at N = 20, d = 10, rates chosen on two million
eigenvalues have a loss of .0024 on them and a mean loss of order 1; the rates of least mean loss
have .0034 on both.

*Worst case.*  The largest :math:`|P|` for eigenvalues within a factor :math:`\kappa`, the
condition number.

Both cases have lower bounds: no GD++ does better than the best polynomial of degree D with
P(0) = 1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import CheckedValues, Systems, checked
from iclimit.asymptotics.descent.schedules import more_digits, parse_spectrum, polynomial_loss
from iclimit.asymptotics.gdpp.search import degree, peaks, residual
from iclimit.asymptotics.numbers import ArrayMath, Namespace, Number, Value

# Most layers in the limit and over an interval, where the degree is 3280.
_MOST_LAYERS = 8

# Most layers at finite size (degree 40).  The exact rule takes 0.1 s for three layers, 6 s for
# four and many minutes for five.
_MOST_LAYERS_FINITE = 4

# Most layers for inputs that are not Gaussian, of whose spectra eight moments are known.
_MOST_LAYERS_OF_A_LAW = 2

# Grid points held at a time.
_ROWS = 2_000_000


def gdpp_loss(
    rates: Number,
    *,
    gammas: Number,
    ratio: Number | None = None,
    context: Number | None = None,
    dim: Number | None = None,
    input_law: str = "gaussian",
    noise_ratio: Number = 0.0,
) -> Value:
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
        Exact at finite N and d.
    input_law : {"gaussian", "uniform", "laplace"}
        Law of the independent coordinates at finite size, N(0, 1), U(-1, 1) or exp(-\|x\|)/2; at
        most two layers if not Gaussian.  Rates and gammas are for these inputs.
    noise_ratio : number or array >= 0
        Noise variance over (task variance times N), :math:`v = \sigma^2/(N a^2)`.

    Returns
    -------
    number or array
        Broadcast over the leading axes of rates and gammas, ratio and noise_ratio.  Infinite where
        an intermediate number overflows.

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
    integrand.  The factors :math:`1 - \eta_l \lambda_l` of P are small when the spectrum is well
    preconditioned, and the rounding of the rates alone changes them: the relative error is about
    :math:`10^{-16}/\sqrt{\mathcal L}` for a small loss :math:`\mathcal L`.
    At finite size the rule takes 0.1 s for three layers and several seconds for four, once for
    each size.  Multi-precision and symbolic numbers use the moments of the measure.

    References
    ----------
    GD++: von Oswald et al., ICML 2023 (arXiv:2212.07677); layers with rates of their own:
    Vladymyrov et al., NeurIPS 2024 (arXiv:2402.14180).

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import gdpp_loss
    >>> round(float(gdpp_loss([0.5, 3.0], gammas=[0.5], ratio=0.5)), 6)
    0.059692
    >>> round(float(gdpp_loss([0.5, 3.0], gammas=[0.5], context=20, dim=10)), 6)
    0.121258
    """
    math_, values = _parse_layers(
        rates, gammas, ratio=ratio, noise_ratio=noise_ratio, context=context, dim=dim
    )
    rates = values.rates
    gammas = values.gammas
    noise = values.noise_ratio
    spectrum = parse_spectrum(math_, values.ratio, context, dim, input_law)
    layers = rates.shape[-1] if isinstance(math_, ArrayMath) else len(rates)
    check_layers("rates", layers, _MOST_LAYERS if ratio is not None else most_layers(input_law))
    if not isinstance(math_, ArrayMath):
        return math_.finish(_moment_loss(math_, rates, gammas, spectrum, noise))
    return math_.finish(rule_loss(rates, gammas, *spectrum.quadrature(degree(layers)), noise))


def rule_loss(
    rates: Number, gammas: Number, nodes: Number, weights: Number, noise: Number
) -> Value:
    """Loss by a quadrature rule, whose terms are all positive; infinite where one overflows."""
    with np.errstate(over="ignore", invalid="ignore"):
        P, Q = residual(rates, gammas, nodes)
        loss = np.sum(weights * (P**2 + np.asarray(noise)[..., None] * nodes * Q**2), axis=-1)
        return np.where(np.isnan(loss), np.inf, loss)


def _moment_loss(
    math_: Namespace, rates: list[Value], gammas: list[Value], spectrum: Any, noise: Value
) -> Value:
    """Loss as a combination of moments, in exact or multi-precision arithmetic."""
    with more_digits(math_, 8 * degree(len(rates))):
        unit: list[Any] = [math_.convert(1)]
        P = unit
        scale = unit
        for rate, gamma in zip(rates, [*gammas, None], strict=True):
            P = _times(P, [*unit, *(-rate * a for a in scale)])
            if gamma is not None:
                root = [*unit, *(-gamma * a for a in scale)]
                scale = _times(scale, _times(root, root))
        total = polynomial_loss(math_, P, spectrum, noise)
    return +total


def _times(a: list[Value], b: list[Value]) -> list[Value]:
    """Product of two polynomials, coefficients of the constant first."""
    return [c.expand() if hasattr(c, "expand") else c for c in np.convolve(a, b)]


def worst_case_residual(rates: Number, *, gammas: Number, condition_number: Number) -> Value:
    r"""Largest residual :math:`|P|` of GD++ over eigenvalues within a condition number.

    The largest eigenvalue is 1.  For a largest eigenvalue :math:`\nu`, pass :math:`\nu\eta_l` and
    :math:`\nu\gamma_l`.

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
        Broadcast over the leading axes of rates and gammas and condition_number.  Infinite where
        an intermediate number overflows.

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
    >>> from iclimit.asymptotics.gdpp import worst_case_residual
    >>> round(float(worst_case_residual([1.388, 11.11], gammas=[1.352], condition_number=10)), 3)
    0.146
    """
    math_, values = _parse_layers(
        rates, gammas, systems="numpy", condition_number=condition_number
    )
    rates = values.rates
    gammas = values.gammas
    condition_number = values.condition_number
    layers = rates.shape[-1]
    check_layers("rates", layers, _MOST_LAYERS)
    shape = np.broadcast_shapes(rates.shape[:-1], gammas.shape[:-1], condition_number.shape)
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


def most_layers(input_law: str) -> int:
    """Most layers at finite size."""
    return _MOST_LAYERS_FINITE if input_law == "gaussian" else _MOST_LAYERS_OF_A_LAW


def check_layers(name: str, layers: int, most: int) -> None:
    """Raise a ValueError if there are more layers than can be computed."""
    if layers > most:
        raise ValueError(f"{name} must be of at most {most} layers here, got {layers}")


def _parse_layers(
    rates: Value, gammas: Value, *, systems: Systems = "every", **others: Any
) -> tuple[Namespace, CheckedValues]:
    """Number system, and checked arguments.

    Rates and gammas come as arrays with a last axis of layers, or as lists.
    """
    math_, values = checked(
        systems=systems,
        sequences=("rates", "gammas"),
        may_be_empty=("gammas",),
        optional=("ratio", "context", "dim"),
        ranges={"rates": "(-inf, inf)", "gammas": "(-inf, inf)"},
        rates=rates,
        gammas=gammas,
        **others,
    )
    layers = len(values.rates)
    if len(values.gammas) != layers - 1:
        raise ValueError(
            f"gammas must be one less than the {layers} rates, got {len(values.gammas)} gammas"
        )
    if isinstance(math_, ArrayMath):
        values.rates = np.stack(values.rates, -1)
        values.gammas = np.stack(values.gammas, -1) if values.gammas else np.empty(0)
    return math_, values
