r"""One pass of SGD over fresh prompts of fixed tasks: the exact recursion of a task set.

The setting is that of `iclimit.asymptotics.pretraining.one_pass`, but for tasks, which are drawn
from the k rows of a matrix.  With :math:`R = E h h^\top` and :math:`A = E w h^\top` over these
prompts, :math:`t = 2\eta/d` and the means over runs :math:`\bar\Gamma = E \Gamma`,
:math:`G = E \Gamma^\top \Gamma`, a step on B prompts takes

.. math::

   \bar\Gamma &\to \bar\Gamma - t (\bar\Gamma R - A), \\
   G &\to G - t (GR - \bar\Gamma^\top A + \text{transpose})
     + t^2 (1 - \tfrac1B) (R G R - R \bar\Gamma^\top A - A^\top \bar\Gamma R + A^\top A)
     + \tfrac{t^2}B \bigl[(d + 2)\, E |\Gamma h - w|^2 h h^\top + \rho d^2 R\bigr],

which closes: prompts of a step are independent of :math:`\Gamma`.  The error on a law of tests
with matrices :math:`R', A'` and the mean label variance v' is
:math:`v' + [\operatorname{tr} G R' - 2 \operatorname{tr} \bar\Gamma^\top A']/d`.

For a task :math:`w = |w| \hat u` a context is :math:`h = a p + b e + c \zeta` with
:math:`p = (\hat u, 0)`, the last unit vector e, a normal vector :math:`\zeta` across both, and
numbers a, b, c whose moments are those of `one_pass_moments`.  With the projection :math:`\Pi` on
what is across and :math:`h_0 = a p + b e`,

.. math:: E_\zeta\, (h^\top G h)\, h h^\top = (h_0^\top G h_0 + c^2 \operatorname{tr} \Pi G)
   (h_0 h_0^\top + c^2 \Pi) + 2 c^2 (h_0 h_0^\top G \Pi + \Pi G h_0 h_0^\top)
   + 2 c^4\, \Pi G \Pi .

**Stable rates.**  With :math:`D(G) = GR + RG` and the positive map

.. math:: Q(G) = (1 - \tfrac1B)\, R G R + \tfrac{d + 2}B\, E (h^\top G h)\, h h^\top

a step takes the part of G that depends on nothing else to :math:`G - t D(G) + t^2 Q(G)`.  Both
maps are self-adjoint, so it grows without bound from :math:`1/t` on that is the largest eigenvalue
of :math:`D^{-1/2} Q D^{-1/2}`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from iclimit.asymptotics.checks import real_array, real_number, require_whole
from iclimit.asymptotics.pretraining.deterministic_equivalent import SummaryLaw, fresh_task_law
from iclimit.asymptotics.pretraining.one_pass import require_stable
from iclimit.checks import check_integers, check_shape
from iclimit.results import Result

# Most steps: one of them takes 0.2 ms at d = 16 and k = 16, and grows as (k + d) d^2.
_MOST_STEPS = 1_000_000

# Sums of eigenvalues of R below this share of the largest are rounding.
_ROUNDING = 1e-14

# Ways to contract 0, 1, 2 pairs of so many equal normal factors.
_CONTRACTIONS = ((1,), (1,), (1, 1), (1, 3), (1, 6, 3))


@dataclass(frozen=True, repr=False)
class OnePassTasks(Result):
    """Errors during one pass of SGD over fresh prompts of fixed tasks.

    Attributes
    ----------
    icl : ndarray
        Mean over runs of the squared error on a noisy query label: fresh tasks on the sphere.
    idg : ndarray
        The same for the tasks of the pretraining.
    """

    icl: np.ndarray
    idg: np.ndarray


def one_pass_task_errors(
    *,
    steps: int | Sequence[int],
    task_set: np.ndarray,
    context: int,
    batch: int,
    rho: float,
    learning_rate: float | None = None,
    rates: Sequence[float] | None = None,
) -> OnePassTasks:
    r"""Mean errors after steps of SGD on fresh prompts of given tasks, exact at any dimension.

    Parameters
    ----------
    steps : integer or array of them >= 0
        Steps of SGD from zero.
    task_set : array (k, d)
        Task vectors of the pretraining, one of which each prompt draws.
    context : int >= 1
        Pairs in a prompt.
    batch : int >= 1
        Fresh prompts in a step, each with one query.
    rho : float >= 0
        Variance of the label noise.
    learning_rate : float > 0, optional
        Constant rate on the mean squared error of a batch.
    rates : sequence of numbers >= 0, optional
        One learning rate for each step instead.

    Returns
    -------
    OnePassTasks
        With fields ``icl`` and ``idg`` of the shape of ``steps``.

    Raises
    ------
    ValueError
        If an argument is outside its range, not one of ``learning_rate`` and ``rates`` is given,
        or the constant rate is unstable.
    TypeError
        If an argument is not a number or an array.
    ArithmeticError
        If the mean over runs overflows: rates of a schedule are too large.

    Notes
    -----
    For a number of tasks, average over task sets: draw them and average the errors.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.one_pass_tasks`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.pretraining import one_pass_task_errors
    >>> w = np.random.default_rng(0).standard_normal((6, 12))
    >>> w *= 12**0.5 / np.linalg.norm(w, axis=1, keepdims=True)
    >>> errors = one_pass_task_errors(
    ...     steps=[0, 30, 300], task_set=w, context=24, batch=12, rho=0.1, learning_rate=0.1
    ... )
    >>> errors.icl.round(3), errors.idg.round(3)
    (array([1.1  , 0.927, 0.968]), array([1.1  , 0.415, 0.37 ]))
    """
    vectors = real_array("task_set", task_set, "(-inf, inf)")
    check_shape("task_set", vectors, (None, None))
    check_integers(least=1, context=context, batch=batch)
    taken = real_array("steps", steps, "[0, inf)")
    require_whole("steps", taken)
    noise = real_number("rho", rho)
    schedule = _schedule(learning_rate, rates, int(np.max(taken, initial=0)))
    fresh = fresh_task_law(vectors.shape[1], context, noise, "sphere")
    moments = TaskSetContexts.of(vectors, context, noise)
    if learning_rate is not None:
        stable = np.asarray(moments.stable_time(batch) * moments.dim / 2)
        require_stable("learning_rate", np.asarray(float(learning_rate)), stable)
    curves = moments.descend(schedule, batch, fresh)[taken.astype(int)]
    return OnePassTasks(curves[..., 0], curves[..., 1])


def _schedule(
    learning_rate: float | None, rates: Sequence[float] | None, steps: int
) -> np.ndarray:
    """Learning rate of each step."""
    if steps > _MOST_STEPS:
        raise ValueError(f"steps must be at most {_MOST_STEPS:,}, got {steps:,}")
    schedule = None if rates is None else real_array("rates", rates, "[0, inf)")
    rate = None if learning_rate is None else real_number("learning_rate", learning_rate)
    if (rate is None) == (schedule is None):
        raise ValueError(
            "learning_rate is one rate for all steps and rates has one for each: pass one of them"
        )
    if schedule is None:
        return np.full(steps, rate)
    if schedule.ndim != 1 or schedule.size < steps:
        raise ValueError(
            f"rates must have one rate for each of {steps} steps, got an array of shape "
            f"{schedule.shape}"
        )
    return schedule[:steps]


@dataclass(frozen=True)
class TaskSetContexts:
    """Contexts of the tasks of a set, and their means over it.

    Attributes
    ----------
    directions : ndarray (k, d + 1)
        Unit vectors of the tasks, with a last entry 0.
    norms : ndarray (k,)
        Their squared norms over d.
    context : int
        Pairs in a prompt.
    rho : float
        Variance of the label noise.
    """

    directions: np.ndarray
    norms: np.ndarray
    context: int
    rho: float

    @classmethod
    def of(cls, tasks: np.ndarray, context: int, rho: float) -> "TaskSetContexts":
        """Of task vectors (k, d); a zero task has any direction."""
        lengths = np.linalg.norm(tasks, axis=1)
        directions = np.zeros((len(tasks), tasks.shape[1] + 1))
        directions[:, :-1] = tasks / np.where(lengths > 0, lengths, 1.0)[:, None]
        directions[lengths == 0, 0] = 1.0
        return cls(directions, lengths**2 / tasks.shape[1], context, rho)

    @property
    def dim(self) -> int:
        return self.directions.shape[1] - 1

    @cached_property
    def _moments(self) -> dict[tuple[int, int, int], np.ndarray]:
        """Moments that were found: every step needs the same ones."""
        return {}

    def moment(self, along: int, label: int, across: int = 0) -> np.ndarray:
        """E a^i b^j c^(2k) of each task."""
        powers = along, label, across
        if powers not in self._moments:
            self._moments[powers] = self._moment(along, label, across)
        return self._moments[powers]

    def _moment(self, along: int, label: int, across: int) -> np.ndarray:
        power = label + across
        scale = self.dim ** (along / 2 + across) / self.context ** (along + label + 2 * across)
        variance = (self.norms + self.rho) ** power
        return scale * variance * self._normal_power(along, power)

    def _normal_power(self, order: int, power: int) -> np.ndarray:
        """E Z^i X^m, where Z is normal with mean sqrt(u) X and variance rho X."""
        mean = np.sqrt(self.norms)
        # Pairs of factors of Z that are contracted: each leaves rho X.
        total = np.zeros_like(mean)
        for pairs, ways in enumerate(_CONTRACTIONS[order]):
            single = order - 2 * pairs
            total += ways * self.rho**pairs * mean**single * self._rising(power + single + pairs)
        return total

    def _rising(self, order: int) -> float:
        """E X^m."""
        return float(np.prod([self.context + 2.0 * i for i in range(order)]))

    def mean_of(
        self, along: np.ndarray, mixed: np.ndarray, last: np.ndarray, across: np.ndarray
    ) -> np.ndarray:
        """Mean over tasks of matrices with such parts in p p', p e' + e p', e e' and Pi."""
        d = self.dim
        p = self.directions
        total = p.T @ ((along - across)[:, None] * p)
        border = p.T @ mixed
        total[d, :] += border
        total[:, d] += border
        total[d, d] += np.sum(last)
        total[range(d), range(d)] += np.sum(across)
        return total / len(p)

    def second(self) -> np.ndarray:
        """R = E h h'."""
        return self.mean_of(
            self.moment(2, 0), self.moment(1, 1), self.moment(0, 2), self.moment(0, 0, 1)
        )

    def cross(self) -> np.ndarray:
        """A = E w h', shape (d, d + 1)."""
        length = np.sqrt(self.dim * self.norms)
        total = (self.directions * (length * self.moment(1, 0))[:, None]).T @ self.directions
        total[:, -1] += self.directions.T @ (length * self.moment(0, 1))
        return total[:-1] / len(self.directions)

    def misfit(self, square: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """E |Gamma h - w|^2 h h' from the mean of Gamma' Gamma and that of Gamma."""
        length = np.sqrt(self.dim * self.norms)
        slope = length[:, None] * (self.directions[:, :-1] @ mean)
        return self._quadratic(square) - 2 * self._linear(slope) + self._target

    @cached_property
    def _target(self) -> np.ndarray:
        """E |w|^2 h h'."""
        whole = self.dim * self.norms
        return self.mean_of(
            whole * self.moment(2, 0),
            whole * self.moment(1, 1),
            whole * self.moment(0, 2),
            whole * self.moment(0, 0, 1),
        )

    def _across(self, vectors: np.ndarray) -> np.ndarray:
        """What of a vector for each task is across its direction and the last axis."""
        p = self.directions
        part = vectors - np.sum(vectors * p, axis=1)[:, None] * p
        part[:, -1] = 0
        return part

    def _quadratic(self, square: np.ndarray) -> np.ndarray:
        """Mean of (h' G h) h h'."""
        p = self.directions
        image = p @ square
        pp = np.sum(image * p, axis=1)
        pe = image[:, -1]
        ee = square[-1, -1]
        left = np.trace(square) - ee - pp

        def weighted(along: int, label: int, across: int = 0) -> np.ndarray:
            """Mean of h_0' G h_0 + c^2 tr Pi G with such powers of a, b, c in front."""
            return (
                pp * self.moment(along + 2, label, across)
                + 2 * pe * self.moment(along + 1, label + 1, across)
                + ee * self.moment(along, label + 2, across)
                + left * self.moment(along, label, across + 1)
            )

        total = self.mean_of(weighted(2, 0), weighted(1, 1), weighted(0, 2), weighted(0, 0, 1))
        of_task = self._across(image)
        of_last = self._across(np.broadcast_to(square[-1], p.shape))
        # c^2 h_0 h_0' G Pi: from h_0 = a p + b e on the left, p' G Pi and e' G Pi on the right.
        right = self.moment(2, 0, 1)[:, None] * of_task + self.moment(1, 1, 1)[:, None] * of_last
        below = self.moment(1, 1, 1)[:, None] * of_task + self.moment(0, 2, 1)[:, None] * of_last
        mixed = p.T @ right
        mixed[-1] += np.sum(below, axis=0)
        fourth = self.moment(0, 0, 2)
        inner = square.copy()
        inner[-1] = 0
        inner[:, -1] = 0
        spread = p.T @ (fourth[:, None] * of_task)
        doubled = np.sum(fourth) * inner - p.T @ ((fourth * pp)[:, None] * p)
        doubled -= spread + spread.T
        return total + 2 * (mixed + mixed.T + doubled) / len(p)

    def _linear(self, slope: np.ndarray) -> np.ndarray:
        """Mean of (g . h) h h' for a vector g of each task."""
        p = self.directions
        gp = np.sum(slope * p, axis=1)
        ge = slope[:, -1]

        def weighted(along: int, label: int, across: int = 0) -> np.ndarray:
            """Mean of g . h_0 with such powers of a, b, c in front."""
            return gp * self.moment(along + 1, label, across) + ge * self.moment(
                along, label + 1, across
            )

        total = self.mean_of(weighted(2, 0), weighted(1, 1), weighted(0, 2), weighted(0, 0, 1))
        rest = self._across(slope)
        mixed = p.T @ (self.moment(1, 0, 1)[:, None] * rest)
        mixed[-1] += np.sum(self.moment(0, 1, 1)[:, None] * rest, axis=0)
        return total + (mixed + mixed.T) / len(p)

    def stable_time(self, batch: int) -> float:
        """Time of a step from which on the mean square grows without bound.

        It is infinite where all contexts are 0.
        """
        size = self.dim + 1
        values, basis = np.linalg.eigh(self.second())
        decay = values[:, None] + values
        if not np.any(decay > 0):
            return math.inf
        counts = decay > _ROUNDING * np.max(decay)
        root = np.where(counts, 1 / np.sqrt(np.where(counts, decay, 1.0)), 0.0)
        products = np.outer(values, values)

        def growth(flat: np.ndarray) -> np.ndarray:
            """The symmetric map, in the basis of R."""
            G = root * flat.reshape(size, size)
            G = (G + G.T) / 2
            fourth = basis.T @ self._quadratic(basis @ G @ basis.T) @ basis
            grown = (1 - 1 / batch) * products * G + (self.dim + 2) / batch * fourth
            return np.ravel(root * grown)

        shape = (size**2, size**2)
        operator = LinearOperator(shape, matvec=growth, dtype=np.float64)
        start = np.ravel(root * np.diag(values))
        [largest] = eigsh(operator, k=1, which="LA", v0=start, return_eigenvectors=False)
        return 1 / float(largest)

    def descend(self, schedule: np.ndarray, batch: int, test: SummaryLaw) -> np.ndarray:
        """ICL error on a law of tests and IDG error before and after each step, (steps + 1, 2).

        Raises
        ------
        ArithmeticError
            If they overflow.
        """
        d = self.dim
        R = self.second()
        A = self.cross()
        mean = np.zeros((d, d + 1))
        square = np.zeros((d + 1, d + 1))
        curves = np.empty((len(schedule) + 1, 2))
        label = float(np.mean(self.norms)) + self.rho

        def errors() -> tuple[float, float]:
            icl = np.sum(square * test.second) - 2 * np.sum(mean * test.cross.T)
            idg = np.sum(square * R) - 2 * np.sum(mean * A)
            return float(test.label + icl / d), float(label + idg / d)

        curves[0] = errors()
        with np.errstate(over="ignore", invalid="ignore"):
            for number, rate in enumerate(schedule, 1):
                t = 2 * rate / d
                drift = square @ R - mean.T @ A
                together = R @ drift - A.T @ (mean @ R - A)
                spread = (d + 2) * self.misfit(square, mean) + self.rho * d**2 * R
                added = (1 - 1 / batch) * together + spread / batch
                mean = mean - t * (mean @ R - A)
                square = square - t * (drift + drift.T) + t**2 * added
                # Rounding that is not symmetric grows by t^2 R^2 in a step, where nothing decays.
                square = (square + square.T) / 2
                curves[number] = errors()
                if not np.all(np.isfinite(curves[number])):
                    raise ArithmeticError("the mean over runs overflows: rates are too large")
        return curves
