"""Losses on drawn contexts against explicit descent on tokens, and against exact means."""

import math

import numpy as np
import pytest

from iclimit.simulate.arrays import get_backend
from iclimit.simulate.depth import simulate_depth_loss

LAM = np.array([1.7, 1.1, 0.6, 0.4, 0.2])
OMEGA = np.array([0.3, 2.0, 1.0, 0.5, 1.5])


def test_losses_are_those_of_descent_on_tokens():
    """Weights in the projected space, from labels of one task or one noise at a time."""
    for context, width in ((7, math.inf), (math.inf, 3), (7, 3)):
        rates = [0.3, 0.9, 0.5]
        noise = 0.4
        options = {"eigenvalues": LAM, "task_spectrum": OMEGA, "rates": rates, "context": context}
        run = simulate_depth_loss(**options, width=width, noise_variance=noise, rng=5, repeats=3)
        for generator, loss in zip(
            get_backend("numpy").generators(5, 3), run.loss.samples, strict=True
        ):
            x = np.diag(np.sqrt(5 * LAM))
            if context < math.inf:
                x = generator.standard_normal((7, 5)) * np.sqrt(LAM)
            basis = np.eye(5)
            if width < math.inf:
                basis, _ = np.linalg.qr(generator.standard_normal((5, 3)))
            seen = x @ basis
            # Tasks of variance omega, and, at a finite context, noise of each label.
            tasks = np.hstack([np.diag(np.sqrt(OMEGA / 5)), np.zeros((5, len(x)))])
            labels = x @ tasks + np.hstack(
                [np.zeros((len(x), 5)), math.sqrt(noise) * np.eye(len(x)) * (context < math.inf)]
            )
            found = np.zeros((seen.shape[1], labels.shape[1]))
            for rate in rates:
                found = found + rate * seen.T @ (labels - seen @ found) / len(x)
            error = tasks - basis @ found
            assert loss == pytest.approx(np.sum(LAM[:, None] * error**2), rel=1e-12)


@pytest.mark.machine
def test_without_draws_the_loss_is_exact_and_repeats_extend():
    rates = np.array([0.4, 0.9])
    sure = simulate_depth_loss(eigenvalues=LAM, rates=rates, noise_variance=0.3, rng=1, repeats=2)
    exact = np.mean(LAM * np.prod(1 - rates[:, None] * LAM, axis=0) ** 2)
    np.testing.assert_allclose(sure.loss.samples, exact, rtol=1e-14)
    setting = {"eigenvalues": LAM, "rates": rates, "context": 6, "width": 4}
    few = simulate_depth_loss(**setting, rng=7, repeats=2)
    more = simulate_depth_loss(**setting, rng=7, repeats=5)
    np.testing.assert_array_equal(few.loss.samples, more.loss.samples[:2])
    assert few.parameters["context"] == 6
    wide = simulate_depth_loss(**setting | {"width": 5}, rng=7, repeats=2)
    whole = simulate_depth_loss(**setting | {"width": math.inf}, rng=7, repeats=2)
    np.testing.assert_array_equal(wide.loss.samples, whole.loss.samples)
    wild = simulate_depth_loss(**setting | {"rates": [1e9] * 30}, rng=7, repeats=2)
    assert np.all(wild.loss.samples == math.inf)
    assert wild.loss.standard_error == math.inf


def test_refuses():
    for change, message in (
        ({"task_spectrum": [1.0]}, "task_spectrum must have shape"),
        ({"rates": []}, "rates must have shape"),
        ({"noise_variance": -1.0}, "noise_variance must be"),
    ):
        setting = {"eigenvalues": LAM, "rates": [0.3], "rng": 0}
        with pytest.raises(ValueError, match=message):
            simulate_depth_loss(**setting | change)
