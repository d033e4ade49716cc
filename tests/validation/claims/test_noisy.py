"""The claims on random noise levels can fail: results or theory that are off turn the verdict.

Trained models are numbers in their place, but for a training of seconds on small prompts.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from statistics import fmean, median_low
from typing import Any

import numpy as np
import pytest
from judged_claims import Results, draw, failed, judge, off, run_cells

from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.runs import Cell
from iclimit.simulate.gdpp import HeldOutLosses, simulate_ridge_baselines
from iclimit.simulate.gdpp.linear_transformer import build, parameter_count
from iclimit.statistics import z_threshold
from iclimit.validation import CLAIMS
from iclimit.validation.claim import PRESETS
from iclimit.validation.claims.gdpp import baselines as baselines_claim
from iclimit.validation.claims.gdpp import (
    gdpp_table,
    profiles,
    tables,
    trained,
    two_levels,
    weights,
)
from iclimit.validation.claims.gdpp.controls import controlled, spectral_controls
from iclimit.validation.claims.gdpp.given_inputs import ENDLESS, losses_given_inputs
from iclimit.validation.claims.gdpp.published_table import (
    EVALUATED,
    NOISES,
    SIZE,
    baselines,
    published_error,
    published_table,
)
from iclimit.validation.claims.gdpp.trained import NAMES, Trained, compare_published

# At eight pairs two layers trained on 2048 contexts have huge losses on rare ones, which carry up
# to half of the mean.
SMALL = {"context": 16, "dim": 2}


# The published table.


def test_the_published_table_is_read_whole() -> None:
    table = published_table()
    rows = {(method, layers) for method, layers, _ in table}
    transformers = {(kind, layers) for kind in ("GD++", "Diag", "Full") for layers in range(1, 8)}
    assert rows == transformers | {("ConstRR", 0), ("AdaRR", 0), ("TunedRR", 0)}
    assert len(rows) == 24
    assert len(NOISES) == 10
    assert set(table) == {(*row, noise) for row in rows for noise in NOISES}
    assert all(0 <= value < 2 for value in table.values())
    assert [key[0] for key, value in table.items() if value == 0] == [
        "ConstRR",
        "AdaRR",
        "TunedRR",
    ]


@pytest.mark.parametrize(
    ("method", "layers", "noise", "value"),
    [
        ("GD++", 1, "uniform:0", 1.768),
        ("GD++", 2, "uniform:5", 0.366),
        ("GD++", 3, "uniform:5", 0.344),
        ("GD++", 7, "uniform:0", 2.65e-12),
        ("GD++", 7, "categorical:1,3,5", 0.422),
        ("Diag", 2, "uniform:3", 0.188),
        ("Diag", 4, "uniform:0", 1.19e-4),
        ("Diag", 6, "categorical:1,3", 0.020),
        ("Full", 1, "uniform:7", 0.806),
        ("Full", 3, "categorical:1,3", 0.076),
        ("Full", 7, "uniform:2", 0.010),
        ("ConstRR", 0, "uniform:5", 0.365),
        ("AdaRR", 0, "uniform:6", 0.081),
        ("TunedRR", 0, "uniform:1", 0.002),
        ("TunedRR", 0, "categorical:1,3,5", 0.054),
    ],
)
def test_published_numbers(method: str, layers: int, noise: str, value: float) -> None:
    assert published_table()[method, layers, noise] == value


@pytest.mark.parametrize(("loss", "spread"), [(0.4, 0.0), (0.05, 0.1), (0.02, 0.0), (5e-4, 1e-3)])
def test_the_published_error_is_that_of_its_model(loss: float, spread: float) -> None:
    """Contexts of mean loss a and standard deviation s, normal differences, rounded means."""
    generator, count = np.random.default_rng(0), 400_000
    oracle = baselines("uniform:3").oracle
    of_context = np.full(count, loss)
    if spread:
        of_context = generator.gamma((loss / spread) ** 2, spread**2 / loss, count)
    delta = np.sqrt(2 * of_context) * generator.standard_normal(count)
    rest = math.sqrt(2 * oracle) * generator.standard_normal(count)
    values = delta**2 / 2 + delta * rest
    assert abs(np.mean(values) - loss) < 4.5 * np.std(values) / math.sqrt(count)
    # Three digits: steps of 0.001, below it of 1e-6 and so on.
    step = 1e-3 if loss > 1e-3 else 1e-6
    means = loss + 100 * step * generator.random(count)
    rounding = np.std(np.round(means / step) * step - means)
    expected = math.hypot(np.std(values) / math.sqrt(EVALUATED), rounding)
    # The fourth moments of these variables are below 40 squares of their variance.
    assert published_error(loss, "uniform:3", spread) == pytest.approx(expected, rel=0.03)


@pytest.mark.parametrize("noise", ["uniform:1", "uniform:5"])
def test_the_published_error_is_near_that_of_sequences(noise: str) -> None:
    """Noiseless queries drawn as in the definition: the model leaves out correlations."""
    run = simulate_ridge_baselines(
        Problem(**SIZE, noise_law=noise, scale=1), contexts=20_000, rng=0, queries=True
    )
    sequences = run.losses["ConstRR"].standard_error * math.sqrt(20_000 / EVALUATED)
    ratio = published_error(baselines(noise).constant, noise) / sequences
    assert 0.85 < ratio < 1.15  # measured: 1.03 and 0.96


# One trained model.


def model_of(kind: str, layers: int, noise: str, loss: float, **changes: Any) -> Trained:
    """A trained model as it comes out (errors and spread measured at two layers of GD++)."""
    count = parameter_count(kind, SIZE["dim"])
    parameters = np.linspace(-1e-2, 1e-2, layers * count).reshape(layers, 1, count)
    values: dict[str, Any] = {
        "noise_law": noise,
        "model": build(kind, parameters, SIZE["dim"]),
        "training_loss": loss,
        "held_out": Estimate(loss, 0.003 * loss, EVALUATED),
        "evaluation": Estimate(loss, 0.003 * loss, EVALUATED),
        "spread": loss,
        "ruined": 1e-5,
        "seconds": 9.0,
        "at_best": 3,
        "starts": 6,
        "levels": np.linspace(0.2, 4.8, 12).tolist(),
        "profile": [Estimate(loss, 0.002, 8000) for loss in np.linspace(0.1, 0.9, 12)],
    }
    return Trained(**values | changes)


@pytest.mark.parametrize(("kind", "name"), [("gd++", "GD++"), ("diag", "Diag"), ("axial", "Full")])
def test_a_model_is_contradicted_above_the_published_loss_only(kind: str, name: str) -> None:
    bound = published_table()[name, 2, "uniform:3"]
    for factor in (0.0, 0.5, 0.99, 1.0):
        assert compare_published(model_of(kind, 2, "uniform:3", factor * bound)).z == 0
    above = compare_published(model_of(kind, 2, "uniform:3", 1.2 * bound, spread=0.1))
    assert above.label == f"{name}, 2 layers, uniform:3: at most the published"
    assert (above.theory, above.estimate) == (bound, pytest.approx(1.2 * bound))
    error = math.hypot(0.003 * 1.2 * bound, published_error(bound, "uniform:3", 0.1 / 1.2))
    assert above.standard_error == pytest.approx(error)
    assert above.z == pytest.approx(0.2 * bound / error)
    assert not abs(compare_published(model_of(kind, 2, "uniform:3", math.nan)).z) < 10
    overflowed = model_of(kind, 2, "uniform:3", math.inf, spread=math.nan)
    assert not abs(compare_published(overflowed).z) < 10


@pytest.mark.parametrize("count", [1, 2, 3, 8, 9])
def test_the_median_evaluation_is_one_of_them(count: int) -> None:
    losses = np.random.default_rng(count).exponential(size=50 * count)
    found = trained.median_evaluation(losses, 50)
    parts = [losses[50 * k : 50 * (k + 1)].tolist() for k in range(count)]
    assert found.tolist() in parts
    assert np.mean(found) == pytest.approx(median_low([fmean(part) for part in parts]))


@pytest.mark.parametrize("ruin", [1e3, 1e12, math.inf])
def test_one_ruined_context_leaves_the_median_evaluation(ruin: float) -> None:
    losses = np.random.default_rng(4).exponential(size=9 * EVALUATED)
    losses[4 * EVALUATED + 7] = ruin
    found = trained.median_evaluation(losses)
    assert abs(np.mean(found) - 1) < 4.5 / math.sqrt(EVALUATED)
    assert np.max(found) < 50


def evaluated(losses: np.ndarray, noise: str, layers: int) -> Trained:
    """Diagonal model with such losses on held-out contexts."""
    evaluation = trained.median_evaluation(losses)
    return model_of(
        "diag",
        layers,
        noise,
        float(np.mean(losses)),
        held_out=Estimate.of(losses),
        evaluation=Estimate.of(evaluation),
        spread=float(np.std(evaluation)),
    )


NINE = 9 * EVALUATED
SINGLE = z_threshold(70)  # of the claim with the most comparisons


@pytest.mark.parametrize("layers", [2, 5, 7])
@pytest.mark.parametrize("size", [1e5, 1e9])
def test_bad_contexts_in_every_evaluation_are_seen(layers: int, size: float) -> None:
    """One in 20,000 is bad: the mean is not carried by chance."""
    bound = published_table()["Diag", layers, "uniform:3"]
    for seed in range(3):
        generator = np.random.default_rng(seed)
        losses = 0.99 * bound * generator.exponential(size=NINE)
        assert compare_published(evaluated(losses, "uniform:3", layers)).z < 2
        losses[generator.random(NINE) < 1 / 20_000] = size
        assert compare_published(evaluated(losses, "uniform:3", layers)).z > SINGLE


@pytest.mark.parametrize("layers", [2, 5, 7])
@pytest.mark.parametrize("size", [1e3, 1e12])
def test_one_bad_context_in_ten_million_is_not_seen(layers: int, size: float) -> None:
    """The published evaluation would not see it either; here it is among the contexts."""
    bound = published_table()["Diag", layers, "uniform:3"]
    losses = 0.99 * bound * np.random.default_rng(layers).exponential(size=NINE)
    losses[NINE // 2] = size
    found = evaluated(losses, "uniform:3", layers)
    assert found.held_out.mean - 0.99 * bound > 0.9 * size / NINE
    assert compare_published(found).z < 2


@pytest.mark.parametrize("layers", [1, 2, 5, 7])
def test_a_loss_a_tenth_above_the_published_is_seen(layers: int) -> None:
    """Where the standard error is small enough; elsewhere the claim says so."""
    bound = published_table()["Diag", layers, "uniform:3"]
    losses = 1.1 * bound * np.random.default_rng(layers).exponential(size=NINE)
    found = compare_published(evaluated(losses, "uniform:3", layers))
    assert found.z == pytest.approx(0.1 * bound / found.standard_error, rel=0.2)
    assert (found.z > SINGLE) == (found.standard_error < 0.1 * bound / SINGLE)


@pytest.mark.parametrize("kind", ["uniform", "categorical", "fixed"])
def test_profiles_are_means_by_noise_level(kind: str) -> None:
    generator = np.random.default_rng(2)
    levels = {
        "uniform": np.append(5 * generator.random(3000), [0.0, 5.0]),
        "categorical": generator.choice([1.0, 3.0, 5.0], 3000),
        "fixed": np.zeros(3000),
    }[kind]
    losses = generator.exponential(1 + levels)
    found = trained.profile_of(HeldOutLosses(losses, levels, np.ones(levels.size)))
    centres = found["levels"]
    if kind == "uniform":
        width = 5 / trained.BINS
        assert centres == pytest.approx([width * (k + 0.5) for k in range(trained.BINS)])
    else:
        width = 0.0
        assert centres == sorted(set(levels.tolist()))
    counted = 0
    for centre, estimate in zip(centres, found["profile"], strict=True):
        chosen = [
            loss
            for loss, level in zip(losses, levels, strict=True)
            if abs(level - centre) <= width / 2 + 1e-12
        ]
        mean = sum(chosen) / len(chosen)
        assert estimate.mean == pytest.approx(mean, rel=1e-12)
        square = sum((loss - mean) ** 2 for loss in chosen) / (len(chosen) - 1)
        assert estimate.standard_error == pytest.approx(math.sqrt(square / len(chosen)), rel=1e-10)
        counted += len(chosen)
    assert counted == levels.size


def small_cell(kind: str, layers: int, *warm: Cell, **changes: Any) -> Cell:
    """Prompts of sixteen pairs in two dimensions, by the function of the claims.

    One or two random starts may all end where the layer does nothing, a stationary point.
    """
    settings = {
        "noise_law": "uniform:1",
        "starts": 4,
        "contexts": 2048,
        "evaluations": 3,
        "sequences": 2000,
    } | changes
    return Cell.of(trained.train_model, kind=kind, layers=layers, warm=warm, **settings)


@pytest.fixture
def small_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trained, "SIZE", SMALL)


def numbers(run: Trained) -> dict[str, Any]:
    """What does not depend on the clock."""
    arrays = [run.model.projection.tolist(), run.model.lookup.tolist()]
    return {**vars(run), "model": arrays, "seconds": 0}


@pytest.mark.usefixtures("small_models")
@pytest.mark.parametrize("kind", ["gd++", "diag", "axial"])
def test_models_are_trained(kind: str) -> None:
    """The deeper one starts from the other as well, with a layer inserted at two places."""
    first = small_cell(kind, 1)
    second = small_cell(kind, 2, first)
    assert second.needs == (first,)
    one = first.run(0)
    two = second.run(0, results={first: one})
    if kind == "gd++":
        assert numbers(second.run(0, results={first: one})) == numbers(two)
    assert [(run.model.depth, run.kind, run.noise_law, run.starts) for run in (one, two)] == [
        (1, NAMES[kind], "uniform:1", 4),
        (2, NAMES[kind], "uniform:1", 6),
    ]
    assert 0 < two.held_out.mean < one.held_out.mean
    for run in (one, two):
        # One context in a thousand counts for less in the loss of the training.
        assert 0.5 < run.held_out.mean / run.training_loss < 3
        # Measured over seeds: at most 0.06.
        assert 0 < run.held_out.standard_error < 0.1 * run.held_out.mean
        error = run.evaluation.standard_error
        assert error == pytest.approx(run.spread / math.sqrt(2000), rel=0.01)
        assert 0.5 < run.evaluation.mean / run.held_out.mean < 1.5
        assert 1 <= run.at_best <= run.starts
        assert 0 <= run.ruined < 0.2
        assert run.seconds > 0
        assert len(run.levels) == trained.BINS
        assert 0 < run.levels[0] < run.levels[-1] < 1
        # Levels are uniform: the mean of the intervals is the mean.
        profile = [estimate.mean for estimate in run.profile]
        assert np.mean(profile) == pytest.approx(run.held_out.mean, rel=0.15)


@pytest.mark.usefixtures("small_models")
def test_models_start_from_those_of_a_smaller_kind() -> None:
    """Axial weights from diagonal ones of the same depth: not worse on the last contexts."""
    few = {"starts": 1, "evaluations": 1}
    diag = small_cell("diag", 1)
    axial = small_cell("axial", 1, diag, **few)
    known = diag.run(0)
    run = axial.run(0, results={diag: known})
    assert run.starts == 2
    assert run.held_out.mean < known.held_out.mean + 4.5 * math.hypot(
        run.held_out.standard_error, known.held_out.standard_error
    )


@pytest.mark.usefixtures("small_models")
def test_the_share_of_ruined_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Losses above d/2 = 1, weighted: a tenth of the contexts with a weight of a half."""
    losses = {
        False: HeldOutLosses(np.full(4000, 0.2), np.ones(4000), np.ones(4000)),
        True: HeldOutLosses(
            np.append(np.full(9, 0.99), 1.01), np.ones(10), np.append(np.full(9, 9.5 / 9), 0.5)
        ),
    }
    asked = []

    def held_out(*_: Any, contexts: int, rare: bool, **__: Any) -> HeldOutLosses:
        asked.append((contexts, rare))
        return losses[rare]

    monkeypatch.setattr(trained, "held_out_losses", held_out)
    found = small_cell("diag", 1, starts=1, contexts=512, evaluations=2).run(0)
    assert asked == [(4000, False), (2000, True)]
    assert found.ruined == pytest.approx(0.05)
    assert found.held_out.mean == found.evaluation.mean == pytest.approx(0.2)
    assert found.spread == pytest.approx(0, abs=1e-15)


# The three tables of trained models.


searched_minima = gdpp_table.minima_of


@cache
def minima(noise: str, layers: int) -> tuple[float, ...]:
    return tuple(searched_minima(noise, layers))


@pytest.fixture
def known_minima(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search takes seconds for each judgement."""
    monkeypatch.setattr(gdpp_table, "minima_of", lambda *key: list(minima(*key)))


def trained_results(table: tables.Table, factor: float = 0.99) -> Results:
    """GD++ at its minimum, others at a fraction of the published loss."""
    results: Results = {}
    for noise in table.columns["quick"]:
        for depth, cell in enumerate(table.column("quick", noise), start=1):
            results[cell] = model_of(
                table.kind,
                depth,
                noise,
                (
                    1.002 * minima(noise, depth)[0]
                    if table.kind == "gd++"
                    else factor * published_table()[NAMES[table.kind], depth, noise]
                ),
            )
    return results


def gdpp_results() -> Results:
    """GD++ at its minimum, and the least losses over sampled eigenvalues."""
    sampled: Results = {}
    for noise in gdpp_table.SAMPLED:
        loss = gdpp_table.relative_minima(noise, 2)[0]
        sampled[noise] = Estimate(1.0002 * loss, 3e-4 * loss, 4000)
    return trained_results(tables.GDPP) | sampled


def changed(results: Results, cell: Cell, loss: float) -> Results:
    """With another loss on held-out contexts."""
    held_out = replace(results[cell].held_out, mean=loss)
    evaluation = replace(results[cell].evaluation, mean=loss)
    return results | {cell: replace(results[cell], held_out=held_out, evaluation=evaluation)}


PLACES = {"uniform:0": "second", "uniform:5": "only", "categorical:1,3": "second"}
EQUAL = "the second minimum is the published, 2 layers, uniform:0"


def at_most(noise: str) -> str:
    return f"the {PLACES[noise]} minimum is at most the published, 2 layers, {noise}"


@pytest.mark.usefixtures("known_minima")
def test_gdpp_holds_and_draws() -> None:
    verdict = judge("noisy-gdpp", gdpp_results())
    assert verdict.holds, failed(verdict)
    labels = [c.label for c in verdict.comparisons]
    assert len(set(labels)) == len(labels)
    # Where there is one minimum only, the published loss is compared with that.
    assert [label for label in labels if "minimum" in label] == [
        at_most("uniform:0"),
        EQUAL,
        at_most("uniform:5"),
        at_most("categorical:1,3"),
    ]
    (equal,) = (c for c in verdict.comparisons if c.label == EQUAL)
    assert not equal.upper_bound
    assert "local minima 0.3732, published 0.366" in " ".join(verdict.notes)
    draw(verdict)


@pytest.mark.usefixtures("known_minima")
@pytest.mark.parametrize(
    ("noise", "depth"),
    [
        (noise, depth)
        for noise, layers in tables.GDPP.columns["quick"].items()
        for depth in range(1, layers + 1)
    ],
)
def test_every_trained_gdpp_can_fail(noise: str, depth: int) -> None:
    table, results = tables.GDPP, gdpp_results()
    cell = table.cell("quick", noise, depth)
    name = f"{'1 layer' if depth == 1 else f'{depth} layers'}, {noise}"
    best, published = minima(noise, depth)[0], published_table()["GD++", depth, noise]
    bound = f"ConstRR is at most GD++, {name}"
    for factor in (0.95, 1.05, math.nan):
        one = changed(results, cell, factor * best)
        found = failed(judge("noisy-gdpp", one))
        assert all(name in label for label in found)
        assert (f"the best found is at most trained, {name}" in found) == (factor != 1.05)
    one = changed(results, cell, 0.9 * baselines(noise).constant)
    assert (bound in failed(judge("noisy-gdpp", one))) == (baselines(noise).constant > 0)
    one = changed(results, cell, published * 1.2 + 0.1)
    compared = (noise, depth) not in gdpp_table.BELOW_BOUND
    label = f"GD++, {name}: at most the published"
    assert (label in failed(judge("noisy-gdpp", one))) == compared


@pytest.mark.usefixtures("known_minima")
def test_other_minima_and_bounds_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    results = gdpp_results()
    for noise in PLACES:

        def judged(factor: float, noise: str = noise) -> list[str]:
            """With another second or only minimum for two layers."""

            def wrong(*key: Any) -> list[float]:
                found = list(minima(*key))
                if key == (noise, 2):
                    found[:2] = [*found[:2][:-1], factor * found[:2][-1]]
                return found

            with monkeypatch.context() as patch:
                patch.setattr(gdpp_table, "minima_of", wrong)
                return failed(judge("noisy-gdpp", results))

        # The only minimum is also what the trained model is compared with.
        best = [f"the best found is at most trained, 2 layers, {noise}"]
        best = best if PLACES[noise] == "only" else []
        equal = [EQUAL] if noise == "uniform:0" else []
        for factor in (1.1, math.nan):
            assert judged(factor) == [*best, at_most(noise), *equal]
        assert judged(0.9) == equal
    with monkeypatch.context() as patch:
        # The best minimum for the second.
        patch.setattr(gdpp_table, "minima_of", lambda *key: [minima(*key)[0]] * 2)
        assert failed(judge("noisy-gdpp", results)) == [EQUAL]
    with monkeypatch.context() as patch:
        # A ConstRR that is above what layers reach: by 6 %, where they come near it only.
        patch.setattr(gdpp_table, "baselines", off(baselines, 1.06, "constant"))
        assert failed(judge("noisy-gdpp", results)) == [
            "ConstRR is at most GD++, 2 layers, uniform:5"
        ]
        patch.setattr(gdpp_table, "baselines", off(baselines, 3.0, "constant"))
        assert failed(judge("noisy-gdpp", results)) == [
            f"ConstRR is at most GD++, {each}"
            for each in ("1 layer, uniform:5", "2 layers, uniform:5", "2 layers, categorical:1,3")
        ]


@pytest.mark.parametrize("noise", gdpp_table.SAMPLED)
def test_the_least_loss_over_sampled_eigenvalues(noise: str) -> None:
    """A sharp estimate of the least loss, which a search in another form finds."""
    found = gdpp_table.sampled_minimum(noise_law=noise, contexts=500, rng=0)
    least = gdpp_table.relative_minima(noise, 2)[0]
    assert found.standard_error < 0.01 * least
    assert abs(found.z(least)) < 4


@pytest.mark.usefixtures("known_minima")
@pytest.mark.parametrize("noise", PLACES)
def test_other_published_minima_fail(noise: str, monkeypatch: pytest.MonkeyPatch) -> None:
    results = gdpp_results()
    found = minima(noise, 2)[:2][-1]
    error = published_error(found, noise)
    equal = [EQUAL] if noise == "uniform:0" else []
    # The spread between contexts makes the error of the equality larger.
    for shift, expected in ((-8, [at_most(noise), *equal]), (-2, []), (2, []), (8, equal)):
        table = published_table() | {("GD++", 2, noise): found + shift * error}
        monkeypatch.setattr(gdpp_table, "published_table", lambda t=table: t)
        assert failed(judge("noisy-gdpp", results)) == expected


def test_minima_are_those_of_published_and_exact_losses() -> None:
    """One layer in closed form; two layers as published, and the better one."""
    for noise in ("uniform:0", "uniform:5", "categorical:1,3"):
        assert minima(noise, 1) == (pytest.approx(baselines(noise).one_layer, rel=1e-9),)
    assert [round(loss, 4) for loss in minima("uniform:0", 2)[:2]] == [0.2679, 0.3416]


@pytest.mark.parametrize(
    ("name", "table"), [("noisy-diag", tables.DIAG), ("noisy-full", tables.DENSE)]
)
def test_the_other_tables_hold_fail_and_draw(name: str, table: tables.Table) -> None:
    results = trained_results(table)
    verdict = judge(name, results)
    assert verdict.holds
    assert len(verdict.comparisons) == sum(table.columns["quick"].values())
    (summary,) = (note for note in verdict.notes if "the median 0.990" in note)
    assert summary.startswith(f"{len(verdict.comparisons)} models")
    assert "axial" in CLAIMS["noisy-full"].statement
    assert any("10 parameters" in note for note in verdict.notes) == (name == "noisy-full")
    draw(verdict)
    for noise, layers in table.columns["quick"].items():
        for depth in range(1, layers + 1):
            cell = table.cell("quick", noise, depth)
            # 30 % above: a published loss of .118 with contexts that differ by as much is known
            # to 3 % (one standard error).
            bound = published_table()[NAMES[table.kind], depth, noise]
            for loss in (1.3 * bound, math.nan):
                one = changed(results, cell, loss)
                (label,) = failed(judge(name, one))
                assert label.endswith(f"{noise}: at most the published")
                assert f"{depth} layer" in label
            assert judge(name, changed(results, cell, 0.0)).holds
            ruined = replace(results[cell], held_out=Estimate(1e5, 1e5, EVALUATED))
            assert judge(name, results | {cell: ruined}).holds  # in one evaluation of several


def test_full_preset_of_the_tables_names_published_losses() -> None:
    for table in (tables.GDPP, tables.DIAG, tables.DENSE):
        assert sorted(table.columns["full"]) == sorted(NOISES)
        models = sum(table.columns["full"].values())
        assert len(set(table.cells("full"))) == models + len(table.plain("full"))
        for noise, layers in table.columns["full"].items():
            for depth in range(1, layers + 1):
                assert (NAMES[table.kind], depth, noise) in published_table()


def test_models_start_from_those_next_to_them_in_the_table() -> None:
    for preset in PRESETS[1:]:
        for table in (tables.GDPP, tables.DIAG, tables.DENSE):
            for noise in table.columns[preset]:
                before: tuple[Cell, ...] = ()
                for depth, cell in enumerate(table.column(preset, noise), start=1):
                    smaller = table.guide and (table.guide.cell(preset, noise, depth),)
                    beside: tuple[Cell, ...] = ()
                    if noise != "uniform:5" and depth <= table.columns[preset].get("uniform:5", 0):
                        beside = (table.cell(preset, "uniform:5", depth),)
                    assert cell.needs == (*before, *(smaller or ()), *beside)
                    before = (cell,)
    assert tables.DENSE.guide is tables.DIAG


def test_what_was_published_from_plain_contexts_is_compared_with_such_training(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = tables.DIAG
    assert not table.plain("quick")
    [published] = table.plain("full")
    assert published.needs == (table.cell("full", "uniform:0", 4),)
    assert dict(published.parameters)["rare"] is False

    monkeypatch.setitem(tables.SAMPLED, "diag", [("uniform:5", 2)])
    [plain] = table.plain("quick")
    results = trained_results(table)
    cell = table.cell("quick", "uniform:5", 2)
    good, poor = (
        results[cell],
        replace(results[cell], evaluation=Estimate(9.0, 0.01, EVALUATED), ruined=0.0),
    )
    assert judge("noisy-diag", results | {cell: poor, plain: good}).holds
    verdict = judge("noisy-diag", results | {cell: good, plain: poor})
    assert not verdict.holds
    [note] = [n for n in verdict.notes if "is trained on plain contexts" in n]
    assert note.startswith("2 layers, uniform:5")


def test_comparisons_without_power_are_named() -> None:
    table = tables.DIAG
    results = trained_results(table)

    def named(results: Results) -> str:
        (note,) = (n for n in judge("noisy-diag", results).notes if n.startswith("Without power"))
        assert "10%" in note
        return note.rpartition(": ")[2]

    assert named(results) == "none."
    noise = "categorical:1,3"
    cell = table.cell("quick", noise, 2)
    bound = published_table()["Diag", 2, noise]
    for spread, weak in ((5 * bound, False), (100 * bound, True), (math.nan, True)):
        # A mean of 100,000 with such a spread.
        evaluation = replace(results[cell].evaluation, standard_error=spread / 316)
        one = {cell: replace(results[cell], spread=spread, evaluation=evaluation)}
        assert named(results | one) == ("2 layers, categorical:1,3." if weak else "none.")


# Baselines and profiles.


@pytest.fixture(scope="module")
def few_contexts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(baselines_claim, "CONTEXTS", {"quick": 300})
        patch.setattr(baselines_claim, "PROMPTS", {"quick": 2000})
        patch.setattr(profiles, "CONTEXTS", {"quick": 300})
        yield


@pytest.fixture(scope="module")
def baseline_results(few_contexts: None) -> Results:  # noqa: ARG001
    return run_cells("noisy-baselines")


def test_baselines_hold_and_draw(
    baseline_results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = judge("noisy-baselines", baseline_results)
    assert verdict.holds, failed(verdict)
    # Ten with the theory at each noise law, one more at uniform ones, neighbours and published.
    assert len(verdict.comparisons) == 9 * (10 + 4 + 3) + 7 + 2 * 4
    # Three laws more, a third of a second each.
    monkeypatch.setattr(
        baselines_claim,
        "baselines",
        lambda noise: baselines(noise if noise in NOISES else "uniform:3"),
    )
    draw(verdict)


def test_a_bad_tuning_fails(few_contexts: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: ARG001
    """Neighbours of half the threshold improve on it, and its loss is not the best one."""
    right, law = baselines_claim.tuned_penalty, "uniform:3"

    def bad(noise_law: str) -> tuple[float, float]:
        multiplier, threshold = right(noise_law)
        return multiplier, 0.5 * threshold

    monkeypatch.setattr(baselines_claim, "tuned_penalty", bad)
    run = CLAIMS["noisy-baselines"].cells_by_key("quick")[law].run(0)
    rows = baselines_claim.compare_law(law, run)
    found = {row.label for row in rows if not abs(row.z) <= 4}
    assert found == {
        f"TunedRR, {law}",
        "TunedRR against 1 of its multiplier and 1.1 of its threshold, uniform:3",
    }


@pytest.mark.parametrize("method", baselines_claim.METHODS)
def test_every_published_baseline_can_fail(
    method: str, baseline_results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = "categorical:1,3"
    table = published_table().copy()
    error = published_error(table[method, 0, noise], noise)
    for shift in (-7 * error, 7 * error):
        table[method, 0, noise] = published_table()[method, 0, noise] + shift
        monkeypatch.setattr(baselines_claim, "published_table", lambda: table)
        label = f"published {method}, {noise}"
        assert failed(judge("noisy-baselines", baseline_results)) == [label]


@pytest.mark.parametrize("field", ["oracle", "constant", "adaptive", "tuned", "one_layer"])
def test_wrong_theories_of_the_baselines_fail(
    field: str, baseline_results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baselines_claim, "baselines", off(baselines, 1.03, field))
    found = failed(judge("noisy-baselines", baseline_results))
    assert f"ridge_baselines.{field}" in found[0]


@pytest.mark.parametrize("noise", ["uniform:3", "categorical:1,3,5", "fixed:2"])
def test_losses_given_the_inputs_are_means_over_prompts(noise: str) -> None:
    settings: dict[str, Any] = {"penalty": 2.0, "multiplier": 1.3, "threshold": 3.0}
    prompts = simulate_ridge_baselines(
        Problem(**SIZE, noise_law=noise, scale=1), contexts=6000, rng=0, **settings
    ).losses
    found = losses_given_inputs(
        noise_law=noise,
        rate=0.02,
        penalties=((ENDLESS, 2.0), (1.0, ENDLESS), (1.3, 3.0)),
        contexts=300,
        rng=1,
    )
    names = ("oracle", "ConstRR", "AdaRR", "TunedRR")
    for name, ours in zip(names, (found.oracle, *found.ridges), strict=True):
        error = math.hypot(prompts[name].standard_error, ours.standard_error)
        assert abs(prompts[name].mean - ours.mean) < 4.5 * error


def test_controls_have_the_mean_zero_and_sharpen() -> None:
    x = np.random.default_rng(3).standard_normal((4000, 12, 5))
    eigenvalues = np.linalg.eigvalsh(x.transpose(0, 2, 1) @ x)
    controls = spectral_controls(eigenvalues, 12)
    for control in controls.T:
        assert abs(Estimate.of(control).z(0)) < 4
    plain = Estimate.of(np.sum(1 / (eigenvalues + 3), axis=1))
    sharp = controlled(plain.samples, controls)
    assert sharp.standard_error < 0.3 * plain.standard_error
    assert abs(sharp.mean - plain.mean) < 4 * plain.standard_error
    assert controlled(2 + controls @ [1.0, 2.0, 3.0], controls).mean == pytest.approx(2)


@pytest.fixture(scope="module")
def profile_results(few_contexts: None) -> Results:  # noqa: ARG001
    known = trained_results(tables.GDPP) | trained_results(tables.DIAG)
    return {
        key: known[cell] if cell in known else cell.run(0)
        for key, cell in CLAIMS["noisy-profiles"].cells_by_key("quick").items()
    }


def test_profiles_hold_fail_and_draw(
    profile_results: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict = judge("noisy-profiles", profile_results)
    assert verdict.holds, failed(verdict)
    assert len(verdict.comparisons) == 6 * len(profiles.LEVELS)
    draw(verdict)
    right = profiles.baseline_profiles
    for field in ("oracle", "one_layer", "constant", "adaptive", "tuned"):
        monkeypatch.setattr(profiles, "baseline_profiles", off(right, 1.04, field))
        found = failed(judge("noisy-profiles", profile_results))
        assert f"baseline_profiles.{field}" in found[0]


# Implicit weights.


@pytest.fixture
def short_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights away from their random start suffice."""
    train = weights.train_linear_transformer
    short = {"starts": 1, "contexts": 256, "steps": 4}
    monkeypatch.setattr(weights, "SIZE", SMALL)
    monkeypatch.setattr(
        weights,
        "train_linear_transformer",
        lambda problem, **settings: train(problem, **settings | short),
    )


def weights_results() -> Results:
    cells = CLAIMS["noisy-weights"].cells_by_key("quick")
    known = trained_results(tables.DIAG)
    return {key: known[cell] if cell in known else cell.run(0) for key, cell in cells.items()}


@pytest.mark.usefixtures("short_training")
def test_recursions_of_small_trained_models() -> None:
    results = weights_results()
    verdict = judge("noisy-weights", results)
    assert verdict.holds
    draw(verdict)
    for lemma in ("Lemma 4.3", "Lemma 4.4"):
        for error in (1e-9, math.nan):
            one = results | {"errors": results["errors"] | {lemma: error}}
            assert failed(judge("noisy-weights", one)) == [
                f"{lemma} against tokens, trained, 3 layers"
            ]


@pytest.mark.usefixtures("short_training")
@pytest.mark.parametrize(
    ("name", "lemma"), [("implicit_weights", "4.3"), ("diagonal_recursion", "4.4")]
)
def test_a_wrong_recursion_fails(name: str, lemma: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = getattr(weights, name)

    def wrong(*args: Any) -> Any:
        found = right(*args)
        return replace(found, weights=found.weights * (1 + 1e-8))

    monkeypatch.setattr(weights, name, wrong)
    results = weights_results()
    assert failed(judge("noisy-weights", results)) == [
        f"Lemma {lemma} against tokens, trained, 3 layers"
    ]


# Two noise levels.


@pytest.fixture
def level_results(monkeypatch: pytest.MonkeyPatch) -> Results:
    monkeypatch.setattr(two_levels, "CONTEXTS", {"quick": 500})
    return run_cells("noisy-two-levels")


def test_two_levels_hold_fail_and_draw(level_results: Results) -> None:
    verdict = judge("noisy-two-levels", level_results)
    assert verdict.holds, failed(verdict)
    draw(verdict)
    for level in two_levels.LEVELS:
        label = f"adjusted loss at noise level {level:g}, N to infinity"
        (right,) = (c for c in verdict.comparisons if c.label == label)
        assert right.standard_error < 2e-4  # a tenth of the loss at the middle size
        for shift in (-8, 8):
            one = level_results.copy()
            for size in two_levels.SIZES:
                run = level_results[level, size]
                one[level, size] = replace(run, mean=run.mean + shift * right.standard_error)
            assert failed(judge("noisy-two-levels", one)) == [label]


def test_a_construction_for_other_levels_does_not_vanish(monkeypatch: pytest.MonkeyPatch) -> None:
    right = two_levels.two_level_ridge_transformer
    monkeypatch.setattr(
        two_levels,
        "two_level_ridge_transformer",
        lambda levels, **options: right((levels[0], 1.1 * levels[1]), **options),
    )
    monkeypatch.setattr(two_levels, "CONTEXTS", {"quick": 500})
    found = failed(judge("noisy-two-levels", run_cells("noisy-two-levels")))
    assert "adjusted loss at noise level 1.5, N to infinity" in found
