"""Whether a model and algorithms react alike when the query or the context labels are moved."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from iclimit.results import Estimate
from iclimit.validation.yours.models.answers import Answers
from iclimit.validation.yours.models.ratios import cosine
from iclimit.validation.yours.models.sections import Section, central_differences

MOVED = ("query", "labels")
"""What is moved: coordinates of the query, labels of the context."""


def derivatives(
    moved: str, sections: Mapping[str, Section], answers: Mapping[str, Answers]
) -> Answers:
    """Central differences (n, m) in place of answers, from those to two sections.

    Parameters
    ----------
    moved : {"query", "labels"}
        What is moved.
    sections : mapping of str to Section
        What was asked.
    answers : mapping of str to Answers
        By section.
    """
    section = sections[f"{moved}:plus"]
    plus, minus = answers[f"{moved}:plus"], answers[f"{moved}:minus"]
    of_baselines = {
        name: central_differences(plus.baselines[name], minus.baselines[name], section)
        for name in plus.baselines
    }
    of_model = central_differences(plus.model, minus.model, section)
    return Answers(moved, of_model, of_baselines, plus.target, plus.noise_variance)


def cosines(found: Answers) -> dict[str, Estimate]:
    """Cosine of the derivatives of a model and of each baseline, over prompts and directions."""
    return {name: cosine(found.model, each) for name, each in found.baselines.items()}


def given_gradients(
    gradients: Callable[..., Any], sections: Mapping[str, Section]
) -> dict[str, np.ndarray]:
    """Derivatives of a model by query and labels, as its own function gives them.

    Parameters
    ----------
    gradients : callable
        Of inputs, labels and query; returns arrays (n, dim) and (n, context).
    sections : mapping of str to Section
        What was asked.

    Raises
    ------
    TypeError
        If what is returned is no pair.
    ValueError
        If it is no pair of finite arrays of these shapes.
    """
    fresh = replace(sections["fresh"], drawn=sections["query:plus"].drawn)
    parts = []
    for block in fresh.blocks():
        returned = gradients(block.inputs.copy(), block.labels.copy(), block.query.copy())
        shapes = block.query.shape, block.labels.shape
        if not hasattr(returned, "__iter__"):
            raise TypeError(
                f"gradients must return a pair of arrays, got {type(returned).__name__}"
            )
        found = [np.asarray(each, dtype=float) for each in returned]
        if tuple(each.shape for each in found) != shapes:
            raise ValueError(
                f"gradients must return arrays of shapes {shapes[0]} and {shapes[1]}, got "
                f"{', '.join(str(each.shape) for each in found)}"
            )
        if not all(np.isfinite(each).all() for each in found):
            raise ValueError("gradients must return finite numbers, got NaN or inf")
        parts.append(found)
    columns = (np.concatenate(each) for each in zip(*parts, strict=True))
    return dict(zip(MOVED, columns, strict=True))
