"""Runs that are trained by SGD: predicted and simulated through one statement."""

import numpy as np
import pytest

import iclimit
from iclimit import SGD, Experiment, Problem, Ridge, Test
from iclimit.asymptotics.pretraining import one_pass_errors
from iclimit.checks import given

# Standard errors that the worst of a few simulated numbers may lie off.
SIGMAS = 4.0


def law(tasks, **changes):
    return Problem(6, 10, tasks=tasks, noise_variance=0.2, **({"task_law": "sphere"} | changes))


OTHER_TESTS = Test(Problem(6, 20, noise_variance=0.1, task_law="gaussian"))
TASKS = np.random.default_rng(0).integers(-2, 3, (4, 6)).astype(float)


@pytest.mark.parametrize(
    ("problem", "test"),
    [
        (law(np.inf), None),
        (law(np.inf, task_law="gaussian"), OTHER_TESTS),
        (law(4), None),
        (law(TASKS), OTHER_TESTS),
        (law(4, task_law="gaussian", task_covariance=np.linspace(0.2, 1.8, 6)), None),
    ],
    ids=["fresh", "fresh Gaussian, other tests", "tasks", "given, other tests", "covariance"],
)
def test_predicted_and_simulated(problem, test):
    run = Experiment(problem, prompts=160, training=SGD(0.015, batch=4), **given({"test": test}))
    samples = iclimit.sample(run, rng=1, repeats=600)
    prediction = iclimit.predict(run, rng=2, draws=100)
    for name in ("icl", "idg"):
        simulated = samples[name]
        predicted = prediction[name]
        error = np.hypot(simulated.standard_error, predicted.standard_error)
        assert error < 0.02 * simulated.mean
        assert abs(simulated.mean - predicted.mean) < SIGMAS * error


def test_the_recursion_of_keywords():
    run = Experiment(law(np.inf), prompts=30, training=SGD((0.05,) * 10, batch=3))
    theory = one_pass_errors(steps=10, dim=6, context=10, batch=3, rho=0.2, learning_rate=0.05)
    prediction = iclimit.predict(run)
    assert prediction.icl.mean == pytest.approx(float(theory.icl), rel=1e-12)
    assert prediction.idg.mean == pytest.approx(float(theory.icl), rel=1e-12)
    assert prediction.uncertainty == 0


def test_what_is_not_known_is_refused():
    run = Experiment(law(np.inf), prompts=30, training=SGD(0.05, batch=3))
    with pytest.raises(ValueError, match="spread must be False for SGD"):
        iclimit.predict(run, spread=True)
    with pytest.raises(ValueError, match="training must be Ridge here"):
        iclimit.cost(run)
    gated = run.with_(model=iclimit.Reduced(np.ones(10)))
    with pytest.raises(ValueError, match="gates must be None for SGD"):
        iclimit.predict(gated)
    with pytest.raises(ValueError, match="task_covariance must be None for SGD"):
        iclimit.predict(run.with_(problem=law(np.inf, task_covariance=np.ones(6))))
    with pytest.raises(ValueError, match="link must be identity and flips 0 for SGD"):
        iclimit.predict(run.with_(problem=law(4, link="sign")))
    with pytest.raises(ValueError, match="balanced must be False"):
        iclimit.predict(run.with_(problem=law(4), balanced=True))
    wild = run.with_(prompts=3000, training=SGD(9.0, batch=1))
    with pytest.raises(ValueError, match=r"learning_rate must be below .*, got 9: the mean"):
        iclimit.predict(wild)
    with pytest.raises(ValueError, match=r"learning_rate must be below .*, got 9: the mean"):
        iclimit.predict(wild.with_(problem=law(4)))
    with pytest.raises(ArithmeticError, match="learning_rate is too large"):
        iclimit.sample(wild, rng=0)


def test_statements_of_sgd():
    run = Experiment(law(4), prompts=30, training=SGD(0.05, batch=3))
    assert Experiment.of(**run.keywords()) == run
    assert run.training.rates(30).tolist() == [0.05] * 10
    assert {"learning_rate": 0.05, "batch": 3}.items() <= run.statement().items()
    assert "batch" not in run.with_(training=SGD(0.05)).statement()
    assert run != run.with_(training=Ridge())
    assert "SGD(learning_rate=0.05, batch=3)" in repr(run)
    listed = run.with_(training=SGD(np.full(10, 0.05), batch=3))
    assert listed.training == SGD((0.05,) * 10, batch=3)
    assert "ridge" not in run.limit
    same = iclimit.sample(run, rng=0).icl.mean
    assert iclimit.sample(listed, rng=0).icl.mean == pytest.approx(same, rel=1e-12)


@pytest.mark.parametrize(
    ("training", "message"),
    [
        (lambda: SGD(0), "learning_rate must be > 0"),
        (lambda: SGD((0.1, -0.1)), "learning_rate must be > 0"),
        (lambda: SGD(0.1, batch=0), "batch must be"),
        (lambda: SGD(0.1, batch=7), "prompts must be a multiple of the batch of 7, got 30"),
        (lambda: SGD((0.1, 0.1), batch=3), "one for each of 10 steps, got 2"),
    ],
)
def test_wrong_training_is_named(training, message):
    with pytest.raises(ValueError, match=message):
        Experiment(law(4), prompts=30, training=training())


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"batch": 3}, "batch needs a learning_rate"),
        ({"learning_rate": 0.1, "ridge": 0.1}, "learning_rate is of SGD"),
        ({"learning_rate": 0.1, "time": 1.0}, "learning_rate is of SGD"),
    ],
)
def test_keywords_of_two_trainings(keywords, message):
    with pytest.raises(TypeError, match=message):
        Experiment.of(dim=4, context=4, tasks=4, prompts=9, rho=0.1, **keywords)
