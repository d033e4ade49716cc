"""What a probe finds about a model: a verdict, tables, labelled arrays, figures, a page."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.drawing import Axes, house_style, new_figure, panels, picture
from iclimit.extras import import_xarray
from iclimit.html_parts import document, embedded
from iclimit.links import link_text
from iclimit.problem import Problem
from iclimit.results import Estimate, Result
from iclimit.tables import aligned, escaped_table, html_row, html_table, json_text, write_text
from iclimit.validation.instruments.models.context_use import ContextUse
from iclimit.validation.instruments.models.fitting import Fit
from iclimit.validation.instruments.models.identification import Identification
from iclimit.validation.instruments.models.ladder import Ladder
from iclimit.validation.instruments.models.linear_attention import LinearPart
from iclimit.validation.instruments.models.positions import PositionErrors, impossible_sentence
from iclimit.validation.instruments.models.report_figures import (
    draw_ladder,
    draw_likeness,
    draw_shifts,
    draw_spectrum,
)
from iclimit.versions import versions
from iclimit.words import measured, percent, z_text

if TYPE_CHECKING:
    from xarray import DataArray, Dataset

# Columns of the ladder, and what stands above them.
HEADINGS = {
    "algorithm": "algorithm",
    "error": "error",
    "theory_z": "z of theory",
    "difference": "model - it",
    "difference_z": "z",
    "unexplained": "unexplained",
    "factor": "factor",
    "factor_z": "z of factor 1",
    "cosine_query": "cosine, query",
    "cosine_labels": "cosine, labels",
}

# Arrays of a report that all sections of prompts have.
BY_SECTION = ["error", "difference", "error_standard_error", "difference_standard_error"]

# Figures and their titles.
TITLES = {
    "ladder": "Errors on fresh tasks",
    "likeness": "Share of the answers left unexplained",
    "positions": "Errors against the number of examples",
    "filter": "Its filter of the eigenvalues of a context",
    "recency": "Weight of each position of the context",
    "spectrum": "Its linear attention",
    "shifts": "Errors on other prompts",
}

# Columns of the page's table.
EXPLANATION = (
    "The theory is the exact error of an algorithm; its z checks the measurement. Model - it: "
    "error of the model minus that of the algorithm on the same prompts. Unexplained: mean "
    "squared distance of their answers over the mean square of the model's. Factor: multiple of "
    "the algorithm that is nearest to the model. Cosines: of the derivatives by the query and by "
    "the labels of the context."
)


@dataclass(frozen=True, eq=False, repr=False)
class AlgorithmReport(Result):
    """What a model does in context; ``print`` shows the verdict and a table.

    Attributes
    ----------
    problem : Problem
        Law of the prompts.
    test_prompts : int
        Number of fresh prompts.
    verdict : Identification
        Which algorithm it is.
    fresh : Ladder
        Its error on fresh tasks beside those of algorithms.
    pretraining : Ladder or None
        The same on the pretraining tasks, where the problem has them.
    sensitivities : mapping of str to mapping of str to Estimate
        For "query" and "labels", cosine of the derivatives of the model and of each algorithm.
    linear : LinearPart or None
        The linear attention that is nearest; None for too few prompts.
    use : ContextUse or None
        How it uses its context, by eigenvalues and by positions; None for too few prompts.
    diagnosis : dict of str to Estimate
        Dependence on the order of the context, and nonlinearity in the labels (`diagnose`).
    shifts : tuple of Ladder
        Errors on prompts of other laws.
    positions : PositionErrors or None
        Errors by the number of examples, for models that answer at every position.
    seed : str
        Of the prompts.
    """

    problem: Problem
    test_prompts: int
    verdict: Identification
    fresh: Ladder
    pretraining: Ladder | None = None
    sensitivities: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    linear: LinearPart | None = None
    use: ContextUse | None = None
    diagnosis: Mapping[str, Estimate] = field(default_factory=dict)
    shifts: tuple[Ladder, ...] = ()
    positions: PositionErrors | None = None
    seed: str = ""
    dims = ("algorithm",)

    @property
    def warnings(self) -> list[str]:
        """What no model can do, and so must be wrong with the answers."""
        rows = [] if self.positions is None else self.positions.impossible
        return [impossible_sentence(rows)] if rows else []

    @property
    def ladders(self) -> tuple[Ladder, ...]:
        """All of them: fresh tasks, pretraining tasks, shifts."""
        return (self.fresh, *filter(None, (self.pretraining,)), *self.shifts)

    def columns(self) -> dict[str, Any]:
        """The ladder on fresh tasks and the likeness to each algorithm."""
        names = [rung.name for rung in self.fresh.rungs]
        likenesses = [self.verdict[name] for name in names]
        columns = self.fresh.columns()
        for name in ("unexplained", "factor", "factor_z"):
            columns[name] = tuple(getattr(likeness, name) for likeness in likenesses)
        for moved, cosines in self.sensitivities.items():
            columns[f"cosine_{moved}"] = tuple(cosines[name] for name in names)
        return columns

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain dicts, lists, numbers and text, with the versions of the code."""
        return super().to_dict() | {"versions": versions()}

    def to_xarray(self) -> Dataset:
        """Data set over algorithms and sections of prompts.

        ``error`` and ``difference`` (of the model to the algorithm) have the dimensions section
        and algorithm, ``model_error`` section; standard errors stand beside them as
        ``X_standard_error``.  Likenesses have the dimension algorithm, Gamma (row, column),
        variables whose name begins with position (position_algorithm, examples).
        """
        whole = super().to_xarray()
        whole = whole.drop_vars(BY_SECTION).merge(self._ladder_arrays(whole.algorithm))
        whole = whole.assign_coords(section=[ladder.section for ladder in self.ladders])
        for name, values in self._further_arrays():
            whole[name] = values
        if self.positions is not None:
            arrays = self.positions.to_xarray()
            prefixed = {name: f"position_{name}" for name in (*arrays.data_vars, "algorithm")}
            whole = whole.merge(arrays.rename(prefixed))
        return whole.assign_attrs(
            kind=self.verdict.kind,
            verdict=self.verdict.sentence,
            test_prompts=self.test_prompts,
            seed=self.seed,
        )

    def _ladder_arrays(self, algorithms: DataArray) -> Dataset:
        """All ladders, with these algorithms in their order."""
        xarray = import_xarray()
        names = [ladder.section for ladder in self.ladders]
        arrays = [ladder.to_xarray()[BY_SECTION] for ladder in self.ladders]
        parts = [part.reindex(algorithm=algorithms) for part in arrays]
        return xarray.concat(parts, xarray.DataArray(names, dims="section", name="section"))

    def _further_arrays(self) -> Iterator[tuple[str, tuple[Any, Any]]]:
        """Yield errors of the model, and its linear attention, by name with their dimensions."""
        for name, suffix in (("mean", ""), ("standard_error", "_standard_error")):
            errors = [getattr(ladder.error, name) for ladder in self.ladders]
            yield f"model_error{suffix}", ("section", errors)
            if self.linear is not None:
                eigenvalues = [getattr(eigenvalue, name) for eigenvalue in self.linear.eigenvalues]
                yield f"eigenvalue{suffix}", ("row", eigenvalues)
        if self.linear is not None:
            yield "gamma", (("row", "column"), self.linear.gamma)

    @property
    def figures(self) -> list[str]:
        """Names of the figures that there are, as `draw` takes them."""
        return [name for name in TITLES if name in self._drawings()]

    def _drawings(self) -> dict[str, Callable[[Axes], None]]:
        """What draws each figure that there is."""
        noise = self.problem.mean_noise_variance
        verdict = self.verdict
        drawings: dict[str, Callable[[Axes], None]] = {
            "ladder": partial(draw_ladder, ladder=self.fresh, noise=noise),
            "likeness": partial(draw_likeness, identification=verdict),
        }
        if self.positions is not None:
            drawings["positions"] = self.positions.draw
        if self.use is not None:
            drawings["filter"] = partial(self.use.draw, fits=verdict.fits)
        if self.use is not None and self.use.weights:
            drawings["recency"] = partial(
                self.use.draw_positions, fits=verdict.fits, problem=self.problem
            )
        if self.linear is not None:
            drawings["spectrum"] = partial(draw_spectrum, linear=self.linear)
        if self.shifts:
            ladders = (self.fresh, *self.shifts)
            nearest = verdict.likenesses[:3]
            names = [likeness.name for likeness in nearest]
            drawings["shifts"] = partial(draw_shifts, ladders=ladders, nearest=names)
        return drawings

    def draw(self, ax: Axes, *, figure: str = "ladder") -> None:
        """Draw one of the figures.

        Parameters
        ----------
        ax : Axes
            Where to draw.
        figure : {"ladder", "likeness", "positions", "filter", "recency", "spectrum", "shifts"}
            Errors of the algorithms and that of the model across them; shares of the model's
            answers that the algorithms leave unexplained; errors against the number of examples;
            spectral filter beside those of fitted algorithms; weight of each position;
            eigenvalues of the linear attention in the model beside those of the best; errors on
            prompts of other laws.
        """
        if figure not in self.figures:
            hint = {
                "positions": "; positions are there with form='positions'",
                "spectrum": "; the spectrum takes test_prompts >= 10 d (d + 1)",
            }.get(figure, "")
            known = ", ".join(self.figures)
            raise ValueError(f"figure must be one of {known}, got {figure!r}{hint}")
        self._drawings()[figure](ax)

    def write(
        self,
        path: str | os.PathLike,
        *,
        style: str = "screen",
        parameters: Mapping[str, Any] | None = None,
        **line: Any,
    ) -> None:
        """Write a file, or without an ending a folder: report.html, report.json and the figures.

        Parameters are those of `Result.write`.  The figures say what the problem was.
        """
        path = Path(path)
        stated = vars(self.problem) | {"test_prompts": self.test_prompts}
        stated |= {"seed": self.seed, "style": style, **(parameters or {})}
        stated = {name: value for name, value in stated.items() if value is not None}
        if path.suffix == ".html":
            write_text(path, self.page(style))
        elif path.suffix:
            super().write(path, style=style, parameters=stated, **line)
        else:
            path.mkdir(parents=True, exist_ok=True)
            write_text(path / "report.html", self.page(style))
            write_text(path / "report.json", json_text(self.to_dict()))
            for name in self.figures:
                options = {"figure": name, **stated}
                super().write(path / f"{name}.png", style=style, parameters=options, figure=name)

    def page(self, style: str = "screen") -> str:
        """Page that needs no other file: verdict, figures in a style, tables."""
        text = html.escape
        figures = {name: self._embedded(name, style) for name in self.figures}
        numbers = ", ".join(f"{name} {value}" for name, value in versions().items())
        rungs = self.fresh.rungs
        words = [[rung.name, rung.description] for rung in rungs]
        parts = [
            f"<p class='small'>iclimit probe: which of {len(rungs)} algorithms does the model "
            f"perform?  {text(self._setting())}</p>",
            *self._headings(),
            f"<p class='lead'>{text(self.verdict.sentence)}</p>",
            _pair(figures.pop(name) for name in ("likeness", "ladder") if name in figures),
            f"<ul>{''.join(f'<li>{text(line)}</li>' for line in self.sentences())}</ul>",
            "<h2>Algorithm by algorithm</h2>",
            self._table_by_likeness(),
            f"<p class='small'>{EXPLANATION}</p>",
            _folded("The algorithms", escaped_table(words, heading=False)),
            "<h2>What it does with a context</h2>",
            _pair(figures.values()),
            "<h2>Further tables</h2>",
            *(_folded(title, escaped_table(cells)) for title, cells in self._tables()),
            f"<p class='small'>{text(f'Seed {self.seed}. {numbers}')}</p>",
        ]
        return document("Which algorithm is it?", "\n".join(parts), heading=False)

    def _headings(self) -> Iterator[str]:
        """Yield what the page says first: what is impossible, else which algorithm it is."""
        level = "h1"
        if self.warnings:
            yield "<h1>Errors below the least possible ones</h1>"
            yield from (f"<p class='lead'>{html.escape(line)}</p>" for line in self.warnings)
            level = "h2"
        yield f"<{level}>{html.escape(self.verdict.headline)}</{level}>"

    def _table_by_likeness(self) -> str:
        """Table of the page: the nearest algorithm first, those of the verdict in bold."""
        heading, *lines = self.cells()
        lines.sort(key=lambda line: self.verdict[line[0]].unexplained.mean)
        rows = [html_row(*heading, tag="th")]
        for name, *numbers in lines:
            shown = html.escape(name.replace("_", " "))
            if name in self.verdict.names:
                shown = f"<b>{shown}</b>"
            rows.append(html_row(shown, *map(html.escape, numbers)))
        return html_table(rows)

    def _tables(self) -> Iterator[tuple[str, list[list[str]]]]:
        """Yield tables that the page folds, with their titles."""
        if self.verdict.fits:
            yield "The nearest member of each family", fit_cells(self.verdict.fits)
        if self.shifts:
            yield "Errors on other prompts", self._shift_cells()
        for ladder in self.ladders[1:]:
            yield ladder.description, ladder_cells(ladder)

    def _embedded(self, name: str, style: str) -> str:
        with house_style(style):
            figure = new_figure()
            ax = panels(figure, 1, width=5.2, height=3.8)[0]
            self.draw(ax, figure=name)
            image = embedded(picture(figure, ".png"), TITLES[name])
            return f"<figure>{image}<figcaption>{TITLES[name]}</figcaption></figure>"

    def cells(self) -> list[list[str]]:
        """The ladder as lines of text, with headings."""
        columns = self.columns()
        names = [name for name in HEADINGS if name in columns]
        finite = [rung.finite for rung in self.fresh.rungs]
        texts = [
            [
                _cell(name, value) if mean else _WITHOUT_MEAN.get(name, "")
                for value, mean in zip(columns[name], finite, strict=True)
            ]
            for name in names
        ]
        texts[names.index("algorithm")] = list(columns["algorithm"])
        return [[HEADINGS[name] for name in names], *map(list, zip(*texts, strict=True))]

    def __str__(self) -> str:
        heading, *lines = self.cells()
        table = [heading, ["model", measured(self.fresh.error)], *lines]
        parts = [*self.warnings, self.verdict.sentence, self._setting()]
        parts.append("\n".join(aligned(table, "<>")))
        parts += self.sentences()
        if self.shifts:
            parts.append("\n".join(aligned(self._shift_cells(), "<>")))
        return "\n\n".join(parts)

    def _setting(self) -> str:
        """The problem and the number of prompts."""
        problem = self.problem
        laws = f"{problem.input_law} inputs, noise variance {problem.mean_noise_variance:g}"
        if not problem.has_linear_labels:
            laws += f", labels by the link {link_text(problem.link)}, {problem.flips:.0%} flipped"
        prompts = f"{self.test_prompts:,} fresh prompts"
        return f"{prompts}, d = {problem.dim}, N = {problem.context}, {laws}."

    def sentences(self) -> list[str]:
        """What else is known, a line for each subject."""
        lines = []
        mixture = self.verdict.mixture
        if len(mixture.terms) > 1 and not self.verdict.within:
            rest = percent(mixture.unexplained)
            alternatives = ", ".join(mixture.alternatives)
            others = f"; as near: {alternatives}" if alternatives else ""
            lines.append(f"Best mixture: {mixture}, which leaves {rest} unexplained{others}.")
        if (pretraining := self.pretraining) is not None:
            near = pretraining.nearest
            lines.append(
                f"Pretraining tasks: error {measured(pretraining.error)}, on fresh tasks "
                f"{measured(self.fresh.error)}; the nearest algorithm there is {near.name} with "
                f"{measured(near.error)} (z = {_shown_z(near.z)})."
            )
        if self.use is not None:
            lines.append(self.use.sentence)
        if self.linear is not None:
            lines.append(self.linear.sentence)
        if checks := self.diagnosis:
            lines.append(
                f"Order of the context: {percent(checks['order'])}; nonlinear in the labels: "
                f"{percent(checks['nonlinearity'])}; answers to labels 0: "
                f"{percent(checks['constant'])}."
            )
        return lines

    def _shift_cells(self) -> list[list[str]]:
        """Errors on prompts of other laws, beside the best and the nearest algorithm."""
        heading = "other prompts", "model", "best algorithm", "error", "nearest", "model - it", "z"
        lines = [list(heading)]
        for ladder in self.shifts:
            best = ladder.rungs[-1]
            near = ladder.nearest
            algorithms = [best.name, measured(best.error), near.name, measured(near.difference)]
            errors = [ladder.description, measured(ladder.error), *algorithms]
            lines.append([*errors, _shown_z(near.z)])
        return lines


def ladder_cells(ladder: Ladder) -> list[list[str]]:
    """All algorithms on one section of prompts, as lines of text."""
    lines = [["algorithm", "error", "model - it", "z"], ["model", measured(ladder.error), "", ""]]
    return lines + [
        [rung.name, measured(rung.error), measured(rung.difference), _shown_z(rung.z)]
        if rung.finite
        else [rung.name, "infinite", "", ""]
        for rung in ladder.rungs
    ]


def fit_cells(fits: Sequence[Fit]) -> list[list[str]]:
    """Fitted families, the nearest first, as lines of text."""
    lines = [["family", "nearest member", "unexplained"]]
    return lines + [[fit.family, fit.title, percent(fit.unexplained)] for fit in fits]


# Cells of an algorithm whose error has no mean; the others are empty.
_WITHOUT_MEAN = {"error": "infinite", "unexplained": "infinite"}


def _cell(name: str, value: Estimate | str | float) -> str:
    if isinstance(value, Estimate):
        if math.isnan(value.mean):
            return ""
        return percent(value) if name == "unexplained" else measured(value)
    return value if isinstance(value, str) else "" if math.isnan(value) else _shown_z(value)


def _shown_z(z: float) -> str:
    """A z as text; a difference without any scatter has none."""
    return z_text(z) if math.isfinite(z) else "exact"


def _pair(figures: Iterable[str]) -> str:
    return f"<div class='pair'>{''.join(figures)}</div>"


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{html.escape(title)}</summary>{content}</details>"
