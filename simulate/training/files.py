"""Files of trained models: .npz without pickle, whose class is one of a fixed list."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np

from iclimit.checks import parse_array
from iclimit.results import Ending, Estimate
from iclimit.simulate.gdpp.linear_transformer import LinearTransformer
from iclimit.simulate.npz import load_npz, save_npz
from iclimit.simulate.training.networks import TrainedNetwork

MODELS = "iclimit.simulate.models"
CLASSES = {
    "AttentionNetwork": f"{MODELS}.stack",
    "LinearAttention": f"{MODELS}.linear_attention",
    "LstmNetwork": f"{MODELS}.lstm",
    "MergedHeads": f"{MODELS}.merged_heads",
}
"""Networks that files may hold, and their modules: nothing else is imported for a file."""

NUMBERS = ("null_loss", "steps")
"""What a file has of a training besides weights, losses, settings and the held-out loss."""


def save_model(model: TrainedNetwork | LinearTransformer, path: str | os.PathLike) -> None:
    """Write a trained network or a linear transformer to an .npz file.

    The file has the weights by name and the array description: JSON with the class of the model
    and its sizes.  That of a trained network also has the array losses, and the settings and the
    result of the training in the description.

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
        described: dict[str, Any] = {"model": "LinearTransformer", "sizes": {"kind": model.kind}}
        arrays = {"projection": model.projection, "lookup": model.lookup}
    elif isinstance(model, TrainedNetwork):
        network, loss = model.network, model.held_out
        if type(network).__name__ not in CLASSES:
            raise TypeError(f"network must be one of {', '.join(CLASSES)}, got {network!r}")
        described = {
            "model": type(network).__name__,
            "sizes": asdict(network),
            "held_out": [loss.mean, loss.standard_error, loss.repeats],
            "parameters": model.parameters | {"problem": str(model.parameters["problem"])},
            **{name: getattr(model, name) for name in NUMBERS},
            "ending": model.ending.kind,
        }
        arrays = {"losses": model.losses, **model.weights}
    else:
        raise TypeError(f"model must be a TrainedNetwork or a LinearTransformer, got {model!r}")
    text = json.dumps(described, default=lambda number: number.item())
    save_npz(Path(path), description=np.array(text), **arrays)


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
        If the file is not of that form, or its weights are of other shapes or not finite.
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
        arrays = load_npz(Path(path))
        described = json.loads(str(arrays.pop("description")))
        if described["model"] == "LinearTransformer":
            kind: str = described["sizes"]["kind"]
            return LinearTransformer(kind, arrays["projection"], arrays["lookup"])
        sizes = {
            key: tuple(each) if isinstance(each, list) else each
            for key, each in described["sizes"].items()
        }
        name = described["model"]
        network = resolve_name(f"{CLASSES[name]}:{name}")(**sizes)
        losses = arrays.pop("losses")
        held_out = Estimate(*described["held_out"])
        rest: dict[str, Any] = {name: described[name] for name in (*NUMBERS, "parameters")}
        rest["ending"] = Ending(described["ending"])
    except OSError:
        raise
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"path must be a file of save_model, got {path}") from error
    if arrays.keys() != network.shapes.keys():
        wanted, found = (", ".join(sorted(each)) for each in (network.shapes, arrays))
        raise ValueError(f"{path} must have the weights {wanted}, got {found}")
    weights = {
        name: parse_array(f"{name} in {path}", arrays[name], shape)
        for name, shape in network.shapes.items()
    }
    return TrainedNetwork(
        network=network, weights=weights, losses=losses, held_out=held_out, **rest
    )
