"""Compare pictures with committed reference images, ``tests/shared/pictures/NAME.png``.

A test draws a picture and calls ``assert_looks_as_before(picture, "name", tmp_path)``.  To make
the reference images of some tests, or to accept a change that was wanted, run them with

    ICLIMIT_UPDATE_PICTURES=1 python -m pytest tests/...

look at the images and commit them.
"""

import os
from pathlib import Path

import matplotlib
import pytest
from matplotlib.figure import Figure
from matplotlib.testing.compare import compare_images
from PIL import Image

FOLDER = Path(__file__).parent / "pictures"

WIDTH = 320
"""Pixels of a reference image along a row: a small file in which single points can be seen."""

TOLERANCE = 1.0
"""Largest root mean square of the differences, of 255.  The same code gives 0; measured on the
picture ``curve-simulated``, one point that moves by its own size gives 1.6, curves that are higher
by a hundredth 3.4, a curve that is missing 8."""


def assert_looks_as_before(picture, name, tmp_path):
    """Compare a picture with its reference image.

    Parameters
    ----------
    picture : Path or Figure
        A file (.png), or a figure.
    name : str
        Of the reference image.
    tmp_path : Path
        Where the small image and, if it differs, the image of the differences are written.
    """
    if matplotlib.__version_info__ < (3, 10):
        pytest.skip("the reference images are not drawn as older versions of matplotlib do")
    if isinstance(picture, Figure):
        path = tmp_path / f"{name}-full.png"
        picture.savefig(path, dpi=200)
    else:
        path = picture
    found = tmp_path / f"{name}-found.png"
    expected = FOLDER / f"{name}.png"
    with Image.open(path) as image:
        height = round(image.height * WIDTH / image.width)
        small = image.convert("RGB").resize((WIDTH, height), Image.Resampling.BOX)
        small.save(found, optimize=True)
    if os.environ.get("ICLIMIT_UPDATE_PICTURES"):
        FOLDER.mkdir(exist_ok=True)
        expected.write_bytes(found.read_bytes())
    difference = compare_images(str(expected), str(found), TOLERANCE)
    assert difference is None, difference
