"""The claims on training dynamics can fail: wrong theory or wrong results turn the verdict.

Claims run small: few seeds, points and steps.  Published curves are numbers in place of trainings.
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import cache
from importlib import resources
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from judged_claims import Results, assert_fails, draw, failed, judge, off, run_cells
from scipy import stats

from iclimit.asymptotics.dynamics import plateau_losses
from iclimit.published import settings
from iclimit.results import Estimate
from iclimit.validation import CLAIMS
from iclimit.validation.claims.dynamics import (
    cubic,
    drop_times,
    heads,
    merged,
    mixtures,
    plateaus,
    staircase_flows,
    training_set,
)
from iclimit.validation.claims.dynamics import published as script
from iclimit.validation.claims.dynamics.published import CURVES, CurvesCell
from iclimit.validation.claims.dynamics.setting import CONTEXT, eigenvalues
from iclimit.validation.claims.dynamics.staircase_flows import FlowCell

NAMES = tuple(
    f"dynamics-{name}"
    for name in (
        *("merged", "cubic", "plateaus", "drop-times"),
        *("heads", "mixtures", "training-set", "published"),
    )
)
SMALL: dict[ModuleType, dict[str, Any]] = {
    merged: {"BLOCKS": 20, "BLOCK": 1000},
    cubic: {"SETS": (100, 200, 400, 800), "REPEATS": 8},
    plateaus: {"RANKS": (1, 2)},
    drop_times: {"SEEDS": 1},
    heads: {"HEADS": ((1, 1), (1, 2))},
    mixtures: {"FRACTIONS": (0.4, 1.0), "SETS": (100, 200, 400), "REPEATS": 8},
    training_set: {"REPEATS": 400, "TRAINED": 2},
}
"""Tables of the claims, or their entries for the quick preset."""


@pytest.fixture(scope="module", autouse=True)
def small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module, tables in SMALL.items():
            for name, value in tables.items():
                table = getattr(module, name)
                patch.setattr(module, name, {"quick": value} if isinstance(table, dict) else value)
        patch.setitem(cubic.TRAINING, "steps", 600)
        patch.setitem(mixtures.TRAINING, "steps", 1000)
        yield


def seed(root: int) -> np.random.SeedSequence:
    """What a cell gets for rng."""
    return np.random.SeedSequence(root)


@cache
def _results(name: str) -> Results:
    if name == "dynamics-published":
        return {
            index: curves_result(index, count) for index, count in enumerate(script.SEEDS["full"])
        }
    return run_cells(name)


def results_of(name: str) -> Results:
    return dict(_results(name))


def curves_result(index: int, repeats: int) -> CurvesCell:
    """Seeds that spread by one per cent about the published curve."""
    curve = CURVES[index].read()
    theirs = CURVES[index].summarise(*curve.T)
    spread = 1 + 0.01 * stats.norm.ppf((np.arange(repeats) + 0.5) / repeats)
    summaries = {name: (spread * value).tolist() for name, value in theirs.items()}
    kept = curve[::20]
    return CurvesCell(summaries, kept[:, 0].tolist(), (spread[:, None] * kept[:, 1]).tolist())


def containing(name: str, part: str) -> list[str]:
    """Labels with this part."""
    rows = judge(name, results_of(name)).comparisons
    return [row.label for row in rows if part in row.label]


def test_all_claims_of_the_subject_are_here() -> None:
    assert set(NAMES) == {name for name in CLAIMS if name.startswith("dynamics-")}


WRONG: tuple[tuple[str, ModuleType, str, tuple[str, ...], float], ...] = (
    ("merged", merged, "effective_init_scale", (), 1 + 2e-5),
    ("merged", merged, "merged_attention_curve", (), 1 + 2e-6),
    ("merged", merged, "merged_attention_loss", (), 1 - 2e-6),
    ("merged", merged, "merged_curve_drop_time", (), 1 + 2e-6),
    ("merged", merged, "merged_drop_time", (), 1 - 2e-6),
    ("merged", merged, "effective_init_scale_moments", ("mean",), 1.3),
    ("merged", merged, "effective_init_scale_moments", ("std",), 1.2),
    ("cubic", cubic, "merged_curve_drop_time", (), 1 + 2e-4),
    ("plateaus", plateaus, "plateau_losses", (), 1 + 1e-7),
    ("heads", heads, "plateau_losses", (), 1 + 1e-9),
    ("heads", heads, "plateau_head_values", (), 1 - 1e-9),
    ("heads", heads, "fixed_point_losses", ("losses",), 1 + 1e-9),
    ("heads", heads, "growth_time", (), 1 + 1e-6),
    ("heads", heads, "time_from_pole", (), 1 + 1e-6),
    ("heads", heads, "head_growth", (), 1 - 1e-6),
    ("heads", heads, "escape_time", (), 1 + 1e-6),
    ("mixtures", mixtures, "mixture_growth_rate", (), 1 + 1e-4),
    ("mixtures", mixtures, "mixture_predictor", ("train_loss",), 1 + 1e-9),
    ("mixtures", mixtures, "mixture_predictor", ("icl_loss",), 1 - 1e-9),
    ("mixtures", mixtures, "mixture_predictor", ("iwl_loss",), 1 + 1e-9),
    ("mixtures", mixtures, "mixture_predictor", ("iwl_noise_loss",), 1 + 1e-9),
    ("mixtures", mixtures, "mixture_predictor", ("gamma",), 1 - 1e-9),
    ("training-set", training_set, "plateau_losses", (), 1.01),
)
"""Functions of the theory, fields of their results, and a factor that a claim notices."""


@pytest.mark.parametrize("name", NAMES)
def test_right_results_hold_and_draw_and_wrong_theories_fail(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that was simulated stays, and the theory is off by little.

    One test for both: in two processes a claim would be simulated twice.
    """
    results = results_of(name)
    verdict = judge(name, results)
    assert verdict.holds, failed(verdict)
    found = [row.label for row in verdict.comparisons]
    assert len(set(found)) == len(found)
    assert all(row.label and math.isfinite(row.estimate) for row in verdict.comparisons)
    assert all("nan" not in note for note in verdict.notes)
    draw(verdict)
    for claim, module, function, fields, factor in WRONG:
        if f"dynamics-{claim}" == name:
            with monkeypatch.context() as patch:
                patch.setattr(module, function, off(getattr(module, function), factor, *fields))
                wrong = {row.of for row in judge(name, results).failures}
            assert any(of.partition(".")[0] == function for of in wrong), (function, fields)


# Merged attention and the network on cubic features.


def test_law_of_the_effective_scale() -> None:
    """More blocks extend fewer; entries of scale 1 make the root of half a chi-square."""
    few, several = (merged.log_scales(heads=3, blocks=count, rng=seed(2)) for count in (2, 4))
    np.testing.assert_array_equal(few, several[:, :2])
    logs = np.log(stats.chi2(3).rvs(40_000, random_state=1) / 2) / 2
    expected = np.mean(logs), np.std(logs)
    np.testing.assert_allclose(np.mean(several, axis=1), expected, atol=0.04)


def test_differences_of_the_two_models_fail() -> None:
    results = results_of("dynamics-cubic")
    limit = replace(results[math.inf], difference=2 * cubic.ROUNDING)
    wrong = judge("dynamics-cubic", results | {math.inf: limit})
    assert_fails(wrong, "difference of the curves")
    shifted = {
        size: replace(results[size], gap=Estimate.of(results[size].gap.samples + 0.05))
        for size in cubic.SETS
    }
    assert_fails(judge("dynamics-cubic", results | shifted), "infinite training sets")


# Separate attention.


def altered(run: FlowCell, **changes: tuple[int, Callable[[float], float]]) -> FlowCell:
    """One entry of a field changed."""
    fields: dict[str, Any] = {}
    for name, (index, change) in changes.items():
        values = list(getattr(run, name))
        values[index] = change(values[index])
        fields[name] = values
    return replace(run, **fields)


@pytest.mark.parametrize("rank", [1, 2])
def test_every_height_and_wait_can_fail(rank: int) -> None:
    results = results_of("dynamics-plateaus")
    large, small = results[rank, 0]

    def found(run: FlowCell) -> list[str]:
        return failed(judge("dynamics-plateaus", results | {(rank, 0): (large, run)}))

    for learned in (1, 2, 3):
        where = f"rank {rank}, {learned} learned, seed 0"
        later = altered(small, crossings=(learned, lambda t: 1.001 * t))
        if learned % rank == 0:
            wrong = altered(small, heights=(learned - 1, lambda h: (1 + 2e-8) * h))
            assert found(wrong) == [f"height, {where}"]
            assert f"end of the plateau, {where}" in found(later)
        else:
            assert f"growth of the wait within a head, {where}" in found(later)


def test_drops_are_compared_if_they_are_predicted_before_the_end() -> None:
    results = results_of("dynamics-drop-times")
    ((key, (run,)),) = results.items()
    late = altered(run, predicted=(3, lambda _: run.duration), crossings=(3, lambda _: math.inf))
    verdict = judge("dynamics-drop-times", {key: (late,)})
    assert verdict.holds
    assert len(verdict.comparisons) == 3
    assert any("1 of 4" in note for note in verdict.notes)
    for factor in (1 + 2e-4, 1 - 2e-4, math.inf):
        wrong = altered(run, crossings=(1, lambda t, f=factor: f * t))  # type: ignore[misc]
        expected = ["time of drop 2, seed 0"]
        assert failed(judge("dynamics-drop-times", {key: (wrong,)})) == expected


def test_flows_of_two_scales_start_from_proportional_weights() -> None:
    large, small = staircase_flows.separate_flows(
        dim=2, heads=3, rank=1, scales=(0.04, 0.01), seed=0, rng=seed(4)
    )
    assert small.predicted[1] == pytest.approx(4 * large.predicted[1], rel=0.1)
    assert small.heights == pytest.approx(
        plateau_losses(eigenvalues(2), context=CONTEXT)[1:-1], rel=1e-2
    )
    assert max(small.times) <= small.duration
    assert len(small.times) == len(small.losses) == len(small.theory)


def test_a_wrong_last_loss_fails() -> None:
    results = results_of("dynamics-heads")
    plateau = float(plateau_losses(eigenvalues(4), context=CONTEXT)[3])
    verdict = judge("dynamics-heads", results | {(1, 1, 0): plateau})
    assert failed(verdict) == ["last loss, 1 heads of rank 1, seed 0"]


# Mixtures and training sets.


def test_every_statement_on_mixtures_can_fail() -> None:
    name, c = "dynamics-mixtures", mixtures.FRACTIONS[0]
    results = results_of(name)
    flow = results[c]
    bound = flow.linear["train_loss"]
    wrong = judge(name, results | {c: replace(flow, end=1.001 * bound, least=1.001 * bound)})
    assert_fails(wrong, "at most the best linear predictor")
    wrong = judge(name, results | {c: replace(flow, least=0.999 * flow.least)})
    assert_fails(wrong, "the least loss of the features")
    shifted = {
        (c, size): replace(results[c, size], gap=Estimate.of(results[c, size].gap.samples + 0.5))
        for size in mixtures.SETS
    }
    assert_fails(judge(name, results | shifted), "minus that on the law")


def test_every_statement_on_training_sets_can_fail() -> None:
    name = "dynamics-training-set"
    results = results_of(name)
    assert_fails(judge(name, results | {"trained": 1e-5}), "trained networks")
    for which, label in enumerate(("training loss", "fresh sequences")):
        wrong = dict(results)
        for size in training_set.SETS:
            wrong[size] = results[size] + 1.5 * np.eye(3)[which][:, None]
        assert_fails(judge(name, wrong), f"excess of the {label}" if which == 0 else label)


def test_features_of_the_shortcut_have_the_law_of_whole_sequences() -> None:
    """The sandwich, a moment of high order, from sequences with all their inputs."""
    lam, size = eigenvalues(4), 200_000
    features, label = training_set.draw_features(np.random.default_rng(8), size)
    generator = np.random.default_rng(9)
    x = generator.standard_normal((size, CONTEXT, 4)) * np.sqrt(lam)
    task, query = generator.standard_normal((2, size, 4))
    beta = np.einsum("pnd,pne,pe->pd", x, x, task, optimize=True) / CONTEXT
    beta /= np.sqrt(training_set.SECOND_MOMENT)
    whole = (beta[:, :, None] * query[:, None, :]).reshape(size, 16)
    answer = np.sum(task * query * np.sqrt(lam), axis=1)
    np.testing.assert_allclose(features.T @ features / size, np.eye(16), atol=0.04)
    parts = [
        (y - f @ training_set.BEST) ** 2 * np.sum(f**2, axis=1)
        for f, y in ((features, label), (whole, answer))
    ]
    error = math.hypot(*(np.std(each) / math.sqrt(size) for each in parts))
    assert np.mean(parts[0]) == pytest.approx(np.mean(parts[1]), abs=4 * error)


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
    results = results_of("dynamics-published")
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
    results = results_of("dynamics-published")
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
