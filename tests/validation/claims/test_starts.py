"""Starts of trainings: which arrive, in words, and what claims judge of them."""

import numpy as np
import pytest

from iclimit.results import Estimate
from iclimit.validation.claims.softmax.runs import TrainedHeads, arrived_heads, describe_heads
from iclimit.validation.claims.starts import arrived, describe_starts

LOSSES = {"best": 2.0, "null": 4.0}


def test_starts_arrive_that_miss_a_tenth_of_what_can_be_learned():
    assert arrived([1.99, 2.0, 2.19, 2.21, np.inf], **LOSSES).tolist() == [True] * 3 + [False] * 2


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ([2.0, 2.1], "Two heads: 2 of 2 starts arrive."),
        ([2.0, 2.5], "1 of 2 starts arrive; the other one ends 25 % above the best loss."),
        ([2.0, 2.66, 2.661], "1 of 3 starts arrive; the others end 33 % above the best loss."),
        ([2.6, 3.0], "0 of 2 starts arrive; the others end 30 to 50 % above the best loss."),
    ],
)
def test_the_share_of_starts_is_said_in_words(losses, words):
    good = arrived(losses, **LOSSES)
    assert describe_starts("Two heads", losses, good, best=2.0).endswith(words)


def heads(ratio):
    """Trained heads whose loss is this multiple of the best."""
    loss = Estimate(2 * ratio, 1e-3, 100)
    return TrainedHeads(np.ones(2), np.ones(2), 0.0, loss, Estimate(ratio, 1e-3, 100), 10)


def test_heads_arrive_within_a_percent_of_the_best():
    found = arrived_heads([heads(1.3), heads(1.009), heads(1.08), heads(1.001)])
    assert [each.ratio.mean for each in found] == [1.001, 1.009]
    found = arrived_heads([heads(1.3), heads(1.2)])
    assert [each.ratio.mean for each in found] == [1.2]
    words = describe_heads("two heads", [heads(1.3), heads(1.001), heads(1.08)])
    assert words.endswith("1 of 3 starts arrive; the others end 8 to 30 % above the best loss.")
