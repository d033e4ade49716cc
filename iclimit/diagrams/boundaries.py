"""Boundary curves of phase diagrams.

A boundary is where its margin vanishes.  The table ``boundaries.csv`` has a row for each, with
these columns:

* ``quantities``: those whose diagrams show it.
* ``first``, ``second``: what is equal on it.  Each is a number, a parameter, or a function as in
  the registry (`iclimit.registry`).
* ``compared``: their difference is the margin, or that of their ``reciprocals`` where they may be
  infinite.
* ``where``: the value of a parameter that a boundary is for.
* ``width``: the range of the logarithm of a parameter over which what changes on the boundary
  does so.  The boundary is drawn where this is small.
* ``label``: what is true on it, in the notation.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.asymptotics.numbers import Value
from iclimit.asymptotics.pretraining import diversity_slope
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.diagrams.combinations import memorisation_width
from iclimit.diagrams.quantities import find_function, find_quantity
from iclimit.diagrams.zero_lines import POINTS, zero_lines
from iclimit.notation import PARAMETERS, read_table

_STRUCTURED_POINTS = 31, 101
# Fewest and most grid points along an axis for structured data, and how many numbers an array over
# all points and atoms may have.
_NUMBERS = 2**20

# Width, in the logarithm of a parameter, up to which a change is drawn as a boundary.
_SHARP = 0.5

# Rounding of a sum of weights.
_FULL_RANK = 1e-9


@dataclass(frozen=True)
class Boundary:
    """A named boundary.

    Attributes
    ----------
    label : str
        What is true on it, in the notation.
    margin : callable
        Signed function of the parameters, zero on the boundary, NaN where there is none.
    quantities : tuple of str
        Quantities whose diagrams show it.
    width : callable, optional
        Range of the logarithm of a parameter over which the change on the boundary spreads; None
        where it is sharp.
    """

    label: str
    margin: Callable[..., Any]
    quantities: tuple[str, ...]
    width: Callable[..., Any] | None = None

    def sharp_margin(self, **parameters: Any) -> Any:
        """Return the margin, NaN where what changes on the boundary changes gradually."""
        margin = self.margin(**parameters)
        if self.width is None:
            return margin
        return np.where(self.width(**parameters) < _SHARP, margin, np.nan)


def _term(text: str) -> Callable[..., Any]:
    """Function of the parameters that a text of the table stands for."""
    if text in PARAMETERS:
        return lambda **p: p[text]
    if text.isdigit():
        return lambda **_: float(text)
    function = find_function(text)
    known = inspect.signature(function).parameters
    if inspect.Parameter.VAR_KEYWORD in {parameter.kind for parameter in known.values()}:
        return function
    return lambda **p: function(**{name: value for name, value in p.items() if name in known})


def _boundary(row: Mapping[str, str]) -> Boundary:
    """Boundary of a row of the table."""
    first_side = _term(row["first"])
    second_side = _term(row["second"])
    parameter, _, value = row["where"].partition("=")

    def margin(**p: Any) -> Any:
        first = first_side(**p)
        second = second_side(**p)
        if row["compared"] == "reciprocals":
            both = np.isinf(first) & np.isinf(second)
            difference = np.where(both, np.nan, np.divide(1, second) - np.divide(1, first))
        else:
            difference = np.subtract(first, second)
        if not parameter:
            return difference
        return np.where(np.equal(p.get(parameter, float(value)), float(value)), difference, np.nan)

    width = _term(row["width"]) if row["width"] else None
    return Boundary(row["label"], margin, tuple(row["quantities"].split()), width)


# Boundaries by name.
BOUNDARIES = {row["name"]: _boundary(row) for row in read_table("diagrams/boundaries.csv")}


def boundary_curves(
    quantity: str,
    x: tuple[str, np.ndarray],
    y: tuple[str, np.ndarray],
    fixed: Mapping[str, float],
    structure: Structure | None = None,
) -> dict[str, list[np.ndarray]]:
    """Curves of all boundaries of a quantity within a diagram, as {label: list of (n, 2)}."""
    if structure is None:
        boundaries = BOUNDARIES
        points = POINTS
    else:
        boundaries = structured_boundaries(structure)
        joint = structure.joint
        numbers = joint.weight.size * np.unique(joint.inputs).size  # of a point
        points = int(np.clip(math.sqrt(_NUMBERS / numbers), *_STRUCTURED_POINTS))
    curves = {
        boundary.label: zero_lines(boundary.sharp_margin, x, y, fixed, points)
        for boundary in boundaries.values()
        if quantity in boundary.quantities
    }
    return {label: lines for label, lines in curves.items() if lines}


def structured_boundaries(structure: Structure) -> dict[str, Boundary]:
    """Boundaries that hold for structured data, by name."""
    spectrum = structure.joint
    rank = float(spectrum.weight @ (spectrum.task > 0))
    icl = find_quantity("icl_error", structure)
    predicting_zero = find_quantity("null_error", structure)
    gap = find_quantity("task_gap", structure)
    learned = (spectrum.task * spectrum.inputs)[spectrum.task > 0]
    carried = float(spectrum.weight @ (spectrum.task * spectrum.inputs))
    least = learned.min()

    def null(**p: Any) -> Any:
        return 1 / icl.evaluate(p) - 1 / predicting_zero.evaluate(p)

    def width(
        *, kappa: Value, rho: Value, ridge: Value = 0.0, tau: Value, alpha: Value, **_: Any
    ) -> Any:
        """Width of the transition where the least eigenvalue would be that of all directions."""
        noise = np.maximum((carried + np.asarray(rho)) / least - 1, 0)
        scaled = {"kappa": kappa / rank, "rho": noise, "ridge": np.divide(ridge, least)}
        return memorisation_width(tau=tau, alpha=alpha, **scaled)

    def diversity(tau: Value, alpha: Value, **p: Any) -> Any:
        ridgeless = np.asarray(p.get("ridge", 0.0)) == 0
        undefined = (np.asarray(tau) == 1) & ridgeless | np.isinf(alpha)
        # Any numbers do where the slope is undefined.
        defined = {"tau": np.where(undefined, 2, tau), "alpha": np.where(undefined, 1, alpha)}
        slope = diversity_slope(**defined, **p, spectrum=spectrum)
        return np.where(undefined, np.nan, slope)

    kept = {name: BOUNDARIES[name] for name in ("interpolation", "memorisation", "unseen")}
    kept["memorisation"] = replace(kept["memorisation"], width=width)
    if abs(rank - 1) >= _FULL_RANK:
        label = rf"$\kappa = {rank:.3g}$, the rank of $C$: memorisation, sharp as "
        kept["memorisation"] = replace(
            kept["memorisation"],
            label=label + r"$\alpha \to \infty$",
            margin=lambda kappa, **_: kappa - rank,
        )
    more = r"$\partial e_{\mathrm{ICL}}/\partial\kappa = 0$: more tasks begin or cease to hurt"
    zero = r"$e_{\mathrm{ICL}} = \operatorname{tr} C' \Sigma/d + \rho'$: that of predicting 0"
    return kept | {
        "diversity": Boundary(more, diversity, ("icl_error",)),
        "null": Boundary(zero, null, ("icl_error",)),
        "gap": replace(BOUNDARIES["gap"], margin=lambda **p: gap.evaluate(p)),
    }
