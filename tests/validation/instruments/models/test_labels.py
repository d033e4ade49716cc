"""Labels with a link or flips: what stands for them, errors, posteriors, and verdicts."""

import math

import numpy as np
import pytest
from scipy import stats

import iclimit
from iclimit.simulate.prompts import Prompts
from iclimit.simulate.prompts.sampling import concatenate_fields
from iclimit.validation.instruments.models.algorithm import Examples
from iclimit.validation.instruments.models.baselines import baselines, families
from iclimit.validation.instruments.models.files import PromptFile, read_prompts, write_prompts
from iclimit.validation.instruments.models.fitting import fit_family
from iclimit.validation.instruments.models.labels import effective_problem, posterior_labels
from iclimit.validation.instruments.models.model import Model, ask_all
from iclimit.validation.instruments.models.positions import least_possible, position_baselines
from iclimit.validation.instruments.models.sections import plan_sections

D, N = 5, 16
CLASSES = iclimit.Problem(
    dim=D, context=N, link="sign", flips=0.1, noise_variance=0.05, scale=1, task_variance=2
)
TASKS = np.random.default_rng(4).standard_normal((4, D))
FEW = ["null", "one_step", "ridge"]


def drawn(problem, count=300, rng=0):
    return iclimit.sample_prompts(problem, count, rng=rng)


def ridge(x, y, q, penalty=3.0):
    gram = x.mT @ x + penalty * np.eye(D)
    return np.vecdot(q, np.linalg.solve(gram, np.vecdot(x.mT, y[:, None])[:, :, None])[:, :, 0])


@pytest.mark.parametrize(
    ("link", "flips"), [("sign", 0.1), ("relu", 0.0), (("sin", 2.0), 0.7), (np.cbrt, 0.0)]
)
def test_linear_labels_that_stand_for_others_have_their_regression(link, flips):
    """Slope on the linear label, and the mean square of what is left, of labels that are drawn."""
    problem = iclimit.Problem(
        dim=D, context=1, link=link, flips=flips, noise_variance=0.3, scale=2, task_law="sphere"
    )
    labels = drawn(problem, 200_000)
    z = np.vecdot(labels.query, labels.tasks)
    y = labels.query_label
    # Inputs are Gaussian and norms of tasks are one: z has variance d s^2.
    products = z * y / np.mean(z**2)
    slope = np.mean(products)
    left = (y - slope * z) ** 2
    found = effective_problem(problem)
    assert found.has_linear_labels
    error = np.std(products) / math.sqrt(len(y))
    assert abs(math.sqrt(found.task_variance) - abs(slope)) < 4 * error
    assert abs(found.noise_variance - np.mean(left)) < 4 * np.std(left) / math.sqrt(len(y))
    given = effective_problem(iclimit.Problem(D, 1, link=link, flips=flips, tasks=TASKS))
    assert np.sign(given.task_set[0, 0]) == np.sign(slope * TASKS[0, 0])


def test_linear_labels_are_as_they_are():
    problem = iclimit.Problem(dim=D, context=N, link="identity", flips=0.0)
    assert effective_problem(problem) is problem


def sums_before(_, labels):
    return np.cumsum(labels, axis=1) - labels


@pytest.mark.parametrize("flips", [0.0, 0.2])
def test_errors_are_those_on_labels_that_are_drawn(flips):
    """Averaged over flips and noise of the query, at the query and at every position."""
    problem = iclimit.Problem(D, N, link="relu", flips=flips, noise_variance=0.2, scale=1)
    [section] = plan_sections(problem, test_prompts=20_000, rng=3)[:1]
    answers = ask_all(Model(ridge), [], [section])["fresh"]
    prompts = concatenate_fields(section.blocks())
    on_labels = (answers.model - prompts.query_label) ** 2
    difference = on_labels - answers.errors(answers.model)
    assert abs(np.mean(difference)) < 4 * np.std(difference) / math.sqrt(len(difference))
    assert np.var(answers.errors(answers.model)) < np.var(on_labels)
    by_position = Model(sums_before, per_position=True)
    positions = ask_all(by_position, [], [section], positions=True)["fresh"]
    last = positions.at(N)
    assert np.allclose(last.target, answers.target)
    assert np.allclose(last.noise_variance, answers.noise_variance)
    first = positions.at(0)
    difference = first.errors(first.model) - prompts.labels[:, 0] ** 2
    assert abs(np.mean(difference)) < 4 * np.std(difference) / math.sqrt(len(difference))


@pytest.mark.parametrize("flips", [0.0, 0.15, 0.9])
@pytest.mark.parametrize("noise", [0.0, 0.4])
def test_the_posterior_over_given_tasks_is_that_of_bayes(flips, noise):
    """Task by task and label by label, from densities of SciPy; without noise by consistency."""
    problem = iclimit.Problem(
        D, 4, tasks=TASKS, link="sign", flips=flips, noise_variance=noise, scale=1
    )
    prompts = drawn(problem, 20)
    found = posterior_labels(prompts, problem)
    # Labels are in units of the root of d.
    unit = math.sqrt(D)
    for index in range(20):
        weights = []
        for task in TASKS:
            density = 1.0
            for x, y in zip(prompts.inputs[index], prompts.labels[index], strict=True):
                clean = unit * np.sign(x @ task)
                if noise:
                    law = stats.norm(scale=math.sqrt(noise))
                    density *= (1 - flips) * law.pdf(y - clean) + flips * law.pdf(y + clean)
                else:
                    density *= 1 - flips if abs(y - clean) < 1e-6 else flips
            weights.append(density)
        means = (1 - 2 * flips) * unit * np.sign(TASKS @ prompts.query[index])
        expected = np.average(means, weights=weights)
        assert found[index] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_given_tasks_with_a_link_have_their_posterior_as_baseline():
    problem = iclimit.Problem(D, N, tasks=TASKS, link="tanh", noise_variance=0.3, scale=1)
    by_name = {each.name: each for each in baselines(problem, names=["dmmse", "ridge"])}
    prompts = drawn(problem, 50)
    expected = posterior_labels(prompts, problem)
    assert np.allclose(by_name["dmmse"].predict(prompts), expected)
    assert by_name["ridge"].loss is None
    assert "dmmse" not in [row.name for row in families(problem)]
    [at_positions] = position_baselines(problem, ["dmmse"])
    assert np.allclose(at_positions.predict(prompts)[:, -1], expected)
    assert np.isnan(at_positions.loss).all()
    assert least_possible(problem, N) == ("", 0.0)


def test_other_labels_of_classes_are_classes():
    """Sums of labels of two tasks on the same inputs, of which as many are flipped as said."""
    problem = iclimit.Problem(D, N, link="sign", flips=0.2, scale=1)
    plan = {each.name: each for each in plan_sections(problem, test_prompts=4000, rng=0)}
    other = concatenate_fields(plan["labels:other"].blocks())
    summed = concatenate_fields(plan["labels:sum"].blocks())
    fresh = concatenate_fields(plan["fresh"].blocks())[: len(other)]
    assert np.allclose(summed.labels - other.labels, fresh.labels)
    assert np.allclose(np.abs(other.labels), math.sqrt(D))
    assert np.allclose(summed.target, fresh.target + other.target)
    clean = math.sqrt(D) * np.sign(np.einsum("nld,nd->nl", other.inputs, other.tasks))
    flipped = np.mean(clean != other.labels)
    assert abs(flipped - 0.2) < 4 * math.sqrt(0.2 * 0.8 / other.labels.size)
    assert np.array_equal(np.sign(other.target), np.sign(np.vecdot(other.query, other.tasks)))


def signs(x, y, q):
    return np.sign(np.vecdot(q, np.vecdot(x.mT, y[:, None])))


READOUTS = {
    "logistic_readout": (
        lambda *p: 1.2 * np.tanh(0.7 * ridge(*p)),
        {"value": 1.2, "slope": 0.7, "penalty": 3.0},
    ),
    "sign_readout": (lambda *p: 2.0 * signs(*p), {"value": 2.0, "regression": 0}),
}


@pytest.mark.parametrize("name", READOUTS)
def test_readouts_are_found_with_their_parameters(name):
    function, parameters = READOUTS[name]
    prompts = drawn(CLASSES, 400)
    row = next(each for each in families(CLASSES) if each.name == name)
    answers = function(prompts.inputs, prompts.labels, prompts.query)
    fit, member = fit_family(row, Examples(prompts[:300], CLASSES), answers[:300])
    found = {key: each.mean for key, each in fit.parameters.items()}
    assert found == pytest.approx(parameters, rel=1e-6)
    assert np.allclose(member.predict(prompts), answers, rtol=0, atol=1e-6)
    assert name not in [each.name for each in families(iclimit.Problem(D, N))]


def test_the_sign_of_the_best_ridge_regression_is_a_baseline_of_classes():
    """With the penalty of the noise that classes have: 2 / pi of their square is linear."""
    # E z y = (1 - 2 p) sqrt(2 / pi) in units of labels; the rest and the noise are noise.
    slope = 0.8 * math.sqrt(2 / math.pi)
    noise = 2 * D * (1 - slope**2) + 0.05
    prompts = drawn(CLASSES)
    known = {each.name: each for each in baselines(CLASSES, names=["sign_readout", "ridge"])}
    best = ridge(prompts.inputs, prompts.labels, prompts.query, noise / (2 * slope**2))
    assert np.allclose(known["ridge"].predict(prompts), best, rtol=1e-6)
    expected = math.sqrt(2 * D) * np.sign(best)
    assert np.array_equal(known["sign_readout"].predict(prompts), expected)
    assert not baselines(iclimit.Problem(D, N), names=["sign_readout"])


@pytest.mark.parametrize(
    ("model", "sentence"),
    [
        (ridge, "It is ridge regression with penalty 3 ("),
        (signs, "It is 1 times the sign of one gradient step: it leaves 0 % "),
    ],
)
def test_models_of_classes_are_probed(model, sentence):
    report = iclimit.probe(model, CLASSES, test_prompts=600, baselines=FEW, rng=0)
    assert "noise variance 0.05, labels by the link sign, 10% flipped." in str(report)
    verdict = report.verdict
    assert verdict.kind == "algorithm"
    assert verdict.sentence.startswith(sentence)


def test_linear_attention_on_classes_has_the_error_of_the_limit():
    """Trained on prompts of classes; the error on fresh ones is near that of the theory."""
    problem = iclimit.Problem(dim=12, context=24, link="sign", flips=0.1)
    [trained] = baselines(problem, prompts=1500, ridge=0.1, names=["linear_attention"])
    [section] = plan_sections(problem, test_prompts=4000, rng=1)[:1]
    answers = ask_all(Model(signs), [trained], [section])["fresh"]
    limit = iclimit.icl_error(
        tau=1500 / 144, alpha=2, kappa=math.inf, rho=0, ridge=0.1, link="sign", flips=0.1
    )
    assert trained.loss is None
    assert f"{limit:.4g} in the limit" in trained.description
    assert answers.error("linear_attention").mean == pytest.approx(limit, rel=0.06)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"link": np.abs}, "link and flips must leave labels a linear part, got"),
        ({"link": "sign", "flips": 0.5}, "link and flips must leave labels a linear part, got"),
        ({"flips": 0.1, "noise_law": "uniform:1"}, "noise_law must be None for labels with a"),
        ({"link": "sign", "input_covariance": [3, 1, 1, 1, 1]}, "input_covariance must be None"),
        ({"link": (0.8, 1.0)}, "link must be a name or a function here"),
        ({"link": "sign", "outputs": 2}, "problem must have outputs = 1 here, got 2"),
    ],
)
def test_labels_that_cannot_be_probed_are_named(settings, message):
    problem = iclimit.Problem(dim=D, context=N, **settings)
    with pytest.raises(ValueError, match=message.replace("(", r"\(")):
        iclimit.probe(ridge, problem, test_prompts=50, baselines=["null"])


def test_files_of_prompts_have_links_that_can_be_stored(tmp_path):
    write_prompts(tmp_path / "classes.npz", PromptFile(CLASSES, 40, 0, False))
    assert read_prompts(tmp_path / "classes.npz").problem == CLASSES
    with pytest.raises(ValueError, match="link must be a name in a file of prompts, got the"):
        PromptFile(iclimit.Problem(D, N, link=np.tanh), 40, 0, False)
    table = [{"examples": 4, "error": 1.0, "error_se": 0.1}]
    with pytest.raises(ValueError, match="problem must have link = identity here, got 'sign'"):
        iclimit.validation.check_positions(table, iclimit.Problem(D, N, link="sign"))


def test_features_and_intercepts_are_written_out():
    """By loops over prompts and pairs; ridge regression by its normal equations."""
    problem = iclimit.Problem(D, N, tasks=TASKS + 1.0, noise_variance=0.25, scale=1)
    prompts = drawn(problem, 6)
    rows = {each.name: each for each in families(problem)}
    examples = Examples(prompts, problem)

    def attention(index, feature, normalised):
        keys = [[feature(v) for v in x] for x in prompts.inputs[index]]
        query = [feature(v) for v in prompts.query[index]]
        weights = [sum(a * b for a, b in zip(key, query, strict=True)) for key in keys]
        total = sum(w * y for w, y in zip(weights, prompts.labels[index], strict=True))
        return total / (sum(weights) or 1.0) if normalised else total / N

    for normalised in (0, 1):
        elu = rows["elu_attention"].answer(examples, normalised=normalised, feature_scale=1.5)
        relu = rows["relu_attention"].answer(examples, normalised=normalised)
        for index in range(6):
            expected = attention(
                index, lambda v: 1.5 * v + 1 if v > 0 else math.exp(1.5 * v), normalised
            )
            assert elu[index] == pytest.approx(expected, rel=1e-12)
            expected = attention(index, lambda v: max(v, 0.0), normalised)
            assert relu[index] == pytest.approx(expected, rel=1e-12, abs=1e-12)

    intercept = rows["intercept_ridge"].answer(examples, penalty=2.0)
    towards = rows["mean_ridge"].answer(examples, penalty=2.0)
    mean = np.mean(problem.task_set, axis=0)
    for index in range(6):
        x, y, q = prompts.inputs[index], prompts.labels[index], prompts.query[index]
        design = np.hstack([x, np.ones((N, 1))])
        penalty = np.diag([2.0] * D + [0.0])
        weights = np.linalg.solve(design.T @ design + penalty, design.T @ y)
        assert intercept[index] == pytest.approx(np.append(q, 1) @ weights, rel=1e-9)
        # The mean of a Gaussian posterior of precision X'X and 2 around the mean.
        weights = np.linalg.solve(x.T @ x + 2 * np.eye(D), x.T @ y + 2 * mean)
        assert towards[index] == pytest.approx(q @ weights, rel=1e-9)


def test_queries_without_positive_parts_get_zero():
    problem = iclimit.Problem(2, 3)
    row = next(each for each in families(problem) if each.name == "relu_attention")
    prompts = Prompts(np.ones((1, 3, 2)), np.ones((1, 3)), -np.ones((1, 2)))
    assert row.answer(Examples(prompts, problem), normalised=1) == 0
