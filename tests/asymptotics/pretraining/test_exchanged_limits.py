"""Where limits of the errors for structured data can be exchanged, and how the errors diverge.

Limits of many tasks and long contexts, of many tasks and much data, and of much data and no ridge
can be exchanged.  Those of much data and long contexts can be exchanged only with as many tasks as
dimensions: with fewer the error diverges in one order, is the test variance outside their span in
the other, and in between depends on alpha/tau.
"""

import math

import numpy as np
import pytest
from scipy.optimize import brentq

from iclimit.asymptotics.pretraining import JointSpectrum, structured_errors, trace_ratio

FAR = 1e8  # stands for infinity where the other limit was taken before
REACHED = 1e-6  # what is left is of order 1/FAR, times constants of order ten
RHO, FEW, MANY = 0.25, 0.5, 2.0
POWER_LAW = np.arange(1, 9.0) ** -0.9 / np.mean(np.arange(1, 9.0) ** -0.9)
LAWS = {
    "aligned": JointSpectrum.of_matrices(POWER_LAW, POWER_LAW),
    "reversed": JointSpectrum.of_matrices(POWER_LAW, POWER_LAW[::-1]),
}


def icl(law, **setting):
    return float(structured_errors(rho=RHO, spectrum=law, **setting).icl)


def lost_variance(kappa, law):
    r"""Mean test variance outside the span of kappa d training tasks.

    The projection on the complement of k vectors :math:`C^{1/2} g_j` has the deterministic
    equivalent :math:`(1 + g C)^{-1}` with :math:`\frac1d \operatorname{tr} (1 + g C)^{-1} =
    1 - \kappa`.
    """
    g = brentq(lambda g: law.weight @ (1 / (1 + g * law.task)) - (1 - kappa), 0.0, 1e6)
    return float(law.weight @ (law.test / (1 + g * law.task)))


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_orders_of_limits(law):
    lost = lost_variance(FEW, law)
    point = {"alpha": 1.0, "kappa": FEW}
    for kappa, outside in ((FEW, lost), (MANY, 0.0)):
        limits = [(RHO + outside, {"tau": math.inf, "alpha": FAR})]
        for slope in (0.25, 1.0, 4.0):
            theory = RHO + outside * (1 + slope * RHO / (1 + RHO))
            limits.append((theory, {"tau": FAR, "alpha": slope * FAR}))
        for theory, setting in limits:
            assert icl(law, kappa=kappa, **setting) == pytest.approx(theory, rel=REACHED)
    assert icl(law, kappa=MANY, alpha=math.inf, tau=FAR) == pytest.approx(RHO, rel=REACHED)
    assert 1 / icl(law, kappa=FEW, alpha=math.inf, tau=2) == 0
    endless = icl(law, tau=FAR, **point)
    assert icl(law, tau=math.inf, ridge=1 / FAR, **point) == pytest.approx(endless, rel=REACHED)
    many_and_long = RHO * (1 + trace_ratio(law) / (2 - 1))
    shrinkage = law.task / (law.task + 1 + RHO)  # the best predictor for the law of its tasks
    best = RHO + law.weight @ (law.test * (1 - shrinkage) ** 2 + (1 + RHO) * shrinkage**2)
    for names, fixed, limit in (
        (("kappa", "alpha"), {"tau": 2}, many_and_long),
        (("tau", "kappa"), {"alpha": 1}, best),
    ):
        for first, second in (names, names[::-1]):
            setting = fixed | {first: math.inf, second: FAR}
            assert icl(law, **setting) == pytest.approx(limit, rel=REACHED)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_powers_of_the_divergences_at_tau_1(law):
    point = {"alpha": 1.0, "kappa": FEW}
    large, small = (icl(law, tau=1, ridge=ridge, **point) for ridge in (1e-16, 1e-18))
    assert small / large == pytest.approx(10, rel=1e-5)
    for side in (-1, 1):
        near, nearer = (icl(law, tau=1 + side * x, **point) for x in (2**-24, 2**-30))
        assert nearer / near == pytest.approx(64, rel=1e-5)


def test_lost_variance_of_simulated_projections():
    """Against the mean over sets of tasks at d = 200."""
    rng = np.random.default_rng(3)
    d = 200
    C = np.repeat(POWER_LAW, d // 8)
    test = np.repeat(POWER_LAW[::-1], d // 8)
    lost = []
    for _ in range(20):
        basis = np.linalg.qr((rng.standard_normal((d // 2, d)) * np.sqrt(C)).T)[0]
        lost.append(np.mean(test * (1 - np.sum(basis**2, axis=1))))
    expected = lost_variance(0.5, LAWS["reversed"])
    # Deviations of O(1/d) from the deterministic equivalent.
    error = np.std(lost, ddof=1) / math.sqrt(20)
    assert abs(np.mean(lost) - expected) < 4 * error + expected / d
