"""Effective linear labels of links, against mpmath's integrals and the numbers of the theory."""

import math

import mpmath
import numpy as np
import pytest
import sympy

from iclimit import Point, Problem, icl_error, idg_error, task_gap
from iclimit.asymptotics.pretraining.labels import label_moments, normal_mean
from iclimit.links import parse_link
from iclimit.pretraining import effective_labels

# Links with their functions in mpmath.
LINKS = {
    "identity": lambda z: z,
    "sign": mpmath.sign,
    "relu": lambda z: max(z, mpmath.mpf(0)),
    "cube": lambda z: z**3,
    "tanh": mpmath.tanh,
    "sin": mpmath.sin,
    ("sin", 3.0): lambda z: mpmath.sin(3 * z),
    ("tanh", 2.5): lambda z: mpmath.tanh(mpmath.mpf("2.5") * z),
}

# Relative error of moments that are found numerically.
ACCURACY = 1e-11

# Reference values of the limit: link, flips, rho, (tau, alpha, kappa, ridge), noise of the linear
# labels, ICL and IDG error.
VALUES = (
    ("sign", 0.0, 0.0, (2, 2, 2, 0.05), 0.570796, 1.193348, 1.049979),
    ("sign", 0.0, 0.0, (4, 4, 0.5, 0), 0.570796, 1.118645, 0.611098),
    ("sign", 0.1, 0.0, (2, 2, 2, 0.05), 1.454369, 1.435458, 1.334134),
    ("sign", 0.1, 0.0, (4, 4, 0.5, 0), 1.454369, 1.276586, 0.903800),
    ("relu", 0.0, 0.1, (2, 2, 2, 0.05), 1.400000, 0.797826, 0.742457),
    ("cube", 0.0, 0.0, (2, 2, 2, 0.05), 0.666667, 21.450496, 18.902856),
)
NAMES = ("tau", "alpha", "kappa", "ridge")


def normal_integral(function):
    """Mean over a normal variable in mpmath, piece by piece."""
    ends = [-12, -6, -3, -1, 0, 1, 3, 6, 12]
    return mpmath.quad(lambda z: function(z) * mpmath.npdf(z), ends)


@pytest.mark.parametrize("link", LINKS, ids=str)
def test_moments(link):
    g = LINKS[link]
    first = float(normal_integral(lambda z: z * g(z)))
    second = float(normal_integral(lambda z: g(z) ** 2))
    labels = effective_labels(link, 0.3, flips=0.2)
    assert labels.factor == pytest.approx((0.6 * first) ** 2, rel=ACCURACY)
    assert labels.rho == pytest.approx((second + 0.3) / (0.6 * first) ** 2 - 1, rel=1e-10)
    assert labels.ridge_factor * labels.factor == pytest.approx(1, rel=1e-15)
    moments = label_moments(link, 0.0, 0.0)
    fourth = float(normal_integral(lambda z: g(z) ** 4))
    assert moments.fourth * first**4 == pytest.approx(fourth, rel=1e-9)
    assert moments.third * first**3 == pytest.approx(
        float(normal_integral(lambda z: z * g(z) ** 3)), rel=1e-9
    )


@pytest.mark.parametrize(("link", "flips", "rho", "at", "noise", "icl", "idg"), VALUES)
def test_reference_values(link, flips, rho, at, noise, icl, idg):
    point = dict(zip(NAMES, at, strict=True)) | {"rho": rho, "link": link, "flips": flips}
    assert effective_labels(link, rho, flips=flips).rho == pytest.approx(noise, abs=5.1e-7)
    assert icl_error(**point) == pytest.approx(icl, abs=5.1e-7)
    assert idg_error(**point) == pytest.approx(idg, abs=5.1e-7)
    assert task_gap(**point) == pytest.approx(icl - idg, abs=1.1e-6)


def test_a_problem_states_link_and_plain_noise():
    problem = Problem(20, 40, tasks=40, link="sign", flips=0.1)
    assert problem.limit == {"alpha": 2, "kappa": 2, "rho": 0, "link": "sign", "flips": 0.1}
    error = icl_error(tau=2, **problem.limit, ridge=0.05)
    assert error == pytest.approx(1.435458, abs=5e-7)
    assert Problem(20, 40).limit == {"alpha": 2, "kappa": math.inf, "rho": 0}
    point = Point(tau=2, alpha=2, kappa=2, ridge=0.05, link=("sin", 3.0))
    assert point.at(20).problem.link == ("sin", 3.0)
    assert point.limit["link"] == parse_link(("sin", 3.0))


def test_factors_cannot_be_left_out():
    labels = effective_labels("sign")
    plain = icl_error(tau=2, alpha=2, kappa=2, rho=labels.rho, ridge=0.05)
    right = icl_error(tau=2, alpha=2, kappa=2, rho=0.0, ridge=0.05, link="sign")
    assert plain == pytest.approx(1.962, abs=2e-3)
    assert right == pytest.approx(1.193, abs=5e-4)


def test_a_function_and_two_moments_are_the_name():
    by_name = effective_labels("relu", 0.1)
    assert effective_labels(lambda z: np.maximum(z, 0), 0.1) == pytest.approx(by_name)
    assert effective_labels((0.5, 0.5), 0.1) == pytest.approx(by_name)
    assert effective_labels("sin:3") == effective_labels(("sin", 3.0))


def test_a_jump_away_from_zero():
    threshold = 0.37
    labels = effective_labels(lambda z: (z > threshold) * 1.0)
    density = math.exp(-(threshold**2) / 2) / math.sqrt(2 * math.pi)
    assert labels.factor == pytest.approx(density**2, rel=1e-7)


def test_identity_changes_no_digit():
    point = {"tau": [0.5, 2.0], "alpha": 1.0, "kappa": 0.5, "rho": 0.3, "ridge": 0.1}
    plain = icl_error(**point)
    assert np.array_equal(icl_error(**point, link="identity", flips=0.0), plain)
    # Flips of linear labels add the noise of labels that say nothing.
    flipped = icl_error(**point, flips=0.25)
    moments = icl_error(**point, link=(0.5, 1.0))
    assert flipped == pytest.approx(moments, rel=1e-14)


def test_number_systems():
    exact = effective_labels("sign", sympy.Rational(1, 10))
    assert exact.factor == 2 / sympy.pi
    with mpmath.workdps(40):
        labels = effective_labels("sin", mpmath.mpf(0))
        assert mpmath.almosteq(labels.factor, mpmath.exp(-1), 1e-38)
    with pytest.raises(TypeError, match="link must be a name other than tanh"):
        effective_labels("tanh", mpmath.mpf(0))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"link": "sgn"}, "link must be one of identity, sign.*did you mean sign"),
        ({"link": ("cube", 2.0)}, "a number > 0 for sin or tanh only"),
        ({"link": (2.0, 1.0)}, "second moment of at least the square"),
        ({"link": (True, True)}, "or a function, got .True, True."),
        ({"link": lambda _: 1.0}, "of the shape of its argument, .2,., got .."),
        ({"link": 3}, "link must be one of identity.*or a function, got 3"),
        ({"link": lambda z: z**2}, "learns nothing of such labels"),
        ({"link": "sign", "flips": 0.5}, "learns nothing of such labels"),
        ({"link": "sign", "flips": 1.5}, "flips must be from 0 to 1"),
        ({"link": "sign", "rho": -1}, "rho must be"),
    ],
)
def test_bad_labels(arguments, message):
    with pytest.raises(ValueError, match=message):
        effective_labels(**arguments)


@pytest.mark.parametrize("link", [lambda z: z + 1j, lambda _: "a"])
def test_functions_without_real_numbers(link):
    with pytest.raises(TypeError, match="link must return real numbers"):
        effective_labels(link)


def test_moments_that_are_infinite():
    with pytest.raises(ArithmeticError, match="not finite"):
        normal_mean(lambda z: np.exp(z**2), parse_link("sign"))


def test_a_linear_function_is_linear_labels():
    labels = effective_labels(lambda z: z)
    assert labels.rho == 0
    point = {"tau": 2, "alpha": 2, "kappa": 2, "rho": 0, "ridge": 0.1}
    assert icl_error(**point, link=lambda z: z) == pytest.approx(icl_error(**point), rel=1e-7)


@pytest.mark.parametrize("link", [lambda z: 1 / z, lambda z: np.abs(z) ** -0.6 * np.sign(z)])
def test_links_without_a_second_moment_are_refused(link):
    with pytest.raises(ArithmeticError, match="moments of the link function are not finite"):
        effective_labels(link)
