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
rate :math:`g = |\Lambda^2|_F`, and all else stays.  A start is therefore equivalent to the
balanced, aligned one, :math:`|v| = w_0` and :math:`U_h \propto v_h \Lambda^2`, with the
:math:`w_0` that `effective_init_scale` computes.  This start has the exact reduction to
:math:`D + 1` variables

.. math:: \dot w = \sum_d b_d G_d, \quad \dot b_d = w G_d, \quad
   G_d = \lambda_d^2 (1 - \lambda_d c_d\, w b_d), \quad w(0) = w_0,\
   b(0) = w_0 \frac{\lambda^2}{|\lambda^2|},

with the loss :math:`L_\infty + \sum_d \frac{\lambda_d}{c_d} (1 - \lambda_d c_d w b_d)^2`.  For
general covariance the drop has a tail: directions of small eigenvalue are learned late.  For
:math:`\Lambda = \lambda I` it is one logistic equation for :math:`s = w b_d`, with :math:`A =
\lambda c`:

.. math:: \dot s = 2 \sqrt D\, \lambda^2 s (1 - A s), \qquad s(0) = w_0^2/\sqrt D .

References
----------
Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265), section 3; equation (10) is the case
:math:`\lambda = 1`, :math:`\sigma = 0`.  The reduction for any covariance, the effective start,
its law and the label noise are not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat
from scipy import special

from iclimit.asymptotics.dynamics.inputs import TIME, elementary, excess, given_numbers
from iclimit.asymptotics.numbers import ArrayMath, MpMath, Number, convert, namespace, require

BEFORE_THE_DROP = (
    "so small that all weights start below their final values and the loss has not fallen by the "
    "fraction yet"
)
"""What a drop time requires of init_scale."""


def merged_attention_loss(
    t: Number,
    *,
    dim: Number,
    context: Number,
    init_scale: Number,
    input_variance: Number = 1.0,
    noise_variance: Number = 0.0,
) -> Any:
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
    float64 is accurate to 1e-12 for ``init_scale >= 1e-100``, at any time.  Only where the start
    is close to the end and the final loss is nearly zero, the error can reach
    :math:`10^{-15} \sqrt N`.  Random starts follow the curve with their effective scale up to a
    relative error of their order, since the weights that do not grow stay.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), equation (10).  Module `iclimit.asymptotics.dynamics.merged`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import merged_attention_loss
    >>> merged_attention_loss([0, 2, 4, 9], dim=4, context=31, init_scale=0.1).round(4)
    array([3.9601, 0.5657, 0.5556, 0.5556])
    """
    math_, values = given_numbers(
        t=t,
        dim=dim,
        context=context,
        init_scale=init_scale,
        input_variance=input_variance,
        noise_variance=noise_variance,
    )
    t, D, lam = (values[name] for name in ("t", "dim", "input_variance"))
    require(math_, "t", t, *TIME)
    with math_.quiet():
        fluctuation = excess(lam, D * lam, values["context"], values["noise_variance"])
        # Products in an order that neither overflows nor underflows before the result does.
        final = values["noise_variance"] + D * lam * (fluctuation / (lam + fluctuation))
        gap = D * lam * (lam / (lam + fluctuation))
        exponent = 2 * math_.sqrt(D) * (lam * t) * lam
        # Weights at the start over those at the end, as a square: it may underflow.
        root = values["init_scale"] * math_.sqrt((lam + fluctuation) / math_.sqrt(D))
        grown = (root * elementary(math_, "exp", exponent / 2)) ** 2
        grown = -grown * elementary(math_, "expm1", -exponent)
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
) -> Any:
    r"""Time at which the loss of merged attention has fallen by a fraction, for white inputs.

    With :math:`p = w_0^2 A/\sqrt D` and :math:`g = \sqrt{1 - \mathrm{drop\_fraction}}`,

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
        If an argument is outside its range, the weights start beyond the fraction or beyond their
        final values, or the time is not finite in float64 (input variances below about 1e-154).
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    float64 is accurate to 1e-12 relative, and where the start is almost there, to
    :math:`10^{-15}/(\sqrt D \lambda^2)` absolute.

    References
    ----------
    Inverse of equation (10) of Zhang et al. (arXiv:2501.16265).

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import merged_drop_time
    >>> round(float(merged_drop_time(dim=4, context=31, init_scale=0.1)), 4)
    1.0654
    """
    math_, values = given_numbers(
        drop_fraction=drop_fraction,
        dim=dim,
        context=context,
        init_scale=init_scale,
        input_variance=input_variance,
        noise_variance=noise_variance,
    )
    D, lam = values["dim"], values["input_variance"]
    with math_.quiet():
        A = lam + excess(lam, D * lam, values["context"], values["noise_variance"])
        root = values["init_scale"] * math_.sqrt(A / math_.sqrt(D))
        left = math_.sqrt(1 - values["drop_fraction"])
        gone = values["drop_fraction"] / (1 + left)  # 1 - left
        ahead = gone - root**2
        before = ahead >= 0
        scale = math_.stable(before, *[lambda: values["init_scale"]] * 2)  # of the shape of before
    require(math_, "init_scale", scale, lambda _: before, BEFORE_THE_DROP)
    with math_.quiet():
        small = ahead < left * root**2
        time = math_.stable(
            small,
            lambda: math_.log1p(ahead / (left * root**2)),
            lambda: math_.log(gone / left) + math_.log1p(-(root**2)) - 2 * math_.log(root),
        )
        time = math_.finish(time / (2 * math_.sqrt(D)) / lam / lam)
    finite = "finite in float64: take a larger input_variance, or mpmath numbers"
    require(math_, "drop time", time, lambda v: v < math_.inf, finite)
    return time


def effective_init_scale(value: Any, key_query: Any, *, eigenvalues: Any) -> Any:
    r"""Scale of the balanced start that drops when a given small start does.

    The growing part of the weights is :math:`z = (v + U u)/2` with
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
    >>> float(effective_init_scale([0.3, 0.4], np.zeros((2, 5, 5)), eigenvalues=np.ones(5)))
    0.25
    """
    given = {"value": value, "key_query": key_query, "eigenvalues": eigenvalues}
    math_ = namespace(**given)
    if not isinstance(math_, ArrayMath):
        raise TypeError("value, key_query and eigenvalues must be arrays of real numbers")
    v, U, lam = (convert(math_, name, item) for name, item in given.items())
    for name, array in (("value", v), ("key_query", U)):
        require(math_, name, array, lambda x: (x > -math_.inf) & (x < math_.inf), "finite")
    require(math_, "eigenvalues", lam, lambda x: (x >= 0) & (x < math_.inf), ">= 0 and finite")
    shapes = [tuple(x.shape) for x in (v, U, lam)]
    if v.ndim < 1 or lam.ndim != 1 or U.shape[-3:] != (v.shape[-1], *lam.shape * 2):
        raise ValueError(
            "value, key_query, eigenvalues must have shapes (..., H), (..., H, D, D), (D,), "
            f"got {shapes}"
        )
    xp = array_api_compat.array_namespace(v, U, lam)
    largest = xp.max(lam)
    require(math_, "largest of eigenvalues", largest, lambda x: x > 0, "> 0")
    u = (lam / largest) ** 2
    u = u / math_.sqrt(xp.sum(u**2))
    diagonal = xp.sum(U * xp.eye(lam.shape[0], dtype=xp.float64), axis=-1)
    z = (v + xp.sum(diagonal * u, axis=-1)) / 2
    size = xp.max(xp.abs(z), axis=-1, keepdims=True)
    size = xp.where(size > 0, size, xp.ones_like(size))
    return math_.finish(size[..., 0] * math_.sqrt(xp.sum((z / size) ** 2, axis=-1)))


@dataclass(frozen=True)
class EffectiveInitScaleMoments:
    r"""Moments of :math:`\ln(w_\mathrm{eff}/s)` over random starts of entry size s.

    Attributes
    ----------
    mean : number or array
        Mean, :math:`\psi(H/2)/2`.
    std : number or array
        Standard deviation, :math:`\sqrt{\psi_1(H/2)}/2`.
    """

    mean: Any
    std: Any


def effective_init_scale_moments(heads: Number) -> EffectiveInitScaleMoments:
    r"""Law of the effective scale of a random start, and so of the drop times over seeds.

    If all weights start as independent :math:`N(0, s^2)`, the H entries of :math:`z = (v + U u)/2`
    are independent :math:`N(0, s^2/2)`, for any dimension and covariance, so that
    :math:`w_\mathrm{eff}^2 = \frac{s^2}2 \chi^2_H` is :math:`s^2` times a Gamma variable of shape
    H/2.  For small s a change of the scale shifts the whole loss curve, since the weights grow as
    :math:`e^{g t}`, :math:`g = |\Lambda^2|_F`, until they are no longer small:

    .. math:: t_\mathrm{drop} = \mathrm{const} - \frac{\ln w_\mathrm{eff}}{|\Lambda^2|_F} .

    So drop times over seeds have the standard deviation ``std`` over :math:`|\Lambda^2|_F`
    whatever s is, and their mean is that of a balanced start of scale :math:`s\, e^\mathrm{mean}`.

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
    math_, values = given_numbers(heads=heads)
    half = values["heads"] / 2
    if isinstance(math_, ArrayMath):
        psi, psi1 = (math_.convert(special.polygamma(k, math_.host(half))) for k in (0, 1))
    elif isinstance(math_, MpMath):
        import mpmath

        psi, psi1 = (mpmath.polygamma(k, half) for k in (0, 1))
    else:
        import sympy

        psi, psi1 = (sympy.polygamma(k, half) for k in (0, 1))
    return EffectiveInitScaleMoments(math_.finish(psi / 2), math_.finish(math_.sqrt(psi1) / 2))
