"""Law of runs that rare prompts decide: simulated quantiles, one prompt more, infinite moments."""

import math

import numpy as np
import pytest
from refusals import value_error
from scipy.stats import lognorm, norm

from iclimit.asymptotics.pretraining import finite_size_spread
from iclimit.asymptotics.pretraining.deterministic_equivalent import fresh_task_law, task_set_law
from iclimit.asymptotics.pretraining.drawn_errors import DrawnFit, DrawnPrompts

# Quantiles of the ICL errors of runs that were simulated token by token: sizes, ridge, correlation
# of neighbouring inputs, mean, quantiles and their standard errors (bootstrap).  rho is 0.3, tasks
# are on the sphere; 2500 runs, 3000 at d = 16, 1500 of correlated inputs.
PROBABILITIES = 0.025, 0.16, 0.5, 0.84, 0.975
SIMULATED = [
    (
        *((12, 3, 12, 72), 0, 0, 6.580),
        (3.100, 3.923, 5.358, 8.407, 15.978),
        (0.026, 0.029, 0.050, 0.148, 0.772),
    ),
    (
        *((12, 3, 12, 72), 1e-3, 0, 6.342),
        (3.092, 3.912, 5.327, 8.274, 15.525),
        (0.029, 0.028, 0.051, 0.150, 0.760),
    ),
    (
        *((12, 3, 12, 72), 0.01, 0, 5.621),
        (3.044, 3.801, 5.074, 7.440, 11.262),
        (0.026, 0.029, 0.038, 0.118, 0.232),
    ),
    (
        *((12, 3, 12, 72), 0.1, 0, 3.969),
        (2.670, 3.152, 3.859, 4.767, 5.956),
        (0.024, 0.017, 0.023, 0.035, 0.080),
    ),
    (
        *((12, 4, 12, 72), 0, 0, 4.604),
        (2.612, 3.221, 4.126, 5.788, 9.509),
        (0.033, 0.020, 0.026, 0.066, 0.256),
    ),
    (
        *((12, 6, 12, 72), 0, 0, 3.390),
        (2.242, 2.637, 3.208, 4.058, 5.530),
        (0.020, 0.013, 0.016, 0.028, 0.122),
    ),
    (
        *((16, 5, 16, 128), 0, 0, 3.693),
        (2.648, 3.027, 3.546, 4.316, 5.594),
        (0.016, 0.014, 0.013, 0.028, 0.106),
    ),
    (
        *((12, 3, 12, 72), 0.01, 0.5, 7.684),
        (3.718, 4.934, 6.907, 10.212, 16.084),
        (0.063, 0.057, 0.060, 0.142, 0.450),
    ),
    (
        *((12, 3, 12, 72), 0.01, 0.95, 25.188),
        (9.237, 14.147, 22.557, 36.046, 59.186),
        (0.240, 0.207, 0.460, 0.529, 1.663),
    ),
    (
        *((12, 3, 12, 72), 1e-3, 0.95, 40.747),
        (10.395, 17.154, 30.657, 60.286, 136.785),
        (0.398, 0.332, 0.639, 2.117, 6.215),
    ),
]

# Largest relative error of a quantile, apart from that of the simulation.
LAW = 0.05


def sized(sizes, **changes):
    names = "dim", "context", "tasks", "prompts"
    return {**dict(zip(names, sizes, strict=True)), "rho": 0.3, "rng": 0, "draws": 10} | changes


@pytest.mark.parametrize(
    ("sizes", "ridge", "correlation", "mean", "quantiles", "errors"), SIMULATED
)
def test_quantiles_of_simulated_runs(sizes, ridge, correlation, mean, quantiles, errors):
    run = finite_size_spread(**sized(sizes, ridge=ridge, correlation=correlation))
    assert run.heavy or ridge == 0.1 or correlation == 0.95
    known = mean if run.tail_index > 2 else None
    found = run.quantiles(PROBABILITIES, mean_error=known)
    deviations = abs(found - quantiles) - 3 * np.array(errors)
    assert np.all(deviations < LAW * np.array(quantiles))


def test_one_prompt_more():
    """Difference that a prompt of small labels or one of large ones makes, by brute force."""
    dim = 10
    context = 4
    count = 40
    rho = 0.3
    ridge = 0.02
    rng = np.random.default_rng(1)
    tasks = rng.standard_normal((6, dim))
    tasks *= math.sqrt(dim) / np.linalg.norm(tasks, axis=1, keepdims=True)
    train = task_set_law(tasks, context, rho)
    test = fresh_task_law(dim, context, rho, "sphere")
    drawn = DrawnPrompts.of(train, rng, fresh=False)
    fit = DrawnFit.of(drawn, count, rho, ridge)
    influence = fit.influence(test)
    places = np.argsort(drawn.summaries[:, -1])[[200, 5500]]
    queries = rng.standard_normal((2, dim))
    queries *= np.sqrt(dim * drawn.norms[places] / np.sum(queries**2, axis=1))[:, None]
    noise = np.array([0.9, -0.5])
    residual = np.sum(queries * fit.missed[places], axis=1) + noise
    slope = np.sum(queries * influence.missed[places], axis=1)
    expected = influence.theta[places] * (residual**2 + fit.fluctuation[places])
    expected += fit.theta[places] * (2 * residual * slope + influence.fluctuation[places])
    queries /= math.sqrt(dim)
    labels = np.sum(queries * drawn.tasks[places], axis=1) + noise
    added = (queries, drawn.summaries[places], labels)
    changes = []
    for _ in range(1500):
        inside = tasks[rng.integers(len(tasks), size=count - 1)]
        others = _prompts(inside, context, rho, rng)
        first, second = (
            [np.concatenate([x, y[[i]]]) for x, y in zip(others, added, strict=True)]
            for i in range(2)
        )
        changes.append(_error(*first, test, ridge) - _error(*second, test, ridge))
    found = np.mean(changes)
    error = np.std(changes) / math.sqrt(len(changes))
    predicted = float(expected[0] - expected[1]) / count
    # To leading order in 1/count.
    assert found == pytest.approx(predicted, rel=0.1, abs=3 * error)
    assert predicted > 10 * error


def _prompts(tasks, context, rho, rng):
    """Queries, summaries and labels, token by token."""
    count, dim = tasks.shape
    inputs = rng.standard_normal((count, context + 1, dim)) / math.sqrt(dim)
    labels = np.einsum("nld,nd->nl", inputs, tasks)
    labels += math.sqrt(rho) * rng.standard_normal(labels.shape)
    seen = labels[:, :-1]
    head = np.einsum("nl,nld->nd", seen, inputs[:, :-1]) * dim / context
    summaries = np.column_stack([head, np.mean(seen**2, axis=1)])
    return inputs[:, -1], summaries, labels[:, -1]


def _error(queries, summaries, labels, test, ridge):
    """Error of ridge regression on a test law."""
    count, dim = queries.shape
    features = np.einsum("ni,na->nia", queries, summaries).reshape(count, -1)
    gram = features @ features.T + ridge * count / dim * np.eye(count)
    fit = (features.T @ np.linalg.solve(gram, labels)).reshape(dim, dim + 1)
    quadratic = np.vdot(fit @ test.second, fit)
    return test.label + (quadratic - 2 * np.vdot(fit.T, test.cross)) / dim


def test_infinite_variance():
    """The error of a prompt of label norm chi is c/chi, and E chi^-2 is infinite up to l = 4."""
    gates = np.array([1.0, 0.5, 1.0, 0.0, 0.0, 0.0])
    at = {"rho": 0.3, "ridge": 0.0}
    assert finite_size_spread(**sized((12, 4, 12, 72), **at)).icl == math.inf
    assert finite_size_spread(**sized((12, 6, 12, 72), **at, gates=gates)).gap == math.inf
    more = finite_size_spread(**sized((12, 4, 12, 72), **at | {"ridge": 1e-3}))
    assert math.isfinite(more.icl)
    assert more.tail_index == math.inf
    indices = {}
    for context, prompts in ((3, 72), (5, 72), (3, 150), (3, 159), (2, 72), (40, 154)):
        run = finite_size_spread(**sized((12, context, 12, prompts), **at))
        indices[context, prompts] = run.tail_index
        assert math.isinf(run.idg) == (run.tail_index <= 2)
    assert list(indices.values()) == [1.5, 2.5, 1.5, 2.0, 1.0, 1.5]
    # With more prompts than features no prompt is interpolated, and contexts do not count.
    assert finite_size_spread(**sized((12, 3, 12, 180), **at)).tail_index == 12.5


def test_unknown_laws_are_refused():
    run = finite_size_spread(**sized((12, 2, 12, 72), ridge=0.0))
    with pytest.raises(ArithmeticError, match="the law of runs is not known"):
        run.quantiles([0.5])
    finite = finite_size_spread(**sized((12, 24, 12, 300), ridge=0.1))
    value_error("chances must be > 0 and < 1", finite.quantiles, [0.0])
    value_error("quantity must be", finite.quantiles, [0.5], quantity="loss")


def test_ordinary_laws_are_log_normal_and_normal():
    run = finite_size_spread(**sized((12, 24, 12, 300), ridge=0.1))
    assert not run.heavy
    share = run.icl / run.mean[0]
    expected = lognorm.ppf(PROBABILITIES, share, scale=run.mean[0] * np.exp(-(share**2) / 2))
    np.testing.assert_allclose(run.quantiles(PROBABILITIES), expected, rtol=1e-12)
    found = run.quantiles(PROBABILITIES, quantity="gap", mean_error=2.0)
    np.testing.assert_allclose(found, norm.ppf(PROBABILITIES, 2.0, run.gap), rtol=1e-12)


def test_neutral_options_have_the_law_of_none():
    setting = sized((12, 3, 12, 72), ridge=1e-3, draws=2)
    plain = finite_size_spread(**setting)
    for option in ({"gates": np.ones(3)}, {"input_covariance": np.ones(12)}):
        other = finite_size_spread(**setting, **option)
        # Interactions come from another quadrature.
        ratio = other.quantiles(PROBABILITIES) / plain.quantiles(PROBABILITIES)
        np.testing.assert_allclose(ratio, 1, atol=0.02)
    drifting = finite_size_spread(**setting, drift=1e-9)
    ratio = drifting.quantiles(PROBABILITIES) / plain.quantiles(PROBABILITIES)
    np.testing.assert_allclose(ratio, 1, atol=0.06)  # other draws


def test_ordinary_contexts_scatter_as_runs_do_without_a_ridge():
    """3000 and 1500 simulated runs of contexts of 2 d below the threshold."""
    for sizes, found, error in (
        ((16, 32, 24, 130), (0.1608, 0.1559), 0.013),
        ((20, 40, 40, 200), (0.1106, 0.1077), 0.018),
    ):
        run = finite_size_spread(**sized(sizes, rho=0.2, ridge=0.0, draws=30))
        ratios = np.array(found) / [run.icl, run.idg]
        assert not run.heavy
        assert np.all(abs(ratios - 1) < 0.02 + 2 * error)
