"""Trained heads of the claims on softmax attention, and published runs that failed."""

import numpy as np

from iclimit.validation.claims.softmax import published_layer, runs


def test_medians_of_failed_runs_are_counted():
    trained, failed, _ = published_layer.describe([10, 66])
    assert trained.startswith("Most published seeds trained at 1 of 2 lengths: N = 66.")
    assert "N = 10 (0.582)" in failed


def test_a_training_is_measured_beside_the_best_head():
    setting = {"best": (1.288, 0.6533), "heads": 1, "context": 6, "dim": 4}
    run = runs.trained_heads(**setting, batch=64, held_out=4_000, rng=np.random.SeedSequence(0))
    assert 0.99 < run.ratio.mean < 1.1
    assert run.ratio.standard_error < 0.01 < run.loss.standard_error / run.loss.mean
    assert run.loss.repeats == 4_000
