r"""The staircase of separate attention, predicted from its initial weights.

While the weights are small, a head with value v and R keys :math:`k_r` and queries :math:`q_r`
moves by itself: in the eigenbasis of :math:`\Lambda`, with the residual
:math:`R_d = \lambda_d^2` in the directions that are not learned yet and 0 in the others,

.. math:: \tau \dot v = \sum_{rd} R_d\, k_{rd}\, q_{rd}, \qquad
   \tau \dot k_{rd} = v R_d\, q_{rd}, \qquad \tau \dot q_{rd} = v R_d\, k_{rd} .

In the variable :math:`s = \int v\, dt/\tau` keys and queries are
:math:`k \pm q \propto e^{\pm R_d s}`, and what is left is a particle on a line,

.. math:: \ddot s = \sum_d R_d \bigl( p_d e^{2 R_d s} - m_d e^{-2 R_d s} \bigr), \qquad
   p_d, m_d = \tfrac14 \sum_r (k_{rd} \pm q_{rd})^2,

that starts at 0 with the velocity v and reaches plus or minus infinity in finite time.  The head
that does so first learns the largest of the remaining directions: among the others, the weights
of a head of rank one die out.  This takes no time compared with the wait, so that the residual
vanishes there at once, and the other heads go on from where they are.  If eigenvalues are equal,
the direction learned is that of the head in their eigenspace.

*Rank above one.*  What such a head has in other directions, orthogonal to the rows that are in
use, goes on growing as :math:`e^{\lambda_d^2 s}`, now with the speed
:math:`\dot s = (\sum_j 1/A_j)^{1/3}`, the value of a head that has learned the directions j,
:math:`A_j = \lambda_j c_j`.  The learned share :math:`y = A_d v b^2` of a direction of which the
head has the amplitude b is then logistic, :math:`\dot y = 2 v \lambda_d^2\, y (1 - y)`, and starts
from its size in the first growth.  So a head of rank R learns R directions in a time of the order
:math:`\ln(1/\mathrm{scale})`, and the long plateaus are those at multiples of R.

The prediction holds for small initial weights: the waits are of the order
1/(scale :math:`\lambda^2`), with errors of the order of the drops themselves, which do not grow
with the wait.  Eigenvalues should be equal or differ clearly: near ties take
:math:`1/(\lambda_1^2 - \lambda_2^2)` to be resolved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import expit, logit

from iclimit.asymptotics.dynamics.growth import head_growth, time_from_pole
from iclimit.asymptotics.dynamics.inputs import TIME
from iclimit.asymptotics.dynamics.plateaus import plateau_head_values, plateau_losses
from iclimit.asymptotics.numbers import convert, numpy_namespace, require

ESCAPED = 1e6
"""A value so many times the initial weights is on its way to infinity."""

PATIENCE = 1e30
"""Longest wait, in units of 1/(scale lambda^2) for the largest direction that a head can grow in,
at which the integration gives up.  Steps grow with the wait, so that it costs nothing."""

HALF = 1 - math.sqrt(0.5)
"""Share of the final weights at which half of the drop has happened."""

LAG = math.log(3) / 2 - math.pi / (6 * math.sqrt(3)) - 1
"""When a head has learned its first direction, lambda^2 s is lambda^2 v_1 t minus this and minus
ln(b/v_1), with the amplitude b at s = 0 and t from the pole."""

SAME = 1e-9
"""Relative difference of eigenvalues, or size of weights, that is taken for rounding."""

TOLERANCE = 1e-11
"""Relative tolerance of the integration."""


@dataclass(frozen=True, eq=False)
class Staircase:
    """Predicted course of the training of separate attention.

    Attributes
    ----------
    times : ndarray (D,)
        Time at which the head that learns a direction would reach infinity, in units of the time
        constant; infinite for directions that no head is left for or that none ever grows in.
        Directions come in descending order of the eigenvalues, equal ones in the order in which
        they are learned.  Directions that one head of rank R learns have the same time.
    drop_times : ndarray (D,)
        Time at which half of the drop of a direction has happened.  For the directions that a
        head of rank above one learns after its first, the delay is right to some per cent.
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

    def loss(self, t: Any) -> np.ndarray:
        """Loss at given times >= 0, of any shape, infinity included."""
        given = convert(numpy_namespace(t=t), "t", t)
        require(numpy_namespace(t=t), "t", given, *TIME)
        share = np.zeros((*given.shape, len(self.times)))
        first = np.isfinite(self.times) & (self._speeds == 0)
        settings = {**self._settings, "eigenvalue": self._settings["eigenvalue"][first]}
        value = head_growth(given[..., None] - self.times[first], **settings)
        share[..., first] = (value / self._values[first]) ** 3
        later = self._speeds > 0
        since = given[..., None] - self.drop_times[later]
        share[..., later] = expit(logit(HALF) + self._speeds[later] * since)
        drops = self.losses[:-1] - self.losses[1:]
        return self.losses[-1] + np.sum(drops * (1 - share) ** 2, axis=-1)


def separate_attention_staircase(
    value: Any, key: Any, query: Any, *, eigenvalues: Any, context: Any, noise_variance: Any = 0.0
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

    Returns
    -------
    Staircase
        Times, heights and ``loss(t)``.

    Raises
    ------
    ValueError
        If an argument is outside its range or shapes do not match, or weights are so small that
        a time exceeds the range of float64.
    TypeError
        If an argument is not a number or a NumPy array.
    ArithmeticError
        If the integration gives up before a head escapes that will.

    Notes
    -----
    The smaller the weights the better.  For four heads of rank one, D = 4 and eigenvalues
    4:3:2:1, half-drop times of the flow are met to 1 % (median over random starts; worst 21 %) for
    weights of the order 0.01, to 0.01 % (worst 0.04 %) for 0.0001.  Weights of order one are
    outside the range: drops can then come out before time zero.

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
    for name, size in sizes.items():
        _given(name, size, ())
    values, losses = plateau_head_values(lam, **sizes), plateau_losses(lam, **sizes)
    math_ = numpy_namespace(eigenvalues=lam)
    with math_.quiet():
        rates = lam**2
    normal = np.finfo(float).tiny
    require(
        math_,
        "squares of eigenvalues",
        rates,
        lambda x: (x >= normal) & (x < np.inf),
        f">= {normal:.2g} and finite",
    )
    settings = {"eigenvalue": lam, "trace": float(np.sum(lam)), **sizes}
    times, heads, amplitudes = _escapes(v, k, q, rates)
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
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Escape time and head of each direction, for rates in descending order.

    The last result are the amplitudes of the directions that a head learns, all at one s.
    """
    dim = k.shape[-1]
    up, down = (k + q) / 2, (k - q) / 2
    times, heads, amplitudes = np.full(dim, np.inf), np.full(dim, -1), np.zeros(dim)
    missing, left, now = np.arange(dim), np.arange(len(v)), 0.0
    while len(missing):
        grows, rests = _fates(v, up[..., missing], down[..., missing], rates[missing])
        v, up, down, left, moves = (x[grows] for x in (v, up, down, left, ~rests))
        if not np.any(moves):
            break
        own = v[moves], up[moves][..., missing], down[moves][..., missing]
        size = max(float(np.max(np.abs(x))) for x in own)
        # A direction in which no head has weights says nothing about the wait.
        used = np.any((own[1] != 0) | (own[2] != 0), axis=(0, 1))
        seen = missing[used]
        rate = rates[seen] / rates[seen[0]]
        waited, rest, place, speed = _wait(
            own[0] / size, own[1][..., used] / size, own[2][..., used] / size, rate
        )
        with np.errstate(over="ignore"):
            waited, rest = (x / size / rates[seen[0]] for x in (waited, rest))
        now, pole = now + waited, now + waited + rest
        if not np.isfinite(pole):
            raise ValueError(
                f"value, key and query must be so large that times fit into float64, got {size}"
            )
        s, velocity = np.zeros((len(left), dim)), np.zeros(len(left))
        s[np.ix_(moves, seen)] = np.outer(place, rate)
        velocity[moves] = speed
        up, down = _grow(up, s[:, None]), _grow(down, -s[:, None])
        winner = int(np.argmax(np.abs(velocity)))
        learned = _learn(up, down, up if velocity[winner] > 0 else down, winner, rates, missing)
        times[list(learned)], heads[list(learned)] = pole, left[winner]
        amplitudes[list(learned)] = list(learned.values())
        missing = np.setdiff1d(missing, list(learned))
        others = np.arange(len(left)) != winner
        v, left = size * velocity[others], left[others]
        up, down = up[others], down[others]
    return times, heads, amplitudes


def _fates(
    v: np.ndarray, up: np.ndarray, down: np.ndarray, rates: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Which heads can ever grow, also when fewer directions are missing, and which are at rest.

    A particle runs for ever where its potential is flat, and stays on top of the hill.
    """
    weights = np.concatenate([up, down], axis=1)
    size = np.maximum(np.abs(v), np.max(np.abs(weights), axis=(1, 2)))
    size[size == 0] = 1
    p, m = (np.sum((each / size[:, None, None]) ** 2, axis=1) for each in (up, down))
    square = (v / size) ** 2
    away = [
        np.all(flat == 0, axis=(1, 2)) & (sign * v >= 0) & (square >= (1 - SAME) * np.sum(hill, 1))
        for flat, hill, sign in ((up, m, 1), (down, p, -1))
    ]
    rate = np.where(np.any(weights != 0, axis=1), rates, 0)
    largest = np.max(rate, axis=1, keepdims=True)
    force = np.sum((p - m) * rate / np.where(largest > 0, largest, 1), axis=1)
    return ~(away[0] | away[1]), (v == 0) & (force == 0)


def _grow(weights: np.ndarray, exponent: np.ndarray) -> np.ndarray:
    """Weights times the exponential, which may overflow where they are zero."""
    return weights * np.exp(np.where(weights == 0, 0, exponent))


def _learn(
    up: np.ndarray,
    down: np.ndarray,
    weights: np.ndarray,
    winner: int,
    rates: np.ndarray,
    missing: np.ndarray,
) -> dict[int, float]:
    """Directions that the winner learns, with their amplitudes, the largest eigenvalues first.

    In an eigenspace all weights are rotated, in place, to the axes of those of the winner.
    """
    rank = up.shape[1]
    rows = np.zeros((rank, 0))
    learned: dict[int, float] = {}
    while len(missing) and len(learned) < rank:
        space = missing[rates[missing] > (1 - SAME) * rates[missing[0]]]
        missing = missing[len(space) :]
        own = weights[winner][:, space]
        free = own - rows @ (rows.T @ own)
        axes, sizes, turn = np.linalg.svd(free)
        for each in (up, down):
            each[..., space] = each[..., space] @ turn.T
        sizes = sizes[sizes > SAME * np.linalg.norm(own)][: rank - len(learned)]
        learned.update(zip(space.tolist(), sizes.tolist(), strict=False))
        rows = np.hstack([rows, axes[:, : len(sizes)]])
    return learned


def _wait(
    v: np.ndarray, up: np.ndarray, down: np.ndarray, rate: np.ndarray
) -> tuple[float, float, np.ndarray, np.ndarray]:
    """Time until the first particle is far away, time from there to infinity, state in between.

    The state are the places s and the velocities.
    """
    count = len(v)
    with np.errstate(divide="ignore"):
        logs = np.stack([2 * np.log(np.hypot.reduce(np.abs(each), axis=1)) for each in (up, down)])
    slopes = np.stack([2 * rate, -2 * rate])[:, None]

    def force(s: np.ndarray) -> np.ndarray:
        # Trial steps beyond the pole may overflow.
        ups, downs = np.exp(np.minimum(logs + slopes * s[:, None], 600))
        return (ups - downs) @ rate

    def motion(_: float, state: np.ndarray) -> np.ndarray:
        return np.concatenate([state[count:], force(state[:count])])

    def escaped(_: float, state: np.ndarray) -> float:
        return float(np.max(np.abs(state[count:]))) - ESCAPED

    escaped.terminal = True  # type: ignore[attr-defined]
    found = solve_ivp(
        motion,
        (0, PATIENCE),
        np.concatenate([0 * v, v]),
        method="DOP853",
        rtol=TOLERANCE,
        atol=TOLERANCE,
        events=escaped,
    )
    s, velocity = np.split(found.y[:, -1], 2)
    if found.status != 1:
        raise ArithmeticError(
            "the staircase gave up: no head has escaped at the time "
            f"{found.t[-1]:.3g}/(scale lambda^2), though one will"
        )
    # Close to infinity one direction matters: dv/dt is proportional to v^2.
    winner = np.argmax(np.abs(velocity))
    rest = float(np.abs(velocity[winner] / force(s)[winner]))
    return float(found.t[-1]), rest, s, velocity


def _later_drops(
    time: float, amplitudes: np.ndarray, rates: np.ndarray, cubes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Times of half of the drop, and logistic rates, of what a head learns after its first.

    ``cubes`` are 1/A.  The variable s is counted from where the amplitudes are given.
    """
    value = cubes[0] ** (1 / 3)
    # After the first drop s is this plus value (t - time), by the closed form of head_growth.
    s = -(LAG + math.log(amplitudes[0] / value)) / rates[0]
    times, speeds = np.zeros(len(rates)), np.zeros(len(rates))
    waiting = [*range(1, len(rates))]
    total = cubes[0]
    while waiting:
        half = np.log(HALF / (1 - HALF) * cubes / total ** (1 / 3)) / 2 - np.log(amplitudes)
        j = min(waiting, key=lambda i: half[i] / rates[i])
        waiting.remove(j)
        value = total ** (1 / 3)
        time += (half[j] / rates[j] - s) / value
        s = half[j] / rates[j]
        times[j], speeds[j] = time, 2 * value * rates[j]
        total += cubes[j]
    return times[1:], speeds[1:]
