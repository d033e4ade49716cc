"""The claims on trained networks can fail: judges on results and tables that are off."""

from typing import Any

import numpy as np
import pytest
from judged_claims import assert_fails, draw, failed, judge

from iclimit.results import Estimate
from iclimit.validation import CLAIMS
from iclimit.validation.claims.networks import lstm
from iclimit.validation.claims.networks.lstm import LAW, NULL, OwnLstm, trained_lstm
from iclimit.validation.claims.softmax import double_descent
from iclimit.validation.claims.softmax.double_descent import FittedHeads, fitted_heads

# LSTM.


def own_lstm(excess: float, distance: float) -> OwnLstm:
    """What a network of this excess at this distance would give."""
    noise = np.random.default_rng(0).standard_normal((4, 10))
    step, difference, away, surplus = (0.003 * (row - row.mean()) for row in noise)
    return OwnLstm(
        curve=[(0.0, NULL), (100.0, LAW + excess)],
        loss=Estimate.of(LAW + excess + step),
        step=Estimate.of(LAW + step),
        excess=Estimate.of(excess + difference),
        distance=Estimate.of(distance + away),
        gradient_distance=Estimate.of(0.3 * distance + away),
        cosine=Estimate.of(0.9 + away),
        surplus=Estimate.of(excess - distance + surplus),
    )


def judged(**changed: OwnLstm) -> Any:
    keys = {"uni": (False, 1), "bi": (True, 2)}
    results = {key: own_lstm(-0.02, 0.1) for key in keys.values()}
    results |= {keys[name]: run for name, run in changed.items()}
    return CLAIMS["lstm"].judge("medium", results)


def test_lstm_holds_and_draws_with_and_without_networks_of_ours() -> None:
    for verdict in (judge("lstm", {}), judged()):
        assert failed(verdict) == []
        draw(verdict)


def test_lstm_notices_a_network_above_the_step() -> None:
    assert_fails(judged(uni=own_lstm(0.05, 0.1)), "excess, ours, uni-directional")
    assert_fails(judged(bi=own_lstm(0.05, 0.04)), "ours, bi-directional, layers 2")


def test_lstm_notices_another_law_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lstm, "LAW", 1.1 * LAW)
    assert "loss of the step, ours, uni-directional, layers 1" in failed(judged())


def test_lstm_notices_distances_in_other_units(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lstm, "HALF", 1.0)
    monkeypatch.setattr(lstm, "LAW", 2 * LAW)
    monkeypatch.setattr(lstm, "NULL", 2 * NULL)
    assert_fails(judge("lstm", {}), "published")


def test_network_without_training_is_at_the_distance_of_the_null_predictor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lstm, "BLOCKS", 5)
    sizes: dict[str, Any] = {
        "layers": 1,
        "hidden": 4,
        "bidirectional": True,
        "batch": 4,
        "steps": 50,
    }
    run = trained_lstm(**sizes, rng=np.random.SeedSequence(0))
    assert len(run.curve) == lstm.WINDOWS
    # Its predictions are small, not zero: a few percent of the labels.
    assert run.loss.mean == pytest.approx(NULL, rel=0.1)
    assert abs(run.step.z(LAW)) < 4
    assert run.distance.mean == pytest.approx(NULL - LAW, rel=0.1)
    assert run.gradient_distance.mean == pytest.approx(0.3 * (NULL - LAW), rel=0.1)
    assert run.surplus.mean == pytest.approx(run.loss.mean - run.step.mean - run.distance.mean)


def test_fits_of_a_softmax_head_have_errors_with_the_noise_of_the_label():
    heads = fitted_heads(tau=0.5, repeats=2, iterations=1, rng=np.random.SeedSequence(1))
    # After one iteration the head has learned little, or the wrong thing.
    assert all(each > 0.8 * double_descent.NULL for each in heads.test)
    assert heads.converged == 0
    assert len(set(heads.training)) == 2


def test_fits_of_a_softmax_head_that_failed_are_left_out():
    near = 0.004 * np.linspace(-1, 1, 8)
    fits = FittedHeads([*(0.88 + near), 1.0], [*(0.68 * (1 + near)), 0.95], 8)
    assert fits.succeeded.shape == (2, 8)
    assert "1 of 9 at tau=30" in double_descent.describe({30.0: fits}, 300)
