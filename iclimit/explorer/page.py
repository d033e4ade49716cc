"""The page: template, style sheet, scripts and data in one HTML file that loads nothing."""

import html
import json
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

import iclimit
from iclimit.asymptotics.pretraining.errors_at_size import LOSS
from iclimit.drawing import COLOURS
from iclimit.explorer import points
from iclimit.explorer.formulas import formulas
from iclimit.explorer.functions import javascript
from iclimit.explorer.symbols import notation, quantities

# Scripts of others, in ``vendor``: charts and level lines.
LIBRARIES = ("uPlot.iife.min.js", "d3-array.min.js", "d3-contour.min.js")

# Our scripts, each of which uses only those before it when it is loaded.
MODULES = (
    *("numbers.js", "flow.js", "workers.js", "heat.js", "charts.js", "python.js"),
    *("picture.js", "controls.js", "axes.js", "app.js", "parameters.js"),
)

# Panels, in the order of the page.
PANELS = (
    *("errors", "phases", "budgets", "spectra", "descent"),
    *("gdpp", "training", "softmax", "depth", "recurrent"),
    "positions",
)

# Colours of the house on a dark page: the bright ones first.
_DARK_ORDER = (5, 4, 2, 3, 1, 0, 6)


# Pairs from which a prediction from mean moments is of use; none is drawn for shorter contexts.
SHORTEST = 6


def explorer_page(store: Path | None = None, *, docs: str = "") -> str:
    """Return the explorer as the text of an HTML file.

    Parameters
    ----------
    store : Path, optional
        Store of runs whose simulated errors are shown beside the published ones.
    docs : str, optional
        Address of the documentation, for links to derivations; without it the page names them.

    Returns
    -------
    str
        A page that works from disk, without a server and without a network.

    Raises
    ------
    ValueError
        If the store holds no simulated errors.
    StoreError
        If the store cannot be read.

    Examples
    --------
    >>> from iclimit.explorer.page import explorer_page
    >>> page = explorer_page()
    >>> page.startswith("<!doctype html>"), len(page) < 8e6
    (True, True)
    """
    names = [*MODULES, *(f"panels/{name}.js" for name in PANELS)]
    scripts = [
        *(_read("vendor", name) for name in LIBRARIES),
        *(_read("assets", name) for name in names),
        "explorer.start();",
    ]
    return Template(_read("assets", "page.html")).substitute(
        style=_read("vendor", "uPlot.min.css") + _style(),
        data=_json(_data(store, docs)),
        theory=javascript().strip(),
        scripts="\n".join(f"<script>\n{script.strip()}\n</script>" for script in scripts),
        version=html.escape(iclimit.__version__),
        sources=_SOURCES,
    )


_SOURCES = (
    "Published points: Lu, Letey, Zavatone-Veth, Maiti and Pehlevan (arXiv:2405.11751). Published "
    "training curves: the public script of Zhang, Singh, Latham and Saxe (arXiv:2501.16265). "
    "Charts by uPlot (MIT licence), boundaries by d3-contour (ISC licence)."
)


def _json(data: dict[str, Any]) -> str:
    """Text of data inside a script; JSON has neither infinity nor NaN."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("</", "<\\/")


def _read(folder: str, name: str) -> str:
    return (resources.files(__package__) / folder / name).read_text(encoding="utf-8")


def _style() -> str:
    """Style sheet with the colours of the house for both themes."""
    dark = ["#ffffff" if COLOURS[i] == "#000000" else COLOURS[i] for i in _DARK_ORDER]
    variables = {
        name: "".join(f"  --series-{i}: {colour};\n" for i, colour in enumerate(colours))
        for name, colours in (("light", COLOURS), ("dark", dark))
    }
    return Template(_read("assets", "explorer.css")).substitute(variables)


def _data(store: Path | None, docs: str) -> dict[str, Any]:
    """What the scripts read: points, formulas and the colours of maps."""
    errors = points.published_errors() + ([] if store is None else points.stored_errors(store))
    return {
        "errors": errors,
        "presets": points.presets(errors),
        "finite_size": {"loss": LOSS, "context": SHORTEST},
        "blog": points.blog_figures(),
        "training_runs": points.training_runs(),
        "docs": docs,
        "formulas": formulas(),
        "notation": notation(),
        "quantities": quantities(),
        "colours": _map_colours(),
        "series": list(COLOURS),
    }


def _map_colours() -> list[int]:
    """Red, green and blue of the 256 colours of maps, from the lowest value to the highest."""
    from matplotlib import colormaps

    shades = colormaps["viridis"](range(256), bytes=True)[:, :3]
    return [int(part) for part in shades.ravel()]
