"""Scalar quantities by name: what `curve` and `phase_diagram` can draw.

The table ``quantities.csv`` has a row for each, with these columns:

* ``function``: a public function of a shelf of the theory and, after another dot, the part of its
  result that is meant; or, without a dot, a function of `iclimit.diagrams.quantity_functions`.
* ``parameters``, ``optional``: names of the notation.
* ``single``: the parameters that the function takes as single numbers only.
* ``structured``: the same quantity for structured data, as a part of the structured errors; or
  ``spectrum`` for a function that takes a ``structure`` itself.
* ``papers``: keys of ``references.bib``, and ``here`` if more than these papers have is derived in
  the documentation.
* ``label``, ``meaning``: its axis label, and in words.

Functions of vectors or matrices (preconditioners, plateaus, mixtures of tasks, given schedules)
are left out, and so are predictions that need random task sets (`iclimit.finite_size_errors`).
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from iclimit import asymptotics
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.diagrams import quantity_functions
from iclimit.notation import PARAMETERS, Parameter, did_you_mean, read_table

_BLOCK = 2**15
"""Points evaluated at once: temporaries stay in the cache, and memory stays bounded."""

_STRUCTURED_BLOCK = 2**9
"""The same for structured data, of which a point takes hundreds of numbers."""

TESTS = ("test_alpha", "test_rho")
"""Parameters that quantities of structured data take besides their own."""


@dataclass(frozen=True)
class Quantity:
    """A named quantity of the theory.

    Attributes
    ----------
    name, meaning, label : str
        Name, what it is in words, and its axis label.
    function : callable
        Takes the parameters as keyword arguments and broadcasts.
    parameters, optional : dict of str to Parameter
        Parameters that are required, and those that may be left out.
    part : str
        Which part of the errors of structured data is the same quantity; empty if there is none.
    papers : tuple of str
        Keys of the papers that it is from, and ``here`` if some of it is derived here.
    spectral : bool
        Whether the function takes a structure.
    single : tuple of str
        Parameters over which the function goes point by point, which takes time.
    structure : Structure, optional
        The data that the function is for; None: isotropic.
    """

    name: str
    meaning: str
    label: str
    function: Callable[..., Any]
    parameters: dict[str, Parameter]
    optional: dict[str, Parameter]
    part: str = ""
    papers: tuple[str, ...] = ()
    spectral: bool = False
    single: tuple[str, ...] = ()
    structure: Structure | None = None

    def __repr__(self) -> str:
        return f"Quantity({self.name!r})"

    @property
    def all_parameters(self) -> dict[str, Parameter]:
        """Required and optional parameters by name."""
        return self.parameters | self.optional

    @property
    def column(self) -> str:
        """Column of its values in tables: value, or its name beside a parameter called value."""
        return self.name if "value" in self.all_parameters else "value"

    def by_points(self, name: str) -> bool:
        """Whether a curve along a parameter has the points that are given, and none between."""
        return self.all_parameters[name].integer or name in self.single

    @property
    def simulated(self) -> bool:
        """Whether it is one of the errors of a simulation, or their gap."""
        return self.part in ("icl", "idg", "gap")

    @property
    def spectra(self) -> dict[str, str]:
        """Descriptions of the spectra of structured data."""
        return self.structure.described if self.structure else {}

    def evaluate(self, parameters: Mapping[str, Any]) -> np.ndarray:
        """Values, broadcast over the parameters; large arrays in blocks, on all cores."""
        arrays = {name: np.asarray(value, dtype=float) for name, value in parameters.items()}
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
        block = _BLOCK if self.structure is None else _STRUCTURED_BLOCK
        if math.prod(shape) <= block:
            return np.broadcast_to(self.function(**arrays), shape)
        full = {n: a.reshape((1,) * (len(shape) - a.ndim) + a.shape) for n, a in arrays.items()}
        rows = max(1, block // math.prod(shape[1:]))
        parts = [slice(first, first + rows) for first in range(0, shape[0], rows)]
        values = np.empty(shape)

        def fill(part: slice) -> None:
            chosen = {n: a[part] if a.shape[0] > 1 else a for n, a in full.items()}
            values[part] = self.function(**chosen)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(fill, parts))
        return values


def one_at_a_time(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Broadcast a function over parameters that it takes as single numbers only."""

    def broadcast(structure: Structure | None = None, **parameters: Any) -> np.ndarray:
        more = {} if structure is None else {"structure": structure}
        if not any(name in parameters for name in names):
            return function(**more, **parameters)
        arrays = dict(zip(parameters, np.broadcast_arrays(*parameters.values()), strict=True))
        shape = next(iter(arrays.values())).shape
        flat = {name: array.ravel() for name, array in arrays.items()}
        single = [name for name in names if name in flat]
        given = np.stack([flat[name] for name in single])
        combinations, which, counts = np.unique(
            given, axis=1, return_inverse=True, return_counts=True
        )
        places = np.split(np.argsort(which.ravel(), kind="stable"), np.cumsum(counts)[:-1])
        values = np.empty(math.prod(shape))
        for combination, here in zip(combinations.T.tolist(), places, strict=True):
            # Only an int is taken for an integer.
            numbers = [int(v) if v.is_integer() else v for v in combination]
            others = {name: array[here] for name, array in flat.items() if name not in single}
            chosen = dict(zip(single, numbers, strict=True))
            values[here] = function(**more, **chosen, **others)
        return values.reshape(shape)

    return broadcast


def find_function(path: str) -> Callable[..., Any]:
    """Return the function that a row of the table names."""
    if "." not in path:
        return getattr(quantity_functions, path)
    shelf, name, *part = path.split(".")
    function = getattr(getattr(asymptotics, shelf), name)
    return (lambda **parameters: getattr(function(**parameters), part[0])) if part else function


# No quantity has both a prompt of pretraining and a context, which is N in the other papers.
_PARAMETERS = PARAMETERS | {
    "context": replace(PARAMETERS["context"], symbol="N", meaning="context length, labelled pairs")
}

_WEIGHT_PREDICTION = {
    "tau": replace(
        PARAMETERS["tau"], definition="n/d", meaning="pretraining prompts over dimension"
    )
}
"""Where pretraining predicts the weights of the task, each prompt has d labels instead of one."""


def _quantities() -> dict[str, Quantity]:
    quantities = {}
    for row in read_table("diagrams/quantities.csv"):
        function, single = find_function(row["function"]), row["single"].split()
        own = _WEIGHT_PREDICTION if "test_time" in row["function"] else {}
        required, optional = (
            {name: own.get(name, _PARAMETERS[name]) for name in row[column].split()}
            for column in ("parameters", "optional")
        )
        function = one_at_a_time(function, single) if single else function
        texts = row["name"], row["meaning"], row["label"]
        spectral = row["structured"] == "spectrum"
        part, papers = "" if spectral else row["structured"], tuple(row["papers"].split())
        found = Quantity(*texts, function, required, optional, part)
        found = replace(found, papers=papers, spectral=spectral, single=tuple(single))
        quantities[found.name] = found
    return quantities


QUANTITIES = _quantities()
"""Quantities by name."""


def named_quantity(name: str, structure: Structure | None = None) -> Quantity:
    """Look up a quantity, for structured data if they are given.

    Raises
    ------
    ValueError
        If the name is unknown, or the quantity is for isotropic data only.
    """
    if name not in QUANTITIES:
        raise ValueError(
            f"quantity must be one of {', '.join(QUANTITIES)}, "
            f"got {name!r}{did_you_mean(name, QUANTITIES)}"
        )
    quantity = QUANTITIES[name]
    if structure is None:
        return quantity
    if quantity.spectral:
        if structure.test_spectrum is not None:
            raise ValueError(
                f"test_spectrum must not be given for {name}, got {structure.test_spectrum!r}"
            )
        given = partial(quantity.function, structure=structure)
        return replace(quantity, function=given, structure=structure)
    if not quantity.part:
        able = ", ".join(n for n, q in QUANTITIES.items() if q.part or q.spectral)
        raise ValueError(f"quantity must be one of {able} to take a spectrum, got {name!r}")
    function = partial(quantity_functions.structured_value, quantity.part, structure.joint)
    optional = quantity.optional | {name: PARAMETERS[name] for name in TESTS}
    return replace(quantity, function=function, optional=optional, structure=structure)


def get_quantity(
    name: str, parameters: Mapping[str, Any], structure: Structure | None = None
) -> Quantity:
    """Look up a quantity and check that exactly its parameters are given.

    Raises
    ------
    ValueError
        If the name is unknown, the quantity takes no spectrum but one is given, or a parameter
        is missing or does not belong to the quantity.
    """
    quantity = named_quantity(name, structure)
    known = quantity.all_parameters
    for parameter in parameters:
        if parameter not in known:
            hint = " without a spectrum" if quantity.part and parameter in TESTS else ""
            raise ValueError(
                f"{name} takes {', '.join(known)}{hint}, "
                f"got {parameter!r}{did_you_mean(parameter, known)}"
            )
    missing = [p for p in quantity.parameters if p not in parameters]
    if missing:
        raise ValueError(f"{name} needs {', '.join(missing)}")
    return quantity
