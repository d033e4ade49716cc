"""The record of transformers on few tasks, and what is read from it."""

import math

import numpy as np
import pytest

from iclimit.results import Estimate
from iclimit.validation.reference import read_reference
from iclimit.validation.reference.transformers import (
    DIMS,
    TransitionPoint,
    half_error_kappa,
    recorded_transformer,
    steps_of,
    transformer,
    transition_at,
)

# Places that were read off the means over seeds by the program that made the record, rounded.
PLACES = {4: 5.9, 8: 5.8, 16: 7.0}
# Half a digit, and the difference of the two tests: 16,384 and 4,096 prompts.
ROUNDED = 0.15


def test_places_of_the_transition():
    for dim in DIMS:
        place = half_error_kappa(transition_at(dim, steps_of(dim)[-1]))
        assert place == pytest.approx(PLACES[dim], abs=ROUNDED)


def test_both_tables_have_the_same_networks():
    """Means over seeds on other prompts, by tasks and dimension."""
    rows = [row for row in read_reference("transformer_transition.csv") if row["prompts"] == "inf"]
    for dim in DIMS:
        for point in transition_at(dim, steps_of(dim)[-1]):
            own = [row for row in rows if float(row["tasks"]) == point.tasks]
            errors = [float(row["icl"]) for row in own if row["d"] == str(dim)]
            assert len(errors) == point.icl.repeats
            # Standard deviations of squared errors are below twice their mean.
            allowed = 4.5 * 2 * point.icl.mean * math.sqrt((1 / 4096 + 1 / 16_384) / len(errors))
            assert abs(np.mean(errors) - point.icl.mean) < allowed


def test_weights_fit_the_network():
    for name, tasks in (("k8", (8, 8)), ("fresh", None)):
        weights, known = recorded_transformer(name)
        assert {key: value.shape for key, value in weights.items()} == transformer(8).shapes
        assert (None if known is None else known.shape) == tasks


def test_a_line_between_logarithms():
    points = [
        TransitionPoint(2, tasks, 1, Estimate(error, 0.1, 3), Estimate(error, 0.1, 3))
        for tasks, error in ((2, 0.9), (8, 0.6), (32, 0.4), (math.inf, 0.1))
    ]
    assert half_error_kappa(points) == pytest.approx(8)
    with pytest.raises(ValueError, match="points must have ICL errors above"):
        half_error_kappa(points[:2])
