r"""One pass of SGD over fresh prompts, and its best rates.

Most experiments draw fresh prompts in every step, so that steps times batch are the prompts n.
In the setting of `iclimit.asymptotics.pretraining.icl`, with a fresh task in every prompt, a step
of learning rate :math:`\eta` on the mean squared error of a batch of B prompts is

.. math:: \Gamma \to \Gamma - \frac{2\eta}{B} \sum_b (f_b - y_b)\, x_b h_b^\top,
   \qquad f = x^\top \Gamma h, \qquad \Gamma_0 = 0 .

**Any size.**  Write :math:`h = (h_1, h_2)` with the mean h_2 of squared labels, which has the last
column of :math:`\Gamma`; :math:`s = E|h_1|^2/d`, :math:`r = E h_2^2`, and
:math:`\Gamma = (1/s + \Delta, \delta)`.  As inputs and tasks have no direction, the mean of a
quadratic function of :math:`\Gamma` only needs :math:`P = E|\Delta|^2`,
:math:`p = E|\delta|^2` and :math:`T = E \operatorname{tr} \Delta`.  With
:math:`t = 2\eta/d` one step makes of them

.. math::

   P &\to P (1 - 2 t s + t^2 (1 - 1/B) s^2) + \tfrac{t^2}B Q_1, \\
   p &\to p (1 - 2 t r + t^2 (1 - 1/B) r^2) + \tfrac{t^2}B Q_2, \qquad
   T \to (1 - t s)\, T, \\
   Q_i &= (d + 2)\, E\, |\Gamma h - w|^2 |h_i|^2 + \rho d^2 E |h_i|^2,

since :math:`E_x (x \cdot a)^2 |x|^2 = (d + 2) |a|^2/d^2`.  The error on fresh prompts is
:math:`e^* + (s P + r p)/d` with the least one, :math:`e^* = 1 + \rho - 1/s`.  Given the task of
squared norm :math:`u d` and :math:`X \sim \chi^2_\ell`, the labels have the squared norm
:math:`(u + \rho) X`, and :math:`h_1` is Gaussian with mean :math:`X w/\ell`: all moments
are polynomials.  Both moments in a step are linear in (P, p, T), so that many equal steps are one
matrix power.

**Limit.**  For batches far below :math:`d^2` and :math:`\tau = n/d^2` prompts the excess
:math:`E = e - e^*` obeys :math:`E' = -2 v E + v^2 (E + e^*)` with the step
:math:`v = 2 \eta d s/B`, from :math:`E(0) = 1/s`, and the best step at every time is
:math:`v = E/(E + e^*)`: the delta rule of `iclimit.asymptotics.recurrent.delta_rule` one level
up, with prompts for tokens.  Hence, with :math:`u_0 = s e^*` and Lambert's function W,

.. formula: best

.. math:: e = e^* \Bigl[ 1 + \frac1{W(u_0 e^{u_0 + \tau})} \Bigr], \qquad
   s = 1 + \frac{1 + \rho}\alpha .

No schedule of rates that are numbers does better: each step's quadratic is minimised, and the map
is monotone in E.  A constant step ends at :math:`2 e^*/(2 - v)`.

.. page: pretraining/one-pass: One pass over fresh prompts

.. symbols:
   s: mean square of the context summary over d, 1 + (1 + ρ)/α in the limit
   e^*: least error of any matrix, 1 + ρ − 1/s
   u_0: s e*
   W: Lambert's function
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from iclimit.asymptotics.checks import broadcast, checked, real_array, require_whole
from iclimit.asymptotics.noisy_decay import noisy_decay
from iclimit.asymptotics.numbers import Namespace, Number, Value
from iclimit.asymptotics.pretraining.one_pass_moments import ContextLaw, StepMap
from iclimit.checks import check_choice
from iclimit.results import Result

# Most steps of a schedule: a step takes some 0.1 ms.
_MOST_STEPS = 1_000_000


@dataclass(frozen=True, repr=False)
class OnePass(Result):
    r"""Error of linear attention during one pass of SGD.

    Attributes
    ----------
    icl : number or array
        Mean over runs of the squared error on a noisy query label, fresh tasks.
    least_error : number or array
        Of any matrix :math:`\Gamma`, at these contexts.
    learning_rate : number or array
        Of the last step, or of the next one if there was none.
    stable_rate : number or array
        Learning rate from which on the mean square grows without bound.
    """

    icl: Value
    least_error: Value
    learning_rate: Value
    stable_rate: Value


def one_pass_error(
    *, tau: Number, alpha: Number, rho: Number, step_size: Number | None = None
) -> Value:
    r"""Error after one pass of SGD over fresh prompts, in the limit of large dimension.

    Parameters
    ----------
    tau : number or array in (0, inf]
        Prompts over squared dimension: steps times batch over :math:`d^2`.
    alpha : number or array in (0, inf]
        Context length over dimension.
    rho : number or array >= 0
        Variance of the label noise.
    step_size : number or array in (0, 2), optional
        Constant step :math:`v = 2 \eta d s/B` of learning rate :math:`\eta` and batch B,
        :math:`s = 1 + (1 + \rho)/\alpha`.  By default the best step at every time.

    Returns
    -------
    number or array
        Mean squared error on a noisy query label, broadcast.  NumPy and other arrays, mpmath
        numbers, SymPy expressions.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    For a fresh task in every prompt, batches far below :math:`d^2` and plain SGD from zero; not
    for Adam, and not for a matrix that is a product.  `iclimit.depth.online_sgd_errors` is for
    finitely many steps whose batches of order d have of order d queries in each context.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.one_pass`.  SGD on Gaussian features in general:
    Bordelon and Pehlevan, arXiv:2106.02713.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import icl_error, one_pass_error
    >>> one_pass_error(tau=[1, 4, 16], alpha=1, rho=0.1).round(4)
    array([0.9479, 0.7739, 0.6657])

    Least squares on the same prompts:

    >>> icl_error(tau=[4, 16], alpha=1, kappa=float("inf"), rho=0.1).round(4)
    array([0.8317, 0.6654])
    """
    math_, values = checked(
        ranges={"tau": "(0, inf]", "step_size": "(0, 2)"},
        optional=("step_size",),
        tau=tau,
        alpha=alpha,
        rho=rho,
        step_size=step_size,
    )
    v = values.step_size
    tau = values.tau
    rho = values.rho
    with math_.quiet():
        excess = math_.divide(1 + rho, values.alpha)
        s = 1 + excess
        least = rho + excess / s
        ended = math_.isinf(tau)
        if v is None:
            left = math_.where(
                ended, lambda: 0 * least, lambda: noisy_decay(math_, tau, s * least)
            )
            return math_.finish(least + left / s)
        decayed = math_.where(ended, lambda: 0 * v, lambda: _constant(math_, tau, v))
        floor = least * v / (2 - v)
        return math_.finish(least + floor * (1 - decayed) + decayed / s)


def _constant(math_: Namespace, tau: Value, v: Value) -> Value:
    return math_.exp(-v * (2 - v) * tau)


def one_pass_errors(
    *,
    steps: Number,
    dim: Number,
    context: Number,
    batch: Number,
    rho: Number,
    learning_rate: Number | None = None,
    rates: Sequence[float] | None = None,
    task_law: str = "sphere",
) -> OnePass:
    r"""Mean error after steps of SGD on fresh prompts, exact at any dimension.

    Parameters
    ----------
    steps : integer or array of them >= 0
        Steps of SGD from zero.
    dim : integer or array of them >= 1
        Dimension of the inputs, d.
    context : integer or array of them >= 1
        Pairs in a prompt.
    batch : integer or array of them >= 1
        Fresh prompts in a step, each with a fresh task and one query.
    rho : number or array >= 0
        Variance of the label noise.
    learning_rate : number or array > 0, optional
        Constant rate on the mean squared error of a batch, as ``lr`` of PyTorch's SGD with
        ``mean((f - y)**2)``.  Without ``rates`` and this, every step has the rate that makes the
        mean error after it least.
    rates : sequence of numbers >= 0, optional
        Learning rates of a schedule, one for each step; at least as many as ``steps``.
    task_law : {"sphere", "gaussian"}
        Tasks uniform on the sphere of squared norm d, or N(0, I).

    Returns
    -------
    OnePass
        With fields ``icl``, ``least_error``, ``learning_rate`` and ``stable_rate``; NumPy arrays.

    Raises
    ------
    ValueError
        If an argument is outside its range; if a rate is as large as the stable one: the mean over
        runs then grows without bound, carried by rare runs.
    TypeError
        If an argument is not a number.

    Notes
    -----
    For the d x (d + 1) matrix of the reduced model, of which the last column multiplies the mean
    of squared labels.  The best rates are the best step by step, which in the limit is best of
    all.

    References
    ----------
    Module `iclimit.asymptotics.pretraining.one_pass`; bounds for this model: Wu et al.,
    arXiv:2310.08391.

    Examples
    --------
    >>> from iclimit.asymptotics.pretraining import one_pass_errors
    >>> run = dict(steps=[0, 100, 1600], dim=20, context=20, batch=1, rho=0.1)
    >>> one_pass_errors(learning_rate=0.005, **run).icl.round(4)
    array([1.1   , 1.0599, 0.8593])
    >>> one_pass_errors(**run).icl.round(4)
    array([1.1   , 1.0589, 0.7966])
    """
    check_choice("task_law", task_law, ("sphere", "gaussian"))
    if learning_rate is not None and rates is not None:
        raise ValueError(
            "learning_rate is one rate for all steps and rates has one for each: pass one of them"
        )
    _, values = checked(
        systems="numpy",
        ranges={"steps": "[0, inf)", "dim": "[1, inf)"},
        optional=("learning_rate",),
        steps=steps,
        dim=dim,
        context=context,
        batch=batch,
        rho=rho,
        learning_rate=learning_rate,
    )
    for name in ("steps", "dim", "context", "batch"):
        require_whole(name, getattr(values, name))
    last = np.max(values.steps, initial=0.0)
    if values.learning_rate is None and last > _MOST_STEPS:
        raise ValueError(
            f"steps must be at most {_MOST_STEPS:,} where rates change, got {last:g}: pass "
            "learning_rate"
        )
    schedule = None
    if rates is not None:
        schedule = real_array("rates", rates, "[0, inf)")
        if last > schedule.size:
            raise ValueError(
                f"rates must have one rate for each step: there are {schedule.size}, and steps "
                f"has {last:g}"
            )
    values = broadcast(values)
    law = ContextLaw(values.dim, values.context, values.rho, task_law == "gaussian")
    step_map = StepMap.of(law, values.batch)
    stable = step_map.stable_time() * values.dim / 2
    if values.learning_rate is None:
        excess, rate = _scheduled(step_map, values.steps, values.dim, schedule)
    else:
        rate = values.learning_rate
        excess = step_map.excess(step_map.steps(values.steps, 2 * rate / values.dim))
        require_stable("learning_rate", rate, stable)
    if schedule is not None:
        used = schedule[: int(last)]
        require_stable("rates", np.max(used, initial=0.0), np.min(stable, initial=np.inf))
    least = step_map.least_error
    return OnePass(*(part[()] for part in (least + excess, least, rate, stable)))


def require_stable(name: str, rate: np.ndarray, stable: np.ndarray) -> None:
    """Raise a ValueError for rates from the stable one on."""
    unstable = np.ravel(rate >= stable)
    if np.any(unstable):
        place = int(np.argmax(unstable))
        raise ValueError(
            f"{name} must be below {np.ravel(stable)[place]:.4g} here, got "
            f"{np.ravel(rate)[place]:.4g}: the mean over runs grows without bound, carried by "
            "rare runs"
        )


def _scheduled(
    step_map: StepMap, steps: np.ndarray, dim: np.ndarray, rates: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Excess error after steps of given rates or the best ones, and the last rate."""
    state = step_map.start
    best = step_map.best_time(state)
    time = best
    kept = step_map.excess(state)
    kept_rate = best * dim / 2
    for number in range(1, int(np.max(steps, initial=0)) + 1):
        if rates is None:
            time = step_map.best_time(state)
        else:
            time = np.broadcast_to(2 * rates[number - 1] / dim, best.shape)
        state = step_map.step(state, time)
        kept = np.where(steps == number, step_map.excess(state), kept)
        kept_rate = np.where(steps == number, time * dim / 2, kept_rate)
    return kept, kept_rate
