"""The claims on gradient descent can fail: judges on results that are off by a few percent.

Small simulations are judged to hold; then one number is moved, or one formula of the theory, and
the verdict must turn.
"""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from judged_claims import Results, assert_fails, failed, judge, off, run_cells, scaled

from iclimit.results import Estimate
from iclimit.simulate.arrays import get_backend
from iclimit.simulate.descent import CriticalDampening, Regression, ScheduleLosses
from iclimit.simulate.descent.alignment import Alignment
from iclimit.simulate.descent.constructions import descent_layer
from iclimit.simulate.descent.regression import regression_tokens
from iclimit.simulate.models.transformer import Layer, prediction
from iclimit.validation import CLAIMS
from iclimit.validation.claims.descent import (
    constructions,
    contexts,
    dampening,
    divergence,
    learning_rate,
    paired,
    preconditioner,
    schedules,
    training,
    transfer,
)


def scaled_losses(
    run: ScheduleLosses, factor: float, columns: Any = slice(None)
) -> ScheduleLosses:
    """Losses of some schedules, times a factor."""
    losses = np.stack([loss.samples for loss in run.losses], axis=1)
    losses[:, columns] *= factor
    return ScheduleLosses.of(losses, run.parameters)


def moved(traces: np.ndarray, order: int, factor: float) -> np.ndarray:
    """Traces of which those of one order are off."""
    wrong = traces.copy()
    wrong[:, order] *= factor
    return wrong


# Contexts.


def test_losses_from_traces_are_those_of_polynomials() -> None:
    values, rates, noise = np.array([0.2, 0.9, 1.7]), [0.4, 0.8], 0.3
    traces = np.array([np.mean(values**k) for k in range(5)])
    P = (1 - 0.4 * values) * (1 - 0.8 * values)
    expected = np.mean(P**2 + noise * (1 - P) ** 2 / values)
    assert contexts.mean_loss(traces, rates, noise) == pytest.approx(expected, rel=1e-13)


def test_best_rates_are_the_roots_of_as_few_eigenvalues() -> None:
    """As many steps as eigenvalues remove the error; a constant rate minimises by calculus."""
    values = np.array([0.5, 1.0, 2.0])
    traces = np.array([np.mean(values**k) for k in range(7)])
    assert contexts.best_rates(traces, 3, 0.0) == pytest.approx([0.5, 1.0, 2.0], rel=1e-4)
    (rate,) = contexts.best_rates(traces, 2, 0.0, constant=True)
    slope = np.sum(values * (1 - rate * values) ** 3)
    assert slope == pytest.approx(0.0, abs=1e-6)


def test_traces_are_those_of_eigenvalues() -> None:
    options: dict[str, Any] = {"context": 5, "dim": 3, "contexts": 200, "rng": 4}
    traces = contexts.mean_traces(most=5, **options)
    assert traces.shape == (contexts.BLOCKS, 6)
    (x,) = contexts.context_blocks(5, 3, "gaussian", 200, 4, "numpy")
    values = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 5)
    expected = [np.mean(values**k) for k in range(6)]
    assert np.mean(traces, axis=0) == pytest.approx(expected, rel=1e-12)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    blocks = np.random.default_rng(0).standard_normal((20, 2))
    first, second = contexts.jackknife(lambda mean: mean, blocks)
    for found, column in ((first, blocks[:, 0]), (second, blocks[:, 1])):
        expected = Estimate.of(column)
        assert found.mean == pytest.approx(expected.mean)
        assert found.standard_error == pytest.approx(expected.standard_error)


# Learning rates.


@pytest.fixture(scope="module")
def learning_rate_results() -> Results:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learning_rate, "CONTEXTS", {"quick": 10_000})
        patch.setattr(learning_rate, "TASKS", {"quick": 5_000})
        return run_cells("gd-learning-rate")


def test_learning_rates_hold(learning_rate_results: Results) -> None:
    verdict = judge("gd-learning-rate", learning_rate_results)
    assert verdict.holds, failed(verdict)


@pytest.mark.parametrize("law", learning_rate.LAWS)
@pytest.mark.parametrize("factor", [0.97, 1.03])
def test_wrong_contexts_fail(law: str, factor: float, learning_rate_results: Results) -> None:
    key = ("contexts", law)
    one = learning_rate_results | {key: moved(learning_rate_results[key], 2, factor)}
    found = failed(judge("gd-learning-rate", one))
    assert any(label.startswith(f"rate, {law}") for label in found)
    assert any(label.startswith("derived") and law in label for label in found)


@pytest.mark.parametrize("searched", [0.05 * (1 + 2e-4), np.nan])
def test_a_line_search_that_misses_fails(searched: float, learning_rate_results: Results) -> None:
    one = learning_rate_results | {("search", "laplace", 0.4): (searched, 0.05)}
    assert_fails(judge("gd-learning-rate", one), "line search")


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("optimal_learning_rate", "rate"),
        ("optimal_learning_rate", "loss"),
        ("learning_rate_loss", ""),
    ],
)
def test_a_wrong_learning_rate_theory_fails(
    name: str, field: str, learning_rate_results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    theory = getattr(learning_rate, name)
    monkeypatch.setattr(learning_rate, name, off(theory, 1.02, *filter(None, [field])))
    found = failed(judge("gd-learning-rate", learning_rate_results))
    assert any("common factor" in label and name in label for label in found)


# Schedules and divergence.


@pytest.fixture
def few_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "CONTEXTS", {"quick": 4000})
    monkeypatch.setattr(schedules, "TOKEN_TASKS", {"quick": 4000})
    monkeypatch.setattr(schedules, "LIMIT_CONTEXTS", {16: 3000, 32: 800, 64: 200, 128: 50})
    monkeypatch.setattr(divergence, "LOSS_CONTEXTS", {"quick": 4000})
    monkeypatch.setattr(divergence, "CONTEXTS", {"quick": 20_000})
    monkeypatch.setattr(divergence, "DIMS", (10, 20))
    monkeypatch.setattr(divergence, "LARGE", (10, 20, 40))


@pytest.mark.slow
@pytest.mark.usefixtures("few_contexts")
def test_schedules_hold_and_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    results = run_cells("gd-schedules")
    assert judge("gd-schedules", results).holds
    key, names = ("losses", 0.05), tuple(schedules.LABELS)
    for column, name in enumerate(names, start=len(names)):
        # 4000 contexts know a loss to 1 %.
        one = results | {key: scaled_losses(results[key], 1.06, column)}
        assert f"{name} rates, L=2 v=0.05" in failed(judge("gd-schedules", one))
    wider = results["traces"] * 1.05 ** np.arange(7)  # eigenvalues 5 % too large
    found = failed(judge("gd-schedules", results | {"traces": wider}))
    for label in ("derived moment of order 3", "optimal rate 1", "constant rate 1"):
        assert any(each.startswith(label) for each in found)
    tokens = results["tokens"]
    one = results | {"tokens": replace(tokens, mean=tokens.mean + 6 * tokens.standard_error)}
    assert_fails(judge("gd-schedules", one), "optimal rates on tokens")
    # The extrapolation from these few contexts knows the limit to 10 % only (measured).
    one = results | {dim: scaled_losses(results[dim], 1.6) for dim in schedules.LIMIT_CONTEXTS}
    found = failed(judge("gd-schedules", one))
    assert found
    assert all("d to infinity" in label or "common factor" in label for label in found)
    exact = schedules.schedule_loss
    monkeypatch.setattr(schedules, "schedule_loss", off(exact, 1.05))
    found = failed(judge("gd-schedules", results))
    assert any(label.startswith("limit rates") for label in found)
    assert any(label.startswith("advantage") for label in found)
    # A wrong sign of the noise term.
    monkeypatch.setattr(
        schedules,
        "schedule_loss",
        lambda *args, noise_ratio=0.0, **k: exact(*args, noise_ratio=noise_ratio / 2, **k),
    )
    found = failed(judge("gd-schedules", results))
    assert all("v=0.05" in label or "common factor" in label for label in found)
    assert any("v=0.05" in label for label in found)


@pytest.mark.slow
@pytest.mark.usefixtures("few_contexts")
def test_divergence_holds_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    results = run_cells("gd-divergence")
    assert judge("gd-divergence", results).holds
    one = results | {dim: 1.03 * results[dim] for dim in divergence.DIMS}
    found = failed(judge("gd-divergence", one))
    assert {f"d={dim}" for dim in divergence.DIMS} <= {each.split(", ")[-1] for each in found}
    one = results | {dim: 1.03 * results[dim] for dim in divergence.LARGE}
    assert "rate of divergence, d to infinity" in failed(judge("gd-divergence", one))
    for column, steps in enumerate(divergence.MEANS):
        wrong = scaled_losses(results["losses"], 1.3, column)
        one = results | {"losses": wrong}
        assert f"mean loss of {steps} steps" in " ".join(failed(judge("gd-divergence", one)))
    exact = divergence.largest_eigenvalue_cdf
    monkeypatch.setattr(
        divergence,
        "largest_eigenvalue_cdf",
        lambda x, *, context, dim: exact(x, context=context + 1, dim=dim),
    )
    found = failed(judge("gd-divergence", results))
    assert found
    assert all("converging" in label or "largest_eigenvalue_cdf" in label for label in found)


# Dampening.

UNIFORM_QUANTILES = (0.709, 0.734, 0.755)
"""Of 10,000 tasks with uniform inputs, from the quick preset."""


def uniform_quantiles(factor: float = 1.0) -> CriticalDampening:
    return CriticalDampening(
        tuple(Estimate(factor * q, 0.002, 500_000) for q in UNIFORM_QUANTILES)
    )


@pytest.fixture
def dampening_results(monkeypatch: pytest.MonkeyPatch) -> Results:
    monkeypatch.setattr(dampening, "CONTEXTS", {"quick": 60_000})
    monkeypatch.setattr(dampening, "TASKS", (10,))
    monkeypatch.setattr(dampening, "LOSS_CONTEXTS", {"quick": 20_000})
    known = dampening.critical_dampening(dampening.QUANTILES, **dampening.SIZE, test_tasks=10)
    # One search for quantiles takes a second.
    monkeypatch.setattr(dampening, "critical_dampening", lambda *_, **__: known)
    replaced = {
        "uniform": uniform_quantiles(),
        "roll-out": ScheduleLosses.of(np.ones((2, len(dampening.ROLL_OUT_FACTORS))), {}),
    }
    cells = CLAIMS["gd-dampening"].cells_by_key("quick")
    return {key: replaced[key] if key in replaced else cell.run(0) for key, cell in cells.items()}


def test_dampening_holds_and_fails(
    dampening_results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = dampening_results
    assert judge("gd-dampening", results).holds
    for factor in (0.97, 1.03):
        quantiles = tuple(scaled(each, factor) for each in results[10].quantiles)
        one = results | {10: CriticalDampening(quantiles)}
        assert "critical factor of 10 tasks" in " ".join(failed(judge("gd-dampening", one)))
        one = results | {"traces": moved(results["traces"], 4, factor)}
        assert "best factor of 2 repetitions" in failed(judge("gd-dampening", one))
    # A published value out of the law's reach: its quartiles are 6 % apart.
    for factor in (0.75, 1.3):
        one = results | {"uniform": uniform_quantiles(factor)}
        assert_fails(judge("gd-dampening", one), "published factor")
    for name in ("schedule_loss", "critical_dampening"):
        with monkeypatch.context() as patch:
            patch.setattr(dampening, name, off(getattr(dampening, name), 1.03))
            found = failed(judge("gd-dampening", results))
            assert any("common factor" in label and name in label for label in found)


# Constructions.


def test_constructions_hold_and_fail() -> None:
    results = run_cells("gd-constructions")
    assert judge("gd-constructions", results).holds
    for key in [key for key in results if key != "softmax"]:
        for name in results[key]:
            one = results | {key: results[key] | {name: 1e-11}}
            (label,) = failed(judge("gd-constructions", one))
            assert label.startswith(name)
    one = results | {"softmax": [error**1.03 for error in results["softmax"]]}
    assert_fails(judge("gd-constructions", one), "softmax copying")


@pytest.mark.parametrize(
    ("name", "label"),
    [("rate", "after"), ("initial", "any initial weights"), ("preconditioner", "preconditioned")],
)
def test_a_wrong_layer_fails(name: str, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = constructions.descent_layer

    def wrong(rate: float, **options: Any) -> Any:
        if name == "rate":
            return right(rate * (1 + 1e-6), **options)
        if options.get(name) is not None:
            options[name] = options[name].T if name == "preconditioner" else -options[name]
        return right(rate, **options)

    monkeypatch.setattr(constructions, "descent_layer", wrong)
    verdict = judge("gd-constructions", run_cells("gd-constructions"))
    assert not verdict.holds
    # What has one step only, or compares layers with the same layers, is not concerned.
    assert any(label in found for found in failed(verdict))


# Training, preconditioners, transfer.


def trained_layer(noise: float) -> tuple[Regression, Layer]:
    """A step on uniform inputs whose weights are all a bit off, as training leaves them."""
    problem = Regression(context=6, dim=4, input_law="uniform", noise_variance=0.2)
    step = descent_layer(1.5, context=6, dim=4)
    generator = np.random.default_rng(1)
    weights = [
        getattr(step, name) + noise * generator.standard_normal((1, 5, 5))
        for name in ("key", "query", "value", "projection")
    ]
    return problem, Layer(*weights)


def test_a_layer_is_its_own_step_and_a_rest_that_is_even_in_the_labels() -> None:
    problem, layer = trained_layer(0.1)
    prompts = problem.sample(get_backend("numpy"), np.random.default_rng(0), 50)
    flipped = replace(prompts, y=-prompts.y)
    first, second = (prediction(regression_tokens(p), [layer]) for p in (prompts, flipped))
    own = paired.own_preconditioner(layer, 6)
    step = descent_layer(1.0, context=6, dim=4, preconditioner=own)
    assert prediction(regression_tokens(prompts), [step]) == pytest.approx((first - second) / 2)
    assert np.max(np.abs(first + second)) > 0.01


def test_paired_losses_add_up_to_that_of_the_layer() -> None:
    problem, layer = trained_layer(0.05)
    count, matrix = 20_000, 1.4 * np.eye(4)
    found = paired.paired_losses(problem, layer, matrix, count, np.random.default_rng(2))
    prompts = problem.sample(get_backend("numpy"), np.random.default_rng(3), count)
    errors = (prediction(regression_tokens(prompts), [layer]) - prompts.y_query) ** 2
    direct = Estimate.of(errors)
    assert abs(found.loss.mean - direct.mean) < 4 * direct.standard_error
    assert found.loss.standard_error < 0.3 * direct.standard_error
    law = {"input_covariance": np.full(4, 1 / 3), "excess_kurtosis": -1.2}
    setting = {"context": 6, "noise_variance": 0.2}
    exact = preconditioner.preconditioner_loss(matrix, **law, **setting)
    assert abs(found.step.z(exact)) < 4
    own = preconditioner.preconditioner_loss(found.matrix, **law, **setting)
    assert abs(found.descent.z(own)) < 4


def made_up_losses(
    step: float, own: float, matrix: np.ndarray, changes: dict[str, float]
) -> paired.Paired:
    """Losses as they come out (measured), with relative changes."""
    generator = np.random.default_rng(5)
    common, other = generator.standard_normal((2, 2000))

    def estimate(mean: float, spread: np.ndarray) -> Estimate:
        return Estimate.of(mean + spread - np.mean(spread))

    return paired.Paired(
        estimate(step * changes.get("step", 1.0), 0.05 * step * common),
        estimate(own * changes.get("descent", 1.0), 0.05 * step * (common + 0.1 * other)),
        estimate(step * changes.get("rest", 0.001), 0.0001 * step * other),
        matrix,
    )


def training_results(**changes: float) -> Results:
    """Trained layers as they come out, but for some changes."""
    results: Results = {}
    for N in training.CONTEXTS["quick"]:
        best = training.best_step(N)
        matrix = 1.01 * float(best.rate) * np.eye(10)
        own = training.preconditioner_loss(matrix, **training.UNIFORM, context=N)
        final = Alignment(
            Estimate(changes.get("prediction", 0.06) * 1.2, 0.001, 4000),
            Estimate(changes.get("gradient", 0.06) * 2.0, 0.001, 4000),
            Estimate(changes.get("cosine", 0.998), 1e-5, 4000),
        )
        losses = made_up_losses(float(best.loss), own, matrix, changes)
        results[N] = training.TrainedLayer(losses, 900, np.ones(900), {900: final}, (1.2, 2.0))
    return results


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({}, ()),
        ({"rest": 0.02}, ("loss of the trained layer",)),
        ({"descent": 0.98}, ("loss of descent in the layer", "with preconditioner_loss")),
        ({"prediction": 0.12}, ("distance of predictions",)),
        ({"gradient": 0.12}, ("distance of query gradients",)),
        ({"gradient": np.nan}, ("distance of query gradients",)),
        ({"cosine": 0.985}, ("one minus cosine",)),
    ],
)
def test_training_holds_and_fails(changes: dict[str, float], labels: tuple[str, ...]) -> None:
    found = failed(judge("gd-training", training_results(**changes)))
    assert len(found) >= len(training.CONTEXTS["quick"]) * len(changes)
    assert all(any(label in each for label in labels) for each in found), found


@pytest.mark.parametrize("name", ["optimal_learning_rate", "preconditioner_loss"])
def test_a_wrong_theory_of_training_fails(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    results = training_results()
    fields = ("loss",) if name == "optimal_learning_rate" else ()
    monkeypatch.setattr(training, name, off(getattr(training, name), 1.01, *fields))
    assert_fails(judge("gd-training", results), "")


def preconditioner_results(**changes: float) -> Results:
    results: Results = {}
    for law in preconditioner.KURTOSIS:
        statistics = preconditioner.statistics(law)
        best = preconditioner.optimal_preconditioner(**statistics)
        matrix = best.matrix * 1.01
        own = preconditioner.preconditioner_loss(matrix, **statistics)
        diagonal = changes.get("matrix", 1.0) * np.diag(best.matrix)
        results[law] = preconditioner.TrainedPreconditioner(
            made_up_losses(best.loss, own, matrix, changes),
            np.full(3, best.loss),
            tuple(Estimate(entry, 0.002 * entry, 50) for entry in diagonal),
        )
    return results


@pytest.mark.parametrize(
    ("changes", "label"),
    [
        ({}, ""),
        ({"rest": 0.03}, "loss of the trained layer"),
        ({"matrix": 1.03}, "preconditioner"),
        ({"matrix": 0.97}, "preconditioner"),
    ],
)
def test_preconditioners_hold_and_fail(changes: dict[str, float], label: str) -> None:
    verdict = judge("gd-preconditioner", preconditioner_results(**changes))
    assert len(failed(verdict)) >= (2 if changes else 0)
    assert all(label in found for found in failed(verdict))


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("optimal_preconditioner", "loss"),
        ("optimal_preconditioner", "matrix"),
        ("preconditioner_loss", ""),
    ],
)
def test_a_wrong_preconditioner_theory_fails(
    name: str, field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = preconditioner_results()
    wrong = off(getattr(preconditioner, name), 1.02, *filter(None, [field]))
    monkeypatch.setattr(preconditioner, name, wrong)
    of = f"{name}.{field}" if field else name
    assert f"with {of}" in " ".join(failed(judge("gd-preconditioner", results)))


def test_the_best_preconditioner_of_contexts_is_the_one_of_least_loss() -> None:
    """Isotropic, it is the best rate on the same contexts, a ratio of traces."""
    problem = Regression(context=5, dim=5, noise_variance=0.3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(preconditioner, "TASK_ROOT", np.eye(5))
        patch.setattr(preconditioner, "MIXING", np.eye(5))
        found = preconditioner.best_diagonal(problem, 20_000, 0)
    assert all(abs(each.z(5 / (5 + 5 + 1 + 0.3))) < 4 for each in found)


def transfer_results(**changes: float) -> Results:
    """A trained layer as it comes out; changes are factors by kind of test."""
    cases = [
        *((kind, scale) for kind, scales in transfer.SCALES.items() for scale in scales),
        *(("interpolated", weight) for weight in transfer.WEIGHTS),
    ]
    matrix = 1.5 * np.eye(10)
    descended = np.geomspace(1.0, 0.1, transfer.REPETITIONS + 1)
    found = transfer.Transfer(
        cases={
            case: made_up_losses(
                transfer.step_loss(case),
                transfer.own_loss(case, matrix),
                matrix,
                {"descent": changes.get(case[0], 1.0), "step": changes.get("step", 1.0)},
            )
            for case in cases
        },
        rolled=descended * changes.get("rolled", 1.03),
        descended=descended,
    )
    return {"layer": found}


@pytest.mark.parametrize(
    ("changes", "count", "label"),
    [
        ({}, 0, ""),
        ({"inputs": 1.03}, 5, "inputs times"),
        ({"inputs": 0.97}, 5, "inputs times"),
        ({"tasks": 1.03}, 4, "tasks times"),
        ({"interpolated": 1.03}, 3, "interpolated, weight"),
        ({"step": 1.03}, 9, "step"),
        ({"rolled": 1.12}, 1, "median error after 10 repetitions"),
        ({"rolled": 0.88}, 1, "median error after 10 repetitions"),
        ({"rolled": np.nan}, 1, "median error after 10 repetitions"),
    ],
)
def test_transfer_holds_and_fails(changes: dict[str, float], count: int, label: str) -> None:
    verdict = judge("gd-transfer", transfer_results(**changes))
    single = [found for found in failed(verdict) if "common factor" not in found]
    assert len(single) == count
    assert all(label in found for found in single)


def test_losses_of_the_step_elsewhere_are_sums_over_a_sample() -> None:
    """The step that is optimal at scale 1, applied to inputs and tasks of other sizes."""
    generator = np.random.default_rng(2)
    x = generator.uniform(-1, 1, (40_000, 11, 10))
    w = generator.standard_normal((40_000, 10))
    rate = 15 / (5 * 20 - 1)
    for kind, factor in (("inputs", 1.0), ("inputs", 2.0), ("inputs", 0.5), ("tasks", 5.0)):
        scale, task = (factor, 1.0) if kind == "inputs" else (1.0, factor)
        exact = transfer.step_loss((kind, factor))
        y = task * np.einsum("nid,nd->ni", scale * x, w)
        step = rate * np.einsum("ni,nid->nd", y[:, :-1], scale * x[:, :-1])
        errors = (y[:, -1] - np.einsum("nd,nd->n", step, scale * x[:, -1])) ** 2
        deviation = np.mean(errors) - exact
        assert abs(deviation) < 4 * np.std(errors) / 200
