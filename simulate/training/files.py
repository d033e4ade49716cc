"""Files of trained networks: .npz without pickle, whose class is one of a fixed list."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np

from iclimit.checks import parse_array
from iclimit.results import Estimate
from iclimit.simulate.models.network import Network
from iclimit.simulate.npz import load_npz, save_npz
from iclimit.simulate.training.networks import TrainedNetwork

CLASSES = {
    "AttentionNetwork": "iclimit.simulate.models.stack",
    "LstmNetwork": "iclimit.simulate.models.lstm",
    "MergedHeads": "iclimit.simulate.models.merged_heads",
}
"""Networks that files may hold, and their modules: nothing else is imported for a file."""

NUMBERS = ("null_loss", "steps", "converged", "interrupted")
"""What a file has of a training besides weights, losses, settings and the held-out loss."""


def save_network(model: TrainedNetwork, path: str | os.PathLike) -> None:
    """Write a trained network to an .npz file.

    The file has the weights by name, the array losses, and the array description: JSON with the
    class of the network, its sizes, the settings and the result of the training.

    Parameters
    ----------
    model : TrainedNetwork
        What `train_network` or `load_network` returned.
    path : path
        The file; one of the same name is replaced.

    Raises
    ------
    TypeError
        If the network is none of those that files may hold.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import iclimit
    >>> from iclimit.networks import load_network, save_network, train_network
    >>> problem = iclimit.Problem(context=4, dim=2)
    >>> run = train_network(iclimit.softmax.MergedHeads(dim=2), problem, steps=3, rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_network(run, f"{folder}/head.npz")
    ...     again = load_network(f"{folder}/head.npz")
    >>> again.network, again.held_out == run.held_out
    (MergedHeads(dim=2, heads=1, init_scale=0.1), True)
    """
    if not isinstance(model, TrainedNetwork):
        raise TypeError(f"model must be a TrainedNetwork, got {model!r}")
    network, loss = model.network, model.held_out
    if type(network).__name__ not in CLASSES:
        raise TypeError(f"network must be one of {', '.join(CLASSES)}, got {network!r}")
    description = {
        "network": type(network).__name__,
        "sizes": asdict(network),  # type: ignore[call-overload]
        "held_out": [loss.mean, loss.standard_error, loss.repeats],
        "parameters": model.parameters | {"problem": str(model.parameters["problem"])},
        **{name: getattr(model, name) for name in NUMBERS},
    }
    text = json.dumps(description, default=lambda number: number.item())
    save_npz(Path(path), description=np.array(text), losses=model.losses, **model.weights)


def load_network(path: str | os.PathLike) -> TrainedNetwork:
    """Read a trained network that `save_network` has written.

    Parameters
    ----------
    path : path
        The file.

    Returns
    -------
    TrainedNetwork
        The same, with the problem among its parameters as text.

    Raises
    ------
    ValueError
        If the file is not of that form, or its weights are of other shapes or not finite.
    OSError
        If there is no such file, or it cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> import iclimit
    >>> from iclimit.networks import load_network, save_network, train_network
    >>> problem = iclimit.Problem(context=4, dim=2)
    >>> run = train_network(iclimit.softmax.MergedHeads(dim=2), problem, steps=3, rng=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_network(run, f"{folder}/head.npz")
    ...     again = load_network(f"{folder}/head.npz")
    >>> again.held_out == run.held_out
    True
    """
    try:
        arrays = load_npz(Path(path))
        described = json.loads(str(arrays.pop("description")))
        network = _network(described["network"], described["sizes"])
        losses = arrays.pop("losses")
        held_out = Estimate(*described["held_out"])
        rest: dict[str, Any] = {name: described[name] for name in (*NUMBERS, "parameters")}
    except OSError:
        raise
    except Exception as error:  # a file can be broken in any way
        raise ValueError(f"path must be a file of save_network, got {path}") from error
    if arrays.keys() != network.shapes.keys():
        wanted, found = (", ".join(sorted(each)) for each in (network.shapes, arrays))
        raise ValueError(f"{path} must have the weights {wanted}, got {found}")
    weights = {
        name: parse_array(f"{name} in {path}", arrays[name], shape)
        for name, shape in network.shapes.items()
    }
    return TrainedNetwork(network, weights, losses, held_out, **rest)


def _network(name: str, sizes: dict[str, Any]) -> Network:
    """Network of a known class."""
    sizes = {key: tuple(each) if isinstance(each, list) else each for key, each in sizes.items()}
    network: Network = resolve_name(f"{CLASSES[name]}:{name}")(**sizes)
    return network
