r"""Derivatives of the ICL error for structured data.

The error is affine in the test covariance,

.. math:: e_{ICL} = \rho' + \frac{\rho'}{\alpha'} N + \frac1d \sum_j t_j\, \sigma_j
   \Bigl(K_j + \frac{N}{\alpha'}\Bigr),

where the response N to context noise and the costs :math:`K_j` depend on training only.

Derivatives in :math:`\kappa` and in the training spectrum are exact: the solution of the fixed
point is differentiated implicitly, and the errors along the tangent by a complex step.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from iclimit.asymptotics.numbers import ArrayMath, Number
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum
from iclimit.asymptotics.pretraining.structured import response_at, training_response
from iclimit.asymptotics.pretraining.structured_fixed_point import (
    Atoms,
    Point,
    Rows,
    Settings,
    check_settings,
    finite_context,
    solve,
    solve_settings,
)

_STEP = 1e-30
"""Complex step: its square is far below rounding error."""


def direction_slopes(
    *,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    ridge: float = 0.0,
    spectrum: JointSpectrum,
    test_alpha: float | None = None,
) -> np.ndarray:
    """Increase of the ICL error with the mean variance of test tasks along each atom.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, spectrum, test_alpha
        As in `structured_errors`, numbers only, with finite alpha.  The test spectrum does not
        matter.

    Returns
    -------
    ndarray (m,)
        Derivatives of the error in ``weight * test``; all positive.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, direction_slopes
    >>> spectrum = JointSpectrum.of_matrices([1.6, 0.4])
    >>> slopes = direction_slopes(tau=2.0, alpha=2.0, kappa=2.0, rho=0.1, spectrum=spectrum)
    >>> spectrum.task, slopes.round(2)
    (array([0.4, 1.6]), array([1.24, 0.68]))
    """
    settings = check_settings(tau, finite_context(alpha), kappa, rho, ridge, test_alpha)
    return slopes_at(spectrum, settings)


def slopes_at(spectrum: JointSpectrum, settings: Settings) -> np.ndarray:
    """Slopes along each atom at one checked setting."""
    require_point(settings)
    response = training_response(spectrum, settings)
    noise = response.per_context_noise * settings.per_test_context
    return spectrum.inputs * (response.cost[0] + noise)


def diversity_slope(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    spectrum: JointSpectrum,
    test_alpha: Number | None = None,
    test_rho: Number | None = None,
) -> Any:
    r"""Derivative of the ICL error in task diversity kappa; positive where more tasks hurt.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, spectrum, test_alpha, test_rho
        As in `structured_errors`, with finite alpha.

    Returns
    -------
    float or ndarray
        :math:`\partial e_{ICL}/\partial\kappa`, exact; 0 at kappa = inf.

    Raises
    ------
    ValueError
        If an argument is outside its range, alpha is infinite, or tau = 1 with ridge = 0, where
        the error is infinite.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, diversity_slope
    >>> spectrum = JointSpectrum.of_matrices([1.9, 0.1], test_covariance=[1.0, 1.0])
    >>> slopes = diversity_slope(
    ...     tau=1.1, alpha=3.0, kappa=[0.1, 0.5, 2.0], rho=0.01, spectrum=spectrum
    ... )
    >>> slopes > 0
    array([ True,  True, False])
    """
    settings = check_settings(tau, finite_context(alpha), kappa, rho, ridge, test_alpha, test_rho)
    if np.any((settings.tau == 1) & (settings.ridge == 0)):
        raise ValueError("tau must not be 1 with ridge = 0: the error is infinite there")
    atoms = Atoms.of(spectrum)

    def slopes(point: Point) -> tuple[np.ndarray, np.ndarray]:
        rows = Rows.at(atoms, point.kappa, point.q, point.xi, point.s)
        still = np.zeros_like(point.tau)
        moved = _moved(atoms, point, rows, point.s - 1, still, dkappa=1.0)
        return _test_slopes(spectrum, atoms, moved)

    noise, misalignment = solve_settings(atoms, settings, slopes)
    slope = noise * settings.test_noise(spectrum) + misalignment
    return ArrayMath(np).finish(slope.reshape(settings.shape))


def task_gradient(spectrum: JointSpectrum, settings: Settings) -> np.ndarray:
    """Derivatives of the ICL error at one setting in the task eigenvalues, (m,)."""
    atoms = Atoms.of(spectrum)
    with np.errstate(all="ignore"):
        point = solve(atoms, settings.training)
        rows = Rows.at(atoms, point.kappa, point.q, point.xi, point.s)
        F, s = rows.F[0], point.s[0][:, None]
        delta = point.xi[0] * atoms.inverse_inputs
        dT = np.diag(spectrum.inputs)
        dq = dT @ spectrum.weight * settings.per_context
        by_T = (s * F * rows.u[0] * spectrum.weight) @ dT
        explicit = by_T.T - np.outer(dq, atoms.mean(rows.signal[0] * F))
        lost_T = atoms.row_weight @ (delta * F**2 * s * spectrum.weight) @ dT
        lost = lost_T + dq * (atoms.row_weight @ atoms.mean(delta * F**2))
        point, rows = (_repeated(each, len(spectrum.task)) for each in (point, rows))
        moved = _moved(atoms, point, rows, explicit, lost, dq=dq)
        shifted = dataclasses.replace(atoms, T=(atoms.T + 1j * _STEP * dT)[:, None, :])
        noise, misalignment = _test_slopes(spectrum, shifted, moved)
    return noise * settings.test_noise(spectrum) + misalignment


def _repeated(values: Any, count: int) -> Any:
    """Fields of a solution of one setting, repeated along their first axis."""
    names = [field.name for field in dataclasses.fields(values)]
    return type(values)(*(np.repeat(getattr(values, name), count, axis=0) for name in names))


def _test_slopes(
    spectrum: JointSpectrum, atoms: Atoms, moved: Point
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives along an imaginary step: of the response to test noise, of the misalignment."""
    _, noise, cost = (value.imag / _STEP for value in response_at(atoms, moved))
    return noise, cost @ (spectrum.weight * spectrum.inputs * spectrum.test)


def require_point(settings: Settings) -> None:
    """Raise a ValueError unless all parameters are single numbers."""
    if settings.shape != ():
        raise ValueError(f"the parameters must be single numbers, got shape {settings.shape}")


def _moved(
    atoms: Atoms,
    point: Point,
    rows: Rows,
    explicit: np.ndarray,
    lost: np.ndarray,
    *,
    dkappa: float = 0.0,
    dq: np.ndarray | float = 0.0,
) -> Point:
    r"""Move a solution of the fixed point by an imaginary step along its tangent.

    ``explicit`` (n, r) is the derivative of :math:`\kappa (s_i - 1) + \langle s_i T F_i\rangle_i`
    and ``lost`` (n,) that of :math:`-\frac1d\sum_i \langle\Delta_i F_i\rangle_i`, both at fixed
    s and xi.
    """
    s, weight = point.s, point.kappa[:, None]
    still = -explicit / (weight * s * rows.B)
    pull = (weight * s * rows.beta_delta * still) @ atoms.row_weight
    # At tau = inf, and ridgeless at tau > 1, xi does not move: the denominator or pull says so.
    dx = (lost + pull) / (rows.spent + point.tau * point.eta)
    da = still + rows.beta_delta / rows.B * dx[:, None]
    return dataclasses.replace(
        point,
        kappa=point.kappa + 1j * _STEP * dkappa,
        q=point.q + 1j * _STEP * dq,
        xi=point.xi * (1 + 1j * _STEP * dx),
        eta=np.where(point.xi > 0, point.eta * (1 - 1j * _STEP * dx), point.eta),
        s=s * (1 + 1j * _STEP * da),
    )
