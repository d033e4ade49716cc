"""Files of trained networks: the same network comes back, and nothing else is read."""

import dataclasses
import math

import numpy as np
import pytest
from refusals import type_error, value_error

from iclimit.problem import Problem
from iclimit.simulate.models.linear_transformer import (
    KINDS,
    LinearTransformer,
    build,
    random_parameters,
)
from iclimit.simulate.models.transformer import prediction
from iclimit.simulate.networks import (
    AttentionNetwork,
    CausalNetwork,
    LinearAttention,
    LstmNetwork,
    load_model,
    save_model,
    train_network,
)
from iclimit.simulate.prompts import sample_prompts
from iclimit.simulate.recurrent import RecurrentLayer
from iclimit.simulate.softmax import MergedHeads
from iclimit.simulate.training.checkpoints import read_tree, write_tree
from iclimit.simulate.training.files import CLASSES

PROBLEM = Problem(dim=3, context=5, scale=1)
NETWORKS = [
    MergedHeads(dim=3, heads=2, init_scale=0.2),
    LstmNetwork(dim=3, hidden=4, layers=2, bidirectional=True),
    AttentionNetwork(dim=3, layers=2, attention=("softmax", "linear"), width=4, positions=2),
    CausalNetwork(dim=3, layers=2, width=4, positions=2),
    LinearAttention(dim=3, layers=2, shared=True),
    RecurrentLayer(dim=3, by_token=True, context=5),
]


def trained(network):
    return train_network(network, PROBLEM, steps=2, batch=8, held_out=20, rng=0)


@pytest.mark.machine
@pytest.mark.parametrize("network", NETWORKS, ids=lambda each: type(each).__name__)
def test_what_is_written_comes_back(network, tmp_path):
    run = trained(network)
    path = tmp_path / "network"
    save_model(run, path)
    again = load_model(path)
    assert [each.name for each in tmp_path.iterdir()] == ["network"]
    assert again.network == network
    for field in dataclasses.fields(run):
        found = getattr(again, field.name)
        expected = getattr(run, field.name)
        if field.name == "weights":
            assert list(found) == list(expected)
            assert all(np.array_equal(found[name], expected[name]) for name in expected)
        elif field.name == "parameters":
            assert found == expected | {"problem": str(PROBLEM)}
        else:
            assert np.array_equal(found, expected), field.name
    drawn = sample_prompts(PROBLEM, 4, rng=1)
    asked = drawn.inputs, drawn.labels, drawn.query
    np.testing.assert_array_equal(again(*asked), run(*asked))
    save_model(again, path)
    assert load_model(path).parameters == again.parameters


def test_every_class_of_the_list_is_tried():
    assert {type(network).__name__ for network in NETWORKS} == set(CLASSES)


WEIGHTS = {"lookup": np.zeros((2, 4, 3)), "value": np.zeros((2, 4))}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lookup": np.zeros((2, 4, 4))}, r"lookup in .* shape \(2, 4, 3\), got \(2, 4, 4\)"),
        ({"value": np.full((2, 4), np.nan)}, "value in .* must be finite"),
        ({"value": np.full((2, 4), "a")}, "value in .* must be an array of real numbers"),
        ({"more": np.zeros(3)}, "must have the weights lookup, value, got lookup, more, value"),
        ({"value": np.array([{}], dtype=object)}, "must be a file of save_model"),
        ({"value": None}, "value in .* must be an array of real numbers"),
    ],
)
def test_other_weights_are_refused(changes, message, tmp_path):
    path = tmp_path / "network.npz"
    save_model(trained(NETWORKS[0]), path)
    write_tree(path, read_tree(path) | {"weights": WEIGHTS | changes})
    value_error(message, load_model, path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", "Problem"),
        ("model", "os:system"),
        ("sizes", {"dim": 0}),
        ("sizes", {"dim": 3, "more": 1}),
        ("held_out", 3),
        ("weights", 3),
        ("ending", "never"),
    ],
)
def test_other_descriptions_are_refused(name, value, tmp_path):
    path = tmp_path / "network.npz"
    save_model(trained(NETWORKS[0]), path)
    tree = read_tree(path)
    for changed in (tree | {name: value}, {key: tree[key] for key in tree if key != name}):
        write_tree(path, changed)
        value_error(f"path must be a file of save_model, got {path}", load_model, path)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("steps", -5, "steps must be"),
        ("steps", 2.5, "steps must be"),
        ("steps", True, "steps must be"),
        ("null_loss", "x", "null_loss must be a number >= 0, got 'x'"),
        ("null_loss", math.nan, "null_loss must be a number >= 0, got nan"),
        ("null_loss", -1.0, "null_loss must be a number >= 0, got -1.0"),
        ("null_loss", None, "null_loss must be a number"),
        ("losses", "x", "losses must be an array of real numbers"),
        ("losses", np.zeros((2, 2)), "losses must have shape"),
        ("held_out", ["x", 1.0, 3], "held_out must be a number"),
        ("held_out", [1.0, -1.0, 3], "standard error of held_out must be a number >= 0"),
        ("held_out", [1.0, 1.0, 0], "repeats must be"),
        ("parameters", [1], "parameters must have a problem as text"),
        ("parameters", {"problem": 3}, "parameters must have a problem as text"),
        ("sizes", {"dim": 3, "layers": 10**9}, "layers must be at most 10000"),
    ],
)
def test_parts_of_another_kind_are_refused(name, value, message, tmp_path):
    path = tmp_path / "network.npz"
    save_model(trained(NETWORKS[0]), path)
    write_tree(path, read_tree(path) | {name: value})
    found = f"path must be a file of save_model, got {path}"
    value_error(found if name == "sizes" else f"{found}: {message}", load_model, path)


@pytest.mark.parametrize("name", ["projection", "lookup"])
@pytest.mark.parametrize("value", [np.full((1, 1, 4, 4), np.nan), np.full((1, 1, 4, 4), "a"), 3])
def test_layers_of_another_kind_are_refused(name, value, tmp_path):
    path = tmp_path / "layer.npz"
    layer = np.ones((1, 1, 4, 4))
    save_model(LinearTransformer("full", layer, layer), path)
    tree = read_tree(path)
    write_tree(path, tree | {"weights": tree["weights"] | {name: value}})
    value_error("path must be a file of save_model", load_model, path)


def test_another_format_is_named(tmp_path):
    path = tmp_path / "network.npz"
    save_model(trained(NETWORKS[0]), path)
    write_tree(path, read_tree(path) | {"format": 2})
    value_error("must have the format 1 of this iclimit", load_model, path)


def test_what_is_no_file_of_a_network(tmp_path):
    (tmp_path / "text").write_text("weights")
    value_error("path must be a file of save_model", load_model, tmp_path / "text")
    for name in ("absent", "."):
        with pytest.raises(OSError, match=name):
            load_model(tmp_path / name)


@dataclasses.dataclass(frozen=True)
class Own(MergedHeads):
    """A network that no file may hold."""


def test_what_is_no_trained_network_is_refused(tmp_path):
    type_error("model must be a TrainedNetwork or a Li", save_model, 3, tmp_path / "a.npz")
    with pytest.raises(TypeError, match="network must be one of AttentionNetwork, "):
        save_model(trained(Own(3)), tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", KINDS)
def test_linear_transformers_come_back_and_answer(kind, tmp_path):
    law = {"layers": 2, "heads": 2, "dim": 3, "context": 5, "variance": 1.0}
    parameters = random_parameters(np.random.default_rng(0), kind=kind, **law)
    model = build(kind, parameters, 3)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.kind == kind
    np.testing.assert_array_equal(again.projection, model.projection)
    np.testing.assert_array_equal(again.lookup, model.lookup)
    drawn = sample_prompts(PROBLEM, 4, rng=1)
    tokens = np.zeros((4, 6, 4))
    tokens[:, :5, :3] = drawn.inputs
    tokens[:, :5, 3] = drawn.labels
    tokens[:, 5, :3] = drawn.query
    asked = drawn.inputs, drawn.labels, drawn.query
    np.testing.assert_allclose(again(*asked), prediction(tokens, model.layers), rtol=1e-12)
    value_error("query must have shape", again, drawn.inputs, drawn.labels, drawn.query[:2])
