"""Reports of a validation: terminal table, self-contained HTML, JSON, figures."""

import base64
import html
import json
import math
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from iclimit.files import replacing
from iclimit.runs.code_version import versions
from iclimit.validation.claim import Comparison, Verdict
from iclimit.validation.drawing import house_style, new_figure, save_picture
from iclimit.validation.run_claims import ClaimResult, ValidationRun

_NUMBERS = ("theory", "estimate", "standard_error", "allowance")
"""Numbers of a comparison that reports give."""


def write_report(run: ValidationRun, folder: Path) -> Path:
    """Write report.html, results.json and a PNG and a PDF per claim.

    Parameters
    ----------
    run : ValidationRun
        Results, whole or interrupted.
    folder : Path
        Created if needed; files of an earlier report are overwritten.

    Returns
    -------
    Path
        Of report.html.
    """
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        result.claim.name: save_figure(result.verdict, folder / f"{result.claim.name}.png")
        for result in run.results
        if result.verdict is not None
    }
    path = folder / "report.html"
    texts = {
        folder / "results.json": json.dumps(as_json(run), indent=1) + "\n",
        path: _html(run, pictures),
    }
    for file, text in texts.items():
        with replacing(file) as partial:
            partial.write_text(text, encoding="utf-8")
    return path


def save_figure(verdict: Verdict, path: Path) -> bytes:
    """Save a claim's figure as PNG and PDF beside each other; return the PNG."""
    with house_style():
        figure = new_figure()
        verdict.draw(figure)
        picture = save_picture(figure, path)
        figure.set_layout_engine("none")  # the same layout, not found again
        save_picture(figure, path.with_suffix(".pdf"))
    return picture


def as_json(run: ValidationRun) -> dict[str, Any]:
    """Machine-readable results; infinite numbers as strings, so that it is strict JSON."""
    names = ("holds", "interrupted", "missing", "preset", "backend", "cells")
    return {
        **{name: getattr(run, name) for name in names},
        "seed": run.rng,
        "seconds": round(run.seconds, 2),
        "cells_on_record": run.recalled,
        "versions": versions(),
        "claims": [_claim_json(result) for result in run.results],
    }


def _claim_json(result: ClaimResult) -> dict[str, Any]:
    names = ("name", "title", "source", "statement")
    entry = {name: getattr(result.claim, name) for name in names}
    entry |= {"holds": result.holds, "cpu_seconds": round(result.seconds, 2)}
    if result.verdict is None:
        return entry | {"error": result.error}
    return entry | {
        "threshold": result.verdict.threshold,
        "comparisons": [_comparison_json(each) for each in result.verdict.comparisons],
        "notes": list(result.verdict.notes),
    }


def _comparison_json(comparison: Comparison) -> dict[str, Any]:
    numbers = {
        name: float(value) if math.isfinite(value) else str(value)
        for name in (*_NUMBERS, "degrees", "z")
        for value in [getattr(comparison, name)]
    }
    return {"label": comparison.label, **numbers, "upper_bound": comparison.upper_bound}


def table(run: ValidationRun) -> str:
    """Table for the terminal: a line per claim, and the comparisons of claims that fail."""
    width = max((len(result.claim.name) for result in run.results), default=5)
    lines = [f"{'claim':{width}}  holds  compared  largest |z|  allowed  worst comparison"]
    for result in run.results:
        name, verdict = result.claim.name, result.verdict
        if verdict is None:
            lines.append(f"{name:{width}}  ERROR  {result.error}")
            continue
        worst = verdict.worst
        lines.append(
            f"{name:{width}}  {'yes' if verdict.holds else 'NO':5}  {len(verdict.comparisons):8}  "
            f"{abs(worst.z):11.2f}  {verdict.threshold:7.2f}  {worst.label}"
        )
        if not verdict.holds:
            lines += [
                f"{'':{width}}    {c.label}: theory {c.theory:.5g}, found {c.estimate:.5g} "
                f"+- {c.standard_error:.2g}, z = {c.z:.1f}"
                for c in verdict.comparisons
                if abs(c.z) > verdict.threshold or math.isnan(c.z)
            ]
    lines += [f"{name:{width}}  not finished" for name in run.missing]
    return "\n".join(lines)


def _html(run: ValidationRun, pictures: dict[str, bytes]) -> str:
    page = Template((resources.files(__package__) / "report.html").read_text(encoding="utf-8"))
    outcome = "every claim holds" if run.holds else "not every claim holds"
    return page.substitute(
        outcome=f"interrupted: {outcome}" if run.interrupted else outcome,
        preset=run.preset,
        seed=run.rng,
        backend=run.backend,
        seconds=f"{run.seconds:.0f}",
        versions=html.escape(", ".join(f"{name} {value}" for name, value in versions().items())),
        summary=_summary(run),
        sections="\n".join(_section(each, pictures.get(each.claim.name)) for each in run.results),
    )


def _row(*entries: object, tag: str = "td", style: str = "") -> str:
    cells = "".join(f"<{tag}>{entry}</{tag}>" for entry in entries)
    return f"<tr class='{style}'>{cells}</tr>"


def _summary(run: ValidationRun) -> str:
    heads = ("Claim", "holds", "compared", "largest |z|", "allowed |z|", "CPU s")
    rows = [_row(*heads, tag="th")]
    for result in run.results:
        numbers: tuple[object, ...] = ("", "", "")
        if (verdict := result.verdict) is not None:
            worst, limit = f"{abs(verdict.worst.z):.2f}", f"{verdict.threshold:.2f}"
            numbers = len(verdict.comparisons), worst, limit
        link = f"<a href='#{result.claim.name}'>{html.escape(result.claim.title)}</a>"
        answer = "yes" if result.holds else "no"
        holds = f"<span class='{answer}'>{answer}</span>"
        rows.append(_row(link, holds, *numbers, f"{result.seconds:.1f}"))
    rows += [_row(name, "<span class='no'>not finished</span>") for name in run.missing]
    return "<table>" + "\n".join(rows) + "</table>"


def _section(result: ClaimResult, picture: bytes | None) -> str:
    claim, verdict, text = result.claim, result.verdict, html.escape
    head = (
        f"<h2 id='{claim.name}'>{text(claim.title)}</h2><p>{text(claim.statement)}</p>"
        f"<p class='small'>{text(claim.name)}. {text(claim.source)}.</p>"
    )
    if verdict is None or picture is None:
        return head + f"<p class='no'>{text(result.error)}</p>"
    encoded = base64.b64encode(picture).decode()
    image = f"<img alt='{text(claim.title)}' src='data:image/png;base64,{encoded}'>"
    notes = "".join(f"<li>{text(note)}</li>" for note in verdict.notes)
    rows = [_row("Quantity", *(name.replace("_", " ") for name in _NUMBERS), "z", tag="th")]
    for each in verdict.comparisons:
        numbers = (f"{getattr(each, name):.5g}" for name in _NUMBERS)
        far = "" if abs(each.z) <= verdict.threshold else "far"
        rows.append(_row(text(each.label), *numbers, f"{each.z:.2f}", style=far))
    summary = f"<summary>{len(verdict.comparisons)} comparisons</summary>"
    table = f"<table>{''.join(rows)}</table>"
    return f"{head}{image}<ul class='small'>{notes}</ul><details>{summary}{table}</details>"
