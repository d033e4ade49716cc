"""Rows of claims: what a claim compares, as data.

A claim yields rows.  `exact`, `mean`, `bound`, `published`, `limit` and `judged` compare, `note`
tells the reader something, `drawing` makes the figure.  A row carries the theory, what it is
compared with and the cells that must be run for that, and it knows which function it tests.

Rows are made before anything is computed.  `run` and `call` stand for values that come later:
`run` for the result of a cell, which workers compute and the store keeps; `call` for what a
function, such as one of the theory, returns when the claim is judged.  Attributes, entries, sums,
products and methods of what comes later come later, too.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeAlias

import numpy as np

from iclimit.comparison import ERRORS, Comparison, compare, compare_limits, compare_p_value
from iclimit.drawing import Figure
from iclimit.results import Estimate
from iclimit.runs.cell import Cell
from iclimit.statistics import Extrapolation, extrapolate_runs


class Later:
    """A value that comes later: what a function returns, once its arguments are there.

    Arguments may themselves come later, also inside of lists, tuples and dicts.  The value is
    computed once for all rows that share this object.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        arguments: Sequence[Any],
        keywords: Mapping[str, Any],
        of: str = "",
    ) -> None:
        self._call = function, arguments, keywords
        self._of = of

    __iter__ = None  # it would never end

    def __call__(self, *arguments: Any, **keywords: Any) -> Later:
        return Later(operator.call, (self, *arguments), keywords)

    def __add__(self, other: Any) -> Later:
        return Later(operator.add, (self, other), {})

    def __sub__(self, other: Any) -> Later:
        return Later(operator.sub, (self, other), {})

    def __mul__(self, other: Any) -> Later:
        return Later(operator.mul, (self, other), {})

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Later:
        return Later(operator.truediv, (self, other), {})

    def __rtruediv__(self, other: Any) -> Later:
        return Later(operator.truediv, (other, self), {})

    def __neg__(self) -> Later:
        return Later(operator.neg, (self,), {})

    def __getattr__(self, name: str) -> Later:
        if name.startswith("_"):
            raise AttributeError(name)
        return Later(getattr, (self, name), {}, self._of and f"{self._of}.{name}")

    def __getitem__(self, key: Any) -> Later:
        return Later(lambda value: value[key], (self,), {}, self._of)


# A number, an Estimate, samples whose mean is meant, or one of these that comes later.
Number: TypeAlias = Later | Estimate | np.ndarray | float


def run(function: Callable[..., Any], **arguments: Any) -> Later:
    """Result of the cell of a function and its arguments, which may be results of cells, too."""
    given = {key: _cell_itself(value) for key, value in arguments.items()}
    return Later(lambda result: result, (Cell.of(function, **given),), {})


def call(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Later:
    """What a function returns when the claim is judged.

    A row whose theory is the value of a function of ``asymptotics``, or a field of this value,
    tests this function.
    """
    theory = str(getattr(function, "__module__", "")).startswith("iclimit.asymptotics")
    return Later(function, arguments, keywords, function.__name__ if theory else "")


def _cell_itself(value: Any) -> Any:
    if isinstance(value, Later):
        return next(cells_of(value))
    return tuple(map(_cell_itself, value)) if isinstance(value, (list, tuple)) else value


def cells_of(value: Any) -> Iterator[Cell]:
    """Yield the cells behind rows and values, which may stand in lists, tuples and dicts."""
    if isinstance(value, Cell):
        yield value
    for part in _parts_of(value):
        yield from cells_of(part)


def theory_calls(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls of the theory behind rows and values: function and stated arguments.

    Calls that a function of the claim makes when the claim is judged are not among them.
    """
    if isinstance(value, Later):
        function, arguments, keywords = value._call
        # Attributes and entries of a value of the theory carry its name, too.
        if value._of and getattr(function, "__name__", "") == value._of:
            given = inspect.signature(function).bind(*arguments, **keywords)
            yield value._of, given.arguments
    for part in _parts_of(value):
        yield from theory_calls(part)


def _parts_of(value: Any) -> Sequence[Any]:
    """What a row, a value that comes later, a list, a tuple or a dict consists of."""
    if isinstance(value, Later):
        _, arguments, keywords = value._call
        return [*arguments, *keywords.values()]
    if isinstance(value, Row):
        return [getattr(value, field.name) for field in fields(value)]
    if isinstance(value, Mapping):
        return [*value.values()]
    return value if isinstance(value, (list, tuple)) else []


class Values:
    """Function that gives the values of what comes later, from the results of cells."""

    def __init__(self, results: Mapping[Cell, Any]) -> None:
        self.results = results
        self._known: dict[Later, Any] = {}

    def __call__(self, value: Any) -> Any:
        """Return a value with all in it that comes later replaced."""
        if isinstance(value, Cell):
            return self.results[value]
        if isinstance(value, Later):
            if value not in self._known:
                function, arguments, keywords = value._call
                given = [self(argument) for argument in arguments]
                self._known[value] = function(*given, **self(keywords))
            return self._known[value]
        if isinstance(value, Row):
            return replace(
                value, **{field.name: self(getattr(value, field.name)) for field in fields(value)}
            )
        if isinstance(value, Mapping):
            return {key: self(content) for key, content in value.items()}
        return type(value)(map(self, value)) if type(value) in (list, tuple) else value


@dataclass(frozen=True, eq=False)
class Row:
    """What a claim compares or tells: one of the kinds below.

    The methods are those of a row in which `Values` has replaced what comes later.
    """

    def comparisons(self) -> list[Comparison]:
        """What is compared."""
        return []

    def notes(self) -> list[str]:
        """What a reader should know."""
        return []


# Rows that a claim yields, and their parts.
Rows: TypeAlias = Iterator[Row]


@dataclass(frozen=True, eq=False)
class Single(Row):
    """One comparison.

    Attributes
    ----------
    label : str
        What is compared, with its parameters.
    theory, estimate : Number
        The two numbers.
    relative, allowance : float
        Systematic deviations, relative to the theory and absolute, which add up.
    of : str, optional
        Function of the theory that is tested, with the field of its result after a dot; by default
        that of a theory made by `call`.
    draws : hashable
        The same for rows whose estimates come from the same random draws.
    upper_bound : bool
        Whether the theory only bounds the estimate from above.
    degrees : float, optional
        Degrees of freedom of the standard error; by default the repeats of the estimate minus 1.
    x : (str, float), optional
        Parameter along which the rows of a family differ, by the name of the notation, and its
        value: the standard figure draws these as a line and points.
    family : str
        What the rows of a family have in common, for the legend.
    """

    label: str
    theory: Any
    estimate: Any
    relative: float | Later = 0.0
    allowance: float | Later = 0.0
    of: str | None = None
    draws: Hashable = None
    upper_bound: bool = False
    degrees: float | None = None
    x: tuple[str, float] | None = None
    family: str = ""

    def __post_init__(self) -> None:
        if self.of is None:
            object.__setattr__(self, "of", _function_of(self.theory))

    def comparisons(self) -> list[Comparison]:
        """The comparison."""
        names = ("allowance", "relative", "degrees", "upper_bound", "of", "draws")
        options = {name: getattr(self, name) for name in names}
        return [compare(self.label, _mean(self.theory), _mean(self.estimate), **options)]


def exact(label: str, theory: Number, value: Number, **options: Any) -> Row:
    """Theory against a number without standard error, within ``relative`` or ``allowance``.

    The options of this kind and of the next three are the attributes of `Single`.
    """
    return Single(label, theory, value, **options)


def mean(label: str, theory: Number, estimate: Number, **options: Any) -> Row:
    """Theory against the mean of simulations."""
    return Single(label, theory, estimate, **options)


def bound(label: str, theory: Number, estimate: Number, **options: Any) -> Row:
    """Theory that bounds a number or the mean of simulations from above."""
    return Single(label, theory, estimate, upper_bound=True, **options)


def published(label: str, theory: Number, value: Number, **options: Any) -> Row:
    """Theory, or a simulation of ours, against a number in print."""
    return Single(label, theory, value, **options)


def both_errors(
    label: str, theory: Later, errors: Later, *, of: str | None = None, **options: Any
) -> Rows:
    """Yield means of the ICL and the IDG error: results that have them as ``icl`` and ``idg``."""
    if of is None:
        of = _function_of(theory)
    for name in ERRORS:
        estimate = getattr(errors, name)
        own = of and f"{of}.{name}"
        yield mean(f"{name.upper()} {label}", getattr(theory, name), estimate, of=own, **options)


@dataclass(frozen=True, eq=False)
class Limit(Row):
    """Limits of several quantities, against what runs at several sizes extrapolate to."""

    theories: Mapping[str, Any]
    runs: Mapping[int, Any]
    fit: Any
    of: Sequence[str]
    draws: Hashable
    fit_label: str
    name: str
    size: str
    options: Mapping[str, Any]

    def comparisons(self) -> list[Comparison]:
        """The limits, and the goodness of the fit."""
        theories = {label: _mean(theory) for label, theory in self.theories.items()}
        rows = compare_limits(theories, self.fit, of=self.of, draws=self.draws)
        if self.fit_label:
            rows.append(compare_p_value(self.fit_label, self.fit.p_value))
        return rows

    def notes(self) -> list[str]:
        """How the fit is."""
        return [f"{self.name}: {self.fit.summary}"] if self.name else []


def limit(
    theories: Mapping[str, Number],
    runs: Mapping[int, Any],
    *,
    fit: Callable[..., Extrapolation] = extrapolate_runs,
    of: Sequence[str] | None = None,
    draws: Hashable = None,
    fit_label: str = "",
    name: str = "",
    about: str = "",
    size: str = "$d$",
    **options: Any,
) -> Limit:
    """Limits against runs at several sizes, extrapolated to infinite size.

    Parameters
    ----------
    theories : dict
        Limits by their labels, in the order of the quantities of a run.
    runs : dict
        What was simulated, by size: an Estimate or samples (repeats,), several Estimates, or
        samples (quantities, repeats).
    fit : callable
        Extrapolates, given the sizes, the runs and the other options (such as ``order``).
    of, draws : sequence of str, hashable
        As in `Single`, ``of`` for each limit.
    fit_label : str
        Label under which the goodness of the fit is compared; without it, it is not.
    name : str
        Begins the note that describes the fit; without it there is no note.
    about : str
        What is extrapolated: ``draws``, ``fit_label`` and ``name`` are made of it.
    size : str
        What the sizes count, for the axis of the figure.
    """
    if about:
        draws = about
        name = f"Limit of {about}"
        fit_label = f"chi-square of the fit, {about}"
    functions = [_function_of(theory) for theory in theories.values()] if of is None else of
    runs = {size: call(_estimates, run) for size, run in runs.items()}
    later = call(fit, list(runs), list(runs.values()), **options)
    return Limit(theories, runs, later, functions, draws, fit_label, name, size, options)


@dataclass(frozen=True, eq=False)
class Judged(Row):
    """Comparisons that a function makes."""

    made: Any

    def comparisons(self) -> list[Comparison]:
        """The comparisons that were made."""
        return self.made


def judged(comparisons: Later) -> Row:
    """Comparisons that a function returns or yields: for what no other kind fits."""
    return Judged(call(list, comparisons))


@dataclass(frozen=True, eq=False)
class Note(Row):
    """A sentence, or several."""

    text: Any

    def notes(self) -> list[str]:
        """The sentences."""
        return [self.text] if isinstance(self.text, str) else list(self.text)


def note(text: str | Later) -> Row:
    """A sentence for the reader of a report, or several."""
    return Note(text)


@dataclass(frozen=True, eq=False)
class Drawing(Row):
    """The figure of a claim, where it has one of its own."""

    function: Callable[..., None]
    values: Sequence[Any]

    def draw(self, figure: Figure) -> None:
        """Draw into a figure."""
        self.function(figure, *self.values)


def drawing(function: Callable[..., None], *values: Any) -> Row:
    """The figure, drawn by ``function(figure, *values)``."""
    return Drawing(function, values)


def _function_of(theory: Number) -> str:
    return theory._of if isinstance(theory, Later) else ""


def _mean(value: Any) -> Any:
    return Estimate.of(value) if isinstance(value, np.ndarray) and value.ndim else value


def _estimates(run: Any) -> Any:
    return Estimate.of(run) if isinstance(run, np.ndarray) and run.ndim == 1 else run
