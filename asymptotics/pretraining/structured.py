r"""Asymptotic errors of linear attention for tasks and inputs of any covariance.

Setting.  As in `iclimit.asymptotics.pretraining.icl`, with inputs :math:`x \sim N(0, \Sigma/d)`, k training
tasks :math:`w \sim N(0, C)`, and test tasks of covariance :math:`C'`, with label noise
:math:`\rho'` and context length :math:`\alpha' d` of their own.  :math:`\Sigma` and C commute.

**Whitening.**  With :math:`\tilde w = \Sigma^{1/2} w` and :math:`h = \Sigma^{1/2}\tilde h` this is
the model of isotropic inputs with tasks of covariance :math:`T = \Sigma^{1/2} C \Sigma^{1/2}` and
a penalty that is not isotropic.  In the eigenbasis of :math:`\Sigma`, row i of the mean predictor
is :math:`e_i^\top S G_i`, :math:`S = \frac1k\sum \tilde w \tilde w^\top`,

.. math:: G_i = (S + q + \Delta_i)^{-1}, \qquad
   \Delta_i = \frac{\xi}{\sigma_i} \Sigma^{-1}, \qquad
   q = \frac{\operatorname{tr}(C\Sigma)/d + \rho}{\alpha}.

**Fixed point.**  :math:`G_i` has the deterministic equivalent :math:`F_i = (s_i T + q +
\Delta_i)^{-1}`.  Its scalars and the effective ridge :math:`\xi` of the features
:math:`x_q h^\top` solve

.. math:: \kappa (1 - s_i) = \frac1d \operatorname{tr} s_i T F_i, \qquad
   \tau \Bigl(1 - \frac\lambda\xi\Bigr)
   = \frac{1}{d^2} \sum_i \operatorname{tr} (s_i T + q) F_i.

These are the stationarity conditions in :math:`\log s_i` and :math:`\log \xi` of

.. math:: \frac{1}{d^2} \sum_i \bigl[\operatorname{tr} \log (s_i T + q + \Delta_i)
   + k (s_i - \log s_i)\bigr] - (1 - \tau) \log\xi + \tau\lambda/\xi,

a sum of logarithms of sums of exponentials, of exponentials and of linear terms: strictly convex,
so the solution is unique, the equation for :math:`s_i` is monotone in :math:`s_i`, and that for
:math:`\xi` is monotone once the :math:`s_i` follow :math:`\xi`.  Both are solved by Newton's
method between bounds, halving the bracket in the logarithm where Newton's method would leave it.

**Errors.**  With :math:`u_{ij} = (q + \Delta_{ij}) F_{ij}`, :math:`\langle\cdot\rangle_i` the mean
over j, :math:`\beta_i[X] = \langle T F_i^2 X \rangle_i/\kappa` and
:math:`B_i = 1 + \beta_i[q + \Delta_i]`, the bias is carried by the entries j = i,

.. math::

   R &= \rho + \frac1d\sum_i \frac{1 - u_{ii}}{B_i} \bigl\{ q\,(1 + q\beta_i[1]
        + (1 - u_{ii})\,\beta_i[\Delta_i]) + u_{ii} \Delta_{ii} (1 + q \beta_i[1]) \bigr\}, \\
   R' &= \rho' + \frac1d\sum_i \Bigl\{ q' (1 - u_{ii})^2 + u_{ii}^2 T'_{ii}
        + u_{ii} (1 - u_{ii}) (q + \Delta_{ii}) \frac{\beta_i[T' + q']}{B_i} \Bigr\},

(:math:`T', q'` of the test tasks) and with :math:`V_i[X] = \bigl\langle X F_i \bigl(q F_i +
(1 - u_i) \frac{1 + q \beta_i[1]}{B_i}\bigr) \bigr\rangle_i`, :math:`\eta = \lambda/\xi`,

.. math:: e_{IDG} = \frac{R}{\eta + \frac{1}{\tau d} \sum_i V_i[\Delta_i]}, \qquad
   e_{ICL} = R' + \frac{e_{IDG}}{\tau d} \sum_i V_i[T' + q'].

Every term is positive: nothing cancels.  The part of :math:`e_{ICL}` that is linear in :math:`T'`
is the *misalignment* part, the rest (:math:`\rho'` and what :math:`q'` multiplies) the *scalar*
part, which depends on :math:`C'` only through the label variance
:math:`\operatorname{tr}(C'\Sigma)/d + \rho'` of the tests.

What is proved and what is not: the derivation on the theory page of the documentation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from iclimit.asymptotics.numbers import ArrayMath, Number, convert, numpy_namespace, require
from iclimit.asymptotics.pretraining.icl import check_parameters, ridge_bracket
from iclimit.asymptotics.pretraining.joint_spectrum import JointSpectrum
from iclimit.asymptotics.spectra.resolvent import excess

MAX_ITERATIONS = 100
"""Bound on the iterations of either fixed point; 1e5 settings took 26 at most
(`benchmarks/stress_structured.py`)."""

_CLOSE = 1e-8
"""Newton's method converges quadratically: after a step of this size the error is rounding."""

_CHUNK = 2**15
"""Numbers in an array at a time, so that they stay in the cache."""

_LARGE = 1e300
"""Stands for infinite kappa: its square root is beyond rounding error of everything else."""

_TINY = ArrayMath.tiny


@dataclass(frozen=True)
class StructuredErrors:
    """Errors for structured data, NumPy floats or arrays.

    Attributes
    ----------
    icl : float or ndarray
        Squared error on a noisy query label of the test tasks; ``scalar + misalignment``.
    idg : float or ndarray
        The same for the training tasks, at the context length and noise of training.
    scalar : float or ndarray
        Part of ``icl`` that depends on the test tasks only through the variance of their labels.
    misalignment : float or ndarray
        Part of ``icl`` that is linear in the test covariance.
    """

    icl: Any
    idg: Any
    scalar: Any
    misalignment: Any


def structured_errors(
    *,
    tau: Number,
    alpha: Number,
    kappa: Number,
    rho: Number,
    ridge: Number = 0.0,
    spectrum: JointSpectrum,
    test_alpha: Number | None = None,
    test_rho: Number | None = None,
) -> StructuredErrors:
    r"""Asymptotic errors for given spectra of training tasks, test tasks and inputs.

    Parameters
    ----------
    tau, alpha, kappa, rho, ridge : number or array
        As in `icl_error`.  Nothing is normalised: the label noise rho and the ridge are in the
        units of the spectrum.
    spectrum : JointSpectrum
        Joint law of the eigenvalues.
    test_alpha : number or array, > 0, optional
        Context length of test prompts over dimension; None: as in training.
    test_rho : number or array, >= 0, optional
        Label noise of test prompts; None: as in training.

    Returns
    -------
    StructuredErrors
        With fields ``icl``, ``idg``, ``scalar`` and ``misalignment``, broadcast over the
        arguments.  ``inf`` where an error diverges: tau = 1 with ridge = 0, and at alpha = inf
        where the limit of infinite context does.

    Raises
    ------
    ValueError
        If an argument is outside its range, or the shapes do not broadcast.
    TypeError
        If an argument is not a number or a NumPy array, or spectrum not a JointSpectrum.
    ArithmeticError
        If float64 cannot decide at extreme arguments.

    Notes
    -----
    float64 is within 1e-12 relative of exact arithmetic, over the range given in `icl_error` and
    for eigenvalues over eight decades.  In a sweep a point with 120 task eigenvalues takes 0.1 ms
    with isotropic inputs, 0.2 ms with two different input eigenvalues and 10 ms with 120.

    References
    ----------
    Letey, Zavatone-Veth, Lu, Pehlevan, arXiv:2509.26551, for isotropic inputs and ridge 0; their
    misalignment is the part linear in the test covariance, as here.  The form used here, finite
    ridge and input covariances: module `iclimit.asymptotics.pretraining.structured`.

    Examples
    --------
    >>> import numpy as np
    >>> from iclimit.asymptotics.pretraining import JointSpectrum, structured_errors
    >>> spectrum = JointSpectrum.of_matrices(np.diag([1.6, 0.4]), test=np.eye(2))
    >>> errors = structured_errors(
    ...     tau=0.5, alpha=2.0, kappa=2.0, rho=0.25, ridge=0.1, spectrum=spectrum
    ... )
    >>> round(float(errors.icl), 4), round(float(errors.idg), 4)
    (1.4919, 1.2676)
    """
    response, settings = training_response(
        spectrum,
        tau=tau,
        alpha=alpha,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        test_alpha=test_alpha,
        test_rho=test_rho,
    )
    carried = spectrum.inputs * spectrum.test
    with np.errstate(all="ignore"):
        test_q = (spectrum.weight @ carried + settings.test_rho) * settings.per_test_context
        noise = np.where(test_q > 0, test_q * response.per_context_noise, 0.0)
        scalar = _settled(settings.test_rho + noise, settings)
        costs = np.where(carried > 0, response.cost, 0.0) @ (spectrum.weight * carried)
        misalignment = _settled(costs, settings)
        fields = (scalar + misalignment, _settled(response.idg, settings), scalar, misalignment)
    return StructuredErrors(*(ArrayMath(np).finish(v.reshape(settings.shape)) for v in fields))


@dataclass(frozen=True)
class Settings:
    """Checked parameters, flat, of equal length."""

    tau: np.ndarray
    kappa: np.ndarray
    rho: np.ndarray
    ridge: np.ndarray
    per_context: np.ndarray
    test_rho: np.ndarray
    per_test_context: np.ndarray
    shape: tuple[int, ...]

    @property
    def training(self) -> tuple[np.ndarray, ...]:
        """What training depends on."""
        return self.tau, self.kappa, self.rho, self.ridge, self.per_context


@dataclass(frozen=True)
class Response:
    """What a trained predictor makes of test tasks.

    Attributes
    ----------
    idg : ndarray (n,)
        Error on the training tasks.
    per_context_noise : ndarray (n,)
        Increase of the test error with q', the noise of a test context.
    cost : ndarray (n, m)
        Increase with the (whitened) variance of the test tasks along each atom.
    """

    idg: np.ndarray
    per_context_noise: np.ndarray
    cost: np.ndarray


def training_response(
    spectrum: JointSpectrum,
    *,
    test_alpha: Number | None,
    test_rho: Number | None,
    **parameters: Number,
) -> tuple[Response, Settings]:
    """Check the arguments of `structured_errors`, solve, and return the response to test tasks."""
    settings = check_settings(spectrum, test_alpha=test_alpha, test_rho=test_rho, **parameters)
    atoms = Atoms.of(spectrum)
    parts = []
    with np.errstate(all="ignore"):
        for part in atoms.chunks(settings.training):
            point = solve(atoms, *part)
            parts.append(response_at(atoms, point))
    idg, noise, cost = (np.concatenate(v) for v in zip(*parts, strict=True))
    return Response(idg, noise, cost), settings


def check_settings(
    spectrum: Any, *, test_alpha: Number | None, test_rho: Number | None, **parameters: Number
) -> Settings:
    """Convert and check the parameters of the setting and broadcast them."""
    if not isinstance(spectrum, JointSpectrum):
        raise TypeError(f"spectrum must be a JointSpectrum, got {type(spectrum).__name__}")
    optional = {"test_alpha": test_alpha, "test_rho": test_rho}
    given = {name: value for name, value in optional.items() if value is not None}
    math_ = numpy_namespace(**parameters, **given)
    values = dict(zip(parameters, check_parameters(math_, **parameters), strict=True))
    values |= {name: convert(math_, name, value) for name, value in given.items()}
    values = {"test_alpha": values["alpha"], "test_rho": values["rho"]} | values
    require(math_, "test_alpha", values["test_alpha"], lambda v: v > 0, "> 0")
    require(
        math_, "test_rho", values["test_rho"], lambda v: (v >= 0) & (v < np.inf), ">= 0 and finite"
    )
    try:
        arrays = np.broadcast_arrays(*values.values())
    except ValueError:
        shapes = [value.shape for value in values.values()]
        names = ", ".join(values)
        raise ValueError(f"{names} must have shapes that broadcast, got {shapes}") from None
    flat = {name: array.ravel() for name, array in zip(values, arrays, strict=True)}
    # Infinite context is the limit from below, with as many context pairs in training as in tests.
    per_test_context = np.where(np.isinf(flat["test_alpha"]), 0.0, 1 / flat["test_alpha"])
    per_context = 1 / flat["alpha"]
    endless = np.isinf(flat["alpha"])
    per_context[endless] = _TINY
    per_test_context[endless & np.isinf(flat["test_alpha"])] = _TINY
    return Settings(
        flat["tau"],
        np.minimum(flat["kappa"], _LARGE),
        flat["rho"],
        flat["ridge"],
        per_context,
        flat["test_rho"],
        per_test_context,
        arrays[0].shape,
    )


def _settled(error: np.ndarray, settings: Settings) -> np.ndarray:
    """Zero and infinity instead of what the stand-in for infinite context leaves of them."""
    endless = settings.per_context <= _TINY
    error = np.where(endless & (error < _TINY**0.25), 0.0, error)
    return np.where(endless & (error > _TINY**-0.25), np.inf, error)


@dataclass(frozen=True)
class Atoms:
    """Atoms as arrays: rows are the different input eigenvalues, columns the atoms.

    Attributes
    ----------
    T : ndarray (m,)
        Whitened task eigenvalues; (n, 1, m) to differentiate `response_at`.
    weight : ndarray (m,)
    row : ndarray (r,)
        Different input eigenvalues.
    row_weight : ndarray (r,)
    row_of : ndarray (m,)
        Row of the input eigenvalue of each atom.
    inverse_inputs : ndarray (r, m)
        One over the products of input eigenvalues.
    """

    T: np.ndarray
    weight: np.ndarray
    row: np.ndarray
    row_weight: np.ndarray
    row_of: np.ndarray
    inverse_inputs: np.ndarray

    @classmethod
    def of(cls, spectrum: JointSpectrum) -> Atoms:
        row, row_of = np.unique(spectrum.inputs, return_inverse=True)
        row_of = row_of.ravel()
        row_weight = np.bincount(row_of, spectrum.weight)
        return cls(
            spectrum.task * spectrum.inputs,
            spectrum.weight,
            row,
            row_weight / math.fsum(row_weight),
            row_of,
            1 / (row[:, None] * spectrum.inputs),
        )

    def chunks(self, arrays: tuple[np.ndarray, ...]) -> Iterator[tuple[np.ndarray, ...]]:
        """Split flat arrays so that arrays over rows and columns stay small."""
        size = max(1, _CHUNK // self.inverse_inputs.size)
        for start in range(0, max(len(arrays[0]), 1), size):
            yield tuple(array[start : start + size] for array in arrays)

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Mean over the columns, (..., m) to (...)."""
        return values @ self.weight

    def own(self, values: np.ndarray) -> np.ndarray:
        """Entries of each atom in its own row, (n, r, m) to (n, m)."""
        return values[..., self.row_of, np.arange(len(self.row_of))]


@dataclass(frozen=True)
class Point:
    """A solution of the fixed point, and its parameters; arrays (n,) but s, (n, r)."""

    tau: np.ndarray
    kappa: np.ndarray
    rho: np.ndarray
    q: np.ndarray
    xi: np.ndarray
    eta: np.ndarray
    s: np.ndarray


def solve(
    atoms: Atoms,
    tau: np.ndarray,
    kappa: np.ndarray,
    rho: np.ndarray,
    ridge: np.ndarray,
    per_context: np.ndarray,
) -> Point:
    """Solve the fixed point for flat arrays of equal length."""
    q = (atoms.mean(atoms.T) + rho) * per_context
    xi = np.where(np.isinf(tau), ridge, 0.0)
    eta = np.where(xi > 0, 1.0, np.maximum(excess(ArrayMath(np), tau, 1), 0.0))
    start = np.zeros((len(tau), len(atoms.row)))
    free = np.isfinite(tau) & ((ridge > 0) | (tau < 1))
    if np.any(free):
        xi[free], start[free] = _effective_ridge(
            atoms, tau[free], kappa[free], ridge[free], q[free]
        )
        eta[free] = ridge[free] / xi[free]
    s = _scales(atoms, kappa, q, xi, start)
    return Point(tau, kappa, rho, q, xi, eta, s)


def _newton(
    step: Callable[[np.ndarray, np.ndarray], np.ndarray],
    lower: np.ndarray,
    upper: np.ndarray,
    start: np.ndarray,
) -> np.ndarray:
    """Roots of monotone equations by Newton's method in the logarithm, kept within bounds.

    ``step(x, index)`` is the Newton step in log x at the flat places ``index``; it points to the
    root.  Where a step leaves the bracket or is not half the one before the last, the bracket
    is halved in the logarithm.
    """
    shape = np.shape(start)
    x, lower, upper = (np.array(v, dtype=float).ravel() for v in (start, lower, upper))
    last, before = np.full((2, x.size), np.inf)
    index = np.arange(x.size)
    for _ in range(MAX_ITERATIONS):
        here = x[index]
        move = step(here, index)
        if np.any(np.isnan(move)):
            break
        low = lower[index] = np.where(move > 0, here, lower[index])
        high = upper[index] = np.where(move < 0, here, upper[index])
        new = here * np.exp(move)
        done = np.abs(move) < _CLOSE
        newton = done | ((new > low) & (new < high) & (np.abs(move) <= before[index] / 2))
        x[index] = np.where(newton, new, np.sqrt(low) * np.sqrt(high))
        before[index] = last[index]
        last[index] = np.where(newton, np.abs(move), np.log(high / low) / 2)
        index = index[~done]
        if index.size == 0:
            return x.reshape(shape)
    raise ArithmeticError(
        f"the fixed point was not solved within {MAX_ITERATIONS} iterations: arguments too "
        "extreme for float64"
    )


def _scales(
    atoms: Atoms, kappa: np.ndarray, q: np.ndarray, xi: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Scalars s of every row, shape (n, r), at given xi; start zero where nothing is known."""

    def gathered(index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        n, row = np.divmod(index, len(atoms.row))
        return q[n, None] + xi[n, None] * atoms.inverse_inputs[row], kappa[n]

    def step(s: np.ndarray, index: np.ndarray) -> np.ndarray:
        """Newton step of kappa s + <s T F> - kappa, formed without cancellation.

        Where s T > D the summand is 1 - u with u small: the ones are collected with kappa.
        """
        D, kappa = gathered(index)
        scaled = atoms.T * s[:, None]
        F = 1 / (scaled + D)
        signal, u = scaled * F, D * F
        large = scaled > D
        ones, others = atoms.mean(large), atoms.mean(~large)
        offset = np.where(ones < 0.5, kappa - ones, (kappa - 1) + others)
        residual = kappa * s + atoms.mean(np.where(large, -u, signal)) - offset
        return -residual / (kappa * s + atoms.mean(signal * u))

    D, count = gathered(np.arange(start.size))
    # One atom of the mean T/D bounds s from below, as <s T F> is concave in T/D.
    ratio = atoms.mean(atoms.T / D)
    linear = 1 - ratio * ((count - 1) / count)
    root = np.hypot(linear, 2 * np.sqrt(ratio))
    bound = np.where(linear >= 0, 2 / (linear + root), (root - linear) / (2 * ratio))
    guess = np.clip(start.ravel(), bound, 1.0)
    return _newton(step, bound / 2, np.ones_like(bound), guess).reshape(start.shape)


@dataclass(frozen=True)
class Rows:
    """Quantities of the module docstring at a point, arrays (n, r, m) and (n, r)."""

    D: np.ndarray
    F: np.ndarray
    u: np.ndarray
    signal: np.ndarray
    beta: np.ndarray
    beta_one: np.ndarray
    beta_delta: np.ndarray
    B: np.ndarray
    V: np.ndarray
    spent: np.ndarray

    @classmethod
    def at(
        cls, atoms: Atoms, kappa: np.ndarray, q: np.ndarray, xi: np.ndarray, s: np.ndarray
    ) -> Rows:
        q, s = q[:, None], s[..., None]
        delta = xi[:, None, None] * atoms.inverse_inputs
        D = q[..., None] + delta
        scaled = atoms.T * s
        F = 1 / (scaled + D)
        signal = scaled * F
        beta = atoms.T * F**2 / kappa[:, None, None]
        beta_one, beta_delta = atoms.mean(beta), atoms.mean(beta * delta)
        B = 1 + q * beta_one + beta_delta
        V = F * (q[..., None] * F + signal * ((1 + q * beta_one) / B)[..., None])
        spent = atoms.mean(V * delta) @ atoms.row_weight
        return cls(D, F, D * F, signal, beta, beta_one, beta_delta, B, V, spent)


def _effective_ridge(
    atoms: Atoms, tau: np.ndarray, kappa: np.ndarray, ridge: np.ndarray, q: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Effective ridge xi > 0 at finite tau with ridge > 0 or tau < 1, and nearly the scalars s."""
    scales = np.zeros((len(tau), len(atoms.row)))

    def step(xi: np.ndarray, index: np.ndarray) -> np.ndarray:
        t, k, q_ = tau[index], kappa[index], q[index]
        s = _scales(atoms, k, q_, xi, scales[index])
        rows = Rows.at(atoms, k, q_, xi, s)
        eta = ridge[index] / xi
        lost = atoms.mean(xi[:, None, None] * atoms.inverse_inputs * rows.F) @ atoms.row_weight
        kept = atoms.mean(rows.signal + q_[:, None, None] * rows.F) @ atoms.row_weight
        residual = np.where(lost < 0.5, lost - ((1 - t) + t * eta), t * (1 - eta) - kept)
        move = -residual / (rows.spent + t * eta)
        # The scalars follow xi; this guess makes the next solution of their equations short.
        scales[index] = s * np.exp(np.clip(rows.beta_delta / rows.B * move[:, None], -1, 1))
        return move

    math_ = ArrayMath(np)
    inputs = atoms.row[atoms.row_of]
    smallest = q * atoms.row[0] ** 2
    mean = atoms.mean(inputs) * (atoms.mean(atoms.T * inputs) + q * atoms.mean(inputs))
    # Widened so that rounding cannot hide the root where the bounds are a few ulp apart.
    lower = ridge_bracket(math_, tau, smallest, ridge) * (1 - 1e-9)
    upper = ridge_bracket(math_, tau, mean, ridge) * (1 + 1e-9)
    return _newton(step, lower, upper, upper), scales


def response_at(atoms: Atoms, point: Point) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The three arrays of `Response` at a solution of the fixed point; also for complex ones."""
    q = point.q
    rows = Rows.at(atoms, point.kappa, q, point.xi, point.s)
    u, signal, D = atoms.own(rows.u), atoms.own(rows.signal), atoms.own(rows.D)
    delta = point.xi[:, None] * atoms.inverse_inputs[atoms.row_of, np.arange(len(atoms.row_of))]
    once = (1 + q[:, None] * rows.beta_one)[:, atoms.row_of]
    B, beta_delta = rows.B[:, atoms.row_of], rows.beta_delta[:, atoms.row_of]
    bias = signal / B * (q[:, None] * (once + signal * beta_delta) + u * delta * once)
    idg = (point.rho + atoms.mean(bias)) / (point.eta + rows.spent / point.tau)

    membership = atoms.row_of[:, None] == np.arange(len(atoms.row))
    coupling = (u * signal * D / B * atoms.weight) @ membership
    spread = np.einsum("nr,nrm->nm", coupling, rows.beta)
    variance = (idg / point.tau)[:, None] * np.einsum("r,nrm->nm", atoms.row_weight, rows.V)
    spread = spread + variance
    return idg, atoms.mean(signal**2) + atoms.mean(spread), u**2 + spread
