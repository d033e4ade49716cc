r"""The staircase of separate attention, predicted from its initial weights.

While the weights are small, a head with value v, key :math:`k_r` and query :math:`q_r`,
r = 1, ..., R, moves by itself: in the eigenbasis of :math:`\Lambda`, with the residual
:math:`R_d = \lambda_d^2` in the directions that are not learned yet and 0 in the others,

.. math:: \tau \dot v = \sum_{rd} R_d\, k_{rd}\, q_{rd}, \qquad
   \tau \dot k_{rd} = v R_d\, q_{rd}, \qquad \tau \dot q_{rd} = v R_d\, k_{rd} .

In the variable :math:`s = \int v\, dt/\tau` keys and queries are
:math:`k \pm q \propto e^{\pm R_d s}`, and what is left is a particle on a line,

.. math:: \ddot s = \sum_d R_d \bigl( p_d e^{2 R_d s} - m_d e^{-2 R_d s} \bigr), \qquad
   p_d, m_d = \tfrac14 \sum_r (k_{rd} \pm q_{rd})^2,

that starts at 0 with the velocity v and reaches infinity in finite time.  The head that does so
first learns the R largest of the remaining directions.  This takes no time compared with the
wait, so that the residual vanishes there at once, and the other heads go on from where they are.

The prediction holds for small initial weights: its times are of the order
1/(scale :math:`\lambda^2`), with relative errors that vanish with the scale of the weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from iclimit.asymptotics.dynamics.inputs import TIME
from iclimit.asymptotics.dynamics.plateaus import (
    head_growth,
    plateau_head_values,
    plateau_losses,
    time_from_pole,
)
from iclimit.asymptotics.numbers import convert, numpy_namespace, require

ESCAPED = 1e6
"""A value so many times the initial weights is on its way to infinity."""

PATIENCE = 1e9
"""Longest wait, in units of 1/(scale lambda^2) for the largest direction left."""

HALF = (1 - math.sqrt(0.5)) ** (1 / 3)
"""Value, relative to the one at the end, of a head half of whose drop has happened."""

TOLERANCE = 1e-11
"""Relative tolerance of the integration."""


@dataclass(frozen=True, eq=False)
class Staircase:
    """Predicted course of the training of separate attention.

    Attributes
    ----------
    times : ndarray (D,)
        Time at which the head that learns a direction would reach infinity, in units of the time
        constant; infinite for directions that no head is left for.  Directions come in descending
        order of the eigenvalues.
    drop_times : ndarray (D,)
        Time at which half of the drop of a direction has happened.  Of the R directions that one
        head learns, the prediction knows the beginning of the first only.
    heads : ndarray of int (D,)
        Which head learns a direction; -1 for none.
    losses : ndarray (D + 1,)
        Mean squared error at the plateaus, see `plateau_losses`.
    """

    times: np.ndarray
    drop_times: np.ndarray
    heads: np.ndarray
    losses: np.ndarray
    _settings: dict[str, Any] = field(repr=False)
    _values: np.ndarray = field(repr=False)

    def loss(self, t: Any) -> np.ndarray:
        """Loss at given times >= 0, of any shape."""
        given = convert(numpy_namespace(t=t), "t", t)
        require(numpy_namespace(t=t), "t", given, *TIME)
        learned = np.isfinite(self.times)
        settings = {**self._settings, "eigenvalue": self._settings["eigenvalue"][learned]}
        value = head_growth(given[..., None] - self.times[learned], **settings)
        share = (value / self._values[learned]) ** 3
        drops = (self.losses[:-1] - self.losses[1:])[learned]
        return self.losses[0] - np.sum(drops * share * (2 - share), axis=-1)


def separate_attention_staircase(
    value: Any,
    key: Any,
    query: Any,
    *,
    eigenvalues: Any,
    context: Any,
    noise_variance: Any = 0.0,
) -> Staircase:
    r"""Predict plateaus and drops of separate attention from its initial weights.

    Parameters
    ----------
    value : array (H,)
        Initial value weights of the heads.
    key, query : array (H, R, D) or (H, D)
        Initial key and query weights in the eigenbasis of :math:`\Lambda`, those that see the
        inputs.
    eigenvalues : array (D,)
        Eigenvalues of :math:`\Lambda`, > 0, in the order of the last axis of ``key``.
    context : number >= 1
        Number N of context pairs.
    noise_variance : number >= 0
        Variance of the label noise.

    Returns
    -------
    Staircase
        Times, heights and ``loss(t)``.  The smaller the weights the better: at values of 0.02,
        D = 4, the times of the first three drops are right to 2 %, at 0.0002 to 0.03 %.

    Raises
    ------
    ValueError
        If an argument is outside its range or shapes do not match.
    TypeError
        If an argument is not a number or a NumPy array.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), section 4, have the escape time of one aligned head; the rest
    is derived in `iclimit.asymptotics.dynamics.staircase`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import separate_attention_staircase
    >>> steps = separate_attention_staircase(
    ...     [0.01, 0.01], [[0.01, 0], [0, 0.01]], [[0.01, 0], [0, 0.01]],
    ...     eigenvalues=[1, 0.5], context=31,
    ... )
    >>> steps.times.round(2), steps.heads
    (array([100., 400.]), array([0, 1]))
    >>> steps.loss([0, 200, 500]).round(3)
    array([1.5  , 0.575, 0.132])
    """
    lam = _given("eigenvalues", eigenvalues, (None,))
    v = _given("value", value, (None,))
    k, q = (
        _given(name, each, (len(v),) + (None,) * (np.ndim(each) == 3) + (len(lam),))
        for name, each in (("key", key), ("query", query))
    )
    if k.shape != q.shape:
        raise ValueError(f"query must have the shape {k.shape} of key, got {q.shape}")
    order = np.argsort(-lam, kind="stable")
    lam = lam[order]
    k, q = (each.reshape(len(v), -1, len(lam))[..., order] for each in (k, q))
    sizes = {"context": context, "noise_variance": noise_variance}
    losses = plateau_losses(lam, **sizes)
    settings = {"eigenvalue": lam, "trace": float(np.sum(lam)), **sizes}
    values = plateau_head_values(lam, **sizes)
    times, heads = _escapes(v, k, q, lam**2)
    half = time_from_pole(HALF * values, **settings)
    return Staircase(times, times + half, heads, losses, settings, values)


def _given(name: str, value: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return an array of finite floats of that shape; None stands for any size."""
    math_ = numpy_namespace(**{name: value})
    array = np.asarray(convert(math_, name, value), dtype=float)
    fits = len(array.shape) == len(shape) and all(
        size >= 1 if wanted is None else size == wanted
        for size, wanted in zip(array.shape, shape, strict=True)
    )
    if not fits:
        wanted = str(shape).replace("None", "any")
        raise ValueError(f"{name} must have shape {wanted}, got {array.shape}")
    require(math_, name, array, np.isfinite, "finite")
    return array


def _escapes(
    v: np.ndarray, k: np.ndarray, q: np.ndarray, rates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Escape time and head of each direction, for rates in descending order."""
    rank, dim = k.shape[1:]
    growing, falling = (np.sum((k + sign * q) ** 2, axis=1) / 4 for sign in (1, -1))
    times, heads = np.full(dim, np.inf), np.full(dim, -1)
    left, rates, now = np.arange(len(v)), rates.copy(), 0.0
    for first in range(0, dim, rank):
        scale = np.sqrt(np.max(v**2 + np.sum(growing + falling, axis=-1), initial=0))
        if scale == 0:
            break
        rate = rates / rates[first]
        up, down = growing / scale**2, falling / scale**2
        waited, s, velocity = _wait(v / scale, up, down, rate)
        if waited == np.inf:
            break
        winner = int(np.argmax(np.abs(velocity)))
        now += waited / (rates[first] * scale)
        learned = slice(first, first + rank)
        times[learned], heads[learned] = now, left[winner]
        factor = np.exp(2 * rate * s[:, None])
        others = np.arange(len(left)) != winner
        growing, falling = (growing * factor)[others], (falling / factor)[others]
        v, left = scale * velocity[others], left[others]
        rates[learned] = 0
    return times, heads


def _wait(
    v: np.ndarray, up: np.ndarray, down: np.ndarray, rate: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """Time until the first particle is at infinity, with places and velocities shortly before."""
    count = len(v)

    def motion(_: float, state: np.ndarray) -> np.ndarray:
        s, velocity = state[:count], state[count:]
        factor = np.exp(2 * rate * s[:, None])
        return np.concatenate([velocity, (up * factor - down / factor) @ rate])

    def escaped(_: float, state: np.ndarray) -> float:
        return float(np.max(np.abs(state[count:]))) - ESCAPED

    escaped.terminal = True  # type: ignore[attr-defined]
    found = solve_ivp(
        motion, (0, PATIENCE), np.concatenate([0 * v, v]), method="DOP853", rtol=TOLERANCE,
        atol=TOLERANCE, events=escaped,
    )  # fmt: skip
    s, velocity = np.split(found.y[:, -1], 2)
    if found.status != 1:
        return np.inf, s, velocity
    # Close to infinity the largest direction alone matters: dv/dt = v^2.
    return float(found.t[-1] + 1 / np.max(np.abs(velocity))), s, velocity
