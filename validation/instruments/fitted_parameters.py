"""Fitted parameters with their intervals, as text, numbers and figures."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from scipy.special import chdtrc, chdtri

from iclimit.checks import check_choice, shown
from iclimit.drawing import COLOURS, Axes, Figure, finish, panels, write_texts
from iclimit.notation import PARAMETERS
from iclimit.results import Result
from iclimit.statistics import FALSE_ALARM
from iclimit.tables import aligned
from iclimit.validation.instruments.fitting import Solution
from iclimit.validation.instruments.least_squares import (
    LEVELS,
    LOOSE,
    RISE,
    Precision,
    Profile,
    heights_at,
    sums_of_squares,
)
from iclimit.words import counted

# Powers of ten that numbers are written out with.
LEAST_POWER = -3
MOST_POWER = 4

# A value is at an end of its interval if it is nearer to it than this share of the interval.
AT_END = 1e-6

# Height in inches of the panel of deviations below several parameters.
FOOT = 2.8

# Rise of chi-square up to which it is drawn.
HIGHEST = 2 * LEVELS[95]

# Ranges of axes are wider than profiles by this factor, so that no region of two parameters is
# cut: it reaches further than profiles, which may end at `RISE`.
STRETCH = 1.1

# Rise of chi-square at the ends of regions of two parameters.
PAIR_LEVELS = {level: float(chdtri(2, 1 - level / 100)) for level in LEVELS}

# Shades of intervals and of regions.
SHADES = {68: "#8fbbdc", 95: "#d3e4f1"}

# Values of a parameter, on a grid of two and along a curve.
NODES = 100
FINE = 400

# A region of two parameters that is not so many of these values wide is not drawn.
THINNEST = 4

# Share of the width of a panel between its end and the middle of words in it.
ASIDE = 0.12

# Most ticks of an axis, and how many letters high a tick label is wide at most.
MOST_TICKS = 5
LETTERS = 6

# Parameters that are known by themselves, not by their logarithms.
LINEAR = ("offset",)


@dataclass(frozen=True)
class FittedParameter:
    """An effective parameter.

    Attributes
    ----------
    name : str
        Name of the parameter.
    value : float
        The best value; the factor of what the table says if the rows have different values.
    standard_error : float
        By the Fisher matrix.
    low_68, high_68, low_95, high_95 : float
        Ends of intervals by the profile of chi-square; an end of the searched range where open.
    start : float
        Where the search began: what the table says, if it says anything.
    factor : bool
        Whether the value is a factor of what the rows say.
    """

    name: str
    value: float
    standard_error: float
    low_68: float
    high_68: float
    low_95: float
    high_95: float
    start: float
    factor: bool


def check_free(free: str | Sequence[str], known: Collection[str]) -> tuple[str, ...]:
    """Names of free parameters, at least one and none twice."""
    if not isinstance(free, Iterable):
        raise TypeError(f"free must be a name or several names, got {shown(free)}")
    names = (free,) if isinstance(free, str) else tuple(free)
    for name in names:
        check_choice("free", name, known)
    if not names or len(set(names)) < len(names):
        raise ValueError(f"free must be one or more different names, got {free!r}")
    return names


@dataclass(frozen=True)
class Stated:
    """What is stated of a parameter.

    Attributes
    ----------
    unit : float
        Value whose logarithm is 0; what an offset is multiplied by.
    start : float
        Where the search began.
    factor : bool
        Whether the value is a factor of what the rows say.
    """

    unit: float
    start: float
    factor: bool = False


def profiled(
    minima: Sequence[Solution[Any]], stated: Mapping[str, Stated]
) -> tuple[list[FittedParameter], dict[str, Profile]]:
    """Parameters with intervals by their profiles of chi-square, and the profiles of the best.

    The lowest minimum comes first.  An interval reaches over those minima that are not higher
    than its level.
    """
    parameters = []
    profiles = {}
    rises = [minimum.height - minima[0].height for minimum in minima]
    for index, (name, error) in enumerate(minima[0].precision.standard_errors.items()):
        curves = [minimum.profile(index) for minimum in minima]
        curve = curves[0]
        profiles[name] = curve
        ends = [end for level in LEVELS for end in _interval(curves, rises, level)]
        numbers = np.array([curve.values[curve.best], *ends])
        numbers = numbers if name in LINEAR else stated[name].unit * np.exp(numbers)
        value, low_68, high_68, low_95, high_95 = numbers.tolist()
        parameters.append(
            FittedParameter(
                name=name,
                value=value,
                standard_error=error * (1.0 if name in LINEAR else value),
                low_68=low_68,
                high_68=high_68,
                low_95=low_95,
                high_95=high_95,
                start=stated[name].start,
                factor=stated[name].factor,
            )
        )
    return parameters, profiles


def _interval(
    curves: Sequence[Profile], rises: Sequence[float], level: int
) -> tuple[float, float]:
    """Ends of an interval over the profiles of all minima that rise by less than its level."""
    pairs = zip(curves, rises, strict=True)
    ends = [curve.interval(level, rise) for curve, rise in pairs if rise < LEVELS[level]]
    return min(low for low, _ in ends), max(high for _, high in ends)


@dataclass(frozen=True, eq=False, repr=False)
class ParameterFit(Result):
    """Parameters that explain data best.

    Attributes
    ----------
    parameters : list of FittedParameter
        The free parameters with their intervals.
    chi_square : float
        Weighted sum of squared deviations at the best values.
    count : int
        Number of measured values.
    precision : Precision
        Fisher matrix, standard errors, correlations and degeneracies of the logarithms.
    profiles : dict of Profile
        Chi-square around the best values by name, over logarithms.
    notes : list of str
        What was assumed.
    other_minima : list of dict
        Values at other minima that the data hardly tell from the best one, with the ``rise`` of
        minus twice the logarithm of the likelihood.
    """

    parameters: list[FittedParameter]
    chi_square: float
    count: int
    precision: Precision
    profiles: dict[str, Profile]
    notes: list[str]
    other_minima: list[dict[str, float]]
    # The lowest minimum, by which regions of two parameters are drawn.
    _solution: Solution[Any]

    # A measurement and the source of all, in words, and what to do if no values explain it.
    kind: ClassVar[str] = "error"
    data: ClassVar[str] = "table"
    advice: ClassVar[str] = "iclimit check says which mistake would explain it."

    @classmethod
    def of(
        cls,
        solutions: Sequence[Solution[Any]],
        stated: Mapping[str, Stated],
        notes: list[str],
        **own: Any,
    ) -> Self:
        """Fit with these solutions, the lowest first, and fields of its own kind."""
        best = solutions[0]
        # Others that data hardly tell from it.
        minima = [solution for solution in solutions if solution.height - best.height < RISE]
        parameters, profiles = profiled(minima, stated)
        return cls(
            parameters=parameters,
            chi_square=best.data.chi_square(best.x),
            count=best.data.count,
            precision=best.precision,
            profiles=profiles,
            notes=notes,
            other_minima=[_other(minimum, best, stated) for minimum in minima[1:]],
            _solution=best,
            **own,
        )

    @property
    def values(self) -> dict[str, float]:
        """Best values by name."""
        return {parameter.name: parameter.value for parameter in self.parameters}

    @property
    def degrees(self) -> int:
        """Degrees of freedom: errors minus parameters."""
        return self.count - len(self.parameters)

    @property
    def p_value(self) -> float:
        """Probability of a larger chi-square if runs follow the theory at some parameters."""
        return float(chdtrc(self.degrees, self.chi_square)) if self.degrees > 0 else 1.0

    @property
    def holds(self) -> bool:
        """Whether the theory at these parameters explains the table."""
        return self.p_value >= FALSE_ALARM

    @property
    def conclusions(self) -> list[str]:
        """Whether the parameters explain the table, and if so, what is not told apart."""
        words = counted(len(self.parameters), "parameter")
        numbers = counted(self.count, self.kind)
        head = f"chi-square {self.chi_square:.1f} for {numbers} and {words}"
        what = "the theory explains" if self.holds else "no values explain"
        verdict = f"p = {self.p_value:.2g}: {what} the {self.data}"
        if self.degrees <= 0:
            verdict = f"as many parameters as {self.kind}s: nothing is left to contradict them"
        if not self.holds:
            # Intervals, bounds and degeneracies mean nothing where the theory does not fit.
            return [f"{head}, {verdict}.", self.advice, *self.notes]
        others = map(_sentence, self.other_minima)
        bounds = [
            f"{parameter.name} is at the end of the range that was searched: the table bounds it."
            for parameter in self.parameters
            if _end(parameter)
        ]
        known = [*others, *bounds, *self.precision.degeneracies]
        return [f"{head}, {verdict}.", *known, *self.notes]

    def rows(self) -> list[dict[str, Any]]:
        """The parameters with their intervals."""
        return [vars(parameter) for parameter in self.parameters]

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain numbers and lists."""
        names = ("chi_square", "count", "degrees", "p_value", "holds", "conclusions")
        numbers = {name: getattr(self, name) for name in names}
        return numbers | {
            "rows": self.rows(),
            "correlations": self.precision.correlations.tolist(),
            "other_minima": self.other_minima,
        }

    def __str__(self) -> str:
        """Table of the parameters, with intervals if they explain the data, and what they say."""
        levels = [f"{level} %" for level in LEVELS] if self.holds else []
        lines = [["", "value", *levels, "started from"]]
        for parameter in self.parameters:
            ends = (parameter.low_68, parameter.high_68), (parameter.low_95, parameter.high_95)
            spans = [_span(parameter, low, high) for low, high in ends] if self.holds else []
            start = f"{parameter.start:.4g}{' (factor)' * parameter.factor}"
            lines.append([parameter.name, f"{parameter.value:.4g}", *spans, start])
        return "\n".join([*aligned(lines, "<>"), *self.conclusions])

    def _natural(self, number: int, x: np.ndarray) -> np.ndarray:
        """Values of a parameter from logarithms, or from offsets themselves."""
        parameter = self.parameters[number]
        curve = self.profiles[parameter.name]
        if parameter.name in LINEAR:
            return x
        return np.asarray(parameter.value * np.exp(x - curve.values[curve.best]))

    def draw_figure(self, figure: Figure, /, **line: Any) -> list[Axes]:
        """Draw profiles of chi-square, regions of pairs of parameters, and the deviations.

        The deviations stand below, or beside the profile of a single parameter.  Intervals in
        words and the key of the regions stand above the diagonal.  If no values explain the data,
        there are only the deviations.
        """
        if not self.holds:
            return self._draw_deviations(figure, **line)
        size = len(self.parameters)
        if size == 1:
            axes = panels(figure, 2, width=7.2, height=3.2)
        else:
            shape = {"width": 3.6 * size, "height": 3.2 * size, "foot": FOOT}
            axes = panels(figure, size, size, **shape, narrowest=0.0)
        for i in range(size):
            self._draw_profile(axes[i * size + i], i)
            for j in range(i):
                self._draw_pair(axes[i * size + j], j, i)
            for j in range(i + 1, size):
                axes[i * size + j].set_axis_off()
        self.draw(axes[-1], **line)
        if size > 1:
            self._write_words(axes[size - 1], axes[size])
        head, *foot = self.conclusions
        write_texts(figure, head, "\n".join(foot))
        return axes

    def _draw_deviations(self, figure: Figure, **line: Any) -> list[Axes]:
        """Draw the deviations from the best values alone."""
        axes = panels(figure, 1, width=7.2, height=3.2)
        self.draw(axes[0], **line)
        head, *foot = self.conclusions
        write_texts(figure, head, "\n".join(foot))
        return axes

    def _range(self, number: int) -> np.ndarray:
        """Logarithms of a parameter, from end to end of what is drawn of it."""
        curve = self.profiles[self.parameters[number].name]
        fine = np.linspace(curve.values[0], curve.values[-1], FINE)
        inside = fine[curve.root(fine) ** 2 <= HIGHEST]
        best = curve.values[curve.best]
        ends = best + STRETCH * (inside[[0, -1]] - best)
        bounds = [end[number] for end in self._solution.data.bounds]
        low, high = np.clip(ends, *bounds)
        return np.linspace(low, high, NODES)

    def _draw_profile(self, ax: Axes, number: int) -> None:
        """Draw chi-square over a parameter, with its intervals as shades."""
        parameter = self.parameters[number]
        x = self._range(number)
        values = self._natural(number, x)
        ax.axvspan(parameter.low_95, parameter.high_95, color=SHADES[95], linewidth=0)
        ax.axvspan(parameter.low_68, parameter.high_68, color=SHADES[68], linewidth=0)
        ax.plot(values, self.profiles[parameter.name].root(x) ** 2, color=COLOURS[0])
        # Within the curve, or beside it where it rises from an end.
        room = ASIDE * (values[-1] - values[0])
        inside = min(max(parameter.value, values[0] + room), values[-1] - room)
        places = {-1: values[-1] - room, 0: inside, 1: values[0] + room}
        place = places[_end(parameter)]
        for level, rise in LEVELS.items():
            ax.axhline(rise, color="0.5", linewidth=0.8, linestyle="--")
            ax.text(place, rise, f"{level} %", ha="center", va="bottom", fontsize="small")
        ax.set_ylim(0, HIGHEST)
        ax.set_xlim(values[0], values[-1])
        finish(ax, _label(parameter), "rise of chi-square", title=_headline(parameter))
        # To the right end, as a title that is wider than its panel would leave the figure there.
        ax.title.set(fontsize="small", ha="right", x=1.0)
        self._limit_ticks(ax)

    def _draw_pair(self, ax: Axes, j: int, i: int) -> None:
        """Draw the joint regions of two parameters, and where all others follow each of them."""
        reason = self._no_region((j, i))
        if not reason and self._by_likelihood:
            self._draw_regions(ax)
        elif not reason:
            self._draw_ellipses(ax, (j, i))
        for k, words in ((j, "best y at each x"), (i, "best x at each y")):
            points = self.profiles[self.parameters[k].name].points
            line = (self._natural(m, points[:, m]) for m in (j, i))
            colour = COLOURS[1] if k == j else COLOURS[2]
            ax.plot(*line, ":", color=colour, label=words)
        best = [self.parameters[k].value for k in (j, i)]
        ax.plot(*best, "k+", clip_on=False, label="best values")
        ax.set_xlim(*self._natural(j, self._range(j)[[0, -1]]))
        ax.set_ylim(*self._natural(i, self._range(i)[[0, -1]]))
        finish(ax, *(_label(self.parameters[k]) for k in (j, i)), title=reason)
        self._limit_ticks(ax)

    def _limit_ticks(self, ax: Axes) -> None:
        """Keep labels of ticks apart where panels are narrow or letters large."""
        from matplotlib import rcParams

        points = 72 * ax.figure.bbox.width / ax.figure.dpi / max(len(self.parameters), 2)
        letters = points / rcParams["font.size"]
        ax.locator_params(axis="x", nbins=max(1, min(MOST_TICKS, int(letters / LETTERS))))

    @property
    def _by_likelihood(self) -> bool:
        """Whether regions are those of the likelihood: no other parameter has to follow."""
        return len(self.parameters) == 2

    def _draw_regions(self, ax: Axes) -> None:
        """Draw where chi-square has not risen by more than the levels of two parameters."""
        ranges = [self._range(k) for k in (0, 1)]
        grid = np.stack(np.meshgrid(*ranges), axis=-1)
        residuals = self._solution.data.residuals
        rises = heights_at(residuals, grid) - sums_of_squares(residuals, self._solution.x)
        values = [self._natural(k, x) for k, x in enumerate(ranges)]
        levels = list(PAIR_LEVELS.values())
        ax.contourf(*values, rises, [-math.inf, *levels], colors=list(SHADES.values()))
        ax.contour(*values, rises, levels, colors=[COLOURS[0]], linewidths=0.8)

    def _no_region(self, pair: tuple[int, int]) -> str:
        """Why the region of two parameters is not drawn; empty if it is."""
        if self._by_likelihood:
            radius = math.sqrt(PAIR_LEVELS[95])
            steps = [np.ptp(self._range(k)) / NODES for k in pair]
            widths = 2 * radius / np.sqrt(np.diag(self.precision.fisher))
            thin = np.any(widths < THINNEST * np.array(steps))
            return "region: as thin as the lines" if thin else ""
        if any(_end(self.parameters[k]) for k in pair):
            return "no region: a value is at its end"
        loose = max(self._solution.standard_errors[[*pair]]) > LOOSE
        return "no region: hardly fixed" if loose else ""

    def _draw_ellipses(self, ax: Axes, pair: tuple[int, int]) -> None:
        """Draw the regions of two of many parameters to second order."""
        part = self.precision.covariance[np.ix_(pair, pair)]
        curves = [self.profiles[self.parameters[k].name] for k in pair]
        best = np.array([curve.values[curve.best] for curve in curves])
        circle = np.exp(1j * np.linspace(0, 2 * np.pi, FINE))
        for level in reversed(SHADES):
            radius = math.sqrt(PAIR_LEVELS[level])
            ring = radius * np.linalg.cholesky(part) @ [circle.real, circle.imag]
            places = [self._natural(k, x) for k, x in zip(pair, best[:, None] + ring, strict=True)]
            ax.fill(*places, facecolor=SHADES[level], edgecolor=COLOURS[0], linewidth=0.8)

    def _write_words(self, ax: Axes, pair: Axes) -> None:
        """Write into empty axes the intervals, and what the shades and lines of a pair are."""
        from matplotlib.patches import Patch

        words = ["95 % intervals:"]
        for parameter in self.parameters:
            span = _span(parameter, parameter.low_95, parameter.high_95)
            words.append(f"{_label(parameter)}: {span}")
        words.append(f"joint regions: {'likelihood' if self._by_likelihood else 'ellipses'}")
        shades = [Patch(color=shade, label=f"{level} %") for level, shade in SHADES.items()]
        lines, _ = pair.get_legend_handles_labels()
        look: dict[str, Any] = {"loc": "upper right", "borderaxespad": 0, "alignment": "left"}
        key = ax.legend(handles=[*shades, *lines], title="\n".join(words), **look)
        key.set_in_layout(False)


def _other(
    minimum: Solution[Any], best: Solution[Any], stated: Mapping[str, Stated]
) -> dict[str, float]:
    """Values at a minimum, and how much higher than the best one it is."""
    values = {}
    for (name, start), x in zip(stated.items(), minimum.x.tolist(), strict=True):
        values[name] = x if name in LINEAR else start.unit * math.exp(x)
    return values | {"rise": minimum.height - best.height}


def _sentence(minimum: Mapping[str, float]) -> str:
    """Remark on another minimum."""
    values = ", ".join(
        f"{name} = {value:.4g}" for name, value in minimum.items() if name != "rise"
    )
    reach = "intervals that reach so far go over both"
    return (
        f"There is another minimum at {values}, where minus twice the logarithm of the likelihood "
        f"is {minimum['rise']:.2g} higher: {reach}."
    )


def with_error(value: float, low: float, high: float) -> str:
    r"""Value with its error, or its two errors, in LaTeX: 0.101 \pm 0.003.

    Errors have two digits if they begin with 1, otherwise one; they are two if they differ by more
    than a tenth.

    Examples
    --------
    >>> from iclimit.validation.instruments.fitted_parameters import with_error
    >>> print(with_error(0.1012, 0.0983, 0.1041))
    0.101 \pm 0.003
    >>> print(with_error(2.34e-5, 2.1e-5, 2.9e-5))
    (2.3_{-0.2}^{+0.6}) \times 10^{-5}
    """
    below = value - low
    above = high - value
    smaller = min(below, above)
    if not 0 < smaller < math.inf:
        return f"{value:.4g}"
    power = math.floor(math.log10(max(abs(value), smaller)))
    if not LEAST_POWER <= power <= MOST_POWER:
        unit = 10.0**power
        return rf"({with_error(value / unit, low / unit, high / unit)}) \times 10^{{{power}}}"
    place = math.floor(math.log10(smaller))
    digits = max(0, -place + (smaller < 2 * 10.0**place))
    if abs(above - below) <= (above + below) / 20:
        return rf"{value:.{digits}f} \pm {(above + below) / 2:.{digits}f}"
    return f"{value:.{digits}f}_{{-{below:.{digits}f}}}^{{+{above:.{digits}f}}}"


def _headline(parameter: FittedParameter) -> str:
    """Fitted value with its interval of 68 %, or its bound, under its symbol."""
    label = _label(parameter)
    low = parameter.low_68
    high = parameter.high_68
    if _end(parameter):
        return f"{label}: {_span(parameter, low, high)} (68 %)"
    return f"{label} = ${with_error(parameter.value, low, high)}$"


def _span(parameter: FittedParameter, low: float, high: float) -> str:
    """An interval in words; a bound where the value is at an end of the range."""
    end = _end(parameter)
    if end == 0:
        return f"{low:.4g} to {high:.4g}"
    return f"below {high:.4g}" if end < 0 else f"above {low:.4g}"


def _end(parameter: FittedParameter) -> int:
    """-1 or 1 where the fitted value is at the lower or upper end of its interval, else 0."""
    least = AT_END * (parameter.high_68 - parameter.low_68)
    if parameter.value - parameter.low_68 < least:
        return -1
    return int(parameter.high_68 - parameter.value < least)


def _label(parameter: FittedParameter) -> str:
    known = PARAMETERS.get(parameter.name)
    text = f"${known.symbol}$" if known is not None and known.symbol else ""
    text = text or parameter.name.replace("_", " ")
    return f"factor of {text}" if parameter.factor else text
