"""Tokens that a network reads of a prompt, and their positions.

"pairs" are (x_i, y_i) and (x_q, 0) last; "separate" are x_1, (0, ..., 0, y_1), x_2, ..., x_q.
"""

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import parse_array
from iclimit.simulate.arrays import Array
from iclimit.simulate.prompts import Prompts, regression_tokens

TOKENS = ("pairs", "separate")

# Ratio of the longest to the shortest period of positions, approximately.
LONGEST = 10_000.0


def parse_question(inputs: ArrayLike, labels: ArrayLike, query: ArrayLike, dim: int) -> Prompts:
    """Prompts that a model is asked with, on the host.

    Parameters
    ----------
    inputs : array (n, context, dim)
        Inputs of the context.
    labels : array (n, context)
        Their labels.
    query : array (n, dim)
        Inputs whose labels are predicted.
    dim : int
        Dimension of the inputs of the model.

    Raises
    ------
    ValueError
        If an array has another shape, or entries that are no finite numbers.
    """
    x = parse_array("inputs", inputs, (None, None, dim))
    y = parse_array("labels", labels, x.shape[:2])
    x_query = parse_array("query", query, x.shape[::2])
    return Prompts(x, y, x_query)


def make_tokens(kind: str, examples: Prompts) -> Array:
    """Tokens (n, tokens, entries) of prompts, that of the query last."""
    if kind == "pairs":
        return regression_tokens(examples)
    xp = array_namespace(examples.inputs)
    n, context, dim = examples.inputs.shape
    zeros = xp.zeros((n, context, dim - 1), dtype=examples.inputs.dtype)
    answers = xp.concat([zeros, examples.labels[:, :, None]], axis=2)
    both = xp.reshape(xp.stack([examples.inputs, answers], axis=2), (n, 2 * context, dim))
    return xp.concat([both, examples.query[:, None, :]], axis=1)


def sinusoidal_positions(count: int, entries: int) -> np.ndarray:
    """Sines and cosines (count, entries) of positions, by turns, with falling frequencies."""
    angles = np.arange(count)[:, None] * LONGEST ** (-np.arange(0, entries, 2) / entries)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(count, entries)
