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

The same prompts can be written as rows of a table (.csv, .parquet), with the description beside
it in a file of the same name that ends in .json.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from iclimit.checks import check_arguments
from iclimit.files import replacing
from iclimit.notation import did_you_mean
from iclimit.runs.code_version import versions
from iclimit.simulate.probing.problem import DrawnPrompts, Problem
from iclimit.validation.yours.models.npz import NpzFile, open_npz, write_array
from iclimit.validation.yours.models.sections import Section, plan_sections

FORMAT = 1
"""Version of the format."""

ENDINGS = (".npz", ".csv", ".parquet")
"""Endings of files that prompts are written to."""

ARRAYS = {
    "tasks": "pretraining_tasks",
    "input_covariance": "input_covariance",
    "task_covariance": "task_covariance",
}
"""Arrays of a problem, with their names in a file."""

PROBLEM = tuple(name for name in Problem.__dataclass_fields__ if name not in ARRAYS)
"""Numbers and names of a problem."""

ROUNDING = 1e-6
"""Largest deviation of prompts from those that are drawn again, over their own size and the root
mean square.  Other machines round float64 differently by 1e-15, and float32 by 1e-7."""


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
    >>> from iclimit.simulate.probing.problem import Problem
    >>> from iclimit.validation.yours.models.files import PromptFile
    >>> prompts = PromptFile(Problem(context=10, dim=5), test_prompts=100)
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

    @cached_property
    def sections(self) -> list[Section]:
        """What is asked, in the order of the file."""
        plan = plan_sections(self.problem, test_prompts=self.test_prompts, rng=self.seed)
        return [replace(section, float32=self.float32) for section in plan]

    def __len__(self) -> int:
        """Number of prompts in all sections."""
        return sum(map(len, self.sections))

    def blocks(self) -> Iterator[tuple[Section, DrawnPrompts]]:
        """Draw all prompts in the order of the file.

        Yields
        ------
        tuple of Section and DrawnPrompts
            A block, after its section.
        """
        for section in self.sections:
            for block in section.blocks():
                yield section, block

    def description(self, *, arrays: bool) -> str:
        """Description as JSON, with the arrays of the problem or without them."""
        problem = {name: getattr(self.problem, name) for name in PROBLEM}
        if arrays:
            problem |= {name: getattr(self.problem, name) for name in ARRAYS}
        content = {
            "format": FORMAT,
            "versions": {name: versions()[name] for name in ("iclimit", "numpy")},
            "problem": {name: value for name, value in problem.items() if value is not None},
            "test_prompts": self.test_prompts,
            "seed": self.seed,
            "float32": self.float32,
            "sections": {section.name: len(section) for section in self.sections},
        }
        return json.dumps(content, default=_plain, indent=1)

    @classmethod
    def from_description(cls, text: str, path: Path, **arrays: np.ndarray) -> PromptFile:
        """Parse a description, with the arrays of the problem that are kept elsewhere.

        Raises
        ------
        ValueError
            If it is none, or one of another version.
        """
        try:
            content = json.loads(text)
            version, made = content["format"], dict(content["versions"])
            problem, sections = dict(content["problem"]), dict(content["sections"])
            settings = {name: content[name] for name in ("test_prompts", "seed", "float32")}
        except (ValueError, KeyError, TypeError, RecursionError):
            raise ValueError(f"prompts must be a file of iclimit prompts, got {path}") from None
        known = (*PROBLEM, *ARRAYS)
        for name in problem:
            if name not in known:
                hint = did_you_mean(name, known)
                raise ValueError(f"problem takes {', '.join(known)}, got {name!r} in {path}{hint}")
        if version == FORMAT:
            if missing := {"context", "dim"} - problem.keys():
                raise ValueError(f"problem must have {min(missing)}, got none in {path}")
            found = cls(Problem(**problem | arrays), **settings)
            if sections == {section.name: len(section) for section in found.sections}:
                return found
        raise ValueError(
            f"prompts must be of iclimit {versions()['iclimit']}, got {path}, which iclimit "
            f"{str(made.get('iclimit'))[:20]} made"
        )


def write_prompts(path: Path, prompts: PromptFile) -> None:
    """Write prompts to a file, .npz, .csv or .parquet; a table gets its description beside it.

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
    if path.suffix not in ENDINGS:
        raise ValueError(f"prompts must be written to {', '.join(ENDINGS)}, got {str(path)!r}")
    if path.suffix == ".npz":
        with replacing(path) as partial:
            _write_npz(partial, prompts)
        return
    from iclimit.validation.yours.models.prompt_rows import write_rows

    with replacing(path) as partial, replacing(path.with_suffix(".json")) as beside:
        write_rows(partial, prompts)
        beside.write_text(prompts.description(arrays=True) + "\n", encoding="utf-8")


def read_prompts(path: Path) -> PromptFile:
    """Read what a file of prompts was drawn from, and check that its prompts are these.

    Parameters
    ----------
    path : Path
        A file of `write_prompts` that ends in .npz or .json.

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
    if path.suffix == ".json":
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            text = ""
        return PromptFile.from_description(text, path)
    if path.suffix != ".npz":
        table = path.suffix in ENDINGS
        hint = f": give {path.with_suffix('.json')}, its description" if table else ""
        raise ValueError(f"prompts must be in a file .npz or .json, got {str(path)!r}{hint}")
    with open_npz(path) as file:
        if "description" not in file:
            found = ", ".join(file.names[:10])
            raise ValueError(
                f"prompts must be a file of iclimit prompts, got {path} with {found}: it comes "
                "first, and the predictions second"
            )
        description = file["description"]
        if description.dtype.kind != "U" or description.shape:
            raise ValueError(f"description must be text, got {description.dtype} in {path}")
        arrays = {name: file[kept].whole() for name, kept in ARRAYS.items() if kept in file}
        prompts = PromptFile.from_description(str(description.whole()), path, **arrays)
        _compare(path, prompts, file)
    return prompts


def _write_npz(path: Path, prompts: PromptFile) -> None:
    size, problem = len(prompts), prompts.problem
    real = np.dtype("<f4" if prompts.float32 else "<f8")
    late: dict[str, list[np.ndarray]] = {"labels": [], "query": []}

    def inputs() -> Iterator[np.ndarray]:
        for _, block in prompts.blocks():
            for name, parts in late.items():
                parts.append(getattr(block, name).astype(real))
            yield block.inputs

    shapes = {"labels": (size, problem.context), "query": (size, problem.dim)}
    description = np.array(prompts.description(arrays=False))
    with zipfile.ZipFile(path, "w", strict_timestamps=False) as archive:
        write_array(archive, "description", (), description.dtype, [description])
        write_array(archive, "inputs", (size, problem.context, problem.dim), real, inputs())
        for name, parts in late.items():
            write_array(archive, name, shapes[name], real, parts)
        codes = section_codes(prompts)
        write_array(archive, "section", codes.shape, codes.dtype, [codes])
        for name, kept in ARRAYS.items():
            if (values := getattr(problem, name)) is not None:
                write_array(archive, kept, values.shape, np.dtype("<f8"), [values])


def section_codes(prompts: PromptFile) -> np.ndarray:
    """Number of the section of each prompt, (n,)."""
    lengths = [len(section) for section in prompts.sections]
    return np.repeat(np.arange(len(lengths), dtype="<i2"), lengths)


def _compare(path: Path, prompts: PromptFile, file: NpzFile) -> None:
    """Raise a ValueError unless the arrays in a file are those that are drawn again."""
    size, problem = len(prompts), prompts.problem
    tails = {"inputs": (problem.context, problem.dim), "labels": (problem.context,)}
    tails |= {"query": (problem.dim,), "section": ()}
    stored = {name: file[name] for name in tails}
    for name, array in stored.items():
        if array.shape != (size, *tails[name]) or array.dtype.kind not in "fi":
            raise ValueError(
                f"{name} must be numbers of shape {(size, *tails[name])}, got {array.shape} of "
                f"{array.dtype} in {path}"
            )
    if not np.array_equal(stored.pop("section").whole(), section_codes(prompts)):
        raise ValueError(f"section must be that of iclimit prompts, got other numbers in {path}")
    first = 0
    for _, block in prompts.blocks():
        for name, array in stored.items():
            drawn, found = getattr(block, name), array.read(len(block))
            allowed = ROUNDING * (np.abs(drawn) + np.sqrt(np.mean(drawn**2)))
            # Negated, for NaN compares false.
            if not (same := np.abs(found - drawn) <= allowed).all():
                changed = np.argmin(same.reshape(len(block), -1).all(axis=1))
                raise ValueError(
                    f"prompts must be those that their seed draws, got other {name} for prompt "
                    f"{first + changed} in {path}: the file was changed, or drawn by another "
                    "version of NumPy"
                )
        first += len(block)


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, and laws, as JSON holds them."""
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else str(value)
