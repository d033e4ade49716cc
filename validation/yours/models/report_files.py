"""A report on a model as files: a page that needs no other file, JSON, and its figures."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iclimit.drawing import house_style, new_figure, panels, save_picture
from iclimit.files import replacing
from iclimit.html_parts import document, embedded, table_row, text_table
from iclimit.runs.code_version import versions
from iclimit.validation.yours.models.report_text import (
    ladder_cells,
    sentences,
    setting_line,
    shift_cells,
    table_cells,
)

if TYPE_CHECKING:
    from iclimit.validation.yours.models.algorithm_report import AlgorithmReport

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
        place / "report.json": json.dumps(report.as_json(), indent=1) + "\n",
        path: probe_page(report, pictures),
    }
    for file, text in texts.items():
        with replacing(file) as partial:
            partial.write_text(text, encoding="utf-8")
    return path


def probe_page(report: AlgorithmReport, pictures: dict[str, bytes]) -> str:
    """The whole page: verdict, figures, tables."""
    text = html.escape
    setting = f"{setting_line(report)} Seed {report.seed}. {_versions()}"
    shown = {name: embedded(each, TITLES[name]) for name, each in pictures.items()}
    parts = [
        f"<p><strong>{text(report.verdict)}</strong></p>",
        f"<p class='small'>{text(setting)}</p>",
        *(f"<p>{text(line)}</p>" for line in sentences(report)),
        f"<h2>{TITLES['ladder']}</h2>",
        shown["ladder"],
        text_table(table_cells(report)),
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
        parts += [f"<h2>{TITLES['shifts']}</h2>", shown["shifts"], text_table(shift_cells(report))]
    for ladder in report.ladders[1:]:
        summary = f"<summary>{text(ladder.description)}</summary>"
        parts.append(f"<details>{summary}{text_table(ladder_cells(ladder))}</details>")
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
    draw = {
        "ladder": report.plot,
        "likeness": report.plot_likeness,
        "positions": report.plot_positions,
        "spectrum": report.plot_spectrum,
        "shifts": report.plot_shifts,
    }[name]
    with house_style(style):
        figure = new_figure()
        draw(panels(figure, 1, width=7.2 if name == "positions" else 6.4, height=4.2)[0])
        return save_picture(figure, folder / f"{name}.png", {"figure": name, **stated})


def _descriptions(report: AlgorithmReport) -> str:
    rows = [
        table_row(html.escape(rung.name), html.escape(rung.description))
        for rung in report.fresh.rungs
    ]
    table = f"<table class='words'>{''.join(rows)}</table>"
    return f"<details><summary>The algorithms</summary>{table}</details>"


def _versions() -> str:
    return ", ".join(f"{name} {value}" for name, value in versions().items())
