"""Atoms and mixtures: measures made of eigenvalues or of other measures."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_integers, real_array
from iclimit.asymptotics.numbers import Number, Value
from iclimit.asymptotics.spectra.integration import Intervals, merged_atoms, merged_intervals
from iclimit.asymptotics.spectra.measure import SpectralMeasure
from iclimit.statement import canonical

# How far from 1 the sum of weights may be: weights are typed by hand, with rounded decimals.
_WEIGHT_SUM = 1e-9

_FILE = "path must be a file of eigenvalues in one column or row, or of a square matrix"

# A name of a column, which may be empty above an index; and one that says what the column holds.
_NAME = re.compile(r'(?!(?:nan|inf)\b)("?[^\W\d][\w()/-]*"?)?|""', re.IGNORECASE)
_NAMED = re.compile("eigenval|variance|lambda", re.IGNORECASE)

# Eigenvalues below this fraction of the largest, times the dimension, are zeros of a singular
# matrix.
_RANK = 1e-13


class Atoms(SpectralMeasure):
    """Finitely many eigenvalues.

    Parameters
    ----------
    values : array, shape (d,)
        Eigenvalues, in any order; equal ones are merged.
    weights : array, shape (d,), optional
        Their masses, >= 0 and of sum 1; equal by default.

    Raises
    ------
    ValueError
        If values is empty, not one-dimensional or not finite, or the weights do not fit.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import Atoms
    >>> law = Atoms([0.4, 1.6], [0.25, 0.75])
    >>> round(law.mean, 12), round(float(law.stieltjes(-1.0)), 12)
    (1.3, 0.467032967033)
    """

    # The matrix whose eigenvalues these are, if one was given.
    _matrix: np.ndarray | None = None

    def __init__(self, values: Value, weights: Value = None) -> None:
        x = real_array("values", values)
        if x.ndim != 1 or not x.size or not np.all(np.isfinite(x)):
            raise ValueError(f"values must be a non-empty list of finite numbers, got {values}")
        mass = np.full(x.size, 1 / x.size) if weights is None else _weights(weights, x.size)
        self.values, which = np.unique(x[mass > 0], return_inverse=True)
        self.weights = np.bincount(which, mass[mass > 0])
        self.support = tuple((x, x) for x in self.values.tolist())
        self.atoms = tuple(zip(self.values.tolist(), self.weights.tolist(), strict=True))

    @classmethod
    def of_matrix(cls, matrix: Number) -> Atoms:
        """Eigenvalues of a symmetric matrix.

        Parameters
        ----------
        matrix : array, shape (d, d)
            Eigenvalues within rounding of zero count as zero.

        Raises
        ------
        ValueError
            If the matrix is not square, finite and symmetric.
        """
        C = real_array("matrix", matrix)
        if C.ndim != 2 or C.shape[0] != C.shape[1] or not C.size:
            raise ValueError(f"matrix must be square, got shape {C.shape}")
        largest = abs(C).max()
        if not np.isfinite(largest) or abs(C - C.T).max() > 1e-12 * largest:
            raise ValueError("matrix must be finite and symmetric")
        eigenvalues = np.linalg.eigvalsh(C)
        eigenvalues[abs(eigenvalues) <= _RANK * len(C) * abs(eigenvalues).max()] = 0.0
        law = cls(eigenvalues)
        law._matrix = C  # the digits of its eigenvalues differ between processors
        return law

    @classmethod
    def from_file(cls, path: str | Path) -> Atoms:
        """Eigenvalues from a text file: in one column or row, or of a square symmetric matrix.

        Parameters
        ----------
        path : path
            Numbers separated by commas or blanks; text after # is ignored.  The first line may
            name the columns: the only one that is named as an eigenvalue or a variance is then
            taken.  A first column that counts the rows from 0 or 1 is left out.

        Raises
        ------
        ValueError
            If the file holds anything else.
        """
        names, table = _table(path)
        named = [column for column, name in enumerate(names) if _NAMED.search(name)]
        if len(named) == 1 and len(names) == table.shape[1]:
            table = table[:, named]
        elif _counts_rows(table):
            table = table[:, 1:]
        if 1 in table.shape:
            return cls(table.ravel())
        if table.shape[0] != table.shape[1]:
            hint = "; keep the column of eigenvalues" if table.shape[1] == 2 else ""
            raise ValueError(f"{_FILE}, got a table of shape {table.shape} in {path}{hint}")
        try:
            return cls.of_matrix(table)
        except ValueError as error:
            raise ValueError(f"{_FILE}, got {path}: {error}") from None

    def __repr__(self) -> str:
        return f"Atoms({self.values.size} values in [{self.values[0]}, {self.values[-1]}])"

    @property
    def statement(self) -> dict[str, Any]:
        if self._matrix is not None:
            return {"measure": "Atoms.of_matrix", "matrix": canonical(self._matrix)}
        arrays = {"values": canonical(self.values), "weights": canonical(self.weights)}
        return {"measure": "Atoms", **arrays}

    def moment(self, order: int) -> float:
        check_integers(order=order)
        return float(self.weights @ self.values**order)

    def cdf(self, x: Number) -> Value:
        below = np.searchsorted(self.values, real_array("x", x), side="right")
        return np.concatenate([[0.0], self._cumulated])[below][()]

    @cached_property
    def _cumulated(self) -> np.ndarray:
        total = np.cumsum(self.weights)
        return total / total[-1]

    def quantile(self, probability: Number) -> Value:
        p = real_array("probability", probability)
        return self.values[np.searchsorted(self._cumulated, p)][()]

    def scaled(self, factor: float) -> Atoms:
        image = super().scaled(factor)
        return Atoms(*zip(*image.atoms, strict=True))

    def shifted(self, shift: float) -> Atoms:
        image = super().shifted(shift)
        return Atoms(*zip(*image.atoms, strict=True))


class Mixture(SpectralMeasure):
    """Weighted mean of measures.

    Parameters
    ----------
    measures : sequence of SpectralMeasure
    weights : sequence of float
        Their masses, >= 0 and of sum 1.

    Raises
    ------
    ValueError
        If measures is empty or the weights do not fit.

    Examples
    --------
    >>> from iclimit.asymptotics.spectra import Atoms, Mixture, Uniform
    >>> spiked = Mixture([Uniform(0.5, 1.5), Atoms([5.0])], [0.9, 0.1])
    >>> spiked.support, round(float(spiked.mean), 12)
    (((0.5, 1.5), (5.0, 5.0)), 1.4)
    """

    def __init__(self, measures: Sequence[SpectralMeasure], weights: Value) -> None:
        given = measures if isinstance(measures, Sequence) else ()
        if not given or not all(isinstance(measure, SpectralMeasure) for measure in given):
            raise ValueError(f"measures must be spectral measures, got {measures}")
        self.measures = tuple(measures)
        self.weights = _weights(weights, len(measures))

    def _mean_of(self, of_one: Callable[[SpectralMeasure], Any]) -> Value:
        parts = zip(self.measures, self.weights, strict=True)
        return sum(weight * of_one(measure) for measure, weight in parts)

    @cached_property
    def support(self) -> Intervals:
        return merged_intervals(i for measure in self.measures for i in measure.support)

    @cached_property
    def atoms(self) -> Intervals:
        pairs = zip(self.measures, self.weights.tolist(), strict=True)
        return merged_atoms((x, weight * p) for measure, weight in pairs for x, p in measure.atoms)

    def density(self, x: Number) -> Value:
        return self._mean_of(lambda measure: measure.density(x))

    def _rule(self, order: int) -> tuple[np.ndarray, np.ndarray]:
        rules = [measure._rule(order) for measure in self.measures]
        nodes = np.concatenate([nodes for nodes, _ in rules])
        pairs = zip(self.weights, rules, strict=True)
        return nodes, np.concatenate([weight * masses for weight, (_, masses) in pairs])

    def expect(self, kernel: Callable[..., Any], pole: Number, *arguments: Any) -> Value:
        return self._mean_of(lambda measure: measure.expect(kernel, pole, *arguments))

    def moment(self, order: int) -> Value:
        return self._mean_of(lambda measure: measure.moment(order))

    def cdf(self, x: Number) -> Value:
        return self._mean_of(lambda measure: measure.cdf(x))

    def stieltjes(self, z: Number, *, derivative: int = 0) -> Value:
        return self._mean_of(lambda measure: measure.stieltjes(z, derivative=derivative))


def _counts_rows(table: np.ndarray) -> bool:
    """Whether the first column of a table is an index; of a symmetric matrix it is none."""
    rows, columns = table.shape
    if min(rows, columns) < 2 or (rows == columns and np.array_equal(table, table.T)):
        return False
    return table[0, 0] in (0, 1) and bool(np.all(np.diff(table[:, 0]) == 1))


def _table(path: str | Path) -> tuple[list[str], np.ndarray]:
    """Names of the columns, if there are any, and the numbers of a text file by its rows.

    A ValueError names the line that does not fit.
    """
    try:
        lines = Path(path).read_text("utf-8-sig").splitlines()
    except UnicodeDecodeError:
        raise ValueError(f"{_FILE}, got {path}, which is no text in UTF-8") from None
    names: list[str] = []
    rows: list[list[float]] = []
    for number, line in enumerate(lines, start=1):
        if not (text := line.split("#")[0].strip()):
            continue
        parts = re.split(r"\s*,\s*|\s+", text)
        if not rows and not names and all(map(_NAME.fullmatch, parts)) and any(parts):
            names = parts
            continue
        try:
            rows.append([float(part) for part in parts])
        except ValueError:
            hint = "" if rows else "; put # before text that is no list of names"
            raise ValueError(f"{_FILE}, got {text!r} in line {number} of {path}{hint}") from None
        if len(rows[-1]) != len(rows[0]):
            count = f"{len(rows[-1])} numbers after rows of {len(rows[0])}"
            raise ValueError(f"{_FILE}, got {count} in line {number} of {path}")
    if not rows:
        raise ValueError(f"{_FILE}, got no numbers in {path}")
    return names, np.array(rows)


def _weights(weights: Value, count: int) -> np.ndarray:
    mass = real_array("weights", weights)
    if mass.shape != (count,):
        raise ValueError(f"weights must be {count} numbers, got shape {mass.shape}")
    if np.any(mass < 0) or not abs(mass.sum() - 1) <= _WEIGHT_SUM:
        raise ValueError(f"weights must be >= 0 and of sum 1, got {mass} of sum {mass.sum()}")
    return mass / mass.sum()
