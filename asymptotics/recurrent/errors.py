r"""Linear recurrent layers as in-context learners: the exact error at every position.

A layer reads pairs with inputs :math:`x \sim N(0, \Lambda/d)`, tasks with independent coordinates
of variances :math:`\omega_i` and labels :math:`y = \langle w, x\rangle + \epsilon` of noise
variance :math:`\rho`.  At every token its memory decays and is corrected and written,

.. math:: u \leftarrow \gamma \circ u, \qquad
   u \leftarrow u - \beta\, D x \langle x, u\rangle + \eta\, D x\, y ,

in this order or the other, with a diagonal preconditioner D; the answer to a query is
:math:`c\, \langle u, x_q\rangle`.  That is linear attention (:math:`\gamma = 1, \beta = 0`),
RetNet, GLA and Mamba-2 (:math:`\beta = 0`; GLA with a gate by channel), DeltaNet and Longhorn
(:math:`\eta = \beta`, :math:`\gamma = 1`), Gated DeltaNet (:math:`\eta = \beta`, decay first)
and Kimi's KDA (a gate by channel).  A layer with several value channels does one such regression
in each.  Tasks drift, :math:`w' = \phi \circ w + \sqrt{1 - \phi^2} \circ \xi`, after every
token.

With :math:`p_i = E\, u_i^2`, :math:`r_i = E\, u_i w_i` and :math:`\langle v\rangle = \sum_i v_i`,
the steps are

.. formula: tokens

.. math::

   \text{decay:} \quad & p \leftarrow \gamma^2 p, \qquad r \leftarrow \gamma r, \\
   \text{drift:} \quad & r \leftarrow \phi\, r, \\
   \text{writing:} \quad & p \leftarrow p - \frac{2 \beta}d D \lambda p + \beta^2 q(p)
      + 2 \eta \Bigl[\frac1d D \lambda r - \beta\, q(r)\Bigr]
      + \eta^2 \Bigl[q(\omega) + \frac\rho d D^2 \lambda\Bigr], \\
   & r \leftarrow r - \frac\beta d D \lambda r + \frac\eta d D \lambda \omega,
   \qquad q(z) = \frac{D^2 \lambda}{d^2} \bigl(2 \lambda z + \langle \lambda z\rangle\bigr) ,

because
:math:`E\, x x^\top M x x^\top = (2 \Lambda M \Lambda + \Lambda\, \mathrm{tr} \Lambda M)/d^2` and
off-diagonal moments stay zero.  The error on a noisy label after any number of tokens is

.. math:: e = \rho + \frac1d \langle \lambda (\omega - 2 c\, r + c^2 p)\rangle, \qquad
   c = \frac{\langle \lambda r\rangle}{\langle \lambda p\rangle} \quad \text{at the best readout.}

This is exact at any dimension for any gates, steps and writes that do not depend on the inputs.
*Unit keys*, :math:`x/|x|` in the memory and the input itself in the label, have for isotropic
inputs and :math:`m_1 = E |x|`

.. math:: p \leftarrow p \Bigl(1 - \frac{2 \beta}d + \frac{\beta^2}d\Bigr)
   + \frac{2 \eta}d (1 - \beta) m_1 r + \frac{\eta^2}d (1 + \rho), \qquad
   r \leftarrow r \Bigl(1 - \frac\beta d\Bigr) + \frac\eta d m_1 .

*Best steps.*  With :math:`\eta = \beta` the moments after a token are quadratic in its step and
linear in the moments before it.  So the error after the last token is, with all other steps given,
a quadratic in each step,

.. math:: e = \mathrm{const} + \langle a, p\rangle + \langle b, r\rangle

after that token, where a and b follow from :math:`c^2 \lambda/d` and :math:`-2 c \lambda/d` at the
end by the transposed maps of all later tokens.  A sweep from the first token to the last sets each
step to its minimum, so that the error never grows.  The first sweep takes a and b of the end at
every token, which are the steps of least error after it; sweeps end where they change nothing.

For isotropic inputs the steps of least error after each token are the best for all positions where
the memory decays after each pair as the tasks do (`iclimit.asymptotics.recurrent.delta_rule`).
Otherwise they are not: without a gate early steps that are small forget what drift has made
useless, and the last steps are large.

.. symbols:
   p: mean square of each number of the memory, E u²
   r: its product with the task, E u w
   \gamma: gate, e^(−ω/d) at the rate ω
   \phi: what drift leaves of a task, e^(−ϑ/d)
   \beta: step of the delta rule
   \eta: factor of what is written; in delta rules the step
   D: preconditioner, 1 here
   \lambda: eigenvalues of the inputs, 1 here
   \omega: variances of the task, 1 here
   q(z): what the fourth moments of the inputs make of z
   \langle\ \rangle: sum over coordinates
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from iclimit.asymptotics.checks import check_integers, real_array, real_number
from iclimit.asymptotics.numbers import Value
from iclimit.checks import check_choice, check_flag
from iclimit.results import Result

# Arguments that a rule takes, beside those that all take.
RULES = {
    "linear": ("writes",),
    "decay": ("writes", "gates"),
    "channel-gated": ("writes", "gates", "channel_gates"),
    "delta": ("writes", "step_sizes"),
    "preconditioned": ("writes", "step_sizes", "preconditioner"),
    "gated-delta": ("writes", "step_sizes", "gates", "channel_gates", "preconditioner"),
}

Numbers = float | Sequence[float] | np.ndarray

# Most sweeps over the steps.  At 160 tokens and a fixed readout drift from 0.05 to 1 took 4 to 11.
_SWEEPS = 200

# Sweeps end where they lower the error by less than this times the error of predicting zero.
_SETTLED = 1e-12


@dataclass(frozen=True, repr=False)
class RecurrentErrors(Result):
    r"""Errors of a recurrent layer after 0, 1, ..., context pairs.

    Attributes
    ----------
    position : ndarray (context + 1,)
        Pairs that were read.
    error : ndarray (context + 1,)
        Mean squared error on a noisy query label.
    readout : ndarray (context + 1,)
        Readout c.
    signal : ndarray (context + 1,)
        :math:`\langle \lambda r\rangle/d`, covariance of the memory's answers with the labels.
    power : ndarray (context + 1,)
        :math:`\langle \lambda p\rangle/d`, variance of its answers.
    step_size : ndarray (context + 1,)
        Step of the pair that was read last, 0 for rules without correction.
    """

    dims: ClassVar[tuple[str, ...]] = ("position",)

    position: np.ndarray
    error: np.ndarray
    readout: np.ndarray
    signal: np.ndarray
    power: np.ndarray
    step_size: np.ndarray

    def draw(self, ax: Any, **line: Any) -> None:
        """Draw the error over the position.

        Parameters
        ----------
        ax : matplotlib Axes
            Where to draw.
        **line
            Keywords of `matplotlib.axes.Axes.plot`.
        """
        ax.plot(self.position, self.error, **line)
        ax.set(xlabel="position", ylabel="error on a noisy query label")


def recurrent_errors(
    rule: str,
    *,
    context: int,
    dim: int | None = None,
    rho: float = 0.0,
    eigenvalues: Numbers | None = None,
    task_variances: Numbers = 1.0,
    drift: Numbers = 0.0,
    gates: Numbers | None = None,
    channel_gates: Numbers | None = None,
    step_sizes: Numbers | None = None,
    writes: Numbers | None = None,
    preconditioner: Numbers | None = None,
    gate_first: bool = True,
    unit_keys: bool = False,
    readout: float | str | None = None,
) -> RecurrentErrors:
    r"""Error of a linear recurrent layer at every position of a context.

    Parameters
    ----------
    rule : {"linear", "decay", "channel-gated", "delta", "preconditioned", "gated-delta"}
        Rule of the memory: linear attention; with a gate (RetNet, Mamba-2); with a gate by channel
        (GLA); DeltaNet; with a preconditioner; Gated DeltaNet and KDA.
    context : int >= 1
        Number of pairs.
    dim : int >= 1, optional
        Dimension d; needed without ``eigenvalues``, and their number with them.
    rho : float >= 0
        Variance of the label noise.
    eigenvalues : array (d,), optional
        Eigenvalues :math:`\lambda_i` of d times the covariance of the inputs; by default all 1.
    task_variances : float or array (d,) >= 0
        Variances of the task coordinates along these eigenvectors.
    drift : float or array (d,) >= 0
        Rates :math:`\vartheta_i` at which they change, :math:`\phi_i = e^{-\vartheta_i/d}`.
    gates : float or array (context,) in [0, 1], optional
        Gate of each token; by default 1.
    channel_gates : float or array (d,) in [0, 1], optional
        Gate of each channel, times that of the token; by default 1.  Without either, the memory of
        a gated delta rule decays as the tasks do.
    step_sizes : float or array (context,) >= 0, optional
        Step :math:`\beta` of each token; by default those of least error after the last pair.
    writes : float or array (context,), optional
        Factor :math:`\eta` of what is written; by default the step, and 1 in rules without one.
    preconditioner : float or array (d,) >= 0, optional
        Diagonal of D; by default 1.
    gate_first : bool
        Whether the memory decays before it is written, as published layers do.
    unit_keys : bool
        Whether keys are inputs divided by their norm; for isotropic inputs.
    readout : float or "best", optional
        Readout c, or the best one at every position; by default 1 for delta rules and the best
        one for others.

    Returns
    -------
    RecurrentErrors
        With fields ``position``, ``error``, ``readout``, ``signal``, ``power`` and ``step_size``.

    Raises
    ------
    ValueError
        If an argument is outside its range, has another length, or is not one of the rule.
    TypeError
        If an argument is not a number or an array of them.

    Notes
    -----
    The best steps depend on the length of the context: errors before the last pair are those on
    the way to it.  They are the least of all steps, too, for isotropic inputs that do not drift,
    or to which a gate after the writing answers.

    Unstable steps have errors that grow with the position, ``inf`` where they exceed float64.
    4096 tokens with 1000 eigenvalues take half a second, and some ten times as long where the best
    steps are looked for.

    References
    ----------
    Module `iclimit.asymptotics.recurrent.errors`.

    Examples
    --------
    >>> from iclimit.asymptotics.recurrent import recurrent_errors
    >>> for rule in ("linear", "delta"):
    ...     curve = recurrent_errors(rule, dim=40, context=160, rho=0.25)
    ...     print(curve.error[[40, 80, 160]].round(4))
    [0.8104 0.6393 0.4917]
    [0.7394 0.524  0.3709]
    """
    check_choice("rule", rule, RULES)
    _refuse_unknown(rule, "writes", writes)
    _refuse_unknown(rule, "gates", gates)
    _refuse_unknown(rule, "channel_gates", channel_gates)
    _refuse_unknown(rule, "step_sizes", step_sizes)
    _refuse_unknown(rule, "preconditioner", preconditioner)
    check_flag("gate_first", gate_first)
    check_flag("unit_keys", unit_keys)
    check_integers(context=context)
    fixed = _parse_readout(rule, readout)
    layer = _layer(
        dim, rho, eigenvalues, task_variances, drift, channel_gates, preconditioner, unit_keys
    )
    if rule == "gated-delta" and gates is None and channel_gates is None:
        layer = replace(layer, gates=layer.kept)
    kept = _by_token("gates", 1.0 if gates is None else gates, context)
    steps, written = _parse_updates(rule, step_sizes, writes, context)
    with np.errstate(all="ignore"):
        if steps is None:
            steps = _best_steps(layer, kept, gate_first, fixed)
        signal, power, taken = _run(layer, kept, steps, written, gate_first)
        chosen, error = _read(layer.null, signal, power, fixed)
    error = np.where(np.isnan(error), np.inf, error)
    power = np.where(np.isnan(power), np.inf, power)
    return RecurrentErrors(np.arange(context + 1), error, chosen, signal, power, taken)


def _parse_readout(rule: str, readout: float | str | None) -> float | None:
    """Readout at all positions; None stands for the best at each."""
    if readout is None:
        return 1.0 if "step_sizes" in RULES[rule] else None
    if isinstance(readout, str):
        check_choice("readout", readout, ("best",))
        return None
    return real_number("readout", readout, "(-inf, inf)")


def _parse_updates(
    rule: str, step_sizes: Numbers | None, writes: Numbers | None, context: int
) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Step sizes and writes of all tokens; None where they are the best, or the steps."""
    if "step_sizes" not in RULES[rule]:
        steps = _by_token("step_sizes", 0.0, context)
        return steps, _by_token("writes", 1.0 if writes is None else writes, context)
    steps = _by_token("step_sizes", step_sizes, context)
    written = _by_token("writes", writes, context)
    if steps is None and written is not None:
        raise ValueError(f"writes must be None without step_sizes, got {writes!r}")
    return steps, written


def _read(
    null: Value, signal: np.ndarray, power: np.ndarray, readout: float | None
) -> tuple[np.ndarray, np.ndarray]:
    """Readout at each position, the best one if it is None, and the error there."""
    if readout is not None:
        chosen = np.full(power.shape, readout)
        return chosen, null - 2 * readout * signal + readout**2 * power
    chosen = np.where(power > 0, signal / power, 0.0)
    return chosen, null - np.where(power > 0, signal**2 / power, 0.0)


def _refuse_unknown(rule: str, name: str, value: Numbers | None) -> None:
    """Raise a ValueError for an argument that is given and that the rule does not have."""
    if value is not None and name not in RULES[rule]:
        raise ValueError(f"{name} must be None for rule {rule}, got {value!r}")


@dataclass(frozen=True)
class _Layer:
    """What does not change from token to token; one coordinate where all are alike."""

    dim: Value
    rho: Value
    alike: bool
    eigenvalues: np.ndarray
    task_variances: np.ndarray
    kept: np.ndarray  # of a task, at each token
    gates: np.ndarray
    preconditioner: np.ndarray
    unit_keys: bool

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Sum over coordinates of eigenvalues times values, over the dimension."""
        lam = self.eigenvalues
        return lam * values if self.alike else lam @ values / self.dim

    def sum(self, values: np.ndarray) -> Value:
        """Sum over coordinates; of one that stands for all, itself."""
        return values if self.alike else np.sum(values)

    @property
    def null(self) -> Value:
        """Error of predicting zero."""
        return self.rho + self.mean(self.task_variances)

    def weights(self, readout: float) -> tuple[Value, Value]:
        """Weights of p and r in the error at a readout."""
        mean = self.eigenvalues if self.alike else self.eigenvalues / self.dim
        return readout**2 * mean, -2 * readout * mean

    def changes(self, p: np.ndarray, r: np.ndarray) -> list[np.ndarray]:
        """Factors of the step and the write of a token, in the change of p and of r.

        Those of -step, step^2, write, -step write and write^2 in that of p, and those of -step and
        write in that of r.
        """
        d = self.dim
        lam = self.eigenvalues
        D = self.preconditioner
        omega = self.task_variances
        if self.unit_keys:
            norm = mean_norm(d)
            cross = 2 * norm * r / d
            noise = (omega + self.rho) / d
            return [2 * p / d, p / d, cross, cross, noise, r / d, norm * omega / d]

        def four(v: np.ndarray) -> np.ndarray:
            return D**2 * lam / d * (2 * lam * v / d + self.mean(v))

        linear = D * lam / d
        noise = four(omega) + D * linear * self.rho
        return [
            *(2 * linear * p, four(p), 2 * linear * r, 2 * four(r), noise),
            *(linear * r, linear * omega),
        ]

    def weights_before(
        self, of_p: np.ndarray, of_r: np.ndarray, step: Value
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights that p and r have in an error before a step that is written, from those after.

        The transposed linear part of `changes`.
        """
        d = self.dim
        if self.unit_keys:
            norm = mean_norm(d)
            linear = 1 / d
            twice = of_p / d
        else:
            norm = 1.0
            linear = self.preconditioner * self.eigenvalues / d
            pushed = self.preconditioner * linear * of_p
            total = d * pushed if self.alike else np.sum(pushed)
            twice = self.eigenvalues / d * (2 * pushed + total)
        once = linear * of_p
        cross = 2 * norm * step * (once - step * twice)
        return of_p - 2 * step * once + step**2 * twice, of_r - step * linear * of_r + cross


def mean_norm(dim: int) -> float:
    """Mean norm of an input from N(0, I/d)."""
    return math.exp(math.lgamma((dim + 1) / 2) - math.lgamma(dim / 2)) * math.sqrt(2 / dim)


def _run(
    layer: _Layer,
    gates: np.ndarray,
    steps: np.ndarray,
    writes: np.ndarray | None,
    gate_first: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Signal, power and step at every position; the steps are written without ``writes``."""
    p, r = np.zeros((2, *layer.eigenvalues.shape))
    result = np.zeros((3, len(gates) + 1))
    for token, gate in enumerate(gates):
        write = None if writes is None else writes[token]
        p, r, taken = _token(
            layer, p, r, gate * layer.gates, gate_first=gate_first, step=steps[token], write=write
        )
        result[:, token + 1] = layer.mean(r), layer.mean(p), taken
    return result[0], result[1], result[2]


def _best_steps(
    layer: _Layer, gates: np.ndarray, gate_first: bool, readout: float | None
) -> np.ndarray:
    """Steps of least error after the last token, at a readout or, for None, at its best one."""
    chosen = 1.0 if readout is None else readout
    weights = [layer.weights(chosen)] * len(gates)
    steps = np.zeros(len(gates))
    least = math.inf
    for _ in range(_SWEEPS):
        swept, p, r = _swept(layer, gates, weights, gate_first)
        signal = float(layer.mean(r))
        power = float(layer.mean(p))
        if readout is None:
            chosen = signal / power if power > 0 else 0.0
        # The part of the error that depends on the memory, over the error of predicting zero.
        error = (chosen**2 * power - 2 * chosen * signal) / layer.null
        if not error < least - _SETTLED:
            break
        steps = swept
        least = error
        weights = _weights(layer, gates, steps, gate_first, chosen)
    return steps


def _swept(
    layer: _Layer, gates: np.ndarray, weights: list[tuple[Value, Value]], gate_first: bool
) -> tuple[np.ndarray, Value, Value]:
    """Steps with the least weighted sum of the moments after each token, and the last moments."""
    steps = np.zeros(len(gates))
    p, r = np.zeros((2, *layer.eigenvalues.shape))
    for token, gate in enumerate(gates):
        p, r, steps[token] = _token(
            layer, p, r, gate * layer.gates, gate_first=gate_first, weights=weights[token]
        )
    return steps, p, r


def _weights(
    layer: _Layer, gates: np.ndarray, steps: np.ndarray, gate_first: bool, readout: float
) -> list[tuple[Value, Value]]:
    """Weights of p and r after each token in the error after the last one."""
    of_p, of_r = layer.weights(readout)
    weights = []
    for gate, step in zip(gates[::-1], steps[::-1], strict=True):
        weights.append((of_p, of_r))
        before, after = _gates_around(gate * layer.gates, gate_first)
        of_p, of_r = layer.weights_before(after**2 * of_p, after * layer.kept * of_r, step)
        of_p = before**2 * of_p
        of_r = before * of_r
    return weights[::-1]


def _gates_around(gate: Value, gate_first: bool) -> tuple[Value, Value]:
    """Gates before and after the writing of a token."""
    return (gate, 1.0) if gate_first else (1.0, gate)


def _token(
    layer: _Layer,
    p: Value,
    r: Value,
    gate: Value,
    *,
    gate_first: bool,
    step: Value = None,
    write: Value = None,
    weights: tuple[Value, Value] | None = None,
) -> tuple[Value, Value, Value]:
    """Moments after a token, and its step; by default the step is written.

    Without a step it is the one with the least weighted sum of the moments after it.
    """
    before, after = _gates_around(gate, gate_first)
    p = before**2 * p
    r = before * r
    step1, step2, write1, both, write2, r_step, r_write = layer.changes(p, r)
    if step is None:
        of_p, of_r = layer.weights(1.0) if weights is None else weights
        of_p = after**2 * of_p
        of_r = after * layer.kept * of_r
        gain = layer.sum(of_r * (r_step - r_write) + of_p * (step1 - write1)) / 2
        curvature = layer.sum(of_p * (step2 - both + write2))
        best = gain / np.where(curvature == 0, 1.0, curvature)
        step = np.maximum(np.where(curvature == 0, 0.0, best), 0.0)
    write = step if write is None else write
    p = p - step * step1 + step**2 * step2 + write * (write1 - step * both + write * write2)
    r = after * layer.kept * (r - step * r_step + write * r_write)
    return after**2 * p, r, step


def token_moments(
    *,
    power: Value,
    signal: Value,
    dim: Value,
    rho: Value,
    drift: Value,
    gate: Value,
    step_size: Value = None,
    write: Value = None,
) -> Value:
    """Moments of a recurrent memory after one token, for isotropic inputs.

    These are power, signal and step, along a last axis; the explorer repeats it.  A ``step_size``
    and a ``write`` are those of a layer that decays first; without them the token has the step of
    least error after it, and the memory decays last.
    """
    unit = np.ones(())
    kept = np.exp(-drift / dim)
    layer = _Layer(dim, rho, True, unit, unit, kept, unit, unit, False)
    gate_first = step_size is not None
    moments = _token(
        layer, power, signal, gate, gate_first=gate_first, step=step_size, write=write
    )
    return np.stack(moments, axis=-1)


def _layer(
    dim: int | None,
    rho: float,
    eigenvalues: ArrayLike | None,
    task_variances: Value,
    drift: Value,
    channel_gates: Value,
    preconditioner: Value,
    unit_keys: bool,
) -> _Layer:
    """Check what belongs to channels.  One stands for all coordinates where these are alike."""
    if unit_keys and not (eigenvalues is None and preconditioner is None):
        raise ValueError("unit_keys must be False with eigenvalues or a preconditioner, got True")
    arrays = {
        "eigenvalues": 1.0 if eigenvalues is None else eigenvalues,
        "task_variances": task_variances,
        "drift": drift,
        "channel_gates": 1.0 if channel_gates is None else channel_gates,
        "preconditioner": 1.0 if preconditioner is None else preconditioner,
    }
    if eigenvalues is not None and not (np.ndim(eigenvalues) == 1 and np.size(eigenvalues)):
        raise ValueError(f"eigenvalues must have shape (dim,), got {eigenvalues!r}")
    if dim is None:
        if eigenvalues is None:
            raise ValueError("dim must be given where eigenvalues are not, got None")
        dim = np.size(eigenvalues)
    check_integers(dim=dim)
    values = {name: _number_or_row(name, value, dim) for name, value in arrays.items()}
    if unit_keys and any(value.ndim for value in values.values()):
        raise ValueError("unit_keys must be False where coordinates differ, got True")
    alike = all(value.ndim == 0 for value in values.values())
    shape = () if alike else (dim,)
    lam = np.broadcast_to(values["eigenvalues"], shape)
    omega = np.broadcast_to(values["task_variances"], shape)
    theta = np.broadcast_to(values["drift"], shape)
    gate = np.broadcast_to(values["channel_gates"], shape)
    D = np.broadcast_to(values["preconditioner"], shape)
    kept = np.exp(-theta / dim)
    return _Layer(dim, real_number("rho", rho), alike, lam, omega, kept, gate, D, unit_keys)


def _by_token(name: str, value: Numbers | None, context: int) -> Value:
    """Numbers of all tokens; None stays None."""
    return (
        None if value is None else np.broadcast_to(_number_or_row(name, value, context), context)
    )


def _number_or_row(name: str, value: Value, length: int) -> np.ndarray:
    """A number, or so many numbers, in the range of their name."""
    array = real_array(name, value)
    if array.shape not in ((), (length,)):
        raise ValueError(f"{name} must be a number or have shape {(length,)}, got {array.shape}")
    return array
