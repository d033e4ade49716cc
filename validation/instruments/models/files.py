"""Prompts in files, for models that run elsewhere.

A file of prompts says what it was drawn from: problem, seed, number of prompts.  Whoever judges
predictions draws the prompts again and compares them with the file, so a changed file is noticed.

=========================  ==========================================================
Array in an .npz file      What it holds
=========================  ==========================================================
inputs (n, context, dim)   inputs of the labelled pairs
labels (n, context)        their labels
query (n, dim)             inputs whose labels are asked for
section (n,)               numbers of the sections, from 0
description ()             problem, seed, sections and version, as JSON
pretraining_tasks (k, d)   and input_covariance, task_covariance: where they are given
=========================  ==========================================================

Arrays are read in parts and without running what is in a file, see `iclimit.array_files`.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.lib import format as npy

from iclimit.array_files import NpzFile, open_npz, parse_npy
from iclimit.checks import check_arguments
from iclimit.files import replacing
from iclimit.notation import did_you_mean
from iclimit.problem import Problem
from iclimit.simulate.prompts import Prompts
from iclimit.tables import json_text
from iclimit.validation.instruments.models.sections import Section, plan_sections
from iclimit.versions import versions


def read_tasks(path: Path) -> np.ndarray:
    """Tasks in the rows of a .npy or .csv file.

    Raises
    ------
    ValueError
        If there is no such file, or it is damaged or holds no rows of numbers.
    """
    if path.suffix not in (".npy", ".csv"):
        raise ValueError(f"tasks must be a file .npy or .csv, got {str(path)!r}")
    if not path.is_file():
        raise ValueError(f"tasks must be a file, but there is none called {str(path)!r}")
    if path.suffix == ".npy":
        with path.open("rb") as stream:
            return parse_npy(f"tasks in {path}", stream, path.stat().st_size).read()
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"tasks must have a task in each row, got the empty file {str(path)!r}")
    try:
        return np.loadtxt(lines, delimiter=",", ndmin=2)
    except ValueError as error:
        raise ValueError(f"tasks must be rows of numbers, got {str(path)!r}: {error}") from error


def write_array(
    archive: zipfile.ZipFile,
    name: str,
    shape: tuple[int, ...],
    dtype: np.dtype,
    parts: Iterable[np.ndarray],
) -> None:
    """Write an array into an .npz file part by part, so that it is never whole in memory."""
    # A fixed date, so that the same prompts are the same bytes.
    member = zipfile.ZipInfo(f"{name}.npy")
    with archive.open(member, "w", force_zip64=True) as stream:
        header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(stream, header)
        for part in parts:
            stream.write(np.ascontiguousarray(part, dtype=dtype).tobytes())


# Version of the format.
FORMAT = 1

# Advice to those who have a table of prompts, which iclimit 1.0 wrote.
_TABLES = (
    ": iclimit prompts with the same flags and -o prompts.npz writes the prompts of an earlier "
    "table in the same order"
)

# Arrays of a problem, with their names in a file.
ARRAYS = {
    "tasks": "pretraining_tasks",
    "input_covariance": "input_covariance",
    "task_covariance": "task_covariance",
}

# Numbers and names of a problem.
PROBLEM = tuple(field.name for field in fields(Problem) if field.name not in ARRAYS)

# Largest deviation of prompts from those that are drawn again, over their own size and the root
# mean square.  Other machines round float64 differently by 1e-15, and float32 by 1e-7.
ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class PromptFile:
    """What a file of prompts was drawn from.

    Attributes
    ----------
    problem : Problem
        Law of the prompts.
    test_prompts : int
        Number of prompts with fresh tasks.
    seed : int
        Root seed.
    float32 : bool
        Whether prompts are rounded to float32.

    Examples
    --------
    >>> from iclimit.problem import Problem
    >>> from iclimit.validation.instruments.models.files import PromptFile
    >>> prompts = PromptFile(Problem(dim=5, context=10, scale=1), test_prompts=100)
    >>> len(prompts), prompts.sections[0].name
    (2500, 'fresh')
    """

    problem: Problem
    test_prompts: int = 20_000
    seed: int = 0
    float32: bool = False

    def __post_init__(self) -> None:
        check_arguments(test_prompts=self.test_prompts)
        if not isinstance(self.seed, int) or isinstance(self.seed, bool) or self.seed < 0:
            raise ValueError(f"seed must be an integer >= 0, got {self.seed!r}")
        if not isinstance(self.float32, bool):
            raise ValueError(f"float32 must be true or false, got {self.float32!r}")
        if callable(self.problem.link):
            raise ValueError(
                f"link must be a name in a file of prompts, got the function {self.problem.link!r}"
            )

    @cached_property
    def sections(self) -> list[Section]:
        """What is asked, in the order of the file."""
        plan = plan_sections(self.problem, test_prompts=self.test_prompts, rng=self.seed)
        return [replace(section, float32=self.float32) for section in plan]

    def __len__(self) -> int:
        """Number of prompts in all sections."""
        return sum(map(len, self.sections))

    def blocks(self) -> Iterator[tuple[Section, Prompts]]:
        """Draw all prompts in the order of the file.

        Yields
        ------
        tuple of Section and Prompts
            A block, after its section.
        """
        for section in self.sections:
            for block in section.blocks():
                yield section, block

    def description(self) -> str:
        """Description as JSON, without the arrays of the problem."""
        described = self.problem.describe()
        problem = {name: value for name, value in described.items() if name not in ARRAYS}
        content = {
            "format": FORMAT,
            "versions": {name: versions()[name] for name in ("iclimit", "numpy")},
            "problem": problem,
            "test_prompts": self.test_prompts,
            "seed": self.seed,
            "float32": self.float32,
            "sections": {section.name: len(section) for section in self.sections},
        }
        return json_text(content)

    @classmethod
    def from_description(cls, text: str, path: Path, arrays: dict[str, np.ndarray]) -> PromptFile:
        """Parse a description, with the arrays of the problem that are kept elsewhere.

        Raises
        ------
        ValueError
            If it is none, or one of another version.
        """
        try:
            content = json.loads(text)
            version = content["format"]
            made = dict(content["versions"])
            problem = dict(content["problem"])
            sections = dict(content["sections"])
            settings = {name: content[name] for name in ("test_prompts", "seed", "float32")}
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"prompts must be a file of iclimit prompts, got {path}") from None
        for name in problem:
            if name not in PROBLEM:
                hint = did_you_mean(name, PROBLEM)
                raise ValueError(
                    f"problem takes {', '.join(PROBLEM)}, got {name!r} in {path}{hint}"
                )
        if version == FORMAT:
            if missing := {"context", "dim"} - problem.keys():
                raise ValueError(f"problem must have {min(missing)}, got none in {path}")
            prompts = cls(Problem(**problem | arrays), **settings)
            if sections == {section.name: len(section) for section in prompts.sections}:
                return prompts
        raise ValueError(
            f"prompts must be of iclimit {versions()['iclimit']}, got {path}, which iclimit "
            f"{str(made.get('iclimit'))[:20]} made"
        )


def write_prompts(path: Path, prompts: PromptFile) -> None:
    """Write prompts to an .npz file.

    Parameters
    ----------
    path : Path
        The file.  It is replaced when the new one is complete.
    prompts : PromptFile
        What is to be written.

    Raises
    ------
    ValueError
        If the name has another ending.
    """
    if path.suffix != ".npz":
        raise ValueError(f"prompts must be written to a file .npz, got {str(path)!r}")
    with replacing(path) as partial:
        _write_npz(partial, prompts)


def read_prompts(path: Path) -> PromptFile:
    """Read what a file of prompts was drawn from, and check that its prompts are these.

    Parameters
    ----------
    path : Path
        A file of `write_prompts`.

    Returns
    -------
    PromptFile

    Raises
    ------
    ValueError
        If it is no such file or was changed, with the number of the first prompt that differs.
    FileNotFoundError
        If there is no such file.
    """
    if path.suffix != ".npz":
        hint = _TABLES if path.suffix in (".csv", ".parquet", ".json") else ""
        raise ValueError(f"prompts must be in a file .npz, got {str(path)!r}{hint}")
    with open_npz(path) as file:
        if "description" not in file:
            present = ", ".join(file.names[:10])
            raise ValueError(
                f"prompts must be a file of iclimit prompts, got {path} with {present}: it comes "
                "first, and the predictions second"
            )
        description = file["description"]
        if description.dtype.kind != "U" or description.shape:
            raise ValueError(f"description must be text, got {description.dtype} in {path}")
        arrays = {name: file[kept].read() for name, kept in ARRAYS.items() if kept in file}
        prompts = PromptFile.from_description(str(description.read()), path, arrays)
        _compare(path, prompts, file)
    return prompts


def _write_npz(path: Path, prompts: PromptFile) -> None:
    size = len(prompts)
    problem = prompts.problem
    real = np.dtype("<f4" if prompts.float32 else "<f8")
    late: dict[str, list[np.ndarray]] = {"labels": [], "query": []}

    def inputs() -> Iterator[np.ndarray]:
        for _, block in prompts.blocks():
            for name, parts in late.items():
                parts.append(getattr(block, name).astype(real))
            yield block.inputs

    shapes = {"labels": (size, problem.context), "query": (size, problem.dim)}
    description = np.array(prompts.description())
    with zipfile.ZipFile(path, "w", strict_timestamps=False) as archive:
        write_array(archive, "description", (), description.dtype, [description])
        write_array(archive, "inputs", (size, problem.context, problem.dim), real, inputs())
        for name, parts in late.items():
            write_array(archive, name, shapes[name], real, parts)
        codes = section_codes(prompts)
        write_array(archive, "section", codes.shape, codes.dtype, [codes])
        for name, kept in ARRAYS.items():
            if isinstance(values := getattr(problem, name), np.ndarray):
                write_array(archive, kept, values.shape, np.dtype("<f8"), [values])


def section_codes(prompts: PromptFile) -> np.ndarray:
    """Number of the section of each prompt, (n,)."""
    lengths = [len(section) for section in prompts.sections]
    return np.repeat(np.arange(len(lengths), dtype="<i2"), lengths)


def _compare(path: Path, prompts: PromptFile, file: NpzFile) -> None:
    """Raise a ValueError unless the arrays in a file are those that are drawn again."""
    size = len(prompts)
    problem = prompts.problem
    tails = {"inputs": (problem.context, problem.dim), "labels": (problem.context,)}
    tails |= {"query": (problem.dim,), "section": ()}
    stored = {name: file[name] for name in tails}
    for name, array in stored.items():
        if array.shape != (size, *tails[name]) or array.dtype.kind not in "fi":
            raise ValueError(
                f"{name} must be numbers of shape {(size, *tails[name])}, got {array.shape} of "
                f"{array.dtype} in {path}"
            )
    if not np.array_equal(stored.pop("section").read(), section_codes(prompts)):
        raise ValueError(f"section must be that of iclimit prompts, got other numbers in {path}")
    first = 0
    for _, block in prompts.blocks():
        for name, array in stored.items():
            drawn = getattr(block, name)
            kept = array.read(len(block))
            allowed = ROUNDING * (np.abs(drawn) + np.sqrt(np.mean(drawn**2)))
            # Negated, for NaN compares false.
            if not (same := np.abs(kept - drawn) <= allowed).all():
                changed = np.argmin(same.reshape(len(block), -1).all(axis=1))
                raise ValueError(
                    f"prompts must be those that their seed draws, got other {name} for prompt "
                    f"{first + changed} in {path}: the file was changed, or drawn by another "
                    "version of NumPy"
                )
        first += len(block)
