"""Reports of a validation: terminal table, self-contained HTML, JSON, figures."""

from __future__ import annotations

import base64
import html
import io
import json
import math
from pathlib import Path
from typing import Any

from iclimit.runs.versions import versions
from iclimit.validation.claim import Comparison, Verdict
from iclimit.validation.drawing import house_style, new_figure
from iclimit.validation.run_claims import ClaimResult, ValidationRun


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
    pictures = {}
    for result in run.results:
        if result.verdict is not None:
            pictures[result.claim.name] = save_figure(
                result.verdict, folder / f"{result.claim.name}.png"
            )
    (folder / "results.json").write_text(json.dumps(as_json(run), indent=1) + "\n")
    path = folder / "report.html"
    path.write_text(_html(run, pictures), encoding="utf-8")
    return path


def save_figure(verdict: Verdict, path: Path) -> bytes:
    """Save a claim's figure as PNG and PDF beside each other; return the PNG."""
    with house_style():
        figure = new_figure()
        verdict.draw(figure)
        picture = io.BytesIO()
        figure.savefig(picture, format="png")
        figure.set_layout_engine("none")  # the same layout, not found again
        figure.savefig(path.with_suffix(".pdf"))
    path.write_bytes(picture.getvalue())
    return picture.getvalue()


def as_json(run: ValidationRun) -> dict[str, Any]:
    """Machine-readable results; infinite numbers as strings, so that it is strict JSON."""
    return {
        "holds": run.holds,
        "interrupted": run.interrupted,
        "missing": run.missing,
        "preset": run.preset,
        "seed": run.seed,
        "backend": run.backend,
        "seconds": round(run.seconds, 2),
        "cells": run.cells,
        "cells_on_record": run.recalled,
        "versions": versions(),
        "claims": [_claim_json(result) for result in run.results],
    }


def _claim_json(result: ClaimResult) -> dict[str, Any]:
    claim, verdict = result.claim, result.verdict
    entry: dict[str, Any] = {
        "name": claim.name,
        "title": claim.title,
        "source": claim.source,
        "statement": claim.statement,
        "holds": result.holds,
        "cpu_seconds": round(result.seconds, 2),
    }
    if verdict is None:
        return entry | {"error": result.error}
    comparisons = [
        {
            "label": c.label,
            "theory": _number(c.theory),
            "estimate": _number(c.estimate),
            "standard_error": _number(c.standard_error),
            "allowance": _number(c.allowance),
            "z": _number(c.z),
        }
        for c in verdict.comparisons
    ]
    notes = list(verdict.notes)
    return entry | {"threshold": verdict.threshold, "comparisons": comparisons, "notes": notes}


def _number(value: float) -> float | str:
    value = float(value)
    return value if math.isfinite(value) else str(value)


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


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
       color: #222; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.5rem; }
table { border-collapse: collapse; font-size: 0.85rem; margin: 0.6rem 0; }
td, th { padding: 0.15rem 0.7rem; text-align: right; border-bottom: 1px solid #e4e4e4; }
td:first-child, th:first-child { text-align: left; }
.yes { color: #00684a; font-weight: 600; } .no { color: #b00020; font-weight: 600; }
.far { background: #fbe3e6; } img { max-width: 100%; } .small { color: #666; font-size: 0.85rem; }
summary { cursor: pointer; }
"""


def _html(run: ValidationRun, pictures: dict[str, bytes]) -> str:
    outcome = "every claim holds" if run.holds else "not every claim holds"
    if run.interrupted:
        outcome = "interrupted: " + outcome
    meta = ", ".join(f"{name} {version}" for name, version in versions().items())
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>iclimit validation</title><style>{_STYLE}</style></head><body>",
        f"<h1>iclimit validation: {outcome}</h1>",
        f"<p class='small'>Preset {run.preset}, seed {run.seed}, backend {run.backend}, "
        f"{run.seconds:.0f} s. {html.escape(meta)}.</p>",
        "<p>z is the deviation beyond the allowance in standard errors (Student's t, where these "
        "come from few runs, mapped to the normal deviate of equal probability). "
        "A claim holds if every "
        "|z| is at most the threshold that a true claim exceeds with probability 0.001, given the "
        "number of its comparisons.</p>",
        _summary(run),
        *(_section(result, pictures.get(result.claim.name)) for result in run.results),
        "</body></html>",
    ]
    return "\n".join(parts)


def _summary(run: ValidationRun) -> str:
    rows = [
        "<table><tr><th>Claim</th><th>holds</th><th>compared</th><th>largest |z|</th>"
        "<th>allowed |z|</th><th>CPU s</th></tr>"
    ]
    for result in run.results:
        link = f"<a href='#{result.claim.name}'>{html.escape(result.claim.title)}</a>"
        verdict = result.verdict
        numbers = (
            f"<td>{len(verdict.comparisons)}</td><td>{abs(verdict.worst.z):.2f}</td>"
            f"<td>{verdict.threshold:.2f}</td>"
            if verdict is not None
            else "<td></td><td></td><td></td>"
        )
        rows.append(
            f"<tr><td>{link}</td>{_flag(result.holds)}{numbers}<td>{result.seconds:.1f}</td></tr>"
        )
    rows += [f"<tr><td>{name}</td><td class='no'>not finished</td></tr>" for name in run.missing]
    return "\n".join([*rows, "</table>"])


def _flag(holds: bool) -> str:
    return f"<td class='{'yes' if holds else 'no'}'>{'yes' if holds else 'no'}</td>"


def _section(result: ClaimResult, picture: bytes | None) -> str:
    claim, verdict = result.claim, result.verdict
    head = (
        f"<h2 id='{claim.name}'>{html.escape(claim.title)}</h2>"
        f"<p>{html.escape(claim.statement)}</p>"
        f"<p class='small'>{html.escape(claim.name)}. {html.escape(claim.source)}.</p>"
    )
    if verdict is None or picture is None:
        return head + f"<p class='no'>{html.escape(result.error)}</p>"
    encoded = base64.b64encode(picture).decode()
    image = f"<img alt='{html.escape(claim.title)}' src='data:image/png;base64,{encoded}'>"
    notes = "".join(f"<li>{html.escape(note)}</li>" for note in verdict.notes)
    rows = "".join(_row(c, verdict.threshold) for c in verdict.comparisons)
    return (
        f"{head}{image}<ul class='small'>{notes}</ul>"
        f"<details><summary>{len(verdict.comparisons)} comparisons</summary><table>"
        "<tr><th>Quantity</th><th>theory</th><th>estimate</th><th>standard error</th>"
        f"<th>allowance</th><th>z</th></tr>{rows}</table></details>"
    )


def _row(c: Comparison, threshold: float) -> str:
    far = "" if abs(c.z) <= threshold else " class='far'"
    return (
        f"<tr{far}><td>{html.escape(c.label)}</td><td>{c.theory:.5g}</td><td>{c.estimate:.5g}</td>"
        f"<td>{c.standard_error:.2g}</td><td>{c.allowance:.2g}</td><td>{c.z:.2f}</td></tr>"
    )
