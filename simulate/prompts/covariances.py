"""Roots of covariances of inputs and tasks, of any rank.

A covariance is a matrix (d, d), or the eigenvalues (d,) of a diagonal one.  Its root is of the
same shape; None stands for the identity.
"""

import hashlib

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


def times_root(rows: Array, root: Array | None) -> Array:
    """Vectors along the last axis times a root."""
    if root is None:
        return rows
    return rows * root if root.ndim == 1 else rows @ root


def fingerprint(covariance: np.ndarray) -> str:
    """Short text that tells covariances apart."""
    return hashlib.sha256(np.ascontiguousarray(covariance).tobytes()).hexdigest()[:16]
