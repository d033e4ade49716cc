"""A report on a model as files: a page that needs no other file, JSON, and its figures."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from iclimit.drawing import (
    COLOURS,
    Axes,
    draw_estimates,
    finish,
    house_style,
    log_scale,
    new_figure,
    panels,
    save_picture,
)
from iclimit.html_parts import document, embedded
from iclimit.results import Estimate
from iclimit.runs.code_version import versions
from iclimit.tables import escaped_table, html_row, html_table, json_text, write_text
from iclimit.validation.yours.models.report import (
    ladder_cells,
    sentences,
    setting_line,
    shift_cells,
    table_cells,
)

if TYPE_CHECKING:
    from iclimit.validation.yours.models.report import AlgorithmReport


MODEL, BASELINE, THEORY = COLOURS[1], COLOURS[0], "0.45"
"""Colours of the model, of the algorithms and of their exact errors."""

RANGE = 30.0
"""Errors on other prompts are drawn up to so many times those of the model: some diverge."""

LEAST_SHARE = 1e-6
"""Shares below this are drawn there: equal answers have none that a logarithm could show."""


def draw_ladder(report: AlgorithmReport, ax: Axes) -> None:
    """Draw errors of the algorithms, largest on top, and that of the model across them."""
    rungs, error = report.fresh.rungs, report.fresh.error
    heights = np.arange(len(rungs))[::-1]
    for height, rung in zip(heights, rungs, strict=True):
        _point(ax, rung.error, height, BASELINE)
        if rung.theory is not None:
            ax.plot([rung.theory] * 2, [height - 0.3, height + 0.3], color=THEORY, linewidth=1.2)
    band = error.mean - error.standard_error, error.mean + error.standard_error
    ax.axvspan(*band, color=MODEL, alpha=0.2, linewidth=0)
    ax.axvline(error.mean, color=MODEL, label="model", zorder=1)
    ax.plot([], [], "o", color=BASELINE, markersize=4, label="algorithm")
    if any(rung.theory is not None for rung in rungs):
        ax.plot([], [], "|", color=THEORY, markersize=9, label="its exact error")
    if report.problem.mean_noise_variance:
        noise = report.problem.mean_noise_variance
        ax.axvline(noise, color="0.7", linestyle=":", label="label noise")
    ax.set_yticks(heights, [rung.name.replace("_", " ") for rung in rungs])
    finish(ax, "mean squared error, fresh tasks", "", legend="")
    largest, least = rungs[0].error.mean, min(rungs[-1].error.mean, error.mean)
    if least > 0 and largest > 5 * least:
        log_scale(ax, "x")


def draw_likeness(report: AlgorithmReport, ax: Axes) -> None:
    """Draw the share that each algorithm leaves unexplained, the nearest at the bottom."""
    found = report.identification
    shown = found.likenesses[::-1]
    heights = np.arange(len(shown))[::-1]
    for height, each in zip(heights, shown, strict=True):
        share = each.unexplained
        colour = MODEL if each.name in found.names else BASELINE
        if share.mean < LEAST_SHARE:
            ax.plot(LEAST_SHARE, height, "<", color=colour)
        else:
            _point(ax, share, height, colour)
    ax.axvline(found.tolerance, color=THEORY, linestyle="--", label="tolerance")
    ax.set_yticks(heights, [each.label.replace("_", " ") for each in shown])
    finish(ax, "share of the answers left unexplained", "", legend="")
    ax.set_xscale("log")


def draw_shifts(report: AlgorithmReport, ax: Axes) -> None:
    """Draw errors of the model and of the nearest algorithms on prompts of other laws.

    Errors beyond `RANGE` times those of the model are drawn as triangles at the edge.
    """
    ladders = (report.fresh, *report.shifts)
    heights = np.arange(len(ladders))[::-1]
    of_model = [each.error.mean for each in ladders]
    limits = min(of_model) / RANGE, max(of_model) * RANGE
    nearest = [each.name for each in report.identification.likenesses[:3]]
    for number, name in enumerate(nearest):
        errors = [each[name].error for each in ladders]
        inside = [limits[0] < each.mean < limits[1] for each in errors]
        lower, colour = heights - 0.18 * (number + 1), COLOURS[(0, 2, 3)[number]]
        kept = [each for each, shown in zip(errors, inside, strict=True) if shown]
        _points(ax, kept, lower[inside], colour, name.replace("_", " "))
        for height, each, shown in zip(lower, errors, inside, strict=True):
            if not shown:
                low = each.mean < limits[1]
                ax.plot(limits[not low], height, "<" if low else ">", color=colour, markersize=4)
    _points(ax, [each.error for each in ladders], heights, MODEL, "model")
    ax.set_yticks(heights, [fill(each.description, 20) for each in ladders])
    finish(ax, "mean squared error", "", legend="", log="x", beside=True)


def draw_spectrum(report: AlgorithmReport, ax: Axes) -> None:
    """Draw eigenvalues of the nearest linear attention beside those of the best one."""
    found = report.linear
    if found is None:
        raise ValueError(
            f"test_prompts must be >= 10 d (d + 1) for a spectrum, got {report.test_prompts}"
        )
    numbers = np.arange(1, len(found.eigenvalues) + 1)
    if found.theory is not None:
        ax.plot(numbers, found.theory, color=THEORY, label="best linear attention")
        if found.sampling_radius:
            low, high = found.theory - found.sampling_radius, found.theory + found.sampling_radius
            words = "its spread in a fit to so many prompts"
            ax.fill_between(numbers, low, high, color=THEORY, alpha=0.2, linewidth=0, label=words)
    draw_estimates(ax, numbers, found.eigenvalues, MODEL, label="in the model")
    ax.locator_params(axis="x", integer=True)
    ax.set_ylim(bottom=min(0.0, found.eigenvalues[0].mean))
    finish(ax, "number", r"eigenvalue of $\Gamma$", legend="")


def draw_positions(report: AlgorithmReport, ax: Axes) -> None:
    """Draw errors against the number of examples in the context."""
    if report.positions is None:
        raise ValueError("positions must be asked for with form='positions', got form='query'")
    report.positions.draw(ax)


FIGURES: dict[str, Callable[[AlgorithmReport, Axes], None]] = {
    "ladder": draw_ladder,
    "likeness": draw_likeness,
    "shifts": draw_shifts,
    "spectrum": draw_spectrum,
    "positions": draw_positions,
}
"""Figures by name."""


def _point(ax: Axes, estimate: Estimate, height: float, colour: str) -> None:
    _points(ax, [estimate], [height], colour, None)


def _points(
    ax: Axes,
    estimates: list[Estimate],
    heights: np.ndarray | list[float],
    colour: str,
    label: str | None,
) -> None:
    means = [each.mean for each in estimates]
    bars = [each.standard_error for each in estimates]
    style: dict[str, Any] = {"fmt": "o", "markersize": 4, "capsize": 2, "linewidth": 1.2}
    ax.errorbar(means, heights, xerr=bars, color=colour, label=label, **style)


TITLES = {
    "ladder": "Errors on fresh tasks",
    "likeness": "Share of the answers left unexplained",
    "positions": "Errors against the number of examples",
    "spectrum": "Its linear attention",
    "shifts": "Errors on other prompts",
}
"""Figures and their titles."""


def write_probe_report(
    report: AlgorithmReport,
    folder: str | os.PathLike,
    style: str = "screen",
    parameters: Mapping[str, Any] | None = None,
) -> Path:
    """Write report.html, report.json and the figures as PNG.

    Parameters
    ----------
    report : AlgorithmReport
        What a probe found.
    folder : path
        Created if needed; files of an earlier report are overwritten.
    style : {"screen", "paper", "paper-wide", "talk"}
        Style of the figures.
    parameters : mapping, optional
        What else their metadata say, such as the command.

    Returns
    -------
    Path
        Of report.html.
    """
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    given = {**vars(report.problem), "test_prompts": report.test_prompts, "seed": report.seed}
    stated = {name: value for name, value in given.items() if value is not None}
    stated |= {"style": style, **(parameters or {})}
    pictures = {name: _save(report, name, place, style, stated) for name in _figures(report)}
    path = place / "report.html"
    texts = {
        place / "report.json": json_text(report.to_dict()),
        path: probe_page(report, pictures),
    }
    for file, text in texts.items():
        write_text(file, text)
    return path


def probe_page(report: AlgorithmReport, pictures: dict[str, bytes]) -> str:
    """The whole page: verdict, figures, tables."""
    text = html.escape
    setting = f"{setting_line(report)} Seed {report.seed}. {_versions()}"
    shown = {name: embedded(each, TITLES[name]) for name, each in pictures.items()}
    parts = [
        f"<p><strong>{text(report.verdict.sentence)}</strong></p>",
        f"<p class='small'>{text(setting)}</p>",
        *(f"<p>{text(line)}</p>" for line in sentences(report)),
        f"<h2>{TITLES['ladder']}</h2>",
        shown["ladder"],
        escaped_table(table_cells(report)),
        "<p class='small'>The theory is the exact error of an algorithm; its z checks the "
        "measurement. Model - it: error of the model minus that of the algorithm on the same "
        "prompts. Unexplained: mean squared distance of their answers over the mean square of "
        "the model's. Factor: multiple of the algorithm that is nearest to the model. Cosines: "
        "of the derivatives by the query and by the labels of the context.</p>",
        _descriptions(report),
        f"<h2>{TITLES['likeness']}</h2>",
        shown["likeness"],
    ]
    if report.positions is not None:
        parts += [f"<h2>{TITLES['positions']}</h2>", shown["positions"]]
    if report.linear is not None:
        parts += [f"<h2>{TITLES['spectrum']}</h2>", shown["spectrum"]]
    if report.shifts:
        parts += [f"<h2>{TITLES['shifts']}</h2>", shown["shifts"]]
        parts.append(escaped_table(shift_cells(report)))
    for ladder in report.ladders[1:]:
        summary = f"<summary>{text(ladder.description)}</summary>"
        parts.append(f"<details>{summary}{escaped_table(ladder_cells(ladder))}</details>")
    return document("Which algorithm is it?", "\n".join(parts))


def _figures(report: AlgorithmReport) -> Iterator[str]:
    yield from ("ladder", "likeness")
    if report.positions is not None:
        yield "positions"
    if report.linear is not None:
        yield "spectrum"
    if report.shifts:
        yield "shifts"


def _save(
    report: AlgorithmReport, name: str, folder: Path, style: str, stated: Mapping[str, Any]
) -> bytes:
    with house_style(style):
        figure = new_figure()
        (ax,) = panels(figure, 1, width=7.2 if name == "positions" else 6.4, height=4.2)
        report.draw(ax, figure=name)
        return save_picture(figure, folder / f"{name}.png", {"figure": name, **stated})


def _descriptions(report: AlgorithmReport) -> str:
    rows = [
        html_row(html.escape(rung.name), html.escape(rung.description))
        for rung in report.fresh.rungs
    ]
    table = html_table(rows, "words")
    return f"<details><summary>The algorithms</summary>{table}</details>"


def _versions() -> str:
    return ", ".join(f"{name} {value}" for name, value in versions().items())
