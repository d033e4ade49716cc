r"""Recurrent layers, read from their weights: gate, step of the delta rule and readout.

A head of RetNet, GLA, DeltaNet, Gated DeltaNet, KDA or Mamba-2 keeps a state S for keys
:math:`k = W_K e`, queries and values of the tokens e, with a gate :math:`\gamma` and a step
:math:`\beta` that may depend on the token,

.. math:: S \leftarrow S \operatorname{diag} \gamma, \qquad
   S \leftarrow S + \beta\, (v - S k)\, k^\top \quad \text{or} \quad S + \beta\, v\, k^\top .

Only the row of S that leads to the prediction counts.  Of tokens (x, y) with the label 0 for the
query, a head whose keys are inputs, whose values are labels and whose gates are constant is a
memory of `iclimit.asymptotics.recurrent.errors` with the numbers

* gate: the geometric mean of :math:`\gamma`;
* step: the mean of :math:`\beta`, times :math:`E |k|^2` unless keys have unit length;
* readout: from the labels to the prediction, for keys of the size of the inputs.

The query's own token is written before it is read, with the label 0.  The answer
:math:`\langle u, x_q\rangle` is thereby multiplied by the gate and, for the delta rule, by
:math:`1 - \beta |x_q|^2`, with the mean :math:`1 - \beta\,(1 + 2/d)` along the answer; with unit
keys and queries by :math:`(1 - \beta)/|x_q|`, with the mean :math:`(1 - \beta)\, E |x_q|`.  The
readout has the mean, and the predicted error is exact.  Everything else in the weights does not
fit: its share of the prediction is measured on prompts, and so is what gates and steps vary by.

At the best gate and steps the memory is orthogonal to its error,
:math:`R = E\, \hat y y/E\, y^2 = P = E\, \hat y^2/E\, y^2 = 1 - v`.  As
:math:`v = 1 - 2 R + P`, this is to say that no multiple of the answers is better, and the best
factor of the answers is known with a standard error.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from iclimit.asymptotics.checks import check_integers, real_number
from iclimit.asymptotics.recurrent import recurrent_errors
from iclimit.asymptotics.recurrent.errors import mean_norm
from iclimit.checks import check_choice, check_flag
from iclimit.notation import explaining
from iclimit.problem import Problem
from iclimit.results import Estimate, Result
from iclimit.simulate.arrays import Seed
from iclimit.simulate.prompts import regression_tokens, sample_prompts
from iclimit.tables import aligned
from iclimit.validation.instruments.ratios import best_factor, ratio
from iclimit.validation.instruments.weights.layouts import off_identity
from iclimit.validation.instruments.weights.recurrent_layouts import (
    LAYOUTS,
    UNIT_KEYS,
    Heads,
    read_heads,
)
from iclimit.words import measured, percent


@dataclass(frozen=True, repr=False)
class ReducedRecurrence(Result):
    """Gates, steps and readouts of recurrent heads, and what they leave out.

    Attributes
    ----------
    gate, step, readout : ndarray (H,)
        Of each head; without correction the step is part of the readout and NaN.
    gate_spread, step_spread : ndarray (H,)
        Standard deviations over tokens, and over channels of gates, divided by the means.
    off_identity : ndarray (H,)
        Share of the squared norm of :math:`W_K^T W_Q` that is no multiple of the identity.
    ignored : Estimate
        Share of the mean square of the prediction that these numbers miss.
    error : Estimate
        Error of the layer itself on noisy query labels.
    predicted : float
        That of these numbers by theory; NaN for several heads.
    best : float
        That of the best gated delta rule.
    factor : Estimate
        What the answers should be multiplied with: 1 for an optimal layer.
    layout : str
        Layout of the weights.
    """

    gate: np.ndarray
    step: np.ndarray
    readout: np.ndarray
    gate_spread: np.ndarray
    step_spread: np.ndarray
    off_identity: np.ndarray
    ignored: Estimate
    error: Estimate
    predicted: float
    best: float
    factor: Estimate
    layout: str = field(repr=False)

    def __str__(self) -> str:
        """Short table."""
        rows = [["head", "gate", "varies by", "step", "varies by", "readout", "off the identity"]]
        columns = self.gate, self.gate_spread, self.step, self.step_spread, self.readout
        for number, values in enumerate(zip(*columns, self.off_identity, strict=True), 1):
            gate, varies, step, moves, readout, off = values
            steps = ["-", "-"] if math.isnan(step) else [f"{step:.4f}", percent(moves, 3)]
            gates = [f"{gate:.4f}", percent(varies, 3)]
            ends = [percent(off, 3)]
            rows.append([str(number), *gates, *steps, f"{readout:.4f}", *ends])
        known = "" if math.isnan(self.predicted) else f"{self.predicted:.4g} by these numbers, "
        return "\n".join(
            [
                f"recurrent heads in layout {self.layout}",
                *aligned(rows),
                f"missed: {percent(self.ignored)}",
                f"error: {measured(self.error)}, {known}{self.best:.4g} for the best delta rule",
                f"best factor of its answers: {measured(self.factor)}",
            ]
        )


@explaining
def reduced_recurrence(
    layer: Mapping[str, Any],
    problem: Problem,
    *,
    layout: str,
    heads: int = 1,
    unit_keys: bool | None = None,
    negative_eigenvalues: bool = False,
    gate_logit_normalizer: float = 16.0,
    score_factor: float | None = None,
    test_prompts: int = 4000,
    rng: Seed = 0,
) -> ReducedRecurrence:
    r"""Gate, step and readout of each head of a recurrent layer, as far as gates are constant.

    Parameters
    ----------
    layer : mapping of arrays
        Weights by their names in a state dictionary, with any prefix; matrices act on columns, as
        ``weight`` of PyTorch's Linear does, and on tokens of d + 1 numbers (x, y).
    problem : Problem
        Law of the prompts, with isotropic Gaussian inputs and fresh tasks; these may drift.
    layout : {"gla", "deltanet", "gated-deltanet", "kda", "retnet", "mamba2"}
        Which layer: those of flash-linear-attention (KDA is Kimi's delta rule with a gate for each
        channel), or Mamba-2 with the rows x, B, C and dt of ``in_proj.weight``.
    heads : int >= 1
        Number of heads; for Mamba-2 that of ``A_log``.
    unit_keys : bool, optional
        Whether keys and queries are divided by their norms; by default in the DeltaNets and KDA.
    negative_eigenvalues : bool
        Whether steps are twice a sigmoid (``allow_neg_eigval``).
    gate_logit_normalizer : float > 0
        Root that GLA takes of its gates.
    score_factor : float, optional
        What queries are multiplied with; by default one over the root of their length, and 1 for
        Mamba-2.
    test_prompts : int >= 2
        Prompts on which the predictions are compared.
    rng : int, SeedSequence or Generator
        Seed of the prompts.

    Returns
    -------
    ReducedRecurrence

    Raises
    ------
    ValueError
        If an argument is outside its range, a weight is missing, unknown or of another shape, the
        layer has parts that are no linear recurrence (convolutions, norms, output gates), or the
        problem is not isotropic.
    TypeError
        If an argument is of another kind.

    Notes
    -----
    Gates and steps that vary with the token are evaluated in the layer itself, and are constants
    in the reduced one.  Biases and activations of keys, queries and values are not read, and
    neither are RetNet's rotations of keys and queries by position.

    References
    ----------
    Yang et al., arXiv:2312.06635 (GLA), arXiv:2406.06484 (DeltaNet), arXiv:2412.06464 (Gated
    DeltaNet); Dao and Gu, arXiv:2405.21060 (Mamba-2); Kimi Linear, arXiv:2510.26692 (KDA); Sun et
    al., arXiv:2307.08621 (RetNet).

    Examples
    --------
    >>> import numpy as np, iclimit
    >>> from iclimit.validation import reduced_recurrence
    >>> d = 4
    >>> inputs, label = np.eye(d + 1)[:d], np.eye(d + 1)[d:]
    >>> layer = {
    ...     "q_proj.weight": 4 * inputs, "k_proj.weight": inputs,
    ...     "v_proj.weight": 4 * label, "o_proj.weight": label.T,
    ...     "b_proj.weight": 0 * label,
    ... }
    >>> problem = iclimit.Problem(dim=d, context=16, noise_variance=0.2)
    >>> found = reduced_recurrence(layer, problem, layout="deltanet")
    >>> found.gate, found.step, found.readout.round(2)
    (array([1.]), array([0.5]), array([0.94]))
    """
    check_choice("layout", layout, LAYOUTS)
    check_flag("negative_eigenvalues", negative_eigenvalues)
    check_integers(heads=heads)
    check_integers(least=2, test_prompts=test_prompts)
    if unit_keys is None:
        unit_keys = layout in UNIT_KEYS
    check_flag("unit_keys", unit_keys)
    _check_isotropic(problem)
    root = real_number("gate_logit_normalizer", gate_logit_normalizer, "(0, inf)")
    whole = read_heads(
        layer,
        layout,
        problem.dim,
        heads=heads,
        unit_keys=unit_keys,
        root=root,
        largest_step=1.0 + negative_eigenvalues,
        score_factor=score_factor,
    )
    return _reduced(whole, problem.with_fresh_tasks(), layout, test_prompts, rng)


def _reduced(
    whole: Heads, problem: Problem, layout: str, test_prompts: int, rng: Seed
) -> ReducedRecurrence:
    """Read the numbers of the heads, and compare with the heads themselves on prompts."""
    prompts = sample_prompts(problem, test_prompts, rng=rng)
    tokens = regression_tokens(prompts)
    seen = tokens[:, :-1].reshape(-1, problem.dim + 1)
    gates = whole.gate(seen)
    steps = whole.step(seen)
    with np.errstate(divide="ignore"):
        gate = np.exp(np.mean(np.log(gates), axis=(0, 2)))
    numbers = _Numbers.of(whole, problem, gate, np.mean(steps, axis=0))
    answers = whole.predict(tokens)
    rest = numbers.predict(whole, tokens)
    along, _ = numbers.own_token(problem.dim)
    best = recurrent_errors("gated-delta", **_law(whole, problem), gate_first=False)
    clean = np.vecdot(prompts.query, prompts.tasks)
    loss = Estimate.of((answers - clean) ** 2, keep=False)
    return ReducedRecurrence(
        gate=gate,
        step=numbers.step if whole.corrects else np.full(len(gate), math.nan),
        readout=numbers.readout * along,
        gate_spread=_spread(gates),
        step_spread=_spread(steps[..., None]),
        off_identity=off_identity(_blocks(whole, problem.dim)),
        ignored=ratio((answers - rest) ** 2, answers**2),
        error=Estimate(loss.mean + problem.noise_variance, loss.standard_error, loss.repeats),
        predicted=_predicted(whole, problem, numbers),
        best=float(best.error[-1]),
        factor=best_factor(clean, answers),
        layout=layout,
    )


def _blocks(whole: Heads, dim: int) -> np.ndarray:
    """Products of keys and queries of inputs, (H, d, d)."""
    return whole.key[:, :, :dim].swapaxes(1, 2) @ whole.query[:, :, :dim]


def _law(whole: Heads, problem: Problem) -> dict[str, Any]:
    """Law of the prompts and form of the keys, as `recurrent_errors` takes them."""
    return {
        "dim": problem.dim,
        "context": problem.context,
        "rho": problem.noise_variance,
        "task_variances": problem.label_unit,
        "drift": problem.drift,
        "unit_keys": whole.unit_keys,
    }


@dataclass(frozen=True, eq=False)
class _Numbers:
    """What is read of heads.

    Attributes
    ----------
    gate, written : ndarray (H,)
        Means over tokens of the gates and of the steps as the layer has them.
    key, query : ndarray (H,)
        Sizes of keys over inputs, and of queries over keys.
    step : ndarray (H,)
        Step for inputs of squared norm 1; 0 without correction.
    readout : ndarray (H,)
        From the labels to the prediction, without the query's own token.
    unit_keys : bool
        Whether keys and queries have unit length.
    """

    gate: np.ndarray
    written: np.ndarray
    key: np.ndarray
    query: np.ndarray
    step: np.ndarray
    readout: np.ndarray
    unit_keys: bool

    @classmethod
    def of(cls, whole: Heads, problem: Problem, gate: np.ndarray, written: np.ndarray) -> _Numbers:
        """Numbers of heads with these mean gates and steps."""
        d = problem.dim
        norm = problem.input_variance * d
        traces = np.trace(_blocks(whole, d), axis1=1, axis2=2)
        key = np.sqrt(np.sum(whole.key[:, :, :d] ** 2, axis=(1, 2)) / d)
        if whole.unit_keys:  # a query of unit length is its input over the size of inputs
            size = np.linalg.norm(whole.query[:, :, :d], axis=(1, 2))
            query = _divide(traces, key * size * math.sqrt(d * norm))
            key = np.ones(len(key))
            step = written
            unit = math.sqrt(norm)
        else:
            query = _divide(traces, d * key**2)
            step = written * key**2 * norm
            unit = 1.0
        readout = whole.factor * whole.value[:, d] * gate * query
        readout = readout * unit
        if not whole.corrects:  # the step is part of the readout
            readout = readout * step
            step = np.zeros(len(key))
        return cls(gate, written, key, query, step, readout, whole.unit_keys)

    def predict(self, whole: Heads, tokens: np.ndarray) -> np.ndarray:
        """Predictions (n,) of heads that have nothing but these numbers."""
        d = tokens.shape[2] - 1
        inputs = np.eye(d, d + 1)
        label = np.eye(d + 1)[d]
        fitted = replace(
            whole,
            key=self.key[:, None, None] * inputs,
            query=(self.query * self.key)[:, None, None] * inputs,
            value=whole.value[:, d:] * label,
            gate=lambda _: self.gate[:, None],
            step=lambda _: self.written,
            unit_keys=False,
            skip=np.zeros(len(self.key)),
        )
        return _unit_keyed(fitted, tokens) if self.unit_keys else fitted.predict(tokens)

    def own_token(self, dim: int) -> tuple[np.ndarray, np.ndarray]:
        """Means of the factor that the query's own token gives an answer, and of its square."""
        step = self.step
        if self.unit_keys:
            return (1 - step) * mean_norm(dim), (1 - step) ** 2
        second = 1 + 2 / dim
        fourth = (1 + 2 / dim) * (1 + 4 / dim)
        return 1 - step * second, 1 - 2 * step * second + step**2 * fourth


def _predicted(whole: Heads, problem: Problem, numbers: _Numbers) -> float:
    """Error of a single head with these numbers by theory; NaN for several."""
    if len(numbers.key) > 1:
        return math.nan
    own: dict[str, Any] = {"step_sizes": float(numbers.step[0])} if whole.corrects else {}
    rule = "gated-delta" if whole.corrects else "decay"
    known = recurrent_errors(rule, **_law(whole, problem), **own, gates=float(numbers.gate[0]))
    along, square = numbers.own_token(problem.dim)
    c = float(numbers.readout[0])
    predicted = problem.noise_variance + problem.label_unit
    return predicted - float(
        2 * c * along[0] * known.signal[-1] - c**2 * square[0] * known.power[-1]
    )


def _divide(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """Ratios, 0 where there is nothing."""
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole != 0)


def _unit_keyed(rest: Heads, tokens: np.ndarray) -> np.ndarray:
    """Predictions with keys of unit length and queries as they are."""
    keys = tokens.copy()
    norm = np.linalg.norm(tokens[..., :-1], axis=-1, keepdims=True)
    keys[..., :-1] /= np.where(norm > 0, norm, 1.0)
    return rest.predict(keys) * norm[:, -1, 0]


def _spread(values: np.ndarray) -> np.ndarray:
    """Standard deviation over tokens and channels, over the mean, of (n, H, r)."""
    spread = _divide(np.std(values, axis=(0, 2)), np.mean(values, axis=(0, 2)))
    return np.where(spread < 1e-12, 0.0, spread)


def _check_isotropic(problem: Problem) -> None:
    """Refuse what the theory of these numbers does not hold for."""
    if not isinstance(problem, Problem):
        raise TypeError(f"problem must be a Problem, got {type(problem).__name__}")
    usual = Problem(1, 1)
    names = ["noise_law", "input_law", "input_covariance", "mixing", "task_covariance"]
    for name in (*names, "correlation"):
        value = getattr(problem, name)
        wanted = getattr(usual, name)
        if value is not wanted and not np.array_equal(value, wanted):
            raise ValueError(f"{name} of the problem must be {wanted!r}, got {value!r}")
