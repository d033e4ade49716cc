"""The obvious way to evaluate the theory: ``scipy.optimize.fsolve`` at every point of a loop."""

import math

import numpy as np
from scipy.optimize import fsolve


def icl_error_at(tau: float, alpha: float, kappa: float, rho: float, ridge: float) -> float:
    """ICL error at one point from the fixed point for the effective ridge xi."""
    q = (1 + rho) / alpha

    def resolvent(nu: float) -> tuple[float, float]:
        b = nu + 1 - 1 / kappa
        s = math.sqrt(b**2 + 4 * nu / kappa)
        value = 2 / (b + s)
        return value, -value * (1 + value / kappa) / s

    def fixed_point(logarithm: np.ndarray) -> float:
        xi = math.exp(float(logarithm[0]))
        return xi * resolvent(xi + q)[0] - tau * ridge / xi - 1 + tau

    xi = 0.0
    if ridge > 0 or tau < 1:
        guess = ridge * tau / (tau - 1) if tau > 1 else 1 - tau + ridge
        xi = math.exp(float(fsolve(fixed_point, math.log(guess))[0]))
    nu = q + xi
    m, slope = resolvent(nu)
    variance = 1 - 2 * nu * m - nu**2 * slope
    signal = rho + nu - nu**2 * m - xi * variance
    c = signal / (tau - (1 - 2 * xi * m - xi**2 * slope))
    return (1 + q) * (variance + c * (m + xi * slope)) - 2 * (1 - nu * m) + 1 + rho
