"""Gradient descent against a plain loop over tokens, held-out sequences and itself when cut."""

import math
from dataclasses import replace

import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.arrays import get_backend, seed_sequences
from iclimit.simulate.dynamics import gradient_descent
from iclimit.simulate.dynamics.attention_models import AttentionModel, MomentLoss, SequenceLoss
from iclimit.simulate.dynamics.gradient_descent import simulate_gradient_descent
from iclimit.simulate.prompts import draw_prompts
from iclimit.simulate.prompts.training_sets import draw_training_set
from iclimit.simulate.training import stability
from iclimit.simulate.training.loop import UnstableTraining

NUMPY = get_backend("numpy")
PROBLEM = Problem(dim=2, context=6, input_covariance=[0.7, 0.3], noise_variance=0.05, scale=1)
SHARED = np.array([1.0, -0.5])
MIXED = Problem(
    dim=2,
    context=6,
    input_covariance=[[0.7, 0.1], [0.1, 0.4]],
    fresh_fraction=0.5,
    shared_task=SHARED,
    scale=1,
)
Z_MAX = 4.5

PLAIN_LOOP = 1e-13
"""Rounding of 250 steps that magnify none of it (seen: 3e-15); at larger rates some weights swing
from step to step, and their rounding grows a million times."""


def sequence_losses(kind, weights, prompts, scale):
    """Squared errors (..., n) of attention over tokens; weights may have axes in front."""
    count, context, dim = prompts.inputs.shape
    tokens = np.zeros((count, context + 1, dim + 1))
    tokens[:, :-1, :-1] = prompts.inputs
    tokens[:, :-1, -1] = prompts.labels
    tokens[:, -1, :-1] = prompts.query
    if kind == "cubic":
        value = np.einsum("...hi,nt->...hnt", weights[0], tokens[:, :, -1])
        keys = tokens[:, :, :-1]
        looked_up = weights[1]
    elif kind == "merged":
        value = np.einsum("...hi,nti->...hnt", weights[0], tokens)
        keys = tokens
        looked_up = weights[1]
    else:
        value = np.einsum("...hi,nti->...hnt", weights[0], tokens)
        keys = tokens
        looked_up = np.einsum("...hri,...hrk->...hik", weights[1], weights[2])
    scores = np.einsum("...hik,nk->...hni", looked_up, prompts.query)
    scores = np.einsum("...hni,nti->...hnt", scores, keys)
    guess = np.einsum("...hnt,...hnt->...n", value, scores) / scale
    return (guess - prompts.query_label) ** 2


def plain_descent(model, prompts, start, rate, steps, scale):
    """Losses before each step and the final weights, gradients by complex steps."""
    sizes = np.cumsum([each.size for each in start])
    flat = np.concatenate([each.reshape(-1) for each in start])
    losses = []
    for step in range(steps + 1):
        moved = flat + 1e-30j * np.eye(flat.size)
        parts = [
            part.reshape(-1, *each.shape)
            for part, each in zip(np.split(moved, sizes[:-1], axis=1), start, strict=True)
        ]
        found = np.mean(sequence_losses(model.kind, parts, prompts, scale), axis=-1)
        losses.append(found[0].real)
        if step < steps:
            flat = flat - rate * found.imag / 1e-30
    parts = np.split(flat, sizes[:-1])
    return np.array(losses), [p.reshape(e.shape) for p, e in zip(parts, start, strict=True)]


def drawn(problem, count, model, scale, rng):
    """Training set and initial weights of the first repeat."""
    data, initial, _ = seed_sequences(seed_sequences(rng, 1)[0], 3)
    prompts = draw_training_set(problem, NUMPY, NUMPY.generator(data), count)
    return prompts, model.random_weights(np.random.default_rng(initial), scale)


def assert_same(found, expected):
    """The same training to the last bit."""
    np.testing.assert_array_equal(found.recorded_at, expected.recorded_at)
    np.testing.assert_array_equal(found.losses, expected.losses)
    assert found.measures.keys() == expected.measures.keys()
    for name, losses in found.measures.items():
        np.testing.assert_array_equal(losses, expected.measures[name])
    for weight, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(weight, other)


@pytest.mark.machine
@pytest.mark.parametrize(
    ("kind", "rank", "rate", "init_scale"),
    [
        ("merged", 1, 0.08, 0.05),
        ("cubic", 1, 0.08, 0.05),
        ("separate", 1, 0.12, 0.3),
        ("separate", 2, 0.12, 0.3),
    ],
)
@pytest.mark.parametrize("problem", [PROBLEM, MIXED], ids=["icl", "mixed"])
def test_moments_equal_a_loop_over_tokens(problem, kind, rank, rate, init_scale):
    # Each model with either sum over tokens.
    normalization = "sum" if (problem is MIXED) == (kind in ("merged", "separate")) else "mean"
    model = AttentionModel(kind, 2, 2, rank)
    scale = 6 if normalization == "mean" else 1
    if normalization == "sum":
        # Features are 6 times as large: smaller weights, which move less, give the same losses.
        shrink = 6 ** (-1 / (3 if kind == "separate" else 2))
        rate = rate * shrink**2
        init_scale = init_scale * shrink
    prompts, start = drawn(problem, 30, model, init_scale, 1)
    losses, weights = plain_descent(model, prompts, start, rate, 250, scale)
    run = simulate_gradient_descent(
        problem,
        model=kind,
        heads=2,
        rank=rank,
        init_scale=init_scale,
        training_set=30,
        learning_rate=rate,
        steps=250,
        record=1,
        normalization=normalization,
        rng=1,
    )
    assert losses[-1] < 0.75 * losses[0]  # it has dropped
    np.testing.assert_allclose(run.losses[0], losses, rtol=0, atol=PLAIN_LOOP * losses[0])
    for found, expected in zip(run.weights, weights, strict=True):
        np.testing.assert_allclose(found[0], expected, rtol=0, atol=PLAIN_LOOP)


@pytest.mark.machine
def test_records():
    settings = {"training_set": 20, "learning_rate": 0.05, "rng": 2, "repeats": 3}
    every = simulate_gradient_descent(PROBLEM, steps=25, record=1, **settings)
    some = simulate_gradient_descent(PROBLEM, steps=25, record=10, **settings)
    np.testing.assert_array_equal(every.recorded_at, np.arange(26))
    np.testing.assert_array_equal(some.recorded_at, [0, 10, 20, 25])
    np.testing.assert_allclose(some.times, [0, 1, 2, 2.5])
    np.testing.assert_array_equal(some.losses, every.losses[:, [0, 10, 20, 25]])
    assert every.losses.shape == (3, 26)
    assert [each.shape for each in some.weights] == [(3, 8, 3), (3, 8, 3, 2)]
    assert some.measures == {}
    assert not some.interrupted
    last = simulate_gradient_descent(PROBLEM, steps=25, record=25, **settings)
    np.testing.assert_array_equal(last.recorded_at, [0, 25])
    np.testing.assert_array_equal(last.losses[:, -1], every.losses[:, -1])


@pytest.mark.parametrize("batch", [None, 5])
def test_repeats_extend_fewer(batch):
    settings = {"training_set": 20, "batch": batch, "learning_rate": 0.05, "steps": 20}
    settings |= {"record": 5}
    many = simulate_gradient_descent(PROBLEM, repeats=3, rng=3, **settings)
    few = simulate_gradient_descent(PROBLEM, repeats=2, rng=np.random.SeedSequence(3), **settings)
    np.testing.assert_allclose(many.losses[:2], few.losses, rtol=1e-12)
    assert len(np.unique(many.losses[:, 0])) == 3
    other = simulate_gradient_descent(PROBLEM, repeats=2, rng=4, **settings)
    assert np.all(other.losses != few.losses)


@pytest.mark.parametrize("batch", [1, 7])
def test_batches_are_draws_with_replacement(batch):
    # With a tiny rate the weights stand still, and the losses are those of batches at the start.
    settings = {"training_set": 20, "learning_rate": 1e-30, "init_scale": 0.4, "rng": 5}
    run = simulate_gradient_descent(PROBLEM, batch=batch, steps=2000, record=1, **settings)
    prompts, start = drawn(PROBLEM, 20, AttentionModel("merged", 2, 8), 0.4, 5)
    each = sequence_losses("merged", start, prompts, 6)
    losses = run.losses[0, 1:]
    assert len(losses) == 2000
    deviation = np.std(each) / math.sqrt(batch)
    assert abs(np.mean(losses) - np.mean(each)) < Z_MAX * deviation / math.sqrt(2000)
    fourth = np.mean((losses - np.mean(each)) ** 4) / deviation**4
    spread = math.sqrt((fourth - 1) / 2000)
    assert abs(np.mean((losses - np.mean(each)) ** 2) / deviation**2 - 1) < Z_MAX * spread
    if batch == 1:
        counts = [np.sum(np.isclose(losses, value, rtol=1e-9)) for value in each]
        assert sum(counts) == 2000
        assert np.sum((np.array(counts) - 100) ** 2) / 100 < 19 + Z_MAX * math.sqrt(2 * 19)


def test_every_repeat_and_step_has_its_own_batch(monkeypatch):
    batches = []
    call = SequenceLoss.__call__

    def noted(this, weights, chosen):
        batches.extend(tuple(row) for row in chosen.tolist())
        return call(this, weights, chosen)

    monkeypatch.setattr(SequenceLoss, "__call__", noted)
    for rng in (13, 14):
        simulate_gradient_descent(PROBLEM, training_set=100, batch=6, steps=10, repeats=3, rng=rng)
    assert len(batches) == len(set(batches)) == 2 * 3 * 11


@pytest.mark.parametrize("kind", ["merged", "cubic"])
def test_losses_on_new_sequences(kind):
    setting = {"model": kind, "training_set": 200, "init_scale": 0.1, "learning_rate": 0.02}
    run = simulate_gradient_descent(MIXED, **setting, steps=400, tests=True, rng=7)
    weights = [each[0] for each in run.weights]
    generator = np.random.default_rng(8)
    random = draw_prompts(
        replace(MIXED, fresh_fraction=1.0, shared_task=None), NUMPY, generator, 20_000
    )
    shared = draw_prompts(replace(MIXED, fresh_fraction=0.0), NUMPY, generator, 20_000)
    shared = replace(shared, labels=generator.standard_normal(shared.labels.shape))
    assert list(run.measures) == ["icl", "iwl"]
    for name, prompts in (("icl", random), ("iwl", shared)):
        errors = sequence_losses(kind, weights, prompts, 6)
        assert run.measures[name].shape == run.losses.shape
        z = (np.mean(errors) - run.measures[name][0, -1]) / (np.std(errors) / math.sqrt(20_000))
        assert abs(z) < Z_MAX
    assert run.measures["icl"][0, -1] < 0.9 * run.measures["icl"][0, 0]
    only = simulate_gradient_descent(PROBLEM, training_set=50, steps=10, tests=True, rng=7)
    assert list(only.measures) == ["icl"]


def test_the_law_is_the_limit_of_training_sets():
    settings = {"init_scale": 0.05, "learning_rate": 0.05, "steps": 300, "rng": 9, "heads": 4}
    law = simulate_gradient_descent(PROBLEM, training_set=math.inf, tests=True, **settings)
    np.testing.assert_allclose(law.losses, law.measures["icl"], rtol=1e-12)
    gaps = [
        np.max(
            np.abs(
                simulate_gradient_descent(PROBLEM, training_set=n, **settings).losses - law.losses
            )
        )
        for n in (100, 10_000, 100_000)
    ]
    assert gaps[0] > 3 * gaps[1] > 3 * gaps[2]
    assert gaps[2] < 0.02 * law.losses[0, 0]


class Cut:
    """Raises what Ctrl-C raises at a call of a loss."""

    def __init__(self, patch):
        self.patch = patch
        self.calls = {kind: kind.__call__ for kind in (MomentLoss, SequenceLoss)}

    def at(self, number):
        done = []
        for kind, call in self.calls.items():

            def counted(this, *args, call=call):
                done.append(1)
                if len(done) == number:
                    raise KeyboardInterrupt
                return call(this, *args)

            self.patch.setattr(kind, "__call__", counted)


@pytest.fixture
def cut(monkeypatch):
    return Cut(monkeypatch)


CHECKED = {
    "training_set": 20,
    "init_scale": 0.2,
    "learning_rate": 0.05,
    "steps": 60,
    "record": 7,
    "repeats": 2,
    "rng": 10,
    "tests": True,
}


def test_records_take_memory_only_as_they_come(cut):
    """A table for all the steps would not fit into any memory."""
    cut.at(301)
    run = simulate_gradient_descent(PROBLEM, training_set=math.inf, steps=10**15, record=1, rng=0)
    assert run.interrupted
    np.testing.assert_array_equal(run.recorded_at, np.arange(300))
    assert run.losses.shape == (1, 300)
    assert np.all(np.diff(run.losses) < 0)


def test_more_steps_extend_a_training(tmp_path):
    path = tmp_path / "run"
    settings = CHECKED | {"record": 10}  # the last step is recorded, and the first of what follows
    long = simulate_gradient_descent(PROBLEM, **settings | {"steps": 100})
    simulate_gradient_descent(PROBLEM, checkpoint=path, **settings)
    more = simulate_gradient_descent(PROBLEM, checkpoint=path, **settings | {"steps": 100})
    assert_same(more, long)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"steps must be at least those of .*run, 100, got 60"):
        simulate_gradient_descent(PROBLEM, checkpoint=path, **settings)
    assert path.read_bytes() == before


@pytest.mark.parametrize("batch", [None, 10])
def test_unstable_trainings(batch, tmp_path):
    settings = CHECKED | {"batch": batch, "learning_rate": 0.6, "record": 1}
    with pytest.raises(
        UnstableTraining,
        match=r"diverged: the loss of repeat [01] is .* after \d+ steps: try a smaller",
    ) as caught:
        simulate_gradient_descent(MIXED, checkpoint=tmp_path / "run", **settings)
    curves = caught.value.curves
    step = int(str(caught.value).split(" steps")[0].split()[-1])
    assert 2 < step < 60
    np.testing.assert_array_equal(curves.recorded_at, np.arange(step))
    assert curves.losses.shape == curves.measures["iwl"].shape == (2, step)
    assert np.all(np.isfinite(curves.losses))
    assert np.all(np.isfinite(curves.measures["iwl"]))
    until = simulate_gradient_descent(MIXED, **settings | {"steps": step - 1})
    np.testing.assert_array_equal(until.losses, curves.losses)


def test_infinite_losses_and_large_initial_weights():
    message = r"is nan after 1 steps: try a smaller learning_rate"
    with pytest.raises(UnstableTraining, match=message):
        simulate_gradient_descent(PROBLEM, **CHECKED | {"learning_rate": 1e200})
    with pytest.raises(
        UnstableTraining, match=r"diverged: .* after 0 steps: .* init_scale"
    ) as caught:
        simulate_gradient_descent(PROBLEM, **CHECKED | {"init_scale": 1000.0})
    assert caught.value.curves.losses.shape == (2, 0)


FOUR = Problem(dim=4, context=31, input_covariance=[0.4, 0.3, 0.2, 0.1], scale=1)
LAW = {"training_set": math.inf, "steps": 1000, "rng": 0}
SEPARATE = {"model": "separate", "init_scale": 0.1}
SWINGING = (
    r"learning_rate = .* is too large: the loss of repeat \d stays between .* does not vanish"
)


def reversal(settings, steps):
    """Cosine of the last two of so many steps, and length of the last over that before."""
    ends = [
        np.concatenate([each.reshape(-1) for each in weights])
        for weights in (
            final_weights(FOUR, **settings | {"steps": at}) for at in range(steps - 2, steps + 1)
        )
    ]
    first, second = np.diff(ends, axis=0)
    lengths = np.linalg.norm(first), np.linalg.norm(second)
    return float(first @ second / lengths[0] / lengths[1]), float(lengths[1] / lengths[0])


def final_weights(problem, **settings):
    try:
        return simulate_gradient_descent(problem, **settings).weights
    except UnstableTraining as error:
        return error.curves.weights


@pytest.mark.parametrize(
    "changes", [{"learning_rate": 3.0}, SEPARATE | {"learning_rate": 2.5, "heads": 4}]
)
def test_swings_that_never_end(changes, tmp_path):
    settings = LAW | changes
    cosine, ratio = reversal(settings, 1000)
    if changes == {"learning_rate": 3.0}:
        assert cosine < -0.8  # four steps, or two pairs that nearly repeat
    else:
        assert cosine == pytest.approx(-1, abs=1e-4)
        assert ratio == pytest.approx(1, rel=1e-4)
    for record in (1, 7, 10):
        with pytest.raises(UnstableTraining, match=SWINGING) as caught:
            simulate_gradient_descent(FOUR, **settings | {"record": record})
        curves = caught.value.curves
        expected = np.union1d(np.arange(0, 1001, record), 1000)
        np.testing.assert_array_equal(curves.recorded_at, expected)
        words = str(caught.value).replace(",", "").split()
        low, high = (float(words[words.index(key) + 1]) for key in ("between", "and"))
        since = int(words[words.index("from") + 1])
        late = curves.losses[0, curves.recorded_at >= since]
        assert low == pytest.approx(late.min(), rel=5e-3)
        assert high == pytest.approx(late.max(), rel=5e-3)
        assert high < 0.5 < curves.losses[0, 0]
        assert 20 < since <= 500
    # What is continued from a checkpoint is judged the same.
    path = tmp_path / "run"
    first = simulate_gradient_descent(FOUR, checkpoint=path, **settings | {"steps": 50})
    assert len(first.recorded_at) == 6
    for _ in range(2):
        with pytest.raises(UnstableTraining) as again:
            simulate_gradient_descent(FOUR, checkpoint=path, **settings)
        assert str(again.value) == str(caught.value)
        assert_same(again.value.curves, curves)


def test_many_runs_swing():
    settings = LAW | {"learning_rate": 2.5, "repeats": 3}
    with pytest.raises(UnstableTraining, match="the loss of repeat 0 stays") as caught:
        simulate_gradient_descent(FOUR, **settings)
    assert caught.value.curves.losses.shape == (3, 101)


@pytest.mark.parametrize("steps", [200, 300, 1000])
def test_swings_that_shrink_are_stable(steps):
    # The edge of stability is near 2.37.
    settings = LAW | {"learning_rate": 2.34, "steps": steps}
    for record in (1, 10):
        run = simulate_gradient_descent(FOUR, **settings | {"record": record})
        assert run.losses[0, -1] < 0.16
    cosine, ratio = reversal(settings, steps)
    assert cosine < -0.9
    assert 0.95 < ratio < 1


def test_swings_that_recover():
    settings = LAW | SEPARATE | {"learning_rate": 2.0, "heads": 4}
    early = simulate_gradient_descent(FOUR, **settings | {"steps": 300, "record": 1})
    assert np.min(np.diff(early.losses[0, 150:])) < -0.01 < 0.01 < np.max(np.diff(early.losses[0]))
    assert simulate_gradient_descent(FOUR, **settings).losses[0, -1] < 0.137


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"normalization": "sum", "init_scale": 1e-6},
        {"normalization": "sum", "init_scale": 1e-2, "model": "separate", "learning_rate": 0.02},
        {"learning_rate": 2.0, "training_set": math.inf, "steps": 300},
        {"learning_rate": 2.0, "training_set": math.inf, "record": 1},
        {"learning_rate": 0.3, "training_set": 1000, "steps": 1000},  # swings that recover
    ],
)
def test_stable_trainings(changes):
    steps = changes.get("steps", 2000)
    run = simulate_gradient_descent(FOUR, rng=0, **changes | {"steps": steps})
    assert run.recorded_at[-1] == steps


def test_runs_that_are_not_asked_whether_they_settle(cut, monkeypatch):
    settings = LAW | {"learning_rate": 3.0}
    few = simulate_gradient_descent(FOUR, **settings | {"record": 56})
    assert len(few.recorded_at) == stability.LEAST_RECORDS - 1
    cut.at(990)
    assert simulate_gradient_descent(FOUR, **settings).interrupted
    cut.at(math.inf)
    monkeypatch.setattr(gradient_descent, "unsettled_since", None)
    batches = {"training_set": 1000, "batch": 900, "learning_rate": 0.3}
    simulate_gradient_descent(FOUR, **settings | batches)


def test_made_curves_that_settle():
    at = np.arange(0, 1000, 10)
    ones = np.ones(100)

    def since(losses, falls):
        return stability.unsettled_since(at, ones * losses, ones * falls, 990, 1.0)

    assert since(0.5, 0.1) == 0
    assert since(np.where(at < 200, 1.0, 0.5), 0.1) == 200
    assert since(0.5, 0.04) is None
    assert (
        since(0.5, np.where((at > 700) & (at < 850), 0.1, 0.0)) is None
    )  # a swing that recovered
    assert since(0.5, np.where(at == 990, 100, 1e-9)) is None  # a drop caught by one record
    assert since(0.5, 0.1 * 0.999**at) is None
    assert since(-1e-17, 1e-30) is None  # a loss of zero, rounded


def test_minibatches_need_no_population_moments(monkeypatch):
    monkeypatch.setattr(gradient_descent, "population_moments", pytest.fail)
    simulate_gradient_descent(MIXED, training_set=20, batch=5, steps=10, rng=0)
    wide = Problem(
        dim=len(np.ones(60)), context=4, input_covariance=np.ones(60), scale=1
    )  # moments of 10^10 entries
    simulate_gradient_descent(wide, training_set=70, batch=5, heads=2, steps=10, rng=0)


def test_arguments_that_do_not_fit_each_other():
    for changes, message in (
        ({"rank": 2}, "rank must be 1 for model 'merged', got 2"),
        ({"model": "separate", "rank": 3}, "rank must be at most the dimension 2, got 3"),
        ({"training_set": 2}, "training_set must be > 2 to be standardised, got 2"),
        ({"batch": 21}, "batch must be at most a finite training_set, got 21 of 20"),
        ({"batch": 5, "training_set": math.inf}, "a finite training_set, got 5 of inf"),
    ):
        with pytest.raises(ValueError, match=message):
            simulate_gradient_descent(PROBLEM, **CHECKED | changes)
