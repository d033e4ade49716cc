"""A model beside algorithms on the same prompts: errors, derivatives, symmetries.

The ladder is the error of the model between those of algorithms.  The derivatives by query and
context labels say whether they react alike, the diagnosis whether the order of the context
matters and how far the answers are from linear in the labels.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from iclimit.results import Estimate, Result
from iclimit.validation.instruments.models.algorithm import Baseline
from iclimit.validation.instruments.models.model import Answers
from iclimit.validation.instruments.models.sections import Section, central_differences
from iclimit.validation.instruments.ratios import cosine, ratio, z_of


@dataclass(frozen=True)
class Rung:
    """One algorithm beside the model.

    Attributes
    ----------
    name, description : str
        The algorithm.
    error : Estimate
        Its mean squared error.
    difference : Estimate
        Error of the model minus that of the algorithm, prompt by prompt.
    z : float
        Of the difference.
    theory : float
        Exact error of the algorithm; NaN where it is not known.
    theory_z : float
        Deviation of the measured error from it: a check of the comparison itself.
    """

    name: str
    description: str
    error: Estimate
    difference: Estimate
    z: float
    theory: float = math.nan
    theory_z: float = math.nan

    def columns(self) -> dict[str, Any]:
        """What a table has of it."""
        return {
            "algorithm": self.name,
            "description": self.description,
            "error": self.error,
            "difference": self.difference,
            "difference_z": self.z,
            "theory": self.theory,
            "theory_z": self.theory_z,
        }


@dataclass(frozen=True, repr=False)
class Ladder(Result):
    """Errors of a model and of algorithms on one section of prompts.

    Attributes
    ----------
    section, description : str
        Which prompts.
    error : Estimate
        Mean squared error of the model.
    rungs : tuple of Rung
        The algorithms, those with the largest error first.
    """

    section: str
    description: str
    error: Estimate
    rungs: tuple[Rung, ...]
    dims = ("algorithm",)

    def __getitem__(self, name: str) -> Rung:
        return next(rung for rung in self.rungs if rung.name == name)

    @property
    def nearest(self) -> Rung:
        """The algorithm whose error is nearest to that of the model."""
        return min(self.rungs, key=lambda rung: abs(rung.difference.mean))

    def columns(self) -> dict[str, Any]:
        """The rungs, a row for each."""
        rows = [rung.columns() for rung in self.rungs]
        return {name: tuple(row[name] for row in rows) for name in rows[0]}


def ladder(answers: Answers, baselines: Iterable[Baseline], description: str = "") -> Ladder:
    """Compare the errors of a model and of the baselines, prompt by prompt.

    Parameters
    ----------
    answers : Answers
        To one section of prompts.
    baselines : iterable of Baseline
        Those whose answers are compared; their exact losses count for fresh tasks only.
    description : str
        Which prompts, in words.
    """
    of_model = answers.errors(answers.model)
    rungs = [
        _rung(baseline, of_model, answers, answers.section == "fresh")
        for baseline in baselines
        if baseline.name in answers.baselines
    ]
    rungs.sort(key=lambda rung: -rung.error.mean)
    error = Estimate.of(of_model, keep=False)
    return Ladder(answers.section, description or answers.section, error, tuple(rungs))


def _rung(baseline: Baseline, of_model: np.ndarray, answers: Answers, exact: bool) -> Rung:
    errors = answers.errors(answers.baselines[baseline.name])
    error = Estimate.of(errors, keep=False)
    difference = Estimate.of(of_model - errors, keep=False)
    theory = float(baseline.loss) if exact and baseline.loss is not None else math.nan
    # Errors that are rounding, for labels of this size, are 0.
    size = float(np.mean(answers.target**2))
    theory_z = z_of(error, theory, size) if math.isfinite(theory) else math.nan
    z = z_of(difference, 0.0, size)
    return Rung(baseline.name, baseline.description, error, difference, z, theory, theory_z)


# What is moved: coordinates of the query, labels of the context.
MOVED = ("query", "labels")


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
    plus = answers[f"{moved}:plus"]
    minus = answers[f"{moved}:minus"]
    of_baselines = {
        name: central_differences(plus.baselines[name], minus.baselines[name], section)
        for name in plus.baselines
    }
    of_model = central_differences(plus.model, minus.model, section)
    return Answers(moved, of_model, of_baselines, plus.target, plus.noise_variance)


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
