r"""Gradient flow of the full matrices of deep linear attention at infinite context.

The loss is averaged exactly over queries, tasks and a finite set of rotations O of the covariances
:math:`O \Lambda O^\top` and :math:`O \Omega O^\top`; without rotations these are fixed.  The flow
is

.. math:: \dot\Gamma_l = -\frac{c\,d}2\,\nabla_{\Gamma_l} \mathcal L ,

c = 1 for layers that share one matrix and L otherwise, as in `iclimit.simulate.depth.training`.

The d cyclic shifts of the coordinates average every diagonal matrix to a multiple of I.  So they
keep :math:`\Gamma_l = \gamma_l I`, as random rotations do, and the gains :math:`\gamma_l` obey the
same equations.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import solve_ivp

from iclimit.checks import check_flag, check_integers, parse_array
from iclimit.results import Result
from iclimit.simulate.depth.draws import parse_spectra
from iclimit.simulate.depth.stacks import loss_and_gradient

# Relative error that each step of the integrator may add to an entry.
_RELATIVE = 1e-12

# Absolute error that each step of the integrator may add to an entry.
_ABSOLUTE = 1e-13

# Largest error of rotations that are given.
_ORTHOGONAL = 1e-10


@dataclass(frozen=True, eq=False, repr=False)
class MatrixFlow(Result):
    """Gradient flow of the matrices of all layers.

    Attributes
    ----------
    times : ndarray (n,)
        Times.
    gammas : ndarray (n, matrices, d, d)
        Matrices; one for layers that share it, else L.
    losses : ndarray (n,)
        Mean squared error on noiseless query labels.
    """

    times: np.ndarray = field(repr=False)
    gammas: np.ndarray = field(repr=False)
    losses: np.ndarray = field(repr=False)


def simulate_matrix_flow(
    *,
    depth: int,
    eigenvalues: ArrayLike,
    task_spectrum: ArrayLike | None = None,
    rotations: ArrayLike | None = None,
    shared: bool = False,
    initial: ArrayLike = 0.0,
    times: ArrayLike,
) -> MatrixFlow:
    r"""Follow gradient flow of the matrices of deep linear attention at infinite context.

    Parameters
    ----------
    depth : int >= 1
        Number L of layers.
    eigenvalues : array (d,)
        Eigenvalues of the covariance of the inputs, >= 0.
    task_spectrum : array (d,), optional
        Eigenvalues of the covariance of the tasks, >= 0, in the order of those of the inputs; 1 by
        default.
    rotations : array (n, d, d), optional
        Orthogonal matrices over which the loss is averaged; fixed covariances by default.
    shared : bool
        Whether all layers have one matrix.
    initial : number, array (matrices,) or array (matrices, d, d)
        Matrices at time 0: a multiple of the identity, one for each matrix, or all entries.
    times : array (m,)
        Times >= 0 in increasing order, in units of the module: learning rate times steps of
        `train_depth`.

    Returns
    -------
    MatrixFlow
        With ``times``, ``gammas`` and ``losses``.

    Raises
    ------
    ValueError
        If an argument is outside its range, or shapes do not fit.
    TypeError
        If ``shared`` is no flag.
    ArithmeticError
        If the integrator fails.

    Notes
    -----
    For multiples of the identity the time of `simulate_untied_flow`, whose losses are relative, is
    this one times half the mean of eigenvalues times tasks.

    References
    ----------
    Bordelon, Letey, Pehlevan, arXiv:2510.01098.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.simulate.depth import simulate_matrix_flow
    >>> shifts = np.stack([np.roll(np.eye(3), k, axis=0) for k in range(3)])
    >>> lam = [1.0, 0.5, 0.2]
    >>> flow = simulate_matrix_flow(depth=2, eigenvalues=lam, rotations=shifts, times=[0, 5, 50])
    >>> flow.gammas[:, 0].round(3)[-1]
    array([[2.201, 0.   , 0.   ],
           [0.   , 2.201, 0.   ],
           [0.   , 0.   , 2.201]])
    """
    lam, omega = parse_spectra(eigenvalues, task_spectrum)
    dim = lam.size
    check_integers(depth=depth)
    check_flag("shared", shared)
    turns = _parse_rotations(rotations, dim)
    shape = (1 if shared else depth, dim, dim)
    start = parse_array("initial", initial, (), shape[:1], shape)
    if start.ndim < 3:
        start = np.broadcast_to(start, shape[:1])[:, None, None] * np.eye(dim)
    query_root = np.matrix_transpose(turns * np.sqrt(lam))[None]
    task_root = np.matrix_transpose(turns * np.sqrt(omega))[None]
    covariance = np.matrix_transpose(query_root) @ query_root
    given = task_root @ covariance, lambda rows: rows @ covariance
    targets = task_root @ np.matrix_transpose(query_root)

    def evaluate(flat: np.ndarray) -> tuple[float, np.ndarray]:
        gammas = flat.reshape(shape)
        layers = [gammas[None, 0 if shared else layer] for layer in range(depth)]
        losses, gradients = loss_and_gradient(layers, *given, query_root, targets)
        stacked = np.concatenate(gradients)
        slope = stacked.sum(axis=0, keepdims=True) if shared else depth * stacked
        return float(losses.mean()), slope.ravel()

    when, states = integrate_flow(lambda flat: -evaluate(flat)[1], start.ravel(), times)
    losses = np.array([evaluate(state)[0] for state in states])
    return MatrixFlow(when, states.reshape(-1, *shape), losses)


def _parse_rotations(rotations: ArrayLike | None, dim: int) -> np.ndarray:
    """Orthogonal matrices (n, d, d), by default the identity."""
    if rotations is None:
        return np.eye(dim)[None]
    turns = parse_array("rotations", rotations, (None, dim, dim))
    if not np.allclose(turns @ np.matrix_transpose(turns), np.eye(dim), 0, _ORTHOGONAL):
        raise ValueError("rotations must be orthogonal matrices")
    return turns


def integrate_flow(
    slope: Callable[[np.ndarray], np.ndarray], start: np.ndarray, times: ArrayLike
) -> tuple[np.ndarray, np.ndarray]:
    """Times, and the states (m, n) there of a flow with this slope that starts at time 0."""
    when = parse_array("times", times, (None,))
    if when[0] < 0 or not np.all(np.diff(when) > 0):
        raise ValueError(f"times must be >= 0 and in increasing order, got {when}")
    if when[-1] == 0:
        return when, start[None]
    span = (0.0, when[-1])
    accuracy = {"rtol": _RELATIVE, "atol": _ABSOLUTE}
    solution = solve_ivp(
        lambda _, state: slope(state), span, start, method="DOP853", t_eval=when, **accuracy
    )
    if not solution.success:
        raise ArithmeticError(f"the integrator failed: {solution.message}")
    return when, solution.y.T
