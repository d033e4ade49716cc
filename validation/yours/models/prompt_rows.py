"""Prompts as rows of a table, for languages that do not read arrays of NumPy.

Columns are ``index`` from 0, ``section``, then ``x_1_1`` to ``x_N_d`` (the pair first, the
coordinate second), ``y_1`` to ``y_N`` and ``query_1`` to ``query_d``.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from iclimit.validation.yours.models.files import PromptFile


def columns_of(context: int, dim: int) -> list[str]:
    """Names of the columns of numbers.

    Examples
    --------
    >>> from iclimit.validation.yours.models.prompt_rows import columns_of
    >>> columns_of(2, 2)
    ['x_1_1', 'x_1_2', 'x_2_1', 'x_2_2', 'y_1', 'y_2', 'query_1', 'query_2']
    """
    pairs, coordinates = range(1, context + 1), range(1, dim + 1)
    inputs = [f"x_{i}_{k}" for i in pairs for k in coordinates]
    return [*inputs, *(f"y_{i}" for i in pairs), *(f"query_{k}" for k in coordinates)]


def write_rows(path: Path, prompts: PromptFile) -> None:
    """Write prompts as .csv or .parquet.

    Raises
    ------
    RuntimeError
        If Parquet is asked for and pyarrow is not installed.
    """
    names = columns_of(prompts.problem.context, prompts.problem.dim)
    write = _write_parquet if path.suffix == ".parquet" else _write_csv
    write(path, names, _numbers(prompts), prompts.float32)


def _numbers(prompts: PromptFile) -> Iterator[tuple[str, int, np.ndarray]]:
    """Section, number of the first row and numbers (n, columns), block by block."""
    first = 0
    for section, block in prompts.blocks():
        count = len(block)
        parts = (block.inputs.reshape(count, -1), block.labels, block.query)
        yield section.name, first, np.concatenate(parts, axis=1)
        first += count


def _write_csv(path: Path, names: list[str], blocks: Any, float32: bool) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["index", "section", *names])
        for section, first, numbers in blocks:
            # The shortest text that is read as the same number.
            rows = numbers.astype("f4").astype(str) if float32 else numbers
            writer.writerows([first + k, section, *row] for k, row in enumerate(rows.tolist()))


def _write_parquet(path: Path, names: list[str], blocks: Any, float32: bool) -> None:
    try:
        pyarrow, parquet = map(import_module, ("pyarrow", "pyarrow.parquet"))
    except ImportError as error:
        raise RuntimeError(
            "Parquet files need pyarrow, which is not installed: pip install 'iclimit[parquet]', "
            "or write .npz or .csv"
        ) from error
    kind = pyarrow.float32() if float32 else pyarrow.float64()
    fields = [("index", pyarrow.int64()), ("section", pyarrow.string())]
    schema = pyarrow.schema([*fields, *((name, kind) for name in names)])
    with parquet.ParquetWriter(path, schema) as writer:
        for section, first, numbers in blocks:
            index = np.arange(first, first + len(numbers))
            columns = [index, [section] * len(numbers), *numbers.T]
            arrays = [pyarrow.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
            writer.write_batch(pyarrow.record_batch(arrays, schema=schema))
