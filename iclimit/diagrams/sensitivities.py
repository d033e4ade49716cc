"""How a quantity answers to each of its parameters, and to errors of these."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.pretraining.structure import Spectrum, parse_structure
from iclimit.axes import parse_axis
from iclimit.diagrams.derivatives import NoSlope, slope_of
from iclimit.diagrams.quantities import Quantity, get_quantity
from iclimit.drawing import Axes
from iclimit.notation import did_you_mean, explaining
from iclimit.results import Estimate, Result
from iclimit.tables import aligned


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
        Parameters; ``slopes`` and ``elasticities`` have those that are finite and have a slope.
    slopes : dict of float
        Derivative of the quantity by each parameter; by an integer its change from one integer to
        the next.
    elasticities : dict of float
        Per cent by which the quantity changes if a parameter changes by one per cent.
    errors : dict of float
        Standard errors of uncertain parameters.
    correlations : ndarray (errors, errors)
        Of these parameters.
    without_slope : dict of str
        Finite parameters by which the quantity has no slope, each with the reason.
    """

    quantity: Quantity
    value: float
    at: dict[str, float]
    slopes: dict[str, float]
    elasticities: dict[str, float]
    errors: dict[str, float]
    correlations: np.ndarray
    without_slope: dict[str, str]

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
        missing = [f"no slope: {reason}" for reason in self.without_slope.values()]
        return "\n".join([f"{self.quantity.name} = {value}", *table, *missing])


@explaining
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
        With ``value``, ``slopes``, ``elasticities``, ``standard_error`` and ``without_slope``;
        ``print`` shows a table, ``.plot()`` the elasticities.

    Raises
    ------
    ValueError
        If a parameter is unknown, missing or out of range; if the quantity is not finite or is 0
        there; if it has no slope by an uncertain parameter, or by none; or if errors or
        correlations are impossible.

    Notes
    -----
    Slopes of closed forms, of the best ridge and of the best constant step are differences in many
    digits, accurate to 1e-12 also next to thresholds and for tiny parameters.  Others are
    differences of fourth order in float64, with steps below a tenth of the parameter and of the
    distance to the nearest boundary: accurate to 1e-8, for quantities that are found by a search
    to 1e-3.  Where no two steps agree beyond rounding there is no slope, and ``without_slope``
    says why.

    Errors are propagated to first order: they must be small enough for the quantity to be a
    straight line over them.

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
    slopes = dict[str, float]()
    without = dict[str, str]()
    for name, number in point.items():
        if not math.isfinite(number):
            continue
        try:
            slopes[name] = slope_of(chosen, point, name, value)
        except NoSlope as reason:
            without[name] = f"{chosen.name} {reason} at {name} = {number:g}"
    refused = [without[name] for name in without if spread.get(name) or not slopes]
    if refused:
        raise ValueError(f"{refused[0]}: no slope")
    elasticities = {name: slope * point[name] / value for name, slope in slopes.items()}
    return Sensitivity(chosen, value, point, slopes, elasticities, spread, matrix, without)


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
