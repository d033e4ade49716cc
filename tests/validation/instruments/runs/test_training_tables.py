"""Tables of runs that were trained for a time, from a start, or by one pass of SGD.

Planted by plain NumPy: features are written out, and descent takes its steps one by one.
"""

import math

import numpy as np
import pytest
from refusals import value_error

from iclimit.units import CONVENTIONS
from iclimit.validation import check_runs, fit_runs
from iclimit.validation.instruments.runs import explanations
from iclimit.validation.instruments.runs.mistakes import mistakes

# Step of descent, in time: its errors are those of the flow to half a per cent.
STEP = 0.02

# Label noise, and test prompts of an error.
RHO = 0.1
TESTS = 400

# Dimension, context, tasks and prompts.
SETTINGS = ((10, 20, 5, 150), (10, 10, 10, 300), (10, 20, 20, 60))
RUNS = 16


def summaries(rng, tasks, context):
    """Features of one context of each task (m, d + 1)."""
    count, dim = tasks.shape
    x = rng.normal(size=(count, context, dim)) / math.sqrt(dim)
    y = np.einsum("mld,md->ml", x, tasks) + math.sqrt(RHO) * rng.normal(size=(count, context))
    products = dim / context * np.einsum("ml,mld->md", y, x)
    return np.concatenate([products, np.mean(y**2, axis=1)[:, None]], axis=1)


def prompts_of(rng, tasks, context):
    """Features (m, d (d + 1)) and query labels (m,), one prompt for each task."""
    count, dim = tasks.shape
    x = rng.normal(size=(count, dim)) / math.sqrt(dim)
    y = np.sum(x * tasks, axis=1) + math.sqrt(RHO) * rng.normal(size=count)
    h = summaries(rng, tasks, context)
    return (x[:, :, None] * h[:, None, :]).reshape(count, -1), y


def on_sphere(rng, count, dim):
    w = rng.normal(size=(count, dim))
    return math.sqrt(dim) * w / np.linalg.norm(w, axis=1, keepdims=True)


def trained_errors(rng, setting, times, start_variance=0.0):
    """ICL and IDG errors (times, 2) of one run of descent."""
    dim, context, tasks, count = setting
    known = on_sphere(rng, tasks, dim)
    features, labels = prompts_of(rng, known[rng.integers(tasks, size=count)], context)
    tests = [
        prompts_of(rng, tested, context)
        for tested in (on_sphere(rng, TESTS, dim), known[rng.integers(tasks, size=TESTS)])
    ]
    gamma = math.sqrt(start_variance / dim) * rng.normal(size=features.shape[1])
    errors = []
    step = 0
    for time in times:
        while step < round(time / STEP):
            gamma = gamma + STEP * dim / count * features.T @ (labels - features @ gamma)
            step += 1
        errors.append([np.mean((y - f @ gamma) ** 2) for f, y in tests])
    return np.array(errors)


def planted(seed, times, start_variance=0.0, settings=SETTINGS):
    """Rows of all settings and times, with errors as means and their standard errors."""
    rows = []
    for number, setting in enumerate(settings):
        rng = np.random.default_rng((seed, number))
        errors = np.array(
            [trained_errors(rng, setting, times, start_variance) for _ in range(RUNS)]
        )
        means = np.mean(errors, axis=0)
        bars = np.std(errors, axis=0, ddof=1) / math.sqrt(RUNS)
        for time, mean, bar in zip(times, means, bars, strict=True):
            row = dict(zip(("dim", "context", "tasks", "prompts"), setting, strict=True))
            row |= {"rho": RHO, "icl": mean[0], "idg": mean[1], "time": time}
            rows.append(row | {"icl_se": bar[0], "idg_se": bar[1], "runs": RUNS})
    return rows


def without(rows, *names):
    return [{name: value for name, value in row.items() if name not in names} for row in rows]


@pytest.fixture
def only(monkeypatch):
    """Tries only mistakes that have these words."""

    def choose(*words):
        def chosen(*arguments, **options):
            tried = mistakes(*arguments, **options)
            return [row for row in tried if any(word in row.text for word in words)]

        monkeypatch.setattr(explanations, "mistakes", chosen)

    return choose


@pytest.fixture(scope="module")
def brief():
    """Rows of the time 0.6."""
    return planted(1, (0.6,))


def test_steps_of_descent_agree_by_their_time(brief):
    check = check_runs(brief)
    assert check.holds
    assert max(check.resolutions.values()) < 0.11
    steps = [row | {"steps": 30, "learning_rate": STEP * row["dim"] / 2} for row in brief]
    same = check_runs(without(steps, "time"))
    assert same.rows()[0]["icl_prediction"] == pytest.approx(check.rows()[0]["icl_prediction"])


def test_training_that_was_too_brief_is_named(brief, only):
    only("too brief", "label noise", "per cent")
    check = check_runs(without(brief, "time"))
    assert not check.holds
    best = next(fit for fit in check.fits if "too brief" in fit.text)
    assert best.lower < 0.6 < best.upper
    assert best.effective


def test_a_time_that_is_not_in_units_of_the_flow_is_named(brief, only):
    only("the time is", "half the mean squared error", "trained to the end")
    check = check_runs([row | {"time": row["time"] / row["dim"]} for row in brief])
    assert not check.holds
    assert check.fits[0].text.startswith("the time is d times as large")


def test_a_start_is_named_and_fitted(only):
    only("started from weights", "training time")
    rows = planted(2, (0.6,), start_variance=0.4, settings=SETTINGS[:2])
    check = check_runs(rows)
    assert not check.holds
    best = next(fit for fit in check.fits if "started from weights" in fit.text)
    assert best.lower < 0.4 < best.upper
    fit = fit_runs(without(rows, "time"), free=("time", "start_variance"))
    assert fit.holds
    for name, value in (("time", 0.6), ("start_variance", 0.4)):
        found = next(parameter for parameter in fit.parameters if parameter.name == name)
        assert found.low_95 < value < found.high_95


def test_a_curve_of_training_gives_its_rate():
    rows = planted(3, (0.1, 0.3, 0.8, 2.0, 6.0), settings=SETTINGS[:2])
    assert check_runs(rows).holds
    fit = fit_runs([row | {"time": 3 * row["time"]} for row in rows], free="time")
    factor = fit.parameters[0]
    assert factor.factor
    assert fit.holds
    assert factor.low_95 < 1 / 3 < factor.high_95
    assert factor.high_95 / factor.low_95 < 1.2


def test_one_pass_of_sgd_is_checked(only):
    only("label noise", "per cent")
    dim, context, tasks, batch, steps = 8, 16, 8, 16, 20
    rate = 0.25
    errors = []
    rng = np.random.default_rng(5)
    for _ in range(24):
        known = on_sphere(rng, tasks, dim)
        gamma = np.zeros(dim * (dim + 1))
        for _ in range(steps):
            features, labels = prompts_of(rng, known[rng.integers(tasks, size=batch)], context)
            gamma = gamma + rate * 2 / batch * features.T @ (labels - features @ gamma)
        tests = (on_sphere(rng, TESTS, dim), known[rng.integers(tasks, size=TESTS)])
        pairs = [prompts_of(rng, tested, context) for tested in tests]
        errors.append([np.mean((y - f @ gamma) ** 2) for f, y in pairs])
    mean = np.mean(errors, axis=0)
    bar = np.std(errors, axis=0, ddof=1) / math.sqrt(len(errors))
    row = {"dim": dim, "context": context, "tasks": tasks, "rho": RHO, "batch": batch}
    row |= {"steps": steps, "learning_rate": rate, "icl": mean[0], "idg": mean[1]}
    row |= {"icl_se": bar[0], "idg_se": bar[1], "runs": len(errors)}
    check = check_runs([row])
    assert check.holds
    assert check.rows()[0]["prompts"] == steps * batch
    wrong = check_runs([row | {"icl": 1.2 * mean[0], "idg": 1.2 * mean[1]}])
    assert not wrong.holds
    value_error("SGD are checked", fit_runs, [row], free="rho")


# Adam on the loss of fresh tasks at d = 20: 50 runs of 3000 steps from random weights (Li, Bai and
# Huang, arXiv:2408.02288, Figure S1, MIT licence): prompts over d^2, mean and standard deviation.
ADAM = {
    0.5: (2.2024, 0.2240),
    0.8: (2.0090, 0.2644),
    1.0: (4.0374, 0.9268),
    1.1: (3.4184, 0.7072),
    1.3: (0.9821, 0.1286),
    1.4: (0.7996, 0.0900),
    1.5: (0.6247, 0.0653),
    1.6: (0.5477, 0.0499),
    1.7: (0.4980, 0.0452),
    1.8: (0.4521, 0.0374),
    1.9: (0.4221, 0.0325),
    2.0: (0.3952, 0.0358),
}


# All sets of rows, and pairs of mistakes, are tried: ten CPU seconds.
@pytest.mark.slow
def test_published_runs_of_adam_depend_on_start_and_optimiser(only):
    only("root of d", "per cent")
    shared = {"dim": 20, "context": 100, "tasks": math.inf, "rho": 0, "runs": 50}
    rows = [
        shared | {"tau": tau, "icl": mean, "icl_sd": deviation}
        for tau, (mean, deviation) in ADAM.items()
    ]
    check = check_runs(rows, task_law="gaussian")
    assert not check.holds
    assert "start and the optimiser (such as Adam)" in check.fits[0].text
    assert check_runs(rows[6:], task_law="gaussian").holds


@pytest.mark.parametrize("name", sorted(CONVENTIONS))
def test_a_step_of_training_is_the_same_in_all_conventions(name):
    # One step on one prompt in the units of the convention, and in those of the library.
    dim, context = 4, 6
    units = CONVENTIONS[name].units(dim=dim, context=context)
    rng = np.random.default_rng(0)
    x = rng.normal(size=(context + 1, dim)) / math.sqrt(dim)
    w = rng.normal(size=dim)
    y = x @ w
    h = dim / context * x[:-1].T @ y[:-1]
    rate = float(units.to_library("learning_rate", 0.01))
    gamma = rate * 2 * y[-1] * np.outer(x[-1], h)
    scale = math.sqrt(units.value("input_variance") * dim)
    size = math.sqrt(units.value("task_variance")) * scale
    own = units.value("product_factor") * (scale * x[:-1]).T @ (size * y[:-1])
    step = 0.01 * units.value("loss_factor") * 2 * size * y[-1]
    written = units.to_library("gamma", step * np.outer(scale * x[-1], own))
    np.testing.assert_allclose(written, gamma, rtol=1e-12)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"time": -1.0}, "time"),
        ({"time": 1.0, "steps": 10}, "must have either"),
        ({"steps": 10}, "needs a column learning_rate"),
        ({"learning_rate": 0.1}, "needs a column steps"),
        ({"steps": 10, "learning_rate": 0.0}, "learning_rate"),
        ({"steps": 10, "batch": 15}, "needs a column learning_rate"),
        ({"steps": 20, "batch": 15, "learning_rate": 0.1}, "several passes"),
        ({"time": 1.0, "start_variance": -0.1}, "start_variance"),
        ({"time": 1.0, "estimator": "ridge"}, "only attention is trained"),
    ],
)
def test_bad_trainings_are_named(columns, words):
    row = {"dim": 10, "context": 20, "tasks": 5, "prompts": 150, "rho": RHO, "icl": 1.0}
    value_error(words, check_runs, [row | columns])


def test_all_prompts_in_every_step_is_flow():
    row = {"dim": 10, "context": 20, "tasks": 5, "prompts": 150, "rho": RHO, "icl": 1.0}
    row |= {"icl_se": 0.1, "steps": 20, "learning_rate": 0.5}
    full = check_runs([row | {"batch": 150}]).rows()[0]
    assert full["time"] == pytest.approx(2.0)
    assert full["icl_prediction"] == check_runs([row]).rows()[0]["icl_prediction"]
