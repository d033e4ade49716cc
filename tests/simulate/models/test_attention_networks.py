"""Attention networks against a second implementation, which is differentiated by autograd."""

import math
from typing import Any

import array_api_strict
import autograd
import autograd.numpy as anp
import numpy as np
import pytest

from iclimit.problem import Problem
from iclimit.simulate.networks import AttentionNetwork, token_sensitivities
from iclimit.simulate.prompts import Prompts, sample_prompts

PROMPTS = sample_prompts(Problem(dim=3, context=4, scale=1), 6, rng=0)
NETWORKS: dict[str, AttentionNetwork] = {
    "one layer": AttentionNetwork(3),
    "linear layers": AttentionNetwork(3, layers=2, attention="linear"),
    "embedded": AttentionNetwork(3, layers=2, width=5),
    "normalised": AttentionNetwork(3, layers=2, layer_norm=True),
    "transformer": AttentionNetwork(
        3, layers=2, heads=2, width=4, mlp=7, layer_norm=True, include_query=True
    ),
    "recurrent": AttentionNetwork(3, layers=3, heads=2, shared=True, layer_norm=True),
    "copying": AttentionNetwork(
        3, layers=2, attention=("softmax", "linear"), tokens="separate", positions=4
    ),
    "deep embedding": AttentionNetwork(3, attention="linear", width=5, embedding_mlp=6),
}
ROUNDING = 1e-12  # of the largest entry; the largest seen is 1e-15


def start(network: AttentionNetwork) -> dict[str, np.ndarray]:
    """Weights at which no scale is one, and no bias or offset zero."""
    rng = np.random.default_rng(1)
    weights = network.initial(rng)
    return {name: each + 0.3 * rng.standard_normal(each.shape) for name, each in weights.items()}


def layer_norm(e: Any, scale: Any, offset: Any) -> Any:
    mean, variance = anp.mean(e, axis=-1), anp.var(e, axis=-1)
    return (e - mean[..., None]) / anp.sqrt(variance[..., None] + 1e-5) * scale + offset


def perceptron(e: Any, w: dict[str, Any], name: str, *index: int) -> Any:
    inner = anp.einsum("nti,ij->ntj", e, w[f"{name}_in"][index]) + w[f"{name}_in_bias"][index]
    inner = inner / (1 + anp.exp(-2 * math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3)))
    return anp.einsum("nti,ij->ntj", inner, w[f"{name}_out"][index]) + w[f"{name}_out_bias"][index]


def tokens_of(network: AttentionNetwork, x: Any, y: Any, query: Any) -> Any:
    n, context, dim = x.shape
    rows = []
    for i in range(context):
        if network.tokens == "pairs":
            rows.append(anp.concatenate([x[:, i], y[:, i, None]], axis=1))
        else:
            rows.append(x[:, i])
            rows.append(anp.concatenate([anp.zeros((n, dim - 1)), y[:, i, None]], axis=1))
    pad = anp.zeros((n, 1 if network.tokens == "pairs" else 0))
    return anp.stack([*rows, anp.concatenate([query, pad], axis=1)], axis=1)


def reference(
    network: AttentionNetwork, w: dict[str, Any], e: Any, layers: int | None = None
) -> Any:
    """Tokens after some layers, each of them in full and head by head; None: the predictions."""
    n = e.shape[0]
    if network.width:
        e = anp.einsum("nti,ij->ntj", e, w["embedding"]) + w["embedding_bias"]
    if network.embedding_mlp:
        e = e + perceptron(e, w, "embedding_mlp")
    if network.positions:
        at = anp.zeros((n, e.shape[1], network.positions))
        for p in range(e.shape[1]):
            for k in range(network.positions):
                angle = p / 10000 ** (k // 2 * 2 / network.positions)
                at[:, p, k] = math.cos(angle) if k % 2 else math.sin(angle)
        e = anp.concatenate([e, at], axis=2)
    m = e.shape[2]
    for layer in range(network.layers if layers is None else layers):
        i = 0 if network.shared else layer
        read = e
        if network.layer_norm:
            read = layer_norm(e, w["attention_scale"][i], w["attention_offset"][i])
        for h in range(network.heads):
            made = {}
            for name in ("query", "key", "value"):
                made[name] = anp.einsum("nti,ij->ntj", read, w[name][i][:, h * m : (h + 1) * m])
                if network.width:
                    made[name] = made[name] + w[f"{name}_bias"][i][h * m : (h + 1) * m]
            scores = anp.einsum("nti,nsi->nts", made["query"], made["key"])
            if network.kinds[layer] == "softmax":
                scores = anp.exp(scores / math.sqrt(m))
            if not network.include_query:
                scores = scores[:, :, :-1]
            if network.kinds[layer] == "softmax":
                scores = scores / anp.sum(scores, axis=2)[:, :, None]
            mixed = anp.einsum("nts,nsi->nti", scores, made["value"][:, : scores.shape[2]])
            e = e + anp.einsum("nti,ij->ntj", mixed, w["output"][i][h * m : (h + 1) * m])
        if network.width:
            e = e + w["output_bias"][i]
        if network.mlp:
            read = e
            if network.layer_norm:
                read = layer_norm(e, w["mlp_scale"][i], w["mlp_offset"][i])
            e = e + perceptron(read, w, "mlp", i)
    if layers is not None:
        return e
    if network.width:
        return anp.einsum("ni,ij->n", e[:, -1], w["readout"]) + w["readout_bias"][0]
    return -e[:, -1, -1]


def assert_equal(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=ROUNDING * max(1.0, float(np.max(np.abs(expected))))
    )


@pytest.mark.parametrize("name", NETWORKS)
def test_predictions_and_gradients(name: str) -> None:
    network = NETWORKS[name]
    weights, target = start(network), PROMPTS.target

    def predict(w: dict[str, Any], query: Any) -> Any:
        return reference(network, w, tokens_of(network, PROMPTS.inputs, PROMPTS.labels, query))

    def loss(w: dict[str, Any], query: Any) -> Any:
        return anp.mean((predict(w, query) - target) ** 2)

    def total(query: Any) -> Any:
        return anp.sum(predict(weights, query))

    found, gradient = network.loss_and_gradient(weights, PROMPTS)
    assert_equal(found, loss(weights, PROMPTS.query))
    expected = autograd.grad(loss)(weights, PROMPTS.query)
    assert gradient.keys() == expected.keys() == network.shapes.keys()
    for part, value in expected.items():
        assert_equal(gradient[part], value)
    assert_equal(network.query_gradients(weights, PROMPTS), autograd.grad(total)(PROMPTS.query))


@pytest.mark.parametrize("name", ["copying", "transformer", "deep embedding"])
def test_sensitivities_of_the_first_layer(name: str) -> None:
    network = NETWORKS[name]
    weights = start(network)
    tokens = tokens_of(network, PROMPTS.inputs, PROMPTS.labels, PROMPTS.query)
    count = tokens.shape[1]
    norms = np.empty((count - 2, count))
    for row in range(count - 2):
        by_tokens = autograd.grad(
            lambda e, j=row: anp.sum(reference(network, weights, e, 1)[:, j])
        )
        norms[row] = np.linalg.norm(by_tokens(tokens).mean(axis=0), axis=1)
    rest = [norms[j, k] for j in range(count - 2) for k in range(count) if k not in (j, j + 1)]
    found = token_sensitivities(network, weights, PROMPTS)
    assert found.own == pytest.approx(np.mean(np.diagonal(norms)), rel=ROUNDING)
    assert found.following == pytest.approx(np.mean(np.diagonal(norms, 1)), rel=ROUNDING)
    assert found.others == pytest.approx(np.mean(rest), rel=ROUNDING)


@pytest.mark.parametrize("name", ["transformer", "copying", "deep embedding", "recurrent"])
def test_arrays_of_the_standard(name: str) -> None:
    network = NETWORKS[name]
    weights = start(network)
    strict = {part: array_api_strict.asarray(each) for part, each in weights.items()}
    prompts = Prompts(*map(array_api_strict.asarray, vars(PROMPTS).values()))
    _, expected = network.loss_and_gradient(weights, PROMPTS)
    _, gradient = network.loss_and_gradient(strict, prompts)
    for part, value in expected.items():
        assert_equal(np.from_dlpack(gradient[part]), value)
    found = token_sensitivities(network, strict, prompts)
    assert found.own == pytest.approx(token_sensitivities(network, weights, PROMPTS).own)


def test_initial_weights_have_the_variance_asked_for() -> None:
    weights = AttentionNetwork(3, layers=40, width=30, mlp=60, init_scale=0.5).initial(
        np.random.default_rng(0)
    )
    # 36,000 weights: four standard errors of a variance are 3 %.
    assert np.var(weights["query"]) * 30 == pytest.approx(0.5, rel=0.03)
    assert np.var(weights["mlp_out"]) * 60 == pytest.approx(0.5, rel=0.03)
    assert not np.any(weights["query_bias"])


def test_one_step_of_gradient_descent_is_one_linear_layer() -> None:
    """The construction of von Oswald et al., as in their code: rate 0.7, weights start at zero."""
    x = np.diag([1.0, 1.0, 1.0, 0.0])
    weights = {"query": x, "key": x, "value": -np.diag([0.0, 0.0, 0.0, 1.0])}
    weights["output"] = -0.7 / 4 * weights["value"]
    network = AttentionNetwork(3, attention="linear")
    found, _ = network.forward({name: each[None] for name, each in weights.items()}, PROMPTS)
    step = 0.7 / 4 * np.einsum("nij,ni->nj", PROMPTS.inputs, PROMPTS.labels)
    np.testing.assert_allclose(found, np.einsum("nj,nj->n", step, PROMPTS.query), rtol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"positions": 3}, "positions must be even, got 3"),
        ({"attention": ("linear",), "layers": 2}, r"got \('linear',\) with layers=2"),
        ({"attention": 3}, "attention must be"),
        ({"init_scale": 0.0}, "init_scale must be"),
    ],
)
def test_bad_arguments_are_named(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        AttentionNetwork(3, **wrong)


@pytest.mark.parametrize("flag", ["layer_norm", "shared", "include_query"])
def test_flags_are_true_or_false(flag: str) -> None:
    with pytest.raises(TypeError, match=f"{flag} must be True or False, got 'no'"):
        AttentionNetwork(3, **{flag: "no"})  # type: ignore[arg-type]
