"""Parts of a model: layers and heads of stacks, written out by hand."""

import numpy as np
import pytest

import iclimit
from iclimit.simulate.gdpp import gdpp_transformer
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.prompts import regression_tokens, sample_prompts

PROBLEM = iclimit.Problem(dim=3, context=12, noise_variance=0.1, scale=1)
OPTIONS = {"layout": "versatile2024", "context": 12}
ASKED = {"test_prompts": 400, "baselines": ["null", "one_step", "ridge"]}


@pytest.fixture(scope="module")
def stack():
    """Two layers of GD++, each of two heads with weights at random beside them."""
    model = gdpp_transformer([0.5, 0.7], [0.1], context=12, dim=3)
    rng = np.random.default_rng(0)
    noise = 1e-3 * rng.standard_normal((2, 2, *model.layers[0].lookup.shape))
    return [
        {"P": each.output + p, "Q": each.lookup + q}
        for each, (p, q) in zip(model.layers, noise, strict=True)
    ]


def columns(stack, **options):
    prompts = sample_prompts(PROBLEM, 50, rng=1)
    parts = iclimit.validation.stack_parts(stack, **OPTIONS, **options)
    return prompts, parts, parts(prompts.inputs, prompts.labels, prompts.query)


def test_layers_are_read_out_after_each(stack):
    prompts, parts, answers = columns(stack, by="layers")
    tokens = regression_tokens(prompts)
    layers = list(parts.layers)
    assert parts.names == ("layer 1", "layer 2")
    for number in (1, 2):
        assert np.allclose(answers[:, number - 1], prediction(tokens, layers[:number]), rtol=1e-12)


def test_heads_add_up_to_the_answer(stack):
    _, _, layers = columns(stack, by="layers")
    _, parts, heads = columns(stack, by="heads")
    assert parts.names[-1] == f"layer 2, head {heads.shape[1] // 2}"
    assert heads.sum(axis=1) == pytest.approx(layers[:, -1], rel=1e-10)


def test_each_part_has_a_verdict(stack):
    parts = iclimit.validation.stack_parts(stack, **OPTIONS)
    found = iclimit.validation.probe_parts(parts, PROBLEM, names=parts.names, **ASKED)
    assert found["layer 1"].verdict.names[0].startswith("descent(0.")
    assert found["layer 2"].verdict.names[0].startswith("gdpp(")
    errors = [row["error"] for row in found.rows()]
    assert errors[1] < errors[0]
    assert [line.split("  ")[0] for line in str(found).splitlines()[1:]] == list(parts.names)


def test_arguments_are_checked(stack):
    with pytest.raises(ValueError, match=r"by must be one of layers, heads, got 'rows'"):
        iclimit.validation.stack_parts(stack, by="rows", **OPTIONS)
    with pytest.raises(ValueError, match=r"names must be .* got \('a', 'a'\)"):
        iclimit.validation.probe_parts(lambda *p: p[1], PROBLEM, names=("a", "a"), **ASKED)
    with pytest.raises(ValueError, match=r"predict must return shape \(\d+, 1\), got \(\d+, 12\)"):
        iclimit.validation.probe_parts(lambda *p: p[1], PROBLEM, names=("a",), **ASKED)
