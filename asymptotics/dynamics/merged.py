r"""Training of linear attention with merged key and query: one abrupt drop of the loss.

The model predicts the label of a query as :math:`\hat y = \beta^\top U x_q`,
:math:`U = \sum_h v_h U_h`, from :math:`\beta = \frac1N \sum_n y_n x_n`.  With inputs
:math:`N(0, \Lambda)`, tasks :math:`N(0, I)` and label noise of variance :math:`\sigma^2`,
:math:`E \beta w^\top = \Lambda`, and Wick's theorem gives :math:`E \beta \beta^\top` the
eigenvalues

.. math:: \lambda_d^2 c_d, \qquad
   c_d = 1 + \frac1N \Bigl(1 + \frac{\operatorname{tr} \Lambda + \sigma^2}{\lambda_d}\Bigr),

in the basis of :math:`\Lambda`.  The loss is :math:`\operatorname{tr} \Lambda + \sigma^2 - 2
\operatorname{tr} \Lambda^2 U + \operatorname{tr} U^\top E[\beta \beta^\top] U \Lambda`, without
1/2, of a noisy query label; training is the flow :math:`\tau \dot W = -\frac12 \partial_W L`, with
times in units of :math:`\tau`.

*Small start.*  As long as the weights are small, v and the component of :math:`U_h` along
:math:`u = \operatorname{vec}(\Lambda^2)/|\Lambda^2|_F` grow together as :math:`e^{g t}` with the
rate :math:`g = |\Lambda^2|_F`.  All other weights stay as they are.  A small start is therefore
equivalent to a balanced and aligned one, :math:`|v| = w_0` and :math:`U_h \propto v_h \Lambda^2`;
`effective_init_scale` computes its :math:`w_0`.  From the balanced start the flow reduces exactly
to :math:`D + 1` variables

.. math:: \dot w = \sum_d b_d G_d, \quad \dot b_d = w G_d, \quad
   G_d = \lambda_d^2 (1 - \lambda_d c_d\, w b_d), \quad w(0) = w_0,\
   b(0) = w_0 \frac{\lambda^2}{|\lambda^2|},

with the loss :math:`L_\infty + \sum_d \frac{\lambda_d}{c_d} (1 - \lambda_d c_d w b_d)^2`.  For
general covariance the drop has a tail: directions of small eigenvalue are learned late.  For
:math:`\Lambda = \lambda I` it is one logistic equation for :math:`s = w b_d`, with :math:`A =
\lambda c`:

.. formula: flow

.. math:: \dot s = 2 \sqrt D\, \lambda^2 s (1 - A s), \qquad s(0) = w_0^2/\sqrt D .

References
----------
Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265), section 3; equation (10) is the case
:math:`\lambda = 1`, :math:`\sigma = 0`.  The reduction for any covariance, the effective start,
its law and the label noise are not in the paper.

.. symbols:
   s: value weight times key-query weight, of each direction
   A: λ(1 + (1 + D + σ²/λ)/N): s ends at 1/A
   \lambda: variance of the inputs
   t: time, in units of the inverse learning rate
   p: initial s over its final value, w₀²A/√D
   g: √(1 − f), f being the fraction of the drop
"""

import importlib
from dataclasses import dataclass

import array_api_compat
from scipy import special

from iclimit.asymptotics.checks import check_range, checked
from iclimit.asymptotics.dynamics.plateaus import excess
from iclimit.asymptotics.numbers import (
    ArrayMath,
    MpMath,
    Number,
    Value,
    convert,
    namespace,
    require,
)
from iclimit.results import Result

# Condition on init_scale under which a drop time exists.
BEFORE_THE_DROP = (
    "so small that all weights start below their final values and the loss has not yet fallen by "
    "drop_fraction"
)


def merged_attention_loss(
    t: Number,
    *,
    dim: Number,
    context: Number,
    init_scale: Number,
    input_variance: Number = 1.0,
    noise_variance: Number = 0.0,
) -> Value:
    r"""Loss of merged attention during training, for white inputs.

    Parameters
    ----------
    t : number or array >= 0
        Training time in units of :math:`\tau`, infinity included.
    dim : number or array >= 1
        Dimension D.
    context : number or array >= 1
        Number N of context pairs.
    init_scale : number or array > 0
        Norm :math:`w_0` of either layer at the start, which is balanced and aligned; the
        `effective_init_scale` of a random one.
    input_variance : number or array > 0
        Variance :math:`\lambda` of the input coordinates.
    noise_variance : number or array >= 0
        Variance of the label noise.

    Returns
    -------
    number or array
        Mean squared error on a noisy query label (no 1/2); NumPy and other arrays, mpmath numbers,
        SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    float64 is accurate to 1e-12 for ``init_scale >= 1e-100``, at any time.  The error can reach
    :math:`10^{-15} \sqrt N` only if the start is close to the end and the final loss is nearly
    zero.  A random start of small scale s follows the curve of its effective scale up to a
    relative error of order s, as the weights that do not grow stay.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), equation (10).  Module `iclimit.asymptotics.dynamics.merged`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import merged_attention_loss
    >>> merged_attention_loss([0, 2, 4, 9], dim=4, context=31, init_scale=0.1).round(4)
    array([3.9601, 0.5657, 0.5556, 0.5556])
    """
    math_, values = checked(
        t=t,
        dim=dim,
        context=context,
        init_scale=init_scale,
        input_variance=input_variance,
        noise_variance=noise_variance,
    )
    D = values.dim
    lam = values.input_variance
    noise = values.noise_variance
    with math_.quiet():
        fluctuation = excess(lam, D * lam, values.context, noise)
        # Products in an order that neither overflows nor underflows before the result does.
        final = noise + D * lam * (fluctuation / (lam + fluctuation))
        gap = D * lam * (lam / (lam + fluctuation))
        exponent = 2 * math_.sqrt(D) * (lam * values.t) * lam
        # Root of the ratio of the weights at the start to those at the end: the ratio itself may
        # underflow.
        root = values.init_scale * math_.sqrt((lam + fluctuation) / math_.sqrt(D))
        grown = (root * math_.exp(exponent / 2)) ** 2
        grown = -grown * math_.expm1(-exponent)
        missing = (1 - root**2) / (1 + grown)
        return math_.finish(final + (math_.sqrt(gap) * missing) ** 2)


def merged_drop_time(
    drop_fraction: Number = 0.5,
    *,
    dim: Number,
    context: Number,
    init_scale: Number,
    input_variance: Number = 1.0,
    noise_variance: Number = 0.0,
) -> Value:
    r"""Time at which the loss of merged attention has fallen by a fraction, for white inputs.

    With :math:`p = w_0^2 A/\sqrt D` and :math:`g = \sqrt{1 - \mathrm{drop\_fraction}}`,

    .. formula: drop_time

    .. math:: t = \frac1{2 \sqrt D \lambda^2} \ln \frac{(1 - g)(1 - p)}{g\, p} .

    Parameters
    ----------
    drop_fraction : number or array in (0, 1)
        Part of the way from the loss at zero weights to the final loss.
    dim, context, init_scale, input_variance, noise_variance
        As in `merged_attention_loss`.

    Returns
    -------
    number or array
        Time in units of :math:`\tau`; NumPy and other arrays, mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range, if the loss has fallen by more than the fraction at
        the start, if the weights start beyond their final values, or if the time is not finite in
        float64 (for input variances below about 1e-154).
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    float64 has a relative error below 1e-12.  If the drop comes almost at the start, the absolute
    error is about :math:`10^{-15}/(\sqrt D \lambda^2)`.

    References
    ----------
    Inverse of equation (10) of Zhang et al. (arXiv:2501.16265).

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import merged_drop_time
    >>> round(float(merged_drop_time(dim=4, context=31, init_scale=0.1)), 4)
    1.0654
    """
    math_, values = checked(
        drop_fraction=drop_fraction,
        dim=dim,
        context=context,
        init_scale=init_scale,
        input_variance=input_variance,
        noise_variance=noise_variance,
    )
    part = values.drop_fraction
    D = values.dim
    scale = values.init_scale
    lam = values.input_variance
    with math_.quiet():
        A = lam + excess(lam, D * lam, values.context, values.noise_variance)
        root = scale * math_.sqrt(A / math_.sqrt(D))
        remaining = math_.sqrt(1 - part)
        gone = part / (1 + remaining)  # 1 - remaining
        ahead = gone - root**2
        before = ahead >= 0
        shown = math_.stable(before, lambda: scale, lambda: scale)  # of the shape of before
    require(math_, "init_scale", shown, lambda _: before, BEFORE_THE_DROP)
    with math_.quiet():
        small = ahead < remaining * root**2
        time = math_.stable(
            small,
            lambda: math_.log1p(ahead / (remaining * root**2)),
            lambda: math_.log(gone / remaining) + math_.log1p(-(root**2)) - 2 * math_.log(root),
        )
        time = math_.finish(time / (2 * math_.sqrt(D)) / lam / lam)
    finite = "finite in float64: take a larger input_variance, or mpmath numbers"
    require(math_, "drop time", time, lambda v: v < math_.inf, finite)
    return time


def effective_init_scale(value: Number, *, key_query: Number, eigenvalues: Number) -> Value:
    r"""Scale of the balanced start whose loss drops at the same time as that of a given start.

    The given start must be small.  The growing part of its weights is :math:`z = (v + U u)/2` with
    :math:`u = \operatorname{vec}(\Lambda^2)/|\Lambda^2|_F`; the scale is :math:`|z|`.

    Parameters
    ----------
    value : array (..., H)
        Value weights :math:`v_h` of the heads.
    key_query : array (..., H, D, D)
        Merged key and query matrices :math:`U_h` in the eigenbasis of :math:`\Lambda`.
    eigenvalues : array (D,)
        Eigenvalues of :math:`\Lambda`, >= 0, in the order of that basis.

    Returns
    -------
    array (...)
        :math:`|v + U u|/2`; NumPy or other arrays.

    Raises
    ------
    ValueError
        If shapes do not match, or a number is not finite.
    TypeError
        If an argument is not an array of real numbers.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.merged`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.dynamics import effective_init_scale
    >>> zeros = np.zeros((2, 5, 5))
    >>> float(effective_init_scale([0.3, 0.4], key_query=zeros, eigenvalues=np.ones(5)))
    0.25
    """
    math_ = namespace({"value": value, "key_query": key_query, "eigenvalues": eigenvalues})
    if not isinstance(math_, ArrayMath):
        raise TypeError("value, key_query and eigenvalues must be arrays of real numbers")
    v = convert(math_, "value", value)
    U = convert(math_, "key_query", key_query)
    lam = convert(math_, "eigenvalues", eigenvalues)
    check_range(math_, "value", v, "(-inf, inf)")
    check_range(math_, "key_query", U, "(-inf, inf)")
    check_range(math_, "eigenvalues", lam, "[0, inf)")
    shapes = [tuple(x.shape) for x in (v, U, lam)]
    if v.ndim < 1 or lam.ndim != 1 or U.shape[-3:] != (v.shape[-1], *lam.shape * 2):
        raise ValueError(
            "value, key_query, eigenvalues must have shapes (..., H), (..., H, D, D), (D,), "
            f"got {shapes}"
        )
    xp = array_api_compat.array_namespace(v, U, lam)
    largest = xp.max(lam)
    check_range(math_, "largest of eigenvalues", largest, "(0, inf)")
    u = (lam / largest) ** 2
    u = u / math_.sqrt(xp.sum(u**2))
    diagonal = xp.sum(U * xp.eye(lam.shape[0], dtype=xp.float64), axis=-1)
    z = (v + xp.sum(diagonal * u, axis=-1)) / 2
    size = xp.max(xp.abs(z), axis=-1, keepdims=True)
    size = xp.where(size > 0, size, xp.ones_like(size))
    return math_.finish(size[..., 0] * math_.sqrt(xp.sum((z / size) ** 2, axis=-1)))


@dataclass(frozen=True, repr=False)
class EffectiveInitScaleMoments(Result):
    r"""Moments of :math:`\ln(w_\mathrm{eff}/s)` over random starts of entry size s.

    Attributes
    ----------
    mean : number or array
        Mean, :math:`\psi(H/2)/2`.
    std : number or array
        Standard deviation, :math:`\sqrt{\psi_1(H/2)}/2`.
    """

    mean: Value
    std: Value


def effective_init_scale_moments(heads: Number) -> EffectiveInitScaleMoments:
    r"""Law of the effective scale of a random start, and so of the drop times over seeds.

    Let all weights start as independent :math:`N(0, s^2)`.  Then the H entries of
    :math:`z = (v + U u)/2` are independent :math:`N(0, s^2/2)` for any dimension and covariance,
    so that :math:`w_\mathrm{eff}^2 = \frac{s^2}2 \chi^2_H` is :math:`s^2` times a Gamma variable
    of shape H/2.  A small start grows as :math:`e^{g t}`, :math:`g = |\Lambda^2|_F`, until it is
    no longer small.  Another scale therefore only shifts the loss curve in time:

    .. math:: t_\mathrm{drop} = \mathrm{const} - \frac{\ln w_\mathrm{eff}}{|\Lambda^2|_F} .

    So the drop times of different seeds have the standard deviation
    ``std`` :math:`/ |\Lambda^2|_F` for any small s.  Their mean is the drop time of a balanced
    start of scale :math:`s\, e^\mathrm{mean}`.

    Parameters
    ----------
    heads : number or array >= 1
        Number H of heads.

    Returns
    -------
    EffectiveInitScaleMoments
        With fields ``mean`` and ``std`` of :math:`\ln(w_\mathrm{eff}/s)`; NumPy and other arrays,
        mpmath numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If heads is outside its range.
    TypeError
        If heads is not a number.

    References
    ----------
    Module `iclimit.asymptotics.dynamics.merged`.

    Examples
    --------
    >>> from sympy import Integer
    >>> from iclimit.asymptotics.dynamics import effective_init_scale_moments
    >>> effective_init_scale_moments(Integer(2))
    EffectiveInitScaleMoments(mean=-EulerGamma/2, std=sqrt(6)*pi/12)
    >>> round(float(effective_init_scale_moments(8).std), 4)
    0.2664
    """
    math_, values = checked(heads=heads)
    half = values.heads / 2
    if isinstance(math_, ArrayMath):
        psi = math_.convert(special.polygamma(0, math_.host(half)))
        psi1 = math_.convert(special.polygamma(1, math_.host(half)))
    else:
        library = importlib.import_module("mpmath" if isinstance(math_, MpMath) else "sympy")
        psi = library.polygamma(0, half)
        psi1 = library.polygamma(1, half)
    return EffectiveInitScaleMoments(math_.finish(psi / 2), math_.finish(math_.sqrt(psi1) / 2))
