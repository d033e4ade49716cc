"""The law of prompts as data: parsing, units, the limit."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import type_error, value_error

import iclimit
from iclimit.notation import ratios_of, sizes_of
from iclimit.problem import NoiseLaw, Problem, check_problem, parse_problem
from iclimit.simulate.prompts import sample_prompts
from iclimit.units import CONVENTIONS

COVARIANCE = np.array([[1.0, 0.3], [0.3, 0.5]])
SHARED = np.array([0.8, -1.1])


def test_noise_laws():
    for text, kind, levels, mean_variance in (
        ("fixed:0", "fixed", (0.0,), 0.0),
        ("fixed:2", "fixed", (2.0,), 4.0),
        ("uniform: 1e-3", "uniform", (1e-3,), 1e-6 / 3),
        ("categorical:1,3", "categorical", (1.0, 3.0), 5.0),
        ("categorical:1,1,4", "categorical", (1.0, 1.0, 4.0), 6.0),
        ("fixed:1e100", "fixed", (1e100,), 1e200),
    ):
        law = NoiseLaw.parse(text)
        assert (law.kind, law.levels) == (kind, levels)
        assert law.mean_variance == pytest.approx(mean_variance, rel=1e-15)
        assert NoiseLaw.parse(law) is law
        assert Problem(2, 3, noise_law=text).noise_law == law
        assert law.times(0.5).mean_variance == pytest.approx(mean_variance / 4)


@given(
    st.sampled_from(["fixed", "uniform", "categorical"]),
    st.lists(st.floats(0, 1e100), min_size=1, max_size=4),
)
def test_text_keeps_every_digit(kind, levels):
    law = NoiseLaw(kind, tuple(levels if kind == "categorical" else levels[:1]))
    assert NoiseLaw.parse(str(law)) == law


def test_text_is_as_given():
    for text in ("fixed:1", "uniform:0.25", "categorical:1,3,5", "fixed:1.23456789", "fixed:0"):
        assert str(NoiseLaw.parse(text)) == text


WRONG_LAWS = (
    *("", ":", "fixed", "fixed:", "fixed:-1", "fixed:nan", "fixed:inf", "fixed:1e101", "1"),
    *("fixed:1,2", "fixed:1:2", "uniform:1,2", "uniform:x", "categorical:"),
    *("categorical:1,", "categorical:,1", "categorical:1,-2", "gauss:1", "FIXED:1", 1.0),
    *(["fixed", 1], b"fixed:1"),
)


def test_wrong_noise_laws():
    for wrong in WRONG_LAWS:
        with pytest.raises(ValueError, match=r"^noise_law must be fixed:SIGMA, .* got ") as caught:
            Problem(2, 3, noise_law=wrong)
        assert str(caught.value).endswith(f"got {wrong!r}")
        value_error("noise_law must be fixed:SIGMA", NoiseLaw, "fixed", ())


SYMMETRIC = "input_covariance must be symmetric"


def test_wrong_arguments_are_named():
    for changes, message in (
        ({"tasks": 0}, "tasks must be an integer >= 1, or inf, got 0"),
        ({"tasks": np.ones((3, 4))}, r"tasks must have shape \(any, 2\)"),
        ({"input_law": "cauchy"}, "input_law must be one of gaussian, .*, got 'cauchy'"),
        ({"task_law": "cube"}, "task_law must be one of sphere, gaussian, got 'cube'"),
        ({"noise_law": "fixed:1", "noise_variance": 1.0}, "noise_law must be None where"),
        ({"mixing": np.eye(3)}, r"mixing must have shape \(2, 2\), got \(3, 3\)"),
        ({"mixing": np.full((2, 2), math.nan)}, "mixing must be finite"),
        ({"mixing": np.eye(2), "input_covariance": np.eye(2)}, "input_covariance must be None"),
        ({"input_covariance": 1.0}, r"input_covariance must have shape .* got \(\)"),
        ({"input_covariance": np.ones((2, 3))}, r"or \(2, 2\), got \(2, 3\)"),
        ({"input_covariance": [[1, 0.1], [0, 1]]}, SYMMETRIC),
        ({"input_covariance": [[1e-12, 1e-13], [0, 1e-12]]}, SYMMETRIC),
        ({"task_covariance": [[1, 2], [2, 1]]}, "task_covariance must have eigenvalues >= 0"),
        ({"input_covariance": [1, math.nan]}, "input_covariance must be finite, got NaN or inf"),
        ({"fresh_fraction": 0.5}, "shared_task must be given for fresh_fraction below 1, and"),
        ({"shared_task": SHARED}, r"and only then, got array.* with fresh_fraction = 1.0"),
        ({"fresh_fraction": 0, "shared_task": [1.0]}, r"shared_task must have shape \(2,\)"),
        ({"fresh_fraction": 0, "shared_task": [0, 0]}, "labels other than zero"),
        ({"drift": -1.0}, "drift must be >= 0 and finite, got -1.0"),
        ({"correlation": 1.0}, "correlation must be > -1 and < 1, got 1.0"),
        ({"correlation": 0.5, "input_law": "uniform"}, "input_law must be gaussian for corr"),
        ({"correlation": [1, 0.5], "input_law": "laplace"}, "input_law must be gaussian for corr"),
        ({"correlation": [0.5]}, "correlation must be a number or begin with 1, that of a token"),
        ({"correlation": [1, 0.8]}, "correlation must have no negative eigenvalue over 3 tokens"),
        ({"correlation": [1, -2]}, "correlation must be from -1 to 1, got -2.0"),
        ({"correlation": []}, "correlation must have shape"),
        ({"correlation": "ar"}, "correlation must be > -1 and < 1, got 'ar'"),
    ):
        value_error(message, Problem, **{"dim": 2, "context": 3} | changes)


def test_a_problem_keeps_copies():
    covariance = COVARIANCE.copy()
    task = SHARED.copy()
    problem = Problem(
        2, 3, input_covariance=covariance, fresh_fraction=0.5, shared_task=task, scale=1
    )
    covariance[:] = 7
    task[:] = 7
    np.testing.assert_array_equal(problem.input_covariance, COVARIANCE)
    np.testing.assert_array_equal(problem.shared_task, SHARED)


def test_correlations_by_distance():
    """They may be those of any number of tokens, and lists without any are none."""
    kernel = np.array([1, 0.6, 0.2])
    problem = Problem(2, 2, correlation=kernel)
    kernel[1] = 7
    assert problem.kernel.tolist() == [1, 0.6]
    longer = replace(problem, context=4, correlated_query=True)
    assert longer.kernel.tolist() == [1, 0.6, 0.2, 0, 0]
    assert longer.is_correlated
    assert Problem(**longer.describe()) == longer != problem
    assert Problem(2, 3, correlation=[1.0, 0.0]) == Problem(2, 3)
    np.testing.assert_array_equal(Problem(2, 3, correlation=-0.5).kernel, [1, -0.5, 0.25])


VARIANCES = {"gaussian": 1, "uniform": 1 / 3, "rademacher": 1, "laplace": 2}


def test_units_of_the_library():
    """Inputs of variance 1/d by default, and as their law has them at scale 1."""
    for law in VARIANCES:
        unit, plain = (Problem(5, 3, input_law=law, scale=scale) for scale in (None, 1))
        assert unit.input_variance == 1 / 5
        assert unit.input_scale**2 * VARIANCES[law] == pytest.approx(1 / 5)
        assert unit.label_square == pytest.approx(1)
        assert plain.input_variance == VARIANCES[law]
        np.testing.assert_allclose(plain.covariance_of_inputs, VARIANCES[law] * np.eye(5))


def test_covariances_and_the_mean_square_of_labels():
    T = np.array([[1.0, 0.5], [-0.3, 0.8]])
    problem = Problem(
        2, 3, mixing=T, scale=2, task_variance=3, task_covariance=[0.5, 1.5], noise_variance=0.4
    )
    np.testing.assert_allclose(problem.covariance_of_inputs, 4 * T @ T.T)
    np.testing.assert_allclose(problem.covariance_of_tasks, np.diag([1.5, 4.5]))
    trace = 4 * (1.25 * 1.5 + 0.73 * 4.5)
    assert problem.label_square == pytest.approx(trace + 0.4)
    mixed = Problem(
        *(2, 3), input_covariance=COVARIANCE, scale=1, fresh_fraction=0.25, shared_task=SHARED
    )
    own = 0.8**2 - 2 * 0.3 * 0.8 * 1.1 + 0.5 * 1.1**2
    assert mixed.label_square == pytest.approx(0.25 * 1.5 + 0.75 * own)
    assert mixed.with_fresh_tasks().label_square == pytest.approx(1.5)


def test_the_limit_has_what_is_defined():
    assert Problem(20, 10).limit == {"alpha": 0.5, "kappa": math.inf, "rho": 0.0}
    given_tasks = Problem(2, 4, tasks=np.ones((6, 2)), noise_law="categorical:1,3")
    expected = {"alpha": 2.0, "kappa": 3.0, "rho": 5.0}
    assert given_tasks.limit == pytest.approx(expected)
    assert ratios_of(10, {"test_context": 5}) == {"test_alpha": 0.5}
    assert sizes_of(10, {"test_alpha": 0.01}) == {"test_context": 1}


def test_the_units_of_a_paper():
    """The same law: the same limit and tasks, labels times a number."""
    for name in CONVENTIONS:
        law = {"input_law": "uniform", "noise_law": "categorical:0,1", "tasks": np.eye(4)[:2]}
        problem = Problem(4, 6, **law)
        moved = problem.in_units(name)
        assert moved.limit == pytest.approx(problem.limit)
        units = CONVENTIONS[name].units(dim=4, context=6)
        assert moved.input_variance == pytest.approx(units.value("input_variance"))
        labels = units.from_library("noise_variance", 1.0)
        assert moved.label_unit == pytest.approx(labels)
        assert moved.mean_noise_variance == pytest.approx(labels / 2)
        factor = math.sqrt(moved.input_variance * 4), math.sqrt(moved.task_variance)
        drawn, scaled = (sample_prompts(each, 10, rng=0) for each in (problem, moved))
        np.testing.assert_allclose(scaled.inputs, factor[0] * drawn.inputs)
        np.testing.assert_allclose(scaled.tasks, factor[1] * drawn.tasks)
        np.testing.assert_allclose(scaled.labels, factor[0] * factor[1] * drawn.labels)
        back = moved.in_units("lu2025")
        assert (back.input_scale, back.label_unit) == pytest.approx((problem.input_scale, 1))
        own = Problem.of_paper(name, dim=4, context=6)
        assert own.input_variance == pytest.approx(moved.input_variance)
        with pytest.raises(ValueError, match="scale must not be given with units of"):
            Problem.of_paper(name, dim=4, context=6, scale=1)


def test_description_rebuilds_the_problem():
    problem = Problem(
        2, 3, tasks=np.ones((4, 2)), noise_law="uniform:2", task_covariance=COVARIANCE
    )
    content = problem.describe()
    assert content["noise_law"] == "uniform:2"
    again = Problem(**content)
    assert again.describe() == content
    assert Problem(2, 3).describe() == {"dim": 2, "context": 3}
    assert repr(Problem(2, 3, task_variance=2)) == "Problem(dim=2, context=3, task_variance=2)"


def test_functions_say_what_they_do_not_understand():
    problem = Problem(2, 3, noise_variance=0.1)
    check_problem(problem, "noise_variance")
    value_error(r"problem must have noise_variance = 0.0 here, got 0.1", check_problem, problem)
    type_error("problem must be a Problem, got 3", check_problem, 3)
    assert parse_problem(problem) is problem
    assert parse_problem(None, dim=2, context=3).scale == 1
    type_error("dim must not be given beside a problem", parse_problem, problem, dim=2)
    with pytest.raises(TypeError, match=r"Problem takes dim, context, .*, got 'contex'; did you"):
        iclimit.Problem(dim=2, contex=3)
