"""Recurrent layers as they are saved: their heads from the state dictionaries of six layouts."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit

from iclimit.asymptotics.checks import real_number
from iclimit.notation import did_you_mean
from iclimit.validation.instruments.weights.layouts import get_layout, parse_matrices

# Names of projections in the state dictionaries of layers, with the role that says how heads are
# stacked, and all names by layout: other weights are whole matrices, anything else is a vector.
_PROJECTIONS = {
    "q_proj.weight": "query",
    "k_proj.weight": "key",
    "v_proj.weight": "value",
    "o_proj.weight": "projection",
}
_ROLES = _PROJECTIONS | {"out_proj.weight": "projection"}
_TIMES = "A_log", "dt_bias"
LAYOUTS = {
    "gla": (*_PROJECTIONS, "gk_proj.0.weight", "gk_proj.1.weight", "gk_proj.1.bias"),
    "deltanet": (*_PROJECTIONS, "b_proj.weight"),
    "gated-deltanet": (*_PROJECTIONS, "b_proj.weight", "a_proj.weight", *_TIMES),
    "kda": (*_PROJECTIONS, "b_proj.weight", "f_proj.0.weight", "f_proj.1.weight", *_TIMES),
    "retnet": tuple(_PROJECTIONS),
    "mamba2": ("in_proj.weight", "out_proj.weight", "D", *_TIMES),
}

# Layouts whose keys and queries have unit length.
UNIT_KEYS = "deltanet", "gated-deltanet", "kda"

# Gates of the heads h = 0, 1, ... of RetNet are 1 - 2^(-5 - h).
_RETNET_POWER = 5

# Parts that may be left out.
_OPTIONAL = ("D",)

# Parts of such layers that are no linear recurrence, and what they are.
_UNREAD = {
    "conv1d": "short convolutions",
    "norm": "norms of the output",
    "g_proj": "output gates",
    "lora": "adapters",
}

# From tokens (n, D) to numbers of each.
PerToken = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Heads:
    """Linear recurrence of H heads, as far as it leads to the prediction.

    Attributes
    ----------
    key, query : ndarray (H, r, D)
    value : ndarray (H, D)
        From a token to the prediction.
    gate : callable
        From tokens (n, D) to (n, H, r), or (n, H, 1).
    step : callable
        From tokens (n, D) to (n, H).
    corrects, unit_keys : bool
        Whether by the delta rule, and whether keys and queries have unit length.
    factor : float
        Of the queries.
    skip : ndarray (H,)
        Factor of the query's own value.
    """

    key: np.ndarray
    query: np.ndarray
    value: np.ndarray
    gate: PerToken
    step: PerToken
    corrects: bool
    unit_keys: bool
    factor: float
    skip: np.ndarray

    def predict(self, tokens: np.ndarray) -> np.ndarray:
        """Predictions (n,) after tokens (n, length, D), of which the last is the query."""
        memory: Any = 0.0
        for token in np.moveaxis(tokens, 1, 0):
            key = self._vectors(self.key, token)
            memory = self.gate(token) * memory
            written = token @ self.value.T
            residual = written - np.sum(memory * key, axis=-1) if self.corrects else written
            memory = memory + (self.step(token) * residual)[..., None] * key
        read = self.factor * np.vecdot(memory, self._vectors(self.query, token))
        return np.asarray(np.sum(read + self.skip * written, axis=-1))

    def _vectors(self, matrices: np.ndarray, token: np.ndarray) -> np.ndarray:
        vectors = np.einsum("hri,ni->nhr", matrices, token)
        if not self.unit_keys:
            return vectors
        norm = np.linalg.norm(vectors, axis=-1, keepdims=True)
        return vectors / np.where(norm > 0, norm, 1.0)


def read_heads(
    layer: Mapping[str, Any],
    layout: str,
    dim: int,
    *,
    heads: int,
    unit_keys: bool,
    root: float,
    largest_step: float,
    score_factor: float | None,
) -> Heads:
    """Heads of a layer for inputs of a dimension.

    Parameters
    ----------
    layer : mapping of arrays by name
    layout : str
        One of `LAYOUTS`.
    dim : int
        Dimension of the inputs; tokens have one entry more.
    heads : int
        Number of heads, where the layout does not say it.
    unit_keys : bool
        Whether keys and queries have unit length.
    root : float
        Root that is taken of the gates of GLA.
    largest_step : float
        Step of the delta rule where its logit is infinite.
    score_factor : float, optional
        Of the queries; that of the layout by default.
    """
    weights = _weights(layer, layout, heads)
    if layout == "mamba2":
        read = _mamba(weights, dim)
    else:
        read = _attention(weights, layout, dim, root, largest_step)
    if score_factor is None:
        score_factor = 1.0 if layout == "mamba2" else read["key"].shape[1] ** -0.5
    factor = real_number("score_factor", score_factor, "(-inf, inf)")
    return Heads(**read, unit_keys=unit_keys, factor=factor)


def _weights(layer: Mapping[str, Any], layout: str, heads: int) -> dict[str, np.ndarray]:
    """Arrays by their names, with their heads first; vectors as they are."""
    if not isinstance(layer, Mapping):
        raise TypeError(f"layer must be a mapping of arrays by name, got {type(layer).__name__}")
    known = LAYOUTS[layout]
    columns = get_layout("lu2025")
    arrays: dict[str, np.ndarray] = {}
    for given, value in layer.items():
        name = next((n for n in known if given == n or str(given).endswith(f".{n}")), None)
        if name is None:
            for part, what in _UNREAD.items():
                if part in str(given):
                    raise ValueError(
                        f"layer has {given!r}: {what} are no linear recurrence and are not read"
                    )
            hint = did_you_mean(str(given), known)
            names = ", ".join(known)
            raise ValueError(
                f"layer has {given!r}, which layout {layout!r} does not know: it knows {names}"
                f"{hint}"
            )
        if name in arrays:
            raise ValueError(f"layer must be one layer, got two of {name!r}")
        role = _ROLES.get(name, "whole")
        stacked = value if name.endswith("weight") else np.reshape(value, (1, -1))
        array = parse_matrices(name, role, stacked, columns, heads if name in _ROLES else 1)
        arrays[name] = array if name.endswith("weight") else array[0, 0]
    missing = [name for name in known if name not in arrays and name not in _OPTIONAL]
    if missing:
        raise ValueError(f"layer lacks {', '.join(missing)} in layout {layout!r}")
    return arrays


def _attention(
    weights: dict[str, np.ndarray], layout: str, dim: int, root: float, factor: float
) -> dict[str, Any]:
    """Heads of GLA, RetNet, the two DeltaNets and KDA."""
    query = weights["q_proj.weight"]
    key = weights["k_proj.weight"]
    value = weights["v_proj.weight"]
    output = weights["o_proj.weight"]
    count, rows = key.shape[:2]
    _check_shape("k_proj.weight", key, (count, rows, dim + 1))
    _check_shape("q_proj.weight", query, key.shape)
    _check_shape("v_proj.weight", value, (count, value.shape[1], dim + 1))
    _check_shape("o_proj.weight", output, (count, output.shape[1], value.shape[1]))
    heads: dict[str, Any] = {"key": key, "query": query, "skip": np.zeros(count)}
    heads["value"] = (output[:, -1:] @ value)[:, 0]
    if layout in ("gla", "retnet"):
        heads |= {"step": lambda e: np.ones((len(e), count)), "corrects": False}
        if layout == "gla":
            return heads | {"gate": _low_rank_gates(weights, (count, rows), dim, root)}
        fixed = 1 - 2.0 ** -(_RETNET_POWER + np.arange(count))
        return heads | {"gate": lambda e: np.broadcast_to(fixed[:, None], (len(e), count, 1))}
    written = weights["b_proj.weight"][0]
    _check_shape("b_proj.weight", written, (count, dim + 1))
    heads |= {"step": lambda e: factor * expit(e @ written.T), "corrects": True}
    return heads | {"gate": _delta_gate(weights, layout, (count, rows), dim)}


def _delta_gate(
    weights: dict[str, np.ndarray], layout: str, shape: tuple[int, int], dim: int
) -> PerToken:
    """Gates of a layer that corrects its memory: none, one by head, or one by channel."""
    count, _ = shape
    if layout == "deltanet":
        return lambda e: np.ones((len(e), count, 1))
    if layout == "kda":
        return _channel_gates(weights, shape, dim)
    times = weights["a_proj.weight"][0]
    decay = _decay(weights, count)
    _check_shape("a_proj.weight", times, (count, dim + 1))
    return lambda e: decay(e @ times.T)[1][..., None]


def _low_rank_gates(
    weights: dict[str, np.ndarray], shape: tuple[int, int], dim: int, root: float
) -> PerToken:
    """Gates of GLA, one for each row of the keys."""
    first = weights["gk_proj.0.weight"][0]
    second = weights["gk_proj.1.weight"][0]
    bias = weights["gk_proj.1.bias"]
    rows = math.prod(shape)
    _check_shape("gk_proj.0.weight", first, (second.shape[1], dim + 1))
    _check_shape("gk_proj.1.weight", second, (rows, len(first)))
    _check_shape("gk_proj.1.bias", bias, (rows,))

    def gate(e: np.ndarray) -> np.ndarray:
        logits = e @ first.T @ second.T + bias
        return np.asarray(expit(logits).reshape(-1, *shape) ** (1 / root))

    return gate


def _channel_gates(weights: dict[str, np.ndarray], shape: tuple[int, int], dim: int) -> PerToken:
    """Gates of KDA, one for each row of the keys, with a rate for each head."""
    first = weights["f_proj.0.weight"][0]
    second = weights["f_proj.1.weight"][0]
    bias = weights["dt_bias"]
    rate = weights["A_log"]
    count, rows = shape
    _check_shape("f_proj.0.weight", first, (second.shape[1], dim + 1))
    _check_shape("f_proj.1.weight", second, (count * rows, len(first)))
    _check_shape("dt_bias", bias, (count * rows,))
    _check_shape("A_log", rate, (count,))

    def gate(e: np.ndarray) -> np.ndarray:
        dt = np.logaddexp(0.0, e @ first.T @ second.T + bias).reshape(-1, *shape)
        return np.asarray(np.exp(-np.exp(rate)[:, None] * dt))

    return gate


def _mamba(weights: dict[str, np.ndarray], dim: int) -> dict[str, Any]:
    """Heads of Mamba-2, whose keys B and queries C are common."""
    output = weights["out_proj.weight"]
    rows = weights["in_proj.weight"][0]
    count = len(weights["A_log"])
    inner = output.shape[0] * output.shape[2]
    state, odd = divmod(len(rows) - inner - count, 2)
    if odd or state < 1 or inner % count or rows.shape[1] != dim + 1:
        raise ValueError(
            "in_proj.weight must have the rows x, B, C and dt, without those of the output gate "
            f"z, and {dim + 1} columns, got shape {rows.shape} with {inner} columns of "
            f"out_proj.weight and {count} heads"
        )
    x, B, C, dt = np.split(rows, [inner, inner + state, inner + 2 * state])
    last = np.moveaxis(output, 0, 1)[-1].reshape(count, -1)
    decay = _decay(weights, count)
    skip = weights.get("D", np.zeros(count))
    _check_shape("D", skip, (count,))
    return {
        "key": np.broadcast_to(B, (count, *B.shape)),
        "query": np.broadcast_to(C, (count, *C.shape)),
        "value": np.einsum("hm,hmi->hi", last, x.reshape(count, -1, dim + 1)),
        "gate": lambda e: decay(e @ dt.T)[1][..., None],
        "step": lambda e: decay(e @ dt.T)[0],
        "corrects": False,
        "skip": skip,
    }


def _decay(weights: dict[str, np.ndarray], count: int) -> Callable[[np.ndarray], Any]:
    """Time steps and gates of logits (n, H)."""
    rate = weights["A_log"]
    bias = weights["dt_bias"]
    _check_shape("A_log", rate, (count,))
    _check_shape("dt_bias", bias, (count,))

    def decay(logits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        dt = np.logaddexp(0.0, logits + bias)
        return dt, np.exp(-np.exp(rate) * dt)

    return decay


def _check_shape(name: str, array: np.ndarray, shape: tuple[int, ...]) -> None:
    if array.shape != shape:
        raise ValueError(f"{name} must have shape {shape} by head, got {array.shape}")
