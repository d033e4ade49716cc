"""What every result can do, and what every room shares: means with standard errors, verdicts."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from iclimit import tables
from iclimit.checks import check_choice
from iclimit.drawing import Axes, Figure, house_style, new_figure, picture, saved_figure
from iclimit.extras import import_extra, import_xarray

# Probability below which a sample counts as never being the median of samples that are drawn with
# replacement.
NEVER = 1e-12

# Types of single numbers and texts.
_SCALARS = (int, float, str)

# Most numbers of an array, or entries of a list, that are printed one by one.
_FEW = 6

# Most characters of a value that is printed.
_LONGEST = 60

# Most rows of a table in a notebook.
_ROWS = 10

# Width and height of the figure in a notebook, in inches.
_SMALL = 4.8, 3.2


class Result:
    """Base of data classes that hold results.

    A result declares its columns once, and everything else follows from them: rows, data frames,
    labelled arrays, files, and how it prints.  By default the columns are its fields.  A subclass
    has other ones in `columns`, names what its arrays run over in `dims`, and draws its figure in
    `draw`.

    Examples
    --------
    >>> import iclimit
    >>> schedule = iclimit.optimal_schedule(steps=3, ratio=0.5)
    >>> schedule
    Schedule(rates=[0.4, 0.666667, 2], loss=0.0666667, lower_bound=0.0666667)
    >>> [row["rates"] for row in schedule.rows()] == schedule.to_dict()["rates"]
    True
    """

    # Axes of the arrays of the table; a column of such a name has the positions.
    dims: ClassVar[tuple[str, ...]] = ()

    def columns(self) -> dict[str, Any]:
        """Columns of the table by name: text, numbers, estimates, arrays or sequences of these.

        The table has a row for each entry of the first array, or of the grid over `dims` where
        these are columns.  What is the same along it is repeated, and arrays of other shapes are
        left out.  By default the columns are those of the rows if a result has rows of its own,
        otherwise the fields that are printed, or all fields if none is.
        """
        if type(self).rows is not Result.rows:
            rows = self.rows()
            return {
                name: column([row.get(name) for row in rows]) for name in tables.column_names(rows)
            }
        return self.printed() or _public(self)

    def printed(self) -> dict[str, Any]:
        """What is printed, by name: by default the fields that are not left out of it."""
        own: Any = self
        return {
            attribute.name: getattr(self, attribute.name)
            for attribute in fields(own)
            if attribute.repr
        }

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table, each by column; None where a column has no value."""
        arrays, _ = _broadcast(self)
        names = list(arrays)
        return [
            dict(zip(names, line, strict=True))
            for line in zip(*(array.ravel().tolist() for array in arrays.values()), strict=True)
        ]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dicts, lists, numbers and text, which JSON can hold.

        A result with rows of its own has these, beside fields that are single numbers and texts.
        """
        public = _public(self)
        if type(self).rows is not Result.rows:
            texts = {name: value for name, value in public.items() if isinstance(value, _SCALARS)}
            return texts | {"rows": tables.plain(self.rows())}
        return {name: tables.plain(value) for name, value in public.items()}

    def to_pandas(self) -> Any:
        """Rows as a `pandas.DataFrame`; gaps in columns of numbers are NaN."""
        return import_extra("pandas", "labelled", "to_pandas").DataFrame(self.rows())

    def to_xarray(self) -> Any:
        """Columns as an `xarray.Dataset` over `dims`, labelled as in the notation.

        Other numbers and texts of the result and its parameters are attributes.
        """
        xarray = import_xarray()
        arrays, shape = _broadcast(self)
        arrays = {
            name: column(array.ravel().tolist()).reshape(shape) if array.dtype == object else array
            for name, array in arrays.items()
        }
        names = self.dims or tuple(f"dim_{number}" for number in range(len(shape)))
        axes = {name: axis for axis, name in enumerate(names) if name in arrays}
        coordinates = {
            name: (name, np.moveaxis(arrays.pop(name), axis, 0).reshape(shape[axis], -1)[:, 0])
            for name, axis in axes.items()
        }
        variables = {name: (names, array, attributes(name)) for name, array in arrays.items()}
        everything = self.to_dict()
        others = {
            name: int(value) if isinstance(value, bool) else value  # NetCDF has no booleans
            for name, value in (everything | everything.get("parameters", {})).items()
            if name not in arrays and isinstance(value, _SCALARS)
        }
        return xarray.Dataset(variables, coords=coordinates, attrs=others)

    def draw(self, *_: Any, **__: Any) -> Any:
        """Draw into axes, with keywords of the result's own."""
        raise TypeError(f"{type(self).__name__} has no figure")

    def draw_figure(self, figure: Figure, /, **line: Any) -> Any:
        """Draw into an empty figure, by default into one pair of axes; return the axes."""
        ax = figure.subplots()
        self.draw(ax, **line)
        return ax

    def plot(self, ax: Axes | None = None, **line: Any) -> Any:
        """Draw into axes, by default into those of a new figure of pyplot, and return them.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw.
        **line
            Keywords of the figure, see ``draw``.

        Raises
        ------
        TypeError
            If ``ax`` is the name of a file.
        """
        if isinstance(ax, str | os.PathLike):
            raise TypeError(
                f"ax must be matplotlib axes, got {ax!r}: write({str(ax)!r}) writes a file"
            )
        if ax is not None:
            self.draw(ax, **line)
            return ax
        import matplotlib.pyplot as plt

        return self.draw_figure(plt.figure(layout="constrained"), **line)

    @property
    def endings(self) -> tuple[str, ...]:
        """Endings of the files that `write` can write."""
        return (
            *tables.TABLES,
            ".nc",
            ".html",
            *(tables.PICTURES * (type(self).draw is not Result.draw)),
        )

    def write(
        self,
        path: str | os.PathLike,
        *,
        style: str = "screen",
        parameters: Mapping[str, Any] | None = None,
        **line: Any,
    ) -> None:
        """Write a file, whole or not at all: what it holds depends on its ending.

        Parameters
        ----------
        path : path
            The rows in .csv, everything in .json, labelled arrays in .nc, a page in .html, or the
            figure in .png, .pdf or .svg if there is one.
        style : {"screen", "paper", "paper-wide", "talk"}
            Style of the figure.
        parameters : mapping, optional
            What the figure's file says of itself (`iclimit.figure_files.figure_parameters`).
        **line
            Keywords of ``draw``.

        Raises
        ------
        ValueError
            If the path has another ending.
        """
        ending = Path(path).suffix
        if ending not in self.endings:
            known = ", ".join(self.endings)
            raise ValueError(f"path must end in {known}, got {os.fspath(path)!r}")
        if ending == ".csv":
            tables.write_rows(path, self.rows())
        elif ending == ".json":
            tables.write_text(path, tables.json_text(self.to_dict()))
        elif ending == ".nc":
            tables.write_netcdf(path, self.to_xarray())
        elif ending == ".html":
            from iclimit.html_parts import document

            tables.write_text(path, document(self._headline(), self._repr_html_()))
        else:
            with saved_figure(Path(path), style, parameters) as figure:
                self.draw_figure(figure, **line)

    def __repr__(self) -> str:
        shown = (f"{name}={_short(value)}" for name, value in self.printed().items())
        return f"{type(self).__name__}({', '.join(shown)})"

    def _headline(self) -> str:
        """Heading of the page that `write` makes."""
        return type(self).__name__

    def _repr_html_(self) -> str:
        """Text or table, and the figure below it if there is one."""
        if type(self).draw is Result.draw:
            return self._text_html()
        from iclimit.html_parts import embedded

        with house_style():
            figure = new_figure(*_SMALL)
            self.draw_figure(figure)
            return self._text_html() + embedded(picture(figure, ".png"), type(self).__name__)

    def _text_html(self) -> str:
        own = type(self)
        if own.__str__ is not object.__str__:
            return f"<pre>{html.escape(str(self))}</pre>"
        if own.rows is Result.rows and own.columns is Result.columns:
            cells = [[name, _short(value)] for name, value in self.printed().items()]
            return tables.escaped_table([(own.__name__, ""), *cells])
        rows = self.rows()
        shown = [[_short(value) for value in row.values()] for row in rows[:_ROWS]]
        rest = [[f"... {len(rows)} rows"]] if len(rows) > _ROWS else []
        return tables.escaped_table([list(rows[0]), *shown, *rest])


@dataclass(frozen=True, repr=False)
class PlainRows(Result):
    """Rows that are no other result."""

    lines: Sequence[dict[str, Any]]

    @classmethod
    def of(cls, columns: Mapping[str, np.ndarray]) -> PlainRows:
        """Rows of columns of the same length."""
        lists = [column.tolist() for column in columns.values()]
        return cls([dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)])

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows."""
        return list(self.lines)


def attributes(name: str) -> dict[str, str]:
    """Meaning, symbol and definition of a parameter, as labelled arrays have them."""
    from iclimit.notation import PARAMETERS

    if (known := PARAMETERS.get(name)) is None:
        return {}
    texts = {"long_name": known.meaning, "symbol": known.symbol, "definition": known.definition}
    texts["units"] = "1" if known.range else ""
    return {key: text for key, text in texts.items() if text}


def column(entries: Sequence[Any]) -> np.ndarray:
    """Entries as an array: numbers as numbers, NaN for None among them; anything else as text."""
    kinds = {type(entry) for entry in entries if entry is not None}
    if kinds == {int} and None not in entries and max(map(abs, entries)) < 2**63:
        return np.array(entries, dtype=np.int64)
    if kinds <= {int, float}:
        return np.array(entries, dtype=float)
    return np.array(["" if entry is None else str(entry) for entry in entries])


def _public(result: Any) -> dict[str, Any]:
    """Fields of a data class by name, but for those that are its own."""
    names = (attribute.name for attribute in fields(result))
    return {name: getattr(result, name) for name in names if not name.startswith("_")}


def _broadcast(result: Result) -> tuple[dict[str, np.ndarray], tuple[int, ...]]:
    """Columns as arrays of one shape, and that shape; see `Result.columns`."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in result.columns().items():
        arrays |= _column(name, value)
    grid = [arrays[name].shape for name in result.dims if name in arrays]
    shape = next((array.shape for array in arrays.values() if array.ndim), ())
    if grid and len(grid) == len(result.dims):
        shape = tuple(size for (size,) in grid)
    whole = {}
    for name, array in arrays.items():
        if name in result.dims and grid:
            axis = result.dims.index(name)
            size = [-1 if position == axis else 1 for position in range(len(shape))]
            whole[name] = np.broadcast_to(array.reshape(size), shape)
        elif array.shape == shape[: array.ndim]:
            missing = (1,) * (len(shape) - array.ndim)
            whole[name] = np.broadcast_to(array.reshape(array.shape + missing), shape)
    return whole, shape


def _column(name: str, value: object) -> dict[str, np.ndarray]:
    """Columns of a value: two for estimates, one for numbers and text, none for anything else."""
    if isinstance(value, Estimate):
        return {
            name: np.asarray(value.mean),
            f"{name}_standard_error": np.asarray(value.standard_error),
        }
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], (Estimate, tuple)):
        parts = [_column(name, entry) for entry in value]
        return {key: np.array([part[key] for part in parts]) for key in parts[0]}
    if isinstance(value, Mapping):
        columns: dict[str, np.ndarray] = {}
        for key, entry in value.items():
            columns |= _column(f"{name}_{key}", entry)
        return columns
    if value is None:
        return {name: np.array(None, dtype=object)}
    try:
        array = np.asarray(value)
    except (TypeError, ValueError):  # sequences of different lengths
        return {}
    return {name: array} if array.dtype.kind in "biufcU" else {}


def _short(value: Any) -> str:
    """One value on less than a line: few numbers one by one, the shape of more."""
    if isinstance(value, (float, np.floating)):
        text = tables.entry(value, 6)
    elif isinstance(value, (str, Estimate, Ending)):
        text = str(value)
    elif hasattr(value, "shape") and hasattr(value, "dtype"):
        if value.shape == ():
            return _short(value.item())
        if math.prod(value.shape) > _FEW or len(value.shape) > 1:
            return f"array of shape {tuple(value.shape)}"
        text = f"[{', '.join(map(_short, value.tolist()))}]"
    elif isinstance(value, Mapping):
        text = "{" + ", ".join(f"{name}: {_short(entry)}" for name, entry in value.items()) + "}"
        text = text if len(value) <= _FEW and len(text) <= _LONGEST else f"dict of {len(value)}"
    elif isinstance(value, (list, tuple)):
        text = "[" + ", ".join(map(_short, value[:_FEW])) + "]"
        if len(value) > _FEW or len(text) > _LONGEST:
            text = f"{type(value).__name__} of {len(value)}"
    elif isinstance(value, Result):
        text = f"{type(value).__name__}(...)"
    else:
        text = repr(value)
    return tables.shortened(text, _LONGEST)


@dataclass(frozen=True, repr=False)
class Judgement(Result):
    """A verdict: what every verdict has, whatever else is in it; it prints as its sentence.

    Attributes
    ----------
    kind : str
        The verdict in a word.
    holds : bool
        Whether it confirms what was compared.
    sentence : str
        The verdict in a sentence.
    """

    kind: str
    holds: bool
    sentence: str

    def __str__(self) -> str:
        return self.sentence


# How an iteration can end, and what to do then.
ADVICE = {
    "converged": "",
    "step limit": "All steps were taken: if the loss was still falling, allow more.",
    "interrupted": "Run it again to finish it; with a checkpoint it goes on where it was.",
    "diverged": "Try a smaller learning rate, initial scale or clipping norm.",
}


@dataclass(frozen=True)
class Ending:
    """How an iterative solver or a training ended.

    Attributes
    ----------
    kind : {"converged", "step limit", "interrupted", "diverged"}
        "converged" says that the loss stopped falling, which it also does on a plateau.

    Examples
    --------
    >>> from iclimit.results import Ending
    >>> ending = Ending("step limit")
    >>> ending.converged, ending.advice
    (False, 'All steps were taken: if the loss was still falling, allow more.')
    """

    kind: str

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, ADVICE)

    @classmethod
    def of(cls, *, converged: bool, interrupted: bool = False) -> Ending:
        """Ending of what was interrupted, converged, or took all its steps."""
        kind = "converged" if converged else "step limit"
        return cls("interrupted" if interrupted else kind)

    @property
    def converged(self) -> bool:
        """Whether it converged."""
        return self.kind == "converged"

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it."""
        return self.kind == "interrupted"

    @property
    def advice(self) -> str:
        """What to do if it did not converge; empty if it did."""
        return ADVICE[self.kind]

    def __str__(self) -> str:
        return self.kind


# Estimates below this power of ten have an exponent.
_SMALLEST = -9


@dataclass(frozen=True)
class Estimate:
    """Mean of independent samples, or their median, with its standard error.

    Attributes
    ----------
    mean : float
        Mean over the samples, or their median.
    standard_error : float
        Its standard error; ``inf`` if it is unknown, as for a single or an infinite sample.
    repeats : int
        Number of independent samples.
    samples : ndarray (repeats,)
        The samples; empty where they are not kept.

    Examples
    --------
    >>> from iclimit.results import Estimate
    >>> estimate = Estimate.of([1.26, 1.29, 1.30])
    >>> print(estimate)
    1.283(12)
    >>> round(estimate.z(1.30), 2)
    -1.39
    """

    mean: float
    standard_error: float
    repeats: int
    samples: np.ndarray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    @classmethod
    def of(cls, samples: object, *, keep: bool = True) -> Estimate:
        """Estimate from independent samples, which it keeps unless told otherwise."""
        array = np.asarray(samples, dtype=float)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"samples must have shape (repeats,), got {array.shape}")
        count = len(array)
        with np.errstate(over="ignore"):
            mean = float(np.mean(array))
            known = count > 1 and math.isfinite(mean)
            error = float(np.std(array, ddof=1) / math.sqrt(count)) if known else math.inf
        return cls(mean, error, count, array if keep else np.empty(0))

    @classmethod
    def of_median(cls, samples: object) -> Estimate:
        """Median of independent samples, with the standard error of Maritz and Jarrett.

        That is the standard deviation of medians of samples drawn with replacement, in closed
        form.  Rare samples without bound do not affect it.
        """
        from scipy.special import betainc  # loads for a tenth of a second

        mean = cls.of(samples)
        count = mean.repeats
        ordered = np.sort(mean.samples)
        if count < 3:
            return mean  # the same
        ends = np.arange(count + 1) / count
        shares = np.diff(betainc((count + 1) / 2, (count + 1) / 2, ends))
        seen = shares > NEVER
        center = float(np.median(ordered))
        with np.errstate(invalid="ignore"):
            variance = float(shares[seen] @ (ordered[seen] - shares[seen] @ ordered[seen]) ** 2)
        error = math.sqrt(variance) if math.isfinite(variance) else math.inf
        return cls(center, error, count, mean.samples)

    def scaled(self, factor: float) -> Estimate:
        """Estimate of a multiple."""
        error = abs(factor) * self.standard_error
        return Estimate(factor * self.mean, error, self.repeats, factor * self.samples)

    @property
    def deviations(self) -> np.ndarray:
        """What each sample contributes to the error of the mean; empty without samples.

        The squares add up to the square of the standard error.
        """
        count = len(self.samples)
        if count < 2:
            return np.empty(0)
        return (self.samples - self.mean) / math.sqrt(count * (count - 1))

    def to_dict(self) -> dict[str, float]:
        """Mean and standard error by name."""
        return {"mean": self.mean, "standard_error": self.standard_error}

    def __float__(self) -> float:
        return float(self.mean)

    def z(self, theory: float) -> float:
        """Deviation from a theoretical value in standard errors."""
        difference = self.mean - theory
        return difference / self.standard_error if self.standard_error else math.inf * difference

    def __str__(self) -> str:
        """Mean with the standard error of its last digits in parentheses: 1.284(12)."""
        if not 1e-300 < self.standard_error < math.inf:
            return f"{self.mean:.6g}"
        size = math.floor(math.log10(max(abs(self.mean), self.standard_error)))
        if size < _SMALLEST:
            mean = self.mean / 10.0**size
            error = self.standard_error / 10.0**size
            return f"{replace(self, mean=mean, standard_error=error)}e{size}"
        digits = 1 - math.floor(math.log10(self.standard_error))
        last = round(self.standard_error * 10**digits)
        if last == 100:  # 0.0996 rounds to 0.10
            digits = digits - 1
            last = 10
        if digits <= 0:
            return f"{round(self.mean, digits):.0f}({last * 10**-digits})"
        return f"{self.mean:.{digits}f}({last})" if digits > 1 or last >= 1 else f"{self.mean:g}"
