r"""Linear recurrent layers on simulated contexts, averaged over tasks and noise.

A memory u decays, is corrected and written at every token, with a key k that is the input x or
:math:`x/|x|`,

.. math:: u \leftarrow \gamma \circ u, \qquad
   u \leftarrow u + D k\, a, \qquad a = \eta\, y - \beta\, \langle k, u\rangle ,

in this order or the other, while the task drifts.  It is linear in the tasks and the noise.  Given
the inputs, :math:`C = E\, u w^\top` and :math:`S = E\, u u^\top` over tasks and noise are
therefore known exactly: a write changes them by

.. math:: C \leftarrow C + D k\, (\eta\, \Omega x - \beta\, C^\top k)^\top, \qquad
   S \leftarrow S + D k\, b^\top + b\, (D k)^\top + D k\, (D k)^\top\, E\, a^2 ,

.. math:: b = \eta\, C x - \beta\, S k, \qquad
   E\, a^2 = \eta^2 (x^\top \Omega x + \rho) - 2 \eta \beta\, k^\top C x + \beta^2 k^\top S k ,

with the covariance :math:`\Omega` of the tasks.  So tasks, labels and queries need no sampling,
and the scatter between contexts is about 1/d of the error.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike

from iclimit.checks import by_name, check_arguments, check_flag, parse_array
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Array, Backend, Seed, get_backend, to_host
from iclimit.simulate.descent.schedules import context_blocks
from iclimit.statement import named_cell


@dataclass(frozen=True, repr=False)
class SimulatedRecurrence(Result):
    r"""Errors of a recurrent layer on simulated contexts.

    Attributes
    ----------
    errors : ndarray (contexts, context + 1)
        Mean squared error on noisy query labels after 0, 1, ... pairs, over tasks, noise and
        queries; ``inf`` beyond the largest float.
    signal, power : ndarray (contexts, context + 1)
        Covariance of the memory's answers with the labels, and their variance.
    parameters : dict
        What was simulated.
    """

    dims: ClassVar[tuple[str, ...]] = ("contexts", "position")

    errors: np.ndarray = field(repr=False)
    signal: np.ndarray = field(repr=False)
    power: np.ndarray = field(repr=False)
    parameters: dict[str, Any] = field(repr=False)

    @property
    def means(self) -> tuple[Estimate, ...]:
        """Mean error over contexts at each position."""
        return tuple(map(Estimate.of, self.errors.T))


@named_cell("simulate_recurrent")
def simulate_recurrent(
    *,
    dim: int,
    context: int,
    rho: float = 0.0,
    eigenvalues: Any = 1.0,
    task_variances: Any = 1.0,
    drift: Any = 0.0,
    gates: ArrayLike = 1.0,
    channel_gates: Any = 1.0,
    step_sizes: Any = 0.0,
    writes: Any = None,
    preconditioner: ArrayLike = 1.0,
    gate_first: bool = True,
    unit_keys: bool = False,
    readout: Any = 1.0,
    rng: Seed,
    contexts: int = 1000,
    backend: str = "numpy",
) -> SimulatedRecurrence:
    r"""Errors of a linear recurrent layer at every position of simulated contexts.

    Parameters
    ----------
    dim : int >= 1
        Dimension d of the inputs.
    context : int >= 1
        Number of pairs.
    rho : float >= 0
        Variance of the label noise.
    eigenvalues : float or array (dim,) >= 0
        Eigenvalues of d times the covariance of the inputs.
    task_variances : float or array (dim,) >= 0
        Variances of the task coordinates along the eigenvectors.
    drift : float or array (dim,) >= 0
        Rates :math:`\vartheta` at which they change: :math:`e^{-\vartheta/d}` is what is left of a
        coordinate after a token.
    gates : float or array (context,) in [0, 1]
        Gate of each token.
    channel_gates : float or array (dim,) in [0, 1]
        Gate of each channel, times that of the token.
    step_sizes : float or array (context,) >= 0
        Step :math:`\beta` of each token; 0 for a memory without correction.
    writes : float or array (context,), optional
        Factor :math:`\eta` of what is written; by default the steps, and 1 where they are all 0.
    preconditioner : float or array (dim,) >= 0
        Diagonal of D.
    gate_first : bool
        Whether the memory decays before it is written.
    unit_keys : bool
        Whether keys are inputs divided by their norm.
    readout : float or array (context + 1,)
        Factor of the answers, at each position.
    rng : int, SeedSequence or Generator
        Root seed.  Context r depends on (root, r) and the size of a context only.
    contexts : int >= 1
        Number of contexts.
    backend : {"numpy", "cupy"}
        Where to compute.

    Returns
    -------
    SimulatedRecurrence
        With ``errors``, ``signal``, ``power`` and the ``means`` of the errors.

    Raises
    ------
    ValueError
        If an argument is outside its range or has another length.
    RuntimeError
        If the backend is not available.

    Examples
    --------
    >>> from iclimit.simulate.recurrent import simulate_recurrent
    >>> run = simulate_recurrent(dim=8, context=16, rho=0.25, step_sizes=0.6, rng=0, contexts=100)
    >>> print(run.means[16])
    0.5513(35)
    """
    parameters = by_name(
        dim=dim,
        context=context,
        rho=rho,
        eigenvalues=eigenvalues,
        task_variances=task_variances,
        drift=drift,
        gates=gates,
        channel_gates=channel_gates,
        step_sizes=step_sizes,
        writes=writes,
        preconditioner=preconditioner,
        gate_first=gate_first,
        unit_keys=unit_keys,
        readout=readout,
        backend=backend,
    )
    check_arguments(dim=dim, context=context, rho=rho, contexts=contexts)
    check_flag("gate_first", gate_first)
    check_flag("unit_keys", unit_keys)
    if writes is None:
        writes = step_sizes if np.any(step_sizes) else 1.0
    layer = _Layer(
        rho=rho,
        eigenvalues=parse_numbers("eigenvalues", eigenvalues, dim),
        task_variances=parse_numbers("task_variances", task_variances, dim),
        kept=np.exp(-parse_numbers("drift", drift, dim) / dim),
        channel_gates=parse_numbers("channel_gates", channel_gates, dim),
        preconditioner=parse_numbers("preconditioner", preconditioner, dim),
        gates=parse_numbers("gates", gates, context),
        steps=parse_numbers("step_sizes", step_sizes, context),
        writes=parse_numbers("writes", writes, context),
        gate_first=gate_first,
        unit_keys=unit_keys,
    )
    c = np.broadcast_to(parse_array("readout", readout, (), (context + 1,)), context + 1)
    device = get_backend(backend)
    on_device = layer.on(device)
    signals = []
    powers = []
    for z in context_blocks(context, dim, "gaussian", contexts, rng, backend):
        signal, power = on_device.moments(z * device.xp.sqrt(on_device.eigenvalues / dim))
        signals.append(to_host(device.xp.stack(signal, axis=1)))
        powers.append(to_host(device.xp.stack(power, axis=1)))
    all_signals = np.concat(signals)
    all_powers = np.concat(powers)
    with np.errstate(over="ignore", invalid="ignore"):
        null = rho + float(layer.eigenvalues @ layer.task_variances) / dim
        errors = null - 2 * c * all_signals + c**2 * all_powers
    errors = np.where(np.isnan(errors), np.inf, errors)
    all_powers = np.where(np.isnan(all_powers), np.inf, all_powers)
    return SimulatedRecurrence(errors, all_signals, all_powers, parameters)


def parse_numbers(name: str, value: Any, count: int) -> np.ndarray:
    """So many numbers in the range of their name."""
    array = np.broadcast_to(parse_array(name, value, (), (count,)), count)
    for extreme in array[np.argsort(array)[[0, -1]]].tolist():
        check_arguments(**{name: extreme})
    return array


@dataclass(frozen=True)
class _Layer:
    """A recurrent layer, with the law of its inputs and tasks.

    Attributes
    ----------
    rho : float
        Variance of the noise.
    eigenvalues, task_variances : array (dim,)
        Of the inputs and the tasks.
    kept : array (dim,)
        What is left of a task after a token.
    channel_gates, preconditioner : array (dim,)
        Of the layer.
    gates, steps, writes : ndarray (context,)
        Of the tokens.
    gate_first, unit_keys : bool
        Whether a token is written after the gate, and with a key of norm 1.
    """

    rho: float
    eigenvalues: Array
    task_variances: Array
    kept: Array
    channel_gates: Array
    preconditioner: Array
    gates: np.ndarray
    steps: np.ndarray
    writes: np.ndarray
    gate_first: bool
    unit_keys: bool

    def on(self, device: Backend) -> _Layer:
        """The same layer, with the vectors of coordinates on a device."""
        return replace(
            self,
            eigenvalues=device.asarray(self.eigenvalues),
            task_variances=device.asarray(self.task_variances),
            kept=device.asarray(self.kept),
            channel_gates=device.asarray(self.channel_gates),
            preconditioner=device.asarray(self.preconditioner),
        )

    def moments(self, inputs: Array) -> tuple[list[Array], list[Array]]:
        """Signal and power (n,), before and after each of the inputs (n, context, dim)."""
        xp = array_namespace(inputs)
        # Contexts last, so that what is done to one number of all contexts runs over memory.
        count, context, dim = inputs.shape
        tokens = xp.empty((context, dim, count))
        tokens[...] = xp.permute_dims(inputs, (1, 2, 0))
        memory = _Memory(xp.zeros((dim, dim, count)), xp.zeros((dim, dim, count)))
        signal = [xp.zeros(count)]
        power = [xp.zeros(count)]
        drifts = bool(xp.any(self.kept != 1))
        gated = bool(xp.any(self.channel_gates != 1)) or np.any(self.gates != 1)
        with np.errstate(over="ignore", invalid="ignore"):
            for token in range(context):
                gate = float(self.gates[token]) * self.channel_gates
                if gated and self.gate_first:
                    memory.decay(gate)
                memory.write(self, tokens[token, :, :], token)
                if gated and not self.gate_first:
                    memory.decay(gate)
                if drifts:
                    memory.C[...] *= self.kept[:, None]
                signal.append(_weighted_trace(memory.C, self.eigenvalues) / dim)
                power.append(_weighted_trace(memory.half, self.eigenvalues) * (2 / dim))
        return signal, power


@dataclass(frozen=True)
class _Memory:
    """Moments (dim, dim, n) of a memory, changed in place.

    Attributes
    ----------
    C : array
        Its products with the task.
    half : array
        Its products with itself are this plus the transpose.
    """

    C: Array
    half: Array

    def decay(self, gate: Array) -> None:
        """Change them by gates of the coordinates."""
        self.C[...] *= gate[:, None, None]
        self.half[...] *= (gate[:, None] * gate)[:, :, None]

    def write(self, layer: _Layer, x: Array, token: int) -> None:
        """Change them by what a layer writes at a token with inputs (dim, n)."""
        xp = array_namespace(x)
        step = float(layer.steps[token])
        write = float(layer.writes[token])
        key = x / xp.sqrt(xp.sum(x**2, axis=0)) if layer.unit_keys else x
        aim = write * layer.task_variances[:, None] * x
        written = layer.preconditioner[:, None] * key
        signal = _times(self.C, x)
        change = write * signal
        square = write * xp.sum(aim * x, axis=0) + write**2 * layer.rho
        if step:
            read = _times(self.half, key) + _times(xp.permute_dims(self.half, (1, 0, 2)), key)
            aim = aim - step * _times(xp.permute_dims(self.C, (1, 0, 2)), key)
            change = change - step * read
            square = square + step * xp.sum(key * (step * read - 2 * write * signal), axis=0)
        self.C[...] += written[:, None, :] * aim
        self.half[...] += written[:, None, :] * (change + square * written / 2)


def _weighted_trace(moments: Array, weights: Array) -> Array:
    """Sum of diagonal moments (n,) with the weights of the coordinates."""
    return sum(moments[i, i, :] * weights[i] for i in range(weights.shape[0]))


def _times(matrices: Array, vectors: Array) -> Array:
    """Products of matrices (dim, dim, n) and vectors (dim, n)."""
    xp = array_namespace(vectors)
    if hasattr(xp, "einsum"):  # half the time, but not in the standard
        return xp.einsum("ijn,jn->in", matrices, vectors)
    return sum(matrices[:, i, :] * vectors[i, :] for i in range(vectors.shape[0]))
