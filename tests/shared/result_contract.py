"""What every result must do."""

import csv
import io
import json
import math
import re
from html.parser import HTMLParser
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from iclimit.results import Result
from iclimit.tables import FORMATS, PICTURES, json_text, rows_text

PLAIN = (bool, int, float, complex, str, type(None))


class Cells(HTMLParser):
    """Texts of a page, and how deep its tags go at the end."""

    def __init__(self, page):
        super().__init__()
        self.texts = []
        self.open = 0
        self.feed(page)

    def handle_starttag(self, tag, attrs):  # noqa: ARG002
        self.open += 1

    def handle_endtag(self, tag):  # noqa: ARG002
        self.open -= 1

    def handle_data(self, data):
        self.texts.append(data)


def check_contract(result, folder):
    """Print a result in every way, and write all its files."""
    name = type(result).__name__
    assert len(repr(result)) < 800, f"{name}: {result!r}"
    assert "\n" not in repr(result), name
    page = result._repr_html_()
    drawn = type(result).draw is not Result.draw
    assert len(re.sub("src=.*?>", ">", page)) < 12000, name
    assert Cells(page).open == page.count("<img ") == drawn, name  # which has no end tag
    rows = result.rows()
    everything = result.to_dict()
    assert all(isinstance(value, PLAIN) for row in rows for value in row.values()), name
    assert all(row.keys() == rows[0].keys() for row in rows), name
    assert json.loads(json_text(everything)).keys() == everything.keys(), name
    for kind in FORMATS:
        assert rows_text(rows, kind).endswith("\n"), name
    assert len(list(csv.reader(io.StringIO(rows_text(rows, "csv"))))) == 1 + len(rows), name
    assert len(result.to_pandas()) == len(rows), name
    arrays = result.to_xarray()
    if type(result).to_xarray is Result.to_xarray:
        assert not rows or math.prod(arrays.sizes.values()) == len(rows), name
    # The figure is in the page already: drawing it for each file would take most of the time.
    with patch.object(type(result), "_repr_html_", lambda _: page):
        for ending in result.endings:
            if ending not in PICTURES:
                path = folder / f"{name}{ending}"
                result.write(path)
                assert path.stat().st_size > 0, path
                path.unlink()
    if set(PICTURES) <= set(result.endings):
        check_figure(result)


def check_figure(result):
    """Draw a result into new axes of pyplot, and into given ones."""
    known = plt.get_fignums()
    axes = result.plot()
    (new,) = set(plt.get_fignums()) - set(known)
    assert all(ax.figure is plt.figure(new) for ax in np.ravel(axes))
    plt.close(new)
    ax = Figure().subplots()
    assert result.plot(ax) is ax
    assert ax.has_data()
