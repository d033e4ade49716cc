"""Parts of the claims on GD++: spectra of layers, layers counted, minima, control variates."""

import math

import numpy as np
import pytest

from iclimit.results import Estimate
from iclimit.simulate.gdpp import layer_spectra
from iclimit.validation.claims.gdpp import layers, reached
from iclimit.validation.claims.gdpp.controls import spectral_controls, trace_controls


def test_the_last_step_alone_leaves_the_residual_of_the_condition_number():
    """(kappa - 1)/(kappa + 1) at the best rate, 1 - 1/kappa at rate 1."""
    errors = reached.reached_layers(condition_number=30.0, gammas=(0.2,), rates=(60 / 31,), rng=0)
    assert errors == [pytest.approx(29 / 31, rel=1e-9)]
    found = reached.largest_error(rates=(1.0,), gammas=(), condition_number=30.0, rng=0)
    assert found == pytest.approx(29 / 30, rel=1e-12)
    x = np.random.default_rng(1).standard_normal((2, 9, 4))
    assert layer_spectra(x, [0.1]).shape == (2, 2, 4)


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
