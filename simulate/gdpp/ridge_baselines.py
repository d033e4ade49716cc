r"""Ridge regression with an estimated noise variance: the baselines of the mixed-noise problem.

The oracle of `NoisyRegression` is ridge regression that is told :math:`\sigma^2`.  The baselines
of Vladymyrov, von Oswald, Sandler and Ge (arXiv:2402.14180, section 6) put another
:math:`\lambda` in its place:

* ConstRR, one number for all prompts, :math:`E \sigma^2` or a tuned one;
* AdaRR, the estimate :math:`\hat\sigma^2` from the residuals of least squares, RSS/(N - d);
* TunedRR, :math:`\min(m \hat\sigma^2, \tau)` with m and :math:`\tau` tuned.

Their adjusted loss given the context is known exactly (see
`iclimit.simulate.gdpp.noisy_regression`).  With the eigenvalues e of :math:`X^\top X` and the
coordinates z of :math:`X^\top y` in its eigenbasis it is

.. math:: \tfrac12 \lVert\hat w - w_{\text{oracle}}\rVert^2 = \tfrac12 \sum_i
   \Bigl[\frac{(\sigma^2 - \lambda)\, z_i}{(e_i + \lambda)(e_i + \sigma^2)}\Bigr]^2,

one decomposition for all :math:`\lambda`, and no difference of nearby numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy.optimize import minimize, minimize_scalar
from tqdm import tqdm

from iclimit.simulate.arrays import Array, Backend, get_backend, seed_sequences, to_host
from iclimit.simulate.checks import check_choice, check_integers, check_nonnegative
from iclimit.simulate.gdpp.noisy_regression import NoisyPrompts, NoisyRegression, ridge_weights

# Noise variances from the sum of squared residuals: over N - d; over N, of maximum likelihood;
# over N - d + 2, the one of least mean squared error.
ESTIMATES = ("unbiased", "biased", "least-error")

# Prompts of one seed: part of what a seed means.
_BLOCK = 2**12

# Relative accuracy of the tuned parameters, far below what the sample determines.
_TOLERANCE = 1e-4

# Grid from which tuning starts; thresholds relative to the largest noise variance.
_MULTIPLIERS, _THRESHOLDS = (0.7, 1.2, 2.0, 5.0), (0.3, 0.6, 1.0, 2.0)


@dataclass(frozen=True)
class SimulatedBaselines:
    """Losses of ridge regression on simulated prompts.

    Attributes
    ----------
    means, standard_errors : dict of str to float
        Adjusted losses "ConstRR", "AdaRR" and, if asked for, "TunedRR"; "oracle" is the oracle's
        half squared error on a noiseless query.  Errors are ``inf`` for a single prompt.
    contexts : int
        Number of prompts.
    parameters : dict
        What was simulated.
    """

    means: dict[str, float]
    standard_errors: dict[str, float]
    contexts: int
    parameters: dict[str, Any] = field(repr=False)


@dataclass(frozen=True)
class RidgeTuning:
    """Parameters of least adjusted loss on a sample of contexts.

    Attributes
    ----------
    constant : float
        Of ConstRR.
    multiplier, threshold : float
        Of TunedRR.
    constant_loss, tuned_loss : float
        Adjusted losses on the sample.
    converged : bool
        Whether both searches ended by their tolerance.
    """

    constant: float
    multiplier: float
    threshold: float
    constant_loss: float
    tuned_loss: float
    converged: bool


def simulate_ridge_baselines(
    problem: NoisyRegression,
    *,
    contexts: int,
    rng: Any,
    constant: float | None = None,
    multiplier: float | None = None,
    threshold: float | None = None,
    noise_estimate: str = "unbiased",
    queries: bool = False,
    backend: str = "numpy",
    progress: bool = False,
) -> SimulatedBaselines:
    r"""Adjusted losses of ConstRR, AdaRR and TunedRR on fresh prompts.

    Parameters
    ----------
    problem : NoisyRegression
        Law of the prompts, with context > dim.
    contexts : int >= 1
        Number of prompts; memory does not grow with it.
    rng : int, SeedSequence or Generator
        Root seed.
    constant : float >= 0, optional
        :math:`\lambda` of ConstRR; the mean noise variance by default.
    multiplier, threshold : float >= 0, optional
        m and :math:`\tau` of TunedRR, which is left out without either; 1 and no threshold for the
        one not given.
    noise_estimate : {"unbiased", "biased", "least-error"}
        Estimate of the noise variance, RSS over N - d, N or N - d + 2.
    queries : bool
        Whether to follow the definition: draw queries, noiseless, and subtract the oracle's half
        squared error from the predictor's.  The default is the average of this given the context,
        with a far smaller variance.
    backend : {"numpy", "cupy"}
        Where to compute.
    progress : bool
        Show a progress bar.

    Returns
    -------
    SimulatedBaselines

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If problem is not a NoisyRegression.
    RuntimeError
        If the backend is not available.

    References
    ----------
    Vladymyrov, von Oswald, Sandler and Ge, arXiv:2402.14180, section 6 and Table 1.

    Examples
    --------
    >>> from iclimit.simulate.gdpp import NoisyRegression
    >>> from iclimit.simulate.gdpp.ridge_baselines import simulate_ridge_baselines
    >>> problem = NoisyRegression("categorical:1,3")
    >>> run = simulate_ridge_baselines(problem, contexts=20_000, rng=0)
    >>> {name: round(run.means[name], 2) for name in ("ConstRR", "AdaRR")}
    {'ConstRR': 0.22, 'AdaRR': 0.05}
    """
    _check_problem(problem)
    check_integers(contexts=contexts)
    check_choice("noise_estimate", noise_estimate, ESTIMATES)
    variance = problem.noise_law.mean_variance if constant is None else constant
    tuned = multiplier is not None or threshold is not None
    factor = 1.0 if multiplier is None else multiplier
    check_nonnegative(constant=variance, multiplier=factor)
    check_nonnegative(threshold=0 if threshold is None else threshold)
    largest = math.inf if threshold is None else threshold
    freedom = _freedom(problem, noise_estimate)

    def ridges(rss: Array) -> dict[str, Array]:
        xp = array_namespace(rss)
        estimated = rss / freedom
        found = {"ConstRR": xp.full_like(rss, variance), "AdaRR": estimated}
        if tuned:
            found["TunedRR"] = xp.clip(factor * estimated, None, largest)
        return found

    losses = _query_losses if queries else _context_losses
    sums: dict[str, np.ndarray] = {}
    with tqdm(total=contexts, disable=not progress, unit="prompt", desc="ridge") as bar:
        for drawn in _blocks(problem, contexts, rng, get_backend(backend)):
            for name, values in losses(drawn, ridges).items():
                host = to_host(values)
                with np.errstate(over="ignore"):
                    sums[name] = sums.get(name, 0) + np.array([host.sum(), (host**2).sum()])
            bar.update(drawn.levels.shape[0])
    means = {name: float(total) / contexts for name, (total, _) in sums.items()}
    errors = {
        name: _standard_error(means[name], float(square) / contexts, contexts)
        for name, (_, square) in sums.items()
    }
    parameters = {
        "noise_law": str(problem.noise_law),
        "context": problem.context,
        "dim": problem.dim,
        "constant": variance,
        "multiplier": multiplier,
        "threshold": threshold,
        "noise_estimate": noise_estimate,
        "queries": queries,
        "backend": backend,
    }
    return SimulatedBaselines(means, errors, contexts, parameters)


def tune_ridge(
    problem: NoisyRegression, *, contexts: int = 2**16, rng: Any, noise_estimate: str = "unbiased"
) -> RidgeTuning:
    r"""Tune ConstRR and TunedRR on a sample of contexts.

    Parameters
    ----------
    problem : NoisyRegression
        Law of the prompts, with context > dim.
    contexts : int >= 1
        Number of contexts, kept in memory.
    rng : int, SeedSequence or Generator
        Root seed.
    noise_estimate : {"unbiased", "biased", "least-error"}
        As in `simulate_ridge_baselines`.

    Returns
    -------
    RidgeTuning
        The losses are those of the tuned parameters on their own sample.

    Raises
    ------
    ValueError
        If an argument is outside its range.
    TypeError
        If problem is not a NoisyRegression.

    Notes
    -----
    With a single noise level the best :math:`\lambda` is a constant, so the multiplier is large
    and its value means nothing; without noise all losses vanish, at (0, 1, 0).

    Examples
    --------
    >>> from iclimit.simulate.gdpp import NoisyRegression
    >>> from iclimit.simulate.gdpp.ridge_baselines import tune_ridge
    >>> best = tune_ridge(NoisyRegression("uniform:3"), contexts=8192, rng=0)
    >>> best.converged, abs(best.constant - 3) < 0.3, abs(best.multiplier - 1.3) < 0.1
    (True, True, True)
    """
    _check_problem(problem)
    check_integers(contexts=contexts)
    check_choice("noise_estimate", noise_estimate, ESTIMATES)
    largest = max(problem.noise_law.levels) ** 2
    if largest == 0:
        return RidgeTuning(0.0, 1.0, 0.0, 0.0, 0.0, True)
    parts = [
        _Spectral.of(drawn) for drawn in _blocks(problem, contexts, rng, get_backend("numpy"))
    ]
    sample = _Spectral(
        *(
            np.concat([getattr(part, name) for part in parts])
            for name in ("eigenvalues", "coordinates", "variance", "rss")
        )
    )
    estimated = sample.rss / _freedom(problem, noise_estimate)

    def constant_loss(constant: float) -> float:
        return float(np.mean(sample.adjusted_loss(np.full_like(sample.rss, constant))))

    def tuned_loss(logarithms: np.ndarray) -> float:
        multiplier, threshold = np.exp(logarithms)
        return float(np.mean(sample.adjusted_loss(np.minimum(multiplier * estimated, threshold))))

    fixed = minimize_scalar(
        constant_loss,
        bounds=(0, largest),
        method="bounded",
        options={"xatol": _TOLERANCE * largest},
    )
    starts = [np.log([m, largest * t]) for m in _MULTIPLIERS for t in _THRESHOLDS]
    tuned = minimize(
        tuned_loss,
        min(starts, key=tuned_loss),
        method="Nelder-Mead",
        options={"xatol": _TOLERANCE, "fatol": 1e-9},
    )
    multiplier, threshold = np.exp(tuned.x).tolist()
    return RidgeTuning(
        float(fixed.x),
        multiplier,
        threshold,
        float(fixed.fun),
        float(tuned.fun),
        bool(fixed.success and tuned.success),
    )


@dataclass(frozen=True, eq=False)
class _Spectral:
    """Contexts in the eigenbases of X^T X."""

    eigenvalues: Array
    coordinates: Array
    variance: Array
    rss: Array

    @classmethod
    def of(cls, drawn: NoisyPrompts) -> _Spectral:
        x, y = drawn.prompts.x, drawn.prompts.y[:, :, None]
        xp = array_namespace(x)
        transposed = xp.matrix_transpose(x)
        eigenvalues, basis = xp.linalg.eigh(transposed @ x)
        coordinates = xp.matrix_transpose(basis) @ (transposed @ y)
        residuals = y - x @ (basis @ (coordinates / eigenvalues[:, :, None]))
        rss = xp.sum(residuals[:, :, 0] ** 2, axis=1)
        return cls(eigenvalues, coordinates[:, :, 0], drawn.levels**2, rss)

    def adjusted_loss(self, ridge: Array) -> Array:
        xp, e = array_namespace(self.rss), self.eigenvalues
        variance, ridge = self.variance[:, None], ridge[:, None]
        difference = (variance - ridge) / (e + variance) * self.coordinates / (e + ridge)
        return xp.sum(difference**2, axis=1) / 2

    def oracle_loss(self) -> Array:
        """Half the oracle's squared error, averaged over query and task given the context."""
        xp, variance = array_namespace(self.rss), self.variance[:, None]
        return xp.sum(variance / (self.eigenvalues + variance), axis=1) / 2


def _context_losses(drawn: NoisyPrompts, ridges: Any) -> dict[str, Array]:
    context = _Spectral.of(drawn)
    adjusted = {name: context.adjusted_loss(ridge) for name, ridge in ridges(context.rss).items()}
    return {"oracle": context.oracle_loss(), **adjusted}


def _query_losses(drawn: NoisyPrompts, ridges: Any) -> dict[str, Array]:
    x, y = drawn.prompts.x, drawn.prompts.y
    xp = array_namespace(x)

    def loss(ridge: Array) -> Array:
        error = ridge_weights(x, y, ridge) - drawn.tasks
        return xp.vecdot(error, drawn.prompts.x_query) ** 2 / 2

    least_squares = ridge_weights(x, y, xp.zeros_like(drawn.levels))
    rss = xp.sum((y - (x @ least_squares[:, :, None])[:, :, 0]) ** 2, axis=1)
    oracle = loss(drawn.levels**2)
    return {
        "oracle": oracle,
        **{name: loss(ridge) - oracle for name, ridge in ridges(rss).items()},
    }


def _check_problem(problem: Any) -> None:
    if not isinstance(problem, NoisyRegression):
        raise TypeError(f"problem must be a NoisyRegression, got {problem!r}")
    if problem.context <= problem.dim:
        raise ValueError(
            f"problem must have context > dim, got {problem.context} and {problem.dim}"
        )


def _freedom(problem: NoisyRegression, noise_estimate: str) -> int:
    """Denominator of the noise variance."""
    residual = problem.context - problem.dim
    return dict(zip(ESTIMATES, (residual, problem.context, residual + 2), strict=True))[
        noise_estimate
    ]


def _blocks(
    problem: NoisyRegression, count: int, rng: Any, place: Backend
) -> Iterator[NoisyPrompts]:
    for index, seed in enumerate(seed_sequences(rng, math.ceil(count / _BLOCK))):
        yield problem.sample(place, place.generator(seed), min(_BLOCK, count - index * _BLOCK))


def _standard_error(mean: float, square: float, contexts: int) -> float:
    if contexts < 2 or not math.isfinite(square):
        return math.inf
    return math.sqrt(max(square - mean**2, 0.0) / (contexts - 1))
