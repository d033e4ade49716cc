r"""Joint spectra of training tasks, test tasks and inputs.

The errors of structured data depend on the covariances :math:`C` of the training tasks, :math:`C'`
of the test tasks and :math:`\Sigma` of the inputs through a joint law of numbers, if C and
:math:`\Sigma` commute: along each common eigenvector the eigenvalues c and :math:`\sigma`, and the
variance :math:`t = v^\top C' v` of the test tasks.  The rest of :math:`C'` does not matter, so it
need not commute with anything.

The ranks of two measures pair their eigenvalues.  The eigenvalues of a matrix of size d are the
means of the eigenvalues, as a function of their rank, over d equal cells.  Means keep the trace,
so that finite size differs from the limit by O(1/d).  Quantiles would lose the tail of a power
law: half of the trace at d = 128 for the exponent 0.9.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import check_integers, real_array
from iclimit.asymptotics.numbers import Number
from iclimit.asymptotics.spectra.atoms import Atoms
from iclimit.asymptotics.spectra.measure import SpectralMeasure, parse_measure
from iclimit.checks import ROUNDING, check_choice, parse_covariance

# Nodes or cells of a measure with a density.
ORDER = 100

# Nodes or cells where the inputs have a spectrum as well.
ORDER_WITH_INPUTS = 40

PAIRINGS = ("same", "reversed", "independent")
INPUT_PAIRINGS = PAIRINGS[:2]

_RANGES = {"task": "[0, inf)", "test": "[0, inf)", "inputs": "(0, inf)", "weight": "(0, inf)"}

# Largest commutator, relative to the product of the norms, that passes for rounding.
_COMMUTING = 1e-9


@dataclass(frozen=True, eq=False)
class JointSpectrum:
    r"""Joint law of task, test and input eigenvalues, as weighted atoms.

    Attributes
    ----------
    task : ndarray (m,)
        Eigenvalues c of the training task covariance; not all zero.
    test : ndarray (m,)
        Mean variance of the test tasks along the eigenvectors of each atom.
    inputs : ndarray (m,)
        Eigenvalues :math:`\sigma > 0` of the input covariance; ones for isotropic inputs.
    weight : ndarray (m,)
        Fractions of the eigenvectors; they sum to 1.

    Raises
    ------
    ValueError
        If the arrays are not one-dimensional of equal length, or a value is out of range.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import JointSpectrum
    >>> JointSpectrum(task=[1.6, 0.4], test=[1, 1], inputs=[1, 1], weight=[0.5, 0.5]).task
    array([1.6, 0.4])
    """

    task: np.ndarray
    test: np.ndarray
    inputs: np.ndarray
    weight: np.ndarray

    def __post_init__(self) -> None:
        for name, allowed in _RANGES.items():
            array = real_array(name, getattr(self, name), allowed).copy()
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        shapes = {getattr(self, name).shape for name in _RANGES}
        if len(shapes) != 1 or self.task.ndim != 1 or self.task.size == 0:
            raise ValueError(
                f"{', '.join(_RANGES)} must be one-dimensional of equal length >= 1, "
                f"got shapes {sorted(shapes)}"
            )
        if not np.any(self.task):
            raise ValueError("task must have a positive eigenvalue, got only zeros")
        if abs(math.fsum(self.weight) - 1) > 1e-9:
            raise ValueError(f"weight must sum to 1, got {math.fsum(self.weight)}")

    @classmethod
    def of_matrices(
        cls,
        task_covariance: ArrayLike | None,
        test_covariance: ArrayLike | None = None,
        input_covariance: ArrayLike | None = None,
    ) -> JointSpectrum:
        """Joint spectrum of given covariance matrices.

        Parameters
        ----------
        task_covariance : array of shape (d, d) or (d,)
            Covariance of the training tasks; an array of shape (d,) is a diagonal matrix.
        test_covariance : array of shape (d, d) or (d,), optional
            Covariance of the test tasks, by default that of the training tasks.
        input_covariance : array of shape (d, d) or (d,), optional
            Covariance of the inputs, by default isotropic.  It must commute with
            task_covariance.

        Returns
        -------
        JointSpectrum
            Sorted by task; equal eigenvalues are one atom.

        Raises
        ------
        ValueError
            If a matrix is not symmetric, has a negative eigenvalue or another size, or if task
            and inputs do not commute (`finite_size_errors` takes any covariances).

        Examples
        --------
        >>> import numpy as np
        >>> from iclimit.asymptotics.pretraining import JointSpectrum
        >>> spectrum = JointSpectrum.of_matrices(np.diag([2.0, 2.0, 0.5, 0.5]), np.eye(4))
        >>> spectrum.task, spectrum.weight
        (array([0.5, 2. ]), array([0.5, 0.5]))
        """
        C = covariance_matrix("task_covariance", task_covariance)
        S = np.eye(len(C))
        T = C
        d = len(C)
        if input_covariance is not None:
            S = covariance_matrix("input_covariance", input_covariance, d)
        basis = _common_basis(C, S)
        if test_covariance is not None:
            T = covariance_matrix("test_covariance", test_covariance, d)
        c = _diagonal(basis, C)
        t = _diagonal(basis, T)
        s = _diagonal(basis, S)
        return _merged([c, t, np.ones(d) if input_covariance is None else s], np.ones(d))

    @classmethod
    def of_measures(
        cls,
        task_spectrum: SpectralMeasure,
        test_spectrum: SpectralMeasure | None = None,
        *,
        input_spectrum: SpectralMeasure | None = None,
        order: int | None = None,
        pairing: str = "same",
        input_pairing: str = "same",
    ) -> JointSpectrum:
        """Joint spectrum of spectral measures, paired by the ranks of the eigenvalues.

        Parameters
        ----------
        task_spectrum : SpectralMeasure
            Law of the eigenvalues of the covariance of the training tasks.
        test_spectrum : SpectralMeasure, optional
            That of the test tasks, by default as in training.
        input_spectrum : SpectralMeasure, optional
            That of the inputs, by default isotropic.
        order : int >= 1, optional
            Order of the quadrature rule of a single measure with a density.  Of several, it is
            the number of cells of the rank over which they are averaged; the errors then converge
            as 1/order^2.  By default 100 (errors of 1e-4), or 40 with inputs (1e-3), where the
            time grows as order^2.  Atoms are exact.
        pairing : {"same", "reversed", "independent"}
            Eigenvectors of the test covariance against those of the training covariance: in the
            same order of eigenvalues, in the opposite order, or in free (random) position, where
            only the mean of the test spectrum matters.
        input_pairing : {"same", "reversed"}
            The same for inputs against tasks; these must commute, so there is no free position.

        Returns
        -------
        JointSpectrum

        Raises
        ------
        TypeError
            If a measure is none.
        ValueError
            If a pairing has another name, or a measure has negative eigenvalues.

        Examples
        --------
        >>> from iclimit.asymptotics.pretraining import JointSpectrum
        >>> from iclimit.asymptotics.spectra import MarchenkoPastur
        >>> spectrum = JointSpectrum.of_measures(MarchenkoPastur(0.5))
        >>> round(float(spectrum.weight @ spectrum.task), 12)
        1.0
        """
        check_choice("pairing", pairing, PAIRINGS)
        check_choice("input_pairing", input_pairing, INPUT_PAIRINGS)
        if order is None:
            order = ORDER if input_spectrum is None else ORDER_WITH_INPUTS
        check_integers(least=1, order=order)
        pairing = pairing if test_spectrum else "same"
        functions = []
        for name, given, chosen in (
            ("task_spectrum", task_spectrum, "same"),
            ("test_spectrum", test_spectrum or task_spectrum, pairing),
            ("input_spectrum", input_spectrum or Atoms([1.0]), input_pairing),
        ):
            measure = parse_measure(name, given)
            if (support := measure.support)[0][0] < 0:
                raise ValueError(f"{name} must have eigenvalues >= 0, got the support {support}")
            if chosen == "independent":
                measure = Atoms([measure.mean])
            functions.append(RankFunction(measure, descending=chosen == "reversed"))
        return _merged(*_paired(functions, order))


def _paired(functions: list[RankFunction], order: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Eigenvalues of each, and their common weights."""
    varying = [f for f in functions if f.varies]
    if len(set(varying)) == 1:
        nodes, weight = _inner_rule(varying[0].measure, order)
        nodes = nodes[weight > 0]
        weight = weight[weight > 0] / weight.sum()
        same = np.ones(len(nodes))
        return [nodes if f.varies else f.measure.support[0][0] * same for f in functions], weight
    ends = _common_cells(functions, order)
    return [f.means(ends) for f in functions], np.diff(ends)


def check_spectrum(spectrum: object) -> None:
    """Refuse what is no joint spectrum."""
    if not isinstance(spectrum, JointSpectrum):
        raise TypeError(f"spectrum must be a JointSpectrum, got {type(spectrum).__name__}")


def optional_covariance(name: str, value: ArrayLike | None, dim: int) -> np.ndarray | None:
    """Covariance as a (d, d) matrix, or None if it is None."""
    return None if value is None else covariance_matrix(name, value, dim)


def covariance_matrix(name: str, value: Number, dim: int | None = None) -> np.ndarray:
    """Convert a covariance to a (d, d) matrix; eigenvalues of shape (d,) make it diagonal.

    Raises
    ------
    TypeError
        If it is not an array of real numbers.
    ValueError
        If it is not symmetric, not finite, of another size or has a negative eigenvalue.
    """
    matrix = real_array(name, value, "(-inf, inf)")
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    size = "d" if dim is None else str(dim)
    if not (square or matrix.ndim == 1) or len(matrix) == 0 or dim not in (None, len(matrix)):
        raise ValueError(
            f"{name} must have shape ({size}, {size}) or ({size},), got shape {matrix.shape}"
        )
    full = np.diag(matrix) if matrix.ndim == 1 else matrix
    matrix = parse_covariance(name, full, len(full))
    return (matrix + matrix.T) / 2


def _common_basis(C: np.ndarray, S: np.ndarray) -> np.ndarray:
    """Orthogonal matrix whose columns are eigenvectors of both."""
    sizes = np.linalg.norm(C), np.linalg.norm(S)
    if np.linalg.norm(C @ S - S @ C) > _COMMUTING * sizes[0] * sizes[1]:
        raise ValueError(
            "task and inputs must commute to have a joint spectrum; finite_size_errors takes any "
            "covariances"
        )
    if not np.any(C - np.diag(np.diag(C))) and not np.any(S - np.diag(np.diag(S))):
        return np.eye(len(C))
    # A generic combination has no more equal eigenvalues than the pair.
    return np.linalg.eigh(C / max(sizes[0], 1e-300) + math.sqrt(2) * S / sizes[1])[1]


def _diagonal(basis: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Diagonal in another basis, zero where it is rounding."""
    if np.array_equal(basis, np.eye(len(basis))):
        return np.diag(matrix)
    values = np.einsum("ia,ij,ja->a", basis, matrix, basis, optimize=True)
    return np.where(values > ROUNDING * np.max(np.abs(matrix)), values, 0.0)


def _merged(columns: list[np.ndarray], weight: np.ndarray) -> JointSpectrum:
    """One atom for equal eigenvalues."""
    task, test, inputs = columns
    rows, where = np.unique(np.column_stack([task, inputs, test]), axis=0, return_inverse=True)
    total = np.bincount(where.ravel(), weight)
    return JointSpectrum(rows[:, 0], rows[:, 2], rows[:, 1], total / math.fsum(total))


# Nodes per interval of a measure: means over cells are accurate to 1e-5 with so many.
_FINE = 10_000

# Width of the narrowest cell: the mean over a cell is a difference divided by its width.
_NARROW = 1e-9

# Rounding of the ends of a cell, over its width.
_INSIDE = 1e-6


@dataclass(frozen=True)
class RankFunction:
    """Eigenvalues of a measure as a function of the rank u, from 0 to 1.

    Attributes
    ----------
    measure : SpectralMeasure
        Law of the eigenvalues.
    descending : bool
        Whether the largest eigenvalue has the rank 0.
    """

    measure: SpectralMeasure
    descending: bool = False

    @property
    def varies(self) -> bool:
        """Whether there is more than one eigenvalue."""
        return self.measure.support[0][0] < self.measure.support[-1][1]

    def steps(self, cells: int) -> np.ndarray:
        """Ranks between which the function is taken to be constant, from 0 to 1."""
        positions, masses = np.reshape(self.measure.atoms, (-1, 2)).T
        upper = np.asarray(self.measure.cdf(positions))
        ends = np.concatenate([[0.0, 1.0], upper - masses, upper])
        if not isinstance(self.measure, Atoms):
            # Narrow at both ends, where a function may have a singularity.
            graded = (1 - np.cos(np.pi * np.arange(cells + 1) / cells)) / 2
            ends = np.append(ends, graded)
        ends = np.unique(np.clip(ends, 0.0, 1.0))
        return 1 - ends[::-1] if self.descending else ends

    def means(self, ends: np.ndarray) -> np.ndarray:
        """Means between consecutive ranks."""
        ends = 1 - ends[::-1] if self.descending else ends
        ranks, sums = self._cumulated
        width = np.diff(ends)
        means = np.diff(np.interp(ends, ranks, sums)) / width
        if isinstance(self.measure, Atoms):
            # Exactly equal numbers wherever there is one eigenvalue, so that equal rows merge.
            first = np.searchsorted(ranks[1:-1], ends[:-1] + _INSIDE * width)
            last = np.searchsorted(ranks[1:-1], ends[1:] - _INSIDE * width)
            means = np.where(first == last, self.measure.values[first], means)
        return means[::-1] if self.descending else means

    @cached_property
    def _cumulated(self) -> tuple[np.ndarray, np.ndarray]:
        """Integrals of the weight and of the eigenvalues, in ascending order."""
        nodes, weights = _inner_rule(self.measure, _FINE)
        order = np.argsort(nodes)
        nodes = nodes[order]
        weights = weights[order]
        ranks = np.append(0.0, np.cumsum(weights))
        return ranks / ranks[-1], np.append(0.0, np.cumsum(nodes * weights))


def _inner_rule(measure: SpectralMeasure, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes in the support: the node 0 in the rule of Marchenko-Pastur is no eigenvalue."""
    return SpectralMeasure.quadrature(measure, order)


def _common_cells(functions: Sequence[RankFunction], cells: int) -> np.ndarray:
    """Ranks between which all functions are taken to be constant, from 0 to 1."""
    ends = np.unique(np.concatenate([f.steps(cells) for f in functions]))
    ends = ends[np.append(True, np.diff(ends) > _NARROW)]
    ends[-1] = 1.0
    return ends
