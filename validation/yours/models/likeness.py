r"""How near the answers of a model are to those of algorithms.

The distance of a model f to an algorithm g is :math:`E(f - g)^2`, over the prompts.  The share
that g leaves unexplained is this distance over :math:`E f^2`: 0 for equal answers, 1 for the null
predictor, and more for answers worse than none.  The factor c minimises :math:`E(f - cg)^2`: it is
not 1 where the model takes another rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from iclimit.results import Estimate
from iclimit.validation.yours.models.answers import Answers
from iclimit.validation.yours.models.ratios import ROUNDING, best_factor, ratio, z_of


@dataclass(frozen=True)
class Likeness:
    """How near a model is to an algorithm.

    Attributes
    ----------
    name : str
        The algorithm.
    distance : Estimate
        Mean squared distance of the answers.
    unexplained : Estimate
        The distance over the mean square of the model's answers.
    factor : Estimate
        Factor of the algorithm that is nearest to the model.
    factor_z : float
        Deviation of the factor from 1.
    same : tuple of str
        Other algorithms that give the same answers to these prompts.
    """

    name: str
    distance: Estimate
    unexplained: Estimate
    factor: Estimate
    factor_z: float
    same: tuple[str, ...] = ()

    @property
    def explained(self) -> Estimate:
        """Share of the mean square of the model's answers that the algorithm explains."""
        share = self.unexplained
        return Estimate(1 - share.mean, share.standard_error, share.repeats)

    @property
    def label(self) -> str:
        """Its name and those of the algorithms that cannot be told from it."""
        return " = ".join((self.name, *self.same))


def likenesses(answers: Answers) -> list[Likeness]:
    """How near a model is to each baseline that answers differently, the nearest first."""
    model, square = answers.model, answers.model**2
    found = []
    for name, same in equal_answers(answers.baselines).items():
        baseline = answers.baselines[name]
        distance = (model - baseline) ** 2
        factor = best_factor(model, baseline)
        likeness = Likeness(
            name,
            Estimate.of(distance, keep=False),
            ratio(distance, square),
            factor,
            z_of(factor, 1.0),
            same,
        )
        found.append(likeness)
    return sorted(found, key=lambda each: each.unexplained.mean)


def equal_answers(baselines: Mapping[str, np.ndarray]) -> dict[str, tuple[str, ...]]:
    """Baselines that answer differently, each with those that answer as it does."""
    found: dict[str, tuple[str, ...]] = {}
    for name, answers in baselines.items():
        for first in found:
            other = baselines[first]
            if np.mean((answers - other) ** 2) <= ROUNDING**2 * np.mean(other**2):
                found[first] += (name,)
                break
        else:
            found[name] = ()
    return found
