"""Sentences of the page on training dynamics, computed."""

import numpy as np
import pytest
from statements import states

from iclimit.dynamics import (
    effective_init_scale_moments,
    escape_time,
    fixed_point_losses,
    merged_attention_curve,
    merged_drop_time,
    mixture_growth_rate,
    mixture_predictor,
    plateau_head_values,
    plateau_losses,
)

pytestmark = pytest.mark.slow

PAGE = "dynamics/dynamics"


def spectra(count=40):
    """Random eigenvalues, the largest first."""
    generator = np.random.default_rng(0)
    return [np.sort(np.exp(generator.uniform(-2, 1, 4)))[::-1] for _ in range(count)]


@states(
    PAGE,
    "Merged attention ends at the last of these points too",
    "Training from a small start passes close to the fixed points of the m largest eigenvalues",
)
def test_plateaus():
    for eigenvalues in spectra():
        plateaus = np.asarray(plateau_losses(eigenvalues, context=20, noise_variance=0.1))
        assert np.all(np.diff(plateaus) < 0)
        points = fixed_point_losses(eigenvalues, context=20, noise_variance=0.1)
        sizes = np.sum(points.learned, axis=-1)
        for m, plateau in enumerate(plateaus):
            assert plateau == pytest.approx(min(np.asarray(points.losses)[sizes == m]))
        end = merged_attention_curve(
            1e4, eigenvalues=eigenvalues, context=20, init_scale=0.01, noise_variance=0.1
        )
        assert float(end) == pytest.approx(plateaus[-1], rel=1e-4)


@states(
    PAGE,
    "So waits grow as one over the scale, while those of merged attention grow as its logarithm",
)
def test_waits():
    scales = np.array([1e-2, 1e-4, 1e-6])
    separate = np.array([float(escape_time(scale, eigenvalue=0.5)) for scale in scales])
    assert separate[1:] / separate[:-1] == pytest.approx(100)
    merged = np.array([merged_drop_time(dim=4, context=20, init_scale=scale) for scale in scales])
    assert np.diff(merged)[1] == pytest.approx(np.diff(merged)[0], rel=1e-2)


@states(
    PAGE,
    "For unequal eigenvalues the drop has a tail, as directions of small eigenvalue are learned "
    "late",
)
def test_the_tail_of_a_drop():
    t = np.linspace(0, 400, 4001)
    widths = []
    for eigenvalues in ([0.5, 0.5, 0.5, 0.5], [0.5, 0.3, 0.2, 0.1]):
        loss = np.asarray(
            merged_attention_curve(t, eigenvalues=eigenvalues, context=30, init_scale=0.01)
        )
        fallen = (loss[0] - loss) / (loss[0] - loss[-1])
        half = np.interp(0.5, fallen, t)
        widths.append((np.interp(0.99, fallen, t) - half) / (half - np.interp(0.01, fallen, t)))
    assert widths[1] > 2 * widths[0]


@states(PAGE, "at any scale, which falls with the number of heads")
def test_the_scatter_over_seeds():
    heads = np.arange(1, 200)
    std = [float(effective_init_scale_moments(int(H)).std) for H in heads]
    assert np.all(np.diff(std) < 0)
    generator = np.random.default_rng(1)
    for H in (1, 8, 64):
        scale = np.sqrt(generator.chisquare(H, 200_000) / 2)
        assert np.log(scale).std() == pytest.approx(std[H - 1], rel=0.02)


@states(
    PAGE,
    "It is positive for :math:`\\lambda_d < \\lambda_1`, so that the point is stable.  For "
    ":math:`\\lambda_d > \\lambda_1` it is negative",
)
def test_stability_of_a_learned_direction():
    for eigenvalues in spectra():
        trace = eigenvalues.sum()
        c = 1 + (1 + (trace + 0.1) / eigenvalues) / 20
        first = len(eigenvalues) // 2
        for d in set(range(4)) - {first}:
            own = eigenvalues[first]
            other = eigenvalues[d]
            matrix = np.array(
                [[-(other**2) * c[d] / c[first], other**2], [other**2, -own * other]]
            )
            stable = np.all(np.linalg.eigvals(matrix).real < 0)
            assert bool(stable) is bool(other < own)
            stated = other**3 * (own * c[d] / c[first] - other)
            assert np.linalg.det(matrix) == pytest.approx(stated)


@states(PAGE, "One head holds one direction, with :math:`v = |k| = |q| = A_d^{-1/3}`")
def test_values_of_heads():
    eigenvalues = np.array([0.5, 0.3, 0.2])
    values = plateau_head_values(eigenvalues, context=20, noise_variance=0.1)
    c = 1 + (1 + (1.0 + 0.1) / eigenvalues) / 20
    assert np.sort(np.ravel(values)) == pytest.approx(np.sort((eigenvalues * c) ** (-1 / 3)))


@states(
    PAGE, "It is regular for every c, as long as :math:`w_* \\ne 0`", "For c = 1 the rate is g"
)
def test_mixtures():
    covariance = np.diag([0.5, 0.3, 0.2])
    setting = {"input_covariance": covariance, "shared_task": [1.0, 0.0, 0.5], "context": 20}
    shares = np.linspace(0, 1, 101)
    losses = np.array([float(mixture_predictor(float(c), **setting).train_loss) for c in shares])
    assert np.all(np.isfinite(losses))
    assert np.abs(np.diff(losses, 2)).max() < 0.02
    assert mixture_growth_rate(1.0, **setting) == pytest.approx(
        np.linalg.norm(covariance @ covariance)
    )
