"""The claims on training dynamics can fail: results that are off turn the verdict.

Flows and trainings are numbers in their place, but for small ones that the cells really run.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
import pytest
from judged_claims import Results, drawn, failed, judge
from scipy import stats

from iclimit.asymptotics.dynamics import (
    merged_curve_drop_time,
    mixture_growth_rate,
    mixture_predictor,
    plateau_losses,
)
from iclimit.published import settings
from iclimit.results import Estimate
from iclimit.runs import Cell
from iclimit.validation import CLAIMS
from iclimit.validation.claims.dynamics import (
    cubic,
    drop_times,
    merged,
    mixtures,
    plateaus,
    staircase_flows,
    training_set,
)
from iclimit.validation.claims.dynamics import heads as few
from iclimit.validation.claims.dynamics import published as script
from iclimit.validation.claims.dynamics.cubic import PairedCell
from iclimit.validation.claims.dynamics.merged import MergedCell
from iclimit.validation.claims.dynamics.mixtures import LAW, MixtureCell, MixtureFlow
from iclimit.validation.claims.dynamics.published import CURVES, CurvesCell
from iclimit.validation.claims.dynamics.setting import eigenvalues
from iclimit.validation.claims.dynamics.staircase_flows import FlowCell

SEEDS = 24
"""Drop times of a law, of the sixty or more of the claim."""
NAMES = (
    "dynamics-merged",
    "dynamics-cubic",
    "dynamics-plateaus",
    "dynamics-drop-times",
    "dynamics-heads",
    "dynamics-mixtures",
    "dynamics-training-set",
    "dynamics-published",
)


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(merged, "SEEDS", {"quick": SEEDS, "full": SEEDS + 1})
        yield


def seed(root: int) -> np.random.SeedSequence:
    """What a cell gets for rng."""
    return np.random.SeedSequence(root)


# Results as the theory has them.


def merged_result(cell: Cell) -> Any:
    setting = dict(cell.parameters)
    if cell.function is merged.merged_flow:
        # Half of what is allowed.
        error = merged.FIRST_ORDER * setting["scale"] / 2
        return MergedCell(error, [0.0, 1.0, 2.0], [1.0, 0.6, 0.2], [1.0, 0.61, 0.2])
    return chi_times(setting["spectrum"], setting["heads"], setting["seeds"])


@cache
def chi_times(spectrum: str, heads: int, count: int) -> list[float]:
    """Drop times of starts at evenly spread quantiles, each from its own flow."""
    lam = merged.SPECTRA[spectrum]
    squares = stats.chi2.ppf((np.arange(count) + 0.5) / count, heads)
    starts = merged.SEED_SCALE * np.sqrt(squares / 2)
    return [
        float(merged_curve_drop_time(eigenvalues=lam, context=31, init_scale=start))
        for start in starts
    ]


def cubic_result(cell: Cell) -> PairedCell:
    """Gaps of 3/P with the errors of some repeats."""
    size = dict(cell.parameters)["training_set"]
    curves = [0.0, 10.0, 20.0], [1.0, 0.6, 0.2], [1.0, 0.6, 0.2]
    if size == math.inf:
        return PairedCell(*curves, 1e-14, Estimate(0.0, 0.0, 2))
    return PairedCell(*curves, 0.1, Estimate(3 / size, 0.1 / size, 24))


def staircase_results(cell: Cell) -> tuple[FlowCell, ...]:
    """Heads that escape at 3, 6, ... over the scale and learn their directions 40 apart.

    All drops come 2 later than predicted: of first order in the scale.
    """
    setting = dict(cell.parameters)
    dim, rank = setting["dim"], setting["rank"]
    heights = plateau_losses(eigenvalues(dim), context=31)
    head, place = np.divmod(np.arange(dim), rank)
    runs = []
    for scale in setting["scales"]:
        predicted = 3 * (head + 1) / scale + 40 * place
        end = 2 * staircase_flows.MARGIN * float(predicted[-1])
        times = np.linspace(1.0, end, 50)
        losses = heights[np.searchsorted(predicted, times)].tolist()
        runs.append(
            FlowCell(
                predicted.tolist(),
                (predicted + 2).tolist(),
                heights[1:-1].tolist(),
                end,
                times.tolist(),
                losses,
                losses,
            )
        )
    return tuple(runs)


def heads_result(cell: Cell) -> float:
    setting = dict(cell.parameters)
    heights = plateau_losses(eigenvalues(4), context=31)
    return float(heights[min(4, setting["heads"] * setting["rank"])])


def mixtures_result(cell: Cell) -> MixtureFlow | MixtureCell:
    """All features are worth 2 % of the loss."""
    icl = dict(cell.parameters)["fresh_fraction"]
    if cell.function is mixtures.mixture_flow:
        least = 0.98 * float(mixture_predictor(icl, **LAW).train_loss)
        return MixtureFlow(float(mixture_growth_rate(icl, **LAW)), least, least)
    size = dict(cell.parameters)["size"]
    curve = [1.0, 0.5, 0.2]
    iwl = [] if icl == 1 else curve
    return MixtureCell([0, 20, 40], curve, curve, iwl, Estimate(-2 / size, 0.1 / size, 12))


A = 2.5
"""Excess times the size."""


def sets_result(cell: Cell) -> np.ndarray | Estimate:
    """Excesses with a series in 1/size, and errors of 0.03 that are correlated."""
    if cell.function is training_set.sandwich:
        return Estimate(A, 0.001, 40)
    size, repeats = (dict(cell.parameters)[name] for name in ("size", "repeats"))
    means = [-A * (1 + 3 / size), A * (1 + 8 / size + 40 / size**2)]
    spread = stats.norm.ppf((np.arange(repeats) + 0.5) / repeats) * math.sqrt(0.001 * repeats)
    shuffled = np.random.default_rng(size).permutation(spread)
    return np.array(means)[:, None] + np.stack([spread, 0.2 * spread + 0.98 * shuffled])


def curves_result(cell: Cell) -> CurvesCell:
    """Seeds that spread by one per cent about the published curve."""
    setting = dict(cell.parameters)
    published = CURVES[setting["curve"]]
    curve = published.read()
    theirs = published.summarise(*curve.T)
    spread = 1 + 0.01 * stats.norm.ppf((np.arange(setting["repeats"]) + 0.5) / setting["repeats"])
    summaries = {name: (spread * value).tolist() for name, value in theirs.items()}
    kept = curve[::20]
    return CurvesCell(summaries, kept[:, 0].tolist(), (spread[:, None] * kept[:, 1]).tolist())


FABRICATED: dict[str, Callable[[Cell], Any]] = dict(
    zip(
        NAMES,
        (
            merged_result,
            cubic_result,
            staircase_results,
            staircase_results,
            heads_result,
            mixtures_result,
            sets_result,
            curves_result,
        ),
        strict=True,
    )
)


@cache
def right(function: Callable[[Cell], Any], cell: Cell) -> Any:
    """Claims share cells."""
    return function(cell)


@cache
def _fabricated(name: str) -> Results:
    cells = CLAIMS[name].cells_by_key("quick")
    return {key: right(FABRICATED[name], cell) for key, cell in cells.items()}


def fabricated(name: str) -> Results:
    return dict(_fabricated(name))


def shifted(run: Any, shift: float) -> Any:
    """A training with another gap."""
    return replace(run, gap=replace(run.gap, mean=run.gap.mean + shift))


def labels(name: str) -> list[str]:
    return [c.label for c in judge(name, fabricated(name)).comparisons]


def containing(name: str, *parts: str) -> list[str]:
    """Labels with all of these parts."""
    return [label for label in labels(name) if all(part in label for part in parts)]


def test_all_claims_of_the_subject_are_here() -> None:
    assert set(NAMES) == {name for name in CLAIMS if name.startswith("dynamics-")}


@pytest.mark.parametrize("name", NAMES)
def test_right_results_hold_and_draw(name: str) -> None:
    verdict = judge(name, fabricated(name))
    assert verdict.holds, failed(verdict)
    found = [c.label for c in verdict.comparisons]
    assert len(set(found)) == len(found)
    assert all(c.label and math.isfinite(c.estimate) for c in verdict.comparisons)
    assert all("nan" not in note for note in verdict.notes)
    assert drawn(verdict) > 10_000


@pytest.mark.parametrize("name", NAMES)
def test_cells_are_distinct_and_those_of_both_presets_have_a_verdict(name: str) -> None:
    for preset in ("quick", "full"):
        cells = CLAIMS[name].cells_by_key(preset).values()
        assert len({cell.seed(0).generate_state(2).tobytes() for cell in cells}) == len(cells)
    assert len(CLAIMS[name].cells("full")) >= len(CLAIMS[name].cells("quick"))


# Merged attention.


def test_every_error_of_the_loss_can_fail() -> None:
    results = fabricated("dynamics-merged")
    flows = [key for key, right in results.items() if isinstance(right, MergedCell)]
    assert len(flows) == 9
    for key, factor in zip(flows, itertools.cycle([2.02, math.nan, 3.0, math.inf])):
        spectrum, scale = key
        label = f"error of the loss, {spectrum}, initial weights {scale}"
        wrong = results | {key: replace(results[key], error=factor * results[key].error)}
        assert failed(judge("dynamics-merged", wrong)) == [label]


def other_times(change: str, times: np.ndarray, rate: float) -> np.ndarray:
    if change == "early":
        return times - math.log(3) / rate
    if change == "late":
        return times + math.log(3) / rate
    # All alike, with the right sum of squares of the effective scales.
    squares = np.exp(-2 * rate * times)
    return np.full(len(times), -math.log(np.mean(squares)) / 2 / rate)


@pytest.mark.parametrize("change", ["early", "late", "alike"])
def test_every_law_of_the_drop_times_can_fail(change: str) -> None:
    """Scales off by three fail the sum; a spread that is not the law's only its distribution."""
    results = fabricated("dynamics-merged")
    laws = [key for key, right in results.items() if isinstance(right, list)]
    assert len(laws) == 4
    for key in laws:
        spectrum, heads = key
        rate = float(np.linalg.norm(merged.SPECTRA[spectrum] ** 2))
        times = other_times(change, np.array(results[key]), rate)
        where = f", {spectrum}, {heads} heads"
        found = failed(judge("dynamics-merged", results | {key: times.tolist()}))
        assert all(label.endswith(where) for label in found)
        kind = "Kolmogorov-Smirnov" if change == "alike" else "chi-square"
        assert any(label.startswith(kind) for label in found)
        if change == "alike":
            assert len(found) == 1


@pytest.mark.parametrize("spectrum", merged.SPECTRA)
def test_small_flows_of_merged_attention(spectrum: str) -> None:
    found = merged.merged_flow(spectrum=spectrum, heads=2, scale=1e-2, rng=seed(1))
    assert 1e-5 < found.error < merged.FIRST_ORDER * 1e-2
    assert len(found.times) == len(found.losses) == len(found.theory)
    heights = plateau_losses(merged.SPECTRA[spectrum], context=31)
    assert found.losses[0] == pytest.approx(heights[0], rel=1e-2)
    assert found.losses[-1] < 1.2 * heights[-1]


def test_small_samples_of_drop_times() -> None:
    """More seeds extend fewer, and more heads start later drops earlier."""
    setting: dict[str, Any] = {"spectrum": "white", "scale": 1e-4}
    one, several = (
        np.array(merged.merged_drop_times(heads=heads, seeds=4, rng=seed(2), **setting))
        for heads in (1, 30)
    )
    fewer = merged.merged_drop_times(heads=1, seeds=2, rng=seed(2), **setting)
    assert fewer == one[:2].tolist()
    assert np.all(np.isfinite(one))
    # The spread over seeds is that of the logarithm of a mean of squares.
    assert np.std(several) < np.std(one)
    assert np.mean(several) < np.mean(one)


# The network on cubic features.


def test_every_comparison_with_the_network_can_fail() -> None:
    results = fabricated("dynamics-cubic")
    curves, gap = labels("dynamics-cubic")
    for wrong in (2 * cubic.ROUNDING, math.nan):
        one = results | {math.inf: replace(results[math.inf], difference=wrong)}
        assert failed(judge("dynamics-cubic", one)) == [curves]
    for shift in (0.001, -0.001):
        one = {size: shifted(right, shift) for size, right in results.items()}
        assert failed(judge("dynamics-cubic", one)) == [gap]


def test_small_trainings_of_both_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cubic.TRAINING, "steps", 300)
    limit = cubic.paired_descent(training_set=math.inf, repeats=2, rng=seed(3))
    assert limit.difference < cubic.ROUNDING
    assert limit.merged[-1] < 0.5 * limit.merged[0]
    finite = cubic.paired_descent(training_set=100, repeats=3, rng=seed(3))
    # The same data: at the start only the loss of weights near zero is there.
    assert finite.merged[0] == pytest.approx(finite.cubic[0], rel=1e-4)
    assert finite.difference > 1e-3
    assert finite.gap.standard_error > 0


# Separate attention.


def altered(run: FlowCell, **changes: tuple[int, Callable[[float], float]]) -> FlowCell:
    """One entry of a field changed."""
    fields: dict[str, Any] = {}
    for name, (index, change) in changes.items():
        values = list(getattr(run, name))
        values[index] = change(values[index])
        fields[name] = values
    return replace(run, **fields)


def plateau_cell(rank: int) -> tuple[Results, Any, tuple[FlowCell, ...]]:
    results = fabricated("dynamics-plateaus")
    return results, (rank, 0), results[rank, 0]


DIM = plateaus.DIM


@pytest.mark.parametrize("rank", plateaus.RANKS)
def test_plateaus_are_compared_where_a_head_is_needed(rank: int) -> None:
    assert len(containing("dynamics-plateaus", "height", f"rank {rank},")) == (DIM - 1) // rank
    growths = containing("dynamics-plateaus", "growth", f"rank {rank},")
    assert len(growths) == DIM - 1 - (DIM - 1) // rank


@pytest.mark.parametrize("rank", plateaus.RANKS)
def test_every_height_and_wait_can_fail(rank: int) -> None:
    results, cell, (before, after) = plateau_cell(rank)
    for learned in range(1, DIM):
        where = f"rank {rank}, {learned} learned, seed 0"

        def found(run: FlowCell) -> list[str]:
            return failed(judge("dynamics-plateaus", results | {cell: (before, run)}))

        if learned % rank == 0:
            allowance = plateaus.HEIGHT_ALLOWANCE
            for factor in (1 + 1.1 * allowance, 1 - 1.1 * allowance, math.nan):
                run = altered(after, heights=(learned - 1, lambda h, f=factor: f * h))  # type: ignore[misc]
                assert found(run) == [f"height, {where}"]
            # A time off by more than allowed, or a drop that never comes.
            for factor in (1 + 2 * plateaus.END_ALLOWANCE, math.inf):
                run = altered(after, crossings=(learned, lambda t, f=factor: f * t))  # type: ignore[misc]
                assert f"end of the plateau over the predicted, {where}" in found(run)
        else:
            wait = after.crossings[learned] - after.crossings[learned - 1]
            growth = plateaus.LOGARITHMIC
            for more in (1.1 * (growth - 1) * wait, math.inf):
                run = altered(after, crossings=(learned, lambda t, m=more: t + m))  # type: ignore[misc]
                assert f"growth of the wait within a head, {where}" in found(run)


def test_waits_within_a_head_may_shrink_but_not_grow() -> None:
    results, cell, (before, after) = plateau_cell(8)
    start = after.crossings[0]
    for factor, expected in ((0.2, []), (4.0, containing("dynamics-plateaus", "rank 8,"))):
        times = [start + factor * (time - start) for time in after.crossings]
        wrong = results | {cell: (before, replace(after, crossings=times))}
        assert failed(judge("dynamics-plateaus", wrong)) == expected


def test_every_drop_time_can_fail() -> None:
    results = fabricated("dynamics-drop-times")
    scales, dim = drop_times.SCALES, drop_times.DIM
    assert len(labels("dynamics-drop-times")) == dim * len(results)
    # What a relative error at one scale does to the extrapolation.
    large, small = scales
    weights = -small / (large - small), large / (large - small)
    allowance = 1.5 * drop_times.ALLOWANCE
    for number, (cell, runs) in enumerate(results.items()):
        for drop, which in itertools.product(range(dim), (0, 1)):
            expected = [f"time of drop {drop + 1} over the predicted, seed {number}"]
            for change in (1 + allowance / weights[which], 1 - allowance / weights[which], 1e9):
                one = list(runs)
                one[which] = altered(one[which], crossings=(drop, lambda t, c=change: c * t))  # type: ignore[misc]
                assert failed(judge("dynamics-drop-times", results | {cell: tuple(one)})) == (
                    expected
                )
            one = list(runs)
            one[which] = altered(one[which], crossings=(drop, lambda _: math.inf))
            assert failed(judge("dynamics-drop-times", results | {cell: tuple(one)})) == expected


def test_drops_predicted_for_after_the_flow_are_not_compared() -> None:
    results = fabricated("dynamics-drop-times")
    cell, runs = next(iter(results.items()))
    one = tuple(
        altered(run, predicted=(3, lambda t: 3 * t), crossings=(3, lambda _: math.inf))
        for run in runs
    )
    verdict = judge("dynamics-drop-times", results | {cell: one})
    assert verdict.holds
    assert len(verdict.comparisons) == len(labels("dynamics-drop-times")) - 1
    assert any("1 of" in note for note in verdict.notes)


def test_small_flows_of_separate_attention() -> None:
    scales = (0.04, 0.01)
    before, after = staircase_flows.separate_flows(
        dim=2, heads=3, rank=1, scales=scales, seed=0, rng=seed(4)
    )
    heights = plateau_losses(eigenvalues(2), context=31)
    for run in (before, after):
        assert run.heights == pytest.approx(heights[1:-1], rel=2e-2)
        assert len(run.predicted) == len(run.crossings) == 2
        assert run.crossings == pytest.approx(run.predicted, rel=0.2)
        assert max(run.times) <= run.duration
        assert len(run.times) == len(run.losses) == len(run.theory)
        np.testing.assert_allclose(run.losses[0], run.theory[0], rtol=1e-2)
    # The weights of both are proportional, and so are the times of the prediction, to first order.
    assert after.predicted[1] == pytest.approx(4 * before.predicted[1], rel=0.1)
    assert staircase_flows.extrapolated_times((before, after), scales) == pytest.approx(
        [1, 1], abs=0.02
    )


def test_limits_are_those_of_lines() -> None:
    _, _, runs = plateau_cell(1)
    lines = tuple(
        replace(run, predicted=[1.0, 2.0, 3.0], crossings=[1 + scale, 2 * (0.9 - scale), math.inf])
        for run, scale in zip(runs, (0.4, 0.1), strict=True)
    )
    found = staircase_flows.extrapolated_times(lines, (0.4, 0.1))
    assert found == pytest.approx([1.0, 0.9, math.inf])


# Few heads.


def test_every_last_loss_can_fail() -> None:
    results = fabricated("dynamics-heads")
    heights = plateau_losses(eigenvalues(4), context=31).tolist()
    assert len(labels("dynamics-heads")) == len(results)
    for cell, right in results.items():
        heads, rank, number = cell
        label = f"last loss, {heads} heads of rank {rank}, seed {number}"
        for wrong in (1.01 * right, 0.99 * right, math.nan, *(h for h in heights if h != right)):
            assert failed(judge("dynamics-heads", results | {cell: wrong})) == [label]


def test_a_small_flow_of_few_heads() -> None:
    found = few.few_heads(heads=1, rank=2, seed=0, rng=seed(0))
    assert found == pytest.approx(plateau_losses(eigenvalues(4), context=31)[2], rel=1e-9)


# Mixtures.


@pytest.mark.parametrize("icl", mixtures.FRACTIONS)
def test_every_comparison_of_a_mixture_can_fail(icl: float) -> None:
    results = fabricated("dynamics-mixtures")
    right = results[icl]
    rate, bound, least, gap = containing("dynamics-mixtures", f" {icl:g} of the tasks random")

    def found(**changes: float) -> list[str]:
        wrong = results | {icl: replace(right, **changes)}
        return failed(judge("dynamics-mixtures", wrong))

    for factor in (1.002, 0.998, math.nan):
        assert found(rate=factor * right.rate) == [rate]
        assert found(end=factor * right.end) == ([bound] * (factor != factor) + [least])
    # Above the bound, with the least loss there too.
    assert found(end=1.05 * right.end, least=1.05 * right.end) == [bound]
    assert found(end=0.9 * right.end, least=0.9 * right.end) == []
    for shift in (0.002, -0.002):
        moved = {(icl, size): shifted(results[icl, size], shift) for size in mixtures.SETS}
        wrong = results | moved
        assert failed(judge("dynamics-mixtures", wrong)) == [gap]


def test_wrong_theories_of_mixtures_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fraction exchanged with the rest: right in the middle only, where there is none."""
    results = fabricated("dynamics-mixtures")
    exact = mixture_growth_rate
    monkeypatch.setattr(mixtures, "mixture_growth_rate", lambda icl, **law: exact(1 - icl, **law))
    assert failed(judge("dynamics-mixtures", results)) == containing("dynamics-mixtures", "rate")


@pytest.mark.parametrize("icl", [0.4, 1.0])
def test_small_flows_and_trainings_of_mixtures(
    icl: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    flow = mixtures.mixture_flow(fresh_fraction=icl, rng=seed(5))
    assert flow.rate == pytest.approx(float(mixture_growth_rate(icl, **LAW)), rel=1e-3)
    assert flow.end == pytest.approx(flow.least, rel=mixtures.END_ALLOWANCE)
    assert flow.least <= (1 + 1e-9) * float(mixture_predictor(icl, **LAW).train_loss)
    monkeypatch.setitem(mixtures.TRAINING, "steps", 100)
    run = mixtures.mixture_descent(fresh_fraction=icl, size=50, repeats=3, rng=seed(6))
    assert len(run.steps) == len(run.training) == len(run.icl) == 6
    assert len(run.iwl) == (0 if icl == 1 else 6)
    # Plain training sets of 50 sequences: the loss at zero weights is the mean of squared labels.
    assert 0 < abs(run.gap.mean) < 1
    assert run.gap.standard_error > 0


# Sizes of the training set.


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("factor", [0.85, 1.15])
def test_every_excess_can_fail(side: int, factor: float) -> None:
    results = fabricated("dynamics-training-set")
    wrong = results.copy()
    for size in training_set.SETS:
        mean = np.mean(results[size][side])
        wrong[size] = results[size] + np.eye(2)[side][:, None] * (factor - 1) * mean
    expected = labels("dynamics-training-set")[side]
    assert failed(judge("dynamics-training-set", wrong)) == [expected]


def test_a_wrong_prediction_of_the_excess_fails() -> None:
    results = fabricated("dynamics-training-set")
    wrong = results | {"predicted": Estimate(16 * 0.136, 0.001, 40)}
    assert failed(judge("dynamics-training-set", wrong)) == labels("dynamics-training-set")


def test_small_training_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(training_set.TRAINING, "steps", 500)
    monkeypatch.setitem(training_set.TRAINING, "record", 500)
    found = training_set.training_set_gaps(size=250, repeats=12, rng=seed(7))
    assert found.shape == (2, 12)
    below, above = np.mean(found, axis=1)
    assert below < 0 < above
    assert np.all(np.linalg.eigvalsh(np.cov(found)) > 0)


def test_the_sandwich_of_least_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Features of the definition, with sample moments: an inverse matrix in place of sums."""
    monkeypatch.setattr(training_set, "BLOCK", 4000)
    found = training_set.sandwich(blocks=30, rng=seed(8))
    assert 0 < found.standard_error < 0.05 * found.mean
    generator = np.random.default_rng(9)
    lam, count = eigenvalues(4), 100_000
    x = generator.standard_normal((count, 31, 4)) * np.sqrt(lam)
    task = generator.standard_normal((count, 4))
    query = generator.standard_normal((count, 4)) * np.sqrt(lam)
    beta = np.einsum("pnd,pne,pe->pd", x, x, task, optimize=True) / 31
    features = (beta[:, :, None] * query[:, None, :]).reshape(count, 16)
    target = np.sum(task * query, axis=1)
    second = features.T @ features
    best = np.linalg.solve(second, features.T @ target)
    weighted = features * (target - features @ best)[:, None]
    expected = np.trace(np.linalg.solve(second / count, weighted.T @ weighted / count))
    # Both are means over heavy tails: the direct one has about the error of 25 blocks.
    assert found.mean == pytest.approx(expected, abs=5 * found.standard_error)


# The published curves.


@pytest.mark.parametrize("index", range(len(CURVES)))
def test_published_files_are_read_whole(index: int) -> None:
    published = CURVES[index]
    curve = published.read()
    settings = published.settings
    records = settings["steps"] // settings["record"] + 1
    assert curve.shape == (records, 2)
    np.testing.assert_array_equal(curve[:, 0], settings["record"] * np.arange(records))
    assert np.all((curve[:, 1] > 0) & (curve[:, 1] < 1.1))
    path = resources.files("iclimit.validation") / "reference" / f"linattn_{published.file}.txt"
    header = [line for line in path.read_text(encoding="utf-8").splitlines() if line[0] == "#"]
    assert f"row = step*{settings['record']} " in header[-1]
    command = next(line for line in header if "Command:" in line).split()
    options = dict(itertools.pairwise(command))
    assert int(options["--head"]) == settings["heads"]
    assert float(options["--init"]) == settings["init_scale"]
    assert int(options.get("--rank", 1)) == settings.get("rank", 1)
    assert int(options.get("--in_dim", 4)) == settings["dim"]
    assert float(options.get("--lr", 0.001)) == settings["learning_rate"]
    assert int(options.get("--trainset_size", 5000)) == settings["training_set"]
    assert int(options.get("--epoch", 6001)) == settings["steps"] + 1
    models = {"attnM": "merged", "attnS": "separate", "mlp": "cubic"}
    assert models[options["--model"]] == settings["model"]


def test_published_heights_are_the_plateaus() -> None:
    """For D = 4; training sets of 80 000 shift a plateau by up to 1 %."""
    published = CURVES[2]
    assert published.settings["dim"] == 4
    curve = published.read()
    found = published.summarise(*curve.T)
    heights = plateau_losses(eigenvalues(4), context=31)
    for m in (1, 2, 3):
        assert found[f"height with {m} learned"] == pytest.approx(heights[m], rel=1e-2)
    drops = [found[f"ln(step) of drop {k}"] for k in (1, 2, 3)]
    assert drops == sorted(drops)
    # The curve ends before the last drop.
    assert curve[-1, 1] == pytest.approx(heights[3], rel=1e-2)
    assert math.isnan(found["ln(step) of drop 4"])


HEIGHTS = plateau_losses(eigenvalues(4), context=31)
STEPS = np.arange(0, 401, 10)


def stairs(drops: Iterable[int]) -> np.ndarray:
    """Losses that fall at these steps, within two records, and by little in between."""
    shares = [np.clip((STEPS - drop) / 20 + 0.5, 0, 1) for drop in drops]
    shares += [np.zeros(len(STEPS))] * (4 - len(shares))
    return HEIGHTS[-1] + (HEIGHTS[:-1] - HEIGHTS[1:]) @ (1 - np.array(shares)) - 1e-9 * STEPS


def test_summaries_of_stairs() -> None:
    found = CURVES[2].summarise(STEPS, stairs([50, 130, 220, 300]))
    assert list(found) == [
        "first loss",
        *(f"ln(step) of drop {k}" for k in (1, 2, 3, 4)),
        *(f"height with {k} learned" for k in (1, 2, 3)),
    ]
    assert found["first loss"] == pytest.approx(1)
    for k, drop in enumerate((50, 130, 220, 300), start=1):
        # The first record below the middle, which comes at the drop itself.
        assert -0.1 < math.exp(found[f"ln(step) of drop {k}"]) - drop < 10.1
    for m in (1, 2, 3):
        assert found[f"height with {m} learned"] == pytest.approx(HEIGHTS[m], abs=1e-6)


def test_summaries_of_plateaus_never_reached() -> None:
    found = CURVES[2].summarise(STEPS, stairs([50, 130]))
    assert found["height with 1 learned"] == pytest.approx(HEIGHTS[1], abs=1e-6)
    # The second plateau lasts to the end, or so it seems.
    assert found["height with 2 learned"] == pytest.approx(HEIGHTS[2], abs=1e-6)
    for name in ("height with 3 learned", "ln(step) of drop 3", "ln(step) of drop 4"):
        assert math.isnan(found[name])
    never = CURVES[2].summarise(STEPS, np.ones(len(STEPS)))
    assert never.pop("first loss") == 1
    assert all(math.isnan(value) for value in never.values())
    # A curve that jumps from the start to the end has no plateaus.
    jump = np.where(STEPS < 200, 1.0, HEIGHTS[-1])
    found = CURVES[2].summarise(STEPS, jump)
    assert all(math.isnan(found[f"height with {m} learned"]) for m in (1, 2, 3))
    assert len({found[f"ln(step) of drop {k}"] for k in (1, 2, 3, 4)}) == 1


def test_summaries_of_a_single_drop() -> None:
    found = CURVES[0].summarise(STEPS, np.where(STEPS < 200, 1.0, 0.136))
    assert found == {"first loss": 1.0, "ln(step) of drop 1": math.log(200), "last loss": 0.136}


@pytest.mark.parametrize("index", range(len(CURVES)))
def test_every_summary_of_a_published_curve_can_fail(index: int) -> None:
    results = fabricated("dynamics-published")
    right = results[index]
    label = CURVES[index].label
    reached = {name: v for name, v in right.summaries.items() if math.isfinite(v[0])}
    assert len(containing("dynamics-published", f"{label}: ")) == len(reached)
    assert len(right.summaries) - len(reached) == len(CURVES[index].learned) // 3
    for name, values in reached.items():

        def found(changed: list[float], name: str = name) -> list[str]:
            summaries = right.summaries | {name: changed}
            wrong = results | {index: replace(right, summaries=summaries)}
            return failed(judge("dynamics-published", wrong))

        # A tenth off where seeds spread by a hundredth.
        assert found([1.12 * value for value in values]) == [f"{label}: {name}"]
        assert found([0.88 * value for value in values]) == [f"{label}: {name}"]
        missing = [math.nan] * len(values)
        assert found(missing) == [f"{label}: {name}, not reached"]
        fewest = script.FEWEST
        assert found(values[: fewest - 1] + missing[fewest - 1 :]) == [
            f"{label}: {name}, not reached"
        ]
        assert found([*values[:-1], math.nan]) == []


def test_notes_say_what_is_not_reached() -> None:
    results = fabricated("dynamics-published")
    cell = 2
    name = "ln(step) of drop 3"
    values = [*results[cell].summaries[name][:-1], math.nan]
    summaries = results[cell].summaries | {name: values}
    verdict = judge(
        "dynamics-published", results | {cell: replace(results[cell], summaries=summaries)}
    )
    count = len(values)
    notes = " ".join(verdict.notes)
    assert f"{name} ({count - 1} of {count})" in notes
    # Where the published curve ends before, the number is not compared.
    assert f"ln(step) of drop 4 (0 of {count}; not by the published curve)" in notes
    assert not containing("dynamics-published", "drop 4")


@pytest.mark.parametrize("index", range(len(CURVES)))
def test_small_trainings_like_the_published(index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    published = CURVES[index]
    small = {**settings[published.setting], "training_set": 200, "steps": 40}
    monkeypatch.setitem(settings, published.setting, small)
    monkeypatch.setattr(script, "CURVES", (replace(published, record=20),))
    found = script.trained_curves(curve=0, repeats=2, rng=seed(10))
    theirs = published.summarise(*published.read().T)
    assert list(found.summaries) == list(theirs)
    assert all(len(values) == 2 for values in found.summaries.values())
    assert set(found.steps) == {0, 20, 40}
    assert np.shape(found.losses) == (2, len(found.steps))
    # Sets of 200: squared labels of unit mean.
    assert found.summaries["first loss"] == pytest.approx([1, 1], abs=0.4)
