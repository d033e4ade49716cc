"""Predictions in files, of a model that ran elsewhere, for the prompts of a file."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from iclimit.array_files import StoredArray, check_file, open_npz, parse_npy
from iclimit.notation import did_you_mean
from iclimit.simulate.networks import load_model
from iclimit.simulate.prompts import Prompts
from iclimit.validation.instruments.models.files import PromptFile
from iclimit.validation.instruments.models.model import LARGEST, OTHER_BATCH, Model, first_unusable
from iclimit.validation.instruments.models.sections import Section
from iclimit.validation.instruments.reading import Table, file_columns, read_table

# Endings of files that predictions are read from.
ENDINGS = (".npz", ".npy", ".csv", ".parquet", ".json")


@dataclass(frozen=True, eq=False)
class Recorded:
    """Answers in the order of the prompts of a file, which stand in for a model.

    Attributes
    ----------
    answers : array (n,) or (m, context + 1)
        Predictions for all prompts, or those at every position of the first fresh prompts.
    sections : sequence of Section
        Sections of the file.
    """

    answers: np.ndarray
    sections: Sequence[Section]

    def answer(self, drawn: Prompts, *, section: str, first: int) -> np.ndarray:
        """Answers to prompts of a section, the first of which has this number in it."""
        earlier = itertools.takewhile(
            lambda earlier_section: earlier_section.name != section, self.sections
        )
        start = first + sum(map(len, earlier))
        return self.answers[start : start + len(drawn)]

    def check(self, drawn: Prompts, *, section: str) -> None:
        """Nothing can be asked again."""


def read_predictions(path: Path, prompts: PromptFile) -> np.ndarray:
    """Read the predictions of a model for the prompts of a file.

    Parameters
    ----------
    path : Path
        An .npz file with an array ``predictions`` (n,), an array in a .npy file, or a table (.csv,
        .parquet, .json) with a column ``prediction``.  With a column ``index``, counted from 0,
        the rows of a table may have any order.
    prompts : PromptFile
        What the model was asked.

    Returns
    -------
    array (n,)
        In the order of the prompts.

    Raises
    ------
    ValueError
        If there is not one finite prediction for each prompt, with the number of the first prompt
        that has none.
    FileNotFoundError
        If there is no such file.
    """
    count = len(prompts)
    if path.suffix not in ENDINGS:
        raise ValueError(f"predictions must be in a file {', '.join(ENDINGS)}, got {str(path)!r}")
    if path.suffix == ".npz":
        with open_npz(path) as file:
            if "description" in file:
                raise ValueError(
                    f"predictions must be an array 'predictions', got prompts in {path}: the "
                    "prompts come first, and the predictions second"
                )
            predictions = _whole(file["predictions"], count)
    elif path.suffix == ".npy":
        check_file(path)
        with path.open("rb") as stream:
            name = f"predictions in {path}"
            size = path.stat().st_size
            predictions = _whole(parse_npy(name, stream, size), count)
    else:
        predictions = _from_table(path, prompts)
    if (odd := first_unusable(predictions)) is not None:
        raise ValueError(
            f"predictions must be finite and of size at most {LARGEST:g}, got "
            f"{predictions[odd]:g} for prompt {odd[0]}, in section "
            f"{_section_of(odd[0], prompts)!r}"
        )
    return predictions


def network_predictions(path: Path, prompts: PromptFile) -> np.ndarray:
    """Answers of a trained network, as `save_model` writes it, to the prompts of a file.

    Raises
    ------
    ValueError
        If it is no such network, or one of another dimension.
    """
    network = load_model(path)
    if network.dim != prompts.problem.dim:
        raise ValueError(
            f"model must have the dimension of the prompts, {prompts.problem.dim}, got "
            f"{network.dim} in {path}"
        )
    model = Model(network)
    blocks = (model.answer(block, section=section.name) for section, block in prompts.blocks())
    return np.concatenate(list(blocks))


def read_positions(path: Path, prompts: PromptFile, predictions: np.ndarray) -> np.ndarray | None:
    """Read predictions at every position, for models that give them.

    Parameters
    ----------
    path : Path
        A file of predictions.  In an .npz file there may be an array ``positions``
        (m, context + 1) for the first m fresh prompts, with the query behind the pairs: the
        prediction at each position, from the pairs before it.
    prompts : PromptFile
        What the model was asked.
    predictions : array (n,)
        What `read_predictions` found.

    Returns
    -------
    array (m, context + 1) or None
        None if the file has none.

    Raises
    ------
    ValueError
        If they are not finite, of another shape, or not the predictions at the last position.
    """
    if path.suffix != ".npz":
        return None
    with open_npz(path) as file:
        if "positions" not in file:
            return None
        stored = file["positions"]
        most = prompts.test_prompts
        wide = prompts.problem.context + 1
        fits = len(stored.shape) == 2 and 1 <= stored.shape[0] <= most and stored.shape[1] == wide
        if not fits or stored.dtype.kind != "f":
            raise ValueError(
                f"positions must be floating-point numbers of shape (m, {wide}) for the first m "
                f"<= {most} prompts, got {stored.shape} of {stored.dtype}"
            )
        positions = _as_float(stored)
    if (odd := first_unusable(positions)) is not None:
        raise ValueError(
            f"positions must be finite and of size at most {LARGEST:g}, got {positions[odd]:g} at "
            f"position {odd[1]} of prompt {odd[0]}"
        )
    last = predictions[: len(positions)]
    differing = np.abs(positions[:, -1] - last) > OTHER_BATCH * np.sqrt(np.mean(last**2))
    if differing.any():
        first = int(np.argmax(differing))
        raise ValueError(
            f"positions must end with the predictions for the queries, got "
            f"{positions[first, -1]:.6g} and the prediction {last[first]:.6g} for prompt {first}"
        )
    return positions


def _whole(array: StoredArray, count: int) -> np.ndarray:
    """The array as float64, if it is a prediction for each prompt."""
    if array.dtype.kind != "f":
        raise ValueError(f"predictions must be floating-point numbers, got {array.dtype}")
    if array.shape != (count,):
        hint = ": save predictions[:, 0]" if array.shape == (count, 1) else ""
        raise ValueError(
            f"predictions must have shape ({count},), one for each prompt, got {array.shape}{hint}"
        )
    return _as_float(array)


def _as_float(array: StoredArray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return array.read().astype(float)


def _from_table(path: Path, prompts: PromptFile) -> np.ndarray:
    """Column of predictions, in the order of the index if there is one."""
    table = _read_columns(path, prompts)
    if "prediction" not in table:
        raise ValueError(f"predictions must have a column 'prediction', got none in {path}")
    count = len(prompts)
    if len(table) != count:
        raise ValueError(
            f"predictions must have {count} rows, one for each prompt, got {len(table)} in {path}"
        )
    predictions = np.array(table.numbers("prediction", "[-inf, inf]"))
    return predictions[_order(table, count)] if "index" in table else predictions


def _read_columns(path: Path, prompts: PromptFile) -> Table:
    """Columns index and prediction of a file; those of the prompts may stand beside them."""
    check_file(path)
    columns = file_columns(path)
    known = ("index", "prediction")
    of_prompts = _prompt_columns(prompts.problem.context, prompts.problem.dim)
    for name in columns:
        if name not in of_prompts and name not in known:
            hint = did_you_mean(name, known)
            raise ValueError(
                f"predictions must have columns index and prediction, beside those of the "
                f"prompts, got {name!r} in {path}{hint}"
            )
    return read_table({name: columns[name] for name in known if name in columns}, known)


def _order(table: Table, count: int) -> np.ndarray:
    """Rows (count,) in the order of their index."""
    rows = np.full(count, -1)
    for row, place in enumerate(table.numbers("index", f"[0, {count - 1}]")):
        if place != int(place):
            raise table.fault(row + 1, "index", f"is no integer: {place:g}")
        if rows[int(place)] >= 0:
            raise table.fault(row + 1, "index", f"occurs twice: {place:g}")
        rows[int(place)] = row
    return rows


def _prompt_columns(context: int, dim: int) -> set[str]:
    """Columns of a table of prompts, such as x_1_2, y_1 and query_2, that answers may stand in."""
    pairs = range(1, context + 1)
    coordinates = range(1, dim + 1)
    inputs = {f"x_{i}_{k}" for i in pairs for k in coordinates}
    labels = {f"y_{i}" for i in pairs}
    return {"section"} | inputs | labels | {f"query_{k}" for k in coordinates}


def _section_of(index: int, prompts: PromptFile) -> str:
    """Name of the section of a prompt."""
    for section in prompts.sections:
        if index < len(section):
            return section.name
        index -= len(section)
    raise IndexError(index)
