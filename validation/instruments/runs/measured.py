"""Measured errors of pretrained linear attention, at one setting, in our units."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from iclimit.checks import given
from iclimit.experiment import SGD, Experiment, Flow, Ridge
from iclimit.links import link_text
from iclimit.losses import LastPosition
from iclimit.notation import ratios_of
from iclimit.results import Estimate

# Integers of a run, each with the ratio that may stand for it.
RATIOS = {"context": "alpha", "tasks": "kappa", "prompts": "tau"}

# All integers, as the columns of a table name them.
SIZES = ("dim", *RATIOS)

# Estimator of a run, the run, and the penalty of ridge regression if it is not the best one.
Setting = tuple[str, Experiment, float | None]

# Measured errors, as combinations of the ICL and the IDG error.
MEASURED = {"icl": (1.0, 0.0), "idg": (0.0, 1.0), "gap": (1.0, -1.0)}

# Whose errors these are: trained linear attention, or a Bayes estimator (`simulate_estimator`).
ATTENTION = "attention"
ESTIMATORS = (ATTENTION, "dmmse", "ridge")

# Errors of it that are accuracies stand apart from its squared errors, with their columns.
ACCURACY = "accuracy"
ACCURACIES = {"icl": "accuracy", "idg": "idg_accuracy"}

# Labels that are not linear, in training and tests.
LABELS = ("link", "flips")

# Law of the test prompts where it is not that of the pretraining: examples, and noise.
TESTS = ("test_context", "test_rho")

# Loss and summaries of runs on all positions.
OF_LOSS = ("first_position", "normalization")

# From fewer single runs their error bar is not estimated, but predicted.
FEW_RUNS = 10


def sizes_of_run(run: Experiment) -> dict[str, Any]:
    """Integers of a run by name (`SIZES`)."""
    problem = run.problem
    return {
        "dim": problem.dim,
        "context": problem.context,
        "tasks": problem.tasks,
        "prompts": run.prompts,
    }


@dataclass(frozen=True)
class MeasuredRun:
    """Errors measured at one setting, in the units of the library.

    Attributes
    ----------
    rows : tuple of int
        Rows of the table that it was read from.
    experiment : Experiment
        The run that was made.
    errors : dict of Estimate
        Means by name (`MEASURED`); the standard error is infinite where it is not known.
    correlation : float or None
        Of the ICL and the IDG mean; None if it is not known.
    runs : float or None
        Runs behind the means, if known; rows of a table without error bars are single runs.  Plans
        interpolate between integers.
    unrounded : dict of float
        Sizes that came out of ratios, before they were rounded.
    deviations_given : bool
        Whether standard deviations of single runs were given.
    estimator : {"attention", "accuracy", "dmmse", "ridge"}
        Whose errors these are; "accuracy": they are accuracies of attention.
    penalty : float or None
        Of ridge regression for inputs of variance 1; None: the best one.
    labels_stated : bool
        Whether the table says by which link labels are made.
    """

    rows: tuple[int, ...]
    experiment: Experiment
    errors: Mapping[str, Estimate]
    correlation: float | None = None
    runs: float | None = None
    unrounded: Mapping[str, float] = field(default_factory=dict)
    deviations_given: bool = False
    estimator: str = ATTENTION
    penalty: float | None = None
    labels_stated: bool = False

    @cached_property
    def sizes(self) -> dict[str, Any]:
        """Integers of the run: dim, context, tasks (possibly infinite) and prompts."""
        return sizes_of_run(self.experiment)

    @property
    def rho(self) -> float:
        """Noise variance."""
        return self.experiment.problem.noise_variance

    @property
    def ridge(self) -> float:
        """Ridge of the training."""
        return self.experiment.ridge

    @property
    def time(self) -> float:
        """Time of gradient flow; infinite for its end, NaN for SGD."""
        return float(getattr(self.experiment.training, "time", math.nan if self.sgd else math.inf))

    @property
    def start_variance(self) -> float:
        """Variance of the entries of Gamma at the start, times d."""
        return float(getattr(self.experiment.training, "start_variance", 0.0))

    @property
    def sgd(self) -> bool:
        """Whether it was trained by one pass of SGD."""
        return isinstance(self.experiment.training, SGD)

    @property
    def trained(self) -> bool:
        """Whether it was trained for a time, from a start or by SGD, and not to the minimiser."""
        return not isinstance(self.experiment.training, Ridge)

    @property
    def by_position(self) -> bool:
        """Whether it was trained on several positions, so that it is measured at one of them."""
        return not isinstance(self.experiment.loss, LastPosition)

    @property
    def position(self) -> int:
        """Examples before the labels that it is measured on."""
        return self.experiment.tests.problem.context

    @property
    def in_course(self) -> bool:
        """Whether other rows may be of the same runs, after another time or at other positions."""
        return self.trained or self.by_position

    @property
    def training(self) -> dict[str, Any]:
        """How it was trained, by the columns that say so; empty for a minimiser."""
        training = self.experiment.training
        if isinstance(training, SGD):
            return {"learning_rate": training.learning_rate, "batch": training.batch}
        if isinstance(training, Flow):
            return {"time": training.time, "start_variance": training.start_variance}
        return {}

    @cached_property
    def course(self) -> Setting:
        """Its setting without how long it was trained, or at which position it was measured."""
        stated = self.experiment.keywords()
        if self.by_position:
            return self.estimator, Experiment.of(**stated | {"test_context": None}), self.penalty
        training = self.experiment.training
        start = {"prompts": training.batch} if isinstance(training, SGD) else {"time": 0.0}
        return self.estimator, Experiment.of(**stated | start), self.penalty

    @property
    def learned(self) -> bool:
        """Whether these are errors or accuracies of attention."""
        return self.estimator in (ATTENTION, ACCURACY)

    @property
    def linear(self) -> bool:
        """Whether these are errors, and labels without noise are linear."""
        return self.estimator != ACCURACY and self.experiment.problem.has_linear_labels

    @property
    def labels(self) -> dict[str, Any]:
        """Link and flips, by the columns that say so; nothing for linear labels."""
        labels = self.experiment.problem.labels
        return labels | ({"link": link_text(labels["link"])} if "link" in labels else {})

    def column(self, name: str) -> str:
        """Column of an error (`MEASURED`), or of the accuracy in its place."""
        return ACCURACIES[name] if self.estimator == ACCURACY else name

    @cached_property
    def tests(self) -> dict[str, Any]:
        """Law of the test prompts (`TESTS`), where it is not that of training."""
        stated = self.experiment.keywords()
        return {name: stated[name] for name in TESTS if name in stated}

    @property
    def label(self) -> str:
        """Rows and parameters in words."""
        rows = f"row {self.rows[0]}" if len(self.rows) == 1 else f"{len(self.rows)} rows"
        sizes = "d={dim} l={context} k={tasks:g} n={prompts}".format(**self.sizes)
        tests = "".join(f" {name}={value:g}" for name, value in self.tests.items())
        if self.by_position:
            tests = f" {self.experiment.loss} position={self.position}"
        ridge = f" ridge={self.ridge:g}" if self.ridge > 0 else ""
        if self.penalty is not None:
            ridge = f" penalty={self.penalty:g} (inputs of variance 1)"
        if self.trained:
            ridge = f"{ridge} {self.experiment.training}"
        labels = "".join(f" {name}={value}" for name, value in self.labels.items())
        return f"{rows}: {sizes} rho={self.rho:g}{ridge}{tests}{labels}"

    @property
    def arguments(self) -> dict[str, Any]:
        """Sizes, levels, loss, law of the tests and training, as `Experiment.of` takes them."""
        own = {"rho": self.rho, "ridge": self.ridge}
        stated = self.experiment.keywords()
        loss = {name: stated[name] for name in OF_LOSS if name in stated}
        labels = self.experiment.problem.labels
        return {**self.sizes, **own, **loss, **self.tests, **self.training, **labels}

    @property
    def setting(self) -> Setting:
        """What its prediction depends on."""
        return self.estimator, self.experiment, self.penalty

    def at(self, changes: Mapping[str, Any]) -> MeasuredRun:
        """The run with other keywords of its experiment, or of another estimator or penalty."""
        own = {name: changes[name] for name in ("estimator", "penalty") if name in changes}
        stated = {name: value for name, value in changes.items() if name not in own}
        if not stated:
            return replace(self, **own)
        return replace(self, experiment=experiment_of(self.experiment.keywords() | stated), **own)

    @property
    def degrees(self) -> float:
        """Degrees of freedom of the standard errors."""
        return math.inf if self.runs in (None, 1) else self.runs - 1

    def lacks_error_bar(self, name: str) -> bool:
        """Whether an error has no error bar, or one from a few single runs."""
        few = 0 < len(self.errors[name].samples) < FEW_RUNS
        return few or not math.isfinite(self.errors[name].standard_error)

    @cached_property
    def ratios(self) -> dict[str, float]:
        """Parameters of the limit."""
        levels = ("rho", "ridge", "time", "start_variance")
        ratios = ratios_of(self.sizes["dim"], self.sizes)
        return ratios | {name: getattr(self, name) for name in levels}

    @property
    def first_position(self) -> float:
        """Where the loss begins; between integers if the first position has a smaller weight."""
        context = self.sizes["context"]
        return float(context + 1 - 1 / max(self.experiment.loss.shares(context)))

    @property
    def parameters(self) -> dict[str, float]:
        """Parameters of the limit and of sequences, as a fit knows them."""
        of_sequences = {"first_position": self.first_position}
        of_sequences["sequence_ratio"] = self.sizes["prompts"] / self.sizes["dim"]
        return self.ratios | of_sequences

    @cached_property
    def test_ratios(self) -> dict[str, float]:
        """Parameters of the limit of the test prompts, where they are not those of training."""
        limit = self.experiment.limit
        return {name: limit[name] for name in ("test_alpha", "test_rho") if name in limit}

    def covariance(self, names: Sequence[str]) -> np.ndarray:
        """Covariance of some of the means; an unknown correlation counts as 1."""
        if self.correlation is None:
            errors = np.array([self.errors[name].standard_error for name in names])
            return np.outer(errors, errors)
        icl = self.errors["icl"].standard_error
        idg = self.errors["idg"].standard_error
        shared = self.correlation * icl * idg
        weights = np.array([MEASURED[name] for name in names])
        return np.linalg.multi_dot([weights, [[icl**2, shared], [shared, idg**2]], weights.T])


def experiment_of(stated: Mapping[str, Any]) -> Experiment:
    """A run as a table states it, of which the end of a flow from zero is ridge regression."""
    keywords = given(stated)
    if keywords.get("time") == math.inf and not keywords.get("start_variance"):
        del keywords["time"]
    return Experiment.of(**keywords)
