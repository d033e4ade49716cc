"""Published losses of trained layers of attention, softmax and linear, by context length."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from iclimit.drawing import Axes, draw_points
from iclimit.validation.reference import read_reference

# Median loss and the two edges of its band.
Band = tuple[float, float, float]


@cache
def published_layers(kind: Literal["softmax", "linear"], layers: int) -> dict[int, Band]:
    """Losses of stacks of some layers by context length: Figure 7 or Figure 8 of the blog."""
    figure = {"softmax": "7", "linear": "8"}[kind]
    return {
        int(row["context"]): (
            float(row["median_loss"]),
            float(row["band_a"]),
            float(row["band_b"]),
        )
        for row in read_reference("blog_fig7_fig8_layers.csv")
        if (row["figure"], row["layers"]) == (figure, str(layers))
    }


def draw_bands(
    ax: Axes, bands: Mapping[int, Band], contexts: Sequence[int], colour: str, **options: Any
) -> None:
    """Draw medians at some context lengths with bars from edge to edge of their bands."""
    median, low, high = np.array([bands[context] for context in contexts]).T
    bars = np.stack([median - low, high - median])
    draw_points(ax, contexts, median, bars, colour, **options)
