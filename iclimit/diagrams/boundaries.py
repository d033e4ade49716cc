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

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from iclimit.asymptotics.pretraining import JointSpectrum, diversity_slope, effective_labels
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.diagrams.combinations import memorisation_width
from iclimit.diagrams.quantities import find_function, find_quantity
from iclimit.diagrams.zero_lines import POINTS, zero_lines
from iclimit.links import LinkLike
from iclimit.notation import PARAMETERS, read_table

# Fewest and most grid points along an axis for structured data.
_STRUCTURED_POINTS = 31, 101

# Most numbers of an array over all points and atoms of structured data.
_NUMBERS = 2**20

# Parameters at the points of a diagram, by name, and functions of them.
Parameters: TypeAlias = Mapping[str, Any]
Term: TypeAlias = Callable[[Parameters], Any]

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
    signed : callable
        Signed function of the parameters, zero on the boundary, NaN where there is none.
    quantities : tuple of str
        Quantities whose diagrams show it.
    width : callable, optional
        Range of the logarithm of a parameter over which the change on the boundary spreads; None
        where it is sharp.
    """

    label: str
    signed: Term
    quantities: tuple[str, ...]
    width: Term | None = None

    def margin(self, **parameters: Any) -> Any:
        """Signed function of the parameters as keyword arguments."""
        return self.signed(parameters)

    def sharp_margin(self, parameters: Parameters) -> Any:
        """Return the margin, NaN where what changes on the boundary changes gradually."""
        margin = self.signed(parameters)
        if self.width is None:
            return margin
        return np.where(self.width(parameters) < _SHARP, margin, np.nan)


def _term(text: str) -> Term:
    """Function of the parameters that a text of the table stands for."""
    if text in PARAMETERS:
        return lambda p: p[text]
    if text.isdigit():
        return lambda _: float(text)
    function = find_function(text)
    known = inspect.signature(function).parameters
    if inspect.Parameter.VAR_KEYWORD in {parameter.kind for parameter in known.values()}:
        return lambda p: function(**p)
    return lambda p: function(**{name: value for name, value in p.items() if name in known})


def _boundary(row: Mapping[str, str]) -> Boundary:
    """Boundary of a row of the table."""
    first_side = _term(row["first"])
    second_side = _term(row["second"])
    parameter, _, value = row["where"].partition("=")

    def signed(p: Parameters) -> Any:
        first = first_side(p)
        second = second_side(p)
        if row["compared"] == "reciprocals":
            both = np.isinf(first) & np.isinf(second)
            difference = np.where(both, np.nan, np.divide(1, second) - np.divide(1, first))
        else:
            difference = np.subtract(first, second)
        if not parameter:
            return difference
        return np.where(np.equal(p.get(parameter, float(value)), float(value)), difference, np.nan)

    width = _term(row["width"]) if row["width"] else None
    return Boundary(row["label"], signed, tuple(row["quantities"].split()), width)


# Boundaries by name.
BOUNDARIES = {row["name"]: _boundary(row) for row in read_table("diagrams/boundaries.csv")}


def boundary_curves(
    quantity: str,
    x: tuple[str, np.ndarray],
    y: tuple[str, np.ndarray],
    fixed: Mapping[str, float],
    structure: Structure | None = None,
    link: LinkLike | None = None,
) -> dict[str, list[np.ndarray]]:
    """Curves of all boundaries of a quantity within a diagram, as {label: list of (n, 2)}."""
    boundaries = _boundaries(structure, link)
    points = POINTS
    if structure is not None:
        joint = structure.joint
        numbers = joint.weight.size * np.unique(joint.inputs).size  # of a point
        points = int(np.clip(math.sqrt(_NUMBERS / numbers), *_STRUCTURED_POINTS))
    curves = {
        boundary.label: zero_lines(boundary.sharp_margin, x, y, fixed, points)
        for boundary in boundaries.values()
        if quantity in boundary.quantities
    }
    return {label: lines for label, lines in curves.items() if lines}


def boundary_labels(
    quantity: str, structure: Structure | None = None, link: LinkLike | None = None
) -> dict[str, str]:
    """Labels of all boundaries of a quantity by their names."""
    return {
        name: boundary.label
        for name, boundary in _boundaries(structure, link).items()
        if quantity in boundary.quantities
    }


def _boundaries(structure: Structure | None, link: LinkLike | None) -> Mapping[str, Boundary]:
    """Boundaries for such data and labels, by name."""
    if link is not None:
        return linked_boundaries(link)
    return BOUNDARIES if structure is None else structured_boundaries(structure)


def linked_boundaries(link: LinkLike) -> dict[str, Boundary]:
    """Boundaries that hold for labels by a link, by name: those of the effective labels.

    The Bayes estimator of linear labels is none of others.
    """
    known = {name: row for name, row in BOUNDARIES.items() if name != "fixed_dmmse"}
    label = r"$e_{\mathrm{ICL}} = E\,y^2$: error of predicting 0"
    known["null"] = replace(known["null"], label=label)
    return {name: _of_labels(boundary, link) for name, boundary in known.items()}


def _of_labels(boundary: Boundary, link: LinkLike) -> Boundary:
    """A boundary of linear labels at the noise and ridge that stand for other labels."""

    def effective(p: Parameters) -> Parameters:
        own = dict(p)
        labels = effective_labels(link, p.get("rho", 0.0), flips=own.pop("flips", 0.0))
        ridge = np.multiply(p.get("ridge", 0.0), labels.ridge_factor)
        return own | {"rho": labels.rho, "ridge": ridge}

    def signed(p: Parameters) -> Any:
        return boundary.signed(effective(p))

    width = boundary.width
    if width is None:
        return replace(boundary, signed=signed)
    return replace(boundary, signed=signed, width=lambda p: width(effective(p)))


def structured_boundaries(structure: Structure) -> dict[str, Boundary]:
    """Boundaries that hold for structured data, by name."""
    return {
        "interpolation": BOUNDARIES["interpolation"],
        "memorisation": _memorisation(structure.joint),
        "unseen": BOUNDARIES["unseen"],
        "diversity": _diversity(structure.joint),
        "null": _null(structure),
        "gap": replace(BOUNDARIES["gap"], signed=find_quantity("task_gap", structure).evaluate),
    }


def _memorisation(spectrum: JointSpectrum) -> Boundary:
    """Boundary at the rank of the covariance of the tasks."""
    rank = float(spectrum.weight @ (spectrum.task > 0))
    learned = (spectrum.task * spectrum.inputs)[spectrum.task > 0]
    carried = float(spectrum.weight @ (spectrum.task * spectrum.inputs))
    least = learned.min()

    def width(p: Parameters) -> Any:
        """Width of the transition where the least eigenvalue would be that of all directions."""
        return memorisation_width(
            tau=p["tau"],
            alpha=p["alpha"],
            kappa=p["kappa"] / rank,
            rho=np.maximum((carried + np.asarray(p["rho"])) / least - 1, 0),
            ridge=np.divide(p.get("ridge", 0.0), least),
        )

    boundary = replace(BOUNDARIES["memorisation"], width=width)
    if abs(rank - 1) < _FULL_RANK:
        return boundary
    label = rf"$\kappa = {rank:.3g}$, the rank of $C$: memorisation, sharp as $\alpha \to \infty$"
    return replace(boundary, label=label, signed=lambda p: p["kappa"] - rank)


def _diversity(spectrum: JointSpectrum) -> Boundary:
    """Boundary on which the slope of the ICL error in the number of tasks is 0."""

    def slope(p: Parameters) -> Any:
        ridgeless = np.asarray(p.get("ridge", 0.0)) == 0
        undefined = (np.asarray(p["tau"]) == 1) & ridgeless | np.isinf(p["alpha"])
        # Any numbers do where the slope is undefined.
        defined = {
            "tau": np.where(undefined, 2, p["tau"]),
            "alpha": np.where(undefined, 1, p["alpha"]),
        }
        slopes = diversity_slope(**{**p, **defined}, spectrum=spectrum)
        return np.where(undefined, np.nan, slopes)

    label = r"$\partial e_{\mathrm{ICL}}/\partial\kappa = 0$: more tasks begin or cease to hurt"
    return Boundary(label, slope, ("icl_error",))


def _null(structure: Structure) -> Boundary:
    """Boundary on which the ICL error is that of predicting 0."""
    icl = find_quantity("icl_error", structure)
    predicting_zero = find_quantity("null_error", structure)

    def signed(p: Parameters) -> Any:
        return 1 / icl.evaluate(p) - 1 / predicting_zero.evaluate(p)

    label = r"$e_{\mathrm{ICL}} = \operatorname{tr} C' \Sigma/d + \rho'$: error of predicting 0"
    return Boundary(label, signed, ("icl_error",))
