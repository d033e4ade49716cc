"""Training on every position of sequences: the limit, and the prediction of runs.

Mean errors of simulated runs, extrapolated to infinite dimension, equal the asymptotic ICL and
IDG errors of linear attention that is trained on all positions: with summaries over the examples
seen and over the whole length, with drawn and with balanced tasks.

Source: Derived in the documentation.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from iclimit.asymptotics.pretraining import (
    AllPositionErrors,
    all_position_errors,
    balanced_position_errors,
)
from iclimit.experiment import Experiment, Reduced, Ridge
from iclimit.losses import AllPositions
from iclimit.problem import Problem
from iclimit.samples import Samples
from iclimit.simulate.pretraining import sample
from iclimit.validation.claim import Claim, Effort, Rows, call, limit, run


@dataclass(frozen=True)
class Setting:
    """A point of the limit, whose sizes are integers at multiples of 4."""

    theory: Callable[..., AllPositionErrors]
    sequence_ratio: float
    alpha_min: float
    alpha: float
    kappa: float
    rho: float
    ridge: float
    normalization: str

    @property
    def balanced(self) -> bool:
        """Whether all tasks have the same number of sequences."""
        return self.theory is balanced_position_errors

    def limit(self) -> Any:
        """Errors in infinite dimension."""
        point = {name: value for name, value in vars(self).items() if name != "theory"}
        return call(self.theory, **point)

    def at(self, dim: int) -> Experiment:
        """Run of a dimension."""
        law = Problem(
            dim,
            round(self.alpha * dim),
            tasks=round(self.kappa * dim),
            noise_variance=self.rho,
            task_law="sphere",
        )
        return Experiment(
            law,
            prompts=round(self.sequence_ratio * dim),
            balanced=self.balanced,
            loss=AllPositions(first=round(self.alpha_min * dim)),
            training=Ridge(self.ridge),
            model=Reduced(normalization=self.normalization),
        )


SETTINGS = {
    "means, drawn tasks": Setting(all_position_errors, 2, 0.5, 1.5, 1, 0.1, 0.4, "mean"),
    "fixed length, even tasks": Setting(
        balanced_position_errors, 2, 0.25, 1.5, 0.5, 0.2, 0.3, "length"
    ),
}

# Runs by dimension.
REPEATS: dict[str, dict[int, int]] = {
    "tiny": {4: 8, 8: 8, 12: 8, 16: 8},
    "quick": {8: 1000, 12: 400, 16: 150, 24: 80},
    "medium": {8: 6000, 12: 2400, 16: 900, 24: 480},
    "full": {8: 20_000, 12: 10_000, 16: 4000, 24: 2000, 32: 400},
}

# Order in 1/d of the polynomial that is fitted.  It takes the errors of the equations at the sizes
# of quick to their limit within 0.03 %.
ORDER = 2


def pair(errors: Samples) -> tuple[Any, Any]:
    """ICL and IDG error."""
    return errors.icl, errors.idg


def rows(effort: Effort) -> Rows:
    """Errors at the last position, in infinite dimension."""
    repeats = effort.by_size(**REPEATS)
    for name, setting in SETTINGS.items():
        theory = setting.limit()
        runs = {
            dim: run(sample, run=setting.at(dim), repeats=count) for dim, count in repeats.items()
        }
        yield limit(
            {f"ICL d=inf {name}": theory.icl, f"IDG d=inf {name}": theory.idg},
            {dim: call(pair, errors) for dim, errors in runs.items()},
            order=ORDER,
            about=name,
        )


claim = Claim.of("sequence-limit", __doc__, rows, figure=False)
