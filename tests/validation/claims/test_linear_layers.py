"""Several linear layers: made-up trainings, plateaus, and the best layers."""

from functools import cache

import numpy as np
import pytest

from iclimit.asymptotics.gdpp import gdpp_minima
from iclimit.simulate.gdpp import gdpp_transformer, simulate_gdpp
from iclimit.validation.claims.gdpp import best_layers, linear_layers, trained_layers
from iclimit.validation.claims.gdpp.linear_layers import SHARED


@cache
def best(shared=True):
    return best_layers.best_layers(layers=2, shared=shared, rng=0)


def trained_results(rates, gammas, *, scale=1.0):
    """Results of quick for layers with these rates that were steps of descent before."""
    size = {"context": 10, "dim": 10}
    layers = [gdpp_transformer(rates, gammas, **size).layers[0]] * 2
    steps = gdpp_transformer(scale * np.array(best().steps), [0.0], **size).layers
    null = gdpp_transformer([0.1, 0.1], [0.0], **size).layers
    training = trained_layers.Training(layers, np.linspace(0.4, 0.1, 100), {1: null, 30: steps})
    found = trained_layers.tested_layers(
        trained=training, best=best(), shared=True, held_out=5000, rng=1
    )
    return {SHARED: [found]}


def failures(layers):
    """Labels of what does not hold, without error bars of rare cases."""
    rows = linear_layers.compare_all(layers, linear_layers.EXCESS["quick"])
    return [row.label for row in rows if not abs(row.z) < 4]


def test_layers_near_the_best_hold():
    layers = trained_results([1.03 * rate for rate in best().rates], best().gammas)
    assert not failures(layers)
    losses = best().step_loss, best().loss
    assert linear_layers.NULL * np.array(losses) == pytest.approx([0.1566, 0.1105], abs=5e-5)


def test_layers_that_do_not_precondition_are_on_a_plateau():
    layers = trained_results(best().steps, [0.0])
    assert failures(layers) == ["runs on a plateau, 2 shared layers"]
    words = linear_layers.describe_runs(layers)
    assert words == ["2 shared layers: 0 of 1 runs left their plateau."]


def test_the_share_of_runs_is_said_in_words():
    near = trained_results([1.03 * rate for rate in best().rates], best().gammas)
    stuck = trained_results(best().steps, [0.0])
    [words] = linear_layers.describe_runs({SHARED: near[SHARED] + stuck[SHARED]})
    assert "1 of 2 runs left their plateau; they end " in words


def test_layers_short_of_the_best_fail():
    rates, gammas = (0.72 * np.array(each) for each in (best().rates, best().gammas))
    found = failures(trained_results(rates, gammas))
    assert "trained over the best GD++, 2 shared layers, run 1" in found
    assert any("distance of predictions from GD++" in label for label in found)
    assert not any(label.startswith("loss of") for label in found)


def test_trainings_are_cells_with_snapshots():
    settings = {"steps": 20, "batch": 32, "learning_rate": 0.01}
    first, again, other = (
        trained_layers.train_layers(layers=2, shared=True, run=0, rng=seed, **settings)
        for seed in (0, 0, 1)
    )
    assert len(first.layers) == 2
    assert first.layers[0] is first.layers[1]
    assert list(first.snapshots) == [1, 2, 4, 8, 14]
    np.testing.assert_array_equal(first.losses, again.losses)
    assert not np.array_equal(first.losses, other.losses)


def test_best_layers_are_those_of_the_search():
    exact = gdpp_minima(2, **best_layers.SIZE)[0]
    assert best(shared=False).loss == pytest.approx(exact.loss, rel=1e-6)
    assert exact.loss < best().loss < best().step_loss
    for each in (best(), best(shared=False)):
        run = simulate_gdpp(each.rates, each.gammas, **best_layers.SIZE, contexts=5000, rng=0)
        assert abs(run.loss.z(each.loss)) < 4


def test_best_layers_on_sampled_contexts(monkeypatch):
    """The rule has the moments of the sample, over blocks of it too."""
    monkeypatch.setattr(best_layers, "SAMPLED", {3: 4000})
    found = best_layers.best_layers(layers=3, shared=False, rng=0)
    assert found.loss < best(shared=False).loss / 2
    assert found.step_loss < best(shared=False).step_loss
    nodes, weights = best_layers.spectrum(3, 0)
    blocks = best_layers.context_blocks(**best_layers.SIZE, contexts=4000, rng=0, backend="numpy")
    x = np.concatenate(list(blocks))
    assert len(x) == 4000
    values = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 10)
    for power in (0, 1, 5, 26):
        assert weights @ nodes**power == pytest.approx(np.mean(values**power), rel=1e-9)
