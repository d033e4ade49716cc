"""Parameters of a figure in the metadata of its file."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from iclimit.versions import versions

# Field of the metadata that has the parameters as JSON, by the ending of the file.
FIELDS = {".png": "Description", ".pdf": "Subject", ".svg": "Description"}

_SVG = "{http://purl.org/dc/elements/1.1/}description"


def metadata(ending: str, parameters: Mapping[str, Any]) -> dict[str, str]:
    """Metadata of a file with this ending, as `matplotlib.figure.Figure.savefig` takes them."""
    version = versions()["iclimit"]
    described = {"iclimit_version": version, **parameters}
    creator = "Software" if ending == ".png" else "Creator"
    text = json.dumps(described, default=str)
    return {FIELDS[ending]: text, creator: f"iclimit {version}"}


def figure_parameters(path: str | os.PathLike) -> dict[str, Any]:
    """Read the parameters of a figure that the command line has drawn from its file.

    Parameters
    ----------
    path : path
        A file that ends in .png, .pdf or .svg.

    Returns
    -------
    dict
        ``iclimit_version``, the ``command`` that draws the figure again, and what it was drawn
        from; for figures of claims ``claim``, ``preset`` and ``seed``.

    Raises
    ------
    ValueError
        If the file has another ending, or no parameters.
    FileNotFoundError
        If there is no such file.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import iclimit, iclimit.cli
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "curve.svg"
    ...     command = ["curve", "bayes_error", "--alpha", "1:4:4", "--rho", "0.1"]
    ...     status = iclimit.cli.main([*command, "-o", str(path)])
    ...     parameters = iclimit.figure_files.figure_parameters(path)
    >>> parameters["quantity"], parameters["rho"], parameters["alpha"]
    ('bayes_error', 0.1, [1.0, 2.0, 3.0, 4.0])
    """
    file = Path(path)
    if file.suffix not in FIELDS:
        raise ValueError(f"path must end in {', '.join(FIELDS)}, got {str(path)!r}")
    text = {".png": _of_png, ".pdf": _of_pdf, ".svg": _of_svg}[file.suffix](file)
    try:
        parameters = json.loads(text)
    except ValueError:
        parameters = None
    if not isinstance(parameters, dict) or "iclimit_version" not in parameters:
        raise ValueError(f"path must be a figure with parameters of iclimit, got {str(path)!r}")
    return parameters


def _of_png(file: Path) -> str:
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(file) as image:
            return str(image.info.get(FIELDS[".png"], ""))
    except UnidentifiedImageError:
        return ""


def _of_pdf(file: Path) -> str:
    subject = re.search(rb"/Subject \(((?:[^()\\]|\\.)*)\)", file.read_bytes())
    return re.sub(r"\\(.)", r"\1", subject[1].decode("latin-1")) if subject else ""


def _of_svg(file: Path) -> str:
    try:
        description = next(ElementTree.parse(file).iter(_SVG), None)
    except ElementTree.ParseError:
        description = None
    return (description.text or "") if description is not None else ""
