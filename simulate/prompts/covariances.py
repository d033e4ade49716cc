"""Roots of covariances of inputs and tasks, of any rank.

A covariance is a matrix (d, d), or the eigenvalues (d,) of a diagonal one.  Its root is of the
same shape; None stands for the identity.  A kernel has the correlations of tokens by distance.
"""

import hashlib
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from iclimit.simulate.arrays import Array


def covariance_root(covariance: np.ndarray) -> np.ndarray:
    """Symmetric square root, of the same shape."""
    if covariance.ndim == 1:
        return np.sqrt(covariance)
    eigenvalues, basis = np.linalg.eigh(covariance)
    return np.asarray((basis * np.sqrt(np.maximum(eigenvalues, 0))) @ basis.T)


def covariance_rank(covariance: ArrayLike | None, dim: int) -> int:
    """Number of eigenvalues that are more than rounding."""
    if covariance is None:
        return dim
    matrix = np.asarray(covariance)
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    return int(np.linalg.matrix_rank(matrix, hermitian=True))


def kernel_root(kernel: np.ndarray) -> np.ndarray:
    """Root of the covariance of tokens with these correlations at distances 0, 1, ...

    It is lower triangular, so that of a first-order autoregression is its recursion, and that of
    fewer tokens is its head.  Kernels without a Cholesky factor have one, too.
    """
    return _kernel_root(tuple(kernel.tolist()))


@lru_cache(maxsize=16)
def _kernel_root(kernel: tuple[float, ...]) -> np.ndarray:
    times = np.arange(len(kernel))
    matrix = np.array(kernel)[np.abs(times[:, None] - times)]
    _, upper = np.linalg.qr(covariance_root(matrix))
    return np.asarray((upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T)


def times_root(rows: Array, root: Array | None) -> Array:
    """Vectors along the last axis times a root."""
    if root is None:
        return rows
    return rows * root if root.ndim == 1 else rows @ root


def fingerprint(covariance: np.ndarray) -> str:
    """Short text that tells covariances apart."""
    return hashlib.sha256(np.ascontiguousarray(covariance).tobytes()).hexdigest()[:16]
