"""The claims on softmax attention can fail: results or theory that are off turn the verdict.

Trained heads are numbers in their place.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from judged_claims import Results, assert_fails, draw, failed, judge, off, run_cells, scaled

from iclimit.results import Estimate
from iclimit.validation.claims.softmax import head, kernels, limits, pair, published_layer, runs

SMALL: dict[Any, dict[str, Any]] = {
    head: {"COUNT": 4, "CONTEXTS": 10_000, "TRAINED": ()},
    pair: {"CONTEXTS": 10_000, "TOKENS": 4_000, "TRAINED": (), "UNIFORM": ((10, 3),)},
    published_layer: {"LENGTHS": (10, 66), "SIMULATED": (66,), "PROMPTS": 4_000},
    limits: {"SIZES": (8, 16, 32, 64), "CONTEXTS": 2_000, "MATRIX_SIZES": (4, 8, 16, 32)},
    kernels: {"SIZES": (8, 16, 32, 64), "CONTEXTS": 2_000},
}
"""Entries of the tables of claims for the quick preset."""


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pair, "SIZES", ((10, 10), (10, 5)))
        for module in (head, pair):  # what takes seconds is computed once
            patch.setattr(module, "softmax_loss", cache(module.softmax_loss))
        patch.setattr(pair, "uniform_softmax_loss", cache(pair.uniform_softmax_loss))
        for module, tables in SMALL.items():
            for name, value in tables.items():
                patch.setattr(module, name, {"quick": value})
        yield


@pytest.fixture(scope="module")
def found(small: None) -> dict[str, Results]:  # noqa: ARG001
    names = ("head", "published", "pair", "limit", "kernels")
    return {f"softmax-{name}": run_cells(f"softmax-{name}") for name in names}


WRONG = [
    ("softmax-head", head, "softmax_loss", ()),
    ("softmax-head", head, "best_head", ("loss",)),
    ("softmax-published", published_layer, "best_head", ("loss",)),
    ("softmax-pair", pair, "uniform_softmax_loss", ()),
    ("softmax-limit", limits, "optimal_softmax_matrix", ("loss",)),
    ("softmax-kernels", kernels, "finite", ("loss",)),
    ("softmax-kernels", kernels, "kernel_efficiency", ()),
    ("softmax-kernels", kernels, "heads_efficiency", ()),
]


@pytest.mark.parametrize("name", ["head", "published", "pair", "limit", "kernels"])
def test_claims_hold_and_draw(name: str, found: dict[str, Results]) -> None:
    verdict = judge(f"softmax-{name}", found[f"softmax-{name}"])
    assert verdict.holds, failed(verdict)
    draw(verdict)


@pytest.mark.parametrize(("name", "module", "function", "fields"), WRONG)
def test_wrong_theory_fails(
    name: str,
    module: Any,
    function: str,
    fields: tuple[str, ...],
    found: dict[str, Results],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, function, off(getattr(module, function), 0.8, *fields))
    assert not judge(name, found[name]).holds


def test_wrong_gain_of_the_temperature_fails(found: dict[str, Results]) -> None:
    results = dict(found["softmax-pair"])
    run = results["paired", 10, 5]
    results["paired", 10, 5] = replace(run, best=run.warm)
    assert_fails(judge("softmax-pair", results), "gain of the best temperature, N=10, d=5")
    run = results["uniform", 10, 3] = found["softmax-pair"]["uniform", 10, 3]
    results["paired", 10, 5] = found["softmax-pair"]["paired", 10, 5]
    results["uniform", 10, 3] = replace(run, layer=scaled(run.layer, 0.7))
    assert_fails(judge("softmax-pair", results), "linear layer minus best heads")


def test_trained_heads_that_miss_are_noticed(
    found: dict[str, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(head, "TRAINED", {"quick": ((10, 10),)})
    monkeypatch.setattr(pair, "TRAINED", {"quick": ((10, 10, 2),)})
    one = runs.TrainedHeads(
        np.array([-0.59]),
        np.array([-0.74]),
        0.007,
        Estimate(7.31, 0.02, 99),
        Estimate(1.001, 1e-4, 99),
        900,
    )
    two = replace(one, inverse_temperature=np.array([0.3, -0.3]), value=np.array([0.92, -0.91]))
    heads = found["softmax-head"] | {("trained", 10, 10): one}
    pairs = found["softmax-pair"] | {("trained", 10, 10, 2): two}
    assert judge("softmax-head", heads).holds
    assert judge("softmax-pair", pairs).holds
    worse = Estimate(1.02, 1e-4, 99)
    heads["trained", 10, 10] = replace(one, ratio=worse)
    pairs["trained", 10, 10, 2] = replace(two, ratio=worse)
    assert_fails(judge("softmax-head", heads), "loss of the trained heads over the least one")
    assert_fails(judge("softmax-pair", pairs), "loss of the trained heads over the least one")
    heads["trained", 10, 10] = replace(one, inverse_temperature=np.array([0.7]))
    assert_fails(judge("softmax-head", heads), "temperature of the trained head")
    heads["trained", 10, 10] = replace(one, rest=0.05)
    assert_fails(judge("softmax-head", heads), "anisotropy")


def test_medians_of_failed_runs_are_counted(found: dict[str, Results]) -> None:
    verdict = judge("softmax-published", found["softmax-published"])
    assert verdict.notes[0].startswith("Most published seeds trained at 1 of 2 lengths: N = 66.")
    assert "N = 10 (0.582)" in verdict.notes[1]


def test_a_training_is_measured_beside_the_best_head() -> None:
    run = runs.trained_heads(
        best=(1.288, 0.6533),
        heads=1,
        context=6,
        dim=4,
        batch=64,
        held_out=4_000,
        rng=np.random.SeedSequence(0),
    )
    assert 0.99 < run.ratio.mean < 1.1
    assert run.ratio.standard_error < 0.01 < run.loss.standard_error / run.loss.mean
    assert run.loss.repeats == 4_000
