r"""Derivatives of the ICL error for structured data, and the covariances of least ICL error.

The error is affine in the test covariance,

.. math:: e_{ICL} = \rho' + \frac{\rho'}{\alpha'} N + \frac1d \sum_j t_j\, \sigma_j
   \Bigl(K_j + \frac{N}{\alpha'}\Bigr),

where the response N to context noise and the costs :math:`K_j` depend on training only.

Derivatives in :math:`\kappa` and in the training spectrum are exact: the solution of the fixed
point is differentiated implicitly, and the errors along the tangent by a complex step.

**Best covariances.**  At fixed trace the best test covariance has rank one, on the eigenvector of
least slope.  At a fixed test spectrum the largest eigenvalue belongs to the least slope, and so on
(rearrangement inequality).  As a function of the training spectrum the error is not convex: its
minimum is searched for from several starts.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from iclimit.asymptotics.numbers import ArrayMath, Number, Value
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum, check_spectrum
from iclimit.asymptotics.pretraining.structured import errors_of, response_at, training_response
from iclimit.asymptotics.pretraining.structured_fixed_point import (
    Atoms,
    Point,
    Rows,
    Settings,
    check_settings,
    solve,
    solve_settings,
)
from iclimit.checks import check_choice
from iclimit.results import Result

# Complex step: its square is far below rounding error.
_STEP = 1e-30


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

    Raises
    ------
    ValueError
        If an argument is outside its range or no single number, or alpha is infinite.
    TypeError
        If the spectrum is no JointSpectrum.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, direction_slopes
    >>> spectrum = JointSpectrum.of_matrices([1.6, 0.4])
    >>> slopes = direction_slopes(tau=2.0, alpha=2.0, kappa=2.0, rho=0.1, spectrum=spectrum)
    >>> spectrum.task, slopes.round(2)
    (array([0.4, 1.6]), array([1.24, 0.68]))
    """
    settings = check_settings(
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
        finite_context=True,
    )
    return slopes_at(spectrum, settings)


def slopes_at(spectrum: JointSpectrum, settings: Settings) -> np.ndarray:
    """Slopes along each atom at one checked setting."""
    require_point(settings)
    _, noise, cost = training_response(spectrum, settings)
    return spectrum.inputs * (cost[0] + noise * settings.per_test_context)


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
) -> Value:
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
    settings = check_settings(
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
        test_rho=test_rho,
        finite_context=True,
    )
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
        F = rows.F[0]
        s = point.s[0][:, None]
        delta = point.xi[0] * atoms.inverse_inputs
        dT = np.diag(spectrum.inputs)
        dq = dT @ spectrum.weight * settings.per_context
        by_T = (s * F * rows.u[0] * spectrum.weight) @ dT
        explicit = by_T.T - np.outer(dq, atoms.mean(rows.signal[0] * F))
        lost_T = atoms.row_weight @ (delta * F**2 * s * spectrum.weight) @ dT
        lost = lost_T + dq * (atoms.row_weight @ atoms.mean(delta * F**2))
        point = _repeated(point, len(spectrum.task))
        rows = _repeated(rows, len(spectrum.task))
        moved = _moved(atoms, point, rows, explicit, lost, dq=dq)
        shifted = dataclasses.replace(atoms, T=(atoms.T + 1j * _STEP * dT)[:, None, :])
        noise, misalignment = _test_slopes(spectrum, shifted, moved)
    return noise * settings.test_noise(spectrum) + misalignment


def _repeated(values: Value, count: int) -> Value:
    """Fields of a solution of one setting, repeated along their first axis."""
    names = [field.name for field in dataclasses.fields(values)]
    return type(values)(*(np.repeat(getattr(values, name), count, axis=0) for name in names))


def _test_slopes(
    spectrum: JointSpectrum, atoms: Atoms, moved: Point
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives along an imaginary step: of the response to test noise, of the misalignment."""
    _, noise, cost = response_at(atoms, moved)
    weight = spectrum.weight * spectrum.inputs * spectrum.test
    return noise.imag / _STEP, (cost.imag / _STEP) @ weight


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
    s = point.s
    weight = point.kappa[:, None]
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


@dataclass(frozen=True, repr=False)
class BestCovariance(Result):
    """A covariance at which the ICL error is least or largest, and the error.

    Attributes
    ----------
    spectrum : JointSpectrum
        Joint spectrum with the best or worst test or training covariance.
    icl : float
        ICL error with it.
    """

    spectrum: JointSpectrum
    icl: float


def best_test_covariance(
    *,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    ridge: float = 0.0,
    spectrum: JointSpectrum,
    test_alpha: float | None = None,
    test_rho: float | None = None,
    fixed: str = "trace",
) -> BestCovariance:
    """The test covariance of least ICL error for a given training covariance.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, spectrum, test_alpha, test_rho
        As in `structured_errors`, numbers only.
    fixed : {"trace", "spectrum"}
        What is kept of the test covariance: its trace (the best one is then concentrated on one
        atom), or its eigenvalues (the best one then pairs them with the slopes in opposite order).

    Returns
    -------
    BestCovariance
        A global minimum.

    Raises
    ------
    ValueError
        If an argument is outside its range, or fixed has another value.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, best_test_covariance
    >>> spectrum = JointSpectrum.of_matrices([1.6, 0.4], test_covariance=[1.0, 1.0])
    >>> best = best_test_covariance(tau=2.0, alpha=2.0, kappa=2.0, rho=0.1, spectrum=spectrum)
    >>> best.spectrum.task, best.spectrum.test
    (array([0.4, 1.6]), array([0., 2.]))
    """
    settings = check_settings(
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
        test_rho=test_rho,
        finite_context=True,
    )
    return _extreme_test_covariance(spectrum, settings, fixed, 1)


def worst_test_covariance(
    *,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    ridge: float = 0.0,
    spectrum: JointSpectrum,
    test_alpha: float | None = None,
    test_rho: float | None = None,
    fixed: str = "trace",
) -> BestCovariance:
    """The test covariance of largest ICL error for a given training covariance.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, spectrum, test_alpha, test_rho
        As in `structured_errors`, numbers only.
    fixed : {"trace", "spectrum"}
        What is kept of the test covariance, as in `best_test_covariance`.

    Returns
    -------
    BestCovariance
        A global maximum.

    Raises
    ------
    ValueError
        If an argument is outside its range, or fixed has another value.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, worst_test_covariance
    >>> spectrum = JointSpectrum.of_matrices([1.6, 0.4], test_covariance=[1.0, 1.0])
    >>> worst = worst_test_covariance(tau=2.0, alpha=2.0, kappa=2.0, rho=0.1, spectrum=spectrum)
    >>> worst.spectrum.task, worst.spectrum.test
    (array([0.4, 1.6]), array([2., 0.]))
    """
    settings = check_settings(
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
        test_rho=test_rho,
        finite_context=True,
    )
    return _extreme_test_covariance(spectrum, settings, fixed, -1)


def _extreme_test_covariance(
    spectrum: JointSpectrum, settings: Settings, fixed: str, sign: int
) -> BestCovariance:
    """Test covariance of least (sign 1) or largest (sign -1) ICL error, which is linear in it."""
    check_choice("fixed", fixed, ("trace", "spectrum"))
    slopes = sign * slopes_at(spectrum, settings)
    if not np.all(np.isfinite(slopes)):
        raise ArithmeticError("no test covariance is best or worst: the error is infinite for all")
    if fixed == "trace":
        place = int(np.argmin(slopes))
        test = np.zeros_like(slopes)
        test[place] = spectrum.weight @ spectrum.test / spectrum.weight[place]
        best = dataclasses.replace(spectrum, test=test)
    else:
        # Paired by rank: the least slope gets the largest variance.
        rising = np.argsort(slopes)
        falling = np.argsort(spectrum.test)[::-1]
        ends = np.cumsum(spectrum.weight[rising])
        other = np.cumsum(spectrum.weight[falling])
        ends = np.append(ends[:-1], 1.0)
        other = np.append(other[:-1], 1.0)
        cuts = np.unique(np.concatenate([ends, other]))
        cuts = cuts[cuts <= 1]
        row = rising[np.searchsorted(ends, cuts)]
        test = falling[np.searchsorted(other, cuts)]
        weight = np.diff(cuts, prepend=0.0)
        best = JointSpectrum(spectrum.task[row], spectrum.test[test], spectrum.inputs[row], weight)
    return BestCovariance(best, _icl(best, settings))


def best_training_covariance(
    *,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    ridge: float = 0.0,
    spectrum: JointSpectrum,
    test_alpha: float | None = None,
    test_rho: float | None = None,
) -> BestCovariance:
    """The training covariance of least ICL error for a given test covariance, at its trace.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, spectrum, test_alpha, test_rho
        As in `structured_errors`, numbers only.  The task eigenvalues give the trace that is kept
        and one of the starts.

    Returns
    -------
    BestCovariance
        The best local minimum found from four starts (the given spectrum, a flat one, that of the
        tests and its root), by sequential quadratic programming with exact gradients.  No proof
        that it is global.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    ArithmeticError
        If the error is infinite at every start.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, best_training_covariance
    >>> spectrum = JointSpectrum.of_matrices([1.0, 1.0], test_covariance=[1.6, 0.4])
    >>> best = best_training_covariance(tau=2.0, alpha=2.0, kappa=2.0, rho=0.1, spectrum=spectrum)
    >>> bool(best.spectrum.task[1] > best.spectrum.task[0])  # more where tests vary more
    True
    """
    settings = check_settings(
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
        test_rho=test_rho,
    )
    require_point(settings)
    check_spectrum(spectrum)
    p = spectrum.weight
    trace = p @ spectrum.task

    def with_shares(shares: np.ndarray) -> JointSpectrum:
        shares = np.maximum(shares, 0.0)
        return dataclasses.replace(spectrum, task=trace * shares / (p * shares.sum()))

    def error(shares: np.ndarray) -> tuple[float, np.ndarray]:
        current = with_shares(shares)
        gradient = task_gradient(current, settings) * trace / p
        return _icl(current, settings), gradient - gradient @ shares / shares.sum()

    starts = [spectrum.task, np.ones_like(p), spectrum.test, np.sqrt(spectrum.test)]
    minima = []
    for start in starts:
        if not np.any(start):
            continue
        shares = p * start / (p @ start)
        if not math.isfinite(_icl(with_shares(shares), settings)):
            continue
        best = with_shares(_least(error, shares))
        minima.append(BestCovariance(best, _icl(best, settings)))
    if not minima:
        raise ArithmeticError("the ICL error is infinite whatever the training covariance")
    return min(minima, key=lambda best: best.icl)


def _icl(spectrum: JointSpectrum, settings: Settings) -> float:
    return float(errors_of(spectrum, settings).icl)


def _least(
    error: Callable[[np.ndarray], tuple[float, np.ndarray]], shares: np.ndarray
) -> np.ndarray:
    """Shares of sum 1 at a minimum of an error with a gradient, searched from some shares."""
    result = minimize(
        error,
        shares,
        jac=True,
        method="SLSQP",
        bounds=[(0.0, 1.0)] * len(shares),
        constraints={"type": "eq", "fun": lambda v: v.sum() - 1, "jac": np.ones_like},
        options={"ftol": 1e-12, "maxiter": 300},
    )
    return np.asarray(result.x)
