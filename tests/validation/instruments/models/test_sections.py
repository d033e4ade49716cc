"""What a model is asked: prompts that differ from fresh ones in one thing."""

from dataclasses import replace

import numpy as np
import pytest
from prompt_arrays import arrays_of
from sampled_means import assert_mean

from iclimit.problem import Problem
from iclimit.simulate.prompts import Prompts, sample_prompts
from iclimit.validation.instruments.models.problem_units import ProblemUnits
from iclimit.validation.instruments.models.sections import STEP, central_differences, plan_sections

COVARIANCE = np.array([0.2, 1.5, 0.5])
PROBLEM = Problem(
    dim=3,
    context=4,
    noise_variance=0.3,
    input_covariance=COVARIANCE,
    task_covariance=np.diag(COVARIANCE) + 0.1,
    tasks=np.eye(3),
    scale=1,
)


@pytest.fixture(autouse=True, scope="module")
def small_blocks():
    """Blocks of 32 KiB numbers, for a block is drawn whole."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("iclimit.simulate.prompts.sampling.BLOCK_NUMBERS", 2**15)
        yield


def planned(problem=PROBLEM, test_prompts=300):
    plan = plan_sections(problem, test_prompts=test_prompts, rng=4, context_lengths=True)
    return {section.name: section for section in plan}


def prompts_of(section):
    blocks = list(section.blocks())
    return Prompts(
        **{
            name: np.concatenate([getattr(block, name) for block in blocks])
            for name in arrays_of(blocks[0])
        }
    )


@pytest.fixture(scope="module")
def asked():
    return {name: prompts_of(section) for name, section in planned().items()}


def differing(first, second):
    """Names of the arrays of which the first prompts differ."""
    count = min(len(first), len(second))
    return {
        name
        for name, values in arrays_of(first).items()
        if not np.array_equal(values[:count], getattr(second, name)[:count])
    }


def test_sections_that_say_nothing_are_left_out():
    plain = {
        each.name for each in plan_sections(Problem(dim=2, context=1, scale=1), test_prompts=10)
    }
    full = set(planned())
    assert full - plain == {
        *("pretraining", "noise:none", "noise:fourfold", "context:half", "context:double"),
        *(f"{what}s:{how}" for what in ("input", "task") for how in ("reversed", "rotated")),
    }
    assert plain - full == {"noise:added"}
    one = plan_sections(Problem(dim=2, context=1, scale=1), test_prompts=10, context_lengths=True)
    assert "context:half" not in {each.name for each in one}


def test_each_section_changes_one_thing(asked):
    found = {name: differing(asked["fresh"], drawn) for name, drawn in asked.items()}
    assert found["fresh"] == set()
    assert found["permuted"] == {"inputs", "labels"}
    for name in ("other", "sum", "zero"):
        assert found[f"labels:{name}"] == {"labels", "query_label", "tasks"}
    for how in ("half", "double", "reversed", "rotated"):
        assert found[f"inputs:{how}"] == {"inputs", "labels", "query", "query_label"}
        assert found[f"tasks:{how}"] == {"labels", "query_label", "tasks"}
    for how in ("none", "fourfold"):
        assert found[f"noise:{how}"] == {"labels", "query_label", "noise_variance"}


def test_prompts_of_shifts(asked):
    fresh = asked["fresh"]

    def noise(name):
        drawn = asked[name]
        return drawn.labels - np.einsum("nlk,nk->nl", drawn.inputs, drawn.tasks)

    count = len(asked["noise:none"])
    for name, factor in (("half", 0.5), ("double", 2)):
        assert np.allclose(asked[f"inputs:{name}"].inputs, factor * fresh.inputs[:count])
        assert np.allclose(asked[f"inputs:{name}"].query, factor * fresh.query[:count])
        assert np.allclose(asked[f"tasks:{name}"].tasks, factor * fresh.tasks[:count])
        assert np.allclose(noise(f"tasks:{name}"), noise("fresh")[:count])
    assert np.allclose(noise("noise:fourfold"), 2 * noise("fresh")[:count])
    assert np.allclose(noise("noise:none"), 0)
    assert asked["context:half"].inputs.shape == (count, 2, 3)
    assert asked["context:double"].inputs.shape == (count, 8, 3)


def test_covariances_of_shifts():
    plan = planned()
    diagonal = plan["inputs:reversed"].problem.input_covariance
    assert np.array_equal(diagonal, [1.5, 0.2, 0.5])
    reversed_tasks = plan["tasks:reversed"].problem.task_covariance
    values, basis = np.linalg.eigh(PROBLEM.task_covariance)
    for k in range(3):
        assert np.allclose(reversed_tasks @ basis[:, k], values[-1 - k] * basis[:, k])
    for what, before in (("input", np.diag(COVARIANCE)), ("task", PROBLEM.task_covariance)):
        after = getattr(plan[f"{what}s:rotated"].problem, f"{what}_covariance")
        assert np.allclose(np.linalg.eigvalsh(after), np.linalg.eigvalsh(before))
        assert np.max(np.abs(after - before)) > 0.1


def test_noise_that_is_added_is_a_quarter_of_the_labels():
    problem = Problem(
        dim=3, context=2, scale=0.5, input_law="laplace", input_covariance=COVARIANCE
    )
    drawn = sample_prompts(problem, 20_000, rng=0)
    assert_mean(drawn.labels**2, ProblemUnits(problem).signal)
    shifted = planned(problem)["noise:added"].problem
    assert shifted.noise_variance == pytest.approx(ProblemUnits(problem).signal / 4, rel=5e-3)
    levels = planned(replace(problem, noise_law="categorical:0,2"))["noise:fourfold"].problem
    assert str(levels.noise_law) == "categorical:0,4"


def test_pairs_in_another_order(asked):
    fresh = asked["fresh"]
    permuted = asked["permuted"]
    pairs = [np.concatenate([d.inputs, d.labels[..., None]], axis=2) for d in (fresh, permuted)]
    for before, after in zip(*pairs, strict=False):
        assert sorted(map(tuple, before)) == sorted(map(tuple, after))
    first = np.argmax(np.all(pairs[1] == pairs[0][: len(permuted), :1], axis=2), axis=1)
    assert_mean(first[:, None] == np.arange(4), 1 / 4)


def test_labels_of_another_task(asked):
    fresh, other, both, zero = (
        asked[name] for name in ("fresh", "labels:other", "labels:sum", "labels:zero")
    )
    count = len(other)
    assert np.array_equal(both.labels, fresh.labels[:count] + other.labels)
    assert np.allclose(both.target, fresh.target[:count] + other.target)
    assert not np.any(zero.labels)
    assert not np.any(zero.tasks)
    noise = other.labels - np.einsum("nlk,nk->nl", other.inputs, other.tasks)
    assert_mean(noise**2, 0.3)
    assert_mean(fresh.tasks[:count, :, None] * other.tasks[:, None, :], 0)


def test_errors_of_finite_differences_are_as_stated(asked):
    """Of the sum of sines of all labels and query coordinates, each over its root mean square."""
    plan = planned()
    scales = {what: plan[f"{what}:plus"].step / STEP for what in ("query", "labels")}

    def answer(drawn, kind):
        sines = [np.sin(getattr(drawn, what).astype(kind) / kind(s)) for what, s in scales.items()]
        return np.sum(np.concatenate(sines, axis=1), axis=1)

    for what, scale in scales.items():
        section = plan[f"{what}:plus"]
        before = getattr(asked["fresh"], what)[: section.drawn]
        assert scale == pytest.approx(np.sqrt(np.mean(before**2)), rel=0.3)
        exact = np.cos(before / scale) / scale
        for kind, rounding in ((np.float64, 1e-12), (np.float32, 1e-6 / STEP)):
            plus, minus = (answer(asked[f"{what}:{side}"], kind) for side in ("plus", "minus"))
            found = central_differences(plus, minus, section) * scale
            assert np.max(np.abs(found - (1 - STEP**2 / 6) * exact * scale)) < rounding + STEP**4


def test_a_longer_run_extends_a_shorter_one():
    problem = Problem(dim=20, context=40, noise_variance=0.1, tasks=np.eye(20), scale=1)
    short = planned(problem, 10)
    long = planned(problem, 20_000)
    for name, section in short.items():
        drawn = prompts_of(section)
        first = next(iter(long[name].blocks()))
        if section.variants == 1:
            assert len(first) > len(drawn), name
            assert not differing(drawn, first), name


def test_blocks_are_of_bounded_memory_and_the_same_again():
    for name, size in (
        *((name, (40, 20)) for name in ("fresh", "permuted", "labels:plus", "labels:sum")),
        ("labels:plus", (200, 50)),
    ):
        section = planned(Problem(*size[::-1], scale=1), 3000)[name]
        blocks = list(section.blocks())
        assert sum(map(len, blocks)) == len(section)
        assert max(block.inputs.nbytes for block in blocks) <= 2**22
        for first, second in zip(blocks, section.blocks(), strict=True):
            assert not differing(first, second)


def test_numbers_that_single_precision_cannot_square():
    for wrong, message in (
        ({"scale": 1e160}, "scale of a problem must be 0 or from 1e-12 to 1e"),
        ({"scale": 1e-200}, r"scale of .*, got 1e-200"),
        ({"task_variance": 1e300}, "task_variance of"),
        ({"noise_variance": 1e20}, "noise_variance of"),
        ({"noise_law": "uniform:1e100"}, "noise_variance of"),
        ({"tasks": np.full((2, 3), -1e20)}, "tasks of .*, got 1e"),
        ({"input_covariance": np.full(3, 1e-30)}, "input_covariance of"),
    ):
        with pytest.raises(ValueError, match=message):
            plan_sections(Problem(3, 4, **{"scale": 1} | wrong), test_prompts=5)


def test_sensitivities_of_large_problems_are_of_fewer_prompts():
    for size, drawn in (((40, 20), 50), ((120, 80), 20), ((900, 100), 10)):
        plan = planned(Problem(*size[::-1], scale=1))
        for name, variants in (("query", size[1]), ("labels", size[0])):
            for side in ("plus", "minus"):
                section = plan[f"{name}:{side}"]
                assert (section.drawn, section.variants) == (drawn, variants)


def test_the_smallest_problem(monkeypatch):
    monkeypatch.setattr("iclimit.simulate.prompts.sampling.BLOCK_NUMBERS", 6)
    for section in planned(Problem(dim=1, context=1, scale=1), 10).values():
        blocks = list(section.blocks())
        assert sum(map(len, blocks)) == len(section) == 10
        assert max(map(len, blocks)) == 3 or section.name == "context:double"


def test_seeds_tell_prompts_apart(asked):
    again = plan_sections(PROBLEM, test_prompts=300, rng=5)
    assert differing(prompts_of(again[0]), asked["fresh"]) >= {"inputs", "labels", "query"}
    generator = plan_sections(PROBLEM, test_prompts=30, rng=np.random.default_rng(1))[0]
    assert len(prompts_of(generator)) == 30
    with pytest.raises(ValueError, match="test_prompts must be an integer >= 1, got 0"):
        plan_sections(PROBLEM, test_prompts=0)
