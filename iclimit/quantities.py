"""Scalar quantities by name: what `curve` and `phase_diagram` can draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit import asymptotics

SETTING = ("tau", "alpha", "kappa", "rho")


@dataclass(frozen=True)
class Quantity:
    """A named quantity of the theory.

    Attributes
    ----------
    function : callable
        Takes the parameters as keyword arguments and broadcasts.
    parameters : tuple of str
        Names of the required parameters.
    optional : tuple of str
        Names of parameters that may be left out.
    label : str
        Axis label.
    simulated : tuple of float, optional
        The quantity as a combination of the simulated ICL and IDG errors, if it is one.
    """

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    optional: tuple[str, ...]
    label: str
    simulated: tuple[float, float] | None = None

    def evaluate(self, parameters: Mapping[str, Any]) -> np.ndarray:
        """Values, broadcast over the parameters."""
        return np.asarray(self.function(**parameters))


QUANTITIES = {
    "icl_error": Quantity(
        asymptotics.icl_error, SETTING, ("ridge",), r"$e_{\mathrm{ICL}}$", (1.0, 0.0)
    ),
    "idg_error": Quantity(
        asymptotics.idg_error, SETTING, ("ridge",), r"$e_{\mathrm{IDG}}$", (0.0, 1.0)
    ),
    "task_gap": Quantity(
        asymptotics.task_gap,
        SETTING,
        ("ridge",),
        r"$e_{\mathrm{ICL}} - e_{\mathrm{IDG}}$",
        (1.0, -1.0),
    ),
    "optimal_ridge": Quantity(
        lambda **p: asymptotics.optimal_ridge(**p).ridge, SETTING, (), r"optimal $\lambda$"
    ),
    "optimal_icl_error": Quantity(
        lambda **p: asymptotics.optimal_ridge(**p).error,
        SETTING,
        (),
        r"$e_{\mathrm{ICL}}$ at optimal $\lambda$",
    ),
    "bayes_error": Quantity(
        asymptotics.bayes_error, ("alpha", "rho"), (), r"$e$ of Bayes on all tasks"
    ),
    "dmmse_icl_error": Quantity(
        lambda **p: asymptotics.dmmse_errors(**p).icl,
        ("theta", "alpha", "rho"),
        (),
        r"$e_{\mathrm{ICL}}$ of dMMSE",
    ),
    "dmmse_idg_error": Quantity(
        lambda **p: asymptotics.dmmse_errors(**p).idg,
        ("theta", "alpha", "rho"),
        (),
        r"$e_{\mathrm{IDG}}$ of dMMSE",
    ),
}
"""Quantities by name."""


def get_quantity(name: str, parameters: Mapping[str, Any]) -> Quantity:
    """Look up a quantity and check that exactly its parameters are given.

    Raises
    ------
    ValueError
        If the name is unknown, or a parameter is missing or does not belong to the quantity.
    """
    if name not in QUANTITIES:
        raise ValueError(f"quantity must be one of {', '.join(QUANTITIES)}, got {name!r}")
    quantity = QUANTITIES[name]
    allowed = quantity.parameters + quantity.optional
    for parameter in parameters:
        if parameter not in allowed:
            raise ValueError(f"{name} takes {', '.join(allowed)}, got {parameter!r}")
    missing = [p for p in quantity.parameters if p not in parameters]
    if missing:
        raise ValueError(f"{name} needs {', '.join(missing)}")
    return quantity
