"""Reports of a validation: a folder with report.html, results.json and a picture per claim."""

from collections.abc import Mapping
from pathlib import Path

from iclimit.drawing import house_style, new_figure, save_picture
from iclimit.tables import json_text, write_text
from iclimit.validation.report.page import page
from iclimit.validation.report.run_claims import ValidationRun
from iclimit.verdict import Verdict


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
            file = folder / f"{name}.png"
            drawn[name] = save_figure(result.verdict, file, preset=run.preset, seed=run.rng)
    path = folder / "report.html"
    texts = {folder / "results.json": json_text(run.to_dict()), path: page(run, drawn)}
    for file, text in texts.items():
        write_text(file, text)
    return path


def save_figure(
    verdict: Verdict, path: Path, *, preset: str, seed: int, pdf: bool = False
) -> bytes:
    """Save a claim's figure as PNG, on request also as PDF beside it; return the PNG.

    The name of the claim, which that of the file is, its preset and seed are in the metadata.
    """
    from matplotlib import rcParams  # loaded when something is drawn

    with house_style():
        figure = new_figure()
        figure.set_dpi(rcParams["savefig.dpi"])
        verdict.draw_figure(figure)
        if engine := figure.get_layout_engine():  # once; to save it matplotlib would draw twice
            engine.execute(figure)
            figure.set_layout_engine(None)
        command = f"iclimit figure {path.stem} --preset {preset}"
        known = {"command": command, "claim": path.stem, "preset": preset, "seed": seed}
        picture = save_picture(figure, path, known)
        if pdf:
            save_picture(figure, path.with_suffix(".pdf"), known)
    return picture
