"""Isotropic case of structured errors, and where limits can be exchanged.

For equal eigenvalues the errors are those of isotropic tasks to 1e-12.  Limits of many tasks
and long contexts, of many tasks and much data, and of much data and no ridge can be exchanged.
Those of much data and long contexts can be exchanged only with as many tasks as dimensions.  With
fewer tasks the error diverges in one order, is the test variance outside their span in the other,
and in between depends on alpha/tau.  Towards tau = 1 without ridge the error grows as 1/|tau -
1|, at tau = 1 as the inverse root of the ridge.

Source: {letey2025}; {lu2025}; limits derived in the documentation.
"""

import math

import numpy as np
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import (
    JointSpectrum,
    icl_error,
    idg_error,
    structured_errors,
    trace_ratio,
)
from iclimit.drawing import COLOURS, Figure, finish, panels
from iclimit.validation import Claim, Preset, Results, Verdict, compare
from iclimit.validation.claims.pretraining.structured_points import LEVELS, covariances

SETTINGS = 1000
"""Random settings at which structured errors of equal eigenvalues are compared."""
ISOTROPIC_ACCURACY = 1e-12

FAR = 1e8
"""Stands for infinity where the other limit was taken before."""
REACHED = 1e-6
"""Relative: what is left is of order 1/FAR, times constants of order ten."""

RHO = 0.25
TASKS = "powerlaw:0.9"
TESTS = ("aligned", "reversed")
FEW, MANY = 0.5, 2.0
"""Task diversities below and above one."""
SLOPES = (0.25, 1.0, 4.0)
"""Values of alpha/tau along which both grow."""


def spectrum_of(test: str) -> JointSpectrum:
    """Joint spectrum of a power law and its tests."""
    given = covariances(LEVELS, TASKS, test, "isotropic", "same")
    return JointSpectrum.of_matrices(given["task_covariance"], given["test_covariance"])


def icl(test: str, **setting: float) -> float:
    """Asymptotic ICL error."""
    return float(structured_errors(rho=RHO, spectrum=spectrum_of(test), **setting).icl)


def lost_variance(kappa: float, test: str) -> float:
    r"""Mean test variance outside the span of kappa d training tasks.

    The projection on the complement of k vectors :math:`C^{1/2} g_j` has the deterministic
    equivalent :math:`(1 + g C)^{-1}` with :math:`\frac1d \operatorname{tr} (1 + g C)^{-1} =
    1 - \kappa`; nothing is outside for :math:`\kappa \ge 1`.
    """
    if kappa >= 1:
        return 0.0
    law = spectrum_of(test)
    g = brentq(lambda g: law.weight @ (1 / (1 + g * law.task)) - (1 - kappa), 0.0, 1e6)
    return float(law.weight @ (law.test / (1 + g * law.task)))


def trained_on_all(test: str, q: float) -> float:
    """Error of the best predictor from a context, for the law of tasks it was trained on.

    Without end of prompts and tasks Gamma is C/(C + q), q the noise of a context.
    """
    law = spectrum_of(test)
    shrinkage = law.task / (law.task + q)
    return RHO + float(law.weight @ (law.test * (1 - shrinkage) ** 2 + q * shrinkage**2))


def isotropic_errors() -> dict[str, tuple[float, float]]:
    """Isotropic and structured error where they differ most over random settings, by label."""
    rng = np.random.default_rng(0)
    near_one = 1 + 10 ** rng.uniform(-6, -1, SETTINGS) * rng.choice([-1, 1], SETTINGS)
    setting = {
        "tau": np.where(rng.random(SETTINGS) < 0.2, near_one, 10 ** rng.uniform(-2, 3, SETTINGS)),
        "alpha": 10 ** rng.uniform(-2, 4, SETTINGS),
        "kappa": 10 ** rng.uniform(-2, 3, SETTINGS),
        "rho": rng.uniform(0, 2, SETTINGS),
        "ridge": np.where(rng.random(SETTINGS) < 0.4, 0.0, 10 ** rng.uniform(-8, 2, SETTINGS)),
    }
    ones = JointSpectrum.of_matrices(np.ones(5))
    many = JointSpectrum(*(np.ones(5),) * 3, np.full(5, 0.2))
    expected, rows = {"icl": icl_error(**setting), "idg": idg_error(**setting)}, {}
    for name, law in (("one atom", ones), ("five equal atoms", many)):
        errors = structured_errors(spectrum=law, **setting)
        for error, values in expected.items():
            found = getattr(errors, error)
            worst = int(np.argmax(np.abs(found / values - 1)))
            label = f"isotropic {error.upper()}, {name}, the worst of {SETTINGS} settings"
            rows[label] = float(values[worst]), float(found[worst])
    return rows


def exchanged_limits(test: str) -> dict[str, tuple[float, float]]:
    """What limits in some order should give, and what the formula gives far out, by label."""
    point, rows = {"alpha": 1.0, "kappa": FEW}, {}
    for kappa in (FEW, MANY):
        lost, where = lost_variance(kappa, test), f"kappa={kappa:g}, {test}"
        data_first = icl(test, kappa=kappa, tau=math.inf, alpha=FAR)
        rows[f"tau, then alpha: {where}"] = RHO + lost, data_first
        for slope in SLOPES:
            together = icl(test, kappa=kappa, tau=FAR, alpha=slope * FAR)
            theory = RHO + lost * (1 + slope * RHO / (1 + RHO))
            rows[f"alpha = {slope:g} tau: {where}"] = theory, together
    context_first = icl(test, kappa=MANY, alpha=math.inf, tau=FAR)
    rows[f"alpha, then tau: kappa={MANY:g}, {test}"] = RHO, context_first
    data_first = icl(test, tau=math.inf, ridge=1 / FAR, **point)
    label = f"tau to infinity, then no ridge: kappa={FEW:g}, {test}"
    rows[label] = icl(test, tau=FAR, **point), data_first
    limit = RHO * (1 + trace_ratio(spectrum_of(test)) / (2 - 1))
    for first, second in (("kappa", "alpha"), ("alpha", "kappa")):
        error = icl(test, tau=2, **{first: math.inf, second: FAR})
        rows[f"{first}, then {second}: tau=2, {test}"] = limit, error
    best = trained_on_all(test, 1 + RHO)
    for first, second in (("tau", "kappa"), ("kappa", "tau")):
        error = icl(test, alpha=1, **{first: math.inf, second: FAR})
        rows[f"{first}, then {second}: alpha=1, {test}"] = best, error
    # Both orders of no ridge and tau = 1 diverge, with other powers of what is left.
    large, small = (icl(test, tau=1, ridge=ridge, **point) for ridge in (1e-16, 1e-18))
    rows[f"growth at tau=1 as the ridge falls 100 fold: {test}"] = 10.0, small / large
    for side, name in ((-1, "below"), (1, "above")):
        near, nearer = (icl(test, tau=1 + side * x, **point) for x in (2**-24, 2**-30))
        rows[f"growth without ridge as tau nears 1 from {name}: {test}"] = 64.0, nearer / near
    return rows


def judge(preset: Preset, results: Results) -> Verdict:  # noqa: ARG001
    """Compare the isotropic case, and the orders of limits for both kinds of tests."""
    comparisons = [
        compare(label, *pair, relative=ISOTROPIC_ACCURACY)
        for label, pair in isotropic_errors().items()
    ]
    for test in TESTS:
        rows = exchanged_limits(test).items()
        comparisons += [compare(label, *pair, relative=REACHED) for label, pair in rows]
        diverging = icl(test, kappa=FEW, alpha=math.inf, tau=FAR)
        label = f"1/ICL, alpha, then tau: kappa={FEW:g}, {test}"
        comparisons.append(compare(label, 0.0, 1 / diverging))
    note = "identities of formulas: the other claims say how sharply simulations test the errors"
    return Verdict(comparisons, draw, [note])


def draw(figure: Figure) -> None:
    """Draw errors against context at several amounts of data, with few and many tasks."""
    alpha = np.geomspace(1, 1e6, 200)
    for ax, kappa in zip(panels(figure, height=3.6), (FEW, MANY), strict=True):
        for tau, colour in zip((10, 100, 1e4, math.inf), COLOURS, strict=False):
            errors = structured_errors(
                tau=tau, alpha=alpha, kappa=kappa, rho=RHO, spectrum=spectrum_of("aligned")
            )
            name = r"\infty" if tau == math.inf else f"{tau:g}"
            ax.plot(alpha, errors.icl, color=colour, label=rf"$\tau = {name}$")
        limit, label = RHO + lost_variance(kappa, "aligned"), r"$\tau$, then $\alpha \to \infty$"
        ax.axhline(limit, color="0.4", linestyle=":", label=label)
        ax.set_ylim(0.2, 20 if kappa < 1 else 1)
        title = rf"$\kappa = {kappa:g}$, power law 0.9, aligned, $\rho = {RHO:g}$"
        finish(ax, "alpha", "icl_error", title=title, log="xy")
    ax.legend()


claim = Claim.of("structured-limits", __doc__, lambda _: {}, judge)
