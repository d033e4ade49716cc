"""Points of the parameter space with structured tasks, tests and inputs."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.random import SeedSequence

from iclimit.asymptotics import pretraining
from iclimit.asymptotics.spectra import spectrum
from iclimit.prediction import Prediction
from iclimit.samples import Samples
from iclimit.simulate.pretraining import simulate_errors
from iclimit.statement import named_cell
from iclimit.validation.claims.pretraining.points import TASK_SETS, Point
from iclimit.validation.rows import Later, call, run

# Different eigenvalues, equally frequent.  At sizes that are multiples of it the joint spectrum is
# the same, so that extrapolations in 1/d tend to its limit.
LEVELS = 8

# Repeats at each size of an extrapolation.  At d = 16 the ratio to the prediction may be 0.2 % off
# a straight line in 1/d, which is more than the error bars of the full preset.
SIZES = {
    "quick": {16: 60, 24: 24, 32: 28},
    "medium": {16: 400, 24: 200, 32: 200, 48: 30},
    "full": {24: 1500, 32: 1000, 48: 400, 64: 150},
}


def eigenvalues(description: str, dim: int) -> np.ndarray:
    """Ascending eigenvalues of mean 1 at the quantiles of a measure."""
    levels = spectrum(description).quantiles(LEVELS)
    return np.repeat(levels / np.mean(levels), dim // LEVELS)


def covariances(dim: int, task: str, test: str, inputs: str, alignment: str) -> dict[str, Any]:
    """Covariances of training tasks, test tasks and inputs, of which None stands for the identity.

    Parameters
    ----------
    dim : int
    task, inputs : str
        Eigenvalues, as `iclimit.asymptotics.spectra.spectrum` reads them.
    test : {"aligned", "reversed", "strongest", "weakest"}
        Covariance of the tests, of the trace of that of training: the same, its eigenvalues in
        opposite order, or all variance in the direction of its largest or least eigenvalue.
    alignment : {"same", "reversed", "rotated"}
        Eigenvectors of the inputs against those of the tasks: in ascending order of the
        eigenvalues of both, in opposite order, or in random position.
    """
    C = eigenvalues(task, dim)
    tests = {
        "aligned": C,
        "reversed": C[::-1],
        "strongest": np.sum(C) * np.eye(dim)[-1],
        "weakest": np.sum(C) * np.eye(dim)[0],
    }
    return {
        "task_covariance": C,
        "test_covariance": tests[test],
        "input_covariance": _input_covariance(dim, inputs, alignment),
    }


def _input_covariance(dim: int, inputs: str, alignment: str) -> np.ndarray | None:
    if inputs == "isotropic":
        return None
    values = eigenvalues(inputs, dim)
    if alignment == "rotated":
        basis = np.linalg.qr(np.random.default_rng(dim).standard_normal((dim, dim)))[0]
        return (basis * values) @ basis.T
    return values[::-1] if alignment == "reversed" else values


# Arguments of `covariances` but for the dimension.
Law: TypeAlias = tuple[str, str, str, str]


@named_cell("structured_run")
def structured_run(
    *,
    dim: int,
    law: Law,
    repeats: int,
    first_repeat: int = 0,
    rng: SeedSequence,
    backend: str = "numpy",
    **parameters: Any,
) -> Samples:
    """Simulated errors with described covariances."""
    return simulate_errors(
        dim=dim,
        repeats=repeats,
        first_repeat=first_repeat,
        rng=rng,
        backend=backend,
        **covariances(dim, *law),
        **parameters,
    )


@named_cell("structured_prediction")
def structured_prediction(
    *, dim: int, law: Law, rng: SeedSequence, **parameters: Any
) -> Prediction:
    """Finite-size prediction with described covariances."""
    return pretraining.finite_size_errors(dim=dim, **covariances(dim, *law), rng=rng, **parameters)


@dataclass(frozen=True)
class StructuredPoint(Point):
    """A point with covariances, in the words of `covariances`."""

    task: str = "isotropic"
    test: str = "aligned"
    inputs: str = "isotropic"
    alignment: str = "same"
    test_alpha: float | None = None
    test_rho: float | None = None

    def __str__(self) -> str:
        words = [super().__str__(), self.task]
        usual = StructuredPoint(1, 1, 1, 1)
        for name in ("test", "inputs", "alignment", "test_alpha", "test_rho"):
            value = getattr(self, name)
            if value != getattr(usual, name):
                shown = value if isinstance(value, str) else f"{value:g}"
                words.append(f"{name.replace('_', '-')}={shown}")
        return " ".join(words)

    @property
    def law(self) -> Law:
        """Covariances in words."""
        return self.task, self.test, self.inputs, self.alignment

    @property
    def spectrum(self) -> pretraining.JointSpectrum:
        """Joint spectrum of the limit."""
        return pretraining.JointSpectrum.of_matrices(*covariances(LEVELS, *self.law).values())

    @property
    def limit(self) -> Any:
        return pretraining.structured_errors(**self.setting, spectrum=self.spectrum)

    @property
    def setting(self) -> dict[str, Any]:
        """Arguments of the theory but for the spectrum."""
        names = ("tau", "alpha", "kappa", "rho", "ridge", "test_alpha", "test_rho")
        return {name: getattr(self, name) for name in names}

    def theories(self) -> tuple[Later, Later]:
        spectrum = call(getattr, self, "spectrum")
        errors = call(pretraining.structured_errors, **self.setting, spectrum=spectrum)
        return errors.icl, errors.idg

    def integers(self, dim: int) -> dict[str, Any]:
        test_context = None if self.test_alpha is None else max(1, round(self.test_alpha * dim))
        own = {"law": self.law, "test_context": test_context, "test_rho": self.test_rho}
        return super().integers(dim) | own

    def simulated(self, dim: int, repeats: int, **options: Any) -> Later:
        return run(structured_run, **self.integers(dim), repeats=repeats, **options)

    def predicted(self, dim: int, draws: int = TASK_SETS, _approach: str = "") -> Later:
        given = self.integers(dim) | {"draws": draws, "approach": "moments"}
        return run(structured_prediction, **given)
