"""Random lengths and the effective context: stored values, one length, and simulation."""

import math

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit import (
    AllPositions,
    Experiment,
    Flow,
    Problem,
    RandomLength,
    Reduced,
    Ridge,
    Test,
    predict,
    sample,
)
from iclimit.pretraining import (
    exact_position_errors,
    icl_error,
    idg_error,
    random_length_errors,
    simulate_positions,
)
from iclimit.results import Estimate

# Agreement with the theory of one length, which is written in another form.
ONE_LENGTH = 1e-10

# Half a unit of the last digit of stored values.
SIX_DIGITS = 5.1e-7

# Nodes and weights of a uniform density on (-1, 1).
NODES, WEIGHTS = np.polynomial.legendre.leggauss(40)

# Settings (tau, kappa, shortest, longest, rho, ridge), and c, z, ICL and IDG error of a uniform
# density of lengths, from a script of its own that had another form of the equations.
STORED = [
    ((2, 0.5, 0.25, 3, 0.1, 0.02), (0.306496, 0.391587, 1.150562, 0.472426)),
    ((2, 2, 0.25, 3, 0.1, 0.3), (0.371419, 0.165565, 0.771969, 0.609159)),
    ((0.6, 1, 0.25, 3, 0.1, 0.02), (0.282017, 0.485199, 1.307767, 0.989080)),
    ((3, math.inf, 0.25, 3, 0.1, 0.02), (0.515860, 0.153703, 0.642026, 0.642026)),
    ((1.5, 1, 0.5, 2, 0.2, 0.1), (0.339177, 0.420204, 1.378039, 0.989058)),
    # Infinite data: there is nothing that z stores.
    ((math.inf, 0.5, 0.5, 2, 0.1, 0), (0.291185, None, 0.808078, 0.308586)),
]


@pytest.mark.parametrize(("setting", "stored"), STORED)
def test_stored_values(setting, stored):
    tau, kappa, shortest, longest, rho, ridge = setting
    errors = random_length_errors(
        tau=tau,
        kappa=kappa,
        rho=rho,
        ridge=ridge,
        alphas=(shortest + longest) / 2 + NODES * (longest - shortest) / 2,
        probabilities=WEIGHTS,
        test_alpha=longest,
    )
    found = (errors.rate, errors.variance, errors.icl, errors.idg)
    for value, known in zip(found, stored, strict=True):
        if known is not None:
            assert abs(value - known) < SIX_DIGITS


@pytest.mark.parametrize("tau", [0.3, 1.0, 1.2, 5.0, math.inf])
@pytest.mark.parametrize("ridge", [0.0, 0.03])
def test_one_length_is_the_theory_of_it(tau, ridge):
    setting = {"tau": tau, "kappa": np.array([0.3, 1.0, math.inf]), "rho": 0.2, "ridge": ridge}
    for normalization in ("mean", "length"):
        errors = random_length_errors(**setting, alphas=[1.7], normalization=normalization)
        np.testing.assert_allclose(errors.icl, icl_error(**setting, alpha=1.7), rtol=ONE_LENGTH)
        np.testing.assert_allclose(errors.idg, idg_error(**setting, alpha=1.7), rtol=ONE_LENGTH)


def test_lengths_that_do_not_occur_do_not_count():
    point = {"tau": 1.5, "kappa": 0.7, "rho": 0.1, "ridge": 0.05}
    whole = random_length_errors(**point, alphas=[1, 2, 9], probabilities=[2, 3, 0])
    few = random_length_errors(**point, alphas=[2, 1], probabilities=[0.6, 0.4])
    np.testing.assert_allclose(whole.icl, few.icl, rtol=ONE_LENGTH)
    np.testing.assert_allclose(whole.idg, few.idg, rtol=ONE_LENGTH)


def test_wrong_arguments_are_named():
    point = {"tau": 1.5, "kappa": 0.7, "rho": 0.1}
    value_error("alphas must be > 0", random_length_errors, **point, alphas=[0, 1])
    chances = {"alphas": [1, 2], "probabilities": [-1, 2]}
    value_error("probabilities must be numbers >= 0", random_length_errors, **point, **chances)
    value_error("tau must be", random_length_errors, **(point | {"tau": -1}), alphas=[1])
    sizes = {"dim": 4, "context": 6, "rho": 0.1}
    value_error("first must be at most the context", exact_position_errors, **sizes, first=7)
    value_error("weights must be one number for each", exact_position_errors, **sizes, weights=[1])
    value_error("task_set must have shape", exact_position_errors, **sizes, task_set=3.0)
    value_error("normalization must be", exact_position_errors, **sizes, normalization="sum")
    type_error("run must be an Experiment", predict, 3)


# Settings (dim, context, rho, normalization); c, effective context, mean error, mean of the best,
# then positions with their errors and best errors, from a script of its own.
POSITIONS = [
    (
        (20, 40, 0, "mean"),
        (0.308049, 9.3490, 0.691951, 0.551725),
        {10: (0.678074, 0.677419), 20: (0.578435, 0.512195), 40: (0.528615, 0.344262)},
    ),
    (
        (20, 40, 0, "length"),
        (0.833333, 27, 0.572917, 0.551725),
        {10: (0.717882, 0.677419), 20: (0.522569, 0.512195), 40: (0.392361, 0.344262)},
    ),
    (
        (8, 15, 1 / 32, "mean"),
        (0.328273, 4.5205, 0.702977, 0.605483),
        {3: (0.814737, 0.786352), 7: (0.624868, 0.600481), 15: (0.548921, 0.412693)},
    ),
    (
        (8, 15, 1 / 32, "length"),
        (0.765957, 10.3333, 0.622739, 0.605483),
        {3: (0.820693, 0.786352), 7: (0.612961, 0.600481), 15: (0.447819, 0.412693)},
    ),
]


@pytest.mark.parametrize(("setting", "whole", "places"), POSITIONS)
def test_stored_positions(setting, whole, places):
    dim, context, rho, normalization = setting
    errors = exact_position_errors(dim=dim, context=context, rho=rho, normalization=normalization)
    found = (errors.rate, errors.effective_context, errors.icl.mean(), errors.best.mean())
    np.testing.assert_allclose(found, whole, rtol=1e-5)
    for place, known in places.items():
        error = errors.icl[place - 1]
        best = errors.best[place - 1]
        np.testing.assert_allclose((error, best), known, atol=SIX_DIGITS)


def test_the_rate_is_best_at_the_effective_context():
    """With a whole effective context the error there is the best one."""
    errors = exact_position_errors(dim=6, context=40, rho=0.3, normalization="length")
    assert errors.effective_context == pytest.approx(27)
    assert errors.icl[26] == pytest.approx(errors.best[26], rel=1e-12)
    assert np.all(errors.icl >= errors.best * (1 - 1e-12))
    assert np.all(errors.icl[[0, 39]] > errors.best[[0, 39]] * 1.01)


def test_few_tasks_with_infinite_data_are_those_of_long_training():
    """Against simulation with the same tasks; 4000 sequences are 1 % above infinitely many."""
    rng = np.random.default_rng(0)
    tasks = rng.normal(size=(6, 8))
    tasks *= math.sqrt(8) / np.linalg.norm(tasks, axis=1, keepdims=True)
    setting = {"dim": 8, "context": 16, "first": 4, "rho": 0.2, "ridge": 0.05}
    errors = exact_position_errors(**setting, task_set=tasks)
    law = Problem(8, 16, tasks=tasks, noise_variance=0.2, task_law="sphere")
    loss = AllPositions(first=4)
    run = Experiment(law, prompts=2000, loss=loss, training=Ridge(0.05))
    simulated = simulate_positions(run, positions=errors.positions, rng=0, repeats=6)
    for name in ("icl", "idg"):
        for place in (0, 4, 12):
            mean = Estimate.of(np.ascontiguousarray(getattr(simulated, name)[:, place]))
            ratio = mean.mean / getattr(errors, name)[place]
            error = mean.standard_error / mean.mean
            assert -3 * error < ratio - 1 < 0.02 + 3 * error


def test_infinite_prompts_of_random_length_are_infinite_sequences():
    """The limit of positions at large d; the deviation falls as 1/d."""
    dim = 100
    positions = np.arange(dim // 2, 2 * dim + 1)
    at_size = exact_position_errors(dim=dim, context=2 * dim, rho=0.1, first=dim // 2)
    limit = random_length_errors(
        tau=math.inf,
        kappa=math.inf,
        rho=0.1,
        alphas=positions / dim,
        test_alpha=positions[[0, -1]] / dim,
    )
    np.testing.assert_allclose(at_size.icl[[0, -1]], limit.icl, rtol=2 / dim)


# Runs (dim, context, shortest, tau, kappa, ridge, normalization).
RUNS = [
    (16, 48, 4, 2, 0.5, 0.1, "mean"),
    (12, 24, 1, 2, 2, 0.3, "mean"),
    (12, 24, 3, 1, 0.5, 0.3, "length"),
    (12, 24, 1, 3, math.inf, 0.1, "mean"),
]


@pytest.mark.parametrize("setting", RUNS)
def test_runs_are_within_the_stated_doubt(setting):
    dim, context, shortest, tau, kappa, ridge, normalization = setting
    tasks = math.inf if kappa == math.inf else round(kappa * dim)
    law = Problem(dim, context, tasks=tasks, noise_variance=0.1, task_law="sphere")
    run = Experiment(
        law,
        prompts=tau * dim**2,
        loss=RandomLength(tuple(range(shortest, context + 1))),
        training=Ridge(ridge),
        model=Reduced(normalization=normalization),
    )
    prediction = predict(run, rng=0, draws=3)
    simulated = sample(run, rng=1, repeats=30)
    for place, name in enumerate(("icl", "idg")):
        ratio = simulated[name].mean / prediction[name].mean
        error = simulated[name].standard_error / prediction[name].mean
        assert abs(ratio - 1) < prediction.doubt[0, place] + 2.5 * error


def test_tests_of_other_lengths_and_noise():
    law = Problem(16, 32, noise_variance=0.1, task_law="sphere")
    loss = RandomLength((16, 32))
    run = Experiment(law, prompts=800, loss=loss, training=Ridge(0.2))
    tested = run.with_(test=Test(law.with_fresh_tasks(context=64, noise_variance=0.3)))
    prediction = predict(tested, rng=0)
    simulated = sample(tested, rng=0, repeats=30)
    deviation = simulated.icl.mean / prediction.icl.mean - 1
    assert abs(deviation) < prediction.doubt[0, 0] + 3 * simulated.icl.standard_error
    with pytest.raises(ValueError, match="spread must be False for RandomLength"):
        predict(run, spread=True)
    with pytest.raises(ValueError, match="training must be Ridge here"):
        predict(run.with_(training=Flow(1.0)))
    assert math.isinf(predict(run.with_(prompts=16 * 17, training=Ridge(0))).icl.mean)


# Runs (first position, sequences, tasks, ridge, normalization, balanced) at d = 12, L = 24.
SEQUENCES = [
    (6, 48, 6, 0.1, "mean", True),
    (6, 48, 6, 0.1, "mean", False),
    (1, 48, math.inf, 0.3, "length", False),
]


@pytest.mark.parametrize("setting", SEQUENCES)
def test_runs_of_sequences_are_within_the_stated_doubt(setting):
    first, count, tasks, ridge, normalization, balanced = setting
    law = Problem(12, 24, tasks=tasks, noise_variance=0.1, task_law="sphere")
    run = Experiment(
        law,
        prompts=count,
        balanced=balanced,
        loss=AllPositions(first),
        training=Ridge(ridge),
        model=Reduced(normalization=normalization),
    )
    longer = Test(law.with_fresh_tasks(context=40))
    for tested in (run, run.with_(test=longer)):
        prediction = predict(tested, rng=0)
        simulated = sample(tested, rng=1, repeats=40)
        for place, name in enumerate(("icl", "idg")):
            ratio = simulated[name].mean / prediction[name].mean
            error = simulated[name].standard_error / prediction[name].mean
            assert abs(ratio - 1) < prediction.doubt[0, place] + 2.5 * error


def test_sequences_that_are_not_predicted_are_refused_by_name():
    law = Problem(12, 24, noise_variance=0.1, task_law="sphere")
    run = Experiment(law, prompts=48, loss=AllPositions(), training=Ridge(0.1))
    value_error("spread must be False for AllPositions", predict, run, spread=True)
    value_error("training must be Ridge here", predict, run.with_(training=Flow(1.0)))
    noisy = run.with_(test=Test(law.with_fresh_tasks(noise_variance=0.2)))
    value_error("tests must have the noise_variance of training", predict, noisy)
    value_error("ridge must be", predict, run.with_(training=Ridge(0.0)))
