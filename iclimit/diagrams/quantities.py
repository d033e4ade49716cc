"""Scalar quantities: what `curve` and `phase_diagram` can draw.

They are the rows of the registry (`iclimit.registry`) that have a label, and any function that
broadcasts.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Any

import numpy as np

from iclimit import asymptotics
from iclimit.asymptotics.pretraining import JointSpectrum, structured_errors
from iclimit.asymptotics.pretraining.structure import Structure
from iclimit.checks import check_choice
from iclimit.diagrams import combinations
from iclimit.links import LinkLike, link_text, stored_link
from iclimit.notation import PARAMETERS, Parameter, did_you_mean
from iclimit.registry import REGISTRY, Row

# Points evaluated at once: temporaries stay in the cache, and memory stays bounded.
_BLOCK = 2**15

# The same for structured data, of which a point takes hundreds of numbers.
_STRUCTURED_BLOCK = 2**9

# Factor from a tau at which errors diverge to a tau next to it.
_NEAR = 1 + 1e-6

# Other arguments of `curve` and `phase_diagram`, for hints.
OPTIONS = (
    *("simulation", "band", "refine", "task_spectrum", "test_spectrum", "input_spectrum"),
    *("normalize", "link", "store", "jobs", "backend", "progress"),
)

# Quantities that are errors of runs after a time of training, and which errors.
TIMED = {"icl_error_at_time": "icl", "idg_error_at_time": "idg"}

# Quantities that are errors of runs on all positions of sequences: which errors, and what their
# summaries are divided by.
SEQUENCES = {
    "all_position_icl": ("icl", "mean"),
    "all_position_idg": ("idg", "mean"),
    "fixed_length_icl": ("icl", "length"),
}

# Quantities that are accuracies of runs, of which no means at finite size are predicted, and what
# these are called there.
ACCURACIES = {"pretrained_accuracy": "accuracy", "pretrained_idg_accuracy": "idg_accuracy"}

# Quantities whose functions are of linear labels, that effective labels carry over to a link.
CARRIED = ("icl_error_at_time", "idg_error_at_time", "training_loss_at_time", "stopped_icl_error")

# Parameters that quantities of structured data take besides their own.
TESTS = ("test_alpha", "test_rho")

# Parameters that quantities of labels by a link take besides their own.
LABELS = ("flips",)


@dataclass(frozen=True)
class Quantity:
    """A named quantity of the theory.

    Attributes
    ----------
    name, meaning, label : str
        Name, what it is in words, and its axis label.
    function : callable
        Takes the parameters as keyword arguments and broadcasts, except over single ones.
    parameters, optional : dict of str to Parameter
        Parameters that are required, and those that may be left out.
    part : str
        Which part of the errors of structured data is the same quantity; empty if there is none.
    spectral : bool
        Whether the function takes a structure.
    single : tuple of str
        Parameters over which the function goes point by point, which takes time.
    structure : Structure, optional
        The data that the function is for; None: isotropic.
    usual_link : str
        Link of the labels where none is given; empty if the function takes none.
    link : str, tuple or callable, optional
        Link of the labels that the function is for; None: the usual one.
    """

    name: str
    meaning: str
    label: str
    function: Callable[..., Any]
    parameters: dict[str, Parameter]
    optional: dict[str, Parameter]
    part: str = ""
    spectral: bool = False
    single: tuple[str, ...] = ()
    structure: Structure | None = None
    usual_link: str = ""
    link: Any = None

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
    def measured(self) -> str:
        """Which error or accuracy of a simulated run it is, such as icl; empty if none."""
        part = (TIMED | ACCURACIES).get(self.name, self.part)
        if self.name in SEQUENCES:
            part = SEQUENCES[self.name][0]
        return part if part in ("icl", "idg", "gap", *ACCURACIES.values()) else ""

    @property
    def simulated(self) -> bool:
        """Whether it is one of the errors or accuracies of a simulation, or a gap."""
        return bool(self.measured)

    @property
    def predicted(self) -> bool:
        """Whether its mean over runs of finite size is predicted."""
        return self.simulated and self.name not in ACCURACIES

    @property
    def run_link(self) -> Any:
        """Link of the labels of runs; None where they are linear without flips."""
        return self.usual_link if self.link is None and self.name in ACCURACIES else self.link

    @property
    def choices(self) -> dict[str, str]:
        """What it is for besides numbers: spectra of structured data, and the link of labels."""
        spectra = self.structure.described if self.structure else {}
        return spectra if self.link is None else {**spectra, "link": link_text(self.link)}

    def evaluate(self, parameters: Mapping[str, Any]) -> np.ndarray:
        """Values, broadcast over the parameters; large arrays in blocks, on all cores."""
        arrays = {name: np.asarray(value, dtype=float) for name, value in parameters.items()}
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
        block = _BLOCK if self.structure is None else _STRUCTURED_BLOCK
        function = one_at_a_time(self.function, self.single)
        if math.prod(shape) <= block:
            return self._checked(function(**arrays), shape)
        full = {n: a.reshape((1,) * (len(shape) - a.ndim) + a.shape) for n, a in arrays.items()}
        rows = max(1, block // math.prod(shape[1:]))
        parts = [slice(first, first + rows) for first in range(0, shape[0], rows)]
        values = np.empty(shape)

        def fill(part: slice) -> None:
            chosen = {n: a[part] if a.shape[0] > 1 else a for n, a in full.items()}
            values[part] = self._checked(function(**chosen), values[part].shape)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(fill, parts))
        return values

    def _checked(self, values: Any, shape: tuple[int, ...]) -> np.ndarray:
        """Values of this shape; a ValueError if a function of the user's returns others."""
        array = np.asarray(values)
        pairs = zip(array.shape[::-1], shape[::-1], strict=False)
        if array.ndim > len(shape) or not all(own in (1, size) for own, size in pairs):
            problem = f"shape {array.shape}"
        elif array.dtype.kind not in "biuf":
            problem = repr(values)
        else:
            return np.broadcast_to(array, shape)
        allowed = f"real numbers of shape {shape}, or one number"
        raise ValueError(f"{self.name} must return {allowed}, got {problem}")


def one_at_a_time(function: Callable[..., Any], names: Sequence[str]) -> Callable[..., Any]:
    """Broadcast a function over parameters that it takes as single numbers only."""

    def broadcast(**parameters: Any) -> np.ndarray:
        single = [name for name in names if name in parameters]
        if not single:
            return function(**parameters)
        arrays = dict(zip(parameters, np.broadcast_arrays(*parameters.values()), strict=True))
        flat = {name: array.ravel() for name, array in arrays.items()}
        chosen = [flat.pop(name) for name in single]
        combinations, which = np.unique(chosen, axis=1, return_inverse=True)
        values = np.empty(arrays[single[0]].shape)
        for index, combination in enumerate(combinations.T.tolist()):
            place = which.ravel() == index
            # Only an int is taken for an integer.
            numbers = [int(v) if v.is_integer() else v for v in combination]
            others = {name: array[place] for name, array in flat.items()}
            values.flat[place] = function(**dict(zip(single, numbers, strict=True)), **others)
        return values

    return broadcast


def find_function(text: str) -> Callable[..., Any]:
    """Return the function that a row of the registry names, or one of a field of its result."""
    shelf, dot, rest = text.partition(".")
    if not dot:
        return getattr(combinations, text)
    name, _, part = rest.partition(".")
    function = getattr(getattr(asymptotics, shelf), name)
    if not part:
        return function

    @wraps(function)
    def part_of_result(**parameters: Any) -> Any:
        return getattr(function(**parameters), part)

    return part_of_result


def python_call(row: Row) -> str:
    """Python that computes a row of the registry, with ``{}`` for the keyword arguments."""
    shelf, dot, rest = row.function.partition(".")
    if dot:
        name, _, part = rest.partition(".")
        return f"iclimit.{shelf}.{name}({{}})" + (f".{part}" if part else "")
    if row.label:
        return f'iclimit.curve("{row.name}", {{}}).values[0]'
    return f"iclimit.diagrams.combinations.{row.name}({{}})"


def structured_function(part: str, spectrum: JointSpectrum) -> Callable[..., Any]:
    """Function of an error of structured data, of one of its parts, or of the gap of the two."""
    if part == "null":
        labels = float(spectrum.weight @ (spectrum.inputs * spectrum.test))
        return partial(combinations.null_error, labels=labels)
    if part == "gap":
        return partial(structured_gap, spectrum)
    return partial(structured_part, part, spectrum)


def structured_part(part: str, spectrum: JointSpectrum, **setting: Any) -> Any:
    """Error of structured data, or one of its parts."""
    return getattr(structured_errors(**setting, spectrum=spectrum), part)


def structured_gap(
    spectrum: JointSpectrum,
    *,
    tau: Any,
    alpha: Any,
    kappa: Any,
    rho: Any,
    ridge: Any = 0.0,
    test_alpha: Any = None,
    test_rho: Any = None,
) -> np.ndarray:
    """Difference of the two errors of structured data."""
    errors_at = partial(
        structured_errors,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        spectrum=spectrum,
        test_alpha=test_alpha,
        test_rho=test_rho,
    )
    errors = errors_at(tau=tau)
    both = np.isinf(errors.icl) & np.isinf(errors.idg)
    if not np.any(both):
        return errors.icl - errors.idg
    # Where both errors are infinite so is the gap; its sign is that at a tau next to it.
    near = errors_at(tau=np.where(both, tau * _NEAR, tau))
    sign = np.where(near.icl >= near.idg, np.inf, -np.inf)
    return np.where(both, sign, np.where(both, 0, errors.icl) - np.where(both, 0, errors.idg))


# No quantity has both a prompt of pretraining and a context, which is N in the other papers.
_PARAMETERS = PARAMETERS | {
    "context": replace(PARAMETERS["context"], symbol="N", meaning="context length, labelled pairs")
}

# Where pretraining predicts the weights of the task, each prompt has d labels instead of one.
_WEIGHT_PREDICTION = {
    "tau": replace(
        PARAMETERS["tau"], definition="n/d", meaning="pretraining prompts over dimension"
    )
}


def _quantity(row: Row) -> Quantity:
    """Quantity of a row of the registry."""
    known = _PARAMETERS
    if "test_time" in row.function:
        known = _PARAMETERS | _WEIGHT_PREDICTION
    required = {name: known[name] for name in row.parameters}
    optional = {name: known[name] for name in row.optional}
    spectral = row.structured == "spectrum"
    part = "" if spectral else row.structured
    function = find_function(row.function)
    if row.name in CARRIED:
        function = partial(combinations.labels_by_link, function)
    link = inspect.signature(function).parameters.get("link")
    return Quantity(
        name=row.name,
        meaning=row.meaning,
        label=row.label,
        function=function,
        parameters=required,
        optional=optional,
        part=part,
        spectral=spectral,
        single=row.single,
        usual_link=link.default if link else "",
    )


# Quantities of the registry by name.
QUANTITIES = {row.name: _quantity(row) for row in REGISTRY.values() if row.label}


def own_quantity(function: Callable[..., Any], given: Iterable[str] = ()) -> Quantity:
    """Quantity of a function that broadcasts over keyword arguments.

    Its parameters are those of the signature; one of any names takes those that are given.  They
    have the symbols of the notation where it knows their names.
    """
    signature = inspect.signature(function).parameters.values()
    collected = {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    needed = {p.name: p.default is p.empty for p in signature if p.kind not in collected}
    if collected & {p.kind for p in signature}:
        needed = dict.fromkeys(given, False) | needed
    known = {
        name: PARAMETERS.get(name, Parameter(name, "", name.replace("_", " "), ""))
        for name in needed
    }
    required = {name: known[name] for name in needed if needed[name]}
    optional = {name: known[name] for name in needed if not needed[name]}
    name = getattr(function, "__name__", "value").replace("<lambda>", "value")
    name = f"own_{name}" if name in QUANTITIES else name
    meaning = (inspect.getdoc(function) or name).partition("\n")[0].rstrip(".")
    return Quantity(name, meaning, name.replace("_", " "), function, required, optional)


def find_quantity(
    quantity: str | Callable[..., Any],
    structure: Structure | None = None,
    given: Iterable[str] = (),
) -> Quantity:
    """Quantity of a name or a function, for structured data if they are given.

    Raises
    ------
    ValueError
        If the name is unknown, or the quantity is for isotropic data only.
    """
    if callable(quantity):
        known = (candidate for candidate in QUANTITIES.values() if candidate.function is quantity)
        chosen = next(known, None) or own_quantity(quantity, given)
    else:
        check_choice("quantity", quantity, QUANTITIES)
        chosen = QUANTITIES[quantity]
    if structure is None:
        return chosen
    if chosen.spectral:
        if structure.test_spectrum is not None:
            raise ValueError(
                f"test_spectrum must not be given for {chosen.name}, "
                f"got {structure.test_spectrum!r}"
            )
        function = partial(chosen.function, structure=structure)
        return replace(chosen, function=function, structure=structure)
    if not chosen.part:
        able = ", ".join(n for n, q in QUANTITIES.items() if q.part or q.spectral)
        raise ValueError(f"quantity must be one of {able} to take a spectrum, got {chosen.name!r}")
    own = structured_function(chosen.part, structure.joint)
    optional = chosen.optional | {name: PARAMETERS[name] for name in TESTS}
    return replace(chosen, function=own, optional=optional, structure=structure)


def with_link(quantity: Quantity, link: LinkLike) -> Quantity:
    """Return the quantity for labels by a link, with a parameter for flips.

    Raises
    ------
    ValueError
        If the quantity takes no link, it is for structured data, or the link is none.
    """
    if not quantity.usual_link:
        able = ", ".join(name for name, known in QUANTITIES.items() if known.usual_link)
        raise ValueError(f"quantity must be one of {able} to take a link, got {quantity.name!r}")
    if quantity.structure is not None:
        raise ValueError(f"link must not be given with a spectrum, got {link_text(link)}")
    own = stored_link(link)
    optional = quantity.optional | {name: PARAMETERS[name] for name in LABELS}
    return replace(
        quantity, function=partial(quantity.function, link=own), optional=optional, link=own
    )


def get_quantity(
    quantity: str | Callable[..., Any],
    parameters: Mapping[str, Any],
    structure: Structure | None = None,
    link: LinkLike | None = None,
) -> Quantity:
    """Look up a quantity and check that exactly its parameters are given.

    Raises
    ------
    ValueError
        If the name is unknown, the quantity takes no spectrum but one is given, or a parameter
        is missing or does not belong to the quantity.
    """
    chosen = find_quantity(quantity, structure, parameters)
    if link is None and structure is None and set(LABELS) & set(parameters):
        # Flips of linear labels.
        link = chosen.usual_link or None
    if link is not None:
        chosen = with_link(chosen, link)
    known = chosen.all_parameters
    for parameter in parameters:
        if parameter not in known:
            hint = " without a spectrum" if chosen.part and parameter in TESTS else ""
            raise ValueError(
                f"{chosen.name} takes {', '.join(known)}{hint}, "
                f"got {parameter!r}{did_you_mean(parameter, [*known, *OPTIONS])}"
            )
    missing = [p for p in chosen.parameters if p not in parameters]
    if missing:
        raise ValueError(f"{chosen.name} needs {', '.join(missing)}")
    return chosen
