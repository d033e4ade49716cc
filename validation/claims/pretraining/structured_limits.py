"""Identities of the errors for structured data: isotropic case, and the order of limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import (
    JointSpectrum,
    icl_error,
    idg_error,
    structured_errors,
    trace_ratio,
)
from iclimit.validation.claim import Cell, Claim, Comparison, Preset, Verdict
from iclimit.validation.claims.pretraining.structured_points import LEVELS, STRUCTURED, covariances
from iclimit.validation.drawing import COLOURS, LABELS, log_scale

SETTINGS = 3000
ISOTROPIC_ACCURACY = 1e-12

FAR = 1e8
"""Stands for infinity where the other limit was taken before."""
REACHED = 1e-6
"""Relative: of order 1/FAR, times constants of order ten."""

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


def isotropic_deviations() -> dict[str, float]:
    """Largest relative differences from the foundation over random settings."""
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
    found = {}
    for name, law in (("one atom", ones), ("five equal atoms", many)):
        errors = structured_errors(spectrum=law, **setting)
        for error, function in (("icl", icl_error), ("idg", idg_error)):
            expected = function(**setting)
            ratio = getattr(errors, error) / expected
            found[f"{error.upper()}, {name}"] = float(np.max(np.abs(ratio - 1)))
    return found


def _judge(preset: Preset, results: Mapping[Cell, Any]) -> Verdict:  # noqa: ARG001
    comparisons = [
        Comparison(f"isotropic {label}, relative", 0.0, deviation, 0.0, ISOTROPIC_ACCURACY)
        for label, deviation in isotropic_deviations().items()
    ]

    def expect(label: str, theory: float, estimate: float) -> None:
        comparisons.append(Comparison(label, theory, estimate, 0.0, REACHED * abs(theory)))

    for test in TESTS:
        data: dict[str, float] = {"tau": math.inf, "alpha": FAR}
        context: dict[str, float] = {"alpha": math.inf, "tau": FAR}
        for kappa in (FEW, MANY):
            lost = lost_variance(kappa, test)
            where = f"kappa={kappa:g}, {test}"
            expect(f"tau, then alpha: {where}", RHO + lost, icl(test, kappa=kappa, **data))
            for slope in SLOPES:
                together = {"tau": FAR, "alpha": slope * FAR}
                expect(
                    f"alpha = {slope:g} tau: {where}",
                    RHO + lost * (1 + slope * RHO / (1 + RHO)),
                    icl(test, kappa=kappa, **together),
                )
        where = f"kappa={FEW:g}, {test}"
        diverged = 1 / icl(test, kappa=FEW, **context)
        comparisons.append(Comparison(f"1/ICL, alpha, then tau: {where}", 0.0, diverged, 0.0))
        expect(f"alpha, then tau: kappa={MANY:g}, {test}", RHO, icl(test, kappa=MANY, **context))
        limit = RHO * (1 + trace_ratio(spectrum_of(test)) / (2 - 1))
        expect(
            f"kappa, then alpha: tau=2, {test}", limit, icl(test, tau=2, kappa=math.inf, alpha=FAR)
        )
        expect(
            f"alpha, then kappa: tau=2, {test}", limit, icl(test, tau=2, alpha=math.inf, kappa=FAR)
        )
        best = trained_on_all(test, 1 + RHO)
        for first, second in (("tau", "kappa"), ("kappa", "tau")):
            both = {first: math.inf, second: FAR}
            expect(f"{first}, then {second}: alpha=1, {test}", best, icl(test, alpha=1, **both))
        point = {"alpha": 1.0, "kappa": FEW}
        data_first = icl(test, tau=math.inf, ridge=1 / FAR, **point)
        expect(f"tau to infinity, then no ridge: {where}", icl(test, tau=FAR, **point), data_first)
        # Both orders diverge at tau = 1, with other powers of what is left.
        expect(
            f"growth at tau=1 as the ridge falls 100 fold: {test}",
            10.0,
            icl(test, tau=1, ridge=1e-18, **point) / icl(test, tau=1, ridge=1e-16, **point),
        )
        for side in (-1, 1):
            near, nearer = (icl(test, tau=1 + side * x, **point) for x in (2**-24, 2**-30))
            approach = "below" if side < 0 else "above"
            label = f"growth without ridge as tau nears 1 from {approach}: {test}"
            expect(label, 64.0, nearer / near)

    def draw(figure: Any) -> None:
        figure.set_size_inches(8.6, 3.6)
        alpha = np.geomspace(1, 1e6, 200)
        for ax, kappa in zip(figure.subplots(1, 2), (FEW, MANY), strict=True):
            for tau, colour in zip((10, 100, 1e4, math.inf), COLOURS, strict=False):
                errors = structured_errors(
                    tau=tau, alpha=alpha, kappa=kappa, rho=RHO, spectrum=spectrum_of("aligned")
                )
                name = r"\infty" if tau == math.inf else f"{tau:g}"
                ax.plot(alpha, errors.icl, color=colour, label=rf"$\tau = {name}$")
            limit = RHO + lost_variance(kappa, "aligned")
            label = r"$\tau$, then $\alpha \to \infty$"
            ax.axhline(limit, color="0.4", linestyle=":", label=label)
            ax.set_ylim(0.2, 20 if kappa < 1 else 1)
            log_scale(ax, "y")
            ax.set_xscale("log")
            ax.set_xlabel(LABELS["alpha"])
            ax.set_ylabel(LABELS["icl_error"])
            ax.set_title(rf"$\kappa = {kappa:g}$, power law 0.9, aligned, $\rho = {RHO:g}$")
        ax.legend()

    return Verdict(tuple(comparisons), draw)


limits_claim = Claim(
    name="structured-limits",
    title="Isotropic case of structured errors, and where limits can be exchanged",
    source=f"{STRUCTURED}; Lu et al., arXiv:2405.11751; limits derived in the documentation",
    statement=(
        "For equal eigenvalues the errors are those of isotropic tasks to 1e-12. Limits of many "
        "tasks and long contexts, of many tasks and much data, and of much data and no ridge can "
        "be exchanged; those of much data and long contexts only with as many tasks as "
        "dimensions: with fewer the error diverges in one order, is the test variance outside "
        "their span in the other, and in between depends on alpha/tau. Towards tau = 1 without "
        "ridge the error grows as 1/|tau - 1|, at tau = 1 as the inverse root of the ridge."
    ),
    cells=lambda preset: [],  # noqa: ARG005
    judge=_judge,
)
