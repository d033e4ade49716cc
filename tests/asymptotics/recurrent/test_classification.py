import numpy as np
import pytest
from scipy.special import betainc, ndtr
from scipy.stats import binom, poisson

from iclimit.asymptotics.recurrent import classification_accuracy


@pytest.mark.machine
@pytest.mark.parametrize(
    ("context", "dim", "separation", "flips"),
    [
        (20, 10, 1.5, 0.1),
        (5, 1, 0.7, 0.7),
        (1, 3, 2.0, 0.0),
        (60, 3, 4.0, 0.45),
        (40, 200, 3.0, 0.2),
        (3, 2, 30.0, 0.1),
    ],
)
def test_equals_sums_over_beta_distributions(context, dim, separation, flips):
    # 4 u.v = |u + v|^2 - |u - v|^2: independent noncentral chi-squares, each a Poisson mixture.
    accuracy = 0.0
    for flipped in range(context + 1):
        M = (context - 2 * flipped) / context**0.5
        larger, smaller = (separation**2 * (M + sign) ** 2 / 4 for sign in (1, -1))
        i, j = (np.arange(mean + 12 * mean**0.5 + 40) for mean in (larger, smaller))
        weights = np.outer(poisson.pmf(i, larger), poisson.pmf(j, smaller))
        above = betainc(dim / 2 + j, dim / 2 + i[:, None], 0.5)
        accuracy += binom.pmf(flipped, context, flips) * np.sum(weights * above)
    theory = classification_accuracy(context=context, dim=dim, separation=separation, flips=flips)
    assert theory == pytest.approx(accuracy, abs=1e-12)


def test_many_dimensions_approach_the_normal_distribution():
    signal = np.array([[2.0], [0.8]])
    inverse_alpha = np.array([2.0, 0.25])
    limit = ndtr(2 * signal / np.sqrt(signal**2 + inverse_alpha))
    gaps = [
        classification_accuracy(
            context=[dim // 2, 4 * dim], dim=dim, separation=2.0, flips=[[0.0], [0.3]]
        )
        - limit
        for dim in (2000, 4000)
    ]
    assert gaps[0] == pytest.approx(2 * gaps[1], rel=0.02)
    assert np.all(np.abs(gaps[1]) < 1e-3)


def test_symmetries_and_edges():
    setting = {"context": [5, 300], "separation": 2.0, "dim": 10}
    right = classification_accuracy(**setting, flips=0.2)
    found = right + classification_accuracy(**setting, flips=0.8)
    assert found == pytest.approx([1, 1], abs=1e-13)
    assert classification_accuracy(**setting, flips=0.5) == pytest.approx([0.5, 0.5], abs=1e-13)
    nothing = setting | {"separation": 0.0}
    assert classification_accuracy(**nothing) == pytest.approx([0.5, 0.5], abs=1e-13)


def test_contexts_are_whole_pairs():
    with pytest.raises(ValueError, match=r"context must be an integer"):
        classification_accuracy(context=[5, 2.25], separation=1, dim=10)
