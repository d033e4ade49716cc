"""Models that answer at every position: asked for the last one, and for all of them.

Prompts of N pairs and a query are sequences of N + 1 pairs, the last of which has label 0.  The
answer at its position is that to the query; the answer at position i is from i examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from iclimit.results import Estimate
from iclimit.simulate.probing.problem import DrawnPrompts
from iclimit.validation.probing.baselines import Baseline
from iclimit.validation.probing.model import Model
from iclimit.validation.probing.sections import Section

POSITION_PROMPTS = 1000
"""Most prompts that are asked position by position."""


@dataclass(frozen=True)
class Positions:
    """Errors of a model and of algorithms by the number of examples before a position.

    Attributes
    ----------
    examples : array (m,)
        Numbers of examples.
    model : tuple of Estimate
        Mean squared errors of the model.
    baselines : mapping of str to tuple of Estimate
        Those of the algorithms.
    """

    examples: np.ndarray
    model: tuple[Estimate, ...]
    baselines: Mapping[str, tuple[Estimate, ...]]


def errors_by_position(
    examples: np.ndarray,
    model: np.ndarray,
    baselines: Mapping[str, np.ndarray],
    target: np.ndarray,
    noise_variance: np.ndarray,
) -> Positions:
    """Average squared errors over prompts, position by position.

    Parameters
    ----------
    examples : array (m,)
        Numbers of examples before the positions.
    model : array (n, m)
        Answers of the model.
    baselines : mapping of str to array (n, m)
        Those of the algorithms.
    target : array (n, m)
        Labels without noise.
    noise_variance : array (n,)
        Variance of the label noise.
    """

    def errors(answers: np.ndarray) -> tuple[Estimate, ...]:
        squares = (answers - target) ** 2 + noise_variance[:, None]
        return tuple(Estimate.of(column, keep=False) for column in squares.T)

    of_baselines = {name: errors(answers) for name, answers in baselines.items()}
    return Positions(np.asarray(examples), errors(model), of_baselines)


@dataclass(frozen=True)
class LastPosition:
    """A model that answers at every position, asked for the query after a full context.

    Attributes
    ----------
    model : Model
        With the form per position.
    """

    model: Model

    def answer(self, drawn: DrawnPrompts, *, section: str, first: int) -> np.ndarray:
        """Answers (n,) to the queries."""
        return self.model.answer(as_sequences(drawn), section=section, first=first)[:, -1]


def as_sequences(drawn: DrawnPrompts) -> DrawnPrompts:
    """The same prompts with the query, labelled 0, behind the pairs."""
    inputs = np.concatenate([drawn.inputs, drawn.query[:, None, :]], axis=1)
    labels = np.concatenate([drawn.labels, 0 * drawn.labels[:, :1]], axis=1)
    return replace(drawn, inputs=inputs, labels=labels)


def ask_positions(model: Model, baselines: Sequence[Baseline], section: Section) -> Positions:
    """Errors of a model and of baselines at all positions of the first prompts of a section.

    Parameters
    ----------
    model : Model
        With the form per position.
    baselines : sequence of Baseline
        Algorithms, which are asked with the pairs before each position.
    section : Section
        The prompts.
    """
    few = replace(section, drawn=min(section.drawn, POSITION_PROMPTS))
    answers, others, targets, noise = [], [], [], []
    for block in few.blocks():
        sequences = as_sequences(block)
        answers.append(model.answer(sequences))
        cut = [_cut(sequences, length) for length in range(1, sequences.labels.shape[1])]
        # Without examples the answer is 0.
        none = np.zeros(len(block))
        others.append([np.stack([none, *map(each.predict, cut)], axis=1) for each in baselines])
        targets.append((sequences.inputs @ block.tasks[:, :, None])[:, :, 0])
        noise.append(block.noise_variance)
    columns = (np.concatenate(each) for each in zip(*others, strict=True))
    names = (each.name for each in baselines)
    return errors_by_position(
        np.arange(section.problem.context + 1),
        np.concatenate(answers),
        dict(zip(names, columns, strict=True)),
        np.concatenate(targets),
        np.concatenate(noise),
    )


def _cut(sequences: DrawnPrompts, length: int) -> DrawnPrompts:
    """Prompts of the first pairs, with the input after them as the query."""
    inputs, labels = sequences.inputs[:, :length], sequences.labels[:, :length]
    return replace(sequences, inputs=inputs, labels=labels, query=sequences.inputs[:, length])
