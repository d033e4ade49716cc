"""Recurrent layers from their weights: forward passes token by token, numbers and errors."""

import numpy as np
import pytest
from refusals import type_error, value_error

import iclimit
from iclimit.validation import reduced_recurrence

D = 3
INPUTS, LABEL = np.eye(D + 1)[:D], np.eye(D + 1)[D:]
PROBLEM = iclimit.Problem(dim=D, context=7, noise_variance=0.1, drift=0.4)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(x))


def unit(vector):
    return vector / np.linalg.norm(vector)


def random_layer(layout, heads=2, rows=4):
    """Weights of the usual shapes, all of which count."""
    rng = np.random.default_rng(5)

    def draw(*shape):
        return 0.6 * rng.standard_normal(shape)

    tokens = D + 1
    times = {"A_log": draw(heads), "dt_bias": draw(heads)}
    if layout == "mamba2":
        inner = 2 * heads
        state = rows
        rows_in = draw(inner + 2 * state + heads, tokens)
        out = {"in_proj.weight": rows_in, "out_proj.weight": draw(tokens, inner)}
        return out | times | {"D": draw(heads)}
    layer = {f"{name}_proj.weight": draw(heads * rows, tokens) for name in "qk"}
    layer |= {"v_proj.weight": draw(heads * 2, tokens), "o_proj.weight": draw(tokens, heads * 2)}
    if layout == "gla":
        gates = {"gk_proj.0.weight": draw(2, tokens), "gk_proj.1.weight": draw(heads * rows, 2)}
        return layer | gates | {"gk_proj.1.bias": draw(heads * rows)}
    if layout == "retnet":
        return layer
    layer["b_proj.weight"] = draw(heads, tokens)
    if layout == "kda":
        gates = {"f_proj.0.weight": draw(2, tokens), "f_proj.1.weight": draw(heads * rows, 2)}
        return layer | gates | {"A_log": draw(heads), "dt_bias": draw(heads * rows)}
    if layout == "gated-deltanet":
        layer |= {"a_proj.weight": draw(heads, tokens)} | times
    return layer


def forward(layout, layer, tokens, heads=2, rows=4):
    """Last entry of the output at the last token, with whole states, head by head."""
    outputs = []
    for h in range(heads):
        part = slice(rows * h, rows * (h + 1))
        pair = slice(2 * h, 2 * h + 2)
        state = np.zeros((2, rows))
        for e in tokens:
            if layout == "mamba2":
                x, B, C, dt = np.split(
                    layer["in_proj.weight"] @ e, [2 * heads, 2 * heads + rows, -2]
                )
                k = B
                q = C
                v = x[pair]
                step = softplus(dt[h] + layer["dt_bias"][h])
                gate = np.exp(-np.exp(layer["A_log"][h]) * step)
            else:
                q, k = (layer[f"{name}_proj.weight"][part] @ e for name in "qk")
                v = layer["v_proj.weight"][pair] @ e
                gate = 1.0
                step = 1.0
                if layout == "gla":
                    logits = layer["gk_proj.1.weight"] @ (layer["gk_proj.0.weight"] @ e)
                    gate = sigmoid(logits + layer["gk_proj.1.bias"])[part] ** (1 / 16)
                elif layout == "retnet":
                    gate = (31 / 32, 63 / 64)[h]
                else:
                    q = unit(q)
                    k = unit(k)
                    step = 2 * sigmoid(layer["b_proj.weight"][h] @ e)
                if layout == "kda":
                    logits = layer["f_proj.1.weight"] @ (layer["f_proj.0.weight"] @ e)
                    times = softplus(logits + layer["dt_bias"])[part]
                    gate = np.exp(-np.exp(layer["A_log"][h]) * times)
                if layout == "gated-deltanet":
                    a = layer["a_proj.weight"][h] @ e + layer["dt_bias"][h]
                    gate = np.exp(-np.exp(layer["A_log"][h]) * softplus(a))
                q = q / rows**0.5
            state = state * gate
            if layout in ("deltanet", "gated-deltanet", "kda"):
                v = v - state @ k
            state = state + step * np.outer(v, k)
        skip = layer["D"][h] * x[pair] if layout == "mamba2" else 0.0
        outputs.append(state @ q + skip)
    name = "out_proj.weight" if layout == "mamba2" else "o_proj.weight"
    return (layer[name] @ np.concatenate(outputs))[-1]


LAYOUTS = ["gla", "deltanet", "gated-deltanet", "mamba2", "kda", "retnet"]


def test_layers_predict_what_a_forward_pass_does():
    for layout in LAYOUTS:
        layer = random_layer(layout)
        named = {f"model.layers.3.attn.{name}": each for name, each in layer.items()}
        settings = {"heads": 2, "negative_eigenvalues": True, "test_prompts": 40, "rng": 3}
        found = reduced_recurrence(named, PROBLEM, layout=layout, **settings)
        drawn = iclimit.sample_prompts(PROBLEM, 40, rng=3)
        squares = []
        for x, y, query, task in zip(
            drawn.inputs, drawn.labels, drawn.query, drawn.tasks, strict=True
        ):
            tokens = np.vstack([np.column_stack([x, y]), [*query, 0.0]])
            squares.append((forward(layout, layer, tokens) - query @ task) ** 2)
        assert found.error.mean == pytest.approx(np.mean(squares) + 0.1)
        assert np.isnan(found.predicted)
        assert found.ignored.mean > 0.01
        assert np.all(found.gate_spread > 0) == (layout not in ("deltanet", "retnet"))
        assert "head" in str(found)


CONSTANT = {
    "gla": {
        **{"gk_proj.0.weight": np.zeros((2, D + 1)), "gk_proj.1.weight": np.zeros((D, 2))},
        "gk_proj.1.bias": np.full(D, -1.0),
    },
    "deltanet": {"b_proj.weight": np.zeros((1, D + 1))},
    "retnet": {},
    "kda": {
        **{"b_proj.weight": np.zeros((1, D + 1)), "f_proj.0.weight": np.zeros((2, D + 1))},
        **{"f_proj.1.weight": np.zeros((D, 2)), "A_log": np.zeros(1), "dt_bias": np.full(D, -2.0)},
    },
    "gated-deltanet": {
        **{"b_proj.weight": np.zeros((1, D + 1)), "a_proj.weight": np.zeros((1, D + 1))},
        **{"A_log": np.zeros(1), "dt_bias": [-2.0]},
    },
}


@pytest.mark.parametrize("unit_keys", [True, False])
@pytest.mark.parametrize("layout", CONSTANT)
def test_errors_are_predicted_in_any_units(layout, unit_keys):
    """Keys and queries that are turned alike; inputs, tasks and labels in other units."""
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((D, D)))[0]
    layer = {
        **{"q_proj.weight": 0.2 * turn @ INPUTS, "k_proj.weight": 0.3 * turn @ INPUTS},
        **{"v_proj.weight": 1.5 * LABEL, "o_proj.weight": LABEL.T},
        **CONSTANT[layout],
    }
    units = {"scale": 2.0, "task_variance": 0.5, "noise_variance": 0.3, "drift": 0.3}
    problem = iclimit.Problem(dim=D, context=6, **units)
    settings = {"unit_keys": unit_keys, "test_prompts": 6000, "rng": 1}
    found = reduced_recurrence(layer, problem, layout=layout, **settings)
    assert abs(found.predicted - found.error.mean) < 4 * found.error.standard_error
    assert found.error.standard_error < 0.05 * found.error.mean
    assert found.best < found.predicted
    assert found.gate_spread == found.step_spread == 0
    assert found.off_identity == pytest.approx(0, abs=1e-12)
    # Queries of unit length do not grow with the input; all else is read.
    assert (found.ignored.mean < 1e-12) != unit_keys


def test_an_optimal_layer_is_orthogonal_to_its_error():
    """The best constant step and readout; with half the readout the factor is 2."""
    problem = iclimit.Problem(dim=6, context=12, noise_variance=0.25)
    inputs = np.eye(7)[:6]
    label = np.eye(7)[6:]
    layer = {"k_proj.weight": inputs, "v_proj.weight": label, "b_proj.weight": 0 * label}
    own = 1 - 0.5 * (1 + 2 / 6)
    for size in (1.0, 0.5):
        # The query's own token undone in the mean.
        layer |= {"q_proj.weight": size * inputs / own, "o_proj.weight": label.T}
        found = reduced_recurrence(
            layer, problem, layout="deltanet", unit_keys=False, score_factor=1, rng=0
        )
        assert found.readout == pytest.approx(size)
        theory = iclimit.recurrent.recurrent_errors(
            "delta", dim=6, context=12, rho=0.25, step_sizes=0.5
        )
        # Answers whose factor scatters with the query have a larger square.
        scatter = (1 - (1 + 2 / 6) + 0.25 * (1 + 2 / 6) * (1 + 4 / 6)) / own**2
        factor = theory.signal[-1] / theory.power[-1] / scatter / size
        assert abs(found.factor.mean - factor) < 4 * found.factor.standard_error


def test_bad_weights_are_named():
    for change, message in (
        ({"o_norm.weight": np.ones(2)}, "norms of the output are no linear recurrence"),
        ({"q_conv1d.weight": np.ones((2, 1, 4))}, "short convolutions are no linear recurrence"),
        ({"w_proj.weight": LABEL}, "does not know: it knows q_proj.weight"),
        ({"b_proj.weight": None}, "layer lacks b_proj.weight"),
        ({"b_proj.weight": np.zeros((2, 4))}, "b_proj.weight must have shape"),
        ({"k_proj.weight": np.nan * INPUTS}, "k_proj.weight must be finite"),
        ({"a.b_proj.weight": 0 * LABEL}, "must be one layer, got two of 'b_proj.weight'"),
    ):
        layer = {
            **{"q_proj.weight": INPUTS, "k_proj.weight": INPUTS, "v_proj.weight": LABEL},
            **{"o_proj.weight": LABEL.T, "b_proj.weight": 0 * LABEL},
        } | change
        layer = {name: value for name, value in layer.items() if value is not None}
        value_error(message, reduced_recurrence, layer, PROBLEM, layout="deltanet")


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="layout must be one of gla, deltanet"):
        reduced_recurrence({}, PROBLEM, layout="rwkv")
    type_error("layer must be a mapping", reduced_recurrence, [], PROBLEM, layout="gla")
    problem = iclimit.Problem(dim=D, context=7, correlation=0.5)
    with pytest.raises(ValueError, match=r"correlation of the problem must be 0.0, got 0.5"):
        reduced_recurrence({}, problem, layout="gla")
    layer = {"in_proj.weight": np.ones((7, D + 1)), "out_proj.weight": np.ones((D + 1, 2))}
    times = {"A_log": np.zeros(2), "dt_bias": np.zeros(2)}
    with pytest.raises(ValueError, match=r"in_proj.weight must have the rows x, B, C and dt"):
        reduced_recurrence(layer | times, PROBLEM, layout="mamba2")
