r"""One linear attention layer in three parametrisations, with what training them needs.

The prediction for a sequence is :math:`\hat y = \sum_h v_h^\top S L_h x_q` with the second moment
S of the tokens (`iclimit.simulate.dynamics.feature_moments`), the last row :math:`v_h` of the
value matrix of a head and a lookup matrix :math:`L_h` of shape (D + 1, D):

- "merged": :math:`L_h` is one weight matrix, the product of key and query weights;
- "separate": :math:`L_h = K_h^\top Q_h` with key and query weights of R rows;
- "cubic": a two-layer linear network on the features
  :math:`z = \frac1N \sum_n y_n x_n x_q^\top`.  This is "merged" without the weights that see
  other entries of S, so that :math:`v_h` is a number and :math:`L_h` has the shape (D, D).

These are the models of Zhang, Singh, Latham and Saxe, ICML 2025 (arXiv:2501.16265).  The other
weights of a layer do not affect the prediction.  Weights are lists of arrays (repeats, heads, ...)
so that many runs share each operation.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from iclimit.checks import check_arguments, check_choice, parse_array
from iclimit.simulate.arrays import Array, Seed, seed_sequences
from iclimit.simulate.dynamics.feature_moments import feature_count
from iclimit.simulate.models.moments import FeatureLoss, FeatureMoments, pair_numbers
from iclimit.simulate.prompts import Prompts, regression_tokens

MODELS = ("merged", "separate", "cubic")
INITIALIZATIONS = ("per-head", "per-layer")


@dataclass(frozen=True)
class AttentionModel:
    """A parametrisation of one linear attention layer and its sizes.

    Parameters
    ----------
    kind : {"merged", "separate", "cubic"}
        Merged key and query, separate ones, or the network on cubic features.
    dim : int >= 1
        Dimension D of the inputs.
    heads : int >= 1
        Heads, or hidden units of the network.
    rank : int >= 1
        Rows of the key and query weights of "separate", at most ``dim``.
    narrow : bool
        Leave out the weights that see other entries of S than those of inputs with labels.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    """

    kind: str
    dim: int
    heads: int
    rank: int = 1
    narrow: bool = False

    def __post_init__(self) -> None:
        check_choice("model", self.kind, MODELS)
        check_arguments(dim=self.dim, heads=self.heads, rank=self.rank)
        if self.kind != "separate" and self.rank != 1:
            raise ValueError(f"rank must be 1 for model {self.kind!r}, got {self.rank!r}")
        if self.rank > self.dim:
            raise ValueError(f"rank must be at most the dimension {self.dim}, got {self.rank!r}")
        if self.kind == "cubic":
            object.__setattr__(self, "narrow", True)

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the weights of one run."""
        heads = self.heads
        dim = self.dim
        values, rows = (1, dim) if self.narrow else (dim + 1, dim + 1)
        if self.kind == "separate":
            return (heads, values), (heads, self.rank, rows), (heads, self.rank, dim)
        return (heads, values), (heads, rows, dim)

    def random_weights(
        self, generator: np.random.Generator, init_scale: float, initialization: str = "per-head"
    ) -> list[np.ndarray]:
        """Random normal weights of one run; "merged" and "cubic" get the same from one seed.

        For "merged" and "cubic" the standard deviation is ``init_scale``.  For "separate" and
        "per-head" it is ``init_scale`` for values and ``init_scale / sqrt(R (D + 1))`` for keys
        and queries.  For "per-layer" it is ``init_scale`` over the root of the number of weights
        in the layer, where whole value matrices count.  Values of the inputs and lookups of the
        labels are zero.
        """
        check_arguments(init_scale=init_scale)
        check_choice("initialization", initialization, INITIALIZATIONS)
        small = replace(self, narrow=True)
        weights = [init_scale * generator.standard_normal(shape) for shape in small.shapes]
        value = weights[0]
        lookup = weights[1:]
        if self.kind == "separate":
            size = self.dim + 1
            layer = self.heads if initialization == "per-layer" else 1
            lookup = [matrix / math.sqrt(layer * self.rank * size) for matrix in lookup]
            if initialization == "per-layer":
                value = value / math.sqrt(layer * size**2)
        return [value, *lookup] if self.narrow else self.widened([value, *lookup])

    def widened(self, weights: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Add the weights that narrow ones leave out, as zeros."""
        value, first, *query = weights
        axis = -1 if self.kind == "separate" else -2
        wide = np.zeros((*value.shape[:-1], self.dim + 1))
        wide[..., -1:] = value
        return [wide, np.concatenate([first, 0 * first.take([0], axis)], axis), *query]

    def narrowed(self, weights: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """Drop the weights that "narrow" leaves out; None if they are not all zero."""
        value, first, *query = weights
        axis = -1 if self.kind == "separate" else -2
        inputs, label = np.split(first, [self.dim], axis)
        if self.narrow or value[..., :-1].any() or label.any():
            return None
        return [value[..., -1:], inputs, *query]

    def parse_weights(self, weights: Sequence[Any]) -> list[np.ndarray]:
        """Check given weights of one run."""
        if not isinstance(weights, Sequence):
            raise TypeError(f"initial must be a sequence of arrays, got {weights!r}")
        if len(weights) != len(self.shapes):
            raise ValueError(
                f"initial must hold {len(self.shapes)} arrays for model {self.kind!r}, "
                f"got {len(weights)}"
            )
        return [
            parse_array(f"initial[{i}]", weight, shape)
            for i, (weight, shape) in enumerate(zip(weights, self.shapes, strict=True))
        ]

    def lookup(self, weights: Sequence[Array]) -> Array:
        """Lookup matrices of the heads."""
        if self.kind != "separate":
            return weights[1]
        _, key, query = weights
        return array_namespace(key).matrix_transpose(key) @ query

    def pull_back(self, weights: Sequence[Array], by_entries: Array) -> list[Array]:
        """Gradients by the weights from those by the entries of sum_h v_h (x) L_h.

        ``by_entries`` has the shape (repeats, values, lookup rows * D).
        """
        xp = array_namespace(by_entries)
        lookup = self.lookup(weights)
        by_value = _rows(lookup) @ xp.matrix_transpose(by_entries)
        by_lookup = xp.reshape(weights[0] @ by_entries, lookup.shape)
        if self.kind != "separate":
            return [by_value, by_lookup]
        _, key, query = weights
        return [by_value, query @ xp.matrix_transpose(by_lookup), key @ by_lookup]

    def conserved(self, weights: Sequence[Array]) -> Array:
        r"""Quantities that gradient flow conserves, shape (repeats, number).

        For "separate" these are :math:`|v|^2 - \sum_r |k_r|^2` and :math:`|k_r|^2 - |q_r|^2` of
        every head, otherwise :math:`\langle v_g, v_h \rangle - \langle L_g, L_h \rangle` of all
        pairs of heads.
        """
        xp = array_namespace(weights[0])
        if self.kind == "separate":
            value, key, query = weights
            value_square = xp.sum(value * value, axis=-1)
            key_square = xp.sum(key * key, axis=-1)
            query_square = xp.sum(query * query, axis=-1)
            of_value = (value_square - xp.sum(key_square, axis=-1))[..., None]
            parts = xp.concat([of_value, key_square - query_square], axis=-1)
        else:
            value = weights[0]
            lookup = _rows(weights[1])
            parts = value @ xp.matrix_transpose(value) - lookup @ xp.matrix_transpose(lookup)
        return xp.reshape(parts, (parts.shape[0], -1))


def _rows(lookup: Array) -> Array:
    """Flatten the lookup matrices (repeats, heads, rows, D)."""
    return array_namespace(lookup).reshape(lookup, (*lookup.shape[:2], -1))


class MomentLoss:
    """Mean squared error of a model on data known by their moments.

    Parameters
    ----------
    model : AttentionModel
        The model.
    moments : FeatureMoments
        Moments of one data set for all repeats, or of one for each repeat along a first axis.

    Raises
    ------
    ValueError
        If the moments are of another dimension than the model.
    """

    def __init__(self, model: AttentionModel, moments: FeatureMoments) -> None:
        xp = array_namespace(moments.cross)
        dim = model.dim
        count = moments.cross.shape[-1]
        wanted = feature_count(model.dim)
        if count != wanted:
            raise ValueError(f"moments must have {wanted} features for dim {dim}, got {count}")
        pairs = pair_numbers(dim + 1)
        if model.narrow:
            kept = pairs[:dim, dim]
            entries = np.arange(dim)
        else:
            kept = np.arange(pairs.max() + 1)
            entries = pairs.reshape(-1)
        columns = np.arange(dim)
        chosen = xp.asarray((kept[:, None] * dim + columns).reshape(-1))
        second = xp.take(xp.take(moments.second, chosen, axis=-2), chosen, axis=-1)
        second = second if second.ndim == 3 else second[None, ...]
        moments = FeatureMoments(moments.label, xp.take(moments.cross, chosen, axis=-1), second)
        self.model = model
        self.loss = FeatureLoss(moments, (entries[:, None] * dim + columns).reshape(-1))

    def __call__(self, weights: Sequence[Array]) -> tuple[Array, list[Array]]:
        """Losses (repeats,) and halves of the gradients."""
        xp = array_namespace(weights[0])
        entries = xp.matrix_transpose(weights[0]) @ _rows(self.model.lookup(weights))
        loss, halves = self.loss(xp.reshape(entries, (entries.shape[0], -1)))
        return loss, self.model.pull_back(weights, xp.reshape(halves, entries.shape))


class SequenceLoss:
    """Mean squared error of a model on sequences, given one by one.

    Parameters
    ----------
    model : AttentionModel
        The model.
    prompts : sequence of Prompts
        The sequences of each repeat.
    normalization : {"mean", "sum"}
        Whether the second moments of the tokens are divided by N.
    """

    def __init__(
        self, model: AttentionModel, prompts: Sequence[Prompts], normalization: str = "mean"
    ) -> None:
        xp = array_namespace(prompts[0].inputs)
        scale = prompts[0].inputs.shape[1] if normalization == "mean" else 1
        tokens = xp.stack([regression_tokens(examples) for examples in prompts])
        gram = xp.matrix_transpose(tokens) @ tokens / scale
        if model.narrow:
            gram = gram[..., -1:, :-1]
        self.model = model
        self.gram = gram
        self.query = xp.stack([examples.query for examples in prompts])
        self.label = xp.stack([examples.query_label for examples in prompts])

    def __call__(
        self, weights: Sequence[Array], chosen: Array | None = None
    ) -> tuple[Array, list[Array]]:
        """Losses (repeats,) and halves of the gradients, over all sequences or over chosen ones.

        ``chosen`` has the shape (repeats, batch).
        """
        xp = array_namespace(weights[0])
        gram = self.gram
        query = self.query
        label = self.label
        if chosen is not None:
            gram = _of_each(gram, chosen)
            query = _of_each(query, chosen)
            label = _of_each(label, chosen)
        repeats, count, values, _ = gram.shape
        lookup = self.model.lookup(weights)
        looked_up = query @ xp.matrix_transpose(
            xp.reshape(lookup, (repeats, -1, lookup.shape[-1]))
        )
        read = weights[0][:, None, :, :] @ gram
        prediction = xp.sum(xp.reshape(read, (repeats, count, -1)) * looked_up, axis=-1)
        residual = prediction - label
        weighted = xp.reshape(gram * residual[..., None, None], (repeats, count, -1))
        by_entries = xp.matrix_transpose(weighted) @ query / count
        by_entries = xp.reshape(by_entries, (repeats, values, -1))
        return xp.mean(residual**2, axis=-1), self.model.pull_back(weights, by_entries)


def _of_each(values: Array, chosen: Array) -> Array:
    """Entries along the second axis, chosen anew for each index of the first."""
    xp = array_namespace(values)
    repeats, count, *rest = values.shape
    flat = xp.reshape(chosen + count * xp.arange(repeats)[:, None], (-1,))
    rows = xp.take(xp.reshape(values, (repeats * count, *rest)), flat, axis=0)
    return xp.reshape(rows, (*chosen.shape, *rest))


def initial_weights(
    model: AttentionModel,
    init_scale: float,
    initialization: str = "per-head",
    *,
    rng: Seed | None,
    first_repeat: int = 0,
) -> list[np.ndarray]:
    """Initial weights of `simulate_gradient_flow`, and of one repeat of a training.

    Parameters
    ----------
    model : AttentionModel
        Parametrisation and sizes, as of the flow or the training.
    init_scale : float > 0
        Scale of the weights.
    initialization : {"per-head", "per-layer"}
        What the scale is divided by for "separate", see `AttentionModel.random_weights`.
    rng : int, SeedSequence or Generator
        Seed of the flow or the training.  A Generator gives new weights at every use.
    first_repeat : int >= 0
        Number of the repeat of the training; the flow has the weights of the first.

    Returns
    -------
    list of ndarray
        Weights of one run in the shapes ``model.shapes``: values (H, D + 1), then lookup
        matrices (H, D + 1, D), or for "separate" keys (H, R, D + 1) and queries (H, R, D).  In
        "cubic" the D + 1 are 1 and D.

    Raises
    ------
    ValueError
        If init_scale or initialization is outside its range.
    TypeError
        If rng is of another kind.

    Examples
    --------
    The start of the flow with the same seed, from which one predicts when each head learns:

    >>> from iclimit.simulate.dynamics import AttentionModel, initial_weights
    >>> model = AttentionModel("separate", dim=4, heads=3)
    >>> value, key, query = initial_weights(model, 0.05, rng=1)
    >>> value.shape, key.shape, query.shape
    ((3, 5), (3, 1, 5), (3, 1, 4))
    """
    check_arguments(first_repeat=first_repeat)
    seed = seed_sequences(seed_sequences(rng, first_repeat + 1)[first_repeat], 2)[1]
    return model.random_weights(np.random.default_rng(seed), init_scale, initialization)
