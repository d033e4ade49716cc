r"""Rates of descent and GD++ that are best on simulated contexts, where no theory gives them.

Given the inputs of a context with covariance :math:`H = X^\top X/N`, layers leave the error
:math:`P(H) w - Q(H) X^\top\epsilon/N` with :math:`P(\lambda) = 1 - \lambda Q(\lambda)`.  Averaged
over task, noise and query its square is

.. math:: \operatorname{tr} \Lambda P W P + \frac{\sigma^2}N \operatorname{tr} \Lambda Q H Q

for inputs of covariance :math:`\Lambda` and tasks of covariance W.  This is a quadratic form in
the coefficients of P, whose matrix holds the means of :math:`\operatorname{tr} \Lambda H^a W H^b`
and :math:`\operatorname{tr} \Lambda H^{a+b-1}`: contexts are drawn once, tasks and labels not at
all.
"""

from collections.abc import Iterator

import numpy as np
from numpy.polynomial import Polynomial
from scipy.optimize import minimize

from iclimit.problem import Problem
from iclimit.simulate.gdpp.preconditioned_descent import context_covariance
from iclimit.simulate.probing.predictors import BLOCK_NUMBERS
from iclimit.simulate.prompts import prompt_blocks

# Multiplications in a product of all covariances.  They limit the number of contexts: in large
# dimensions few contexts suffice, as their spectra hardly differ.
PRODUCTS = 2e8

# Fewest contexts.
FEWEST = 500

# Most contexts, unless the caller sets another limit.
MOST = 25_000

# Seed of these contexts: the rates are the same in every call.
SEED = 0

# Factors of the first guess that are tried before the search.
SCALES = np.geomspace(0.02, 2, 41)


def context_moments(problem: Problem, degree: int, most: int = MOST) -> np.ndarray:
    """Matrix of the quadratic form of the loss in the coefficients of P, the constant first.

    It is for eigenvalues in units of the mean variance of the inputs.

    Parameters
    ----------
    problem : Problem
        The problem.
    degree : int
        Largest degree of P.
    most : int
        Most contexts to draw.
    """
    queries = problem.covariance_of_inputs
    variance = float(np.trace(queries)) / problem.dim
    count = int(np.clip(PRODUCTS / problem.dim**3, FEWEST, most))
    total = np.zeros((degree + 1, degree + 1))
    noise = problem.mean_noise_variance / problem.context / variance
    for covariance in _covariances(problem, count):
        H = covariance / variance
        powers = [np.zeros_like(H) + np.eye(problem.dim)]
        for _ in range(degree):
            powers.append(powers[-1] @ H)
        flat = np.reshape(powers, (degree + 1, -1))
        signal = np.reshape(
            [queries @ power @ problem.covariance_of_tasks for power in powers], flat.shape
        )
        total += signal @ flat.T
        # The coefficients of Q are those of -P without the constant, each one power lower.
        query = np.reshape([queries @ power for power in powers], flat.shape)
        total[1:, 1:] += noise * (query[1:] @ flat[:-1].T)
    return total / count


def _covariances(problem: Problem, count: int) -> Iterator[np.ndarray]:
    """Covariances of contexts, in blocks of bounded memory."""
    rows = max(1, BLOCK_NUMBERS // problem.dim**2)
    for block in prompt_blocks(problem.with_fresh_tasks(), count, rng=SEED):
        for start in range(0, len(block), rows):
            yield context_covariance(block.inputs[start : start + rows])


def fit_layers(
    moments: np.ndarray, rates: np.ndarray, gammas: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rates and gammas of a local minimum of the loss; gammas that are 0 remain so.

    Without gammas it is the global one if the best polynomial has real zeros.

    Parameters
    ----------
    moments : array (degree + 1, degree + 1)
        As from `context_moments`.
    rates, gammas : array (L,) and (L - 1,)
        First guess, up to a common factor, in the same units.
    """
    if not np.any(gammas) and (exact := _best_rates(moments, len(rates))) is not None:
        return exact, gammas
    guess = np.concatenate([rates, gammas])
    free = guess != 0
    count = len(rates)

    def loss(factors: np.ndarray) -> float:
        layers = np.zeros_like(guess)
        layers[free] = guess[free] * factors
        P = residual_polynomial(layers[:count], layers[count:])
        with np.errstate(over="ignore"):
            return float(P @ moments[: len(P), : len(P)] @ P)

    ones = np.ones(np.sum(free))
    start = min((scale * ones for scale in SCALES), key=loss)
    minimum = minimize(loss, start, method="BFGS", options={"gtol": 1e-6 * loss(0 * ones)})
    guess[free] *= minimum.x
    return guess[:count], guess[count:]


def _best_rates(moments: np.ndarray, count: int) -> np.ndarray | None:
    """Rates of the best polynomial of this degree, or None if they are not real."""
    inner = moments[1 : count + 1, 1 : count + 1]
    try:
        zeros = Polynomial([1.0, *np.linalg.solve(inner, -moments[1 : count + 1, 0])]).roots()
    except np.linalg.LinAlgError:  # eigenvalues without spread need fewer steps
        return None
    if np.any(np.imag(zeros)) or np.any(np.real(zeros) <= 0):
        return None
    return np.sort(1 / np.real(zeros))


def residual_polynomial(rates: np.ndarray, gammas: np.ndarray) -> np.ndarray:
    """Coefficients of P, the constant first, of layers of GD++."""
    eigenvalue = np.array([0.0, 1.0])
    P = np.ones(1)
    for rate, gamma in zip(rates, np.append(gammas, 0.0), strict=True):
        P = np.convolve(P, _one_minus(rate * eigenvalue))
        if gamma:
            kept = _one_minus(gamma * eigenvalue)
            eigenvalue = np.convolve(eigenvalue, np.convolve(kept, kept))
    return P


def _one_minus(polynomial: np.ndarray) -> np.ndarray:
    return np.concatenate([[1 - polynomial[0]], -polynomial[1:]])
