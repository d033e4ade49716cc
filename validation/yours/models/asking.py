"""Answers of a model and of baselines to sections of prompts, block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import numpy as np

from iclimit.simulate.probing.problem import DrawnPrompts
from iclimit.validation.yours.models.answers import Answers
from iclimit.validation.yours.models.baselines import Baseline
from iclimit.validation.yours.models.sections import Section


class Answering(Protocol):
    """What answers prompts: a model, or a file of its predictions."""

    def answer(self, drawn: DrawnPrompts, *, section: str, first: int) -> np.ndarray:
        """Answers (n,) to prompts of a section, the first of which has this number."""

    def check(self, drawn: DrawnPrompts, *, section: str) -> None:
        """Raise a ValueError if its answers to some first prompts depend on more than those."""


def ask(
    model: Answering,
    baselines: Iterable[Baseline],
    section: Section,
    *,
    advance: Callable[[int], object] | None = None,
) -> Answers:
    """Answers of a model and of baselines to one section.

    Parameters
    ----------
    model : Model, LastPosition or RecordedPredictions
        What is asked.
    baselines : iterable of Baseline
        Algorithms that are asked the same.
    section : Section
        The prompts.
    advance : callable, optional
        Called with the number of prompts after each block.

    Returns
    -------
    Answers
        Arrays (len(section),).  Prompts are dropped after each block.
    """
    baselines = list(baselines)
    names = [each.name for each in baselines]
    columns: list[list[np.ndarray]] = []
    first = 0
    for block in section.blocks():
        own = model.answer(block, section=section.name, first=first)
        others = [np.asarray(each.predict(block)) for each in baselines]
        columns.append([own, block.target, block.noise_variance, *others])
        first += len(block)
        if advance is not None:
            advance(len(block))
    own, target, noise, *others = map(np.concatenate, zip(*columns, strict=True))
    return Answers(section.name, own, dict(zip(names, others, strict=True)), target, noise)


def ask_all(
    model: Answering,
    baselines: Sequence[Baseline],
    sections: Iterable[Section],
    *,
    progress: bool = False,
) -> dict[str, Answers]:
    """Answers to several sections by name, after a check of the model on the first of them.

    Parameters
    ----------
    model : Model, LastPosition or RecordedPredictions
        What is asked.
    baselines : sequence of Baseline
        Algorithms that are asked the same.
    sections : iterable of Section
        The prompts.
    progress : bool
        Whether to show a progress bar.

    Examples
    --------
    >>> from iclimit.simulate.probing.problem import Problem
    >>> from iclimit.validation.yours.models.asking import ask_all
    >>> from iclimit.validation.yours.models.model import Model
    >>> from iclimit.validation.yours.models.sections import plan_sections
    >>> model = Model(lambda inputs, labels, query: 0.0 * query[:, 0])
    >>> sections = plan_sections(Problem(context=10, dim=5), test_prompts=2000)
    >>> answers = ask_all(model, [], sections)
    >>> print(answers["fresh"].error())
    4.89(17)
    """
    from tqdm.auto import tqdm

    sections = list(sections)
    if sections:
        model.check(next(iter(sections[0].blocks())), section=sections[0].name)
    found = {}
    with tqdm(total=sum(map(len, sections)), unit="prompt", disable=not progress) as bar:
        for section in sections:
            bar.set_description(section.name)
            found[section.name] = ask(model, baselines, section, advance=bar.update)
    return found
