"""Points of structured data: covariances, cells, and the best context of training."""

from dataclasses import replace

import numpy as np
import pytest

from iclimit.validation.claims.pretraining import alignment, structured_context, structured_tests
from iclimit.validation.claims.pretraining.structured_points import SIZES, covariances


def test_covariances_by_hand():
    found = covariances(16, "atoms:0,2", "reversed", "uniform:0,2", "reversed")
    np.testing.assert_allclose(found["task_covariance"], [0] * 8 + [2] * 8)
    np.testing.assert_allclose(found["test_covariance"], [2] * 8 + [0] * 8)
    levels = np.repeat((np.arange(8) + 0.5) / 4, 2)
    np.testing.assert_allclose(found["input_covariance"], levels[::-1])
    strongest = covariances(8, "powerlaw:0.9", "strongest", "isotropic", "same")
    np.testing.assert_allclose(strongest["test_covariance"], [0] * 7 + [8])
    assert strongest["input_covariance"] is None
    rotated = covariances(16, "isotropic", "aligned", "uniform:0,2", "rotated")
    np.testing.assert_allclose(np.linalg.eigvalsh(rotated["input_covariance"]), levels)
    assert np.max(np.abs(np.triu(rotated["input_covariance"], 1))) > 0.1


def test_spikes_have_the_limit_of_their_level():
    """All variance in one direction, or spread over the eigenvectors of that eigenvalue."""
    point = replace(structured_tests.POWER_LAW, test="strongest")
    law = point.spectrum
    assert law.weight @ law.test == pytest.approx(1)
    assert law.test[np.argmax(law.task)] == pytest.approx(8)


def test_best_training_context_is_a_minimum():
    best = structured_context.best_training_context(structured_context.FEW)
    assert best < 8
    errors = [replace(structured_context.FEW, alpha=best * f).limit.icl for f in (0.9, 1.0, 1.1)]
    assert min(errors) == errors[1]


def test_roots_of_the_resolvent():
    """One eigenvalue: the resolvent of the Marchenko-Pastur law."""
    x = 0.7
    kappa = 1.5
    equation = alignment.derive_resolvent().steps[2][1]
    roots = alignment.real_roots(equation, "M", {"x": x, "kappa": kappa})
    a = x / kappa
    b = x + 1 - 1 / kappa
    assert max(roots) == pytest.approx((-b + np.sqrt(b**2 + 4 * a)) / (2 * a), rel=1e-12)


def test_sizes_are_multiples_of_the_levels():
    assert all(d % 8 == 0 for sizes in SIZES.values() for d in sizes)
