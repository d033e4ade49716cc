"""Files of trained models: .npz without pickle, whose class is one of a fixed list."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from iclimit.checks import check_integers, parse_array
from iclimit.results import Ending, Estimate
from iclimit.simulate.models.linear_transformer import LinearTransformer
from iclimit.simulate.training.checkpoints import FormatError, read_tree, write_tree
from iclimit.simulate.training.networks import TrainedNetwork

# Networks that files may hold, and their modules: nothing else is imported for a file.
MODELS = "iclimit.simulate.models"
CLASSES = {
    "AttentionNetwork": f"{MODELS}.stack",
    "CausalNetwork": f"{MODELS}.stack",
    "LinearAttention": f"{MODELS}.linear_attention",
    "LstmNetwork": f"{MODELS}.lstm",
    "MergedHeads": f"{MODELS}.merged_heads",
    "RecurrentLayer": f"{MODELS}.recurrent_layer",
}

# Most layers of a network in a file: its shapes are listed before its weights are looked at.
LAYERS = 10_000

# Fields of a training that a file keeps as they are.
PARTS = ("null_loss", "steps", "losses", "parameters")


def save_model(model: TrainedNetwork | LinearTransformer, path: str | os.PathLike) -> None:
    """Write a trained network or a linear transformer to an .npz file.

    The file has the weights by name, such as ``weights.key``, and the array description: JSON with
    the format, the class of the model and its sizes.  That of a trained network also has the array
    losses, and the settings and the result of the training in the description.

    Parameters
    ----------
    model : TrainedNetwork or LinearTransformer
        What `train_network` or `load_model` returned, or the ``model`` that
        `iclimit.gdpp.train_linear_transformer` has found, on the host.
    path : path
        The file; one of the same name is replaced.

    Raises
    ------
    TypeError
        If the model is none of those that files may hold.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import iclimit
    >>> from iclimit.networks import load_model, save_model, train_network
    >>> problem = iclimit.Problem(dim=2, context=4, scale=1)
    >>> run = train_network(iclimit.softmax.MergedHeads(dim=2), problem, steps=3, rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(run, f"{folder}/head.npz")
    ...     again = load_model(f"{folder}/head.npz")
    >>> again.network, again.held_out == run.held_out
    (MergedHeads(dim=2, heads=1, init_scale=0.1), True)
    """
    if isinstance(model, LinearTransformer):
        weights = {"projection": model.projection, "lookup": model.lookup}
        tree: dict[str, Any] = {"model": "LinearTransformer", "sizes": {"kind": model.kind}}
    elif isinstance(model, TrainedNetwork):
        network = model.network
        loss = model.held_out
        if type(network).__name__ not in CLASSES:
            raise TypeError(f"network must be one of {', '.join(CLASSES)}, got {network!r}")
        weights = model.weights
        tree = {
            "model": type(network).__name__,
            "sizes": asdict(network),
            **{name: getattr(model, name) for name in PARTS},
            "held_out": [loss.mean, loss.standard_error, loss.repeats],
            "parameters": model.parameters | {"problem": str(model.parameters["problem"])},
            "ending": model.ending.kind,
        }
    else:
        raise TypeError(f"model must be a TrainedNetwork or a LinearTransformer, got {model!r}")
    write_tree(Path(path), tree | {"weights": weights})


def load_model(path: str | os.PathLike) -> TrainedNetwork | LinearTransformer:
    """Read a model that `save_model` has written.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    TrainedNetwork or LinearTransformer
        The same; a network has the problem among its parameters as text, and no snapshots.

    Raises
    ------
    ValueError
        If the file is not of that form or of another format, or its weights are of other shapes
        or not finite.
    OSError
        If there is no such file, or it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from iclimit.gdpp import gdpp_transformer
    >>> from iclimit.networks import load_model, save_model
    >>> model = gdpp_transformer([0.9], [], context=20, dim=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(model, f"{folder}/layer.npz")
    ...     again = load_model(f"{folder}/layer.npz")
    >>> again.kind, bool((again.lookup == model.lookup).all())
    ('gd++', True)
    """
    try:
        tree = read_tree(Path(path))
        name = tree["model"]
        sizes = tree["sizes"]
        weights = tree["weights"]
        if sizes.get("layers", 1) > LAYERS:
            raise ValueError(f"layers must be at most {LAYERS}")
        if name == "LinearTransformer":
            matrices: dict[str, Any] = {
                key: parse_array(key, matrix, 4 * (None,)) for key, matrix in weights.items()
            }
            return LinearTransformer(**sizes, **matrices)
        lists = {key: tuple(size) for key, size in sizes.items() if isinstance(size, list)}
        network = resolve_name(f"{CLASSES[name]}:{name}")(**sizes | lists)
        rest = {key: tree[key] for key in PARTS}
        rest["held_out"] = Estimate(*tree["held_out"])
        rest["ending"] = Ending(tree["ending"])
        names = weights.keys()
    except (OSError, FormatError):
        raise
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"path must be a file of save_model, got {path}") from error
    _check_training(path, rest)
    if names != network.shapes.keys():
        wanted = ", ".join(sorted(network.shapes))
        present = ", ".join(sorted(names))
        raise ValueError(f"{path} must have the weights {wanted}, got {present}")
    parsed = {
        name: parse_array(f"{name} in {path}", weights[name], shape)
        for name, shape in network.shapes.items()
    }
    return TrainedNetwork(network=network, weights=parsed, **rest)


def _check_training(path: str | os.PathLike, parts: Mapping[str, Any]) -> None:
    """Raise a ValueError unless what a file has of a training is of its kind."""
    try:
        check_integers(least=0, steps=parts["steps"])
        _check_error("null_loss", parts["null_loss"])
        parse_array("losses", parts["losses"], (None,), (0,))
        held_out = parts["held_out"]
        _check_error("held_out", held_out.mean)
        _check_error("standard error of held_out", held_out.standard_error)
        check_integers(repeats=held_out.repeats)
        texts = parts["parameters"]
        if not isinstance(texts, dict) or not isinstance(texts.get("problem"), str):
            raise ValueError(f"parameters must have a problem as text, got {texts!r}")
    except ValueError as error:
        raise ValueError(f"path must be a file of save_model, got {path}: {error}") from error


def _check_error(name: str, value: Any) -> None:
    """Raise a ValueError unless a value is a mean square, or a standard error."""
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not value >= 0:
        raise ValueError(f"{name} must be a number >= 0, got {value!r}")
