"""Kernels of attention and limits against sampling, perturbation and exact heads."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
import sympy

from iclimit.asymptotics.softmax import (
    attention_loss,
    heads_efficiency,
    kernel_efficiency,
    long_context_softmax,
    optimal_kernel,
    optimal_softmax,
    optimal_softmax_matrix,
    softmax_loss,
)

# Numbers of the notes are rounded to the last digit printed.
PRINTED = 1.01
# Standard errors that the worst of three simulated losses may lie off.
SIGMAS = 4.0


def relu(s):
    return np.maximum(s, 0.0)


def test_efficiencies_in_closed_form():
    assert kernel_efficiency(lambda s: s) == pytest.approx(1, rel=1e-12)
    assert kernel_efficiency(relu) == pytest.approx(0.5, rel=1e-12)
    assert kernel_efficiency(lambda s: s > 0) == pytest.approx(1 / math.pi, rel=1e-12)
    for t in (0.3, 1.0, 2.5):
        exact = t**2 * math.exp(-(t**2))
        softmax = partial(lambda t, s: math.exp(t * s), t)
        assert kernel_efficiency(softmax) == pytest.approx(exact, rel=1e-10)
        assert heads_efficiency([t]) == pytest.approx(exact, rel=1e-12)


def test_efficiency_of_heads():
    """Against many digits, the notes, and one kernel that is the best sum of both."""
    for t, noted in (([-0.5, 0.5], 0.9897), ([-1, 1], 0.8509), ([0.3, 0.6, 0.9], 0.8910)):
        found = heads_efficiency(t)
        assert found == pytest.approx(noted, abs=PRINTED * 5e-5)
        with mpmath.workdps(40):
            many = heads_efficiency([mpmath.mpf(str(each)) for each in t])
        assert found == pytest.approx(float(many), rel=1e-11)
    pair = kernel_efficiency(lambda s: math.sinh(0.5 * s))
    assert heads_efficiency([-0.5, 0.5]) == pytest.approx(pair, rel=1e-9)
    assert heads_efficiency([1e-6, 2e-6]) == pytest.approx(1, abs=1e-9)
    t = sympy.Symbol("t", positive=True)
    exact = t**2 / sympy.sinh(t**2)
    assert sympy.simplify((heads_efficiency([-t, t]) - exact).rewrite(sympy.exp)) == 0


def test_losses_in_the_limit():
    best = optimal_softmax(ratio=0.7, noise_ratio=0.2)
    assert attention_loss(1 / math.e, ratio=0.7, noise_ratio=0.2) == pytest.approx(best.loss)
    c = sympy.Symbol("c", positive=True)
    assert attention_loss(sympy.Integer(1), ratio=c) == c / (1 + c)


@pytest.mark.parametrize(
    ("function", "exact", "limit"),
    [(relu, 0.50617, 0.50000), (np.tanh, 0.35151, 0.34954), (lambda s: s, 0.33702, 1 / 3)],
)
def test_kernels_of_the_notes(function, exact, limit):
    """N = 120 pairs in dimension 60, at inverse temperature 1/sqrt(d), and N = 2d in the limit."""
    found = optimal_kernel(function, inverse_temperature=60**-0.5, context=120, dim=60)
    assert found.loss / 60 == pytest.approx(exact, abs=PRINTED * 5e-6)
    efficiency = kernel_efficiency(lambda s: float(function(s)))
    assert attention_loss(efficiency, ratio=0.5) == pytest.approx(limit, abs=PRINTED * 5e-6)


def test_linear_attention_at_finite_size():
    """d (d + 1 + s)/(N + d + 1 + s)."""
    for N, d, noise in ((10, 10, 0.0), (7, 1, 0.4), (3, 900, 2.0)):
        found = optimal_kernel(
            lambda s: s, inverse_temperature=1.0, context=N, dim=d, noise_variance=noise
        )
        assert found.loss == pytest.approx(d * (d + 1 + noise) / (N + d + 1 + noise), rel=1e-11)
        assert found.value == pytest.approx(1 / (N + d + 1 + noise), rel=1e-11)


def test_exponential_without_normalisation():
    """E s f, E f^2 and E s^2 f^2 of f = exp(b r s) in closed form, averaged by Gamma integrals."""
    b = 0.2
    N = 9
    d = 3
    noise = 0.5
    g = lambda a: (1 - 2 * a) ** (-d / 2)  # noqa: E731
    second = lambda a: d * (1 - 2 * a) ** (-d / 2 - 1)  # noqa: E731
    # E r m = b E r^2 e^{b^2 r^2/2}, E m^2 = b^2 E r^2 e^{b^2 r^2}.
    signal = N * b * second(b**2 / 2)
    power = N * (
        g(2 * b**2) * (d + noise) + 4 * b**2 * second(2 * b**2) + (N - 1) * b**2 * second(b**2)
    )
    found = optimal_kernel(np.exp, inverse_temperature=b, context=N, dim=d, noise_variance=noise)
    assert found.signal == pytest.approx(signal, rel=1e-10)
    assert found.power == pytest.approx(power, rel=1e-10)
    assert found.loss == pytest.approx(d - signal**2 / power, rel=1e-10)
    with pytest.raises(ArithmeticError, match="the mean squared weight of score_function does"):
        optimal_kernel(np.exp, inverse_temperature=0.6, context=N, dim=d)


def test_long_contexts():
    """Against exact heads: the difference shrinks with N; ratios to linear attention."""
    for d, noise in ((1, 0.0), (3, 2.0), (10, 0.0)):
        best = long_context_softmax(dim=d, noise_variance=noise)
        off = [
            N * optimal_softmax(context=N, dim=d, noise_variance=noise).loss / best.loss - 1
            for N in (10**5, 10**6)
        ]
        # It is about proportional to N to the power -0.6 in dimension 1, to 1/N in high dimension.
        assert abs(off[1]) < 2e-3
        assert abs(off[1]) < 0.3 * abs(off[0])
        exact = optimal_softmax(context=10**6, dim=d, noise_variance=noise)
        assert exact.inverse_temperature == pytest.approx(best.inverse_temperature, rel=2e-2)
    ratios = {1: 4.22, 2: 3.70, 3: 3.44, 5: 3.19, 10: 2.97, 30: 2.81}
    for d, ratio in ratios.items():
        found = long_context_softmax(dim=d).loss / (d * (d + 1))
        assert found == pytest.approx(ratio, abs=PRINTED * 5e-3)
    assert long_context_softmax(dim=1e6).loss / 1e12 == pytest.approx(math.e, rel=1e-5)
    d, noise = sympy.symbols("d sigma", positive=True)
    b = long_context_softmax(dim=d, noise_variance=noise).inverse_temperature ** 2
    x = sympy.Symbol("b")
    slope = sympy.diff(
        -(d / 2 + 1) * sympy.log(1 - 2 * x)
        + sympy.log((d + noise) * (1 - 2 * x) + x * d)
        - sympy.log(x),
        x,
    )
    numbers = {d: 7, noise: sympy.Rational(3, 2)}
    assert abs(slope.subs(x, b).subs(numbers).evalf(30)) < 1e-25


def anisotropic_loss(A, v, Lambda, W, N, noise):
    missed = np.eye(len(A)) - v * Lambda @ A.T
    t2 = np.trace(Lambda @ A @ Lambda @ A.T)
    spread = (np.trace(W @ Lambda) + noise) / N * v**2 * math.exp(t2)
    return float(np.trace(missed.T @ W @ missed @ Lambda) + spread)


def test_best_matrix_is_a_minimum():
    rng = np.random.default_rng(3)
    d = 5
    N = 12
    noise = 0.4
    Lambda, W = (each @ each.T / d for each in rng.standard_normal((2, d, d)))
    best = optimal_softmax_matrix(Lambda, task_covariance=W, context=N, noise_variance=noise)
    assert np.trace(Lambda @ best.matrix @ Lambda @ best.matrix.T) == pytest.approx(1, rel=1e-10)
    least = anisotropic_loss(best.matrix, best.value, Lambda, W, N, noise)
    assert least == pytest.approx(best.loss, rel=1e-10)
    for _ in range(20):
        A = best.matrix + 1e-3 * rng.standard_normal((d, d))
        v = best.value * (1 + 1e-3 * rng.standard_normal())
        assert anisotropic_loss(A, v, Lambda, W, N, noise) > least


@pytest.mark.slow
def test_best_matrix_of_prompts():
    """Eigenvalues 0.2 to 1.8 at d = 80, N = 160; the correction in 1/d is about 0.3 %."""
    d = 80
    N = 160
    prompts = 10_000
    spectrum = np.linspace(0.2, 1.8, d)
    best = optimal_softmax_matrix(spectrum, context=N)
    rng = np.random.default_rng(8)
    losses = []
    for _ in range(prompts):
        x, query = (rng.standard_normal(size) * np.sqrt(spectrum) for size in ((N, d), (d,)))
        p = np.exp(x @ (best.matrix @ query))
        p /= p.sum()
        losses.append(np.sum((query - best.value * (p @ x)) ** 2))
    # Averaged over the task, W = 1.
    error = np.std(losses) / math.sqrt(prompts)
    assert abs(np.mean(losses) - best.loss) < SIGMAS * error + 0.004 * best.loss


def test_loss_of_a_kernel_at_other_values():
    """The exponential kernel of a short list of pairs is softmax with N = 1 up to its weight."""
    one = optimal_kernel(np.ones_like, inverse_temperature=1.0, context=1, dim=4)
    # A constant weight has no signal: the loss is that of softmax with one pair.
    for v in (0.0, 0.3):
        loss = 4 - 2 * v * one.signal + v**2 * one.power
        assert loss == pytest.approx(softmax_loss(1.0, value=v, context=1, dim=4), rel=1e-12)
