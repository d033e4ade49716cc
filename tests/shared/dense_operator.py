"""Pretraining with correlated queries as ridge regression on a dense operator.

The task covariance has the eigenvalues and weights of its limiting law, and the summaries of the
contexts are sums over tokens.
"""

import numpy as np
from scipy.optimize import brentq

# Eigenvalues of the task covariance.
SIZE = 600
# Dimension of a long context.
TOKENS = 4000
# Tokens beyond which no token sees the query.
NEAR = 400


def spectrum(kappa: float) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of the Marchenko-Pastur law and their weights."""
    edges = (1 + np.array([-1, 1]) / np.sqrt(kappa)) ** 2
    angle = (np.arange(SIZE) + 0.5) * np.pi / SIZE
    c = edges.mean() + np.cos(angle) * np.ptp(edges) / 2
    weight = kappa * (np.sin(angle) * np.ptp(edges) / 2) ** 2 / (2 * c) / SIZE
    if kappa < 1:
        c = np.append(c, 0.0)
        weight = np.append(weight, 1 - kappa)
    return c, weight


def sums_over_tokens(
    alpha: float, rho: float, r: float, omega: float
) -> tuple[float, float, float, float]:
    """Signal a, noise q and spike f1 and f2 from their definitions, for a long context."""
    ages = np.arange(1, round(alpha * TOKENS) + 1)
    gates = np.exp(-omega * (ages - 1) / TOKENS)
    g = gates[:NEAR]
    k = r ** ages[:NEAR]
    K = float(r) ** np.abs(ages[:NEAR, None] - ages[:NEAR])
    f1 = (g * k) @ (K + rho * np.eye(len(k))) @ (g * k) / alpha**2
    f2 = g @ k**2 / alpha
    pairs = [gates[lag:] @ gates[: len(gates) - lag] * r ** (2 * lag) for lag in range(NEAR)]
    q = (2 * sum(pairs) - pairs[0] + rho * pairs[0]) / alpha**2 / TOKENS
    return float(np.mean(gates)), float(q), float(f1), float(f2)


def dense_errors(
    *,
    tau: float,
    alpha: float,
    kappa: float,
    rho: float,
    correlation: float,
    ridge: float = 0.0,
    forgetting: float = 0.0,
) -> tuple[float, float]:
    """ICL and IDG error of regression on the operator, whose coordinates are on eigenvectors."""
    a, q, f1, f2 = sums_over_tokens(alpha, rho, correlation, forgetting)
    c, p = spectrum(kappa)
    G = a**2 * c + q
    features = np.diag(G) + np.outer(np.ones_like(c), p * (a * f2 * c + f1))
    features += np.outer(a * f2 * c, p)

    def excess(log_xi: float) -> float:
        xi = np.exp(log_xi)
        return tau * (1 - ridge / xi) - float(p @ (G / (G + xi)))

    xi = 0.0 if ridge == 0 and tau > 1 else np.exp(brentq(excess, -30, 5, xtol=1e-14))
    target = a * c + f2
    X = np.linalg.solve(features + xi * np.eye(len(c)), target)
    df2 = p @ (G / (G + xi)) ** 2 / tau
    idg = (1 + rho - 2 * p @ (target * X) + p @ (X * (features @ X))) / (1 - df2)
    trace = p @ X
    square = p @ X**2
    icl = 1 + rho - 2 * (a + f2) * trace + (a**2 + q) * square + (f1 + 2 * a * f2) * trace**2
    return float(icl + idg * (a**2 + q) * (p @ (G / (G + xi) ** 2)) / tau), float(idg)
