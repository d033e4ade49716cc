"""Reports of a validation: a folder with report.html, results.json and a picture per claim."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from iclimit.drawing import house_style, new_figure, save_picture
from iclimit.files import replacing
from iclimit.runs.code_version import versions
from iclimit.validation.judge.comparisons import Comparison
from iclimit.validation.judge.coverage import coverage
from iclimit.validation.judge.page import page
from iclimit.validation.judge.run_claims import ClaimResult, ValidationRun
from iclimit.validation.judge.summary import sharpness
from iclimit.validation.judge.verdict import Verdict


def write_report(
    run: ValidationRun, folder: Path, pictures: Mapping[str, bytes] | None = None
) -> Path:
    """Write report.html, results.json and the figures of claims.

    Parameters
    ----------
    run : ValidationRun
        Results, whole or interrupted.
    folder : Path
        Created if needed; files of an earlier report are overwritten.
    pictures : mapping, optional
        Figures that `save_figure` has saved there already, by claim.

    Returns
    -------
    Path
        Of report.html.
    """
    folder.mkdir(parents=True, exist_ok=True)
    drawn = dict(pictures or {})
    for result in run.results:
        name = result.claim.name
        if result.verdict is not None and name not in drawn:
            setting: dict[str, Any] = {"preset": run.preset, "seed": run.rng}
            drawn[name] = save_figure(result.verdict, folder / f"{name}.png", **setting)
    path = folder / "report.html"
    texts = {
        folder / "results.json": json.dumps(as_json(run), indent=1) + "\n",
        path: page(run, drawn),
    }
    for file, text in texts.items():
        with replacing(file) as partial:
            partial.write_text(text, encoding="utf-8")
    return path


def save_figure(verdict: Verdict, path: Path, *, pdf: bool = False, **parameters: Any) -> bytes:
    """Save a claim's figure as PNG, on request also as PDF beside it; return the PNG.

    The name of the claim, which that of the file is, and the parameters are in the metadata.
    """
    with house_style():
        figure = new_figure()
        verdict.draw(figure)
        command = f"iclimit figure {path.stem} --preset {parameters.get('preset', 'quick')}"
        known = {"command": command, "claim": path.stem, **parameters}
        picture = save_picture(figure, path, known)
        if pdf:
            figure.set_layout_engine("none")  # the same layout, not found again
            save_picture(figure, path.with_suffix(".pdf"), known)
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
        "would_notice": [_strict(vars(each)) for each in coverage(run)],
        "together": [_comparison_json(run.together, row) for row in run.together.comparisons],
        "claims": [_claim_json(result) for result in run.results],
    }


def _claim_json(result: ClaimResult) -> dict[str, Any]:
    names = ("name", "subject", "title", "source", "statement")
    entry = {name: getattr(result.claim, name) for name in names}
    entry |= {"holds": result.holds, "cpu_seconds": round(result.seconds, 2)}
    if (verdict := result.verdict) is None:
        return entry | {"error": result.error}
    best, middle = sharpness(result)
    return entry | {
        "would_notice": _strict({"best": best, "median": middle}),
        "functions": _strict(verdict.resolutions),
        "comparisons": [_comparison_json(verdict, row) for row in verdict.rows],
        "notes": list(verdict.notes),
    }


def _comparison_json(verdict: Verdict, row: Comparison) -> dict[str, Any]:
    names = ("label", "of", "pooled", "theory", "estimate", "standard_error", "allowance")
    entry = {name: getattr(row, name) for name in (*names, "degrees", "z", "upper_bound")}
    entry |= {"threshold": verdict.threshold(row), "would_notice": verdict.resolution(row)}
    return _strict(entry)


def _strict(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Entries with plain numbers, those that JSON has no words for as strings."""
    return {
        name: value
        if not isinstance(value, float)
        else float(value)
        if math.isfinite(value)
        else str(value)
        for name, value in entry.items()
    }
