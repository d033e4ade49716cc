"""What the theory says of a run: named means, their doubt, and the scatter of single runs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from iclimit.checks import check_arguments, check_choice, check_finite, parse_array
from iclimit.errors import Errors
from iclimit.results import Estimate, Result

# Weights of the ICL and the IDG error in what is measured.
WEIGHTS = {"icl": (1.0, 0.0), "idg": (0.0, 1.0), "gap": (1.0, -1.0)}


# Variance of the gap, over that of the ICL error, that counts as rounding.
ROUNDING = 1e-12


@dataclass(frozen=True, eq=False, repr=False)
class Prediction(Errors):
    """Predicted mean errors of a run.

    The estimates of the errors are means over task sets, with the mean errors of single sets as
    samples.  These scatter much less than runs do, which have random prompts: see ``scatter``.
    The standard error is 0 where none can be estimated: of a single task set, or infinite errors.

    Attributes
    ----------
    names : tuple of str
        Names of the m errors, such as "icl" and "idg".
    over_tasks : ndarray (draws, m)
        Mean errors of single task sets.
    doubt : ndarray (sources, m)
        Relative errors of the theory, apart from task sets: loadings, with one row for each
        independent source.
    scatter : Scatter or None
        How much single runs scatter; None where it was not asked for.

    Examples
    --------
    >>> import iclimit
    >>> run = iclimit.Point(tau=4, alpha=2, kappa=1, rho=0.1, ridge=0.1).at(dim=40)
    >>> prediction = iclimit.predict(run, rng=0)
    >>> round(prediction["icl"].mean, 2), round(prediction["idg"].mean, 2)
    (0.78, 0.47)
    """

    over_tasks: np.ndarray
    doubt: np.ndarray
    scatter: Scatter | None = None

    def __getitem__(self, name: str) -> Estimate:
        """Mean of a named error over the task sets."""
        if name == "training" and name not in self.names:
            raise ValueError(
                "training losses have no prediction at finite size, where prompts of small "
                "features are learnt late: iclimit.sample measures them, and "
                "iclimit.pretraining.training_errors has their limit"
            )
        check_choice("name", name, self.names)
        errors = np.ascontiguousarray(self.over_tasks[:, self.names.index(name)])
        if len(errors) > 1 and np.all(np.isfinite(errors)):
            return Estimate.of(errors)
        return Estimate(float(np.mean(errors)), 0.0, len(errors), errors)

    @property
    def uncertainty(self) -> float:
        """Relative error of the means apart from their standard errors, the largest of them.

        The simulated means of nearly all tested runs are within it.
        """
        return float(np.max(np.sqrt(np.sum(self.doubt**2, axis=0))))

    @property
    def gap(self) -> Estimate:
        """ICL minus IDG error, for independent ones; infinite where they are."""
        icl = self.icl
        idg = self.idg
        difference = icl.mean - idg.mean if math.isfinite(icl.mean) else math.inf
        error = math.hypot(icl.standard_error, idg.standard_error)
        return Estimate(difference, error, icl.repeats)

    def printed(self) -> dict[str, Any]:
        """The estimates by name, and how uncertain they are."""
        return super().printed() | {"uncertainty": self.uncertainty}

    def rows(self) -> list[dict[str, Any]]:
        """A row for each error."""
        doubts = np.sqrt(np.sum(self.doubt**2, axis=0)).tolist()
        return [
            {
                "error": name,
                "mean": self[name].mean,
                "standard error": self[name].standard_error,
                "uncertainty": doubt,
                "scatter of a run": getattr(self.scatter, name, None),
            }
            for name, doubt in zip(self.names, doubts, strict=True)
        ]

    def __str__(self) -> str:
        return "\n".join(_line(row) for row in self.rows())


def _line(row: dict[str, Any]) -> str:
    """An error in words."""
    mean = row["mean"]
    line = f"{row['error']} {Estimate(mean, row['standard error'], 1)}"
    if math.isfinite(mean) and mean:
        line += f" (theory {row['uncertainty']:.1%})"
    if row["scatter of a run"] is not None:
        line += f", scatter of a run {row['scatter of a run']:.2g}"
    return line


@dataclass(frozen=True, eq=False, repr=False)
class Scatter(Result):
    """Standard deviations of the errors of one run at given integers, and quantiles.

    Attributes
    ----------
    icl, idg, gap : float
        Of the ICL error, the IDG error and their difference; ``inf`` where the variance is.
    correlation : float
        Correlation of the two errors.
    prompts, tasks : ndarray (2, 2)
        Covariance of ICL and IDG error from the prompts at given tasks, with the test prompts and
        a random start, and from the task sets.
    tail_index : float
        Moments of an error are finite below this order; ``inf`` where all are, as with a ridge.
    mean : ndarray (2,)
        Mean ICL and IDG error that belong to the law; `Prediction` knows them better.
    deviations : ndarray (runs, 2)
        Errors of drawn runs less their means where the law has a heavy tail; otherwise empty.
    """

    icl: float
    idg: float
    gap: float
    correlation: float
    prompts: np.ndarray
    tasks: np.ndarray
    tail_index: float = math.inf
    mean: np.ndarray = field(default_factory=lambda: np.full(2, math.inf))
    deviations: np.ndarray = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def covariance(self) -> np.ndarray:
        """Covariance (2, 2) of the ICL and the IDG error."""
        return self.prompts + self.tasks

    @property
    def heavy(self) -> bool:
        """Whether rare prompts decide the errors, so that standard deviations say little."""
        return len(self.deviations) > 0

    def quantiles(
        self, chances: ArrayLike, *, quantity: str = "icl", mean_error: float | None = None
    ) -> np.ndarray:
        """Quantiles of what one run shows.

        Parameters
        ----------
        chances : array of numbers in (0, 1)
            Probabilities of a smaller value.
        quantity : {"icl", "idg", "gap"}
            Error, or the difference of the two.
        mean_error : float, optional
            Mean of it if it is known better, as from `finite_size_errors`.

        Returns
        -------
        ndarray
            Of the drawn law where it is heavy.  Otherwise of the log-normal law of an error, and
            of the normal law of the difference.

        Raises
        ------
        ArithmeticError
            If means are infinite, or the law is not known: without a ridge within 3 prompts of
            d (d + 1), or with structured inputs where the variance is infinite.

        Examples
        --------
        >>> from iclimit.asymptotics.pretraining import finite_size_spread
        >>> sizes = {"dim": 12, "context": 3, "tasks": 12, "prompts": 72}
        >>> run = finite_size_spread(**sizes, rho=0.3, ridge=1e-3, rng=0)
        >>> run.quantiles([0.025, 0.5, 0.975]).round()  # 2500 simulated runs: 3.1, 5.3, 15.5
        array([ 3.,  5., 15.])
        """
        check_choice("quantity", quantity, WEIGHTS)
        values = parse_array("chances", chances, (), (None,), (None, None))
        for chance in values.ravel().tolist():
            check_arguments(chances=chance)
        width = float(getattr(self, quantity))
        if not (self.heavy or math.isfinite(width)):
            raise ArithmeticError("the law of runs is not known where their variance is infinite")
        weights = np.array(WEIGHTS[quantity])
        own = float(weights @ self.mean)
        centre = own
        if mean_error is not None:
            check_finite("mean_error", mean_error)
            centre = float(mean_error)
        if self.heavy:
            drawn = np.quantile(self.deviations @ weights, values)
            return np.asarray(centre + drawn * (1.0 if quantity == "gap" else centre / own))
        if quantity == "gap":
            return np.asarray(centre + width * ndtri(values))
        relative = width / own
        return np.asarray(centre * np.exp(relative * ndtri(values) - relative**2 / 2))


def scatter_of(prompts: np.ndarray, tasks: np.ndarray, **law: Any) -> Scatter:
    """The scatter of finite covariances; ``law`` has other attributes."""
    covariance = prompts + tasks
    icl, idg = np.sqrt(np.diag(covariance)).tolist()
    square = covariance[0, 0] - 2 * covariance[0, 1] + covariance[1, 1]
    if square < ROUNDING * covariance[0, 0]:  # one error, as of tests that are like training
        square = 0.0
        prompts = np.full((2, 2), prompts[0, 0])
    correlation = float(covariance[0, 1] / (icl * idg)) if icl * idg > 0 else 1.0
    return Scatter(icl, idg, math.sqrt(square), correlation, prompts, tasks, **law)
