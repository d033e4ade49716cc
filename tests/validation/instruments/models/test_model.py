"""Models that somebody else wrote: what is refused, and where the message says the fault is."""

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit.problem import Problem
from iclimit.simulate.prompts import sample_prompts
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.model import Model, ask, ask_all
from iclimit.validation.instruments.models.sections import plan_sections

PROBLEM = Problem(dim=3, context=6, noise_variance=0.2, scale=1)
DRAWN = sample_prompts(PROBLEM, 50, rng=0)


def one_step(inputs, labels, query):
    return np.einsum("nlk,nl,nk->n", inputs, labels, query) / labels.shape[1]


def running_mean(inputs, labels):  # noqa: ARG001
    """Mean of the labels before each position."""
    before = np.concatenate([0 * labels[:, :1], labels[:, :-1]], axis=1)
    return np.cumsum(before, axis=1) / np.maximum(np.arange(labels.shape[1]), 1)


@pytest.mark.parametrize("batch", [None, 1, 7, 50, 1000])
def test_batches_do_not_change_answers(batch):
    sizes = []

    def predict(inputs, labels, query):
        sizes.append(len(query))
        assert all(each.flags.c_contiguous and each.flags.writeable for each in (inputs, query))
        return one_step(inputs, labels, query)

    model = Model(predict, batch=batch)
    answers = model.answer(DRAWN)
    model.check(DRAWN)
    assert max(sizes) == min(batch or 50, 50)
    assert np.allclose(answers, one_step(DRAWN.inputs, DRAWN.labels, DRAWN.query), atol=1e-12)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.longdouble, list])
def test_real_answers_of_any_precision(kind):
    def predict(inputs, labels, query):
        answers = one_step(inputs, labels, query)
        return answers.tolist() if kind is list else answers.astype(kind)

    model = Model(predict)
    model.check(DRAWN)
    assert model.answer(DRAWN).dtype == np.float64
    exact = one_step(DRAWN.inputs, DRAWN.labels, DRAWN.query)
    assert np.allclose(model.answer(DRAWN), exact, rtol=1e-3)


def changed(index, value):
    """A model whose answer to one prompt is a given value."""

    def predict(inputs, labels, query):
        answers = one_step(inputs, labels, query)
        answers[np.all(query == DRAWN.query[index], axis=1)] = value
        return answers

    return predict


@pytest.mark.parametrize(
    ("returned", "error", "message"),
    [
        (lambda y: y[:, 0].astype(int), TypeError, "floating-point numbers, got int64"),
        (lambda y: y[:, 0] > 0, TypeError, "floating-point numbers, got bool"),
        (lambda y: y[:, 0] * 1j, TypeError, "floating-point numbers, got complex128"),
        (lambda y: y[:, 0].astype(object), TypeError, "floating-point numbers, got object"),
        (lambda y: y[:, 0].astype(str), TypeError, "floating-point numbers, got <U"),
        (lambda _: None, TypeError, "floating-point numbers, got object"),
        (lambda y: y[:, :1], ValueError, r"\(10,\), got \(10, 1\): return predictions\[:, 0\]"),
        (lambda y: y, ValueError, r"\(10,\), got \(10, 6\)$"),
        (lambda y: np.pad(y, ((0, 0), (0, 1))), ValueError, r"\(10, 7\): .*form='positions'"),
        (lambda y: y[:-1, 0], ValueError, r"\(10,\), got \(9,\)$"),
        (lambda y: y.sum(), ValueError, r"\(10,\), got \(\)$"),
        (lambda y: (y, y[:, 0]), TypeError, "that NumPy can read, got builtins.tuple"),
        (lambda y: np.ma.masked_less(y[:, 0], 0), ValueError, "predictions must have no masked"),
    ],
)
def test_what_is_no_array_of_answers(returned, error, message):
    model = Model(lambda _, labels, __: returned(labels), batch=10)
    with pytest.raises(error, match=message):
        model.answer(DRAWN)


def test_the_first_answer_that_is_not_finite_is_named():
    for value in (np.nan, np.inf, -np.inf, 1e200):
        message = f"finite numbers, got {value:g} for prompt 1023 of section 'permuted'".replace(
            "+", r"\+"
        )
        with pytest.raises(ValueError, match=message):
            Model(changed(23, value), batch=10).answer(DRAWN, section="permuted", first=1000)


def test_arrays_of_other_libraries():
    class Tensor:
        """Array that needs its gradient dropped before NumPy can read it."""

        def __array__(self, *_, **__):
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")

        def detach(self): ...

        @property
        def __cuda_array_interface__(self):
            raise RuntimeError("Can't get it on Variable that requires grad.")

    class DeviceArray:
        """Array in the memory of a GPU."""

        def __init__(self, values):
            self.values = values
            self.__cuda_array_interface__ = {"version": 3}

        def get(self):
            return self.values

    message = r"requires grad.*: return predictions\.detach\(\)\.cpu\(\)\.float"
    type_error(message, Model(lambda *_: Tensor()).answer, DRAWN)
    on_device = Model(lambda *arrays: DeviceArray(one_step(*arrays)))
    assert np.allclose(on_device.answer(DRAWN), Model(one_step).answer(DRAWN))


@pytest.mark.parametrize("name", ["inputs", "labels", "query"])
def test_changed_arguments_are_named(name):
    def predict(inputs, labels, query):
        asked = {"inputs": inputs, "labels": labels, "query": query}
        answers = one_step(**asked)
        asked[name][np.all(query == DRAWN.query[13], axis=1)] += 1
        return answers

    with pytest.raises(ValueError, match=f"got other {name} for prompt 13 of section 'fresh'"):
        Model(predict, batch=4).answer(DRAWN)


def test_errors_of_the_model_say_where_they_were_raised():
    def predict(inputs, labels, query):
        if np.any(query == DRAWN.query[30]):
            raise KeyError("layer")
        return one_step(inputs, labels, query)

    with pytest.raises(KeyError, match="layer") as caught:
        Model(predict, batch=20).answer(DRAWN, section="inputs:half")
    found = ["raised by predict for prompts 20 to 39 of section 'inputs:half'"]
    assert caught.value.__notes__ == found
    type_error("positional arguments", Model(running_mean).answer, DRAWN)


def test_random_answers():
    generator = np.random.default_rng(0)

    def predict(inputs, labels, query):
        answers = one_step(inputs, labels, query)
        return answers + 1e-3 * (np.arange(len(query)) >= 5) * generator.standard_normal(
            len(query)
        )

    message = "the same batch alike, got .* for prompt 5 of section 'fresh': dropout"
    value_error(message, Model(predict).check, DRAWN)
    Model(predict, deterministic=False).check(DRAWN)


def test_rounding_of_a_gpu_is_allowed():
    generator = np.random.default_rng(0)

    def predict(inputs, labels, query):
        return one_step(inputs, labels, query) * (1 + 3e-7 * generator.standard_normal(len(query)))

    Model(predict).check(DRAWN)


def test_batch_statistics():
    def predict(inputs, labels, query):
        return one_step(inputs, labels, (query - query.mean(axis=0)) / query.std(axis=0))

    message = "in every batch, got .* in a batch of 50 and .* in one of 8 for prompt 0 of section"
    value_error(message, Model(predict).check, DRAWN)
    Model(predict, deterministic=False).check(DRAWN)


def test_answers_that_depend_on_the_place_in_the_batch():
    def predict(inputs, labels, query):
        return one_step(inputs, labels, query) * np.linspace(1, 2, len(query))

    value_error("for prompt 0 of section", Model(predict, batch=3).check, DRAWN)


def test_answers_per_position():
    model = Model(running_mean, batch=20, per_position=True)
    model.check(DRAWN)
    answers = model.answer(DRAWN)
    assert answers.shape == (50, 7)
    assert np.allclose(answers[:, 3], DRAWN.labels[:, :3].mean(axis=1))
    late = Model(lambda *arrays: running_mean(*arrays)[:, 1:], per_position=True)
    value_error(r"shape \(50, 7\), got \(50, 6\)", late.answer, DRAWN)

    def broken(inputs, labels):
        answers = running_mean(inputs, labels)
        answers[7, 4] = np.nan
        return answers

    with pytest.raises(ValueError, match="got nan for position 4 of prompt 7 of section 'fresh'"):
        Model(broken, per_position=True).answer(DRAWN)


def test_models_that_look_ahead():
    for predict, position in (
        (lambda _, labels: np.cumsum(labels, axis=1), 3),
        (lambda inputs, labels: running_mean(inputs, labels) + labels.sum(axis=1)[:, None], 0),
        (lambda inputs, labels: np.roll(inputs[:, :, 0], -1, axis=1) + 0 * labels, 3),
    ):
        message = f"another answer at position {position} of prompt 0 .* labels from position 3 on"
        value_error(message, Model(predict, per_position=True).check, DRAWN)


def test_wrong_settings():
    type_error("predict must be a function, got 'ridge'", Model, "ridge")
    value_error("batch must be an integer >= 1, got 0", Model, one_step, batch=0)


def sections():
    return plan_sections(
        Problem(dim=20, context=30, noise_variance=0.5, scale=1), test_prompts=2000, rng=1
    )


def test_answers_of_the_model_and_of_baselines():
    asked = sections()
    exact = Baseline("exact", "the target", lambda drawn: drawn.target)
    found = ask_all(Model(one_step, batch=300), [exact], asked)
    assert list(found) == [section.name for section in asked]
    for section in asked:
        answers = found[section.name]
        assert answers.section == section.name
        assert answers.model.shape == answers.noise_variance.shape == (len(section),)
        assert np.array_equal(answers.baselines["exact"], answers.target)
    assert found["fresh"].error("exact").mean == 0.5
    # One step at the rate 1 has the error (d + 1) / N of the task, times d, and noise twice.
    assert abs(found["fresh"].error().z(20 * 21 / 30 + 0.5 * (1 + 20 / 30))) < 4


def test_progress_is_shown_when_asked_for(capsys):
    ask_all(Model(one_step), [], sections()[:2], progress=True)
    assert "permuted: 100%" in capsys.readouterr().err
    ask_all(Model(one_step), [], sections()[:2])
    assert capsys.readouterr().err == ""


def test_a_section_is_asked_in_blocks():
    section = sections()[0]
    numbers = []

    class Counting:
        def answer(self, drawn, *, section, first):
            numbers.append((section, first, len(drawn)))
            return np.zeros(len(drawn))

        def check(self, drawn, *, section): ...

    ask(Counting(), [], section)
    assert [first for _, first, _ in numbers] == [0, *np.cumsum([n for *_, n in numbers])[:-1]]
    assert len(numbers) > 1


def test_models_per_position_are_checked_when_they_are_probed():
    ahead = Model(lambda _, labels: labels + 0.0, per_position=True)
    value_error("is attention causal", ask_all, ahead, [], sections())
