"""What a loss of deep linear attention is a mean over: eigenvalues, tasks and their setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import real_array
from iclimit.asymptotics.pretraining import JointSpectrum
from iclimit.asymptotics.pretraining.structure import Spectrum
from iclimit.asymptotics.spectra import Atoms, SpectralMeasure, TwoPoint, spectrum
from iclimit.checks import check_choice

# Isotropic; fixed covariances of inputs and tasks; covariances rotated in each context.
SETTINGS = ("iso", "fs", "rrs")

# Below it the lower end of the spectrum is lost to rounding.
_LEAST_RATIO = 1e-6

# Scale of the inputs; powers of eigenvalues have to stay within float64.
_LARGEST = 1e50

# Noise over alpha: beyond it losses are those of the null predictor to rounding.
_NOISIEST = 1e15


# Spectrum of the inputs, or inputs and tasks together.
Inputs: TypeAlias = Spectrum | JointSpectrum | None


@dataclass(frozen=True)
class Population:
    """Eigenvalues of the inputs with the mean variance of the tasks along each.

    Attributes
    ----------
    measure : SpectralMeasure
        Spectrum of the inputs.
    tasks : ndarray or None
        Eigenvalues of the tasks, one for each of those of the measure in ascending order; None
        for isotropic tasks.
    """

    measure: SpectralMeasure
    tasks: np.ndarray | None

    @classmethod
    def parse(cls, setting: str, inputs: Inputs, tasks: ArrayLike | None) -> Population:
        """Population from what a user gives."""
        check_choice("setting", setting, SETTINGS)
        if setting == "iso":
            for name, given in (("spectrum", inputs), ("task_spectrum", tasks)):
                if given is not None:
                    raise ValueError(f"{name} must not be given for setting='iso', got {given!r}")
            return cls(Atoms([1.0]), None)
        if inputs is None:
            raise ValueError(f"spectrum must be given for setting={setting!r}")
        if isinstance(inputs, JointSpectrum):
            if tasks is not None:
                raise ValueError("task_spectrum must not be given beside a joint spectrum")
            return cls._merged(inputs.inputs, inputs.weight, inputs.task)
        if isinstance(inputs, str):
            inputs = spectrum(inputs)
        if isinstance(inputs, SpectralMeasure):
            if tasks is not None:
                raise ValueError(
                    "task_spectrum needs a spectrum of as many eigenvalues, or give a "
                    f"JointSpectrum as spectrum, got {inputs} and {tasks!r}"
                )
            return cls(inputs, None)
        return cls._of_lists(inputs, tasks)

    @classmethod
    def _of_lists(cls, inputs: ArrayLike, tasks: ArrayLike | None) -> Population:
        values = real_array("spectrum", inputs, "[0, inf)")
        omega = np.ones_like(values) if tasks is None else real_array("task_spectrum", tasks)
        if values.ndim != 1 or not values.size or omega.shape != values.shape:
            raise ValueError(
                "spectrum and task_spectrum must be lists of as many eigenvalues, got shapes "
                f"{values.shape} and {omega.shape}"
            )
        if not np.all((omega >= 0) & (omega < np.inf)):
            raise ValueError(f"task_spectrum must be >= 0 and finite, got {omega.min()}")
        if not np.any(values * omega) and np.any(values):
            raise ValueError("task_spectrum must be > 0 where spectrum is, for some eigenvalue")
        return cls._merged(values, np.full(values.size, 1 / values.size), omega)

    @classmethod
    def of_setting(
        cls,
        setting: str,
        inputs: Inputs,
        tasks: ArrayLike | None,
        widths: np.ndarray,
        matrix: np.ndarray | None,
    ) -> tuple[Population, float]:
        """Population that scalar steps act on, and the factor of its loss.

        With fixed covariances it has the matrix in it, by default the inverse covariance.
        """
        population = cls.parse(setting, inputs, tasks)
        if setting != "fs":
            return population, 1.0
        if np.any(widths < 1):
            raise ValueError(f"width_ratio must be >= 1 for setting='fs', got {widths.min()}")
        if matrix is None:
            return population.whitened()
        return cls.preconditioned(inputs, tasks, matrix), 1.0

    @classmethod
    def _merged(cls, values: np.ndarray, weights: np.ndarray, tasks: np.ndarray) -> Population:
        """Equal eigenvalues are one atom, with the mean of their tasks."""
        atoms = Atoms(values, weights)
        which = np.searchsorted(atoms.values, values)
        return cls(atoms, np.bincount(which, weights * tasks) / atoms.weights)

    @classmethod
    def preconditioned(
        cls, inputs: Inputs, tasks: ArrayLike | None, matrix: np.ndarray
    ) -> Population:
        """Population that fixed covariances have after a commuting matrix of given eigenvalues."""
        values = real_array("spectrum", inputs, "[0, inf)")
        omega = np.ones_like(values) if tasks is None else real_array("task_spectrum", tasks)
        if values.shape != matrix.shape:
            raise ValueError(
                "gamma must have one number for each eigenvalue of spectrum, got shapes "
                f"{matrix.shape} and {values.shape}"
            )
        return cls.parse("fs", matrix * values, omega / matrix)

    def whitened(self) -> tuple[Population, float]:
        """Population after the inverse covariance of the inputs, and the variance of labels."""
        law = self.law(np.inf, np.inf)
        if law.values[0] <= 0:
            raise ValueError(f"spectrum must be > 0 for setting='fs', got {law.values[0]}")
        return Population(Atoms([1.0]), None), self.label_variance(law)

    def law(self, alpha: float, width_ratio: float) -> TwoPoint:
        """Sample covariances at a context length and a width."""
        for name, ratio in (("alpha", alpha), ("width_ratio", width_ratio)):
            if ratio < _LEAST_RATIO:
                raise ValueError(f"{name} must be >= {_LEAST_RATIO:g} here, got {ratio:g}")
        top = self.measure.edges[1]
        if top not in (0.0, np.inf) and not 1 / _LARGEST <= top <= _LARGEST:
            raise ValueError(
                f"spectrum must have its largest eigenvalue in [{1 / _LARGEST:g}, {_LARGEST:g}], "
                f"got {top:g}"
            )
        try:
            return TwoPoint(self.measure, alpha=alpha, width_ratio=width_ratio)
        except ValueError as error:
            raise ValueError(str(error).replace("population", "spectrum")) from None

    @staticmethod
    def check_noise(noise: np.ndarray, alpha: np.ndarray) -> None:
        """Raise a ValueError for noise beside which float64 loses the signal of a context."""
        wrong = np.ravel(
            np.broadcast_to(noise > _NOISIEST * alpha, np.broadcast(noise, alpha).shape)
        )
        if np.any(wrong):
            noises, alphas = np.broadcast_arrays(noise, alpha)
            first = int(np.argmax(wrong))
            raise ValueError(
                f"noise_variance must be <= {_NOISIEST:g} alpha here, got {noises.flat[first]:g} "
                f"with alpha = {alphas.flat[first]:g}"
            )

    def tasks_at(self, law: TwoPoint) -> np.ndarray:
        """Eigenvalues of the tasks at those of the law."""
        return np.ones_like(law.values) if self.tasks is None else self.tasks

    def label_variance(self, law: TwoPoint) -> float:
        """Loss of the null predictor."""
        return float(law.weights @ (law.values * self.tasks_at(law)))
