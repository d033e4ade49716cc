"""Constants of the joint law against exact losses, and its best shape against a search."""

import mpmath
import numpy as np
import pytest
import sympy
from scipy.optimize import brentq, minimize

from iclimit.asymptotics.depth import (
    compute_optimal,
    depth_loss,
    scaling_exponents,
    scaling_terms,
    tied_flow,
)

NU, BETA = 1.8, 0.6
# Rounding of a few powers.
ROUNDING = 1e-12

RANK = np.arange(1.0, 5001)
LAM = RANK**-NU
OMEGA = RANK ** (-NU * BETA - 1) / LAM


def test_time_and_depth_by_exact_losses():
    terms = scaling_terms(nu=NU, beta=BETA)
    exponents = scaling_exponents(nu=NU, beta=BETA)
    dim = RANK.size
    t = 1e5
    L = 512
    flow = tied_flow(times=t * dim, depth=np.inf, spectrum=LAM, task_spectrum=OMEGA)
    # 5000 modes lack 0.2 %.
    found = flow.loss * dim * t**exponents.time
    assert found == pytest.approx(float(terms.time), rel=0.005)
    deep = depth_loss(depth=L, spectrum=LAM, task_spectrum=OMEGA)
    # The best gain is 2 L up to log(L)/L.
    assert deep.loss * dim * L**BETA == pytest.approx(float(terms.depth), rel=0.01)


def test_width_and_context_by_sums():
    """Sums over modes, with integrals for their tails, at N = P = 1000."""
    terms = scaling_terms(nu=NU, beta=BETA)
    size = 1000
    rank = np.arange(1.0, 3e5 + 1)
    lam = rank**-NU
    label = rank ** (-NU * BETA - 1)
    last = rank[-1] + 0.5

    def excess(kappa):
        return np.sum(lam / (lam + kappa)) + last ** (1 - NU) / (NU - 1) / kappa - size

    kappa = brentq(excess, 1e-9, 1e-2)
    share = kappa / (lam + kappa)
    tail = last ** (-NU * BETA) / (NU * BETA)
    width = label @ share + tail
    context = (label @ share**2 + tail) / (1 - np.sum((1 - share) ** 2) / size)
    # The sums are integrals up to 1/size.
    power = size ** (NU * BETA)
    assert width * power == pytest.approx(float(terms.width), rel=0.01)
    assert context * power == pytest.approx(float(terms.context), rel=0.01)


def test_best_shape_by_search():
    terms = scaling_terms(nu=NU, beta=BETA)
    c = np.array([terms.time, terms.depth, terms.width, terms.context])
    a = np.array([BETA / (2 + BETA), BETA, NU * BETA, NU * BETA])
    costs = np.array([1, 1, 2, 2])
    budget = np.log(1e24)
    best = compute_optimal(compute=1e24, nu=NU, beta=BETA)
    search = minimize(
        lambda x: np.log(np.sum(c * np.exp(-a * x))),
        np.full(4, budget / 6),
        constraints={"type": "eq", "fun": lambda x: costs @ x - budget},
        options={"ftol": 1e-14},
    )
    assert best.loss == pytest.approx(np.exp(search.fun), rel=1e-6)
    shape = [best.time, best.depth, best.width, best.context]
    assert np.log(shape) == pytest.approx(search.x, rel=1e-3)
    more = compute_optimal(compute=1e26, nu=NU, beta=BETA)
    exponents = scaling_exponents(nu=NU, beta=BETA)
    assert np.log10(best.loss / more.loss) / 2 == pytest.approx(exponents.compute, rel=ROUNDING)


def test_many_digits_and_symbols():
    best = compute_optimal(compute=1e20, nu=1.5, beta=0.7)
    with mpmath.workdps(50):
        exact = compute_optimal(compute=mpmath.mpf(1e20), nu=mpmath.mpf(1.5), beta=mpmath.mpf(0.7))
        for name in ("loss", "time", "depth", "width", "context"):
            found = float(getattr(best, name) / getattr(exact, name))
            assert found == pytest.approx(1.0, rel=ROUNDING)
    symbolic = scaling_terms(nu=sympy.Integer(2), beta=sympy.Rational(1, 2))
    assert sympy.simplify(symbolic.width - sympy.pi**2 / 4) == 0
