"""One pass of SGD: moments by quadrature, in many digits; plain training; the limit as an ODE."""

from itertools import product

import mpmath
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import minimize_scalar

from iclimit.asymptotics.pretraining import one_pass_error, one_pass_errors
from iclimit.asymptotics.pretraining.one_pass_moments import ContextLaw, StepMap

# Rounding of a few hundred operations.
ROUNDING = 1e-12
# Standard errors that the worst of some ten simulated numbers may lie off.
SIGMAS = 4.0


def context_law(dim, context, rho, task_law):
    sizes = (np.array(float(value)) for value in (dim, context, rho))
    return ContextLaw(*sizes, task_law == "gaussian")


def all_moments(law):
    return np.array(
        [
            law.s,
            law.summary_square(),
            *law.summary_moments(),
            *law.misfit_moments(),
            *law.slope_moments(),
        ],
        float,
    )


def by_quadrature(dim, context, rho, task_law):
    """The same moments by Gauss-Hermite nodes for all tokens, exact for polynomials."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(5)
    weights = weights / weights.sum()
    tokens = context * (dim + 1)
    values = np.array(list(product(nodes, repeat=tokens)))
    weight = np.prod(list(product(weights, repeat=tokens)), axis=1)
    x = values[:, : context * dim].reshape(-1, context, dim) / np.sqrt(dim)
    noise = np.sqrt(rho) * values[:, context * dim :]
    norms, shares = np.array([1.0]), np.array([1.0])
    if task_law == "gaussian":  # squared norms over d are Gamma(d/2), of mean 1
        roots, shares = np.polynomial.laguerre.laggauss(30)
        shares = shares * roots ** (dim / 2 - 1)
        shares /= shares.sum()
        norms = 2 * roots / dim
    total = np.zeros(8)
    moments = []
    for norm in norms:
        w = np.zeros(dim)
        w[0] = np.sqrt(dim * norm)
        y = x @ w + noise
        moments.append((w, dim / context * np.einsum("nl,nld->nd", y, x), np.mean(y**2, axis=1)))
    s = sum(
        share * np.sum(weight * np.sum(h**2, axis=1)) / dim
        for share, (_, h, _) in zip(shares, moments, strict=True)
    )
    for share, (w, h, last) in zip(shares, moments, strict=True):
        square = np.sum(h**2, axis=1)
        misfit = h / s - w
        miss = np.sum(misfit**2, axis=1)
        along = np.sum(misfit * h, axis=1)
        columns = (
            last**2,
            square**2,
            square * last**2,
            last**4,
            miss * square,
            miss * last**2,
            along * square,
            along * last**2,
        )
        total += share * np.array([np.sum(weight * column) for column in columns])
    return np.array([s, *total])


@pytest.mark.parametrize(
    ("dim", "context", "task_law"),
    [(1, 1, "sphere"), (1, 3, "sphere"), (2, 2, "sphere"), (2, 1, "gaussian"), (2, 2, "gaussian")],
)
def test_moments_by_quadrature(dim, context, task_law):
    law = context_law(dim, context, 0.3, task_law)
    exact = by_quadrature(dim, context, 0.3, task_law)
    np.testing.assert_allclose(all_moments(law), exact, rtol=1e-11)


def in_many_digits(dim, context, rho):
    """Moments of the misfit from those of h, which cancel, for tasks on the sphere."""
    d, length, rho = (mpmath.mpf(value) for value in (dim, context, rho))
    v = 1 + rho

    def power(k):
        return mpmath.rf(length / 2, k) * 2**k

    s = (power(2) + rho * length + v * length * (d - 1)) / length**2
    fourth = power(4) + 6 * rho * power(3) + 3 * rho**2 * power(2)
    fourth += 2 * v * (d - 1) * (power(3) + rho * power(2)) + v**2 * (d**2 - 1) * power(2)
    fourth *= d**2 / length**4
    along = power(3) + 3 * rho * power(2) + v * power(2) * (d - 1)
    along *= d**2 / length**3
    return d**2 * s - 2 * along / s + fourth / s**2, fourth / s - along


@pytest.mark.parametrize("rho", [0, 1e-6, 0.3, 10])
@pytest.mark.parametrize("context", [1, 30, 10**7])
@pytest.mark.parametrize("dim", [1, 20, 1000])
def test_small_misfits_keep_their_digits(dim, context, rho):
    law = context_law(dim, context, rho, "sphere")
    found = law.misfit_moments()[0], law.slope_moments()[0]
    with mpmath.workdps(50):
        exact = in_many_digits(dim, context, rho)
        for value, reference in zip(found, exact, strict=True):
            assert abs(mpmath.mpf(float(value)) / reference - 1) < ROUNDING


def test_a_matrix_without_the_last_column():
    """A derivation of its own without squared labels, d = 10: four numbers of its tables."""
    law = context_law(10, 15, 0.2, "sphere")
    step_map = StepMap.of(law, np.array(5.0))
    step_map.growth[0, 1] = 0
    step_map.weights[1] = 0
    time = np.array(0.02)
    errors = [
        step_map.least_error + step_map.excess(step_map.steps(np.array(number), time))
        for number in (1, 10, 100, 400)
    ]
    expected = [1.19962311, 1.20605038, 1.39332189, 1.43869277]
    np.testing.assert_allclose(errors, expected, rtol=5e-9)


def trained(dim, context, rho, batch, rate, steps, task_law, repeats):
    """Errors of plain SGD on drawn tokens, on its next batch, (repeats, steps)."""
    rng = np.random.default_rng(dim)
    gamma = np.zeros((repeats, dim, dim + 1))
    errors = []
    for _ in range(steps + 1):
        w = rng.standard_normal((repeats, batch, dim))
        if task_law == "sphere":
            w *= np.sqrt(dim) / np.linalg.norm(w, axis=-1, keepdims=True)
        x = rng.standard_normal((repeats, batch, context + 1, dim)) / np.sqrt(dim)
        y = np.einsum("rbld,rbd->rbl", x, w)
        y += np.sqrt(rho) * rng.standard_normal(y.shape)
        h = np.empty((repeats, batch, dim + 1))
        h[..., :dim] = dim / context * np.einsum("rbl,rbld->rbd", y[..., :-1], x[..., :-1, :])
        h[..., dim] = np.mean(y[..., :-1] ** 2, axis=-1)
        missed = np.einsum("rbi,rij,rbj->rb", x[..., -1, :], gamma, h) - y[..., -1]
        errors.append(np.mean(missed**2, axis=1))
        gradient = np.einsum("rb,rbi,rbj->rij", missed, x[..., -1, :], h)
        gamma -= 2 * rate / batch * gradient
    return np.array(errors).T


@pytest.mark.parametrize(("task_law", "rate"), [("sphere", 0.05), ("gaussian", 0.03)])
def test_plain_training(task_law, rate):
    setting = {"dim": 5, "context": 8, "rho": 0.2, "batch": 4}
    steps = 40
    errors = trained(**setting, rate=rate, steps=steps, task_law=task_law, repeats=4000)
    theory = one_pass_errors(
        steps=np.arange(steps + 1), learning_rate=rate, task_law=task_law, **setting
    )
    deviation = np.mean(errors, axis=0) - theory.icl
    standard_error = np.std(errors, axis=0) / np.sqrt(len(errors))
    assert np.max(standard_error / theory.icl) < 0.04
    assert np.max(abs(deviation / standard_error)) < SIGMAS


def test_many_equal_steps_are_a_schedule_of_them():
    setting = {"dim": [3, 8], "context": 12, "batch": [[1], [5]], "rho": 0.1}
    many = one_pass_errors(steps=77, learning_rate=0.02, **setting)
    schedule = one_pass_errors(steps=77, rates=[0.02] * 90, **setting)
    np.testing.assert_allclose(many.icl, schedule.icl, rtol=ROUNDING)
    np.testing.assert_allclose(many.learning_rate, schedule.learning_rate, rtol=ROUNDING)


def test_steps_without_a_rate_change_nothing():
    setting = {"dim": 6, "context": 12, "batch": 2, "rho": 0.1}
    paused = one_pass_errors(steps=5, rates=[0.02, 0, 0.01, 0, 0], **setting)
    two = one_pass_errors(steps=2, rates=[0.02, 0.01], **setting).icl
    assert paused.icl == pytest.approx(two, rel=ROUNDING)
    assert one_pass_errors(steps=0, **setting).icl == pytest.approx(1.1, rel=ROUNDING)


def test_best_rates_are_minima():
    """Each rate against a search, from a state that the earlier ones made."""
    setting = {"dim": 7, "context": 10, "batch": 3, "rho": 0.3}
    rates = [float(one_pass_errors(steps=k, **setting).learning_rate) for k in range(1, 6)]

    def last(rate):
        return float(one_pass_errors(steps=5, rates=[*rates[:4], rate], **setting).icl)

    search = minimize_scalar(last, bounds=(0, 2 * rates[4]), options={"xatol": 1e-10})
    assert search.fun == pytest.approx(float(one_pass_errors(steps=5, **setting).icl), rel=1e-12)
    assert search.x == pytest.approx(rates[4], rel=1e-4)


@pytest.mark.parametrize("batch", [1, 4, 1000])
@pytest.mark.parametrize(("dim", "context"), [(1, 1), (6, 3), (20, 2000)])
def test_stable_rates(batch, dim, context):
    """Against the eigenvalues of a step."""
    setting = {"dim": dim, "context": context, "batch": batch, "rho": 0.1}
    stable = float(one_pass_errors(steps=0, **setting).stable_rate)
    step_map = StepMap.of(context_law(dim, context, 0.1, "sphere"), np.array(float(batch)))
    for factor in (1 - 1e-9, 1 + 1e-9):
        time = 2 * factor * stable / dim
        step = np.eye(3) - time * np.diag(step_map.decay) + time**2 * step_map.growth
        radius = max(abs(np.linalg.eigvals(step)))
        assert (radius < 1) == (factor < 1)
    with pytest.raises(ValueError, match=r"learning_rate must be below .* carried by rare runs"):
        one_pass_errors(steps=3, learning_rate=1.001 * stable, **setting)
    with pytest.raises(ValueError, match="rates must be below"):
        one_pass_errors(steps=3, rates=[1.001 * stable] * 3, **setting)


@pytest.mark.parametrize("step_size", [None, 0.4, 1.5])
def test_the_limit_solves_its_equation(step_size):
    for alpha, rho in ((1, 0.1), (10, 0.01), (0.3, 2)):
        s = 1 + (1 + rho) / alpha
        least = 1 + rho - 1 / s

        def slope(_, excess, least=least):
            v = excess / (excess + least) if step_size is None else step_size
            return -2 * v * excess + v**2 * (excess + least)

        times = np.array([0.1, 1, 4, 16])
        path = solve_ivp(slope, (0, 16), [1 / s], t_eval=times, rtol=1e-11, atol=1e-13)
        found = one_pass_error(tau=times, alpha=alpha, rho=rho, step_size=step_size)
        np.testing.assert_allclose(found, least + path.y[0], rtol=1e-8)
        ended = one_pass_error(tau=np.inf, alpha=alpha, rho=rho, step_size=step_size)
        assert ended == pytest.approx(least * (1 if step_size is None else 2 / (2 - step_size)))


def test_the_limit_by_lamberts_function():
    for tau, alpha, rho in ((1e-6, 1e-3, 10), (1, 1, 0.1), (1e4, 1e6, 1e-9), (30, 100, 0)):
        with mpmath.workdps(50):
            s = 1 + (1 + mpmath.mpf(rho)) / alpha
            least = 1 + mpmath.mpf(rho) - 1 / s
            start = s * least
            exact = least * (1 + 1 / mpmath.lambertw(start * mpmath.exp(start + tau)).real)
        assert one_pass_error(tau=tau, alpha=alpha, rho=rho) == pytest.approx(
            float(exact), rel=ROUNDING
        )


@pytest.mark.parametrize("batch_ratio", [None, 1])
def test_finite_sizes_tend_to_the_limit(batch_ratio):
    """Best rates at batches of 1 and of d, extrapolated in 1/d from three sizes."""
    tau = 2
    dims = np.array([16, 32, 64])
    errors = [
        float(
            one_pass_errors(
                steps=tau * dim**2 // (batch_ratio * dim if batch_ratio else 1),
                dim=dim,
                context=dim,
                batch=batch_ratio * dim if batch_ratio else 1,
                rho=0.1,
            ).icl
        )
        for dim in dims
    ]
    limit = np.polyfit(1 / dims, errors, 2)[-1]
    assert limit == pytest.approx(one_pass_error(tau=tau, alpha=1, rho=0.1), rel=5e-4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"learning_rate": 0.01, "rates": [0.01] * 9}, "pass one of them"),
        ({"rates": [0.01]}, "one rate for each step: there are 1, and steps has 3"),
        ({"rates": [0.01, -0.1, 0.01]}, "rates must be"),
        ({"learning_rate": 0}, "learning_rate must be"),
        ({"steps": 2.5}, "steps must be an integer"),
        ({"steps": 2_000_000}, "steps must be at most 1,000,000 where rates change"),
        ({"batch": 0}, "batch must be"),
        ({"task_law": "cube"}, "task_law must be"),
    ],
)
def test_bad_input_is_named(changes, message):
    setting = {"steps": 3, "dim": 4, "context": 5, "batch": 2, "rho": 0.1}
    with pytest.raises(ValueError, match=message):
        one_pass_errors(**(setting | changes))
