"""Whether a model and algorithms react alike when the query or the context labels are moved."""

from __future__ import annotations

from dataclasses import dataclass

from iclimit.results import Estimate
from iclimit.validation.probing.answers import Answers
from iclimit.validation.probing.ratios import cosine


@dataclass(frozen=True)
class Sensitivity:
    """Cosines of the derivatives of a model and of algorithms, over prompts and directions.

    Attributes
    ----------
    moved : {"query", "labels"}
        What is moved.
    cosines : mapping of str to Estimate
        By algorithm; NaN for one that does not react.
    """

    moved: str
    cosines: dict[str, Estimate]


def sensitivity(moved: str, derivatives: Answers) -> Sensitivity:
    """Compare directional derivatives of a model with those of the baselines.

    Directions that are drawn at random, uniformly, give the cosine of whole gradients: the mean
    product of two derivatives is proportional to that of the gradients.

    Parameters
    ----------
    moved : {"query", "labels"}
        What is moved.
    derivatives : Answers
        Derivatives in place of answers.
    """
    return Sensitivity(
        moved,
        {
            name: cosine(derivatives.model, answers)
            for name, answers in derivatives.baselines.items()
        },
    )
