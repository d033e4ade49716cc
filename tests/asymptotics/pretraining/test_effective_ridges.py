"""Effective ridges along a contour solve their equation; the largest eigenvalue is a sample's."""

import math

import numpy as np
import pytest

from iclimit.asymptotics.pretraining.effective_ridges import followed_ridges, largest_eigenvalue
from iclimit.asymptotics.pretraining.training_contours import flow_contour


@pytest.mark.parametrize("share", [0.3, 2.0])
def test_effective_ridges_solve_their_equation(share):
    g = np.array([0.5, 1.0, 3.0])
    ridge = 0.1
    for branch in flow_contour(2.0):
        xi = followed_ridges(branch, ridge, g, share)
        shrunk = share * np.sum(g / (g + xi[:, None]), axis=1)
        # The last step is below 1e-7, and convergence is quadratic.
        np.testing.assert_allclose(xi * (1 - shrunk), branch.z + ridge, rtol=1e-12)


def test_the_largest_eigenvalue_is_that_of_a_sample_covariance():
    rng = np.random.default_rng(0)
    g = np.array([0.5, 1.0, 3.0])
    dim = 300
    prompts = 1500
    # In the limit features are as good as Gaussian ones.
    features = rng.standard_normal((prompts, dim, 3)) * np.sqrt(g / dim)
    sample = features.reshape(prompts, -1)
    top = np.linalg.eigvalsh(dim / prompts * sample.T @ sample)[-1]
    assert largest_eigenvalue(g, dim / prompts) == pytest.approx(top, rel=0.02)
    for heaviest, within in ((1.5, 0.02), (8.0, 0.03)):
        sample[0] *= math.sqrt(heaviest * np.sum(g) / np.sum(sample[0] ** 2))
        top = np.linalg.eigvalsh(dim / prompts * sample.T @ sample)[-1]
        assert largest_eigenvalue(g, dim / prompts, heaviest) == pytest.approx(top, rel=within)
