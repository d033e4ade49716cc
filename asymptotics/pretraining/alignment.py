"""Measures of the alignment of training and test tasks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from iclimit.asymptotics.numbers import ArrayMath, Number
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum
from iclimit.asymptotics.pretraining.structured_fixed_point import (
    Atoms,
    Point,
    Rows,
    check_settings,
    finite_context,
    solve_settings,
)


def trace_ratio(spectrum: JointSpectrum) -> float:
    r"""Trace ratio :math:`\frac1d \operatorname{tr} C' C^{-1}` of test and training covariance.

    Parameters
    ----------
    spectrum : JointSpectrum
        Joint law of training and test tasks.

    Returns
    -------
    float
        1 for tests as in training; ``inf`` if tests vary where training tasks do not.

    References
    ----------
    Letey, Zavatone-Veth, Lu, Pehlevan, arXiv:2509.26551.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, trace_ratio
    >>> round(trace_ratio(JointSpectrum.of_matrices([1.6, 0.4], test_covariance=[0.4, 1.6])), 3)
    2.125
    """
    used = spectrum.test > 0
    with np.errstate(divide="ignore"):
        return float(spectrum.weight[used] @ (spectrum.test[used] / spectrum.task[used]))


def cka(spectrum: JointSpectrum) -> float:
    r"""Kernel alignment :math:`\operatorname{tr} CC' / \sqrt{\operatorname{tr} C^2
    \operatorname{tr} C'^2}` of training and test covariance.

    Parameters
    ----------
    spectrum : JointSpectrum
        Joint law of training and test tasks.

    Returns
    -------
    float
        Between 0 and 1; 1 for proportional covariances.  Of a test covariance that is not diagonal
        in the eigenbasis of the spectrum only the diagonal enters.

    Notes
    -----
    The published measure centres the matrices in coordinate space, which depends on the basis; for
    diagonal matrices it tends to this one as d grows.

    References
    ----------
    Letey, Zavatone-Veth, Lu, Pehlevan, arXiv:2509.26551, as CKA.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, cka
    >>> round(cka(JointSpectrum.of_matrices([1.6, 0.4], test_covariance=[0.4, 1.6])), 4)
    0.4706
    """
    p, c, t = spectrum.weight, spectrum.task, spectrum.test
    if not np.any(t):
        raise ValueError("test must have a positive eigenvalue, got only zeros")
    c, t = c / c.max(), t / t.max()
    return float(p @ (c * t) / math.sqrt((p @ c**2) * (p @ t**2)))


def resolvent_alignment(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    spectrum: JointSpectrum,
) -> Any:
    r"""Resolvent alignment :math:`\frac1d \operatorname{tr} C' F`.

    F is the deterministic equivalent of the resolvent of the training tasks at the effective
    noise; with input covariance both are whitened, and F is taken in the row of each eigenvector.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge, spectrum
        As in `structured_errors`, with finite alpha.

    Returns
    -------
    float or ndarray
        Small where test tasks vary along well-trained directions.

    References
    ----------
    Letey, Zavatone-Veth, Lu, Pehlevan, arXiv:2509.26551.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, resolvent_alignment
    >>> spectrum = JointSpectrum.of_matrices([1.0])
    >>> round(float(resolvent_alignment(
    ...     tau=2.0, alpha=1.0, kappa=float("inf"), rho=0.0, spectrum=spectrum)), 3)
    0.5
    """
    settings = check_settings(tau, finite_context(alpha), kappa, rho, ridge)
    atoms = Atoms.of(spectrum)
    carried = spectrum.weight * spectrum.inputs * spectrum.test

    def aligned(point: Point) -> tuple[np.ndarray]:
        F = atoms.own(Rows.at(atoms, point.kappa, point.q, point.xi, point.s).F)
        return (np.where(carried > 0, F, 0.0) @ carried,)

    (alignment,) = solve_settings(atoms, settings, aligned)
    return ArrayMath(np).finish(alignment.reshape(settings.shape))
