r"""Schedules of GD++: how fast layers can improve the condition number of the context.

A layer of GD++ multiplies the inputs of the context by :math:`I - \gamma H`, with H their second
moment matrix.  It maps an eigenvalue :math:`\lambda` of H to

.. formula: layer

.. math:: f(\lambda) = \lambda (1 - \gamma \lambda)^2 .

In the formulas :math:`\kappa = \nu/\mu` is the condition number of a spectrum in
:math:`[\mu, \nu]`, and :math:`r = \sqrt\kappa`.

*Monotone schedule* (Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180, Lemma A.3 and
Theorem 5.1): :math:`\gamma = 1/(3\nu)` is the largest choice that keeps f increasing on
:math:`[0, \nu]`.  The paper proves :math:`\kappa' \le 0.915\,\kappa` for
:math:`\kappa \ge 1.1` and :math:`\kappa' \le 1 + 2 \epsilon^2` for
:math:`\kappa = 1 + \epsilon`, :math:`\epsilon \le 0.1`, so that
:math:`O(\log\kappa + \log\log 1/\epsilon)` layers suffice.  Exactly,

.. math:: \kappa' - 1 = \frac{(\kappa - 1)^2 (4\kappa - 1)}{(3\kappa - 1)^2}
   \le \tfrac34 (\kappa - 1)^2 .

*Optimal schedule.*  If f may fold, its largest value on the interval is :math:`4/(27\gamma)`, at
:math:`1/(3\gamma)`, and its smallest at an end.  The ratio is least when both ends go to the same
value, :math:`f(\mu) = f(\nu)` (equioscillation):

.. formula: gamma

.. math:: \gamma = \frac1{\mu + \sqrt{\mu\nu} + \nu}, \qquad
   \kappa' - 1 = \frac{(r-1)^2 (2r+1)^2 (r+2)^2}{27 r^2 (1+r)^2} \le \tfrac3{16} (\kappa-1)^2 .

Doing so in every layer is optimal for any number of layers.  A layer maps a singular value
:math:`s = \sqrt\lambda` to the odd cubic :math:`s (1 - \gamma s^2)`.  Up to scale, which is free
here, the layers are the optimal odd cubics of Polar Express (Amsel, Persson, Musco and Gower,
arXiv:2505.16932, Theorem 4.1).  Their greedy composition has the best ratio of all compositions of
odd cubics.  A layer divides a large :math:`\kappa` by 27/4 instead of 9/4, so the monotone
schedule takes :math:`\ln(27/4)/\ln(9/4) = 2.35` times as many layers.

Both schedules are one formula.  With :math:`\delta = 1/(\gamma\mu) - 3`,

.. formula: excess

.. math:: \kappa' - 1 = \frac{\delta^2 (4\delta + 9)}{27 (\delta + 2)^2}, \qquad
   \nu' = \frac4{27\gamma},

as long as :math:`1/(3\gamma)` lies in the interval and :math:`f(\mu) \le f(\nu)`;
:math:`\delta = 3(\kappa - 1)` is monotone, :math:`\delta = \kappa + r - 2` optimal.

*Sensitivity.*  f has a double zero at :math:`1/\gamma = \nu(1 + 1/r + 1/r^2)`: an eigenvalue
that much above :math:`\nu` is annihilated, and a relative error of the largest eigenvalue is
multiplied by :math:`-(2r + 1)(r - 1)/(r + 1) \approx -2\sqrt\kappa`.  Rounding :math:`\gamma` to
float64 is such an error too, of 3 % of the condition number at :math:`\kappa = 10^{30}`.
The arguments ``cap`` and ``margin`` are safeguards; `interval_after` computes what becomes of a
misjudged spectrum.

*Accuracy.*  Every layer rounds, and near convergence a layer doubles the relative error of
:math:`\kappa - 1`.  For :math:`\kappa \le 10^{100}` the relative error in float64 is 1e-12 down to
:math:`\kappa - 1 = 10^{-30}`, and 4e-12 down to 1e-300.  A cap rounds :math:`\gamma` in the same
direction in many layers: the error is then 1e-12 for :math:`\kappa \le 10^{20}` and up to ten
times that at :math:`10^{100}`.  mpmath numbers lose as many digits of their precision.

.. page: gdpp/gdpp: GD++: layers that precondition

.. symbols:
   f: eigenvalue after the layer
   \lambda: eigenvalue of the inputs' second moments
   \gamma: coefficient of the layer
   \kappa: condition number ν/μ; with a dash after the layer
   \mu: smallest eigenvalue
   \nu: largest eigenvalue; with a dash after the layer
   \delta: 1/γμ − 3
   r: √κ
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import CheckedValues, broadcast_shape, check_integers, checked
from iclimit.asymptotics.numbers import ArrayMath, Namespace, Number, SymPyMath, Value, require
from iclimit.asymptotics.searches import count_until
from iclimit.checks import check_choice
from iclimit.drawing import Axes, log_scale
from iclimit.results import Result

METHODS = ("optimal", "monotone")

# Largest condition number of floats.  Rounding errors add up over the hundreds of layers that a
# larger one takes.
_LARGEST = 1e100


@dataclass(frozen=True, repr=False)
class ConditionSchedule(Result):
    r"""Layers of GD++ and the condition number after each.

    Arrays have the broadcast shape of the arguments and a last axis of layers.  For mpmath and
    SymPy numbers the fields are tuples.

    Attributes
    ----------
    gammas : array (..., steps) or tuple
        :math:`\gamma` of every layer, in units of the inverse largest eigenvalue at the start.  A
        layer acts on the spectrum that the previous layers have left, which is not rescaled.
    condition_number : array (..., steps + 1) or tuple
        Condition number at the start and after every layer.
    excess : array (..., steps + 1) or tuple
        Condition number minus one, accurate relative to itself; below 1e-308 it is 0 in float64.
    top : array (..., steps + 1) or tuple
        Largest eigenvalue.
    residual : array (..., steps + 1) or tuple
        Largest :math:`|1 - \eta\lambda|` of one gradient-descent step after this many layers,
        :math:`(\kappa - 1)/(\kappa + 1)`.
    final_rate : array (..., steps + 1) or tuple
        Learning rate of that step, :math:`\eta = 2/(\mu + \nu)` of the spectrum after the layers.
    """

    gammas: Value
    condition_number: Value
    excess: Value
    top: Value
    residual: Value
    final_rate: Value

    def rows(self) -> list[dict[str, Any]]:
        """Return a row for the start and one for each layer, of a single schedule."""
        columns = ("condition_number", "excess", "residual", "final_rate")
        lines = zip(*(getattr(self, name) for name in columns), strict=True)
        return [
            {"step": step, "gamma": gamma, **dict(zip(columns, map(float, line), strict=True))}
            for step, (gamma, line) in enumerate(zip([None, *self.gammas], lines, strict=True))
        ]

    def draw(self, ax: Axes, *, marker: str = "o", markersize: float = 4, **line: Any) -> None:
        """Draw the excess by layer."""
        from matplotlib.ticker import MaxNLocator

        excess = np.array(self.excess, dtype=float)
        shown = excess > 0  # a logarithmic axis has no place for 0
        layers = shown.nonzero()[0]
        ax.plot(layers, excess[shown], marker=marker, markersize=markersize, **line)
        ax.set(xlabel="layers of GD++", ylabel=r"excess $\nu/\mu - 1$")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        log_scale(ax, "y")


def condition_number_schedule(
    condition_number: Number | None = None,
    *,
    excess: Number | None = None,
    steps: int | None = None,
    tol: Number | None = None,
    method: str = "optimal",
    cap: Number = math.inf,
    margin: Number = 0.0,
) -> ConditionSchedule:
    r"""Layers of GD++ that bring the condition number down.

    Parameters
    ----------
    condition_number : number or array >= 1
        Condition number at the start, of a spectrum scaled to the largest eigenvalue 1.
    excess : number or array >= 0
        Condition number minus one, instead of ``condition_number``; a float near 1 has too few
        digits.
    steps : int >= 0
        Number of layers; give either this or tol.
    tol : number or array > 0
        Take the fewest layers after which the excess is at most tol, in all elements of arrays.
    method : {"optimal", "monotone"}
        Least condition number after every layer, or the published schedule.
    cap : number or array >= 1
        Safeguard: no :math:`\gamma` is computed for a larger condition number than this; the
        eigenvalues below are followed exactly.  The sensitivity to the largest eigenvalue is then
        at most :math:`2\sqrt{\text{cap}}`.  Polar Express takes 100.  A cap of 1 gives the
        monotone schedule, which no cap changes.
    margin : number or array >= 0
        Safeguard: the schedule is made for eigenvalues up to 1 + margin.

    Returns
    -------
    ConditionSchedule
        Its condition number at the start is that of the argument times 1 + margin.

    Raises
    ------
    ValueError
        If an argument is outside its range, not exactly one of condition_number and excess or of
        steps and tol is given, floats start above 1e100, or the spectrum shrinks below float64
        (every layer multiplies the largest eigenvalue by at most 4/9).
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    Takes NumPy arrays, mpmath numbers and, for given steps, SymPy expressions.

    References
    ----------
    Module `iclimit.asymptotics.gdpp.condition_number`, with the accuracy.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import condition_number_schedule
    >>> best = condition_number_schedule(100, steps=4)
    >>> best.gammas.round(3)
    array([ 0.901,  4.663, 17.371, 44.874])
    >>> best.condition_number.round(3)
    array([100.   ,  16.745,   3.553,   1.337,   1.016])
    >>> len(condition_number_schedule(100, tol=1e-30).gammas)
    8
    >>> import sympy
    >>> condition_number_schedule(sympy.Integer(4), steps=1).condition_number
    (4, 343/243)
    """
    math_, x, limits = _start(condition_number, excess, method, tol, cap=cap, margin=margin)
    if (steps is None) == (tol is None):
        raise ValueError(f"give either steps or tol, got steps={steps}, tol={tol}")
    if steps is not None:
        check_integers(least=0, steps=steps)
    shape = broadcast_shape({"excess": x, "tol": limits.tol, "cap": limits.cap})
    top = 1 + limits.margin
    gammas: list[Any] = []
    excesses = [x]
    tops = [top]
    while np.any(x > limits.tol) if steps is None else len(gammas) < steps:
        x, zero = _layer(math_, x, method, limits.cap - 1)
        gammas.append(1 / (zero * top))
        top = 4 * zero * top / 27
        if isinstance(math_, ArrayMath) and math_.violates(top, _normal) is not None:
            raise ValueError(
                f"steps must be fewer, got {steps}: the spectrum shrinks below the range of "
                "float64 (pass mpmath numbers)"
            )
        excesses.append(x)
        tops.append(top)
    fields = [
        gammas,
        [1 + x for x in excesses],
        excesses,
        tops,
        [x / (x + 2) for x in excesses],
        [2 * (1 + x) / (top * (x + 2)) for x, top in zip(excesses, tops, strict=True)],
    ]
    return ConditionSchedule(*(by_layer(math_, field, shape) for field in fields))


def steps_needed(
    condition_number: Number | None = None,
    *,
    tol: Number | None = None,
    excess: Number | None = None,
    method: str = "optimal",
) -> Value:
    r"""Least number of layers of GD++ after which the condition number is at most 1 + tol.

    Parameters
    ----------
    condition_number : number or array >= 1
        Condition number at the start.
    tol : number or array > 0
        Largest excess of the condition number over 1.
    excess : number or array >= 0
        Condition number at the start minus one, instead of ``condition_number``.
    method : {"optimal", "monotone"}
        As in `condition_number_schedule`.

    Returns
    -------
    int or array of int
        Number of layers, elementwise.  Where a layer meets tol within rounding, the number may be
        off by one.

    Raises
    ------
    ValueError
        If an argument is outside its range, is missing or is a symbol, or floats start above
        1e100.
    TypeError
        If an argument is not a number, or number systems mix.

    Notes
    -----
    For predictions within :math:`\epsilon \|x\| \|w^*\|`, Theorem 5.1 of arXiv:2402.14180 takes
    tol = :math:`\epsilon/(2\kappa)` and one gradient-descent step after these layers.

    Examples
    --------
    >>> from iclimit.asymptotics.gdpp import steps_needed
    >>> start = [10.0, 1e4, 1e8]
    >>> steps_needed(start, tol=1e-10), steps_needed(start, tol=1e-10, method="monotone")
    (array([ 5,  9, 14]), array([ 8, 16, 28]))
    """
    if tol is None:
        raise ValueError("tol must be given")
    math_, x, limits = _start(condition_number, excess, method, tol)
    return count_until(math_, lambda x: _layer(math_, x, method, math_.inf)[0], x, limits.tol)


def _normal(value: Value) -> Value:
    return value >= sys.float_info.min


def by_layer(math_: Namespace, values: Sequence[Value], shape: tuple[int, ...]) -> Value:
    """Results layer by layer: along a last axis of an array, or in a tuple."""
    if not isinstance(math_, ArrayMath):
        return tuple(values)
    full = [np.broadcast_to(value, shape) for value in values]
    return np.stack(full, axis=-1) if full else np.empty((*shape, 0))


def _layer(math_: Namespace, x: Value, method: str, cap: Value) -> tuple[Value, Value]:
    r"""Excess after a layer, and the double zero :math:`1/\gamma` over the largest eigenvalue.

    ``cap`` is the largest excess for which the layer is made.
    """
    if method == "monotone":
        planned = 0 * x
    elif isinstance(math_, SymPyMath) and math_.isinf(cap):  # SymPy cannot decide x <= oo
        planned = x
    else:
        planned = math_.where(x <= cap, lambda: x, lambda: cap)
    delta = planned + planned / (math_.sqrt(1 + planned) + 1)
    zero = (3 + delta) / (1 + planned)
    # The true lower end is below the one that the layer is made for, and f increases there.
    delta = delta + zero * (x - planned)
    return (delta / (delta + 2)) ** 2 * (4 * delta + 9) / 27, zero


def _start(
    condition_number: Number, excess: Number, method: str, tol: Number | None, **limits: Any
) -> tuple[Namespace, Value, CheckedValues]:
    """Number system, excess at the start (with its margin), and the limits, checked."""
    check_choice("method", method, METHODS)
    if (condition_number is None) == (excess is None):
        raise ValueError(
            "give either condition_number or excess, got "
            f"condition_number={condition_number}, excess={excess}"
        )
    math_, values = checked(
        systems="host",
        optional=("condition_number", "excess", "tol"),
        condition_number=condition_number,
        excess=excess,
        tol=tol,
        **limits,
    )
    if isinstance(math_, SymPyMath) and tol is not None:
        raise ValueError(
            f"tol must not be given with SymPy numbers, got {tol}: give steps (exact "
            "comparisons of nested roots do not end; count layers with floats or mpmath numbers)"
        )
    x = values.condition_number - 1 if values.excess is None else values.excess
    if hasattr(values, "margin"):
        with math_.quiet():
            x = x + values.margin * (1 + x)
    if isinstance(math_, ArrayMath):
        allowed = f"<= {_LARGEST} in float64 (pass mpmath numbers)"
        require(math_, "condition_number at the start", 1 + x, lambda v: v <= _LARGEST, allowed)
    return math_, x, values
