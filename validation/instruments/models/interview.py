"""What a model and algorithms answer, section by section, and what follows for each algorithm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from iclimit.problem import Problem
from iclimit.results import Estimate
from iclimit.simulate.prompts.sampling import concatenate_fields
from iclimit.validation.instruments.models.algorithm import Baseline, Examples
from iclimit.validation.instruments.models.ladder import (
    MOVED,
    Ladder,
    derivatives,
    diagnose,
    given_gradients,
    ladder,
)
from iclimit.validation.instruments.models.linear_attention import (
    LinearPart,
    attention_features,
    linear_part,
)
from iclimit.validation.instruments.models.model import Answering, Answers, ask_all
from iclimit.validation.instruments.models.sections import Section
from iclimit.validation.instruments.ratios import larger, quantile

# Sections that the diagnosis needs.
CHECKS = ("permuted", "labels:other", "labels:sum", "labels:zero")


@dataclass(frozen=True, eq=False)
class Interview:
    """Sections of prompts with the answers to them.

    Attributes
    ----------
    sections : mapping of str to Section
        What was asked, by name.
    answers : mapping of str to Answers
        Answers of the model and of the algorithms to each of them.
    gradients : mapping of str to array, optional
        Derivatives of the model by query and labels, as its own function gives them.
    """

    sections: Mapping[str, Section]
    answers: Mapping[str, Answers]
    gradients: Mapping[str, np.ndarray] | None = None

    @classmethod
    def of(
        cls,
        model: Answering,
        baselines: Sequence[Baseline],
        sections: Sequence[Section],
        *,
        gradients: Callable[..., Any] | None = None,
        progress: bool = False,
    ) -> Interview:
        """Ask a model and algorithms."""
        answers = ask_all(model, baselines, sections, progress=progress)
        by_name = {section.name: section for section in sections}
        given = None if gradients is None else given_gradients(gradients, by_name)
        return cls(by_name, answers, given)

    @property
    def fresh(self) -> np.ndarray:
        """Answers of the model to fresh prompts."""
        return self.answers["fresh"].model

    @property
    def problem(self) -> Problem:
        """Law of the fresh prompts."""
        return self.sections["fresh"].problem

    @property
    def shifts(self) -> list[str]:
        """Sections of prompts of other laws."""
        return [name for name, section in self.sections.items() if section.purpose == "shift"]

    def first(self, count: int) -> Examples:
        """The first fresh prompts, which are drawn again."""
        section = replace(self.sections["fresh"], drawn=count)
        return Examples(concatenate_fields(section.blocks()), self.problem)

    def with_answers_of(self, algorithms: Sequence[Baseline]) -> Interview:
        """The same with answers of further algorithms."""
        answers = {}
        for name, section in self.sections.items():
            known = self.answers[name]
            others = _answers_of(algorithms, section, self.problem)
            answers[name] = replace(known, baselines={**known.baselines, **others})
        return replace(self, answers=answers)

    def ladder(self, name: str, algorithms: Sequence[Baseline]) -> Ladder:
        """Errors in a section."""
        return ladder(self.answers[name], algorithms, self.sections[name].description)

    @cached_property
    def slopes(self) -> dict[str, Answers]:
        """Derivatives by the query and by the labels, in place of answers."""
        slopes = {moved: derivatives(moved, self.sections, self.answers) for moved in MOVED}
        if self.gradients is not None:
            for moved, own in self.gradients.items():
                slopes[moved] = replace(slopes[moved], model=own)
        return slopes

    def diagnosis(self) -> dict[str, Estimate]:
        """Dependence on the order of the context, and nonlinearity in the labels."""
        return diagnose(self.fresh, *(self.answers[name].model for name in CHECKS))

    def linear_part(self) -> LinearPart | None:
        """Linear attention that is nearest to the answers to fresh prompts, drawn again."""
        blocks = self.sections["fresh"].blocks()
        features = [attention_features(block, self.problem) for block in blocks]
        query = np.concatenate([query for query, _ in features])
        summary = np.concatenate([summary for _, summary in features])
        return linear_part(query, summary, self.fresh, self.problem)

    @cached_property
    def compared(self) -> dict[str, Answers]:
        """Answers to all but fresh prompts, and derivatives, by what they are called."""
        compared = {
            section.description: self.answers[name]
            for name, section in self.sections.items()
            if section.purpose != "sensitivity" and name != "fresh"
        }
        slopes = self.slopes.items()
        return compared | {f"derivatives by the {moved}": answers for moved, answers in slopes}

    def differences(self, tolerance: float, name: str) -> tuple[str, ...]:
        """Descriptions of the prompts on which an algorithm is beyond the tolerance.

        Parameters
        ----------
        tolerance : float
            Share of the mean square of the answers that may be left unexplained.  The mean square
            of answers to fresh prompts is the least that counts for labels 0.
        name : str
            The algorithm.
        """
        different = []
        limit = quantile(len(self.compared))
        for description, answers in self.compared.items():
            square = np.reshape(
                (answers.model - answers.baselines[name]) ** 2, (len(answers.model), -1)
            )
            allowed = np.reshape(answers.model**2, square.shape)
            if answers.section == "labels:zero":
                allowed = np.full(square.shape, np.mean(self.fresh**2))
            if larger(np.sum(square, axis=1), tolerance * np.sum(allowed, axis=1), limit):
                different.append(description)
        return tuple(different)


def _answers_of(
    algorithms: Sequence[Baseline], section: Section, problem: Problem
) -> dict[str, np.ndarray]:
    """Answers to a section of algorithms that know another problem, by name."""
    parts: dict[str, list[np.ndarray]] = {algorithm.name: [] for algorithm in algorithms}
    for block in section.blocks():
        examples = Examples(block, problem)
        for algorithm in algorithms:
            parts[algorithm.name].append(algorithm.predict(examples))
    return {name: np.concatenate(blocks) for name, blocks in parts.items()}
