r"""Exponents of in-context learning under power laws, and the shape that spends compute best.

The eigenvalues of the input covariance are :math:`\lambda_k \sim k^{-\nu}`, and the modes hold
:math:`\omega_k \lambda_k \sim k^{-\nu\beta - 1}` of the label variance, so that the eigenvalues
below x hold a share :math:`\sim x^\beta`.  The loss of linear attention after training time t, at
depth L, width N and context length P is, up to constants and interactions,

.. math:: \mathcal L \sim t^{-a_t} + L^{-a_L} + N^{-a_N} + P^{-a_P},

where each exponent is that of one resource while the others are infinite.

*Rotated covariances, tied layers.*  The loss at gain :math:`\gamma` is
:math:`\int e^{-2\gamma x} d\sigma \sim \gamma^{-\beta}`.  Gradient flow,
:math:`\dot\gamma \sim \gamma^{-\beta - 1}`, gives :math:`\gamma \sim t^{1/(2 + \beta)}`; with the
product of five weights, :math:`\gamma = w^5`, it gives :math:`w \sim t^{1/(5\beta + 2)}`.  At
depth L the gain is at most of order L.

*Untied layers.*  Half of the zeros of the residual polynomial remove the L/2 largest eigenvalues;
:math:`L^{-\nu\beta}` of the variance is left on :math:`[0, L^{-\nu}]`, of which Jacobi's
polynomials leave :math:`L^{-2\beta}`.  Where the eigenvalues cannot be hit one by one, only the
latter factor remains.  The first argument is no proof; `untied_depth` confirms it.

*Width.*  Infinite time and depth project the task on N random directions, orthogonally in the
metric of :math:`\Sigma`, whatever the steps.  With :math:`\sum_k \lambda_k/(\lambda_k + \chi) =
N` what is missed is

.. math:: \sum_k \omega_k \lambda_k \frac{\chi}{\lambda_k + \chi} \sim N^{-\nu \min(\beta, 1)} .

*Context.*  The same with P context pairs gives the error of interpolation without noise,

.. math:: \frac1{1 - g} \sum_k \omega_k \lambda_k \Bigl(\frac{\chi}{\lambda_k + \chi}\Bigr)^2
   \sim P^{-\nu \min(\beta, 2)} .

*Fixed covariance.*  The gains of the modes are free, so that depth is not needed:
:math:`\gamma_k = \ln(1 + 2 c\, \omega_k \lambda_k^3 t)/(2\lambda_k)` at infinite depth and
:math:`\mathcal L = \sum_k \omega_k \lambda_k/(1 + 2 c\, \omega_k \lambda_k^3 t)`.  Modes up to
:math:`k^{\nu\beta + 2\nu + 1} \sim t` have been learned.

*Compute.*  A training of t steps costs :math:`C \sim t P^2 N^2 L`.  If all terms of the loss are
equal, :math:`1/a_C = 1/a_t + 2/a_P + 2/a_N + 1/a_L` and :math:`\mathcal L \sim C^{-a_C}`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from iclimit.asymptotics.checks import checked
from iclimit.asymptotics.numbers import Number, Value
from iclimit.checks import check_choice
from iclimit.results import Result

SETTINGS = ("rrs", "untied", "untied_blurred", "fs")


@dataclass(frozen=True, repr=False)
class ScalingExponents(Result):
    r"""Exponents of the loss, of the number system of the arguments; None where none is known.

    Attributes
    ----------
    time : number or array
        :math:`a_t`: training time, gradient flow of the merged matrices :math:`\gamma`.
    time_of_weights : number or array
        The same where the five weight matrices behind :math:`\gamma` are trained.
    depth : number or array
        :math:`a_L`; ``inf`` where depth is not needed.
    width : number or array
        :math:`a_N`.
    context : number or array
        :math:`a_P`.
    compute : number or array
        :math:`a_C` of the training compute :math:`t P^2 N^2 L`.
    inference : number or array
        The same without training time: of the compute :math:`P^2 N^2 L` of one batch, for models
        that are trained to their optimum.
    depth_of_width : number or array
        Exponent x of the best depth at a given width, :math:`L \sim N^x`.
    context_of_width : number or array
        Exponent of the best context length, :math:`P \sim N^x`.
    time_of_width : number or array
        Exponent of the best training time, :math:`t \sim N^x`.
    """

    time: Value
    time_of_weights: Value
    depth: Value
    width: Value
    context: Value
    compute: Value
    inference: Value
    depth_of_width: Value
    context_of_width: Value
    time_of_width: Value


def scaling_exponents(*, nu: Number, beta: Number, setting: str = "rrs") -> ScalingExponents:
    r"""Exponents of the loss of linear attention in time, depth, width, context and compute.

    Parameters
    ----------
    nu : number or array > 0
        Exponent of the eigenvalues, :math:`\lambda_k \sim k^{-\nu}`.
    beta : number or array > 0
        Exponent of the label variance: the modes hold :math:`k^{-\nu\beta - 1}` of it.
    setting : {"rrs", "untied", "untied_blurred", "fs"}
        ``"rrs"``: covariances that are rotated afresh in each context, tied layers.
        ``"untied"``: the best untied layers for such covariances, at infinite context.
        ``"untied_blurred"``: the same where the eigenvalues cannot be hit one by one, because the
        spectrum is continuous or a finite context blurs it.
        ``"fs"``: one fixed covariance.

    Returns
    -------
    ScalingExponents
        NumPy and other arrays, mpmath numbers, SymPy expressions; None where no exponent is
        known: of time for untied layers, whose training starts at a saddle, and of width and
        context for ``"fs"``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    The exponents hold without label noise and for a loss below that of the null predictor, each
    where the other resources are abundant.

    - The published exponent :math:`\nu\beta` of width holds for beta <= 1 and that of context for
      beta <= 2; beyond, the largest eigenvalues limit the loss (Notes of the module).
    - ``"untied_blurred"`` is exact for the depth of a continuous power law
      (`untied_power_law_loss`).  For a finite context it is a heuristic: local exponents of 1.4
      to 2.1 times beta were measured up to depth 16.
    - The sum of terms is an approximation; `depth_loss` has the numbers.

    References
    ----------
    ``"rrs"``: Bordelon, Letey, Pehlevan, arXiv:2510.01098, version 1.  ``"fs"`` in time: module
    `iclimit.asymptotics.depth.exponents`; version 1 prints beta/(nu + nu beta + 1).  Others:
    the same module.  As exponents of iterative methods, (2 + nu) beta is that of conjugate
    gradients (Velikanov and Yarotsky, arXiv:2202.00992).

    Examples
    --------
    >>> from iclimit.asymptotics.depth import scaling_exponents
    >>> tied = scaling_exponents(nu=1.0, beta=0.5)
    >>> float(tied.depth), float(tied.depth_of_width), round(float(tied.compute), 4)
    (0.5, 1.0, 0.0667)
    >>> from sympy import symbols
    >>> nu, beta = symbols("nu beta", positive=True)
    >>> scaling_exponents(nu=nu, beta=beta, setting="untied").depth
    beta*(nu + 2)
    >>> scaling_exponents(nu=nu, beta=beta, setting="fs").time
    beta*nu/(beta*nu + 2*nu + 1)
    """
    check_choice("setting", setting, SETTINGS)
    math_, values = checked(nu=nu, beta=beta)
    # What depends on one of the two has the shape of both.
    v = values.nu + 0 * values.beta
    b = values.beta + 0 * values.nu
    tied = setting == "rrs"
    fixed = setting == "fs"
    exponents: dict[str, Any] = dict.fromkeys(field.name for field in fields(ScalingExponents))
    if fixed:
        exponents["time"] = v * b / (v * b + 2 * v + 1)
        exponents["depth"] = math_.inf + 0 * v
    else:
        width = v * math_.where(b <= 1, lambda: b, lambda: 1 + 0 * b)
        context = v * math_.where(b <= 2, lambda: b, lambda: 2 + 0 * b)
        depth = {"rrs": b, "untied": (2 + v) * b, "untied_blurred": 2 * b}[setting]
        spent = 2 / context + 2 / width + 1 / depth
        exponents |= {
            "depth": depth,
            "width": width,
            "context": context,
            "inference": 1 / spent,
            "depth_of_width": width / depth,
            "context_of_width": width / context,
        }
    if tied:
        time = b / (2 + b)
        exponents |= {
            "time": time,
            "time_of_weights": 5 * b / (5 * b + 2),
            "compute": 1 / (spent + 1 / time),
            "time_of_width": width / time,
        }
    known = {name: value for name, value in exponents.items() if value is not None}
    return ScalingExponents(**exponents | {k: math_.finish(value) for k, value in known.items()})
