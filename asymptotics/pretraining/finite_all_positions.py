r"""Errors of a run of finite size that is trained on every position of its sequences.

The equations are those of `iclimit.asymptotics.pretraining.all_positions`, at the integers of the
run instead of on a grid.  Three things are of a finite size:

* the noise of a summary has the kernel :math:`p p' (v + 1/d)/\max(a, b)`, as tasks have norm
  :math:`\sqrt d` and a context holds :math:`\ell` inputs;
* the last entry of a summary is the mean of squared labels.  It adds
  :math:`\gamma v^2/d\; p p^\top` to the kernel of the response, and one column to the parameters:

  .. math:: \gamma = \frac{g_t}g, \qquad \frac1{g_t} = \lambda + \frac{v^2}\nu \kappa E \sum r,
     \qquad (1 - \lambda g) + \frac{1 - \lambda g_t}d = \kappa\, E \operatorname{tr}(1 - T/r);

* in a new sequence of a pretraining task the noise of the summary meets what its sequences have
  learned from theirs, which adds

  .. math:: \frac{p^2 q}{\kappa d} \bigl[2 c\phi (F_{fy} - c F_{ff}) + z - 2\phi z F_K\bigr]

  to the error.

Other terms of order 1/d are left out: leverages that fluctuate with the labels, and the variance
of the last column of :math:`\Gamma`.  They are of both signs, and `LOSS` bounds what they do.

.. page: pretraining/all-positions: Training on every position of a sequence

.. symbols:
   \gamma: response of the last column of Γ over that of the others
   v: variance of the labels, 1 + ρ
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.linalg import eigh_tridiagonal

from iclimit.asymptotics.checks import check_integers, real_number
from iclimit.asymptotics.pretraining.all_positions import (
    NORMALIZATIONS,
    Solution,
    SolvedPoint,
    System,
    balanced_counts,
)
from iclimit.asymptotics.pretraining.sequence_response import Positions
from iclimit.checks import check_choice, check_flag
from iclimit.results import Result

# Bound on the relative error of the theory times d, for the ICL and the IDG error: from a ridge of
# .1 on, and below.
LOSS = ((1.0, 1.3), (1.3, 1.6))

# Ridge that separates them.
_SMALL_RIDGE = 0.1

# Repetitions in which gamma settles; each gains a factor of about d.
_MOST_REPEATS = 60

# Relative change of gamma that ends them.
_SETTLED = 1e-10

# Nodes of the Gauss rule for the sequences that share a task.
_NODES = 7


@dataclass(frozen=True, repr=False)
class PositionErrors(Result):
    r"""Predicted mean errors of a run at each of its positions.

    Attributes
    ----------
    position : ndarray (L,)
        Examples seen.
    icl, idg : ndarray (L,)
        Mean squared errors on a noisy query label, for fresh tasks and for new sequences of the
        pretraining tasks.
    training : float
        Mean squared error on the training sequences, without the penalty.
    rate, variance, response, last_response : float
        c, z, g and gamma of the module.
    uncertainty : tuple of float
        Relative error of the theory for the ICL and the IDG error: nearly all tested runs are
        within it.
    """

    dims: ClassVar[tuple[str, ...]] = ("position",)

    position: np.ndarray
    icl: np.ndarray
    idg: np.ndarray
    training: float
    rate: float
    variance: float
    response: float
    last_response: float
    uncertainty: tuple[float, float]


def position_errors_at_size(
    *,
    dim: int,
    positions: Sequence[int],
    prompts: int,
    tasks: float,
    rho: float,
    ridge: float,
    normalization: str = "mean",
    balanced: bool = False,
) -> PositionErrors:
    r"""Mean errors at every position of a run that is trained on all of them.

    Parameters
    ----------
    dim : int >= 1
        Dimension of the inputs, d.
    positions : sequence of int >= 1
        Examples seen at the positions of the loss, ascending, with equal weights.  The last one
        is the length of a sequence.
    prompts : int >= 1
        Pretraining sequences, n.
    tasks : int >= 1 or inf
        Pretraining tasks, of which each sequence draws one; ``inf``: a fresh task in each.
    rho : float >= 0
        Variance of the label noise.
    ridge : float > 0
        Ridge in the units of `icl_error`, for a loss that is the mean over sequences and
        positions: the penalty of a sum over positions is larger by their number.
    normalization : {"mean", "length"}
        Divisor of the context summaries: the examples seen so far, or the length of a sequence.
    balanced : bool
        Whether all tasks have the same number of sequences, up to one.

    Returns
    -------
    PositionErrors
        With fields ``position``, ``icl``, ``idg``, ``training``, ``rate``, ``variance``,
        ``response``, ``last_response`` and ``uncertainty``.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If an argument has the wrong type.
    ArithmeticError
        If responses are not found.

    Notes
    -----
    For isotropic inputs and tasks on the sphere of squared norm d.  The uncertainty is 1/d (ICL)
    and 1.3/d (IDG) from a ridge of .1 on, and 1.3/d and 1.6/d below.  With the normalization
    "mean", contexts of a few examples have heavy tails: IDG errors at them are up to 3/d too low.
    The training error is a third too low where there are fewer queries than parameters.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.finite_all_positions`.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import position_errors_at_size
    >>> run = position_errors_at_size(
    ...     dim=16, positions=range(8, 33), prompts=64, tasks=8, rho=0.1, ridge=0.1, balanced=True
    ... )
    >>> run.icl[[0, -1]].round(4), run.idg[[0, -1]].round(4)
    (array([1.8072, 1.0018]), array([1.2064, 0.4012]))
    """
    check_integers(dim=dim, prompts=prompts)
    places = _checked_positions(positions)
    if tasks != math.inf:
        check_integers(tasks=tasks)
    check_choice("normalization", normalization, NORMALIZATIONS)
    check_flag("balanced", balanced)
    rho = real_number("rho", rho)
    ridge = real_number("ridge", ridge, "(0, inf)")
    nu = prompts / dim
    kappa = tasks / dim
    blocks = balanced_counts(nu, kappa)
    if not balanced and tasks != math.inf:
        blocks = binomial_counts(prompts, int(tasks), nu)
    system = System(_positions(places, dim, rho, normalization), rho, ridge, nu, blocks)
    system, point, gamma = _with_last_column(system, dim)
    rate, variance, phi, *others = system.numbers(point, kappa).tolist()
    solution = Solution(rate, variance, nu * phi, *others)
    icl, idg = _errors(system, point, solution, dim, kappa)
    loss = LOSS[0 if ridge >= _SMALL_RIDGE else 1]
    return PositionErrors(
        position=places,
        icl=icl,
        idg=idg,
        training=solution.training,
        rate=rate,
        variance=variance,
        response=solution.response,
        last_response=gamma,
        uncertainty=(loss[0] / dim, loss[1] / dim),
    )


def _checked_positions(positions: Sequence[int]) -> np.ndarray:
    """Positions as an array; a ValueError unless they are ascending integers >= 1."""
    places = np.asarray(positions)
    if places.ndim != 1 or not places.size or places.dtype.kind not in "iu":
        raise ValueError(f"positions must be a sequence of integers, got {positions!r}")
    if places[0] < 1 or np.any(np.diff(places) < 1):
        raise ValueError(f"positions must be >= 1 and ascending, got {positions!r}")
    return places


def _positions(places: np.ndarray, dim: int, rho: float, normalization: str) -> Positions:
    """Positions at the integers of a run."""
    size = places.size
    if normalization == "mean":
        factors = np.ones(size)
        shares = dim / places
    else:
        factors = places / places[-1]
        shares = np.full(size, dim / places[-1])
    nesting = np.tril(np.repeat(shares[:, None], size, axis=1), -1)
    noise = ((1 + rho) * dim + 1) / places
    return Positions(
        places / dim, np.full(size, 1 / dim), np.full(size, 1 / size), factors, noise, nesting
    )


def binomial_counts(prompts: int, tasks: int, nu: float) -> list[tuple[float, float]]:
    """Gauss rule for the sequences of a task, seen from one of them."""
    share = 1 / tasks
    others = prompts - 1
    orders = np.arange(min(_NODES, others + 1))
    # Recurrence of the Krawtchouk polynomials.
    means = share * (others - orders) + orders * (1 - share)
    squares = orders * share * (1 - share) * (others - orders + 1)
    numbers, vectors = eigh_tridiagonal(means, np.sqrt(squares[1:]))
    counts = 1 + numbers
    densities = nu * vectors[0] ** 2 / counts
    return list(zip(counts.tolist(), densities.tolist(), strict=True))


def _with_last_column(system: System, dim: int) -> tuple[System, SolvedPoint, float]:
    """Solve together with the response of the last column, gamma times that of the others."""
    v = 1 + system.rho
    gamma = 1.0
    extra = 0.0
    point = None
    for _ in range(_MOST_REPEATS):
        positions = replace(system.positions, tail=gamma * v**2 / dim)
        system = replace(system, positions=positions, extra=extra)
        point = system.solve(point)
        responses = 0.0
        for (count, density), response in zip(system.blocks, point.responses, strict=True):
            responses += density * count * float(np.sum(1 / response.reciprocals))
        last = 1 / (system.ridge + v**2 / system.sequence_ratio * responses)
        change = last / (system.sequence_ratio * point.phi) / gamma
        gamma *= change
        extra = (1 - system.ridge * last) / dim
        if abs(change - 1) < _SETTLED:
            return system, point, gamma
    raise ArithmeticError(
        f"the response of the last column was not found in {_MOST_REPEATS} repeats"
    )


def _errors(
    system: System, point: SolvedPoint, solution: Solution, dim: int, kappa: float
) -> tuple[np.ndarray, np.ndarray]:
    """ICL and IDG error at every position."""
    positions = system.positions
    square = positions.factor**2
    noise = square * positions.noise
    icl, idg = solution.errors(system.rho, positions.factor, square, noise)
    # The mean of squared labels fluctuates, by 2 v^2 over the examples.
    fluctuation = 2 * (1 + system.rho) ** 2 * square / (dim**2 * positions.place)
    icl = icl + solution.variance * fluctuation
    forms = system.sum([response.forms() for response in point.responses])
    c = solution.rate
    z = solution.variance
    met = 2 * c * point.phi * (forms.mixed - c * forms.features) + z
    met -= 2 * point.phi * z * forms.trace
    return icl, idg + solution.variance * fluctuation + noise * met / (kappa * dim)
