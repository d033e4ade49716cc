r"""What the loss of a single layer knows of a set of prompts: moments of features.

A single layer of linear attention is linear in the features :math:`f_{ijk} = G_{ij} q_k` with
:math:`i \le j`, the Gram matrix G of the tokens and the query's token q.  Its loss knows a set of
prompts through the first two moments of these features only, at a cost that forgets the number of
prompts.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from array_api_compat import array_namespace

from iclimit.simulate.arrays import Array


@dataclass(frozen=True, eq=False)
class FeatureMoments:
    r"""Moments of the features f and of the residual :math:`t = y + q_D` of no layer at all.

    Attributes
    ----------
    label : scalar array
        Mean of t^2.
    cross : array (F,)
        Mean of t f, F = D^2 (D + 1) / 2, or less if some features are zero.
    second : array (F, F)
        Mean of f f^T.
    """

    label: Array
    cross: Array
    second: Array


def readout_moments(
    blocks: Iterable[tuple[Array, Array]], *, include_query: bool = False
) -> FeatureMoments:
    """Moments of prompts that come in blocks of tokens (n, T, D) and labels (n,)."""
    total = [0.0, 0.0, 0.0]
    count = 0
    for tokens, labels in blocks:
        xp = array_namespace(tokens)
        n, _, size = tokens.shape
        source = tokens if include_query else tokens[:, :-1, :]
        gram = xp.reshape(xp.matrix_transpose(source) @ source, (n, size**2))
        gram = xp.take(gram, xp.asarray(np.flatnonzero(np.triu(np.ones((size, size))))), axis=1)
        features = xp.reshape(gram[:, :, None] * tokens[:, None, -1, :], (n, -1))
        target = labels + tokens[:, -1, -1]
        parts = (xp.sum(target**2), target @ features, features.T @ features)
        total = [old + new for old, new in zip(total, parts, strict=True)]
        count += n
    return FeatureMoments(*(value / count for value in total))


def pair_numbers(size: int) -> np.ndarray:
    """Number (size, size) of each pair i, j among those with i <= j, in the order of features."""
    pairs = np.zeros((size, size), dtype=int)
    upper = np.triu_indices(size)
    pairs[upper] = np.arange(len(upper[0]))
    return np.maximum(pairs, pairs.T)


class FeatureLoss:
    """Mean of (t - sum of coefficients times features)^2, from the moments.

    Parameters
    ----------
    moments : FeatureMoments
        Moments of one set of prompts, or of one for each repeat along a first axis.
    place : array (E,)
        Feature of each coefficient; coefficients of (i, j, k) and (j, i, k) share one.
    """

    def __init__(self, moments: FeatureMoments, place: np.ndarray) -> None:
        xp = array_namespace(moments.cross)
        self.label = moments.label
        self.cross = moments.cross
        self.second = moments.second
        first = np.unique(place, return_index=True)[1]
        last = len(place) - 1 - np.unique(place[::-1], return_index=True)[1]
        self.first = xp.asarray(first)
        self.last = xp.asarray(last)
        self.twice = xp.asarray((first != last).astype(float))
        self.place = xp.asarray(place)

    def __call__(self, coefficients: Array) -> tuple[Array, Array]:
        """Losses (repeats,) and halves of the derivatives by the coefficients (repeats, E)."""
        xp = array_namespace(coefficients)
        features = xp.take(coefficients, self.first, axis=1)
        features = features + self.twice * xp.take(coefficients, self.last, axis=1)
        half = (self.second @ features[..., None])[..., 0] - self.cross
        loss = self.label + xp.sum((half - self.cross) * features, axis=-1)
        return loss, xp.take(half, self.place, axis=1)
