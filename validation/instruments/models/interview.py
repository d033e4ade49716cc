"""What a model and algorithms answer, section by section: errors, derivatives, symmetries.

The derivatives by query and context labels say whether they react alike, the diagnosis whether the
order of the context matters and how far the answers are from linear in the labels.
"""

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
from iclimit.validation.instruments.models.ladder import Ladder, ladder
from iclimit.validation.instruments.models.linear_attention import (
    LinearPart,
    attention_features,
    linear_part,
)
from iclimit.validation.instruments.models.model import Answering, Answers, ask_all
from iclimit.validation.instruments.models.sections import Section, central_differences
from iclimit.validation.instruments.ratios import cosine, larger, quantile, ratio

# Inputs that are moved: coordinates of the query, labels of the context.
MOVED = ("query", "labels")

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
        slopes = {moved: self._derivatives(moved) for moved in MOVED}
        if self.gradients is not None:
            for moved, own in self.gradients.items():
                slopes[moved] = replace(slopes[moved], model=own)
        return slopes

    def _derivatives(self, moved: str) -> Answers:
        """Central differences (n, m) in place of answers, from those to two sections."""
        section = self.sections[f"{moved}:plus"]
        plus = self.answers[f"{moved}:plus"]
        minus = self.answers[f"{moved}:minus"]
        of_baselines = {
            name: central_differences(plus.baselines[name], minus.baselines[name], section)
            for name in plus.baselines
        }
        of_model = central_differences(plus.model, minus.model, section)
        return Answers(moved, of_model, of_baselines, plus.target, plus.noise_variance)

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


def cosines(answers: Answers) -> dict[str, Estimate]:
    """Cosine of the derivatives of a model and of each baseline, over prompts and directions."""
    return {
        name: cosine(answers.model, derivatives) for name, derivatives in answers.baselines.items()
    }


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
        arrays = [np.asarray(derivatives, dtype=float) for derivatives in returned]
        if tuple(array.shape for array in arrays) != shapes:
            raise ValueError(
                f"gradients must return arrays of shapes {shapes[0]} and {shapes[1]}, got "
                f"{', '.join(str(array.shape) for array in arrays)}"
            )
        if not all(np.isfinite(array).all() for array in arrays):
            raise ValueError("gradients must return finite numbers, got NaN or inf")
        parts.append(arrays)
    columns = (np.concatenate(blocks) for blocks in zip(*parts, strict=True))
    return dict(zip(MOVED, columns, strict=True))


def diagnose(
    fresh: np.ndarray,
    permuted: np.ndarray,
    other: np.ndarray,
    summed: np.ndarray,
    zero: np.ndarray,
) -> dict[str, Estimate]:
    r"""Compare answers f to the same inputs with other labels, or in another order.

    Parameters
    ----------
    fresh : array (n,)
        Answers to prompts.
    permuted : array (m,)
        To the first of them, with the pairs of the context permuted.
    other, summed, zero : array (m,)
        To the first of them with labels y' of other tasks, with y + y', and with labels 0.

    Returns
    -------
    dict of str to Estimate
        All are 0, up to rounding, for linear attention.  "order": mean square of the change of
        the answers when the context is permuted, over twice their mean square: 0 if the order does
        not matter, 1 if answers to two orders are unrelated.  "nonlinearity": mean square of
        :math:`f(y + y') - f(y) - f(y') + f(0)`, over that of :math:`f(y + y')`.  "constant": mean
        square of f(0), over that of f(y).
    """
    first = fresh[: len(permuted)]
    order = ratio((permuted - first) ** 2, 2 * first**2)
    first = fresh[: len(other)]
    defect = summed - first - other + zero
    return {
        "order": order,
        "nonlinearity": ratio(defect**2, summed**2),
        "constant": ratio(zero**2, first**2),
    }
