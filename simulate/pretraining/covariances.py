"""Covariances of inputs and tasks: symmetric positive semidefinite, of any rank.

A covariance is a matrix (d, d), or the eigenvalues (d,) of a diagonal one.  Its root is of the
same shape; None stands for the identity.
"""

import hashlib
from typing import Any

import numpy as np

from iclimit.checks import given, parse_array
from iclimit.simulate.arrays import Array

ROUNDING = 1e-12
"""Asymmetry and negative eigenvalues relative to the largest entry, times d, that are rounding."""


def parse_covariances(dim: int, **values: Any) -> dict[str, np.ndarray]:
    """Return those covariances that are given, called ``<name>_covariance`` in messages."""
    values = given(**values)
    return {name: parse_covariance(f"{name}_covariance", values[name], dim) for name in values}


def parse_covariance(name: str, value: Any, dim: int) -> np.ndarray:
    """Return a covariance as an array of shape (d,) or (d, d)."""
    covariance = parse_array(name, value, (dim,), (dim, dim))
    if covariance.ndim == 1:
        eigenvalues, rounding = covariance, 0.0
    else:
        rounding = ROUNDING * dim * float(np.max(np.abs(covariance)))
        asymmetry = float(np.max(np.abs(covariance - covariance.T)))
        if asymmetry > rounding:
            raise ValueError(
                f"{name} must be symmetric, got entries that differ by {asymmetry:.3g} from those "
                "of its transpose"
            )
        eigenvalues = np.linalg.eigvalsh(covariance)
    least = float(np.min(eigenvalues))
    if least < -rounding:
        raise ValueError(f"{name} must have eigenvalues >= 0, got {least:.3g}")
    return covariance


def covariance_root(covariance: np.ndarray) -> np.ndarray:
    """Symmetric square root, of the same shape."""
    if covariance.ndim == 1:
        return np.sqrt(covariance)
    eigenvalues, basis = np.linalg.eigh(covariance)
    return np.asarray((basis * np.sqrt(np.maximum(eigenvalues, 0))) @ basis.T)


def covariance_rank(covariance: np.ndarray | None, dim: int) -> int:
    """Number of eigenvalues that are more than rounding."""
    if covariance is None:
        return dim
    matrix = np.diag(covariance) if covariance.ndim == 1 else covariance
    return int(np.linalg.matrix_rank(matrix, hermitian=True))


def times_root(rows: Array, root: Array | None) -> Array:
    """Vectors along the last axis times a root."""
    if root is None:
        return rows
    return rows * root if root.ndim == 1 else rows @ root


def fingerprint(covariance: np.ndarray) -> str:
    """Short text that tells covariances apart."""
    return hashlib.sha256(np.ascontiguousarray(covariance).tobytes()).hexdigest()[:16]
