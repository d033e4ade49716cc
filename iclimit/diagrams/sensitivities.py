"""How a quantity answers to each of its parameters, and to errors of these."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.diagrams.axes import parse_axis
from iclimit.diagrams.quantities import Quantity, get_quantity
from iclimit.drawing import Axes
from iclimit.notation import Parameter, did_you_mean
from iclimit.results import Estimate, Result
from iclimit.tables import aligned

# Steps of differences of fourth order, relative to a parameter, or absolute for one that is 0.
STEPS = (3e-2, 3e-3, 3e-4, 3e-5)

# Offsets in steps and weights of slopes from both sides, and from above or, reversed, from below.
BOTH = np.array([-1, -0.5, 0.5, 1]), np.array([1, -8, 8, -1]) / 6
ABOVE = np.arange(5) / 4, np.array([-25, 48, -36, 16, -3]) / 3

# Slopes of two steps must agree so well, relative to the slope or to the quantity over its
# parameter.
AGREE, SMALL = 1e-2, 1e-5


@dataclass(frozen=True, repr=False)
class Sensitivity(Result):
    """Slopes and elasticities of a quantity at one setting (`sensitivity`).

    Attributes
    ----------
    quantity : Quantity
        The quantity.
    value : float
        Its value.
    at : dict of float
        Parameters; ``slopes`` and ``elasticities`` have those that are finite.
    slopes : dict of float
        Derivative of the quantity by each parameter; by an integer its change from one integer to
        the next.
    elasticities : dict of float
        Per cent by which the quantity changes if a parameter changes by one per cent.
    errors : dict of float
        Standard errors of uncertain parameters.
    correlations : ndarray (errors, errors)
        Of these parameters.
    """

    quantity: Quantity
    value: float
    at: dict[str, float]
    slopes: dict[str, float]
    elasticities: dict[str, float]
    errors: dict[str, float]
    correlations: np.ndarray

    @property
    def standard_error(self) -> float:
        """Standard error of the quantity that follows from those of the parameters."""
        parts = np.array([self.slopes.get(name, 0.0) * e for name, e in self.errors.items()])
        return math.sqrt(max(float(parts @ self.correlations @ parts), 0.0))

    def rows(self) -> list[dict[str, Any]]:
        """Slopes and elasticities by parameter, the largest first, and what errors contribute."""
        rows = []
        for name in sorted(self.slopes, key=lambda name: -abs(self.elasticities[name])):
            row: dict[str, Any] = {"parameter": name, "value": self.at[name]}
            row |= {"slope": self.slopes[name], "elasticity": self.elasticities[name]}
            if self.errors:
                error = self.errors.get(name, 0.0)
                row |= {"standard_error": error, "contribution": abs(self.slopes[name]) * error}
            rows.append(row)
        return rows

    def draw(self, ax: Axes, *, color: Any = None) -> None:
        """Draw the elasticities as bars, the largest on top, in a colour."""
        rows = self.rows()[::-1]
        labels = [f"${self.quantity.all_parameters[row['parameter']].symbol}$" for row in rows]
        ax.barh(labels, [row["elasticity"] for row in rows], color=color)
        ax.axvline(0, color="0.4", linewidth=0.8)
        ax.set_xlabel(f"elasticity of {self.quantity.label}")

    def __str__(self) -> str:
        value = Estimate(self.value, self.standard_error or math.inf, 0)
        rows = self.rows()
        cells = [[v if isinstance(v, str) else f"{v:.4g}" for v in row.values()] for row in rows]
        table = aligned([list(rows[0]), *cells]) if rows else []
        return "\n".join([f"{self.quantity.name} = {value}", *table])


def sensitivity(
    quantity: str | Callable[..., Any],
    *,
    at: Mapping[str, float],
    errors: Mapping[str, float] | None = None,
    correlations: Any = None,
    task_spectrum: Spectrum | None = None,
    test_spectrum: Spectrum | None = None,
    input_spectrum: Spectrum | None = None,
    normalize: bool = False,
) -> Sensitivity:
    """Compute how a quantity answers to each parameter, and its error if these are uncertain.

    Parameters
    ----------
    quantity, task_spectrum, test_spectrum, input_spectrum, normalize
        As in `iclimit.curve`.
    at : mapping of str to float
        Its parameters, one number each.
    errors : mapping of str to float, optional
        Standard errors of uncertain parameters, such as those that were fitted.
    correlations : array (errors, errors), optional
        Correlations of these, in their order; None: independent.

    Returns
    -------
    Sensitivity
        With ``value``, ``slopes``, ``elasticities`` and ``standard_error``; ``print`` shows a
        table, ``.plot()`` the elasticities.

    Raises
    ------
    ValueError
        If a parameter is unknown, missing or out of range; if the quantity is not finite or is 0
        there, or changes abruptly; or if errors or correlations are impossible.

    Notes
    -----
    Slopes are differences of fourth order, with the step at which two steps agree best: for closed
    forms they are accurate to 1e-8, for quantities that are found by a search to 1e-3.  Errors are
    propagated to first order: they must be small enough for the quantity to be a straight line
    over them.

    Examples
    --------
    >>> import iclimit
    >>> point = {"tau": 2.0, "alpha": 1.0, "kappa": 0.5, "rho": 0.1}
    >>> result = iclimit.sensitivity("icl_error", at=point, errors={"alpha": 0.05, "rho": 0.01})
    >>> print(result)
    icl_error = 1.471(29)
    parameter  value    slope  elasticity  standard_error  contribution
          tau      2   -0.563     -0.7654               0             0
          rho    0.1    2.589       0.176            0.01       0.02589
        alpha      1   -0.242     -0.1645            0.05        0.0121
        kappa    0.5  -0.1984    -0.06743               0             0
    """
    structure = parse_structure(task_spectrum, test_spectrum, input_spectrum, normalize)
    chosen = get_quantity(quantity, at, structure)
    point = {name: _number(name, given) for name, given in at.items()}
    spread, matrix = _checked(errors or {}, correlations, point)
    value = float(chosen.evaluate(point))
    if not math.isfinite(value) or value == 0:
        raise ValueError(
            f"{chosen.name} must be finite and not 0 at these parameters, got {value}"
        )
    slopes = {
        name: _slope(chosen, point, name, value)
        for name, number in point.items()
        if math.isfinite(number)
    }
    elasticities = {name: slope * point[name] / value for name, slope in slopes.items()}
    return Sensitivity(chosen, value, point, slopes, elasticities, spread, matrix)


def _number(name: str, given: Any) -> float:
    values = parse_axis(name, given)
    if values.size != 1:
        raise ValueError(f"{name} must be one number, got {given!r}")
    return float(values[0])


def _checked(
    given: Mapping[str, float], correlations: Any, point: Mapping[str, float]
) -> tuple[dict[str, float], np.ndarray]:
    """Standard errors and correlations, if they are possible."""
    errors = {name: _number(f"errors of {name}", error) for name, error in given.items()}
    for name, error in errors.items():
        if name not in point:
            known = ", ".join(point)
            raise ValueError(
                f"errors must name one of {known}, got {name!r}{did_you_mean(name, point)}"
            )
        if not 0 <= error < math.inf:
            raise ValueError(f"errors must be finite and >= 0, got {name} = {error}")
    count = len(errors)
    matrix = np.eye(count) if correlations is None else np.asarray(correlations, dtype=float)
    shaped = matrix.shape == (count, count) and np.allclose(matrix, matrix.T)
    if not shaped or (count and not (np.allclose(np.diag(matrix), 1) and _positive(matrix))):
        raise ValueError(f"correlations must be a correlation matrix of {count} parameters")
    return errors, matrix


def _positive(matrix: np.ndarray) -> bool:
    return bool(np.linalg.eigvalsh(matrix)[0] > -1e-9)


def _slope(quantity: Quantity, point: Mapping[str, float], name: str, value: float) -> float:
    """Derivative by a parameter, or the change by an integer."""
    parameter, number = quantity.all_parameters[name], point[name]

    def values(places: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.asarray(quantity.evaluate({**point, name: places}), dtype=float)

    if parameter.integer:
        low = number - 1 if _allowed(parameter, number - 1) else number
        first, last = values(np.array([low, number + 1]))
        return float(last - first) / (number + 1 - low)
    scale = abs(number) or 1.0
    least, most = (_allowed(parameter, number + side * STEPS[0] * scale) for side in (-1, 1))
    offsets, weights = BOTH if least and most else ABOVE
    side = 1 if most else -1
    steps = np.array(STEPS) * scale * side
    places = number + np.multiply.outer(steps, offsets)
    slopes = (values(places.ravel()).reshape(places.shape) @ weights) / steps
    changes = np.abs(np.diff(slopes))
    best = int(np.argmin(np.where(np.isfinite(changes), changes, np.inf)))
    tolerance = max(AGREE * abs(slopes[best]), SMALL * abs(value) / scale)
    if not changes[best] <= tolerance:
        raise ValueError(f"{quantity.name} changes abruptly at {name} = {number:g}: no slope")
    return float(slopes[best])


def _allowed(parameter: Parameter, number: float) -> bool:
    return parameter.range is None or number in parameter.range
