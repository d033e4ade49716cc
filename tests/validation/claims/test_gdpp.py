"""Parts of the claims on GD++: spectra of layers, layers counted, minima, control variates."""

import math

import numpy as np
import pytest

from iclimit.results import Estimate
from iclimit.simulate.gdpp import layer_spectra
from iclimit.validation.claims.gdpp import layers, reached, spectrum
from iclimit.validation.claims.gdpp.controls import spectral_controls, trace_controls
from iclimit.validation.claims.gdpp.minima import errors, local_minima


def test_spectra_of_layers_by_hand():
    means, context = spectrum.spectral_means(gammas=(0.3, 0.4), dim=3, contexts=40, rng=5)
    x = np.random.default_rng(5).standard_normal((40, 12, 3))
    traces = np.empty((40, 3))
    for k, z in enumerate(x):
        for layer, gamma in enumerate((0.3, 0.4, 0.0)):
            covariance = z.T @ z / 12
            traces[k, layer] = np.trace(covariance) / 3
            if k == 0:
                right = np.linalg.eigvalsh(covariance)
                np.testing.assert_allclose(context[layer], right, rtol=1e-12)
            z = z @ (np.eye(3) - gamma * covariance)
    for estimate, plain in zip(means, traces[:, 1:].T, strict=True):
        assert abs(estimate.mean - np.mean(plain)) < np.std(plain)
        assert estimate.standard_error < np.std(plain) / math.sqrt(40)


def test_images_of_an_interval():
    """One layer maps the eigenvalues from 1/30 to 1 by e (1 - e/5)^2, which increases."""
    found = reached.image_ends(gammas=(0.2,), lower=1 / 30, upper=1.0, rng=0)
    ends = [[e, e * (1 - 0.2 * e) ** 2] for e in (1 / 30, 1)]
    np.testing.assert_allclose(found, ends, rtol=1e-12)


def test_the_last_step_alone_leaves_the_residual_of_the_condition_number():
    """(kappa - 1)/(kappa + 1) at the best rate, 1 - 1/kappa at rate 1."""
    errors = reached.reached_layers(condition_number=30.0, gammas=(0.2,), rates=(60 / 31,), rng=0)
    assert errors == [pytest.approx(29 / 31, rel=1e-9)]
    found = reached.largest_error(rates=(1.0,), gammas=(), condition_number=30.0, rng=0)
    assert found == pytest.approx(29 / 30, rel=1e-12)
    x = np.random.default_rng(1).standard_normal((2, 9, 4))
    assert layer_spectra(x, [0.1]).shape == (2, 2, 4)


def test_minima_are_where_the_gradient_vanishes():
    """One layer without noise: eta = m1/m2, loss 1 - m1^2/m2."""
    nodes, weights = np.array([0.5, 1.0, 2.5]), np.array([0.3, 0.5, 0.2])
    first, second = weights @ nodes, weights @ nodes**2
    (found,) = local_minima(nodes, weights, 0.0, layers=1, starts=5, rng=0)
    assert found == pytest.approx([first / second], rel=1e-7)
    bias, root = errors(found, nodes, 0.0)
    assert weights @ bias**2 == pytest.approx(1 - first**2 / second, rel=1e-12)
    assert not root.any()
    # Two layers, by hand: the second sees preconditioned eigenvalues.
    bias, root = errors([0.3, 0.4, 0.2], np.array([2.0]), 0.5)
    assert bias == pytest.approx([(1 - 0.6) * (1 - 0.4 * 2 * 0.6**2)])
    assert root == pytest.approx(math.sqrt(0.5) * (1 - bias) / math.sqrt(2.0))


def test_trace_controls_are_centred():
    x = np.random.default_rng(4).standard_normal((5000, 9, 4))
    gram = x.transpose(0, 2, 1) @ x
    controls = trace_controls(gram, 9)
    assert controls[7, 0] == pytest.approx(np.sum(x[7] ** 2) / 36 - 1)
    for control in controls.T:
        assert abs(Estimate.of(control).z(0)) < 4
    same = spectral_controls(np.linalg.eigvalsh(gram), 9)[:, :2]
    np.testing.assert_allclose(same, controls, atol=1e-12)


def test_layers_are_counted_with_the_last_step():
    assert layers.counted([0.5, 0.09, 1e-3], 0.1) == 2
    assert layers.counted([0.5, 0.2], 0.1) == math.inf
