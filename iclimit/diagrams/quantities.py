"""Scalar quantities by name: what `curve` and `phase_diagram` can draw.

Left out are functions of vectors or matrices (preconditioners, plateaus, mixtures of tasks, given
schedules), and predictions that need random task sets (`iclimit.finite_size_errors`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from iclimit import asymptotics
from iclimit.diagrams.structure import Structure
from iclimit.notation import LABELS

_BLOCK = 2**15
"""Points evaluated at once: temporaries stay in the cache, and memory stays bounded."""

_STRUCTURED_BLOCK = 2**9
"""The same for structured data, of which a point takes hundreds of numbers."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a quantity.

    Attributes
    ----------
    label : str
        Axis label: the symbol of the notation page, and its definition.
    meaning : str
        In words.
    whole : bool
        Whether only integers are allowed.
    """

    label: str
    meaning: str
    whole: bool = False

    @property
    def symbol(self) -> str:
        """Symbol without dollar signs."""
        return self.label.strip("$").split(" = ")[0]


PARAMETERS = {
    "tau": Parameter(LABELS["tau"], "prompts over squared dimension, n/d^2"),
    "alpha": Parameter(LABELS["alpha"], "context length over dimension, l/d"),
    "kappa": Parameter(LABELS["kappa"], "pretraining tasks over dimension, k/d"),
    "rho": Parameter(LABELS["rho"], "variance of the label noise"),
    "ridge": Parameter(LABELS["ridge"], "ridge"),
    "test_alpha": Parameter(r"$\alpha' = \ell'/d$", "context length of tests over dimension"),
    "test_rho": Parameter(r"$\rho'$", "variance of the label noise of tests"),
    "theta": Parameter(LABELS["theta"], "logarithm of the pretraining tasks over dimension"),
    "q": Parameter(r"$q$", "argument of the resolvent"),
    "rate": Parameter(r"$\eta$", "learning rate of the mean over the context"),
    "dampening": Parameter(r"$\delta$", "learning rate over the best rate for one step"),
    "probability": Parameter(r"$p$", "probability of a smaller critical factor"),
    "test_tasks": Parameter(r"$T$", "number of test tasks", whole=True),
    "context": Parameter(r"$N$", "number of context pairs"),
    "dim": Parameter(r"$d$", "dimension"),
    "noise_variance": Parameter(r"$\sigma^2$", "variance of the label noise"),
    "task_variance": Parameter(r"$a^2$", "variance of the task coordinates"),
    "mean_noise_variance": Parameter(r"$E\,\sigma^2$", "mean noise variance of the prompts"),
    "ratio": Parameter(r"$c = d/N$", "dimension over context pairs"),
    "noise_ratio": Parameter(
        r"$v = \sigma^2/Na^2$", "noise variance over N times the task variance"
    ),
    "steps": Parameter(r"$L$", "number of steps", whole=True),
    "layers": Parameter(r"$L$", "number of layers", whole=True),
    "condition_number": Parameter(r"$\nu/\mu$", "condition number at the start"),
    "tol": Parameter(r"$\kappa_L - 1$", "largest excess of the condition number over 1"),
    "highest_noise": Parameter(r"$b$", "noise levels of prompts are uniform from 0 to b"),
    "penalty": Parameter(r"$\lambda$", "penalty of ridge regression in a context"),
    "multiplier": Parameter(r"$m$", "penalty over the estimated noise variance"),
    "threshold": Parameter(r"$\tau$", "largest penalty"),
    "t": Parameter(r"$t$", "training time"),
    "init_scale": Parameter(r"$w_0$", "norm of either layer at the start"),
    "input_variance": Parameter(r"$\lambda$", "variance of the input coordinates"),
    "drop_fraction": Parameter(r"$f$", "part of the drop that has happened"),
    "initial_value": Parameter(r"$v_0$", "value weight at the start"),
    "value": Parameter(r"$v$", "value weight"),
    "eigenvalue": Parameter(r"$\lambda$", "eigenvalue of the input covariance"),
    "trace": Parameter(r"$\mathrm{tr}\,\Lambda$", "trace of the input covariance"),
}
"""Parameters by name, with what they mean unless a quantity says otherwise."""

EIGENVALUE = {"eigenvalue": Parameter("$s$", "eigenvalue of the context's covariance")}
SIZE = {
    "context": Parameter(r"$N$", "number of context pairs", whole=True),
    "dim": Parameter(r"$d$", "dimension", whole=True),
}


@dataclass(frozen=True)
class Quantity:
    """A named quantity of the theory.

    Attributes
    ----------
    function : callable
        Takes the parameters as keyword arguments and broadcasts.
    parameters : dict of str to Parameter
        Required parameters by name.
    optional : dict of str to Parameter
        Parameters that may be left out.
    label : str
        Axis label.
    meaning : str
        In words.
    simulated : tuple of float, optional
        The quantity as a combination of the simulated ICL and IDG errors, if it is one.
    structured : callable, optional
        The same quantity for structured data: takes a JointSpectrum as ``spectrum`` too.
    structure : Structure, optional
        The data that the function is for; None: isotropic.
    """

    function: Callable[..., Any]
    parameters: dict[str, Parameter]
    optional: dict[str, Parameter]
    label: str
    meaning: str = field(kw_only=True)
    simulated: tuple[float, float] | None = None
    structured: Callable[..., Any] | None = None
    structure: Structure | None = None

    @property
    def all_parameters(self) -> dict[str, Parameter]:
        """Required and optional parameters by name."""
        return self.parameters | self.optional

    def of(self, structure: Structure) -> Quantity:
        """Return the quantity for structured data."""
        assert self.structured is not None
        return replace(
            self,
            function=partial(self.structured, spectrum=structure.joint),
            optional=self.optional | TESTS,
            structure=structure,
        )

    def evaluate(self, parameters: Mapping[str, Any]) -> np.ndarray:
        """Values, broadcast over the parameters; large arrays in blocks, on all cores."""
        arrays = {name: np.asarray(value, dtype=float) for name, value in parameters.items()}
        shape = np.broadcast_shapes(*(a.shape for a in arrays.values()))
        block = _BLOCK if self.structure is None else _STRUCTURED_BLOCK
        if math.prod(shape) <= block:
            return np.broadcast_to(self.function(**arrays), shape)
        full = {n: a.reshape((1,) * (len(shape) - a.ndim) + a.shape) for n, a in arrays.items()}
        rows = max(1, block // math.prod(shape[1:]))
        parts = [slice(first, first + rows) for first in range(0, shape[0], rows)]
        values = np.empty(shape)

        def fill(part: slice) -> None:
            chosen = {n: a[part] if a.shape[0] > 1 else a for n, a in full.items()}
            values[part] = self.function(**chosen)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(fill, parts))
        return values


_NEAR = 1 + 1e-6
"""Factor to a point next to one at which errors diverge."""


def _number(value: float) -> float:
    """An int where it is one, since only that is taken for an integer."""
    return int(value) if float(value).is_integer() else float(value)


def one_at_a_time(function: Callable[..., Any], *names: str) -> Callable[..., Any]:
    """Broadcast a function over parameters that it takes as single numbers only."""

    def broadcast(**parameters: Any) -> np.ndarray:
        shape = np.broadcast_shapes(*(np.shape(value) for value in parameters.values()))
        single = [name for name in names if name in parameters]
        if all(np.unique(parameters[name]).size == 1 for name in single):
            only = {name: _number(np.ravel(parameters[name])[0]) for name in single}
            return np.broadcast_to(function(**(parameters | only)), shape)
        flat = {name: np.broadcast_to(v, shape).ravel() for name, v in parameters.items()}
        values = np.empty(math.prod(shape))
        combinations, which, counts = np.unique(
            np.stack([flat[name] for name in single]),
            axis=1,
            return_inverse=True,
            return_counts=True,
        )
        places = np.split(np.argsort(which.ravel(), kind="stable"), np.cumsum(counts)[:-1])
        for combination, here in zip(combinations.T.tolist(), places, strict=True):
            numbers = [_number(v) for v in combination]
            arrays = {name: v[here] for name, v in flat.items() if name not in single}
            values[here] = function(**dict(zip(single, numbers, strict=True)), **arrays)
        return values.reshape(shape)

    return broadcast


def _constant_rates(rate: Any, steps: int, **setting: Any) -> Any:
    rate = np.asarray(rate)[..., None]
    rates = np.broadcast_to(rate, (*rate.shape[:-1], steps))
    return asymptotics.descent.schedule_loss(rates, **setting)


def _dampened(dampening: Any, ratio: Any, steps: int, noise_ratio: Any = 0.0) -> Any:
    rate = dampening / (1 + ratio + noise_ratio)
    return _constant_rates(rate, steps, ratio=ratio, noise_ratio=noise_ratio)


def _attention_over_dmmse(
    *, theta: Any, alpha: Any, rho: Any, tau: Any = np.inf, ridge: Any = 0.0, dim: Any = np.inf
) -> Any:
    attention = asymptotics.pretraining.icl_error(
        tau=tau, alpha=alpha, kappa=np.inf, rho=rho, ridge=ridge
    )
    return (
        attention
        / asymptotics.pretraining.dmmse_errors(theta=theta, alpha=alpha, rho=rho, dim=dim).icl
    )


def _structured(part: str) -> Callable[..., Any]:
    return lambda **p: getattr(asymptotics.pretraining.structured_errors(**p), part)


def _structured_gap(**p: Any) -> Any:
    """Difference of the errors; infinite where both are, on the side of the larger one near by."""
    errors = asymptotics.pretraining.structured_errors(**p)
    both = np.isinf(errors.icl) & np.isinf(errors.idg)
    if not np.any(both):
        return errors.icl - errors.idg
    near = asymptotics.pretraining.structured_errors(
        **p | {"tau": np.where(both, p["tau"] * _NEAR, p["tau"])}
    )
    sign = np.where(near.icl >= near.idg, np.inf, -np.inf)
    return np.where(both, sign, np.where(both, 0, errors.icl) - np.where(both, 0, errors.idg))


def _isotropic(part: str) -> Callable[..., Any]:
    return partial(_structured(part), spectrum=Structure("isotropic").joint)


def _schedule(kind: Callable[..., Any], part: str) -> Callable[..., Any]:
    return one_at_a_time(lambda **p: getattr(kind(**p), part), "steps")


def _uniform(function: Callable[..., Any]) -> Callable[..., Any]:
    """Loss for noise levels that are uniform from 0 to b, one point at a time."""

    def loss(highest_noise: float, **more: Any) -> Any:
        return function(f"uniform:{highest_noise!r}", **more)

    names = ("highest_noise", "context", "dim", "penalty", "multiplier", "threshold")
    return one_at_a_time(loss, *names)


def _parameters(names: str, **special: Parameter) -> dict[str, Parameter]:
    return {name: special.get(name) or PARAMETERS[name] for name in names.split()}


_SETTING, _RIDGE = _parameters("tau alpha kappa rho"), _parameters("ridge")
TESTS = _parameters("test_alpha test_rho")
_BAYES, _LIMIT = _parameters("theta alpha rho"), _parameters("ratio steps")
_NOISE = _parameters("noise_ratio")
_STEP, _VARIANCES = _parameters("context dim"), _parameters("noise_variance task_variance")
_REGRESSION = _parameters("highest_noise") | SIZE
_MERGED = _parameters("dim context init_scale")
_INPUTS = _parameters("input_variance noise_variance")
_HEAD = _parameters("eigenvalue trace context")
_ICL, _IDG = LABELS["icl_error"], LABELS["idg_error"]

QUANTITIES = {
    "icl_error": Quantity(
        asymptotics.pretraining.icl_error,
        _SETTING,
        _RIDGE,
        _ICL,
        (1.0, 0.0),
        meaning="error of linear attention on fresh tasks",
        structured=_structured("icl"),
    ),
    "idg_error": Quantity(
        asymptotics.pretraining.idg_error,
        _SETTING,
        _RIDGE,
        _IDG,
        (0.0, 1.0),
        meaning="error of linear attention on the pretraining tasks",
        structured=_structured("idg"),
    ),
    "task_gap": Quantity(
        asymptotics.pretraining.task_gap,
        _SETTING,
        _RIDGE,
        LABELS["task_gap"],
        (1.0, -1.0),
        meaning="difference of the two errors",
        structured=_structured_gap,
    ),
    "misalignment_error": Quantity(
        _isotropic("misalignment"),
        _SETTING,
        _RIDGE | TESTS,
        r"misalignment part of " + _ICL,
        structured=_structured("misalignment"),
        meaning="part of icl_error that is linear in the covariance of test tasks",
    ),
    "scalar_error": Quantity(
        _isotropic("scalar"),
        _SETTING,
        _RIDGE | TESTS,
        r"scalar part of " + _ICL,
        structured=_structured("scalar"),
        meaning="the rest, which depends on test tasks only through the variance of their labels",
    ),
    "optimal_ridge": Quantity(
        lambda **p: asymptotics.pretraining.optimal_ridge(**p).ridge,
        _SETTING,
        {},
        r"optimal $\lambda$",
        meaning="ridge with the least error on fresh tasks",
    ),
    "optimal_icl_error": Quantity(
        lambda **p: asymptotics.pretraining.optimal_ridge(**p).error,
        _SETTING,
        {},
        _ICL + r" at optimal $\lambda$",
        meaning="error on fresh tasks with that ridge",
    ),
    "optimal_idg_ridge": Quantity(
        lambda **p: asymptotics.pretraining.optimal_ridge(**p, objective="idg").ridge,
        _SETTING,
        {},
        r"$\lambda$ optimal for " + _IDG,
        meaning="ridge with the least error on pretraining tasks",
    ),
    "optimal_idg_error": Quantity(
        lambda **p: asymptotics.pretraining.optimal_ridge(**p, objective="idg").error,
        _SETTING,
        {},
        _IDG + r" at optimal $\lambda$",
        meaning="error on pretraining tasks with that ridge",
    ),
    "bayes_error": Quantity(
        asymptotics.pretraining.bayes_error,
        _parameters("alpha rho"),
        {},
        r"$e$ of Bayes on all tasks",
        meaning="error of the Bayes estimator on all tasks",
    ),
    "dmmse_icl_error": Quantity(
        lambda **p: asymptotics.pretraining.dmmse_errors(**p).icl,
        _BAYES,
        _parameters("dim"),
        _ICL + " of dMMSE",
        meaning="error of the Bayes estimator on the pretraining tasks, on fresh tasks",
    ),
    "dmmse_idg_error": Quantity(
        lambda **p: asymptotics.pretraining.dmmse_errors(**p).idg,
        _BAYES,
        _parameters("dim"),
        _IDG + " of dMMSE",
        meaning="its error on the pretraining tasks",
    ),
    "attention_over_dmmse": Quantity(
        _attention_over_dmmse,
        _BAYES,
        _parameters("tau ridge dim"),
        _ICL + " over that of dMMSE",
        meaning="ratio of errors on fresh tasks at exponentially many tasks (tau: default inf)",
    ),
    "wishart_resolvent": Quantity(
        asymptotics.spectra.wishart_resolvent,
        _parameters("q kappa"),
        {},
        r"$M_\kappa(q)$",
        meaning="normalised trace of the resolvent of the task covariance",
    ),
    "learning_rate_loss": Quantity(
        asymptotics.descent.learning_rate_loss,
        _parameters("rate") | _STEP,
        _VARIANCES,
        r"$\mathcal{L}$",
        meaning="loss of one gradient-descent step, Gaussian inputs",
    ),
    "optimal_learning_rate": Quantity(
        lambda **p: asymptotics.descent.optimal_learning_rate(**p).rate,
        _STEP,
        _VARIANCES,
        r"$\eta^*$",
        meaning="rate of one step with the least loss",
    ),
    "optimal_learning_rate_loss": Quantity(
        lambda **p: asymptotics.descent.optimal_learning_rate(**p).loss,
        _STEP,
        _VARIANCES,
        r"$\mathcal{L}^*$",
        meaning="loss at that rate",
    ),
    "constant_rate_loss": Quantity(
        one_at_a_time(_constant_rates, "steps"),
        _parameters("rate") | _LIMIT,
        _NOISE,
        r"$\mathcal{L}$",
        meaning="loss of steps at one rate, over that of predicting 0; limit",
    ),
    "dampened_loss": Quantity(
        one_at_a_time(_dampened, "steps"),
        _parameters("dampening") | _LIMIT,
        _NOISE,
        r"$\mathcal{L}$",
        meaning="the same, the rate in units of the best rate for one step",
    ),
    "constant_schedule_loss": Quantity(
        _schedule(asymptotics.descent.constant_schedule, "loss"),
        _LIMIT,
        _NOISE,
        r"$\mathcal{L}$ at the best constant rate",
        meaning="the same at the best such rate",
    ),
    "optimal_schedule_loss": Quantity(
        _schedule(asymptotics.descent.optimal_schedule, "loss"),
        _LIMIT,
        _NOISE,
        r"$\mathcal{L}$ at the best rates",
        meaning="least loss of steps with different rates",
    ),
    "optimal_schedule_bound": Quantity(
        _schedule(asymptotics.descent.chebyshev_schedule, "lower_bound"),
        _LIMIT,
        _NOISE,
        r"$\mathcal{L}$ of the best polynomial",
        meaning="least loss with complex rates allowed",
    ),
    "chebyshev_schedule_loss": Quantity(
        _schedule(asymptotics.descent.chebyshev_schedule, "loss"),
        _LIMIT,
        _NOISE,
        r"$\mathcal{L}$ of Chebyshev steps",
        meaning="loss of the best steps in the worst case",
    ),
    "optimal_dampening": Quantity(
        one_at_a_time(
            asymptotics.descent.optimal_dampening, "steps", "context", "dim", "noise_ratio"
        ),
        _parameters("steps") | SIZE,
        _NOISE,
        r"optimal $\delta$",
        meaning="best factor of the update of a recurrent layer",
    ),
    "critical_dampening": Quantity(
        one_at_a_time(
            asymptotics.descent.critical_dampening, "context", "dim", "test_tasks", "noise_ratio"
        ),
        _parameters("probability") | SIZE | _parameters("test_tasks"),
        _NOISE,
        r"critical $\delta$",
        meaning="quantile of the factor beyond which a recurrent layer diverges",
    ),
    "condition_number_excess": Quantity(
        one_at_a_time(
            lambda **p: asymptotics.gdpp.condition_number_schedule(**p).excess[..., -1], "steps"
        ),
        _parameters("condition_number steps"),
        {},
        r"$\kappa_L - 1$",
        meaning="condition number after the best layers of GD++, minus 1",
    ),
    "steps_needed": Quantity(
        asymptotics.gdpp.steps_needed,
        _parameters("condition_number tol"),
        {},
        "layers needed",
        meaning="layers of GD++ that bring the condition number down to 1 + tol",
    ),
    "optimal_gdpp_loss": Quantity(
        one_at_a_time(
            lambda **p: asymptotics.gdpp.optimal_gdpp(**p).loss, "layers", "ratio", "noise_ratio"
        ),
        _parameters("layers ratio"),
        _NOISE,
        r"$\mathcal{L}$ of the best GD++",
        meaning="least loss of GD++; searched, up to seconds for a point",
    ),
    "optimal_gdpp_residual": Quantity(
        one_at_a_time(
            lambda **p: asymptotics.gdpp.optimal_gdpp(**p).loss, "layers", "condition_number"
        ),
        _parameters("layers condition_number"),
        {},
        r"$\max |P|$ of the best GD++",
        meaning="least worst-case residual of GD++; searched, up to seconds for a point",
    ),
    "ridge_risk": Quantity(
        one_at_a_time(asymptotics.gdpp.ridge_risk, "context", "dim"),
        _parameters("penalty noise_variance") | SIZE,
        {},
        r"$R(\lambda, \sigma^2)$",
        meaning="half the squared error of ridge regression on a context",
    ),
    "oracle_risk": Quantity(
        _uniform(asymptotics.gdpp.oracle_risk),
        _REGRESSION,
        {},
        r"$E\,R(\sigma^2, \sigma^2)$",
        meaning="the same at the best penalty for every noise level",
    ),
    "constant_ridge_loss": Quantity(
        _uniform(asymptotics.gdpp.constant_ridge_loss),
        _REGRESSION,
        _parameters("penalty"),
        r"$\ell$ of ConstRR",
        meaning="adjusted loss of one penalty for all noise levels (the best one by default)",
    ),
    "adaptive_ridge_loss": Quantity(
        _uniform(asymptotics.gdpp.adaptive_ridge_loss),
        _REGRESSION,
        _parameters("multiplier threshold"),
        r"$\ell$ of AdaRR",
        meaning="adjusted loss of a penalty from the estimated noise variance",
    ),
    "one_layer_loss": Quantity(
        lambda **p: asymptotics.gdpp.one_layer(p.pop("mean_noise_variance"), **p).loss,
        _parameters("mean_noise_variance context dim"),
        {},
        "half the squared error of the best step",
        meaning="loss of the best step at random noise levels",
    ),
    "merged_attention_loss": Quantity(
        asymptotics.dynamics.merged_attention_loss,
        _parameters("t") | _MERGED,
        _INPUTS,
        "$L$",
        meaning="loss of merged attention during training",
    ),
    "merged_drop_time": Quantity(
        asymptotics.dynamics.merged_drop_time,
        _MERGED,
        _parameters("drop_fraction") | _INPUTS,
        r"$t$ of the drop",
        meaning="time at which it has fallen by a fraction (half by default)",
    ),
    "escape_time": Quantity(
        asymptotics.dynamics.escape_time,
        _parameters("initial_value eigenvalue"),
        {},
        r"$t$ of the escape",
        meaning="time in which a head of separate attention leaves a small start",
    ),
    "growth_time": Quantity(
        asymptotics.dynamics.growth_time,
        _parameters("value initial_value") | _HEAD,
        _parameters("noise_variance"),
        r"$t$",
        meaning="time in which the value weight of a head grows",
    ),
    "head_growth": Quantity(
        asymptotics.dynamics.head_growth,
        _parameters("t") | _HEAD,
        _parameters("noise_variance"),
        "$v$",
        meaning="value weight of a head at a time from the pole of its early growth",
    ),
    "wishart_density": Quantity(
        one_at_a_time(
            lambda eigenvalue, **p: asymptotics.spectra.wishart_density(eigenvalue, **p),
            "context",
            "dim",
        ),
        EIGENVALUE | SIZE,
        {},
        "density",
        meaning="density of the eigenvalues of a context's covariance",
    ),
    "largest_eigenvalue_cdf": Quantity(
        one_at_a_time(
            lambda eigenvalue, **p: asymptotics.spectra.largest_eigenvalue_cdf(eigenvalue, **p),
            "context",
            "dim",
        ),
        EIGENVALUE | SIZE,
        {},
        r"$P(s_{\max} \leq s)$",
        meaning="distribution function of its largest eigenvalue",
    ),
}
"""Quantities by name."""


def named_quantity(name: str, structure: Structure | None = None) -> Quantity:
    """Look up a quantity, for structured data if they are given.

    Raises
    ------
    ValueError
        If the name is unknown, or the quantity is for isotropic data only.
    """
    if name not in QUANTITIES:
        raise ValueError(f"quantity must be one of {', '.join(QUANTITIES)}, got {name!r}")
    quantity = QUANTITIES[name]
    if structure is None:
        return quantity
    if quantity.structured is None:
        able = ", ".join(n for n, q in QUANTITIES.items() if q.structured)
        raise ValueError(f"quantity must be one of {able} to take a spectrum, got {name!r}")
    return quantity.of(structure)


def get_quantity(
    name: str, parameters: Mapping[str, Any], structure: Structure | None = None
) -> Quantity:
    """Look up a quantity and check that exactly its parameters are given.

    Raises
    ------
    ValueError
        If the name is unknown, the quantity takes no spectrum but one is given, or a parameter
        is missing or does not belong to the quantity.
    """
    quantity = named_quantity(name, structure)
    for parameter in parameters:
        if parameter not in quantity.all_parameters:
            allowed = ", ".join(quantity.all_parameters)
            hint = " without a spectrum" if quantity.structured and parameter in TESTS else ""
            raise ValueError(f"{name} takes {allowed}{hint}, got {parameter!r}")
    missing = [p for p in quantity.parameters if p not in parameters]
    if missing:
        raise ValueError(f"{name} needs {', '.join(missing)}")
    return quantity
