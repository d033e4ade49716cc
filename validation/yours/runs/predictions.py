r"""What runs should show: the finite-size prediction at their integers, and the limit.

A prediction task by task takes a tenth of a second at d = 100, one from mean moments a tenth of
that.  Both depend on the task set alike: their ratio varies ten times less than either.  So the
spread over task sets, and most of the mean, comes from many cheap predictions.  These are
multiplied by the mean ratio over a few sets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining import (
    FiniteSizeErrors,
    finite_size_errors,
    icl_error,
    idg_error,
    structured_errors,
)
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.validation.yours.runs.measured import MEASURED, MeasuredRun

# Fewest and most task sets that are predicted task by task, and by what their number is limited:
# dimension squared (or times tasks) times the sets.
FULL_SETS, FULL_SIZE = (2, 4), 10_000

# The same for task sets of predictions from mean moments: dimension squared times the sets.
SETS, SETS_SIZE = (10, 100), 100_000

# The same for predictions that are only compared with each other.
PAIRED_SETS = (1, 4)

# Above this dimension the prediction comes from mean moments: task by task it takes minutes.
LARGEST_DIM = 256

# Correlation of the prediction's errors of ICL and IDG, from the runs of
# ``benchmarks/finite_size.csv``: 0.67 over all that state less than 5 %.
SHARED_DOUBT = 0.7


@dataclass(frozen=True)
class Theory:
    """Options of the theory that runs are compared with.

    Attributes
    ----------
    task_law : {"sphere", "gaussian"}
        Law of the tasks.
    balanced : bool
        Whether all tasks have the same number of prompts.
    structure : Structure or None
        Spectra of tasks, tests and inputs.
    draws : int or None
        Task sets of a prediction, unless it is cheap; None: 10 to 100, the more the smaller the
        dimension.
    root : int
        Root of the random numbers.
    cheap : bool
        Whether predictions come from mean moments only, and runs with the same number of tasks
        get the same task sets, so that their predictions can be compared.
    """

    task_law: str = "sphere"
    balanced: bool = False
    structure: Structure | None = None
    draws: int | None = None
    root: int = 0
    cheap: bool = False


@dataclass(frozen=True)
class Prediction:
    """Predicted errors of a run.

    Attributes
    ----------
    mean : ndarray (2,)
        ICL and IDG error, means over the task sets.
    covariance : ndarray (2, 2)
        Of these means.
    spread : ndarray (2, 2)
        Covariance of the errors over task sets.
    uncertainty : float
        Relative uncertainty of the theory at finite size.
    degrees : float
        Degrees of freedom of covariance and spread.
    """

    mean: np.ndarray
    covariance: np.ndarray
    spread: np.ndarray
    uncertainty: float
    degrees: float

    @classmethod
    def of(cls, errors: FiniteSizeErrors) -> Prediction:
        """Return the prediction of these errors alone."""
        mean, count = np.array([errors.icl.mean, errors.idg.mean]), len(errors.icl.samples)
        if count < 2 or not np.all(np.isfinite(mean)):
            nothing = np.zeros((2, 2))
            return cls(mean, nothing, nothing, errors.uncertainty, math.inf)
        spread = np.cov([errors.icl.samples, errors.idg.samples])
        return cls(mean, spread / count, spread, errors.uncertainty, count - 1.0)

    @classmethod
    def missing(cls) -> Prediction:
        """Return what stands for a prediction that does not exist."""
        nothing = np.zeros((2, 2))
        return cls(np.full(2, math.inf), nothing, nothing, math.inf, math.inf)

    @property
    def finite(self) -> bool:
        """Whether there is a finite prediction of both errors."""
        return bool(np.all(np.isfinite(self.mean)))

    @property
    def doubt(self) -> np.ndarray:
        """Covariance of the errors of the theory: nearly all runs are within two deviations."""
        correlation = np.array([[1.0, SHARED_DOUBT], [SHARED_DOUBT, 1.0]])
        squares: np.ndarray = correlation * np.outer(self.mean, self.mean)
        return squares * (self.uncertainty / 2) ** 2

    def value(self, name: str) -> float:
        """Predicted error of this name, or the gap."""
        icl, idg = self.mean
        return float({"icl": icl, "idg": idg}.get(name, icl - idg) if math.isfinite(icl) else icl)


def predict(run: MeasuredRun, theory: Theory) -> Prediction:
    """Predict the errors of a run at exactly its integers.

    Raises
    ------
    ValueError
        If there is no prediction at this setting.
    """
    structure, sizes, dim = theory.structure, run.sizes, run.sizes["dim"]
    seeds = (dim, sizes["tasks"]) if theory.cheap else sizes.values()
    arguments = {
        **{**sizes, "rho": run.rho, "ridge": run.ridge},
        **({"task_law": theory.task_law} if structure is None else structure.covariances(dim)),
        "balanced": theory.balanced,
        "rng": [theory.root, *(0 if size == math.inf else size for size in seeds)],
    }
    draws = theory.draws or _between(SETS, SETS_SIZE // dim**2)
    draws = _between(PAIRED_SETS, FULL_SIZE // dim**2) if theory.cheap else draws
    draws = 1 if sizes["tasks"] == math.inf else draws
    full = 1 if draws == 1 else _between(FULL_SETS, FULL_SIZE // (dim * max(dim, sizes["tasks"])))
    full = min(full, draws)
    try:
        cheap = finite_size_errors(**arguments, approach="moments", draws=draws)
        exact = cheap
        if structure is None and dim <= LARGEST_DIM and not theory.cheap:
            exact = finite_size_errors(**arguments, draws=full)
    except ArithmeticError as error:
        raise ValueError(f"{run.label}: {error}") from None
    prediction = Prediction.of(cheap)
    if exact is cheap or not prediction.finite:
        return replace(prediction, uncertainty=exact.uncertainty)
    moments = np.array([cheap.icl.samples, cheap.idg.samples])[:, :full]
    ratios = np.array([exact.icl.samples, exact.idg.samples]) / moments
    ratio = np.mean(ratios, axis=1)
    mean, scale = prediction.mean * ratio, np.outer(ratio, ratio)
    scatter = np.outer(prediction.mean, prediction.mean) * (np.cov(ratios) if full > 1 else 0.0)
    parts = prediction.covariance * scale, scatter / full
    degrees = welch_degrees([float(np.trace(part)) for part in parts], [draws - 1, full - 1])
    spread = prediction.spread * scale + scatter
    return Prediction(mean, parts[0] + parts[1], spread, exact.uncertainty, degrees)


def _between(ends: tuple[int, int], count: int) -> int:
    return min(max(count, ends[0]), ends[1])


def limits(runs: Sequence[MeasuredRun], structure: Structure | None) -> list[dict[str, float]]:
    """Asymptotic errors of all runs by name."""
    ratios: dict[str, Any] = {
        name: np.array([run.ratios[name] for run in runs]) for name in runs[0].ratios
    }
    if structure is None:
        pairs = np.array([icl_error(**ratios), idg_error(**ratios)])
    else:
        errors = structured_errors(**ratios, spectrum=structure.joint)
        pairs = np.array([errors.icl, errors.idg])
    with np.errstate(invalid="ignore"):  # inf - inf at a threshold
        return [
            {name: float(np.dot(weights, pair)) for name, weights in MEASURED.items()}
            for pair in pairs.T
        ]


def welch_degrees(variances: Sequence[float], degrees: Sequence[float]) -> float:
    """Degrees of freedom of a sum of estimated variances, as Welch and Satterthwaite have them."""
    lost = sum(v**2 / n for v, n in zip(variances, degrees, strict=True) if n > 0)
    return float(sum(variances) ** 2 / lost) if lost > 0 else math.inf


def replaced(run: MeasuredRun, **changes: Any) -> MeasuredRun:
    """Run of other sizes, or of another noise variance or ridge."""
    noise = {name: changes.pop(name) for name in ("rho", "ridge") if name in changes}
    return replace(run, sizes={**run.sizes, **changes}, **noise)
