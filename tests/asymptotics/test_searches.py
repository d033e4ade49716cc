"""Roots of few problems and of many, which are found by the same steps."""

import numpy as np
import pytest

from iclimit.asymptotics.numbers import numpy_namespace
from iclimit.asymptotics.searches import find_root

# Roots of e^x = c are known to rounding; those that are steep far away take most steps.
SIZES = np.logspace(-8, 8, 60)


def search(sizes, function=lambda x, size: np.exp(x) - size, low=-40.0, high=40.0):
    math_ = numpy_namespace({"size": sizes})
    return find_root(math_, function, (low, high), {"size": sizes}, "exponent")


def test_few_roots_are_those_of_many():
    few = search(SIZES)
    np.testing.assert_allclose(few, np.log(SIZES), rtol=3e-15, atol=3e-15)
    many = search(np.tile(SIZES, 100))
    np.testing.assert_array_equal(few, many[: len(few)])


def test_a_root_that_is_met_exactly_is_kept():
    found = search(np.array([0.0, 0.3]), lambda x, size: x**3 - size**3, -1.0, 1.0)
    np.testing.assert_allclose(found, [0, 0.3], atol=1e-15)


def test_what_has_no_root_in_its_bracket_is_said():
    with pytest.raises(ArithmeticError, match="the exponent was not solved at size=-1"):
        search(np.array([1.0, -1.0, 2.0]))
