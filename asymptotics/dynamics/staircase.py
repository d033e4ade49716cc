r"""The staircase of separate attention, predicted from its initial weights.

While the weights are small, a head with value v and R keys :math:`k_r` and queries :math:`q_r`
moves by itself: in the eigenbasis of :math:`\Lambda`, with the residual
:math:`R_d = \lambda_d^2` in the directions that are not learned yet and 0 in the others,

.. math:: \tau \dot v = \sum_{rd} R_d\, k_{rd}\, q_{rd}, \qquad
   \tau \dot k_{rd} = v R_d\, q_{rd}, \qquad \tau \dot q_{rd} = v R_d\, k_{rd} .

In the variable :math:`s = \int v\, dt/\tau` keys and queries are
:math:`k \pm q \propto e^{\pm R_d s}`.  So the head reduces to a particle on a line,

.. math:: \ddot s = \sum_d R_d \bigl( p_d e^{2 R_d s} - m_d e^{-2 R_d s} \bigr), \qquad
   p_d, m_d = \tfrac14 \sum_r (k_{rd} \pm q_{rd})^2,

that starts at 0 with the velocity v and reaches plus or minus infinity in finite time.  The head
that does so first learns the largest of the remaining directions; if its rank is one, its weights
in the other directions die out.  The drop is short compared with the wait before it.  The residual
of the learned direction is therefore set to zero at once, and the other heads go on from where
they are.  If eigenvalues are equal, the head learns its own direction in their eigenspace.

*Rank above one.*  Such a head has rows that are not in use yet.  Its weights in the other
directions, orthogonal to the rows in use, go on growing as :math:`e^{\lambda_d^2 s}`.  The speed
is now :math:`\dot s = (\sum_j 1/A_j)^{1/3}`, the value of a head that has learned the
directions j, :math:`A_j = \lambda_j c_j`.  Let b be the amplitude of the head in a direction.  Its
learned share
:math:`y = A_d v b^2` is then logistic, :math:`\dot y = 2 v \lambda_d^2\, y (1 - y)`, and starts
from its size in the first growth.  So a head of rank R learns R directions in a time of the order
:math:`\ln(1/\mathrm{scale})`, and the long plateaus are those at multiples of R.

The prediction holds for small initial weights.  The waits are of the order
1/(scale :math:`\lambda^2`).  Their errors are of the order of the duration of a drop and do not
grow with the wait.  Eigenvalues should be equal or differ clearly, as the flow takes a time of
:math:`1/(\lambda_1^2 - \lambda_2^2)` to tell two directions apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import expit, logit

from iclimit.asymptotics.checks import checked, real_array
from iclimit.asymptotics.dynamics.growth import head_growth, time_from_pole
from iclimit.asymptotics.dynamics.plateaus import (
    PredictedTraining,
    plateau_head_values,
    plateau_losses,
)
from iclimit.asymptotics.numbers import Number, Value
from iclimit.checks import check_shape

# A head has escaped when its value has grown by this factor.
ESCAPED = 1e6

# The integration gives up after this wait, in units of 1/(scale lambda^2) for the largest
# direction that a head can grow in.  Steps grow with the wait, so that a long one costs nothing.
PATIENCE = 1e30

# Share of the final weights at which half of the drop has happened.
HALF = 1 - math.sqrt(0.5)

# When a head of amplitude b at s = 0 has learned its first direction, lambda^2 s is lambda^2 v_1 t
# minus this constant and minus ln(b/v_1), with t counted from the pole.
LAG = math.log(3) / 2 - math.pi / (6 * math.sqrt(3)) - 1

# Relative differences of eigenvalues and sizes of weights below this count as rounding.
SAME = 1e-9


@dataclass(frozen=True, eq=False, repr=False)
class Staircase(PredictedTraining):
    """Predicted course of the training of separate attention.

    Attributes
    ----------
    times : ndarray (D,)
        Time at which the head that learns a direction would reach infinity, in units of the time
        constant; infinite for directions that are never learned.  Directions are in descending
        order of the eigenvalues, equal ones in the order in which they are learned.  All
        directions that one head of rank R learns have the same time.
    drop_times : ndarray (D,)
        Time at which half of the drop of a direction has happened.  A head of rank above one
        learns several directions; the delays after its first are right to a few per cent.
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
    _speeds: np.ndarray = field(repr=False)

    @property
    def waits(self) -> bool:
        """Whether heads wait for longer than they learn, without which no prediction holds."""
        return bool(np.all(self.drop_times >= self.times / 2))

    @property
    def end(self) -> float:
        """Time beyond the last drop."""
        ends = np.maximum(self.times, self.drop_times)
        return 1.3 * float(ends[np.isfinite(ends)].max())

    @property
    def drops(self) -> np.ndarray:
        """Times of the drops of this run, in their order."""
        return np.sort(self.drop_times[np.isfinite(self.drop_times)])

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for each plateau, with the drop before it."""
        columns = {
            "learned": range(len(self.losses)),
            "loss": self.losses.tolist(),
            "eigenvalue": [None, *self._settings["eigenvalue"].tolist()],
            "head": [None, *(head if head >= 0 else None for head in self.heads.tolist())],
            "half_drop_time": [None, *self.drop_times.tolist()],
        }
        return [
            dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)
        ]

    def loss(self, t: Number) -> np.ndarray:
        """Loss at given times >= 0, of any shape, infinity included."""
        _, values = checked(systems="numpy", t=t)
        t = values.t
        share = np.zeros((*t.shape, len(self.times)))
        first = np.isfinite(self.times) & (self._speeds == 0)
        settings = {**self._settings, "eigenvalue": self._settings["eigenvalue"][first]}
        value = head_growth(t[..., None] - self.times[first], **settings)
        share[..., first] = (value / self._values[first]) ** 3
        later = self._speeds > 0
        since = t[..., None] - self.drop_times[later]
        share[..., later] = expit(logit(HALF) + self._speeds[later] * since)
        return loss_at_shares(self.losses, share)


def loss_at_shares(losses: Value, share: Value) -> Value:
    """Loss from those at the plateaus (..., D + 1) and the shares (..., D) that are learned."""
    drops = losses[..., :-1] - losses[..., 1:]
    return losses[..., -1] + np.sum(drops * (1 - share) ** 2, axis=-1)


def separate_attention_staircase(
    value: Number,
    *,
    key: Number,
    query: Number,
    eigenvalues: Number,
    context: int | float,
    noise_variance: float = 0,
    rtol: float = 1e-11,
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
        Eigenvalues of :math:`\Lambda`, > 0, with squares in the range of float64, in the order of
        the last axis of ``key``.
    context : number >= 1
        Number N of context pairs.
    noise_variance : number >= 0
        Variance of the label noise.
    rtol : number from 1e-12 to 1e-3
        Relative tolerance of the integration of the waits.  At 1e-5, where it takes a third of the
        time, half-drop times have been right to 1e-5.

    Returns
    -------
    Staircase
        Times, heights and ``loss(t)``.

    Raises
    ------
    ValueError
        If an argument is outside its range, if shapes do not match, or if the weights are so small
        that a time exceeds the range of float64.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If the integration gives up before the next head escapes.

    Notes
    -----
    The smaller the weights, the better the prediction.  With four heads of rank one, D = 4 and
    eigenvalues 4:3:2:1, it meets the half-drop times of the flow to 1 % for weights of the order
    0.01 (median over random starts; worst 21 %), and to 0.01 % for 0.0001 (worst 0.04 %).  Weights
    of order one are outside the range: predicted drops can then come before time zero.

    References
    ----------
    Zhang et al. (arXiv:2501.16265), section 4, have the escape time of one aligned head; the rest
    is derived in `iclimit.asymptotics.dynamics.staircase`.

    Examples
    --------
    >>> from iclimit.asymptotics.dynamics import separate_attention_staircase
    >>> steps = separate_attention_staircase(
    ...     [0.01, 0.01], key=[[0.01, 0], [0, 0.01]], query=[[0.01, 0], [0, 0.01]],
    ...     eigenvalues=[1, 0.5], context=31,
    ... )
    >>> steps.times.round(2), steps.heads
    (array([100., 400.]), array([0, 1]))
    >>> steps.loss([0, 200, 500]).round(3)
    array([1.5  , 0.575, 0.132])
    """
    _, setting = checked(
        systems="numpy", single=True, context=context, noise_variance=noise_variance, rtol=rtol
    )
    lam = _parse_array("eigenvalues", eigenvalues, (None,))
    v = _parse_array("value", value, (None,))
    order = np.argsort(-lam, kind="stable")
    lam = lam[order]
    k, q = _parse_scores(key, query, len(v), order)
    sizes = {"context": setting.context, "noise_variance": setting.noise_variance}
    values = plateau_head_values(lam, **sizes)
    losses = plateau_losses(lam, **sizes)
    with np.errstate(all="ignore"):
        rates = lam**2
    real_array("squares of eigenvalues", rates, f"[{np.finfo(float).tiny}, inf)")
    settings = {"eigenvalue": lam, "trace": float(np.sum(lam)), **sizes}
    times, heads, amplitudes = _escapes(v, k, q, rates, float(setting.rtol))
    drop_times = times + time_from_pole(HALF ** (1 / 3) * values, **settings)
    speeds = np.zeros(len(lam))
    for head in range(len(v)):
        learned = np.flatnonzero(heads == head)
        if len(learned) > 1:
            later = learned[1:]
            drop_times[later], speeds[later] = _later_drops(
                times[learned[0]], amplitudes[learned], rates[learned], values[learned] ** 3
            )
    return Staircase(times, drop_times, heads, losses, settings, values, speeds)


def _shape_of(value: Value, heads: int, dim: int) -> tuple[int | None, ...]:
    """Shape that keys or queries must have, of one row a head or of several."""
    if np.ndim(value) == 3:
        return (heads, None, dim)
    return (heads, dim)


def _parse_array(name: str, value: Number, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return an array of finite floats of that shape; None stands for any size."""
    array = real_array(name, value, "(-inf, inf)")
    check_shape(name, array, shape)
    return array


def _parse_scores(
    key: Number, query: Number, heads: int, order: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Keys and queries (heads, rank, directions), with the directions in this order."""
    dim = len(order)
    k = _parse_array("key", key, _shape_of(key, heads, dim))
    q = _parse_array("query", query, _shape_of(query, heads, dim))
    if k.shape != q.shape:
        raise ValueError(f"query must have the shape {k.shape} of key, got {q.shape}")
    return k.reshape(heads, -1, dim)[..., order], q.reshape(heads, -1, dim)[..., order]


@dataclass(frozen=True)
class _Escape:
    """Motion of the heads until the first of them is far away.

    Attributes
    ----------
    time, pole : float
        When this is, and when it will be at infinity.
    places : ndarray (heads, directions)
        Exponents by which weights have grown.
    velocities : ndarray (heads,)
        Of each head, in units of the size.
    size : float
        Largest weight at first.
    """

    time: float
    pole: float
    places: np.ndarray
    velocities: np.ndarray
    size: float


@dataclass(frozen=True)
class _Heads:
    """Heads that have learned nothing so far.

    Attributes
    ----------
    numbers : ndarray (heads,)
        Which ones they are.
    v : ndarray (heads,)
        Values.
    weights : ndarray (2, heads, rank, directions)
        Those that grow for v > 0, and those that grow for v < 0.
    """

    numbers: np.ndarray
    v: np.ndarray
    weights: np.ndarray

    def chosen(self, which: np.ndarray) -> _Heads:
        """Those for which a mask is true."""
        return _Heads(self.numbers[which], self.v[which], self.weights[:, which])

    def after(self, escape: _Escape) -> _Heads:
        """The same heads at the end of their motion."""
        # Weights that are zero stay zero, whatever the exponential.
        exponents = np.stack([escape.places, -escape.places])[:, :, None]
        weights = self.weights.copy(order="K")
        weights *= np.exp(np.where(weights == 0, 0, exponents))
        return _Heads(self.numbers, escape.size * escape.velocities, weights)

    def without(self, head: int) -> _Heads:
        """All but one of them."""
        return _Heads(
            np.delete(self.numbers, head),
            np.delete(self.v, head),
            np.delete(self.weights, head, axis=1),
        )


def _first_escape(
    heads: _Heads,
    now: float,
    moves: np.ndarray,
    missing: np.ndarray,
    rates: np.ndarray,
    rtol: float,
) -> _Escape:
    """Follow the heads that move from now on, driven by the missing directions."""
    v = heads.v
    own = heads.weights[:, moves][..., missing]
    size = float(np.max(np.abs(v[moves])))
    size = max(size, float(np.max(np.abs(own))))
    # Directions in which no head has weights do not affect the wait.
    used = np.any(own != 0, axis=(0, 1, 2))
    seen = missing[used]
    rate = rates[seen] / rates[seen[0]]
    waited, rest, place, speed = _wait(v[moves] / size, own[..., used] / size, rate, rtol)
    with np.errstate(over="ignore"):
        waited = waited / size / rates[seen[0]]
        rest = rest / size / rates[seen[0]]
    time = now + waited
    pole = time + rest
    if not np.isfinite(pole):
        raise ValueError(
            f"value, key and query must be so large that times fit into float64, got {size}"
        )
    places = np.zeros((len(v), len(rates)))
    velocities = np.zeros(len(v))
    places[np.ix_(moves, seen)] = np.outer(place, rate)
    velocities[moves] = speed
    return _Escape(time, pole, places, velocities, size)


def _escapes(
    v: np.ndarray, k: np.ndarray, q: np.ndarray, rates: np.ndarray, rtol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Escape time and head of each direction, for rates in descending order.

    The last result is the amplitudes of the directions that a head learns, all at one s.
    """
    remaining = _Heads(np.arange(len(v)), v, np.stack([k + q, k - q]) / 2)
    times = np.full(rates.shape, np.inf)
    heads = np.full(rates.shape, -1)
    amplitudes = np.zeros(rates.shape)
    missing = np.arange(len(rates))
    now = 0.0
    while len(missing):
        grows, rests = _fates(remaining.v, remaining.weights[..., missing], rates[missing])
        remaining = remaining.chosen(grows)
        moves = ~rests[grows]
        if not np.any(moves):
            break
        escape = _first_escape(remaining, now, moves, missing, rates, rtol)
        now = escape.time
        remaining = remaining.after(escape)
        winner = int(np.argmax(np.abs(escape.velocities)))
        own = remaining.weights[int(escape.velocities[winner] < 0), winner]
        learned = _learn(remaining.weights, own, rates, missing)
        directions = list(learned)
        times[directions] = escape.pole
        heads[directions] = remaining.numbers[winner]
        amplitudes[directions] = list(learned.values())
        missing = np.setdiff1d(missing, directions)
        remaining = remaining.without(winner)
    return times, heads, amplitudes


def _fates(v: np.ndarray, weights: np.ndarray, rates: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which heads can ever grow, also when fewer directions are missing, and which are at rest.

    A particle does not escape if it runs where its potential is flat or stops on top of the hill.
    """
    size = np.maximum(np.abs(v), np.max(np.abs(weights), axis=(0, 2, 3)))
    size[size == 0] = 1
    hills = np.sum((weights / size[:, None, None]) ** 2, axis=2)
    ahead = np.stack([v, -v]) >= 0
    flat = np.all(weights == 0, axis=(2, 3))
    stays = ahead & flat & ((v / size) ** 2 >= (1 - SAME) * np.sum(hills[::-1], axis=2))
    rate = np.where(np.any(weights != 0, axis=(0, 2)), rates, 0)
    largest = np.max(rate, axis=1, keepdims=True)
    force = np.sum((hills[0] - hills[1]) * rate / np.where(largest > 0, largest, 1), axis=1)
    return ~np.any(stays, axis=0), (v == 0) & (force == 0)


def _learn(
    weights: np.ndarray, winner: np.ndarray, rates: np.ndarray, missing: np.ndarray
) -> dict[int, float]:
    """Directions that the winner learns, with their amplitudes, the largest eigenvalues first.

    In an eigenspace all weights are rotated, in place, to the axes of those of the winner.
    """
    rank = len(winner)
    rows = np.zeros((rank, 0))
    learned: dict[int, float] = {}
    while len(missing) and len(learned) < rank:
        space = missing[rates[missing] > (1 - SAME) * rates[missing[0]]]
        missing = missing[len(space) :]
        own = winner[:, space]
        axes, sizes, turn = np.linalg.svd(own - rows @ (rows.T @ own))
        weights[..., space] = weights[..., space] @ turn.T
        sizes = sizes[sizes > SAME * np.linalg.norm(own)][: rank - len(learned)]
        learned.update(zip(space.tolist(), sizes.tolist(), strict=False))
        rows = np.hstack([rows, axes[:, : len(sizes)]])
    return learned


def _wait(
    v: np.ndarray, weights: np.ndarray, rate: np.ndarray, rtol: float
) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Time until the first particle is far away, from there to infinity, places and velocities."""
    with np.errstate(divide="ignore"):
        logs = 2 * np.log(np.hypot.reduce(np.abs(weights), axis=2))
    slopes = np.stack([2 * rate, -2 * rate])[:, None]

    def force(s: np.ndarray) -> np.ndarray:
        # Trial steps beyond the pole may overflow.
        ups, downs = np.exp(np.minimum(logs + slopes * s[:, None], 600))
        return (ups - downs) @ rate

    def motion(_: float, state: np.ndarray) -> np.ndarray:
        return np.concatenate([state[len(v) :], force(state[: len(v)])])

    def escaped(_: float, state: np.ndarray) -> float:
        return float(np.max(np.abs(state[len(v) :]))) - ESCAPED

    escaped.terminal = True  # type: ignore[attr-defined]
    solution = solve_ivp(
        motion,
        (0, PATIENCE),
        np.concatenate([0 * v, v]),
        method="DOP853",
        rtol=rtol,
        atol=rtol,
        events=escaped,
    )
    s, velocity = np.split(solution.y[:, -1], 2)
    if solution.status != 1:
        raise ArithmeticError(
            "the staircase gave up: no head has escaped by the time "
            f"{solution.t[-1]:.3g}/(scale lambda^2), though one will"
        )
    # Close to infinity only one direction matters: dv/dt is proportional to v^2.
    winner = np.argmax(np.abs(velocity))
    rest = float(np.abs(velocity[winner] / force(s)[winner]))
    return float(solution.t[-1]), rest, s, velocity


def _later_drops(
    time: float, amplitudes: np.ndarray, rates: np.ndarray, cubes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Half-drop times and logistic rates of the directions that a head learns after its first.

    ``cubes`` are 1/A.  The amplitudes are those at s = 0.
    """
    value = cubes[0] ** (1 / 3)
    # After the first drop s is this plus value (t - time), by the closed form of head_growth.
    s = -(LAG + math.log(amplitudes[0] / value)) / rates[0]
    times = np.zeros(len(rates))
    speeds = np.zeros(len(rates))
    waiting = set(range(1, len(rates)))
    total = cubes[0]
    while waiting:
        half = np.log(HALF / (1 - HALF) * cubes / total ** (1 / 3)) / 2 - np.log(amplitudes)
        j = min(waiting, key=lambda i: half[i] / rates[i])
        waiting.remove(j)
        value = total ** (1 / 3)
        time += (half[j] / rates[j] - s) / value
        s = half[j] / rates[j]
        times[j] = time
        speeds[j] = 2 * value * rates[j]
        total += cubes[j]
    return times[1:], speeds[1:]
