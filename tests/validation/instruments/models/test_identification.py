"""Verdicts on predictors whose algorithm is known."""

from functools import cache

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.prompts import sample_prompts
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.baselines import baselines
from iclimit.validation.instruments.models.identification import identify
from iclimit.validation.instruments.models.ladder import ladder
from iclimit.validation.instruments.models.mixtures import best_mixture
from iclimit.validation.instruments.models.model import Answers

PROBLEM = Problem(dim=8, context=20, noise_variance=0.25, scale=1)
DRAWN = sample_prompts(PROBLEM, 4000, rng=3)


@cache
def known_baselines():
    return baselines(PROBLEM)


@cache
def known_answers():
    return {each.name: each.predict(DRAWN) for each in known_baselines()}


@cache
def common_noise():
    scale = np.std(known_answers()["ridge"])
    return scale * np.random.default_rng(0).standard_normal(len(DRAWN))


def smoother(_):
    """Nadaraya-Watson: one softmax head without training."""
    scores = np.vecdot(DRAWN.inputs, DRAWN.query[:, None, :]) / np.sqrt(PROBLEM.dim)
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return np.sum(weights * DRAWN.labels, axis=1) / np.sum(weights, axis=1)


def asked(predictor):
    return Answers(
        "fresh", predictor(known_answers()), known_answers(), DRAWN.target, DRAWN.noise_variance
    )


def test_every_algorithm_is_found_through_noise():
    for name in known_answers().keys() - {"null"}:
        found = identify(asked(lambda known, name=name: known[name] + 0.04 * common_noise()))
        assert (found.kind, found.names) == ("algorithm", (name,))
        assert abs(found[name].factor_z) < 4, name
        assert found[name].unexplained.mean < 0.01, name


def test_a_headline_is_graded():
    """What it is like, how much of its answers that explains, and how much worse it is."""
    predictions = asked(lambda known: known["ridge"] + 0.5 * common_noise())
    found = identify(predictions)
    distance = np.mean((predictions.model - known_answers()["ridge"]) ** 2)
    explained = 100 * (1 - distance / np.mean(predictions.model**2))
    first, second = found.sentences
    assert first.startswith("It is like ridge regression with the best penalty, which explains ")
    assert float(first.split("explains ")[1].split("(")[0]) == pytest.approx(explained, abs=0.6)
    errors = (predictions.model - DRAWN.target) ** 2 + DRAWN.noise_variance
    stated = float(second.split("error is ")[1].split("(")[0])
    assert stated == pytest.approx(np.mean(errors), abs=0.06)
    assert ", more than the " in second
    assert not found.holds


def test_a_headline_speaks_for_both_laws_of_tasks():
    junk = asked(lambda _: common_noise())
    step = asked(lambda known: known["one_step"])
    found = identify(junk, pretraining=step)
    assert found.kind == "none"
    assert found.pretraining is not None
    assert found.pretraining.names == ("one_step",)
    assert found.sentence.startswith("On its own tasks it is one gradient step")
    assert "On fresh tasks it is none of these algorithms" in found.sentence
    both = identify(step, pretraining=step)
    assert both.sentence.startswith("On fresh tasks it is one gradient step")
    assert "On its own tasks it is one gradient step" in both.sentence


def test_verdicts():
    for predictor, kind, names in (
        (lambda known: known["one_step"], "algorithm", {"one_step"}),
        (
            lambda known: 0.5 * (known["ridge"] + known["one_step"]),
            "mixture",
            {"ridge", "one_step"},
        ),
        (lambda known: 1.3 * known["ridge"] + 0.05 * common_noise(), "mixture", {"ridge"}),
        (lambda known: 0.05 * known["ridge"], "null", {"null"}),
        (lambda known: known["ridge"] + 0.5 * common_noise(), "like", {"ridge"}),
        (lambda known: known["ridge"] + 1.5 * common_noise(), "none", set()),
        (lambda _: common_noise(), "none", set()),
        (smoother, "like", {"softmax_1"}),
    ):
        found = identify(asked(predictor))
        assert (found.kind, set(found.names)) == (kind, names)


def test_what_is_between_two_algorithms_is_told_from_neither():
    noise = 0.05 * common_noise()
    between = identify(asked(lambda k: 0.5 * (k["ridge"] + k["least_squares"]) + noise))
    assert between.kind == "ambiguous"
    assert set(between.names) == {"ridge", "least_squares"}
    assert "cannot tell" in between.sentence


def test_few_prompts_leave_the_verdict_open():
    few = Answers(
        "fresh",
        (known_answers()["ridge"] + 0.1 * common_noise())[:50],
        {"ridge": known_answers()["ridge"][:50]},
        DRAWN.target[:50],
        DRAWN.noise_variance[:50],
    )
    assert identify(few).kind == "undecided"


def test_another_rate_is_noticed_within_the_tolerance():
    found = identify(asked(lambda known: 1.02 * known["one_step"] + 0.05 * common_noise()))
    assert found.kind == "algorithm"
    assert found["one_step"].factor_z > 5
    assert "which is not 1" in found.sentence


def test_a_small_admixture_is_noticed_within_the_tolerance():
    found = identify(
        asked(lambda k: 0.9 * k["ridge"] + 0.1 * k["one_step"] + 0.03 * common_noise())
    )
    assert found.names == ("ridge",)
    weights = {term.name: term.weight for term in found.mixture.terms}
    assert abs(weights["one_step"].z(0.1)) < 4
    assert abs(weights["ridge"].z(0.9)) < 4
    assert "still nearer is" in found.sentence


def test_equal_answers_are_told_from_all_others_by_few_prompts():
    """Where next to nothing is left, others are further away, however few the prompts."""
    cut = {name: answers[:60] for name, answers in known_answers().items()}
    alone = best_mixture(0.75 * cut["one_step"], cut)
    assert (str(alone), alone.alternatives) == ("0.75 one_step", ())
    half = best_mixture((0.75 * cut["one_step"]).astype(np.float16).astype(float), cut)
    assert (half.names, half.alternatives) == (("one_step",), ())
    model = cut["ridge"]
    answers = Answers("fresh", model, cut, DRAWN.target[:60], DRAWN.noise_variance[:60])
    assert identify(answers).names == ("ridge",)


def test_single_precision_is_shown_as_equality():
    answers = asked(lambda known: known["ridge"].astype(np.float32).astype(float))
    found = identify(answers)
    assert found.sentence.startswith(
        "It is ridge regression with the best penalty: it leaves 0 % of the mean square "
        "unexplained. Within the tolerance of 1 %, too: 3 layers of GD++"
    )


def test_proportional_algorithms_count_once_in_a_mixture():
    """Averaging is a step at another rate: only one of the two can have a weight."""
    mixture = best_mixture(1.2 * known_answers()["one_step"], known_answers())
    assert mixture.names == ("one_step",)
    assert mixture.terms[0].weight.mean == pytest.approx(1.2)
    assert not mixture.alternatives


def test_algorithms_with_the_same_answers_are_named_together():
    twins = {"one_step": known_answers()["one_step"], "twin": known_answers()["one_step"] + 0.0}
    answers = Answers("fresh", twins["twin"], twins, DRAWN.target, DRAWN.noise_variance)
    found = identify(answers)
    assert found.likenesses[0].label == "one_step = twin"
    assert found["twin"] is found["one_step"]


def test_ladder_pairs_the_errors_and_checks_itself():
    """Differences of errors by hand, and exact errors of the algorithms within four errors."""
    found = ladder(asked(lambda known: known["ridge"]), known_baselines())
    errors = {name: (each - DRAWN.target) ** 2 + 0.25 for name, each in known_answers().items()}
    for rung in found.rungs:
        difference = errors["ridge"] - errors[rung.name]
        assert rung.difference.mean == pytest.approx(np.mean(difference))
        spread = np.std(difference, ddof=1) / np.sqrt(len(DRAWN))
        assert rung.difference.standard_error == pytest.approx(spread)
        assert np.isnan(rung.theory_z) or abs(rung.theory_z) < 4
    assert found["ridge"].z == 0
    value = sorted((float(np.mean(each)) for each in errors.values()), reverse=True)
    assert [rung.error.mean for rung in found.rungs] == value


def test_unknown_losses_and_other_tasks_have_no_theory():
    answers = asked(lambda known: known["ridge"])
    other = Answers("pretraining", *list(vars(answers).values())[1:])
    assert all(np.isnan(rung.theory) for rung in ladder(other, known_baselines()).rungs)
    plain = [Baseline("ridge", "", known_baselines()[-1].predict)]
    assert np.isnan(ladder(answers, plain)["ridge"].theory)


def test_statements_are_as_sure_as_they_say():
    """Over samples, the z of factor, distance and difference of errors are standard normal.

    Each sample is a part of the prompts.  The noise has a known variance.
    """
    parts = 100
    size = 200
    variance = 0.04
    drawn = sample_prompts(PROBLEM, parts * size, rng=8)
    rng = np.random.default_rng(9)
    two = [each for each in known_baselines() if each.name in ("ridge", "one_step")]
    known = {each.name: each.predict(drawn) for each in two}
    model = known["ridge"] + np.sqrt(variance) * rng.standard_normal(len(drawn))
    kinds = [[], [], []]
    for number in range(parts):
        rows = slice(number * size, (number + 1) * size)
        few = {name: each[rows] for name, each in known.items()}
        of_prompts = drawn.target[rows], drawn.noise_variance[rows]
        answers = Answers("fresh", model[rows], few, *of_prompts)
        found = identify(answers)["ridge"]
        rung = ladder(answers, two)["ridge"]
        zs = found.factor_z, found.distance.z(variance), rung.difference.z(variance)
        for z, kind in zip(zs, kinds, strict=True):
            kind.append(z)
    # Four standard errors of a mean over the parts, and of a width.
    for kind in kinds:
        assert abs(np.mean(kind)) < 4 / np.sqrt(parts)
        assert abs(np.std(kind) - 1) < 4 / np.sqrt(2 * parts)
