"""Curves and diagrams as labelled arrays, which NetCDF files hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.diagrams.quantities import Quantity
from iclimit.diagrams.simulated_points import SimulatedValue
from iclimit.extras import import_xarray

if TYPE_CHECKING:
    import xarray


def labelled_values(
    quantity: Quantity,
    axes: Mapping[str, np.ndarray],
    fixed: Mapping[str, float],
    values: np.ndarray,
    simulated: Sequence[SimulatedValue],
    more: Mapping[str, Any],
) -> xarray.Dataset:
    """Values of a quantity over its parameters as an `xarray.Dataset`.

    Simulated points have a dimension of their own; ``z`` is NaN where it is not defined.
    Spectra of structured data are attributes as they were given, and variables over ``atom``;
    the link of labels is an attribute.

    Parameters
    ----------
    quantity : Quantity
        What the values are.
    axes : mapping of str to ndarray
        Parameters that vary, in the order of the dimensions of the values.
    fixed : mapping of str to float
        The other parameters.
    values : ndarray
        Theory.
    simulated : sequence of SimulatedValue
        Simulated points.
    more : mapping
        Further variables.
    """
    import iclimit

    known = quantity.all_parameters
    coordinates = {
        name: (name, grid, _attributes(known[name].meaning, known[name].label))
        for name, grid in axes.items()
    }
    named = _attributes(quantity.meaning, quantity.label)
    variables: dict[str, Any] = {quantity.name: (tuple(axes), values, named)}
    if quantity.structure is not None:
        joint = quantity.structure.joint
        atoms = {"task_eigenvalue": joint.task, "test_eigenvalue": joint.test}
        atoms |= {"input_eigenvalue": joint.inputs, "weight": joint.weight}
        variables |= {name: ("atom", column) for name, column in atoms.items()}
    if simulated:
        columns: dict[str, list[Any]] = {
            f"simulated_{name}": [value.parameters[name] for value in simulated] for name in axes
        }
        columns["simulated_value"] = [value.estimate.mean for value in simulated]
        numbers = [value.numbers for value in simulated]
        columns |= {name: [row[name] for row in numbers] for name in numbers[0]}
        for name, column in columns.items():
            kind = int if name in ("dim", "repeats") else float
            variables[name] = (("point", "size")[: np.ndim(column)], np.array(column, dtype=kind))
    setting = {"quantity": quantity.name, **quantity.choices, **fixed}
    setting["iclimit_version"] = iclimit.__version__
    return import_xarray().Dataset({**variables, **more}, coordinates, setting)


def _attributes(meaning: str, label: str) -> dict[str, str]:
    return {"long_name": meaning, "symbol": label, "units": "dimensionless"}
